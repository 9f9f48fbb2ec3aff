//! Kernels × architectures × ptxas versions × flags, as a table.
//!
//! In: what a run measured in every cell. Out: a [`Matrix`] that writers show, and where along the versions a figure changed. It
//! compiles nothing: whoever calls hands it a function that measures.

mod bisect;
mod model;
mod sweep;

pub use bisect::{Bisection, bisect};
pub use model::{Cell, CellKernel, KernelBisection, MATRIX_SCHEMA, Matrix, VersionChange};
pub use sweep::{Setting, Sweep};
