//! Two builds side by side.
//!
//! In: two [`Unit`](crate::report::Unit)s or two listings. Out: which line of one is which of the other, what moved between them, and which
//! instructions differ once the names of registers are left out. It judges nothing: the gate does.

mod align;
mod figures;
mod lines;
mod loops;
mod pairing;
mod patch;
mod sass;
mod units;

pub use align::align;
pub use figures::{Figure, FigureChange, Outcome, figure_changes};
pub use lines::{LineChange, Room as LineRoom, culprits, line_changes, statement_key};
pub use loops::{LoopChange, loop_changes};
pub use pairing::{How, Matcher, Pair, without_hashes};
pub use patch::unified;
pub use sass::{Hunk, HunkLine, Instructions, Likeness, SassChange, instruction_key, sass_changes};
pub use units::{
    CodeOf, DIFF_SCHEMA, Difference, FieldChange, KernelDifference, SideFacts, UnitDifference, differences,
    field_changes,
};
