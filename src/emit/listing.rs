//! The listing of instructions, as text and as JSON, a function at a time: a library does not fit in memory twice.

use std::fmt::Write as _;
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
    let mut row = String::new();
    for instruction in &function.instructions {
        row.clear();
        push_row(instruction, options, &mut row);
        out.write_all(row.as_bytes())?;
    }
    Ok(())
}

/// Puts a row together: there are millions of them, so that figures are written without the machinery of formats.
fn push_row(instruction: &ListedInstruction, options: &Options, row: &mut String) {
    row.push_str("  ");
    push_hex(row, instruction.pc.0);
    match instruction.live {
        Some(live) => {
            row.push_str("  ");
            push_number(row, live.gpr, 3);
            for (count, width) in [(live.pred, 4), (live.ugpr, 4), (live.upred, 5)] {
                row.push(' ');
                push_number(row, count, width);
            }
        }
        None => row.push_str("                     "),
    }
    row.push(' ');
    match instruction.ptx_line {
        Some(line) => push_number(row, line.0, 5),
        None => row.push_str("    -"),
    }
    // What is written into a string is always written.
    if options.control {
        let control = instruction.control.as_ref().map(control).unwrap_or_default();
        let _ = write!(row, "  {DIM}{control:<CONTROL$}{RESET}");
    }
    row.push_str("  ");
    match &instruction.text {
        Some(text) => row.push_str(&terminal(text)),
        None => row.extend([".word 0x", &instruction.hex, options.no_text]),
    }
    if instruction.spill == Some(true) {
        let _ = write!(row, "  {DIM}spill{RESET}");
    }
    if options.hex && instruction.text.is_some() {
        let _ = write!(row, "  {DIM}/* 0x{} */{RESET}", instruction.hex);
    }
    row.push('\n');
    if options.sets {
        let _ = match &instruction.live_registers {
            Some(registers) if registers.0.is_empty() => writeln!(row, "         {DIM}none live{RESET}"),
            Some(registers) => writeln!(row, "         {DIM}{registers}{RESET}"),
            None => writeln!(row, "         {DIM}not known{RESET}"),
        };
    }
}

/// A number to the right of so many columns.
fn push_number(row: &mut String, mut number: u32, width: usize) {
    let mut digits = [b' '; 10];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let from = from.min(digits.len().saturating_sub(width));
    row.extend(digits[from..].iter().map(|digit| char::from(*digit)));
}

/// A number in at least four digits of sixteen.
fn push_hex(row: &mut String, number: u32) {
    let digits = (8 - number.leading_zeros() / 4).max(4);
    for at in (0..digits).rev() {
        row.extend(char::from_digit(number >> (4 * at) & 0xf, 16));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_format() {
        for number in [0, 7, 10, 99, 100, 12_345, 123_456, u32::MAX] {
            for width in [1, 3, 5] {
                let mut row = String::new();
                push_number(&mut row, number, width);
                assert_eq!(row, format!("{number:>width$}"));
            }
            let mut row = String::new();
            push_hex(&mut row, number);
            assert_eq!(row, format!("{number:04x}"));
        }
    }
}
