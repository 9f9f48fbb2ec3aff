//! Edits of a kernel's PTX: each named, each with a condition that is checked, each made as splices of the text as it was.
//!
//! Lines in an edit's name are those of the text as it was given, whatever else is edited: all edits of a trial are made at once, but for
//! the order of instructions, which names no line and comes last.

mod budgets;
mod directives;
mod loads;
mod loops;
mod order;
mod recompute;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::Axis;
use crate::base::hardware::MAX_NAMED_REGISTERS;
use crate::ptx::{self, Function, Module};

pub use budgets::{RoleSet, splits};
pub use directives::callees;
pub use loops::{LoopHeader, headers};

/// A change of the text that leaves what the kernel computes as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edit {
    /// `.maxnreg N` in the kernel's header.
    MaxNReg(u32),
    /// `.minnctapersm N` in the kernel's header.
    MinBlocks(u32),
    /// `.maxntid N` in the kernel's header.
    MaxThreads(u32),
    /// The counts of the kernel's setmaxnreg, in the order of the text.
    Budgets(Vec<u32>),
    /// `.pragma "nounroll"` in the loop whose label stands on this line.
    NoUnroll(u32),
    /// `.noinline` in the header of the function that starts on this line.
    NoInline(u32),
    /// `.pragma "enable_smem_spilling"`: registers that do not fit go to shared memory first.
    SpillToShared,
    /// The same for a kernel that takes so many bytes of shared memory at launch: they become static first.
    SpillBesideShared(u32),
    /// Loads stand where their values are first needed.
    LoadsLate,
    /// The instructions of each block stand in an order in which few values are alive at once.
    FewestLive,
    /// Constants, special registers and parameters are read again where they are used.
    Recompute,
}

/// Why an edit is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is nothing that it could change.
    #[error("there is nothing to change")]
    NothingToChange,
    /// A directive is there already that it would contradict.
    #[error("the kernel has {0} already")]
    Has(&'static str),
    /// It needs a directive.
    #[error("it needs {0}, which the kernel does not have")]
    Needs(&'static str),
    /// The version of PTX is too old.
    #[error("it needs PTX .version {0}.{1} or later")]
    Version(u32, u32),
    /// The kernel takes shared memory at launch, of which nobody knows how much is left.
    #[error("the kernel takes shared memory at launch")]
    DynamicShared,
    /// The shared memory of the launch cannot be made static.
    #[error("its shared memory is not one array of open size, of this kernel alone and at most 48 KB")]
    SharedNotStatic,
    /// There is no loop there.
    #[error("line {0} has no loop that starts with a label")]
    NoLoop(u32),
    /// There is no such function.
    #[error("line {0} has no function that could stay a call")]
    NoFunction(u32),
    /// The number of counts is not that of the instructions.
    #[error("the kernel has {0} setmaxnreg with constant counts: expected as many counts")]
    Counts(usize),
    /// More registers than an instruction can name, or none.
    #[error("{0} registers a thread are none that a kernel can have: expected 1 to {MAX_NAMED_REGISTERS}")]
    NoRegisters(u32),
    /// A count that the ISA does not allow.
    #[error("{0} is no count of registers: expected a multiple of 8 from 24 to 256")]
    IllegalCount(u32),
    /// Two edits of the same text.
    #[error("two of the edits change the same text")]
    Overlap,
    /// The text is not all PTX that is understood.
    #[error("a part of the PTX is not understood")]
    NotUnderstood,
}

/// A stretch of the text and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Where, in bytes.
    pub range: Range<usize>,
    /// What comes there.
    pub text: String,
}

impl Splice {
    fn insert(at: usize, text: impl Into<String>) -> Self {
        Splice { range: at..at, text: text.into() }
    }
}

impl Edit {
    /// What it sets.
    pub fn axis(&self) -> Axis {
        match self {
            Edit::MaxNReg(_) | Edit::MinBlocks(_) => Axis::Registers,
            Edit::MaxThreads(_) => Axis::Threads,
            Edit::Budgets(_) => Axis::Budgets,
            Edit::NoUnroll(line) => Axis::Loop(*line),
            Edit::NoInline(line) => Axis::Function(*line),
            Edit::SpillToShared | Edit::SpillBesideShared(_) => Axis::SpillMemory,
            Edit::LoadsLate | Edit::FewestLive => Axis::Order,
            Edit::Recompute => Axis::Recomputed,
        }
    }

    /// What it does, for people.
    pub fn words(&self) -> String {
        match self {
            Edit::MaxNReg(count) => format!("the kernel's header says .maxnreg {count}"),
            Edit::MinBlocks(count) => format!("the kernel's header says .minnctapersm {count}"),
            Edit::MaxThreads(count) => format!("the kernel's header says .maxntid {count}"),
            Edit::Budgets(counts) => {
                let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
                format!("setmaxnreg asks for {}, in the order of the text", counts.join(", "))
            }
            Edit::NoUnroll(line) => format!("the loop at line {line} is not unrolled"),
            Edit::NoInline(line) => format!("the function at line {line} stays a call"),
            Edit::SpillToShared => "registers that do not fit go to shared memory first".to_owned(),
            Edit::SpillBesideShared(bytes) => format!(
                "the {bytes} bytes of shared memory of the launch are static, and registers that do not fit go to shared memory first"
            ),
            Edit::LoadsLate => "loads stand where their values are first needed".to_owned(),
            Edit::FewestLive => "each block's instructions stand in an order that keeps few values alive".to_owned(),
            Edit::Recompute => {
                "constants, special registers and parameters are read again where they are used".to_owned()
            }
        }
    }

