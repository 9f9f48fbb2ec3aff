//! Columns of tensor memory as an execution uses them: results that are added to what nobody set, and lanes of other warps.

use crate::base::FastMap;
use crate::sync::program::InstrId;
use crate::sync::value::Basis;

/// Columns of tensor memory.
pub(super) const COLUMNS: u64 = 512;
/// Lanes of tensor memory that a warp reaches.
const OWN_LANES: u64 = 32;
/// Warps that share the lanes of tensor memory out.
const QUARTERS: u64 = 4;
/// What is kept of one execution.
const MOST: usize = 16;

/// What is wrong with a use of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A product is added to a column that nothing has set.
    Unset {
        /// The column.
        column: u64,
    },
    /// A warp is at lanes that it does not reach.
    Lane {
        /// The lane.
        lane: u64,
        /// The warp of its block.
        warp: u64,
    },
}

/// A use of tensor memory that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misused {
    /// The instruction of the skeleton.
    pub pc: InstrId,
    /// What it does.
    pub misuse: Misuse,
    /// What it rests on.
    pub basis: Basis,
}

/// What is known of the columns of all blocks.
#[derive(Default)]
pub(super) struct ColumnsUsed {
    /// By block: the columns that something has set.
    set: FastMap<u64, Vec<bool>>,
    /// Whether some were set of which it is not known where they are.
    is_open: bool,
    pub(super) misused: Vec<Misused>,
}

impl ColumnsUsed {
    /// Columns of a block are written; none where it is not known which.
    pub(super) fn set(&mut self, rank: u64, columns: Option<std::ops::Range<u64>>) {
        let Some(columns) = columns.filter(|columns| columns.end <= COLUMNS) else {
            self.is_open = true;
            return;
        };
        let set = self.set.entry(rank).or_insert_with(|| vec![false; COLUMNS as usize]);
        for column in columns {
            if let Some(is_set) = set.get_mut(column as usize) {
                *is_set = true;
            }
        }
    }

    /// A product is added to what a column of a block holds.
    pub(super) fn adds(&mut self, rank: u64, column: u64, pc: InstrId, basis: Basis) {
        let is_set = self.set.get(&rank).and_then(|set| set.get(column as usize)).copied().unwrap_or(false);
        if !is_set && !self.is_open {
            self.keep(Misused { pc, misuse: Misuse::Unset { column }, basis });
        }
    }

    /// A warp reads or writes lanes. Those of the first warp, and their upper half, are what kernels in use name in every warp.
    pub(super) fn at_lane(&mut self, warp: u64, lane: u64, pc: InstrId, basis: Basis) {
        if lane % OWN_LANES != lane && lane / OWN_LANES != warp % QUARTERS {
            self.keep(Misused { pc, misuse: Misuse::Lane { lane, warp }, basis });
        }
    }

    fn keep(&mut self, found: Misused) {
        if self.misused.len() < MOST && !self.misused.iter().any(|known| known.pc == found.pc) {
            self.misused.push(found);
        }
    }
}
