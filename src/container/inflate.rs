//! Random access to a deflated zip member in bounded memory.
//!
//! Deflate can only be read from its start. While a [`Cursor`] moves forward it leaves checkpoints (the decompressor's state
//! and its 32 KiB window); a later read continues from the nearest one. Members that fit are inflated once and kept.

use std::sync::{Arc, Mutex, PoisonError};

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::error::Problem;
use super::source::Source;

/// Deflate's window, which is also the size of a cursor's ring.
const WINDOW: usize = 1 << 15;
/// Checkpoints are at least this far apart.
const STRIDE: u64 = 4 << 20;
/// A member has at most about this many checkpoints, 43 KB each.
const CHECKPOINTS: u64 = 256;
/// Cursors kept for the next read.
const IDLE: usize = 8;

/// A deflated range and the size it has when inflated.
#[derive(Debug)]
pub(super) struct Inflated {
    packed: Source,
    len: u64,
    stride: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In order of `out`.
    checkpoints: Vec<Arc<Cursor>>,
    idle: Vec<Cursor>,
}

/// A decompressor somewhere in the stream.
#[derive(Clone)]
struct Cursor {
    decompressor: Box<DecompressorOxide>,
    ring: Box<[u8; WINDOW]>,
    /// Bytes consumed.
    read: u64,
    /// Bytes produced.
    out: u64,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("read", &self.read).field("out", &self.out).finish_non_exhaustive()
    }
}

impl Cursor {
    /// What the ring still holds of a range.
    fn copy_back(&self, offset: u64, end: u64, bytes: &mut Vec<u8>) {
        let first = offset.max(self.out.saturating_sub(WINDOW as u64));
        for at in first..end.min(self.out) {
            bytes.push(self.ring[(at % WINDOW as u64) as usize]);
        }
    }
}

impl Inflated {
    /// The content of `packed`, `len` bytes when inflated.
    pub fn new(packed: Source, len: u64) -> Self {
        Self::with_stride(packed, len, STRIDE.max(len / CHECKPOINTS))
    }

    /// The same with checkpoints at least `stride` apart.
    pub(super) fn with_stride(packed: Source, len: u64, stride: u64) -> Self {
        Inflated { packed, len, stride, state: Mutex::default() }
    }

    /// How many bytes there are when inflated, as declared.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Inflates a range. The caller has checked that it lies inside the declared size.
    pub fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Problem> {
        let end = offset.saturating_add(len);
        let mut cursor = self.cursor_at(offset);
        // Grows with what comes out, so that a size that lies costs nothing.
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0).min(1 << 20));
        cursor.copy_back(offset, end, &mut bytes);
        while cursor.out < end {
            let at = cursor.out;
            let fresh = self.advance(&mut cursor)?;
            let skip = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(fresh.len());
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(fresh.len());
            bytes.extend_from_slice(fresh.get(skip..wanted).unwrap_or(&[]));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.idle.len() >= IDLE {
            state.idle.remove(0);
        }
        state.idle.push(cursor);
        Ok(bytes)
    }

    /// The cursor that reaches `offset` with the least work. Its ring still holds the last 32 KiB it produced, so it may be a
    /// little past.
    fn cursor_at(&self, offset: u64) -> Cursor {
        let reach = offset.saturating_add(WINDOW as u64);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let after = state.checkpoints.partition_point(|checkpoint| checkpoint.out <= reach);
        let checkpoint = after.checked_sub(1).and_then(|at| state.checkpoints.get(at)).cloned();
        let idle = (0..state.idle.len()).filter(|&at| state.idle[at].out <= reach).max_by_key(|&at| state.idle[at].out);
        match (idle, checkpoint) {
            (Some(at), checkpoint) if checkpoint.as_ref().is_none_or(|c| c.out <= state.idle[at].out) => {
                state.idle.swap_remove(at)
            }
            (_, Some(checkpoint)) => {
                drop(state);
                Cursor::clone(&checkpoint)
            }
            _ => Cursor { decompressor: Box::default(), ring: Box::new([0; WINDOW]), read: 0, out: 0 },
        }
    }

    /// Produces at least one byte; what came out lies in the ring.
    fn advance<'c>(&self, cursor: &'c mut Cursor) -> Result<&'c [u8], Problem> {
        let damaged = |detail: String| Problem::Damaged { method: "deflate", detail };
        loop {
            // Steps end where the ring does, so that a step's bytes are contiguous.
            let from = (cursor.out % WINDOW as u64) as usize;
            let input = self.packed.peek(cursor.read, 1 << 16)?;
            let more = cursor.read + (input.len() as u64) < self.packed.len();
            let flags = if more { TINFL_FLAG_HAS_MORE_INPUT } else { 0 };
            let (status, consumed, produced) =
                decompress(&mut cursor.decompressor, &input, &mut cursor.ring[..], from, flags);
            cursor.read += consumed as u64;
            cursor.out += produced as u64;
            if cursor.out > self.len {
                let found = format!("more than {}", self.len);
                return Err(Problem::WrongSize { method: "deflate", declared: self.len, found });
            }
            if produced > 0 {
                self.leave_checkpoint(cursor);
                return Ok(&cursor.ring[from..from + produced]);
            }
            match status {
                TINFLStatus::Done => {
                    let found = cursor.out.to_string();
                    return Err(Problem::WrongSize { method: "deflate", declared: self.len, found });
                }
                TINFLStatus::NeedsMoreInput if consumed > 0 && more => {}
                TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => {
                    return Err(damaged(format!("it ends after {} of {} bytes", cursor.out, self.len)));
                }
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(damaged(format!("no deflate block at byte {} of {}", cursor.read, self.packed.len()))),
            }
        }
    }

    fn leave_checkpoint(&self, cursor: &Cursor) {
        // Only at the ring's end, where nothing of the ring is ahead of the cursor.
        if !cursor.out.is_multiple_of(WINDOW as u64) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let last = state.checkpoints.last().map_or(0, |checkpoint| checkpoint.out);
        if cursor.out >= last.saturating_add(self.stride) {
            state.checkpoints.push(Arc::new(cursor.clone()));
        }
    }
}
