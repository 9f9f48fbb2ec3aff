//! Whether mbarriers can work as they are set up: initialised, arrived at, counted right, known to others before they use them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::base::work;
use crate::ptx::{BarrierAction, ClusterBarrierAction, MbarrierAction, Operation, Register};
use crate::simt::{BlockId, Edge, Graph, Paths, Site, SiteId, ThreadSet, Warps, dataflow, passing};
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarriers::{self, Act, MbarrierSite};
use crate::sync::rules::rule::Rule;

/// The objects that an instruction may be on: the variable, and the places in it where they are known.
pub(super) type Group = (u32, Option<Arc<[i64]>>);

/// Whether an instruction waits for the phase before the first one, which is over from the start.
fn is_first(site: &MbarrierSite) -> bool {
    site.act == Act::Wait && site.argument.is_some_and(|parity| parity & 1 == 1)
}

/// Instructions with the objects that they may be on.
pub(super) struct Objects<'a> {
    pub(super) sites: &'a [MbarrierSite],
    pub(super) groups: Vec<Option<Group>>,
}

impl<'a> Objects<'a> {
    fn new(sites: &'a [MbarrierSite]) -> Objects<'a> {
        // What an array's start tells is not taken for its places: compilers fold parts of the index into it.
        let group = |site: &MbarrierSite| Some((site.variable?, site.places.as_deref().map(Arc::from)));
        Objects { sites, groups: sites.iter().map(group).collect() }
    }

    /// The instructions that may be on an object of a group.
    pub(super) fn of<'g>(&'g self, group: &'g Group) -> impl Iterator<Item = &'a MbarrierSite> + 'g {
        let meets = |other: &Option<Group>| {
            work::spend(1);
            other.as_ref().is_none_or(|(variable, places)| {
                let both = places.as_ref().zip(group.1.as_ref());
                *variable == group.0
                    && both.is_none_or(|(a, b)| {
                        work::spend_on(a.len() * b.len());
                        a.iter().any(|place| b.contains(place))
                    })
            })
        };
        self.sites.iter().zip(&self.groups).filter(move |(_, other)| meets(other)).map(|(site, _)| site)
    }

    fn any(&self, group: &Group, acts: &[Act]) -> bool {
        self.of(group).any(|site| acts.contains(&site.act))
    }
}

