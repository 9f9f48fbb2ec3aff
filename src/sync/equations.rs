//! Bytes that tensor maps decide: whether any sizes of their boxes make every announcement right.
//!
//! Each phase of an mbarrier gives an equation: so many copies by each map bring what was announced. Gaussian elimination over
//! the integers (fraction-free, Bareiss) says whether all of them can hold.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Equation;

/// Boxes of tensor maps are multiples of so many bytes (CUDA driver API, `cuTensorMapEncodeTiled`).
pub const GRAIN: i64 = 16;
/// Equations beyond this many are not looked at: a kernel has a handful of maps, and more kinds of phases say nothing new.
const MOST: usize = 64;

/// The first equation that contradicts those before it, in order.
pub fn contradiction(equations: &BTreeSet<Equation>) -> Option<&Equation> {
    if let Some(uneven) = equations.iter().find(|equation| is_uneven(equation)) {
        return Some(uneven);
    }
    // A row for each map that was eliminated: its coefficients, and the bytes.
    let mut rows: Vec<(u64, BTreeMap<u64, i128>, i128)> = Vec::new();
    for equation in equations.iter().take(MOST) {
        let mut left: BTreeMap<u64, i128> =
            equation.copies.iter().map(|(map, copies)| (*map, i128::from(*copies))).collect();
        let mut right = i128::from(equation.bytes);
        for (pivot, row, bytes) in &rows {
            let Some(factor) = left.get(pivot).copied().filter(|factor| *factor != 0) else { continue };
            let Some(&own) = row.get(pivot) else { continue };
            for value in left.values_mut() {
                *value = value.checked_mul(own)?;
            }
            right = right.checked_mul(own)?;
            for (map, value) in row {
                let slot = left.entry(*map).or_default();
                *slot = slot.checked_sub(value.checked_mul(factor)?)?;
            }
            right = right.checked_sub(bytes.checked_mul(factor)?)?;
        }
        left.retain(|_, value| *value != 0);
        let Some((&pivot, &value)) = left.first_key_value() else {
            if right != 0 {
                return Some(equation);
            }
            continue;
        };
        // One map alone brings a whole number of bytes above none.
        if left.len() == 1 && (right % value != 0 || right / value <= 0) {
            return Some(equation);
        }
        rows.push((pivot, left, right));
    }
    None
}

/// Whether no sizes make an equation right by itself: where each map copies twice, half of the bytes are a multiple of the grain, too.
pub fn is_uneven(equation: &Equation) -> bool {
    let common = equation.copies.iter().fold(0, |common, (_, copies)| gcd(common, i64::from(*copies)));
    equation.bytes % (GRAIN * common.max(1)) != 0
}

fn gcd(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(equations: &[(&[(u64, u32)], i64)]) -> BTreeSet<Equation> {
        equations.iter().map(|(copies, bytes)| Equation { copies: copies.to_vec(), bytes: *bytes }).collect()
    }

    #[test]
    fn sizes_that_fit_all_phases() {
        assert_eq!(
            contradiction(&all(&[(&[(1, 1), (2, 1)], 3072), (&[(1, 1)], 1024), (&[(1, 2), (2, 3)], 8192)])),
            None
        );
        // Nothing tells two maps apart that are always copied by together.
        assert_eq!(contradiction(&all(&[(&[(1, 1), (2, 1)], 3072)])), None);
    }

    #[test]
    fn sizes_that_do_not() {
        assert!(contradiction(&all(&[(&[(1, 1)], 1024), (&[(1, 1)], 2048)])).is_some());
        assert!(
            contradiction(&all(&[(&[(1, 1)], 1024), (&[(1, 1), (2, 1)], 1024)])).is_some(),
            "the other brings none"
        );
        assert!(contradiction(&all(&[(&[(1, 3)], 1024)])).is_some(), "no whole number");
        assert!(contradiction(&all(&[(&[(1, 2), (2, 2)], 49168)])).is_some(), "8 bytes more for each of two blocks");
        assert!(contradiction(&all(&[(&[(1, 2), (2, 1)], 49168)])).is_none());
        let three =
            all(&[(&[(1, 1), (2, 1)], 3072), (&[(1, 1), (3, 1)], 3072), (&[(2, 1), (3, 1)], 4096), (&[(3, 1)], 1024)]);
        assert!(contradiction(&three).is_some());
    }
}
