//! One input and one architecture in, one unit of the report out: compiled while its PTX is parsed, read, joined.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::compile::{self, Built, Session};
use super::given::Given;
use super::input::{Input, Kind};
use super::memory;
use super::progress::Progress;
use super::step;
use crate::base::Arch;
use crate::base::work::{self, Deadline, TimeOver};
use crate::cubin::Image;
use crate::cubin::lines::{LineTable, ptx_texts};
use crate::ptx;
use crate::registers::code::Codes;
use crate::report::annotation::{self, Annotation};
use crate::report::{
    self, ErrorStage, Evaluated, LaunchHints, Layout, PtxText, RecordedLaunch, Unit, UnitError, Wanted, demangle,
};
use crate::toolchain;

/// One input for one architecture.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The input, or why it could not be read.
    pub input: &'a Result<Input, String>,
    /// Where it is.
    pub path: &'a Path,
    /// What to compile PTX for; none stands for its own `.target`.
    pub arch: Option<Arch>,
    /// Whether this is the job that answers for a cubin, which is one unit however many architectures were asked for.
    pub first: bool,
    /// What is wanted beside the report.
    pub view: View,
}

/// What is wanted beside the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Nothing.
    Report,
    /// Each line with the code it became.
    Annotation {
        /// Whether who holds which register is to be worked out, and barriers are to be drawn.
        values: bool,
    },
}

impl View {
    /// What the report has to answer for it.
    fn wanted(self, session: &Session) -> Wanted {
        Wanted { timelines: self == View::Annotation { values: true }, ..session.wanted }
    }
}

/// What became of a [`Job`].
#[derive(Debug)]
pub struct Inspected<'a> {
    /// The report; what went wrong is in it.
    pub unit: Unit,
    /// Each line with the code it became, where that was wanted and there is code.
    pub annotation: Annotation,
    /// The cubin; none where there is none.
    pub built: Option<Built<'a>>,
}

/// Compiles or reads an input, and joins. None for a job that has nothing to answer: see [`Job::first`].
pub fn inspect<'a>(session: &Session, job: &Job<'a>) -> Option<Inspected<'a>> {
    let text = text_of(job.input);
    inspect_shared(session, job, &Shared::new(text.as_deref(), 1))
}

/// Every input for every architecture, in parallel, answers in order.
pub fn inspect_all(
    session: &Session,
    inputs: &[Given],
    view: View,
    progress: &dyn Progress,
) -> Vec<(Unit, Annotation)> {
    let arches = session.arches();
    progress.expect((inputs.len() * arches.len()) as u64);
    let all_of = |given: &Given| {
        // One read serves all architectures of a file.
        let input = given.read();
        let one = |(index, arch): (usize, &Option<Arch>)| {
            let job = Job { input: &input, path: &given.path, arch: *arch, first: index == 0, view };
            let inspected = inspect(session, &job);
            progress.advance(1);
            inspected.map(|inspected| (inspected.unit, inspected.annotation))
        };
        arches.par_iter().enumerate().filter_map(one).collect::<Vec<_>>()
    };
    let all = || inputs.par_iter().flat_map(all_of).collect();
    match session.lasting_pool() {
        Some(pool) => pool.install(all),
        None => session.pool().install(all),
    }
}

/// The PTX of an input, if it is PTX.
pub fn text_of(input: &Result<Input, String>) -> Option<Cow<'_, str>> {
    input.as_ref().ok().filter(|input| matches!(input.kind(), Ok(Kind::Ptx))).map(Input::text)
}

/// PTX as one build needs it, or several.
pub struct Parsed<'t> {
    /// The statements.
    module: ptx::Module<'t>,
    /// Its threads, as far as they were evaluated while ptxas ran, or where builds share them.
    evaluated: OnceLock<Evaluated>,
}

