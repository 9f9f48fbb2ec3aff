//! What a run is asked for, as it was given: nothing is looked up yet.

use std::path::PathBuf;

use crate::base::Limits;
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
