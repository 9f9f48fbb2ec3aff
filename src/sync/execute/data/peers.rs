//! Blocks of a cluster that touch each other's memory: those have to be there that own it.

use super::super::{Run, Warp};
use super::{Broken, By, Data, End, GRANULE, Race, Record, Toucher};
use crate::base::FastMap;
use crate::sync::execute::clock::Clock;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Access, InstrId};
use crate::sync::value::Basis;

/// By block, warp and instruction: the last arrival at an mbarrier of that block, when it came, and what leads there.
pub(super) type Arrivals = FastMap<(usize, usize, InstrId), (u32, SharedAddress, Basis)>;

impl Data {
    /// The memory of a block that has not started is nobody's.
    pub(super) fn starts(&mut self, clock: &Clock, who: &Toucher, at: SharedAddress) {
        let rank = at.rank() as usize;
        if rank == who.warp / self.of_block {
            return;
        }
        let mut there = rank * self.of_block..(rank + 1) * self.of_block;
        if !there.any(|warp| clock.passed(warp) > 0) {
            self.peer(who, at, Broken::Start);
        }
    }

    /// An access of another block's memory while that block may not be there.
    fn peer(&mut self, who: &Toucher, at: SharedAddress, broken: Broken) {
        let standing = self.standing.get(who.warp).copied().unwrap_or_default();
        let end = End { pc: standing.pc, warp: who.warp, access: who.access, by: who.by };
        let basis = who.basis.max(standing.ground);
        self.tell(Race { first: end, second: end, broken, at, basis, handed: None });
    }
}

impl Run<'_> {
    /// A warp arrives at an mbarrier, which may be another block's.
    pub(in crate::sync::execute) fn arrives_at(&mut self, warp: usize, at: SharedAddress) {
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        let (rank, epoch) = (at.rank() as usize, clock.known(warp));
        let pc = data.standing.get(warp).map_or(InstrId::ENTRY, |standing| standing.pc);
        data.arrived.insert((at, warp), pc);
        if rank == warp / data.of_block || rank >= data.warps / data.of_block {
            return;
        }
        let (access, by) = (Access::Atomic, By::Threads);
        let who = Toucher { warp, agent: warp, epoch, access, by, strong: true, basis: Basis::Fact };
        data.starts(clock, &who, at);
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        data.arrivals.insert((rank, warp, standing.pc), (epoch, at, standing.ground));
    }

    /// All blocks have ended: who touched the memory of another one has to be known there to be done.
    pub(in crate::sync::execute) fn blocks_end(&mut self) {
        let done = self.warps.iter().all(Warp::is_done);
        let (Some(data), clocks) = (self.data.as_mut().filter(|_| done), &self.clocks) else { return };
        let of_block = data.of_block;
        let mut found: Vec<(Record, SharedAddress)> = Vec::new();
        for (rank, cells) in data.shadow.iter().enumerate().take(data.warps / of_block) {
            let there = || (rank * of_block..(rank + 1) * of_block).filter_map(|warp| clocks.of(warp));
            for (granule, cell) in (0u64..).zip(cells) {
                let late = |record: &&Record| {
                    let is_peer = usize::from(record.warp) / of_block != rank && record.by == By::Threads;
                    is_peer && !there().any(|clock| clock.passed(record.agent as usize) > record.epoch)
                };
                let Some(record) = cell.iter().find(late) else { continue };
                found.push((*record, SharedAddress::new(rank as u64, granule * GRANULE)));
            }
        }
        for ((rank, warp, pc), (epoch, at, basis)) in &data.arrivals {
            let mut there = (rank * of_block..(rank + 1) * of_block).filter_map(|warp| clocks.of(warp));
            if there.any(|clock| clock.passed(*warp) > *epoch) {
                continue;
            }
            let (access, by, agent) = (Access::Atomic, By::Threads, *warp as u32);
            let (mask, strong) = (0, true);
            let record =
                Record { agent, epoch: *epoch, pc: *pc, mask, warp: *warp as u16, access, by, strong, basis: *basis };
            found.push((record, *at));
        }
        found.sort_by_key(|(record, at)| (record.pc, record.warp, *at));
        for (record, at) in found {
            let end = End { pc: record.pc, warp: record.warp.into(), access: record.access, by: record.by };
            let basis = record.basis;
            data.tell(Race { first: end, second: end, broken: Broken::Gone, at, basis, handed: None });
        }
    }
}
