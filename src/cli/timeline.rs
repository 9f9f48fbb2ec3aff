//! `ptxinspect timeline FILE`: who waits for whom, drawn.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::OutputArgs;
use super::limits::LimitArgs;
use super::{Outcome, output};
use crate::base::work::{self, Deadline};
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::emit::timeline::Options;
use crate::engine::compile;
use crate::engine::glob::Globs;
use crate::engine::input::{self, Kind};
use crate::ptx::{self, FunctionKind};
use crate::report::timeline::{NoTimeline, STEPS, Timeline, timeline};
use crate::report::{LaunchHints, demangle, shorten};

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
    /// Threads of a block, for kernels whose directives do not say
    #[arg(long, value_name = "N", help_heading = "Choosing")]
    pub threads: Option<u32>,
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
    match input.kind() {
        Ok(Kind::Ptx) => {}
        Ok(Kind::Cubin) => bail!(
            "{} is a cubin: a timeline is drawn from PTX, whose barriers are executed; expected PTX text",
            input.name
        ),
        Err(error) => bail!("{}: {error}", input.name),
    }
    let drawn = work::until(Deadline::after(limits.time), || draw(args, &input.name, &input.text()));
    let Ok(drawn) = drawn else { bail!("{}: {}", input.name, compile::out_of_time(limits.time)) };
    let (timelines, refused) = drawn?;
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
    for (name, why) in &refused {
        // Beside kernels that have one, nothing to draw is no failure.
        if *why == NoTimeline::NothingSynchronises {
            if !args.output.quiet {
                writeln!(errors, "{}: {}: {why}", terminal(&input.name), terminal(name))?;
            }
        } else {
            emit::text::write_error(&format!("{}: {name}: {why}", input.name), &mut errors)?;
            outcome = Outcome::Failed;
        }
    }
    Ok(outcome)
}

type Drawn = (Vec<Timeline>, Vec<(String, NoTimeline)>);

fn draw(args: &TimelineArgs, input: &str, text: &str) -> Result<Drawn> {
    let globs = Globs::new(&args.kernel)?;
    let module = ptx::parse(text);
    let kernels: Vec<_> = module
        .functions()
        .filter(|function| function.is_definition() && function.kind() == FunctionKind::Entry)
        .collect();
    if kernels.is_empty() {
        bail!("{input} has no kernel: expected PTX with an .entry");
    }
    let launch = LaunchHints { threads: args.threads, ..LaunchHints::default() };
    let (mut timelines, mut refused) = (Vec::new(), Vec::new());
    let mut matched = false;
    for function in &kernels {
        let name = function.name();
        if !globs.matches([name].into_iter().chain(demangle(name).as_deref())) {
            continue;
        }
        matched = true;
        match timeline(function, &launch, args.steps) {
            Ok(found) => timelines.push(found),
            Err(why) => refused.push((name.to_owned(), why)),
        }
    }
    if !matched {
        let names: Vec<&str> = kernels.iter().map(|function| function.name()).collect();
        bail!("--kernel {} matches no kernel of {input}; {}", args.kernel.join(", "), nearest(&args.kernel, &names));
    }
    Ok((timelines, refused))
}

/// The kernel that was meant, as far as its spelling tells, and how many others there are.
fn nearest(asked: &[String], names: &[&str]) -> String {
    const LOOKED_AT: usize = 1000;
    let close =
        names.iter().take(LOOKED_AT).flat_map(|name| asked.iter().map(move |asked| (distance(asked, name), name)));
    let Some((_, name)) = close.min_by_key(|(distance, _)| *distance) else { return "it has none".to_owned() };
    let name = shorten(name, 100);
    match names.len() {
        1 => format!("it has {name}"),
        count => format!("the nearest of its {count} is {name}"),
    }
}

/// Levenshtein's distance, of the first characters.
fn distance(a: &str, b: &str) -> usize {
    const CHARACTERS: usize = 100;
    let b: Vec<char> = b.chars().take(CHARACTERS).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.chars().take(CHARACTERS).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to, y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != *y)).min(row[to] + 1).min(row[to + 1] + 1);
            diagonal = std::mem::replace(&mut row[to + 1], cost);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_have_a_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest(&["gem".to_owned()], &["softmax", "gemm"]), "the nearest of its 2 is gemm");
        assert_eq!(nearest(&["x".to_owned()], &["gemm"]), "it has gemm");
    }
}
