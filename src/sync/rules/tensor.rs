//! Asynchronous work in order: groups of copies, wgmma, tcgen05 and its tensor memory.

use std::collections::BTreeSet;

use crate::base::{IndexVec, Line, work};
use crate::ptx::{Bulk, ClusterBarrierAction, CpAsync, MbarrierAction, Operation, StateSpace, Tcgen05, Wgmma};
use crate::simt::{Paths, Site, SiteId, ThreadSet, Warps, passing};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Columns of tensor memory (PTX ISA, "tcgen05.alloc").
const COLUMNS: u64 = 512;
/// Bytes of shared memory of an SM that blocks can have (CUDA C++ Programming Guide, "Compute Capabilities", 10.0).
const SHARED: u64 = 228 << 10;

/// An instruction that starts, ends or orders asynchronous work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncSite {
    /// Its line.
    pub line: Line,
    /// `wgmma.commit_group`, `tcgen05.alloc`, …
    pub what: &'static str,
    /// 1 or 2 of `.cta_group::N`.
    pub cta_group: Option<u32>,
    /// Groups that may stay in flight, or columns of tensor memory.
    pub argument: Option<u64>,
    /// Threads that may run it; none when the size of a block is not known.
    pub threads: Option<u32>,
}

fn columns(warps: &Warps<'_>, index: SiteId) -> Option<u64> {
    let operand = warps.graph.sites.get(index)?.located.instruction.operand(1)?;
    warps.values.operand(&warps.graph, index, operand).constant()
}

/// Every such instruction, copies and multiplications themselves left out.
pub fn sites(warps: &Warps<'_>) -> Vec<AsyncSite> {
    let mut found = Vec::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let (what, argument) = match site.operation {
            Operation::Wgmma(Wgmma::Fence) => ("wgmma.fence", None),
            Operation::Wgmma(Wgmma::CommitGroup) => ("wgmma.commit_group", None),
            Operation::Wgmma(Wgmma::WaitGroup(pending)) => ("wgmma.wait_group", pending.map(u64::from)),
            Operation::CpAsync(CpAsync::CommitGroup) => ("cp.async.commit_group", None),
            Operation::CpAsync(CpAsync::WaitGroup(pending)) => ("cp.async.wait_group", pending.map(u64::from)),
            Operation::CpAsync(CpAsync::WaitAll) => ("cp.async.wait_all", None),
            Operation::Bulk(Bulk::CommitGroup) => ("cp.async.bulk.commit_group", None),
            Operation::Bulk(Bulk::WaitGroup { pending, .. }) => ("cp.async.bulk.wait_group", pending.map(u64::from)),
            Operation::GridDepControl { wait: true } => ("griddepcontrol.wait", None),
            Operation::GridDepControl { wait: false } => ("griddepcontrol.launch_dependents", None),
            Operation::Tcgen05 { action, .. } => match action {
                Tcgen05::Alloc => ("tcgen05.alloc", columns(warps, index)),
                Tcgen05::Dealloc => ("tcgen05.dealloc", columns(warps, index)),
                Tcgen05::Relinquish => ("tcgen05.relinquish_alloc_permit", None),
                Tcgen05::Commit => ("tcgen05.commit", None),
                Tcgen05::Wait => ("tcgen05.wait", None),
                _ => continue,
            },
            _ => continue,
        };
        let cta_group = match site.operation {
            Operation::Tcgen05 { cta_group, .. } => cta_group,
            _ => None,
        };
        let threads = warps.count_at(index);
        found.push(AsyncSite { line: site.line(), what, cta_group, argument, threads });
    }
    found
}

/// Checks of the order of asynchronous work.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let mut checks = cta_groups(warps);
    checks.extend(no_pair(warps));
    if !warps.graph.calls && warps.graph.complete {
        tensor_memory(warps, &mut checks);
    }
    checks
}

