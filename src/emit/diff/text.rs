//! For people at a terminal: figures, lines, code, kernel by kernel.

use std::io::{self, Write};

use serde_json::Value;

use super::{CODE_LEFT_OUT, LINES_LEFT_OUT, Options, left_out, moved_lines, side, step};
use crate::compare::{Difference, KernelDifference, LineChange, SassChange, UnitDifference};
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, BOLD, DIM, GOOD, RESET, WARN};
use crate::report::{abridge, shorten};

/// For people: figures, lines, code, kernel by kernel.
pub fn write(difference: &Difference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (at, unit) in difference.units.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_unit(unit, options, out)?;
    }
    Ok(())
}

fn write_unit(unit: &UnitDifference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_title(unit, out)?;
    for kernel in &unit.kernels {
        write_kernel(kernel, options, out)?;
    }
    Ok(())
}

/// Both sides, and the messages of ptxas that only one of them has.
pub fn write_title(unit: &UnitDifference, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BAD}-{RESET} {BOLD}{}{RESET}", terminal(&side(&unit.before)))?;
    writeln!(out, "{GOOD}+{RESET} {BOLD}{}{RESET}", terminal(&side(&unit.after)))?;
    for text in &unit.advisories_gone {
        writeln!(out, "  {GOOD}no longer{RESET}: {}", terminal(text))?;
    }
    for text in &unit.advisories_new {
        writeln!(out, "  {WARN}new{RESET}: {}", terminal(text))?;
    }
    Ok(())
}

/// One kernel: a blank line, its name, what differs.
pub fn write_kernel(kernel: &KernelDifference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let name = kernel.demangled.as_deref().unwrap_or(&kernel.name);
    write!(out, "\n{BOLD}{}{RESET}", terminal(&abridge(name, options.width.saturating_sub(30).max(20))))?;
    match kernel.side {
        "before" => return writeln!(out, "  {BAD}is gone{RESET}"),
        "after" => return writeln!(out, "  {GOOD}is new{RESET}"),
        _ => {}
    }
    if let Some(before) = &kernel.before_name {
        write!(out, "  {DIM}was {}{RESET}", terminal(&abridge(before, options.width / 2)))?;
    }
    if kernel.is_empty() {
        return writeln!(out, "  no difference");
    }
    writeln!(out)?;
    for change in &kernel.fields {
        let field = change.field.strip_prefix("resources.").unwrap_or(&change.field);
        writeln!(out, "  {field:<34}{:>12} → {}{}", value(&change.before), value(&change.after), delta(change))?;
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

fn delta(change: &crate::compare::FieldChange) -> String {
    match (change.before.as_i64(), change.after.as_i64()) {
        (Some(before), Some(after)) => format!("  {DIM}({:+}){RESET}", after - before),
        _ => String::new(),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "not known".to_owned(),
        Value::String(text) => terminal(text).into_owned(),
        value => shorten(&terminal(&value.to_string()), 60).into_owned(),
    }
}

/// Lines where live registers or spills moved, those that moved most.
fn write_lines(lines: &[LineChange], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let (shown, rest) = moved_lines(lines, options.top);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {DIM}{:>6} {:>6} {:>10} {:>10}  PTX{RESET}", "before", "after", "live", "spills")?;
    for line in shown {
        let number = |line: Option<crate::base::Line>| line.map_or("–".to_owned(), |line| line.to_string());
        let (before, after) = (number(line.before_line), number(line.after_line));
        let live = step(line.live_before, line.live_after);
        let spills =
            step(line.spills_before.filter(|count| *count > 0 || line.spills_gained() != 0), line.spills_after);
        let spills = if line.spills_gained() == 0 { String::new() } else { spills };
        let text = shorten(&terminal(&line.text), options.width.saturating_sub(40).max(20)).into_owned();
        writeln!(out, "  {before:>6} {after:>6} {live:>10} {spills:>10}  {text}")?;
    }
    if rest > 0 {
        writeln!(out, "  {DIM}and {rest} more lines ({}){RESET}", options.more)?;
    }
    Ok(())
}

/// Instructions that differ, registers renamed away.
fn write_code(sass: &SassChange, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if sass.gone + sass.new == 0 {
        return writeln!(out, "  the code is the same but for the names of registers");
    }
    writeln!(
        out,
        "  {DIM}code, registers renamed away:{RESET} {} the same, {} gone, {} new",
        sass.same, sass.gone, sass.new
    )?;
    let mut left = options.top;
    for hunk in &sass.hunks {
        if left == 0 {
            return writeln!(out, "  {DIM}… ({} shows more){RESET}", options.more);
        }
        writeln!(out, "  {DIM}…{RESET}")?;
        for line in &hunk.lines {
            let pc = |pc: Option<crate::base::Pc>| pc.map_or(String::new(), |pc| format!("{:04x}", pc.0));
            let (sign, style) = match (line.before_pc, line.after_pc) {
                (Some(_), None) => ("-", BAD),
                (None, Some(_)) => ("+", GOOD),
                _ => (" ", DIM),
            };
            let at = line.ptx_line.map_or(String::new(), |line| line.to_string());
            let text = shorten(&terminal(&line.text), options.width.saturating_sub(28).max(20)).into_owned();
            writeln!(out, "  {style}{sign} {:>5} {:>5} {at:>6}  {text}{RESET}", pc(line.before_pc), pc(line.after_pc))?;
            if sign != " " {
                left = left.saturating_sub(1);
            }
        }
    }
    if sass.left_out > 0 {
        writeln!(out, "  {DIM}… {}{RESET}", left_out(sass))?;
    }
    Ok(())
}
