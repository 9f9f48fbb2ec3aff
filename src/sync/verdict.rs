//! From single executions to an answer: which inputs and schedules are tried, and what they say together.

use super::equations::contradiction;
use super::execute::{Executed, Launch, Outcome, Scenario, Schedule, Stuck, execute};
use super::machine::Fault;
use super::program::{Bytes, Instr, Op, Program};
use super::value::Basis;
use crate::base::{Line, work};
use serde::{Deserialize, Serialize};

/// What every parameter is taken to be, in turn: trip counts around the sizes of rings (1 to 4 stages: less, as many, one more,
/// twice and one).
const COUNTS: [u64; 5] = [5, 9, 1, 2, 3];
/// The same where these make no difference: extents that kernels divide into tiles.
const EXTENTS: [u64; 2] = [384, 1152];
/// What memory is taken to bring: a condition goes one way and the other.
const MEMORY: [u64; 2] = [0, 1];
/// Inputs for which every schedule is tried; the others are executed in turn alone.
const VARIED: usize = 2;
/// Schedules by lot.
const LOTS: u64 = 3;
/// Roles that are held back, one after the other.
const MOST_ROLES: usize = 8;

/// Registers of all warps together: 24 bytes each.
const MOST_REGISTERS: u64 = 2_000_000;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of one execution.
    pub steps: u64,
    /// Steps of all of them.
    pub total: u64,
}

impl Default for Limits {
    /// A ring of four stages turned nine times by twelve warps takes some five thousand steps.
    fn default() -> Self {
        Limits { steps: 100_000, total: 500_000 }
    }
}

/// How a kernel goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody can go on.
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
    },
    /// Announcements and copies by tensor maps that no size of their boxes makes equal.
    Bytes {
        /// Where.
        line: Line,
        /// What.
        text: String,
    },
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
}

impl Witness {
    /// Whether it rests on extents: a host gives those that fit each other, and here all are the same.
    pub fn is_of_extents(&self) -> bool {
        self.basis >= Basis::Input && EXTENTS.contains(&self.scenario.input)
    }
}

/// What executing a kernel says.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It ends, whatever was tried.
    Ends {
        /// What its decisions rest on.
        basis: Basis,
        /// Whether something was left untried: the budget was spent, or some inputs decided nothing.
        cut: bool,
    },
    /// It goes wrong.
    Wrong(Box<Witness>),
    /// It cannot be told.
    Undecided {
        /// What decides.
        line: Line,
        /// Why that is not known.
        why: &'static str,
    },
}

/// What executing a kernel's barriers says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It ends in every order of the warps that was tried.
    Ends,
    /// It hangs in every one.
    Hangs,
    /// It hangs in one.
    MayHang,
    /// It does what the ISA leaves undefined.
    Undefined,
    /// It cannot be told.
    Undecided,
}

impl Verdict {
    /// The verdict in a word.
    pub fn answer(&self) -> Answer {
        match self {
            Verdict::Ends { .. } => Answer::Ends,
            Verdict::Wrong(witness) => match witness.cause {
                Cause::Hang(_) if witness.always => Answer::Hangs,
                Cause::Hang(_) => Answer::MayHang,
                Cause::Undefined { .. } | Cause::Bytes { .. } => Answer::Undefined,
            },
            Verdict::Undecided { .. } => Answer::Undecided,
        }
    }
}

