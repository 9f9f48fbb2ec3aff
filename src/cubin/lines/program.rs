//! Running a DWARF line program: gimli decodes it, this module steps it, because rows have to be numbered.
//!
//! NVIDIA's extended opcode 0x90 takes the number of an earlier row of the same sequence, the call site, and the offset of the
//! called function's name in `.debug_str`; it holds for all rows up to the next 0x90. Row 0 is no call site: the code is the
//! function's own. Addresses of `DW_LNE_set_address` are relocated to a function's section, and count from 0 there.

use std::collections::HashMap;

use gimli::{DebugLine, DebugLineOffset, LineInstruction, LittleEndian, Reader, RelocateReader};

use super::super::{Image, Problem, Relocation, SectionIndex};
use crate::base::work;

/// `DW_LNE_NVIDIA_inlined_call`.
const INLINED_CALL: u8 = 0x90;
/// Deepest chain of inlined calls that is kept: a chain may be as long as its table, and is walked for each pc.
const DEEPEST_CHAIN: u32 = 256;

/// A row of the table: where instructions start to come from somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub pc: u32,
    pub line: u32,
    /// Index into the files, [`Row::NO_FILE`], or [`Row::END`] where a sequence ends.
    pub file: u32,
    /// Index into the inlined calls; [`Inlined::NONE`] for the function's own code.
    pub inlined: u32,
}

impl Row {
    /// The file of the row that ends a sequence.
    pub const END: u32 = u32::MAX;
    /// A file that the program does not name: always so in `.nv_debug_line_sass`, where all lines are lines of PTX.
    pub const NO_FILE: u32 = u32::MAX - 1;
}

/// An inlined call: its site, the function that was called, and how the caller itself came to be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inlined {
    pub file: u32,
    pub line: u32,
    /// Offset of the called function's name in `.debug_str`; [`Inlined::UNNAMED`] where it cannot be known.
    pub function: u32,
    /// The call that the caller was inlined by.
    pub outer: u32,
    depth: u32,
}

impl Inlined {
    pub const NONE: u32 = u32::MAX;
    /// nvlink joins the `.debug_str` of its inputs and leaves the offsets alone, so that only those of the first program are
    /// right.
    pub const UNNAMED: u32 = u32::MAX;
}

/// What the programs of one section produced.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub by_section: HashMap<SectionIndex, Vec<Row>>,
    pub files: Vec<String>,
    pub inlined: Vec<Inlined>,
}

/// Says which relocation an address is subject to, in place of its value: index + 1, or 0 for none.
#[derive(Clone, Debug)]
struct ByIndex<'r>(&'r [Relocation]);

impl gimli::Relocate<usize> for ByIndex<'_> {
    fn relocate_address(&self, offset: usize, _value: u64) -> gimli::Result<u64> {
        Ok(self.0.binary_search_by_key(&(offset as u64), |r| r.offset).map_or(0, |at| at as u64 + 1))
    }

    fn relocate_offset(&self, _offset: usize, value: usize) -> gimli::Result<usize> {
        Ok(value)
    }
}

type Slice<'a> = gimli::EndianSlice<'a, LittleEndian>;

/// Runs every program of the section.
pub(super) fn run(image: &Image<'_>, section: SectionIndex, problems: &mut Vec<Problem>) -> Rows {
    let mut rows = Rows::default();
    let Some(found) = image.section(section) else { return rows };
    let mut relocations = image.relocations(section);
    relocations.sort_by_key(|r| r.offset);
    let reader = RelocateReader::new(Slice::new(found.data, LittleEndian), ByIndex(&relocations));
    let lines = DebugLine::from(reader);
    let mut offset = 0;
    while offset < found.data.len() {
        work::tick();
        let mut runner = Runner {
            data: found.data,
            image,
            relocations: &relocations,
            rows: &mut rows,
            named: offset == 0,
            problem: None,
        };
        let next = runner.unit(&lines, offset);
        if let Some(what) = runner.problem {
            problems.push(Problem::new(found.name.to_string(), format!("line program at {offset:#x}: {what}")));
        }
        match next {
            Some(next) if next > offset => offset = next,
            _ => break,
        }
    }
    for rows in rows.by_section.values_mut() {
        // Where one sequence ends another may start. Sorting is stable, and does nothing where rows are in order already.
        rows.sort_by_key(|row| (row.pc, row.file != Row::END));
        // Of the rows for one pc the last is in force; the others only were call sites.
        rows.dedup_by(|next, kept| {
            let same = next.pc == kept.pc;
            if same {
                *kept = *next;
            }
            same
        });
        rows.shrink_to_fit();
    }
    rows
}

/// The line state machine's registers, as far as they matter here.
struct State {
    section: Option<SectionIndex>,
    pc: u64,
    line: u64,
    file: u64,
    inlined: u32,
}

impl State {
    const START: State = State { section: None, pc: 0, line: 1, file: 1, inlined: Inlined::NONE };
}

