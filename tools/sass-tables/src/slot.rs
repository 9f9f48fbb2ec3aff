//! Number slots: which bits make a number of the text, and how it is spelled.

use crate::text::{Kind, Token};

/// How a slot spells its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// A linear number, spelled by its kind.
    Linear(Kind),
    /// The bits of an IEEE float of 16, 32 bits, of a bfloat16, or the upper half of a 64-bit one.
    F16,
    Bf16,
    F32,
    F64High,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub format: Format,
    /// (bit of the word, weight), ascending by bit.
    pub bits: Vec<(u8, i64)>,
    pub add: i64,
}

impl Slot {
    pub fn eval(&self, word: u128) -> i64 {
        self.bits.iter().fold(
            self.add,
            |sum, &(bit, weight)| {
                if word >> bit & 1 == 1 { sum.wrapping_add(weight) } else { sum }
            },
        )
    }

    /// Whether it is the number of a register.
    pub fn is_register(&self) -> bool {
        matches!(self.format, Format::Linear(Kind::R | Kind::Ur | Kind::P | Kind::Up))
    }

    pub fn mask(&self) -> u128 {
        self.bits.iter().fold(0, |mask, &(bit, _)| mask | 1 << bit)
    }

    /// Puts raw field bits into a word, lowest bit first.
    pub fn put(&self, word: u128, raw: u128) -> u128 {
        self.bits.iter().enumerate().fold(word, |word, (i, &(bit, _))| word & !(1 << bit) | (raw >> i & 1) << bit)
    }

    pub fn raw(&self, word: u128) -> u128 {
        self.bits.iter().enumerate().fold(0, |raw, (i, &(bit, _))| raw | (word >> bit & 1) << i)
    }

    /// A word in which the slot has this value, if some setting of its bits gives it.
    pub fn set(&self, word: u128, value: i64) -> Option<u128> {
        let mut order: Vec<(u8, i64)> = self.bits.clone();
        order.sort_by_key(|&(_, w)| std::cmp::Reverse(w.unsigned_abs()));
        let negative: i64 = order.iter().map(|&(_, w)| w.min(0)).sum();
        let mut rest = value.wrapping_sub(self.add);
        let mut out = word & !self.mask();
        let mut low = negative;
        // Greedy from the heaviest weight: right for every sum of distinct powers of two, a negative top weight included.
        for (bit, weight) in order {
            if weight < 0 {
                low -= weight;
                if rest < low {
                    out |= 1 << bit;
                    rest = rest.wrapping_sub(weight);
                }
            } else if rest >= weight {
                out |= 1 << bit;
                rest -= weight;
            }
        }
        (rest == 0).then_some(out)
    }

    pub fn spell(&self, word: u128, urz: i64, out: &mut String) {
        let value = self.eval(word);
        match self.format {
            Format::Linear(kind) => spell_linear(kind, value, urz, out),
            Format::F32 => spell(f64::from(f32::from_bits(value as u32)), value as u64, 23, 8, out),
            Format::F64High => spell(f64::from_bits((value as u64) << 32), (value as u64) << 32, 52, 11, out),
            Format::Bf16 => spell(f64::from(f32::from_bits((value as u32) << 16)), value as u64, 7, 8, out),
            Format::F16 => spell(ptxinspect::sass::half(value as u16), value as u64, 10, 5, out),
        }
    }

    /// Whether a token is what this slot prints for this word.
    pub fn explains(&self, word: u128, token: &Token, urz: i64) -> bool {
        match (token, self.format) {
            (Token::Num(kind, value), Format::Linear(mine)) => {
                let fits = *kind == mine || (mine == Kind::Wide && *kind == Kind::Hex && *value >= 0);
                fits && self.eval(word) == *value
            }
            (Token::Float(_), Format::Linear(_)) | (Token::Num(..), _) | (Token::Lit(_), _) => false,
            (Token::Float(text), _) => {
                let mut mine = String::new();
                self.spell(word, urz, &mut mine);
                mine == *text
            }
        }
    }
}

fn spell(value: f64, bits: u64, fraction: u32, exponent: u32, out: &mut String) {
    let exp = bits >> fraction & ((1 << exponent) - 1);
    let frac = bits & ((1 << fraction) - 1);
    let nan = (exp == (1 << exponent) - 1 && frac != 0).then_some(frac >> (fraction - 1) & 1 == 1);
    ptxinspect::sass::spell_float(value, nan, bits >> (fraction + exponent) & 1 == 1, out);
}

fn spell_linear(kind: Kind, value: i64, urz: i64, out: &mut String) {
    use std::fmt::Write;
    let prefix = match kind {
        Kind::R => "R",
        Kind::Ur => "UR",
        Kind::P => "P",
        Kind::Up => "UP",
        Kind::B => "B",
        Kind::Sb => "SB",
        Kind::Target => "@",
        Kind::Hex | Kind::Wide | Kind::Set => "",
    };
    out.push_str(prefix);
    match kind {
        Kind::R if value == 255 => out.push('Z'),
        Kind::Ur if value == urz => out.push('Z'),
        Kind::P | Kind::Up if value == 7 => out.push('T'),
        Kind::Hex | Kind::Target => {
            let sign = if value < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{:#x}", value.unsigned_abs());
        }
        Kind::Wide => {
            let _ = write!(out, "{:#x}", value as u64);
        }
        Kind::Set => {
            out.push('{');
            let mut first = true;
            for bit in (0..63).rev().filter(|bit| value >> bit & 1 == 1) {
                if !first {
                    out.push(',');
                }
                first = false;
                let _ = write!(out, "{bit}");
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}
