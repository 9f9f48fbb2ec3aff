//! The tables for a terminal.

use std::io::{self, Write};

use super::{Sheet, contents, copies, group, instead, percent, shown, title, whole};
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, RESET, thousands, write_wrapped};
use crate::report::size::{By, SizeRow};
use crate::report::{abridge, shorten};

/// Columns of text from which on everything fits.
const ROOMY: usize = 76;
/// Columns that a name gets at least.
const NAME: usize = 16;
/// Groups of equal functions that are shown.
const GROUPS: usize = 5;

/// Writes sums by architecture, the rows, what is there twice, and what PTX could stand in for.
pub fn write_text(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let size = sheet.size;
    let inputs: Vec<String> = sheet.inputs.iter().map(|input| terminal(input).into_owned()).collect();
    let title = format!("{BOLD}{}{RESET}  {}", inputs.join(", "), contents(size));
    write_wrapped(&title, "", "  ", sheet.width, out)?;
    write_wrapped(&whole(size), "  ", "  ", sheet.width, out)?;
    if size.by != By::Arch && !size.arches.is_empty() {
        writeln!(out)?;
        write_arches(sheet, out)?;
    }
    writeln!(out)?;
    write_rows(sheet, out)?;
    let said = copies(&size.same_code);
    if !said.is_empty() {
        writeln!(out, "\n{BOLD}The same code{RESET}")?;
        said.iter().try_for_each(|text| write_wrapped(text, "  ", "  ", sheet.width, out))?;
        write_groups(sheet, out)?;
    }
    if !size.ptx_instead.is_empty() {
        writeln!(out, "\n{BOLD}PTX that could serve for cubins{RESET}")?;
        for found in &size.ptx_instead {
            write_wrapped(&instead(found), "  ", "    ", sheet.width, out)?;
        }
    }
    Ok(())
}

fn write_arches(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = vec![["arch", "cubins", "ptx", "functions", "code", "loaded", "in file"].map(str::to_owned)];
    for arch in &sheet.size.arches {
        lines.push([
            arch.arch.clone(),
            thousands(arch.cubins),
            thousands(arch.ptx_texts),
            thousands(arch.functions),
            thousands(arch.code_bytes),
            thousands(arch.loaded_bytes),
            thousands(arch.file_bytes),
        ]);
    }
    // The rarer figures go where a line has no room.
    let without: &[usize] = if sheet.width < ROOMY { &[2, 3] } else { &[] };
    let kept = |at: &usize| !without.contains(at);
    let width = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|at| width(at).unwrap_or(0)).collect();
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate().filter(|(at, _)| kept(at)) {
            text += &if at == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        match number {
            0 => writeln!(out, "{DIM}{text}{RESET}")?,
            _ => writeln!(out, "{}", terminal(&text))?,
        }
    }
    Ok(())
}

fn write_rows(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let size = sheet.size;
    let cells = |row: &SizeRow| {
        [
            thousands(row.file_bytes),
            percent(row.file_bytes, size.sum.file_bytes),
            thousands(row.loaded_bytes),
            thousands(row.code_bytes),
            thousands(row.functions),
        ]
    };
    let mut lines =
        vec![(["in file", "", "loaded", "code", "functions"].map(str::to_owned), title(size.by).to_owned())];
    let shown_rows: Vec<&SizeRow> = size.rows.iter().take(sheet.top).collect();
    lines.extend(shown_rows.iter().map(|row| (cells(row), shown(row, size.by, sheet.verbose))));
    let left: Vec<&SizeRow> = size.rows.iter().skip(sheet.top).collect();
    if !left.is_empty() {
        let sum = |of: fn(&SizeRow) -> u64| left.iter().map(|row| of(row)).sum::<u64>();
        let rest = SizeRow {
            file_bytes: sum(|row| row.file_bytes),
            loaded_bytes: sum(|row| row.loaded_bytes),
            code_bytes: sum(|row| row.code_bytes),
            functions: sum(|row| row.functions),
            ..size.sum.clone()
        };
        lines.push((cells(&rest), format!("{} more; --top 0 shows all", thousands(left.len() as u64))));
    }
    lines.push((cells(&size.sum), "total".to_owned()));
    let without: &[usize] = match sheet.width {
        0..ROOMY => &[3, 4],
        ROOMY..100 => &[4],
        _ => &[],
    };
    let width = |at: usize| lines.iter().filter_map(|(cells, _)| cells.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|at| width(at).unwrap_or(0)).collect();
    let used: usize =
        widths.iter().enumerate().filter(|(at, _)| !without.contains(at)).map(|(_, width)| width + 2).sum();
    let room = sheet.width.saturating_sub(used + 2).max(NAME);
    let last = lines.len() - 1;
    for (number, (cells, name)) in lines.iter().enumerate() {
        let mut text = String::new();
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if !without.contains(&at) {
                text += &format!("  {cell:>width$}");
            }
        }
        let name = match (sheet.verbose, size.by) {
            (true, _) => name.clone(),
            (_, By::File) => end_of(name, room),
            _ => abridge(name, room).into_owned(),
        };
        let name = terminal(&name);
        match number {
            0 => writeln!(out, "{DIM}{text}  {name}{RESET}")?,
            number if number == last => writeln!(out, "{BOLD}{text}  {name}{RESET}")?,
            _ => writeln!(out, "{text}  {name}")?,
        }
    }
    Ok(())
}

/// The end of a path says more than its start.
fn end_of(path: &str, room: usize) -> String {
    let length = path.chars().count();
    if length <= room {
        return path.to_owned();
    }
    std::iter::once('…').chain(path.chars().skip(length + 1 - room)).collect()
}

fn write_groups(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let copies = &sheet.size.same_code;
    for found in copies.groups.iter().take(GROUPS) {
        let figures = format!(
            "{} × {} bytes in {}, {}  ",
            thousands(found.count),
            thousands(found.code_bytes),
            crate::emit::text::count(found.cubins, "cubin"),
            found.arch
        );
        let room = sheet.width.saturating_sub(figures.chars().count() + 4);
        let names = group(found, sheet.verbose);
        if sheet.verbose || room >= 2 * NAME {
            let names = if sheet.verbose { names } else { shorten(&names, room).into_owned() };
            writeln!(out, "    {DIM}{figures}{RESET}{}", terminal(&names))?;
        } else {
            writeln!(out, "    {DIM}{}{RESET}", figures.trim_end())?;
            writeln!(out, "      {}", terminal(&shorten(&names, sheet.width.saturating_sub(6))))?;
        }
    }
    let left = copies.group_count.saturating_sub(GROUPS.min(copies.groups.len()) as u64);
    if left > 0 {
        writeln!(out, "    {DIM}and {} more{RESET}", thousands(left))?;
    }
    Ok(())
}
