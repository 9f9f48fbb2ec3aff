//! Who touches which bytes of shared memory, and whether something orders those who do: a detector of races by happens-before
//! (FastTrack, Flanagan and Freund 2009).
//!
//! In: accesses of warps and of work that goes on without them, each an *agent*: copies, stores and multiplications are forked from
//! their warp where they are issued and joined by whatever completes them. Out: pairs of accesses of the same byte, one of which
//! writes it, where the second does not know that the first is over, or where the async proxy does not see what the generic one
//! wrote. One schedule tells it for all: what orders two accesses orders them in every one.

mod boxes;
mod columns;
mod peers;

pub use columns::{Misuse, Misused};

use std::collections::VecDeque;
use std::ops::Range;

use self::boxes::Boxes;
use self::columns::ColumnsUsed;
use self::peers::Arrivals;
use super::clock::Clock;
use super::flights::Brings;
use super::footprint::{Footprint, MemoryKind, OBJECT, Pass};
use super::step::lanes_of;
use super::{Run, Warp};
use crate::base::{FastMap, FastSet};
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{
    Access, Accumulates, Address, Bytes, CopyEnds, DataOp, InstrId, Sends, Source, Space, Stream, TensorLanes,
};
use crate::sync::value::Basis;

/// Bytes that are kept together: what a descriptor's address counts in.
const GRANULE: u64 = 16;
/// Granules of a block's shared memory that are looked at: more than any has, the first kilobyte included.
const MOST_GRANULES: u64 = (1 << 18) / GRANULE;
/// Pairs of instructions that are told apart.
const MOST_RACES: usize = 64;
/// Where a descriptor has its address, in granules.
const DESCRIPTOR: u64 = 0x3fff;
/// Where a descriptor has the stride between groups of eight rows.
const STRIDE_SHIFT: u32 = 32;
/// Where a descriptor of wgmma says how its rows are swizzled.
const SWIZZLE_SHIFT: u32 = 62;
/// Where an instruction descriptor has the rows of the result, in units of 16.
const ROWS_SHIFT: u32 = 24;
/// That field of 64 rows, which lie in half of each warp's lanes.
const HALF_ROWS: u64 = 4;
/// Flags that one instruction is taken to read or write: lanes that each have their own count, and tell nothing.
const MOST_FLAGS: usize = 2;
/// Bytes that lanes of a warp are told apart by.
const WORD: u64 = 2;
/// All lanes of a warp.
const EVERYBODY: u8 = u8::MAX;
/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;

/// Swizzled by 128 bytes, in a descriptor of wgmma.
const SWIZZLED_128: u64 = 1;
/// Granules of a row of 128 bytes, by which its rows are swizzled.
const OF_A_ROW: u64 = 8;

