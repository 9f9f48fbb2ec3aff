//! From what warps did to lanes, stages and dependencies.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Dependency, How, Lane, LaneMark, MarkKind, Release, Stage, StageSpan, StageState, Timeline, WaitSpan, WorkSpan,
};
use crate::base::Line;
use crate::base::figures::thousands;
use crate::ptx::Module;
use crate::roles::{Duty, Role};
use crate::sync::execute::record::{Mark, Recording, Waited, WarpId, What};
use crate::sync::execute::{Launch, Outcome, Stuck, Wait};
use crate::sync::machine::SharedAddress;
use crate::sync::program::Op;
use crate::sync::stands::{Stands, label, role_of};
use crate::sync::{Answer, Checked, Verdict};

/// Lanes that are drawn.
const MOST_LANES: usize = 16;
/// Stages that are drawn.
const MOST_STAGES: usize = 12;
/// Steps by which warps of a lane may differ: less than a multiplication takes.
const NEAR: u64 = 8;
/// Steps that are drawn behind the last thing that happens before a hang.
const TAIL: u64 = 12;

/// Draws a recording; what only the verdict knows is left for others to fill in.
pub fn draw(
    recording: &Recording,
    (checked, launch): (&Checked, &Launch),
    module: &Module<'_>,
    roles: &[Role],
    most: u64,
) -> Timeline {
    let witness: Vec<Stands> = match &recording.outcome {
        Outcome::Hangs(stuck) => stuck.iter().map(|group| Stands::of(group, module, roles)).collect(),
        _ => Vec::new(),
    };
    let hangs = !witness.is_empty();
    let happened = recording.marks.iter().map(|mark| mark.step).chain(recording.waits.iter().map(|wait| wait.from));
    let worked = recording.work.iter().map(|work| work.to);
    let end = happened.chain(worked).max().unwrap_or(0) + if hangs { TAIL } else { 1 };
    // What leads to a hang, or to what decides, is at the end.
    let from_start = recording.outcome == Outcome::Ends || matches!(checked.verdict, Verdict::Ends { .. });
    let first = if from_start { 0 } else { end.saturating_sub(most) };
    let init = |mark: &Mark| match mark.what {
        What::Init { at, .. } => Some(at),
        _ => None,
    };
    let copies = checked.program.code.iter().filter(|instr| matches!(instr.op, Op::Copy { .. }));
    let drawing = Drawing {
        recording,
        checked,
        launch,
        module,
        first,
        last: end.min(first + most),
        objects: recording.marks.iter().filter_map(init).collect(),
        copies: copies.map(|instr| instr.line).collect(),
    };
    let mut left_out = Vec::new();
    if first > 0 {
        left_out.push(format!("the first {} steps", thousands(first)));
    }
    if drawing.last < end {
        left_out.push(format!("the steps from {} to {}", thousands(drawing.last), thousands(end)));
    }
    let groups = drawing.groups(roles, &mut left_out);
    let mut lanes: Vec<Lane> = groups.iter().map(|group| drawing.lane(group, roles)).collect();
    let dependencies = drawing.dependencies(&groups, &mut lanes);
    let stages = drawing.stages(&mut left_out);
    Timeline {
        kernel: String::new(),
        block: launch.block,
        cluster: launch.cluster,
        parameters: String::new(),
        memory: 0,
        memory_grows: false,
        by_memory: false,
        order: String::new(),
        verdict: Answer::Undecided,
        ptx_line: None,
        reason: None,
        steps: end,
        first,
        last: drawing.last,
        lanes,
        stages,
        dependencies,
        witness,
        left_out,
    }
}

/// Warps of a lane, and the one that is drawn for all.
struct Group {
    role: Option<String>,
    rank: u64,
    warps: Vec<u32>,
    drawn: WarpId,
    takes_part: bool,
}

