//! Writing a line of text: pieces gather in a small buffer and go to the string at once.
//!
//! Pieces are short, and there are a dozen of them in a line: copying sixteen bytes, of which only some count, is many times
//! faster than appending each piece to a string.

use super::blob;
use super::decode::{Number, kind};
use super::float::{half, spell_float};

/// Bytes the buffer holds.
const ROOM: usize = 256;
/// The longest piece that is written without asking how much room is left.
const PIECE: usize = 24;

/// 0 to 255 in decimal: three digits, then how many of them count.
static DECIMAL: [[u8; 4]; 256] = {
    let mut table = [[0u8; 4]; 256];
    let mut i = 0;
    while i < 256 {
        let (a, b, c) = ((i / 100) as u8, (i / 10 % 10) as u8, (i % 10) as u8);
        table[i] = match (a, b) {
            (0, 0) => [b'0' + c, 0, 0, 1],
            (0, _) => [b'0' + b, b'0' + c, 0, 2],
            _ => [b'0' + a, b'0' + b, b'0' + c, 3],
        };
        i += 1;
    }
    table
};

/// The digits of a byte in hexadecimal.
static HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0u8; 2]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [DIGITS[i >> 4], DIGITS[i & 15]];
        i += 1;
    }
    table
};

/// A line on its way into a string.
pub(super) struct Line<'a> {
    out: &'a mut String,
    buf: [u8; ROOM],
    len: usize,
}

impl<'a> Line<'a> {
    pub fn new(out: &'a mut String) -> Line<'a> {
        Line { out, buf: [0; ROOM], len: 0 }
    }

    /// Hands what was written to the string, which may then be written to directly.
    pub fn flush(&mut self) -> &mut String {
        let written = self.buf.get(..self.len).unwrap_or(&[]);
        self.out.push_str(std::str::from_utf8(written).unwrap_or("?"));
        self.len = 0;
        self.out
    }

    /// Appends the first `len` bytes of a piece.
    #[inline]
    fn put<const N: usize>(&mut self, piece: &[u8; N], len: usize) {
        if let Some(room) = self.buf.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *room = *piece;
            self.len += len;
        }
        if self.len > ROOM - PIECE {
            self.flush();
        }
    }

    /// A literal of the tables.
    #[inline]
    pub fn literal(&mut self, len: usize, at: u32) {
        match blob::sixteen_at(at) {
            Some(piece) if len <= 16 => self.put(piece, len),
            _ => {
                let text = std::str::from_utf8(blob::bytes_at(at, len)).unwrap_or("");
                self.flush().push_str(text);
            }
        }
    }

    /// A text of one to three bytes.
    #[inline]
    pub fn short(&mut self, text: &str) {
        match *text.as_bytes() {
            [a] => self.put(&[a], 1),
            [a, b] => self.put(&[a, b], 2),
            [a, b, c] => self.put(&[a, b, c], 3),
            _ => self.flush().push_str(text),
        }
    }

    #[inline]
    fn decimal(&mut self, value: i64) {
        match DECIMAL.get(value as usize) {
            Some(digits) => self.put(digits, usize::from(digits[3])),
            None => {
                use std::fmt::Write;
                let _ = write!(self.flush(), "{value}");
            }
        }
    }

    /// `0x10`, `-0x10`
    #[inline]
    pub fn hex(&mut self, value: i64) {
        if value < 0 {
            self.put(b"-", 1);
        }
        self.unsigned(value.unsigned_abs());
    }

    /// `0x10`
    #[inline]
    fn unsigned(&mut self, value: u64) {
        let digits = (67 - (value | 1).leading_zeros() as usize) / 4;
        // All sixteen digits, shifted so that the first that counts comes first.
        let bytes = (value << (64 - 4 * digits)).to_be_bytes();
        let mut piece = *b"0x0000000000000000";
        for (to, byte) in piece[2..].chunks_exact_mut(2).zip(bytes).take(digits.div_ceil(2)) {
            to.copy_from_slice(&HEX[usize::from(byte)]);
        }
        self.put(&piece, 2 + digits);
    }

    fn float(&mut self, value: f64, bits: u64, fraction: u32, exponent: u32) {
        let exp = bits >> fraction & ((1 << exponent) - 1);
        let frac = bits & ((1 << fraction) - 1);
        let nan = (exp == (1 << exponent) - 1 && frac != 0).then_some(frac >> (fraction - 1) & 1 == 1);
        spell_float(value, nan, bits >> (fraction + exponent) & 1 == 1, self.flush());
    }

    #[inline]
    pub fn number(&mut self, number: Number) {
        let Number { kind, value, .. } = number;
        let bits = value as u64;
        match kind {
            kind::R if value == 255 => self.put(b"RZ", 2),
            kind::R => {
                self.put(b"R", 1);
                self.decimal(value);
            }
            kind::UR if value == i64::from(number.zero) => self.put(b"URZ", 3),
            kind::UR => {
                self.put(b"UR", 2);
                self.decimal(value);
            }
            kind::HEX | kind::TARGET => self.hex(value),
            kind::P if value == 7 => self.put(b"PT", 2),
            kind::P => {
                self.put(b"P", 1);
                self.decimal(value);
            }
            kind::UP if value == 7 => self.put(b"UPT", 3),
            kind::UP => {
                self.put(b"UP", 2);
                self.decimal(value);
            }
            kind::F32 => self.float(f64::from(f32::from_bits(bits as u32)), bits, 23, 8),
            kind::B | kind::SB => {
                self.short(if kind == kind::B { "B" } else { "SB" });
                self.decimal(value);
            }
            kind::SET => {
                let mut between = "{";
                for bit in (0..63).rev().filter(|bit| value >> bit & 1 == 1) {
                    self.short(between);
                    self.decimal(bit);
                    between = ",";
                }
                self.short(if value == 0 { "{}" } else { "}" });
            }
            kind::F16 => self.float(half(bits as u16), bits, 10, 5),
            kind::BF16 => self.float(f64::from(f32::from_bits((bits as u32) << 16)), bits, 7, 8),
            kind::F64 => self.float(f64::from_bits(bits << 32), bits << 32, 52, 11),
            kind::HEX64 => self.unsigned(bits),
            _ => self.decimal(value),
        }
    }
}
