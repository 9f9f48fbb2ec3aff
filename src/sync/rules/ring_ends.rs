//! Rings that have more slots than the variable that they are in.
//!
//! In: what was touched by an instruction whose address starts in a variable, in an execution. A warp that comes back to its first slot
//! has been in all of them, whatever the inputs were.

use std::collections::BTreeSet;

use crate::ptx::{Operand, StateSpace};
use crate::simt::{Bits, Warps};
use crate::sync::DataTouched;
use crate::sync::execute::footprint::{MemoryKind, OBJECT, Span, Touched};
use crate::sync::program::{Access, Variable};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;
use crate::sync::value::Basis;

/// The first slot of a ring that lies past the end of its variable.
pub fn check(warps: &Warps<'_>, bits: &Bits, touched: &DataTouched) -> Option<Finding> {
    touched.touched.iter().find_map(|found| past(warps, bits, touched, found))
}

fn past(warps: &Warps<'_>, bits: &Bits, touched: &DataTouched, found: &Touched) -> Option<Finding> {
    let is_ring = found.memory == MemoryKind::Shared && found.operand != OBJECT.0 && found.returned;
    if !is_ring || found.unknown > 0 || found.spans.iter().any(|span| span.place != Basis::Fact) {
        return None;
    }
    let index = *touched.program.sites.get(found.pc)?;
    let site = warps.graph.sites.get(index)?;
    let named = |operand: Operand<'_>| {
        let value = warps.values.operand(&warps.graph, index, operand).variable();
        let at = value.or_else(|| bits.operand(warps, index, operand).variable)? as usize;
        let declared = warps.values.declared.get(at)?;
        let name = warps.values.variables.get(at)?;
        (declared.space == Some(StateSpace::Shared))
            .then(|| touched.program.variables.iter().find(|it| it.name == *name))?
    };
    let addresses = site.located.instruction.operands().filter(|operand| operand.address().is_some());
    let Variable { name, start, bytes, .. } = addresses.into_iter().find_map(named)?;
    let end = start.checked_add((*bytes)?)?;
    let is_within = |span: &&Span| *start <= span.start && span.end() <= end;
    let (first, later): (Vec<&Span>, Vec<&Span>) = found.spans.iter().partition(|span| span.pass == 0);
    if !first.iter().all(is_within) {
        return None;
    }
    // Slots that do not overlap: what all warps touch of the first is less than from one to the next.
    let slot = first.iter().map(|span| span.end()).max()? - first.iter().map(|span| span.start).min()?;
    let alone = first.first()?;
    let places: BTreeSet<u64> =
        found.spans.iter().filter(|span| span.warp == alone.warp).map(|span| span.start).collect();
    let stride = places.iter().zip(places.iter().skip(1)).map(|(at, next)| next - at).min()?;
    let is_regular = places.iter().all(|place| (place - alone.start.min(*place)).is_multiple_of(stride));
    let beyond = later.iter().find(|span| !is_within(span)).filter(|_| slot <= stride && is_regular)?;
    let (from, to) = (beyond.start.checked_sub(*start)?, beyond.end() - 1 - start);
    let verb = if found.access == Access::Read { "reads" } else { "writes" };
    let slots = places.len();
    Some(Finding {
        rule: Rule::WithinVariable,
        confidence: Confidence::Likely,
        line: site.line(),
        message: format!("{verb} bytes {from} to {to} of {name}, which has {}", end - start),
        reasoning: format!(
            "its address goes round {slots} slots, {stride} bytes apart, and {name} has room for {}",
            (end - start) / stride
        ),
    })
}
