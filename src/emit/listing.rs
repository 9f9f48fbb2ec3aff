//! The listing of instructions, as text and as JSON, a function at a time: a library does not fit in memory twice.

use std::io::{self, Write};

use super::control::{control, explained};
use super::escape::terminal;
use super::text::{BOLD, DIM, RESET, wrap};
use crate::base::Line;
use crate::report::listing::{LISTING_SCHEMA, ListedFunction, LiveCounts, Part, Row, RowText, Text};

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

/// Rows that are handed on at once: as much as whoever gathers what is written hands on without gathering it again.
const ROWS_BYTES: usize = 1 << 16;

/// Writes one function as text.
pub fn write_text(function: &ListedFunction, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut gathered = Text::default();
    let mut rows = Rows::start(&function.name, &function.kernel, options, &mut gathered, out);
    function.instructions.iter().try_for_each(|instruction| rows.row(&instruction.into()))?;
    out.write_all(gathered.as_bytes())
}

/// Writes one function as text, its rows as they are made. The last of them are left among those gathered, before those of the next function.
pub fn write_part(part: &Part<'_>, options: &Options, gathered: &mut Text, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Rows::start(part.name, part.kernel, options, gathered, out);
    part.rows(|row| rows.row(row))
}

/// Rows on their way out.
struct Rows<'a> {
    options: &'a Options,
    /// Whether there is nothing to a row but figures and text.
    is_bare: bool,
    out: &'a mut dyn Write,
    gathered: &'a mut Text,
    /// The figure of the line that rows are of.
    line: LineFigure,
}

/// A line of PTX as it stands in a row, and blanks.
struct LineFigure {
    line: Option<Line>,
    columns: [u8; 16],
    len: usize,
}

impl LineFigure {
    /// The columns that it has at least.
    const LEAST: usize = 6;

    /// In five columns at least, with a blank before them.
    fn new(line: Option<Line>) -> LineFigure {
        let text = line.map_or_else(|| format!(" {:>5}", "-"), |line| format!(" {:>5}", line.0));
        let mut columns = [b' '; 16];
        columns.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
        LineFigure { line, columns, len: text.len() }
    }
}

impl<'a> Rows<'a> {
    fn start(
        name: &str,
        kernel: &str,
        options: &'a Options,
        gathered: &'a mut Text,
        out: &'a mut dyn Write,
    ) -> Rows<'a> {
        gathered.push(format!("{BOLD}{}{RESET}", terminal(name)).as_bytes());
        if name != kernel {
            gathered.push(format!("  {DIM}in {}{RESET}", terminal(kernel)).as_bytes());
        }
        gathered.push(b"\n");
        let scheduling = if options.control { format!("  {:<CONTROL$}", "control") } else { String::new() };
        let mut head = format!("     pc  gpr pred ugpr upred  line{scheduling}");
        match options.width {
            Some(width) => head += &String::from_utf8_lossy(&folded("  instruction", head.len(), width)),
            None => head += "  instruction",
        }
        for line in head.lines() {
            let text = line.trim_start();
            gathered.push(format!("{}{DIM}{text}{RESET}\n", &line[..line.len() - text.len()]).as_bytes());
        }
        let Options { hex, control, explain, sets, no_text: _, width } = *options;
        let is_bare = !(hex || control || explain || sets || width.is_some());
        Rows { options, is_bare, out, gathered, line: LineFigure::new(None) }
    }

    #[inline]
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        if row.ptx_line != self.line.line {
            self.line = LineFigure::new(row.ptx_line);
        }
        let start = self.gathered.len();
        push_figures(row, &self.line, self.gathered);
        match row.text {
            RowText::Own(speller) if self.is_bare && !row.is_spill && row.spell(speller, self.gathered) => {
                self.gathered.put(b"\n", 1);
            }
            _ => push_rest(row, self.options, start, self.gathered),
        }
        if self.gathered.len() >= ROWS_BYTES { self.flush() } else { Ok(()) }
    }

    #[cold]
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.gathered.as_bytes())?;
        self.gathered.clear();
        Ok(())
    }
}

/// What follows the figures of a row that started at a place; two blanks are there already.
#[inline(never)]
fn push_rest(instruction: &Row<'_>, options: &Options, start: usize, row: &mut Text) {
    row.truncate(row.len() - 2);
    let figures = row.len() - start;
    if options.control {
        let control = instruction.control().as_ref().map(control).unwrap_or_default();
        row.push(format!("  {DIM}{control:<CONTROL$}{RESET}").as_bytes());
    }
    let start = row.len();
    row.push(b"  ");
    let is_text = match instruction.text {
        RowText::Own(speller) => instruction.spell(speller, row),
        RowText::Read(text) => {
            row.push(terminal(text).as_bytes());
            true
        }
        RowText::None => false,
    };
    if !is_text {
        row.push(format!(".word 0x{:032x}{}", instruction.word, options.no_text).as_bytes());
    }
    if instruction.is_spill {
        row.push(format!("  {DIM}spill{RESET}").as_bytes());
    }
    if options.hex && is_text {
        row.push(format!("  {DIM}/* 0x{:032x} */{RESET}", instruction.word).as_bytes());
    }
    if let Some(width) = options.width {
        let taken = figures + if options.control { CONTROL + 2 } else { 0 };
        let tail = String::from_utf8_lossy(row.as_bytes().get(start..).unwrap_or_default()).into_owned();
        row.truncate(start);
        row.push(&folded(&tail, taken, width));
    }
    row.push(b"\n");
    if options.explain || options.sets {
        push_below(instruction, options, row);
    }
}

