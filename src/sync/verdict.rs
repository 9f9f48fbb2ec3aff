//! From single executions to an answer: which inputs and schedules are tried, and what they say together.

use super::LANES;
use super::equations::{GRAIN, contradiction, is_uneven};
use super::execute::{
    Brought, Budget, Executed, Input, Lack, Launch, Outcome, Scenario, Schedule, Stuck, execute, execute_past,
};
use super::machine::{Fault, SharedAddress};
use super::program::{Bytes, Instr, InstrId, MbarrierOp, Op, Program, Source};
use super::value::Basis;
use super::witness::{Cause, Firmness, Shapes, Witness};
use crate::base::{Line, work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What parameters are taken to be, in turn: trip counts around the sizes of rings (1 to 4 stages: less, as many, one more, twice
/// and one); then, while there are barriers that nobody has come to, extents that kernels divide into tiles, and mixed numbers.
const INPUTS: [Input; 10] = [
    Input::All(5),
    Input::All(9),
    Input::All(1),
    Input::All(2),
    Input::All(3),
    Input::All(384),
    Input::All(640),
    Input::All(1152),
    Input::Mixed(1),
    Input::Mixed(2),
];
/// Phases of an mbarrier in which an arrival too few, or too many, of one round is seen to count in another.
const ROUNDS: u64 = 3;
/// What memory is taken to bring: a condition goes one way and the other.
const MEMORY: [Brought; 2] = [Brought::All(0), Brought::All(1)];
/// Problems whose sizes lie in memory: tried while there are barriers that nobody has come to.
const PROBLEMS: &[Input] = &[
    Input::Small(1),
    Input::Small(2),
    Input::Small(3),
    Input::Small(4),
    Input::Small(5),
    Input::Small(6),
    Input::Small(7),
    Input::Small(8),
    Input::Small(9),
    Input::Small(10),
    Input::Small(11),
    Input::Small(12),
    Input::Wide(1),
    Input::Wide(2),
    Input::Wide(3),
    Input::Wide(4),
];
/// Those that are tried with short problems, too.
const SHORT_PROBLEMS: usize = 12;
/// Sizes of problems that memory brings, and what parameters are with them: short ones, and long ones of several tiles each, where
/// kernels divide them into tiles of 64 to 256.
pub const SIZES: [(Brought, &[Input]); 2] =
    [(Brought::Growing { by: 1 }, PROBLEMS.split_at(SHORT_PROBLEMS).0), (Brought::Growing { by: 640 }, PROBLEMS)];
/// Steps of each warp with one problem: some turns of every ring.
const OF_A_PROBLEM: u64 = 2_500;
/// What is tried, in turn.
const TRIED: [(Brought, &[Input]); 4] = [(MEMORY[0], &INPUTS), SIZES[0], SIZES[1], (MEMORY[1], &INPUTS)];

/// All problems whose sizes lie in memory.
fn problems() -> impl Iterator<Item = Scenario> {
    SIZES.into_iter().flat_map(|(memory, inputs)| inputs.iter().map(move |&input| Scenario { input, memory }))
}

/// Inputs that a fault is tried with once more, to see whether it hangs on those that it was found with.
const AGAIN: [Input; 6] =
    [Input::All(5), SEVERAL_TILES, Input::Mixed(1), Input::All(9), Input::Mixed(2), Input::All(1152)];
/// Counts that the blocks of a cluster share evenly, one of up to eight blocks each of them: the first has least work. Then an extent of
/// as many tiles, where a ring has to turn.
const EVENLY: [Input; 4] = [Input::All(8), Input::All(16), Input::All(32), Input::All(512)];
/// What is tried of a kernel whose blocks must share their work evenly.
const EVEN: Choice = Choice {
    is_even: true,
    counts: 3,
    tried: &[(MEMORY[0], &EVENLY), (MEMORY[1], &EVENLY)],
    again: &[EVENLY[0], EVENLY[1], EVENLY[2], Input::Mixed(1), Input::Mixed(2)],
};
/// What is tried of every other kernel.
const ANY: Choice = Choice { is_even: false, counts: 5, tried: &TRIED, again: &AGAIN };

/// Inputs to choose from.
#[derive(Clone, Copy)]
struct Choice {
    /// Whether it is of counts that blocks share evenly.
    is_even: bool,
    /// The first of each list that are counts of trips.
    counts: usize,
    /// What is tried, in turn.
    tried: &'static [(Brought, &'static [Input])],
    /// What a fault is tried with once more.
    again: &'static [Input],
}

