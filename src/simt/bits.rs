//! Single bits of registers: which are 0 or 1 in every thread, whatever the rest is, and which are bits of an address.
//!
//! In: the instructions of an evaluation. Out: for every value of a register the bits that are known. An address whose variable is
//! aligned has lower bits that are known, a descriptor that is put together from an address and constants has fields that are.

use crate::base::{IndexVec, work};
use crate::ptx::{Operand, Shape, StateSpace, type_bits};
use crate::simt::eval::number::{Arithmetic, Type};
use crate::simt::eval::value::Value;
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Source, Step};
use crate::simt::ssa::order::{Definition, in_order};
use crate::simt::{SiteId, Warps};

/// Rounds over the instructions.
const MAX_ROUNDS: usize = 16;
/// Changes of a value after which what it has lost is lost for all higher bits, too: a counter loses one bit in each turn.
const MAX_CHANGES: u8 = 6;
/// Lower bits of a pointer that a launch hands over and that are taken to be 0: every allocation is aligned further.
const POINTER: u64 = 15;
/// Lower bits of an address, up to where the widest pattern of a swizzle repeats.
const LOWER: u64 = 0x3ff;
/// Bits of a shared address that say where in its block it is; those above tell blocks of a cluster, or spaces, apart.
const PLACE: u64 = 0xff_ffff;

/// What is known of the bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBits {
    /// Those that are 0.
    pub zeros: u64,
    /// Those that are 1.
    pub ones: u64,
    /// Those that are bits of an address in shared memory, known or not.
    pub address: u64,
    /// How much higher each of them is in the address.
    pub shift: i32,
    /// The variable that the address is in.
    pub variable: Option<u32>,
}

impl KnownBits {
    /// Nothing is known.
    pub const UNKNOWN: KnownBits = KnownBits { zeros: 0, ones: 0, address: 0, shift: 0, variable: None };

    /// A number.
    pub const fn constant(number: u64) -> KnownBits {
        KnownBits { zeros: !number, ones: number, ..KnownBits::UNKNOWN }
    }

    /// The number, where all bits are known.
    pub fn number(self) -> Option<u64> {
        (self.zeros | self.ones == u64::MAX).then_some(self.ones)
    }

    /// Some bits from one on, where all of them are known.
    pub fn field(self, from: u32, bits: u32) -> Option<u64> {
        let mask = low(bits);
        let known = (self.zeros | self.ones) >> from & mask;
        (known == mask).then_some(self.ones >> from & mask)
    }

    /// The bits that are known.
    pub fn known(self) -> u64 {
        self.zeros | self.ones
    }

    fn within(self, bits: u32) -> KnownBits {
        let mask = low(bits);
        KnownBits { zeros: self.zeros | !mask, ones: self.ones & mask, address: self.address & mask, ..self }
    }

    fn join(self, other: KnownBits) -> KnownBits {
        let is_same = (self.shift, self.variable) == (other.shift, other.variable);
        let address = if is_same { self.address & other.address } else { 0 };
        KnownBits { zeros: self.zeros & other.zeros, ones: self.ones & other.ones, address, ..self }
    }

    /// What stays known for good where a value changes again and again: the bits below the lowest that this change lost. A multiple of
    /// a power of two stays one.
    fn below_lost(self, before: KnownBits) -> KnownBits {
        let (lost, met) = (before.known() & !self.known(), self.join(before));
        let kept = low(lost.trailing_zeros()) & met.known();
        let changed = (before.ones ^ self.ones) & before.known() & self.known();
        let kept = kept & low(changed.trailing_zeros());
        KnownBits { zeros: met.zeros & kept, ones: met.ones & kept, ..met }
    }

    fn shifted_left(self, by: u32) -> KnownBits {
        let zeros = self.zeros.checked_shl(by).unwrap_or(0) | low(by);
        let up = |bits: u64| bits.checked_shl(by).unwrap_or(0);
        KnownBits { zeros, ones: up(self.ones), address: up(self.address), shift: self.shift - by as i32, ..self }
    }

    fn shifted_right(self, by: u32) -> KnownBits {
        let down = |bits: u64| bits.checked_shr(by).unwrap_or(0);
        let zeros = down(self.zeros) | !down(u64::MAX);
        KnownBits { zeros, ones: down(self.ones), address: down(self.address), shift: self.shift + by as i32, ..self }
    }

