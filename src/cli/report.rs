//! `ptxinspect FILE…`: the report.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::CommandFactory;

use super::Outcome;
use super::args::{Args, ReportArgs, ReportFormat};
use super::progress::Progress;
use super::vain::in_vain;
use super::{library, output};
use crate::base::Line;
use crate::base::spelling::{distance, nearest};
use crate::emit;
use crate::emit::escape::terminal;
use crate::engine::deny::{Denied, Deny};
use crate::engine::given;
use crate::engine::glob::nearest_of;
use crate::engine::inspect::{View, inspect_all};
use crate::engine::source;
use crate::report::{Effort, LaunchHints, ProblemStage, Report, Unit, abridge};
use crate::toolchain;

/// Hot lines that are shown when nobody says how many.
const HOT_LINES: usize = 5;

/// Compiles or reads every input for every architecture, joins, writes.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    mistyped_command(args)?;
    if library::wants_table(args)? {
        return library::run(args);
    }
    let mut session = args.compile.session()?;
    session.launch =
        LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic, effort: Effort::of(args.thorough) };
    session.at = args.at.iter().copied().map(Line).collect();
    session.roles.clone_from(&args.roles);
    session.tries_step = args.try_step;
    let deny = Deny::new(&args.deny, &args.allow).map_err(Error::msg)?;
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    given::refuse_idle_flags(&inputs, &session.flags)?;
    let mut find = source::Finder::new(args.source_root.as_deref())?;
    let for_page = args.format == ReportFormat::Html;
    // The page shows the code too.
    let view = if for_page { View::Annotation { values: true } } else { View::Report };
    let mut units = inspect_all(&session, &inputs, view, &Progress::new("compiling", args.output.quiet));
    toolchain::release_guard();
    if for_page {
        units.iter_mut().for_each(|(_, annotation)| find.fill(annotation));
        output::write(&args.output, args.format, |out| emit::html::write(&units, emit::html::Opening::Report, out))?;
    }
    let mut units: Vec<Unit> = units.into_iter().map(|(unit, _)| unit).collect();
    if args.format == ReportFormat::Text {
        units.iter_mut().for_each(|unit| find.quote(unit));
    }
    let report = Report::new(units);
    match args.format {
        ReportFormat::Json => output::write(&args.output, args.format, |out| emit::json::write(&report, out))?,
        ReportFormat::Html | ReportFormat::Jsonl | ReportFormat::Csv | ReportFormat::Markdown => {}
        ReportFormat::Text => {
            let inputs = report.units.iter().map(|unit| (unit.input.as_str(), PathBuf::from(&unit.input)));
            let sources = find.found().map(|(name, path)| (name, path.to_owned()));
            let links = output::links(&args.output, inputs.chain(sources));
            let options = emit::text::Options {
                links: links.as_ref(),
                verbose: args.output.verbose,
                top: args.top.unwrap_or(HOT_LINES),
                width: output::width(&args.output),
                pictures: true,
            };
            output::write_linked(&args.output, args.format, links.as_ref(), |out| {
                emit::text::write(&report, &options, out)
            })?;
        }
    }
    let mut errors = output::errors();
    for unit in &report.units {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    if !args.output.quiet {
        for remark in report.units.iter().flat_map(|unit| in_vain(unit, args)) {
            writeln!(errors, "{}", terminal(&remark))?;
        }
    }
    let no_match = !session.kernels.is_empty() && report.units.iter().all(|unit| unit.kernels.is_empty());
    if report.units.iter().any(|unit| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    if no_match {
        let (asked, near) = (&args.compile.kernel, nearest_of(&args.compile.kernel, &report.units));
        anyhow::bail!("--kernel {} matches no kernel of any input{near}", asked.join(", "));
    }
    let is_there = |line: &Line| report.units.iter().any(|unit| unit.ptx.line(*line).is_some());
    if let Some(line) = session.at.iter().find(|line| !is_there(line)) {
        let lines = report.units.iter().map(|unit| unit.ptx.line_count()).max().unwrap_or(0);
        anyhow::bail!("--at {line}: there is no such line; expected 1 to {lines}");
    }
    let is_alive = |line: &Line| report.kernels().any(|kernel| kernel.live_at.iter().any(|at| at.ptx_line == *line));
    let is_held =
        |line: &Line| report.kernels().any(|kernel| kernel.fragments_at.iter().any(|at| at.ptx_line == *line));
    for line in session.at.iter().filter(|line| !is_alive(line) && !is_held(line)) {
        writeln!(errors, "--at {line}: no instruction comes from that line, so nothing is alive at it")?;
    }
    let given_up = |unit: &Unit| unit.problems.iter().any(|problem| problem.stage == ProblemStage::Analysis);
    if !args.deny.is_empty() && report.units.iter().any(given_up) {
        return Ok(Outcome::Failed);
    }
    let verdict = deny.verdict(&report);
    Ok(match (&verdict.denied[..], &verdict.not_known[..]) {
        ([], []) => Outcome::Fine,
        ([], unknown) => {
            writeln!(errors, "denied and not known: {}", listed(unknown))?;
            Outcome::Failed
        }
        (denied, _) => {
            writeln!(errors, "denied: {}", listed(denied))?;
            Outcome::Findings
        }
    })
}

/// Says what was meant where the first input is no file, and nearly the name of a command.
fn mistyped_command(args: &ReportArgs) -> Result<()> {
    const NEAR: usize = 2;
    let Some(first) = args.compile.inputs.first().and_then(|path| path.to_str()) else { return Ok(()) };
    if !first.chars().all(|c| c.is_ascii_lowercase()) || std::path::Path::new(first).exists() {
        return Ok(());
    }
    if first == "help" {
        let of = args.compile.inputs.get(1).map(|command| format!("{} ", command.display())).unwrap_or_default();
        anyhow::bail!(
            "there is no file 'help', and no command of that name: `ptxinspect {of}--help` has what you look for"
        );
    }
    let command = Args::command();
    let name = nearest(first, command.get_subcommands().map(|command| command.get_name())).unwrap_or_default();
    if distance(first, name) <= NEAR {
        anyhow::bail!("there is no file '{first}', and no command of that name: did you mean `ptxinspect {name}`?");
    }
    let others: Vec<String> = args
        .compile
        .inputs
        .iter()
        .skip(1)
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    if !others.is_empty() {
        anyhow::bail!(
            "there is no file '{first}', and no command of that name: the report needs none, as in `ptxinspect {}`",
            others.join(" ")
        );
    }
    Ok(())
}

/// What is denied, on one line: the first few with their places.
fn listed(all: &[Denied]) -> String {
    const SHOWN: usize = 4;
    let told = |denied: &Denied| format!("{} ({})", denied.what, abridge(&denied.place, 60));
    let mut parts: Vec<String> = all.iter().take(SHOWN).map(told).collect();
    if all.len() > SHOWN {
        parts.push(format!("and {} more", all.len() - SHOWN));
    }
    terminal(&parts.join(", ")).into_owned()
}
