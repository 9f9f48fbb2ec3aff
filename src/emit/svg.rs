//! The pressure curve as a picture for documents: one panel a kernel, light or dark as the reader's page is.

use crate::emit::escape::markup as escape;
use std::io::{self, Write};

use crate::report::Unit;
use crate::report::annotation::{AnnotatedKernel, Annotation, Mark};

const WIDTH: f64 = 960.0;
const PANEL: f64 = 236.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 138.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 186.0;
/// Figures along the curve at most: more than pixels cannot be seen.
const SAMPLES: usize = 760;
/// Labels closer than this would overlap.
const LABEL: f64 = 13.0;

const STYLE: &str = "\
svg:root{background:#fff;max-width:100%;height:auto}text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#5d6773}\
.name{font:600 14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1d2329}.ink{fill:#1d2329}\
.area{fill:#2d8a7f;fill-opacity:.25;stroke:#2d8a7f;stroke-width:1.5;stroke-linejoin:round}.alloc{stroke:#1d2329}\
.step{stroke:#98a1ab;stroke-dasharray:2 3}.axis{stroke:#e3e4e1}.loop{fill:#8b949e;fill-opacity:.1}.peak{fill:#c8641b}\
.spill{stroke:#c22f3d}.barrier{stroke:#7a55b8}.budget{stroke:#2b64c4;stroke-width:2;fill:none}.setmaxnreg{stroke:#2b64c4}.blue{fill:#2b64c4}\
@media(prefers-color-scheme:dark){svg:root{background:#101418}text{fill:#95a0ac}.name,.ink{fill:#d5dbe2}.area{fill:#4db3a5;stroke:#4db3a5}.alloc{stroke:#d5dbe2}\
.step{stroke:#626d79}.axis{stroke:#272d34}.peak{fill:#e59145}.spill{stroke:#f0727e}.barrier{stroke:#b599ea}.budget,.setmaxnreg{stroke:#79a8f2}.blue{fill:#79a8f2}}";

/// Writes one picture of all kernels of all units.
pub fn write(units: &[(Unit, Annotation)], out: &mut dyn Write) -> io::Result<()> {
    let panels: Vec<(&Unit, &AnnotatedKernel)> = units
        .iter()
        .flat_map(|(unit, annotation)| annotation.kernels.iter().map(move |kernel| (unit, kernel)))
        .filter(|(_, kernel)| !kernel.instructions.is_empty())
        .collect();
    let height = PANEL * panels.len().max(1) as f64;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Live registers along the code\">\n<style>{STYLE}</style>"
    )?;
    if panels.is_empty() {
        writeln!(out, "<text x=\"{LEFT}\" y=\"{TOP}\">No code.</text>")?;
    }
    for (number, (unit, kernel)) in panels.into_iter().enumerate() {
        writeln!(out, "<g transform=\"translate(0 {})\">", PANEL * number as f64)?;
        write_panel(unit, kernel, out)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

struct Scale {
    count: f64,
    most: f64,
}

impl Scale {
    fn x(&self, instruction: u32) -> f64 {
        LEFT + f64::from(instruction) / self.count * (RIGHT - LEFT)
    }

    fn y(&self, registers: u32) -> f64 {
        BOTTOM - f64::from(registers) / self.most * (BOTTOM - TOP)
    }
}

fn write_panel(unit: &Unit, kernel: &AnnotatedKernel, out: &mut dyn Write) -> io::Result<()> {
    let live: Option<Vec<u32>> = kernel.instructions.iter().map(|one| Some(one.live?.gpr)).collect();
    let peak = live.iter().flatten().copied().max().unwrap_or(0);
    let budgets = kernel.instructions.iter().filter_map(|one| one.budget?.registers);
    let top = budgets.max().unwrap_or(0).max(peak).max(kernel.registers.unwrap_or(0)).max(8);
    let scale = Scale { count: kernel.instructions.len() as f64, most: f64::from(top) * 1.08 };
    writeln!(out, "<text class=\"name\" x=\"{LEFT}\" y=\"24\">{}</text>", escape(&shown(&kernel.name)))?;
    writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"42\">{}</text>",
        escape(&summary(unit, kernel, live.is_some().then_some(peak)))
    )?;
    for span in &kernel.loops {
        let (from, to) = (scale.x(span.first.0 / 16), scale.x(span.last.0 / 16 + 1));
        writeln!(
            out,
            "<rect class=\"loop\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>",
            to - from,
            BOTTOM - TOP
        )?;
    }
    writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>")?;
    match &live {
        Some(live) => write_curve(kernel, live, peak, &scale, out)?,
        None => {
            let arch = unit.arch.as_deref().unwrap_or("this architecture");
            let (x, y) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
            let text = format!("Live registers are not known for {arch}.");
            writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(&text))?;
        }
    }
    write_marks(kernel, &scale, out)?;
    let last = kernel.instructions.last().map_or(0, |instruction| instruction.pc.0);
    writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">pc 0000</text>", PANEL - 14.0)?;
    writeln!(out, "<text x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">{last:04x}</text>", PANEL - 14.0)
}

