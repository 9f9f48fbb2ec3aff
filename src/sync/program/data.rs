//! What instructions do to bytes of shared memory: of those that a skeleton leaves out where only barriers are looked at.

use super::{Address, Bytes, Source, Space};

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// Both at once: `atom`, `red`.
    Atomic,
}

impl Access {
    /// Whether they may be other bytes after it.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// Work that a warp issues and that goes on without it, in the order in which it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// `cp.async`
    CpAsync,
    /// `cp.async.bulk` to global memory.
    Bulk,
    /// `wgmma.mma_async`
    Wgmma,
    /// `tcgen05.mma`, `tcgen05.cp`
    Tcgen05,
    /// `tcgen05.ld`
    TensorLoad,
    /// `tcgen05.st`
    TensorStore,
}

/// What a multiplication does to tensor memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulates {
    /// Where the result goes.
    pub to: Address,
    /// Where A lies, where it is in tensor memory.
    pub a: Option<Address>,
    /// The instruction descriptor, which has the columns of the result.
    pub instruction: Option<Source>,
    /// Whether the product is added to what is there.
    pub adds: Option<Source>,
    /// Whether two blocks do it together.
    pub pair: bool,
    /// Whether the rows lie in lanes from the first on, whole warps of them or halves: not so where weights stay.
    pub by_rows: bool,
}

/// Where the bytes of a copy that completes on an mbarrier lie in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyEnds {
    /// Where they go.
    pub to: Address,
    /// Where they come from, where that is shared memory, too.
    pub from: Option<Address>,
    /// What it does where they go, and how.
    pub by: Sends,
}

/// How bytes that complete on an mbarrier are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// `cp.async.bulk`, `clusterlaunchcontrol.try_cancel`: by the async proxy.
    Copy,
    /// `st.async`
    Store,
    /// `red.async`: each changes the bytes at once, in any order.
    Reduction,
}

/// Lanes of tensor memory that an instruction comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorLanes {
    /// Any.
    All,
    /// The 32 of its warp.
    Quarter,
    /// 16 of those: which, the address says.
    Half,
    /// The same 16 in two places.
    Split,
    /// 16 of the 32 of each warp: which, the address says.
    Halves,
}

/// What an instruction does to data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DataOp {
    /// `ld`, `st`, `atom`, `red`, `ldmatrix`, `stmatrix`: the warp itself, at the addresses of some of its lanes.
    Touch {
        /// What.
        access: Access,
        /// Of which memory.
        space: Space,
        /// Where.
        at: Address,
        /// Bytes of each lane.
        bytes: u32,
        /// The lanes whose addresses count.
        lanes: u32,
        /// Whether lanes of a warp run it together: `.sync`.
        together: bool,
    },
    /// `cp.async`
    CopyAsync {
        /// Where its bytes go.
        to: Address,
        /// How many.
        bytes: u32,
        /// How many of them are read, where a register says so.
        from: Option<Source>,
    },
    /// `cp.async.bulk` from shared memory, in a bulk group.
    BulkStore {
        /// Where they come from.
        from: Address,
        /// How many.
        bytes: Bytes,
    },
    /// `wgmma.mma_async`, `tcgen05.mma`, `tcgen05.cp`: matrices that descriptors name.
    Matrices {
        /// Which of them.
        stream: Stream,
        /// The descriptors.
        descriptors: [Option<Source>; 2],
        /// Whether A lies transposed.
        transposes_a: bool,
        /// Where the result goes, where that is tensor memory.
        accumulates: Option<Accumulates>,
    },
    /// `tcgen05.ld`, `tcgen05.st`, `tcgen05.cp`: columns of tensor memory.
    Columns {
        /// What.
        access: Access,
        /// By whom.
        stream: Stream,
        /// The first.
        at: Address,
        /// How many.
        count: u32,
        /// In which lanes.
        lanes: TensorLanes,
        /// Whether two blocks do it together.
        pair: bool,
        /// The descriptor of what is copied there.
        descriptor: Option<Source>,
    },
    /// What was issued becomes a group.
    CommitGroup(Stream),
    /// Waits until no more than so many groups are under way; none where everything is over after it.
    WaitGroup(Stream, Option<u32>),
    /// `fence.proxy.async`
    ProxyFence,
    /// `fence.acq_rel`, `fence.sc`, `membar`: relaxed arrivals after it tell what came before it.
    Fence,
    /// Lanes of a warp run something together.
    Meet,
}
