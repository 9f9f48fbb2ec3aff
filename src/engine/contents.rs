//! Going through everything that inputs hold, in parallel, with results in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use anyhow::Result;
use rayon::prelude::*;

use super::foreign::{LOOKED_AT, foreign};
use super::glob::Globs;
use super::input;
use super::progress::Progress;
use super::settings::Within;
use super::threads::Pool;
use crate::base::work::{self, Deadline, TimeOver};
use crate::base::{Arch, Limits};
use crate::container::{Container, ContainerError, Entry, EntryKind, Limit, Problem};
use crate::cubin::Image;

/// What to look at and which part of it.
#[derive(Clone, Debug, Default)]
pub struct Choose {
    /// Files or folders; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Kinds of entries.
    pub kind: KindFilter,
    /// Architectures; none means all.
    pub arch: Vec<String>,
    /// Patterns for names of kernels; none means all.
    pub kernel: Vec<String>,
    /// Which entries, and where to look for them.
    pub within: Within,
    /// How many threads; none means one a core.
    pub jobs: Option<usize>,
    /// How much an input may cost.
    pub limits: Limits,
}

/// Kinds to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KindFilter {
    /// Everything
    #[default]
    All,
    /// Cubins
    Cubin,
    /// PTX
    Ptx,
    /// LTO-IR
    Ltoir,
}

/// The same, with what a file is that holds no GPU code, and what to do about it, where that can be told.
fn named(error: ContainerError) -> ContainerError {
    if !matches!(error.problem, Problem::NotRecognised { .. }) {
        return error;
    }
    let mut head = Vec::new();
    let read = File::open(&error.path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut head));
    match foreign(&head).filter(|_| read.is_ok() && !head.is_empty()) {
        Some(what) => ContainerError { problem: Problem::Io(what), ..error },
        None => error,
    }
}

/// [`Choose`], decided.
pub struct Choice {
    kind: KindFilter,
    arches: Vec<Arch>,
    entries: Globs,
    /// Whether PTX is wanted whatever its architecture.
    pub any_ptx: bool,
    /// Names of kernels.
    pub kernels: Globs,
    containers: Vec<Container>,
    limits: Limits,
    pool: Pool,
    /// The architectures of cubins that were not asked for.
    others: Mutex<BTreeSet<Arch>>,
}

impl Choice {
    /// Reads the arguments; standard input is read whole.
    pub fn new(args: &Choose) -> Result<Self> {
        let options = args.within.options(args.limits);
        let mut containers = Vec::new();
        for path in input::unique(&args.inputs) {
            containers.push(if path.as_os_str() == "-" {
                Container::from_bytes(input::STDIN_NAME, input::stdin(&options.limits)?.to_vec(), options)
            } else {
                Container::open(&path, options)
            });
        }
        let threads = args.jobs.unwrap_or(0);
        Ok(Choice {
            kind: args.kind,
            any_ptx: false,
            arches: args.arch.iter().map(|arch| arch.parse().map_err(anyhow::Error::from)).collect::<Result<_>>()?,
            entries: Globs::new(
                &args.within.entry.iter().flat_map(|glob| [glob.clone(), format!("*/{glob}")]).collect::<Vec<_>>(),
            ),
            kernels: Globs::new(&args.kernel),
            containers,
            limits: options.limits,
            pool: Pool::start(threads),
            others: Mutex::default(),
        })
    }

    /// About how many bytes the inputs have.
    pub fn bytes_ahead(&self) -> u64 {
        self.containers.iter().map(Container::bytes_ahead).fold(0, u64::saturating_add)
    }

