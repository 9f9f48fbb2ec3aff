//! The listing of instructions, as text and as JSON, a function at a time: a library does not fit in memory twice.

use std::io::{self, Write};

use super::escape::terminal;
use super::text::{BOLD, DIM, RESET};
use crate::report::listing::{LISTING_SCHEMA, ListedFunction, ListedInstruction};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The words in hexadecimal.
    pub hex: bool,
}

/// Writes one function as text.
pub fn write_text(function: &ListedFunction, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{BOLD}{}{RESET}", terminal(&function.name))?;
    if function.name != function.kernel {
        write!(out, "  {DIM}in {}{RESET}", terminal(&function.kernel))?;
    }
    writeln!(out)?;
    writeln!(out, "  {DIM}   pc  gpr pred ugpr upred  line  instruction{RESET}")?;
    for instruction in &function.instructions {
        write_row(instruction, options, out)?;
    }
    Ok(())
}

fn write_row(instruction: &ListedInstruction, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "  {:>5}", instruction.pc)?;
    match instruction.live {
        Some(live) => write!(out, "  {:>3} {:>4} {:>4} {:>5}", live.gpr, live.pred, live.ugpr, live.upred)?,
        None => write!(out, "  {:>3} {:>4} {:>4} {:>5}", "", "", "", "")?,
    }
    match instruction.ptx_line {
        Some(line) => write!(out, " {line:>5}")?,
        None => write!(out, " {:>5}", "-")?,
    }
    match &instruction.text {
        Some(text) => write!(out, "  {text}")?,
        None => write!(out, "  .word 0x{}", instruction.hex)?,
    }
    if instruction.spill == Some(true) {
        write!(out, "  {DIM}spill{RESET}")?;
    }
    if options.hex && instruction.text.is_some() {
        write!(out, "  {DIM}/* 0x{} */{RESET}", instruction.hex)?;
    }
    writeln!(out)
}

/// Writes units as one JSON document, a function a line. Functions come from an iterator so that only one is in memory.
pub struct JsonWriter<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl<'a> JsonWriter<'a> {
    /// Starts the document.
    pub fn start(out: &'a mut dyn Write) -> io::Result<Self> {
        writeln!(out, "{{\"schema\":\"{LISTING_SCHEMA}\",\"functions\":[")?;
        Ok(JsonWriter { out, first: true })
    }

    /// Writes one function.
    pub fn function(&mut self, function: &ListedFunction) -> io::Result<()> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, function).map_err(io::Error::from)
    }

    /// Ends the document.
    pub fn finish(self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }
}
