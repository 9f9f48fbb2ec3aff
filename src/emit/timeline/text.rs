//! The timeline on a terminal: a row of characters for each lane and each stage.

use std::io::{self, Write};

use super::{Names, Options, circumstances, deeds, dependency, label, tail, verdict};
use crate::base::figures::thousands;
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, BOLD, DIM, GOOD, NOTE, RESET, WARN, wrap};
use crate::report::Answer;
use crate::report::timeline::{Lane, MarkKind, Stage, StageState, Timeline};
use crate::report::{shorten, spelt};

/// Columns of labels at most.
const LABEL: usize = 22;
/// Who waits for whom: rows at most.
const MOST_ROWS: usize = 8;

/// What a column shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Nothing,
    Runs,
    Waits,
    Stuck,
    Works,
    Multiplies,
    Arrives,
    Copies,
    Letter(char),
    Ends,
    Filling,
    Full,
    Used,
}

impl Cell {
    fn character(self) -> char {
        match self {
            Cell::Nothing => ' ',
            Cell::Runs => '─',
            Cell::Waits | Cell::Stuck => '·',
            Cell::Works => '▒',
            Cell::Multiplies | Cell::Full => '█',
            Cell::Arrives => '▲',
            Cell::Copies => '▼',
            Cell::Letter(letter) => letter,
            Cell::Ends => '┤',
            Cell::Filling => '░',
            Cell::Used => '▒',
        }
    }

    fn style(self) -> Option<anstyle::Style> {
        match self {
            Cell::Waits | Cell::Letter(_) => Some(DIM),
            Cell::Stuck => Some(BAD),
            Cell::Multiplies => Some(GOOD),
            Cell::Arrives => Some(WARN),
            Cell::Copies | Cell::Full => Some(NOTE),
            _ => None,
        }
    }
}

/// Writes all timelines, one after the other.
pub fn write_text(timelines: &[Timeline], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (number, timeline) in timelines.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        write_one(timeline, options, out)?;
    }
    Ok(())
}

