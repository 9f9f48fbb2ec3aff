//! Arithmetic of PTX on single numbers.

/// How wide a type is and whether it has a sign.
#[derive(Clone, Copy)]
pub(super) struct Type {
    pub bits: u32,
    pub signed: bool,
}

impl Type {
    pub fn of(word: &str) -> Option<Type> {
        let bits = word.get(1..)?.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits));
        match word.as_bytes().first()? {
            b'u' | b'b' => Some(Type { bits: bits?, signed: false }),
            b's' => Some(Type { bits: bits?, signed: true }),
            _ if word == "pred" => Some(Type { bits: 1, signed: false }),
            _ => None,
        }
    }

    pub fn mask(self, value: u64) -> u64 {
        if self.bits >= 64 { value } else { value & ((1 << self.bits) - 1) }
    }

    /// The number that the bits stand for.
    pub fn number(self, value: u64) -> i128 {
        let value = self.mask(value);
        if self.signed && self.bits < 64 && value >> (self.bits - 1) & 1 == 1 {
            i128::from(value) - (1 << self.bits)
        } else if self.signed {
            i128::from(value as i64)
        } else {
            i128::from(value)
        }
    }
}

/// Whether a comparison of `setp` holds; none for one that is not known.
pub(super) fn compare(comparison: &str, ty: Type, a: u64, b: u64) -> Option<bool> {
    let unsigned = Type { signed: false, ..ty };
    let (x, y) = (ty.number(a), ty.number(b));
    let (ux, uy) = (unsigned.number(a), unsigned.number(b));
    Some(match comparison {
        "eq" => ux == uy,
        "ne" => ux != uy,
        "lt" => x < y,
        "le" => x <= y,
        "gt" => x > y,
        "ge" => x >= y,
        "lo" => ux < uy,
        "ls" => ux <= uy,
        "hi" => ux > uy,
        "hs" => ux >= uy,
        _ => return None,
    })
}

/// What an instruction of integers gives; none for one that is not known.
pub(super) fn arithmetic(mnemonic: &str, ty: Type, n: &[u64]) -> Option<u64> {
    let a = *n.first()?;
    let b = n.get(1).copied();
    let (x, y) = (ty.number(a), b.map(|b| ty.number(b)));
    let shift = b.map(|b| u32::try_from(b & 0xffff_ffff).unwrap_or(u32::MAX));
    Some(ty.mask(match mnemonic {
        "and" => a & b?,
        "or" => a | b?,
        "xor" => a ^ b?,
        "not" => !a,
        "neg" => x.wrapping_neg() as u64,
        "abs" => x.unsigned_abs() as u64,
        "popc" => u64::from(ty.mask(a).count_ones()),
        "shl" => a.checked_shl(shift?).unwrap_or(0),
        "shr" => x.checked_shr(shift?.min(127))? as u64,
        "min" => x.min(y?) as u64,
        "max" => x.max(y?) as u64,
        "div" => x.checked_div(y?)? as u64,
        "rem" => x.checked_rem(y?)? as u64,
        "bfe" => {
            let (from, length) = (*n.get(1)? & 0xff, *n.get(2)? & 0xff);
            if ty.signed || length >= 64 {
                return None;
            }
            ty.mask(a).checked_shr(u32::try_from(from).ok()?).unwrap_or(0) & ((1 << length) - 1)
        }
        "lop3" => {
            let (b, c, table) = (b?, *n.get(2)?, *n.get(3)?);
            (0..8).fold(0, |all, row| {
                let pick = |bits: u64, yes: bool| if yes { bits } else { !bits };
                if table >> row & 1 == 0 {
                    return all;
                }
                all | pick(a, row & 4 != 0) & pick(b, row & 2 != 0) & pick(c, row & 1 != 0)
            })
        }
        _ => return None,
    }))
}
