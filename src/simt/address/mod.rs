//! Which objects an address can be: the places of an array that an index can lead to.

pub(in crate::simt) mod alternatives;
pub(in crate::simt) mod bits;
pub(in crate::simt) mod bounds;
pub(in crate::simt) mod sets;
pub(in crate::simt) mod slice;
