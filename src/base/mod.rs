//! The vocabulary every layer speaks: architectures and what their hardware has to give, positions, register files and
//! sets of registers; and how much work may be done.
//!
//! Imports nothing of ours, does no I/O, and knows nothing about any file format.

mod arch;
pub mod codes;
mod fast;
pub mod figures;
pub mod hardware;
mod ids;
mod limits;
mod pos;
mod regs;
pub mod spelling;
mod threads;
pub mod work;

pub use arch::{Arch, ArchError, Variant};
pub use fast::{FastMap, FastSet};
pub(crate) use ids::dense_id;
pub use ids::{Id, IndexVec};
pub use limits::Limits;
pub use pos::{Line, Pc};
pub use regs::{PerRegFile, RegFile, RegSet};
pub use threads::Threads;
