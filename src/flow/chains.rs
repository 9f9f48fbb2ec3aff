//! Where a live value comes from and where it is used: reaching definitions and uses of registers at one place.
//!
//! Answers are found on request by walking the blocks of the place's function away from it, each block once for each register at most and
//! mostly once for all of them: what waits for a block is walked together.

use std::ops::ControlFlow;

use crate::base::{Pc, RegFile, RegSet};

use crate::sass::{Effects, Flow, Run};

use super::cfg::{Block, Cfg};
use super::liveness::{Liveness, Rule, flow_within};
use super::program::Program;
use crate::graph::dataflow::Queue;

/// An instruction that may have put the value there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// The register's file.
    pub file: RegFile,
    /// The register's number.
    pub index: u16,
    /// The instruction.
    pub pc: Pc,
}

/// An instruction that may read the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The register's file.
    pub file: RegFile,
    /// The register's number.
    pub index: u16,
    /// The instruction.
    pub pc: Pc,
    /// Whether it is the first read on some path from the place asked about.
    pub is_next: bool,
    /// Whether the value is dead after it, as [`Liveness::mark_last`] tells.
    pub is_last: bool,
}

/// Blocks that a walk comes to, in the order of its direction, and the registers that it brings there: `N` sets for each block.
struct Walk<const N: usize> {
    waiting: Queue,
    /// By block: its place among those that were come to, and one more; 0 for the others, which are most.
    places: Vec<u32>,
    brought: Vec<Brought<N>>,
    /// Where the order runs back, the last block.
    last: Option<u32>,
}

/// Registers that a walk brings to a block: those still to go on with, and those that were there before.
#[derive(Clone, Copy)]
struct Brought<const N: usize> {
    pending: [RegSet; N],
    seen: [RegSet; N],
}

impl<const N: usize> Walk<N> {
    /// With control, earlier blocks first.
    fn down(cfg: &Cfg) -> Walk<N> {
        Walk {
            waiting: Queue::new(cfg.blocks.len()),
            places: vec![0; cfg.blocks.len()],
            brought: Vec::new(),
            last: None,
        }
    }

    /// Against control, later blocks first.
    fn up(cfg: &Cfg) -> Walk<N> {
        Walk { last: (cfg.blocks.len() as u32).checked_sub(1), ..Walk::down(cfg) }
    }

    /// A block's place in the order, and the block of a place.
    fn turned(&self, block: u32) -> u32 {
        self.last.map_or(block, |last| last - block)
    }

    /// Notes that registers come to a block; what was there before is not walked again.
    fn enter(&mut self, block: u32, sets: [RegSet; N]) {
        let place = match self.places[block as usize].checked_sub(1) {
            Some(place) => place,
            None if sets.iter().all(RegSet::is_empty) => return,
            None => {
                self.brought.push(Brought { pending: [RegSet::EMPTY; N], seen: [RegSet::EMPTY; N] });
                self.places[block as usize] = self.brought.len() as u32;
                self.brought.len() as u32 - 1
            }
        };
        let here = &mut self.brought[place as usize];
        let mut is_fresh = false;
        for (set, (pending, seen)) in sets.iter().zip(here.pending.iter_mut().zip(&mut here.seen)) {
            let fresh = set.difference(seen);
            is_fresh |= !fresh.is_empty();
            seen.union_with(&fresh);
            pending.union_with(&fresh);
        }
        if is_fresh {
            self.waiting.insert(self.turned(block));
        }
    }

    /// The next block to go on with, and what was brought there since it was left.
    fn next(&mut self) -> Option<(u32, [RegSet; N])> {
        let block = self.waiting.take_from(0).map(|at| self.turned(at))?;
        let place = self.places[block as usize].checked_sub(1)?;
        Some((block, std::mem::replace(&mut self.brought[place as usize].pending, [RegSet::EMPTY; N])))
    }
}

/// A call of a function of this section: what it reads, what it leaves alone on some path.
struct Call {
    pc: Pc,
    reads: RegSet,
    passes: RegSet,
    guarded: bool,
}

impl Liveness {
    /// What is live where a trace starts that starts with a block, if that is all that is read from there on: nvdisasm's rule has more and less.
    fn live_at_start(&self, block: u32) -> Option<&RegSet> {
        let trace = *self.trace_of.get(block as usize)? as usize;
        let starts = self.traces.get(trace)?.blocks.start == block;
        self.live_in.get(trace).filter(|_| starts && self.rule == Rule::Sound)
    }

