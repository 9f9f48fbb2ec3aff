//! Liveness: which registers hold a value that some later instruction may read.
//!
//! The section is cut into traces: a block and those after it that control reaches only by falling through. One walk over each
//! trace says which registers it reads before it writes them, and for each way out which registers it has written by then. The fixed
//! point then runs over traces and their exits alone.

use std::ops::Range;

use crate::base::{PerRegFile, RegFile, RegSet};
use crate::sass::{Effects, Flow, Guard, Transfer};

use super::cfg::{BlockId, Cfg, Lists};
use super::dataflow;
use super::program::Program;

/// How liveness is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A register is live where some path reads it before it is certainly overwritten. A guarded write overwrites only where its
    /// guard holds; two writes under opposite guards overwrite together.
    #[default]
    Sound,
    /// What `nvdisasm -lrm count` counts, which takes guarded writes as certain ones on the way to a side exit, keeps R1 to the
    /// end and gives calls a fixed convention.
    Nvdisasm,
}

/// Numbers of live registers by file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts(pub PerRegFile<u16>);

impl Counts {
    /// The sizes of a set.
    pub fn of(set: &RegSet) -> Counts {
        Counts(PerRegFile(RegFile::ALL.map(|file| set.count(file) as u16)))
    }
}

/// A run of blocks that is entered at its first one only.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) blocks: Range<u32>,
}

/// Where an exit leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The start of a trace.
    Trace(u32),
    /// A call: the callee's first trace, and the trace after the call.
    Call { callee: u32, next: u32 },
    /// Back to whoever called.
    Return,
}

/// One way out of a trace.
#[derive(Clone, Copy, Debug)]
struct Exit {
    from: u32,
    to: To,
    /// What the trace has certainly written when it leaves here.
    kill: RegSet,
}

/// Live registers of a section, at the start of each trace; everything else is recomputed from there.
#[derive(Clone, Debug)]
pub struct Liveness {
    pub(super) rule: Rule,
    pub(super) traces: Vec<Trace>,
    pub(super) trace_of: Vec<u32>,
    pub(super) live_in: Vec<RegSet>,
    /// By trace: what is live after a `RET` in it.
    pub(super) return_out: Vec<RegSet>,
    /// By trace that a function starts with: what it may read, and what it may leave as it was. Empty without calls.
    pub(super) reads: Vec<RegSet>,
    pub(super) passes: Vec<RegSet>,
    pub(super) abi: Abi,
}

/// What calls and returns do by convention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abi {
    /// A `RET` to an unknown caller: what it keeps for it.
    pub(super) kept: RegSet,
    /// A call of an unknown function.
    pub(super) call: Effects,
    /// What nvdisasm has live at the end of a thread: R1.
    pub(super) at_end: RegSet,
    /// What nvdisasm counts: of the uniform registers UR4 to UR62 only, and nothing above the highest that the cubin names.
    pub(super) counted: RegSet,
}

/// Registers of a function; all when their number is not known.
fn given(registers: u16) -> u16 {
    if registers == 0 { 255 } else { registers.min(255) }
}

/// What a function of so many registers keeps for its caller: R2, R16 to R31 and the upper four of each eight from R36 on.
pub(super) fn kept_by_callee(registers: u16) -> RegSet {
    let mut kept = RegSet::EMPTY;
    kept.insert(RegFile::Gpr, 2);
    kept.insert_run(RegFile::Gpr, 16, 16);
    (36..255).step_by(8).for_each(|first| kept.insert_run(RegFile::Gpr, first, 4));
    (given(registers)..256).for_each(|index| kept.remove(RegFile::Gpr, index));
    kept
}

