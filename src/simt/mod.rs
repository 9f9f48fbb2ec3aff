//! Which threads of a block run which part of a kernel's PTX.
//!
//! In: a function of the PTX and the size of a block. Out: its basic blocks, what its registers hold as far as constants, thread
//! ids and addresses of variables tell, and the set of threads that may reach each instruction. It refuses to guess: a value
//! that memory, a parameter or a loop decides is unknown, and a branch on it may go either way for every thread.

pub(crate) mod address;
mod bits;
pub(crate) mod dataflow;
pub(crate) mod eval;
mod graph;
mod liveness;
mod paths;
mod pattern;
mod reachability;
mod roots;
mod ssa;
mod uniformity;

pub use address::sets::AddressSets;
pub use bits::{Bits, KnownBits};
pub use eval::evaluate::{Declared, Values};
pub use eval::value::{Value, Variation};
pub use graph::{Block, Edge, Graph, Site, SiteId, with_callees};
pub use liveness::LiveRegisters;
pub use paths::Paths;
pub use pattern::{Held, Lanes, Pattern, Patterns};
pub use reachability::{Reach, ThreadSet, passing};
pub use roots::Root;
pub use ssa::construct::ValueId;
pub use uniformity::Uniformity;

pub use crate::graph::BlockId;

use std::sync::Arc;

use crate::ptx::{Function, Operation, Shape};

use self::ssa::slice::Scope;

/// Threads of a block, by dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// x, y, z.
    pub dimensions: [u32; 3],
    /// Whether a launch of another size is refused: `.reqntid`, or what the user says.
    pub exact: bool,
}

impl BlockSize {
    /// The most threads a block can have.
    pub const MAX: u32 = 1024;

    /// All of them; none when that is no size that can be launched.
    pub fn threads(&self) -> Option<u32> {
        let [x, y, z] = self.dimensions;
        x.checked_mul(y)?.checked_mul(z).filter(|threads| (1..=BlockSize::MAX).contains(threads))
    }
}

/// Threads along x that blocks of several axes have, the commonest first; 0 for all of them.
const ACROSS: [u32; 5] = [32, 0, 16, 64, 8];
/// Of those, how many are tried before blocks of several layers.
const COMMONEST: usize = 2;
/// Threads along x that blocks have whose warps stand along x and z, and none along y.
const ACROSS_LAYERS: [u32; 3] = [128, 64, 32];
/// Threads along z at most.
const MOST_Z: u32 = 64;
/// Threads of a warp.
const WARP: u32 = 32;
/// Threads of a layer of a block that has three axes.
const LAYER: u32 = 64;

