//! What instructions compute.

use std::sync::Arc;

use super::graph::Site;
use super::number::{Type, arithmetic, compare};
use super::solve::Solver;
use super::value::{Value, Variation};
use crate::ptx::Shape;

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
    pub(super) fn compute(&mut self, index: usize, site: &Site<'_>) -> Option<Value> {
        let instruction = site.located.instruction;
        let mnemonic = instruction.mnemonic();
        let mut types = instruction.modifiers().filter_map(Type::of);
        let ty = types.next();
        let arguments: Vec<Value> =
            instruction.operands().skip(1).map(|operand| self.operand(index, Some(operand))).collect();
        let two = |values: &[Value]| values.len() == 2;
        // `mov.b64 {%r1, %r2}, %rd1` and `setp.eq.s32 _|%p1, …` define something else than the value below.
        let destination = instruction.operand(0)?;
        if matches!(destination.shape(), Shape::Vector(_)) || destination.text().starts_with('_') {
            return None;
        }
        let moved = |value: &Value| value.variable().map(|_| value.clone());
        match mnemonic {
            "mov" | "cvta" | "mapa" if !arguments.is_empty() => {
                let value = arguments.first()?.clone();
                // The address of the same variable in another block stays that variable's.
                if mnemonic == "mapa" {
                    Some(moved(&value).unwrap_or(Value::Unknown(value.variation())))
                } else {
                    Some(value)
                }
            }
            "cvt" => {
                let (to, from) = (ty?, types.next()?);
                let value = arguments.first()?;
                if let Some(address) = moved(value) {
                    return Some(address);
                }
                Some(self.lift(&arguments, |n| Some(to.mask(from.number(*n.first()?) as u64))))
            }
            "add" | "sub" if two(&arguments) => {
                let ty = ty?;
                let subtract = mnemonic == "sub";
                let (a, b) = (arguments.first()?, arguments.get(1)?);
                match (a, b) {
                    (Value::Undefined, _) | (_, Value::Undefined) => Some(Value::Undefined),
                    _ if a.variable().is_some() && b.variable().is_some() => Some(Value::Unknown(Variation::Lane)),
                    _ if a.variable().is_some() => Some(place(a, b, ty, subtract)),
                    _ if b.variable().is_some() && !subtract => Some(place(b, a, ty, false)),
                    _ => Some(self.lift(&arguments, |n| {
                        let (a, b) = (*n.first()?, *n.get(1)?);
                        Some(ty.mask(if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) }))
                    })),
                }
            }
            "mul" | "mad" => {
                let ty = ty?;
                let wide = instruction.has("wide");
                if !wide && !instruction.has("lo") {
                    return None;
                }
                let to = if wide { Type { bits: ty.bits * 2, ..ty } } else { ty };
                if mnemonic == "mad"
                    && let Some(base) = arguments.get(2).filter(|value| value.variable().is_some())
                {
                    let product = self.lift(arguments.get(..2)?, |n| {
                        Some(to.mask((ty.number(*n.first()?) * ty.number(*n.get(1)?)) as u64))
                    });
                    return Some(place(base, &product, to, false));
                }
                Some(self.lift(&arguments, |n| {
                    let product = ty.number(*n.first()?).wrapping_mul(ty.number(*n.get(1)?));
                    Some(to.mask((product as u64).wrapping_add(n.get(2).copied().unwrap_or(0))))
                }))
            }
            "and" | "or" | "xor" | "not" | "neg" | "shl" | "shr" | "min" | "max" | "div" | "rem" | "abs" | "bfe"
            | "lop3" | "popc" => {
                let ty = ty?;
                // `and` with a mask that keeps the lower bits: the same place in another block of the cluster.
                if mnemonic == "and"
                    && let (Some(place), Some(Value::Constant(mask))) = (arguments.first(), arguments.get(1))
                    && place.variable().is_some()
                {
                    return Some(if mask & 0xff_fff8 == 0xff_fff8 {
                        place.clone()
                    } else {
                        Value::Unknown(place.variation())
                    });
                }
                let of = |n: &[u64]| arithmetic(mnemonic, ty, n);
                match self.lift(&arguments, of) {
                    Value::Unknown(variation) if ty.bits == 1 => {
                        Some(self.with_unknown(&arguments, of).unwrap_or(Value::Unknown(variation)))
                    }
                    found => Some(found),
                }
            }
            "setp" => {
                let mut modifiers = instruction.modifiers();
                let comparison = modifiers.next()?;
                let combine = modifiers.next().filter(|word| ["and", "or", "xor"].contains(word));
                let ty = ty?;
                if ty.bits == 1 {
                    return None;
                }
                Some(self.lift(&arguments, |n| {
                    let holds = u64::from(compare(comparison, ty, *n.first()?, *n.get(1)?)?);
                    let other = n.get(2).copied();
                    Some(match (combine, other) {
                        (Some("and"), Some(other)) => holds & other,
                        (Some("or"), Some(other)) => holds | other,
                        (Some("xor"), Some(other)) => holds ^ other,
                        _ => holds,
                    })
                }))
            }
            "selp" => {
                let (a, b) = (arguments.first()?, arguments.get(1)?);
                if a.variable().is_some() && a.variable() == b.variable() {
                    return Some(a.clone().join(b.clone()));
                }
                Some(self.lift(&arguments, |n| Some(if *n.get(2)? & 1 == 1 { *n.first()? } else { *n.get(1)? })))
            }
            "shfl" if instruction.has("idx") => {
                let lane = arguments.get(1)?.constant()? & 31;
                match arguments.first()? {
                    Value::Threads { values, elected: false } => {
                        let values = values.clone();
                        Some(Value::Threads {
                            values: (0..values.len())
                                .map(|thread| {
                                    let from = thread / 32 * 32 + lane as usize;
                                    values.get(from).or(values.get(thread)).copied().unwrap_or(0)
                                })
                                .collect(),
                            elected: false,
                        })
                    }
                    Value::Constant(value) => Some(Value::Constant(*value)),
                    Value::Undefined => Some(Value::Undefined),
                    value => Some(Value::Unknown(value.variation().min(Variation::Warp))),
                }
            }
            "ld" => self.load(index, site, ty),
            _ => None,
        }
    }

    /// What constant stores left in shared memory.
    fn load(&mut self, index: usize, site: &Site<'_>, ty: Option<Type>) -> Option<Value> {
        let (_, reach, cells) = self.before?;
        let width = ty?.bits / 8;
        let address = self.operand(index, site.located.instruction.operand(1));
        let threads = self.size?.threads()?;
        let found = cells.load(&address, width, &reach.block(site.block), threads)?;
        self.by_memory = true;
        Some(found)
    }
}
