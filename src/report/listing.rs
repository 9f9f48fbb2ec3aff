//! The listing: every instruction of a cubin in SASS order, with its lines.

use std::cell::RefCell;
use std::fmt;

use serde::{Serialize, Serializer};

use super::code::{marked_spills, own_ranges};
use crate::base::{Line, Pc, RegFile, RegSet, work};
use crate::cubin::lines::{FunctionLines, LineTable, SourcePos};
use crate::cubin::{Function, Image};
use crate::flow::{Counts, Program};
use crate::registers::code::Code;
pub use crate::sass::Text;
use crate::sass::{Control, Decoder, Speller, Word};
use crate::toolchain::nvdisasm::Listing;

/// The name and version of the listing's JSON.
pub const LISTING_SCHEMA: &str = "ptxinspect.disasm/1";

/// Bytes of code after which rows look at the clock.
const LOOK: u32 = 1 << 14;

/// One function: a kernel, or a device function inside a kernel's section.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedFunction {
    /// Its name.
    pub name: String,
    /// The function whose section it is in; itself for a kernel.
    pub kernel: String,
    /// Its instructions, ascending.
    pub instructions: Vec<ListedInstruction>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedInstruction {
    /// Where it is in its section.
    pub pc: Pc,
    /// The 32 digits of the word, high half first.
    pub hex: String,
    /// As nvdisasm prints it; null when it is not decoded, or nvdisasm was asked and does not list it.
    pub text: Option<String>,
    /// Live registers, counted as nvdisasm's `#` does; null when not decoded.
    pub live: Option<LiveCounts>,
    /// The PTX line it was made of.
    pub ptx_line: Option<Line>,
    /// The front end's line.
    pub source: Option<ListedSource>,
    /// Registers it reads; null when not decoded.
    pub reads: Option<Registers>,
    /// Registers it writes; null when not decoded.
    pub writes: Option<Registers>,
    /// Whether ptxas marked it as a spill store or refill; null when this ptxas marks none.
    pub spill: Option<bool>,
    /// What it tells the scheduler; null where words are not ours to read.
    pub control: Option<ListedControl>,
    /// The registers that our rule counts; null unless they are asked for and known.
    pub live_registers: Option<Registers>,
}

/// Registers; names in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers(pub RegSet);

/// A register's name.
struct Name(RegFile, u16);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.0 {
            RegFile::Gpr => "R",
            RegFile::Pred => "P",
            RegFile::Ugpr => "UR",
            RegFile::Upred => "UP",
        };
        write!(f, "{prefix}{}", self.1)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Registers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter_all().map(|(file, index)| Name(file, index)))
    }
}

/// Runs of neighbours are shortened: `R0-R3 R8 P0`.
impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registers = self.0.iter_all().peekable();
        let mut blank = "";
        while let Some((file, first)) = registers.next() {
            let mut last = first;
            while let Some((_, next)) = registers.next_if(|&(next_file, next)| next_file == file && next == last + 1) {
                last = next;
            }
            write!(f, "{blank}{}", Name(file, first))?;
            if last > first {
                write!(f, "-{}", Name(file, last))?;
            }
            blank = " ";
        }
        Ok(())
    }
}

/// What an instruction tells the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedControl {
    /// Cycles to wait before the next instruction.
    pub stall: u8,
    /// Whether the scheduler should prefer another warp.
    pub yields: bool,
    /// The scoreboard signalled when the result is there.
    pub write_barrier: Option<u8>,
    /// The scoreboard signalled when the sources have been read.
    pub read_barrier: Option<u8>,
    /// The scoreboards to wait for.
    pub wait: Vec<u8>,
    /// Which source operands stay in the reuse cache, counted from 0.
    pub reuse: Vec<u8>,
}

