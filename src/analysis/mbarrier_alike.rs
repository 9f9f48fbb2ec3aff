//! mbarriers that are used alike, but one of them counts otherwise.
//!
//! Elements of an array have one use: the same instructions arrive at them and wait for them, an index says which one is meant; or, where
//! a loop is unrolled, instructions of the same kind by as many threads. What makes one of them complete makes the others complete.

use std::collections::BTreeMap;

use super::check::{Check, Confidence};
use super::mbarrier_checks::{Group, Objects};
use super::mbarriers::{Act, MbarrierSite, Place};
use super::threads::{Value, Warps};
use crate::base::Line;

/// Bytes from one object of an array to the next, at most.
const MAX_STRIDE: i64 = 64;

/// An object: its offset, its count and the line of its init.
#[derive(Clone)]
struct Object {
    offset: i64,
    count: u64,
    line: Line,
    name: String,
    /// The instructions that arrive at it.
    arrivals: Vec<usize>,
}

/// What tells uses apart: the instructions themselves.
type Identity = (u32, Vec<usize>);
/// Or what they do, by how many threads, how often, and whether for other blocks too.
type Shape = (u32, Vec<Kind>);
type Kind = (&'static str, Option<u32>, Option<u64>, bool);

fn arrives(site: &MbarrierSite) -> bool {
    matches!(site.act, Act::Arrive | Act::ArriveExpect | Act::AsyncArrive)
}

/// Objects that count otherwise than all others that are used as they are.
pub(super) fn check(warps: &Warps<'_>, objects: &Objects<'_>) -> Vec<Check> {
    let mut by_identity: BTreeMap<Identity, Vec<Object>> = BTreeMap::new();
    let mut by_shape: BTreeMap<Shape, Vec<Object>> = BTreeMap::new();
    for init in objects.sites.iter().filter(|site| site.act == Act::Init) {
        let (Some(variable), Place::At(offset), Some(count)) = (init.variable, init.place, init.argument) else {
            continue;
        };
        let Some((uses, shape)) = uses(warps, objects, variable, offset) else { continue };
        let name = init.object(warps).unwrap_or_default();
        let arrivals = objects.sites.iter().filter(|site| arrives(site) && uses.contains(&site.index));
        let arrivals = arrivals.map(|site| site.index).collect();
        let object = Object { offset, count, line: init.line, name, arrivals };
        by_identity.entry((variable, uses)).or_default().push(object.clone());
        by_shape.entry((variable, shape)).or_default().push(object);
    }
    let mut checks: Vec<Check> = Vec::new();
    for alike in by_identity.values() {
        match odd(alike) {
            Some((object, usual)) => {
                let why = "the same instructions arrive at it and wait for it";
                checks.push(differs(object, usual, why));
            }
            None => {
                // Of two either may be wrong.
                if let [a, b] = alike.as_slice()
                    && a.count != b.count
                    && (a.offset - b.offset).abs() <= MAX_STRIDE
                {
                    let why = "the same instructions arrive at both and wait for both";
                    checks.push(differs(a, b.count, why));
                    checks.push(differs(b, a.count, why));
                }
            }
        }
    }
    for alike in by_shape.values() {
        let Some((object, usual)) = odd(alike) else { continue };
        let peer = alike.iter().find(|other| other.count == usual);
        let same = peer.is_some_and(|peer| loops(warps, peer) == loops(warps, object));
        if same && !checks.iter().any(|known| known.line == object.line) {
            let why =
                "instructions of the same kinds arrive at it in the same loops and wait for it, run by as many threads";
            checks.push(differs(object, usual, why));
        }
    }
    checks
}

/// The innermost loops that an object is arrived at in, by their first blocks. Waits have a loop of their own each.
fn loops(warps: &Warps<'_>, object: &Object) -> Vec<Option<u32>> {
    let graph = &warps.graph;
    let around = |index: &usize| graph.loop_of(graph.sites.get(*index)?.block);
    let mut found: Vec<Option<u32>> = object.arrivals.iter().map(around).collect();
    found.sort_unstable();
    found
}

fn differs(object: &Object, usual: u64, why: &str) -> Check {
    Check {
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
fn odd(alike: &[Object]) -> Option<(&Object, u64)> {
    if alike.len() < 3 {
        return None;
    }
    let of = |count: u64| alike.iter().filter(|object| object.count == count).count();
    let object = alike.iter().find(|object| of(object.count) == 1)?;
    let usual = alike.iter().map(|object| object.count).find(|count| *count != object.count)?;
    let at = |offset: Option<i64>| alike.iter().any(|other| Some(other.offset) == offset);
    let beside = (1..=MAX_STRIDE).any(|stride| {
        let place = |steps: i64| object.offset.checked_add(stride.saturating_mul(steps));
        at(place(-1)) && (at(place(1)) || at(place(-2))) || at(place(1)) && at(place(2))
    });
    (of(usual) == alike.len() - 1 && beside).then_some((object, usual))
}

/// How an object is used; none where others than those that are known may arrive at it, or nobody waits for it.
fn uses(warps: &Warps<'_>, objects: &Objects<'_>, variable: u32, offset: i64) -> Option<(Vec<usize>, Vec<Kind>)> {
    let group: Group = (variable, Some([offset].into()));
    let (mut identity, mut shape) = (Vec::new(), Vec::new());
    let (mut waited, mut arrived, mut inits) = (false, false, 0);
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
        // Threads that have an object each need not be as many for each.
        let address = site.address(warps).map(|address| warps.values.operand(&warps.graph, site.index, address));
        if matches!(address, Some(Value::Addresses { .. })) {
            return None;
        }
        waited |= site.act == Act::Wait;
        arrived |= arrives(site);
        let most = site.most.filter(|_| site.act == Act::Arrive);
        identity.push(site.index);
        shape.push((site.act.name(), site.threads, most, site.remote));
    }
    shape.sort_unstable();
    (waited && arrived && inits == 1).then_some((identity, shape))
}
