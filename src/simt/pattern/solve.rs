//! Values of registers evaluated for the pattern of their lanes, until nothing changes.

use super::compute::compute;
use super::shape::{Lanes, NONE, Pattern, low};
use crate::base::{IndexVec, work};
use crate::ptx::{Operand, Operation, StateSpace, type_bits};
use crate::simt::bits::part;
use crate::simt::eval::evaluate::{Declared, Writer};
use crate::simt::eval::value::Value;
use crate::simt::ssa::construct::{Phi, ValueId};
use crate::simt::ssa::lowering::{Compute, Source, Step};
use crate::simt::ssa::order::{Definition, in_order};
use crate::simt::{Bits, SiteId, ThreadSet, Uniformity, Warps};

/// Rounds over the instructions.
const MAX_ROUNDS: usize = 24;
/// Changes of a value after which nothing is known of what its lanes share.
const MAX_CHANGES: u8 = 8;

/// What is known of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// No definition was looked at yet.
    Undefined,
    /// How its lanes differ.
    Pattern(Pattern),
    /// Lanes may differ in any way, because of this instruction.
    Unknown(Option<SiteId>),
}

/// Shared memory of a block starts at a multiple of this; docs/sources.md says how that is known.
const BLOCK_START: u64 = 1024;

/// What dynamic shared memory starts at a multiple of: where a block starts, if the kernel has no other shared memory, nor calls what may.
fn dynamic_start(warps: &Warps<'_>) -> u64 {
    let is_other = |declared: &Declared| declared.space == Some(StateSpace::Shared) && !declared.is_dynamic;
    let calls = warps.graph.sites.iter().any(|site| match site.operation {
        Operation::Call => {
            let callee = site.located.instruction.call().callee;
            !matches!(callee, Some("vprintf" | "__assertfail" | "malloc" | "free"))
        }
        _ => false,
    });
    if calls || warps.values.declared.iter().any(is_other) { 1 } else { BLOCK_START }
}

/// How the lanes of each warp differ, for every register that an address is computed from.
pub struct Patterns<'w, 'a> {
    warps: &'w Warps<'a>,
    bits: &'w Bits,
    /// What dynamic shared memory starts at a multiple of.
    dynamic: u64,
    lanes: Uniformity,
    held: IndexVec<ValueId, Held>,
    changes: IndexVec<ValueId, u8>,
    stamps: IndexVec<ValueId, usize>,
    round: usize,
}

