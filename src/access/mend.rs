//! What would mend the conflicts of an array: rows with a gap, or a swizzle; proven for every access of it.

use super::{Access, AccessFact, ArrayMend, Place};
use crate::simt::Warps;

/// What would mend each array that has a conflict.
pub(super) fn mends(
    _warps: &Warps<'_>,
    _all: &[Access<'_>],
    _facts: &[AccessFact],
    _places: &[Option<Place>],
) -> Vec<ArrayMend> {
    Vec::new()
}
