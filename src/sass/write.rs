//! Writing a line of text.
//!
//! Pieces are short, and there are a dozen of them in a line: copying sixteen bytes, of which only some count, is many times
//! faster than appending each piece to a string.

use super::blob;
use super::decode::kind;
use super::float::{half, spell_float};

/// Bytes that no line is as long as.
const LINE: usize = 256;
/// Bytes of the longest piece.
pub(super) const PIECE: usize = 16;
/// Bytes that any line has room in, its last piece copied whole.
pub(super) const ROOM: usize = LINE + PIECE;

/// What small numbers are called: a name, and in the last byte its length.
type Names = [u64; 256];

/// Tables of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum NameTable {
    /// No number: nothing is written.
    Nothing,
    R,
    /// Where UR63 is URZ.
    Ur63,
    /// Where UR255 is.
    Ur255,
    P,
    Up,
    B,
    Sb,
    Decimal,
    Hex,
}

/// By [`NameTable`]; sixteen, so that no number of one needs to be checked.
static NAMES: [Names; 16] = [
    [0; 256],
    names(b"R", 255, b'Z'),
    names(b"UR", 63, b'Z'),
    names(b"UR", 255, b'Z'),
    names(b"P", 7, b'T'),
    names(b"UP", 7, b'T'),
    names(b"B", 256, 0),
    names(b"SB", 256, 0),
    names(b"", 256, 0),
    hex_names(),
    [0; 256],
    [0; 256],
    [0; 256],
    [0; 256],
    [0; 256],
    [0; 256],
];

/// A prefix with each number behind it; with a letter where it is a certain one.
const fn names(prefix: &[u8], special: usize, letter: u8) -> Names {
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let (mut name, mut len) = ([0u8; 8], 0);
        while len < prefix.len() {
            name[len] = prefix[len];
            len += 1;
        }
        if value == special {
            name[len] = letter;
            len += 1;
        } else {
            let mut unit = 100;
            while unit > 0 {
                if value >= unit || unit == 1 {
                    name[len] = b'0' + (value / unit % 10) as u8;
                    len += 1;
                }
                unit /= 10;
            }
        }
        name[7] = len as u8;
        table[value] = u64::from_le_bytes(name);
        value += 1;
    }
    table
}

/// `0x0` to `0xff`.
const fn hex_names() -> Names {
    let digits = b"0123456789abcdef";
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let (high, low) = (digits[value / 16], digits[value % 16]);
        let name = if value < 16 { [b'0', b'x', low, 0, 0, 0, 0, 3] } else { [b'0', b'x', high, low, 0, 0, 0, 4] };
        table[value] = u64::from_le_bytes(name);
        value += 1;
    }
    table
}

impl NameTable {
    /// That of a kind of number; none for numbers that are no names.
    pub fn of(kind: u8, zero: u8) -> Option<NameTable> {
        Some(match kind {
            kind::R => NameTable::R,
            kind::UR if zero == 63 => NameTable::Ur63,
            kind::UR if zero == 255 => NameTable::Ur255,
            kind::P => NameTable::P,
            kind::UP => NameTable::Up,
            kind::B => NameTable::B,
            kind::SB => NameTable::Sb,
            kind::UR
            | kind::HEX
            | kind::TARGET
            | kind::SET
            | kind::F16
            | kind::BF16
            | kind::F32
            | kind::F64
            | kind::HEX64 => return None,
            _ => NameTable::Decimal,
        })
    }
}

/// The hexadecimal digits of 32 bits: each half-byte gets a byte, all at once.
#[inline(always)]
fn eight_digits(bits: u64) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = (bits << 16 | bits) & 0x0000_ffff_0000_ffff;
    let spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread << 4 | spread) & (0x0f * ONES);
    let letters = (spread + 0x06 * ONES) >> 4 & ONES;
    (spread + 0x30 * ONES + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// A line on its way.
pub(super) struct Line<'a> {
    room: &'a mut [u8; ROOM],
    len: usize,
}

