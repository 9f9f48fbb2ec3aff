//! What an execution does, step by step, for whoever draws it.
//!
//! A recording looks at the machine after each instruction and writes down what became of it; the instructions themselves know
//! nothing of it. It may also pace the execution: work that is no synchronisation, and what is under way to an mbarrier, then
//! takes some steps, so that a ring fills and drains as it is meant to. That is one more schedule, and no measure of time.

use std::collections::BTreeMap;

use super::flights::{Brings, Flight};
use super::{Budget, Launch, Outcome, Run, Scenario, Schedule, State, Wait};
use crate::base::{IndexVec, Line};
use crate::ptx::{BarrierAction, ClusterBarrierAction};
use crate::roles::Duty;
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{InstrId, MbarrierOp, Op, Program};

/// Steps between the issue of a copy, or of a commit, and its coming.
const LATENCY: u64 = 12;
/// Marks, waits and work that are kept.
const MOST: usize = 200_000;

/// How many steps a stretch of work takes.
fn cost(duty: Duty) -> u64 {
    match duty {
        Duty::Wgmma | Duty::Mma => 10,
        Duty::Tcgen05Load | Duty::Tcgen05Store => 4,
        Duty::Store | Duty::Tcgen05Mma => 2,
        Duty::Load | Duty::CpAsync | Duty::Schedule => 0,
    }
}

/// Work of the kernel that the skeleton leaves out, by the instruction of the skeleton that it comes before or after.
#[derive(Debug, Default)]
pub struct Work {
    /// Done by whoever comes to an instruction.
    pub before: IndexVec<InstrId, Option<Duty>>,
    /// Done by whoever has passed one.
    pub after: IndexVec<InstrId, Option<Duty>>,
    /// Done by whoever comes to an instruction from the one before it in the text, and not by a branch.
    pub between: IndexVec<InstrId, Option<Duty>>,
}

/// A warp of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WarpId {
    /// The block.
    pub rank: u64,
    /// The warp in it.
    pub index: u32,
}

/// A wait: over at once, over later, or never.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// Who.
    pub warp: WarpId,
    /// Where.
    pub line: Line,
    /// For what.
    pub on: Wait,
    /// The number of the phase or the round.
    pub phase: u64,
    /// When it began.
    pub from: u64,
    /// When it was over.
    pub to: Option<u64>,
}

/// Work that took some steps.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    /// Who.
    pub warp: WarpId,
    /// What.
    pub duty: Duty,
    /// When it began.
    pub from: u64,
    /// When it was done.
    pub to: u64,
}

/// Something that a warp did to the machine, or that came for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An mbarrier is initialised.
    Init { at: SharedAddress, count: u32 },
    /// Arrivals, and bytes announced with them; an announcement alone is one without arrivals.
    Arrives { at: SharedAddress, arrivals: u32, bytes: i64 },
    /// Copies are issued; the bytes of each, where a number gives them.
    Copies { at: SharedAddress, copies: u32, bytes: Option<i64> },
    /// An arrival is asked for when what was issued before is done: `tcgen05.commit`, `cp.async.mbarrier.arrive`.
    Commits { at: SharedAddress },
    /// What was issued has come.
    Lands { at: SharedAddress },
    /// A phase of an mbarrier is over.
    Completes { at: SharedAddress, phase: u64 },
    /// Threads come to a named barrier and go on.
    ArrivesNamed { id: u64 },
    /// A round of a named barrier is over.
    CompletesNamed { id: u64, round: u64 },
    /// Threads arrive at the cluster barrier.
    ArrivesCluster,
    /// The round of the cluster barrier is over.
    CompletesCluster { round: u64 },
    /// `setmaxnreg`
    SetsRegisters { count: u32 },
    /// Columns of tensor memory are taken.
    Allocates,
    /// They are given back.
    Frees,
    /// The warp ends.
    Ends,
}

/// When, who, where, what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The step.
    pub step: u64,
    /// Who.
    pub warp: WarpId,
    /// Where; of what has come, where it was issued.
    pub line: Line,
    /// What.
    pub what: What,
}

