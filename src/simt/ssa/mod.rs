//! Static single assignment: the slice that matters, lowered operations, values and phis, and which of them are equal.

pub(in crate::simt) mod construct;
pub(in crate::simt) mod lowering;
pub(in crate::simt) mod order;
pub(in crate::simt) mod slice;
pub(in crate::simt) mod value_numbering;
