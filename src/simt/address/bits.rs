//! Small sets of numbers, a bit each.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

const WORDS: usize = 4;

/// Numbers below `Bits::ROOM`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::simt) struct Bits([u128; WORDS]);

impl Bits {
    /// One more than the highest number.
    pub const ROOM: usize = WORDS * 128;
    pub const NONE: Bits = Bits([0; WORDS]);

    /// One number alone; nothing where there is no room for it.
    pub fn one(number: usize) -> Bits {
        let mut set = Bits::NONE;
        if let Some(word) = set.0.get_mut(number / 128) {
            *word = 1 << (number % 128);
        }
        set
    }

    /// Ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let place = word.trailing_zeros() as usize;
                word &= word.checked_sub(1)?;
                Some(at * 128 + place)
            })
        })
    }
}

impl BitOr for Bits {
    type Output = Bits;

    fn bitor(self, other: Bits) -> Bits {
        Bits(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }
}

impl BitAnd for Bits {
    type Output = Bits;

    fn bitand(self, other: Bits) -> Bits {
        Bits(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }
}

impl Not for Bits {
    type Output = Bits;

    fn not(self) -> Bits {
        Bits(self.0.map(|word| !word))
    }
}

impl BitOrAssign for Bits {
    fn bitor_assign(&mut self, other: Bits) {
        *self = *self | other;
    }
}

#[test]
fn sets_of_numbers() {
    let set = [3, 127, 128, 511, 512].into_iter().fold(Bits::NONE, |all, number| all | Bits::one(number));
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 127, 128, 511]);
    assert_eq!((set & !Bits::one(127)).iter().collect::<Vec<_>>(), [3, 128, 511]);
}
