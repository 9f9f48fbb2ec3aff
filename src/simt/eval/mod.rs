//! What registers hold for every thread of a block: a lattice of values, its arithmetic, shared memory, the solver.

pub(in crate::simt) mod compute;
pub(in crate::simt) mod evaluate;
pub(in crate::simt) mod memory;
pub(crate) mod number;
pub(in crate::simt) mod solve;
pub(in crate::simt) mod value;
