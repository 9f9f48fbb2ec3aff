//! Paths through a kernel from one instruction, as far as they are open to the warps that run it.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::base::{IndexVec, work};
use crate::simt::{BlockId, SiteId, Warps};

/// Walks back and on from instructions.
#[derive(Clone)]
pub struct Paths<'w, 'a> {
    warps: &'w Warps<'a>,
    /// By block: those that lead to it.
    before: Rc<IndexVec<BlockId, Vec<BlockId>>>,
}

impl<'w, 'a> Paths<'w, 'a> {
    /// Those of a kernel.
    pub fn new(warps: &'w Warps<'a>) -> Paths<'w, 'a> {
        Paths { warps, before: Rc::new(warps.graph.predecessors()) }
    }

    /// The first of some instructions, those in any of several sets, on every way back or on from one.
    pub fn first(&self, from: SiteId, back: bool, stops: &[&BTreeSet<SiteId>]) -> BTreeSet<SiteId> {
        let mut found = BTreeSet::new();
        let graph = &self.warps.graph;
        let Some(home) = graph.sites.get(from).map(|site| site.block) else { return found };
        let who = self.warps.warps_at(from);
        work::spend_on(graph.blocks.len() / 16);
        let mut seen = IndexVec::filled(false, graph.blocks.len());
        let mut open: Vec<(BlockId, bool)> = vec![(home, true)];
        while let Some((block, first)) = open.pop() {
            work::spend(1);
            let Some(info) = graph.blocks.get(block) else { continue };
            let (mut start, mut end) = (info.start, info.end);
            if first && back {
                end = from;
            } else if first {
                start = from.after();
            }
            let within = stops.iter().filter(|_| start < end).map(|stops| stops.range(start..end));
            let stop = if back {
                within.filter_map(|mut stops| stops.next_back()).max()
            } else {
                within.filter_map(|mut stops| stops.next()).min()
            };
            if let Some(stop) = stop {
                found.insert(*stop);
                continue;
            }
            let mut go = |to: BlockId| {
                if self.warps.may_go(&who, to) && !std::mem::replace(seen.get_mut(to).unwrap_or(&mut true), true) {
                    open.push((to, false));
                }
            };
            if back {
                self.before.get(block).into_iter().flatten().for_each(|to| go(*to));
            } else {
                info.successors.iter().for_each(|edge| go(edge.to));
            }
        }
        found
    }
}
