//! What the lanes of a warp hold relative to each other: a number for each thread, and one that a warp shares and of which little need be
//! known.
//!
//! A base that a launch decides, or a loop moves on, does not hinder: whether lanes meet in a bank is decided by how their addresses
//! differ. Index arithmetic is taken not to wrap around within a warp.

mod compute;
mod shape;
mod solve;

pub use shape::{Lanes, Pattern};
pub use solve::{Held, Patterns};
