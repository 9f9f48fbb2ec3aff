//! `ptxinspect diff A B`: two builds side by side.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::{CompileArgs, OutputArgs, RunArgs, smem_bytes};
use super::choose::WithinArgs;
use super::progress::Progress;
use super::toolchain::INSTALLING;
use super::{Outcome, output, vain};
use crate::base::Threads;
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::engine::diff::{Loaded, Refused, Side, compare};
use crate::engine::progress::Progress as _;
use crate::engine::threads::Pool;
use crate::report::LaunchHints;

const EXAMPLES: &str = "\
Examples:
  ptxinspect diff old.ptx new.ptx --arch sm_90a        two versions of a kernel
  ptxinspect diff old.cubin new.cubin                  two builds
  ptxinspect diff old/libfoo.so new/libfoo.so          two libraries, wheels or folders
  ptxinspect diff old.json new.json                    two reports (--format json)
  ptxinspect diff k.ptx --ptxas 12.9,13.4              one kernel, two releases of ptxas
  ptxinspect diff k.ptx --arch sm_90a,sm_100a          one kernel, two architectures
  ptxinspect diff k.ptx --after-flags=-O1              one kernel, with and without a flag
  ptxinspect diff a.ptx b.ptx --format html -o d.html  as a page

Exit status: 0 compared, 1 something differs (--exit-code), 2 it could not do the job.";

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A page in one file
    Html,
}

impl From<DiffFormat> for Form {
    fn from(format: DiffFormat) -> Self {
        match format {
            DiffFormat::Text => Form::Text,
            DiffFormat::Json => Form::Json,
            DiffFormat::Html => Form::Plain,
        }
    }
}

/// `ptxinspect diff …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// PTX, cubin, library or JSON report: one before, one after; or one PTX, built in two ways
    #[arg(required = true, num_args = 1..=2, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// The architecture to compile PTX for, or two: before, after [default: the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Compiling")]
    pub arch: Vec<String>,
    /// The ptxas to run, or two: before, after
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Compiling")]
    pub ptxas: Vec<String>,
    /// Flags for ptxas on the first side only, separated by spaces
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, help_heading = "Compiling")]
    pub before_flags: Option<String>,
    /// Flags for ptxas on the second side only, separated by spaces
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, help_heading = "Compiling")]
    pub after_flags: Option<String>,
    /// How to run ptxas.
    #[command(flatten)]
    pub run: RunArgs,
    /// Which parts of libraries.
    #[command(flatten)]
    pub within: WithinArgs,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Occupancy")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", value_parser = smem_bytes, help_heading = "Occupancy")]
    pub smem_dynamic: Option<u64>,
    /// Exit 1 when something differs
    #[arg(long, help_heading = "Output")]
    pub exit_code: bool,
    /// How many lines and changes of code to show for a kernel
    #[arg(long, value_name = "N", default_value = "20", help_heading = "Output")]
    pub top: usize,
    /// The form of the comparison
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: DiffFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas on both sides, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

/// Builds or reads both sides, compares, writes.
pub fn run(args: &DiffArgs) -> Result<Outcome> {
    check(args)?;
    let pool = Pool::start(args.run.jobs.unwrap_or(0));
    let (before, after) = (side(args, 0)?, side(args, 1)?);
    let progress = Progress::new("compiling and reading", args.output.quiet);
    progress.expect(2);
    let load = |side: &Side| {
        let loaded = side.load();
        progress.advance(1);
        loaded
    };
    let (before, after) = pool.install(|| rayon::join(|| load(&before), || load(&after)));
    drop(progress);
    // Both sides are at work at once: what they complain of is said in order afterwards.
    for refused in [&before, &after].into_iter().filter_map(|side| side.as_ref().err()?.downcast_ref::<Refused>()) {
        for unit in &refused.units {
            emit::text::write_unit_error(unit, &mut output::errors())?;
        }
    }
    let (before, after) = (before?, after?);
    if !args.output.quiet {
        // What rules both sides is said once.
        let remarks = |loaded: &[Loaded], side: usize| -> BTreeSet<String> {
            let flags = flags(args, side);
            loaded.iter().filter_map(|loaded| vain::no_bound(&loaded.unit, &flags)).collect()
        };
        for remark in &remarks(&before, 0) | &remarks(&after, 1) {
            writeln!(output::errors(), "{}", terminal(&remark))?;
        }
    }
    let difference = compare(&before, &after, args.run.limits.limits()?.time)?;
    let options = emit::diff::Options { top: args.top, width: output::width(&args.output), more: emit::diff::MORE };
    output::write(&args.output, args.format, |out| match args.format {
        DiffFormat::Text => emit::diff::write_text(&difference, &options, out),
        DiffFormat::Json => emit::diff::write_json(&difference, out),
        DiffFormat::Html => emit::diff::write_html(&difference, &options, out),
    })?;
    if difference.units.iter().all(|unit| unit.kernels.is_empty()) {
        let kernels = |side: &[Loaded]| side.iter().map(|loaded| loaded.unit.kernels.len()).sum::<usize>();
        if kernels(&before) + kernels(&after) == 0 {
            if !args.kernel.is_empty() {
                bail!("--kernel {} matches no kernel of either side", args.kernel.join(", "));
            }
            if !args.output.quiet {
                writeln!(output::errors(), "no functions on either side")?;
            }
        }
    }
    let differs = difference.units.iter().flat_map(|unit| &unit.kernels).any(|kernel| !kernel.is_empty());
    Ok(if args.exit_code && differs { Outcome::Findings } else { Outcome::Fine })
}

/// One input has to be built in two ways, and no list may have more than two.
fn check(args: &DiffArgs) -> Result<()> {
    for (name, count) in [("--arch", args.arch.len()), ("--ptxas", args.ptxas.len())] {
        if count > 2 {
            bail!("{name} names {count}: expected one for both sides, or two");
        }
    }
    let ways = args.arch.len() == 2 || args.ptxas.len() == 2 || args.before_flags != args.after_flags;
    if args.inputs.len() == 1 && !ways {
        bail!(
            "there is nothing to compare {} with: name a second input, or two of --arch or --ptxas, or --after-flags",
            args.inputs[0].display()
        );
    }
    Ok(())
}

/// The one of a list that is for a side: its own, or the only one.
fn of_side<T: Clone>(list: &[T], side: usize) -> Option<T> {
    list.get(side).or(list.first()).cloned()
}

/// The flags that ptxas gets for a side.
fn flags(args: &DiffArgs, side: usize) -> Vec<String> {
    let own = if side == 0 { &args.before_flags } else { &args.after_flags };
    let own = own.iter().flat_map(|flags| flags.split_whitespace()).map(str::to_owned);
    args.flags.iter().cloned().chain(own).collect()
}

fn side(args: &DiffArgs, side: usize) -> Result<Side> {
    let compiled = CompileArgs {
        inputs: of_side(&args.inputs, side).into_iter().collect(),
        arch: of_side(&args.arch, side).into_iter().collect(),
        ptxas: of_side(&args.ptxas, side),
        limits: args.run.limits.clone(),
        kernel: args.kernel.clone(),
        jobs: args.run.jobs,
        within: args.within.clone(),
        flags: flags(args, side),
    };
    let launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic, ..LaunchHints::default() };
    Ok(Side { settings: compiled.settings()?, launch, cache: args.run.cache()?, installing: INSTALLING })
}
