//! Who touches which bytes of shared memory, and whether something orders those who do: a detector of races by happens-before
//! (FastTrack, Flanagan and Freund 2009).
//!
//! In: accesses of warps and of work that goes on without them, each an *agent*: copies, stores and multiplications are forked from
//! their warp where they are issued and joined by whatever completes them. Out: pairs of accesses of the same byte, one of which
//! writes it, where the second does not know that the first is over, or where the async proxy does not see what the generic one
//! wrote. One schedule tells it for all: what orders two accesses orders them in every one.

mod alone;
mod boxes;
mod columns;
mod operations;
mod peers;

pub use columns::{Misuse, Misused};

use std::collections::VecDeque;
use std::ops::Range;

use self::alone::Alone;
use self::boxes::Boxes;
use self::columns::ColumnsUsed;
use self::peers::Arrivals;
use super::clock::Clock;
use super::footprint::{Footprint, MemoryKind, Pass};
use crate::base::{FastMap, FastSet};
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Access, InstrId, Stream};
use crate::sync::value::Basis;

/// Bytes that are kept together: what a descriptor's address counts in.
const GRANULE: u64 = 16;
/// Granules of a block's shared memory that are looked at: more than any has, the first kilobyte included.
const MOST_GRANULES: u64 = (1 << 18) / GRANULE;
/// Pairs of instructions that are told apart.
const MOST_RACES: usize = 64;
/// Bytes that lanes of a warp are told apart by.
const WORD: u64 = 2;
/// All lanes of a warp.
const EVERYBODY: u8 = u8::MAX;
/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;

/// Whose work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Agent {
    /// What a warp issues and completes in order; of bulk stores, each lane by itself.
    Stream(usize, Stream, u32),
    /// Copies that an mbarrier waits for, phase by phase.
    Mbarrier(SharedAddress),
}

/// What touches bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Threads themselves.
    Threads,
    /// `cp.async`
    CpAsync,
    /// A copy that completes on an mbarrier.
    Copy,
    /// `st.async`, `red.async`: the ISA names them nowhere among what goes through the async proxy.
    Sent,
    /// A bulk store.
    BulkStore,
    /// `wgmma`
    Wgmma,
    /// `tcgen05`
    Tcgen05,
    /// `tcgen05.alloc`, which leaves an address.
    Allocation,
}

impl By {
    /// Whether it goes through the async proxy.
    pub fn is_async(self) -> bool {
        !matches!(self, By::Threads | By::CpAsync | By::Sent)
    }
}

/// One end of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Where, as an instruction.
    pub pc: InstrId,
    /// The warp, or the one that issued it, among all of the cluster.
    pub warp: usize,
    /// What it does.
    pub access: Access,
    /// What does it.
    pub by: By,
}

/// What lacks between two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// Nothing orders them.
    Order,
    /// A proxy fence.
    Fence,
    /// A wait before the end.
    End,
    /// A group that a wait could cover.
    Group,
    /// That the other block has started.
    Start,
    /// That the other block has not ended.
    Gone,
    /// A meeting of the lanes.
    Lanes,
}

/// Two accesses of the same byte that conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The one that was executed first.
    pub first: End,
    /// The other.
    pub second: End,
    /// What lacks.
    pub broken: Broken,
    /// A byte that both touch.
    pub at: SharedAddress,
    /// What the places of both, and the ways to them, rest on.
    pub basis: Basis,
    /// What should have ordered them, and does not: the arrival or the flag that gives the bytes to the second, where the second asked for
    /// the end of the copy, was told that it is not over, and went on, or the wait of the copying warp that leaves it under way. The first
    /// access itself, where that reads what nothing has brought yet.
    pub handed: Option<InstrId>,
}

/// Bytes of a granule that an agent touched.
#[derive(Clone, Copy)]
struct Record {
    agent: u32,
    /// Over for whoever knows more of the agent than this.
    epoch: u32,
    pc: InstrId,
    mask: u16,
    /// The warp, or the one that issued it, among all of the cluster.
    warp: u16,
    access: Access,
    by: By,
    strong: bool,
    basis: Basis,
}

/// What a warp has issued and not waited for, in order.
#[derive(Default)]
struct Issued {
    count: u32,
    /// The last of it, and where that lies.
    last: Option<(InstrId, SharedAddress, Basis)>,
    /// How many had been issued at the end of each group that may be under way.
    groups: VecDeque<u32>,
}