/// Executes a kernel with every scenario and schedule that the limits leave room for.
pub fn judge(program: &Program, launch: &Launch, limits: Limits) -> Verdict {
    if let Some((line, why)) = program.refused {
        return Verdict::Undecided { line, why };
    }
    let warps = u64::from(launch.threads().div_ceil(32)) * u64::from(launch.blocks());
    if warps * u64::from(program.registers) > MOST_REGISTERS {
        let line = program.code.first().map_or(Line(1), |instr| instr.line);
        return Verdict::Undecided { line, why: "it has too many registers to be executed" };
    }
    let mut undecided = None;
    let mut spent = 0;
    let (mut ended, mut cut) = (false, false);
    let mut basis = Basis::Fact;
    for memory in MEMORY {
        // Memory decides nothing in most kernels, inputs nothing in some: what nothing depends on is not varied.
        if memory != MEMORY[0] && basis < Basis::Memory {
            break;
        }
        let mut lengths = Vec::new();
        for (at, input) in COUNTS.into_iter().chain(EXTENTS).enumerate() {
            let is_extent = at >= COUNTS.len();
            let counts = lengths.windows(2).any(|pair| pair[0] != pair[1]);
            if at > 0 && basis < Basis::Input || is_extent && counts {
                break;
            }
            if spent > limits.total {
                cut = true;
                break;
            }
            let scenario = Scenario { input, memory };
            work::check_time();
            let fair = execute(program, launch, scenario, &Schedule::Fair, limits.steps);
            spent += fair.steps;
            lengths.push(fair.steps);
            basis = basis.max(fair.basis);
            match &fair.outcome {
                Outcome::Undecided { line, why } => {
                    undecided = undecided.or(Some((*line, *why)));
                    continue;
                }
                Outcome::Undefined { fault, line, .. } if fault.is_of_inputs() => {
                    undecided = undecided.or(Some((*line, "these inputs are none that the kernel is made for")));
                    continue;
                }
                Outcome::Ends => ended = true,
                _ => {}
            }
            let all = at < VARIED || is_extent || !matches!(fair.outcome, Outcome::Ends);
            if let Some(witness) =
                vary(program, launch, scenario, &fair, if all { limits.total } else { 0 }, &mut spent)
            {
                return Verdict::Wrong(Box::new(witness));
            }
            if let Some(cause) = unequal(program, &fair) {
                let (schedule, basis) = (Schedule::Fair, fair.basis);
                return Verdict::Wrong(Box::new(Witness {
                    cause,
                    scenario,
                    schedule,
                    always: true,
                    alike: true,
                    basis,
                }));
            }
        }
    }
    match undecided {
        Some((line, why)) if !ended => Verdict::Undecided { line, why },
        _ => Verdict::Ends { basis, cut: cut || undecided.is_some() },
    }
}

/// The other schedules, until so many steps are spent: what goes wrong in one of them, with whether it does in all.
fn vary(
    program: &Program,
    launch: &Launch,
    scenario: Scenario,
    fair: &Executed,
    total: u64,
    spent: &mut u64,
) -> Option<Witness> {
    let mut first = cause(&fair.outcome).map(|cause| (cause, Schedule::Fair, fair.basis));
    let mut always = first.is_some();
    let mut alike = true;
    // An execution that takes much longer than the fair one spins.
    let steps = fair.steps.saturating_mul(4).max(10_000);
    for schedule in schedules(fair) {
        if *spent > total {
            break;
        }
        work::check_time();
        let run = execute(program, launch, scenario, &schedule, steps);
        *spent += run.steps;
        match cause(&run.outcome) {
            Some(cause) => match &first {
                Some((known, ..)) => alike &= *known == cause,
                None => first = Some((cause, schedule, run.basis)),
            },
            None => always = false,
        }
        // Once it is known that it goes wrong in one and not in another there is nothing more to learn.
        if first.is_some() && !always {
            break;
        }
    }
    first.map(|(cause, schedule, basis)| Witness { cause, scenario, schedule, always, alike, basis })
}

/// Beside the fair one: late copies, each role and one warp of each role held back, and some by lot.
fn schedules(fair: &Executed) -> Vec<Schedule> {
    let mut roles: Vec<(u64, Vec<u32>)> = Vec::new();
    for (warp, trace) in (0u32..).zip(&fair.traces) {
        match roles.iter_mut().find(|(other, _)| other == trace) {
            Some((_, warps)) => warps.push(warp),
            None => roles.push((*trace, vec![warp])),
        }
    }
    let mut schedules = vec![Schedule::LateCopies];
    for (_, warps) in roles.iter().take(MOST_ROLES) {
        schedules.extend(warps.last().map(|warp| Schedule::Lag(vec![*warp])));
        if warps.len() > 1 && roles.len() > 1 {
            schedules.push(Schedule::Lag(warps.clone()));
        }
    }
    schedules.extend((1..=LOTS).map(Schedule::Random));
    schedules
}

/// Announcements that no sizes of the tensor maps' boxes make right.
fn unequal(program: &Program, run: &Executed) -> Option<Cause> {
    let equation = contradiction(&run.equations)?;
    let copies: u32 = equation.copies.iter().map(|(_, copies)| *copies).sum();
    let is_copy = |instr: &&Instr| matches!(instr.op, Op::Copy { bytes: Bytes::Map(_), .. });
    Some(Cause::Bytes {
        line: program.code.iter().find(is_copy)?.line,
        text: format!(
            "{} bytes are announced for {copies} copies by tensor maps; other phases have these maps bring another number",
            equation.bytes
        ),
    })
}

fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::Hangs(stuck) => Some(Cause::Hang(stuck.clone())),
        Outcome::Undefined { fault, line, rank, warp } if !fault.is_of_inputs() => {
            Some(Cause::Undefined { fault: fault.clone(), line: *line, rank: *rank, warp: *warp })
        }
        Outcome::Ends | Outcome::Undefined { .. } | Outcome::Undecided { .. } => None,
    }
}
