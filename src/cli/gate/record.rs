//! `ptxinspect gate --record FILE`: the figures of a commit, added to those of others.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::GateArgs;
use crate::cli::args::OutputArgs;
use crate::cli::output;
use crate::emit::clean::{self, Form};
use crate::emit::escape::terminal;
use crate::engine::gate::{Gated, now};
use crate::engine::{commit, history};
use crate::files::{HIDDEN_PREFIX, lock_folder, remove_leftovers};
use crate::gate::{check_commit, of_measured};

/// Adds what was measured, unless something could not be.
pub fn add(gated: &Gated, path: &Path, args: &GateArgs) -> Result<()> {
    let name = path.display();
    if let Some(error) = gated.measured.iter().find_map(|measured| measured.error.as_ref()) {
        bail!("nothing was recorded in {name}, for not everything could be measured: {error}");
    }
    let commit = match &args.commit {
        Some(commit) => commit.clone(),
        None => commit().with_context(|| {
            format!("nothing says which commit to record in {name}: add --commit ID, or run it in a checkout of git")
        })?,
    };
    check_commit(&commit).map_err(anyhow::Error::msg)?;
    let measured = of_measured(&gated.measured, &commit, args.commit_time.unwrap_or_else(now));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // One reads and writes at a time.
    let lock = lock_folder(folder).with_context(|| format!("cannot lock the folder of {name}"))?;
    remove_leftovers(folder, HIDDEN_PREFIX);
    let (old, mut history) = history::read(path)?.unwrap_or_default();
    let kernels = measured.len();
    history.add(measured);
    let text = clean::text(Form::Json, &history.to_text());
    if text != old {
        let to = OutputArgs { output: Some(path.to_owned()), ..args.output.clone() };
        output::write(&to, Form::Json, |out| out.write_all(text.as_bytes()))?;
    }
    drop(lock);
    if !args.output.quiet {
        let commits = history.commits().len();
        let what = if text == old { "had already" } else { "has now" };
        let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        writeln!(
            output::errors(),
            "{} {what} the figures of {} at {}; it has {}",
            terminal(&name.to_string()),
            many(kernels, "function"),
            terminal(&commit),
            many(commits, "commit")
        )?;
    }
    Ok(())
}

/// The commit that CI names, or that the working folder has checked out.
fn commit() -> Option<String> {
    let named = commit::VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    named.or_else(|| commit::head(Path::new(".")))
}
