//! The timeline as a picture: one panel a kernel, light or dark as the reader's page is, no script.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::{Names, circumstances, deeds, dependency, label, tail, verdict};
use crate::base::Line;
use crate::base::figures::thousands;
use crate::emit::escape::markup as escape;
use crate::emit::text::wrap;
use crate::report::Answer;
use crate::report::timeline::{How, Lane, LaneMark, MarkKind, StageState, Timeline, WaitSpan, WorkSpan};
use crate::report::{shorten, spelt};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Where the first lane starts.
const TOP: f64 = 104.0;
const LANE: f64 = 52.0;
/// Where in its lane a band lies, and how high it is.
const BAND: f64 = 16.0;
const HIGH: f64 = 22.0;
const STAGE: f64 = 17.0;
const ROW: f64 = 17.0;
/// A step is no wider than this.
const WIDEST: f64 = 16.0;
/// What a character of the small labels takes.
const LETTER: f64 = 5.9;
/// Who waits for whom: rows at most.
const MOST_ROWS: usize = 10;
/// What a line of text may take.
const CHARACTERS: usize = 180;
/// The class of the lines of a sentence beyond its first.
const MORE: &str = "more";
/// Shorter waits get no line to what ended them.
const SHORT: u64 = 3;

const STYLE: &str = "\
svg:root{background:#fff;max-width:100%;height:auto}.tl text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#5d6773}\
.tl .name{font:600 14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1d2329}\
.tl .ink{fill:#1d2329;font-weight:600}.tl .in{font-size:10.5px;fill:#fff}.tl .on{font-size:10.5px;fill:#8a5a00}.tl .st{font-size:10.5px}\
.tl .grid{stroke:#eceded}.tl .lane{fill:#f4f5f4}.tl .wait{fill:#f3d9a4}.tl .stuck{fill:#e8a0a6}.tl .bad{fill:#b3202f;font-weight:600}\
.tl .mul{fill:#2d8a7f}.tl .work{fill:#7a55b8}.tl .copy{fill:#2b64c4}.tl .arr{fill:#c8641b}.tl .reg{fill:#98a1ab}\
.tl .filling{fill:#a9c4ee}.tl .full{fill:#2b64c4}.tl .used{fill:#2d8a7f;fill-opacity:.45}.tl .end{stroke:#98a1ab;stroke-width:2}\
.tl .hang{stroke:#b3202f;stroke-width:2}.tl .by{fill:none;stroke:#8b949e;stroke-opacity:.55}.tl .copied{stroke:#2b64c4;stroke-opacity:.45}\
@media(prefers-color-scheme:dark){svg:root{background:#101418}.tl text{fill:#95a0ac}.tl .name,.tl .ink{fill:#d5dbe2}.tl .in{fill:#101418}.tl .on{fill:#e8c27c}\
.tl .grid{stroke:#242a31}.tl .lane{fill:#181d22}.tl .wait{fill:#54431f}.tl .stuck{fill:#7c2d35}.tl .bad{fill:#f0727e}\
.tl .mul{fill:#4db3a5}.tl .work{fill:#b599ea}.tl .copy{fill:#79a8f2}.tl .arr{fill:#e59145}.tl .reg{fill:#626d79}\
.tl .filling{fill:#2d4468}.tl .full{fill:#79a8f2}.tl .used{fill:#4db3a5}.tl .end{stroke:#626d79}.tl .hang{stroke:#f0727e}\
.tl .by{stroke:#7d8792}.tl .copied{stroke:#79a8f2}}";

/// Writes one picture of all timelines.
pub fn write_svg(timelines: &[Timeline], out: &mut dyn Write) -> io::Result<()> {
    let panels: Vec<Panel<'_>> = timelines.iter().map(Panel::new).collect();
    let height: f64 = panels.iter().map(|panel| panel.height).sum();
    writeln!(out, "{}\n<style>{STYLE}</style>", open(height, " xmlns=\"http://www.w3.org/2000/svg\""))?;
    let mut top = 0.0;
    for panel in &panels {
        writeln!(out, "<g transform=\"translate(0 {top:.0})\">{}</g>", panel.draw())?;
        top += panel.height;
    }
    writeln!(out, "</svg>")
}

