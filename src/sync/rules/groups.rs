//! Groups of asynchronous work along every path: wgmma fenced, committed and waited for; copies committed and waited for.

use std::ops::ControlFlow;

use crate::base::{FastSet, IndexVec, work};
use crate::ptx::{Bulk, CpAsync, Operand, Operation, Register, Wgmma};
use crate::simt::{BlockId, Graph, Site, SiteId, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::operands;
use crate::sync::rules::rule::Rule;

/// Copies from which a commit is looked for.
const MAX_COPIES: usize = 64;

/// What a path has done last, one bit each; several where paths meet.
type States = u16;

/// Nothing yet.
const START: States = 1;
/// A fence.
const FENCED: States = 2;
/// Work that belongs to no group yet.
const OPEN: States = 4;
/// A group that nobody has waited for.
const COMMITTED: States = 8;
/// A wait that leaves groups on their way.
const SOME_LEFT: States = 16;
/// A wait for all.
const DONE: States = 32;

/// What may have come last at each instruction, by index; 0 where none is reached.
fn along(graph: &Graph<'_>, step: impl Fn(&Site<'_>) -> Option<States>) -> IndexVec<SiteId, States> {
    states(graph, |state, site| step(site).map_or(state, |after| after_guard(site, state, after)))
}

/// What holds after an instruction: where a guard may leave it out, what held before it, too.
fn after_guard(site: &Site<'_>, before: States, after: States) -> States {
    if site.guard.is_some() { before | after } else { after }
}

/// The states that may hold before each instruction, by index; 0 where none is reached.
fn states(graph: &Graph<'_>, next: impl Fn(States, &Site<'_>) -> States) -> IndexVec<SiteId, States> {
    let through =
        |block: BlockId, state: States| graph.sites_of(block).fold(state, |state, (_, site)| next(state, site));
    let join = |there: &mut States, state: States| {
        let more = *there | state;
        std::mem::replace(there, more) != more
    };
    let before = dataflow::forward(graph, START, through, |_, _, state| Some(*state), join);
    let mut at: IndexVec<SiteId, States> = IndexVec::filled(0, graph.sites.len());
    for (block, state) in before.into_iter_enumerated() {
        let Some(mut state) = state else { continue };
        for (index, site) in graph.sites_of(block) {
            if let Some(slot) = at.get_mut(index) {
                *slot = state;
            }
            state = next(state, site);
        }
    }
    at
}

/// Checks of groups.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let mut checks = Vec::new();
    if warps.graph.calls || !warps.graph.complete {
        return checks;
    }
    wgmma(&warps.graph, &mut checks);
    for check in crate::sync::rules::wgmma::check(warps) {
        work::spend_on(checks.len());
        if !checks.iter().any(|known| known.rule == check.rule && known.line == check.line) {
            checks.push(check);
        }
    }
    copies(&warps.graph, &mut checks);
    checks.extend(announced(&warps.graph));
    checks
}

/// Stores of which nobody waits but for their sources to be read.
const STORED: States = 64;
/// Such stores, whose sources have been read.
const SOURCE_READ: States = 128;
/// Such stores, and a fence for other blocks since.
const FENCED_EARLY: States = 256;

/// Bulk stores that others are told of when their sources have been read, and not when they have been written: a release, or a fence and
/// a strong write, to global memory.
fn announced(graph: &Graph<'_>) -> Option<Finding> {
    let is_bulk = |site: &&Site<'_>| stores_in_bulk(site);
    graph.sites.iter().find(is_bulk)?;
    let next = |state: States, site: &Site<'_>| {
        let after = match site.operation {
            _ if stores_in_bulk(site) => STORED,
            Operation::Bulk(Bulk::WaitGroup { read: false, .. }) => DONE,
            Operation::Bulk(Bulk::WaitGroup { read: true, .. }) => {
                let waited = if state & STORED != 0 { SOURCE_READ } else { 0 };
                return state & !STORED | waited;
            }
            Operation::Fence { proxy: false } if reaches_others(site) && state & SOURCE_READ != 0 => {
                return state & !SOURCE_READ | FENCED_EARLY;
            }
            _ => return state,
        };
        after_guard(site, state, after)
    };
    let tells = |site: &Site<'_>, state: States| match writes_for_others(site) {
        Some(releases) => state & FENCED_EARLY != 0 || releases && state & SOURCE_READ != 0,
        None => false,
    };
    let all = states(graph, next);
    let (index, site) =
        graph.sites.iter_enumerated().find(|(index, site)| all.get(*index).is_some_and(|state| tells(site, *state)))?;
    let waits = |operation: &Operation<'_>| matches!(operation, Operation::Bulk(Bulk::WaitGroup { read: true, .. }));
    Some(Finding {
        rule: Rule::StoreWritten,
        confidence: Confidence::Likely,
        line: last_before(graph, index, waits)?.line(),
        message: format!("waits for the sources of stores alone, and line {} tells others of them", site.line()),
        reasoning: "wait_group.read is over when the sources have been read: what was stored need not be written yet; \
                    cp.async.bulk.wait_group without .read"
            .to_owned(),
    })
}

