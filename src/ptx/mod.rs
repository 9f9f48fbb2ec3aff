//! PTX text to a [`Module`]: lexer, parser, and views over the statements.
//!
//! In: the text of one module, as a compiler or a person wrote it, whatever it holds.
//! Out: every statement with its lines, functions with their headers, instructions with operands and what they do, virtual
//! registers, `.loc`. Everything borrows from the text; operands and headers are read off it when asked for.
//!
//! It refuses to judge: types, opcodes and names are not checked, for ptxas is the one who knows. What cannot be read as a
//! statement is listed in [`Module::errors`] and skipped; nothing makes it fail.

mod constant;
pub mod descriptor;
mod error;
pub mod fragment;
mod header;
mod inline;
mod inline_asm;
mod instruction;
mod lexer;
mod module;
mod operand;
mod operation;
mod parser;
mod registers;
mod statement;
mod variable;

#[cfg(test)]
mod tests;

pub use error::SyntaxError;
pub use header::{Directives, Header, HeaderDirective};
pub use inline::inlined;
pub use inline_asm::counted_lines;
pub use instruction::{Definitions, Guard, Instruction, Modifiers, NameUse, Names};
pub use module::{Function, FunctionKind, Instructions, Located, Module, StatementId, Table};
pub use operand::{Address, Operand, Operands, Shape};
pub use operation::{
    BarrierAction, Bulk, Call, ClusterBarrierAction, CpAsync, Mbarrier, MbarrierAction, NamedBarrier, Operation,
    RegisterAction, Tcgen05, Wgmma,
};
pub use parser::parse;
pub use registers::{Register, RegisterDeclaration, RegisterUse, Registers};
pub use statement::{File, LineMarker, Loc, Position, Statement, StatementKind};
pub use variable::{Declaration, Declarator, Declarators, Linkage, Pointer, StateSpace, type_bits};
