//! `ptxinspect libfoo.so`: the kernels of everything that holds GPU code, as a table.

use std::io::Write;

use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};

use super::args::{ReportArgs, ReportFormat};
use super::progress::Progress;
use super::{Outcome, output};
use crate::emit;
use crate::emit::library::{JsonLines, Table};
use crate::engine::library::{Collected, Found, Library, Request};
use crate::engine::source;
use crate::engine::{foreign, input};
use crate::report::library::{Depth, Failure, SortKey, Summary};
use crate::report::{Effort, LaunchHints};

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
        &[Registers, Live, Spills, Stack, Smem, Findings, Occupancy, Instructions, Code, Name, Arch, Order]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            SortKey::Registers => ("registers", "Registers, most first"),
            SortKey::Live => ("live", "Live registers, most first"),
            SortKey::Spills => ("spills", "Spill instructions, most first"),
            SortKey::Stack => ("stack", "Stack frame, largest first"),
            SortKey::Smem => ("smem", "Shared memory of a block, largest first"),
            SortKey::Findings => ("findings", "Findings of the checks and of ptxas, the worst first"),
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
        SortKey::Findings => "findings",
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

/// PTX texts of a folder that are compiled though nobody asked for it: each is kept open.
const COMPILED: usize = 20_000;

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

/// Reads every cubin, writes the table.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    if !args.deny.is_empty() {
        bail!("--deny speaks of single kernels: add --details to hold it against a library's");
    }
    if args.try_step {
        bail!("--try-step speaks of single kernels: add --details, and --kernel to choose some");
    }
    let find = source::Finder::new(args.source_root.as_deref())?;
    let settings = args.compile.settings()?;
    let request = Request {
        session: args.compile.session()?,
        launch: LaunchHints {
            threads: args.threads,
            smem_dynamic_bytes: args.smem_dynamic,
            effort: Effort::of(args.thorough),
        },
        depth: if args.table.resources { Depth::Resources } else { Depth::Full },
        names: matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Csv),
        settings: settings.clone(),
    };
    let library = Library::new(request)?;
    let inputs: Vec<String> = args.compile.inputs.iter().map(|path| path.display().to_string()).collect();
    // People look at a screenful, programs at everything.
    let all = matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Csv | ReportFormat::Html);
    let is_data = all && args.format != ReportFormat::Html;
    let default = if is_data { SortKey::Order } else { SortKey::Registers };
    let sort = args.table.sort.unwrap_or(default);
    let top = args.top.or((!all).then_some(ROWS)).filter(|&top| top > 0);
    let mut collected = Collected::new(
        sort,
        top,
        matches!(args.format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Html | ReportFormat::Text),
    )
    .folded(!is_data && !args.output.verbose);
    if args.format == ReportFormat::Jsonl && args.table.sort.is_none() && args.top.is_none() {
        output::write(&args.output, args.format, |out| {
            let mut lines = JsonLines::start(&inputs, out)?;
            library.visit(&Progress::of_bytes(args.output.quiet), |found| {
                if let Found::Cubin(entry, rows) = &found {
                    lines.entry(entry)?;
                    rows.iter().try_for_each(|row| lines.row(row))?;
                }
                if let Found::Failed(path, message) = &found {
                    lines.failure(&Failure { path: path.clone(), message: message.clone() })?;
                }
                collected.count(&found);
                Ok(())
            })?;
            collected.summary.finish();
            lines.finish(&collected.summary)
        })?;
    } else {
        let folders = args.compile.inputs.iter().all(|path| path.is_dir());
        let mut left = Vec::new();
        library.visit(&Progress::of_bytes(args.output.quiet), |found| {
            collected.count(&found);
            match found {
                Found::Cubin(entry, rows) => collected.keep(entry, rows),
                Found::Ptx(entry) if folders && left.len() < COMPILED && collected.summary.cubins == 0 => {
                    left.push(*entry);
                }
                _ => {}
            }
            Ok(())
        })?;
        // A folder of PTX alone has nothing else to show.
        let all_left = collected.summary.ptx_not_compiled == left.len() as u64;
        if collected.summary.cubins == 0 && all_left && collected.summary.errors.is_empty() {
            collected.summary.ptx_not_compiled = 0;
            for found in library.compile_all(&left, &Progress::new("compiling", args.output.quiet)) {
                collected.count(&found);
                if let Found::Cubin(entry, rows) = found {
                    collected.keep(entry, rows);
                }
            }
        }
        collected.finish();
        write(args, &library, &inputs, &collected, find)?;
    }
    conclude(args, &library, &collected.summary)
}

fn write(
    args: &ReportArgs,
    library: &Library,
    inputs: &[String],
    collected: &Collected,
    mut find: source::Finder,
) -> Result<()> {
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
        ReportFormat::Html => {
            let mut pages = library.pages(&collected.rows, &Progress::new("reading the code", args.output.quiet))?;
            pages.iter_mut().for_each(|(_, annotation)| find.fill(annotation));
            output::write(&args.output, args.format, |out| emit::html::write_library(&table, &pages, out))
        }
    }
}

/// Says what could not be read, and how it ended.
fn conclude(args: &ReportArgs, library: &Library, summary: &Summary) -> Result<Outcome> {
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
        let others: Vec<String> = library.other_arches().iter().map(ToString::to_string).collect();
        if !others.is_empty() {
            let asked = args.compile.arch.join(", ");
            bail!("no cubin in {inputs} is for {asked}: its cubins are for {}{compile}", others.join(", "));
        }
        if !library.is_everything() {
            bail!("no cubin that was asked for is in {inputs}: `ptxinspect list` says what is{compile}");
        }
        if summary.ptx_not_compiled > 0 {
            bail!("{inputs} holds no cubin{compile}");
        }
        if summary.others > 0 {
            bail!("{inputs} holds LTO-IR alone, which cannot be analysed");
        }
        bail!("{}", foreign::without_gpu_code(&args.compile.inputs));
    }
    Ok(Outcome::Fine)
}
