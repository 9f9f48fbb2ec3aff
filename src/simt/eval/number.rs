//! Arithmetic of PTX on single numbers.

/// How wide a type is and whether it has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    pub bits: u32,
    pub signed: bool,
}

impl Type {
    pub fn of(word: &str) -> Option<Type> {
        let (&first, rest) = word.as_bytes().split_first()?;
        let signed = match first {
            b'u' | b'b' => false,
            b's' => true,
            _ if word == "pred" => return Some(Type { bits: 1, signed: false }),
            _ => return None,
        };
        let bits = match rest {
            b"8" => 8,
            b"16" => 16,
            b"32" => 32,
            b"64" => 64,
            _ => return None,
        };
        Some(Type { bits, signed })
    }

    #[inline]
    pub fn mask(self, value: u64) -> u64 {
        if self.bits >= 64 { value } else { value & ((1 << self.bits) - 1) }
    }

    /// The number that the bits stand for.
    #[inline]
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

/// A comparison of `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Lower,
    LowerOrSame,
    Higher,
    HigherOrSame,
    Other,
}

impl Comparison {
    pub fn of(word: &str) -> Comparison {
        match word {
            "eq" => Comparison::Equal,
            "ne" => Comparison::NotEqual,
            "lt" => Comparison::Less,
            "le" => Comparison::LessOrEqual,
            "gt" => Comparison::Greater,
            "ge" => Comparison::GreaterOrEqual,
            "lo" => Comparison::Lower,
            "ls" => Comparison::LowerOrSame,
            "hi" => Comparison::Higher,
            "hs" => Comparison::HigherOrSame,
            _ => Comparison::Other,
        }
    }

    /// Whether it holds; none for one that is not known.
    #[inline]
    pub fn holds(self, ty: Type, a: u64, b: u64) -> Option<bool> {
        let (ux, uy) = (ty.mask(a), ty.mask(b));
        let (x, y) = (ty.number(a), ty.number(b));
        Some(match self {
            Comparison::Equal => ux == uy,
            Comparison::NotEqual => ux != uy,
            Comparison::Less => x < y,
            Comparison::LessOrEqual => x <= y,
            Comparison::Greater => x > y,
            Comparison::GreaterOrEqual => x >= y,
            Comparison::Lower => ux < uy,
            Comparison::LowerOrSame => ux <= uy,
            Comparison::Higher => ux > uy,
            Comparison::HigherOrSame => ux >= uy,
            Comparison::Other => return None,
        })
    }
}

/// A comparison of `setp` of floats: with which of less, equal, greater and unordered it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatComparison(u8);

impl FloatComparison {
    const LESS: u8 = 1;
    const EQUAL: u8 = 2;
    const GREATER: u8 = 4;
    const UNORDERED: u8 = 8;

    pub fn of(word: &str) -> Option<FloatComparison> {
        let (word, unordered) = match word {
            "num" => return Some(FloatComparison(Self::LESS | Self::EQUAL | Self::GREATER)),
            "nan" => return Some(FloatComparison(Self::UNORDERED)),
            _ => word.strip_suffix('u').map_or((word, 0), |word| (word, Self::UNORDERED)),
        };
        let ordered = match word {
            "eq" => Self::EQUAL,
            "ne" => Self::LESS | Self::GREATER,
            "lt" => Self::LESS,
            "le" => Self::LESS | Self::EQUAL,
            "gt" => Self::GREATER,
            "ge" => Self::GREATER | Self::EQUAL,
            _ => return None,
        };
        Some(FloatComparison(ordered | unordered))
    }

    /// Whether it holds for numbers of 32 or 64 bits.
    #[inline]
    pub fn holds(self, bits: u32, a: u64, b: u64) -> bool {
        let number = |of: u64| if bits == 64 { f64::from_bits(of) } else { f64::from(f32::from_bits(of as u32)) };
        let order = match number(a).partial_cmp(&number(b)) {
            Some(std::cmp::Ordering::Less) => Self::LESS,
            Some(std::cmp::Ordering::Equal) => Self::EQUAL,
            Some(std::cmp::Ordering::Greater) => Self::GREATER,
            None => Self::UNORDERED,
        };
        self.0 & order != 0
    }
}