/// Lots by which parameters are drawn once more where none of those came to what was found with extents.
const MORE_LOTS: std::ops::Range<u64> = 3..11;
/// Numbers of those from which on they are extents of several tiles.
const TILES: u64 = 256;
/// The first of them.
const SEVERAL_TILES: Input = Input::All(384);
/// How many times as much is tried where somebody asks for it.
const THOROUGH: u64 = 12;
/// Roles that are held back, one after the other.
const MOST_ROLES: usize = 8;

/// Registers of all warps together: 24 bytes each.
const MOST_REGISTERS: u64 = 2_000_000;

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

/// Puts those that the others wait for first, as far as where they stand tells: whoever waits for threads that stand elsewhere
/// waits because they do.
fn in_order(mut stuck: Vec<Stuck>) -> Vec<Stuck> {
    let all: usize = stuck.iter().map(|group| group.warps.len()).sum();
    let is_kept = |group: &Stuck| match group.lacks {
        Lack::Threads { too_many: false, missing } => missing.div_ceil(32) as usize <= all - group.warps.len(),
        Lack::Cluster => all > group.warps.len(),
        _ => false,
    };
    stuck.sort_by_key(|group| (is_kept(group), group.lacks, group.rank, group.pc));
    stuck
}

/// Puts the group first that alone keeps a kernel from its end: were its wait over, the others would go on.
pub fn find_culprit(program: &Program, launch: &Launch, witness: &mut Witness, limits: Limits) {
    let Cause::Hang(stuck) = &mut witness.cause else { return };
    let mut pcs: Vec<InstrId> = Vec::new();
    for group in stuck.iter() {
        if !pcs.contains(&group.pc) {
            pcs.push(group.pc);
        }
    }
    let ends = |pc: &InstrId| {
        let run = execute_past(program, launch, witness.scenario, &witness.schedule, limits.of_one(), *pc);
        matches!(run.outcome, Outcome::Ends)
    };
    if pcs.len() > 1
        && let Some(culprit) = pcs.into_iter().take(MOST_ROLES).find(ends)
    {
        stuck.sort_by_key(|group| group.pc != culprit);
    }
}

/// Blocks of a cluster that is no small one.
const LARGE: u32 = 8;

