//! Two builds side by side: for people at a terminal, as a page, for programs.

mod html;
mod ranking;
mod text;

use std::io::{self, Write};

use crate::compare::{
    Difference, Figure, FigureChange, How, KernelDifference, Likeness, LineChange, LoopChange, Outcome, SassChange,
    SideFacts, UnitDifference,
};
use crate::emit::text::{BAD, GOOD, thousands};

pub use html::write as write_html;
pub use text::{write as write_text, write_kernel, write_title};

/// What the reader asked to see.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many lines and changes of code for a kernel.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// What shows more lines and changes.
    pub more: &'static str,
}

/// How the command line is told to show more.
pub const MORE: &str = "--top";

/// What a figure is called.
fn title(figure: Figure) -> &'static str {
    match figure {
        Figure::Registers => "registers",
        Figure::SpillStoreBytes => "spill stores",
        Figure::SpillLoadBytes => "spill loads",
        Figure::SpillInstructions => "spill instructions",
        Figure::PeakLive => "live at most",
        Figure::BlocksPerSm => "blocks per SM",
        Figure::WarpsPerSm => "warps per SM",
        Figure::Instructions => "instructions",
        Figure::LoopCycles => "loop cycles a warp",
        Figure::StackBytes => "stack",
        Figure::SmemBytes => "static shared memory",
        Figure::Barriers => "barriers",
    }
}

/// What cycles are of, where some are shown.
const CYCLES: &str = "cycles: in which a scheduler does a warp's turn of the PTX's loop, the hottest where no line is named, with the warps \
                      that an SM holds: an estimate, the report's \"for each warp\"";

/// Whether a kernel's figures have cycles.
fn has_cycles(kernel: &KernelDifference) -> bool {
    shown_figures(kernel).any(|change| change.figure == Figure::LoopCycles) || shown_loops(kernel).next().is_some()
}

/// A figure with its unit.
fn amount(figure: Figure, value: Option<u64>) -> String {
    match value {
        None => "not known".to_owned(),
        Some(value) if figure.is_bytes() => format!("{} B", thousands(value)),
        Some(value) => thousands(value),
    }
}

/// `better: 40 fewer`
fn verdict(change: &FigureChange) -> String {
    let (Some(before), Some(after)) = (change.before, change.after) else { return String::new() };
    let (by, word) = match after.checked_sub(before) {
        Some(more) => (more, "more"),
        None => (before - after, if change.figure.is_bytes() { "less" } else { "fewer" }),
    };
    let by = amount(change.figure, Some(by));
    match change.outcome {
        Outcome::Better => format!("better: {by} {word}"),
        Outcome::Worse => format!("worse: {by} {word}"),
        Outcome::Same | Outcome::Unknown => "the same".to_owned(),
    }
}

/// The figures to show: those that people ask for, but for spill loads where nothing is spilt, and every other one that changed.
fn shown_figures(kernel: &KernelDifference) -> impl Iterator<Item = &FigureChange> {
    let spills = |change: &FigureChange| change.before.unwrap_or(0) + change.after.unwrap_or(0) > 0;
    kernel.figures.iter().filter(move |change| match change.figure {
        Figure::SpillLoadBytes => spills(change),
        Figure::WarpsPerSm => change.outcome != Outcome::Same,
        figure => figure.is_asked_for() || change.outcome != Outcome::Same,
    })
}

/// Loops whose cycles moved, but for the hottest, which is a figure.
fn shown_loops(kernel: &KernelDifference) -> impl Iterator<Item = &LoopChange> {
    kernel.loops.iter().filter(|change| change.outcome != Outcome::Same && !change.hottest)
}

/// `loop at line 84`
fn loop_title(change: &LoopChange) -> String {
    match change.after_line {
        Some(line) => format!("loop at line {line}"),
        None => "a loop".to_owned(),
    }
}

/// `worse: 11 cycles more`
fn loop_verdict(change: &LoopChange) -> String {
    let by = thousands(change.before.abs_diff(change.after));
    if change.outcome == Outcome::Worse {
        format!("worse: {by} cycles more")
    } else {
        format!("better: {by} cycles fewer")
    }
}

/// What became of a kernel as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Overall {
    Worse,
    Mixed,
    New,
    Gone,
    Better,
    Changed,
    Renamed,
    Same,
}

impl Overall {
    fn of(kernel: &KernelDifference) -> Overall {
        let any = |outcome| {
            kernel.figures.iter().any(|change| change.outcome == outcome)
                || kernel.loops.iter().any(|change| change.outcome == outcome)
        };
        let worse = any(Outcome::Worse) || !kernel.findings_new.is_empty();
        let better = any(Outcome::Better) || !kernel.findings_gone.is_empty();
        match (kernel.side, worse, better) {
            ("before", ..) => Overall::Gone,
            ("after", ..) => Overall::New,
            (_, true, true) => Overall::Mixed,
            (_, true, false) => Overall::Worse,
            (_, false, true) => Overall::Better,
            _ if kernel.is_empty() && kernel.paired_by == Some(How::Code) => Overall::Renamed,
            _ if kernel.is_empty() => Overall::Same,
            _ => Overall::Changed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Overall::Worse => "worse",
            Overall::Mixed => "better and worse",
            Overall::New => "is new",
            Overall::Gone => "is gone",
            Overall::Better => "better",
            Overall::Changed => "the same figures, other code",
            Overall::Renamed => "renamed, the same code",
            Overall::Same => "no difference",
        }
    }

