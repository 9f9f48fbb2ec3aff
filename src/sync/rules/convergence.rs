//! Instructions that lanes of a warp, or warps of a group, run together: whether those that are named can come.
//!
//! A lane is missing where a branch or a predicate that is known keeps it away. Where that is not known, nothing is told.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{IndexVec, work};
use crate::ptx::{BarrierAction, Instruction, Operand, Operation, Wgmma};
use crate::simt::{BlockId, Paths, Site, SiteId, ThreadSet, Value, Warps, dataflow};
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Warps of a warpgroup.
const GROUP: u32 = 4;
/// Named barriers of a block.
const IDS: u64 = 16;

/// Which lanes an instruction waits for.
pub(super) enum Together<'a> {
    /// All of the warp: `.aligned`.
    Warp,
    /// Those of a mask.
    Mask(Operand<'a>),
}

pub(super) fn together<'a>(site: &Site<'a>) -> Option<Together<'a>> {
    let instruction = site.located.instruction;
    match site.operation {
        Operation::NamedBarrier(barrier) => barrier.aligned.then_some(Together::Warp),
        Operation::ClusterBarrier { aligned, .. } => aligned.then_some(Together::Warp),
        Operation::SetMaxNReg { .. } | Operation::Wgmma(_) => Some(Together::Warp),
        Operation::WarpBarrier { mask } => mask.map(Together::Mask),
        Operation::Elect => instruction.operand(1).map(Together::Mask),
        _ if !instruction.has("sync") => None,
        _ if instruction.has("aligned") => Some(Together::Warp),
        _ => match instruction.mnemonic() {
            "shfl" | "vote" | "match" | "redux" => instruction.operands().last().map(Together::Mask),
            _ => None,
        },
    }
}

/// What an instruction is called.
pub(super) fn name(site: &Site<'_>) -> String {
    match site.operation {
        Operation::NamedBarrier(_) => "barrier".to_owned(),
        Operation::ClusterBarrier { .. } => "cluster barrier".to_owned(),
        Operation::SetMaxNReg { .. } => "setmaxnreg".to_owned(),
        Operation::Wgmma(_) => "wgmma".to_owned(),
        _ => short(&site.located.instruction),
    }
}

/// `shfl.sync`, `tcgen05.ld`, `bar.warp.sync`
fn short(instruction: &Instruction<'_>) -> String {
    let words = if instruction.has("warp") { 2 } else { 1 };
    let modifiers: Vec<&str> = instruction.modifiers().take(words).collect();
    format!("{}.{}", instruction.mnemonic(), modifiers.join("."))
}

/// Checks who comes together.
pub fn check(agreement: &mut Agreement<'_, '_>) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let warps = agreement.warps;
    let Some(threads) = warps.threads else { return checks };
    let all = ThreadSet::first(threads);
    let mut add = |index: SiteId, check: Finding| {
        // Who is too many must come for sure; who is missing is.
        let is_sure = matches!(check.rule, Rule::WholeWarps | Rule::LanesOfMask | Rule::WholeWarpgroups);
        if !is_sure && !agreement.all_come(index) {
            return;
        }
        // The surest of each rule stands for those that follow from it.
        match checks.iter_mut().find(|known| known.rule == check.rule) {
            Some(known) if known.confidence < check.confidence => *known = check,
            Some(_) => {}
            None => checks.push(check),
        }
    };
    for (index, site) in warps.graph.sites.iter_enumerated() {
        if let Operation::NamedBarrier(barrier) = site.operation {
            let here = warps.at(index);
            barrier_operand(warps, (index, site), barrier.id, &here, &mut add);
            if let Some(count) = barrier.threads.map(|count| warps.values.operand(&warps.graph, index, count))
                && count.constant() == Some(0)
            {
                let reasoning = "a barrier counts to a multiple of 32, and not to 0".to_owned();
                add(
                    index,
                    likely(Rule::BarrierOperands, site, "a named barrier counts to 0 threads".to_owned(), reasoning),
                );
            }
        }
        if let Some(found) = divided(warps, (index, site)) {
            add(index, found);
        }
        let Some(together) = together(site) else { continue };
        let here = warps.at(index);
        if here.is_empty() {
            continue;
        }
        match together {
            Together::Warp => whole_warps(warps, (index, site), &here, &all, &mut add),
            Together::Mask(mask) => masked(warps, (index, site), (mask, &here), &all, &mut add),
        }
        if matches!(site.operation, Operation::Wgmma(Wgmma::MmaAsync)) {
            warpgroups((index, site), &here, &all, &mut add);
        }
    }
    budgets(warps, &all, &mut add);
    set_again(warps, &mut add);
    checks
}

