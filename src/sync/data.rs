//! Data in shared memory: whether everything that touches the same bytes is ordered.
//!
//! In: a function whose barriers end. Out: findings with both ends of an access that nothing orders. The kernel is executed with
//! its accesses once, or until they are reached; who is ordered by one schedule is ordered by all.

mod places;

use std::collections::BTreeSet;

use super::execute::footprint::{MemoryKind, Together, Touched};
use super::execute::{
    Broken, Brought, Budget, By, DataExecuted, End, Input, Launch, Misuse, Misused, Outcome, Race, Scenario,
    execute_data,
};
use super::program::{Access, DataOp, InstrId, Op, Program, Stream};
use super::value::Basis;
use super::verdict::{Effort, Limits, Verdict};
use super::{Checked, LANES};
use crate::base::{FastMap, Line, work};
use crate::ptx::{Function, Instruction, MbarrierAction, Module, Operation, Tcgen05};
use crate::simt::{BlockSize, Graph, Site};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::parting;
use crate::sync::rules::rule::Rule;

/// What parameters are taken to be, until every access is reached: trips of a ring, then extents that are divided into tiles.
const INPUTS: [Input; 4] = [Input::All(5), EXTENTS, Input::Mixed(1), Input::All(1)];
/// Extents that are divided into many tiles.
const EXTENTS: Input = Input::All(1152);
/// What they are taken to be once more where the first comes to every access, and to none of a loop twice, or shows something and does
/// not come to some: an extent of several tiles.
const TILES: Input = Input::All(384);
/// What they are taken to be once more where the first shows something: as many trips of a loop, but for whole rounds of one that a
/// compiler unrolled four times.
const AGAIN: Input = Input::All(9);
/// Executions at most, but for that one.
const MOST_RUNS: usize = 2;
/// Steps and pieces of all executions of one kernel.
const MOST: Budget = Budget { steps: 60_000, pieces: 2_500_000 };

/// What is laid aside of them for that one: what a loop shows, its first turns show.
const ASIDE: Budget = Budget { steps: 20_000, pieces: 800_000 };

