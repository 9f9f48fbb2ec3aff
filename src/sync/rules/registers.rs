//! Registers and single instructions: what is read before anything was written, indices, bits and carries that there are not.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{FastMap, work};
use crate::ptx::{MbarrierAction, Operand, Operation, Register, Wgmma};
use crate::simt::{Bits, BlockId, Graph, Paths, Site, SiteId, ThreadSet, Value, Warps, dataflow};
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Targets that an indexed branch is taken to have at most.
const MOST_TARGETS: u64 = 1 << 16;

/// Checks single instructions.
pub fn check(agreement: &mut Agreement<'_, '_>, bits: &Bits) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let warps = agreement.warps;
    let mut add = |rule, site: &Site<'_>, message: String, reasoning: &str| {
        let (confidence, line, reasoning) = (Confidence::Likely, site.line(), reasoning.to_owned());
        if !checks.iter().any(|known: &Finding| known.rule == rule) {
            checks.push(Finding { rule, confidence, line, message, reasoning });
        }
    };
    if warps.graph.complete {
        unwritten(warps, &mut add);
        if !warps.graph.calls {
            by_some(agreement, &mut add);
        }
    }
    again(warps, &mut add);
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let here = warps.at(index);
        if here.is_empty() {
            continue;
        }
        let instruction = site.located.instruction;
        let number =
            |at: usize| instruction.operand(at).map(|operand| warps.values.operand(&warps.graph, index, operand));
        match (site.operation, instruction.mnemonic()) {
            (Operation::IndexedBranch { index: Some(operand), .. }, _) => {
                let block = warps.graph.blocks.get(site.block);
                let ways = block.map_or(0, |block| block.successors.iter().filter(|way| way.case.is_some()).count());
                let chosen = match warps.values.operand(&warps.graph, index, operand) {
                    Value::Constant(chosen) => Some(chosen),
                    Value::Threads { values, elected: false } if agreement.all_come(index) => {
                        here.iter().filter_map(|thread| values.get(thread as usize).copied()).max()
                    }
                    _ => None,
                };
                let reasoning = "the index of brx.idx is below the number of its targets";
                if let Some(chosen) = chosen.filter(|chosen| *chosen >= ways as u64 && ways > 0) {
                    let message = format!("brx.idx chooses target {chosen} of {ways}");
                    add(Rule::BranchTarget, site, message, reasoning);
                } else if let Some((last, by)) =
                    admitted(warps, bits, (index, site), operand).filter(|(last, _)| *last >= ways as u64 && ways > 0)
                {
                    let message = format!("brx.idx may be given {last} by line {by}, and has {ways} targets");
                    add(Rule::BranchTarget, site, message, reasoning);
                }
            }
            (_, "bfe") => {
                let width = if instruction.modifiers().any(|word| word.ends_with("64")) { 64 } else { 32 };
                let (from, length) = (number(2).and_then(|it| it.constant()), number(3).and_then(|it| it.constant()));
                let past = from.zip(length).filter(|(from, length)| (from & 0xff) + (length & 0xff) > width);
                if let Some((from, length)) = past {
                    let message = format!("bfe takes {length} bits from bit {from} on, of a number of {width}");
                    let reasoning =
                        "those beyond the number are zeros, or copies of its sign: fewer are taken than asked for";
                    add(Rule::BitsThere, site, message, reasoning);
                }
            }
            (_, "addc" | "subc" | "madc") => carry(warps, (index, site), &mut add),
            _ => {}
        }
    }
    checks
}

