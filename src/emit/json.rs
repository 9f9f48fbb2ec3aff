//! JSON: the model as it is, one object and a line feed.

use std::io::{self, Write};

use crate::report::Report;

/// Writes the report, indented.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report).map_err(io::Error::from)?;
    out.write_all(b"\n")
}