/// What is shown below an instruction.
fn push_below(instruction: &Row<'_>, options: &Options, row: &mut Text) {
    let room = options.width.unwrap_or(usize::MAX).saturating_sub(9).max(LEAST_TEXT);
    if let Some(control) = instruction.control().filter(|_| options.explain) {
        for line in wrap(&explained(&control), room) {
            row.push(format!("         {DIM}{line}{RESET}\n").as_bytes());
        }
    }
    if options.sets {
        let said = match &instruction.live_registers {
            Some(registers) if registers.0.is_empty() => "none live".to_owned(),
            Some(registers) => registers.to_string(),
            None => "not known".to_owned(),
        };
        for line in wrap(&said, room) {
            row.push(format!("         {DIM}{line}{RESET}\n").as_bytes());
        }
    }
}

/// Columns that an instruction has at least, beside its figures.
const LEAST_TEXT: usize = 24;
/// Where it starts on a line of its own.
const BELOW: usize = 8;

/// A text in as many lines as its reader's columns ask for, behind `taken` columns or below them.
fn folded(tail: &str, taken: usize, width: usize) -> Vec<u8> {
    let mut row = Vec::new();
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
    row
}

/// Each number that has at most three digits and a count may be, to the right of three columns, with a blank behind.
static COUNTS: [[u8; 4]; 256] = {
    let mut all = [*b"    "; 256];
    let mut number = 0;
    while number < 256 {
        let (mut rest, mut at) = (number, 3);
        while at == 3 || rest > 0 {
            at -= 1;
            all[number][at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        number += 1;
    }
    all
};

/// Columns of the figures of a row, two blanks behind them, where none of them needs more room than most do.
const FIGURES: usize = 35;

/// Where it is, how many registers are live, its line, and two blanks.
#[inline]
fn push_figures(instruction: &Row<'_>, line: &LineFigure, row: &mut Text) {
    let live = instruction.live.unwrap_or(LiveCounts { gpr: 0, pred: 0, ugpr: 0, upred: 0 });
    let most = live.gpr | live.pred | live.ugpr | live.upred;
    if most >= COUNTS.len() as u32 || line.len > LineFigure::LEAST {
        return push_wide_figures(instruction, line, row);
    }
    row.fill(|columns: &mut [u8; 48]| {
        *columns = [b' '; 48];
        set(columns, 2, digits(instruction.pc.0));
        let more = match instruction.pc.0 {
            0..0x1_0000 => 0,
            pc => {
                let more = 4 - pc.leading_zeros() as usize / 4;
                // Shifted so that the first digit that counts comes first.
                set(columns, 2, digits(pc >> 16 << (16 - 4 * more)));
                set(columns, 2 + more, digits(pc));
                more
            }
        };
        if instruction.live.is_some() {
            // The end of each is where the next begins: with a blank.
            for (count, at) in [(live.gpr, 8), (live.pred, 13), (live.ugpr, 18), (live.upred, 24)] {
                set(columns, at + more, COUNTS[count as usize % COUNTS.len()]);
            }
        }
        set(columns, FIGURES - 2 - LineFigure::LEAST + more, line.columns);
        FIGURES + more
    });
}

/// Puts some columns where they belong: an array, so that it is copied where it stands and not by a call.
#[inline(always)]
fn set<const N: usize>(columns: &mut [u8; 48], at: usize, piece: [u8; N]) {
    if let Some(to) = columns.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *to = piece;
    }
}

/// The last four digits of sixteen.
#[inline(always)]
fn digits(number: u32) -> [u8; 4] {
    let digit = |at: u32| b"0123456789abcdef"[(number >> at & 0xf) as usize];
    [digit(12), digit(8), digit(4), digit(0)]
}

/// The same for figures that need more room.
#[inline(never)]
fn push_wide_figures(instruction: &Row<'_>, line: &LineFigure, row: &mut Text) {
    let Row { pc, live, .. } = instruction;
    let live = live.as_ref().map_or_else(
        || " ".repeat(21),
        |LiveCounts { gpr, pred, ugpr, upred }| format!("  {gpr:>3} {pred:>4} {ugpr:>4} {upred:>5}"),
    );
    row.push(format!("  {:04x}{live}", pc.0).as_bytes());
    row.put(&line.columns, line.len);
    row.push(b"  ");
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
    use crate::base::Pc;

    #[test]
    fn figures_are_those_of_a_format() {
        let counts = [0, 7, 10, 99, 100, 255, 256, 1000];
        for pc in [0u32, 0x10, 0xfff0, 0x1_0000, 0xa_bcd0, 0xffff_fff0] {
            for (at, gpr) in counts.into_iter().enumerate() {
                let (pred, ugpr, upred) = (counts[at / 2], counts[at / 3], counts[at % 3]);
                for line in [None, Some(1), Some(12_345), Some(123_456), Some(u32::MAX)] {
                    for live in [None, Some(LiveCounts { gpr, pred, ugpr, upred })] {
                        let instruction = Row {
                            pc: Pc(pc),
                            word: 0,
                            text: RowText::None,
                            live,
                            ptx_line: line.map(Line),
                            is_spill: false,
                            is_known: true,
                            live_registers: None,
                        };
                        let mut row = Text::default();
                        push_figures(&instruction, &LineFigure::new(instruction.ptx_line), &mut row);
                        let line = line.map_or("-".to_owned(), |line| line.to_string());
                        let live = match live {
                            Some(_) => format!("  {gpr:>3} {pred:>4} {ugpr:>4} {upred:>5}"),
                            None => " ".repeat(21),
                        };
                        assert_eq!(row.as_str(), format!("  {pc:04x}{live} {line:>5}  "));
                    }
                }
            }
        }
    }
}
