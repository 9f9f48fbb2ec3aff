//! What flow needs to know about instructions, and SASS words as its usual source.

use std::collections::BTreeMap;

use crate::base::{Pc, RegFile, RegSet};
use crate::sass::transfer;
use crate::sass::{Decoder, Effects, Flow, Guard, Inst, Run, Transfer, Word};

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

    /// Whether instruction `index` is understood and goes on to the next one, whatever its guard says. Most do: nobody needs to ask how they move
    /// control.
    #[inline]
    fn is_plain(&self, index: usize) -> bool {
        let flow = self.flow(index);
        flow.known && flow.transfer == Transfer::Next
    }

    /// The instructions that are not plain, ascending.
    fn not_plain(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|index| !self.is_plain(*index))
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

/// What every pass asks of an instruction, found once: whether it is known what it does, whether it may move control, its guard.
#[derive(Clone, Copy, Debug, Default)]
struct Mark(u8);

impl Mark {
    const KNOWN: u8 = 1;
    const MOVES: u8 = 1 << 1;
    const GUARDED: u8 = 1 << 2;
    const NEGATED: u8 = 1 << 3;
    const UNIFORM: u8 = 1 << 4;
    /// Where the guard's number starts.
    const INDEX: u8 = 5;

    /// That of an instruction of which it is known what it does.
    #[inline(always)]
    fn of(word: Word, guarded_by: Option<RegFile>) -> Mark {
        let moves = if transfer::may_move(word) { Mark::MOVES } else { 0 };
        let guard = guarded_by.and_then(|file| Guard::of(file, word)).map_or(0, |guard| {
            let negated = if guard.negated { Mark::NEGATED } else { 0 };
            let uniform = if guard.file == RegFile::Upred { Mark::UNIFORM } else { 0 };
            Mark::GUARDED | negated | uniform | guard.index << Mark::INDEX
        });
        Mark(Mark::KNOWN | moves | guard)
    }

    #[inline(always)]
    fn is_plain(self) -> bool {
        self.0 & (Mark::KNOWN | Mark::MOVES) == Mark::KNOWN
    }

    #[inline(always)]
    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    #[inline(always)]
    fn guard(self) -> Option<Guard> {
        if !self.has(Mark::GUARDED) {
            return None;
        }
        let file = if self.has(Mark::UNIFORM) { RegFile::Upred } else { RegFile::Pred };
        Some(Guard { file, index: self.0 >> Mark::INDEX, negated: self.has(Mark::NEGATED) })
    }
}

/// The decoded instructions of a code section.
#[derive(Clone, Debug)]
pub struct SassProgram {
    instructions: Vec<Inst>,
    /// What each does to registers, one after the other: asked several times of each, found once.
    runs: Vec<Run>,
    /// Where those of each instruction start, and at last where they all end.
    starts: Vec<u32>,
    marks: Vec<Mark>,
    decoder: Decoder,
    padding: usize,
    /// Calls that never come back, by instruction, and where they go: jumps.
    jumps: BTreeMap<u32, Pc>,
}

impl SassProgram {
    /// Decodes a section with the decoder of its architecture.
    pub fn decode(decoder: Decoder, code: &[u8]) -> SassProgram {
        let count = code.len() / 16;
        let mut instructions: Vec<Inst> = Vec::with_capacity(count);
        let mut runs: Vec<Run> = Vec::with_capacity(3 * count);
        let mut starts: Vec<u32> = Vec::with_capacity(count + 1);
        let mut marks: Vec<Mark> = Vec::with_capacity(count);
        decoder.each_with_runs(code, |inst, known| {
            instructions.push(inst);
            starts.push(runs.len() as u32);
            if !known.are_known || runs.len() >= MOST_RUNS {
                return marks.push(Mark::default());
            }
            marks.push(Mark::of(inst.word, known.guarded_by));
            known.each(|run| runs.push(run));
        });
        starts.push(runs.len() as u32);
        let padding = instructions.iter().rev().take_while(|inst| transfer::is_padding(inst.word)).count();
        SassProgram { instructions, runs, starts, marks, decoder, padding, jumps: BTreeMap::new() }
    }

    /// The same with calls that never come back as the jumps that they are. nvdisasm takes them for calls.
    pub fn with_tail_jumps(mut self, layout: &Layout) -> SassProgram {
        self.jumps = tail_jumps(&self, layout);
        self
    }

    #[inline(always)]
    fn mark(&self, index: usize) -> Mark {
        self.marks.get(index).copied().unwrap_or_default()
    }

    /// How an instruction that may do so moves control.
    #[inline(never)]
    fn moves(&self, index: usize, mark: Mark) -> Flow {
        let Some(inst) = self.instructions.get(index) else { return Flow { known: false, ..Flow::NEXT } };
        let (transfer, own_condition) = transfer::of(self.decoder.arch().sm, inst.word, index);
        let transfer = self.jumps.get(&(index as u32)).map_or(transfer, |target| Transfer::Branch(*target));
        Flow { transfer, guard: mark.guard(), own_condition, known: true }
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
        let mark = self.mark(index);
        if mark.has(Mark::MOVES) {
            return self.moves(index, mark);
        }
        Flow { guard: mark.guard(), known: mark.has(Mark::KNOWN), ..Flow::NEXT }
    }

    #[inline(always)]
    fn is_plain(&self, index: usize) -> bool {
        self.mark(index).is_plain()
    }

    fn not_plain(&self) -> impl Iterator<Item = usize> {
        let marked = self.marks.iter().enumerate().filter(|(_, mark)| !mark.is_plain());
        marked.map(|(index, _)| index)
    }

    #[inline(always)]
    fn guard(&self, index: usize) -> Option<Guard> {
        self.mark(index).guard()
    }

    // `copied` is a function of its own where the crate is not optimised as one.
    #[allow(clippy::map_clone)]
    #[inline(always)]
    fn runs(&self, index: usize) -> impl Iterator<Item = Run> {
        let [from, to] = self.starts.get(index..).and_then(|starts| starts.first_chunk().copied()).unwrap_or([0; 2]);
        self.runs.get(from as usize..to as usize).unwrap_or(&[]).iter().map(|run| *run)
    }

    fn padding(&self) -> usize {
        self.padding
    }
}
