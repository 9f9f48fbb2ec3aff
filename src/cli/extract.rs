//! `ptxinspect extract X… -o DIR`: cubins and PTX as files.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, ValueHint};

use super::args::TextOrJson;
use super::choose::ChooseArgs;
use super::progress::Progress;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::text::count;
use crate::engine::contents::Choice;
use crate::engine::extract::{Found, file_name, keep, prefix, take, unique};
use crate::files::{HIDDEN_PREFIX, Scratch};

/// `ptxinspect extract X…`
#[derive(Debug, ClapArgs)]
pub struct ExtractArgs {
    /// What to look at.
    #[command(flatten)]
    pub choose: ChooseArgs,
    /// The folder to write to; made when it is not there
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".", help_heading = "Output")]
    pub output: PathBuf,
    /// Replace files that are there
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// The form of the list of files; JSON is one object a line
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TextOrJson,
    /// Do not name the files that were written
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Extracts.
pub fn run(args: &ExtractArgs) -> Result<Outcome> {
    let choice = Choice::new(&args.choose.choose()?)?;
    let folder = &args.output;
    if folder.is_file() {
        anyhow::bail!("{} is a file: name a folder to write to", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let scratch = Scratch::new_in(folder, HIDDEN_PREFIX)
        .with_context(|| format!("cannot write to the folder {}", folder.display()))?;
    let prefixes: Vec<String> = args.choose.inputs.iter().filter_map(|path| prefix(path)).collect();
    let mut names = HashSet::new();
    let (mut written, mut bytes_written, mut failures) = (0_u64, 0_u64, 0_u64);
    let is_json = args.format == TextOrJson::Json;
    let mut out = output::stdout(if is_json { Form::Json } else { Form::Plain });
    choice.visit(
        |entry| take(entry, &choice, &scratch),
        |result| {
            let message = match result {
                Err(error) => error.to_string(),
                Ok(Found::Failed(message)) => message,
                Ok(Found::Kept { path, arch, kind, file, bytes }) => {
                    let name = unique(file_name(&path, &prefixes, arch, kind), &mut names);
                    match keep(file, &folder.join(&name), args.force) {
                        Ok(()) => {
                            written += 1;
                            bytes_written += bytes;
                            if is_json {
                                let arch = arch.map(|arch| arch.to_string());
                                let line = serde_json::json!({
                                    "schema": "ptxinspect.extract/1",
                                    "file": name,
                                    "entry": path,
                                    "arch": arch,
                                    "kind": kind.name(),
                                    "bytes": bytes,
                                });
                                writeln!(out, "{line}")?;
                            } else if !args.quiet {
                                writeln!(out, "{name}")?;
                            }
                            return Ok(());
                        }
                        Err(error) => format!("{path}: {error:#}"),
                    }
                }
            };
            failures += 1;
            emit::text::write_error(&message, &mut output::errors())?;
            Ok(())
        },
        &Progress::of_bytes(args.quiet),
    )?;
    if !args.quiet && (written > 0 || failures == 0) {
        writeln!(output::errors(), "{}, {}", count(written, "file"), count(bytes_written, "byte"))?;
    }
    if failures > 0 {
        return Ok(Outcome::Failed);
    }
    if written == 0 {
        anyhow::bail!("nothing to extract: no entry of the kind, architecture and kernel that were asked for");
    }
    Ok(Outcome::Fine)
}
