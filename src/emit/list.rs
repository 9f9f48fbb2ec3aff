//! What GPU code is inside: a table for people, JSON lines for programs.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use super::escape::terminal;
use super::text::{DIM, RESET, thousands, wrap_path, write_wrapped};
use crate::report::entries::{EntryRow, Sum, Totals};

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Header { schema: &'static str },
    Entry(&'a EntryRow),
    Error { path: &'a str, message: String },
    Totals(&'a Totals),
}

/// Where rows go: JSON as they come, text when all are there, because columns are as wide as their widest cell.
pub struct ListWriter<'a> {
    json: bool,
    /// How wide a line of text may be; none where everything is to be seen.
    width: Option<usize>,
    rows: Vec<(String, Vec<String>)>,
    out: &'a mut dyn Write,
}

const HEAD: [&str; 9] = ["entry", "kind", "arch", "packing", "stored", "bytes", "kernels", "made by", "options"];
/// Columns of figures, to the right.
const FIGURES: [usize; 3] = [4, 5, 6];
/// What is left out where a line has no room, the first first.
const RARE: [usize; 6] = [8, 3, 4, 7, 5, 1];
/// The least that an entry's name gets.
const NAME: usize = 24;
/// What stands before the rest of a path that takes more than a line.
const FURTHER: &str = "    ";

impl<'a> ListWriter<'a> {
    /// Begins.
    pub fn start(json: bool, width: Option<usize>, out: &'a mut dyn Write) -> io::Result<Self> {
        let mut writer = ListWriter { json, width, rows: Vec::new(), out };
        if json {
            writer.line(&Line::Header { schema: "ptxinspect.list/1" })?;
        }
        Ok(writer)
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, line)?;
        self.out.write_all(b"\n")
    }

    /// Writes an entry, or keeps it for the table.
    pub fn entry(&mut self, row: EntryRow) -> io::Result<()> {
        if self.json {
            return self.line(&Line::Entry(&row));
        }
        let cells = cells(&row);
        self.rows.push((row.file, cells));
        Ok(())
    }

    /// Writes what could not be read; text says it elsewhere.
    pub fn failure(&mut self, path: &str, message: String) -> io::Result<()> {
        if self.json { self.line(&Line::Error { path, message }) } else { Ok(()) }
    }

    /// Writes the table, and the sums.
    pub fn finish(mut self, totals: &Totals) -> io::Result<()> {
        if self.json {
            return self.line(&Line::Totals(totals));
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut widths = HEAD.map(str::len);
        for (_, cells) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let left_out = fit(&mut widths, self.width);
        let head: Vec<String> = HEAD.iter().map(|&head| head.to_owned()).collect();
        let mut file = None;
        for (of, cells) in &self.rows {
            if file != Some(of) {
                if file.is_some() {
                    writeln!(self.out)?;
                }
                let lines = wrap_path(&terminal(of), self.width.unwrap_or(usize::MAX).saturating_sub(FURTHER.len()));
                for (at, line) in lines.iter().enumerate() {
                    writeln!(self.out, "{}{line}", if at == 0 { "" } else { FURTHER })?;
                }
                if file.is_none() {
                    write_row(self.out, &head, &widths, &left_out)?;
                }
                file = Some(of);
            }
            write_row(self.out, cells, &widths, &left_out)?;
        }
        writeln!(self.out)?;
        if !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().filter_map(|&at| HEAD.get(at).copied()).collect();
            let note = format!("{DIM}-v also shows: {}{RESET}", names.join(", "));
            write_wrapped(&note, "", "  ", self.width.unwrap_or(usize::MAX), self.out)?;
        }
        let all = Sum {
            entries: totals.entries,
            stored_bytes: totals.stored_bytes,
            bytes: totals.bytes,
            kernels: totals.kernels,
        };
        let sums: Vec<(&str, &Sum)> =
            totals.by_kind.iter().map(|(key, sum)| (key.as_str(), sum)).chain([("total", &all)]).collect();
        write_sums(&sums, self.out)?;
        if totals.errors > 0 {
            writeln!(self.out, "not readable: {}", thousands(totals.errors))?;
        }
        Ok(())
    }
}

/// Takes columns away until a line fits, then from the entry's name. Says which.
fn fit(widths: &mut [usize; 9], width: Option<usize>) -> Vec<usize> {
    let mut left_out = Vec::new();
    let Some(width) = width else { return left_out };
    let taken = |widths: &[usize; 9], left_out: &[usize]| {
        let kept = widths.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        kept.map(|(_, width)| width + 2).sum::<usize>()
    };
    for rare in RARE {
        if taken(widths, &left_out).saturating_sub(widths[0].saturating_sub(NAME)) <= width {
            break;
        }
        left_out.push(rare);
    }
    let excess = taken(widths, &left_out).saturating_sub(width);
    if excess > 0 {
        widths[0] = widths[0].saturating_sub(excess).max(NAME);
    }
    left_out
}

/// A line of sums for each kind, figures under each other.
fn write_sums(sums: &[(&str, &Sum)], out: &mut dyn Write) -> io::Result<()> {
    const HEAD: [&str; 4] = ["entries", "kernels", "B stored", "B unpacked"];
    let figures = |sum: &Sum| [sum.entries, sum.kernels, sum.stored_bytes, sum.bytes].map(thousands);
    let key_width = sums.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let mut widths = HEAD.map(str::len);
    for (_, sum) in sums {
        for (width, figure) in widths.iter_mut().zip(figures(sum)) {
            *width = (*width).max(figure.len());
        }
    }
    let line = |cells: [String; 4]| {
        cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}")).collect::<String>()
    };
    writeln!(out, "{DIM}{:key_width$}{}{RESET}", "", line(HEAD.map(str::to_owned)))?;
    for (key, sum) in sums {
        writeln!(out, "{:<key_width$}{}", terminal(key), line(figures(sum)))?;
    }
    Ok(())
}