/// A branch that says that all lanes of a warp take it or none, and that some take.
pub(super) fn divided(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    if !matches!(site.operation, Operation::Branch { .. }) || !site.located.instruction.has("uni") {
        return None;
    }
    let (register, _) = site.guard?;
    let Value::Threads { values, elected: false } = warps.values.at(index, register) else { return None };
    let here = warps.warps_at(index).intersection(&warps.reach.block(site.block));
    let mut first: Option<(u32, u64)> = None;
    let other = here.iter().find_map(|thread| {
        let taken = values.get(thread as usize)? & 1;
        match first.filter(|(known, _)| known / 32 == thread / 32) {
            Some((known, way)) => (way != taken).then_some((known, thread)),
            None => {
                first = Some((thread, taken));
                None
            }
        }
    });
    let (one, other) = other?;
    let message = format!(
        "lanes {} and {} of warp {} go different ways at this branch, which says .uni",
        one % 32,
        other % 32,
        one / 32
    );
    let reasoning = "with .uni all lanes of a warp take a branch, or none does: without it they may part";
    Some(likely(Rule::BranchUniform, site, message, reasoning.to_owned()))
}

/// A warp that sets its registers, of a warpgroup of which another one sets none: where it does, and both.
fn setting_alone<'m>(
    of_warp: &'m BTreeMap<u32, BTreeMap<u32, SiteId>>,
    all: &ThreadSet,
) -> Option<(&'m SiteId, u32, u32)> {
    let there_are = all.warps();
    of_warp.iter().find_map(|(warp, counts)| {
        let group = warp / GROUP * GROUP;
        let lacking = (group..group + GROUP).find(|it| there_are.contains(it) && !of_warp.contains_key(it))?;
        Some((counts.values().next()?, *warp, lacking))
    })
}

/// A second setmaxnreg that a way leads to from a first one by no barrier.
fn set_again(warps: &Warps<'_>, add: &mut impl FnMut(SiteId, Finding)) {
    let of = |is: &dyn Fn(&Site<'_>) -> bool| -> BTreeSet<SiteId> {
        warps.graph.sites.iter_enumerated().filter(|(_, site)| is(site)).map(|(index, _)| index).collect()
    };
    let sets = of(&|site| matches!(site.operation, Operation::SetMaxNReg { .. }));
    if sets.len() < 2 {
        return;
    }
    let meets = of(&|site| match site.operation {
        Operation::NamedBarrier(barrier) => barrier.action != BarrierAction::Arrive,
        // What a warp waits for at an mbarrier, or of its multiplications, it waits for by itself.
        Operation::ClusterBarrier { .. } | Operation::Call => true,
        _ => false,
    });
    let paths = Paths::new(warps);
    for first in &sets {
        let next = paths.first(*first, false, &[&sets, &meets]);
        let second = next.into_iter().find(|next| next != first && sets.contains(next));
        let sites =
            second.and_then(|second| Some((second, warps.graph.sites.get(second)?, warps.graph.sites.get(*first)?)));
        if let Some((second, site, before)) = sites.filter(|(second, ..)| warps.at(*second).meets(&warps.at(*first))) {
            let message = format!("setmaxnreg once more after line {}, with no barrier between", before.line());
            let reasoning = "the warps of a warpgroup meet before another setmaxnreg: bar.sync of all its threads";
            add(second, likely(Rule::SetApart, site, message, reasoning.to_owned()));
            return;
        }
    }
}

