//! Named barriers: who arrives where, and whether the counts can add up.

use std::collections::{BTreeMap, BTreeSet};

use super::barrier_counts::Counts;
use super::check::{Check, Confidence};
use super::threads::{ThreadSet, Value, Warps};
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

/// Checks of named barriers. `exact` says that the block cannot have another size.
pub fn check(warps: &Warps<'_>, named: &Named, exact: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    let whole = warps.graph.complete && !warps.graph.calls && named.unresolved.is_empty();
    divergence(warps, &mut checks);
    let mut by_threads = Counts::new(warps, exact);
    for (id, sites) in &named.barriers {
        counts(*id, sites, &mut checks);
        if !whole {
            continue;
        }
        by_threads.check(*id, sites, &mut checks);
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