/// What is wrong with how a kernel's threads share data.
pub fn check(
    function: &Function<'_, '_>,
    graph: &Graph<'_>,
    size: BlockSize,
    executed: Option<&Checked>,
) -> (Vec<Finding>, Option<DataTouched>) {
    // Where its barriers are wrong nothing follows for data; but who does not wait for what is copied or multiplied is overtaken by the
    // phases of its mbarriers for that reason.
    let is_overtaken = executed.and_then(|checked| checked.finding.as_ref()).is_some_and(|found| {
        matches!(found.rule, Rule::PhaseToCome | Rule::NoMoreArrivals) && found.confidence > Confidence::Possible
    });
    // Inputs that do not share a hang that is only possible may be all that the kernel gets: those that end say how it shares data.
    let may_end = executed.and_then(|checked| checked.finding.as_ref()).is_some_and(|found| {
        found.confidence == Confidence::Possible && executed.is_some_and(|checked| checked.may_end())
    });
    let launch = match executed {
        Some(checked) if matches!(checked.verdict, Verdict::Wrong(_)) && !is_overtaken && !may_end => {
            return (Vec::new(), None);
        }
        Some(checked) => checked.launch.clone(),
        None => Launch { block: size.dimensions, cluster: [1, 1, 1], registers: None },
    };
    let Some(program) = Program::with_data(function, graph).filter(|program| program.refused.is_none()) else {
        return (Vec::new(), None);
    };
    // What cannot be told of its barriers leaves what one execution touches.
    let is_told =
        is_overtaken || may_end || executed.is_none_or(|checked| matches!(checked.verdict, Verdict::Ends { .. }));
    let limits = Limits::of_share(function.body().len(), function.module().statements().len(), Effort::Usual);
    let share =
        |most: u64| (u128::from(most) * u128::from(limits.pieces) / u128::from(Limits::default().pieces)) as u64;
    let mut left = Budget { steps: share(MOST.steps), pieces: share(MOST.pieces) };
    let touches = |at: &InstrId| program.code.get(*at).is_some_and(|instr| touches_data(&instr.op));
    let mut unreached: Vec<InstrId> = program.code.ids().filter(touches).collect();
    let mut runs: Vec<DataExecuted> = Vec::new();
    let mut is_cut = false;
    let mut all = Gathered::default();
    let mut places: Vec<places::Run> = Vec::new();
    let given_back = gives_back(graph);
    let warps = u64::from(launch.threads().div_ceil(LANES as u32).max(1)) * u64::from(launch.blocks());
    let turns = Turns { warps, in_loops: in_loops(&program, graph) };
    let [first, others @ ..] = INPUTS;
    for input in [first, AGAIN, TILES].into_iter().chain(others) {
        // What nothing depends on is not varied.
        let decided = runs.iter().all(|run| run.executed.basis == Basis::Fact) && !runs.is_empty();
        let shows = runs.iter().any(|run| !run.races.is_empty())
            || places.iter().any(|run| places::is_suspicious(&program, run, given_back));
        let unturned = unreached.is_empty() && !runs.iter().any(|run| turns.has_turned(run));
        let open = shows || !unreached.is_empty() || unturned;
        if decided || !open || runs.len() >= MOST_RUNS + usize::from(shows) {
            break;
        }
        let has_no_work = shows && !unreached.is_empty();
        // Of inputs some of which hang, those are looked for that end.
        let none_ends = may_end && runs.is_empty();
        if !none_ends && (input == AGAIN && !shows || input == TILES && !unturned && !has_no_work) {
            continue;
        }
        work::check_time();
        if shows && matches!(input, AGAIN | TILES) {
            left.steps += share(ASIDE.steps);
            left.pieces += share(ASIDE.pieces);
        }
        let mut run = execute_data(&program, &launch, Scenario { input, memory: Brought::All(0) }, left);
        left.steps = left.steps.saturating_sub(run.executed.took.steps);
        left.pieces = left.pieces.saturating_sub(run.executed.took.pieces);
        if may_end && run.executed.outcome != Outcome::Ends {
            // Where a copy went that nobody had announced for that mbarrier is what keeps others waiting.
            let mut misused = std::mem::take(&mut run.misused);
            misused.retain(|found| matches!(found.misuse, Misuse::Astray { .. }));
            places.push(places::Run { misused, ..places::Run::default() });
            continue;
        }
        let (touched, columns_held, phases) = std::mem::take(&mut run.footprint).into_touched();
        all.add(&touched, columns_held, phases);
        let mut misused = std::mem::take(&mut run.misused);
        misused.retain(|found| is_left_at_work(&program, graph, found));
        places.push(places::Run { touched, columns_held, misused });
        unreached.retain(|at| run.executed.passes.get(*at) == Some(&0));
        // Where its barriers are known to end, what was found before the budget was spent stands.
        is_cut = left.steps == 0 || left.pieces == 0;
        if !is_told {
            break;
        }
        if run.executed.outcome == Outcome::Ends || is_cut || is_overtaken {
            runs.push(run);
        }
        if is_cut {
            // What large extents alone have shown, smaller ones show as well, or it does not stand.
            let shown = runs.iter().filter(|run| !run.races.is_empty()).count();
            if shown == 1 && input == EXTENTS {
                let left = Budget { steps: share(ASIDE.steps), pieces: share(ASIDE.pieces) };
                runs.push(execute_data(&program, &launch, Scenario { input: TILES, memory: Brought::All(0) }, left));
            }
            break;
        }
    }
    let is_guessed = program.uses_cluster && function.header().required_cluster().is_none();
    let module = function.module();
    let telling = Telling { program: &program, graph, module, launch: &launch, is_guessed, is_cut, turns };
    let mut findings = telling.findings(&runs);
    if is_overtaken {
        let is_of_work =
            |rule| matches!(rule, Rule::FreeToFill | Rule::CopyAwaited | Rule::ReadAwaited | Rule::TensorOrdered);
        findings.retain(|found| is_of_work(found.rule));
    }
    if is_told && function.header().required_cluster().is_some() {
        findings.extend(telling.half_a_pair(&runs));
    }
    if is_told {
        let known = |found: &Finding| !is_guessed || found.rule != Rule::WithinCluster;
        findings.extend(places::findings(&program, &places, given_back).into_iter().filter(known));
    }
    let touched = DataTouched { touched: all.touched, columns_held: all.columns_held, phases: all.phases, program };
    (findings, (!(is_overtaken || may_end && runs.is_empty())).then_some(touched))
}

