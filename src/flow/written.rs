//! What is written on the way down a trace, as far as guards let one be certain.

use crate::base::{RegFile, RegSet};
use crate::sass::{Flow, Guard};

use super::touched::{Touched, guard_bit};

/// What is written on the way down a trace.
pub(super) trait Forward {
    /// Nothing is written yet.
    fn reset(&mut self);

    /// Takes an instruction; adds to `exposed` what it reads from before the trace.
    fn step(&mut self, touched: &Touched, guard: Option<Guard>, exposed: &mut RegSet);

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

    fn step(&mut self, touched: &Touched, guard: Option<Guard>, exposed: &mut RegSet) {
        let is_certain = is_certain_to_vendor(guard);
        for at in touched.words() {
            let (reads, writes) = touched.word(at);
            *exposed.word_mut(at) |= reads & !self.certain.word(at);
            *self.any.word_mut(at) |= writes;
            *self.certain.word_mut(at) |= if is_certain { writes } else { 0 };
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

/// The literals, as bits, that an instruction makes void by writing their predicates.
#[inline(always)]
pub(super) fn voided(touched: &Touched) -> u32 {
    let (_, writes) = touched.word(RegSet::PREDICATES);
    let mut bits = 0;
    let mut both = (writes & 0x7f | (writes >> 8 & 0x7f) << 7) as u32;
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

    /// Takes an instruction that always runs.
    #[inline(always)]
    fn step_always(&mut self, touched: &Touched, exposed: &mut RegSet) {
        for at in touched.words() {
            let (reads, writes) = touched.word(at);
            let always = self.always.word_mut(at);
            *exposed.word_mut(at) |= reads & !*always;
            *always |= writes;
        }
        if touched.word(RegSet::PREDICATES).1 != 0 {
            self.forget(voided(touched));
        }
    }

    /// Takes one that runs where its guard holds.
    #[inline(never)]
    fn step_where(&mut self, touched: &Touched, guard: Guard, exposed: &mut RegSet) {
        let lit = literal(guard);
        let holds = |lit: Option<usize>| lit.is_some_and(|lit| self.facts >> lit & 1 == 1);
        if guard.index == 7 && guard.negated || holds(lit.map(|lit| lit ^ 1)) {
            // It never runs: its guard alone is read.
            if guard.index < 7 {
                let always = self.always.word(RegSet::PREDICATES);
                *exposed.word_mut(RegSet::PREDICATES) |= guard_bit(guard) & !always;
            }
            return;
        }
        let runs_always = lit.is_none() || holds(lit);
        let written = lit.filter(|lit| self.used >> lit & 1 == 1);
        for at in touched.words() {
            let mut fresh = touched.word(at).0 & !self.always.word(at);
            if let Some(lit) = written {
                // The guard itself is read whatever its value.
                let tested = if at == RegSet::PREDICATES { guard_bit(guard) } else { 0 };
                fresh &= !self.when[lit].word(at) | tested;
            }
            *exposed.word_mut(at) |= fresh;
        }
        let void = voided(touched);
        self.forget(void);
        match lit.filter(|_| !runs_always) {
            None => {
                for at in touched.words() {
                    *self.always.word_mut(at) |= touched.word(at).1;
                }
            }
            // A guard that its own instruction writes says nothing afterwards.
            Some(lit) if void >> lit & 1 == 1 => {}
            Some(lit) => {
                for at in touched.words() {
                    let (_, writes) = touched.word(at);
                    *self.always.word_mut(at) |= writes & self.when[lit ^ 1].word(at);
                    *self.when[lit].word_mut(at) |= writes;
                    self.used |= u32::from(writes != 0) << lit;
                }
            }
        }
    }
}

impl Forward for Guarded {
    #[inline]
    fn reset(&mut self) {
        self.always = RegSet::EMPTY;
        self.forget(u32::MAX);
    }

    #[inline(always)]
    fn step(&mut self, touched: &Touched, guard: Option<Guard>, exposed: &mut RegSet) {
        match guard {
            None => self.step_always(touched, exposed),
            Some(guard) => self.step_where(touched, guard, exposed),
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
