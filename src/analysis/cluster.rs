//! Cluster barriers: every wait has its arrive before it.

use super::check::{Check, Confidence};
use super::threads::{Site, Warps};
use crate::base::Line;
use crate::ptx::{ClusterBarrierAction, Operation};

/// Half of a cluster barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSite {
    /// Its line.
    pub line: Line,
    /// Arrive or wait.
    pub action: ClusterBarrierAction,
    /// Whether all threads of a warp must run it together.
    pub aligned: bool,
}

/// Every half, in order.
pub fn sites(warps: &Warps<'_>) -> Vec<ClusterSite> {
    let site = |site: &Site<'_>| match site.operation {
        Operation::ClusterBarrier { action, aligned } => Some(ClusterSite { line: site.line(), action, aligned }),
        _ => None,
    };
    warps.graph.sites.iter().filter_map(site).collect()
}

/// The thread has not arrived.
const IDLE: u8 = 1;
/// The thread has arrived and not waited.
const ARRIVED: u8 = 2;

fn step(state: u8, site: &Site<'_>) -> u8 {
    let Operation::ClusterBarrier { action, .. } = site.operation else { return state };
    let after = if action == ClusterBarrierAction::Arrive { ARRIVED } else { IDLE };
    // A half that a predicate guards may be left out.
    if site.located.instruction.guard().is_some() { state | after } else { after }
}

/// Follows arrive and wait along every path.
pub fn check(warps: &Warps<'_>) -> Vec<Check> {
    let graph = &warps.graph;
    let mut checks = Vec::new();
    if sites(warps).is_empty() || graph.calls || !graph.complete {
        return checks;
    }
    let all = sites(warps);
    let waits = all.iter().any(|site| site.action == ClusterBarrierAction::Wait);
    if let Some(first) = all.first().filter(|_| !waits) {
        checks.push(Check {
            code: "PI403",
            fatal: false,
            confidence: Confidence::Likely,
            line: first.line,
            message: "barrier.cluster.arrive in a kernel that never waits".to_owned(),
            reasoning: "no barrier.cluster.wait is there: the blocks of a cluster are never in step".to_owned(),
        });
        return checks;
    }
    let mut before = vec![0u8; graph.blocks.len()];
    let mut open = vec![0u32];
    if let Some(first) = before.first_mut() {
        *first = IDLE;
    }
    while let Some(at) = open.pop() {
        let Some(&start) = before.get(at as usize) else { continue };
        let after = graph.sites_of(at).fold(start, |state, (_, site)| step(state, site));
        for edge in graph.blocks.get(at as usize).iter().flat_map(|block| &block.successors) {
            if let Some(state) = before.get_mut(edge.to as usize)
                && *state | after != *state
            {
                *state |= after;
                open.push(edge.to);
            }
        }
    }
    for (block, start) in before.iter().enumerate().filter(|(_, start)| **start != 0) {
        let mut state = *start;
        for (_, site) in graph.sites_of(block as u32) {
            let found = match site.operation {
                Operation::ClusterBarrier { action: ClusterBarrierAction::Wait, .. } if state == IDLE => Some((
                    "PI401",
                    Confidence::Certain,
                    "barrier.cluster.wait without an arrive before it",
                    "no path to this line has a barrier.cluster.arrive that no wait has answered",
                )),
                Operation::ClusterBarrier { action: ClusterBarrierAction::Arrive, .. } if state == ARRIVED => Some((
                    "PI402",
                    Confidence::Certain,
                    "barrier.cluster.arrive for the second time, with no wait between",
                    "every path to this line has arrived already and not waited",
                )),
                Operation::Return | Operation::Exit if state == ARRIVED => Some((
                    "PI403",
                    Confidence::Possible,
                    "leaves the kernel after barrier.cluster.arrive without a wait",
                    "every path to this line has arrived and not waited: shared memory may go while other blocks read it",
                )),
                _ => None,
            };
            if let Some((code, confidence, message, reasoning)) = found {
                let (message, reasoning) = (message.to_owned(), reasoning.to_owned());
                checks.push(Check { code, fatal: code != "PI403", confidence, line: site.line(), message, reasoning });
            }
            state = step(state, site);
        }
    }
    checks
}