/// What executing a kernel says.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It ends, whatever was tried.
    Ends {
        /// What its decisions rest on.
        basis: Basis,
        /// Whether something was left untried: the budget was spent, or some inputs decided nothing.
        cut: bool,
        /// What may be a fault, and is one where a change ends it: arrivals that another schedule counts in another phase, which
        /// harms nobody where as many come in the end, or a problem that hangs, whose sizes were made up.
        suspects: Vec<Witness>,
        /// Whether some inputs lead to blocks of the cluster that the launch does not have.
        lacks_blocks: bool,
        /// The first line that synchronises and that none of the inputs came to, where they decide that.
        unreached: Option<Line>,
        /// What goes wrong with counts that the blocks of a cluster do not share evenly, where it ends with those that they do: hosts
        /// round counts up to whole clusters, but nothing in the PTX says so.
        uneven: Option<Box<Witness>>,
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

impl Verdict {
    /// What was left untried of a kernel that ends: why, and the line that it is about.
    pub fn untried(&self) -> (Option<Line>, Option<&'static str>) {
        match self {
            Verdict::Ends { unreached: Some(line), .. } => {
                (Some(*line), Some("nothing that was tried comes to this line"))
            }
            Verdict::Ends { cut: true, .. } => (None, Some("not everything could be tried")),
            _ => (None, None),
        }
    }
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

/// Why inputs decide nothing.
const NOT_MADE_FOR: &str = "these inputs are none that the kernel is made for";
/// Why a shape decides nothing: it has too few blocks.
const OTHER_SHAPE: &str = "clusters of this shape are none that the kernel is made for";

/// Executes a kernel in launches of several shapes, any of which may be the one that it is made for: what goes wrong must go
/// wrong in each that it can run in at all. Gives the launch that the verdict is of, too, and what it took.
pub fn judge<'l>(program: &Program, launches: &'l [Launch], limits: Limits) -> Option<(Verdict, &'l Launch, Budget)> {
    let mut judge = Judge::new(program, limits);
    let (mut wrong, mut undecided): (Option<(Box<Witness>, &Launch)>, _) = (None, None);
    let mut shapes = Shapes::All;
    let mut is_refuted = false;
    let mut small: Option<(Verdict, &Launch)> = None;
    let fitting = judge.fitting(launches).map(|at| &launches[at]);
    let others = launches.iter().filter(|launch| fitting.is_none_or(|fitting| fitting.cluster != launch.cluster));
    for launch in fitting.into_iter().chain(others) {
        if let Some((witness, _)) = &wrong
            && (is_refuted || witness.firmness != Firmness::Firm)
            && launch.blocks() > LARGE
        {
            // What is not sure in smaller ones does not become so in these, which take many times as long.
            shapes = shapes.max(Shapes::Small);
            continue;
        }
        if let Some((witness, _)) = &wrong
            && let Some(goes_wrong) = judge.goes_wrong_in(launch, witness)
        {
            shapes = shapes.max(match goes_wrong {
                true => Shapes::All,
                false if launch.blocks() >= LARGE => Shapes::Small,
                false => Shapes::Some,
            });
            // Inputs that a kernel is not made for hang it in every shape; others tell so in the one that it is made for.
            if goes_wrong
                && launch.blocks() == 1
                && let Verdict::Wrong(alone) = judge.launch(launch)
            {
                is_refuted |= alone.firmness == Firmness::Refuted;
            }
            continue;
        }
        match judge.launch(launch) {
            // With the inputs that lead further there are too few blocks: it is made for more.
            verdict @ Verdict::Ends { lacks_blocks: true, .. } => small = small.or(Some((verdict, launch))),
            verdict @ Verdict::Ends { .. } => return Some((verdict, launch, judge.took())),
            // What holds in all of them is no surer than in the one where it is least so.
            Verdict::Wrong(witness) if wrong.is_none() || witness.firmness != Firmness::Firm => {
                wrong = Some((witness, launch));
            }
            Verdict::Wrong(_) => {}
            verdict @ Verdict::Undecided { line, why } => {
                let is_of_inputs = why == NOT_MADE_FOR;
                shapes = shapes.max(if is_of_inputs || why == OTHER_SHAPE { Shapes::All } else { Shapes::Some });
                // Where inputs are refused alone and in a cluster, no shape changes that.
                let is_known = matches!(
                    undecided,
                    Some((Verdict::Undecided { line: known, why: known_why }, _)) if (known, known_why) == (line, why)
                );
                if is_of_inputs && is_known && wrong.is_none() {
                    break;
                }
                undecided = undecided.or(Some((verdict, launch)));
            }
        }
    }
    let wrong = wrong.map(|(mut witness, launch)| {
        witness.shapes = shapes;
        if is_refuted {
            witness.firmness = Firmness::Refuted;
        }
        (Verdict::Wrong(witness), launch)
    });
    // Where it ends with all that a launch has the blocks for, only what is so in every larger one and with all inputs says otherwise.
    let is_sure = |verdict: &Verdict| matches!(verdict, Verdict::Wrong(witness) if witness.shapes == Shapes::All && witness.firmness == Firmness::Firm);
    let wrong = wrong.filter(|(verdict, _)| small.is_none() || is_sure(verdict));
    wrong.or(small).or(undecided).map(|(verdict, launch)| (verdict, launch, judge.took()))
}

/// Inputs that a kernel ends with, executed in turn.
struct Tried {
    scenario: Scenario,
    /// Whether its inputs are likely counts of trips.
    of_counts: bool,
    /// Synchronising instructions that nobody had come to before.
    reached: usize,
    fair: Executed,
}

/// Inputs of one kind, and whether they lead anywhere else than those before: several that take the same course stand for the rest.
#[derive(Default)]
struct Courses {
    kind: Option<std::mem::Discriminant<Input>>,
    last: Option<(Vec<u64>, bool)>,
    /// Inputs one after the other that took the last course.
    times: u32,
}

impl Courses {
    /// Inputs of a kind that are tried, where all take the same course.
    const ENOUGH: u32 = 3;

    /// Whether inputs of this kind are known.
    fn are_known(&self, input: Input) -> bool {
        self.kind == Some(std::mem::discriminant(&input)) && self.times >= Courses::ENOUGH
    }

    fn add(&mut self, input: Input, run: &Executed) {
        let kind = Some(std::mem::discriminant(&input));
        // Of two that are cut short neither says more than the other.
        let is_cut = matches!(run.outcome, Outcome::Undecided { .. });
        let course = Some((if is_cut { Vec::new() } else { run.traces.clone() }, is_cut));
        let is_same = self.kind == kind && self.last == course;
        *self = Courses { kind, last: course, times: if is_same { self.times + 1 } else { 1 } };
    }
}

/// How far the mbarriers of a kernel have come in what was executed.
#[derive(Default)]
struct Rings {
    /// By mbarrier: the most of its phases that were over.
    phases: BTreeMap<SharedAddress, u64>,
}

impl Rings {
    fn turn(&mut self, run: &Executed) {
        for (at, phase) in &run.phases {
            let most = self.phases.entry(*at).or_default();
            *most = (*phase).max(*most);
        }
    }

    /// Whether more trips may show more: nobody has come to a stage of a ring, or round one so often that arrivals of two rounds meet.
    fn are_open(&self) -> bool {
        let most = self.phases.values().max();
        self.phases.values().any(|phase| *phase == 0) || most.is_some_and(|most| *most < ROUNDS)
    }
}

/// Executions of one kernel, and what they have cost.
#[derive(Clone, Copy)]
struct Judge<'p> {
    program: &'p Program,
    limits: Limits,
    inputs: Choice,
    spent: u64,
    pieces: u64,
    /// What was spent before the launch that is looked at.
    before: u64,
}

