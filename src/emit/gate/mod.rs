//! The gate's verdict, one file a format.
//!
//! In: a [`Verdict`]. Out: text for people, JSON for programs, Markdown for a pull request, SARIF for code scanning, JUnit for
//! test reports, annotations for GitHub, a page of HTML. Whatever comes from a file is escaped as its format asks.

mod github;
mod html;
mod junit;
mod markdown;
mod sarif;
mod text;

use std::io::{self, Write};

pub use github::write as write_github;
pub use html::write as write_html;
pub use junit::write as write_junit;
pub use markdown::write as write_markdown;
pub use sarif::write as write_sarif;
pub use text::{Options, write as write_text};

use crate::emit::text::{kernels_and_functions, thousands};
use crate::gate::{Comparison, FigureChange, Finding, Outcome, Verdict};

/// The verdict as it is: one object and a line feed.
pub fn write_json(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, verdict).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// One word for how it ended.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Error => "error",
    }
}

/// The counts in a sentence; `baseline` as the format writes it.
fn summary(verdict: &Verdict, baseline: &str) -> String {
    let totals = &verdict.totals;
    let all = kernels_and_functions(totals.kernels - totals.functions, totals.functions);
    let compared = format!("{} of {all} compared with {baseline}", thousands(totals.compared));
    let mut parts = Vec::new();
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    add(totals.failed, "failed");
    add(totals.improved, "improved");
    add(totals.new, "new");
    add(totals.removed, "removed");
    add(totals.renamed, "renamed");
    add(totals.errors, if totals.errors == 1 { "error" } else { "errors" });
    if parts.is_empty() { compared } else { format!("{compared}: {}", parts.join(", ")) }
}

/// A figure, or that it is not known.
fn figure(value: Option<u64>) -> String {
    value.map_or("—".to_owned(), thousands)
}

/// `+8`, `-16`, or nothing where one side is not known.
fn delta(change: &FigureChange) -> String {
    match (change.before, change.after) {
        (Some(before), Some(after)) if after >= before => format!("+{}", thousands(after - before)),
        (Some(before), Some(after)) => format!("-{}", thousands(before - after)),
        _ => String::new(),
    }
}

/// What is found of a kernel, whose name stands above it.
fn without_name<'a>(finding: &'a Finding, kernel: &Comparison) -> &'a str {
    let names = [kernel.demangled.as_str(), kernel.kernel.as_str()];
    let message = finding.message.as_str();
    let rest = names.iter().find_map(|name| message.strip_prefix(name)?.strip_prefix(": "));
    rest.unwrap_or(message)
}

/// Where a finding is: the file, or the baseline where it has none.
fn place<'a>(finding: &'a Finding, verdict: &'a Verdict) -> (&'a str, u32) {
    let file = finding.path.as_deref().or(finding.input.as_deref()).unwrap_or(&verdict.baseline);
    (file, finding.ptx_line.map_or(1, |line| line.0.max(1)))
}

#[cfg(test)]
mod tests;
