//! What is known of a line of PTX beside its code: what it multiplies, fences, groups under way, what is copied.

use std::collections::BTreeMap;

use crate::base::Line;
use crate::emit::cost::accesses;
use crate::emit::matrices;
use crate::report::Unit;
use crate::report::annotation::{By, View};
use crate::report::memory::{GroupsAt, GroupsInFlight, MemoryMaps};

/// What is known of a line.
#[derive(Default)]
pub(super) struct LineNotes {
    /// A few words each, beside the line.
    pub marks: Vec<String>,
    /// Sentences, under it.
    pub sentences: Vec<String>,
}

impl LineNotes {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().chain(&self.sentences).map(String::as_str)
    }

    fn mark(&mut self, text: String) {
        if !self.marks.contains(&text) {
            self.marks.push(text);
        }
    }
}

/// By line of the PTX.
#[derive(Default)]
pub(super) struct Notes {
    by_line: BTreeMap<Line, LineNotes>,
}

impl Notes {
    /// The notes of a unit whose only text is its PTX; none where lines are those of source, or of several texts.
    pub fn of(unit: &Unit, view: &View<'_>) -> Notes {
        let mut found = Notes::default();
        if view.by != By::Ptx || view.annotation.texts.len() != 1 {
            return found;
        }
        for kernel in &unit.kernels {
            if let Some(maps) = &kernel.memory {
                found.add(maps);
            }
            for multiplied in &kernel.multiplications {
                found.at(multiplied.ptx_line).sentences.extend(matrices::multiplication(multiplied));
            }
            let worse = kernel.accesses.iter().flat_map(|facts| &facts.accesses);
            for access in worse.filter(|access| access.is_worse()) {
                found.at(access.ptx_line).sentences.push(accesses::told(access));
            }
        }
        found
    }

    /// What is known of a line.
    pub fn get(&self, line: Line) -> Option<&LineNotes> {
        self.by_line.get(&line)
    }

    fn at(&mut self, line: Line) -> &mut LineNotes {
        self.by_line.entry(line).or_default()
    }

    fn add(&mut self, maps: &MemoryMaps) {
        let mut note = |line: Line, text: String| self.at(line).mark(text);
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
