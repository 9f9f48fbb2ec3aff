//! The table for a terminal.

use std::io::{self, Write};

use super::{ROOMY, Table, arch_columns, arches, name, notes, particulars, terminal_columns};
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, RESET, WARN, count, thousands, write_wrapped};
use crate::report::distinct;

/// How wide a full bar of the histogram is.
const BAR: u64 = 40;

/// Columns that a name gets before what else is told of its kernel.
const NAME: usize = 24;

/// Columns with which names can be told apart beside their figures.
const ENOUGH: usize = 40;

/// What stands before a line that goes on about a row.
const UNDER: &str = "      ";

/// Writes the summary, the histogram and the rows.
pub fn write_text(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let summary = table.summary;
    let inputs: Vec<String> = table.inputs.iter().map(|input| terminal(input).into_owned()).collect();
    let mut parts = vec![count(summary.cubins, "cubin")];
    if summary.ptx_not_compiled > 0 {
        parts.push(format!("{} PTX not compiled (--compile)", thousands(summary.ptx_not_compiled)));
    }
    if summary.others > 0 {
        parts.push(format!("{} LTO-IR and others not analysed", thousands(summary.others)));
    }
    parts.push(count(summary.kernels, "kernel"));
    if summary.device_functions > 0 {
        parts.push(count(summary.device_functions, "device function"));
    }
    let title = format!("{BOLD}{}{RESET}  {}", inputs.join(", "), parts.join(", "));
    write_wrapped(&title, "", "  ", table.width, out)?;
    if summary.by_arch.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    write_by_arch(table, out)?;
    write_histogram(table, out)?;
    write_rows(table, out)
}

fn write_by_arch(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    /// What goes first where a line has no room for everything.
    const RARE: [&str; 8] =
        ["functions", "with stack", "unknown", "regs median", "code", "cubins", "live max", "instructions"];
    let never: &[&str] = if table.full { &[] } else { &["live max", "unknown"] };
    let rare = RARE.len() + 1;
    let narrow = usize::from(table.width < ROOMY) * 4;
    for left_out in narrow..rare {
        let without: Vec<&str> = never.iter().chain(RARE.iter().take(left_out)).copied().collect();
        let titles = arch_columns(&without).map(|(title, _)| (*title).to_owned());
        let mut lines: Vec<Vec<String>> = vec![std::iter::once("arch".to_owned()).chain(titles).collect()];
        for arch in &table.summary.by_arch {
            let figures = arch_columns(&without).map(|(_, figure)| figure(arch));
            lines.push(std::iter::once(terminal(&arch.arch).into_owned()).chain(figures).collect());
        }
        if widths(&lines).iter().map(|width| width + 2).sum::<usize>() <= table.width || left_out + 1 == rare {
            return write_aligned(&lines, 1, out);
        }
    }
    Ok(())
}

/// The widest cell of each column.
fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// Columns to the right, but for the first few.
fn write_aligned(lines: &[Vec<String>], left: usize, out: &mut dyn Write) -> io::Result<()> {
    let widths = widths(lines);
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (at, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            text.push_str("  ");
            if at < left {
                text.push_str(cell);
                text.push_str(&pad);
            } else {
                text.push_str(&pad);
                text.push_str(cell);
            }
        }
        match number {
            0 => writeln!(out, "{DIM}{}{RESET}", text.trim_end())?,
            _ => writeln!(out, "{}", text.trim_end())?,
        }
    }
    Ok(())
}

fn write_histogram(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let bars = &table.summary.registers;
    let Some(most) = bars.iter().map(|bar| bar.kernels).max() else { return Ok(()) };
    writeln!(out, "\n  {DIM}registers  kernels{RESET}")?;
    for bar in bars {
        let room = BAR.min(table.width.saturating_sub(24) as u64);
        let length = (bar.kernels * room).div_ceil(most.max(1));
        let from_to = format!("{}-{}", bar.from, bar.to);
        writeln!(
            out,
            "  {from_to:>9}  {:>7}  {}",
            thousands(bar.kernels),
            "█".repeat(usize::try_from(length).unwrap_or(0))
        )?;
    }
    Ok(())
}