impl<'a> Line<'a> {
    #[inline]
    pub fn new(room: &'a mut [u8; ROOM]) -> Line<'a> {
        Line { room, len: 0 }
    }

    /// How much was written.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// What was written.
    pub fn written(&self) -> &[u8] {
        self.room.get(..self.len).unwrap_or(&[])
    }

    /// Appends the first `len` bytes of a piece, which is no longer than the longest. There is always room: no line is half as long.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, piece: &[u8; N], len: usize) {
        let at = self.len % LINE;
        // An array, so that it is copied where it stands and not by a call.
        if let Some(room) = self.room.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *room = *piece;
        }
        self.len = at + len;
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// A literal of the tables.
    #[inline]
    pub fn literal(&mut self, len: usize, at: u32) {
        match blob::sixteen_at(at) {
            Some(piece) if len <= 16 => self.put(piece, len),
            _ => self.bytes(blob::bytes_at(at, len)),
        }
    }

    /// What a number is called by a table.
    #[inline(always)]
    pub fn name(&mut self, table: u8, value: u8) {
        let name = NAMES[usize::from(table) % NAMES.len()][usize::from(value)];
        self.put(&name.to_le_bytes(), (name >> 56) as usize);
    }

    /// `0x10`, `-0x10`
    #[inline(always)]
    pub fn hex(&mut self, value: i64) {
        if value < 0 {
            self.put(b"-", 1);
        }
        match u8::try_from(value.unsigned_abs()) {
            Ok(value) => self.name(NameTable::Hex as u8, value),
            Err(_) => self.unsigned(value.unsigned_abs()),
        }
    }

    /// `0x10`
    #[inline(always)]
    fn unsigned(&mut self, value: u64) {
        self.put(b"0x", 2);
        let digits = (67 - (value | 1).leading_zeros() as usize) / 4;
        // Shifted so that the first digit that counts comes first.
        let value = value << (64 - 4 * digits);
        self.put(&eight_digits(value >> 32), digits.min(8));
        if digits > 8 {
            self.put(&eight_digits(value & 0xffff_ffff), digits - 8);
        }
    }

    fn float(&mut self, value: f64, bits: u64, fraction: u32, exponent: u32) {
        let exp = bits >> fraction & ((1 << exponent) - 1);
        let frac = bits & ((1 << fraction) - 1);
        let nan = (exp == (1 << exponent) - 1 && frac != 0).then_some(frac >> (fraction - 1) & 1 == 1);
        let mut text = String::new();
        spell_float(value, nan, bits >> (fraction + exponent) & 1 == 1, &mut text);
        self.bytes(text.as_bytes());
    }

    /// A number of any kind, with the value that a uniform register spells `URZ`.
    pub fn number(&mut self, kind: u8, zero: u8, value: i64) {
        if let Some(table) = NameTable::of(kind, zero)
            && let Ok(value) = u8::try_from(value)
        {
            self.name(table as u8, value);
            return;
        }
        let bits = value as u64;
        match kind {
            kind::HEX | kind::TARGET => self.hex(value),
            kind::F32 => self.float(f64::from(f32::from_bits(bits as u32)), bits, 23, 8),
            kind::SET => {
                let mut between = b'{';
                for bit in (0..63u8).rev().filter(|bit| value >> bit & 1 == 1) {
                    self.put(&[between], 1);
                    self.name(NameTable::Decimal as u8, bit);
                    between = b',';
                }
                self.bytes(if value == 0 { b"{}" } else { b"}" });
            }
            kind::F16 => self.float(half(bits as u16), bits, 10, 5),
            kind::BF16 => self.float(f64::from(f32::from_bits((bits as u32) << 16)), bits, 7, 8),
            kind::F64 => self.float(f64::from_bits(bits << 32), bits << 32, 52, 11),
            kind::HEX64 => self.unsigned(bits),
            _ => {
                let prefix: &[u8] = match kind {
                    kind::R => b"R",
                    kind::UR => b"UR",
                    kind::P => b"P",
                    kind::UP => b"UP",
                    kind::B => b"B",
                    kind::SB => b"SB",
                    _ => b"",
                };
                self.bytes(prefix);
                self.bytes(value.to_string().as_bytes());
            }
        }
    }
}
