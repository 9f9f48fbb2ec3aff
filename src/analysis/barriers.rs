//! Named barriers: who arrives where, and whether the counts can add up.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Check, Confidence};
use super::threads::{Edge, ThreadSet, Value, Warps, passing};
use crate::base::Line;
use crate::ptx::{BarrierAction, Operation};

/// An instruction on a named barrier.
#[derive(Clone, Debug)]
pub struct BarrierSite {
    /// Its place among the instructions.
    pub index: usize,
    /// Its line.
    pub line: Line,
    /// Sync, arrive or reduce.
    pub action: BarrierAction,
    /// Whether all threads of a warp must run it together.
    pub aligned: bool,
    /// Threads that it counts to; all of the block when it gives no number, none when that is not known.
    pub count: Option<u32>,
    /// The threads that may run it on this barrier; none when the block size is not known.
    pub threads: Option<ThreadSet>,
}

/// What a kernel does with its named barriers.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// By id.
    pub barriers: BTreeMap<u32, Vec<BarrierSite>>,
    /// Instructions whose id is not known.
    pub unresolved: Vec<BarrierSite>,
}

/// Collects the sites of each id.
pub fn named(warps: &Warps<'_>) -> Named {
    let mut found = Named::default();
    for (index, site) in warps.graph.sites.iter().enumerate() {
        let Operation::NamedBarrier(barrier) = site.operation else { continue };
        let value = |operand| warps.values.operand(&warps.graph, index, operand);
        let count = match barrier.threads {
            None => warps.threads,
            Some(threads) => value(threads).constant().and_then(|count| u32::try_from(count).ok()),
        };
        let here = warps.at(index);
        let threads = warps.threads.map(|_| here);
        let (line, action, aligned) = (site.line(), barrier.action, barrier.aligned);
        let at = BarrierSite { index, line, action, aligned, count, threads };
        match barrier.id.map(value) {
            // Each warpgroup has a barrier of its own.
            Some(Value::Threads { values, .. }) => {
                let id_of = |thread: u32| values.get(thread as usize).copied();
                let ids: BTreeSet<u64> = here.iter().filter_map(id_of).collect();
                for id in ids {
                    let own = here.iter().filter(|thread| id_of(*thread) == Some(id)).collect();
                    let Ok(id) = u32::try_from(id) else { continue };
                    found.barriers.entry(id).or_default().push(BarrierSite { threads: Some(own), ..at.clone() });
                }
            }
            Some(Value::Constant(id)) if id < 16 => found.barriers.entry(id as u32).or_default().push(at),
            _ => found.unresolved.push(at),
        }
    }
    found
}

/// Whether a thread must come by a block: no way out of the kernel avoids it.
fn must_pass(warps: &Warps<'_>, thread: u32, through: u32) -> bool {
    let alone: ThreadSet = [thread].into_iter().collect();
    let blocks = &warps.graph.blocks;
    let mut seen = vec![false; blocks.len()];
    let mut open = vec![0u32];
    while let Some(at) = open.pop() {
        if at == through || std::mem::replace(seen.get_mut(at as usize).unwrap_or(&mut true), true) {
            continue;
        }
        let Some(block) = blocks.get(at as usize) else { continue };
        let is_open = |edge: &&Edge| !passing(&warps.graph, &warps.values, block, edge, alone).is_empty();
        let ways: Vec<u32> = block.successors.iter().filter(is_open).map(|edge| edge.to).collect();
        if ways.is_empty() {
            return false;
        }
        open.extend(ways);
    }
    true
}

/// Checks of named barriers. `exact` says that the block cannot have another size.
pub fn check(warps: &Warps<'_>, named: &Named, exact: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    let whole = warps.graph.complete && !warps.graph.calls && named.unresolved.is_empty();
    divergence(warps, &mut checks);
    for (id, sites) in &named.barriers {
        counts(*id, sites, &mut checks);
        if !whole {
            continue;
        }
        arrivals(warps, *id, sites, exact, &mut checks);
        let arrives = sites.iter().find(|site| site.action == BarrierAction::Arrive);
        let waits = sites.iter().any(|site| site.action != BarrierAction::Arrive);
        if let Some(site) = arrives.filter(|_| !waits) {
            checks.push(Check {
                code: "PI205",
                fatal: false,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} is arrived at, but nobody waits for it"),
                reasoning: "no bar.sync, barrier.sync or .red of the kernel has this id".to_owned(),
            });
        }
    }
    checks
}

fn counts(id: u32, sites: &[BarrierSite], checks: &mut Vec<Check>) {
    let mut seen: BTreeMap<u32, Line> = BTreeMap::new();
    for site in sites {
        let Some(count) = site.count else { continue };
        // A block whose size is no multiple of 32 has a last warp that is not full.
        if count % 32 != 0 && site.threads.is_none_or(|threads| threads.len() != count) {
            checks.push(Check {
                code: "PI201",
                fatal: true,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} counts to {count}, which is not a multiple of 32"),
                reasoning: "whole warps arrive: the ISA wants a multiple of the warp size".to_owned(),
            });
        }
        seen.entry(count).or_insert(site.line);
    }
    if seen.len() > 1 {
        let list: Vec<String> = seen.iter().map(|(count, line)| format!("{count} at line {line}")).collect();
        checks.push(Check {
            code: "PI202",
            fatal: false,
            confidence: Confidence::Possible,
            line: seen.values().copied().max().unwrap_or(Line(1)),
            message: format!("barrier {id} is used with different counts: {}", list.join(", ")),
            reasoning:
                "sites that complete a barrier together need one count; others may differ where they never overlap"
                    .to_owned(),
        });
    }
}

