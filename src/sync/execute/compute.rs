//! Arithmetic on the numbers of one lane, and of all lanes at once.

use crate::simt::eval::number::{Arithmetic, Comparison, Type};
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Combine, Compute};
use crate::sync::value::Lanes;

/// An argument for all lanes.
#[derive(Clone, Copy)]
pub(super) enum Argument<'a> {
    Same(u64),
    Each(&'a [u64; LANES]),
}

impl<'a> Argument<'a> {
    pub(super) fn of(lanes: &'a Lanes) -> Argument<'a> {
        match lanes {
            Lanes::Same(word) => Argument::Same(word.bits),
            Lanes::Each(row) => Argument::Each(&row.bits),
        }
    }

    fn zip(self, other: Argument<'_>, of: impl Fn(u64, u64) -> u64) -> [u64; LANES] {
        let mut all = [0; LANES];
        match (self, other) {
            (Argument::Each(a), Argument::Each(b)) => {
                for lane in 0..LANES {
                    all[lane] = of(a[lane], b[lane]);
                }
            }
            (Argument::Each(a), Argument::Same(b)) => {
                for lane in 0..LANES {
                    all[lane] = of(a[lane], b);
                }
            }
            (Argument::Same(a), Argument::Each(b)) => {
                for lane in 0..LANES {
                    all[lane] = of(a, b[lane]);
                }
            }
            (Argument::Same(a), Argument::Same(b)) => all = [of(a, b); LANES],
        }
        all
    }
}

/// What an instruction gives in all lanes at once: the operations that addresses and roles are made of, as loops over numbers. None
/// for the others, which go lane by lane.
pub(super) fn apply_to_all(what: Compute, [a, b, c, _]: [Argument<'_>; 4]) -> Option<[u64; LANES]> {
    let keep = |ty: Type| if ty.bits >= 64 { u64::MAX } else { (1 << ty.bits) - 1 };
    // Copies of the sign above a number of fewer bits.
    let wide = |ty: Type| {
        let unused = if ty.signed { 64 - ty.bits.clamp(1, 64) } else { 0 };
        let kept = keep(ty);
        move |value: u64| ((value & kept) << unused) as i64 >> unused
    };
    Some(match what {
        Compute::Move(ty) => {
            let kept = keep(ty);
            a.zip(b, |a, _| a & kept)
        }
        Compute::Convert { to, from } => {
            let (kept, wide) = (keep(to), wide(from));
            a.zip(b, |a, _| wide(a) as u64 & kept)
        }
        Compute::Add { ty, subtract } => {
            let kept = keep(ty);
            match subtract {
                false => a.zip(b, |a, b| a.wrapping_add(b) & kept),
                true => a.zip(b, |a, b| a.wrapping_sub(b) & kept),
            }
        }
        Compute::Multiply { ty, to, adds } => {
            let (kept, wide) = (keep(to), wide(ty));
            let product = a.zip(b, |a, b| (wide(a) as u64).wrapping_mul(wide(b) as u64));
            let addend = if adds { c } else { Argument::Same(0) };
            Argument::Each(&product).zip(addend, |product, c| product.wrapping_add(c) & kept)
        }
        Compute::Arithmetic { what, ty } => {
            let kept = keep(ty);
            let by = |shift: u64| shift & 0xffff_ffff;
            match what {
                Arithmetic::And => a.zip(b, |a, b| a & b & kept),
                Arithmetic::Or => a.zip(b, |a, b| (a | b) & kept),
                Arithmetic::Xor => a.zip(b, |a, b| (a ^ b) & kept),
                Arithmetic::ShiftLeft => a.zip(b, |a, b| if by(b) < 64 { a << (by(b) & 63) & kept } else { 0 }),
                Arithmetic::ShiftRight => {
                    let wide = wide(ty);
                    let is_signed = ty.signed;
                    a.zip(b, |a, b| {
                        let (a, by) = (wide(a), by(b));
                        let shifted = if is_signed { a >> by.min(63) } else { (a as u64 >> (by & 63)) as i64 };
                        if is_signed || by < 64 { shifted as u64 & kept } else { 0 }
                    })
                }
                _ => return None,
            }
        }
        Compute::Compare { how, ty, combine: Combine::No } => {
            let (kept, wide) = (keep(ty), wide(ty));
            let (lowest, signed) = (if ty.signed { 1 << 63 } else { 0 }, wide);
            // Signed numbers in the order of unsigned ones.
            let order = move |value: u64| signed(value) as u64 ^ lowest;
            match how {
                Comparison::Equal => a.zip(b, |a, b| u64::from(a & kept == b & kept)),
                Comparison::NotEqual => a.zip(b, |a, b| u64::from(a & kept != b & kept)),
                Comparison::Less => a.zip(b, |a, b| u64::from(order(a) < order(b))),
                Comparison::LessOrEqual => a.zip(b, |a, b| u64::from(order(a) <= order(b))),
                Comparison::Greater => a.zip(b, |a, b| u64::from(order(a) > order(b))),
                Comparison::GreaterOrEqual => a.zip(b, |a, b| u64::from(order(a) >= order(b))),
                _ => return None,
            }
        }
        Compute::Select => {
            let either = a.zip(b, |a, b| a ^ b);
            let taken = Argument::Each(&either).zip(c, |either, c| either & (c & 1).wrapping_neg());
            Argument::Each(&taken).zip(b, |taken, b| taken ^ b)
        }
        _ => return None,
    })
}

/// What an instruction gives for some arguments; none where that is not defined.
#[inline]
pub(super) fn apply(what: Compute, n: &[u64; 4]) -> Option<u64> {
    let [a, b, c, _] = *n;
    let bits32 = Type { bits: 32, signed: false };
    Some(match what {
        Compute::Move(ty) => ty.mask(a),
        Compute::Convert { to, from } => to.mask(from.number(a) as u64),
        Compute::ToGeneric => SharedAddress::of(a).generic(),
        Compute::ToShared => SharedAddress::of(a).0,
        Compute::Add { ty, subtract: false } => ty.mask(a.wrapping_add(b)),
        Compute::Add { ty, subtract: true } => ty.mask(a.wrapping_sub(b)),
        Compute::Multiply { ty, to, adds } => {
            let product = ty.number(a).wrapping_mul(ty.number(b)) as u64;
            to.mask(product.wrapping_add(if adds { c } else { 0 }))
        }
        Compute::Arithmetic { what, ty } => what.apply(ty, n)?,
        Compute::Compare { how, ty, combine } => u64::from(combine.with(how.holds(ty, a, b)?, c)),
        Compute::CompareFloats { how, bits, combine } => u64::from(combine.with(how.holds(bits, a, b), c)),
        Compute::Select => {
            if c & 1 == 1 {
                a
            } else {
                b
            }
        }
        Compute::Funnel { left, wrap } => {
            let by = if wrap { c & 31 } else { c.min(32) };
            let both = bits32.mask(b) << 32 | bits32.mask(a);
            bits32.mask(if left { both.checked_shl(by as u32).unwrap_or(0) >> 32 } else { both >> by })
        }
        Compute::Permute => {
            let bytes = bits32.mask(b) << 32 | bits32.mask(a);
            (0..4).fold(0, |all, at| {
                let pick = c >> (4 * at);
                let byte = bytes >> (8 * (pick & 7)) & 0xff;
                let byte = if pick & 8 == 0 { byte } else { (byte >> 7) * 0xff };
                all | byte << (8 * at)
            })
        }
        Compute::Insert(ty) => {
            let (from, length) = (n[2] & 0xff, n[3] & 0xff);
            let field = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
            let field = field.checked_shl(from as u32).unwrap_or(0);
            ty.mask(b & !field | a.checked_shl(from as u32).unwrap_or(0) & field)
        }
        Compute::LeadingZeros(ty) => u64::from(ty.mask(a).leading_zeros() - (64 - ty.bits)),
        Compute::Reverse(ty) => ty.mask(a).reverse_bits() >> (64 - ty.bits),
        Compute::Mapa => {
            let address = SharedAddress::of(a);
            let mapped = SharedAddress::new(b, address.place());
            if SharedAddress::is_generic(a) { mapped.generic() } else { mapped.0 }
        }
        Compute::Rank => SharedAddress::of(a).rank(),
        Compute::IsShared => u64::from(SharedAddress::is_generic(a)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lanes at once is lane by lane.
    #[test]
    fn rows_are_their_lanes() {
        let mut state = 1u64;
        let mut next = || {
            state = crate::sync::value::opaque(state, [7]);
            state
        };
        let usual = [0, 1, 2, 31, 32, 63, 64, 65, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];
        let types = [8, 16, 32, 64].map(|bits| [false, true].map(|signed| Type { bits, signed }));
        for ty in types.into_iter().flatten() {
            let arithmetic = |what| Compute::Arithmetic { what, ty };
            let compare = |how| Compute::Compare { how, ty, combine: Combine::No };
            let to = Type { bits: (2 * ty.bits).min(64), signed: ty.signed };
            let mut ops = vec![Compute::Move(ty), Compute::Select, Compute::Convert { to, from: ty }];
            ops.push(Compute::Convert { to: Type { bits: 32, signed: false }, from: ty });
            ops.extend([false, true].map(|subtract| Compute::Add { ty, subtract }));
            ops.extend([(ty, true), (to, false), (to, true)].map(|(to, adds)| Compute::Multiply { ty, to, adds }));
            let shifts = [Arithmetic::ShiftLeft, Arithmetic::ShiftRight];
            ops.extend([Arithmetic::And, Arithmetic::Or, Arithmetic::Xor].into_iter().chain(shifts).map(arithmetic));
            let order = [Comparison::Less, Comparison::LessOrEqual, Comparison::Greater, Comparison::GreaterOrEqual];
            ops.extend([Comparison::Equal, Comparison::NotEqual].into_iter().chain(order).map(compare));
            for what in ops {
                let mut draw = || if next() % 2 == 0 { usual[next() as usize % usual.len()] } else { next() };
                let rows: [[u64; LANES]; 4] = std::array::from_fn(|_| std::array::from_fn(|_| draw()));
                let same = next() % 4;
                let argument = |at: usize| match same == at as u64 {
                    true => Argument::Same(rows[at][0]),
                    false => Argument::Each(&rows[at]),
                };
                let all = apply_to_all(what, std::array::from_fn(argument)).expect("an operation of rows");
                for lane in 0..LANES {
                    let of = |at: usize| rows[at][if same == at as u64 { 0 } else { lane }];
                    let one = apply(what, &std::array::from_fn(of));
                    assert_eq!(Some(all[lane]), one, "{what:?} {:x?}", rows.map(|row| row[lane]));
                }
            }
        }
    }

    #[test]
    fn what_arithmetic_does_not_have() {
        let bits32 = Type { bits: 32, signed: false };
        assert_eq!(apply(Compute::Funnel { left: true, wrap: true }, &[0x8000_0000, 1, 1, 0]), Some(3));
        assert_eq!(apply(Compute::Funnel { left: false, wrap: true }, &[2, 1, 1, 0]), Some(0x8000_0001));
        assert_eq!(apply(Compute::Permute, &[0x4433_2211, 0x8877_6655, 0x5410, 0]), Some(0x6655_2211));
        assert_eq!(apply(Compute::Insert(bits32), &[0b11, 0xf0, 0, 2]), Some(0xf3));
        assert_eq!(apply(Compute::LeadingZeros(bits32), &[1, 0, 0, 0]), Some(31));
        assert_eq!(apply(Compute::Reverse(bits32), &[1, 0, 0, 0]), Some(0x8000_0000));
        let mapped = apply(Compute::Mapa, &[SharedAddress::new(0, 1040).0, 3, 0, 0]).unwrap();
        assert_eq!((SharedAddress(mapped).rank(), SharedAddress(mapped).place()), (3, 1040));
    }
}
