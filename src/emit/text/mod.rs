//! Text for people: readable on 80 columns, in colour where the writer lets colour through.

pub mod brief;
mod diagnostic;
mod figures;
mod findings;
mod kernel;
mod mbarriers;
mod pressure;
mod source_lines;
mod style;
mod summary;
mod warps;
mod wrap;

use std::io::{self, Write};

pub use diagnostic::{write_error, write_unit_error};
pub use figures::{bytes, count, thousands};
pub use source_lines::write as write_source_lines;
pub use style::{BAD, BOLD, COLOURS, DIM, GOOD, NOTE, RESET, WARN};
pub(super) use summary::launch_decides;
pub(super) use wrap::wrap;

use super::escape::terminal;
use crate::report::{Kernel, PtxasFile, Report, Unit};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Mangled names, attributes, every line.
    pub verbose: bool,
    /// How many of the hottest lines.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Curves and bars drawn in characters.
    pub pictures: bool,
}

/// Writes the report of all units that have one; errors are [`write_unit_error`]'s.
pub fn write(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut first = true;
    for unit in report.units.iter().filter(|unit| unit.error.is_none()) {
        if !first {
            writeln!(out)?;
        }
        first = false;
        write_unit(unit, options, out)?;
    }
    Ok(())
}

/// Which programs made a result, where they are not managed ones: a line each.
pub fn write_ptxas_files(files: &[PtxasFile], out: &mut dyn Write) -> io::Result<()> {
    for PtxasFile { path, version, reason } in files {
        let version = version.as_deref().unwrap_or("of unknown version");
        writeln!(out, "{DIM}ptxas {} ({}: {}){RESET}", terminal(version), terminal(reason), terminal(path))?;
    }
    Ok(())
}

/// What was inspected, for which architecture, and what made it: one line.
pub fn write_title(unit: &Unit, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{BOLD}{}{RESET}", terminal(&unit.input))?;
    if let Some(arch) = &unit.arch {
        write!(out, "  {arch}")?;
    }
    match &unit.ptxas {
        Some(ptxas) => {
            let version = ptxas.version.as_deref().unwrap_or("of unknown version");
            let file = ptxas.path.as_ref().map(|path| format!(": {}", terminal(path))).unwrap_or_default();
            writeln!(out, "  ptxas {version} {DIM}({}{file}){RESET}", terminal(&ptxas.reason))?;
        }
        None => match unit.cubin.as_ref().and_then(|cubin| cubin.made_by.as_deref()) {
            Some(maker) => writeln!(out, "  cubin made by {}", terminal(maker))?,
            None => writeln!(out, "  cubin")?,
        },
    }
    Ok(())
}

fn write_unit(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_title(unit, out)?;
    if options.verbose {
        if let Some(ptxas) = &unit.ptxas {
            writeln!(out, "  {DIM}flags{RESET}      {}", terminal(&ptxas.flags.join(" ")))?;
        }
        if let Some(options) = unit.cubin.as_ref().and_then(|cubin| cubin.made_with.as_deref()) {
            writeln!(out, "  {DIM}made with{RESET}  {}", terminal(options))?;
        }
    }
    write_remarks(unit, options, out)?;
    if unit.kernels.is_empty() {
        writeln!(out, "  no functions")?;
    }
    let is_shown = |kernel: &&Kernel| options.verbose || !is_plain_addition(kernel);
    for kernel in unit.kernels.iter().filter(is_shown) {
        writeln!(out)?;
        kernel::write(kernel, unit, options, out)?;
    }
    let added: Vec<String> = unit
        .kernels
        .iter()
        .filter(|kernel| !is_shown(kernel))
        .map(|kernel| match kernel.instructions.total {
            Some(total) => format!("{} ({})", terminal(&kernel.name), count(total, "instruction")),
            None => terminal(&kernel.name).to_string(),
        })
        .collect();
    if !added.is_empty() {
        writeln!(out)?;
        let text = format!("Added by ptxas, nothing to report (-v shows them): {}", added.join(", "));
        for line in wrap::wrap(&text, options.width) {
            writeln!(out, "{DIM}{line}{RESET}")?;
        }
    }
    Ok(())
}

/// What is to be said of a unit as a whole: what was changed for ptxas, what ptxas says of no kernel, what was not understood.
fn write_remarks(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for prepared in &unit.prepared {
        writeln!(out, "  {NOTE}note{RESET}: {}", terminal(prepared))?;
    }
    let unplaced = unit
        .advisories
        .iter()
        .filter(|advisory| !unit.kernels.iter().any(|kernel| Some(kernel.name.as_str()) == advisory.kernel.as_deref()));
    for advisory in unplaced {
        findings::write_advisory(advisory, unit, "  ", options, out)?;
    }
    for problem in &unit.problems {
        let at = problem.ptx_line.map(|line| format!(" line {line}:")).unwrap_or_default();
        writeln!(out, "  {WARN}not understood{RESET} ({}):{at} {}", problem.stage.name(), terminal(&problem.message))?;
    }
    if !unit.unparsed_log.is_empty() {
        let count = unit.unparsed_log.len();
        writeln!(
            out,
            "  {WARN}not understood{RESET}: {count} line{} of ptxas's log",
            if count == 1 { "" } else { "s" }
        )?;
        for line in unit.unparsed_log.iter().take(if options.verbose { usize::MAX } else { 5 }) {
            writeln!(out, "    {:>4}: {}", line.line, terminal(&line.text))?;
        }
    }
    Ok(())
}

/// Whether a function is one of ptxas's own, such as a division, about which there is nothing to say.
pub fn is_plain_addition(kernel: &Kernel) -> bool {
    kernel.name.contains("__cuda_")
        && kernel.ptx_line.is_none()
        && kernel.spills.as_ref().is_none_or(Vec::is_empty)
        && kernel.pressure.as_ref().is_none_or(|pressure| pressure.exact)
}
