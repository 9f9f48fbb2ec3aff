//! Addresses: whether they are aligned, stay within their variable, and are of the space that an instruction reads or writes.
//!
//! In: what the registers of an address hold in each thread, and the bits that are known of it. An address that a launch decides is taken
//! to be aligned as every allocation is; nothing else is assumed of it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::base::{FastMap, Line, work};
use crate::ptx::{
    Bulk, CpAsync, Function, Instruction, MbarrierAction, Operand, Operation, Register, StateSpace, Tcgen05, type_bits,
};
use crate::simt::{Bits, Declared, Held, Lanes, Patterns, Root, Site, SiteId, ThreadSet, Value, Warps, dataflow};
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Bytes of a tensor map, and what it is aligned to.
const MAP: (u64, u64) = (128, 64);
/// What the place of a box in shared memory is a multiple of.
const BOX: u64 = 128;
/// Bytes of an mbarrier.
const MBARRIER: u64 = 8;
/// Bytes of a row of a matrix that lanes load or store together.
const ROW: u64 = 16;
/// Bytes that somebody may have meant to copy at once.
const MOST_BYTES: u64 = 1 << 16;
/// Threads of a block at most.
const MOST_THREADS: u64 = 1024;
/// Blocks of a cluster that every launch may have.
const PORTABLE: u32 = 8;

/// A space as an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// None: a generic address.
    Generic,
    /// `.shared`, `.shared::cta`
    Own,
    /// `.shared::cluster`
    Cluster,
    /// `.global`, `.const`, `.local`
    Other(StateSpace),
    /// Told by nobody: `.param` and what is newer than this program.
    Open,
}

impl Named {
    fn of(word: &str) -> Option<Named> {
        Some(match word {
            "shared" | "shared::cta" => Named::Own,
            "shared::cluster" => Named::Cluster,
            "global" => Named::Other(StateSpace::Global),
            "const" => Named::Other(StateSpace::Const),
            "local" => Named::Other(StateSpace::Local),
            "param" | "param::entry" | "param::func" => Named::Open,
            _ => return None,
        })
    }

    /// Whether an address that starts at a root is one of this space.
    fn takes(self, root: Root) -> bool {
        match (self, root) {
            (Named::Open, _) => true,
            (Named::Generic, Root::Generic(_)) | (Named::Generic, Root::In(StateSpace::Global)) => true,
            (Named::Generic, _) => false,
            (Named::Own, root) => root == Root::In(StateSpace::Shared),
            (Named::Cluster, root) => matches!(root, Root::In(StateSpace::Shared) | Root::Mapped),
            (Named::Other(StateSpace::Global), Root::Generic(of)) => of == StateSpace::Global,
            (Named::Other(space), root) => root == Root::In(space),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Named::Generic => "generic",
            Named::Own => "shared::cta",
            Named::Cluster => "shared::cluster",
            Named::Other(StateSpace::Global) => "global",
            Named::Other(StateSpace::Const) => "const",
            Named::Other(StateSpace::Local) => "local",
            _ => "other",
        }
    }
}

/// An address that an instruction reads or writes.
struct Access<'a> {
    operand: Operand<'a>,
    /// Bytes from it on; none where they are not known.
    bytes: Option<u64>,
    /// What it must be a multiple of.
    align: u64,
    space: Named,
    writes: bool,
    /// What it is called.
    what: &'static str,
    /// Lanes of a warp whose addresses count.
    lanes: u32,
}

/// Checks the addresses of a kernel.
pub fn check(agreement: &mut Agreement<'_, '_>, bits: &Bits) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let warps = agreement.warps;
    let barriers = mbarriers(warps);
    // A declaration is told once for what it lacks, not at each access.
    let mut declared = HashSet::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let here = warps.at(index);
        if here.is_empty() {
            continue;
        }
        let mut add = |rule, confidence, message: String, reasoning: String| {
            let line = site.line();
            if !checks.iter().any(|known| (known.rule, known.line) == (rule, line)) {
                checks.push(Finding { rule, confidence, line, message, reasoning });
            }
        };
        for access in accesses(warps, (index, site)) {
            work::spend(1);
            let value = warps.values.operand(&warps.graph, index, access.operand);
            // A thread that a predicate keeps away that is not known may be just the one.
            let differs = matches!(value, Value::Addresses { .. });
            let here = if !differs || agreement.all_come(index) { here } else { ThreadSet::EMPTY };
            aligned(warps, bits, (index, &here), &access, &value, (&mut declared, &mut add));
            contained(warps, &here, &access, &value, &mut add);
            of_space(warps, index, &access, &mut add);
            overlapping(warps, (index, &here), &access, (&value, &barriers), &mut add);
        }
        source_size(agreement, (index, site), &here, &mut add);
        whole_units(warps, (index, site), &mut add);
        tensor_map(warps, (index, site), &mut add);
        ranks(agreement, (index, site), &here, &mut add);
    }
    checks
}

