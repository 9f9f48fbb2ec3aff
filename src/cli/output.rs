//! Where output goes: standard output, or a file that appears whole or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result, bail};

use super::args::{ColorWhen, OutputArgs, When};
use super::streams::{self, Fate, Lasting};
use crate::emit;
use crate::emit::clean::{Clean, Form};
use crate::emit::links::{self, Links};
use crate::files::{NewFile, is_descriptor, target};

/// Columns to assume when standard output is no terminal.
const PLAIN_WIDTH: usize = 100;
/// How much is gathered before it is written.
const BUFFER: usize = 1 << 16;

/// The narrowest that text is made for.
const NARROWEST: usize = 40;

/// How wide a line of text may be.
pub fn width(args: &OutputArgs) -> usize {
    terminal_width(args).map_or(PLAIN_WIDTH, |columns| columns.min(200))
}

/// How wide a line may be of a command that always writes to standard output: 80 columns where that is no terminal.
pub fn stdout_width() -> usize {
    columns().unwrap_or(80).clamp(NARROWEST, 100)
}

/// The terminal's width, or what `PTXINSPECT_COLUMNS` says of whoever reads a pipe; none where nobody says.
pub fn terminal_width(args: &OutputArgs) -> Option<usize> {
    if args.output.is_some() { None } else { columns().map(|columns| columns.max(NARROWEST)) }
}

/// The columns of standard output; none where nobody says.
pub fn columns() -> Option<usize> {
    if io::stdout().is_terminal() {
        return Some(terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)));
    }
    std::env::var("PTXINSPECT_COLUMNS").ok()?.parse().ok()
}

/// Standard error, for what a command says beside its output, in lines no wider than it.
pub fn errors() -> Wrapped<Clean<AutoStream<Box<dyn Write>>>> {
    Wrapped::new(Clean::new(Form::Text, streams::stderr()))
}

/// The columns of standard error; none where nobody says: whoever looks for a message in a log finds it on one line.
fn error_columns() -> Option<usize> {
    let columns = match io::stderr().is_terminal() {
        true => Some(terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0))),
        false => std::env::var("PTXINSPECT_COLUMNS").ok()?.parse().ok(),
    };
    columns.map(|columns| columns.max(NARROWEST))
}

/// A writer that cuts lines at spaces where they are wider than standard error.
pub struct Wrapped<W: Write> {
    inner: W,
    width: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> Wrapped<W> {
    /// As wide as standard error.
    pub fn new(inner: W) -> Self {
        Wrapped { inner, width: error_columns(), line: Vec::new() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = std::str::from_utf8(&line).ok().and_then(|text| text.strip_suffix('\n'));
        let (Some(text), Some(width)) = (text, self.width) else { return self.inner.write_all(&line) };
        let body = text.trim_start_matches(' ');
        let indent = text.len() - body.len();
        let lines = emit::text::wrap(body, width.saturating_sub(indent + 2).max(NARROWEST / 2));
        // What fits into the columns as it is stays as it is.
        if lines.len() < 2 || emit::text::wrap(body, width.saturating_sub(indent)).len() < 2 {
            return self.inner.write_all(&line);
        }
        for (at, part) in lines.iter().enumerate() {
            let indent = if at == 0 { indent } else { indent + 2 };
            writeln!(self.inner, "{:indent$}{part}", "")?;
        }
        Ok(())
    }
}

impl<W: Write> Write for Wrapped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.inner.flush()
    }
}

impl<W: Write> Drop for Wrapped<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
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
struct Filter<'l> {
    form: Form,
    colour: ColorChoice,
    links: Option<&'l Links>,
}

/// Links to these files, by the names that output calls them by, where the terminal knows links or they are wanted in any case.
pub fn links<'f>(args: &OutputArgs, files: impl Iterator<Item = (&'f str, PathBuf)>) -> Option<Links> {
    let is_wanted = match args.hyperlinks {
        When::Always => true,
        When::Never => false,
        When::Auto => args.output.is_none() && io::stdout().is_terminal() && knows_links(),
    };
    let format = std::env::var(HYPERLINK_FORMAT).ok().filter(|format| format.contains("{path}"));
    let absolute = |(name, path): (&str, PathBuf)| {
        let path = std::path::absolute(path).ok().filter(|path| path.is_file())?;
        Some((name.to_owned(), path))
    };
    let is_plain = |format: &String| format.bytes().all(|byte| byte.is_ascii_graphic());
    let format = format.filter(is_plain).unwrap_or_else(|| links::FILE.to_owned());
    is_wanted.then(|| Links::new(&format, files.filter_map(absolute).collect()))
}

