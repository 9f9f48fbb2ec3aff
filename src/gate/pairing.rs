//! Which recorded unit and kernel a measured one is: by name, by name less its hashes, by what it looks like.

use std::collections::HashMap;

use super::figures::{KernelFigures, UnitFigures};
use super::metric::Metric;

/// How two of a pair were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The same name.
    Name,
    /// The same but for hashes in the name.
    Hashes,
    /// Another name.
    Renamed,
}

/// Indices of a recorded and a measured one; one of them may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub before: Option<usize>,
    pub after: Option<usize>,
    pub how: How,
}

/// Pairs that grow by one criterion after another, each only where it is unique on both sides.
struct Matcher {
    pairs: Vec<Pair>,
    before_free: Vec<bool>,
    after_free: Vec<bool>,
}

impl Matcher {
    fn new(before: usize, after: usize) -> Self {
        Matcher { pairs: Vec::new(), before_free: vec![true; before], after_free: vec![true; after] }
    }

    fn join<K: std::hash::Hash + Eq>(
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

    /// The pairs in the order of the measured ones, then what is only recorded.
    fn finish(mut self) -> Vec<Pair> {
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

/// Pairs units: the same input and architecture, whatever the ptxas where there is only one on each side; then inputs that
/// were moved.
pub(super) fn units(before: &[&UnitFigures], after: &[&UnitFigures]) -> Vec<Pair> {
    let mut matcher = Matcher::new(before.len(), after.len());
    let of = |unit: &UnitFigures| (unit.input.clone(), unit.arch.clone());
    let exact = |unit: &UnitFigures| Some((of(unit), unit.ptxas.clone()));
    matcher.join(How::Name, |at| exact(before[at]), |at| exact(after[at]));
    let release = |unit: &UnitFigures| {
        let version = unit.ptxas.as_deref()?;
        Some((of(unit), version.splitn(3, '.').take(2).map(str::to_owned).collect::<Vec<_>>()))
    };
    matcher.join(How::Name, |at| release(before[at]), |at| release(after[at]));
    matcher.join(How::Name, |at| Some(of(before[at])), |at| Some(of(after[at])));
    let unhashed = |unit: &UnitFigures| Some((without_hashes(&unit.input), unit.arch.clone()));
    matcher.join(How::Hashes, |at| unhashed(before[at]), |at| unhashed(after[at]));
    let moved = |unit: &UnitFigures| {
        let names: Vec<String> = unit.kernels.iter().map(|kernel| kernel.name.clone()).collect();
        let file = unit.input.rsplit('/').next().unwrap_or_default().to_owned();
        (!names.is_empty()).then(|| (without_hashes(&file), unit.arch.clone(), names))
    };
    matcher.join(How::Renamed, |at| moved(before[at]), |at| moved(after[at]));
    matcher.finish()
}

/// Pairs the kernels of a unit.
pub(super) fn kernels(before: &[&KernelFigures], after: &[&KernelFigures]) -> Vec<Pair> {
    let mut matcher = Matcher::new(before.len(), after.len());
    let exact = |kernel: &KernelFigures| Some((kernel.name.clone(), kernel.within.clone()));
    matcher.join(How::Name, |at| exact(before[at]), |at| exact(after[at]));
    let unhashed = |kernel: &KernelFigures| {
        Some((without_hashes(&kernel.demangled()), kernel.within.as_deref().map(without_hashes)))
    };
    matcher.join(How::Hashes, |at| unhashed(before[at]), |at| unhashed(after[at]));
    // The same function with other parameters or template arguments.
    let base = |kernel: &KernelFigures| {
        let name = kernel.demangled();
        let end = name.find(['<', '(']).unwrap_or(name.len());
        Some((name[..end].to_owned(), kernel.within.is_some()))
    };
    matcher.join(How::Renamed, |at| base(before[at]), |at| base(after[at]));
    // The same code under another name: no figure differs, and there is code to tell it by.
    let looks = |kernel: &KernelFigures| {
        let size = kernel.figures.get(Metric::Instructions).filter(|size| *size > 0)?;
        let all: Vec<Option<u64>> = kernel.figures.iter().map(|(_, value)| value).collect();
        Some((size, all, kernel.advisories.clone(), kernel.within.is_some()))
    };
    matcher.join(How::Renamed, |at| looks(before[at]), |at| looks(after[at]));
    matcher.finish()
}

/// A name with the parts that look like hashes left out: eight or more hexadecimal digits with a decimal one among them, or
/// sixteen and more letters and digits of every kind.
fn without_hashes(name: &str) -> String {
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

    fn kernel(name: &str, registers: u64) -> KernelFigures {
        let mut kernel = KernelFigures { name: name.to_owned(), ..KernelFigures::default() };
        kernel.figures.set(Metric::Registers, Some(registers));
        kernel.figures.set(Metric::Instructions, Some(registers * 10));
        kernel
    }

    #[test]
    fn kernels_are_found_again() {
        let before = [
            kernel("same", 10),
            kernel("k_0123abcd", 20),
            kernel("_Z3fooi", 30),
            kernel("old", 40),
            kernel("gone", 50),
        ];
        let after = [
            kernel("same", 11),
            kernel("k_4567cdef", 21),
            kernel("_Z3fool", 31),
            kernel("young", 40),
            kernel("extra", 60),
        ];
        let pairs = kernels(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>());
        let found: Vec<_> = pairs.iter().map(|pair| (pair.before, pair.after, pair.how)).collect();
        assert_eq!(
            found,
            [
                (Some(0), Some(0), How::Name),
                (Some(1), Some(1), How::Hashes),
                (Some(2), Some(2), How::Renamed),
                (Some(3), Some(3), How::Renamed),
                (None, Some(4), How::Name),
                (Some(4), None, How::Name),
            ]
        );
    }

    #[test]
    fn two_candidates_are_none() {
        let before = [kernel("a", 10)];
        let after = [kernel("b", 10), kernel("c", 10)];
        let pairs = kernels(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>());
        assert_eq!(pairs.len(), 3);
    }
}
