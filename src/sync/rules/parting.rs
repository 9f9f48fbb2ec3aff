//! Lanes that part by what each has read, or by a bound that the launch gives: whether what a whole warp runs together stands on one of
//! their ways.
//!
//! What a lane loads from a place of its own in global memory is its own: nothing in a kernel says that another lane has the same. A
//! branch that compares such a number takes some lanes of a warp one way and the others another. Numbers that a warp agrees on, by a
//! vote or a shuffle, are nobody's own, nor is what shared memory or a parameter holds. A branch that compares a number of each lane's own,
//! its index, with one that is handed to the kernel is there because not all lanes are within it: then some of a warp may be, and others
//! not. In a loop that strides over what is handed over, that may be whole warps every time: there what a block waits for is told alone.

use std::collections::BTreeSet;

use crate::base::{FastMap, work};
use crate::ptx::{Instruction, Operand, Operation, Register};
use crate::simt::{
    Bits, BlockId, Graph, Held, Paths, Patterns, Site, SiteId, ThreadSet, Uniformity, Value, Variation, Warps, dataflow,
};
use crate::sync::LANES;
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::convergence::{Together, divided, name, together};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Loads that something is followed back to.
const MOST_SOURCES: usize = 8;
/// Instructions that are asked about.
const MOST: usize = 256;
/// Loads whose places are looked at, and bounds.
const MOST_LOADS: usize = 24;
/// Instructions that a bound is followed back through.
const MOST_STEPS: usize = 6;

/// Checks where lanes part.
pub fn check(agreement: &mut Agreement<'_, '_>, bits: &Bits) -> Vec<Finding> {
    let warps = agreement.warps;
    let graph = &warps.graph;
    let mut checks: Vec<Finding> = Vec::new();
    if warps.threads.is_none() || !graph.complete {
        return checks;
    }
    let mut own: Option<Own<'_, '_>> = None;
    let asked = graph.sites.iter_enumerated().filter(|(_, site)| is_asked(site)).map(|(index, _)| index);
    for index in asked.take(MOST) {
        let Some(site) = graph.sites.get(index) else { continue };
        let here = warps.at(index);
        if here.is_empty() || !is_named(warps, index, site) {
            continue;
        }
        let lanes = agreement.of_lanes(here);
        let deciders = lanes.all_deciders(site.block);
        let parts = match site.operation {
            Operation::Branch { .. } => vec![site.block],
            _ if lanes.equally(warps, index) => continue,
            _ => deciders.clone(),
        };
        let own = own.get_or_insert_with(|| Own::new(warps, bits));
        let decides = |block: BlockId| {
            matches!(site.operation, Operation::Branch { .. }) || go_elsewhere(graph, block, site.block)
        };
        let last = |block: BlockId| warps.graph.blocks.get(block).map(|block| block.last());
        let by_load = parts
            .iter()
            .find_map(|block| Some((last(*block)?, By::Loaded(own.of_branch(*block).filter(|_| decides(*block))?))));
        let by_bound = || {
            let is_barrier = matches!(site.operation, Operation::NamedBarrier(_));
            let counts = |branch: SiteId| is_barrier || !graph.is_in_a_loop(branch);
            let at_guard =
                site.guard.is_some() && !matches!(site.operation, Operation::Branch { .. }) && goes_on(warps, index);
            let at_guard = at_guard.then_some(index);
            let branches = parts.iter().filter_map(|block| last(*block).filter(|_| decides(*block)));
            at_guard
                .into_iter()
                .chain(branches)
                .filter(|branch| counts(*branch))
                .find_map(|branch| Some((branch, By::Bound(own.bound(branch)?))))
        };
        let Some((branch, by)) = by_load.or_else(by_bound) else {
            // Lanes that are known to part at a branch, which bounds of the launch let all come to.
            let is_open = |branch: SiteId, own: &mut Own<'_, '_>| {
                let guard = graph.sites.get(branch).and_then(|site| site.guard);
                let value = guard.map(|(guard, _)| warps.values.at(branch, guard));
                let is_same = value
                    .is_some_and(|value| matches!(value, Value::Constant(_)) || value.variation() == Variation::Block);
                is_same || own.bound(branch).is_some()
            };
            if let Operation::Branch { .. } = site.operation
                && let Some(found) = divided(warps, (index, site))
                && !checks.iter().any(|known| known.rule == found.rule)
                && deciders.iter().filter_map(|block| last(*block)).all(|branch| is_open(branch, own))
            {
                checks.push(found);
            }
            continue;
        };
        let line_of = |index: SiteId| graph.sites.get(index).map(Site::line);
        let Some((branch, (by, is_bound))) = line_of(branch).zip(match by {
            By::Loaded(load) => line_of(load).map(|line| (line, false)),
            By::Bound(bound) => line_of(bound).map(|line| (line, true)),
        }) else {
            continue;
        };
        let how = match is_bound {
            true => {
                format!("where line {by} compares a number of each lane's own with one that is handed to the kernel")
            }
            false => format!("by what each of them loads at line {by}"),
        };
        let (rule, message) = match site.operation {
            Operation::Branch { .. } => {
                (Rule::BranchUniform, format!("lanes take this branch, which says .uni, {how}"))
            }
            _ => (
                if matches!(together(site), Some(Together::Warp)) { Rule::WholeWarps } else { Rule::LanesOfMask },
                format!("not all lanes of a warp come to this {}: they part at line {branch}, {how}", name(site)),
            ),
        };
        if !checks.iter().any(|known| known.rule == rule) {
            let reasoning = match is_bound {
                true => {
                    "all lanes that it names run it together, and nothing says that whole warps are within the bound"
                }
                false => "all lanes that it names run it together, and nothing says that they have loaded the same",
            };
            let reasoning = reasoning.to_owned();
            checks.push(Finding { rule, confidence: Confidence::Likely, line: site.line(), message, reasoning });
        }
    }
    checks
}

