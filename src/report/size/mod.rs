//! Where the bytes of a library are: by architecture, template, namespace, kernel, file and section; which code is there twice; which
//! cubins PTX could stand in for.
//!
//! In: entry after entry in their order, each cubin read once with [`crate::cubin`]. Out: [`Size`]. Every byte of a file is counted
//! once: what is no GPU code is a row of its own. It keeps names and a digest for each function, no code.

mod copies;
mod cubin;
mod names;
mod sums;

pub use copies::{Copies, CopyGroup, Scope, ScopeSum};
pub use cubin::{CubinSize, Digest, FunctionSize, Part, cubin_size};
pub use names::{namespace, template};
pub use sums::{ArchSize, By, Content, EntrySize, FileSize, PtxInstead, RowKind, Size, SizeRow, Sizes};

/// The name and version of the JSON.
pub const SIZE_SCHEMA: &str = "ptxinspect.size/1";
