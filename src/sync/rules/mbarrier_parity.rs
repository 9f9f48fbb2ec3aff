//! Parities of mbarriers along every path: two waits for one parity with a new phase begun between them.
//!
//! Phases alternate. A wait for the parity of a phase that is over ends at once, so that whoever waits for the same parity again
//! waits for nothing, or for the phase after the next.

use crate::base::{FastMap, work};
use crate::simt::{Edge, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarriers::{Act, MbarrierSite, Place};

/// Waits from which paths are followed.
const MAX_WAITS: usize = 256;

/// What an instruction means for the object that is followed.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    /// A new phase begins.
    Armed,
    /// A wait for the same parity.
    Same,
    /// Nothing can be told from here on: another parity, a new start, or a place that is not known.
    End,
}

/// Finds waits for a parity that was waited for already.
pub fn check(warps: &Warps<'_>, sites: &[MbarrierSite]) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let fixed = |site: &MbarrierSite| match (site.variable, site.place) {
        (Some(variable), Place::At(offset)) => Some((variable, offset)),
        _ => None,
    };
    let waits = sites.iter().filter(|site| site.act == Act::Wait && !site.remote);
    let waits = waits.filter_map(|wait| Some((wait, fixed(wait)?, wait.argument?)));
    for (wait, object, parity) in waits.take(MAX_WAITS) {
        let mut meanings: FastMap<usize, Meaning> = FastMap::default();
        for site in sites {
            work::spend(1);
            let here = fixed(site);
            let meaning = match site.act {
                // Whatever is done at a place that is not known may be done to this object.
                _ if here.is_none()
                    && site.may_be_at(object.1)
                    && site.variable.is_none_or(|variable| variable == object.0) =>
                {
                    Meaning::End
                }
                _ if here != Some(object) => continue,
                Act::Wait if site.argument == Some(parity) => Meaning::Same,
                Act::ArriveExpect | Act::AsyncArrive | Act::Complete => Meaning::Armed,
                Act::Arrive | Act::Expect => continue,
                _ => Meaning::End,
            };
            meanings.insert(site.index, meaning);
        }
        if !meanings.values().any(|meaning| *meaning == Meaning::Armed) {
            continue;
        }
        let Some(again) = again(warps, wait, &meanings) else { continue };
        let Some(line) = warps.graph.sites.get(again).map(|site| site.line()) else { continue };
        if checks.iter().any(|known| known.line == line) {
            continue;
        }
        let name = wait.object(warps).unwrap_or_default();
        // The same wait again is one of a loop, which may run once.
        let confidence = if again == wait.index { Confidence::Possible } else { Confidence::Likely };
        checks.push(Finding {
            code: "PI309",
            fatal: false,
            confidence,
            line,
            message: format!("waits for parity {parity} of the mbarrier {name} again, after its next phase has begun"),
            reasoning: format!(
                "a path leads from the wait at line {} through a new phase to this one, which asks for the same parity: phases \
                 alternate, so that it ends at once, or never",
                wait.line.0
            ),
        });
    }
    checks
}

/// A wait for the same parity that a path reaches after a new phase began, on ways that are open to those who waited.
fn again(warps: &Warps<'_>, wait: &MbarrierSite, meanings: &FastMap<usize, Meaning>) -> Option<usize> {
    let graph = &warps.graph;
    let start = graph.sites.get(wait.index)?.block;
    let who = warps.warps_at(wait.index);
    work::spend_on(graph.blocks.len() / 16);
    let mut seen = [vec![false; graph.blocks.len()], vec![false; graph.blocks.len()]];
    let mut open = vec![(start, wait.index + 1, false)];
    while let Some((at, from, mut armed)) = open.pop() {
        work::spend(1);
        let mut ended = false;
        for (index, _) in graph.sites_of(at).filter(|(index, _)| *index >= from) {
            match meanings.get(&index) {
                Some(Meaning::Armed) => armed = true,
                Some(Meaning::Same) if armed => return Some(index),
                Some(Meaning::Same | Meaning::End) => {
                    ended = true;
                    break;
                }
                None => {}
            }
        }
        if ended {
            continue;
        }
        let open_to_them = |edge: &&Edge| warps.may_go(&who, edge.to);
        for edge in graph.blocks.get(at as usize)?.successors.iter().filter(open_to_them) {
            let seen = &mut seen[usize::from(armed)];
            if !std::mem::replace(seen.get_mut(edge.to as usize).unwrap_or(&mut true), true) {
                open.push((edge.to, 0, armed));
            }
        }
    }
    None
}
