//! Which recorded unit and kernel a measured one is: by name, by name less its hashes, by what it looks like.

use super::figures::{KernelFigures, UnitFigures};
use super::metric::Metric;
use crate::compare::{How, Matcher, Pair, without_hashes};

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

#[cfg(test)]
mod tests {
    use super::*;

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