/// Whether lanes that end where others of their warp meet have something to do on their way: who has nothing is not waited for.
fn is_left_at_work(program: &Program, graph: &Graph<'_>, found: &Misused) -> bool {
    let Misuse::Left { at, .. } = found.misuse else { return true };
    let block = |pc: InstrId| program.sites.get(pc).and_then(|site| graph.sites.get(*site)).map(|site| site.block);
    block(at).zip(block(found.pc)).is_some_and(|(from, home)| parting::go_elsewhere(graph, from, home))
}

/// Whether a kernel uses the memory of mbarriers for something else.
fn gives_back(graph: &Graph<'_>) -> bool {
    graph.sites.iter().any(|site| match site.operation {
        Operation::Mbarrier(mbarrier) => mbarrier.action == MbarrierAction::Inval,
        _ => false,
    })
}

/// What of a kernel's data is touched in loops.
fn in_loops(program: &Program, graph: &Graph<'_>) -> Vec<InstrId> {
    let lines: BTreeSet<Line> = graph
        .sites
        .iter_enumerated()
        .filter(|(index, _)| graph.is_in_a_loop(*index))
        .map(|(_, site)| site.line())
        .collect();
    let is_within = |at: &InstrId| {
        program.code.get(*at).is_some_and(|instr| touches_data(&instr.op) && lines.contains(&instr.line))
    };
    program.code.ids().filter(is_within).collect()
}

/// Whether executions come to what is in loops more than once.
struct Turns {
    /// Warps of the cluster.
    warps: u64,
    in_loops: Vec<InstrId>,
}

impl Turns {
    fn is_turned(&self, run: &DataExecuted, at: InstrId) -> bool {
        u64::from(run.executed.passes_of(at)) > self.warps
    }

    /// Whether there is no loop that an execution goes through once alone.
    fn has_turned(&self, run: &DataExecuted) -> bool {
        self.in_loops.iter().all(|at| self.is_turned(run, *at))
    }
}

fn touches_data(op: &Op) -> bool {
    matches!(op, Op::Data(_) | Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } | Op::Copy { .. })
}

/// What a kernel's instructions touched when it was executed with its data.
pub struct DataTouched {
    /// By instruction and operand.
    pub touched: Vec<Touched>,
    /// Columns of tensor memory that a block held at once, at most.
    pub columns_held: u64,
    /// Copies that phases of mbarriers waited for.
    pub phases: BTreeSet<Together>,
    /// What was executed.
    pub program: Program,
}

/// What several executions touched: of each instruction what the one shows that comes to most of it.
#[derive(Default)]
struct Gathered {
    touched: Vec<Touched>,
    index: FastMap<(InstrId, u8, MemoryKind, Access), usize>,
    columns_held: u64,
    phases: BTreeSet<Together>,
}

impl Gathered {
    fn add(&mut self, touched: &[Touched], columns: u64, phases: Vec<Together>) {
        self.columns_held = self.columns_held.max(columns);
        self.phases.extend(phases);
        for found in touched {
            let key = (found.pc, found.operand, found.memory, found.access);
            match self.index.get(&key).and_then(|at| self.touched.get_mut(*at)) {
                Some(known) if (known.returned, known.spans.len()) < (found.returned, found.spans.len()) => {
                    *known = found.clone()
                }
                Some(_) => {}
                None => {
                    self.index.insert(key, self.touched.len());
                    self.touched.push(found.clone());
                }
            }
        }
    }
}

