//! The one model: everything a writer may say, owned, ordered and serialisable.
//!
//! Field names are the JSON's (`docs/schema/report-v1.schema.json`). A field that is not known is `None` and is written as
//! null: never 0, never absent.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::PtxText;
use super::access::AccessFacts;
use super::code_parts::CodeParts;
use super::cost::{HazardFacts, LoopCost};
use super::matrices::{FragmentsAt, Multiplication};
use super::memory::MemoryMaps;
pub use super::registers::*;
use super::timeline::Timeline;
use super::warps::{Barriers, Role, SetMaxNReg};
use crate::base::hardware::WARP_SIZE;
use crate::base::{Line, Pc};
pub use crate::registers::cap::Cause;

/// The name and version of the JSON's shape.
pub const SCHEMA: &str = "ptxinspect.report/1";

/// What one run found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// One for each input and architecture, in the order they were asked for.
    pub units: Vec<Unit>,
}

impl Report {
    /// A report of these units.
    pub fn new(units: Vec<Unit>) -> Self {
        Report { schema: SCHEMA.to_owned(), units }
    }
}

/// One input compiled (or read) for one architecture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// The input as the user named it.
    pub input: String,
    /// `sm_90a`; null when the input could not be read far enough to tell.
    pub arch: Option<String>,
    /// Which ptxas ran; null for a cubin.
    pub ptxas: Option<PtxasUsed>,
    /// What was changed on a copy of the input so that ptxas would read it.
    pub prepared: Vec<String>,
    /// What the cubin says of itself.
    pub cubin: Option<CubinFacts>,
    /// How the launcher of a compiler's cache starts its kernels; absent where no file beside the input says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_launch: Option<RecordedLaunch>,
    /// ptxas's warnings and remarks.
    pub advisories: Vec<Advisory>,
    /// Lines of ptxas's log that were not understood, kept as they are.
    pub unparsed_log: Vec<LogLine>,
    /// What our own readers did not understand of the input or the cubin.
    pub problems: Vec<Problem>,
    /// Why there is no result; null when there is one.
    pub error: Option<UnitError>,
    /// Entries and device functions, in the order the cubin has them.
    pub kernels: Vec<Kernel>,
    /// The PTX, for writers that quote it; not part of the JSON.
    #[serde(skip)]
    pub ptx: PtxText,
    /// The front end's files that were found, for writers that quote them; not part of the JSON.
    #[serde(skip)]
    pub sources: BTreeMap<String, PtxText>,
}

/// A launch that the file beside an input tells, as Triton's cache has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLaunch {
    /// The name of that file.
    pub file: String,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory asked for at launch.
    pub smem_dynamic_bytes: u64,
}

/// The ptxas that compiled a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PtxasUsed {
    /// `13.4.92`; null when it would not say.
    pub version: Option<String>,
    /// How it was found: `argument`, `environment`, `path`, `managed`, …
    pub path_kind: String,
    /// Why this one, in words.
    pub reason: String,
    /// The file that ran; null for a managed one, which its version names.
    #[serde(default)]
    pub path: Option<String>,
    /// The flags it was given, ours and the user's, less paths.
    pub flags: Vec<String>,
}

impl PtxasUsed {
    /// Which file ran and why that one, where it is not a managed one.
    pub fn file(&self) -> Option<PtxasFile> {
        let path = self.path.clone()?;
        Some(PtxasFile { path, version: self.version.clone(), reason: self.reason.clone() })
    }
}

/// A ptxas that ran and is not managed: whoever reads a result can tell what made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PtxasFile {
    /// The file.
    pub path: String,
    /// `13.4.92`; null when it would not say.
    pub version: Option<String>,
    /// Why this one, in words.
    pub reason: String,
}

/// Facts about the cubin as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CubinFacts {
    /// 7 or 8.
    pub abi: u8,
    /// Whether it still has to be linked (`ptxas -c`).
    pub relocatable: bool,
    /// The ptxas that made it, from its notes.
    pub made_by: Option<String>,
    /// That ptxas's options, from its notes.
    pub made_with: Option<String>,
}

/// How bad a message is, in ptxas's own grading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A remark.
    Info,
    /// Worth a look.
    Warning,
    /// The input is wrong.
    Error,
}

/// A message of ptxas about the code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advisory {
    /// `C7508`; null when ptxas gives none.
    pub code: Option<String>,
    /// Its severity.
    pub severity: Severity,
    /// The function it concerns, when it says.
    pub kernel: Option<String>,
    /// The PTX line it concerns, when it says.
    pub ptx_line: Option<Line>,
    /// Where it says none: the first line of its function with an instruction of the kind that it speaks of.
    #[serde(default)]
    pub first_ptx_line: Option<Line>,
    /// The front end's line of either.
    #[serde(default)]
    pub source_line: Option<SourceLine>,
    /// The message.
    pub message: String,
}

