//! Warps stepped through the machine.
//!
//! In: a [`Program`], a [`Launch`], a [`Scenario`] (what inputs are taken to be) and a [`Schedule`] (who goes first). Out: an
//! [`Outcome`]: it ends, it hangs and here is who waits for what, it does something that the ISA leaves undefined, or it cannot
//! be told and this line decides. Nothing is permuted that commutes: a warp runs until it changes the machine or waits.

mod barriers;
mod clock;
mod compute;
mod data;
mod flights;
pub mod footprint;
mod lanes;
mod memory;
pub mod record;
mod scenario;
mod step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::clock::{Clock, Clocks, Place};
use self::data::Data;
pub use self::data::{Broken, By, End, Race};
pub use self::data::{Misuse, Misused};
use self::flights::{Brings, Flight, Landing};
use self::footprint::Footprint;
use self::memory::Memory;
pub use self::scenario::{Brought, Input, Scenario};
use super::LANES;
use super::machine::{Columns, Equation, Fault, Machine, SharedAddress};
use super::program::{InstrId, MbarrierOp, Op, Program, Reg};
use super::value::{Basis, Lanes, Word};
use crate::base::figures::warps;
use crate::base::{IndexVec, Line};
use crate::roles::setmaxnreg;

/// Instructions that a warp may run without changing anything before others get their turn.
const QUOTA: u32 = 4_096;
/// Turns of that length in which nothing changes: whoever spins then waits for something that is not followed.
const SPINS: u32 = 8;
/// Clusters whose work whoever asks for more gets before there is none.
const CANCELED: u32 = 2;
/// How often a `try_wait` that runs into its time limit is let go on while nothing changes.
const TIMEOUTS: u32 = 3;

/// Pieces of work that a group of a witness takes, which is named, compared, kept and told.
const OF_STUCK: usize = 512;

/// What an execution may take, or took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Instructions of warps.
    pub steps: u64,
    /// What they and the machine cost: looks at a warp, a copy under way or an object, a number for each lane. Some nanoseconds each.
    pub pieces: u64,
}

/// The shape of a launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Blocks of a cluster by dimension.
    pub cluster: [u32; 3],
    /// Registers of a thread at entry, where setmaxnreg is kept.
    pub registers: Option<u32>,
}

impl Launch {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Blocks of a cluster.
    pub fn blocks(&self) -> u32 {
        self.cluster.iter().product()
    }
}

/// Who goes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Everybody in turn, copies as soon as they are issued.
    Fair,
    /// Everybody in turn, copies as late as possible.
    LateCopies,
    /// These warps of a block only when nobody else can go on.
    Lag(Vec<u32>),
    /// By lot.
    Random(u64),
}

impl Schedule {
    /// When that is: `where copies come late`.
    pub fn words(&self) -> String {
        match self {
            Schedule::Fair => "where all warps go on in turn".to_owned(),
            Schedule::LateCopies => "where copies come late".to_owned(),
            Schedule::Lag(late) => format!("where {} comes late", warps(late)),
            Schedule::Random(_) => "in one order of the warps".to_owned(),
        }
    }
}

/// What a strand of a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// A round of a named barrier.
    Named {
        /// Its number.
        id: u64,
        /// The round.
        round: u64,
    },
    /// A phase of an mbarrier.
    Mbarrier {
        /// The object.
        at: SharedAddress,
        /// The parity, or the number of the phase.
        phase: u64,
        /// Whether it is a parity.
        parity: bool,
    },
    /// The round of the cluster barrier.
    Cluster {
        /// Which.
        phase: u64,
    },
    /// Registers of the pool.
    Registers {
        /// How many it asks for.
        count: u32,
    },
    /// Columns of tensor memory.
    Columns {
        /// How many it asks for.
        count: u64,
    },
    /// Other lanes of the warp.
    Lanes {
        /// All that must come.
        mask: u32,
    },
    /// Other warps of the warpgroup, which multiply with it.
    Warpgroup,
}

impl Wait {
    /// The mbarrier that it is for.
    pub fn mbarrier(&self) -> Option<SharedAddress> {
        match self {
            Wait::Mbarrier { at, .. } => Some(*at),
            _ => None,
        }
    }
}

/// What a strand is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Waits; looked at last after so many changes of the machine.
    Waiting {
        what: Wait,
        seen: u64,
    },
    /// A wait that ran into its time limit: goes on with what it finds.
    TimedOut,
}