fn cta_groups(warps: &Warps<'_>) -> Vec<Finding> {
    let group = |site: &Site<'_>| match site.operation {
        Operation::Tcgen05 { cta_group: Some(group), .. } => Some((site.line(), group)),
        _ => None,
    };
    let groups: Vec<(Line, u32)> = warps.graph.sites.iter().filter_map(group).collect();
    let of = |group: u32| groups.iter().filter(|(_, found)| *found == group).count();
    let usual = if of(2) > of(1) { 2 } else { 1 };
    let other = groups.iter().filter(|(_, group)| *group != usual && of(usual) > 0);
    let check = |(line, group): &(Line, u32)| Finding {
        rule: Rule::OneCtaGroup,
        confidence: Confidence::Certain,
        line: *line,
        message: format!("cta_group::{group} in a kernel whose other tcgen05 instructions have cta_group::{usual}"),
        reasoning: "all tcgen05 instructions of a kernel must have one .cta_group".to_owned(),
    };
    other.map(check).collect()
}

/// Work of a pair of blocks in clusters that no pairs make up.
fn no_pair(warps: &Warps<'_>) -> Option<Finding> {
    let blocks = warps.cluster.filter(|blocks| blocks % 2 == 1)?;
    let in_pairs = |site: &&Site<'_>| matches!(site.operation, Operation::Tcgen05 { cta_group: Some(2), .. });
    let site = warps.graph.sites.iter().find(in_pairs)?;
    Some(Finding {
        rule: Rule::WithinCluster,
        confidence: Confidence::Likely,
        line: site.line(),
        message: format!("cta_group::2 in clusters of {blocks}: a block has no other one to make a pair with"),
        reasoning: "a pair are two blocks of a cluster whose ranks differ in bit 0 alone: .reqnctapercluster has an even number of them"
            .to_owned(),
    })
}

fn tensor_memory(warps: &Warps<'_>, checks: &mut Vec<Finding>) {
    let of = |wanted: Tcgen05| -> Vec<(SiteId, &Site<'_>)> {
        let is = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action, .. } if action == wanted);
        let sites = warps.graph.sites.iter_enumerated();
        sites.filter(|(index, site)| is(site) && !warps.at(*index).is_empty()).collect()
    };
    let (allocs, deallocs) = (of(Tcgen05::Alloc), of(Tcgen05::Dealloc));
    let Some((_, first)) = allocs.first() else { return };
    for (index, site) in allocs.iter().chain(&deallocs) {
        if let Some(columns) = columns(warps, *index)
            && !(columns.is_power_of_two() && (32..=COLUMNS).contains(&columns))
        {
            checks.push(Finding {
                rule: Rule::TensorColumns,
                confidence: Confidence::Certain,
                line: site.line(),
                message: format!("{columns} columns of tensor memory"),
                reasoning: "the number must be a power of two from 32 to 512".to_owned(),
            });
        }
    }
    let sum = |sites: &[(SiteId, &Site<'_>)]| {
        sites.iter().map(|(index, _)| columns(warps, *index)).try_fold(0u64, |sum, columns| sum.checked_add(columns?))
    };
    // Columns taken before any are given back, each once.
    let before = |(index, _): &&(SiteId, &Site<'_>)| {
        deallocs.iter().all(|(dealloc, _)| index < dealloc) && !warps.graph.is_in_a_loop(*index)
    };
    let taken: Vec<(SiteId, &Site<'_>)> = allocs.iter().filter(before).copied().collect();
    if let (Some(got), Some((_, last))) = (sum(&taken), taken.last())
        && got > COLUMNS
    {
        checks.push(Finding {
            rule: Rule::TensorFits,
            confidence: Confidence::Likely,
            line: last.line(),
            message: format!("{got} columns of tensor memory are allocated, of {COLUMNS}"),
            reasoning: "an allocation that finds too few waits for ever, for this block itself holds the others"
                .to_owned(),
        });
    }
    if of(Tcgen05::Relinquish).is_empty() {
        checks.push(Finding {
            rule: Rule::PermitGivenUp,
            confidence: if is_alone(warps, sum(&allocs)) { Confidence::Possible } else { Confidence::Likely },
            line: first.line(),
            message: "tcgen05.alloc without tcgen05.relinquish_alloc_permit".to_owned(),
            reasoning: "other blocks on the SM cannot allocate until this one gives the permit up or ends".to_owned(),
        });
    }
    checks.extend(deallocs.iter().find_map(|(index, site)| unmet_pair(warps, (*index, site))));
    let mut line = first.line();
    let (confidence, message) = match (deallocs.is_empty(), sum(&allocs), sum(&deallocs)) {
        (true, ..) => (Confidence::Certain, "tensor memory is allocated and never freed".to_owned()),
        (false, Some(got), Some(freed)) if freed < got => {
            let at = match &deallocs[..] {
                [(_, only)] => {
                    let allocated = std::mem::replace(&mut line, only.line());
                    format!(" here, and {got} are allocated at line {allocated}")
                }
                _ => format!(", and {got} are allocated"),
            };
            (Confidence::Likely, format!("{freed} columns of tensor memory are freed{at}"))
        }
        (false, Some(got), _) if allocs.len() == 1 && frees_more(warps, &deallocs, got).is_some() => {
            let Some((freed, at)) = frees_more(warps, &deallocs, got) else { return };
            let allocated = std::mem::replace(&mut line, at);
            let message =
                format!("{freed} columns of tensor memory are freed here, and {got} are allocated at line {allocated}");
            (Confidence::Likely, message)
        }
        _ => match (one_way(warps, &deallocs), sum(&allocs), escape(warps, &allocs, &deallocs)) {
            (Some(freed), Some(got), _) if freed < got => (
                Confidence::Likely,
                format!("{got} columns of tensor memory are allocated, {freed} are freed on any way"),
            ),
            (.., Some(end)) => {
                (Confidence::Likely, format!("tensor memory is not freed on the way to the end at line {end}"))
            }
            _ => return,
        },
    };
    checks.push(Finding {
        rule: Rule::TensorFreed,
        confidence,
        line,
        message,
        reasoning: "all tensor memory must be freed by tcgen05.dealloc before the kernel ends".to_owned(),
    });
}

/// A `tcgen05.dealloc` of more columns than were allocated, and its line.
fn frees_more(warps: &Warps<'_>, deallocs: &[(SiteId, &Site<'_>)], got: u64) -> Option<(u64, Line)> {
    deallocs.iter().find_map(|(index, site)| Some((columns(warps, *index).filter(|freed| *freed > got)?, site.line())))
}

