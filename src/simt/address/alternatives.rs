//! Numbers that alternate: one bit of something that is not known, and what is computed from it, as a pipeline of two stages numbers its
//! barriers.
//!
//! Such numbers are computed where they are asked for, back from the operand: to follow them everywhere would take longer than all else.

use std::sync::Arc;

use crate::base::work;
use crate::ptx::Operand;
use crate::simt::eval::evaluate::Values;
use crate::simt::eval::number::Arithmetic;
use crate::simt::eval::value::Value;
use crate::simt::graph::{Graph, SiteId};
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Source, Step};

/// Numbers that one may be, at most.
const MAX_LAYERS: usize = 8;
/// Instructions back from an operand, on all ways together.
const MAX_STEPS: usize = 64;

/// A number for each thread.
type Layer = Arc<[u64]>;

impl Values {
    /// The few numbers, each for all threads, one of which an operand is; none where that is not known.
    pub fn alternatives(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<Vec<Layer>> {
        let register = graph.registers.resolve(operand.name()?, graph.sites.get(index)?.located.id)?;
        self.layers(self.ssa.read(index, register)?, &mut { MAX_STEPS })
    }

    fn layers(&self, id: ValueId, steps: &mut usize) -> Option<Vec<Layer>> {
        let threads = self.size?.threads()? as usize;
        match self.held.get(id)? {
            Value::Constant(number) => return Some(vec![vec![*number; threads].into()]),
            Value::Threads { values, elected: false } => return Some(vec![values.clone()]),
            Value::Choice { layers, .. } => return Some(layers.to_vec()),
            _ => {}
        }
        work::spend_on(self.ssa.phis.len());
        if let Some(phi) = self.ssa.phis.iter().find(|phi| phi.id == id) {
            *steps = steps.checked_sub(1)?;
            let met: Option<Vec<_>> = phi.from.iter().map(|(_, _, from)| self.layers(*from, steps)).collect();
            return few(met?.concat());
        }
        *steps = steps.checked_sub(1)?;
        let step = self.writer(id)?;
        if let Some(mask) = one_bit(step) {
            return Some(vec![vec![0; threads].into(), vec![mask; threads].into()]);
        }
        let mut of = |at: usize| match step.arguments.get(at)? {
            Source::Known(Value::Constant(number)) => Some(vec![vec![*number; threads].into()]),
            Source::Known(Value::Threads { values, elected: false }) => Some(vec![values.clone()]),
            Source::Value(Some(from)) => self.layers(*from, steps),
            _ => None,
        };
        match step.compute {
            Compute::Move => of(0),
            Compute::Add { ty, subtract } => combined(&of(0)?, &of(1)?, |a, b| {
                Some(ty.mask(if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) }))
            }),
            Compute::Arithmetic { what, ty } if step.arguments.len() == 2 => {
                combined(&of(0)?, &of(1)?, |a, b| what.apply(ty, &[a, b, 0, 0]))
            }
            _ => None,
        }
    }
}

/// The one bit that an instruction keeps.
fn one_bit(step: &Step) -> Option<u64> {
    match (step.compute, step.arguments.get(1)) {
        (Compute::Arithmetic { what: Arithmetic::And, .. }, Some(Source::Known(Value::Constant(mask)))) => {
            Some(*mask).filter(|mask| mask.is_power_of_two())
        }
        _ => None,
    }
}

/// What is computed from any of some numbers and any of others.
fn combined(some: &[Layer], others: &[Layer], of: impl Fn(u64, u64) -> Option<u64>) -> Option<Vec<Layer>> {
    let mut all: Vec<Layer> = Vec::new();
    for (a, b) in some.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
        all.push(a.iter().zip(b.iter()).map(|(a, b)| of(*a, *b)).collect::<Option<Layer>>()?);
    }
    few(all)
}

/// Each of some numbers once, where they are few.
fn few(mut all: Vec<Layer>) -> Option<Vec<Layer>> {
    all.sort_unstable();
    all.dedup();
    (all.len() <= MAX_LAYERS).then_some(all)
}
