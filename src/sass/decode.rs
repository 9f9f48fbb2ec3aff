//! The decoder: a word to its class, a class to text.

use std::fmt;

use crate::base::{Arch, Pc, RegFile};

use super::blob::{self, Class, Op, Slot};
use super::plan::bits;
use super::write::{Line, ROOM};
use super::{Control, Guard, Word};

/// Decodes the words of one architecture. Costs nothing to make.
#[derive(Clone, Copy)]
pub struct Decoder {
    arch: Arch,
    pub(super) pages: u32,
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
    pub(super) class: u32,
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

/// Kinds of numbers as the tables name them.
pub(super) mod kind {
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
    pub const HEX64: u8 = 14;
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
            Some(class) if class.fits(word) && class.legal(word) => class.0,
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
    #[inline(always)]
    fn walk(&self, inst: &Inst, mut step: impl FnMut(Step)) {
        if !inst.is_unknown() {
            walk_template(inst.word, Class(inst.class).template(), &mut step);
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
        let mut room = [0; ROOM];
        let mut line = Line::new(&mut room);
        self.walk(inst, |step| match step {
            Step::Text(len, at) => line.literal(len, at),
            Step::Number(number) if number.kind == kind::TARGET => {
                let target = number.value(inst.word).wrapping_add(i64::from(pc.0) + 16);
                let mut named = String::new();
                if label(target, &mut named) {
                    line.bytes(named.as_bytes());
                } else {
                    line.hex(target);
                }
            }
            Step::Number(number) => line.number(number.kind, number.zero, number.value(inst.word)),
            Step::Fixed(text) => line.bytes(text.as_bytes()),
        });
        out.push_str(std::str::from_utf8(line.written()).unwrap_or("?"));
    }

    /// The opcode's name without its modifiers: `IMAD`. Empty when unknown.
    pub fn mnemonic(&self, inst: &Inst) -> &'static str {
        let text = opcode(inst);
        let end = text.iter().position(|byte| matches!(byte, b'.' | b' ')).unwrap_or(text.len());
        str::from_utf8(&text[..end]).unwrap_or("")
    }