/// Questions to an mbarrier whose answer nobody looks at: whoever asks goes on, whether the phase is over or not.
pub fn unheeded(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let asks = |site: &Site<'_>| match site.operation {
        Operation::Mbarrier(mbarrier) => matches!(mbarrier.action, MbarrierAction::TryWait | MbarrierAction::TestWait),
        _ => false,
    };
    if graph.calls || !graph.complete {
        return Vec::new();
    }
    let is_heeded = |index: SiteId| {
        let Some(site) = graph.sites.get(index).filter(|site| asks(site)) else { return true };
        let answers: Vec<Register> = graph.registers.written_by(&site.located).collect();
        let mut is_heeded = answers.is_empty();
        dataflow::walk(
            graph,
            index,
            |_| true,
            |_, other| {
                let is_answer = |register: Register| answers.contains(&register);
                is_heeded |= graph.registers.of(&other.located).any(|used| !used.is_def && is_answer(used.register));
                let again = other.guard.is_none() && graph.registers.written_by(&other.located).any(is_answer);
                if is_heeded || again { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        is_heeded
    };
    // Whoever asks ahead waits for the object elsewhere.
    let same = |one: &MbarrierSite, other: &MbarrierSite| {
        one.variable == other.variable
            && match (&one.places, &other.places) {
                (Some(one), Some(other)) => one.iter().any(|place| other.contains(place)),
                _ => true,
            }
    };
    let waits: Vec<(MbarrierSite, bool)> = mbarriers::sites(warps)
        .into_iter()
        .filter(|site| site.act == Act::Wait && !warps.at(site.index).is_empty())
        .map(|site| {
            let heeded = is_heeded(site.index);
            (site, heeded)
        })
        .collect();
    let unheeded = waits.iter().filter(|(_, heeded)| !heeded);
    let alone = unheeded.filter(|(site, _)| !waits.iter().any(|(other, heeded)| *heeded && same(site, other)));
    let finding = |(site, _): &(MbarrierSite, bool)| {
        let instruction = graph.sites.get(site.index)?.located.instruction;
        Some(Finding {
            rule: Rule::AnswerHeeded,
            confidence: Confidence::Likely,
            line: site.line,
            message: format!(
                "nobody heeds what this {} answers: the phase may not be over",
                instruction.modifiers().next().unwrap_or_default()
            ),
            reasoning: "it answers after a while, or at once, whether the phase is over or not: what the phase is waited for is used \
                        too early when the kernel is executed, so that it is asked again until it says yes"
                .to_owned(),
        })
    };
    alone.filter_map(finding).collect()
}

/// What is wrong with the only arrivals at an mbarrier, where an execution shows a phase that ends too early or never: more threads come than
/// it counts to, or each arrival adds one to those that are to come.
pub fn miscounted(agreement: &mut Agreement<'_, '_>, sites: &[MbarrierSite], shown: &Finding) -> Option<Finding> {
    let warps = agreement.warps;
    let inits = sites.iter().filter(|site| site.act == Act::Init);
    for init in inits {
        let (Some(variable), Some(places), Some(count)) = (init.variable, init.places.as_deref(), init.argument) else {
            continue;
        };
        let is_there = |site: &&MbarrierSite| {
            let meets = |there: &[i64]| places.iter().any(|place| there.contains(place));
            site.variable.is_none_or(|other| other == variable) && site.places.as_deref().is_none_or(meets)
        };
        let acts = |site: &&MbarrierSite| !matches!(site.act, Act::Init | Act::Wait);
        let others: Vec<&MbarrierSite> = sites.iter().filter(is_there).filter(acts).collect();
        let [arrival] = others[..] else { continue };
        let Some(site) = warps.graph.sites.get(arrival.index) else { continue };
        let found = |rule: Rule, line, message: String, reasoning: &str| Finding {
            rule,
            confidence: shown.confidence,
            line,
            message,
            reasoning: format!("{reasoning}; {}", shown.message),
        };
        let is_one = matches!(site.operation, Operation::Mbarrier(mbarrier) if mbarrier.argument.is_none());
        let threads = arrival.threads.map_or(0, u64::from);
        let too_many = shown.rule == Rule::PhaseToCome && arrival.act == Act::Arrive && is_one && threads > count;
        if too_many && agreement.all_come(arrival.index) {
            let message =
                format!("counts to {count}, and {threads} threads arrive in each turn, at line {}", arrival.line);
            return Some(found(Rule::NoMoreArrivals, init.line, message, "a phase ends before all of them have come"));
        }
        let adds = arrival.act == Act::AsyncArrive
            && site.located.instruction.mnemonic() == "cp"
            && !site.located.instruction.has("noinc");
        if adds && matches!(shown.rule, Rule::ArrivedAt | Rule::EnoughArrivals) {
            let message =
                format!("adds one to the {count} arrivals that are to come, and then is one: they never come");
            let why = "cp.async.mbarrier.arrive without .noinc counts itself: with .noinc it is one of those that the mbarrier counts to";
            return Some(found(Rule::EnoughArrivals, arrival.line, message, why));
        }
    }
    None
}

/// Checks of mbarriers that no execution is needed for.
pub fn check(warps: &Warps<'_>, sites: &[MbarrierSite]) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    if warps.graph.calls || !warps.graph.complete {
        return checks;
    }
    // What nobody runs, as compilers leave it behind where they inline, bears on no object.
    let live = sites.iter().filter(|site| site.threads != Some(0)).cloned();
    let (known, unknown): (Vec<MbarrierSite>, Vec<MbarrierSite>) = live.partition(|site| site.variable.is_some());
    let objects = Objects::new(&known);
    // One address that does not tell its object could be any of them. Arrivals at one announce no bytes to any.
    if !unknown.is_empty() {
        if unknown.iter().all(|site| matches!(site.act, Act::Arrive | Act::AsyncArrive | Act::Wait)) {
            presence(warps, &objects, &mut checks);
            checks.retain(|check| check.rule == Rule::Announced);
        }
        // Where a fence must stand only the objects decide that are initialised, and the paths from there.
        relaxed(warps, &objects, &mut checks);
        return checks;
    }
    presence(warps, &objects, &mut checks);
    bytes(warps, &objects, &mut checks);
    publication(warps, &objects, &mut checks);
    checks
}

/// What must be there at all: an init, an arrival, an announcement.
fn presence(warps: &Warps<'_>, objects: &Objects<'_>, checks: &mut Vec<Finding>) {
    let arrivals = [Act::Arrive, Act::ArriveExpect, Act::AsyncArrive, Act::Other];
    for (site, group) in objects.sites.iter().zip(&objects.groups) {
        let Some(group) = group else { continue };
        let name = site.object(warps).unwrap_or_default();
        let found = match site.act {
            Act::Wait if !objects.any(group, &[Act::Init, Act::Other]) => Some((
                Rule::Initialised,
                format!("waits for the mbarrier {name}, which nothing initialises"),
                "no mbarrier.init of the kernel has an address in this variable at this offset",
            )),
            // The phase before the first is over: whoever waits for its parity, to fill a buffer for the first time, goes on at once.
            Act::Wait if !is_first(site) && !objects.any(group, &arrivals) && !is_poll(warps, site) => Some((
                Rule::ArrivedAt,
                format!("waits for the mbarrier {name}, which nobody arrives at"),
                "no arrive, tcgen05.commit or cp.async.mbarrier.arrive of the kernel has this object: its phase never completes",
            )),
            Act::Complete if !objects.any(group, &[Act::ArriveExpect, Act::Expect, Act::Other]) => Some((
                Rule::Announced,
                format!("completes bytes on the mbarrier {name} that no expect_tx announces"),
                "without expect_tx the phase can complete before the bytes are there, or never",
            )),
            Act::Init if site.argument.is_some_and(|count| !(1..=0xf_ffff).contains(&count)) => Some((
                Rule::MbarrierCount,
                format!("the mbarrier {name} is initialised with a count out of range"),
                "counts go from 1 to 1,048,575",
            )),
            _ => None,
        };
        let Some((rule, message, reasoning)) = found else { continue };
        // One finding an object: its first line.
        work::spend_on(checks.len());
        if !checks.iter().any(|known| known.rule == rule && known.message == message) {
            let (line, reasoning) = (site.line, reasoning.to_owned());
            // A parity that is not known may be that of the phase before the first.
            let unsure = rule == Rule::ArrivedAt && site.argument.is_none();
            let confidence = if unsure { Confidence::Possible } else { Confidence::Likely };
            checks.push(Finding { rule, confidence, line, message, reasoning });
        }
    }
}

/// Whether whoever waits goes on either way: what is written is asked by no branch, and something else is done before it is asked for again.
fn is_poll(warps: &Warps<'_>, wait: &MbarrierSite) -> bool {
    let graph = &warps.graph;
    let Some(site) = graph.sites.get(wait.index) else { return false };
    let done: Vec<Register> = graph.registers.written_by(&site.located).collect();
    let asks = |edge: &Edge| edge.when.is_some_and(|(register, _)| done.contains(&register));
    work::spend_on(graph.blocks.len());
    if graph.blocks.iter().any(|block| block.successors.iter().any(asks)) {
        return false;
    }
    let acts = |site: &Site<'_>| matches!(site.operation, Operation::Mbarrier(_) | Operation::Bulk(_));
    graph.innermost_loop(site.block).is_none_or(|blocks| {
        let sites = blocks.into_iter().flat_map(|block| graph.sites_of(block));
        sites.filter(|(_, site)| acts(site)).count() > 1
    })
}

/// Bytes announced that no bulk copies add up to.
fn bytes(warps: &Warps<'_>, objects: &Objects<'_>, checks: &mut Vec<Finding>) {
    // `st.async` and `red.async` move four bytes, or eight.
    let is_bulk = |site: &MbarrierSite| {
        let opcode = warps.graph.sites.get(site.index).map_or("", |site| site.located.instruction.opcode());
        site.act != Act::Complete || !opcode.starts_with("st.async") && !opcode.starts_with("red.async")
    };
    if !objects.sites.iter().all(is_bulk) {
        return;
    }
    for site in objects.sites.iter().filter(|site| matches!(site.act, Act::ArriveExpect | Act::Expect)) {
        let Some(odd) = site.argument.filter(|bytes| bytes % 16 != 0) else { continue };
        let name = site.object(warps).unwrap_or_default();
        checks.push(Finding {
            rule: Rule::EqualBytes,
            confidence: Confidence::Likely,
            line: site.line,
            message: format!("{odd} bytes are announced to the mbarrier {name}"),
            reasoning: "bulk copies move multiples of 16 bytes: the sum of theirs can never be this".to_owned(),
        });
    }
}

/// Whether an instruction makes what came before it known to the other threads of a block.
fn synchronises(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::NamedBarrier(barrier) => barrier.action != BarrierAction::Arrive,
        Operation::ClusterBarrier { action, .. } => *action == ClusterBarrierAction::Wait,
        _ => false,
    }
}

