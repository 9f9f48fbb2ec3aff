//! Whatever synchronises: named and cluster barriers, mbarriers, copies that complete them, and the pool of registers.

use std::rc::Rc;

use super::clock::{Clock, Place};
use super::data::Agent;
use super::flights::{Brings, Flight};
use super::step::{Next, lanes_of};
use super::{CANCELED, Run, Stop, Wait, Warp};
use crate::base::Line;
use crate::ptx::{BarrierAction, ClusterBarrierAction, RegisterAction};
use crate::sync::machine::{Arrival, BARRIERS, Fault, PENDING_SHIFT, SUBPARTITIONS, SharedAddress, state_of};
use crate::sync::program::{Address, Bytes, MbarrierOp, Multicast, Op, Reg, Source, Stream};
use crate::sync::value::{Basis, Lanes, Word};

impl Run<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn named(
        &mut self,
        warp: usize,
        mask: u32,
        action: BarrierAction,
        id: Source,
        count: Option<Source>,
        to: Option<Reg>,
        line: Line,
    ) -> Result<Next, Stop> {
        let id = self.one(warp, id, mask, line)?;
        if id >= BARRIERS {
            return Err(if self.basis >= Basis::Memory {
                Stop::Undecided(line, "the number of the barrier is not known")
            } else {
                Stop::Fault(Fault::BarrierId(id), line, warp)
            });
        }
        let expected = match count {
            None => None,
            Some(count) => {
                let count = self.one(warp, count, mask, line)?;
                let whole = u32::try_from(count).ok().filter(|count| *count > 0 && count % 32 == 0);
                Some(whole.ok_or(Stop::Fault(Fault::BarrierCount { id, count }, line, warp))?)
            }
        };
        let here = &self.warps[warp];
        let (rank, index) = (here.rank, here.index);
        // Whole warps are counted; a part of one counts for what it is where the rest goes its own way.
        let threads = if mask == here.lanes & !here.exited { 32 } else { mask.count_ones() };
        let alive = self.alive(rank);
        let barrier = self.machine.named.entry((rank, id)).or_default();
        let round = barrier.rounds;
        let over =
            barrier.arrive((id, index), threads, expected, alive).map_err(|fault| Stop::Fault(fault, line, warp))?;
        self.machine.changes += 1;
        let place = Place::Named { rank, id };
        let clock = self.clocks.send(warp);
        self.clocks.come(place, &clock);
        if threads == 32 {
            self.comes_to_round(warp, place, &clock, over);
        }
        if over {
            self.clocks.end(place);
            // Who only arrives waits for nobody. The phases of mbarriers are counted as if it did.
            if action != BarrierAction::Arrive || self.data.is_none() {
                self.clocks.learn(warp, place);
            }
        }
        if let Some(to) = to {
            let word = Word { bits: self.scenario.memory.elsewhere(), basis: Basis::Memory };
            self.write(warp, Some(to), mask, Lanes::Same(word));
        }
        Ok(if over || action == BarrierAction::Arrive { Next::On } else { Next::Then(Wait::Named { id, round }) })
    }

    pub(super) fn cluster(
        &mut self,
        warp: usize,
        mask: u32,
        action: ClusterBarrierAction,
        line: Line,
    ) -> Result<Next, Stop> {
        let waits = action == ClusterBarrierAction::Wait;
        let here = &mut self.warps[warp];
        let out_of_order = if waits { here.in_cluster & mask != mask } else { here.in_cluster & mask != 0 };
        if out_of_order {
            return Err(Stop::Fault(Fault::ClusterOrder { waits }, line, warp));
        }
        if !waits {
            here.in_cluster |= mask;
            if here.arrived_in != self.machine.cluster.phase {
                (here.arrived_in, here.arrived) = (self.machine.cluster.phase, 0);
            }
            here.arrived |= mask;
            self.machine.cluster.arrived += mask.count_ones();
            self.machine.changes += 1;
            let clock = self.tells(warp);
            self.clocks.come(Place::Cluster, &clock);
            self.settle_cluster();
            return Ok(Next::On);
        }
        here.in_cluster &= !mask;
        // Its own arrival is in the round under way, or in one that is over.
        let phase = here.arrived_in;
        if phase >= self.machine.cluster.phase {
            return Ok(Next::Then(Wait::Cluster { phase }));
        }
        self.clocks.learn(warp, Place::Cluster);
        Ok(Next::On)
    }

    pub(super) fn mbarrier(
        &mut self,
        warp: usize,
        mask: u32,
        op: &MbarrierOp,
        at: Address,
        line: Line,
        timed_out: bool,
    ) -> Result<Next, Stop> {
        let fault = |fault| Stop::Fault(fault, line, warp);
        match *op {
            MbarrierOp::Init { count } => {
                for lane in lanes_of(mask) {
                    let at = self.object(warp, at, lane, line)?;
                    let word = self.word(&self.warps[warp], count, lane);
                    self.basis = self.basis.max(word.basis);
                    self.check_flights(at)?;
                    self.machine.init(at, word.bits & 0xffff_ffff).map_err(fault)?;
                    self.clocks.forget(Place::Mbarrier(at));
                }
            }
            MbarrierOp::Inval => {
                for lane in lanes_of(mask) {
                    let at = self.object(warp, at, lane, line)?;
                    self.check_flights(at)?;
                    self.machine.mbarrier(at).map_err(fault)?.invalidate();
                }
            }
            MbarrierOp::ExpectTx { bytes } | MbarrierOp::CompleteTx { bytes } => {
                let completes = matches!(op, MbarrierOp::CompleteTx { .. });
                for lane in lanes_of(mask) {
                    let at = self.object(warp, at, lane, line)?;
                    let word = self.word(&self.warps[warp], bytes, lane);
                    self.basis = self.basis.max(word.basis);
                    let bytes = i64::from(word.bits as u32);
                    let mbarrier = self.machine.mbarrier(at).map_err(fault)?;
                    let before = mbarrier.phase;
                    if completes {
                        let equation = mbarrier.complete(at, bytes).map_err(fault)?;
                        self.equations.extend(equation);
                    } else {
                        if word.basis >= Basis::Input {
                            mbarrier.guess();
                        }
                        mbarrier.expect(at, bytes).map_err(fault)?;
                    }
                    if let Some(data) = self.data.as_mut().filter(|_| !completes) {
                        data.footprint.announce((at, before), bytes, word.basis, line);
                    }
                    let is_over = mbarrier.phase != before;
                    if !completes {
                        self.announces(warp, at, before);
                    }
                    self.comes_now(at, line, warp, is_over);
                }
            }
            MbarrierOp::Arrive { count, bytes, drop, to, .. } => {
                // Lanes of a warp arrive at an object as one.
                let mut groups: Vec<(SharedAddress, u64, i64, u32)> = Vec::new();
                let mut announced_by = Basis::Fact;
                let each = self.apart(warp, mask, [at.base, count, bytes.unwrap_or(count)]);
                for (lane, lanes) in each {
                    let at = self.object(warp, at, lane, line)?;
                    let here = &self.warps[warp];
                    let count = self.word(here, count, lane);
                    let bytes = bytes.map_or_else(Word::default, |bytes| self.word(here, bytes, lane));
                    self.basis = self.basis.max(count.basis).max(bytes.basis);
                    announced_by = announced_by.max(bytes.basis);
                    let arrivals = u64::from(lanes.count_ones()) * (count.bits & 0xffff_ffff);
                    let bytes = i64::from(lanes.count_ones()) * i64::from(bytes.bits as u32);
                    match groups.iter_mut().find(|(other, ..)| *other == at) {
                        Some((_, all, announced, mask)) => {
                            *all += arrivals;
                            *announced += bytes;
                            *mask |= lanes;
                        }
                        None => groups.push((at, arrivals, bytes, lanes)),
                    }
                }
                for (at, arrivals, bytes, lanes) in groups {
                    let mbarrier = self.machine.mbarrier(at).map_err(fault)?;
                    let (phase, pending) = (mbarrier.phase, u64::from(mbarrier.pending));
                    if announced_by >= Basis::Input {
                        mbarrier.guess();
                    }
                    let equation = mbarrier.arrive(at, arrivals, Arrival { bytes, drop }).map_err(fault)?;
                    let is_over = mbarrier.phase != phase;
                    if let Some(data) = self.data.as_mut().filter(|_| bytes > 0) {
                        data.footprint.announce((at, phase), bytes, announced_by, line);
                    }
                    if bytes > 0 {
                        self.announces(warp, at, phase);
                    }
                    self.equations.extend(equation);
                    self.arrives_at(warp, at);
                    self.comes_now(at, line, warp, is_over);
                    // Lanes come one after the other: each finds what those before it have left.
                    let each = arrivals / u64::from(lanes.count_ones().max(1));
                    let state = if self.program.counts_pending {
                        Lanes::each(|lane| {
                            let before = u64::from((lanes & ((1 << lane) - 1)).count_ones());
                            Word::fact(state_of(phase, pending.saturating_sub(before * each)))
                        })
                    } else {
                        Lanes::Same(Word::fact(phase))
                    };
                    self.write(warp, to, lanes, state);
                }
            }
            MbarrierOp::Wait { to, phase, parity, flipped } => {
                let mut done = 0u32;
                let mut missing = None;
                for (lane, lanes) in self.apart(warp, mask, [at.base, phase, phase]) {
                    let at = self.object(warp, at, lane, line)?;
                    let mut word = self.word(&self.warps[warp], phase, lane);
                    word.bits ^= u64::from(flipped);
                    if !parity {
                        word.bits &= (1 << PENDING_SHIFT) - 1;
                    }
                    self.basis = self.basis.max(word.basis);
                    let mbarrier = self.machine.mbarrier(at).map_err(fault)?;
                    let over = if parity { mbarrier.is_over(word.bits) } else { mbarrier.phase != word.bits };
                    let phases = mbarrier.phase as u32;
                    if over && self.looks_in_vain(warp, at, phases) {
                        continue;
                    }
                    if over {
                        done |= lanes;
                        self.meet(warp);
                        self.clocks.learn(warp, Place::Mbarrier(at));
                    } else {
                        let phase = if parity { word.bits & 1 } else { word.bits };
                        missing = missing.or(Some(Wait::Mbarrier { at, phase, parity }));
                    }
                }
                if let Some(wait) = missing
                    && !timed_out
                {
                    return Ok(Next::Again(wait));
                }
                let value = Lanes::each(|lane| Word::fact(u64::from(done >> lane & 1)));
                self.write(warp, to, mask, value);
                return Ok(Next::On);
            }
        }
        self.machine.changes += 1;
        Ok(Next::On)
    }

    /// What a warp knows when it issues something that comes later.
    pub(super) fn sent(&mut self, warp: usize) -> Rc<Clock> {
        self.sent_after(warp, None)
    }

    /// The same where it comes after all that the warp has issued of a kind.
    pub(super) fn sent_after(&mut self, warp: usize, stream: Option<Stream>) -> Rc<Clock> {
        // Each is kept, as long as what it was issued with is under way.
        self.looks_at(4 * self.warps.len());
        let mut clock = self.clocks.send(warp);
        if let (Some(data), Some(stream)) = (&mut self.data, stream) {
            let (agent, issued) = data.issued(warp, stream);
            clock.raise(agent, issued);
        }
        Rc::new(clock)
    }

    /// What an arrival tells of what its warp knows.
    fn tells(&mut self, warp: usize) -> Clock {
        let clock = self.clocks.send(warp);
        match &self.data {
            Some(data) => data.tells(warp, clock, &self.program.relaxed),
            None => clock,
        }
    }

    /// A warp comes to an mbarrier, which may end its phase.
    fn comes_now(&mut self, at: SharedAddress, line: Line, warp: usize, is_over: bool) {
        self.looks_at(self.warps.len());
        let clock = self.tells(warp);
        self.comes(at, &clock, line, warp);
        if is_over {
            self.end_phase(at);
        }
    }

    /// A phase of an mbarrier is over: so are the copies that it waited for.
    pub(super) fn end_phase(&mut self, at: SharedAddress) {
        if let Some(data) = &mut self.data {
            let phases = self.machine.mbarriers.get(&at).map_or(0, |mbarrier| mbarrier.phase as u32);
            self.clocks.bring(Place::Mbarrier(at), data.agent(Agent::Mbarrier(at)), phases);
        }
        self.clocks.end(Place::Mbarrier(at));
    }

    /// Looks for copies under way to an object that is given up, whose phase is over: nobody waits for them any more.
    fn check_flights(&mut self, at: SharedAddress) -> Result<(), Stop> {
        let Ok(mbarrier) = self.machine.mbarrier(at) else { return Ok(()) };
        let (now, owed, announced) = (mbarrier.phase, mbarrier.is_owed(), mbarrier.announced > 0);
        let is_late = |flight: &&Flight| flight.at == at && flight.phase.is_some_and(|of| of != now || !announced);
        let late = self.flights.iter().find(is_late).map(|flight| flight.from);
        match late.or_else(|| self.copied.get(&at).copied().filter(|_| owed)) {
            Some((warp, line)) => Err(Stop::Fault(Fault::Unannounced(at), line, warp)),
            None => Ok(()),
        }
    }

    /// The objects that a lane names, in every block of a mask where it has one, and that block.
    pub(super) fn objects(
        &mut self,
        warp: usize,
        at: Address,
        multicast: Option<Multicast>,
        lane: usize,
        line: Line,
    ) -> Result<Vec<(u64, SharedAddress)>, Stop> {
        let own = self.object(warp, at, lane, line)?;
        let Some(Multicast { mask, pairs }) = multicast else { return Ok(vec![(own.rank(), own)]) };
        let word = self.word(&self.warps[warp], mask, lane);
        self.basis = self.basis.max(word.basis);
        let blocks = u64::from(self.launch.blocks());
        let ranks = (0..blocks).filter(|rank| word.bits >> rank & 1 == 1);
        let signalled = |rank: u64| if pairs { rank & !1 | own.rank() & 1 } else { rank };
        Ok(ranks.map(|rank| (rank, SharedAddress::new(signalled(rank), own.place()))).collect())
    }

    pub(super) fn copy(&mut self, warp: usize, mask: u32, op: &Op, line: Line) -> Result<(), Stop> {
        let Op::Copy { at, bytes, multicast, response, ends } = *op else { return Ok(()) };
        self.steps += u64::from(mask.count_ones());
        let clock = self.sent(warp);
        for lane in lanes_of(mask) {
            // One answer for all blocks that it goes to.
            self.cancels += u32::from(response.is_some());
            let answer = u64::from(self.cancels <= CANCELED);
            let place = response.map(|at| SharedAddress::of(self.address(&self.warps[warp], at, lane).bits).place());
            for (rank, at) in self.objects(warp, at, multicast, lane, line)? {
                let here = &self.warps[warp];
                self.copies_cross |= at.rank() != here.rank;
                let brings = match bytes {
                    Bytes::Number(bytes) => {
                        let word = self.word(here, bytes, lane);
                        self.basis = self.basis.max(word.basis);
                        Brings::Bytes(i64::from(word.bits as u32))
                    }
                    Bytes::Map(map) => {
                        let address = self.address(here, map, lane);
                        // Where memory tells the map, copies of one line are taken to be by one.
                        let known = address.basis < Basis::Memory;
                        Brings::Box(if known { address.bits } else { u64::MAX - u64::from(line.0) })
                    }
                };
                let mbarrier = self.machine.mbarrier(at).map_err(|fault| Stop::Fault(fault, line, warp))?;
                mbarrier.start();
                let (phase, is_announced) = (mbarrier.phase, mbarrier.announced > 0);
                self.copies_for(warp, (at, phase), is_announced);
                let phase = Some(phase);
                self.copy_touches(warp, lane, ends, at, brings, multicast.map(|_| rank));
                let leaves = place.map(|place| (SharedAddress::new(at.rank(), place), answer));
                self.pieces += 8;
                self.flights.push_back(Flight { at, brings, phase, leaves, from: (warp, line), clock: clock.clone() });
            }
        }
        self.machine.changes += 1;
        Ok(())
    }

    pub(super) fn set_registers(
        &mut self,
        warp: usize,
        action: RegisterAction,
        count: u32,
        line: Line,
    ) -> Result<Next, Stop> {
        if self.launch.registers.is_none() {
            return Ok(Next::On);
        }
        let Warp { rank, held, count: has, has_set, asked_fewer, index, .. } = self.warps[warp];
        let Some(pools) = self.machine.pools.get_mut(rank as usize) else { return Ok(Next::On) };
        let fault = |has: u32, count: u32| Stop::Fault(Fault::Registers { action, has, count }, line, warp);
        match (action, asked_fewer) {
            // Seen on an H200: an illegal instruction.
            (RegisterAction::Dec, _) if count > has => return Err(fault(has, count)),
            (RegisterAction::Inc, _) if count < has && has_set => return Err(fault(has, count)),
            (RegisterAction::Inc, Some((had, fewer))) => return Err(fault(had, fewer)),
            // Seen on an H200: nothing happens to whoever has not set anything, until it asks again.
            (RegisterAction::Inc, None) if count < has => {
                self.warps[warp].asked_fewer = Some((has, count));
                return Ok(Next::On);
            }
            _ => {}
        }
        if !pools[index as usize % SUBPARTITIONS].change(held, count) {
            return Ok(Next::Again(Wait::Registers { count }));
        }
        self.machine.changes += 1;
        let warp = &mut self.warps[warp];
        (warp.held, warp.count, warp.has_set) = (count, count, true);
        Ok(Next::On)
    }
}
