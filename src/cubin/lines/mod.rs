//! From a pc to the line it was made of.
//!
//! *In*: an [`Image`] whose code was compiled with `-lineinfo`. *Out*: a [`LineTable`] that answers, for each function and
//! pc, which PTX line (`.nv_debug_line_sass`) and which line of the front end's source (`.debug_line`, with the chain of
//! inlined calls) the instruction was made of, and the PTX text itself where the file carries it (`.nv_debug_ptx_txt`).
//!
//! It does not guess: a pc that the tables do not cover has no line.

mod program;

use std::borrow::Cow;
use std::collections::HashMap;

use super::elf::Names;
use super::{Function, Image, Problem, SectionIndex};
use crate::base::{FastMap, Line, Pc};
use program::{Inlined, Row, Rows};

/// Name of the section with the PTX, in full or up to a number.
const PTX_TEXT: &str = ".nv_debug_ptx_txt";

/// The line tables of one cubin.
#[derive(Debug, Default)]
pub struct LineTable<'a> {
    /// Rows of `.nv_debug_line_sass`: lines of PTX.
    ptx: HashMap<SectionIndex, PtxLines<'a>>,
    /// Rows of `.debug_line`: lines of the front end's source.
    source: Rows,
    /// Names of inlined functions, by their offset in `.debug_str`.
    names: HashMap<u32, Cow<'a, str>>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// The PTX lines of one function, and the PTX they count in.
#[derive(Debug)]
struct PtxLines<'a> {
    rows: Vec<PtxRow>,
    text: Option<PtxText<'a>>,
}

/// Where instructions start to come from another line of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PtxRow {
    pc: u32,
    /// 0 where a sequence ends.
    line: u32,
}

/// PTX that a cubin carries. Comments and `.loc` directives are blank in it; lines count as in the input of ptxas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtxText<'a> {
    bytes: &'a [u8],
}

impl<'a> PtxText<'a> {
    /// The lines, line 1 first.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.strip_suffix(b"\0").unwrap_or(self.bytes).split(|&byte| byte == 0)
    }

    /// The text with a newline after each line.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.iter().map(|&byte| if byte == 0 { b'\n' } else { byte }).collect()
    }
}

/// The lines of one function.
#[derive(Clone, Copy, Debug)]
pub struct FunctionLines<'t> {
    table: &'t LineTable<'t>,
    ptx: Option<&'t PtxLines<'t>>,
    source: &'t [Row],
}

/// Where an instruction comes from in the front end's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePos<'t> {
    /// The file as the front end named it, with its folder.
    pub file: &'t str,
    /// The line.
    pub line: Line,
    /// The function that was inlined here, mangled; `None` for code of the function itself.
    pub function: Option<&'t str>,
    /// The call sites, innermost first, by which the code came into its function.
    pub inlined_at: Vec<CallSite<'t>>,
}

/// A place where a function was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite<'t> {
    /// The file of the call.
    pub file: &'t str,
    /// The line of the call.
    pub line: Line,
    /// The function that holds the call, when it was inlined itself.
    pub function: Option<&'t str>,
}

/// The PTX that a cubin carries, each with the name of its section: one, or as many as were linked.
pub fn ptx_texts<'i, 'a>(image: &'i Image<'a>) -> impl Iterator<Item = (&'i str, PtxText<'a>)> {
    // Relocatable files, and what is linked of them, put a number behind the name: `.nv_debug_ptx_txt.1362267490`.
    let texts = image.sections.iter().filter(|section| section.name.starts_with(PTX_TEXT) && !section.data.is_empty());
    texts.map(|section| (&*section.name, PtxText { bytes: section.data }))
}

