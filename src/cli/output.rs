//! Where output goes: standard output, or a file that appears whole or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};

use super::args::{ColorWhen, OutputArgs};
use super::streams::{self, Fate, Lasting};
use crate::files::{NewFile, is_descriptor, target};

/// Columns to assume when standard output is no terminal.
const PLAIN_WIDTH: usize = 100;
/// How much is gathered before it is written.
const BUFFER: usize = 1 << 16;

/// How wide a line of text may be.
pub fn width(args: &OutputArgs) -> usize {
    if args.output.is_some() || !io::stdout().is_terminal() {
        return PLAIN_WIDTH;
    }
    let columns = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    columns.clamp(40, 200)
}

/// The terminal's width; none where output is no terminal.
pub fn terminal_width(args: &OutputArgs) -> Option<usize> {
    if args.output.is_some() || !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).max(40))
}

/// Runs `emit` on a writer for the chosen destination. ANSI codes pass only where colour is wanted.
pub fn write(args: &OutputArgs, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let choice = match (args.color, &args.output) {
        (ColorWhen::Auto, None) => AutoStream::choice(&io::stdout()),
        (ColorWhen::Always, _) => ColorChoice::Always,
        (ColorWhen::Auto | ColorWhen::Never, _) => ColorChoice::Never,
    };
    write_as(args, choice, emit)
}

/// The same for a format that has no colour: nothing is looked for in it.
pub fn write_data(args: &OutputArgs, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    write_as(args, ColorChoice::AlwaysAnsi, emit)
}

fn write_as(args: &OutputArgs, choice: ColorChoice, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    match &args.output {
        None => emit_to(streams::raw_stdout(), choice, emit).context("cannot write to standard output"),
        Some(path) => write_file(path, choice, emit),
    }
}

/// Gathers what `emit` writes on both sides of the filter for colours: it passes on what is between two codes, piece by piece.
fn emit_to(
    target: Box<dyn Write>,
    choice: ColorChoice,
    emit: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let target: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, target));
    let mut out = BufWriter::with_capacity(BUFFER, AutoStream::new(target, choice));
    emit(&mut out).and_then(|()| out.flush())
}

/// Writes beside the target and renames, so that a failure leaves the old file as it was.
fn write_file(path: &Path, choice: ColorChoice, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    if is_device(path).with_context(what)? {
        let file = std::fs::OpenOptions::new().write(true).open(path).with_context(what)?;
        let fate = Arc::new(Fate::default());
        emit_to(Box::new(Lasting::new(file, Arc::clone(&fate))), choice, emit).with_context(what)?;
        return fate.take_error().with_context(what);
    }
    let new = NewFile::for_place(path).with_context(what)?;
    let file = new.file().try_clone().with_context(what)?;
    emit_to(Box::new(file), choice, emit).with_context(what)?;
    new.commit().with_context(what)
}

/// A device or a pipe (`/dev/null`, `/dev/stdout`) cannot be replaced by a rename; nor can a file that is only reached by the
/// number under which it is open.
fn is_device(path: &Path) -> io::Result<bool> {
    if is_descriptor(&target(path)?) {
        return Ok(true);
    }
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(!metadata.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