fn is_asked(site: &Site<'_>) -> bool {
    match site.operation {
        Operation::Branch { .. } => site.guard.is_some() && site.located.instruction.has("uni"),
        _ => together(site).is_some(),
    }
}

/// Whether an instruction names all lanes of a warp.
fn is_named(warps: &Warps<'_>, index: SiteId, site: &Site<'_>) -> bool {
    match together(site) {
        Some(Together::Mask(mask)) => {
            matches!(warps.values.operand(&warps.graph, index, mask), Value::Constant(mask) if mask as u32 == u32::MAX)
        }
        _ => true,
    }
}

/// Whether lanes that leave a block without coming to another one run something else: those that end are not waited for.
pub(in crate::sync) fn go_elsewhere(graph: &Graph<'_>, from: BlockId, home: BlockId) -> bool {
    let Some(block) = graph.blocks.get(from) else { return false };
    let works = |block: BlockId| {
        graph.sites_of(block).any(|(_, site)| {
            !matches!(
                site.operation,
                Operation::Return
                    | Operation::Exit
                    | Operation::Trap
                    | Operation::Branch { .. }
                    | Operation::IndexedBranch { .. }
            )
        })
    };
    block.successors.iter().any(|edge| {
        work::spend_on(graph.blocks.len() / 16);
        if edge.to == home {
            return false;
        }
        let reached = dataflow::reached(graph.blocks.len(), [edge.to], |block, next| {
            let ways = graph.blocks.get(block).into_iter().flat_map(|info| &info.successors);
            next.extend(ways.map(|way| way.to).filter(|to| *to != home));
        });
        let comes = |block: BlockId| block == edge.to || reached.get(block).copied().unwrap_or(false);
        let ends = graph.blocks.iter_enumerated().any(|(at, info)| info.successors.is_empty() && comes(at));
        ends && graph.blocks.ids().any(|at| comes(at) && works(at))
    })
}

/// Whether lanes that a guard holds back run something else after an instruction: those that end are not waited for.
fn goes_on(warps: &Warps<'_>, index: SiteId) -> bool {
    let graph = &warps.graph;
    let Some(block) = graph.sites.get(index).and_then(|site| graph.blocks.get(site.block)) else { return false };
    let ends = |site: &Site<'_>| matches!(site.operation, Operation::Return | Operation::Exit | Operation::Trap);
    !block.successors.is_empty()
        || graph.sites.range(index.after()..block.last().after()).iter().any(|site| !ends(site))
}

