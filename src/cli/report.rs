//! `ptxinspect FILE…`: the report.

use anyhow::Result;
use rayon::prelude::*;

use super::Outcome;
use super::args::{ReportArgs, ReportFormat};
use super::progress::Progress;
use super::{library, output};
use crate::base::Line;
use crate::emit;
use crate::engine::given::{self, Given};
use crate::engine::inspect::{Job, View, inspect};
use crate::engine::source;
use crate::report::annotation::Annotation;
use crate::report::{self, Advisory, Issue, LaunchHints, Report, Severity, Unit};

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
    let deny = Deny::new(&args.deny, &args.allow);
    let arches = session.arches();
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    let progress = Progress::new((inputs.len() * arches.len()) as u64, "compiling", args.output.quiet);
    let for_page = args.format == ReportFormat::Html;
    let inspect_all = |given: &Given| {
        let path = given.path.as_path();
        // One read serves all architectures of a file.
        let input = given.read();
        let units = arches.par_iter().enumerate().filter_map(|(index, arch)| {
            // The page shows the code too.
            let view = if for_page { View::Annotation { values: true } } else { View::Report };
            let job = Job { input: &input, path, arch: *arch, first: index == 0, view };
            let inspected = inspect(&session, &job);
            progress.step();
            inspected.map(|inspected| (inspected.unit, inspected.annotation))
        });
        units.collect::<Vec<_>>()
    };
    let mut units: Vec<(Unit, Annotation)> =
        session.pool().install(|| inputs.par_iter().flat_map(inspect_all).collect());
    drop(progress);
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
    let given_up = |unit: &Unit| unit.problems.iter().any(|problem| problem.stage == report::GIVEN_UP);
    if !args.deny.is_empty() && report.units.iter().any(given_up) {
        return Ok(Outcome::Failed);
    }
    let denied = report.units.iter().any(|unit| {
        let mut issues =
            unit.kernels.iter().filter_map(|kernel| kernel.barriers.as_ref()).flat_map(|found| &found.issues);
        unit.advisories.iter().any(|advisory| deny.denies(advisory)) || issues.any(|issue| deny.denies_issue(issue))
    });
    Ok(if denied { Outcome::Findings } else { Outcome::Fine })
}

/// What `--deny` and `--allow` say.
struct Deny {
    codes: Vec<String>,
    warnings: bool,
    advisories: bool,
    allowed: Vec<String>,
}

impl Deny {
    fn new(deny: &[String], allow: &[String]) -> Self {
        let upper = |codes: &[String]| codes.iter().map(|code| code.trim().to_ascii_uppercase()).collect::<Vec<_>>();
        let codes = upper(deny);
        let has = |word: &str| codes.iter().any(|code| code == word);
        Deny { warnings: has("WARNINGS"), advisories: has("ADVISORIES"), codes, allowed: upper(allow) }
    }

    fn denies_issue(&self, issue: &Issue) -> bool {
        let listed = |codes: &[String]| codes.contains(&issue.code);
        !listed(&self.allowed) && (listed(&self.codes) || self.warnings && issue.severity >= Severity::Warning)
    }

    fn denies(&self, advisory: &Advisory) -> bool {
        let code = advisory.code.as_deref();
        if code.is_some_and(|code| self.allowed.iter().any(|allowed| allowed == code)) {
            return false;
        }
        code.is_some_and(|code| self.codes.iter().any(|denied| denied == code))
            || self.warnings && advisory.severity >= Severity::Warning
            || self.advisories && (code.is_some() || advisory.severity >= Severity::Warning)
    }
}
