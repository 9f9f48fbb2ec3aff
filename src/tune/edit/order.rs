//! The order of a block's instructions: next comes, of those that can, who ends most values more than it begins (list scheduling as
//! Goodman and Hsu have it, "Code scheduling and register allocation in large basic blocks", 1988, with pressure as all that counts).
//!
//! What may change places: instructions that compute in registers, plain loads and plain stores, with nothing but `.loc` between them.
//! Who reads a register stays behind who wrote it, who writes it behind who read or wrote it before; loads and stores of one space stay
//! in order, but for loads among themselves. Everything else stays where it is: branches, barriers, atomics, labels, scopes.

use std::collections::BTreeSet;

use super::loads::{computes, is_plain};
use super::recompute::is_steady;
use super::{Refused, Splice};
use crate::base::{FastMap, Id, work};
use crate::ptx::{Function, Located, Register, Registers, StatementKind};
use crate::simt::{Graph, LiveRegisters, SiteId};

/// State spaces whose accesses are kept in order, each by itself; without one, an address may be in any of them.
const SPACES: [&str; 3] = ["global", "shared", "local"];
const ANYWHERE: u8 = 0b111;

/// What an instruction does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    None,
    /// Bits of the spaces.
    Reads(u8),
    Writes(u8),
}

/// An instruction of a run: what has to come before it, and what it does to values.
struct Node {
    /// Others that wait for it.
    after: Vec<u32>,
    /// How many it waits for.
    waits: u32,
    /// Values of the run, or from before it, that it reads, each once.
    reads: Vec<u32>,
    /// Registers that it begins to fill.
    fills: i64,
}

/// A register from one write to the next.
struct Value {
    /// Registers of 32 bits.
    size: i64,
    /// Who reads it and is not placed yet.
    readers: Vec<u32>,
    left: usize,
    /// Whether it is read after the run.
    lasts: bool,
}

/// Orders every run of a kernel.
pub(super) fn splices(kernel: &Function<'_, '_>) -> Result<Vec<Splice>, Refused> {
    let module = kernel.module();
    let text = module.text();
    let graph = Graph::build(kernel);
    let is_vector = graph.registers.declarations().iter().any(|declaration| declaration.vector > 1);
    let odd = |kind| matches!(kind, StatementKind::Invalid | StatementKind::Directive);
    if is_vector || kernel.body().iter().any(|statement| odd(statement.kind)) {
        return Err(Refused::NotUnderstood);
    }
    let live = LiveRegisters::solve(&graph).ok_or(Refused::NotUnderstood)?;
    let mut splices: Vec<Splice> = Vec::new();
    let mut ended_at = SiteId::new(graph.sites.len());
    // Backward, so that what is alive at the end of a run is known.
    let mut alive: FastMap<Register, bool> = FastMap::default();
    for run in runs(kernel, &graph).into_iter().rev() {
        let block = graph.sites.get(run.start).map_or(Graph::ENTRY, |site| site.block);
        if graph.sites.get(ended_at).is_none_or(|site| site.block != block) {
            alive.clear();
            ended_at = graph.blocks.get(block).map_or(SiteId::FIRST, |block| block.end);
        }
        // From the end of the block, or of the run behind it, to the end of this one.
        for site in graph.sites.range(run.end..ended_at).iter().rev() {
            look_back(&site.located, &graph.registers, &mut alive);
        }
        let sites = graph.sites.range(run.clone());
        if sites.is_empty() {
            return Err(Refused::NotUnderstood);
        }
        let located: Vec<Located<'_>> = sites.iter().map(|site| site.located).collect();
        let lasts =
            |register: Register| alive.get(&register).copied().unwrap_or_else(|| live.is_live_after(block, register));
        for (from, to) in order(&located, &graph.registers, &lasts).into_iter().enumerate().filter(|(at, to)| at != to)
        {
            let (Some(place), Some(moved)) = (located.get(from), located.get(to)) else { continue };
            let (Some(place), Some(moved)) = (module.statement(place.id), module.statement(moved.id)) else { continue };
            splices.push(Splice { range: place.span(), text: moved.text(text).to_owned() });
        }
        for located in located.iter().rev() {
            look_back(located, &graph.registers, &mut alive);
        }
        ended_at = run.start;
    }
    if splices.is_empty() { Err(Refused::NothingToChange) } else { Ok(splices) }
}

