//! What one elected lane computes: whether it is looked for in a lane that somebody names.
//!
//! `elect.sync` says whom it chose by its predicate, and by nothing else. A register that only the elected lane has written is the
//! others' old one: whoever reads it in lane 0, or stores it from there, relies on lane 0 being the one. So does the elected lane that
//! stores what lane 0 alone has written.

use crate::base::{IndexVec, work};
use crate::ptx::{Operation, Register};
use crate::simt::{BlockId, Edge, Graph, Site, SiteId, ThreadSet, Value, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Reads that are followed back to what wrote them.
const MAX_READS: usize = 96;
/// Copies of copies that are followed.
const MAX_COPIES: u32 = 4;

/// Checks who hands on what an elected lane computed.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let elects = graph.sites.iter().any(|site| matches!(site.operation, Operation::Elect));
    if !elects || !graph.complete || warps.threads.is_none() {
        return Vec::new();
    }
    let elected = Elected { warps, alone: alone(warps), before: graph.predecessors() };
    let mut left = MAX_READS;
    // Where one lane alone comes to elect.sync, it is the one.
    let is_elect = |(_, site): &(SiteId, &Site<'_>)| matches!(site.operation, Operation::Elect);
    let is_open = graph.sites.iter_enumerated().filter(is_elect).all(|(index, _)| one_lane(&warps.at(index)).is_none());
    for (index, site) in graph.sites.iter_enumerated() {
        if left == 0 {
            break;
        }
        let instruction = site.located.instruction;
        if elected.is_at(index, site) {
            let stored = elected.stored(index, site).filter(|_| is_open);
            left -= usize::from(stored.is_some());
            let by = stored.and_then(|value| elected.computed_by(By::Lane, index, value, MAX_COPIES));
            let Some(by) = by.and_then(|by| graph.sites.get(by)) else { continue };
            return vec![Finding {
                rule: Rule::ElectedLane,
                confidence: Confidence::Likely,
                line: site.line(),
                message: format!("the elected lane hands on what one lane has computed, at line {}", by.line()),
                reasoning:
                    "which lane elect.sync elects is not told: in another one the register holds what it did before"
                        .to_owned(),
            }];
        }
        let reads = || {
            graph
                .registers
                .of(&site.located)
                .filter(|used| !used.is_def && Some(used.register) != site.guard.map(|(guard, _)| guard))
        };
        let (lane, value): (u64, Option<Register>) = match instruction.mnemonic() {
            "shfl" if instruction.has("idx") => {
                let number =
                    |at: usize| instruction.operand(at).map(|operand| warps.values.operand(graph, index, operand));
                let Some(Value::Constant(lane)) = number(2) else { continue };
                let value = instruction.operand(1).and_then(|operand| operand.name());
                (lane & 31, value.and_then(|name| graph.registers.resolve(name, site.located.id)))
            }
            // What a lane that is known stores or arrives with; its address may be anybody's.
            "st" | "red" | "atom" => {
                let Some(lane) = one_lane(&warps.at(index)) else { continue };
                let address =
                    instruction.operands().find_map(|operand| operand.address()).and_then(|address| address.base);
                let address = address.and_then(|name| graph.registers.resolve(name, site.located.id));
                (lane, reads().map(|used| used.register).find(|register| Some(*register) != address))
            }
            _ => continue,
        };
        let Some(value) = value else { continue };
        left -= 1;
        let Some(by) = elected.computed_by(By::Elected, index, value, MAX_COPIES) else { continue };
        let Some(line) = graph.sites.get(by).map(Site::line) else { continue };
        return vec![Finding {
            rule: Rule::ElectedLane,
            confidence: Confidence::Likely,
            line: site.line(),
            message: format!("lane {lane} hands on what only the elected lane has computed, at line {line}"),
            reasoning: "which lane elect.sync elects is not told: the elected lane stores it, or the number that elect.sync gives says \
                        whom to read"
                .to_owned(),
        }];
    }
    Vec::new()
}

/// The lane of each warp that some threads are, where that is one.
fn one_lane(threads: &ThreadSet) -> Option<u64> {
    let mut lanes = threads.iter().map(|thread| u64::from(thread % 32));
    let first = lanes.next()?;
    lanes.all(|lane| lane == first).then_some(first)
}

/// Blocks that only elected lanes come to, whatever the way.
fn alone(warps: &Warps<'_>) -> IndexVec<BlockId, bool> {
    let graph = &warps.graph;
    let along = |from: BlockId, edge: &Edge, state: &bool| {
        let last = graph.blocks.get(from)?.last();
        let chosen = edge.when.is_some_and(|(register, when)| is_elected(warps, last, register, when));
        Some(*state || chosen)
    };
    let join = |there: &mut bool, state: bool| {
        let both = *there && state;
        std::mem::replace(there, both) != both
    };
    let before = dataflow::forward(graph, false, |_, state| state, along, join);
    before.into_iter().map(|state| state.unwrap_or(false)).collect()
}

/// Whether a predicate has one value in elected lanes alone.
fn is_elected(warps: &Warps<'_>, index: SiteId, register: Register, when: bool) -> bool {
    let Value::Threads { values, elected: true } = warps.values.at(index, register) else { return false };
    // Lane 0 stands for whoever is elected.
    let passes = |thread: usize, value: u64| (value & 1 == 1) == when && !thread.is_multiple_of(32);
    let chosen = values.iter().any(|value| (value & 1 == 1) == when);
    chosen && !values.iter().enumerate().any(|(thread, value)| passes(thread, *value))
}

/// Who computes something that another one hands on.
#[derive(Clone, Copy)]
enum By {
    Elected,
    /// A lane that is known.
    Lane,
}

struct Elected<'w, 'a> {
    warps: &'w Warps<'a>,
    alone: IndexVec<BlockId, bool>,
    before: IndexVec<BlockId, Vec<BlockId>>,
}

impl Elected<'_, '_> {
    fn graph(&self) -> &Graph<'_> {
        &self.warps.graph
    }

    /// Whether only elected lanes run an instruction.
    fn is_at(&self, index: SiteId, site: &Site<'_>) -> bool {
        let guarded = site.guard.is_some_and(|(register, negated)| is_elected(self.warps, index, register, !negated));
        guarded || self.alone.get(site.block).copied().unwrap_or(false)
    }

    /// What a store or an arrival hands on: no address.
    fn stored(&self, index: SiteId, site: &Site<'_>) -> Option<Register> {
        let (graph, instruction) = (self.graph(), site.located.instruction);
        let is_store = matches!(instruction.mnemonic(), "st" | "red" | "atom") && self.warps.threads.is_some();
        let resolve = |name: &str| graph.registers.resolve(name, site.located.id);
        let address = instruction.operands().find_map(|operand| operand.address()).and_then(|address| address.base);
        let address = address.and_then(resolve);
        let guard = site.guard.map(|(guard, _)| guard);
        let is_value = |register: &Register| Some(*register) != address && Some(*register) != guard;
        let mut read = graph.registers.of(&site.located).filter(|used| !used.is_def).map(|used| used.register);
        read.find(|register| is_store && is_value(register) && !self.warps.at(index).is_empty())
    }

    /// Whether an instruction is run by whom it is asked for.
    fn is_by(&self, by: By, index: SiteId, site: &Site<'_>) -> bool {
        match by {
            By::Elected => self.is_at(index, site),
            By::Lane => !self.is_at(index, site) && one_lane(&self.warps.at(index)).is_some(),
        }
    }

    /// The instruction by which an elected lane, or one that is known, wrote a register that another instruction reads, if one may have.
    fn computed_by(&self, by: By, index: SiteId, register: Register, copies: u32) -> Option<SiteId> {
        let graph = self.graph();
        let home = graph.sites.get(index)?.block;
        let who = self.warps.warps_at(index);
        work::spend_on(graph.blocks.len() / 16);
        let mut seen = IndexVec::filled(false, graph.blocks.len());
        let mut open = vec![(home, Some(index))];
        while let Some((block, until)) = open.pop() {
            work::spend(1);
            let sites: Vec<(SiteId, &Site<'_>)> =
                graph.sites_of(block).filter(|(at, _)| until.is_none_or(|until| *at < until)).collect();
            let mut closed = false;
            for (at, site) in sites.into_iter().rev() {
                if !graph.registers.written_by(&site.located).any(|to| to == register) {
                    continue;
                }
                if self.is_by(by, at, site) && self.warps.warps_at(at).meets(&who) {
                    return Some(at);
                }
                let is_copy = matches!(site.located.instruction.mnemonic(), "mov" | "cvt");
                if let Some(copies) = copies.checked_sub(1).filter(|_| is_copy) {
                    let mut from = graph.registers.of(&site.located).filter(|used| !used.is_def);
                    if let Some(by) = from.find_map(|used| self.computed_by(by, at, used.register, copies)) {
                        return Some(by);
                    }
                }
                if site.guard.is_none() {
                    closed = true;
                    break;
                }
            }
            if closed {
                continue;
            }
            for from in self.before.get(block)? {
                if self.warps.may_go(&who, *from) && !std::mem::replace(seen.get_mut(*from)?, true) {
                    open.push((*from, None));
                }
            }
        }
        None
    }
}
