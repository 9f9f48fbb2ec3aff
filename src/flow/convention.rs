//! What calls, returns and the end of a thread do to registers by convention, under either rule.

use crate::base::{RegFile, RegSet};
use crate::sass::{Effects, Flow, Transfer};

use super::liveness::Rule;
use super::program::{Layout, Program};
use super::touched::Touched;

/// What calls and returns do by convention.
#[derive(Clone, Debug)]
pub(super) struct Abi {
    /// A `RET` to an unknown caller: what it keeps for it.
    pub(super) kept: RegSet,
    /// A call of an unknown function.
    pub(super) call: Effects,
    /// What nvdisasm has live at the end of a thread: R1.
    pub(super) at_end: RegSet,
    /// By the instruction that each function starts with: the uniform registers that nvdisasm has live where it returns.
    uniform: Vec<(u32, RegSet)>,
    /// What nvdisasm counts: of the uniform registers UR4 to UR62 only, and nothing above the highest that the cubin names.
    pub(super) counted: RegSet,
}

/// Registers of a function; all when their number is not known.
fn given(registers: u16) -> u16 {
    if registers == 0 { 255 } else { registers.min(255) }
}

/// What a function of so many registers keeps for its caller: R2, R16 to R31 and the upper four of each eight from R36 on.
pub(super) fn kept_by_callee(registers: u16) -> RegSet {
    let mut kept = RegSet::EMPTY;
    kept.insert(RegFile::Gpr, 2);
    kept.insert_run(RegFile::Gpr, 16, 16);
    (36..255).step_by(8).for_each(|first| kept.insert_run(RegFile::Gpr, first, 4));
    (given(registers)..256).for_each(|index| kept.remove(RegFile::Gpr, index));
    kept
}

/// Of the uniform registers that a callee keeps, UR36 and up, nvdisasm has those live at a `RET` that its function names.
fn kept_uniform(program: &impl Program, layout: &Layout) -> Vec<(u32, RegSet)> {
    let mut kept = RegSet::EMPTY;
    kept.insert_run(RegFile::Ugpr, 36, 27);
    if layout.named.as_ref().is_some_and(|named| named.intersection(&kept).count(RegFile::Ugpr) == 0) {
        return Vec::new();
    }
    let mut functions: Vec<(u32, RegSet)> = layout.entries.iter().map(|pc| (pc.0 / 16, RegSet::EMPTY)).collect();
    functions.push((0, RegSet::EMPTY));
    functions.sort_unstable_by_key(|(start, _)| *start);
    functions.dedup_by_key(|(start, _)| *start);
    let mut at = 0;
    for index in 0..program.len() {
        if functions.get(at + 1).is_some_and(|(start, _)| *start as usize <= index) {
            at += 1;
        }
        let effects = program.effects(index);
        functions[at].1.union_with(&effects.reads.union(&effects.writes).intersection(&kept));
    }
    functions
}

impl Abi {
    /// The convention for the functions of a section.
    pub(super) fn new(program: &impl Program, layout: &Layout, rule: Rule) -> Abi {
        let named = layout.named.as_ref();
        let kept = kept_by_callee(layout.registers);
        let registers = given(layout.registers);
        let mut at_end = RegSet::EMPTY;
        at_end.insert(RegFile::Gpr, 1);
        let mut call = Effects { reads: at_end, writes: RegSet::EMPTY };
        call.reads.insert(RegFile::Gpr, 0);
        let kept_or_stack = kept.union(&at_end);
        for index in (0..registers).filter(|&index| !kept_or_stack.contains(RegFile::Gpr, index)) {
            call.writes.insert(RegFile::Gpr, index);
        }
        call.writes.insert_run(RegFile::Pred, 0, 7);
        call.writes.insert_run(RegFile::Ugpr, 4, 32);
        call.writes.insert_run(RegFile::Upred, 0, 7);
        let mut counted = RegSet::all();
        (0..4).chain(63..128).for_each(|index| counted.remove(RegFile::Ugpr, index));
        if let Some(named) = named {
            for file in RegFile::ALL {
                let columns = named.iter(file).max().map_or(0, |highest| highest + 1);
                (columns..256).for_each(|index| counted.remove(file, index));
            }
        }
        let uniform = if rule == Rule::Nvdisasm { kept_uniform(program, layout) } else { Vec::new() };
        Abi { kept, call, at_end, uniform, counted }
    }

    /// The uniform registers that nvdisasm has live at a `RET`.
    fn uniform(&self, index: u32) -> RegSet {
        let after = self.uniform.partition_point(|(start, _)| *start <= index);
        after.checked_sub(1).map_or(RegSet::EMPTY, |at| self.uniform[at].1)
    }

    /// Adds what calls, returns and the end of a thread do by convention.
    pub(super) fn follow(&self, rule: Rule, index: u32, flow: &Flow, touched: &mut Touched) {
        match (rule, flow.transfer) {
            (Rule::Nvdisasm, Transfer::Call(_) | Transfer::CallOut) => touched.add(&self.call),
            (Rule::Nvdisasm, Transfer::Return) => touched.add(&self.at_return(index)),
            (rule, Transfer::ReturnOut) => {
                let mut effects = self.at_return(index);
                if rule == Rule::Sound {
                    // Results are in R4 to R15 by convention; how many is not known here.
                    effects.reads.insert_run(RegFile::Gpr, 4, 12);
                }
                touched.add(&effects);
            }
            (Rule::Nvdisasm, Transfer::Exit) => touched.add(&Effects { reads: self.at_end, writes: RegSet::EMPTY }),
            (Rule::Nvdisasm, Transfer::Branch(target)) if target.0 == index * 16 => {
                touched.add(&Effects { reads: self.at_end, writes: RegSet::EMPTY });
            }
            (Rule::Sound, Transfer::CallOut) => {
                // Arguments are in R4 to R15 by convention; how many is not known here.
                let mut effects = self.call;
                effects.reads.insert_run(RegFile::Gpr, 4, 12);
                touched.add(&effects);
            }
            _ => {}
        }
    }

    /// What is read where a function returns.
    fn at_return(&self, index: u32) -> Effects {
        let reads = self.kept.union(&self.at_end).union(&self.uniform(index));
        Effects { reads, writes: RegSet::EMPTY }
    }
}
