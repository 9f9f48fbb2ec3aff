//! One kernel executed with inputs and schedules, and what they say together.

use super::super::equations::{GRAIN, contradiction, is_uneven};
use super::super::execute::{
    Budget, Executed, Input, Lack, Launch, Outcome, Scenario, Schedule, Stuck, execute, execute_past,
};
use super::super::machine::{Fault, SharedAddress};
use super::super::program::{Bytes, Instr, InstrId, MbarrierOp, Op, Program, Source};
use super::super::value::Basis;
use super::super::witness::{Cause, Firmness, Shapes, Witness};
use super::Verdict;
use super::inputs::{ANY, Choice, EVEN, EVENLY, FEW, MEMORY, MORE_LOTS, ROUNDS, SEVERAL_TILES, TILES};
use super::limits::Limits;
use super::problems::{steps_of, suspects};
use crate::base::{Line, work};
use std::collections::BTreeMap;

/// Blocks of a cluster that is no small one.
pub(super) const LARGE: u32 = 8;

/// Roles that are held back, one after the other.
const MOST_ROLES: usize = 8;

/// Registers of all warps together: 24 bytes each.
const MOST_REGISTERS: u64 = 2_000_000;

/// Why inputs decide nothing.
pub(super) const NOT_MADE_FOR: &str = "these inputs are none that the kernel is made for";
/// Why a shape decides nothing: it has too few blocks.
pub(super) const OTHER_SHAPE: &str = "clusters of this shape are none that the kernel is made for";

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
pub(super) struct Courses {
    kind: Option<std::mem::Discriminant<Input>>,
    last: Option<(Vec<u64>, bool)>,
    /// Inputs one after the other that took the last course.
    times: u32,
}

impl Courses {
    /// Inputs of a kind that are tried, where all take the same course.
    const ENOUGH: u32 = 3;

    /// Whether inputs of this kind are known.
    pub(super) fn are_known(&self, input: Input) -> bool {
        self.kind == Some(std::mem::discriminant(&input)) && self.times >= Courses::ENOUGH
    }

    pub(super) fn add(&mut self, input: Input, run: &Executed) {
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
pub(super) struct Judge<'p> {
    program: &'p Program,
    limits: Limits,
    inputs: Choice,
    spent: u64,
    pieces: u64,
    /// What was spent before the launch that is looked at.
    before: u64,
}

impl<'p> Judge<'p> {
    pub(super) fn new(program: &'p Program, limits: Limits) -> Self {
        Judge { program, limits, inputs: ANY, spent: 0, pieces: 0, before: 0 }
    }

    pub(super) fn run(&mut self, launch: &Launch, scenario: Scenario, schedule: &Schedule, steps: u64) -> Executed {
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

    pub(super) fn took(&self) -> Budget {
        Budget { steps: self.spent, pieces: self.pieces }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent > self.before + self.limits.total || self.is_over()
    }

    /// Whether nothing more is tried.
    fn is_over(&self) -> bool {
        self.spent > self.limits.again || self.pieces > self.limits.pieces
    }

    /// Whether what goes wrong in a launch of one shape goes wrong in one of another; none where it may end there.
    pub(super) fn goes_wrong_in(&mut self, launch: &Launch, witness: &Witness) -> Option<bool> {
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
    pub(super) fn fitting(&mut self, launches: &[Launch]) -> Option<usize> {
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
    pub(super) fn launch(&mut self, launch: &Launch) -> Verdict {
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
        // Less than a tile is no work for a kernel that counts in whole ones; one that gets past with some of them counts otherwise.
        if by_tiles && past && !self.gets_past_with_few(launch, witness) {
            return Firmness::Refuted;
        }
        firm_if(!is_open && shown && (mixed || of_counts && witness.basis == Basis::Input))
    }

    /// Whether a kernel comes past where a fault shows with some counts that are less than a tile.
    fn gets_past_with_few(&mut self, launch: &Launch, witness: &Witness) -> bool {
        FEW.into_iter().any(|input| {
            let scenario = Scenario { input, ..witness.scenario };
            !self.is_over() && {
                let run = self.run(launch, scenario, &witness.schedule, u64::MAX);
                run.outcome == Outcome::Ends && witness.is_come_to_by(&run)
            }
        })
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

/// An execution that ends, but by its schedule.
pub(super) fn racing(scenario: Scenario, run: &Executed) -> Option<Witness> {
    let cause = cause(run.race.as_ref()?)?;
    let passes = cause.pc().map_or(0, |pc| run.passes_of(pc));
    let (schedule, basis) = (Schedule::Fair, run.basis);
    let (steps, firmness, shapes) = (run.took.steps, Firmness::Open, Shapes::All);
    Some(Witness { cause, scenario, schedule, always: true, alike: false, basis, passes, steps, firmness, shapes })
}

pub(super) fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::Hangs(stuck) => Some(Cause::Hang(in_order(stuck.clone()))),
        Outcome::Undefined { fault, line, pc, rank, warp } if !fault.is_of_inputs() => {
            Some(Cause::Undefined { fault: fault.clone(), line: *line, pc: *pc, rank: *rank, warp: *warp })
        }
        Outcome::Ends | Outcome::Undefined { .. } | Outcome::Undecided { .. } => None,
    }
}
