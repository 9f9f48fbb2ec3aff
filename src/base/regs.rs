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

/// A set of registers of all four files: 256 GPR, 128 UGPR, 8 PRED and 8 UPRED, as seven words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegSet {
    words: [u64; 7],
}

impl RegSet {
    /// The set of nothing.
    pub const EMPTY: RegSet = RegSet { words: [0; 7] };

    /// Bit position of a register; `None` for one that no file has.
    const fn bit(file: RegFile, index: u16) -> Option<usize> {
        let (base, size) = match file {
            RegFile::Gpr => (0, 256),
            RegFile::Ugpr => (256, 128),
            RegFile::Pred => (384, 8),
            RegFile::Upred => (392, 8),
        };
        if index < size { Some(base + index as usize) } else { None }
    }

    /// Adds a register; one that the file does not have is ignored.
    pub fn insert(&mut self, file: RegFile, index: u16) {
        if let Some(bit) = Self::bit(file, index) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Removes a register.
    pub fn remove(&mut self, file: RegFile, index: u16) {
        if let Some(bit) = Self::bit(file, index) {
            self.words[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// Whether the register is in the set.
    pub fn contains(&self, file: RegFile, index: u16) -> bool {
        Self::bit(file, index).is_some_and(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Adds all of `other`; says whether the set grew.
    pub fn union_with(&mut self, other: &RegSet) -> bool {
        let mut grew = 0;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            grew |= theirs & !*mine;
            *mine |= theirs;
        }
        grew != 0
    }

    /// Removes all of `other`.
    pub fn subtract(&mut self, other: &RegSet) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
    }

    /// How many registers of one file are in the set.
    pub fn count(&self, file: RegFile) -> u32 {
        let words = &self.words;
        match file {
            RegFile::Gpr => words[..4].iter().map(|w| w.count_ones()).sum(),
            RegFile::Ugpr => words[4].count_ones() + words[5].count_ones(),
            RegFile::Pred => (words[6] & 0xff).count_ones(),
            RegFile::Upred => (words[6] >> 8 & 0xff).count_ones(),
        }
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.words == [0; 7]
    }

    /// The registers of one file, ascending.
    pub fn iter(&self, file: RegFile) -> impl Iterator<Item = u16> + '_ {
        let size = if matches!(file, RegFile::Gpr | RegFile::Ugpr) { 256 } else { 8 };
        (0..size).filter(move |&index| self.contains(file, index))
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
}