impl Group {
    /// What the code of its role has for these warps.
    fn does(&self, roles: &[Role]) -> Vec<&'static str> {
        let Some(role) = self.role.as_ref().and_then(|name| roles.iter().find(|role| role.name == *name)) else {
            return Vec::new();
        };
        let is_own =
            |duty: &_| role.part.get(duty).is_none_or(|warps| warps.iter().any(|warp| self.warps.contains(warp)));
        role.duties.iter().copied().filter(is_own).map(Duty::name).collect()
    }
}

/// Whether warps wait at the same places until about the same steps.
fn are_alike(a: &[&Waited], b: &[&Waited]) -> bool {
    let near = |x: u64, y: u64| x.abs_diff(y) <= NEAR;
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let ends = match (a.to, b.to) {
                (Some(x), Some(y)) => near(x, y),
                (None, None) => awaited(a) == awaited(b),
                _ => false,
            };
            // One that sets things up comes late to its first waits, and leaves with the others.
            a.line == b.line && ends
        })
}

struct Drawing<'a> {
    recording: &'a Recording,
    checked: &'a Checked,
    launch: &'a Launch,
    module: &'a Module<'a>,
    first: u64,
    last: u64,
    /// Every mbarrier.
    objects: BTreeSet<SharedAddress>,
    /// Lines that issue copies.
    copies: BTreeSet<Line>,
}

/// What is waited for, without what depends on who waits.
fn awaited(wait: &Waited) -> (u8, u64, u64) {
    match wait.on {
        Wait::Named { id, .. } => (0, id, wait.phase),
        Wait::Mbarrier { at, .. } => (1, at.0, wait.phase),
        Wait::Cluster { .. } => (2, 0, wait.phase),
        Wait::Registers { count } => (3, u64::from(count), 0),
        Wait::Columns { count } => (4, count, 0),
        Wait::Lanes { mask } => (5, u64::from(mask), 0),
        Wait::Warpgroup => (6, 0, 0),
    }
}

