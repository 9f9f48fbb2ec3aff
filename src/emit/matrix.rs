//! A matrix as a table and a picture.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::escape::terminal;
use super::text::{BOLD, DIM, RESET, WARN, thousands};
use crate::gate::Metric;
use crate::matrix::{Cell, CellKernel, KernelBisection, Matrix};
use crate::report::abridge;

/// What the reader asked to see.
#[derive(Clone, Debug)]
pub struct Options {
    /// The columns.
    pub metrics: Vec<Metric>,
    /// How wide a line may be.
    pub width: usize,
}

/// The matrix as it is: one object and a line feed.
pub fn write_json(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, matrix).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// A column's head.
fn head(metric: Metric) -> &'static str {
    match metric {
        Metric::Registers => "registers",
        Metric::SpillStoreBytes => "spilt B",
        Metric::SpillLoadBytes => "refilled B",
        Metric::SpillInstructions => "spill insts",
        Metric::StackBytes => "stack B",
        Metric::SmemBytes => "shared B",
        Metric::Barriers => "barriers",
        Metric::PeakLive => "peak live",
        Metric::Instructions => "instructions",
        Metric::CodeBytes => "code B",
        Metric::WarpsPerSm => "warps/SM",
    }
}

fn figure(value: Option<u64>) -> String {
    value.map_or("—".to_owned(), thousands)
}

/// For people: a table for each kernel, a picture where there is something to see, and what changed between versions.
pub fn write_text(matrix: &Matrix, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (at, (input, name)) in matrix.kernels().iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let shown = crate::report::demangle(name).unwrap_or_else(|| (*name).to_owned());
        writeln!(out, "{BOLD}{}{RESET}  {}", terminal(&abridge(&shown, options.width / 2)), terminal(input))?;
        let cells: Vec<&Cell> = matrix.cells.iter().filter(|cell| cell.input == *input).collect();
        write_table(&cells, name, options, out)?;
        write_picture(&cells, name, options, out)?;
        write_changes(matrix, name, out)?;
        write_ruling(&cells, name, options, out)?;
        write_missing(&cells, name, options, out)?;
    }
    write_failures(matrix, out)?;
    let files = matrix.cells.iter().filter_map(|cell| Some((cell.ptxas_path.as_ref()?, &cell.ptxas)));
    for (path, version) in files.collect::<BTreeSet<_>>() {
        writeln!(out, "{DIM}ptxas {} is {}{RESET}", terminal(version), terminal(path))?;
    }
    for bisection in &matrix.bisections {
        write_bisection(bisection, out)?;
    }
    Ok(())
}

fn kernel<'a>(cell: &'a Cell, name: &str) -> Option<&'a CellKernel> {
    cell.kernels.iter().find(|kernel| kernel.name == name)
}

fn write_table(cells: &[&Cell], name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let width =
        |of: &dyn Fn(&Cell) -> usize, least: usize| cells.iter().map(|cell| of(cell)).max().unwrap_or(0).max(least);
    let (arch, ptxas) = (width(&|cell| cell.arch.len(), 4), width(&|cell| cell.ptxas.len(), 5));
    let setting = width(&|cell| cell.setting.len(), 0);
    let columns: Vec<usize> = options.metrics.iter().map(|metric| head(*metric).len().max(8)).collect();
    write!(out, "  {DIM}{:<arch$}  {:<ptxas$}  {:<setting$}", "arch", "ptxas", "")?;
    for (metric, width) in options.metrics.iter().zip(&columns) {
        write!(out, "  {:>width$}", head(*metric))?;
    }
    writeln!(out, "{RESET}")?;
    for cell in cells {
        write!(
            out,
            "  {:<arch$}  {:<ptxas$}  {:<setting$}",
            cell.arch,
            terminal(&cell.ptxas),
            terminal(&cell.setting)
        )?;
        match (&cell.error, kernel(cell, name)) {
            (Some(_), _) => writeln!(out, "  {WARN}cannot compile{RESET}")?,
            (None, None) => writeln!(out, "  {DIM}not there{RESET}")?,
            (None, Some(kernel)) => {
                for (metric, width) in options.metrics.iter().zip(&columns) {
                    write!(out, "  {:>width$}", figure(kernel.get(*metric)))?;
                }
                match &kernel.ruled_by {
                    Some(directive) => writeln!(out, "  {WARN}{} rules{RESET}", terminal(directive))?,
                    None => writeln!(out)?,
                }
            }
        }
    }
    Ok(())
}

/// Whether the swept flags ruled over the kernel's directives, or the directives over them.
fn write_ruling(cells: &[&Cell], name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let ruled = |cell: &&&Cell| kernel(cell, name).is_some_and(|kernel| kernel.ruled_by.is_some());
    let mut notes = Vec::new();
    if cells.iter().any(|cell| cell.overrides) {
        notes.push("The swept values replace the kernel's own directives (ptxas --override-directive-values).");
    }
    if cells.iter().any(|cell| ruled(&cell)) {
        notes.push("Where a directive rules, the swept values did nothing: ptxas before 12.4 cannot override it.");
    }
    for line in notes.iter().flat_map(|note| super::text::wrap(note, options.width.saturating_sub(2))) {
        writeln!(out, "  {DIM}{line}{RESET}")?;
    }
    Ok(())
}

