//! What the maps say. Field names are the JSON's.

use serde::{Deserialize, Serialize};

use crate::base::Line;
use crate::ptx::Instruction;

/// The memory of a kernel's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryMaps {
    /// Shared memory; null where nothing touches it.
    pub shared: Option<SharedMap>,
    /// Tensor memory; null where nothing allocates or touches it.
    pub tensor: Option<TensorMap>,
    /// Groups of asynchronous work under way, by kind.
    pub groups: Vec<GroupsInFlight>,
    /// Bulk and tensor copies, in the order of the text.
    pub copies: Vec<CopySite>,
    /// Fences, in the order of the text.
    pub fences: Vec<FenceSite>,
}

/// What happens to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It is written.
    Writes,
    /// It is read.
    Reads,
    /// Both: atomics, barriers, accumulators.
    Both,
}

impl Direction {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Writes => "writes",
            Direction::Reads => "reads",
            Direction::Both => "reads and writes",
        }
    }
}

/// By what memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// `ld.shared`
    #[serde(rename = "ld.shared")]
    Load,
    /// `st.shared`
    #[serde(rename = "st.shared")]
    Store,
    /// `atom.shared`, `red.shared`
    #[serde(rename = "atom.shared")]
    Atomic,
    /// `ldmatrix`
    #[serde(rename = "ldmatrix")]
    LoadMatrix,
    /// `stmatrix`
    #[serde(rename = "stmatrix")]
    StoreMatrix,
    /// `cp.async`
    #[serde(rename = "cp.async")]
    CpAsync,
    /// `cp.async.bulk`
    #[serde(rename = "cp.async.bulk")]
    BulkCopy,
    /// `cp.async.bulk.tensor`
    #[serde(rename = "cp.async.bulk.tensor")]
    TensorCopy,
    /// `wgmma`, by a descriptor.
    #[serde(rename = "wgmma")]
    Wgmma,
    /// `tcgen05.mma`
    #[serde(rename = "tcgen05.mma")]
    Tcgen05Mma,
    /// `tcgen05.cp`
    #[serde(rename = "tcgen05.cp")]
    Tcgen05Copy,
    /// `tcgen05.ld`
    #[serde(rename = "tcgen05.ld")]
    Tcgen05Load,
    /// `tcgen05.st`
    #[serde(rename = "tcgen05.st")]
    Tcgen05Store,
    /// `tcgen05.alloc`, which leaves an address.
    #[serde(rename = "tcgen05.alloc")]
    Tcgen05Alloc,
    /// `mbarrier.*`, and whatever completes on one.
    #[serde(rename = "mbarrier")]
    Mbarrier,
    /// Anything else.
    #[serde(rename = "other")]
    Other,
}

impl How {
    /// As PTX spells it.
    pub fn name(self) -> &'static str {
        match self {
            How::Load => "ld.shared",
            How::Store => "st.shared",
            How::Atomic => "atom.shared",
            How::LoadMatrix => "ldmatrix",
            How::StoreMatrix => "stmatrix",
            How::CpAsync => "cp.async",
            How::BulkCopy => "cp.async.bulk",
            How::TensorCopy => "cp.async.bulk.tensor",
            How::Wgmma => "wgmma",
            How::Tcgen05Mma => "tcgen05.mma",
            How::Tcgen05Copy => "tcgen05.cp",
            How::Tcgen05Load => "tcgen05.ld",
            How::Tcgen05Store => "tcgen05.st",
            How::Tcgen05Alloc => "tcgen05.alloc",
            How::Mbarrier => "mbarrier",
            How::Other => "other",
        }
    }
}

/// Who touches a region, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RegionUse {
    /// What happens.
    pub direction: Direction,
    /// By what.
    pub how: How,
    /// The role that does it; null where several do, or the kernel has no roles.
    pub role: Option<String>,
    /// Where, ascending.
    pub ptx_lines: Vec<Line>,
}

/// What a region of shared memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// Stages of a pipeline: the same instructions touch them in turn.
    Ring,
    /// Bytes that are touched as one.
    Buffer,
    /// mbarriers, 8 bytes each.
    Mbarriers,
}

/// Bytes of shared memory that are used as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRegion {
    /// What it is.
    pub kind: RegionKind,
    /// The variable that it lies in; null where an address is a number.
    pub variable: Option<String>,
    /// Whether the variable's size is the launch's: dynamic shared memory.
    pub dynamic: bool,
    /// Bytes from the start of the variable.
    pub offset: u64,
    /// Its bytes, of all stages together; null where only its start is known.
    pub bytes: Option<u64>,
    /// Whether `bytes` is what is touched, and not the room up to the next region: sizes of tensor copies and matrices are not in the
    /// PTX.
    pub exact: bool,
    /// Stages of a ring, mbarriers; 1 for a buffer.
    pub count: u32,
    /// Whether that is all of them: the execution came back to the first.
    pub complete: bool,
    /// Bytes from one stage to the next; null for a buffer.
    pub stride_bytes: Option<u64>,
    /// Who touches it.
    pub uses: Vec<RegionUse>,
}

/// Bytes that nothing touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untouched {
    /// The variable.
    pub variable: String,
    /// Bytes from its start.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// An instruction whose place is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownAccess {
    /// Its line.
    pub ptx_line: Line,
    /// By what.
    pub how: How,
}

