//! Where the number of blocks changes: the step a smaller launch would gain, the cliff a larger one would fall off.

use serde::{Deserialize, Serialize};

use super::{BlockLimits, Launch, Limiter, Model, OccupancyError};
use crate::base::Arch;
use crate::base::hardware::{MAX_NAMED_REGISTERS, REGISTER_GRANULARITY, WARP_SIZE};

/// Registers of a thread come in portions of this many.
const PORTION: u32 = REGISTER_GRANULARITY / WARP_SIZE;

/// A register count, and the blocks an SM holds with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterStep {
    /// Registers of a thread.
    pub registers: u32,
    /// Blocks an SM holds then.
    pub blocks_per_sm: u32,
}

/// A shared memory size, and the blocks an SM holds with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmemStep {
    /// Bytes of a block, static and dynamic.
    pub smem: u64,
    /// Blocks an SM holds then.
    pub blocks_per_sm: u32,
}

/// What has to shrink at once for one block more; `None` is what may stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uniformity {
    /// The most registers of a thread.
    pub registers: Option<u32>,
    /// The most bytes of shared memory of a block.
    pub smem: Option<u64>,
    /// The most columns of tensor memory of a block.
    #[serde(default)]
    pub tmem_columns: Option<u32>,
    /// The most barriers of a block.
    pub barriers: Option<u32>,
    /// Blocks an SM holds then.
    pub blocks_per_sm: u32,
}

/// Neighbouring register counts with the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegisterRange {
    /// The first register count.
    pub from: u32,
    /// The last register count.
    pub to: u32,
    /// Blocks an SM holds with any of them.
    pub blocks_per_sm: u32,
    /// Warps an SM holds.
    pub warps_per_sm: u32,
    /// Warps held as a share of warp slots, 0 to 1.
    pub occupancy: f64,
    /// What allows no more: registers only where fewer of them would.
    pub limiter: Limiter,
}

/// Every register count from 1 to 255, in ranges, for a launch that is otherwise the given one.
pub fn register_table(arch: Arch, launch: &Launch) -> Result<Vec<RegisterRange>, OccupancyError> {
    let model = Model::new(arch, launch)?;
    let limits = model.limits();
    let others = limits.least_without(Some(Limiter::Registers));
    let mut table: Vec<RegisterRange> = Vec::new();
    for from in (1..=MAX_NAMED_REGISTERS).step_by(PORTION as usize) {
        let to = (from + PORTION - 1).min(MAX_NAMED_REGISTERS);
        let blocks_per_sm = model.register_limit(from).map_or(others, |limit| limit.min(others));
        match table.last_mut() {
            Some(last) if last.blocks_per_sm == blocks_per_sm => last.to = to,
            _ => {
                let (warps_per_sm, occupancy) = model.warps_held(blocks_per_sm);
                let limiter = limits.first_without_registers(blocks_per_sm).unwrap_or(Limiter::Registers);
                table.push(RegisterRange { from, to, blocks_per_sm, warps_per_sm, occupancy, limiter });
            }
        }
    }
    Ok(table)
}

/// The fewest columns of tensor memory that can be allocated.
const LEAST_COLUMNS: u32 = 32;

/// Portions that 255 registers take.
const MAX_PORTIONS: u32 = MAX_NAMED_REGISTERS.div_ceil(PORTION);

