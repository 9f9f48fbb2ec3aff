//! Shared memory, and the local memory of threads: what loads, stores and atomics find and leave there.

use super::Run;
use super::step::lanes_of;
use crate::base::FastMap;
use crate::sync::LANES;
use crate::sync::machine::{SharedAddress, is_local};
use crate::sync::program::{Address, Atomic, Op, Reg, Source, Space};
use crate::sync::value::{Basis, Lanes, Word};

/// Bytes of a slot.
const SLOT: u64 = 8;

/// The places of local memory, behind those of shared memory: of each thread so many.
const LOCAL_PLACES: u64 = 1 << 62;
const OF_THREAD: u32 = 32;

/// Shared memory of all blocks and local memory of all threads, as far as something was left there.
#[derive(Default)]
pub(super) struct Memory {
    slots: FastMap<u64, Slot>,
    /// Whether something was left at a place that is not known.
    open: bool,
}

/// Eight bytes at a multiple of eight.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Slot {
    bytes: [u8; SLOT as usize],
    /// What each of them rests on; none where nothing was left.
    basis: [Option<Basis>; SLOT as usize],
}

impl Memory {
    /// Whether something was left at a place that is not known.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// A number of at most eight bytes; none where one of them was never left.
    fn read(&self, at: u64, bytes: u64) -> Option<Word> {
        let mut all = Word::default();
        let mut slot = Slot::default();
        for byte in 0..bytes.min(SLOT) {
            let (of, within) = ((at + byte) / SLOT, ((at + byte) % SLOT) as usize);
            if byte == 0 || within == 0 {
                slot = *self.slots.get(&of)?;
            }
            all.bits |= u64::from(slot.bytes[within]) << (8 * byte);
            all.basis = all.basis.max(slot.basis[within]?);
        }
        Some(all)
    }

    /// Leaves a number of at most eight bytes; says whether that is another one, or rests on something else.
    fn write(&mut self, at: u64, word: Word, bytes: u64) -> bool {
        let (mut byte, end, mut changed) = (0, bytes.min(SLOT), false);
        while byte < end {
            let slot = self.slots.entry((at + byte) / SLOT).or_default();
            let before = *slot;
            let first = (at + byte) % SLOT;
            let count = (SLOT - first).min(end - byte);
            for within in first..first + count {
                slot.bytes[within as usize] = (word.bits >> (8 * (byte + within - first))) as u8;
                slot.basis[within as usize] = Some(word.basis);
            }
            changed |= *slot != before;
            byte += count;
        }
        changed
    }
}

