//! The listing of instructions, as text and as JSON, a function at a time: a library does not fit in memory twice.

use std::io::{self, Write};

use super::control::{control, explained};
use super::escape::terminal;
use super::text::{BOLD, DIM, RESET, wrap};
use crate::report::listing::{LISTING_SCHEMA, ListedFunction, Part, Row, RowText};

/// How wide [`control`] is.
const CONTROL: usize = 19;

/// What the reader asked to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The words in hexadecimal.
    pub hex: bool,
    /// What instructions tell the scheduler.
    pub control: bool,
    /// The same in words, below each instruction.
    pub explain: bool,
    /// Which registers are live, below each instruction.
    pub sets: bool,
    /// What to say of a word that has no text.
    pub no_text: &'static str,
    /// Columns of whoever reads it; none for a program.
    pub width: Option<usize>,
}

/// Rows that are handed on at once.
const ROWS_BYTES: usize = 1 << 15;

/// Writes one function as text.
pub fn write_text(function: &ListedFunction, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Rows::start(&function.name, &function.kernel, options, out)?;
    function.instructions.iter().try_for_each(|instruction| rows.row(&instruction.into()))?;
    rows.finish()
}

/// Writes one function as text, its rows as they are made.
pub fn write_part(part: &Part<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Rows::start(part.name, part.kernel, options, out)?;
    part.rows(|row| rows.row(row))?;
    rows.finish()
}

/// Rows on their way out.
struct Rows<'a> {
    options: &'a Options,
    out: &'a mut dyn Write,
    gathered: Vec<u8>,
}

impl<'a> Rows<'a> {
    fn start(name: &str, kernel: &str, options: &'a Options, out: &'a mut dyn Write) -> io::Result<Self> {
        write!(out, "{BOLD}{}{RESET}", terminal(name))?;
        if name != kernel {
            write!(out, "  {DIM}in {}{RESET}", terminal(kernel))?;
        }
        writeln!(out)?;
        let scheduling = if options.control { format!("  {:<CONTROL$}", "control") } else { String::new() };
        let mut head = format!("     pc  gpr pred ugpr upred  line{scheduling}").into_bytes();
        let taken = head.len();
        head.extend_from_slice(b"  instruction");
        if let Some(width) = options.width {
            fold(&mut head, taken, taken, width);
        }
        for line in String::from_utf8_lossy(&head).lines() {
            let text = line.trim_start();
            writeln!(out, "{}{DIM}{text}{RESET}", &line[..line.len() - text.len()])?;
        }
        Ok(Rows { options, out, gathered: Vec::with_capacity(2 * ROWS_BYTES) })
    }

