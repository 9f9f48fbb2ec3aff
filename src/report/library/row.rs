//! One function of a library.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Serialize, Serializer};

use super::findings::{RowFinding, findings};
use crate::base::{RegFile, work};
use crate::cubin::{Function, FunctionKind, Image};
use crate::ptx;
use crate::registers::code::{Code, Counting, WordKind};
use crate::registers::spills;
use crate::report::code::{marked_spills, own_ranges};
use crate::report::join::{cubin_facts, functions_by_name, launch_with, resources_of};
use crate::report::occupancy::Source;
use crate::report::warps;
use crate::report::{Instructions, KernelKind, LaunchHints, Occupancy, Peak, Resources};
use crate::sass::Word;
use crate::sass::transfer::is_padding;
use crate::toolchain::log::Log;

/// How far a function is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What the cubin records: no instruction is looked at.
    Resources,
    /// Decoded and solved.
    Full,
}

/// A cubin of the library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntryFacts {
    /// Where it is: `libfoo.so/.nv_fatbin[3]`.
    #[serde(serialize_with = "text")]
    pub entry: Arc<str>,
    /// `sm_90a`.
    #[serde(serialize_with = "text")]
    pub arch: Arc<str>,
    /// Whether it still has to be linked.
    pub relocatable: bool,
    /// The tool that made it, from its notes.
    pub made_by: Option<String>,
    /// That tool's options.
    pub made_with: Option<String>,
    /// Kernels and device functions in it that were chosen.
    pub functions: u64,
    /// Constant banks and global memory of the module are not any function's: bytes of global memory.
    pub gmem_bytes: u64,
    /// What a compiler's cache says of it.
    pub jit: Option<JitFacts>,
    /// What could not be read of it; the rest was.
    pub problems: Vec<String>,
}

/// What lies beside a cubin in a compiler's cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JitFacts {
    /// The kernel's name.
    pub kernel: Option<String>,
    /// The file name of its PTX.
    pub ptx: Option<String>,
    /// What the cache records: `num_warps`, `num_stages`, …
    pub options: serde_json::Map<String, serde_json::Value>,
}

/// A kernel, or a device function with a section of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The cubin it is in.
    #[serde(serialize_with = "text")]
    pub entry: Arc<str>,
    /// `sm_90a`.
    #[serde(serialize_with = "text")]
    pub arch: Arc<str>,
    /// As the cubin has it.
    pub name: String,
    /// As the front end's language spells it; null when the name is not mangled, or when nobody asked.
    pub demangled: Option<String>,
    /// Kernel or device function.
    pub kind: KernelKind,
    /// What it needs.
    pub resources: Resources,
    /// The frame with those of all callees, STACK of `cuobjdump -res-usage`; null where recursion leaves it open.
    pub cumulative_stack_bytes: Option<u64>,
    /// Shared memory that the system reserves in each block, part of SHARED in `cuobjdump -res-usage`.
    pub smem_reserved_bytes: u64,
    /// Spill instructions; null when they cannot be told from other local memory.
    pub spills: Option<RowSpills>,
    /// How its code was accounted for; its parts are null where no instruction was looked at.
    pub instructions: Instructions,
    /// Live registers; null where no instruction was looked at, or for an architecture that is not decoded.
    pub pressure: Option<RowPressure>,
    /// Blocks per SM; null for a function.
    pub occupancy: Option<Occupancy>,
    /// What the checks found and what ptxas warned of, the worst first; null where there is no PTX to check, and no log.
    pub findings: Option<Vec<RowFinding>>,
    /// Whether a compiler's cache says how it was made: then it is a row of its own, whatever its figures are.
    #[serde(skip)]
    pub is_configured: bool,
    /// Where else it is with the same figures, where copies share a row.
    #[serde(skip)]
    pub copies: Vec<Copied>,
}

/// Another place of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The cubin.
    pub entry: Arc<str>,
    /// Its architecture.
    pub arch: Arc<str>,
}

/// The figures in which copies are the same.
type Figures = [Option<u64>; 13];

impl Row {
    /// Shared memory of a block: what is declared, and what is known of what the launch adds, or the least that it must add.
    pub fn smem_bytes(&self) -> Option<u64> {
        let launched =
            self.occupancy.as_ref().and_then(|found| found.smem_dynamic_bytes.or(found.smem_dynamic_least_bytes));
        Some(self.resources.smem_bytes?.saturating_add(launched.unwrap_or(0)))
    }