    /// The call that control goes through from a block to the one after it.
    fn call_between(&self, program: &impl Program, cfg: &Cfg, from: u32, to: u32) -> Option<Call> {
        let last = cfg.blocks[from as usize].end.checked_sub(1).filter(|_| to == from + 1)?;
        let flow = program.flow(last as usize);
        let (reads, passes) = self.callee_summary(self.callee(cfg, &flow)?);
        Some(Call { pc: Pc(last * 16), reads, passes, guarded: flow.guard.is_some() })
    }

    /// How an instruction moves control, and what it reads and writes of the registers of a set; none where no run that is looked at
    /// has any of them.
    #[inline]
    fn touched(
        &self,
        program: &impl Program,
        (index, is_last): (u32, bool),
        set: &RegSet,
        looks_at: impl Fn(&Run) -> bool,
    ) -> Option<(Flow, Effects)> {
        // What calls do is not in their words, and nvdisasm's rule takes more than the words say.
        if is_last || self.rule == Rule::Nvdisasm {
            let flow = flow_within(program, index, is_last);
            let Effects { reads, writes } = self.effects(program, index, &flow);
            let touched = Effects { reads: reads.intersection(set), writes: writes.intersection(set) };
            let is_any = !touched.reads.is_empty() || !touched.writes.is_empty();
            return (is_any && !flow.never()).then_some((flow, touched));
        }
        // Most instructions name none of them, which is sooner seen without making sets.
        let is_in = |run: &Run| looks_at(run) && run.registers().any(|register| set.contains(run.file(), register));
        if !program.runs(index as usize).any(|run| is_in(&run)) {
            return None;
        }
        let flow = flow_within(program, index, false);
        let mut touched = Effects::default();
        for run in program.runs(index as usize).filter(is_in) {
            let into = if run.is_write() { &mut touched.writes } else { &mut touched.reads };
            let registers = run.registers().filter(|&register| set.contains(run.file(), register));
            registers.for_each(|register| into.insert(run.file(), register));
        }
        (!flow.never()).then_some((flow, touched))
    }