/// The variable with the form of links.
const HYPERLINK_FORMAT: &str = "PTXINSPECT_HYPERLINK_FORMAT";

/// Whether the terminal says that it is one of those that know links.
fn knows_links() -> bool {
    const PROGRAMS: [&str; 8] = ["iTerm.app", "vscode", "WezTerm", "ghostty", "Hyper", "rio", "Tabby", "mintty"];
    const TERMS: [&str; 5] = ["kitty", "alacritty", "foot", "ghostty", "wezterm"];
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let (program, term) = (var("TERM_PROGRAM"), var("TERM"));
    let vte: u32 = var("VTE_VERSION").parse().unwrap_or(0);
    PROGRAMS.contains(&program.as_str())
        || TERMS.iter().any(|name| term.contains(name))
        // VTE 0.50 is the first that has them.
        || vte >= 5000
        || !var("WT_SESSION").is_empty()
        || !var("KONSOLE_VERSION").is_empty()
}

/// Refuses to write over what is read.
pub fn refuse_input(args: &OutputArgs, inputs: &[PathBuf]) -> Result<()> {
    let Some(output) = &args.output else { return Ok(()) };
    let Ok(place) = output.canonicalize() else { return Ok(()) };
    let is_file = place.is_file();
    match inputs.iter().find(|input| is_file && input.canonicalize().is_ok_and(|input| input == place)) {
        Some(input) => {
            bail!("-o {} would overwrite the input {}: name another file", output.display(), input.display())
        }
        None => Ok(()),
    }
}

/// Runs `emit` on a writer for the chosen destination. The format says in which form everything leaves.
pub fn write(
    args: &OutputArgs,
    format: impl Into<Form>,
    emit: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    write_linked(args, format, None, emit)
}

/// The same, with links to files.
pub fn write_linked(
    args: &OutputArgs,
    format: impl Into<Form>,
    links: Option<&Links>,
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
    let filter = Filter { form, colour, links };
    match &args.output {
        None if form == Form::Text && io::stdout().is_terminal() => {
            let mut gathered = Gathered::default();
            emit_to(Box::new(gathered.clone()), filter, emit).context("cannot write to standard output")?;
            let text = gathered.take();
            // Not every pager knows links.
            let paged = if args.hyperlinks == When::Auto { links::without(&text) } else { text.clone() };
            if !super::pager::show(&paged) {
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
    filter: Filter<'_>,
    emit: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let target: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, target));
    // Colours are ours and known: whoever looks for what must not leave leaves them out, too. Links are the stream's to take away.
    let clean = match filter.colour {
        ColorChoice::Never if filter.links.is_none() => Clean::new(filter.form, target).without_colours(),
        colour => {
            let target: Box<dyn Write> = Box::new(AutoStream::new(target, colour));
            Clean::new(filter.form, target).with_links(filter.links)
        }
    };
    let mut out = BufWriter::with_capacity(BUFFER, clean);
    emit(&mut out).and_then(|()| out.flush())
}

/// Writes beside the target and renames, so that a failure leaves the old file as it was.
fn write_file(path: &Path, filter: Filter<'_>, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    if is_device(path).with_context(what)? {
        let file = std::fs::OpenOptions::new().write(true).open(path).with_context(what)?;
        let fate = Arc::new(Fate::default());
        emit_to(Box::new(Lasting::new(file, Arc::clone(&fate))), filter, emit).with_context(what)?;
        return fate.take_error().with_context(what);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        bail!("cannot write {}: there is no folder {}; make it first", path.display(), folder.display());
    }
    // The name that it has until then is nobody's.
    let new = NewFile::for_place(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("{}: its folder cannot be written to; name another place", what())
        }
        _ => anyhow::Error::from(error).context(what()),
    })?;
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
