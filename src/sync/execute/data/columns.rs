//! Columns of tensor memory as an execution uses them: who touches which, results that are added to what nobody set, and lanes of
//! other warps.

use super::{By, Toucher, WARPGROUP};
use crate::base::FastMap;
use crate::sync::execute::Run;
use crate::sync::execute::clock::Clock;
use crate::sync::execute::footprint::MemoryKind;
use crate::sync::program::{Access, Address, InstrId, Source, TensorLanes};
use crate::sync::value::Basis;

/// Columns of tensor memory.
const COLUMNS: u64 = 512;
/// Lanes of tensor memory that a warp reaches.
const OWN_LANES: u64 = 32;
/// What is kept of one execution.
const MOST: usize = 16;
/// Products that are told apart.
const MOST_PRODUCTS: usize = 64;

/// What an instruction does that is wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A product is added to a column that nothing has set.
    Unset {
        /// The column.
        column: u64,
    },
    /// An address is in a block that the cluster does not have.
    Rank {
        /// The block.
        rank: u64,
    },
    /// Threads write to the memory of an mbarrier.
    Object {
        /// Where it is.
        at: u64,
    },
    /// A product is under way where one of another shape goes, or in what is multiplied.
    Product {
        /// A column of it.
        column: u64,
        /// What multiplies it.
        by: InstrId,
        /// Whether it is read, and not written over.
        is_read: bool,
    },
    /// Both blocks of a pair multiply for the two.
    Both {
        /// The block with the odd rank.
        rank: u64,
    },
    /// Lanes of a warp go different ways at a branch that says `.uni`.
    Parted {
        /// A lane that goes one way.
        one: u8,
        /// A lane that goes the other.
        other: u8,
        /// The warp of its block.
        warp: usize,
    },
    /// Lanes of a warp end where others come to what the whole of it runs.
    Left {
        /// How many.
        lanes: u8,
        /// Where they parted.
        at: InstrId,
    },
    /// A warp comes to a named barrier and may count in a round before.
    Round {
        /// The barrier.
        id: u64,
        /// Who has come to the round before.
        by: InstrId,
    },
    /// A copy is for another mbarrier than its bytes were announced at.
    Astray {
        /// The mbarrier that it is for.
        at: u64,
        /// The one at which they were announced.
        announced: u64,
        /// Where.
        by: InstrId,
    },
    /// A copy reads more bytes than it writes.
    Source {
        /// What it writes.
        room: u64,
    },
    /// A warp is at lanes that it does not reach.
    Lane {
        /// The lane.
        lane: u64,
        /// The warp of its block.
        warp: u64,
    },
}

/// An instruction that is wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misused {
    /// The instruction of the skeleton.
    pub pc: InstrId,
    /// What it does.
    pub misuse: Misuse,
    /// What it rests on.
    pub basis: Basis,
}

/// What is known of the columns of all blocks.
#[derive(Default)]
pub(in crate::sync::execute) struct ColumnsUsed {
    /// By block: the columns that something has set.
    set: FastMap<u64, Vec<bool>>,
    /// Whether some were set of which it is not known where they are.
    is_open: bool,
    /// Products that may be under way.
    products: Vec<Product>,
    /// By instruction that multiplies for a pair, and pair: the bits of the blocks that came to it.
    pairs: FastMap<(InstrId, u64), u8>,
    pub(in crate::sync::execute) misused: Vec<Misused>,
}

/// A product that tensor memory takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// The block.
    pub(super) rank: u64,
    /// Whose work it is.
    pub(super) agent: usize,
    /// Over for whoever knows more of the agent than this.
    pub(super) epoch: u32,
    /// What multiplies it.
    pub(super) pc: InstrId,
    /// The address of its first column.
    pub(super) first: u64,
    /// Columns of its shape.
    pub(super) columns: u64,
    /// The rows of its shape, as descriptors have them.
    pub(super) rows: u64,
    /// Whether each of its elements has a column.
    pub(super) is_wide: bool,
}

impl Product {
    /// Whether a column of its block, as part of an address, lies within it.
    fn has(&self, column: u64) -> bool {
        let first = self.first & 0xffff;
        (first..first + if self.is_wide { self.columns } else { 1 }).contains(&column)
    }

    fn shape(&self) -> (u64, u64, u64) {
        (self.first, self.columns, self.rows)
    }
}