/// Whether no warp can count twice: none both arrives and waits, and none arrives in a loop.
fn arrives_once(warps: &Warps<'_>, sites: &[BarrierSite]) -> bool {
    let of = |arrive: bool| {
        let sites = sites.iter().filter(move |site| (site.action == BarrierAction::Arrive) == arrive);
        sites.filter_map(|site| site.threads).fold(ThreadSet::EMPTY, |all, set| all.union(&set)).whole_warps()
    };
    let mut arrives = sites.iter().filter(|site| site.action == BarrierAction::Arrive);
    let apart = of(true).intersection(&of(false)).is_empty();
    apart && arrives.all(|site| !warps.graph.is_in_a_loop(site.index))
}

/// Instructions that whole warps must run together, where some lanes cannot come.
fn divergence(warps: &Warps<'_>, checks: &mut Vec<Check>) {
    let Some(threads) = warps.threads else { return };
    let all = ThreadSet::first(threads);
    let mut lanes_wait: Option<ThreadSet> = None;
    for (index, site) in warps.graph.sites.iter().enumerate() {
        let what = match site.operation {
            Operation::NamedBarrier(barrier) if barrier.aligned => "barrier",
            Operation::ClusterBarrier { aligned: true, .. } => "cluster barrier",
            Operation::SetMaxNReg { .. } => "setmaxnreg",
            Operation::Wgmma(_) => "wgmma",
            _ => continue,
        };
        let here = warps.at(index);
        let missing = here.whole_warps().intersection(&all);
        if here.is_empty() || missing == here {
            continue;
        }
        // Lanes that have left the kernel are not missed; those that go on to wait elsewhere are.
        let elsewhere = *lanes_wait.get_or_insert_with(|| {
            let waits = warps.graph.sites.iter().enumerate().filter(|(_, site)| {
                matches!(
                    site.operation,
                    Operation::NamedBarrier(_) | Operation::ClusterBarrier { .. } | Operation::Wgmma(_)
                )
            });
            waits.fold(ThreadSet::EMPTY, |all, (index, _)| all.union(&warps.at(index)))
        });
        let lost = missing.iter().filter(|thread| !here.has(*thread)).any(|thread| elsewhere.has(thread));
        let first = here.warps().first().copied().unwrap_or(0);
        let lanes = here.iter().filter(|thread| thread / 32 == first).count();
        checks.push(Check {
            code: "PI206",
            fatal: true,
            confidence: if lost { Confidence::Likely } else { Confidence::Possible },
            line: site.line(),
            message: format!("only {lanes} of the 32 lanes of warp {first} come to this aligned {what}"),
            reasoning: "all threads of a warp must run it together; a branch or predicate keeps the others away"
                .to_owned(),
        });
        return;
    }
}

/// Whether the threads that can arrive are as many as the count says.
fn arrivals(warps: &Warps<'_>, id: u32, sites: &[BarrierSite], exact: bool, checks: &mut Vec<Check>) {
    let Some(all) = sites.iter().map(|site| site.threads).collect::<Option<Vec<ThreadSet>>>() else { return };
    let able = all.iter().fold(ThreadSet::EMPTY, |all, set| all.union(set)).whole_warps();
    let only_sync = sites.iter().all(|site| site.action != BarrierAction::Arrive);
    let once = only_sync || arrives_once(warps, sites);
    for site in sites {
        let (Some(count), Some(here)) = (site.count, site.threads) else { continue };
        if here.is_empty() || site.action == BarrierAction::Arrive || count == 0 || count % 32 != 0 {
            continue;
        }
        if able.len() < count {
            checks.push(Check {
                code: "PI203",
                fatal: true,
                confidence: match (once, exact) {
                    (true, true) => Confidence::Certain,
                    (true, false) => Confidence::Likely,
                    // A warp that arrives and then waits, or arrives again, counts twice.
                    (false, _) => Confidence::Possible,
                },
                line: site.line,
                message: format!("barrier {id} waits for {count} threads, but only {} can get to it", able.len()),
                reasoning: format!(
                    "of a block of {} threads, warps {:?} reach its sites; branches lead the others elsewhere",
                    warps.threads.unwrap_or(0),
                    able.warps()
                ),
            });
            return;
        }
        if !only_sync || here.whole_warps().len() <= count {
            continue;
        }
        // The same warps come to every site; the others count just them.
        let come = here.whole_warps().len();
        let same = |other: &BarrierSite| other.threads == site.threads;
        let others = sites.iter().filter(|other| other.index != site.index);
        if sites.len() > 2 && sites.iter().all(same) && others.clone().all(|other| other.count == Some(come)) {
            checks.push(Check {
                code: "PI204",
                fatal: true,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} counts to {count} here, but {come} threads come to it"),
                reasoning: format!(
                    "the same {come} threads come to all {} sites of this barrier, and every other one counts to {come}",
                    sites.len()
                ),
            });
            continue;
        }
        if sites.len() > 1 {
            continue;
        }
        let block = warps.graph.sites.get(site.index).map_or(0, |site| site.block);
        let comes = |warp: &u32| {
            let first = (warp * 32..warp * 32 + 32).find(|&thread| here.has(thread));
            first.is_some_and(|thread| must_pass(warps, thread, block))
        };
        let arriving = here.warps().iter().filter(|warp| comes(warp)).count() as u32 * 32;
        if arriving > count && !arriving.is_multiple_of(count) {
            checks.push(Check {
                code: "PI204",
                fatal: true,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} counts to {count}, but {arriving} threads come to it"),
                reasoning: format!(
                    "every way of {} warps through the kernel leads here; {} threads are left to wait for a round that nobody \
                     completes",
                    arriving / 32,
                    arriving % count
                ),
            });
        }
    }
}
