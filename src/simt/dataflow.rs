//! Facts along the paths of a kernel: one worklist for every analysis of PTX (Kildall 1973).

use std::ops::ControlFlow;

use super::{BlockId, Edge, Graph, Site, SiteId};
use crate::base::{IndexVec, work};

/// What may hold at the start of each block; none where no path leads. `through` takes it through a block, `along` along an edge
/// of a block (none where nobody goes), `join` adds what another path brings and says whether that is more.
pub fn forward<S: Clone>(
    graph: &Graph<'_>,
    first: S,
    mut through: impl FnMut(BlockId, S) -> S,
    mut along: impl FnMut(BlockId, &Edge, &S) -> Option<S>,
    mut join: impl FnMut(&mut S, S) -> bool,
) -> IndexVec<BlockId, Option<S>> {
    work::spend_on(graph.blocks.len() / 16);
    let mut before: IndexVec<BlockId, Option<S>> = IndexVec::filled(None, graph.blocks.len());
    let mut open = vec![Graph::ENTRY];
    if let Some(start) = before.get_mut(Graph::ENTRY) {
        *start = Some(first);
    }
    while let Some(at) = open.pop() {
        work::spend(1);
        let Some(info) = graph.blocks.get(at) else { continue };
        let Some(state) = before.get(at).cloned().flatten() else { continue };
        let state = through(at, state);
        for edge in &info.successors {
            let Some(going) = along(at, edge, &state) else { continue };
            let changed = match before.get_mut(edge.to) {
                Some(Some(there)) => join(there, going),
                Some(none) => {
                    *none = Some(going);
                    true
                }
                None => false,
            };
            if changed {
                open.push(edge.to);
            }
        }
    }
    before
}

/// The blocks that steps lead to from some: those themselves only where they lead back.
pub fn reached(
    blocks: usize,
    from: impl IntoIterator<Item = BlockId>,
    mut next: impl FnMut(BlockId, &mut Vec<BlockId>),
) -> IndexVec<BlockId, bool> {
    work::spend_on(blocks);
    let mut seen = IndexVec::filled(false, blocks);
    let (mut open, mut ways): (Vec<BlockId>, Vec<BlockId>) = (from.into_iter().collect(), Vec::new());
    while let Some(block) = open.pop() {
        next(block, &mut ways);
        for to in ways.drain(..) {
            if seen.get_mut(to).is_some_and(|seen| !std::mem::replace(seen, true)) {
                open.push(to);
            }
        }
    }
    seen
}

/// Looks at the instructions after one on every path, each block once, until `visit` says that a path is over. `goes` says which edges are
/// taken.
pub fn walk<'a>(
    graph: &Graph<'a>,
    from: SiteId,
    goes: impl Fn(&Edge) -> bool,
    mut visit: impl FnMut(SiteId, &Site<'a>) -> ControlFlow<()>,
) {
    let Some(home) = graph.sites.get(from).map(|site| site.block) else { return };
    work::spend_on(graph.blocks.len() / 16);
    let mut seen = IndexVec::filled(false, graph.blocks.len());
    let mut open = vec![(home, from.after())];
    while let Some((at, first)) = open.pop() {
        work::spend(1);
        let mut sites = graph.sites_of(at).filter(|(index, _)| *index >= first);
        if sites.any(|(index, site)| visit(index, site).is_break()) {
            continue;
        }
        for edge in graph.blocks.get(at).into_iter().flat_map(|block| &block.successors) {
            if goes(edge) && !std::mem::replace(seen.get_mut(edge.to).unwrap_or(&mut true), true) {
                open.push((edge.to, SiteId::FIRST));
            }
        }
    }
}