impl<'p> Judge<'p> {
    fn new(program: &'p Program, limits: Limits) -> Self {
        Judge { program, limits, inputs: ANY, spent: 0, pieces: 0, before: 0 }
    }

    fn run(&mut self, launch: &Launch, scenario: Scenario, schedule: &Schedule, steps: u64) -> Executed {
        self.run_for(launch, scenario, schedule, steps.min(self.limits.steps))
    }

    fn run_for(&mut self, launch: &Launch, scenario: Scenario, schedule: &Schedule, steps: u64) -> Executed {
        work::check_time();
        let budget = Budget { steps, pieces: self.limits.pieces.saturating_sub(self.pieces) };
        let run = execute(self.program, launch, scenario, schedule, budget);
        self.spent += run.took.steps;
        self.pieces += run.took.pieces;
        run
    }

    fn took(&self) -> Budget {
        Budget { steps: self.spent, pieces: self.pieces }
    }

    fn is_spent(&self) -> bool {
        self.spent > self.before + self.limits.total || self.is_over()
    }

    /// Whether nothing more is tried.
    fn is_over(&self) -> bool {
        self.spent > self.limits.again || self.pieces > self.limits.pieces
    }

    /// Whether what goes wrong in a launch of one shape goes wrong in one of another; none where it may end there.
    fn goes_wrong_in(&mut self, launch: &Launch, witness: &Witness) -> Option<bool> {
        if self.is_over() {
            return Some(false);
        }
        // As many more steps as it has blocks.
        let steps = self.limits.steps.saturating_mul(u64::from(launch.blocks()).div_ceil(2));
        let run = self.run_for(launch, witness.scenario, &witness.schedule, steps);
        if let Cause::Bytes { .. } = witness.cause {
            return unequal(self.program, witness.scenario, &run).is_some().then_some(true);
        }
        // Other blocks pass it, too: how often says nothing here.
        let is_passed = witness.cause.pc().is_none_or(|pc| run.passes_of(pc) > 0);
        match &run.outcome {
            // A kernel that ends alone may be made for that.
            Outcome::Ends if is_passed || launch.blocks() == 1 => None,
            Outcome::Undecided { .. } => Some(false),
            // One that does not come to it says nothing.
            Outcome::Ends | Outcome::Hangs(_) | Outcome::Undefined { .. } => Some(true),
        }
    }

    /// The first of several shapes that a launch may have in which blocks that share their work evenly come to the end, phases of
    /// mbarriers with them: the kernel is likely to be made for it.
    fn fitting(&mut self, launches: &[Launch]) -> Option<usize> {
        if launches.len() < 2 || self.program.refused.is_some() {
            return None;
        }
        let scenario = Scenario { input: EVENLY[0], memory: MEMORY[0] };
        launches.iter().position(|launch| {
            (2..=LARGE).contains(&launch.blocks()) && self.has_room(launch) && !self.is_spent() && {
                let run = self.run(launch, scenario, &Schedule::Fair, u64::MAX);
                run.outcome == Outcome::Ends && run.turns()
            }
        })
    }

    /// Whether the blocks of a cluster may get a different number of tiles each.
    fn may_be_uneven(&self, launch: &Launch, input: Input) -> bool {
        let blocks = u64::from(launch.blocks());
        !self.inputs.is_even
            && blocks > 1
            && self.program.asks_for_blocks
            && matches!(input, Input::All(count) if count % blocks != 0)
    }

