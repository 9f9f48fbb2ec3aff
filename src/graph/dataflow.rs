//! A worklist for facts that only grow: nodes in a fixed order, edges that carry facts from node to node.

use super::Lists;
use crate::base::{IndexVec, dense_id};

/// What has a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub u32);

dense_id!(Node);

/// The numbers below `n` that wait, found in order; 64 to a word, four levels of words.
pub(crate) struct Queue {
    levels: Vec<Vec<u64>>,
}

impl Queue {
    /// Nothing waits.
    pub(crate) fn new(n: usize) -> Queue {
        let mut levels = Vec::new();
        let mut size = n.max(1);
        loop {
            size = size.div_ceil(64);
            levels.push(vec![0; size]);
            if size == 1 {
                return Queue { levels };
            }
        }
    }

    /// Puts a number in.
    pub(crate) fn insert(&mut self, n: u32) {
        let mut at = n as usize;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    /// Takes out the first number that is not below `from`.
    pub(crate) fn take_from(&mut self, from: u32) -> Option<u32> {
        let mut at = from as usize;
        let mut depth = 0;
        // Up until a word has something at or after `at`, then down to the first of it.
        loop {
            let level = self.levels.get(depth)?;
            let rest = level.get(at / 64).map_or(0, |word| word & (u64::MAX << (at % 64)));
            if rest != 0 {
                at = at / 64 * 64 + rest.trailing_zeros() as usize;
                break;
            }
            at = at / 64 + 1;
            depth += 1;
        }
        while depth > 0 {
            depth -= 1;
            at = at * 64 + self.levels[depth][at].trailing_zeros() as usize;
        }
        let found = at;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                break;
            }
            at /= 64;
        }
        u32::try_from(found).ok()
    }
}

/// Runs to the fixed point. `ranks[node]` says which node goes first in a sweep, `nodes[rank]` is its inverse. Whenever a node's
/// fact has grown, every edge that `out` lists for it is carried: `carry(edge)` says which node's fact grew by it. Facts of bounded
/// height make this linear in the edges.
pub(crate) fn run(
    nodes: &[Node],
    ranks: &IndexVec<Node, u32>,
    out: &Lists<Node, u32>,
    mut carry: impl FnMut(u32) -> Option<Node>,
) {
    let mut queue = Queue::new(nodes.len());
    (0..nodes.len() as u32).for_each(|rank| queue.insert(rank));
    let mut at = 0;
    loop {
        let Some(rank) = queue.take_from(at).or_else(|| queue.take_from(0)) else { return };
        at = rank + 1;
        for &edge in out.get(nodes[rank as usize]) {
            if let Some(grown) = carry(edge) {
                queue.insert(ranks[grown]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_gives_back_in_order() {
        let mut queue = Queue::new(70_000);
        for n in [69_999, 0, 63, 64, 4096, 4095, 65_536] {
            queue.insert(n);
        }
        assert_eq!(queue.take_from(1), Some(63));
        assert_eq!(queue.take_from(4096), Some(4096));
        let mut rest = Vec::new();
        while let Some(n) = queue.take_from(0) {
            rest.push(n);
        }
        assert_eq!(rest, [0, 64, 4095, 65_536, 69_999]);
        assert_eq!(queue.take_from(70_000), None);
    }
}
