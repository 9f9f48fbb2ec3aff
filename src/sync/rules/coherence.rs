//! Reads that do not see what the kernel itself writes: through textures and surfaces, by `ld.global.nc`, and of another thread's local
//! memory.
//!
//! In: pointers and handles by the parameter that the launch hands them over in. Told where threads meet between a write and such a read
//! of the same, or where the read comes after a load that acquires: whoever waits there means to read what others have written.

use std::ops::ControlFlow;

use crate::base::{IndexVec, work};
use crate::ptx::{BarrierAction, Bulk, ClusterBarrierAction, Operand, Operation, Register, Shape, StateSpace};
use crate::simt::{BlockId, Graph, Root, Site, SiteId, ValueId, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Writes and reads that are compared.
const MAX_SITES: usize = 48;

/// What a read and a write have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory<'a> {
    /// What a parameter points to, or is the handle of: the variable, and where in it.
    Parameter(u32, i64),
    /// A handle that a register holds.
    Handle(ValueId),
    /// `.global .surfref s`
    Named(&'a str),
}

/// A way to memory that does not see what the kernel writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Surface,
    ReadOnly,
}

/// Checks what is read past the writes of a kernel.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    checks.extend(stale(warps));
    checks.extend(warps.graph.sites.iter_enumerated().find_map(|(index, site)| local(warps, (index, site))));
    checks
}

fn finding(rule: Rule, site: &Site<'_>, message: String, reasoning: &str) -> Finding {
    Finding { rule, confidence: Confidence::Likely, line: site.line(), message, reasoning: reasoning.to_owned() }
}

/// A read of what was written before, on a way that does not see it.
fn stale(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let of = |does: &dyn Fn(&Site<'_>) -> Option<Path>| -> Vec<(SiteId, Path, Memory<'_>)> {
        let sites = graph.sites.iter_enumerated();
        let known = sites.filter_map(|(index, site)| Some((index, does(site)?, memory(warps, (index, site))?)));
        known.filter(|(index, ..)| !warps.at(*index).is_empty() || warps.threads.is_none()).take(MAX_SITES).collect()
    };
    let reads = of(&|site| {
        let instruction = site.located.instruction;
        match instruction.mnemonic() {
            "suld" | "tex" | "tld4" => Some(Path::Surface),
            "ld" if instruction.has("nc") => Some(Path::ReadOnly),
            _ => None,
        }
    });
    if reads.is_empty() {
        return None;
    }
    let writes = of(&|site| {
        let instruction = site.located.instruction;
        match (instruction.mnemonic(), site.operation) {
            ("sust" | "sured", _) => Some(Path::Surface),
            ("st" | "red" | "atom", _) if !instruction.has("shared") && !instruction.has("local") => {
                Some(Path::ReadOnly)
            }
            (_, Operation::Bulk(Bulk::Copy { tensor: false } | Bulk::Reduce { tensor: false })) => {
                instruction.modifiers().any(|word| word == "bulk_group").then_some(Path::ReadOnly)
            }
            _ => None,
        }
    });
    for (write, path, memory) in &writes {
        let mut same = reads.iter().filter(|(_, read, from)| (read, from) == (path, memory));
        let is_told = |(read, ..): &&(SiteId, Path, Memory<'_>)| {
            is_met_between(graph, *write, *read)
                || *path == Path::ReadOnly && is_acquired_before(graph, *read)
                || *path == Path::Surface && is_read_back(graph, *write, *read)
        };
        let Some((read, ..)) = same.find(is_told) else { continue };
        let (site, line) = (graph.sites.get(*read)?, graph.sites.get(*write)?.line());
        let (message, reasoning) = match path {
            Path::Surface => (
                format!("reads through a texture or surface what the kernel writes at line {line}"),
                "textures and surfaces are cached and not kept coherent within a kernel: what is read of a place that the same kernel \
                 has written is undefined; another kernel may read it, or plain memory",
            ),
            Path::ReadOnly => (
                format!("ld.global.nc reads what the kernel writes at line {line}"),
                "a non-coherent load is for memory that nobody writes while the kernel runs: what it gives may be old; ld.global",
            ),
        };
        return Some(finding(Rule::SeenByRead, site, message, reasoning));
    }
    None
}

/// Whether what stands right behind a write, on the straight way, reads the place that was written: by the same coordinates, in registers
/// that nothing changes between.
fn is_read_back(graph: &Graph<'_>, write: SiteId, read: SiteId) -> bool {
    let place = |index: SiteId| {
        let site = graph.sites.get(index)?;
        let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
        let operand = site.located.instruction.operands().find(is_address)?;
        Some((site, operand.text()))
    };
    let Some(((write_site, to), (read_site, from))) = place(write).zip(place(read)) else { return false };
    if write_site.block != read_site.block || read <= write || to != from {
        return false;
    }
    let used: Vec<_> = graph.registers.of(&write_site.located).filter(|used| !used.is_def).collect();
    let between = graph.sites.range(write.after()..read).iter();
    !between
        .flat_map(|site| graph.registers.written_by(&site.located))
        .any(|to| used.iter().any(|it| it.register == to))
}

