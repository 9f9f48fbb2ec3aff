//! Register files and sets of registers.

use std::ops::{Index, IndexMut};

/// The register files that liveness tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegFile {
    /// R0…R254, 32 bits for each thread. R255 is RZ and is never tracked.
    Gpr,
    /// P0…P6. P7 is PT.
    Pred,
    /// UR0…, one for each warp. UR63 is URZ up to sm_90, UR255 from sm_100 on.
    Ugpr,
    /// UP0…UP6. UP7 is UPT.
    Upred,
}

impl RegFile {
    /// All files, in the order the columns of nvdisasm's listing have.
    pub const ALL: [RegFile; 4] = [RegFile::Gpr, RegFile::Pred, RegFile::Ugpr, RegFile::Upred];
}

/// One value for each register file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PerRegFile<T>(pub [T; 4]);

impl<T> Index<RegFile> for PerRegFile<T> {
    type Output = T;
    fn index(&self, file: RegFile) -> &T {
        &self.0[file as usize]
    }
}

impl<T> IndexMut<RegFile> for PerRegFile<T> {
    fn index_mut(&mut self, file: RegFile) -> &mut T {
        &mut self.0[file as usize]
    }
}

/// A set of registers of all four files: 256 GPR, 128 UGPR, 8 PRED and 8 UPRED, as seven words and one that is empty, so that
/// no number of a word needs to be checked.
///
/// Every pass over code works on these sets, millions of times: their loops are plain ones over the words, which are unrolled where they
/// stand. An adapter of an iterator is a function of its own, which may stay one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegSet {
    words: [u64; WORDS],
}

/// Words of a set.
const WORDS: usize = 8;

impl Default for RegSet {
    #[inline]
    fn default() -> Self {
        RegSet::EMPTY
    }
}

// Clippy would have an adapter for each loop.
#[allow(clippy::needless_range_loop)]
impl RegSet {
    /// The set of nothing.
    pub const EMPTY: RegSet = RegSet { words: [0; WORDS] };

    /// Bit position of a register; `None` for one that no file has.
    #[inline]
    pub(crate) const fn bit(file: RegFile, index: u16) -> Option<usize> {
        let (base, size) = Self::span(file);
        if (index as usize) < size { Some(base + index as usize) } else { None }
    }

    /// First bit and number of bits of a file.
    #[inline]
    pub(crate) const fn span(file: RegFile) -> (usize, usize) {
        match file {
            RegFile::Gpr => (0, 256),
            RegFile::Ugpr => (256, 128),
            RegFile::Pred => (384, 8),
            RegFile::Upred => (392, 8),
        }
    }

    /// The file that a bit is of.
    #[inline]
    pub(crate) const fn file_at(bit: usize) -> RegFile {
        match bit {
            0..256 => RegFile::Gpr,
            256..384 => RegFile::Ugpr,
            384..392 => RegFile::Pred,
            _ => RegFile::Upred,
        }
    }

    /// Adds a register; one that the file does not have is ignored.
    #[inline]
    pub fn insert(&mut self, file: RegFile, index: u16) {
        if let Some(bit) = Self::bit(file, index) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Adds `count` registers from `first` on; those that the file does not have are ignored.
    #[inline]
    pub fn insert_run(&mut self, file: RegFile, first: u16, count: u16) {
        if count == 1 {
            return self.insert(file, first);
        }
        let (base, size) = Self::span(file);
        let from = usize::from(first).min(size);
        let to = (usize::from(first) + usize::from(count)).min(size);
        let (from, to) = (base + from, base + to);
        if from >= to {
            return;
        }
        let (low, high) = (from / 64, (to - 1) / 64);
        let mask_from = u64::MAX << (from % 64);
        let mask_to = u64::MAX >> (63 - (to - 1) % 64);
        if low == high {
            self.words[low] |= mask_from & mask_to;
        } else {
            self.words[low] |= mask_from;
            for word in &mut self.words[low + 1..high] {
                *word = u64::MAX;
            }
            self.words[high] |= mask_to;
        }
    }

    /// How many words a set has.
    pub(crate) const WORDS: usize = WORDS;

    /// The word with the predicates: those of a thread, then those of a warp.
    pub(crate) const PREDICATES: usize = 6;

    /// One of its words.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words[at % WORDS]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn word_mut(&mut self, at: usize) -> &mut u64 {
        &mut self.words[at % WORDS]
    }

    /// How many registers of which files a word has of its bits: of the predicates' word there are two.
    #[inline(always)]
    pub(crate) fn count_in_word(at: usize, word: u64) -> [(RegFile, u16); 2] {
        let count = |bits: u64| bits.count_ones() as u16;
        match at {
            0..4 => [(RegFile::Gpr, count(word)), (RegFile::Ugpr, 0)],
            4 | 5 => [(RegFile::Gpr, 0), (RegFile::Ugpr, count(word))],
            _ => [(RegFile::Pred, count(word & 0xff)), (RegFile::Upred, count(word >> 8 & 0xff))],
        }
    }

