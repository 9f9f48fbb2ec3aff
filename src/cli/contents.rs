//! Going through everything that inputs hold, in parallel, with results in order.

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use rayon::prelude::*;

use super::glob::Globs;
use super::input;
use crate::base::Arch;
use crate::container::{Container, ContainerError, Entry, EntryKind, Options};
use crate::cubin::Image;

/// Entries looked at together: at most this many …
const BATCH_ENTRIES: usize = 512;
/// … and about this many bytes, decompressed.
const BATCH_BYTES: u64 = 64 << 20;

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
    /// Names of kernels.
    pub kernels: Globs,
    containers: Vec<Container>,
    pool: rayon::ThreadPool,
}

impl Choice {
    /// Reads the arguments; standard input is read whole.
    pub fn new(args: &ChooseArgs) -> Result<Self> {
        let options = Options { scan: args.scan };
        let mut containers = Vec::new();
        for path in input::unique(&args.inputs) {
            containers.push(if path.as_os_str() == "-" {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
                Container::from_bytes("<stdin>", bytes, options)
            } else {
                Container::open(&path, options)
            });
        }
        let threads = args.jobs.unwrap_or(0);
        Ok(Choice {
            kind: args.kind,
            arches: args.arch.iter().map(|arch| arch.parse().map_err(anyhow::Error::from)).collect::<Result<_>>()?,
            kernels: Globs::new(&args.kernel)?,
            containers,
            pool: rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?,
        })
    }

    /// Calls `look` for every entry of the chosen kind and architecture, in parallel, and `take` for what it returned, in
    /// order. Entries that `look` answers with `None` are passed over.
    pub fn visit<T: Send>(
        &self,
        look: impl Fn(&Entry) -> Option<T> + Sync,
        mut take: impl FnMut(Result<T, ContainerError>) -> Result<()>,
    ) -> Result<()> {
        for container in &self.containers {
            let parts = container.parts();
            if let [part] = &*parts {
                self.visit_part(part, &look, &mut take)?;
                continue;
            }
            // A few parts at a time, so that results do not pile up.
            for group in parts.chunks(self.pool.current_num_threads() * 4) {
                let results: Vec<Vec<_>> = self.pool.install(|| {
                    let alone = group.par_iter().map(|part| {
                        let mut results = Vec::new();
                        let _ = self.visit_part(part, &look, &mut |result| {
                            results.push(result);
                            Ok(())
                        });
                        results
                    });
                    alone.collect()
                });
                results.into_iter().flatten().try_for_each(&mut take)?;
            }
        }
        Ok(())
    }

    fn visit_part<T: Send>(
        &self,
        part: &Container,
        look: &(impl Fn(&Entry) -> Option<T> + Sync),
        take: &mut impl FnMut(Result<T, ContainerError>) -> Result<()>,
    ) -> Result<()> {
        let mut entries = part.entries();
        loop {
            let mut batch = Vec::new();
            let mut bytes = 0_u64;
            while batch.len() < BATCH_ENTRIES && bytes < BATCH_BYTES {
                let Some(entry) = entries.next() else { break };
                if let Ok(entry) = &entry {
                    if !self.wants(entry) {
                        continue;
                    }
                    bytes = bytes.saturating_add(entry.bytes);
                }
                batch.push(entry);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let results: Vec<_> = self.pool.install(|| {
                batch.into_par_iter().filter_map(|entry| entry.map(|entry| look(&entry)).transpose()).collect()
            });
            results.into_iter().try_for_each(&mut *take)?;
        }
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
        kind && (self.arches.is_empty()
            || self.arches.iter().any(|arch| entry.arch.is_none_or(|found| found.sm == arch.sm)))
    }

    /// Whether nothing was left out.
    pub fn is_everything(&self) -> bool {
        self.kind == KindFilter::All && self.arches.is_empty() && self.kernels.is_empty()
    }

    /// Whether this architecture was asked for.
    pub fn wants_arch(&self, arch: Option<Arch>) -> bool {
        self.arches.is_empty() || arch.is_some_and(|arch| self.arches.contains(&arch))
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
