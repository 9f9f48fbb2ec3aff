//! Results that are used before what brings them is over, or seen: registers of `tcgen05.ld`, tensor maps that the kernel changes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::base::{FastMap, FastSet, work};
use crate::ptx::{BarrierAction, Bulk, MbarrierAction, Operand, Operation, Register, StateSpace, Tcgen05};
use crate::simt::{BlockId, Graph, Paths, Root, Site, SiteId, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarriers::{self, Act, MbarrierSite};
use crate::sync::rules::rule::Rule;

/// Loads of tensor memory that are told apart; those beyond are left out.
const MAX_LOADS: usize = 64;

/// Loads that may be under way, one bit each.
type Loads = u64;

/// Checks what must be waited for before it is used.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let mut checks = Vec::new();
    checks.extend(changed_map(warps));
    if !warps.graph.calls && warps.graph.complete {
        checks.extend(loaded(warps));
        checks.extend(given_back_loading(warps));
        checks.extend(unfenced(warps).or_else(|| given_back_unfenced(warps)));
    }
    checks
}

fn likely(rule: Rule, site: &Site<'_>, message: String, reasoning: &str) -> Finding {
    let (line, reasoning) = (site.line(), reasoning.to_owned());
    Finding { rule, confidence: Confidence::Likely, line, message, reasoning }
}

/// Whether an instruction is `tcgen05.wait::ld`.
fn is_wait(site: &Site<'_>) -> bool {
    matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Wait, .. })
        && site.located.instruction.has("wait::ld")
}

/// Whether anything reads what an instruction writes.
fn is_used(graph: &Graph<'_>, index: SiteId) -> bool {
    let Some(site) = graph.sites.get(index) else { return false };
    let written: FastSet<Register> = graph.registers.written_by(&site.located).collect();
    work::spend_on(graph.sites.len() / 4);
    let reads = |site: &Site<'_>| {
        graph.registers.of(&site.located).any(|used| !used.is_def && written.contains(&used.register))
    };
    graph.sites.iter().any(reads)
}

/// A register of `tcgen05.ld` that is used with no `tcgen05.wait::ld` since, on any way to it.
fn loaded(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let is_load = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Ld, .. });
    let loads: Vec<SiteId> = graph
        .sites
        .iter_enumerated()
        .filter(|(_, site)| is_load(site))
        .map(|(index, _)| index)
        .take(MAX_LOADS)
        .collect();
    if loads.is_empty() {
        return None;
    }
    // The loads of each register.
    let mut made: FastMap<Register, Loads> = FastMap::default();
    for (bit, site) in (0..).zip(loads.iter().filter_map(|index| graph.sites.get(*index))) {
        for register in graph.registers.written_by(&site.located) {
            *made.entry(register).or_default() |= 1 << bit;
        }
    }
    // Whatever else writes one of its registers ends what is known of a load.
    let step = |index: SiteId, site: &Site<'_>, under_way: Loads| {
        if under_way == 0 && !is_load(site) || is_wait(site) {
            return 0;
        }
        let written = graph.registers.written_by(&site.located).filter_map(|register| made.get(&register));
        let under_way = written.fold(under_way, |state, by| state & !by);
        match loads.iter().position(|load| *load == index) {
            Some(bit) => under_way | 1 << bit,
            None => under_way,
        }
    };
    let through = |block: BlockId, state: Loads| {
        graph.sites_of(block).fold(state, |state, (index, site)| step(index, site, state))
    };
    // Under way on every path: what a compiler moves up in front of one wait of several is not meant.
    let join = |there: &mut Loads, state: Loads| {
        let both = *there & state;
        std::mem::replace(there, both) != both
    };
    let before = dataflow::forward(graph, 0, through, |_, _, state| Some(*state), join);
    for (block, state) in before.into_iter_enumerated() {
        let Some(mut state) = state else { continue };
        for (index, site) in graph.sites_of(block) {
            work::spend(1);
            // Compilers copy and pack what they have not waited for.
            let counts = state != 0 && !matches!(site.located.instruction.mnemonic(), "mov" | "prmt" | "tcgen05");
            let mut used = graph.registers.of(&site.located).filter(|used| counts && !used.is_def);
            if let Some(used) = used.find(|used| made.get(&used.register).is_some_and(|by| by & state != 0)) {
                let by = made.get(&used.register).map_or(0, |by| (by & state).trailing_zeros());
                let load = loads.get(by as usize).and_then(|load| graph.sites.get(*load))?;
                let message = format!("uses {}, which the tcgen05.ld of line {} loads", used.name, load.line());
                let reasoning = "tcgen05.ld is asynchronous: no tcgen05.wait::ld comes between on any way here";
                return Some(likely(Rule::TensorLoadAwaited, site, message, reasoning));
            }
            state = step(index, site, state);
        }
    }
    // Copies of them are used, if anything.
    let waits: BTreeSet<SiteId> =
        graph.sites.iter_enumerated().filter(|(_, site)| is_wait(site)).map(|(index, _)| index).collect();
    let ways = Paths::new(warps);
    let never = loads.iter().find(|load| ways.first(**load, false, &[&waits]).is_empty() && is_used(graph, **load));
    let site = never.and_then(|load| graph.sites.get(*load))?;
    let message = "a tcgen05.ld that no tcgen05.wait::ld follows, and whose registers are used".to_owned();
    let reasoning = "tcgen05.ld is asynchronous: no way on from it comes to a wait";
    Some(likely(Rule::TensorLoadAwaited, site, message, reasoning))
}