/// Lanes of a warp that go together.
#[derive(Clone, Copy, Debug)]
struct Strand {
    mask: u32,
    pc: InstrId,
    state: State,
}

/// A warp.
#[derive(Clone, Debug)]
pub(super) struct Warp {
    rank: u64,
    index: u32,
    lanes: u32,
    exited: u32,
    strands: Vec<Strand>,
    registers: IndexVec<Reg, Lanes>,
    /// Registers that it holds of the pool.
    held: u32,
    /// Registers that it was given or asked for last: those at entry are held in steps of eight.
    count: u32,
    /// Whether it has set their number.
    has_set: bool,
    /// What it had, and the fewer that it asked for by `setmaxnreg.inc` before it had set anything.
    asked_fewer: Option<(u32, u32)>,
    /// Lanes that arrived at the cluster barrier and have not waited.
    in_cluster: u32,
    /// The round that lanes arrived in last.
    arrived_in: u64,
    /// Those that did.
    arrived: u32,
    /// Stands for every place where it synchronised, in order.
    trace: u64,
}

impl Warp {
    fn is_done(&self) -> bool {
        self.strands.is_empty()
    }
}

/// A group of warps that stand at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The block of the cluster.
    pub rank: u64,
    /// Its warps.
    pub warps: Vec<u32>,
    /// Lanes of each that stand here.
    pub lanes: u32,
    /// Where.
    pub line: Line,
    /// The same as an instruction of the skeleton.
    pub pc: InstrId,
    /// For what.
    pub wait: Wait,
    /// What is there of it.
    pub lacks: Lack,
    /// The same in numbers.
    pub awaited: Awaited,
    /// Where the last copy for the object was issued, if there was one.
    pub copied: Option<Line>,
    /// Who brought bytes to another mbarrier, where one lacks them, at which nobody has announced any.
    pub astray: Option<Line>,
}

/// What a wait is for, and how much of it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The object, as the kernel names it: `full[2]`, `barrier 1`.
    pub object: String,
    /// The number of the phase, from 0; none for what has no phases.
    pub phase: Option<u64>,
    /// Arrivals, threads, registers a thread or columns that are there, and how many are needed.
    pub arrived: Option<(u64, u64)>,
    /// Bytes that have come, of those that were announced.
    pub bytes: Option<(i64, i64)>,
}

/// What keeps a wait from ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// Registers of the pool.
    Registers,
    /// Arrivals at an mbarrier, some of which have come; whether a phase of it is over.
    Arrivals {
        /// Whether one is.
        later: bool,
    },
    /// Bytes that were announced.
    Bytes,
    /// An announcement of bytes that have come; whether others were announced.
    Announcement {
        /// Whether they were.
        other: bool,
    },
    /// Threads at a named barrier; whether more come to it than it counts to.
    Threads {
        /// Whether they do.
        too_many: bool,
        /// How many have not come.
        missing: u32,
    },
    /// Columns of tensor memory.
    Columns,
    /// Lanes of the same warp.
    Lanes,
    /// Threads at the cluster barrier.
    Cluster,
    /// Every arrival at an mbarrier; whether a phase of it is over.
    Everything {
        /// Whether one is.
        later: bool,
    },
}

impl Executed {
    /// Whether a phase of an mbarrier is over.
    pub fn turns(&self) -> bool {
        self.phases.values().any(|phase| *phase > 0)
    }

    /// How often an instruction was passed.
    pub fn passes_of(&self, pc: InstrId) -> u32 {
        self.passes.get(pc).copied().unwrap_or(0)
    }
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every warp came to its end.
    Ends,
    /// Nobody can go on.
    Hangs(Vec<Stuck>),
    /// Somebody did what the ISA leaves undefined.
    Undefined {
        /// The rule.
        fault: Fault,
        /// Where.
        line: Line,
        /// The same as an instruction of the skeleton.
        pc: InstrId,
        /// Who.
        rank: u64,
        /// Who.
        warp: u32,
    },
    /// It cannot be told.
    Undecided {
        /// What decides.
        line: Line,
        /// Why that is not known.
        why: &'static str,
    },
}

