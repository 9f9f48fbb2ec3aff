//! A matrix as a table and a picture.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::escape::terminal;
use super::text::{BOLD, DIM, RESET, WARN, thousands, write_wrapped};
use crate::gate::Metric;
use crate::matrix::{Cell, CellKernel, KernelBisection, Matrix};
use crate::report::{demangle, distinct};

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
pub(super) fn head(metric: Metric) -> &'static str {
    match metric {
        Metric::Registers => "registers",
        Metric::SpillStoreBytes => "spilt B",
        Metric::SpillLoadBytes => "refilled B",
        Metric::SpillInstructions => "spill insts",
        Metric::StackBytes => "stack B",
        Metric::SmemBytes => "static shared B",
        Metric::Barriers => "barriers",
        Metric::PeakLive => "peak live",
        Metric::Instructions => "instructions",
        Metric::CodeBytes => "code B",
        Metric::WarpsPerSm => "warps/SM",
        Metric::LoopCycles => "loop cycles",
    }
}

fn figure(value: Option<u64>) -> String {
    value.map_or("—".to_owned(), thousands)
}

/// For people: a table for each kernel, a picture where there is something to see, and what changed between versions.
pub fn write_text(matrix: &Matrix, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let kernels = matrix.kernels();
    let spelt: Vec<String> =
        kernels.iter().map(|(_, name)| demangle(name).unwrap_or_else(|| (*name).to_owned())).collect();
    let names = distinct(&spelt.iter().map(String::as_str).collect::<Vec<_>>(), options.width.saturating_sub(2));
    for (at, (input, name)) in kernels.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let title =
            format!("{BOLD}{}{RESET}  {}", terminal(names.get(at).map_or(*name, String::as_str)), terminal(input));
        write_wrapped(&title, "", "  ", options.width, out)?;
        let cells: Vec<&Cell> = matrix.cells.iter().filter(|cell| cell.input == *input).collect();
        write_table(&cells, name, options, out)?;
        write_picture(&cells, name, options, out)?;
        for change in changes(matrix, name) {
            write_wrapped(&terminal(&change), "  ", "    ", options.width, out)?;
        }
    }
    let notes = notes(matrix, &names, &options.metrics);
    if !notes.is_empty() && kernels.len() > 1 {
        writeln!(out)?;
    }
    for note in notes {
        write_wrapped(&format!("{DIM}{}{RESET}", terminal(&note)), "  ", "    ", options.width, out)?;
    }
    write_failures(matrix, options, out)?;
    let files = matrix.cells.iter().filter_map(|cell| Some((cell.ptxas_path.as_ref()?, &cell.ptxas)));
    for (path, version) in files.collect::<BTreeSet<_>>() {
        let text = format!("{DIM}ptxas {} is {}{RESET}", terminal(version), terminal(path));
        write_wrapped(&text, "", "  ", options.width, out)?;
    }
    for bisection in &matrix.bisections {
        write_bisection(bisection, options, out)?;
    }
    Ok(())
}

pub(super) fn kernel<'a>(cell: &'a Cell, name: &str) -> Option<&'a CellKernel> {
    cell.kernels.iter().find(|kernel| kernel.name == name)
}

