//! What a block shares out: registers by setmaxnreg, columns of tensor memory by tcgen05.alloc.

/// Columns of an SM's tensor memory.
const COLUMNS: u64 = 512;

/// Sub-partitions of an SM, each with a register file of its own; the warps of a block are dealt out in turn. Seen on an H200: where a
/// warpgroup is split, five warps of 256 registers and three of 96 do not fit into eight of 240, since two of the five meet.
pub const SUBPARTITIONS: usize = 4;

/// Registers of a block in one sub-partition, in registers of a thread times warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Those that nobody holds.
    pub free: u32,
}

impl Pool {
    /// A warp goes from one number to another. Says whether there were enough; if not, nothing changes.
    pub fn change(&mut self, from: u32, to: u32) -> bool {
        match (self.free + from).checked_sub(to) {
            Some(free) => {
                self.free = free;
                true
            }
            None => false,
        }
    }
}

/// Columns of tensor memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Those that are taken.
    pub taken: u64,
}

impl Columns {
    /// Takes columns, and says from where on; none while there are too few.
    pub fn take(&mut self, columns: u64) -> Option<u64> {
        let start = self.taken;
        self.taken = start.checked_add(columns).filter(|taken| *taken <= COLUMNS)?;
        Some(start)
    }

    /// Gives columns back. Those that nobody has are no barrier's matter: a rule tells of them.
    pub fn give(&mut self, columns: u64) {
        self.taken = self.taken.saturating_sub(columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_there_or_not() {
        let mut pool = Pool { free: 0 };
        assert!(!pool.change(168, 232));
        assert!(pool.change(168, 40));
        assert_eq!(pool.free, 128);
        assert!(pool.change(168, 232));
        assert_eq!(pool.free, 64);
    }

    #[test]
    fn columns_are_there_or_not() {
        let mut columns = Columns::default();
        assert_eq!(columns.take(256), Some(0));
        assert_eq!(columns.take(256), Some(256));
        let mut full = columns;
        assert_eq!(full.take(32), None);
        columns.give(512);
        assert_eq!(columns.take(512), Some(0));
    }
}
