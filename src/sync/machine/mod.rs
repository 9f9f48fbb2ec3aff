//! What the hardware keeps for the threads of a cluster while they synchronise.
//!
//! In: single steps of single warps (arrive, announce, complete, take). Out: whether whoever waits may go on, or the rule of the
//! ISA that a step breaks. What the ISA leaves undefined is undefined here: a [`Fault`], never a guess at what a chip would do.

mod mbarrier;
mod named;
mod pool;

use crate::ptx::RegisterAction;
use std::collections::BTreeMap;

pub use mbarrier::{Arrival, Equation, Mbarrier, PENDING_SHIFT, state_of};
pub use named::Named;
pub use pool::{Columns, Pool, SUBPARTITIONS};

/// Named barriers of a block.
pub const BARRIERS: u64 = 16;

/// Bits of a shared address that tell the block of the cluster from the place in it.
const RANK_SHIFT: u32 = 24;
/// The place in a block's shared memory.
const PLACE: u64 = (1 << RANK_SHIFT) - 1;
/// Where the shared window lies among generic addresses.
const GENERIC: u64 = 1 << 40;

/// Where variables in local memory lie, among generic addresses and their own: far from all others.
pub const LOCAL: u64 = 1 << 46;

/// Whether an address is one of local memory.
pub fn is_local(address: u64) -> bool {
    address >> 45 == LOCAL >> 45
}

/// An address in the shared memory of a cluster: which block, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedAddress(pub u64);

impl SharedAddress {
    /// A place in the memory of a block.
    pub fn new(rank: u64, place: u64) -> SharedAddress {
        SharedAddress(rank << RANK_SHIFT | place & PLACE)
    }

    /// The block of the cluster.
    pub fn rank(self) -> u64 {
        self.0 >> RANK_SHIFT & 0xff
    }

    /// The place in it.
    pub fn place(self) -> u64 {
        self.0 & PLACE
    }

    /// The same as a generic address.
    pub fn generic(self) -> u64 {
        self.0 | GENERIC
    }

    /// Whether a generic address is one of shared memory.
    pub fn is_generic(address: u64) -> bool {
        address >> 32 == GENERIC >> 32
    }

    /// Of an address that instructions on shared memory get: generic ones too.
    pub fn of(address: u64) -> SharedAddress {
        SharedAddress(if SharedAddress::is_generic(address) { address & !GENERIC } else { address })
    }
}

/// A step that the ISA leaves undefined, and which of its rules it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A named barrier whose round began with another number of threads.
    Counts { id: u64, begun: u32, given: u32 },
    /// A named barrier beyond the sixteen of a block.
    BarrierId(u64),
    /// A number of threads that is no multiple of 32, or none.
    BarrierCount { id: u64, count: u64 },
    /// An mbarrier that is not there: never initialised, or no longer valid.
    NoMbarrier(SharedAddress),
    /// A count that an mbarrier cannot have.
    MbarrierCount { at: SharedAddress, count: u64 },
    /// More arrivals in one step than the phase still lacks.
    TooManyArrivals { at: SharedAddress, pending: u32, came: u64 },
    /// An arrival, or a copy, that nothing keeps from coming before the phase that it is meant for.
    Unordered(SharedAddress),
    /// Bytes of a copy that come when the phase that it was issued in is over: nobody announced them in time.
    Unannounced(SharedAddress),
    /// Bytes beyond what a transaction count can hold.
    TooManyBytes { at: SharedAddress, bytes: i64 },
    /// A cluster barrier that is arrived at again before it was waited for, or waited for without an arrival.
    ClusterOrder { waits: bool },
    /// A block of the cluster that there is none of.
    Rank(u64),
    /// A lane that gives a mask without itself.
    NotMember { lane: u32, mask: u32 },
    /// `trap`.
    Trap,
    /// An index beyond the table of a `brx.idx`.
    BranchIndex(u64),
    /// A copy that comes into the shared memory of a block that has ended: nobody waited for it.
    Outlived(SharedAddress),
    /// A `setmaxnreg.dec` to more registers than the warp has, or an `.inc` to fewer.
    Registers { action: RegisterAction, has: u32, count: u32 },
}

impl Fault {
    /// Whether it says more of the inputs that were tried than of the kernel: an assertion, an index, a block of another cluster.
    pub fn is_of_inputs(&self) -> bool {
        matches!(self, Fault::Trap | Fault::BranchIndex(_) | Fault::Rank(_))
    }
}

/// The barrier of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterBarrier {
    /// Which round it is in.
    pub phase: u64,
    /// Threads that have arrived in this round.
    pub arrived: u32,
}

/// Everything that the threads of a cluster share.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// By block and number.
    pub named: BTreeMap<(u64, u64), Named>,
    /// By address.
    pub mbarriers: BTreeMap<SharedAddress, Mbarrier>,
    /// The cluster's own.
    pub cluster: ClusterBarrier,
    /// By block and sub-partition of the SM: registers that nobody holds.
    pub pools: Vec<[Pool; SUBPARTITIONS]>,
    /// By block: columns of tensor memory.
    pub columns: Vec<Columns>,
    /// How often something changed: who waits need not look again while it stays.
    pub changes: u64,
    /// mbarriers that were looked up since somebody cleared this: no others have changed.
    pub touched: Vec<SharedAddress>,
}

impl Machine {
    /// The mbarrier at an address, or the rule that says there must be one.
    pub fn mbarrier(&mut self, at: SharedAddress) -> Result<&mut Mbarrier, Fault> {
        self.touched.push(at);
        self.mbarriers.get_mut(&at).filter(|found| found.is_valid()).ok_or(Fault::NoMbarrier(at))
    }

    /// Initialises an mbarrier.
    pub fn init(&mut self, at: SharedAddress, count: u64) -> Result<(), Fault> {
        let fits = u32::try_from(count).ok().filter(|count| (1..=mbarrier::MAX_COUNT).contains(count));
        let Some(count) = fits else { return Err(Fault::MbarrierCount { at, count }) };
        self.changes += 1;
        self.touched.push(at);
        self.mbarriers.insert(at, Mbarrier::new(count));
        Ok(())
    }
}
