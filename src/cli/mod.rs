//! The command line: the only place for files, environment, standard streams and exit codes.
//!
//! [`args`] spells the flags, each command has a file. A command returns an [`Outcome`] or an error; [`main`] turns either
//! into the exit status.

mod annotate;
pub mod args;
pub mod cache;
mod choose;
mod cost;
pub mod diff;
mod disasm;
mod explain;
pub mod extract;
pub mod gate;
pub mod history;
mod library;
pub mod limits;
pub mod list;
pub mod manual;
pub mod matrix;
mod memory;
pub mod occupancy;
mod output;
mod pager;
mod progress;
mod report;
pub mod schema;
pub mod size;
mod streams;
pub mod timeline;
mod toolchain;
pub mod tune;
mod usage;
mod vain;
mod watch;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, error::ErrorKind};

use self::args::{Args, Command};
use crate::emit;

/// How a command that could be carried out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing to complain about.
    Fine,
    /// Something that was denied was found.
    Findings,
    /// Part of the job could not be done; what could not was said.
    Failed,
}

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Outcome::Fine => 0,
            Outcome::Findings => 1,
            Outcome::Failed => 2,
        }
    }
}

/// The only argument of the process that [`toolchain::guard`](crate::toolchain::guard) runs in.
pub const GUARD: &str = "__guard";

/// Parses the process's arguments, runs the command, reports an error on standard error, and returns the exit status.
pub fn main() -> ExitCode {
    let itself = if cfg!(target_os = "linux") { Ok(crate::toolchain::ITSELF.into()) } else { std::env::current_exe() };
    let guard = itself.ok().map(|itself| (itself, vec![GUARD.into()]));
    ExitCode::from(main_of(std::env::args_os().collect(), guard))
}

/// The same with these arguments, the program's name first, in a process that may be another program's: the Python package has the command, too.
/// `guard` is a program and the arguments with which it does what this function does for the argument [`GUARD`].
pub fn main_of(arguments: Vec<OsString>, guard: Option<(PathBuf, Vec<OsString>)>) -> u8 {
    if arguments.get(1).is_some_and(|argument| argument == GUARD) {
        crate::toolchain::guard(io::stdin().lock());
        return Outcome::Fine.code();
    }
    if arguments.get(1).is_some_and(|argument| argument == manual::KERNELS) {
        let files = arguments.into_iter().skip(2).map(PathBuf::from).collect();
        // Whoever completes a word shows no error.
        return finish(manual::kernels(files).unwrap_or(Outcome::Failed));
    }
    if let (Some((program, arguments)), true) = (guard, cfg!(unix)) {
        crate::toolchain::start_guard(program, arguments);
    }
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers; anything else is a job that could not be done.
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            usage::print(error, &words);
            return finish(if asked { Outcome::Fine } else { Outcome::Failed });
        }
    };
    // Without handlers an interrupted run only leaves a temporary folder behind: no reason not to run.
    let _ = crate::toolchain::remove_leftovers_on_signals();
    memory::exit_where_there_is_none(Outcome::Failed.code());
    memory::exit_where_a_file_shrinks(Outcome::Failed.code());
    let outcome = run(args).unwrap_or_else(|error| fail(&error));
    finish(outcome)
}

fn fail(error: &anyhow::Error) -> Outcome {
    let _ = emit::text::write_error(&format!("{error:#}"), &mut output::errors());
    Outcome::Failed
}

/// The exit status: what was found, unless what was to be said of it got lost.
fn finish(outcome: Outcome) -> u8 {
    crate::toolchain::dismiss_guard();
    let outcome = streams::finish().map_or_else(|error| fail(&error), |()| outcome);
    outcome.code()
}

fn run(args: Args) -> Result<Outcome> {
    match args.command {
        None => watch::run(&args.report.output, &args.report.compile.inputs, || report::run(&args.report)),
        Some(Command::Annotate(args)) => watch::run(&args.output, &args.compile.inputs, || annotate::run(&args)),
        Some(Command::Disasm(args)) => watch::run(&args.output, &args.compile.inputs, || disasm::run(&args)),
        Some(Command::Occupancy(args)) => {
            let stdin = io::stdin();
            let terminal = stdin.is_terminal();
            let summary = occupancy::run(&args, &mut stdin.lock(), terminal, &mut output::stdout(args.form()))?;
            Ok(if summary.refused > 0 { Outcome::Failed } else { Outcome::Fine })
        }
        Some(Command::Timeline(args)) => {
            watch::run(&args.output, std::slice::from_ref(&args.input), || timeline::run(&args))
        }
        Some(Command::Cost(args)) => watch::run(&args.output, &args.compile.inputs, || cost::run(&args)),
        Some(Command::Tune(args)) => watch::run(&args.output, &args.inputs, || tune::run(&args)),
        Some(Command::Toolchain(args)) => toolchain::run(&args),
        Some(Command::Gate(args)) => watch::run(&args.output, &args.watched(), || gate::run(&args)),
        Some(Command::History(args)) => {
            watch::run(&args.output, std::slice::from_ref(&args.file), || history::run(&args))
        }
        Some(Command::Cache(args)) => cache::run(&args),
        Some(Command::Diff(args)) => watch::run(&args.output, &args.inputs, || diff::run(&args)),
        Some(Command::Matrix(args)) => watch::run(&args.output, &args.inputs, || matrix::run(&args)),
        Some(Command::List(args)) => watch::run(&args.output, &args.choose.inputs, || list::run(&args)),
        Some(Command::Size(args)) => watch::run(&args.output, &args.choose.inputs, || size::run(&args)),
        Some(Command::Extract(args)) => extract::run(&args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Mcp) => serve_agent(),
        Some(Command::Completions { shell }) => manual::completions(shell),
        Some(Command::Man(args)) => manual::man(&args),
        Some(Command::Schema(args)) => schema::run(&args),
    }
}

#[cfg(feature = "mcp")]
fn serve_agent() -> Result<Outcome> {
    use std::io::Write;

    if io::stdin().is_terminal() {
        writeln!(
            output::errors(),
            "waiting for an agent's requests on standard input: docs/mcp.md says how to register it"
        )?;
    }
    crate::mcp::serve()?;
    Ok(Outcome::Fine)
}

#[cfg(not(feature = "mcp"))]
fn serve_agent() -> Result<Outcome> {
    anyhow::bail!(
        "this ptxinspect was built without what serves agents: install it by pip (`pip install .` in a clone), or with \
         `cargo install --locked --path . --features mcp`"
    )
}