/// The greatest index that what stands before an indexed branch lets through, and the line that says so: the comparison that its block is
/// come to by, or the mask that makes the index where nothing compares it.
fn admitted(
    warps: &Warps<'_>,
    bits: &Bits,
    (index, site): (SiteId, &Site<'_>),
    operand: Operand<'_>,
) -> Option<(u64, u32)> {
    let graph = &warps.graph;
    let register = graph.registers.resolve(operand.name()?, site.located.id)?;
    let reads = |other: &Site<'_>| {
        let mut used = graph.registers.of(&other.located);
        other.located.instruction.mnemonic() == "setp" && used.any(|used| !used.is_def && used.register == register)
    };
    let writes = |other: &Site<'_>, to: Register| graph.registers.written_by(&other.located).any(|known| known == to);
    let mut compared = graph.sites.iter_enumerated().filter(|(_, other)| reads(other)).map(|(at, _)| at);
    work::spend_on(graph.sites.len() / 4);
    let Some(first) = compared.next() else {
        // A mask leaves a few bits; what nothing is known of is none.
        let most = !bits.operand(warps, index, operand).zeros & u64::from(u32::MAX);
        let mut made = graph.sites.iter().filter(|other| writes(other, register));
        let by = made.next().filter(|by| by.located.instruction.mnemonic() == "and" && made.next().is_none())?;
        return (most < MOST_TARGETS).then(|| (most, by.line().0));
    };
    // One comparison, right before the only way that leads here, of what nothing writes in between.
    let before = graph.predecessors();
    let [from] = before.get(site.block)?[..] else { return None };
    let edge = graph.blocks.get(from)?.successors.iter().find(|edge| edge.to == site.block)?;
    let (predicate, holds) = edge.when?;
    let (at, compare) = graph.sites_of(from).filter(|(_, other)| writes(other, predicate)).last()?;
    let between = graph.sites_of(from).filter(|(other, _)| *other > at);
    let mut between = between.chain(graph.sites_of(site.block).filter(|(other, _)| *other < index));
    let is_plain = first == at && compared.next().is_none() && compare.guard.is_none();
    if !is_plain || between.any(|(_, other)| writes(other, register)) {
        return None;
    }
    let instruction = compare.located.instruction;
    let operands: Vec<Operand<'_>> = instruction.operands().collect();
    let [_, left, right] = operands[..] else { return None };
    if graph.registers.resolve(left.name()?, compare.located.id) != Some(register) {
        return None;
    }
    let limit = warps.values.operand(graph, at, right).constant()? & u64::from(u32::MAX);
    let has = |word: &str| instruction.has(word);
    let is_unsigned =
        instruction.modifiers().any(|word| matches!(word, "u32" | "b32" | "u16")) || has("hi") || has("ls");
    let most = match holds {
        false if has("gt") || has("hi") => limit,
        false if has("ge") || has("hs") => limit.checked_sub(1)?,
        true if has("le") || has("ls") => limit,
        true if has("lt") || has("lo") => limit.checked_sub(1)?,
        _ => return None,
    };
    (is_unsigned && most < MOST_TARGETS).then(|| (most, compare.line().0))
}

/// A carry that comes from no instruction right before.
fn carry(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>), add: &mut impl FnMut(Rule, &Site<'_>, String, &str)) {
    let start = warps.graph.blocks.get(site.block).map_or(SiteId::FIRST, |block| block.start);
    let before = warps.graph.sites.range(start..index).iter().rev();
    let mut from: Option<&Site<'_>> = None;
    for other in before.inspect(|_| work::spend(1)) {
        let instruction = other.located.instruction;
        let takes = matches!(instruction.mnemonic(), "addc" | "subc" | "madc");
        match (from, instruction.has("cc")) {
            // The one before it is what is there to be taken; a chain that begins anew drops what is left of the one before.
            (None, true) if takes => return,
            (None, true) => from = Some(other),
            (Some(_), _) if takes => return,
            (Some(from), true) => {
                let message =
                    format!("takes the carry of line {}: that of line {} is never taken", from.line(), other.line());
                let reasoning = "there is one carry: an instruction that gives one overwrites that of the one before";
                add(Rule::CarryKept, site, message, reasoning);
                return;
            }
            _ => {}
        }
        if from.is_some() {
            continue;
        }
        if matches!(other.operation, Operation::Call) {
            let message = format!("a carry across the call at line {}", other.line());
            add(Rule::CarryKept, site, message, "a call need not keep the carry");
            return;
        }
    }
    if from.is_some() {
        return;
    }
    let message = "a carry that no instruction on the straight way here gives".to_owned();
    add(
        Rule::CarryKept,
        site,
        message,
        "a carry is kept from one instruction to the next alone, across no branch or label",
    );
}

/// Where registers are written, by register.
struct Writes<'g, 'a> {
    graph: &'g Graph<'a>,
    of: FastMap<Register, Vec<SiteId>>,
}

/// The ways from the start to an instruction that are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Some,
    Every,
}

