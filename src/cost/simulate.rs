//! Turns of a loop, issued by the control bits of their words.
//!
//! A scheduler issues one instruction a cycle, of the warp that it issued last as long as that can go on, else of one that can, of the oldest
//! block. That is not fair: of blocks that do the same number of turns the first are done early, and the last go on alone.
//!
//! An instruction issues when the stall of the one before is over, the scoreboards that it waits for are released, its pipe is free, and the
//! banks of registers are not behind. Memory instructions go through a queue of the scheduler to a part that all schedulers share.

use std::collections::VecDeque;

use crate::base::work;

use super::Warps;
use super::machine::{
    BARRIER, BARRIER_EACH, BRANCH, GROUP_END, GROUP_START, OUTWARD_SLACK, Pipe, QUEUE, SLACK, TURNAROUND,
};
use super::step::{Action, Step};

/// How many turns of each warp are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// As many as it takes until they repeat.
    Full,
    /// As few as tell builds apart.
    Quick,
}

impl Care {
    /// Turns of the shorter of two runs of several warps; the longer one does three times as many.
    fn turns(self, length: u64, each: u64) -> u64 {
        let fit = 1000 / (length * each + 1);
        match self {
            Care::Full => fit.clamp(4, 8),
            Care::Quick => fit.clamp(2, 4),
        }
    }

    /// Turns of a warp that has its scheduler to itself, at most: they repeat, mostly after one.
    fn alone(self) -> u64 {
        match self {
            Care::Full => 16,
            Care::Quick => 8,
        }
    }
}

/// Instructions that are issued at most.
const MOST_ISSUED: u64 = 800_000;

/// Why an instruction did not issue right after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The stall count of the instruction before.
    Stall,
    /// A scoreboard that an instruction of the turn, or of the one before, holds: its place in the turn.
    Scoreboard(usize),
    /// The branch that leads here.
    Branch,
    /// Its pipe was busy.
    Pipe,
    /// The banks of registers were behind.
    Banks,
    /// The barrier.
    Barrier,
    /// A group of multiplications.
    Groups,
}

/// What came out.
pub(super) struct Simulated {
    /// Cycles in which every warp does a turn.
    pub cycles: f64,
    /// Reads of the busier bank of registers in that time, by a scheduler.
    pub bank_reads: f64,
    /// Of the first warp, in its last turn: cycles before each instruction, and why.
    pub waits: Vec<(u64, Cause)>,
}

#[derive(Clone, Default)]
struct Warp {
    at: usize,
    turns: u64,
    is_done: bool,
    ready: u64,
    why: Option<Cause>,
    /// When nothing of its own keeps it from its next instruction any more: see [`Warp::look`].
    next: Option<(u64, Cause)>,
    /// When each scoreboard is released, as far as that is known, by whom, and how many are still in the queue.
    released: [u64; 6],
    holder: [usize; 6],
    queued: [u16; 6],
    /// Registers that each pipe keeps of the operands flagged for reuse.
    kept: [[Option<u8>; 3]; 4],
    /// Whether the barrier that it came to last is open, and since when. Until then the warp goes on with what nobody else can see.
    waiting: bool,
    opened: u64,
    tensor_done: u64,
    groups: VecDeque<u64>,
    /// When the copies that were taken so far are done, when those of each closed group are, and how many groups are closed in the queue.
    copied: u64,
    copies: VecDeque<u64>,
    copies_queued: usize,
}

#[derive(Clone)]
struct Scheduler {
    warps: Vec<Warp>,
    last: usize,
    pipes: [u64; Pipe::COUNT],
    /// The two halves of the FMA pipe, the one that does everything first.
    halves: [u64; 2],
    banks: [u64; 2],
    /// How often each bank was read.
    reads: [u64; 2],
    issue: u64,
    queue: VecDeque<(u64, usize, usize)>,
    memory: u64,
    /// None of its warps can issue before, unless memory takes something of them or a barrier lets them go.
    asleep_until: u64,
}

