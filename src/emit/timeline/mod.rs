//! The timeline of kernels as text, as a picture and as JSON.

mod json;
mod svg;
mod text;

pub use json::write_json;
pub use svg::{panel, write_svg};
pub use text::write_text;

use crate::base::figures::{thousands, warps};
use crate::report::Answer;
use crate::report::timeline::{Dependency, How, Kind, Lane, Timeline};

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
            Some(reason) => format!("ends in every order of the warps that was tried, but {reason}"),
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
    let blocks = product(timeline.cluster);
    if blocks > 1 {
        said.push(format!("clusters of {blocks} blocks"));
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
        let variable = |object: &'t str| object.split_once('+').map_or(object, |(variable, _)| variable);
        let common = objects.first().map(|first| variable(first));
        let same = objects.iter().all(|object| Some(variable(object)) == common);
        let several = objects.iter().any(|object| object.contains('+'));
        Names { common: common.filter(|_| same && several) }
    }

    fn short<'a>(&self, object: &'a str) -> &'a str {
        match self.common.and_then(|common| object.strip_prefix(common)) {
            Some("") => "+0",
            Some(rest) if rest.starts_with('+') => rest,
            _ => object,
        }
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
        [only] => names.short(only).to_owned(),
        [first, last] => format!("{}, {}", names.short(first), names.short(last)),
        [first, .., last] => format!("{} … {}", names.short(first), names.short(last)),
    };
    let how = match found.how {
        How::Copy => "copies by",
        How::Commit => "work committed by",
        How::Arrival => "arrivals of",
    };
    let times = if found.times == 1 { "once".to_owned() } else { format!("{} times", thousands(found.times)) };
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
