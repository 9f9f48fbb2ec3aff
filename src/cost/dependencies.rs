//! Reads of results within a block, with what the control bits leave between producer and consumer.

use std::collections::BTreeMap;

use crate::base::RegFile;
use crate::flow::Program;
use crate::registers::code::Code;
use crate::sass::Control;

/// How an instruction reads the result of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// As an operand.
    Reads(RegFile),
    /// As its guard.
    Guarded(RegFile),
}

/// What lies between two instructions that depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Cycles by stall counts, at least.
    Cycles(u32),
    /// Somebody waits for the scoreboard of the earlier one.
    Waited,
    /// The earlier one has a scoreboard, and nobody waits for it.
    NotWaited,
}

/// A dependency of two instructions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The producer.
    pub from: u32,
    /// The consumer.
    pub to: u32,
    /// How it reads.
    pub way: Way,
    /// What covers it.
    pub cover: Cover,
}

/// Cycles beyond which no fixed latency reaches.
const FAR: u32 = 64;

/// The last writer of a register.
#[derive(Clone, Copy)]
struct Writer {
    index: u32,
    issued: u32,
    /// The scoreboard of its result.
    board: Option<u8>,
    waited: bool,
}

/// What is known along a block.
#[derive(Default)]
struct State {
    now: u32,
    writers: BTreeMap<(RegFile, u16), Writer>,
}

/// Visits every read of a result within the blocks of the code.
pub fn dependencies(code: &Code, mut visit: impl FnMut(Dependency)) {
    for block in &code.cfg.blocks {
        let mut state = State::default();
        for index in block.start..block.end {
            step(code, index, &mut state, &mut visit);
        }
    }
}

fn step(code: &Code, index: u32, state: &mut State, visit: &mut impl FnMut(Dependency)) {
    let program = code.program();
    let Some(inst) = program.instructions().get(index as usize) else { return };
    let control = inst.control();
    wait(state, control);
    let guard = program.guard(index as usize).map(|guard| (guard.file, u16::from(guard.index)));
    let effects = program.effects(index as usize);
    for register in effects.reads.iter_all() {
        let Some(writer) = state.writers.get(&register) else { continue };
        let way = if guard == Some(register) { Way::Guarded(register.0) } else { Way::Reads(register.0) };
        let cover = match writer.board {
            None => Cover::Cycles(state.now - writer.issued),
            Some(_) if writer.waited => Cover::Waited,
            Some(_) => Cover::NotWaited,
        };
        visit(Dependency { from: writer.index, to: index, way, cover });
    }
    let writer = Writer { index, issued: state.now, board: control.write_barrier, waited: false };
    for register in effects.writes.iter_all() {
        // Where a guard may leave it undone the earlier value is still there: the later writer is what counts.
        state.writers.insert(register, writer);
    }
    state.now = state.now.saturating_add(u32::from(control.stall.max(1)));
    if index.is_multiple_of(FAR) {
        let near = state.now.saturating_sub(FAR);
        state.writers.retain(|_, writer| writer.board.is_some() || writer.issued >= near);
    }
}

/// Whoever waits for a scoreboard has waited for all that hold it.
fn wait(state: &mut State, control: Control) {
    if control.wait_mask == 0 {
        return;
    }
    for writer in state.writers.values_mut() {
        writer.waited |= writer.board.is_some_and(|board| control.wait_mask >> board & 1 == 1);
    }
}
