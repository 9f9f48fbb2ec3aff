//! What multiplications multiply, and what registers hold at the lines that were asked about.

use std::collections::HashMap;
use std::io::{self, Write};

use super::Options;
use super::figures::count;
use super::kernel::row;
use super::style::{BOLD, DIM, RESET};
use super::wrap::wrap;
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::emit::matrices;
use crate::report::{Kernel, Multiplication};

/// Kinds of multiplications that are told where not all are asked for.
const SHOWN: usize = 2;
/// Lines that are named.
const LINES: usize = 6;

/// Writes what is multiplied: one row for all multiplications that are alike.
pub fn write(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut alike: Vec<(Vec<String>, Vec<Line>)> = Vec::new();
    let mut known: HashMap<Vec<String>, usize> = HashMap::new();
    for found in &kernel.multiplications {
        let said = matrices::multiplication(&without_place(found));
        let at = *known.entry(said).or_insert_with_key(|said| {
            alike.push((said.clone(), Vec::new()));
            alike.len() - 1
        });
        if let Some((_, lines)) = alike.get_mut(at) {
            lines.push(found.ptx_line);
        }
    }
    let shown = if options.verbose { alike.len() } else { SHOWN.min(alike.len()) };
    for (said, lines) in alike.iter().take(shown) {
        let named: Vec<String> = lines.iter().take(LINES).map(Line::to_string).collect();
        let more = match lines.len().saturating_sub(LINES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let noun = if lines.len() == 1 { "line" } else { "lines" };
        let mut said = said.iter();
        let product = said.next().map(String::as_str).unwrap_or_default();
        row("matrices", &format!("{product}{DIM}, {noun} {}{more}{RESET}", named.join(", ")), options, out)?;
        for factor in said {
            row("", &format!("{DIM}{factor}{RESET}"), options, out)?;
        }
    }
    if shown < alike.len() {
        let rest = (alike.len() - shown) as u64;
        row("", &format!("{DIM}and {}: -v{RESET}", count(rest, "other multiplication")), options, out)?;
    }
    Ok(())
}

/// The same multiplication wherever its tiles start.
fn without_place(found: &Multiplication) -> Multiplication {
    let mut found = found.clone();
    for tile in [&mut found.a, &mut found.b].into_iter().filter_map(|factor| factor.tile.as_mut()) {
        tile.start = None;
    }
    found
}

/// Writes what registers hold at the lines that were asked about.
pub fn write_fragments(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for found in &kernel.fragments_at {
        writeln!(out, "  {DIM}elements that registers hold at line {}{RESET}", found.ptx_line)?;
        writeln!(out, "    {}", terminal(&found.instruction))?;
        for line in wrap(&matrices::letters(found), options.width.saturating_sub(4)) {
            writeln!(out, "    {DIM}{line}{RESET}")?;
        }
        for fragment in &found.fragments {
            let (title, rows) = matrices::fragment(fragment, options.verbose);
            for line in wrap(&title, options.width.saturating_sub(4)) {
                writeln!(out, "    {BOLD}{line}{RESET}")?;
            }
            for row in rows {
                for (at, line) in wrap(&row, options.width.saturating_sub(10)).iter().enumerate() {
                    writeln!(out, "{:indent$}{line}", "", indent = if at == 0 { 6 } else { 10 })?;
                }
            }
        }
    }
    Ok(())
}
