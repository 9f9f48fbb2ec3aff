//! (being written)

pub mod occupancy;
