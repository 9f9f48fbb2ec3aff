//! The map of shared memory: rings, buffers and mbarriers by their place, and the least that a launch must bring.

use std::collections::BTreeMap;

use super::model::{Direction, How, RegionKind, RegionUse, SharedMap, SharedRegion, UnknownAccess, Untouched};
use super::rings::{Ring, ring};
use super::uses::{Use, Uses};
use crate::base::{Line, work};
use crate::simt::{AddressSets, SiteId, Warps};
use crate::sync::Agreement;
use crate::sync::execute::footprint::{MemoryKind, OBJECT, Span};
use crate::sync::program::Variable;
use crate::sync::value::Basis;

/// Bytes under way to be a region.
struct Draft<'u> {
    start: u64,
    /// Just past what is known to be touched.
    end: u64,
    ring: Option<Ring>,
    complete: bool,
    /// Whether `end` is all of it.
    is_whole: bool,
    is_object: bool,
    uses: Vec<&'u Use>,
}

/// The map; none where nothing touches shared memory.
pub(super) fn map(uses: &Uses<'_>, warps: &Warps<'_>, number: &dyn Fn(Line) -> Line) -> Option<SharedMap> {
    let shared: Vec<&Use> = uses.all.iter().filter(|used| used.memory == MemoryKind::Shared).collect();
    let unknown: Vec<UnknownAccess> = unknown(uses, MemoryKind::Shared, number);
    let static_bytes = uses.variables.iter().filter_map(|variable| variable.bytes).sum();
    if shared.is_empty() && unknown.is_empty() && static_bytes == 0 {
        return None;
    }
    let least = least(&shared, uses, warps);
    let regions = regions(&shared, uses, number);
    let is_settled = unknown.is_empty() && shared.iter().all(|used| used.is_settled);
    let untouched = is_settled.then(|| untouched(&regions, &uses.variables));
    Some(SharedMap {
        static_bytes,
        dynamic_least_bytes: least.map(|(bytes, _)| bytes),
        dynamic_least_ptx_line: least.and_then(|(_, site)| uses.line(site)).map(number),
        regions,
        untouched,
        unknown,
    })
}

/// Instructions whose place is not known, each once.
pub(super) fn unknown(uses: &Uses<'_>, memory: MemoryKind, number: &dyn Fn(Line) -> Line) -> Vec<UnknownAccess> {
    let mut found: Vec<UnknownAccess> = Vec::new();
    for (site, _, how) in uses.unknown.iter().filter(|(_, of, _)| *of == memory) {
        let Some(ptx_line) = uses.line(*site).map(number) else { continue };
        if found.last().is_none_or(|last| (last.ptx_line, last.how) != (ptx_line, *how)) {
            found.push(UnknownAccess { ptx_line, how: *how });
        }
    }
    found
}

/// The variable that a place is in, the bytes from its start, and whether the launch decides its size.
fn variable_of(place: u64, variables: &[Variable]) -> Option<&Variable> {
    let at = variables.partition_point(|variable| variable.start <= place);
    at.checked_sub(1).and_then(|at| variables.get(at))
}

/// Instructions that are asked whether all threads come to them, at most.
const MOST_ASKED: usize = 12;

/// The end of dynamic shared memory that is touched whatever a launch is, and by which instruction. Places rest on constants alone; where a
/// number of trips or an extent decides who gets there, all threads must come or none, and only their first pass counts, or a ring that
/// constants close.
fn least(shared: &[&Use], uses: &Uses<'_>, warps: &Warps<'_>) -> Option<(u64, SiteId)> {
    let start = uses.variables.iter().find(|variable| variable.bytes.is_none())?.start;
    let mut ends: Vec<(u64, &Use, &Span)> = Vec::new();
    for used in shared {
        work::spend_on(used.spans.len());
        let is_constant = |span: &&Span| span.place == Basis::Fact && span.path <= Basis::Input && span.start >= start;
        ends.extend(used.spans.iter().filter(is_constant).map(|span| (used.end(span), *used, span)));
    }
    ends.sort_by_key(|(end, used, span)| (std::cmp::Reverse(*end), used.site, span.pass));
    let mut agreement = Agreement::new(warps);
    let mut sets = AddressSets::new(&warps.graph, &warps.values, &warps.reach);
    let mut asked: Vec<(SiteId, bool, bool)> = Vec::new();
    for (end, used, span) in ends {
        if span.path == Basis::Fact {
            return Some((end - start, used.site));
        }
        let known = asked.iter().find(|(site, ..)| *site == used.site).copied();
        let (_, all_come, closes) = match known {
            Some(known) => known,
            None if asked.len() >= MOST_ASKED => continue,
            None => {
                let closes =
                    used.returned && used.operand(uses).is_some_and(|it| sets.operand(used.site, it).is_some());
                let found = (used.site, agreement.all_come(used.site), closes);
                asked.push(found);
                found
            }
        };
        if all_come && (span.pass == 0 || closes) {
            return Some((end - start, used.site));
        }
    }
    None
}

