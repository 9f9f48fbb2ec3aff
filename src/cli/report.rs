//! `ptxinspect FILE…`: the report.

use anyhow::Result;

use super::Outcome;
use super::args::{ReportArgs, ReportFormat};
use super::progress::Progress;
use super::{library, output};
use crate::base::Line;
use crate::emit;
use crate::emit::escape::terminal;
use crate::engine::deny::{Denied, Deny};
use crate::engine::given;
use crate::engine::inspect::{View, inspect_all};
use crate::engine::source;
use crate::report::{LaunchHints, ProblemStage, Report, Unit, abridge};

/// Hot lines that are shown when nobody says how many.
const HOT_LINES: usize = 5;

/// Compiles or reads every input for every architecture, joins, writes.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    if library::wants_table(args)? {
        return library::run(args);
    }
    let mut session = args.compile.session()?;
    session.launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic };
    session.at = args.at.iter().copied().map(Line).collect();
    session.roles.clone_from(&args.roles);
    let deny = Deny::new(&args.deny, &args.allow).map_err(Error::msg)?;
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    let for_page = args.format == ReportFormat::Html;
    // The page shows the code too.
    let view = if for_page { View::Annotation { values: true } } else { View::Report };
    let mut units = inspect_all(&session, &inputs, view, &Progress::new("compiling", args.output.quiet));
    if for_page {
        let mut find = source::Finder::new(args.source_root.as_deref());
        units.iter_mut().for_each(|(_, annotation)| find.fill(annotation));
        output::write(&args.output, args.format, |out| emit::html::write(&units, emit::html::Opening::Report, out))?;
    }
    let units: Vec<Unit> = units.into_iter().map(|(unit, _)| unit).collect();
    let report = Report::new(units);
    match args.format {
        ReportFormat::Json => output::write(&args.output, args.format, |out| emit::json::write(&report, out))?,
        ReportFormat::Html | ReportFormat::Jsonl | ReportFormat::Csv | ReportFormat::Markdown => {}
        ReportFormat::Text => {
            let options = emit::text::Options {
                verbose: args.output.verbose,
                top: args.top.unwrap_or(HOT_LINES),
                width: output::width(&args.output),
                pictures: true,
            };
            output::write(&args.output, args.format, |out| emit::text::write(&report, &options, out))?;
        }
    }
    let mut errors = output::errors();
    for unit in &report.units {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    let no_match = !session.kernels.is_empty() && report.units.iter().all(|unit| unit.kernels.is_empty());
    if report.units.iter().any(|unit| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    if no_match {
        anyhow::bail!("--kernel {} matches no kernel of any input", args.compile.kernel.join(", "));
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
