//! Memory to decompress into, used again: new pages cost as much as decompressing into them.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// What a thread keeps for its next entry is no larger than this.
const OWN_BYTES: usize = 4 << 20;
/// What all threads keep together for the next large entry is no larger than this.
const SHARED_BYTES: usize = 64 << 20;

thread_local! {
    static OWN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
static SHARED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A buffer, perhaps large enough already. Taken, not borrowed: who uses it may come to another entry on the way.
pub(super) fn take(bytes: u64) -> Vec<u8> {
    if bytes <= OWN_BYTES as u64 {
        return OWN.take();
    }
    std::mem::take(&mut *SHARED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps a buffer for the next entry, unless there is a better one or it is too large.
pub(super) fn give_back(buffer: Vec<u8>) {
    match buffer.capacity() {
        0..=OWN_BYTES => OWN.set(buffer),
        capacity if capacity <= SHARED_BYTES => {
            let mut kept = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.capacity() < capacity {
                *kept = buffer;
            }
        }
        _ => {}
    }
}
