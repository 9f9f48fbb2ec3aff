//! SASS: 128-bit words in, instructions out.
//!
//! In: the bytes of a code section and its architecture. Out: one [`Inst`] for each 16 bytes, its text, its operands, its
//! [`Effects`] on the register files and its [`Transfer`] of control. Decoding is total: a word the tables do not know is an
//! `Inst` too, marked unknown. This module refuses to guess: where the tables are silent it says so.

pub mod effects;
pub mod transfer;

pub use transfer::Flow;

use crate::base::{Pc, RegFile, RegSet};

/// One 16-byte instruction word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    /// Bits 0 to 63.
    pub lo: u64,
    /// Bits 64 to 127.
    pub hi: u64,
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
    /// `RET`.
    Return,
    /// `EXIT`, `KILL`: the thread ends.
    Exit,
    /// `BSSY` and the like: to the next instruction, naming where the divergent threads meet again.
    PushTarget(Pc),
}
