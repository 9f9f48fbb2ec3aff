//! setmaxnreg along the order that barriers impose: whether every role gets to the end, and how many registers are held at most.
//!
//! Roles are taken to move as one. What they do between setmaxnreg and the barriers that they share takes no time; waits on mbarriers
//! are taken to end. Every way that a branch leaves open is tried, so that a kernel which cannot end here cannot end at all; one that
//! can may still hang for other reasons.

use std::collections::{HashMap, VecDeque};

use crate::base::{FastSet, IndexVec, Line, work};
use crate::ptx::BarrierAction;
use crate::roles::Role;
use crate::roles::setmaxnreg::{COUNTS, Requested};
use crate::simt::{BlockId, Graph, SiteId, ThreadSet, Warps, passing};
use crate::sync::rules::barriers::Named;

/// States that are looked at.
const MAX_STATES: usize = 100_000;
/// Roles that are told apart.
const MAX_ROLES: usize = 16;
/// Paths by a setmaxnreg that are tried on their own.
const MAX_WAYS: usize = 16;

/// What became of a walk through all orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether some order brings every role to its end.
    pub ends: bool,
    /// The most registers that are held at once, in registers of a thread times warps.
    pub held: u32,
    /// Where a role waits for registers for ever, with its index, when no order brings all to their end.
    pub stuck: Option<(usize, Line)>,
    /// The setmaxnreg that a role must come by for that, with its index, where it need not.
    pub by: Option<(usize, Line)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Set { count: u32, line: Line },
    Sync { id: u32, count: u32 },
    Arrive { id: u32, count: u32 },
    End,
}

/// What a role does, in its order.
#[derive(Clone)]
struct Course {
    events: Vec<Event>,
    /// What may come after each, and first.
    next: Vec<Vec<usize>>,
    first: Vec<usize>,
    warps: u32,
    threads: u32,
}

/// Where a role is: at which event, with how many registers of a thread, and whether it waits there for others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Standing {
    at: u16,
    has: u16,
    waits: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    roles: [Standing; MAX_ROLES],
    /// Threads that have arrived at each barrier.
    arrived: [u16; 16],
}

fn course(warps: &Warps<'_>, role: &Role, requested: &[Requested], named: &Named) -> Option<Course> {
    let threads = role.threads?;
    let mut events: HashMap<SiteId, Event> = HashMap::new();
    for site in requested.iter().filter(|site| !warps.at(site.index).intersection(&threads).is_empty()) {
        events.insert(
            site.index,
            Event::Set { count: site.count.filter(|count| COUNTS.contains(count))?, line: site.line },
        );
    }
    for (id, sites) in &named.barriers {
        for site in sites {
            let (Some(count), Some(here)) = (site.count, site.threads) else { continue };
            // Barriers of a part of a role do not order roles.
            if !threads.within(&here) || count <= threads.len() {
                continue;
            }
            let event = match site.action {
                BarrierAction::Arrive => Event::Arrive { id: *id, count },
                _ => Event::Sync { id: *id, count },
            };
            events.insert(site.index, event);
        }
    }
    let mut order: Vec<SiteId> = events.keys().copied().collect();
    order.sort_unstable();
    let place: HashMap<SiteId, usize> = order.iter().enumerate().map(|(at, index)| (*index, at)).collect();
    let end = order.len();
    let mut found = Course {
        events: order.iter().filter_map(|index| events.get(index).copied()).chain([Event::End]).collect(),
        next: Vec::new(),
        first: Vec::new(),
        warps: threads.warps().len() as u32,
        threads: threads.len(),
    };
    let follow = |block: BlockId, from: SiteId| follow(warps, &threads, &place, end, block, from);
    found.first = follow(Graph::ENTRY, SiteId::FIRST);
    for &index in &order {
        let block = warps.graph.sites.get(index)?.block;
        found.next.push(follow(block, index.after()));
    }
    found.next.push(Vec::new());
    found.keep_to(&|_, event| matches!(event, Event::Set { .. }));
    Some(found)
}