/// Whether a block may be the only one on its SM: it takes more than half of the columns or of the shared memory, or the launch says how
/// much of that it takes.
fn is_alone(warps: &Warps<'_>, columns: Option<u64>) -> bool {
    let shared = || warps.values.declared.iter().filter(|found| found.space == Some(StateSpace::Shared));
    let bytes: u64 = shared().filter_map(|found| found.bytes).fold(0, u64::saturating_add);
    let is_dynamic = shared().any(|found| found.is_dynamic);
    columns.is_none_or(|columns| columns > COLUMNS / 2) || is_dynamic || bytes > SHARED / 2
}

/// Columns of a pair of blocks that are freed with no meeting of the two since whoever frees them used them last.
fn unmet_pair(warps: &Warps<'_>, (dealloc, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let Operation::Tcgen05 { cta_group: Some(2), .. } = site.operation else { return None };
    let who = warps.warps_at(dealloc);
    let of = |is: &dyn Fn(&Site<'_>) -> bool| -> BTreeSet<SiteId> {
        let sites = warps.graph.sites.iter_enumerated();
        sites.filter(|(_, site)| is(site)).map(|(index, _)| index).collect()
    };
    // The other block is heard of at the cluster barrier, or at an mbarrier that it arrives at.
    let meetings = of(&|site| match site.operation {
        Operation::ClusterBarrier { action, .. } => action == ClusterBarrierAction::Wait,
        Operation::Mbarrier(mbarrier) => {
            matches!(mbarrier.action, MbarrierAction::TryWait | MbarrierAction::TestWait)
        }
        Operation::Tcgen05 { action: Tcgen05::Dealloc, .. } => true,
        _ => false,
    });
    let uses = of(&|site| {
        let used = |action| matches!(action, Tcgen05::Ld | Tcgen05::St | Tcgen05::Mma | Tcgen05::Cp | Tcgen05::Shift);
        matches!(site.operation, Operation::Tcgen05 { action, .. } if used(action))
    });
    let paths = Paths::new(warps);
    let last = paths.first(dealloc, true, &[&meetings, &uses]);
    let own = last.iter().copied().find(|index| uses.contains(index) && warps.warps_at(*index).meets(&who));
    // What other warps of the block used is over where they have met whoever frees it: that is the block, and not the pair.
    let of_block = || {
        let barriers = of(&|site| matches!(site.operation, Operation::NamedBarrier(_)));
        let met = paths.first(dealloc, true, &[&meetings, &barriers]);
        let before = met.iter().filter(|index| barriers.contains(index));
        before.flat_map(|barrier| paths.first(*barrier, true, &[&meetings, &uses])).find(|index| uses.contains(index))
    };
    let used = own.or_else(of_block)?;
    let line = warps.graph.sites.get(used)?.line();
    Some(Finding {
        rule: Rule::PairMeets,
        confidence: Confidence::Likely,
        line: site.line(),
        message: format!("a pair of blocks frees tensor memory that line {line} used, and the two have not met since"),
        reasoning:
            "both blocks free it together, and either may still use that of the other: a cluster barrier comes between"
                .to_owned(),
    })
}

