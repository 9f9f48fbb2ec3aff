//! For people at a terminal: figures, lines, code, kernel by kernel.

use std::io::{self, Write};

use super::{
    CODE_LEFT_OUT, CYCLES, LINES_LEFT_OUT, Options, Overall, amount, has_cycles, left_out, loop_title, loop_verdict,
    moved_lines, other_figures, ranking, same_instructions, shown_figures, shown_loops, side, step, title, verdict,
    worst_first,
};
use crate::compare::{Difference, KernelDifference, LineChange, Outcome, SassChange, UnitDifference};
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, BOLD, DIM, GOOD, RESET, WARN, count, thousands, wrap};
use crate::report::{abridge, distinct, shorten, spelt};

/// For people: figures, lines, code, kernel by kernel.
pub fn write(difference: &Difference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (at, unit) in difference.units.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_unit(unit, options, out)?;
    }
    for (text, style) in super::alone(difference) {
        writeln!(out)?;
        for (at, line) in wrap(&terminal(&text), options.width.saturating_sub(2)).iter().enumerate() {
            writeln!(out, "{style}{}{line}{RESET}", if at == 0 { "" } else { "  " })?;
        }
    }
    Ok(())
}

fn write_unit(unit: &UnitDifference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_title(unit, options.width, out)?;
    let kernels = worst_first(unit);
    if kernels.iter().filter(|kernel| Overall::of(kernel) != Overall::Same).count() > ranking::MANY {
        return ranking::write(&kernels, options, out);
    }
    for kernel in kernels.iter().filter(|kernel| Overall::of(kernel) != Overall::Same) {
        write_kernel(kernel, options, out)?;
    }
    let same: Vec<&str> =
        kernels.iter().filter(|kernel| Overall::of(kernel) == Overall::Same).map(|k| name(k)).collect();
    match same.as_slice() {
        [] => Ok(()),
        [only] if kernels.len() == 1 => writeln!(out, "\n{BOLD}{}{RESET}  no difference", terminal(only)),
        same => {
            let some = distinct(same.get(..ALIKE).unwrap_or(same), 40);
            let more = if same.len() > ALIKE { ", …" } else { "" };
            let text = format!("no difference in {}: {}{more}", count(same.len() as u64, "kernel"), some.join(", "));
            writeln!(out)?;
            for line in wrap(&terminal(&text), options.width) {
                writeln!(out, "{DIM}{line}{RESET}")?;
            }
            Ok(())
        }
    }
}

/// Columns from which a table of figures has room to spare.
const ROOMY: usize = 72;
/// Kernels without a difference that are named.
const ALIKE: usize = 6;

fn name(kernel: &KernelDifference) -> &str {
    kernel.demangled.as_deref().unwrap_or(&kernel.name)
}

/// The colour of better and worse.
fn colour(outcome: Outcome) -> anstyle::Style {
    match outcome {
        Outcome::Better => GOOD,
        Outcome::Worse => BAD,
        Outcome::Same | Outcome::Unknown => DIM,
    }
}

/// Both sides, and the messages of ptxas that only one of them has.
pub fn write_title(unit: &UnitDifference, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let sides = [(&unit.before, BAD, "-"), (&unit.after, GOOD, "+")];
    for (of, style, sign) in sides {
        for (at, line) in wrap(&terminal(&side(of)), width.saturating_sub(4)).iter().enumerate() {
            let sign = if at == 0 { format!("{style}{sign}{RESET} ") } else { "    ".to_owned() };
            writeln!(out, "{sign}{BOLD}{line}{RESET}")?;
        }
    }
    let said = [(&unit.advisories_gone, GOOD, "no longer"), (&unit.advisories_new, WARN, "new")];
    for (texts, style, word) in said {
        for text in texts {
            hanging(&format!("{style}{word}{RESET}: {}", terminal(&spelt(text))), width, out)?;
        }
    }
    Ok(())
}

/// A text at two columns, the rest of it at four.
fn hanging(text: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    for (at, line) in wrap(text, width.saturating_sub(4)).iter().enumerate() {
        writeln!(out, "  {}{line}", if at == 0 { "" } else { "  " })?;
    }
    Ok(())
}

