//! Wavefronts of accesses to shared memory and lines of accesses to global memory, where somebody decided them.

use crate::base::{FastMap, Pc};

/// By instruction: how many wavefronts of shared memory its lanes take, or how many lines of the first cache they touch. An instruction that
/// is not here takes as many as it is wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wavefronts {
    by_pc: FastMap<Pc, u16>,
}

impl Wavefronts {
    /// Those of an instruction.
    pub fn set(&mut self, pc: Pc, count: u16) {
        self.by_pc.insert(pc, count.max(1));
    }

    /// Those of an instruction, where they were decided.
    pub fn of(&self, pc: Pc) -> Option<u16> {
        self.by_pc.get(&pc).copied()
    }
}
