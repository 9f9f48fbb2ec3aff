//! What one input may cost.

use std::time::Duration;

/// The most that is done for one input named on the command line. Made once, from the flags. The defaults are meant to be
/// far above what libraries need, and low enough that an input of a megabyte takes seconds and not more than a gigabyte of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files, folders, members and entries that are looked at. Each that is listed takes memory.
    pub entries: u64,
    /// Folders and containers inside each other. A container may hold itself.
    pub depth: u32,
    /// Bytes that a file may unpack to, all that it holds together, and bytes that may be read into memory whole; none for
    /// [`Limits::UNPACKED`] and [`Limits::UNPACKED_FOR_EACH`], and for [`Limits::WHOLE`].
    pub bytes: Option<u64>,
    /// How long an input may take, ptxas included: as long as ptxas may take for the largest kernels.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { entries: 1_000_000, depth: 64, bytes: None, time: Duration::from_secs(3600) }
    }
}

impl Limits {
    /// What any file may unpack to: small ones may hold tables that are mostly zeros.
    pub const UNPACKED: u64 = 64 << 20;
    /// What it may unpack to beyond that, for each of its bytes: a deflated wheel holds fatbins that are compressed again.
    pub const UNPACKED_FOR_EACH: u64 = 64;
    /// PTX, cubins and streams that are read whole: the largest cubin seen has 160 MB.
    pub const WHOLE: u64 = 512 << 20;

    /// How much a file of so many bytes may unpack to.
    pub fn unpacked(&self, file_bytes: u64) -> u64 {
        let usual = Limits::UNPACKED.saturating_add(file_bytes.saturating_mul(Limits::UNPACKED_FOR_EACH));
        self.bytes.unwrap_or(usual)
    }

    /// How much may be read into memory at once.
    pub fn whole(&self) -> u64 {
        self.bytes.unwrap_or(Limits::WHOLE)
    }
}
