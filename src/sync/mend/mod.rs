//! What would mend a kernel that goes wrong: one small change of its skeleton, found by trying.
//!
//! In: a witness and a recording of its execution. Out: the first change (a number, or something put in) with which
//! the kernel ends whatever is tried. What counters say at the end suggests the changes; only execution says that one mends.

mod absent;
mod change;
pub mod patch;
mod suggest;

use change::apply;
pub use change::{Change, Insertion};
use suggest::Suggestions;

use std::collections::BTreeSet;

use super::execute::record::{Mark, Recording, What, Work, record};
use super::execute::{Budget, Executed, Launch, Outcome, execute};
use super::machine::{Fault, SharedAddress};
use super::program::{InstrId, MbarrierOp, Op, Program};
use super::verdict::{Limits, Verdict, judge, problems_end};
use super::witness::{Firmness, Witness};
use crate::base::{Line, work};

/// Looks at a mark or an instruction that are as good as a step.
const LOOKS: u64 = 16;
/// How many times as many steps as those until something went wrong are much further.
const MUCH_FURTHER: u64 = 4;

/// A change that mends a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The instruction of the skeleton.
    pub pc: InstrId,
    /// Its line.
    pub line: Line,
    /// Lines of others that must be changed alike, as those that initialise the stages of a ring.
    pub also: Vec<Line>,
    /// What is changed of it.
    pub change: Change,
    /// Where the kernel first does otherwise than with the change.
    pub parting: Option<Parting>,
}

/// The first step of an execution that goes otherwise than the same one of the mended kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// What the kernel does; none where nobody goes on.
    pub does: Option<Mark>,
    /// What it does mended; none where everybody has ended.
    pub mended: Option<Mark>,
}

/// What looking for a change comes to.
#[derive(Default)]
pub struct Search {
    /// The change that mends the kernel.
    pub mend: Option<Mend>,
    /// The highest rank of a block that one of the others leads to and that the launch does not have: it may mend a larger one.
    pub beyond: Option<u64>,
}

/// Finds a change that mends a kernel.
pub fn mend(program: &Program, launch: &Launch, witness: &Witness, limits: Limits) -> Search {
    let mut beyond = None;
    let mend = search(program, launch, witness, limits, &mut beyond);
    Search { mend, beyond }
}

fn search(
    program: &Program,
    launch: &Launch,
    witness: &Witness,
    all: Limits,
    beyond: &mut Option<u64>,
) -> Option<Mend> {
    // What goes wrong late is come past later still.
    let steps = witness.steps.saturating_mul(MUCH_FURTHER + 1).clamp(all.steps, all.steps.max(all.mends / 4));
    // Whether what is left is firm matters little.
    let limits = Limits { steps, again: all.total + steps, ..all };
    let budget = Budget { steps: limits.steps, pieces: limits.pieces };
    let recording = record(program, launch, witness.scenario, &witness.schedule, budget, (Work::default(), false));
    // Kernels with thousands of barriers suggest more than anybody could look through.
    let looks = limits.mends.saturating_mul(LOOKS);
    let suggestions = Suggestions::new(program, &recording);
    let candidates = work::within(looks, || suggestions.first(&witness.cause)).ok()?;
    let Budget { mut steps, mut pieces } = recording.took;
    // Whoever waits in vain may stand where nobody comes to who does not: a second wait, after one that is no longer in vain.
    let stuck = match &recording.outcome {
        Outcome::Hangs(stuck) => &stuck[..],
        _ => &[],
    };
    let at_mbarriers = stuck.iter().filter(|group| group.wait.mbarrier().is_some());
    let stands: Vec<InstrId> = at_mbarriers.clone().map(|group| group.pc).collect();
    let awaited: BTreeSet<SharedAddress> = at_mbarriers.filter_map(|group| group.wait.mbarrier()).collect();
    let completes = |of: SharedAddress| move |mark: &&Mark| matches!(mark.what, What::Completes { at, .. } if at == of);
    let phases_of = |at: SharedAddress| suggestions.marks().filter(completes(at)).count() as u64;
    let awaited: Vec<(SharedAddress, u64)> = awaited.into_iter().map(|at| (at, phases_of(at))).collect();
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
        if let Outcome::Undefined { fault: Fault::Rank(rank), .. } = again.outcome {
            *beyond = (*beyond).max(Some(rank));
        }
        let apart = [&pcs[..], &stands].concat();
        // Not all of them: what keeps everybody from waiting mends nothing. Whoever asks once before waiting need not wait, though,
        // for a phase that is over then.
        let passes_by = !stands.is_empty() && stands.iter().all(|pc| again.passes_of(*pc) == 0);
        let avoids = passes_by && !(change.is_of_counts() && goes_further(&again, &awaited));
        if avoids || !comes_as_far(program, &recording, &again, &apart, change) {
            continue;
        }
        let goes_on = match again.outcome {
            Outcome::Ends => !(witness.cause.is_race() && again.race.is_some()),
            // As far as before, where there was more to do than there are steps for.
            Outcome::Undecided { .. } if witness.cause.is_race() => {
                again.race.is_none() && again.took.steps >= recording.took.steps
            }
            // It gets much further, and further than there are steps for.
            Outcome::Undecided { .. } => again.took.steps > MUCH_FURTHER * recording.took.steps,
            Outcome::Hangs(_) | Outcome::Undefined { .. } => false,
        };
        if !goes_on || change == Change::Parity && !is_a_wait(&mended, launch, witness, left(pieces), &pcs) {
            continue;
        }
        // What holds up one problem holds up others, too: that is told sooner than what else could go wrong.
        if witness.is_of_problem() {
            let (end, took) = problems_end(&mended, launch, left(pieces));
            (steps, pieces) = (steps + took.steps, pieces + took.pieces);
            if !end {
                continue;
            }
        }
        let (verdict, _, took) = judge(&mended, std::slice::from_ref(launch), left(pieces))?;
        (steps, pieces) = (steps + took.steps, pieces + took.pieces);
        let mends = match &verdict {
            // A race that harms nobody may stay, unless it is what is to be mended, or there was none without the change.
            Verdict::Ends { suspects, .. } => {
                let is_new = |other: &Witness| {
                    let budget = left(pieces).of_one();
                    let before = execute(program, launch, other.scenario, &other.schedule, budget);
                    let goes_on = matches!(before.outcome, Outcome::Ends | Outcome::Undecided { .. });
                    goes_on && before.race.is_none()
                };
                let mut races = suspects.iter().filter(|other| other.cause.is_race());
                !races.any(|other| witness.cause.is_race() || is_new(other))
            }
            // What shows with other inputs, and not with all of them, was there before: elsewhere, or without work alone.
            Verdict::Wrong(other) => {
                other.scenario != witness.scenario
                    && match other.firmness {
                        Firmness::Firm => false,
                        Firmness::Open => other.cause.pc() != witness.cause.pc(),
                        Firmness::Refuted => true,
                    }
            }
            Verdict::Undecided { .. } => false,
        };
        if mends {
            let mut lines = pcs.iter().filter_map(|pc| program.code.get(*pc)).map(|instr| instr.line);
            let budget = left(pieces).of_one();
            let after = record(&mended, launch, witness.scenario, &witness.schedule, budget, (Work::default(), false));
            let parting = parting(&recording.marks, &after.marks);
            return Some(Mend { pc: *pcs.first()?, line: lines.next()?, also: lines.collect(), change, parting });
        }
    }
    None
}