/// What lanes part by.
enum By {
    /// What each has loaded.
    Loaded(SiteId),
    /// A comparison with a bound that is handed to the kernel.
    Bound(SiteId),
}

/// Loads by which something is each lane's own, and the registers that they fill.
type Loaded = BTreeSet<(SiteId, Register)>;

/// What each lane has of its own.
struct Own<'w, 'a> {
    warps: &'w Warps<'a>,
    bits: &'w Bits,
    paths: Paths<'w, 'a>,
    writes: FastMap<Register, BTreeSet<SiteId>>,
    /// By instruction: the loads that make what it gives each lane's own.
    known: FastMap<SiteId, Loaded>,
    /// Loads that were looked at: whether lanes read different places.
    apart: FastMap<SiteId, bool>,
    /// Loads that may still be looked at.
    left: usize,
}

impl<'w, 'a> Own<'w, 'a> {
    fn new(warps: &'w Warps<'a>, bits: &'w Bits) -> Own<'w, 'a> {
        let mut writes: FastMap<Register, BTreeSet<SiteId>> = FastMap::default();
        for (index, site) in warps.graph.sites.iter_enumerated() {
            work::spend(1);
            for register in warps.graph.registers.written_by(&site.located) {
                writes.entry(register).or_default().insert(index);
            }
        }
        Own {
            warps,
            bits,
            paths: Paths::new(warps),
            writes,
            known: FastMap::default(),
            apart: FastMap::default(),
            left: MOST_LOADS,
        }
    }

    /// The load that lanes part by at the end of a block.
    fn of_branch(&mut self, block: BlockId) -> Option<SiteId> {
        let last = self.warps.graph.blocks.get(block)?.last();
        let (guard, _) = self.warps.graph.sites.get(last)?.guard?;
        self.of_register(last, guard).first().map(|(load, _)| *load)
    }

