//! What a check found, and how sure it is.

use super::rule::Rule;
use crate::base::Line;

/// How sure a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It may be wrong, if something holds that the code does not show.
    Possible,
    /// It is wrong unless something unusual holds.
    Likely,
    /// It is wrong.
    Certain,
}

/// How a finding of a hang begins.
pub const HANGS: &str = "the kernel hangs";

/// A rule that a kernel breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// How sure.
    pub confidence: Confidence,
    /// Where, as a line of the text.
    pub line: Line,
    /// What.
    pub message: String,
    /// Why.
    pub reasoning: String,
}