/// Operands for reuse are kept by those who share a way to the register file.
fn keeper(pipe: Pipe) -> usize {
    match pipe {
        Pipe::Fma | Pipe::FmaHeavy => 0,
        Pipe::Alu | Pipe::Tensor => 1,
        Pipe::Half => 2,
        _ => 3,
    }
}

/// Issues turns until what they take is known; none where a turn is too long.
pub(super) fn simulate(steps: &[Step], warps: Warps, care: Care) -> Option<Simulated> {
    let each = u64::from(warps.each.max(1));
    let total = u64::from(warps.schedulers.max(1)) * each;
    let length = steps.len() as u64;
    let few = care.turns(length, each);
    let turns = if each == 1 { care.alone() } else { 4 * few };
    if length == 0 || length * total * turns > MOST_ISSUED {
        return None;
    }
    let (machine, cycles) = if each == 1 {
        let mut machine = Sm::new(steps, warps, u64::MAX);
        let cycles = machine.until_it_repeats(total, turns);
        (machine, cycles)
    } else {
        // Both runs are the same until a warp is done in the shorter one.
        let mut longer = Sm::new(steps, warps, 3 * few);
        longer.run_until_one_is_about_to_end(few);
        let mut shorter = longer.clone();
        shorter.most_turns = few;
        shorter.run(few * total);
        longer.run(3 * few * total);
        let cycles = (longer.now - shorter.now) as f64 / (2 * few) as f64;
        (longer, cycles)
    };
    work::check_time();
    let bank_reads = machine.schedulers.first().map_or(0.0, |first| {
        let turns: u64 = first.warps.iter().map(|warp| warp.turns).sum();
        first.reads[0].max(first.reads[1]) as f64 * each as f64 / turns.max(1) as f64
    });
    Some(Simulated { cycles, bank_reads, waits: machine.waits })
}

#[derive(Clone)]
struct Sm<'a> {
    steps: &'a [Step],
    schedulers: Vec<Scheduler>,
    /// When the part of memory that all share is free.
    shared: u64,
    /// When the banks of shared memory are free.
    banks: u64,
    /// When the way to the second cache is free.
    outward: u64,
    /// Whether that part took a store last.
    stores: bool,
    favoured: usize,
    tensor: u64,
    barrier: u64,
    arrived: Vec<usize>,
    of_block: usize,
    block_warps: usize,
    now: u64,
    turns: u64,
    /// Turns after which a warp is done.
    most_turns: u64,
    /// The shared part of memory takes nothing before, unless somebody puts something into a queue.
    memory_idle_until: u64,
    /// Turns that are looked out for, and whether a warp has but the last instruction of them before it.
    looked_for: u64,
    is_near: bool,
    /// Of the first warp, in its last turn: cycles before each instruction, and why; and when it issued last.
    waits: Vec<(u64, Cause)>,
    last_issue: u64,
}

impl Scheduler {
    fn new(steps: &[Step], each: usize, of_block: usize) -> Scheduler {
        // Blocks come one after the other: they are not all at one place of their turn.
        let stalls: u64 = steps.iter().map(|step| u64::from(step.control.stall.max(1))).sum();
        let apart = stalls / each.div_ceil(of_block) as u64;
        let warp = |number: usize| {
            let ready = number as u64 + (number / of_block) as u64 * apart;
            let mut warp = Warp { ready, ..Warp::default() };
            warp.look(steps);
            warp
        };
        Scheduler {
            warps: (0..each).map(warp).collect(),
            last: 0,
            pipes: [0; Pipe::COUNT],
            halves: [0; 2],
            banks: [0; 2],
            reads: [0; 2],
            issue: 0,
            queue: VecDeque::new(),
            memory: 0,
            asleep_until: 0,
        }
    }

