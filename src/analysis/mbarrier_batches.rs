//! Copies that go together: those on one mbarrier between one wait and the next, as the kernel is written, and the bytes that are announced
//! with them.

use std::collections::{BTreeMap, BTreeSet};

use super::mbarrier_checks::Objects;
use super::mbarrier_expect::one_object;
use super::mbarriers::{Act, MbarrierSite};
use super::threads::Warps;
use crate::base::Line;
use crate::ptx::Register;

/// Copies with fewer bytes announced than others that are just the same.
pub(super) struct Less<'a> {
    /// The first of them.
    pub copy: &'a MbarrierSite,
    /// The bytes that are announced.
    pub announced: u64,
    /// Those of the others.
    pub others: u64,
    /// Where the others are.
    pub other: Line,
}

struct Batch<'a> {
    first: &'a MbarrierSite,
    /// How they are copied, and by the tensor map in which register.
    copies: Vec<(&'a str, Register)>,
    /// None where some of it is not known.
    announced: Option<u64>,
    /// Blocks of the kernel that it is in.
    blocks: BTreeSet<u32>,
}

/// The first batch with fewer bytes announced than another one that copies just the same.
pub(super) fn told_of_less<'a>(warps: &Warps<'a>, objects: &Objects<'a>) -> Option<Less<'a>> {
    let mut batches = gather(warps, objects);
    for batch in &mut batches {
        batch.copies.sort_unstable();
        batch.announced = batch.announced.filter(|bytes| *bytes > 0 && !batch.copies.is_empty());
    }
    let mut most: BTreeMap<&[(&str, Register)], &Batch<'a>> = BTreeMap::new();
    for batch in batches.iter().filter(|batch| batch.announced.is_some()) {
        let known = most.entry(&batch.copies).or_insert(batch);
        if known.announced < batch.announced {
            *known = batch;
        }
    }
    batches.iter().find_map(|batch| {
        let announced = batch.announced?;
        let other = most.get(batch.copies.as_slice())?;
        let others = other.announced.filter(|more| *more > announced)?;
        // What is in a loop runs more often than what is outside.
        let is_even = |batch: &Batch<'_>| {
            let loops = batch.blocks.iter().map(|block| Some(warps.graph.innermost_loop(*block)?.into_iter().min()));
            loops.collect::<BTreeSet<_>>().len() == 1
        };
        let is_same = is_even(batch)
            && is_even(other)
            && are_written_once(warps, batch.copies.iter().map(|(_, map)| *map).collect());
        is_same.then_some(Less { copy: batch.first, announced, others, other: other.first.line })
    })
}

/// The batches between waits, in order.
fn gather<'a>(warps: &Warps<'a>, objects: &Objects<'a>) -> Vec<Batch<'a>> {
    let mut batches: Vec<Batch<'a>> = Vec::new();
    let mut open: Vec<Batch<'a>> = Vec::new();
    for site in objects.sites {
        let Some(at) = warps.graph.sites.get(site.index) else { continue };
        if site.act == Act::Wait {
            batches.append(&mut open);
        }
        let bytes = match site.act {
            Act::Complete => Some(0),
            Act::Expect | Act::ArriveExpect => site.argument,
            _ => continue,
        };
        let place = open.iter().position(|batch| one_object(batch.first, site)).unwrap_or(open.len());
        if place == open.len() {
            open.push(Batch { first: site, copies: Vec::new(), announced: Some(0), blocks: BTreeSet::new() });
        }
        let Some(batch) = open.get_mut(place) else { continue };
        batch.announced = batch.announced.zip(bytes).and_then(|(all, more)| all.checked_add(more));
        batch.blocks.insert(at.block);
        if site.act != Act::Complete {
            continue;
        }
        if batch.copies.is_empty() {
            batch.first = site;
        }
        let instruction = at.located.instruction;
        let map = instruction.operand(1).and_then(|map| map.address()?.base);
        let map = map.and_then(|map| warps.graph.registers.resolve(map, at.located.id));
        match map.filter(|_| instruction.opcode().starts_with("cp.async.bulk.tensor.")) {
            Some(map) => batch.copies.push((instruction.opcode(), map)),
            None => batch.announced = None,
        }
    }
    batches.append(&mut open);
    batches
}

/// Whether registers hold the same throughout.
fn are_written_once(warps: &Warps<'_>, registers: BTreeSet<Register>) -> bool {
    let written = warps.graph.sites.iter().flat_map(|site| warps.graph.registers.written_by(&site.located));
    written.filter(|register| registers.contains(register)).count() == registers.len()
}
