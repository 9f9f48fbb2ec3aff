//! What GPU code is inside: a table for people, JSON lines for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::escape::terminal;
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
    rows: Vec<(String, Vec<String>)>,
    out: &'a mut dyn Write,
}

const HEAD: [&str; 9] = ["entry", "kind", "arch", "packing", "stored", "bytes", "kernels", "made by", "options"];
/// Columns of figures, to the right.
const FIGURES: [usize; 3] = [4, 5, 6];

impl<'a> ListWriter<'a> {
    /// Begins.
    pub fn start(json: bool, out: &'a mut dyn Write) -> io::Result<Self> {
        let mut writer = ListWriter { json, rows: Vec::new(), out };
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
        let head: Vec<String> = HEAD.iter().map(|&head| head.to_owned()).collect();
        let mut file = None;
        for (of, cells) in &self.rows {
            if file != Some(of) {
                let gap = if file.is_some() { "\n" } else { "" };
                writeln!(self.out, "{gap}{}", terminal(of))?;
                if file.is_none() {
                    write_row(self.out, &head, &widths)?;
                }
                file = Some(of);
            }
            write_row(self.out, cells, &widths)?;
        }
        writeln!(self.out)?;
        for (key, sum) in &totals.by_kind {
            writeln!(self.out, "{key:<14} {}", sum_text(sum))?;
        }
        let all = Sum {
            entries: totals.entries,
            stored_bytes: totals.stored_bytes,
            bytes: totals.bytes,
            kernels: totals.kernels,
        };
        writeln!(self.out, "{:<14} {}", "total", sum_text(&all))?;
        if totals.errors > 0 {
            writeln!(self.out, "{:<14} {:>8}", "not readable", totals.errors)?;
        }
        Ok(())
    }
}

/// A line of sums.
fn sum_text(sum: &Sum) -> String {
    format!(
        "{:>8} entries {:>14} B stored {:>14} B {:>8} kernels",
        sum.entries, sum.stored_bytes, sum.bytes, sum.kernels
    )
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
        (Some(kernels), _) => kernels.len().to_string(),
        (None, _) => "-".to_owned(),
    };
    let packing = if row.obfuscated { format!("{}, scrambled", row.compression) } else { row.compression.to_owned() };
    let cells = [
        if local.is_empty() { "." } else { local }.to_owned(),
        kind,
        row.arch.clone().unwrap_or_else(|| "?".to_owned()),
        packing,
        row.stored_bytes.to_string(),
        row.bytes.to_string(),
        kernels,
        made.or(isa).unwrap_or_else(|| "-".to_owned()),
        options.unwrap_or_default(),
    ];
    cells.iter().map(|cell| terminal(cell).into_owned()).collect()
}

fn write_row(out: &mut dyn Write, cells: &[String], widths: &[usize]) -> io::Result<()> {
    let mut line = String::from(" ");
    for (at, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = if FIGURES.contains(&at) { (&*pad, "") } else { ("", &*pad) };
        line.push(' ');
        line.push_str(before);
        line.push_str(cell);
        line.push_str(after);
        line.push(' ');
    }
    writeln!(out, "{}", line.trim_end())
}