/// A PTX that is built several times: parsed and evaluated once, by whoever comes first.
pub struct Shared<'t> {
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
    fn evaluate(&self, parsed: &Parsed<'t>, wanted: Wanted, launch: &LaunchHints) {
        if !wanted.warps {
            return;
        }
        // Several builds need every kernel, again and again.
        let is_time = || self.builds > 1 || !self.is_built.load(Ordering::Relaxed);
        parsed.evaluated.get_or_init(|| Evaluated::new(&parsed.module, launch, wanted, is_time));
        // While ptxas runs it costs nobody any time.
        if self.builds == 1 && is_time() {
            memory::give_back();
        }
    }
}

/// The same, in the time that an input has, its PTX shared with other builds of it.
pub fn inspect_shared<'a>(session: &Session, job: &Job<'a>, shared: &Shared<'_>) -> Option<Inspected<'a>> {
    // To get a ptxas may take longer than to run it.
    compile::make_ready(session, job.input, job.arch);
    let in_time = || {
        let done = inspect_in_time(session, job, shared);
        // An error that was found in time says more.
        if done.as_ref().is_some_and(|done| done.unit.error.is_none()) {
            work::check_time();
        }
        done
    };
    work::until(Deadline::after(session.timeout), in_time).unwrap_or_else(|TimeOver| {
        let name = job.input.as_ref().map_or_else(|_| job.path.display().to_string(), |input| input.name.clone());
        let message = format!("{name}: {}", compile::out_of_time(session.timeout));
        let error = UnitError { stage: ErrorStage::Timeout, message, diagnostics: Vec::new() };
        let arch = job.arch.map(|arch| arch.to_string());
        let unit = Unit { input: name, arch, error: Some(error), ..Unit::default() };
        Some(Inspected { unit, annotation: Annotation::default(), built: None })
    })
}