/// A store by the bulk that its thread reads back, at the very address, when it has waited for no more than the source to be read.
pub fn read_back(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    if graph.calls || !graph.complete {
        return None;
    }
    let place = |index: SiteId, operand: Option<Operand<'_>>| warps.values.identity(graph, index, operand?);
    let stores = graph.sites.iter_enumerated().filter(|(_, site)| stores_in_bulk(site)).take(MAX_COPIES);
    for (store, stored) in stores {
        let Some(there) = place(store, stored.located.instruction.operand(0)) else { continue };
        let (mut wait, mut reader) = (None, None);
        dataflow::walk(
            graph,
            store,
            // A turn of a loop later the address may be another one.
            |edge| graph.blocks.get(edge.to).is_some_and(|block| block.start > store),
            |index, site| {
                match site.operation {
                    Operation::Bulk(Bulk::WaitGroup { read: false, .. }) => return ControlFlow::Break(()),
                    Operation::Bulk(Bulk::WaitGroup { read: true, .. }) => wait = wait.or(Some(site.line())),
                    Operation::Other if site.located.instruction.mnemonic() == "ld" && wait.is_some() => {
                        let is_there = place(index, site.located.instruction.operand(1)) == Some(there);
                        reader = reader.or(is_there.then(|| site.line()));
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            },
        );
        if let (Some(wait), Some(reader)) = (wait, reader) {
            return Some(Finding {
                rule: Rule::StoreWritten,
                confidence: Confidence::Likely,
                line: wait,
                message: format!(
                    "waits for the source of the store of line {} alone, and line {} reads what it stores",
                    stored.line().0,
                    reader.0
                ),
                reasoning:
                    "wait_group.read is over when the source has been read: what was stored need not be written yet; \
                            cp.async.bulk.wait_group without .read"
                        .to_owned(),
            });
        }
    }
    None
}

/// Whether it is a bulk copy or reduction into global memory.
fn stores_in_bulk(site: &Site<'_>) -> bool {
    matches!(site.operation, Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. })) && is_store(site)
}

/// Whether an instruction orders for threads of other blocks.
fn reaches_others(site: &Site<'_>) -> bool {
    site.located.instruction.modifiers().any(|word| matches!(word, "gpu" | "sys" | "gl"))
}

/// Whether an instruction writes what threads of other blocks wait for, and if so, whether it tells them of what came before.
fn writes_for_others(site: &Site<'_>) -> Option<bool> {
    let instruction = site.located.instruction;
    let is_global = instruction.has("global") || !instruction.modifiers().any(|word| word.starts_with("shared"));
    let has = |words: &[&str]| instruction.modifiers().any(|word| words.contains(&word));
    let is_strong = match instruction.mnemonic() {
        "st" => has(&["release", "relaxed", "volatile", "mmio"]),
        "red" | "atom" => true,
        _ => false,
    };
    (is_strong && is_global && !has(&["cta"])).then(|| has(&["release", "acq_rel"]) && reaches_others(site))
}