/// What came last on every way to each block that some way leads to, by what an instruction makes of what came before it.
fn on_every_way(
    graph: &Graph<'_>,
    step: impl Fn(Option<SiteId>, SiteId, &Site<'_>) -> Option<SiteId>,
) -> impl Iterator<Item = (BlockId, Option<SiteId>)> {
    let through = |block: BlockId, state: Option<SiteId>| {
        graph.sites_of(block).fold(state, |state, (index, site)| step(state, index, site))
    };
    let join = |there: &mut Option<SiteId>, state: Option<SiteId>| {
        let both = there.filter(|_| state.is_some());
        std::mem::replace(there, both) != both
    };
    let before = dataflow::forward(graph, None, through, |_, _, state| Some(*state), join);
    before.into_iter_enumerated().filter_map(|(block, state)| Some((block, state?)))
}

/// A `tcgen05.ld` that follows, on every way to it, the wait for a commit with no `tcgen05.fence::after_thread_sync` since; in a kernel
/// that has such fences at all, for there are compilers that write none.
fn unfenced(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let is_fence = |site: &Site<'_>, which: &str| {
        matches!(site.operation, Operation::Tcgen05 { .. }) && site.located.instruction.has(which)
    };
    let is_after = |site: &Site<'_>| is_fence(site, "fence::after_thread_sync");
    graph.sites.iter().find(|site| is_after(site) || is_fence(site, "fence::before_thread_sync"))?;
    let object = |index: SiteId, site: &Site<'_>, of: &dyn Fn(&Site<'_>) -> bool| {
        let is_address = |operand: &Operand<'_>| operand.address().is_some();
        let operand = site.located.instruction.operands().find(is_address).filter(|_| of(site))?;
        warps.values.identity(graph, index, operand)
    };
    let commits = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Commit, .. });
    let asks = |site: &Site<'_>| match site.operation {
        Operation::Mbarrier(mbarrier) => matches!(mbarrier.action, MbarrierAction::TryWait | MbarrierAction::TestWait),
        _ => false,
    };
    let sites = || graph.sites.iter_enumerated();
    let committed: Vec<_> = sites().filter_map(|(index, site)| object(index, site, &commits)).collect();
    // Objects of a ring have no address in common, but places.
    let on_objects = mbarriers::sites(warps);
    let places = |site: &MbarrierSite| {
        let (variable, places) = (site.variable?, site.places.as_deref()?);
        Some(places.iter().map(move |place| (variable, *place)).collect::<Vec<_>>())
    };
    let is_commit = |site: &&MbarrierSite| graph.sites.get(site.index).is_some_and(commits);
    let told: BTreeSet<(u32, i64)> = on_objects.iter().filter(is_commit).filter_map(places).flatten().collect();
    let of_commits = |site: &&MbarrierSite| {
        site.act == Act::Wait && places(site).is_some_and(|places| places.iter().all(|place| told.contains(place)))
    };
    let waits: BTreeSet<SiteId> = on_objects.iter().filter(of_commits).map(|site| site.index).collect();
    // The wait that came last on every way, where no fence has come since.
    let step = |state: Option<SiteId>, index: SiteId, site: &Site<'_>| {
        if is_after(site) {
            return None;
        }
        let is_asked = object(index, site, &asks).is_some_and(|object| committed.contains(&object));
        if is_asked || waits.contains(&index) { Some(index) } else { state }
    };
    for (block, mut state) in on_every_way(graph, &step) {
        for (index, site) in graph.sites_of(block) {
            let is_load = matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Ld, .. });
            if let Some(wait) = state.filter(|_| is_load).and_then(|wait| graph.sites.get(wait)) {
                let message = format!(
                    "no tcgen05.fence::after_thread_sync comes between this load and the wait of line {}",
                    wait.line()
                );
                let reasoning = "the fence orders tcgen05 instructions after what the thread has waited for: without it a load may be done \
                                 before the multiplication is over";
                return Some(likely(Rule::TensorFenced, site, message, reasoning));
            }
            state = step(state, index, site);
        }
    }
    None
}

