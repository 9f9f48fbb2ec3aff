//! One input and one architecture in, one unit of the report out: compiled while its PTX is parsed, read, joined.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::compile::{self, Built, Session};
use super::input::{Input, Kind};
use super::memory;
use crate::base::Arch;
use crate::base::work::{self, Deadline, TimeOver};
use crate::cubin::Image;
use crate::cubin::lines::ptx_texts;
use crate::ptx;
use crate::report::{self, Evaluated, Layout, PtxText, Unit, UnitError};

/// One input for one architecture.
pub fn inspect(
    session: &Session,
    path: &Path,
    input: &Result<Input, String>,
    arch: Option<Arch>,
    first: bool,
) -> Option<Unit> {
    inspect_built(session, path, input, arch, first).map(|(unit, _)| unit)
}

/// The same, with the cubin.
pub fn inspect_built<'a>(
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
pub fn text_of(input: &Result<Input, String>) -> Option<Cow<'_, str>> {
    input.as_ref().ok().filter(|input| matches!(input.kind(), Ok(Kind::Ptx))).map(Input::text)
}

/// PTX as one build needs it, or several.
pub struct Parsed<'t> {
    /// The statements.
    pub module: ptx::Module<'t>,
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
pub fn inspect_shared(
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
pub fn inspect_with<'a, T>(
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
pub fn join(session: &Session, unit: &mut Unit, built: &Built<'_>, ptx: Option<&Parsed<'_>>) {
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
