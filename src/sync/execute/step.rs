//! One instruction of one strand.

use std::rc::Rc;

use super::clock::{Clock, Place};
use super::compute::apply;
use super::{Brings, CANCELED, Flight, QUOTA, Run, State, Stop, Strand, Wait, Warp};
use crate::base::Line;
use crate::ptx::{BarrierAction, ClusterBarrierAction, RegisterAction};
use crate::simt::eval::number::Comparison;
use crate::sync::LANES;
use crate::sync::machine::{Arrival, BARRIERS, Fault, SharedAddress};
use crate::sync::program::{
    Address, Atomic, Bytes, Gather, MbarrierOp, Multicast, Op, Reg, Shuffle, Source, Space, Special,
};
use crate::sync::value::{Basis, Lanes, Word, opaque};

/// What becomes of a strand after an instruction.
enum Next {
    /// It goes on with the next.
    On,
    /// It waits here, and tries again when something has changed.
    Again(Wait),
    /// It waits; when that is over it goes on with the next.
    Then(Wait),
    /// It has been dealt with.
    Done,
}

fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
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
            if self.works(warp, strand) {
                return Ok(None);
            }
            self.machine.touched.clear();
            let before = self.before(warp, strand);
            self.step(warp, strand)?;
            if let Some(before) = before {
                self.observe(warp, &before);
            }
        }
        Ok(None)
    }

    pub(super) fn spent(&self, pc: u32) -> Stop {
        Stop::Undecided(self.line(pc), "the budget of steps is spent")
    }

    pub(super) fn line(&self, pc: u32) -> Line {
        self.program.code.get(pc as usize).or(self.program.code.last()).map_or(Line(0), |instr| instr.line)
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
                    (strand.state, strand.pc) = (State::Ready, strand.pc + 1);
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

    pub(super) fn word(&self, warp: &Warp, source: Source, lane: usize) -> Word {
        match source {
            Source::Reg(reg) => warp.registers.get(reg.0 as usize).map_or_else(Word::default, |held| held.lane(lane)),
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
            Source::Unknown => Word { bits: self.scenario.memory, basis: Basis::Memory },
        }
    }

    /// Whether all lanes have the same of it.
    fn is_same(&self, warp: &Warp, source: Source) -> bool {
        match source {
            Source::Reg(reg) | Source::Not(reg) | Source::Minus(reg) => {
                warp.registers.get(reg.0 as usize).is_none_or(|held| matches!(held, Lanes::Same(_)))
            }
            Source::Special(Special::Tid(_) | Special::Lane | Special::LaneMask(_)) => false,
            _ => true,
        }
    }

    /// Lanes with the same of all sources together: the first of them, and all of them.
    fn apart(&self, warp: usize, mask: u32, sources: [Source; 3]) -> impl Iterator<Item = (usize, u32)> + use<> {
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
        // A grid of three clusters along x: enough for a loop over tiles to turn.
        const CLUSTERS: u32 = 3;
        let input = |bits: u64| Word { bits, basis: Basis::Input };
        match special {
            Special::Tid(0) => Word::fact(u64::from(thread % x.max(1))),
            Special::Tid(1) => Word::fact(u64::from(thread / x.max(1) % y.max(1))),
            Special::Tid(_) => Word::fact(u64::from(thread / (x * y).max(1))),
            Special::Ntid(at) => Word::fact(axis(self.launch.block, at)),
            Special::Ctaid(at) => input(axis(in_cluster, at)),
            Special::Nctaid(0) => input(u64::from(cx * CLUSTERS)),
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
            Special::NclusterId(0) => input(u64::from(CLUSTERS)),
            Special::NclusterId(_) => input(1),
            Special::Other => Word { bits: self.scenario.memory, basis: Basis::Memory },
        }
    }

    /// What all lanes of a mask have, where one instruction can have only one; the ground is remembered.
    fn one(&mut self, warp: usize, source: Source, mask: u32, line: Line) -> Result<u64, Stop> {
        let here = &self.warps[warp];
        let held = if self.is_same(here, source) {
            Lanes::Same(self.word(here, source, 0))
        } else {
            Lanes::each(|lane| self.word(here, source, lane))
        };
        match held.uniform(mask) {
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
    fn object(&mut self, warp: usize, at: Address, lane: usize, line: Line) -> Result<SharedAddress, Stop> {
        let word = self.address(&self.warps[warp], at, lane);
        self.basis = self.basis.max(word.basis);
        let address = SharedAddress::of(word.bits);
        if address.rank() >= u64::from(self.launch.blocks()) {
            return Err(if word.basis >= Basis::Memory {
                Stop::Undecided(line, "the address of an mbarrier is not known")
            } else {
                Stop::Fault(Fault::Rank(address.rank()), line, warp)
            });
        }
        Ok(address)
    }

    fn write(&mut self, warp: usize, to: Option<Reg>, mask: u32, value: Lanes) {
        if let Some(reg) = to
            && let Some(held) = self.warps[warp].registers.get_mut(reg.0 as usize)
        {
            held.write(mask, value);
        }
    }

    /// Carries out the instruction that a strand stands at.
    fn step(&mut self, warp: usize, strand: usize) -> Result<(), Stop> {
        let Strand { mask, pc, state } = self.warps[warp].strands[strand];
        let program = self.program;
        let Some(instr) = program.code.get(pc as usize) else {
            self.exit(warp, strand, mask);
            return Ok(());
        };
        let guarded = match instr.guard {
            None => mask,
            Some((reg, negated)) => {
                let held = &self.warps[warp].registers[reg.0 as usize];
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
                    self.basis = self.basis.max(held.basis(mask));
                }
                on
            }
        };
        if guarded == 0 {
            self.warps[warp].strands[strand].pc += 1;
            return Ok(());
        }
        let line = instr.line;
        self.pieces += self.price(warp, &instr.op, guarded);
        let next = match &instr.op {
            Op::Branch { to } => {
                self.branch(warp, strand, &[(*to, guarded), (pc + 1, mask & !guarded)]);
                Next::Done
            }
            Op::BranchIndexed { index, to } => {
                let mut ways: Vec<(u32, u32)> = vec![(pc + 1, mask & !guarded)];
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
                self.load(warp, guarded, *space, to, *at, *bits);
                Next::On
            }
            Op::Store { space, from, at, bits } => {
                self.store(warp, guarded, *space, from, *at, *bits);
                Next::On
            }
            Op::Atomic { .. } => {
                self.atomic(warp, guarded, &instr.op);
                Next::On
            }
            Op::Elect { .. }
            | Op::Shuffle { .. }
            | Op::Gather { .. }
            | Op::ActiveMask { .. }
            | Op::WarpSync { .. }
            | Op::Meet { .. } => self.across_lanes(warp, strand, guarded, &instr.op, line)?,
            Op::Named { .. } | Op::SetRegisters { .. }
                if self.lacks(warp, guarded) != 0 && state != State::TimedOut =>
            {
                // Compilers let lanes meet before an instruction that they run together, and hardware counts warps.
                Next::Again(Wait::Lanes { mask: self.lacks(warp, guarded) })
            }
            Op::Named { action, id, count, to, .. } => self.named(warp, guarded, *action, *id, *count, *to, line)?,
            Op::Cluster { action } => self.cluster(warp, guarded, *action, line)?,
            Op::Mbarrier { op, at } => self.mbarrier(warp, guarded, op, *at, line, state == State::TimedOut)?,
            Op::Copy { .. } => {
                self.copy(warp, guarded, &instr.op, line)?;
                Next::On
            }
            Op::CopyArrive { at, increments } => {
                let clock = self.sent(warp);
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
                let clock = self.sent(warp);
                for lane in lanes_of(guarded) {
                    for at in self.objects(warp, *at, *multicast, lane, line)? {
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
            Op::SetRegisters { action, count } => self.set_registers(warp, *action, *count),
            Op::Allocate { at, columns } => {
                let count = self.one(warp, *columns, guarded, line)?;
                let rank = self.warps[warp].rank;
                match self.machine.columns.get_mut(rank as usize).and_then(|columns| columns.take(count)) {
                    Some(start) => {
                        self.machine.changes += 1;
                        let lane = guarded.trailing_zeros() as usize;
                        let at = SharedAddress::of(self.address(&self.warps[warp], *at, lane).bits);
                        self.put(at, Word::fact(start), 32);
                        Next::On
                    }
                    None => Next::Again(Wait::Columns { count }),
                }
            }
            Op::Free { columns } => {
                let count = self.one(warp, *columns, guarded, line)?;
                let rank = self.warps[warp].rank;
                self.machine.changes += 1;
                if !self.machine.columns.get_mut(rank as usize).is_some_and(|columns| columns.give(count)) {
                    return Err(Stop::Fault(Fault::Columns(count), line, warp));
                }
                Next::On
            }
        };
        let seen = self.machine.changes;
        if !matches!(next, Next::Again(_))
            && let Some(passes) = self.passes.get_mut(pc as usize)
        {
            *passes = passes.saturating_add(1);
        }
        if matches!(next, Next::On | Next::Then(_)) && instr.op.synchronises() {
            self.warps[warp].trace = opaque(self.warps[warp].trace, [u64::from(pc)]);
        }
        let Some(strand) = self.warps[warp].strands.get_mut(strand) else { return Ok(()) };
        match next {
            Next::On => (strand.pc, strand.state) = (pc + 1, State::Ready),
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
            // Memory is kept byte by byte.
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
                lanes * (16 + self.flights.len() / 2)
            }
            Op::Mbarrier { op: MbarrierOp::Arrive { count, bytes, .. }, at } => {
                8 * self.apart(warp, mask, [at.base, *count, bytes.unwrap_or(*count)]).count()
            }
            Op::Mbarrier { op: MbarrierOp::Wait { phase, .. }, at } => {
                8 * self.apart(warp, mask, [at.base, *phase, *phase]).count()
            }
            Op::Mbarrier { .. } | Op::Copy { .. } | Op::CopyArrive { .. } | Op::Commit { .. } => 8 * lanes,
            Op::Elect { .. } | Op::Shuffle { .. } | Op::Gather { .. } | Op::IsCanceled { .. } => 2 * LANES,
            Op::ActiveMask { .. } | Op::WarpSync { .. } | Op::Meet { .. } => LANES,
            Op::Allocate { .. } | Op::Free { .. } => LANES,
        };
        pieces as u64
    }

    /// Lanes of a warp that have neither ended nor are among these.
    fn lacks(&self, warp: usize, mask: u32) -> u32 {
        let here = &self.warps[warp];
        here.lanes & !here.exited & !mask
    }

    /// Sends the lanes of a strand their ways.
    fn branch(&mut self, warp: usize, strand: usize, ways: &[(u32, u32)]) {
        let strands = &mut self.warps[warp].strands;
        let mut taken = ways.iter().filter(|(_, mask)| *mask != 0);
        if let Some((pc, mask)) = taken.next() {
            strands[strand] = Strand { mask: *mask, pc: *pc, state: State::Ready };
        }
        strands.extend(taken.map(|(pc, mask)| Strand { mask: *mask, pc: *pc, state: State::Ready }));
    }

    fn exit(&mut self, warp: usize, strand: usize, mask: u32) {
        self.machine.changes += 1;
        let here = &mut self.warps[warp];
        here.exited |= mask;
        let left = here.strands[strand].mask & !mask;
        if left == 0 {
            here.strands.remove(strand);
        } else {
            let strand = &mut here.strands[strand];
            (strand.mask, strand.pc, strand.state) = (left, strand.pc + 1, State::Ready);
        }
        let rank = here.rank;
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

    fn settle_cluster(&mut self) {
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
                let unknown = Word { bits: self.scenario.memory, basis: Basis::Memory };
                let of = |lane: usize| {
                    let words = args.map(|source| self.word(here, source, lane));
                    let basis = words.iter().map(|word| word.basis).max().unwrap_or_default();
                    match apply(*what, &words.map(|word| word.bits)) {
                        Some(bits) => Word { bits, basis },
                        None => unknown,
                    }
                };
                let same = args.iter().all(|source| self.is_same(here, *source));
                let value = if same { Lanes::Same(of(0)) } else { Lanes::each(of) };
                if !same {
                    self.looks_at(LANES);
                }
                if also.is_some() {
                    let other = |lane: usize| {
                        let word = value.lane(lane);
                        Word { bits: word.bits & 1 ^ 1, ..word }
                    };
                    let other = if same { Lanes::Same(other(0)) } else { Lanes::each(other) };
                    self.write(warp, *also, mask, other);
                }
                self.write(warp, *to, mask, value);
            }
            Op::Pack { to, parts, bits } => {
                let here = &self.warps[warp];
                let value = Lanes::each(|lane| {
                    let mut all = Word::default();
                    for (at, part) in (0u32..).zip(parts) {
                        let word = self.word(here, *part, lane);
                        let kept = if *bits >= 64 { word.bits } else { word.bits & ((1 << bits) - 1) };
                        all.bits |= kept.checked_shl(at * bits).unwrap_or(0);
                        all.basis = all.basis.max(word.basis);
                    }
                    all
                });
                self.write(warp, Some(*to), mask, value);
            }
            Op::Unpack { to, from, bits } => {
                for (at, to) in (0u32..).zip(to) {
                    let here = &self.warps[warp];
                    let value = Lanes::each(|lane| {
                        let word = self.word(here, *from, lane);
                        let moved = word.bits.checked_shr(at * bits).unwrap_or(0);
                        Word { bits: if *bits >= 64 { moved } else { moved & ((1 << bits) - 1) }, ..word }
                    });
                    self.write(warp, *to, mask, value);
                }
            }
            Op::Unknown { to, varies_in_order } => {
                let word = if *varies_in_order {
                    self.tickets += 1;
                    Word { bits: self.tickets - 1, basis: Basis::Order }
                } else {
                    Word { bits: self.scenario.memory, basis: Basis::Memory }
                };
                for to in to {
                    self.write(warp, Some(*to), mask, Lanes::Same(word));
                }
            }
            _ => {}
        }
    }

    /// Whether an address of a space is one of shared memory.
    fn shared(&self, space: Space, address: u64) -> Option<SharedAddress> {
        match space {
            Space::Shared => Some(SharedAddress::of(address)),
            Space::Generic if SharedAddress::is_generic(address) => Some(SharedAddress::of(address)),
            _ => None,
        }
    }

    fn load(&mut self, warp: usize, mask: u32, space: Space, to: &[Option<Reg>], at: Address, bits: u32) {
        let keep = |word: u64| if bits >= 64 { word } else { word & ((1 << bits) - 1) };
        for (element, to) in (0i64..).zip(to) {
            let here = &self.warps[warp];
            let value = if space == Space::Input {
                let address = self.address(here, at, mask.trailing_zeros() as usize).bits;
                let number = self.scenario.input.at(address.wrapping_add_signed(element * i64::from(bits / 8)));
                Lanes::Same(Word { bits: keep(number), basis: Basis::Input })
            } else {
                let unknown = Word { bits: keep(self.scenario.memory), basis: Basis::Memory };
                let of = |lane: usize| {
                    let address = self.address(here, at, lane).bits;
                    let address = address.wrapping_add_signed(element * i64::from(bits / 8));
                    let Some(place) = self.shared(space, address) else { return unknown };
                    let mut all = Word::default();
                    for byte in 0..u64::from(bits / 8) {
                        let Some(part) = self.memory.get(&(place.0 + byte)) else { return unknown };
                        all.bits |= part.bits << (8 * byte);
                        all.basis = all.basis.max(part.basis);
                    }
                    all
                };
                if self.is_same(here, at.base) { Lanes::Same(of(0)) } else { Lanes::each(of) }
            };
            self.write(warp, *to, mask, value);
        }
    }

    fn store(&mut self, warp: usize, mask: u32, space: Space, from: &[Source], at: Address, bits: u32) {
        // What takes memory is paid for in steps.
        self.steps += u64::from(mask.count_ones()) * from.len() as u64 / 4;
        for lane in lanes_of(mask) {
            for (element, from) in (0i64..).zip(from) {
                let here = &self.warps[warp];
                let address = self.address(here, at, lane).bits.wrapping_add_signed(element * i64::from(bits / 8));
                let Some(place) = self.shared(space, address) else { continue };
                let word = self.word(here, *from, lane);
                self.put(place, word, bits);
            }
        }
    }

    /// Leaves a number of so many bits in shared memory.
    pub(super) fn put(&mut self, at: SharedAddress, word: Word, bits: u32) {
        let mut changed = false;
        for byte in 0..u64::from(bits / 8).min(8) {
            let part = Word { bits: word.bits >> (8 * byte) & 0xff, ..word };
            changed |= self.memory.insert(at.0 + byte, part) != Some(part);
        }
        self.machine.changes += u64::from(changed);
    }

    /// A word of shared memory.
    fn get(&self, at: SharedAddress) -> Option<Word> {
        let mut all = Word::default();
        for byte in 0..4 {
            let part = self.memory.get(&(at.0 + byte))?;
            all.bits |= part.bits << (8 * byte);
            all.basis = all.basis.max(part.basis);
        }
        Some(all)
    }

    fn atomic(&mut self, warp: usize, mask: u32, op: &Op) {
        let Op::Atomic { space, to, at, how, args, bits } = op else { return };
        let mut before = [Word::default(); LANES];
        for lane in lanes_of(mask) {
            let here = &self.warps[warp];
            let address = self.address(here, *at, lane).bits;
            let Some(place) = self.shared(*space, address).filter(|_| *bits == 32) else {
                self.tickets += 1;
                before[lane] = Word { bits: self.tickets - 1, basis: Basis::Order };
                continue;
            };
            let unknown = Word { bits: self.scenario.memory, basis: Basis::Memory };
            let old = self.get(place).unwrap_or(unknown);
            let [a, b] = args.map(|source| self.word(here, source, lane));
            let (x, y, z) = (old.bits & 0xffff_ffff, a.bits & 0xffff_ffff, b.bits & 0xffff_ffff);
            let new = match how {
                Atomic::Add => x.wrapping_add(y),
                Atomic::Exchange => y,
                Atomic::CompareAndSwap if x == y => z,
                Atomic::CompareAndSwap => x,
                Atomic::Least => x.min(y),
                Atomic::Most => x.max(y),
                Atomic::And => x & y,
                Atomic::Or => x | y,
                Atomic::Xor => x ^ y,
                Atomic::Increment if x >= y => 0,
                Atomic::Increment => x + 1,
                Atomic::Decrement if x == 0 || x > y => y,
                Atomic::Decrement => x - 1,
            };
            let basis = old.basis.max(a.basis).max(b.basis);
            before[lane] = Word { bits: x, basis: basis.max(Basis::Order) };
            self.put(place, Word { bits: new & 0xffff_ffff, basis }, 32);
        }
        let value = Lanes::each(|lane| before[lane]);
        self.write(warp, *to, mask, value);
    }

    /// Instructions that lanes of a warp run together.
    fn across_lanes(&mut self, warp: usize, strand: usize, mask: u32, op: &Op, line: Line) -> Result<Next, Stop> {
        let member = match op {
            Op::Elect { mask, .. }
            | Op::Shuffle { mask, .. }
            | Op::Gather { mask, .. }
            | Op::Meet { mask }
            | Op::WarpSync { mask } => *mask,
            _ => Source::Number(u64::from(mask)),
        };
        // Lanes may give masks of their own, each with itself in it: the first one's counts.
        let first = mask.trailing_zeros() as usize;
        let members = self.word(&self.warps[warp], member, first).bits as u32;
        let outside = lanes_of(mask).find_map(|lane| {
            let word = self.word(&self.warps[warp], member, lane);
            let out = word.basis < Basis::Memory && word.bits >> lane & 1 == 0;
            out.then_some(Fault::NotMember { lane: lane as u32, mask: word.bits as u32 })
        });
        if let Some(fault) = outside {
            return Err(Stop::Fault(fault, line, warp));
        }
        let here = &self.warps[warp];
        let wanted = members & here.lanes & !here.exited;
        let pc = here.strands[strand].pc;
        if wanted & !mask != 0 {
            // Others that must come. At bar.warp.sync they may stand at another one.
            let is_sync =
                |pc: u32| matches!(self.program.code.get(pc as usize).map(|i| &i.op), Some(Op::WarpSync { .. }));
            let waits = |strand: &&Strand| {
                matches!(strand.state, State::Waiting { what: Wait::Lanes { .. }, .. })
                    && is_sync(strand.pc)
                    && strand.pc != pc
            };
            let come = here.strands.iter().filter(waits).fold(mask, |all, strand| all | strand.mask);
            if !matches!(op, Op::WarpSync { .. }) || wanted & !come != 0 {
                return Ok(Next::Again(Wait::Lanes { mask: wanted }));
            }
            for other in &mut self.warps[warp].strands {
                if matches!(other.state, State::Waiting { what: Wait::Lanes { .. }, .. }) && other.mask & wanted != 0 {
                    (other.state, other.pc) = (State::Ready, other.pc + 1);
                }
            }
            return Ok(Next::On);
        }
        match op {
            Op::Elect { lane, elected, .. } => {
                let leader = (members & mask).trailing_zeros().min(31) as usize;
                self.write(warp, *lane, mask, Lanes::Same(Word::fact(leader as u64)));
                self.write(warp, *elected, mask, Lanes::each(|lane| Word::fact(u64::from(lane == leader))));
            }
            Op::ActiveMask { to } => {
                let word = Word { bits: u64::from(mask), basis: Basis::Order };
                self.write(warp, Some(*to), mask, Lanes::Same(word));
            }
            Op::Shuffle { how, to, valid, value, by, clamp, .. } => {
                let here = &self.warps[warp];
                let from = |lane: usize| {
                    let by = self.word(here, *by, lane).bits as usize & 31;
                    let clamp = self.word(here, *clamp, lane).bits as usize;
                    let (segment, bound) = (clamp >> 8 & 31, clamp & 31);
                    let most = lane & segment | bound & !segment & 31;
                    let (source, inside) = match how {
                        Shuffle::Index => {
                            let source = lane & segment | by & !segment & 31;
                            (source, source <= most)
                        }
                        Shuffle::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= most),
                        Shuffle::Down => (lane + by, lane + by <= most),
                        Shuffle::Butterfly => (lane ^ by, lane ^ by <= most),
                    };
                    if inside { (source & 31, true) } else { (lane, false) }
                };
                let read = Lanes::each(|lane| self.word(here, *value, from(lane).0));
                let inside = Lanes::each(|lane| Word::fact(u64::from(from(lane).1)));
                self.write(warp, *to, mask, read);
                self.write(warp, *valid, mask, inside);
            }
            Op::Gather { how, to, value, .. } => {
                let here = &self.warps[warp];
                let words: Vec<(usize, Word)> =
                    lanes_of(members & mask).map(|lane| (lane, self.word(here, *value, lane))).collect();
                let basis = words.iter().map(|(_, word)| word.basis).max().unwrap_or_default();
                let on = |word: &Word| word.bits & 1 == 1;
                let all = words.iter().all(|(_, word)| on(word));
                let any = words.iter().any(|(_, word)| on(word));
                let fold = |of: fn(u64, u64) -> u64, start: u64| {
                    words.iter().fold(start, |all, (_, word)| of(all, word.bits & 0xffff_ffff))
                };
                let bits = match how {
                    Gather::All => u64::from(all),
                    Gather::Any => u64::from(any),
                    Gather::Uniform => u64::from(all || !any),
                    Gather::Ballot => {
                        words.iter().filter(|(_, word)| on(word)).fold(0, |all, (lane, _)| all | 1 << lane)
                    }
                    Gather::Sum => fold(|a, b| a.wrapping_add(b) & 0xffff_ffff, 0),
                    Gather::And => fold(|a, b| a & b, 0xffff_ffff),
                    Gather::Or => fold(|a, b| a | b, 0),
                    Gather::Xor => fold(|a, b| a ^ b, 0),
                    Gather::Least(ty) => {
                        words.iter().map(|(_, word)| ty.number(word.bits)).min().map_or(0, |n| ty.mask(n as u64))
                    }
                    Gather::Most(ty) => {
                        words.iter().map(|(_, word)| ty.number(word.bits)).max().map_or(0, |n| ty.mask(n as u64))
                    }
                };
                self.write(warp, *to, mask, Lanes::Same(Word { bits, basis }));
            }
            _ => {}
        }
        Ok(Next::On)
    }

    #[allow(clippy::too_many_arguments)]
    fn named(
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
        if over {
            self.clocks.end(place);
            self.clocks.learn(warp, place);
        }
        if let Some(to) = to {
            let word = Word { bits: self.scenario.memory, basis: Basis::Memory };
            self.write(warp, Some(to), mask, Lanes::Same(word));
        }
        Ok(if over || action == BarrierAction::Arrive { Next::On } else { Next::Then(Wait::Named { id, round }) })
    }

    fn cluster(&mut self, warp: usize, mask: u32, action: ClusterBarrierAction, line: Line) -> Result<Next, Stop> {
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
            let clock = self.clocks.send(warp);
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

    fn mbarrier(
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
                        mbarrier.expect(at, bytes).map_err(fault)?;
                    }
                    let is_over = mbarrier.phase != before;
                    self.comes_now(at, line, warp, is_over);
                }
            }
            MbarrierOp::Arrive { count, bytes, drop, to, .. } => {
                // Lanes of a warp arrive at an object as one.
                let mut groups: Vec<(SharedAddress, u64, i64, u32)> = Vec::new();
                let each = self.apart(warp, mask, [at.base, count, bytes.unwrap_or(count)]);
                for (lane, lanes) in each {
                    let at = self.object(warp, at, lane, line)?;
                    let here = &self.warps[warp];
                    let count = self.word(here, count, lane);
                    let bytes = bytes.map_or_else(Word::default, |bytes| self.word(here, bytes, lane));
                    self.basis = self.basis.max(count.basis).max(bytes.basis);
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
                    let phase = mbarrier.phase;
                    let equation = mbarrier.arrive(at, arrivals, Arrival { bytes, drop }).map_err(fault)?;
                    let is_over = mbarrier.phase != phase;
                    self.equations.extend(equation);
                    self.comes_now(at, line, warp, is_over);
                    self.write(warp, to, lanes, Lanes::Same(Word::fact(phase)));
                }
            }
            MbarrierOp::Wait { to, phase, parity, flipped } => {
                let mut done = 0u32;
                let mut missing = None;
                for (lane, lanes) in self.apart(warp, mask, [at.base, phase, phase]) {
                    let at = self.object(warp, at, lane, line)?;
                    let mut word = self.word(&self.warps[warp], phase, lane);
                    word.bits ^= u64::from(flipped);
                    self.basis = self.basis.max(word.basis);
                    let mbarrier = self.machine.mbarrier(at).map_err(fault)?;
                    let over = if parity { mbarrier.is_over(word.bits) } else { mbarrier.phase != word.bits };
                    if over {
                        done |= lanes;
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
    fn sent(&mut self, warp: usize) -> Rc<Clock> {
        // Each is kept, as long as what it was issued with is under way.
        self.looks_at(4 * self.warps.len());
        Rc::new(self.clocks.send(warp))
    }

    /// A warp comes to an mbarrier, which may end its phase.
    fn comes_now(&mut self, at: SharedAddress, line: Line, warp: usize, is_over: bool) {
        self.looks_at(self.warps.len());
        let clock = self.clocks.send(warp);
        self.comes(at, &clock, line, warp);
        if is_over {
            self.clocks.end(Place::Mbarrier(at));
        }
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

    /// The objects that a lane names, in every block of a mask where it has one.
    fn objects(
        &mut self,
        warp: usize,
        at: Address,
        multicast: Option<Multicast>,
        lane: usize,
        line: Line,
    ) -> Result<Vec<SharedAddress>, Stop> {
        let own = self.object(warp, at, lane, line)?;
        let Some(Multicast { mask, pairs }) = multicast else { return Ok(vec![own]) };
        let word = self.word(&self.warps[warp], mask, lane);
        self.basis = self.basis.max(word.basis);
        let blocks = u64::from(self.launch.blocks());
        let ranks = (0..blocks).filter(|rank| word.bits >> rank & 1 == 1);
        let signalled = |rank: u64| if pairs { rank & !1 | own.rank() & 1 } else { rank };
        Ok(ranks.map(|rank| SharedAddress::new(signalled(rank), own.place())).collect())
    }

    fn copy(&mut self, warp: usize, mask: u32, op: &Op, line: Line) -> Result<(), Stop> {
        let Op::Copy { at, bytes, multicast, response } = *op else { return Ok(()) };
        self.steps += u64::from(mask.count_ones());
        let clock = self.sent(warp);
        for lane in lanes_of(mask) {
            // One answer for all blocks that it goes to.
            self.cancels += u32::from(response.is_some());
            let answer = u64::from(self.cancels <= CANCELED);
            let place = response.map(|at| SharedAddress::of(self.address(&self.warps[warp], at, lane).bits).place());
            for at in self.objects(warp, at, multicast, lane, line)? {
                let here = &self.warps[warp];
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
                let phase = Some(mbarrier.phase);
                let leaves = place.map(|place| (SharedAddress::new(at.rank(), place), answer));
                self.pieces += 8;
                self.flights.push_back(Flight { at, brings, phase, leaves, from: (warp, line), clock: clock.clone() });
            }
        }
        self.machine.changes += 1;
        Ok(())
    }

    fn set_registers(&mut self, warp: usize, action: RegisterAction, count: u32) -> Next {
        if self.launch.registers.is_none() {
            return Next::On;
        }
        let (rank, held) = (self.warps[warp].rank, self.warps[warp].held);
        let Some(pool) = self.machine.pools.get_mut(rank as usize) else { return Next::On };
        if action == RegisterAction::Dec && count > held || action == RegisterAction::Inc && count < held {
            return Next::On;
        }
        if !pool.change(held, count) {
            return Next::Again(Wait::Registers { count });
        }
        self.machine.changes += 1;
        self.warps[warp].held = count;
        Next::On
    }
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