impl Abi {
    /// The convention for a function of so many registers in a cubin that names these.
    fn new(registers: u16, named: Option<&RegSet>) -> Abi {
        let kept = kept_by_callee(registers);
        let registers = given(registers);
        let mut at_end = RegSet::EMPTY;
        at_end.insert(RegFile::Gpr, 1);
        let mut call = Effects { reads: at_end, writes: RegSet::EMPTY };
        call.reads.insert(RegFile::Gpr, 0);
        let kept_or_stack = kept.union(&at_end);
        for index in (0..registers).filter(|&index| !kept_or_stack.contains(RegFile::Gpr, index)) {
            call.writes.insert(RegFile::Gpr, index);
        }
        call.writes.insert_run(RegFile::Pred, 0, 7);
        call.writes.insert_run(RegFile::Ugpr, 4, 32);
        call.writes.insert_run(RegFile::Upred, 0, 7);
        let mut counted = RegSet::all();
        (0..4).chain(63..128).for_each(|index| counted.remove(RegFile::Ugpr, index));
        if let Some(named) = named {
            for file in RegFile::ALL {
                let columns = named.iter(file).max().map_or(0, |highest| highest + 1);
                (columns..256).for_each(|index| counted.remove(file, index));
            }
        }
        Abi { kept, call, at_end, counted }
    }
}

impl Liveness {
    /// Solves liveness for the whole section.
    pub fn solve(program: &impl Program, cfg: &Cfg, rule: Rule) -> Liveness {
        let abi = Abi::new(cfg.layout.registers, cfg.layout.named.as_ref());
        let (traces, trace_of) = cut(cfg, rule);
        let mut liveness = Liveness {
            rule,
            live_in: vec![RegSet::EMPTY; traces.len()],
            return_out: Vec::new(),
            reads: Vec::new(),
            passes: Vec::new(),
            traces,
            trace_of,
            abi,
        };
        let mut exits: Vec<Exit> = Vec::new();
        let (mut guarded, mut vendor) = (Guarded::default(), Vendor::default());
        for t in 0..liveness.traces.len() as u32 {
            liveness.live_in[t as usize] = match rule {
                Rule::Sound => liveness.summarise(program, cfg, t, &mut guarded, &mut exits),
                Rule::Nvdisasm => liveness.summarise(program, cfg, t, &mut vendor, &mut exits),
            };
        }
        liveness.settle(cfg, &exits);
        liveness
    }

    /// The rule it was solved under.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// What an instruction does under the rule, calls by convention included.
    pub(super) fn effects(&self, program: &impl Program, index: u32, flow: &Flow) -> Effects {
        let mut effects = program.effects(index as usize);
        if flow.ends_block() {
            self.follow_convention(index, flow, &mut effects);
        }
        if self.rule == Rule::Nvdisasm {
            // To nvdisasm the stack pointer is in use before it is first set, too.
            if effects.writes.contains(RegFile::Gpr, 1) {
                effects.reads.insert(RegFile::Gpr, 1);
            }
            effects.reads = effects.reads.intersection(&self.abi.counted);
            effects.writes = effects.writes.intersection(&self.abi.counted);
        }
        effects
    }

    /// Adds what calls, returns and the end of a thread do by convention.
    fn follow_convention(&self, index: u32, flow: &Flow, effects: &mut Effects) {
        match (self.rule, flow.transfer) {
            (Rule::Nvdisasm, Transfer::Call(_) | Transfer::CallOut) => {
                effects.reads.union_with(&self.abi.call.reads);
                effects.writes.union_with(&self.abi.call.writes);
            }
            (Rule::Nvdisasm, Transfer::Return) => {
                effects.reads.union_with(&self.abi.kept);
                effects.reads.union_with(&self.abi.at_end);
            }
            (rule, Transfer::ReturnOut) => {
                effects.reads.union_with(&self.abi.kept);
                effects.reads.union_with(&self.abi.at_end);
                if rule == Rule::Sound {
                    // Results are in R4 to R15 by convention; how many is not known here.
                    effects.reads.insert_run(RegFile::Gpr, 4, 12);
                }
            }
            (Rule::Nvdisasm, Transfer::Exit) => {
                effects.reads.union_with(&self.abi.at_end);
            }
            (Rule::Nvdisasm, Transfer::Branch(target)) if target.0 == index * 16 => {
                effects.reads.union_with(&self.abi.at_end);
            }
            (Rule::Sound, Transfer::CallOut) => {
                // Arguments are in R4 to R15 by convention; how many is not known here.
                effects.reads.union_with(&self.abi.call.reads);
                effects.reads.insert_run(RegFile::Gpr, 4, 12);
                effects.writes.union_with(&self.abi.call.writes);
            }
            _ => {}
        }
    }