    /// The class of the page's style.
    fn class(self) -> &'static str {
        match self {
            Overall::Worse | Overall::Gone => "worse",
            Overall::Better | Overall::New => "better",
            Overall::Mixed => "mixed",
            Overall::Changed | Overall::Renamed | Overall::Same => "note",
        }
    }
}

/// The kernels of a unit, what got worse first.
fn worst_first(unit: &UnitDifference) -> Vec<&KernelDifference> {
    let mut kernels: Vec<&KernelDifference> = unit.kernels.iter().collect();
    kernels.sort_by_key(|kernel| Overall::of(kernel));
    kernels
}

/// Paths of figures that differ and that no row shows.
fn other_figures(kernel: &KernelDifference) -> usize {
    const SHOWN: [&str; 14] = [
        "resources.registers",
        "resources.spill_store_bytes",
        "resources.spill_load_bytes",
        "resources.stack_bytes",
        "resources.smem_bytes",
        "resources.barriers",
        "resources.code_bytes",
        "pressure.gpr.peak",
        "occupancy.blocks_per_sm",
        "occupancy.warps_per_sm",
        "instructions.total",
        "instructions.decoded",
        "instructions.padding",
        "instructions.with_ptx_line",
    ];
    kernel.fields.iter().filter(|change| !SHOWN.contains(&change.field.as_str())).count()
}

/// What is said of code whose changes were not worked out.
const CODE_LEFT_OUT: &str = "the code differs; how is too much to work out";

/// What is said of kernels whose lines were not compared.
const LINES_LEFT_OUT: &str = "its lines were not compared: those of all kernels are too many";

/// What is said of code without an instruction that is gone or new.
fn same_instructions(sass: &SassChange) -> &'static str {
    match sass.likeness {
        Likeness::Identical => "the code is the same",
        Likeness::Renamed => "the code is the same but for the names of registers",
        Likeness::Alike | Likeness::Different => {
            "the same instructions, but registers, jumps or what they refer to differ beyond a renaming that could be proven"
        }
    }
}

/// What is said of changes that are in no hunk.
fn left_out(sass: &SassChange) -> String {
    format!("and {} instructions more, gone or new", sass.left_out)
}

/// The comparison as it is: one object and a line feed.
pub fn write_json(difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, difference).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// What only one side has, in words, and the style they are shown in; not escaped.
fn alone(difference: &Difference) -> impl Iterator<Item = (String, anstyle::Style)> {
    let sides = [(&difference.only_before, "gone", BAD), (&difference.only_after, "new", GOOD)];
    sides.into_iter().filter(|(sides, ..)| !sides.is_empty()).map(|(sides, word, style)| {
        let named: Vec<String> = sides.iter().map(side).collect();
        (format!("{word}: {}", named.join(", ")), style)
    })
}

/// What a side was built from and with; not escaped.
fn side(facts: &SideFacts) -> String {
    let mut text = facts.input.clone();
    if let Some(arch) = &facts.arch {
        text.push_str(&format!("  {arch}"));
    }
    if let Some(ptxas) = &facts.ptxas {
        let is_version = ptxas.starts_with(|c: char| c.is_ascii_digit());
        text.push_str(&if is_version { format!("  ptxas {ptxas}") } else { format!("  {ptxas}") });
    }
    if let Some(path) = &facts.ptxas_path {
        text.push_str(&format!(" ({path})"));
    }
    let own = |flag: &&String| *flag != "-v" && *flag != "-lineinfo" && !flag.starts_with("-arch=");
    for flag in facts.flags.iter().filter(own) {
        text.push_str(&format!(" {flag}"));
    }
    text
}

/// The lines where live registers or spills moved most, in their order, and how many more there are.
fn moved_lines(lines: &[LineChange], most: usize) -> (Vec<&LineChange>, usize) {
    let weight = |line: &LineChange| line.spills_gained().abs() * 100 + line.live_gained().abs();
    let moved: Vec<&LineChange> = lines.iter().filter(|line| weight(line) > 0 || line.before_line.is_none()).collect();
    let mut ranked: Vec<(i64, usize)> = moved.iter().enumerate().map(|(at, line)| (-weight(line), at)).collect();
    ranked.sort_unstable();
    let mut shown: Vec<usize> = ranked.into_iter().take(most).map(|(_, at)| at).collect();
    shown.sort_unstable();
    let rest = moved.len() - shown.len();
    (shown.into_iter().filter_map(|at| moved.get(at).copied()).collect(), rest)
}

fn step(before: Option<u32>, after: Option<u32>) -> String {
    let show = |value: Option<u32>| value.map_or("–".to_owned(), |value| value.to_string());
    match (before, after) {
        (None, None) => String::new(),
        (before, after) if before == after => show(after),
        (before, after) => format!("{} → {}", show(before), show(after)),
    }
}
