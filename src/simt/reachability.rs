//! The threads that may reach each block.

use std::fmt;

use crate::base::{IndexVec, work};
use crate::ptx::Operation;
use crate::simt::eval::value::Value;
use crate::simt::graph::{Block, Edge, Graph};
use crate::simt::{BlockId, BlockSize, Values};

const WORDS: usize = BlockSize::MAX as usize / 64;

/// A set of threads of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadSet([u64; WORDS]);

impl ThreadSet {
    /// None.
    pub const EMPTY: ThreadSet = ThreadSet([0; WORDS]);

    /// The first so many.
    pub fn first(count: u32) -> ThreadSet {
        let mut set = ThreadSet::EMPTY;
        for (at, word) in (0u32..).zip(&mut set.0) {
            let here = count.saturating_sub(at * 64).min(64);
            *word = if here == 64 { u64::MAX } else { (1 << here) - 1 };
        }
        set
    }

    /// How many.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Whether some are in another too.
    pub fn meets(&self, other: &ThreadSet) -> bool {
        work::spend(1);
        self.0.iter().zip(&other.0).fold(0, |all, (word, other)| all | word & other) != 0
    }

    /// Whether a thread is in it.
    pub fn has(&self, thread: u32) -> bool {
        self.0.get(thread as usize / 64).is_some_and(|word| word >> (thread % 64) & 1 == 1)
    }

    /// Those in either.
    pub fn union(mut self, other: &ThreadSet) -> ThreadSet {
        work::spend(1);
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }

    /// Those in both.
    pub fn intersection(mut self, other: &ThreadSet) -> ThreadSet {
        work::spend(1);
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Those that are not in another.
    pub fn without(mut self, other: &ThreadSet) -> ThreadSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Whether all of them are in another.
    pub fn within(&self, other: &ThreadSet) -> bool {
        work::spend(1);
        self.0.iter().zip(&other.0).fold(0, |all, (word, other)| all | word & !other) == 0
    }

    /// Its threads, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.0).flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.checked_sub(1)?;
                Some(at * 64 + bit)
            })
        })
    }

    /// Those of a set for whose number something holds; without a number it does.
    pub fn holding<T>(mut self, numbers: &[T], holds: impl Fn(&T) -> bool) -> ThreadSet {
        work::spend_on(numbers.len() / 16);
        for (word, numbers) in self.0.iter_mut().zip(numbers.chunks(64)).filter(|(word, _)| **word != 0) {
            let none = numbers.iter().enumerate().fold(0, |all, (at, number)| all | u64::from(!holds(number)) << at);
            *word &= !none;
        }
        self
    }

    /// The warps that have a thread in it, ascending.
    pub fn warps(&self) -> Vec<u32> {
        (0..BlockSize::MAX / 32)
            .filter(|warp| {
                self.0.get(*warp as usize / 2).is_some_and(|word| word >> (warp % 2 * 32) & 0xffff_ffff != 0)
            })
            .collect()
    }

    /// All threads of every warp that has one in it.
    pub fn whole_warps(mut self) -> ThreadSet {
        for word in &mut self.0 {
            let half = |bits: u64| if *word & bits == 0 { 0 } else { bits };
            *word = half(0xffff_ffff) | half(0xffff_ffff << 32);
        }
        self
    }

    /// The lowest thread of each warp that has one in it.
    pub fn one_a_warp(&self) -> ThreadSet {
        self.warps()
            .into_iter()
            .filter_map(|warp| (warp * 32..warp * 32 + 32).find(|&thread| self.has(thread)))
            .collect()
    }
}

impl FromIterator<u32> for ThreadSet {
    fn from_iter<I: IntoIterator<Item = u32>>(threads: I) -> ThreadSet {
        let mut set = ThreadSet::EMPTY;
        for thread in threads {
            if let Some(word) = set.0.get_mut(thread as usize / 64) {
                *word |= 1 << (thread % 64);
            }
        }
        set
    }
}

impl fmt::Debug for ThreadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads of warps {:?}", self.len(), self.warps())
    }
}

