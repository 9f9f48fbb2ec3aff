//! Figures over commits and ptxas releases: for people, for programs, as a picture, as a page.
//!
//! In: [`Track`]s. Out: text, JSON, SVG, HTML. It decides nothing about what is shown but how, and how much of it.

mod html;
mod svg;
mod text;

pub use html::write_html;
pub use svg::write_svg;
pub use text::write_text;

use std::io::{self, Write};

use serde::Serialize;

use crate::emit::text::kernels_and_functions;
use crate::gate::{FigureStep, Metric, Moment, Track};

/// The name and version of the JSON.
pub const HISTORY_SCHEMA: &str = "ptxinspect.history/1";

/// Everything there is to show.
pub struct Chart<'a> {
    /// The file it comes from.
    pub file: &'a str,
    /// Every commit, in order of time.
    pub commits: &'a [(Moment, &'a str)],
    /// The kernels.
    pub tracks: &'a [Track],
    /// The figures that were asked for; none means those that changed.
    pub figures: &'a [Metric],
    /// Also what never changed.
    pub all: bool,
    /// How wide a line of text may be.
    pub width: usize,
    /// Every change, and mangled names.
    pub verbose: bool,
}

/// Figures that are shown where they changed and nobody asked for others.
const USUAL: [Metric; 9] = [
    Metric::Registers,
    Metric::PeakLive,
    Metric::SpillStoreBytes,
    Metric::SpillLoadBytes,
    Metric::SpillInstructions,
    Metric::StackBytes,
    Metric::WarpsPerSm,
    Metric::Instructions,
    Metric::CodeBytes,
];

impl Chart<'_> {
    /// The figures of a kernel to show; none for a kernel that is not shown.
    fn figures_of(&self, track: &Track) -> Vec<Metric> {
        let wanted: &[Metric] = if self.figures.is_empty() { &USUAL } else { self.figures };
        let moving: Vec<Metric> = wanted.iter().copied().filter(|metric| track.moves(*metric)).collect();
        match (self.all, self.figures.is_empty()) {
            (true, false) => wanted.to_vec(),
            (true, true) if moving.is_empty() => vec![Metric::Registers],
            _ => moving,
        }
    }

    /// How many kernels and device functions there are.
    fn held(&self) -> String {
        let functions = self.tracks.iter().filter(|track| track.within.is_some()).count();
        kernels_and_functions((self.tracks.len() - functions) as u64, functions as u64)
    }

    /// The kernels that are shown, with their figures.
    fn shown(&self) -> Vec<(&Track, Vec<Metric>)> {
        let all = self.tracks.iter().map(|track| (track, self.figures_of(track)));
        all.filter(|(_, figures)| !figures.is_empty()).collect()
    }

    /// The place of a commit among all.
    fn place(&self, at: (Moment, &str)) -> usize {
        self.commits.binary_search(&at).unwrap_or_else(|near| near)
    }
}

/// Whether a change is for the worse.
fn is_worse(metric: Metric, change: &FigureStep<'_>) -> bool {
    metric.loss(change.before, change.after) > 0
}

/// A commit as people read it: digests are long.
fn short(commit: &str) -> &str {
    const SHORT: usize = 10;
    let is_digest = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { commit.get(..SHORT).unwrap_or(commit) } else { commit }
}

/// `ptxas 13.4.92`.
fn release(ptxas: Option<&str>) -> String {
    format!("ptxas {}", ptxas.unwrap_or("unknown"))
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    commits: Vec<Commit<'a>>,
    tracks: &'a [Track],
}

#[derive(Serialize)]
struct Commit<'a> {
    commit: &'a str,
    recorded_at: String,
}

/// Writes one document: every kernel that was chosen, whether it changed or not.
pub fn write_json(chart: &Chart<'_>, out: &mut dyn Write) -> io::Result<()> {
    let commits = chart.commits.iter().map(|(at, commit)| Commit { commit, recorded_at: at.to_string() });
    let document = Document { schema: HISTORY_SCHEMA, commits: commits.collect(), tracks: chart.tracks };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}