    /// What of a table of three inputs a bit is, each of them 0, 1 or open.
    fn combined(self, other: KnownBits, of: impl Fn(bool, bool) -> bool) -> KnownBits {
        let (mut zeros, mut ones) = (u64::MAX, u64::MAX);
        for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
            let may = (if a { !self.zeros } else { !self.ones }) & (if b { !other.zeros } else { !other.ones });
            if of(a, b) {
                zeros &= !may;
            } else {
                ones &= !may;
            }
        }
        // A bit stays that of an address where the other operand lets it through.
        let through = |by: KnownBits| {
            let kept = |fixed: bool| !of(false, fixed) && of(true, fixed);
            (if kept(false) { by.zeros } else { 0 }) | (if kept(true) { by.ones } else { 0 })
        };
        let found = KnownBits { zeros, ones, ..KnownBits::UNKNOWN };
        match (self.address, other.address) {
            (0, 0) => found,
            (0, address) => KnownBits { zeros, ones, address: address & through(self), ..other },
            (address, _) => KnownBits { zeros, ones, address: address & through(other), ..self },
        }
    }

    fn and(self, other: KnownBits) -> KnownBits {
        self.combined(other, |a, b| a & b)
    }

    fn or(self, other: KnownBits) -> KnownBits {
        self.combined(other, |a, b| a | b)
    }

    fn not(self) -> KnownBits {
        KnownBits { zeros: self.ones, ones: self.zeros, ..KnownBits::UNKNOWN }
    }

    /// The sum, with one more where wanted (Hacker's Delight; LLVM `KnownBits::computeForAddCarry`).
    fn plus(self, other: KnownBits, carry: u64) -> KnownBits {
        // Where in a variable an address is, is no longer known once a number is added of whose lower bits little is.
        let variable = self.variable.filter(|_| other.known() & LOWER == LOWER);
        // A number that is added to an encoded address stays within its field.
        if let (at @ 1..64, true) = (64 - self.address.leading_zeros(), carry == 0)
            && !other.zeros & !low(at) == 0
            && self.address & low(at - 1) != 0
        {
            let lower = self.within(at).sum(other.within(at), 0);
            let (zeros, ones) = (self.zeros & !low(at), self.ones & !low(at));
            return KnownBits {
                zeros: zeros | lower.zeros & low(at),
                ones: ones | lower.ones & low(at),
                variable,
                ..self
            };
        }
        let sum = self.sum(other, carry);
        match (self.address, other.address) {
            (_, 0) => KnownBits { zeros: sum.zeros, ones: sum.ones, variable, ..self },
            (0, _) => KnownBits { zeros: sum.zeros, ones: sum.ones, ..other },
            _ => sum,
        }
    }

    fn sum(self, other: KnownBits, carry: u64) -> KnownBits {
        let most = (!self.zeros).wrapping_add(!other.zeros).wrapping_add(carry);
        let least = self.ones.wrapping_add(other.ones).wrapping_add(carry);
        let no_carry = !(most ^ self.zeros ^ other.zeros);
        let carries = least ^ self.ones ^ other.ones;
        let known = self.known() & other.known() & (no_carry | carries);
        KnownBits { zeros: !most & known, ones: least & known, ..KnownBits::UNKNOWN }
    }

    fn minus(self, other: KnownBits) -> KnownBits {
        let difference = self.sum(other.not(), 1);
        match other.address {
            0 => KnownBits { zeros: difference.zeros, ones: difference.ones, ..self },
            _ => difference,
        }
    }

    fn times(self, other: KnownBits, bits: u32) -> KnownBits {
        for (one, factor) in [(self, other), (other, self)] {
            if let Some(number) = factor.number().filter(|number| number.is_power_of_two()) {
                return one.shifted_left(number.trailing_zeros()).within(bits);
            }
        }
        let known = (!self.known()).trailing_zeros().min((!other.known()).trailing_zeros());
        let product = self.ones.wrapping_mul(other.ones);
        let even = (!self.zeros).trailing_zeros().saturating_add((!other.zeros).trailing_zeros()).min(64);
        let most = u128::from(!self.zeros).checked_mul(u128::from(!other.zeros));
        let above = match most.and_then(|most| u64::try_from(most).ok()) {
            Some(most) => !low(64 - most.leading_zeros()),
            None => 0,
        };
        let zeros = !product & low(known) | low(even) | above;
        KnownBits { zeros, ones: product & low(known), ..KnownBits::UNKNOWN }.within(bits)
    }
}

