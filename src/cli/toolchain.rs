//! `ptxinspect toolchain …`: the ptxas versions at hand.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::args::{TextOrJson, ToolchainAction, ToolchainArgs};
use super::{Outcome, output, progress};
use crate::emit::clean::Form;
use crate::emit::escape::terminal;
use crate::emit::text::{DIM, RESET, write_wrapped};
use crate::engine::compile::environment;
use crate::engine::progress::Installing;
use crate::toolchain::managed::{Progress, Store, Vouched};
use crate::toolchain::{self, Env, Origin, Request, VersionRequest};

/// How long a ptxas may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of a release whose digest is not in this program.
const UNKNOWN_RELEASE: &str = "on the index's word: this ptxinspect does not know the release";

/// Lists, installs, finds or removes.
pub fn run(args: &ToolchainArgs) -> Result<Outcome> {
    let env = environment()?;
    let form = match &args.action {
        ToolchainAction::List { format, .. } => (*format).into(),
        _ => Form::Text,
    };
    let mut out = output::stdout(form);
    match &args.action {
        ToolchainAction::List { format, available: false } => list(&env, *format, &mut out)?,
        ToolchainAction::List { format, available: true } => list_available(&env, *format, &mut out)?,
        ToolchainAction::Install { versions, quiet } => {
            let store = Store::of(&env)?;
            for version in requests(versions)? {
                let done = store.install(version, &env, &install_progress(*quiet))?;
                let state = if done.fresh { "installed" } else { "already installed" };
                let index = done.toolchain.vouched == Some(Vouched::Index);
                let word = if index { format!(", {UNKNOWN_RELEASE}") } else { String::new() };
                writeln!(out, "ptxas {} {state}: {}{word}", done.toolchain.version, done.toolchain.path.display())?;
            }
        }
        ToolchainAction::Path { version } => {
            let path = match version {
                Some(version) => {
                    let request = request(version)?;
                    match Store::of(&env)?.newest(Some(request)) {
                        Some(installed) => installed.path,
                        None => {
                            bail!("ptxas {request} is not installed: `ptxinspect toolchain install {request}` gets it")
                        }
                    }
                }
                None => {
                    // Asking where it is brings none.
                    let mut env = env.clone();
                    env.offline = true;
                    toolchain::find(&Request::Auto, &env, &install_progress(true))?.path
                }
            };
            writeln!(out, "{}", path.display())?;
        }
        ToolchainAction::Remove { versions } => {
            let store = Store::of(&env)?;
            for version in requests(versions)? {
                for removed in store.remove(version, &install_progress(true))? {
                    writeln!(out, "ptxas {removed} removed")?;
                }
            }
        }
    }
    Ok(Outcome::Fine)
}

fn request(text: &str) -> Result<VersionRequest> {
    Ok(text.parse()?)
}

fn requests(texts: &[String]) -> Result<Vec<VersionRequest>> {
    texts.iter().map(|text| request(text)).collect()
}

/// One ptxas in the list.
#[derive(Serialize)]
struct Row {
    version: Option<String>,
    path: String,
    kind: &'static str,
    reason: String,
    default: bool,
    /// What stood for a managed one when it was installed; null for others, and where that was not recorded.
    vouched: Option<Vouched>,
}

