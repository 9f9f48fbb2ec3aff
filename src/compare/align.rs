//! Which element of one sequence is which of another.

use std::collections::HashMap;
use std::hash::Hash;

/// Gaps up to this product of lengths are aligned by the longest common subsequence; in larger ones only what is unique counts.
const CELLS: usize = 1 << 20;

/// Pairs of equal elements, ascending on both sides. What both sides have once is matched first, the gaps between by the longest
/// common subsequence. The same input gives the same pairs; time and memory are bounded by the lengths.
pub fn align<T: Eq + Hash>(before: &[T], after: &[T]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut gaps = vec![(0, before.len(), 0, after.len())];
    while let Some((mut b0, mut b1, mut a0, mut a1)) = gaps.pop() {
        while b0 < b1 && a0 < a1 && before[b0] == after[a0] {
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
        let anchors = ascending(&unique(from, to));
        if anchors.is_empty() {
            if from.len().saturating_mul(to.len()) <= CELLS {
                pairs.extend(longest(from, to).into_iter().map(|(b, a)| (b0 + b, a0 + a)));
            }
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
        let other: Vec<u32> = (0..200_000).map(|n| 100 + n % 5).collect();
        assert!(align(&before, &other).is_empty());
    }
}
