//! Numbers that constant stores leave in shared memory, for loads that decide where warps go.
//!
//! Compilers that hand out roles through memory store a number for each warp and let the warps load it. Stores at places that are not
//! known are taken not to touch these: what is told this way is likely, not certain.

use std::sync::Arc;

use crate::ptx::{Instruction, Shape};
use crate::simt::eval::evaluate::Values;
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::Graph;
use crate::simt::reachability::{Reach, ThreadSet};

/// Different numbers that one place may hold.
const MAX_LAYERS: usize = 8;

/// Whether an instruction works on shared memory.
pub(in crate::simt) fn is_shared(instruction: &Instruction<'_>) -> bool {
    instruction.modifiers().any(|word| word == "shared" || word == "shared::cta")
}

/// A store at a place that is known.
struct Store {
    variable: u32,
    offset: i64,
    /// None when the value is not known.
    bytes: Vec<Option<u8>>,
}

/// All of them.
#[derive(Default)]
pub(in crate::simt) struct Cells {
    stores: Vec<Store>,
    /// Where addresses of tensor memory are written: variable, offset, and the variable that stands for what was allocated; none where
    /// several are written to one place.
    allocations: Vec<(u32, i64, Option<u32>)>,
}

/// Bytes of an address of tensor memory.
const TENSOR_ADDRESS: u32 = 4;

impl Cells {
    /// Collects the stores that somebody can reach.
    pub(in crate::simt) fn gather(graph: &Graph<'_>, values: &Values, reach: &Reach) -> Cells {
        let mut cells = Cells::default();
        for (index, site) in graph.sites.iter_enumerated() {
            let instruction = &site.located.instruction;
            if instruction.mnemonic() != "st" || !is_shared(instruction) || reach.block(site.block).is_empty() {
                continue;
            }
            let width = instruction.modifiers().filter_map(crate::simt::eval::number::Type::of).last();
            let (Some(width), Some(address), Some(stored)) = (width, instruction.operand(0), instruction.operand(1))
            else {
                continue;
            };
            let Value::Address { variable, offset: Some(offset) } = values.operand(graph, index, address) else {
                continue;
            };
            let width = width.bits as usize / 8;
            let bytes_of = |value: Value| match value.constant() {
                Some(number) => number.to_le_bytes().iter().take(width).map(|byte| Some(*byte)).collect::<Vec<_>>(),
                None => vec![None; width],
            };
            let bytes = match stored.shape() {
                Shape::Vector(parts) => parts.flat_map(|part| bytes_of(values.operand(graph, index, part))).collect(),
                _ => bytes_of(values.operand(graph, index, stored)),
            };
            cells.stores.push(Store { variable, offset, bytes });
        }
        cells
    }

    /// Notes where the instructions that allocate tensor memory write its address.
    pub(in crate::simt) fn with_allocations(mut self, graph: &Graph<'_>, values: &Values) -> Cells {
        for (variable, index) in &values.allocations {
            let to = graph.sites.get(*index).and_then(|site| site.located.instruction.operand(0));
            let Some(Value::Address { variable: into, offset: Some(offset) }) =
                to.map(|to| values.operand(graph, *index, to))
            else {
                continue;
            };
            match self.allocations.iter_mut().find(|(other, at, _)| (*other, *at) == (into, offset)) {
                Some((.., twice)) => *twice = None,
                None => self.allocations.push((into, offset, Some(*variable))),
            }
        }
        self
    }

    /// The tensor memory that a load gives the address of.
    pub(in crate::simt) fn allocation(&self, address: &Value, width: u32) -> Option<Value> {
        let Value::Address { variable, offset: Some(offset) } = address else { return None };
        let mut slots = self.allocations.iter().filter(|_| width == TENSOR_ADDRESS);
        let (.., allocated) = slots.find(|(into, at, _)| (into, at) == (variable, offset))?;
        allocated.map(|variable| Value::Address { variable, offset: Some(0) })
    }

    /// What threads load from an address: none where a store does not tell.
    pub(in crate::simt) fn load(&self, address: &Value, width: u32, threads: &ThreadSet, count: u32) -> Option<Value> {
        let variable = address.variable()?;
        let offset_of = |thread: u32| match address {
            Value::Address { offset, .. } => *offset,
            Value::Addresses { offsets, .. } => offsets.get(thread as usize).copied(),
            _ => None,
        };
        let mut layers: Vec<Vec<u64>> = Vec::new();
        for thread in threads.iter() {
            let offset = offset_of(thread)?;
            let mut numbers: Vec<u64> = Vec::new();
            for store in self.stores.iter().filter(|store| store.variable == variable) {
                let end = store.offset.checked_add(i64::try_from(store.bytes.len()).ok()?)?;
                let wanted = offset.checked_add(i64::from(width))?;
                if wanted <= store.offset || offset >= end {
                    continue;
                }
                // A store of a part only leaves a mixture.
                let from = usize::try_from(offset.checked_sub(store.offset)?).ok()?;
                let bytes = store.bytes.get(from..from.checked_add(width as usize)?)?;
                let number = bytes.iter().rev().try_fold(0u64, |all, byte| Some(all << 8 | u64::from((*byte)?)))?;
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
            let last = *numbers.last()?;
            if numbers.len() > MAX_LAYERS {
                return None;
            }
            while layers.len() < numbers.len() {
                let copy = layers.last().cloned().unwrap_or_else(|| vec![0; count as usize]);
                layers.push(copy);
            }
            for (at, layer) in layers.iter_mut().enumerate() {
                *layer.get_mut(thread as usize)? = numbers.get(at).copied().unwrap_or(last);
            }
        }
        match layers.len() {
            0 => None,
            1 => layers.pop().map(|values| Value::Threads { values: values.into(), elected: false }),
            // Threads of a warp read the same at one time, if they read one place.
            _ => Some(Value::Choice {
                layers: layers.into_iter().map(Arc::from).collect(),
                variation: address.variation().max(Variation::Warp),
            }),
        }
    }
}
