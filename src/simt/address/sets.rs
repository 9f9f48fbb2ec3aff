//! Which places of an array an address can be, where loops count its index.
//!
//! In: what evaluation left unknown, and an address that depends on it. Out: every offset that the address can have, found by walking the
//! blocks with the numbers that lead to it: both ways where a branch is not decided by them. Where memory, a parameter or anything else
//! that is not computed from constants has a part in the address, all numbers within bounds that the instructions tell (`bounds.rs`) are
//! tried; without bounds it gives up.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::base::{FastMap, IndexVec, work};
use crate::ptx::Operand;
use crate::simt::address::slice::AddressSlice;
use crate::simt::eval::evaluate::Writer;
use crate::simt::eval::solve::Solver;
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::{Edge, Graph, SiteId};
use crate::simt::reachability::{Reach, ThreadSet, passing};
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Step};
use crate::simt::{BlockId, Values};

/// States of a block that are told apart. Indices that count on for ever have ever new ones.
const MAX_STATES: usize = 96;
/// States that a block must have been seen in before what it saw is taken to come again.
const ENOUGH: usize = 48;
/// Visits of blocks for one address, and for all of a kernel.
const MAX_VISITS: usize = 1 << 15;
const MAX_ALL_VISITS: usize = 1 << 19;
/// AddressSets that one address may have.
const MAX_PLACES: usize = 64;

/// Finds places.
pub struct AddressSets<'w, 'a> {
    graph: &'w Graph<'a>,
    values: &'w Values,
    reach: &'w Reach,
    /// Made when the first address is asked about.
    walker: Option<Walker<'w, 'a>>,
}

/// Walks through the blocks.
pub(in crate::simt) struct Walker<'w, 'a> {
    pub graph: &'w Graph<'a>,
    pub values: &'w Values,
    reach: &'w Reach,
    pub solver: Solver<'w, 'a>,
    /// By block: those that lead to it.
    pub before: IndexVec<BlockId, Vec<BlockId>>,
    /// Blocks that end with a predicate that is not known, and its value.
    pub predicates: Vec<(BlockId, ValueId)>,
    /// By block: whether it is known of some threads which way they leave it.
    parts: IndexVec<BlockId, bool>,
    /// By block, where an address was asked for: the blocks that lead there.
    leads: FastMap<BlockId, Leads>,
    /// By block and another: whether every way to the second leads through the first.
    through: FastMap<(BlockId, BlockId), bool>,
    visits: usize,
    /// Among whom numbers differed in the last walk.
    varied: Option<Variation>,
    known: FastMap<(ValueId, BlockId), Option<Vec<i64>>>,
    /// By value: the numbers that it may be.
    pub bounded: FastMap<ValueId, Option<Rc<[u64]>>>,
}

/// A way out of a block that something happens in: which one, what must hold for it, and where something happens next.
type Way = (usize, Option<bool>, Vec<BlockId>);

/// By block: whether it leads to a certain one.
pub(in crate::simt) type Leads = Rc<IndexVec<BlockId, bool>>;

impl<'w, 'a> AddressSets<'w, 'a> {
    /// Of a kernel.
    pub fn new(graph: &'w Graph<'a>, values: &'w Values, reach: &'w Reach) -> AddressSets<'w, 'a> {
        AddressSets { graph, values, reach, walker: None }
    }

    /// The offsets that an address operand can have, ascending; none where that is not known.
    pub fn operand(&mut self, index: SiteId, operand: Operand<'_>) -> Option<Vec<i64>> {
        let (graph, values, reach) = (self.graph, self.values, self.reach);
        let home = graph.sites.get(index)?.block;
        let walker = self.walker.get_or_insert_with(|| Walker::new(graph, values, reach));
        let same = values.identity(graph, index, operand).filter(|(id, _)| walker.is_before(*id, home));
        let (id, added) = match same {
            Some(same) => same,
            None => values.address(graph, index, operand).and_then(|(id, added)| Some((id, added?)))?,
        };
        walker.of(id, home)?.into_iter().map(|offset| offset.checked_add(added)).collect()
    }
}

