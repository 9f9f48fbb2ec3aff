//! A kernel made ready for execution.
//!
//! In: a function of the PTX, cut into blocks. Out: its *synchronisation skeleton*, the slice (Weiser) that decides control flow
//! and the addresses and arguments of whatever synchronises, with operands resolved. Arithmetic of floating point and matrix
//! instructions end the slice: what they give is [`Op::Unknown`].

mod data;

pub use data::{Access, Accumulates, CopyEnds, DataOp, Sends, Stream, TensorLanes};

use super::lowering::Lowering;
use crate::base::{IndexVec, Line, dense_id};
use crate::ptx::{BarrierAction, ClusterBarrierAction, Function, Register, RegisterAction};
use crate::simt::eval::number::{Arithmetic, Comparison, FloatComparison, Type};
use crate::simt::{Graph, SiteId};

/// Bytes of an array that is looked through for mbarriers: a ring has some dozens at most.
const MOST_NAMED: u64 = 1024;

/// An instruction of the slice, by its place in the text: what a warp's program counter holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstrId(pub u32);

dense_id!(InstrId);

impl InstrId {
    /// The first one, where every warp begins.
    pub const ENTRY: InstrId = InstrId(0);

    /// The one after it.
    pub fn next(self) -> InstrId {
        InstrId(self.0 + 1)
    }
}

/// A virtual register of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg(pub u32);

dense_id!(Reg);

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `%tid.x`, by axis.
    Tid(u8),
    /// `%ntid.x`
    Ntid(u8),
    /// `%ctaid.x`
    Ctaid(u8),
    /// `%nctaid.x`
    Nctaid(u8),
    /// `%laneid`
    Lane,
    /// `%warpid`
    Warp,
    /// `%lanemask_lt` and its kin, by what they compare.
    LaneMask(Comparison),
    /// `%cluster_ctarank`
    ClusterRank,
    /// `%cluster_nctarank`
    ClusterSize,
    /// `%cluster_ctaid.x`
    ClusterCtaid(u8),
    /// `%cluster_nctaid.x`
    ClusterNctaid(u8),
    /// `%clusterid.x`
    ClusterId(u8),
    /// `%nclusterid.x`
    NclusterId(u8),
    /// A clock, a number of the SM: anything.
    Other,
}

/// Where an operand's number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A register.
    Reg(Reg),
    /// `!%p1`
    Not(Reg),
    /// `-%r1`
    Minus(Reg),
    /// A constant.
    Number(u64),
    /// A place in the shared memory of the block that runs it.
    Shared(u64),
    /// A special register.
    Special(Special),
    /// Something that is not followed.
    Unknown,
}

/// `[%r1+16]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// What it starts from.
    pub base: Source,
    /// Bytes added.
    pub offset: i64,
}

/// How `setp` combines its comparison with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// It does not.
    No,
    /// `.and`
    And,
    /// `.or`
    Or,
    /// `.xor`
    Xor,
}

impl Combine {
    /// A comparison and what the predicate's word says.
    #[inline]
    pub fn with(self, holds: bool, predicate: u64) -> bool {
        let predicate = predicate & 1 == 1;
        match self {
            Combine::No => holds,
            Combine::And => holds & predicate,
            Combine::Or => holds | predicate,
            Combine::Xor => holds ^ predicate,
        }
    }
}

/// What an instruction computes from numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compute {
    /// `mov`
    Move(Type),
    /// `cvt`, both sides integers.
    Convert { to: Type, from: Type },
    /// `cvta.shared`: generic from shared.
    ToGeneric,
    /// `cvta.to.shared`
    ToShared,
    /// `add`, `sub`
    Add { ty: Type, subtract: bool },
    /// `mul`, `mad`, `.lo` or `.wide`.
    Multiply { ty: Type, to: Type, adds: bool },
    /// Anything of one to four integers.
    Arithmetic { what: Arithmetic, ty: Type },
    /// `setp`; the second destination is the complement.
    Compare { how: Comparison, ty: Type, combine: Combine },
    /// `setp` of floats of so many bits.
    CompareFloats { how: FloatComparison, bits: u32, combine: Combine },
    /// `selp`
    Select,
    /// `shf.l`, `shf.r`
    Funnel { left: bool, wrap: bool },
    /// `prmt` without a mode.
    Permute,
    /// `bfi`
    Insert(Type),
    /// `clz`
    LeadingZeros(Type),
    /// `brev`
    Reverse(Type),
    /// `mapa`: the same place in another block.
    Mapa,
    /// `getctarank`
    Rank,
    /// `isspacep.shared`
    IsShared,
}

/// `shfl.sync` mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// `.idx`
    Index,
    /// `.up`
    Up,
    /// `.down`
    Down,
    /// `.bfly`
    Butterfly,
}

/// `vote.sync` and `redux.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// `vote.all`
    All,
    /// `vote.any`
    Any,
    /// `vote.uni`
    Uniform,
    /// `vote.ballot`
    Ballot,
    /// `redux.add`
    Sum,
    /// `redux.min`
    Least(Type),
    /// `redux.max`
    Most(Type),
    /// `redux.and`
    And,
    /// `redux.or`
    Or,
    /// `redux.xor`
    Xor,
}

