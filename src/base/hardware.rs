//! What a streaming multiprocessor (SM) of each architecture has to give: a table, and nothing but a table.
//!
//! `docs/sources.md`, "Hardware limits", says where every number comes from; `scripts/check-occupancy` compares all of them
//! with NVIDIA's own headers.

use super::Arch;

/// Threads in a warp.
pub const WARP_SIZE: u32 = 32;
/// The most threads a block may have.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// 32-bit registers of an SM, which are also the most one block may take.
pub const REGISTERS_PER_SM: u32 = 65_536;
/// Parts of an SM, each with its own scheduler and its own quarter of the registers; a warp lives in one of them.
pub const SUB_PARTITIONS: u32 = 4;
/// Registers are given to a warp in portions of this many: 8 for each of its threads.
pub const REGISTER_GRANULARITY: u32 = 256;
/// The most registers a thread may be given. An instruction can name 255 of them; R255 is the zero register.
pub const MAX_REGISTERS_PER_THREAD: u32 = 256;
/// The most registers ptxas uses for a thread.
pub const MAX_NAMED_REGISTERS: u32 = 255;
/// Shared memory a block may have on every architecture, without the kernel opting in to more.
pub const PORTABLE_SMEM_PER_BLOCK_BYTES: u64 = 48 * KB;
/// The most blocks of a cluster that run on every architecture that has clusters.
pub const PORTABLE_CLUSTER_BLOCKS: u32 = 8;
/// The most blocks of a cluster, for a kernel that opts in to a size that is not portable.
pub const MAX_CLUSTER_BLOCKS: u32 = 16;

/// Columns of tensor memory of an SM that has it: `tcgen05.alloc` takes a power of two of them, from 32 to all.
pub const TENSOR_COLUMNS_PER_SM: u32 = 512;

const KB: u64 = 1024;

/// The limits that differ between architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// The SM number: 90 for `sm_90` and `sm_90a`.
    pub sm: u16,
    /// Resident warps.
    pub warps: u32,
    /// Resident blocks.
    pub blocks: u32,
    /// Barriers that all resident blocks share; `None` where every block always finds its 16.
    pub barriers: Option<u32>,
    /// Shared memory of the SM.
    pub smem_bytes: u64,
    /// Shared memory of the SM for a kernel that allows oversized configurations; `None` where there are none.
    pub smem_oversized_bytes: Option<u64>,
    /// Shared memory that the driver keeps for itself in each block.
    pub smem_reserved_bytes: u64,
    /// Shared memory is given to a block in portions of this many bytes.
    pub smem_granularity_bytes: u64,
    /// The sizes in KB that the shared memory of the SM can be set to; the rest is L1 cache.
    pub smem_configurations_kb: &'static [u16],
    /// Whether blocks can form clusters.
    pub clusters: bool,
    /// Columns of tensor memory that all resident blocks share; `None` where there is no tensor memory.
    pub tensor_columns: Option<u32>,
}

/// The shared memory sizes of the larger SMs; smaller ones stop earlier.
const CONFIGURATIONS_KB: &[u16] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

/// The sizes up to 100, 164 and 228 KB.
const UP_TO_100: &[u16] = CONFIGURATIONS_KB.split_at(6).0;
const UP_TO_164: &[u16] = CONFIGURATIONS_KB.split_at(8).0;
const UP_TO_228: &[u16] = CONFIGURATIONS_KB;
const UP_TO_328: &[u16] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228, 328];

/// From sm_80 on the driver reserves 1 KB a block and memory comes in portions of 128 bytes.
const fn row(sm: u16, warps: u32, blocks: u32, configurations: &'static [u16]) -> SmLimits {
    SmLimits {
        sm,
        warps,
        blocks,
        barriers: None,
        smem_bytes: configurations[configurations.len() - 1] as u64 * KB,
        smem_oversized_bytes: None,
        smem_reserved_bytes: KB,
        smem_granularity_bytes: 128,
        smem_configurations_kb: configurations,
        clusters: false,
        tensor_columns: None,
    }
}

/// From sm_90 on blocks share a pool of barriers and can form clusters.
const fn clustered(barriers: u32, limits: SmLimits) -> SmLimits {
    SmLimits { barriers: Some(barriers), clusters: true, ..limits }
}

/// What `tcgen05` works on: 128 lanes of 512 columns, of which a block allocates columns.
const fn with_tensor_memory(limits: SmLimits) -> SmLimits {
    SmLimits { tensor_columns: Some(TENSOR_COLUMNS_PER_SM), ..limits }
}

/// Every architecture there are limits for, ascending.
pub const ARCHITECTURES: [SmLimits; 14] = [
    SmLimits { smem_reserved_bytes: 0, smem_granularity_bytes: 256, ..row(75, 32, 16, &[32, 64]) },
    row(80, 64, 32, UP_TO_164),
    row(86, 48, 16, UP_TO_100),
    row(87, 48, 16, UP_TO_164),
    row(88, 48, 16, UP_TO_100),
    row(89, 48, 24, UP_TO_100),
    clustered(64, row(90, 64, 32, UP_TO_228)),
    with_tensor_memory(clustered(64, row(100, 64, 32, UP_TO_228))),
    with_tensor_memory(clustered(24, row(101, 48, 24, UP_TO_228))),
    with_tensor_memory(clustered(32, row(103, 64, 32, UP_TO_228))),
    with_tensor_memory(SmLimits {
        smem_bytes: 228 * KB,
        smem_oversized_bytes: Some(328 * KB),
        ..clustered(16, row(107, 32, 16, UP_TO_328))
    }),
    with_tensor_memory(clustered(24, row(110, 48, 24, UP_TO_228))),
    clustered(24, row(120, 48, 24, UP_TO_100)),
    clustered(24, row(121, 48, 24, UP_TO_100)),
];

impl SmLimits {
    /// The limits of an architecture. Variants (`a`, `f`) share those of the plain one.
    pub fn of(arch: Arch) -> Option<&'static SmLimits> {
        let index = ARCHITECTURES.binary_search_by_key(&arch.sm, |limits| limits.sm).ok()?;
        ARCHITECTURES.get(index)
    }

    /// Shared memory that one block can have, static and dynamic, where the kernel opts in to it.
    pub fn smem_per_block_bytes(&self) -> u64 {
        self.smem_bytes.saturating_sub(self.smem_reserved_bytes)
    }

    /// The smallest size the SM's shared memory can be set to that holds this much.
    pub fn smem_configuration(&self, bytes: u64) -> Option<u64> {
        self.smem_configurations_kb.iter().map(|&kb| u64::from(kb) * KB).find(|&size| size >= bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ascending_and_whole() {
        assert!(ARCHITECTURES.windows(2).all(|pair| pair[0].sm < pair[1].sm));
        for limits in &ARCHITECTURES {
            assert_eq!(SmLimits::of(Arch::new(limits.sm)), Some(limits));
            assert!(limits.smem_configurations_kb.is_sorted(), "sm_{}", limits.sm);
            for size in [Some(limits.smem_bytes), limits.smem_oversized_bytes].into_iter().flatten() {
                assert_eq!(limits.smem_configuration(size), Some(size), "sm_{}", limits.sm);
                assert_eq!(size % limits.smem_granularity_bytes, 0, "sm_{}", limits.sm);
            }
        }
        assert_eq!(SmLimits::of(Arch::new(70)), None);
    }
}
