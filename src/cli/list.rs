//! `ptxinspect list X…`: what GPU code is inside.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args as ClapArgs;

use super::args::{OutputArgs, TextOrJson};
use super::choose::ChooseArgs;
use super::progress::Progress;
use super::{Outcome, output};
use crate::container::ContainerError;
use crate::emit;
use crate::emit::escape::terminal;
use crate::emit::list::ListWriter;
use crate::engine::contents::Choice;
use crate::engine::list::look;
use crate::report::entries::{EntryRow, Totals};

/// `ptxinspect list X…`
#[derive(Debug, ClapArgs)]
pub struct ListArgs {
    /// What to look at.
    #[command(flatten)]
    pub choose: ChooseArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The form of the list; JSON is one object a line
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TextOrJson,
    /// Only what the containers' headers say: nothing is decompressed, no kernels are named
    #[arg(long, conflicts_with = "kernel", help_heading = "Output")]
    pub headers: bool,
}

/// Lists.
pub fn run(args: &ListArgs) -> Result<Outcome> {
    let choice = Choice::new(&args.choose.choose()?)?;
    let mut totals = Totals::default();
    let mut messages = Vec::new();
    let width = output::terminal_width(&args.output).filter(|_| !args.output.verbose);
    output::write(&args.output, args.format, |out| {
        let mut writer = ListWriter::start(args.format == TextOrJson::Json, width, out)?;
        let take = |result: Result<EntryRow, ContainerError>| {
            totals.count(result.as_ref().ok());
            match result {
                Ok(row) => {
                    messages.extend(row.error.clone());
                    writer.entry(row)?;
                }
                Err(error) => {
                    messages.push(error.to_string());
                    writer.failure(&error.path, error.problem.to_string())?;
                }
            }
            Ok(())
        };
        let visited =
            choice.visit(|entry| look(entry, &choice, args.headers), take, &Progress::of_bytes(args.output.quiet));
        visited.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => error,
            Err(error) => io::Error::other(error),
        })?;
        writer.finish(&totals)
    })?;
    let mut errors = output::errors();
    for message in &messages {
        emit::text::write_error(message, &mut errors)?;
    }
    if totals.errors > 0 {
        return Ok(Outcome::Failed);
    }
    if totals.entries == 0 && !args.output.quiet {
        let what = if choice.is_everything() { "no GPU code inside" } else { "nothing that was asked for inside" };
        writeln!(errors, "{what}: {}", inputs(&args.choose))?;
    }
    Ok(Outcome::Fine)
}

fn inputs(choose: &ChooseArgs) -> String {
    choose.inputs.iter().map(|path| terminal(&path.display().to_string()).into_owned()).collect::<Vec<_>>().join(", ")
}
