//! Live registers instruction by instruction, walked back from the end of each trace.

use std::ops::ControlFlow;

use crate::base::{Id, Pc, PerRegFile, RegFile, RegSet};
use crate::graph::BlockId;
use crate::sass::{Effects, Flow, Guard, Transfer};

use super::cfg::Cfg;
use super::liveness::{Counts, Liveness, Rule};
use super::program::Program;
use super::touched::{Touched, Words, guard_bit};
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

/// Whoever looks at instructions on the way up a trace.
trait Visitor {
    /// Comes to an instruction from behind: what is live there is live after it.
    fn arrive(&mut self, state: &impl Backward);

    /// Has passed an instruction. Outside the words, what is live is what it was before.
    fn visit(&mut self, index: u32, state: &impl Backward, touched: &Touched, words: Words) -> ControlFlow<()>;
}

/// Makes rows.
struct Rows<F> {
    after: RegSet,
    row: F,
}

impl<F: FnMut(&Row) -> ControlFlow<()>> Visitor for Rows<F> {
    fn arrive(&mut self, state: &impl Backward) {
        self.after = state.live();
    }

    fn visit(&mut self, index: u32, state: &impl Backward, touched: &Touched, _: Words) -> ControlFlow<()> {
        (self.row)(&Row { pc: Pc(index * 16), before: state.live(), after: self.after, effects: touched.effects() })
    }
}

/// Counts the occupied registers of each instruction: what is live as it comes and goes, and what the instruction writes beside.
struct Counter {
    all: Vec<Counts>,
    /// The registers live at the instruction after this one.
    live: RegSet,
    /// How many those are.
    count: Lanes,
    /// Where the padding starts, of which nothing is counted.
    end: u32,
}

/// Numbers of registers by file, sixteen bits each, in the order of [`RegFile::ALL`]: added up all at once.
#[derive(Clone, Copy, Default)]
struct Lanes(u64);

/// How many bits of a byte are set: no processor that is not asked for more counts them in an instruction.
static ONES: [u8; 256] = {
    let mut ones = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        ones[byte] = (byte as u8).count_ones() as u8;
        byte += 1;
    }
    ones
};

impl Lanes {
    /// How many registers of which files some bits of a word of a set are. Mostly it is one, or none.
    #[inline(always)]
    fn of_word(at: usize, bits: u64) -> Lanes {
        if bits == 0 {
            return Lanes(0);
        }
        // Neighbours, most of the time.
        let near = bits >> bits.trailing_zeros();
        if near >= 256 || at == RegSet::PREDICATES {
            return Lanes::of_any(at, bits);
        }
        // Four words of vector registers, then the uniform ones.
        Lanes(u64::from(ONES[near as usize]) << (8 * (at & 4)))
    }

    #[inline(never)]
    fn of_any(at: usize, bits: u64) -> Lanes {
        let counts = RegSet::count_in_word(at, bits);
        Lanes(counts.into_iter().fold(0, |all, (file, count)| all | u64::from(count) << (16 * file as usize)))
    }

    #[inline(always)]
    fn counts(self) -> Counts {
        let Lanes(all) = self;
        Counts(PerRegFile([all as u16, (all >> 16) as u16, (all >> 32) as u16, (all >> 48) as u16]))
    }
}

impl Counter {
    fn new(cfg: &Cfg) -> Counter {
        Counter {
            all: vec![Counts::default(); cfg.instructions as usize],
            live: RegSet::EMPTY,
            count: Lanes::default(),
            end: cfg.instructions - cfg.padding,
        }
    }
}

impl Visitor for Counter {
    #[inline(always)]
    fn arrive(&mut self, _: &impl Backward) {}