/// An instruction of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    And,
    Or,
    Xor,
    Not,
    Negate,
    Absolute,
    CountOnes,
    ShiftLeft,
    ShiftRight,
    Least,
    Most,
    /// The least of both, or zero where that is below it.
    LeastOrZero,
    /// The most of both, or zero where that is below it.
    MostOrZero,
    Divide,
    Remainder,
    /// The upper half of a product.
    High,
    Extract,
    Table,
}

impl Arithmetic {
    /// The instruction of a name, none where a modifier changes what it does in a way that is not followed.
    pub fn of<'m>(mnemonic: &str, modifiers: impl Iterator<Item = &'m str>) -> Option<Arithmetic> {
        let mut others = modifiers.filter(|word| Type::of(word).is_none());
        match (mnemonic, others.next(), others.next()) {
            (_, None, None) => {}
            ("min", Some("relu"), None) => return Some(Arithmetic::LeastOrZero),
            ("max", Some("relu"), None) => return Some(Arithmetic::MostOrZero),
            _ => return None,
        }
        Some(match mnemonic {
            "and" => Arithmetic::And,
            "or" => Arithmetic::Or,
            "xor" => Arithmetic::Xor,
            "not" => Arithmetic::Not,
            "neg" => Arithmetic::Negate,
            "abs" => Arithmetic::Absolute,
            "popc" => Arithmetic::CountOnes,
            "shl" => Arithmetic::ShiftLeft,
            "shr" => Arithmetic::ShiftRight,
            "min" => Arithmetic::Least,
            "max" => Arithmetic::Most,
            "div" => Arithmetic::Divide,
            "rem" => Arithmetic::Remainder,
            "bfe" => Arithmetic::Extract,
            "lop3" => Arithmetic::Table,
            _ => return None,
        })
    }

    /// How many numbers it takes at least.
    pub fn arguments(self) -> usize {
        match self {
            Arithmetic::Not | Arithmetic::Negate | Arithmetic::Absolute | Arithmetic::CountOnes => 1,
            Arithmetic::Extract => 3,
            Arithmetic::Table => 4,
            _ => 2,
        }
    }

    /// What it gives; none where that is not defined.
    #[inline]
    pub fn apply(self, ty: Type, n: &[u64; 4]) -> Option<u64> {
        let [a, b, c, d] = *n;
        let shift = || u32::try_from(b & 0xffff_ffff).unwrap_or(u32::MAX);
        let (x, y) = (|| ty.number(a), || ty.number(b));
        Some(ty.mask(match self {
            Arithmetic::And => a & b,
            Arithmetic::Or => a | b,
            Arithmetic::Xor => a ^ b,
            Arithmetic::Not => !a,
            Arithmetic::Negate => x().wrapping_neg() as u64,
            Arithmetic::Absolute => x().unsigned_abs() as u64,
            Arithmetic::CountOnes => u64::from(ty.mask(a).count_ones()),
            Arithmetic::ShiftLeft => a.checked_shl(shift()).unwrap_or(0),
            Arithmetic::ShiftRight => x().checked_shr(shift().min(127))? as u64,
            Arithmetic::Least => x().min(y()) as u64,
            Arithmetic::Most => x().max(y()) as u64,
            Arithmetic::LeastOrZero => x().min(y()).max(0) as u64,
            Arithmetic::MostOrZero => x().max(y()).max(0) as u64,
            Arithmetic::Divide => x().checked_div(y())? as u64,
            Arithmetic::Remainder => x().checked_rem(y())? as u64,
            Arithmetic::High if ty.signed => (x().checked_mul(y())? >> ty.bits) as u64,
            Arithmetic::High => ((u128::from(ty.mask(a)) * u128::from(ty.mask(b))) >> ty.bits) as u64,
            Arithmetic::Extract => {
                // Past the top, and past the field, there are copies of its sign, or zeros.
                let (from, length) = ((b & 0xff) as u32, (c & 0xff) as u32);
                let field = x().checked_shr(from.min(127))?;
                let kept = length.min(64);
                let low = field & ((1 << kept) - 1);
                let top = from.saturating_add(length).saturating_sub(1).min(ty.bits.saturating_sub(1));
                let is_negative = ty.signed && length > 0 && ty.mask(a) >> top & 1 == 1;
                (if is_negative { low | !((1 << kept) - 1) } else { low }) as u64
            }
            Arithmetic::Table => (0..8).fold(0, |all, row| {
                let pick = |bits: u64, yes: bool| if yes { bits } else { !bits };
                if d >> row & 1 == 0 {
                    return all;
                }
                all | pick(a, row & 4 != 0) & pick(b, row & 2 != 0) & pick(c, row & 1 != 0)
            }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_that_change_a_result_are_followed_or_refused() {
        let of = |mnemonic: &str, modifiers: &str| Arithmetic::of(mnemonic, modifiers.split('.'));
        let ty = Type { bits: 32, signed: true };
        let below = |number: i32| u64::from(number as u32);
        let most = of("max", "relu.s32").expect("it is followed");
        assert_eq!(most.apply(ty, &[below(-3), below(-2), 0, 0]), Some(0));
        assert_eq!(most.apply(ty, &[below(-3), 7, 0, 0]), Some(7));
        assert_eq!(of("min", "relu.s32").and_then(|least| least.apply(ty, &[below(-3), 7, 0, 0])), Some(0));
        assert_eq!(of("max", "s32").and_then(|most| most.apply(ty, &[below(-3), below(-2), 0, 0])), Some(below(-2)));
        assert_eq!((of("max", "s16x2"), of("max", "xorsign.abs.s32"), of("lop3", "or.b32")), (None, None, None));
    }

    #[test]
    fn floats_compare_in_one_of_four_ways() {
        let holds = |how: &str, a: f32, b: f32| {
            let found = FloatComparison::of(how).map(|how| how.holds(32, a.to_bits().into(), b.to_bits().into()));
            found.expect("it is a comparison")
        };
        assert!(holds("eq", -0.0, 0.0) && !holds("neu", -0.0, 0.0));
        assert!(holds("lt", -1.0, 0.0) && holds("ge", 2.0, 2.0) && holds("num", 1.0, 2.0));
        let ordered = ["eq", "ne", "lt", "le", "gt", "ge", "num"];
        assert!(ordered.iter().all(|how| !holds(how, f32::NAN, 0.0)));
        assert!(["equ", "neu", "ltu", "leu", "gtu", "geu", "nan"].iter().all(|how| holds(how, f32::NAN, 0.0)));
        assert_eq!(FloatComparison::of("lo"), None);
    }

    #[test]
    fn fields_are_extracted_with_their_sign() {
        let of = |ty: &str, a: u64, from: u64, length: u64| {
            Arithmetic::Extract.apply(Type::of(ty).expect("a type"), &[a, from, length, 0])
        };
        assert_eq!(of("u32", 0xabcd_ef01, 8, 8), Some(0xef));
        assert_eq!(of("u32", 0x8000_0000, 28, 8), Some(8));
        assert_eq!(of("s32", 0b1000, 3, 1), Some(0xffff_ffff));
        assert_eq!(of("s32", 0b0111, 3, 1), Some(0));
        assert_eq!(of("s32", 0x8000_0000, 28, 8), Some(0xffff_fff8));
        assert_eq!(of("s32", u64::MAX, 4, 0), Some(0));
        assert_eq!(of("s64", 1 << 63, 63, 255), Some(u64::MAX));
        assert_eq!(of("u64", u64::MAX, 0, 255), Some(u64::MAX));
        assert_eq!(of("u32", u64::MAX, 200, 4), Some(0));
    }
}