/// Shared memory of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMap {
    /// Bytes of the variables whose size the PTX has.
    pub static_bytes: u64,
    /// Dynamic shared memory that a launch must have at least, for the places that constants give; null where there is no dynamic shared
    /// memory, or no such place.
    pub dynamic_least_bytes: Option<u64>,
    /// The line that touches the last of these bytes.
    pub dynamic_least_ptx_line: Option<Line>,
    /// Regions by their place.
    pub regions: Vec<SharedRegion>,
    /// Bytes of static variables that nothing touches; null where an access has no known place, or may have others in another launch.
    pub untouched: Option<Vec<Untouched>>,
    /// Accesses whose place the launch or memory decides.
    pub unknown: Vec<UnknownAccess>,
}

/// An allocation of tensor memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorAllocation {
    /// Its line.
    pub ptx_line: Line,
    /// Columns; null where they are no constant.
    pub columns: Option<u64>,
}

/// Columns of tensor memory that are used as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRegion {
    /// The first column, from the start of what was allocated first.
    pub column: u64,
    /// How many; null where only the first is known.
    pub columns: Option<u64>,
    /// Who touches them.
    pub uses: Vec<RegionUse>,
}

/// Tensor memory of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// Columns that a block holds at once, at least; null where no allocation has a constant size.
    pub allocated: Option<u64>,
    /// Every allocation.
    pub allocations: Vec<TensorAllocation>,
    /// Columns up to the last that is known to be used.
    pub used: Option<u64>,
    /// Whether no launch uses more: every access is known with all its columns, wherever loops lead.
    pub complete: bool,
    /// Regions by their first column.
    pub regions: Vec<TensorRegion>,
    /// Accesses whose columns are not known.
    pub unknown: Vec<UnknownAccess>,
}

/// What completes in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupKind {
    /// `cp.async`
    #[serde(rename = "cp.async")]
    CpAsync,
    /// `cp.async.bulk` out of shared memory.
    #[serde(rename = "cp.async.bulk")]
    Bulk,
    /// `wgmma`
    #[serde(rename = "wgmma")]
    Wgmma,
}

impl GroupKind {
    /// As PTX spells it.
    pub fn name(self) -> &'static str {
        match self {
            GroupKind::CpAsync => "cp.async",
            GroupKind::Bulk => "cp.async.bulk",
            GroupKind::Wgmma => "wgmma",
        }
    }
}

/// Groups under way after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsAt {
    /// Its line.
    pub ptx_line: Line,
    /// Committed groups that may not be over: the fewest over all paths.
    pub least: u32,
    /// The most over all paths; null where a loop commits and nothing bounds it.
    pub most: Option<u32>,
    /// Whether work may be under way that belongs to no group yet.
    pub open: bool,
}

/// Groups of one kind, under way at each line that changes that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsInFlight {
    /// Which kind.
    pub kind: GroupKind,
    /// The most that are under way where a wait leaves some; null where nothing bounds them.
    pub most: Option<u32>,
    /// After each copy, multiplication, commit and wait.
    pub lines: Vec<GroupsAt>,
}

/// A bulk or tensor copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySite {
    /// Its line.
    pub ptx_line: Line,
    /// The role that issues it; null where the kernel has none.
    pub role: Option<String>,
    /// Dimensions of a tensor copy; null for a plain one.
    pub tensor: Option<u32>,
    /// Whether it goes into shared memory.
    pub to_shared: bool,
    /// Whether it goes to several blocks of the cluster.
    pub multicast: bool,
    /// 1 or 2 of `.cta_group::N`; null without.
    pub cta_group: Option<u32>,
    /// Bytes; null where the tensor map has them and nothing else tells, or they are no constant.
    pub bytes: Option<u64>,
    /// Bytes that all copies of a phase of its mbarrier bring together, as announced: a stage; null where that is not known.
    pub stage_bytes: Option<u64>,
}

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceKind {
    /// `fence.proxy.async`: what threads wrote, before the async proxy.
    ProxyAsync,
    /// `fence.proxy.tensormap`: a tensor map that was changed.
    ProxyTensormap,
    /// Another proxy.
    Proxy,
    /// `fence.mbarrier_init`: mbarriers, before other blocks use them.
    MbarrierInit,
    /// `fence.acq_rel`, `fence.sc`, `membar`
    Threads,
    /// `wgmma.fence`
    Wgmma,
    /// `tcgen05.fence::before_thread_sync`
    Tcgen05Before,
    /// `tcgen05.fence::after_thread_sync`
    Tcgen05After,
}

impl FenceKind {
    pub(super) fn of(instruction: &Instruction<'_>) -> FenceKind {
        let starts = |start: &str| instruction.modifiers().any(|word| word.starts_with(start));
        match instruction.mnemonic() {
            "wgmma" => FenceKind::Wgmma,
            "tcgen05" if starts("fence::before") => FenceKind::Tcgen05Before,
            "tcgen05" => FenceKind::Tcgen05After,
            _ if starts("mbarrier_init") => FenceKind::MbarrierInit,
            _ if starts("proxy") && starts("async") => FenceKind::ProxyAsync,
            _ if starts("proxy") && starts("tensormap") => FenceKind::ProxyTensormap,
            _ if starts("proxy") => FenceKind::Proxy,
            _ => FenceKind::Threads,
        }
    }

    /// What it lets be seen, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            FenceKind::ProxyAsync => "fence: async proxy",
            FenceKind::ProxyTensormap => "fence: tensor map",
            FenceKind::Proxy => "fence: proxy",
            FenceKind::MbarrierInit => "fence: mbarrier init",
            FenceKind::Threads => "fence",
            FenceKind::Wgmma => "fence: wgmma registers",
            FenceKind::Tcgen05Before => "fence: tcgen05, before sync",
            FenceKind::Tcgen05After => "fence: tcgen05, after sync",
        }
    }
}

/// A fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceSite {
    /// Its line.
    pub ptx_line: Line,
    /// What it orders.
    pub kind: FenceKind,
}