impl Drawing<'_> {
    /// Warps of one role that wait at the same places until about the same steps.
    fn groups(&self, roles: &[Role], left_out: &mut Vec<String>) -> Vec<Group> {
        let mut waits: BTreeMap<WarpId, Vec<&Waited>> = BTreeMap::new();
        let mut busy: BTreeMap<WarpId, usize> = BTreeMap::new();
        let launch = self.launch;
        for rank in 0..u64::from(launch.blocks()) {
            for index in 0..launch.threads().div_ceil(32) {
                waits.insert(WarpId { rank, index }, Vec::new());
            }
        }
        let mut takes_part: BTreeSet<WarpId> = BTreeSet::new();
        // Where everybody comes nobody is set apart.
        let mut came: BTreeMap<(u64, u64), BTreeSet<u32>> = BTreeMap::new();
        for wait in &self.recording.waits {
            if let Wait::Named { id, .. } = wait.on {
                came.entry((wait.warp.rank, id)).or_default().insert(wait.warp.index);
            }
        }
        let everybody = launch.threads().div_ceil(32) as usize;
        let of_all: BTreeSet<(u64, u64)> =
            came.into_iter().filter(|(_, warps)| warps.len() == everybody).map(|(barrier, _)| barrier).collect();
        for wait in &self.recording.waits {
            // Registers and columns are there for some warps of a role at once, and for others later.
            let is_told = matches!(wait.on, Wait::Named { .. } | Wait::Mbarrier { .. } | Wait::Cluster { .. });
            if wait.to.is_none() || is_told && self.is_drawn(wait.from, wait.to) {
                waits.entry(wait.warp).or_default().push(wait);
            }
            let matters = match wait.on {
                Wait::Mbarrier { .. } => true,
                Wait::Named { id, .. } => wait.to.is_none() || !of_all.contains(&(wait.warp.rank, id)),
                _ => wait.to.is_none(),
            };
            if matters {
                takes_part.insert(wait.warp);
            }
        }
        // Who holds registers matters to who waits for some; who breaks a rule does in any case.
        let is_pool = |group: &Stuck| matches!(group.wait, Wait::Registers { .. });
        let of_pool = matches!(&self.recording.outcome, Outcome::Hangs(stuck) if stuck.iter().any(is_pool));
        if let Outcome::Undefined { rank, warp, .. } = self.recording.outcome {
            takes_part.insert(WarpId { rank, index: warp });
        }
        for mark in &self.recording.marks {
            *busy.entry(mark.warp).or_default() += 1;
            let matters = match mark.what {
                What::Arrives { .. } | What::Copies { .. } | What::Commits { .. } | What::ArrivesNamed { .. } => true,
                What::SetsRegisters { .. } => of_pool,
                _ => false,
            };
            if matters {
                takes_part.insert(mark.warp);
            }
        }
        for work in &self.recording.work {
            *busy.entry(work.warp).or_default() += 1;
            takes_part.insert(work.warp);
        }
        let mut found: Vec<Group> = Vec::new();
        for (warp, own) in &waits {
            let role = role_of(&[warp.index], roles);
            let alike = |group: &&mut Group| {
                let first = group.warps.first().map(|index| WarpId { rank: group.rank, index: *index });
                let theirs = first.and_then(|first| waits.get(&first)).map_or(&[][..], Vec::as_slice);
                group.rank == warp.rank
                    && group.role.as_deref() == role
                    && group.takes_part == takes_part.contains(warp)
                    && are_alike(own, theirs)
            };
            match found.iter_mut().find(alike) {
                Some(group) => group.warps.push(warp.index),
                None => found.push(Group {
                    role: role.map(str::to_owned),
                    rank: warp.rank,
                    warps: vec![warp.index],
                    drawn: *warp,
                    takes_part: takes_part.contains(warp),
                }),
            }
        }
        for group in &mut found {
            let rank = group.rank;
            let most = |index: &&u32| {
                (busy.get(&WarpId { rank, index: **index }).copied().unwrap_or(0), std::cmp::Reverse(**index))
            };
            group.drawn.index = group.warps.iter().max_by_key(most).copied().unwrap_or(0);
        }
        found.sort_by_key(|group| (group.rank, group.warps.first().copied()));
        // Of the first block every role is shown; other blocks of a cluster where they do something else, or stand still.
        let idle = |group: &Group| !group.takes_part && (group.rank > 0 || group.role.is_none());
        if found.iter().any(|group| !idle(group)) {
            let (out, kept): (Vec<Group>, Vec<Group>) = found.into_iter().partition(idle);
            for group in out.iter().filter(|group| group.rank == 0) {
                left_out.push(format!("{}, no part of it", label(group.role.as_deref(), &group.warps)));
            }
            found = kept;
        }
        let stands = matches!(self.recording.outcome, Outcome::Hangs(_));
        let before = found.len();
        let of = |warp: WarpId| waits.get(&warp).map_or(&[][..], Vec::as_slice);
        let own: Vec<(Option<String>, WarpId)> =
            found.iter().filter(|group| group.rank == 0).map(|group| (group.role.clone(), group.drawn)).collect();
        // Blocks of a cluster come to the same places at other times.
        let places = |warp: WarpId| of(warp).iter().map(|wait| wait.line).collect::<BTreeSet<Line>>();
        found.retain(|group| {
            let same =
                |(role, warp): &(Option<String>, WarpId)| *role == group.role && places(*warp) == places(group.drawn);
            group.rank == 0 || stands || !own.iter().any(same)
        });
        if found.len() < before {
            left_out.push("other blocks of the cluster, which do the same and stand under the same names".to_owned());
        }
        if found.len() > MOST_LANES {
            left_out.push(format!("{} more groups of warps", found.len() - MOST_LANES));
            found.truncate(MOST_LANES);
        }
        found
    }

    fn line(&self, line: Line) -> Line {
        self.module.number_of(line)
    }

    fn name(&self, at: SharedAddress) -> String {
        let is_object = |place: u64| self.objects.contains(&SharedAddress::new(at.rank(), place));
        let name = self.checked.program.name_of(at.place(), is_object);
        if at.rank() > 0 { format!("{name} of block {}", at.rank()) } else { name }
    }

    fn object(&self, wait: Wait) -> String {
        match wait {
            Wait::Named { id, .. } => format!("barrier {id}"),
            Wait::Mbarrier { at, .. } => self.name(at),
            Wait::Cluster { .. } => "the cluster barrier".to_owned(),
            Wait::Registers { count } => format!("{count} registers"),
            Wait::Columns { count } => format!("{count} columns"),
            Wait::Lanes { .. } => "other lanes".to_owned(),
            Wait::Warpgroup => "the warpgroup".to_owned(),
        }
    }

    fn is_drawn(&self, from: u64, to: Option<u64>) -> bool {
        from <= self.last && to.is_none_or(|to| to >= self.first)
    }

    fn lane(&self, group: &Group, roles: &[Role]) -> Lane {
        let own = |warp: WarpId| warp == group.drawn;
        let waits = self.recording.waits.iter().filter(|wait| own(wait.warp) && self.is_drawn(wait.from, wait.to));
        let waits = waits.map(|wait| WaitSpan {
            from: wait.from,
            to: wait.to,
            ptx_line: self.line(wait.line),
            kind: wait.on.into(),
            object: self.object(wait.on),
            phase: wait.phase,
            released_by: None,
        });
        let work = self.recording.work.iter().filter(|work| own(work.warp) && self.is_drawn(work.from, Some(work.to)));
        let mut worked: Vec<WorkSpan> = Vec::new();
        for work in work {
            let what = work.duty.name();
            match worked.last_mut() {
                // One stretch of the same, whatever the blocks of the code.
                Some(last) if last.what == what && last.to == work.from => last.to = work.to,
                _ => worked.push(WorkSpan { from: work.from, to: work.to, what }),
            }
        }
        let ends = self.recording.marks.iter().find(|mark| own(mark.warp) && mark.what == What::Ends);
        Lane {
            role: group.role.clone(),
            warps: group.warps.clone(),
            block: group.rank,
            does: group.does(roles),
            takes_part: group.takes_part,
            waits: waits.collect(),
            work: worked,
            marks: self.marks(group),
            ends: ends.map(|mark| mark.step).filter(|step| self.is_drawn(*step, Some(*step))),
        }
    }

    /// What the warps of a lane do, that of several warps together.
    fn marks(&self, group: &Group) -> Vec<LaneMark> {
        let mut often: BTreeMap<(u32, MarkKind, u64, Line), u32> = BTreeMap::new();
        let mut found: BTreeMap<(MarkKind, u64, Line, u32), LaneMark> = BTreeMap::new();
        for mark in &self.recording.marks {
            if mark.warp.rank != group.rank || !group.warps.contains(&mark.warp.index) {
                continue;
            }
            let Some((what, at, count, bytes)) = seen(mark) else { continue };
            let key = at.map_or(u64::MAX, |at| at.0);
            let time = often.entry((mark.warp.index, what, key, mark.line)).or_default();
            *time += 1;
            let object = match mark.what {
                What::ArrivesNamed { id } => Some(format!("barrier {id}")),
                What::ArrivesCluster => Some("the cluster barrier".to_owned()),
                _ => at.map(|at| self.name(at)),
            };
            let fresh = || LaneMark {
                step: mark.step,
                ptx_line: self.line(mark.line),
                what,
                object,
                count: 0,
                bytes: None,
                warps: 0,
            };
            let known = found.entry((what, key, mark.line, *time)).or_insert_with(fresh);
            known.step = known.step.max(mark.step);
            known.count += count;
            known.warps += 1;
            if let Some(bytes) = bytes {
                *known.bytes.get_or_insert(0) += bytes;
            }
        }
        let mut marks: Vec<LaneMark> =
            found.into_values().filter(|mark| self.is_drawn(mark.step, Some(mark.step))).collect();
        marks.sort_by(|a, b| (a.step, a.ptx_line, &a.object).cmp(&(b.step, b.ptx_line, &b.object)));
        marks
    }

    /// Fills in what ended each wait, and adds them up.
    fn dependencies(&self, groups: &[Group], lanes: &mut [Lane]) -> Vec<Dependency> {
        let marks = &self.recording.marks;
        let mut ended: BTreeMap<(u8, u64, u64, u64), usize> = BTreeMap::new();
        let mut issued: BTreeMap<(u64, WarpId, Line), Vec<(usize, u64)>> = BTreeMap::new();
        for (at, mark) in marks.iter().enumerate() {
            if let What::Copies { at: object, .. } | What::Commits { at: object } = mark.what {
                issued.entry((object.0, mark.warp, mark.line)).or_default().push((at, mark.step));
            }
            let key = match mark.what {
                What::Completes { at, phase } => (1, 0, at.0, phase),
                What::CompletesNamed { id, round } => (0, mark.warp.rank, id, round),
                What::CompletesCluster { round } => (2, 0, 0, round),
                _ => continue,
            };
            ended.insert(key, at);
        }
        // A block that is not drawn does what the first one does.
        let lane_of = |warp: WarpId| {
            let has =
                |rank: u64| groups.iter().position(|group| group.rank == rank && group.warps.contains(&warp.index));
            has(warp.rank).or_else(|| has(0))
        };
        let mut sums: BTreeMap<(usize, Line, usize, Line, How), Dependency> = BTreeMap::new();
        // Who only comes to barriers of everybody waits for nobody in particular.
        for (number, group) in groups.iter().enumerate().filter(|(_, group)| group.takes_part) {
            let own = self.recording.waits.iter().filter(|wait| wait.warp == group.drawn);
            let own = own.filter(|wait| self.is_drawn(wait.from, wait.to));
            for (wait, span) in own.zip(lanes.get_mut(number).map(|lane| lane.waits.iter_mut()).into_iter().flatten()) {
                let Some(to) = wait.to.filter(|to| *to > wait.from) else { continue };
                let (kind, object, phase) = awaited(wait);
                let rank = if kind == 0 { wait.warp.rank } else { 0 };
                let Some(&at) = ended.get(&(kind, rank, object, phase)) else { continue };
                let Some(mark) = marks.get(at) else { continue };
                let Some(lane) = lane_of(mark.warp) else { continue };
                let landed = at.checked_sub(1).and_then(|before| marks.get(before));
                let landed = landed.is_some_and(|before| matches!(before.what, What::Lands { .. }));
                let how = match landed {
                    false => How::Arrival,
                    true if self.copies.contains(&mark.line) => How::Copy,
                    true => How::Commit,
                };
                // What came was issued before.
                let sent = issued.get(&(object, mark.warp, mark.line)).map_or(&[][..], Vec::as_slice);
                let before = sent.partition_point(|(other, _)| *other < at).checked_sub(1);
                let sent = before.and_then(|before| sent.get(before)).filter(|_| landed);
                let step = sent.map_or(mark.step, |(_, step)| *step);
                let by = self.line(mark.line);
                span.released_by = Some(Release { lane, ptx_line: by, how, step });
                let sum = sums.entry((number, span.ptx_line, lane, by, how)).or_insert_with(|| Dependency {
                    lane: number,
                    ptx_line: span.ptx_line,
                    objects: Vec::new(),
                    on: lane,
                    by_ptx_line: by,
                    how,
                    times: 0,
                    steps: 0,
                });
                if !sum.objects.contains(&span.object) {
                    sum.objects.push(span.object.clone());
                }
                sum.times += 1;
                sum.steps += to - wait.from;
            }
        }
        let mut found: Vec<Dependency> = sums.into_values().collect();
        found.sort_by_key(|found| (std::cmp::Reverse(found.steps), found.lane, found.ptx_line));
        found
    }

    /// mbarriers of the first block that copies complete.
    fn stages(&self, left_out: &mut Vec<String>) -> Vec<Stage> {
        /// Steps of one phase.
        #[derive(Default)]
        struct Phase {
            filled: Option<u64>,
            over: Option<u64>,
            used: Option<u64>,
        }
        let mut all: BTreeMap<SharedAddress, BTreeMap<u64, Phase>> = BTreeMap::new();
        let mut now: BTreeMap<SharedAddress, u64> = BTreeMap::new();
        for mark in &self.recording.marks {
            match mark.what {
                What::Copies { at, .. } if at.rank() == 0 => {
                    let phase = now.get(&at).copied().unwrap_or(0);
                    all.entry(at).or_default().entry(phase).or_default().filled.get_or_insert(mark.step);
                }
                What::Completes { at, phase } if at.rank() == 0 => {
                    now.insert(at, phase + 1);
                    if let Some(phases) = all.get_mut(&at) {
                        phases.entry(phase).or_default().over = Some(mark.step);
                    }
                }
                _ => {}
            }
        }
        for wait in &self.recording.waits {
            let (Wait::Mbarrier { at, .. }, Some(to)) = (wait.on, wait.to) else { continue };
            let known = all.get_mut(&at).and_then(|phases| phases.get_mut(&wait.phase));
            // Who waits for the phase before the first one finds it over.
            if let Some(phase) = known.filter(|phase| phase.over.is_some_and(|over| over <= to)) {
                phase.used = Some(phase.used.map_or(to, |used| used.min(to)));
            }
        }
        let mut stages = Vec::new();
        for (at, phases) in all {
            let starts: Vec<u64> = phases.values().filter_map(|phase| phase.filled).collect();
            let mut spans = Vec::new();
            for (number, phase) in phases {
                let Some(filled) = phase.filled else { continue };
                let again = starts.iter().copied().find(|start| *start > filled);
                let mut add = |from: u64, to: Option<u64>, state: StageState| {
                    if self.is_drawn(from, to) && to != Some(from) {
                        spans.push(StageSpan { from, to, state, phase: number });
                    }
                };
                add(filled, phase.over, StageState::Filling);
                let Some(over) = phase.over else { continue };
                add(over, phase.used.or(again), StageState::Full);
                if let Some(used) = phase.used {
                    add(used, again, StageState::Used);
                }
            }
            stages.push(Stage { object: self.name(at), spans });
        }
        stages.retain(|stage| !stage.spans.is_empty());
        if stages.len() > MOST_STAGES {
            left_out.push(format!("{} more mbarriers that copies complete", stages.len() - MOST_STAGES));
            stages.truncate(MOST_STAGES);
        }
        stages
    }
}