fn cells(row: &EntryRow) -> Vec<String> {
    let local = row.path.strip_prefix(row.file.as_str()).unwrap_or(&row.path).trim_start_matches('/');
    let mut kind = row.kind.clone();
    if row.relocatable == Some(true) {
        kind.push_str(" -c");
    }
    let made_by = row.made_by.as_ref();
    let version = made_by.and_then(|made| made.version.as_deref());
    let made = made_by.map(|made| format!("{} {}", made.tool, version.unwrap_or("?")));
    let isa = (row.kind == "ptx").then(|| row.version.as_ref().map(|version| format!("PTX {version}"))).flatten();
    let jit = row.jit.as_ref().and_then(|jit| jit.companion.as_ref()).map(|other| format!("with {other}"));
    let options = made_by.and_then(|made| made.options.clone()).or_else(|| row.options.clone()).or(jit);
    let kernels = match (&row.kernels, &row.error) {
        (_, Some(_)) => "error".to_owned(),
        (Some(kernels), _) => thousands(kernels.len() as u64),
        (None, _) => "-".to_owned(),
    };
    let packing = if row.obfuscated { format!("{}, scrambled", row.compression) } else { row.compression.to_owned() };
    let cells = [
        if local.is_empty() { "." } else { local }.to_owned(),
        kind,
        row.arch.clone().unwrap_or_else(|| "?".to_owned()),
        packing,
        thousands(row.stored_bytes),
        thousands(row.bytes),
        kernels,
        made.or(isa).unwrap_or_else(|| "-".to_owned()),
        options.unwrap_or_default(),
    ];
    cells.iter().map(|cell| terminal(cell).into_owned()).collect()
}

fn write_row(out: &mut dyn Write, cells: &[String], widths: &[usize], left_out: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (at, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if left_out.contains(&at) {
            continue;
        }
        // The end of a path tells entries apart.
        let cell = shorten_start(cell, width);
        let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = if FIGURES.contains(&at) { (&*pad, "") } else { ("", &*pad) };
        line.push_str("  ");
        line.push_str(before);
        line.push_str(&cell);
        line.push_str(after);
    }
    writeln!(out, "{}", line.trim_end())
}

/// `…-sm_90a.cubin`
fn shorten_start(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return text.into();
    }
    let end: String = text.chars().skip(length + 1 - width.max(1)).collect();
    format!("…{end}").into()
}
