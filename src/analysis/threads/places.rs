//! Which places of an array an address can be, where loops count its index.
//!
//! In: what evaluation left unknown, and an address that depends on it. Out: every offset that the address can have, found by walking the
//! blocks with the numbers that lead to it: both ways where a branch is not decided by them. It gives up where memory, a parameter or
//! anything else that is not computed from constants has a part in the address.

use std::collections::VecDeque;

use super::graph::{Edge, Graph};
use super::prepare::Step;
use super::reach::{Reach, ThreadSet, passing};
use super::solve::Solver;
use super::value::{Value, Variation};
use super::{Values, versions::Meeting};
use crate::base::FastMap;
use crate::ptx::Operand;

/// Versions that one address may depend on: a bit each.
const MAX_VERSIONS: usize = 128;
/// States of a block that are told apart. Indices that count on for ever have ever new ones.
const MAX_STATES: usize = 96;
/// States that a block must have been seen in before what it saw is taken to come again.
const ENOUGH: usize = 48;
/// Visits of blocks for one address, and for all of a kernel.
const MAX_VISITS: usize = 1 << 13;
const MAX_ALL_VISITS: usize = 1 << 16;
/// Places that one address may have.
const MAX_PLACES: usize = 64;

/// What writes a version.
#[derive(Clone, Copy)]
enum Writer {
    Nobody,
    Step(u32),
    Meeting(u32),
    Several,
}

/// Finds places.
pub struct Places<'w, 'a> {
    graph: &'w Graph<'a>,
    values: &'w Values,
    reach: &'w Reach,
    /// Made when the first address is asked about.
    walker: Option<Walker<'w, 'a>>,
}

/// Walks through the blocks.
struct Walker<'w, 'a> {
    graph: &'w Graph<'a>,
    values: &'w Values,
    reach: &'w Reach,
    solver: Solver<'w, 'a>,
    writers: Vec<Writer>,
    /// By block: its meetings.
    meetings: Vec<(usize, usize)>,
    /// By block: those that lead to it.
    before: Vec<Vec<u32>>,
    visits: usize,
    /// Among whom numbers differed in the last walk.
    varied: Option<Variation>,
    known: FastMap<(u32, u32), Option<Vec<i64>>>,
}

/// Where runs of equal blocks start and end.
fn runs(blocks: usize, of: impl Iterator<Item = u32>) -> Vec<(usize, usize)> {
    let mut runs = vec![(0, 0); blocks];
    for (at, block) in of.enumerate() {
        if let Some(run) = runs.get_mut(block as usize) {
            *run = if run.1 == 0 { (at, at + 1) } else { (run.0, at + 1) };
        }
    }
    runs
}

/// Whether a version need not be looked into.
fn is_known(value: &Value) -> bool {
    match value {
        Value::Constant(_) | Value::Threads { .. } | Value::Addresses { .. } => true,
        Value::Address { offset, .. } => offset.is_some(),
        _ => false,
    }
}

/// What one address depends on.
struct Question<'w> {
    address: u32,
    /// Where it is asked for.
    home: u32,
    versions: Vec<u32>,
    place: FastMap<u32, usize>,
    /// By block: the instructions that compute them, in order.
    steps: FastMap<u32, Vec<&'w Step>>,
    /// Blocks in which some of them meet.
    meets: FastMap<u32, ()>,
    /// By block: the version of the predicate that it ends with, if that is one of them.
    decides: FastMap<u32, u32>,
    /// By block: those of `versions` that are read there or later, as bits.
    live: Vec<u128>,
}

/// A way out of a block that something happens in: which one, what must hold for it, and where something happens next.
type Way = (usize, Option<bool>, Vec<u32>);

impl<'w, 'a> Places<'w, 'a> {
    /// Of a kernel.
    pub fn new(graph: &'w Graph<'a>, values: &'w Values, reach: &'w Reach) -> Places<'w, 'a> {
        Places { graph, values, reach, walker: None }
    }

    /// The offsets that an address operand can have, ascending; none where that is not known.
    pub fn operand(&mut self, index: usize, operand: Operand<'_>) -> Option<Vec<i64>> {
        let (version, added) = self.values.identity(self.graph, index, operand)?;
        let (graph, values, reach) = (self.graph, self.values, self.reach);
        let found = self.walker.get_or_insert_with(|| Walker::new(graph, values, reach)).of(index, version)?;
        found.into_iter().map(|offset| offset.checked_add(added)).collect()
    }
}