/// The blocks that a launch may have where only the number of their threads is known: `.maxntid` promises no extent of any axis. A kernel
/// that looks at one axis alone is made for blocks of one.
pub fn shapes(function: &Function<'_, '_>, size: BlockSize) -> Vec<BlockSize> {
    let [_, y, z] = size.dimensions;
    let Some(threads) = size.threads().filter(|_| y == 1 && z == 1 && function.header().required_threads().is_none())
    else {
        return vec![size];
    };
    let (along_y, along_z) = (asks_for(function, "y"), asks_for(function, "z"));
    if !along_y && !along_z {
        return vec![size];
    }
    let across = ACROSS.map(|x| if x == 0 { threads } else { x });
    let flat = across.into_iter().filter(|x| threads.is_multiple_of(*x)).map(|x| match along_y {
        true => [x, threads / x, 1],
        false => [x, 1, threads / x],
    });
    let deep = (along_y && along_z && threads.is_multiple_of(LAYER)).then_some([8, 8, threads / LAYER]);
    let layers = ACROSS_LAYERS.into_iter().filter(|x| along_z && *x < threads && threads.is_multiple_of(*x));
    let layers = layers.map(|x| [x, 1, threads / x]);
    let mut shapes: Vec<BlockSize> = Vec::new();
    let all = flat.clone().take(COMMONEST).chain(layers).chain(flat.skip(COMMONEST)).chain(deep);
    for dimensions in all.filter(|[.., z]| *z <= MOST_Z) {
        let shape = BlockSize { dimensions, ..size };
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

/// Threads that most blocks have where nothing says how many.
const USUAL_SIZES: [u32; 6] = [128, 256, 64, 512, 1024, 384];

/// The blocks that a launch may have where nothing is known of them. Whoever has the whole block wait for one another, however many there
/// are, is made for several warps.
pub fn sizes(function: &Function<'_, '_>, graph: &Graph<'_>) -> Vec<BlockSize> {
    let joins = |site: &Site<'_>| match site.operation {
        Operation::NamedBarrier(barrier) => barrier.threads.is_none(),
        _ => false,
    };
    let least = if graph.sites.iter().any(joins) { 2 * WARP } else { WARP };
    let others = (WARP..=BlockSize::MAX).step_by(WARP as usize).filter(|threads| !USUAL_SIZES.contains(threads));
    let sizes = USUAL_SIZES.into_iter().chain(others).filter(|threads| *threads >= least);
    sizes.flat_map(|threads| shapes(function, BlockSize { dimensions: [threads, 1, 1], exact: false })).collect()
}

/// Whether a kernel asks which of the threads along an axis it is.
fn asks_for(function: &Function<'_, '_>, axis: &str) -> bool {
    let asking = function.instructions().filter(|located| located.instruction.text().contains("%tid"));
    asking.flat_map(|located| located.instruction.operands()).any(|operand| match operand.shape() {
        Shape::Name { name: "%tid", component } => component.is_none_or(|component| component == axis),
        _ => false,
    })
}

/// A kernel with everything that the questions about its warps start from.
pub struct Warps<'a> {
    /// Its instructions and blocks.
    pub graph: Arc<Graph<'a>>,
    /// What its registers hold.
    pub values: Values,
    /// Who gets where.
    pub reach: Reach,
    /// Threads of a block; none when they are not known.
    pub threads: Option<u32>,
    /// Blocks of a cluster, where a launch with another number is refused.
    pub cluster: Option<u32>,
}

impl<'a> Warps<'a> {
    /// Evaluates a function.
    pub fn of(function: &Function<'_, 'a>, size: Option<BlockSize>) -> Warps<'a> {
        Warps::within(function, Arc::new(Graph::build(function)), size, Scope::Decisions)
    }

    /// The same kernel, evaluated for the operands of all that reads or writes memory, or has lanes work together. Nothing is taken to
    /// come from shared memory.
    pub fn with_operands(&self, function: &Function<'_, 'a>, size: Option<BlockSize>) -> Warps<'a> {
        Warps::of_operands(function, self.graph.clone(), size)
    }

    /// A function that is cut into blocks, evaluated so and not otherwise.
    pub fn of_operands(function: &Function<'_, 'a>, graph: Arc<Graph<'a>>, size: Option<BlockSize>) -> Warps<'a> {
        Warps::within(function, graph, size, Scope::Operands)
    }

    fn within(function: &Function<'_, 'a>, graph: Arc<Graph<'a>>, size: Option<BlockSize>, scope: Scope) -> Warps<'a> {
        let size = size.filter(|size| size.threads().is_some());
        let (values, reach) = Values::solve(function, &graph, size, scope);
        let cluster = function.header().required_cluster();
        let cluster = cluster.and_then(|[x, y, z]| x.checked_mul(y)?.checked_mul(z)).filter(|blocks| *blocks > 0);
        Warps { graph, values, reach, threads: size.and_then(|size| size.threads()), cluster }
    }

    /// The threads that may run an instruction, its guard taken into account.
    pub fn at(&self, index: SiteId) -> ThreadSet {
        let Some(site) = self.graph.sites.get(index) else { return ThreadSet::EMPTY };
        let reaching = self.reach.block(site.block);
        match site.guard {
            Some((register, negated)) => reachability::split(reaching, self.values.at(index, register), !negated),
            None => reaching,
        }
    }

    /// How many threads that is; none when the size of a block is not known.
    pub fn count_at(&self, index: SiteId) -> Option<u32> {
        self.threads.map(|_| self.at(index).len())
    }

    /// The threads of every warp that may run an instruction.
    pub fn warps_at(&self, index: SiteId) -> ThreadSet {
        self.at(index).whole_warps()
    }

    /// Whether one of some threads may get to a block.
    pub fn may_go(&self, who: &ThreadSet, block: BlockId) -> bool {
        self.reach.is_reached(block, who)
    }
}
