//! A built library as units: its cubins put together by architecture and ptxas, for their numbers change with every build.

use std::collections::BTreeMap;

use super::figures::{KernelFigures, KernelPlace, Measured};

/// One unit for each architecture and ptxas among the cubins of a library; what could not be measured stays as it is.
/// Kernels that several cubins have alike are one; those that differ are told apart by a number.
pub fn merge(cubins: Vec<Measured>, input: &str, path: &str) -> Vec<Measured> {
    let mut merged: BTreeMap<(String, Option<String>), Measured> = BTreeMap::new();
    let mut failed = Vec::new();
    for mut cubin in cubins {
        cubin.unit.input = input.to_owned();
        cubin.unit.source = None;
        if cubin.error.is_some() {
            failed.push(cubin);
            continue;
        }
        cubin.path = path.to_owned();
        let key = (cubin.unit.arch.clone(), cubin.unit.ptxas.clone());
        match merged.get_mut(&key) {
            None => drop(merged.insert(key, cubin)),
            Some(unit) => {
                unit.unit.not_understood += cubin.unit.not_understood;
                for (code, count) in cubin.unit.advisories {
                    *unit.unit.advisories.entry(code).or_default() += count;
                }
                unit.messages.extend(cubin.messages);
                unit.unit.kernels.extend(cubin.unit.kernels);
                unit.places.extend(cubin.places);
            }
        }
    }
    let units = merged.into_values().filter(|unit| !unit.unit.kernels.is_empty()).map(|mut unit| {
        let kernels = std::mem::take(&mut unit.unit.kernels).into_iter().zip(std::mem::take(&mut unit.places));
        (unit.unit.kernels, unit.places) = told_apart(kernels.collect()).into_iter().unzip();
        unit
    });
    units.chain(failed).collect()
}

fn told_apart(mut kernels: Vec<(KernelFigures, KernelPlace)>) -> Vec<(KernelFigures, KernelPlace)> {
    // Sorting keeps equal names in the order of the library.
    kernels.sort_by(|(a, _), (b, _)| (&a.name, &a.within).cmp(&(&b.name, &b.within)));
    let mut kept: Vec<(KernelFigures, KernelPlace)> = Vec::with_capacity(kernels.len());
    let mut first = 0;
    for (kernel, place) in kernels {
        let same = |other: &KernelFigures| other.name == kernel.name && other.within == kernel.within;
        if !kept.get(first).is_some_and(|(other, _)| same(other)) {
            first = kept.len();
            kept.push((kernel, place));
            continue;
        }
        let alike = |other: &KernelFigures| KernelFigures { name: kernel.name.clone(), ..other.clone() } == kernel;
        if kept.iter().skip(first).any(|(other, _)| alike(other)) {
            continue;
        }
        let number = kept.len() - first + 1;
        kept.push((KernelFigures { name: format!("{} #{number}", kernel.name), ..kernel }, place));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Metric, UnitFigures};

    fn cubin(arch: &str, kernels: &[(&str, u64)]) -> Measured {
        let kernels: Vec<KernelFigures> = kernels
            .iter()
            .map(|(name, registers)| {
                let mut kernel = KernelFigures { name: (*name).to_owned(), ..KernelFigures::default() };
                kernel.figures.set(Metric::Registers, Some(*registers));
                kernel
            })
            .collect();
        let places = kernels.iter().map(|_| KernelPlace::default()).collect();
        let unit = UnitFigures { arch: arch.to_owned(), kernels, ..UnitFigures::default() };
        Measured { unit, places, ..Measured::default() }
    }

    #[test]
    fn cubins_of_one_architecture_are_one_unit() {
        let cubins = vec![
            cubin("sm_90", &[("b", 10), ("a", 20)]),
            cubin("sm_80", &[("a", 8)]),
            cubin("sm_90", &[("a", 20)]),
            cubin("sm_90", &[("a", 30)]),
            cubin("sm_75", &[]),
            Measured { error: Some("cut off".to_owned()), ..Measured::default() },
        ];
        let units = merge(cubins, "lib.so", "build/lib.so");
        let names = |unit: &Measured| unit.unit.kernels.iter().map(|kernel| kernel.name.clone()).collect::<Vec<_>>();
        assert_eq!(units.len(), 3);
        assert_eq!((units[0].unit.arch.as_str(), names(&units[0])), ("sm_80", vec!["a".to_owned()]));
        assert_eq!(names(&units[1]), ["a", "a #2", "b"]);
        assert_eq!(units[1].places.len(), 3);
        assert_eq!(units[1].unit.input, "lib.so");
        assert!(units[2].error.is_some());
    }
}