    #[inline(always)]
    fn visit(&mut self, index: u32, state: &impl Backward, touched: &Touched, words: Words) -> ControlFlow<()> {
        let mut written = Lanes::default();
        for at in words.with(touched.words()) {
            let live = state.live_word(at);
            let before = std::mem::replace(self.live.word_mut(at), live);
            // What was there is there to be taken away: no lane borrows from the next.
            self.count.0 += Lanes::of_word(at, live & !before).0;
            self.count.0 -= Lanes::of_word(at, before & !live).0;
            written.0 += Lanes::of_word(at, touched.word(at).1 & !live).0;
        }
        if index < self.end
            && let Some(to) = self.all.get_mut(index as usize)
        {
            *to = Lanes(self.count.0 + written.0).counts();
        }
        ControlFlow::Continue(())
    }
}

impl Liveness {
    /// Visits every instruction: traces ascending, inside a trace from its last instruction to its first.
    pub fn rows(&self, program: &impl Program, cfg: &Cfg, mut visit: impl FnMut(&Row)) {
        let row = |row: &Row| {
            visit(row);
            ControlFlow::Continue(())
        };
        self.walk_all(program, cfg, &mut Rows { after: RegSet::EMPTY, row });
    }

    /// The # columns of every instruction, by index.
    pub fn counts(&self, program: &impl Program, cfg: &Cfg) -> Vec<Counts> {
        let mut counter = Counter::new(cfg);
        self.walk_all(program, cfg, &mut counter);
        counter.all
    }