/// The lower so many bits.
fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// What is known of the bits of every register.
pub struct Bits {
    held: IndexVec<ValueId, Option<KnownBits>>,
}

impl Bits {
    /// Evaluates a kernel.
    pub fn of(warps: &Warps<'_>) -> Bits {
        let values = &warps.values;
        let count = values.ssa.count;
        let numbers: IndexVec<ValueId, Option<KnownBits>> = values.held.iter().map(numbers).collect();
        let mut solver = Solver {
            warps,
            widths: widths(warps),
            held: numbers.clone(),
            numbers,
            changes: IndexVec::filled(0, count),
            stamps: IndexVec::filled(0, count),
            round: 0,
        };
        for round in 0..MAX_ROUNDS {
            solver.round = round;
            if !solver.round() {
                return Bits { held: solver.held };
            }
        }
        Bits { held: IndexVec::filled(Some(KnownBits::UNKNOWN), count) }
    }

    /// Bits of a value that are 0 in every thread.
    pub(in crate::simt) fn zeros(&self, id: ValueId) -> u64 {
        self.held.get(id).copied().flatten().map_or(0, |bits| bits.zeros)
    }

    /// What is known of an operand: of a number, a register, or an address with what is added to it.
    pub fn operand(&self, warps: &Warps<'_>, index: SiteId, operand: Operand<'_>) -> KnownBits {
        if let Some(value) = operand.value() {
            return KnownBits::constant(value as u64);
        }
        let (name, added) = match operand.address() {
            Some(address) => (address.base, address.offset),
            None => (operand.name(), Some(0)),
        };
        let Some(added) = added else { return KnownBits::UNKNOWN };
        let register = name
            .zip(warps.graph.sites.get(index))
            .and_then(|(name, site)| warps.graph.registers.resolve(name, site.located.id));
        let base = match register {
            Some(register) => {
                let id = warps.values.ssa.read(index, register);
                id.and_then(|id| self.held.get(id).copied().flatten())
            }
            None => place(warps, &warps.values.operand(&warps.graph, index, operand)),
        };
        match (base, register) {
            (Some(base), Some(_)) => base.plus(KnownBits::constant(added as u64), 0),
            (Some(base), None) => base,
            _ => KnownBits::UNKNOWN,
        }
    }
}

/// The bits of a place in a variable.
fn place(warps: &Warps<'_>, value: &Value) -> Option<KnownBits> {
    let declared = warps.values.declared.get(value.variable()? as usize)?;
    let Value::Address { offset: Some(offset), .. } = value else { return None };
    let lower = declared.align.wrapping_sub(1);
    let offset = *offset as u64;
    // An offset within the alignment changes no bit above it.
    let base = KnownBits { zeros: lower, ..KnownBits::UNKNOWN };
    let known = base.sum(KnownBits::constant(offset), 0);
    let address = if declared.space == Some(StateSpace::Shared) { low(32) } else { 0 };
    Some(KnownBits { address, variable: value.variable(), ..known })
}

/// Which part of a number a destination of `mov.b64 {_, %r1}, %rd1` gets: sinks are no destinations.
pub(in crate::simt) fn part(warps: &Warps<'_>, step: &Step, at: usize) -> Option<u32> {
    let site = warps.graph.sites.get(step.index)?;
    let Shape::Vector(parts) = site.located.instruction.operand(0)?.shape() else { return None };
    let mut kept = (0u32..).zip(parts).filter(|(_, part)| part.text() != "_");
    kept.nth(at).map(|(place, _)| place)
}

/// By value: how many bits its register has.
fn widths(warps: &Warps<'_>) -> IndexVec<ValueId, u8> {
    let mut widths = IndexVec::filled(64, warps.values.ssa.count);
    for step in &warps.values.steps {
        let Some(site) = warps.graph.sites.get(step.index) else { continue };
        let written = warps.graph.registers.written_by(&site.located);
        for (to, register) in step.destinations.iter().zip(written) {
            let declared = warps.graph.registers.declaration(register);
            let bits = declared.and_then(|declared| type_bits(declared.ty)).unwrap_or(64).min(64);
            if let Some(slot) = widths.get_mut(to.id) {
                *slot = bits as u8;
            }
        }
    }
    widths
}

