//! Loops and how they nest, irreducible ones included.
//!
//! Havlak's loop nesting forest with Ramalingam's change: forward and cross edges are set aside and come back at the nearest common
//! ancestor of their ends, so that the work stays almost linear whatever the graph looks like.

use super::BlockId;
use crate::base::{Id, IndexVec, dense_id};

const NONE: u32 = u32::MAX;

/// Index of a loop in [`Loops::loops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(pub u32);

dense_id!(LoopId);

/// A loop: a header and the blocks that lead back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The block that control comes back to.
    pub header: BlockId,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Whether control may enter it elsewhere than at the header.
    pub irreducible: bool,
}

/// The loops of a graph.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// By position of the header.
    pub loops: IndexVec<LoopId, Loop>,
    innermost: IndexVec<BlockId, Option<LoopId>>,
}

impl Loops {
    /// Those of a graph: so many blocks, where it is entered, and what follows each.
    pub fn of_graph<'s>(blocks: usize, entries: &[BlockId], successors: &dyn Fn(BlockId) -> &'s [BlockId]) -> Loops {
        Forest::new(blocks, entries, successors).run()
    }

    /// The innermost loop of a block.
    pub fn of(&self, block: BlockId) -> Option<LoopId> {
        self.innermost.get(block).copied().flatten()
    }

    /// The loops around a block, the innermost first.
    pub fn around(&self, block: BlockId) -> impl Iterator<Item = LoopId> {
        std::iter::successors(self.of(block), |id| self.loops.get(*id)?.parent)
    }

    /// Loops, each before the one around it: what is known of a loop is handed on from inside out in one pass.
    pub fn inner_first(&self) -> Vec<LoopId> {
        let mut all: Vec<LoopId> = self.loops.ids().collect();
        all.sort_by_key(|id| std::cmp::Reverse(self.loops.get(*id).map_or(0, |found| found.depth)));
        all
    }

    /// The loop around one.
    pub fn parent(&self, id: LoopId) -> Option<LoopId> {
        self.loops.get(id)?.parent
    }

    /// How many loops a block is in.
    pub fn depth(&self, block: BlockId) -> u32 {
        self.of(block).and_then(|l| self.loops.get(l)).map_or(0, |l| l.depth)
    }
}

/// Disjoint sets with path halving.
struct Sets(Vec<u32>);

impl Sets {
    fn find(&mut self, mut v: u32) -> u32 {
        while self.0[v as usize] != v {
            self.0[v as usize] = self.0[self.0[v as usize] as usize];
            v = self.0[v as usize];
        }
        v
    }
}

struct Forest {
    /// Blocks in preorder of the depth-first walk.
    preorder: Vec<u32>,
    tree_parent: Vec<u32>,
    /// Back edges, as linked lists of their sources by header.
    back: Vec<Vec<u32>>,
    /// Forward and cross edges by nearest common ancestor.
    aside: Vec<Vec<(u32, u32)>>,
}

impl Forest {
    fn new<'s>(n: usize, entries: &[BlockId], successors: &dyn Fn(BlockId) -> &'s [BlockId]) -> Forest {
        let mut forest = Forest {
            preorder: Vec::with_capacity(n),
            tree_parent: vec![NONE; n],
            back: vec![Vec::new(); n],
            aside: vec![Vec::new(); n],
        };
        let mut number = vec![NONE; n];
        let mut finished = vec![false; n];
        // Tarjan's offline nearest common ancestors: a finished block joins its parent's set.
        let mut sets = Sets((0..n as u32).collect());
        let mut tree = vec![NONE; n];
        let mut stack: Vec<(u32, u32)> = Vec::new();
        for &BlockId(root) in entries {
            if number[root as usize] != NONE {
                continue;
            }
            number[root as usize] = forest.preorder.len() as u32;
            forest.preorder.push(root);
            tree[root as usize] = root;
            stack.push((root, 0));
            while let Some(&mut (v, ref mut next)) = stack.last_mut() {
                let Some(&BlockId(w)) = successors(BlockId(v)).get(*next as usize) else {
                    finished[v as usize] = true;
                    stack.pop();
                    if let Some(&(parent, _)) = stack.last() {
                        sets.0[v as usize] = parent;
                    }
                    continue;
                };
                *next += 1;
                if number[w as usize] == NONE {
                    number[w as usize] = forest.preorder.len() as u32;
                    forest.preorder.push(w);
                    forest.tree_parent[w as usize] = v;
                    tree[w as usize] = root;
                    stack.push((w, 0));
                } else if !finished[w as usize] {
                    forest.back[w as usize].push(v);
                } else if number[w as usize] > number[v as usize] {
                    forest.aside[v as usize].push((v, w));
                } else if tree[w as usize] == root {
                    let ancestor = sets.find(w);
                    forest.aside[ancestor as usize].push((v, w));
                }
            }
        }
        forest
    }

    fn run(mut self) -> Loops {
        let n = self.tree_parent.len();
        let mut sets = Sets((0..n as u32).collect());
        let mut header = vec![NONE; n];
        let mut is_header = vec![false; n];
        let mut irreducible = vec![false; n];
        let mut extra: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut in_body = vec![NONE; n];
        for &w in self.preorder.iter().rev() {
            for (y, z) in std::mem::take(&mut self.aside[w as usize]) {
                let (from, to) = (sets.find(y), sets.find(z));
                if from != to {
                    extra[to as usize].push(from);
                }
                // The edge enters the loops around `z` that it does not come from, other than at their headers.
                let mut inner = z;
                while inner != to && header[inner as usize] != NONE {
                    inner = header[inner as usize];
                    if std::mem::replace(&mut irreducible[inner as usize], true) {
                        break;
                    }
                }
            }
            let latches = std::mem::take(&mut self.back[w as usize]);
            if latches.is_empty() {
                continue;
            }
            is_header[w as usize] = true;
            let mut body: Vec<u32> = Vec::new();
            let mut add = |v: u32, sets: &mut Sets, body: &mut Vec<u32>| {
                let v = sets.find(v);
                if v != w && std::mem::replace(&mut in_body[v as usize], w) != w {
                    body.push(v);
                }
            };
            for latch in latches {
                add(latch, &mut sets, &mut body);
            }
            let mut at = 0;
            while let Some(&x) = body.get(at) {
                at += 1;
                if self.tree_parent[x as usize] != NONE {
                    add(self.tree_parent[x as usize], &mut sets, &mut body);
                }
                for y in std::mem::take(&mut extra[x as usize]) {
                    add(y, &mut sets, &mut body);
                }
            }
            for x in body {
                header[x as usize] = w;
                sets.0[x as usize] = w;
            }
        }

        let mut loops = Loops { loops: IndexVec::default(), innermost: IndexVec::filled(None, n) };
        let mut id = vec![None; n];
        for block in (0..n).filter(|&b| is_header[b]) {
            id[block] = Some(loops.loops.push(Loop {
                header: BlockId::new(block),
                parent: None,
                depth: 1,
                irreducible: irreducible[block],
            }));
        }
        // Preorder has a loop's header before the headers inside it, so that depths can be added up.
        for &w in &self.preorder {
            let around = (header[w as usize] != NONE).then(|| id[header[w as usize] as usize]).flatten();
            loops.innermost[BlockId(w)] = id[w as usize].or(around);
            if let (Some(own), Some(parent)) = (id[w as usize], around) {
                loops.loops[own].parent = Some(parent);
                loops.loops[own].depth = loops.loops[parent].depth + 1;
            }
        }
        loops
    }
}
