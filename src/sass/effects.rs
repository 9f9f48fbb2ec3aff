//! What each instruction reads and writes, and how it moves control.
//!
//! The tables hold, for each class of words, which of its bits number a register and what happens to that register and those after it, learnt from
//! what nvdisasm marks (`sass-tables effects`). Nothing here knows an instruction by name.

use std::num::NonZeroU32;

use crate::base::{RegFile, RegSet};

use super::blob::{self, Class};
use super::{Decoder, Effects, Flow, Inst, Transfer, Word, transfer};

/// What happens to the registers that a field of the word numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// The run of the file's first register.
    first: Run,
    /// How many registers the file has.
    size: u32,
    /// The bits of the number; none where the instruction touches one register whatever its bits say.
    mask: u32,
    /// What the bits differ from the number in: the register that is always the same one, or all where the word has the complement.
    flipped: u32,
    /// The number that is no register: the one that is always zero, or always true.
    none: u32,
    /// The byte that the number begins in, and the bit.
    from: u8,
    shift: u8,
    /// Whether it is one register.
    is_one: bool,
}

/// A word's bytes, with zeros behind, so that eight can be read from any on.
pub(super) type Bytes = [u8; 24];

/// The bytes of a word.
#[inline(always)]
pub(super) fn bytes_of(word: Word) -> Bytes {
    let mut bytes: Bytes = [0; 24];
    let (lower, rest) = bytes.split_at_mut(8);
    if let (Some(lower), Some(upper)) = (lower.first_chunk_mut(), rest.first_chunk_mut()) {
        *lower = word.lo.to_le_bytes();
        *upper = word.hi.to_le_bytes();
    }
    bytes
}

impl Field {
    /// Record: file, lowest bit of the number, its bits, whether it is written, registers. No bits where the register is that number whatever
    /// the bits say, 0x80 added to them where the word has the complement.
    #[inline]
    fn of([file, pos, bits, write, count]: [u8; 5]) -> Field {
        let file = match file {
            0 => RegFile::Gpr,
            1 => RegFile::Pred,
            2 => RegFile::Ugpr,
            _ => RegFile::Upred,
        };
        let is_complement = bits & 0x80 != 0;
        let mask = ((1u64 << (bits & 31)) - 1) as u32;
        Field {
            first: Run::of_first(file, count, write != 0),
            size: RegSet::span(file).1 as u32,
            mask,
            flipped: if bits == 0 { pos.into() } else { mask * u32::from(is_complement) },
            none: if bits == 0 { u32::MAX } else { mask },
            from: pos >> 3 & 15,
            shift: pos & 7,
            is_one: count == 1,
        }
    }

    /// The registers that it numbers in a word; none for the register that is always zero, or always true: all ones.
    #[inline(always)]
    pub fn run(&self, bytes: &Bytes) -> Option<Run> {
        let from = usize::from(self.from & 15);
        let raw = bytes.get(from..).and_then(|rest| rest.first_chunk()).map_or(0, |eight| u64::from_le_bytes(*eight));
        let value = (raw >> (self.shift & 7)) as u32 & self.mask ^ self.flipped;
        if value == self.none {
            return None;
        }
        if self.is_one && value < self.size {
            return Some(Run(self.first.0 + value));
        }
        self.first.from(value, self.size)
    }
}

/// Neighbouring registers that an instruction reads or writes, in the order of a [`RegSet`]'s bits.
///
/// From the lowest bit on: where the first one is in a set (9 bits), whether they are written, how many (8 bits from the 16th on), whether they
/// are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run(u32);

/// The bits of the number of a word of two sets.
const CELL: usize = 2 * RegSet::WORDS - 1;

/// So many bits from the lowest on.
static FIRST: [u64; 64] = {
    let mut first = [0; 64];
    let mut count = 0;
    while count < 64 {
        first[count] = (1 << count) - 1;
        count += 1;
    }
    first
};

impl Run {
    const PLACE: u32 = 64 * RegSet::WORDS as u32 - 1;
    const WRITE: u32 = Run::PLACE + 1;
    const COUNT: u32 = 1 << 16;
    /// Whether they may be in more than one word of a set, or fill one.
    const WIDE: u32 = 1 << 24;

    /// So many registers of a file from one on, written or else read; those that the file does not have are left out, and none are no run.
    pub fn new(file: RegFile, first: u8, count: u8, is_write: bool) -> Option<Run> {
        let (_, size) = RegSet::span(file);
        Run::of_first(file, count, is_write).from(first.into(), size as u32)
    }

