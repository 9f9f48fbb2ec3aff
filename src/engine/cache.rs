//! Where what ptxas has made before is kept.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::toolchain::{Env, ToolchainError};

/// The variable that names the folder.
pub const VARIABLE: &str = "PTXINSPECT_CACHE";

/// The user's cache: `PTXINSPECT_CACHE`, or `ptxinspect` where the system keeps a user's caches. None without a home.
pub fn of(env: &Env) -> Result<Option<Arc<Cache>>> {
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
    Ok(folder.map(|folder| Arc::new(Cache::new(&folder, limit))))
}
