//! What ptxas said, as the user should read it: advisories, and the errors of what it refused.

use super::LaunchHints;
use super::model::*;
use super::warps;
use crate::ptx;
use crate::toolchain::log::{self, Log};

/// How many lines of a log that is not understood are shown.
const UNKNOWN_LINES: usize = 20;

/// Fills a unit that ptxas refused: its errors, each with the line it speaks of (quoted later, by [`quote`]), and in its own words
/// what was not understood. Where nothing looks like an error, everything it said may be one.
pub fn refuse(unit: &mut Unit, message: String, log: &Log) {
    let is_error = |message: &&log::Message| message.severity >= log::Severity::Error;
    let input = unit.input.as_str();
    let is_told = log.messages.iter().any(|message| is_error(&message));
    let mut diagnostics: Vec<Diagnostic> = log
        .messages
        .iter()
        .filter(|message| !is_told || is_error(message))
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
    let said = |message: String| Diagnostic {
        severity: Severity::Info,
        code: None,
        ptx_line: None,
        source: None,
        text: None,
        message,
    };
    let unknown = log.unknown.iter().filter(|line| !line.text.trim().is_empty());
    diagnostics.extend(unknown.take(UNKNOWN_LINES).map(|line| said(format!("ptxas said: {}", line.text.trim_end()))));
    if log.unknown_lines > UNKNOWN_LINES as u64 {
        diagnostics.push(said(format!("ptxas said more: {} lines of its log are not understood", log.unknown_lines)));
    }
    unit.advisories =
        log.messages.iter().filter(|message| !is_error(message)).map(|message| advisory(message, input)).collect();
    unit.unparsed_log =
        log.unknown.iter().map(|line| LogLine { line: line.log_line, text: line.text.clone() }).collect();
    unit.error = Some(UnitError { stage: ErrorStage::Ptxas, message, diagnostics });
}

/// Adds what our own checks find in PTX that ptxas refused: it may be the reason, and ptxas does not always say a line.
pub fn refused_findings(unit: &mut Unit, module: &ptx::Module<'_>, launch: &LaunchHints) {
    let Some(error) = &mut unit.error else { return };
    for issue in warps::without_cubin(module, launch) {
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
        first_ptx_line: None,
        source_line: None,
        message: user_text(message, input),
    }
}

/// The instruction that a message of no line speaks of: what its opcode and first modifiers are.
pub(super) fn subject(message: &str) -> Option<&'static str> {
    ["wgmma.mma_async", "setmaxnreg"].into_iter().find(|opcode| message.contains(opcode))
}

/// A message as the user should read it: ptxas quotes the name of the copy that it was given.
fn user_text(message: &log::Message, input: &str) -> String {
    message.text.replace("'input.ptx'", &format!("'{input}'"))
}
