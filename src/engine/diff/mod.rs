//! Two builds side by side: loaded, and compared.

mod functions;
mod library;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::compile::{Session, out_of_time};
use super::input::{self, Input};
use super::inspect::{Inspected, Job, View, inspect};
use super::progress::Installing;
use super::settings::Settings;
use crate::base::Arch;
use crate::base::work::{self, Deadline, TimeOver};
use crate::cache::Cache;
use crate::compare::{DIFF_SCHEMA, Difference, How, KernelDifference, Matcher, SideFacts, differences};
use crate::cubin::{Image, lines::LineTable};
use crate::report::{Costs, Kernel, LaunchHints, Report, SCHEMA, Unit};
use functions::Functions;
use library::{Changes, Library};

/// Instructions that all hunks hold together; those beyond are counted.
const MOST_LINES: usize = 1 << 20;

/// One side of a comparison: one input, and how it is built.
#[derive(Debug)]
pub struct Side {
    /// The input, the first there is, and how it is built.
    pub settings: Settings,
    /// What is known of the launch.
    pub launch: LaunchHints,
    /// What ptxas has made before.
    pub cache: Option<Arc<Cache>>,
    /// Who is told of an installation of ptxas.
    pub installing: Installing,
}

/// One build of a [`Side`]: what the report says of it, and its instructions where there is code.
pub struct Loaded {
    /// What the report says.
    pub unit: Unit,
    code: Code,
}

/// The instructions of a build.
enum Code {
    /// A report has none.
    Nowhere,
    /// In a cubin.
    Cubin(Vec<u8>),
    /// Where to find them.
    Library(Library),
}

/// Units of a side that cannot be compared, and why.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be compared", units.first().map_or("", |unit| unit.input.as_str()))]
pub struct Refused {
    /// The units.
    pub units: Vec<Unit>,
}

impl Side {
    /// Builds or reads it: PTX, a cubin, a library, or a report.
    pub fn load(&self) -> Result<Vec<Loaded>> {
        let Some(path) = self.settings.inputs.first() else { bail!("there is no input") };
        let limits = &self.settings.limits;
        if input::is_container(path, limits)? {
            return library::load(&self.session()?, path, &self.settings);
        }
        self.load_input(path, input::read(path, limits)?)
    }

    /// The same of bytes that somebody has.
    pub fn load_bytes(&self, name: &str, bytes: Vec<u8>) -> Result<Vec<Loaded>> {
        self.load_input(Path::new(name), Input::alone(name, bytes))
    }

    fn session(&self) -> Result<Session> {
        let mut session = Session::new(&self.settings)?;
        session.installing = self.installing;
        session.launch = self.launch;
        session.cache.clone_from(&self.cache);
        Ok(session)
    }

    fn load_input(&self, path: &Path, read: Input) -> Result<Vec<Loaded>> {
        let mut session = self.session()?;
        session.wanted.costs = Costs::Loops;
        if read.bytes.trim_ascii_start().starts_with(b"{") {
            return load_report(&session, &read);
        }
        let arch = session.arches().first().copied().flatten();
        let loaded = build(&session, path, Ok(read), arch)?;
        if let Some(cache) = &session.cache {
            cache.tidy();
        }
        Ok(vec![loaded])
    }
}

/// Compares the builds of two sides that belong together, each pair in the time that an input has.
pub fn compare(before: &[Loaded], after: &[Loaded], time: Duration) -> Result<Difference> {
    let mut units = Vec::new();
    let mut room = MOST_LINES;
    let pairing = pairs(before, after)?;
    for (old, new) in pairing.pairs {
        let compared = work::until(Deadline::after(time), || {
            let (old_code, new_code) = (old.digests(), new.digests());
            let mut unit = differences(&old.unit, &new.unit, &|kernel| old_code(kernel), &|kernel| new_code(kernel));
            compare_code(&mut unit.kernels, old, new, &mut room);
            unit
        });
        match compared {
            Ok(unit) => units.push(unit),
            Err(TimeOver) => bail!("{} and {}: {}", old.unit.input, new.unit.input, out_of_time(time)),
        }
    }
    let sides = |side: Vec<&Loaded>| side.into_iter().map(|loaded| SideFacts::of(&loaded.unit)).collect();
    let (only_before, only_after) = (sides(pairing.only_before), sides(pairing.only_after));
    Ok(Difference { schema: DIFF_SCHEMA.to_owned(), units, only_before, only_after })
}

/// Says what stands for the code of a kernel.
type Digests<'a> = Box<dyn Fn(&Kernel) -> Option<[u8; 32]> + 'a>;

impl Loaded {
    /// What stands for the code of each kernel.
    fn digests(&self) -> Digests<'_> {
        let key = |kernel: &Kernel| (kernel.name.clone(), kernel.within.clone());
        match &self.code {
            Code::Nowhere => Box::new(|_| None),
            Code::Library(library) => Box::new(move |kernel| library.code(&key(kernel))),
            Code::Cubin(cubin) => {
                let found = Image::parse(cubin).map(|image| library::digests(&image)).unwrap_or_default();
                Box::new(move |kernel| found.get(&key(kernel)).copied())
            }
        }
    }
}

