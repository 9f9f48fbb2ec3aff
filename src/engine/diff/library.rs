//! A library as one side of a comparison: its cubins' kernels put together by architecture, each once. Of an archive or a folder with
//! several libraries each is a side of its own: they may hold the same kernels, built by different compilers. Instructions are read only
//! where the code is not the same.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::{Code, Loaded, Refused};
use crate::base::Pc;
use crate::compare::{Likeness, SassChange, sass_changes};
use crate::cubin::{Function, Image, lines::LineTable};
use crate::engine::compile::Session;
use crate::engine::given::{self, Given, Inside};
use crate::engine::inspect::{Inspected, Job, View, inspect};
use crate::engine::settings::Settings;
use crate::report::listing::Texts;
use crate::report::{Kernel, Resources, Unit, is_renaming};

/// Bytes of cubins that are read again, once for each of their functions that differs; how the code differs beyond is not worked out.
const MOST_READ_AGAIN: u64 = 1 << 30;

/// A function: its name, and the one it lies in.
type Key = (String, Option<String>);

/// What stands for a function's code.
type Digest = [u8; 32];

/// What an entry of a library gives: its report, what stands for the code of its functions, and the cubin if it was compiled.
type Looked = (Unit, HashMap<Key, Digest>, Option<Arc<Vec<u8>>>);

/// An entry, and its cubin where that is not what it holds.
struct Source {
    given: Given,
    compiled: Option<Arc<Vec<u8>>>,
}

/// Where the code of a library's functions is.
pub struct Library {
    sources: Arc<Vec<Source>>,
    functions: HashMap<Key, Place>,
    /// The cubin that was read last.
    last: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
    /// Bytes of cubins that were read again to compare a function of them.
    read_again: AtomicU64,
}

/// What is known of how two functions' code differs.
pub enum Changes {
    /// How.
    Worked(SassChange),
    /// It does; to say how would be too much.
    TooMuch,
}

/// The code of a function.
#[derive(Clone, Debug)]
struct Place {
    source: usize,
    key: Key,
    digest: Digest,
    instructions: u64,
}

/// The cubins of a library, put together by architecture.
pub fn load(session: &Session, path: &Path, settings: &Settings) -> Result<Vec<Loaded>> {
    let arches: Vec<String> = session.arches.iter().map(ToString::to_string).collect();
    let Settings { kernel, within, jobs, limits, .. } = settings;
    let (jobs, limits) = (*jobs, *limits);
    let inside = Inside { arch: &arches, kernel, within, jobs, limits };
    let arch = session.arches().first().copied().flatten();
    let all = given::inside(path, &inside)?;
    let build = |given: &Given| -> Result<Result<Looked, Box<Unit>>> {
        let read = given.read();
        let job = Job { input: &read, path: &given.path, arch, first: true, view: View::Report };
        let Some(Inspected { mut unit, built, .. }) = inspect(session, &job) else {
            bail!("{} cannot be read", given.path.display());
        };
        if unit.error.is_some() {
            return Ok(Err(Box::new(unit)));
        }
        let digests = built.as_ref().and_then(|built| Image::parse(&built.cubin).ok()).map(|image| digests(&image));
        unit.kernels.iter_mut().for_each(leave_out_places);
        let compiled = built.and_then(|built| match built.cubin {
            Cow::Owned(cubin) => Some(Arc::new(cubin)),
            Cow::Borrowed(_) => None,
        });
        Ok(Ok((unit, digests.unwrap_or_default(), compiled)))
    };
    let built: Vec<Result<_>> = session.pool().install(|| all.par_iter().map(build).collect());
    let built = built.into_iter().collect::<Result<Vec<_>>>()?;
    let refused: Vec<Unit> =
        built.iter().filter_map(|built| built.as_ref().err()).map(|unit| (**unit).clone()).collect();
    if !refused.is_empty() {
        return Err(Refused { units: refused }.into());
    }
    let libraries: BTreeSet<String> = all.iter().filter_map(Given::library).map(str::to_owned).collect();
    let has_several = libraries.len() > 1;
    let mut merged: BTreeMap<(Option<String>, Option<String>), (Unit, Uniformity)> = BTreeMap::new();
    let mut sources: Vec<Source> = Vec::new();
    for (given, built) in all.into_iter().zip(built) {
        let Ok((mut unit, digests, compiled)) = built else { continue };
        let source = sources.len();
        sources.push(Source { given, compiled });
        let kernels = std::mem::take(&mut unit.kernels);
        let problems = std::mem::take(&mut unit.problems);
        let library = sources.last().and_then(|source| source.given.library()).filter(|_| has_several);
        let library = library.map(str::to_owned);
        let (whole, together) = merged.entry((library.clone(), unit.arch.clone())).or_insert_with(|| {
            unit.input = library.unwrap_or_else(|| path.display().to_string());
            (unit, Uniformity::default())
        });
        whole.problems.extend(problems);
        for kernel in kernels {
            whole.kernels.extend(together.add(kernel, source, &digests));
        }
    }
    let sources = Arc::new(sources);
    let loaded = merged.into_values().map(|(unit, together)| {
        let library = Library {
            sources: Arc::clone(&sources),
            functions: together.functions,
            last: Mutex::new(None),
            read_again: AtomicU64::new(0),
        };
        Loaded { unit, code: Code::Library(library) }
    });
    Ok(loaded.collect())
}