/// An arrival at an mbarrier that whoever multiplies waits for, while on every way to it a `tcgen05.ld` of the thread is under way: the
/// accumulator is given back before it has been read.
fn given_back_loading(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let is_load = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action: Tcgen05::Ld, .. });
    graph.sites.iter().find(|site| is_load(site))?;
    // The next that is done with tensor memory after a wait.
    let multiplies_next = |index: SiteId| {
        let mut multiplies = false;
        dataflow::walk(
            graph,
            index,
            |_| true,
            |_, site| match site.operation {
                Operation::Tcgen05 { action: Tcgen05::Mma, .. } => {
                    multiplies = true;
                    ControlFlow::Break(())
                }
                Operation::Tcgen05 { action: Tcgen05::Ld | Tcgen05::St | Tcgen05::Commit, .. } => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            },
        );
        multiplies
    };
    let on_objects = mbarriers::sites(warps);
    let places = |site: &MbarrierSite| {
        let (variable, places) = (site.variable?, site.places.as_deref()?);
        Some(places.iter().map(move |place| (variable, *place)).collect::<Vec<_>>())
    };
    let waits = on_objects.iter().filter(|site| site.act == Act::Wait && multiplies_next(site.index));
    let waited: BTreeSet<(u32, i64)> = waits.filter_map(places).flatten().collect();
    let gives_back = |site: &&MbarrierSite| {
        site.act == Act::Arrive && places(site).is_some_and(|places| places.iter().all(|place| waited.contains(place)))
    };
    let arrivals: BTreeSet<SiteId> = on_objects.iter().filter(gives_back).map(|site| site.index).collect();
    let step = |state: Option<SiteId>, index: SiteId, site: &Site<'_>| match () {
        _ if is_load(site) => Some(index),
        _ if is_wait(site) => None,
        _ => state,
    };
    for (block, mut state) in on_every_way(graph, &step) {
        for (index, site) in graph.sites_of(block) {
            let load = state.filter(|_| arrivals.contains(&index)).and_then(|load| graph.sites.get(load));
            if let Some(load) = load {
                let message =
                    format!("gives tensor memory back while the tcgen05.ld of line {} may still read it", load.line());
                let reasoning = "whoever waits here multiplies there anew: tcgen05.wait::ld comes before the arrival";
                return Some(likely(Rule::TensorLoadAwaited, site, message, reasoning));
            }
            state = step(state, index, site);
        }
    }
    None
}