    /// The trace that an exit of block `b` by a call goes on with, when the callee is in this section.
    pub(super) fn callee(&self, cfg: &Cfg, flow: &Flow) -> Option<u32> {
        match (self.rule, flow.transfer) {
            (Rule::Sound, Transfer::Call(target)) => {
                cfg.block_at(target).and_then(|block| self.trace_of.get(block.0 as usize).copied())
            }
            _ => None,
        }
    }

    /// Walks a trace forward: its exits, and what it reads before it writes it.
    fn summarise<F: Forward>(
        &self,
        program: &impl Program,
        cfg: &Cfg,
        t: u32,
        state: &mut F,
        exits: &mut Vec<Exit>,
    ) -> RegSet {
        state.reset();
        let mut exposed = RegSet::EMPTY;
        let blocks = self.traces[t as usize].blocks.clone();
        for b in blocks.clone() {
            let block = &cfg.blocks[b as usize];
            for index in block.start..block.end {
                let is_last = index + 1 == block.end;
                let flow = flow_within(program, index, is_last);
                let effects = self.effects(program, index, &flow);
                state.step(&effects, flow.guard, &mut exposed);
                if !is_last {
                    continue;
                }
                let falls_out = block.falls_through && b + 1 == blocks.end;
                if let Some(callee) = self.callee(cfg, &flow) {
                    if block.falls_through {
                        let next = self.trace_of[b as usize + 1];
                        exits.push(Exit { from: t, to: To::Call { callee, next }, kill: state.kill(flow.guard) });
                        if flow.guard.is_some() {
                            state.pass(&flow);
                            exits.push(Exit { from: t, to: To::Trace(next), kill: state.kill(None) });
                        }
                    }
                    continue;
                }
                let jumps = cfg.succ_of(b).iter().skip(usize::from(block.falls_through));
                for &to in jumps {
                    let to = To::Trace(self.trace_of[to as usize]);
                    exits.push(Exit { from: t, to, kill: state.kill(flow.guard) });
                }
                if self.rule == Rule::Sound && matches!(flow.transfer, Transfer::Return | Transfer::ReturnOut) {
                    exits.push(Exit { from: t, to: To::Return, kill: state.kill(flow.guard) });
                }
                if flow.leaves() {
                    state.pass(&flow);
                }
                if falls_out {
                    exits.push(Exit { from: t, to: To::Trace(self.trace_of[b as usize + 1]), kill: state.kill(None) });
                }
            }
            if self.rule == Rule::Nvdisasm && !block.falls_through && block.escapes {
                exposed.union_with(&self.abi.at_end.difference(&state.kill(None)));
            }
        }
        exposed
    }