impl From<Control> for ListedControl {
    fn from(control: Control) -> ListedControl {
        let Control { stall, yields, write_barrier, read_barrier, wait_mask, reuse } = control;
        let bits = |mask: u8| (0..8).filter(|bit| mask >> bit & 1 == 1).collect();
        ListedControl { stall, yields, write_barrier, read_barrier, wait: bits(wait_mask), reuse: bits(reuse) }
    }
}

/// What a listing has beside text, counts and lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Which registers are live, not only how many.
    pub sets: bool,
    /// Texts and counts are nvdisasm's.
    pub nvdisasm: Option<&'a Listing>,
}

/// Live registers of the four files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LiveCounts {
    /// Vector registers.
    pub gpr: u32,
    /// Predicates.
    pub pred: u32,
    /// Uniform registers.
    pub ugpr: u32,
    /// Uniform predicates.
    pub upred: u32,
}

impl LiveCounts {
    /// From those of the four files, in [`RegFile::ALL`]'s order.
    fn new([gpr, pred, ugpr, upred]: [u32; 4]) -> LiveCounts {
        LiveCounts { gpr, pred, ugpr, upred }
    }

    fn of(counts: Counts) -> LiveCounts {
        let [gpr, pred, ugpr, upred] = counts.0.0;
        LiveCounts { gpr: gpr.into(), pred: pred.into(), ugpr: ugpr.into(), upred: upred.into() }
    }
}

/// A place in the front end's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedSource {
    /// The file.
    pub file: String,
    /// The line.
    pub line: Line,
    /// The call sites through which the code was inlined, innermost first.
    pub inlined_at: Vec<ListedCall>,
}

/// A call site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedCall {
    /// The file.
    pub file: String,
    /// The line.
    pub line: Line,
}

impl From<SourcePos<'_>> for ListedSource {
    fn from(from: SourcePos<'_>) -> Self {
        let call =
            |site: &crate::cubin::lines::CallSite<'_>| ListedCall { file: site.file.to_owned(), line: site.line };
        ListedSource {
            file: from.file.to_owned(),
            line: from.line,
            inlined_at: from.inlined_at.iter().map(call).collect(),
        }
    }
}

/// One section, with its code where that is known, as its listing needs it. The speller is that of all sections of the image.
pub fn open<'a>(
    image: &'a Image<'_>,
    lines: &'a LineTable<'a>,
    function: &'a Function<'a>,
    code: Option<Code>,
    speller: Option<&'a RefCell<Speller>>,
    wanted: Wanted<'a>,
) -> Section<'a> {
    Section {
        function,
        name: image.section(function.section).map(|section| section.name.as_ref()).unwrap_or_default(),
        lines: lines.function(function),
        spills: marked_spills(image, function),
        sets: code.as_ref().filter(|_| wanted.sets).map(|code| code.liveness.sets(code.program(), &code.cfg)),
        code,
        speller,
        wanted,
    }
}

/// The texts of one function's instructions, made when they are asked for: a listing takes hundreds of bytes for each.
pub struct Texts<'a> {
    decoder: Option<Decoder>,
    words: &'a [[u8; 16]],
    ranges: Vec<std::ops::Range<Pc>>,
    lines: Option<FunctionLines<'a>>,
}

