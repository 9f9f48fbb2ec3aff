//! Work that one thread, or one warp, issues for all: whether several do.
//!
//! Told where all that decide who comes agree: several then do the same work, each for itself.

use crate::ptx::{Bulk, MbarrierAction, Operation, Tcgen05};
use crate::simt::{Site, SiteId, ThreadSet, Warps};
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Checks who issues what.
pub fn check(agreement: &mut Agreement<'_, '_>) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let warps = agreement.warps;
    if warps.threads.is_none() || !warps.graph.complete {
        return checks;
    }
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let found = match site.operation {
            Operation::Tcgen05 { action: Tcgen05::Mma | Tcgen05::Cp | Tcgen05::Shift, cta_group } => {
                multiplication(agreement, (index, site), cta_group)
            }
            Operation::Tcgen05 { action: Tcgen05::Commit, .. } => committed(agreement, (index, site)),
            Operation::Tcgen05 { action: Tcgen05::Alloc | Tcgen05::Dealloc, .. } => {
                allocation(agreement, (index, site))
            }
            Operation::Mbarrier(mbarrier) if mbarrier.action == MbarrierAction::Init => {
                initialisation(agreement, (index, site))
            }
            Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }) => copy(agreement, (index, site)),
            Operation::Bulk(Bulk::WaitGroup { .. }) => awaited(warps, (index, site)),
            _ => None,
        };
        if let Some(found) = found.filter(|found| !checks.iter().any(|known| known.rule == found.rule)) {
            checks.push(found);
        }
    }
    checks
}

fn finding(rule: Rule, site: &Site<'_>, message: String, reasoning: &str) -> Finding {
    Finding { rule, confidence: Confidence::Likely, line: site.line(), message, reasoning: reasoning.to_owned() }
}

/// How many lanes of a warp may come, where that is more than one.
fn lanes(here: &ThreadSet) -> Option<(u32, usize)> {
    let count = |warp: u32| here.iter().filter(|thread| thread / 32 == warp).count();
    here.warps().into_iter().map(|warp| (warp, count(warp))).find(|(_, lanes)| *lanes > 1)
}

