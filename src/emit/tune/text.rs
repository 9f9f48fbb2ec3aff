//! The table for people: what was tried, what it gives, how to make it.

use std::io::{self, Write};

use super::{Options, changes, now};
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, GOOD, RESET, WARN, thousands, write_wrapped};
use crate::report::demangle;
use crate::tune::{Aim, AimAnswer, ERROR_PERCENT, Row, TrialFigures, Tuned, Tuning};

/// A table for each kernel, the best for each aim, commands, and why.
pub fn write_text(tuning: &Tuning, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (at, tuned) in tuning.kernels.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_one(tuned, options, out)?;
    }
    Ok(())
}

fn write_one(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let name = demangle(&tuned.kernel).unwrap_or_else(|| tuned.kernel.clone());
    let ptxas = now(tuned).map(|row| row.ptxas.as_str()).unwrap_or_default();
    let title = format!(
        "{BOLD}{}{RESET}  {}  {}  ptxas {}",
        terminal(&name),
        terminal(&tuned.input),
        tuned.arch,
        terminal(ptxas)
    );
    write_wrapped(&title, "", "  ", options.width, out)?;
    write_wrapped(&summary(tuned), "  ", "  ", options.width, out)?;
    writeln!(out)?;
    write_table(tuned, options, out)?;
    writeln!(out)?;
    write_best(tuned, options, out)?;
    write_commands(tuned, options, out)?;
    write_why(tuned, options, out)?;
    write_rest(tuned, options, out)
}

/// `120 builds tried, 87 of them different; 9 are refused by ptxas`
pub(super) fn summary(tuned: &Tuned) -> String {
    let mut text = format!("{} builds tried, {} of them different", tuned.runs, tuned.different);
    for (reason, count) in &tuned.refused.count {
        text.push_str(&format!("; {count} {}", reason.words()));
    }
    if tuned.is_cut {
        text.push_str("; more could be tried: --budget");
    }
    text
}

/// A column: its head, and what a row has there.
pub(super) struct Column {
    pub head: [&'static str; 2],
    pub of: fn(&TrialFigures) -> Option<u64>,
    pub less_is_better: bool,
    /// Whether it is left out where all rows have the same, or there is no room.
    may_go: bool,
}

impl Column {
    /// Whether it says something: what is the same in every row does not.
    pub fn tells(&self, tuned: &Tuned) -> bool {
        let mut figures = tuned.rows.iter().map(|row| (self.of)(&row.figures));
        let first = figures.next();
        !self.may_go || figures.any(|value| Some(value) != first)
    }
}

pub(super) const COLUMNS: [Column; 10] = [
    Column { head: ["", "registers"], of: |f| f.registers.map(u64::from), less_is_better: true, may_go: false },
    Column { head: ["spills", "in loops"], of: |f| f.spills_in_loops, less_is_better: true, may_go: false },
    Column { head: ["spill", "bytes"], of: |f| f.spill_bytes, less_is_better: true, may_go: false },
    Column { head: ["blocks", "per SM"], of: |f| f.blocks_per_sm.map(u64::from), less_is_better: false, may_go: false },
    Column { head: ["cycles", "a block"], of: |f| f.cycles_per_block, less_is_better: true, may_go: true },
    Column { head: ["", "insts"], of: |f| f.instructions, less_is_better: true, may_go: false },
    Column { head: ["weighted", "by loops"], of: |f| f.instructions_weighted, less_is_better: true, may_go: true },
    Column { head: ["ptxas", "warns"], of: |f| Some(f.losses), less_is_better: true, may_go: true },
    Column { head: ["to shared", "in loops"], of: |f| f.shared_spills_in_loops, less_is_better: true, may_go: true },
    Column { head: ["shared", "bytes"], of: |f| f.smem_bytes, less_is_better: true, may_go: true },
];

/// What a table has room for: its columns and how wide each is, and the room for changes.
struct Layout {
    columns: Vec<(&'static Column, usize)>,
    change: usize,
}

impl Layout {
    /// Row numbers and the space around them.
    const MARGIN: usize = 7;