fn inspect_in_time<'a>(session: &Session, job: &Job<'a>, shared: &Shared<'_>) -> Option<Inspected<'a>> {
    let deadline = work::deadline();
    let refused = Arc::new(AtomicBool::new(false));
    let recorded = job.input.as_ref().ok().and_then(|input| input.recorded_launch.as_ref());
    let launch = session.launch.or_recorded(recorded);
    // Parsing and evaluating cost nothing: they are done while ptxas runs.
    let (parsed, built) = std::thread::scope(|scope| {
        let parse = || {
            // While the other thread writes what ptxas reads.
            toolchain::make_guard_ready();
            let parsed = work::under(&deadline, || shared.parsed());
            // What ptxas refuses is said at once: nobody waits for what the threads would do.
            let in_time = deadline.clone().or_when(Arc::clone(&refused));
            let _ = work::until(in_time, || {
                parsed.map(|parsed| shared.evaluate(parsed, job.view.wanted(session), &launch))
            });
            parsed
        };
        // Where no thread can be had it is done afterwards.
        let beside = |parse| std::thread::Builder::new().spawn_scoped(scope, parse).ok();
        let parser = if shared.is_new() { beside(parse) } else { None };
        // Parsed once: while it is being parsed, this waits.
        let rejected = |unit: &mut Unit| {
            refused.store(shared.builds == 1, Ordering::Relaxed);
            if let Some(parsed) = shared.parsed() {
                report::refused_findings(unit, &parsed.module, &launch);
            }
        };
        let built = compile::build_or(session, job.input, job.path, job.arch, job.first, &rejected);
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
    let annotation = built.as_ref().map(|built| join(session, &mut unit, built, parsed, job.view)).unwrap_or_default();
    if let (true, Some(parsed), Some(text)) = (session.tries_step && built.is_some(), parsed, shared.text) {
        step::try_all(session, &mut unit, text, &parsed.module);
    }
    let layout = parsed.map(|parsed| Layout::of(&parsed.module)).unwrap_or_default();
    if let Some(text) = shared.text {
        unit.ptx = PtxText::new(text.to_owned()).with(layout);
    }
    report::quote(&mut unit);
    Some(Inspected { unit, annotation, built })
}

/// Reads the cubin once, joins it with what else is known, and annotates it where that is wanted.
pub fn join(session: &Session, unit: &mut Unit, built: &Built<'_>, ptx: Option<&Parsed<'_>>, view: View) -> Annotation {
    let image = match Image::parse(&built.cubin) {
        Ok(image) => image,
        Err(error) => {
            let message = format!("{}: {error}", unit.input);
            unit.error = Some(UnitError { stage: ErrorStage::Cubin, message, diagnostics: Vec::new() });
            return Annotation::default();
        }
    };
    let codes = (view != View::Report).then(|| Codes::new(&image));
    let module = ptx.map(|ptx| &ptx.module);
    let companion = || built.companion.map(str::to_owned);
    let carried = if module.is_none() { carried_ptx(&image).or_else(companion) } else { None };
    let parsed = carried.as_deref().map(ptx::parse);
    let counted = module.or(parsed.as_ref()).map(ptx::counted_lines).unwrap_or_default();
    let lines = LineTable::parse(&image).corrected(&counted);
    let launch = session.launch.or_recorded(unit.recorded_launch.as_ref());
    let facts = report::Facts {
        image: &image,
        lines: &lines,
        codes: codes.as_ref(),
        log: built.log.as_ref(),
        module: module.or(parsed.as_ref()),
        flags: &session.flags,
        launch,
        at: &session.at,
        roles: &session.roles,
        evaluated: ptx.and_then(|ptx| ptx.evaluated.get()),
        wanted: view.wanted(session),
    };
    report::join(&facts, unit);
    let layout = parsed.as_ref().map(Layout::of).unwrap_or_default();
    if let Some(text) = carried {
        unit.ptx = PtxText::new(text).with(layout);
    }
    unit.kernels.retain(|kernel| {
        session.kernels.matches([kernel.name.as_str()].into_iter().chain(kernel.demangled.as_deref()))
    });
    let View::Annotation { values } = view else { return Annotation::default() };
    annotation::annotate(&annotation::Inputs {
        image: &image,
        lines: &lines,
        codes: codes.as_ref(),
        module,
        kernels: &unit.kernels,
        wanted: &|name: &str| session.kernels.matches([name].into_iter().chain(demangle(name).as_deref())),
        launch,
        values,
    })
}

/// Another build of PTX whose report is there: with other flags, or of a text that was edited.
pub struct Variant<'a> {
    /// What every build has.
    pub session: &'a Session,
    /// The PTX that it was built from.
    pub module: &'a ptx::Module<'a>,
    /// All flags that it was built with.
    pub flags: &'a [String],
    /// What a compiler's cache says of the launch.
    pub recorded: Option<&'a RecordedLaunch>,
    /// Its threads, where the text is one that was evaluated.
    pub evaluated: Option<&'a Evaluated>,
    /// What is asked for.
    pub wanted: Wanted,
}

impl Variant<'_> {
    /// Joins the cubin with what else is known, in the unit.
    pub fn join(&self, image: &Image<'_>, built: &Built<'_>, unit: &mut Unit) {
        let facts = report::Facts {
            image,
            lines: &LineTable::parse(image),
            codes: None,
            log: built.log.as_ref(),
            module: Some(self.module),
            flags: self.flags,
            launch: self.session.launch.or_recorded(self.recorded),
            at: &[],
            roles: &self.session.roles,
            evaluated: self.evaluated,
            wanted: self.wanted,
        };
        report::join(&facts, unit);
    }
}

/// The PTX inside a cubin. Where several were linked, none: the same line number then means something else in each.
pub(super) fn carried_ptx(image: &Image<'_>) -> Option<String> {
    let mut texts = ptx_texts(image);
    let (_, only) = texts.next()?;
    let lossy = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    texts.next().is_none().then(|| lossy(only.to_bytes()))
}
