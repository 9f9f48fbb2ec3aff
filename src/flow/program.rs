//! What flow needs to know about instructions, and SASS words as its usual source.

use std::collections::BTreeMap;

use crate::base::Pc;
use crate::sass::effects::EffectTable;
use crate::sass::transfer;
use crate::sass::{Effects, Flow, Word};

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
    /// Whether the section's first function is called from outside (a device function) and not launched (a kernel).
    pub called_from_outside: bool,
}

/// The words of a code section under the tables of an architecture.
#[derive(Clone, Copy, Debug)]
pub struct SassProgram<'a> {
    words: &'a [Word],
    table: &'a EffectTable,
    padding: usize,
    unknown: &'a [u32],
}

impl<'a> SassProgram<'a> {
    /// The words of one section.
    pub fn new(words: &'a [Word], table: &'a EffectTable) -> Self {
        let padding = words.iter().rev().take_while(|word| transfer::is_padding(**word)).count();
        SassProgram { words, table, padding, unknown: &[] }
    }

    /// Marks instructions, by index and ascending, that the decoder does not know: liveness is inexact where they are reached.
    pub fn with_unknown(self, unknown: &'a [u32]) -> Self {
        SassProgram { unknown, ..self }
    }
}

impl Program for SassProgram<'_> {
    fn len(&self) -> usize {
        self.words.len()
    }

    fn flow(&self, index: usize) -> Flow {
        let Some(&word) = self.words.get(index) else { return Flow { known: false, ..Flow::NEXT } };
        let mut flow = self.table.flow(word, index);
        if !self.unknown.is_empty() && self.unknown.binary_search(&(index as u32)).is_ok() {
            flow.known = false;
        }
        flow
    }

    fn effects(&self, index: usize) -> Effects {
        self.words.get(index).and_then(|&word| self.table.of(word)).unwrap_or_default()
    }

    fn padding(&self) -> usize {
        self.padding
    }
}