    fn new(tuned: &Tuned, width: usize) -> Layout {
        let figures = |column: &Column| tuned.rows.iter().map(|row| (column.of)(&row.figures)).collect::<Vec<_>>();
        let mut columns: Vec<(&Column, usize)> = COLUMNS
            .iter()
            .filter(|column| column.tells(tuned))
            .map(|column| {
                let widest = figures(column).into_iter().map(|value| figure(value).chars().count()).max();
                (column, widest.unwrap_or(0).max(column.head[0].len()).max(column.head[1].len()))
            })
            .collect();
        let longest = |of: fn(&str) -> usize| tuned.rows.iter().map(|row| of(&changes(row))).max().unwrap_or(0);
        let word = longest(|text| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0));
        let room = |columns: &[(&Column, usize)]| {
            let taken: usize = columns.iter().map(|(_, width)| width + 2).sum();
            width.saturating_sub(taken + Layout::MARGIN)
        };
        while room(&columns) < word
            && let Some(at) = columns.iter().rposition(|(column, _)| column.may_go)
        {
            columns.remove(at);
        }
        let change = longest(|text| text.chars().count()).min(room(&columns)).max(8);
        Layout { columns, change }
    }
}

pub(super) fn figure(value: Option<u64>) -> String {
    value.map_or("—".to_owned(), thousands)
}

fn write_table(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(base) = now(tuned) else { return Ok(()) };
    let Layout { columns, change } = Layout::new(tuned, options.width);
    for (line, [row, what]) in [["", ""], ["row", "change"]].into_iter().enumerate() {
        let heads: String = columns
            .iter()
            .map(|(column, width)| format!("  {:>width$}", column.head.get(line).unwrap_or(&"")))
            .collect();
        let head = format!("  {row:>3}  {what:<change$}{heads}");
        writeln!(out, "{DIM}{}{RESET}", head.trim_end())?;
    }
    for row in &tuned.rows {
        let mut lines = cut(&changes(row), change);
        // A word that has no room stands on a line of its own, its figures below.
        let has_room = lines.first().is_some_and(|line| line.chars().count() <= change);
        let rest = lines.split_off(usize::from(has_room).min(lines.len()));
        let head = lines.pop().unwrap_or_default();
        if !has_room {
            let text = rest.join(" ");
            write_wrapped(&terminal(&text), &format!("  {:>3}  ", row.row), "       ", options.width, out)?;
        }
        let number = if has_room { row.row.to_string() } else { String::new() };
        write!(out, "  {number:>3}  {:<change$}", terminal(&head))?;
        for (column, width) in &columns {
            let (value, before) = ((column.of)(&row.figures), (column.of)(&base.figures));
            let text = figure(value);
            match value.zip(before).filter(|(value, before)| value != before) {
                Some((value, before)) if (value < before) == column.less_is_better => {
                    write!(out, "  {GOOD}{text:>width$}{RESET}")?;
                }
                Some(_) => write!(out, "  {WARN}{text:>width$}{RESET}")?,
                None => write!(out, "  {text:>width$}")?,
            }
        }
        writeln!(out)?;
        for line in rest.iter().filter(|_| has_room) {
            writeln!(out, "       {}", terminal(line))?;
        }
    }
    Ok(())
}

/// Cut at spaces.
fn cut(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// What is best for each aim, and whether anything is.
pub(super) fn best(tuned: &Tuned) -> (Vec<(Aim, String)>, bool) {
    let Some(base) = now(tuned) else { return (Vec::new(), false) };
    let mut helps = false;
    let (mut answers, mut told): (Vec<(Aim, String)>, Vec<usize>) = Default::default();
    let find = |number: Option<usize>| tuned.rows.iter().find(|row| Some(row.row) == number);
    let equal = |answer: &AimAnswer| {
        let rows: Vec<String> = answer.equal.iter().filter(|row| **row > 0).map(usize::to_string).collect();
        match rows.as_slice() {
            [] => String::new(),
            [row] => format!("; row {row} is equal within the error of the estimate, {ERROR_PERCENT} %"),
            rows => format!("; rows {} are equal within the error of the estimate, {ERROR_PERCENT} %", rows.join(", ")),
        }
    };
    let tell = |row: &Row| format!("row {}: {}{}", row.row, changes(row), difference(&base.figures, &row.figures));
    for answer in &tuned.best {
        let (row, near) = (find(answer.row), find(answer.closest));
        helps |= row.or(near).is_some();
        let text = match (row, answer.is_met, near) {
            (_, Some(true), _) => "the kernel has none as it is".to_owned(),
            (Some(row), ..) if answer.aim == Aim::LeastCycles => {
                let told = if told.contains(&row.row) { format!("row {}, too", row.row) } else { tell(row) };
                format!("{told}{}", equal(answer))
            }
            (None, None, _) if answer.aim == Aim::LeastCycles => {
                format!("not estimated: {}", tuned.no_cycles.as_deref().unwrap_or("not known"))
            }
            (None, ..) if answer.aim == Aim::LeastCycles => {
                format!("the kernel as it is: no row has fewer beyond the error of the estimate, {ERROR_PERCENT} %")
            }
            (Some(row), ..) if told.contains(&row.row) => format!("row {}, too", row.row),
            (Some(row), ..) => tell(row),
            (None, None, _) => "not known".to_owned(),
            (None, Some(false), Some(near)) if told.contains(&near.row) => {
                format!("nothing that was tried; the closest is row {}, too", near.row)
            }
            (None, Some(false), Some(near)) => format!("nothing that was tried; the closest is {}", tell(near)),
            (None, Some(false), None) => "nothing that was tried".to_owned(),
        };
        told.extend(row.or(near).map(|row| row.row));
        answers.push((answer.aim, text));
    }
    (answers, helps)
}

fn write_best(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let width = Aim::ALL.iter().map(|aim| aim.words().len()).max().unwrap_or(0);
    writeln!(out, "  best for")?;
    let (answers, helps) = best(tuned);
    for (aim, text) in answers {
        let head = format!("    {:<width$}  ", aim.words());
        write_wrapped(&terminal(&text), &head, &" ".repeat(width + 6), options.width, out)?;
    }
    if !helps {
        let kinds: Vec<String> = tuned.tried.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        let text = format!("Nothing that was tried helps. Tried were: {}.", kinds.join(", "));
        write_wrapped(&terminal(&text), "  ", "  ", options.width, out)?;
    }
    Ok(())
}

/// `: 496 spill bytes fewer, 12 % more instructions by loops`
fn difference(now: &TrialFigures, then: &TrialFigures) -> String {
    let mut said = Vec::new();
    let mut count = |old: Option<u64>, new: Option<u64>, what: &str| {
        if let Some((old, new)) = old.zip(new).filter(|(old, new)| old != new) {
            said.push(format!("{} → {} {what}", thousands(old), thousands(new)));
        }
    };
    count(Some(now.losses), Some(then.losses), "losses that ptxas warns of");
    count(now.spills_in_loops, then.spills_in_loops, "spills in loops");
    count(now.shared_spills_in_loops, then.shared_spills_in_loops, "spills to shared memory in loops");
    count(now.spill_bytes, then.spill_bytes, "spill bytes");
    count(now.blocks_per_sm.map(u64::from), then.blocks_per_sm.map(u64::from), "blocks per SM");
    let mut share = |old: Option<u64>, new: Option<u64>, what: &str| {
        if let Some((old, new)) = old.zip(new).filter(|(old, _)| *old > 0) {
            let percent = (new as f64 / old as f64 - 1.0) * 100.0;
            if percent.abs() >= 0.5 {
                said.push(format!("{percent:+.0} % {what}"));
            }
        }
    };
    share(now.cycles_per_block, then.cycles_per_block, "cycles a block");
    share(now.instructions_weighted, then.instructions_weighted, "instructions weighted by loops");
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}

fn write_commands(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<&Row> = tuned.rows.iter().filter(|row| row.row > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  how to make a row {DIM}(the flags after -- are ptxas's own){RESET}")?;
    if let Some(note) = built_alone(tuned) {
        write_wrapped(note, "      ", "      ", options.width, out)?;
    }
    for row in rows {
        for (at, command) in row.commands.iter().enumerate() {
            let head = if at == 0 { format!("{:>4}  ", row.row) } else { "      ".to_owned() };
            // A shell takes the lines as one.
            let lines = cut(&terminal(command), options.width.saturating_sub(10).max(40));
            writeln!(out, "{head}{}", lines.join(" \\\n        "))?;
        }
        if options.verbose
            && let Some(patch) = &row.patch
        {
            for line in patch.lines() {
                writeln!(out, "      {DIM}{}{RESET}", terminal(line))?;
            }
        }
    }
    Ok(())
}

/// What a row is of a file that has other kernels, too.
pub(super) fn built_alone(tuned: &Tuned) -> Option<&'static str> {
    let note = "The file has other kernels, too: --entry builds this one alone. With some flags ptxas makes other code of it \
                in a build of the whole file.";
    tuned.is_alone.then_some(note)
}

/// Why there are so many registers: the sentence that says it, then what it rests on.
pub(super) fn why(tuned: &Tuned) -> Vec<String> {
    let why = &tuned.why;
    let (Some(base), Some(peak)) = (now(tuned), why.peak_live) else { return Vec::new() };
    let at = why.peak_ptx_line.map(|line| format!(" at line {line}")).unwrap_or_default();
    let registers = base.figures.registers.map_or("—".to_owned(), |count| count.to_string());
    let cap = why.cap.as_ref().map(|cap| format!("; what bounds them: {cap}")).unwrap_or_default();
    let mut said = vec![format!("why {registers} registers: {peak} are live at once{at}{cap}")];
    for holder in &why.holders {
        let names = match holder.virtual_registers.as_slice() {
            [] => "a value".to_owned(),
            [one] => one.clone(),
            [one, .., last] => format!("{one} … {last}"),
        };
        let made = holder.ptx_line.map(|line| format!(", made at line {line}")).unwrap_or_default();
        let next = holder.next_use_ptx_line.map(|line| format!(", next used at line {line}")).unwrap_or_default();
        let could = match holder.could.as_deref() {
            Some("recompute") => "; it could be recomputed",
            Some("reload") => "; it could be loaded again",
            _ => "",
        };
        let s = if holder.registers == 1 { "" } else { "s" };
        said.push(format!("{} register{s}: {names}{made}{next}{could}", holder.registers));
    }
    said.extend(why.gap.iter().cloned());
    said.push(match &why.frees_most {
        Some(frees) => format!(
            "the edit that frees most, built: {} ({}): {peak} → {} live",
            frees.change, frees.words, frees.peak_live
        ),
        None => "no single edit that was built lowers the peak".to_owned(),
    });
    said
}

fn write_why(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (at, text) in why(tuned).iter().enumerate() {
        let (head, next) = if at == 0 { ("  ", "    ") } else { ("    ", "      ") };
        if at == 0 {
            writeln!(out)?;
        }
        write_wrapped(&terminal(text), head, next, options.width, out)?;
    }
    Ok(())
}

/// What was not tried, and why not.
pub(super) fn not_tried(tuned: &Tuned) -> Vec<String> {
    tuned.suggestions.iter().map(|one| format!("{}: {}", one.change, one.reason)).collect()
}

fn write_rest(tuned: &Tuned, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for text in not_tried(tuned) {
        write_wrapped(&terminal(&format!("not tried: {text}")), "  ", "    ", options.width, out)?;
    }
    if options.verbose {
        for (reason, message) in &tuned.refused.first {
            let text = format!("{} first {}: {message}", tuned.refused.count.get(reason).unwrap_or(&0), reason.words());
            write_wrapped(&terminal(&text), "  ", "    ", options.width, out)?;
        }
    }
    if tuned.rows_left_out > 0 {
        let text = format!("{} more rows that no other beats: --rows", tuned.rows_left_out);
        write_wrapped(&text, "  ", "    ", options.width, out)?;
    }
    if !tuned.missing.is_empty() {
        let text = format!("blocks per SM are not known for sure: give {}", tuned.missing.join(" and "));
        write_wrapped(&text, "  ", "    ", options.width, out)?;
    }
    Ok(())
}
