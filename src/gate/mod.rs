//! The gate: did this change make it worse?
//!
//! In: what a run measured ([`Measured`]), what was recorded ([`Baseline`]), what the team has agreed on ([`Policy`]) and
//! today's date. Out: a [`Verdict`]: every finding with its place, and whether to pass, to fail, or to say that it cannot be
//! told. It reads no file, knows no clock and prints nothing.
//!
//! It refuses to pass what it does not understand: a figure that was known and no longer is, a kernel that no longer
//! compiles, a pattern that matches nothing, are errors, and errors are never a pass.

mod baseline;
mod check;
mod date;
mod denial;
mod figures;
mod glob;
mod history;
mod library;
mod metric;
mod pairing;
mod part;
mod policy;
mod shard;
mod times;
mod update;
mod verdict;

pub use baseline::{Baseline, BaselineError, LOCK_SCHEMA};
pub use check::{Check, Scope, check};
pub use date::{Date, Moment};
pub use denial::Denial;
pub use figures::{KernelFigures, KernelPlace, Measured, UNKNOWN_ARCH, UnitFigures, label_of};
pub use glob::Glob;
pub use history::{
    Change as FigureStep, History, HistoryError, Point, RECORD_SCHEMA, Record, Series, Track, check_commit, of_measured,
};
pub use library::merge;
pub use metric::{Figures, Metric, Sense};
pub use part::{PART_SCHEMA, Part, PartError, Piece, ShardOf, Stamp, Wanted, join};
pub use policy::{Action, Allowance, Budget, InputPattern, Policy, PolicyError, Rule, Selector, Tolerance};
pub use shard::{Load, Shard, place};
pub use times::{TIMES_SCHEMA, Times};
pub use update::{changes, update};
pub use verdict::{
    Change, Comparison, FigureChange, Finding, FindingKind, GATE_SCHEMA, Level, Outcome, Patch, Totals, UnitVerdict,
    Verdict,
};

#[cfg(test)]
mod tests;
