//! Reading a cubin: the ELF file that ptxas writes.
//!
//! *In*: the bytes of one cubin, from ptxas, from a fatbin or from a user. *Out*: an [`Image`] that borrows from those
//! bytes (functions with their code, resources, attributes, relocations; symbols, notes, call graph, constant banks) and,
//! on request, a [`lines::LineTable`] that maps each pc to its PTX line and to its source line.
//!
//! It does not decode instructions, start processes or touch files. Whatever it does not know is kept and named as
//! such; whatever is damaged inside an otherwise readable file becomes a [`Problem`] and the rest is still read. Only a
//! file that is no cubin at all is a [`CubinError`]. Work and memory are linear in the size of the file.

mod attribute;
mod elf;
mod frame;
mod function;
mod image;
pub mod lines;
mod note;
#[cfg(test)]
mod tests;

pub use attribute::{Attribute, AttributeValue};
pub use elf::{Relocation, Section, SectionIndex, Symbol, SymbolIndex, SymbolKind};
pub use function::{
    BranchTargets, ConstantBank, Function, FunctionKind, LaunchBounds, Mbarrier, MbarrierKind, Param, Part, Resources,
};
pub use image::{Abi, Call, CubinError, ElfKind, Image, Problem, VariantSource};
pub use note::{Note, Tool, Toolkit};