/// The table, or several where a line has no room for all columns.
fn write_table(cells: &[&Cell], name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let width =
        |of: &dyn Fn(&Cell) -> usize, least: usize| cells.iter().map(|cell| of(cell)).max().unwrap_or(0).max(least);
    let (arch, ptxas) = (width(&|cell| cell.arch.len(), 4), width(&|cell| cell.ptxas.len(), 5));
    let setting = width(&|cell| cell.setting.len(), 0);
    let key = |[first, second, third]: [&str; 3]| {
        let third = if setting > 0 { format!("  {third:<setting$}") } else { String::new() };
        format!("  {first:<arch$}  {second:<ptxas$}{third}")
    };
    let room = options.width.saturating_sub(key(["", "", ""]).len());
    let mut parts: Vec<Vec<(Metric, usize)>> = vec![Vec::new()];
    for metric in &options.metrics {
        let column = head(*metric).len().max(8);
        let taken = |part: &Vec<(Metric, usize)>| part.iter().map(|(_, width)| width + 2).sum::<usize>();
        match parts.last_mut() {
            Some(part) if part.is_empty() || taken(part) + column + 2 <= room => part.push((*metric, column)),
            _ => parts.push(vec![(*metric, column)]),
        }
    }
    for columns in &parts {
        let titles: String = columns.iter().map(|(metric, width)| format!("  {:>width$}", head(*metric))).collect();
        writeln!(out, "{DIM}{}{titles}{RESET}", key(["arch", "ptxas", ""]))?;
        for cell in cells {
            write!(out, "{}", key([&cell.arch, &terminal(&cell.ptxas), &terminal(&cell.setting)]))?;
            match (&cell.error, kernel(cell, name)) {
                (Some(_), _) => writeln!(out, "  {WARN}cannot compile{RESET}")?,
                (None, None) => writeln!(out, "  {DIM}not there{RESET}")?,
                (None, Some(kernel)) => {
                    let figures =
                        columns.iter().map(|(metric, width)| format!("  {:>width$}", figure(kernel.get(*metric))));
                    let ruled = kernel
                        .ruled_by
                        .as_ref()
                        .map(|directive| format!("  {WARN}{} rules{RESET}", terminal(directive)));
                    writeln!(out, "{}{}", figures.collect::<String>(), ruled.unwrap_or_default())?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the swept flags ruled over the kernel's directives, or the directives over them; and why warps are not known, and what to give.
fn notes_of(cells: &[&Cell], name: &str, metrics: &[Metric]) -> Vec<String> {
    let ruled = |cell: &&&Cell| kernel(cell, name).is_some_and(|kernel| kernel.ruled_by.is_some());
    let mut notes = Vec::new();
    if cells.iter().any(|cell| cell.overrides) {
        notes.push(
            "The swept values replace the kernel's own directives (ptxas --override-directive-values).".to_owned(),
        );
    }
    if cells.iter().any(|cell| ruled(&cell)) {
        notes.push(
            "Where a directive rules, the swept values did nothing: ptxas before 12.4 cannot override it.".to_owned(),
        );
    }
    notes.extend(advisories(cells, name));
    let unlaunched = |kernel: &CellKernel| kernel.get(Metric::WarpsPerSm) == Some(0);
    if metrics.contains(&Metric::WarpsPerSm) && cells.iter().filter_map(|cell| kernel(cell, name)).any(unlaunched) {
        notes.push("0 warps/SM: a block needs more than an SM has, so that the launch fails".to_owned());
    }
    let unknown =
        cells.iter().filter_map(|cell| kernel(cell, name)).filter(|kernel| kernel.get(Metric::WarpsPerSm).is_none());
    let lacking = unknown.map(|found| &found.missing).find(|missing| !missing.is_empty());
    if let (Some(lacking), true) = (lacking, metrics.contains(&Metric::WarpsPerSm)) {
        notes.push(format!("warps/SM depends on {}", super::text::launch_decides(lacking)));
    }
    notes
}

/// What ptxas says of a kernel, each once, with the builds that it says it of where it does not of all.
fn advisories(cells: &[&Cell], name: &str) -> Vec<String> {
    /// Builds that are named.
    const NAMED: usize = 3;
    let built: Vec<(&Cell, &CellKernel)> = cells.iter().filter_map(|cell| Some((*cell, kernel(cell, name)?))).collect();
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for (cell, kernel) in &built {
        let place = [cell.arch.as_str(), &cell.ptxas, &cell.setting].join(" ").trim().to_owned();
        for text in &kernel.advisories {
            match said.iter_mut().find(|(known, _)| known == text) {
                Some((_, places)) => places.push(place.clone()),
                None => said.push((text, vec![place.clone()])),
            }
        }
    }
    let told = |(text, places): (&str, Vec<String>)| {
        let first = places.get(..NAMED.min(places.len())).unwrap_or_default().join("; ");
        match places.len() {
            all if all == built.len() => format!("ptxas says {text}"),
            all if all > NAMED => format!("ptxas says {text} (in {first} and {} more)", all - NAMED),
            _ => format!("ptxas says {text} (in {first})"),
        }
    };
    said.into_iter().map(told).collect()
}

/// The notes of all kernels, each once, with the kernels that it is about where it is not about all; `names` is how these are shown.
pub(super) fn notes(matrix: &Matrix, names: &[String], metrics: &[Metric]) -> Vec<String> {
    /// Kernels that are named.
    const NAMED: usize = 4;
    let kernels = matrix.kernels();
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for ((input, name), shown) in kernels.iter().zip(names) {
        let cells: Vec<&Cell> = matrix.cells.iter().filter(|cell| cell.input == *input).collect();
        for note in notes_of(&cells, name, metrics) {
            match found.iter_mut().find(|(known, _)| *known == note) {
                Some((_, about)) => about.push(shown),
                None => found.push((note, vec![shown])),
            }
        }
    }
    let told = |(note, about): (String, Vec<&str>)| {
        let first = about.get(..NAMED.min(about.len())).unwrap_or_default().join(", ");
        match about.len() {
            all if all == kernels.len() => note,
            all if all > NAMED => format!("{note} ({first} and {} more)", all - NAMED),
            _ => format!("{note} ({first})"),
        }
    };
    found.into_iter().map(told).collect()
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
                let title = format!("  {:<20}{:<13}", terminal(label), head(*metric));
                let room = options.width.saturating_sub(title.chars().count() + range.chars().count() + 2).max(10);
                let drawn: Vec<char> = bars(&values).chars().collect();
                for (at, part) in drawn.chunks(room).enumerate() {
                    let part: String = part.iter().collect();
                    let title = if at == 0 { title.as_str() } else { "" };
                    let range = if at == 0 { range.as_str() } else { "" };
                    let line = format!("{title:<35}{part}  {DIM}{range}{RESET}");
                    writeln!(out, "{}", line.trim_end())?;
                }
            }
        }
    }
    Ok(())
}

/// What changed from one ptxas to the next: a line for each two of them.
pub(super) fn changes(matrix: &Matrix, name: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for change in matrix.changes.iter().filter(|change| change.kernel == name) {
        let place = (&change.from, &change.to, &change.arch, &change.setting);
        let step = format!("{} {} → {}", change.metric, thousands(change.before), thousands(change.after));
        match lines.last_mut().filter(|_| last == Some(place)) {
            Some(line) => *line += &format!(", {step}"),
            None => {
                let setting = if change.setting.is_empty() { String::new() } else { format!(" {}", change.setting) };
                lines.push(format!("{} → {}, {}{setting}: {step}", change.from, change.to, change.arch));
            }
        }
        last = Some(place);
    }
    lines
}

/// Every reason why there are no figures, once, with the cells it holds for.
pub(super) fn failures(matrix: &Matrix) -> Vec<(&str, String)> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in &matrix.cells {
        let Some(error) = &cell.error else { continue };
        let place = [cell.arch.as_str(), &format!("ptxas {}", cell.ptxas), &cell.setting].join(" ").trim().to_owned();
        match reasons.iter_mut().find(|(known, _)| known == error) {
            Some((_, places)) => places.push(place),
            None => reasons.push((error, vec![place])),
        }
    }
    let told = |(reason, places): (_, Vec<String>)| {
        let more = if places.len() > 4 { format!(" and {} more", places.len() - 4) } else { String::new() };
        let first: Vec<&str> = places.iter().take(4).map(String::as_str).collect();
        (reason, format!("{}{more}", first.join(", ")))
    };
    reasons.into_iter().map(told).collect()
}

fn write_failures(matrix: &Matrix, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let failures = failures(matrix);
    if !failures.is_empty() {
        writeln!(out)?;
    }
    for (reason, places) in failures {
        let text = format!("{WARN}cannot compile{RESET} {}: {}", terminal(&places), terminal(reason));
        write_wrapped(&text, "", "  ", options.width, out)?;
    }
    Ok(())
}

/// What a bisection found: the figure and where it changed.
pub(super) fn bisection(found: &KernelBisection) -> String {
    let what = match (&found.first_new, &found.last_old) {
        (Some(new), Some(old)) => format!(
            "changed in {new}: {} → {} (still {} in {old})",
            figure(found.before),
            figure(found.after),
            figure(found.before)
        ),
        (None, Some(_)) => format!("is {} in the oldest and in the newest", figure(found.before)),
        _ => "cannot be told: fewer than two versions compile it".to_owned(),
    };
    let setting = if found.setting.is_empty() { String::new() } else { format!(", {}", found.setting) };
    format!("{}{setting}: {} {what}", found.arch, found.metric)
}

fn write_bisection(found: &KernelBisection, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let runs = format!("{DIM}{} of {} versions run{RESET}", found.runs, found.versions);
    let text = format!("{BOLD}{}{RESET} {}  {runs}", terminal(&found.kernel), terminal(&bisection(found)));
    write_wrapped(&text, "", "  ", options.width, out)
}
