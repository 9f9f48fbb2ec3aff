//! Whether two functions are the same but for the names of their registers: proven, or not known.
//!
//! Both must have the same instructions at the same places, register numbers and scheduling aside. What each register of the one stands
//! for in the other is then followed along every path (a relation that each instruction changes and paths that meet narrow): every read
//! must be of registers that stand for each other. Whatever is not understood is no renaming: wrong would be worse than unknown.

use std::collections::BTreeSet;

use crate::base::{RegFile, work};
use crate::cubin::{Function, FunctionKind, Image};
use crate::flow::Program;
use crate::registers::code::{Code, Counting};
use crate::sass::{Run, Transfer, Word};

/// Registers of all files, one after the other.
const SLOTS: usize = 2 * 256 + 2 * 16;
/// No register.
const NONE: u16 = u16::MAX;
/// The stack pointer: the only register that a kernel is given.
const STACK: usize = 1;

/// The place of a register among all.
fn slot(file: RegFile, index: u16) -> Option<usize> {
    let (start, length) = match file {
        RegFile::Gpr => (0, 256),
        RegFile::Ugpr => (256, 256),
        RegFile::Pred => (512, 16),
        RegFile::Upred => (528, 16),
    };
    let index = usize::from(index);
    (index < length).then_some(start + index)
}

/// What is known before an instruction: for each new register the old one that holds the same, and which were ever written.
#[derive(Clone, PartialEq)]
struct State {
    old_of: [u16; SLOTS],
    old_written: [bool; SLOTS],
    new_written: [bool; SLOTS],
}

impl State {
    /// Every register holds what the one of its name held when the function was entered.
    fn entry() -> Box<State> {
        let mut old_of = [NONE; SLOTS];
        old_of.iter_mut().zip(0..).for_each(|(old, number)| *old = number);
        Box::new(State { old_of, old_written: [false; SLOTS], new_written: [false; SLOTS] })
    }

    /// Keeps what both paths agree on; whether anything went.
    fn meet(&mut self, other: &State) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.old_of.iter_mut().zip(&other.old_of) {
            if *mine != *theirs && *mine != NONE {
                (*mine, changed) = (NONE, true);
            }
        }
        let written = self.old_written.iter_mut().chain(&mut self.new_written);
        for (mine, theirs) in written.zip(other.old_written.iter().chain(&other.new_written)) {
            changed |= *theirs && !*mine;
            *mine |= *theirs;
        }
        changed
    }

    /// Follows an instruction; false where it reads what does not stand for each other.
    fn step(&mut self, old: &[Run], new: &[Run], guarded: bool, is_kernel: bool) -> bool {
        let pairs = || {
            let runs = old.iter().zip(new);
            runs.flat_map(|(old, new)| {
                let each = old.registers().zip(new.registers());
                each.map(|(a, b)| (old.is_write(), slot(old.file(), a), slot(new.file(), b)))
            })
        };
        for (write, a, b) in pairs() {
            let (Some(a), Some(b)) = (a, b) else { return false };
            // Callees and debuggers know the stack pointer by its number.
            if (a == STACK) != (b == STACK) {
                return false;
            }
            if !write && usize::from(self.old_of[b]) != a {
                return false;
            }
        }
        let writes: Vec<(usize, usize)> =
            pairs().filter(|(write, ..)| *write).filter_map(|(_, a, b)| a.zip(b)).collect();
        // Whether the two hold the same where a guard keeps the instruction from writing: what nobody has written is nothing to both.
        let stays = |state: &State, a: usize, b: usize| {
            let is_nothing = is_kernel && a != STACK && b != STACK && !state.old_written[a] && !state.new_written[b];
            usize::from(state.old_of[b]) == a || is_nothing
        };
        let kept: Vec<bool> = writes.iter().map(|(a, b)| !guarded || stays(self, *a, *b)).collect();
        for (a, _) in &writes {
            let a = u16::try_from(*a).unwrap_or(NONE);
            self.old_of.iter_mut().filter(|old| **old == a).for_each(|old| *old = NONE);
        }
        for ((a, b), kept) in writes.iter().zip(kept) {
            self.old_of[*b] = if kept { u16::try_from(*a).unwrap_or(NONE) } else { NONE };
            (self.old_written[*a], self.new_written[*b]) = (true, true);
        }
        true
    }
}

/// A text without the numbers of its registers. Numbers of barriers and where jumps go stay.
fn shape(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut shape = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !is_word(c) {
            shape.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        rest = after.strip_prefix(".reuse").unwrap_or(after);
        let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let file = word.strip_suffix(digits).unwrap_or(word);
        let is_numbered = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        shape.push_str(if is_numbered && matches!(file, "R" | "UR" | "P" | "UP") { file } else { word });
    }
    shape
}