/// The picture of one kernel, for a page that has the colours.
pub fn panel(timeline: &Timeline) -> String {
    let panel = Panel::new(timeline);
    format!("{}{}</svg>", open(panel.height, ""), panel.draw())
}

fn open(height: f64, namespace: &str) -> String {
    format!(
        "<svg{namespace} class=\"tl\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"Who waits for whom, step by step\">"
    )
}

/// A sentence below the picture, on as many lines as it takes.
fn rows_of(text: &str, class: &'static str) -> Vec<(String, &'static str)> {
    let lines = wrap(&spelt(text), CHARACTERS);
    let of = |at: usize| if at == 0 || !class.is_empty() { class } else { MORE };
    lines.into_iter().enumerate().map(|(at, line)| (line, of(at))).collect()
}

/// One kernel and how its steps are laid out.
struct Panel<'t> {
    timeline: &'t Timeline,
    names: Names<'t>,
    scale: f64,
    height: f64,
    /// Where the stages start, and the sentences below them.
    stages: f64,
    rows: f64,
    said: Vec<(String, &'static str)>,
    /// What was drawn, line by line, and how far the lines beyond the first push everything down.
    head: Vec<String>,
    shift: f64,
}

impl<'t> Panel<'t> {
    fn new(timeline: &'t Timeline) -> Panel<'t> {
        let names = Names::of(timeline);
        let steps = (timeline.last.saturating_sub(timeline.first)).max(1) as f64;
        let stages = TOP + LANE * timeline.lanes.len() as f64 + 16.0;
        let with_title = if timeline.stages.is_empty() { 0.0 } else { 22.0 };
        let rows = stages + with_title + STAGE * timeline.stages.len() as f64 + 16.0;
        let mut said = Vec::new();
        if !timeline.witness.is_empty() {
            said.push(("Where it hangs".to_owned(), "bad"));
            said.extend(timeline.witness.iter().map(|stands| (stands.to_string(), "")));
        }
        if timeline.lanes.iter().any(|lane| lane.role.is_some()) {
            said.push(("Who does what".to_owned(), "ink"));
            said.extend(timeline.lanes.iter().filter(|lane| lane.block == 0).map(|lane| (deeds(lane), "")));
        }
        if !timeline.dependencies.is_empty() {
            said.push(("Who waits for whom, most steps first".to_owned(), "ink"));
            let shown = timeline.dependencies.iter().take(MOST_ROWS);
            said.extend(shown.map(|found| (dependency(timeline, &names, found), "")));
            let more = timeline.dependencies.len().saturating_sub(MOST_ROWS);
            if more > 0 {
                said.push((format!("and {more} more"), ""));
            }
        }
        if let Some(common) = names.common {
            said.push((format!("+8 stands for {common}+8."), ""));
        }
        if !timeline.left_out.is_empty() {
            said.push((format!("Not drawn: {}.", timeline.left_out.join("; ")), ""));
        }
        let said: Vec<(String, &'static str)> = said.iter().flat_map(|(text, class)| rows_of(text, class)).collect();
        let told = circumstances(timeline);
        let first = verdict(timeline).chars().count() + told.chars().count() + 3;
        let head = if first <= CHARACTERS { vec![told] } else { wrap(&told, CHARACTERS) };
        let shift = if first <= CHARACTERS { 0.0 } else { ROW * head.len() as f64 };
        let height = rows + ROW * said.len() as f64 + 16.0 + shift;
        let scale = ((RIGHT - LEFT) / steps).min(WIDEST);
        Panel { timeline, names, scale, height, stages, rows, said, head, shift }
    }

    fn x(&self, step: u64) -> f64 {
        let step = step.clamp(self.timeline.first, self.timeline.last) - self.timeline.first;
        LEFT + step as f64 * self.scale
    }

    fn end(&self) -> f64 {
        self.x(self.timeline.last)
    }

    fn draw(&self) -> String {
        let mut out = String::new();
        self.head(&mut out);
        let _ = write!(out, "<g transform=\"translate(0 {:.0})\">", self.shift);
        self.legend(&mut out);
        self.axis(&mut out);
        for (at, lane) in self.timeline.lanes.iter().enumerate() {
            self.lane(TOP + LANE * at as f64, lane, &mut out);
        }
        self.releases(&mut out);
        self.draw_stages(&mut out);
        for (at, (text, class)) in self.said.iter().enumerate() {
            let y = self.rows + ROW * (at as f64 + 1.0);
            let indent = match *class {
                "" => 28.0,
                MORE => 44.0,
                _ => 16.0,
            };
            let _ = write!(out, "<text class=\"{class}\" x=\"{indent}\" y=\"{y:.0}\">{}</text>", escape(text));
        }
        out.push_str("</g>");
        out
    }

    fn head(&self, out: &mut String) {
        let timeline = self.timeline;
        let name = shorten(&spelt(&timeline.kernel), 120).into_owned();
        let _ = write!(out, "<text class=\"name\" x=\"16\" y=\"24\">{}</text>", escape(&name));
        let bad = !matches!(timeline.verdict, Answer::Ends);
        let class = if bad { "bad" } else { "" };
        let said = verdict(timeline);
        let said = shorten(&said, if self.shift > 0.0 { CHARACTERS } else { 110 });
        let _ = write!(out, "<text x=\"16\" y=\"43\"><tspan class=\"{class}\">{}</tspan>", escape(&said));
        if self.shift == 0.0 {
            let _ = write!(out, " · {}", escape(&self.head.concat()));
        }
        out.push_str("</text>");
        for (at, line) in self.head.iter().enumerate().filter(|_| self.shift > 0.0) {
            let y = 43.0 + ROW * (at as f64 + 1.0);
            let _ = write!(out, "<text x=\"16\" y=\"{y:.0}\">{}</text>", escape(line));
        }
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for (class, text) in [
            ("wait", "waits"),
            ("mul", "multiplies"),
            ("work", "other work"),
            ("copy", "issues copies"),
            ("arr", "arrives"),
            ("reg", "setmaxnreg"),
            ("filling", "stage filling"),
            ("full", "full"),
            ("used", "in use"),
        ] {
            let mark = match class {
                "copy" => triangle(x + 5.0, 65.0, false),
                "arr" => triangle(x + 5.0, 58.0, true),
                _ => format!("M{x:.1} 57h10v9h-10z"),
            };
            let _ = write!(
                out,
                "<path class=\"{class}\" d=\"{mark}\"/><text class=\"st\" x=\"{:.1}\" y=\"66\">{text}</text>",
                x + 14.0
            );
            x += 32.0 + wide(text);
        }
    }

    fn axis(&self, out: &mut String) {
        let timeline = self.timeline;
        let steps = timeline.last.saturating_sub(timeline.first).max(1);
        let every =
            [5, 10, 20, 50, 100, 200, 500, 1000, 5000].into_iter().find(|every| steps / every <= 14).unwrap_or(20_000);
        let bottom = self.rows - 8.0;
        let mut path = String::new();
        for step in (timeline.first.next_multiple_of(every)..=timeline.last).step_by(every as usize) {
            let x = self.x(step);
            let _ = write!(path, "M{x:.1} {}V{bottom:.1}", TOP - 12.0);
            let _ = write!(
                out,
                "<text class=\"st\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                TOP - 16.0,
                thousands(step)
            );
        }
        let _ = write!(
            out,
            "<text class=\"st\" x=\"16\" y=\"{}\">step</text><path class=\"grid\" d=\"{path}\"/>",
            TOP - 16.0
        );
    }

    fn lane(&self, top: f64, lane: &Lane, out: &mut String) {
        let (first, second) = label(lane);
        let y = top + BAND + if second.is_empty() { 15.0 } else { 9.0 };
        let _ = write!(out, "<text class=\"ink\" x=\"16\" y=\"{y:.1}\">{}</text>", escape(&shorten(&first, 22)));
        let _ =
            write!(out, "<text class=\"st\" x=\"16\" y=\"{:.1}\">{}</text>", y + 14.0, escape(&shorten(&second, 24)));
        let until = lane.ends.map_or(self.end(), |step| self.x(step));
        let band = top + BAND;
        let _ = write!(
            out,
            "<rect class=\"lane\" x=\"{LEFT}\" y=\"{band:.1}\" width=\"{:.1}\" height=\"{HIGH}\"/>",
            (until - LEFT).max(0.0)
        );
        for wait in &lane.waits {
            // One lane of a warp may work while the others wait.
            let covers = |work: &WorkSpan| work.from < wait.to.unwrap_or(u64::MAX) && work.to > wait.from;
            self.wait(band, wait, lane.work.iter().any(covers), out);
        }
        for work in &lane.work {
            let (x, to) = (self.x(work.from), self.x(work.to));
            let class = if work.what.contains("mma") { "mul" } else { "work" };
            let text = if fits(work.what, to - x) { work.what } else { "" };
            let title = format!("{} at step {}", work.what, work.from);
            Bar { x, to, y: band, high: HIGH, class, text, style: "in", title, line: None }.draw(out);
        }
        if let Some(step) = lane.ends {
            let x = self.x(step);
            let _ = write!(
                out,
                "<path class=\"end\" d=\"M{x:.1} {:.1}v{:.1}\"><title>ends at step {step}</title></path>",
                band - 3.0,
                HIGH + 6.0
            );
        }
        for mark in &lane.marks {
            self.mark(band, mark, out);
        }
    }

    fn wait(&self, band: f64, wait: &WaitSpan, is_covered: bool, out: &mut String) {
        if wait.to == Some(wait.from) {
            return;
        }
        let (x, to) = (self.x(wait.from), wait.to.map_or(self.end(), |to| self.x(to)));
        let (class, until) = match wait.to {
            Some(to) => ("wait", format!("until step {to}")),
            None if self.timeline.witness.is_empty() => ("wait", "on".to_owned()),
            None => ("stuck", "and never goes on".to_owned()),
        };
        let title = format!(
            "waits at line {} for {}, phase {}, from step {} {until}",
            wait.ptx_line, wait.object, wait.phase, wait.from
        );
        let name = self.names.short(&wait.object);
        let text = if fits(&name, to - x) && !is_covered { &*name } else { "" };
        let line = Some(wait.ptx_line);
        Bar { x, to, y: band, high: HIGH, class, text, style: "on", title, line }.draw(out);
    }

    fn mark(&self, band: f64, mark: &LaneMark, out: &mut String) {
        let x = self.x(mark.step) + self.scale / 2.0;
        let object = mark.object.as_deref().map(|object| format!(" {object}")).unwrap_or_default();
        let bytes = mark.bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.map(|bytes| format!(", {} bytes", thousands(bytes))).unwrap_or_default();
        let (class, path, what) = match mark.what {
            MarkKind::Copy => ("copy", triangle(x, band - 2.0, false), format!("copy for{object}{bytes}")),
            MarkKind::Commit => ("copy", triangle(x, band - 2.0, false), format!("commit to{object}")),
            MarkKind::Arrive => {
                ("arr", triangle(x, band + HIGH + 2.0, true), format!("arrives at{object}, {} times", mark.count))
            }
            MarkKind::ExpectTx => return,
            MarkKind::Setmaxnreg => {
                ("reg", format!("M{:.1} {:.1}h4v5h-4z", x - 2.0, band - 7.0), format!("setmaxnreg {}", mark.count))
            }
            MarkKind::Init | MarkKind::Alloc | MarkKind::Free => return,
        };
        let title = format!("{what}, line {}, step {}", mark.ptx_line, mark.step);
        let _ = write!(
            out,
            "<path class=\"{class}\" d=\"{path}\" data-line=\"{}\"><title>{}</title></path>",
            mark.ptx_line,
            escape(&title)
        );
    }

    /// A line from what ended a wait to its end.
    fn releases(&self, out: &mut String) {
        let timeline = self.timeline;
        let band = |lane: usize| TOP + LANE * lane as f64 + BAND;
        let (mut arrivals, mut copies) = (String::new(), String::new());
        for (number, lane) in timeline.lanes.iter().enumerate() {
            for wait in lane.waits.iter().filter(|wait| wait.to.is_some_and(|to| to > wait.from + SHORT)) {
                let (Some(by), Some(to)) = (&wait.released_by, wait.to) else { continue };
                if by.lane == number || by.step < timeline.first || to > timeline.last {
                    continue;
                }
                let down = number > by.lane;
                let (x, end) = (self.x(by.step) + self.scale / 2.0, self.x(to));
                let y = if down { band(by.lane) + HIGH + 8.0 } else { band(by.lane) - 8.0 };
                let until = if down { band(number) - 1.0 } else { band(number) + HIGH + 1.0 };
                let path = if by.how == How::Arrival { &mut arrivals } else { &mut copies };
                let middle = (y + until) / 2.0;
                let _ = write!(path, "M{x:.1} {y:.1}C{x:.1} {middle:.1} {end:.1} {middle:.1} {end:.1} {until:.1}");
            }
        }
        for (class, path) in [("by", arrivals), ("by copied", copies)] {
            if !path.is_empty() {
                let _ = write!(out, "<path class=\"{class}\" d=\"{path}\" pointer-events=\"none\"/>");
            }
        }
    }

    fn draw_stages(&self, out: &mut String) {
        if self.timeline.stages.is_empty() {
            return;
        }
        let _ = write!(out, "<text class=\"ink\" x=\"16\" y=\"{:.1}\">stages</text>", self.stages + 10.0);
        for (at, stage) in self.timeline.stages.iter().enumerate() {
            let y = self.stages + 22.0 + STAGE * at as f64;
            let name = self.names.short(&stage.object);
            let _ =
                write!(out, "<text class=\"st\" x=\"28\" y=\"{:.1}\">{}</text>", y + 10.0, escape(&tail(&name, 20)));
            for span in &stage.spans {
                let (x, to) = (self.x(span.from), span.to.map_or(self.end(), |to| self.x(to)));
                let (class, what) = match span.state {
                    StageState::Filling => ("filling", "copies under way"),
                    StageState::Full => ("full", "full"),
                    StageState::Used => ("used", "in use"),
                };
                let until = span.to.map(|to| format!(" to {to}")).unwrap_or_default();
                let title = format!("{}, phase {}: {what}, step {}{until}", stage.object, span.phase, span.from);
                let high = STAGE - 4.0;
                Bar { x, to, y, high, class, text: "", style: "", title, line: None }.draw(out);
            }
        }
    }
}

/// A stretch of a lane or a stage.
struct Bar<'a> {
    x: f64,
    to: f64,
    y: f64,
    high: f64,
    class: &'a str,
    text: &'a str,
    style: &'a str,
    /// What a pointer that rests on it shows.
    title: String,
    /// The PTX line that a page goes to.
    line: Option<Line>,
}

impl Bar<'_> {
    fn draw(&self, out: &mut String) {
        let Bar { x, to, y, high, class, text, style, title, line } = self;
        let wide = (to - x).max(0.8);
        // A hair of room between neighbours.
        let shown = if wide > 3.0 { wide - 0.7 } else { wide };
        let line = line.map(|line| format!(" data-line=\"{line}\"")).unwrap_or_default();
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{shown:.1}\" height=\"{high}\" rx=\"1.5\"{line}>\
             <title>{}</title></rect>",
            escape(title)
        );
        if !text.is_empty() {
            let (x, y) = (x + wide / 2.0, y + high / 2.0 + 3.7);
            let _ = write!(
                out,
                "<text class=\"{style}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" pointer-events=\"none\">{}</text>",
                escape(text)
            );
        }
    }
}

/// How wide a small label is, about.
fn wide(text: &str) -> f64 {
    let of = |c: char| match c {
        'm' | 'w' | 'M' | 'W' => 9.5,
        'i' | 'l' | 't' | 'f' | '[' | ']' | '.' | ' ' => 4.0,
        _ => LETTER + 0.4,
    };
    text.chars().map(of).sum()
}

/// Whether a small label has room.
fn fits(text: &str, room: f64) -> bool {
    wide(text) + 3.0 <= room
}

/// A triangle with its tip at a place.
fn triangle(x: f64, tip: f64, up: bool) -> String {
    let back = if up { 6.5 } else { -6.5 };
    format!("M{x:.1} {tip:.1}l-3.4 {back}h6.8z")
}