/// What is alive before an instruction, as far as it says.
fn look_back(located: &Located<'_>, registers: &Registers<'_>, alive: &mut FastMap<Register, bool>) {
    work::spend(1);
    if located.instruction.guard().is_none() {
        alive.extend(registers.written_by(located).map(|register| (register, false)));
    }
    alive.extend(registers.of(located).filter(|used| !used.is_def).map(|used| (used.register, true)));
}

/// Stretches of a block's instructions that may change places, with nothing but `.loc` between them.
fn runs(kernel: &Function<'_, '_>, graph: &Graph<'_>) -> Vec<std::ops::Range<SiteId>> {
    let mut runs = Vec::new();
    let mut open: Option<SiteId> = None;
    let mut at = SiteId::FIRST;
    let mut last_block = None;
    for statement in kernel.body() {
        work::spend(1);
        let here = at;
        let (ends, next) = match statement.kind {
            StatementKind::Instruction => {
                let site = graph.sites.get(at);
                let movable = site.is_some_and(|site| memory(&site.located, &graph.registers).is_some());
                let new_block = site.map(|site| site.block) != last_block;
                last_block = site.map(|site| site.block);
                at = here.after();
                (!movable || new_block, movable.then_some(here))
            }
            StatementKind::Loc => (false, None),
            _ => (true, None),
        };
        if ends && let Some(start) = open.take() {
            runs.push(start..here);
        }
        open = open.or(next);
    }
    if let Some(start) = open {
        runs.push(start..at);
    }
    runs.retain(|run| run.end.index().saturating_sub(run.start.index()) > 2);
    runs
}

/// What it does to memory; none where it has to stay where it is.
fn memory(located: &Located<'_>, registers: &Registers<'_>) -> Option<Memory> {
    let instruction = located.instruction;
    let spaces = || {
        let bits = |modifier: &str| SPACES.iter().position(|space| *space == modifier).map(|at| 1u8 << at);
        let named = instruction.modifiers().find_map(bits);
        named.unwrap_or(ANYWHERE)
    };
    match instruction.mnemonic() {
        // What a kernel is given never changes, and neither do constants.
        "ld" if instruction.has("param") || instruction.has("const") => Some(Memory::None),
        "ld" if is_plain(&instruction) => Some(Memory::Reads(spaces())),
        "ldmatrix" => Some(Memory::Reads(spaces())),
        "st" if is_plain(&instruction) && !instruction.has("param") => Some(Memory::Writes(spaces())),
        // A clock tells when it is read.
        _ if computes(&instruction) => {
            let is_special = |name: &str| name.starts_with('%') && registers.resolve(name, located.id).is_none();
            let moves = instruction.names().all(|used| !is_special(used.name) || is_steady(used.name));
            moves.then_some(Memory::None)
        }
        _ => None,
    }
}

/// Registers of 32 bits that a type takes.
fn size(registers: &Registers<'_>, register: Register) -> i64 {
    let ty = registers.declaration(register).map_or("b32", |declaration| declaration.ty);
    match ty {
        "pred" => 0,
        ty if ty.ends_with("128") => 4,
        ty if ty.ends_with("64") => 2,
        _ => 1,
    }
}

