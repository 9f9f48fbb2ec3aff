//! Versions of registers evaluated until nothing changes.

use std::collections::HashMap;
use std::sync::Arc;

use super::BlockSize;
use super::evaluate::Values;
use super::graph::{Graph, Site};
use super::memory::Cells;
use super::reach::{Reach, ThreadSet};
use super::value::{Value, Variation};
use super::versions::{Meeting, Versions};
use crate::ptx::{Operand, Operation, Register, Shape};

/// Versions that hold a number for each thread are at most this many: memory is bounded whatever the input.
const MAX_VECTORS: usize = 8192;
/// Rounds over the instructions.
const MAX_ROUNDS: usize = 64;
/// Numbers of which one is held.
const MAX_LAYERS: usize = 8;
/// Changes of a version after which it is taken to be unknown.
const MAX_CHANGES: u8 = 6;

/// What an earlier evaluation found.
type Before<'g> = (&'g Values, &'g Reach, &'g Cells);

/// Evaluates the instructions of a function.
pub(super) struct Solver<'g, 'a> {
    pub(super) graph: &'g Graph<'a>,
    names: &'g HashMap<&'a str, u32>,
    pub(super) size: Option<BlockSize>,
    versions: &'g Versions,
    held: Vec<Value>,
    changes: Vec<u8>,
    vectors: usize,
    pub(super) before: Option<Before<'g>>,
    pub(super) by_memory: bool,
}

impl<'g, 'a> Solver<'g, 'a> {
    pub(super) fn new(
        graph: &'g Graph<'a>,
        names: &'g HashMap<&'a str, u32>,
        size: Option<BlockSize>,
        versions: &'g Versions,
    ) -> Solver<'g, 'a> {
        let count = versions.count as usize;
        let (held, changes) = (vec![Value::Undefined; count], vec![0; count]);
        Solver { graph, names, size, versions, held, changes, vectors: 0, before: None, by_memory: false }
    }

    /// What every version holds, and whether memory had a part in it.
    pub(super) fn solve(mut self, instructions: &[usize], before: Option<Before<'g>>) -> (Vec<Value>, bool) {
        self.before = before;
        let mut meetings: Vec<Vec<&Meeting>> = vec![Vec::new(); self.graph.blocks.len()];
        for meeting in &self.versions.meetings {
            if let Some(list) = meetings.get_mut(meeting.block as usize) {
                list.push(meeting);
            }
        }
        let reads: Vec<Vec<u32>> = instructions.iter().map(|&index| self.reads(index)).collect();
        let mut stamps: Vec<usize> = vec![0; self.held.len()];
        for round in 0..MAX_ROUNDS {
            let mut changed = false;
            let mut block = None;
            for (&index, reads) in instructions.iter().zip(&reads) {
                let Some(site) = self.graph.sites.get(index) else { continue };
                if block != Some(site.block) {
                    // Blocks without an instruction of the slice have no version of their own that matters before the next.
                    let from = block.map_or(0, |block: u32| block + 1);
                    let through = if from > site.block { site.block..=site.block } else { from..=site.block };
                    for at in through {
                        for meeting in meetings.get(at as usize).into_iter().flatten() {
                            changed |= self.meet(meeting, round, &mut stamps);
                        }
                    }
                    block = Some(site.block);
                }
                let touched = |version: &u32| stamps.get(*version as usize).is_some_and(|stamp| *stamp >= round);
                if round == 0 || reads.iter().any(touched) {
                    changed |= self.step(index, site, round, &mut stamps);
                }
            }
            for at in block.map_or(0, |block| block + 1)..self.graph.blocks.len() as u32 {
                for meeting in meetings.get(at as usize).into_iter().flatten() {
                    changed |= self.meet(meeting, round, &mut stamps);
                }
            }
            if !changed {
                return (self.held, self.by_memory);
            }
        }
        // Whatever has not settled is unknown, and so may be all that is computed from it.
        (vec![Value::Unknown(Variation::Lane); self.held.len()], false)
    }

