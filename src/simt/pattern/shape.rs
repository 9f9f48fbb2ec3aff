//! A pattern, and arithmetic on it.

use std::sync::Arc;

use crate::base::work;
use crate::simt::SiteId;
use crate::simt::eval::number::Type;

const WARP: usize = 32;

/// A number for each thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All have the same.
    Same(u64),
    /// By thread.
    Each(Arc<[u64]>),
}

impl Lanes {
    /// That of a thread.
    pub fn of(&self, thread: u32) -> u64 {
        match self {
            Lanes::Same(number) => *number,
            Lanes::Each(numbers) => numbers.get(thread as usize).copied().unwrap_or(0),
        }
    }

    pub(super) fn map(&self, of: impl Fn(u64) -> u64) -> Lanes {
        match self {
            Lanes::Same(number) => Lanes::Same(of(*number)),
            Lanes::Each(numbers) => {
                work::spend_on(numbers.len() / 16);
                Lanes::Each(numbers.iter().map(|number| of(*number)).collect())
            }
        }
    }

    pub(super) fn zip(&self, other: &Lanes, of: impl Fn(u64, u64) -> u64) -> Lanes {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => Lanes::Same(of(*a, *b)),
            (Lanes::Same(a), Lanes::Each(_)) => other.map(|b| of(*a, b)),
            (Lanes::Each(_), Lanes::Same(b)) => self.map(|a| of(a, *b)),
            (Lanes::Each(a), Lanes::Each(b)) => {
                work::spend_on(a.len() / 16);
                Lanes::Each(a.iter().zip(b.iter()).map(|(a, b)| of(*a, *b)).collect())
            }
        }
    }

    /// Bits that are set in one of them.
    fn ones(&self) -> u64 {
        match self {
            Lanes::Same(number) => *number,
            Lanes::Each(numbers) => numbers.iter().fold(0, |all, number| all | number),
        }
    }

    /// Bits in which lanes of one warp differ.
    pub(super) fn varying(&self) -> u64 {
        let Lanes::Each(numbers) = self else { return 0 };
        work::spend_on(numbers.len() / 16);
        let of = |warp: &[u64]| {
            let first = warp.first().copied().unwrap_or(0);
            warp.iter().fold(0, |all, number| all | number ^ first)
        };
        numbers.chunks(WARP).fold(0, |all, warp| all | of(warp))
    }
}

/// What a register holds: a number of each thread's own plus one that all lanes of its warp share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Each thread's own number.
    pub lanes: Lanes,
    /// Bits of the shared number that are 0; all of them where there is none.
    pub zeros: u64,
    /// The variable that it is a place in.
    pub variable: Option<u32>,
    /// Bits that are 0 of where that variable starts, which comes on top; all of them where there is none.
    pub start: u64,
    /// The instruction that multiplies what lanes differ by with a number that is not known: rows of a matrix whose width is not known. They are
    /// taken to lie far apart: good for an estimate, no proof of anything.
    pub assumed: Option<SiteId>,
}

/// What a width that is not known is taken for.
const FAR: u64 = 1 << 16;

/// Bits of a number that is not there.
pub(super) const NONE: u64 = u64::MAX;

