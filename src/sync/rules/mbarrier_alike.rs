//! mbarriers that are used alike, but one of them counts otherwise.
//!
//! Elements of an array have one use: the same instructions arrive at them, an index says which one is meant; or, where a loop is
//! unrolled, instructions of the same kind by as many threads. What makes one of them complete makes the others complete.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Line, work};
use crate::simt::{Value, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarrier_checks::{Group, Objects, is_count_told};
use crate::sync::rules::mbarriers::{Act, MbarrierSite, Place};

/// Bytes from one object of an array to the next, at most.
const MAX_STRIDE: i64 = 64;

/// What an instruction does, by how many threads, how often, and whether for other blocks too.
type Kind = (&'static str, Option<u32>, Option<u64>, bool);

/// An object: its offset, its count and the line of its init.
struct Object {
    variable: u32,
    offset: i64,
    count: u64,
    line: Line,
    name: String,
    /// The instructions that arrive at it.
    arrivals: Vec<(usize, Kind)>,
    /// What is done to it, in order.
    shape: Vec<Kind>,
}

/// Objects that count otherwise than all others that are used as they are. Of what is told already nothing more is told.
pub(super) fn check(warps: &Warps<'_>, objects: &Objects<'_>, told: &[Finding]) -> Vec<Finding> {
    let inits = objects.sites.iter().filter(|site| site.act == Act::Init);
    let known: Vec<Object> = inits.filter_map(|init| object(warps, objects, init)).collect();
    let mut checks: Vec<Finding> = Vec::new();
    let mut by_arrivals: BTreeMap<_, Vec<&Object>> = BTreeMap::new();
    let mut by_shape: BTreeMap<_, Vec<&Object>> = BTreeMap::new();
    for object in &known {
        by_arrivals.entry((object.variable, &object.arrivals)).or_default().push(object);
        by_shape.entry((object.variable, &object.shape)).or_default().push(object);
    }
    let rings = rings(objects, &known);
    for alike in by_arrivals.values() {
        add(&mut checks, odd(alike), "the same instructions arrive at it");
    }
    for alike in &rings {
        let found = odd(alike).filter(|found| is_peeled(alike, found));
        add(&mut checks, found, "an index says which of them an instruction arrives at");
    }
    for alike in by_shape.values() {
        let same_loops = |(object, usual): &(&Object, u64)| {
            let peer = alike.iter().find(|other| other.count == *usual);
            peer.is_some_and(|peer| loops(warps, peer) == loops(warps, object))
        };
        let why =
            "instructions of the same kinds arrive at it in the same loops and wait for it, run by as many threads";
        add(&mut checks, odd(alike).filter(same_loops), why);
    }
    // Of two either may be wrong, unless one is known to be.
    let is_told =
        |checks: &[Finding], object: &Object| is_count_told(checks, object.line) || is_count_told(told, object.line);
    for alike in by_arrivals.values().filter(|alike| is_pair(alike)).chain(rings.iter().filter(|ring| is_pair(ring))) {
        let [a, b] = alike[..] else { continue };
        if !is_told(&checks, a) && !is_told(&checks, b) && is_peeled(alike, &(a, b.count)) {
            add(&mut checks, [(a, b.count), (b, a.count)], "the same instructions arrive at both");
        }
    }
    checks
}

/// Adds what is not told yet.
fn add<'o>(checks: &mut Vec<Finding>, found: impl IntoIterator<Item = (&'o Object, u64)>, why: &str) {
    for (object, usual) in found {
        work::spend_on(checks.len());
        if !checks.iter().any(|known| known.line == object.line) {
            checks.push(differs(object, usual, why));
        }
    }
}

/// Objects that an instruction arrives at one of, by an index. Where one of the places is nothing that is initialised once, less is known
/// of the index than it seems.
fn rings<'o>(objects: &Objects<'_>, known: &'o [Object]) -> Vec<Vec<&'o Object>> {
    let mut seen = BTreeSet::new();
    let mut rings = Vec::new();
    for site in objects.sites.iter().filter(|site| site.act.arrives()) {
        let (Some(variable), Some(places)) = (site.variable, &site.places) else { continue };
        if places.len() < 2 || !seen.insert((variable, places)) {
            continue;
        }
        let of = |place: &i64| {
            known
                .iter()
                .inspect(|_| work::spend(1))
                .find(|object| object.variable == variable && object.offset == *place)
        };
        rings.extend(places.iter().map(of).collect::<Option<Vec<&Object>>>());
    }
    rings
}