    /// The first registers of a file, one or more.
    fn of_first(file: RegFile, count: u8, is_write: bool) -> Run {
        let (base, _) = RegSet::span(file);
        Run(base as u32 + u32::from(count) * Run::COUNT + u32::from(is_write) * Run::WRITE)
    }

    /// As many from another register on, of a file that has so many.
    #[inline]
    fn from(self, first: u32, size: u32) -> Option<Run> {
        let count = u32::from(self.count()).min(size.saturating_sub(first));
        let at = self.at() as u32 + first;
        let is_wide = at % 64 + count > 64 || count >= 64;
        let rest = u32::from(is_wide) * Run::WIDE + (self.0 & Run::WRITE);
        (count > 0).then_some(Run(at + count * Run::COUNT + rest))
    }

    /// Where the first one is in a set.
    #[inline(always)]
    fn at(self) -> usize {
        (self.0 & Run::PLACE) as usize
    }

    /// Their file.
    #[inline]
    pub fn file(self) -> RegFile {
        RegSet::file_at(self.at())
    }

    /// The first one.
    #[inline]
    pub fn first(self) -> u8 {
        (self.at() - RegSet::span(self.file()).0) as u8
    }

    /// How many.
    #[inline]
    pub fn count(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Whether they are written; read otherwise.
    #[inline(always)]
    pub fn is_write(self) -> bool {
        self.0 & Run::WRITE != 0
    }

    /// The registers.
    #[inline]
    pub fn registers(self) -> impl Iterator<Item = u16> {
        let first = u16::from(self.first());
        (0..u16::from(self.count())).map(move |i| first + i)
    }

    /// The registers as bits of the words of two sets, of what is read and, its words numbered behind those, of what is written: mostly of one
    /// word.
    #[inline(always)]
    pub(crate) fn each_part(self, mut each: impl FnMut(usize, u64)) {
        let (mut cell, mut low, mut rest) = ((self.0 / 64) as usize & CELL, self.0 % 64, u32::from(self.count()));
        if self.0 & Run::WIDE == 0 {
            return each(cell, FIRST[rest as usize % 64] << low);
        }
        while rest > 0 {
            let here = rest.min(64 - low);
            each(cell, u64::MAX >> (64 - here) << low);
            (cell, low, rest) = (cell + 1, 0, rest - here);
        }
    }

    /// What the instruction does that has these runs.
    #[inline]
    pub fn effects(runs: impl Iterator<Item = Run>) -> Effects {
        let mut effects = Effects::default();
        for run in runs {
            let set = if run.is_write() { &mut effects.writes } else { &mut effects.reads };
            run.each_part(|cell, bits| *set.word_mut(cell % RegSet::WORDS) |= bits);
        }
        effects
    }
}

/// What the fields of the words of one kind do to registers: a place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses(pub(super) NonZeroU32);

impl Uses {
    /// Its fields.
    #[inline]
    pub(super) fn fields(self) -> impl Iterator<Item = Field> + use<> {
        let at = self.0.get();
        let records = blob::bytes_at(at + 1, 5 * usize::from(blob::u8_at(at))).as_chunks::<5>().0;
        records.iter().map(|record| Field::of(*record))
    }

    /// The registers that a word of this kind names, its guard among them: each run with whether it is written.
    #[inline]
    pub fn runs(self, word: Word) -> impl Iterator<Item = Run> + use<> {
        let bytes = bytes_of(word);
        self.fields().filter_map(move |field| field.run(&bytes))
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
        if self.uses(inst).is_none() {
            return Flow { transfer: Transfer::Next, guard: None, own_condition: false, known: false };
        }
        let (transfer, own_condition) = transfer::of(self.arch().sm, inst.word, index);
        Flow { transfer, guard: self.guard(inst), own_condition, known: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_they_are_made_of() {
        for file in RegFile::ALL {
            for first in 0..=255u8 {
                for count in [0, 1, 2, 4, 8, 63, 64, 65, 128, 255] {
                    let mut single = RegSet::EMPTY;
                    (0..u16::from(count)).for_each(|index| single.insert(file, u16::from(first) + index));
                    let Some(run) = Run::new(file, first, count, true) else {
                        assert!(single.is_empty(), "{file:?} {first} {count}");
                        continue;
                    };
                    assert_eq!((run.file(), run.first(), run.is_write()), (file, first, true));
                    assert_eq!(Run::effects([run].into_iter()), Effects { reads: RegSet::EMPTY, writes: single });
                    assert!(run.registers().eq(single.iter(file)));
                }
            }
        }
    }
}
