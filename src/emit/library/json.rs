//! The table for programs: `ptxinspect.library/1`, as a document or as lines.

use std::io::{self, Write};

use serde::Serialize;

use super::Table;
use crate::report::library::{EntryFacts, Failure, LIBRARY_SCHEMA, Row, Summary};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    inputs: &'a [String],
    entries: &'a [EntryFacts],
    kernels: &'a [Row],
    summary: &'a Summary,
}

/// Writes one document.
pub fn write_json(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        schema: LIBRARY_SCHEMA,
        inputs: table.inputs,
        entries: table.entries,
        kernels: table.rows,
        summary: table.summary,
    };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// A record a line, each with its `type`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Header { schema: &'static str, inputs: &'a [String] },
    Entry(&'a EntryFacts),
    Kernel(&'a Row),
    Error(&'a Failure),
    Summary(&'a Summary),
}

/// Lines as they come.
pub struct JsonLines<'a> {
    out: &'a mut dyn Write,
}

impl<'a> JsonLines<'a> {
    /// Writes the first line.
    pub fn start(inputs: &[String], out: &'a mut dyn Write) -> io::Result<Self> {
        let mut lines = JsonLines { out };
        lines.line(&Line::Header { schema: LIBRARY_SCHEMA, inputs })?;
        Ok(lines)
    }

    /// A cubin, before its rows.
    pub fn entry(&mut self, entry: &EntryFacts) -> io::Result<()> {
        self.line(&Line::Entry(entry))
    }

    /// A function.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        self.line(&Line::Kernel(row))
    }

    /// Something that could not be read.
    pub fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        self.line(&Line::Error(failure))
    }

    /// The last line.
    pub fn finish(mut self, summary: &Summary) -> io::Result<()> {
        self.line(&Line::Summary(summary))
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, line)?;
        self.out.write_all(b"\n")
    }
}
