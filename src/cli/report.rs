//! `ptxinspect FILE…`: the report.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use rayon::prelude::*;

use super::Outcome;
use super::args::{ReportArgs, ReportFormat};
use super::compile::{self, Built, Session};
use super::given::{self, Given};
use super::progress::Progress;
use super::{annotate, library, output};
use crate::base::work::{self, Deadline, TimeOver};
use crate::base::{Arch, Line};
use crate::cubin::Image;
use crate::cubin::lines::ptx_texts;
use crate::emit;
use crate::engine::input::{Input, Kind};
use crate::engine::{memory, source};
use crate::ptx;
use crate::report::annotation::Annotation;
use crate::report::{
    self, Advisory, Evaluated, Issue, LaunchHints, Layout, PtxText, Report, Severity, Unit, UnitError,
};

/// Hot lines that are shown when nobody says how many.
const HOT_LINES: usize = 5;

/// Compiles or reads every input for every architecture, joins, writes.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    if library::wants_table(args)? {
        return library::run(args);
    }
    let mut session = Session::new(&args.compile)?;
    session.launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic };
    session.at = args.at.iter().copied().map(Line).collect();
    session.roles.clone_from(&args.roles);
    let deny = Deny::new(&args.deny, &args.allow);
    let arches = session.arches();
    let inputs = given::expand(&session.inputs, &args.compile)?;
    let progress = Progress::new((inputs.len() * arches.len()) as u64, "compiling", args.output.quiet);
    let for_page = args.format == ReportFormat::Html;
    let inspect_all = |given: &Given| {
        let path = given.path.as_path();
        // One read serves all architectures of a file.
        let input = given.read();
        let units = arches.par_iter().enumerate().filter_map(|(index, arch)| {
            // The page shows the code too.
            let unit = if for_page {
                annotate::annotate(&session, path, &input, *arch, index == 0, true)
            } else {
                inspect(&session, path, &input, *arch, index == 0).map(|unit| (unit, Annotation::default()))
            };
            progress.step();
            unit
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

/// One input for one architecture.
pub(super) fn inspect(
    session: &Session,
    path: &Path,
    input: &Result<Input, String>,
    arch: Option<Arch>,
    first: bool,
) -> Option<Unit> {
    inspect_built(session, path, input, arch, first).map(|(unit, _)| unit)
}

/// The same, with the cubin.
pub(super) fn inspect_built<'a>(
    session: &Session,
    path: &Path,
    input: &'a Result<Input, String>,
    arch: Option<Arch>,
    first: bool,
) -> Option<(Unit, Option<Built<'a>>)> {
    inspect_with(session, path, input, arch, first, |unit, built, parsed| {
        join(session, unit, &built, parsed);
        built
    })
}

/// The PTX of an input, if it is PTX.
pub(super) fn text_of(input: &Result<Input, String>) -> Option<Cow<'_, str>> {
    input.as_ref().ok().filter(|input| matches!(input.kind(), Ok(Kind::Ptx))).map(Input::text)
}

/// PTX as one build needs it, or several.
pub(super) struct Parsed<'t> {
    /// The statements.
    pub module: ptx::Module<'t>,
    /// Its threads, as far as they were evaluated while ptxas ran, or where builds share them.
    evaluated: OnceLock<Evaluated>,
}

/// A PTX that is built several times: parsed and evaluated once, by whoever comes first.
pub(super) struct Shared<'t> {
    text: Option<&'t str>,
    parsed: OnceLock<Parsed<'t>>,
    /// How many builds there are.
    builds: usize,
    /// ptxas is done with the only one: nothing is to be waited for any more.
    is_built: AtomicBool,
}

impl<'t> Shared<'t> {
    /// PTX that is built so many times.
    pub fn new(text: Option<&'t str>, builds: usize) -> Self {
        Shared { text, parsed: OnceLock::new(), builds, is_built: AtomicBool::new(false) }
    }

    /// Whether there is something to parse that nobody has parsed.
    fn is_new(&self) -> bool {
        self.text.is_some() && self.parsed.get().is_none()
    }

    fn parsed(&self) -> Option<&Parsed<'t>> {
        let text = self.text?;
        Some(self.parsed.get_or_init(|| Parsed { module: ptx::parse(text), evaluated: OnceLock::new() }))
    }

    /// Evaluates as much as there is time for.
    fn evaluate(&self, parsed: &Parsed<'t>, session: &Session) {
        if !session.wanted.warps {
            return;
        }
        // Several builds need every kernel, again and again.
        let is_time = || self.builds > 1 || !self.is_built.load(Ordering::Relaxed);
        parsed.evaluated.get_or_init(|| Evaluated::new(&parsed.module, &session.launch, is_time));
        // While ptxas runs it costs nobody any time.
        if self.builds == 1 && is_time() {
            memory::give_back();
        }
    }
}

/// One input for one architecture, its PTX shared with other builds of it.
pub(super) fn inspect_shared(
    session: &Session,
    path: &Path,
    input: &Result<Input, String>,
    shared: &Shared<'_>,
    arch: Option<Arch>,
    first: bool,
) -> Option<Unit> {
    let then = |unit: &mut Unit, built: Built<'_>, parsed: Option<&Parsed<'_>>| join(session, unit, &built, parsed);
    build(session, path, input, shared, arch, first, then).map(|(unit, _)| unit)
}

/// The same, with what `then` makes of the cubin and the PTX, which also joins them into the unit.
pub(super) fn inspect_with<'a, T>(
    session: &Session,
    path: &Path,
    input: &'a Result<Input, String>,
    arch: Option<Arch>,
    first: bool,
    then: impl FnOnce(&mut Unit, Built<'a>, Option<&Parsed<'_>>) -> T,
) -> Option<(Unit, Option<T>)> {
    let text = text_of(input);
    build(session, path, input, &Shared::new(text.as_deref(), 1), arch, first, then)
}

