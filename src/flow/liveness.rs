//! Liveness: which registers hold a value that some later instruction may read.
//!
//! The section is cut into traces: a block and those after it that control reaches only by falling through. One walk over each
//! trace says which registers it reads before it writes them, and for each way out which registers it has written by then. The fixed
//! point then runs over traces and their exits alone.

use std::ops::Range;

use crate::base::{Id, IndexVec, PerRegFile, RegFile, RegSet};
use crate::sass::{Effects, Flow, Transfer};

use super::cfg::Cfg;
use super::convention::Abi;
use super::program::Program;
use super::touched::Touched;
use super::written::{Forward, Guarded, Vendor};
use crate::graph::dataflow::{self, Node};
use crate::graph::{BlockId, Lists};

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
        let count = |file| set.count(file) as u16;
        Counts(PerRegFile([count(RegFile::Gpr), count(RegFile::Pred), count(RegFile::Ugpr), count(RegFile::Upred)]))
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

impl Liveness {
    /// Solves liveness for the whole section.
    pub fn solve(program: &impl Program, cfg: &Cfg, rule: Rule) -> Liveness {
        let abi = Abi::new(program, &cfg.layout, rule);
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

    /// Takes what an instruction does under the rule; what a block's last one does by convention, too.
    #[inline(always)]
    pub(super) fn touch(&self, program: &impl Program, index: u32, last: Option<&Flow>, touched: &mut Touched) {
        touched.fill(program.runs(index as usize));
        if let Some(flow) = last {
            self.abi.follow(self.rule, index, flow, touched);
        }
        if self.rule == Rule::Nvdisasm {
            touched.count_only(&self.abi.counted);
        }
    }

    /// The same as two sets.
    pub(super) fn effects(&self, program: &impl Program, index: u32, flow: &Flow) -> Effects {
        let mut touched = Touched::default();
        self.touch(program, index, Some(flow), &mut touched);
        touched.effects()
    }

    /// The trace that an exit of block `b` by a call goes on with, when the callee is in this section.
    pub(super) fn callee(&self, cfg: &Cfg, flow: &Flow) -> Option<u32> {
        match (self.rule, flow.transfer) {
            (Rule::Sound, Transfer::Call(target)) => {
                cfg.block_at(target).and_then(|block| self.trace_of.get(block.index()).copied())
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
        let mut touched = Touched::default();
        let blocks = self.traces[t as usize].blocks.clone();
        for b in blocks.clone() {
            let block = &cfg.blocks[b as usize];
            let Some(last) = block.end.checked_sub(1).filter(|last| *last >= block.start) else { continue };
            for index in block.start..last {
                self.touch(program, index, None, &mut touched);
                state.step(&touched, program.guard(index as usize), &mut exposed);
            }
            let flow = program.flow(last as usize);
            self.touch(program, last, Some(&flow), &mut touched);
            state.step(&touched, flow.guard, &mut exposed);
            self.leave_by(cfg, (t, b), &flow, state, exits);
            if self.rule == Rule::Nvdisasm && !block.falls_through && block.escapes {
                exposed.union_with(&self.abi.at_end.difference(&state.kill(None)));
            }
        }
        exposed
    }

    /// Takes the ways out of a trace by a block's last instruction.
    fn leave_by<F: Forward>(&self, cfg: &Cfg, (t, b): (u32, u32), flow: &Flow, state: &mut F, exits: &mut Vec<Exit>) {
        let block = &cfg.blocks[b as usize];
        let falls_out = block.falls_through && b + 1 == self.traces[t as usize].blocks.end;
        if let Some(callee) = self.callee(cfg, flow) {
            if block.falls_through {
                let next = self.trace_of[b as usize + 1];
                exits.push(Exit { from: t, to: To::Call { callee, next }, kill: state.kill(flow.guard) });
                if flow.guard.is_some() {
                    state.pass(flow);
                    exits.push(Exit { from: t, to: To::Trace(next), kill: state.kill(None) });
                }
            }
            return;
        }
        let jumps = cfg.succ_of(BlockId(b)).iter().skip(usize::from(block.falls_through));
        for to in jumps {
            let to = To::Trace(self.trace_of[to.index()]);
            exits.push(Exit { from: t, to, kill: state.kill(flow.guard) });
        }
        if self.rule == Rule::Sound && matches!(flow.transfer, Transfer::Return | Transfer::ReturnOut) {
            exits.push(Exit { from: t, to: To::Return, kill: state.kill(flow.guard) });
        }
        if flow.leaves() {
            state.pass(flow);
        }
        if falls_out {
            exits.push(Exit { from: t, to: To::Trace(self.trace_of[b as usize + 1]), kill: state.kill(None) });
        }
    }

    /// The fixed point.
    fn settle(&mut self, cfg: &Cfg, exits: &[Exit]) {
        let n = self.traces.len();
        // Facts flow against control: later traces first.
        let mut nodes: Vec<Node> = Vec::with_capacity(n);
        let mut placed = vec![false; n];
        for block in cfg.reverse_postorder().iter().rev() {
            let t = self.trace_of[block.0 as usize];
            if !std::mem::replace(&mut placed[t as usize], true) {
                nodes.push(Node(t));
            }
        }
        nodes.extend((0..n as u32).rev().filter(|&t| !placed[t as usize]).map(Node));
        let has_calls = exits.iter().any(|exit| matches!(exit.to, To::Call { .. }));
        if has_calls {
            self.settle_callees(&nodes, exits);
        }

        // Where a trace's RET leads: one more node for each function, behind the traces.
        let groups = self.return_groups(cfg);
        let functions = cfg.functions.len();
        nodes.extend((n..n + functions).map(Node::new));
        let mut ranks = IndexVec::filled(0, nodes.len());
        for (rank, &node) in nodes.iter().enumerate() {
            ranks[node] = rank as u32;
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
            (Node(source), e as u32)
        });
        let second = exits.iter().enumerate().filter_map(|(e, exit)| match exit.to {
            To::Call { next, .. } => Some((Node(next), (exits.len() + e) as u32)),
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
                live[exit.from as usize].union_with(&carried.difference(&exit.kill)).then_some(Node(exit.from))
            } else {
                let To::Call { callee, next } = exits[edge as usize - exits.len()].to else { return None };
                let node = n as u32 + groups[callee as usize];
                let after = live[next as usize];
                live[node as usize].union_with(&after).then_some(Node(node))
            }
        });
        self.return_out = groups.iter().map(|&group| live[n + group as usize]).collect();
        live.truncate(n);
        self.live_in = live;
    }

    /// What each trace may read before it returns, and which registers may come through to the `RET` unwritten.
    fn settle_callees(&mut self, nodes: &[Node], exits: &[Exit]) {
        let n = self.traces.len();
        let mut reads = self.live_in.clone();
        let mut passes = vec![RegSet::EMPTY; n];
        for exit in exits.iter().filter(|exit| exit.to == To::Return) {
            passes[exit.from as usize].union_with(&RegSet::all().difference(&exit.kill));
        }
        let mut ranks = IndexVec::filled(0, n);
        for (rank, &node) in nodes.iter().enumerate() {
            ranks[node] = rank as u32;
        }
        let sources = exits.iter().enumerate().flat_map(|(e, exit)| {
            let (first, second) = match exit.to {
                To::Trace(to) => (Some(to), None),
                To::Call { callee, next } => (Some(next), Some(callee)),
                To::Return => (None, None),
            };
            [first, second].into_iter().flatten().map(move |node| (Node(node), e as u32))
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
            grew.then_some(Node(exit.from))
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
        let owner = |b: BlockId| cfg.blocks[b.index()].function.map_or(0, |f| f.0);
        for &b in cfg.reverse_postorder() {
            for &to in cfg.succ_of(b) {
                let (mine, theirs) = (find(&mut parent, owner(b)), find(&mut parent, owner(to)));
                parent[mine.max(theirs) as usize] = mine.min(theirs);
            }
        }
        for (f, function) in cfg.functions.iter().enumerate() {
            let (mine, theirs) = (find(&mut parent, f as u32), find(&mut parent, owner(function.block)));
            parent[mine.max(theirs) as usize] = mine.min(theirs);
        }
        self.traces.iter().map(|trace| find(&mut parent, owner(BlockId(trace.blocks.start)))).collect()
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
        self.trace_of.get(block.index()).copied()
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