fn regions(shared: &[&Use], uses: &Uses<'_>, number: &dyn Fn(Line) -> Line) -> Vec<SharedRegion> {
    let mut drafts = objects(shared, &uses.variables);
    let (rings, plain) = of_rings(shared);
    let first_plain = drafts.len();
    drafts.extend(rings);
    of_buffers(&mut drafts, first_plain, plain, &uses.variables);
    drafts.sort_by_key(|draft| (draft.start, draft.end));
    let starts: Vec<u64> = drafts.iter().map(|draft| draft.start).collect();
    drafts.iter().map(|draft| region(draft, &starts, uses, number)).collect()
}

/// mbarriers that lie side by side.
fn objects<'u>(shared: &[&'u Use], variables: &[Variable]) -> Vec<Draft<'u>> {
    let mut at: BTreeMap<u64, Vec<&'u Use>> = BTreeMap::new();
    for used in shared.iter().filter(|used| used.is_object) {
        for span in &used.spans {
            let users = at.entry(span.start).or_default();
            if users.last().is_none_or(|last| last.site != used.site) {
                users.push(used);
            }
        }
    }
    let mut drafts: Vec<Draft<'u>> = Vec::new();
    for (start, users) in at {
        let same = |last: &Draft<'_>| {
            variable_of(last.start, variables).map(|it| it.start) == variable_of(start, variables).map(|it| it.start)
        };
        match drafts.last_mut().filter(|last| last.end == start && same(last)) {
            Some(last) => {
                last.end += OBJECT.1;
                last.uses.extend(users);
            }
            None => drafts.push(Draft {
                start,
                end: start + OBJECT.1,
                ring: None,
                complete: true,
                is_whole: true,
                is_object: true,
                uses: users,
            }),
        }
    }
    drafts
}

/// Rings, those of one stride that share their stages together; and what goes round none.
fn of_rings<'u>(shared: &[&'u Use]) -> (Vec<Draft<'u>>, Vec<&'u Use>) {
    let (mut found, mut plain): (Vec<(Ring, &'u Use)>, Vec<&'u Use>) = (Vec::new(), Vec::new());
    for used in shared.iter().filter(|used| !used.is_object) {
        // A walk through a buffer is a ring only where it comes round again; what copies bring are stages either way.
        let goes_round = used.returned || matches!(used.how, How::TensorCopy | How::BulkCopy);
        match ring(&used.spans).filter(|_| goes_round) {
            Some(ring) => found.push((ring, used)),
            None => plain.push(used),
        }
    }
    found.sort_by_key(|(ring, _)| (ring.stride, ring.start));
    let mut drafts: Vec<Draft<'u>> = Vec::new();
    for (ring, used) in found {
        let together = drafts.iter_mut().find_map(|draft| {
            let other = draft.ring.as_mut().filter(|other| other.stride == ring.stride)?;
            let within = ring.start.checked_sub(other.start)? + ring.width <= other.stride;
            within.then_some((other, &mut draft.complete, &mut draft.is_whole, &mut draft.uses))
        });
        match together {
            Some((other, complete, is_whole, uses)) => {
                other.width = other.width.max(ring.start + ring.width - other.start);
                *complete = if ring.stages == other.stages {
                    *complete || used.returned
                } else if ring.stages > other.stages {
                    used.returned
                } else {
                    *complete
                };
                other.stages = other.stages.max(ring.stages);
                *is_whole &= used.is_whole;
                uses.push(used);
            }
            None => drafts.push(Draft {
                start: ring.start,
                end: ring.end(),
                ring: Some(ring),
                complete: used.returned,
                is_whole: used.is_whole,
                is_object: false,
                uses: vec![used],
            }),
        }
    }
    for draft in &mut drafts {
        draft.end = draft.ring.map_or(draft.end, |ring| ring.end());
    }
    (drafts, plain)
}

/// Adds what goes round no ring: to the ring that it lies in, or to bytes that others touch, too.
fn of_buffers<'u>(drafts: &mut Vec<Draft<'u>>, rings_from: usize, plain: Vec<&'u Use>, variables: &[Variable]) {
    let hull = |used: &Use| {
        let start = used.spans.iter().map(|span| span.start).min()?;
        let end = used.spans.iter().map(Span::end).max()?;
        Some((start, end))
    };
    let rings_to = drafts.len();
    let mut loose: Vec<(u64, u64, &'u Use)> = Vec::new();
    for used in plain {
        let Some((start, end)) = hull(used) else { continue };
        work::spend_on(rings_to - rings_from);
        let home = drafts.get_mut(rings_from..rings_to).unwrap_or_default().iter_mut();
        match home.into_iter().find(|draft| draft.start <= start && end <= draft.end) {
            Some(draft) => draft.uses.push(used),
            None => loose.push((start, end, used)),
        }
    }
    loose.sort_by_key(|(start, end, used)| (*start, *end, used.site));
    let from = drafts.len();
    for (start, end, used) in loose {
        let same = |place: u64| variable_of(place, variables).map(|variable| variable.start);
        let last = drafts.get_mut(from..).and_then(|own| own.last_mut());
        // Side by side are parts of one only where one kind of instruction touches them.
        let meets = |last: &Draft<'_>| {
            let alike = |other: &&Use| other.how == used.how && other.role == used.role;
            start < last.end || start == last.end && last.uses.iter().any(alike) && used.is_whole
        };
        match last.filter(|last| meets(last) && same(last.start) == same(start)) {
            Some(last) => {
                last.is_whole = if end > last.end { used.is_whole } else { last.is_whole || used.is_whole };
                last.end = last.end.max(end);
                last.uses.push(used);
            }
            None => drafts.push(Draft {
                start,
                end,
                ring: None,
                complete: true,
                is_whole: used.is_whole,
                is_object: false,
                uses: vec![used],
            }),
        }
    }
}

