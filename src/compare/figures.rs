//! The figures of two builds of a kernel that people ask for first, and whether each got better or worse.

use serde::Serialize;

use super::loops::are_near;
use crate::report::{Kernel, hottest_cycles};

/// A figure, in the order in which people ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Registers a thread.
    Registers,
    /// Bytes of spill stores, as ptxas counts them.
    SpillStoreBytes,
    /// Bytes of spill loads, as ptxas counts them.
    SpillLoadBytes,
    /// Spill instructions, where the bytes are not known.
    SpillInstructions,
    /// The most vector registers alive at once.
    PeakLive,
    /// Blocks an SM holds.
    BlocksPerSm,
    /// Warps an SM holds.
    WarpsPerSm,
    /// Instructions, padding left out.
    Instructions,
    /// Cycles of a turn of the hottest loop: an estimate.
    LoopCycles,
    /// The stack frame.
    StackBytes,
    /// Static shared memory.
    SmemBytes,
    /// Named barriers: the highest id and one.
    Barriers,
}

impl Figure {
    const ALL: [Figure; 12] = [
        Figure::Registers,
        Figure::SpillStoreBytes,
        Figure::SpillLoadBytes,
        Figure::SpillInstructions,
        Figure::PeakLive,
        Figure::BlocksPerSm,
        Figure::WarpsPerSm,
        Figure::Instructions,
        Figure::LoopCycles,
        Figure::StackBytes,
        Figure::SmemBytes,
        Figure::Barriers,
    ];

    /// Of a kernel; none where it is not known.
    fn of(self, kernel: &Kernel) -> Option<u64> {
        let resources = &kernel.resources;
        match self {
            Figure::Registers => resources.registers.map(u64::from),
            Figure::SpillStoreBytes => resources.spill_store_bytes,
            Figure::SpillLoadBytes => resources.spill_load_bytes,
            Figure::SpillInstructions => kernel.spills.as_ref().map(|spills| spills.len() as u64),
            Figure::PeakLive => kernel.pressure.as_ref().map(|pressure| u64::from(pressure.gpr.peak)),
            Figure::BlocksPerSm => kernel.occupancy.as_ref().and_then(|found| found.blocks_per_sm.map(u64::from)),
            Figure::WarpsPerSm => kernel.occupancy.as_ref().and_then(|found| found.warps_per_sm.map(u64::from)),
            Figure::Instructions => kernel.instructions.count(),
            Figure::LoopCycles => hottest_cycles(kernel).filter(|cycles| *cycles > 0),
            Figure::StackBytes => resources.stack_bytes,
            Figure::SmemBytes => resources.smem_bytes,
            Figure::Barriers => resources.barriers.map(u64::from),
        }
    }

    /// Whether more of it is better.
    fn is_wanted(self) -> bool {
        matches!(self, Figure::BlocksPerSm | Figure::WarpsPerSm)
    }

    /// Whether two values are no more apart than the figure is exact: of an estimate within 5 %.
    fn is_near(self, old: u64, new: u64) -> bool {
        self == Figure::LoopCycles && are_near(old, new)
    }

    /// Whether it is shown where it stayed the same.
    pub fn is_asked_for(self) -> bool {
        self <= Figure::Instructions
    }

    /// Whether it is counted in bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Figure::SpillStoreBytes | Figure::SpillLoadBytes | Figure::StackBytes | Figure::SmemBytes)
    }
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It got better.
    Better,
    /// It got worse.
    Worse,
    /// It did not change.
    Same,
    /// One side does not know it.
    Unknown,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FigureChange {
    /// Which.
    pub figure: Figure,
    /// Before; null where it is not known.
    pub before: Option<u64>,
    /// After; null where it is not known.
    pub after: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Every figure that a side knows, in the order in which people ask. Spill instructions stand in where a side has no bytes.
pub fn figure_changes(before: &Kernel, after: &Kernel) -> Vec<FigureChange> {
    let change = |figure: Figure| {
        let (old, new) = (figure.of(before), figure.of(after));
        let outcome = match (old, new) {
            (None, None) => return None,
            (Some(old), Some(new)) if old == new || figure.is_near(old, new) => Outcome::Same,
            (Some(old), Some(new)) if (new > old) == figure.is_wanted() => Outcome::Better,
            (Some(_), Some(_)) => Outcome::Worse,
            _ => Outcome::Unknown,
        };
        Some(FigureChange { figure, before: old, after: new, outcome })
    };
    let bytes = |kernel: &Kernel| Figure::SpillStoreBytes.of(kernel).is_some();
    let is_told = |figure: &Figure| match figure {
        Figure::SpillStoreBytes | Figure::SpillLoadBytes => bytes(before) && bytes(after),
        Figure::SpillInstructions => !(bytes(before) && bytes(after)),
        _ => true,
    };
    Figure::ALL.into_iter().filter(is_told).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Occupancy, Resources};

    fn kernel(registers: u32, stores: Option<u64>, blocks: u32) -> Kernel {
        let occupancy = Occupancy {
            threads: Some(128),
            blocks_per_sm: Some(blocks),
            warps_per_sm: Some(4 * blocks),
            max_warps_per_sm: 64,
            limiter: Some("registers".to_owned()),
            limiters: vec!["registers".to_owned()],
            smem_dynamic_bytes: Some(0),
            smem_dynamic_least_bytes: None,
            tmem_columns: None,
            missing: Vec::new(),
            by_smem_dynamic: Vec::new(),
            next_step: None,
            next_step_tried: None,
            cliff: None,
        };
        Kernel {
            resources: Resources {
                registers: Some(registers),
                spill_store_bytes: stores,
                spill_load_bytes: stores,
                ..Resources::default()
            },
            spills: Some(Vec::new()),
            occupancy: Some(occupancy),
            ..Kernel::default()
        }
    }

    #[test]
    fn fewer_registers_and_more_blocks_are_better() {
        let outcomes = |old: &Kernel, new: &Kernel| -> Vec<(Figure, Outcome)> {
            figure_changes(old, new).iter().map(|change| (change.figure, change.outcome)).collect()
        };
        let (old, new) = (kernel(168, Some(0), 1), kernel(128, Some(16), 2));
        assert_eq!(
            outcomes(&old, &new),
            [
                (Figure::Registers, Outcome::Better),
                (Figure::SpillStoreBytes, Outcome::Worse),
                (Figure::SpillLoadBytes, Outcome::Worse),
                (Figure::BlocksPerSm, Outcome::Better),
                (Figure::WarpsPerSm, Outcome::Better),
            ]
        );
        // Bytes that one side does not know say nothing; instructions do.
        assert_eq!(outcomes(&old, &kernel(168, None, 1))[1], (Figure::SpillInstructions, Outcome::Same));
        assert_eq!(outcomes(&old, &Kernel::default())[0], (Figure::Registers, Outcome::Unknown));
    }
}