/// One kernel: a blank line, its name, what differs.
pub fn write_kernel(kernel: &KernelDifference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let overall = Overall::of(kernel);
    let style = match overall {
        Overall::Worse | Overall::Gone => BAD,
        Overall::Mixed => WARN,
        Overall::Better | Overall::New => GOOD,
        Overall::Changed | Overall::Renamed | Overall::Same => DIM,
    };
    let shown = abridge(name(kernel), options.width.saturating_sub(30).max(20));
    write!(out, "\n{BOLD}{}{RESET}  {style}{}{RESET}", terminal(&shown), overall.word())?;
    if let Some(before) = kernel.before_name.as_ref().filter(|_| kernel.side == "both") {
        write!(out, "  {DIM}was {}{RESET}", terminal(&abridge(before, options.width / 2)))?;
    }
    writeln!(out)?;
    if kernel.side != "both" || kernel.is_empty() {
        return Ok(());
    }
    let news = [(&kernel.findings_new, BAD, "new"), (&kernel.findings_gone, GOOD, "no longer")];
    for (texts, style, word) in news {
        for text in texts {
            hanging(&format!("{style}{word}{RESET} {}", terminal(text)), options.width, out)?;
        }
    }
    // What a table of figures takes where there is room, and where there is not.
    let wide = if options.width < ROOMY { 7 } else { 10 };
    for change in shown_figures(kernel) {
        let (figure, style) = (change.figure, colour(change.outcome));
        let (before, after) = (amount(figure, change.before), amount(figure, change.after));
        writeln!(out, "  {:<20} {before:>wide$} → {after:<wide$} {style}{}{RESET}", title(figure), verdict(change))?;
    }
    for change in shown_loops(kernel) {
        let (before, after) = (thousands(change.before), thousands(change.after));
        let (title, style) = (loop_title(change), colour(change.outcome));
        writeln!(out, "  {title:<20} {before:>wide$} → {after:<wide$} {style}{}{RESET}", loop_verdict(change))?;
    }
    if has_cycles(kernel) {
        hanging(&format!("{DIM}{CYCLES}{RESET}"), options.width, out)?;
    }
    match other_figures(kernel) {
        0 => {}
        others => {
            let others = count(others as u64, "other figure");
            writeln!(out, "  {DIM}and {others} of the report (--format json){RESET}")?;
        }
    }
    write_lines(&kernel.lines, options, out)?;
    if kernel.lines_left_out {
        writeln!(out, "  {LINES_LEFT_OUT}")?;
    }
    match &kernel.sass {
        Some(sass) => write_code(sass, options, out),
        None if kernel.sass_left_out => writeln!(out, "  {CODE_LEFT_OUT}"),
        None => Ok(()),
    }
}

/// Lines where live registers or spills moved, those that moved most.
fn write_lines(lines: &[LineChange], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let (shown, rest) = moved_lines(lines, options.top);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {DIM}PTX lines where live registers or spills moved{RESET}")?;
    writeln!(out, "  {DIM}{:>6} {:>6} {:>10} {:>10}  PTX{RESET}", "before", "after", "live", "spills")?;
    for line in shown {
        let number = |line: Option<crate::base::Line>| line.map_or("–".to_owned(), |line| line.to_string());
        let (before, after) = (number(line.before_line), number(line.after_line));
        let live = step(line.live_before, line.live_after);
        let spills =
            step(line.spills_before.filter(|count| *count > 0 || line.spills_gained() != 0), line.spills_after);
        let spills = if line.spills_gained() == 0 { String::new() } else { spills };
        let text = shorten(&terminal(&line.text), options.width.saturating_sub(40).max(20)).into_owned();
        let moved = |gained: i64| match gained {
            1.. => BAD,
            0 => anstyle::Style::new(),
            _ => GOOD,
        };
        let (more, spilt) = (moved(line.live_gained()), moved(line.spills_gained()));
        writeln!(out, "  {before:>6} {after:>6} {more}{live:>10}{RESET} {spilt}{spills:>10}{RESET}  {text}")?;
    }
    if rest > 0 {
        writeln!(out, "  {DIM}and {rest} more lines ({}){RESET}", options.more)?;
    }
    Ok(())
}

/// Instructions that differ, registers renamed away.
fn write_code(sass: &SassChange, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if sass.gone + sass.new == 0 {
        return hanging(same_instructions(sass), options.width, out);
    }
    let same = count(sass.same, "instruction");
    let (gone, new) = (thousands(sass.gone), thousands(sass.new));
    let text = format!("{DIM}SASS, whatever registers it uses:{RESET} {same} the same, {gone} gone, {new} new");
    hanging(&text, options.width, out)?;
    let mut left = options.top;
    for hunk in &sass.hunks {
        writeln!(out, "  {DIM}…{RESET}")?;
        for line in &hunk.lines {
            let pc = |pc: Option<crate::base::Pc>| pc.map_or(String::new(), |pc| format!("{:04x}", pc.0));
            let (sign, style) = match (line.before_pc, line.after_pc) {
                (Some(_), None) => ("-", BAD),
                (None, Some(_)) => ("+", GOOD),
                _ => (" ", DIM),
            };
            if sign != " " {
                let Some(fewer) = left.checked_sub(1) else {
                    return writeln!(out, "  {DIM}… ({} shows more){RESET}", options.more);
                };
                left = fewer;
            }
            let at = line.ptx_line.map_or(String::new(), |line| line.to_string());
            let text = shorten(&terminal(&line.text), options.width.saturating_sub(28).max(20)).into_owned();
            writeln!(out, "  {style}{sign} {:>5} {:>5} {at:>6}  {text}{RESET}", pc(line.before_pc), pc(line.after_pc))?;
        }
    }
    if sass.left_out > 0 {
        writeln!(out, "  {DIM}… {}{RESET}", left_out(sass))?;
    }
    Ok(())
}
