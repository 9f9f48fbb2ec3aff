//! What flow needs to know about instructions, and SASS words as its usual source.

use std::collections::BTreeMap;

use crate::base::{Pc, RegSet};
use crate::sass::transfer;
use crate::sass::{Decoder, Effects, Flow, Inst, Transfer};

use super::liveness::kept_by_callee;

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

    /// What instruction `index` reads and writes, calls and returns aside: those follow from the [`Cfg`](super::Cfg).
    fn effects(&self, index: usize) -> Effects;

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

/// The decoded instructions of a code section.
#[derive(Clone, Copy, Debug)]
pub struct SassProgram<'a> {
    instructions: &'a [Inst],
    decoder: Decoder,
    padding: usize,
}

impl<'a> SassProgram<'a> {
    /// The instructions of one section, as its architecture's decoder gave them.
    pub fn new(instructions: &'a [Inst], decoder: Decoder) -> Self {
        let padding = instructions.iter().rev().take_while(|inst| transfer::is_padding(inst.word)).count();
        SassProgram { instructions, decoder, padding }
    }
}

impl SassProgram<'_> {
    /// Every register that an instruction reads or writes, and where there is a `RET`, those that a function of so many registers keeps for its caller.
    pub fn named(&self, registers: u16) -> RegSet {
        let mut named = RegSet::EMPTY;
        let mut returns = false;
        for (index, inst) in self.instructions.iter().enumerate() {
            if let Some(effects) = self.decoder.effects(inst) {
                named.union_with(&effects.reads);
                named.union_with(&effects.writes);
                let transfer = self.decoder.flow(inst, index).transfer;
                returns |= matches!(transfer, Transfer::Return | Transfer::ReturnOut);
            }
        }
        if returns {
            named.union_with(&kept_by_callee(registers));
        }
        named
    }
}

impl Program for SassProgram<'_> {
    fn len(&self) -> usize {
        self.instructions.len()
    }

    fn flow(&self, index: usize) -> Flow {
        match self.instructions.get(index) {
            Some(inst) => self.decoder.flow(inst, index),
            None => Flow { known: false, ..Flow::NEXT },
        }
    }

    fn effects(&self, index: usize) -> Effects {
        self.instructions.get(index).and_then(|inst| self.decoder.effects(inst)).unwrap_or_default()
    }

    fn padding(&self) -> usize {
        self.padding
    }
}
