//! The listing: every instruction of a cubin in SASS order, with its lines.

use serde::Serialize;

use super::code::{marked_spills, own_ranges};
use crate::analysis::code::{Code, Counting};
use crate::base::{Line, Pc, RegFile, RegSet};
use crate::cubin::lines::{FunctionLines, LineTable, SourcePos};
use crate::cubin::{Function, Image};
use crate::flow::Program;
use crate::sass::{Decoder, Word};

/// The name and version of the listing's JSON.
pub const LISTING_SCHEMA: &str = "ptxinspect.disasm/1";

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
    /// As nvdisasm prints it; null when it is not decoded.
    pub text: Option<String>,
    /// Live registers, counted as nvdisasm's `#` does; null when not decoded.
    pub live: Option<LiveCounts>,
    /// The PTX line it was made of.
    pub ptx_line: Option<Line>,
    /// The front end's line.
    pub source: Option<ListedSource>,
    /// Registers it reads; null when not decoded.
    pub reads: Option<Vec<String>>,
    /// Registers it writes; null when not decoded.
    pub writes: Option<Vec<String>>,
    /// Whether ptxas marked it as a spill store or refill; null when this ptxas marks none.
    pub spill: Option<bool>,
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

/// Lists one section: the function itself first, then those that share its section, by start.
pub fn list(
    image: &Image<'_>,
    lines: &LineTable<'_>,
    function: &Function<'_>,
    counting: &Counting,
) -> Vec<ListedFunction> {
    let section = Section {
        function,
        lines: lines.function(function),
        spills: marked_spills(image, function),
        code: Code::analyse(image.arch, function, counting),
        decoder: Decoder::new(image.arch),
    };
    let own = section.list(&function.name, &own_ranges(function));
    let parts = function.parts.iter().map(|part| section.list(part.callee(), &[part.start..part.end]));
    std::iter::once(own).chain(parts).collect()
}

struct Section<'a> {
    function: &'a Function<'a>,
    lines: Option<FunctionLines<'a>>,
    spills: Option<Vec<Pc>>,
    code: Option<Code>,
    decoder: Option<Decoder>,
}

impl Section<'_> {
    fn list(&self, name: &str, ranges: &[std::ops::Range<Pc>]) -> ListedFunction {
        let words = self.function.code.as_chunks::<16>().0;
        let pcs = ranges.iter().flat_map(|range| (range.start.0..range.end.0).step_by(16));
        let instructions = pcs.filter_map(|pc| Some(self.instruction(Pc(pc), words.get(pc as usize / 16)?)));
        ListedFunction {
            name: name.to_owned(),
            kernel: self.function.name.to_string(),
            instructions: instructions.collect(),
        }
    }

    fn instruction(&self, pc: Pc, word: &[u8; 16]) -> ListedInstruction {
        let decoded = self.decoder.map(|decoder| (decoder, decoder.decode(Word::from_bytes(word))));
        let text = decoded.filter(|(_, instruction)| !instruction.is_unknown()).map(|(decoder, instruction)| {
            let mut text = String::new();
            decoder.text(&instruction, pc, &mut text);
            text
        });
        let known = self.code.as_ref().filter(|code| code.is_known(pc));
        let effects = known.map(|code| code.program().effects(pc.0 as usize / 16));
        ListedInstruction {
            pc,
            hex: format!("{:032x}", u128::from_le_bytes(*word)),
            text,
            live: self.code.as_ref().map(|code| LiveCounts {
                gpr: code.occupied(pc, RegFile::Gpr),
                pred: code.occupied(pc, RegFile::Pred),
                ugpr: code.occupied(pc, RegFile::Ugpr),
                upred: code.occupied(pc, RegFile::Upred),
            }),
            ptx_line: self.lines.as_ref().and_then(|lines| lines.ptx_line(pc)),
            source: self.lines.as_ref().and_then(|lines| lines.source_at(pc)).map(ListedSource::from),
            reads: effects.map(|effects| names(&effects.reads)),
            writes: effects.map(|effects| names(&effects.writes)),
            spill: self.spills.as_ref().map(|spills| spills.binary_search(&pc).is_ok()),
        }
    }
}

/// The registers of a set as SASS spells them.
fn names(set: &RegSet) -> Vec<String> {
    let prefix = |file| match file {
        RegFile::Gpr => "R",
        RegFile::Pred => "P",
        RegFile::Ugpr => "UR",
        RegFile::Upred => "UP",
    };
    set.iter_all().map(|(file, index)| format!("{}{index}", prefix(file))).collect()
}
