//! Which of these is which of those: one criterion after another.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

/// How two of a pair were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The same name.
    Name,
    /// The same but for hashes in the name.
    Hashes,
    /// Another name, the very same code.
    Code,
    /// Another name.
    Renamed,
}

/// Indices of a recorded and a measured one; one of them may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The recorded one.
    pub before: Option<usize>,
    /// The measured one.
    pub after: Option<usize>,
    /// How they were found.
    pub how: How,
}

/// Pairs that grow by one criterion after another, each only where it is unique on both sides.
pub struct Matcher {
    pairs: Vec<Pair>,
    before_free: Vec<bool>,
    after_free: Vec<bool>,
}

impl Matcher {
    /// For so many on each side.
    pub fn new(before: usize, after: usize) -> Self {
        Matcher { pairs: Vec::new(), before_free: vec![true; before], after_free: vec![true; after] }
    }

    /// Pairs what has the same key, where that is one on each side.
    pub fn join<K: Hash + Eq>(
        &mut self,
        how: How,
        before_key: impl Fn(usize) -> Option<K>,
        after_key: impl Fn(usize) -> Option<K>,
    ) {
        let mut slots: HashMap<K, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for at in (0..self.before_free.len()).filter(|at| self.before_free[*at]) {
            if let Some(key) = before_key(at) {
                slots.entry(key).or_default().0.push(at);
            }
        }
        for at in (0..self.after_free.len()).filter(|at| self.after_free[*at]) {
            if let Some(key) = after_key(at) {
                slots.entry(key).or_default().1.push(at);
            }
        }
        for (before, after) in slots.into_values() {
            if let ([before], [after]) = (&before[..], &after[..]) {
                self.before_free[*before] = false;
                self.after_free[*after] = false;
                self.pairs.push(Pair { before: Some(*before), after: Some(*after), how });
            }
        }
    }

    /// Those of either side that have no other yet.
    pub fn free(&self) -> (Vec<usize>, Vec<usize>) {
        let free = |all: &[bool]| (0..all.len()).filter(|at| all[*at]).collect();
        (free(&self.before_free), free(&self.after_free))
    }

    /// The pairs in the order of the measured ones, then what is only recorded.
    pub fn finish(mut self) -> Vec<Pair> {
        for (at, _) in self.before_free.iter().enumerate().filter(|(_, free)| **free) {
            self.pairs.push(Pair { before: Some(at), after: None, how: How::Name });
        }
        for (at, _) in self.after_free.iter().enumerate().filter(|(_, free)| **free) {
            self.pairs.push(Pair { before: None, after: Some(at), how: How::Name });
        }
        self.pairs.sort_by_key(|pair| (pair.after.is_none(), pair.after, pair.before));
        self.pairs
    }
}

/// A name with the parts that look like hashes left out: eight or more hexadecimal digits with a decimal one among them, or
/// sixteen and more letters and digits of every kind.
pub fn without_hashes(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut part = String::new();
    let flush = |part: &mut String, out: &mut String| {
        out.push_str(if is_hash(part) { "#" } else { part });
        part.clear();
    };
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            part.push(c);
        } else {
            flush(&mut part, &mut out);
            out.push(c);
        }
    }
    flush(&mut part, &mut out);
    out
}

fn is_hash(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    let hexadecimal = part.len() >= 8 && digits > 0 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let upper = part.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = part.bytes().filter(u8::is_ascii_lowercase).count();
    hexadecimal || part.len() >= 16 && digits >= 2 && upper >= 3 && lower >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_left_out_and_nothing_else() {
        for (name, key) in [
            ("gemm_f16", "gemm_f16"),
            ("kernel_1a2b3c4d5e6f", "kernel_#"),
            ("_GLOBAL__N__9a7f3c21_7_file_cu_0badf00d::run", "_GLOBAL__N__#_7_file_cu_#::run"),
            ("/tmp/0123456789abcdef/k.ptx", "/tmp/#/k.ptx"),
            ("dequantize128x256", "dequantize128x256"),
            ("feedface", "feedface"),
            ("f[abi:cw51cXTLSUwv1sCUt9Uww0FEw09RRQPKzLTg]", "f[abi:#]"),
        ] {
            assert_eq!(without_hashes(name), key);
        }
    }
}
