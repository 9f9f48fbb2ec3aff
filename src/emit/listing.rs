//! The listing of instructions, as text and as JSON, a function at a time: a library does not fit in memory twice.

use std::io::{self, Write};

use super::control::control;
use super::escape::terminal;
use super::text::{BOLD, DIM, RESET};
use crate::report::listing::{LISTING_SCHEMA, ListedFunction, ListedInstruction};

/// How wide [`control`] is.
const CONTROL: usize = 19;

/// What the reader asked to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The words in hexadecimal.
    pub hex: bool,
    /// What instructions tell the scheduler.
    pub control: bool,
    /// Which registers are live, below each instruction.
    pub sets: bool,
    /// What to say of a word that has no text.
    pub no_text: &'static str,
}

/// Writes one function as text.
pub fn write_text(function: &ListedFunction, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{BOLD}{}{RESET}", terminal(&function.name))?;
    if function.name != function.kernel {
        write!(out, "  {DIM}in {}{RESET}", terminal(&function.kernel))?;
    }
    writeln!(out)?;
    let scheduling = if options.control { format!("  {:<CONTROL$}", "control") } else { String::new() };
    writeln!(out, "  {DIM}   pc  gpr pred ugpr upred  line{scheduling}  instruction{RESET}")?;
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
    if options.control {
        write!(out, "  {DIM}{:<CONTROL$}{RESET}", instruction.control.as_ref().map(control).unwrap_or_default())?;
    }
    match &instruction.text {
        Some(text) => write!(out, "  {}", terminal(text))?,
        None => write!(out, "  .word 0x{}{}", instruction.hex, options.no_text)?,
    }
    if instruction.spill == Some(true) {
        write!(out, "  {DIM}spill{RESET}")?;
    }
    if options.hex && instruction.text.is_some() {
        write!(out, "  {DIM}/* 0x{} */{RESET}", instruction.hex)?;
    }
    writeln!(out)?;
    if options.sets {
        write!(out, "  {:>5}  {DIM}", "")?;
        match &instruction.live_registers {
            Some(registers) if registers.0.is_empty() => write!(out, "none live")?,
            Some(registers) => write!(out, "{registers}")?,
            None => write!(out, "not known")?,
        }
        writeln!(out, "{RESET}")?;
    }
    Ok(())
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