/// What is done to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MbarrierOp {
    /// `mbarrier.init`
    Init {
        /// Arrivals of a phase.
        count: Source,
    },
    /// `mbarrier.inval`
    Inval,
    /// `mbarrier.expect_tx`
    ExpectTx {
        /// Announced.
        bytes: Source,
    },
    /// `mbarrier.complete_tx`
    CompleteTx {
        /// Said to have come.
        bytes: Source,
    },
    /// `mbarrier.arrive`, `.arrive_drop`, with or without `.expect_tx`.
    Arrive {
        /// For how many it stands.
        count: Source,
        /// Announced with it.
        bytes: Option<Source>,
        /// Whether later phases count on one arrival less.
        drop: bool,
        /// The state it leaves.
        to: Option<Reg>,
    },
    /// `mbarrier.test_wait`, `.try_wait`
    Wait {
        /// Whether the phase is over.
        to: Option<Reg>,
        /// A parity, or the state that an arrival left.
        phase: Source,
        /// Which of the two.
        parity: bool,
        /// Whether the other parity is meant: a change that is tried.
        flipped: bool,
    },
}

/// A memory that the executor follows, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// `.shared`, of any block of the cluster.
    Shared,
    /// `.param`, `.const`: what the launch decides.
    Input,
    /// No space given: told by the address.
    Generic,
    /// `.local`, of one thread.
    Local,
    /// `.global`, textures.
    Other,
}

/// What an instruction of the skeleton does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Numbers to a number.
    Compute { what: Compute, to: Option<Reg>, also: Option<Reg>, args: [Source; 4] },
    /// `mov.b64 %rd, {%r1, %r2}`: parts of so many bits.
    Pack { to: Reg, parts: Vec<Source>, bits: u32 },
    /// `mov.b64 {%r1, %r2}, %rd`
    Unpack { to: Vec<Option<Reg>>, from: Source, bits: u32 },
    /// Registers get something that is not followed.
    Unknown { to: Vec<Reg>, varies_in_order: bool },
    /// `ld`
    Load { space: Space, to: Vec<Option<Reg>>, at: Address, bits: u32 },
    /// `st.shared`
    Store { space: Space, from: Vec<Source>, at: Address, bits: u32 },
    /// `atom.shared.add` and its kin, where the space is followed.
    Atomic { space: Space, to: Option<Reg>, at: Address, how: Atomic, args: [Source; 2], bits: u32 },
    /// `bra`
    Branch { to: InstrId },
    /// `brx.idx`
    BranchIndexed { index: Source, to: Vec<InstrId> },
    /// `exit`, `ret`
    Exit,
    /// `trap`
    Trap,
    /// `elect.sync`
    Elect { lane: Option<Reg>, elected: Option<Reg>, mask: Source },
    /// `shfl.sync`
    Shuffle {
        how: Shuffle,
        to: Option<Reg>,
        valid: Option<Reg>,
        value: Source,
        by: Source,
        clamp: Source,
        mask: Source,
    },
    /// `vote.sync`, `redux.sync`
    Gather { how: Gather, to: Option<Reg>, value: Source, mask: Source },
    /// `activemask`
    ActiveMask { to: Reg },
    /// `bar.warp.sync`
    WarpSync { mask: Source },
    /// Any other instruction that lanes of a mask run together.
    Meet { mask: Source },
    /// `bar.sync` and its kin.
    Named { action: BarrierAction, aligned: bool, id: Source, count: Option<Source>, to: Option<Reg> },
    /// `barrier.cluster`
    Cluster { action: ClusterBarrierAction },
    /// `mbarrier.*`
    Mbarrier { op: MbarrierOp, at: Address },
    /// A copy that completes bytes on an mbarrier.
    Copy {
        at: Address,
        bytes: Bytes,
        multicast: Option<Multicast>,
        response: Option<Address>,
        /// Where its bytes lie, where data is looked at.
        ends: Option<CopyEnds>,
    },
    /// `cp.async.mbarrier.arrive`: the arrival of each lane's copies.
    CopyArrive { at: Address, increments: bool },
    /// `tcgen05.commit`
    Commit { at: Address, multicast: Option<Multicast> },
    /// `setmaxnreg`
    SetRegisters { action: RegisterAction, count: u32 },
    /// `clusterlaunchcontrol.query_cancel.is_canceled`: whether there is more work.
    IsCanceled { to: Option<Reg>, response: Source },
    /// `tcgen05.alloc`
    Allocate { at: Address, columns: Source },
    /// `tcgen05.dealloc`
    Free { at: Source, columns: Source },
    /// What happens to data in shared memory, where that is looked at.
    Data(DataOp),
}

impl Op {
    /// Whether warps of a block, or of a cluster, meet by it.
    pub fn synchronises(&self) -> bool {
        matches!(
            self,
            Op::Named { .. }
                | Op::Cluster { .. }
                | Op::Mbarrier { .. }
                | Op::Copy { .. }
                | Op::CopyArrive { .. }
                | Op::Commit { .. }
                | Op::SetRegisters { .. }
                | Op::Allocate { .. }
                | Op::Free { .. }
        )
    }
}

