//! Dominators: which block every path to a block goes through.
//!
//! Lengauer and Tarjan's algorithm with path compression, all of it iterative: O(edges · log blocks) on any graph.

use super::{BlockId, Lists};
use crate::base::{Id, IndexVec};

const NONE: u32 = u32::MAX;

/// The dominator forest of a graph: one tree for each entry, entries having no dominator.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// Immediate dominator by block; `NONE` for roots and unreachable blocks.
    parent: IndexVec<BlockId, u32>,
    /// When a walk of the forest enters and leaves each block, for constant-time questions.
    enter: IndexVec<BlockId, u32>,
    leave: IndexVec<BlockId, u32>,
}

impl Dominators {
    /// Finds the dominators of every reachable block: of so many, where they are entered, and what follows each.
    pub fn of_graph<'s>(n: usize, roots: &'s [BlockId], successors: &dyn Fn(BlockId) -> &'s [BlockId]) -> Dominators {
        let root = n as u32;
        let edges = (0..root).map(BlockId).flat_map(|from| successors(from).iter().map(move |&to| (to, from)));
        let predecessors = Lists::from_pairs(n, edges);
        // Depth-first numbering from a virtual root whose successors are the entries.
        let succ = |v: u32| if v == root { roots } else { successors(BlockId(v)) };
        let mut number = vec![NONE; n + 1];
        let mut vertex: Vec<u32> = Vec::with_capacity(n + 1);
        let mut tree_parent = vec![NONE; n + 1];
        let mut stack: Vec<(u32, u32)> = vec![(root, 0)];
        number[n] = 0;
        vertex.push(root);
        while let Some((v, next)) = stack.last_mut() {
            let Some(&BlockId(w)) = succ(*v).get(*next as usize) else {
                stack.pop();
                continue;
            };
            *next += 1;
            if number[w as usize] == NONE {
                number[w as usize] = vertex.len() as u32;
                tree_parent[w as usize] = *v;
                vertex.push(w);
                stack.push((w, 0));
            }
        }

        let mut semi: Vec<u32> = number.clone();
        let mut best: Vec<u32> = (0..=root).collect();
        let mut ancestor = vec![NONE; n + 1];
        let mut idom = vec![NONE; n + 1];
        let mut bucket_head = vec![NONE; n + 1];
        let mut bucket_next = vec![NONE; n + 1];
        let mut is_root = vec![false; n];
        for r in roots {
            is_root[r.index()] = true;
        }
        let mut path: Vec<u32> = Vec::new();
        let mut eval = |v: u32, ancestor: &mut [u32], best: &mut [u32], semi: &[u32]| -> u32 {
            if ancestor[v as usize] == NONE {
                return v;
            }
            path.clear();
            let mut at = v;
            while ancestor[ancestor[at as usize] as usize] != NONE {
                path.push(at);
                at = ancestor[at as usize];
            }
            while let Some(at) = path.pop() {
                let up = ancestor[at as usize];
                if semi[best[up as usize] as usize] < semi[best[at as usize] as usize] {
                    best[at as usize] = best[up as usize];
                }
                ancestor[at as usize] = ancestor[up as usize];
            }
            best[v as usize]
        };
        for i in (1..vertex.len()).rev() {
            let w = vertex[i];
            let p = tree_parent[w as usize];
            if is_root[w as usize] {
                semi[w as usize] = 0;
            }
            for &BlockId(v) in predecessors.get(BlockId(w)) {
                if number[v as usize] == NONE {
                    continue;
                }
                let u = eval(v, &mut ancestor, &mut best, &semi);
                semi[w as usize] = semi[w as usize].min(semi[u as usize]);
            }
            let s = vertex[semi[w as usize] as usize];
            bucket_next[w as usize] = bucket_head[s as usize];
            bucket_head[s as usize] = w;
            ancestor[w as usize] = p;
            let mut v = std::mem::replace(&mut bucket_head[p as usize], NONE);
            while v != NONE {
                let u = eval(v, &mut ancestor, &mut best, &semi);
                idom[v as usize] = if semi[u as usize] < semi[v as usize] { u } else { p };
                v = bucket_next[v as usize];
            }
        }
        for &w in vertex.iter().skip(1) {
            if idom[w as usize] != vertex[semi[w as usize] as usize] {
                idom[w as usize] = idom[idom[w as usize] as usize];
            }
        }

        let parent: Vec<u32> = idom[..n].iter().map(|&p| if p == root { NONE } else { p }).collect();
        let (enter, leave) = intervals(&parent, &vertex, n);
        Dominators { parent: parent.into(), enter: enter.into(), leave: leave.into() }
    }

    /// The last block before `block` on every path to it; `None` for entries and unreachable blocks.
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        self.parent.get(block).filter(|&&p| p != NONE).map(|&p| BlockId(p))
    }

    /// Whether every path to `b` goes through `a`; a block dominates itself. Unreachable blocks dominate nothing else.
    pub fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        let (Some(&a_in), Some(&a_out)) = (self.enter.get(a), self.leave.get(a)) else {
            return false;
        };
        a == b || self.enter.get(b).is_some_and(|&b_in| b_in != NONE && a_in < b_in && b_in <= a_out)
    }
}

/// Preorder numbers and the last number of each subtree. `vertex` lists parents before children.
fn intervals(parent: &[u32], vertex: &[u32], n: usize) -> (Vec<u32>, Vec<u32>) {
    let mut size = vec![1u32; n];
    for &v in vertex.iter().skip(1).rev() {
        let p = parent[v as usize];
        if p != NONE {
            size[p as usize] += size[v as usize];
        }
    }
    let mut enter = vec![NONE; n];
    let mut leave = vec![NONE; n];
    let mut next = vec![0u32; n];
    let mut forest = 0;
    for &v in vertex.iter().skip(1) {
        let p = parent[v as usize];
        let at = if p == NONE { &mut forest } else { &mut next[p as usize] };
        let start = *at;
        *at += size[v as usize];
        enter[v as usize] = start;
        leave[v as usize] = start + size[v as usize] - 1;
        next[v as usize] = start + 1;
    }
    (enter, leave)
}