/// Whether all bits that differ are where words have registers, or tell the scheduler when. A bit that no text shows may still do something.
fn differs_in_registers_alone(x: Word, y: Word) -> bool {
    let bits = |from: u32, to: u32| (u64::MAX >> (64 - (to - from))) << from;
    // The guard; three registers.
    let low = bits(12, 15) | bits(16, 40);
    // The fourth register; predicates; what the scheduler is told.
    let high = bits(0, 8) | bits(17, 26) | bits(41, 64);
    (x.lo ^ y.lo) & !low == 0 && (x.hi ^ y.hi) & !high == 0
}

/// Whether a text writes a part of a register alone: its first operand has `.H1` or the like.
fn writes_a_part(text: &str) -> bool {
    let mut words = text.split_whitespace().skip_while(|word| word.starts_with('@')).skip(1);
    words.next().is_some_and(|operand| operand.contains(".H") || operand.contains(".B"))
}

/// Whether the second is the first with its registers renamed.
pub fn is_renaming(old: (&Image<'_>, &Function<'_>), new: (&Image<'_>, &Function<'_>)) -> bool {
    let ((old_image, old), (new_image, new)) = (old, new);
    let relocations = |image: &Image<'_>, function: &Function<'_>| -> Vec<_> {
        let of = |one: &crate::cubin::Relocation| {
            let symbol = image.symbol(one.symbol).map(|symbol| symbol.name.to_string());
            (one.offset, one.kind, symbol, one.addend)
        };
        function.relocations.iter().map(of).collect()
    };
    if old_image.arch != new_image.arch
        || old.kind != new.kind
        || old.code.len() != new.code.len()
        || old.parts.len() != new.parts.len()
        || old.resources.registers != new.resources.registers
        || relocations(old_image, old) != relocations(new_image, new)
    {
        return false;
    }
    let analyse = |image: &Image<'_>, function| Code::analyse(image.arch, function, &Counting::default());
    let (Some(a), Some(b)) = (analyse(old_image, old), analyse(new_image, new)) else { return false };
    has_registers(&b, new.resources.registers)
        && has_equal_shape(&a, &b)
        && follows(&a, &b, old.kind == FunctionKind::Entry)
}

/// Whether no vector register is named beyond those that a thread is given.
fn has_registers(code: &Code, given: Option<u32>) -> bool {
    let program = code.program();
    let end = |run: Run| u32::from(run.first()) + u32::from(run.count());
    let is_given = |run: Run| run.file() != RegFile::Gpr || given.is_none_or(|given| end(run) <= given);
    (0..program.len()).all(|index| program.runs(index).all(is_given))
}

/// Whether both have the same instructions at the same places, and only such as are understood here.
fn has_equal_shape(a: &Code, b: &Code) -> bool {
    let (one, other) = (a.program(), b.program());
    if one.len() != other.len() || !a.cfg.exact() || !b.cfg.exact() {
        return false;
    }
    let (mut text, mut other_text) = (String::new(), String::new());
    for index in 0..one.len() {
        work::tick();
        let (flow, other_flow) = (one.flow(index), other.flow(index));
        let is_simple =
            matches!(flow.transfer, Transfer::Next | Transfer::PushTarget(_) | Transfer::Branch(_) | Transfer::Exit);
        let (Some(x), Some(y)) = (one.instructions().get(index), other.instructions().get(index)) else { return false };
        if !is_simple || flow.transfer != other_flow.transfer || x.is_unknown() || y.is_unknown() {
            return false;
        }
        let pc = crate::base::Pc(u32::try_from(index).unwrap_or(0) * 16);
        text.clear();
        other_text.clear();
        one.decoder().text(x, pc, &mut text);
        other.decoder().text(y, pc, &mut other_text);
        if shape(&text) != shape(&other_text) || writes_a_part(&text) || !differs_in_registers_alone(x.word, y.word) {
            return false;
        }
        let is_like = |x: &Run, y: &Run| (x.file(), x.count(), x.is_write()) == (y.file(), y.count(), y.is_write());
        let (mut left, mut right) = (one.runs(index), other.runs(index));
        let mut is_same = true;
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                (Some(x), Some(y)) if is_like(&x, &y) => is_same &= x == y,
                _ => return false,
            }
        }
        // With the same registers only what the scheduler is told may differ.
        if is_same && (x.word.lo != y.word.lo || (x.word.hi ^ y.word.hi) & ((1 << 41) - 1) != 0) {
            return false;
        }
    }
    true
}