/// Uses that threads can come to before anything has told them that the object is there.
fn publication(warps: &Warps<'_>, objects: &Objects<'_>, checks: &mut Vec<Finding>) {
    if warps.threads.is_none() || !objects.sites.iter().any(|site| site.act == Act::Init) {
        return;
    }
    let graph = &warps.graph;
    // Threads that may come to the start of a block without having waited at a barrier.
    let through = |block: BlockId, here: ThreadSet| {
        let stops = graph.sites_of(block).any(|(_, site)| synchronises(&site.operation));
        if stops { ThreadSet::EMPTY } else { here }
    };
    let along = |at: BlockId, edge: &Edge, here: &ThreadSet| {
        let going = passing(graph, &warps.values, graph.blocks.get(at)?, edge, *here);
        Some(going).filter(|going| !going.is_empty())
    };
    let join = |there: &mut ThreadSet, going: ThreadSet| {
        let met = there.union(&going);
        std::mem::replace(there, met) != met
    };
    let early = dataflow::forward(graph, warps.reach.block(Graph::ENTRY), through, along, join);
    let early = |block: BlockId| early.get(block).copied().flatten().unwrap_or(ThreadSet::EMPTY);
    let ways = Paths::new(warps);
    let is_init = |site: &Site<'_>| matches!(site.operation, Operation::Mbarrier(mbarrier) if mbarrier.action == MbarrierAction::Init);
    let starts = graph.sites.iter_enumerated().filter(|(_, site)| is_init(site) || synchronises(&site.operation));
    let starts: BTreeSet<SiteId> = starts.map(|(index, _)| index).collect();
    let mut seen: BTreeSet<Group> = BTreeSet::new();
    for (site, group) in objects.sites.iter().zip(&objects.groups) {
        let uses = matches!(site.act, Act::Wait | Act::Arrive | Act::ArriveExpect | Act::Complete | Act::AsyncArrive);
        let Some(group) = group.as_ref().filter(|_| uses) else { continue };
        let Some(block) = graph.sites.get(site.index).map(|site| site.block) else { continue };
        let before = graph.sites_of(block).take_while(|(index, _)| *index < site.index);
        if before.map(|(_, site)| site.operation).any(|operation| synchronises(&operation)) {
            continue;
        }
        let here = early(block).intersection(&warps.at(site.index));
        let made = objects.of(group).filter(|site| site.act == Act::Init);
        let makers = made.fold(ThreadSet::EMPTY, |all, site| all.union(&warps.at(site.index)));
        // Who goes on to initialise others is among those who do.
        let mut next = ways.first(site.index, false, &[&starts]).into_iter();
        if next.any(|index| graph.sites.get(index).is_some_and(is_init)) {
            continue;
        }
        // Whoever initialised it needs no barrier; others of its warp may be in step with it.
        if makers.is_empty() || here.within(&makers.whole_warps()) || !seen.insert(group.clone()) {
            continue;
        }
        checks.push(Finding {
            rule: Rule::Published,
            confidence: Confidence::Likely,
            line: site.line,
            message: format!(
                "uses the mbarrier {} with no barrier since the start of the kernel",
                site.object(warps).unwrap_or_default()
            ),
            reasoning: "another thread initialises it: without a barrier between, this one may come first".to_owned(),
        });
    }
    relaxed(warps, objects, checks);
    unseen(warps, objects, checks);
}