/// Where a warp is.
#[derive(Clone, Copy, Default)]
struct Standing {
    pc: InstrId,
    /// What the ways that it went rest on.
    path: Basis,
    /// The same, with the guard of the instruction.
    ground: Basis,
}

/// Everything that is known of data.
pub(super) struct Data {
    warps: usize,
    /// Warps of a block.
    of_block: usize,
    /// By warp: what it knew at its last fence.
    fenced: Vec<Option<Clock>>,
    /// By warp: words that lanes have written since all of them met, with the lane and where it did.
    written: Vec<FastMap<u64, (u8, InstrId)>>,
    agents: FastMap<Agent, usize>,
    issued: FastMap<Agent, Issued>,
    /// By block, by granule.
    shadow: Vec<Vec<Vec<Record>>>,
    standing: Vec<Standing>,
    seen: FastSet<(InstrId, InstrId, Broken)>,
    /// Whether pairs of blocks use tensor memory together.
    pairs: bool,
    /// Where warps have asked for the end of a phase.
    asked: FastSet<(u32, InstrId)>,
    /// By warp: the phase that it asked for last and was told not to be over, by the agent of its copies, and where it asked.
    vain: FastMap<usize, (usize, InstrId)>,
    /// By mbarrier and warp: where it arrived last.
    arrived: FastMap<(SharedAddress, usize), InstrId>,
    /// By warp: the mbarrier whose phase it has waited for last.
    waited: FastMap<usize, SharedAddress>,
    /// What those knew who wrote words that are no weak ones.
    flags: FastMap<SharedAddress, Clock>,
    /// By such a word: who wrote it last, and where, if that tells nothing of what came before.
    relaxed: FastMap<SharedAddress, (usize, InstrId)>,
    /// By warp: who wrote the word that it has read last of those, and where.
    heard: FastMap<usize, (usize, InstrId)>,
    /// By agent: the last wait for its groups, what had been issued then, and what was over after it.
    waits: FastMap<usize, (InstrId, u32, u32)>,
    /// Loads of tensor memory that nothing has set.
    early: FastSet<InstrId>,
    pub(super) races: Vec<Race>,
    pub(super) unknown: u64,
    /// What each instruction touched.
    pub(super) footprint: Footprint,
    /// How tensor memory is used.
    pub(super) columns: ColumnsUsed,
    /// What tensor stores read.
    boxes: Boxes,
    /// The last arrivals at mbarriers of other blocks.
    arrivals: Arrivals,
    /// Lanes that have parted, rounds of named barriers and sizes of copies.
    alone: Alone,
}

/// What touches bytes: everything but where.
#[derive(Clone, Copy)]
struct Toucher {
    warp: usize,
    agent: usize,
    epoch: u32,
    access: Access,
    by: By,
    strong: bool,
    /// What the place rests on.
    basis: Basis,
}

impl Data {
    pub(super) fn new(warps: usize, blocks: usize) -> Data {
        Data {
            warps,
            of_block: (warps / blocks.max(1)).max(1),
            fenced: vec![None; warps],
            written: vec![FastMap::default(); warps],
            agents: FastMap::default(),
            issued: FastMap::default(),
            shadow: Vec::new(),
            standing: vec![Standing::default(); warps],
            seen: FastSet::default(),
            pairs: false,
            asked: FastSet::default(),
            vain: FastMap::default(),
            arrived: FastMap::default(),
            waited: FastMap::default(),
            flags: FastMap::default(),
            relaxed: FastMap::default(),
            heard: FastMap::default(),
            waits: FastMap::default(),
            early: FastSet::default(),
            races: Vec::new(),
            unknown: 0,
            footprint: Footprint::default(),
            columns: ColumnsUsed::default(),
            boxes: Boxes::default(),
            arrivals: Arrivals::default(),
            alone: Alone::default(),
        }
    }

    /// The pass that a warp is in.
    pub(super) fn pass(&self, warp: usize, memory: MemoryKind, access: Access, operand: u8) -> Pass {
        let standing = self.standing.get(warp).copied().unwrap_or_default();
        let warp = (warp % self.of_block) as u32;
        Pass { pc: standing.pc, operand, memory, access, warp, path: standing.ground }
    }

