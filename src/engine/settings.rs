//! What a run is asked for, as it was given: nothing is looked up yet.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::base::{Limits, Line};
use crate::container::Options;

/// What to compile or read, and how.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// PTX, cubins, and what holds them; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Architectures to compile PTX for, and to choose from a library; none means the PTX's `.target`, and all of a library.
    pub arch: Vec<String>,
    /// The ptxas to run: a path or a version; none means the one at hand.
    pub ptxas: Option<String>,
    /// Patterns for names of kernels (`*` and `?`); none means all.
    pub kernel: Vec<String>,
    /// How many compilations at once; none means one a core.
    pub jobs: Option<usize>,
    /// Which parts of containers.
    pub within: Within,
    /// How much an input may cost.
    pub limits: Limits,
    /// Flags handed to ptxas as they are.
    pub flags: Vec<String>,
    /// Whether nothing may be fetched.
    pub offline: bool,
}

/// Which parts of a container.
#[derive(Clone, Debug, Default)]
pub struct Within {
    /// Patterns for container paths, or the ends of them; none means all.
    pub entry: Vec<String>,
    /// Whether the PTX inside is compiled.
    pub compile: bool,
    /// Whether host files are searched outside their fatbin sections, too.
    pub scan: bool,
    /// Whether the links in folders are followed.
    pub follow_links: bool,
}

impl Within {
    /// How containers are looked into.
    pub fn options(&self, limits: Limits) -> Options {
        Options { limits, follow_links: self.follow_links, scan: self.scan }
    }
}

/// `A..B`, `A..`, `..B` or `A`, both ends included; `A-B` and `A:B` as other programs have them.
pub fn lines(range: &str) -> Result<(Line, Line)> {
    let number = |text: &str, default: u32| match text {
        "" => Some(default),
        text => text.parse().ok(),
    };
    let (from, to) = range.split_once("..").or_else(|| range.split_once(['-', ':'])).unwrap_or((range, range));
    match (number(from, 1), number(to, u32::MAX)) {
        (Some(from), Some(to)) if from <= to && !range.is_empty() => Ok((Line(from), Line(to))),
        _ => bail!("--lines {range} is no range of lines: expected A..B, such as 100..140, with A at most B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_lines() {
        assert_eq!(lines("3..7").unwrap(), (Line(3), Line(7)));
        assert_eq!(lines("3..").unwrap(), (Line(3), Line(u32::MAX)));
        assert_eq!(lines("..7").unwrap(), (Line(1), Line(7)));
        assert_eq!(lines("9").unwrap(), (Line(9), Line(9)));
        assert_eq!(lines("3-7").unwrap(), (Line(3), Line(7)));
        assert_eq!(lines("3:7").unwrap(), (Line(3), Line(7)));
        assert!(lines("7..3").is_err());
        assert!(lines("a..b").is_err());
        assert!(lines("").is_err());
    }
}
