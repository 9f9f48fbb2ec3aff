//! Numbers of which little is known, but that they are few: what a mask leaves, what remains of a division, one of two constants.
//!
//! A remainder is told by what it does, for compilers divide by multiplying: it is computed from one number alone, and equals that number's
//! remainder wherever tried.

use std::rc::Rc;

use crate::simt::address::sets::Walker;
use crate::simt::eval::evaluate::Writer;
use crate::simt::eval::number::{Arithmetic, Type};
use crate::simt::eval::value::Value;
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Source, Step};

/// Bits of which all combinations are tried.
const MAX_BITS: u32 = 5;
/// Divisors whose remainders are.
const MAX_DIVISOR: u64 = 32;
/// Instructions between a number and its remainder.
const MAX_STEPS: usize = 16;

impl<'w> Walker<'w, '_> {
    /// The numbers that a value may be, ascending, as far as the instruction that writes it tells; none where these are many.
    pub(in crate::simt) fn bounds(&mut self, id: ValueId) -> Option<Rc<[u64]>> {
        if let Some(known) = self.bounded.get(&id) {
            return known.clone();
        }
        let found = self.few(id).or_else(|| self.remainder(id)).map(Rc::from);
        self.bounded.insert(id, found.clone());
        found
    }

    /// The instruction that alone writes a value, whatever it held before.
    fn writer(&self, id: ValueId) -> Option<&'w Step> {
        let Writer::Step(at) = self.values.writers.get(id)? else { return None };
        let step = self.values.steps.get(*at as usize)?;
        let whole = step.guard.is_none() && matches!(&step.destinations[..], [to] if to.id == id);
        whole.then_some(step)
    }

    fn constant(&self, source: &Source) -> Option<u64> {
        match source {
            Source::Known(value) => value.constant(),
            Source::Value(Some(id)) => self.values.held.get(*id)?.constant(),
            _ => None,
        }
    }

    fn few(&self, id: ValueId) -> Option<Vec<u64>> {
        let step = self.writer(id)?;
        let constant = |at: usize| step.arguments.get(at).and_then(|source| self.constant(source));
        let is_place = |source: &Source| match source {
            Source::Value(Some(id)) => self.values.held.get(*id)?.variable(),
            _ => None,
        };
        // Masks of addresses say which block of a cluster is meant.
        if step.arguments.iter().any(|source| is_place(source).is_some()) {
            return None;
        }
        match step.compute {
            Compute::Select => {
                let mut both = vec![constant(0)?, constant(1)?];
                both.sort_unstable();
                Some(both)
            }
            Compute::Arithmetic { what: Arithmetic::And, ty } => masked(ty.mask(constant(1).or(constant(0))?)),
            Compute::Arithmetic { what: Arithmetic::ShiftRight, ty } if !ty.signed => {
                let left = u64::from(ty.bits).checked_sub(constant(1)?)?;
                (left <= u64::from(MAX_BITS)).then(|| (0..1 << left).collect())
            }
            Compute::Arithmetic { what: Arithmetic::Remainder, ty } => remainders(ty, constant(1)?),
            _ => None,
        }
    }

    /// What remains of a division that is computed by multiplying.
    fn remainder(&mut self, id: ValueId) -> Option<Vec<u64>> {
        let step = self.writer(id)?;
        let (Compute::Add { ty, .. } | Compute::Multiply { to: ty, adds: true, .. }) = step.compute else {
            return None;
        };
        for source in step.arguments.iter().filter(|_| ty.bits == 32) {
            let Source::Value(Some(number)) = source else { continue };
            if self.is_known(*number) {
                continue;
            }
            let mut steps: Vec<&'w Step> = Vec::new();
            if !self.cone(id, *number, &mut steps) || steps.len() < 3 {
                continue;
            }
            let divisors: Vec<u64> = steps.iter().flat_map(|step| self.factors(step)).collect();
            let signs = [false, true];
            let tried =
                divisors.into_iter().flat_map(|divisor| signs.map(|signed| (divisor, Type { bits: 32, signed })));
            for (divisor, ty) in tried {
                if self.is_remainder(id, *number, &steps, divisor, ty) {
                    return remainders(ty, divisor);
                }
            }
        }
        None
    }

    /// Gathers the instructions that compute a value, each after what it needs; whether they need one number alone.
    fn cone(&self, id: ValueId, from: ValueId, steps: &mut Vec<&'w Step>) -> bool {
        if id == from || self.is_known(id) {
            return true;
        }
        let Some(step) = self.writer(id).filter(|step| {
            use Compute::{Add, Arithmetic, Convert, Move, Multiply};
            matches!(step.compute, Add { .. } | Arithmetic { .. } | Convert { .. } | Move | Multiply { .. })
        }) else {
            return false;
        };
        if steps.iter().any(|known| std::ptr::eq(*known, step)) {
            return true;
        }
        if steps.len() >= MAX_STEPS
            || !step.depends().iter().all(|source| *source != id && self.cone(*source, from, steps))
        {
            return false;
        }
        steps.push(step);
        steps.len() <= MAX_STEPS
    }

    /// Small constants that an instruction multiplies by, or rounds down to a multiple of.
    fn factors(&self, step: &Step) -> Vec<u64> {
        let (ty, rounds) = match step.compute {
            Compute::Multiply { ty, .. } => (ty, false),
            Compute::Arithmetic { what: Arithmetic::And, ty } => (ty, true),
            _ => return Vec::new(),
        };
        let constants = step.arguments.iter().take(2).filter_map(|source| self.constant(source));
        let signed = Type { bits: ty.bits, signed: true };
        let numbers = constants.map(|number| signed.number(number)).filter(|number| !rounds || *number < 0);
        let sizes = numbers.filter_map(|number| u64::try_from(number.unsigned_abs()).ok());
        sizes.filter(|size| (2..=MAX_DIVISOR).contains(size) && (!rounds || size.is_power_of_two())).collect()
    }

    /// Whether a value equals the remainder of a number wherever tried: at its ends, around powers of two, and in between.
    fn is_remainder(&mut self, id: ValueId, number: ValueId, steps: &[&Step], divisor: u64, ty: Type) -> bool {
        let around = (0..32).flat_map(|bit| (0..3).map(move |by| (1u64 << bit).wrapping_add(by).wrapping_sub(1)));
        let low = 0..3 * divisor;
        let high = (0..3 * divisor).map(|by| u64::from(u32::MAX) - by);
        let between = (0..64u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
        let held: Vec<(ValueId, Value)> = steps
            .iter()
            .flat_map(|step| step.destinations.iter().map(|to| to.id))
            .chain([number])
            .map(|id| (id, self.solver.holds(id).clone()))
            .collect();
        let mut tried = low.chain(high).chain(around).chain(between);
        let equal = tried.all(|tried| {
            let tried = ty.mask(tried);
            self.solver.put(number, Value::Constant(tried));
            for step in steps {
                self.solver.run(step);
            }
            let left = Arithmetic::Remainder.apply(ty, &[tried, divisor, 0, 0]);
            left.is_some() && self.solver.holds(id).constant() == left
        });
        for (id, value) in held {
            self.solver.put(id, value);
        }
        equal
    }
}

/// What a mask can leave of a number.
fn masked(mask: u64) -> Option<Vec<u64>> {
    if mask.count_ones() > MAX_BITS {
        return None;
    }
    let (mut all, mut at) = (vec![0], mask);
    while at != 0 {
        all.push(at);
        at = (at - 1) & mask;
    }
    all.sort_unstable();
    Some(all)
}

/// What a division can leave. An index of an array is not below 0, whatever its type would allow.
fn remainders(ty: Type, divisor: u64) -> Option<Vec<u64>> {
    let most = u64::try_from(ty.number(divisor)).ok().filter(|divisor| (1..=MAX_DIVISOR).contains(divisor))?;
    Some((0..most).collect())
}