/// Blocks of the cluster that something goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multicast {
    /// A bit for each.
    pub mask: Source,
    /// Whether the signal goes to that block of each pair which has the parity of the mbarrier's (`.cta_group::2`).
    pub pairs: bool,
}

/// How many bytes a copy brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bytes {
    /// So many.
    Number(Source),
    /// As many as the box of the tensor map at an address has.
    Map(Address),
}

/// An atomic of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// `.add`
    Add,
    /// `.exch`
    Exchange,
    /// `.cas`
    CompareAndSwap,
    /// `.min`
    Least,
    /// `.max`
    Most,
    /// `.and`
    And,
    /// `.or`
    Or,
    /// `.xor`
    Xor,
    /// `.inc`
    Increment,
    /// `.dec`
    Decrement,
}

/// An instruction of the skeleton.
#[derive(Clone, Debug)]
pub struct Instr {
    /// What it does.
    pub op: Op,
    /// The predicate that guards it, and whether it runs where that is false.
    pub guard: Option<(Reg, bool)>,
    /// Its line in the text.
    pub line: Line,
}

/// A shared variable and where it was put.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it starts.
    pub start: u64,
    /// Its bytes; none where the launch decides.
    pub bytes: Option<u64>,
    /// Whether it is declared as an array of numbers as wide as an mbarrier.
    pub is_wide: bool,
}

/// Bytes of an mbarrier.
const OBJECT: u64 = 8;

/// The synchronisation skeleton of a kernel.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its instructions, in the order of the text.
    pub code: IndexVec<InstrId, Instr>,
    /// How many registers it has.
    pub registers: u32,
    /// Which register of the text each of them is.
    pub names: IndexVec<Reg, Register>,
    /// Shared variables, ascending.
    pub variables: Vec<Variable>,
    /// Whether something in it synchronises at all.
    pub synchronises: bool,
    /// Whether other blocks of a cluster have a part in it.
    pub uses_cluster: bool,
    /// Whether its threads ask how many blocks there are.
    pub asks_for_blocks: bool,
    /// Whether it asks how many arrivals a phase lacked: states say so then, else they are the same for all lanes.
    pub counts_pending: bool,
    /// By instruction: which one of the text it is.
    pub sites: IndexVec<InstrId, SiteId>,
    /// Arrivals that are relaxed, where data is looked at: they tell nothing of what came before.
    pub relaxed: Vec<InstrId>,
    /// Loads and stores that are not weak, where data is looked at.
    pub strong: Vec<InstrId>,
    /// Of those, the ones that are volatile and no more, in order: lanes of a warp must meet between them all the same.
    pub volatile: Vec<InstrId>,
    /// Branches that say `.uni` and have a guard, in order, where data is looked at.
    pub uniform: Vec<InstrId>,
    /// The first line that cannot be followed at all: a call of a function with barriers, a branch to nowhere.
    pub refused: Option<(Line, &'static str)>,
}

impl Program {
    /// Makes a function ready.
    pub fn of(function: &Function<'_, '_>, graph: &Graph<'_>) -> Program {
        Lowering::new(function, graph, false).program()
    }

    /// The same with whatever touches data in shared memory, and what decides where; none where nothing does and no branch says `.uni`.
    pub fn with_data(function: &Function<'_, '_>, graph: &Graph<'_>) -> Option<Program> {
        let lowering = Lowering::new(function, graph, true);
        lowering.touches_data().then(|| lowering.program())
    }

    /// The shared variables of a function, and where they are put.
    pub fn variables_of(function: &Function<'_, '_>, graph: &Graph<'_>) -> Vec<Variable> {
        Lowering::new(function, graph, false).variables()
    }

    /// `full[1]` for a shared address in an array of mbarriers, `storage+8` in anything else, without the number of its block.
    /// An array of bytes is one of mbarriers where there is one in every place of it.
    pub fn name_of(&self, place: u64, is_object: impl Fn(u64) -> bool) -> String {
        let at = self.variables.partition_point(|variable| variable.start <= place);
        let variable = at.checked_sub(1).and_then(|at| self.variables.get(at));
        let indexed = |variable: &&Variable| {
            let Some(bytes) = variable.bytes.filter(|bytes| bytes.is_multiple_of(OBJECT) && *bytes > OBJECT) else {
                return false;
            };
            let inside = (place - variable.start).is_multiple_of(OBJECT) && place - variable.start < bytes;
            let full = || bytes <= MOST_NAMED && (0..bytes / OBJECT).all(|at| is_object(variable.start + at * OBJECT));
            inside && (variable.is_wide || full())
        };
        match variable {
            Some(variable) if indexed(&variable) => {
                format!("{}[{}]", variable.name, (place - variable.start) / OBJECT)
            }
            Some(variable) if place == variable.start => variable.name.clone(),
            Some(variable) => format!("{}+{}", variable.name, place - variable.start),
            None => format!("{place:#x}"),
        }
    }
}
