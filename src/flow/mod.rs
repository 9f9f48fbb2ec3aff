//! Control flow and liveness of one code section.
//!
//! In: instructions as a [`Program`] (what each reads, writes, is guarded by, and where it goes) and a [`Layout`] (what the
//! code alone does not say: where functions start, where indirect branches lead, how many registers there are). Out: a [`Cfg`]
//! of basic blocks, functions and calls, with its dominators and loops, and [`Liveness`] of all four register files under
//! either [`Rule`], with definitions and uses on request. Everything is total: code that jumps out of its section, runs off its
//! end or holds unknown words has blocks and rows too, and is marked inexact. This module refuses to guess: it adds no edge and
//! kills no register on suspicion.
//!
//! Time and memory grow linearly with the code: one forward walk summarises it by traces, the fixed point runs over the traces' exits
//! only, and rows are recomputed when somebody walks them.

mod cfg;
mod chains;
mod convention;
mod liveness;
mod program;
mod rows;
mod tail_jumps;
mod touched;
mod written;

pub use cfg::{Block, CallSite, Cfg, FuncId, Function};
pub use chains::{Definition, Use};
pub use liveness::{Counts, Liveness, Rule};
pub use program::{Layout, Program, SassProgram};
pub use rows::Row;

#[cfg(test)]
mod tests;
