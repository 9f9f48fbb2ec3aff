//! The picture of a kernel's synchronisation: who waits, arrives, copies and works, over the steps of one execution.
//!
//! In: a kernel and what executing it said. Out: a [`Timeline`] with a lane for each group of warps that do the same, the stages
//! of its pipeline, and who waits for whom. For a kernel that ends it is one fair execution, paced so that a multiplication and
//! a copy take some steps; for one that goes wrong the execution that shows it. Steps order what happens: they are no time.

mod lanes;
mod work;

use serde::Serialize;

use super::execute::record::{Recording, What, record};
use super::execute::{Brought, Budget, Input, Launch, Outcome, Scenario, Schedule};
use super::machine::Fault;
use super::stands::{Kind, Stands};
use super::value::Basis;
use super::verdict::SIZES;
use super::witness::{Cause, Witness};
use super::{Answer, Checked, Verdict};
use crate::base::{Line, work as budget};
use crate::ptx::Module;
use crate::roles::Role;
use crate::simt::Graph;

/// What every parameter is taken to be, in turn.
const INPUTS: [Input; 7] =
    [Input::All(9), Input::All(5), Input::All(3), Input::All(2), Input::All(1), Input::All(384), Input::All(1152)];
/// What memory is taken to bring, in turn, and the parameters with it.
const TRIED: [(Brought, &[Input]); 4] = [(Brought::All(0), &INPUTS), (Brought::All(1), &INPUTS), SIZES[0], SIZES[1]];
/// The phase that a ring has come to when it has turned twice.
const TURNED: u64 = 2;
/// Instructions that a warp runs for a step of the picture, in kernels that change something now and then.
const INSTRUCTIONS: u64 = 16;
/// The part of the work that judging a kernel may take which drawing it may take: an execution that is recorded costs more than one
/// that is not, and a page draws every kernel of a file.
const SHARE: u64 = 4;
/// Steps that are drawn where nobody says how many.
pub const STEPS: u64 = 240;

/// One execution of a kernel, drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The kernel.
    pub kernel: String,
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Blocks of a cluster by dimension.
    pub cluster: [u32; 3],
    /// What parameters were taken to be.
    pub parameters: String,
    /// What memory was taken to bring; 0 where that grows.
    pub memory: u64,
    /// Whether it was taken to bring numbers that grow with their address.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub memory_grows: bool,
    /// Whether that decided anything.
    pub by_memory: bool,
    /// In which order warps went on.
    pub order: String,
    /// What executing the kernel says, in all that was tried.
    pub verdict: Answer,
    /// The line that decides, or that breaks a rule; null where none does.
    pub ptx_line: Option<Line>,
    /// Why, where the verdict is no plain one; null otherwise.
    pub reason: Option<String>,
    /// Steps of the whole execution.
    pub steps: u64,
    /// The first step that is drawn.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Warps that do the same, in the order of their roles.
    pub lanes: Vec<Lane>,
    /// mbarriers that copies complete.
    pub stages: Vec<Stage>,
    /// Who waits for whom, the longest first.
    pub dependencies: Vec<Dependency>,
    /// Where everybody stands when nobody can go on; empty where it does not come to that.
    pub witness: Vec<Stands>,
    /// What is not drawn, in words.
    pub left_out: Vec<String>,
}

/// Warps that wait for the same things in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// What they are called by what they do; null where all warps do the same.
    pub role: Option<String>,
    /// Which warps.
    pub warps: Vec<u32>,
    /// Of which block of the cluster.
    pub block: u64,
    /// What the code of their role has for them: `tma load`, `wgmma`, …; nothing where they have none.
    pub does: Vec<&'static str>,
    /// Whether they copy, multiply, arrive or wait, but for barriers that everybody comes to.
    pub takes_part: bool,
    /// Their waits, in order.
    pub waits: Vec<WaitSpan>,
    /// Their work, in order.
    pub work: Vec<WorkSpan>,
    /// What else they do, in order.
    pub marks: Vec<LaneMark>,
    /// The step at which they end; null where they do not, or not in what is drawn.
    pub ends: Option<u64>,
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitSpan {
    /// The step at which it begins.
    pub from: u64,
    /// The step at which it is over, the same where nothing had to be waited for; null where it is not.
    pub to: Option<u64>,
    /// Where.
    pub ptx_line: Line,
    /// For what kind of thing.
    pub kind: Kind,
    /// For what.
    pub object: String,
    /// Which phase or round of it.
    pub phase: u64,
    /// What ended it; null where it did not have to wait, or still does.
    pub released_by: Option<Release>,
}

