//! Which element of one sequence is which of another.

use std::collections::HashMap;
use std::hash::Hash;

use crate::base::work;

/// Gaps up to this product of lengths are aligned by the longest common subsequence; larger ones where nothing is unique, window by window.
const CELLS: usize = 1 << 20;
/// Elements of a side in such a window.
const WINDOW: usize = 256;
/// How much all gaps together may take: this, and so much for each element. Sequences that are alike take little of it. What is left
/// beyond counts as different.
const MOST: usize = 1 << 25;
const MOST_EACH: usize = 32;
/// To look an element up takes as long as this many cells of a table.
const LOOK_UP: usize = 16;

/// Pairs of equal elements, ascending on both sides. What both sides have once is matched first, the gaps between by the longest
/// common subsequence. The same input gives the same pairs; time and memory are bounded by the lengths.
pub fn align<T: Eq + Hash>(before: &[T], after: &[T]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut left = MOST.saturating_add((before.len() + after.len()).saturating_mul(MOST_EACH));
    let mut afford = |cost: usize| left.checked_sub(cost).map(|rest| left = rest).is_some();
    let mut gaps = vec![(0, before.len(), 0, after.len())];
    while let Some((mut b0, mut b1, mut a0, mut a1)) = gaps.pop() {
        while b0 < b1 && a0 < a1 && before[b0] == after[a0] {
            work::tick();
            pairs.push((b0, a0));
            (b0, a0) = (b0 + 1, a0 + 1);
        }
        while b0 < b1 && a0 < a1 && before[b1 - 1] == after[a1 - 1] {
            (b1, a1) = (b1 - 1, a1 - 1);
            pairs.push((b1, a1));
        }
        if b0 == b1 || a0 == a1 {
            continue;
        }
        let (from, to) = (&before[b0..b1], &after[a0..a1]);
        work::check_time();
        // Each element that splits a gap may leave all the others to be looked up again.
        let looked_up = afford((from.len() + to.len()).saturating_mul(LOOK_UP));
        let anchors = if looked_up { ascending(&unique(from, to)) } else { Vec::new() };
        if anchors.is_empty() {
            let cells = from.len().saturating_mul(to.len());
            let found = match cells {
                0..=CELLS if afford(cells) => longest(from, to),
                _ => in_windows(from, to, &mut afford),
            };
            pairs.extend(found.into_iter().map(|(b, a)| (b0 + b, a0 + a)));
            continue;
        }
        let (mut b, mut a) = (b0, a0);
        for (anchor_b, anchor_a) in anchors {
            pairs.push((b0 + anchor_b, a0 + anchor_a));
            gaps.push((b, b0 + anchor_b, a, a0 + anchor_a));
            (b, a) = (b0 + anchor_b + 1, a0 + anchor_a + 1);
        }
        gaps.push((b, b1, a, a1));
    }
    pairs.sort_unstable();
    pairs
}

/// Aligns what is equal from the start, then the window behind it, and goes on behind the last pair found there.
fn in_windows<T: Eq>(before: &[T], after: &[T], afford: &mut impl FnMut(usize) -> bool) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut b, mut a) = (0, 0);
    loop {
        work::tick();
        while b < before.len() && a < after.len() && before[b] == after[a] {
            pairs.push((b, a));
            (b, a) = (b + 1, a + 1);
        }
        let (from, to) = (&before[b..before.len().min(b + WINDOW)], &after[a..after.len().min(a + WINDOW)]);
        if from.is_empty() || to.is_empty() || !afford(WINDOW * WINDOW) {
            return pairs;
        }
        let found = longest(from, to);
        pairs.extend(found.iter().map(|(from, to)| (b + from, a + to)));
        let (last_b, last_a) = found.last().map_or((from.len(), to.len()), |(from, to)| (from + 1, to + 1));
        (b, a) = (b + last_b, a + last_a);
    }
}

/// Pairs of elements that both sides have exactly once, by the place in the first.
fn unique<T: Eq + Hash>(before: &[T], after: &[T]) -> Vec<(usize, usize)> {
    let (before, mut after) = (once(before), once(after));
    let mut pairs: Vec<(usize, usize)> =
        before.into_iter().filter_map(|(element, at)| Some((at, after.remove(element)?))).collect();
    pairs.sort_unstable();
    pairs
}

