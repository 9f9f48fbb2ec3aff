//! What is written on the way down a trace, as far as guards let one be certain.

use crate::base::{RegFile, RegSet};
use crate::sass::{Effects, Flow, Guard};

/// What is written on the way down a trace.
pub(super) trait Forward {
    /// Nothing is written yet.
    fn reset(&mut self);

    /// Takes an instruction; adds to `exposed` what it reads from before the trace.
    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet);

    /// What is certainly written when control leaves here under `guard`.
    fn kill(&self, guard: Option<Guard>) -> RegSet;

    /// Control has gone past a side exit.
    fn pass(&mut self, flow: &Flow);
}

/// nvdisasm's: guarded writes count for exits, not for reads. Writes under a uniform guard are certain.
#[derive(Default)]
pub(super) struct Vendor {
    certain: RegSet,
    any: RegSet,
}

/// Whether nvdisasm takes a write under this guard for certain.
pub(super) fn is_certain_to_vendor(guard: Option<Guard>) -> bool {
    guard.is_none_or(|guard| guard.file == RegFile::Upred)
}

impl Forward for Vendor {
    #[inline]
    fn reset(&mut self) {
        *self = Vendor::default();
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet) {
        exposed.union_with(&effects.reads.difference(&self.certain));
        self.any.union_with(&effects.writes);
        if is_certain_to_vendor(guard) {
            self.certain.union_with(&effects.writes);
        }
    }

    fn kill(&self, _: Option<Guard>) -> RegSet {
        self.any
    }

    fn pass(&mut self, _: &Flow) {}
}

/// A predicate with a sense: 0 to 27, or `None` for the always-true predicate.
pub(super) fn literal(guard: Guard) -> Option<usize> {
    let file = usize::from(guard.file == RegFile::Upred);
    (guard.index < 7).then_some(file * 14 + usize::from(guard.index) * 2 + usize::from(guard.negated))
}

/// Number of [`literal`]s.
pub(super) const LITERALS: usize = 28;

/// The literals, as bits, that a set of written predicates makes void.
pub(super) fn voided(writes: &RegSet) -> u32 {
    let mut bits = 0;
    let mut both =
        u32::from(writes.predicates(RegFile::Pred) & 0x7f) | u32::from(writes.predicates(RegFile::Upred) & 0x7f) << 7;
    while both != 0 {
        bits |= 3 << (2 * both.trailing_zeros());
        both &= both - 1;
    }
    bits
}

/// What is written always, and what is written where a literal holds.
#[derive(Default)]
pub(super) struct Guarded {
    always: RegSet,
    when: [RegSet; LITERALS],
    /// Literals whose set is not empty.
    used: u32,
    /// Literals that hold for certain: control went past an exit under the opposite.
    facts: u32,
}

impl Guarded {
    /// Drops what is known about some literals.
    fn forget(&mut self, literals: u32) {
        let mut gone = literals & self.used;
        while gone != 0 {
            self.when[gone.trailing_zeros() as usize] = RegSet::EMPTY;
            gone &= gone - 1;
        }
        self.used &= !literals;
        self.facts &= !literals;
    }
}

impl Forward for Guarded {
    #[inline]
    fn reset(&mut self) {
        self.always = RegSet::EMPTY;
        self.forget(u32::MAX);
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet) {
        let mut lit = guard.and_then(literal);
        let never = guard.is_some_and(|guard| guard.index == 7 && guard.negated)
            || lit.is_some_and(|lit| self.facts >> (lit ^ 1) & 1 == 1);
        if let (Some(guard), true) = (guard, never) {
            if !self.always.contains(guard.file, u16::from(guard.index)) && guard.index < 7 {
                exposed.insert(guard.file, u16::from(guard.index));
            }
            return;
        }
        if lit.is_some_and(|lit| self.facts >> lit & 1 == 1) {
            lit = None;
        }
        let mut fresh = effects.reads.difference(&self.always);
        match (guard, guard.and_then(literal)) {
            (Some(guard), Some(lit)) if self.used >> lit & 1 == 1 => {
                // The guard itself is read whatever its value.
                let tested = fresh.contains(guard.file, u16::from(guard.index));
                fresh.subtract(&self.when[lit]);
                if tested {
                    fresh.insert(guard.file, u16::from(guard.index));
                }
            }
            _ => {}
        }
        exposed.union_with(&fresh);

        let void = voided(&effects.writes);
        self.forget(void);
        match lit {
            None => {
                self.always.union_with(&effects.writes);
            }
            // A guard that its own instruction writes says nothing afterwards.
            Some(lit) if void >> lit & 1 == 1 => {}
            Some(lit) => {
                let other = self.when[lit ^ 1];
                self.always.union_with(&effects.writes.intersection(&other));
                self.when[lit].union_with(&effects.writes);
                if !effects.writes.is_empty() {
                    self.used |= 1 << lit;
                }
            }
        }
    }

    fn kill(&self, guard: Option<Guard>) -> RegSet {
        match guard.and_then(literal) {
            Some(lit) if self.used >> lit & 1 == 1 => self.always.union(&self.when[lit]),
            _ => self.always,
        }
    }

    fn pass(&mut self, flow: &Flow) {
        if let (Some(lit), false) = (flow.guard.and_then(literal), flow.own_condition) {
            if self.used >> (lit ^ 1) & 1 == 1 {
                let held = self.when[lit ^ 1];
                self.always.union_with(&held);
            }
            self.facts |= 1 << (lit ^ 1);
        }
    }
}
