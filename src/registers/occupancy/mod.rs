//! How many blocks of a kernel an SM holds at once, what stops it from holding more, and what one would have to give up.
//!
//! In: an architecture and a [`Launch`] (threads, registers, shared memory, barriers). Out: an [`Occupancy`].
//! The numbers equal those of NVIDIA's `cuda_occupancy.h`, which leaves tensor memory out; `tests/oracle_occupancy.rs` compares
//! them. It refuses
//! architectures it has no limits for and launches that mean nothing (no threads at all); a launch that no SM can hold is
//! an answer, 0 blocks, with the reasons.
//!
//! The model: a block needs warp slots, a block slot, registers, shared memory, tensor memory and barriers. Each of them
//! alone allows some number of blocks, and the smallest number wins.

mod steps;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::Arch;
use crate::base::hardware::{
    ARCHITECTURES, MAX_CLUSTER_BLOCKS, MAX_NAMED_REGISTERS, MAX_REGISTERS_PER_THREAD, MAX_THREADS_PER_BLOCK,
    PORTABLE_SMEM_PER_BLOCK_BYTES, REGISTER_GRANULARITY, REGISTERS_PER_SM, SUB_PARTITIONS, SmLimits, WARP_SIZE,
};

pub use steps::{RegisterRange, RegisterStep, SmemStep, Uniformity, register_table};

/// What a kernel asks of an SM, for each block.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Launch {
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory known when the kernel is compiled.
    pub smem_static: u64,
    /// Bytes of shared memory asked for at launch.
    pub smem_dynamic: u64,
    /// Barriers the kernel uses, as ptxas counts them; 0 where none are or where it is not known.
    pub barriers: u32,
    /// Blocks of a cluster; 1 where there are no clusters.
    pub cluster: u32,
    /// Columns of tensor memory that the block holds at once; 0 where it allocates none.
    pub tmem_columns: u32,
    /// How much shared memory the kernel has opted in to.
    pub smem_mode: SmemMode,
    /// The share of shared memory the kernel prefers, in percent of all the SM has; `None` leaves it to the driver.
    pub carveout: Option<u8>,
}

impl Default for Launch {
    fn default() -> Self {
        Launch {
            threads: 0,
            registers: 0,
            smem_static: 0,
            smem_dynamic: 0,
            barriers: 0,
            cluster: 1,
            tmem_columns: 0,
            smem_mode: SmemMode::NonPortable,
            carveout: None,
        }
    }
}

impl Launch {
    /// Shared memory of a block in bytes, static and dynamic.
    pub fn smem(&self) -> u64 {
        self.smem_static.saturating_add(self.smem_dynamic)
    }

    /// Warps of a block.
    pub fn warps(&self) -> u32 {
        self.threads.div_ceil(WARP_SIZE)
    }
}

/// How much shared memory a block may have: the modes of `CUsharedMemoryMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmemMode {
    /// 48 KB, which runs on every architecture.
    Portable,
    /// All the architecture allows, for which the kernel must opt in.
    #[default]
    NonPortable,
    /// More, at the cost of nearly all the L1 cache, where the architecture has it (sm_107).
    Oversized,
}

/// Something an SM runs out of. The order is that in which one is named when several run out together: what the
/// programmer can change comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Columns of tensor memory: whoever finds none free waits in `tcgen05.alloc`.
    TensorMemory,
    /// Warp slots, or threads of a block.
    Threads,
    /// Block slots.
    Blocks,
    /// Barriers.
    Barriers,
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
            Limiter::TensorMemory => "tensor memory",
            Limiter::Threads => "threads",
            Limiter::Blocks => "blocks",
            Limiter::Barriers => "barriers",
        })
    }
}

/// Blocks that each resource alone would allow; `None` is no limit, because the launch uses none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLimits {
    /// By registers.
    pub registers: Option<u32>,
    /// By shared memory.
    pub shared_memory: Option<u32>,
    /// By columns of tensor memory.
    #[serde(default)]
    pub tensor_memory: Option<u32>,
    /// By warp slots.
    pub threads: u32,
    /// By block slots.
    pub blocks: u32,
    /// By barriers; `None` before sm_90 too, where they never run out.
    pub barriers: Option<u32>,
}

impl BlockLimits {
    /// All limits in the order of [`Limiter`].
    pub fn all(&self) -> [(Limiter, Option<u32>); 6] {
        [
            (Limiter::Registers, self.registers),
            (Limiter::SharedMemory, self.shared_memory),
            (Limiter::TensorMemory, self.tensor_memory),
            (Limiter::Threads, Some(self.threads)),
            (Limiter::Blocks, Some(self.blocks)),
            (Limiter::Barriers, self.barriers),
        ]
    }