struct Solver<'w, 'a> {
    warps: &'w Warps<'a>,
    widths: IndexVec<ValueId, u8>,
    /// By value: the bits of what is known thread by thread.
    numbers: IndexVec<ValueId, Option<KnownBits>>,
    held: IndexVec<ValueId, Option<KnownBits>>,
    changes: IndexVec<ValueId, u8>,
    /// The round after the one in which each value changed last.
    stamps: IndexVec<ValueId, usize>,
    round: usize,
}

impl Solver<'_, '_> {
    fn round(&mut self) -> bool {
        let mut changed = false;
        let warps = self.warps;
        work::spend_on(warps.values.steps.len() + warps.values.ssa.phis.len());
        for definition in in_order(warps.values.steps.iter(), warps.values.ssa.phis.iter()) {
            if self.round > 0 && !definition.reads_any(|id| self.is_touched(id)) {
                continue;
            }
            changed |= match definition {
                Definition::Phi(phi) => {
                    work::spend_on(phi.from.len());
                    let coming = phi.from.iter().filter_map(|(.., id)| self.held_by(Some(*id)));
                    coming.reduce(KnownBits::join).is_some_and(|met| self.set(phi.id, met))
                }
                Definition::Step(step) => self.step(step),
            };
        }
        changed
    }

    /// Whether a value changed since this place was looked at in the round before.
    fn is_touched(&self, id: ValueId) -> bool {
        self.stamps.get(id).is_some_and(|stamp| *stamp >= self.round)
    }

    fn held_by(&self, id: Option<ValueId>) -> Option<KnownBits> {
        self.held.get(id?).copied().flatten()
    }

    fn set(&mut self, id: ValueId, mut bits: KnownBits) -> bool {
        if self.numbers.get(id).is_some_and(Option::is_some) {
            return false;
        }
        let (Some(slot), Some(changes), Some(stamp)) =
            (self.held.get_mut(id), self.changes.get_mut(id), self.stamps.get_mut(id))
        else {
            return false;
        };
        if *slot == Some(bits) {
            return false;
        }
        if *changes >= MAX_CHANGES {
            bits = bits.below_lost(slot.unwrap_or(KnownBits::UNKNOWN));
            if *slot == Some(bits) {
                return false;
            }
        }
        *changes = changes.saturating_add(1);
        *stamp = self.round + 1;
        *slot = Some(bits);
        true
    }

    fn step(&mut self, step: &Step) -> bool {
        let mut changed = false;
        for (at, to) in step.destinations.iter().enumerate() {
            if self.numbers.get(to.id).is_some_and(Option::is_some) {
                continue;
            }
            let bits = self.widths.get(to.id).map_or(64, |bits| u32::from(*bits));
            let computed = match self.compute(step, at, bits) {
                Some(Some(found)) => found.within(bits),
                Some(None) => KnownBits::UNKNOWN.within(bits),
                // Something that it needs has not been looked at.
                None => continue,
            };
            let kept = if step.guard.is_some() && to.is_several || !to.alone { self.held_by(to.old) } else { None };
            let own = if to.alone { None } else { self.held_by(Some(to.id)) };
            let joined = [kept, own].into_iter().flatten().fold(computed, KnownBits::join);
            changed |= self.set(to.id, joined);
        }
        changed
    }

    /// The bits of an operand; none inside where nothing is known, none outside where it was not looked at yet.
    fn source(&self, source: &Source, bits: u32) -> Option<Option<KnownBits>> {
        Some(match source {
            Source::Known(value) => numbers(value).or_else(|| place(self.warps, value)),
            Source::Value(Some(id)) => Some(self.held_by(Some(*id))?),
            Source::Value(None) => return None,
            Source::Address(base, offset) => {
                let base = self.source(base, 64)??;
                offset.map(|offset| base.plus(KnownBits::constant(offset as u64), 0))
            }
            Source::Pack(parts) => {
                let each = bits.checked_div(u32::try_from(parts.len()).ok()?).filter(|each| *each > 0)?;
                let mut all = KnownBits::constant(0);
                for (part, at) in parts.iter().zip((0..).step_by(each as usize)) {
                    let part = self.source(part, each)?.unwrap_or(KnownBits::UNKNOWN).within(each);
                    all = all.or(part.shifted_left(at));
                }
                Some(all)
            }
            Source::Not(_) | Source::OwnRank | Source::Opaque => None,
        })
    }