fn region(draft: &Draft<'_>, starts: &[u64], uses: &Uses<'_>, number: &dyn Fn(Line) -> Line) -> SharedRegion {
    let variable = variable_of(draft.start, &uses.variables);
    let offset = draft.start - variable.map_or(0, |variable| variable.start);
    let after = starts.partition_point(|start| *start <= draft.start);
    let next = starts.get(after).copied();
    let end_of_variable = variable.and_then(|variable| Some(variable.start + variable.bytes?));
    // Of what only the start is known, all up to the next region may be its own.
    let room = next.into_iter().chain(end_of_variable).min();
    let end = match draft.ring {
        _ if draft.is_whole => Some(draft.end),
        Some(_) => Some(room.filter(|room| *room < draft.end && draft.complete).unwrap_or(draft.end)),
        None => room,
    };
    let (kind, count, stride) = match draft.ring {
        Some(ring) => (RegionKind::Ring, ring.stages, Some(ring.stride)),
        None if draft.is_object => (RegionKind::Mbarriers, (draft.end - draft.start) / OBJECT.1, None),
        None => (RegionKind::Buffer, 1, None),
    };
    SharedRegion {
        kind,
        variable: variable.map(|variable| variable.name.clone()),
        dynamic: variable.is_some_and(|variable| variable.bytes.is_none()),
        offset,
        bytes: end.map(|end| end.saturating_sub(draft.start)),
        exact: draft.is_whole,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        complete: draft.complete,
        stride_bytes: stride,
        uses: of_region(&draft.uses, uses, number),
    }
}

/// Who touches a region, by what they do.
pub(super) fn of_region(users: &[&Use], uses: &Uses<'_>, number: &dyn Fn(Line) -> Line) -> Vec<RegionUse> {
    let mut found: BTreeMap<(Direction, How, Option<String>), Vec<Line>> = BTreeMap::new();
    for used in users {
        let Some(line) = uses.line(used.site).map(number) else { continue };
        found.entry((used.direction, used.how, used.role.clone())).or_default().push(line);
    }
    let told = |((direction, how, role), mut ptx_lines): ((Direction, How, Option<String>), Vec<Line>)| {
        ptx_lines.sort_unstable();
        ptx_lines.dedup();
        RegionUse { direction, how, role, ptx_lines }
    };
    found.into_iter().map(told).collect()
}

/// Bytes of static variables that no region covers.
fn untouched(regions: &[SharedRegion], variables: &[Variable]) -> Vec<Untouched> {
    let mut found = Vec::new();
    for variable in variables {
        let Some(bytes) = variable.bytes else { continue };
        work::spend_on(regions.len());
        let own = regions.iter().filter(|region| region.variable.as_ref() == Some(&variable.name));
        let mut spans: Vec<(u64, u64)> =
            own.map(|region| (region.offset, region.bytes.map_or(bytes, |size| region.offset + size))).collect();
        spans.sort_unstable();
        let mut at = 0;
        for (start, end) in spans.into_iter().chain([(bytes, bytes)]) {
            if start.min(bytes) > at {
                let (offset, bytes) = (at, start.min(bytes) - at);
                found.push(Untouched { variable: variable.name.clone(), offset, bytes });
            }
            at = at.max(end);
        }
    }
    found
}
