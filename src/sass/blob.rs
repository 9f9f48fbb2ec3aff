//! The generated tables, read in place: no parsing at start, every read checked.
//!
//! `tables/sass.bin` holds records of little-endian numbers that refer to each other by offset, and the literals they print.
//! `tools/sass-tables pack` writes it, together with `tables/sass.txt`, which says the same for people to read and compare; the
//! writer there and the readers here must agree.

use std::num::NonZeroU32;

use crate::base::{Arch, RegFile, Variant};

use super::Word;

static BLOB: &[u8] = include_bytes!("tables/sass.bin");

/// What the blob begins with: the format's name and version.
pub(super) const MAGIC: &[u8; 8] = b"PTXSASS3";

/// Reads past the end give zero, which every reader takes for "nothing".
#[inline]
pub(super) fn u8_at(at: u32) -> u8 {
    BLOB.get(at as usize).copied().unwrap_or(0)
}

#[inline]
pub(super) fn u16_at(at: u32) -> u16 {
    let at = at as usize;
    match BLOB.get(at..at + 2) {
        Some(&[a, b]) => u16::from_le_bytes([a, b]),
        _ => 0,
    }
}

#[inline]
pub(super) fn u32_at(at: u32) -> u32 {
    let at = at as usize;
    match BLOB.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[inline]
pub(super) fn u64_at(at: u32) -> u64 {
    let at = at as usize;
    match BLOB.get(at..at + 8) {
        Some(&[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Bytes of the blob; none where they would go past its end.
#[inline]
pub(super) fn bytes_at(at: u32, len: usize) -> &'static [u8] {
    BLOB.get(at as usize..at as usize + len).unwrap_or(&[])
}

/// Sixteen bytes of the blob, of which the caller wants the first few.
#[inline]
pub(super) fn sixteen_at(at: u32) -> Option<&'static [u8; 16]> {
    BLOB.get(at as usize..)?.first_chunk()
}

/// The page table of an architecture: 64 offsets of pages of 64 tree offsets. Zero when the tables do not have it.
///
/// After the magic: a count, then for each architecture SM number (u16), variant (u16), page table offset (u32).
pub(super) fn pages(arch: Arch) -> u32 {
    if !BLOB.starts_with(MAGIC) {
        return 0;
    }
    let variant = match arch.variant {
        Variant::Base => 0,
        Variant::Family => 1,
        Variant::Accelerated => 2,
    };
    let count = u32_at(8);
    for i in 0..count {
        let at = 12 + 8 * i;
        if u16_at(at) == arch.sm && u16_at(at + 2) == variant {
            return u32_at(at + 4);
        }
    }
    0
}

/// Every architecture of the tables.
pub(super) fn architectures() -> impl Iterator<Item = Arch> {
    (0..u32_at(8)).map(|i| {
        let at = 12 + 8 * i;
        let variant = match u16_at(at + 2) {
            0 => Variant::Base,
            1 => Variant::Family,
            _ => Variant::Accelerated,
        };
        Arch::new(u16_at(at)).with_variant(variant)
    })
}

/// Some adjacent bits of the word, shifted into place: four bytes, `bit, width, shift, negative`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    pub bit: u8,
    pub width: u8,
    pub shift: u8,
    pub negative: bool,
}

impl Chunk {
    #[inline]
    fn at(at: u32) -> Chunk {
        let [bit, width, shift, negative] = u32_at(at).to_le_bytes();
        Chunk { bit, width, shift, negative: negative != 0 }
    }

    #[inline]
    pub fn of(self, word: Word) -> i64 {
        let half = if self.bit < 64 { word.lo >> self.bit } else { word.hi >> (self.bit & 63) };
        let mask = if self.width >= 64 { u64::MAX } else { (1u64 << self.width) - 1 };
        let value = ((half & mask) << (self.shift & 63)) as i64;
        if self.negative { value.wrapping_neg() } else { value }
    }

    /// The bits that it is.
    pub fn mask(self) -> Word {
        let mask = if self.width >= 64 { u64::MAX } else { (1u64 << self.width) - 1 };
        match self.bit {
            0..64 => Word { lo: mask << self.bit, hi: 0 },
            bit => Word { lo: 0, hi: mask << (bit & 63) },
        }
    }
}

/// A field of the word that does not cross its halves.
#[inline]
pub(super) fn field(word: Word, bit: u64, width: u64) -> u64 {
    let half = if bit < 64 { word.lo } else { word.hi };
    half >> (bit & 63) & !(u64::MAX << (width & 63))
}

/// A number of the text. Record: kind u8, chunks u8, number of URZ u8, 1 unused, constant i64, chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(pub u32);

impl Slot {
    #[inline]
    pub fn kind(self) -> u8 {
        u8_at(self.0)
    }

    #[inline]
    pub fn eval(self, word: Word) -> i64 {
        self.chunks().fold(self.constant(), |value, chunk| value.wrapping_add(chunk.of(word)))
    }

    /// What is added to its chunks.
    #[inline]
    pub fn constant(self) -> i64 {
        u64_at(self.0 + 4) as i64
    }

    /// The bits that it is made of.
    #[inline]
    pub fn chunks(self) -> impl ExactSizeIterator<Item = Chunk> {
        (0..u32::from(u8_at(self.0 + 1))).map(move |i| Chunk::at(self.0 + 12 + 4 * i))
    }

    /// The bits that it is, side by side in one half: the lowest, how many, and whether they have a sign.
    pub fn field(self) -> Option<(u8, u8, bool)> {
        let mut chunks = self.chunks();
        let first = chunks.next().filter(|first| first.shift == 0 && !first.negative)?;
        let Some(sign) = chunks.next() else { return Some((first.bit, first.width, false)) };
        let follows = sign.bit == first.bit + first.width && sign.shift == first.width && sign.bit & 63 != 0;
        let is_sign = sign.width == 1 && sign.negative && follows && chunks.next().is_none();
        is_sign.then_some((first.bit, first.width + 1, true))
    }

    /// The index that a uniform register slot spells `URZ`.
    #[inline]
    pub fn zero(self) -> u8 {
        u8_at(self.0 + 2)
    }

    /// The lowest bit of the word the number is made of.
    pub fn bit(self) -> u8 {
        u8_at(self.0 + 12)
    }
}

/// A question about a number: sixteen bytes, as a component has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question(u32);

impl Question {
    /// The bit of the component's index that the answer is.
    #[inline]
    fn to(self) -> u64 {
        u64_at(self.0) >> 40 & 31
    }

    #[inline]
    pub fn holds(self, word: Word) -> bool {
        let test = u64_at(self.0);
        let expected = u64_at(self.0 + 8) as i64;
        match test >> 32 & 0xff {
            2 => field(word, test >> 48 & 0xff, test >> 56) as i64 == expected,
            0 => Slot(test as u32).eval(word) == expected,
            _ => {
                let value = Slot(test as u32).eval(word);
                value > 0 && value & (value - 1) == 0
            }
        }
    }

    /// What is asked, wherever the answer goes.
    pub fn asks(self) -> (u64, u64) {
        (u64_at(self.0) & !(0xff << 40), u64_at(self.0 + 8))
    }

    /// The bits that are asked to be a number, where that is all: the lowest, how many, the number.
    pub fn field(self) -> Option<(u8, u8, u64)> {
        let test = u64_at(self.0);
        let expected = u64_at(self.0 + 8);
        match test >> 32 & 0xff {
            2 => Some(((test >> 48) as u8, (test >> 56) as u8, expected)),
            0 => {
                let slot = Slot(test as u32);
                let (bit, width, _) = slot.field().filter(|_| slot.constant() == 0)?;
                // Asked for what it cannot be, it is refused as any other.
                let mask = !(u64::MAX << (width & 63));
                let is_possible = slot.eval(Word { lo: expected << (bit & 63), hi: 0 }) == expected as i64;
                (bit < 64 && is_possible).then_some((bit, width, expected & mask))
            }
            _ => None,
        }
    }
}

/// A component: inputs that choose pieces of text together.
///
/// Record: chunks u8, tests u8, sites u8, form u8 (0 dense u8, 1 dense u16, 2 sparse), table u32, entries u32, variants u32;
/// chunks of 4 bytes; tests of 16: slot u32, kind u8 (0 equal, 1 power of two, 2 equal of a plain field), destination bit u8,
/// bit u8, width u8 (of the field), value i64. A variant has one [op](Op) of 8 bytes for each site.
#[derive(Clone, Copy)]
pub(super) struct Comp(pub u32);

/// No legal word has this value of the component.
pub(super) const ILLEGAL: u32 = u32::MAX;

impl Comp {
    #[inline]
    fn index(self, word: Word, head: u64) -> u32 {
        let (chunks, tests) = (head as u32 & 0xff, head as u32 >> 8 & 0xff);
        let mut index = 0i64;
        let mut at = self.0 + 16;
        for _ in 0..chunks {
            index |= Chunk::at(at).of(word);
            at += 4;
        }
        for _ in 0..tests {
            let question = Question(at);
            index |= i64::from(question.holds(word)) << question.to();
            at += 16;
        }
        index as u32
    }

    /// The bits that choose by what they are.
    pub fn chunks(self) -> impl Iterator<Item = Chunk> {
        (0..u32::from(u8_at(self.0))).map(move |i| Chunk::at(self.0 + 16 + 4 * i))
    }

    /// What else chooses.
    pub fn questions(self) -> impl Iterator<Item = Question> {
        let first = self.0 + 16 + 4 * u32::from(u8_at(self.0));
        (0..u32::from(u8_at(self.0 + 1))).map(move |i| Question(first + 16 * i))
    }

    /// The number of the chosen variant; [`ILLEGAL`] when there is none.
    #[inline]
    pub fn variant(self, word: Word) -> u32 {
        let head = u64_at(self.0);
        let index = self.index(word, head);
        let (table, entries) = ((head >> 32) as u32, u32_at(self.0 + 8));
        match head >> 24 & 0xff {
            0 if index < entries => match u8_at(table + index) {
                0xff => ILLEGAL,
                v => u32::from(v),
            },
            1 if index < entries => match u16_at(table + 2 * index) {
                0xffff => ILLEGAL,
                v => u32::from(v),
            },
            2 => {
                // Sorted pairs of index and variant.
                let (mut low, mut high) = (0, entries);
                while low < high {
                    let middle = (low + high) / 2;
                    if u32_at(table + 8 * middle) < index {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                if low >= entries || u32_at(table + 8 * low) != index {
                    return ILLEGAL;
                }
                u32_at(table + 8 * low + 4)
            }
            _ => ILLEGAL,
        }
    }

    /// The offset of what the component says at one of its sites; zero where the word is illegal.
    #[inline]
    pub fn site(self, word: Word, site: u32) -> u32 {
        match self.variant(word) {
            ILLEGAL => 0,
            variant => u32_at(self.0 + 12) + 8 * (u32::from(u8_at(self.0 + 2)) * variant + site),
        }
    }
}

/// A class of words. Record: fixed mask lo, hi, fixed value lo, hi (u64 each), template u32, guard u8 (0 none, 1 P, 2 UP),
/// components u8, u16 which of the first 16 components have illegal values, effects u32, offsets of the components (u32 each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub u32);

impl Class {
    #[inline]
    pub fn fits(self, word: Word) -> bool {
        word.masked(self.fixed()) == Word { lo: u64_at(self.0 + 16), hi: u64_at(self.0 + 24) }
    }
    #[inline]
    pub fn template(self) -> u32 {
        u32_at(self.0 + 32)
    }
    /// The file of the predicate that guards its words.
    #[inline]
    pub fn guarded_by(self) -> Option<RegFile> {
        match u8_at(self.0 + 36) {
            1 => Some(RegFile::Pred),
            2 => Some(RegFile::Upred),
            _ => None,
        }
    }
    /// The uses of a word's fields: where their number is, a byte, with the uses behind it. `None` where they are not known.
    ///
    /// Node: kind u8. 1, leaf: uses u8, then 5 bytes each: file, lowest bit, bits (0x80 added for a complement), written, registers. 2, switch: component u8, variants u16, then a
    /// node for each variant, zero for one that was never observed. 3, number of one run of bits or two: lowest bit u8, bits u8 (those of the second run in its upper half), lowest bit of the second
    /// run u8, then a node for each value.
    #[inline]
    pub fn uses(self, word: Word) -> Option<NonZeroU32> {
        let mut node = u32_at(self.0 + 40);
        for _ in 0..32 {
            match u8_at(node) {
                1 if node != 0 => return NonZeroU32::new(node + 1),
                2 => {
                    let variant = self.comp(u32::from(u8_at(node + 1))).variant(word);
                    if variant >= u32::from(u16_at(node + 2)) {
                        return None;
                    }
                    node = u32_at(node + 4 + 4 * variant);
                }
                3 => {
                    let (low, bits, high) = (u8_at(node + 1), u8_at(node + 2), u8_at(node + 3));
                    let part = |bit: u8, bits: u8| {
                        let half = if bit < 64 { word.lo } else { word.hi };
                        half >> (bit & 63) & ((1 << bits) - 1)
                    };
                    let value = part(low, bits & 15) | part(high, bits >> 4) << (bits & 15);
                    node = u32_at(node + 4 + 4 * value as u32);
                }
                _ => return None,
            }
        }
        None
    }
    #[inline]
    pub fn comp(self, i: u32) -> Comp {
        Comp(u32_at(self.0 + 44 + 4 * i))
    }
    /// All its components.
    pub fn comps(self) -> impl Iterator<Item = Comp> {
        (0..u32::from(u8_at(self.0 + 37))).map(move |i| self.comp(i))
    }
    /// The bits that are fixed.
    #[inline]
    pub fn fixed(self) -> Word {
        Word { lo: u64_at(self.0), hi: u64_at(self.0 + 8) }
    }
    /// The components that have illegal values.
    pub fn partial(self) -> Vec<u32> {
        let head = u64_at(self.0 + 32);
        let (comps, partial) = ((head >> 40 & 0xff) as u32, (head >> 48) as u32);
        (0..comps).filter(|i| *i >= 16 || partial >> i & 1 == 1).collect()
    }
    /// What [`uses`](Class::uses) looks at: adds components, and hands on fields that do not cross the halves.
    pub fn uses_inputs(self, comps: &mut Vec<u32>, mut field: impl FnMut(u8, u8)) {
        let mut nodes = vec![u32_at(self.0 + 40)];
        let mut at = 0;
        while let Some(&node) = nodes.get(at) {
            at += 1;
            let count = match u8_at(node) {
                2 if node != 0 => {
                    comps.push(u32::from(u8_at(node + 1)));
                    u32::from(u16_at(node + 2))
                }
                3 if node != 0 => {
                    let (low, bits, high) = (u8_at(node + 1), u8_at(node + 2), u8_at(node + 3));
                    field(low, bits & 15);
                    field(high, bits >> 4);
                    1 << ((bits & 15) + (bits >> 4)).min(16)
                }
                _ => continue,
            };
            for child in (0..count).map(|i| u32_at(node + 4 + 4 * i)) {
                if !nodes.contains(&child) {
                    nodes.push(child);
                }
            }
        }
    }
    /// Whether every component has a legal value in a word.
    #[inline]
    pub fn legal(self, word: Word) -> bool {
        let head = u64_at(self.0 + 32);
        let comps = (head >> 40 & 0xff) as u32;
        let mut partial = (head >> 48) as u32;
        while partial != 0 {
            let i = partial.trailing_zeros();
            if self.comp(i).variant(word) == ILLEGAL {
                return false;
            }
            partial &= partial - 1;
        }
        (16..comps).all(|i| self.comp(i).variant(word) != ILLEGAL)
    }
}

/// A test on the way to the class of a word.
pub(super) enum Node {
    Leaf(Class),
    /// Whether a bit is set: the bit, where to go if not, where if so.
    Bit(u8, u32, u32),
    /// Whether some bits are as given: which, what, where to go if not, where if so.
    Equal(Word, Word, u32, u32),
    /// No word comes here.
    End,
}

/// Where the tree of an opcode starts: page table, page.
#[inline]
pub(super) fn root(pages: u32, opcode: u32) -> u32 {
    u32_at(u32_at(pages + 4 * (opcode >> 6)) + 4 * (opcode & 63))
}

/// Reads a node: kind u8 (1 leaf, 2 bit, 3 equality). Leaf: 3 unused, class u32. Bit: bit u8, 2 unused, no u32, yes u32. Equality: 3
/// unused, no u32, yes u32, mask lo, hi, value lo, hi.
#[inline(always)]
pub(super) fn node(at: u32) -> Node {
    let head = u64_at(at);
    let high = (head >> 32) as u32;
    let pair = |at: u32| Word { lo: u64_at(at), hi: u64_at(at + 8) };
    match head & 0xff {
        1 => Node::Leaf(Class(high)),
        2 => Node::Bit((head >> 8) as u8, high, u32_at(at + 8)),
        3 => Node::Equal(pair(at + 12), pair(at + 28), high, u32_at(at + 8)),
        _ => Node::End,
    }
}

/// Finds the class of a word.
#[inline]
pub(super) fn find(pages: u32, word: Word) -> Option<Class> {
    let mut at = root(pages, (word.lo & 0xfff) as u32);
    for _ in 0..64 {
        let (is_so, no, yes) = match node(at) {
            Node::Leaf(class) => return Some(class),
            Node::Bit(bit, no, yes) => (field(word, u64::from(bit), 1) == 1, no, yes),
            Node::Equal(mask, value, no, yes) => (word.masked(mask) == value, no, yes),
            Node::End => return None,
        };
        at = if is_so { yes } else { no };
    }
    None
}

/// One step of a template, 8 bytes.
#[derive(Clone, Copy)]
pub(super) enum Op {
    /// Text as it is: its length and where it is.
    Literal(usize, u32),
    /// A number of many parts.
    Number(Slot),
    /// A number that is one field: what is printed before it (length, offset), kind, bit, width, number of URZ.
    Field(usize, u32, u8, u8, u8, u8),
    /// What a component says at one of its sites.
    Site(Comp, u32),
    /// A component of one field, all at one place: bit, width, steps by value.
    Choice(u8, u8, u32),
    /// Text that a single bit switches on: bit, length, where it is.
    Flag(u8, usize, u32),
    /// The guard, unless it is "always": the kind of its register.
    Guard(u8),
    /// More than one step.
    List(u32),
    /// The template is over, or the site says nothing.
    End,
}

/// Reads a step: `1, length, 0, 0, offset u32`; `2, 0, 0, 0, slot u32`; `3, site, 0, 0, component u32`; `4, kind and 16 times the
/// length of the text before it, bit, width, number of URZ, text (3 bytes)`; `5, 0, 0, 0, template u32`; `6, bit, length, 0, offset
/// u32`; `7, bit, width, 0, steps u32`; `8, kind, 0...`; all zero at the end.
#[inline(always)]
pub(super) fn op(at: u32) -> Op {
    let op = u64_at(at);
    let high = (op >> 32) as u32;
    let byte = |i: u32| (op >> (8 * i)) as u8;
    match byte(0) {
        4 => Op::Field(usize::from(byte(1) >> 4 & 3), at + 5, byte(1) & 15, byte(2), byte(3), byte(4)),
        1 => Op::Literal(usize::from(byte(1)), high),
        3 => Op::Site(Comp(high), u32::from(byte(1))),
        2 => Op::Number(Slot(high)),
        6 => Op::Flag(byte(1), usize::from(byte(2)), high),
        7 => Op::Choice(byte(1), byte(2), high),
        8 => Op::Guard(byte(1)),
        5 => Op::List(high),
        _ => Op::End,
    }
}

/// Bytes of the tables.
pub(super) fn size() -> usize {
    BLOB.len()
}