/// The rows of the running sequence, as 0x90 numbers them: from 1.
///
/// For sm_90, ptxas 12.0 to 12.6 leaves out a row that repeats file and line of the one before, and counts it all the same. A call
/// site is always the row right before the first call that names it, which tells by how much the numbers run ahead.
#[derive(Default)]
struct Sequence {
    rows: Vec<Row>,
    /// Index and number of each row that follows one left out.
    jumps: Vec<(usize, u64)>,
}

impl Sequence {
    fn site(&mut self, number: u64) -> Option<&Row> {
        let last = self.rows.len().checked_sub(1)?;
        let (index, base) = self.jumps.last().copied().unwrap_or((0, 1));
        if number > base.saturating_add((last - index) as u64) {
            self.jumps.push((last, number));
        }
        let after = self.jumps.partition_point(|(_, base)| *base <= number);
        let (index, base) = after.checked_sub(1).and_then(|at| self.jumps.get(at)).copied().unwrap_or((0, 1));
        let end = self.jumps.get(after).map_or(self.rows.len(), |(index, _)| *index);
        let row = index.checked_add(usize::try_from(number.checked_sub(base)?).ok()?)?;
        self.rows.get(..end)?.get(row)
    }
}

struct Runner<'r, 'a> {
    data: &'a [u8],
    image: &'r Image<'a>,
    relocations: &'r [Relocation],
    rows: &'r mut Rows,
    named: bool,
    problem: Option<String>,
}

impl Runner<'_, '_> {
    /// Runs the program at `offset`; gives the offset of the next one.
    fn unit<R: Reader<Offset = usize>>(&mut self, lines: &DebugLine<R>, offset: usize) -> Option<usize> {
        let bytes = if self.image.address_bits == 32 { 4 } else { 8 };
        let program = match lines.program(DebugLineOffset(offset), bytes, None, None) {
            Ok(program) => program,
            Err(error) => {
                self.problem = Some(error.to_string());
                return None;
            }
        };
        let header = program.header();
        let first_file = u32::try_from(self.rows.files.len()).ok()?;
        self.files(header);
        // Four bytes of length come before what the length counts.
        let next = offset.checked_add(header.unit_length())?.checked_add(4)?;
        let step = u64::from(header.minimum_instruction_length());
        let encoding = header.line_encoding();
        let range = u64::from(encoding.line_range.max(1));
        let mut state = State::START;
        let mut sequence = Sequence::default();
        let mut instructions = header.instructions();
        loop {
            work::tick();
            let instruction = match instructions.next_instruction(header) {
                Ok(Some(instruction)) => instruction,
                Ok(None) => break,
                Err(error) => {
                    self.note(error.to_string());
                    break;
                }
            };
            match instruction {
                LineInstruction::Special(opcode) => {
                    let adjusted = u64::from(opcode.wrapping_sub(header.opcode_base()));
                    state.pc = state.pc.wrapping_add((adjusted / range).wrapping_mul(step));
                    let line = i64::from(encoding.line_base) + (adjusted % range).cast_signed();
                    state.line = state.line.wrapping_add_signed(line);
                    self.row(&state, first_file, &mut sequence);
                }
                LineInstruction::Copy => self.row(&state, first_file, &mut sequence),
                LineInstruction::AdvancePc(by) => state.pc = state.pc.wrapping_add(by.wrapping_mul(step)),
                LineInstruction::AdvanceLine(by) => state.line = state.line.wrapping_add_signed(by),
                LineInstruction::SetFile(file) => state.file = file,
                LineInstruction::ConstAddPc => {
                    let adjusted = u64::from(255u8.wrapping_sub(header.opcode_base()));
                    state.pc = state.pc.wrapping_add((adjusted / range).wrapping_mul(step));
                }
                LineInstruction::FixedAddPc(by) => state.pc = state.pc.wrapping_add(by.into()),
                LineInstruction::SetAddress(relocation) => self.set_address(&mut state, relocation),
                LineInstruction::EndSequence => {
                    self.end(&state, &mut sequence);
                    state = State::START;
                }
                LineInstruction::UnknownExtended(opcode, operands) if opcode.0 == INLINED_CALL => {
                    state.inlined = self.inlined_call(operands, &mut sequence);
                }
                LineInstruction::UnknownExtended(opcode, _) => {
                    self.note(format!("extended opcode {:#x} is not known", opcode.0));
                }
                _ => {}
            }
        }
        if !sequence.rows.is_empty() {
            self.note("the last sequence does not end".to_owned());
            self.end(&state, &mut sequence);
        }
        Some(next)
    }