/// The first granule of a matrix that a warp reads, by its descriptor; none where that is not followed. Of four warps each multiplies 16
/// rows of A: two strides of eight further for each, or 32 bytes along a row where A is transposed.
fn first_granule(descriptor: u64, own_rows: Option<u32>, is_transposed: bool) -> Option<u64> {
    let start = descriptor & DESCRIPTOR;
    let Some(quarter) = own_rows.map(|warp| u64::from(warp % WARPGROUP)) else { return Some(start) };
    if !is_transposed {
        return Some(start + 2 * quarter * (descriptor >> STRIDE_SHIFT & DESCRIPTOR));
    }
    let is_row = descriptor >> SWIZZLE_SHIFT == SWIZZLED_128 && start.is_multiple_of(OF_A_ROW);
    match quarter {
        0 => Some(start),
        _ => is_row.then_some(start + ((2 * quarter) ^ (start / OF_A_ROW % OF_A_ROW))),
    }
}

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
    /// What should have ordered them, and does not: the arrival that gives the bytes to the second, or where the second asked for the end
    /// of the copy, was told that it is not over, and went on.
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
            races: Vec::new(),
            unknown: 0,
            footprint: Footprint::default(),
            columns: ColumnsUsed::default(),
            boxes: Boxes::default(),
            arrivals: Arrivals::default(),
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
            handed: self.handed(record, who.warp),
        };
        let stores = [(record.agent, record.epoch), (who.agent as u32, who.epoch)];
        if !self.boxes.keep(stores, race) {
            self.tell(race);
        }
    }

    /// What hands bytes from who touched them first to a warp, and orders nothing.
    fn handed(&self, record: &Record, warp: usize) -> Option<InstrId> {
        if record.by == By::Copy && record.access.writes() {
            let (agent, pc) = self.vain.get(&warp)?;
            return (*agent == record.agent as usize).then_some(*pc);
        }
        let is_work = record.by.is_async() && record.by != By::Allocation && !record.access.writes();
        let object = self.waited.get(&warp).filter(|_| is_work)?;
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

impl Run<'_> {
    /// Lanes of a warp touch shared memory themselves.
    pub(super) fn touches(
        &mut self,
        warp: usize,
        mask: u32,
        access: Access,
        (space, at, bytes): (Space, Address, u32),
    ) {
        let Some(data) = &self.data else { return };
        let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
        let strong = self.program.strong.binary_search(&pc).is_ok();
        if !matches!(space, Space::Shared | Space::Generic) {
            return;
        }
        let Some(clock) = self.clocks.of(warp) else { return };
        let epoch = clock.known(warp);
        let who = Toucher { warp, agent: warp, epoch, access, by: By::Threads, strong, basis: Basis::Fact };
        self.touch_by_lanes(warp, mask, who, space, at, bytes);
    }

    /// `tcgen05.alloc` leaves the address of what it gave: whoever reads it comes after, and the async proxy sees it.
    pub(super) fn allocates(&mut self, warp: usize, lane: usize, at: Address) {
        let Some(epoch) = self.clocks.of(warp).map(|clock| clock.known(warp)).filter(|_| self.data.is_some()) else {
            return;
        };
        let (access, by) = (Access::Write, By::Allocation);
        let who = Toucher { warp, agent: warp, epoch, access, by, strong: false, basis: Basis::Fact };
        self.touch_by_lanes(warp, 1 << lane, who, Space::Shared, at, 4);
    }

    /// The bytes at the addresses of lanes, those next to each other at once.
    fn touch_by_lanes(&mut self, warp: usize, mask: u32, who: Toucher, space: Space, at: Address, bytes: u32) {
        let here = &self.warps[warp];
        let (all, same) = (mask, self.is_same(here, at.base));
        let mask = if same { mask & mask.wrapping_neg() } else { mask };
        let mut by_lane = [None; LANES];
        let mut spans: [(SharedAddress, u64); LANES] = [(SharedAddress(0), 0); LANES];
        let (mut count, mut unknown, mut basis) = (0, 0, Basis::Fact);
        for lane in lanes_of(mask) {
            let word = self.address(here, at, lane);
            let is_shared = space == Space::Shared || SharedAddress::is_generic(word.bits);
            if word.basis >= Basis::Memory {
                unknown += 1;
                continue;
            }
            if !is_shared {
                continue;
            }
            basis = basis.max(word.basis);
            let address = SharedAddress::of(word.bits);
            by_lane[lane] = Some(address);
            match spans[..count].last_mut() {
                Some((start, length)) if start.0 + *length == address.0 => *length += u64::from(bytes),
                _ => {
                    spans[count] = (address, u64::from(bytes));
                    count += 1;
                }
            }
        }
        self.looks_at(LANES / 2);
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        data.unknown += u64::from(unknown > 0);
        data.touched_by_lanes(&who, &spans[..count], unknown, basis);
        let stores = who.access == Access::Write && who.by == By::Threads && !self.machine.mbarriers.is_empty();
        for (address, length) in &spans[..count] {
            if stores {
                let (from, to) = (address.0.saturating_sub(OBJECT.1 - 1), address.0.saturating_add(*length));
                let mut objects = self.machine.mbarriers.range(SharedAddress(from)..SharedAddress(to));
                if let Some((object, _)) = objects.next() {
                    let standing = data.standing.get(warp).copied().unwrap_or_default();
                    let misuse = Misuse::Object { at: object.place() };
                    let basis = basis.max(standing.ground);
                    data.columns.keep(Misused { pc: standing.pc, misuse, basis });
                }
            }
            self.pieces += data.touch(clock, Toucher { basis, ..who }, *address, *length);
        }
        if who.strong {
            self.flags(warp, who.access, &spans[..count]);
        }
        let Some(data) = &mut self.data else { return };
        let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
        // What is volatile is there for all to see, and still lanes go on by themselves.
        if who.strong && self.program.volatile.binary_search(&pc).is_err() {
            return;
        }
        // What threads write, or read when lanes have written.
        let matters = who.access == Access::Write || data.written.get(warp).is_some_and(|written| !written.is_empty());
        if matches!(who.by, By::Threads | By::CpAsync) && matters && u64::from(bytes) >= WORD {
            self.pieces += u64::from(mask.count_ones()) * u64::from(bytes) / WORD;
            let alone = !same || all.count_ones() == 1;
            for (lane, address) in by_lane.iter().enumerate() {
                let Some(address) = address else { continue };
                data.touch_by_lane(&Toucher { basis, ..who }, (lane, alone), *address, u64::from(bytes));
            }
        }
    }

    /// Whoever reads a flag that is no weak one knows what came before it was written, where that was released or fenced: whether it was
    /// acquired is not asked.
    fn flags(&mut self, warp: usize, access: Access, spans: &[(SharedAddress, u64)]) {
        for (at, _) in spans.iter().take(MOST_FLAGS) {
            let clock = access.writes().then(|| self.clocks.send(warp));
            let Some(data) = &mut self.data else { return };
            if access != Access::Write
                && let Some(told) = data.flags.get(at)
            {
                self.clocks.join(warp, told);
            }
            let clock = clock.map(|clock| data.tells(warp, clock, &self.program.relaxed));
            if let Some(clock) = clock {
                data.flags.entry(*at).or_default().join(&clock);
            }
        }
    }

    /// Whether a warp that waits for its warpgroup's products has to wait for other warps to have issued them: the four multiply
    /// together, and no product is done before all of them have come to it. An H200 lets them go on together.
    pub(super) fn awaits_warpgroup(&self, warp: usize, pending: Option<u32>) -> bool {
        let Some(data) = &self.data else { return false };
        let issued_by = |warp: usize| {
            let issued = data.issued.get(&Agent::Stream(warp, Stream::Wgmma, 0));
            issued.map_or(0, |issued| issued.count)
        };
        let over = data.over_after(Agent::Stream(warp, Stream::Wgmma, 0), pending).unwrap_or(0);
        let mut others = data.warpgroup(warp).filter(|other| self.warps.get(*other).is_some_and(|it| !it.is_done()));
        others.any(|other| issued_by(other) < over)
    }

    /// An instruction that does something to data.
    pub(super) fn data(&mut self, warp: usize, mask: u32, op: &DataOp) {
        match *op {
            DataOp::Touch { access, space, at, bytes, lanes, together } => {
                if together {
                    self.meet(warp);
                }
                self.touches(warp, mask & lanes, access, (space, at, bytes));
            }
            DataOp::CopyAsync { to, bytes } => {
                let Some(data) = &mut self.data else { return };
                let (agent, epoch) = data.issue(Agent::Stream(warp, Stream::CpAsync, 0));
                let (access, by) = (Access::Write, By::CpAsync);
                let who = Toucher { warp, agent, epoch, access, by, strong: false, basis: Basis::Fact };
                let standing = data.standing.get(warp).copied().unwrap_or_default();
                let at = self.address(&self.warps[warp], to, mask.trailing_zeros() as usize);
                if let Some(data) = &mut self.data
                    && let Some(issued) = data.issued.get_mut(&Agent::Stream(warp, Stream::CpAsync, 0))
                {
                    issued.last = Some((standing.pc, SharedAddress::of(at.bits), standing.ground));
                }
                self.touch_by_lanes(warp, mask, who, Space::Shared, to, bytes);
            }
            DataOp::BulkStore { from, bytes } => {
                for lane in lanes_of(mask) {
                    let here = &self.warps[warp];
                    let size = match bytes {
                        Bytes::Number(bytes) => self.word(here, bytes, lane),
                        Bytes::Map(_) => continue,
                    };
                    let is_whole = bytes != Bytes::Number(Source::Number(GRANULE));
                    let address = self.address(here, from, lane);
                    let known = size.basis < Basis::Memory;
                    let size = if known { size.bits & 0xffff_ffff } else { GRANULE };
                    let place = (address.bits, size, address.basis);
                    self.issue(warp, lane as u32, Stream::Bulk, By::BulkStore, place, (0, is_whole));
                    if !is_whole {
                        self.reads_on(warp, lane as u32, (address.bits, address.basis));
                    }
                }
            }
            DataOp::Columns { access, stream, at, count, lanes, pair, descriptor } => {
                let lane = mask.trailing_zeros() as usize;
                if let Some(descriptor) = descriptor {
                    let here = &self.warps[warp];
                    let word = self.word(here, descriptor, lane);
                    let address = SharedAddress::new(here.rank, (word.bits & DESCRIPTOR) * GRANULE);
                    let place = (address.0, GRANULE, word.basis);
                    self.issue(warp, 0, stream, By::Tcgen05, place, (0, false));
                }
                let Some(data) = &mut self.data else { return };
                let (agent, epoch) = data.issue(Agent::Stream(warp, stream, 0));
                let basis = Basis::Fact;
                let who = Toucher { warp, agent, epoch, access, by: By::Tcgen05, strong: false, basis };
                self.passes_columns(&who, lane, at, u64::from(count), true);
                self.reaches_lanes(warp, lane, at, (access, u64::from(count)), lanes);
                self.touch_columns(who, lane, at, u64::from(count), (lanes, pair));
            }
            DataOp::Matrices { stream, descriptors, transposes_a, accumulates } => {
                let by = if stream == Stream::Wgmma { By::Wgmma } else { By::Tcgen05 };
                let lane = mask.trailing_zeros() as usize;
                for (at, descriptor) in descriptors.into_iter().enumerate() {
                    let Some(descriptor) = descriptor else { continue };
                    let here = &self.warps[warp];
                    let word = self.word(here, descriptor, lane);
                    let own_rows = at == 0 && stream == Stream::Wgmma;
                    let Some(granule) = first_granule(word.bits, own_rows.then_some(here.index), transposes_a) else {
                        continue;
                    };
                    let address = SharedAddress::new(here.rank, granule * GRANULE);
                    self.issue(warp, 0, stream, by, (address.0, GRANULE, word.basis), (at as u8, false));
                }
                let Some(Accumulates { to, a, instruction, adds, pair, by_rows }) = accumulates else { return };
                let shape = instruction.map(|source| self.word(&self.warps[warp], source, lane));
                let shape = shape.filter(|word| word.basis < Basis::Memory).map_or(0, |word| word.bits);
                // Of results that are not 32 bits wide the first column is looked at.
                let wide = matches!(shape >> 4 & 3, 1 | 2);
                let count = if wide { (shape >> 17 & 0x3f) * 8 } else { 1 };
                let halves = by_rows && shape >> ROWS_SHIFT & 0x1f == HALF_ROWS;
                let lanes = if halves { TensorLanes::Halves } else { TensorLanes::All };
                self.accumulates(warp, lane, (to, count), adds.filter(|_| !pair));
                for (at, access, count, is_whole) in
                    [(a, Access::Read, 1, false), (Some(to), Access::Write, count, wide)]
                {
                    let (Some(at), Some(data)) = (at, &mut self.data) else { continue };
                    let (agent, epoch) = data.issue(Agent::Stream(warp, stream, 0));
                    let who = Toucher { warp, agent, epoch, access, by, strong: false, basis: Basis::Fact };
                    self.passes_columns(&who, lane, at, count.max(1), is_whole);
                    self.touch_columns(who, lane, at, count.max(1), (lanes, pair));
                }
            }
            DataOp::CommitGroup(stream) => {
                let Some(data) = &mut self.data else { return };
                // Others of the warpgroup may wait for it.
                self.machine.changes += u64::from(stream == Stream::Wgmma);
                for lane in lanes_of_stream(stream, mask) {
                    data.commit(Agent::Stream(warp, stream, lane));
                }
            }
            DataOp::WaitGroup(stream, pending) => {
                let Some(data) = &mut self.data else { return };
                for lane in lanes_of_stream(stream, mask) {
                    if let Some((agent, over)) = data.wait(Agent::Stream(warp, stream, lane), pending) {
                        self.clocks.raise(warp, agent, over);
                    }
                }
            }
            DataOp::ProxyFence => self.clocks.fence(warp),
            DataOp::Fence => {
                let clock = self.clocks.send(warp);
                if let Some(data) = &mut self.data
                    && let Some(fenced) = data.fenced.get_mut(warp)
                {
                    *fenced = Some(clock);
                }
            }
            DataOp::Meet => self.meet(warp),
        }
    }

    /// Lanes of a warp have met.
    pub(super) fn meet(&mut self, warp: usize) {
        if let Some(data) = &mut self.data {
            data.meet(warp);
        }
    }

    /// Issues work that reads bytes at an address.
    fn issue(
        &mut self,
        warp: usize,
        lane: u32,
        stream: Stream,
        by: By,
        (at, bytes, basis): (u64, u64, Basis),
        (operand, is_whole): (u8, bool),
    ) {
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        let (agent, epoch) = data.issue(Agent::Stream(warp, stream, lane));
        let pass = data.pass(warp, MemoryKind::Shared, Access::Read, operand);
        if basis >= Basis::Memory {
            data.unknown += 1;
            data.footprint.miss(pass);
            return;
        }
        let at = SharedAddress::of(at);
        data.footprint.touch(pass, (at.place(), bytes), is_whole, basis);
        let who = Toucher { warp, agent, epoch, access: Access::Read, by, strong: false, basis };
        self.pieces += data.touch(clock, who, at, bytes);
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        if let Some(issued) = data.issued.get_mut(&Agent::Stream(warp, stream, lane)) {
            issued.last = Some((standing.pc, at, basis.max(standing.ground)));
        }
    }

    /// Lanes of a warp end: so may the block, while stores that nobody waited for still read its memory.
    pub(super) fn ends(&mut self, warp: usize, mask: u32) {
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        for lane in lanes_of(mask) {
            let agent = Agent::Stream(warp, Stream::Bulk, lane as u32);
            let Some(issued) = data.issued.get(&agent) else { continue };
            let (Some((pc, at, basis)), count) = (issued.last, issued.count) else { continue };
            let is_committed = issued.groups.back() == Some(&count);
            let number = data.agent(agent);
            if clock.known(number) >= count {
                continue;
            }
            let standing = data.standing.get(warp).copied().unwrap_or_default();
            let end = |pc: InstrId, by: By| End { pc, warp, access: Access::Read, by };
            data.races.push(Race {
                first: end(pc, By::BulkStore),
                second: end(standing.pc, By::Threads),
                broken: if is_committed { Broken::End } else { Broken::Group },
                at,
                basis: basis.max(standing.ground),
                handed: None,
            });
            return;
        }
    }

    /// All warps have ended: what a warp copied or multiplied, and nobody of its block waited for, may be under way.
    pub(super) fn streams_end(&mut self) {
        let done = self.warps.iter().all(Warp::is_done);
        let (Some(data), clocks) = (self.data.as_mut().filter(|_| done), &self.clocks) else { return };
        let of_warp = |stream: Stream| (0..data.warps).map(move |warp| (warp, stream));
        let streams: Vec<(usize, Stream)> = of_warp(Stream::CpAsync).chain(of_warp(Stream::Wgmma)).collect();
        for (warp, stream) in streams {
            let agent = Agent::Stream(warp, stream, 0);
            let Some((last, count)) = data.issued.get(&agent).map(|issued| (issued.last, issued.count)) else {
                continue;
            };
            let (Some((pc, at, basis)), number) = (last, data.agent(agent)) else { continue };
            let first = warp - warp % data.of_block;
            let mut there = (first..first + data.of_block).filter_map(|warp| clocks.of(warp));
            if there.any(|clock| clock.known(number) >= count) {
                continue;
            }
            let (access, by) = match stream {
                Stream::CpAsync => (Access::Write, By::CpAsync),
                _ => (Access::Read, By::Wgmma),
            };
            let end = |pc: InstrId, by: By| End { pc, warp, access, by };
            let standing = data.standing.get(warp).copied().unwrap_or_default();
            let (first, second) = (end(pc, by), end(standing.pc, By::Threads));
            let basis = basis.max(standing.ground);
            data.tell(Race { first, second, broken: Broken::End, at, basis, handed: None });
        }
    }

    /// Whether a warp that asks for the end of a phase is told that it is not over: nothing says that it is, and whoever asks only
    /// once goes on without it. The first time that it asks at a place, that is what happens.
    pub(super) fn looks_in_vain(&mut self, warp: usize, at: SharedAddress, phases: u32) -> bool {
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return false };
        let agent = data.agent(Agent::Mbarrier(at));
        let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
        let in_vain = phases > clock.known(agent) && data.asked.insert((warp as u32, pc));
        if in_vain {
            data.vain.insert(warp, (agent, pc));
        } else {
            data.vain.remove(&warp);
            data.waited.insert(warp, at);
        }
        in_vain
    }

    /// A copy that completes on an mbarrier is issued.
    pub(super) fn copy_touches(
        &mut self,
        warp: usize,
        lane: usize,
        ends: Option<CopyEnds>,
        object: SharedAddress,
        brings: Brings,
        rank: Option<u64>,
    ) {
        let Some(ends) = ends else { return };
        let here = &self.warps[warp];
        let to = self.address(here, ends.to, lane);
        let from = ends.from.map(|from| self.address(here, from, lane));
        let phase = self.machine.mbarriers.get(&object).map_or(0, |mbarrier| mbarrier.phase as u32);
        let bytes = match brings {
            Brings::Bytes(bytes) => bytes.max(0) as u64,
            Brings::Box(map) => self.box_of(map).unwrap_or(GRANULE),
            Brings::Arrival => GRANULE,
        };
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        let agent = data.agent(Agent::Mbarrier(object));
        let (does, by) = match ends.by {
            Sends::Copy => (Access::Write, By::Copy),
            Sends::Store => (Access::Write, By::Sent),
            Sends::Reduction => (Access::Atomic, By::Sent),
        };
        let strong = ends.by == Sends::Reduction;
        let signal =
            Toucher { warp, agent, epoch: phase, access: Access::Atomic, by, strong: true, basis: Basis::Fact };
        data.starts(clock, &signal, object);
        for (address, access) in [(Some(to), does), (from, Access::Read)] {
            let Some(address) = address else { continue };
            let pass = data.pass(warp, MemoryKind::Shared, access, 0);
            if address.basis >= Basis::Memory {
                data.unknown += 1;
                data.footprint.miss(pass);
                if access.writes() {
                    data.footprint.loses((object, u64::from(phase)));
                }
                continue;
            }
            let place = SharedAddress::of(address.bits).place();
            data.footprint.touch(pass, (place, bytes), matches!(brings, Brings::Bytes(_)), address.basis);
            if access.writes() {
                let to = rank.unwrap_or(SharedAddress::of(address.bits).rank());
                let known = match brings {
                    Brings::Bytes(bytes) => u64::try_from(bytes).ok(),
                    Brings::Box(_) => None,
                    Brings::Arrival => Some(0),
                };
                data.footprint.copies(pass, (object, u64::from(phase)), (place, known), to == object.rank());
            }
            let who = Toucher { warp, agent, epoch: phase, access, by, strong, basis: address.basis };
            // A copy to several blocks goes to the same place in each.
            let own = SharedAddress::of(address.bits);
            let at = match rank.filter(|_| access.writes()) {
                Some(rank) => SharedAddress::new(rank, own.place()),
                None => own,
            };
            self.pieces += data.touch(clock, who, at, bytes);
        }
    }
}

/// The lanes whose work is kept apart.
fn lanes_of_stream(stream: Stream, mask: u32) -> impl Iterator<Item = u32> {
    let mask = if stream == Stream::Bulk { mask } else { 1 };
    lanes_of(mask).map(|lane| lane as u32)
}