/// An execution and what it rests on.
#[derive(Clone, Debug)]
pub struct Executed {
    /// How it ended.
    pub outcome: Outcome,
    /// The first step that another schedule counts in another phase of an mbarrier.
    pub race: Option<Outcome>,
    /// The weakest ground for any decision on the way.
    pub basis: Basis,
    /// What it took.
    pub took: Budget,
    /// What announcements say of copies by tensor maps.
    pub equations: BTreeSet<Equation>,
    /// How often each instruction of the skeleton was passed.
    pub passes: IndexVec<InstrId, u32>,
    /// By warp of the first block: what stands for everything that it synchronised by. Warps with the same play one role.
    pub traces: Vec<u64>,
    /// By mbarrier that was initialised: how many of its phases were over in the end.
    pub phases: BTreeMap<SharedAddress, u64>,
}

/// Why an execution stops before its end.
enum Stop {
    Fault(Fault, Line, usize),
    Undecided(Line, &'static str),
}

/// An execution under way.
pub(super) struct Run<'p> {
    program: &'p Program,
    launch: &'p Launch,
    scenario: Scenario,
    warps: Vec<Warp>,
    machine: Machine,
    memory: Memory,
    flights: VecDeque<Flight>,
    /// Whether a block has copied for another's mbarrier.
    copies_cross: bool,
    /// By mbarrier: who copied for it last, and where.
    copied: BTreeMap<SharedAddress, (usize, Line)>,
    /// Numbers that atomics of memory that is not followed give.
    tickets: u64,
    /// How often more work was asked for.
    cancels: u32,
    basis: Basis,
    steps: u64,
    /// Pieces of work.
    pieces: u64,
    budget: Budget,
    equations: BTreeSet<Equation>,
    passes: IndexVec<InstrId, u32>,
    clocks: Clocks,
    /// A place that warps get past when nobody can go on.
    passable: Option<InstrId>,
    /// The first step that another schedule counts in another phase: where, and whose.
    unordered: Option<(SharedAddress, Line, usize)>,
    random: u64,
    /// Where somebody wants to see what it does.
    recorder: Option<Box<record::Recorder>>,
    /// Who touched which bytes of shared memory, where that is looked at.
    data: Option<Box<Data>>,
}

/// Accesses of shared memory that nothing orders, of one execution.
#[derive(Clone, Debug)]
pub struct DataExecuted {
    /// The execution.
    pub executed: Executed,
    /// What was found, in the order of the execution.
    pub races: Vec<Race>,
    /// Accesses whose place is not known.
    pub unknown: u64,
    /// What each instruction touched.
    pub footprint: Footprint,
    /// Uses of tensor memory that are wrong.
    pub misused: Vec<Misused>,
}

/// Executes a program with data once, everybody in turn: what is not ordered is ordered by no schedule.
pub fn execute_data(program: &Program, launch: &Launch, scenario: Scenario, budget: Budget) -> DataExecuted {
    let mut run = Run::new(program, launch, scenario, budget);
    run.data = Some(Box::new(Data::new(run.warps.len(), launch.blocks() as usize)));
    // Whoever knows nothing of a warp does not know that it has started.
    (0..run.warps.len()).for_each(|warp| run.clocks.raise(warp, warp, 1));
    let mut data = None;
    let executed = finish_with(run, &Schedule::Fair, |run| {
        run.blocks_end();
        run.streams_end();
        data = run.data.take();
        if let Some(data) = &mut data {
            data.settle_boxes();
            data.settle_astray();
            let mbarriers = &run.machine.mbarriers;
            data.footprint.ends(|at| mbarriers.get(&at).map_or(0, |mbarrier| mbarrier.phase));
        }
    });
    let (races, unknown, footprint, misused) =
        data.map(|data| (data.races, data.unknown, data.footprint, data.columns.misused)).unwrap_or_default();
    DataExecuted { executed, races, unknown, footprint, misused }
}

/// Executes a program once.
pub fn execute(
    program: &Program,
    launch: &Launch,
    scenario: Scenario,
    schedule: &Schedule,
    budget: Budget,
) -> Executed {
    finish(Run::new(program, launch, scenario, budget), schedule)
}

/// Executes a program as if nobody had to wait at one instruction longer than the others can go on: does it end then?
pub fn execute_past(
    program: &Program,
    launch: &Launch,
    scenario: Scenario,
    schedule: &Schedule,
    budget: Budget,
    pc: InstrId,
) -> Executed {
    let mut run = Run::new(program, launch, scenario, budget);
    run.passable = Some(pc);
    finish(run, schedule)
}

