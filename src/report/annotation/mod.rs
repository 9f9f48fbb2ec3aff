//! The annotation: every line of PTX with the instructions it became, and what is known of each of them.
//!
//! In: a cubin, its line table, the PTX. Out: an [`Annotation`] in which every instruction of every section stands exactly once,
//! and views of it ([`Annotation::view`]) that place each instruction under a line: the line the table names, or else,
//! marked as such, the line of its neighbour. Nothing is drawn here, and no line is invented.

mod build;
mod view;

use serde::Serialize;

use super::PtxText;
use super::cost::WaitCause;
use super::listing::{ListedControl, ListedSource, LiveCounts};
use super::matrices::Layouts;
use super::model::OccupancyStep;
use super::timeline::Timeline;
use crate::base::{Line, Pc};
pub use crate::registers::budget::Budget;
pub use crate::registers::value_spans::ValueSpan;
pub use crate::sass::Control;
pub use build::{Inputs, annotate};
pub use view::{By, Document, Group, Placed, View};

/// The name and version of the annotation's JSON.
pub const ANNOTATION_SCHEMA: &str = "ptxinspect.annotate/1";

/// One input, annotated.
#[derive(Clone, Debug, Default)]
pub struct Annotation {
    /// The PTX the line tables speak of; more than one where several modules were linked.
    pub texts: Vec<PtxText>,
    /// One for each code section, in the order of the cubin.
    pub kernels: Vec<AnnotatedKernel>,
    /// The front end's files, as the line tables name them.
    pub files: Vec<String>,
    /// Their text, or why it is not there; as long as `files`.
    pub sources: Vec<Result<PtxText, Missing>>,
}

/// Why the text of a source file is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// There is no such file, or none was sought.
    #[error("not found: give its folder with --source-root")]
    NotFound,
    /// It lies, or a link leads, outside of the folder that may be read.
    #[error("left out, outside of the working folder: --source-root FOLDER shows the files under a folder")]
    Outside,
    /// It is not called like source.
    #[error("left out: not called like source")]
    NotSource,
    /// A folder, a pipe or a device.
    #[error("left out: no regular file")]
    NoFile,
    /// It is too large, or together with the others.
    #[error("left out: more than 32 MiB, or 256 MiB of source in all")]
    TooLarge,
    /// The system does not let it be read.
    #[error("left out: it cannot be read")]
    Unreadable,
}

/// One code section: a kernel, or a device function, with the functions that share its section.
#[derive(Clone, Debug, Default)]
pub struct AnnotatedKernel {
    /// Its name.
    pub name: String,
    /// Which of the texts its lines count in.
    pub text: Option<usize>,
    /// First and last line of its function in that text.
    pub span: Option<(Line, Line)>,
    /// Functions inside its section, by start.
    pub parts: Vec<AnnotatedPart>,
    /// Registers a thread is given.
    pub registers: Option<u32>,
    /// Every instruction, ascending.
    pub instructions: Vec<AnnotatedInstruction>,
    /// Whether live registers are known, and whether they are exact.
    pub exact: Option<bool>,
    /// The first instruction with the most live vector registers.
    pub peak: Option<Pc>,
    /// The most registers that allow each number of blocks on an SM, fewest registers first.
    pub steps: Vec<OccupancyStep>,
    /// Who holds which register from where to where.
    pub values: Option<Vec<ValueSpan>>,
    /// Instructions that fill live registers with what another line made, and that line: copies, refills, zeroed accumulators, and the matrix
    /// instructions of a `wgmma`, which have the line of a statement nearby. No line where no line's result is known to be it.
    pub makers: Vec<(Pc, Option<Line>)>,
    /// The PTX registers that each line which fills a live register defines.
    pub names: Vec<(Line, Vec<String>)>,
    /// Which elements of matrices its registers hold.
    pub layouts: Layouts,
    /// Loops, by their header.
    pub loops: Vec<LoopSpan>,
    /// Its barriers, executed; none where they were not asked for, or there is nothing to draw.
    pub timeline: Option<Box<Timeline>>,
}

/// A function inside a kernel's section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnnotatedPart {
    /// Its name.
    pub name: String,
    /// Its first instruction.
    pub start: Pc,
    /// After its last.
    pub end: Pc,
}

/// A loop, as far as addresses tell it: from its first to its last instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoopSpan {
    /// The instruction control comes back to.
    pub header: Pc,
    /// Its first instruction by address.
    pub first: Pc,
    /// Its last instruction by address.
    pub last: Pc,
    /// 1 for an outermost loop.
    pub depth: u32,
}

/// One instruction.
#[derive(Clone, Debug, Default)]
pub struct AnnotatedInstruction {
    /// Where it is in its section.
    pub pc: Pc,
    /// The word.
    pub word: u128,
    /// As nvdisasm prints it; none when it is not decoded.
    pub text: Option<String>,
    /// Live registers; none when they are not known.
    pub live: Option<LiveCounts>,
    /// The PTX line the table names, a line of the text.
    pub ptx_line: Option<Line>,
    /// The front end's line: which file, which line.
    pub source: Option<(u32, Line)>,
    /// How many loops it is in; none when control flow is not known.
    pub loop_depth: Option<u32>,
    /// Whether it only fills up the section: it is never run.
    pub is_padding: bool,
    /// The register budget in force, where setmaxnreg changed it.
    pub budget: Option<Budget>,
    /// Where a branch or call goes.
    pub target: Option<Pc>,
    /// What is special about it.
    pub marks: Vec<Mark>,
    /// When it issues, with one warp alone; none where nobody measured the architecture, or it cannot be told.
    pub issue: Option<IssueTime>,
}

