//! A new baseline from an old one and what was measured.

use super::baseline::Baseline;
use super::check::Scope;
use super::figures::{KernelFigures, Measured, UnitFigures};
use super::pairing;
use crate::compare::Pair;

/// What `--update` writes. Units and kernels that the run did not look at stay as they were; one whose figures did not
/// change stays too, with the digest of the input it was recorded from, so that the file changes only where figures do.
pub fn update(baseline: &Baseline, measured: &[Measured], scope: &Scope<'_>) -> Baseline {
    let before: Vec<&UnitFigures> = baseline.units.iter().collect();
    let after: Vec<&UnitFigures> = measured.iter().map(|measured| &measured.unit).collect();
    let mut units = Vec::new();
    for Pair { before: old, after: new, .. } in pairing::units(&before, &after) {
        let (old, new) = (old.and_then(|at| before.get(at)).copied(), new.and_then(|at| after.get(at)).copied());
        match (old, new) {
            (Some(old), Some(new)) => units.push(merge(old, new, scope)),
            (None, Some(new)) => units.push(merge(&UnitFigures::default(), new, scope)),
            (Some(old), None) => {
                // Asked to record some kernels only, nothing else is forgotten.
                if !scope.kernels.is_empty() || scope.excuse(old, measured).is_some() {
                    units.push(old.clone());
                }
            }
            (None, None) => {}
        }
    }
    units.sort_by(|a, b| (&a.input, &a.arch, &a.ptxas).cmp(&(&b.input, &b.arch, &b.ptxas)));
    Baseline { units }
}

fn merge(old: &UnitFigures, new: &UnitFigures, scope: &Scope<'_>) -> UnitFigures {
    let mut unit = new.clone();
    if !scope.kernels.is_empty() {
        unit.kernels.retain(|kernel| scope.has(kernel));
        let kept = old.kernels.iter().filter(|kernel| !scope.has(kernel)).cloned();
        unit.kernels.extend(kept);
        unit.kernels.sort_by(|a, b| (&a.name, &a.within).cmp(&(&b.name, &b.within)));
        unit.advisories = if old.input.is_empty() { unit.advisories } else { old.advisories.clone() };
    }
    let source = old.source.clone();
    let same = UnitFigures { source: unit.source.clone(), ..old.clone() } == unit;
    if same && source.is_some() { old.clone() } else { unit }
}

/// The kernels whose lines differ between two baselines: how many are changed, new and gone.
pub fn changes(before: &Baseline, after: &Baseline) -> (usize, usize, usize) {
    let key = |unit: &UnitFigures, kernel: &KernelFigures| {
        (unit.input.clone(), unit.arch.clone(), unit.ptxas.clone(), kernel.name.clone(), kernel.within.clone())
    };
    let all = |baseline: &Baseline| -> std::collections::BTreeMap<_, _> {
        let units = baseline.units.iter();
        units.flat_map(|unit| unit.kernels.iter().map(move |kernel| (key(unit, kernel), kernel.clone()))).collect()
    };
    let (old, new) = (all(before), all(after));
    let changed = new.iter().filter(|(key, kernel)| old.get(*key).is_some_and(|old| old != *kernel)).count();
    let added = new.keys().filter(|key| !old.contains_key(*key)).count();
    let gone = old.keys().filter(|key| !new.contains_key(*key)).count();
    (changed, added, gone)
}