fn finish(run: Run<'_>, schedule: &Schedule) -> Executed {
    finish_with(run, schedule, |_| {})
}

fn finish_with<'p>(mut run: Run<'p>, schedule: &Schedule, at_end: impl FnOnce(&mut Run<'p>)) -> Executed {
    let outcome = run.outcome(schedule);
    at_end(&mut run);
    let traces = run.warps.iter().filter(|warp| warp.rank == 0).map(|warp| warp.trace).collect();
    let race = run.unordered.map(|(at, line, warp)| run.undefined(Fault::Unordered(at), line, warp));
    let took = run.took();
    let phases = run.machine.mbarriers.iter().map(|(at, mbarrier)| (*at, mbarrier.phase)).collect();
    let Run { basis, equations, passes, .. } = run;
    Executed { outcome, race, basis, took, equations, passes, traces, phases }
}

impl<'p> Run<'p> {
    fn new(program: &'p Program, launch: &'p Launch, scenario: Scenario, budget: Budget) -> Self {
        let (threads, blocks) = (launch.threads(), launch.blocks());
        let mut warps = Vec::new();
        for rank in 0..u64::from(blocks) {
            for index in 0..threads.div_ceil(LANES as u32) {
                let here = (threads - index * 32).min(32);
                let lanes = if here == 32 { u32::MAX } else { (1 << here) - 1 };
                warps.push(Warp {
                    rank,
                    index,
                    lanes,
                    exited: 0,
                    strands: vec![Strand { mask: lanes, pc: InstrId::ENTRY, state: State::Ready }],
                    registers: IndexVec::filled(Lanes::default(), program.registers as usize),
                    held: launch.registers.unwrap_or(0).next_multiple_of(setmaxnreg::STEP),
                    count: launch.registers.unwrap_or(0),
                    has_set: false,
                    asked_fewer: None,
                    in_cluster: 0,
                    arrived_in: 0,
                    arrived: 0,
                    trace: 0,
                });
            }
        }
        let machine = Machine {
            pools: vec![Default::default(); blocks as usize],
            columns: vec![Columns::default(); blocks as usize],
            ..Machine::default()
        };
        Run {
            program,
            launch,
            scenario,
            clocks: Clocks::new(warps.len()),
            passable: None,
            unordered: None,
            warps,
            machine,
            memory: Memory::default(),
            flights: VecDeque::new(),
            copies_cross: false,
            copied: BTreeMap::new(),
            tickets: 0,
            cancels: 0,
            basis: Basis::Fact,
            steps: 0,
            // Registers, and what counts how often an instruction is passed.
            pieces: u64::from(program.registers) * u64::from(threads.div_ceil(LANES as u32) * blocks)
                + program.code.len() as u64 / 8,
            budget,
            equations: BTreeSet::new(),
            passes: IndexVec::filled(0, program.code.len()),
            random: 0,
            recorder: None,
            data: None,
        }
    }

    fn outcome(&mut self, schedule: &Schedule) -> Outcome {
        match self.go(schedule) {
            Ok(outcome) => outcome,
            Err(Stop::Undecided(line, why)) => Outcome::Undecided { line, why },
            Err(Stop::Fault(fault, line, warp)) => self.undefined(fault, line, warp),
        }
    }

    fn undefined(&self, fault: Fault, line: Line, warp: usize) -> Outcome {
        let (rank, warp) = self.warps.get(warp).map_or((0, 0), |warp| (warp.rank, warp.index));
        // What comes later is issued somewhere else than where its issuer is by now.
        let mut code = self.program.code.iter_enumerated();
        let pc = code.find(|(_, instr)| instr.line == line).map_or(InstrId::ENTRY, |(pc, _)| pc);
        Outcome::Undefined { fault, line, pc, rank, warp }
    }

    fn took(&self) -> Budget {
        Budget { steps: self.steps, pieces: self.pieces }
    }

    #[inline]
    fn is_spent(&self) -> bool {
        self.steps > self.budget.steps || self.pieces > self.budget.pieces
    }

    /// Counts pieces of work for a number of things.
    #[inline]
    fn looks_at(&mut self, things: usize) {
        self.pieces += things as u64;
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random = super::value::opaque(self.random, [1]);
        (self.random >> 33) as usize % below.max(1)
    }

