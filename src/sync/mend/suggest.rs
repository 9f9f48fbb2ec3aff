//! Which changes are worth trying: what counters say at the end of an execution that goes wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::Change;
use crate::base::{Line, work};
use crate::roles::setmaxnreg;
use crate::sync::execute::record::{Mark, Recording, Waited, WarpId, What};
use crate::sync::execute::{Lack, Stuck, Wait};
use crate::sync::machine::{Fault, SharedAddress};
use crate::sync::program::{Compute, InstrId, MbarrierOp, Op, Program, Source};
use crate::sync::witness::Cause;

/// Changes that are tried.
const MOST_TRIED: usize = 96;
/// Looks that a suggestion is as good as.
const OF_SUGGESTION: u64 = 16;
/// Warps of threads that a barrier counts in.
pub(super) const WARP: u64 = 32;

/// A change that may mend, of one instruction or of several alike.
pub(super) type Candidate = (Vec<InstrId>, Change);

/// What counters say of what may be wrong.
pub(super) struct Suggestions<'p> {
    pub program: &'p Program,
    pub recording: &'p Recording,
    /// Marks of what is done to an mbarrier, by object: executions have many times as many marks as there are questions of one.
    by_object: BTreeMap<SharedAddress, Vec<&'p Mark>>,
    /// Marks of objects that are initialised, in order.
    inits: Vec<&'p Mark>,
}

impl<'p> Suggestions<'p> {
    pub fn new(program: &'p Program, recording: &'p Recording) -> Self {
        let mut by_object: BTreeMap<SharedAddress, Vec<&Mark>> = BTreeMap::new();
        for mark in &recording.marks {
            if let What::Init { at, .. } | What::Arrives { at, .. } | What::Commits { at } | What::Copies { at, .. } =
                mark.what
            {
                by_object.entry(at).or_default().push(mark);
            }
        }
        let inits = recording.marks.iter().filter(|mark| matches!(mark.what, What::Init { .. })).collect();
        Suggestions { program, recording, by_object, inits }
    }
}