impl<'w, 'a> Walker<'w, 'a> {
    fn new(graph: &'w Graph<'a>, values: &'w Values, reach: &'w Reach) -> Walker<'w, 'a> {
        let solver = Solver::new(graph, values.size, &values.alignments, None).knowing(&values.held);
        let before = graph.predecessors();
        let mut walker = Walker {
            graph,
            values,
            reach,
            solver,
            before,
            predicates: Vec::new(),
            parts: IndexVec::default(),
            leads: FastMap::default(),
            through: FastMap::default(),
            visits: 0,
            varied: None,
            known: FastMap::default(),
            bounded: FastMap::default(),
        };
        for (at, block) in graph.blocks.iter_enumerated() {
            let last = block.last();
            let predicate = block.successors.iter().find_map(|edge| edge.when).map(|(register, _)| register);
            let id = predicate.and_then(|register| values.ssa.read(last, register));
            let unknown = id.filter(|id| !walker.is_known(*id));
            walker.predicates.extend(unknown.map(|id| (at, id)));
            let tells = |register| {
                matches!(values.at(last, register), Value::Constant(_) | Value::Threads { .. } | Value::Choice { .. })
            };
            let by_index = block.successors.iter().any(|edge| edge.case.is_some());
            walker.parts.push(by_index || predicate.is_some_and(tells));
        }
        walker
    }

    /// Whether a value is written on every way to a block. What is computed from the same elsewhere need not be.
    fn is_before(&mut self, id: ValueId, home: BlockId) -> bool {
        let block = match self.values.writers.get(id) {
            Some(Writer::Step(at)) => self.values.steps.get(*at as usize).map(|step| step.block),
            Some(Writer::Phi(at)) => self.values.ssa.phis.get(*at as usize).map(|phi| phi.block),
            _ => None,
        };
        block.is_none_or(|block| match self.through.get(&(block, home)) {
            Some(known) => *known,
            None => {
                let every_way = self.is_on_every_way(block, home);
                self.through.insert((block, home), every_way);
                every_way
            }
        })
    }

    fn is_on_every_way(&self, block: BlockId, home: BlockId) -> bool {
        work::spend_on(self.graph.blocks.len() / 16);
        let mut seen = IndexVec::filled(false, self.graph.blocks.len());
        let mut open = vec![home];
        while let Some(at) = open.pop() {
            work::spend(1);
            if at == block || std::mem::replace(seen.get_mut(at).unwrap_or(&mut true), true) {
                continue;
            }
            if at == Graph::ENTRY {
                return false;
            }
            open.extend(self.before.get(at).into_iter().flatten());
        }
        true
    }

    /// The offsets that a value can have as an address in a block, ascending; none where that is not known.
    fn of(&mut self, id: ValueId, block: BlockId) -> Option<Vec<i64>> {
        if let Some(known) = self.known.get(&(id, block)) {
            return known.clone();
        }
        let exact = self.question(id, block, false).and_then(|question| self.walks(&question));
        let found = exact.or_else(|| {
            let question = self.question(id, block, true).filter(|question| !question.free.is_empty())?;
            // What another thread has need not be what this one has.
            let mut steps = question.steps.values().flatten();
            if steps.any(|step| matches!(step.compute, Compute::Shuffle)) {
                return None;
            }
            self.walks(&question)
        });
        self.known.insert((id, block), found.clone());
        found
    }

    /// Walks for all threads at once, or for one warp after the other where the numbers differ among them.
    fn walks(&mut self, question: &AddressSlice<'_>) -> Option<Vec<i64>> {
        self.varied = None;
        if let Some(found) = self.walk(question, None) {
            return Some(found);
        }
        if self.varied != Some(Variation::Warp) {
            return None;
        }
        let mut all: Vec<i64> = Vec::new();
        for thread in self.reach.block(question.home).one_a_warp().iter() {
            all.extend(self.walk(question, Some(thread))?);
        }
        all.sort_unstable();
        all.dedup();
        (all.len() <= MAX_PLACES).then_some(all)
    }

    /// Runs an instruction, for one thread if so.
    fn run(&mut self, step: &Step, thread: Option<u32>) {
        self.solver.run(step);
        for to in &step.destinations {
            let value = self.solver.holds(to.id);
            if !matches!(value, Value::Threads { .. } | Value::Addresses { .. }) {
                continue;
            }
            self.varied = self.varied.max(Some(value.variation()));
            if thread.is_some() {
                let one = one_of(value, thread);
                self.solver.put(to.id, one);
            }
        }
    }