impl Course {
    /// Leaves out the ways by which a role never comes to one of some events, where others do. Whoever has nothing to do and leaves at once
    /// says nothing about whether budgets can be had.
    fn keep_to(&mut self, wanted: &dyn Fn(usize, &Event) -> bool) {
        let is_wanted: Vec<bool> = self.events.iter().enumerate().map(|(at, event)| wanted(at, event)).collect();
        let mut leads = is_wanted.clone();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for at in (0..leads.len()).rev() {
                work::spend_on(1 + self.next.get(at).map_or(0, Vec::len));
                let on = !leads[at] && self.next.get(at).is_some_and(|next| next.iter().any(|to| leads[*to]));
                leads[at] |= on;
                changed |= on;
            }
        }
        let keep = |list: &mut Vec<usize>| {
            if list.iter().any(|at| leads[*at]) {
                list.retain(|at| leads[*at]);
            }
        };
        keep(&mut self.first);
        let mut seen = vec![false; self.events.len()];
        let mut open = self.first.clone();
        while let Some(at) = open.pop() {
            work::spend(1);
            if is_wanted[at] || std::mem::replace(&mut seen[at], true) {
                continue;
            }
            if let Some(next) = self.next.get_mut(at) {
                keep(next);
                open.extend(next.iter());
            }
        }
    }

    /// Whether no way leads by more than one setmaxnreg.
    fn sets_once(&self) -> bool {
        let mut open: Vec<usize> = self.sets().filter_map(|(at, _)| self.next.get(at)).flatten().copied().collect();
        let mut seen = vec![false; self.events.len()];
        while let Some(at) = open.pop() {
            work::spend(1);
            if matches!(self.events.get(at), Some(Event::Set { .. })) {
                return false;
            }
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(self.next.get(at).into_iter().flatten());
            }
        }
        true
    }

    /// The setmaxnreg in its order, with their lines.
    fn sets(&self) -> impl Iterator<Item = (usize, Line)> + '_ {
        self.events.iter().enumerate().filter_map(|(at, event)| match event {
            Event::Set { line, .. } => Some((at, *line)),
            _ => None,
        })
    }
}