/// The most columns that are freed on one way, where the same threads free everything and no way leads by two that free.
fn one_way(warps: &Warps<'_>, deallocs: &[(SiteId, &Site<'_>)]) -> Option<u64> {
    let (first, _) = deallocs.first()?;
    let ways = Paths::new(warps);
    let frees: BTreeSet<SiteId> = deallocs.iter().map(|(index, _)| *index).collect();
    let apart = |index: SiteId| warps.at(index) == warps.at(*first) && ways.first(index, false, &[&frees]).is_empty();
    if !deallocs.iter().all(|(index, _)| apart(*index)) {
        return None;
    }
    deallocs.iter().map(|(index, _)| columns(warps, *index)).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// An end of the kernel that whoever allocates can come to without freeing, where nobody else frees.
fn escape(warps: &Warps<'_>, allocs: &[(SiteId, &Site<'_>)], deallocs: &[(SiteId, &Site<'_>)]) -> Option<Line> {
    let graph = &warps.graph;
    let [(alloc, start)] = allocs else { return None };
    let holders = warps.at(*alloc).whole_warps();
    // Where some free all there is, one that frees less leaves the rest.
    let frees_less =
        |index: SiteId| columns(warps, index).zip(columns(warps, *alloc)).is_some_and(|(freed, got)| freed < got);
    let (less, whole): (Vec<_>, Vec<_>) = deallocs.iter().copied().partition(|(index, _)| frees_less(*index));
    let deallocs = if whole.is_empty() { less } else { whole };
    if !deallocs.iter().all(|(index, _)| warps.at(*index).within(&holders)) {
        return None;
    }
    work::spend_on(graph.blocks.len() / 16);
    let mut holding = IndexVec::filled(ThreadSet::EMPTY, graph.blocks.len());
    let mut open = vec![(start.block, alloc.after(), warps.at(*alloc))];
    while let Some((at, from, mut here)) = open.pop() {
        work::spend(1);
        for (index, _) in deallocs.iter().filter(|(index, site)| site.block == at && *index >= from) {
            let freed = warps.at(*index);
            here = here.iter().filter(|thread| !freed.has(*thread)).collect();
        }
        let block = graph.blocks.get(at)?;
        let last = graph.sites.get(block.last())?;
        if here.is_empty() {
            continue;
        }
        if matches!(last.operation, Operation::Return | Operation::Exit) || block.successors.is_empty() {
            // Who a guard lets through is who may run it.
            let leaves = here.meets(&warps.at(block.last()));
            if leaves && !matches!(last.operation, Operation::Trap) {
                return Some(last.line());
            }
        }
        for edge in &block.successors {
            let going = passing(graph, &warps.values, block, edge, here);
            let there = holding.get_mut(edge.to)?;
            let met = there.union(&going);
            if met != *there {
                *there = met;
                open.push((edge.to, SiteId::FIRST, met));
            }
        }
    }
    None
}