impl<'a> LineTable<'a> {
    /// Reads the line tables of a cubin; without `-lineinfo` the table is empty.
    pub fn parse(image: &Image<'a>) -> Self {
        let mut table = LineTable::default();
        let first_text = ptx_texts(image).next().map(|(_, text)| text);
        if let Some((section, _)) = image.section_named(".nv_debug_line_sass") {
            let rows = program::run(image, section, &mut table.problems);
            let by_name: HashMap<&str, _> = ptx_texts(image).collect();
            let texts: Vec<_> = rows.files.iter().map(|file| by_name.get(file.as_str()).copied()).collect();
            for (section, rows) in rows.by_section {
                // The table of an executable that was not linked names no file.
                let file = rows.first().map_or(Row::NO_FILE, |row| row.file);
                let text = texts.get(file as usize).copied().unwrap_or(first_text);
                let ptx_row = |row: &Row| PtxRow { pc: row.pc, line: if row.file == Row::END { 0 } else { row.line } };
                table.ptx.insert(section, PtxLines { rows: rows.iter().map(ptx_row).collect(), text });
            }
        }
        if let Some((section, _)) = image.section_named(".debug_line") {
            table.source = program::run(image, section, &mut table.problems);
        }
        if let Some((_, section)) = image.section_named(".debug_str") {
            let mut names = Names::new(section.data);
            for call in table.source.inlined.iter().filter(|call| call.function != Inlined::UNNAMED) {
                table.names.entry(call.function).or_insert_with(|| names.get(call.function.into()));
            }
            names.report(".debug_str", &mut table.problems);
        }
        table
    }

    /// The same where some source lines are not what was written, but were counted up by a compiler: by line of the PTX that line, and the one
    /// that it stands for.
    #[must_use]
    pub fn corrected(mut self, counted: &FastMap<Line, (Line, Line)>) -> Self {
        if counted.is_empty() {
            return self;
        }
        for (section, rows) in &mut self.source.by_section {
            let Some(ptx) = self.ptx.get(section) else { continue };
            let mut walk = Walk { rows: &ptx.rows, at: 0 };
            let mut corrected: Vec<Row> = Vec::with_capacity(rows.len());
            for (at, row) in rows.iter().enumerate() {
                let end = rows.get(at + 1).map_or(u32::MAX, |next| next.pc);
                // A row may span several lines of the PTX, of which some are meant.
                let starts = ptx.rows.partition_point(|start| start.pc <= row.pc);
                let inside = ptx.rows.get(starts..).unwrap_or_default().iter();
                let inside = inside.map(|start| start.pc).take_while(|pc| *pc < end);
                for pc in std::iter::once(row.pc).chain(inside) {
                    let line = walk.row(Pc(pc), |start| start.pc).map(|start| Line(start.line));
                    let found = line.and_then(|line| counted.get(&line)).filter(|(is, _)| is.0 == row.line);
                    let line = found.filter(|_| row.file < Row::NO_FILE).map_or(row.line, |(_, of)| of.0);
                    let is_same = corrected.last().is_some_and(|last| Row { pc: last.pc, line, ..*row } == *last);
                    if pc == row.pc || !is_same {
                        corrected.push(Row { pc, line, ..*row });
                    }
                }
            }
            *rows = corrected;
        }
        self
    }

    /// The lines of one function; `None` when the file has none for it.
    pub fn function(&self, function: &Function<'_>) -> Option<FunctionLines<'_>> {
        let ptx = self.ptx.get(&function.section);
        let source = self.source.by_section.get(&function.section).map_or(&[][..], Vec::as_slice);
        (ptx.is_some() || !source.is_empty()).then_some(FunctionLines { table: self, ptx, source })
    }

    fn file(&self, index: u32) -> &str {
        self.source.files.get(index as usize).map_or("", String::as_str)
    }
}

impl<'t> FunctionLines<'t> {
    /// The PTX line of an instruction.
    pub fn ptx_line(&self, pc: Pc) -> Option<Line> {
        let rows = &self.ptx?.rows;
        let at = rows.partition_point(|row| row.pc <= pc.0).checked_sub(1)?;
        rows.get(at).filter(|row| row.line != 0).map(|row| Line(row.line))
    }

    /// The PTX whose lines [`ptx_line`](Self::ptx_line) counts, where the file carries it.
    pub fn ptx_text(&self) -> Option<PtxText<'t>> {
        self.ptx?.text
    }

    /// Whether an instruction has a line of the front end's source.
    pub fn has_source(&self, pc: Pc) -> bool {
        let at = self.source.partition_point(|row| row.pc <= pc.0).checked_sub(1);
        at.and_then(|at| self.source.get(at)).is_some_and(|row| row.file < Row::NO_FILE)
    }