/// Builds and joins in the time that an input has.
fn build<'a, T>(
    session: &Session,
    path: &Path,
    input: &'a Result<Input, String>,
    shared: &Shared<'_>,
    arch: Option<Arch>,
    first: bool,
    then: impl FnOnce(&mut Unit, Built<'a>, Option<&Parsed<'_>>) -> T,
) -> Option<(Unit, Option<T>)> {
    // To get a ptxas may take longer than to run it.
    compile::make_ready(session, input, arch);
    let in_time = || {
        let done = build_in_time(session, path, input, shared, arch, first, then);
        // An error that was found in time says more.
        if done.as_ref().is_some_and(|(unit, _)| unit.error.is_none()) {
            work::check_time();
        }
        done
    };
    work::until(Deadline::after(session.timeout), in_time).unwrap_or_else(|TimeOver| {
        let name = input.as_ref().map_or_else(|_| path.display().to_string(), |input| input.name.clone());
        let message = format!("{name}: {}", compile::out_of_time(session.timeout));
        let error = UnitError { stage: "timeout".to_owned(), message, diagnostics: Vec::new() };
        let arch = arch.map(|arch| arch.to_string());
        Some((Unit { input: name, arch, error: Some(error), ..Unit::default() }, None))
    })
}

fn build_in_time<'a, T>(
    session: &Session,
    path: &Path,
    input: &'a Result<Input, String>,
    shared: &Shared<'_>,
    arch: Option<Arch>,
    first: bool,
    then: impl FnOnce(&mut Unit, Built<'a>, Option<&Parsed<'_>>) -> T,
) -> Option<(Unit, Option<T>)> {
    let deadline = work::deadline();
    let refused = Arc::new(AtomicBool::new(false));
    // Parsing and evaluating cost nothing: they are done while ptxas runs.
    let (parsed, built) = std::thread::scope(|scope| {
        let parse = || {
            let parsed = work::under(&deadline, || shared.parsed());
            // What ptxas refuses is said at once: nobody waits for what the threads would do.
            let in_time = deadline.clone().or_when(Arc::clone(&refused));
            let _ = work::until(in_time, || parsed.map(|parsed| shared.evaluate(parsed, session)));
            parsed
        };
        // Where no thread can be had it is done afterwards.
        let beside = |parse| std::thread::Builder::new().spawn_scoped(scope, parse).ok();
        let parser = if shared.is_new() { beside(parse) } else { None };
        // Parsed once: while it is being parsed, this waits.
        let rejected = |unit: &mut Unit| {
            refused.store(shared.builds == 1, Ordering::Relaxed);
            if let Some(parsed) = shared.parsed() {
                report::refused_findings(unit, &parsed.module, &session.launch);
            }
        };
        let built = compile::build_or(session, input, path, arch, first, &rejected);
        shared.is_built.store(true, Ordering::Relaxed);
        let is_refused = shared.builds == 1 && built.as_ref().is_none_or(|(_, built)| built.is_none());
        refused.store(is_refused, Ordering::Relaxed);
        let parsed = match parser {
            Some(parser) => parser.join().unwrap_or_else(|why| std::panic::resume_unwind(why)),
            None => shared.parsed(),
        };
        (parsed, built)
    });
    let (mut unit, built) = built?;
    let made = built.map(|built| then(&mut unit, built, parsed));
    let layout = parsed.map(|parsed| Layout::of(&parsed.module)).unwrap_or_default();
    if let Some(text) = shared.text {
        unit.ptx = PtxText::new(text.to_owned()).with(layout);
    }
    report::quote(&mut unit);
    Some((unit, made))
}

/// Reads the cubin and joins it with what else is known.
pub(super) fn join(session: &Session, unit: &mut Unit, built: &Built<'_>, ptx: Option<&Parsed<'_>>) {
    let module = ptx.map(|ptx| &ptx.module);
    match Image::parse(&built.cubin) {
        Ok(image) => {
            let companion = || built.companion.map(str::to_owned);
            let carried = if module.is_none() { carried_ptx(&image).or_else(companion) } else { None };
            let parsed = carried.as_deref().map(ptx::parse);
            let module = module.or(parsed.as_ref());
            let facts = report::Facts {
                image: &image,
                log: built.log.as_ref(),
                module,
                flags: &session.flags,
                launch: session.launch,
                at: &session.at,
                roles: &session.roles,
                evaluated: ptx.and_then(|ptx| ptx.evaluated.get()),
                wanted: session.wanted,
            };
            report::join(&facts, unit);
            let layout = parsed.as_ref().map(Layout::of).unwrap_or_default();
            if let Some(text) = carried {
                unit.ptx = PtxText::new(text).with(layout);
            }
            unit.kernels.retain(|kernel| {
                session.kernels.matches([kernel.name.as_str()].into_iter().chain(kernel.demangled.as_deref()))
            });
        }
        Err(error) => {
            let message = format!("{}: {error}", unit.input);
            unit.error = Some(UnitError { stage: "cubin".to_owned(), message, diagnostics: Vec::new() });
        }
    }
}

/// The PTX inside a cubin. Where several were linked, none: the same line number then means something else in each.
fn carried_ptx(image: &Image<'_>) -> Option<String> {
    let mut texts = ptx_texts(image);
    let (_, only) = texts.next()?;
    let lossy = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    texts.next().is_none().then(|| lossy(only.to_bytes()))
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