impl ColumnsUsed {
    /// A thread multiplies once more: its products follow each other of themselves into one accumulator of one shape. Gives what it
    /// does too early otherwise.
    pub(super) fn multiplies(&mut self, clock: &Clock, product: Product, a: Option<u64>) -> Option<Misuse> {
        self.products.retain(|known| clock.known(known.agent) <= known.epoch || known.agent != product.agent);
        let own = |known: &&Product| known.agent == product.agent && known.rank == product.rank;
        let reads = |known: &&Product| a.is_some_and(|a| known.has(a & 0xffff) && known.shape() != product.shape());
        let (lanes, column) = (product.first >> 16, product.first & 0xffff);
        let writes = |known: &&Product| {
            let meets = known.has(column) || product.has(known.first & 0xffff);
            meets && known.first >> 16 == lanes && known.shape() != product.shape()
        };
        let mut known = self.products.iter().filter(own);
        let found = known.find(|known| reads(known) || writes(known)).map(|known| {
            let is_read = reads(&known);
            let column = if is_read { a.unwrap_or(0) & 0xffff } else { column };
            Misuse::Product { column, by: known.pc, is_read }
        });
        self.products.retain(|known| known.agent != product.agent || known.shape() != product.shape());
        if self.products.len() < MOST_PRODUCTS {
            self.products.push(product);
        }
        found
    }

    /// Columns of a block are written; none where it is not known which.
    pub(super) fn set(&mut self, rank: u64, columns: Option<std::ops::Range<u64>>) {
        let Some(columns) = columns.filter(|columns| columns.end <= COLUMNS) else {
            self.is_open = true;
            return;
        };
        let set = self.set.entry(rank).or_insert_with(|| vec![false; COLUMNS as usize]);
        for column in columns {
            if let Some(is_set) = set.get_mut(column as usize) {
                *is_set = true;
            }
        }
    }

    /// Whether something may have set a column of a block.
    fn is_set(&self, rank: u64, column: u64) -> bool {
        self.is_open || self.set.get(&rank).and_then(|set| set.get(column as usize)).copied().unwrap_or(false)
    }

    /// A product is added to what a column of a block holds.
    pub(super) fn adds(&mut self, rank: u64, column: u64, pc: InstrId, basis: Basis) {
        if !self.is_set(rank, column) {
            self.keep(Misused { pc, misuse: Misuse::Unset { column }, basis });
        }
    }

    /// A warp reads or writes lanes. Those of the first warp, and their upper half, are what kernels in use name in every warp.
    pub(super) fn at_lane(&mut self, warp: u64, lane: u64, pc: InstrId, basis: Basis) {
        if lane % OWN_LANES != lane && lane / OWN_LANES != warp % u64::from(WARPGROUP) {
            self.keep(Misused { pc, misuse: Misuse::Lane { lane, warp }, basis });
        }
    }

    /// A block multiplies for its pair.
    pub(super) fn multiplies_for_both(&mut self, rank: u64, pc: InstrId, basis: Basis) {
        let blocks = self.pairs.entry((pc, rank / 2)).or_default();
        *blocks |= 1 << (rank % 2);
        if *blocks == 3 {
            self.keep(Misused { pc, misuse: Misuse::Both { rank: rank | 1 }, basis });
        }
    }

    pub(super) fn keep(&mut self, found: Misused) {
        if self.misused.len() < MOST && !self.misused.iter().any(|known| known.pc == found.pc) {
            self.misused.push(found);
        }
    }
}

