//! Shared memory: what loads, stores and atomics find and leave there.

use super::Run;
use super::step::lanes_of;
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Address, Atomic, Op, Reg, Source, Space};
use crate::sync::value::{Basis, Lanes, Word};

impl Run<'_> {
    /// Whether an address of a space is one of shared memory.
    fn shared(&self, space: Space, address: u64) -> Option<SharedAddress> {
        match space {
            Space::Shared => Some(SharedAddress::of(address)),
            Space::Generic if SharedAddress::is_generic(address) => Some(SharedAddress::of(address)),
            _ => None,
        }
    }

    pub(super) fn load(&mut self, warp: usize, mask: u32, space: Space, to: &[Option<Reg>], at: Address, bits: u32) {
        let keep = |word: u64| if bits >= 64 { word } else { word & ((1 << bits) - 1) };
        for (element, to) in (0i64..).zip(to) {
            let here = &self.warps[warp];
            let value = if space == Space::Input {
                let address = self.address(here, at, mask.trailing_zeros() as usize).bits;
                let number = self.scenario.input.at(address.wrapping_add_signed(element * i64::from(bits / 8)));
                Lanes::Same(Word { bits: keep(number), basis: Basis::Input })
            } else {
                let unknown = Word { bits: keep(self.scenario.memory), basis: Basis::Memory };
                let of = |lane: usize| {
                    let address = self.address(here, at, lane).bits;
                    let address = address.wrapping_add_signed(element * i64::from(bits / 8));
                    let Some(place) = self.shared(space, address) else { return unknown };
                    let mut all = Word::default();
                    for byte in 0..u64::from(bits / 8) {
                        let Some(part) = self.memory.get(&(place.0 + byte)) else { return unknown };
                        all.bits |= part.bits << (8 * byte);
                        all.basis = all.basis.max(part.basis);
                    }
                    all
                };
                if self.is_same(here, at.base) { Lanes::Same(of(0)) } else { Lanes::each(of) }
            };
            self.write(warp, *to, mask, value);
        }
    }

    pub(super) fn store(&mut self, warp: usize, mask: u32, space: Space, from: &[Source], at: Address, bits: u32) {
        // What takes memory is paid for in steps.
        self.steps += u64::from(mask.count_ones()) * from.len() as u64 / 4;
        for lane in lanes_of(mask) {
            for (element, from) in (0i64..).zip(from) {
                let here = &self.warps[warp];
                let address = self.address(here, at, lane).bits.wrapping_add_signed(element * i64::from(bits / 8));
                let Some(place) = self.shared(space, address) else { continue };
                let word = self.word(here, *from, lane);
                self.put(place, word, bits);
            }
        }
    }

    /// Leaves a number of so many bits in shared memory.
    pub(super) fn put(&mut self, at: SharedAddress, word: Word, bits: u32) {
        let mut changed = false;
        for byte in 0..u64::from(bits / 8).min(8) {
            let part = Word { bits: word.bits >> (8 * byte) & 0xff, ..word };
            changed |= self.memory.insert(at.0 + byte, part) != Some(part);
        }
        self.machine.changes += u64::from(changed);
    }

    /// A word of shared memory.
    pub(super) fn get(&self, at: SharedAddress) -> Option<Word> {
        let mut all = Word::default();
        for byte in 0..4 {
            let part = self.memory.get(&(at.0 + byte))?;
            all.bits |= part.bits << (8 * byte);
            all.basis = all.basis.max(part.basis);
        }
        Some(all)
    }

    pub(super) fn atomic(&mut self, warp: usize, mask: u32, op: &Op) {
        let Op::Atomic { space, to, at, how, args, bits } = op else { return };
        let mut before = [Word::default(); LANES];
        for lane in lanes_of(mask) {
            let here = &self.warps[warp];
            let address = self.address(here, *at, lane).bits;
            let Some(place) = self.shared(*space, address).filter(|_| *bits == 32) else {
                self.tickets += 1;
                before[lane] = Word { bits: self.tickets - 1, basis: Basis::Order };
                continue;
            };
            let unknown = Word { bits: self.scenario.memory, basis: Basis::Memory };
            let old = self.get(place).unwrap_or(unknown);
            let [a, b] = args.map(|source| self.word(here, source, lane));
            let (x, y, z) = (old.bits & 0xffff_ffff, a.bits & 0xffff_ffff, b.bits & 0xffff_ffff);
            let new = match how {
                Atomic::Add => x.wrapping_add(y),
                Atomic::Exchange => y,
                Atomic::CompareAndSwap if x == y => z,
                Atomic::CompareAndSwap => x,
                Atomic::Least => x.min(y),
                Atomic::Most => x.max(y),
                Atomic::And => x & y,
                Atomic::Or => x | y,
                Atomic::Xor => x ^ y,
                Atomic::Increment if x >= y => 0,
                Atomic::Increment => x + 1,
                Atomic::Decrement if x == 0 || x > y => y,
                Atomic::Decrement => x - 1,
            };
            let basis = old.basis.max(a.basis).max(b.basis);
            before[lane] = Word { bits: x, basis: basis.max(Basis::Order) };
            self.put(place, Word { bits: new & 0xffff_ffff, basis }, 32);
        }
        let value = Lanes::each(|lane| before[lane]);
        self.write(warp, *to, mask, value);
    }
}
