//! One instruction of one strand.

use std::borrow::Cow;

use super::clock::Place;
use super::compute::{Argument, apply, apply_to_all};
use super::flights::{Brings, Flight};
use super::footprint::{MemoryKind, OBJECT};
use super::{QUOTA, Run, State, Stop, Strand, Wait, Warp};
use crate::base::Line;
use crate::simt::eval::number::Comparison;
use crate::sync::LANES;
use crate::sync::machine::{Fault, SharedAddress};
use crate::sync::program::{Access, Address, DataOp, InstrId, MbarrierOp, Op, Reg, Source, Space, Special, Stream};
use crate::sync::value::{Basis, Lanes, Row, Word, opaque};

/// What becomes of a strand after an instruction.
pub(super) enum Next {
    /// It goes on with the next.
    On,
    /// It waits here, and tries again when something has changed.
    Again(Wait),
    /// It waits; when that is over it goes on with the next.
    Then(Wait),
    /// It has been dealt with.
    Done,
}

#[inline]
pub(super) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

impl Run<'_> {
    /// Runs a warp until it has changed the machine so often, or cannot go on. Gives the line it spins at, if it spins.
    pub(super) fn turn(&mut self, warp: usize, changes: u64) -> Result<Option<Line>, Stop> {
        let until = self.machine.changes + changes;
        let mut left = QUOTA;
        while self.machine.changes < until {
            let Some(strand) = self.pick(warp) else { return Ok(None) };
            let pc = self.warps[warp].strands[strand].pc;
            let line = self.line(pc);
            if left == 0 {
                return Ok(Some(line));
            }
            left -= 1;
            self.steps += 1;
            self.pieces += 4;
            if self.is_spent() {
                return Err(self.spent(pc));
            }
            if self.recorder.is_some() && self.works(warp, strand) {
                return Ok(None);
            }
            self.machine.touched.clear();
            let before = if self.recorder.is_some() { self.before(warp, strand) } else { None };
            self.step(warp, strand)?;
            if let Some(before) = before {
                self.observe(warp, &before);
            }
        }
        Ok(None)
    }

    pub(super) fn spent(&self, pc: InstrId) -> Stop {
        Stop::Undecided(self.line(pc), "the budget of steps is spent")
    }

    #[inline]
    pub(super) fn line(&self, pc: InstrId) -> Line {
        self.program.code.get(pc).or(self.program.code.last()).map_or(Line(0), |instr| instr.line)
    }

    /// The strand to go on with: the one furthest behind in the text, those that have met joined.
    fn pick(&mut self, warp: usize) -> Option<usize> {
        let now = self.machine.changes;
        let cluster = self.machine.cluster.phase;
        let (machine, clocks, at) = (&self.machine, &mut self.clocks, warp);
        let warp = self.warps.get_mut(at)?;
        for strand in &mut warp.strands {
            if let State::Waiting { what, seen } = strand.state {
                let over = match what {
                    Wait::Named { id, round } => {
                        machine.named.get(&(warp.rank, id)).is_some_and(|barrier| barrier.rounds > round)
                    }
                    Wait::Cluster { phase } => cluster > phase,
                    _ => false,
                };
                if over {
                    (strand.state, strand.pc) = (State::Ready, strand.pc.next());
                    match what {
                        Wait::Named { id, .. } => clocks.learn(at, Place::Named { rank: warp.rank, id }),
                        _ => clocks.learn(at, Place::Cluster),
                    }
                } else if seen != now && !matches!(what, Wait::Named { .. } | Wait::Cluster { .. }) {
                    strand.state = State::Ready;
                }
            }
        }
        let strands = warp.strands.len();
        if strands > 1 {
            self.pieces += (strands * strands) as u64 / 4;
            join(&mut warp.strands);
        }
        let ready =
            warp.strands.iter().enumerate().filter(|(_, strand)| !matches!(strand.state, State::Waiting { .. }));
        ready.min_by_key(|(_, strand)| strand.pc).map(|(at, _)| at)
    }

    #[inline]
    pub(super) fn word(&self, warp: &Warp, source: Source, lane: usize) -> Word {
        match source {
            Source::Reg(reg) => warp.registers.get(reg).map_or_else(Word::default, |held| held.lane(lane)),
            Source::Not(reg) => {
                let word = self.word(warp, Source::Reg(reg), lane);
                Word { bits: word.bits & 1 ^ 1, ..word }
            }
            Source::Minus(reg) => {
                let word = self.word(warp, Source::Reg(reg), lane);
                Word { bits: word.bits.wrapping_neg(), ..word }
            }
            Source::Number(bits) => Word::fact(bits),
            Source::Shared(place) => Word::fact(SharedAddress::new(warp.rank, place).0),
            Source::Special(special) => self.special(warp, special, lane),
            Source::Unknown => Word { bits: self.scenario.memory.elsewhere(), basis: Basis::Memory },
        }
    }

    /// What all lanes of a warp have of a source: held in a register, or made.
    #[inline]
    fn row<'w>(&self, warp: &'w Warp, source: Source) -> Cow<'w, Lanes> {
        match source {
            Source::Reg(reg) => warp.registers.get(reg).map_or_else(Cow::default, Cow::Borrowed),
            Source::Number(bits) => Cow::Owned(Lanes::Same(Word::fact(bits))),
            _ => Cow::Owned(Lanes::of(self.is_same(warp, source), |lane| self.word(warp, source, lane))),
        }
    }

    /// Whether all lanes have the same of it.
    #[inline]
    pub(super) fn is_same(&self, warp: &Warp, source: Source) -> bool {
        match source {
            Source::Reg(reg) | Source::Not(reg) | Source::Minus(reg) => {
                warp.registers.get(reg).is_none_or(Lanes::is_same)
            }
            Source::Special(Special::Tid(_) | Special::Lane | Special::LaneMask(_)) => false,
            _ => true,
        }
    }

    /// Lanes with the same of all sources together: the first of them, and all of them.
    pub(super) fn apart(
        &self,
        warp: usize,
        mask: u32,
        sources: [Source; 3],
    ) -> impl Iterator<Item = (usize, u32)> + use<> {
        let here = &self.warps[warp];
        let same = sources.iter().all(|source| self.is_same(here, *source));
        let (first, all) = if same { (mask & mask.wrapping_neg(), mask) } else { (mask, 0) };
        lanes_of(first).map(move |lane| (lane, all | 1 << lane))
    }

    fn special(&self, warp: &Warp, special: Special, lane: usize) -> Word {
        let thread = warp.index * 32 + lane as u32;
        let [x, y, _] = self.launch.block;
        let axis = |numbers: [u32; 3], axis: u8| u64::from(numbers.get(usize::from(axis)).copied().unwrap_or(1));
        let [cx, cy, _] = self.launch.cluster;
        let rank = warp.rank as u32;
        let in_cluster = [rank % cx.max(1), rank / cx.max(1) % cy.max(1), rank / (cx * cy).max(1)];
        let clusters = self.scenario.input.clusters();
        let input = |bits: u64| Word { bits, basis: Basis::Input };
        match special {
            Special::Tid(0) => Word::fact(u64::from(thread % x.max(1))),
            Special::Tid(1) => Word::fact(u64::from(thread / x.max(1) % y.max(1))),
            Special::Tid(_) => Word::fact(u64::from(thread / (x * y).max(1))),
            Special::Ntid(at) => Word::fact(axis(self.launch.block, at)),
            Special::Ctaid(at) => input(axis(in_cluster, at)),
            Special::Nctaid(0) => input(u64::from(cx * clusters)),
            Special::Nctaid(at) => input(axis(self.launch.cluster, at)),
            Special::Lane => Word::fact(lane as u64),
            Special::Warp => Word::fact(u64::from(warp.index)),
            Special::LaneMask(how) => {
                let bit = 1u64 << lane;
                let all = u64::from(u32::MAX);
                Word::fact(match how {
                    Comparison::Equal => bit,
                    Comparison::Less => bit - 1,
                    Comparison::LessOrEqual => (bit - 1) | bit,
                    Comparison::Greater => all & !((bit - 1) | bit),
                    _ => all & !(bit - 1),
                })
            }
            Special::ClusterRank => Word::fact(warp.rank),
            Special::ClusterSize => Word::fact(u64::from(self.launch.blocks())),
            Special::ClusterCtaid(at) => Word::fact(axis(in_cluster, at)),
            Special::ClusterNctaid(at) => Word::fact(axis(self.launch.cluster, at)),
            Special::ClusterId(_) => input(0),
            Special::NclusterId(0) => input(u64::from(clusters)),
            Special::NclusterId(_) => input(1),
            Special::Other => Word { bits: self.scenario.memory.elsewhere(), basis: Basis::Memory },
        }
    }

    /// What all lanes of a mask have, where one instruction can have only one; the ground is remembered.
    pub(super) fn one(&mut self, warp: usize, source: Source, mask: u32, line: Line) -> Result<u64, Stop> {
        let here = &self.warps[warp];
        match self.row(here, source).uniform(mask) {
            Some(word) => {
                self.basis = self.basis.max(word.basis);
                Ok(word.bits)
            }
            None => Err(Stop::Undecided(line, "lanes of one warp give different numbers here")),
        }
    }

    pub(super) fn address(&self, warp: &Warp, at: Address, lane: usize) -> Word {
        let word = self.word(warp, at.base, lane);
        Word { bits: word.bits.wrapping_add_signed(at.offset), ..word }
    }

    /// The shared address that a lane gives to an instruction on an mbarrier, its block checked.
    pub(super) fn object(&mut self, warp: usize, at: Address, lane: usize, line: Line) -> Result<SharedAddress, Stop> {
        let word = self.address(&self.warps[warp], at, lane);
        self.basis = self.basis.max(word.basis);
        let address = SharedAddress::of(word.bits);
        if let Some(data) = &mut self.data {
            let pass = data.pass(warp, MemoryKind::Shared, Access::Atomic, OBJECT.0);
            data.footprint.touch(pass, (address.place(), OBJECT.1), true, word.basis);
        }
        if address.rank() >= u64::from(self.launch.blocks()) {
            return Err(if word.basis >= Basis::Memory {
                Stop::Undecided(line, "the address of an mbarrier is not known")
            } else {
                Stop::Fault(Fault::Rank(address.rank()), line, warp)
            });
        }
        Ok(address)
    }

    #[inline]
    pub(super) fn write(&mut self, warp: usize, to: Option<Reg>, mask: u32, value: Lanes) {
        if let Some(reg) = to
            && let Some(held) = self.warps[warp].registers.get_mut(reg)
        {
            held.write(mask, value);
        }
    }

    /// Carries out the instruction that a strand stands at.
    fn step(&mut self, warp: usize, strand: usize) -> Result<(), Stop> {
        let Strand { mask, pc, state } = self.warps[warp].strands[strand];
        let program = self.program;
        let Some(instr) = program.code.get(pc) else {
            self.exit(warp, strand, mask);
            return Ok(());
        };
        let mut ground = Basis::Fact;
        let guarded = match instr.guard {
            None => mask,
            Some((reg, negated)) => {
                let held = &self.warps[warp].registers[reg];
                let on = match held {
                    Lanes::Same(word) if (word.bits & 1 == 1) != negated => mask,
                    Lanes::Same(_) => 0,
                    Lanes::Each(_) => {
                        let on = lanes_of(mask).filter(|lane| (held.lane(*lane).bits & 1 == 1) != negated);
                        on.fold(0, |all, lane| all | 1 << lane)
                    }
                };
                // Numbers that are only computed decide nothing yet.
                if !matches!(instr.op, Op::Compute { .. } | Op::Load { .. } | Op::Unknown { .. }) {
                    ground = held.basis(mask);
                    if !matches!(instr.op, Op::Data(_)) {
                        self.basis = self.basis.max(ground);
                    }
                }
                on
            }
        };
        if let Some(data) = &mut self.data {
            data.stands(warp, pc, ground, matches!(instr.op, Op::Branch { .. } | Op::BranchIndexed { .. }));
        }
        if guarded == 0 {
            self.warps[warp].strands[strand].pc = pc.next();
            return Ok(());
        }
        let line = instr.line;
        self.pieces += self.price(warp, &instr.op, guarded);
        let next = match &instr.op {
            Op::Branch { to } => {
                self.parts(warp, guarded, mask);
                self.branch(warp, strand, &[(*to, guarded), (pc.next(), mask & !guarded)]);
                Next::Done
            }
            Op::BranchIndexed { index, to } => {
                let mut ways: Vec<(InstrId, u32)> = vec![(pc.next(), mask & !guarded)];
                for lane in lanes_of(guarded) {
                    let word = self.word(&self.warps[warp], *index, lane);
                    self.basis = self.basis.max(word.basis);
                    let Some(target) = usize::try_from(word.bits).ok().and_then(|at| to.get(at)) else {
                        if word.basis >= Basis::Input {
                            return Err(Stop::Undecided(line, "the index of this branch is not known"));
                        }
                        return Err(Stop::Fault(Fault::BranchIndex(word.bits), line, warp));
                    };
                    match ways.iter_mut().find(|(way, _)| way == target) {
                        Some((_, lanes)) => *lanes |= 1 << lane,
                        None => ways.push((*target, 1 << lane)),
                    }
                }
                self.branch(warp, strand, &ways);
                Next::Done
            }
            Op::Exit => {
                self.exit(warp, strand, guarded);
                Next::Done
            }
            Op::Trap => return Err(Stop::Fault(Fault::Trap, line, warp)),
            Op::Compute { .. } | Op::Pack { .. } | Op::Unpack { .. } | Op::Unknown { .. } => {
                self.numbers(warp, guarded, &instr.op);
                Next::On
            }
            Op::Load { space, to, at, bits } => {
                let bytes = bits / 8 * to.len() as u32;
                self.touches(warp, guarded, Access::Read, (*space, *at, bytes));
                self.load(warp, guarded, *space, to, *at, *bits);
                Next::On
            }
            Op::Store { space, from, at, bits } => {
                let bytes = bits / 8 * from.len() as u32;
                self.touches(warp, guarded, Access::Write, (*space, *at, bytes));
                self.store(warp, guarded, *space, from, *at, *bits);
                Next::On
            }
            Op::Atomic { space, at, bits, .. } => {
                self.touches(warp, guarded, Access::Atomic, (*space, *at, bits / 8));
                self.atomic(warp, guarded, &instr.op);
                Next::On
            }
            Op::Elect { .. }
            | Op::Shuffle { .. }
            | Op::Gather { .. }
            | Op::ActiveMask { .. }
            | Op::WarpSync { .. }
            | Op::Meet { .. } => {
                self.meet(warp);
                self.across_lanes(warp, strand, guarded, &instr.op, line)?
            }
            Op::Named { .. } | Op::SetRegisters { .. }
                if self.lacks(warp, guarded) != 0 && state != State::TimedOut =>
            {
                // Compilers let lanes meet before an instruction that they run together, and hardware counts warps.
                let lacks = self.lacks(warp, guarded);
                if matches!(instr.op, Op::Named { aligned: true, .. }) {
                    self.waits_for_lanes(warp, lacks);
                }
                Next::Again(Wait::Lanes { mask: lacks })
            }
            Op::Named { action, id, count, to, .. } => {
                self.meet(warp);
                self.comes_together(warp, guarded);
                self.named(warp, guarded, *action, *id, *count, *to, line)?
            }
            Op::Cluster { action } => {
                self.meet(warp);
                self.cluster(warp, guarded, *action, line)?
            }
            Op::Mbarrier { op, at } => self.mbarrier(warp, guarded, op, *at, line, state == State::TimedOut)?,
            Op::Copy { .. } => {
                self.copy(warp, guarded, &instr.op, line)?;
                Next::On
            }
            Op::CopyArrive { at, increments } => {
                let clock = self.sent_after(warp, Some(Stream::CpAsync));
                for lane in lanes_of(guarded) {
                    let at = self.object(warp, *at, lane, line)?;
                    let fault = |fault| Stop::Fault(fault, line, warp);
                    let mbarrier = self.machine.mbarrier(at).map_err(fault)?;
                    if *increments {
                        mbarrier.add_pending(at, 1).map_err(fault)?;
                    }
                    let (brings, from, clock) = (Brings::Arrival, (warp, line), clock.clone());
                    self.flights.push_back(Flight { at, brings, phase: None, leaves: None, from, clock });
                }
                self.machine.changes += 1;
                Next::On
            }
            Op::Commit { at, multicast } => {
                let clock = self.sent_after(warp, Some(Stream::Tcgen05));
                for lane in lanes_of(guarded) {
                    for (_, at) in self.objects(warp, *at, *multicast, lane, line)? {
                        self.machine.mbarrier(at).map_err(|fault| Stop::Fault(fault, line, warp))?;
                        let (brings, from, clock) = (Brings::Arrival, (warp, line), clock.clone());
                        self.flights.push_back(Flight { at, brings, phase: None, leaves: None, from, clock });
                    }
                }
                self.machine.changes += 1;
                Next::On
            }
            Op::IsCanceled { to, response } => {
                let here = &self.warps[warp];
                let value = Lanes::each(|lane| {
                    let word = self.word(here, *response, lane);
                    Word { bits: word.bits & 1, ..word }
                });
                self.write(warp, *to, guarded, value);
                Next::On
            }
            Op::Data(DataOp::WaitGroup(Stream::Wgmma, pending))
                if self.awaits_warpgroup(warp, *pending) && state != State::TimedOut =>
            {
                Next::Again(Wait::Warpgroup)
            }
            Op::Data(op) => {
                self.data(warp, guarded, op);
                Next::On
            }
            Op::SetRegisters { action, count } => self.set_registers(warp, *action, *count, line)?,
            Op::Allocate { at, columns } => {
                let count = self.one(warp, *columns, guarded, line)?;
                let rank = self.warps[warp].rank;
                match self.machine.columns.get_mut(rank as usize).and_then(|columns| columns.take(count)) {
                    Some(start) => {
                        self.machine.changes += 1;
                        let held = self.machine.columns.get(rank as usize).map_or(0, |columns| columns.taken);
                        if let Some(data) = &mut self.data {
                            data.footprint.columns_held = data.footprint.columns_held.max(held);
                        }
                        let lane = guarded.trailing_zeros() as usize;
                        self.allocates(warp, lane, *at);
                        let at = SharedAddress::of(self.address(&self.warps[warp], *at, lane).bits);
                        self.put(at, Word::fact(start), 32);
                        Next::On
                    }
                    None => Next::Again(Wait::Columns { count }),
                }
            }
            Op::Free { at, columns } => {
                let count = self.one(warp, *columns, guarded, line)?;
                self.frees(warp, guarded, *at, count);
                let rank = self.warps[warp].rank;
                self.machine.changes += 1;
                if let Some(columns) = self.machine.columns.get_mut(rank as usize) {
                    columns.give(count);
                }
                Next::On
            }
        };
        let seen = self.machine.changes;
        // Who goes on because a time limit is over has not got past.
        if !matches!(next, Next::Again(_))
            && state != State::TimedOut
            && let Some(passes) = self.passes.get_mut(pc)
        {
            *passes = passes.saturating_add(1);
        }
        if matches!(next, Next::On | Next::Then(_)) && instr.op.synchronises() {
            self.warps[warp].trace = opaque(self.warps[warp].trace, [u64::from(pc.0)]);
        }
        let Some(strand) = self.warps[warp].strands.get_mut(strand) else { return Ok(()) };
        match next {
            Next::On => (strand.pc, strand.state) = (pc.next(), State::Ready),
            Next::Again(what) | Next::Then(what) => strand.state = State::Waiting { what, seen },
            Next::Done => {}
        }
        Ok(())
    }

    /// Pieces of work that an instruction takes.
    fn price(&self, warp: usize, op: &Op, mask: u32) -> u64 {
        let lanes = mask.count_ones() as usize;
        let pieces = match op {
            Op::Compute { .. } | Op::Branch { .. } | Op::Trap | Op::SetRegisters { .. } => 2,
            Op::Unknown { to, .. } => 2 + to.len(),
            Op::Pack { parts, .. } => LANES * (1 + parts.len()),
            Op::Unpack { to, .. } => LANES * (1 + to.len()),
            // A number of memory may lie in two slots.
            Op::Load { space: Space::Input | Space::Other, to, .. } => 2 + to.len(),
            Op::Load { to, at, bits, .. } => {
                let lanes = if self.is_same(&self.warps[warp], at.base) { 1 } else { lanes };
                2 + lanes * to.len() * *bits as usize / 4
            }
            Op::Store { from, bits, .. } => lanes * from.len() * *bits as usize,
            Op::Atomic { .. } => 64 * lanes,
            Op::BranchIndexed { .. } => lanes * lanes / 2,
            // Whoever ends, or comes to a barrier, has those counted that are still there.
            Op::Exit | Op::Named { .. } | Op::Cluster { .. } => LANES / 2 + self.warps.len() / 2,
            Op::Mbarrier { op: MbarrierOp::Init { .. } | MbarrierOp::Inval, .. } => {
                lanes * (48 + self.flights.len() / 2)
            }
            Op::Mbarrier { op: MbarrierOp::Arrive { count, bytes, .. }, at } => {
                24 * self.apart(warp, mask, [at.base, *count, bytes.unwrap_or(*count)]).count()
            }
            Op::Mbarrier { op: MbarrierOp::Wait { phase, .. }, at } => {
                8 * self.apart(warp, mask, [at.base, *phase, *phase]).count()
            }
            Op::Mbarrier { .. } | Op::Copy { .. } | Op::CopyArrive { .. } | Op::Commit { .. } => 8 * lanes,
            Op::Elect { .. } | Op::Shuffle { .. } | Op::Gather { .. } | Op::IsCanceled { .. } => 2 * LANES,
            Op::ActiveMask { .. } | Op::WarpSync { .. } | Op::Meet { .. } => LANES,
            Op::Allocate { .. } | Op::Free { .. } => LANES,
            // Counted where it is done.
            Op::Data(_) => 2,
        };
        pieces as u64
    }

    /// Lanes of a warp that have neither ended nor are among these.
    fn lacks(&self, warp: usize, mask: u32) -> u32 {
        let here = &self.warps[warp];
        here.lanes & !here.exited & !mask
    }

    /// Sends the lanes of a strand their ways.
    fn branch(&mut self, warp: usize, strand: usize, ways: &[(InstrId, u32)]) {
        let strands = &mut self.warps[warp].strands;
        let mut taken = ways.iter().filter(|(_, mask)| *mask != 0);
        if let Some((pc, mask)) = taken.next() {
            strands[strand] = Strand { mask: *mask, pc: *pc, state: State::Ready };
        }
        strands.extend(taken.map(|(pc, mask)| Strand { mask: *mask, pc: *pc, state: State::Ready }));
    }

    fn exit(&mut self, warp: usize, strand: usize, mask: u32) {
        self.machine.changes += 1;
        self.ends(warp, mask);
        let here = &mut self.warps[warp];
        here.exited |= mask;
        let left = here.strands[strand].mask & !mask;
        if left == 0 {
            here.strands.remove(strand);
        } else {
            let strand = &mut here.strands[strand];
            (strand.mask, strand.pc, strand.state) = (left, strand.pc.next(), State::Ready);
        }
        let rank = here.rank;
        self.leaves_cluster(warp);
        // Whoever waits for all that have not ended waits for one less.
        let alive = self.alive(rank);
        for (&(_, id), barrier) in self.machine.named.range_mut((rank, 0)..(rank + 1, 0)) {
            let counts_all = barrier.round.is_some_and(|round| round.expected.is_none());
            if counts_all && alive > 0 && barrier.settle(alive) {
                self.clocks.end(Place::Named { rank, id });
            }
        }
        self.settle_cluster();
    }

    /// Who waits at the cluster barrier waits for a warp that has not arrived until it has ended: he knows then how far it has come.
    fn leaves_cluster(&mut self, warp: usize) {
        let phase = self.machine.cluster.phase;
        let here = &self.warps[warp];
        let has_arrived = here.arrived_in == phase && here.arrived != 0;
        if self.data.is_some() && here.is_done() && !has_arrived {
            let told = self.clocks.send(warp).relaxed(None);
            self.clocks.come(Place::Cluster, &told);
        }
    }

    pub(super) fn settle_cluster(&mut self) {
        let cluster = &mut self.machine.cluster;
        let phase = cluster.phase;
        // Whoever has ended after arriving has arrived, and is not waited for either.
        let missing = |warp: &Warp| {
            let arrived = if warp.arrived_in == phase { warp.arrived } else { 0 };
            warp.lanes & !warp.exited & !arrived != 0
        };
        if cluster.arrived > 0 && !self.warps.iter().any(missing) {
            (cluster.phase, cluster.arrived) = (cluster.phase + 1, 0);
            self.machine.changes += 1;
            self.clocks.end(Place::Cluster);
        }
    }

    fn numbers(&mut self, warp: usize, mask: u32, op: &Op) {
        match op {
            Op::Compute { what, to, also, args } => {
                let here = &self.warps[warp];
                let unknown = Word { bits: self.scenario.memory.elsewhere(), basis: Basis::Memory };
                let [a, b, c, d] = *args;
                let rows = [self.row(here, a), self.row(here, b), self.row(here, c), self.row(here, d)];
                let of = |lane: usize| {
                    let [a, b, c, d] = [rows[0].lane(lane), rows[1].lane(lane), rows[2].lane(lane), rows[3].lane(lane)];
                    match apply(*what, &[a.bits, b.bits, c.bits, d.bits]) {
                        Some(bits) => Word { bits, basis: a.basis.max(b.basis).max(c.basis.max(d.basis)) },
                        None => unknown,
                    }
                };
                let same = rows.iter().all(|row| row.is_same());
                let all = if same { None } else { apply_to_all(*what, rows.each_ref().map(|row| Argument::of(row))) };
                let value = match all {
                    Some(bits) => Row { bits, basis: basis_of(&rows) }.folded(),
                    None => Lanes::of(same, of),
                };
                if !same {
                    self.looks_at(LANES);
                }
                if also.is_some() {
                    let other = |lane: usize| {
                        let word = value.lane(lane);
                        Word { bits: word.bits & 1 ^ 1, ..word }
                    };
                    self.write(warp, *also, mask, Lanes::of(same, other));
                }
                self.write(warp, *to, mask, value);
            }
            Op::Pack { to, parts, bits } => {
                let here = &self.warps[warp];
                let keep = |word: u64| if *bits >= 64 { word } else { word & ((1 << bits) - 1) };
                let rows: Vec<Cow<'_, Lanes>> = parts.iter().map(|part| self.row(here, *part)).collect();
                let value = Lanes::of(rows.iter().all(|row| row.is_same()), |lane| {
                    let mut all = Word::default();
                    for (at, row) in (0u32..).zip(&rows) {
                        let word = row.lane(lane);
                        all.bits |= keep(word.bits).checked_shl(at * bits).unwrap_or(0);
                        all.basis = all.basis.max(word.basis);
                    }
                    all
                });
                self.write(warp, Some(*to), mask, value);
            }
            Op::Unpack { to, from, bits } => {
                let keep = |word: u64| if *bits >= 64 { word } else { word & ((1 << bits) - 1) };
                let row = self.row(&self.warps[warp], *from).into_owned();
                for (at, to) in (0u32..).zip(to) {
                    let value = Lanes::of(row.is_same(), |lane| {
                        let word = row.lane(lane);
                        Word { bits: keep(word.bits.checked_shr(at * bits).unwrap_or(0)), ..word }
                    });
                    self.write(warp, *to, mask, value);
                }
            }
            Op::Unknown { to, varies_in_order } => {
                let word = if *varies_in_order {
                    self.ticket()
                } else {
                    Word { bits: self.scenario.memory.elsewhere(), basis: Basis::Memory }
                };
                for to in to {
                    self.write(warp, Some(*to), mask, Lanes::Same(word));
                }
            }
            _ => {}
        }
    }
}

