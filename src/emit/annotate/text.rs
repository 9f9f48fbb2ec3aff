//! The annotation as text: the PTX as written, the SASS under each line.

use std::io::{self, Write};

use super::notes::Notes;
use super::{Options, remarks, shown_lines};
use crate::base::Line;
use crate::emit::control::control;
use crate::emit::cost::waited_for;
use crate::emit::escape::terminal;
use crate::emit::text::{self, BOLD, DIM, NOTE, RESET, WARN};
use crate::report::annotation::{
    AnnotatedInstruction, AnnotatedKernel, By, Document, Group, IssueTime, Mark, Placed, View,
};
use crate::report::{Unit, abridge, demangle, shorten};

/// The longest name that is not abridged.
const NAME: usize = 100;
/// Columns between tab stops.
const TAB: usize = 8;

/// Writes one unit: its documents one after the other.
pub fn write(unit: &Unit, view: &View<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{BOLD}{}{RESET}", terminal(&unit.input))?;
    write!(out, "  {}", unit.arch.as_deref().unwrap_or_default())?;
    match &unit.ptxas {
        Some(ptxas) => {
            let file = ptxas.path.as_ref().map(|path| format!(" ({})", terminal(path))).unwrap_or_default();
            writeln!(out, "  ptxas {}{file}", ptxas.version.as_deref().unwrap_or("of unknown version"))?;
        }
        None => writeln!(out, "  cubin")?,
    }
    let page = Page::new(unit, view, options);
    for (kernel, name) in view.annotation.kernels.iter().zip(&page.names) {
        write_kernel(unit, kernel, name, options.width, out)?;
    }
    if options.cycles && !page.knows_cycles {
        let arch = unit.arch.as_deref().unwrap_or("this architecture");
        writeln!(out, "  when instructions issue is not known for {arch}: sm_90 and sm_90a were measured")?;
    }
    if view.by == By::Source {
        write_source_lines(unit, options, out)?;
    }
    for document in &view.documents {
        page.document(document, out)?;
    }
    Ok(())
}

/// The lines of each kernel with the most instructions, before all of them.
fn write_source_lines(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    const TOP: usize = 15;
    const WIDTH: usize = 100;
    let shown =
        text::Options { verbose: false, top: TOP, width: options.width.unwrap_or(WIDTH), pictures: true, links: None };
    let named = unit.kernels.iter().filter(|kernel| !kernel.source_lines.is_empty());
    for kernel in named {
        let name = abridge(kernel.demangled.as_deref().unwrap_or(&kernel.name), NAME);
        writeln!(out, "\n  {BOLD}{}{RESET}", terminal(&name))?;
        text::write_source_lines(kernel, unit, TOP, &shown, out)?;
    }
    Ok(())
}

/// What is known of a section as a whole.
fn write_kernel(
    unit: &Unit,
    kernel: &AnnotatedKernel,
    name: &str,
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut told: Vec<String> = kernel.registers.iter().map(|registers| format!("{registers} registers")).collect();
    let peak = kernel.peak.and_then(|pc| kernel.instructions.get(pc.0 as usize / 16));
    told.push(match peak.and_then(|peak| Some((peak, peak.live?))) {
        Some((peak, live)) => {
            let at = peak.ptx_line.map(|line| format!(" at line {line}")).unwrap_or_default();
            let doubt = if kernel.exact == Some(false) { format!(" {WARN}(not exact){RESET}") } else { String::new() };
            format!("{} live at most{at}{doubt}", live.gpr)
        }
        None => format!("live registers not known for {}", unit.arch.as_deref().unwrap_or("this architecture")),
    });
    told.push(instructions(unit, kernel));
    let spills = kernel.instructions.iter().flat_map(|instruction| &instruction.marks).filter(|mark| mark.is_spill());
    match spills.count() {
        0 => {}
        count => told.push(format!("{WARN}{count} spills{RESET}")),
    }
    let text = format!("{BOLD}{}{RESET}  {}", terminal(name), told.join(", "));
    for (at, line) in text::wrap(&text, width.unwrap_or(usize::MAX).saturating_sub(4)).iter().enumerate() {
        writeln!(out, "  {}{line}", if at == 0 { "" } else { "  " })?;
    }
    Ok(())
}

