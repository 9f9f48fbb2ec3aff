//! What loops cost, as text and as JSON.

pub(super) mod accesses;
mod json;
mod text;

pub use json::write_json;
pub use text::{wait_words, waited_for, write_text};

/// How text is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Columns.
    pub width: usize,
    /// All waits, too; of accesses all.
    pub verbose: bool,
    /// Accesses of memory instead of loops.
    pub accesses: bool,
}
