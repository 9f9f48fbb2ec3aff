//! What is said to somebody who mistypes an argument.

use std::io::Write;

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::Args;
use super::{output, streams};
use crate::base::spelling;
use crate::emit::clean::{self, Form};

/// Prints what clap says, in its own colours unless it quotes something that no terminal should get.
pub(super) fn print(mut error: clap::Error, arguments: &[String]) {
    advise(&mut error, arguments);
    let said = plain(&error.render().to_string());
    let clean = clean::text(Form::Text, &said);
    let rendered = error.render();
    let coloured = plain(&rendered.ansi().to_string());
    let _ = match (clean == said, error.use_stderr()) {
        (true, true) => write!(output::Wrapped::new(streams::stderr()), "{coloured}"),
        (true, false) => write!(streams::stdout(), "{coloured}"),
        (false, true) => output::errors().write_all(clean.as_bytes()),
        (false, false) => output::stdout(Form::Text).write_all(clean.as_bytes()),
    };
}

/// What the standard library says of a word that is no number, as people do.
fn plain(said: &str) -> String {
    said.replace("invalid digit found in string", "expected a whole number, such as 10")
        .replace("number too large to fit in target type", "that is too large")
}

/// Of a flag that a command does not have: which ones have it, or that it may be one of ptxas. A name that is spelt otherwise is
/// suggested only where it can be what was meant.
fn advise(error: &mut clap::Error, arguments: &[String]) {
    if error.kind() == ErrorKind::TooManyValues {
        let tip = "it takes two inputs at most: what was before, and what is after";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        return;
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    let given = given.split('=').next().unwrap_or_default().to_owned();
    if !given.starts_with('-') {
        let tip = "one input is all that this command takes: run it once for each";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        return;
    }
    let near = error.get(ContextKind::SuggestedArg);
    let is_near = matches!(near, Some(ContextValue::String(known)) if spelling::is_slip(&given, known));
    if !is_near {
        error.remove(ContextKind::SuggestedArg);
    }
    // What may follow `--` goes to ptxas.
    let takes_flags = error.remove(ContextKind::Suggested).is_some();
    let owners = given.strip_prefix("--").map(commands_with).unwrap_or_default();
    let runs_none = arguments.get(1).is_some_and(|command| command == "timeline");
    let tip = if runs_none && matches!(given.as_str(), "--ptxas" | "--arch" | "--offline") {
        // It is no other command that is wanted.
        format!("a timeline is drawn from the PTX, and no ptxas runs: leave '{given}' out")
    } else if !owners.is_empty() {
        format!("'{given}' is an argument of {}", owners.join(", "))
    } else if takes_flags && !is_near {
        // What clap would suggest instead has nothing to do with it.
        error.remove(ContextKind::Usage);
        format!("flags of ptxas come last, after '--': '-- {}'", whole_flag(&given, arguments))
    } else {
        return;
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// A flag as it was given, with its number where that is a word of its own: of `-maxrregcount=32` only `-m` is told.
fn whole_flag(given: &str, arguments: &[String]) -> String {
    let is_short = given.len() == 2;
    let is = |word: &&String| {
        let rest = word.strip_prefix(given);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('=') || is_short && !word.starts_with("--"))
    };
    let Some(at) = arguments.iter().position(|word| is(&word)) else { return given.to_owned() };
    let mut flag = arguments.get(at).cloned().unwrap_or_default();
    if let Some(number) = arguments.get(at + 1).filter(|next| next.bytes().all(|byte| byte.is_ascii_digit()))
        && !flag.contains('=')
    {
        flag.push('=');
        flag.push_str(number);
    }
    flag
}

/// Commands that have an argument of a name.
fn commands_with(long: &str) -> Vec<String> {
    let program = Args::command();
    let has = |command: &clap::Command| command.get_arguments().any(|argument| argument.get_long() == Some(long));
    let report = has(&program).then(|| "the report".to_owned());
    let others = program.get_subcommands().filter(|command| has(command)).map(|command| command.get_name().to_owned());
    report.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::whole_flag;

    #[test]
    fn a_flag_is_told_as_it_was_given() {
        for (given, words, expected) in [
            ("-m", &["k.ptx", "-maxrregcount=32"][..], "-maxrregcount=32"),
            ("--maxrregcount", &["--maxrregcount", "32", "k.ptx"], "--maxrregcount=32"),
            ("--maxrregcount", &["--maxrregcount=32"], "--maxrregcount=32"),
            ("--fmad", &["--fmad", "k.ptx"], "--fmad"),
            ("-x", &["k.ptx"], "-x"),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(whole_flag(given, &words), expected);
        }
    }
}
