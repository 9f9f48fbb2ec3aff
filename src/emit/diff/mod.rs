//! Two builds side by side: for people at a terminal, as a page, for programs.

mod html;
mod text;

use std::io::{self, Write};

use crate::compare::{Difference, LineChange, SassChange, SideFacts};

pub use html::write as write_html;
pub use text::{write as write_text, write_kernel, write_title};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many lines and changes of code for a kernel.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// What shows more lines and changes.
    pub more: &'static str,
}

/// How the command line is told to show more.
pub const MORE: &str = "--top";

/// What is said of code whose changes were not worked out.
const CODE_LEFT_OUT: &str = "the code differs; how is too much to work out";

/// What is said of kernels whose lines were not compared.
const LINES_LEFT_OUT: &str = "its lines were not compared: those of all kernels are too many";

/// What is said of changes that are in no hunk.
fn left_out(sass: &SassChange) -> String {
    format!("and {} instructions more, gone or new", sass.left_out)
}

/// The comparison as it is: one object and a line feed.
pub fn write_json(difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, difference).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// What a side was built from and with; not escaped.
fn side(facts: &SideFacts) -> String {
    let mut text = facts.input.clone();
    if let Some(arch) = &facts.arch {
        text.push_str(&format!("  {arch}"));
    }
    if let Some(ptxas) = &facts.ptxas {
        text.push_str(&format!("  ptxas {}", ptxas.trim_start_matches("ptxas ")));
    }
    if let Some(path) = &facts.ptxas_path {
        text.push_str(&format!(" ({path})"));
    }
    let own = |flag: &&String| *flag != "-v" && *flag != "-lineinfo" && !flag.starts_with("-arch=");
    for flag in facts.flags.iter().filter(own) {
        text.push_str(&format!(" {flag}"));
    }
    text
}

/// The lines where live registers or spills moved most, in their order, and how many more there are.
fn moved_lines(lines: &[LineChange], most: usize) -> (Vec<&LineChange>, usize) {
    let weight = |line: &LineChange| line.spills_gained().abs() * 100 + line.live_gained().abs();
    let moved: Vec<&LineChange> = lines.iter().filter(|line| weight(line) > 0 || line.before_line.is_none()).collect();
    let mut ranked: Vec<(i64, usize)> = moved.iter().enumerate().map(|(at, line)| (-weight(line), at)).collect();
    ranked.sort_unstable();
    let mut shown: Vec<usize> = ranked.into_iter().take(most).map(|(_, at)| at).collect();
    shown.sort_unstable();
    let rest = moved.len() - shown.len();
    (shown.into_iter().filter_map(|at| moved.get(at).copied()).collect(), rest)
}

fn step(before: Option<u32>, after: Option<u32>) -> String {
    let show = |value: Option<u32>| value.map_or("–".to_owned(), |value| value.to_string());
    match (before, after) {
        (None, None) => String::new(),
        (before, after) if before == after => show(after),
        (before, after) => format!("{} → {}", show(before), show(after)),
    }
}