/// A copy that completes on an mbarrier with no fence since it was initialised, in a kernel that has none for any: copies are done by the
/// async proxy, which need not see what a thread wrote.
fn unseen(warps: &Warps<'_>, objects: &Objects<'_>, checks: &mut Vec<Finding>) {
    let graph = &warps.graph;
    let mut found: Option<(&MbarrierSite, SiteId)> = None;
    let sites_of = |act: Act| objects.sites.iter().zip(&objects.groups).filter(move |(site, _)| site.act == act);
    let copied_to: BTreeSet<_> = sites_of(Act::Complete).filter_map(|(_, group)| group.as_ref()).collect();
    // Who is past a wait for a copy comes too late with a fence.
    let waits: BTreeSet<SiteId> = sites_of(Act::Wait)
        .filter(|(_, group)| group.as_ref().is_some_and(|group| copied_to.contains(group)))
        .map(|(site, _)| site.index)
        .collect();
    let fence = |site: &Site<'_>| matches!(site.operation, Operation::Fence { .. } | Operation::ClusterBarrier { .. });
    let fences = graph.sites.iter().any(fence);
    for (site, group) in sites_of(Act::Init).filter_map(|(site, group)| Some((site, group.as_ref()?))) {
        let who = warps.warps_at(site.index);
        let is_copy =
            |index: &SiteId| graph.sites.get(*index).is_some_and(|site| matches!(site.operation, Operation::Bulk(_)));
        let completes = objects.of(group).filter(|site| site.act == Act::Complete).map(|site| site.index);
        let on_it: BTreeSet<SiteId> = completes.filter(is_copy).collect();
        let mut copied = None;
        let mut is_fenced = false;
        dataflow::walk(
            graph,
            site.index,
            |edge| warps.may_go(&who, edge.to),
            |index, site| match site.operation {
                // A cluster barrier that releases is taken for one: kernels in use have nothing else.
                Operation::Fence { .. } | Operation::ClusterBarrier { .. } => {
                    is_fenced = true;
                    ControlFlow::Break(())
                }
                _ if on_it.contains(&index) => {
                    copied = copied.or(Some(index));
                    ControlFlow::Break(())
                }
                _ if waits.contains(&index) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            },
        );
        if is_fenced {
            return;
        }
        // Others may copy behind a barrier: what they fence, they may do so anywhere before.
        let by_others = || on_it.first().copied().filter(|_| !fences);
        found = found.or(copied.or_else(by_others).map(|copy| (site, copy)));
    }
    let Some((site, copy)) = found else { return };
    let line = graph.sites.get(copy).map_or(0, |site| site.line().0);
    checks.push(Finding {
        rule: Rule::InitFenced,
        confidence: Confidence::Likely,
        line: site.line,
        message: format!(
            "the mbarrier {} is initialised with no fence before the copy of line {line}",
            site.object(warps).unwrap_or_default()
        ),
        reasoning: "copies complete through the async proxy, which sees the object only after fence.mbarrier_init or fence.proxy.async"
            .to_owned(),
    });
}

