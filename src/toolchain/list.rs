//! What this machine has, for `toolchain list`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::managed::{Installed, Store};
use super::{Env, ToolchainError, Version, candidates};

/// How long one ptxas may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Every ptxas there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Where managed toolchains are kept.
    pub folder: PathBuf,
    /// The managed ones, newest first.
    pub managed: Vec<Installed>,
    /// All that can be found without being asked for by version, in the order in which they are taken: the first is the
    /// one that is used.
    pub found: Vec<Found>,
}

/// A ptxas that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The executable.
    pub path: PathBuf,
    /// What it says it is; nothing if it says nothing sensible.
    pub version: Option<Version>,
    /// One word for why it is in the list: [`Origin::kind`](super::Origin::kind).
    pub kind: &'static str,
    /// The same for people.
    pub origin: String,
}

/// Lists what there is; every ptxas whose version is not known is asked, all at once.
pub fn list(env: &Env) -> Result<Listing, ToolchainError> {
    let store = Store::of(env)?;
    let candidates = candidates(env);
    std::thread::scope(|scope| {
        candidates.iter().for_each(|ptxas| drop(scope.spawn(|| ptxas.ask_version(VERSION_TIMEOUT))));
    });
    let found = candidates.into_iter().map(|ptxas| Found {
        version: ptxas.version(),
        kind: ptxas.origin.kind(),
        origin: ptxas.origin.to_string(),
        path: ptxas.path,
    });
    Ok(Listing { folder: store.folder().to_owned(), managed: store.list(), found: found.collect() })
}
