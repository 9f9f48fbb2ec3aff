//! The verdict for people at a terminal.

use std::io::{self, Write};

use super::{delta, figure, summary, without_name, word};
use crate::compare::LineChange;
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, BOLD, DIM, GOOD, NOTE, RESET, WARN, write_ptxas_files, write_wrapped};
use crate::gate::{Change, Comparison, Finding, FindingKind, Level, Outcome, UnitVerdict, Verdict};
use crate::report::{distinct, shorten};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Notes of every kind, every figure that moved.
    pub verbose: bool,
    /// Columns.
    pub width: usize,
}

/// Columns from which a table of figures has room to spare.
const ROOMY: usize = 72;
/// How many lines of PTX are shown for a kernel.
const LINES: usize = 12;

/// Writes the verdict: the sentence, then unit by unit what is wrong with the tables behind it.
pub fn write(verdict: &Verdict, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let style = match verdict.outcome {
        Outcome::Pass => GOOD,
        Outcome::Fail | Outcome::Error => BAD,
    };
    let outcome = word(verdict.outcome);
    let sentence = format!("gate: {style}{outcome}{RESET}  {}", summary(verdict, &terminal(&verdict.baseline)));
    write_wrapped(&sentence, "", "  ", options.width, out)?;
    let names = Names::of(verdict, options);
    write_ptxas_files(&verdict.ptxas_files, out)?;
    for unit in &verdict.units {
        let of_unit = |finding: &&Finding| {
            finding.path.as_deref() == Some(&unit.path) && finding.arch.as_deref() == Some(&unit.arch)
        };
        let mine: Vec<&Finding> = verdict.findings.iter().filter(of_unit).collect();
        let shown: Vec<&Finding> = mine.into_iter().filter(|finding| is_shown(finding, options)).collect();
        if !shown.is_empty() {
            write_unit(unit, &shown, &names, options, out)?;
        }
    }
    let known = |finding: &Finding| verdict.units.iter().any(|unit| Some(&unit.path) == finding.path.as_ref());
    let rest: Vec<&Finding> =
        verdict.findings.iter().filter(|finding| !known(finding) && is_shown(finding, options)).collect();
    if !rest.is_empty() {
        writeln!(out)?;
    }
    for finding in rest {
        write_finding(finding, &finding.message, "", &names, options, out)?;
    }
    let hidden = verdict.findings.iter().filter(|finding| finding.kind == FindingKind::NotChecked).count();
    if hidden > 0 && !options.verbose {
        writeln!(
            out,
            "{DIM}{hidden} recorded {} not part of this run{RESET}",
            if hidden == 1 { "unit was" } else { "units were" }
        )?;
    }
    Ok(())
}

fn is_shown(finding: &Finding, options: &Options) -> bool {
    options.verbose || finding.kind != FindingKind::NotChecked
}

fn label(level: Level) -> (anstyle::Style, &'static str) {
    match level {
        Level::Note => (NOTE, "note"),
        Level::Warning => (WARN, "warning"),
        Level::Failure => (BAD, "fail"),
        Level::Error => (BAD, "error"),
    }
}

fn write_finding(
    finding: &Finding,
    message: &str,
    indent: &str,
    names: &Names,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (style, label) = label(finding.level);
    let line = finding.ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let text = format!("{style}{label}{RESET}: {}{line}", terminal(&names.abridged(message)));
    write_wrapped(&text, indent, &format!("{indent}  "), options.width, out)
}

/// Long names of kernels, and what is shown of each: what tells it from the others.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(verdict: &Verdict, options: &Options) -> Names {
        let mut whole: Vec<&str> = Vec::new();
        for kernel in verdict.units.iter().flat_map(|unit| &unit.kernels) {
            let before = kernel.before_name.as_deref();
            for name in std::iter::once(kernel.demangled.as_str()).chain(before) {
                if !whole.contains(&name) {
                    whole.push(name);
                }
            }
        }
        let room = options.width.saturating_sub(16).max(24);
        let shown = if options.verbose { Vec::new() } else { distinct(&whole, room) };
        let mut names: Vec<(String, String)> =
            whole.into_iter().map(str::to_owned).zip(shown).filter(|(whole, shown)| whole != shown).collect();
        // A name may be a part of a longer one.
        names.sort_by_key(|(whole, _)| std::cmp::Reverse(whole.len()));
        Names(names)
    }

    /// A sentence with its names abridged.
    fn abridged(&self, text: &str) -> String {
        let known = self.0.iter().find(|(whole, _)| text.contains(whole.as_str()));
        known.map_or_else(|| text.to_owned(), |(whole, shown)| text.replace(whole.as_str(), shown))
    }
}

