//! Where did my registers go, and did this change make it worse?
//!
//! ptxinspect runs NVIDIA's `ptxas` on PTX, reads the cubin natively, and joins everything it finds on the PTX line.
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
//! PTX        ── simt ─────────────► Warps              which threads run what, and with which values
//! Warps      ── roles ────────────► Role               warp roles, setmaxnreg, the register pool
//! PTX, roles ── sync ─────────────► Verdict, Finding   barriers executed: it ends, or here is who waits for what; rules
//! answers    ── report::join ─────► Report             owned, deterministic, serialisable: the one model
//! Report     ── gate ─────────────► Verdict            figures against baseline and policy
//! Report, Verdict ── emit ────────► text, json, …      one file a format
//! ```
//!
//! Dependencies point one way too: [`base`] ← [`container`], [`ptx`], [`cubin`], [`sass`], [`toolchain`], [`cache`] (never each other; the last two use [`files`]) ← [`graph`] ← [`flow`]
//! ← [`registers`], [`simt`] ← [`roles`] ← `sync` ← [`report`] ← [`compare`] ← [`gate`] ← [`matrix`] ← [`emit`] ← [`cli`].
//! `tests/architecture.rs` reads the sources and checks it.

pub mod base;
pub mod cache;
pub mod cli;
pub mod compare;
pub mod container;
pub mod cubin;
pub mod emit;
pub mod engine;
pub mod files;
pub mod flow;
pub mod gate;
pub mod graph;
pub mod matrix;
pub mod ptx;
pub mod registers;
pub mod report;
pub mod roles;
pub mod sass;
pub mod simt;
mod sync;
pub mod toolchain;
