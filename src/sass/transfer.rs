//! Where control goes after an instruction.
//!
//! Opcodes are the low nine bits of a word; bits 9 to 11 say where its operands come from.

use crate::base::Pc;

use super::{Transfer, Word};

/// How one instruction moves control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes when it runs.
    pub transfer: Transfer,
    /// The guard that decides whether it runs.
    pub guard: Option<super::Guard>,
    /// Whether an operand of its own decides too: `BRA.U UP0, …`, `BRA.DIV …`, `BRA P1, …`.
    pub own_condition: bool,
    /// Whether the instruction is understood at all; where not, it counts as one that goes on and touches nothing.
    pub known: bool,
}

impl Flow {
    /// An instruction without a guard that goes on to the next one.
    pub const NEXT: Flow = Flow { transfer: Transfer::Next, guard: None, own_condition: false, known: true };

    /// Whether control may go on to the next instruction.
    #[inline]
    pub fn falls_through(&self) -> bool {
        match self.transfer {
            Transfer::Next | Transfer::PushTarget(_) | Transfer::Call(_) | Transfer::CallOut => true,
            Transfer::Branch(_) | Transfer::Indirect | Transfer::Return | Transfer::ReturnOut | Transfer::Exit => {
                self.guard.is_some() || self.own_condition
            }
        }
    }

    /// Whether a basic block ends after it.
    #[inline]
    pub(crate) fn ends_block(&self) -> bool {
        !matches!(self.transfer, Transfer::Next | Transfer::PushTarget(_))
    }

    /// Whether control, once it has gone this way, does not come back to the next instruction.
    #[inline]
    pub(crate) fn leaves(&self) -> bool {
        !matches!(self.transfer, Transfer::Next | Transfer::PushTarget(_) | Transfer::Call(_) | Transfer::CallOut)
    }

    /// Whether the guard can never let it run (`@!PT`).
    #[inline]
    pub(crate) fn never(&self) -> bool {
        self.guard.is_some_and(|guard| guard.index == 7 && guard.negated)
    }
}

/// The opcodes, less their form, that may move control.
const MOVES: std::ops::RangeInclusive<u64> = 0x143..=0x15b;

/// Whether a word may move control; most are known not to at a glance.
#[inline(always)]
pub(crate) fn may_move(word: Word) -> bool {
    MOVES.contains(&(word.lo & 0x1ff))
}

/// Where an instruction goes, and whether an operand of its own decides about that.
#[inline]
pub(crate) fn of(sm: u16, word: Word, index: usize) -> (Transfer, bool) {
    // `BRA P1, …`, `EXIT P1`: a predicate in bits 87 to 89, 7 being always true.
    let predicate = word.hi >> 23 & 0xf != 7;
    let form = word.lo >> 9 & 7;
    // Operand forms: 1 takes a register, 2 and 6 uniform ones, 4 an immediate, 5 a constant.
    let is_immediate = form == 4;
    match word.lo & 0x1ff {
        // BRA; bits 32 and 33: 1 is .U, 2 is .DIV, 3 is .CONV. 0x547 has a uniform predicate in bits 24 to 27.
        0x147 => {
            let kind = word.lo >> 32 & 3;
            let uniform = form == 2 && word.lo >> 24 & 0xf != 7;
            (branch(sm, word, index), predicate || kind >= 2 || uniform)
        }
        // BRX, JMX and their uniform forms.
        0x149 | 0x14c | 0x158 | 0x159 => (Transfer::Indirect, predicate),
        // JMP with an absolute target.
        0x14a => (absolute(word), predicate),
        // CALL.ABS and CALL.REL.
        0x143 => (Transfer::CallOut, predicate),
        0x144 if is_immediate => match branch(sm, word, index) {
            Transfer::Branch(target) => (Transfer::Call(target), predicate),
            _ => (Transfer::CallOut, predicate),
        },
        0x144 => (Transfer::CallOut, predicate),
        // BSSY names where threads meet again.
        0x145 => (push(word, index), false),
        // WARPSYNC.COLLECTIVE names where the others wait: bit 86.
        0x148 if sm >= 90 && form == 1 && word.hi >> 22 & 1 == 1 => match branch(sm, word, index) {
            Transfer::Branch(target) => (Transfer::PushTarget(target), false),
            _ => (Transfer::Next, false),
        },
        // EXIT, KILL.
        0x14d | 0x15b => (Transfer::Exit, predicate),
        // RET; bit 85 is .ABS.
        0x150 if word.hi >> 21 & 1 == 1 => (Transfer::ReturnOut, predicate),
        0x150 => (Transfer::Return, predicate),
        _ => (Transfer::Next, false),
    }
}

/// A pc relative to the next instruction. A target outside what a section can have becomes an unaligned one, which no code has.
fn relative(index: usize, offset: i64) -> Pc {
    let next = (index as i64).saturating_add(1).saturating_mul(16);
    Pc(u32::try_from(next.saturating_add(offset)).unwrap_or(u32::MAX))
}

/// The signed number in bits 34 to 81.
fn distance(word: Word) -> i64 {
    let raw = word.lo >> 34 | (word.hi & 0x3_ffff) << 30;
    (raw << 16) as i64 >> 16
}

/// `BRA`: bits 34 to 81 count four bytes up to sm_89; from sm_90 on they count 1,024 and bits 16 to 23 four.
fn branch(sm: u16, word: Word, index: usize) -> Transfer {
    let offset = if sm >= 90 {
        (distance(word) << 10).wrapping_add(((word.lo >> 16 & 0xff) << 2) as i64)
    } else {
        distance(word) << 2
    };
    Transfer::Branch(relative(index, offset))
}

/// `BSSY`: bits 34 to 63 count four bytes on every architecture.
fn push(word: Word, index: usize) -> Transfer {
    let offset = (word.lo as i64 >> 34) << 2;
    Transfer::PushTarget(relative(index, offset))
}

/// `JMP 0x…`.
fn absolute(word: Word) -> Transfer {
    let target = distance(word) << 2;
    Transfer::Branch(Pc(u32::try_from(target).unwrap_or(u32::MAX)))
}

/// Whether a word is `NOP`, which fills a section up to its alignment.
pub fn is_padding(word: Word) -> bool {
    word.lo & 0xfff == 0x918
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_control_may_move_it() {
        for sm in [75, 80, 90, 100, 120] {
            for opcode in 0..0x1000 {
                for hi in [0, u64::MAX, 1 << 22] {
                    let word = Word { lo: opcode, hi };
                    assert!(may_move(word) || of(sm, word, 0) == (Transfer::Next, false), "{opcode:#x} {hi:#x}");
                }
            }
        }
    }
}
