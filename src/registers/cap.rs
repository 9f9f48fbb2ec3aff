//! What bounds a kernel's registers: a directive, a flag, or the instruction set.

use serde::{Deserialize, Serialize};

use crate::base::Arch;
use crate::base::hardware::SmLimits;

/// Registers an SM sub-partition holds for its warps, from sm_70 on (`docs/sources.md`, "Register file").
const REGISTERS_PER_PARTITION: u32 = 16_384;
/// Sub-partitions of an SM; the warps of a block are dealt out to them evenly.
const PARTITIONS: u32 = 4;
/// Threads of a warp.
const WARP: u32 = 32;
/// A thread can name R0 to R254.
pub const ISA_LIMIT: u32 = 255;

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
    /// What ptxas says that it raises `--maxrregcount` to, where that is too low for it.
    pub raised_to: Option<u32>,
    /// `--override-directive-values`: the flag rules, not the directives.
    pub flag_overrides: bool,
}

/// Where a cap comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `.maxnreg`.
    #[serde(rename = "maxnreg")]
    MaxNReg,
    /// `.maxntid`/`.reqntid` with `.minnctapersm`: that many blocks must fit.
    LaunchBounds,
    /// `.maxntid`/`.reqntid` alone: one block must fit, and ptxas is free to aim for more.
    BlockSize,
    /// `--maxrregcount`.
    #[serde(rename = "maxrregcount")]
    MaxRRegCount,
    /// Nothing but the instruction set.
    Isa,
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

/// The registers that a kernel with `setmaxnreg` starts with, whatever it needs: all that its directives leave it.
pub fn by_directives(maxnreg: Option<u32>, threads: u32, min_blocks: Option<u32>) -> u32 {
    fitting(threads, min_blocks.unwrap_or(1).max(1)).min(maxnreg.unwrap_or(ISA_LIMIT))
}

/// What a block size, with or without a number of blocks, leaves for a thread.
fn by_launch(arch: Arch, threads: u32, min_blocks: Option<u32>) -> Cap {
    let warps = threads.div_ceil(WARP);
    let (registers, cause, why, note) = match (min_blocks, min_blocks.and_then(|blocks| excess(arch, warps, blocks))) {
        (Some(blocks), None) => {
            let s = if blocks == 1 { "" } else { "s" };
            let why = format!(
                "{blocks} block{s} of {warps} warps must fit on an SM (.minnctapersm {blocks}, {threads} threads)"
            );
            (fitting(threads, blocks.max(1)), Cause::LaunchBounds, why, String::new())
        }
        (Some(blocks), Some(excess)) => {
            let note = format!("; .minnctapersm {blocks} is ignored: {excess}");
            (fitting(threads, 1), Cause::BlockSize, one_block(threads), note)
        }
        (None, _) => {
            let note = "; without .minnctapersm ptxas may aim for fewer".to_owned();
            (fitting(threads, 1), Cause::BlockSize, one_block(threads), note)
        }
    };
    // A block that leaves room for more than an instruction can name bounds nothing.
    match registers {
        ISA_LIMIT => Cap { registers, cause: Cause::Isa, explanation: format!("{NAMEABLE}{note}") },
        _ => Cap { registers, cause, explanation: format!("{why}{note}") },
    }
}

fn one_block(threads: u32) -> String {
    format!("one block of {threads} threads must fit on an SM")
}

/// Why there are no more than 255.
const NAMEABLE: &str = "the most an instruction can name";

/// Why so many blocks can never be on an SM at once: ptxas then ignores `.minnctapersm`, with a warning. Seen with ptxas 13.4 for
/// one block or warp too many on every architecture that it knows.
fn excess(arch: Arch, warps: u32, blocks: u32) -> Option<String> {
    let limits = SmLimits::of(arch)?;
    let wanted = warps.saturating_mul(blocks);
    if blocks > limits.blocks {
        Some(format!("an SM holds at most {} blocks", limits.blocks))
    } else if wanted > limits.warps {
        Some(format!("{wanted} warps are more than an SM's {}", limits.warps))
    } else {
        None
    }
}

