//! What instructions make of patterns.

use super::shape::{Lanes, NONE, Pattern, low};
use crate::simt::eval::number::{Arithmetic, Type};
use crate::simt::ssa::lowering::Compute;

/// What an instruction gives; none where lanes would differ by what is not known. `part` says which one of several destinations is
/// meant, `bits` how wide that is.
pub(super) fn compute(what: Compute, arguments: &[Pattern], part: u32, bits: u32) -> Option<Pattern> {
    let first = arguments.first()?;
    let second = || arguments.get(1);
    let third = || arguments.get(2);
    match what {
        Compute::Unpack => {
            return first
                .shifted_right(part.checked_mul(bits)?, Type { bits: 64, signed: false })
                .map(|p| p.within(bits));
        }
        _ if part > 0 => return None,
        _ => {}
    }
    Some(match what {
        Compute::Move | Compute::Mapa => first.clone().within(bits),
        Compute::Convert { to, from } => first.clone().within(from.bits).widened(from, to.bits),
        Compute::Add { ty, subtract: false } => first.plus(second()?, ty.bits),
        Compute::Add { ty, subtract: true } => first.minus(second()?, ty.bits),
        Compute::Multiply { ty, to, adds } => {
            let wide =
                |pattern: &Pattern| if to.bits > ty.bits { pattern.widened(ty, to.bits) } else { pattern.clone() };
            let product = wide(first).times(&wide(second()?), to.bits)?;
            if adds { product.plus(third()?, to.bits) } else { product }
        }
        Compute::Arithmetic { what, ty } => return arithmetic(what, ty, arguments),
        Compute::Select => return first.join(second()?),
        Compute::Shuffle => return None,
        Compute::Insert { ty } => {
            let at = u32::try_from(third()?.number()? & 0xff).ok()?;
            let length = u32::try_from(arguments.get(3)?.number()? & 0xff).ok()?;
            let field = low(length).checked_shl(at).unwrap_or(0);
            let outside = and(second()?, !field, ty.bits)?;
            let inside = and(&first.shifted_left(at, ty.bits), field, ty.bits)?;
            return or(&outside, &inside, ty.bits);
        }
        Compute::Permute => {
            let chosen = third()?.number()?;
            let mut all = Pattern::constant(0);
            for at in 0..4u32 {
                let which = (chosen >> (4 * at)) as u32;
                let from = if which & 4 == 0 { first } else { second()? };
                let byte = from.shifted_right(8 * (which & 3), Type { bits: 32, signed: false })?;
                let byte = and(&byte, 0xff, 32)?;
                // Its sign, eight times.
                let byte = match (which & 8 != 0, byte.is_exact()) {
                    (false, _) => byte,
                    (true, true) => Pattern::exact(byte.lanes.map(|byte| if byte & 0x80 != 0 { 0xff } else { 0 })),
                    (true, false) => return None,
                };
                all = or(&all, &byte.shifted_left(8 * at, 32), 32)?;
            }
            all
        }
        Compute::Funnel { left, wraps } => {
            let by = third()?.number()?;
            let by = if wraps { by & 31 } else { by.min(32) } as u32;
            let (lower, upper) = (first.clone().within(32), second()?.clone().within(32));
            let plain = Type { bits: 32, signed: false };
            if left {
                or(&upper.shifted_left(by, 32), &lower.shifted_right(32 - by, plain)?, 32)?
            } else {
                or(&lower.shifted_right(by, plain)?, &upper.shifted_left(32 - by, 32), 32)?
            }
        }
        Compute::Nothing | Compute::Compare { .. } | Compute::Load { .. } | Compute::Unpack => return None,
    })
}

fn and(pattern: &Pattern, mask: u64, bits: u32) -> Option<Pattern> {
    pattern.bitwise(&Pattern::constant(mask), bits, true, |a, b| a & b)
}

fn or(one: &Pattern, other: &Pattern, bits: u32) -> Option<Pattern> {
    one.bitwise(other, bits, false, |a, b| a | b)
}

fn arithmetic(what: Arithmetic, ty: Type, arguments: &[Pattern]) -> Option<Pattern> {
    let first = arguments.first()?;
    let number = |at: usize| arguments.get(at).and_then(Pattern::number);
    let by = || number(1).map(|by| u32::try_from(by & 0xffff_ffff).unwrap_or(u32::MAX));
    if arguments.iter().all(Pattern::is_exact) {
        return exact(what, ty, arguments);
    }
    match what {
        Arithmetic::And => {
            let second = arguments.get(1)?;
            let (one, mask) = if first.number().is_some() { (second, first) } else { (first, second) };
            one.bitwise(mask, ty.bits, true, |a, b| a & b)
        }
        Arithmetic::Or => or(first, arguments.get(1)?, ty.bits),
        Arithmetic::Xor => first.bitwise(arguments.get(1)?, ty.bits, false, |a, b| a ^ b),
        Arithmetic::Not => first.bitwise(&Pattern::constant(u64::MAX), ty.bits, false, |a, b| a ^ b),
        Arithmetic::Negate => Some(Pattern::constant(0).minus(first, ty.bits)),
        Arithmetic::ShiftLeft => Some(first.shifted_left(by()?, ty.bits)),
        Arithmetic::ShiftRight => first.shifted_right(by()?, ty),
        Arithmetic::Divide if !ty.signed => {
            let by = number(1).filter(|by| by.is_power_of_two())?;
            first.shifted_right(by.trailing_zeros(), ty)
        }
        // A bound of the problem: taken to be far away.
        Arithmetic::Remainder | Arithmetic::Least | Arithmetic::Most if is_bound(arguments.get(1)) => {
            Some(first.assuming())
        }
        Arithmetic::Remainder if !ty.signed => {
            and(first, number(1).filter(|by| by.is_power_of_two())?.wrapping_sub(1), ty.bits)
        }
        Arithmetic::Extract if !ty.signed => {
            let (from, length) = (u32::try_from(number(1)? & 0xff).ok()?, u32::try_from(number(2)? & 0xff).ok()?);
            and(&first.shifted_right(from, ty)?, low(length), ty.bits)
        }
        Arithmetic::Table => table(ty, arguments),
        _ => None,
    }
}

