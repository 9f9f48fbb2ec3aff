//! `ptxinspect tune`: flags and edits tried on a kernel, and what they give.

use crate::base::Threads;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::{OutputArgs, RunArgs, smem_bytes};
use super::progress::Progress;
use super::toolchain::INSTALLING;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::engine::given::Given;
use crate::engine::settings::{Settings, Within};
use crate::engine::tune::{ROWS, RUNS, Request, apply, tune};
use crate::report::LaunchHints;
use crate::tune::Tuning;
use crate::tune::edit::Edit;

const EXAMPLES: &str = "\
Examples:
  ptxinspect tune kernel.ptx --arch sm_90a                 what ptxas flags and small edits give, tried
  ptxinspect tune kernel.ptx --budget 400 --ptxas 12.9,13.4      more builds, with two releases
  ptxinspect tune kernel.ptx --threads 128 --smem-dynamic 65536  with the launch, for blocks per SM
  ptxinspect tune kernel.ptx --write-patch patches         a .patch file for each row with an edit
  ptxinspect tune kernel.ptx --apply nounroll@120 -o k.ptx make the edits of a row

Every row was built, and its command builds it again, byte for byte. An edit is tried only where its condition, which leaves
results as they are, can be checked.

Exit status: 0 done (nothing helps is an answer), 2 it could not be done.";

/// Forms of a tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TuneFormat {
    /// For people
    Text,
    /// For programs: docs/schema/tune-v1.schema.json
    Json,
    /// A picture: what was found, by spills and instructions
    Svg,
    /// A page: the picture, the table with commands and patches, why
    Html,
}

impl From<TuneFormat> for Form {
    fn from(format: TuneFormat) -> Self {
        match format {
            TuneFormat::Text => Form::Text,
            TuneFormat::Json => Form::Json,
            TuneFormat::Svg | TuneFormat::Html => Form::Plain,
        }
    }
}

/// `ptxinspect tune …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// PTX files
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Architectures: repeat, or separate with commas [default: the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Compiling")]
    pub arch: Vec<String>,
    /// ptxas versions or paths to try: repeat, or separate with commas; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Compiling")]
    pub ptxas: Vec<String>,
    /// Builds of each kernel, at most
    #[arg(long, value_name = "RUNS", default_value_t = RUNS as u32, value_parser = clap::value_parser!(u32).range(1..=20_000), help_heading = "Searching")]
    pub budget: u32,
    /// Time for each kernel, in minutes; without it, as long as its builds take
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Searching")]
    pub minutes: Option<f64>,
    /// Files for --apply-controls of ptxas 13.4 and later, tried like other changes; repeat for several
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Searching")]
    pub apply_controls: Vec<String>,
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
    /// Make these edits of the PTX and write it, instead of searching: nounroll@120, maxnreg=96, …; repeat for several
    #[arg(long, value_name = "EDIT", help_heading = "Editing")]
    pub apply: Vec<Edit>,
    /// Write a .patch file for each row with an edit into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Editing")]
    pub write_patch: Option<PathBuf>,
    /// Rows of the table, at most
    #[arg(long, value_name = "N", default_value_t = ROWS, help_heading = "Output")]
    pub rows: usize,
    /// The form of the answer
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TuneFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas in every build, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

impl TuneArgs {
    fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            inputs: self.inputs.clone(),
            arch: self.arch.clone(),
            ptxas: None,
            kernel: self.kernel.clone(),
            jobs: self.run.jobs,
            within: Within::default(),
            limits: self.run.limits.limits()?,
            flags: self.flags.clone(),
            offline: self.run.limits.offline,
        })
    }

    /// The files for `--apply-controls`: what they hold only ptxas knows.
    fn controls(&self) -> Result<Vec<String>> {
        for file in &self.apply_controls {
            // ptxas takes several, separated by commas.
            if file.contains([',', ' ']) {
                bail!("--apply-controls {file}: ptxas takes no file with a comma or a space in its name");
            }
            if !Path::new(file).is_file() {
                bail!("--apply-controls {file}: there is no such file");
            }
        }
        Ok(self.apply_controls.clone())
    }

    /// What the flags decide.
    fn request(&self) -> Result<Request> {
        let time = match self.minutes {
            Some(minutes) if !(minutes > 0.0 && minutes.is_finite() && minutes < 1e6) => {
                bail!("--minutes {minutes} is no time: expected a number above 0")
            }
            minutes => minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        };
        Ok(Request {
            settings: self.settings()?,
            ptxas: self.ptxas.clone(),
            runs: self.budget as usize,
            time,
            controls: self.controls()?,
            rows: self.rows,
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

/// Searches and writes, or makes the edits that are asked for.
pub fn run(args: &TuneArgs) -> Result<Outcome> {
    if !args.apply.is_empty() {
        return edit(args);
    }
    let progress = Progress::new("trying", args.output.quiet);
    let request = args.request()?;
    let limits = request.settings.limits;
    let inputs: Vec<Given> = args.inputs.iter().map(|path| Given::file(path, limits)).collect();
    let tuning = tune(&request, &inputs, &progress)?;
    drop(progress);
    output::write(&args.output, args.format, |out| match args.format {
        TuneFormat::Text => {
            let options = emit::tune::Options { width: output::width(&args.output), verbose: args.output.verbose };
            emit::tune::write_text(&tuning, &options, out)
        }
        TuneFormat::Json => emit::tune::write_json(&tuning, out),
        TuneFormat::Svg => emit::tune::write_svg(&tuning, out),
        TuneFormat::Html => emit::tune::write_html(&tuning, out),
    })?;
    if let Some(folder) = &args.write_patch {
        let written = write_patches(&tuning, folder)?;
        if !args.output.quiet {
            writeln!(
                output::errors(),
                "{written} patches are in {}",
                emit::escape::terminal(&folder.display().to_string())
            )?;
        }
    }
    Ok(Outcome::Fine)
}

/// The PTX with some edits.
fn edit(args: &TuneArgs) -> Result<Outcome> {
    let [input] = args.inputs.as_slice() else { bail!("--apply edits one PTX file: {} are given", args.inputs.len()) };
    let (_, _, edited) = apply(input, &args.settings()?, &args.apply)?;
    output::write(&args.output, Form::Plain, |out| out.write_all(edited.as_bytes()))?;
    Ok(Outcome::Fine)
}

/// A file for each row with an edit: `KERNEL.rowN.patch`.
fn write_patches(tuning: &Tuning, folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    let mut written = 0;
    for (at, kernel) in tuning.kernels.iter().enumerate() {
        for row in &kernel.rows {
            let Some(patch) = &row.patch else { continue };
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
            let name: String = kernel.kernel.chars().take(60).map(plain).collect();
            let number = if tuning.kernels.len() > 1 { format!("{}.", at + 1) } else { String::new() };
            let path = folder.join(format!("{number}{name}.row{}.patch", row.row));
            fs::write(&path, patch).with_context(|| format!("{} cannot be written", path.display()))?;
            written += 1;
        }
    }
    Ok(written)
}
