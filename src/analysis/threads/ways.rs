//! Ways through a kernel from one instruction, as far as they are open to the warps that run it.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::Warps;

/// Walks back and on from instructions.
#[derive(Clone)]
pub struct Ways<'w, 'a> {
    warps: &'w Warps<'a>,
    /// By block: those that lead to it.
    before: Rc<[Vec<u32>]>,
}

impl<'w, 'a> Ways<'w, 'a> {
    /// Those of a kernel.
    pub fn new(warps: &'w Warps<'a>) -> Ways<'w, 'a> {
        let graph = &warps.graph;
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); graph.blocks.len()];
        for (at, block) in graph.blocks.iter().enumerate() {
            for edge in &block.successors {
                if let Some(list) = before.get_mut(edge.to as usize) {
                    list.push(at as u32);
                }
            }
        }
        Ways { warps, before: before.into() }
    }

    /// The first of some instructions on every way back or on from one.
    pub fn first(&self, from: usize, back: bool, stops: &dyn Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let graph = &self.warps.graph;
        let Some(home) = graph.sites.get(from).map(|site| site.block) else { return found };
        let who = self.warps.warps_at(from);
        let mut seen = vec![false; graph.blocks.len()];
        let mut open: Vec<(u32, bool)> = vec![(home, true)];
        while let Some((block, first)) = open.pop() {
            let here = graph.sites_of(block).map(|(index, _)| index);
            let here = here.filter(|index| !first || if back { *index < from } else { *index > from });
            let mut here = here.filter(|index| stops(*index));
            if let Some(index) = if back { here.last() } else { here.next() } {
                found.insert(index);
                continue;
            }
            let next: Vec<u32> = match (back, graph.blocks.get(block as usize)) {
                (true, _) => self.before.get(block as usize).cloned().unwrap_or_default(),
                (false, info) => info.into_iter().flat_map(|info| &info.successors).map(|edge| edge.to).collect(),
            };
            for to in next.into_iter().filter(|to| self.warps.may_go(&who, *to)) {
                if !std::mem::replace(seen.get_mut(to as usize).unwrap_or(&mut true), true) {
                    open.push((to, false));
                }
            }
        }
        found
    }
}
