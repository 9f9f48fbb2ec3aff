//! `ptxinspect cache info|clear|verify`, and where the cache is.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, Subcommand};

use super::compile::environment;
use super::{Outcome, output};
use crate::cache::Cache;
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::emit::text::bytes;
use crate::toolchain::{Env, ToolchainError};

/// `ptxinspect cache …`
#[derive(Debug, ClapArgs)]
pub struct CacheArgs {
    /// What to do with it
    #[command(subcommand)]
    pub action: CacheAction,
}

/// What can be done with the cache.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum CacheAction {
    /// Where it is, what it holds, how large it may get
    Info,
    /// Remove everything in it
    Clear,
    /// Read every entry and check it; exit 1 where one is damaged
    Verify,
}

const VARIABLE: &str = "PTXINSPECT_CACHE";

/// Runs the command.
pub fn run(args: &CacheArgs) -> Result<Outcome> {
    let env = environment()?;
    let Some(cache) = of(&env)? else { bail!("there is no folder for a cache: set HOME or {VARIABLE}") };
    let mut out = output::stdout(Form::Text);
    match args.action {
        CacheAction::Info => {
            let info = cache.info().with_context(|| format!("cannot read {}", cache.folder().display()))?;
            writeln!(out, "folder   {}", terminal(&cache.folder().display().to_string()))?;
            writeln!(out, "entries  {}", info.entries)?;
            writeln!(out, "size     {} of at most {}", bytes(info.bytes), bytes(info.limit_bytes))?;
        }
        CacheAction::Clear => {
            let info = cache.clear().with_context(|| format!("cannot remove {}", cache.folder().display()))?;
            writeln!(out, "removed {} entries, {}", info.entries, bytes(info.bytes))?;
        }
        CacheAction::Verify => {
            let verified = cache.verify().with_context(|| format!("cannot read {}", cache.folder().display()));
            let (whole, damaged) = verified?;
            writeln!(out, "{whole} entries are whole, {} damaged", damaged.len())?;
            return Ok(if damaged.is_empty() { Outcome::Fine } else { Outcome::Findings });
        }
    }
    Ok(Outcome::Fine)
}

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
