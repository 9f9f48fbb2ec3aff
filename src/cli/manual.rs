//! Manual pages and completions, out of the one definition of the command line.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use super::args::Args;
use super::{Outcome, output, streams};
use crate::base::spelling::{distance, nearest};
use crate::container::ContainerError;
use crate::emit::clean::Form;
use crate::emit::explain;
use crate::engine::contents::{Choice, Choose};
use crate::engine::list::look;
use crate::engine::progress::Silent;
use crate::report::entries::EntryRow;

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
                let near = nearest(name, names.iter().copied()).filter(|near| distance(name, near) <= 2);
                let near = near
                    .map(|near| format!("did you mean {near}? There are "))
                    .unwrap_or("expected one of ".to_owned());
                bail!("there is no command '{name}': {near}{}", names.join(", "));
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
pub fn completions(shell: Shell) -> Result<Outcome> {
    streams::raw_stdout().write_all(script(shell).as_bytes())?;
    Ok(Outcome::Fine)
}

/// The script of a shell. After `--kernel`, bash, zsh and fish ask this program for the names in the files on the line.
fn script(shell: Shell) -> String {
    let command = with_values(Args::command());
    match shell {
        Shell::Bash => format!("{}\n{BASH}", generated(shell, command)),
        Shell::Fish => {
            let codes: Vec<&str> = explain::names().collect();
            let of_explain = "complete -c ptxinspect -n '__fish_ptxinspect_using_subcommand explain' -f -a";
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let functions = FISH.replace("COMMANDS", &names.join(" "));
            // Commands are offered as the first word alone, the report's options behind inputs, too.
            let generated = generated(shell, command.clone());
            let script = [" -s ", " -l "].iter().fold(generated, |script, option| {
                let condition = |name: &str| format!("-n \"{name}\"{option}");
                script.replace(&condition("__fish_ptxinspect_needs_command"), &condition("__ptxinspect_reports"))
            });
            format!("{script}\n{functions}{of_explain} '{}'\n", codes.join(" "))
        }
        Shell::Zsh => zsh(&command),
        _ => generated(shell, command),
    }
}

fn generated(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The first word may be a command or an input: zsh is told of the commands and of the report apart, for what it is given together it
/// takes as an input and a command after it.
fn zsh(program: &Command) -> String {
    let options = program.get_arguments().filter(|arg| !arg.is_positional()).cloned();
    let commands = Command::new("ptxinspect").args(options).subcommands(program.get_subcommands().cloned());
    let report = Command::new("ptxinspect_report").args(program.get_arguments().cloned());
    let mended = |line: &str| match line {
        line if line.contains("--kernel=") || line.contains("'*-k+") => {
            line.replace(":GLOB:_default", ":GLOB:_ptxinspect_kernels")
        }
        // With two colons there are no options behind the first of several inputs.
        line => line.strip_prefix("'*::").map_or_else(|| line.to_owned(), |rest| format!("'*:{rest}")),
    };
    // Without the line that says what is completed, and without what starts it.
    let functions = |command: Command| {
        let script = generated(Shell::Zsh, command);
        let body = script.lines().filter(|line| !line.starts_with("#compdef")).map(mended);
        body.take_while(|line| !line.starts_with("if [ \"$funcstack[1]\"")).collect::<Vec<_>>().join("\n")
    };
    let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
    let commands = functions(commands).replacen("\n_ptxinspect() {", "\n_ptxinspect_command() {", 1);
    let start = ZSH.replace("COMMANDS", &names.join(" "));
    format!("#compdef ptxinspect\n{commands}\n{}\n{start}", functions(report))
}

const BASH: &str = r#"_ptxinspect_or_kernels() {
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        --kernel|-k)
            local word files=()
            for word in "${COMP_WORDS[@]:1}"; do
                [[ -f $word ]] && files+=("$word")
            done
            COMPREPLY=()
            if (( ${#files[@]} )); then
                local names
                names=$("$1" __kernels "${files[@]}" 2>/dev/null) || names=
                COMPREPLY=($(compgen -W "$names" -- "${COMP_WORDS[COMP_CWORD]}"))
            fi
            ;;
        *) _ptxinspect "$@" ;;
    esac
}
complete -F _ptxinspect_or_kernels -o bashdefault -o default ptxinspect
"#;

const ZSH: &str = r#"_ptxinspect_kernels() {
    local -a files names
    files=(${(Q)words[2,-1]})
    files=(${^files}(N.))
    (( $#files )) || return 1
    names=(${(f)"$(ptxinspect __kernels $files 2>/dev/null)"})
    compadd -a names
}

_ptxinspect() {
    local -a known
    known=(COMMANDS)
    if (( CURRENT > 2 && ${known[(Ie)$words[2]]} )); then
        _ptxinspect_command "$@"
        return
    fi
    local ret=1
    if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
        _ptxinspect_commands && ret=0
    fi
    _ptxinspect_report "$@" && ret=0
    return ret
}

if [ "$funcstack[1]" = "_ptxinspect" ]; then
    _ptxinspect "$@"
else
    compdef _ptxinspect ptxinspect
fi
"#;

const FISH: &str = r#"function __ptxinspect_kernels
    set -l files
    for word in (commandline -opc)[2..-1]
        test -f $word; and set -a files $word
    end
    test (count $files) -gt 0; and ptxinspect __kernels $files 2>/dev/null
end
function __ptxinspect_reports
    set -l first (__fish_ptxinspect_needs_command)
    not contains -- "$first[1]" COMMANDS
end
complete -c ptxinspect -s k -l kernel -x -a '(__ptxinspect_kernels)'
"#;

/// The first argument with which a completion script asks for names.
pub const KERNELS: &str = "__kernels";

/// Prints the kernels of some files, a symbol a line: those that no shell takes for anything but a word.
pub fn kernels(files: Vec<PathBuf>) -> Result<Outcome> {
    let choice = Choice::new(&Choose { inputs: files, ..Choose::default() })?;
    let mut names = BTreeSet::new();
    let take = |row: Result<EntryRow, ContainerError>| {
        // A file that cannot be read has no names to offer.
        names.extend(row.ok().and_then(|row| row.kernels).into_iter().flatten());
        Ok(())
    };
    choice.visit(|entry| look(entry, &choice, false), take, &Silent)?;
    let is_word = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let mut out = output::stdout(Form::Plain);
    names.iter().filter(|name| is_word(name)).try_for_each(|name| writeln!(out, "{name}"))?;
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
        "what" => arg.value_parser(PossibleValuesParser::new(explain::names().map(str::to_owned))),
        _ => arg,
    });
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_architectures_and_codes() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for value in ["sm_90a", "sm_120", "PI203", "C7510", KERNELS] {
                assert!(script.contains(value), "{shell}: {value}");
            }
        }
    }
}
