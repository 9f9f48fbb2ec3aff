//! Who holds which register from where to where: values as stretches of addresses.
//!
//! A span is a run of neighbouring instructions at which a vector register is occupied by what one definition (or one set of
//! definitions that meet) put there. The spans that cover an instruction are its live set. Two passes over the blocks find the
//! definitions that reach each span and the last read that its value may have; both are exact for a value with one
//! definition, and say so where there are more.

use serde::Serialize;

use crate::base::{Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::graph::BlockId;
use crate::registers::code::Code;

/// A register held from one instruction to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ValueSpan {
    /// The vector register.
    pub register: u16,
    /// The first instruction at which it is held.
    pub from: Pc,
    /// The last instruction at which it is held.
    pub to: Pc,
    /// The instruction that filled it; of several the one that the value is known by, as [`live_set`](crate::registers::live_set) chooses: a matrix instruction
    /// before those that zero its accumulators, what makes it anew in a loop before what made the first. None for one filled before the function starts.
    pub definition: Option<Pc>,
    /// Whether other definitions may have filled it too.
    pub has_others: bool,
    /// The last instruction by address that may read it.
    pub last_use: Option<Pc>,
}

/// No definition: there from the start.
const START: u32 = u32::MAX;
/// Set beside a pc, which is a multiple of 16: there are other definitions.
const OTHERS: u32 = 1;
/// More instructions than this are not worked out: the tables would outgrow their use.
const MOST: usize = 4_000_000;

/// Definitions or last uses of all vector registers.
type State = [u32; 256];

/// What matters of one instruction.
#[derive(Clone, Copy)]
struct Step {
    before: RegSet,
    reads: RegSet,
    writes: RegSet,
    is_certain: bool,
    /// How much a value is this instruction's where others may have filled its register too.
    claim: u32,
}

/// Instructions that write more registers than this are matrix instructions.
const WIDE: u32 = 8;

fn claim(writes: &RegSet, depth: u32) -> u32 {
    let width = Some(writes.count(RegFile::Gpr)).filter(|width| *width > WIDE);
    width.unwrap_or(0) << 8 | depth.min(255)
}

/// The definition of a register that either of two may have filled.
fn meet(a: u32, b: u32, steps: &[Step]) -> u32 {
    if a == b {
        return a;
    }
    let claim = |definition: u32| {
        let pc = definition & !OTHERS;
        let step = steps.get(pc as usize / 16).filter(|_| pc != START & !OTHERS);
        step.map(|step| (step.claim, pc))
    };
    let (a, b) = (a & !OTHERS, b & !OTHERS);
    (if claim(a) >= claim(b) { a } else { b }) | OTHERS
}

/// Finds the spans, by register and then by address.
pub fn value_spans(code: &Code) -> Option<Vec<ValueSpan>> {
    let count = code.cfg.instructions as usize;
    if count > MOST {
        return None;
    }
    let program = code.program();
    let none = Step { before: RegSet::EMPTY, reads: RegSet::EMPTY, writes: RegSet::EMPTY, is_certain: true, claim: 0 };
    let mut steps = vec![none; count];
    code.liveness.rows(program, &code.cfg, |row| {
        let index = row.pc.0 as usize / 16;
        if let Some(step) = steps.get_mut(index) {
            let is_certain = program.flow(index).guard.is_none();
            let claim = claim(&row.effects.writes, code.cfg.loop_depth(code.loops(), row.pc));
            *step =
                Step { before: row.before, reads: row.effects.reads, writes: row.effects.writes, is_certain, claim };
        }
    });
    let defined = definitions(code, &steps);
    let used = last_uses(code, &steps);
    Some(spans(code, &steps, &defined, &used))
}

