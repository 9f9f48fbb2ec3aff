//! What SASS means for registers: pressure, value spans, spills, what bounds them, occupancy.
//!
//! In: code sections, solved. Out: plain answers. No file is read and nothing is printed here.

pub mod budget;
pub mod cap;
pub mod code;
pub mod live_set;
pub mod occupancy;
pub mod origins;
pub mod remake;
pub mod spills;
pub mod value_spans;
