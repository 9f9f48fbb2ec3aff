//! Where a live value comes from and where it is used: reaching definitions and uses of registers at one place.
//!
//! Answers are found on request by walking blocks away from the place, each block once for each register at most.

use crate::base::{Pc, RegFile, RegSet};
use crate::sass::Transfer;

use super::cfg::Cfg;
use super::liveness::Liveness;
use super::program::Program;

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
    /// Whether the value is dead after it.
    pub is_last: bool,
}

/// Where a walk goes on, and with which registers.
type Work = Vec<(u32, RegSet)>;

/// Notes that registers come to a block; what was there before is not walked again.
fn enter(seen: &mut [RegSet], work: &mut Work, block: u32, set: RegSet) {
    let fresh = set.difference(&seen[block as usize]);
    if !fresh.is_empty() {
        seen[block as usize].union_with(&fresh);
        work.push((block, fresh));
    }
}

impl Liveness {
    /// The definitions that may reach `pc` (before it runs) for each register of `wanted`, sorted. A register that a path brings
    /// in from the start of the code has no definition there.
    pub fn definitions(&self, program: &impl Program, cfg: &Cfg, pc: Pc, wanted: &RegSet) -> Vec<Definition> {
        let Some(home) = cfg.block_at(pc) else { return Vec::new() };
        let ends = CallEnds::new(self, program, cfg);
        let mut found = Vec::new();
        let mut seen = vec![RegSet::EMPTY; cfg.blocks.len()];
        let mut work: Work = Vec::new();
        let up = |block: u32, mut end: u32, mut set: RegSet, found: &mut Vec<Definition>| {
            let start = cfg.blocks[block as usize].start;
            while end > start && !set.is_empty() {
                end -= 1;
                let flow = program.flow(end as usize);
                let writes = self.effects(program, end, &flow).writes.intersection(&set);
                if writes.is_empty() || flow.never() {
                    continue;
                }
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
                None => match work.pop() {
                    Some((block, set)) => (block, cfg.blocks[block as usize].end, set),
                    None => break,
                },
            };
            let rest = up(block, end, set, &mut found);
            if rest.is_empty() {
                continue;
            }
            for before in cfg.predecessors(super::BlockId(block)) {
                match ends.callee_of(before.0, block) {
                    None => enter(&mut seen, &mut work, before.0, rest),
                    Some(call) => {
                        let (_, passes) = self.callee_summary(call.callee);
                        let around = if call.guarded { rest } else { rest.intersection(&passes) };
                        enter(&mut seen, &mut work, before.0, around);
                        for &last in ends.returns_of(call.callee) {
                            enter(&mut seen, &mut work, last, rest);
                        }
                    }
                }
            }
            for &caller in ends.callers_of(block) {
                enter(&mut seen, &mut work, caller, rest);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The reads that the value in each register of `wanted` before `pc` may reach, sorted.
    pub fn uses(&self, program: &impl Program, cfg: &Cfg, pc: Pc, wanted: &RegSet) -> Vec<Use> {
        let Some(home) = cfg.block_at(pc) else { return Vec::new() };
        let ends = CallEnds::new(self, program, cfg);
        let mut found: Vec<Use> = Vec::new();
        let mut seen = vec![RegSet::EMPTY; cfg.blocks.len()];
        // The registers of a walk that have not been read yet on some path to the block.
        let mut unread = vec![RegSet::EMPTY; cfg.blocks.len()];
        let mut work: Vec<(u32, u32, RegSet, RegSet)> = vec![(home.0, pc.0 / 16, *wanted, *wanted)];
        while let Some((block, from, mut set, mut next)) = work.pop() {
            let info = &cfg.blocks[block as usize];
            for index in from..info.end {
                if set.is_empty() {
                    break;
                }
                let flow = program.flow(index as usize);
                let effects = self.effects(program, index, &flow);
                if flow.never() {
                    continue;
                }
                let reads = effects.reads.intersection(&set);
                found.extend(reads.iter_all().map(|(file, reg)| Use {
                    file,
                    index: reg,
                    pc: Pc(index * 16),
                    is_next: next.contains(file, reg),
                    is_last: false,
                }));
                if flow.guard.is_none() {
                    next.subtract(&reads);
                    set.subtract(&effects.writes);
                    next.subtract(&effects.writes);
                }
            }
            if set.is_empty() {
                continue;
            }
            let mut go = |to: u32, set: RegSet| {
                let next = next.intersection(&set);
                let fresh_set = set.difference(&seen[to as usize]);
                let fresh_next = next.difference(&unread[to as usize]);
                if fresh_set.is_empty() && fresh_next.is_empty() {
                    return;
                }
                seen[to as usize].union_with(&set);
                unread[to as usize].union_with(&next);
                work.push((to, cfg.blocks[to as usize].start, fresh_set.union(&fresh_next), fresh_next));
            };
            for to in cfg.successors(super::BlockId(block)) {
                match ends.callee_of(block, to.0) {
                    None => go(to.0, set),
                    Some(call) => {
                        let (_, passes) = self.callee_summary(call.callee);
                        go(to.0, if call.guarded { set } else { set.intersection(&passes) });
                        go(self.traces[call.callee as usize].blocks.start, set);
                    }
                }
            }
            for &after in ends.after_return(block) {
                go(after, set);
            }
        }
        found.sort_unstable();
        found.dedup_by(|later, kept| {
            let same = (later.file, later.index, later.pc) == (kept.file, kept.index, kept.pc);
            kept.is_next |= same && later.is_next;
            same
        });
        self.mark_last(program, cfg, &mut found);
        found
    }

    /// Says which uses leave their register dead.
    fn mark_last(&self, program: &impl Program, cfg: &Cfg, uses: &mut [Use]) {
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

/// A call of a function of this section.
#[derive(Clone, Copy)]
struct Call {
    callee: u32,
    guarded: bool,
}

/// Blocks that calls and returns join, by function and by block.
struct CallEnds {
    /// By block: the call it ends in.
    calls: Vec<Option<Call>>,
    /// By callee's first trace: blocks that end in its `RET`s.
    returns: std::collections::BTreeMap<u32, Vec<u32>>,
    /// By callee's first block: the blocks that call it.
    callers: std::collections::BTreeMap<u32, Vec<u32>>,
    /// By block that ends in a `RET`: the blocks it may return to.
    after: std::collections::BTreeMap<u32, Vec<u32>>,
}

impl CallEnds {
    fn new(liveness: &Liveness, program: &impl Program, cfg: &Cfg) -> CallEnds {
        let mut ends = CallEnds {
            calls: Vec::new(),
            returns: Default::default(),
            callers: Default::default(),
            after: Default::default(),
        };
        if !cfg.calls.iter().any(|call| call.callee.is_some()) || liveness.passes.is_empty() {
            return ends;
        }
        ends.calls = vec![None; cfg.blocks.len()];
        let mut called: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
        for call in &cfg.calls {
            let Some(block) = cfg.block_at(call.pc) else { continue };
            let flow = program.flow((call.pc.0 / 16) as usize);
            let Some(callee) = liveness.callee(cfg, &flow) else { continue };
            ends.calls[block.0 as usize] = Some(Call { callee, guarded: flow.guard.is_some() });
            let first = liveness.traces[callee as usize].blocks.start;
            ends.callers.entry(first).or_default().push(block.0);
            if cfg.blocks[block.0 as usize].falls_through {
                called.entry(callee).or_default().push(block.0 + 1);
            }
        }
        // RETs by the function that owns their block.
        let mut returns: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
        for (b, block) in cfg.blocks.iter().enumerate() {
            let flow = program.flow(block.end as usize - 1);
            if let (Transfer::Return | Transfer::ReturnOut, Some(function)) = (flow.transfer, block.function) {
                returns.entry(function.0).or_default().push(b as u32);
            }
        }
        for (&callee, next) in &called {
            let first = liveness.traces[callee as usize].blocks.start;
            let Some(function) = cfg.blocks[first as usize].function else { continue };
            let lasts = returns.get(&function.0).cloned().unwrap_or_default();
            for &last in &lasts {
                ends.after.entry(last).or_default().extend(next);
            }
            ends.returns.insert(callee, lasts);
        }
        ends
    }

    fn callee_of(&self, from: u32, to: u32) -> Option<Call> {
        self.calls.get(from as usize).copied().flatten().filter(|_| to == from + 1)
    }

    fn returns_of(&self, callee: u32) -> &[u32] {
        self.returns.get(&callee).map_or(&[], Vec::as_slice)
    }

    fn callers_of(&self, block: u32) -> &[u32] {
        self.callers.get(&block).map_or(&[], Vec::as_slice)
    }

    fn after_return(&self, block: u32) -> &[u32] {
        self.after.get(&block).map_or(&[], Vec::as_slice)
    }
}