/// What ends a wait: the last that was lacking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Release {
    /// Whose it was, among the lanes.
    pub lane: usize,
    /// Where.
    pub ptx_line: Line,
    /// How.
    pub how: How,
    /// When it was done, or issued.
    pub step: u64,
}

/// How a wait is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By a copy that came.
    Copy,
    /// By asynchronous work that was done.
    Commit,
    /// By an arrival, or by threads that came.
    Arrival,
}

/// Work that is no synchronisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkSpan {
    /// The step at which it begins.
    pub from: u64,
    /// The step at which it is done.
    pub to: u64,
    /// `wgmma`, `tma store`, …
    pub what: &'static str,
}

/// What a warp does at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Initialises an mbarrier.
    Init,
    /// Arrives at a barrier of any kind.
    Arrive,
    /// Announces bytes, with or without an arrival.
    ExpectTx,
    /// Issues copies.
    Copy,
    /// Asks for an arrival when what it issued is done.
    Commit,
    /// Changes its registers.
    Setmaxnreg,
    /// Takes columns of tensor memory.
    Alloc,
    /// Gives them back.
    Free,
}

/// Something that warps of a lane do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneMark {
    /// When: where several warps do it, when the last of them does.
    pub step: u64,
    /// Where.
    pub ptx_line: Line,
    /// What.
    pub what: MarkKind,
    /// To what; null for what concerns no barrier.
    pub object: Option<String>,
    /// Arrivals, copies or registers, of all the warps together.
    pub count: u64,
    /// Bytes announced or copied; null where there are none, or a tensor map decides.
    pub bytes: Option<i64>,
    /// How many warps of the lane do it.
    pub warps: u32,
}

/// What a stage of a pipeline is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Copies are under way.
    Filling,
    /// They have come, and nobody has gone on by it.
    Full,
    /// Somebody has; until it is filled again.
    Used,
}

/// An mbarrier that copies complete, over the steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// The mbarrier.
    pub object: String,
    /// What it is up to, in order.
    pub spans: Vec<StageSpan>,
}

/// A stretch of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageSpan {
    /// The step at which it begins.
    pub from: u64,
    /// The step at which it is over; null where it is not.
    pub to: Option<u64>,
    /// What it is up to.
    pub state: StageState,
    /// The phase.
    pub phase: u64,
}

/// Waits at one line that the same instruction ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependency {
    /// Who waits, among the lanes.
    pub lane: usize,
    /// Where.
    pub ptx_line: Line,
    /// For what: `full[0]` to `full[3]`, first and last.
    pub objects: Vec<String>,
    /// For whom, among the lanes.
    pub on: usize,
    /// Where they end it.
    pub by_ptx_line: Line,
    /// How.
    pub how: How,
    /// How often.
    pub times: u64,
    /// How many steps were waited, all together.
    pub steps: u64,
}