/// What it takes to tell a race.
struct Telling<'p, 'a> {
    program: &'p Program,
    graph: &'p Graph<'a>,
    module: &'p Module<'a>,
    launch: &'p Launch,
    /// Whether the shape of the cluster was guessed.
    is_guessed: bool,
    /// Whether the budget was spent: other inputs were not tried.
    is_cut: bool,
    /// How often executions come to what is in loops.
    turns: Turns,
}

/// The rule that a race breaks.
fn rule_of(race: &Race, launch: &Launch) -> Rule {
    if race.at.rank() >= u64::from(launch.blocks()) {
        return Rule::TensorOrdered;
    }
    match (race.broken, race.first.by, race.first.access, race.second.by) {
        (Broken::Fence, ..) => Rule::ProxyFenced,
        (Broken::End, By::CpAsync, ..) => Rule::CopiesWaitedFor,
        (Broken::End, By::Wgmma, ..) => Rule::WgmmaWaitedFor,
        (Broken::End, ..) => Rule::ReadBeforeEnd,
        (Broken::Group, ..) => Rule::CopiesCommitted,
        (Broken::Start | Broken::Gone, ..) => Rule::PeerRuns,
        (Broken::Lanes, ..) => Rule::LanesMeet,
        (_, By::Threads | By::Allocation, _, By::Threads | By::Allocation) => Rule::Ordered,
        (_, By::CpAsync | By::Copy | By::Sent, Access::Write | Access::Atomic, _) => Rule::CopyAwaited,
        (_, By::Threads, ..) => Rule::FreeToFill,
        _ => Rule::ReadAwaited,
    }
}

impl Telling<'_, '_> {
    /// One finding for each rule, of the first pair that breaks it.
    fn findings(&self, runs: &[DataExecuted]) -> Vec<Finding> {
        let mut told: Vec<(Rule, Race, usize)> = Vec::new();
        for race in runs.iter().flat_map(|run| &run.races).filter(|race| self.is_firm(race, runs)) {
            let rule = rule_of(race, self.launch);
            // Whoever waits for nothing reads before a copy and after it: the wait is missing, not the barrier before the copy.
            let turned = |other: &Race| other.first.pc == race.second.pc && other.second.pc == race.first.pc;
            if rule == Rule::FreeToFill && runs.iter().flat_map(|run| &run.races).any(turned) {
                continue;
            }
            match told.iter_mut().find(|(other, ..)| *other == rule) {
                Some((_, first, others)) => {
                    *others += usize::from((first.first.pc, first.second.pc) != (race.first.pc, race.second.pc));
                }
                None => told.push((rule, *race, 0)),
            }
        }
        let unknown: u64 = runs.iter().map(|run| run.unknown).max().unwrap_or(0);
        let left_out = match unknown {
            0 => String::new(),
            count => format!("; {count} accesses have no known place and were left out"),
        };
        let finding = |(rule, race, others): (Rule, Race, usize)| {
            let mut finding = self.finding(rule, &race, others);
            finding.reasoning += &left_out;
            finding
        };
        told.into_iter().map(finding).collect()
    }

