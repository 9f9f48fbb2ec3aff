//! Which accesses of local memory are spills: registers put aside and brought back.
//!
//! ptxas marks them from 12.8 on, in kernels. Where it does not, they are told from local arrays by the stack slots they use, and taken only when their bytes add
//! up to what ptxas itself reports: a guess that does not add up is not made.

use std::ops::Range;

use super::code::{Code, pcs};
use crate::base::{Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::sass::{OperandKind, Term, parts};

/// How an access is known to be a spill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The cubin marks it.
    Marked,
    /// It uses the stack slots whose accesses add up to ptxas's figures.
    Inferred,
}

/// One spill store or refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillAccess {
    /// Where.
    pub pc: Pc,
    /// A store, or else a load; none where the instruction is not known.
    pub is_store: Option<bool>,
    /// How much it moves.
    pub bytes: Option<u32>,
    /// The offset from the stack pointer.
    pub slot: Option<i64>,
    /// The first register that is put aside or brought back.
    pub register: Option<u16>,
    /// How it is known.
    pub basis: Basis,
}

/// The spills of a stretch of code. `marked` are those the cubin marks, none when its ptxas marks none; `expected` are the bytes stored and
/// loaded that ptxas reports; in kernels marks are complete. None when they cannot be told.
pub fn find(
    code: Option<&Code>,
    ranges: &[Range<Pc>],
    marked: Option<&[Pc]>,
    is_kernel: bool,
    expected: Option<(u64, u64)>,
) -> Option<Vec<SpillAccess>> {
    let within = |pc: &Pc| ranges.iter().any(|range| range.contains(pc));
    let marked: Option<Vec<SpillAccess>> =
        marked.map(|marked| marked.iter().copied().filter(within).map(|pc| access(code, pc, Basis::Marked)).collect());
    let Some(expected) = expected else {
        // In device functions ptxas counts what is kept for the caller as spilt, and marks none of it.
        let is_silent = !is_kernel && marked.as_ref().is_some_and(Vec::is_empty);
        let uses_stack = || code.is_some_and(|code| pcs(ranges).any(|pc| code.local_access(pc).is_some()));
        return marked.filter(|_| !is_silent || !uses_stack());
    };
    if let Some(marked) = &marked
        && (sums(marked) == expected || !marked.is_empty())
    {
        return Some(marked.clone());
    }
    if expected == (0, 0) {
        return Some(Vec::new());
    }
    let code = code?;
    let stack: Vec<SpillAccess> = pcs(ranges)
        .filter(|&pc| code.local_access(pc).is_some())
        .map(|pc| access(Some(code), pc, Basis::Inferred))
        .filter(|access| access.slot.is_some())
        .collect();
    let mut slots: Vec<i64> = stack.iter().filter_map(|access| access.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    // Arrays lie on one side, spills on the other: all of it, what is from some slot on, what is below some slot.
    let from = slots.iter().map(|&slot| (slot, i64::MAX));
    let below = slots.iter().skip(1).map(|&slot| (i64::MIN, slot));
    from.chain(below)
        .map(|(low, high)| {
            let is_in = |access: &&SpillAccess| access.slot.is_some_and(|slot| (low..high).contains(&slot));
            stack.iter().filter(is_in).copied().collect::<Vec<_>>()
        })
        .take(MAX_TRIES)
        .find(|chosen| sums(chosen) == expected)
}

/// Splits of the stack frame that are tried at most.
const MAX_TRIES: usize = 4096;

/// Bytes stored and loaded.
fn sums(accesses: &[SpillAccess]) -> (u64, u64) {
    let of = |store: bool| {
        let chosen = accesses.iter().filter(|access| access.is_store == Some(store));
        chosen.map(|access| u64::from(access.bytes.unwrap_or(0))).sum()
    };
    (of(true), of(false))
}

fn access(code: Option<&Code>, pc: Pc, basis: Basis) -> SpillAccess {
    let unknown = SpillAccess { pc, is_store: None, bytes: None, slot: None, register: None, basis };
    let Some((code, moved)) = code.and_then(|code| Some((code, code.local_access(pc)?))) else { return unknown };
    let mut text = String::new();
    if let Some(instruction) = code.instruction(pc) {
        code.decoder().text(&instruction, pc, &mut text);
    }
    let parts = parts(&text);
    let mut slot = None;
    let mut register = None;
    for operand in &parts.operands {
        match &operand.kind {
            OperandKind::Memory { parts, .. } => slot = parts.last().and_then(|terms| stack_offset(terms)),
            OperandKind::Reg(reg) if reg.file == RegFile::Gpr && reg.index != 255 => register = Some(reg.index),
            _ => {}
        }
    }
    SpillAccess { is_store: Some(moved.is_store), bytes: Some(moved.bytes), slot, register, ..unknown }
}

/// The offset of `[R1+0x10]`; none for an address that is not the stack pointer and a number.
fn stack_offset(terms: &[Term<'_>]) -> Option<i64> {
    let mut is_stack = false;
    let mut offset = 0;
    for term in terms {
        match term {
            Term::Reg(reg, _) if reg.file == RegFile::Gpr && reg.index == 1 => is_stack = true,
            Term::Int(value) => offset += value,
            _ => return None,
        }
    }
    is_stack.then_some(offset)
}

/// The instruction that made the value a spill store puts aside, the last one where several may have.
///
/// Most lie a few instructions before the store: only where nothing in the store's block made it are its predecessors walked, and of those
/// walks, which cost as much as the code is long, there are no more than `walks`.
pub fn spilled_value(code: &Code, spill: &SpillAccess, walks: &mut u32) -> Option<Pc> {
    let register = spill.register.filter(|_| spill.is_store == Some(true))?;
    let program = code.program();
    let start = code.cfg.block_at(spill.pc).and_then(|block| code.cfg.blocks.get(block.0 as usize))?.start;
    for index in (start..spill.pc.0 / 16).rev() {
        let mut written = program.runs(index as usize).filter(|run| run.write && run.file == RegFile::Gpr);
        if written.any(|run| run.registers().any(|found| found == register)) && !program.flow(index as usize).never() {
            return Some(Pc(index * 16));
        }
    }
    *walks = walks.checked_sub(1)?;
    let mut wanted = RegSet::EMPTY;
    wanted.insert(RegFile::Gpr, register);
    let definitions = code.liveness.definitions(program, &code.cfg, spill.pc, &wanted);
    definitions.iter().map(|definition| definition.pc).filter(|pc| *pc < spill.pc).max()
}