/// Draws an execution of a kernel. `most` is how many steps of it.
pub fn timeline(
    checked: &Checked,
    kernel: &str,
    (module, graph): (&Module<'_>, &Graph<'_>),
    roles: &[Role],
    most: u64,
) -> Timeline {
    let Drawn { recording, launch, scenario, order } = recording(checked, graph, most);
    let mut drawn = lanes::draw(&recording, (checked, &launch), module, roles, most.max(1));
    let line = |line: Line| Some(module.number_of(line));
    let verdict = &checked.verdict;
    let (ptx_line, reason) = match verdict {
        Verdict::Ends { .. } => {
            let (at, why) = verdict.untried();
            (at.and_then(line), why.map(str::to_owned))
        }
        Verdict::Wrong(witness) => match &witness.cause {
            Cause::Hang(_) => (None, None),
            Cause::Undefined { line: at, .. } | Cause::Bytes { line: at, .. } => {
                (line(*at), checked.finding.as_ref().map(|finding| finding.message.clone()))
            }
        },
        Verdict::Undecided { line: at, why } => (line(*at), Some((*why).to_owned())),
    };
    let basis = match verdict {
        Verdict::Ends { basis, .. } => *basis,
        Verdict::Wrong(witness) => witness.basis,
        Verdict::Undecided { .. } => Basis::Memory,
    };
    match (verdict, &recording.outcome) {
        (Verdict::Ends { .. }, Outcome::Undecided { why, .. }) => {
            drawn.left_out.push(format!("the execution that is drawn is longer: {why}"));
        }
        (Verdict::Ends { .. } | Verdict::Undecided { .. }, Outcome::Undefined { fault, line, .. }) => {
            let why = match fault {
                Fault::Rank(_) => "asks for a block that such a cluster does not have",
                _ => "decides by what only the launch knows",
            };
            drawn.left_out.push(format!("what comes after line {}, which {why}", module.number_of(*line)));
        }
        _ => {}
    }
    Timeline {
        kernel: kernel.to_owned(),
        block: launch.block,
        cluster: launch.cluster,
        parameters: scenario.input.to_string(),
        memory: scenario.memory.elsewhere(),
        memory_grows: scenario.memory.grows(),
        by_memory: basis >= Basis::Memory,
        order,
        verdict: verdict.answer(),
        ptx_line,
        reason,
        ..drawn
    }
}

/// The execution to draw.
struct Drawn {
    recording: Recording,
    launch: Launch,
    scenario: Scenario,
    order: String,
}

/// The execution to draw: the one that goes wrong, or a fair one that shows the pipeline.
fn recording(checked: &Checked, graph: &Graph<'_>, most: u64) -> Drawn {
    let limits = checked.limits;
    let pieces = limits.pieces / SHARE;
    let whole = Budget { steps: limits.steps, pieces };
    let run = |launch: &Launch, scenario: Scenario, schedule: &Schedule, paced: bool, budget: Budget| {
        let work = work::of(&checked.program, graph);
        record(&checked.program, launch, scenario, schedule, budget, (work, paced))
    };
    if let Verdict::Wrong(witness) = &checked.verdict {
        let launch = checked.launch.clone();
        let paced = Some(&witness.schedule).filter(|schedule| **schedule == Schedule::Fair);
        let paced = paced.map(|schedule| run(&launch, witness.scenario, schedule, true, whole));
        let same = paced.filter(|found| is_witness(&found.outcome, witness));
        let recording = same.unwrap_or_else(|| run(&launch, witness.scenario, &witness.schedule, false, whole));
        return Drawn { recording, launch, scenario: witness.scenario, order: witness.schedule.words() };
    }
    let mut tried: Vec<Tried> = Vec::new();
    // To choose, what would be drawn is enough.
    let warps = u64::from(checked.launch.threads().div_ceil(32)) * u64::from(checked.launch.blocks());
    let enough = most.saturating_mul(warps * INSTRUCTIONS).min(limits.steps);
    let mut spent = Budget::default();
    let mut try_one = |launch: &Launch, scenario: Scenario| -> Option<Tried> {
        if spent.steps > limits.again / SHARE || spent.pieces > pieces {
            return None;
        }
        budget::check_time();
        let left = pieces.saturating_sub(spent.pieces);
        let recording = run(launch, scenario, &Schedule::Fair, true, Budget { steps: enough, pieces: left });
        spent.steps += recording.took.steps;
        spent.pieces += recording.took.pieces;
        Some(Tried::of(launch, scenario, &recording, most))
    };
    for (memory, inputs) in TRIED {
        // What memory brings matters where nothing can be drawn whole without it, and the sizes of problems where no ring turns.
        let is_enough = |tried: &Tried| tried.is_whole && (tried.turns || !memory.grows());
        if tried.iter().any(is_enough) {
            continue;
        }
        for &input in inputs {
            let Some(found) = try_one(&checked.launch, Scenario { input, memory }) else { break };
            tried.push(found);
        }
    }
    // A kernel for clusters of another shape does nothing in this one but where it has nothing to do.
    let is_shown = |tried: &Tried| tried.is_whole && tried.is_busy;
    if !tried.iter().any(is_shown) && tried.iter().any(|tried| tried.is_other_shape) {
        'shapes: for launch in &checked.others {
            for input in INPUTS {
                let Some(found) = try_one(launch, Scenario { input, memory: Brought::All(0) }) else { break 'shapes };
                let (is_other, is_shown) = (found.is_other_shape, is_shown(&found));
                tried.push(found);
                if is_other {
                    break;
                }
                if is_shown && tried.last().is_some_and(|tried| tried.turns) {
                    break 'shapes;
                }
            }
        }
    }
    let (launch, scenario) = match choose(&tried) {
        Some(tried) => (tried.launch.clone(), tried.scenario),
        None => (checked.launch.clone(), Scenario { input: INPUTS[0], memory: Brought::All(0) }),
    };
    let recording = run(&launch, scenario, &Schedule::Fair, true, whole);
    Drawn { recording, launch, scenario, order: Schedule::Fair.words() }
}