fn list(env: &Env, format: TextOrJson, out: &mut dyn Write) -> Result<()> {
    let managed = Store::of(env).map(|store| store.list()).unwrap_or_default();
    let found = toolchain::candidates(env);
    // One of those that are managed is the newest: the others only are there.
    let newest = found.iter().position(|ptxas| ptxas.origin == Origin::Managed { request: None });
    let rows: Vec<Row> = found
        .iter()
        .enumerate()
        .map(|(index, ptxas)| Row {
            version: ptxas.ask_version(PATIENCE, env).map(|version| version.to_string()),
            path: ptxas.path.display().to_string(),
            kind: ptxas.origin.kind(),
            reason: match &ptxas.origin {
                Origin::Managed { request: None } if newest != Some(index) => "managed".to_owned(),
                origin => origin.to_string(),
            },
            default: index == 0,
            vouched: managed.iter().find(|installed| installed.path == ptxas.path).and_then(|found| found.vouched),
        })
        .collect();
    if format == TextOrJson::Json {
        let list = serde_json::json!({ "schema": "ptxinspect.toolchains/1", "toolchains": rows });
        writeln!(out, "{list:#}")?;
        return Ok(());
    }
    if rows.is_empty() {
        let newest = toolchain::NEWEST_RELEASE;
        writeln!(out, "no ptxas found: `ptxinspect toolchain install {newest}` gets one")?;
        return Ok(());
    }
    let width = output::columns().unwrap_or(usize::MAX);
    for row in rows {
        let mark = if row.default { "*" } else { " " };
        let version = row.version.as_deref().unwrap_or("?");
        let word = if row.vouched == Some(Vouched::Index) { format!("; {UNKNOWN_RELEASE}") } else { String::new() };
        let (path, reason) = (terminal(&row.path), format!("{}{word}", row.reason));
        if 15 + path.chars().count() + reason.chars().count() <= width {
            writeln!(out, "{mark} {version:<10} {path}  {DIM}{reason}{RESET}")?;
            continue;
        }
        // The path stays in one piece, to be copied.
        let head = format!("{mark} {version:<10} ");
        write_wrapped(&format!("{DIM}{reason}{RESET}"), &head, &" ".repeat(head.len()), width, out)?;
        writeln!(out, "  {path}")?;
    }
    writeln!(out, "{DIM}* is what a run without --ptxas takes{RESET}")?;
    Ok(())
}

fn list_available(env: &Env, format: TextOrJson, out: &mut dyn Write) -> Result<()> {
    let versions = Store::available(env, &install_progress(true))?;
    let installed = Store::of(env)?.list();
    if format == TextOrJson::Json {
        writeln!(out, "{:#}", serde_json::json!({ "schema": "ptxinspect.toolchains/1", "available": versions }))?;
        return Ok(());
    }
    for version in versions {
        let state = if installed.iter().any(|toolchain| toolchain.version == version) { "  installed" } else { "" };
        writeln!(out, "{version}{DIM}{state}{RESET}")?;
    }
    Ok(())
}

/// Tells standard error of the ptxas that is installed.
pub const INSTALLING: Installing = || Box::new(install_progress(false));

/// A bar that leaves nothing behind, however an installation ends.
struct Cleared(RefCell<Option<ProgressBar>>);

impl Drop for Cleared {
    fn drop(&mut self) {
        progress::installs(false);
        if let Some(bar) = self.0.get_mut() {
            bar.finish_and_clear();
        }
    }
}

/// Shows an installation: a bar on a terminal, else one line for each phase; nothing when `quiet`.
pub fn install_progress(quiet: bool) -> impl Fn(&Progress) {
    let is_terminal = io::stderr().is_terminal();
    let bar = Cleared(RefCell::new(None));
    move |said| {
        if quiet {
            return;
        }
        let text = match said {
            Progress::Waiting { folder } => format!("waiting for another install in {}", folder.display()),
            Progress::Resolving { requirement, installer } => format!("fetching {requirement} with {installer}"),
            Progress::Downloading { .. } => String::new(),
            Progress::Unpacking { wheel } => format!("unpacking {wheel}"),
            Progress::Checking => "checking".to_owned(),
            Progress::Installed { version, vouched: Vouched::Pinned } => format!("ptxas {version} is installed"),
            Progress::Installed { version, vouched: Vouched::Index } => {
                format!("ptxas {version} is installed, {UNKNOWN_RELEASE}")
            }
        };
        if !is_terminal {
            // A log gets the start and the end, not the bytes in between.
            if matches!(said, Progress::Resolving { .. } | Progress::Installed { .. }) {
                let _ = writeln!(output::errors(), "{}", terminal(&text));
            }
            return;
        }
        progress::installs(!matches!(said, Progress::Installed { .. }));
        let mut bar = bar.0.borrow_mut();
        let bar = bar.get_or_insert_with(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        match said {
            Progress::Downloading { bytes, total } => {
                let template = if total.is_some() {
                    "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}"
                } else {
                    "{spinner} {msg} {bytes} {bytes_per_sec}"
                };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                if let Some(total) = total {
                    bar.set_length(*total);
                }
                bar.set_message("downloading");
                bar.set_position(*bytes);
            }
            Progress::Installed { .. } => bar.finish_and_clear(),
            _ => bar.set_message(terminal(&text).into_owned()),
        }
    }
}