    /// The architectures that it is for, the oldest first.
    pub fn arches(&self) -> Vec<&str> {
        let mut all: Vec<&str> =
            std::iter::once(&self.arch).chain(self.copies.iter().map(|copy| &copy.arch)).map(|arch| &**arch).collect();
        all.sort_by_key(|arch| (sm_number(arch), *arch));
        all.dedup();
        all
    }

    fn figures(&self) -> Figures {
        let pressure = self.pressure.as_ref();
        let occupancy = self.occupancy.as_ref();
        [
            self.resources.registers.map(u64::from),
            pressure.map(|found| u64::from(found.gpr.peak)),
            pressure.map(|found| u64::from(found.exact)),
            self.spills.map(|spills| spills.instructions),
            self.resources.stack_bytes,
            self.smem_bytes(),
            self.resources.barriers.map(u64::from),
            occupancy.and_then(Occupancy::most_warps_per_sm).map(u64::from),
            occupancy.map(|found| u64::from(found.max_warps_per_sm)),
            occupancy.and_then(|found| found.warps_per_sm).map(u64::from),
            self.instructions.count(),
            Some(self.resources.code_bytes),
            self.finding_count(),
        ]
    }

    /// How many findings it has; none where it was not checked.
    pub fn finding_count(&self) -> Option<u64> {
        self.findings.as_ref().map(|found| found.iter().map(|finding| finding.count).sum())
    }

    /// What copies have in common: who has not all of it is a row of its own. The sum of it counts such rows.
    pub fn identity(&self, key: SortKey) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, self.kind == KernelKind::Entry, self.figures()).hash(&mut hasher);
        ((key == SortKey::Arch).then_some(&self.arch), self.is_configured.then_some(&self.entry)).hash(&mut hasher);
        hasher.finish()
    }
}

/// The spill stores and refills of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RowSpills {
    /// How many instructions.
    pub instructions: u64,
    /// Bytes stored; null where no instruction was looked at.
    pub store_bytes: Option<u64>,
    /// Bytes loaded.
    pub load_bytes: Option<u64>,
}

/// The peaks of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowPressure {
    /// False when an unknown instruction can be reached.
    pub exact: bool,
    /// Vector registers.
    pub gpr: Peak,
    /// Predicates.
    pub pred: Peak,
    /// Uniform registers.
    pub ugpr: Peak,
    /// Uniform predicates.
    pub upred: Peak,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// What is known of a cubin beside itself.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// Its PTX.
    pub module: Option<&'a ptx::Module<'a>>,
    /// ptxas's log, where it was compiled here.
    pub log: Option<&'a Log>,
    /// What the user or a compiler's cache says of the launch.
    pub launch: LaunchHints,
}

/// What all rows of a cubin are made from.
struct Rows<'a> {
    image: &'a Image<'a>,
    entry: Arc<str>,
    arch: Arc<str>,
    depth: Depth,
    launch: LaunchHints,
    kernels: HashMap<&'a str, ptx::Function<'a, 'a>>,
    /// By kernel, of those that could be checked.
    findings: HashMap<String, Vec<RowFinding>>,
}

/// The rows of one cubin, in its order; of the functions that `wanted` lets pass.
pub fn rows<'a>(
    image: &'a Image<'a>,
    entry: &str,
    arch: &str,
    depth: Depth,
    beside: Beside<'a>,
    wanted: &(dyn Fn(&str) -> bool + Sync),
) -> (EntryFacts, Vec<Row>) {
    let (entry, arch): (Arc<str>, Arc<str>) = (Arc::from(entry), Arc::from(arch));
    let kernels = functions_by_name(beside.module);
    let from = Rows {
        image,
        entry: Arc::clone(&entry),
        arch: Arc::clone(&arch),
        depth,
        launch: beside.launch,
        kernels,
        findings: if depth == Depth::Full { findings(image, beside) } else { HashMap::new() },
    };
    let row = |function: &'a Function<'a>| wanted(&function.name).then(|| from.row(function));
    let rows: Vec<Row> = match depth {
        Depth::Resources => image.functions.iter().filter_map(row).collect(),
        // A library's largest cubin may be most of it.
        Depth::Full => {
            let deadline = work::deadline();
            image.functions.par_iter().filter_map(|function| work::under(&deadline, || row(function))).collect()
        }
    };
    let facts = cubin_facts(image);
    let facts = EntryFacts {
        entry,
        arch,
        relocatable: facts.relocatable,
        made_by: facts.made_by,
        made_with: facts.made_with,
        functions: rows.len() as u64,
        gmem_bytes: image.gmem_bytes,
        jit: None,
        problems: image.problems.iter().map(ToString::to_string).collect(),
    };
    (facts, rows)
}