impl<'a> Texts<'a> {
    /// Those of the function itself, or of one that shares its section; none where neither has the name.
    pub fn of(
        image: &Image<'_>,
        lines: &'a LineTable<'a>,
        function: &'a Function<'a>,
        name: &str,
    ) -> Option<Texts<'a>> {
        let part = || function.parts.iter().find(|part| part.callee() == name).map(|part| vec![part.start..part.end]);
        let ranges = if *function.name == *name { own_ranges(function) } else { part()? };
        let words = function.code.as_chunks::<16>().0;
        Some(Texts { decoder: Decoder::new(image.arch), words, ranges, lines: lines.function(function) })
    }

    /// Where its instructions are, ascending.
    pub fn pcs(&self) -> impl Iterator<Item = Pc> {
        let all = self.ranges.iter().flat_map(|range| (range.start.0..range.end.0).step_by(16));
        all.filter(|pc| self.words.len() > *pc as usize / 16).map(Pc)
    }

    /// As nvdisasm prints it; none when it is not decoded.
    pub fn text(&self, pc: Pc) -> Option<String> {
        work::tick();
        let decoder = self.decoder?;
        let instruction = decoder.decode(Word::from_bytes(self.words.get(pc.0 as usize / 16)?));
        let mut text = String::new();
        (!instruction.is_unknown()).then(|| decoder.text(&instruction, pc, &mut text))?;
        Some(text)
    }

    /// The 32 digits of the word, high half first.
    pub fn hex(&self, pc: Pc) -> String {
        let word = self.words.get(pc.0 as usize / 16).copied().unwrap_or_default();
        format!("{:032x}", u128::from_le_bytes(word))
    }

    /// The PTX line it was made of.
    pub fn ptx_line(&self, pc: Pc) -> Option<Line> {
        self.lines.as_ref()?.ptx_line(pc)
    }
}

/// The code of a section: a function and those that share it.
pub struct Section<'a> {
    function: &'a Function<'a>,
    /// The section's name.
    name: &'a str,
    lines: Option<FunctionLines<'a>>,
    spills: Option<Vec<Pc>>,
    code: Option<Code>,
    speller: Option<&'a RefCell<Speller>>,
    /// By instruction, where they are wanted.
    sets: Option<Vec<RegSet>>,
    wanted: Wanted<'a>,
}

/// One function of a section, whose rows are made when they are asked for.
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// The function whose section it is in.
    pub kernel: &'a str,
    ranges: Vec<std::ops::Range<Pc>>,
    section: &'a Section<'a>,
}

/// The text of an instruction.
#[derive(Clone, Copy)]
pub enum RowText<'a> {
    /// It is not decoded.
    None,
    /// Spelt by our tables for whoever wants it, if they know the word: nothing in it needs to be spelt out.
    Own(&'a RefCell<Speller>),
    /// Read somewhere.
    Read(&'a str),
}

/// What a line of text shows of an instruction.
pub struct Row<'a> {
    /// Where it is in its section.
    pub pc: Pc,
    /// Its word.
    pub word: u128,
    /// As nvdisasm prints it.
    pub text: RowText<'a>,
    /// Live registers.
    pub live: Option<LiveCounts>,
    /// The PTX line it was made of.
    pub ptx_line: Option<Line>,
    /// Whether ptxas marked it as a spill store or refill.
    pub is_spill: bool,
    /// Whether words are ours to read.
    pub is_known: bool,
    /// The registers that our rule counts.
    pub live_registers: Option<Registers>,
}

impl Row<'_> {
    /// Appends the text where our tables spell it; says whether they do.
    #[inline]
    pub fn spell(&self, speller: &RefCell<Speller>, out: &mut Text) -> bool {
        let word = Word { lo: self.word as u64, hi: (self.word >> 64) as u64 };
        speller.borrow_mut().text(word, self.pc, out)
    }

    /// What it tells the scheduler; none where words are not ours to read.
    pub fn control(&self) -> Option<ListedControl> {
        self.is_known.then(|| Word::from_bytes(&self.word.to_le_bytes()).control().into())
    }
}

impl<'a> From<&'a ListedInstruction> for Row<'a> {
    fn from(from: &'a ListedInstruction) -> Self {
        Row {
            pc: from.pc,
            word: u128::from_str_radix(&from.hex, 16).unwrap_or(0),
            text: from.text.as_deref().map_or(RowText::None, RowText::Read),
            live: from.live,
            ptx_line: from.ptx_line,
            is_spill: from.spill == Some(true),
            is_known: from.control.is_some(),
            live_registers: from.live_registers,
        }
    }
}

