//! What each instruction reads and writes.
//!
//! In: a word and its architecture. Out: its [`Effects`], its guard, its fields with their roles and widths, or nothing where the table has no
//! such opcode. The table is data (`table.rs`, written by `sass-tables effects`): for each opcode a decision tree over the word's
//! bits whose leaves say which bits number a register and what happens to it. Nothing here knows an instruction by name.

mod table;

use crate::base::{Arch, RegFile};

use super::{Effects, Flow, Guard, Transfer, Word, transfer};

/// A test of one bit, or a leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Bit to test; [`LEAF`] for a leaf.
    bit: u8,
    /// Next node where the bit is 0; the leaf's number for a leaf.
    zero: u16,
    /// Next node where the bit is 1.
    one: u16,
}

const LEAF: u8 = 0xff;

/// What happens to the registers that a field of the word numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldUse {
    /// The register file.
    pub file: RegFile,
    /// Lowest bit of the number.
    pub pos: u8,
    /// Bits of the number; 0 where the instruction touches register `pos` whatever its bits say. All ones is the register that is always zero, or always true.
    pub bits: u8,
    /// Whether it is written; read otherwise. A field that is both has two uses.
    pub write: bool,
    /// Consecutive registers, from the numbered one on.
    pub count: u8,
}

impl FieldUse {
    /// The number in a word; `None` for the always-zero register.
    #[inline]
    fn register(&self, word: Word) -> Option<u16> {
        if self.bits == 0 {
            return Some(u16::from(self.pos));
        }
        let mask = (1u64 << self.bits) - 1;
        let raw = if self.pos >= 64 {
            word.hi >> (self.pos - 64)
        } else if self.pos + self.bits <= 64 {
            word.lo >> self.pos
        } else {
            word.lo >> self.pos | word.hi << (64 - self.pos)
        };
        let value = raw & mask;
        (value != mask).then_some(value as u16)
    }
}

/// Where a leaf's uses are in the list of all.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    first: u16,
    count: u8,
}

/// SM numbers whose tables gave nvdisasm's live counts on at least 99.9 % of the instructions of libraries they were not learnt
/// from: `scripts/sass-agreement` measures it.
const VERIFIED: &[u16] = &[];

/// The effects of one architecture's instructions.
#[derive(Debug)]
pub struct EffectTable {
    sm: u16,
    /// By opcode: the root of its tree plus one, or 0.
    roots: [u16; 4096],
}

/// Spreads a list of (opcode, root) over all opcodes.
const fn spread(sm: u16, list: &[(u16, u16)]) -> EffectTable {
    let mut roots = [0; 4096];
    let mut i = 0;
    while i < list.len() {
        roots[list[i].0 as usize] = list[i].1 + 1;
        i += 1;
    }
    EffectTable { sm, roots }
}

impl EffectTable {
    /// The table of an architecture; `None` for one whose table is not verified. A count that may be wrong is worse than none.
    pub fn for_arch(arch: Arch) -> Option<&'static EffectTable> {
        if VERIFIED.contains(&arch.sm) { EffectTable::learnt(arch) } else { None }
    }

    /// The table of an architecture as it was learnt, verified or not: for the tools that verify it.
    pub fn learnt(arch: Arch) -> Option<&'static EffectTable> {
        table::TABLES.iter().find(|table| table.sm == arch.sm)
    }

    /// The uses of a word's fields; `None` for an opcode the table does not have.
    #[inline]
    pub fn fields(&self, word: Word) -> Option<&'static [FieldUse]> {
        let root = self.roots[(word.lo & 0xfff) as usize].checked_sub(1)?;
        let mut node = table::NODES.get(usize::from(root))?;
        while node.bit != LEAF {
            let bit = if node.bit < 64 { word.lo >> node.bit } else { word.hi >> (node.bit - 64) };
            node = table::NODES.get(usize::from(if bit & 1 == 1 { node.one } else { node.zero }))?;
        }
        let leaf = table::LEAVES.get(usize::from(node.zero))?;
        table::USES.get(usize::from(leaf.first)..usize::from(leaf.first) + usize::from(leaf.count))
    }

    /// What a word reads and writes, its guard among the reads; `None` for an opcode the table does not have.
    #[inline]
    pub fn of(&self, word: Word) -> Option<Effects> {
        let mut effects = Effects::default();
        for used in self.fields(word)? {
            let set = if used.write { &mut effects.writes } else { &mut effects.reads };
            if let Some(first) = used.register(word) {
                set.insert_run(used.file, first, u16::from(used.count));
            }
        }
        Some(effects)
    }

    /// The guard of a word; `None` where it always runs.
    #[inline]
    pub fn guard(&self, word: Word) -> Option<Guard> {
        let index = (word.lo >> 12 & 7) as u8;
        let negated = word.lo >> 15 & 1 == 1;
        if index == 7 && !negated {
            return None;
        }
        let is_uniform = self.fields(word)?.iter().any(|used| used.pos == 12 && used.file == RegFile::Upred);
        Some(Guard { file: if is_uniform { RegFile::Upred } else { RegFile::Pred }, index, negated })
    }

    /// How instruction number `index` of a section moves control.
    #[inline]
    pub fn flow(&self, word: Word, index: usize) -> Flow {
        let known = self.roots[(word.lo & 0xfff) as usize] != 0;
        let guard = if known { self.guard(word) } else { None };
        let (transfer, own_condition) =
            if known { transfer::of(self.sm, word, index) } else { (Transfer::Next, false) };
        Flow { transfer, guard, own_condition, known }
    }
}