/// The largest number from `least` up to, but not including, `too_much` that fits, where all smaller ones fit too.
fn last_that(least: u64, too_much: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(least) {
        return None;
    }
    let (mut good, mut bad) = (least, too_much);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

/// The most portions of registers with which registers alone allow this many blocks.
fn register_portions_for(model: &Model, blocks: u32) -> Option<u32> {
    let fits = |portions: u64| allows(model.register_limit(portions as u32 * PORTION), blocks);
    last_that(1, u64::from(MAX_PORTIONS) + 1, fits).map(|portions| portions as u32)
}

/// The most registers with which registers alone allow this many blocks.
fn registers_for(model: &Model, blocks: u32) -> Option<u32> {
    Some((register_portions_for(model, blocks)? * PORTION).min(MAX_NAMED_REGISTERS))
}

/// Whether a limit leaves room for this many blocks.
fn allows(limit: Option<u32>, blocks: u32) -> bool {
    limit.is_none_or(|limit| limit >= blocks)
}

pub(super) fn fewer_registers(model: &Model, limits: &BlockLimits) -> Option<RegisterStep> {
    let (now, others) = (limits.least(), limits.least_without(Some(Limiter::Registers)));
    if others <= now {
        return None;
    }
    let registers = registers_for(model, now + 1)?;
    let blocks_per_sm = model.register_limit(registers).map_or(others, |limit| limit.min(others));
    Some(RegisterStep { registers, blocks_per_sm })
}

pub(super) fn more_registers(model: &Model, limits: &BlockLimits) -> Option<RegisterStep> {
    let now = limits.least();
    if now == 0 {
        return None;
    }
    let registers = register_portions_for(model, now)? * PORTION + 1;
    if registers > MAX_NAMED_REGISTERS {
        return None;
    }
    Some(RegisterStep { registers, blocks_per_sm: model.register_limit(registers)? })
}

/// The most portions of shared memory with which shared memory alone allows this many blocks.
fn smem_portions_for(model: &Model, blocks: u32) -> Option<u64> {
    let granularity = model.sm.smem_granularity_bytes;
    let (least, most) = (model.smem_allocated(0) / granularity, model.smem_per_block_bytes / granularity);
    last_that(least, most + 1, |portions| allows(model.smem_limit(portions * granularity), blocks))
}

/// The most shared memory a block may ask for to be given this many portions.
fn smem_of(model: &Model, portions: u64) -> u64 {
    (portions * model.sm.smem_granularity_bytes).saturating_sub(model.sm.smem_reserved_bytes)
}

pub(super) fn less_smem(model: &Model, limits: &BlockLimits) -> Option<SmemStep> {
    let (now, others) = (limits.least(), limits.least_without(Some(Limiter::SharedMemory)));
    if others <= now {
        return None;
    }
    let portions = smem_portions_for(model, now + 1)?;
    let limit = model.smem_limit(portions * model.sm.smem_granularity_bytes);
    Some(SmemStep { smem: smem_of(model, portions), blocks_per_sm: limit.map_or(others, |limit| limit.min(others)) })
}

pub(super) fn more_smem(model: &Model, limits: &BlockLimits) -> Option<SmemStep> {
    let now = limits.least();
    if now == 0 {
        return None;
    }
    let portions = smem_portions_for(model, now)?;
    let limit = model.smem_limit((portions + 1) * model.sm.smem_granularity_bytes)?;
    Some(SmemStep { smem: smem_of(model, portions) + 1, blocks_per_sm: limit.min(now) })
}

/// The most columns that leave room for this many blocks: `tcgen05.alloc` takes a power of two, and 32 at least.
fn tensor_columns_for(model: &Model, blocks: u32) -> Option<u32> {
    let most = model.sm.tensor_columns?.checked_div(blocks)?;
    let columns = most.checked_ilog2().map(|bits| 1 << bits)?;
    (columns >= LEAST_COLUMNS).then_some(columns)
}

pub(super) fn together(model: &Model, limits: &BlockLimits) -> Option<Uniformity> {
    let wanted = limits.least() + 1;
    if limits.threads < wanted || limits.blocks < wanted {
        return None;
    }
    let mut then = *limits;
    let mut step =
        Uniformity { registers: None, smem: None, tmem_columns: None, barriers: None, blocks_per_sm: wanted };
    if !allows(limits.registers, wanted) {
        let registers = registers_for(model, wanted)?;
        then.registers = model.register_limit(registers);
        step.registers = Some(registers);
    }
    if !allows(limits.shared_memory, wanted) {
        let portions = smem_portions_for(model, wanted)?;
        then.shared_memory = model.smem_limit(portions * model.sm.smem_granularity_bytes);
        step.smem = Some(smem_of(model, portions));
    }
    if !allows(limits.tensor_memory, wanted) {
        let columns = tensor_columns_for(model, wanted)?;
        then.tensor_memory = model.tensor_limit(columns);
        step.tmem_columns = Some(columns);
    }
    if !allows(limits.barriers, wanted) {
        let barriers = model.sm.barriers? / wanted;
        then.barriers = model.barrier_limit(barriers);
        step.barriers = Some(barriers);
    }
    step.blocks_per_sm = then.least();
    Some(step)
}
