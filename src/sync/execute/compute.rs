//! Arithmetic on the numbers of one lane.

use crate::simt::eval::number::Type;
use crate::sync::machine::SharedAddress;
use crate::sync::program::Compute;

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
