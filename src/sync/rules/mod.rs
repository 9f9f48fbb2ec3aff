//! What is no execution: rules about instructions and the paths between them. One file a family.

pub mod barrier_counts;
pub mod barriers;
pub mod cluster;
pub mod copies;
pub mod finding;
pub mod groups;
pub mod mbarrier_alike;
pub mod mbarrier_batches;
pub mod mbarrier_checks;
pub mod mbarrier_expect;
pub mod mbarrier_parity;
pub mod mbarrier_rounds;
pub mod mbarrier_units;
pub mod mbarriers;
pub mod tensor;
pub mod wgmma;

#[cfg(test)]
mod tests;