    /// The splices that make it, its condition checked.
    pub fn splices(&self, kernel: &Function<'_, '_>) -> Result<Vec<Splice>, Refused> {
        match self {
            Edit::MaxNReg(count) if !(1..=MAX_NAMED_REGISTERS).contains(count) => Err(Refused::NoRegisters(*count)),
            Edit::MaxNReg(count) => directives::set(kernel, ".maxnreg", *count),
            Edit::MinBlocks(count) => directives::min_blocks(kernel, *count),
            Edit::MaxThreads(count) => directives::max_threads(kernel, *count),
            Edit::Budgets(counts) => budgets::splices(kernel, counts),
            Edit::NoUnroll(line) => loops::splices(kernel, *line),
            Edit::NoInline(line) => directives::no_inline(kernel, *line),
            Edit::SpillToShared => directives::spill_to_shared(kernel, None),
            Edit::SpillBesideShared(bytes) => directives::spill_to_shared(kernel, Some(*bytes)),
            Edit::LoadsLate => loads::splices(kernel),
            Edit::FewestLive => order::splices(kernel),
            Edit::Recompute => recompute::splices(kernel),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::MaxNReg(count) => write!(f, "maxnreg={count}"),
            Edit::MinBlocks(count) => write!(f, "minnctapersm={count}"),
            Edit::MaxThreads(count) => write!(f, "maxntid={count}"),
            Edit::Budgets(counts) => {
                f.write_str("setmaxnreg=")?;
                for (at, count) in counts.iter().enumerate() {
                    write!(f, "{}{count}", if at > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Edit::NoUnroll(line) => write!(f, "nounroll@{line}"),
            Edit::NoInline(line) => write!(f, "noinline@{line}"),
            Edit::SpillToShared => f.write_str("spill-to-shared"),
            Edit::SpillBesideShared(bytes) => write!(f, "spill-to-shared={bytes}"),
            Edit::LoadsLate => f.write_str("loads-late"),
            Edit::FewestLive => f.write_str("fewest-live"),
            Edit::Recompute => f.write_str("recompute"),
        }
    }
}

/// The text with all these edits of a kernel. What sets the order of instructions comes last, and orders what the others leave.
pub fn apply(kernel: &Function<'_, '_>, edits: &[&Edit]) -> Result<String, Refused> {
    let (order, others): (Vec<&Edit>, Vec<&Edit>) = edits.iter().copied().partition(|edit| edit.axis() == Axis::Order);
    let edited = splice(kernel, &others)?;
    let [order @ .., last] = order.as_slice() else { return Ok(edited) };
    if !order.is_empty() {
        return Err(Refused::Overlap);
    }
    let module = ptx::parse(&edited);
    let kernel = module.function(kernel.name()).ok_or(Refused::NotUnderstood)?;
    splice(&kernel, &[last])
}

/// The text with these edits, all of the text as it is.
fn splice(kernel: &Function<'_, '_>, edits: &[&Edit]) -> Result<String, Refused> {
    let text = kernel.module().text();
    let mut splices = Vec::new();
    for edit in edits {
        splices.extend(edit.splices(kernel)?);
    }
    splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut out = String::with_capacity(text.len() + 64 * splices.len());
    let mut at = 0;
    for splice in &splices {
        let kept = text.get(at..splice.range.start).ok_or(Refused::Overlap)?;
        out.push_str(kept);
        out.push_str(&splice.text);
        at = splice.range.end;
    }
    out.push_str(text.get(at..).ok_or(Refused::Overlap)?);
    Ok(out)
}

/// Where a part of a module's text begins.
fn offset(module: &Module<'_>, part: &str) -> Option<usize> {
    let at = (part.as_ptr() as usize).checked_sub(module.text().as_ptr() as usize)?;
    (at + part.len() <= module.text().len()).then_some(at)
}

/// An edit that is none: what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no edit: expected maxnreg=N, minnctapersm=N, maxntid=N, setmaxnreg=N,N,…, nounroll@LINE, noinline@LINE, spill-to-shared, spill-to-shared=BYTES, \
     loads-late, fewest-live or recompute"
)]
pub struct NoEdit(String);

impl FromStr for Edit {
    type Err = NoEdit;

    fn from_str(text: &str) -> Result<Self, NoEdit> {
        let wrong = || NoEdit(text.to_owned());
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        match (text.split_once('='), text.split_once('@')) {
            (Some(("maxnreg", count)), _) => Ok(Edit::MaxNReg(number(count)?)),
            (Some(("minnctapersm", count)), _) => Ok(Edit::MinBlocks(number(count)?)),
            (Some(("maxntid", count)), _) => Ok(Edit::MaxThreads(number(count)?)),
            (Some(("setmaxnreg", counts)), _) => {
                Ok(Edit::Budgets(counts.split(',').map(number).collect::<Result<_, _>>()?))
            }
            (Some(("spill-to-shared", bytes)), _) => Ok(Edit::SpillBesideShared(number(bytes)?)),
            (_, Some(("nounroll", line))) => Ok(Edit::NoUnroll(number(line)?)),
            (_, Some(("noinline", line))) => Ok(Edit::NoInline(number(line)?)),
            _ => match text {
                "spill-to-shared" => Ok(Edit::SpillToShared),
                "loads-late" => Ok(Edit::LoadsLate),
                "fewest-live" => Ok(Edit::FewestLive),
                "recompute" => Ok(Edit::Recompute),
                _ => Err(wrong()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