    /// Walks from the start with what an address depends on, from block to block in which something happens to that.
    fn walk(&mut self, question: &AddressSlice<'_>, thread: Option<u32>) -> Option<Vec<i64>> {
        let those = self.reach.block(question.home);
        let those = thread.map_or(those, |thread| [thread].into_iter().collect());
        let leads = self.leads_to(question.home);
        // Nothing of what an earlier walk left there.
        for id in &question.values {
            self.solver.put(*id, self.values.held.get(*id).cloned().unwrap_or(Value::Undefined));
        }
        let mut ways: FastMap<BlockId, Vec<Way>> = FastMap::default();
        let mut states: FastMap<BlockId, Vec<Vec<Value>>> = FastMap::default();
        let mut open: VecDeque<(BlockId, Vec<Value>, usize)> = VecDeque::new();
        open.extend((0..question.choices(Graph::ENTRY)).map(|choice| (Graph::ENTRY, Vec::new(), choice)));
        let (mut found, mut seen, mut last_new, mut full) = (Vec::new(), 0usize, 0usize, false);
        // States of the block that has most: so far, and when the last place was found.
        let (mut most, mut most_then) = (0, 0);
        // Whether numbers decided against a way.
        let mut shut = false;
        let mut visits = 0;
        while let Some((at, state, mut choice)) = open.pop_front() {
            work::spend(1);
            visits += 1;
            self.visits += 1;
            if visits > MAX_VISITS || self.visits > MAX_ALL_VISITS {
                return None;
            }
            let live = question.live.get(at).copied().unwrap_or_default();
            for (place, value) in live.iter().zip(state) {
                if let Some(id) = question.values.get(place) {
                    self.solver.put(*id, value);
                }
            }
            for step in question.steps.get(&at).into_iter().flatten() {
                match question.choose(step, &mut choice) {
                    Some((id, number)) => self.solver.put(id, Value::Constant(number)),
                    None => self.run(step, thread),
                }
            }
            if at == question.home {
                seen += 1;
                if self.record(question.address, &those, &mut found)? {
                    (last_new, most_then) = (seen, most);
                }
                // An index that counts on comes around again and again.
                if seen >= ENOUGH && last_new * 2 <= seen {
                    full = false;
                    break;
                }
            }
            let out = ways.entry(at).or_insert_with(|| self.ways(question, &leads, &those, at));
            let decided = question.decides.get(&at).map(|id| self.solver.holds(*id));
            // Warps part here: each has a walk of its own.
            if thread.is_none()
                && matches!(decided, Some(Value::Threads { .. }))
                && self.varied == Some(Variation::Warp)
            {
                return None;
            }
            for (way, wanted, targets) in &*out {
                if let (Some(Value::Constant(holds)), Some(wanted)) = (decided, wanted)
                    && (holds & 1 == 1) != *wanted
                {
                    shut = true;
                    continue;
                }
                for &to in targets {
                    let next = self.after(question, at, *way, to, thread);
                    let there = states.entry(to).or_default();
                    work::spend_on(1 + there.len());
                    if there.contains(&next) {
                        continue;
                    }
                    if there.len() >= MAX_STATES {
                        full = true;
                        continue;
                    }
                    open.extend((0..question.choices(to)).map(|choice| (to, next.clone(), choice)));
                    there.push(next);
                    most = most.max(there.len());
                }
            }
        }
        // What counts on elsewhere, with nothing new here for half of its states, brings the same again; but not where numbers say how long
        // it goes on.
        full &= shut || most_then * 2 > MAX_STATES;
        found.sort_unstable();
        (!full && !found.is_empty()).then_some(found)
    }

    /// The blocks that lead to one, itself among them.
    pub fn leads_to(&mut self, home: BlockId) -> Leads {
        if let Some(known) = self.leads.get(&home) {
            return known.clone();
        }
        // Kept for each block that is asked about.
        work::spend_on(self.graph.blocks.len());
        let mut leads = IndexVec::filled(false, self.graph.blocks.len());
        let mut open = vec![home];
        while let Some(at) = open.pop() {
            work::spend(1);
            if !std::mem::replace(leads.get_mut(at).unwrap_or(&mut true), true) {
                open.extend(self.before.get(at).into_iter().flatten());
            }
        }
        let leads = Rc::new(leads);
        self.leads.insert(home, leads.clone());
        leads
    }