    /// Removes a register.
    #[inline]
    pub fn remove(&mut self, file: RegFile, index: u16) {
        if let Some(bit) = Self::bit(file, index) {
            self.words[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// Whether the register is in the set.
    #[inline]
    pub fn contains(&self, file: RegFile, index: u16) -> bool {
        Self::bit(file, index).is_some_and(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Adds all of `other`; says whether the set grew.
    #[inline]
    pub fn union_with(&mut self, other: &RegSet) -> bool {
        let mut grew = 0;
        for at in 0..WORDS {
            grew |= other.words[at] & !self.words[at];
            self.words[at] |= other.words[at];
        }
        grew != 0
    }

    /// Removes all of `other`.
    #[inline]
    pub fn subtract(&mut self, other: &RegSet) {
        for at in 0..WORDS {
            self.words[at] &= !other.words[at];
        }
    }

    #[inline]
    fn with(&self, other: &RegSet, op: impl Fn(u64, u64) -> u64) -> RegSet {
        let mut words = self.words;
        for at in 0..WORDS {
            words[at] = op(words[at], other.words[at]);
        }
        RegSet { words }
    }

    /// What both sets have.
    #[inline]
    pub fn intersection(&self, other: &RegSet) -> RegSet {
        self.with(other, |mine, theirs| mine & theirs)
    }

    /// What `self` has and `other` has not.
    #[inline]
    pub fn difference(&self, other: &RegSet) -> RegSet {
        self.with(other, |mine, theirs| mine & !theirs)
    }

    /// What either set has.
    #[inline]
    pub fn union(&self, other: &RegSet) -> RegSet {
        self.with(other, |mine, theirs| mine | theirs)
    }

    /// Whether the two sets share a register.
    #[inline]
    pub fn intersects(&self, other: &RegSet) -> bool {
        let mut all = 0;
        for at in 0..WORDS {
            all |= self.words[at] & other.words[at];
        }
        all != 0
    }

    /// Every register there is, the always-zero and always-true ones aside.
    #[inline]
    pub const fn all() -> RegSet {
        RegSet { words: [u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 1, u64::MAX, u64::MAX, 0x7f7f, 0] }
    }

    /// The eight bits of [`RegFile::Pred`] or [`RegFile::Upred`]; 0 for the other files.
    #[inline]
    pub fn predicates(&self, file: RegFile) -> u8 {
        match file {
            RegFile::Pred => self.words[6] as u8,
            RegFile::Upred => (self.words[6] >> 8) as u8,
            RegFile::Gpr | RegFile::Ugpr => 0,
        }
    }

    /// How many registers of one file are in the set.
    #[inline]
    pub fn count(&self, file: RegFile) -> u32 {
        let words = &self.words;
        match file {
            RegFile::Gpr => {
                words[0].count_ones() + words[1].count_ones() + words[2].count_ones() + words[3].count_ones()
            }
            RegFile::Ugpr => words[4].count_ones() + words[5].count_ones(),
            RegFile::Pred => (words[6] & 0xff).count_ones(),
            RegFile::Upred => (words[6] >> 8 & 0xff).count_ones(),
        }
    }

    /// Whether nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let mut all = 0;
        for at in 0..WORDS {
            all |= self.words[at];
        }
        all == 0
    }

    /// The registers of one file, ascending.
    #[inline]
    pub fn iter(&self, file: RegFile) -> impl Iterator<Item = u16> + '_ {
        let (base, size) = Self::span(file);
        let mut at = base;
        std::iter::from_fn(move || {
            while at < base + size {
                let rest = self.words[at / 64] >> (at % 64);
                if rest == 0 {
                    at = (at / 64 + 1) * 64;
                    continue;
                }
                at += rest.trailing_zeros() as usize;
                if at >= base + size {
                    return None;
                }
                at += 1;
                return u16::try_from(at - 1 - base).ok();
            }
            None
        })
    }

    /// The registers of all files, file by file, ascending.
    #[inline]
    pub fn iter_all(&self) -> impl Iterator<Item = (RegFile, u16)> + '_ {
        RegFile::ALL.into_iter().flat_map(|file| self.iter(file).map(move |index| (file, index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_do_not_overlap() {
        let mut set = RegSet::EMPTY;
        for file in RegFile::ALL {
            set.insert(file, 3);
        }
        set.insert(RegFile::Pred, 9);
        for file in RegFile::ALL {
            assert_eq!(set.iter(file).collect::<Vec<_>>(), [3]);
            assert_eq!(set.count(file), 1);
        }
        let mut other = RegSet::EMPTY;
        other.insert(RegFile::Gpr, 254);
        assert!(set.union_with(&other));
        assert!(!set.union_with(&other));
        set.subtract(&other);
        assert_eq!(set.count(RegFile::Gpr), 1);
    }

    #[test]
    fn runs_equal_single_insertions() {
        for file in RegFile::ALL {
            for first in [0, 1, 5, 7, 8, 62, 63, 64, 100, 127, 128, 200, 255, 256, 999] {
                for count in [0, 1, 2, 4, 8, 63, 64, 65, 128, 256, 1000] {
                    let (mut run, mut single) = (RegSet::EMPTY, RegSet::EMPTY);
                    run.insert_run(file, first, count);
                    (first..first + count).for_each(|index| single.insert(file, index));
                    assert_eq!(run, single, "{file:?} {first} {count}");
                    let listed: Vec<u16> = run.iter(file).collect();
                    let asked: Vec<u16> = (0..256).filter(|&i| run.contains(file, i)).collect();
                    assert_eq!(listed, asked);
                    assert_eq!(run.iter_all().count(), listed.len());
                }
            }
        }
    }
}