    /// The fixed point.
    fn settle(&mut self, cfg: &Cfg, exits: &[Exit]) {
        let n = self.traces.len();
        // Facts flow against control: later traces first.
        let mut nodes: Vec<u32> = Vec::with_capacity(n);
        let mut placed = vec![false; n];
        for block in cfg.reverse_postorder().iter().rev() {
            let t = self.trace_of[block.0 as usize];
            if !std::mem::replace(&mut placed[t as usize], true) {
                nodes.push(t);
            }
        }
        nodes.extend((0..n as u32).rev().filter(|&t| !placed[t as usize]));
        let has_calls = exits.iter().any(|exit| matches!(exit.to, To::Call { .. }));
        if has_calls {
            self.settle_callees(&nodes, exits);
        }

        // Where a trace's RET leads: one more node for each function, behind the traces.
        let groups = self.return_groups(cfg);
        let functions = cfg.functions.len();
        nodes.extend((n..n + functions).map(|node| node as u32));
        let mut ranks = vec![0; nodes.len()];
        for (rank, &node) in nodes.iter().enumerate() {
            ranks[node as usize] = rank as u32;
        }
        let mut live = std::mem::take(&mut self.live_in);
        live.resize(n + functions, RegSet::EMPTY);
        let mut is_called = vec![false; functions];
        for exit in exits {
            if let To::Call { callee, .. } = exit.to {
                is_called[groups[callee as usize] as usize] = true;
            }
        }
        for (f, _) in is_called.iter().enumerate().filter(|(_, called)| !**called) {
            live[n + f] = self.abi.kept;
        }
        // Edge numbers: an exit's own, and for a call a second one that carries what is live after it to the callee's RET.
        let own = exits.iter().enumerate().map(|(e, exit)| {
            let source = match exit.to {
                To::Trace(to) => to,
                To::Call { next, .. } => next,
                To::Return => n as u32 + groups[exit.from as usize],
            };
            (source, e as u32)
        });
        let second = exits.iter().enumerate().filter_map(|(e, exit)| match exit.to {
            To::Call { next, .. } => Some((next, (exits.len() + e) as u32)),
            _ => None,
        });
        // What callees read does not change any more: it is there from the start.
        for exit in exits {
            if let To::Call { callee, .. } = exit.to {
                let read = self.reads[callee as usize].difference(&exit.kill);
                live[exit.from as usize].union_with(&read);
            }
        }
        let out = Lists::from_pairs(n + functions, own.chain(second));
        dataflow::run(&nodes, &ranks, &out, |edge| {
            if let Some(exit) = exits.get(edge as usize) {
                let carried = match exit.to {
                    To::Trace(to) => live[to as usize],
                    To::Call { callee, next } => live[next as usize].intersection(&self.passes[callee as usize]),
                    To::Return => live[n + groups[exit.from as usize] as usize],
                };
                live[exit.from as usize].union_with(&carried.difference(&exit.kill)).then_some(exit.from)
            } else {
                let To::Call { callee, next } = exits[edge as usize - exits.len()].to else { return None };
                let node = n as u32 + groups[callee as usize];
                let after = live[next as usize];
                live[node as usize].union_with(&after).then_some(node)
            }
        });
        self.return_out = groups.iter().map(|&group| live[n + group as usize]).collect();
        live.truncate(n);
        self.live_in = live;
    }

    /// What each trace may read before it returns, and which registers may come through to the `RET` unwritten.
    fn settle_callees(&mut self, nodes: &[u32], exits: &[Exit]) {
        let n = self.traces.len();
        let mut reads = self.live_in.clone();
        let mut passes = vec![RegSet::EMPTY; n];
        for exit in exits.iter().filter(|exit| exit.to == To::Return) {
            passes[exit.from as usize].union_with(&RegSet::all().difference(&exit.kill));
        }
        let mut ranks = vec![0; n];
        for (rank, &node) in nodes.iter().enumerate() {
            ranks[node as usize] = rank as u32;
        }
        let sources = exits.iter().enumerate().flat_map(|(e, exit)| {
            let (first, second) = match exit.to {
                To::Trace(to) => (Some(to), None),
                To::Call { callee, next } => (Some(next), Some(callee)),
                To::Return => (None, None),
            };
            [first, second].into_iter().flatten().map(move |node| (node, e as u32))
        });
        let out = Lists::from_pairs(n, sources);
        dataflow::run(nodes, &ranks, &out, |edge| {
            let exit = &exits[edge as usize];
            let (read, pass) = match exit.to {
                To::Trace(to) => (reads[to as usize], passes[to as usize]),
                To::Call { callee, next } => {
                    let through = passes[callee as usize];
                    let read = reads[callee as usize].union(&reads[next as usize].intersection(&through));
                    (read, passes[next as usize].intersection(&through))
                }
                To::Return => return None,
            };
            let grew = reads[exit.from as usize].union_with(&read.difference(&exit.kill));
            let grew = passes[exit.from as usize].union_with(&pass.difference(&exit.kill)) | grew;
            grew.then_some(exit.from)
        });
        self.reads = reads;
        self.passes = passes;
    }