/// A bulk copy of so many bytes as are no multiple of 16.
fn whole_units(
    warps: &Warps<'_>,
    (index, site): (SiteId, &Site<'_>),
    add: &mut impl FnMut(Rule, Confidence, String, String),
) {
    let Operation::Bulk(Bulk::Copy { tensor: false } | Bulk::Reduce { tensor: false }) = site.operation else { return };
    let size = site.located.instruction.operand(2).map(|size| warps.values.operand(&warps.graph, index, size));
    if let Some(bytes) = size.and_then(|size| size.constant()).map(|bytes| bytes as u32)
        && !bytes.is_multiple_of(16)
    {
        let message = format!("{bytes} bytes by the bulk, which are no multiple of 16");
        let reasoning =
            "a bulk copy or reduction takes whole units of 16 bytes, from and to multiples of 16".to_owned();
        add(Rule::Aligned, Confidence::Likely, message, reasoning);
    }
}

/// What an instruction reads or writes at once in global or shared memory, where that is so much that lanes next to each other may be
/// too close, and the lanes of a warp whose addresses count.
fn wide(site: &Site<'_>) -> Option<(u64, u32)> {
    let instruction = site.located.instruction;
    if !matches!(site.operation, Operation::Other) {
        return None;
    }
    if matches!(instruction.mnemonic(), "ldmatrix" | "stmatrix") {
        return Some((ROW, rows(&instruction)));
    }
    let elsewhere = |word: &str| word.starts_with("param") || word == "local";
    let is_plain = matches!(instruction.mnemonic(), "ld" | "st") && !instruction.modifiers().any(elsewhere);
    let bytes = width(&instruction).filter(|bytes| is_plain && *bytes > 4 && bytes.is_power_of_two())?;
    Some((bytes, u32::MAX))
}

/// Lanes of a warp whose addresses a matrix has.
fn rows(instruction: &Instruction<'_>) -> u32 {
    let rows = |word: &str| Some(8 * word.strip_prefix('x')?.parse::<u32>().ok()?);
    instruction.modifiers().find_map(rows).unwrap_or(32)
}

/// Whether a kernel has accesses that `apart` looks at.
pub fn has_wide(warps: &Warps<'_>) -> bool {
    warps.graph.sites.iter().any(|site| wide(site).is_some())
}

/// Lanes whose addresses lie closer together than what each of them reads or writes at once is aligned to: wherever the first of them is,
/// not all are aligned.
pub fn apart(agreement: &mut Agreement<'_, '_>, bits: &Bits) -> Vec<Finding> {
    let warps = agreement.warps;
    let at = |site: &Site<'_>| usize::from(site.located.instruction.mnemonic().starts_with("ld"));
    let sites = warps.graph.sites.iter_enumerated().filter(|(index, _)| !warps.at(*index).is_empty());
    let wide: Vec<(SiteId, Operand<'_>, (u64, u32))> = sites
        .filter_map(|(index, site)| Some((index, site.located.instruction.operand(at(site))?, wide(site)?)))
        .collect();
    if wide.is_empty() || warps.threads.is_none() {
        return Vec::new();
    }
    let patterns = Patterns::of(warps, bits, wide.iter().map(|(index, operand, _)| (*index, *operand)));
    let mut checks = Vec::new();
    for (index, operand, (align, lanes)) in wide {
        let (Held::Pattern(pattern), ..) = patterns.address(index, operand) else { continue };
        if matches!(pattern.lanes, Lanes::Same(_)) || !agreement.all_come(index) {
            continue;
        }
        let here = warps.at(index);
        let mut first: Option<(u32, u64)> = None;
        let odd = here.iter().filter(|thread| thread % 32 < lanes).find_map(|thread| {
            let place = pattern.lanes.of(thread) & (align - 1);
            match first.filter(|(known, _)| known / 32 == thread / 32) {
                Some((known, there)) => (place != there).then_some((known, thread)),
                None => {
                    first = Some((thread, place));
                    None
                }
            }
        });
        let (Some((one, other)), Some(site)) = (odd, warps.graph.sites.get(index)) else { continue };
        let lie = pattern.lanes.of(other).wrapping_sub(pattern.lanes.of(one)) as i64;
        checks.push(Finding {
            rule: Rule::Aligned,
            confidence: Confidence::Likely,
            line: site.line(),
            message: format!(
                "{} of threads {one} and {other} lie {lie} bytes apart: not both are multiples of {align}",
                operand.text()
            ),
            reasoning: format!("the address of this instruction must be a multiple of {align} in every thread"),
        });
    }
    checks
}

/// Boxes of tensor copies that lie side by side in a variable which may start anywhere: where the first starts as it must, this one does
/// not.
pub fn boxes_apart(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let mut first: FastMap<u32, (i64, Line)> = FastMap::default();
    let mut checks: Vec<Finding> = Vec::new();
    for (index, site) in graph.sites.iter_enumerated() {
        let is_tensor =
            matches!(site.operation, Operation::Bulk(Bulk::Copy { tensor: true } | Bulk::Reduce { tensor: true }));
        if !is_tensor || warps.at(index).is_empty() {
            continue;
        }
        for access in accesses(warps, (index, site)).into_iter().filter(|access| access.align == BOX) {
            let value = warps.values.operand(graph, index, access.operand);
            let (Value::Address { variable, offset: Some(offset) }, Some((name, declared))) =
                (&value, declared(warps, &value))
            else {
                continue;
            };
            if declared.align >= BOX || declared.space != Some(StateSpace::Shared) {
                continue;
            }
            let (there, line) = *first.entry(*variable).or_insert((*offset, site.line()));
            let apart = offset.wrapping_sub(there);
            if apart & (BOX - 1) as i64 != 0 {
                checks.push(Finding {
                    rule: Rule::Aligned,
                    confidence: Confidence::Likely,
                    line: site.line(),
                    message: format!(
                        "{} is {apart} bytes of {name} from where line {} copies: not both are multiples of {BOX}",
                        access.operand.text(),
                        line.0
                    ),
                    reasoning: format!("the {} of this instruction must be a multiple of {BOX}", access.what),
                });
                return checks;
            }
        }
    }
    checks
}

/// A cluster that not every launch may have.
pub fn cluster_size(warps: &Warps<'_>, function: &Function<'_, '_>) -> Option<Finding> {
    let blocks = warps.cluster.filter(|blocks| *blocks > PORTABLE)?;
    let line = line_of(function, ".reqnctapercluster")?;
    Some(Finding {
        rule: Rule::WithinCluster,
        confidence: Confidence::Likely,
        line,
        message: format!("a cluster of {blocks} blocks, more than the {PORTABLE} that every GPU has room for"),
        reasoning:
            "a launch of more, 16 at most, is refused unless cudaFuncAttributeNonPortableClusterSizeAllowed is set"
                .to_owned(),
    })
}

/// A block that no launch may have, or that directives say of what is not done.
pub fn block_size(function: &Function<'_, '_>) -> Option<Finding> {
    let header = function.header();
    let finding = |rule, directive, message: String, reasoning: &str| {
        let (confidence, reasoning) = (Confidence::Likely, reasoning.to_owned());
        Some(Finding { rule, confidence, line: line_of(function, directive)?, message, reasoning })
    };
    let ignored = |message, reasoning| finding(Rule::DirectiveHeeded, ".minnctapersm", message, reasoning);
    let threads = |size: [u32; 3]| size.iter().map(|axis| u64::from(*axis)).product::<u64>();
    if let Some(threads) = header.required_threads().map(threads).filter(|threads| *threads > MOST_THREADS) {
        let message = format!("a block of {threads} threads, more than the {MOST_THREADS} that there may be");
        return finding(Rule::BlockFits, ".reqntid", message, "no launch of this kernel is accepted");
    }
    let least = u64::from(header.min_blocks_per_sm()?);
    match header.required_threads().or(header.max_threads()).map(threads) {
        None => {
            let message = ".minnctapersm without .maxntid or .reqntid".to_owned();
            let reasoning = "how many registers so many blocks leave for a thread hangs on how many threads they have: it is ignored";
            return ignored(message, reasoning);
        }
        Some(threads) if threads * least > MOST_ON_SM => {
            let message =
                format!(".minnctapersm {least} with blocks of {threads} threads: {} on an SM", threads * least);
            return ignored(message, "an SM holds 2,048 threads at most: it is ignored");
        }
        Some(_) => {}
    }
    header.max_registers()?;
    let message = ".minnctapersm beside .maxnreg".to_owned();
    ignored(message, "each of them decides how many registers a thread may have: a kernel has one of them")
}

/// Threads that an SM holds at most, of any architecture.
const MOST_ON_SM: u64 = 2048;

/// The line of a directive of a kernel: they stand between its name and its body.
fn line_of(function: &Function<'_, '_>, directive: &str) -> Option<Line> {
    let (text, name) = (function.module().text(), function.name());
    let at = (name.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let header = text.get(at..)?.split('{').next()?;
    let before = header.find(directive).and_then(|at| header.get(..at)).unwrap_or("");
    Some(Line(function.lines().0.0 + before.matches('\n').count() as u32))
}

/// Bytes that one thread reads or writes by an instruction's type and vector.
fn width(instruction: &Instruction<'_>) -> Option<u64> {
    let mut modifiers = instruction.modifiers();
    let vector = modifiers.find_map(|word| match word {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    let bits = instruction.modifiers().filter_map(bits_of).last()?;
    Some(u64::from(bits.div_ceil(8)) * vector.unwrap_or(1))
}

fn bits_of(word: &str) -> Option<u32> {
    if word == "b128" { Some(128) } else { type_bits(word).filter(|bits| *bits >= 8) }
}

/// The spaces that an instruction names, in order.
fn spaces(instruction: &Instruction<'_>) -> [Option<Named>; 2] {
    let mut named = instruction.modifiers().filter_map(Named::of);
    [named.next(), named.next()]
}

fn accesses<'a>(warps: &Warps<'a>, (index, site): (SiteId, &Site<'a>)) -> Vec<Access<'a>> {
    let instruction = site.located.instruction;
    let [first, second] = spaces(&instruction);
    let access = |at: usize, bytes: Option<u64>, align: u64, space: Option<Named>, writes: bool, what| {
        instruction.operand(at).map(|operand| Access {
            operand,
            bytes,
            align,
            space: space.unwrap_or(Named::Generic),
            writes,
            what,
            lanes: u32::MAX,
        })
    };
    let number = |at: usize| {
        instruction.operand(at).and_then(|operand| warps.values.operand(&warps.graph, index, operand).constant())
    };
    match site.operation {
        Operation::Mbarrier(mbarrier) => {
            let address = mbarrier.address.map(|operand| Access {
                operand,
                bytes: Some(MBARRIER),
                align: MBARRIER,
                space: first.unwrap_or(Named::Generic),
                writes: false,
                what: "mbarrier",
                lanes: u32::MAX,
            });
            address.into_iter().collect()
        }
        Operation::CpAsync(CpAsync::Copy) => {
            let bytes = number(2);
            let align = bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(1);
            let to = access(0, bytes, align, first, true, "destination");
            // What it does not copy it fills with zeros.
            let from = access(1, bytes.filter(|_| instruction.operand(3).is_none()), align, second, false, "source");
            to.into_iter().chain(from).collect()
        }
        Operation::Bulk(Bulk::Copy { tensor } | Bulk::Reduce { tensor }) => {
            let loads = second.is_none_or(|space| space == Named::Other(StateSpace::Global));
            let bytes = number(2).filter(|_| !tensor);
            let (to, from) = match (tensor, loads) {
                // `[map, {…}]` is no address of what is copied.
                (true, true) => (access(0, None, BOX, first, true, "destination"), None),
                (true, false) => (None, access(1, None, BOX, second, false, "source")),
                _ => (access(0, bytes, 16, first, true, "destination"), access(1, bytes, 16, second, false, "source")),
            };
            let is_signalled = instruction.modifiers().any(|word| word.starts_with("mbarrier::"));
            let barrier = if tensor { 2 } else { 3 };
            let barrier = access(barrier, Some(MBARRIER), MBARRIER, Some(Named::Cluster), false, "mbarrier");
            to.into_iter().chain(from).chain(barrier.filter(|_| is_signalled)).collect()
        }
        Operation::Tcgen05 { action: Tcgen05::Alloc, .. } => {
            // Kernels in use give it generic addresses, whose lower half is that in shared memory.
            access(0, Some(4), 4, Some(Named::Open), true, "destination").into_iter().collect()
        }
        Operation::Other | Operation::Fence { .. } => {
            let (at, writes) = match instruction.mnemonic() {
                "ld" | "atom" => (1, false),
                "st" | "red" => (0, true),
                "ldmatrix" => (1, false),
                "stmatrix" => (0, true),
                _ => return Vec::new(),
            };
            let is_matrix = instruction.mnemonic().ends_with("matrix");
            let bytes = if is_matrix { Some(ROW) } else { width(&instruction) };
            let align = bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(1);
            let writes = writes || instruction.mnemonic() == "atom";
            let mut found = access(at, bytes, align, first, writes, "address");
            if let Some(found) = found.as_mut().filter(|_| is_matrix) {
                found.lanes = rows(&instruction);
            }
            found.into_iter().collect()
        }
        _ => Vec::new(),
    }
}

type Add<'f> = &'f mut dyn FnMut(Rule, Confidence, String, String);

/// The places in a variable that threads of a set have, those of the lanes that count.
fn places<'v>(value: &'v Value, here: &'v ThreadSet, lanes: u32) -> Box<dyn Iterator<Item = (u32, i64)> + 'v> {
    match value {
        Value::Address { offset: Some(offset), .. } => {
            Box::new(here.iter().take(1).map(move |thread| (thread, *offset)))
        }
        Value::Addresses { offsets, .. } => {
            work::spend_on(offsets.len() / 16);
            let counted = here.iter().filter(move |thread| thread % 32 < lanes);
            Box::new(counted.filter_map(|thread| offsets.get(thread as usize).map(|offset| (thread, *offset))))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn declared<'w>(warps: &'w Warps<'_>, value: &Value) -> Option<(&'w str, &'w Declared)> {
    let variable = value.variable()? as usize;
    Some((warps.values.variables.get(variable)?.as_str(), warps.values.declared.get(variable)?))
}

fn aligned(
    warps: &Warps<'_>,
    bits: &Bits,
    (index, here): (SiteId, &ThreadSet),
    access: &Access<'_>,
    value: &Value,
    (told, add): (&mut HashSet<(u32, u64)>, Add<'_>),
) {
    let Access { align, what, .. } = *access;
    if align < 2 {
        return;
    }
    let text = access.operand.text();
    let rule = format!("the {what} of this instruction must be a multiple of {align}");
    let known = bits.operand(warps, index, access.operand);
    let variable = declared(warps, value).filter(|(_, declared)| declared.space.is_some());
    let lower = |declared: &Declared| (declared.align.min(align) - 1) as i64;
    let thread = variable
        .and_then(|(_, declared)| places(value, here, access.lanes).find(|(_, offset)| offset & lower(declared) != 0));
    if let (Some((thread, offset)), Some((name, _))) = (thread, variable) {
        let message = format!("{text} is byte {offset} of {name} in thread {thread}, no multiple of {align}");
        add(Rule::Aligned, Confidence::Likely, message, rule);
        return;
    }
    let past = known.ones & (align - 1);
    if past != 0 && variable.is_none_or(|(_, declared)| declared.align > past & past.wrapping_neg()) {
        let message = format!("{text} is {past} or more bytes past a multiple of {align}");
        add(Rule::Aligned, Confidence::Likely, message, rule);
        return;
    }
    if let Some((name, promised)) = promised(warps, index, access).filter(|(_, promised)| *promised < align) {
        let message =
            format!("{name} points to what is aligned to {promised} only, and {text} must be a multiple of {align}");
        add(Rule::Aligned, Confidence::Likely, message, format!("{rule}: declare it .ptr .align {align}"));
        return;
    }
    // A variable that may start anywhere.
    let Some((name, declared)) = variable.filter(|(_, declared)| declared.align < align) else { return };
    let is_static = declared.bytes.is_some() && declared.space != Some(StateSpace::Param);
    let is_open = known.zeros & (align - 1) & !(declared.align - 1) != (align - 1) & !(declared.align - 1);
    if is_static && is_open && value.variable().is_some_and(|variable| told.insert((variable, align))) {
        let message = format!("{name} is aligned to {} only, and {text} must be a multiple of {align}", declared.align);
        add(Rule::Aligned, Confidence::Likely, message, format!("{rule}: declare it .align {align}"));
    }
}

/// What a parameter that an access starts from says of what it points to.
fn promised<'w>(warps: &'w Warps<'_>, index: SiteId, access: &Access<'_>) -> Option<(&'w str, u64)> {
    let (variable, _) = warps.values.parameter(&warps.graph, index, access.operand)?;
    let promised = warps.values.declared.get(variable as usize)?.points_to?;
    Some((warps.values.variables.get(variable as usize)?.as_str(), promised))
}

fn contained(warps: &Warps<'_>, here: &ThreadSet, access: &Access<'_>, value: &Value, add: Add<'_>) {
    let Some((name, declared)) = declared(warps, value) else { return };
    let (Some(bytes), Some(size)) = (access.bytes, declared.bytes) else { return };
    let is_past = |offset: i64| {
        let end = i128::from(offset) + i128::from(bytes);
        offset < 0 || end > i128::from(size)
    };
    let past = places(value, here, access.lanes).find(|(_, offset)| is_past(*offset));
    if let Some((thread, offset)) = past {
        let verb = if access.writes { "writes" } else { "reads" };
        let who = match value {
            Value::Addresses { .. } => format!("thread {thread} "),
            _ => String::new(),
        };
        add(
            Rule::WithinVariable,
            Confidence::Likely,
            format!(
                "{who}{verb} bytes {offset} to {} of {name}, which has {size}",
                i128::from(offset) + i128::from(bytes) - 1
            ),
            "what lies before and behind a variable belongs to others".to_owned(),
        );
    }
}

fn of_space(warps: &Warps<'_>, index: SiteId, access: &Access<'_>, add: Add<'_>) {
    let Some(root) = warps.values.root(&warps.graph, index, access.operand) else { return };
    if access.space.takes(root) || root == Root::Mapped && warps.values.is_own(&warps.graph, index, access.operand) {
        return;
    }
    let (text, space) = (access.operand.text(), access.space.name());
    let reasoning = match (access.space, root) {
        (Named::Own, Root::Mapped) => "what mapa gives may be in another block: use it with .shared::cluster",
        (Named::Generic, _) => "without a space an address is generic: cvta makes one of an address in a space",
        (_, Root::Generic(_)) => "an address in a space is no generic one: cvta.to makes one of the other",
        _ => "an address is of the space that its instruction names",
    };
    let message = format!("{text} is {}, and this instruction takes a {space} one", in_words(root));
    add(Rule::OfSpace, Confidence::Likely, message, reasoning.to_owned());
}

fn in_words(root: Root) -> String {
    let name = |space: StateSpace| match space {
        StateSpace::Shared => "shared",
        StateSpace::Global => "global",
        StateSpace::Const => "const",
        StateSpace::Local => "local",
        StateSpace::Param => "param",
        _ => "other",
    };
    match root {
        Root::In(space) => format!("a {} address", name(space)),
        Root::Mapped => "an address of another block, made by mapa".to_owned(),
        Root::Generic(space) => format!("a generic address, made from a {} one", name(space)),
    }
}

/// A copy that reads more than it writes.
fn source_size(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>), here: &ThreadSet, add: Add<'_>) {
    if !matches!(site.operation, Operation::CpAsync(CpAsync::Copy)) {
        return;
    }
    let warps = agreement.warps;
    let number = |at: usize| {
        let operand = site.located.instruction.operand(at)?;
        Some(warps.values.operand(&warps.graph, index, operand))
    };
    let Some((Value::Constant(size), source)) = number(2).zip(number(3)) else { return };
    let chosen = || {
        let operand = site.located.instruction.operand(3)?;
        warps
            .values
            .numbers(&warps.graph, index, operand)
            .into_iter()
            .find(|from| (size + 1..=MOST_BYTES).contains(from))
    };
    let (who, from) = match source {
        Value::Constant(from) => (String::new(), from),
        Value::Threads { values, elected: false } if agreement.all_come(index) => {
            let of_threads = here.iter().filter_map(|thread| Some((thread, *values.get(thread as usize)?)));
            let Some((thread, from)) = of_threads.max_by_key(|(thread, from)| (*from, std::cmp::Reverse(*thread)))
            else {
                return;
            };
            (format!(" in thread {thread}"), from)
        }
        _ => match chosen() {
            Some(from) => (" by a choice".to_owned(), from),
            None => return,
        },
    };
    if from > size {
        let message = format!("cp.async of {size} bytes is given a source of {from}{who}");
        let reasoning = "src-size is at most cp-size: the rest is filled with zeros".to_owned();
        add(Rule::SourceSize, Confidence::Likely, message, reasoning);
    }
}

/// The tensor map of a copy, or of a prefetch.
fn tensor_map(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>), add: Add<'_>) {
    let is_tensor = matches!(
        site.operation,
        Operation::Bulk(Bulk::Copy { tensor: true } | Bulk::Reduce { tensor: true } | Bulk::Prefetch { tensor: true })
    );
    if !is_tensor {
        return;
    }
    let has_coordinates = |operand: &Operand<'_>| operand.address().is_some_and(|mut map| map.rest.next().is_some());
    let Some(operand) = site.located.instruction.operands().find(has_coordinates) else { return };
    let text = operand.address().and_then(|address| address.base).unwrap_or("the address");
    if let Some(root) = warps.values.root(&warps.graph, index, operand) {
        let reasoning = match root {
            Root::Generic(StateSpace::Shared | StateSpace::Local)
            | Root::In(StateSpace::Shared | StateSpace::Local)
            | Root::Mapped => Some("a tensor map lies in .param, .const or .global memory"),
            Root::In(StateSpace::Param | StateSpace::Const) => {
                Some("the address of a tensor map is a generic one: cvta.param or cvta.const makes it")
            }
            _ => None,
        };
        if let Some(reasoning) = reasoning {
            let message = format!("the tensor map is at {text}, {}", in_words(root));
            add(Rule::OfSpace, Confidence::Likely, message, reasoning.to_owned());
            return;
        }
    }
    let value = warps.values.operand(&warps.graph, index, operand);
    let (Some((name, declared)), Value::Address { offset: Some(offset), .. }) = (declared(warps, &value), &value)
    else {
        return;
    };
    let (bytes, align) = MAP;
    let room = declared.bytes.map(|bytes| i128::from(bytes) - i128::from(*offset));
    if let Some(room) = room.filter(|room| *room < i128::from(bytes) || *offset < 0) {
        let message = format!("{name} has {room} bytes for a tensor map of {bytes}");
        add(Rule::WithinVariable, Confidence::Likely, message, "a tensor map has 128 bytes".to_owned());
    } else if declared.align < align || offset.rem_euclid(align as i64) != 0 {
        let message = format!("the tensor map {name} is aligned to {} bytes only", declared.align);
        add(Rule::Aligned, Confidence::Likely, message, "a tensor map is aligned to 64 bytes".to_owned());
    }
}

/// Mbarriers that are initialised: variable, offset, the instruction; who uses one, and where that is known which; and whether anything
/// gives their memory back.
struct Objects {
    places: Vec<(u32, i64, SiteId)>,
    uses: Vec<(SiteId, Option<(u32, i64)>)>,
    is_given_back: bool,
}

impl Objects {
    /// Whether somebody may use an object after an instruction: where others are used, what nobody uses any more may be overwritten.
    fn is_used_after(&self, warps: &Warps<'_>, (variable, at): (u32, i64), write: SiteId) -> bool {
        let may_be = |(_, place): &&(SiteId, Option<(u32, i64)>)| place.is_none_or(|place| place == (variable, at));
        self.uses.is_empty() || self.uses.iter().filter(may_be).any(|(index, _)| comes_after(warps, write, *index))
    }
}

fn mbarriers(warps: &Warps<'_>) -> Objects {
    let mut found = Objects { places: Vec::new(), uses: Vec::new(), is_given_back: false };
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Operation::Mbarrier(mbarrier) = site.operation else { continue };
        found.is_given_back |= mbarrier.action == MbarrierAction::Inval;
        let place = mbarrier.address.and_then(|address| match warps.values.operand(&warps.graph, index, address) {
            Value::Address { variable, offset: Some(offset) } => Some((variable, offset)),
            _ => None,
        });
        match (mbarrier.action, place) {
            (MbarrierAction::Init, Some((variable, offset))) => found.places.push((variable, offset, index)),
            (MbarrierAction::Init | MbarrierAction::Inval, _) => {}
            (_, place) => found.uses.push((index, place)),
        }
    }
    found
}

/// Writes to the memory of an mbarrier.
fn overlapping(
    warps: &Warps<'_>,
    (index, here): (SiteId, &ThreadSet),
    access: &Access<'_>,
    (value, barriers): (&Value, &Objects),
    add: Add<'_>,
) {
    if !access.writes || barriers.is_given_back {
        return;
    }
    let is_copy = matches!(
        warps.graph.sites.get(index).map(|site| site.operation),
        Some(Operation::Bulk(_) | Operation::CpAsync(_))
    );
    // The size of a box is not known; it is no smaller than this.
    let bytes = access.bytes.unwrap_or(16) as i64;
    for (variable, at, init) in barriers.places.iter().filter(|(variable, ..)| value.variable() == Some(*variable)) {
        let meets = |offset: i64| offset < at.saturating_add(MBARRIER as i64) && *at < offset.saturating_add(bytes);
        let Some((_, offset)) = places(value, here, access.lanes).find(|(_, offset)| meets(*offset)) else { continue };
        if !(is_copy || comes_after(warps, *init, index) && barriers.is_used_after(warps, (*variable, *at), index)) {
            continue;
        }
        let name = warps.values.variables.get(*variable as usize).map_or("", String::as_str);
        let line = warps.graph.sites.get(*init).map_or(0, |site| site.line().0);
        add(
            Rule::MbarrierKept,
            Confidence::Likely,
            format!(
                "bytes {offset} to {} of {name} are written, where the mbarrier of line {line} is",
                offset + bytes - 1
            ),
            "an mbarrier is touched by mbarrier instructions alone, until mbarrier.inval gives its memory back"
                .to_owned(),
        );
        return;
    }
}

/// Whether a way leads from one instruction to another.
fn comes_after(warps: &Warps<'_>, from: SiteId, to: SiteId) -> bool {
    let who = warps.warps_at(from);
    let mut comes = false;
    dataflow::walk(
        &warps.graph,
        from,
        |edge| warps.may_go(&who, edge.to),
        |index, _| {
            comes |= index == to;
            if comes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    comes
}

/// Blocks that a cluster does not have.
fn ranks(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>), here: &ThreadSet, add: Add<'_>) {
    let warps = agreement.warps;
    let instruction = site.located.instruction;
    let number = |operand: Operand<'_>| warps.values.operand(&warps.graph, index, operand);
    if matches!(site.operation, Operation::Mapa) {
        mapped(warps, (index, site), add);
    }
    let Some(blocks) = warps.cluster else { return };
    if matches!(site.operation, Operation::Mapa) {
        let rank = instruction.operand(2).map(number).and_then(|rank| match rank {
            Value::Constant(rank) => Some(rank),
            Value::Threads { values, elected: false } if agreement.all_come(index) => {
                // Lanes that have no use for the address may ask for any block.
                let used = users(warps, (index, site)).intersection(here);
                used.iter().filter_map(|thread| values.get(thread as usize).copied()).max()
            }
            _ => None,
        });
        if let Some(rank) = rank.filter(|rank| *rank >= u64::from(blocks)) {
            add(
                Rule::WithinCluster,
                Confidence::Likely,
                format!("mapa asks for block {rank} of a cluster of {blocks}"),
                "the rank of a block is below the size of its cluster".to_owned(),
            );
        }
    }
    let is_multicast = instruction.modifiers().any(|word| word == "multicast::cluster");
    let mask = instruction.operands().last().filter(|_| is_multicast).map(number).and_then(|mask| mask.constant());
    if let Some(mask) = mask.filter(|mask| mask.checked_shr(blocks).unwrap_or(0) & 0xffff != 0) {
        add(
            Rule::WithinCluster,
            Confidence::Likely,
            format!("the mask {mask:#x} names blocks that a cluster of {blocks} does not have"),
            "a bit of the mask stands for a block of the cluster".to_owned(),
        );
    }
}

/// Threads that may use what an instruction gives.
fn users(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> ThreadSet {
    let registers = &warps.graph.registers;
    work::spend_on(warps.graph.sites.len() / 8);
    let made: Vec<Register> = registers.written_by(&site.located).collect();
    let uses = |(at, other): &(SiteId, &Site<'_>)| {
        *at != index && registers.of(&other.located).any(|used| !used.is_def && made.contains(&used.register))
    };
    let sites = warps.graph.sites.iter_enumerated().filter(uses);
    sites.fold(ThreadSet::EMPTY, |all, (at, _)| all.union(&warps.at(at)))
}

/// What mapa is given.
fn mapped(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>), add: Add<'_>) {
    let instruction = site.located.instruction;
    let Some(operand) = instruction.operand(1) else { return };
    let in_space = instruction.modifiers().any(|word| word.starts_with("shared"));
    let given = match warps.values.root(&warps.graph, index, operand) {
        Some(Root::In(StateSpace::Shared)) if in_space => None,
        Some(Root::Generic(StateSpace::Shared)) if !in_space => None,
        Some(root) => Some(in_words(root)),
        None if warps.values.may_be_mapped(&warps.graph, index, operand) => Some(in_words(Root::Mapped)),
        // No launch knows where the shared memory of a block is.
        None => warps
            .values
            .parameter(&warps.graph, index, operand)
            .map(|_| "a pointer that the launch hands over".to_owned()),
    };
    if let Some(given) = given {
        let message = format!("mapa is given {given}");
        let reasoning =
            "mapa takes an address in the shared memory of the block that runs it, of the space that it names";
        add(Rule::OfSpace, Confidence::Likely, message, reasoning.to_owned());
    }
}
