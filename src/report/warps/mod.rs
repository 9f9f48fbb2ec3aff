//! What the report says of a kernel's warps: roles, setmaxnreg and its pool, barriers, findings.
//!
//! In: the PTX function, the code section, ptxas's advisories. Out: the fields `roles`, `setmaxnreg` and `barriers` of a
//! [`Kernel`](super::Kernel). Without PTX there is only what the SASS shows.

mod barriers;
mod evaluated;
mod join;
mod model;
pub(super) mod timeline;
mod warp_facts;

pub(super) use barriers::without_cubin;
pub use evaluated::Evaluated;
pub(super) use join::{Known, fill, memory_of};
pub use model::*;
