//! Errors and advisories the way compilers show them: what, where, the line itself.

use std::io::{self, Write};

use super::Options;
use super::style::{BAD, BOLD, DIM, NOTE, RESET, WARN};
use super::wrap::wrap;
use crate::base::Line;
use crate::emit::escape::{terminal, terminal_lines};
use crate::emit::links;
use crate::report::{Severity, Unit, shorten, spelt};

pub(super) fn severity(severity: Severity) -> (anstyle::Style, &'static str) {
    match severity {
        Severity::Info => (NOTE, "info"),
        Severity::Warning => (WARN, "warning"),
        Severity::Error => (BAD, "error"),
    }
}

/// `error: what`, over as many lines as it takes.
pub fn write_error(message: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BAD}error{RESET}: {}", terminal_lines(&spelt(message)))
}

/// Something that is worth a word and changes no result.
pub fn write_warning(message: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{WARN}warning{RESET}: {}", terminal_lines(message))
}

/// Why a unit has no result, with ptxas's errors on their lines. Writes nothing for a unit that has one.
pub fn write_unit_error(unit: &Unit, out: &mut dyn Write) -> io::Result<()> {
    let Some(error) = &unit.error else { return Ok(()) };
    for diagnostic in &error.diagnostics {
        let (style, label) = severity(diagnostic.severity);
        let code = diagnostic.code.as_ref().map(|code| format!("[{}]", terminal(code))).unwrap_or_default();
        writeln!(out, "{style}{label}{code}{RESET}: {BOLD}{}{RESET}", terminal(&spelt(&diagnostic.message)))?;
        let source = diagnostic.source.as_ref().map(|at| format!("{}:{}", terminal(&at.file), at.line));
        match (diagnostic.ptx_line, &source) {
            (Some(line), source) => {
                let also = source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
                let gutter = " ".repeat(line.to_string().len());
                writeln!(out, "{gutter}{DIM}-->{RESET} {}:{line}{also}", terminal(&unit.input))?;
                if let Some(text) = &diagnostic.text {
                    writeln!(out, "{gutter} {DIM}|{RESET}")?;
                    writeln!(out, "{DIM}{line} |{RESET} {}", shorten(&terminal(text), 400))?;
                    writeln!(out, "{gutter} {DIM}|{RESET}")?;
                }
            }
            (None, Some(source)) => writeln!(out, " {DIM}-->{RESET} {source}")?,
            (None, None) => {}
        }
    }
    write_error(&error.message, out)
}

/// A message to be shown.
pub(super) struct Told<'a> {
    /// How bad it is, in colour and in a word.
    pub label: (anstyle::Style, &'static str),
    /// Its code.
    pub code: Option<&'a str>,
    /// What it says.
    pub message: &'a str,
    /// The line to quote.
    pub ptx_line: Option<Line>,
}

/// A line's number, right-aligned, that leads to it.
pub(super) fn numbered(line: Line, width: usize, unit: &Unit, options: &Options) -> String {
    let text = line.to_string();
    let pad = " ".repeat(width.saturating_sub(text.len()));
    format!("{pad}{}", links::to(options.links, &unit.input, Some(line), &text))
}

/// A message with its line.
pub(super) fn write(
    told: &Told<'_>,
    unit: &Unit,
    indent: &str,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (style, label) = told.label;
    let code = told.code.map(|code| format!(" {}", terminal(code))).unwrap_or_default();
    let message = format!("{style}{label}{code}{RESET}: {}", terminal(&options.spelt(told.message)));
    for (index, line) in wrap(&message, options.width.saturating_sub(indent.len() + 2)).iter().enumerate() {
        writeln!(out, "{indent}{}{line}", if index == 0 { "" } else { "  " })?;
    }
    match told.ptx_line {
        Some(line) => write_line(line, unit, &format!("{indent}  "), options, out),
        None => Ok(()),
    }
}

/// One PTX line with its number.
fn write_line(line: Line, unit: &Unit, indent: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let statement = unit.ptx.statement(line).unwrap_or_default();
    let text = terminal(&statement);
    let room = options.width.saturating_sub(indent.len() + 10).max(20);
    writeln!(out, "{indent}{DIM}{} |{RESET} {}", numbered(line, 6, unit, options), shorten(&text, room))
}
