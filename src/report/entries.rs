//! What GPU code is inside something, entry by entry.

use std::collections::BTreeMap;

use serde::Serialize;

/// What is shown of an entry.
#[derive(Debug, Serialize)]
pub struct EntryRow {
    /// Its container path.
    pub path: String,
    /// The file it is in.
    pub file: String,
    /// What it is.
    pub kind: String,
    /// Its architecture.
    pub arch: Option<String>,
    /// Where it lies.
    pub place: &'static str,
    /// How it is packed.
    pub compression: &'static str,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Bytes when unpacked.
    pub bytes: u64,
    /// Names of kernels; null when nothing was decompressed or it is neither a cubin nor PTX.
    pub kernels: Option<Vec<String>>,
    /// Of a cubin: functions that are not kernels.
    pub device_functions: Option<u64>,
    /// Of a cubin: whether it is still to be linked.
    pub relocatable: Option<bool>,
    /// Which tool wrote it.
    pub made_by: Option<MadeBy>,
    /// What its maker calls it.
    pub identifier: Option<String>,
    /// Options for ptxas that the entry records.
    pub options: Option<String>,
    /// The PTX ISA, or the version of the cubin format.
    pub version: Option<String>,
    /// Whether it is a debug build.
    pub debug: bool,
    /// Whether it is scrambled.
    pub obfuscated: bool,
    /// What a compiler's cache says of it.
    pub jit: Option<Jit>,
    /// Why it could not be read.
    pub error: Option<String>,
}

/// Which tool wrote a cubin.
#[derive(Debug, Serialize)]
pub struct MadeBy {
    /// Its name.
    pub tool: String,
    /// Its version.
    pub version: Option<String>,
    /// Its options.
    pub options: Option<String>,
}

/// What a compiler's cache says.
#[derive(Debug, Serialize)]
pub struct Jit {
    /// The kernel.
    pub kernel: Option<String>,
    /// The file beside it that belongs to it.
    pub companion: Option<String>,
    /// Its options.
    pub options: serde_json::Map<String, serde_json::Value>,
}

/// Sums over all entries.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// Entries.
    pub entries: u64,
    /// Entries that could not be read.
    pub errors: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Bytes when unpacked.
    pub bytes: u64,
    /// Kernels.
    pub kernels: u64,
    /// By kind and architecture.
    pub by_kind: BTreeMap<String, Sum>,
}

/// A sum over entries.
#[derive(Debug, Default, Serialize)]
pub struct Sum {
    /// Entries.
    pub entries: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Bytes when unpacked.
    pub bytes: u64,
    /// Kernels.
    pub kernels: u64,
}

impl Totals {
    /// Counts an entry; none stands for one that could not be found out about.
    pub fn count(&mut self, row: Option<&EntryRow>) {
        let Some(row) = row else {
            self.errors += 1;
            return;
        };
        self.errors += u64::from(row.error.is_some());
        let kernels = row.kernels.as_ref().map_or(0, Vec::len) as u64;
        let key = format!("{} {}", row.kind, row.arch.as_deref().unwrap_or("?"));
        let sum = self.by_kind.entry(key).or_default();
        for (total, add) in [
            (&mut self.entries, 1),
            (&mut self.stored_bytes, row.stored_bytes),
            (&mut self.bytes, row.bytes),
            (&mut self.kernels, kernels),
            (&mut sum.entries, 1),
            (&mut sum.stored_bytes, row.stored_bytes),
            (&mut sum.bytes, row.bytes),
            (&mut sum.kernels, kernels),
        ] {
            *total = total.saturating_add(add);
        }
    }
}