    /// Adds the program's files: folder and name, or the name alone where it is a path already.
    fn files<R: Reader>(&mut self, header: &gimli::LineProgramHeader<R>) {
        let folders: Vec<String> = header.include_directories().iter().cloned().map(text).collect();
        // Up to DWARF 4 folder 0 is the compiler's own, which nothing names here.
        let first = u64::from(header.version() < 5);
        // A long folder that a hostile table names for each of its files would fill memory.
        let mut left = self.data.len().saturating_mul(16);
        for file in header.file_names() {
            let name = text(file.path_name());
            let folder =
                file.directory_index().checked_sub(first).and_then(|at| folders.get(usize::try_from(at).ok()?));
            let path = match folder {
                Some(folder) if !folder.is_empty() && !name.starts_with('/') && folder.len() < left => {
                    format!("{folder}/{name}")
                }
                _ => name,
            };
            left = left.saturating_sub(path.len());
            self.rows.files.push(path);
        }
    }

    /// Keeps the first of a program's problems.
    fn note(&mut self, what: String) {
        self.problem.get_or_insert(what);
    }

    fn set_address(&mut self, state: &mut State, relocation: u64) {
        let relocation = usize::try_from(relocation).ok().and_then(|at| self.relocations.get(at.checked_sub(1)?));
        let symbol = relocation.and_then(|r| self.image.symbol(r.symbol));
        let (Some(relocation), Some(symbol)) = (relocation, symbol) else {
            state.section = None;
            self.note("an address has no relocation to a symbol".to_owned());
            return;
        };
        state.section = symbol.section;
        state.pc =
            symbol.value.wrapping_add_signed(relocation.addend.unwrap_or_else(|| self.implicit_addend(relocation)));
    }

    /// What the section's own bytes hold at a relocation without an addend.
    fn implicit_addend(&self, relocation: &Relocation) -> i64 {
        let bytes = usize::from(self.image.address_bits / 8);
        let tail = usize::try_from(relocation.offset).ok().and_then(|at| self.data.get(at..)?.get(..bytes));
        tail.unwrap_or(&[]).iter().rev().fold(0, |value, &byte| value << 8 | i64::from(byte))
    }

    fn row(&mut self, state: &State, first_file: u32, sequence: &mut Sequence) {
        // A row out of range still counts, so that later call sites mean the rows they mean.
        let file = u32::try_from(state.file).ok().and_then(|file| first_file.checked_add(file)?.checked_sub(1));
        let file = file.filter(|&file| file >= first_file && (file as usize) < self.rows.files.len());
        let (file, pc) = (file.unwrap_or(Row::NO_FILE), u32::try_from(state.pc).unwrap_or(u32::MAX));
        let line = u32::try_from(state.line).unwrap_or(0);
        sequence.rows.push(Row { pc, line, file, inlined: state.inlined });
    }

    fn end(&mut self, state: &State, sequence: &mut Sequence) {
        if let Some(section) = state.section
            && !sequence.rows.is_empty()
        {
            let pc = u32::try_from(state.pc).unwrap_or(u32::MAX);
            let rows = self.rows.by_section.entry(section).or_default();
            rows.append(&mut sequence.rows);
            rows.push(Row { pc, line: 0, file: Row::END, inlined: Inlined::NONE });
        }
        sequence.rows.clear();
        sequence.jumps.clear();
    }

    /// Two ULEB128 operands: the call site's row and the offset of the called function's name.
    fn inlined_call<R: Reader>(&mut self, mut operands: R, sequence: &mut Sequence) -> u32 {
        let (Ok(number), Ok(function)) = (operands.read_uleb128(), operands.read_uleb128()) else {
            self.note("an inlined call lacks its operands".to_owned());
            return Inlined::NONE;
        };
        if number == 0 {
            return Inlined::NONE;
        }
        let Some(site) = sequence.site(number) else {
            self.note(format!("an inlined call names row {number}, which is not there"));
            return Inlined::NONE;
        };
        let function = u32::try_from(function).ok().filter(|_| self.named).unwrap_or(Inlined::UNNAMED);
        let depth = self.rows.inlined.get(site.inlined as usize).map_or(1, |outer| outer.depth + 1);
        if depth > DEEPEST_CHAIN {
            self.note(format!("more than {DEEPEST_CHAIN} calls inlined into each other"));
            return Inlined::NONE;
        }
        let call = Inlined { file: site.file, line: site.line, function, outer: site.inlined, depth };
        // Front ends alternate between few contexts: one entry is enough to merge most of them.
        if self.rows.inlined.last() == Some(&call) {
            return (self.rows.inlined.len() - 1) as u32;
        }
        match u32::try_from(self.rows.inlined.len()) {
            Ok(at) if at < Inlined::NONE => {
                self.rows.inlined.push(call);
                at
            }
            _ => Inlined::NONE,
        }
    }
}

fn text<R: Reader>(value: gimli::AttributeValue<R>) -> String {
    match value {
        gimli::AttributeValue::String(text) => {
            text.to_string_lossy().map_or_else(|_| String::new(), |t| t.into_owned())
        }
        _ => String::new(),
    }
}
