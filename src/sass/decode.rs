//! The decoder: a word to its class, a class to text.

use std::fmt;

use crate::base::{Arch, Pc, RegFile};

use super::blob::{self, Class, ILLEGAL, Op, Slot, Template};
use super::float::{half, spell_float};
use super::{Control, Guard, Word};

/// Components a class has at most; the tables are checked against it when they are made.
const MAX_COMPS: usize = 24;

/// Decodes the words of one architecture. Costs nothing to make.
#[derive(Clone, Copy)]
pub struct Decoder {
    arch: Arch,
    pages: u32,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({})", self.arch)
    }
}

/// A decoded word: the word itself and what the tables know it as. Unknown is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// The word.
    pub word: Word,
    class: u32,
}

impl Inst {
    /// Whether the tables do not know the word.
    pub fn is_unknown(&self) -> bool {
        self.class == 0
    }

    /// The scheduling control every word carries.
    pub fn control(&self) -> Control {
        self.word.control()
    }

    /// A number for the group of words this one was learnt with; zero when unknown. It changes when the tables do.
    pub fn class(&self) -> u32 {
        self.class
    }
}

/// A register printed in an instruction's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegRef {
    /// Its file.
    pub file: RegFile,
    /// Its number; RZ is 255, PT 7, URZ 63 up to sm_90 and 255 from sm_100 on.
    pub index: u16,
    /// The lowest bit of the word that holds the number.
    pub bit: u8,
}

impl RegRef {
    /// Whether it names the constant register of its file: RZ, PT, URZ, UPT.
    pub fn is_constant(&self) -> bool {
        match self.file {
            RegFile::Gpr => self.index == 255,
            RegFile::Ugpr => self.index == 255 || self.index == 63,
            RegFile::Pred | RegFile::Upred => self.index == 7,
        }
    }
}

/// Slot kinds as the tables number them.
mod kind {
    pub const R: u8 = 1;
    pub const UR: u8 = 2;
    pub const P: u8 = 3;
    pub const UP: u8 = 4;
    pub const B: u8 = 5;
    pub const SB: u8 = 6;
    pub const HEX: u8 = 7;
    pub const TARGET: u8 = 8;
    pub const SET: u8 = 9;
    pub const F16: u8 = 10;
    pub const BF16: u8 = 11;
    pub const F32: u8 = 12;
    pub const F64: u8 = 13;
}

impl Decoder {
    /// The decoder of an architecture; `None` when the tables do not have it. Where the very variant is absent, the richest
    /// one of the same SM number serves: `sm_100` code is `sm_100a` code.
    pub fn new(arch: Arch) -> Option<Decoder> {
        use crate::base::Variant::{Accelerated, Base, Family};
        [arch.variant, Accelerated, Family, Base]
            .into_iter()
            .map(|variant| blob::pages(arch.with_variant(variant)))
            .find(|&pages| pages != 0)
            .map(|pages| Decoder { arch, pages })
    }

    /// The architectures the tables were learnt for.
    pub fn architectures() -> impl Iterator<Item = Arch> {
        blob::architectures()
    }

    /// Bytes of the tables, all architectures together.
    pub fn table_bytes() -> usize {
        blob::size()
    }

    /// The architecture this decoder was asked for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Decodes a word. Never fails: a word outside what was observed is unknown.
    #[inline]
    pub fn decode(&self, word: Word) -> Inst {
        let class = match blob::find(self.pages, word) {
            Some(class) if class.fits(word) && (0..class.comps()).all(|i| class.comp(i).choose(word) != ILLEGAL) => {
                class.0
            }
            _ => 0,
        };
        Inst { word, class }
    }

