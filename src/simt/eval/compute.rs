//! What instructions compute.

use std::sync::Arc;

use crate::simt::BlockId;
use crate::simt::eval::number::{Arithmetic, Comparison, Type};
use crate::simt::eval::solve::Solver;
use crate::simt::eval::value::{Value, Variation};
use crate::simt::ssa::lowering::{Combine, Compute, Step};
use crate::simt::ssa::value_numbering::PLACE;

/// A place in a variable, a number further on or back.
fn place(base: &Value, number: &Value, ty: Type, back: bool) -> Value {
    let Some(variable) = base.variable() else { return Value::Unknown(Variation::Lane) };
    let unknown = match base.lowest() {
        Some(base) => Value::Element { variable, base },
        None => Value::Address { variable, offset: None },
    };
    let signed = Type { bits: ty.bits, signed: true };
    let by = |number: u64| {
        let number = i64::try_from(signed.number(number)).ok()?;
        if back { number.checked_neg() } else { Some(number) }
    };
    match (number, base) {
        (Value::Undefined, _) => Value::Undefined,
        (Value::Constant(number), _) => base.shifted(by(*number)).unwrap_or(unknown),
        (Value::Threads { values, elected: false }, Value::Address { offset: Some(offset), .. }) => {
            let each = values.iter().map(|number| offset.checked_add(by(*number)?));
            each.collect::<Option<Arc<[i64]>>>().map_or(unknown, |offsets| Value::Addresses { variable, offsets })
        }
        (Value::Threads { values, elected: false }, Value::Addresses { offsets, .. }) => {
            let each = values.iter().zip(offsets.iter()).map(|(number, offset)| offset.checked_add(by(*number)?));
            each.collect::<Option<Arc<[i64]>>>().map_or(unknown, |offsets| Value::Addresses { variable, offsets })
        }
        _ => unknown,
    }
}

