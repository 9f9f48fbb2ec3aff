//! Graphs of basic blocks, for PTX and SASS alike: [`Dominators`], [`Loops`], a worklist for dataflow.
//!
//! In: how many blocks, where they are entered, what follows each. Out: answers by [`BlockId`]. Everything is total and almost
//! linear in the edges, whatever the graph looks like.

pub(crate) mod dataflow;
mod dominators;
mod lists;
mod loops;

pub use dominators::Dominators;
pub(crate) use lists::Lists;
pub use loops::{Loop, LoopId, Loops};

use crate::base::dense_id;

/// Index of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

dense_id!(BlockId);
