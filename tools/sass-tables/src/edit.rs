//! Differences between token sequences, and putting several of them together.

/// `base[start..end]` becomes `new`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub start: usize,
    pub end: usize,
    pub new: Vec<u32>,
}

/// Tokens with this bit are slots: matching them is worth more than matching a literal.
pub const SLOT: u32 = 0x8000_0000;

/// The edits that turn `base` into `other`: weighted longest common subsequence.
pub fn edits(base: &[u32], other: &[u32]) -> Vec<Edit> {
    let head = base.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = base[head..].iter().rev().zip(other[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&base[head..base.len() - tail], &other[head..other.len() - tail]);
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    let (n, m) = (a.len(), b.len());
    let mut best = vec![0u32; (n + 1) * (m + 1)];
    let at = |i: usize, j: usize| i * (m + 1) + j;
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let mut score = best[at(i + 1, j)].max(best[at(i, j + 1)]);
            if a[i] == b[j] {
                let weight = if a[i] & SLOT != 0 { 16 } else { 3 };
                score = score.max(best[at(i + 1, j + 1)] + weight);
            }
            best[at(i, j)] = score;
        }
    }
    let mut out: Vec<Edit> = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut open: Option<Edit> = None;
    while i < n || j < m {
        let here = best[at(i, j)];
        if i < n && j < m && a[i] == b[j] && here == best[at(i + 1, j + 1)] + if a[i] & SLOT != 0 { 16 } else { 3 } {
            out.extend(open.take());
            i += 1;
            j += 1;
            continue;
        }
        let edit = open.get_or_insert_with(|| Edit { start: head + i, end: head + i, new: Vec::new() });
        if i < n && here == best[at(i + 1, j)] {
            i += 1;
            edit.end = head + i;
        } else {
            edit.new.push(b[j]);
            j += 1;
        }
    }
    out.extend(open);
    out
}

/// For each of `len` tokens of another text the token of the base it is aligned with, where `same` lets the two match.
pub fn align(base: &[u32], len: usize, same: impl Fn(u32, usize) -> bool) -> Vec<Option<u32>> {
    let (n, m) = (base.len(), len);
    let at = |i: usize, j: usize| i * (m + 1) + j;
    let weight = |t: u32| if t & SLOT != 0 { 16 } else { 3 };
    let mut best = vec![0u32; (n + 1) * (m + 1)];
    let mut equal = vec![false; n * m];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let mut score = best[at(i + 1, j)].max(best[at(i, j + 1)]);
            if same(base[i], j) {
                equal[i * m + j] = true;
                score = score.max(best[at(i + 1, j + 1)] + weight(base[i]));
            }
            best[at(i, j)] = score;
        }
    }
    let mut out = vec![None; m];
    let (mut i, mut j) = (0, 0);
    while i < n && j < m {
        let here = best[at(i, j)];
        if equal[i * m + j] && here == best[at(i + 1, j + 1)] + weight(base[i]) {
            out[j] = Some(base[i]);
            i += 1;
            j += 1;
        } else if here == best[at(i + 1, j)] {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

pub enum Merged {
    /// The edits touch different places.
    One(Vec<u32>),
    /// Both insert at the same place: first then second, second then first.
    Either(Vec<u32>, Vec<u32>),
    Conflict,
}

/// Applies two sets of edits of one base at once.
pub fn merge(base: &[u32], first: &[Edit], second: &[Edit]) -> Merged {
    let mut either = false;
    for x in first {
        for y in second {
            if x == y && x.start < x.end && x.new.is_empty() {
                return Merged::Conflict;
            }
            if x.start == x.end && y.start == y.end && x.start == y.start {
                either = true;
            } else if x.start < y.end && y.start < x.end
                || (x.start == x.end && y.start < x.start && x.start < y.end)
                || (y.start == y.end && x.start < y.start && y.start < x.end)
            {
                return Merged::Conflict;
            }
        }
    }
    let apply = |flip: bool| {
        let mut all: Vec<(&Edit, u8)> =
            first.iter().map(|e| (e, u8::from(flip))).chain(second.iter().map(|e| (e, u8::from(!flip)))).collect();
        all.sort_by_key(|(e, order)| (e.start, e.end, *order));
        let mut out = Vec::new();
        let mut at = 0;
        for (edit, _) in all {
            if edit.start > at {
                out.extend_from_slice(&base[at..edit.start]);
            }
            out.extend_from_slice(&edit.new);
            at = at.max(edit.end);
        }
        out.extend_from_slice(&base[at..]);
        out
    };
    if either { Merged::Either(apply(false), apply(true)) } else { Merged::One(apply(false)) }
}