/// The events that may come next from a place in a block.
fn follow(
    warps: &Warps<'_>,
    threads: &ThreadSet,
    place: &HashMap<SiteId, usize>,
    end: usize,
    block: BlockId,
    from: SiteId,
) -> Vec<usize> {
    let graph = &warps.graph;
    let mut found: Vec<usize> = Vec::new();
    work::spend_on(graph.blocks.len() / 16);
    let mut seen = IndexVec::filled(false, graph.blocks.len());
    let mut open = vec![(block, from)];
    while let Some((at, from)) = open.pop() {
        work::spend(1);
        if let Some((index, _)) = graph.sites_of(at).find(|(index, _)| *index >= from && place.contains_key(index)) {
            found.extend(place.get(&index));
            continue;
        }
        let Some(info) = graph.blocks.get(at) else { continue };
        let here = warps.reach.block(at).intersection(threads);
        let ways = info.successors.iter().filter(|edge| !passing(graph, &warps.values, info, edge, here).is_empty());
        let ways: Vec<BlockId> = ways.map(|edge| edge.to).collect();
        if ways.is_empty() {
            found.push(end);
        }
        for to in ways {
            if !std::mem::replace(seen.get_mut(to).unwrap_or(&mut true), true) {
                open.push((to, SiteId::FIRST));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// What every role of a kernel does, in its order.
pub struct RoleTraces {
    of_roles: Vec<Course>,
    /// The registers at entry that were expected, what becomes of them, and the steps that it took to find out.
    expected: Option<(u32, Option<Outcome>, u64)>,
}

impl RoleTraces {
    /// None where too little is known.
    pub fn of(warps: &Warps<'_>, roles: &[Role], requested: &[Requested], named: &Named) -> Option<Self> {
        if warps.graph.calls || !warps.graph.complete || roles.is_empty() || roles.len() > MAX_ROLES {
            return None;
        }
        let of_roles = roles.iter().map(|role| course(warps, role, requested, named)).collect::<Option<Vec<_>>>()?;
        Some(RoleTraces { of_roles, expected: None })
    }

    /// Walks for a number of registers at entry before anybody asks.
    pub fn expect(&mut self, entry: u32) {
        let (outcome, steps) = work::counted(|| walk(self.of_roles.clone(), entry));
        self.expected = Some((entry, outcome, steps));
    }

    /// Tries every order for a number of registers at entry. None where there are too many.
    pub fn walk(&self, entry: u32) -> Option<Outcome> {
        match &self.expected {
            // Whether there was time to walk before must not decide whether there are steps enough.
            Some((expected, outcome, steps)) if *expected == entry => {
                work::spend(*steps);
                outcome.clone()
            }
            _ => walk(self.of_roles.clone(), entry),
        }
    }
}

fn walk(mut courses: Vec<Course>, entry: u32) -> Option<Outcome> {
    if entry > *COUNTS.end() {
        return None;
    }
    let outcome = explore(&courses, entry)?;
    if !outcome.ends {
        return Some(outcome);
    }
    // A role that comes by one of several must get its registers by each of them.
    let several = courses.iter().enumerate().filter(|(_, course)| course.sets().count() > 1 && course.sets_once());
    let ways: Vec<(usize, usize, Line)> =
        several.flat_map(|(role, course)| course.sets().map(move |(at, line)| (role, at, line))).collect();
    for (role, wanted, line) in ways.into_iter().take(MAX_WAYS) {
        let mut course = courses.get(role)?.clone();
        course.keep_to(&|at, _| at == wanted);
        let usual = std::mem::replace(courses.get_mut(role)?, course);
        let forced = explore(&courses, entry);
        *courses.get_mut(role)? = usual;
        if let Some(forced) = forced.filter(|forced| !forced.ends && forced.stuck.is_some()) {
            return Some(Outcome { by: Some((role, line)), ..forced });
        }
    }
    Some(outcome)
}

fn explore(courses: &[Course], entry: u32) -> Option<Outcome> {
    let all: u32 = courses.iter().map(|course| course.warps).sum();
    let available = entry.checked_mul(all)?;
    let mut open: VecDeque<State> = VecDeque::new();
    let mut seen: FastSet<State> = FastSet::default();
    let mut outcome = Outcome { ends: false, held: 0, stuck: None, by: None };
    let nowhere = Standing { at: 0, has: u16::try_from(entry).ok()?, waits: false };
    let mut starts = vec![State { roles: [nowhere; MAX_ROLES], arrived: [0; 16] }];
    for (role, course) in courses.iter().enumerate() {
        starts = put(starts, role, &course.first)?;
    }
    open.extend(starts.into_iter().filter(|state| seen.insert(*state)));
    while let Some(state) = open.pop_front() {
        work::spend(1);
        let standings = || courses.iter().zip(&state.roles);
        let held: u32 = standings().map(|(course, role)| course.warps * u32::from(role.has)).sum();
        outcome.held = outcome.held.max(held);
        if standings().all(|(course, role)| matches!(course.events.get(usize::from(role.at)), Some(Event::End))) {
            outcome.ends = true;
            continue;
        }
        let mut moved = false;
        let mut wanting = None;
        let goes = |(course, standing): (&Course, &Standing)| {
            matches!(course.events.get(usize::from(standing.at)), Some(Event::Sync { .. })) && !standing.waits
        };
        // Whoever comes to a barrier holds what it holds, and takes nothing from others: it may go there first.
        let first = standings().position(goes);
        let is_next = |role: usize, standing: &Standing| !standing.waits && first.is_none_or(|first| first == role);
        for (role, (course, standing)) in standings().enumerate().filter(|(role, (_, at))| is_next(*role, at)) {
            let mut after = state;
            let mut gone = vec![role];
            let event = course.events.get(usize::from(standing.at));
            match event {
                Some(Event::Set { count, line }) => {
                    let rest = held - course.warps * u32::from(standing.has);
                    let more = *count > u32::from(standing.has);
                    if more && rest.checked_add(count.checked_mul(course.warps)?)? > available {
                        wanting = wanting.or(Some((role, *line)));
                        continue;
                    }
                    after.roles.get_mut(role)?.has = u16::try_from(*count).ok()?;
                }
                Some(Event::Sync { id, count }) | Some(Event::Arrive { id, count }) => {
                    let slot = after.arrived.get_mut(*id as usize)?;
                    *slot = slot.checked_add(u16::try_from(course.threads).ok()?)?;
                    if u32::from(*slot) >= *count {
                        *slot = 0;
                        for (other, (course, standing)) in courses.iter().zip(&mut after.roles).enumerate() {
                            let same = matches!(course.events.get(usize::from(standing.at)),
                                Some(Event::Sync { id: theirs, .. }) if theirs == id);
                            if standing.waits && same {
                                standing.waits = false;
                                gone.push(other);
                            }
                        }
                    } else if matches!(event, Some(Event::Sync { .. })) {
                        after.roles.get_mut(role)?.waits = true;
                        gone.clear();
                    }
                }
                Some(Event::End) | None => continue,
            }
            moved = true;
            let mut states = vec![after];
            for other in gone {
                let from = state.roles.get(other).map(|standing| usize::from(standing.at))?;
                states = put(states, other, courses.get(other)?.next.get(from)?)?;
            }
            for state in states {
                if seen.len() >= MAX_STATES {
                    return None;
                }
                if seen.insert(state) {
                    open.push_back(state);
                }
            }
        }
        if !moved && outcome.stuck.is_none() {
            outcome.stuck = wanting;
        }
    }
    if outcome.ends {
        outcome.stuck = None;
    }
    Some(outcome)
}

/// The same states with a role at each of some events. None where there are too many.
fn put(states: Vec<State>, role: usize, at: &[usize]) -> Option<Vec<State>> {
    let mut all = Vec::with_capacity(states.len() * at.len());
    for mut state in states {
        for place in at {
            state.roles.get_mut(role)?.at = u16::try_from(*place).ok()?;
            all.push(state);
        }
    }
    (all.len() <= MAX_STATES).then_some(all)
}