    /// The smallest limit, leaving one of them out.
    fn least_without(&self, left_out: Option<Limiter>) -> u32 {
        let others = self.all().into_iter().filter(|(limiter, _)| Some(*limiter) != left_out);
        others.filter_map(|(_, limit)| limit).min().unwrap_or(self.blocks)
    }

    /// What allows just this many blocks, were there registers enough.
    fn first_without_registers(&self, blocks: u32) -> Option<Limiter> {
        let mut others = self.all().into_iter().filter(|(limiter, _)| *limiter != Limiter::Registers);
        others.find_map(|(limiter, limit)| (limit == Some(blocks)).then_some(limiter))
    }

    /// Blocks an SM holds.
    pub fn least(&self) -> u32 {
        self.least_without(None)
    }
}

/// A reason why not one block fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Obstacle {
    /// The block has more threads than any may have.
    #[error("a block has at most {most} threads, found {found}")]
    ThreadsPerBlock {
        /// Threads of the block.
        found: u32,
        /// The most there can be.
        most: u32,
    },
    /// A thread has more registers than any may have.
    #[error("a thread has at most {most} registers, found {found}")]
    RegistersPerThread {
        /// Registers of a thread.
        found: u32,
        /// The most there can be.
        most: u32,
    },
    /// The warps of one block take more registers than the SM has.
    #[error("a block has at most {most} registers, found {found} (warps counted in fours, 8 registers at a time)")]
    RegistersPerBlock {
        /// Registers the block is checked with.
        found: u64,
        /// Registers of the SM.
        most: u64,
    },
    /// The block has more shared memory than it may have.
    #[error("a block has at most {most} bytes of shared memory, found {found}")]
    SmemPerBlock {
        /// Bytes the launch asks for.
        found: u64,
        /// The most it may ask for in its [`SmemMode`].
        most: u64,
    },
    /// The block allocates more tensor memory than the SM has.
    #[error("an SM has {most} columns of tensor memory, found {found} in a block")]
    TensorColumns {
        /// Columns of the block.
        found: u32,
        /// Columns of the SM.
        most: u32,
    },
    /// The block uses more barriers than the SM has.
    #[error("an SM has {most} barriers, found {found} in a block")]
    Barriers {
        /// Barriers of the block.
        found: u32,
        /// Barriers of the SM.
        most: u32,
    },
}

/// What an SM holds of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Blocks an SM holds at once; 0 where the launch cannot run.
    pub blocks_per_sm: u32,
    /// Warps an SM holds at once.
    pub warps_per_sm: u32,
    /// Warp slots of an SM.
    pub max_warps_per_sm: u32,
    /// Warps held as a share of warp slots, 0 to 1.
    pub occupancy: f64,
    /// The first of `limiters`.
    pub limiter: Limiter,
    /// Every resource that allows no more blocks than this.
    pub limiters: Vec<Limiter>,
    /// Blocks that each resource alone would allow.
    pub limits: BlockLimits,
    /// The fewest SMs a cluster takes, all of one GPC; `None` where no block fits.
    pub min_sms_per_cluster: Option<u32>,
    /// Registers a block takes, rounded up as the hardware does.
    pub allocated_registers: u64,
    /// Bytes of shared memory a block takes, with the driver's part, rounded up as the hardware does.
    pub allocated_smem: u64,
    /// Why no block fits; empty where one does.
    pub obstacles: Vec<Obstacle>,
    /// The most registers, below those of the launch, with which more blocks fit, nothing else being changed.
    pub next_step: Option<RegisterStep>,
    /// The fewest registers, above those of the launch, with which fewer blocks fit; `None` where 255 lose none.
    pub cliff: Option<RegisterStep>,
    /// The same as `next_step` for shared memory.
    pub next_step_smem: Option<SmemStep>,
    /// The same as `cliff` for shared memory.
    pub cliff_smem: Option<SmemStep>,
    /// All that has to shrink together for one block more; `None` where threads or blocks are the limit.
    pub next_step_together: Option<Uniformity>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OccupancyError {
    /// There are no limits for the architecture.
    #[error("no hardware limits are known for {arch}: expected {}", known_architectures())]
    UnknownArch {
        /// What was asked for.
        arch: Arch,
    },
    /// A block without threads.
    #[error("threads per block: expected 1 to {MAX_THREADS_PER_BLOCK}, found 0")]
    NoThreads,
    /// A cluster of no size there is.
    #[error("blocks per cluster: expected 1 to {MAX_CLUSTER_BLOCKS}, found {found}")]
    Cluster {
        /// What was asked for.
        found: u32,
    },
    /// A cluster on an architecture that has none.
    #[error("blocks per cluster: {arch} has no clusters (sm_90 and later do), expected 1, found {found}")]
    NoClusters {
        /// The architecture.
        arch: Arch,
        /// What was asked for.
        found: u32,
    },
    /// Tensor memory on an architecture that has none.
    #[error("columns of tensor memory: {arch} has no tensor memory, expected 0, found {found}")]
    NoTensorMemory {
        /// The architecture.
        arch: Arch,
        /// What was asked for.
        found: u32,
    },
    /// More than everything, or the like.
    #[error("shared memory carveout: expected 0 to 100 percent, found {found}")]
    Carveout {
        /// What was asked for.
        found: u8,
    },
    /// Oversized shared memory where there is none.
    #[error("{arch} has no oversized shared memory: expected the portable or the non-portable mode")]
    NoOversized {
        /// The architecture.
        arch: Arch,
    },
}