/// How many instructions a kernel has, as its report counts them, and those of the functions in its section.
fn instructions(unit: &Unit, kernel: &AnnotatedKernel) -> String {
    let words = kernel.instructions.len() as u64;
    let reported = unit.kernels.iter().find(|found| found.name == kernel.name && found.within.is_none());
    let reported = reported.and_then(|found| Some((found.instructions.total?, found.instructions.count()?)));
    let (total, own) = reported.unwrap_or((words, words));
    match words.saturating_sub(total) {
        0 => text::count(own, "instruction"),
        others => {
            let (own, others) = (text::count(own, "instruction"), text::thousands(others));
            format!("{own}, {others} more in the functions that it calls")
        }
    }
}

/// A name as people know it, on one line.
fn shown_name(name: &str) -> String {
    match demangle(name) {
        Some(demangled) => abridge(&demangled, NAME).into_owned(),
        None => name.to_owned(),
    }
}

struct Page<'v, 'a> {
    view: &'v View<'a>,
    options: &'v Options,
    knows_live: bool,
    knows_loops: bool,
    /// Whether when instructions issue is asked for and known.
    knows_cycles: bool,
    /// Width of the widest line number.
    digits: usize,
    /// Of the sections.
    names: Vec<String>,
    /// Of the PTX.
    notes: Notes,
}

impl<'v, 'a> Page<'v, 'a> {
    fn new(unit: &Unit, view: &'v View<'a>, options: &'v Options) -> Self {
        let instructions = || view.annotation.kernels.iter().flat_map(|kernel| &kernel.instructions);
        let last = view.documents.iter().filter_map(|document| document.text).map(|text| text.line_count()).max();
        Page {
            view,
            options,
            knows_live: instructions().any(|instruction| instruction.live.is_some()),
            knows_loops: instructions().any(|instruction| instruction.loop_depth.is_some_and(|depth| depth > 0)),
            knows_cycles: options.cycles && instructions().any(|instruction| instruction.issue.is_some()),
            digits: last.map_or(5, |last| last.to_string().len()).max(5),
            notes: Notes::of(unit, view),
            names: view.annotation.kernels.iter().map(|kernel| shown_name(&kernel.name)).collect(),
        }
    }

    fn document(&self, document: &Document<'a>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        let gutter = self.digits;
        if !document.name.is_empty() {
            writeln!(out, "{BOLD}{}{RESET}", terminal(document.name))?;
            if let Some(missing) = document.missing {
                for line in text::wrap(&missing.to_string(), self.options.width.unwrap_or(usize::MAX).saturating_sub(2))
                {
                    writeln!(out, "  {DIM}{line}{RESET}")?;
                }
            }
        }
        write!(out, "{DIM}{:>gutter$} │ {:>5}", "line", "pc")?;
        if self.knows_live {
            write!(out, "  gpr ugpr pred")?;
        }
        if self.knows_loops {
            write!(out, " loop")?;
        }
        if self.knows_cycles {
            write!(out, " {:>5} {:>4}", "cycle", "wait")?;
        }
        if self.options.control {
            write!(out, "  {:<20}", "control")?;
        }
        writeln!(out, "  instruction{RESET}")?;
        let mut groups = self.view.groups(document).peekable();
        let mut next = 1;
        for (from, to) in shown_lines(self.view, document, self.options) {
            if from > next && document.text.is_some() {
                self.gap(from - next, out)?;
            }
            next = to.saturating_add(1);
            while groups.next_if(|group| group.line.0 < from).is_some() {}
            let to = if document.text.is_some() { to } else { from };
            for line in from..=to {
                let group = groups.next_if(|group| group.line.0 == line);
                if let Some(text) = document.text {
                    self.source_line(Line(line), text.raw_line(Line(line)).unwrap_or_default(), group.as_ref(), out)?;
                } else {
                    writeln!(out, "{DIM}{line:>gutter$} │{RESET}")?;
                }
                self.sentences(Line(line), out)?;
                if let Some(group) = group {
                    self.group(&group, out)?;
                }
            }
        }
        let last = document.text.map_or(0, |text| text.line_count());
        if last >= next {
            self.gap(last + 1 - next, out)?;
        }
        // Code of no line at all, and lines that the text does not have: nothing is left out unless it was asked for.
        if self.options.lines.is_none() && !self.options.only_hot {
            let unplaced = self.view.groups(document).filter(|group| {
                group.line.0 == 0 || document.text.is_some_and(|text| group.line.0 > text.line_count())
            });
            for group in unplaced {
                let why = if group.line.0 == 0 {
                    "no line".to_owned()
                } else {
                    format!("line {}, which the text does not have", group.line)
                };
                writeln!(out, "{DIM}{:>gutter$} │ {why}{RESET}", "-")?;
                self.group(&group, out)?;
            }
        }
        Ok(())
    }