    fn reads(&self, index: usize) -> Vec<u32> {
        let Some(site) = self.graph.sites.get(index) else { return Vec::new() };
        let used = self.graph.registers.of(&site.located).map(|used| used.register);
        used.chain(site.guard.map(|(register, _)| register))
            .filter_map(|register| self.versions.read(index, register))
            .collect()
    }

    /// Sets a version; says whether that changed it.
    fn set(&mut self, version: u32, mut value: Value, round: usize, stamps: &mut [usize]) -> bool {
        let at = version as usize;
        let (Some(slot), Some(changes), Some(stamp)) =
            (self.held.get_mut(at), self.changes.get_mut(at), stamps.get_mut(at))
        else {
            return false;
        };
        if *slot == value {
            return false;
        }
        if *changes >= MAX_CHANGES {
            value = Value::Unknown(Variation::Lane);
            if *slot == value {
                return false;
            }
        }
        let is_vector =
            |value: &Value| matches!(value, Value::Threads { .. } | Value::Addresses { .. } | Value::Choice { .. });
        if is_vector(&value) && !is_vector(slot) {
            if self.vectors >= MAX_VECTORS {
                value = Value::Unknown(value.variation());
            } else {
                self.vectors += 1;
            }
        }
        *changes = changes.saturating_add(1);
        *stamp = round + 1;
        *slot = value;
        true
    }

    /// What a register holds where versions of it meet: thread by thread, of those versions that may come with it.
    fn meet(&mut self, meeting: &Meeting, round: usize, stamps: &mut [usize]) -> bool {
        let value = |version: u32| self.held.get(version as usize).cloned().unwrap_or(Value::Undefined);
        let coming: Vec<(Value, Option<ThreadSet>)> = meeting
            .from
            .iter()
            .map(|&(block, way, version)| {
                let along = self.before.map(|(values, reach, _)| reach.along(self.graph, values, block, way));
                (value(version), along.filter(|_| self.size.is_some()))
            })
            .filter(|(value, along)| *value != Value::Undefined && along.is_none_or(|along| !along.is_empty()))
            .collect();
        let joined = coming.iter().fold(Value::Undefined, |all, (value, _)| all.join(value.clone()));
        let met = match joined {
            Value::Unknown(variation) => {
                self.by_thread(&coming).unwrap_or(Value::Unknown(variation.max(split(&coming))))
            }
            joined => joined,
        };
        self.set(meeting.version, met, round, stamps)
    }

    /// A number for each thread, where every one is known for those who come with it.
    fn by_thread(&self, coming: &[(Value, Option<ThreadSet>)]) -> Option<Value> {
        let threads = self.size?.threads()? as usize;
        let mut found: Vec<Option<u64>> = vec![None; threads];
        let mut elected = false;
        for (value, along) in coming {
            let along = (*along)?;
            elected |= along.whole_warps() != along || matches!(value, Value::Threads { elected: true, .. });
            for thread in along.iter() {
                let number = match value {
                    Value::Constant(number) => *number,
                    Value::Threads { values, .. } => *values.get(thread as usize)?,
                    _ => return None,
                };
                let slot = found.get_mut(thread as usize)?;
                if slot.replace(number).is_some_and(|old| old != number) {
                    return None;
                }
            }
        }
        Some(Value::Threads { values: found.into_iter().map(|number| number.unwrap_or(0)).collect(), elected })
    }

