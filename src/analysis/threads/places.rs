//! Which places of an array an address can be, where loops count its index.
//!
//! In: what evaluation left unknown, and an address that depends on it. Out: every offset that the address can have, found by walking the
//! blocks with the numbers that lead to it: both ways where a branch is not decided by them. It gives up where memory, a parameter or
//! anything else that is not computed from constants has a part in the address.

use std::collections::VecDeque;

use super::graph::Graph;
use super::prepare::Step;
use super::reach::{Reach, ThreadSet, passing};
use super::solve::Solver;
use super::value::Value;
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
const MAX_VISITS: usize = 1 << 14;
const MAX_ALL_VISITS: usize = 1 << 17;
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
    solver: Solver<'w, 'a>,
    writers: Vec<Writer>,
    /// By block: its steps and its meetings.
    steps: Vec<(usize, usize)>,
    meetings: Vec<(usize, usize)>,
    visits: usize,
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
struct Question {
    versions: Vec<u32>,
    place: FastMap<u32, usize>,
    /// By block: those of `versions` that are read there or later, as bits.
    live: Vec<u128>,
    /// By block: the version of the predicate that it ends with, if that is one of them.
    decides: FastMap<u32, u32>,
}

impl<'w, 'a> Places<'w, 'a> {
    /// Of a kernel.
    pub fn new(graph: &'w Graph<'a>, values: &'w Values, reach: &'w Reach) -> Places<'w, 'a> {
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
        let blocks = graph.blocks.len();
        let steps = runs(blocks, values.steps.iter().map(|step| step.block));
        let meetings = runs(blocks, values.versions.meetings.iter().map(|meeting| meeting.block));
        Places { graph, values, reach, solver, writers, steps, meetings, visits: 0, known: FastMap::default() }
    }

    /// The offsets that an address operand can have, ascending; none where that is not known.
    pub fn operand(&mut self, index: usize, operand: Operand<'_>) -> Option<Vec<i64>> {
        let (version, added) = self.values.identity(self.graph, index, operand)?;
        let found = self.of(index, version)?;
        found.into_iter().map(|offset| offset.checked_add(added)).collect()
    }

    /// The offsets that a version can have as an address where an instruction reads it, ascending; none where that is not known.
    fn of(&mut self, index: usize, version: u32) -> Option<Vec<i64>> {
        let block = self.graph.sites.get(index)?.block;
        if let Some(known) = self.known.get(&(version, block)) {
            return known.clone();
        }
        let found = self.question(version, block).and_then(|question| self.walk(&question, version, block));
        self.known.insert((version, block), found.clone());
        found
    }

    fn steps_of(&self, block: u32) -> &'w [Step] {
        let values: &'w Values = self.values;
        let (from, to) = self.steps.get(block as usize).copied().unwrap_or((0, 0));
        values.steps.get(from..to).unwrap_or(&[])
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
    fn question(&self, address: u32, home: u32) -> Option<Question> {
        let mut question =
            Question { versions: Vec::new(), place: FastMap::default(), live: Vec::new(), decides: FastMap::default() };
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
        question.live = self.live(&question, address, home);
        Some(question)
    }

    fn gather(&self, from: u32, question: &mut Question) -> Option<()> {
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
    fn live(&self, question: &Question, address: u32, home: u32) -> Vec<u128> {
        let bit = |version: u32| question.place.get(&version).map_or(0, |place| 1u128 << place);
        let blocks = &self.graph.blocks;
        let (mut reads, mut writes) = (vec![0u128; blocks.len()], vec![0u128; blocks.len()]);
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); blocks.len()];
        for (at, (reads, writes)) in reads.iter_mut().zip(&mut writes).enumerate() {
            let at = at as u32;
            for step in self.steps_of(at) {
                if step.destinations.iter().any(|to| bit(to.version) != 0) {
                    *reads |= step.depends.iter().fold(0, |all, version| all | bit(*version)) & !*writes;
                    *writes |= step.destinations.iter().fold(0, |all, to| all | bit(to.version));
                }
            }
            let decides = question.decides.get(&at).map_or(0, |version| bit(*version));
            *reads |= (decides | if at == home { bit(address) } else { 0 }) & !*writes;
            for edge in blocks.get(at as usize).into_iter().flat_map(|block| &block.successors) {
                if let Some(list) = before.get_mut(edge.to as usize) {
                    list.push(at);
                }
            }
        }
        let mut live = reads.clone();
        let mut open: Vec<u32> = (0..blocks.len() as u32).collect();
        while let Some(at) = open.pop() {
            let Some(block) = blocks.get(at as usize) else { continue };
            let mut after = 0;
            for (way, edge) in block.successors.iter().enumerate() {
                let mut there = live.get(edge.to as usize).copied().unwrap_or(0);
                for meeting in self.meetings_of(edge.to) {
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
                open.extend(before.get(at as usize).into_iter().flatten());
            }
        }
        live
    }