    /// Whether its registers are few enough to be held.
    fn has_room(&self, launch: &Launch) -> bool {
        let warps = u64::from(launch.threads().div_ceil(32)) * u64::from(launch.blocks());
        warps * u64::from(self.program.registers) <= MOST_REGISTERS
    }

    /// Executes a kernel with every scenario and schedule that the limits leave room for.
    fn launch(&mut self, launch: &Launch) -> Verdict {
        let program = self.program;
        if let Some((line, why)) = program.refused {
            return Verdict::Undecided { line, why };
        }
        if !self.has_room(launch) {
            let line = program.code.first().map_or(Line(1), |instr| instr.line);
            return Verdict::Undecided { line, why: "it has too many registers to be executed" };
        }
        self.before = self.spent;
        if self.is_spent() {
            let line = program.code.first().map_or(Line(1), |instr| instr.line);
            return Verdict::Undecided { line, why: "the budget of steps is spent" };
        }
        let mut undecided = None;
        let (mut ended, mut cut, mut lacks_blocks) = (false, false, false);
        let mut basis = Basis::Fact;
        let mut weak: Option<Witness> = None;
        let mut race: Option<Witness> = None;
        // Instructions that synchronise and that nobody has come to.
        let synchronises = |at: &InstrId| program.code.get(*at).is_some_and(|instr| instr.op.synchronises());
        let mut unreached: Vec<InstrId> = program.code.ids().filter(synchronises).collect();
        let mut rings = Rings::default();
        // Those that ended, and how many more instructions they came to than those before.
        let mut tried: Vec<Tried> = Vec::new();
        let mut problems: Vec<(Scenario, Executed)> = Vec::new();
        for &(memory, inputs) in self.inputs.tried {
            // Memory decides nothing in most kernels, inputs nothing in some: what nothing depends on is not varied.
            if memory != MEMORY[0] && basis < Basis::Memory {
                break;
            }
            let mut too_many: Option<u64> = None;
            let mut courses = Courses::default();
            for (at, &input) in inputs.iter().enumerate() {
                let of_counts = at < self.inputs.counts && !memory.grows();
                // All problems are tried where one is: the first to come to a ring need not turn it.
                let asks = !of_counts && (problems.is_empty() || !memory.grows());
                let is_extent = matches!(input, Input::All(_)) && !memory.grows();
                if at > 0 && basis < Basis::Input || asks && unreached.is_empty() && !(is_extent && rings.are_open()) {
                    break;
                }
                if self.is_spent() {
                    cut = true;
                    break;
                }
                // What a smaller extent had too few steps for a larger one has, too.
                if let (Input::All(extent), Some(most)) = (input, too_many)
                    && extent >= most
                {
                    continue;
                }
                if courses.are_known(input) && (of_counts || !is_extent) {
                    continue;
                }
                let scenario = Scenario { input, memory };
                let fair = self.run(launch, scenario, &Schedule::Fair, steps_of(scenario, launch));
                courses.add(input, &fair);
                basis = basis.max(fair.basis);
                let before = unreached.len();
                unreached.retain(|at| fair.passes.get(*at) == Some(&0));
                rings.turn(&fair);
                if memory.grows() && !matches!(&fair.outcome, Outcome::Undefined { fault, .. } if fault.is_of_inputs())
                {
                    ended |= fair.outcome == Outcome::Ends;
                    cut |= matches!(fair.outcome, Outcome::Undecided { .. });
                    problems.push((scenario, fair));
                    continue;
                }
                match &fair.outcome {
                    Outcome::Undecided { line, why } => {
                        if let Input::All(extent) = input
                            && fair.took.steps >= self.limits.steps
                        {
                            too_many = Some(extent);
                        }
                        // Everything was come to before, if not as often as a ring takes to come round.
                        if asks && before == 0 {
                            cut = true;
                            continue;
                        }
                        undecided = undecided.or(Some((*line, *why)));
                        // What memory brings may decide it, as where it holds the sizes of problems: the other is tried at once.
                        if at == 0 && memory == MEMORY[0] && basis >= Basis::Memory {
                            break;
                        }
                        continue;
                    }
                    Outcome::Undefined { fault, line, .. } if fault.is_of_inputs() => {
                        let is_of_shape = matches!(fault, Fault::Rank(_));
                        lacks_blocks |= is_of_shape;
                        let why = if is_of_shape { OTHER_SHAPE } else { NOT_MADE_FOR };
                        undecided = undecided.or(Some((*line, why)));
                        continue;
                    }
                    Outcome::Ends => {
                        ended = true;
                        race = race.or_else(|| racing(scenario, &fair));
                    }
                    Outcome::Hangs(_) | Outcome::Undefined { .. } => {}
                }
                if let Some(pc) = cause(&fair.outcome).and_then(|cause| cause.pc())
                    && self.may_be_uneven(launch, input)
                    && let Some(verdict) = self.launch_evenly(launch, scenario, pc, &fair)
                {
                    return verdict;
                }
                let wrong = match fair.outcome {
                    Outcome::Ends => None,
                    _ => self.vary(launch, scenario, &fair),
                };
                match wrong.or_else(|| unequal(program, scenario, &fair)) {
                    Some(witness) => {
                        if let Some(verdict) = self.weigh(launch, witness, of_counts, &mut weak) {
                            return verdict;
                        }
                    }
                    None => tried.push(Tried { scenario, of_counts, reached: before - unreached.len(), fair }),
                }
            }
        }
        // The other schedules, for those that come to the most.
        tried.sort_by_key(|tried| (std::cmp::Reverse(tried.reached), tried.fair.took.steps));
        for Tried { scenario, of_counts, fair, .. } in tried.iter().take(self.limits.varied) {
            if let Some(witness) = self.vary(launch, *scenario, fair)
                && let Some(verdict) = self.weigh(launch, witness, *of_counts, &mut weak)
            {
                return verdict;
            }
        }
        let suspects = match race {
            Some(race) => vec![race],
            None => suspects(&problems),
        };
        match (weak, undecided) {
            (Some(witness), _) => Verdict::Wrong(Box::new(witness)),
            (None, Some((line, why))) if !ended => Verdict::Undecided { line, why },
            (None, undecided) => {
                let open = unreached.first().filter(|_| basis >= Basis::Input);
                let unreached = open.and_then(|at| program.code.get(*at)).map(|instr| instr.line);
                let cut = cut || undecided.is_some();
                Verdict::Ends { basis, cut, suspects, lacks_blocks, unreached, uneven: None }
            }
        }
    }

