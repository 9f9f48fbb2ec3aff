//! A whole library as a table: one row a function, sums by architecture.
//!
//! In: the cubins of a container, one at a time, read with [`crate::cubin`]. Out: [`Row`]s and a [`Summary`] that grows with
//! them. With [`Depth::Resources`] no instruction is looked at; with [`Depth::Full`] all code is decoded and solved. It keeps
//! no code, no lines and no live sets: the report of one cubin has them.

mod findings;
mod row;
mod summary;

pub use findings::RowFinding;
pub use row::{Beside, Copied, Depth, EntryFacts, JitFacts, Row, RowPressure, RowSpills, SortKey, fold, rows, sort};
pub use summary::{ArchSummary, Bucket, Failure, Summary};

/// The name and version of the table's JSON.
pub const LIBRARY_SCHEMA: &str = "ptxinspect.library/1";
