//! What each instruction reads and writes, and how it moves control.
//!
//! The tables hold, for each class of words, which of its bits number a register and what happens to that register and those after it, learnt from
//! what nvdisasm marks (`sass-tables effects`). Nothing here knows an instruction by name.

use std::num::NonZeroU32;

use crate::base::RegFile;

use super::blob::{self, Class};
use super::{Decoder, Effects, Flow, Inst, Transfer, Word, transfer};

/// What happens to the registers that a field of the word numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldUse {
    /// The register file.
    file: RegFile,
    /// Lowest bit of the number.
    pos: u8,
    /// Bits of the number; 0 where the instruction touches register `pos` whatever its bits say. All ones is the register that is always zero, or always true.
    bits: u8,
    /// Whether the word has the complement of the number.
    inverted: bool,
    /// Whether it is written; read otherwise. A field that is both has two uses.
    write: bool,
    /// Consecutive registers, from the numbered one on.
    count: u8,
}

impl FieldUse {
    #[inline]
    fn at(at: u32) -> FieldUse {
        let record = blob::u64_at(at);
        let byte = |i: u32| (record >> (8 * i)) as u8;
        let file = match byte(0) {
            0 => RegFile::Gpr,
            1 => RegFile::Pred,
            2 => RegFile::Ugpr,
            _ => RegFile::Upred,
        };
        FieldUse {
            file,
            pos: byte(1),
            bits: byte(2) & 0x7f,
            inverted: byte(2) & 0x80 != 0,
            write: byte(3) != 0,
            count: byte(4),
        }
    }

    /// The first register in a word; `None` for the always-zero register.
    #[inline]
    fn register(&self, word: Word) -> Option<u16> {
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

/// Neighbouring registers that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their file.
    pub file: RegFile,
    /// The first one.
    pub first: u8,
    /// How many.
    pub count: u8,
    /// Whether they are written; read otherwise.
    pub write: bool,
}

impl Run {
    /// The registers.
    #[inline]
    pub fn registers(self) -> impl Iterator<Item = u16> {
        (0..u16::from(self.count)).map(move |i| u16::from(self.first) + i)
    }

    /// What the instruction does that has these runs.
    #[inline]
    pub fn effects(runs: impl Iterator<Item = Run>) -> Effects {
        let mut effects = Effects::default();
        for run in runs {
            let set = if run.write { &mut effects.writes } else { &mut effects.reads };
            set.insert_run(run.file, run.first.into(), run.count.into());
        }
        effects
    }
}

/// What the fields of the words of one kind do to registers: a place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses(NonZeroU32);

impl Uses {
    #[inline]
    fn fields(self) -> impl Iterator<Item = FieldUse> + use<> {
        let at = self.0.get();
        (0..u32::from(blob::u8_at(at))).map(move |i| FieldUse::at(at + 1 + 5 * i))
    }

    /// The registers that a word of this kind names, its guard among them: each run with whether it is written.
    #[inline]
    pub fn runs(self, word: Word) -> impl Iterator<Item = Run> + use<> {
        self.fields().filter_map(move |used| {
            let first = u8::try_from(used.register(word)?).ok()?;
            Some(Run { file: used.file, first, count: used.count, write: used.write })
        })
    }
}

impl Decoder {
    /// Where the tables say what an instruction does to registers; `None` where that is not known.
    #[inline]
    pub fn uses(&self, inst: &Inst) -> Option<Uses> {
        if inst.is_unknown() {
            return None;
        }
        Class(inst.class()).uses(inst.word).map(Uses)
    }

    /// What an instruction reads and writes, its guard among the reads; `None` where that is not known.
    #[inline]
    pub fn effects(&self, inst: &Inst) -> Option<Effects> {
        self.uses(inst).map(|uses| Run::effects(uses.runs(inst.word)))
    }

    /// How instruction number `index` of a section moves control.
    #[inline]
    pub fn flow(&self, inst: &Inst, index: usize) -> Flow {
        self.flow_with(inst, self.uses(inst).is_some(), index)
    }

    /// Like [`flow`](Self::flow), where it is at hand whether its effects are known.
    #[inline]
    pub(crate) fn flow_with(&self, inst: &Inst, known: bool, index: usize) -> Flow {
        if !known {
            return Flow { transfer: Transfer::Next, guard: None, own_condition: false, known: false };
        }
        let (transfer, own_condition) = transfer::of(self.arch().sm, inst.word, index);
        Flow { transfer, guard: self.guard(inst), own_condition, known: true }
    }
}
