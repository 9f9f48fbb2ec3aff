//! Values of registers evaluated until nothing changes.

use std::sync::Arc;

use crate::base::{IndexVec, work};
use crate::simt::eval::evaluate::Values;
use crate::simt::eval::memory::Cells;
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::Graph;
use crate::simt::reachability::{Reach, ThreadSet};
use crate::simt::ssa::construct::{Phi, Ssa, ValueId};
use crate::simt::ssa::lowering::{Destination, Otherwise, Source, Step};
use crate::simt::ssa::order::{Definition, in_order};
use crate::simt::{BlockId, BlockSize};

/// Values that hold a number for each thread are at most this many: memory is bounded whatever the input.
const MAX_VECTORS: usize = 8192;
/// Rounds over the instructions.
const MAX_ROUNDS: usize = 64;
/// Numbers of which one is held.
const MAX_LAYERS: usize = 8;
/// Changes of a value after which it is taken to be unknown.
const MAX_CHANGES: u8 = 6;

/// What an earlier evaluation found.
pub(in crate::simt) struct Before<'g> {
    pub values: &'g Values,
    pub reach: &'g Reach,
    pub cells: Cells,
}

/// Evaluates the instructions of a function.
pub(in crate::simt) struct Solver<'g, 'a> {
    graph: &'g Graph<'a>,
    pub(in crate::simt) size: Option<BlockSize>,
    /// Of the variables, in bytes.
    pub(in crate::simt) alignments: &'g [u64],
    held: IndexVec<ValueId, Value>,
    changes: IndexVec<ValueId, u8>,
    /// The round after the one in which each value changed last.
    stamps: IndexVec<ValueId, usize>,
    round: usize,
    vectors: usize,
    pub(in crate::simt) before: Option<Before<'g>>,
    /// Threads that go along each way, by block: what the evaluation before says does not change during this one.
    along: IndexVec<BlockId, Vec<Option<ThreadSet>>>,
    elected: Option<Value>,
    pub(in crate::simt) by_memory: bool,
}

fn is_vector(value: &Value) -> bool {
    matches!(value, Value::Threads { .. } | Value::Addresses { .. } | Value::Choice { .. })
}

impl<'g, 'a> Solver<'g, 'a> {
    pub(in crate::simt) fn new(
        graph: &'g Graph<'a>,
        size: Option<BlockSize>,
        alignments: &'g [u64],
        before: Option<Before<'g>>,
    ) -> Solver<'g, 'a> {
        let along = match before {
            Some(_) => graph.blocks.iter().map(|block| vec![None; block.successors.len()]).collect(),
            None => IndexVec::default(),
        };
        let (held, changes, stamps) = (IndexVec::default(), IndexVec::default(), IndexVec::default());
        Solver {
            graph,
            size,
            alignments,
            held,
            changes,
            stamps,
            round: 0,
            vectors: 0,
            before,
            along,
            elected: None,
            by_memory: false,
        }
    }

    /// What every value holds, and whether memory had a part in it.
    pub(in crate::simt) fn solve(mut self, steps: &[Step], ssa: &Ssa) -> (IndexVec<ValueId, Value>, bool) {
        self.held = IndexVec::filled(Value::Undefined, ssa.count);
        (self.changes, self.stamps) = (IndexVec::filled(0, ssa.count), IndexVec::filled(0, ssa.count));
        let again = self.before.as_ref().map(|before| before.values);
        for to in again.into_iter().flat_map(|_| steps).filter(|step| step.fixed).flat_map(|step| &step.destinations) {
            let known = again.and_then(|values| values.held.get(to.id));
            if let (Some(slot), Some(known)) = (self.held.get_mut(to.id), known) {
                self.vectors += usize::from(is_vector(known));
                *slot = known.clone();
            }
        }
        for round in 0..MAX_ROUNDS {
            self.round = round;
            let mut changed = false;
            for definition in in_order(steps.iter(), ssa.phis.iter()) {
                if round > 0 && !definition.reads_any(|id| self.is_touched(id)) {
                    continue;
                }
                changed |= match definition {
                    Definition::Phi(phi) => self.meet(phi),
                    Definition::Step(step) => !(step.fixed && again.is_some()) && self.step(step),
                };
            }
            if !changed {
                return (self.held, self.by_memory);
            }
        }
        // Whatever has not settled is unknown, and so may be all that is computed from it.
        (IndexVec::filled(Value::Unknown(Variation::Lane), self.held.len()), false)
    }

