//! `ptxinspect libfoo.so`: the kernels of everything that holds GPU code, as a table.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};

use super::args::{ReportArgs, ReportFormat};
use super::progress::Progress;
use super::{Outcome, output};
use crate::base::Arch;
use crate::container::{ContainerError, Entry, EntryKind};
use crate::cubin::Image;
use crate::emit;
use crate::emit::library::{JsonLines, Table};
use crate::engine::compile::{self, Session};
use crate::engine::contents::{self, Choice, Choose, KindFilter};
use crate::engine::input;
use crate::engine::input::Input;
use crate::engine::room::Room;
use crate::report::library::{Depth, EntryFacts, JitFacts, Row, SortKey, Summary, rows, sort};
use crate::report::{LaunchHints, demangle};

/// What only concerns libraries, archives, wheels and folders.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct TableArgs {
    /// Sort the table of kernels, the worst first [default: registers]
    #[arg(long, value_name = "KEY", help_heading = "Libraries")]
    pub sort: Option<SortKey>,
    /// Only what the cubins record (registers, stack, shared memory, …): nothing is decoded, and it is many times as fast
    #[arg(long, conflicts_with = "details", help_heading = "Libraries")]
    pub resources: bool,
    /// The full report of each kernel instead of the table
    #[arg(long, help_heading = "Libraries")]
    pub details: bool,
}

impl ValueEnum for SortKey {
    fn value_variants<'a>() -> &'a [Self] {
        use SortKey::*;
        &[Registers, Live, Spills, Stack, Smem, Occupancy, Instructions, Code, Name, Arch, Order]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            SortKey::Registers => ("registers", "Registers, most first"),
            SortKey::Live => ("live", "Live registers, most first"),
            SortKey::Spills => ("spills", "Spill instructions, most first"),
            SortKey::Stack => ("stack", "Stack frame, largest first"),
            SortKey::Smem => ("smem", "Static shared memory, largest first"),
            SortKey::Occupancy => ("occupancy", "Warps per SM, fewest first"),
            SortKey::Instructions => ("instructions", "Instructions, most first"),
            SortKey::Code => ("code", "Size of the code, largest first"),
            SortKey::Name => ("name", "By name"),
            SortKey::Arch => ("arch", "By architecture"),
            SortKey::Order => ("order", "As the container has it"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// A key in the words of the table's title.
fn word(key: SortKey) -> &'static str {
    match key {
        SortKey::Registers => "registers",
        SortKey::Live => "live registers",
        SortKey::Spills => "spills",
        SortKey::Stack => "stack",
        SortKey::Smem => "shared memory",
        SortKey::Occupancy => "warps per SM",
        SortKey::Instructions => "instructions",
        SortKey::Code => "code size",
        SortKey::Name => "name",
        SortKey::Arch => "architecture",
        SortKey::Order => "place",
    }
}

/// Rows of text that are shown when nobody says how many.
const ROWS: usize = 30;
/// Rows beyond what is shown that may wait before they are sorted away.
const SLACK: usize = 1_000;

/// Whether the arguments ask for a table: something is a container, or only a table has what they ask for.
pub fn wants_table(args: &ReportArgs) -> Result<bool> {
    let asked = args.table.sort.is_some()
        || args.table.resources
        || matches!(args.format, ReportFormat::Jsonl | ReportFormat::Csv | ReportFormat::Markdown);
    if args.table.details {
        return Ok(false);
    }
    let limits = args.compile.limits.limits()?;
    let mut any = asked;
    for path in &args.compile.inputs {
        any |= input::is_container(path, &limits)?;
    }
    Ok(any)
}

/// What an entry came to.
enum Found {
    /// A cubin, or what ptxas made of a PTX text.
    Cubin(EntryFacts, Vec<Row>),
    /// PTX that nobody asked to compile.
    Ptx,
    /// Something that cannot be analysed.
    Other,
    /// Something that could not be read.
    Failed(String, String),
}

/// Reads every cubin, writes the table.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    if !args.deny.is_empty() {
        bail!("--deny speaks of single kernels: add --details to hold it against a library's");
    }
    let session = args.compile.session()?;
    let choice = choice(args)?;
    let launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic };
    let depth = if args.table.resources { Depth::Resources } else { Depth::Full };
    let names = matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Csv);
    let room = Room::for_input(choice.bytes_ahead());
    let look = |entry: &Entry| {
        let found =
            look(entry, &Looking { args, session: &session, choice: &choice, launch, depth, room: &room, names });
        (!found.is_empty()).then_some(found)
    };
    let inputs: Vec<String> = args.compile.inputs.iter().map(|path| path.display().to_string()).collect();
    let mut collected = Collected::new(args);
    if args.format == ReportFormat::Jsonl && args.table.sort.is_none() && args.top.is_none() {
        output::write(&args.output, args.format, |out| {
            let mut lines = JsonLines::start(&inputs, out)?;
            visit(args, &choice, look, |found| {
                if let Found::Cubin(entry, rows) = &found {
                    lines.entry(entry)?;
                    rows.iter().try_for_each(|row| lines.row(row))?;
                }
                if let Found::Failed(path, message) = &found {
                    lines.failure(&crate::report::library::Failure { path: path.clone(), message: message.clone() })?;
                }
                collected.count(&found);
                Ok(())
            })?;
            collected.summary.finish();
            lines.finish(&collected.summary)
        })?;
    } else {
        visit(args, &choice, look, |found| {
            collected.count(&found);
            if let Found::Cubin(entry, rows) = found {
                collected.keep(entry, rows);
            }
            Ok(())
        })?;
        collected.finish();
        write(args, &inputs, &collected)?;
    }
    conclude(args, &choice, &collected.summary)
}