/// Follows the relation along every path until nothing changes.
fn follows(a: &Code, b: &Code, is_kernel: bool) -> bool {
    let cfg = &a.cfg;
    if cfg.blocks.len() != b.cfg.blocks.len() {
        return false;
    }
    let mut states: Vec<Option<Box<State>>> = vec![None; cfg.blocks.len()];
    let mut waiting: BTreeSet<u32> = BTreeSet::new();
    for function in &cfg.functions {
        if let Some(state) = states.get_mut(function.block.0 as usize) {
            *state = Some(State::entry());
            waiting.insert(function.block.0);
        }
    }
    while let Some(number) = waiting.pop_first() {
        let Some(block) = cfg.blocks.get(number as usize) else { return false };
        let Some(mut state) = states.get(number as usize).cloned().flatten() else { return false };
        for index in block.start..block.end {
            work::tick();
            let index = index as usize;
            let (old, new): (Vec<Run>, Vec<Run>) =
                (a.program().runs(index).collect(), b.program().runs(index).collect());
            if !state.step(&old, &new, a.program().guard(index).is_some(), is_kernel) {
                return false;
            }
        }
        for next in cfg.successors(crate::graph::BlockId(number)) {
            match states.get_mut(next.0 as usize) {
                Some(Some(there)) => {
                    if there.meet(&state) {
                        waiting.insert(next.0);
                    }
                }
                Some(empty) => {
                    *empty = Some(state.clone());
                    waiting.insert(next.0);
                }
                None => return false,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape("@!P0 FADD R4.reuse, R5, -|R6|"), "@!P FADD R, R, -|R|");
        assert_eq!(shape("BSSY B0, 0x120"), "BSSY B0, 0x120");
        assert_eq!(shape("LDC.64 R2, c[0x0][0x380]"), "LDC.64 R, c[0x0][0x380]");
        assert_eq!(shape("UMOV UR4, URZ"), "UMOV UR, URZ");
        assert!(writes_a_part("@P0 HADD2 R4.H0, R5, R6") && !writes_a_part("HADD2 R4, R5.H0_H0, R6"));
    }

    fn run(first: u8, count: u8, write: bool) -> Run {
        Run::new(RegFile::Gpr, first, count, write).unwrap()
    }

    #[test]
    fn reads_must_be_of_what_was_written() {
        let mut state = State::entry();
        assert!(state.step(&[run(4, 2, true)], &[run(8, 2, true)], false, true));
        assert!(state.clone().step(&[run(4, 2, false)], &[run(8, 2, false)], false, true));
        assert!(!state.clone().step(&[run(1, 1, true)], &[run(9, 1, true)], false, true), "the stack pointer");
        // The second of a pair is another register.
        assert!(!state.clone().step(&[run(5, 1, false)], &[run(8, 1, false)], false, true));
        assert!(!state.clone().step(&[run(4, 1, false)], &[run(4, 1, false)], false, true));
        // What was overwritten is gone.
        assert!(state.step(&[run(5, 1, true)], &[run(20, 1, true)], false, true));
        assert!(!state.step(&[run(5, 1, false)], &[run(9, 1, false)], false, true));
    }

    #[test]
    fn a_guard_leaves_what_was_there() {
        let mut fresh = State::entry();
        assert!(fresh.step(&[run(4, 1, true)], &[run(8, 1, true)], true, true));
        assert!(fresh.step(&[run(4, 1, false)], &[run(8, 1, false)], false, true));
        // Something was there before.
        let mut state = State::entry();
        assert!(state.step(&[run(4, 1, true)], &[run(9, 1, true)], false, true));
        assert!(state.step(&[run(4, 1, true)], &[run(8, 1, true)], true, true));
        assert!(!state.step(&[run(4, 1, false)], &[run(8, 1, false)], false, true));
        // A device function is given registers.
        let mut given = State::entry();
        assert!(given.step(&[run(4, 1, true)], &[run(8, 1, true)], true, false));
        assert!(!given.step(&[run(4, 1, false)], &[run(8, 1, false)], false, false));
    }

    #[test]
    fn paths_that_meet_agree_on_less() {
        let (mut one, mut other) = (State::entry(), State::entry());
        assert!(one.step(&[run(4, 1, true)], &[run(8, 1, true)], false, true));
        assert!(other.step(&[run(4, 1, true)], &[run(9, 1, true)], false, true));
        assert!(one.meet(&other));
        assert!(!one.clone().step(&[run(4, 1, false)], &[run(8, 1, false)], false, true));
        assert!(!one.meet(&other));
    }
}