    /// Judges a kernel by counts that the blocks of a cluster share evenly, where it goes wrong with others: what goes wrong with those,
    /// too, or that it ends with them. None where they do not say.
    fn launch_evenly(&mut self, launch: &Launch, scenario: Scenario, pc: InstrId, run: &Executed) -> Option<Verdict> {
        let passes = run.passes_of(pc);
        let usual = *self;
        self.inputs = EVEN;
        self.limits.steps = self.limits.total;
        let mut verdict = self.launch(launch);
        // What an instruction was passed by is not in a verdict.
        let even = Scenario { input: EVENLY[0], ..scenario };
        let ends = matches!(verdict, Verdict::Ends { .. })
            && self.run(launch, even, &Schedule::Fair, u64::MAX).passes_of(pc) > passes;
        *self = Judge { spent: self.spent, pieces: self.pieces, ..usual };
        match &mut verdict {
            Verdict::Ends { uneven, .. } if ends => {
                let witness = self.vary(launch, scenario, run)?;
                *uneven = Some(Box::new(Witness { firmness: Firmness::Refuted, ..witness }));
                Some(verdict)
            }
            Verdict::Wrong(_) => Some(verdict),
            Verdict::Ends { .. } | Verdict::Undecided { .. } => None,
        }
    }

    /// The verdict of a witness that is sure enough; another is kept in case there is none.
    fn weigh(
        &mut self,
        launch: &Launch,
        mut witness: Witness,
        of_counts: bool,
        weak: &mut Option<Witness>,
    ) -> Option<Verdict> {
        witness.firmness = self.firmness(launch, &witness, of_counts);
        if witness.firmness == Firmness::Firm
            && let Some(with_work) = self.with_work(launch, &witness)
        {
            witness = Witness { firmness: Firmness::Firm, ..with_work };
        }
        if witness.firmness == Firmness::Firm || witness.basis <= Basis::Input && of_counts {
            return Some(Verdict::Wrong(Box::new(witness)));
        }
        weak.get_or_insert(witness);
        None
    }