impl<'w, 'a> Walker<'w, 'a> {
    fn new(graph: &'w Graph<'a>, values: &'w Values, reach: &'w Reach) -> Walker<'w, 'a> {
        let solver = Solver::new(graph, values.size, &values.alignments, None).knowing(&values.held);
        let mut writers = vec![Writer::Nobody; values.versions.count as usize];
        for (at, step) in values.steps.iter().enumerate() {
            for to in &step.destinations {
                if let Some(writer) = writers.get_mut(to.version as usize) {
                    *writer = if to.alone { Writer::Step(at as u32) } else { Writer::Several };
                }
            }
        }
        for (at, meeting) in values.versions.meetings.iter().enumerate() {
            if let Some(writer) = writers.get_mut(meeting.version as usize) {
                *writer = Writer::Meeting(at as u32);
            }
        }
        let meetings = runs(graph.blocks.len(), values.versions.meetings.iter().map(|meeting| meeting.block));
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); graph.blocks.len()];
        for (at, block) in graph.blocks.iter().enumerate() {
            for edge in &block.successors {
                if let Some(list) = before.get_mut(edge.to as usize) {
                    list.push(at as u32);
                }
            }
        }
        let known = FastMap::default();
        Walker { graph, values, reach, solver, writers, meetings, before, visits: 0, varied: None, known }
    }

    /// The offsets that a version can have as an address where an instruction reads it, ascending; none where that is not known.
    fn of(&mut self, index: usize, version: u32) -> Option<Vec<i64>> {
        let block = self.graph.sites.get(index)?.block;
        if let Some(known) = self.known.get(&(version, block)) {
            return known.clone();
        }
        let found = self.question(version, block).and_then(|question| self.walks(&question));
        self.known.insert((version, block), found.clone());
        found
    }

    fn meetings_of(&self, block: u32) -> &'w [Meeting] {
        let values: &'w Values = self.values;
        let (from, to) = self.meetings.get(block as usize).copied().unwrap_or((0, 0));
        values.versions.meetings.get(from..to).unwrap_or(&[])
    }

    /// The versions that one is computed from; none where that is not known.
    fn sources(&self, version: u32) -> Option<Vec<u32>> {
        match self.writers.get(version as usize).copied()? {
            Writer::Nobody | Writer::Several => None,
            Writer::Step(at) => self.values.steps.get(at as usize).map(|step| step.depends.clone()),
            Writer::Meeting(at) => {
                let meeting = self.values.versions.meetings.get(at as usize)?;
                Some(meeting.from.iter().map(|(.., version)| *version).collect())
            }
        }
    }

    fn is_known(&self, version: u32) -> bool {
        self.values.held.get(version as usize).is_none_or(is_known)
    }

    /// What an address depends on that is not known.
    fn question(&self, address: u32, home: u32) -> Option<Question<'w>> {
        let mut question = Question {
            address,
            home,
            versions: Vec::new(),
            place: FastMap::default(),
            steps: FastMap::default(),
            meets: FastMap::default(),
            decides: FastMap::default(),
            live: Vec::new(),
        };
        self.gather(address, &mut question)?;
        // Predicates that these decide alone decide where to go.
        for (at, block) in self.graph.blocks.iter().enumerate() {
            let last = block.end.saturating_sub(1) as usize;
            let register = block.successors.iter().find_map(|edge| edge.when).map(|(register, _)| register);
            let Some(version) = register.and_then(|register| self.values.versions.read(last, register)) else {
                continue;
            };
            if !self.is_known(version) && self.decided(version, &question, 0) {
                self.gather(version, &mut question)?;
                question.decides.insert(at as u32, version);
            }
        }
        let values: &'w Values = self.values;
        let mut computed: Vec<u32> = Vec::new();
        for version in &question.versions {
            match self.writers.get(*version as usize) {
                Some(Writer::Step(at)) => computed.push(*at),
                Some(Writer::Meeting(at)) => {
                    let meeting = values.versions.meetings.get(*at as usize);
                    question.meets.extend(meeting.map(|meeting| (meeting.block, ())));
                }
                _ => {}
            }
        }
        computed.sort_unstable();
        computed.dedup();
        for step in computed.into_iter().filter_map(|at| values.steps.get(at as usize)) {
            question.steps.entry(step.block).or_default().push(step);
        }
        question.live = self.live(&question);
        Some(question)
    }

    fn gather(&self, from: u32, question: &mut Question<'_>) -> Option<()> {
        let mut open = vec![from];
        while let Some(version) = open.pop() {
            if self.is_known(version) || question.place.contains_key(&version) {
                continue;
            }
            if question.versions.len() >= MAX_VERSIONS {
                return None;
            }
            question.place.insert(version, question.versions.len());
            question.versions.push(version);
            open.extend(self.sources(version).into_iter().flatten());
        }
        Some(())
    }

    /// By block: the versions of a question that are read there or later before they are written anew.
    fn live(&self, question: &Question<'_>) -> Vec<u128> {
        let bit = |version: u32| question.place.get(&version).map_or(0, |place| 1u128 << place);
        let blocks = &self.graph.blocks;
        let (mut reads, mut writes) = (vec![0u128; blocks.len()], vec![0u128; blocks.len()]);
        let touched = question.steps.keys().chain(question.decides.keys()).chain([&question.home]);
        for &at in touched {
            let (Some(reads), Some(writes)) = (reads.get_mut(at as usize), writes.get_mut(at as usize)) else {
                continue;
            };
            (*reads, *writes) = (0, 0);
            for step in question.steps.get(&at).into_iter().flatten() {
                *reads |= step.depends.iter().fold(0, |all, version| all | bit(*version)) & !*writes;
                *writes |= step.destinations.iter().fold(0, |all, to| all | bit(to.version));
            }
            let decides = question.decides.get(&at).map_or(0, |version| bit(*version));
            *reads |= (decides | if at == question.home { bit(question.address) } else { 0 }) & !*writes;
        }
        let mut live = reads.clone();
        let mut open: Vec<u32> = (0..blocks.len() as u32).collect();
        while let Some(at) = open.pop() {
            let Some(block) = blocks.get(at as usize) else { continue };
            let mut after = 0;
            for (way, edge) in block.successors.iter().enumerate() {
                let mut there = live.get(edge.to as usize).copied().unwrap_or(0);
                for meeting in self.meetings_in(question, edge.to) {
                    if there & bit(meeting.version) == 0 {
                        continue;
                    }
                    there &= !bit(meeting.version);
                    let coming = meeting.from.iter().find(|(block, by, _)| (*block, *by) == (at, way));
                    after |= coming.map_or(0, |(.., version)| bit(*version));
                }
                after |= there;
            }
            let (Some(slot), Some(reads), Some(writes)) =
                (live.get_mut(at as usize), reads.get(at as usize), writes.get(at as usize))
            else {
                continue;
            };
            let now = *reads | after & !*writes;
            if now != *slot {
                *slot = now;
                open.extend(self.before.get(at as usize).into_iter().flatten());
            }
        }
        live
    }

    /// The meetings in a block that a question may have a part in.
    fn meetings_in(&self, question: &Question<'_>, block: u32) -> &'w [Meeting] {
        if question.meets.contains_key(&block) { self.meetings_of(block) } else { &[] }
    }

    /// Whether nothing has a part in a version that a question does not have anyway.
    fn decided(&self, version: u32, question: &Question<'_>, depth: u32) -> bool {
        if self.is_known(version) || question.place.contains_key(&version) {
            return true;
        }
        let is_step = matches!(self.writers.get(version as usize), Some(Writer::Step(_)));
        let sources = self.sources(version).filter(|sources| is_step && depth < 8 && !sources.is_empty());
        sources.is_some_and(|sources| {
            sources.iter().all(|source| *source != version && self.decided(*source, question, depth + 1))
        })
    }

    /// Walks for all threads at once, or for one warp after the other where the numbers differ among them.
    fn walks(&mut self, question: &Question<'_>) -> Option<Vec<i64>> {
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
            let value = self.solver.holds(to.version);
            if !matches!(value, Value::Threads { .. } | Value::Addresses { .. }) {
                continue;
            }
            self.varied = self.varied.max(Some(value.variation()));
            if thread.is_some() {
                let one = one_of(value, thread);
                self.solver.put(to.version, one);
            }
        }
    }

    /// Walks from the start with what an address depends on, from block to block in which something happens to that.
    fn walk(&mut self, question: &Question<'_>, thread: Option<u32>) -> Option<Vec<i64>> {
        let those = self.reach.block(question.home);
        let those = thread.map_or(those, |thread| [thread].into_iter().collect());
        let leads = self.leads_to(question.home);
        let mut ways: FastMap<u32, Vec<Way>> = FastMap::default();
        let mut states: FastMap<u32, Vec<Vec<Value>>> = FastMap::default();
        let mut open: VecDeque<(u32, Vec<Value>)> = VecDeque::from([(0, Vec::new())]);
        let (mut found, mut seen, mut last_new, mut full) = (Vec::new(), 0usize, 0usize, false);
        let mut visits = 0;
        while let Some((at, state)) = open.pop_front() {
            visits += 1;
            self.visits += 1;
            if visits > MAX_VISITS || self.visits > MAX_ALL_VISITS {
                return None;
            }
            let live = question.live.get(at as usize).copied().unwrap_or(0);
            for (place, value) in bits(live).zip(state) {
                if let Some(version) = question.versions.get(place) {
                    self.solver.put(*version, value);
                }
            }
            for step in question.steps.get(&at).into_iter().flatten() {
                self.run(step, thread);
            }
            if at == question.home {
                seen += 1;
                if self.record(question.address, &those, &mut found)? {
                    last_new = seen;
                }
                // An index that counts on comes around again and again.
                if seen >= ENOUGH && last_new * 2 <= seen {
                    full = false;
                    break;
                }
            }
            let out = ways.entry(at).or_insert_with(|| self.ways(question, &leads, &those, at));
            let decided = question.decides.get(&at).map(|version| self.solver.holds(*version));
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
                    continue;
                }
                for &to in targets {
                    let next = self.after(question, at, *way, to, thread);
                    let there = states.entry(to).or_default();
                    if there.contains(&next) {
                        continue;
                    }
                    if there.len() >= MAX_STATES {
                        full = true;
                        continue;
                    }
                    there.push(next.clone());
                    open.push_back((to, next));
                }
            }
        }
        found.sort_unstable();
        (!full && !found.is_empty()).then_some(found)
    }

    /// The blocks that lead to one, itself among them.
    fn leads_to(&self, home: u32) -> Vec<bool> {
        let mut leads = vec![false; self.graph.blocks.len()];
        let mut open = vec![home];
        while let Some(at) = open.pop() {
            if !std::mem::replace(leads.get_mut(at as usize).unwrap_or(&mut true), true) {
                open.extend(self.before.get(at as usize).into_iter().flatten());
            }
        }
        leads
    }

    /// The ways out of a block that some threads may go on the way to where an address is asked for.
    fn ways(&self, question: &Question<'_>, leads: &[bool], those: &ThreadSet, from: u32) -> Vec<Way> {
        let Some(block) = self.graph.blocks.get(from as usize) else { return Vec::new() };
        let edges = block.successors.iter().enumerate().filter(|(_, edge)| self.is_open(from, edge, those));
        edges
            .map(|(way, edge)| (way, edge.when.map(|(_, wanted)| wanted), self.next(question, leads, those, edge.to)))
            .collect()
    }

    fn is_open(&self, from: u32, edge: &Edge, those: &ThreadSet) -> bool {
        let here = those.intersection(&self.reach.block(from));
        let block = self.graph.blocks.get(from as usize);
        block.is_some_and(|block| !passing(self.graph, self.values, block, edge, here).is_empty())
    }

    /// Where something happens next, from the start of a block.
    fn next(&self, question: &Question<'_>, leads: &[bool], those: &ThreadSet, start: u32) -> Vec<u32> {
        let (mut found, mut seen, mut open) = (Vec::new(), FastMap::default(), vec![start]);
        while let Some(at) = open.pop() {
            if !leads.get(at as usize).copied().unwrap_or(false) || seen.insert(at, ()).is_some() {
                continue;
            }
            let Some(block) = self.graph.blocks.get(at as usize) else { continue };
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
    fn record(&self, address: u32, those: &ThreadSet, found: &mut Vec<i64>) -> Option<bool> {
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

    /// What comes to a block by a way from another: of the versions that are read there or later.
    fn after(&self, question: &Question<'_>, from: u32, way: usize, to: u32, thread: Option<u32>) -> Vec<Value> {
        let live = question.live.get(to as usize).copied().unwrap_or(0);
        let meetings = self.meetings_in(question, to);
        let coming = |version: u32| {
            let meeting = meetings.iter().find(|meeting| meeting.version == version)?;
            let from = meeting.from.iter().find(|(block, by, _)| (*block, *by) == (from, way))?;
            Some(from.2)
        };
        let values = bits(live).filter_map(|place| question.versions.get(place));
        values.map(|version| one_of(self.solver.holds(coming(*version).unwrap_or(*version)), thread)).collect()
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

/// The places of the bits that are set, ascending.
fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros();
        set &= set.checked_sub(1)?;
        Some(place as usize)
    })
}
