//! Problems whose sizes lie in memory: they were made up, and may contradict each other.

use super::super::LANES;
use super::super::execute::{Budget, Executed, Launch, Outcome, Scenario, Schedule};
use super::super::program::Program;
use super::super::witness::{Firmness, Shapes, Witness};
use super::inputs::SIZES;
use super::judge::{Courses, Judge, cause, racing};
use super::limits::Limits;

/// Steps of each warp with one problem: some turns of every ring.
const OF_A_PROBLEM: u64 = 2_500;
/// All problems whose sizes lie in memory.
pub(super) fn problems() -> impl Iterator<Item = Scenario> {
    SIZES.into_iter().flat_map(|(memory, inputs)| inputs.iter().map(move |&input| Scenario { input, memory }))
}

/// A problem that hangs where no other one gets past. Sizes that were made up may contradict each other: it is a fault where a change
/// mends them all.
pub(super) fn stuck_problem(problems: &[(Scenario, Executed)]) -> Option<Witness> {
    let stuck = problems.iter().find(|(_, run)| matches!(run.outcome, Outcome::Hangs(_)))?;
    let (scenario, run) = stuck;
    let cause = cause(&run.outcome)?;
    let (pc, passes) = (cause.pc()?, run.passes_of(cause.pc()?));
    let gets_past = |(_, other): &(Scenario, Executed)| other.outcome == Outcome::Ends && other.passes_of(pc) > passes;
    if problems.iter().any(gets_past) {
        return None;
    }
    let (schedule, basis) = (Schedule::Fair, run.basis);
    let (steps, firmness, shapes) = (run.took.steps, Firmness::Open, Shapes::All);
    Some(Witness {
        cause,
        scenario: *scenario,
        schedule,
        always: true,
        alike: true,
        basis,
        passes,
        steps,
        firmness,
        shapes,
    })
}

/// What problems whose sizes lie in memory say of a launch.
pub enum Problems {
    /// Phases of mbarriers are over, and nothing goes wrong: the kernel is made for launches of this shape.
    Turn,
    /// Nobody comes to an mbarrier, or some hang where others get past.
    Unknown,
    /// What goes wrong.
    Wrong(Vec<Witness>),
}

/// Executes the problems in a launch of another shape.
pub fn problems_in(program: &Program, launch: &Launch, limits: Limits) -> Problems {
    let mut judge = Judge::new(program, limits);
    let mut executed = Vec::new();
    let mut courses = Courses::default();
    for scenario in problems() {
        if judge.is_spent() {
            break;
        }
        if courses.are_known(scenario.input) {
            continue;
        }
        let run = judge.run(launch, scenario, &Schedule::Fair, steps_of(scenario, launch));
        courses.add(scenario.input, &run);
        executed.push((scenario, run));
    }
    let goes_wrong = |(_, run): &(Scenario, Executed)| cause(&run.outcome).is_some();
    match suspects(&executed) {
        suspects if !suspects.is_empty() => Problems::Wrong(suspects),
        _ if !executed.iter().any(goes_wrong) && executed.iter().any(|(_, run)| run.turns()) => Problems::Turn,
        _ => Problems::Unknown,
    }
}

/// What may be a fault in problems: arrivals that another schedule counts in another phase, in one that ends rather than in one that
/// hangs afterwards, and a problem that hangs.
pub(super) fn suspects(problems: &[(Scenario, Executed)]) -> Vec<Witness> {
    let (wrong, right): (Vec<_>, Vec<_>) = problems.iter().partition(|(_, run)| cause(&run.outcome).is_some());
    let race = right.into_iter().chain(wrong).find_map(|(scenario, run)| racing(*scenario, run));
    race.into_iter().chain(stuck_problem(problems)).collect()
}

/// Steps that an execution has by its inputs alone.
pub(super) fn steps_of(scenario: Scenario, launch: &Launch) -> u64 {
    let warps = u64::from(launch.threads().div_ceil(LANES as u32)) * u64::from(launch.blocks());
    if scenario.memory.grows() { OF_A_PROBLEM.saturating_mul(warps) } else { u64::MAX }
}

/// Whether all problems whose sizes lie in memory end, as far as there are steps for them, and what that took.
pub fn problems_end(program: &Program, launch: &Launch, limits: Limits) -> (bool, Budget) {
    let mut judge = Judge::new(program, limits);
    let ends = problems().all(|scenario| {
        let run = judge.run(launch, scenario, &Schedule::Fair, steps_of(scenario, launch));
        !matches!(run.outcome, Outcome::Hangs(_) | Outcome::Undefined { .. })
    });
    (ends, judge.took())
}