/// The lower so many bits.
pub(super) fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Pattern {
    /// The same, which is no more than likely.
    pub(super) fn assuming(&self) -> Pattern {
        Pattern { assumed: Some(SiteId::FIRST), ..self.clone() }
    }

    /// Numbers that are known.
    pub(super) fn exact(lanes: Lanes) -> Pattern {
        Pattern { lanes, zeros: u64::MAX, variable: None, start: NONE, assumed: None }
    }

    pub(super) fn constant(number: u64) -> Pattern {
        Pattern::exact(Lanes::Same(number))
    }

    /// One number for a warp, some of whose bits are 0.
    pub(super) fn shared(zeros: u64) -> Pattern {
        Pattern { lanes: Lanes::Same(0), zeros, variable: None, start: NONE, assumed: None }
    }

    /// Whether nothing is shared that is not known.
    pub fn is_exact(&self) -> bool {
        self.zeros & self.start == u64::MAX
    }

    /// The same, where the variable starts counted among what is shared.
    fn folded(&self) -> Pattern {
        let zeros = match (self.zeros, self.start) {
            (NONE, start) => start,
            (zeros, NONE) => zeros,
            _ => low(self.shared_zeros()),
        };
        Pattern { zeros, start: NONE, ..self.clone() }
    }

    /// The number, where it is known and all threads have the same.
    pub(super) fn number(&self) -> Option<u64> {
        match self.lanes {
            Lanes::Same(number) if self.is_exact() => Some(number),
            _ => None,
        }
    }

    /// Bits up to which all that is shared is 0.
    pub fn shared_zeros(&self) -> u32 {
        self.zeros.trailing_ones().min(self.start.trailing_ones())
    }

    pub(super) fn within(self, bits: u32) -> Pattern {
        let mask = low(bits);
        Pattern { lanes: self.lanes.map(|lane| lane & mask), zeros: self.zeros | !mask, ..self }
    }

    /// The same with no bit in both parts, so that they are put together by `or`: what lanes share above the zeros moves over.
    pub(super) fn disjoint(&self, bits: u32) -> Option<Pattern> {
        let mask = low(bits);
        if self.start != NONE {
            return self.folded().disjoint(bits);
        }
        if self.lanes.ones() & mask & !self.zeros == 0 {
            return Some(self.clone().within(bits));
        }
        let lower = low(self.shared_zeros());
        if self.lanes.varying() & mask & !lower != 0 {
            return None;
        }
        let lanes = self.lanes.map(|lane| lane & lower & mask);
        Some(Pattern { lanes, zeros: lower | !mask, start: NONE, ..self.clone() })
    }

    /// The number in more bits.
    pub(super) fn widened(&self, from: Type, to: u32) -> Pattern {
        if to <= from.bits {
            return self.clone().within(to);
        }
        let sign = 1u64.checked_shl(from.bits.wrapping_sub(1)).unwrap_or(0);
        let extended = |lanes: &Lanes| lanes.map(|lane| Type { bits: from.bits, signed: true }.number(lane) as u64);
        if self.start != NONE {
            // Nothing lies at the end of all that can be addressed.
            let inside = Pattern { start: NONE, ..self.clone() };
            return Pattern { start: self.start, ..inside.widened(from, to) };
        }
        match self.disjoint(from.bits) {
            Some(apart) if !from.signed => apart,
            Some(apart) if apart.zeros & sign != 0 => Pattern { lanes: extended(&apart.lanes), ..apart },
            Some(apart) => Pattern { zeros: apart.zeros & low(from.bits), ..apart },
            None => Pattern { lanes: extended(&self.lanes), zeros: low(self.shared_zeros()), ..self.clone() },
        }
        .within(to)
    }

    pub(super) fn plus(&self, other: &Pattern, bits: u32) -> Pattern {
        if self.start != NONE && other.start != NONE {
            return self.folded().plus(&other.folded(), bits);
        }
        let zeros = match (self.zeros, other.zeros) {
            (NONE, zeros) | (zeros, NONE) => zeros,
            _ => {
                let most = (!self.zeros).checked_add(!other.zeros);
                let above = most.map_or(0, |most| !low(64 - most.leading_zeros()));
                low(self.zeros.trailing_ones().min(other.zeros.trailing_ones())) | above
            }
        };
        let start = self.start & other.start;
        let lanes = self.lanes.zip(&other.lanes, u64::wrapping_add);
        let variable = match (self.variable, other.variable) {
            (Some(_), Some(_)) => None,
            (one, other) => one.or(other),
        };
        Pattern { lanes, zeros, variable, start, assumed: None }.within(bits)
    }

    pub(super) fn minus(&self, other: &Pattern, bits: u32) -> Pattern {
        if other.start != NONE {
            return self.folded().minus(&other.folded(), bits);
        }
        let zeros = match other.zeros {
            NONE => self.zeros,
            other => low(self.zeros.trailing_ones().min(other.trailing_ones())),
        };
        let lanes = self.lanes.zip(&other.lanes, u64::wrapping_sub);
        let variable = self.variable.filter(|_| other.variable.is_none());
        Pattern { lanes, zeros, variable, start: self.start, assumed: None }.within(bits)
    }

    /// Times a number that is known where the shared part is not; none where lanes would multiply what is not known.
    pub(super) fn times(&self, other: &Pattern, bits: u32) -> Option<Pattern> {
        let product = |lanes: &Lanes, by: &Lanes| lanes.zip(by, u64::wrapping_mul);
        if self.start != NONE || other.start != NONE {
            return self.folded().times(&other.folded(), bits);
        }
        let (one, factor) = match (self.is_exact(), other.is_exact()) {
            (true, true) => return Some(Pattern::exact(product(&self.lanes, &other.lanes)).within(bits)),
            (_, true) => (self, other),
            (true, _) => (other, self),
            _ if self.lanes.varying() | other.lanes.varying() == 0 => {
                let zeros = low(self.lowest_zeros() + other.lowest_zeros());
                return Some(Pattern::shared(zeros).within(bits));
            }
            _ => return self.times_bound(other, bits),
        };
        if factor.lanes.varying() != 0 {
            return one.times_bound(factor, bits);
        }
        let lanes = product(&one.lanes, &factor.lanes);
        let zeros = match factor.lanes {
            Lanes::Same(0) => u64::MAX,
            Lanes::Same(by) if by.is_power_of_two() => one.zeros << by.trailing_zeros() | low(by.trailing_zeros()),
            _ => {
                let most = u128::from(!one.zeros) * u128::from(factor.lanes.ones());
                let above = u64::try_from(most).map_or(0, |most| !low(64 - most.leading_zeros()));
                low(one.shared_zeros() + factor.lanes.ones().trailing_zeros()) | above
            }
        };
        Some(Pattern { lanes, ..Pattern::shared(zeros) }.within(bits))
    }

    /// Lanes that differ, times a number that they share and nobody knows.
    fn times_bound(&self, other: &Pattern, bits: u32) -> Option<Pattern> {
        let (varying, bound) = if self.lanes.varying() == 0 { (other, self) } else { (self, other) };
        let zeros = low(varying.lowest_zeros() + bound.lowest_zeros());
        let lanes = varying.lanes.map(|lane| lane.wrapping_mul(FAR));
        (bound.lanes.varying() == 0).then(|| Pattern { lanes, ..Pattern::shared(zeros) }.assuming().within(bits))
    }

    /// Lower bits that are 0 in every thread.
    fn lowest_zeros(&self) -> u32 {
        self.shared_zeros().min(self.lanes.ones().trailing_zeros())
    }

    pub(super) fn shifted_left(&self, by: u32, bits: u32) -> Pattern {
        let up = |number: u64| number.checked_shl(by).unwrap_or(0);
        let zeros = up(self.folded().zeros) | low(by);
        Pattern { lanes: self.lanes.map(up), ..Pattern::shared(zeros) }.within(bits)
    }

    pub(super) fn shifted_right(&self, by: u32, ty: Type) -> Option<Pattern> {
        let by = by.min(ty.bits);
        let signed = Type { bits: ty.bits, signed: true };
        let floored = |lane: u64| signed.number(lane).checked_shr(by).unwrap_or(0) as u64;
        if let Some(apart) = self.disjoint(ty.bits) {
            let sign = 1u64.checked_shl(ty.bits.wrapping_sub(1)).unwrap_or(0);
            let zeros = apart.zeros.checked_shr(by).unwrap_or(0);
            return Some(
                if !ty.signed || apart.is_exact() && apart.lanes.ones() & sign == 0 {
                    let down = |lane: u64| lane.checked_shr(by).unwrap_or(0);
                    Pattern { lanes: apart.lanes.map(down), ..Pattern::shared(zeros | !low(ty.bits - by)) }
                } else if apart.zeros & sign != 0 {
                    Pattern { lanes: apart.lanes.map(floored), ..Pattern::shared(zeros | !low(ty.bits - by)) }
                } else {
                    Pattern { lanes: apart.lanes.map(floored), ..Pattern::shared(zeros & low(ty.bits - by)) }
                }
                .within(ty.bits),
            );
        }
        // The shared part has nothing below the bits that go: both parts are shifted, each for itself.
        let left = self.shared_zeros().checked_sub(by)?;
        Some(Pattern { lanes: self.lanes.map(floored), ..Pattern::shared(low(left)) }.within(ty.bits))
    }

    /// Bits that a function of two makes. `masks` says that a 0 of either makes a 0.
    pub(super) fn bitwise(
        &self,
        other: &Pattern,
        bits: u32,
        masks: bool,
        of: impl Fn(u64, u64) -> u64,
    ) -> Option<Pattern> {
        if masks && let (Some(mask), false) = (other.number(), self.is_exact()) {
            // Below what is shared it does not matter how lanes differ above.
            let lower = low(self.shared_zeros());
            if mask & low(bits) & !lower == 0 {
                return Some(Pattern::exact(self.lanes.map(|lane| lane & mask)).within(bits));
            }
        }
        // Below what is shared an exclusive or, or an or, changes lanes alone: nothing is carried into them.
        for (one, small) in [(self, other), (other, self)].into_iter().filter(|_| !masks) {
            if small.is_exact() && !one.is_exact() && small.lanes.ones() & low(bits) & !low(one.shared_zeros()) == 0 {
                let lanes = one.lanes.zip(&small.lanes, |a, b| of(a, b & low(bits)));
                return Some(Pattern { lanes, ..one.clone() });
            }
        }
        let (a, b) = (self.disjoint(bits)?, other.disjoint(bits)?);
        if a.lanes.varying() & !b.zeros != 0 || b.lanes.varying() & !a.zeros != 0 {
            return None;
        }
        let open = if masks {
            a.lanes.ones() & !b.zeros | b.lanes.ones() & !a.zeros | !a.zeros & !b.zeros
        } else {
            !(a.zeros & b.zeros)
        };
        let lanes = a.lanes.zip(&b.lanes, |a, b| of(a, b) & !open);
        let variable = match (a.variable, b.variable) {
            (Some(_), Some(_)) => None,
            (one, other) => one.or(other),
        };
        Some(Pattern { lanes, variable, ..Pattern::shared(!open) }.within(bits))
    }

    /// What a register holds that got one or the other, all lanes of a warp the same one; none where lanes differ otherwise.
    pub(super) fn join(&self, other: &Pattern) -> Option<Pattern> {
        if self == other {
            return Some(self.clone());
        }
        if (self.start, self.variable) != (other.start, other.variable) && self.start & other.start != NONE {
            return self.folded().join(&other.folded());
        }
        let difference = other.lanes.zip(&self.lanes, u64::wrapping_sub);
        if difference.varying() != 0 {
            return None;
        }
        let variable = self.variable.filter(|_| self.variable == other.variable);
        // Each warp's difference joins what it shares.
        let apart = difference.ones();
        let zeros = if apart & !other.zeros == 0 && apart.leading_zeros() > 0 {
            other.zeros & !apart
        } else {
            low(other.zeros.trailing_ones().min(apart.trailing_zeros()))
        };
        let assumed = self.assumed.or(other.assumed);
        Some(Pattern { zeros: self.zeros & zeros, variable, assumed, ..self.clone() })
    }
}
