//! Finding, installing and running ptxas, and reading what it says; and nvdisasm, for comparison.
//!
//! In: what the user asked for ([`Request`]), the machine ([`Env`]) and PTX bytes. Out: a [`Ptxas`] and why it was
//! chosen, a cubin with the log that came with it ([`Output`]), and the log as values ([`log::Log`]).
//!
//! This is the only module that starts processes. It reads no environment of its own (the caller hands it over), it
//! does not parse PTX beyond looking for `.target`, it reads of a cubin only its first four bytes and ptxas's
//! signature, and it prints nothing: progress goes to a callback.

mod config;
mod env;
mod error;
mod find;
pub mod flags;
mod guard;
pub mod log;
pub mod managed;
pub mod nvdisasm;
mod prepare;
mod process;
mod python;
mod run;
mod version;

pub use config::Config;
pub use env::Env;
pub use error::{InstallerFailure, ToolchainError};
pub use find::{Origin, Ptxas, candidates, find};
pub use flags::{check_flags, check_project_flags};
pub use guard::{ITSELF, dismiss_guard, guard, make_guard_ready, release_guard, start_guard};
pub use prepare::{Preparation, PrepareError, Prepared, prepare, target_arch};
pub use process::remove_leftovers_on_signals;
pub use run::{Failure, Job, Output, RunError, job_arguments, run};
pub use version::{Request, Version, VersionError, VersionRequest};

/// The newest release this program knows by name: the one that advice names.
pub const NEWEST_RELEASE: VersionRequest = VersionRequest::release(13, 4);
