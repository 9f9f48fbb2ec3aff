//! Which values are the same number, or so many bytes apart: compilers compute an address anew for every instruction that has it.

use crate::base::{FastMap, IndexVec};
use crate::simt::eval::number::{Arithmetic, Type};
use crate::simt::eval::value::Value;
use crate::simt::ssa::construct::{Ssa, ValueId};
use crate::simt::ssa::lowering::{Compute, Source, Step};

/// Bits of a shared address that say where in a block's memory it is, down to the alignment of an mbarrier.
pub(in crate::simt) const PLACE: u64 = 0xff_fff8;

/// What an operand is, as far as that tells whether two are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Term {
    /// So many bytes from a value.
    From(ValueId, i64),
    Number(u64),
    Variable(u32, i64),
}

/// By value: another, and how many bytes lie between.
pub(in crate::simt) type Origins = IndexVec<ValueId, (ValueId, i64)>;

/// By value: the one that it is so many bytes away from, or that of the same place in another block of the cluster; itself where it
/// is neither. Of those that are computed from the same in the same way the first stands for all.
pub(in crate::simt) fn origins(steps: &[Step], ssa: &Ssa) -> Origins {
    let mut origins: Origins = ssa.values().map(|id| (id, 0)).collect();
    let mut computed: FastMap<(Compute, Box<[Term]>), ValueId> = FastMap::default();
    for step in steps {
        let [to] = &step.destinations[..] else { continue };
        // What is written once, under a guard, is what is read wherever it is defined at all.
        if !to.alone || step.guard.is_some() && to.is_several {
            continue;
        }
        let origin = moved(step, &origins).or_else(|| {
            if !is_pure(step) {
                return None;
            }
            let arguments =
                step.arguments.iter().map(|source| term(source, &origins)).collect::<Option<Box<[Term]>>>()?;
            let first = *computed.entry((step.compute, arguments)).or_insert(to.id);
            origins.get(first).copied()
        });
        if let (Some(origin), Some(slot)) = (origin, origins.get_mut(to.id)) {
            *slot = origin;
        }
    }
    origins
}

fn term(source: &Source, origins: &Origins) -> Option<Term> {
    match source {
        Source::Value(Some(id)) => origins.get(*id).map(|(origin, by)| Term::From(*origin, *by)),
        Source::Known(Value::Constant(number)) => Some(Term::Number(*number)),
        Source::Known(Value::Address { variable, offset: Some(offset) }) => Some(Term::Variable(*variable, *offset)),
        _ => None,
    }
}

/// What an instruction gives that adds a number, or nothing, to a value.
fn moved(step: &Step, origins: &Origins) -> Option<(ValueId, i64)> {
    let Some(Source::Value(Some(from))) = step.arguments.first() else { return None };
    let number = match step.arguments.get(1) {
        Some(Source::Known(Value::Constant(number))) => Some(*number),
        _ => None,
    };
    let added = match (step.compute, number) {
        (Compute::Move | Compute::Mapa, _) => 0,
        (Compute::Arithmetic { what: Arithmetic::And, .. }, Some(mask)) if mask & PLACE == PLACE => 0,
        (Compute::Add { ty, subtract }, Some(number)) => {
            let number = i64::try_from(Type { bits: ty.bits, signed: true }.number(number)).ok()?;
            if subtract { number.checked_neg()? } else { number }
        }
        _ => return None,
    };
    let (origin, by) = origins.get(*from).copied()?;
    Some((origin, by.checked_add(added)?))
}

/// Whether equal operands give equal results, wherever an instruction stands.
fn is_pure(step: &Step) -> bool {
    use Compute::{Add, Arithmetic, Compare, Convert, Move, Multiply, Select};
    let computes = matches!(
        step.compute,
        Add { .. } | Arithmetic { .. } | Compare { .. } | Convert { .. } | Move | Multiply { .. } | Select
    );
    computes && step.guard.is_none()
}
