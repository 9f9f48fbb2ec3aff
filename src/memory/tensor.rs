//! The map of tensor memory: columns by who uses them, against what is allocated.

use super::model::{Direction, How, TensorAllocation, TensorMap, TensorRegion};
use super::shared::{of_region, unknown};
use super::uses::{Use, Uses};
use crate::base::Line;
use crate::ptx::{Operation, Tcgen05};
use crate::simt::{Bits, Site, SiteId, Warps};
use crate::sync::Evidence;
use crate::sync::execute::footprint::{MemoryKind, Span};
use crate::sync::multiply::{self, Multiplication};

/// Columns that one multiplication reads of a left matrix in tensor memory: 256 bits of a row, whatever its elements are.
const COLUMNS_OF_A: u64 = 8;

/// The map; none where nothing allocates or touches tensor memory.
pub(super) fn map(
    uses: &Uses<'_>,
    warps: &Warps<'_>,
    evidence: &Evidence<'_>,
    number: &dyn Fn(Line) -> Line,
) -> Option<TensorMap> {
    let is_alloc = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Alloc, .. });
    let operands = evidence.operands.as_ref().map_or(warps, |(warps, _)| warps);
    let columns = |index: SiteId, site: &Site<'_>| {
        let operand = site.located.instruction.operand(1)?;
        operands.values.operand(&operands.graph, index, operand).constant()
    };
    let sites = warps.graph.sites.iter_enumerated().filter(|(_, site)| is_alloc(site));
    let allocations: Vec<TensorAllocation> = sites
        .map(|(index, site)| TensorAllocation { ptx_line: number(site.line()), columns: columns(index, site) })
        .collect();
    let used: Vec<&Use> = uses.all.iter().filter(|used| used.memory == MemoryKind::Tensor).collect();
    let unknown = unknown(uses, MemoryKind::Tensor, number);
    if allocations.is_empty() && used.is_empty() && unknown.is_empty() {
        return None;
    }
    // An execution shows what is held at once; without one, the largest allocation is held at some time.
    let held = evidence.touched.as_ref().map(|touched| touched.columns_held).filter(|held| *held > 0);
    let largest = allocations.iter().filter_map(|allocation| allocation.columns).max();
    let regions = regions(&used, uses, evidence, number);
    Some(TensorMap {
        allocated: held.max(largest),
        used: regions.iter().map(|region| region.column + region.columns.unwrap_or(1)).max(),
        complete: unknown.is_empty()
            && used.iter().all(|used| used.is_settled)
            && regions.iter().all(|it| it.columns.is_some()),
        allocations,
        regions,
        unknown,
    })
}

/// Columns that the passes of an instruction touch, each place once, and whether that is all of them.
fn places(used: &Use, uses: &Uses<'_>, evidence: &Evidence<'_>) -> Vec<(u64, u64, bool)> {
    let known = match (used.how, &evidence.operands) {
        (How::Tcgen05Mma, _) if used.direction == Direction::Reads => Some(COLUMNS_OF_A),
        (How::Tcgen05Mma, Some((warps, bits))) if !used.is_whole => accumulator(used, uses, warps, bits),
        _ => None,
    };
    let place = |span: &Span| match known {
        Some(columns) => (span.start, columns, true),
        None => (span.start, span.count, used.is_whole),
    };
    let mut found: Vec<(u64, u64, bool)> = used.spans.iter().map(place).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Columns of an accumulator whose shape is a constant, 32 bits an element.
fn accumulator(used: &Use, uses: &Uses<'_>, warps: &Warps<'_>, bits: &Bits) -> Option<u64> {
    let (form, operand) = multiply::form(uses.site(used.site)?)?;
    let found = Multiplication::of_descriptor(form, bits.operand(warps, used.site, operand));
    let is_wide = matches!(found.types, [Some("f32" | "s32"), ..]);
    found.n.filter(|_| is_wide && !form.is_weight_stationary).map(u64::from)
}

/// Regions: what a multiplication or a copy writes as one, and with it whatever lies inside.
fn regions(
    used: &[&Use],
    uses: &Uses<'_>,
    evidence: &Evidence<'_>,
    number: &dyn Fn(Line) -> Line,
) -> Vec<TensorRegion> {
    let mut all: Vec<(u64, u64, bool, &Use)> = Vec::new();
    for used in used {
        all.extend(places(used, uses, evidence).into_iter().map(|(at, count, whole)| (at, count, whole, *used)));
    }
    // The widest of those that start at a column first: what lies inside it is a part of it.
    all.sort_by_key(|(at, count, _, used)| (*at, std::cmp::Reverse(*count), used.site));
    let mut found: Vec<(u64, u64, bool, Vec<&Use>)> = Vec::new();
    for (at, count, whole, used) in all {
        let alike = |last: &[&Use]| last.iter().any(|other| other.how == used.how && other.direction == used.direction);
        match found.last_mut() {
            Some((start, columns, _, users)) if at + count <= *start + *columns => users.push(used),
            // Parts of a row that one kind of instruction goes through.
            Some((start, columns, is_whole, users))
                if at <= *start + *columns && whole && *is_whole && used.how != How::Tcgen05Mma && alike(users) =>
            {
                *columns = at + count - *start;
                users.push(used);
            }
            _ => found.push((at, count, whole, vec![used])),
        }
    }
    let region = |(column, columns, whole, users): (u64, u64, bool, Vec<&Use>)| TensorRegion {
        column,
        columns: whole.then_some(columns),
        uses: of_region(&users, uses, number),
    };
    found.into_iter().map(region).collect()
}