impl<'w, 'a> Patterns<'w, 'a> {
    /// Evaluates what some operands are computed from.
    pub fn of(warps: &'w Warps<'a>, bits: &'w Bits, wanted: impl Iterator<Item = (SiteId, Operand<'a>)>) -> Self {
        let count = warps.values.ssa.count;
        let all = ThreadSet::first(warps.threads.unwrap_or(0));
        let mut found = Patterns {
            warps,
            bits,
            dynamic: dynamic_start(warps),
            lanes: Uniformity::of_lanes(warps, all),
            held: IndexVec::filled(Held::Undefined, count),
            changes: IndexVec::filled(0, count),
            stamps: IndexVec::filled(0, count),
            round: 0,
        };
        let addresses = wanted.filter_map(|(index, operand)| found.value(index, operand)).collect();
        let (steps, phis) = found.needed(addresses);
        for round in 0..MAX_ROUNDS {
            found.round = round;
            if !found.settle(&steps, &phis) {
                return found;
            }
        }
        // Whatever has not settled is unknown, and so may be all that is computed from it.
        for held in found.held.iter_mut() {
            if let Held::Pattern(_) = held {
                *held = Held::Unknown(Some(SiteId::FIRST));
            }
        }
        found
    }

    /// How the lanes of an address differ, what the instruction adds to that, and the value of its register, if it has one.
    pub fn address(&self, index: SiteId, operand: Operand<'a>) -> (Held, i64, Option<ValueId>) {
        match self.estimated(index, operand) {
            (Held::Pattern(Pattern { assumed: Some(cause), .. }), added, value) => {
                (Held::Unknown(Some(cause)), added, value)
            }
            found => found,
        }
    }

    /// The same, with rows of a width that is not known taken to lie far apart.
    pub fn estimated(&self, index: SiteId, operand: Operand<'a>) -> (Held, i64, Option<ValueId>) {
        let unknown = (Held::Unknown(Some(index)), 0, None);
        let Some(Some(added)) = operand.address().map(|address| address.offset) else { return unknown };
        match self.value(index, operand) {
            Some(id) => (self.held_by(id).clone(), added, Some(id)),
            None => match self.known(&self.warps.values.operand(&self.warps.graph, index, operand)) {
                Some(place) => (Held::Pattern(place), 0, None),
                None => unknown,
            },
        }
    }

    /// How the lanes of a register differ that an instruction reads as it is.
    pub fn register(&self, index: SiteId, operand: Operand<'a>) -> Held {
        let id = self.value(index, operand).filter(|_| operand.address().is_none());
        match id.map(|id| self.held_by(id).clone()) {
            Some(Held::Pattern(Pattern { assumed: Some(cause), .. })) => Held::Unknown(Some(cause)),
            found => found.unwrap_or(Held::Unknown(Some(index))),
        }
    }

    /// The value of the register that an address is in, or that an instruction reads as it is.
    fn value(&self, index: SiteId, operand: Operand<'a>) -> Option<ValueId> {
        let (values, graph) = (&self.warps.values, &self.warps.graph);
        match operand.address() {
            Some(_) => values.address(graph, index, operand).map(|(id, _)| id),
            None => {
                values.ssa.read(index, graph.registers.resolve(operand.name()?, graph.sites.get(index)?.located.id)?)
            }
        }
    }

    /// The instructions and phis that some values are computed from, in order.
    fn needed(&mut self, mut open: Vec<ValueId>) -> (Vec<&'w Step>, Vec<&'w Phi>) {
        let values = &self.warps.values;
        let mut seen = IndexVec::filled(false, self.held.len());
        let (mut steps, mut phis) = (Vec::new(), Vec::new());
        while let Some(id) = open.pop() {
            work::spend(1);
            if seen.get_mut(id).is_none_or(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            let known = values.held.get(id).and_then(|value| self.known(value));
            if let (Some(known), Some(slot)) = (known, self.held.get_mut(id)) {
                *slot = Held::Pattern(known);
                continue;
            }
            match values.writers.get(id) {
                Some(Writer::Step(at)) => {
                    open.extend(values.steps.get(*at as usize).into_iter().flat_map(|step| step.reads.iter()));
                    steps.push(*at);
                }
                Some(Writer::Phi(at)) => {
                    let from = values.ssa.phis.get(*at as usize).into_iter().flat_map(|phi| &phi.from);
                    open.extend(from.map(|(.., id)| *id));
                    phis.push(*at);
                }
                Some(Writer::Several) | None => {
                    if let Some(slot) = self.held.get_mut(id) {
                        *slot = Held::Unknown(Some(SiteId::FIRST));
                    }
                }
                Some(Writer::Nobody) => {}
            }
        }
        steps.sort_unstable();
        steps.dedup();
        phis.sort_unstable();
        let steps = steps.into_iter().filter_map(|at| values.steps.get(at as usize)).collect();
        (steps, phis.into_iter().filter_map(|at| values.ssa.phis.get(at as usize)).collect())
    }

    /// What is known thread by thread.
    fn known(&self, value: &Value) -> Option<Pattern> {
        let place = |variable: u32| {
            let declared = self.warps.values.declared.get(variable as usize);
            let first = if declared.is_some_and(|declared| declared.is_dynamic) { self.dynamic } else { 1 };
            declared.map_or(1, |declared| declared.align).max(first).wrapping_sub(1)
        };
        Some(match value {
            Value::Constant(number) => Pattern::constant(*number),
            Value::Threads { values, elected: false } => Pattern::exact(Lanes::Each(values.clone())),
            Value::Address { variable, offset: Some(offset) } => Pattern {
                lanes: Lanes::Same(*offset as u64),
                zeros: NONE,
                variable: Some(*variable),
                start: place(*variable),
                assumed: None,
            },
            Value::Addresses { variable, offsets } => {
                work::spend_on(offsets.len() / 16);
                let lanes = Lanes::Each(offsets.iter().map(|offset| *offset as u64).collect());
                let (variable, start) = (Some(*variable), place(*variable));
                Pattern { lanes, zeros: NONE, variable, start, assumed: None }
            }
            _ => return None,
        })
    }

    fn settle(&mut self, steps: &[&'w Step], phis: &[&'w Phi]) -> bool {
        let mut changed = false;
        for definition in in_order(steps.iter().copied(), phis.iter().copied()) {
            if self.round > 0 && !definition.reads_any(|id| self.is_touched(id)) {
                continue;
            }
            changed |= match definition {
                Definition::Phi(phi) => {
                    let met = self.meet(phi);
                    self.set(phi.id, met)
                }
                Definition::Step(step) => self.step(step),
            };
        }
        changed
    }

    /// Whether a value changed since this place was looked at in the round before.
    fn is_touched(&self, id: ValueId) -> bool {
        self.stamps.get(id).is_some_and(|stamp| *stamp >= self.round)
    }

    fn set(&mut self, id: ValueId, mut held: Held) -> bool {
        let (Some(slot), Some(changes), Some(stamp)) =
            (self.held.get_mut(id), self.changes.get_mut(id), self.stamps.get_mut(id))
        else {
            return false;
        };
        if *slot == held {
            return false;
        }
        if *changes >= MAX_CHANGES {
            if let Held::Pattern(pattern) = &mut held {
                pattern.zeros = 0;
            }
            if *slot == held || *changes >= 2 * MAX_CHANGES {
                held = Held::Unknown(Some(SiteId::FIRST));
            }
        }
        if *slot == held {
            return false;
        }
        *changes = changes.saturating_add(1);
        *stamp = self.round + 1;
        *slot = held;
        true
    }

    fn held_by(&self, id: ValueId) -> &Held {
        self.held.get(id).unwrap_or(&Held::Undefined)
    }

    /// One number for a warp, as far as its bits tell.
    fn shared(&self, id: ValueId) -> Held {
        Held::Pattern(Pattern::shared(self.bits.zeros(id)))
    }

    /// What a register holds where values of it meet.
    fn meet(&mut self, phi: &Phi) -> Held {
        work::spend_on(phi.from.len());
        let (graph, values) = (&self.warps.graph, &self.warps.values);
        let cause = Some(graph.blocks.get(phi.block).map_or(SiteId::FIRST, |block| block.start));
        let mut met: Option<Pattern> = None;
        let mut unknown = None;
        for &(block, _, id) in &phi.from {
            let coming = match self.held_by(id) {
                Held::Undefined => continue,
                Held::Unknown(cause) => {
                    unknown = unknown.or(Some(*cause));
                    continue;
                }
                Held::Pattern(coming) => coming,
            };
            met = match met.take() {
                None => Some(coming.clone()),
                Some(met) if met == *coming => Some(met),
                Some(met) => match met.join(coming).filter(|_| !self.lanes.parts(graph, values, block)) {
                    Some(met) => Some(met),
                    None => {
                        unknown = unknown.or(Some(cause));
                        break;
                    }
                },
            };
        }
        // Who comes first is parted from the others as they are from it.
        let parts = || phi.from.iter().any(|(block, ..)| self.lanes.parts(graph, values, *block));
        match (unknown, met) {
            (Some(_), _) if !self.lanes.differs(phi.id) => self.shared(phi.id),
            (Some(cause), _) => Held::Unknown(cause),
            (None, Some(met)) => {
                let all_same = phi.from.iter().all(|(.., id)| match self.held_by(*id) {
                    Held::Pattern(one) => one == &met,
                    _ => true,
                });
                match met.assumed {
                    Some(_) if !self.lanes.differs(phi.id) => self.shared(phi.id),
                    _ if all_same || !parts() => Held::Pattern(met),
                    _ => Held::Unknown(cause),
                }
            }
            (None, None) => Held::Undefined,
        }
    }

    fn step(&mut self, step: &Step) -> bool {
        let mut changed = false;
        for (at, to) in step.destinations.iter().enumerate() {
            let known = self.warps.values.held.get(to.id).and_then(|value| self.known(value));
            if known.is_some() {
                continue;
            }
            let held = self.written(step, at);
            changed |= self.set(to.id, held);
        }
        changed
    }

    /// What a destination holds after an instruction.
    fn written(&self, step: &Step, at: usize) -> Held {
        work::spend(1);
        let Some(to) = step.destinations.get(at) else { return Held::Undefined };
        let alike = !self.lanes.differs(to.id);
        let given = self.given(step, at, to.id);
        let given = match (step.guard, given) {
            (Some((guard, _)), Held::Pattern(new)) if to.is_several => {
                let guard_alike = guard.is_some_and(|guard| !self.lanes.differs(guard));
                match to.old.map(|old| self.held_by(old)) {
                    Some(Held::Pattern(old)) if guard_alike || *old == new => match old.join(&new) {
                        Some(joined) => Held::Pattern(joined),
                        None => Held::Unknown(Some(step.index)),
                    },
                    Some(Held::Unknown(cause)) => Held::Unknown(*cause),
                    Some(Held::Pattern(_)) => Held::Unknown(Some(step.index)),
                    Some(Held::Undefined) | None => Held::Pattern(new),
                }
            }
            (_, given) => given,
        };
        match given {
            Held::Unknown(_) | Held::Pattern(Pattern { assumed: Some(_), .. }) if alike => self.shared(to.id),
            // What all lanes share, and whose bits are known better.
            Held::Pattern(pattern) if alike && pattern.lanes == Lanes::Same(0) && pattern.zeros != NONE => {
                let own = if pattern.start == NONE { self.bits.zeros(to.id) } else { 0 };
                let zeros = pattern.zeros | own;
                Held::Pattern(Pattern { zeros, ..pattern })
            }
            given => given,
        }
    }

    fn given(&self, step: &Step, at: usize, id: ValueId) -> Held {
        let bits = self.width(step, at);
        let mut arguments = Vec::with_capacity(step.arguments.len());
        // A predicate that a warp has chooses for all its lanes.
        let is_choice = matches!(step.compute, Compute::Select);
        for (place, source) in step.arguments.iter().enumerate() {
            if is_choice && place == 2 {
                let alike = match source {
                    Source::Value(Some(id)) => !self.lanes.differs(*id),
                    _ => false,
                };
                if !alike {
                    return Held::Unknown(Some(step.index));
                }
                continue;
            }
            match self.source(source, bits) {
                Held::Pattern(pattern) => arguments.push(pattern),
                Held::Undefined => return Held::Undefined,
                Held::Unknown(cause) if !self.lanes.differs(id) => return Held::Unknown(cause),
                Held::Unknown(cause) => return Held::Unknown(cause.or(Some(step.index))),
            }
        }
        let part = if matches!(step.compute, Compute::Unpack) { part(self.warps, step, at) } else { Some(at as u32) };
        let found = part.and_then(|part| compute(step.compute, &arguments, part, bits));
        let before = arguments.iter().find_map(|argument| argument.assumed);
        match found {
            Some(found) => {
                let assumed = before.or(found.assumed.map(|_| step.index));
                Held::Pattern(Pattern { assumed, ..found.within(bits) })
            }
            None => Held::Unknown(before.or(Some(step.index))),
        }
    }

    /// Bits of a destination.
    fn width(&self, step: &Step, at: usize) -> u32 {
        let graph = &self.warps.graph;
        let site = graph.sites.get(step.index);
        let register = site.and_then(|site| graph.registers.written_by(&site.located).nth(at));
        let declared = register.and_then(|register| graph.registers.declaration(register));
        declared.and_then(|declared| type_bits(declared.ty)).unwrap_or(64).clamp(1, 64)
    }

    /// What an operand is; unknown because of whoever reads it where there is no cause.
    fn source(&self, source: &Source, bits: u32) -> Held {
        let unknown = Held::Unknown(None);
        match source {
            Source::Known(value) => match self.known(value) {
                Some(known) => Held::Pattern(known),
                None if value.variation() < crate::simt::Variation::Lane => Held::Pattern(Pattern::shared(0)),
                None => unknown,
            },
            Source::Value(Some(id)) => self.held_by(*id).clone(),
            Source::Value(None) => Held::Undefined,
            Source::OwnRank => Held::Pattern(Pattern::shared(!low(32))),
            Source::Address(base, offset) => match (self.source(base, 64), offset) {
                (Held::Pattern(base), Some(offset)) => Held::Pattern(base.plus(&Pattern::constant(*offset as u64), 64)),
                (Held::Pattern(_), None) => unknown,
                (other, _) => other,
            },
            Source::Pack(parts) => {
                let Some(each) = u32::try_from(parts.len()).ok().and_then(|count| bits.checked_div(count)) else {
                    return unknown;
                };
                let mut all = Pattern::constant(0);
                for (part, at) in parts.iter().zip((0..).step_by(each.max(1) as usize)) {
                    match self.source(part, each) {
                        Held::Pattern(part) => {
                            let Some(apart) = part.disjoint(each) else { return unknown };
                            all = all.plus(&apart.shifted_left(at, bits), bits);
                        }
                        other => return other,
                    }
                }
                Held::Pattern(all)
            }
            Source::Not(_) | Source::Opaque => unknown,
        }
    }
}