fn multiplication(
    agreement: &mut Agreement<'_, '_>,
    (index, site): (SiteId, &Site<'_>),
    cta_group: Option<u32>,
) -> Option<Finding> {
    let warps = agreement.warps;
    let here = warps.at(index);
    let instruction = site.located.instruction;
    let name = format!("{}.{}", instruction.mnemonic(), instruction.modifiers().next().unwrap_or(""));
    const WHY: &str = "one thread issues it for the whole block: every further one does the work again";
    if let Some((warp, lanes)) = lanes(&here) {
        let agree = agreement.of_threads(here).equally(warps, index);
        return agree.then(|| {
            finding(Rule::IssuedOnce, site, format!("{lanes} lanes of warp {warp} issue this {name}, one must"), WHY)
        });
    }
    let among = here.warps();
    if among.len() > 1 {
        let uniformity = agreement.of_warps(here);
        let agree = uniformity.equally(warps, index)
            && instruction.operands().all(|operand| uniformity.agrees(warps, index, operand));
        if agree {
            let message = format!("one lane of each of {} warps issues this {name}, one must", among.len());
            return Some(finding(Rule::IssuedOnce, site, message, WHY));
        }
    }
    let pairs = cta_group == Some(2) && !here.is_empty() && agreement.of_blocks().equally(warps, index);
    pairs.then(|| {
        finding(
            Rule::IssuedOnce,
            site,
            format!("both blocks of a pair issue this {name}: nothing on the way here asks which block it is"),
            "with .cta_group::2 one thread of the pair issues it, in the block with the even rank",
        )
    })
}

/// A commit of threads that issue nothing, while others do.
fn committed(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let warps = agreement.warps;
    let here = warps.at(index);
    let is_work = |action| matches!(action, Tcgen05::Mma | Tcgen05::Cp | Tcgen05::Shift);
    let works = |other: &Site<'_>| matches!(other.operation, Operation::Tcgen05 { action, .. } if is_work(action));
    let mut issued = warps.graph.sites.iter_enumerated().filter(|(_, other)| works(other)).peekable();
    let (_, first) = *issued.peek()?;
    let apart = !here.is_empty() && issued.all(|(at, _)| !warps.at(at).meets(&here));
    apart.then(|| {
        let thread = here.iter().next().unwrap_or(0);
        let message = format!(
            "thread {thread} commits, and issues nothing that its commit could wait for: other threads do, at line {}",
            first.line()
        );
        finding(Rule::IssuedOnce, site, message, "a commit tracks what its own thread has issued, and nothing else")
    })
}

/// A wait for bulk stores of threads that issue none, while others do and wait for none themselves: where they do, this wait is for something
/// else, or for nothing.
fn awaited(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let here = warps.at(index);
    let stores = |other: &Site<'_>| {
        matches!(other.operation, Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }))
            && other.located.instruction.opcode().contains("bulk_group")
    };
    let sites = || warps.graph.sites.iter_enumerated();
    // A wait until all is written stands for one until all is read.
    let Operation::Bulk(Bulk::WaitGroup { read: is_of_reads, .. }) = site.operation else { return None };
    let is_wait = |other: &Site<'_>| matches!(other.operation, Operation::Bulk(Bulk::WaitGroup { read, .. }) if is_of_reads || !read);
    let is_waited_for =
        |at: SiteId| sites().filter(|(_, other)| is_wait(other)).any(|(wait, _)| warps.at(wait).meets(&warps.at(at)));
    let mut issued = sites().filter(|(_, other)| stores(other));
    let (_, first) = issued.find(|(at, _)| !is_waited_for(*at))?;
    let apart = !warps.graph.calls && !here.is_empty() && issued.all(|(at, _)| !warps.at(at).meets(&here));
    apart.then(|| {
        let thread = here.iter().next().unwrap_or(0);
        let message = format!(
            "thread {thread} waits for bulk stores, and issues none: other threads do, at line {}",
            first.line()
        );
        let why = "a thread waits for the groups that it has committed itself, and for nothing else";
        finding(Rule::CopiesWaitedFor, site, message, why)
    })
}

fn allocation(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let warps = agreement.warps;
    let here = warps.at(index);
    let among = here.warps();
    if among.len() < 2 {
        return None;
    }
    let uniformity = agreement.of_warps(here);
    let address = site.located.instruction.operand(0)?;
    if !uniformity.equally(warps, index) || !uniformity.agrees(warps, index, address) {
        return None;
    }
    let name = site.located.instruction.modifiers().next().unwrap_or("");
    Some(finding(
        Rule::OneWarpAllocates,
        site,
        format!("{} warps run this tcgen05.{name}, one must", among.len()),
        "one warp of a block allocates and frees tensor memory for all of it",
    ))
}

fn initialisation(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let warps = agreement.warps;
    let here = warps.at(index);
    // Kernels in use have a lane of every warp do it before a barrier.
    lanes(&here)?;
    let address = site.located.instruction.operand(0)?;
    let uniformity = agreement.of_threads(here);
    (uniformity.agrees(warps, index, address) && uniformity.equally(warps, index)).then(|| {
        finding(
            Rule::OneInitialises,
            site,
            format!("{} threads initialise this mbarrier, one must", here.len()),
            "one thread initialises an mbarrier: a later one starts it anew, whatever has arrived",
        )
    })
}

fn copy(agreement: &mut Agreement<'_, '_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let warps = agreement.warps;
    let here = warps.at(index);
    let (warp, lanes) = lanes(&here)?;
    let uniformity = agreement.of_threads(here);
    let instruction = site.located.instruction;
    let all = instruction.operands().all(|operand| uniformity.agrees(warps, index, operand));
    (all && uniformity.equally(warps, index)).then(|| {
        finding(
            Rule::CopiedOnce,
            site,
            format!("{lanes} lanes of warp {warp} issue this copy, each of them all of it"),
            "one thread issues a bulk copy: every further one copies the same bytes, and completes them on the mbarrier again",
        )
    })
}