    /// Whether a value changed since this place was looked at in the round before.
    fn is_touched(&self, id: ValueId) -> bool {
        self.stamps.get(id).is_some_and(|stamp| *stamp >= self.round)
    }

    /// Sets a value; says whether that changed it.
    fn set(&mut self, id: ValueId, mut value: Value) -> bool {
        let (Some(slot), Some(changes), Some(stamp)) =
            (self.held.get_mut(id), self.changes.get_mut(id), self.stamps.get_mut(id))
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
        if is_vector(&value) {
            work::spend(32);
        }
        if is_vector(&value) && !is_vector(slot) {
            if self.vectors >= MAX_VECTORS {
                value = Value::Unknown(value.variation());
            } else {
                self.vectors += 1;
            }
        }
        *changes = changes.saturating_add(1);
        *stamp = self.round + 1;
        *slot = value;
        true
    }

    /// The threads that go along a way, as the evaluation before says.
    fn along(&mut self, block: BlockId, way: usize) -> Option<ThreadSet> {
        let before = self.before.as_ref()?;
        self.size?;
        let slot = self.along.get_mut(block)?.get_mut(way)?;
        Some(*slot.get_or_insert_with(|| before.reach.along(self.graph, before.values, block, way)))
    }

    /// What a register holds where values of it meet: thread by thread, of those values that may come with it.
    fn meet(&mut self, phi: &Phi) -> bool {
        work::spend_on(phi.from.len());
        let mut coming: Vec<(&Value, Option<ThreadSet>)> = Vec::with_capacity(phi.from.len());
        let along: Vec<Option<ThreadSet>> = phi.from.iter().map(|&(block, way, _)| self.along(block, way)).collect();
        for (&(.., id), along) in phi.from.iter().zip(along) {
            let Some(value) = self.held.get(id) else { continue };
            if *value != Value::Undefined && along.is_none_or(|along| !along.is_empty()) {
                coming.push((value, along));
            }
        }
        let joined = coming.iter().fold(Value::Undefined, |all, (value, _)| all.join_with(value));
        let met = match joined {
            Value::Unknown(variation) => {
                self.by_thread(&coming).unwrap_or(Value::Unknown(variation.max(split(&coming))))
            }
            joined => joined,
        };
        self.set(phi.id, met)
    }

    /// A number for each thread, where every one is known for those who come with it.
    fn by_thread(&self, coming: &[(&Value, Option<ThreadSet>)]) -> Option<Value> {
        let threads = self.size?.threads()? as usize;
        let known = |value: &Value| matches!(value, Value::Constant(_) | Value::Threads { .. });
        if !coming.iter().all(|(value, along)| known(value) && along.is_some()) {
            return None;
        }
        work::spend_on(threads * coming.len() / 16);
        let mut found: Vec<u64> = vec![0; threads];
        let mut covered = ThreadSet::EMPTY;
        let mut elected = false;
        for (value, along) in coming {
            let along = (*along)?;
            elected |= along.whole_warps() != along || matches!(value, Value::Threads { elected: true, .. });
            let twice = covered.intersection(&along);
            for thread in along.iter() {
                let number = match value {
                    Value::Constant(number) => *number,
                    Value::Threads { values, .. } => *values.get(thread as usize)?,
                    _ => return None,
                };
                let slot = found.get_mut(thread as usize)?;
                if *slot != number && twice.has(thread) {
                    return None;
                }
                *slot = number;
            }
            covered = covered.union(&along);
        }
        Some(Value::Threads { values: found.into(), elected })
    }

    /// Evaluates an instruction; says whether a register changed.
    fn step(&mut self, step: &Step) -> bool {
        work::spend(1);
        let computed = self.compute(step);
        let mut changed = false;
        for (at, to) in step.destinations.iter().enumerate() {
            let value = self.written(step, computed.as_ref(), at, to, to.is_several);
            changed |= self.set(to.id, value);
        }
        changed
    }