    /// Evaluates an instruction; says whether a register changed.
    fn step(&mut self, index: usize, site: &Site<'_>, round: usize, stamps: &mut [usize]) -> bool {
        let computed = self.compute(index, site);
        let mut changed = false;
        let mut first = true;
        let definitions: Vec<Register> =
            self.graph.registers.of(&site.located).filter(|used| used.is_def).map(|used| used.register).collect();
        let elects = matches!(site.operation, Operation::Elect);
        for register in definitions {
            let Some(version) = self.versions.write(index, register) else { continue };
            let is_predicate = self.graph.registers.declaration(register).is_some_and(|found| found.ty == "pred");
            let value = match (&computed, first) {
                _ if elects && is_predicate => self.elected(),
                (Some(value), true) => value.clone(),
                // The second destination of setp is the first one's complement.
                (Some(value), false) if site.located.instruction.mnemonic() == "setp" => complement(value),
                (Some(Value::Undefined), false) => Value::Undefined,
                (Some(value), false) => Value::Unknown(value.variation()),
                (None, _) => self.unknown(index, site),
            };
            first = false;
            let old = self.versions.read(index, register).and_then(|version| self.held.get(version as usize)).cloned();
            let value = match site.guard {
                // A write that a predicate guards leaves the rest as it was.
                Some((guard, negated)) if self.versions.is_several(register) => {
                    let guard = self.register(index, guard);
                    self.either(guard, !negated, value, old.unwrap_or(Value::Undefined))
                }
                None if self.versions.is_several(register) => value,
                _ => old.unwrap_or(Value::Undefined).join(value),
            };
            changed |= self.set(version, value, round, stamps);
        }
        changed
    }

    /// One value where a predicate is as wanted, another where it is not.
    fn either(&mut self, guard: Value, wanted: bool, yes: Value, no: Value) -> Value {
        let (yes, no) = if wanted { (yes, no) } else { (no, yes) };
        match (&guard, &yes, &no) {
            (Value::Undefined, ..) => Value::Undefined,
            (Value::Constant(holds), ..) => {
                if holds & 1 == 1 {
                    yes
                } else {
                    no
                }
            }
            (_, Value::Undefined, _) | (_, _, Value::Undefined) => yes.join(no),
            (
                Value::Threads { .. },
                Value::Constant(_) | Value::Threads { .. },
                Value::Constant(_) | Value::Threads { .. },
            ) => self.lift(&[guard, yes, no], |n| Some(if *n.first()? & 1 == 1 { *n.get(1)? } else { *n.get(2)? })),
            _ => match yes.join(no) {
                Value::Unknown(variation) => Value::Unknown(variation.max(guard.variation())),
                joined => joined,
            },
        }
    }

    /// What an instruction that is not evaluated gives: unknown, and as varied as what it reads.
    fn unknown(&self, index: usize, site: &Site<'_>) -> Value {
        match site.located.instruction.mnemonic() {
            "atom" | "clock" | "shfl" | "mma" | "ldmatrix" | "tex" | "match" | "call" => {
                Value::Unknown(Variation::Lane)
            }
            "vote" | "activemask" | "redux" => Value::Unknown(Variation::Warp),
            "mbarrier" => Value::Unknown(Variation::Block),
            _ => {
                let reads = site.located.instruction.names().filter(|used| !used.is_def);
                let variations = reads.map(|used| self.name(index, used.name, None).variation());
                Value::Unknown(variations.max().unwrap_or(Variation::Block))
            }
        }
    }

    fn register(&self, index: usize, register: Register) -> Value {
        let version = self.versions.read(index, register);
        version.and_then(|version| self.held.get(version as usize)).cloned().unwrap_or(Value::Undefined)
    }

    fn name(&self, index: usize, name: &str, component: Option<&str>) -> Value {
        let id = self.graph.sites.get(index).map(|site| site.located.id);
        if let Some(register) = id.and_then(|id| self.graph.registers.resolve(name, id)) {
            return self.register(index, register);
        }
        if let Some(&variable) = self.names.get(name) {
            return Value::Address { variable, offset: Some(0) };
        }
        self.special(name, component)
    }