/// The definitions at the start of each block.
fn definitions(code: &Code, steps: &[Step]) -> Vec<Option<Box<State>>> {
    let blocks = &code.cfg.blocks;
    let mut at_start: Vec<Option<Box<State>>> = vec![None; blocks.len()];
    for function in &code.cfg.functions {
        if let Some(state) = at_start.get_mut(function.block.0 as usize) {
            *state = Some(Box::new([START; 256]));
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &block in code.cfg.reverse_postorder() {
            let Some(mut state) = at_start.get(block.0 as usize).cloned().flatten() else { continue };
            let Some(info) = blocks.get(block.0 as usize) else { continue };
            for index in info.start..info.end {
                define(&mut state, steps, index);
            }
            for next in code.cfg.successors(block) {
                let (Some(slot), Some(info)) = (at_start.get_mut(next.0 as usize), blocks.get(next.0 as usize)) else {
                    continue;
                };
                let live = steps.get(info.start as usize).map_or(RegSet::EMPTY, |step| step.before);
                match slot {
                    None => {
                        *slot = Some(state.clone());
                        changed = true;
                    }
                    Some(known) => {
                        for register in live.iter(RegFile::Gpr) {
                            let register = usize::from(register);
                            let met = meet(known[register], state[register], steps);
                            changed |= std::mem::replace(&mut known[register], met) != met;
                        }
                    }
                }
            }
        }
    }
    at_start
}

/// What an instruction does to the definitions.
fn define(state: &mut State, steps: &[Step], index: u32) {
    let Some(step) = steps.get(index as usize) else { return };
    let pc = index * 16;
    for register in step.writes.iter(RegFile::Gpr) {
        let known = &mut state[usize::from(register)];
        let stays = !step.is_certain && step.before.contains(RegFile::Gpr, register);
        *known = if stays { meet(*known, pc, steps) } else { pc };
    }
}

/// The last uses at the start of each block, as pc + 1; 0 where there is none.
fn last_uses(code: &Code, steps: &[Step]) -> Vec<State> {
    let blocks = &code.cfg.blocks;
    let mut at_start: Vec<State> = vec![[0; 256]; blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &block in code.cfg.reverse_postorder().iter().rev() {
            let Some(info) = blocks.get(block.0 as usize) else { continue };
            let mut state = after_block(code, &at_start, block);
            for index in (info.start..info.end).rev() {
                use_up(&mut state, steps, index);
            }
            if let Some(known) = at_start.get_mut(block.0 as usize)
                && *known != state
            {
                *known = state;
                changed = true;
            }
        }
    }
    at_start
}

/// The last uses after a block: the latest of those of its successors.
fn after_block(code: &Code, at_start: &[State], block: BlockId) -> State {
    let mut state = [0; 256];
    for next in code.cfg.successors(block) {
        if let Some(other) = at_start.get(next.0 as usize) {
            state.iter_mut().zip(other.iter()).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
    }
    state
}

/// What an instruction does to the last uses, going back.
fn use_up(state: &mut State, steps: &[Step], index: u32) {
    let Some(step) = steps.get(index as usize) else { return };
    if step.is_certain {
        step.writes.iter(RegFile::Gpr).for_each(|register| state[usize::from(register)] = 0);
    }
    for register in step.reads.iter(RegFile::Gpr) {
        let known = &mut state[usize::from(register)];
        *known = (*known).max(index * 16 + 1);
    }
}

/// A span that has not ended yet.
#[derive(Clone, Copy)]
struct Open {
    from: u32,
    definition: u32,
    last_use: u32,
}

/// The vector registers of a set.
fn vector(set: &RegSet) -> RegSet {
    let mut only = RegSet::EMPTY;
    only.insert_run(RegFile::Gpr, 0, 255);
    only.intersection(set)
}

fn spans(code: &Code, steps: &[Step], defined: &[Option<Box<State>>], used: &[State]) -> Vec<ValueSpan> {
    let mut open: [Option<Open>; 256] = [None; 256];
    let mut held = RegSet::EMPTY;
    let mut found: Vec<ValueSpan> = Vec::new();
    let end = code.cfg.instructions.saturating_sub(code.cfg.padding);
    let mut written: Vec<u32> = Vec::new();
    for (number, block) in code.cfg.blocks.iter().enumerate() {
        let mut state = match defined.get(number) {
            Some(Some(state)) => **state,
            _ => [START; 256],
        };
        // The last use of what each instruction writes, found going back, needed going forth.
        written.clear();
        let mut ahead = after_block(code, used, BlockId(u32::try_from(number).unwrap_or(u32::MAX)));
        for index in (block.start..block.end).rev() {
            if let Some(step) = steps.get(index as usize) {
                let first = written.len();
                written.extend(step.writes.iter(RegFile::Gpr).map(|register| ahead[usize::from(register)]));
                written.get_mut(first..).unwrap_or_default().reverse();
            }
            use_up(&mut ahead, steps, index);
        }
        let mut last_use = ahead;
        // Where definitions may have changed since the last instruction: everywhere at a block's start, then where it wrote.
        let mut changed = held;
        for index in block.start..block.end.min(end) {
            let Some(step) = steps.get(index as usize) else { break };
            let before = vector(&step.before);
            let occupied = vector(&before.union(&step.writes));
            for register in held.difference(&occupied).iter(RegFile::Gpr) {
                if let Some(span) = open[usize::from(register)].take() {
                    found.push(closed(register, span, index.saturating_sub(1)));
                }
            }
            let fresh = occupied.difference(&held).union(&changed.intersection(&occupied));
            let mut new_last = [0; 256];
            for register in step.writes.iter(RegFile::Gpr) {
                new_last[usize::from(register)] = written.pop().unwrap_or(0);
            }
            for register in fresh.iter(RegFile::Gpr) {
                let slot = usize::from(register);
                let is_old = before.contains(RegFile::Gpr, register);
                let definition = if is_old { state[slot] } else { index * 16 };
                let last_use = if is_old { last_use[slot] } else { new_last[slot] };
                match open[slot] {
                    Some(span) if span.definition == definition => {}
                    earlier => {
                        open[slot] = Some(Open { from: index, definition, last_use });
                        found.extend(earlier.map(|span| closed(register, span, index.saturating_sub(1))));
                    }
                }
            }
            held = occupied;
            changed = vector(&step.writes);
            define(&mut state, steps, index);
            for register in step.writes.iter(RegFile::Gpr) {
                let slot = usize::from(register);
                let stays = !step.is_certain && before.contains(RegFile::Gpr, register);
                last_use[slot] = if stays { last_use[slot].max(new_last[slot]) } else { new_last[slot] };
            }
        }
    }
    for (register, slot) in (0u16..).zip(open) {
        found.extend(slot.map(|span| closed(register, span, end.saturating_sub(1))));
    }
    found.sort_unstable_by_key(|span| (span.register, span.from));
    found
}

fn closed(register: u16, span: Open, to: u32) -> ValueSpan {
    let from_start = span.definition & !OTHERS == START & !OTHERS;
    ValueSpan {
        register,
        from: Pc(span.from * 16),
        to: Pc(to * 16),
        definition: (!from_start).then_some(Pc(span.definition & !OTHERS)),
        has_others: !from_start && span.definition & OTHERS != 0,
        last_use: span.last_use.checked_sub(1).map(Pc),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubin::Image;
    use crate::registers::code::Counting;

    #[test]
    fn the_spans_over_an_instruction_are_its_live_registers() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cubin");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.extension().is_none_or(|extension| extension != "cubin") {
                continue;
            }
            let bytes = std::fs::read(&entry).unwrap();
            let Ok(image) = Image::parse(&bytes) else { continue };
            for function in &image.functions {
                let Some(code) = Code::analyse(image.arch, function, &Counting::default()) else { continue };
                seen += 1;
                let spans = value_spans(&code).unwrap();
                let mut effects = vec![crate::sass::Effects::default(); code.cfg.instructions as usize];
                code.liveness.rows(code.program(), &code.cfg, |row| effects[row.pc.0 as usize / 16] = row.effects);
                let mut over = vec![0; code.cfg.instructions as usize];
                for span in &spans {
                    assert!(span.from <= span.to, "{span:?}");
                    (span.from.0 / 16..=span.to.0 / 16).for_each(|index| over[index as usize] += 1);
                    let of = |pc: Pc| &effects[pc.0 as usize / 16];
                    let written = |pc| of(pc).writes.contains(RegFile::Gpr, span.register);
                    assert!(span.definition.is_none_or(written), "{span:?} is written where it is defined");
                    let read = |pc| of(pc).reads.contains(RegFile::Gpr, span.register);
                    assert!(span.last_use.is_none_or(read), "{span:?} is read where it is used");
                }
                for index in 0..code.cfg.instructions - code.cfg.padding {
                    let live = code.occupied(Pc(index * 16), RegFile::Gpr);
                    assert_eq!(over[index as usize], live, "{}: {} at {index}", entry.display(), function.name);
                }
            }
        }
        if seen == 0 {
            eprintln!("SKIPPED: no recorded cubin is of an architecture whose live registers are known");
        }
    }
}
