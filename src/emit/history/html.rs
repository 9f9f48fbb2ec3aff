//! The page: a section for each kernel, with its curves and every change.

use std::io::{self, Write};

use super::{Chart, is_worse, release, svg};
use crate::emit::escape::markup;
use crate::emit::page;
use crate::emit::text::{count, thousands};
use crate::gate::{Metric, Track};

/// Kernels of a page at most.
const KERNELS: usize = 500;

/// Writes the page.
pub fn write_html(chart: &Chart<'_>, out: &mut dyn Write) -> io::Result<()> {
    let shown = chart.shown();
    page::open("history", out)?;
    writeln!(out, "<h1>{}</h1>", markup(chart.file))?;
    let left = chart.tracks.len() - shown.len();
    let mut said = vec![count(chart.commits.len() as u64, "commit"), chart.held()];
    if left > 0 {
        said.push(format!("{} the same all along", thousands(left as u64)));
    }
    writeln!(out, "<p>{}.</p>", said.join(", "))?;
    for (track, figures) in shown.iter().take(KERNELS) {
        write_track(chart, track, figures, out)?;
    }
    if let Some(more) = shown.len().checked_sub(KERNELS).filter(|more| *more > 0) {
        writeln!(out, "<p class=\"note\">and {more} more: --kernel chooses</p>")?;
    }
    page::close(out)
}

fn write_track(chart: &Chart<'_>, track: &Track, figures: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h2>{}</h2>", markup(track.title()))?;
    writeln!(out, "<p>{}</p>", markup(&format!("{}, {}", track.input, track.arch)))?;
    for metric in figures {
        writeln!(out, "<div class=\"panel\">")?;
        svg::write_one(chart, track, *metric, out)?;
        writeln!(out, "</div>")?;
    }
    let changes: Vec<_> = figures
        .iter()
        .flat_map(|metric| track.series.iter().map(move |series| (*metric, series)))
        .flat_map(|(metric, series)| series.changes(metric).into_iter().map(move |change| (metric, series, change)))
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<details><summary>{}</summary><div class=\"panel fit\"><table>",
        count(changes.len() as u64, "change")
    )?;
    writeln!(out, "<thead><tr><th>day</th><th>commit</th><th>ptxas</th><th>figure</th><th class=\"n\">before</th>")?;
    writeln!(out, "<th class=\"n\">after</th></tr></thead><tbody>")?;
    for (metric, series, change) in changes {
        let class = if is_worse(metric, &change) { "worse" } else { "better" };
        writeln!(
            out,
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n {class}\">{}</td></tr>",
            change.point.recorded_at.date(),
            markup(&change.point.commit),
            markup(release(series.ptxas.as_deref()).trim_start_matches("ptxas ")),
            metric.title(),
            thousands(change.before),
            thousands(change.after)
        )?;
    }
    writeln!(out, "</tbody></table></div></details>")
}