    /// The definitions that may reach `pc` (before it runs) for each register of `wanted`, sorted, within the function: a call stands for all
    /// that its callee defines. A register that a path brings in from the start of the function has no definition there.
    pub fn definitions(&self, program: &impl Program, cfg: &Cfg, pc: Pc, wanted: &RegSet) -> Vec<Definition> {
        let Some(home) = cfg.block_at(pc) else { return Vec::new() };
        let function = cfg.blocks[home.0 as usize].function;
        let mut found = Vec::new();
        let mut walk: Walk<1> = Walk::up(cfg);
        let up = |block: u32, mut end: u32, mut set: RegSet, found: &mut Vec<Definition>| {
            let Block { start, end: block_end, .. } = cfg.blocks[block as usize];
            while end > start && !set.is_empty() {
                end -= 1;
                let touched = self.touched(program, (end, end + 1 == block_end), &set, |run| run.is_write());
                let Some((flow, Effects { writes, .. })) = touched else { continue };
                let at = Pc(end * 16);
                found.extend(writes.iter_all().map(|(file, index)| Definition { file, index, pc: at }));
                if flow.guard.is_none() {
                    set.subtract(&writes);
                }
            }
            set
        };
        let mut first = Some((home.0, pc.0 / 16, *wanted));
        loop {
            let (block, end, set) = match first.take() {
                Some(start) => start,
                None => match walk.next() {
                    Some((block, [set])) => (block, cfg.blocks[block as usize].end, set),
                    None => break,
                },
            };
            let rest = up(block, end, set, &mut found);
            if rest.is_empty() {
                continue;
            }
            for before in cfg.predecessors(crate::graph::BlockId(block)) {
                if cfg.blocks[before.0 as usize].function != function {
                    continue;
                }
                let mut around = rest;
                if let Some(call) = self.call_between(program, cfg, before.0, block) {
                    let made = rest.difference(&call.passes);
                    found.extend(made.iter_all().map(|(file, index)| Definition { file, index, pc: call.pc }));
                    if !call.guarded {
                        around = rest.intersection(&call.passes);
                    }
                }
                walk.enter(before.0, [around]);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The reads that the value in each register of `wanted` before `pc` may reach, sorted, within the function: a call stands for all that its
    /// callee reads.
    pub fn uses(&self, program: &impl Program, cfg: &Cfg, pc: Pc, wanted: &RegSet) -> Vec<Use> {
        let mut found: Vec<Use> = Vec::new();
        self.each_use(program, cfg, pc, wanted, |used| found.push(used));
        found.sort_unstable();
        found.dedup_by(|later, kept| {
            let same = (later.file, later.index, later.pc) == (kept.file, kept.index, kept.pc);
            kept.is_next |= same && later.is_next;
            same
        });
        found
    }

    /// Visits what [`Liveness::uses`] lists, in no order, some of it more than once and not each time as the next one.
    pub fn each_use(&self, program: &impl Program, cfg: &Cfg, pc: Pc, wanted: &RegSet, mut visit: impl FnMut(Use)) {
        let Some(home) = cfg.block_at(pc) else { return };
        let function = cfg.blocks[home.0 as usize].function;
        // All registers, and those that have not been read yet on some path to the block.
        let mut walk: Walk<2> = Walk::down(cfg);
        let mut first = Some((home.0, pc.0 / 16, *wanted, *wanted));
        loop {
            let (block, from, mut set, mut next) = match first.take() {
                Some(start) => start,
                None => match walk.next() {
                    Some((block, [all, next])) => (block, cfg.blocks[block as usize].start, all.union(&next), next),
                    None => break,
                },
            };
            let mut read = |reads: RegSet, next: &RegSet, pc: Pc| {
                if reads.is_empty() {
                    return;
                }
                for (file, index) in reads.iter_all() {
                    visit(Use { file, index, pc, is_next: next.contains(file, index), is_last: false });
                }
            };
            let end = cfg.blocks[block as usize].end;
            for index in from..end {
                let touched = self.touched(program, (index, index + 1 == end), &set, |_| true);
                let Some((flow, Effects { reads, writes })) = touched else { continue };
                read(reads, &next, Pc(index * 16));
                if flow.guard.is_none() {
                    next.subtract(&reads);
                    set.subtract(&writes);
                    next.subtract(&writes);
                    if set.is_empty() {
                        break;
                    }
                }
            }
            if set.is_empty() {
                continue;
            }
            for to in cfg.successors(crate::graph::BlockId(block)) {
                if cfg.blocks[to.0 as usize].function != function {
                    continue;
                }
                let (mut set, mut next) = (set, next);
                if let Some(call) = self.call_between(program, cfg, block, to.0) {
                    let reads = call.reads.intersection(&set);
                    read(reads, &next, call.pc);
                    if !call.guarded {
                        next.subtract(&reads);
                        set = set.intersection(&call.passes);
                        next = next.intersection(&call.passes);
                    }
                }
                // Where nobody reads a register any more there is no use to be found.
                if let Some(live) = self.live_at_start(to.0) {
                    (set, next) = (set.intersection(live), next.intersection(live));
                }
                walk.enter(to.0, [set, next]);
            }
        }
    }

    /// Says which uses leave their register dead: [`Liveness::uses`] leaves that open, for not everybody asks.
    pub fn mark_last(&self, program: &impl Program, cfg: &Cfg, uses: &mut [Use]) {
        let mut by_pc: Vec<usize> = (0..uses.len()).collect();
        by_pc.sort_unstable_by_key(|&u| uses[u].pc);
        let mut at = 0;
        while at < by_pc.len() {
            let trace = cfg.block_at(uses[by_pc[at]].pc).and_then(|block| self.trace_at(block));
            let Some(trace) = trace else {
                at += 1;
                continue;
            };
            let last_block = self.traces[trace as usize].blocks.end - 1;
            let end = Pc(cfg.blocks[last_block as usize].end * 16);
            let stop = at + by_pc[at..].partition_point(|&u| uses[u].pc < end);
            self.trace_rows(program, cfg, trace, &mut |row| {
                let from = at + by_pc[at..stop].partition_point(|&u| uses[u].pc < row.pc);
                for &u in &by_pc[from..stop] {
                    if uses[u].pc != row.pc {
                        break;
                    }
                    let (file, index) = (uses[u].file, uses[u].index);
                    let overwritten = row.effects.writes.contains(file, index);
                    uses[u].is_last = !row.leaves_live(self, cfg, file, index) || overwritten;
                }
                ControlFlow::Continue(())
            });
            at = stop;
        }
    }
}

impl super::Row {
    /// Whether a register is live after the instruction, on the way to the next one or to where it jumps.
    fn leaves_live(&self, liveness: &Liveness, cfg: &Cfg, file: RegFile, index: u16) -> bool {
        if self.after.contains(file, index) {
            return true;
        }
        let Some(block) = cfg.block_at(self.pc) else { return false };
        let is_end = cfg.blocks[block.0 as usize].end * 16 == self.pc.0 + 16;
        is_end
            && cfg.successors(block).any(|to| {
                let trace = liveness.trace_of[to.0 as usize];
                let starts_trace = liveness.traces[trace as usize].blocks.start == to.0;
                starts_trace && liveness.live_in[trace as usize].contains(file, index)
            })
    }
}
