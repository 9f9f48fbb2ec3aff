//! The front end's own lines: what each became.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::figures::thousands;
use super::style::{DIM, RESET, WARN};
use super::{Options, write_wrapped};
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::emit::links;
use crate::report::{Kernel, SourceFacts, Unit, shorten};

/// Writes the lines with the most instructions, what is inlined where the kernel calls it, and the lines of that where one line has most.
/// Writes nothing where the cubin names no source.
pub fn write(kernel: &Kernel, unit: &Unit, top: usize, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let peak = kernel.pressure.as_ref().and_then(|pressure| pressure.gpr.source_line.as_ref());
    let peak = peak.map(|at| at.called_at.as_ref().map_or((at.file.as_str(), at.line), |call| (&call.file, call.line)));
    let title = "source lines with the most SASS instructions";
    write_lines(title, &kernel.source_lines, peak, unit, top, options, out)?;
    let Some(inlined) = &kernel.inlined_lines else { return Ok(()) };
    let place = place(&inlined.called_at.file, inlined.called_at.line, options);
    let title = format!("lines of what is inlined at {place}");
    write_lines(&title, &inlined.lines, None, unit, top, options, out)
}

/// `k.cu:12`
fn place(file: &str, line: Line, options: &Options) -> String {
    let short = file.rsplit(['/', '\\']).next().filter(|_| !options.verbose).unwrap_or(file);
    terminal(&format!("{short}:{line}")).into_owned()
}

fn write_lines(
    title: &str,
    lines: &[SourceFacts],
    peak: Option<(&str, Line)>,
    unit: &Unit,
    top: usize,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut most: Vec<&SourceFacts> = lines.iter().collect();
    most.sort_by_key(|facts| (Reverse(facts.instructions), &facts.file, facts.line));
    let more = most.len().saturating_sub(top);
    most.truncate(top);
    if most.is_empty() {
        return Ok(());
    }
    write_wrapped(&format!("{DIM}{title}{RESET}"), "  ", "    ", options.width, out)?;
    writeln!(out, "  {DIM}{:>6} {:>5} {:>6}  line{RESET}", "SASS", "live", "spills")?;
    let number = |value: Option<u32>| value.map_or("?".to_owned(), |value| thousands(u64::from(value)));
    for facts in most {
        let spills = facts.spill_stores.zip(facts.spill_loads).map(|(stores, loads)| stores + loads);
        let spilt = if spills.is_some_and(|spills| spills > 0) { WARN } else { anstyle::Style::new() };
        let place = place(&facts.file, facts.line, options);
        let at_peak = if peak == Some((&facts.file, facts.line)) { "  peak" } else { "" };
        let text = unit.sources.get(&facts.file).and_then(|text| text.own_line(facts.line)).unwrap_or_default();
        let room = options.width.saturating_sub(25 + place.chars().count() + at_peak.len()).max(10);
        let text = shorten(&terminal(text), room).into_owned();
        let place = links::to(options.links, &facts.file, Some(facts.line), &place);
        let text = if text.is_empty() { text } else { format!("  {text}") };
        writeln!(
            out,
            "  {:>6} {:>5} {spilt}{:>6}{RESET}  {DIM}{place}{RESET}{text}{WARN}{at_peak}{RESET}",
            thousands(u64::from(facts.instructions)),
            number(facts.live_gpr_max),
            number(spills)
        )?;
    }
    if more > 0 && options.verbose {
        writeln!(out, "  {DIM}and {more} more{RESET}")?;
    }
    Ok(())
}
