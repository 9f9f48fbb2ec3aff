//! What would mend the conflicts of an array: rows with a gap between them, or a swizzle of its elements. Either is told only where it was
//! evaluated for every access of the array, in every warp.

use std::collections::BTreeMap;

use super::banks::wavefronts;
use super::{Access, AccessFact, AccessSpace, ArrayMend, LANES, Padding, Place, Refusal, Swizzle};
use crate::base::{Line, work};
use crate::ptx::{CpAsync, Operation, StateSpace};
use crate::simt::Warps;

/// Arrays that a mend is looked for.
const MAX_ARRAYS: usize = 8;
/// Accesses of an array that a mend is proven for.
const MAX_ACCESSES: usize = 512;
/// Rows that are tried: from 2^5 bytes, as many as these.
const ROWS: std::ops::RangeInclusive<u32> = 5..=12;
/// Lines that are told of an array.
const MAX_LINES: usize = 64;

/// An access of an array, once for all that differ by what all lanes share.
struct Proof {
    bytes: u32,
    manner: super::banks::Manner,
    /// By warp: lanes and bytes from where the array begins, less what is shared and not known.
    warps: Vec<Vec<(u32, u64)>>,
    /// Bits of what is shared, beside where the array starts, that are 0.
    zeros: u64,
}

/// What would mend each array that has a conflict.
pub(super) fn mends(
    warps: &Warps<'_>,
    all: &[Access<'_>],
    facts: &[AccessFact],
    places: &[Option<Place>],
) -> Vec<ArrayMend> {
    let mut arrays: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.is_worse() && fact.space == AccessSpace::Shared) {
        if let Some(variable) = &fact.variable {
            let lines = arrays.entry(variable).or_default();
            if lines.len() < MAX_LINES && lines.last() != Some(&fact.ptx_line) {
                lines.push(fact.ptx_line);
            }
        }
    }
    let shared = || all.iter().zip(facts).zip(places).filter(|((access, _), _)| access.space == AccessSpace::Shared);
    let found = arrays.into_iter().take(MAX_ARRAYS).map(|(name, lines)| {
        let mut mend =
            ArrayMend { variable: name.to_owned(), lines, proven: 0, padding: None, swizzle: None, refused: None };
        // Whoever goes to a place that is not known may go to this array.
        let own = || shared().filter(|((_, fact), _)| fact.variable.as_deref().is_none_or(|variable| variable == name));
        if own().any(|((_, fact), place)| fact.variable.is_none() || place.is_none() || !fact.is_decided()) {
            mend.refused = Some(Refusal::Undecided);
            return mend;
        }
        if warps.graph.calls || others(warps, name) || own().count() > MAX_ACCESSES {
            mend.refused = Some(Refusal::Others);
            return mend;
        }
        let proofs: Vec<Proof> =
            own().filter_map(|((access, _), place)| Some(proof(access, place.as_ref()?))).collect();
        mend.proven = proofs.len() as u32;
        mend.padding = padding(&proofs);
        mend.swizzle = swizzle(&proofs, own().map(|((access, _), _)| access.element).min().unwrap_or(4));
        if mend.padding.is_none() && mend.swizzle.is_none() {
            (mend.refused, mend.proven) = (Some(Refusal::NoneHolds), 0);
        }
        mend
    });
    found.collect()
}

/// Whether something else than accesses of threads names a variable, or any place in shared memory: copies, matrix instructions.
fn others(warps: &Warps<'_>, name: &str) -> bool {
    let number = warps.values.variables.iter().position(|variable| variable == name);
    let is_shared = |number: usize| {
        warps.values.declared.get(number).is_some_and(|declared| declared.space == Some(StateSpace::Shared))
    };
    if !number.is_some_and(is_shared) {
        return true;
    }
    warps.graph.sites.iter().any(|site| match site.operation {
        Operation::Bulk(_) | Operation::Wgmma(_) | Operation::Tcgen05 { .. } => true,
        Operation::CpAsync(CpAsync::Copy) => false,
        _ => matches!(site.located.instruction.mnemonic(), "wmma" | "multimem"),
    })
}

fn proof(access: &Access<'_>, place: &Place) -> Proof {
    let of = |warp: u32| {
        let threads = (warp * LANES..(warp + 1) * LANES).filter(|thread| place.set.has(*thread));
        let at = |thread: u32| place.pattern.lanes.of(thread).wrapping_add_signed(place.added);
        threads.map(|thread| (thread % LANES, at(thread))).collect()
    };
    let warps = place.set.warps().into_iter().map(of).collect();
    Proof { bytes: access.bytes.unwrap_or(0), manner: access.manner, warps, zeros: place.pattern.zeros }
}

impl Proof {
    /// Whether every warp takes as few wavefronts as it can with addresses that are moved.
    fn holds(&self, moved: impl Fn(u64) -> u64) -> bool {
        self.warps.iter().all(|lanes| {
            work::spend_on(lanes.len());
            let placed: Vec<(u32, u64)> = lanes.iter().map(|(lane, at)| (*lane, moved(*at))).collect();
            let passes = wavefronts(&placed, self.bytes, self.manner);
            passes.wavefronts <= passes.ideal
        })
    }

    /// Whether what is shared and not known is a multiple of a power of two.
    fn is_whole(&self, bits: u32) -> bool {
        self.zeros.trailing_ones() >= bits
    }
}

/// The smallest gap between rows with which every access of an array takes as few wavefronts as it can.
fn padding(proofs: &[Proof]) -> Option<Padding> {
    let widest = proofs.iter().map(|proof| proof.bytes).max()?.max(4);
    for row in ROWS.rev().map(|bits| 1u64 << bits) {
        for gap in [widest, widest * 2].map(u64::from).into_iter().filter(|gap| *gap < row) {
            let moved = |at: u64| at.wrapping_add((at / row).wrapping_mul(gap));
            // What is shared and not known is whole rows; where the array starts turns banks round as one.
            let whole = |proof: &Proof| proof.is_whole(row.trailing_zeros()) && u64::from(proof.bytes) <= row;
            if proofs.iter().all(|proof| whole(proof) && proof.holds(moved)) {
                return Some(Padding { row_bytes: row as u32, gap_bytes: gap as u32 });
            }
        }
    }
    None
}

/// A swizzle of the elements with which every access of an array takes as few wavefronts as it can: the one of the fewest bits.
fn swizzle(proofs: &[Proof], element: u32) -> Option<Swizzle> {
    let element = element.clamp(1, 16).next_power_of_two();
    let size = element.trailing_zeros();
    let widest = proofs.iter().map(|proof| proof.bytes).max()?.max(element);
    // What one lane reads at once stays together.
    let base = (widest / element).trailing_zeros();
    for bits in 1..=5u32 {
        for shift in bits..=8 {
            let top = base + shift + bits + size;
            let mask = ((1u64 << bits) - 1) << (base + shift + size);
            let moved = |at: u64| at ^ ((at & mask) >> shift);
            if proofs.iter().all(|proof| proof.is_whole(top) && proof.holds(moved)) {
                return Some(Swizzle { bits, base, shift, element_bytes: element });
            }
        }
    }
    None
}