    /// A special register.
    fn special(&self, name: &str, component: Option<&str>) -> Value {
        let size = self.size.and_then(|size| Some((size.dimensions, size.threads()?)));
        let axis = match component {
            Some("y") => 1,
            Some("z") => 2,
            _ => 0,
        };
        let varied = match name {
            "%tid" | "%laneid" | "%lanemask_eq" | "%lanemask_lt" | "%lanemask_le" | "%lanemask_gt" | "%lanemask_ge"
            | "%clock" | "%clock64" | "%globaltimer" | "%clock_hi" => Variation::Lane,
            "%warpid" => Variation::Warp,
            _ => Variation::Block,
        };
        let Some(([x, y, z], threads)) = size else { return Value::Unknown(varied) };
        let each = |of: &dyn Fn(u32) -> u32| Value::Threads {
            values: (0..threads).map(|thread| u64::from(of(thread))).collect(),
            elected: false,
        };
        match name {
            "%tid" if axis == 0 => each(&|thread| thread % x),
            "%tid" if axis == 1 => each(&|thread| thread / x % y),
            "%tid" => each(&|thread| thread / x / y % z),
            "%laneid" => each(&|thread| thread % 32),
            "%warpid" => each(&|thread| thread / 32),
            "%ntid" => Value::Constant(u64::from([x, y, z][axis])),
            _ => Value::Unknown(varied),
        }
    }

    pub(super) fn operand(&self, index: usize, operand: Option<Operand<'_>>) -> Value {
        let Some(operand) = operand else { return Value::Unknown(Variation::Lane) };
        if let Some(value) = operand.value() {
            return Value::Constant(value as u64);
        }
        match operand.shape() {
            Shape::Name { name, component } => self.name(index, name, component),
            Shape::Not(inner) => complement(&self.operand(index, Some(inner))),
            Shape::Address(_) => {
                let Some(address) = operand.address() else { return Value::Unknown(Variation::Lane) };
                let base = address.base.map_or(Value::Constant(0), |name| self.name(index, name, None));
                base.shifted(address.offset).unwrap_or(Value::Unknown(base.variation()))
            }
            // `variable+16`
            Shape::Expression => {
                let (name, rest) = operand.text().split_once('+').unwrap_or((operand.text(), ""));
                match (self.names.get(name.trim()), rest.trim().parse::<i64>()) {
                    (Some(&variable), Ok(offset)) => Value::Address { variable, offset: Some(offset) },
                    _ => Value::Unknown(Variation::Lane),
                }
            }
            _ => Value::Unknown(Variation::Lane),
        }
    }

    /// Applies a function to numbers, thread by thread where they differ.
    pub(super) fn lift(&self, arguments: &[Value], of: impl Fn(&[u64]) -> Option<u64>) -> Value {
        self.apply(arguments, &of)
    }

    fn apply(&self, arguments: &[Value], of: &dyn Fn(&[u64]) -> Option<u64>) -> Value {
        if arguments.contains(&Value::Undefined) {
            return Value::Undefined;
        }
        let variation = arguments.iter().map(Value::variation).max().unwrap_or(Variation::Block);
        // One of several, in one argument: the function of each.
        let choices = arguments.iter().filter(|value| matches!(value, Value::Choice { .. })).count();
        if choices == 1 {
            let Some((at, layers)) = arguments.iter().enumerate().find_map(|(at, value)| match value {
                Value::Choice { layers, .. } => Some((at, layers)),
                _ => None,
            }) else {
                return Value::Unknown(variation);
            };
            let layer = |layer: &Arc<[u64]>| {
                let mut arguments = arguments.to_vec();
                if let Some(slot) = arguments.get_mut(at) {
                    *slot = Value::Threads { values: layer.clone(), elected: false };
                }
                match self.apply(&arguments, of) {
                    Value::Threads { values, .. } => Some(values),
                    _ => None,
                }
            };
            let layers: Option<Vec<Arc<[u64]>>> = layers.iter().map(layer).collect();
            return layers.map_or(Value::Unknown(variation), |layers| choice(layers, variation));
        }
        let known = |value: &Value| matches!(value, Value::Constant(_) | Value::Threads { .. });
        if !arguments.iter().all(known) {
            return Value::Unknown(variation);
        }
        let threads = arguments.iter().find_map(|value| match value {
            Value::Threads { values, .. } => Some(values.len()),
            _ => None,
        });
        let mut numbers = Vec::with_capacity(arguments.len());
        let mut at = |thread: usize| {
            numbers.clear();
            numbers.extend(arguments.iter().map(|value| match value {
                Value::Constant(value) => *value,
                Value::Threads { values, .. } => values.get(thread).copied().unwrap_or(0),
                _ => 0,
            }));
            of(&numbers)
        };
        let elected = arguments.iter().any(|value| matches!(value, Value::Threads { elected: true, .. }));
        match threads {
            None => at(0).map_or(Value::Unknown(variation), Value::Constant),
            Some(threads) => match (0..threads).map(at).collect::<Option<Arc<[u64]>>>() {
                Some(values) => Value::Threads { values, elected },
                None => Value::Unknown(variation),
            },
        }
    }