/// What of a mark is drawn: its kind, the mbarrier, how many, how many bytes.
fn seen(mark: &Mark) -> Option<(MarkKind, Option<SharedAddress>, u64, Option<i64>)> {
    Some(match mark.what {
        What::Init { at, count } => (MarkKind::Init, Some(at), u64::from(count), None),
        What::Arrives { at, arrivals, bytes: 0 } => (MarkKind::Arrive, Some(at), u64::from(arrivals), None),
        What::Arrives { at, arrivals, bytes } => (MarkKind::ExpectTx, Some(at), u64::from(arrivals), Some(bytes)),
        What::Copies { at, copies, bytes } => {
            (MarkKind::Copy, Some(at), u64::from(copies), bytes.map(|bytes| bytes * i64::from(copies)))
        }
        What::Commits { at } => (MarkKind::Commit, Some(at), 1, None),
        What::ArrivesNamed { .. } => (MarkKind::Arrive, None, 1, None),
        What::ArrivesCluster => (MarkKind::Arrive, None, 1, None),
        What::SetsRegisters { count } => (MarkKind::Setmaxnreg, None, u64::from(count), None),
        What::Allocates => (MarkKind::Alloc, None, 1, None),
        What::Frees => (MarkKind::Free, None, 1, None),
        What::Lands { .. }
        | What::Completes { .. }
        | What::CompletesNamed { .. }
        | What::CompletesCluster { .. }
        | What::Ends => return None,
    })
}

impl Lane {
    /// What it is called in a sentence: `producer (warp 0)`.
    pub fn label(&self) -> String {
        let block = if self.block > 0 { format!(" of block {}", self.block) } else { String::new() };
        label(self.role.as_deref(), &self.warps) + &block
    }
}