/// Everything that an execution did.
#[derive(Debug)]
pub struct Recording {
    /// How it ended.
    pub outcome: Outcome,
    /// In the order of their beginnings.
    pub waits: Vec<Waited>,
    /// In the order of their beginnings.
    pub work: Vec<Worked>,
    /// In order.
    pub marks: Vec<Mark>,
    /// How often each instruction was passed.
    pub passes: IndexVec<InstrId, u32>,
    /// The first mbarrier at which somebody came whom another schedule counts in another phase.
    pub race: Option<SharedAddress>,
    /// What it took.
    pub took: Budget,
}

/// What of an mbarrier was seen last.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    phase: u64,
    pending: u32,
    announced: i64,
}

/// Where a lane has been.
#[derive(Clone, Copy, Default)]
struct LaneState {
    /// The instruction that it ran last.
    last: Option<InstrId>,
    /// The one that it has done the work before, and stands at.
    done: Option<InstrId>,
}

/// A wait that is not over.
struct Open {
    warp: usize,
    mask: u32,
    pc: InstrId,
    /// It ran into its time limit and will be back.
    timed_out: bool,
    /// Among the waits.
    at: usize,
}

/// What is known before an instruction.
pub(super) struct Before {
    mask: u32,
    pc: InstrId,
    guarded: u32,
    timed_out: bool,
    flights: usize,
    changes: u64,
}

/// A recording under way.
pub(super) struct Recorder {
    work: Work,
    paced: bool,
    now: u64,
    waits: Vec<Waited>,
    worked: Vec<Worked>,
    marks: Vec<Mark>,
    open: Vec<Open>,
    seen: BTreeMap<SharedAddress, Seen>,
    rounds: BTreeMap<(u64, u64), u64>,
    cluster: u64,
    /// By warp: until when it works.
    busy: Vec<u64>,
    /// By warp and lane.
    lanes: Vec<[LaneState; LANES]>,
    /// When what is under way to an mbarrier comes.
    due: BTreeMap<SharedAddress, u64>,
    ended: Vec<bool>,
}

impl Recorder {
    fn new(work: Work, paced: bool, warps: usize) -> Recorder {
        Recorder {
            work,
            paced,
            now: 0,
            waits: Vec::new(),
            worked: Vec::new(),
            marks: Vec::new(),
            open: Vec::new(),
            seen: BTreeMap::new(),
            rounds: BTreeMap::new(),
            cluster: 0,
            busy: vec![0; warps],
            lanes: vec![[LaneState::default(); LANES]; warps],
            due: BTreeMap::new(),
            ended: vec![false; warps],
        }
    }

    fn mark(&mut self, warp: WarpId, line: Line, what: What) {
        if self.marks.len() < MOST {
            self.marks.push(Mark { step: self.now, warp, line, what });
        }
    }

    /// Closes the waits of a warp that an instruction shows to be over.
    fn close(&mut self, warp: usize, mask: u32, is_over: impl Fn(&Open) -> bool) -> bool {
        let now = self.now;
        let waits = &mut self.waits;
        let mut any = false;
        self.open.retain(|open| {
            let over = open.warp == warp && open.mask & mask != 0 && is_over(open);
            if over && let Some(wait) = waits.get_mut(open.at) {
                wait.to = Some(now);
                any = true;
            }
            !over
        });
        any
    }
}

/// Executes a program once and writes down what it does.
pub fn record(
    program: &Program,
    launch: &Launch,
    scenario: Scenario,
    schedule: &Schedule,
    budget: Budget,
    (work, paced): (Work, bool),
) -> Recording {
    let mut run = Run::new(program, launch, scenario, budget);
    run.recorder = Some(Box::new(Recorder::new(work, paced, run.warps.len())));
    let outcome = run.outcome(schedule);
    let took = run.took();
    let (waits, work, marks) =
        run.recorder.map_or_else(Default::default, |found| (found.waits, found.worked, found.marks));
    Recording { outcome, waits, work, marks, passes: run.passes, race: run.unordered.map(|(at, ..)| at), took }
}

