//! `ptxinspect list X…`: what GPU code is inside.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use anyhow::Result;
use clap::Args as ClapArgs;
use regex::bytes::Regex;
use serde::Serialize;

use super::Outcome;
use super::args::{OutputArgs, TextOrJson};
use super::choose::ChooseArgs;
use super::output;
use super::progress::Progress;
use crate::container::{ContainerError, Entry, EntryKind, Place};
use crate::cubin::{ElfKind, FunctionKind, Image};
use crate::emit;
use crate::emit::escape::terminal;
use crate::engine::contents::{self, Choice};
use crate::report::demangle;

/// `ptxinspect list X…`
#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// What to look at.
    #[command(flatten)]
    pub choose: ChooseArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The form of the list; JSON is one object a line
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TextOrJson,
    /// Only what the containers' headers say: nothing is decompressed, no kernels are named
    #[arg(long, conflicts_with = "kernel", help_heading = "Output")]
    pub headers: bool,
}

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Header { schema: &'static str },
    Entry(&'a Row),
    Error { path: &'a str, message: String },
    Totals(&'a Totals),
}

/// What is shown of an entry.
#[derive(Debug, Serialize)]
struct Row {
    path: String,
    file: String,
    kind: String,
    arch: Option<String>,
    place: &'static str,
    compression: &'static str,
    stored_bytes: u64,
    bytes: u64,
    /// Names of kernels; null when nothing was decompressed or it is neither a cubin nor PTX.
    kernels: Option<Vec<String>>,
    /// Of a cubin: functions that are not kernels.
    device_functions: Option<u64>,
    /// Of a cubin: whether it is still to be linked.
    relocatable: Option<bool>,
    made_by: Option<MadeBy>,
    identifier: Option<String>,
    /// Options for ptxas that the entry records.
    options: Option<String>,
    /// The PTX ISA, or the version of the cubin format.
    version: Option<String>,
    debug: bool,
    obfuscated: bool,
    jit: Option<Jit>,
    error: Option<String>,
}

/// Which tool wrote a cubin.
#[derive(Debug, Serialize)]
struct MadeBy {
    tool: String,
    version: Option<String>,
    options: Option<String>,
}

/// What a compiler's cache says.
#[derive(Debug, Serialize)]
struct Jit {
    kernel: Option<String>,
    companion: Option<String>,
    options: serde_json::Map<String, serde_json::Value>,
}

/// Sums over all entries.
#[derive(Debug, Default, Serialize)]
struct Totals {
    entries: u64,
    errors: u64,
    stored_bytes: u64,
    bytes: u64,
    kernels: u64,
    by_kind: BTreeMap<String, Sum>,
}

#[derive(Debug, Default, Serialize)]
struct Sum {
    entries: u64,
    stored_bytes: u64,
    bytes: u64,
    kernels: u64,
}

/// Lists.
pub fn run(args: &ListArgs) -> Result<Outcome> {
    let choice = Choice::new(&args.choose.choose()?)?;
    let progress = Progress::of_bytes(args.output.quiet);
    let mut totals = Totals::default();
    let mut messages = Vec::new();
    output::write(&args.output, args.format, |out| {
        let mut sink = Sink { args, rows: Vec::new(), out };
        sink.start()?;
        choice
            .visit(
                |entry| look(entry, &choice, args.headers),
                |result| {
                    totals.count(&result);
                    if let Some(message) = message(&result) {
                        messages.push(message);
                    }
                    sink.take(result).map_err(anyhow::Error::from)
                },
                &progress,
            )
            .map_err(|error| match error.downcast::<io::Error>() {
                Ok(error) => error,
                Err(error) => io::Error::other(error),
            })?;
        sink.finish(&totals)
    })?;
    let mut errors = output::errors();
    for message in &messages {
        emit::text::write_error(message, &mut errors)?;
    }
    if totals.errors > 0 {
        return Ok(Outcome::Failed);
    }
    if totals.entries == 0 && !args.output.quiet {
        let what = if choice.is_everything() { "no GPU code inside" } else { "nothing that was asked for inside" };
        writeln!(errors, "{what}: {}", inputs(&args.choose))?;
    }
    Ok(Outcome::Fine)
}

fn inputs(choose: &ChooseArgs) -> String {
    choose.inputs.iter().map(|path| terminal(&path.display().to_string()).into_owned()).collect::<Vec<_>>().join(", ")
}

fn message(result: &Result<Row, ContainerError>) -> Option<String> {
    match result {
        Ok(row) => row.error.clone(),
        Err(error) => Some(error.to_string()),
    }
}

/// Reads an entry as far as the list needs it.
fn look(entry: &Entry, choice: &Choice, headers_only: bool) -> Option<Row> {
    let mut row = Row {
        path: entry.path.clone(),
        file: entry.file.to_string(),
        kind: entry.kind.name().into_owned(),
        arch: None,
        place: match entry.place {
            Place::Bare => "file",
            Place::Executable => "executable",
            Place::Relocatable => "relocatable",
            Place::Embedded => "embedded",
        },
        compression: entry.compression.name(),
        stored_bytes: entry.stored_bytes,
        bytes: entry.bytes,
        kernels: None,
        device_functions: None,
        relocatable: None,
        made_by: None,
        identifier: entry.identifier.clone(),
        options: entry.options.clone(),
        version: entry.version.map(|(major, minor)| format!("{major}.{minor}")),
        debug: entry.debug,
        obfuscated: entry.obfuscated,
        jit: entry.jit.as_ref().map(|jit| Jit {
            kernel: jit.kernel.clone(),
            companion: jit.companion.clone(),
            options: jit.options.clone(),
        }),
        error: None,
    };
    let mut arch = entry.arch;
    let readable = !headers_only && !entry.obfuscated;
    if readable && matches!(entry.kind, EntryKind::Cubin | EntryKind::Ptx) {
        match entry.read() {
            Err(error) => row.error = Some(error.to_string()),
            Ok(bytes) if entry.kind == EntryKind::Ptx => row.kernels = Some(ptx_kernels(&bytes)),
            Ok(bytes) => match Image::parse(&bytes) {
                Err(error) => row.error = Some(format!("{}: {error}", entry.path)),
                Ok(image) => {
                    arch = contents::arch(entry, Some(&image));
                    row.describe(&image);
                }
            },
        }
    }
    row.arch = arch.map(|arch| arch.to_string());
    if !choice.wants_arch(arch) {
        return None;
    }
    // What could not be read may be what was asked for: it is shown.
    let kernels = row.kernels.as_deref().unwrap_or(&[]);
    let wanted = choice.kernels.is_empty()
        || row.error.is_some()
        || kernels
            .iter()
            .any(|name| choice.kernels.matches([name.as_str()].into_iter().chain(demangle(name).as_deref())));
    wanted.then_some(row)
}

impl Row {
    fn describe(&mut self, image: &Image<'_>) {
        let entries = image.functions.iter().filter(|function| function.kind == FunctionKind::Entry);
        let kernels: Vec<String> = entries.map(|function| function.name.to_string()).collect();
        self.device_functions = Some((image.functions.len() - kernels.len()) as u64);
        self.kernels = Some(kernels);
        self.relocatable = Some(image.kind == ElfKind::Relocatable);
        // The last tool is the one that wrote the file: nvlink after ptxas.
        self.made_by = match image.toolkit.tools.last() {
            Some(tool) => Some(MadeBy {
                tool: tool.name.to_string(),
                version: tool.release().map(str::to_owned),
                options: Some(tool.options.split_ascii_whitespace().collect::<Vec<_>>().join(" ")),
            }),
            // Files without notes have the toolkit's number alone.
            None => image.toolkit.version.map(|(major, minor)| MadeBy {
                tool: "ptxas".to_owned(),
                version: Some(format!("{major}.{minor}")),
                options: None,
            }),
        };
    }
}

/// Names after `.entry`, as far as the text alone tells.
pub(super) fn ptx_kernels(text: &[u8]) -> Vec<String> {
    // The alternatives before the name swallow comments and strings, where .entry means nothing.
    static ENTRY: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?s-u)//[^\n]*|/\*.*?\*/|"[^"\n]*"|\.entry\s+([A-Za-z0-9_$%]+)"#).ok());
    let Some(entry) = ENTRY.as_ref() else { return Vec::new() };
    entry
        .captures_iter(text)
        .filter_map(|found| Some(String::from_utf8_lossy(found.get(1)?.as_bytes()).into_owned()))
        .collect()
}

impl Totals {
    fn count(&mut self, result: &Result<Row, ContainerError>) {
        let row = match result {
            Ok(row) => row,
            Err(_) => {
                self.errors += 1;
                return;
            }
        };
        self.errors += u64::from(row.error.is_some());
        let kernels = row.kernels.as_ref().map_or(0, Vec::len) as u64;
        let key = format!("{} {}", row.kind, row.arch.as_deref().unwrap_or("?"));
        let sum = self.by_kind.entry(key).or_default();
        for (total, add) in [
            (&mut self.entries, 1),
            (&mut self.stored_bytes, row.stored_bytes),
            (&mut self.bytes, row.bytes),
            (&mut self.kernels, kernels),
            (&mut sum.entries, 1),
            (&mut sum.stored_bytes, row.stored_bytes),
            (&mut sum.bytes, row.bytes),
            (&mut sum.kernels, kernels),
        ] {
            *total = total.saturating_add(add);
        }
    }
}

/// Where rows go: JSON as they come, text when all are there, because columns are as wide as their widest cell.
struct Sink<'a> {
    args: &'a ListArgs,
    rows: Vec<(String, Vec<String>)>,
    out: &'a mut dyn Write,
}

const HEAD: [&str; 9] = ["entry", "kind", "arch", "packing", "stored", "bytes", "kernels", "made by", "options"];
/// Columns of figures, to the right.
const FIGURES: [usize; 3] = [4, 5, 6];

impl Sink<'_> {
    fn start(&mut self) -> io::Result<()> {
        match self.args.format {
            TextOrJson::Json => self.line(&Line::Header { schema: "ptxinspect.list/1" }),
            TextOrJson::Text => Ok(()),
        }
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, line)?;
        self.out.write_all(b"\n")
    }

    fn take(&mut self, result: Result<Row, ContainerError>) -> io::Result<()> {
        match (self.args.format, result) {
            (TextOrJson::Json, Ok(row)) => self.line(&Line::Entry(&row)),
            (TextOrJson::Json, Err(error)) => {
                let message = error.problem.to_string();
                self.line(&Line::Error { path: &error.path, message })
            }
            (TextOrJson::Text, Ok(row)) => {
                let cells = cells(&row);
                self.rows.push((row.file, cells));
                Ok(())
            }
            // Errors go to standard error, after the table.
            (TextOrJson::Text, Err(_)) => Ok(()),
        }
    }

    fn finish(&mut self, totals: &Totals) -> io::Result<()> {
        if self.args.format == TextOrJson::Json {
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
            writeln!(self.out, "{key:<14} {}", sum.text())?;
        }
        let all = Sum {
            entries: totals.entries,
            stored_bytes: totals.stored_bytes,
            bytes: totals.bytes,
            kernels: totals.kernels,
        };
        writeln!(self.out, "{:<14} {}", "total", all.text())?;
        if totals.errors > 0 {
            writeln!(self.out, "{:<14} {:>8}", "not readable", totals.errors)?;
        }
        Ok(())
    }
}

impl Sum {
    fn text(&self) -> String {
        format!(
            "{:>8} entries {:>14} B stored {:>14} B {:>8} kernels",
            self.entries, self.stored_bytes, self.bytes, self.kernels
        )
    }
}

fn cells(row: &Row) -> Vec<String> {
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

/// Stored and read as they are: what `extract` and `list` share.
pub(super) fn extension(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Ptx => "ptx",
        EntryKind::Cubin => "cubin",
        EntryKind::LtoIr => "ltoir",
        EntryKind::TileIr => "tileir",
        EntryKind::Other(_) => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_ptx_text() {
        let text = b".version 8.0\n// .entry no(\n/* .entry\n no */ .visible .entry yes(\n.entry\t$too%1 ()\n.file 1 \".entry no\"";
        assert_eq!(ptx_kernels(text), ["yes", "$too%1"]);
    }

    #[test]
    fn names_are_spelt() {
        assert_eq!(crate::container::Compression::Zstd.name(), "zstd");
        assert_eq!(extension(EntryKind::Other(64)), "bin");
    }
}