    /// The ways out of a block that some threads may go on the way to where an address is asked for.
    fn ways(
        &self,
        question: &AddressSlice<'_>,
        leads: &IndexVec<BlockId, bool>,
        those: &ThreadSet,
        from: BlockId,
    ) -> Vec<Way> {
        let Some(block) = self.graph.blocks.get(from) else { return Vec::new() };
        let edges = block.successors.iter().enumerate().filter(|(_, edge)| self.is_open(from, edge, those));
        edges
            .map(|(way, edge)| (way, edge.when.map(|(_, wanted)| wanted), self.next(question, leads, those, edge.to)))
            .collect()
    }

    fn is_open(&self, from: BlockId, edge: &Edge, those: &ThreadSet) -> bool {
        if !self.parts.get(from).copied().unwrap_or(true) {
            return self.reach.is_reached(from, those);
        }
        let here = those.intersection(&self.reach.block(from));
        let block = self.graph.blocks.get(from);
        block.is_some_and(|block| !passing(self.graph, self.values, block, edge, here).is_empty())
    }

    /// Where something happens next, from the start of a block.
    fn next(
        &self,
        question: &AddressSlice<'_>,
        leads: &IndexVec<BlockId, bool>,
        those: &ThreadSet,
        start: BlockId,
    ) -> Vec<BlockId> {
        let (mut found, mut seen, mut open) = (Vec::new(), FastMap::default(), vec![start]);
        while let Some(at) = open.pop() {
            work::spend(1);
            if !leads.get(at).copied().unwrap_or(false) || seen.insert(at, ()).is_some() {
                continue;
            }
            let Some(block) = self.graph.blocks.get(at) else { continue };
            let happens = at == question.home
                || question.steps.contains_key(&at)
                || question.decides.contains_key(&at)
                || question.meets.contains_key(&at)
                || block.successors.iter().any(|edge| question.meets.contains_key(&edge.to));
            if happens {
                found.push(at);
            } else {
                open.extend(block.successors.iter().filter(|edge| self.is_open(at, edge, those)).map(|edge| edge.to));
            }
        }
        found
    }

    /// Takes down where an address is now; whether that is new, none if it cannot be told.
    fn record(&self, address: ValueId, those: &ThreadSet, found: &mut Vec<i64>) -> Option<bool> {
        let mut add = |offset: i64| {
            let new = !found.contains(&offset);
            if new {
                found.push(offset);
            }
            new
        };
        let new = match self.solver.holds(address) {
            Value::Address { offset: Some(offset), .. } => add(*offset),
            Value::Addresses { offsets, .. } => {
                let mut new = false;
                for thread in those.iter() {
                    new |= add(*offsets.get(thread as usize)?);
                }
                new
            }
            // Nobody gets here this way.
            Value::Undefined => false,
            _ => return None,
        };
        (found.len() <= MAX_PLACES).then_some(new)
    }

    /// What comes to a block by a way from another: of the values that are read there or later.
    fn after(
        &self,
        question: &AddressSlice<'_>,
        from: BlockId,
        way: usize,
        to: BlockId,
        thread: Option<u32>,
    ) -> Vec<Value> {
        let live = question.live.get(to).copied().unwrap_or_default();
        let phis = question.meets_in(to);
        let coming = |id: ValueId| {
            let phi = phis.iter().find(|phi| phi.id == id)?;
            let from = phi.from.iter().find(|(block, by, _)| (*block, *by) == (from, way))?;
            Some(from.2)
        };
        let values = live.iter().filter_map(|place| question.values.get(place));
        values.map(|id| one_of(self.solver.holds(coming(*id).unwrap_or(*id)), thread)).collect()
    }
}

/// What one thread has of a value; all of it without a thread.
fn one_of(value: &Value, thread: Option<u32>) -> Value {
    match (value, thread) {
        (Value::Threads { values, .. }, Some(thread)) => {
            values.get(thread as usize).map_or(Value::Unknown(Variation::Lane), |number| Value::Constant(*number))
        }
        (Value::Addresses { variable, offsets }, Some(thread)) => {
            Value::Address { variable: *variable, offset: offsets.get(thread as usize).copied() }
        }
        (value, _) => value.clone(),
    }
}
