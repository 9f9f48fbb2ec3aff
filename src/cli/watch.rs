//! `--watch`: the same again whenever an input changes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::OutputArgs;
use super::{Outcome, output};

/// How often the inputs are looked at.
const STEP: Duration = Duration::from_millis(300);

/// What tells that an input is another: times, sizes and names, of everything in a folder; none where it is not there.
type Stamp = Option<u64>;

/// Files of a folder that are looked at.
const MOST_FILES: usize = 20_000;

fn stamps(inputs: &[PathBuf], output: Option<&Path>) -> Vec<Stamp> {
    inputs.iter().map(|path| stamp(path, output)).collect()
}

/// `output` is not looked at: it changes with every run.
fn stamp(path: &Path, output: Option<&Path>) -> Stamp {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let output = output.and_then(absolute);
    let mut seen = DefaultHasher::new();
    let mut ahead = vec![(path.to_path_buf(), std::fs::metadata(path).ok()?)];
    let mut left = MOST_FILES;
    while let Some((path, metadata)) = ahead.pop() {
        left = left.saturating_sub(1);
        let is_output = output.is_some() && absolute(&path) == output;
        // A folder is what is in it: its own time is that of any change inside.
        match metadata.is_dir() {
            true => path.hash(&mut seen),
            false if is_output => {}
            false => (&path, metadata.modified().ok(), metadata.len()).hash(&mut seen),
        }
        // Links inside are what they are: nobody is led elsewhere, or round in a circle.
        if metadata.is_dir() && left > 0 {
            let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
            ahead.extend(inside.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))));
            ahead.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
    }
    Some(seen.finish())
}

/// Runs a command; with `--watch` again after every change of its inputs, until it is interrupted. What goes wrong is said, and waited over.
pub fn run(args: &OutputArgs, inputs: &[PathBuf], mut command: impl FnMut() -> Result<Outcome>) -> Result<Outcome> {
    output::refuse_input(args, inputs)?;
    if !args.watch {
        return command();
    }
    if inputs.iter().any(|path| path.as_os_str() == "-") {
        bail!("--watch cannot watch standard input: name a file");
    }
    if inputs.is_empty() {
        bail!("--watch needs an input to watch: name a file or folder");
    }
    let output = args.output.as_deref();
    loop {
        let seen = stamps(inputs, output);
        if let Err(error) = command() {
            super::fail(&error);
        }
        writeln!(super::output::errors(), "watching {} for changes; Ctrl-C ends it", names(inputs))?;
        let mut now = stamps(inputs, output);
        // A file that is being written changes again and again: it is read when it has come to rest.
        loop {
            std::thread::sleep(STEP);
            let next = stamps(inputs, output);
            if next != seen && next == now && next.iter().all(Option::is_some) {
                break;
            }
            now = next;
        }
        writeln!(super::output::errors())?;
    }
}

fn names(inputs: &[PathBuf]) -> String {
    match inputs {
        [only] => only.display().to_string(),
        several => format!("{} inputs", several.len()),
    }
}
