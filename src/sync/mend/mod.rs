//! What would mend a kernel that goes wrong: one small change of its skeleton, found by trying.
//!
//! In: a witness and a recording of its execution. Out: the first change (a count, bytes, a parity, an announcement) with which
//! the kernel ends whatever is tried. What counters say at the end suggests the changes; only execution says that one mends.

mod change;
pub mod patch;
mod suggest;

pub use change::Change;
use change::apply;
use suggest::Suggestions;

use super::execute::record::{Work, record};
use super::execute::{Budget, Launch, Outcome, execute};
use super::program::Program;
use super::verdict::{Limits, Verdict, Witness, judge};
use crate::base::{Line, work};

/// Looks at a mark or an instruction that are as good as a step.
const LOOKS: u64 = 16;
/// How many times as many steps as those until something went wrong are much further.
const MUCH_FURTHER: u64 = 4;

/// A change that mends a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The instruction of the skeleton.
    pub pc: u32,
    /// Its line.
    pub line: Line,
    /// Lines of others that must be changed alike, as those that initialise the stages of a ring.
    pub also: Vec<Line>,
    /// What is changed of it.
    pub change: Change,
}

/// Finds a change that mends a kernel.
pub fn mend(program: &Program, launch: &Launch, witness: &Witness, all: Limits) -> Option<Mend> {
    // Whether what is left is firm matters little.
    let limits = Limits { again: all.total + all.steps, ..all };
    let budget = Budget { steps: limits.steps, pieces: limits.pieces };
    let recording = record(program, launch, witness.scenario, &witness.schedule, budget, (Work::default(), false));
    // Kernels with thousands of barriers suggest more than anybody could look through.
    let looks = limits.mends.saturating_mul(LOOKS);
    let suggestions = Suggestions { program, recording: &recording };
    let candidates = work::within(looks, || suggestions.first(&witness.cause)).ok()?;
    let Budget { mut steps, mut pieces } = recording.took;
    for (pcs, change) in candidates {
        if steps > limits.mends || pieces > limits.pieces {
            return None;
        }
        pieces += program.code.len() as u64;
        let mut mended = program.clone();
        if !pcs.iter().all(|pc| apply(&mut mended, *pc, change).is_some()) {
            continue;
        }
        let left = |pieces: u64| Limits { pieces: limits.pieces.saturating_sub(pieces), ..limits };
        // Most do not even mend what was seen.
        let again = execute(&mended, launch, witness.scenario, &witness.schedule, left(pieces).of_one());
        (steps, pieces) = (steps + again.took.steps, pieces + again.took.pieces);
        let goes_on = match again.outcome {
            Outcome::Ends => !(witness.cause.is_race() && again.race.is_some()),
            // It gets much further, and further than there are steps for.
            Outcome::Undecided { .. } => again.took.steps > MUCH_FURTHER * recording.took.steps,
            Outcome::Hangs(_) | Outcome::Undefined { .. } => false,
        };
        if !goes_on {
            continue;
        }
        let (verdict, _, took) = judge(&mended, std::slice::from_ref(launch), left(pieces))?;
        (steps, pieces) = (steps + took.steps, pieces + took.pieces);
        let mends = match &verdict {
            // A race that harms nobody may stay, unless it is what is to be mended.
            Verdict::Ends { race, .. } => race.is_none() || !witness.cause.is_race(),
            // What shows with other inputs, and not with all of them, was there before.
            Verdict::Wrong(other) => {
                !other.is_firm && other.scenario != witness.scenario && other.cause.pc() != witness.cause.pc()
            }
            Verdict::Undecided { .. } => false,
        };
        if mends {
            let mut lines = pcs.iter().filter_map(|pc| program.code.get(*pc as usize)).map(|instr| instr.line);
            return Some(Mend { pc: *pcs.first()?, line: lines.next()?, also: lines.collect(), change });
        }
    }
    None
}
