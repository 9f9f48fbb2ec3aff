//! The wheels that are known byte for byte.
//!
//! `digests.txt` has what the package index stated when this program was written (`scripts/record-digests`), so that whatever
//! delivers a wheel later, be it a mirror, a proxy or a cache, can only deliver the same one. Releases that came after are taken
//! on the index's word, and whoever asks is told so.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::wheel::Package;
use crate::toolchain::{ToolchainError, Version};

/// What stands for the content of an installed wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vouched {
    /// Its SHA-256 is known to this program.
    Pinned,
    /// The package index alone: the release is not known to this program.
    Index,
}

/// Digests by the names of wheels.
#[derive(Clone, Debug)]
pub(in crate::toolchain) struct Digests {
    /// `sha256  name`, one a line, as `sha256sum` writes it; `#` begins a comment.
    table: Cow<'static, str>,
}

impl Digests {
    /// Those of every release there was.
    pub(in crate::toolchain) fn pinned() -> Self {
        Digests { table: Cow::Borrowed(include_str!("digests.txt")) }
    }

    #[cfg(test)]
    pub(in crate::toolchain) fn of(table: String) -> Self {
        Digests { table: Cow::Owned(table) }
    }

    /// The digests of a release, for every platform; none where the release is not known.
    pub(super) fn release(&self, package: &str, version: Version) -> Vec<&str> {
        let start = format!("{}-{version}-", package.replace('-', "_"));
        let lines = self.table.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once("  "));
        pairs.filter(|(_, name)| name.starts_with(&start)).map(|(digest, _)| digest).collect()
    }

    /// Holds a wheel against the release that it says it is.
    pub(super) fn check(&self, package: &str, fetched: &Package, version: Version) -> Result<Vouched, ToolchainError> {
        let expected = self.release(package, version);
        if expected.is_empty() {
            return Ok(Vouched::Index);
        }
        let found = match fetched {
            Package::Tree { pinned: true, .. } => return Ok(Vouched::Pinned),
            Package::Tree { pinned: false, .. } => "uv was not asked for that release".to_owned(),
            Package::Wheel { sha256, .. } if expected.contains(&sha256.as_str()) => return Ok(Vouched::Pinned),
            Package::Wheel { sha256, .. } => format!("its SHA-256 is {sha256}"),
        };
        let expected = expected.into_iter().map(str::to_owned).collect();
        Err(ToolchainError::WrongDigest { wheel: fetched.name().to_owned(), found, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let digests = Digests::pinned();
        for line in digests.table.lines().filter(|line| !line.starts_with('#')) {
            let (digest, name) = line.split_once("  ").unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
            let (package, rest) = name.split_once('-').unwrap();
            let version: Version = rest.split('-').next().unwrap().parse().unwrap();
            let expected = crate::toolchain::managed::package_of(version.major).unwrap();
            assert_eq!(package.replace('_', "-"), expected, "{line}");
            assert!(digests.release(&expected, version).contains(&digest), "{line}");
        }
        let newest = digests.release("nvidia-cuda-nvcc", Version::new(13, 4, 92));
        assert!(newest.len() >= 3, "Linux on both machines, and Windows");
        assert_eq!(digests.release("nvidia-cuda-nvcc-cu11", Version::new(11, 7, 99)).len(), 2);
        assert!(digests.release("nvidia-cuda-nvcc", Version::new(99, 0, 1)).is_empty());
        assert!(digests.release("nvidia-cuda-nvcc", Version::new(13, 4, 9)).is_empty());
    }
}