impl<'a> Rows<'a> {
    fn row(&self, function: &'a Function<'a>) -> Row {
        let image = self.image;
        let resources = resources_of(function, None);
        let is_entry = function.kind == FunctionKind::Entry;
        let from = &function.resources;
        let mut row = Row {
            entry: Arc::clone(&self.entry),
            arch: Arc::clone(&self.arch),
            name: function.name.to_string(),
            demangled: None,
            kind: if is_entry { KernelKind::Entry } else { KernelKind::Func },
            cumulative_stack_bytes: from.min_stack_bytes.map(u64::from),
            smem_reserved_bytes: u64::from(from.smem_reserved_bytes),
            spills: marked_spills(image, function).map(|marked| RowSpills {
                instructions: marked.len() as u64,
                store_bytes: None,
                load_bytes: None,
            }),
            instructions: words(image, function),
            pressure: None,
            occupancy: if is_entry { self.occupancy(function, &resources) } else { None },
            findings: if is_entry { self.findings.get(&*function.name).cloned() } else { None },
            resources,
            is_configured: false,
            copies: Vec::new(),
        };
        if self.depth == Depth::Full
            && let Some(code) = Code::analyse(image.arch, function, &Counting::default())
        {
            solve(&mut row, image, function, &code);
        }
        row
    }

    /// As the report has it. The kernel is executed only where that could change the answer: a library has thousands.
    fn occupancy(&self, function: &'a Function<'a>, resources: &Resources) -> Option<Occupancy> {
        let (image, hints) = (self.image, self.launch);
        let ptx = self.kernels.get(&*function.name);
        let launch = launch_with(function, ptx);
        let source = Source { image, function, ptx, resources, launch: &launch, hints, memory: None };
        let is_asked = self.depth == Depth::Full && source.asks_memory();
        let memory = ptx.filter(|_| is_asked).and_then(|kernel| warps::memory_of(kernel, &launch, &hints));
        Source { memory: memory.as_ref(), ..source }.occupancy()
    }
}

/// How many words its code has, and how many of them only fill it up: as decoding counts them.
fn words(image: &Image<'_>, function: &Function<'_>) -> Instructions {
    if image.arch.sm < 70 {
        return Instructions::default();
    }
    let padding = function.code.chunks_exact(16).rev().take_while(|word| is_padding(Word::from_bytes(word))).count();
    let end = (function.code.len() / 16 - padding) as u32;
    let (mut total, mut padding) = (0, 0);
    for range in own_ranges(function) {
        let (from, to) = (range.start.0 / 16, range.end.0 / 16);
        total += u64::from(to.saturating_sub(from));
        padding += u64::from(to.saturating_sub(from.max(end)));
    }
    Instructions { total: Some(total), padding: Some(padding), ..Instructions::default() }
}