impl Writes<'_, '_> {
    /// Whether something else may have written a register before an instruction, on some way to it or on every one. What stands before it
    /// in the text is taken to.
    fn precede(&self, register: Register, index: SiteId, on: Ways) -> bool {
        let Some(writes) = self.of.get(&register) else { return false };
        if writes.first().is_some_and(|first| *first < index) {
            return true;
        }
        // Through a loop, or by what stands after it in the text.
        let block_of = |index: SiteId| self.graph.sites.get(index).map(|site| site.block);
        let (Some(home), Some(start)) = (block_of(index), block_of(SiteId::FIRST)) else { return true };
        if self.graph.sites.get(index).is_some_and(|site| site.guard.is_some()) {
            return true;
        }
        let writing: BTreeSet<BlockId> =
            writes.iter().filter(|write| **write != index).filter_map(|write| block_of(*write)).collect();
        work::spend_on(self.graph.blocks.len() / 16);
        let reached = dataflow::reached(self.graph.blocks.len(), [start], |block, next| {
            if block != home && (on == Ways::Some || !writing.contains(&block)) {
                next.extend(self.graph.blocks.get(block).iter().flat_map(|info| &info.successors).map(|edge| edge.to));
            }
        });
        let comes_to = |block: BlockId| reached.get(block).copied();
        // What is written behind it, where no way leads back, was not there before.
        let predecessors = self.graph.predecessors();
        let leads = dataflow::reached(self.graph.blocks.len(), [home], |block, next| {
            next.extend(predecessors.get(block).into_iter().flatten());
        });
        let leads_home = |block: BlockId| leads.get(block).copied().unwrap_or(true);
        match on {
            Ways::Some => {
                let before = |block: &&BlockId| **block != home && comes_to(**block).unwrap_or(true);
                writing.iter().filter(before).any(|block| leads_home(*block))
            }
            Ways::Every => home != start && !comes_to(home).unwrap_or(false),
        }
    }
}

/// Registers that are read before anything was written to them.
fn unwritten(warps: &Warps<'_>, add: &mut impl FnMut(Rule, &Site<'_>, String, &str)) {
    let mut of: FastMap<Register, Vec<SiteId>> = FastMap::default();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        for register in warps.graph.registers.written_by(&site.located) {
            of.entry(register).or_default().push(index);
        }
    }
    let writes = Writes { graph: &warps.graph, of };
    for (index, site) in warps.graph.sites.iter_enumerated() {
        if warps.reach.block(site.block).is_empty() {
            continue;
        }
        let instruction = site.located.instruction;
        let read = warps.graph.registers.of(&site.located).filter(|used| !used.is_def);
        if matches!(site.operation, Operation::Wgmma(Wgmma::MmaAsync)) {
            let adds = instruction.operand(3).map(|operand| warps.values.operand(&warps.graph, index, operand));
            let accumulators: Vec<Register> = warps.graph.registers.written_by(&site.located).collect();
            let unset = |register: &Register| !writes.precede(*register, index, Ways::Every);
            if adds.and_then(|adds| adds.constant()).is_some_and(|adds| adds & 1 == 1)
                && let Some(first) = accumulators.iter().find(|register| unset(register))
            {
                let mut uses = warps.graph.registers.of(&site.located);
                let name = uses.find(|used| used.is_def && used.register == *first).map_or("", |used| used.name);
                let message = match accumulators.iter().all(unset) {
                    true => "the first wgmma adds to accumulators that nothing has set".to_owned(),
                    false => format!("the first wgmma adds to {name}, which nothing has set"),
                };
                add(Rule::WgmmaFirst, site, message, "with scale-d the product is added to what the registers hold");
            }
            continue;
        }
        // Compilers copy and pack what is undefined, and throw it away.
        if matches!(instruction.mnemonic(), "mov" | "prmt" | "selp") {
            continue;
        }
        // They hand it to other lanes as well: half of a pair, or what a structure is padded with.
        let handed = instruction.operand(1).filter(|_| instruction.mnemonic() == "shfl").and_then(|it| it.name());
        for used in read.filter(|used| Some(used.name) != handed) {
            if !writes.precede(used.register, index, Ways::Some) {
                let message = format!("{} is read, and nothing has written it", used.name);
                add(Rule::RegisterWritten, site, message, "a register that no instruction wrote holds anything");
                return;
            }
        }
    }
}

/// A register of some threads that no instruction writes which they can come to.
#[derive(Clone)]
struct Unset {
    threads: ThreadSet,
    /// Where it is read first, and as what.
    first: SiteId,
    name: String,
}