fn write_rows(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    if table.rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let told = particulars(table);
    let mut lines = vec![terminal_columns(table).map(|(title, _)| (*title).to_owned()).collect::<Vec<_>>()];
    for row in table.rows {
        lines.push(terminal_columns(table).map(|(_, value)| value(row).unwrap_or_else(|| "-".to_owned())).collect());
    }
    let widths = widths(&lines);
    let arch_width = table.rows.iter().map(|row| arches(row).chars().count()).max().unwrap_or(0).max(4);
    let used: usize = widths.iter().map(|width| width + 2).sum::<usize>() + arch_width + 4;
    let most = told.iter().flatten().map(|told| told.chars().count() + 2).max().unwrap_or(0);
    let names: Vec<String> = table.rows.iter().map(|row| name(row, table.verbose)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let free = table.width.saturating_sub(used);
    // What else is told of a kernel stands under its name where both do not fit on a line, and a name under its figures where it would be
    // cut short there.
    let is_under = !table.verbose && free < longest && free < ENOUGH;
    let beside = !is_under && free.saturating_sub(most) >= NAME.min(longest);
    let room = if is_under { table.width.saturating_sub(UNDER.len()) } else { free - if beside { most } else { 0 } };
    let room = room.max(NAME / 2);
    let names =
        if table.verbose { names } else { distinct(&names.iter().map(String::as_str).collect::<Vec<_>>(), room) };
    for (number, cells) in lines.iter().enumerate() {
        let mut text = String::new();
        for (cell, &width) in cells.iter().zip(&widths) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        let row = number.checked_sub(1).and_then(|at| table.rows.get(at).zip(names.get(at)));
        match row {
            None => writeln!(out, "{DIM}{text}  {:<arch_width$}  kernel{RESET}", "arch")?,
            Some((row, name)) => {
                let place = if table.verbose { format!("  {}", row.entry) } else { String::new() };
                let told = number.checked_sub(1).and_then(|at| told.get(at)?.as_deref());
                let (arch, name, place) = (arches(row), terminal(name), terminal(&place));
                let arch = terminal(&arch);
                let told = told.map(terminal).unwrap_or_default();
                let after = if beside && !told.is_empty() { format!("  {told}") } else { String::new() };
                match is_under {
                    true => write!(out, "{text}  {arch}\n{UNDER}{name}\n")?,
                    false => writeln!(out, "{text}  {arch:<arch_width$}  {name}{DIM}{after}{place}{RESET}")?,
                }
                if !beside && !told.is_empty() {
                    write_wrapped(&format!("{DIM}{told}{RESET}"), UNDER, UNDER, table.width, out)?;
                }
            }
        }
    }
    let left = table.total_rows.saturating_sub(table.rows.len() as u64);
    if left > 0 {
        let spilling: u64 = table.summary.by_arch.iter().filter_map(|arch| arch.spilling).sum();
        let shown = table.rows.iter().filter(|row| row.spills.is_some_and(|spills| spills.instructions > 0)).count();
        let hidden = if spilling > shown as u64 {
            format!("; {} spill: --sort spills", thousands(spilling))
        } else {
            String::new()
        };
        let found: u64 = table.summary.by_arch.iter().filter_map(|arch| arch.with_findings).sum();
        let seen = table.rows.iter().filter(|row| row.finding_count().is_some_and(|count| count > 0)).count() as u64;
        let hidden = match found > seen {
            true => format!("{hidden}; {} have findings: --sort findings", thousands(found)),
            false => hidden,
        };
        let text =
            format!("and {} more rows; sorted by {}; --top 0 shows all{hidden}", thousands(left), table.sorted_by);
        write_wrapped(&text, "  ", "  ", table.width, out)?;
    }
    for note in notes(table) {
        write_wrapped(&format!("{DIM}{note}{RESET}"), "  ", "    ", table.width, out)?;
    }
    if table.rows.iter().any(|row| row.pressure.as_ref().is_some_and(|pressure| !pressure.exact)) {
        let text =
            format!("{WARN}?{RESET} an instruction that is not known can be reached: live registers may be more");
        write_wrapped(&text, "  ", "    ", table.width, out)?;
    }
    Ok(())
}
