//! Cluster barriers: every wait has its arrive before it.

use std::ops::ControlFlow;

use crate::base::{IndexVec, Line};
use crate::ptx::{ClusterBarrierAction, Operand, Operation, Tcgen05};
use crate::simt::{BlockId, Edge, Graph, Root, Site, SiteId, ThreadSet, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

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

/// The thread has not arrived yet.
const NEVER: u8 = 1;
/// The thread has arrived and not waited.
const ARRIVED: u8 = 2;
/// The thread has waited for what it arrived at.
const WAITED: u8 = 4;

fn half(site: &Site<'_>) -> Option<ClusterBarrierAction> {
    match site.operation {
        Operation::ClusterBarrier { action, .. } => Some(action),
        _ => None,
    }
}

fn is_guarded(site: &Site<'_>) -> bool {
    site.located.instruction.guard().is_some()
}

fn step(state: u8, site: &Site<'_>) -> u8 {
    let Some(action) = half(site) else { return state };
    let after = if action == ClusterBarrierAction::Arrive { ARRIVED } else { WAITED };
    // A half that a predicate guards may be left out.
    if is_guarded(site) { state | after } else { after }
}

/// Arrivals so far, one bit for each number; the last for more than can be told apart.
const MANY: u16 = 1 << 15;

fn count(arrivals: u16, site: &Site<'_>) -> u16 {
    if half(site) != Some(ClusterBarrierAction::Arrive) {
        return arrivals;
    }
    let after = (arrivals & !MANY) << 1 | arrivals & MANY;
    if is_guarded(site) { arrivals | after } else { after }
}

/// What may hold at the start of each block, followed along every path; `none` where no path leads.
fn follow<T: Copy + PartialEq + std::ops::BitOr<Output = T>>(
    graph: &Graph<'_>,
    none: T,
    first: T,
    step: impl Fn(T, &Site<'_>) -> T,
) -> IndexVec<BlockId, T> {
    let through = |block: BlockId, state: T| graph.sites_of(block).fold(state, |state, (_, site)| step(state, site));
    let join = |there: &mut T, state: T| {
        let more = *there | state;
        std::mem::replace(there, more) != more
    };
    let before = dataflow::forward(graph, first, through, |_, _, state| Some(*state), join);
    before.into_iter().map(|state| state.unwrap_or(none)).collect()
}

/// Follows arrive and wait along every path. Nothing is certain: what the ISA leaves undefined was seen to run (docs/hardware.md).
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let mut checks = Vec::new();
    if sites(warps).is_empty() || graph.calls || !graph.complete {
        return checks;
    }
    let all = sites(warps);
    let waits = all.iter().any(|site| site.action == ClusterBarrierAction::Wait);
    if let Some(first) = all.first().filter(|_| !waits) {
        let reasoning = "no barrier.cluster.wait is there: the blocks of a cluster are never in step";
        checks.push(unanswered(first.line, "barrier.cluster.arrive in a kernel that never waits", reasoning));
        return checks;
    }
    let before = follow(graph, 0u8, NEVER, step);
    let mut ends = 0;
    for (block, start) in before.iter_enumerated().filter(|(_, start)| **start != 0) {
        let mut state = *start;
        for (_, site) in graph.sites_of(block) {
            let found = match site.operation {
                Operation::ClusterBarrier { action: ClusterBarrierAction::Wait, .. } if state & ARRIVED == 0 => Some((
                    Rule::ClusterArrived,
                    Confidence::Likely,
                    "barrier.cluster.wait without an arrive before it",
                    "no path to this line has a barrier.cluster.arrive that no wait has answered",
                )),
                Operation::ClusterBarrier { action: ClusterBarrierAction::Arrive, .. } if state == ARRIVED => Some((
                    Rule::ClusterWaited,
                    Confidence::Likely,
                    "barrier.cluster.arrive for the second time, with no wait between",
                    "every path to this line has arrived already and not waited",
                )),
                Operation::Return | Operation::Exit if state == ARRIVED => Some((
                    Rule::ClusterWaitedFor,
                    Confidence::Possible,
                    "leaves the kernel after barrier.cluster.arrive without a wait",
                    "every path to this line has arrived and not waited: shared memory may go while other blocks read it",
                )),
                _ => None,
            };
            if matches!(site.operation, Operation::Return | Operation::Exit) {
                ends |= state;
            }
            if let Some((rule, confidence, message, reasoning)) = found {
                let (message, reasoning) = (message.to_owned(), reasoning.to_owned());
                checks.push(Finding { rule, confidence, line: site.line(), message, reasoning });
            }
            state = step(state, site);
        }
    }
    // What is wrong in other ways leaves arrivals behind too.
    if checks.iter().any(|check| check.rule != Rule::ClusterWaitedFor) {
        return checks;
    }
    let (again, last): (Vec<Finding>, Vec<Finding>) =
        never_waited_for(warps).into_iter().partition(|check| check.rule == Rule::ClusterWaited);
    if !again.is_empty() {
        return again;
    }
    let reasoning = "whoever gets here has arrived as often as nobody has who waits: no thread of the cluster waits for this \
                     arrival, so that the wait is missing, or the arrival does nothing";
    let found = |line: Line| unanswered(line, "barrier.cluster.arrive that no thread waits for", reasoning);
    let for_nobody: Vec<Finding> = for_nobody(graph, ends).into_iter().map(found).collect();
    if !for_nobody.is_empty() {
        return for_nobody;
    }
    // The arrival says more than the exit that it leads to.
    if last.is_empty() { checks } else { last }
}

/// Arrivals that nobody of a warp that makes them waits for: whichever way is taken, another arrival comes next, or the end of the kernel.
/// Where branches meet that arrived elsewhere, the second may be right for some of those who come to it: the first is at fault.
fn never_waited_for(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let mut checks = Vec::new();
    for (index, site) in graph.sites.iter_enumerated() {
        if half(site) != Some(ClusterBarrierAction::Arrive) || is_guarded(site) {
            continue;
        }
        let half_at = |index: &SiteId| graph.sites.get(*index).and_then(half);
        let waits = |next: &Next| next.halves.iter().any(|index| half_at(index) == Some(ClusterBarrierAction::Wait));
        let here = warps.warps_at(index);
        let all = next_halves(warps, index, &here);
        let mut each = here.warps().into_iter().map(|warp| (warp * 32..warp * 32 + 32).collect::<ThreadSet>());
        // Warps that have nothing else to do may leave at once.
        let leaves = |warp: &ThreadSet| Some(next_halves(warps, index, warp)).filter(|next| !waits(next) && next.works);
        let Some(next) = Some(all).filter(|next| !waits(next)).or_else(|| each.find_map(|warp| leaves(&warp))) else {
            continue;
        };
        let second = next.halves.first().and_then(|first| graph.sites.get(*first)).map(Site::line);
        checks.push(match second.filter(|_| !next.ends) {
            Some(second) => Finding {
                rule: Rule::ClusterWaited,
                confidence: Confidence::Likely,
                line: site.line(),
                message: format!("barrier.cluster.arrive with no wait before the next one, at line {}", second.0),
                reasoning: "every way from here leads to another barrier.cluster.arrive, none through a wait"
                    .to_owned(),
            },
            None => unanswered(
                site.line(),
                "barrier.cluster.arrive that some who arrive do not wait for",
                "other threads wait, but no way that is open to these leads to a wait: it is missing, or they let others go on and \
                 need nothing of them, not even that this block's shared memory stays",
            ),
        });
    }
    checks
}

/// What comes next after a half, on all ways that are open to those who run it.
struct Next {
    /// Other halves.
    halves: Vec<SiteId>,
    /// Whether an end of the kernel comes first on some way.
    ends: bool,
    /// Whether anything asynchronous is done, or waited for, on some way there.
    works: bool,
}

fn next_halves(warps: &Warps<'_>, from: SiteId, who: &ThreadSet) -> Next {
    let mut next = Next { halves: Vec::new(), ends: false, works: false };
    let goes = |edge: &Edge| warps.may_go(who, edge.to);
    dataflow::walk(&warps.graph, from, goes, |index, site| {
        let leaves = matches!(site.operation, Operation::Return | Operation::Exit);
        if half(site).is_some() {
            next.halves.push(index);
        }
        next.ends |= leaves;
        next.works |= matches!(
            site.operation,
            Operation::Mbarrier(_) | Operation::Bulk(_) | Operation::Wgmma(_) | Operation::Tcgen05 { .. }
        );
        over((half(site).is_some() || leaves) && !is_guarded(site))
    });
    next.halves.sort_unstable();
    next
}

/// Whether a path is over.
fn over(is_over: bool) -> ControlFlow<()> {
    if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn unanswered(line: Line, message: &str, reasoning: &str) -> Finding {
    let (message, reasoning) = (message.to_owned(), reasoning.to_owned());
    Finding { rule: Rule::ClusterWaitedFor, confidence: Confidence::Likely, line, message, reasoning }
}

/// Arrivals that no thread of any block waits for. All run the same code, and a thread's arrivals are for the phases in their order: an
/// arrival is for nobody where no wait can come after just as many, or where every thread that arrives ends without waiting again.
fn for_nobody(graph: &Graph<'_>, ends: u8) -> Vec<Line> {
    let before = follow(graph, 0u16, 1, count);
    let (mut arrivals, mut waited): (Vec<(SiteId, u16)>, u16) = (Vec::new(), 0);
    for (block, start) in before.iter_enumerated() {
        let mut so_far = *start;
        for (index, site) in graph.sites_of(block) {
            let arrived = (so_far & !MANY) << 1 | so_far & MANY;
            match half(site) {
                Some(ClusterBarrierAction::Arrive) => arrivals.push((index, arrived)),
                Some(ClusterBarrierAction::Wait) => waited |= so_far,
                None => {}
            }
            so_far = count(so_far, site);
        }
    }
    let never_again = ends & ARRIVED != 0 && ends & WAITED == 0;
    let is_last = |index: SiteId| !leads_to_half(graph, index);
    let alone = |&(index, arrived): &(SiteId, u16)| {
        arrived != 0 && (arrived & (waited | MANY) == 0 || never_again && is_last(index))
    };
    let lines = arrivals.iter().filter(|arrival| alone(arrival));
    lines.filter_map(|(index, _)| Some(graph.sites.get(*index)?.line())).collect()
}

/// An access to the shared memory of another block, of a rank that is only known when the kernel runs, after which nothing of the kernel
/// says that it is over: no barrier of the cluster, no arrival at another block, no fence that reaches one. That block may have ended.
pub fn left_early(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    if graph.calls || !graph.complete || warps.cluster == Some(1) {
        return None;
    }
    let remote = |index: SiteId, operand: Operand<'_>| {
        warps.values.root(graph, index, operand) == Some(Root::Mapped) && !warps.values.is_own(graph, index, operand)
    };
    fn address<'a>(site: &Site<'a>) -> Option<Operand<'a>> {
        let is_address = |operand: &Operand<'_>| operand.address().is_some_and(|address| address.base.is_some());
        site.located.instruction.operands().find(is_address)
    }
    let tells = |index: SiteId, site: &Site<'_>| match site.operation {
        Operation::ClusterBarrier { .. } | Operation::Tcgen05 { action: Tcgen05::Commit, .. } => true,
        Operation::Mbarrier(mbarrier) => mbarrier.address.is_some_and(|address| remote(index, address)),
        Operation::Fence { proxy: false } => {
            site.located.instruction.modifiers().any(|word| matches!(word, "cluster" | "gpu" | "sys" | "gl"))
        }
        // What completes on an mbarrier, and what is released.
        _ => {
            let instruction = site.located.instruction;
            instruction.opcode().contains("mbarrier::")
                || instruction.has("release")
                || instruction.has("acq_rel")
                || matches!(site.operation, Operation::Call)
        }
    };
    let touches = |site: &Site<'_>| matches!(site.located.instruction.mnemonic(), "ld" | "st" | "atom" | "red");
    for (index, site) in graph.sites.iter_enumerated().filter(|(_, site)| touches(site)) {
        let Some(operand) = address(site).filter(|operand| remote(index, *operand)) else { continue };
        let is_known = warps.values.rank(graph, index, operand).is_some_and(|rank| rank.constant().is_some());
        if is_known || warps.at(index).is_empty() {
            continue;
        }
        let mut is_told = tells(index, site);
        dataflow::walk(
            graph,
            index,
            |_| true,
            |index, other| {
                is_told |= tells(index, other);
                over(is_told)
            },
        );
        if !is_told {
            return Some(Finding {
                rule: Rule::PeerRuns,
                confidence: Confidence::Likely,
                line: site.line(),
                message: "touches the shared memory of another block, which may have ended".to_owned(),
                reasoning:
                    "no way from here comes to a barrier of the cluster, or tells the other block that it may end: \
                            barrier.cluster.arrive and .wait before the end of the kernel"
                        .to_owned(),
            });
        }
    }
    None
}

/// Whether any path leads on to another half.
fn leads_to_half(graph: &Graph<'_>, from: SiteId) -> bool {
    let mut found = false;
    dataflow::walk(
        graph,
        from,
        |_| true,
        |_, site| {
            found |= half(site).is_some();
            over(found)
        },
    );
    found
}
