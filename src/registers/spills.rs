//! Which accesses of local memory are spills: registers put aside and brought back.
//!
//! ptxas marks them from 12.8 on, in kernels. Where it does not, they are told from local arrays by the stack slots they use, and taken only when their bytes add
//! up to what ptxas itself reports: a guess that does not add up is not made.

use std::ops::Range;

use crate::base::{Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::registers::code::{Code, pcs};
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
        let marked = marked.filter(|_| !is_silent || !uses_stack())?;
        return complete(code, ranges, marked);
    };
    if let Some(marked) = marked.as_ref().filter(|marked| sums(marked) == expected) {
        return Some(marked.clone());
    }
    if expected == (0, 0) {
        return Some(marked.unwrap_or_default());
    }
    // Marks that do not add up are incomplete, and still right.
    let marked = marked.unwrap_or_default();
    let inferred = code.and_then(|code| infer(code, ranges, expected)).map(|mut inferred| {
        for access in &mut inferred {
            access.basis = basis(&marked, access.pc);
        }
        inferred
    });
    let has_all =
        |found: &Vec<SpillAccess>| found.iter().filter(|access| access.basis == Basis::Marked).count() == marked.len();
    inferred.filter(has_all).or_else(|| Some(marked).filter(|marked| !marked.is_empty()))
}

/// Marks that one record holds: its length has 16 bits, a mark takes 8 bytes, and what is beyond is lost.
const MARKS_OF_A_RECORD: usize = 1 << 13;

/// The marked spills where none of them can have been lost, and all accesses of local memory where just so many were lost; none otherwise.
fn complete(code: Option<&Code>, ranges: &[Range<Pc>], marked: Vec<SpillAccess>) -> Option<Vec<SpillAccess>> {
    let instructions: u32 = ranges.iter().map(|range| range.end.0.saturating_sub(range.start.0) / 16).sum();
    let Some(code) = code.filter(|_| instructions as usize >= MARKS_OF_A_RECORD) else { return Some(marked) };
    let all: Vec<Pc> = pcs(ranges).filter(|&pc| code.local_access(pc).is_some()).collect();
    match all.len() {
        count if count < MARKS_OF_A_RECORD || count == marked.len() => Some(marked),
        count if count % MARKS_OF_A_RECORD == marked.len() => {
            Some(all.into_iter().map(|pc| access(Some(code), pc, basis(&marked, pc))).collect())
        }
        _ => None,
    }
}

/// How a spill is known that may be among the marked ones, which are sorted.
fn basis(marked: &[SpillAccess], pc: Pc) -> Basis {
    match marked.binary_search_by_key(&pc, |mark| mark.pc) {
        Ok(_) => Basis::Marked,
        Err(_) => Basis::Inferred,
    }
}

/// The accesses of the stack that add up to what ptxas reports.
fn infer(code: &Code, ranges: &[Range<Pc>], expected: (u64, u64)) -> Option<Vec<SpillAccess>> {
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

pub(super) fn access(code: Option<&Code>, pc: Pc, basis: Basis) -> SpillAccess {
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
        let mut written = program.runs(index as usize).filter(|run| run.is_write() && run.file() == RegFile::Gpr);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubin::Image;
    use crate::registers::code::Counting;

    /// So many times a spill store that is recorded, one after the other; each moves so many bytes.
    fn stores(count: u32) -> (Code, u64) {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cubin/inline-13.4-sm_90.cubin");
        let file = std::fs::read(file).unwrap();
        let image = Image::parse(&file).unwrap();
        let function = image.functions.iter().find(|function| function.spills.as_ref().is_some_and(|s| !s.is_empty()));
        let mut function = function.unwrap().clone();
        let code = Code::analyse(image.arch, &function, &Counting::default()).unwrap();
        let is_store = |pc: &Pc| access(Some(&code), *pc, Basis::Marked).is_store == Some(true);
        let pc = *function.spills.as_ref().unwrap().iter().find(|pc| is_store(pc)).unwrap();
        let bytes = code.local_access(pc).unwrap().bytes;
        let words = function.code[pc.0 as usize..][..16].repeat(count as usize);
        function.code = &words;
        (Code::analyse(image.arch, &function, &Counting::default()).unwrap(), u64::from(bytes))
    }

    #[test]
    fn marks_that_a_record_has_no_room_for_are_made_up_for() {
        let count = 8200;
        let (code, bytes) = stores(count);
        let whole = Pc(0)..Pc(count * 16);
        let ranges = std::slice::from_ref(&whole);
        let marks: Vec<Pc> = (0..count % 8192).map(|i| Pc(i * 16)).collect();
        let all = Some((u64::from(count) * bytes, 0));
        for expected in [None, all] {
            let found = find(Some(&code), ranges, Some(&marks), true, expected).unwrap();
            assert_eq!(found.len(), count as usize, "{expected:?}");
            let marked = found.iter().filter(|access| access.basis == Basis::Marked);
            assert!(marked.map(|access| access.pc).eq(marks.iter().copied()));
        }
        // Which ones are meant where other accesses are among them, nobody can tell.
        assert_eq!(find(Some(&code), ranges, Some(&marks[1..]), true, None), None);
        // What does not add up is kept as it is marked.
        let other = Some((1, 1));
        assert_eq!(find(Some(&code), ranges, Some(&marks), true, other).unwrap().len(), marks.len());
    }

    #[test]
    fn marks_of_few_spills_are_complete() {
        let (code, _) = stores(100);
        let marks = [Pc(16), Pc(64)];
        let found = find(Some(&code), std::slice::from_ref(&(Pc(0)..Pc(1600))), Some(&marks), true, None).unwrap();
        assert!(found.iter().map(|access| access.pc).eq(marks));
    }
}