/// Lists of places are not compared, and are most of a kernel.
fn leave_out_places(kernel: &mut Kernel) {
    kernel.unmapped_pcs = Vec::new();
    kernel.attributes = Vec::new();
    kernel.source_lines = Vec::new();
    kernel.inlined_lines = None;
    kernel.live_at_peak = None;
    kernel.spills = None;
}

/// The functions of one architecture, told apart.
#[derive(Default)]
struct Uniformity {
    functions: HashMap<Key, Place>,
    /// What goes by a name, as far as it differs.
    variants: HashMap<Key, Vec<(Option<Digest>, Resources)>>,
}

impl Uniformity {
    /// Takes a function; none when the same one came before. Others of its name get a number.
    fn add(&mut self, mut kernel: Kernel, source: usize, digests: &HashMap<Key, Digest>) -> Option<Kernel> {
        let key = (kernel.name.clone(), kernel.within.clone());
        let digest = digests.get(&key).copied();
        let seen = self.variants.entry(key.clone()).or_default();
        let variant = (digest, kernel.resources.clone());
        if seen.contains(&variant) {
            return None;
        }
        seen.push(variant);
        if seen.len() > 1 {
            let number = seen.len();
            kernel.name = format!("{} #{number}", kernel.name);
            kernel.demangled = kernel.demangled.map(|name| format!("{name} #{number}"));
        }
        if let Some(digest) = digest {
            let instructions = kernel.instructions.count().unwrap_or(0);
            let place = Place { source, key, digest, instructions };
            self.functions.insert((kernel.name.clone(), kernel.within.clone()), place);
        }
        Some(kernel)
    }
}

/// The same, and whether instructions that are alike one by one are a renaming of registers.
pub(super) fn proven(
    mut change: SassChange,
    old: (&Image<'_>, &Function<'_>),
    new: (&Image<'_>, &Function<'_>),
) -> SassChange {
    if change.likeness == Likeness::Alike && is_renaming(old, new) {
        change.likeness = Likeness::Renamed;
    }
    change
}

/// The functions of a cubin by the code they have.
pub(super) fn digests(image: &Image<'_>) -> HashMap<Key, Digest> {
    let mut found = HashMap::new();
    for function in &image.functions {
        let whole = Pc(0)..Pc(u32::try_from(function.code.len()).unwrap_or(u32::MAX));
        found.insert((function.name.to_string(), None), digest(image, function, whole));
        for part in &function.parts {
            let key = (part.callee().to_owned(), Some(function.name.to_string()));
            found.insert(key, digest(image, function, part.start..part.end));
        }
    }
    found
}

pub(super) fn digest(image: &Image<'_>, function: &Function<'_>, range: std::ops::Range<Pc>) -> Digest {
    let mut hash = Sha256::new();
    hash.update(function.code.get(range.start.0 as usize..range.end.0 as usize).unwrap_or_default());
    for relocation in &function.relocations {
        if (u64::from(range.start.0)..u64::from(range.end.0)).contains(&relocation.offset) {
            let symbol = image.symbol(relocation.symbol).map(|symbol| &symbol.name);
            hash.update(format!("{:?}", (relocation.offset, relocation.kind, symbol, relocation.addend)));
        }
    }
    hash.finalize().into()
}

impl Library {
    /// How the code of a function differs from another's; none where one of them has none.
    pub fn changes(&self, key: &Key, other: &Library, other_key: &Key, room: &mut usize) -> Option<Changes> {
        let (old, new) = (self.functions.get(key)?, other.functions.get(other_key)?);
        if old.digest == new.digest {
            return Some(Changes::Worked(SassChange::none(new.instructions)));
        }
        let change = self.with_texts(old, |old, (image, function)| {
            other.with_texts(new, |new, of_new| proven(sass_changes(old, new, room), (image, function), of_new))
        });
        Some(change.flatten().map_or(Changes::TooMuch, Changes::Worked))
    }

    /// What stands for the code of a function.
    pub fn code(&self, key: &Key) -> Option<Digest> {
        self.functions.get(key).map(|place| place.digest)
    }

    fn with_texts<T>(
        &self,
        place: &Place,
        then: impl FnOnce(&Texts<'_>, (&Image<'_>, &Function<'_>)) -> T,
    ) -> Option<T> {
        let bytes = self.bytes(place.source)?;
        if self.read_again.fetch_add(bytes.len() as u64, Ordering::Relaxed) > MOST_READ_AGAIN {
            return None;
        }
        let image = Image::parse(&bytes).ok()?;
        let (name, within) = &place.key;
        let function = image.functions.iter().find(|function| function.name == *within.as_ref().unwrap_or(name))?;
        let lines = LineTable::parse(&image);
        Some(then(&Texts::of(&image, &lines, function, name)?, (&image, function)))
    }

    /// Functions come in the order of the library: most are in the cubin of the last one.
    fn bytes(&self, source: usize) -> Option<Arc<Vec<u8>>> {
        let from = self.sources.get(source)?;
        if let Some(compiled) = &from.compiled {
            return Some(Arc::clone(compiled));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = &*last
            && *at == source
        {
            return Some(Arc::clone(bytes));
        }
        let bytes = Arc::new(from.given.read().ok()?.bytes);
        *last = Some((source, Arc::clone(&bytes)));
        Some(bytes)
    }
}