    /// Decodes a code section, 16 bytes at a time; a rest of fewer bytes is left out.
    pub fn decode_all<'a>(&self, code: &'a [u8]) -> impl ExactSizeIterator<Item = Inst> + use<'a> {
        let decoder = *self;
        code.chunks_exact(16).map(move |bytes| decoder.decode(Word::from_bytes(bytes)))
    }

    /// Walks the steps of an instruction's text in order, choices resolved.
    #[inline]
    fn walk(&self, inst: &Inst, mut step: impl FnMut(Step)) {
        if inst.is_unknown() {
            return;
        }
        let class = Class(inst.class);
        let mut chosen = [ILLEGAL; MAX_COMPS];
        for (i, slot) in chosen.iter_mut().enumerate().take(class.comps() as usize) {
            *slot = class.comp(i as u32).choose(inst.word);
        }
        for op in Template(class.template()) {
            match op {
                Op::Literal(text) => step(Step::Text(text)),
                Op::Number(slot) => step(Step::Number(slot)),
                Op::Site(comp, site) => {
                    let variant = chosen.get(comp as usize).copied().unwrap_or(ILLEGAL);
                    if variant == ILLEGAL {
                        continue;
                    }
                    for op in Template(blob::u32_at(variant + 4 * u32::from(site))) {
                        match op {
                            Op::Literal(text) => step(Step::Text(text)),
                            Op::Number(slot) => step(Step::Number(slot)),
                            Op::Site(..) => {}
                        }
                    }
                }
            }
        }
    }

    /// Appends the instruction's text, as nvdisasm prints it less the closing ` ;`. A branch target is an absolute address. An
    /// unknown word is shown as `.word 0x…`, high half first.
    pub fn text(&self, inst: &Inst, pc: Pc, out: &mut String) {
        self.text_with(inst, pc, out, |_, _| false);
    }

    /// Like [`text`](Self::text), but each branch target is offered to `label` first, which may write something in its place
    /// and say so by returning true.
    pub fn text_with(&self, inst: &Inst, pc: Pc, out: &mut String, mut label: impl FnMut(i64, &mut String) -> bool) {
        if inst.is_unknown() {
            use std::fmt::Write;
            let _ = write!(out, ".word {:#018x}{:016x}", inst.word.hi, inst.word.lo);
            return;
        }
        self.walk(inst, |step| match step {
            Step::Text(text) => out.push_str(text),
            Step::Number(slot) => {
                let value = slot.eval(inst.word);
                if slot.kind() == kind::TARGET {
                    let target = value.wrapping_add(i64::from(pc.0) + 16);
                    if !label(target, out) {
                        push_hex(target, out);
                    }
                } else {
                    push_number(slot, value, out);
                }
            }
        });
    }

    /// The opcode's name without its modifiers: `IMAD`. Empty when unknown.
    pub fn mnemonic(&self, inst: &Inst) -> &'static str {
        let mut name = "";
        self.walk(inst, |step| {
            if let Step::Text(text) = step
                && name.is_empty()
                && text.starts_with(|c: char| c.is_ascii_uppercase())
            {
                name = text.split(['.', ' ']).next().unwrap_or("");
            }
        });
        name
    }

    /// Where a branch, call or the like goes, when its text names an address relative to itself.
    pub fn target(&self, inst: &Inst, pc: Pc) -> Option<i64> {
        let mut target = None;
        self.walk(inst, |step| {
            if let Step::Number(slot) = step
                && slot.kind() == kind::TARGET
            {
                target = Some(slot.eval(inst.word).wrapping_add(i64::from(pc.0) + 16));
            }
        });
        target
    }

    /// The registers the text names, in its order, the guard first.
    pub fn registers(&self, inst: &Inst, mut each: impl FnMut(RegRef)) {
        self.walk(inst, |step| {
            if let Step::Number(slot) = step {
                let file = match slot.kind() {
                    kind::R => RegFile::Gpr,
                    kind::UR => RegFile::Ugpr,
                    kind::P => RegFile::Pred,
                    kind::UP => RegFile::Upred,
                    _ => return,
                };
                each(RegRef { file, index: slot.eval(inst.word) as u16, bit: slot.bit() });
            }
        });
    }

    /// The guard, where the instruction has one that is not "always".
    pub fn guard(&self, inst: &Inst) -> Option<Guard> {
        if inst.is_unknown() {
            return None;
        }
        let file = match Class(inst.class).guard() {
            1 => RegFile::Pred,
            2 => RegFile::Upred,
            _ => return None,
        };
        let index = (inst.word.lo >> 12 & 7) as u8;
        let negated = inst.word.lo >> 15 & 1 == 1;
        (index != 7 || negated).then_some(Guard { file, index, negated })
    }

    /// The text with every register `R#`, `UR#`, `P#`, `UP#` and every other number `#`, guard left out: what kind of
    /// instruction it is. The same on every architecture that prints the same.
    pub fn shape(&self, inst: &Inst, out: &mut String) {
        let start = out.len();
        self.walk(inst, |step| match step {
            Step::Text(text) => out.push_str(text),
            Step::Number(slot) => out.push_str(match slot.kind() {
                kind::R => "R#",
                kind::UR => "UR#",
                kind::P => "P#",
                kind::UP => "UP#",
                kind::B => "B#",
                kind::SB => "SB#",
                _ => "#",
            }),
        });
        if out[start..].starts_with('@')
            && let Some(space) = out[start..].find(' ')
        {
            out.replace_range(start..=start + space, "");
        }
    }
}