    /// The number that clocks have of an agent: those of warps come first. The four warps of a warpgroup multiply together.
    pub(super) fn agent(&mut self, agent: Agent) -> usize {
        let agent = match agent {
            Agent::Stream(warp, Stream::Wgmma, lane) => Agent::Stream(self.warpgroup(warp).start, Stream::Wgmma, lane),
            agent => agent,
        };
        let next = self.warps + self.agents.len();
        *self.agents.entry(agent).or_insert(next)
    }

    /// How much a warp has issued of a kind that is not kept by lane.
    pub(super) fn issued(&mut self, warp: usize, stream: Stream) -> (usize, u32) {
        let agent = Agent::Stream(warp, stream, 0);
        let count = self.issued.get(&agent).map_or(0, |issued| issued.count);
        (self.agent(agent), count)
    }

    /// What an arrival tells of what its warp knows: a relaxed one nothing of what came after the last fence.
    pub(super) fn tells(&self, warp: usize, clock: Clock, relaxed: &[InstrId]) -> Clock {
        let pc = self.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
        match relaxed.binary_search(&pc) {
            Ok(_) => clock.relaxed(self.fenced.get(warp).and_then(Option::as_ref)),
            Err(_) => clock,
        }
    }

    /// Lanes of a warp have met.
    pub(super) fn meet(&mut self, warp: usize) {
        if let Some(written) = self.written.get_mut(warp).filter(|written| !written.is_empty()) {
            written.clear();
        }
    }

    /// Keeps what the lanes of a warp touched together.
    fn touched_by_lanes(&mut self, who: &Toucher, spans: &[(SharedAddress, u64)], unknown: u32, basis: Basis) {
        let pass = self.pass(who.warp, MemoryKind::Shared, who.access, 0);
        if unknown > 0 {
            self.footprint.miss(pass);
        }
        let first = spans.iter().map(|(at, _)| at.place()).min();
        let end = spans.iter().map(|(at, bytes)| at.place() + bytes).max();
        if let (Some(first), Some(end)) = (first, end) {
            self.footprint.touch(pass, (first, end - first), true, basis);
        }
    }

    /// A lane touches words that another one of its warp may have written since they met. `alone` is no other lane.
    fn touch_by_lane(&mut self, who: &Toucher, (lane, alone): (usize, bool), at: SharedAddress, bytes: u64) {
        let Some(written) = self.written.get_mut(who.warp) else { return };
        let standing = self.standing.get(who.warp).copied().unwrap_or_default();
        let words = at.0 / WORD..=(at.0 + bytes.max(1) - 1) / WORD;
        match who.access {
            Access::Write => {
                let by = if alone { lane as u8 } else { EVERYBODY };
                written.extend(words.map(|word| (word, (by, standing.pc))));
            }
            Access::Read if !written.is_empty() => {
                let other =
                    |word: u64| written.get(&word).filter(|(by, _)| *by != EVERYBODY && (!alone || *by != lane as u8));
                let Some((word, (_, pc))) = words.clone().find_map(|word| Some((word, *other(word)?))) else { return };
                let basis = who.basis.max(standing.ground);
                if self.races.len() < MOST_RACES && self.seen.insert((pc, standing.pc, Broken::Lanes)) {
                    let end = |pc: InstrId, access: Access| End { pc, warp: who.warp, access, by: By::Threads };
                    let (first, second) = (end(pc, Access::Write), end(standing.pc, Access::Read));
                    let at = SharedAddress(word * WORD);
                    self.races.push(Race { first, second, broken: Broken::Lanes, at, basis, handed: None });
                }
            }
            _ => {}
        }
    }

    /// A warp comes to an instruction.
    #[inline]
    pub(super) fn stands(&mut self, warp: usize, pc: InstrId, ground: Basis, branches: bool) {
        let Some(standing) = self.standing.get_mut(warp) else { return };
        standing.pc = pc;
        standing.ground = standing.path.max(ground);
        if branches {
            standing.path = standing.ground;
        }
    }

    /// Issues work of a kind: its agent and number.
    fn issue(&mut self, agent: Agent) -> (usize, u32) {
        let issued = self.issued.entry(agent).or_default();
        let epoch = issued.count;
        issued.count += 1;
        (self.agent(agent), epoch)
    }