fn visit(
    args: &ReportArgs,
    choice: &Choice,
    look: impl Fn(&Entry) -> Option<Vec<Found>> + Sync,
    mut take: impl FnMut(Found) -> io::Result<()>,
) -> io::Result<()> {
    let progress = Progress::of_bytes(args.output.quiet);
    let take = |result: Result<Vec<Found>, ContainerError>| {
        match result {
            Ok(found) => found.into_iter().try_for_each(&mut take)?,
            Err(error) => take(Found::Failed(error.path.clone(), error.problem.to_string()))?,
        }
        Ok(())
    };
    choice.visit(look, take, &progress).map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => error,
        Err(error) => io::Error::other(error),
    })
}

fn choice(args: &ReportArgs) -> Result<Choice> {
    let settings = args.compile.settings()?;
    let mut choice = Choice::new(&Choose {
        inputs: settings.inputs,
        kind: KindFilter::All,
        arch: settings.arch,
        kernel: settings.kernel,
        within: settings.within,
        jobs: settings.jobs,
        limits: settings.limits,
    })?;
    // PTX has no architecture yet: it is compiled for those that were asked for.
    choice.any_ptx = true;
    Ok(choice)
}

/// What it takes to look at an entry.
struct Looking<'a> {
    args: &'a ReportArgs,
    session: &'a Session,
    choice: &'a Choice,
    launch: LaunchHints,
    depth: Depth,
    room: &'a Room,
    /// Whether names are shown as their language spells them, all of them.
    names: bool,
}

