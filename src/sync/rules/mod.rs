//! What is no execution: rules about instructions and the paths between them. One file a family.

pub mod abi;
pub mod addresses;
pub mod agreement;
pub mod awaited;
pub mod barriers;
pub mod boxes;
pub mod cluster;
pub mod coherence;
pub mod convergence;
pub mod descriptors;
pub mod elected;
pub mod finding;
pub mod flags;
pub mod groups;
pub mod issue;
pub mod mbarrier_checks;
pub mod mbarriers;
pub mod operands;
pub mod parting;
pub mod registers;
pub mod ring_ends;
pub mod rule;
pub mod tensor;
pub mod tensor_memory;
pub mod wgmma;

#[cfg(test)]
mod tests;