    /// The comparison that makes the guard of an instruction, where that is of a number that lanes of a warp have each for itself, and of
    /// one that is handed to the kernel and the same for all of them.
    fn bound(&mut self, at: SiteId) -> Option<SiteId> {
        let graph = &self.warps.graph;
        let (guard, _) = graph.sites.get(at)?.guard?;
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let compare = self.warps.values.maker(at, guard)?;
        let site = graph.sites.get(compare)?;
        let instruction = &site.located.instruction;
        let orders = ["lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"].iter().any(|word| instruction.has(word));
        let operands: Vec<Operand<'a>> = instruction.operands().collect();
        let [_, one, other] = operands[..] else { return None };
        if instruction.mnemonic() != "setp" || !orders || site.guard.is_some() {
            return None;
        }
        let all = ThreadSet::first(self.warps.threads?);
        let lanes = Uniformity::of_lanes(self.warps, all);
        // What is a multiple of a warp keeps warps together.
        let is_of_warps = |operand: Operand<'a>| {
            let below = LANES as u64 - 1;
            self.bits.operand(self.warps, compare, operand).zeros & below == below
        };
        let is_bound = |operand: Operand<'a>| {
            lanes.agrees(self.warps, compare, operand)
                && self.is_handed_over(compare, operand, MOST_STEPS)
                && !is_of_warps(operand)
        };
        let own = match (is_bound(one), is_bound(other)) {
            (true, false) => other,
            (false, true) => one,
            _ => return None,
        };
        let patterns = Patterns::of(self.warps, self.bits, std::iter::once((compare, own)));
        let Held::Pattern(pattern) = patterns.register(compare, own) else { return None };
        differs_in_a_warp(&self.warps.at(compare), |thread| pattern.lanes.of(thread)).then_some(compare)
    }

    /// Whether a number is computed from what is handed to the kernel.
    fn is_handed_over(&self, at: SiteId, operand: Operand<'a>, steps: usize) -> bool {
        let graph = &self.warps.graph;
        let name = operand.name();
        let register =
            name.zip(graph.sites.get(at)).and_then(|(name, site)| graph.registers.resolve(name, site.located.id));
        let (Some(register), true) = (register, steps > 0) else { return false };
        work::spend(1);
        let Some(maker) = self.warps.values.maker(at, register) else { return false };
        let Some(site) = graph.sites.get(maker) else { return false };
        let instruction = &site.located.instruction;
        match instruction.mnemonic() {
            "ld" => instruction.has("param"),
            _ => {
                let plain = |operand: &Operand<'a>| operand.name().is_some();
                instruction.operands().skip(1).filter(plain).any(|from| self.is_handed_over(maker, from, steps - 1))
            }
        }
    }

    fn of_register(&mut self, at: SiteId, register: Register) -> Loaded {
        if matches!(self.warps.values.at(at, register), Value::Constant(_) | Value::Threads { .. }) {
            return Loaded::new();
        }
        let Some(writes) = self.writes.get(&register) else { return Loaded::new() };
        let last = self.paths.first(at, true, &[writes]);
        last.into_iter().flat_map(|site| self.of_site(site, register)).take(MOST_SOURCES).collect()
    }

    fn of_site(&mut self, index: SiteId, register: Register) -> Loaded {
        let Some(site) = self.warps.graph.sites.get(index) else { return Loaded::new() };
        let instruction = &site.located.instruction;
        if loaded_from(instruction).is_some() {
            let is_apart = match self.apart.get(&index) {
                Some(known) => *known,
                None => {
                    let found = self.is_apart(index);
                    self.apart.insert(index, found);
                    found
                }
            };
            return if is_apart { Loaded::from([(index, register)]) } else { Loaded::new() };
        }
        if !is_own_of_own(instruction) {
            return Loaded::new();
        }
        if let Some(known) = self.known.get(&index) {
            return known.clone();
        }
        // What only goes round in a loop makes nothing.
        self.known.insert(index, Loaded::new());
        let guard = site.guard.map(|(guard, _)| guard);
        let used = self.warps.graph.registers.of(&site.located);
        let read: BTreeSet<Register> =
            used.filter(|used| !used.is_def && Some(used.register) != guard).map(|used| used.register).collect();
        let mut found = Loaded::new();
        for register in read {
            let more = self.of_register(index, register);
            if !found.is_disjoint(&more) {
                // The difference of two numbers that come of one may be the same in all lanes.
                found.clear();
                break;
            }
            found.extend(more);
        }
        self.known.insert(index, found.clone());
        found
    }

    /// Whether lanes of a warp load from different places.
    fn is_apart(&mut self, index: SiteId) -> bool {
        let Some(site) = self.warps.graph.sites.get(index) else { return false };
        let Some(from) = loaded_from(&site.located.instruction) else { return false };
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        // Each by itself: what is not settled of one address says nothing of another.
        let patterns = Patterns::of(self.warps, self.bits, std::iter::once((index, from)));
        let (Held::Pattern(pattern), ..) = patterns.address(index, from) else { return false };
        differs_in_a_warp(&self.warps.at(index), |thread| pattern.lanes.of(thread))
    }
}

/// Whether lanes of a warp have different numbers.
fn differs_in_a_warp(here: &ThreadSet, number: impl Fn(u32) -> u64) -> bool {
    let mut first: Option<(u32, u64)> = None;
    here.iter().any(|thread| {
        let own = number(thread);
        match first.filter(|(known, _)| known / LANES as u32 == thread / LANES as u32) {
            Some((_, known)) => own != known,
            None => {
                first = Some((thread, own));
                false
            }
        }
    })
}

/// Where a load of global memory reads.
fn loaded_from<'a>(instruction: &Instruction<'a>) -> Option<Operand<'a>> {
    (instruction.mnemonic() == "ld" && instruction.has("global")).then(|| instruction.operand(1))?
}

/// Whether an instruction gives each lane something of its own where what it reads is.
fn is_own_of_own(instruction: &Instruction<'_>) -> bool {
    matches!(
        instruction.mnemonic(),
        "mov"
            | "cvt"
            | "neg"
            | "abs"
            | "not"
            | "add"
            | "sub"
            | "mul"
            | "mad"
            | "fma"
            | "div"
            | "rem"
            | "min"
            | "max"
            | "and"
            | "or"
            | "xor"
            | "shl"
            | "shr"
            | "bfe"
            | "lop3"
            | "setp"
            | "set"
            | "selp"
            | "sqrt"
            | "ex2"
            | "lg2"
    )
}