    fn compute(&self, step: &Step, at: usize, bits: u32) -> Option<Option<KnownBits>> {
        let argument = |number: usize| match step.arguments.get(number) {
            Some(source) => self.source(source, bits),
            None => Some(None),
        };
        let whole = |number: usize, bits: u32| Some(argument(number)?.map_or(KnownBits::UNKNOWN, |a| a.within(bits)));
        if let Compute::Unpack = step.compute {
            let source = step.arguments.first()?;
            let all = self.source(source, 64)?.unwrap_or(KnownBits::UNKNOWN);
            let part = part(self.warps, step, at).map(|part| all.shifted_right(bits.saturating_mul(part)));
            return Some(part);
        }
        if at > 0 {
            return Some(None);
        }
        Some(match step.compute {
            Compute::Nothing | Compute::Unpack => None,
            Compute::Move => argument(0)?.map(|moved| self.converted(step, moved)),
            // Another block: the upper bits differ.
            Compute::Mapa => argument(0)?.map(|place| KnownBits { zeros: place.zeros & PLACE, ..place }),
            Compute::Shuffle => argument(0)?,
            Compute::Convert { to, from } => {
                let source = whole(0, from.bits)?;
                let sign = 1u64.checked_shl(from.bits.wrapping_sub(1)).unwrap_or(0);
                if from.signed && to.bits > from.bits && source.zeros & sign == 0 {
                    Some(KnownBits { zeros: source.zeros & low(from.bits), ..source })
                } else {
                    Some(source.within(to.bits))
                }
            }
            Compute::Add { ty, subtract: false } => Some(whole(0, ty.bits)?.plus_either(whole(1, ty.bits)?)),
            Compute::Add { ty, subtract: true } => Some(whole(0, ty.bits)?.minus(whole(1, ty.bits)?).within(ty.bits)),
            Compute::Multiply { ty, to, adds } => {
                let (a, b) = (self.widened(whole(0, ty.bits)?, ty, to), self.widened(whole(1, ty.bits)?, ty, to));
                let product = a.times(b, to.bits);
                Some(if adds { product.plus_either(whole(2, to.bits)?) } else { product })
            }
            Compute::Arithmetic { what, ty } => arithmetic(what, ty, |number| whole(number, ty.bits))?,
            Compute::Compare { .. } => Some(KnownBits { zeros: !1, ..KnownBits::UNKNOWN }),
            Compute::Select => Some(whole(0, bits)?.join(whole(1, bits)?)),
            Compute::Load { bytes } => Some(self.loaded(step, bytes)),
            Compute::Insert { ty } => {
                let (from, into) = (whole(0, ty.bits)?, whole(1, ty.bits)?);
                let (at, length) = (whole(2, 32)?.number(), whole(3, 32)?.number());
                at.zip(length).and_then(|(at, length)| {
                    let (at, length) = (u32::try_from(at & 0xff).ok()?, u32::try_from(length & 0xff).ok()?);
                    let field = low(length).checked_shl(at).unwrap_or(0);
                    let outside = into.and(KnownBits::constant(!field));
                    Some(outside.or(from.within(length).shifted_left(at)))
                })
            }
            Compute::Permute => {
                let all = whole(0, 32)?.or(whole(1, 32)?.shifted_left(32));
                whole(2, 32)?.number().map(|chosen| {
                    let byte = |at: u32| {
                        let which = (chosen >> (4 * at)) as u32;
                        let byte = all.shifted_right(8 * (which & 7)).within(8);
                        if which & 8 != 0 { KnownBits::UNKNOWN.within(8) } else { byte }.shifted_left(8 * at)
                    };
                    (1..4).fold(byte(0), |all, at| all.or(byte(at)))
                })
            }
            Compute::Funnel { left, wraps } => {
                let all = whole(0, 32)?.or(whole(1, 32)?.shifted_left(32));
                whole(2, 32)?.number().map(|by| {
                    let by = if wraps { by & 31 } else { by.min(32) } as u32;
                    if left { all.shifted_left(by).shifted_right(32) } else { all.shifted_right(by).within(32) }
                })
            }
        })
    }

    fn widened(&self, bits: KnownBits, from: Type, to: Type) -> KnownBits {
        let sign = 1u64.checked_shl(from.bits.wrapping_sub(1)).unwrap_or(0);
        if from.signed && to.bits > from.bits && bits.zeros & sign == 0 {
            KnownBits { zeros: bits.zeros & low(from.bits), ..bits }
        } else {
            bits
        }
    }