/// The instruction of some kind that comes last before a place in the text.
fn last_before<'g, 'a>(
    graph: &'g Graph<'a>,
    index: SiteId,
    is: impl Fn(&Operation<'a>) -> bool,
) -> Option<&'g Site<'a>> {
    graph.sites.range(SiteId::FIRST..index).iter().rev().inspect(|_| work::spend(1)).find(|site| is(&site.operation))
}

fn wgmma(graph: &Graph<'_>, checks: &mut Vec<Finding>) {
    let is_mma = |operation: &Operation<'_>| matches!(operation, Operation::Wgmma(Wgmma::MmaAsync));
    if !graph.sites.iter().any(|site| is_mma(&site.operation)) {
        return;
    }
    unfenced(graph, is_mma, checks);
    if !checks.iter().any(|known| known.rule == Rule::WgmmaFenced) {
        checks.extend(operands::unfenced(graph));
    }
    let states = along(graph, |site| match site.operation {
        Operation::Wgmma(Wgmma::Fence) => Some(FENCED),
        Operation::Wgmma(Wgmma::MmaAsync) => Some(OPEN),
        Operation::Wgmma(Wgmma::CommitGroup) => Some(COMMITTED),
        Operation::Wgmma(Wgmma::WaitGroup(Some(0))) => Some(DONE),
        Operation::Wgmma(Wgmma::WaitGroup(_)) => Some(SOME_LEFT),
        _ => None,
    });
    let mut add = |rule, line, message: &str, reasoning: &str| {
        work::spend_on(checks.len());
        if !checks.iter().any(|known: &Finding| known.rule == rule && known.line == line) {
            let (message, reasoning) = (message.to_owned(), reasoning.to_owned());
            checks.push(Finding { rule, confidence: Confidence::Likely, line, message, reasoning });
        }
    };
    // Multiplications that the next fence finds in no group. Where there are several, groups are meant to go across fences.
    let mut refenced: Vec<&Site<'_>> = Vec::new();
    for ((index, site), state) in graph.sites.iter_enumerated().zip(&states) {
        let state = *state;
        if state == 0 {
            continue;
        }
        let only = |bits: States| state & !bits == 0;
        match site.operation {
            Operation::Wgmma(Wgmma::WaitGroup(_)) | Operation::Return | Operation::Exit if only(OPEN) => {
                if let Some(last) = last_before(graph, index, is_mma) {
                    add(
                        Rule::WgmmaCommitted,
                        last.line(),
                        "wgmma.mma_async that no commit_group follows",
                        "every path waits or ends with multiplications that belong to no group: no wait covers them",
                    );
                }
            }
            Operation::Wgmma(Wgmma::Fence) if only(OPEN) => refenced.extend(last_before(graph, index, is_mma)),
            Operation::Wgmma(_) => {}
            Operation::Return | Operation::Exit if only(COMMITTED | SOME_LEFT) => {
                let is = |operation: &Operation<'_>| matches!(operation, Operation::Wgmma(Wgmma::CommitGroup));
                if let Some(last) = last_before(graph, index, is) {
                    add(
                        Rule::WgmmaWaitedFor,
                        last.line(),
                        "wgmma groups that are never waited for",
                        "every path to the end leaves groups on their way: results may be read only after wgmma.wait_group",
                    );
                }
            }
            _ => {}
        }
    }
    // Where all is waited for, how many groups there are is nobody's concern.
    let counts = graph
        .sites
        .iter()
        .any(|site| matches!(site.operation, Operation::Wgmma(Wgmma::WaitGroup(left)) if left != Some(0)));
    if let [last] = refenced[..]
        && counts
    {
        add(
            Rule::WgmmaCommitted,
            last.line(),
            "wgmma.mma_async that no commit_group follows",
            "every path to the next wgmma.fence leaves it in no group of its own, as no other does: waits count one group less",
        );
    }
}

/// A fence, and multiplications since.
const FENCED_AND_USED: States = 64;

/// The first multiplication that a path leads to from the start without a fence, or with none since its accumulators were computed anew.
/// One after the other into the same accumulators need none between them.
fn unfenced(graph: &Graph<'_>, is_mma: impl Fn(&Operation<'_>) -> bool, checks: &mut Vec<Finding>) {
    let multiplications = || graph.sites.iter().filter(|site| is_mma(&site.operation));
    let accumulators: FastSet<Register> =
        multiplications().flat_map(|site| graph.registers.written_by(&site.located)).collect();
    let next = |state: States, site: &Site<'_>| {
        let writes = || graph.registers.written_by(&site.located).any(|to| accumulators.contains(&to));
        let after = match site.operation {
            Operation::Wgmma(Wgmma::Fence) => FENCED,
            Operation::Wgmma(Wgmma::MmaAsync) if state & FENCED != 0 => state & !FENCED | FENCED_AND_USED,
            Operation::Wgmma(_) => return state,
            // Compilers move copies about as they like: what was copied was computed before. A constant is none, and they put it before
            // the multiplication, but for the fence: no fence since the last multiplication is none wherever they put it.
            _ if site.located.instruction.mnemonic() == "mov" => {
                let is_constant = || site.located.instruction.operand(1).is_some_and(|from| from.name().is_none());
                match state & FENCED_AND_USED != 0 && writes() && is_constant() {
                    true => state & !FENCED_AND_USED | OPEN,
                    false => return state,
                }
            }
            _ if writes() => OPEN,
            _ => return state,
        };
        after_guard(site, state, after)
    };
    let states = states(graph, next);
    let bare = |(site, state): &(&Site<'_>, &States)| is_mma(&site.operation) && **state & (START | OPEN) != 0;
    if let Some((site, state)) = graph.sites.iter().zip(&states).find(bare) {
        let since = if *state & START != 0 { "the start" } else { "its accumulators were computed" };
        checks.push(Finding {
            rule: Rule::WgmmaFenced,
            confidence: Confidence::Likely,
            line: site.line(),
            message: format!("wgmma.mma_async with no wgmma.fence since {since}"),
            reasoning: "wgmma.fence comes between writing registers and the multiplications that have them: a path to this line has none"
                .to_owned(),
        });
    }
}

