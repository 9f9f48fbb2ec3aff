//! How a kernel goes wrong, and the execution that shows it.

use super::execute::{Executed, Scenario, Schedule, Stuck};
use super::machine::Fault;
use super::program::InstrId;
use super::value::Basis;
use crate::base::Line;

/// How a kernel goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody can go on; the first group keeps the others, as far as that can be told.
    Hang(Vec<Stuck>),
    /// A rule of the ISA is broken.
    Undefined {
        /// The rule.
        fault: Fault,
        /// Who breaks it.
        rank: u64,
        /// Who breaks it.
        warp: u32,
        /// Where.
        line: Line,
        /// The same as an instruction of the skeleton.
        pc: InstrId,
    },
    /// Announcements and copies by tensor maps that no size of their boxes makes equal.
    Bytes {
        /// Where.
        line: Line,
        /// What.
        text: String,
    },
}

impl Cause {
    /// Whether it is only that another schedule counts an arrival in another phase.
    pub fn is_race(&self) -> bool {
        matches!(self, Cause::Undefined { fault: Fault::Unordered(_), .. })
    }

    /// Whether somebody waits for ever.
    pub fn is_hang(&self) -> bool {
        matches!(self, Cause::Hang(_))
    }

    /// The instruction that it shows at.
    pub fn pc(&self) -> Option<InstrId> {
        match self {
            Cause::Hang(stuck) => Some(stuck.first()?.pc),
            Cause::Undefined { pc, .. } => Some(*pc),
            Cause::Bytes { .. } => None,
        }
    }
}

/// An execution that goes wrong.
#[derive(Clone, Debug)]
pub struct Witness {
    /// How.
    pub cause: Cause,
    /// What inputs were taken to be.
    pub scenario: Scenario,
    /// Who went first.
    pub schedule: Schedule,
    /// Whether it went wrong in every schedule tried with these inputs.
    pub always: bool,
    /// Whether it ended up in the same state in each of them: then none of it is a race.
    pub alike: bool,
    /// What its decisions rest on.
    pub basis: Basis,
    /// How often the instruction that it shows at was passed before.
    pub passes: u32,
    /// Steps until then.
    pub steps: u64,
    /// Whether it goes wrong with other inputs, too, that lead to the same instruction.
    pub firmness: Firmness,
    /// In which shapes of a cluster it goes wrong.
    pub shapes: Shapes,
}

impl Witness {
    /// Whether it is of a problem whose sizes were made up.
    pub fn is_of_problem(&self) -> bool {
        self.scenario.memory.grows()
    }

    /// Whether another execution comes past the place at all, and goes on for longer.
    pub(super) fn is_come_to_by(&self, run: &Executed) -> bool {
        run.took.steps >= self.steps && self.cause.pc().is_some_and(|pc| run.passes_of(pc) > 0)
    }

    /// Whether another execution gets past the place, as often as this one comes to it. One that is over sooner may not have come to
    /// what leads there: a ring that is turned once does not show that nobody waits for its slots.
    pub(super) fn is_passed_by(&self, run: &Executed) -> bool {
        run.took.steps >= self.steps && self.cause.pc().is_some_and(|pc| run.passes_of(pc) > self.passes)
    }
}

/// What other inputs say of a fault that was seen with some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmness {
    /// It shows with all that lead to where it shows.
    Firm,
    /// They say nothing, or not enough.
    Open,
    /// All extents of several tiles get past, and none of less than one: no work may be all that is wrong.
    Refuted,
}

/// In which shapes of a cluster a kernel goes wrong that the launch decides over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shapes {
    /// In every one that it can run in.
    All,
    /// In every small one; larger ones take more than there are steps for.
    Small,
    /// Not in all that were tried.
    Some,
}
