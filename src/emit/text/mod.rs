//! Text for people: readable on 80 columns, in colour where the writer lets colour through.

pub mod brief;
mod diagnostic;
mod figures;
mod findings;
mod kernel;
mod matrices;
mod mbarriers;
mod memory;
mod pressure;
mod source_lines;
mod style;
mod summary;
mod warps;
mod wrap;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::{self, Write};

pub use diagnostic::{write_error, write_unit_error, write_warning};
pub use figures::{bytes, count, kernels_and_functions, thousands};
pub use pressure::warps_beside;
pub use source_lines::write as write_source_lines;
pub use style::{BAD, BOLD, COLOURS, DIM, GOOD, NOTE, RESET, WARN};
pub(super) use summary::launch_decides;
pub use wrap::wrap;
pub(super) use wrap::wrap_path;

use self::findings::Finding;
use super::escape::terminal;
use super::links::{self, Links};
use crate::report::{Kernel, KernelKind, PtxasFile, Report, Unit, distinct, spelt};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Mangled names, attributes, every line.
    pub verbose: bool,
    /// How many of the hottest lines.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Curves and bars drawn in characters.
    pub pictures: bool,
    /// Where the files are, for a terminal that knows links.
    pub links: Option<&'a Links>,
}

impl Options<'_> {
    /// A sentence with names as their language spells them, unless everything was asked for.
    fn spelt<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.verbose { Cow::Borrowed(text) } else { spelt(text) }
    }
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
pub fn write_title(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut title = format!("{BOLD}{}{RESET}", links::to(options.links, &unit.input, None, &terminal(&unit.input)));
    if let Some(arch) = &unit.arch {
        title.push_str(&format!("  {}", terminal(arch)));
    }
    match &unit.ptxas {
        Some(ptxas) => {
            let version = terminal(ptxas.version.as_deref().unwrap_or("of unknown version"));
            let file = ptxas.path.as_ref().map(|path| format!(": {}", terminal(path))).unwrap_or_default();
            title.push_str(&format!("  ptxas {version} {DIM}({}{file}){RESET}", terminal(&ptxas.reason)));
        }
        None => match unit.cubin.as_ref().and_then(|cubin| cubin.made_by.as_deref()) {
            Some(maker) => title.push_str(&format!("  cubin made by {}", terminal(maker))),
            None => title.push_str("  cubin"),
        },
    }
    write_wrapped(&title, "", "  ", options.width, out)
}

/// A text over as many lines as it takes, the first after one indentation and the others after another.
pub fn write_wrapped(text: &str, first: &str, others: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    for (at, line) in wrap(text, width.saturating_sub(others.len())).iter().enumerate() {
        writeln!(out, "{}{line}", if at == 0 { first } else { others })?;
    }
    Ok(())
}

fn write_unit(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_title(unit, options, out)?;
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
    let mut shown: Vec<&Kernel> = unit.kernels.iter().filter(is_shown).collect();
    // Whoever reads but the first page has read the worst: findings, then spills. The others stand as in the file.
    let worst =
        |kernel: &Kernel| findings::of(kernel, unit).first().filter(|found| found.is_serious()).map(Finding::rank);
    let spilt = |kernel: &Kernel| {
        let resources = &kernel.resources;
        let bytes = resources.spill_store_bytes.unwrap_or(0) + resources.spill_load_bytes.unwrap_or(0);
        bytes.max(kernel.spills.as_ref().map_or(0, |spills| spills.len() as u64))
    };
    shown.sort_by_cached_key(|kernel| {
        let is_function = kernel.kind == KernelKind::Func;
        (Reverse(worst(kernel)), Reverse(spilt(kernel)), is_function, kernel.ptx_line)
    });
    let bad = shown.partition_point(|kernel| worst(kernel).is_some());
    let spilling = shown.iter().filter(|kernel| spilt(kernel) > 0).count();
    if bad + spilling > 0 && shown.len() > 1 {
        let first = if bad.max(spilling) == shown.len() { "" } else { ", which come first" };
        let all = kernels_and_functions(
            shown.iter().filter(|kernel| kernel.kind == KernelKind::Entry).count() as u64,
            shown.iter().filter(|kernel| kernel.kind == KernelKind::Func).count() as u64,
        );
        let told = match (bad, spilling) {
            (0, spilling) => format!("spills in {spilling} of {all}"),
            (bad, 0) => format!("findings in {bad} of {all}"),
            (bad, spilling) => format!("findings in {bad} and spills in {spilling} of {all}"),
        };
        writeln!(out, "  {WARN}{told}{first}{RESET}")?;
    }
    let names = headings(&shown, options.width, options.verbose);
    for (kernel, name) in shown.into_iter().zip(&names) {
        writeln!(out)?;
        kernel::write(kernel, name, unit, options, out)?;
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

/// The names of kernels as headings: spelt as their language has them, and abridged by what tells them apart unless all is asked for.
pub fn headings(kernels: &[&Kernel], width: usize, is_whole: bool) -> Vec<String> {
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.demangled.as_deref().unwrap_or(&kernel.name)).collect();
    if is_whole {
        return names.into_iter().map(str::to_owned).collect();
    }
    // What has no space cannot go on in a second line.
    let longest = names.iter().flat_map(|name| name.split(' ')).map(|word| word.chars().count()).max().unwrap_or(0);
    let lines = if longest > width { 1 } else { kernel::NAME_LINES };
    distinct(&names, lines * width.saturating_sub(2))
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