/// Warps of one warpgroup that set different numbers of registers, or of which some set none.
fn budgets(warps: &Warps<'_>, all: &ThreadSet, add: &mut impl FnMut(SiteId, Finding)) {
    let mut of_warp: BTreeMap<u32, BTreeMap<u32, SiteId>> = BTreeMap::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        if let Operation::SetMaxNReg { count: Some(count), .. } = site.operation {
            for warp in warps.at(index).warps() {
                of_warp.entry(warp).or_default().entry(count).or_insert(index);
            }
        }
    }
    if let Some((&index, warp, lacking)) = setting_alone(&of_warp, all) {
        let Some(site) = warps.graph.sites.get(index) else { return };
        let message = format!("warp {warp} sets its registers, and warp {lacking} of the same warpgroup cannot come");
        let reasoning = "setmaxnreg is run by all warps of a warpgroup: four warps from a multiple of 4";
        add(index, likely(Rule::WholeWarpgroups, site, message, reasoning.to_owned()));
        return;
    }
    for (&warp, counts) in &of_warp {
        let group = warp / GROUP * GROUP;
        let (Some(first), Some((&count, &index))) = (of_warp.get(&group), counts.iter().next()) else { continue };
        let Some(&other) = first.keys().next().filter(|_| first.keys().all(|count| !counts.contains_key(count))) else {
            continue;
        };
        let Some(site) = warps.graph.sites.get(index) else { continue };
        let message =
            format!("warp {warp} sets {count} registers a thread, and warp {group} of the same warpgroup sets {other}");
        let reasoning =
            "setmaxnreg is run by all warps of a warpgroup, with one number: four warps from a multiple of 4";
        add(index, likely(Rule::WholeWarpgroups, site, message, reasoning.to_owned()));
        return;
    }
}

fn likely(rule: Rule, site: &Site<'_>, message: String, reasoning: String) -> Finding {
    Finding { rule, confidence: Confidence::Likely, line: site.line(), message, reasoning }
}

