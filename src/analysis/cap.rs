//! What bounds a kernel's registers: a directive, a flag, or the instruction set.

use crate::base::Arch;

/// Registers an SM sub-partition holds for its warps, from sm_70 on (`docs/sources.md`, "Register file").
const REGISTERS_PER_PARTITION: u32 = 16_384;
/// Sub-partitions of an SM; the warps of a block are dealt out to them evenly.
const PARTITIONS: u32 = 4;
/// Threads of a warp.
const WARP: u32 = 32;
/// A thread can name R0 to R254.
const ISA_LIMIT: u32 = 255;

/// What a kernel's directives and ptxas's flags say about registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// `.maxnreg`.
    pub maxnreg: Option<u32>,
    /// Threads of a block by `.reqntid` or `.maxntid`.
    pub threads: Option<u32>,
    /// `.minnctapersm`.
    pub min_blocks: Option<u32>,
    /// `--maxrregcount`.
    pub maxrregcount: Option<u32>,
}

/// Where a cap comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `.maxnreg`.
    MaxNReg,
    /// `.maxntid`/`.reqntid` with `.minnctapersm`: that many blocks must fit.
    LaunchBounds,
    /// `.maxntid`/`.reqntid` alone: one block must fit, and ptxas is free to aim for more.
    BlockSize,
    /// `--maxrregcount`.
    MaxRRegCount,
    /// Nothing but the instruction set.
    Isa,
}

impl Cause {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::MaxNReg => "maxnreg",
            Cause::LaunchBounds => "launch_bounds",
            Cause::BlockSize => "block_size",
            Cause::MaxRRegCount => "maxrregcount",
            Cause::Isa => "isa",
        }
    }
}

/// The most registers a thread of the kernel may get, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The bound.
    pub registers: u32,
    /// What sets it.
    pub cause: Cause,
    /// The same in words, with the arithmetic.
    pub explanation: String,
}

/// Registers a thread can have so that `blocks` blocks of `threads` fit on an SM at once. ptxas 13.4 was seen to cap at just
/// this for every block size from 32 to 1,024 and 1 to 8 blocks.
fn fitting(threads: u32, blocks: u32) -> u32 {
    let warps = threads.div_ceil(WARP).saturating_mul(blocks);
    let per_partition = warps.div_ceil(PARTITIONS).max(1);
    (REGISTERS_PER_PARTITION / WARP / per_partition / 8 * 8).min(ISA_LIMIT)
}

/// The bound that holds; `None` before sm_70, whose register files differ.
pub fn cap(arch: Arch, bounds: &Bounds) -> Option<Cap> {
    if arch.sm < 70 {
        return None;
    }
    let by_launch = bounds.threads.map(|threads| {
        let blocks = bounds.min_blocks.unwrap_or(1).max(1);
        let registers = fitting(threads, blocks);
        let cause = if bounds.min_blocks.is_some() { Cause::LaunchBounds } else { Cause::BlockSize };
        let warps = threads.div_ceil(WARP);
        let explanation = match bounds.min_blocks {
            Some(_) => {
                format!("{blocks} × {warps} warps must fit on an SM (.minnctapersm {blocks}, {threads} threads)")
            }
            None => format!("one block of {threads} threads must fit; without .minnctapersm ptxas may aim lower"),
        };
        Cap { registers, cause, explanation }
    });
    let by_directive = bounds.maxnreg.map(|registers| Cap {
        registers,
        cause: Cause::MaxNReg,
        explanation: format!(".maxnreg {registers}"),
    });
    // ptxas ignores --maxrregcount for a kernel that has bounds of its own.
    let by_flag = bounds.maxrregcount.filter(|_| by_launch.is_none() && by_directive.is_none()).map(|registers| Cap {
        registers,
        cause: Cause::MaxRRegCount,
        explanation: format!("--maxrregcount {registers}"),
    });
    let isa =
        Cap { registers: ISA_LIMIT, cause: Cause::Isa, explanation: "the most an instruction can name".to_owned() };
    [by_directive, by_launch, by_flag, Some(isa)].into_iter().flatten().min_by_key(|cap| cap.registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(threads: u32, min_blocks: u32) -> u32 {
        let bounds = Bounds { threads: Some(threads), min_blocks: Some(min_blocks), ..Bounds::default() };
        cap(Arch::new(90), &bounds).unwrap().registers
    }

    /// What ptxas 13.4 used for a kernel that wants 300 registers, for 1, 2, 3, 4, 5, 6 and 8 blocks per SM.
    #[test]
    fn launch_bounds_as_ptxas_caps() {
        for (threads, used) in [
            (64, &[255, 255, 255, 255, 168, 168, 128][..]),
            (96, &[255, 255, 168, 168, 128, 96, 80]),
            (128, &[255, 255, 168, 128, 96, 80, 64]),
            (160, &[255, 168, 128, 96, 72, 64, 48]),
            (192, &[255, 168, 96, 80, 64, 56, 40]),
            (256, &[255, 128, 80, 64, 48, 40, 32]),
            (288, &[168, 96, 72, 56, 40, 32]),
            (384, &[168, 80, 56, 40, 32]),
        ] {
            for (blocks, expected) in [1, 2, 3, 4, 5, 6, 8].into_iter().zip(used) {
                assert_eq!(registers(threads, blocks), *expected, "{threads} threads, {blocks} blocks");
            }
        }
    }

    #[test]
    fn the_tightest_directive_wins_and_a_flag_yields() {
        let bounds = Bounds { maxnreg: Some(64), threads: Some(384), min_blocks: Some(1), maxrregcount: Some(32) };
        let cap90 = cap(Arch::new(90), &bounds).unwrap();
        assert_eq!((cap90.registers, cap90.cause), (64, Cause::MaxNReg));
        let flag = Bounds { maxrregcount: Some(40), ..Bounds::default() };
        assert_eq!(cap(Arch::new(90), &flag).unwrap().cause, Cause::MaxRRegCount);
        assert_eq!(cap(Arch::new(90), &Bounds::default()).unwrap().registers, 255);
    }
}