/// What an instruction reads or writes, as far as that is known.
fn memory<'a>(warps: &Warps<'a>, (index, site): (SiteId, &Site<'a>)) -> Option<Memory<'a>> {
    let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
    let operand = site.located.instruction.operands().find(is_address)?;
    let values = &warps.values;
    if let Some((variable, offset)) = values.parameter(&warps.graph, index, operand) {
        return Some(Memory::Parameter(variable, offset));
    }
    let is_surface = operand.address().is_some_and(|mut address| address.rest.next().is_some());
    let name = operand.address()?.base.filter(|_| is_surface)?;
    match warps.graph.registers.resolve(name, site.located.id) {
        Some(_) => values.identity(&warps.graph, index, operand).map(|(id, _)| Memory::Handle(id)),
        None => Some(Memory::Named(name)),
    }
}

/// Whether a way leads on from a write to a read by a place where threads meet. Of a loop that is one turn, where the addresses of both
/// move on with its turns.
fn is_met_between(graph: &Graph<'_>, write: SiteId, read: SiteId) -> bool {
    let Some(home) = graph.sites.get(write).map(|site| site.block) else { return false };
    work::spend_on(graph.blocks.len() / 8);
    let around = stays_in(graph, [write, read]);
    let mut seen = [IndexVec::filled(false, graph.blocks.len()), IndexVec::filled(false, graph.blocks.len())];
    let mut open = vec![(home, write.after(), false)];
    while let Some((block, from, mut met)) = open.pop() {
        work::spend(1);
        for (index, site) in graph.sites_of(block).filter(|(index, _)| *index >= from) {
            if index == read && met {
                return true;
            }
            met |= meets(site);
        }
        for edge in graph.blocks.get(block).into_iter().flat_map(|block| &block.successors) {
            let seen = &mut seen[usize::from(met)];
            let goes_on = edge.to > block || around == Some(edge.to);
            if goes_on && !std::mem::replace(seen.get_mut(edge.to).unwrap_or(&mut true), true) {
                open.push((edge.to, SiteId::FIRST, met));
            }
        }
    }
    false
}

/// The start of the innermost loop around two instructions, where it changes the address of neither.
fn stays_in(graph: &Graph<'_>, both: [SiteId; 2]) -> Option<BlockId> {
    let sites = both.map(|index| graph.sites.get(index));
    let [Some(first), Some(second)] = sites else { return None };
    let start = graph.loop_of(first.block).filter(|start| graph.loop_of(second.block) == Some(*start))?;
    let within = graph.innermost_loop(first.block)?;
    let addresses: Vec<Register> = [first, second]
        .iter()
        .filter_map(|site| {
            let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
            let operand = site.located.instruction.operands().find(is_address)?;
            graph.registers.resolve(operand.address()?.base?, site.located.id)
        })
        .collect();
    let written = within.iter().flat_map(|block| graph.sites_of(*block));
    let mut written = written.flat_map(|(_, site)| graph.registers.written_by(&site.located));
    (addresses.len() == both.len() && !written.any(|register| addresses.contains(&register))).then_some(start)
}

/// Whether a way leads to a read from a load that acquires: whoever runs it means to read what others have written.
fn is_acquired_before(graph: &Graph<'_>, read: SiteId) -> bool {
    let acquires = |site: &Site<'_>| {
        let instruction = site.located.instruction;
        matches!(instruction.mnemonic(), "ld" | "atom") && instruction.has("acquire") && !instruction.has("shared")
    };
    let mut loads = graph.sites.iter_enumerated().filter(|(_, site)| acquires(site)).take(MAX_SITES);
    loads.any(|(load, _)| {
        let mut comes = false;
        let on = |index: SiteId, _: &Site<'_>| {
            comes |= index == read;
            if comes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        dataflow::walk(graph, load, |_| true, on);
        comes
    })
}

/// Whether threads wait for each other at an instruction.
fn meets(site: &Site<'_>) -> bool {
    match site.operation {
        Operation::NamedBarrier(barrier) => barrier.action != BarrierAction::Arrive,
        Operation::WarpBarrier { .. } => true,
        Operation::ClusterBarrier { action, .. } => action == ClusterBarrierAction::Wait,
        _ => false,
    }
}

/// An address of local memory that is handed to other threads.
fn local(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let (graph, instruction) = (&warps.graph, site.located.instruction);
    let operand = |at: usize| instruction.operand(at);
    let is_local = |operand: &Operand<'_>| warps.values.is_local(graph, index, *operand);
    let (to, value) = match instruction.mnemonic() {
        "st" => (operand(0), operand(1)),
        "atom" => (operand(1), operand(2)),
        "shfl" => (None, operand(1)),
        _ => return None,
    };
    value.filter(is_local)?;
    // Where it is put, others can read it.
    let is_open = match to {
        None => true,
        Some(to) => {
            let root = warps.values.root(graph, index, to);
            let named = instruction.has("global") || instruction.modifiers().any(|word| word.starts_with("shared"));
            named
                || matches!(root, Some(Root::Generic(StateSpace::Shared | StateSpace::Global)))
                || warps.values.parameter(graph, index, to).is_some()
        }
    };
    is_open.then(|| {
        let verb = if to.is_none() { "hands the address of local memory to other lanes" } else { "leaves the address of local memory where other threads read it" };
        let reasoning = "every thread has local memory of its own, at the same addresses: in another thread this one is that thread's own; \
                         shared or global memory is for others";
        finding(Rule::LocalKept, site, verb.to_owned(), reasoning)
    })
}