/// The run as nodes and values.
fn graph_of(
    run: &[Located<'_>],
    registers: &Registers<'_>,
    lasts: &dyn Fn(Register) -> bool,
) -> (Vec<Node>, Vec<Value>) {
    let mut nodes: Vec<Node> = Vec::with_capacity(run.len());
    let mut values: Vec<Value> = Vec::new();
    // For each register who wrote it, its value now, and who has read that.
    let mut now: FastMap<Register, (Option<u32>, u32)> = FastMap::default();
    let mut writers: [Option<u32>; SPACES.len()] = [None; SPACES.len()];
    let mut readers: [Vec<u32>; SPACES.len()] = Default::default();
    for (at, located) in (0u32..).zip(run) {
        work::spend(1);
        let mut before: Vec<u32> = Vec::new();
        let mut reads: Vec<u32> = Vec::new();
        let mut read = |register: Register, before: &mut Vec<u32>, values: &mut Vec<Value>, now: &mut FastMap<_, _>| {
            let (writer, value) = *now.entry(register).or_insert_with(|| {
                values.push(Value { size: size(registers, register), readers: Vec::new(), left: 0, lasts: false });
                (None, values.len() as u32 - 1)
            });
            before.extend(writer);
            if !reads.contains(&value) {
                reads.push(value);
                if let Some(value) = values.get_mut(value as usize) {
                    value.readers.push(at);
                    value.left += 1;
                }
            }
        };
        let guarded = located.instruction.guard().is_some();
        for used in registers.of(located) {
            // What a write under a guard does not write stays: that is a read.
            if !used.is_def || guarded {
                read(used.register, &mut before, &mut values, &mut now);
            }
        }
        let mut fills = 0;
        for register in registers.written_by(located) {
            if let Some((writer, value)) = now.get(&register).copied() {
                before.extend(writer);
                let others = values.get(value as usize).map_or(&[][..], |value| value.readers.as_slice());
                before.extend(others.iter().filter(|other| **other != at));
            }
            let size = size(registers, register);
            fills += size;
            values.push(Value { size, readers: Vec::new(), left: 0, lasts: false });
            now.insert(register, (Some(at), values.len() as u32 - 1));
        }
        let (spaces, writes) = match memory(located, registers) {
            Some(Memory::Reads(spaces)) => (spaces, false),
            Some(Memory::Writes(spaces)) => (spaces, true),
            _ => (0, false),
        };
        for (bit, (writer, readers)) in writers.iter_mut().zip(&mut readers).enumerate() {
            if spaces >> bit & 1 == 0 {
                continue;
            }
            before.extend(*writer);
            if writes {
                before.append(readers);
                *writer = Some(at);
            } else {
                readers.push(at);
            }
        }
        before.sort_unstable();
        before.dedup();
        for other in &before {
            if let Some(other) = nodes.get_mut(*other as usize) {
                other.after.push(at);
            }
        }
        nodes.push(Node { after: Vec::new(), waits: before.len() as u32, reads, fills });
    }
    for (register, (_, value)) in now {
        if let Some(value) = values.get_mut(value as usize) {
            value.lasts = lasts(register);
        }
    }
    (nodes, values)
}

/// What comes at each place of a run: of those that can come next, who ends most registers more than it begins; of equals the first.
fn order(run: &[Located<'_>], registers: &Registers<'_>, lasts: &dyn Fn(Register) -> bool) -> Vec<usize> {
    let (mut nodes, mut values) = graph_of(run, registers, lasts);
    let grows = |node: &Node, values: &[Value]| {
        let ended = node.reads.iter().filter_map(|value| values.get(*value as usize));
        node.fills - ended.filter(|value| value.left == 1 && !value.lasts).map(|value| value.size).sum::<i64>()
    };
    let mut keys: Vec<i64> = nodes.iter().map(|node| grows(node, &values)).collect();
    let mut ready: BTreeSet<(i64, u32)> = (0u32..)
        .zip(&nodes)
        .zip(&keys)
        .filter(|((_, node), _)| node.waits == 0)
        .map(|((at, _), key)| (*key, at))
        .collect();
    let mut placed = Vec::with_capacity(run.len());
    let mut is_placed = vec![false; run.len()];
    while let Some((_, at)) = ready.pop_first() {
        work::spend(1);
        placed.push(at as usize);
        is_placed[at as usize] = true;
        let (after, reads) = match nodes.get_mut(at as usize) {
            Some(node) => (std::mem::take(&mut node.after), std::mem::take(&mut node.reads)),
            None => continue,
        };
        for read in reads {
            let Some(value) = values.get_mut(read as usize) else { continue };
            value.left = value.left.saturating_sub(1);
            if value.left != 1 || value.lasts {
                continue;
            }
            // Whoever reads it last ends it now.
            let last =
                value.readers.iter().copied().find(|reader| !is_placed.get(*reader as usize).copied().unwrap_or(true));
            let Some((last, node)) = last.and_then(|last| Some((last, nodes.get(last as usize)?))) else { continue };
            let new = grows(node, &values);
            let old = std::mem::replace(&mut keys[last as usize], new);
            if ready.remove(&(old, last)) {
                ready.insert((new, last));
            }
        }
        for next in after {
            let Some(node) = nodes.get_mut(next as usize) else { continue };
            node.waits -= 1;
            if node.waits == 0 {
                ready.insert((keys.get(next as usize).copied().unwrap_or(0), next));
            }
        }
    }
    placed
}