    /// Whether nothing has a part in a version that a question does not have anyway.
    fn decided(&self, version: u32, question: &Question, depth: u32) -> bool {
        if self.is_known(version) || question.place.contains_key(&version) {
            return true;
        }
        let is_step = matches!(self.writers.get(version as usize), Some(Writer::Step(_)));
        let sources = self.sources(version).filter(|sources| is_step && depth < 8 && !sources.is_empty());
        sources.is_some_and(|sources| {
            sources.iter().all(|source| *source != version && self.decided(*source, question, depth + 1))
        })
    }

    /// Walks from the start with what an address depends on.
    fn walk(&mut self, question: &Question, address: u32, home: u32) -> Option<Vec<i64>> {
        let those = self.reach.block(home);
        let mut states: FastMap<u32, Vec<Vec<Value>>> = FastMap::default();
        let mut open: VecDeque<(u32, Vec<Value>)> = VecDeque::new();
        let start = vec![Value::Undefined; question.versions.len()];
        states.entry(0).or_default().push(start.clone());
        open.push_back((0, start));
        let (mut found, mut seen, mut last_new, mut full) = (Vec::new(), 0usize, 0usize, false);
        let mut visits = 0;
        while let Some((at, state)) = open.pop_front() {
            visits += 1;
            self.visits += 1;
            if visits > MAX_VISITS || self.visits > MAX_ALL_VISITS {
                return None;
            }
            for (version, value) in question.versions.iter().zip(state) {
                self.solver.put(*version, value);
            }
            let is_asked = |step: &Step| step.destinations.iter().any(|to| question.place.contains_key(&to.version));
            for step in self.steps_of(at).iter().filter(|step| is_asked(step)) {
                self.solver.run(step);
            }
            if at == home {
                seen += 1;
                if self.record(address, &those, &mut found)? {
                    last_new = seen;
                }
            }
            let Some(block) = self.graph.blocks.get(at as usize) else { continue };
            for (way, edge) in block.successors.iter().enumerate() {
                if passing(self.graph, self.values, block, edge, those.intersection(&self.reach.block(at))).is_empty() {
                    continue;
                }
                let decided = question.decides.get(&at).map(|version| self.solver.holds(*version));
                if let (Some(Value::Constant(holds)), Some((_, wanted))) = (decided, edge.when)
                    && (holds & 1 == 1) != wanted
                {
                    continue;
                }
                let next = self.after(question, at, way, edge.to);
                let there = states.entry(edge.to).or_default();
                if there.contains(&next) {
                    continue;
                }
                if there.len() >= MAX_STATES {
                    full = true;
                    continue;
                }
                there.push(next.clone());
                open.push_back((edge.to, next));
            }
        }
        // An index that counts on comes around again and again before the states run out.
        let settled = !full || seen >= ENOUGH && last_new * 2 <= seen;
        found.sort_unstable();
        (settled && !found.is_empty()).then_some(found)
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

    /// What comes to a block by a way from another.
    fn after(&self, question: &Question, from: u32, way: usize, to: u32) -> Vec<Value> {
        let live = question.live.get(to as usize).copied().unwrap_or(0);
        let kept = |(place, version): (usize, &u32)| match live >> place & 1 {
            0 => Value::Undefined,
            _ => self.solver.holds(*version).clone(),
        };
        let mut next: Vec<Value> = question.versions.iter().enumerate().map(kept).collect();
        for meeting in self.meetings_of(to) {
            let place = question.place.get(&meeting.version).filter(|place| live >> **place & 1 == 1);
            let Some(slot) = place.and_then(|place| next.get_mut(*place)) else { continue };
            let coming = meeting.from.iter().find(|(block, by, _)| (*block, *by) == (from, way));
            if let Some((.., version)) = coming {
                *slot = self.solver.holds(*version).clone();
            }
        }
        next
    }
}