    /// What is known of a line of PTX itself.
    fn sentences(&self, line: Line, out: &mut dyn Write) -> io::Result<()> {
        for note in self.notes.get(line).into_iter().flat_map(|notes| &notes.sentences) {
            let before = self.digits + 5;
            for part in text::wrap(note, self.options.width.unwrap_or(usize::MAX).saturating_sub(before).max(20)) {
                writeln!(out, "{:>1$} {DIM}│{RESET}   {NOTE}{part}{RESET}", "", self.digits)?;
            }
        }
        Ok(())
    }

    fn gap(&self, lines: u32, out: &mut dyn Write) -> io::Result<()> {
        let what = if lines == 1 { "line" } else { "lines" };
        writeln!(out, "{DIM}{:>1$} ┊ {lines} {what}{RESET}", "⋯", self.digits)
    }

    /// A line as written; dim where nothing was made of it.
    fn source_line(&self, line: Line, text: &str, code: Option<&Group<'_>>, out: &mut dyn Write) -> io::Result<()> {
        let text = expand_tabs(text.trim_end_matches(['\r', '\n', '\0']));
        let text = terminal(&text);
        let cycles = code.and_then(|group| self.cycles(group)).map(|cycles| match cycles {
            1 => "1 cycle".to_owned(),
            more => format!("{more} cycles"),
        });
        let marks = self.notes.get(line).into_iter().flat_map(|notes| &notes.marks).map(String::as_str);
        let said = cycles.as_deref().into_iter().chain(marks).collect::<Vec<_>>().join(", ");
        let room = if said.is_empty() { 0 } else { said.chars().count() + 4 };
        let text = self.cut(&text, self.digits + 3 + room);
        let gutter = self.digits;
        if code.is_some() {
            write!(out, "{line:>gutter$} {DIM}│{RESET} {BOLD}{text}{RESET}")?;
        } else {
            write!(out, "{DIM}{line:>gutter$} │ {text}{RESET}")?;
        }
        if said.is_empty() { writeln!(out) } else { writeln!(out, "  {NOTE}▸ {said}{RESET}") }
    }