/// A number that all lanes of a warp share and nobody knows.
fn is_bound(pattern: Option<&Pattern>) -> bool {
    pattern.is_some_and(|bound| !bound.is_exact() && bound.start == NONE && bound.lanes.varying() == 0)
}

/// Numbers that are all known, of an instruction that is evaluated or not.
fn exact(what: Arithmetic, ty: Type, arguments: &[Pattern]) -> Option<Pattern> {
    let threads = arguments.iter().find_map(|pattern| match &pattern.lanes {
        Lanes::Each(numbers) => Some(numbers.len()),
        Lanes::Same(_) => None,
    });
    let of = |thread: u32| {
        let mut numbers = [0; 4];
        for (slot, pattern) in numbers.iter_mut().zip(arguments) {
            *slot = pattern.lanes.of(thread);
        }
        what.apply(ty, &numbers)
    };
    let lanes = match threads {
        Some(threads) => Lanes::Each((0..threads as u32).map(of).collect::<Option<_>>()?),
        None => Lanes::Same(of(0)?),
    };
    Some(Pattern::exact(lanes))
}

/// `lop3`: three inputs, a table that is known.
fn table(ty: Type, arguments: &[Pattern]) -> Option<Pattern> {
    let [a, b, c, table] = arguments else { return None };
    let table = table.number()?;
    let row = |a: u64, b: u64, c: u64| Arithmetic::Table.apply(ty, &[a, b, c, table]).unwrap_or(0);
    let [a, b, c] = [a.disjoint(ty.bits)?, b.disjoint(ty.bits)?, c.disjoint(ty.bits)?];
    // Bits of the inputs that are the same in all threads and known: the rest of the table decides there.
    let number = |pattern: &Pattern| pattern.number();
    match (number(&a), number(&b), number(&c)) {
        // One constant: a function of two, bit by bit by what the constant is.
        (None, None, Some(fixed)) => two(&a, &b, ty.bits, |a, b| row(a, b, fixed)),
        (None, Some(fixed), None) => two(&a, &c, ty.bits, |a, c| row(a, fixed, c)),
        (Some(fixed), None, None) => two(&b, &c, ty.bits, |b, c| row(fixed, b, c)),
        _ => {
            let varies = a.lanes.varying() | b.lanes.varying() | c.lanes.varying();
            let open = !(a.zeros & b.zeros & c.zeros);
            if varies & open != 0 {
                return None;
            }
            let lanes = a.lanes.zip(&b.lanes, |_, _| 0);
            let of = |thread: u32| row(a.lanes.of(thread), b.lanes.of(thread), c.lanes.of(thread)) & !open;
            let each = [&lanes, &c.lanes].into_iter().find_map(|lanes| match lanes {
                Lanes::Each(numbers) => Some(numbers.len()),
                Lanes::Same(_) => None,
            });
            let lanes = match each {
                Some(threads) => Lanes::Each((0..threads as u32).map(of).collect()),
                None => Lanes::Same(of(0)),
            };
            Some(Pattern { lanes, ..Pattern::shared(!open) }.within(ty.bits))
        }
    }
}

/// A function of two, bit by bit: a bit that is not known stays open where the function lets it through.
fn two(a: &Pattern, b: &Pattern, bits: u32, of: impl Fn(u64, u64) -> u64) -> Option<Pattern> {
    let (open_a, open_b) = (!a.zeros, !b.zeros);
    // Where flipping an open bit changes nothing in any thread, it is not open.
    let through = |one: &Pattern, other: &Pattern, open: u64, of: &dyn Fn(u64, u64) -> u64| {
        let flips = one.lanes.zip(&other.lanes, |one, other| (of(one, other) ^ of(one ^ open, other)) & open);
        (
            flips.varying(),
            match &flips {
                Lanes::Same(flips) => *flips,
                Lanes::Each(each) => each.iter().fold(0, |all, flips| all | flips),
            },
        )
    };
    if open_a & open_b != 0 {
        return a.bitwise(b, bits, false, of);
    }
    let (uneven_a, open_a) = through(a, b, open_a, &of);
    let (uneven_b, open_b) = through(b, a, open_b, &|b, a| of(a, b));
    // A bit that is let through for some lanes of a warp alone makes them differ by what is not known.
    if uneven_a | uneven_b != 0 {
        return None;
    }
    let open = open_a | open_b;
    if (a.lanes.varying() | b.lanes.varying()) & open != 0 {
        return None;
    }
    let lanes = a.lanes.zip(&b.lanes, |a, b| of(a, b) & !open);
    Some(Pattern { lanes, variable: a.variable.or(b.variable), ..Pattern::shared(!open) }.within(bits))
}
