//! What is left of an input's limits while it is taken apart.

use super::error::{Limit, Problem};
use crate::base::Limits;

/// What a member that is unpacked counts for at least: small ones cost a page each as well.
const LEAST_BYTES: u64 = 4096;

/// Counts down.
pub(super) struct Left {
    limits: Limits,
    entries: u64,
    entries_over: bool,
    bytes: u64,
    bytes_over: bool,
    /// What the file that is taken apart may unpack to.
    allowed: u64,
}

impl Left {
    /// All of it. `bytes`: what the file, or the part of one, may unpack to.
    pub fn new(limits: Limits, bytes: u64) -> Left {
        Left { limits, entries: limits.entries, entries_over: false, bytes, bytes_over: false, allowed: bytes }
    }

    /// A file of the system starts, which may unpack to something of its own.
    pub fn start_file(&mut self, file_bytes: u64) {
        self.allowed = self.limits.unpacked(file_bytes);
        (self.bytes, self.bytes_over) = (self.allowed, false);
    }

    /// One more thing to look at.
    pub fn take_entry(&mut self) -> Result<(), Problem> {
        match self.entries.checked_sub(1) {
            Some(rest) => {
                self.entries = rest;
                Ok(())
            }
            None => {
                self.entries_over = true;
                Err(Problem::too_many_entries(&self.limits))
            }
        }
    }

    /// Something that unpacks to so much.
    pub fn take_bytes(&mut self, bytes: u64) -> Result<(), Problem> {
        let counted = if bytes == 0 { 0 } else { bytes.max(LEAST_BYTES) };
        match self.bytes.checked_sub(counted) {
            Some(rest) => {
                self.bytes = rest;
                Ok(())
            }
            None => {
                self.bytes_over = true;
                let what = format!("what is inside unpacks to more than {} bytes", self.allowed);
                Err(Problem::TooMuch { limit: Limit::Bytes, what })
            }
        }
    }

    /// What folders and containers inside each other are told.
    pub fn too_deep(&self) -> Problem {
        let what = format!("folders and containers are inside each other more than {} deep", self.limits.depth);
        Problem::TooMuch { limit: Limit::Depth, what }
    }

    /// Bytes that may still come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn entries_are_over(&self) -> bool {
        self.entries_over
    }

    pub fn bytes_are_over(&self) -> bool {
        self.bytes_over
    }

    pub fn is_over(&self) -> bool {
        self.entries_over || self.bytes_over
    }
}
