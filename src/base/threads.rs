//! Threads of a block.

use std::fmt;
use std::str::FromStr;

use super::hardware::MAX_THREADS_PER_BLOCK;

/// Threads of a block, as a launch has them: `128`, `32x4`, `8x8x4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    extents: [u32; 3],
}

impl Threads {
    /// Along x, y and z.
    pub fn extents(self) -> [u32; 3] {
        self.extents
    }

    /// All of them.
    pub fn count(self) -> u32 {
        self.extents.iter().fold(1, |all, extent| all.saturating_mul(*extent))
    }
}

impl From<u32> for Threads {
    fn from(threads: u32) -> Threads {
        Threads { extents: [threads, 1, 1] }
    }
}

/// Not the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block has 1 to {MAX_THREADS_PER_BLOCK} threads: 256, or by axis 32x8")]
pub struct NoThreads;

impl FromStr for Threads {
    type Err = NoThreads;

    fn from_str(text: &str) -> Result<Threads, NoThreads> {
        let mut words = text.split(['x', 'X', '×', ',']);
        let mut extents = [1; 3];
        for extent in &mut extents {
            let Some(word) = words.next() else { break };
            *extent = word.trim().parse().map_err(|_| NoThreads)?;
        }
        let threads = Threads { extents };
        let is_one = words.next().is_none() && (1..=MAX_THREADS_PER_BLOCK).contains(&threads.count());
        is_one.then_some(threads).ok_or(NoThreads)
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extents {
            [x, 1, 1] => write!(out, "{x}"),
            [x, y, 1] => write!(out, "{x}x{y}"),
            [x, y, z] => write!(out, "{x}x{y}x{z}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_launch_has_them() {
        for (text, extents) in
            [("128", [128, 1, 1]), ("32x4", [32, 4, 1]), ("8,8,4", [8, 8, 4]), ("32 x 8", [32, 8, 1])]
        {
            assert_eq!(text.parse::<Threads>().map(Threads::extents), Ok(extents), "{text}");
        }
        for text in ["", "0", "x", "32x", "1025", "32x64", "2x2x2x2", "65536x65536", "-1"] {
            assert_eq!(text.parse::<Threads>(), Err(NoThreads), "{text}");
        }
        assert_eq!("32x4x1".parse::<Threads>().unwrap().to_string(), "32x4");
    }
}