    /// Whether a race shows with all inputs that lead to both of its ends.
    fn is_firm(&self, race: &Race, runs: &[DataExecuted]) -> bool {
        let pcs = |race: &Race| (race.first.pc.min(race.second.pc), race.first.pc.max(race.second.pc));
        let same = |other: &Race| pcs(other) == pcs(race) && other.broken == race.broken;
        let ends = [race.first.pc, race.second.pc];
        let shows = |run: &&DataExecuted| run.races.iter().any(same);
        let turned = |run: &DataExecuted| ends.iter().all(|end| self.turns.is_turned(run, *end));
        // Counts of trips that were tried to their end say more than one that was not: a tail may be wrong.
        let in_trips = |run: &&DataExecuted| shows(run) && turned(run) && run.executed.outcome == Outcome::Ends;
        let by_trips = runs.iter().filter(in_trips).count() > 1;
        // What one turn of a loop leaves to the next, an execution that goes through it once does not show.
        let needs_turns = runs.iter().filter(shows).all(turned);
        // That a block is gone shows at the end alone.
        let tells = |run: &DataExecuted| race.broken != Broken::Gone || run.executed.outcome == Outcome::Ends;
        let reaches = |run: &&DataExecuted| {
            tells(run)
                && ends.iter().all(|end| run.executed.passes_of(*end) > 0)
                && (turned(run) || !needs_turns)
                && (run.executed.outcome == Outcome::Ends || !by_trips)
        };
        // Less than a tile may be no work: what one with work did not come to its end of is not told by those without.
        let comes_to_more = |run: &DataExecuted| {
            let is_new = |at: InstrId| {
                run.executed.passes_of(at) > 0 && !runs.iter().filter(shows).any(|run| run.executed.passes_of(at) > 0)
            };
            self.program.code.iter_enumerated().any(|(at, instr)| touches_data(&instr.op) && is_new(at))
        };
        if runs.iter().any(|run| run.executed.outcome != Outcome::Ends && comes_to_more(run)) {
            return false;
        }
        // Where not all inputs were tried to their end, two that show it stand for the others.
        let is_tried = !self.is_cut || runs.iter().filter(shows).count() > 1;
        let most = if is_tried { Basis::Input } else { Basis::Fact };
        race.basis <= most && runs.iter().filter(reaches).all(|run| shows(&run))
    }

