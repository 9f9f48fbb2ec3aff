//! Groups of asynchronous work under way at each instruction: the fewest and the most over all paths (a forward dataflow over intervals).
//!
//! A commit makes a group of what was issued, a wait leaves so many under way. The most is widened to no bound where a loop goes on
//! committing; a wait brings the bound back.

use super::model::{GroupKind, GroupsAt, GroupsInFlight};
use crate::base::Line;
use crate::ptx::{Bulk, CpAsync, Operation, Wgmma};
use crate::simt::{BlockId, Site, SiteId, Warps, dataflow};

/// Groups past which a loop is taken to commit without end: no kernel waits for more.
const MANY: u32 = 64;

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    least: u32,
    most: u32,
    open: bool,
}

/// What an instruction does to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Issue,
    Commit,
    /// Leaves so many under way.
    Wait(u32),
    /// `cp.async.wait_all`: what no group has yet, too.
    WaitAll,
}

fn step_of(kind: GroupKind, site: &Site<'_>) -> Option<Step> {
    Some(match (kind, site.operation) {
        (GroupKind::CpAsync, Operation::CpAsync(copy)) => match copy {
            CpAsync::Copy => Step::Issue,
            CpAsync::CommitGroup => Step::Commit,
            CpAsync::WaitGroup(pending) => Step::Wait(pending?),
            CpAsync::WaitAll => Step::WaitAll,
            _ => return None,
        },
        (GroupKind::Bulk, Operation::Bulk(bulk)) => match bulk {
            Bulk::Copy { .. } | Bulk::Reduce { .. } if site.located.instruction.has("bulk_group") => Step::Issue,
            Bulk::CommitGroup => Step::Commit,
            Bulk::WaitGroup { pending, .. } => Step::Wait(pending?),
            _ => return None,
        },
        (GroupKind::Wgmma, Operation::Wgmma(wgmma)) => match wgmma {
            Wgmma::MmaAsync => Step::Issue,
            Wgmma::CommitGroup => Step::Commit,
            Wgmma::WaitGroup(pending) => Step::Wait(pending?),
            _ => return None,
        },
        _ => return None,
    })
}

impl Flight {
    fn after(self, step: Step) -> Flight {
        match step {
            Step::Issue => Flight { open: true, ..self },
            Step::Commit => {
                let more = |groups: u32| groups.saturating_add(1).min(MANY);
                Flight { least: more(self.least), most: more(self.most), open: false }
            }
            Step::Wait(pending) => Flight { least: self.least.min(pending), most: self.most.min(pending), ..self },
            Step::WaitAll => Flight { least: 0, most: 0, open: false },
        }
    }

    fn join(self, other: Flight) -> Flight {
        Flight { least: self.least.min(other.least), most: self.most.max(other.most), open: self.open || other.open }
    }

    /// After an instruction, which a guard may leave out.
    fn through(self, kind: GroupKind, site: &Site<'_>) -> Flight {
        match step_of(kind, site) {
            // Whoever commits or waits does so for itself: lanes that a guard leaves out have nothing under way.
            Some(step @ (Step::Commit | Step::Wait(_) | Step::WaitAll)) => self.after(step),
            Some(step) if site.guard.is_some() => self.join(self.after(step)),
            Some(step) => self.after(step),
            None => self,
        }
    }
}

/// Groups under way, by kind; those that a kernel does not have are left out.
pub(super) fn in_flight(warps: &Warps<'_>, number: &dyn Fn(Line) -> Line) -> Vec<GroupsInFlight> {
    let graph = &warps.graph;
    let kinds = [GroupKind::CpAsync, GroupKind::Bulk, GroupKind::Wgmma];
    let has = |kind: GroupKind| graph.sites.iter().any(|site| step_of(kind, site).is_some());
    let of = |kind: GroupKind| {
        let none = Flight { least: 0, most: 0, open: false };
        let through = |block: BlockId, state: Flight| {
            graph.sites_of(block).fold(state, |state, (_, site)| state.through(kind, site))
        };
        let join = |there: &mut Flight, other: Flight| {
            let joined = there.join(other);
            std::mem::replace(there, joined) != joined
        };
        let before = dataflow::forward(graph, none, through, |_, _, state| Some(*state), join);
        let mut lines: Vec<(SiteId, GroupsAt)> = Vec::new();
        for (block, state) in before.into_iter_enumerated() {
            let Some(mut state) = state else { continue };
            for (index, site) in graph.sites_of(block) {
                state = state.through(kind, site);
                if step_of(kind, site).is_some() {
                    let most = (state.most < MANY).then_some(state.most);
                    let Flight { least, open, .. } = state;
                    lines.push((index, GroupsAt { ptx_line: number(site.line()), least, most, open }));
                }
            }
        }
        lines.sort_by_key(|(index, _)| *index);
        let lines: Vec<GroupsAt> = lines.into_iter().map(|(_, at)| at).collect();
        let most = lines.iter().map(|at| at.most).try_fold(0, |all, most| Some(all.max(most?)));
        GroupsInFlight { kind, most, lines }
    };
    if graph.calls || !graph.complete {
        return Vec::new();
    }
    kinds.into_iter().filter(|kind| has(*kind)).map(of).collect()
}
