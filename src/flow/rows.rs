//! Live registers instruction by instruction, walked back from the end of each trace.

use std::ops::ControlFlow;

use crate::base::{Id, Pc, RegFile, RegSet};
use crate::graph::BlockId;
use crate::sass::{Effects, Flow, Guard, Transfer};

use super::cfg::Cfg;
use super::liveness::{Counts, Liveness, Rule, flow_within};
use super::program::Program;
use super::written::{LITERALS, is_certain_to_vendor, literal, voided};

/// One instruction and what is live around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it is.
    pub pc: Pc,
    /// Live before it.
    pub before: RegSet,
    /// Live after it, when control goes on to the next instruction.
    pub after: RegSet,
    /// What it reads and writes under the rule.
    pub effects: Effects,
}

impl Row {
    /// What the # columns of nvdisasm count: live before it together with what it writes.
    pub fn occupied(&self) -> RegSet {
        self.before.union(&self.effects.writes)
    }
}

impl Liveness {
    /// Visits every instruction: traces ascending, inside a trace from its last instruction to its first.
    pub fn rows(&self, program: &impl Program, cfg: &Cfg, mut visit: impl FnMut(&Row)) {
        let mut visit = |row: &Row| {
            visit(row);
            ControlFlow::Continue(())
        };
        let (mut conditional, mut flat) = (Conditional::default(), Flat::default());
        for t in 0..self.traces.len() as u32 {
            match self.rule {
                Rule::Sound => self.walk(program, cfg, t, &mut conditional, &mut visit),
                Rule::Nvdisasm => self.walk(program, cfg, t, &mut flat, &mut visit),
            }
        }
    }

    /// The # columns of every instruction, by index.
    pub fn counts(&self, program: &impl Program, cfg: &Cfg) -> Vec<Counts> {
        self.of_occupied(program, cfg, Counts::of)
    }

    /// The registers that [`Liveness::counts`] counts.
    pub fn sets(&self, program: &impl Program, cfg: &Cfg) -> Vec<RegSet> {
        self.of_occupied(program, cfg, |set| *set)
    }

    /// Something of the registers of each row, by index; nothing of the padding at the end.
    fn of_occupied<T: Clone + Default>(&self, program: &impl Program, cfg: &Cfg, of: impl Fn(&RegSet) -> T) -> Vec<T> {
        let mut all = vec![T::default(); cfg.instructions as usize];
        let end = cfg.instructions - cfg.padding;
        self.rows(program, cfg, |row| {
            let index = row.pc.0 / 16;
            if index < end {
                all[index as usize] = of(&row.occupied());
            }
        });
        all
    }

    /// The row of one instruction.
    pub fn row(&self, program: &impl Program, cfg: &Cfg, pc: Pc) -> Option<Row> {
        let trace = self.trace_at(cfg.block_at(pc)?)?;
        let mut found = None;
        let mut visit = |row: &Row| {
            found = Some(*row).filter(|row| row.pc == pc);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.trace_rows(program, cfg, trace, &mut visit);
        found
    }

    /// What is live at the start of a function, its parameters in registers among it.
    pub fn live_at_entry(&self, cfg: &Cfg, function: super::FuncId) -> Option<RegSet> {
        let block = cfg.functions.get(function.0 as usize)?.block;
        self.live_in.get(self.trace_at(block)? as usize).copied()
    }

    /// Rows of one trace, last instruction first, until the visitor has seen enough.
    pub(super) fn trace_rows(
        &self,
        program: &impl Program,
        cfg: &Cfg,
        t: u32,
        visit: &mut impl FnMut(&Row) -> ControlFlow<()>,
    ) {
        match self.rule {
            Rule::Sound => self.walk(program, cfg, t, &mut Conditional::default(), visit),
            Rule::Nvdisasm => self.walk(program, cfg, t, &mut Flat::default(), visit),
        }
    }

    fn walk<B: Backward>(
        &self,
        program: &impl Program,
        cfg: &Cfg,
        t: u32,
        state: &mut B,
        visit: &mut impl FnMut(&Row) -> ControlFlow<()>,
    ) {
        state.start(&RegSet::EMPTY);
        let blocks = self.traces[t as usize].blocks.clone();
        for b in blocks.clone().rev() {
            let block = &cfg.blocks[b as usize];
            for index in (block.start..block.end).rev() {
                let flow = flow_within(program, index, index + 1 == block.end);
                let effects = self.effects(program, index, &flow);
                let mut after = state.live();
                if index + 1 == block.end {
                    if b + 1 == blocks.end && block.falls_through {
                        let next = self.live_in[self.trace_of[b as usize + 1] as usize];
                        state.start(&next);
                        after = next;
                    } else if self.rule == Rule::Nvdisasm && !block.falls_through && block.escapes {
                        state.start(&self.abi.at_end);
                    }
                    if let Some(callee) = self.callee(cfg, &flow) {
                        let (reads, passes) = self.callee_summary(callee);
                        let called = reads.union(&after.intersection(&passes));
                        match flow.guard {
                            None => state.start(&called),
                            Some(_) => state.exit(&called, &flow),
                        }
                    }
                    for to in cfg.succ_of(BlockId(b)).iter().skip(usize::from(block.falls_through)) {
                        state.exit(&self.live_in[self.trace_of[to.index()] as usize], &flow);
                    }
                    match flow.transfer {
                        Transfer::Return | Transfer::ReturnOut if self.rule == Rule::Sound => {
                            state.exit(&self.return_out[t as usize], &flow);
                        }
                        Transfer::Exit => state.exit(&RegSet::EMPTY, &flow),
                        _ => {}
                    }
                }
                state.step(&effects, flow.guard);
                if visit(&Row { pc: Pc(index * 16), before: state.live(), after, effects }).is_break() {
                    return;
                }
            }
        }
    }
}

/// What is live on the way up a trace.
trait Backward {
    /// Takes what is live where control goes on.
    fn start(&mut self, live: &RegSet);

