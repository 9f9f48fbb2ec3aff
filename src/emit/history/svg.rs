//! The curves as a picture: one panel for each figure of each kernel, a line for each ptxas.

use std::io::{self, Write};

use super::{Chart, release, short};
use crate::emit::escape::markup as escape;
use crate::emit::text::thousands;
use crate::gate::{Metric, Track};
use crate::report::abridge;

/// How wide a picture is, and where in it the curves are.
#[derive(Clone, Copy)]
struct Frame {
    /// The class by which a page shows the one that it has room for.
    class: &'static str,
    width: f64,
    left: f64,
    right: f64,
    /// Letters of a heading.
    letters: usize,
}

const WIDE: Frame = Frame { class: "wide", width: 960.0, left: 70.0, right: 770.0, letters: 120 };
/// For a page on a telephone, where the wide one would have to be moved sideways to see how it ends.
const NARROW: Frame = Frame { class: "narrow", width: 356.0, left: 48.0, right: 226.0, letters: 46 };

const PANEL: f64 = 190.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 150.0;
/// Panels of one picture at most.
const PANELS: usize = 60;
/// Colours of releases.
const COLOURS: usize = 4;
/// Labels closer than this would overlap.
const LABEL: f64 = 13.0;

const STYLE: &str = "\
svg:root{background:#fff;max-width:100%;height:auto}text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#5d6773}\
.name{font:600 14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1d2329}.axis{stroke:#e3e4e1}\
.l{fill:none;stroke-width:1.75;stroke-linejoin:round}.p{stroke:none}\
.l.s0{stroke:#2b64c4}.l.s1{stroke:#2d8a7f}.l.s2{stroke:#c8641b}.l.s3{stroke:#7a55b8}\
.p.s0,.v.s0{fill:#2b64c4}.p.s1,.v.s1{fill:#1f7469}.p.s2,.v.s2{fill:#a8520e}.p.s3,.v.s3{fill:#7a55b8}\
@media(prefers-color-scheme:dark){svg:root{background:#101418}text{fill:#95a0ac}.name{fill:#d5dbe2}.axis{stroke:#272d34}\
.l.s0{stroke:#79a8f2}.l.s1{stroke:#4db3a5}.l.s2{stroke:#e59145}.l.s3{stroke:#b599ea}\
.p.s0,.v.s0{fill:#79a8f2}.p.s1,.v.s1{fill:#4db3a5}.p.s2,.v.s2{fill:#e59145}.p.s3,.v.s3{fill:#b599ea}}";

/// Writes one picture of everything that is shown, as far as it has room.
pub fn write_svg(chart: &Chart<'_>, out: &mut dyn Write) -> io::Result<()> {
    let shown = chart.shown();
    let panels: Vec<(&Track, Metric)> =
        shown.iter().flat_map(|(track, figures)| figures.iter().map(move |metric| (*track, *metric))).collect();
    let left = panels.len().saturating_sub(PANELS);
    let height = PANEL * panels.len().clamp(1, PANELS) as f64 + if left > 0 { 30.0 } else { 0.0 };
    open(&WIDE, height, out)?;
    let left_edge = WIDE.left;
    if panels.is_empty() {
        writeln!(out, "<text x=\"{left_edge}\" y=\"{TOP}\">Nothing changed.</text>")?;
    }
    for (at, (track, metric)) in panels.iter().take(PANELS).enumerate() {
        writeln!(out, "<g transform=\"translate(0 {})\">", PANEL * at as f64)?;
        write_panel(&WIDE, chart, track, *metric, out)?;
        writeln!(out, "</g>")?;
    }
    if left > 0 {
        let y = height - 12.0;
        writeln!(out, "<text x=\"{left_edge}\" y=\"{y}\">and {left} more: --kernel and --figure choose</text>")?;
    }
    writeln!(out, "</svg>")
}

/// Writes one panel as a picture of its own, wide and narrow: the page shows one of them.
pub(super) fn write_one(chart: &Chart<'_>, track: &Track, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    for frame in [WIDE, NARROW] {
        open(&frame, PANEL, out)?;
        write_panel(&frame, chart, track, metric, out)?;
        writeln!(out, "</svg>")?;
    }
    Ok(())
}

fn open(frame: &Frame, height: f64, out: &mut dyn Write) -> io::Result<()> {
    let Frame { class, width, .. } = frame;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         style=\"max-width:100%;min-width:{width}px;height:auto\" role=\"img\" aria-label=\"Figures over commits\">\n<style>{STYLE}</style>"
    )
}