    fn go(&mut self, schedule: &Schedule) -> Result<Outcome, Stop> {
        let lags = |warp: &Warp| matches!(schedule, Schedule::Lag(late) if late.contains(&warp.index));
        let late_copies = matches!(schedule, Schedule::LateCopies);
        if let Schedule::Random(seed) = schedule {
            self.random = *seed;
        }
        let mut order: Vec<usize> = (0..self.warps.len()).collect();
        let (mut spins, mut timeouts) = (0, 0);
        loop {
            let before = self.machine.changes;
            let mut spinning = None;
            self.tick();
            if let Schedule::Random(_) = schedule {
                for at in (1..order.len()).rev() {
                    let other = self.draw(at + 1);
                    order.swap(at, other);
                }
            }
            self.looks_at(2 * order.len() + self.flights.len());
            if self.is_spent() {
                return Err(self.spent(InstrId::ENTRY));
            }
            for &warp in &order {
                if self.warps.get(warp).is_some_and(&lags) || self.is_busy(warp) {
                    continue;
                }
                spinning = self.turn(warp, 1)?.or(spinning);
                let lands = match schedule {
                    Schedule::Random(_) => self.draw(2) == 0,
                    _ => !late_copies,
                };
                if lands {
                    self.land(&if self.is_paced() { Landing::All } else { Landing::KnownBytes })?;
                }
            }
            if self.passes_time() {
                (spins, timeouts) = (0, 0);
                continue;
            }
            if self.warps.iter().all(Warp::is_done) {
                self.land(&Landing::All)?;
                return self.settled();
            }
            if self.machine.changes != before {
                (spins, timeouts) = (0, 0);
                continue;
            }
            // Nobody of these can go on: what was held back may.
            if self.flights.iter().any(|flight| !matches!(flight.brings, Brings::Box(_))) {
                self.land(&Landing::KnownBytes)?;
                continue;
            }
            for &warp in &order {
                if self.warps.get(warp).is_some_and(&lags) {
                    spinning = self.turn(warp, 1)?.or(spinning);
                    if self.machine.changes != before {
                        break;
                    }
                }
            }
            if self.machine.changes != before || self.warps.iter().all(Warp::is_done) {
                (spins, timeouts) = (0, 0);
                continue;
            }
            if !self.flights.is_empty() {
                // Another block may still issue what belongs to the same phase: what somebody waits for comes first.
                let awaited = if self.copies_cross { self.awaited_objects() } else { BTreeSet::new() };
                let is_awaited = self.flights.iter().any(|flight| awaited.contains(&flight.at));
                self.land(&if is_awaited { Landing::To(awaited) } else { Landing::All })?;
                continue;
            }
            if let Some(line) = spinning {
                spins += 1;
                if spins > SPINS {
                    return match self.waited_for_by_all() {
                        Some(stuck) => Ok(Outcome::Hangs(stuck)),
                        None => Err(Stop::Undecided(line, "a loop here waits for something that is not followed")),
                    };
                }
                continue;
            }
            if timeouts < TIMEOUTS && self.time_out() {
                timeouts += 1;
                continue;
            }
            if self.let_pass() {
                continue;
            }
            let stuck = self.stuck();
            self.looks_at(OF_STUCK * stuck.len());
            let last = stuck.last().map_or(InstrId::ENTRY, |group| group.pc);
            return if self.is_spent() { Err(self.spent(last)) } else { Ok(Outcome::Hangs(stuck)) };
        }
    }

    /// Where those stand that wait while others go round in loops, where these will for ever: nothing changes any more, and nothing but
    /// what threads have left in shared memory, at places that are known, decided anything.
    fn waited_for_by_all(&self) -> Option<Vec<Stuck>> {
        let is_followed = self.basis < Basis::Memory && self.copied.is_empty() && !self.memory.is_open();
        Some(self.stuck()).filter(|stuck| is_followed && !stuck.is_empty())
    }

    /// Lets whoever waits at the passable place go on; says whether somebody does.
    fn let_pass(&mut self) -> bool {
        let Some(pc) = self.passable else { return false };
        let done = match self.program.code.get(pc).map(|instr| &instr.op) {
            Some(Op::Mbarrier { op: MbarrierOp::Wait { to, .. }, .. }) => *to,
            _ => None,
        };
        let mut any = false;
        for warp in &mut self.warps {
            let waiting = |strand: &&mut Strand| strand.pc == pc && matches!(strand.state, State::Waiting { .. });
            for strand in warp.strands.iter_mut().filter(waiting) {
                if let Some(held) = done.and_then(|to| warp.registers.get_mut(to)) {
                    held.write(strand.mask, Lanes::Same(Word::fact(1)));
                }
                (strand.state, strand.pc) = (State::Ready, pc.next());
                any = true;
            }
        }
        self.machine.changes += u64::from(any);
        any
    }

