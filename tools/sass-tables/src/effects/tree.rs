//! Decision trees over the bits of a word.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::hash::Hash;

/// A tree: tests of single bits, values at the leaves.
#[derive(Clone, Debug, Default)]
pub enum Tree<L> {
    #[default]
    Empty,
    Leaf(L),
    Test {
        bit: u32,
        zero: Box<Tree<L>>,
        one: Box<Tree<L>>,
    },
}

impl<L: Clone + Eq + Hash + Ord> Tree<L> {
    /// A tree that gives every example its value, testing `preferred` bits and only where those do not suffice `allowed` ones.
    pub fn grow(examples: &[(u128, L)], preferred: u128, allowed: u128) -> Tree<L> {
        let mut labels: Vec<&L> = Vec::new();
        let mut ids: HashMap<&L, usize> = HashMap::new();
        let numbered: Vec<(u128, usize)> = examples
            .iter()
            .map(|(word, label)| {
                let id = *ids.entry(label).or_insert_with(|| {
                    labels.push(label);
                    labels.len() - 1
                });
                (*word, id)
            })
            .collect();
        split(&numbered, &labels, preferred, allowed)
    }

    pub fn get(&self, word: u128) -> Option<&L> {
        match self {
            Tree::Empty => None,
            Tree::Leaf(label) => Some(label),
            Tree::Test { bit, zero, one } => {
                if word >> bit & 1 == 1 {
                    one.get(word)
                } else {
                    zero.get(word)
                }
            }
        }
    }

    pub fn bits(&self) -> BTreeSet<u32> {
        match self {
            Tree::Test { bit, zero, one } => {
                let mut bits = zero.bits();
                bits.extend(one.bits());
                bits.insert(*bit);
                bits
            }
            _ => BTreeSet::new(),
        }
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        match self {
            Tree::Empty => 0,
            Tree::Leaf(_) => 1,
            Tree::Test { zero, one, .. } => zero.leaves() + one.leaves(),
        }
    }
}

fn split<L: Clone + Eq + Hash + Ord>(
    examples: &[(u128, usize)],
    labels: &[&L],
    preferred: u128,
    allowed: u128,
) -> Tree<L> {
    let Some(&(_, first)) = examples.first() else { return Tree::Empty };
    if examples.iter().all(|&(_, id)| id == first) {
        return Tree::Leaf(labels[first].clone());
    }
    for mask in [preferred, allowed] {
        let best =
            (0..105).filter(|bit| mask >> bit & 1 == 1).map(|bit| (cost(examples, labels.len(), bit), bit)).min();
        let Some((after, bit)) = best else { continue };
        if after == u64::MAX {
            continue;
        }
        let (ones, zeros): (Vec<_>, Vec<_>) = examples.iter().copied().partition(|(word, _)| word >> bit & 1 == 1);
        return Tree::Test {
            bit,
            zero: Box::new(split(&zeros, labels, preferred, allowed)),
            one: Box::new(split(&ones, labels, preferred, allowed)),
        };
    }
    // Nothing tells them apart: the most frequent one.
    let mut counts = vec![0usize; labels.len()];
    examples.iter().for_each(|&(_, id)| counts[id] += 1);
    let best = (0..labels.len()).max_by_key(|&id| (counts[id], std::cmp::Reverse(id))).unwrap_or(first);
    Tree::Leaf(labels[best].clone())
}

/// Entropy left after a test, in millibits times examples; `MAX` when it separates nothing.
fn cost(examples: &[(u128, usize)], labels: usize, bit: u32) -> u64 {
    let mut counts = [vec![0u32; labels], vec![0u32; labels]];
    let mut totals = [0u32; 2];
    for &(word, id) in examples {
        let side = (word >> bit & 1) as usize;
        counts[side][id] += 1;
        totals[side] += 1;
    }
    if totals.contains(&0) {
        return u64::MAX;
    }
    let mut left = 0.0;
    for side in 0..2 {
        for &count in counts[side].iter().filter(|&&count| count > 0) {
            let count = f64::from(count);
            left -= count * (count / f64::from(totals[side])).log2();
        }
    }
    (left * 1000.0) as u64
}