/// The height nearest to one at which a label has room beside those that are there; none where the panel is full.
fn free(wanted: f64, taken: &[f64]) -> Option<f64> {
    let is_free = |height: &f64| taken.iter().all(|other| (other - height).abs() >= LABEL);
    let steps = (0..20).flat_map(|step| [wanted + LABEL * f64::from(step), wanted - LABEL * f64::from(step)]);
    steps.filter(|height| (TOP - LABEL..=BOTTOM + LABEL / 2.0).contains(height)).find(is_free)
}

fn write_panel(frame: &Frame, chart: &Chart<'_>, track: &Track, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let &Frame { left, right, letters, .. } = frame;
    let name = abridge(track.title(), letters * 5 / 6);
    writeln!(out, "<text class=\"name\" x=\"{left}\" y=\"20\">{}</text>", escape(&name))?;
    let under = format!("{} · {} · {}", metric.title(), track.arch, track.input);
    writeln!(out, "<text x=\"{left}\" y=\"38\">{}</text>", escape(&abridge(&under, letters)))?;
    let values = || track.series.iter().flat_map(|one| &one.points).filter_map(|point| point.figures.get(metric));
    let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    // A part of the scale that nothing is in would flatten everything else.
    let floor = if least * 2 > most { least - (most - least).min(least) } else { 0 };
    let span = (most - floor).max(1) as f64 * 1.08;
    let y = |value: u64| BOTTOM - (value - floor) as f64 / span * (BOTTOM - TOP);
    let count = chart.commits.len().max(1) as f64;
    let x = |at: usize| left + at as f64 / count * (right - left);
    writeln!(out, "<path class=\"axis\" d=\"M{left} {BOTTOM}H{right}\"/>")?;
    for value in if least == most { vec![most] } else { vec![most, least] } {
        let (x, y) = (left - 8.0, y(value) + 4.0);
        writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", thousands(value))?;
    }
    let mut taken: Vec<f64> = Vec::new();
    for (number, series) in track.series.iter().enumerate() {
        let class = format!("s{}", number % COLOURS);
        let points: Vec<(usize, &crate::gate::Point, u64)> = series
            .points
            .iter()
            .filter_map(|point| {
                Some((chart.place((point.recorded_at, &point.commit)), point, point.figures.get(metric)?))
            })
            .collect();
        let mut path = String::new();
        for (at, _, value) in &points {
            path += &match path.is_empty() {
                true => format!("M{:.1} {:.1}", x(*at), y(*value)),
                false => format!("H{:.1}V{:.1}", x(*at), y(*value)),
            };
        }
        let Some((last, _, value)) = points.last() else { continue };
        writeln!(out, "<path class=\"l {class}\" d=\"{path}H{:.1}\"/>", x(last + 1))?;
        for change in series.changes(metric) {
            let at = chart.place((change.point.recorded_at, &change.point.commit));
            let hint = format!(
                "{} {}: {} → {}",
                change.point.recorded_at.date(),
                change.point.commit,
                thousands(change.before),
                thousands(change.after)
            );
            writeln!(
                out,
                "<circle class=\"p {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}</title></circle>",
                x(at),
                y(change.after),
                escape(&hint)
            )?;
        }
        // Beside the curves, never on one of them.
        if let Some(height) = free(y(*value), &taken) {
            taken.push(height);
            let text = format!("{} {}", thousands(*value), release(series.ptxas.as_deref()));
            let (x, y) = (right + 8.0, height + 4.0);
            writeln!(out, "<text class=\"v {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&text))?;
        }
    }
    let end = |commit: Option<&(crate::gate::Moment, &str)>| {
        commit.map(|(at, commit)| format!("{} {}", at.date(), short(commit))).unwrap_or_default()
    };
    let below = BOTTOM + 18.0;
    writeln!(out, "<text x=\"{left}\" y=\"{below}\">{}</text>", escape(&end(chart.commits.first())))?;
    if chart.commits.len() > 1 {
        let text = end(chart.commits.last());
        writeln!(out, "<text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{}</text>", escape(&text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_find_room_beside_one_another() {
        let mut taken: Vec<f64> = Vec::new();
        for wanted in [BOTTOM, BOTTOM, BOTTOM - 3.0, TOP, TOP] {
            let height = free(wanted, &taken).expect("room");
            assert!((TOP - LABEL..=BOTTOM + LABEL).contains(&height), "{height}");
            assert!(taken.iter().all(|other| (other - height).abs() >= LABEL), "{height} {taken:?}");
            taken.push(height);
        }
        // A panel has room for so many, and no more are written over others.
        let more = std::iter::from_fn(|| free(BOTTOM, &taken).inspect(|height| taken.push(*height))).count();
        assert!(more < 20 && free(BOTTOM, &taken).is_none(), "{more}");
    }
}
