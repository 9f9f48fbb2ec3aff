//! What a loop costs: the schedule that ptxas made, executed.
//!
//! In: the code of a function and one of its loops. Out: an [`Estimate`] for a number of warps: cycles of a turn, what bounds it, how busy each
//! part of the machine is, and what a lone warp waits for. Every word carries what ptxas decided (stall, scoreboards, reuse): the `simulate`
//! module issues the instructions of a turn by it, warp by warp, against a [`Machine`] whose widths and latencies were measured.
//!
//! An estimate is static and says so: memory answers after the latency that the caller names, an access of shared memory takes the [`Wavefronts`]
//! that the caller knows or else has no bank conflict, every guard is taken to hold, and instructions come from the nearest cache. An architecture that nobody measured has no machine, and no estimate.
//!
//! [`hazards`] checks the control bits themselves: consumers that come too early, on every architecture that is decoded.

mod bound;
mod dependencies;
pub mod hazards;
mod machine;
mod path;
mod producer;
mod progress;
mod schedule;
mod simulate;
mod step;
mod wavefronts;

pub use bound::{Bound, Estimate, Load, Part, Wait};
pub use machine::{L1_LATENCY, Local, Machine, Memory, Pipe};
pub use path::Turn;
pub use progress::{Progress, progress};
pub use schedule::{Issue, schedule};
pub use simulate::Cause;
pub use wavefronts::Wavefronts;

use crate::graph::{BlockId, LoopId};
use crate::registers::code::Code;

/// Code on a machine.
#[derive(Clone, Copy)]
pub struct Model<'a> {
    /// The machine.
    pub machine: Machine,
    /// The code of a section.
    pub code: &'a Code,
    /// What is known of its accesses to shared memory.
    pub wavefronts: &'a Wavefronts,
}

/// How many warps share what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warps {
    /// Schedulers of the SM that have warps: 1 or 4.
    pub schedulers: u8,
    /// Warps on each of them.
    pub each: u8,
    /// Warps of a block on each of them: those that wait for each other at a barrier.
    pub of_block: u8,
}

impl Warps {
    /// One warp with the SM to itself.
    pub const ALONE: Warps = Warps { schedulers: 1, each: 1, of_block: 1 };

    /// So many warps on each of the four schedulers, all of one block.
    pub fn on_each(each: u8) -> Warps {
        Warps { schedulers: 4, each: each.max(1), of_block: each.max(1) }
    }
}

/// The ways through a loop that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// The way with the fewest instructions.
    pub shortest: Turn,
    /// The one with the most, where there is another.
    pub longest: Option<Turn>,
    /// Loops inside, whose own turns are left out.
    pub inner: u32,
}

/// The ways through a loop; none where no way through its own blocks comes back.
pub fn turns(code: &Code, id: LoopId) -> Option<Turns> {
    path::turns(code, id)
}

/// What a turn costs; none where it is too long to be executed.
pub fn estimate(model: &Model<'_>, turn: &Turn, warps: Warps) -> Option<Estimate> {
    let mut estimate = Prepared::new(model, turn).estimate(warps)?;
    if warps == Warps::ALONE {
        name_producers(model, turn, &mut estimate);
    }
    Some(estimate)
}

/// Names whom the waits of a lone warp's turn are for, where a stall count is all that says so.
pub fn name_producers(model: &Model<'_>, turn: &Turn, alone: &mut Estimate) {
    producer::name(model.code, turn, &mut alone.waits);
}

/// A turn as the machine sees it, for estimates with different warps.
pub struct Prepared(Vec<step::Step>);

impl Prepared {
    /// Of a way through a loop.
    pub fn new(model: &Model<'_>, turn: &Turn) -> Prepared {
        Prepared(step::steps(model, turn))
    }

    /// What a turn costs; none where it is too long to be executed. Only scoreboards name whom a wait is for: see [`name_producers`].
    pub fn estimate(&self, warps: Warps) -> Option<Estimate> {
        bound::estimate(&self.0, warps)
    }
}

/// What a turn of so many warps gives each part of the machine to do, but for the banks of registers.
pub fn work(model: &Model<'_>, turn: &Turn, warps: Warps) -> Vec<Load> {
    bound::loads(&step::steps(model, turn), warps, 0.0)
}

/// The longest way from a block to the end of the code, the turns of loops left out.
pub fn outside_of_loops(code: &Code, from: BlockId) -> Option<Turn> {
    path::outside(code, from)
}

/// The cycles of a turn alone, from few turns: what tells many builds apart.
pub fn quick_cycles(model: &Model<'_>, turn: &Turn, warps: Warps) -> Option<f64> {
    let mut steps = step::steps(model, turn);
    // Schedulers do the same: one of them, with what they share to a fourth, tells as much.
    for step in &mut steps {
        step.unit.shared = step.unit.shared.saturating_mul(u16::from(warps.schedulers.max(1)));
    }
    simulate::simulate(&steps, Warps { schedulers: 1, ..warps }, simulate::Care::Quick).map(|found| found.cycles)
}

#[cfg(test)]
mod tests;