    /// Which function's callers a `RET` in a trace goes back to: functions that share code share it.
    fn return_groups(&self, cfg: &Cfg) -> Vec<u32> {
        let mut parent: Vec<u32> = (0..cfg.functions.len().max(1) as u32).collect();
        let find = |parent: &mut Vec<u32>, mut f: u32| {
            while parent[f as usize] != f {
                parent[f as usize] = parent[parent[f as usize] as usize];
                f = parent[f as usize];
            }
            f
        };
        let owner = |b: u32| cfg.blocks[b as usize].function.map_or(0, |f| f.0);
        for b in cfg.reverse_postorder() {
            for &to in cfg.succ_of(b.0) {
                let (mine, theirs) = (find(&mut parent, owner(b.0)), find(&mut parent, owner(to)));
                parent[mine.max(theirs) as usize] = mine.min(theirs);
            }
        }
        for (f, function) in cfg.functions.iter().enumerate() {
            let (mine, theirs) = (find(&mut parent, f as u32), find(&mut parent, owner(function.block.0)));
            parent[mine.max(theirs) as usize] = mine.min(theirs);
        }
        self.traces.iter().map(|trace| find(&mut parent, owner(trace.blocks.start))).collect()
    }

    /// What a called function may read, and which registers it may leave as they were.
    pub(super) fn callee_summary(&self, callee: u32) -> (RegSet, RegSet) {
        match (self.reads.get(callee as usize), self.passes.get(callee as usize)) {
            (Some(&reads), Some(&passes)) => (reads, passes),
            _ => (RegSet::EMPTY, RegSet::all()),
        }
    }

    /// The trace of a block.
    pub(super) fn trace_at(&self, block: BlockId) -> Option<u32> {
        self.trace_of.get(block.0 as usize).copied()
    }
}

/// How an instruction moves control: inside a block, on to the next.
#[inline]
pub(super) fn flow_within(program: &impl Program, index: u32, is_last: bool) -> Flow {
    if is_last { program.flow(index as usize) } else { Flow { guard: program.guard(index as usize), ..Flow::NEXT } }
}

/// Cuts the section into traces.
fn cut(cfg: &Cfg, rule: Rule) -> (Vec<Trace>, Vec<u32>) {
    let mut starts = vec![false; cfg.blocks.len()];
    if rule == Rule::Sound {
        for function in &cfg.functions {
            starts[function.block.0 as usize] = true;
        }
        for call in cfg.calls.iter().filter(|call| call.callee.is_some()) {
            if let Some(next) = cfg.block_at(call.pc).and_then(|b| starts.get_mut(b.0 as usize + 1)) {
                *next = true;
            }
        }
    }
    let mut traces: Vec<Trace> = Vec::new();
    let mut trace_of = Vec::with_capacity(cfg.blocks.len());
    for (b, block) in cfg.blocks.iter().enumerate() {
        let follows = b > 0 && cfg.blocks[b - 1].falls_through;
        let is_entered = match rule {
            Rule::Nvdisasm => block.is_label,
            Rule::Sound => starts[b] || cfg.predecessors(BlockId(b as u32)).len() != 1,
        };
        if !follows || is_entered {
            traces.push(Trace { blocks: b as u32..b as u32 });
        }
        if let Some(trace) = traces.last_mut() {
            trace.blocks.end = b as u32 + 1;
        }
        trace_of.push(traces.len() as u32 - 1);
    }
    (traces, trace_of)
}

/// What is written on the way down a trace.
trait Forward {
    /// Nothing is written yet.
    fn reset(&mut self);

    /// Takes an instruction; adds to `exposed` what it reads from before the trace.
    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet);

    /// What is certainly written when control leaves here under `guard`.
    fn kill(&self, guard: Option<Guard>) -> RegSet;

    /// Control has gone past a side exit.
    fn pass(&mut self, flow: &Flow);
}

/// nvdisasm's: guarded writes count for exits, not for reads. Writes under a uniform guard are certain.
#[derive(Default)]
struct Vendor {
    certain: RegSet,
    any: RegSet,
}

/// Whether nvdisasm takes a write under this guard for certain.
pub(super) fn is_certain_to_vendor(guard: Option<Guard>) -> bool {
    guard.is_none_or(|guard| guard.file == RegFile::Upred)
}

impl Forward for Vendor {
    #[inline]
    fn reset(&mut self) {
        *self = Vendor::default();
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet) {
        exposed.union_with(&effects.reads.difference(&self.certain));
        self.any.union_with(&effects.writes);
        if is_certain_to_vendor(guard) {
            self.certain.union_with(&effects.writes);
        }
    }

