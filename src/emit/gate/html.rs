//! The verdict as one page that needs nothing else.

use std::io::{self, Write};

use super::{delta, figure, summary, without_name, word};
use crate::compare::LineChange;
use crate::emit::escape::markup as escape;
use crate::emit::page;
use crate::gate::{Change, Comparison, Finding, Level, UnitVerdict, Verdict};
use crate::report::distinct;

/// Characters of a name.
const NAME: usize = 120;

/// Writes the page.
pub fn write(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let outcome = word(verdict.outcome);
    let class = if outcome == "pass" { "pass" } else { "failure" };
    page::open(&format!("gate: {outcome}"), out)?;
    writeln!(out, "<h1>gate: <span class=\"{class}\">{outcome}</span></h1>")?;
    writeln!(out, "<p>{}.</p>", escape(&summary(verdict, &verdict.baseline)))?;
    for unit in &verdict.units {
        write_unit(unit, verdict, out)?;
    }
    let of_unit = |finding: &Finding| verdict.units.iter().any(|unit| Some(&unit.path) == finding.path.as_ref());
    let rest: Vec<&Finding> = verdict.findings.iter().filter(|finding| !of_unit(finding)).collect();
    if !rest.is_empty() {
        writeln!(out, "<h2>Beside</h2>")?;
        write_findings(&rest, None, out)?;
    }
    page::close(out)
}

fn write_unit(unit: &UnitVerdict, verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let ptxas = unit.ptxas.as_ref().map(|version| format!(" ptxas {version}")).unwrap_or_default();
    let title = escape(&format!("{} {}{ptxas}", unit.path, unit.arch));
    writeln!(out, "<h2>{title}</h2>")?;
    let mine =
        |finding: &&Finding| finding.path.as_deref() == Some(&unit.path) && finding.arch.as_deref() == Some(&unit.arch);
    let mine: Vec<&Finding> = verdict.findings.iter().filter(mine).collect();
    let is_of = |finding: &Finding, kernel: &Comparison| finding.kernel.as_deref() == Some(&kernel.kernel);
    let rest: Vec<&Finding> =
        mine.iter().copied().filter(|finding| !unit.kernels.iter().any(|kernel| is_of(finding, kernel))).collect();
    write_findings(&rest, None, out)?;
    let full: Vec<&str> = unit.kernels.iter().map(|kernel| kernel.demangled.as_str()).collect();
    for (kernel, short) in unit.kernels.iter().zip(distinct(&full, NAME)) {
        let own: Vec<&Finding> = mine.iter().copied().filter(|finding| is_of(finding, kernel)).collect();
        write_kernel(kernel, &short, &own, out)?;
    }
    if let Some(command) = &unit.command {
        writeln!(out, "<p>Repeat it:</p><pre>{}</pre>", escape(command))?;
    }
    Ok(())
}

/// Findings; under the name of a kernel without it.
fn write_findings(findings: &[&Finding], of: Option<&Comparison>, out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        let class = match finding.level {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Failure => "failure",
            Level::Error => "error",
        };
        let line = finding.ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
        writeln!(
            out,
            "<div class=\"finding {class}\"><b>{}</b><span>{}{line}</span></div>",
            finding.kind.id(),
            escape(of.map_or(&finding.message, |kernel| without_name(finding, kernel)))
        )?;
    }
    Ok(())
}

fn write_kernel(kernel: &Comparison, short: &str, findings: &[&Finding], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h3>{}</h3>", page::name(short, &kernel.demangled))?;
    write_findings(findings, Some(kernel), out)?;
    if !kernel.figures.is_empty() {
        writeln!(
            out,
            "<div class=\"panel fit\"><table><tr><th></th><th class=\"n\">before</th><th class=\"n\">after</th><th></th></tr>"
        )?;
        for change in &kernel.figures {
            let class = match change.change {
                Change::Worse | Change::Unknown => "worse",
                Change::Better => "better",
                Change::Tolerated | Change::Same => "tolerated",
            };
            writeln!(
                out,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n {class}\">{}</td></tr>",
                change.title,
                figure(change.before),
                figure(change.after),
                delta(change)
            )?;
        }
        writeln!(out, "</table></div>")?;
    }
    if let Some(from) = &kernel.lines_from {
        writeln!(out, "<p class=\"note\">{}</p>", escape(from))?;
    }
    if !kernel.lines.is_empty() {
        writeln!(
            out,
            "<div class=\"panel\"><table><tr><th class=\"n\">line</th><th class=\"n\">live</th><th class=\"n\">spills</th><th></th></tr>"
        )?;
        for line in &kernel.lines {
            write_line(line, out)?;
        }
        writeln!(out, "</table></div>")?;
    }
    if let Some(patch) = &kernel.patch {
        let mark = |text: &Option<String>, sign: char| -> String {
            text.iter().flat_map(|text| text.lines()).map(|line| format!("{sign}{line}\n")).collect()
        };
        let text = format!("{}{}", mark(&patch.before, '-'), mark(&patch.after, '+'));
        writeln!(
            out,
            "<details><summary>In the baseline, if it is meant</summary><pre>{}</pre></details>",
            escape(&text)
        )?;
    }
    Ok(())
}

fn write_line(line: &LineChange, out: &mut dyn Write) -> io::Result<()> {
    let show = |value: Option<u32>| value.map_or("—".to_owned(), |value| value.to_string());
    let step = |before: Option<u32>, after: Option<u32>| format!("{} → {}", show(before), show(after));
    let number = line.after_line.map_or("gone".to_owned(), |line| line.to_string());
    writeln!(
        out,
        "<tr><td class=\"n\">{number}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td><code>{}</code></td></tr>",
        step(line.live_before, line.live_after),
        step(line.spills_before, line.spills_after),
        escape(&line.text)
    )
}
