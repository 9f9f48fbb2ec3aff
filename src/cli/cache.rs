//! `ptxinspect cache info|clear|verify`, and where the cache is.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, Subcommand};

use super::args::TextOrJson;
use super::{Outcome, output};
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::emit::text::bytes;
use crate::engine::cache::{VARIABLE, of};
use crate::engine::compile::environment;

/// The name and version of the JSON's shape.
const SCHEMA: &str = "ptxinspect.cache/1";

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
    Info {
        /// The form of the answer
        #[arg(long, short, default_value = "text")]
        format: TextOrJson,
    },
    /// Remove everything in it
    Clear,
    /// Read every entry and check it; exit 1 where one is damaged
    Verify {
        /// The form of the answer
        #[arg(long, short, default_value = "text")]
        format: TextOrJson,
    },
}

/// Says that the shared cache is of no use.
pub fn warn(message: &str) {
    // Where nothing can be said, the work goes on.
    let _ = crate::emit::text::write_warning(message, &mut output::errors());
}

/// Runs the command.
pub fn run(args: &CacheArgs) -> Result<Outcome> {
    let env = environment()?;
    let Some(cache) = of(&env, warn)? else { bail!("there is no folder for a cache: set HOME or {VARIABLE}") };
    let form = match args.action {
        CacheAction::Info { format } | CacheAction::Verify { format } => format.into(),
        CacheAction::Clear => Form::Text,
    };
    let mut out = output::stdout(form);
    match args.action {
        CacheAction::Info { format } => {
            let info = cache.info().with_context(|| format!("cannot read {}", cache.folder().display()))?;
            if format == TextOrJson::Json {
                let folder = cache.folder().display().to_string();
                let told = serde_json::json!({
                    "schema": SCHEMA,
                    "folder": folder,
                    "entries": info.entries,
                    "bytes": info.bytes,
                    "limit_bytes": info.limit_bytes,
                    "shared": cache.shared().map(|shared| shared.shown()),
                    "shared_read_only": cache.shared().map(|shared| shared.is_read_only()),
                });
                writeln!(out, "{told:#}")?;
                return Ok(Outcome::Fine);
            }
            writeln!(out, "folder   {}", terminal(&cache.folder().display().to_string()))?;
            writeln!(out, "entries  {}", info.entries)?;
            writeln!(out, "size     {} of at most {}", bytes(info.bytes), bytes(info.limit_bytes))?;
            if let Some(shared) = cache.shared() {
                let read_only = if shared.is_read_only() { ", read only" } else { "" };
                writeln!(out, "shared   {}{read_only}", terminal(shared.shown()))?;
            }
        }
        CacheAction::Clear => {
            let info = cache.clear().with_context(|| format!("cannot remove {}", cache.folder().display()))?;
            writeln!(out, "removed {} entries, {}", info.entries, bytes(info.bytes))?;
        }
        CacheAction::Verify { format } => {
            let verified = cache.verify().with_context(|| format!("cannot read {}", cache.folder().display()));
            let (whole, damaged) = verified?;
            if format == TextOrJson::Json {
                let folder = cache.folder().display().to_string();
                let told = serde_json::json!({
                    "schema": SCHEMA,
                    "folder": folder,
                    "whole": whole,
                    "damaged": damaged.len(),
                });
                writeln!(out, "{told:#}")?;
            } else {
                writeln!(out, "{whole} entries are whole, {} damaged", damaged.len())?;
            }
            return Ok(if damaged.is_empty() { Outcome::Fine } else { Outcome::Findings });
        }
    }
    Ok(Outcome::Fine)
}