/// A cluster barrier whose arrival is relaxed tells the others nothing: a fence must have.
fn relaxed(warps: &Warps<'_>, objects: &Objects<'_>, checks: &mut Vec<Finding>) {
    let graph = &warps.graph;
    let mut first: Option<&MbarrierSite> = None;
    let mut all = true;
    for site in objects.sites.iter().filter(|site| site.act == Act::Init) {
        let (mut bare, mut fenced) = (false, false);
        dataflow::walk(
            graph,
            site.index,
            |_| true,
            |_, site| {
                let fence = matches!(site.operation, Operation::Fence { .. });
                let arrives =
                    matches!(site.operation, Operation::ClusterBarrier { action: ClusterBarrierAction::Arrive, .. });
                bare |= arrives && site.located.instruction.opcode().contains("relaxed");
                fenced |= fence;
                // A barrier of the block alone tells other blocks nothing. By the first use all must have been told; who announces bytes
                // may do so for itself.
                let uses = match site.operation {
                    Operation::Mbarrier(mbarrier) => !matches!(
                        mbarrier.action,
                        MbarrierAction::Init | MbarrierAction::ExpectTx | MbarrierAction::ArriveExpectTx
                    ),
                    Operation::Bulk(_) | Operation::ClusterBarrier { .. } => true,
                    _ => false,
                };
                if fence || uses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        all &= bare || !fenced;
        first = first.or(Some(site).filter(|_| bare));
    }
    // Kernels that are known to work leave the fence out for an object that only the cluster barrier orders.
    let Some(site) = first else { return };
    checks.push(Finding {
        rule: Rule::InitFenced,
        confidence: if all { Confidence::Likely } else { Confidence::Possible },
        line: site.line,
        message: format!(
            "the mbarrier {} is initialised with no fence before the relaxed cluster barrier",
            site.object(warps).unwrap_or_default()
        ),
        reasoning:
            "barrier.cluster.arrive.relaxed orders nothing: fence.mbarrier_init.release.cluster must come between, or \
                    other blocks may not see the object"
                .to_owned(),
    });
}
