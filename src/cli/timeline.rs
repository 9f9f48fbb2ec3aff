//! `ptxinspect timeline FILE`: who waits for whom, drawn.

use crate::base::Threads;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::OutputArgs;
use super::limits::LimitArgs;
use super::progress::Progress;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::emit::text::count;
use crate::emit::timeline::Options;
use crate::engine::input;
use crate::engine::progress::Progress as _;
use crate::engine::timeline::{self, Drawing};
use crate::report::spelt;
use crate::report::timeline::{NoTimeline, STEPS};

const EXAMPLES: &str = "\
Examples:
  ptxinspect timeline kernel.ptx                         on the terminal
  ptxinspect timeline kernel.ptx --format svg -o k.svg   a picture for a page or a review
  ptxinspect timeline kernel.ptx --kernel 'gemm_*' --threads 384 --steps 500

It needs no ptxas: the barriers of the PTX are executed. Steps order what happens; they are no time.

Exit status: 0 drawn (a kernel that hangs, too), 2 nothing could be drawn.";

/// `ptxinspect timeline …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArgs {
    /// A PTX file; - is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Choosing")]
    pub threads: Option<Threads>,
    /// How many steps to draw: the first ones, of a kernel that hangs the last
    #[arg(long, value_name = "N", default_value_t = STEPS, value_parser = clap::value_parser!(u64).range(1..=20_000), help_heading = "Choosing")]
    pub steps: u64,
    /// The form of the timeline
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TimelineFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How much it may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Forms of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// For people
    Text,
    /// A picture, light or dark as its reader's page is
    Svg,
    /// For programs: docs/schema/timeline-v1.schema.json
    Json,
}

impl From<TimelineFormat> for Form {
    fn from(format: TimelineFormat) -> Self {
        match format {
            TimelineFormat::Text => Form::Text,
            TimelineFormat::Svg => Form::Plain,
            TimelineFormat::Json => Form::Json,
        }
    }
}

/// Executes the chosen kernels and draws them.
pub fn run(args: &TimelineArgs) -> Result<Outcome> {
    let limits = args.limits.limits()?;
    let input = input::read(&args.input, &limits)?;
    let TimelineArgs { kernel, threads, steps, .. } = args;
    let drawing = Drawing { kernel: kernel.clone(), threads: *threads, steps: *steps, limits };
    let progress = Progress::new("executing its barriers", args.output.quiet);
    progress.expect(1);
    let (timelines, refused) = timeline::draw(&input, &drawing)?;
    drop(progress);
    let mut errors = output::errors();
    if timelines.is_empty() {
        for (name, why) in &refused {
            emit::text::write_error(&format!("{}: {name}: {why}", input.name), &mut errors)?;
        }
        return Ok(Outcome::Failed);
    }
    let options = Options { width: output::width(&args.output), verbose: args.output.verbose };
    output::write(&args.output, args.format, |out| match args.format {
        TimelineFormat::Text => emit::timeline::write_text(&timelines, &options, out),
        TimelineFormat::Svg => emit::timeline::write_svg(&timelines, out),
        TimelineFormat::Json => emit::timeline::write_json(&timelines, out),
    })?;
    let mut outcome = Outcome::Fine;
    // Beside kernels that have one, nothing to draw is no failure.
    let (silent, failed): (Vec<_>, Vec<_>) =
        refused.iter().partition(|(_, why)| *why == NoTimeline::NothingSynchronises);
    let input_name = terminal(&input.name);
    match silent.as_slice() {
        _ if args.output.quiet => {}
        [] => {}
        [(name, why)] => writeln!(errors, "{input_name}: {}: {why}", terminal(&spelt(name)))?,
        _ => {
            let others = count(silent.len() as u64, "other kernel");
            writeln!(errors, "{input_name}: {others} have no barrier, no mbarrier and no setmaxnreg to draw")?;
        }
    }
    for (name, why) in failed {
        emit::text::write_error(&format!("{}: {name}: {why}", input.name), &mut errors)?;
        outcome = Outcome::Failed;
    }
    Ok(outcome)
}
