//! What one instruction does to registers, by the words of a set that it touches.
//!
//! Most instructions touch two words of seven, and every pass goes over all instructions: it looks at those words alone.

use crate::base::RegSet;
use crate::sass::{Effects, Guard, Run};

/// Words of a set, by number, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(u32);

impl Words {
    /// Every word.
    pub const ALL: Words = Words((1 << RegSet::WORDS) - 1);

    /// With those of another.
    #[inline(always)]
    pub fn with(self, other: Words) -> Words {
        Words(self.0 | other.0)
    }

    /// With one more.
    #[inline(always)]
    pub fn and(self, at: usize) -> Words {
        Words(self.0 | 1 << (at % RegSet::WORDS))
    }
}

impl Iterator for Words {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let at = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(at)
    }
}

/// What an instruction does to registers. It is made once and filled for one instruction after the other.
#[derive(Default)]
pub(super) struct Touched {
    /// What is read, by word; behind it what is written. Nothing outside the words that are touched.
    cells: [u64; 2 * RegSet::WORDS],
    words: Words,
}

impl Touched {
    /// Takes what another instruction does.
    #[inline(always)]
    pub fn fill(&mut self, runs: impl Iterator<Item = Run>) {
        self.cells = [0; 2 * RegSet::WORDS];
        // By cell.
        let mut touched = 0u32;
        for run in runs {
            run.each_part(|cell, bits| {
                self.cells[cell % (2 * RegSet::WORDS)] |= bits;
                touched |= 1 << (cell % (2 * RegSet::WORDS));
            });
        }
        self.words = Words((touched | touched >> RegSet::WORDS) & Words::ALL.0);
    }

    /// Adds what is not in its word.
    #[cold]
    pub fn add(&mut self, effects: &Effects) {
        for at in Words::ALL {
            self.cells[at] |= effects.reads.word(at);
            self.cells[RegSet::WORDS + at] |= effects.writes.word(at);
        }
        self.words = Words::ALL;
    }

    /// Takes it as nvdisasm does: of some registers only, and whoever writes the stack pointer reads it.
    #[inline]
    pub fn count_only(&mut self, counted: &RegSet) {
        // To nvdisasm the stack pointer is in use before it is first set, too.
        self.cells[0] |= self.cells[RegSet::WORDS] & STACK_POINTER;
        for at in self.words {
            self.cells[at % RegSet::WORDS] &= counted.word(at);
            self.cells[RegSet::WORDS + at % RegSet::WORDS] &= counted.word(at);
        }
    }

    /// All that it does.
    pub fn effects(&self) -> Effects {
        let mut effects = Effects::default();
        for at in Words::ALL {
            (*effects.reads.word_mut(at), *effects.writes.word_mut(at)) = self.word(at);
        }
        effects
    }

    /// The words that it touches.
    #[inline(always)]
    pub fn words(&self) -> Words {
        self.words
    }

    /// What it reads and writes of a word.
    #[inline(always)]
    pub fn word(&self, at: usize) -> (u64, u64) {
        (self.cells[at % RegSet::WORDS], self.cells[RegSet::WORDS + at % RegSet::WORDS])
    }
}

/// R1 in the first word of a set.
const STACK_POINTER: u64 = 1 << 1;

/// The bit of a guard's predicate in the word of a set that has the predicates.
#[inline(always)]
pub(super) fn guard_bit(guard: Guard) -> u64 {
    let bit = RegSet::bit(guard.file, guard.index.into()).unwrap_or(0);
    if bit / 64 == RegSet::PREDICATES { 1 << (bit % 64) } else { 0 }
}
