//! Markdown for a comment on a pull request: the sentence and one table, the rest folded.

use std::io::{self, Write};

use super::{delta, figure, summary};
use crate::emit::escape::{terminal, terminal_lines};
use crate::gate::{Change, Comparison, Finding, Level, Outcome, UnitVerdict, Verdict};
use crate::report::{abridge, shorten};

/// A comment holds 65,536 characters; more rows than this are counted, not shown.
const ROWS: usize = 40;
/// Kernels whose details are shown.
const DETAILS: usize = 10;

/// Writes the comment.
pub fn write(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let title = match verdict.outcome {
        Outcome::Pass => "✅ ptxinspect: no register regression",
        Outcome::Fail => "❌ ptxinspect: something got worse",
        Outcome::Error => "❔ ptxinspect: it could not be told",
    };
    writeln!(out, "### {title}\n")?;
    writeln!(out, "{}.", summary(verdict, &code(&verdict.baseline)))?;
    write_table(verdict, out)?;
    write_findings(verdict, out)?;
    write_details(verdict, out)
}

fn moved(verdict: &Verdict) -> impl Iterator<Item = (&UnitVerdict, &Comparison)> {
    let has_moved = |kernel: &Comparison| {
        kernel.figures.iter().any(|figure| !matches!(figure.change, Change::Same | Change::Tolerated))
    };
    let units = verdict.units.iter();
    units.flat_map(move |unit| {
        unit.kernels.iter().filter(move |kernel| has_moved(kernel)).map(move |kernel| (unit, kernel))
    })
}

fn write_table(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<String> = moved(verdict)
        .flat_map(|(unit, kernel)| {
            let name = code(&abridge(&kernel.demangled, 60));
            kernel.figures.iter().filter(|figure| !matches!(figure.change, Change::Same | Change::Tolerated)).map(
                move |change| {
                    let mark = match change.change {
                        Change::Worse => "🔴",
                        Change::Unknown => "❔",
                        _ => "🟢",
                    };
                    format!(
                        "| {name} | {} | {} | {} | {} | {mark} {} |",
                        plain(&unit.arch),
                        change.title,
                        figure(change.before),
                        figure(change.after),
                        delta(change)
                    )
                },
            )
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n| kernel | arch | figure | before | after | |")?;
    writeln!(out, "|---|---|---|--:|--:|---|")?;
    for row in rows.iter().take(ROWS) {
        writeln!(out, "{row}")?;
    }
    if rows.len() > ROWS {
        writeln!(out, "\n…and {} more rows.", rows.len() - ROWS)?;
    }
    Ok(())
}

/// What is not a row of the table.
fn write_findings(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let rest: Vec<&Finding> = verdict
        .findings
        .iter()
        .filter(|finding| finding.level >= Level::Warning && !(finding.before.is_some() && finding.after.is_some()))
        .collect();
    if !rest.is_empty() {
        writeln!(out)?;
    }
    for finding in rest.iter().take(ROWS) {
        let place = match (&finding.path, finding.ptx_line) {
            (Some(path), Some(line)) => format!(" ({})", code(&format!("{path}:{line}"))),
            (Some(path), None) => format!(" ({})", code(path)),
            _ => String::new(),
        };
        let arch = finding.arch.as_ref().map(|arch| format!(" {}", plain(arch))).unwrap_or_default();
        writeln!(out, "- **{}**{arch}: {}{place}", finding.kind.id(), plain(&shorten(&finding.message, 400)))?;
    }
    if rest.len() > ROWS {
        writeln!(out, "\n…and {} more.", rest.len() - ROWS)?;
    }
    Ok(())
}

fn write_details(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let worse: Vec<(&UnitVerdict, &Comparison)> = verdict
        .units
        .iter()
        .flat_map(|unit| unit.kernels.iter().map(move |kernel| (unit, kernel)))
        .filter(|(unit, kernel)| {
            let of = |finding: &&Finding| {
                finding.kernel.as_deref() == Some(&kernel.kernel) && finding.arch.as_deref() == Some(&unit.arch)
            };
            verdict.failures().any(|finding| of(&finding) && finding.path.as_deref() == Some(&unit.path))
        })
        .collect();
    if worse.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n<details><summary>Where, how to repeat it, and the patch if it is meant</summary>\n")?;
    for (unit, kernel) in worse.iter().take(DETAILS) {
        writeln!(out, "#### {} {}\n", code(&abridge(&kernel.demangled, 80)), plain(&unit.arch))?;
        if !kernel.lines.is_empty() {
            writeln!(out, "| line | live before | live after | spills before | spills after | PTX |")?;
            writeln!(out, "|--:|--:|--:|--:|--:|---|")?;
            let show = |value: Option<u32>| value.map_or("—".to_owned(), |value| value.to_string());
            for line in kernel.lines.iter().take(8) {
                let number = line.after_line.map_or("gone".to_owned(), |line| line.to_string());
                let (live, was) = (show(line.live_after), show(line.live_before));
                let (spills, spilt) = (show(line.spills_after), show(line.spills_before));
                let text = code(&shorten(&line.text, 80));
                writeln!(out, "| {number} | {was} | {live} | {spilt} | {spills} | {text} |")?;
            }
            writeln!(out)?;
        }
        if let Some(command) = &unit.command {
            write_fence("sh", command, out)?;
        }
        if let Some(patch) = &kernel.patch {
            let mark = |text: &Option<String>, sign: char| -> String {
                text.iter().flat_map(|text| text.lines()).map(|line| format!("{sign}{line}\n")).collect()
            };
            let text = format!("{}{}", mark(&patch.before, '-'), mark(&patch.after, '+'));
            write_fence("diff", text.trim_end(), out)?;
        }
    }
    if worse.len() > DETAILS {
        writeln!(out, "…and {} more kernels.\n", worse.len() - DETAILS)?;
    }
    writeln!(out, "</details>")
}

/// A block that nothing inside can end.
fn write_fence(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = terminal_lines(text);
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    writeln!(out, "{fence}{language}\n{text}\n{fence}\n")
}

/// Text on one line as code, in a cell of a table.
fn code(text: &str) -> String {
    let safe = terminal(text).replace('`', "'").replace('|', "\\|");
    format!("`{safe}`")
}

/// Text on one line that Markdown and HTML leave as it is.
fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in terminal(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '@' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}