/// An execution, as far as it matters to whether it is drawn.
struct Tried {
    launch: Launch,
    scenario: Scenario,
    /// Whether it ends, or goes on beyond what would be drawn.
    is_whole: bool,
    /// Whether somebody copies, multiplies or turns a ring in it, and nobody is held up for ever.
    is_busy: bool,
    /// Whether it asks for a block that the cluster does not have.
    is_other_shape: bool,
    /// Whether a ring turned twice.
    turns: bool,
    /// Copies and phases over in the steps that would be drawn, and how many steps these are.
    copies: u64,
    phases: u64,
    steps: u64,
}

impl Tried {
    fn of(launch: &Launch, scenario: Scenario, recording: &Recording, most: u64) -> Tried {
        let mut tried = Tried {
            launch: launch.clone(),
            scenario,
            is_whole: recording.outcome == Outcome::Ends || recording.marks.last().is_some_and(|mark| mark.step > most),
            is_busy: false,
            is_other_shape: matches!(recording.outcome, Outcome::Undefined { fault: Fault::Rank(_), .. }),
            turns: false,
            copies: 0,
            phases: 0,
            steps: recording.marks.last().map_or(1, |mark| mark.step.clamp(1, most)),
        };
        for mark in &recording.marks {
            let is_drawn = mark.step <= most;
            match mark.what {
                What::Copies { copies, .. } if is_drawn => tried.copies += u64::from(copies),
                What::Completes { phase, .. } | What::CompletesNamed { round: phase, .. } => {
                    tried.turns |= phase >= TURNED;
                    tried.phases += u64::from(is_drawn);
                }
                _ => {}
            }
        }
        tried.is_busy = !matches!(recording.outcome, Outcome::Hangs(_))
            && (tried.turns || tried.copies > 0 || !recording.work.is_empty());
        tried
    }

    /// What matters most to whether it is drawn.
    fn rank(&self) -> (bool, bool, bool) {
        (self.is_busy, self.is_whole, self.turns)
    }

    /// How much of the picture is the pipeline: a thousandth of a copy, or of a phase, a step.
    fn rate(&self, by_copies: bool) -> u64 {
        (if by_copies { self.copies } else { self.phases }).saturating_mul(1000) / self.steps
    }
}

/// The first of those that show something, are whole and turn, if some do, in which the pipeline is about as busy as in any: where extents
/// are small a tile has one turn of its main loop, and most of what is seen is its end.
fn choose(tried: &[Tried]) -> Option<&Tried> {
    let first = tried.iter().map(Tried::rank).max()?;
    let best: Vec<&Tried> = tried.iter().filter(|tried| tried.rank() == first).collect();
    let by_copies = best.iter().any(|tried| tried.copies > 0);
    let most = best.iter().map(|tried| tried.rate(by_copies)).max().unwrap_or(0);
    best.into_iter().find(|tried| tried.rate(by_copies) * 10 >= most * 7)
}