    fn kill(&self, _: Option<Guard>) -> RegSet {
        self.any
    }

    fn pass(&mut self, _: &Flow) {}
}

/// A predicate with a sense: 0 to 27, or `None` for the always-true predicate.
pub(super) fn literal(guard: Guard) -> Option<usize> {
    let file = usize::from(guard.file == RegFile::Upred);
    (guard.index < 7).then_some(file * 14 + usize::from(guard.index) * 2 + usize::from(guard.negated))
}

/// Number of [`literal`]s.
pub(super) const LITERALS: usize = 28;

/// The literals, as bits, that a set of written predicates makes void.
pub(super) fn voided(writes: &RegSet) -> u32 {
    let mut bits = 0;
    let mut both =
        u32::from(writes.predicates(RegFile::Pred) & 0x7f) | u32::from(writes.predicates(RegFile::Upred) & 0x7f) << 7;
    while both != 0 {
        bits |= 3 << (2 * both.trailing_zeros());
        both &= both - 1;
    }
    bits
}

/// What is written always, and what is written where a literal holds.
#[derive(Default)]
struct Guarded {
    always: RegSet,
    when: [RegSet; LITERALS],
    /// Literals whose set is not empty.
    used: u32,
    /// Literals that hold for certain: control went past an exit under the opposite.
    facts: u32,
}

impl Guarded {
    /// Drops what is known about some literals.
    fn forget(&mut self, literals: u32) {
        let mut gone = literals & self.used;
        while gone != 0 {
            self.when[gone.trailing_zeros() as usize] = RegSet::EMPTY;
            gone &= gone - 1;
        }
        self.used &= !literals;
        self.facts &= !literals;
    }
}

impl Forward for Guarded {
    #[inline]
    fn reset(&mut self) {
        self.always = RegSet::EMPTY;
        self.forget(u32::MAX);
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>, exposed: &mut RegSet) {
        let mut lit = guard.and_then(literal);
        let never = guard.is_some_and(|guard| guard.index == 7 && guard.negated)
            || lit.is_some_and(|lit| self.facts >> (lit ^ 1) & 1 == 1);
        if let (Some(guard), true) = (guard, never) {
            if !self.always.contains(guard.file, u16::from(guard.index)) && guard.index < 7 {
                exposed.insert(guard.file, u16::from(guard.index));
            }
            return;
        }
        if lit.is_some_and(|lit| self.facts >> lit & 1 == 1) {
            lit = None;
        }
        let mut fresh = effects.reads.difference(&self.always);
        match (guard, guard.and_then(literal)) {
            (Some(guard), Some(lit)) if self.used >> lit & 1 == 1 => {
                // The guard itself is read whatever its value.
                let tested = fresh.contains(guard.file, u16::from(guard.index));
                fresh.subtract(&self.when[lit]);
                if tested {
                    fresh.insert(guard.file, u16::from(guard.index));
                }
            }
            _ => {}
        }
        exposed.union_with(&fresh);

        let void = voided(&effects.writes);
        self.forget(void);
        match lit {
            None => {
                self.always.union_with(&effects.writes);
            }
            // A guard that its own instruction writes says nothing afterwards.
            Some(lit) if void >> lit & 1 == 1 => {}
            Some(lit) => {
                let other = self.when[lit ^ 1];
                self.always.union_with(&effects.writes.intersection(&other));
                self.when[lit].union_with(&effects.writes);
                if !effects.writes.is_empty() {
                    self.used |= 1 << lit;
                }
            }
        }
    }

    fn kill(&self, guard: Option<Guard>) -> RegSet {
        match guard.and_then(literal) {
            Some(lit) if self.used >> lit & 1 == 1 => self.always.union(&self.when[lit]),
            _ => self.always,
        }
    }

    fn pass(&mut self, flow: &Flow) {
        if let (Some(lit), false) = (flow.guard.and_then(literal), flow.own_condition) {
            if self.used >> (lit ^ 1) & 1 == 1 {
                let held = self.when[lit ^ 1];
                self.always.union_with(&held);
            }
            self.facts |= 1 << (lit ^ 1);
        }
    }
}
