//! Files that appear whole or not at all, and temporary folders that go away.
//!
//! In: a place to write to. Out: a folder of one's own ([`Scratch`]), a file that takes its place in one step ([`NewFile`]), the
//! right to be the only one who changes what is in a folder ([`lock_folder`]). It knows nothing of what is written, and prints
//! nothing. A process that is killed leaves at most a folder behind, which the next one that works in the same place removes.

mod lock;
mod new_file;
mod scratch;

pub use lock::lock_folder;
pub use new_file::{NewFile, is_descriptor, keep_mode, target};
pub use scratch::{Scratch, remove_all, remove_leftovers};

/// What the names of temporary folders begin with where other files are; the rest is drawn by lot.
pub const HIDDEN_PREFIX: &str = ".ptxinspect-";