fn write_unit(
    unit: &UnitVerdict,
    findings: &[&Finding],
    names: &Names,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let ptxas = unit.ptxas.as_ref().map(|version| format!("  ptxas {}", terminal(version))).unwrap_or_default();
    let title = format!("{BOLD}{}{RESET}  {}{ptxas}", terminal(&unit.path), unit.arch);
    writeln!(out)?;
    write_wrapped(&title, "", "  ", options.width, out)?;
    // A kernel that is only new or only gone has nothing to compare.
    let failing = |kernel: &&Comparison| {
        let of_kernel = |finding: &&&Finding| finding.kernel.as_deref() == Some(&kernel.kernel);
        let grave = |finding: &&Finding| {
            finding.level >= Level::Failure
                && !matches!(finding.kind, FindingKind::NewKernel | FindingKind::RemovedKernel)
        };
        findings.iter().filter(of_kernel).any(grave)
    };
    let shown: Vec<&Comparison> = unit.kernels.iter().filter(|kernel| options.verbose || failing(kernel)).collect();
    let is_of = |finding: &Finding, kernel: &Comparison| finding.kernel.as_deref() == Some(&kernel.kernel);
    for finding in findings.iter().filter(|finding| !shown.iter().any(|kernel| is_of(finding, kernel))) {
        write_finding(finding, &finding.message, "  ", names, options, out)?;
    }
    for kernel in shown {
        let own: Vec<&Finding> = findings.iter().copied().filter(|finding| is_of(finding, kernel)).collect();
        write_kernel(kernel, &own, names, options, out)?;
    }
    if findings.iter().any(|finding| finding.level >= Level::Failure)
        && let Some(command) = &unit.command
    {
        writeln!(out, "  {DIM}repeat it{RESET}   {}", terminal(command))?;
        if findings.iter().all(|finding| finding.level < Level::Error) {
            writeln!(out, "  {DIM}if meant{RESET}    {} --update", terminal(command))?;
        }
    }
    Ok(())
}

/// A kernel: its name, what is found of it, its figures, its lines.
fn write_kernel(
    kernel: &Comparison,
    findings: &[&Finding],
    names: &Names,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n  {BOLD}{}{RESET}", terminal(&names.abridged(&kernel.demangled)))?;
    if let Some(before) = &kernel.before_name {
        writeln!(out, "    {DIM}recorded as{RESET} {}", terminal(&names.abridged(before)))?;
    }
    for finding in findings {
        write_finding(finding, without_name(finding, kernel), "    ", names, options, out)?;
    }
    if !kernel.figures.is_empty() {
        let wide = if options.width < ROOMY { 8 } else { 10 };
        writeln!(out, "    {DIM}{:<22}{:>wide$}{:>wide$}{RESET}", "", "before", "after")?;
        for change in &kernel.figures {
            let (style, remark) = match change.change {
                Change::Worse => (BAD, "worse"),
                Change::Better => (GOOD, "better"),
                Change::Tolerated => (DIM, "tolerated"),
                Change::Unknown => (BAD, "not known"),
                Change::Same => (DIM, ""),
            };
            let (before, after) = (figure(change.before), figure(change.after));
            let line = format!("    {:<22}{before:>wide$}{after:>wide$}{:>9}", change.title, delta(change));
            if remark.is_empty() {
                writeln!(out, "{}", line.trim_end())?;
            } else {
                writeln!(out, "{line}  {style}{remark}{RESET}")?;
            }
        }
    }
    write_lines(kernel, options, out)?;
    if let Some(patch) = &kernel.patch {
        write_patch(patch.before.as_deref(), patch.after.as_deref(), options, out)?;
    }
    Ok(())
}

/// The lines where it happened.
fn write_lines(kernel: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if let Some(from) = &kernel.lines_from {
        let from = format!("{DIM}{}{RESET}", terminal(from));
        write_wrapped(&from, "    ", "      ", options.width, out)?;
    }
    if kernel.lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "    {DIM}{:>7}  {:>11}  {:>11}{RESET}", "line", "live", "spills")?;
    for line in kernel.lines.iter().take(LINES) {
        let number = line.after_line.map_or("gone".to_owned(), |line| line.to_string());
        let room = options.width.saturating_sub(41).max(20);
        let (live, spills) =
            (step(line.live_before, line.live_after, line), step(line.spills_before, line.spills_after, line));
        writeln!(out, "    {number:>7}  {live:>11}  {spills:>11}  {}", shorten(&terminal(&line.text), room))?;
    }
    if kernel.lines.len() > LINES {
        writeln!(out, "    {DIM}and {} more lines{RESET}", kernel.lines.len() - LINES)?;
    }
    Ok(())
}

fn step(before: Option<u32>, after: Option<u32>, line: &LineChange) -> String {
    let show = |value: Option<u32>| value.map_or("—".to_owned(), |value| value.to_string());
    match (line.before_line, line.after_line) {
        (None, _) if after.is_some() => format!("new {}", show(after)),
        _ if before == after && after.is_none_or(|after| after == 0) => String::new(),
        _ if before == after => show(after),
        _ => format!("{} → {}", show(before), show(after)),
    }
}

/// The lines of the baseline that the change would touch.
fn write_patch(before: Option<&str>, after: Option<&str>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.unwrap_or_default().lines().collect(), after.unwrap_or_default().lines().collect());
    writeln!(out, "    {DIM}in the baseline{RESET}")?;
    for line in before.iter().filter(|line| !after.contains(line)) {
        let text = format!("{BAD}- {}{RESET}", terminal(line.trim()));
        write_wrapped(&text, "    ", "        ", options.width, out)?;
    }
    for line in after.iter().filter(|line| !before.contains(line)) {
        let text = format!("{GOOD}+ {}{RESET}", terminal(line.trim()));
        write_wrapped(&text, "    ", "        ", options.width, out)?;
    }
    Ok(())
}