/// Why warps are not known, and what to give.
fn write_missing(cells: &[&Cell], name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let unknown =
        cells.iter().filter_map(|cell| kernel(cell, name)).filter(|kernel| kernel.get(Metric::WarpsPerSm).is_none());
    let Some(lacking) = unknown.map(|found| &found.missing).find(|missing| !missing.is_empty()) else { return Ok(()) };
    let text = format!("warps/SM depends on {}", super::text::launch_decides(lacking));
    if options.metrics.contains(&Metric::WarpsPerSm) {
        for line in super::text::wrap(&text, options.width.saturating_sub(2)) {
            writeln!(out, "  {DIM}{line}{RESET}")?;
        }
    }
    Ok(())
}

/// A bar for each value, from the least to the most.
fn bars(values: &[Option<u64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || values.iter().flatten().copied();
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return String::new() };
    let bar = |value: &Option<u64>| match value {
        None => '·',
        Some(_) if most == least => BARS[0],
        Some(value) => {
            let share = (value - least) as f64 / (most - least) as f64;
            BARS[((share * 7.0).round() as usize).min(7)]
        }
    };
    values.iter().map(bar).collect()
}

/// A line of bars for every metric that moves, along the sweep or, without one, along the versions.
fn write_picture(cells: &[&Cell], name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let swept = cells.iter().any(|cell| !cell.setting.is_empty());
    let mut rows: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let key = if swept { format!("{} {}", cell.arch, cell.ptxas) } else { cell.arch.clone() };
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, row)) => row.push(cell),
            None => rows.push((key, vec![cell])),
        }
    }
    for (label, row) in rows.iter().filter(|(_, row)| row.len() > 2) {
        for metric in &options.metrics {
            let values: Vec<Option<u64>> =
                row.iter().map(|cell| kernel(cell, name).and_then(|kernel| kernel.get(*metric))).collect();
            let known: Vec<u64> = values.iter().flatten().copied().collect();
            let (Some(least), Some(most)) = (known.iter().min(), known.iter().max()) else { continue };
            if least != most {
                let range = format!("{} … {}", thousands(*least), thousands(*most));
                writeln!(out, "  {:<20}{:<13}{}  {DIM}{range}{RESET}", terminal(label), head(*metric), bars(&values))?;
            }
        }
    }
    Ok(())
}

fn write_changes(matrix: &Matrix, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut last = None;
    for change in matrix.changes.iter().filter(|change| change.kernel == name) {
        let place = (&change.from, &change.to, &change.arch, &change.setting);
        if last != Some(place) {
            if last.is_some() {
                writeln!(out)?;
            }
            let setting = if change.setting.is_empty() { String::new() } else { format!(" {}", change.setting) };
            write!(
                out,
                "  {} → {}, {}{}:",
                terminal(&change.from),
                terminal(&change.to),
                change.arch,
                terminal(&setting)
            )?;
            last = Some(place);
        } else {
            write!(out, ",")?;
        }
        write!(out, " {} {} → {}", change.metric, thousands(change.before), thousands(change.after))?;
    }
    if last.is_some() { writeln!(out) } else { Ok(()) }
}

/// Every reason once, with the cells it holds for.
fn write_failures(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in &matrix.cells {
        let Some(error) = &cell.error else { continue };
        let place = [cell.arch.as_str(), &format!("ptxas {}", cell.ptxas), &cell.setting].join(" ").trim().to_owned();
        match reasons.iter_mut().find(|(known, _)| known == error) {
            Some((_, places)) => places.push(place),
            None => reasons.push((error, vec![place])),
        }
    }
    if !reasons.is_empty() {
        writeln!(out)?;
    }
    for (reason, places) in reasons {
        let more = if places.len() > 4 { format!(" and {} more", places.len() - 4) } else { String::new() };
        let first: Vec<&str> = places.iter().take(4).map(String::as_str).collect();
        writeln!(out, "{WARN}cannot compile{RESET} {}{more}: {}", terminal(&first.join(", ")), terminal(reason))?;
    }
    Ok(())
}

fn write_bisection(found: &KernelBisection, out: &mut dyn Write) -> io::Result<()> {
    let setting = if found.setting.is_empty() { String::new() } else { format!(", {}", found.setting) };
    let name = terminal(&found.kernel).into_owned();
    write!(out, "{BOLD}{name}{RESET} {}{}: {} ", found.arch, terminal(&setting), found.metric)?;
    match (&found.first_new, &found.last_old) {
        (Some(new), Some(old)) => {
            write!(
                out,
                "changed in {new}: {} → {} (still {} in {old})",
                figure(found.before),
                figure(found.after),
                figure(found.before)
            )?;
        }
        (None, Some(_)) => write!(out, "is {} in the oldest and in the newest", figure(found.before))?,
        _ => write!(out, "cannot be told: fewer than two versions compile it")?,
    }
    writeln!(out, "  {DIM}{} of {} versions run{RESET}", found.runs, found.versions)
}