impl Solver<'_, '_> {
    /// What an instruction puts into its first destination; none if it is not evaluated.
    pub(in crate::simt) fn compute(&mut self, step: &Step) -> Option<Value> {
        if !step.compute.is_evaluated() && !matches!(step.compute, Compute::Load { .. }) {
            return None;
        }
        let arguments: Vec<Value> = step.arguments.iter().map(|source| self.value(source)).collect();
        let all: Vec<&Value> = arguments.iter().collect();
        let first = arguments.first()?;
        let moved = |value: &Value| value.variable().map(|_| value.clone());
        Some(match step.compute {
            Compute::Nothing | Compute::Unpack | Compute::Insert { .. } | Compute::Permute | Compute::Funnel { .. } => {
                return None;
            }
            Compute::Move => first.clone(),
            // The address of the same variable in another block stays that variable's.
            Compute::Mapa => moved(first).unwrap_or_else(|| Value::Unknown(first.variation())),
            Compute::Convert { to, from } => match moved(first) {
                Some(address) => address,
                None => self.lift(&all, |n| Some(to.mask(from.number(n[0]) as u64))),
            },
            Compute::Add { ty, subtract } => {
                let second = arguments.get(1)?;
                match (first, second) {
                    (Value::Undefined, _) | (_, Value::Undefined) => Value::Undefined,
                    _ if first.variable().is_some() && second.variable().is_some() => Value::Unknown(Variation::Lane),
                    _ if first.variable().is_some() => place(first, second, ty, subtract),
                    _ if second.variable().is_some() && !subtract => place(second, first, ty, false),
                    _ if subtract => self.lift(&all, |n| Some(ty.mask(n[0].wrapping_sub(n[1])))),
                    _ => self.lift(&all, |n| Some(ty.mask(n[0].wrapping_add(n[1])))),
                }
            }
            Compute::Multiply { ty, to, adds } => {
                let product = |n: &[u64; 4]| ty.number(n[0]).wrapping_mul(ty.number(n[1])) as u64;
                if let Some(base) = arguments.get(2).filter(|value| adds && value.variable().is_some()) {
                    let product = self.lift(all.get(..2)?, |n| Some(to.mask(product(n))));
                    return Some(place(base, &product, to, false));
                }
                self.lift(&all, |n| Some(to.mask(product(n).wrapping_add(if adds { n[2] } else { 0 }))))
            }
            Compute::Arithmetic { what, ty } => {
                // `and` with a mask that keeps the lower bits: the same place in another block of the cluster.
                if let (Arithmetic::And, Some(Value::Constant(mask))) = (what, arguments.get(1))
                    && first.variable().is_some()
                {
                    return Some(if self.keeps_place(first, *mask) {
                        first.clone()
                    } else {
                        Value::Unknown(first.variation())
                    });
                }
                let of = |n: &[u64; 4]| what.apply(ty, n);
                let found = match what {
                    Arithmetic::And => self.lift(&all, |n| Some(ty.mask(n[0] & n[1]))),
                    Arithmetic::Or => self.lift(&all, |n| Some(ty.mask(n[0] | n[1]))),
                    Arithmetic::Xor => self.lift(&all, |n| Some(ty.mask(n[0] ^ n[1]))),
                    _ => self.lift(&all, of),
                };
                match found {
                    Value::Unknown(variation) if ty.bits == 1 => {
                        self.with_unknown(&all, of).unwrap_or(Value::Unknown(variation))
                    }
                    found => found,
                }
            }
            // No number without a sign is less than 0.
            Compute::Compare {
                how: how @ (Comparison::GreaterOrEqual | Comparison::Less),
                ty,
                combine: Combine::No,
            } if !ty.signed
                && arguments.get(1).and_then(Value::constant) == Some(0)
                && !matches!(first, Value::Undefined) =>
            {
                Value::Constant(u64::from(how == Comparison::GreaterOrEqual))
            }
            Compute::Compare { how, ty, combine } => self.lift(&all, |n| {
                let holds = u64::from(how.holds(ty, n[0], n[1])?);
                Some(match combine {
                    Combine::No => holds,
                    Combine::And => holds & n[2],
                    Combine::Or => holds | n[2],
                    Combine::Xor => holds ^ n[2],
                })
            }),
            Compute::Select => {
                let second = arguments.get(1)?;
                if first.variable().is_some() && first.variable() == second.variable() {
                    return Some(first.clone().join(second.clone()));
                }
                self.lift(&all, |n| Some(if n[2] & 1 == 1 { n[0] } else { n[1] }))
            }
            Compute::Shuffle => {
                let lane = arguments.get(1)?.constant()? & 31;
                match first {
                    Value::Threads { values, elected: false } => {
                        let from = |thread: usize| thread / 32 * 32 + lane as usize;
                        let read =
                            |thread: usize| values.get(from(thread)).or(values.get(thread)).copied().unwrap_or(0);
                        Value::Threads { values: (0..values.len()).map(read).collect(), elected: false }
                    }
                    // What all lanes hold, one lane's is: compilers make addresses uniform so.
                    Value::Constant(_) | Value::Address { .. } | Value::Undefined => first.clone(),
                    Value::Element { .. } => first.clone(),
                    value => Value::Unknown(value.variation().min(Variation::Warp)),
                }
            }
            Compute::Load { bytes } => return self.load(first, bytes, step.block),
        })
    }

    /// Whether a mask leaves a place what it is. Where a variable is aligned, compilers keep only those of the lower bits that are set.
    fn keeps_place(&self, place: &Value, mask: u64) -> bool {
        let lower = place.variable().and_then(|variable| self.alignments.get(variable as usize)).map_or(0, |to| to - 1);
        let keeps = |offset: i64| offset as u64 & lower & !mask == 0;
        let fits = match place {
            Value::Address { offset: Some(offset), .. } => keeps(*offset),
            Value::Addresses { offsets, .. } => offsets.iter().all(|offset| keeps(*offset)),
            _ => false,
        };
        mask & PLACE == PLACE || fits && mask | lower | !PLACE == u64::MAX
    }

    /// What constant stores left in shared memory.
    fn load(&mut self, address: &Value, bytes: u32, block: BlockId) -> Option<Value> {
        let before = self.before.as_ref()?;
        if let Some(allocation) = before.cells.allocation(address, bytes) {
            return Some(allocation);
        }
        let threads = self.size?.threads()?;
        let found = before.cells.load(address, bytes, &before.reach.block(block), threads)?;
        self.by_memory = true;
        Some(found)
    }
}