/// A `tcgen05.ld` or `.st` that an arrival, or a barrier, follows on every way to it with no `tcgen05.fence::before_thread_sync` since, where
/// whoever waits there fences: one half of the pair is missing. In a kernel that has such fences at all, for there are compilers that write
/// none.
fn given_back_unfenced(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let is_fence = |site: &Site<'_>, which: &str| {
        matches!(site.operation, Operation::Tcgen05 { .. }) && site.located.instruction.has(which)
    };
    let is_before = |site: &Site<'_>| is_fence(site, "fence::before_thread_sync");
    graph.sites.iter().find(|site| is_before(site))?;
    // The next after a wait but for asking again.
    let fences_next = |index: SiteId| {
        let mut fences = false;
        dataflow::walk(
            graph,
            index,
            |_| true,
            |_, site| {
                fences |= is_fence(site, "fence::after_thread_sync");
                match site.operation {
                    Operation::Branch { .. } | Operation::Mbarrier(_) if !fences => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            },
        );
        fences
    };
    let on_objects = mbarriers::sites(warps);
    let places = |site: &MbarrierSite| {
        let (variable, places) = (site.variable?, site.places.as_deref()?);
        Some(places.iter().map(move |place| (variable, *place)).collect::<Vec<_>>())
    };
    let fenced = on_objects.iter().filter(|site| site.act == Act::Wait && fences_next(site.index));
    let waited: BTreeSet<(u32, i64)> = fenced.filter_map(places).flatten().collect();
    let arrives = |site: &&MbarrierSite| {
        site.act == Act::Arrive && places(site).is_some_and(|places| places.iter().all(|place| waited.contains(place)))
    };
    let arrivals: BTreeSet<SiteId> = on_objects.iter().filter(arrives).map(|site| site.index).collect();
    // The access that came last on every way, where no fence has come since.
    let step = |state: Option<SiteId>, index: SiteId, site: &Site<'_>| match site.operation {
        Operation::Tcgen05 { action: Tcgen05::Ld | Tcgen05::St, .. } => Some(index),
        _ if is_before(site) => None,
        _ => state,
    };
    for (block, mut state) in on_every_way(graph, &step) {
        for (index, site) in graph.sites_of(block) {
            let hands_over = match site.operation {
                Operation::Mbarrier(_) => arrivals.contains(&index),
                Operation::NamedBarrier(barrier) => barrier.action == BarrierAction::Sync && fences_next(index),
                _ => false,
            };
            if let Some(access) = state.filter(|_| hands_over).and_then(|access| graph.sites.get(access)) {
                let message = format!(
                    "no tcgen05.fence::before_thread_sync comes between the {} of line {} and this",
                    access.located.instruction.opcode().split('.').take(2).collect::<Vec<_>>().join("."),
                    access.line()
                );
                let reasoning = "whoever waits here goes on with tcgen05.fence::after_thread_sync, which orders nothing without the fence \
                                 of the other side";
                return Some(likely(Rule::TensorFenced, site, message, reasoning));
            }
            state = step(state, index, site);
        }
    }
    None
}

/// A tensor map that the kernel changes and uses, in a kernel that nowhere releases or nowhere acquires the change.
fn changed_map(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let change = graph.sites.iter().find(|site| site.located.instruction.mnemonic() == "tensormap")?;
    let has = |starts: &str, word: &str| {
        graph.sites.iter().any(|site| {
            let opcode = site.located.instruction.opcode();
            opcode.starts_with(starts) && opcode.contains(word)
        })
    };
    let released = has("fence.proxy.tensormap", "release") || has("tensormap.cp_fenceproxy", "release");
    let (never, lacks) = match (has("fence.proxy.tensormap", "acquire"), released) {
        (false, _) => ("acquires", "which sees a change only after fence.proxy.tensormap::generic.acquire"),
        (true, false) => (
            "releases",
            "which sees a change only once tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release has let it go",
        ),
        (true, true) => return None,
    };
    for (index, site) in graph.sites.iter_enumerated() {
        let is_tensor =
            matches!(site.operation, Operation::Bulk(Bulk::Copy { tensor: true } | Bulk::Reduce { tensor: true }));
        if !is_tensor || warps.at(index).is_empty() {
            continue;
        }
        let has_coordinates =
            |operand: &Operand<'_>| operand.address().is_some_and(|mut map| map.rest.next().is_some());
        let Some(operand) = site.located.instruction.operands().find(has_coordinates) else { continue };
        // One that the launch hands over is none that the kernel changes.
        let root = warps.values.root(graph, index, operand);
        if matches!(
            root,
            Some(
                Root::In(StateSpace::Param | StateSpace::Const) | Root::Generic(StateSpace::Param | StateSpace::Const)
            )
        ) {
            continue;
        }
        let message = format!(
            "copies by a tensor map in a kernel that changes one at line {} and never {never} it",
            change.line()
        );
        let reasoning = format!("tensor maps are read through a proxy of their own, {lacks}: the kernel has none");
        return Some(likely(Rule::MapAcquired, site, message, &reasoning));
    }
    None
}
