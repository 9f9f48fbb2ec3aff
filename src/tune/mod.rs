//! What would help a kernel: changes to try, the search among them, and what is worth telling of the result.
//!
//! In: a kernel's PTX, its report as it is, and what each trial gave. Out: the [`Space`] of changes with their conditions, the next
//! trials of a [`Search`], and a [`Tuned`] table: the builds that no other beats, the best for each aim. It compiles nothing and touches
//! no file: whoever calls hands it the figures of each trial. A change never alters what a kernel computes: one whose condition cannot be
//! checked is a [`Suggestion`], and is not tried.

mod change;
pub mod edit;
mod figures;
mod front;
mod model;
mod search;
mod space;
mod turns;

pub use change::{Axis, Change, FastCompile, Trial};
pub use figures::{LOOP_TURNS, TrialFigures};
pub use front::{Aim, best, closest, front};
pub use model::{AimAnswer, Frees, Holder, Outcome, Reason, Refusals, Row, TUNE_SCHEMA, Tried, Tuned, Tuning, Why};
pub use search::{Budget, Search};
pub use space::{Facts, Space, Suggestion};
pub use turns::{ERROR_PERCENT, Turns, is_faster};