    /// What is over after a wait: the agent, and how much of what it issued.
    fn wait(&mut self, agent: Agent, pending: Option<u32>) -> Option<(usize, u32)> {
        let over = self.over_after(agent, pending)?;
        let groups = &mut self.issued.get_mut(&agent)?.groups;
        groups.drain(..groups.len().saturating_sub(pending.unwrap_or(0) as usize));
        Some((self.agent(agent), over))
    }

    /// How much of what a warp issued will be over after a wait; none where that waits for nothing.
    fn over_after(&self, agent: Agent, pending: Option<u32>) -> Option<u32> {
        let issued = self.issued.get(&agent)?;
        match pending {
            None => Some(issued.count),
            Some(pending) => issued.groups.get(issued.groups.len().checked_sub(pending as usize + 1)?).copied(),
        }
    }

    /// The warps of the warpgroup of one.
    fn warpgroup(&self, warp: usize) -> Range<usize> {
        let (first, of_block) = (warp - warp % self.of_block % WARPGROUP as usize, warp - warp % self.of_block);
        first..(first + WARPGROUP as usize).min(of_block + self.of_block)
    }

    fn commit(&mut self, agent: Agent) {
        let issued = self.issued.entry(agent).or_default();
        issued.groups.push_back(issued.count);
    }

    /// Touches bytes. Gives the pieces of work that took.
    fn touch(&mut self, clock: &Clock, who: Toucher, at: SharedAddress, bytes: u64) -> u64 {
        let (rank, place) = (at.rank() as usize, at.place());
        let (first, last) = (place / GRANULE, (place + bytes.max(1) - 1) / GRANULE);
        // Behind the blocks of the cluster lies tensor memory.
        if last >= MOST_GRANULES || rank >= self.warps / self.of_block {
            self.unknown += 1;
            let standing = self.standing.get(who.warp).copied().unwrap_or_default();
            // A place that an input decides may be anywhere.
            if last < MOST_GRANULES && self.warps > self.of_block && who.basis == Basis::Fact {
                let misuse = Misuse::Rank { rank: rank as u64 };
                self.columns.keep(Misused { pc: standing.pc, misuse, basis: who.basis.max(standing.ground) });
            }
            return 1;
        }
        if self.shadow.len() <= rank {
            self.shadow.resize_with(rank + 1, Vec::new);
        }
        if self.shadow[rank].len() <= last as usize {
            self.shadow[rank].resize_with(last as usize + 1, Vec::new);
        }
        let mut pieces = 0;
        self.starts(clock, &who, at);
        for granule in first..=last {
            let from = place.max(granule * GRANULE) - granule * GRANULE;
            let to = (place + bytes).min((granule + 1) * GRANULE) - granule * GRANULE;
            let mask = (u32::MAX << from & !(u32::MAX << to)) as u16;
            pieces += self.touch_granule(clock, who, (rank, granule), mask);
        }
        pieces
    }