fn look(entry: &Entry, with: &Looking<'_>) -> Vec<Found> {
    let failed = |message: String| vec![Found::Failed(entry.path.clone(), message)];
    match entry.kind {
        EntryKind::Cubin => {
            let looked = match with.depth {
                Depth::Full => entry.with_bytes(|bytes| Image::parse(bytes).map(|image| with.image(entry, &image))),
                Depth::Resources => {
                    let _taken = with.room.take(entry.bytes_in_memory());
                    entry.with_bytes(|bytes| Image::parse_resources(bytes).map(|image| with.image(entry, &image)))
                }
            };
            match looked {
                Err(error) => failed(error.problem.to_string()),
                Ok(Err(error)) => failed(error.to_string()),
                Ok(Ok(found)) => found,
            }
        }
        EntryKind::Ptx => {
            // Its cubin lies beside it, and says more.
            if entry.jit.as_ref().is_some_and(|jit| jit.companion.is_some()) && !with.args.compile.within.compile {
                return Vec::new();
            }
            let named = |input: &PathBuf| match input.as_os_str() {
                input if input == "-" => entry.path == input::STDIN_NAME,
                input => input == entry.path.as_str(),
            };
            let named = with.args.compile.inputs.iter().any(named);
            if !with.args.compile.within.compile && !named {
                return vec![Found::Ptx];
            }
            match entry.read() {
                Err(error) => failed(error.problem.to_string()),
                Ok(bytes) => with.compile(&entry.path, bytes.into_owned()),
            }
        }
        EntryKind::LtoIr | EntryKind::TileIr | EntryKind::Other(_) => vec![Found::Other],
    }
}

impl Looking<'_> {
    fn image(&self, entry: &Entry, image: &Image<'_>) -> Vec<Found> {
        let arch = contents::arch(entry, Some(image));
        if !self.choice.wants_arch(arch) {
            return Vec::new();
        }
        let mut found = self.rows(image, &entry.path, arch);
        if let (Some(jit), [Found::Cubin(facts, _)]) = (&entry.jit, found.as_mut_slice()) {
            facts.jit =
                Some(JitFacts { kernel: jit.kernel.clone(), ptx: jit.companion.clone(), options: jit.options.clone() });
        }
        found
    }

    fn rows(&self, image: &Image<'_>, path: &str, arch: Option<Arch>) -> Vec<Found> {
        let kernels = &self.choice.kernels;
        let wanted =
            |name: &str| kernels.is_empty() || kernels.matches([name]) || kernels.matches(demangle(name).as_deref());
        let arch = arch.unwrap_or(image.arch).to_string();
        let (entry, mut rows) = rows(image, path, &arch, self.depth, self.launch, &wanted);
        if rows.is_empty() && !kernels.is_empty() {
            return Vec::new();
        }
        if self.names {
            for row in &mut rows {
                row.demangled = demangle(&row.name);
            }
        }
        vec![Found::Cubin(entry, rows)]
    }

    /// Compiles a PTX text for every architecture that was asked for.
    fn compile(&self, path: &str, bytes: Vec<u8>) -> Vec<Found> {
        let input = Ok(Input { name: path.to_owned(), bytes, companion: None });
        let place = PathBuf::from(path);
        let mut found = Vec::new();
        for (at, arch) in self.session.arches().into_iter().enumerate() {
            let Some((unit, built)) = compile::build(self.session, &input, &place, arch, at == 0) else { continue };
            let image = built.as_ref().map(|built| Image::parse(&built.cubin));
            match (image, unit.error) {
                (Some(Ok(image)), _) => {
                    let arch = unit.arch.as_deref().and_then(|arch| arch.parse().ok());
                    found.extend(self.rows(&image, path, arch));
                }
                (Some(Err(error)), _) => found.push(Found::Failed(path.to_owned(), error.to_string())),
                (None, error) => {
                    let first = |error: crate::report::UnitError| {
                        let first = error.diagnostics.first().map(|first| format!(": {}", first.message));
                        format!("{}{}", error.message, first.unwrap_or_default())
                    };
                    let message = error.map_or_else(|| "it cannot be compiled".to_owned(), first);
                    found.push(Found::Failed(path.to_owned(), message));
                }
            }
        }
        found
    }
}

/// Rows that will be shown, and sums of all.
struct Collected {
    entries: Vec<EntryFacts>,
    rows: Vec<Row>,
    total: u64,
    summary: Summary,
    sort: SortKey,
    top: Option<usize>,
    keeps_entries: bool,
}