    /// `cvta` makes a generic address of a shared one, of which the upper bits are not known.
    fn converted(&self, step: &Step, bits: KnownBits) -> KnownBits {
        let site = self.warps.graph.sites.get(step.index);
        let Some(instruction) = site.map(|site| site.located.instruction).filter(|it| it.mnemonic() == "cvta") else {
            return bits;
        };
        let shared = instruction.modifiers().any(|word| word.starts_with("shared"));
        if !shared || instruction.has("to") {
            return KnownBits { zeros: bits.zeros & PLACE, ones: bits.ones & PLACE, ..bits };
        }
        KnownBits { zeros: bits.zeros & PLACE, ones: bits.ones & PLACE, address: u64::MAX, shift: 0, ..bits }
    }

    /// What a load tells: that a pointer which the launch hands over is aligned, and how wide a number is.
    fn loaded(&self, step: &Step, bytes: u32) -> KnownBits {
        let site = self.warps.graph.sites.get(step.index);
        let is_pointer = bytes == 8 && site.is_some_and(|site| site.located.instruction.has("param"));
        let zeros = if is_pointer { POINTER } else { 0 };
        KnownBits { zeros, ..KnownBits::UNKNOWN }
    }
}

impl KnownBits {
    /// The sum of two of which either may be an address.
    fn plus_either(self, other: KnownBits) -> KnownBits {
        if self.address == 0 { other.plus(self, 0) } else { self.plus(other, 0) }
    }
}

fn arithmetic(what: Arithmetic, ty: Type, argument: impl Fn(usize) -> Option<KnownBits>) -> Option<Option<KnownBits>> {
    let (a, b) = (argument(0)?, argument(1)?);
    let by = b.number().and_then(|by| u32::try_from(by & 0xffff_ffff).ok());
    Some(match what {
        Arithmetic::And => Some(a.and(b)),
        Arithmetic::Or => Some(a.or(b)),
        Arithmetic::Xor => Some(a.combined(b, |a, b| a ^ b)),
        Arithmetic::Not => Some(a.not().within(ty.bits)),
        Arithmetic::ShiftLeft => by.map(|by| a.shifted_left(by).within(ty.bits)),
        Arithmetic::ShiftRight => {
            let is_plain = !ty.signed || a.zeros >> (ty.bits - 1) & 1 == 1;
            by.filter(|_| is_plain).map(|by| a.shifted_right(by))
        }
        Arithmetic::Extract => {
            let length = argument(2)?.number().and_then(|length| u32::try_from(length & 0xff).ok());
            by.zip(length).filter(|_| !ty.signed).map(|(by, length)| a.shifted_right(by & 0xff).within(length))
        }
        Arithmetic::Remainder if !ty.signed => {
            b.number().filter(|number| number.is_power_of_two()).map(|number| a.and(KnownBits::constant(number - 1)))
        }
        Arithmetic::Table => {
            let (c, table) = (argument(2)?, argument(3)?.number());
            table.map(|table| {
                // One input after the other, by what the third one is.
                let half = |third: bool| {
                    a.combined(b, |a, b| {
                        let row = u64::from(a) << 2 | u64::from(b) << 1 | u64::from(third);
                        table >> row & 1 == 1
                    })
                };
                let (no, yes) = (half(false), half(true));
                let pick = KnownBits {
                    zeros: (no.zeros | c.ones) & (yes.zeros | c.zeros),
                    ones: (no.ones | c.ones) & (yes.ones | c.zeros),
                    ..KnownBits::UNKNOWN
                };
                pick.within(ty.bits)
            })
        }
        _ => None,
    })
}

/// The bits of numbers that are known thread by thread.
fn numbers(value: &Value) -> Option<KnownBits> {
    let all = |values: &mut dyn Iterator<Item = u64>| {
        let (zeros, ones) = values.fold((u64::MAX, u64::MAX), |(zeros, ones), value| (zeros & !value, ones & value));
        KnownBits { zeros, ones, ..KnownBits::UNKNOWN }
    };
    match value {
        Value::Constant(number) => Some(KnownBits::constant(*number)),
        Value::Threads { values, .. } => Some(all(&mut values.iter().copied())),
        Value::Choice { layers, .. } => Some(all(&mut layers.iter().flat_map(|layer| layer.iter().copied()))),
        _ => None,
    }
}