    /// `and`, `or` and `xor` of predicates of which one is not known: whatever that is, the other may decide.
    pub(super) fn with_unknown(&self, arguments: &[Value], of: impl Fn(&[u64]) -> Option<u64>) -> Option<Value> {
        let threads = self.size?.threads()? as usize;
        let (at, variation) = arguments.iter().enumerate().find_map(|(at, value)| match value {
            Value::Unknown(variation) => Some((at, *variation)),
            _ => None,
        })?;
        let varies = arguments.iter().map(Value::variation).max().unwrap_or(variation);
        let mut layers = Vec::new();
        for bit in 0..2u64 {
            let mut arguments = arguments.to_vec();
            *arguments.get_mut(at)? = Value::Constant(bit);
            match self.apply(&arguments, &of) {
                Value::Threads { elected: true, .. } => return None,
                Value::Threads { values, .. } => layers.push(values),
                Value::Choice { layers: more, .. } => layers.extend(more.iter().cloned()),
                Value::Constant(value) => layers.push(vec![value; threads].into()),
                _ => return None,
            }
        }
        Some(choice(layers, varies))
    }

    /// The predicate of `elect.sync`: lane 0 stands for whichever is elected.
    fn elected(&self) -> Value {
        match self.size.and_then(|size| size.threads()) {
            Some(threads) => {
                Value::Threads { values: (0..threads).map(|t| u64::from(t % 32 == 0)).collect(), elected: true }
            }
            None => Value::Unknown(Variation::Lane),
        }
    }
}

/// Numbers that one of is, equal ones once.
fn choice(mut layers: Vec<Arc<[u64]>>, variation: Variation) -> Value {
    layers.sort_unstable();
    layers.dedup();
    match layers.len() {
        1 => Value::Threads { values: layers.swap_remove(0), elected: false },
        2..=MAX_LAYERS => Value::Choice { layers: layers.into(), variation },
        _ => Value::Unknown(variation),
    }
}

/// A predicate that holds where another does not.
fn complement(value: &Value) -> Value {
    match value {
        Value::Constant(value) => Value::Constant(value ^ 1),
        Value::Threads { values, elected } => {
            Value::Threads { values: values.iter().map(|value| value ^ 1).collect(), elected: *elected }
        }
        Value::Choice { layers, variation } => Value::Choice {
            layers: layers.iter().map(|layer| layer.iter().map(|value| value ^ 1).collect()).collect(),
            variation: *variation,
        },
        other => other.clone(),
    }
}

/// How those who come with different values divide the block: whole warps, or within a warp.
fn split(coming: &[(Value, Option<ThreadSet>)]) -> Variation {
    let whole = |along: &Option<ThreadSet>| along.is_some_and(|along| along.whole_warps() == along);
    if coming.iter().all(|(_, along)| whole(along)) { Variation::Warp } else { Variation::Lane }
}