impl Run<'_> {
    /// Whether an address of a space is one of shared memory.
    fn shared(&self, space: Space, address: u64) -> Option<SharedAddress> {
        match space {
            Space::Shared => Some(SharedAddress::of(address)),
            Space::Generic if SharedAddress::is_generic(address) => Some(SharedAddress::of(address)),
            _ => None,
        }
    }

    /// Where a thread's own memory keeps an address of a space, if it is one of local memory.
    fn local(&self, space: Space, address: u64, warp: usize, lane: usize) -> Option<u64> {
        let is_own = matches!(space, Space::Local | Space::Generic) && is_local(address);
        let thread = (warp * LANES + lane) as u64;
        is_own.then_some(LOCAL_PLACES | thread << OF_THREAD | address & ((1 << OF_THREAD) - 1))
    }

    pub(super) fn load(&mut self, warp: usize, mask: u32, space: Space, to: &[Option<Reg>], at: Address, bits: u32) {
        let keep = |word: u64| if bits >= 64 { word } else { word & ((1 << bits) - 1) };
        for (element, to) in (0i64..).zip(to) {
            let here = &self.warps[warp];
            let value = if space == Space::Input {
                let address = self.address(here, at, mask.trailing_zeros() as usize).bits;
                let number = self.scenario.input.at(address.wrapping_add_signed(element * i64::from(bits / 8)), bits);
                Lanes::Same(Word { bits: keep(number), basis: Basis::Input })
            } else {
                let of = |lane: usize| {
                    let address = self.address(here, at, lane).bits;
                    let address = address.wrapping_add_signed(element * i64::from(bits / 8));
                    let place = self.shared(space, address).map(|at| at.0);
                    let place = place.or_else(|| self.local(space, address, warp, lane));
                    let known = place.and_then(|at| self.memory.read(at, u64::from(bits / 8)));
                    let brought = || Word { bits: keep(self.scenario.memory.at(address)), basis: Basis::Memory };
                    known.unwrap_or_else(brought)
                };
                // The same address is another place for every thread where it is a local one.
                let is_same = self.is_same(here, at.base) && !is_local(self.address(here, at, 0).bits);
                Lanes::of(is_same, of)
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
                let to = self.address(here, at, lane);
                let address = to.bits.wrapping_add_signed(element * i64::from(bits / 8));
                self.memory.open |= to.basis >= Basis::Memory;
                let here = &self.warps[warp];
                let word = self.word(here, *from, lane);
                if let Some(place) = self.shared(space, address) {
                    self.put(place, word, bits);
                } else if let Some(place) = self.local(space, address, warp, lane) {
                    // Nobody else can wait for it.
                    self.memory.write(place, word, u64::from(bits / 8));
                }
            }
        }
    }

    /// Leaves a number of so many bits in shared memory.
    pub(super) fn put(&mut self, at: SharedAddress, word: Word, bits: u32) {
        let changed = self.memory.write(at.0, word, u64::from(bits / 8));
        self.machine.changes += u64::from(changed);
    }

    /// What an atomic finds that counts where nobody follows it: one more each time, or two where other blocks count, too.
    pub(super) fn ticket(&mut self) -> Word {
        let drawn = Word { bits: self.tickets, basis: Basis::Order };
        self.tickets += 1 + self.scenario.memory.elsewhere();
        drawn
    }

    /// A word of shared memory.
    pub(super) fn get(&self, at: SharedAddress) -> Option<Word> {
        self.memory.read(at.0, 4)
    }

    pub(super) fn atomic(&mut self, warp: usize, mask: u32, op: &Op) {
        let Op::Atomic { space, to, at, how, args, bits } = op else { return };
        let mut before = [Word::default(); LANES];
        for lane in lanes_of(mask) {
            let here = &self.warps[warp];
            let to = self.address(here, *at, lane);
            let address = to.bits;
            self.memory.open |= to.basis >= Basis::Memory;
            let here = &self.warps[warp];
            let Some(place) = self.shared(*space, address).filter(|_| *bits == 32) else {
                // A counter gives one number after the other, as an input that is tried; what other atomics find memory brings.
                let counts = matches!(how, Atomic::Add | Atomic::Increment);
                let basis = if counts { Basis::Input } else { Basis::Memory };
                before[lane] = Word { basis, ..self.ticket() };
                continue;
            };
            let unknown = || Word { bits: self.scenario.memory.at(address), basis: Basis::Memory };
            let old = self.get(place).unwrap_or_else(unknown);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_wherever_a_number_begins() {
        let mut memory = Memory::default();
        let word = |bits, basis| Word { bits, basis };
        assert_eq!(memory.read(13, 4), None);
        assert!(memory.write(13, word(0x8877_6655_4433_2211, Basis::Fact), 8));
        assert!(!memory.write(13, Word::fact(0x8877_6655_4433_2211), 8));
        assert_eq!(memory.read(13, 8), Some(Word::fact(0x8877_6655_4433_2211)));
        assert_eq!((memory.read(12, 1), memory.read(14, 2)), (None, Some(Word::fact(0x3322))));
        assert_eq!((memory.read(20, 2), memory.read(20, 1)), (None, Some(Word::fact(0x88))));
        assert!(memory.write(16, word(0x44, Basis::Input), 1), "it rests on something else");
        assert_eq!(memory.read(15, 2), Some(word(0x4433, Basis::Input)));
        assert!(memory.write(u64::MAX - 7, Word::fact(1), 8));
    }
}