/// When an instruction issues, with one warp alone: an estimate, as [`LoopWait`](super::LoopWait) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IssueTime {
    /// Cycles after the first instruction of its turn of the loop, or of its way outside of loops.
    pub cycle: u32,
    /// Cycles since the instruction before it.
    pub waited: u32,
    /// Why.
    pub cause: WaitCause,
    /// The instruction that it waits for.
    pub for_pc: Option<Pc>,
    /// The PTX line of that.
    pub for_ptx_line: Option<Line>,
}

impl AnnotatedInstruction {
    /// The text, or the word where it is not decoded.
    pub fn shown(&self) -> std::borrow::Cow<'_, str> {
        match &self.text {
            Some(text) => text.into(),
            None => format!(".word 0x{:032x}", self.word).into(),
        }
    }

    /// What it tells the scheduler.
    pub fn control(&self) -> Control {
        crate::sass::Word { lo: self.word as u64, hi: (self.word >> 64) as u64 }.control()
    }
}

/// What is special about an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mark {
    /// The most live vector registers of the section are reached here first.
    Peak {
        /// How many.
        registers: u32,
    },
    /// A register goes to memory for want of registers.
    SpillStore {
        /// How much.
        bytes: Option<u32>,
    },
    /// And comes back.
    SpillRefill {
        /// How much.
        bytes: Option<u32>,
    },
    /// One of the two: the instruction is not decoded.
    Spill,
    /// The register budget of the warp changes.
    Setmaxnreg {
        /// To how many registers.
        registers: Option<u32>,
    },
    /// Threads wait for each other.
    Barrier {
        /// `named`, `mbarrier` or `cluster`.
        what: &'static str,
    },
    /// Control comes back here.
    Loop {
        /// 1 for an outermost loop.
        depth: u32,
    },
    /// The word is not known.
    Unknown,
}

impl Mark {
    /// In a few words.
    pub fn words(&self) -> String {
        let sized = |what: &str, bytes: &Option<u32>| match bytes {
            Some(bytes) => format!("{what} {bytes} B"),
            None => what.to_owned(),
        };
        match self {
            Mark::Peak { registers } => format!("peak, {registers} live"),
            Mark::SpillStore { bytes } => sized("spill store", bytes),
            Mark::SpillRefill { bytes } => sized("spill refill", bytes),
            Mark::Spill => "spill".to_owned(),
            Mark::Setmaxnreg { registers: Some(registers) } => format!("setmaxnreg {registers}"),
            Mark::Setmaxnreg { registers: None } => "setmaxnreg".to_owned(),
            Mark::Barrier { what: "named" } => "barrier".to_owned(),
            Mark::Barrier { what: "cluster" } => "cluster barrier".to_owned(),
            Mark::Barrier { what } => (*what).to_owned(),
            Mark::Loop { depth: 1 } => "loop".to_owned(),
            Mark::Loop { depth } => format!("loop, depth {depth}"),
            Mark::Unknown => "unknown word".to_owned(),
        }
    }

    /// Whether it is a spill of any kind.
    pub fn is_spill(&self) -> bool {
        matches!(self, Mark::SpillStore { .. } | Mark::SpillRefill { .. } | Mark::Spill)
    }
}

/// An instruction as the JSON has it.
#[derive(Debug, Serialize)]
pub struct InstructionRecord<'a> {
    /// The section it is in.
    pub kernel: &'a str,
    /// Where.
    pub pc: Pc,
    /// As nvdisasm prints it.
    pub text: Option<&'a str>,
    /// The 32 digits of the word, high half first.
    pub hex: String,
    /// Live registers.
    pub live: Option<LiveCounts>,
    /// The line the table names; null for an instruction that stands under its neighbour's.
    pub ptx_line: Option<Line>,
    /// The front end's line.
    pub source: Option<ListedSource>,
    /// How many loops it is in.
    pub loop_depth: Option<u32>,
    /// The register budget in force.
    pub budget: Option<u32>,
    /// What the compiler tells the scheduler.
    pub control: ListedControl,
    /// What is special about it.
    pub marks: &'a [Mark],
    /// When it issues, with one warp alone.
    pub issue: Option<IssueTime>,
}

impl Annotation {
    /// An instruction as the JSON has it.
    pub fn record<'a>(
        &self,
        kernel: &'a AnnotatedKernel,
        instruction: &'a AnnotatedInstruction,
    ) -> InstructionRecord<'a> {
        InstructionRecord {
            kernel: &kernel.name,
            pc: instruction.pc,
            text: instruction.text.as_deref(),
            hex: format!("{:032x}", instruction.word),
            live: instruction.live,
            ptx_line: instruction.ptx_line,
            source: instruction.source.map(|(file, line)| ListedSource {
                file: self.files.get(file as usize).cloned().unwrap_or_default(),
                line,
                inlined_at: Vec::new(),
            }),
            loop_depth: instruction.loop_depth,
            budget: instruction.budget.and_then(|budget| budget.registers),
            control: instruction.control().into(),
            marks: &instruction.marks,
            issue: instruction.issue,
        }
    }
}