    /// What one of its destinations holds after an instruction that computed something.
    fn written(&mut self, step: &Step, computed: Option<&Value>, at: usize, to: &Destination, replaces: bool) -> Value {
        let value = match (computed, at == 0) {
            _ if step.elects && to.is_predicate => self.elected(),
            (Some(value), true) => value.clone(),
            // The second destination of setp is the first one's complement.
            (Some(value), false) if step.complements => complement(value),
            (Some(Value::Undefined), false) => Value::Undefined,
            (Some(value), false) => Value::Unknown(value.variation()),
            (None, _) => self.otherwise(step),
        };
        let old = || self.held_by(to.old);
        match step.guard {
            // A write that a predicate guards leaves the rest as it was.
            Some((guard, negated)) if to.is_several => {
                let guard = self.held_by(guard).clone();
                self.either(guard, !negated, value, old().clone())
            }
            None if replaces => value,
            _ => old().clone().join(value),
        }
    }

    /// Starts from what is known already.
    pub(in crate::simt) fn knowing(mut self, held: &IndexVec<ValueId, Value>) -> Solver<'g, 'a> {
        self.held = held.clone();
        self
    }

    /// What a value holds now.
    pub(in crate::simt) fn holds(&self, id: ValueId) -> &Value {
        self.held_by(Some(id))
    }

    /// Has a value hold something, whatever it held.
    pub(in crate::simt) fn put(&mut self, id: ValueId, value: Value) {
        if let Some(slot) = self.held.get_mut(id) {
            *slot = value;
        }
    }

    /// Runs an instruction once, with what its registers hold now.
    pub(in crate::simt) fn run(&mut self, step: &Step) {
        work::spend(1);
        let computed = self.compute(step);
        for (at, to) in step.destinations.iter().enumerate() {
            let value = self.written(step, computed.as_ref(), at, to, true);
            self.put(to.id, value);
        }
    }