impl Part<'_> {
    /// Its rows, ascending.
    pub fn rows<E>(&self, mut each: impl FnMut(&Row<'_>) -> Result<(), E>) -> Result<(), E> {
        let words = self.section.function.code.as_chunks::<16>().0;
        let mut lines = self.section.lines.as_ref().map(FunctionLines::along);
        for range in &self.ranges {
            let first = (range.start.0 as usize / 16).min(words.len());
            let last = (range.end.0 as usize).div_ceil(16).clamp(first, words.len());
            for (pc, word) in (range.start.0..).step_by(16).zip(words.get(first..last).unwrap_or(&[])) {
                if pc % LOOK == 0 {
                    work::check_time();
                }
                let ptx_line = lines.as_mut().and_then(|lines| lines.ptx_line(Pc(pc)));
                each(&self.section.row(Pc(pc), word, ptx_line))?;
            }
        }
        Ok(())
    }

    /// All that is known of its instructions.
    pub fn listed(&self) -> ListedFunction {
        let mut instructions = Vec::new();
        let mut text = Text::default();
        let done = self.rows(|row| {
            text.clear();
            instructions.push(self.section.instruction(row, &mut text));
            Ok::<_, std::convert::Infallible>(())
        });
        match done {
            Ok(()) => {}
            Err(never) => match never {},
        }
        ListedFunction { name: self.name.to_owned(), kernel: self.kernel.to_owned(), instructions }
    }
}

impl Section<'_> {
    /// The function itself first, then those that share its section, by start.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let part = |name, ranges| Part { name, kernel: &self.function.name, ranges, section: self };
        let own = part(&*self.function.name, own_ranges(self.function));
        let others = self.function.parts.iter().map(|found| {
            let range = found.start..found.end;
            part(found.callee(), vec![range])
        });
        std::iter::once(own).chain(others).collect()
    }

    /// What a line shows.
    #[inline(always)]
    fn row(&self, pc: Pc, word: &[u8; 16], ptx_line: Option<Line>) -> Row<'_> {
        let theirs = self.wanted.nvdisasm.map(|listing| listing.row(self.name, pc.0));
        Row {
            pc,
            word: u128::from_le_bytes(*word),
            text: match theirs {
                Some(row) => row.map_or(RowText::None, |row| RowText::Read(row.text.as_str())),
                None => self.speller.map_or(RowText::None, RowText::Own),
            },
            live: match theirs {
                Some(row) => row.and_then(|row| row.live).map(|live| LiveCounts::new(live.map(u32::from))),
                None => self.code.as_ref().map(|code| LiveCounts::of(code.occupied_of_all(pc))),
            },
            ptx_line,
            is_spill: self.spills.as_ref().is_some_and(|spills| spills.binary_search(&pc).is_ok()),
            is_known: self.speller.is_some(),
            live_registers: self.sets.as_ref().and_then(|sets| sets.get(pc.0 as usize / 16)).copied().map(Registers),
        }
    }

    /// A row with what programs are told beside it. There is room for its text.
    fn instruction(&self, row: &Row<'_>, room: &mut Text) -> ListedInstruction {
        let pc = row.pc;
        let known = self.code.as_ref().filter(|code| code.is_known(pc));
        let effects = known.map(|code| code.program().effects(pc.0 as usize / 16));
        ListedInstruction {
            pc,
            hex: format!("{:032x}", row.word),
            text: match row.text {
                RowText::None => None,
                RowText::Own(speller) => row.spell(speller, room).then(|| room.as_str().to_owned()),
                RowText::Read(text) => Some(text.to_owned()),
            },
            live: row.live,
            ptx_line: row.ptx_line,
            source: self.lines.as_ref().and_then(|lines| lines.source_at(pc)).map(ListedSource::from),
            reads: effects.map(|effects| Registers(effects.reads)),
            writes: effects.map(|effects| Registers(effects.writes)),
            spill: self.spills.as_ref().map(|_| row.is_spill),
            control: row.control(),
            live_registers: row.live_registers,
        }
    }
}
