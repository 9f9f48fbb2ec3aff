//! The command line: the only place for files, environment, standard streams and exit codes.
//!
//! [`args`] spells the flags, each command has a file. A command returns an [`Outcome`] or an error; [`main`] turns either
//! into the exit status.

mod annotate;
pub mod args;
pub mod cache;
mod compile;
pub mod contents;
pub mod diff;
mod disasm;
mod explain;
pub mod extract;
pub mod gate;
mod given;
mod glob;
mod input;
mod jobserver;
mod library;
pub mod limits;
pub mod list;
pub mod matrix;
mod memory;
pub mod occupancy;
mod output;
mod progress;
mod report;
mod room;
mod source;
mod toolchain;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, error::ErrorKind};

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

/// Parses the process's arguments, runs the command, reports an error on standard error, and returns the exit status.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers; anything else is a job that could not be done.
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return ExitCode::from(if asked { 0 } else { 2 });
        }
    };
    // Without handlers an interrupted run only leaves a temporary folder behind: no reason not to run.
    let _ = crate::toolchain::remove_leftovers_on_signals();
    match run(args) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = emit::text::write_error(&format!("{error:#}"), &mut anstream::stderr());
            ExitCode::from(Outcome::Failed.code())
        }
    }
}

fn run(args: Args) -> Result<Outcome> {
    match args.command {
        None => report::run(&args.report),
        Some(Command::Annotate(args)) => annotate::run(&args),
        Some(Command::Disasm(args)) => disasm::run(&args),
        Some(Command::Occupancy(args)) => {
            let stdin = io::stdin();
            let terminal = stdin.is_terminal();
            let summary = occupancy::run(&args, &mut stdin.lock(), terminal, &mut io::stdout().lock())?;
            Ok(if summary.refused > 0 { Outcome::Failed } else { Outcome::Fine })
        }
        Some(Command::Toolchain(args)) => toolchain::run(&args),
        Some(Command::Gate(args)) => gate::run(&args),
        Some(Command::Cache(args)) => cache::run(&args),
        Some(Command::Diff(args)) => diff::run(&args),
        Some(Command::Matrix(args)) => matrix::run(&args),
        Some(Command::List(args)) => list::run(&args),
        Some(Command::Extract(args)) => extract::run(&args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "ptxinspect", &mut script);
            io::stdout().write_all(&script)?;
            Ok(Outcome::Fine)
        }
        Some(Command::Man) => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page)?;
            io::stdout().write_all(&page)?;
            Ok(Outcome::Fine)
        }
    }
}

/// Whether the reader of our output went away, which is its right.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe))
}
