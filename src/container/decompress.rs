//! Decompression of one entry, bounded by what it declares and by what is sane.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use super::error::Problem;

/// No single GPU program is larger; the largest seen has 160 MB.
pub(super) const MAX_ENTRY_BYTES: u64 = 2 << 30;
/// Below this, any ratio is harmless.
const SMALL: u64 = 64 << 20;
/// Above it, more than this many bytes for each stored one is a bomb: real cubins stay below 100.
const MAX_RATIO: u64 = 1024;
/// LZ4 cannot do better than this.
const LZ4_RATIO: u64 = 255;

/// How an entry is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compression {
    /// As it is.
    Stored,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame.
    Zstd,
    /// Deflated, by a zip.
    Deflate,
}

impl Compression {
    /// The name to show.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Stored => "stored",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Deflate => "deflate",
        }
    }
}

/// Refuses a declared size that nothing real has.
pub(super) fn check_size(stored: u64, declared: u64) -> Result<(), Problem> {
    let limit = SMALL.max(stored.saturating_mul(MAX_RATIO)).min(MAX_ENTRY_BYTES);
    if declared > limit { Err(Problem::Bomb { declared, stored, limit }) } else { Ok(()) }
}

/// What an entry that declares so much can come to.
pub(super) fn most_bytes(method: Compression, stored: u64, declared: u64) -> u64 {
    match method {
        _ if check_size(stored, declared).is_err() => 0,
        Compression::Lz4 => declared.min(stored.saturating_mul(LZ4_RATIO)),
        _ => declared,
    }
}

/// Decompresses an LZ4 block or a zstd frame to exactly `declared` bytes, the first ones of `buffer` afterwards.
pub(super) fn decompress(
    method: Compression,
    packed: &[u8],
    declared: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), Problem> {
    check_size(packed.len() as u64, declared)?;
    let size = usize::try_from(declared)
        .map_err(|_| Problem::Unsupported(format!("{declared} bytes do not fit in memory")))?;
    match method {
        Compression::Stored | Compression::Deflate => {
            buffer.clear();
            buffer.extend_from_slice(packed);
            Ok(())
        }
        Compression::Lz4 => {
            let most = (packed.len() as u64).saturating_mul(LZ4_RATIO);
            if declared > most {
                return Err(Problem::WrongSize { method: "LZ4", declared, found: format!("at most {most}") });
            }
            if buffer.len() < size {
                // Zeros that come from the system cost nothing until they are written over.
                drop(std::mem::take(buffer));
                *buffer = vec![0; size];
            }
            let space = buffer.get_mut(..size).unwrap_or_default();
            let found = lz4_flex::block::decompress_into(packed, space).map_err(|error| match error {
                lz4_flex::block::DecompressError::OutputTooSmall { .. } => {
                    Problem::WrongSize { method: "LZ4", declared, found: format!("more than {declared}") }
                }
                error => Problem::Damaged { method: "LZ4", detail: error.to_string() },
            })?;
            exact("LZ4", found, declared)
        }
        Compression::Zstd => zstd(packed, declared, size, buffer),
    }
}

fn zstd(packed: &[u8], declared: u64, size: usize, buffer: &mut Vec<u8>) -> Result<(), Problem> {
    thread_local! {
        /// Its tables are large: one for each thread, not for each entry.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let damaged = |error: std::io::Error| Problem::Damaged { method: "zstd", detail: error.to_string() };
    buffer.clear();
    // Space that is not written to costs no memory, so that a size that lies costs nothing.
    buffer.reserve(size);
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(damaged)?),
        };
        if decompressor.decompress_to_buffer(packed, buffer).is_ok_and(|found| found == size) {
            return Ok(());
        }
        // How far damaged data gets depends on the space there is, and that on what the buffer held before: once more, with just enough.
        drop(std::mem::take(buffer));
        *buffer = vec![0; size];
        let found =
            decompressor.decompress_to_buffer(packed, &mut buffer[..]).map_err(|error| match error.to_string() {
                // ZSTD_error_dstSize_tooSmall
                text if text.contains("Destination buffer is too small") => {
                    Problem::WrongSize { method: "zstd", declared, found: format!("more than {declared}") }
                }
                _ => damaged(error),
            })?;
        exact("zstd", found, declared)
    })
}

fn exact(method: &'static str, found: usize, declared: u64) -> Result<(), Problem> {
    match found as u64 {
        found if found == declared => Ok(()),
        found if found > declared => {
            Err(Problem::WrongSize { method, declared, found: format!("more than {declared}") })
        }
        found => Err(Problem::WrongSize { method, declared, found: found.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads use buffers again: which one an entry gets is a matter of time.
    #[test]
    fn what_damaged_data_says_does_not_depend_on_the_buffer() {
        let text: Vec<u8> = (0..40_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 8).to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&text, 1).expect("zstd");
        for cut in [0, 1, 5, 1000] {
            let packed = &packed[..packed.len() - cut];
            for declared in [100, 5000, 159_999, 160_000, 170_000] {
                let with = |mut buffer: Vec<u8>| {
                    let done = decompress(Compression::Zstd, packed, declared, &mut buffer);
                    done.map(|()| buffer.len()).map_err(|problem| problem.to_string())
                };
                let new = with(Vec::new());
                assert_eq!(new, with(Vec::with_capacity(1 << 20)), "{declared} of {cut} bytes less");
                assert_eq!(new, with(vec![7; 1 << 18]), "{declared} of {cut} bytes less");
                assert_eq!(new.is_ok(), cut == 0 && declared == 160_000, "{declared} of {cut} bytes less: {new:?}");
            }
        }
    }
}