    /// The warp that issues now, and what it waited for last, or when the first can: the one that issued last, then block by block, the oldest
    /// first, those of a block in turn.
    fn choose(&self, now: u64, of_block: usize, steps: &[Step]) -> Result<(usize, Cause), u64> {
        let mut next = u64::MAX;
        let mut try_one = |number: usize| {
            let (when, cause) = self.when(number, steps)?;
            next = next.min(when);
            (when <= now).then_some((number, cause))
        };
        if let Some(found) = try_one(self.last) {
            return Ok(found);
        }
        let count = self.warps.len();
        for first in (0..count).step_by(of_block) {
            let block = of_block.min(count - first);
            let after_last = first + (self.last + 1) % block;
            if let Some(found) = (after_last..first + block).chain(first..after_last).find_map(&mut try_one) {
                return Ok(found);
            }
        }
        Err(next)
    }

    /// When a warp can issue its next instruction, and what it waits for; none where that is not known yet.
    #[inline]
    fn when(&self, number: usize, steps: &[Step]) -> Option<(u64, Cause)> {
        let warp = &self.warps[number];
        let mut when = warp.next?;
        let mut later = |time: u64, cause: Cause| {
            if time > when.0 {
                when = (time, cause);
            }
        };
        later(self.issue, Cause::Pipe);
        later(self.banks[0].max(self.banks[1]).saturating_sub(SLACK), Cause::Banks);
        match steps[warp.at].unit.pipe {
            Pipe::Fma => later(self.halves[0].min(self.halves[1]), Cause::Pipe),
            Pipe::FmaHeavy => later(self.halves[0], Cause::Pipe),
            Pipe::Memory if self.queue.len() >= QUEUE => return None,
            Pipe::Memory | Pipe::Branch | Pipe::Issue | Pipe::WarpGroup => {}
            pipe => later(self.pipes[pipe.index()], Cause::Pipe),
        }
        Some(when)
    }
}