impl Suggestions<'_> {
    /// As many as are tried, each once.
    pub fn first(&self, cause: &Cause) -> Vec<Candidate> {
        let mut first: Vec<Candidate> = Vec::new();
        for candidate in self.of(cause) {
            work::spend(OF_SUGGESTION);
            if !first.contains(&candidate) {
                first.push(candidate);
            }
            if first.len() == MOST_TRIED {
                break;
            }
        }
        first
    }

    fn of<'s>(&'s self, cause: &'s Cause) -> Box<dyn Iterator<Item = Candidate> + 's> {
        if cause.is_race() {
            // Only a count that holds everybody up says that a race is one.
            let Cause::Undefined { fault, pc, rank, warp, .. } = cause else { return Box::new(std::iter::empty()) };
            return Box::new(self.of_fault(fault, *pc, WarpId { rank: *rank, index: *warp }).into_iter());
        }
        // Who could come too early to an mbarrier may do so because it counts to too few.
        let raced = self.recording.race.into_iter().flat_map(|at| self.greater_counts(at));
        let plain = raced.chain(self.toggles()).chain(self.doubled());
        match cause {
            Cause::Hang(stuck) => {
                // What nothing suggests but that it is near.
                let objects: BTreeSet<SharedAddress> = stuck.iter().filter_map(|group| group.wait.mbarrier()).collect();
                let near = objects.into_iter().flat_map(|at| self.other_counts(at));
                let of_stuck = stuck.iter().flat_map(|group| self.of_stuck(group, stuck));
                let missing = stuck.iter().flat_map(|group| self.missing(group));
                let moved = std::iter::once_with(|| self.moved()).flatten();
                let constants = std::iter::once_with(|| self.constants()).flatten();
                Box::new(plain.chain(of_stuck).chain(missing).chain(moved).chain(near).chain(constants))
            }
            Cause::Undefined { fault, pc, rank, warp, .. } => {
                let of_fault = self.of_fault(fault, *pc, WarpId { rank: *rank, index: *warp });
                let moved = std::iter::once_with(|| self.moved()).flatten();
                let constants = std::iter::once_with(|| self.constants()).flatten();
                Box::new(plain.chain(of_fault).chain(moved).chain(constants))
            }
            Cause::Bytes { .. } => Box::new(self.announcements(None).into_iter().flat_map(|pc| self.other_bytes(pc))),
        }
    }

    fn of_stuck(&self, group: &Stuck, all: &[Stuck]) -> Vec<Candidate> {
        match group.wait {
            Wait::Mbarrier { at, .. } => self.of_mbarrier(group, at),
            Wait::Named { id, .. } => self.of_named(id, group, all),
            Wait::Registers { .. } => self.of_pool(group.pc),
            Wait::Lanes { .. } => {
                let together = all.iter().filter(|other| other.pc == group.pc && other.rank == group.rank);
                let together = together.fold(0, |lanes, other| lanes | other.lanes);
                [together, group.lanes].into_iter().map(|to| (vec![group.pc], Change::Mask { to })).collect()
            }
            Wait::Cluster { .. } | Wait::Columns { .. } | Wait::Warpgroup => Vec::new(),
        }
    }

    fn of_mbarrier(&self, group: &Stuck, at: SharedAddress) -> Vec<Candidate> {
        let mut found = Vec::new();
        let (came, _) = group.awaited.arrived.unwrap_or_default();
        match group.lacks {
            Lack::Arrivals { later: false } => {
                found.extend(self.counts(at, came));
                found.extend(self.counts_of_arrivals(at));
            }
            Lack::Arrivals { later: true } | Lack::Everything { .. } => {
                found.extend(self.announced_alone(at).into_iter().map(|pc| (vec![pc], Change::Arrive)));
                found.push((vec![group.pc], Change::Parity));
                found.extend(self.waits_like(group.pc, at).map(|pcs| (pcs, Change::Parity)));
                found.extend(self.counts_of_arrivals(at));
                found.extend(self.counts(at, came));
                // Whoever waits for an object that nobody comes to may miss those that were over too early elsewhere.
                let others: Vec<SharedAddress> = self.objects().filter(|other| *other != at).take(MOST_TRIED).collect();
                found.extend(others.into_iter().flat_map(|at| self.counts_of_arrivals(at)));
            }
            Lack::Bytes => {
                let (landed, announced) = group.awaited.bytes.unwrap_or_default();
                let missing = announced.saturating_sub(landed);
                for pc in self.announcements(Some(at)) {
                    let from = self.bytes_of(pc);
                    let to = from.and_then(|from| from.checked_sub(u64::try_from(missing).ok()?));
                    found.extend(to.map(|to| (vec![pc], Change::Bytes { from, to })));
                    found.extend(self.other_bytes(pc));
                }
            }
            Lack::Announcement { .. } => found.extend(self.announce(at)),
            _ => {}
        }
        found
    }

    /// Fewer registers for whoever waits for them, or for another: the most that mend it.
    fn of_pool(&self, stuck: InstrId) -> Vec<Candidate> {
        let sets = self.program.code.iter_enumerated().filter_map(|(pc, instr)| match instr.op {
            Op::SetRegisters { count, .. } => Some((pc, count)),
            _ => None,
        });
        let mut sets: Vec<(InstrId, u32)> = sets.collect();
        sets.sort_by_key(|(pc, _)| *pc != stuck);
        let fewer = |&(pc, from): &(InstrId, u32)| {
            let least = *setmaxnreg::COUNTS.start();
            let steps = (least..from).rev().step_by(setmaxnreg::STEP as usize).skip(1);
            work::spend(OF_SUGGESTION * u64::from(from) / u64::from(setmaxnreg::STEP));
            let multiples = steps.map(|to| (to + 1).next_multiple_of(setmaxnreg::STEP)).filter(move |to| *to < from);
            multiples.map(move |to| (vec![pc], Change::Registers { from, to }))
        };
        // Turn by turn, so that each has its chance.
        let mut columns: Vec<Vec<Candidate>> = sets.iter().map(|set| fewer(set).collect()).collect();
        let mut found = Vec::new();
        while columns.iter().any(|column| !column.is_empty()) {
            found.extend(columns.iter_mut().filter(|column| !column.is_empty()).map(|column| column.remove(0)));
        }
        found
    }

    fn of_named(&self, id: u64, group: &Stuck, all: &[Stuck]) -> Vec<Candidate> {
        let sites = self.sites_of(id);
        let come = self.threads_at(id, group.rank);
        let counts: Vec<u64> = sites.iter().filter_map(|pc| self.count_of(*pc)).collect();
        let mut found = Vec::new();
        let mut distinct: Vec<u64> = Vec::new();
        for count in &counts {
            work::spend_on(distinct.len());
            if !distinct.contains(count) {
                distinct.push(*count);
            }
        }
        for pc in &sites {
            work::spend(OF_SUGGESTION * distinct.len() as u64);
            let from = self.count_of(*pc);
            // Fewer than come would let them pass in parts: that is no barrier.
            let others = [come].into_iter().chain(distinct.iter().copied().filter(|count| *count >= come));
            let others = others.filter(|to| Some(*to) != from && *to > 0 && *to % WARP == 0);
            found.extend(others.map(|to| (vec![*pc], Change::Count { from, to })));
        }
        // All of its sites alike, where they have one count that nobody can make up.
        if let [first, rest @ ..] = counts.as_slice()
            && rest.iter().all(|count| count == first)
            && sites.len() > 1
            && come > 0
            && come != *first
        {
            found.push((sites.clone(), Change::Count { from: Some(*first), to: come }));
        }
        // Another barrier that others wait at, or that nobody else comes to.
        let waited = all.iter().filter_map(|other| match other.wait {
            Wait::Named { id: other, .. } if other != id => Some(other),
            _ => None,
        });
        for other in waited {
            work::spend(OF_SUGGESTION * sites.len() as u64);
            found.extend(sites.iter().map(|pc| (vec![*pc], Change::Id { to: other })));
            found.extend(self.sites_of(other).into_iter().map(|pc| (vec![pc], Change::Id { to: id })));
        }
        found
    }

    fn of_fault(&self, fault: &Fault, pc: InstrId, warp: WarpId) -> Vec<Candidate> {
        match fault {
            Fault::Counts { id, begun, given } => {
                let to =
                    |pc: InstrId, to: u32| (vec![pc], Change::Count { from: self.count_of(pc), to: u64::from(to) });
                let others =
                    self.sites_of(*id).into_iter().filter(|other| self.count_of(*other) != Some((*given).into()));
                let others: Vec<InstrId> = others.collect();
                let mut found = vec![to(pc, *begun)];
                found.extend(others.into_iter().map(|other| to(other, *given)));
                // Fewer than come would let them pass in parts.
                let come = self.threads_at(*id, warp.rank);
                found.sort_by_key(|(_, change)| matches!(change, Change::Count { to, .. } if *to < come));
                found
            }
            Fault::BarrierCount { count, .. } => {
                let from = self.count_of(pc);
                let near = [count.next_multiple_of(WARP), count / WARP * WARP];
                near.into_iter().filter(|to| *to > 0).map(|to| (vec![pc], Change::Count { from, to })).collect()
            }
            // A phase that ends too early counts to too few.
            Fault::Unordered(at) => self.greater_counts(*at),
            Fault::TooManyArrivals { at, .. } => {
                let mut found = self.greater_counts(*at);
                found.extend(self.counts_of_arrivals(*at));
                found.push((vec![pc], Change::Remove));
                found.extend(self.other_counts(*at));
                found
            }
            Fault::Unannounced(at) => {
                let mut found = self.announce(*at);
                found.extend(self.counts_of_arrivals(*at));
                found
            }
            Fault::ClusterOrder { waits } => {
                let mut found = self.other_half(*waits, pc, warp);
                found.push((vec![pc], Change::Remove));
                found
            }
            Fault::NoMbarrier(at) => self.initialised_elsewhere(*at),
            Fault::NotMember { lane, mask } => {
                let masks = [u32::MAX, *mask | 1 << lane, !*mask];
                masks.into_iter().map(|to| (vec![pc], Change::Mask { to })).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn pcs_at(&self, line: Line) -> impl Iterator<Item = InstrId> + '_ {
        // In the order of the text.
        let from = self.program.code.partition_point(|instr| instr.line < line);
        let rest = self.program.code.range_enumerated(from..self.program.code.next_id());
        let there = rest.take_while(move |(_, instr)| instr.line == line);
        there.inspect(|_| work::spend(1)).map(|(pc, _)| pc)
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = &Mark> + '_ {
        work::spend_on(self.recording.marks.len());
        self.recording.marks.iter()
    }

    pub(super) fn waits(&self) -> impl Iterator<Item = &Waited> + '_ {
        work::spend_on(self.recording.waits.len());
        self.recording.waits.iter()
    }

    pub(super) fn marks_at(&self, at: SharedAddress) -> impl Iterator<Item = &Mark> + '_ {
        let marks = self.by_object.get(&at).map_or(&[][..], Vec::as_slice);
        work::spend_on(marks.len());
        marks.iter().copied()
    }

    /// Every mbarrier that was initialised: where, and what it counts to.
    pub(super) fn inits(&self) -> impl Iterator<Item = (SharedAddress, u32, Line)> + '_ {
        work::spend_on(self.inits.len());
        self.inits.iter().filter_map(|mark| match mark.what {
            What::Init { at, count } => Some((at, count, mark.line)),
            _ => None,
        })
    }

    fn objects(&self) -> impl Iterator<Item = SharedAddress> + '_ {
        self.inits().map(|(at, ..)| at)
    }

    /// Arrivals that a phase of an object may count on: those that come once from each warp, or once from each place of each
    /// warp that arrives, where a phase takes several.
    fn arrivals_of_a_phase(&self, at: SharedAddress) -> [u64; 2] {
        let mut by_place: BTreeMap<(WarpId, Line), u64> = BTreeMap::new();
        for mark in self.marks_at(at) {
            let arrivals = match mark.what {
                What::Arrives { arrivals, .. } => u64::from(arrivals),
                What::Commits { .. } => 1,
                _ => continue,
            };
            by_place.entry((mark.warp, mark.line)).or_insert(arrivals);
        }
        let by_warp: BTreeMap<WarpId, u64> = by_place.iter().rev().map(|((warp, _), came)| (*warp, *came)).collect();
        [by_place.into_values().sum(), by_warp.into_values().sum()]
    }

    /// Counts of an object that are what arrives.
    fn counts_of_arrivals(&self, at: SharedAddress) -> Vec<Candidate> {
        self.arrivals_of_a_phase(at).into_iter().flat_map(|count| self.counts(at, count)).collect()
    }

    /// Counts of an object that are greater than its own.
    fn greater_counts(&self, at: SharedAddress) -> Vec<Candidate> {
        let own = self.count_at(at);
        let is_more = |(_, change): &Candidate| matches!(change, Change::Count { to, .. } if Some(*to) > own);
        let counts = self.counts_of_arrivals(at).into_iter().chain(self.other_counts(at));
        counts.filter(is_more).collect()
    }

    /// Other counts: what others of the kernel count to, one or a warp more or less.
    fn other_counts(&self, at: SharedAddress) -> Vec<Candidate> {
        let own = self.count_at(at).unwrap_or_default();
        let others: BTreeSet<u64> = self.objects().filter_map(|other| self.count_at(other)).collect();
        let near = [own + 1, own + WARP, own.saturating_sub(1), own.saturating_sub(WARP)];
        others.into_iter().chain(near).flat_map(|count| self.counts(at, count)).collect()
    }

    /// What an object is initialised with.
    fn count_at(&self, at: SharedAddress) -> Option<u64> {
        self.inits().find(|(of, ..)| *of == at).map(|(_, count, _)| u64::from(count))
    }

    /// Another count where an object is initialised.
    fn counts(&self, at: SharedAddress, to: u64) -> Vec<Candidate> {
        let pcs = self.inits().filter(|(of, ..)| *of == at).flat_map(|(.., line)| self.pcs_at(line));
        let candidate = |pc: InstrId| {
            let Op::Mbarrier { op: MbarrierOp::Init { count }, .. } = &self.program.code.get(pc)?.op else {
                return None;
            };
            let from = number(*count);
            (to > 0 && from != Some(to)).then_some((vec![pc], Change::Count { from, to }))
        };
        let mut found: Vec<Candidate> = pcs.filter_map(candidate).collect();
        // Stages of a ring are initialised by several instructions, all with one count.
        let alike = found.first().and_then(|(pcs, change)| Some((self.initialised_like(*pcs.first()?), *change)));
        found.extend(alike.filter(|(pcs, _)| pcs.len() > 1));
        found
    }

    /// Instructions that initialise objects of the same variable with the same count as one.
    fn initialised_like(&self, pc: InstrId) -> Vec<InstrId> {
        let variable = |at: SharedAddress| self.program.variables.partition_point(|of| of.start <= at.place());
        let inits: Vec<(usize, u32, Line)> =
            self.inits().map(|(at, count, line)| (variable(at), count, line)).collect();
        let line = self.program.code.get(pc).map(|instr| instr.line);
        let Some((of, count, _)) = inits.iter().find(|(.., at)| Some(*at) == line).copied() else { return vec![pc] };
        let others = inits.iter().filter(|(other, same, _)| *other == of && *same == count);
        let is_init = |pc: &InstrId| {
            let op = self.program.code.get(*pc).map(|instr| &instr.op);
            matches!(op, Some(Op::Mbarrier { op: MbarrierOp::Init { .. }, .. }))
        };
        let mut pcs: Vec<InstrId> = others.flat_map(|(.., line)| self.pcs_at(*line)).filter(is_init).collect();
        pcs.push(pc);
        pcs.sort_unstable();
        pcs.dedup();
        pcs
    }

    /// Where bytes are announced, to one object or to any.
    fn announcements(&self, at: Option<SharedAddress>) -> Vec<InstrId> {
        let announces = |mark: &&Mark| matches!(mark.what, What::Arrives { bytes, .. } if bytes > 0);
        let lines: BTreeSet<Line> = match at {
            Some(at) => self.marks_at(at).filter(announces).map(|mark| mark.line).collect(),
            None => self.marks().filter(announces).map(|mark| mark.line).collect(),
        };
        let mut pcs: Vec<InstrId> = lines.into_iter().flat_map(|line| self.pcs_at(line)).collect();
        pcs.sort_unstable();
        pcs.dedup();
        pcs
    }

    /// Instructions that announce bytes to an object and do not arrive.
    fn announced_alone(&self, at: SharedAddress) -> Vec<InstrId> {
        let mut pcs = self.announcements(Some(at));
        pcs.retain(|pc| {
            let op = self.program.code.get(*pc).map(|instr| &instr.op);
            matches!(op, Some(Op::Mbarrier { op: MbarrierOp::ExpectTx { .. }, .. }))
        });
        pcs
    }

    fn bytes_of(&self, pc: InstrId) -> Option<u64> {
        match &self.program.code.get(pc)?.op {
            Op::Mbarrier {
                op: MbarrierOp::Arrive { bytes: Some(bytes), .. } | MbarrierOp::ExpectTx { bytes }, ..
            } => number(*bytes),
            _ => None,
        }
    }

    /// Numbers that the text announces, whoever comes there: as they stand, or in a register that gets one.
    fn written_bytes(&self) -> impl Iterator<Item = u64> {
        let code = &self.program.code;
        work::spend_on(2 * code.len());
        let moves = code.iter().filter_map(|instr| match instr.op {
            Op::Compute { what: Compute::Move(_), to: Some(to), args: [Source::Number(number), ..], .. } => {
                Some((to.0, number))
            }
            _ => None,
        });
        let moves: BTreeMap<u32, u64> = moves.collect();
        let announced = code.iter().filter_map(|instr| match instr.op {
            Op::Mbarrier {
                op: MbarrierOp::Arrive { bytes: Some(bytes), .. } | MbarrierOp::ExpectTx { bytes }, ..
            } => Some(bytes),
            _ => None,
        });
        let written = announced.filter_map(|bytes| match bytes {
            Source::Reg(reg) => moves.get(&reg.0).copied(),
            bytes => number(bytes),
        });
        let written: BTreeSet<u64> = written.filter(|bytes| *bytes > 0).collect();
        written.into_iter()
    }

    /// Numbers that are announced elsewhere.
    fn other_bytes(&self, pc: InstrId) -> Vec<Candidate> {
        let from = self.bytes_of(pc);
        let mut others: Vec<u64> = self.announcements(None).into_iter().filter_map(|pc| self.bytes_of(pc)).collect();
        others.sort_unstable();
        others.dedup();
        work::spend(OF_SUGGESTION * others.len() as u64);
        let others = others.into_iter().filter(|to| Some(*to) != from);
        others.map(|to| (vec![pc], Change::Bytes { from, to })).collect()
    }

    /// Bytes that a phase of an object gets by copies: once from each place.
    pub(super) fn copied(&self, at: SharedAddress) -> BTreeMap<Line, u64> {
        let copied = self.marks_at(at).filter_map(|mark| match mark.what {
            What::Copies { copies, bytes, .. } => {
                Some((mark.line, u64::try_from(i64::from(copies).checked_mul(bytes?)?).ok()?))
            }
            _ => None,
        });
        copied.collect()
    }

    /// Arrivals at an object that could announce what is copied for it.
    fn announce(&self, at: SharedAddress) -> Vec<Candidate> {
        let mut found = Vec::new();
        let own = Some(self.copied(at).into_values().sum::<u64>()).filter(|bytes| *bytes > 0);
        let elsewhere: BTreeSet<u64> = self
            .recording
            .marks
            .iter()
            .filter_map(|mark| match mark.what {
                What::Arrives { bytes, .. } => u64::try_from(bytes).ok().filter(|bytes| *bytes > 0),
                _ => None,
            })
            .collect();
        // What nobody came to says as much: another turn, or the same stage further on.
        let written = self.written_bytes().filter(|bytes| !elsewhere.contains(bytes));
        let numbers: Vec<u64> = own.into_iter().chain(elsewhere.iter().copied()).chain(written).take(4).collect();
        let arrives = self.marks_at(at).filter(|mark| matches!(mark.what, What::Arrives { .. }));
        let mut pcs: Vec<InstrId> = arrives.flat_map(|mark| self.pcs_at(mark.line)).collect();
        pcs.sort_unstable();
        pcs.dedup();
        for pc in pcs {
            let from = self.bytes_of(pc);
            found.extend(numbers.iter().map(|bytes| match from {
                Some(_) => (vec![pc], Change::Bytes { from, to: *bytes }),
                None => (vec![pc], Change::Announce { bytes: *bytes }),
            }));
        }
        found
    }

    /// Threads of a block that come to a named barrier with a count of its own, in whole warps.
    fn threads_at(&self, id: u64, rank: u64) -> u64 {
        let waits = self.waits().filter(|wait| matches!(wait.on, Wait::Named { id: of, .. } if of == id));
        let marks = self.marks();
        let arrives = marks.filter(|mark| matches!(mark.what, What::ArrivesNamed { id: of } if of == id));
        let came = waits.map(|wait| (wait.warp, wait.line)).chain(arrives.map(|mark| (mark.warp, mark.line)));
        let counted = |line: Line| self.pcs_at(line).any(|pc| self.is_counted(pc));
        let warps: BTreeSet<u32> =
            came.filter(|(warp, line)| warp.rank == rank && counted(*line)).map(|(warp, _)| warp.index).collect();
        WARP * warps.len() as u64
    }

    fn is_counted(&self, pc: InstrId) -> bool {
        let op = self.program.code.get(pc).map(|instr| &instr.op);
        matches!(op, Some(Op::Named { count: Some(_), .. }))
    }

    /// Where a named barrier is used.
    fn sites_of(&self, id: u64) -> Vec<InstrId> {
        let waits = self.waits().filter(|wait| matches!(wait.on, Wait::Named { id: of, .. } if of == id));
        let marks = self.marks();
        let arrives = marks.filter(|mark| matches!(mark.what, What::ArrivesNamed { id: of } if of == id));
        let lines = waits.map(|wait| wait.line).chain(arrives.map(|mark| mark.line));
        let mut pcs: Vec<InstrId> = lines.flat_map(|line| self.pcs_at(line)).collect();
        pcs.sort_unstable();
        pcs.dedup();
        pcs.retain(|pc| matches!(self.program.code.get(*pc).map(|instr| &instr.op), Some(Op::Named { .. })));
        pcs
    }

    fn count_of(&self, pc: InstrId) -> Option<u64> {
        match &self.program.code.get(pc)?.op {
            Op::Named { count: Some(count), .. } => number(*count),
            _ => None,
        }
    }
}

fn number(source: Source) -> Option<u64> {
    match source {
        Source::Number(number) => Some(number),
        _ => None,
    }
}