    /// Calls `look` for every entry of the chosen kind and architecture, in parallel, and `take` for what it returned, in
    /// order. Entries that `look` answers with `None` are passed over.
    pub fn visit<T: Send>(
        &self,
        look: impl Fn(&Entry) -> Option<T> + Sync,
        mut take: impl FnMut(Result<T, ContainerError>) -> Result<()>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let ahead = |container: &Container| container.parts().iter().map(Container::bytes_ahead).sum::<u64>();
        if progress.is_shown() {
            progress.expect(self.containers.iter().map(ahead).sum());
        }
        let inputs: Vec<Progressing> = self.containers.iter().map(|_| Progressing::default()).collect();
        let split = |(input, container): (usize, &Container)| {
            let deadline = inputs.get(input).map_or(Deadline::NEVER, |state| state.deadline(&self.limits));
            // Whoever looks at the one part will find that the time is over.
            let parts = work::until(deadline, || container.parts()).unwrap_or_else(|TimeOver| vec![container.clone()]);
            parts.into_iter().map(move |part| (input, part))
        };
        let mut parts = self.containers.iter().enumerate().flat_map(split);
        let mut queue = InOrder::default();
        let (sender, receiver) = mpsc::channel();
        let produce = {
            let (look, inputs) = (&look, &inputs);
            move || {
                let visit = |(part, (input, container)): (usize, (usize, Container))| {
                    if let Some(state) = inputs.get(input) {
                        self.visit_part((part, input, &container), look, state, progress, &sender);
                    }
                };
                std::iter::from_fn(|| parts.next()).enumerate().par_bridge().for_each(visit);
            }
        };
        self.pool.install_beside(produce, || {
            let mut counts = vec![0u64; inputs.len()];
            for (at, result) in receiver {
                queue.put(at, result);
                while let Some((input, result)) = queue.next() {
                    let (Some(count), Some(state)) = (counts.get_mut(input), inputs.get(input)) else { continue };
                    // In the order of the input, so that what is left out is the same however many threads there are.
                    let Some(result) = self.within_limits(result, input, count) else { continue };
                    if result.as_ref().is_err_and(|error| error.problem.ends_the_input()) {
                        *count = u64::MAX;
                        state.is_over.store(true, Ordering::Relaxed);
                    }
                    if let Err(error) = take(result.map_err(named)) {
                        inputs.iter().for_each(|state| state.is_over.store(true, Ordering::Relaxed));
                        return Err(error);
                    }
                }
            }
            Ok(())
        })
    }

    /// A result of an input, its `count`th; none once the input has had more than it may.
    fn within_limits<T>(&self, result: Looked<T>, input: usize, count: &mut u64) -> Option<Looked<T>> {
        *count = count.checked_add(1)?;
        let is_timed = |error: &ContainerError| matches!(error.problem, Problem::TooMuch { limit: Limit::Time, .. });
        let problem = match &result {
            _ if *count > self.limits.entries => Problem::too_many_entries(&self.limits),
            Err(error) if is_timed(error) => error.problem.clone(),
            _ => return Some(result),
        };
        let path = self.containers.get(input).map(Container::name).unwrap_or_default();
        Some(Err(ContainerError { path, problem }))
    }

    fn visit_part<T: Send>(
        &self,
        (part, input, container): (usize, usize, &Container),
        look: &(impl Fn(&Entry) -> Option<T> + Sync),
        state: &Progressing,
        progress: &dyn Progress,
        sender: &mpsc::Sender<(Place, OfInput<T>)>,
    ) {
        let deadline = state.deadline(&self.limits);
        let count = AtomicUsize::new(0);
        let left = AtomicU64::new(if progress.is_shown() { container.bytes_ahead() } else { 0 });
        let advance = |bytes: u64| {
            let spend = |left: u64| Some(left.saturating_sub(bytes));
            let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).unwrap_or(0);
            progress.advance(before.min(bytes));
        };
        let mut inside = Some(container.entries());
        // To find the next one may take long: members that hold nothing are unpacked, files are searched.
        let in_time = std::iter::from_fn(|| {
            let next = work::until(deadline.clone(), || {
                work::check_time();
                inside.as_mut()?.next()
            });
            next.unwrap_or_else(|TimeOver| {
                inside = None;
                Some(Err(ContainerError { path: container.name(), problem: Problem::out_of_time(&self.limits) }))
            })
        });
        let entries = in_time.filter(|entry| {
            entry.as_ref().map_or(true, |entry| {
                let wanted = self.wants(entry);
                if !wanted {
                    advance(entry.stored_bytes);
                }
                wanted
            })
        });
        let numbered = entries.take_while(|_| !state.is_over.load(Ordering::Relaxed)).enumerate();
        numbered.par_bridge().for_each(|(at, entry)| {
            count.fetch_add(1, Ordering::Relaxed);
            let result = match entry {
                Err(error) => Some(Err(error)),
                Ok(entry) => {
                    let in_time = || {
                        work::check_time();
                        look(&entry).map(Ok)
                    };
                    let out_of_time = |TimeOver| {
                        let problem = Problem::out_of_time(&self.limits);
                        Some(Err(ContainerError { path: entry.path.clone(), problem }))
                    };
                    let looked = work::until(deadline.clone(), in_time).unwrap_or_else(out_of_time);
                    entry.release();
                    advance(entry.stored_bytes);
                    looked
                }
            };
            // Nobody listens any more once taking has failed.
            let _ = sender.send((Place::Item(part, at), (input, result)));
        });
        // What is no entry is done with as well.
        advance(u64::MAX);
        let _ = sender.send((Place::End(part, count.into_inner()), (input, None)));
    }

    /// By what the container says. Newer cubins that are files of their own do not say `a` or `f` there, so that the cubin
    /// itself has the last word: see [`Choice::wants_arch`].
    fn wants(&self, entry: &Entry) -> bool {
        let kind = match self.kind {
            KindFilter::All => true,
            KindFilter::Cubin => entry.kind == EntryKind::Cubin,
            KindFilter::Ptx => entry.kind == EntryKind::Ptx,
            KindFilter::Ltoir => entry.kind == EntryKind::LtoIr,
        };
        if !kind || !self.entries.matches([entry.path.as_str()]) {
            return false;
        }
        let is_wanted = self.arches.is_empty()
            || self.any_ptx && entry.kind == EntryKind::Ptx
            || self.arches.iter().any(|arch| entry.arch.is_none_or(|found| found.sm == arch.sm));
        if let (false, EntryKind::Cubin, Some(arch)) = (is_wanted, entry.kind, entry.arch) {
            self.pass_over(arch);
        }
        is_wanted
    }

    fn pass_over(&self, arch: Arch) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).insert(arch);
    }

    /// The architectures of the cubins that were passed over for theirs, once all were visited.
    pub fn other_arches(&self) -> Vec<Arch> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Whether architectures were named.
    pub fn has_arches(&self) -> bool {
        !self.arches.is_empty()
    }

    /// Whether nothing was left out.
    pub fn is_everything(&self) -> bool {
        self.kind == KindFilter::All && self.arches.is_empty() && self.kernels.is_empty() && self.entries.is_empty()
    }

    /// Whether this architecture was asked for.
    pub fn wants_arch(&self, arch: Option<Arch>) -> bool {
        let is_wanted = self.arches.is_empty() || arch.is_some_and(|arch| self.arches.contains(&arch));
        if let (false, Some(arch)) = (is_wanted, arch) {
            self.pass_over(arch);
        }
        is_wanted
    }
}

