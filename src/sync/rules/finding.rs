//! What a check found, and how sure it is.

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

/// What a check found. `docs/codes` has a page for each code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `PI201`
    pub code: &'static str,
    /// Whether the kernel hangs or is refused, rather than runs otherwise than meant.
    pub fatal: bool,
    /// How sure.
    pub confidence: Confidence,
    /// Where, as a line of the text.
    pub line: Line,
    /// What.
    pub message: String,
    /// Why.
    pub reasoning: String,
}