    /// Tensor memory of a pair of blocks that some blocks of the cluster do not come to allocate.
    fn half_a_pair(&self, runs: &[DataExecuted]) -> Option<Finding> {
        let in_pairs = |at: &InstrId| {
            let site = self.program.sites.get(*at).and_then(|index| self.graph.sites.get(*index));
            let allocates = |site: &Site<'_>| {
                matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Alloc, cta_group: Some(2) })
            };
            site.is_some_and(allocates)
        };
        let allocs: Vec<InstrId> = self.program.code.ids().filter(in_pairs).collect();
        let first = self.program.code.get(*allocs.first()?)?;
        let blocks = self.launch.blocks();
        let came = |run: &DataExecuted| allocs.iter().map(|at| run.executed.passes_of(*at)).sum::<u32>();
        let lacks = |run: &&DataExecuted| run.executed.outcome == Outcome::Ends && (1..blocks).contains(&came(run));
        let run = runs.iter().find(lacks).filter(|_| runs.iter().all(|run| came(run) < blocks))?;
        Some(Finding {
            rule: Rule::OneWarpAllocates,
            confidence: Confidence::Likely,
            line: first.line,
            message: format!("{} of {blocks} blocks come to tcgen05.alloc.cta_group::2", came(run)),
            reasoning:
                "a warp of each block of a pair allocates for both: the one that comes waits for that of the other"
                    .to_owned(),
        })
    }

    /// Whether the kernel has groups of bulk stores, and waits for them.
    fn has_groups(&self) -> bool {
        let has = |wanted: fn(&DataOp) -> bool| {
            self.program.code.iter().any(|instr| matches!(&instr.op, Op::Data(op) if wanted(op)))
        };
        has(|op| matches!(op, DataOp::CommitGroup(Stream::Bulk)))
            && has(|op| matches!(op, DataOp::WaitGroup(Stream::Bulk, _)))
    }

    fn line(&self, end: &End) -> Line {
        self.program.code.get(end.pc).map_or(Line(0), |instr| instr.line)
    }

    /// `line 41 (st.shared.f32, warp 2)`
    fn end(&self, end: &End) -> String {
        let line = self.line(end);
        // A line may have several instructions, as inline assembly writes them: the one meant names an address, or is a wgmma, whose
        // matrices descriptors name.
        let on_line =
            || self.graph.sites.iter().filter(|site| site.line() == line).map(|site| site.located.instruction);
        let touches = |found: &Instruction<'_>| {
            found.mnemonic() == "wgmma" || found.operands().any(|operand| operand.address().is_some())
        };
        let opcode = on_line().find(touches).or_else(|| on_line().next()).map_or("", |found| found.opcode());
        let warps = self.launch.threads().div_ceil(LANES as u32).max(1) as usize;
        let warp = end.warp % warps;
        let block = match self.launch.blocks() {
            0 | 1 => String::new(),
            _ => format!(" of block {}", end.warp / warps),
        };
        format!("line {} ({opcode}, warp {warp}{block})", self.module.number_of(line))
    }

    fn finding(&self, rule: Rule, race: &Race, others: usize) -> Finding {
        let verb = |end: &End| match end.access {
            Access::Read => "reads",
            Access::Write => "writes",
            Access::Atomic => "changes",
        };
        let place = match rule {
            Rule::TensorOrdered => format!("column {} of tensor memory", race.at.place() / 16),
            _ => self.program.name_of(race.at.place(), |_| false),
        };
        let (first, second) = (self.end(&race.first), self.end(&race.second));
        let (does, did) = (verb(&race.second), verb(&race.first));
        let (message, missing) = match rule {
            Rule::FreeToFill => (
                format!("{second} {does} {place} while {first} may not be done with it"),
                "a barrier, or an arrival after that access, has to come before the copy is issued",
            ),
            Rule::ProxyFenced => (
                format!("{second} {does} {place}, which {first} {did}: no fence.proxy.async comes between"),
                "whoever wrote runs it before the barrier or the arrival",
            ),
            Rule::CopyAwaited => {
                let missing = match race.first.by {
                    By::CpAsync => {
                        "a cp.async.wait_group of the copying threads has to cover it, and a barrier has to follow for others"
                    }
                    _ => "the phase of its mbarrier has to be waited for, in a loop until it is over",
                };
                (format!("{second} {does} {place} before {first}, which {did} it, is waited for"), missing)
            }
            Rule::ReadAwaited => {
                let missing = match race.first.by {
                    By::Wgmma => "wgmma.wait_group has to cover it before the bytes are given back",
                    By::Tcgen05 => "tcgen05.commit has to give the bytes back, and its mbarrier has to be waited for",
                    By::BulkStore => {
                        "the thread that issued it has to run cp.async.bulk.wait_group.read before the bytes are given back"
                    }
                    _ => "what completes it has to be waited for",
                };
                (format!("{second} {does} {place} while {first} may still read it"), missing)
            }
            Rule::ReadBeforeEnd => (
                format!("the block can end while {first} still reads {place}"),
                "the thread that issued it has to run cp.async.bulk.wait_group.read before it ends",
            ),
            Rule::CopiesWaitedFor => (
                format!("the block can end while {first} still writes {place}"),
                "cp.async.wait_group 0, or cp.async.wait_all, has to come before the end",
            ),
            Rule::WgmmaWaitedFor => (
                format!("the block can end while {first} still multiplies"),
                "wgmma.wait_group 0 has to come before the end",
            ),
            Rule::CopiesCommitted => (
                format!("{first} is in no group when its thread ends: no wait covers it"),
                "the thread that issued it has to run cp.async.bulk.commit_group, and the wait for it: others commit and wait for \
                 their own",
            ),
            Rule::PeerRuns if race.broken == Broken::Start => (
                format!("{second} {does} {place} of block {}, which may not have started", race.at.rank()),
                "a cluster barrier has to come before",
            ),
            Rule::PeerRuns => (
                format!("{second} {does} {place} of block {}, which may have ended", race.at.rank()),
                "a cluster barrier has to come after, before the blocks end",
            ),
            Rule::TensorOrdered => {
                let stream = self.program.code.get(race.first.pc).map(|instr| &instr.op);
                let missing = match stream {
                    Some(Op::Data(DataOp::Columns { stream: Stream::TensorLoad, .. })) => {
                        "tcgen05.wait::ld, and a barrier or an arrival that is waited for, have to come between"
                    }
                    Some(Op::Data(DataOp::Columns { stream: Stream::TensorStore, .. })) => {
                        "tcgen05.wait::st, and a barrier or an arrival that is waited for, have to come between"
                    }
                    _ => "tcgen05.commit, and a wait for the mbarrier that it arrives at, have to come between",
                };
                (format!("{second} uses {place} before {first} is over there"), missing)
            }
            Rule::LanesMeet => (
                format!("{second} {does} {place}, which another lane of the warp {did} at {first}"),
                "lanes go on by themselves: bar.warp.sync has to come between",
            ),
            _ => (
                format!("{second} {does} {place}, which {first} {did}: no barrier orders the two"),
                "both are executed in either order",
            ),
        };
        let more = match others {
            0 => String::new(),
            1 => "; one other pair of lines is alike".to_owned(),
            others => format!("; {others} other pairs of lines are alike"),
        };
        let handed =
            race.handed.and_then(|at| self.program.code.get(at)).map(|instr| self.module.number_of(instr.line));
        let is_early = race.handed == Some(race.first.pc);
        let by_groups = race.first.by == By::CpAsync;
        let handed = match (rule, handed) {
            (Rule::CopyAwaited, Some(line)) if by_groups => {
                format!("; line {line} waits, and leaves the group of this copy under way")
            }
            (Rule::CopyAwaited, Some(line)) => {
                format!("; line {line} asks whether it is over, and goes on if it is not")
            }
            (Rule::TensorOrdered, _) if is_early => "; nothing has been multiplied or stored there yet".to_owned(),
            (Rule::ReadAwaited | Rule::FreeToFill | Rule::TensorOrdered, Some(line)) => {
                format!("; line {line} gives it back, and comes too early")
            }
            (Rule::Ordered, Some(line)) => format!("; line {line} tells of it, and is relaxed"),
            _ => String::new(),
        };
        // What ends too early is at fault where it is issued; what hands over too early, or waits for too little, where that is.
        let ends = race.broken == Broken::End || rule == Rule::CopiesCommitted;
        let is_at_fault = match rule {
            Rule::ReadAwaited | Rule::FreeToFill | Rule::TensorOrdered | Rule::Ordered => true,
            Rule::CopyAwaited => by_groups,
            _ => false,
        };
        let at_fault = race.handed.and_then(|at| self.program.code.get(at)).filter(|_| is_at_fault && !ends);
        // The address that an allocation leaves is read too early, whichever comes first.
        let is_of_allocation = race.second.by == By::Allocation && race.first.by == By::Threads;
        let line = match at_fault {
            Some(instr) => instr.line,
            None => self.line(if ends || is_of_allocation { &race.first } else { &race.second }),
        };
        let reasoning = format!("{missing}{handed}{more}");
        let warps = self.launch.threads().div_ceil(LANES as u32).max(1) as usize;
        let crosses = rule == Rule::PeerRuns || race.first.warp / warps != race.second.warp / warps;
        let confidence = match rule {
            // Kernels of every kind end so, and an H200 keeps the memory until it has been read.
            Rule::ReadBeforeEnd => Confidence::Possible,
            // Nor does one that has no groups mean to wait.
            Rule::CopiesCommitted if !self.has_groups() => Confidence::Possible,
            _ if crosses && self.is_guessed => Confidence::Possible,
            _ => Confidence::Likely,
        };
        Finding { rule, confidence, line, message, reasoning }
    }
}

#[cfg(test)]
mod tests;