/// Whether what arrives at one alone, and not at those that count as others do, or the other way around, is of a kind with what arrives at
/// both: turns of a loop that stand before or after it.
fn is_peeled(alike: &[&Object], (object, usual): &(&Object, u64)) -> bool {
    alike.iter().filter(|other| other.count == *usual).all(|other| {
        work::spend_on(object.arrivals.len() * (other.arrivals.len() + 1));
        let both: Vec<Kind> =
            object.arrivals.iter().filter(|arrival| other.arrivals.contains(arrival)).map(|(_, kind)| *kind).collect();
        let alone = |one: &Object, other: &Object| {
            one.arrivals.iter().filter(|arrival| !other.arrivals.contains(arrival)).all(|(_, kind)| both.contains(kind))
        };
        !both.is_empty() && alone(object, other) && alone(other, object)
    })
}

/// The innermost loops that an object is arrived at in, by their first blocks. Waits have a loop of their own each.
fn loops(warps: &Warps<'_>, object: &Object) -> Vec<Option<u32>> {
    let graph = &warps.graph;
    let around = |(index, _): &(usize, Kind)| graph.loop_of(graph.sites.get(*index)?.block);
    let mut found: Vec<Option<u32>> = object.arrivals.iter().map(around).collect();
    found.sort_unstable();
    found
}

fn differs(object: &Object, usual: u64, why: &str) -> Finding {
    Finding {
        code: "PI310",
        fatal: true,
        confidence: Confidence::Likely,
        line: object.line,
        message: format!(
            "the mbarrier {} counts to {}, those beside it that are used alike to {usual}",
            object.name, object.count
        ),
        reasoning: format!("{why}: as many arrivals complete it as complete the others"),
    }
}

/// The only one of several that counts otherwise, with what the others count to, where two of these are elements of an array with it.
fn odd<'o>(alike: &[&'o Object]) -> Option<(&'o Object, u64)> {
    if alike.len() < 3 {
        return None;
    }
    let of = |count: u64| {
        work::spend_on(alike.len());
        alike.iter().filter(|object| object.count == count).count()
    };
    let object = alike.iter().find(|object| of(object.count) == 1)?;
    let usual = alike.iter().map(|object| object.count).find(|count| *count != object.count)?;
    let at = |offset: Option<i64>| alike.iter().any(|other| Some(other.offset) == offset);
    let beside = (1..=MAX_STRIDE).any(|stride| {
        let place = |steps: i64| object.offset.checked_add(stride.saturating_mul(steps));
        at(place(-1)) && (at(place(1)) || at(place(-2))) || at(place(1)) && at(place(2))
    });
    (of(usual) == alike.len() - 1 && beside).then_some((*object, usual))
}

/// Two side by side that count differently.
fn is_pair(alike: &[&Object]) -> bool {
    let are_near =
        |a: i64, b: i64| a.checked_sub(b).is_some_and(|apart| apart.unsigned_abs() <= MAX_STRIDE.unsigned_abs());
    matches!(alike, [a, b] if a.count != b.count && are_near(a.offset, b.offset))
}

/// How an object is used; none where others than those that are known may arrive at it, or nobody waits for it.
fn object(warps: &Warps<'_>, objects: &Objects<'_>, init: &MbarrierSite) -> Option<Object> {
    let (Some(variable), Place::At(offset), Some(count)) = (init.variable, init.place, init.argument) else {
        return None;
    };
    let group: Group = (variable, Some([offset].into()));
    let (mut arrivals, mut shape) = (Vec::new(), Vec::new());
    let (mut waited, mut inits) = (false, 0);
    for site in objects.of(&group) {
        match (site.act, &site.places) {
            (Act::Init, Some(_)) => inits += 1,
            (Act::Inval, _) | (Act::Wait, None) => {}
            // Whoever may arrive at it or start it anew decides what it needs.
            (Act::Other, _) | (_, None) => return None,
            _ => {}
        }
        if matches!(site.act, Act::Init | Act::Inval) || site.places.is_none() {
            continue;
        }
        let most = site.most.filter(|_| site.act == Act::Arrive);
        let kind = (site.act.name(), threads_at(warps, site, offset), most, site.remote);
        waited |= site.act == Act::Wait;
        shape.push(kind);
        if site.act.arrives() {
            arrivals.push((site.index, kind));
        }
    }
    shape.sort_unstable();
    let name = init.object(warps).unwrap_or_default();
    let is_used = waited && !arrivals.is_empty() && inits == 1;
    is_used.then_some(Object { variable, offset, count, line: init.line, name, arrivals, shape })
}

/// Threads that run an instruction for an object: each may have one of its own.
fn threads_at(warps: &Warps<'_>, site: &MbarrierSite, offset: i64) -> Option<u32> {
    let address = warps.values.operand(&warps.graph, site.index, site.address(warps)?);
    let Value::Addresses { offsets, .. } = address else { return site.threads };
    Some(warps.at(site.index).holding(&offsets, |at| *at == offset).len())
}