impl Run<'_> {
    /// Keeps the columns of tensor memory that a warp touched.
    pub(super) fn passes_columns(&mut self, who: &Toucher, lane: usize, at: Address, count: u64, is_whole: bool) {
        let word = self.address(&self.warps[who.warp], at, lane);
        let Some(data) = &mut self.data else { return };
        let pass = data.pass(who.warp, MemoryKind::Tensor, who.access, 0);
        let first = word.bits & 0xffff;
        if word.basis >= Basis::Memory || first + count > COLUMNS {
            data.footprint.miss(pass);
        } else {
            data.footprint.touch(pass, (first, count), is_whole, word.basis);
        }
    }

    /// A multiplication sets columns, or adds to what they hold.
    pub(super) fn accumulates(&mut self, warp: usize, lane: usize, (to, count): (Address, u64), adds: Option<Source>) {
        let here = &self.warps[warp];
        let (rank, word) = (here.rank, self.address(here, to, lane));
        let adds = adds.map(|adds| self.word(here, adds, lane));
        let Some(data) = &mut self.data else { return };
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        let (first, is_known) = (word.bits & 0xffff, word.basis < Basis::Memory);
        if let Some(adds) = adds.filter(|adds| adds.basis < Basis::Memory && adds.bits & 1 == 1 && is_known) {
            data.columns.adds(rank, first, standing.pc, adds.basis.max(word.basis).max(standing.ground));
        }
        data.columns.set(rank, is_known.then_some(first..first + count));
    }

    /// A load, a store or a copy comes to columns, and a warp to its lanes of them.
    pub(super) fn reaches_lanes(
        &mut self,
        warp: usize,
        lane: usize,
        at: Address,
        (access, count): (Access, u64),
        lanes: TensorLanes,
    ) {
        let here = &self.warps[warp];
        let (rank, index, word) = (here.rank, here.index, self.address(here, at, lane));
        let Some(data) = &mut self.data else { return };
        let standing = data.standing.get(warp).copied().unwrap_or_default();
        let (first, is_known) = (word.bits & 0xffff, word.basis < Basis::Memory);
        let is_early = !access.writes() && is_known && !data.columns.is_set(rank, first);
        if is_early && lanes != TensorLanes::All {
            data.early.insert(standing.pc);
        }
        if access.writes() {
            // Where the second place of two lies is not looked at.
            let columns = (is_known && lanes != TensorLanes::Split).then_some(first..first + count);
            data.columns.set(rank, columns);
        }
        if lanes != TensorLanes::All && is_known {
            let basis = word.basis.max(standing.ground);
            data.columns.at_lane(index.into(), word.bits >> 16 & 0xffff, standing.pc, basis);
        }
    }

    /// Columns of tensor memory, in some of its lanes.
    pub(super) fn touch_columns(
        &mut self,
        who: Toucher,
        lane: usize,
        at: Address,
        count: u64,
        (lanes, pair): (TensorLanes, bool),
    ) {
        let here = &self.warps[who.warp];
        let word = self.address(here, at, lane);
        let (rank, blocks) = (here.rank, u64::from(self.launch.blocks()));
        let quarter = here.index % WARPGROUP;
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(who.warp)) else { return };
        let first = word.bits & 0xffff;
        // Which lanes of which block a pair of blocks touches hangs on shapes that are not looked at.
        data.pairs |= pair;
        if word.basis >= Basis::Memory || first + count > COLUMNS || data.pairs {
            data.unknown += 1;
            return;
        }
        // A warp comes to the lanes of its own quarter alone, or to half of them: a bit for eight lanes.
        let is_upper = word.bits >> 16 & 16 != 0;
        let mask = match lanes {
            TensorLanes::All => u16::MAX,
            TensorLanes::Halves if is_upper => 0xcccc,
            TensorLanes::Halves => 0x3333,
            TensorLanes::Quarter => 0xf << (quarter * 4),
            TensorLanes::Half | TensorLanes::Split if is_upper => 0xc << (quarter * 4),
            TensorLanes::Half | TensorLanes::Split => 0x3 << (quarter * 4),
        };
        // Behind the shared memory of all blocks.
        let cells = (blocks + rank) as usize;
        if data.shadow.len() <= cells {
            data.shadow.resize_with(cells + 1, Vec::new);
        }
        if data.shadow[cells].is_empty() {
            data.shadow[cells].resize_with(COLUMNS as usize, Vec::new);
        }
        for column in first..first + count {
            let who = Toucher { basis: word.basis, ..who };
            self.pieces += data.touch_granule(clock, who, (cells, column), mask);
        }
    }

    /// Columns of tensor memory are given back.
    pub(in crate::sync::execute) fn frees(&mut self, warp: usize, mask: u32, at: Source, count: u64) {
        let Some(epoch) = self.clocks.of(warp).map(|clock| clock.known(warp)).filter(|_| self.data.is_some()) else {
            return;
        };
        let (access, by) = (Access::Write, By::Allocation);
        let who = Toucher { warp, agent: warp, epoch, access, by, strong: false, basis: Basis::Fact };
        let lane = mask.trailing_zeros() as usize;
        self.touch_columns(who, lane, Address { base: at, offset: 0 }, count, (TensorLanes::All, false));
    }
}
