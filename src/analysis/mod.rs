//! What the facts mean: one file a question.
//!
//! In: values of the readers. Out: plain answers. No file is read and nothing is printed here.

pub mod budget;
pub mod cap;
pub mod code;
pub mod live_set;
pub mod occupancy;
pub mod pool;
pub mod roles;
pub mod setmaxnreg;
pub mod spills;
pub mod threads;
pub mod values;
