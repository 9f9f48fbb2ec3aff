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
}

/// The first batch with fewer bytes announced than another one that copies just the same.
pub(super) fn told_of_less<'a>(warps: &Warps<'a>, objects: &Objects<'a>) -> Option<Less<'a>> {
    let mut batches = gather(warps, objects);
    let mut most: BTreeMap<Vec<(&str, Register)>, (u64, Line)> = BTreeMap::new();
    for batch in &mut batches {
        batch.copies.sort_unstable();
        batch.announced = batch.announced.filter(|bytes| *bytes > 0 && !batch.copies.is_empty());
        let Some(bytes) = batch.announced else { continue };
        let known = most.entry(batch.copies.clone()).or_insert((bytes, batch.first.line));
        if known.0 < bytes {
            *known = (bytes, batch.first.line);
        }
    }
    batches.iter().find_map(|batch| {
        let announced = batch.announced?;
        let (others, other) = most.get(&batch.copies).copied().filter(|(more, _)| *more > announced)?;
        let is_one = are_written_once(warps, batch.copies.iter().map(|(_, map)| *map).collect());
        is_one.then_some(Less { copy: batch.first, announced, others, other })
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
            open.push(Batch { first: site, copies: Vec::new(), announced: Some(0) });
        }
        let Some(batch) = open.get_mut(place) else { continue };
        batch.announced = batch.announced.zip(bytes).and_then(|(all, more)| all.checked_add(more));
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
