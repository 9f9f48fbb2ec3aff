//! `--watch`: the same again whenever an input changes.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};

use super::{Outcome, output};

/// How often the inputs are looked at.
const STEP: Duration = Duration::from_millis(300);

/// What tells that a file is another: its time and its size; none where it is not there.
type Stamp = Option<(SystemTime, u64)>;

fn stamps(inputs: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    inputs.iter().map(stamp).collect()
}

/// Runs a command now and after every change of its inputs, until it is interrupted. What goes wrong is said, and waited over.
pub fn run(inputs: &[PathBuf], mut command: impl FnMut() -> Result<Outcome>) -> Result<Outcome> {
    if inputs.iter().any(|path| path.as_os_str() == "-") {
        bail!("--watch cannot watch standard input: name a file");
    }
    loop {
        let seen = stamps(inputs);
        if let Err(error) = command() {
            super::fail(&error);
        }
        writeln!(output::errors(), "watching {} for changes; Ctrl-C ends it", names(inputs))?;
        let mut now = stamps(inputs);
        // A file that is being written changes again and again: it is read when it has come to rest.
        loop {
            std::thread::sleep(STEP);
            let next = stamps(inputs);
            if next != seen && next == now && next.iter().all(Option::is_some) {
                break;
            }
            now = next;
        }
        writeln!(output::errors())?;
    }
}

fn names(inputs: &[PathBuf]) -> String {
    match inputs {
        [only] => only.display().to_string(),
        several => format!("{} inputs", several.len()),
    }
}
