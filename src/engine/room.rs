//! How much memory entries that are decompressed at the same time may take together.

use std::sync::{Condvar, Mutex, PoisonError};

/// Entries up to this size never wait.
const SMALL: u64 = 4 << 20;
/// The least and the most that large entries share.
const LEAST: u64 = 16 << 20;
const MOST: u64 = 256 << 20;

/// Room for large entries. Who waits for it must not hold any: there is no nested parallel work between
/// [`Room::take`] and the end of what it returns.
pub struct Room {
    bytes: u64,
    taken: Mutex<u64>,
    freed: Condvar,
}

impl Room {
    /// Room for going through so many bytes: a sixteenth of them, within bounds.
    pub fn for_input(bytes: u64) -> Self {
        Room { bytes: (bytes / 16).clamp(LEAST, MOST), taken: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until there is room, or until nobody else has any.
    pub fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        if bytes > 0 {
            let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let full = |taken: &mut u64| *taken > 0 && taken.saturating_add(bytes) > self.bytes;
            *self.freed.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner) += bytes;
        }
        Taken { room: self, bytes }
    }
}

/// A share of a [`Room`], until it is dropped.
pub struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut taken = self.room.taken.lock().unwrap_or_else(PoisonError::into_inner);
            *taken = taken.saturating_sub(self.bytes);
            self.room.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn large_entries_share_small_ones_pass() {
        let room = Room::for_input(0);
        let most = AtomicU64::new(0);
        let used = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for at in 0..8_u64 {
                let (room, most, used) = (&room, &most, &used);
                scope.spawn(move || {
                    for round in 0..50 {
                        // The last is larger than all the room there is: it goes through alone.
                        let bytes = if at == 7 { LEAST * 2 } else { SMALL + 1 + at + round };
                        let _taken = room.take(bytes);
                        let now = used.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        used.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), LEAST * 2, "never more than the room, or one entry");
        let all = room.take(LEAST * 2);
        drop(room.take(SMALL));
        drop(all);
        assert_eq!(*room.taken.lock().unwrap(), 0);
    }
}
