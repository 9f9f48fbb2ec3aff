//! What a register of a warp holds while it is executed: a number for each lane, and what that number rests on.

use super::LANES;

/// What a number rests on, the firmest first: whoever decides by it decides no better than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Constants, thread ids, addresses of variables.
    #[default]
    Fact,
    /// A parameter, the size or the place of the grid: tried at a handful of values.
    Input,
    /// Memory that the kernel does not write itself, or arithmetic that is not followed.
    Memory,
    /// The order in which threads came.
    Order,
}

/// A number and what it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The bits, as wide as the instruction that wrote them.
    pub bits: u64,
    /// What they rest on.
    pub basis: Basis,
}

impl Word {
    /// A number that nothing but the code decides.
    #[inline]
    pub const fn fact(bits: u64) -> Word {
        Word { bits, basis: Basis::Fact }
    }
}

/// A register of a warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All lanes hold the same.
    Same(Word),
    /// Each lane its own.
    Each(Box<Row>),
}

/// A number for each lane: the bits of all, then what they rest on, so that loops over lanes are loops over numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The bits.
    pub bits: [u64; LANES],
    /// What they rest on.
    pub basis: [Basis; LANES],
}

impl Row {
    /// What a lane holds.
    #[inline]
    pub fn word(&self, lane: usize) -> Word {
        match (self.bits.get(lane), self.basis.get(lane)) {
            (Some(bits), Some(basis)) => Word { bits: *bits, basis: *basis },
            _ => Word::default(),
        }
    }

    /// One number where all lanes agree.
    #[inline]
    pub fn folded(self) -> Lanes {
        let (mut differ, mut rests) = (0, false);
        for lane in 0..LANES {
            differ |= self.bits[lane] ^ self.bits[0];
            rests |= self.basis[lane] != self.basis[0];
        }
        if differ == 0 && !rests { Lanes::Same(self.word(0)) } else { Lanes::Each(Box::new(self)) }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes::Same(Word::default())
    }
}

impl Lanes {
    /// Each lane's own, the same for all where they agree.
    #[inline]
    pub fn each(of: impl Fn(usize) -> Word) -> Lanes {
        // A plain loop: calls that fill an array do not end up inside one another.
        let mut row = Row { bits: [0; LANES], basis: [Basis::Fact; LANES] };
        for lane in 0..LANES {
            let word = of(lane);
            (row.bits[lane], row.basis[lane]) = (word.bits, word.basis);
        }
        row.folded()
    }

    /// One lane's for all of them, or each lane's own.
    #[inline]
    pub fn of(same: bool, of: impl Fn(usize) -> Word) -> Lanes {
        if same { Lanes::Same(of(0)) } else { Lanes::each(of) }
    }

    /// Whether one number stands for all lanes.
    #[inline]
    pub fn is_same(&self) -> bool {
        matches!(self, Lanes::Same(_))
    }

    /// What a lane holds.
    #[inline]
    pub fn lane(&self, lane: usize) -> Word {
        match self {
            Lanes::Same(word) => *word,
            Lanes::Each(row) => row.word(lane),
        }
    }

    /// Replaces what some lanes hold.
    pub fn write(&mut self, mask: u32, value: Lanes) {
        if mask == u32::MAX {
            *self = value;
            return;
        }
        if mask == 0 || *self == value {
            return;
        }
        let merged = Lanes::each(|lane| if mask >> lane & 1 == 1 { value.lane(lane) } else { self.lane(lane) });
        *self = merged;
    }

    /// What all lanes of a mask hold, if it is one number.
    pub fn uniform(&self, mask: u32) -> Option<Word> {
        match self {
            Lanes::Same(word) => Some(*word),
            Lanes::Each(row) => {
                let mut lanes = (0..LANES).filter(|lane| mask >> lane & 1 == 1).map(|lane| row.word(lane));
                let first = lanes.next()?;
                let mut basis = first.basis;
                for word in lanes {
                    if word.bits != first.bits {
                        return None;
                    }
                    basis = basis.max(word.basis);
                }
                Some(Word { bits: first.bits, basis })
            }
        }
    }

    /// The weakest basis among the lanes of a mask.
    pub fn basis(&self, mask: u32) -> Basis {
        match self {
            Lanes::Same(word) => word.basis,
            Lanes::Each(row) => {
                let lanes = (0..LANES).filter(|lane| mask >> lane & 1 == 1);
                lanes.map(|lane| row.basis[lane]).max().unwrap_or_default()
            }
        }
    }
}

/// A number that stands for what is not followed: the same for the same arguments, whoever computes it.
pub fn opaque(seed: u64, arguments: impl IntoIterator<Item = u64>) -> u64 {
    // SplitMix64, folded.
    let mix = |state: u64| {
        let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    arguments.into_iter().fold(mix(seed), |state, argument| mix(state ^ argument))
}
