//! What instructions do to data: what they touch, the work that they start, and the waits that end it.

use super::super::flights::Brings;
use super::super::footprint::{MemoryKind, OBJECT};
use super::super::step::lanes_of;
use super::super::{Run, Warp};
use super::columns::{Misuse, Misused, Product};
use super::{Agent, Broken, By, End, GRANULE, Race, Toucher, WARPGROUP, WORD};
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{
    Access, Accumulates, Address, Bytes, CopyEnds, DataOp, InstrId, Sends, Source, Space, Stream, TensorLanes,
};
use crate::sync::value::Basis;

/// Where a descriptor has its address, in granules.
const DESCRIPTOR: u64 = 0x3fff;
/// Where a descriptor has the stride between groups of eight rows.
const STRIDE_SHIFT: u32 = 32;
/// Where a descriptor of wgmma says how its rows are swizzled.
const SWIZZLE_SHIFT: u32 = 62;
/// Where an instruction descriptor has the columns of the result, in units of 8.
const COLUMNS_SHIFT: u32 = 17;
/// Where an instruction descriptor has the rows of the result, in units of 16.
const ROWS_SHIFT: u32 = 24;
/// That field of 64 rows, which lie in half of each warp's lanes.
const HALF_ROWS: u64 = 4;
/// Flags that one instruction is taken to read or write: lanes that each have their own count, and tell nothing.
const MOST_FLAGS: usize = 2;
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

impl Run<'_> {
    /// Lanes of a warp touch shared memory themselves.
    pub(in crate::sync::execute) fn touches(
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
    pub(in crate::sync::execute) fn allocates(&mut self, warp: usize, lane: usize, at: Address) {
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
            if access != Access::Write {
                if let Some(told) = data.flags.get(at) {
                    self.clocks.join(warp, told);
                }
                match data.relaxed.get(at).copied() {
                    Some(writer) => data.heard.insert(warp, writer),
                    None => data.heard.remove(&warp),
                };
            }
            if access.writes() {
                let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
                match self.program.relaxed.binary_search(&pc) {
                    Ok(_) => data.relaxed.insert(*at, (warp, pc)),
                    Err(_) => data.relaxed.remove(at),
                };
            }
            let clock = clock.map(|clock| data.tells(warp, clock, &self.program.relaxed));
            if let Some(clock) = clock {
                data.flags.entry(*at).or_default().join(&clock);
            }
        }
    }

    /// Whether a warp that waits for its warpgroup's products has to wait for other warps to have issued them: the four multiply
    /// together, and no product is done before all of them have come to it. An H200 lets them go on together.
    pub(in crate::sync::execute) fn awaits_warpgroup(&self, warp: usize, pending: Option<u32>) -> bool {
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
    pub(in crate::sync::execute) fn data(&mut self, warp: usize, mask: u32, op: &DataOp) {
        match *op {
            DataOp::Touch { access, space, at, bytes, lanes, together } => {
                if together {
                    self.meet(warp);
                }
                self.touches(warp, mask & lanes, access, (space, at, bytes));
            }
            DataOp::CopyAsync { to, bytes, from } => {
                if let Some(from) = from {
                    self.reads_so_many(warp, mask, (from, bytes));
                }
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
                let count = if wide { (shape >> COLUMNS_SHIFT & 0x3f) * 8 } else { 1 };
                let halves = by_rows && shape >> ROWS_SHIFT & 0x1f == HALF_ROWS;
                let lanes = if halves { TensorLanes::Halves } else { TensorLanes::All };
                self.accumulates(warp, lane, (to, count), adds.filter(|_| !pair));
                match pair {
                    true => self.multiplies_for_both(warp),
                    false => self.multiplies(warp, lane, (to, a), (shape, wide)),
                }
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
                    let over = data.wait(Agent::Stream(warp, stream, lane), pending);
                    if let Some((agent, over)) = over {
                        self.clocks.raise(warp, agent, over);
                    }
                    if stream == Stream::CpAsync {
                        let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
                        let (agent, issued) = data.issued(warp, stream);
                        data.waits.insert(agent, (pc, issued, over.map_or(0, |(_, over)| over)));
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

    /// A thread of a pair of blocks multiplies for both: in one of them.
    fn multiplies_for_both(&mut self, warp: usize) {
        let rank = self.warps[warp].rank;
        let Some(data) = &mut self.data else { return };
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        data.columns.multiplies_for_both(rank, standing.pc, standing.ground);
    }

    /// A thread multiplies into tensor memory, by a shape as an instruction descriptor has it.
    fn multiplies(
        &mut self,
        warp: usize,
        lane: usize,
        (to, a): (Address, Option<Address>),
        (shape, is_wide): (u64, bool),
    ) {
        let here = &self.warps[warp];
        let (rank, first) = (here.rank, self.address(here, to, lane));
        let a = a.map(|a| self.address(here, a, lane)).filter(|a| a.basis < Basis::Memory);
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        let (columns, rows) = ((shape >> COLUMNS_SHIFT & 0x3f) * 8, shape >> ROWS_SHIFT & 0x1f);
        if first.basis >= Basis::Memory || columns == 0 {
            return;
        }
        let (agent, epoch) = data.issued(warp, Stream::Tcgen05);
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        let pc = standing.pc;
        let product = Product { rank, agent, epoch, pc, first: first.bits & 0xffff_ffff, columns, rows, is_wide };
        if let Some(misuse) = data.columns.multiplies(clock, product, a.map(|a| a.bits)) {
            let basis = first.basis.max(a.map_or(Basis::Fact, |a| a.basis)).max(standing.ground);
            data.columns.keep(Misused { pc, misuse, basis });
        }
    }

    /// Lanes of a warp have met.
    pub(in crate::sync::execute) fn meet(&mut self, warp: usize) {
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
    pub(in crate::sync::execute) fn ends(&mut self, warp: usize, mask: u32) {
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
    pub(in crate::sync::execute) fn streams_end(&mut self) {
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
    pub(in crate::sync::execute) fn looks_in_vain(&mut self, warp: usize, at: SharedAddress, phases: u32) -> bool {
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
    pub(in crate::sync::execute) fn copy_touches(
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
