//! The curves in characters, and where they step.

use std::io::{self, Write};

use super::{Chart, is_worse, release, short};
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, BOLD, DIM, GOOD, RESET, count, thousands, write_wrapped};
use crate::gate::{Metric, Series, Track};
use crate::report::abridge;

/// Characters for the lowest to the highest value.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Changes of a figure that are told unless all are wanted: the last ones.
const CHANGES: usize = 4;
/// The widest curve.
const WIDEST: usize = 60;

/// Writes a paragraph for each kernel.
pub fn write_text(chart: &Chart<'_>, out: &mut dyn Write) -> io::Result<()> {
    let shown = chart.shown();
    let (first, last) = (chart.commits.first(), chart.commits.last());
    let day =
        |commit: Option<&(crate::gate::Moment, &str)>| commit.map(|(at, _)| at.date().to_string()).unwrap_or_default();
    let title = format!(
        "{BOLD}{}{RESET}  {} from {} to {}, {}",
        terminal(chart.file),
        count(chart.commits.len() as u64, "commit"),
        day(first),
        day(last),
        chart.held(),
    );
    write_wrapped(&title, "", "  ", chart.width, out)?;
    for (track, figures) in &shown {
        writeln!(out)?;
        write_track(chart, track, figures, out)?;
    }
    let left = chart.tracks.len() - shown.len();
    if left > 0 {
        writeln!(out)?;
        let text = match shown.is_empty() {
            true => format!("{}: nothing changed; --all shows them", chart.held()),
            false => format!("{} more: the same all along; --all shows them", thousands(left as u64)),
        };
        write_wrapped(&text, "", "  ", chart.width, out)?;
    }
    Ok(())
}

fn write_track(chart: &Chart<'_>, track: &Track, figures: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let name = if chart.verbose { track.kernel.clone() } else { abridge(track.title(), chart.width).into_owned() };
    writeln!(out, "{BOLD}{}{RESET}", terminal(&name))?;
    let within = track.within.as_ref().map(|within| format!(" in {within}")).unwrap_or_default();
    let place = format!("{}, {}{within}", track.input, track.arch);
    write_wrapped(&format!("{DIM}{}{RESET}", terminal(&place)), "  ", "  ", chart.width, out)?;
    for metric in figures {
        writeln!(out, "  {}", metric.title())?;
        // One scale for all releases: what differs between them is seen.
        let values = track.series.iter().flat_map(|one| &one.points).filter_map(|point| point.figures.get(*metric));
        let (least, most) = values.fold((u64::MAX, 0), |(least, most), value| (least.min(value), most.max(value)));
        let labels: Vec<String> = track.series.iter().map(|one| release(one.ptxas.as_deref())).collect();
        let wide = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        for (series, label) in track.series.iter().zip(labels) {
            write_series(chart, series, (*metric, &format!("{label:<wide$}")), (least, most), out)?;
        }
    }
    Ok(())
}

fn write_series(
    chart: &Chart<'_>,
    series: &Series,
    (metric, label): (Metric, &str),
    scale: (u64, u64),
    out: &mut dyn Write,
) -> io::Result<()> {
    let known: Vec<u64> = series.points.iter().filter_map(|point| point.figures.get(metric)).collect();
    let figures = match (known.first(), known.last()) {
        (Some(first), Some(last)) if first != last => format!("{} → {}", thousands(*first), thousands(*last)),
        (Some(first), _) if known.iter().any(|value| value != first) => {
            format!("{} in the end as at first", thousands(*first))
        }
        (Some(first), _) => thousands(*first),
        _ => "not known".to_owned(),
    };
    let used = 4 + label.chars().count() + 2 + figures.chars().count() + 2;
    let room = chart.width.saturating_sub(used).clamp(8, WIDEST);
    let curve = curve(chart, series, metric, scale, room);
    writeln!(out, "    {DIM}{}{RESET}  {curve}  {figures}", terminal(label))?;
    let changes = series.changes(metric);
    let from = if chart.verbose { 0 } else { changes.len().saturating_sub(CHANGES) };
    if from > 0 {
        writeln!(out, "      {DIM}{} before; -v shows all{RESET}", count(from as u64, "change"))?;
    }
    for change in changes.iter().skip(from) {
        let colour = if is_worse(metric, change) { BAD } else { GOOD };
        writeln!(
            out,
            "      {DIM}{}  {}{RESET}  {colour}{} → {}{RESET}",
            change.point.recorded_at.date(),
            terminal(short(&change.point.commit)),
            thousands(change.before),
            thousands(change.after)
        )?;
    }
    Ok(())
}

/// A character for each commit, or for several where there are more than fit: the highest of them. A commit without a figure is a gap.
fn curve(chart: &Chart<'_>, series: &Series, metric: Metric, (least, most): (u64, u64), room: usize) -> String {
    let commits = chart.commits.len().max(1);
    let columns = commits.min(room);
    let mut highest: Vec<Option<u64>> = vec![None; columns];
    for point in &series.points {
        let at = chart.place((point.recorded_at, &point.commit)) * columns / commits;
        if let Some(column) = highest.get_mut(at.min(columns - 1)) {
            *column = (*column).max(point.figures.get(metric));
        }
    }
    let bar = |value: u64| {
        let step = if most > least { (value - least) as f64 / (most - least) as f64 } else { 0.0 };
        BARS.get((step * 7.0).round() as usize).copied().unwrap_or('█')
    };
    highest.into_iter().map(|value| value.map_or(' ', bar)).collect()
}