impl Progressing {
    /// When the time of the input is over: it begins when somebody asks for the first time.
    fn deadline(&self, limits: &Limits) -> Deadline {
        self.deadline.get_or_init(|| Deadline::after(limits.time)).clone()
    }
}

/// How far an input is.
#[derive(Default)]
struct Progressing {
    /// When its time is over, from when it was begun with.
    deadline: OnceLock<Deadline>,
    /// Nothing more of it is wanted.
    is_over: AtomicBool,
}

/// What came of an entry.
type Looked<T> = Result<T, ContainerError>;

/// The same with the number of its input; none for an entry that is passed over.
type OfInput<T> = (usize, Option<Looked<T>>);

/// Where a result belongs.
#[derive(Clone, Copy)]
enum Place {
    /// The part of the container, the entry of the part.
    Item(usize, usize),
    /// A part has so many.
    End(usize, usize),
}

/// Results that come in any order and leave in one.
struct InOrder<T> {
    waiting: BTreeMap<(usize, usize), OfInput<T>>,
    ends: BTreeMap<usize, usize>,
    next: (usize, usize),
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder { waiting: BTreeMap::new(), ends: BTreeMap::new(), next: (0, 0) }
    }
}

impl<T> InOrder<T> {
    fn put(&mut self, at: Place, result: OfInput<T>) {
        match at {
            Place::Item(part, at) => drop(self.waiting.insert((part, at), result)),
            Place::End(part, count) => drop(self.ends.insert(part, count)),
        }
    }

    /// The next result, when it is there, and which input it is of.
    fn next(&mut self) -> Option<(usize, Looked<T>)> {
        loop {
            let (part, at) = self.next;
            if let Some(result) = self.waiting.remove(&self.next) {
                self.next.1 += 1;
                match result {
                    (input, Some(result)) => return Some((input, result)),
                    (_, None) => continue,
                }
            }
            if *self.ends.get(&part)? != at {
                return None;
            }
            self.ends.remove(&part);
            self.next = (part + 1, 0);
        }
    }
}

/// The architecture of an entry: as its container has it, or its own where it is a file by itself.
pub fn arch(entry: &Entry, image: Option<&Image<'_>>) -> Option<Arch> {
    use crate::container::Place;
    match (entry.place, image) {
        (Place::Bare | Place::Embedded, Some(image)) if entry.version.is_none() => Some(image.arch),
        _ => entry.arch,
    }
}