impl Collected {
    fn new(args: &ReportArgs) -> Self {
        // People look at a screenful, programs at everything.
        let all =
            matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Csv | ReportFormat::Html);
        let default = if all { SortKey::Order } else { SortKey::Registers };
        Collected {
            entries: Vec::new(),
            rows: Vec::new(),
            total: 0,
            summary: Summary::default(),
            sort: args.table.sort.unwrap_or(default),
            top: args.top.or((!all).then_some(ROWS)).filter(|&top| top > 0),
            keeps_entries: matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl),
        }
    }

    fn count(&mut self, found: &Found) {
        match found {
            Found::Cubin(entry, rows) => self.summary.count(entry, rows),
            Found::Ptx => self.summary.ptx_not_compiled += 1,
            Found::Other => self.summary.others += 1,
            Found::Failed(path, message) => self.summary.fail(path, message),
        }
    }

    fn keep(&mut self, entry: EntryFacts, rows: Vec<Row>) {
        self.total += rows.len() as u64;
        self.rows.extend(rows);
        if self.keeps_entries {
            self.entries.push(entry);
        }
        // Rows that will not be shown do not pile up.
        if let Some(top) = self.top
            && self.rows.len() > top.saturating_add(SLACK)
        {
            self.cut(top);
        }
    }

    fn cut(&mut self, top: usize) {
        sort(&mut self.rows, self.sort, top);
    }

    fn finish(&mut self) {
        self.cut(self.top.unwrap_or(usize::MAX));
        self.summary.finish();
    }
}

fn write(args: &ReportArgs, inputs: &[String], collected: &Collected) -> Result<()> {
    let table = Table {
        inputs,
        entries: &collected.entries,
        rows: &collected.rows,
        total_rows: collected.total,
        summary: &collected.summary,
        sorted_by: word(collected.sort),
        full: !args.table.resources,
        width: output::width(&args.output),
        verbose: args.output.verbose,
    };
    match args.format {
        ReportFormat::Text => output::write(&args.output, args.format, |out| emit::library::write_text(&table, out)),
        ReportFormat::Json => output::write(&args.output, args.format, |out| emit::library::write_json(&table, out)),
        ReportFormat::Jsonl => output::write(&args.output, args.format, |out| {
            let mut lines = JsonLines::start(inputs, out)?;
            table.entries.iter().try_for_each(|entry| lines.entry(entry))?;
            table.rows.iter().try_for_each(|row| lines.row(row))?;
            table.summary.errors.iter().try_for_each(|failure| lines.failure(failure))?;
            lines.finish(table.summary)
        }),
        ReportFormat::Csv => output::write(&args.output, args.format, |out| emit::library::write_csv(&table, out)),
        ReportFormat::Markdown => {
            output::write(&args.output, args.format, |out| emit::library::write_markdown(&table, out))
        }
        ReportFormat::Html => output::write(&args.output, args.format, |out| emit::library::write_html(&table, out)),
    }
}

/// Says what could not be read, and how it ended.
fn conclude(args: &ReportArgs, choice: &Choice, summary: &Summary) -> Result<Outcome> {
    let mut errors = output::errors();
    for failure in &summary.errors {
        emit::text::write_error(&format!("{}: {}", failure.path, failure.message), &mut errors)?;
    }
    errors.flush()?;
    if !summary.errors.is_empty() {
        return Ok(Outcome::Failed);
    }
    if summary.cubins == 0 {
        let inputs: Vec<String> = args.compile.inputs.iter().map(|path| path.display().to_string()).collect();
        let inputs = inputs.join(", ");
        if !args.compile.kernel.is_empty() {
            bail!("--kernel {} matches no kernel in {inputs}", args.compile.kernel.join(", "));
        }
        let compile = if summary.ptx_not_compiled > 0 { "; --compile compiles the PTX inside" } else { "" };
        if !choice.is_everything() {
            bail!("no cubin that was asked for is in {inputs}: `ptxinspect list` says what is{compile}");
        }
        if summary.ptx_not_compiled > 0 {
            bail!("{inputs} holds no cubin{compile}");
        }
        if summary.others > 0 {
            bail!("{inputs} holds LTO-IR alone, which cannot be analysed");
        }
        bail!("there is no GPU code in {inputs}");
    }
    Ok(Outcome::Fine)
}