/// Fills in what the code says.
fn solve(row: &mut Row, image: &Image<'_>, function: &Function<'_>, code: &Code) {
    let ranges = own_ranges(function);
    let kinds = code.word_kinds(&ranges);
    let count = |kind: WordKind| kinds.iter().filter(|&&found| found == kind).count() as u64;
    row.instructions = Instructions {
        total: Some(kinds.len() as u64),
        decoded: Some(count(WordKind::Known)),
        unknown: Some(count(WordKind::Unknown)),
        padding: Some(count(WordKind::Padding)),
        ..Instructions::default()
    };
    let peak = |file| {
        let found = code.peak(&ranges, file);
        Peak { peak: found.registers, pc: found.pc.filter(|_| found.registers > 0), ptx_line: None, source_line: None }
    };
    row.pressure = Some(RowPressure {
        exact: code.exact(&ranges),
        gpr: peak(RegFile::Gpr),
        pred: peak(RegFile::Pred),
        ugpr: peak(RegFile::Ugpr),
        upred: peak(RegFile::Upred),
    });
    let marked = marked_spills(image, function);
    let is_kernel = function.kind == FunctionKind::Entry;
    row.spills = spills::find(Some(code), &ranges, marked.as_deref(), is_kernel, None).map(|found| {
        let bytes = |store: bool| {
            let mut sum = 0;
            for access in &found {
                if access.is_store? == store {
                    sum += u64::from(access.bytes?);
                }
            }
            Some(sum)
        };
        RowSpills { instructions: found.len() as u64, store_bytes: bytes(true), load_bytes: bytes(false) }
    });
    if let Some(found) = row.spills.filter(|_| is_kernel) {
        (row.resources.spill_store_bytes, row.resources.spill_load_bytes) = (found.store_bytes, found.load_bytes);
    }
}

/// What a table may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(PartialOrd, Ord))]
pub enum SortKey {
    /// Registers, most first.
    Registers,
    /// Live vector registers at most, most first.
    Live,
    /// Spill instructions, most first.
    Spills,
    /// Stack frame, largest first.
    Stack,
    /// Static shared memory, largest first.
    Smem,
    /// Findings, the worst first.
    Findings,
    /// Warps per SM, fewest first.
    Occupancy,
    /// Instructions, most first.
    Instructions,
    /// Code, largest first.
    Code,
    /// By name.
    Name,
    /// By architecture.
    Arch,
    /// As the container has it.
    Order,
}

/// Keeps the `top` worst rows, the worst first; what is not known comes last, and equals by architecture, name and place.
pub fn sort(rows: &mut Vec<Row>, key: SortKey, top: usize) {
    if key == SortKey::Order {
        rows.truncate(top);
        return;
    }
    let by_text = |a: &Row, b: &Row| -> Ordering {
        let both = if key == SortKey::Arch {
            by_arch(a, b).then_with(|| a.name.cmp(&b.name))
        } else {
            a.name.cmp(&b.name).then_with(|| by_arch(a, b))
        };
        both.then_with(|| a.entry.cmp(&b.entry))
    };
    // Rows are large and most of them are not kept: their numbers are sorted.
    let mut order: Vec<(Option<u64>, usize)> = rows.iter().map(|row| worth(row, key)).zip(0..).collect();
    let worst = |a: &(Option<u64>, usize), b: &(Option<u64>, usize)| {
        b.0.cmp(&a.0).then_with(|| by_text(&rows[a.1], &rows[b.1])).then(a.1.cmp(&b.1))
    };
    if top < order.len() {
        order.select_nth_unstable_by(top, worst);
        order.truncate(top);
    }
    order.sort_unstable_by(worst);
    let mut from: Vec<Option<Row>> = std::mem::take(rows).into_iter().map(Some).collect();
    rows.extend(order.into_iter().filter_map(|(_, at)| from.get_mut(at)?.take()));
}

/// As [`sort`], but copies of a kernel that have the same figures are one row: the first of them, which knows the others. Rows may be
/// folded again when more have come: what is cut is what comes after `top` rows whatever comes.
pub fn fold(rows: &mut Vec<Row>, key: SortKey, top: usize) {
    if key == SortKey::Order {
        return sort(rows, key, top);
    }
    let alone = |row: &Row| row.is_configured.then(|| Arc::clone(&row.entry));
    let arch_first = |a: &Row, b: &Row| if key == SortKey::Arch { by_arch(a, b) } else { Ordering::Equal };
    let by_identity = |a: &Row, b: &Row| -> Ordering {
        let is_entry = |row: &Row| row.kind == KernelKind::Entry;
        worth(b, key)
            .cmp(&worth(a, key))
            .then_with(|| arch_first(a, b))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| is_entry(b).cmp(&is_entry(a)))
            .then_with(|| b.figures().cmp(&a.figures()))
            .then_with(|| alone(a).cmp(&alone(b)))
    };
    let mut all = std::mem::take(rows);
    all.sort_by(|a, b| by_identity(a, b).then_with(|| by_arch(a, b)).then_with(|| a.entry.cmp(&b.entry)));
    for row in all {
        let is_full = rows.len() >= top;
        match rows.last_mut() {
            Some(last) if by_identity(last, &row).is_eq() => {
                last.copies.push(Copied { entry: row.entry, arch: row.arch });
                last.copies.extend(row.copies);
            }
            _ if is_full => break,
            _ => rows.push(row),
        }
    }
}