fn summary(unit: &Unit, kernel: &AnnotatedKernel, peak: Option<u32>) -> String {
    let mut said = vec![unit.arch.clone().unwrap_or_default()];
    said.extend(kernel.registers.map(|registers| format!("{registers} registers")));
    let line = kernel
        .peak
        .and_then(|pc| kernel.instructions.get(pc.0 as usize / 16)?.ptx_line)
        .map(|line| format!(" at line {line}"))
        .unwrap_or_default();
    said.extend(peak.map(|peak| format!("{peak} live at most{line}")));
    said.push(format!("{} instructions", kernel.instructions.len()));
    let spills = kernel.instructions.iter().flat_map(|one| &one.marks).filter(|mark| mark.is_spill()).count();
    if spills > 0 {
        said.push(format!("{spills} spills"));
    }
    said.join(" · ")
}

fn write_curve(
    kernel: &AnnotatedKernel,
    live: &[u32],
    peak: u32,
    scale: &Scale,
    out: &mut dyn Write,
) -> io::Result<()> {
    let stretch = live.len().div_ceil(SAMPLES).max(1);
    let mut path = format!("M{LEFT:.1} {BOTTOM:.1}");
    for (number, chunk) in live.chunks(stretch).enumerate() {
        let from = u32::try_from(number * stretch).unwrap_or(u32::MAX);
        let to = u32::try_from(number * stretch + chunk.len()).unwrap_or(u32::MAX);
        let y = scale.y(chunk.iter().copied().max().unwrap_or(0));
        path += &format!("L{:.1} {y:.1}H{:.1}", scale.x(from), scale.x(to));
    }
    writeln!(out, "<path class=\"area\" d=\"{path}V{BOTTOM:.1}Z\"/>")?;
    // Weightiest first: what would overlap is left out.
    let mut labels: Vec<(f64, String, &str)> = Vec::new();
    if let Some(registers) = kernel.registers {
        let y = scale.y(registers);
        writeln!(out, "<path class=\"alloc\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>")?;
        labels.push((y, format!("{registers} allocated"), "ink"));
    }
    write_budgets(kernel, scale, &mut labels, out)?;
    for step in kernel.steps.iter().filter(|step| f64::from(step.registers) <= scale.most) {
        let y = scale.y(step.registers);
        writeln!(out, "<path class=\"step\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>")?;
        let blocks = if step.blocks_per_sm == 1 { "block" } else { "blocks" };
        labels.push((y, format!("{} → {} {blocks}/SM", step.registers, step.blocks_per_sm), ""));
    }
    let mut taken: Vec<f64> = Vec::new();
    for (y, text, class) in labels {
        if taken.iter().all(|other| (other - y).abs() >= LABEL) {
            taken.push(y);
            writeln!(
                out,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                RIGHT + 8.0,
                y + 4.0,
                escape(&text)
            )?;
        }
    }
    if let Some(pc) = kernel.peak {
        let (x, y) = (scale.x(pc.0 / 16), scale.y(peak));
        writeln!(out, "<circle class=\"peak\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>")?;
        writeln!(
            out,
            "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{peak}</text>",
            LEFT - 8.0,
            y + 4.0
        )?;
    }
    writeln!(out, "<text x=\"{:.1}\" y=\"{BOTTOM}\" text-anchor=\"end\">0</text>", LEFT - 8.0)
}

/// The budgets that setmaxnreg set, where they hold.
fn write_budgets(
    kernel: &AnnotatedKernel,
    scale: &Scale,
    labels: &mut Vec<(f64, String, &'static str)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut path = String::new();
    let mut at = 0u32;
    for run in kernel.instructions.chunk_by(|a, b| a.budget == b.budget) {
        let to = at.saturating_add(u32::try_from(run.len()).unwrap_or(u32::MAX));
        if let Some(registers) = run.first().and_then(|first| first.budget).and_then(|budget| budget.registers) {
            let y = scale.y(registers).max(TOP - 8.0);
            path += &format!("M{:.1} {y:.1}H{:.1}", scale.x(at), scale.x(to));
            if !labels.iter().any(|(other, ..)| (other - y).abs() < LABEL) {
                labels.push((y, format!("{registers} budget"), "blue"));
            }
        }
        at = to;
    }
    if path.is_empty() { Ok(()) } else { writeln!(out, "<path class=\"budget\" d=\"{path}\"/>") }
}

fn write_marks(kernel: &AnnotatedKernel, scale: &Scale, out: &mut dyn Write) -> io::Result<()> {
    for (class, lane) in [("spill", 0.0), ("barrier", 1.0), ("setmaxnreg", 1.0)] {
        let mut path = String::new();
        let mut last = f64::NEG_INFINITY;
        for instruction in &kernel.instructions {
            let is = |mark: &Mark| match mark {
                Mark::SpillStore { .. } | Mark::SpillRefill { .. } | Mark::Spill => class == "spill",
                Mark::Barrier { .. } => class == "barrier",
                Mark::Setmaxnreg { .. } => class == "setmaxnreg",
                _ => false,
            };
            let x = scale.x(instruction.pc.0 / 16);
            if instruction.marks.iter().any(is) && x - last >= 0.5 {
                last = x;
                path += &format!("M{x:.1} {}v7", BOTTOM + 5.0 + lane * 9.0);
            }
        }
        if !path.is_empty() {
            writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>")?;
        }
    }
    Ok(())
}

/// A name that fits: the start of a long one.
fn shown(name: &str) -> String {
    crate::report::shorten(name, 100).into_owned()
}