impl Advisory {
    /// Whether something is lost, though ptxas calls it information.
    pub fn is_loss(&self) -> bool {
        self.message.starts_with("Potential Performance Loss")
    }

    /// Whether a reader should know before anything else.
    pub fn is_serious(&self) -> bool {
        self.severity > Severity::Info || self.is_loss()
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Where in the log.
    pub line: Line,
    /// What it says.
    pub text: String,
}

/// Which reader did not understand something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemStage {
    /// The PTX's.
    Ptx,
    /// The cubin's.
    Cubin,
    /// The line tables'.
    Lines,
    /// The code's.
    Sass,
    /// What joins them.
    Join,
    /// A question that was given up.
    Analysis,
}

impl ProblemStage {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ProblemStage::Ptx => "ptx",
            ProblemStage::Cubin => "cubin",
            ProblemStage::Lines => "lines",
            ProblemStage::Sass => "sass",
            ProblemStage::Join => "join",
            ProblemStage::Analysis => "analysis",
        }
    }
}

/// Something we did not understand and went on without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Which reader.
    pub stage: ProblemStage,
    /// The PTX line, where there is one.
    pub ptx_line: Option<Line>,
    /// What was expected, what was found.
    pub message: String,
}

/// How far a unit came that has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorStage {
    /// An argument, a file, or what is in it.
    Input,
    /// There is no ptxas, or it cannot be had.
    Toolchain,
    /// ptxas refuses the PTX.
    Ptxas,
    /// The cubin cannot be read.
    Cubin,
    /// nvdisasm, for whoever asks for its listing.
    Nvdisasm,
    /// It was not done in time.
    Timeout,
}

/// Why a unit has no result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitError {
    /// How far it came.
    pub stage: ErrorStage,
    /// What, where, expected, found, what to do.
    pub message: String,
    /// ptxas's errors, when it is ptxas that refused.
    pub diagnostics: Vec<Diagnostic>,
}

/// An error of ptxas at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Its code, if any.
    pub code: Option<String>,
    /// The PTX line.
    pub ptx_line: Option<Line>,
    /// The place that a `#line` in the PTX gives that line, where ptxas names it so.
    pub source: Option<SourceLine>,
    /// The line itself.
    pub text: Option<String>,
    /// The message.
    pub message: String,
}

/// Entry point or device function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// A kernel.
    #[default]
    Entry,
    /// A device function that was not inlined.
    Func,
}

/// One function of the cubin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// As the cubin has it.
    pub name: String,
    /// As the front end's language spells it; null when the name is not mangled.
    pub demangled: Option<String>,
    /// Entry or function.
    pub kind: KernelKind,
    /// The kernel whose section a device function lives in; null for one with a section of its own.
    pub within: Option<String>,
    /// The PTX line of its `.entry` or `.func`.
    pub ptx_line: Option<Line>,
    /// What it needs.
    pub resources: Resources,
    /// What its directives say of a launch; null without PTX and cubin record.
    pub launch: Launch,
    /// What bounds its registers; null for a function.
    pub register_cap: Option<RegisterCap>,
    /// How its code was accounted for.
    pub instructions: Instructions,
    /// Live registers.
    pub pressure: Option<Pressure>,
    /// What is alive at the peak.
    pub live_at_peak: Option<Vec<LiveValue>>,
    /// What is alive at the lines that were asked about.
    pub live_at: Vec<LiveAt>,
    /// What its registers hold at the lines that were asked about, where an instruction there spreads a matrix over the threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragments_at: Vec<FragmentsAt>,
    /// What its `wgmma` and `tcgen05.mma` multiply, by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multiplications: Vec<Multiplication>,
    /// Loops, by the position of their first instruction; null when the code is not decoded.
    pub loops: Option<Vec<LoopFacts>>,
    /// What its hottest loops cost, or those that were asked for; null where nobody measured the architecture, or nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Vec<LoopCost>>,
    /// What its accesses of shared and global memory cost; of the accesses those that are decided to take more than they must, unless all
    /// were asked for. Null without PTX, and where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accesses: Option<AccessFacts>,
    /// What the whole code costs, part by part, to compare builds; no part of the JSON.
    #[serde(skip)]
    pub code_parts: Option<CodeParts>,
    /// Every PTX line that became SASS.
    pub lines: Vec<LineFacts>,
    /// Every line of the front end's source that became SASS, what is inlined where the kernel calls it; absent where the cubin has no such
    /// lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_lines: Vec<SourceFacts>,
    /// Where one of these became more than half of it by what is inlined there: the lines of that; null otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_lines: Option<InlinedLines>,
    /// Instructions with no PTX line.
    pub unmapped_pcs: Vec<Pc>,
    /// Every spill store and refill; null when they cannot be told from other local memory.
    pub spills: Option<Vec<Spill>>,
    /// The `.local` variables of its PTX.
    pub local_variables: Vec<LocalVariable>,
    /// Which role alone runs a PTX line, by its place in `roles`; not part of the JSON.
    #[serde(skip)]
    pub role_of_line: HashMap<Line, usize>,
    /// Which warps of a block may run a PTX line, bit by bit, where not all may; not part of the JSON.
    #[serde(skip)]
    pub warps_of_line: HashMap<Line, u32>,
    /// Warp roles; empty when all warps do the same, null without PTX.
    pub roles: Option<Vec<Role>>,
    /// setmaxnreg; null for a kernel that has none.
    pub setmaxnreg: Option<SetMaxNReg>,
    /// Barriers of all kinds and what checks found; null without PTX.
    pub barriers: Option<Barriers>,
    /// Maps of its shared and tensor memory, groups under way, copies and fences; null without PTX, and where it has none of them.
    #[serde(default)]
    pub memory: Option<MemoryMaps>,
    /// Blocks per SM.
    pub occupancy: Option<Occupancy>,
    /// Kernel parameters.
    pub parameters: Vec<Parameter>,
    /// Every attribute record of the cubin for this function.
    pub attributes: Vec<Attribute>,
    /// Its barriers as they are executed, for pages; none where nobody asked for it or there is nothing to draw.
    #[serde(skip)]
    pub timeline: Option<Box<Timeline>>,
    /// Consumers that come too early by the control bits; none where nobody asked for it.
    #[serde(skip)]
    pub hazards: Option<HazardFacts>,
}