    /// Whether the opcode's name is this one.
    #[inline]
    pub fn is_named(&self, inst: &Inst, mnemonic: &str) -> bool {
        let rest = opcode(inst).strip_prefix(mnemonic.as_bytes());
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'.' | b' ')))
    }

    /// Where a branch, call or the like goes, when its text names an address relative to itself.
    pub fn target(&self, inst: &Inst, pc: Pc) -> Option<i64> {
        let mut target = None;
        self.walk(inst, |step| {
            if let Step::Number(number) = step
                && number.kind == kind::TARGET
            {
                target = Some(number.value(inst.word).wrapping_add(i64::from(pc.0) + 16));
            }
        });
        target
    }

    /// The registers the text names, in its order, the guard first.
    pub fn registers(&self, inst: &Inst, mut each: impl FnMut(RegRef)) {
        self.walk(inst, |step| {
            if let Step::Number(number) = step {
                let file = match number.kind {
                    kind::R => RegFile::Gpr,
                    kind::UR => RegFile::Ugpr,
                    kind::P => RegFile::Pred,
                    kind::UP => RegFile::Upred,
                    _ => return,
                };
                each(RegRef { file, index: number.value(inst.word) as u16, bit: number.bit() });
            }
        });
    }

    /// The guard, where the instruction has one that is not "always".
    #[inline]
    pub fn guard(&self, inst: &Inst) -> Option<Guard> {
        if inst.is_unknown() {
            return None;
        }
        Guard::of(Class(inst.class).guarded_by()?, inst.word)
    }

    /// The text with every register `R#`, `UR#`, `P#`, `UP#` and every other number `#`, guard left out: what kind of
    /// instruction it is. The same on every architecture that prints the same.
    pub fn shape(&self, inst: &Inst, out: &mut String) {
        let start = out.len();
        self.walk(inst, |step| match step {
            Step::Text(len, at) => out.push_str(literal(len, at)),
            Step::Fixed(text) => out.push_str(text),
            Step::Number(number) => out.push_str(match number.kind {
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
pub(super) enum Step {
    /// A literal of the tables: its length and where it is.
    Text(usize, u32),
    Number(Number),
    /// Text that every architecture has.
    Fixed(&'static str),
}

/// A number of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub kind: u8,
    /// The value that a uniform register spells `URZ`.
    pub zero: u8,
    pub bits: Bits,
}

/// The bits of a word that a number is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    /// Some that lie side by side: the lowest, how many.
    Field(u8, u8),
    /// Those of a record of the tables.
    Slot(Slot),
}

impl Number {
    /// What it is in a word.
    #[inline]
    pub fn value(&self, word: Word) -> i64 {
        match self.bits {
            Bits::Field(bit, width) => blob::field(word, u64::from(bit), u64::from(width)) as i64,
            Bits::Slot(slot) => slot.eval(word),
        }
    }

    /// The bits of the word it is made of.
    pub fn mask(&self) -> Word {
        match self.bits {
            Bits::Field(bit, width) => bits(bit, width),
            Bits::Slot(slot) => slot.chunks().fold(Word::default(), |all, chunk| all.with(chunk.mask())),
        }
    }

    /// The lowest bit of the word it is made of.
    fn bit(&self) -> u8 {
        match self.bits {
            Bits::Field(bit, _) => bit,
            Bits::Slot(slot) => slot.bit(),
        }
    }
}

/// A literal of the tables.
fn literal(len: usize, at: u32) -> &'static str {
    std::str::from_utf8(blob::bytes_at(at, len)).unwrap_or("")
}

/// Walks a class's template.
#[inline(always)]
pub(super) fn walk_template(word: Word, mut at: u32, step: &mut impl FnMut(Step)) {
    while walk_op(word, at, step) {
        at += 8;
    }
}

/// The piece of an instruction's text that its opcode starts. Nothing when unknown.
fn opcode(inst: &Inst) -> &'static [u8] {
    let mut opcode: &[u8] = &[];
    if inst.is_unknown() {
        return opcode;
    }
    let mut at = Class(inst.class).template();
    // It is near the start: there is no need to walk the whole text.
    while opcode.is_empty() {
        let is_more = walk_op(inst.word, at, &mut |step| {
            if let Step::Text(len, at) = step
                && opcode.is_empty()
                && let text = blob::bytes_at(at, len)
                && text.first().is_some_and(u8::is_ascii_uppercase)
            {
                opcode = text;
            }
        });
        if !is_more {
            break;
        }
        at += 8;
    }
    opcode
}

/// Walks one entry of a class's template; false at its end.
#[inline(always)]
fn walk_op(word: Word, at: u32, step: &mut impl FnMut(Step)) -> bool {
    let op = match blob::op(at) {
        Op::End => return false,
        Op::Flag(bit, len, at) => {
            if blob::field(word, u64::from(bit), 1) == 1 {
                step(Step::Text(len, at));
            }
            Op::End
        }
        Op::Choice(bit, width, steps) => {
            blob::op(steps + 8 * blob::field(word, u64::from(bit), u64::from(width)) as u32)
        }
        Op::Site(comp, site) => match comp.site(word, site) {
            0 => Op::End,
            at => blob::op(at),
        },
        Op::Guard(kind) => {
            let guard = word.lo >> 12 & 15;
            if guard != 7 {
                step(Step::Fixed(if guard >= 8 { "@!" } else { "@" }));
                step(Step::Number(Number { kind, zero: 0, bits: Bits::Field(12, 3) }));
                step(Step::Fixed(" "));
            }
            Op::End
        }
        op => op,
    };
    match op {
        Op::End => {}
        Op::List(list) => walk_list(list, step),
        op => walk_one(op, step),
    }
    true
}

/// Walks what a site says where it is more than one step.
fn walk_list(mut at: u32, step: &mut impl FnMut(Step)) {
    loop {
        let op = blob::op(at);
        if matches!(op, Op::End) {
            return;
        }
        walk_one(op, step);
        at += 8;
    }
}

/// A literal or a number. Choices stand in a class's template alone: tables that say otherwise say nothing.
#[inline(always)]
fn walk_one(op: Op, step: &mut impl FnMut(Step)) {
    match op {
        Op::Field(len, at, kind, bit, width, zero) => {
            if len > 0 {
                step(Step::Text(len, at));
            }
            step(Step::Number(Number { kind, zero, bits: Bits::Field(bit, width) }));
        }
        Op::Literal(len, at) => step(Step::Text(len, at)),
        Op::Number(slot) => {
            step(Step::Number(Number { kind: slot.kind(), zero: slot.zero(), bits: Bits::Slot(slot) }));
        }
        _ => {}
    }
}