/// Whether an execution shows what a witness does.
fn is_witness(outcome: &Outcome, witness: &Witness) -> bool {
    match (outcome, &witness.cause) {
        (Outcome::Hangs(stuck), Cause::Hang(known)) => stuck == known,
        (Outcome::Undefined { fault, line, .. }, Cause::Undefined { fault: known, line: at, .. }) => {
            fault == known && line == at
        }
        (Outcome::Ends, Cause::Bytes { .. }) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(number: u64, is_busy: bool, is_whole: bool, copies: u64) -> Tried {
        Tried {
            launch: Launch { block: [128, 1, 1], cluster: [1, 1, 1], registers: None },
            scenario: Scenario { input: Input::All(number), memory: Brought::All(0) },
            is_whole,
            is_busy,
            is_other_shape: false,
            turns: false,
            copies,
            phases: 0,
            steps: 100,
        }
    }

    #[test]
    fn what_shows_something_is_drawn_before_what_is_whole() {
        let chosen = |tried: &[Tried]| choose(tried).map(|tried| tried.scenario.input);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[tried(1, false, true, 0), tried(2, true, false, 4)]), Some(Input::All(2)));
        assert_eq!(chosen(&[tried(1, true, false, 9), tried(2, true, true, 4)]), Some(Input::All(2)));
        // About as busy as any is enough.
        assert_eq!(chosen(&[tried(1, true, true, 80), tried(2, true, true, 100)]), Some(Input::All(1)));
        assert_eq!(chosen(&[tried(1, true, true, 10), tried(2, true, true, 100)]), Some(Input::All(2)));
    }

    /// Blocks arrive at the mbarrier of the one two further on, where there is enough to do: clusters of fewer than four have none.
    #[test]
    fn where_the_shape_that_was_judged_shows_nothing_another_is_drawn() {
        let text = include_str!("../../../testdata/shapes/launched_cluster.ptx");
        let (head, rest) = text.split_once("    mapa.shared::cluster.u32 %r8, %r3, 0;").unwrap();
        let (_, tail) = rest.split_once("WAIT:").unwrap();
        // What there is to see: a barrier that all come to again and again.
        let tail = tail.replace("DONE:", &format!("{}DONE:", "    bar.sync 1, 64;\n".repeat(6)));
        let partner = "    mov.u32 %r10, %cluster_ctarank;\n    xor.b32 %r10, %r10, 2;\n    mapa.shared::cluster.u32 %r9, %r3, %r10;\n    \
                       mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\nWAIT:";
        let text = format!("{}{partner}{tail}", head.replace("[%r3], 4;", "[%r3], 2;"));
        let module = crate::ptx::parse(&text);
        let function = module.functions().next().unwrap();
        let graph = Graph::build(&function);
        let size = crate::simt::BlockSize { dimensions: [64, 1, 1], exact: true };
        let mut checked =
            crate::sync::execute_kernel(&function, &graph, size, &[], crate::sync::Effort::Usual).unwrap();
        assert_eq!((checked.verdict.answer(), checked.launch.blocks()), (Answer::Ends, 4), "the verdict is of four");
        let drawn = |checked: &Checked| recording(checked, &graph, STEPS).launch.cluster;
        assert_eq!(drawn(&checked), checked.launch.cluster);
        // As if two had been judged: there it ends with nothing to do, and asks for a third where it has something.
        let of = |cluster: [u32; 3]| Launch { cluster, ..checked.launch.clone() };
        let (two, others) = (of([2, 1, 1]), vec![of([1, 2, 1]), of([4, 1, 1]), of([8, 1, 1])]);
        (checked.launch, checked.others) = (two, others);
        assert_eq!(drawn(&checked), [4, 1, 1], "the first shape that shows something");
        checked.others.truncate(1);
        assert_eq!(drawn(&checked), [2, 1, 1], "where none does, the one that was judged");
    }
}
