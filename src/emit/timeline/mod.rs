//! The timeline of kernels as text, as a picture and as JSON.

mod json;
mod svg;
mod text;

pub use json::write_json;
pub use svg::{panel, write_svg};
pub use text::write_text;

use std::borrow::Cow;

use crate::base::Line;
use crate::base::figures::{thousands, warps};
use crate::report::timeline::{Dependency, How, Kind, Lane, MarkKind, Timeline};
use crate::report::{Answer, spelt};

/// How text is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Columns.
    pub width: usize,
    /// Everything that happens, too.
    pub verbose: bool,
}

/// The verdict as a sentence.
pub fn verdict(timeline: &Timeline) -> String {
    let line = timeline.ptx_line.map(|line| format!(" at line {line}")).unwrap_or_default();
    let reason = timeline.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match timeline.verdict {
        Answer::Ends => match &timeline.reason {
            Some(reason) => {
                let which = timeline.ptx_line.map(|line| format!(", line {line}")).unwrap_or_default();
                format!("ends in every order of the warps that was tried, but {reason}{which}")
            }
            None => "ends in every order of the warps that was tried".to_owned(),
        },
        // What memory brings was guessed.
        Answer::Hangs if timeline.by_memory => {
            format!(
                "may hang: it does where memory brings {}, in every order of the warps that was tried",
                brought(timeline)
            )
        }
        Answer::Hangs => "hangs in every order of the warps that was tried".to_owned(),
        Answer::MayHang => "hangs in one order of the warps: this one".to_owned(),
        Answer::Undefined => format!("breaks a rule of the ISA{line}{reason}"),
        Answer::Undecided => format!("cannot be told; what decides is{line}{reason}"),
    }
}

/// What memory was taken to bring.
fn brought(timeline: &Timeline) -> String {
    match timeline.memory_grows {
        true => "numbers that grow with their address".to_owned(),
        false => timeline.memory.to_string(),
    }
}

/// What was executed: `drawn for 384 threads, every parameter 9, where all warps go on in turn`.
fn circumstances(timeline: &Timeline) -> String {
    let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
    let mut said = vec![format!("drawn for {} threads", thousands(product(timeline.block)))];
    let along: Vec<String> =
        timeline.cluster.iter().filter(|blocks| **blocks > 1).map(|blocks| blocks.to_string()).collect();
    if !along.is_empty() {
        said.push(format!("clusters of {} blocks", along.join(" × ")));
    }
    said.push(timeline.parameters.clone());
    if timeline.by_memory {
        said.push(format!("{} for what memory brings", brought(timeline)));
    }
    said.push(timeline.order.clone());
    said.join(", ")
}

/// Names without the variable that all of them lie in.
struct Names<'t> {
    /// What is left out of every name.
    common: Option<&'t str>,
}

impl<'t> Names<'t> {
    /// Looks at every object of a timeline: where all are `variable+offset` with one variable, offsets tell them.
    fn of(timeline: &'t Timeline) -> Names<'t> {
        let waits = timeline.lanes.iter().flat_map(|lane| &lane.waits);
        let waits = waits.filter(|wait| wait.kind == Kind::Mbarrier);
        let objects =
            waits.map(|wait| wait.object.as_str()).chain(timeline.stages.iter().map(|stage| stage.object.as_str()));
        let objects: Vec<&'t str> = objects.collect();
        let variable = |object: &'t str| {
            let own = object.split_once(OF_BLOCK).map_or(object, |(own, _)| own);
            own.split_once('+').map_or(own, |(variable, _)| variable)
        };
        let common = objects.first().map(|first| variable(first));
        let same = objects.iter().all(|object| Some(variable(object)) == common);
        let several = objects.iter().any(|object| object.contains('+'));
        Names { common: common.filter(|_| same && several) }
    }

    fn short<'a>(&self, object: &'a str) -> Cow<'a, str> {
        match self.common.and_then(|common| object.strip_prefix(common)) {
            Some(rest) if rest.starts_with('+') => Cow::Borrowed(rest),
            Some(rest) if rest.is_empty() || rest.starts_with(OF_BLOCK) => Cow::Owned(format!("+0{rest}")),
            _ => spelt(object),
        }
    }
}

/// What stands behind the name of an object of another block.
const OF_BLOCK: &str = " of block ";

