//! The part of the model about registers in use: live values, loops, lines, spills.

use serde::{Deserialize, Serialize};

use crate::base::{Line, Pc};

/// The most live registers of one file, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// How many.
    pub peak: u32,
    /// The first instruction where it is reached.
    pub pc: Option<Pc>,
    /// Its PTX line.
    pub ptx_line: Option<Line>,
    /// The front end's line.
    #[serde(default)]
    pub source_line: Option<SourceLine>,
}

/// Peaks of the four register files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// False when an unknown instruction can be reached.
    pub exact: bool,
    /// Vector registers.
    pub gpr: Peak,
    /// Predicates.
    pub pred: Peak,
    /// Uniform registers.
    pub ugpr: Peak,
    /// Uniform predicates.
    pub upred: Peak,
    /// The highest vector register that an instruction names.
    pub highest_register: Option<u16>,
    /// Why more registers are allocated than are ever live, as far as it can be told.
    pub gap: Vec<String>,
    /// Live vector registers along the code, at most 64 samples, each the maximum of its stretch.
    pub profile: Vec<u32>,
}

/// A value alive at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveValue {
    /// Register indices.
    pub registers: Vec<u16>,
    /// Where it is made, wherever it was copied or spilled to since: the first of its lines. Null where no line's result is known to be it.
    pub ptx_line: Option<Line>,
    /// The instruction that makes it where no line is known: the first.
    #[serde(default)]
    pub pc: Option<Pc>,
    /// That instruction's opcode and modifiers.
    #[serde(default)]
    pub sass: Option<String>,
    /// Every line that makes one of its registers.
    #[serde(default)]
    pub ptx_lines: Vec<Line>,
    /// Whether the line makes no register itself, as a store or a comparison: the value is an operand that ptxas computes for it.
    #[serde(default)]
    pub is_operand: bool,
    /// The PTX registers that those lines define.
    pub virtual_registers: Vec<String>,
    /// The front end's line.
    pub source_line: Option<SourceLine>,
    /// The matrix instruction that adds to it next; null for its own result, and for what is no accumulator.
    #[serde(default)]
    pub accumulator_of_ptx_line: Option<Line>,
    /// Its first use after the peak.
    pub next_use_ptx_line: Option<Line>,
    /// The last line that uses it after the peak, wherever it was copied or spilled to; null where that is not known.
    pub last_use_ptx_line: Option<Line>,
    /// How many instructions lie between what made it and its next use, neither of them counted, when both are told.
    pub idle_instructions: Option<u32>,
    /// The first line of the outermost loop around the place that neither makes nor reads it; null where every loop does.
    #[serde(default)]
    pub idle_loop_ptx_line: Option<Line>,
    /// What could shorten a value that lies idle for long: `reload` or `recompute`; null for one that does not.
    pub could: Option<String>,
}

/// What is alive at one PTX line: at its instruction with the most live registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveAt {
    /// The line.
    pub ptx_line: Line,
    /// The instruction.
    pub pc: Pc,
    /// Live vector registers there.
    pub live_gpr: u32,
    /// The values.
    pub values: Vec<LiveValue>,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopFacts {
    /// Its first instruction.
    pub pc: Pc,
    /// The PTX line of that.
    pub ptx_line: Option<Line>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Instructions, inner loops included.
    pub instructions: u32,
    /// Live vector registers at most.
    pub gpr: Peak,
    /// Spill stores and refills inside; null when spills cannot be told.
    pub spills: Option<u32>,
}

/// A line of a front end's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file as the line table has it.
    pub file: String,
    /// The line.
    pub line: Line,
    /// Where the function itself calls what the line was inlined from; null when the line is the function's own.
    #[serde(default)]
    pub called_at: Option<CallLine>,
}

/// The line of a call in a front end's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallLine {
    /// The file as the line table has it.
    pub file: String,
    /// The line.
    pub line: Line,
}

/// What one PTX line became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFacts {
    /// The line.
    pub ptx_line: Line,
    /// Its instructions, ascending.
    pub pcs: Vec<Pc>,
    /// How many of them only fill the section up; 0 where the code is not decoded.
    pub padding: u32,
    /// The most live registers among them.
    pub live_gpr_max: Option<u32>,
    /// Spill stores among them.
    pub spill_stores: Option<u32>,
    /// Refills among them.
    pub spill_loads: Option<u32>,
}

/// What one line of the front end's source became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// The file as the line table has it.
    pub file: String,
    /// The line.
    pub line: Line,
    /// Its instructions, without what only fills the section up.
    pub instructions: u32,
    /// The most live registers among them.
    pub live_gpr_max: Option<u32>,
    /// Spill stores among them.
    pub spill_stores: Option<u32>,
    /// Refills among them.
    pub spill_loads: Option<u32>,
}

/// The lines of what is inlined at the line that became most of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlinedLines {
    /// The call, or the innermost of several in a row, by which most instructions come.
    pub called_at: CallLine,
    /// The lines there, what they inline in turn where they call it.
    pub lines: Vec<SourceFacts>,
}

/// Store or refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpillKind {
    /// Register to memory.
    Store,
    /// Memory to register.
    Refill,
}

/// One spill instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spill {
    /// Where.
    pub pc: Pc,
    /// Store or refill.
    pub kind: Option<SpillKind>,
    /// How much.
    pub bytes: Option<u32>,
    /// Its PTX line.
    pub ptx_line: Option<Line>,
    /// The stack slot: its offset from the stack pointer.
    pub slot: Option<i64>,
    /// The PTX line of the value that a store puts aside.
    pub value_ptx_line: Option<Line>,
    /// `marked` by ptxas, or `inferred` from stack slots whose bytes add up to ptxas's figures.
    pub basis: String,
    /// How many loops it is in.
    pub loop_depth: Option<u32>,
    /// Whose.
    pub role: Option<String>,
}

/// A variable in local memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalVariable {
    /// Its name.
    pub name: String,
    /// Its size, when it is told.
    pub bytes: Option<u64>,
    /// Where it is declared.
    pub ptx_line: Line,
}