    /// One value where a predicate is as wanted, another where it is not.
    fn either(&self, guard: Value, wanted: bool, yes: Value, no: Value) -> Value {
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
            ) => self.lift(&[&guard, &yes, &no], |n| Some(if n[0] & 1 == 1 { n[1] } else { n[2] })),
            _ => match yes.join(no) {
                Value::Unknown(variation) => Value::Unknown(variation.max(guard.variation())),
                joined => joined,
            },
        }
    }

    /// What an instruction that is not evaluated gives: unknown, and as varied as what it reads.
    fn otherwise(&self, step: &Step) -> Value {
        match &step.otherwise {
            Otherwise::Variation(variation) => Value::Unknown(*variation),
            Otherwise::Reads(reads) => {
                let variations = reads.iter().map(|source| self.borrowed(source).variation());
                Value::Unknown(variations.max().unwrap_or(Variation::Block))
            }
        }
    }

    fn held_by(&self, id: Option<ValueId>) -> &Value {
        id.and_then(|id| self.held.get(id)).unwrap_or(&Value::Undefined)
    }

    /// A register, or what is known.
    fn borrowed<'s>(&'s self, source: &'s Source) -> &'s Value {
        match source {
            Source::Known(value) => value,
            Source::Value(id) => self.held_by(*id),
            Source::OwnRank => &Value::Unknown(Variation::Block),
            Source::Not(_) | Source::Address(..) | Source::Pack(_) | Source::Opaque => &Value::Unknown(Variation::Lane),
        }
    }

    /// What an operand is.
    pub(in crate::simt) fn value(&self, source: &Source) -> Value {
        match source {
            Source::Known(_) | Source::Value(_) | Source::OwnRank | Source::Pack(_) | Source::Opaque => {
                self.borrowed(source).clone()
            }
            Source::Not(inner) => complement(&self.value(inner)),
            Source::Address(base, offset) => {
                let base = self.value(base);
                base.shifted(*offset).unwrap_or_else(|| Value::Unknown(base.variation()))
            }
        }
    }

    /// Applies a function to numbers, thread by thread where they differ.
    pub(in crate::simt) fn lift(&self, arguments: &[&Value], of: impl Fn(&[u64; 4]) -> Option<u64>) -> Value {
        self.apply(arguments, &of)
    }

    fn apply<F: Fn(&[u64; 4]) -> Option<u64>>(&self, arguments: &[&Value], of: &F) -> Value {
        if arguments.iter().any(|value| **value == Value::Undefined) {
            return Value::Undefined;
        }
        let variation = || arguments.iter().map(|value| value.variation()).max().unwrap_or(Variation::Block);
        // One of several, in one argument: the function of each.
        let mut choices = arguments.iter().enumerate().filter_map(|(at, value)| match value {
            Value::Choice { layers, .. } => Some((at, layers)),
            _ => None,
        });
        if let (Some((at, layers)), None) = (choices.next(), choices.next()) {
            let layer = |layer: &Arc<[u64]>| {
                let one = Value::Threads { values: layer.clone(), elected: false };
                let mut arguments = arguments.to_vec();
                if let Some(slot) = arguments.get_mut(at) {
                    *slot = &one;
                }
                match self.apply(&arguments, of) {
                    Value::Threads { values, .. } => Some(values),
                    _ => None,
                }
            };
            let layers: Option<Vec<Arc<[u64]>>> = layers.iter().map(layer).collect();
            return layers.map_or_else(|| Value::Unknown(variation()), |layers| choice(layers, variation()));
        }
        let mut numbers = [0u64; 4];
        let mut vectors: [Option<(usize, &[u64])>; 4] = [None; 4];
        let (mut count, mut elects) = (0, false);
        for (at, value) in arguments.iter().enumerate() {
            match (value, numbers.get_mut(at)) {
                (Value::Constant(number), Some(slot)) => *slot = *number,
                (Value::Threads { values, elected }, Some(_)) => {
                    vectors[count] = Some((at, values));
                    count += 1;
                    elects |= elected;
                }
                _ => return Value::Unknown(variation()),
            }
        }
        let each: Option<Arc<[u64]>> = match vectors {
            [None, ..] => return of(&numbers).map_or_else(|| Value::Unknown(variation()), Value::Constant),
            [Some((at, values)), None, ..] => values
                .iter()
                .map(|value| {
                    numbers[at] = *value;
                    of(&numbers)
                })
                .collect(),
            [Some((at, values)), Some((other, others)), None, ..] => values
                .iter()
                .zip(others)
                .map(|(value, second)| {
                    (numbers[at], numbers[other]) = (*value, *second);
                    of(&numbers)
                })
                .collect(),
            [Some((_, first)), ..] => (0..first.len())
                .map(|thread| {
                    for (at, values) in vectors.iter().flatten() {
                        numbers[*at] = values.get(thread).copied().unwrap_or(0);
                    }
                    of(&numbers)
                })
                .collect(),
        };
        each.map_or_else(|| Value::Unknown(variation()), |values| Value::Threads { values, elected: elects })
    }

    /// `and`, `or` and `xor` of predicates of which one is not known: whatever that is, the other may decide.
    pub(in crate::simt) fn with_unknown(
        &self,
        arguments: &[&Value],
        of: impl Fn(&[u64; 4]) -> Option<u64>,
    ) -> Option<Value> {
        let threads = self.size?.threads()? as usize;
        let (at, variation) = arguments.iter().enumerate().find_map(|(at, value)| match value {
            Value::Unknown(variation) => Some((at, *variation)),
            _ => None,
        })?;
        let varies = arguments.iter().map(|value| value.variation()).max().unwrap_or(variation);
        let mut layers = Vec::new();
        for bit in [Value::Constant(0), Value::Constant(1)] {
            let mut arguments = arguments.to_vec();
            *arguments.get_mut(at)? = &bit;
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
    fn elected(&mut self) -> Value {
        let threads = self.size.and_then(|size| size.threads());
        let value = self.elected.get_or_insert_with(|| match threads {
            Some(threads) => {
                Value::Threads { values: (0..threads).map(|t| u64::from(t % 32 == 0)).collect(), elected: true }
            }
            None => Value::Unknown(Variation::Lane),
        });
        value.clone()
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
fn split(coming: &[(&Value, Option<ThreadSet>)]) -> Variation {
    let whole = |along: &Option<ThreadSet>| along.is_some_and(|along| along.whole_warps() == along);
    if coming.iter().all(|(_, along)| whole(along)) { Variation::Warp } else { Variation::Lane }
}