/// One step of a text.
enum Step {
    Text(&'static str),
    Number(Slot),
}

#[inline]
fn push_decimal(value: i64, out: &mut String) {
    if (0..10).contains(&value) {
        out.push((b'0' + value as u8) as char);
    } else if (0..1000).contains(&value) {
        let value = value as u32;
        if value >= 100 {
            out.push((b'0' + (value / 100) as u8) as char);
        }
        out.push((b'0' + (value / 10 % 10) as u8) as char);
        out.push((b'0' + (value % 10) as u8) as char);
    } else {
        use std::fmt::Write;
        let _ = write!(out, "{value}");
    }
}

/// `0x10`, `-0x10`
fn push_hex(value: i64, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    out.push_str("0x");
    let value = value.unsigned_abs();
    let digits = (67 - (value | 1).leading_zeros()) / 4;
    for i in (0..digits).rev() {
        let digit = (value >> (4 * i) & 15) as u8;
        out.push((if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }) as char);
    }
}

fn push_float(value: f64, bits: u64, fraction: u32, exponent: u32, out: &mut String) {
    let exp = bits >> fraction & ((1 << exponent) - 1);
    let frac = bits & ((1 << fraction) - 1);
    let nan = (exp == (1 << exponent) - 1 && frac != 0).then_some(frac >> (fraction - 1) & 1 == 1);
    spell_float(value, nan, bits >> (fraction + exponent) & 1 == 1, out);
}

fn push_number(slot: Slot, value: i64, out: &mut String) {
    let bits = value as u64;
    match slot.kind() {
        kind::R if value == 255 => out.push_str("RZ"),
        kind::R => {
            out.push('R');
            push_decimal(value, out);
        }
        kind::UR if value == i64::from(slot.zero()) => out.push_str("URZ"),
        kind::UR => {
            out.push_str("UR");
            push_decimal(value, out);
        }
        kind::P if value == 7 => out.push_str("PT"),
        kind::P => {
            out.push('P');
            push_decimal(value, out);
        }
        kind::UP if value == 7 => out.push_str("UPT"),
        kind::UP => {
            out.push_str("UP");
            push_decimal(value, out);
        }
        kind::B | kind::SB => {
            out.push_str(if slot.kind() == kind::B { "B" } else { "SB" });
            push_decimal(value, out);
        }
        kind::SET => {
            out.push('{');
            let mut first = true;
            for bit in (0..63).rev().filter(|bit| value >> bit & 1 == 1) {
                if !first {
                    out.push(',');
                }
                first = false;
                push_decimal(bit, out);
            }
            out.push('}');
        }
        kind::F16 => push_float(half(bits as u16), bits, 10, 5, out),
        kind::BF16 => push_float(f64::from(f32::from_bits((bits as u32) << 16)), bits, 7, 8, out),
        kind::F32 => push_float(f64::from(f32::from_bits(bits as u32)), bits, 23, 8, out),
        kind::F64 => push_float(f64::from_bits(bits << 32), bits << 32, 52, 11, out),
        kind::HEX | kind::TARGET => push_hex(value, out),
        _ => push_decimal(value, out),
    }
}
