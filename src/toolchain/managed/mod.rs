//! ptxas versions that this program installs for itself.
//!
//! In: a version that somebody asks for. Out: a folder `toolchains/13.4.92/` with `bin/ptxas` and a `toolchain.json` that
//! says what it is. The wheel comes through the user's own pip or uv, so that their index, proxy and certificate settings
//! hold, but in an empty folder, so that no file of a checkout does; nothing is ever written outside the folder of toolchains, and a toolchain appears in it whole or not at all.

mod digests;
mod fetch;
mod store;
mod wheel;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Version;

pub(super) use digests::Digests;
pub use digests::Vouched;
pub use store::Store;

/// What an installation is doing, for whoever shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process holds the lock of the folder and is most likely fetching the same thing.
    Waiting {
        /// The folder of toolchains.
        folder: PathBuf,
    },
    /// pip or uv has been started.
    Resolving {
        /// `nvidia-cuda-nvcc==13.4.*`
        requirement: String,
        /// `python3 -m pip`
        installer: String,
    },
    /// Bytes arrive.
    Downloading {
        /// How many so far.
        bytes: u64,
        /// How many there will be, where pip has said so.
        total: Option<u64>,
    },
    /// The wheel is there and its hashes are being checked while it is unpacked.
    Unpacking {
        /// The wheel's file name.
        wheel: String,
    },
    /// The new ptxas is asked for its version.
    Checking,
    /// Done.
    Installed {
        /// What it is.
        version: Version,
        /// What stands for its content.
        vouched: Vouched,
    },
}

/// A managed toolchain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// Its exact version.
    pub version: Version,
    /// Where ptxas is.
    pub path: PathBuf,
    /// The Python package it came in.
    pub package: String,
    /// The wheel's file name; with uv, which shows no wheel, the name of its `.dist-info`.
    pub wheel: String,
    /// The SHA-256 of ptxas, in hexadecimal.
    pub sha256: String,
    /// What stood for the wheel's content; null where it was installed before that was recorded.
    pub vouched: Option<Vouched>,
}

/// What [`Store::install`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// The toolchain.
    pub toolchain: Installed,
    /// Whether it was fetched just now; otherwise it was there already.
    pub fresh: bool,
}

/// `toolchain.json` in a toolchain's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    version: Version,
    package: String,
    wheel: String,
    #[serde(default)]
    vouched: Option<Vouched>,
    files: Vec<ManifestFile>,
}

/// A file of a toolchain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ManifestFile {
    path: String,
    bytes: u64,
    sha256: String,
}

const MANIFEST: &str = "toolchain.json";
const MANIFEST_SCHEMA: &str = "ptxinspect.toolchain/1";

/// The package that holds a generation's ptxas: 13 and later, or `-cu12`, `-cu11`.
fn package_of(major: u16) -> Option<String> {
    match major {
        0..11 => None,
        11 | 12 => Some(format!("nvidia-cuda-nvcc-cu{major}")),
        13.. => Some("nvidia-cuda-nvcc".to_owned()),
    }
}

#[cfg(all(test, unix))]
mod tests;