    #[inline]
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        push_row(row, self.options, &mut self.gathered);
        if self.gathered.len() >= ROWS_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Puts a row together: there are millions of them, so that figures are written without the machinery of formats.
#[inline]
fn push_row(instruction: &Row<'_>, options: &Options, row: &mut Vec<u8>) {
    let start = row.len();
    push_figures(instruction, row);
    let figures = row.len() - start;
    // What is written into memory is always written.
    if options.control {
        let control = instruction.control().as_ref().map(control).unwrap_or_default();
        let _ = write!(row, "  {DIM}{control:<CONTROL$}{RESET}");
    }
    let start = row.len();
    row.extend_from_slice(b"  ");
    match instruction.text {
        RowText::Own(text) => row.extend_from_slice(text.as_bytes()),
        RowText::Read(text) => row.extend_from_slice(terminal(text).as_bytes()),
        RowText::None => {
            let _ = write!(row, ".word 0x{:032x}{}", instruction.word, options.no_text);
        }
    }
    if instruction.is_spill {
        let _ = write!(row, "  {DIM}spill{RESET}");
    }
    if options.hex && !matches!(instruction.text, RowText::None) {
        let _ = write!(row, "  {DIM}/* 0x{:032x} */{RESET}", instruction.word);
    }
    if let Some(width) = options.width {
        let taken = figures + if options.control { CONTROL + 2 } else { 0 };
        fold(row, start, taken, width);
    }
    row.push(b'\n');
    if options.explain || options.sets {
        push_below(instruction, options, row);
    }
}

/// What is shown below an instruction.
fn push_below(instruction: &Row<'_>, options: &Options, row: &mut Vec<u8>) {
    let room = options.width.unwrap_or(usize::MAX).saturating_sub(9).max(LEAST_TEXT);
    if let Some(control) = instruction.control().filter(|_| options.explain) {
        for line in wrap(&explained(&control), room) {
            let _ = writeln!(row, "         {DIM}{line}{RESET}");
        }
    }
    if options.sets {
        let said = match &instruction.live_registers {
            Some(registers) if registers.0.is_empty() => "none live".to_owned(),
            Some(registers) => registers.to_string(),
            None => "not known".to_owned(),
        };
        for line in wrap(&said, room) {
            let _ = writeln!(row, "         {DIM}{line}{RESET}");
        }
    }
}

/// Columns that an instruction has at least, beside its figures.
const LEAST_TEXT: usize = 24;
/// Where it starts on a line of its own.
const BELOW: usize = 8;

/// What begins at `start` in as many lines as its reader's columns ask for, behind `taken` columns or below them.
fn fold(row: &mut Vec<u8>, start: usize, taken: usize, width: usize) {
    let tail = row.split_off(start);
    let tail = String::from_utf8_lossy(&tail);
    let room = width.saturating_sub(taken + 2);
    // A word that has no room beside its figures may have it below.
    let beside = room >= LEAST_TEXT && tail.split(' ').all(|word| word.chars().count() <= room);
    let (indent, room) = if beside { (taken + 2, room) } else { (BELOW, width.saturating_sub(BELOW).max(LEAST_TEXT)) };
    for (at, line) in wrap(tail.trim_start(), room).iter().enumerate() {
        if at == 0 && beside {
            row.extend_from_slice(b"  ");
        } else {
            row.push(b'\n');
            row.extend(std::iter::repeat_n(b' ', indent));
        }
        row.extend_from_slice(line.as_bytes());
    }
}

/// Where it is, how many registers are live, its line: columns of a row that are nearly always as wide as each other.
#[inline]
fn push_figures(instruction: &Row<'_>, row: &mut Vec<u8>) {
    let mut columns = *b"                                     ";
    let line = instruction.ptx_line.map(|line| line.0);
    let most = instruction.live.map_or(0, |live| live.gpr.max(live.pred).max(live.ugpr).max(live.upred));
    if instruction.pc.0 > 0xffff || most > 999 || line.is_some_and(|line| line > 99_999) {
        return push_wide_figures(instruction, row);
    }
    for (to, at) in columns[2..6].iter_mut().zip([12, 8, 4, 0]) {
        *to = b"0123456789abcdef"[(instruction.pc.0 >> at & 0xf) as usize];
    }
    if let Some(live) = instruction.live {
        for (number, end) in [(live.gpr, 11), (live.pred, 16), (live.ugpr, 21), (live.upred, 27)] {
            put_number(&mut columns, number, end);
        }
    }
    match line {
        Some(line) => put_number(&mut columns, line, 33),
        None => columns[32] = b'-',
    }
    row.extend_from_slice(&columns[..33]);
}

/// A number that ends before a column.
#[inline]
fn put_number(columns: &mut [u8; 37], mut number: u32, end: usize) {
    for to in columns[..end].iter_mut().rev() {
        *to = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
}

/// The same for figures that need more room.
fn push_wide_figures(instruction: &Row<'_>, row: &mut Vec<u8>) {
    row.extend_from_slice(b"  ");
    push_hex(row, instruction.pc.0);
    match instruction.live {
        Some(live) => {
            row.extend_from_slice(b"  ");
            push_number(row, live.gpr, 3);
            for (count, width) in [(live.pred, 4), (live.ugpr, 4), (live.upred, 5)] {
                row.push(b' ');
                push_number(row, count, width);
            }
        }
        None => row.extend_from_slice(b"                     "),
    }
    row.push(b' ');
    match instruction.ptx_line {
        Some(line) => push_number(row, line.0, 5),
        None => row.extend_from_slice(b"    -"),
    }
}

/// A number to the right of so many columns.
fn push_number(row: &mut Vec<u8>, mut number: u32, width: usize) {
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
    row.extend_from_slice(&digits[from..]);
}

/// A number in at least four digits of sixteen.
fn push_hex(row: &mut Vec<u8>, number: u32) {
    let digits = (8 - number.leading_zeros() / 4).max(4);
    for at in (0..digits).rev() {
        row.push(b"0123456789abcdef"[(number >> (4 * at) & 0xf) as usize]);
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
    fn rows_of_usual_figures_are_those_of_all_others() {
        use crate::base::{Line, Pc};
        use crate::report::listing::LiveCounts;
        for (pc, gpr, line) in [(0, 0, None), (0x10, 7, Some(1)), (0xfff0, 255, Some(99_999)), (0xabc0, 40, Some(10))] {
            for live in [None, Some(LiveCounts { gpr, pred: 7, ugpr: 63, upred: 0 })] {
                let (mut usual, mut wide) = (Vec::new(), Vec::new());
                let row = Row {
                    pc: Pc(pc),
                    word: 0,
                    text: RowText::None,
                    live,
                    ptx_line: line.map(Line),
                    is_spill: false,
                    is_known: true,
                    live_registers: None,
                };
                push_figures(&row, &mut usual);
                push_wide_figures(&row, &mut wide);
                assert_eq!(usual, wide);
            }
        }
    }

    #[test]
    fn figures_are_those_of_a_format() {
        for number in [0, 7, 10, 99, 100, 12_345, 123_456, u32::MAX] {
            for width in [1, 3, 5] {
                let mut row = Vec::new();
                push_number(&mut row, number, width);
                assert_eq!(row, format!("{number:>width$}").into_bytes());
            }
            let mut row = Vec::new();
            push_hex(&mut row, number);
            assert_eq!(row, format!("{number:04x}").into_bytes());
        }
    }
}
