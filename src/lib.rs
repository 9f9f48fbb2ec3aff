//! Where did my registers go, and did this change make it worse?
//!
//! ptxinspect runs NVIDIA's `ptxas` on PTX, reads the cubin natively, and joins everything it finds on the PTX line.
//!
//! ```no_run
//! use ptxinspect::{Options, Source, inspect};
//! use std::path::Path;
//!
//! let options = Options { ptxas: Some("13.4".to_owned()), ..Options::arch("sm_90a") };
//! let report = inspect(&Source::from(Path::new("kernel.ptx")), &options)?;
//! print!("{}", report.to_text());
//! for kernel in report.kernels() {
//!     println!("{}: {:?} registers", kernel.name, kernel.resources.registers);
//! }
//! for finding in report.findings() {
//!     println!("{} at line {:?}: {}", finding.code, finding.ptx_line, finding.message);
//! }
//! # Ok::<(), ptxinspect::Error>(())
//! ```
//!
//! The functions at the root of this crate answer one question each: [`inspect`], [`annotate`], [`disassemble`], [`diff`], [`occupancy`],
//! [`timeline`], [`tune()`] and [`gate()`]. They are what the command line and the Python package call. The modules below them are the parts they are
//! made of, and change more often.
//!
//! # How it is made
//!
//! Plain types flow one way: bytes in, values out, writers at the edge.
//!
//! ```text
//! any file   ── container ────────► Entry              every cubin and PTX in it, read one at a time
//! PTX text   ── ptx::parse ───────► ptx::Module        every statement with its lines; unknown opcodes are values
//! PTX text   ── toolchain ────────► cubin bytes + log  the only place that starts processes
//! log text   ── toolchain::log ───► Log                registers, spills, advisories per function
//! cubin      ── cubin::Image ─────► Image              functions, code bytes, resources, attributes
//! debug      ── cubin::lines ─────► LineTable          pc → PTX line, pc → source line with inlining
//! code       ── sass::decode ─────► Vec<Inst>          one for each 16 bytes; Unknown is a value and is counted
//! Vec<Inst>  ── flow ─────────────► Cfg, Liveness      generic dataflow, thin liveness
//! Liveness   ── registers ────────► pressure, spills   what SASS means for registers; occupancy
//! a loop     ── cost ─────────────► Estimate           its schedule executed: cycles of a turn by warps, the bound, the waits
//! PTX        ── simt ─────────────► Warps              which threads run what, and with which values
//! Warps      ── roles ────────────► Role               warp roles, setmaxnreg, the register pool
//! PTX, roles ── sync ─────────────► Verdict, Finding   barriers executed: it ends, or here is who waits for what; rules
//! Warps      ── access ───────────► AccessFacts        bank conflicts and sectors of every access
//! Warps, sync ── memory ──────────► MemoryMaps         who touches which bytes and columns; groups under way
//! answers    ── report::join ─────► Report             owned, deterministic, serialisable: the one model
//! Report     ── gate ─────────────► Verdict            figures against baseline and policy
//! PTX        ── tune ─────────────► Search, Tuned      changes with their conditions; which to try; what no other beats
//! Job        ── engine ───────────► Inspected          all of the above, in parallel; files, processes and the clock are behind it
//! Report, Verdict ── emit ────────► text, json, …      one file a format
//! a call     ── mcp ──────────────► few words          the functions below as tools of an agent
//! ```
//!
//! Dependencies point one way too: [`base`] ← [`container`], [`ptx`], [`cubin`], [`sass`], [`toolchain`], [`cache`] (never each other; the last two use [`files`]) ← [`graph`] ← [`flow`]
//! ← [`registers`] ← [`mod@cost`]; [`registers`], [`simt`] ← `access`, [`roles`] ← `sync` ← `memory` ← [`report`] ← [`compare`] ← [`mod@gate`] ← [`matrix`], [`mod@tune`] ← [`engine`], [`emit`] ← `mcp` ← `cli`.
//! `tests/architecture.rs` reads the sources and checks it.

mod access;
pub mod base;
pub mod cache;
#[doc(hidden)]
pub mod cli;
pub mod compare;
pub mod container;
pub mod cost;
pub mod cubin;
pub mod emit;
pub mod engine;
mod facade;
pub mod files;
pub mod flow;
pub mod gate;
pub mod graph;
pub mod matrix;
#[cfg(feature = "mcp")]
mod mcp;
mod memory;
pub mod ptx;
pub mod registers;
pub mod report;
pub mod roles;
pub mod sass;
pub mod simt;
mod sync;
pub mod toolchain;
pub mod tune;

pub use crate::base::{Arch, Line};
pub use crate::compare::Difference;
pub use crate::gate::Verdict;
pub use crate::registers::occupancy::{Launch as LaunchConfig, Occupancy};
pub use crate::report::annotation::{Annotation, By};
pub use crate::report::{
    Advisory, Confidence, Diagnostic, Issue as Finding, Kernel, Report, Resources, Severity, Unit, UnitError,
};
pub use facade::*;