/// What a row is sorted by, where that is a figure.
fn worth(row: &Row, key: SortKey) -> Option<u64> {
    match key {
        SortKey::Registers => row.resources.registers.map(u64::from),
        SortKey::Live => row.pressure.as_ref().map(|pressure| u64::from(pressure.gpr.peak)),
        SortKey::Spills => row.spills.map(|spills| spills.instructions),
        SortKey::Stack => row.resources.stack_bytes,
        SortKey::Smem => row.smem_bytes(),
        SortKey::Findings => row.findings.as_ref().map(|found| {
            let worst = found.first().map_or(0, |first| 1 + first.severity as u64);
            worst << 32 | row.finding_count().unwrap_or(0)
        }),
        SortKey::Occupancy => row.occupancy.as_ref().and_then(|found| Some(u64::MAX - u64::from(found.warps_per_sm?))),
        SortKey::Instructions => row.instructions.count(),
        SortKey::Code => Some(row.resources.code_bytes),
        SortKey::Order | SortKey::Name | SortKey::Arch => None,
    }
}

fn by_arch(a: &Row, b: &Row) -> Ordering {
    sm_number(&a.arch).cmp(&sm_number(&b.arch)).then_with(|| a.arch.cmp(&b.arch))
}

/// 90 of `sm_90a`, so that sm_100 comes after it.
pub(super) fn sm_number(arch: &str) -> u32 {
    let digits = arch.trim_start_matches("sm_");
    let digits = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of recorded cubins, each there three times.
    fn gathered() -> Vec<Vec<Row>> {
        let mut all = Vec::new();
        for (copy, name) in (0..3).flat_map(|copy| {
            ["functions-12.0-sm_75", "hopper-13.4-sm_90a", "functions-13.4-sm_75", "culprits-13.4-sm_90"]
                .map(|name| (copy, name))
        }) {
            let file = format!("{}/testdata/cubin/{name}.cubin", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(file).unwrap();
            let image = Image::parse(&bytes).unwrap();
            let (entry, arch) = (format!("{copy}/{name}"), image.arch.to_string());
            let beside = Beside { module: None, log: None, launch: LaunchHints::default() };
            all.push(rows(&image, &entry, &arch, Depth::Resources, beside, &|_| true).1);
        }
        all
    }

    /// However often rows are folded and cut on the way, what is kept is what would be kept of all of them.
    #[test]
    fn folding_on_the_way_is_folding_at_the_end() {
        let told = |rows: &[Row]| {
            let places = |row: &Row| {
                row.copies.iter().map(|copy| copy.entry.to_string()).collect::<std::collections::BTreeSet<_>>()
            };
            rows.iter().map(|row| (row.entry.to_string(), row.name.clone(), places(row))).collect::<Vec<_>>()
        };
        for key in [SortKey::Registers, SortKey::Code, SortKey::Name, SortKey::Arch, SortKey::Spills] {
            for top in [1, 3, 8, usize::MAX] {
                let mut whole: Vec<Row> = gathered().into_iter().flatten().collect();
                let distinct: std::collections::HashSet<u64> = whole.iter().map(|row| row.identity(key)).collect();
                fold(&mut whole, key, top);
                assert_eq!(whole.len(), distinct.len().min(top), "{key:?} {top}");
                assert!(whole.iter().all(|row| row.copies.len() >= 2), "{key:?}: each is there three times");
                let mut pieces = Vec::new();
                for mut rows in gathered().into_iter().rev() {
                    pieces.append(&mut rows);
                    fold(&mut pieces, key, top);
                }
                assert_eq!(told(&pieces), told(&whole), "{key:?} {top}");
            }
        }
    }

    #[test]
    fn what_a_compilers_cache_tells_apart_is_not_folded() {
        let mut all: Vec<Row> = gathered().into_iter().flatten().collect();
        let count = all.len();
        all.iter_mut().for_each(|row| row.is_configured = true);
        fold(&mut all, SortKey::Registers, usize::MAX);
        assert_eq!(all.len(), count);
    }
}