    /// The registers that [`Liveness::counts`] counts.
    pub fn sets(&self, program: &impl Program, cfg: &Cfg) -> Vec<RegSet> {
        let mut all = vec![RegSet::EMPTY; cfg.instructions as usize];
        let end = cfg.instructions - cfg.padding;
        self.rows(program, cfg, |row| {
            let index = row.pc.0 / 16;
            if index < end {
                all[index as usize] = row.occupied();
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
        let mut rows = Rows { after: RegSet::EMPTY, row: visit };
        match self.rule {
            Rule::Sound => self.walk(program, cfg, t, &mut Conditional::default(), &mut rows),
            Rule::Nvdisasm => self.walk(program, cfg, t, &mut Flat::default(), &mut rows),
        }
    }

    fn walk_all(&self, program: &impl Program, cfg: &Cfg, visitor: &mut impl Visitor) {
        let (mut conditional, mut flat) = (Conditional::default(), Flat::default());
        for t in 0..self.traces.len() as u32 {
            match self.rule {
                Rule::Sound => self.walk(program, cfg, t, &mut conditional, visitor),
                Rule::Nvdisasm => self.walk(program, cfg, t, &mut flat, visitor),
            }
        }
    }

    fn walk<B: Backward>(&self, program: &impl Program, cfg: &Cfg, t: u32, state: &mut B, visitor: &mut impl Visitor) {
        state.start(&RegSet::EMPTY);
        let mut touched = Touched::default();
        let blocks = self.traces[t as usize].blocks.clone();
        for b in blocks.clone().rev() {
            let block = &cfg.blocks[b as usize];
            let Some(last) = block.end.checked_sub(1).filter(|last| *last >= block.start) else { continue };
            if b + 1 == blocks.end && block.falls_through {
                state.start(&self.live_in[self.trace_of[b as usize + 1] as usize]);
            }
            visitor.arrive(state);
            let flow = program.flow(last as usize);
            self.leave(cfg, (t, b), &flow, state);
            self.touch(program, last, Some(&flow), &mut touched);
            state.step(&touched, flow.guard);
            if visitor.visit(last, state, &touched, Words::ALL).is_break() {
                return;
            }
            for index in (block.start..last).rev() {
                visitor.arrive(state);
                self.touch(program, index, None, &mut touched);
                let words = state.step(&touched, program.guard(index as usize));
                if visitor.visit(index, state, &touched, words).is_break() {
                    return;
                }
            }
        }
    }

    /// Joins what is live where a block's last instruction leads, beside the next one.
    fn leave<B: Backward>(&self, cfg: &Cfg, (t, b): (u32, u32), flow: &Flow, state: &mut B) {
        let block = &cfg.blocks[b as usize];
        if self.rule == Rule::Nvdisasm && !block.falls_through && block.escapes {
            state.start(&self.abi.at_end);
        }
        if let Some(callee) = self.callee(cfg, flow) {
            let (reads, passes) = self.callee_summary(callee);
            let called = reads.union(&state.live().intersection(&passes));
            match flow.guard {
                None => state.start(&called),
                Some(_) => state.exit(&called, flow),
            }
        }
        for to in cfg.succ_of(BlockId(b)).iter().skip(usize::from(block.falls_through)) {
            state.exit(&self.live_in[self.trace_of[to.index()] as usize], flow);
        }
        match flow.transfer {
            Transfer::Return | Transfer::ReturnOut if self.rule == Rule::Sound => {
                state.exit(&self.return_out[t as usize], flow);
            }
            Transfer::Exit => state.exit(&RegSet::EMPTY, flow),
            _ => {}
        }
    }
}

/// What is live on the way up a trace.
trait Backward {
    /// Takes what is live where control goes on.
    fn start(&mut self, live: &RegSet);

    /// Joins what is live where a jump leads; further targets of the same jump join one by one.
    fn exit(&mut self, target: &RegSet, flow: &Flow);

    /// Takes an instruction, and says in which words what is live may have changed.
    fn step(&mut self, touched: &Touched, guard: Option<Guard>) -> Words;

    /// Everything that may be live.
    fn live(&self) -> RegSet;

    /// The same of one word.
    fn live_word(&self, at: usize) -> u64;
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

    fn step(&mut self, touched: &Touched, guard: Option<Guard>) -> Words {
        let is_certain = is_certain_to_vendor(guard);
        for at in touched.words() {
            let (reads, writes) = touched.word(at);
            let word = self.0.word_mut(at);
            *word = *word & !(if is_certain { writes } else { 0 }) | reads;
        }
        touched.words()
    }

    fn live(&self) -> RegSet {
        self.0
    }

    #[inline(always)]
    fn live_word(&self, at: usize) -> u64 {
        self.0.word(at)
    }
}

/// What is live always, and what is live only where a literal holds.
struct Conditional {
    always: RegSet,
    when: [RegSet; LITERALS],
    /// Literals whose set is not empty.
    used: u32,
    /// Their sets together: most instructions touch none of it.
    sometimes: RegSet,
}

impl Default for Conditional {
    fn default() -> Self {
        let sometimes = RegSet::EMPTY;
        Conditional { always: RegSet::EMPTY, when: [RegSet::EMPTY; LITERALS], used: 0, sometimes }
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
        self.sometimes.subtract(set);
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
            self.sometimes.union_with(&fresh);
            self.used |= 1 << lit;
        }
    }

    /// Takes registers of a word away from what is live only where some literals hold.
    #[inline(always)]
    fn take_away(&mut self, literals: u32, at: usize, bits: u64) {
        if self.sometimes.word(at) & bits != 0 {
            self.take_away_some(literals, at, bits);
        }
    }

    #[inline(never)]
    fn take_away_some(&mut self, literals: u32, at: usize, bits: u64) {
        let (mut rest, mut sometimes) = (self.used, 0);
        while rest != 0 {
            let lit = rest.trailing_zeros() as usize;
            let word = self.when[lit].word_mut(at);
            if literals >> lit & 1 == 1 && *word & bits != 0 {
                *word &= !bits;
                if self.when[lit].is_empty() {
                    self.used &= !(1 << lit);
                }
            }
            sometimes |= self.when[lit].word(at);
            rest &= rest - 1;
        }
        *self.sometimes.word_mut(at) = sometimes;
    }

    /// Takes an instruction that always runs.
    #[inline(always)]
    fn step_always(&mut self, touched: &Touched) -> Words {
        for at in touched.words() {
            let (reads, writes) = touched.word(at);
            let always = self.always.word_mut(at);
            *always = *always & !writes | reads;
            self.take_away(u32::MAX, at, reads | writes);
        }
        touched.words()
    }

    /// What is live only where some literals hold is live always: nobody knows them any more.
    #[inline(never)]
    fn free(&mut self, literals: u32) {
        if literals & self.used == 0 {
            return;
        }
        let mut freed = RegSet::EMPTY;
        self.for_used(literals, |when| {
            freed.union_with(when);
            *when = RegSet::EMPTY;
        });
        self.add_always(&freed);
    }

    /// Takes an instruction that runs where a literal holds: its predicate is read in any case.
    #[inline(never)]
    fn step_where(&mut self, lit: usize, guard: u64, touched: &Touched) -> Words {
        for at in touched.words() {
            let (reads, writes) = touched.word(at);
            self.take_away(1 << lit, at, writes);
            let spared = self.always.word(at) & writes;
            *self.always.word_mut(at) &= !spared;
            self.add_word(lit ^ 1, at, spared);
            // Those live where it does not hold are now live always.
            let fresh = reads & !self.always.word(at);
            let both = fresh & self.when[lit ^ 1].word(at);
            self.always_word(at, both);
            self.add_word(lit, at, fresh & !both);
        }
        self.always_word(RegSet::PREDICATES, guard);
        touched.words().and(RegSet::PREDICATES)
    }

    /// Makes registers of a word live always.
    fn always_word(&mut self, at: usize, bits: u64) {
        if bits != 0 {
            *self.always.word_mut(at) |= bits;
            self.take_away(u32::MAX, at, bits);
        }
    }

    /// Makes registers of a word live where a literal holds.
    fn add_word(&mut self, lit: usize, at: usize, bits: u64) {
        if bits != 0 {
            *self.when[lit].word_mut(at) |= bits;
            *self.sometimes.word_mut(at) |= bits;
            self.used |= 1 << lit;
        }
    }
}

impl Backward for Conditional {
    fn start(&mut self, live: &RegSet) {
        self.for_used(u32::MAX, |when| *when = RegSet::EMPTY);
        self.sometimes = RegSet::EMPTY;
        self.always = *live;
    }

    fn exit(&mut self, target: &RegSet, flow: &Flow) {
        match flow.guard.and_then(literal) {
            Some(lit) => {
                if flow.leaves() && !flow.own_condition && !matches!(flow.transfer, Transfer::Indirect) {
                    // Control goes on only where the guard does not hold.
                    self.for_used(1 << lit, |when| *when = RegSet::EMPTY);
                    let mut sometimes = RegSet::EMPTY;
                    self.for_used(u32::MAX, |when| {
                        sometimes.union_with(when);
                    });
                    self.sometimes = sometimes;
                    let alone = self.always.difference(target);
                    self.always = self.always.intersection(target);
                    self.add_when(lit ^ 1, &alone);
                }
                self.add_when(lit, target);
            }
            None => self.add_always(target),
        }
    }

    #[inline(always)]
    fn step(&mut self, touched: &Touched, guard: Option<Guard>) -> Words {
        if touched.word(RegSet::PREDICATES).1 != 0 {
            self.free(voided(touched));
        }
        match guard {
            None => self.step_always(touched),
            Some(guard) => match literal(guard) {
                Some(lit) => self.step_where(lit, guard_bit(guard), touched),
                // `@!PT` never runs; `@PT` is no guard at all.
                None if guard.negated => Words::default(),
                None => self.step_always(touched),
            },
        }
    }

    fn live(&self) -> RegSet {
        self.always.union(&self.sometimes)
    }

    #[inline(always)]
    fn live_word(&self, at: usize) -> u64 {
        self.always.word(at) | self.sometimes.word(at)
    }
}

impl Counts {
    /// The count of one file.
    pub fn get(&self, file: RegFile) -> u16 {
        self.0[file]
    }
}