fn write_one(timeline: &Timeline, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let names = Names::of(timeline);
    let style = match timeline.verdict {
        Answer::Ends => GOOD,
        Answer::Undecided => WARN,
        Answer::Hangs | Answer::MayHang | Answer::Undefined => BAD,
    };
    writeln!(out, "{BOLD}{}{RESET}", shorten(&terminal(&spelt(&timeline.kernel)), options.width))?;
    let said = format!("{style}{}{RESET}; {}", terminal(&verdict(timeline)), circumstances(timeline));
    paragraph(&said, "  ", options, out)?;
    let labels: Vec<String> = timeline.lanes.iter().map(lane_label).collect();
    let stages: Vec<String> = timeline.stages.iter().map(|stage| names.short(&stage.object).into_owned()).collect();
    let most = options.width / 3;
    let wide = labels.iter().chain(&stages).map(|text| text.chars().count()).max().unwrap_or(4);
    let wide = wide.clamp(4, LABEL.min(most.max(8)));
    let columns = Columns::of(timeline, options.width.saturating_sub(wide + 4).max(10));
    let from = thousands(timeline.first);
    let to = format!("{} steps, {} a column", thousands(timeline.last), columns.each);
    let room = columns.count.saturating_sub(from.len() + to.len());
    writeln!(out, "  {DIM}{:wide$}  {from}{}{to}{RESET}", "step", " ".repeat(room.max(1)))?;
    let row = |label: &str, cells: &[Cell], out: &mut dyn Write| -> io::Result<()> {
        let label = tail(&terminal(label), wide).into_owned();
        let pad = " ".repeat(wide.saturating_sub(label.chars().count()));
        write!(out, "  {label}{pad}  ")?;
        for run in cells.chunk_by(|a, b| a.style() == b.style()) {
            let text: String = run.iter().map(|cell| cell.character()).collect();
            match run.first().and_then(|cell| cell.style()) {
                Some(style) => write!(out, "{style}{text}{RESET}")?,
                None => write!(out, "{text}")?,
            }
        }
        writeln!(out)
    };
    for (lane, label) in timeline.lanes.iter().zip(&labels) {
        row(label, &columns.lane(lane, &names, !timeline.witness.is_empty()), out)?;
    }
    if !timeline.stages.is_empty() {
        writeln!(out, "  {DIM}stages{RESET}")?;
        for (stage, label) in timeline.stages.iter().zip(&stages) {
            row(label, &columns.stage(stage), out)?;
        }
    }
    let legend = "── runs  ·· waits  ██ multiplies  ▒▒ other work  ▼ issues copies  ▲ arrives  ┤ ends";
    paragraph(&format!("{DIM}{legend}{RESET}"), "  ", options, out)?;
    if !timeline.stages.is_empty() {
        paragraph(&format!("{DIM}stages: ░░ copies under way  ██ full  ▒▒ in use{RESET}"), "  ", options, out)?;
    }
    if !timeline.witness.is_empty() {
        writeln!(out, "  {BAD}where it hangs{RESET}")?;
        for stands in &timeline.witness {
            paragraph(&terminal(&stands.to_string()), "    ", options, out)?;
        }
    }
    if timeline.lanes.iter().any(|lane| lane.role.is_some()) {
        writeln!(out, "  {BOLD}who does what{RESET}")?;
        for lane in timeline.lanes.iter().filter(|lane| lane.block == 0) {
            paragraph(&terminal(&deeds(lane)), "    ", options, out)?;
        }
    }
    if !timeline.dependencies.is_empty() {
        writeln!(out, "  {BOLD}who waits for whom{RESET}")?;
        let shown = if options.verbose { usize::MAX } else { MOST_ROWS };
        for found in timeline.dependencies.iter().take(shown) {
            paragraph(&terminal(&dependency(timeline, &names, found)), "    ", options, out)?;
        }
        let more = timeline.dependencies.len().saturating_sub(shown);
        if more > 0 {
            writeln!(out, "    {DIM}and {more} more (-v shows them){RESET}")?;
        }
    }
    if let Some(common) = names.common {
        paragraph(&format!("{DIM}+8 stands for {}+8{RESET}", terminal(common)), "  ", options, out)?;
    }
    if !timeline.left_out.is_empty() {
        let text = format!("{DIM}not drawn: {}{RESET}", terminal(&timeline.left_out.join("; ")));
        paragraph(&text, "  ", options, out)?;
    }
    if options.verbose {
        write_events(timeline, out)?;
    }
    Ok(())
}

/// Everything that happens, by step.
fn write_events(timeline: &Timeline, out: &mut dyn Write) -> io::Result<()> {
    let mut events: Vec<(u64, usize, String)> = Vec::new();
    for (number, lane) in timeline.lanes.iter().enumerate() {
        for wait in &lane.waits {
            let until = match wait.to {
                Some(to) if to == wait.from => String::new(),
                Some(to) => format!(", until step {to}"),
                None if timeline.witness.is_empty() => String::new(),
                None => ", and never goes on".to_owned(),
            };
            let what = format!("line {}: waits for {}, phase {}{until}", wait.ptx_line, wait.object, wait.phase);
            events.push((wait.from, number, what));
        }
        for work in &lane.work {
            events.push((work.from, number, format!("{}, until step {}", work.what, work.to)));
        }
        for mark in &lane.marks {
            let what = match mark.what {
                MarkKind::Init => "initialises",
                MarkKind::Arrive => "arrives at",
                MarkKind::ExpectTx => "announces bytes for",
                MarkKind::Copy => "copies for",
                MarkKind::Commit => "commits to",
                MarkKind::Setmaxnreg => "sets its registers",
                MarkKind::Alloc => "takes tensor memory",
                MarkKind::Free => "gives tensor memory back",
            };
            let object = mark.object.as_deref().map(|object| format!(" {object}")).unwrap_or_default();
            let bytes = mark.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
            events.push((mark.step, number, format!("line {}: {what}{object}, {}{bytes}", mark.ptx_line, mark.count)));
        }
        events.extend(lane.ends.map(|step| (step, number, "ends".to_owned())));
    }
    events.sort();
    for (step, lane, what) in events {
        writeln!(out, "  {step:>6}  {}: {}", super::who(timeline, lane), terminal(&what))?;
    }
    Ok(())
}

