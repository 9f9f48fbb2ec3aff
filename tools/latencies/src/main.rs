//! `latencies PATH…` mines, `latencies --check PATH…` checks: the fewest cycles that ptxas leaves between instructions that depend on each
//! other, by kind. A path is a cubin, a library, a wheel or a folder of them.
//!
//! What is mined is printed as `src/cost/latencies.txt` has it: what it was mined from, and a row for two kinds that were seen often enough, for
//! a kind and a pipe, and for two pipes; a row that says no more than a wider one is left out.
//! Exit: 0 printed, or no hazard; 1 a hazard; 2 something could not be read.

mod check;
mod mine;

use std::path::Path;
use std::process::ExitCode;

use ptxinspect::base::Arch;
use ptxinspect::container::{Container, ContainerError, Entry, EntryKind, Options};
use ptxinspect::cubin::{Function, Image};
use ptxinspect::registers::code::{Code, Counting};
use rayon::prelude::*;

/// What is told of one function after the other, and of all of them together.
trait Tally: Default + Send {
    /// Adds a function of a cubin.
    fn add(&mut self, arch: Arch, path: &str, function: &Function<'_>, code: &Code);
    /// Adds what was told of others.
    fn merge(&mut self, other: Self);
}

/// What is told of a cubin; what is wrong with it where it cannot be read.
fn of_entry<T: Tally>(entry: &Entry) -> Result<T, String> {
    let mut tally = T::default();
    let look = |bytes: &[u8]| -> Result<(), String> {
        let image = Image::parse(bytes).map_err(|error| format!("{}: {error}", entry.path))?;
        for function in &image.functions {
            if let Some(code) = Code::analyse(image.arch, function, &Counting::default()) {
                tally.add(image.arch, &entry.path, function, &code);
            }
        }
        Ok(())
    };
    entry.with_bytes(look).map_err(|error| error.to_string())??;
    entry.release();
    Ok(tally)
}

/// What is told of all cubins, and what could not be read.
fn of_all<T: Tally>(paths: &[String]) -> (T, Vec<String>) {
    let entries = paths.iter().flat_map(|path| Container::open(Path::new(path), Options::default()).entries());
    let one = |entry: Result<Entry, ContainerError>| -> (T, Vec<String>) {
        let told = match entry {
            Ok(entry) if entry.kind != EntryKind::Cubin || entry.obfuscated => return Default::default(),
            Ok(entry) => of_entry(&entry),
            Err(error) => Err(format!("{error}")),
        };
        told.map_or_else(|wrong| (T::default(), vec![wrong]), |tally| (tally, Vec::new()))
    };
    let both = |mut all: (T, Vec<String>), other: (T, Vec<String>)| {
        all.0.merge(other.0);
        all.1.extend(other.1);
        all
    };
    let (tally, mut wrong) = entries.par_bridge().map(one).reduce(Default::default, both);
    wrong.sort();
    (tally, wrong)
}

fn main() -> ExitCode {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let is_check = paths.first().is_some_and(|first| first == "--check");
    paths.drain(..usize::from(is_check));
    if paths.is_empty() || paths.iter().any(|path| path.starts_with('-')) {
        eprintln!("usage: latencies [--check] PATH…");
        return ExitCode::from(2);
    }
    let (code, wrong) = if is_check {
        let (found, wrong) = of_all::<check::Checked>(&paths);
        found.print();
        (ExitCode::from(u8::from(found.has_hazards())), wrong)
    } else {
        let (found, wrong) = of_all::<mine::Mined>(&paths);
        print!("{}", found.text(&paths));
        (ExitCode::SUCCESS, wrong)
    };
    wrong.iter().for_each(|wrong| eprintln!("latencies: {wrong}"));
    if wrong.is_empty() { code } else { ExitCode::from(2) }
}