impl<'a> Sm<'a> {
    fn new(steps: &'a [Step], warps: Warps, most_turns: u64) -> Sm<'a> {
        let (schedulers, each) = (usize::from(warps.schedulers.max(1)), usize::from(warps.each.max(1)));
        let of_block = usize::from(warps.of_block.max(1)).min(each);
        Sm {
            steps,
            schedulers: (0..schedulers).map(|_| Scheduler::new(steps, each, of_block)).collect(),
            shared: 0,
            banks: 0,
            outward: 0,
            stores: false,
            favoured: 0,
            tensor: 0,
            barrier: 0,
            arrived: vec![0; each.div_ceil(of_block)],
            of_block,
            block_warps: schedulers * of_block,
            now: 0,
            turns: 0,
            most_turns,
            memory_idle_until: 0,
            looked_for: u64::MAX,
            is_near: false,
            waits: Vec::with_capacity(steps.len()),
            last_issue: 0,
        }
    }

    /// Cycles in which every warp does a turn: exact where the machine comes back to a state in which it was, from where on everything repeats;
    /// else those of the later turns.
    fn until_it_repeats(&mut self, total: u64, turns: u64) -> f64 {
        let mut states: Vec<(Vec<u32>, u64)> = Vec::new();
        for turn in 1..=turns {
            self.run(turn * total);
            let state = self.state();
            if let Some(at) = states.iter().position(|(other, _)| *other == state) {
                return (self.now - states[at].1) as f64 / (states.len() - at) as f64;
            }
            states.push((state, self.now));
        }
        let half = states.len() / 2;
        states.get(half).map_or(0.0, |(_, then)| (self.now - then) as f64 / (states.len() - 1 - half).max(1) as f64)
    }

    /// All that decides what happens from here on, with times from now: what is over is over, however long.
    fn state(&self) -> Vec<u32> {
        let left = |time: u64| time.saturating_sub(self.now) as u32;
        let mut state =
            vec![left(self.shared), left(self.banks), left(self.outward), left(self.tensor), left(self.barrier)];
        state.extend([(self.favoured % self.schedulers.len()) as u32, u32::from(self.stores)]);
        state.extend(self.arrived.iter().map(|arrived| *arrived as u32));
        for scheduler in &self.schedulers {
            state.extend([scheduler.last as u32, left(scheduler.issue), left(scheduler.memory)]);
            let busy = scheduler.pipes.iter().chain(&scheduler.halves).chain(&scheduler.banks);
            state.extend(busy.map(|time| left(*time)));
            state.push(scheduler.queue.len() as u32);
            for &(entered, warp, at) in &scheduler.queue {
                state.extend([left(entered), warp as u32, at as u32]);
            }
            for warp in &scheduler.warps {
                warp.state(left, &mut state);
            }
        }
        state
    }

    /// Goes on until a warp has but one instruction left of so many turns.
    fn run_until_one_is_about_to_end(&mut self, turns: u64) {
        self.looked_for = turns;
        self.is_near = turns == 1 && self.steps.len() == 1;
        while !self.is_near {
            self.cycle(u64::MAX);
        }
    }

    /// Goes on until so many turns are done by all warps together.
    fn run(&mut self, turns: u64) {
        while self.turns < turns {
            self.cycle(turns);
        }
    }

    /// One cycle, to its end or to where so many turns are done, and on to the next in which something happens.
    fn cycle(&mut self, turns: u64) {
        if self.memory_idle_until <= self.now {
            self.memory_idle_until = self.serve_memory();
        }
        let mut next = self.memory_idle_until;
        for scheduler in 0..self.schedulers.len() {
            next = next.min(self.issue(scheduler));
            if self.turns >= turns {
                return;
            }
        }
        if next == u64::MAX {
            // Nobody can go on: what a way through a loop leaves out would have let them.
            self.release_all();
            next = self.now + 1;
        }
        self.now = next.max(self.now + 1);
    }

    /// The shared part of memory takes from the schedulers in turn. Returns when it can take next.
    fn serve_memory(&mut self) -> u64 {
        let mut next = u64::MAX;
        let count = self.schedulers.len();
        let mut tried = 0;
        while tried < count {
            let number = (self.favoured + tried) % count;
            tried += 1;
            let scheduler = &mut self.schedulers[number];
            let Some(&(entered, warp, at)) = scheduler.queue.front() else { continue };
            let unit = self.steps[at].unit;
            let mut when = entered.max(scheduler.memory);
            if unit.shared > 0 {
                when = when.max(self.shared);
            }
            if unit.banks {
                when = when.max(self.banks);
            }
            if unit.outward > 0 {
                when = when.max(self.outward.saturating_sub(OUTWARD_SLACK));
            }
            if when > self.now {
                next = next.min(when);
                continue;
            }
            scheduler.queue.pop_front();
            scheduler.asleep_until = 0;
            scheduler.memory = self.now + u64::from(unit.interval);
            if unit.outward > 0 {
                self.outward = self.outward.max(self.now) + u64::from(unit.outward);
            }
            if unit.shared > 0 {
                let turns = unit.outward > 0 && !self.stores;
                self.stores = unit.outward > 0;
                self.shared = self.now + u64::from(unit.shared) + if turns { TURNAROUND } else { 0 };
                if unit.banks {
                    self.banks = self.banks.max(self.now) + u64::from(unit.shared);
                }
                self.favoured = number + 1;
                tried = 0;
            }
            let control = self.steps[at].control;
            let warp = &mut scheduler.warps[warp];
            match self.steps[at].action {
                Action::Copy => warp.copied = warp.copied.max(self.now + u64::from(unit.latency)),
                Action::CloseCopies => {
                    warp.copies_queued = warp.copies_queued.saturating_sub(1);
                    warp.copies.push_back(warp.copied);
                    if warp.copies.len() > 16 {
                        warp.copies.pop_front();
                    }
                }
                _ => {}
            }
            for (board, after) in [(control.write_barrier, unit.latency), (control.read_barrier, unit.read)] {
                if let Some(board) = board.map(usize::from).filter(|board| *board < 6) {
                    warp.queued[board] -= 1;
                    warp.release(board, self.now + u64::from(after), at);
                }
            }
            warp.look(self.steps);
        }
        next
    }

    /// One cycle of a scheduler. Returns when it can do more.
    fn issue(&mut self, number: usize) -> u64 {
        let scheduler = &mut self.schedulers[number];
        if self.now < scheduler.asleep_until {
            return scheduler.asleep_until;
        }
        match scheduler.choose(self.now, self.of_block, self.steps) {
            Ok((warp, cause)) => {
                self.take(number, warp, cause);
                self.now + 1
            }
            Err(next) => {
                scheduler.asleep_until = next;
                next
            }
        }
    }

    /// A warp issues its next instruction.
    fn take(&mut self, number: usize, chosen: usize, cause: Cause) {
        let now = self.now;
        let scheduler = &mut self.schedulers[number];
        let switched = scheduler.last != chosen;
        scheduler.last = chosen;
        let warp = &mut scheduler.warps[chosen];
        if switched {
            warp.kept = Default::default();
        }
        let at = warp.at;
        let step = &self.steps[at];
        let unit = step.unit;
        let reads = read_banks(step, &mut warp.kept[keeper(unit.pipe)]);
        for (bank, reads) in reads.into_iter().map(u64::from).enumerate() {
            scheduler.banks[bank] = scheduler.banks[bank].max(now) + reads;
            scheduler.reads[bank] += reads;
        }
        scheduler.issue = now + 1 + u64::from(unit.block);
        match unit.pipe {
            Pipe::Fma => {
                let half = usize::from(scheduler.halves[1] <= now);
                scheduler.halves[half] = now + 2;
            }
            Pipe::FmaHeavy => scheduler.halves[0] = now + u64::from(unit.interval),
            Pipe::Memory => {
                scheduler.queue.push_back((now + 1, chosen, at));
                self.memory_idle_until = self.memory_idle_until.min(now + 1);
            }
            Pipe::Branch | Pipe::Issue | Pipe::WarpGroup => {}
            pipe => scheduler.pipes[pipe.index()] = now + u64::from(unit.interval),
        }
        let control = step.control;
        for (board, after) in [(control.write_barrier, unit.latency), (control.read_barrier, unit.read)] {
            if let Some(board) = board.map(usize::from).filter(|board| *board < 6) {
                if unit.pipe == Pipe::Memory {
                    warp.queued[board] += 1;
                } else {
                    warp.release(board, now + u64::from(after), at);
                }
            }
        }
        if let Action::Multiply { cycles, banks, closes } = step.action {
            if number == 0 {
                self.tensor = self.tensor.max(now + GROUP_START) + cycles;
                self.banks = self.banks.max(now) + banks;
            }
            warp.tensor_done = self.tensor.max(now + GROUP_START + cycles);
            if closes {
                warp.groups.push_back(warp.tensor_done + GROUP_END);
                if warp.groups.len() > 8 {
                    warp.groups.pop_front();
                }
            }
        }
        if step.action == Action::CloseCopies {
            warp.copies_queued += 1;
        }
        if number == 0 && chosen == 0 {
            if at == 0 {
                self.waits.clear();
            }
            self.waits.push((now - self.last_issue, cause));
            self.last_issue = now;
        }
        let stall = u64::from(control.stall.max(1)) + u64::from(unit.extra);
        (warp.ready, warp.why) = if step.taken && stall < BRANCH {
            (now + BRANCH, Some(Cause::Branch))
        } else {
            (now + stall, Some(Cause::Stall))
        };
        warp.at += 1;
        if warp.at == self.steps.len() {
            warp.at = 0;
            warp.turns += 1;
            warp.is_done = warp.turns >= self.most_turns;
            self.turns += 1;
        }
        self.is_near |= warp.at + 1 == self.steps.len() && warp.turns + 1 == self.looked_for;
        if step.action == Action::Barrier {
            warp.waiting = true;
            self.barrier = self.barrier.max(now) + BARRIER_EACH;
            let block = chosen / self.of_block;
            self.arrived[block] += 1;
            if self.arrived[block] == self.block_warps {
                self.release(block);
                return;
            }
        }
        self.schedulers[number].warps[chosen].look(self.steps);
    }

    /// The warps of a block go on behind their barrier.
    fn release(&mut self, block: usize) {
        self.arrived[block] = 0;
        let ready = self.barrier + BARRIER;
        let range = block * self.of_block..(block + 1) * self.of_block;
        for scheduler in &mut self.schedulers {
            scheduler.asleep_until = 0;
            let end = range.end.min(scheduler.warps.len());
            for warp in scheduler.warps.get_mut(range.start..end).unwrap_or(&mut []) {
                warp.waiting = false;
                warp.opened = warp.opened.max(ready);
                warp.look(self.steps);
            }
        }
    }

    fn release_all(&mut self) {
        (0..self.arrived.len()).for_each(|block| self.release(block));
        for warp in self.schedulers.iter_mut().flat_map(|scheduler| &mut scheduler.warps) {
            warp.queued = [0; 6];
            warp.copies_queued = 0;
            warp.look(self.steps);
        }
        for scheduler in &mut self.schedulers {
            scheduler.queue.clear();
            scheduler.asleep_until = 0;
        }
        self.memory_idle_until = 0;
    }
}

/// How often an instruction reads each bank, but for operands that are kept or the same; then what it flags is kept.
#[inline]
fn read_banks(step: &Step, kept: &mut [Option<u8>; 3]) -> [u16; 2] {
    if !step.keeps && *kept == [None; 3] {
        return step.bank_reads;
    }
    let mut reads = [0; 2];
    for (place, source) in step.sources.iter().enumerate() {
        let is_same = step.sources[..place].iter().any(|other| other.register == source.register);
        if kept[usize::from(source.slot)] != Some(source.register) && !is_same {
            source.read(&mut reads);
        }
    }
    for source in &step.sources {
        kept[usize::from(source.slot)] = source.is_kept(step.control).then_some(source.register);
    }
    reads
}

impl Warp {
    /// When what the warp itself waits for is there, for its next instruction; none where that is not known yet.
    fn look(&mut self, steps: &[Step]) {
        self.next = steps.get(self.at).filter(|_| !self.is_done).and_then(|step| self.can_go_on(step));
    }