    /// Joins what is live where a jump leads; further targets of the same jump join one by one.
    fn exit(&mut self, target: &RegSet, flow: &Flow);

    /// Takes an instruction.
    fn step(&mut self, effects: &Effects, guard: Option<Guard>);

    /// Everything that may be live.
    fn live(&self) -> RegSet;
}

/// One set: guarded writes kill nothing, those under a uniform guard do.
#[derive(Default)]
struct Flat(RegSet);

impl Backward for Flat {
    fn start(&mut self, live: &RegSet) {
        self.0 = *live;
    }

    fn exit(&mut self, target: &RegSet, _: &Flow) {
        self.0.union_with(target);
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>) {
        if is_certain_to_vendor(guard) {
            self.0.subtract(&effects.writes);
        }
        self.0.union_with(&effects.reads);
    }

    fn live(&self) -> RegSet {
        self.0
    }
}

/// What is live always, and what is live only where a literal holds.
struct Conditional {
    always: RegSet,
    when: [RegSet; LITERALS],
    used: u32,
}

impl Default for Conditional {
    fn default() -> Self {
        Conditional { always: RegSet::EMPTY, when: [RegSet::EMPTY; LITERALS], used: 0 }
    }
}

impl Conditional {
    fn for_used(&mut self, bits: u32, mut act: impl FnMut(&mut RegSet)) {
        let mut bits = bits & self.used;
        while bits != 0 {
            let lit = bits.trailing_zeros() as usize;
            act(&mut self.when[lit]);
            if self.when[lit].is_empty() {
                self.used &= !(1 << lit);
            }
            bits &= bits - 1;
        }
    }

    fn add_always(&mut self, set: &RegSet) {
        self.always.union_with(set);
        self.for_used(u32::MAX, |when| when.subtract(set));
    }

    /// Makes registers live where `lit` holds; those live where it does not are now live always.
    fn add_when(&mut self, lit: usize, set: &RegSet) {
        let fresh = set.difference(&self.always);
        if fresh.is_empty() {
            return;
        }
        let both =
            if self.used >> (lit ^ 1) & 1 == 1 { fresh.intersection(&self.when[lit ^ 1]) } else { RegSet::EMPTY };
        if !both.is_empty() {
            self.add_always(&both);
        }
        let fresh = fresh.difference(&both);
        if !fresh.is_empty() {
            self.when[lit].union_with(&fresh);
            self.used |= 1 << lit;
        }
    }
}

impl Backward for Conditional {
    fn start(&mut self, live: &RegSet) {
        self.for_used(u32::MAX, |when| *when = RegSet::EMPTY);
        self.always = *live;
    }

    fn exit(&mut self, target: &RegSet, flow: &Flow) {
        match flow.guard.and_then(literal) {
            Some(lit) => {
                if flow.leaves() && !flow.own_condition && !matches!(flow.transfer, Transfer::Indirect) {
                    // Control goes on only where the guard does not hold.
                    self.for_used(1 << lit, |when| *when = RegSet::EMPTY);
                    let alone = self.always.difference(target);
                    self.always = self.always.intersection(target);
                    self.add_when(lit ^ 1, &alone);
                }
                self.add_when(lit, target);
            }
            None => self.add_always(target),
        }
    }

    fn step(&mut self, effects: &Effects, guard: Option<Guard>) {
        let void = voided(&effects.writes);
        if void & self.used != 0 {
            let mut freed = RegSet::EMPTY;
            self.for_used(void, |when| {
                freed.union_with(when);
                *when = RegSet::EMPTY;
            });
            self.add_always(&freed);
        }
        let Some(guard) = guard else {
            self.always.subtract(&effects.writes);
            self.for_used(u32::MAX, |when| when.subtract(&effects.writes));
            self.add_always(&effects.reads);
            return;
        };
        let Some(lit) = literal(guard) else {
            // `@!PT` never runs; `@PT` is no guard at all.
            if !guard.negated {
                self.step(effects, None);
            }
            return;
        };
        self.for_used(1 << lit, |when| when.subtract(&effects.writes));
        let spared = self.always.intersection(&effects.writes);
        self.always.subtract(&spared);
        self.add_when(lit ^ 1, &spared);
        self.add_when(lit, &effects.reads);
        let mut tested = RegSet::EMPTY;
        tested.insert(guard.file, u16::from(guard.index));
        self.add_always(&tested);
    }

    fn live(&self) -> RegSet {
        let mut live = self.always;
        let mut bits = self.used;
        while bits != 0 {
            live.union_with(&self.when[bits.trailing_zeros() as usize]);
            bits &= bits - 1;
        }
        live
    }
}

impl Counts {
    /// The count of one file.
    pub fn get(&self, file: RegFile) -> u16 {
        self.0[file]
    }
}
