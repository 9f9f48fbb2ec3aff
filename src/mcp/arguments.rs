//! What an agent may ask for, checked before anything is done; and what it is told when that fails.

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Answer, TOKENS, tokens};
use crate::emit::clean::{self, Form};
use crate::toolchain::{VersionRequest, check_flags};
use crate::{Diagnostic, ErrorKind, Options, Source};

/// How long a call may take for each architecture: an agent that waits longer has given up.
const TIME: Duration = Duration::from_secs(600);

const FLAGS: &str = "an agent gives flags that are known to name no file, such as -O1 or --maxrregcount=64";

/// Why a call has no answer, in the words of the command line.
#[derive(Debug)]
pub struct Failure {
    kind: &'static str,
    message: String,
    diagnostics: Vec<Diagnostic>,
}

impl Failure {
    /// An argument, a file, or what is in it.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure { kind: "input", message: clean::text(Form::Plain, &message.into()), diagnostics: Vec::new() }
    }

    /// A call that did not come back.
    pub fn internal(error: &tokio::task::JoinError) -> Failure {
        Failure { kind: "internal", ..Failure::input(format!("the call ended without an answer: {error}")) }
    }

    /// For the agent to read: the same as on standard error, as far as it fits beside what is structured.
    pub fn text(&self) -> String {
        let mut answer = Answer::new();
        let left_out = answer.add_lines(&shorten(&self.message, TOKENS / 2));
        answer.close(if left_out > 0 { "\n…" } else { "" })
    }

    /// For a program: the kind, the message, and what ptxas said at which line.
    pub fn structured(&self) -> Value {
        let mut diagnostics = Vec::new();
        let mut room = TOKENS / 4;
        for found in &self.diagnostics {
            let message = clean::text(Form::Plain, &shorten(&found.message, 100));
            let cost = tokens(&message) + 40;
            if cost > room {
                break;
            }
            room -= cost;
            diagnostics.push(json!({
                "severity": found.severity, "code": found.code, "ptx_line": found.ptx_line, "message": message,
            }));
        }
        let message = self.message.lines().last().unwrap_or_default();
        let left_out = self.diagnostics.len() - diagnostics.len();
        json!({"error": {
            "kind": self.kind, "message": shorten(message, 100), "diagnostics": diagnostics, "diagnostics_left_out": left_out,
        }})
    }
}

/// As much of a text as so many tokens hold.
fn shorten(text: &str, most: usize) -> String {
    let mut text = text.to_owned();
    let mut cut = false;
    while tokens(&text) > most {
        text = text.chars().take(text.chars().count() * 3 / 4).collect();
        cut = true;
    }
    if cut { format!("{text}…") } else { text }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Failure {
        let kind = match error.kind() {
            ErrorKind::Input => "input",
            ErrorKind::Toolchain => "toolchain",
            ErrorKind::Ptxas => "ptxas",
            ErrorKind::Cubin => "cubin",
            ErrorKind::Timeout => "timeout",
        };
        let errors = error.units().iter().filter_map(|unit| unit.error.as_ref());
        let diagnostics = errors.flat_map(|error| error.diagnostics.clone()).collect();
        Failure { kind, message: error.to_string(), diagnostics }
    }
}

/// The arguments of a call.
pub fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| Failure::input(format!("arguments: {error}")))
}

/// A file or folder to read. Anything else (a pipe, a terminal) might be what this server itself reads or writes.
pub fn source(path: &str) -> Result<Source, Failure> {
    let refuse = |what: &str| Failure::input(format!("cannot open {path}: {what}"));
    if path == "-" {
        return Err(refuse("standard input is what the requests come on; name a file"));
    }
    let path = PathBuf::from(path);
    let found = std::fs::metadata(&path).map_err(|error| refuse(&error.to_string()))?;
    match found.is_file() || found.is_dir() {
        true => Ok(Source::Path(path)),
        false => Err(refuse("expected a file or a folder")),
    }
}

/// One word, or several separated by commas, or a list.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// Nothing.
    #[default]
    None,
    /// `sm_90a,sm_100a`
    One(String),
    /// `["sm_90a", "sm_100a"]`
    Several(Vec<String>),
}

impl Words {
    /// Each of them.
    pub fn list(&self) -> Vec<String> {
        let words: Vec<&str> = match self {
            Words::None => Vec::new(),
            Words::One(words) => words.split(',').collect(),
            Words::Several(words) => words.iter().map(String::as_str).collect(),
        };
        words.iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

/// How it is to be compiled.
pub fn options(
    arch: Vec<String>,
    ptxas: Option<String>,
    flags: Vec<String>,
    kernel: Option<String>,
) -> Result<Options, Failure> {
    if let Some(text) = ptxas.as_ref().filter(|text| text.parse::<VersionRequest>().is_err()) {
        return Err(Failure::input(format!("ptxas '{text}' is not a version: expected one such as 13.4")));
    }
    check_flags(&flags, FLAGS).map_err(|error| Failure::input(error.to_string()))?;
    Ok(Options { arch, ptxas, flags, kernels: kernel.into_iter().collect(), timeout: Some(TIME), ..Options::default() })
}

/// `A..B`, `A..`, `..B` or `A`, both ends included.
pub fn lines(range: &str) -> Result<(u32, u32), Failure> {
    crate::engine::settings::lines(range)
        .map(|(from, to)| (from.0.max(1), to.0))
        .map_err(|error| Failure::input(error.to_string()))
}