    /// The end of all warps: bytes that nobody has announced by then are announced by nobody.
    fn settled(&self) -> Result<Outcome, Stop> {
        let owed = self.machine.mbarriers.iter().find(|(_, mbarrier)| mbarrier.is_valid() && mbarrier.is_owed());
        match owed.and_then(|(at, _)| Some((at, self.copied.get(at)?))) {
            Some((at, (warp, line))) => Err(Stop::Fault(Fault::Unannounced(*at), *line, *warp)),
            None => Ok(Outcome::Ends),
        }
    }

    /// Something comes to an mbarrier in a phase: a warp's own step, or what it issued.
    fn comes(&mut self, at: SharedAddress, clock: &Clock, line: Line, warp: usize) {
        if !self.clocks.come(Place::Mbarrier(at), clock) && self.unordered.is_none() {
            self.unordered = Some((at, line, warp));
        }
    }

    /// Lets every wait with a time limit run into it; says whether there was one.
    fn time_out(&mut self) -> bool {
        let mut any = false;
        let code = &self.program.code;
        for strand in self.warps.iter_mut().flat_map(|warp| &mut warp.strands) {
            // Lanes that come to a barrier one by one count one by one where the others go another way.
            let apart = || {
                let op = code.get(strand.pc).map(|instr| &instr.op);
                matches!(op, Some(Op::Named { aligned: false, .. }))
            };
            let ends = match strand.state {
                State::Waiting { what: Wait::Mbarrier { .. } | Wait::Warpgroup, .. } => true,
                State::Waiting { what: Wait::Lanes { .. }, .. } => apart(),
                _ => false,
            };
            if ends {
                strand.state = State::TimedOut;
                any = true;
            }
        }
        any
    }

    /// Threads of a block that have not ended, in whole warps.
    fn alive(&self, rank: u64) -> u32 {
        32 * self.warps.iter().filter(|warp| warp.rank == rank && !warp.is_done()).count() as u32
    }

    /// Threads of the cluster that have not ended.
    fn alive_in_cluster(&self) -> u32 {
        self.warps.iter().map(|warp| (warp.lanes & !warp.exited).count_ones()).sum()
    }

    /// Who stands where, alike ones together.
    fn stuck(&self) -> Vec<Stuck> {
        let mut groups: BTreeMap<(u64, InstrId, Wait), (Vec<u32>, u32)> = BTreeMap::new();
        for warp in &self.warps {
            for strand in &warp.strands {
                let State::Waiting { what, .. } = strand.state else { continue };
                let group = groups.entry((warp.rank, strand.pc, what)).or_default();
                group.0.push(warp.index);
                group.1 = strand.mask.count_ones();
            }
        }
        let describe = |((rank, pc, wait), (warps, lanes)): ((u64, InstrId, Wait), (Vec<u32>, u32))| Stuck {
            lacks: self.lacking(rank, wait),
            awaited: self.awaited(rank, wait),
            copied: wait.mbarrier().and_then(|at| Some(self.copied.get(&at)?.1)),
            astray: wait.mbarrier().and_then(|at| self.astray(at)),
            rank,
            warps,
            lanes,
            line: self.program.code.get(pc).map_or(Line(0), |instr| instr.line),
            pc,
            wait,
        };
        groups.into_iter().map(describe).collect()
    }

    /// Who brought bytes to another mbarrier of the block, at which nobody has announced any, where one lacks just bytes.
    fn astray(&self, lacks: SharedAddress) -> Option<Line> {
        self.machine.mbarriers.get(&lacks).filter(|found| found.pending == 0 && found.bytes > 0)?;
        let others = self.machine.mbarriers.iter().filter(|(at, _)| at.rank() == lacks.rank() && **at != lacks);
        let mut owed = others.filter(|(_, other)| other.is_valid() && other.is_owed());
        let (at, _) = owed.next().filter(|_| owed.next().is_none())?;
        Some(self.copied.get(at)?.1)
    }

