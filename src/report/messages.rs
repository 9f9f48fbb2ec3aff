//! What ptxas said, as the user should read it: advisories, and the errors of what it refused.

use super::LaunchHints;
use super::model::*;
use super::warps;
use crate::ptx;
use crate::toolchain::log::{self, Log};

/// Fills a unit that ptxas refused: its errors, each with the line it speaks of (quoted later, by [`quote`]).
pub fn refuse(unit: &mut Unit, stage: &str, message: String, log: &Log) {
    let is_error = |message: &&log::Message| message.severity >= log::Severity::Error;
    let input = unit.input.as_str();
    let diagnostics = log
        .messages
        .iter()
        .filter(is_error)
        .map(|message| Diagnostic {
            severity: severity(message.severity),
            code: message.code.clone(),
            ptx_line: message.ptx_line,
            source: message.source.as_ref().map(|at| SourceLine {
                file: at.file.clone(),
                line: at.line,
                called_at: None,
            }),
            text: None,
            message: user_text(message, input),
        })
        .collect();
    unit.advisories =
        log.messages.iter().filter(|message| !is_error(message)).map(|message| advisory(message, input)).collect();
    unit.unparsed_log =
        log.unknown.iter().map(|line| LogLine { line: line.log_line, text: line.text.clone() }).collect();
    unit.error = Some(UnitError { stage: stage.to_owned(), message, diagnostics });
}

/// Adds what our own checks find in PTX that ptxas refused: it may be the reason, and ptxas does not always say a line.
pub fn refused_findings(unit: &mut Unit, ptx: &[u8], launch: &LaunchHints) {
    let Some(error) = &mut unit.error else { return };
    let text = String::from_utf8_lossy(ptx);
    let module = ptx::parse(&text);
    for issue in warps::without_cubin(&module, launch) {
        error.diagnostics.push(Diagnostic {
            severity: issue.severity,
            code: Some(issue.code),
            ptx_line: issue.ptx_line,
            source: None,
            text: None,
            message: format!("{} ({})", issue.message, issue.reasoning),
        });
    }
}

/// Puts the text of the lines beside the errors that speak of them.
pub fn quote(unit: &mut Unit) {
    let Some(error) = &mut unit.error else { return };
    for diagnostic in &mut error.diagnostics {
        let text = match &diagnostic.source {
            None => diagnostic.ptx_line.and_then(|line| unit.ptx.line(line)),
            Some(source) => {
                diagnostic.ptx_line = unit.ptx.place(&source.file, source.line);
                diagnostic.ptx_line.and_then(|line| unit.ptx.own_line(line))
            }
        };
        diagnostic.text = text.map(str::to_owned);
    }
}

fn severity(severity: log::Severity) -> Severity {
    match severity {
        log::Severity::Info | log::Severity::Advisory => Severity::Info,
        log::Severity::Warning => Severity::Warning,
        log::Severity::Error | log::Severity::Fatal => Severity::Error,
    }
}

/// A message that stops nothing.
pub(super) fn advisory(message: &log::Message, input: &str) -> Advisory {
    Advisory {
        code: message.code.clone(),
        severity: severity(message.severity),
        kernel: message.function.clone(),
        ptx_line: message.ptx_line,
        message: user_text(message, input),
    }
}

/// A message as the user should read it: ptxas quotes the name of the copy that it was given.
fn user_text(message: &log::Message, input: &str) -> String {
    message.text.replace("'input.ptx'", &format!("'{input}'"))
}
