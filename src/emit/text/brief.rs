//! A kernel in few words, what matters most first, for readers who pay for every word.

use std::io::{self, Write};

use super::figures::count;
use super::{Options, findings, kernel, memory, pressure, summary, warps};
use crate::emit::escape::terminal;
use crate::report::{Advisory, Confidence, Issue, Kernel, Occupancy, Severity, Unit, abridge};

/// Columns: lines are long, since each break and its indentation costs.
const WIDTH: usize = 160;
/// The longest name that is not abridged.
const NAME: usize = 120;
/// Findings of a kernel that are told; the first are the worst.
const FINDINGS: usize = 4;
/// The hottest lines of a kernel.
const LINES: usize = 5;

/// How it is shown.
pub const OPTIONS: Options<'static> =
    Options { verbose: false, top: LINES, width: WIDTH, pictures: false, links: None };

/// How bad it looks for a kernel: the greater, the sooner its reader should know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Badness {
    hangs: bool,
    cannot_launch: bool,
    loses_setmaxnreg: bool,
    suspect: bool,
    warnings: usize,
    spills_in_loops: usize,
    spill_bytes: u64,
    registers: u32,
}

impl Badness {
    /// Of a kernel.
    pub fn of(kernel: &Kernel, unit: &Unit) -> Badness {
        let issues = || kernel.barriers.iter().flat_map(|found| &found.issues);
        let sure = |issue: &Issue| issue.confidence >= Confidence::Likely;
        let spills = || kernel.spills.iter().flatten();
        let stored = kernel.resources.spill_store_bytes.unwrap_or(0) + kernel.resources.spill_load_bytes.unwrap_or(0);
        Badness {
            hangs: issues().any(|issue| sure(issue) && issue.severity == Severity::Error),
            cannot_launch: kernel.occupancy.as_ref().is_some_and(Occupancy::cannot_launch),
            loses_setmaxnreg: kernel.setmaxnreg.as_ref().is_some_and(|found| found.honoured == Some(false)),
            suspect: issues().any(sure),
            warnings: advisories(kernel, unit).filter(|advisory| advisory.is_serious()).count(),
            spills_in_loops: spills().filter(|spill| spill.loop_depth.is_some_and(|depth| depth > 0)).count(),
            spill_bytes: stored.max(spills().count() as u64),
            registers: kernel.resources.registers.unwrap_or(0),
        }
    }

    /// Whether there is something to mend, rather than only more registers than elsewhere.
    pub fn is_bad(self) -> bool {
        self > Badness { registers: u32::MAX, ..Badness::default() }
    }
}

fn advisories<'a>(kernel: &'a Kernel, unit: &'a Unit) -> impl Iterator<Item = &'a Advisory> {
    unit.advisories.iter().filter(|advisory| advisory.kernel.as_deref() == Some(kernel.name.as_str()))
}

/// What nobody should miss: its name, what is wrong with it, and two or three sentences.
pub fn write_essence(kernel: &Kernel, unit: &Unit, out: &mut dyn Write) -> io::Result<()> {
    let name = abridge(kernel.demangled.as_deref().unwrap_or(&kernel.name), NAME);
    let at = kernel.ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
    writeln!(out, "{}{at}", terminal(&name))?;
    let found = findings::of(kernel, unit);
    findings::write(found.iter().take(FINDINGS), unit, &OPTIONS, out)?;
    let more = found.len().saturating_sub(FINDINGS);
    if more > 0 {
        writeln!(out, "  and {more} more findings and messages")?;
    }
    // Bytes are in ptxas's log alone, and so is the sentence about them.
    if let (Some(spills @ [_, ..]), None) = (kernel.spills.as_deref(), kernel.resources.spill_store_bytes) {
        let in_loops = spills.iter().filter(|spill| spill.loop_depth.is_some_and(|depth| depth > 0)).count();
        let lines = kernel::spill_lines(kernel);
        writeln!(out, "  Spills: {}, {in_loops} inside loops{lines}.", count(spills.len() as u64, "instruction"))?;
    }
    match summary::summary(kernel, unit).as_str() {
        "" => writeln!(out, "  Nothing is known of its registers."),
        sentences => writeln!(out, "  {sentences}"),
    }
}

/// What is to be said of a unit as a whole, a remark a line.
pub fn write_remarks(unit: &Unit, out: &mut dyn Write) -> io::Result<()> {
    super::write_remarks(unit, &OPTIONS, out)
}

/// A writer of one part of a kernel's details.
pub type Part = fn(&Kernel, &Unit, &mut dyn Write) -> io::Result<()>;

/// The rest, each with its name, in the order in which it matters.
pub const DETAILS: &[(&str, Part)] = &[
    ("registers and spills", |kernel, unit, out| kernel::write_registers(kernel, unit, &OPTIONS, out)),
    ("roles", |kernel, _, out| warps::write(kernel, &OPTIONS, out)),
    ("live values", |kernel, unit, out| pressure::write(kernel, unit, &OPTIONS, out)),
    ("lines with the most code", |kernel, unit, out| kernel::write_lines(kernel, unit, &OPTIONS, out)),
    ("memory and launch", |kernel, unit, out| kernel::write_memory(kernel, unit, &OPTIONS, out)),
    ("shared and tensor memory", |kernel, unit, out| memory::write(kernel, unit, &OPTIONS, out)),
    ("code", |kernel, _, out| kernel::write_code(kernel, &OPTIONS, out)),
    ("barriers", |kernel, _, out| warps::write_barriers(kernel, &OPTIONS, out)),
];