/// A number of a named barrier that there is none of.
fn barrier_operand(
    warps: &Warps<'_>,
    (index, site): (SiteId, &Site<'_>),
    id: Option<Operand<'_>>,
    here: &ThreadSet,
    add: &mut impl FnMut(SiteId, Finding),
) {
    let Some(id) = id.map(|id| warps.values.operand(&warps.graph, index, id)) else { return };
    let beyond = match &id {
        Value::Constant(id) if *id >= IDS && !here.is_empty() => Some(*id),
        Value::Threads { values, elected: false } => {
            here.iter().filter_map(|thread| values.get(thread as usize).copied()).find(|id| *id >= IDS)
        }
        _ => None,
    };
    if let Some(id) = beyond {
        let reasoning = "a block has the named barriers 0 to 15".to_owned();
        add(index, likely(Rule::BarrierOperands, site, format!("barrier {id}, which there is not"), reasoning));
    }
}

/// Lanes that cannot come to what all lanes of a warp run together.
fn whole_warps(
    warps: &Warps<'_>,
    (index, site): (SiteId, &Site<'_>),
    here: &ThreadSet,
    all: &ThreadSet,
    add: &mut impl FnMut(SiteId, Finding),
) {
    let absent = here.whole_warps().intersection(all).without(here);
    let Some(first) = here.warps().into_iter().find(|warp| absent.iter().any(|thread| thread / 32 == *warp)) else {
        return;
    };
    let lanes = here.iter().filter(|thread| thread / 32 == first).count();
    let is_tensor = matches!(site.operation, Operation::Tcgen05 { .. });
    // Registers are those of the whole warp.
    let sets_registers = matches!(site.operation, Operation::SetMaxNReg { .. });
    // Each lane brings a part of the matrices: without it there is no product.
    let is_matrix =
        matches!(site.located.instruction.mnemonic(), "mma" | "wmma" | "ldmatrix" | "stmatrix" | "movmatrix");
    add(
        index,
        Finding {
            rule: Rule::WholeWarps,
            // Lanes that have left the kernel are not missed; those that go on are.
            confidence: if is_tensor || is_matrix || sets_registers || go_on(warps, index, &absent) {
                Confidence::Likely
            } else {
                Confidence::Possible
            },
            line: site.line(),
            message: format!("only {lanes} of the 32 lanes of warp {first} come to this aligned {}", name(site)),
            reasoning: "all threads of a warp must run it together; a branch or predicate keeps the others away"
                .to_owned(),
        },
    );
}

/// Lanes that a mask names and that cannot come, and those that come without being named.
fn masked(
    warps: &Warps<'_>,
    (index, site): (SiteId, &Site<'_>),
    (mask, here): (Operand<'_>, &ThreadSet),
    all: &ThreadSet,
    add: &mut impl FnMut(SiteId, Finding),
) {
    let value = warps.values.operand(&warps.graph, index, mask);
    let mask_of = |thread: u32| match &value {
        Value::Constant(mask) => Some(*mask as u32),
        Value::Threads { values, elected: false } => values.get(thread as usize).map(|mask| *mask as u32),
        _ => None,
    };
    let what = name(site);
    let (mut absent, mut missing) = (ThreadSet::EMPTY, None);
    let mut last = None;
    for thread in here.iter() {
        let Some(mask) = mask_of(thread) else { return };
        let (warp, lane) = (thread / 32, thread % 32);
        if mask >> lane & 1 == 0 {
            let message =
                format!("lane {lane} of warp {warp} comes to this {what}, whose mask {mask:#x} does not name it");
            add(index, likely(Rule::InMask, site, message, "a lane must be in the mask that it gives".to_owned()));
            return;
        }
        // Lanes of a warp mostly name the same.
        if last.replace((warp, mask)) == Some((warp, mask)) {
            continue;
        }
        let named: ThreadSet = (0..32).filter(|lane| mask >> lane & 1 == 1).map(|lane| warp * 32 + lane).collect();
        let not_here = named.without(here);
        if !not_here.is_empty() && missing.is_none() {
            missing = Some((warp, mask, not_here));
        }
        absent = absent.union(&not_here.intersection(all));
    }
    if let Some((warp, mask, not_here)) = missing {
        let lane = not_here.iter().next().unwrap_or(0) % 32;
        let is_there = not_here.intersection(all) == not_here;
        // A block of less than a warp has its own way of being full.
        let is_short = !is_there && all.len() > 32;
        if go_on(warps, index, &absent) || is_short {
            let (why, reasoning) = if is_there {
                ("cannot come to", "every lane of the mask runs it; a branch or predicate keeps some away")
            } else {
                ("does not exist at", "every lane of the mask runs it, and the last warp of the block is not full")
            };
            let message = format!("lane {lane} of warp {warp} {why} this {what}, whose mask {mask:#x} names it");
            add(index, likely(Rule::LanesOfMask, site, message, reasoning.to_owned()));
        }
    }
    if site.located.instruction.mnemonic() == "shfl" {
        shuffled(warps, (index, site), (here, all), &mask_of, add);
    }
}

/// Whether lanes that are not at an instruction run others after it, or wait on another way.
fn go_on(warps: &Warps<'_>, index: SiteId, absent: &ThreadSet) -> bool {
    let graph = &warps.graph;
    if absent.is_empty() {
        return false;
    }
    let Some(home) = graph.sites.get(index).map(|site| site.block) else { return false };
    // They pass by it, for its guard does not hold.
    if warps.may_go(absent, home) {
        return true;
    }
    work::spend_on(graph.sites.len() / 4);
    let after = dataflow::reached(graph.blocks.len(), [home], |block, next| {
        next.extend(graph.blocks.get(block).iter().flat_map(|info| &info.successors).map(|edge| edge.to));
    });
    let predecessors = graph.predecessors();
    let before = dataflow::reached(graph.blocks.len(), [home], |block, next| {
        next.extend(predecessors.get(block).into_iter().flatten());
    });
    graph.sites.iter_enumerated().any(|(at, site)| {
        let is = |set: &IndexVec<BlockId, bool>| set.get(site.block).copied().unwrap_or(false);
        let works = !matches!(
            site.operation,
            Operation::Return
                | Operation::Exit
                | Operation::Trap
                | Operation::Branch { .. }
                | Operation::IndexedBranch { .. }
        );
        let waits = || together(site).is_some();
        let counts =
            works && (is(&after) || site.block == home && at > index) || site.block != home && !is(&before) && waits();
        at != index && counts && warps.at(at).meets(absent)
    })
}

/// A shuffle that reads a lane that its mask does not name, or that cannot come to it.
fn shuffled(
    warps: &Warps<'_>,
    (index, site): (SiteId, &Site<'_>),
    (here, all): (&ThreadSet, &ThreadSet),
    mask_of: &impl Fn(u32) -> Option<u32>,
    add: &mut impl FnMut(SiteId, Finding),
) {
    let instruction = site.located.instruction;
    let value = |at: usize| instruction.operand(at).map(|operand| warps.values.operand(&warps.graph, index, operand));
    let (by, clamp) = (value(2), value(3));
    let number = |value: &Option<Value>, thread: u32| match value {
        Some(Value::Constant(number)) => Some(*number as u32),
        Some(Value::Threads { values, elected: false }) => values.get(thread as usize).map(|number| *number as u32),
        _ => None,
    };
    let (indexed, butterfly, down) = (instruction.has("idx"), instruction.has("bfly"), instruction.has("down"));
    // Sums read past the end of a group and throw that away: they are wrong where no lane reads one that takes part.
    let is_sum = !indexed && !butterfly;
    let mut found: Option<String> = None;
    for thread in here.iter() {
        let (Some(by), Some(clamp), Some(mask)) = (number(&by, thread), number(&clamp, thread), mask_of(thread)) else {
            return;
        };
        let (lane, segment) = (thread % 32, clamp >> 8 & 31);
        let last = lane & segment | clamp & 31 & !segment;
        let (from, is_within) = match (indexed, butterfly, down) {
            (true, ..) => (lane & segment | by & 31 & !segment, true),
            (_, true, _) => (lane ^ by & 31, true),
            (.., true) => (lane + (by & 31), true),
            _ => (lane.wrapping_sub(by & 31), lane >= (by & 31) && lane - (by & 31) >= last),
        };
        let is_read = is_within && from < 32 && (from <= last || is_sum && !down);
        let other = thread - lane + from.min(31);
        let is_absent = all.has(other) && !here.has(other);
        if is_read && (mask >> from & 1 == 0 || is_absent) {
            let why = if is_absent { "which does not come to it" } else { "which its mask does not name" };
            found.get_or_insert_with(|| {
                format!("lane {lane} reads lane {from} by this shfl.sync of mask {mask:#x}, {why}")
            });
            if !is_sum {
                break;
            }
        } else if is_sum && is_read {
            return;
        }
    }
    if let Some(message) = found {
        let reasoning = if is_sum {
            "what a lane reads of one that does not take part is undefined, and no lane reads one that does"
        } else {
            "what a lane reads of one that does not take part is undefined"
        };
        add(index, likely(Rule::ShuffledLane, site, message, reasoning.to_owned()));
    }
}

/// A warpgroup of which some warps cannot come to a wgmma.
fn warpgroups(
    (index, site): (SiteId, &Site<'_>),
    here: &ThreadSet,
    all: &ThreadSet,
    add: &mut impl FnMut(SiteId, Finding),
) {
    let present = here.warps();
    let there_are = all.warps();
    let broken = present.iter().find(|warp| {
        let first = *warp / GROUP * GROUP;
        (first..first + GROUP).any(|warp| !present.contains(&warp))
    });
    let Some(warp) = broken else { return };
    let first = warp / GROUP * GROUP;
    let missing: Vec<u32> = (first..first + GROUP).filter(|warp| !present.contains(warp)).collect();
    let why = if missing.iter().all(|warp| there_are.contains(warp)) { "cannot come" } else { "does not exist" };
    let lacking = missing.first().copied().unwrap_or(first);
    add(
        index,
        likely(
            Rule::WholeWarpgroups,
            site,
            format!("warp {warp} comes to this wgmma, but warp {lacking} of its warpgroup {why}"),
            "four warps from a multiple of 4 on multiply together: all of them must run it".to_owned(),
        ),
    );
}