    /// The same lines, looked up for instructions that mostly follow one another.
    pub fn along(&self) -> LineWalk<'_> {
        let ptx = self.ptx.map_or(&[][..], |lines| &lines.rows);
        LineWalk { table: self.table, ptx: Walk { rows: ptx, at: 0 }, source: Walk { rows: self.source, at: 0 } }
    }

    /// The lines by which an instruction comes from the function's own source, the outermost call first, its own line last.
    pub fn chain(&self, pc: Pc) -> Vec<OwnLine> {
        let at = self.source.partition_point(|row| row.pc <= pc.0).checked_sub(1);
        let row = at.and_then(|at| self.source.get(at)).filter(|row| row.file < Row::NO_FILE);
        let Some(row) = row else { return Vec::new() };
        let mut chain = vec![OwnLine { file: row.file, line: Line(row.line) }];
        let mut next = row.inlined;
        while let Some(&Inlined { file, line, outer, .. }) = self.table.source.inlined.get(next as usize) {
            chain.push(OwnLine { file, line: Line(line) });
            next = outer;
        }
        chain.reverse();
        chain
    }

    /// The file that an [`OwnLine`] is of.
    pub fn file_of(&self, own: OwnLine) -> &'t str {
        self.table.file(own.file)
    }

    /// The source line of an instruction.
    pub fn source_at(&self, pc: Pc) -> Option<SourcePos<'t>> {
        let at = self.source.partition_point(|row| row.pc <= pc.0).checked_sub(1)?;
        let row = self.source.get(at).filter(|row| row.file < Row::NO_FILE)?;
        let mut position =
            SourcePos { file: self.table.file(row.file), line: Line(row.line), function: None, inlined_at: Vec::new() };
        let mut next = row.inlined;
        while let Some(&Inlined { file, line, function, outer, .. }) = self.table.source.inlined.get(next as usize) {
            let function = self.table.names.get(&function).map(|name| &**name).filter(|name| !name.is_empty());
            match position.inlined_at.last_mut() {
                None => position.function = function,
                Some(site) => site.function = function,
            }
            position.inlined_at.push(CallSite { file: self.table.file(file), line: Line(line), function: None });
            next = outer;
        }
        Some(position)
    }
}

/// Lines of one function, by a place in its rows that moves on with the instructions.
pub struct LineWalk<'r> {
    table: &'r LineTable<'r>,
    ptx: Walk<'r, PtxRow>,
    source: Walk<'r, Row>,
}

impl LineWalk<'_> {
    /// The PTX line of an instruction.
    #[inline]
    pub fn ptx_line(&mut self, pc: Pc) -> Option<Line> {
        self.ptx.row(pc, |row| row.pc).filter(|row| row.line != 0).map(|row| Line(row.line))
    }

    /// The PTX line of an instruction, and the line of the function's own source.
    pub fn at(&mut self, pc: Pc) -> (Option<Line>, Option<OwnLine>) {
        let line = self.ptx_line(pc);
        let row = self.source.row(pc, |row| row.pc).filter(|row| row.file < Row::NO_FILE);
        (line, row.map(|row| self.own(row)))
    }

    /// Where the function itself stands: what was inlined is where it is called.
    fn own(&self, row: &Row) -> OwnLine {
        let mut own = OwnLine { file: row.file, line: Line(row.line) };
        let mut next = row.inlined;
        while let Some(&Inlined { file, line, outer, .. }) = self.table.source.inlined.get(next as usize) {
            own = OwnLine { file, line: Line(line) };
            next = outer;
        }
        own
    }
}

/// A line of the front end's source that is a function's own, not of what was inlined into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnLine {
    file: u32,
    /// The line.
    pub line: Line,
}

/// A place in rows sorted by pc.
struct Walk<'r, R> {
    rows: &'r [R],
    at: usize,
}

impl<'r, R> Walk<'r, R> {
    /// The last row that starts at or before an instruction.
    fn row(&mut self, pc: Pc, start: impl Fn(&R) -> u32) -> Option<&'r R> {
        let starts_after = |row: &R| start(row) > pc.0;
        if self.rows.get(self.at).is_some_and(starts_after) {
            self.at = 0;
        }
        while self.rows.get(self.at + 1).is_some_and(|next| !starts_after(next)) {
            self.at += 1;
        }
        self.rows.get(self.at).filter(|row| !starts_after(row))
    }
}