    fn touch_granule(&mut self, clock: &Clock, who: Toucher, (rank, granule): (usize, u64), mask: u16) -> u64 {
        let standing = self.standing.get(who.warp).copied().unwrap_or_default();
        let basis = who.basis.max(standing.ground);
        let cell = &mut self.shadow[rank][granule as usize];
        let pieces = 2 + cell.len() as u64;
        let mut found: Vec<(Record, Broken)> = Vec::new();
        let mut merged = false;
        for record in cell.iter_mut() {
            if record.mask & mask == 0 {
                merged |= record.joins(&who, standing.pc, mask, merged);
                continue;
            }
            // Several warps that run one store write the same, as far as anybody can tell.
            let writes = record.access == Access::Write && matches!(who.by, By::Threads | By::CpAsync);
            let repeats = writes && record.pc == standing.pc && usize::from(record.warp) != who.warp;
            // What nobody reads any more may be multiplied on when it is freed.
            let frees = who.by == By::Allocation && record.by == By::Tcgen05 && record.access.writes();
            let conflicts =
                !frees && (record.access.writes() || who.access.writes()) && !(record.strong && who.strong) && !repeats;
            if conflicts {
                let agent = record.agent as usize;
                // Multiplications and copies of one thread run in order.
                let in_order = agent == who.agent && who.by == By::Tcgen05 && record.by == By::Tcgen05;
                let is_own = agent == who.warp || in_order;
                // What an allocation leaves is there for whoever comes after it, and what is freed needs no fence.
                let of_allocation = record.by == By::Allocation || who.by == By::Allocation;
                let known = if of_allocation { clock.passed(agent) } else { clock.known(agent) };
                if !is_own && known <= record.epoch {
                    found.push((*record, Broken::Order));
                } else if record.access.writes()
                    && !record.by.is_async()
                    && who.by.is_async()
                    && clock.fenced(agent) <= record.epoch
                {
                    found.push((*record, Broken::Fence));
                }
            }
            // Whoever comes after a write comes after what that came after; of reads of one agent the last counts.
            let same_reader = record.agent as usize == who.agent && !record.access.writes();
            if who.access.writes() || same_reader && !who.access.writes() {
                if record.agent as usize == who.agent && record.epoch == who.epoch && record.access == who.access {
                    // Other lanes of the same instruction, or the same once more.
                    record.pc = standing.pc;
                    record.mask |= mask;
                    merged = true;
                } else {
                    record.mask &= !mask;
                }
            }
        }
        cell.retain(|record| record.mask != 0);
        if !merged {
            cell.push(Record {
                agent: who.agent as u32,
                epoch: who.epoch,
                pc: standing.pc,
                mask,
                warp: who.warp as u16,
                access: who.access,
                by: who.by,
                strong: who.strong,
                basis,
            });
        }
        for (record, broken) in found {
            let both = record.mask & mask;
            let byte = granule * GRANULE + u64::from(if both == 0 { mask } else { both }.trailing_zeros());
            self.found(&record, &who, standing.pc, broken, SharedAddress::new(rank as u64, byte), basis);
        }
        pieces
    }

    fn found(&mut self, record: &Record, who: &Toucher, pc: InstrId, broken: Broken, at: SharedAddress, basis: Basis) {
        let end = |pc: InstrId, warp: usize, access: Access, by: By| End { pc, warp, access, by };
        let race = Race {
            first: end(record.pc, record.warp.into(), record.access, record.by),
            second: end(pc, who.warp, who.access, who.by),
            broken,
            at,
            basis: basis.max(record.basis),
            handed: self.handed(record, who),
        };
        let stores = [(record.agent, record.epoch), (who.agent as u32, who.epoch)];
        if !self.boxes.keep(stores, race) {
            self.tell(race);
        }
    }

    /// What hands bytes from who touched them first to a warp, and orders nothing.
    fn handed(&self, record: &Record, who: &Toucher) -> Option<InstrId> {
        let agent = record.agent as usize;
        match (record.by, record.access.writes()) {
            (By::Copy, true) => {
                let (asked, pc) = self.vain.get(&who.warp)?;
                return (*asked == agent).then_some(*pc);
            }
            (By::CpAsync, true) => {
                let (pc, issued, over) = self.waits.get(&agent)?;
                return (*issued > record.epoch && *over <= record.epoch).then_some(*pc);
            }
            (By::Threads, true) if who.by == By::Threads => {
                let (writer, pc) = self.heard.get(&who.warp)?;
                return (*writer == usize::from(record.warp)).then_some(*pc);
            }
            (By::Tcgen05, false) if self.early.contains(&record.pc) => return Some(record.pc),
            _ => {}
        }
        let is_work = record.by.is_async() || record.by == By::Threads && who.by == By::Copy;
        let is_work = is_work && record.by != By::Allocation && !record.access.writes();
        let object = self.waited.get(&who.warp).filter(|_| is_work)?;
        self.arrived.get(&(*object, usize::from(record.warp))).copied()
    }

    /// Keeps a race, once for each pair of instructions.
    fn tell(&mut self, race: Race) {
        if self.races.len() < MOST_RACES && self.seen.insert((race.first.pc, race.second.pc, race.broken)) {
            self.races.push(race);
        }
    }
}

impl Record {
    /// Takes other bytes of the same access in.
    fn joins(&mut self, who: &Toucher, pc: InstrId, mask: u16, merged: bool) -> bool {
        let same = self.agent as usize == who.agent
            && self.epoch == who.epoch
            && self.pc == pc
            && self.access == who.access
            && !merged;
        if same {
            self.mask |= mask;
        }
        same
    }
}