fn known_architectures() -> String {
    let names: Vec<String> = ARCHITECTURES.iter().map(|limits| Arch::new(limits.sm).to_string()).collect();
    format!("one of {}", names.join(", "))
}

/// What an SM of this architecture holds of this launch.
pub fn occupancy(arch: Arch, launch: &Launch) -> Result<Occupancy, OccupancyError> {
    let model = Model::new(arch, launch)?;
    let limits = model.limits();
    let blocks = limits.least();
    let limiters: Vec<Limiter> =
        limits.all().into_iter().filter_map(|(limiter, limit)| (limit == Some(blocks)).then_some(limiter)).collect();
    let (warps, ratio) = model.warps_held(blocks);
    Ok(Occupancy {
        blocks_per_sm: blocks,
        warps_per_sm: warps,
        max_warps_per_sm: model.sm.warps,
        occupancy: ratio,
        limiter: limiters.first().copied().unwrap_or(Limiter::Blocks),
        limiters,
        limits,
        min_sms_per_cluster: (blocks > 0).then(|| launch.cluster.div_ceil(blocks)),
        allocated_registers: model.registers_allocated(launch.registers),
        allocated_smem: model.smem_allocated(launch.smem()),
        obstacles: if blocks == 0 { model.obstacles() } else { Vec::new() },
        next_step: steps::fewer_registers(&model, &limits),
        cliff: steps::more_registers(&model, &limits),
        next_step_smem: steps::less_smem(&model, &limits),
        cliff_smem: steps::more_smem(&model, &limits),
        next_step_together: steps::together(&model, &limits),
    })
}

/// A launch on an SM, both known to make sense.
struct Model<'a> {
    sm: &'static SmLimits,
    launch: &'a Launch,
    /// Shared memory of the SM in the launch's mode.
    smem_bytes: u64,
    /// The most shared memory a block may be given, the driver's part included.
    smem_per_block_bytes: u64,
    /// The size the SM's shared memory is set to unless one block needs more.
    smem_preferred_bytes: u64,
}

impl<'a> Model<'a> {
    fn new(arch: Arch, launch: &'a Launch) -> Result<Self, OccupancyError> {
        let sm = SmLimits::of(arch).ok_or(OccupancyError::UnknownArch { arch })?;
        if launch.threads == 0 {
            return Err(OccupancyError::NoThreads);
        }
        if !(1..=MAX_CLUSTER_BLOCKS).contains(&launch.cluster) {
            return Err(OccupancyError::Cluster { found: launch.cluster });
        }
        if launch.cluster > 1 && !sm.clusters {
            return Err(OccupancyError::NoClusters { arch, found: launch.cluster });
        }
        if launch.tmem_columns > 0 && sm.tensor_columns.is_none() {
            return Err(OccupancyError::NoTensorMemory { arch, found: launch.tmem_columns });
        }
        let smem_bytes = match launch.smem_mode {
            SmemMode::Portable | SmemMode::NonPortable => sm.smem_bytes,
            SmemMode::Oversized => sm.smem_oversized_bytes.ok_or(OccupancyError::NoOversized { arch })?,
        };
        let smem_per_block_bytes = match launch.smem_mode {
            SmemMode::Portable => PORTABLE_SMEM_PER_BLOCK_BYTES + sm.smem_reserved_bytes,
            SmemMode::NonPortable | SmemMode::Oversized => smem_bytes,
        };
        let wished = match launch.carveout {
            None => smem_bytes,
            Some(percent @ 0..=100) => smem_bytes * u64::from(percent) / 100,
            Some(found) => return Err(OccupancyError::Carveout { found }),
        };
        let smem_preferred_bytes = sm.smem_configuration(wished).unwrap_or(smem_bytes);
        Ok(Model { sm, launch, smem_bytes, smem_per_block_bytes, smem_preferred_bytes })
    }