/// Who may reach which block.
pub struct Reach {
    blocks: IndexVec<BlockId, ThreadSet>,
}

impl Reach {
    /// Sends all threads from the first block along the ways that are open to them. Without a number of threads a single one
    /// stands for all.
    pub fn solve(graph: &Graph<'_>, values: &Values, threads: Option<u32>) -> Reach {
        let mut reach = Reach { blocks: IndexVec::filled(ThreadSet::EMPTY, graph.blocks.len()) };
        let all = ThreadSet::first(threads.unwrap_or(1));
        let mut open: Vec<BlockId> = Vec::new();
        if let Some(first) = reach.blocks.get_mut(Graph::ENTRY) {
            *first = all;
            open.push(Graph::ENTRY);
        }
        while let Some(at) = open.pop() {
            work::spend(1);
            let here = reach.block(at);
            let Some(block) = graph.blocks.get(at) else { continue };
            for edge in &block.successors {
                let going = passing(graph, values, block, edge, here);
                let Some(there) = reach.blocks.get_mut(edge.to) else { continue };
                let met = there.union(&going);
                if met != *there {
                    *there = met;
                    open.push(edge.to);
                }
            }
        }
        reach
    }

    /// The threads that may reach a block.
    pub fn block(&self, block: BlockId) -> ThreadSet {
        self.blocks.get(block).copied().unwrap_or(ThreadSet::EMPTY)
    }

    /// Whether some of a set may reach a block.
    pub fn is_reached(&self, block: BlockId, by: &ThreadSet) -> bool {
        self.blocks.get(block).is_some_and(|here| here.meets(by))
    }

    /// The threads that may leave a block by one of its ways.
    pub(in crate::simt) fn along(&self, graph: &Graph<'_>, values: &Values, block: BlockId, way: usize) -> ThreadSet {
        let Some(info) = graph.blocks.get(block) else { return ThreadSet::EMPTY };
        let Some(edge) = info.successors.get(way) else { return ThreadSet::EMPTY };
        passing(graph, values, info, edge, self.block(block))
    }
}

/// Those of a set at the end of a block that may go along a way out of it.
pub fn passing(graph: &Graph<'_>, values: &Values, block: &Block, edge: &Edge, set: ThreadSet) -> ThreadSet {
    work::spend(1);
    let last = block.last();
    let set = match edge.when {
        Some((register, value)) => split(set, values.at(last, register), value),
        None => set,
    };
    let index = match (edge.case, graph.sites.get(last).map(|site| site.operation)) {
        (Some(case), Some(Operation::IndexedBranch { index: Some(index), .. })) => Some((case, index)),
        _ => None,
    };
    let Some((case, index)) = index else { return set };
    match values.operand(graph, last, index) {
        Value::Constant(value) if value != u64::from(case) => ThreadSet::EMPTY,
        Value::Threads { values, elected: false } => chosen(set, &values, case),
        Value::Choice { layers, .. } => {
            layers.iter().fold(ThreadSet::EMPTY, |all, layer| all.union(&chosen(set, layer, case)))
        }
        _ => set,
    }
}

fn chosen(set: ThreadSet, values: &[u64], case: u32) -> ThreadSet {
    set.holding(values, |value| *value == u64::from(case))
}

/// Those of a set for which a predicate may have a value.
pub fn split(set: ThreadSet, predicate: &Value, wanted: bool) -> ThreadSet {
    let holding = |values: &[u64]| set.holding(values, |value| (value & 1 == 1) == wanted);
    match predicate {
        Value::Constant(value) if (value & 1 == 1) == wanted => set,
        Value::Constant(_) => ThreadSet::EMPTY,
        Value::Threads { values, elected } => {
            let split = holding(values);
            // Whoever is elected is one of those that are here.
            if *elected && split.is_empty() { set.one_a_warp() } else { split }
        }
        Value::Choice { layers, .. } => layers.iter().fold(ThreadSet::EMPTY, |all, layer| all.union(&holding(layer))),
        _ => set,
    }
}
