//! What can be wrong with a container, each with where.

use crate::base::Limits;

/// Something in a container that could not be read; everything else in it still can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ContainerError {
    /// The container path: `libfoo.so/.nv_fatbin[3]`.
    pub path: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The system refused.
    #[error("{0}")]
    Io(String),
    /// Nothing known holds GPU code in this form.
    #[error(
        "not a file that can hold GPU code: expected PTX text, a cubin, a fatbin, an ELF, PE or Mach-O file, an archive, \
         a zip or a folder, found {found}"
    )]
    NotRecognised {
        /// The first bytes.
        found: String,
    },
    /// A structure reaches past the end of what holds it.
    #[error("the {what} at offset {offset:#x} needs {needed} bytes, but only {left} are left")]
    Truncated {
        /// Which structure.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// How much it needs.
        needed: u64,
        /// How much there is.
        left: u64,
    },
    /// A field has a value that no tool writes.
    #[error("{what} at offset {offset:#x}: expected {expected}, found {found}")]
    Malformed {
        /// Which field of which structure.
        what: &'static str,
        /// Where the structure starts.
        offset: u64,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Two parts claim the same bytes.
    #[error("{what} overlaps {other}")]
    Overlap {
        /// The part that is left out.
        what: String,
        /// The part that was there first.
        other: String,
    },
    /// The bytes do not decompress.
    #[error("damaged {method} data: {detail}")]
    Damaged {
        /// `LZ4`, `zstd`, `deflate`.
        method: &'static str,
        /// What the decompressor says.
        detail: String,
    },
    /// The size after decompression is not the declared one.
    #[error("{method} data holds {found} bytes where {declared} were declared")]
    WrongSize {
        /// `LZ4`, `zstd`, `deflate`.
        method: &'static str,
        /// What the header says.
        declared: u64,
        /// What came out; "more than N" when decompression was stopped.
        found: String,
    },
    /// More output than any real file has for that much input.
    #[error("{declared} bytes declared for {stored} stored ones: refused as a decompression bomb (limit {limit})")]
    Bomb {
        /// Bytes after decompression.
        declared: u64,
        /// Bytes before.
        stored: u64,
        /// The most that would have been accepted.
        limit: u64,
    },
    /// More than an input may cost.
    #[error("{what}: the rest is not looked at; {} gives it more", limit.flag())]
    TooMuch {
        /// Which limit it passes.
        limit: Limit,
        /// What there is too much of, and how much may be.
        what: String,
    },
    /// A name that would leave its folder.
    #[error("unsafe name {name:?}: absolute or with ..")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// Understood, but not supported.
    #[error("{0}")]
    Unsupported(String),
}

/// A limit of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// How much is looked at.
    Entries,
    /// How deep.
    Depth,
    /// How much it unpacks to.
    Bytes,
    /// How long it takes.
    Time,
}

impl Limit {
    /// The flag that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Limit::Entries => "--max-entries",
            Limit::Depth => "--max-depth",
            Limit::Bytes => "--max-bytes",
            Limit::Time => "--timeout",
        }
    }
}

impl Problem {
    /// More to look at than may be.
    pub fn too_many_entries(limits: &Limits) -> Problem {
        let what = format!("there are more than {} files, members and entries inside", limits.entries);
        Problem::TooMuch { limit: Limit::Entries, what }
    }

    /// It takes longer than it may.
    pub fn out_of_time(limits: &Limits) -> Problem {
        let what = format!("it is not done within {} s", limits.time.as_secs_f64());
        Problem::TooMuch { limit: Limit::Time, what }
    }

    /// Whether nothing more of the input is looked at.
    pub fn ends_the_input(&self) -> bool {
        matches!(self, Problem::TooMuch { limit: Limit::Entries | Limit::Time, .. })
    }

    /// The problem, placed.
    pub(super) fn at(self, path: impl Into<String>) -> ContainerError {
        ContainerError { path: path.into(), problem: self }
    }
}

/// The first bytes of something, for messages: as text where they are text.
pub(super) fn glimpse(bytes: &[u8]) -> String {
    match bytes {
        [] => "an empty file".to_owned(),
        bytes => {
            let head = &bytes[..bytes.len().min(16)];
            if head.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
                format!("text {:?}", String::from_utf8_lossy(head))
            } else {
                head.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
            }
        }
    }
}