    fn lacking(&self, rank: u64, wait: Wait) -> Lack {
        match wait {
            Wait::Named { id, .. } => {
                let barrier = self.machine.named.get(&(rank, id));
                let came = barrier.and_then(|barrier| {
                    let expected = barrier.round?.expected?;
                    Some(32 * barrier.came.get(&Some(expected))?.count_ones() > expected)
                });
                let round = barrier.and_then(|barrier| barrier.round);
                let missing = round.map_or(0, |round| {
                    round.expected.unwrap_or_else(|| self.alive(rank)).saturating_sub(round.arrived)
                });
                Lack::Threads { too_many: came.unwrap_or(false), missing }
            }
            Wait::Mbarrier { at, .. } => match self.machine.mbarriers.get(&at) {
                Some(found) if found.pending == 0 && found.bytes > 0 => Lack::Bytes,
                Some(found) if found.pending == 0 => Lack::Announcement { other: found.announced > 0 },
                Some(found) if found.announced == 0 && found.is_owed() => Lack::Announcement { other: false },
                Some(found) if found.pending < found.count => Lack::Arrivals { later: found.phase > 0 },
                Some(found) => Lack::Everything { later: found.phase > 0 },
                None => Lack::Everything { later: false },
            },
            Wait::Cluster { .. } => Lack::Cluster,
            Wait::Registers { .. } => Lack::Registers,
            Wait::Columns { .. } => Lack::Columns,
            Wait::Lanes { .. } | Wait::Warpgroup => Lack::Lanes,
        }
    }

    /// What has come and what is missing.
    fn awaited(&self, rank: u64, wait: Wait) -> Awaited {
        match wait {
            Wait::Named { id, round } => {
                let under_way = self.machine.named.get(&(rank, id)).and_then(|barrier| barrier.round);
                let counts = under_way.map(|round| (round.arrived, round.expected.unwrap_or_else(|| self.alive(rank))));
                let arrived = counts.map(|(arrived, expected)| (u64::from(arrived), u64::from(expected)));
                Awaited { object: format!("barrier {id}"), phase: Some(round), arrived, ..Awaited::default() }
            }
            Wait::Mbarrier { at, phase, .. } => {
                let object = self.name(at);
                match self.machine.mbarriers.get(&at) {
                    Some(found) => Awaited {
                        object,
                        // Who waits for a parity waits for the phase under way, which has it.
                        phase: Some(found.phase),
                        arrived: Some((u64::from(found.count.saturating_sub(found.pending)), u64::from(found.count))),
                        bytes: (found.announced > 0 || found.bytes != 0)
                            .then_some((found.announced - found.bytes, found.announced)),
                    },
                    None => Awaited { object, phase: Some(phase), ..Awaited::default() },
                }
            }
            Wait::Cluster { phase } => Awaited {
                object: "the cluster barrier".to_owned(),
                phase: Some(phase),
                arrived: Some((u64::from(self.machine.cluster.arrived), u64::from(self.alive_in_cluster()))),
                ..Awaited::default()
            },
            Wait::Registers { count } => {
                let free =
                    self.machine.pools.get(rank as usize).and_then(|pools| pools.iter().map(|pool| pool.free).min());
                Awaited {
                    object: "registers of the pool".to_owned(),
                    arrived: free.map(|free| (u64::from(free), u64::from(count))),
                    ..Awaited::default()
                }
            }
            Wait::Columns { count } => {
                let taken = self.machine.columns.get(rank as usize).map_or(0, |columns| columns.taken);
                Awaited {
                    object: "columns of tensor memory".to_owned(),
                    arrived: Some((512u64.saturating_sub(taken), count)),
                    ..Awaited::default()
                }
            }
            Wait::Warpgroup => Awaited { object: "the other warps of the warpgroup".to_owned(), ..Awaited::default() },
            Wait::Lanes { mask } => Awaited { object: format!("the other lanes of {mask:#x}"), ..Awaited::default() },
        }
    }

    /// `full[1]`, with its block where there are several.
    fn name(&self, at: SharedAddress) -> String {
        let is_object = |place: u64| self.machine.mbarriers.contains_key(&SharedAddress::new(at.rank(), place));
        let name = self.program.name_of(at.place(), is_object);
        if self.launch.blocks() > 1 { format!("{name} of block {}", at.rank()) } else { name }
    }
}
