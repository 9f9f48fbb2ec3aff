//! What is wrong with a kernel: what the checks found and what ptxas said of it, the worst first.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::diagnostic::{self, Told};
use super::pressure::{source, source_linked};
use super::style::{DIM, GOOD, RESET, WARN};
use super::wrap::wrap;
use super::{Options, write_wrapped};
use crate::emit::escape::terminal;
use crate::emit::explain;
use crate::report::{Advisory, Confidence, Issue, Kernel, Severity, SourceLine, Unit, shorten};

/// One of either.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finding<'a> {
    /// What a check found.
    Issue(&'a Issue),
    /// What ptxas said.
    Advisory(&'a Advisory),
}

/// How bad it is: the greater, the sooner its reader should know.
pub(super) type Rank = (bool, Severity, bool, bool, Option<Confidence>);

impl Finding<'_> {
    /// The greater, the sooner its reader should know.
    pub fn rank(&self) -> Rank {
        let (severity, loss, confidence) = match self {
            Finding::Issue(issue) => (issue.severity, false, Some(issue.confidence)),
            Finding::Advisory(advisory) => (advisory.severity, advisory.is_loss(), None),
        };
        (self.is_serious(), severity, confidence.is_some(), loss, confidence)
    }

    /// Whether a reader should know before anything else.
    pub fn is_serious(&self) -> bool {
        match self {
            Finding::Issue(issue) => issue.is_serious(),
            Finding::Advisory(advisory) => advisory.is_serious(),
        }
    }
}

/// Of one kernel, the worst first.
pub(super) fn of<'a>(kernel: &'a Kernel, unit: &'a Unit) -> Vec<Finding<'a>> {
    let issues = kernel.barriers.iter().flat_map(|found| &found.issues).map(Finding::Issue);
    let said = unit.advisories.iter().filter(|advisory| advisory.kernel.as_deref() == Some(kernel.name.as_str()));
    let mut found: Vec<Finding<'a>> = issues.chain(said.map(Finding::Advisory)).collect();
    found.sort_by_key(|finding| Reverse(finding.rank()));
    found
}

/// Findings with their lines, in PTX and in the front end's source, and the command that explains each.
pub(super) fn write<'a>(
    found: impl Iterator<Item = &'a Finding<'a>>,
    unit: &Unit,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    for finding in found {
        match finding {
            Finding::Issue(issue) => write_issue(issue, unit, options, out)?,
            Finding::Advisory(advisory) => write_advisory(advisory, unit, "  ", options, out)?,
        }
    }
    Ok(())
}

fn write_issue(issue: &Issue, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let message = format!("{} ({}: {})", issue.message, issue.confidence.word(), issue.reasoning);
    let told = Told {
        label: diagnostic::severity(issue.severity),
        code: Some(&issue.code),
        message: &message,
        ptx_line: issue.ptx_line,
    };
    diagnostic::write(&told, unit, "  ", options, out)?;
    write_source(issue.source_line.as_ref(), unit, "    ", options, out)?;
    // The first is what the message says.
    for stands in issue.witness.iter().skip(1) {
        let text = terminal(&stands.to_string()).into_owned();
        for (at, line) in wrap(&text, options.width.saturating_sub(8)).iter().enumerate() {
            writeln!(out, "    {}{line}", if at == 0 { "" } else { "  " })?;
        }
    }
    for line in issue.mend.iter().flat_map(|mend| &mend.lines) {
        let (Some(before), Some(after)) = (&line.replaces, &line.instruction) else { continue };
        let number = line.ptx_line;
        writeln!(out, "    {DIM}{number:>6}{RESET} {WARN}- {}{RESET}", terminal(before))?;
        if !after.is_empty() {
            writeln!(out, "    {DIM}{:>6}{RESET} {GOOD}+ {}{RESET}", "", terminal(after))?;
        }
    }
    write_explain(Some(&issue.code), "    ", options, out)
}

/// An advisory with its line.
pub(super) fn write_advisory(
    advisory: &Advisory,
    unit: &Unit,
    indent: &str,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let label = if advisory.is_loss() && advisory.severity == Severity::Info {
        (WARN, "performance")
    } else {
        diagnostic::severity(advisory.severity)
    };
    let told = Told {
        label,
        code: advisory.code.as_deref(),
        message: &advisory.message,
        ptx_line: advisory.ptx_line.or(advisory.first_ptx_line),
    };
    diagnostic::write(&told, unit, indent, options, out)?;
    let indent = format!("{indent}  ");
    write_source(advisory.source_line.as_ref(), unit, &indent, options, out)?;
    write_explain(advisory.code.as_deref(), &indent, options, out)
}

/// `in gemm.py:35: acc = tl.dot(a, b, acc)`
fn write_source(
    at: Option<&SourceLine>,
    unit: &Unit,
    indent: &str,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let place = source(at, options);
    let linked = source_linked(at, options);
    let text = unit.sources.get(&at.file).and_then(|file| file.own_line(at.line)).unwrap_or_default();
    let room = options.width.saturating_sub(indent.len() + place.chars().count() + 5).max(20);
    let text = if text.is_empty() { String::new() } else { format!(": {}", shorten(&terminal(text), room)) };
    let told = format!("{DIM}in {linked}{RESET}{text}");
    write_wrapped(&told, indent, &format!("{indent}  "), options.width, out)
}

/// The command that says more of a code.
fn write_explain(code: Option<&str>, indent: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    match code.filter(|code| options.pictures && explain::page(code).is_some()) {
        Some(code) => writeln!(out, "{indent}{DIM}more: ptxinspect explain {}{RESET}", terminal(code)),
        None => Ok(()),
    }
}