    /// Whether a fault shows with all other inputs, too, that lead to where it shows as often: then it does not hang on a
    /// combination of inputs that no host gives. `of_counts` says that it was found with a likely count of trips; one that was
    /// found with extents, or with numbers from memory, must show with mixed inputs, too.
    fn firmness(&mut self, launch: &Launch, witness: &Witness, of_counts: bool) -> Firmness {
        let firm_if = |is_firm: bool| if is_firm { Firmness::Firm } else { Firmness::Open };
        match witness.basis {
            Basis::Fact => return Firmness::Firm,
            Basis::Order => return Firmness::Open,
            Basis::Input | Basis::Memory => {}
        }
        if let Cause::Bytes { .. } = witness.cause {
            return firm_if(witness.basis == Basis::Input);
        }
        let memories = if witness.basis >= Basis::Memory { &MEMORY[..] } else { &MEMORY[..1] };
        let (mut shown, mut mixed) = (false, false);
        // Whether all extents of several tiles get past, and none of less than one.
        let (mut by_tiles, mut past) = (matches!(witness.scenario.input, Input::All(extent) if extent < TILES), false);
        let mut is_open = false;
        for memory in memories {
            for &input in self.inputs.again {
                let scenario = Scenario { input, memory: *memory };
                if scenario == witness.scenario
                    || self.is_over()
                    || is_open && !(by_tiles && matches!(input, Input::All(_)))
                {
                    continue;
                }
                let run = self.run(launch, scenario, &witness.schedule, u64::MAX);
                if let Input::All(extent) = input {
                    let is_past = run.outcome == Outcome::Ends && witness.is_come_to_by(&run);
                    by_tiles &= (extent >= TILES) == is_past;
                    past |= is_past;
                }
                match run.outcome {
                    // What hangs on the order may show with these inputs in another one.
                    Outcome::Ends if witness.is_passed_by(&run) => {
                        is_open |= witness.always || self.vary(launch, scenario, &run).is_none();
                        shown = true;
                    }
                    _ if cause(&run.outcome).is_none() => {}
                    _ => (shown, mixed) = (true, mixed || matches!(input, Input::Mixed(_))),
                }
            }
        }
        // Few lots have enough of everything to come as far as equal extents do.
        for seed in MORE_LOTS {
            if mixed || !shown || is_open || self.is_over() {
                break;
            }
            let scenario = Scenario { input: Input::Mixed(seed), ..witness.scenario };
            let run = self.run(launch, scenario, &witness.schedule, u64::MAX);
            match run.outcome {
                Outcome::Ends if witness.is_passed_by(&run) => return Firmness::Open,
                _ => mixed = cause(&run.outcome).is_some(),
            }
        }
        // Less than a tile is no work for a kernel that counts in whole ones.
        if by_tiles && past {
            return Firmness::Refuted;
        }
        firm_if(!is_open && shown && (mixed || of_counts && witness.basis == Basis::Input))
    }

    /// A fault that was seen with less than a tile, as it shows with several, where these come to more: without work nobody may come
    /// to what is wrong, and only wait for those who have none.
    fn with_work(&mut self, launch: &Launch, witness: &Witness) -> Option<Witness> {
        if witness.basis == Basis::Fact || !matches!(witness.scenario.input, Input::All(extent) if extent < TILES) {
            return None;
        }
        let program = self.program;
        let reached = |run: &Executed| {
            let passed = program.code.iter_enumerated().filter(|(at, _)| run.passes_of(*at) > 0);
            passed.filter(|(_, instr)| instr.op.synchronises()).count()
        };
        let scenario = Scenario { input: SEVERAL_TILES, ..witness.scenario };
        let large = self.run(launch, scenario, &Schedule::Fair, u64::MAX);
        cause(&large.outcome)?;
        let small = self.run(launch, witness.scenario, &witness.schedule, u64::MAX);
        if reached(&large) <= reached(&small) {
            return None;
        }
        self.vary(launch, scenario, &large)
    }

    /// The other schedules, until the steps are spent: what goes wrong in one of them, with whether it does in all.
    fn vary(&mut self, launch: &Launch, scenario: Scenario, fair: &Executed) -> Option<Witness> {
        let passes = |run: &Executed, cause: &Cause| cause.pc().map_or(0, |pc| run.passes_of(pc));
        let mut first = cause(&fair.outcome).map(|cause| {
            let passes = passes(fair, &cause);
            (cause, Schedule::Fair, fair.basis, passes, fair.took.steps)
        });
        let mut always = first.is_some();
        let mut alike = true;
        // An execution that takes much longer than the fair one spins.
        let steps = fair.took.steps.saturating_mul(4).max(10_000);
        for schedule in schedules(fair, self.limits.lots) {
            if self.is_spent() {
                break;
            }
            let run = self.run(launch, scenario, &schedule, steps);
            match cause(&run.outcome) {
                Some(cause) => match &first {
                    Some((known, ..)) => alike &= *known == cause,
                    None => {
                        let passes = passes(&run, &cause);
                        first = Some((cause, schedule, run.basis, passes, run.took.steps));
                    }
                },
                None => always = false,
            }
            // Once it is known that it goes wrong in one and not in another there is nothing more to learn.
            if first.is_some() && !always {
                break;
            }
        }
        let (cause, schedule, basis, passes, steps) = first?;
        let (firmness, shapes) = (Firmness::Open, Shapes::All);
        Some(Witness { cause, scenario, schedule, always, alike, basis, passes, steps, firmness, shapes })
    }
}

