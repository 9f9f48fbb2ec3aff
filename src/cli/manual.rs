//! Manual pages and completions, out of the one definition of the command line.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Command, CommandFactory, ValueHint};

use super::args::Args;
use super::{Outcome, streams};
use crate::emit::explain;

/// What ptxas 13.4 compiles for, as its help lists it.
const ARCHES: [&str; 26] = [
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103",
    "sm_103a", "sm_103f", "sm_107", "sm_107a", "sm_107f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a",
    "sm_120f", "sm_121", "sm_121a", "sm_121f",
];

/// `ptxinspect man`
#[derive(Debug, ClapArgs)]
pub struct ManArgs {
    /// The command whose page to print; without one, that of the program
    pub command: Option<String>,
    /// Write the pages of all commands into this folder: ptxinspect.1, ptxinspect-diff.1, …
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub all: Option<PathBuf>,
}

/// The program with its subcommands named in full.
fn program() -> Command {
    let mut program = Args::command();
    program.build();
    program
}

/// Prints one page, or writes all of them.
pub fn man(args: &ManArgs) -> Result<Outcome> {
    let program = program();
    if let Some(folder) = &args.all {
        let what = || format!("cannot write the manual to {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
        clap_mangen::generate_to(program, folder).with_context(what)?;
        return Ok(Outcome::Fine);
    }
    let page = match &args.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(found) => found.clone().name(format!("ptxinspect-{name}")),
            None => {
                let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
                bail!("there is no command '{name}': expected one of {}", names.join(", "));
            }
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    streams::raw_stdout().write_all(&text)?;
    Ok(Outcome::Fine)
}

/// Prints the script of a shell. What is completed is not all that is allowed: an architecture that this program does not know yet is
/// passed on to ptxas.
pub fn completions(shell: clap_complete::Shell) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_values(Args::command()), "ptxinspect", &mut script);
    streams::raw_stdout().write_all(&script)?;
    Ok(Outcome::Fine)
}

/// The same command line with the values that can be named.
fn with_values(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|found| found.get_name().to_owned()).collect();
    let codes = || explain::codes().map(str::to_owned);
    let denied = || codes().chain(["warnings".to_owned(), "advisories".to_owned()]);
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "arch" => arg.value_parser(PossibleValuesParser::new(ARCHES)),
        "deny" => arg.value_parser(PossibleValuesParser::new(denied())),
        "allow" | "code" => arg.value_parser(PossibleValuesParser::new(codes())),
        _ => arg,
    });
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_architectures_and_codes() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut with_values(Args::command()), "ptxinspect", &mut script);
            let script = String::from_utf8(script).unwrap();
            for value in ["sm_90a", "sm_120", "PI203", "C7510"] {
                assert!(script.contains(value), "{shell}: {value}");
            }
        }
    }
}