/// A name in so many characters: what is cut off is its start, since elements of an array differ at the end.
fn tail(name: &str, most: usize) -> Cow<'_, str> {
    let count = name.chars().count();
    match count > most {
        true => Cow::Owned(std::iter::once('…').chain(name.chars().skip(count + 1 - most)).collect()),
        false => Cow::Borrowed(name),
    }
}

/// What the warps of a lane do in what is drawn: `producer (warp 0) copies 18 times at lines 96 and 98, and waits at line 86`.
fn deeds(lane: &Lane) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut kinds: Vec<(&'static str, u64)> = Vec::new();
    for work in &lane.work {
        match kinds.iter_mut().find(|(what, _)| *what == work.what) {
            Some((_, times)) => *times += 1,
            None => kinds.push((work.what, 1)),
        }
    }
    told.extend(kinds.into_iter().map(|(what, times)| format!("{what} {}", often(times))));
    for (kind, word) in [
        (MarkKind::Copy, "issues copies"),
        (MarkKind::Commit, "commits"),
        (MarkKind::Arrive, "arrives"),
        (MarkKind::Setmaxnreg, "sets its registers"),
    ] {
        let mut places: Vec<Line> =
            lane.marks.iter().filter(|mark| mark.what == kind).map(|mark| mark.ptx_line).collect();
        places.sort_unstable();
        places.dedup();
        if !places.is_empty() {
            told.push(format!("{word} at {}", lines(&places)));
        }
    }
    let mut waits: Vec<Line> =
        lane.waits.iter().filter(|wait| wait.to != Some(wait.from)).map(|wait| wait.ptx_line).collect();
    waits.sort_unstable();
    waits.dedup();
    if !waits.is_empty() {
        told.push(format!("waits at {}", lines(&waits)));
    }
    let who = lane.label();
    let seen = |duty: &&'static str| {
        lane.work.iter().any(|work| work.what == *duty)
            || matches!(*duty, "tma load" | "cp.async") && lane.marks.iter().any(|mark| mark.what == MarkKind::Copy)
    };
    let unseen: Vec<&str> = lane.does.iter().copied().filter(|duty| !seen(duty)).collect();
    let code = match unseen.as_slice() {
        [] => String::new(),
        _ => format!("; its code has {}, which what is drawn does not come to", unseen.join(", ")),
    };
    match (lane.takes_part, told.is_empty()) {
        (true, false) => format!("{who}: {}{code}", told.join(", ")),
        (false, false) => format!("{who}: only {}{code}", told.join(", ")),
        (_, true) => format!("{who}: does nothing of this{code}"),
    }
}

/// `once`, `9 times`
fn often(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{} times", thousands(times)) }
}

/// `line 86`, `lines 96 and 98`, `5 lines from 47 on`
fn lines(places: &[Line]) -> String {
    match places {
        [] => String::new(),
        [only] => format!("line {only}"),
        [first, second] => format!("lines {first} and {second}"),
        [first, second, third] => format!("lines {first}, {second} and {third}"),
        [first, ..] => format!("{} lines from {first} on", places.len()),
    }
}

/// `consumer (warps 4 to 7)` of a lane by number.
fn who(timeline: &Timeline, lane: usize) -> String {
    timeline.lanes.get(lane).map_or_else(|| "somebody".to_owned(), |lane| lane.label())
}

/// `consumer (warps 4 to 11) waits at line 187 for full[0] … full[3]: copies by producer (warp 0) at line 96, 9 times`
fn dependency(timeline: &Timeline, names: &Names<'_>, found: &Dependency) -> String {
    let objects = match found.objects.as_slice() {
        [] => String::new(),
        [only] => names.short(only).into_owned(),
        [first, last] => format!("{}, {}", names.short(first), names.short(last)),
        [first, .., last] => format!("{} … {}", names.short(first), names.short(last)),
    };
    let how = match found.how {
        How::Copy => "copies by",
        How::Commit => "work committed by",
        How::Arrival => "arrivals of",
    };
    let times = often(found.times);
    format!(
        "{} at line {} for {objects}: {how} {} at line {}, {times}",
        who(timeline, found.lane),
        found.ptx_line,
        who(timeline, found.on),
        found.by_ptx_line,
    )
}

/// Two lines of a lane's label: its role, its warps.
fn label(lane: &Lane) -> (String, String) {
    let block = if lane.block > 0 { format!(", block {}", lane.block) } else { String::new() };
    let members = warps(&lane.warps) + &block;
    match &lane.role {
        Some(role) => (role.clone(), members),
        None => (members, String::new()),
    }
}
