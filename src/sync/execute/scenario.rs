//! What inputs are taken to be while a kernel is executed: its parameters, and what memory brings.

use std::fmt;

use crate::sync::value::opaque;

/// What parameters are taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// All of them this number.
    All(u64),
    /// Each one of several usual numbers, by lot.
    Mixed(u64),
    /// Small counts, and pointers of which some are null, by lot.
    Small(u64),
    /// The same, and sizes of several tiles among the counts, as the width of a window.
    Wide(u64),
}

impl Input {
    /// Counts of tiles below this are few.
    const FEW: u64 = 16;
    const USUAL: [u64; 8] = [1, 2, 4, 16, 64, 128, 256, 1024];
    const COUNTS: [u64; 4] = [1, 2, 3, 5];
    const WIDTHS: [u64; 4] = [1, 2, 640, 1280];

    /// Clusters of the grid along x: of few tiles one cluster gets all, so that a loop over them turns as often as a ring of
    /// accumulators takes to come round.
    pub(super) fn clusters(self) -> u32 {
        match self {
            Input::All(tiles) if tiles < Input::FEW => 1,
            _ => 3,
        }
    }

    /// The parameter at an address.
    pub(super) fn at(self, address: u64, bits: u32) -> u64 {
        match self {
            Input::All(number) => number,
            Input::Small(seed) | Input::Wide(seed) => {
                let lot = opaque(seed, [address]) >> 32;
                match bits {
                    // What is as wide as a pointer may be none.
                    64 if lot.is_multiple_of(3) => 0,
                    64 => lot % 1024 * 4096,
                    _ if matches!(self, Input::Wide(_)) => Input::WIDTHS[lot as usize % Input::WIDTHS.len()],
                    _ => Input::COUNTS[lot as usize % Input::COUNTS.len()],
                }
            }
            Input::Mixed(seed) => {
                let lot = opaque(seed, [address]) >> 32;
                Input::USUAL[lot as usize % Input::USUAL.len()]
            }
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::All(number) => write!(f, "every parameter {number}"),
            Input::Mixed(seed) => write!(f, "parameters by lot ({seed})"),
            Input::Small(seed) => write!(f, "small parameters and null pointers by lot ({seed})"),
            Input::Wide(seed) => write!(f, "counts, sizes and null pointers by lot ({seed})"),
        }
    }
}

/// What inputs are taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Parameters.
    pub input: Input,
    /// Everything that memory, or arithmetic that is not followed, brings.
    pub memory: Brought,
}

/// What memory is taken to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// This number, wherever it comes from.
    All(u64),
    /// Numbers that grow with their address: the offsets of problems that lie one behind the other, or their lengths, none of them empty.
    Growing {
        /// From one word to the next: how long each of them is.
        by: u64,
    },
}

impl Brought {
    /// The word at an address.
    pub(super) fn at(self, address: u64) -> u64 {
        match self {
            Brought::All(number) => number,
            Brought::Growing { by } => (address / 4 % 8 + 1) * by,
        }
    }

    /// Whether it is the sizes of problems.
    pub fn grows(self) -> bool {
        matches!(self, Brought::Growing { .. })
    }

    /// What has no address.
    pub fn elsewhere(self) -> u64 {
        match self {
            Brought::All(number) => number,
            Brought::Growing { .. } => 0,
        }
    }
}

impl fmt::Display for Brought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Brought::All(number) => write!(f, "{number}"),
            Brought::Growing { by: 1 } => f.write_str("numbers that grow with their address"),
            Brought::Growing { by } => write!(f, "numbers that grow with their address, by {by} from word to word"),
        }
    }
}
