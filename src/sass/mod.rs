//! SASS: 128-bit words in, instructions out.
//!
//! In: the bytes of a code section and its architecture. Out: one [`Inst`] for each 16 bytes, its text, its operands, its
//! [`Effects`] on the register files and its [`Transfer`] of control. Decoding is total: a word the tables do not know is an
//! `Inst` too, marked unknown. This module refuses to guess: where the tables are silent it says so.

mod blob;
mod decode;
mod effects;
mod float;
mod operand;
mod plan;
mod seen;
mod spell;
pub mod transfer;
mod write;

pub use transfer::Flow;

use crate::base::{Pc, RegFile, RegSet};

pub use decode::{Decoder, Inst, RegRef};
pub use effects::{Run, Uses};
#[doc(hidden)]
pub use float::{half, spell_float};
pub use operand::{Operand, OperandKind, Parts, Reg, Term, parts};
pub use spell::{Speller, Text};

/// One 16-byte instruction word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    /// Bits 0 to 63.
    pub lo: u64,
    /// Bits 64 to 127.
    pub hi: u64,
}

impl Word {
    /// The word in up to 16 little-endian bytes; bytes that are missing count as zero.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Word {
        let half = |from: usize| {
            let mut buf = [0u8; 8];
            for (to, byte) in buf.iter_mut().zip(bytes.iter().skip(from)) {
                *to = *byte;
            }
            u64::from_le_bytes(buf)
        };
        match bytes {
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] => Word {
                lo: u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
                hi: u64::from_le_bytes([*i, *j, *k, *l, *m, *n, *o, *p]),
            },
            _ => Word { lo: half(0), hi: half(8) },
        }
    }

    /// The bits of a mask.
    #[inline]
    fn masked(self, mask: Word) -> Word {
        Word { lo: self.lo & mask.lo, hi: self.hi & mask.hi }
    }

    /// With the bits of another.
    fn with(self, other: Word) -> Word {
        Word { lo: self.lo | other.lo, hi: self.hi | other.hi }
    }

    /// The scheduling control, bits 105 to 125.
    pub fn control(self) -> Control {
        let field = |bit: u32, width: u32| (self.hi >> (bit - 64) & ((1 << width) - 1)) as u8;
        let barrier = |value: u8| (value != 7).then_some(value);
        Control {
            stall: field(105, 4),
            yields: field(109, 1) == 0,
            write_barrier: barrier(field(110, 3)),
            read_barrier: barrier(field(113, 3)),
            wait_mask: field(116, 6),
            reuse: field(122, 4),
        }
    }
}

/// What the compiler tells the scheduler in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Control {
    /// Cycles to wait before the next instruction, 0 to 15.
    pub stall: u8,
    /// Whether the scheduler should prefer another warp: the hint bit is clear.
    pub yields: bool,
    /// The scoreboard signalled when the result is there.
    pub write_barrier: Option<u8>,
    /// The scoreboard signalled when the sources have been read.
    pub read_barrier: Option<u8>,
    /// The scoreboards to wait for, one bit each.
    pub wait_mask: u8,
    /// Which source operands stay in the reuse cache, one bit each.
    pub reuse: u8,
}

/// What one instruction does to the registers that liveness tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Registers it reads, its guard among them.
    pub reads: RegSet,
    /// Registers it writes when it runs, whether or not its guard lets it run.
    pub writes: RegSet,
}

/// The predicate an instruction is guarded with; absent when it always runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// [`RegFile::Pred`] or [`RegFile::Upred`].
    pub file: RegFile,
    /// 0 to 6, or 7 for the negated always-true predicate (never runs).
    pub index: u8,
    /// Whether it runs when the predicate is false.
    pub negated: bool,
}

impl Guard {
    /// The guard of a word that a predicate of this file may guard.
    #[inline(always)]
    pub(crate) fn of(file: RegFile, word: Word) -> Option<Guard> {
        let index = (word.lo >> 12 & 7) as u8;
        let negated = word.lo >> 15 & 1 == 1;
        (index != 7 || negated).then_some(Guard { file, index, negated })
    }
}

/// Where control goes after an instruction, its guard aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// To the next instruction.
    Next,
    /// `BRA`: to a target.
    Branch(Pc),
    /// `BRX`, `JMX`: to one of the targets of a table, or to anywhere.
    Indirect,
    /// `CALL.REL`: to a function of this section, and back.
    Call(Pc),
    /// A call whose target is in a register or in another section.
    CallOut,
    /// `RET.REL`: to the caller in this section.
    Return,
    /// `RET.ABS`: to a caller anywhere.
    ReturnOut,
    /// `EXIT`, `KILL`: the thread ends.
    Exit,
    /// `BSSY` and the like: to the next instruction, naming where the divergent threads meet again.
    PushTarget(Pc),
}

#[cfg(test)]
mod tests;