fn load_report(session: &Session, read: &Input) -> Result<Vec<Loaded>> {
    let name = &read.name;
    let report: Report = serde_json::from_slice(&read.bytes)
        .with_context(|| format!("{name} is not a report of ptxinspect (--format json)"))?;
    if report.schema != SCHEMA {
        bail!("{name} is a report of schema '{}': expected '{SCHEMA}'", report.schema);
    }
    let mut units = report.units;
    for unit in &mut units {
        unit.kernels.retain(|kernel| {
            session.kernels.matches([kernel.name.as_str()].into_iter().chain(kernel.demangled.as_deref()))
        });
    }
    Ok(units.into_iter().map(|unit| Loaded { unit, code: Code::Nowhere }).collect())
}

fn build(session: &Session, path: &Path, read: Result<Input, String>, arch: Option<Arch>) -> Result<Loaded> {
    let job = Job { input: &read, path, arch, first: true, view: View::Report };
    let Some(Inspected { unit, built, .. }) = inspect(session, &job) else {
        bail!("{} cannot be read", path.display());
    };
    if unit.error.is_some() {
        return Err(Refused { units: vec![unit] }.into());
    }
    let cubin = built.map(|built| built.cubin.into_owned());
    Ok(Loaded { unit, code: cubin.map_or(Code::Nowhere, Code::Cubin) })
}

/// Which unit is compared with which, and what only one side has.
struct Pairing<'a> {
    pairs: Vec<(&'a Loaded, &'a Loaded)>,
    only_before: Vec<&'a Loaded>,
    only_after: Vec<&'a Loaded>,
}

/// The only ones belong together, or those of one file name and architecture; of several such those whose folders are named alike.
fn pairs<'a>(before: &'a [Loaded], after: &'a [Loaded]) -> Result<Pairing<'a>> {
    if let ([old], [new]) = (before, after) {
        return Ok(Pairing { pairs: vec![(old, new)], only_before: Vec::new(), only_after: Vec::new() });
    }
    // Where each side is one file, its name may have changed.
    let inputs = |side: &[Loaded]| side.iter().map(|loaded| loaded.unit.input.clone()).collect::<BTreeSet<_>>().len();
    let named = inputs(before) > 1 || inputs(after) > 1;
    // The last parts of the path, which are what two places have in common.
    let key = |loaded: &Loaded, parts: usize| {
        let path = Path::new(&loaded.unit.input);
        let tail: Vec<_> = path.iter().rev().take(if named { parts } else { 0 }).map(OsStr::to_owned).collect();
        (tail, loaded.unit.arch.clone())
    };
    let mut matcher = Matcher::new(before.len(), after.len());
    for parts in [1, 2, 3, 4] {
        matcher.join(
            How::Name,
            |at| before.get(at).map(|old| key(old, parts)),
            |at| after.get(at).map(|new| key(new, parts)),
        );
    }
    let mut found = Pairing { pairs: Vec::new(), only_before: Vec::new(), only_after: Vec::new() };
    for pair in matcher.finish() {
        let (old, new) = (pair.before.and_then(|at| before.get(at)), pair.after.and_then(|at| after.get(at)));
        match (old, new) {
            (Some(old), Some(new)) => found.pairs.push((old, new)),
            (old, new) => {
                found.only_before.extend(old);
                found.only_after.extend(new);
            }
        }
    }
    if found.pairs.is_empty() {
        bail!("the two sides have no input and architecture in common");
    }
    Ok(found)
}

fn compare_code(kernels: &mut [KernelDifference], old: &Loaded, new: &Loaded, room: &mut usize) {
    // A kernel of one side may have the name of the other's.
    let kernels = kernels.iter_mut().filter(|kernel| kernel.side == "both");
    match (&old.code, &new.code) {
        (Code::Cubin(old), Code::Cubin(new)) => {
            let (Ok(old), Ok(new)) = (Image::parse(old), Image::parse(new)) else { return };
            let (old_lines, new_lines) = (LineTable::parse(&old), LineTable::parse(&new));
            let (old, new) = (Functions::new(&old, &old_lines), Functions::new(&new, &new_lines));
            for kernel in kernels {
                let old_name = kernel.before_name.as_ref().unwrap_or(&kernel.name);
                kernel.sass = old.changes(old_name, &new, &kernel.name, room);
            }
        }
        (Code::Library(old), Code::Library(new)) => {
            for kernel in kernels {
                let old_name = kernel.before_name.as_ref().unwrap_or(&kernel.name).clone();
                let (old_key, key) =
                    ((old_name, kernel.before_within.clone()), (kernel.name.clone(), kernel.within.clone()));
                match old.changes(&old_key, new, &key, room) {
                    Some(Changes::Worked(changes)) => kernel.sass = Some(changes),
                    Some(Changes::TooMuch) => kernel.sass_left_out = true,
                    None => {}
                }
            }
        }
        _ => {}
    }
}
