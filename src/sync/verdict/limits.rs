//! How much is tried: steps and pieces of work, the same on every machine.

use super::super::execute::Budget;
use super::inputs::INPUTS;

/// How many times as much is tried where somebody asks for it.
const THOROUGH: u64 = 12;
/// How hard a kernel is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// In the time that nobody waits for.
    #[default]
    Usual,
    /// For seconds, where somebody asks for it.
    Thorough,
}

impl Effort {
    /// What a flag says.
    pub fn of(thorough: bool) -> Effort {
        if thorough { Effort::Thorough } else { Effort::Usual }
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of one execution.
    pub steps: u64,
    /// Steps of all of them.
    pub total: u64,
    /// The same with those that see whether a fault shows with other inputs, too.
    pub again: u64,
    /// Steps of those that try changes.
    pub mends: u64,
    /// Pieces of work of all of them, and of those that try changes.
    pub pieces: u64,
    /// Inputs for which every schedule is tried, those that come to the most first; the others are executed in turn alone.
    pub varied: usize,
    /// Schedules by lot.
    pub lots: u64,
}

/// Steps of all kernels of a PTX together, by the same kinds, shared out by their statements: a file of a thousand kernels that all
/// hang is not to take minutes.
const OF_ALL: Limits = Limits {
    steps: u64::MAX,
    total: 20_000_000,
    again: 40_000_000,
    mends: 20_000_000,
    pieces: 180_000_000,
    varied: usize::MAX,
    lots: u64::MAX,
};

impl Limits {
    /// Those of a kernel with so many of the statements of its PTX. The text alone decides.
    pub fn of_share(own: usize, all: usize, effort: Effort) -> Limits {
        let (usual, times) = match effort {
            Effort::Usual => (Limits::default(), 1),
            Effort::Thorough => (Limits::thorough(), THOROUGH),
        };
        let share = |most: u64| (u128::from(most) * u128::from(times) * own as u128 / (all as u128).max(1)) as u64;
        let total = usual.total.min(share(OF_ALL.total));
        let again = usual.again.min(share(OF_ALL.again));
        let mends = usual.mends.min(share(OF_ALL.mends));
        let pieces = usual.pieces.min(share(OF_ALL.pieces));
        Limits { steps: usual.steps.min(total), total, again, mends, pieces, ..usual }
    }

    /// Those of somebody who is willing to wait.
    fn thorough() -> Limits {
        let Limits { steps, total, again, mends, pieces, varied, lots } = Limits::default();
        Limits {
            steps: steps * THOROUGH,
            total: total * THOROUGH,
            again: again * THOROUGH,
            mends: mends * THOROUGH,
            pieces: pieces * THOROUGH,
            varied: varied * INPUTS.len(),
            lots: lots * THOROUGH,
        }
    }
}

impl Limits {
    /// Those of a single execution.
    pub fn of_one(&self) -> Budget {
        Budget { steps: self.steps, pieces: self.pieces }
    }
}

impl Default for Limits {
    /// A ring of four stages turned nine times by twelve warps takes some five thousand steps.
    fn default() -> Self {
        Limits {
            steps: 100_000,
            total: 300_000,
            again: 6_000_000,
            mends: 4_000_000,
            pieces: 180_000_000,
            varied: 2,
            lots: 2,
        }
    }
}
