//! Maps of a kernel's memory: who touches which bytes of shared memory and which columns of tensor memory, and how many groups of
//! copies and multiplications are under way at each line.
//!
//! In: a kernel, its roles, and what the checks leave ([`Evidence`]): an execution that shows which places each instruction touches,
//! and the values of operands for what no execution comes to. Out: [`MemoryMaps`]. What is at a place that nothing tells is counted,
//! never guessed.

mod groups;
mod model;
mod rings;
mod shared;
mod tensor;
mod uses;

pub use model::*;

use crate::base::Line;
use crate::ptx::{Bulk, Function, Instruction, Operation};
use crate::roles::Role;
use crate::simt::{Site, SiteId, Warps};
use crate::sync::Evidence;

use self::uses::Uses;

/// The maps of a kernel; none where it has no shared memory, no tensor memory, no groups and no fences.
pub fn maps(
    function: &Function<'_, '_>,
    warps: &Warps<'_>,
    roles: &[Role],
    evidence: &Evidence<'_>,
) -> Option<MemoryMaps> {
    let module = function.module();
    let uses = Uses::of(function, warps, roles, evidence);
    let number = |line: Line| module.number_of(line);
    let operands = evidence.operands.as_ref().map_or(warps, |(warps, _)| warps);
    let maps = MemoryMaps {
        shared: shared::map(&uses, operands, &number),
        tensor: tensor::map(&uses, warps, evidence, &number),
        groups: groups::in_flight(warps, &number),
        copies: copies(warps, &uses, &number),
        fences: fences(warps, &number),
    };
    (maps != MemoryMaps::default()).then_some(maps)
}

/// Fences that order what threads wrote with what others see, in the order of the text.
fn fences(warps: &Warps<'_>, number: &dyn Fn(Line) -> Line) -> Vec<FenceSite> {
    let is_fence = |site: &&Site<'_>| {
        let opcode = site.located.instruction.opcode();
        matches!(site.operation, Operation::Fence { .. })
            || opcode.starts_with("tcgen05.fence")
            || opcode.starts_with("wgmma.fence")
    };
    let fence =
        |site: &Site<'_>| FenceSite { ptx_line: number(site.line()), kind: FenceKind::of(&site.located.instruction) };
    warps.graph.sites.iter().filter(is_fence).map(fence).collect()
}

/// Bulk and tensor copies, in the order of the text.
fn copies(warps: &Warps<'_>, uses: &Uses<'_>, number: &dyn Fn(Line) -> Line) -> Vec<CopySite> {
    let sites = warps.graph.sites.iter_enumerated();
    let copy = |(index, site): (SiteId, &Site<'_>)| {
        let Operation::Bulk(Bulk::Copy { tensor } | Bulk::Reduce { tensor }) = site.operation else { return None };
        let instruction = site.located.instruction;
        let to_shared = instruction.modifiers().find(|word| word.starts_with("shared") || *word == "global");
        Some(CopySite {
            ptx_line: number(site.line()),
            role: uses.role(index, None),
            tensor: tensor.then(|| dimensions(&instruction)).flatten(),
            to_shared: to_shared.is_some_and(|word| word.starts_with("shared")),
            multicast: instruction.has("multicast::cluster"),
            cta_group: instruction.modifiers().find_map(|word| word.strip_prefix("cta_group::")?.parse().ok()),
            bytes: uses.copied(index),
            stage_bytes: uses.stage_bytes(index),
        })
    };
    sites.filter_map(copy).collect()
}

/// `2` of `.2d`
fn dimensions(instruction: &Instruction<'_>) -> Option<u32> {
    instruction.modifiers().find_map(|word| word.strip_suffix('d')?.parse().ok())
}

#[cfg(test)]
mod tests;
