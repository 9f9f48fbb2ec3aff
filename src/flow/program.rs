//! What flow needs to know about instructions, and SASS words as its usual source.

use std::collections::BTreeMap;

use crate::base::{Pc, RegSet};
use crate::sass::transfer;
use crate::sass::{Decoder, Effects, Flow, Guard, Inst, Run, Transfer};

use super::convention::kept_by_callee;
use super::tail_jumps::tail_jumps;

/// A code section: instruction `i` is the 16 bytes at pc `16 * i`.
pub trait Program {
    /// Number of instructions.
    fn len(&self) -> usize;

    /// Whether there is no instruction.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How instruction `index` moves control.
    fn flow(&self, index: usize) -> Flow;

    /// The guard of instruction `index`.
    fn guard(&self, index: usize) -> Option<Guard> {
        self.flow(index).guard
    }

    /// The registers that instruction `index` reads and writes, calls and returns aside: those follow from the [`Cfg`](super::Cfg).
    fn runs(&self, index: usize) -> impl Iterator<Item = Run>;

    /// The same as two sets.
    #[inline]
    fn effects(&self, index: usize) -> Effects {
        Run::effects(self.runs(index))
    }

    /// Number of 16-byte words of alignment padding at the end, which no path reaches.
    fn padding(&self) -> usize {
        0
    }
}

/// What the code alone does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where functions start by the symbol table: the section's own symbol and those of functions inside it.
    pub entries: Vec<Pc>,
    /// Targets of each indirect branch: EIATTR_INDIRECT_BRANCH_TARGETS.
    pub indirect: BTreeMap<Pc, Vec<Pc>>,
    /// Registers a thread is given; 0 when not known. Bounds what a callee keeps for its caller.
    pub registers: u16,
    /// Every register that an instruction of the cubin names ([`SassProgram::named`]); `None` when not known. Under
    /// nvdisasm's rule nothing counts above the highest of its file, for which the listing has no column.
    pub named: Option<RegSet>,
}

/// Runs of registers of a section beyond which no more are kept: what is there is not known then.
const MOST_RUNS: usize = 1 << 30;

/// The decoded instructions of a code section.
#[derive(Clone, Debug)]
pub struct SassProgram {
    instructions: Vec<Inst>,
    /// What each does to registers, one after the other: asked several times of each, found once.
    runs: Vec<Run>,
    /// Where those of each instruction end, doubled, and one more where they are known.
    ends: Vec<u32>,
    decoder: Decoder,
    padding: usize,
    /// Calls that never come back, by instruction, and where they go: jumps.
    jumps: BTreeMap<u32, Pc>,
}

impl SassProgram {
    /// Decodes a section with the decoder of its architecture.
    pub fn decode(decoder: Decoder, code: &[u8]) -> SassProgram {
        let instructions: Vec<Inst> = decoder.decode_all(code).collect();
        let (mut runs, mut ends) = (Vec::with_capacity(4 * instructions.len()), Vec::with_capacity(instructions.len()));
        for inst in &instructions {
            let uses = decoder.uses(inst).filter(|_| runs.len() < MOST_RUNS);
            if let Some(uses) = uses {
                uses.runs(inst.word).for_each(|run| runs.push(run));
            }
            ends.push((runs.len() as u32) << 1 | u32::from(uses.is_some()));
        }
        let padding = instructions.iter().rev().take_while(|inst| transfer::is_padding(inst.word)).count();
        SassProgram { instructions, runs, ends, decoder, padding, jumps: BTreeMap::new() }
    }

    /// The same with calls that never come back as the jumps that they are. nvdisasm takes them for calls.
    pub fn with_tail_jumps(mut self, layout: &Layout) -> SassProgram {
        self.jumps = tail_jumps(&self, layout);
        self
    }

    /// Whether it is known what an instruction does to registers.
    #[inline]
    fn is_known(&self, index: usize) -> bool {
        self.ends.get(index).is_some_and(|end| end & 1 == 1)
    }

    /// Its instructions.
    pub fn instructions(&self) -> &[Inst] {
        &self.instructions
    }

    /// The tables of its architecture.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Every register that an instruction reads or writes, and where there is a `RET`, those that a function of so many registers keeps for its caller.
    pub fn named(&self, registers: u16) -> RegSet {
        let mut named = RegSet::EMPTY;
        let mut returns = false;
        for index in 0..self.len() {
            let effects = self.effects(index);
            named.union_with(&effects.reads);
            named.union_with(&effects.writes);
            returns |= matches!(self.flow(index).transfer, Transfer::Return | Transfer::ReturnOut);
        }
        if returns {
            named.union_with(&kept_by_callee(registers));
        }
        named
    }
}

impl Program for SassProgram {
    fn len(&self) -> usize {
        self.instructions.len()
    }

    #[inline]
    fn flow(&self, index: usize) -> Flow {
        match self.instructions.get(index) {
            Some(inst) => {
                let flow = self.decoder.flow_with(inst, self.is_known(index), index);
                match self.jumps.get(&(index as u32)) {
                    Some(target) => Flow { transfer: Transfer::Branch(*target), ..flow },
                    None => flow,
                }
            }
            None => Flow { known: false, ..Flow::NEXT },
        }
    }

    #[inline]
    fn guard(&self, index: usize) -> Option<Guard> {
        self.instructions.get(index).filter(|_| self.is_known(index)).and_then(|inst| self.decoder.guard(inst))
    }

    // `copied` is a function of its own where the crate is not optimised as one.
    #[allow(clippy::map_clone)]
    #[inline]
    fn runs(&self, index: usize) -> impl Iterator<Item = Run> {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize >> 1);
        let from = index.checked_sub(1).map_or(0, end);
        self.runs.get(from..end(index)).unwrap_or(&[]).iter().map(|run| *run)
    }

    fn padding(&self) -> usize {
        self.padding
    }
}