/// The elements that are there exactly once, with their places.
fn once<T: Eq + Hash>(side: &[T]) -> HashMap<&T, usize> {
    let mut seen: HashMap<&T, (usize, usize)> = HashMap::with_capacity(side.len());
    for (at, element) in side.iter().enumerate() {
        seen.entry(element).or_insert((at, 0)).1 += 1;
    }
    seen.into_iter().filter(|(_, (_, count))| *count == 1).map(|(element, (at, _))| (element, at)).collect()
}

/// The longest run of pairs that ascends on both sides.
fn ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // tails[n]: the pair that ends the ascending run of n + 1 with the smallest second place.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, pair) in pairs.iter().enumerate() {
        let length = tails.partition_point(|&tail| pairs[tail].1 < pair.1);
        before[at] = length.checked_sub(1).map(|previous| tails[previous]);
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let mut run = Vec::new();
    let mut next = tails.last().copied();
    while let Some(at) = next {
        run.push(pairs[at]);
        next = before[at];
    }
    run.reverse();
    run
}

/// The longest common subsequence, by the table.
fn longest<T: Eq>(before: &[T], after: &[T]) -> Vec<(usize, usize)> {
    let width = after.len() + 1;
    let mut table = vec![0u32; (before.len() + 1) * width];
    for b in (0..before.len()).rev() {
        for a in (0..after.len()).rev() {
            table[b * width + a] = if before[b] == after[a] {
                table[(b + 1) * width + a + 1] + 1
            } else {
                table[(b + 1) * width + a].max(table[b * width + a + 1])
            };
        }
    }
    let (mut b, mut a, mut pairs) = (0, 0, Vec::new());
    while b < before.len() && a < after.len() {
        if before[b] == after[a] {
            pairs.push((b, a));
            (b, a) = (b + 1, a + 1);
        } else if table[(b + 1) * width + a] >= table[b * width + a + 1] {
            b += 1;
        } else {
            a += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: &str, after: &str) -> String {
        let (before, after): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
        let pairs = align(&before, &after);
        for two in pairs.windows(2) {
            assert!(two[0].0 < two[1].0 && two[0].1 < two[1].1, "{pairs:?}");
        }
        pairs
            .iter()
            .map(|(b, a)| {
                assert_eq!(before[*b], after[*a]);
                before[*b]
            })
            .collect()
    }

    #[test]
    fn what_is_common_is_found() {
        assert_eq!(of("abc", "abc"), "abc");
        assert_eq!(of("abc", "axc"), "ac");
        assert_eq!(of("", "abc"), "");
        assert_eq!(of("aabbaa", "aabba"), "aabba");
        assert_eq!(of("xayazb", "ayaaab"), "ayab");
        assert_eq!(of("abcdefg", "gabcdef"), "abcdef");
        assert_eq!(of("1a2b3a4b5", "1b2a3b4a5"), "12345".chars().collect::<String>());
    }

    #[test]
    fn long_sequences_take_no_time() {
        let before: Vec<u32> = (0..200_000).map(|n| n % 7).collect();
        let mut after = before.clone();
        after.insert(100_000, 99);
        assert_eq!(align(&before, &after).len(), 200_000);
        // Nothing is unique, and little differs.
        for at in (1..200_000).step_by(5000) {
            after[at] = 98;
        }
        assert_eq!(align(&before, &after).len(), 200_000 - 40);
        let other: Vec<u32> = (0..200_000).map(|n| 100 + n % 5).collect();
        assert!(align(&before, &other).is_empty());
    }

    /// What is unique in a gap once the one before it has split it: every split leaves one more, and all but two elements.
    #[test]
    fn gaps_that_are_split_again_and_again_take_no_time() {
        let chain = |filler: u32| -> Vec<u32> {
            let links = (1..50_000).flat_map(|n| [n + 1, filler, n, filler]);
            [1, filler, 0, filler].into_iter().chain(links).collect()
        };
        let (before, after) = (chain(1 << 30), chain(1 << 31));
        let pairs = align(&before, &after);
        assert!(!pairs.is_empty() && pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        // Gaps that are just small enough for a table, one after the other.
        let blocks = |add: u32| -> Vec<u32> {
            (0..200)
                .flat_map(|block| [1000 + block].into_iter().chain((0..1000).map(move |n| (n * n + add) % 7)))
                .collect()
        };
        assert!(align(&blocks(0), &blocks(3)).len() >= 200);
    }
}