fn paragraph(text: &str, indent: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let text = if options.verbose { text.into() } else { spelt(text) };
    for (index, line) in wrap(&text, options.width.saturating_sub(indent.len() + 2)).iter().enumerate() {
        writeln!(out, "{indent}{}{line}", if index == 0 { "" } else { "  " })?;
    }
    Ok(())
}

/// `consumer 4-7`
fn lane_label(lane: &Lane) -> String {
    let (first, second) = label(lane);
    match second.is_empty() {
        true => first,
        false => {
            let block = if lane.block > 0 { format!(" block {}", lane.block) } else { String::new() };
            format!("{first} {}{block}", crate::base::figures::ranges(&lane.warps))
        }
    }
}

/// Steps laid out in columns.
struct Columns {
    first: u64,
    last: u64,
    each: u64,
    count: usize,
}

impl Columns {
    fn of(timeline: &Timeline, room: usize) -> Columns {
        let steps = timeline.last.saturating_sub(timeline.first).max(1);
        let each = steps.div_ceil(room as u64).max(1);
        let count = usize::try_from(steps.div_ceil(each)).unwrap_or(room).min(room);
        Columns { first: timeline.first, last: timeline.last, each, count }
    }

    fn at(&self, step: u64) -> usize {
        let step = step.clamp(self.first, self.last) - self.first;
        usize::try_from(step / self.each).unwrap_or(0).min(self.count.saturating_sub(1))
    }

    /// The columns of a span, one at least.
    fn span(&self, from: u64, to: Option<u64>) -> std::ops::Range<usize> {
        let start = self.at(from);
        let end = to.map_or(self.count, |to| self.at(to));
        start..end.max(start + 1)
    }

    fn lane(&self, lane: &Lane, names: &Names<'_>, hangs: bool) -> Vec<Cell> {
        let mut cells = vec![Cell::Runs; self.count];
        let mut fill = |range: std::ops::Range<usize>, cell: Cell| {
            cells.iter_mut().take(range.end).skip(range.start).for_each(|place| *place = cell);
        };
        for wait in lane.waits.iter().filter(|wait| wait.to.is_none_or(|to| to > wait.from)) {
            fill(self.span(wait.from, wait.to), if wait.to.is_none() && hangs { Cell::Stuck } else { Cell::Waits });
        }
        for work in &lane.work {
            let cell = if work.what.contains("mma") { Cell::Multiplies } else { Cell::Works };
            fill(self.span(work.from, Some(work.to)), cell);
        }
        for kind in [MarkKind::Arrive, MarkKind::Copy] {
            for mark in lane.marks.iter().filter(|mark| mark.what == kind) {
                let at = self.at(mark.step);
                fill(at..at + 1, if kind == MarkKind::Copy { Cell::Copies } else { Cell::Arrives });
            }
        }
        if let Some(step) = lane.ends {
            fill(self.span(step, None), Cell::Nothing);
            let at = self.at(step);
            fill(at..at + 1, Cell::Ends);
        }
        // Names where a wait has room for them.
        for wait in lane.waits.iter().filter(|wait| wait.to.is_none_or(|to| to > wait.from)) {
            let range = self.span(wait.from, wait.to);
            let name = names.short(&wait.object);
            let room = cells.get(range.clone()).unwrap_or_default();
            let free = room.iter().all(|cell| matches!(cell, Cell::Waits | Cell::Stuck));
            if free && name.chars().count() + 2 <= room.len() {
                for (place, letter) in cells.iter_mut().skip(range.start + 1).zip(terminal(&name).chars()) {
                    *place = Cell::Letter(letter);
                }
            }
        }
        cells
    }

    fn stage(&self, stage: &Stage) -> Vec<Cell> {
        let mut cells = vec![Cell::Nothing; self.count];
        for span in &stage.spans {
            let cell = match span.state {
                StageState::Filling => Cell::Filling,
                StageState::Full => Cell::Full,
                StageState::Used => Cell::Used,
            };
            let range = self.span(span.from, span.to);
            cells.iter_mut().take(range.end).skip(range.start).for_each(|place| *place = cell);
        }
        cells
    }
}
