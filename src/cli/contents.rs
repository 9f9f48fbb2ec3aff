//! Going through everything that inputs hold, in parallel, with results in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use rayon::prelude::*;

use super::glob::Globs;
use super::input;
use super::progress::Progress;
use super::threads::Pool;
use crate::base::Arch;
use crate::container::{Container, ContainerError, Entry, EntryKind, Options};
use crate::cubin::Image;

/// What to look at and which part of it.
#[derive(Clone, Debug, ClapArgs)]
pub struct ChooseArgs {
    /// Files or folders: PTX, cubins, fatbins, programs, libraries, archives, wheels, caches; - is standard input
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub inputs: Vec<PathBuf>,
    /// Only entries of this kind
    #[arg(long, value_name = "KIND", default_value = "all", help_heading = "Choosing")]
    pub kind: KindFilter,
    /// Only these architectures: repeat, or separate with commas
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Choosing")]
    pub arch: Vec<String>,
    /// Only entries with a kernel whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Only entries whose container path, or the end of it, matches (* and ?); repeat for several
    #[arg(long, value_name = "GLOB", help_heading = "Choosing")]
    pub entry: Vec<String>,
    /// Also search host files outside their fatbin sections, where cuobjdump does not look
    #[arg(long, help_heading = "Choosing")]
    pub scan: bool,
    /// How many threads to use [default: one a core]
    #[arg(long, short, value_name = "N", help_heading = "Choosing")]
    pub jobs: Option<usize>,
}

/// Kinds to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindFilter {
    /// Everything
    All,
    /// Cubins
    Cubin,
    /// PTX
    Ptx,
    /// LTO-IR
    Ltoir,
}

/// [`ChooseArgs`], decided.
pub struct Choice {
    kind: KindFilter,
    arches: Vec<Arch>,
    entries: Globs,
    /// Whether to show no progress.
    pub quiet: bool,
    /// Whether PTX is wanted whatever its architecture.
    pub any_ptx: bool,
    /// Names of kernels.
    pub kernels: Globs,
    containers: Vec<Container>,
    pool: Pool,
}

impl Choice {
    /// Reads the arguments; standard input is read whole.
    pub fn new(args: &ChooseArgs) -> Result<Self> {
        let options = Options { scan: args.scan };
        let mut containers = Vec::new();
        for path in input::unique(&args.inputs) {
            containers.push(if path.as_os_str() == "-" {
                Container::from_bytes(input::STDIN_NAME, input::stdin()?.to_vec(), options)
            } else {
                Container::open(&path, options)
            });
        }
        let threads = args.jobs.unwrap_or(0);
        Ok(Choice {
            kind: args.kind,
            quiet: true,
            any_ptx: false,
            arches: args.arch.iter().map(|arch| arch.parse().map_err(anyhow::Error::from)).collect::<Result<_>>()?,
            entries: Globs::new(
                &args.entry.iter().flat_map(|glob| [glob.clone(), format!("*/{glob}")]).collect::<Vec<_>>(),
            )?,
            kernels: Globs::new(&args.kernel)?,
            containers,
            pool: Pool::start(threads),
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
    ) -> Result<()> {
        let ahead = |container: &Container| container.parts().iter().map(Container::bytes_ahead).sum::<u64>();
        let shown = Progress::is_shown(self.quiet);
        let total = if shown { self.containers.iter().map(ahead).sum() } else { 0 };
        let progress = Progress::of_bytes(total, "reading", self.quiet);
        let mut parts = self.containers.iter().flat_map(Container::parts);
        let mut queue = InOrder::default();
        let (sender, receiver) = mpsc::channel();
        let stopped = AtomicBool::new(false);
        let produce = {
            let (look, stopped, progress) = (&look, &stopped, &progress);
            move || {
                let visit = |(part, container): (usize, Container)| {
                    self.visit_part((part, &container), look, stopped, progress, &sender);
                };
                std::iter::from_fn(|| parts.next()).enumerate().par_bridge().for_each(visit);
            }
        };
        self.pool.install_beside(produce, || {
            for (at, result) in receiver {
                queue.put(at, result);
                while let Some(result) = queue.next() {
                    if let Err(error) = take(result) {
                        stopped.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(())
        })
    }

    fn visit_part<T: Send>(
        &self,
        (part, container): (usize, &Container),
        look: &(impl Fn(&Entry) -> Option<T> + Sync),
        stopped: &AtomicBool,
        progress: &Progress,
        sender: &mpsc::Sender<(Place, Option<Looked<T>>)>,
    ) {
        let count = AtomicUsize::new(0);
        let left = AtomicU64::new(if Progress::is_shown(self.quiet) { container.bytes_ahead() } else { 0 });
        let advance = |bytes: u64| {
            let spend = |left: u64| Some(left.saturating_sub(bytes));
            let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).unwrap_or(0);
            progress.advance(before.min(bytes));
        };
        let entries = container.entries().filter(|entry| {
            entry.as_ref().map_or(true, |entry| {
                let wanted = self.wants(entry);
                if !wanted {
                    advance(entry.stored_bytes);
                }
                wanted
            })
        });
        let numbered = entries.take_while(|_| !stopped.load(Ordering::Relaxed)).enumerate();
        numbered.par_bridge().for_each(|(at, entry)| {
            count.fetch_add(1, Ordering::Relaxed);
            let result = match entry {
                Err(error) => Some(Err(error)),
                Ok(entry) => {
                    let looked = look(&entry).map(Ok);
                    entry.release();
                    advance(entry.stored_bytes);
                    looked
                }
            };
            // Nobody listens any more once taking has failed.
            let _ = sender.send((Place::Item(part, at), result));
        });
        // What is no entry is done with as well.
        advance(u64::MAX);
        let _ = sender.send((Place::End(part, count.into_inner()), None));
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
        kind && self.entries.matches([entry.path.as_str()])
            && (self.arches.is_empty()
                || self.any_ptx && entry.kind == EntryKind::Ptx
                || self.arches.iter().any(|arch| entry.arch.is_none_or(|found| found.sm == arch.sm)))
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
        self.arches.is_empty() || arch.is_some_and(|arch| self.arches.contains(&arch))
    }
}

/// What came of an entry.
type Looked<T> = Result<T, ContainerError>;

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
    waiting: BTreeMap<(usize, usize), Option<Looked<T>>>,
    ends: BTreeMap<usize, usize>,
    next: (usize, usize),
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder { waiting: BTreeMap::new(), ends: BTreeMap::new(), next: (0, 0) }
    }
}

impl<T> InOrder<T> {
    fn put(&mut self, at: Place, result: Option<Looked<T>>) {
        match at {
            Place::Item(part, at) => drop(self.waiting.insert((part, at), result)),
            Place::End(part, count) => drop(self.ends.insert(part, count)),
        }
    }

    /// The next result, when it is there.
    fn next(&mut self) -> Option<Looked<T>> {
        loop {
            let (part, at) = self.next;
            if let Some(result) = self.waiting.remove(&self.next) {
                self.next.1 += 1;
                match result {
                    Some(result) => return Some(result),
                    None => continue,
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
