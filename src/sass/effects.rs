//! What each instruction reads and writes, and how it moves control.
//!
//! The tables hold, for each class of words, which of its bits number a register and what happens to that register and those after it, learnt from
//! what nvdisasm marks (`sass-tables effects`). Nothing here knows an instruction by name.

use crate::base::RegFile;

use super::blob::{self, Class};
use super::{Decoder, Effects, Flow, Inst, Transfer, Word, transfer};

/// What happens to the registers that a field of the word numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldUse {
    /// The register file.
    pub file: RegFile,
    /// Lowest bit of the number.
    pub pos: u8,
    /// Bits of the number; 0 where the instruction touches register `pos` whatever its bits say. All ones is the register that is always zero, or always true.
    pub bits: u8,
    /// Whether the word has the complement of the number.
    pub inverted: bool,
    /// Whether it is written; read otherwise. A field that is both has two uses.
    pub write: bool,
    /// Consecutive registers, from the numbered one on.
    pub count: u8,
}

impl FieldUse {
    #[inline]
    fn at(at: u32) -> FieldUse {
        let file = match blob::u8_at(at) {
            0 => RegFile::Gpr,
            1 => RegFile::Pred,
            2 => RegFile::Ugpr,
            _ => RegFile::Upred,
        };
        let (pos, bits) = (blob::u8_at(at + 1), blob::u8_at(at + 2));
        FieldUse {
            file,
            pos,
            bits: bits & 0x7f,
            inverted: bits & 0x80 != 0,
            write: blob::u8_at(at + 3) != 0,
            count: blob::u8_at(at + 4),
        }
    }

    /// The first register in a word; `None` for the always-zero register.
    #[inline]
    pub fn register(&self, word: Word) -> Option<u16> {
        if self.bits == 0 {
            return Some(u16::from(self.pos));
        }
        let mask = (1u64 << (self.bits & 31)) - 1;
        let pos = u32::from(self.pos & 127);
        let raw = if pos >= 64 {
            word.hi >> (pos - 64)
        } else if pos + u32::from(self.bits) <= 64 {
            word.lo >> pos
        } else {
            word.lo >> pos | word.hi << (64 - pos)
        };
        let value = if self.inverted { !raw & mask } else { raw & mask };
        (value != mask).then_some(value as u16)
    }
}

impl Decoder {
    /// What the fields of an instruction do to registers, its guard among them; `None` where that is not known.
    #[inline]
    pub fn fields(&self, inst: &Inst) -> Option<impl Iterator<Item = FieldUse> + use<>> {
        if inst.is_unknown() {
            return None;
        }
        let (count, at) = Class(inst.class()).uses(inst.word)?;
        Some((0..u32::from(count)).map(move |i| FieldUse::at(at + 5 * i)))
    }

    /// What an instruction reads and writes, its guard among the reads; `None` where that is not known.
    #[inline]
    pub fn effects(&self, inst: &Inst) -> Option<Effects> {
        let mut effects = Effects::default();
        for used in self.fields(inst)? {
            let set = if used.write { &mut effects.writes } else { &mut effects.reads };
            if let Some(first) = used.register(inst.word) {
                set.insert_run(used.file, first, u16::from(used.count));
            }
        }
        Some(effects)
    }

    /// How instruction number `index` of a section moves control.
    #[inline]
    pub fn flow(&self, inst: &Inst, index: usize) -> Flow {
        if inst.is_unknown() || Class(inst.class()).uses(inst.word).is_none() {
            return Flow { transfer: Transfer::Next, guard: None, own_condition: false, known: false };
        }
        let (transfer, own_condition) = transfer::of(self.arch().sm, inst.word, index);
        Flow { transfer, guard: self.guard(inst), own_condition, known: true }
    }
}
