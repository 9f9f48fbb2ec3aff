//! What is no execution: rules about instructions and the paths between them. One file a family.

pub mod barriers;
pub mod cluster;
pub mod finding;
pub mod groups;
pub mod mbarrier_checks;
pub mod mbarriers;
pub mod rule;
pub mod tensor;
pub mod wgmma;

#[cfg(test)]
mod tests;
