//! GitHub's workflow commands: an annotation for each finding, on its line.

use std::io::{self, Write};

use super::{place, summary, word};
use crate::emit::escape::terminal_lines;
use crate::gate::{Level, Verdict};

/// Writes `::error file=…,line=…::message`. GitHub shows ten annotations of a kind for a step, so notes are left out and what
/// is found at the same line is one annotation.
pub fn write(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
    for finding in verdict.findings.iter().filter(|finding| finding.level > Level::Note) {
        let command = if finding.level >= Level::Failure { "error" } else { "warning" };
        let (file, line) = place(finding, verdict);
        let start = format!("::{command} file={},line={line},title=ptxinspect {}::", property(file), finding.kind.id());
        let arch = finding.arch.as_ref().map(|arch| format!(" [{arch}]")).unwrap_or_default();
        let message = data(&format!("{}{arch}", finding.message));
        match annotations.iter_mut().find(|(known, _)| *known == start) {
            Some((_, messages)) => messages.push(message),
            None => annotations.push((start, vec![message])),
        }
    }
    for (start, messages) in annotations {
        writeln!(out, "{start}{}", messages.join("%0A"))?;
    }
    writeln!(out, "ptxinspect gate: {}: {}", word(verdict.outcome), data(&summary(verdict, &verdict.baseline)))
}

/// A message: percent signs and line ends are written as GitHub's runner reads them back, and what it shows is safe to show.
fn data(text: &str) -> String {
    terminal_lines(text).replace('%', "%25").replace('\n', "%0A")
}

/// A property, in which colons and commas are spelt out as well.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
