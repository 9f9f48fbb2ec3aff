//! Where output goes: standard output, or a file that appears whole or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};

use super::args::{ColorWhen, OutputArgs};
use super::streams::{self, Fate, Lasting};
use crate::emit::clean::{Clean, Form};
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

/// How wide a line may be of a command that always writes to standard output: 80 columns where that is no terminal.
pub fn stdout_width() -> usize {
    let columns = terminal_size::terminal_size().filter(|_| io::stdout().is_terminal());
    columns.map_or(80, |(width, _)| usize::from(width.0)).clamp(40, 100)
}

/// The terminal's width; none where output is no terminal.
pub fn terminal_width(args: &OutputArgs) -> Option<usize> {
    if args.output.is_some() || !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).max(40))
}

/// Standard error, for what a command says beside its output.
pub fn errors() -> Clean<AutoStream<Box<dyn Write>>> {
    Clean::new(Form::Text, streams::stderr())
}

/// Standard output, for a command that writes nowhere else.
pub fn stdout(form: impl Into<Form>) -> Clean<AutoStream<Box<dyn Write>>> {
    let form = form.into();
    // Where there are no colours nothing looks for them.
    let colour = if form == Form::Text { AutoStream::choice(&io::stdout()) } else { ColorChoice::AlwaysAnsi };
    Clean::new(form, AutoStream::new(streams::raw_stdout(), colour))
}

/// What a format is written in, and whether colours pass: in text alone, and only where they are wanted.
#[derive(Clone, Copy)]
struct Filter {
    form: Form,
    colour: ColorChoice,
}

/// Runs `emit` on a writer for the chosen destination. The format says in which form everything leaves.
pub fn write(
    args: &OutputArgs,
    format: impl Into<Form>,
    emit: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let form = format.into();
    let colour = match (form, args.color, &args.output) {
        // There is nothing to take out.
        (Form::Plain | Form::Commands | Form::Json, _, _) => ColorChoice::AlwaysAnsi,
        (Form::Text, ColorWhen::Auto, None) => AutoStream::choice(&io::stdout()),
        (Form::Text, ColorWhen::Always, _) => ColorChoice::Always,
        (Form::Text, ColorWhen::Auto | ColorWhen::Never, _) => ColorChoice::Never,
    };
    let filter = Filter { form, colour };
    match &args.output {
        None if form == Form::Text && io::stdout().is_terminal() => {
            let mut gathered = Gathered::default();
            emit_to(Box::new(gathered.clone()), filter, emit).context("cannot write to standard output")?;
            let text = gathered.take();
            if !super::pager::show(&text) {
                streams::raw_stdout().write_all(&text).context("cannot write to standard output")?;
            }
            Ok(())
        }
        None => emit_to(streams::raw_stdout(), filter, emit).context("cannot write to standard output"),
        Some(path) => write_file(path, filter, emit),
    }
}

/// All that is written, for whoever shows it at once.
#[derive(Clone, Default)]
struct Gathered(Arc<Mutex<Vec<u8>>>);

impl Gathered {
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gathers what `emit` writes on both sides of the filters: they pass on what is between two codes, piece by piece.
fn emit_to(
    target: Box<dyn Write>,
    filter: Filter,
    emit: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let target: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, target));
    let clean = Clean::new(filter.form, AutoStream::new(target, filter.colour));
    let mut out = BufWriter::with_capacity(BUFFER, clean);
    emit(&mut out).and_then(|()| out.flush())
}

/// Writes beside the target and renames, so that a failure leaves the old file as it was.
fn write_file(path: &Path, filter: Filter, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    if is_device(path).with_context(what)? {
        let file = std::fs::OpenOptions::new().write(true).open(path).with_context(what)?;
        let fate = Arc::new(Fate::default());
        emit_to(Box::new(Lasting::new(file, Arc::clone(&fate))), filter, emit).with_context(what)?;
        return fate.take_error().with_context(what);
    }
    let new = NewFile::for_place(path).with_context(what)?;
    let file = new.file().try_clone().with_context(what)?;
    emit_to(Box::new(file), filter, emit).with_context(what)?;
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