    fn limits(&self) -> BlockLimits {
        BlockLimits {
            registers: self.register_limit(self.launch.registers),
            shared_memory: self.smem_limit(self.smem_allocated(self.launch.smem())),
            tensor_memory: self.tensor_limit(self.launch.tmem_columns),
            threads: if self.launch.threads > MAX_THREADS_PER_BLOCK { 0 } else { self.sm.warps / self.launch.warps() },
            blocks: self.sm.blocks,
            barriers: self.barrier_limit(self.launch.barriers),
        }
    }

    /// Registers one warp takes.
    fn registers_per_warp(registers: u32) -> u64 {
        (u64::from(registers) * u64::from(WARP_SIZE)).next_multiple_of(u64::from(REGISTER_GRANULARITY))
    }

    fn registers_allocated(&self, registers: u32) -> u64 {
        Self::registers_per_warp(registers).saturating_mul(u64::from(self.launch.warps()))
    }

    /// Registers the hardware counts when it checks whether a block may run at all: as if warps came in fours, one for
    /// each sub-partition.
    fn registers_checked(&self, registers: u32) -> u64 {
        let warps = u64::from(self.launch.warps()).next_multiple_of(u64::from(SUB_PARTITIONS));
        Self::registers_per_warp(registers).saturating_mul(warps)
    }

    /// Blocks by registers, were there this many to a thread.
    fn register_limit(&self, registers: u32) -> Option<u32> {
        if registers == 0 {
            return None;
        }
        if registers > MAX_REGISTERS_PER_THREAD || self.registers_checked(registers) > u64::from(REGISTERS_PER_SM) {
            return Some(0);
        }
        // A warp's registers all come from its own sub-partition: what is left over in one cannot help another.
        let warps_per_sub_partition =
            u64::from(REGISTERS_PER_SM / SUB_PARTITIONS) / Self::registers_per_warp(registers);
        let warps = warps_per_sub_partition * u64::from(SUB_PARTITIONS);
        u32::try_from(warps / u64::from(self.launch.warps())).ok()
    }

    /// Bytes a block takes, were it to ask for this many.
    fn smem_allocated(&self, smem: u64) -> u64 {
        let wanted = smem.saturating_add(self.sm.smem_reserved_bytes);
        wanted.checked_next_multiple_of(self.sm.smem_granularity_bytes).unwrap_or(wanted)
    }

    /// Blocks by shared memory, were this many bytes given to each.
    fn smem_limit(&self, allocated: u64) -> Option<u32> {
        if allocated > self.smem_per_block_bytes {
            return Some(0);
        }
        // The preference yields to a block that does not fit into it, and then only as far as that one block needs.
        let of_sm = if self.smem_preferred_bytes >= allocated {
            self.smem_preferred_bytes
        } else {
            self.sm.smem_configuration(allocated).unwrap_or(self.smem_bytes)
        };
        u32::try_from(of_sm.checked_div(allocated)?).ok()
    }

    fn tensor_limit(&self, columns: u32) -> Option<u32> {
        self.sm.tensor_columns?.checked_div(columns)
    }

    fn barrier_limit(&self, barriers: u32) -> Option<u32> {
        self.sm.barriers?.checked_div(barriers)
    }

    /// Warps that this many blocks have, and their share of the warp slots.
    fn warps_held(&self, blocks: u32) -> (u32, f64) {
        let warps = blocks.saturating_mul(self.launch.warps());
        (warps, f64::from(warps) / f64::from(self.sm.warps))
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        let Launch { threads, registers, barriers, tmem_columns, .. } = *self.launch;
        let mut found = Vec::new();
        if registers > MAX_REGISTERS_PER_THREAD {
            found.push(Obstacle::RegistersPerThread { found: registers, most: MAX_NAMED_REGISTERS });
        } else if self.register_limit(registers) == Some(0) && threads <= MAX_THREADS_PER_BLOCK {
            found.push(Obstacle::RegistersPerBlock {
                found: self.registers_checked(registers),
                most: REGISTERS_PER_SM.into(),
            });
        }
        if self.smem_limit(self.smem_allocated(self.launch.smem())) == Some(0) {
            let most = self.smem_per_block_bytes - self.sm.smem_reserved_bytes;
            found.push(Obstacle::SmemPerBlock { found: self.launch.smem(), most });
        }
        if let (Some(0), Some(most)) = (self.tensor_limit(tmem_columns), self.sm.tensor_columns) {
            found.push(Obstacle::TensorColumns { found: tmem_columns, most });
        }
        if threads > MAX_THREADS_PER_BLOCK {
            found.push(Obstacle::ThreadsPerBlock { found: threads, most: MAX_THREADS_PER_BLOCK });
        }
        if let (Some(0), Some(most)) = (self.barrier_limit(barriers), self.sm.barriers) {
            found.push(Obstacle::Barriers { found: barriers, most });
        }
        found
    }
}
