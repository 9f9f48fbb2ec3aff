//! What the parser reports when the text is not PTX.

use crate::base::Line;

/// A place where the text does not read as PTX. The parser goes on at the next statement.
///
/// ptxas remains the judge of legality: an unknown opcode or an undeclared register is none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct SyntaxError {
    /// Line of what was found.
    pub line: Line,
    /// Its column in bytes, counted from 1.
    pub column: u32,
    /// What could have stood there.
    pub expected: &'static str,
    /// What stands there: the token in quotes, shortened, or `end of file`.
    pub found: Box<str>,
}
