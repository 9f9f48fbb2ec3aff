//! What the facts mean: one file a question.
//!
//! In: values of the readers. Out: plain answers. No file is read and nothing is printed here.

pub mod barrier_counts;
pub mod barriers;
pub mod budget;
pub mod cap;
pub mod check;
pub mod cluster;
pub mod code;
pub mod copies;
pub mod groups;
pub mod live_set;
pub mod mbarrier_alike;
pub mod mbarrier_batches;
pub mod mbarrier_checks;
pub mod mbarrier_expect;
pub mod mbarrier_parity;
pub mod mbarrier_rounds;
pub mod mbarrier_units;
pub mod mbarriers;
pub mod occupancy;
pub mod phases;
pub mod pool;
pub mod roles;
pub mod setmaxnreg;
pub mod spills;
pub mod tensor;
pub mod threads;
pub mod values;
pub mod wgmma;
