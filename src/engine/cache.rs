//! Where what ptxas has made before is kept.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cache::{Address, Cache, Shared, Told};
use crate::toolchain::{Env, ToolchainError};

/// The variable that names the folder.
pub const VARIABLE: &str = "PTXINSPECT_CACHE";
/// The variable that names a shared store.
const SHARED: &str = "PTXINSPECT_CACHE_URL";
/// The variable with which nothing is written to it.
const READ_ONLY: &str = "PTXINSPECT_CACHE_READ_ONLY";
/// The variable that says how long it may take.
const TIMEOUT: &str = "PTXINSPECT_CACHE_TIMEOUT";
/// How long it may take when nobody says.
const TIMEOUT_SECONDS: f64 = 5.0;

/// Nobody is told what goes wrong with the shared store.
pub fn told_nobody(_: &str) {}

/// The user's cache: `PTXINSPECT_CACHE`, or `ptxinspect` where the system keeps a user's caches, and behind it what `PTXINSPECT_CACHE_URL` names.
/// None without a home. `told` hears, once, that the shared store is of no use.
pub fn of(env: &Env, told: Told) -> Result<Option<Arc<Cache>>> {
    let home = |below: &str| env.home.as_ref().map(|home| home.join(below));
    let caches = || match std::env::consts::OS {
        "windows" => env.folder_var("LOCALAPPDATA").or_else(|| home("AppData/Local")),
        "macos" => home("Library/Caches"),
        // The XDG specification: a relative path is to be ignored.
        _ => env.folder_var("XDG_CACHE_HOME").or_else(|| home(".cache")),
    };
    if let Some(value) = env.var(VARIABLE).map(PathBuf::from).filter(|folder| folder.is_relative()) {
        // What a cache holds is believed: a checkout could come with one.
        return Err(ToolchainError::RelativeVariable { name: VARIABLE, value }.into());
    }
    let folder = env.folder_var(VARIABLE).or_else(|| Some(caches()?.join("ptxinspect")));
    let limit = match env.var("PTXINSPECT_CACHE_MIB") {
        None => None,
        Some(text) => match text.to_str().and_then(|text| text.trim().parse::<u64>().ok()) {
            Some(mebibytes) => Some(mebibytes.saturating_mul(1 << 20)),
            None => bail!("PTXINSPECT_CACHE_MIB is '{}': expected a number of MiB", text.to_string_lossy()),
        },
    };
    let shared = shared(env, told)?;
    Ok(folder.map(|folder| Arc::new(Cache::new(&folder, limit).with_shared(shared))))
}

/// The shared store, where there is one. One that was made for the same settings serves again: it has its connections.
fn shared(env: &Env, told: Told) -> Result<Option<Arc<Shared>>> {
    /// A forked process has none of its parent's threads.
    type Made = ((u32, String, bool, Duration), Arc<Shared>);
    static LAST: Mutex<Option<Made>> = Mutex::new(None);
    let var = |name: &str| env.var(name).and_then(|value| value.to_str()).map(str::to_owned);
    let Some(text) = var(SHARED).filter(|text| !text.is_empty()) else { return Ok(None) };
    let read_only = match var(READ_ONLY).as_deref() {
        None | Some("" | "0" | "false") => false,
        Some("1" | "true") => true,
        Some(other) => bail!("{READ_ONLY} is '{other}': expected 1 or 0"),
    };
    let timeout = match var(TIMEOUT) {
        None => Some(TIMEOUT_SECONDS),
        Some(text) => text.trim().parse::<f64>().ok(),
    };
    let timeout =
        timeout.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let timeout = timeout.with_context(|| format!("{TIMEOUT} is not a time: expected a number of seconds above 0"))?;
    let address = Address::parse(&text, &var).context(SHARED)?;
    let settings = (std::process::id(), text, read_only, timeout);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, shared)) = last.as_ref().filter(|(made, _)| *made == settings) {
        return Ok(Some(Arc::clone(shared)));
    }
    let shared = Arc::new(Shared::new(&address, read_only, timeout, told).context(SHARED)?);
    *last = Some((settings, Arc::clone(&shared)));
    Ok(Some(shared))
}