impl Kernel {
    /// Instructions that no PTX line stands for, without what only fills the section up; none without a line table.
    pub fn without_ptx_line(&self) -> Option<u64> {
        let (mapped, all) = (self.instructions.with_ptx_line?, self.instructions.count()?);
        let padding: u64 = self.lines.iter().map(|line| u64::from(line.padding)).sum();
        Some(all.saturating_sub(mapped.saturating_sub(padding)))
    }
}

/// What a function needs of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Registers a thread.
    pub registers: Option<u32>,
    /// Named barriers: the highest id and one.
    pub barriers: Option<u32>,
    /// Stack frame.
    pub stack_bytes: Option<u64>,
    /// Spill stores, as ptxas counts them.
    pub spill_store_bytes: Option<u64>,
    /// Spill loads, as ptxas counts them.
    pub spill_load_bytes: Option<u64>,
    /// Static shared memory.
    pub smem_bytes: Option<u64>,
    /// Constant bank bytes, all banks together.
    pub cmem_bytes: Option<u64>,
    /// Each constant bank.
    pub cmem: Vec<ConstantBank>,
    /// Local memory beside the stack.
    pub local_bytes: Option<u64>,
    /// Bytes of machine code.
    pub code_bytes: u64,
}

/// One constant bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantBank {
    /// Its number.
    pub bank: u32,
    /// Its size.
    pub bytes: u64,
}

/// What a kernel's directives say of its launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// `.reqntid`.
    pub reqntid: Option<[u32; 3]>,
    /// `.maxntid`.
    pub maxntid: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub minnctapersm: Option<u32>,
    /// `.maxnreg`.
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
}

impl Launch {
    /// Threads of a block, when the directives fix or bound them.
    pub fn threads(&self) -> Option<u32> {
        let [x, y, z] = self.reqntid.or(self.maxntid)?;
        x.checked_mul(y)?.checked_mul(z)
    }
}

/// What bounds a kernel's registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterCap {
    /// The most registers a thread may get.
    pub registers: u32,
    /// What sets it.
    pub cause: Cause,
    /// The cause in words, with its arithmetic.
    pub explanation: String,
}

/// How the words of code were accounted for: `decoded + unknown + padding` is `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// 16-byte words; null for an architecture whose instructions are not 16 bytes.
    pub total: Option<u64>,
    /// Words decoded; null when this architecture's SASS is not decoded.
    pub decoded: Option<u64>,
    /// Words not known.
    pub unknown: Option<u64>,
    /// Trailing NOPs and branch-to-self that only fill the section.
    pub padding: Option<u64>,
    /// Words with a PTX line.
    pub with_ptx_line: Option<u64>,
    /// Words with a source line of the front end.
    pub with_source_line: Option<u64>,
}

impl Instructions {
    /// Instructions that can run: without what only fills the section up.
    pub fn count(&self) -> Option<u64> {
        self.total.map(|total| total.saturating_sub(self.padding.unwrap_or(0)))
    }
}