/// Copies in groups: `cp.async` and the bulk ones out of shared memory.
fn copies(graph: &Graph<'_>, checks: &mut Vec<Finding>) {
    for bulk in [false, true] {
        let kind = |site: &Site<'_>| match site.operation {
            Operation::CpAsync(CpAsync::Copy) if !bulk => Some(OPEN),
            Operation::CpAsync(CpAsync::CommitGroup) if !bulk => Some(COMMITTED),
            // An mbarrier takes them over.
            Operation::CpAsync(CpAsync::WaitAll | CpAsync::MbarrierArrive) if !bulk => Some(DONE),
            Operation::CpAsync(CpAsync::WaitGroup(_)) if !bulk => Some(SOME_LEFT),
            Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }) if bulk => {
                site.located.instruction.opcode().contains("bulk_group").then_some(OPEN)
            }
            Operation::Bulk(Bulk::CommitGroup) if bulk => Some(COMMITTED),
            Operation::Bulk(Bulk::WaitGroup { .. }) if bulk => Some(SOME_LEFT),
            _ => None,
        };
        let first = |wanted: States| graph.sites.iter().find(|site| kind(site) == Some(wanted));
        let name = if bulk { "cp.async.bulk" } else { "cp.async" };
        let Some(copy) = first(OPEN) else { continue };
        let mut add = |rule, confidence, line, message: String, reasoning: &str| {
            let reasoning = reasoning.to_owned();
            checks.push(Finding { rule, confidence, line, message, reasoning });
        };
        // Published kernels end with a store under way.
        let mut copies = graph.sites.iter_enumerated().filter(|(_, site)| kind(site) == Some(OPEN));
        // One that waits means its stores to be over.
        let ends = bulk
            && first(SOME_LEFT).is_none()
            && copies.all(|(index, site)| is_store(site) && !graph.is_in_a_loop(index));
        let confidence = if ends { Confidence::Possible } else { Confidence::Likely };
        if first(COMMITTED).is_none() && first(DONE).is_none() {
            let message = format!("{name} copies in a kernel without {name}.commit_group");
            let reasoning = "copies that belong to no group are covered by no wait_group";
            add(Rule::CopiesCommitted, confidence, copy.line(), message, reasoning);
            continue;
        }
        let committed = first(COMMITTED);
        if let Some(committed) = committed.filter(|_| first(SOME_LEFT).is_none() && first(DONE).is_none()) {
            let message = format!("{name} groups in a kernel without {name}.wait_group");
            add(Rule::CopiesWaitedFor, confidence, committed.line(), message, "nothing says when the copies are done");
            continue;
        }
        if !bulk && let Some(copy) = never_waited_for(graph, kind) {
            let message = format!("{name} copy that nothing waits for before the end");
            let reasoning = "no path from it comes to a wait: the block may end while it writes into its shared memory";
            add(Rule::CopiesWaitedFor, Confidence::Likely, copy.line(), message, reasoning);
        }
        if let Some((copy, wait)) = never_committed(graph, kind) {
            let message =
                format!("{name} copy that no commit_group follows, so that the wait of line {wait} does not cover it");
            let reasoning = "no path from it comes to a commit_group: it belongs to no group that the wait counts";
            add(Rule::CopiesCommitted, Confidence::Likely, copy.line(), message, reasoning);
            continue;
        }
        let states = along(graph, kind);
        for ((index, site), state) in graph.sites.iter_enumerated().zip(states) {
            if kind(site) == Some(SOME_LEFT) && state == OPEN {
                let is = |operation: &Operation<'_>| match operation {
                    Operation::CpAsync(CpAsync::Copy) => !bulk,
                    Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }) => bulk,
                    _ => false,
                };
                if let Some(last) = last_before(graph, index, is) {
                    let message = format!("{name} copy that no commit_group follows before the wait");
                    let reasoning = "every path to the wait_group after it leaves it in no group";
                    add(Rule::CopiesCommitted, Confidence::Likely, last.line(), message, reasoning);
                }
            }
        }
    }
}

