//! What a tuning found, as text, as a picture, as a page and as JSON.

mod html;
mod svg;
mod text;

use std::io::{self, Write};

pub use html::write_html;
pub use svg::write_svg;
pub use text::write_text;

use crate::tune::{Row, Tuned, Tuning};

/// How text is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Columns.
    pub width: usize,
    /// The patches, too.
    pub verbose: bool,
}

/// The tuning as it is: one object and a line feed.
pub fn write_json(tuning: &Tuning, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, tuning).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// What a row changes, for people.
fn changes(row: &Row) -> String {
    let mut words: Vec<&str> = row.changes.iter().map(String::as_str).collect();
    if words.is_empty() {
        words.push("as it is");
    }
    words.join(" ")
}

/// The row of a kernel as it is.
fn now(tuned: &Tuned) -> Option<&Row> {
    tuned.rows.iter().find(|row| row.row == 0)
}