impl Run<'_> {
    /// Whether what is not synchronisation takes its steps.
    pub(super) fn is_paced(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.paced)
    }

    /// Everybody had a turn.
    pub(super) fn tick(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.now += 1;
        }
    }

    /// Whether a warp still works.
    pub(super) fn is_busy(&self, warp: usize) -> bool {
        let until = |recorder: &Recorder| recorder.busy.get(warp).is_some_and(|until| *until > recorder.now);
        self.recorder.as_deref().is_some_and(until)
    }

    /// Whether more comes when more steps have passed.
    pub(super) fn passes_time(&self) -> bool {
        let Some(recorder) = self.recorder.as_deref().filter(|recorder| recorder.paced) else { return false };
        let works = recorder.busy.iter().any(|until| *until > recorder.now);
        works || self.flights.iter().any(|flight| self.is_early(flight))
    }

    /// Whether something under way does not come yet.
    pub(super) fn is_early(&self, flight: &Flight) -> bool {
        let early = |recorder: &Recorder| recorder.due.get(&flight.at).is_some_and(|due| *due > recorder.now);
        self.recorder.as_deref().is_some_and(early)
    }

    fn id(&self, warp: usize) -> WarpId {
        self.warps.get(warp).map_or(WarpId { rank: 0, index: 0 }, |warp| WarpId { rank: warp.rank, index: warp.index })
    }

    /// Lets a strand do the work that comes before an instruction. Says whether it is busy with it now.
    pub(super) fn works(&mut self, warp: usize, strand: usize) -> bool {
        if self.recorder.is_none() {
            return false;
        }
        let Some(strand) = self.warps.get(warp).and_then(|warp| warp.strands.get(strand)).copied() else {
            return false;
        };
        let id = self.id(warp);
        let Some(recorder) = &mut self.recorder else { return false };
        self.pieces += 16 + recorder.open.len() as u64 / 4;
        recorder.close(warp, strand.mask, |open| open.pc != strand.pc && !open.timed_out);
        let at = strand.pc;
        let state = recorder.lanes.get_mut(warp).and_then(|lanes| lanes.get_mut(strand.mask.trailing_zeros() as usize));
        let Some(state) = state.filter(|state| state.done != Some(strand.pc)) else { return false };
        state.done = Some(strand.pc);
        let falls = state.last.is_some_and(|last| last.next() == strand.pc);
        let between = recorder.work.between.get(at).copied().flatten().filter(|_| falls);
        match recorder.work.before.get(at).copied().flatten().or(between) {
            Some(duty) => recorder.start(warp, id, duty),
            None => false,
        }
    }

    /// What is to be known before an instruction.
    pub(super) fn before(&self, warp: usize, strand: usize) -> Option<Before> {
        self.recorder.as_ref()?;
        let here = self.warps.get(warp)?;
        let strand = here.strands.get(strand)?;
        let guard = self.program.code.get(strand.pc).and_then(|instr| instr.guard);
        let runs = |lane: &u32| {
            guard.is_none_or(|(reg, negated)| {
                let bits = here.registers.get(reg).map_or(0, |held| held.lane(*lane as usize).bits);
                (bits & 1 == 1) != negated
            })
        };
        let guarded =
            (0..32).filter(|lane| strand.mask >> lane & 1 == 1).filter(runs).fold(0, |all, lane| all | 1 << lane);
        Some(Before {
            mask: strand.mask,
            pc: strand.pc,
            guarded,
            timed_out: strand.state == State::TimedOut,
            flights: self.flights.len(),
            changes: self.machine.changes,
        })
    }

    /// Writes down what an instruction did.
    pub(super) fn observe(&mut self, warp: usize, before: &Before) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let (id, line) = (self.id(warp), self.line(before.pc));
        let op = self.program.code.get(before.pc).map(|instr| &instr.op);
        let stands = self.warps.get(warp).and_then(|here| {
            here.strands.iter().find_map(|strand| match strand.state {
                State::Waiting { what, .. } if strand.pc == before.pc && strand.mask & before.mask != 0 => Some(what),
                _ => None,
            })
        });
        if stands.is_none() {
            let lanes = recorder.lanes.get_mut(warp).into_iter().flatten().enumerate();
            for (_, state) in lanes.filter(|(lane, _)| before.mask >> lane & 1 == 1) {
                *state = LaneState { last: Some(before.pc), done: None };
            }
        }
        if self.machine.changes != before.changes {
            self.compare(&mut recorder, id, line, false);
            self.flown(&mut recorder, id, line, before.flights);
        }
        match (stands, op) {
            // Lanes that wait for each other are no more than a warp that has not come together yet.
            (Some(Wait::Lanes { .. }), _) => {}
            (Some(on), _) => {
                let known = recorder.open.iter_mut().find(|open| open.warp == warp && open.pc == before.pc);
                match known {
                    Some(open) => open.timed_out = false,
                    None if recorder.waits.len() < MOST => {
                        let at = recorder.waits.len();
                        let phase = self.phase_of(on);
                        let from = recorder.now;
                        recorder.waits.push(Waited { warp: id, line, on, phase, from, to: None });
                        recorder.open.push(Open { warp, mask: before.mask, pc: before.pc, timed_out: false, at });
                    }
                    None => {}
                }
            }
            (None, op) => self.passed(&mut recorder, (warp, id), line, before, op),
        }
        if self.warps.get(warp).is_some_and(|warp| warp.is_done())
            && recorder.ended.get_mut(warp).is_some_and(|ended| !std::mem::replace(ended, true))
        {
            recorder.mark(id, line, What::Ends);
        }
        self.recorder = Some(recorder);
    }

    /// An instruction that did not have to wait, or no longer.
    fn passed(
        &self,
        recorder: &mut Recorder,
        (warp, id): (usize, WarpId),
        line: Line,
        before: &Before,
        op: Option<&Op>,
    ) {
        if before.timed_out {
            let open = recorder.open.iter_mut().find(|open| open.warp == warp && open.pc == before.pc);
            if let Some(open) = open {
                open.timed_out = true;
            }
            return;
        }
        let synchronises = op.is_some_and(Op::synchronises);
        let waited = recorder.close(warp, before.mask, |open| !open.timed_out || synchronises);
        let now = recorder.now;
        let at_once = |recorder: &mut Recorder, on: Wait, phase: u64| {
            if !waited && recorder.waits.len() < MOST {
                recorder.waits.push(Waited { warp: id, line, on, phase, from: now, to: Some(now) });
            }
        };
        if before.guarded == 0 {
            return;
        }
        match op {
            Some(Op::Mbarrier { op: MbarrierOp::Wait { parity, phase: asked, flipped, .. }, at }) => {
                let lane = before.guarded.trailing_zeros() as usize;
                let Some(here) = self.warps.get(warp) else { return };
                let at = SharedAddress::of(self.address(here, *at, lane).bits);
                if let Some(found) = self.machine.mbarriers.get(&at) {
                    let over = found.phase.saturating_sub(1);
                    let asked = self.word(here, *asked, lane).bits & 1 ^ u64::from(*flipped);
                    let phase = if *parity { asked } else { over };
                    at_once(recorder, Wait::Mbarrier { at, phase, parity: *parity }, over);
                }
            }
            Some(Op::Named { action, .. }) => {
                // The round that it completed, if it did.
                let over = recorder.marks.last().and_then(|mark| match mark.what {
                    What::CompletesNamed { id: number, round } if mark.warp == id && mark.step == now => {
                        Some((number, round))
                    }
                    _ => None,
                });
                if *action == BarrierAction::Arrive {
                    let number = self.named_id(warp, before);
                    recorder.mark(id, line, What::ArrivesNamed { id: number });
                } else if let Some((number, round)) = over {
                    at_once(recorder, Wait::Named { id: number, round }, round);
                }
            }
            Some(Op::Cluster { action: ClusterBarrierAction::Arrive }) => recorder.mark(id, line, What::ArrivesCluster),
            Some(Op::Cluster { action: ClusterBarrierAction::Wait }) => {
                let phase = self.machine.cluster.phase.saturating_sub(1);
                at_once(recorder, Wait::Cluster { phase }, phase);
            }
            Some(Op::SetRegisters { count, .. }) => recorder.mark(id, line, What::SetsRegisters { count: *count }),
            Some(Op::Allocate { .. }) => recorder.mark(id, line, What::Allocates),
            Some(Op::Free { .. }) => recorder.mark(id, line, What::Frees),
            _ => {}
        }
        let after = recorder.work.after.get(before.pc).copied().flatten();
        if let Some(duty) = after {
            recorder.start(warp, id, duty);
        }
    }

    fn named_id(&self, warp: usize, before: &Before) -> u64 {
        let Some(Op::Named { id, .. }) = self.program.code.get(before.pc).map(|instr| &instr.op) else {
            return 0;
        };
        let lane = before.guarded.trailing_zeros() as usize;
        self.warps.get(warp).map_or(0, |here| self.word(here, *id, lane).bits)
    }

    fn phase_of(&self, wait: Wait) -> u64 {
        match wait {
            Wait::Mbarrier { at, .. } => self.machine.mbarriers.get(&at).map_or(0, |found| found.phase),
            Wait::Named { round, .. } => round,
            Wait::Cluster { phase } => phase,
            Wait::Registers { .. } | Wait::Columns { .. } | Wait::Lanes { .. } | Wait::Warpgroup => 0,
        }
    }

    /// What changed in the machine. Of what has come, the phase that it ends is what matters.
    fn compare(&self, recorder: &mut Recorder, id: WarpId, line: Line, landed: bool) {
        let mut touched = self.machine.touched.clone();
        touched.sort_unstable();
        touched.dedup();
        for at in touched {
            let Some(found) = self.machine.mbarriers.get(&at) else { continue };
            let seen = Seen { phase: found.phase, pending: found.pending, announced: found.announced };
            let Some(old) = recorder.seen.insert(at, seen) else {
                recorder.mark(id, line, What::Init { at, count: found.count });
                continue;
            };
            if old == seen {
                continue;
            }
            let over = seen.phase != old.phase;
            let arrivals = if over { old.pending } else { old.pending.saturating_sub(seen.pending) };
            let bytes = if over { 0 } else { (seen.announced - old.announced).max(0) };
            if !landed && (arrivals > 0 || bytes > 0) {
                recorder.mark(id, line, What::Arrives { at, arrivals, bytes });
            }
            if over {
                recorder.mark(id, line, What::Completes { at, phase: old.phase });
            }
        }
        for (&(rank, number), found) in self.machine.named.range((id.rank, 0)..(id.rank + 1, 0)) {
            let old = recorder.rounds.insert((rank, number), found.rounds).unwrap_or(0);
            if found.rounds != old {
                recorder.mark(id, line, What::CompletesNamed { id: number, round: old });
            }
        }
        let cluster = self.machine.cluster.phase;
        if cluster != recorder.cluster {
            recorder.mark(id, line, What::CompletesCluster { round: recorder.cluster });
            recorder.cluster = cluster;
        }
    }

    /// What was sent under way.
    fn flown(&self, recorder: &mut Recorder, id: WarpId, line: Line, known: usize) {
        let mut sent: BTreeMap<SharedAddress, (u32, Option<i64>, bool)> = BTreeMap::new();
        for flight in self.flights.iter().skip(known) {
            let (bytes, commits) = match flight.brings {
                Brings::Bytes(bytes) => (Some(bytes), false),
                Brings::Box(_) => (None, false),
                Brings::Arrival => (None, true),
            };
            let entry = sent.entry(flight.at).or_insert((0, bytes, commits));
            entry.0 += 1;
        }
        for (at, (copies, bytes, commits)) in sent {
            let what = if commits { What::Commits { at } } else { What::Copies { at, copies, bytes } };
            recorder.mark(id, line, what);
            if recorder.paced {
                recorder.due.insert(at, recorder.now + LATENCY);
            }
        }
    }

    /// Something has come.
    pub(super) fn observe_landing(&mut self, at: SharedAddress, warp: usize, line: Line) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let id = self.id(warp);
        recorder.mark(id, line, What::Lands { at });
        self.compare(&mut recorder, id, line, true);
        self.recorder = Some(recorder);
    }
}

impl Recorder {
    /// Begins a stretch of work; says whether it takes any steps.
    fn start(&mut self, warp: usize, id: WarpId, duty: Duty) -> bool {
        let takes = if self.paced { cost(duty) } else { 0 };
        let to = self.now + takes.max(1);
        if self.worked.len() < MOST && cost(duty) > 0 {
            self.worked.push(Worked { warp: id, duty, from: self.now, to });
        }
        if let Some(busy) = self.busy.get_mut(warp) {
            *busy = self.now + takes;
        }
        takes > 0
    }
}