/// A copy, sure to copy something, that no path leads on from to a wait.
fn never_waited_for<'g, 'a>(graph: &'g Graph<'a>, kind: impl Fn(&Site<'_>) -> Option<States>) -> Option<&'g Site<'a>> {
    let waits = |site: &Site<'_>| matches!(kind(site), Some(SOME_LEFT | DONE));
    let predecessors = graph.predecessors();
    let homes = graph.sites.iter().filter(|site| waits(site)).map(|site| site.block);
    let comes = dataflow::reached(graph.blocks.len(), homes, |block, next| {
        next.extend(predecessors.get(block).into_iter().flatten());
    });
    // From the last instruction of a block to its first: whether a wait follows.
    let mut follows = (None, false);
    graph.sites.iter().rev().find(|site| {
        if follows.0 != Some(site.block) {
            follows = (Some(site.block), comes.get(site.block).copied().unwrap_or(true));
        }
        follows.1 |= waits(site);
        // How much of it is copied, an operand or a predicate may say.
        let is_sure = site.guard.is_none() && site.located.instruction.operand(3).is_none();
        kind(site) == Some(OPEN) && is_sure && !follows.1
    })
}

/// A copy that paths lead on from to a wait for groups, and none to a commit: the first such copy, and the line of the wait.
fn never_committed<'g, 'a>(
    graph: &'g Graph<'a>,
    kind: impl Fn(&Site<'_>) -> Option<States>,
) -> Option<(&'g Site<'a>, u32)> {
    graph.sites.iter_enumerated().filter(|(_, site)| kind(site) == Some(OPEN)).take(MAX_COPIES).find_map(
        |(index, site)| {
            let (mut commits, mut wait, mut is_covered) = (false, None, false);
            dataflow::walk(
                graph,
                index,
                |_| true,
                |_, other| match kind(other) {
                    Some(COMMITTED) => {
                        commits = true;
                        ControlFlow::Break(())
                    }
                    Some(SOME_LEFT) => {
                        wait.get_or_insert(other.line().0);
                        ControlFlow::Continue(())
                    }
                    // It is taken care of there: what comes behind is none of its own.
                    Some(DONE) => {
                        is_covered = true;
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                },
            );
            // A wait before the end may be for others alone, where the end waits for all; not one that a loop comes back to.
            let is_meant = !is_covered || graph.is_in_a_loop(index);
            wait.filter(|_| !commits && is_meant).map(|wait| (site, wait))
        },
    )
}

/// Whether a bulk copy goes from shared memory to global memory.
fn is_store(site: &Site<'_>) -> bool {
    site.located.instruction.opcode().contains(".global.shared::cta")
}