/// What each lane's numbers rest on together.
fn basis_of(rows: &[Cow<'_, Lanes>; 4]) -> [Basis; LANES] {
    let same = rows.iter().map(|row| if let Lanes::Same(word) = &**row { word.basis } else { Basis::Fact });
    let mut all = [same.max().unwrap_or_default(); LANES];
    for row in rows {
        if let Lanes::Each(row) = &**row {
            for (to, basis) in all.iter_mut().zip(row.basis) {
                *to = basis.max(*to);
            }
        }
    }
    all
}

/// Joins strands that stand at the same place and do the same.
fn join(strands: &mut Vec<Strand>) {
    let mut at = 0;
    while at < strands.len() {
        let mut other = at + 1;
        while other < strands.len() {
            let alike = strands[at].pc == strands[other].pc
                && match (strands[at].state, strands[other].state) {
                    (State::Ready, State::Ready) => true,
                    // Lanes that wait for each other at one place have met.
                    (State::Waiting { what: Wait::Lanes { .. }, .. }, State::Ready)
                    | (State::Ready, State::Waiting { what: Wait::Lanes { .. }, .. })
                    | (
                        State::Waiting { what: Wait::Lanes { .. }, .. },
                        State::Waiting { what: Wait::Lanes { .. }, .. },
                    ) => true,
                    _ => false,
                };
            if alike {
                let gone = strands.remove(other);
                strands[at].mask |= gone.mask;
                strands[at].state = State::Ready;
            } else {
                other += 1;
            }
        }
        at += 1;
    }
}