/// Beside the fair one: late copies, each role and one warp of each role held back, and some by lot.
fn schedules(fair: &Executed, lots: u64) -> Vec<Schedule> {
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
    schedules.extend((1..=lots).map(Schedule::Random));
    schedules
}

/// Announcements that no sizes of the tensor maps' boxes make right.
fn unequal(program: &Program, scenario: Scenario, run: &Executed) -> Option<Witness> {
    let equation = contradiction(&run.equations)?;
    let copies: u32 = equation.copies.iter().map(|(_, copies)| *copies).sum();
    let announced = |instr: &Instr| match &instr.op {
        Op::Mbarrier {
            op:
                MbarrierOp::Arrive { bytes: Some(Source::Number(bytes)), .. }
                | MbarrierOp::ExpectTx { bytes: Source::Number(bytes) },
            ..
        } => Some(*bytes as i64),
        _ => None,
    };
    let uneven = is_uneven(equation);
    let announces = |instr: &&Instr| announced(instr) == Some(equation.bytes);
    // Where several announce for one phase.
    let is_part = |instr: &&Instr| uneven && announced(instr).is_some_and(|bytes| bytes % GRAIN != 0);
    let copies_by_map = |instr: &&Instr| matches!(instr.op, Op::Copy { bytes: Bytes::Map(_), .. });
    let code = &program.code;
    let instr = code.iter().find(announces).or_else(|| code.iter().find(is_part));
    let instr = instr.or_else(|| code.iter().find(copies_by_map))?;
    let why = if uneven {
        format!("the box of a map is a multiple of {GRAIN} bytes")
    } else {
        "other phases have these maps bring another number".to_owned()
    };
    let cause = Cause::Bytes {
        line: instr.line,
        text: format!("{} bytes are announced for {copies} copies by tensor maps: {why}", equation.bytes),
    };
    let (schedule, basis) = (Schedule::Fair, run.basis);
    let (passes, steps, firmness, shapes) = (0, run.took.steps, Firmness::Open, Shapes::All);
    Some(Witness { cause, scenario, schedule, always: true, alike: true, basis, passes, steps, firmness, shapes })
}

/// A problem that hangs where no other one gets past. Sizes that were made up may contradict each other: it is a fault where a change
/// mends them all.
fn stuck_problem(problems: &[(Scenario, Executed)]) -> Option<Witness> {
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
fn suspects(problems: &[(Scenario, Executed)]) -> Vec<Witness> {
    let (wrong, right): (Vec<_>, Vec<_>) = problems.iter().partition(|(_, run)| cause(&run.outcome).is_some());
    let race = right.into_iter().chain(wrong).find_map(|(scenario, run)| racing(*scenario, run));
    race.into_iter().chain(stuck_problem(problems)).collect()
}

/// Steps that an execution has by its inputs alone.
fn steps_of(scenario: Scenario, launch: &Launch) -> u64 {
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

/// An execution that ends, but by its schedule.
fn racing(scenario: Scenario, run: &Executed) -> Option<Witness> {
    let cause = cause(run.race.as_ref()?)?;
    let passes = cause.pc().map_or(0, |pc| run.passes_of(pc));
    let (schedule, basis) = (Schedule::Fair, run.basis);
    let (steps, firmness, shapes) = (run.took.steps, Firmness::Open, Shapes::All);
    Some(Witness { cause, scenario, schedule, always: true, alike: false, basis, passes, steps, firmness, shapes })
}

fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::Hangs(stuck) => Some(Cause::Hang(in_order(stuck.clone()))),
        Outcome::Undefined { fault, line, pc, rank, warp } if !fault.is_of_inputs() => {
            Some(Cause::Undefined { fault: fault.clone(), line: *line, pc: *pc, rank: *rank, warp: *warp })
        }
        Outcome::Ends | Outcome::Undefined { .. } | Outcome::Undecided { .. } => None,
    }
}
