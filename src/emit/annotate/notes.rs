//! What is to know of a PTX line beside its code: fences, groups under way, what is allocated.

use std::collections::BTreeMap;

use crate::base::Line;
use crate::report::Unit;
use crate::report::annotation::{By, View};
use crate::report::memory::{GroupsAt, GroupsInFlight, MemoryMaps};

/// By line of the PTX.
pub(super) type Notes = BTreeMap<Line, Vec<String>>;

/// The notes of a unit whose only text is its PTX; none where lines are those of source, or of several texts.
pub(super) fn notes(unit: &Unit, view: &View<'_>) -> Notes {
    let mut found = Notes::new();
    if view.by != By::Ptx || view.annotation.texts.len() != 1 {
        return found;
    }
    for maps in unit.kernels.iter().filter_map(|kernel| kernel.memory.as_ref()) {
        add(maps, &mut found);
    }
    found
}

fn add(maps: &MemoryMaps, found: &mut Notes) {
    let mut note = |line: Line, text: String| {
        let notes = found.entry(line).or_default();
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for fence in &maps.fences {
        note(fence.ptx_line, fence.kind.words().to_owned());
    }
    for groups in &maps.groups {
        // After a copy or a multiplication as many are under way as before it.
        let mut before = (0, Some(0));
        for at in &groups.lines {
            let same = before == (at.least, at.most) && at.open;
            before = (at.least, at.most);
            if !same {
                note(at.ptx_line, under_way(groups, at));
            }
        }
    }
    for copy in maps.copies.iter().filter(|copy| copy.to_shared) {
        if let Some(bytes) = copy.bytes {
            note(copy.ptx_line, format!("{bytes} B"));
        }
        if let Some(stage) = copy.stage_bytes.filter(|stage| copy.bytes != Some(*stage)) {
            note(copy.ptx_line, format!("part of {stage} B a stage"));
        }
    }
}

/// `cp.async: 1 to 2 groups in flight`
fn under_way(groups: &GroupsInFlight, at: &GroupsAt) -> String {
    let count = match at.most {
        Some(most) if most == at.least => most.to_string(),
        Some(most) => format!("{} to {most}", at.least),
        None => format!("{} or more", at.least),
    };
    let noun = if count == "1" { "group" } else { "groups" };
    format!("{}: {count} {noun} in flight", groups.kind.name())
}