    fn cut<'t>(&self, text: &'t str, before: usize) -> std::borrow::Cow<'t, str> {
        match self.options.width {
            Some(width) => shorten(text, width.saturating_sub(before).max(4)),
            None => text.into(),
        }
    }

    fn group(&self, group: &Group<'_>, out: &mut dyn Write) -> io::Result<()> {
        // Code of a function that was inlined into several kernels says whose each part is.
        let several = group.members.first().map(|one| one.kernel) != group.members.last().map(|one| one.kernel);
        for members in group.members.chunk_by(|a, b| a.kernel == b.kernel) {
            if several && let Some(name) = members.first().and_then(|one| self.names.get(one.kernel as usize)) {
                writeln!(out, "{:>1$} {DIM}│ in {2}{RESET}", "", self.digits, terminal(name))?;
            }
            for placed in members {
                if let Some((_, instruction)) = self.view.get(placed) {
                    self.instruction(placed, instruction, out)?;
                }
            }
        }
        Ok(())
    }

    fn instruction(&self, placed: &Placed, instruction: &AnnotatedInstruction, out: &mut dyn Write) -> io::Result<()> {
        let mut row = format!("{:>5}", instruction.pc.to_string());
        if self.knows_live {
            row += &match instruction.live {
                Some(live) => format!("  {:>3} {:>4} {:>4}", live.gpr, live.ugpr, live.pred),
                None => format!("  {:>3} {:>4} {:>4}", "?", "?", "?"),
            };
        }
        if self.knows_loops {
            let depth = instruction.loop_depth.filter(|depth| *depth > 0);
            row += &format!(" {:>4}", depth.map(|depth| depth.to_string()).unwrap_or_default());
        }
        if self.knows_cycles {
            row += &match instruction.issue {
                Some(issue) => format!(" {:>5} {:>4}", issue.cycle, issue.waited),
                None => format!(" {:>5} {:>4}", "?", "?"),
            };
        }
        if self.options.control {
            row += &format!("  {:<20}", control(&instruction.control().into()));
        }
        let mut said = remarks(placed, instruction);
        if let Some(registers) = instruction.budget.and_then(|budget| budget.registers)
            && self.over(instruction, registers)
        {
            said.push(format!("over its budget of {registers}"));
        }
        said.extend(instruction.issue.filter(|_| self.knows_cycles).and_then(|issue| waits(&issue)));
        let said = said.join(", ");
        let before = self.digits + 5 + row.chars().count();
        let remark = if said.is_empty() { 0 } else { said.chars().count() + 4 };
        // A remark that leaves no room for the instruction stands below it.
        let below = self.options.width.is_some_and(|width| before + LEAST_TEXT + remark > width);
        let text = instruction.shown();
        let text = self.cut(&text, before + if below { 0 } else { remark });
        write!(out, "{:>1$} {DIM}│{RESET} {DIM}{row}{RESET}  {text}", "", self.digits)?;
        if !said.is_empty() {
            let style = if instruction.marks.iter().any(|mark| mark.is_spill() || matches!(mark, Mark::Peak { .. })) {
                WARN
            } else if instruction.marks.is_empty() {
                DIM
            } else {
                NOTE
            };
            if !below {
                return writeln!(out, "  {style}◂ {said}{RESET}");
            }
            let room = self.options.width.unwrap_or(usize::MAX).saturating_sub(self.digits + BELOW).max(LEAST_TEXT);
            for (at, line) in text::wrap(&said, room).iter().enumerate() {
                let mark = if at == 0 { '◂' } else { ' ' };
                write!(out, "\n{:>1$} {DIM}│{RESET}          {style}{mark} {line}{RESET}", "", self.digits)?;
            }
        }
        writeln!(out)
    }

    /// Cycles that the instructions of a line take a lone warp, each once; none where one is not known, or several kernels have them.
    fn cycles(&self, group: &Group<'_>) -> Option<u32> {
        let first = group.members.first().filter(|_| self.knows_cycles)?;
        let waited = |placed: &Placed| {
            let issue = self.view.get(placed)?.1.issue?;
            (placed.kernel == first.kernel).then_some(issue.waited)
        };
        group.members.iter().map(waited).sum()
    }

    fn over(&self, instruction: &AnnotatedInstruction, budget: u32) -> bool {
        instruction.live.is_some_and(|live| live.gpr > budget)
    }
}

/// Cycles from which on a wait is told in words.
const LONG_WAIT: u32 = 3;

/// What a lone warp waits for before an instruction, where that takes long.
fn waits(issue: &IssueTime) -> Option<String> {
    let told = || format!("{} cycles: {}", issue.waited, waited_for(issue.cause, issue.for_pc, issue.for_ptx_line));
    (issue.waited >= LONG_WAIT).then(told)
}

/// Columns before a remark that stands below its instruction, those of the line's number left out.
const BELOW: usize = 14;
/// Columns that an instruction has at least, beside a remark.
const LEAST_TEXT: usize = 12;

/// The text with tabs as spaces up to the next stop, so that the layout stays.
fn expand_tabs(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        if c == '\t' {
            let spaces = TAB - column % TAB;
            expanded.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            expanded.push(c);
            column += 1;
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand_tabs;

    #[test]
    fn tabs_go_to_the_next_stop() {
        assert_eq!(expand_tabs("\tadd"), "        add");
        assert_eq!(expand_tabs("abc\td"), "abc     d");
        assert_eq!(expand_tabs("12345678\t."), "12345678        .");
    }
}