/// How many blocks run at once, and what it would take to have more. What depends on a figure that only the launch
/// knows is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Threads of a block; null where nothing says.
    pub threads: Option<u32>,
    /// Dynamic shared memory of a block that was counted; null where the kernel takes some and nothing says how much.
    #[serde(default)]
    pub smem_dynamic_bytes: Option<u64>,
    /// Dynamic shared memory that every launch must have, for constants in the PTX touch it; null where that is not known, or `smem_dynamic_bytes`
    /// is. Blocks were counted with it.
    #[serde(default)]
    pub smem_dynamic_least_bytes: Option<u64>,
    /// Columns of tensor memory that a block holds at once; null where it allocates none, or how many is not known.
    #[serde(default)]
    pub tmem_columns: Option<u32>,
    /// What only the launch knows, and nobody said.
    #[serde(default)]
    pub missing: Vec<LaunchFact>,
    /// Blocks an SM holds.
    pub blocks_per_sm: Option<u32>,
    /// Warps an SM holds.
    pub warps_per_sm: Option<u32>,
    /// Warps an SM has room for.
    pub max_warps_per_sm: u32,
    /// What stops one more: the first of `limiters`.
    pub limiter: Option<String>,
    /// Everything that stops one more.
    #[serde(default)]
    pub limiters: Vec<String>,
    /// The registers with which more blocks would fit: arithmetic, whatever ptxas can do.
    pub next_step: Option<OccupancyStep>,
    /// What ptxas made of the kernel when it was held to those registers; null where it was not asked.
    #[serde(default)]
    pub next_step_tried: Option<StepTried>,
    /// The registers that would allow fewer.
    pub cliff: Option<OccupancyStep>,
    /// Where `missing` is dynamic shared memory alone: the blocks that each size of it leaves, the most blocks first.
    #[serde(default)]
    pub by_smem_dynamic: Vec<SmemRange>,
}

impl Occupancy {
    /// Whether no block fits, whatever is missing.
    pub fn cannot_launch(&self) -> bool {
        self.blocks_per_sm == Some(0)
    }

    /// The blocks an SM holds at most, when only dynamic shared memory is missing.
    pub fn most_blocks_per_sm(&self) -> Option<u32> {
        self.blocks_per_sm.or(self.by_smem_dynamic.first().map(|range| range.blocks_per_sm))
    }

    /// The warps an SM holds at most, when only dynamic shared memory is missing.
    pub fn most_warps_per_sm(&self) -> Option<u32> {
        let most = || Some(self.most_blocks_per_sm()?.saturating_mul(self.threads?.div_ceil(WARP_SIZE)));
        self.warps_per_sm.or_else(most)
    }
}

/// A figure of a launch that no directive has to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchFact {
    /// Threads of a block.
    Threads,
    /// Dynamic shared memory of a block.
    SmemDynamic,
}

impl LaunchFact {
    /// As the middle of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            LaunchFact::Threads => "the block size",
            LaunchFact::SmemDynamic => "the dynamic shared memory",
        }
    }

    /// The setting of `ptxinspect.toml` that states it.
    pub fn setting(self) -> &'static str {
        match self {
            LaunchFact::Threads => "threads",
            LaunchFact::SmemDynamic => "smem_dynamic",
        }
    }

    /// The flag that states it.
    pub fn flag(self) -> &'static str {
        match self {
            LaunchFact::Threads => "--threads",
            LaunchFact::SmemDynamic => "--smem-dynamic",
        }
    }
}

/// Sizes of dynamic shared memory with the same number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmemRange {
    /// The most bytes.
    pub smem_dynamic_bytes: u64,
    /// Blocks an SM holds.
    pub blocks_per_sm: u32,
}

/// A register count and the blocks it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OccupancyStep {
    /// Registers a thread.
    pub registers: u32,
    /// Blocks an SM would hold.
    pub blocks_per_sm: u32,
}

/// What ptxas made of a kernel when it was held to fewer registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTried {
    /// Whether ptxas compiles it; null where it could not be asked. The figures are null where it does not.
    pub compiles: Option<bool>,
    /// Registers a thread.
    pub registers: Option<u32>,
    /// Blocks an SM holds.
    pub blocks_per_sm: Option<u32>,
    /// Spill stores.
    pub spill_store_bytes: Option<u64>,
    /// Spill loads.
    pub spill_load_bytes: Option<u64>,
    /// In ptxas's words why it does not compile, why ptxas could not be asked, or what becomes of setmaxnreg.
    pub message: Option<String>,
}

/// One kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its place in the list.
    pub ordinal: u32,
    /// Its offset in the parameter bank.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
}

/// One `.nv.info` record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its number.
    pub code: u8,
    /// Its name; null when we do not know it.
    pub name: Option<String>,
    /// Its value in hex.
    pub value: String,
}
