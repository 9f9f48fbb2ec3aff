//! The report: facts of all readers joined on the PTX line.
//!
//! In: a parsed cubin, its line table, ptxas's log, the parsed PTX. Out: a [`Unit`] that any writer can show. It reads no
//! file, prints nothing, and keeps what it could not join as a [`Problem`].

pub mod annotation;
mod code;
pub mod access {
    //! What accesses of memory cost: wavefronts, sectors, what would mend conflicts.
    pub use crate::access::*;
}
mod code_parts;
mod cost;
mod demangle;
mod distinct;
pub mod entries;
mod join;
pub mod library;
pub mod listing;
mod live_values;
mod makers;
mod matrices;
pub mod memory {
    //! Maps of shared and tensor memory, groups under way, copies and fences.
    pub use crate::memory::*;
}
mod messages;
mod model;
mod names;
mod occupancy;
mod ptx_turns;
mod registers;
mod renaming;
pub mod size;
mod text;
pub mod timeline {
    //! One execution of a kernel's barriers, drawn.
    pub use super::warps::timeline::{NoTimeline, timeline};
    pub use crate::sync::stands::Kind;
    pub use crate::sync::timeline::*;
}
mod warps;
mod wavefronts;

pub use code_parts::{CodePart, CodeParts, Resident};
pub use cost::*;
pub use demangle::demangle;
pub use distinct::distinct;
pub use join::{Facts, LaunchHints, Wanted, join};
pub use matrices::*;
pub use messages::{quote, refuse, refused_findings};
pub use model::*;
pub use names::{abridge, shorten, spelt};
pub(crate) use occupancy::ptx_takes_dynamic_smem;
pub use ptx_turns::PtxLoop;
pub use renaming::is_renaming;
pub use text::{Layout, PtxText};
pub use warps::*;

pub use crate::sync::Effort;