/// Whether an execution completes more phases of an mbarrier than those given.
fn goes_further(run: &Executed, before: &[(SharedAddress, u64)]) -> bool {
    before.iter().any(|(at, phases)| run.phases.get(at).is_some_and(|now| now > phases))
}

/// Where two executions part, numbers that the change itself is about apart.
fn parting(does: &[Mark], mended: &[Mark]) -> Option<Parting> {
    let mut pairs = (0..does.len().max(mended.len())).map(|at| (does.get(at).copied(), mended.get(at).copied()));
    let (does, mended) = pairs.find(|(does, mended)| match (does, mended) {
        (Some(does), Some(mended)) => !is_alike(does, mended),
        _ => true,
    })?;
    Some(Parting { does, mended })
}

fn is_alike(one: &Mark, other: &Mark) -> bool {
    let same = match (one.what, other.what) {
        (What::Init { at, .. }, What::Init { at: of, .. })
        | (What::Arrives { at, .. }, What::Arrives { at: of, .. }) => at == of,
        (one, other) => one == other,
    };
    same && one.warp == other.warp && one.line == other.line
}

/// Whether an execution comes to every place that it came to before, some apart: a change that keeps warps away from barriers mends nothing.
/// Only what a wait says leads elsewhere where counts are changed: who asks before waiting need not wait then.
fn comes_as_far(program: &Program, before: &Recording, after: &Executed, apart: &[InstrId], change: Change) -> bool {
    work::spend_on(program.code.len());
    let is_asked = |op: &Op| change.is_of_counts() && matches!(op, Op::Mbarrier { op: MbarrierOp::Wait { .. }, .. });
    let counts = |op: &Op| op.synchronises() && !is_asked(op);
    let passed = program.code.iter_enumerated().zip(&before.passes).filter(|(_, passes)| **passes > 0);
    let mut places = passed.filter(|((pc, instr), _)| counts(&instr.op) && !apart.contains(pc));
    places.all(|((pc, _), _)| after.passes_of(pc) > 0)
}

/// Whether a wait for the other parity waits for anybody: that of an mbarrier that nobody comes to is over from the start.
fn is_a_wait(mended: &Program, launch: &Launch, witness: &Witness, limits: Limits, pcs: &[InstrId]) -> bool {
    let again = record(mended, launch, witness.scenario, &witness.schedule, limits.of_one(), (Work::default(), false));
    let lines: Vec<Line> = pcs.iter().filter_map(|pc| mended.code.get(*pc)).map(|instr| instr.line).collect();
    let waited = again.waits.iter().filter(|wait| lines.contains(&wait.line)).filter_map(|wait| wait.on.mbarrier());
    let waited: BTreeSet<SharedAddress> = waited.collect();
    again.marks.iter().any(|mark| match mark.what {
        What::Arrives { at, .. } | What::Commits { at } => waited.contains(&at),
        _ => false,
    })
}