/// The bound that holds; `None` before sm_70, whose register files differ.
pub fn cap(arch: Arch, bounds: &Bounds) -> Option<Cap> {
    if arch.sm < 70 {
        return None;
    }
    // ptxas 13.4 was seen to give 200 registers to a block of 384 threads then, which no SM can hold.
    let overridden = bounds.flag_overrides && bounds.maxrregcount.is_some();
    let of_flag = Bounds { maxrregcount: bounds.maxrregcount, raised_to: bounds.raised_to, ..Bounds::default() };
    let bounds = if overridden { of_flag } else { *bounds };
    let by_launch = bounds.threads.map(|threads| by_launch(arch, threads, bounds.min_blocks));
    let by_directive = bounds.maxnreg.map(|registers| Cap {
        registers,
        cause: Cause::MaxNReg,
        explanation: format!(".maxnreg {registers}"),
    });
    // ptxas ignores --maxrregcount for a kernel that has bounds of its own.
    let by_flag = bounds.maxrregcount.filter(|_| by_launch.is_none() && by_directive.is_none()).map(|registers| {
        let raised = bounds.raised_to.filter(|least| *least > registers);
        let why = raised.map(|least| format!(", which ptxas raises to {least}")).unwrap_or_default();
        Cap {
            registers: raised.unwrap_or(registers),
            cause: Cause::MaxRRegCount,
            explanation: format!("--maxrregcount {registers}{why}"),
        }
    });
    let isa = Cap { registers: ISA_LIMIT, cause: Cause::Isa, explanation: NAMEABLE.to_owned() };
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

    /// ptxas 13.4, sm_80: `Value of threads per SM for entry k4 is out of range. .minnctapersm will be ignored`, and a kernel that
    /// wants 168 registers gets 64 for 3 × 1,024 threads, 168 for 40 × 64.
    #[test]
    fn blocks_that_cannot_fit_are_ignored() {
        let cap80 = |threads, blocks| {
            let bounds = Bounds { threads: Some(threads), min_blocks: Some(blocks), ..Bounds::default() };
            cap(Arch::new(80), &bounds).unwrap()
        };
        let ignored = cap80(1024, 3);
        assert_eq!((ignored.registers, ignored.cause), (64, Cause::BlockSize));
        assert!(ignored.explanation.ends_with(".minnctapersm 3 is ignored: 96 warps are more than an SM's 64"));
        assert_eq!((cap80(1024, 2).registers, cap80(1024, 2).cause), (32, Cause::LaunchBounds));
        assert!(cap80(64, 40).explanation.ends_with("an SM holds at most 32 blocks"));
        assert_eq!(cap80(64, 40).registers, 255);
        assert_eq!(cap80(64, 32).registers, 32);
    }

    #[test]
    fn the_tightest_directive_wins_and_a_flag_yields() {
        let bounds = Bounds {
            maxnreg: Some(64),
            threads: Some(384),
            min_blocks: Some(1),
            maxrregcount: Some(32),
            ..Bounds::default()
        };
        let cap90 = cap(Arch::new(90), &bounds).unwrap();
        assert_eq!((cap90.registers, cap90.cause), (64, Cause::MaxNReg));
        let overriding = cap(Arch::new(90), &Bounds { flag_overrides: true, ..bounds }).unwrap();
        assert_eq!((overriding.registers, overriding.cause), (32, Cause::MaxRRegCount));
        let flag = Bounds { maxrregcount: Some(40), ..Bounds::default() };
        assert_eq!(cap(Arch::new(90), &flag).unwrap().cause, Cause::MaxRRegCount);
        let low = Bounds { maxrregcount: Some(8), raised_to: Some(24), ..Bounds::default() };
        let raised = cap(Arch::new(90), &low).unwrap();
        assert_eq!((raised.registers, raised.explanation.as_str()), (24, "--maxrregcount 8, which ptxas raises to 24"));
        assert_eq!(cap(Arch::new(90), &Bounds::default()).unwrap().registers, 255);
        // 128 threads leave room for 512 registers.
        let roomy = Bounds { threads: Some(128), ..Bounds::default() };
        assert_eq!(cap(Arch::new(90), &roomy).unwrap().cause, Cause::Isa);
        let tight = Bounds { threads: Some(1024), ..Bounds::default() };
        assert_eq!(cap(Arch::new(90), &tight).unwrap().cause, Cause::BlockSize);
    }
}
