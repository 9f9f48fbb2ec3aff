//! Named barriers: who arrives where, and whether the counts can add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::Line;
use crate::ptx::{BarrierAction, Operation};
use crate::simt::{SiteId, ThreadSet, Value, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// An instruction on a named barrier.
#[derive(Clone, Debug)]
pub struct BarrierSite {
    /// Its place among the instructions.
    pub index: SiteId,
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
    /// Whether they may run it on another barrier instead, as those do that take turns with two.
    pub in_turns: bool,
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
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Operation::NamedBarrier(barrier) = site.operation else { continue };
        let value = |operand| warps.values.operand(&warps.graph, index, operand);
        let count = match barrier.threads {
            None => warps.threads,
            Some(threads) => value(threads).constant().and_then(|count| u32::try_from(count).ok()),
        };
        let here = warps.at(index);
        let threads = warps.threads.map(|_| here);
        let (line, action, aligned) = (site.line(), barrier.action, barrier.aligned);
        let at = BarrierSite { index, line, action, aligned, count, threads, in_turns: false };
        // Each warpgroup has a barrier of its own, or one of several.
        let mut by_thread = |layers: &[Arc<[u64]>]| {
            let mut own: BTreeMap<u64, ThreadSet> = BTreeMap::new();
            for (thread, layer) in layers.iter().flat_map(|layer| here.iter().map(move |thread| (thread, layer))) {
                let Some(id) = layer.get(thread as usize) else { continue };
                let set = own.entry(*id).or_insert(ThreadSet::EMPTY);
                *set = set.union(&ThreadSet::from_iter([thread]));
            }
            for (id, own) in own {
                let Ok(id) = u32::try_from(id) else { continue };
                let site = BarrierSite { threads: Some(own), in_turns: layers.len() > 1, ..at.clone() };
                found.barriers.entry(id).or_default().push(site);
            }
        };
        let alternatives = || warps.values.alternatives(&warps.graph, index, barrier.id?);
        match barrier.id.map(value) {
            Some(Value::Threads { values, .. }) => by_thread(&[values]),
            Some(Value::Constant(id)) => match u32::try_from(id) {
                Ok(id @ 0..16) => found.barriers.entry(id).or_default().push(at),
                _ => found.unresolved.push(at),
            },
            _ => match alternatives().filter(|layers| are_ids(layers, &here)) {
                Some(layers) => by_thread(&layers),
                None => found.unresolved.push(at),
            },
        }
    }
    found
}

/// Whether every number that some threads may have is that of a barrier.
fn are_ids(layers: &[Arc<[u64]>], threads: &ThreadSet) -> bool {
    let is_id = |layer: &Arc<[u64]>, thread: u32| layer.get(thread as usize).is_some_and(|id| *id < 16);
    layers.iter().all(|layer| threads.iter().all(|thread| is_id(layer, thread)))
}

/// Checks of named barriers that no execution is needed for.
pub fn check(warps: &Warps<'_>, named: &Named) -> Vec<Finding> {
    let mut checks = Vec::new();
    let whole = warps.graph.complete && !warps.graph.calls && named.unresolved.is_empty();
    for (id, sites) in &named.barriers {
        counts(*id, sites, &mut checks);
        if !whole {
            continue;
        }
        let arrives = sites.iter().find(|site| site.action == BarrierAction::Arrive);
        let waits = sites.iter().any(|site| site.action != BarrierAction::Arrive);
        // One that has several barriers in turns is at fault where nobody waits for any of them.
        let is_waited_for = |line: Line| {
            named.barriers.iter().any(|(_, sites)| {
                sites.iter().any(|site| site.line == line)
                    && sites.iter().any(|site| site.action != BarrierAction::Arrive)
            })
        };
        let known: Vec<Line> = checks.iter().map(|check: &Finding| check.line).collect();
        let is_told = |site: &&BarrierSite| site.in_turns && (is_waited_for(site.line) || known.contains(&site.line));
        if let Some(site) = arrives.filter(|site| !waits && !is_told(site)) {
            checks.push(Finding {
                rule: Rule::BarrierWaitedFor,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} is arrived at, but nobody waits for it"),
                reasoning: "no bar.sync, barrier.sync or .red of the kernel has this id".to_owned(),
            });
        }
    }
    checks
}

fn counts(id: u32, sites: &[BarrierSite], checks: &mut Vec<Finding>) {
    let mut seen: BTreeMap<u32, Line> = BTreeMap::new();
    for site in sites {
        let Some(count) = site.count else { continue };
        // A block whose size is no multiple of 32 has a last warp that is not full.
        if count % 32 != 0 && site.threads.is_none_or(|threads| threads.len() != count) {
            checks.push(Finding {
                rule: Rule::BarrierOperands,
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
        checks.push(Finding {
            rule: Rule::OneCount,
            confidence: Confidence::Possible,
            line: seen.values().copied().max().unwrap_or(Line(1)),
            message: format!("barrier {id} is used with different counts: {}", list.join(", ")),
            reasoning:
                "sites that complete a barrier together need one count; others may differ where they never overlap"
                    .to_owned(),
        });
    }
}