    fn can_go_on(&self, step: &Step) -> Option<(u64, Cause)> {
        let is_seen = step.action != Action::None || matches!(step.unit.pipe, Pipe::Memory | Pipe::WarpGroup);
        if is_seen && self.waiting {
            return None;
        }
        let mut when = (self.ready, self.why.unwrap_or(Cause::Stall));
        let mut later = |time: u64, cause: Cause| {
            if time > when.0 {
                when = (time, cause);
            }
        };
        if is_seen {
            later(self.opened, Cause::Barrier);
        }
        let mut left = step.control.wait_mask & 0x3f;
        while left != 0 {
            let board = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.queued[board] > 0 {
                return None;
            }
            later(self.released[board], Cause::Scoreboard(self.holder[board]));
        }
        match step.action {
            Action::WaitGroups(left) => {
                if let Some(at) = self.groups.len().checked_sub(1 + usize::from(left)) {
                    later(self.groups[at], Cause::Groups);
                }
            }
            Action::WaitCopies(left) => {
                let open = usize::from(left).checked_sub(self.copies_queued)?;
                if let Some(at) = self.copies.len().checked_sub(1 + open) {
                    later(self.copies[at], Cause::Groups);
                }
            }
            _ => {}
        }
        Some(when)
    }

    fn state(&self, left: impl Fn(u64) -> u32, state: &mut Vec<u32>) {
        state.extend([self.at as u32, left(self.ready), u32::from(self.waiting), self.copies_queued as u32]);
        state.extend([left(self.tensor_done), left(self.copied), left(self.opened)]);
        state.extend(self.released.iter().map(|time| left(*time)));
        state.extend(self.queued.iter().map(|queued| u32::from(*queued)));
        state.extend(self.kept.iter().flatten().map(|kept| kept.map_or(u32::MAX, u32::from)));
        for open in [&self.groups, &self.copies] {
            // Times of one warp's groups never fall, so that what is over stands first.
            let times = open.iter().map(|time| left(*time)).filter(|left| *left > 0);
            state.push(u32::MAX);
            state.extend(times);
        }
    }

    fn release(&mut self, board: usize, when: u64, by: usize) {
        if when >= self.released[board] {
            self.released[board] = when;
            self.holder[board] = by;
        }
    }
}
