//! setmaxnreg: what the PTX asks for, what the SASS does, and why the two differ.

use crate::base::{Line, Pc};
use crate::ptx::{Operation, RegisterAction};
use crate::registers::code::Code;
use crate::simt::{SiteId, Warps};
use std::ops::Range;

/// The counts that the ISA allows (PTX ISA, "setmaxnreg").
pub const COUNTS: std::ops::RangeInclusive<u32> = 24..=256;
/// Counts are multiples of this.
pub const STEP: u32 = 8;

/// A setmaxnreg of the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Its place among the instructions of the function.
    pub index: SiteId,
    /// Its line.
    pub line: Line,
    /// More or fewer.
    pub action: RegisterAction,
    /// Registers asked for; none if it is no constant.
    pub count: Option<u32>,
}

impl Requested {
    /// What the ISA has against its count.
    pub fn illegal(&self) -> Option<String> {
        let count = self.count?;
        if !COUNTS.contains(&count) {
            Some(format!("{count} is not between {} and {}", COUNTS.start(), COUNTS.end()))
        } else if count % STEP != 0 {
            Some(format!("{count} is not a multiple of {STEP}"))
        } else {
            None
        }
    }
}

/// A USETMAXREG of the SASS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Where.
    pub pc: Pc,
    /// More or fewer.
    pub action: RegisterAction,
    /// Registers; none if they could not be read.
    pub count: Option<u32>,
}

/// Every setmaxnreg of a kernel's PTX, in order.
pub fn requested(warps: &Warps<'_>) -> Vec<Requested> {
    let sites = warps.graph.sites.iter_enumerated();
    sites
        .filter_map(|(index, site)| match site.operation {
            Operation::SetMaxNReg { action, count } => Some(Requested { index, line: site.line(), action, count }),
            _ => None,
        })
        .collect()
}

/// Every USETMAXREG of some code, in order.
pub fn emitted(code: &Code, ranges: &[Range<Pc>]) -> Vec<Emitted> {
    let mut found = Vec::new();
    for (pc, instruction) in code.named("USETMAXREG", ranges) {
        // `USETMAXREG.DEALLOC.CTAPOOL 0x28`, `USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8`
        let mut text = String::new();
        code.decoder().text(&instruction, pc, &mut text);
        let action = if text.contains("DEALLOC") { RegisterAction::Dec } else { RegisterAction::Inc };
        let count = text.rsplit([' ', ',']).next().and_then(|word| match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        });
        found.push(Emitted { pc, action, count });
    }
    found
}

/// Why ptxas dropped them, by its code, and what helps. `block_known` says that the kernel bounds its threads.
pub fn reason(code: &str, block_known: bool) -> Option<(&'static str, &'static str)> {
    Some(match code {
        "C7504" => (
            "the kernel was compiled as one of several files (-c)",
            "compile it whole, or give the kernel .maxnreg and link without relocatable device code",
        ),
        "C7505" => ("it was compiled for debugging (-g)", "compile without -g; -lineinfo keeps line numbers"),
        "C7506" => {
            ("the kernel calls a function that is not in the file", "inline the function or put it into the file")
        }
        "C7507" => (
            "a count lies below what the kernel needs at the least",
            "raise the count of the .dec, or make that role need fewer registers",
        ),
        // With the size of a block alone ptxas decides by the kernel (docs/codes/C7508.md).
        "C7508" if block_known => (
            "ptxas does not know the register count at entry: the size of a block alone does not fix it",
            "add .minnctapersm 1 beside it, or .maxnreg",
        ),
        "C7508" => (
            "ptxas does not know the register count at entry: the kernel does not bound its threads",
            "add .maxntid (or .reqntid) with .minnctapersm 1, or .maxnreg",
        ),
        _ => return None,
    })
}