/// Registers that some threads store, or compute what they store from, though no write can be run by them: a branch or predicate that is
/// known keeps them from each.
fn by_some(agreement: &mut Agreement<'_, '_>, add: &mut impl FnMut(Rule, &Site<'_>, String, &str)) {
    let warps = agreement.warps;
    let (graph, Some(threads)) = (&warps.graph, warps.threads) else { return };
    let all = ThreadSet::first(threads);
    let mut writes: FastMap<Register, (ThreadSet, u32)> = FastMap::default();
    for (index, site) in graph.sites.iter_enumerated() {
        for register in graph.registers.written_by(&site.located) {
            work::spend(1);
            let (who, count) = writes.entry(register).or_insert((ThreadSet::EMPTY, 0));
            *who = who.union(&warps.at(index));
            *count += 1;
        }
    }
    let mut unset: FastMap<Register, Unset> = FastMap::default();
    for (index, site) in graph.sites.iter_enumerated() {
        let mnemonic = site.located.instruction.mnemonic();
        let stores = matches!(mnemonic, "st" | "red");
        if !stores && !carries_through(mnemonic) {
            continue;
        }
        let here = warps.at(index);
        let found = graph.registers.of(&site.located).filter(|used| !used.is_def).find_map(|used| {
            work::spend(1);
            let known = unset.get(&used.register).cloned();
            let own = || {
                let (who, _) = writes.get(&used.register)?;
                let lack = all.without(who);
                (!lack.is_empty()).then(|| Unset { threads: lack, first: index, name: used.name.to_owned() })
            };
            let found = known.or_else(own)?;
            let threads = found.threads.intersection(&here);
            (!threads.is_empty()).then_some(Unset { threads, ..found })
        });
        let Some(found) = found else { continue };
        if !stores {
            // What is written in one place alone is what was computed there.
            for register in graph.registers.written_by(&site.located) {
                if writes.get(&register).is_some_and(|(_, count)| *count == 1) {
                    unset.entry(register).or_insert_with(|| found.clone());
                }
            }
        } else if agreement.all_come(index)
            && let Some(first) = graph.sites.get(found.first)
        {
            let thread = found.threads.iter().next().unwrap_or(0);
            let message = format!("thread {thread} reads {}, and runs no instruction that writes it", found.name);
            let reasoning =
                format!("a register that no instruction wrote holds anything, and line {} stores it", site.line());
            add(Rule::RegisterWritten, first, message, &reasoning);
            return;
        }
    }
}

/// Whether what an instruction computes is undefined where an operand is.
fn carries_through(mnemonic: &str) -> bool {
    matches!(mnemonic, "add" | "sub" | "mul" | "mad" | "fma" | "neg" | "cvt" | "mov" | "shl" | "shr" | "sqrt" | "ex2")
}

/// Mbarriers that are initialised once more.
fn again(warps: &Warps<'_>, add: &mut impl FnMut(Rule, &Site<'_>, String, &str)) {
    let mut inits: BTreeMap<(u32, i64), BTreeSet<SiteId>> = BTreeMap::new();
    let mut invals: BTreeSet<SiteId> = BTreeSet::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Operation::Mbarrier(mbarrier) = site.operation else { continue };
        match (mbarrier.action, mbarrier.address) {
            (MbarrierAction::Init, Some(address)) => {
                if let Value::Address { variable, offset: Some(offset) } =
                    warps.values.operand(&warps.graph, index, address)
                {
                    inits.entry((variable, offset)).or_default().insert(index);
                }
            }
            (MbarrierAction::Inval, _) => {
                invals.insert(index);
            }
            _ => {}
        }
    }
    if inits.is_empty() {
        return;
    }
    let paths = Paths::new(warps);
    for sites in inits.values() {
        for index in sites {
            let next = paths.first(*index, false, &[sites, &invals]);
            let who = warps.at(*index);
            let second = next.iter().find(|next| sites.contains(next) && warps.at(**next).meets(&who));
            if let Some((second, first)) =
                second.and_then(|second| warps.graph.sites.get(*second)).zip(warps.graph.sites.get(*index))
            {
                let message = format!("an mbarrier is initialised again, after line {}", first.line());
                add(
                    Rule::InitialisedOnce,
                    second,
                    message,
                    "mbarrier.inval comes between one mbarrier.init and the next",
                );
            }
        }
    }
}
