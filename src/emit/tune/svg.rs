//! A picture of the rows: spills in loops against instructions, light or dark as its reader's page is.

use std::io::{self, Write};

use super::{changes, now};
use crate::emit::escape::markup as escape;
use crate::emit::text::thousands;
use crate::report::spelt;
use crate::tune::{Row, Tuned, Tuning};

const WIDTH: f64 = 960.0;
const PANEL: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 270.0;
/// Rows that have a line beside the picture.
const LISTED: usize = 14;
/// Points nearer than this have one label, which names all of them.
const NEAR: f64 = 12.0;

const STYLE: &str = "\
svg:root{background:#fff;max-width:100%;height:auto}text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#5d6773}\
.name{font:600 14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1d2329}.ink{fill:#1d2329}\
.axis{stroke:#c9cccf}.row{fill:#2d8a7f}.now{fill:#c8641b}\
@media(prefers-color-scheme:dark){svg:root{background:#101418}text{fill:#95a0ac}.name,.ink{fill:#d5dbe2}.axis{stroke:#454c55}.row{fill:#4db3a5}.now{fill:#e59145}}";

/// Writes the panel of one kernel.
pub(super) fn write_one(tuned: &Tuned, out: &mut dyn Write) -> io::Result<()> {
    open(PANEL, out)?;
    write_panel(tuned, out)?;
    writeln!(out, "</svg>")
}

fn open(height: f64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         style=\"max-width:100%;min-width:{WIDTH}px;height:auto\" role=\"img\" aria-label=\"Builds by spill bytes and by cycles or instructions\">\n<style>{STYLE}</style>"
    )
}

/// Writes one panel a kernel.
pub fn write_svg(tuning: &Tuning, out: &mut dyn Write) -> io::Result<()> {
    open(PANEL * tuning.kernels.len().max(1) as f64, out)?;
    for (at, tuned) in tuning.kernels.iter().enumerate() {
        writeln!(out, "<g transform=\"translate(0 {})\">", PANEL * at as f64)?;
        write_panel(tuned, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

/// What a row's place from left to right is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Across {
    Cycles,
    Instructions,
}

impl Across {
    /// Cycles where they are estimated.
    fn of(tuned: &Tuned) -> Across {
        let known = tuned.rows.iter().all(|row| row.figures.cycles_per_block.is_some());
        if known { Across::Cycles } else { Across::Instructions }
    }

    fn words(self) -> &'static str {
        match self {
            Across::Cycles => "cycles a block, estimated",
            Across::Instructions => "instructions, weighted by loops",
        }
    }

    /// Where a row lies: across, and spill bytes.
    fn place(self, row: &Row) -> Option<(f64, f64)> {
        let across = match self {
            Across::Cycles => row.figures.cycles_per_block?,
            Across::Instructions => row.figures.instructions_weighted?,
        };
        Some((across as f64, row.figures.spill_bytes? as f64))
    }
}

fn write_panel(tuned: &Tuned, out: &mut dyn Write) -> io::Result<()> {
    let across = Across::of(tuned);
    let points: Vec<(&Row, (f64, f64))> = tuned.rows.iter().filter_map(|row| Some((row, across.place(row)?))).collect();
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(|(_, at)| of(at)).fold(1.0, f64::max);
    let least = points.iter().map(|(_, at)| at.0).fold(f64::INFINITY, f64::min).min(most(|at| at.0));
    let (wide, high) = ((most(|at| at.0) - least).max(1.0), most(|at| at.1) * 1.08);
    let x = |value: f64| LEFT + 20.0 + (value - least) / wide * (RIGHT - LEFT - 40.0);
    let y = |value: f64| BOTTOM - value / high * (BOTTOM - TOP);
    let registers =
        now(tuned).and_then(|row| row.figures.registers).map_or(String::new(), |count| format!(", {count} registers"));
    writeln!(out, "<text class=\"name\" x=\"{LEFT}\" y=\"24\">{}</text>", escape(&spelt(&tuned.kernel)))?;
    writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"42\">{}</text>",
        escape(&format!("{}, {}{registers}; {} builds tried", tuned.input, tuned.arch, tuned.runs))
    )?;
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>")?;
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{BOTTOM}\"/>")?;
    writeln!(out, "<text x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">{}</text>", BOTTOM + 30.0, across.words())?;
    writeln!(out, "<text x=\"{}\" y=\"{}\">spill bytes</text>", LEFT + 6.0, TOP + 4.0)?;
    writeln!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>", LEFT - 6.0, BOTTOM + 4.0)?;
    let right = most(|at| at.0);
    for value in [least, right] {
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(value),
            BOTTOM + 15.0,
            thousands(value as u64)
        )?;
        if right <= least {
            break;
        }
    }
    let top = most(|at| at.1);
    writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 6.0,
        y(top) + 4.0,
        thousands(top as u64)
    )?;
    let mut labels: Vec<(f64, f64, String)> = Vec::new();
    for (row, (instructions, bytes)) in &points {
        let class = if row.row == 0 { "now" } else { "row" };
        let (cx, cy) = (x(*instructions), y(*bytes));
        let title = escape(&changes(row));
        writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"5\"><title>{title}</title></circle>"
        )?;
        match labels.iter_mut().find(|(x, y, _)| (*x - cx).abs() < NEAR && (*y - cy).abs() < NEAR) {
            Some((.., label)) => label.push_str(&format!(", {}", row.row)),
            None => labels.push((cx, cy, row.row.to_string())),
        }
    }
    for (cx, cy, label) in labels {
        writeln!(out, "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>", cx + 7.0, cy - 5.0)?;
    }
    for (at, row) in tuned.rows.iter().take(LISTED).enumerate() {
        let text = format!("{}  {}", row.row, changes(row));
        let text: String =
            if text.chars().count() > 58 { text.chars().take(57).chain(['…']).collect() } else { text };
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\">{}</text>", RIGHT + 24.0, TOP + 15.0 * at as f64, escape(&text))?;
    }
    Ok(())
}
