//! `ptxinspect matrix`: kernels × architectures × ptxas versions × flags.

use crate::base::Threads;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::{OutputArgs, RunArgs, smem_bytes};
use super::progress::Progress;
use super::toolchain::INSTALLING;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::engine::input;
use crate::engine::matrix::{Request, measure, pages};
use crate::engine::settings::{Settings, Within};
use crate::gate::Metric;
use crate::matrix::Sweep;
use crate::report::LaunchHints;

const EXAMPLES: &str = "\
Examples:
  ptxinspect matrix k.ptx --arch sm_90a,sm_100a --ptxas 12.9,13.0,13.4
  ptxinspect matrix k.ptx --sweep maxrregcount=64..255:8
  ptxinspect matrix k.ptx --sweep opt-level=1,2,3 --sweep register-usage-level=0..10:5
  ptxinspect matrix k.ptx --ptxas 12.0..13.4 --bisect registers      the first release in which it changed
  ptxinspect matrix k.ptx --sweep maxrregcount=64..255:8 --format html -o m.html      as a page

Exit status: 0 done (cells that cannot be compiled are said), 2 no cell could be measured.";

/// Forms of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MatrixFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A page in one file
    Html,
}

impl From<MatrixFormat> for Form {
    fn from(format: MatrixFormat) -> Self {
        match format {
            MatrixFormat::Text => Form::Text,
            MatrixFormat::Json => Form::Json,
            MatrixFormat::Html => Form::Plain,
        }
    }
}

/// `ptxinspect matrix …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// PTX files
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Architectures: repeat, or separate with commas [default: the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Axes")]
    pub arch: Vec<String>,
    /// ptxas versions or paths: repeat, or separate with commas; 12.0..13.4 is every release there is between
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Axes")]
    pub ptxas: Vec<String>,
    /// A flag of ptxas and the values to try: maxrregcount=64..255:8, opt-level=1,2,3; repeat for several
    #[arg(long, value_name = "FLAG=VALUES", help_heading = "Axes")]
    pub sweep: Vec<Sweep>,
    /// Find the first ptxas in which this figure changed, with as few runs as it takes
    #[arg(long, value_name = "METRIC", help_heading = "Axes")]
    pub bisect: Option<Metric>,
    /// The columns [default: registers, spill_store_bytes, instructions, warps_per_sm]
    #[arg(long, value_delimiter = ',', value_name = "METRIC", help_heading = "Output")]
    pub metric: Vec<Metric>,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// How to run ptxas.
    #[command(flatten)]
    pub run: RunArgs,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Occupancy")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", value_parser = smem_bytes, help_heading = "Occupancy")]
    pub smem_dynamic: Option<u64>,
    /// The form of the matrix
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: MatrixFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas in every cell, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

impl MatrixArgs {
    /// What the flags decide.
    fn request(&self) -> Result<Request> {
        let settings = Settings {
            inputs: input::files(&self.inputs),
            arch: self.arch.clone(),
            ptxas: None,
            kernel: self.kernel.clone(),
            jobs: self.run.jobs,
            within: Within::default(),
            limits: self.run.limits.limits()?,
            flags: self.flags.clone(),
            offline: self.run.limits.offline,
        };
        Ok(Request {
            settings,
            ptxas: self.ptxas.clone(),
            sweep: self.sweep.clone(),
            bisect: self.bisect,
            launch: LaunchHints {
                threads: self.threads,
                smem_dynamic_bytes: self.smem_dynamic,
                ..LaunchHints::default()
            },
            cache: self.run.cache()?,
            installing: INSTALLING,
        })
    }
}

/// Measures every cell, or those that a bisection needs, and writes.
pub fn run(args: &MatrixArgs) -> Result<Outcome> {
    let progress = Progress::new("measuring", args.output.quiet);
    let request = args.request()?;
    let matrix = measure(&request, &progress)?;
    drop(progress);
    let default = [Metric::Registers, Metric::SpillStoreBytes, Metric::Instructions, Metric::WarpsPerSm];
    let metrics = if args.metric.is_empty() { default.to_vec() } else { args.metric.clone() };
    match args.format {
        MatrixFormat::Json => output::write(&args.output, args.format, |out| emit::matrix::write_json(&matrix, out))?,
        MatrixFormat::Text => {
            let options = emit::matrix::Options { metrics, width: output::width(&args.output) };
            output::write(&args.output, args.format, |out| emit::matrix::write_text(&matrix, &options, out))?;
        }
        MatrixFormat::Html => {
            let pages = pages(&request, &matrix, &Progress::new("reading the code", args.output.quiet))?;
            output::write(&args.output, args.format, |out| emit::html::write_matrix(&matrix, &metrics, pages, out))?;
        }
    }
    let nothing = matrix.cells.iter().all(|cell| cell.error.is_some());
    if !nothing && matrix.cells.iter().all(|cell| cell.kernels.is_empty()) {
        bail!("there is no kernel in any cell{}", if args.kernel.is_empty() { "" } else { " that --kernel matches" });
    }
    // That a ptxas does not take a PTX is an answer; that nothing could be asked of it is none.
    let failed = nothing || matrix.cells.iter().any(|cell| cell.failed);
    if failed {
        let (wrong, all) = (matrix.cells.iter().filter(|cell| cell.error.is_some()).count(), matrix.cells.len());
        let said = format!("{wrong} of {all} builds came to nothing; the matrix says why");
        emit::text::write_error(&said, &mut output::errors())?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}
