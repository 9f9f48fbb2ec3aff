//! Warp roles: which warps of a block do what, and where in the PTX.
//!
//! Warps that set their register budget at the same places are one role. Without setmaxnreg, warps that alone run the same kinds of
//! asynchronous instructions are.

pub mod pool;
pub mod setmaxnreg;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{IndexVec, Line, work};
use crate::ptx::{Bulk, CpAsync, Mbarrier, MbarrierAction, Operation, RegisterAction, Tcgen05, Wgmma};
use crate::roles::setmaxnreg::Requested;
use crate::simt::{BlockId, Edge, Graph, Site, SiteId, ThreadSet, Warps, dataflow, passing};

/// What a role's instructions tell about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// Bulk copies into shared memory.
    Load,
    /// `cp.async` copies into shared memory.
    CpAsync,
    /// `wgmma.mma_async`.
    Wgmma,
    /// `mma`, `wmma`: multiplications that a warp waits for.
    Mma,
    /// `tcgen05.mma`.
    Tcgen05Mma,
    /// `tcgen05.ld`.
    Tcgen05Load,
    /// `tcgen05.st`.
    Tcgen05Store,
    /// Bulk copies or reductions out of shared memory.
    Store,
    /// `clusterlaunchcontrol.try_cancel`: fetches the next tile of work.
    Schedule,
}

impl Duty {
    /// `tma load`, `wgmma`, …
    pub fn name(self) -> &'static str {
        match self {
            Duty::Load => "tma load",
            Duty::CpAsync => "cp.async",
            Duty::Wgmma => "wgmma",
            Duty::Mma => "mma",
            Duty::Tcgen05Mma => "tcgen05.mma",
            Duty::Tcgen05Load => "tcgen05.ld",
            Duty::Tcgen05Store => "tcgen05.st",
            Duty::Store => "tma store",
            Duty::Schedule => "clusterlaunchcontrol",
        }
    }

    /// What an instruction tells.
    pub fn of(operation: &Operation<'_>, modifiers: &str) -> Option<Duty> {
        Some(match operation {
            Operation::Bulk(Bulk::Copy { .. }) if modifiers.contains("mbarrier") => Duty::Load,
            Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }) => Duty::Store,
            Operation::CpAsync(CpAsync::Copy) => Duty::CpAsync,
            Operation::Wgmma(Wgmma::MmaAsync) => Duty::Wgmma,
            Operation::Tcgen05 { action: Tcgen05::Mma, .. } => Duty::Tcgen05Mma,
            Operation::Tcgen05 { action: Tcgen05::Ld, .. } => Duty::Tcgen05Load,
            Operation::Tcgen05 { action: Tcgen05::St, .. } => Duty::Tcgen05Store,
            Operation::ClusterLaunchControl if modifiers.contains("try_cancel") => Duty::Schedule,
            _ if modifiers.starts_with("mma.") || modifiers.starts_with("wmma.mma") => Duty::Mma,
            _ => return None,
        })
    }
}

/// A role.
#[derive(Clone, Debug)]
pub struct Role {
    /// What it is called, by what it does.
    pub name: String,
    /// Where it sets its budget, or the first line that only it runs.
    pub entry: Option<Line>,
    /// Its threads; none when the size of a block, or who goes where, is not known.
    pub threads: Option<ThreadSet>,
    /// Its setmaxnreg instructions, by index.
    pub sets: Vec<SiteId>,
    /// Registers that it has where it does what it is named for; none where it has no setmaxnreg, or that cannot be told.
    pub budget: Option<u32>,
    /// Every count that its setmaxnreg ask for, ascending.
    pub counts: Vec<u32>,
    /// The blocks that only it runs.
    pub blocks: Vec<BlockId>,
    /// What it does.
    pub duties: BTreeSet<Duty>,
    /// The warps that do something which others of the role do not.
    pub part: BTreeMap<Duty, Vec<u32>>,
}

impl Role {
    /// How many warps it has.
    pub fn warps(&self) -> Option<u32> {
        self.threads.map(|threads| threads.warps().len() as u32)
    }
}

/// The roles of a kernel, in the order of their first lines; empty when all warps do the same.
pub fn roles(warps: &Warps<'_>, requested: &[Requested]) -> Vec<Role> {
    let mut roles = match warps.threads {
        Some(threads) => by_threads(warps, requested, threads),
        None => by_place(warps, requested),
    };
    // Without budgets it takes two that each run code of their own: one warp that also multiplies makes no role of the others.
    if requested.is_empty() && roles.iter().filter(|role| !role.blocks.is_empty()).count() < 2 {
        return Vec::new();
    }
    roles.sort_by_key(|role| (role.entry.is_none(), role.entry));
    name(warps, &mut roles);
    roles
}

/// Groups of warps.
fn by_threads(warps: &Warps<'_>, requested: &[Requested], threads: u32) -> Vec<Role> {
    let count = threads.div_ceil(32);
    let sets: Vec<(SiteId, Vec<u32>)> =
        requested.iter().map(|site| (site.index, warps.at(site.index).warps())).collect();
    let mut duties: BTreeMap<u32, BTreeSet<Duty>> = BTreeMap::new();
    // What every warp does divides nobody, but belongs to what each of them does.
    let mut shared: BTreeSet<Duty> = BTreeSet::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Some(duty) = Duty::of(&site.operation, site.located.instruction.opcode()) else { continue };
        let here = warps.at(index).warps();
        if here.len() < count as usize {
            for warp in here {
                duties.entry(warp).or_default().insert(duty);
            }
        } else {
            shared.insert(duty);
        }
    }
    let reads = |warp: u32| duties.get(&warp).is_some_and(|duties| duties.contains(&Duty::Tcgen05Load));
    let mut groups: BTreeMap<(Vec<SiteId>, BTreeSet<Duty>), Vec<u32>> = BTreeMap::new();
    for warp in 0..count {
        let own: Vec<SiteId> = sets.iter().filter(|(_, at)| at.contains(&warp)).map(|(index, _)| *index).collect();
        // A budget is what makes a role; what its warps do beside it does not divide it.
        let by_duty =
            if requested.is_empty() { duties.get(&warp).cloned().unwrap_or_default() } else { BTreeSet::new() };
        // One warp of several that read results also stores them.
        let by_duty = by_duty.into_iter().filter(|duty| *duty != Duty::Store || !reads(warp)).collect::<BTreeSet<_>>();
        groups.entry((own, by_duty)).or_default().push(warp);
    }
    if groups.len() < 2 {
        return Vec::new();
    }
    let roles = groups.into_iter().map(|((own, _), members)| {
        let set: ThreadSet =
            members.iter().flat_map(|warp| warp * 32..warp * 32 + 32).filter(|thread| *thread < threads).collect();
        let blocks: Vec<BlockId> = warps
            .graph
            .blocks
            .ids()
            .filter(|&block| {
                let here = warps.reach.block(block);
                !here.is_empty() && here.within(&set)
            })
            .collect();
        let mut part: BTreeMap<Duty, Vec<u32>> = BTreeMap::new();
        for warp in &members {
            for duty in duties.get(warp).into_iter().flatten().filter(|duty| !shared.contains(duty)) {
                part.entry(*duty).or_default().push(*warp);
            }
        }
        let all: BTreeSet<Duty> = part.keys().chain(&shared).copied().collect();
        part.retain(|_, doing| doing.len() < members.len());
        Role { part, ..role(warps, requested, own, blocks, all, Some(set)) }
    });
    roles.collect()
}

/// Without a block size: what each setmaxnreg leads to.
fn by_place(warps: &Warps<'_>, requested: &[Requested]) -> Vec<Role> {
    let dominated = |site: &Requested| {
        let from = warps.graph.sites.get(site.index).map_or(Graph::ENTRY, |site| site.block);
        dominated(warps, from)
    };
    let regions: Vec<(SiteId, Vec<BlockId>)> = requested.iter().map(|site| (site.index, dominated(site))).collect();
    // A setmaxnreg inside the region of another belongs to that role.
    let inside = |index: SiteId| {
        work::spend_on(regions.iter().map(|(_, region)| 1 + region.len() / 8).sum());
        let block = warps.graph.sites.get(index).map_or(Graph::ENTRY, |site| site.block);
        regions.iter().any(|(other, region)| *other < index && region.contains(&block))
    };
    let heads = regions.iter().filter(|(index, _)| !inside(*index));
    let roles: Vec<Role> = heads
        .map(|(index, region)| {
            work::spend_on(regions.len() * (1 + region.len() / 8));
            let own = regions
                .iter()
                .filter(|(other, _)| {
                    other == index
                        || *other > *index
                            && warps.graph.sites.get(*other).is_some_and(|site| region.contains(&site.block))
                })
                .map(|(index, _)| *index)
                .collect();
            let duties = region
                .iter()
                .flat_map(|&block| warps.graph.sites_of(block))
                .filter_map(|(_, site)| Duty::of(&site.operation, site.located.instruction.opcode()));
            let duties = duties.collect();
            role(warps, requested, own, region.clone(), duties, None)
        })
        .collect();
    roles
}

/// The blocks that are reached through a block alone: those that a walk from the start misses when it may not enter it.
fn dominated(warps: &Warps<'_>, through: BlockId) -> Vec<BlockId> {
    let blocks = &warps.graph.blocks;
    let walk = |closed: Option<BlockId>| {
        let mut seen = IndexVec::filled(false, blocks.len());
        let mut open = vec![Graph::ENTRY];
        while let Some(at) = open.pop() {
            work::spend(1);
            if Some(at) == closed || std::mem::replace(seen.get_mut(at).unwrap_or(&mut true), true) {
                continue;
            }
            open.extend(blocks.get(at).iter().flat_map(|block| &block.successors).map(|edge| edge.to));
        }
        seen
    };
    work::spend_on(blocks.len());
    let (all, without) = (walk(None), walk(Some(through)));
    blocks.ids().filter(|&at| all.get(at) != without.get(at)).collect()
}

fn role(
    warps: &Warps<'_>,
    requested: &[Requested],
    sets: Vec<SiteId>,
    blocks: Vec<BlockId>,
    duties: BTreeSet<Duty>,
    threads: Option<ThreadSet>,
) -> Role {
    let own = || {
        work::spend_on(requested.len() * (1 + sets.len() / 8));
        requested.iter().filter(|site| sets.contains(&site.index))
    };
    let counts: BTreeSet<Option<u32>> = own().map(|site| site.count).collect();
    let budget = match counts.len() {
        1 => counts.first().copied().flatten(),
        0 => None,
        _ => threads.as_ref().and_then(|threads| working_budget(warps, requested, threads)),
    };
    let first_block = blocks.first().and_then(|block| warps.graph.blocks.get(*block));
    // A role begins where it sets its budget; blocks before that (one thread sets barriers up) may be its own too.
    let first = sets.first().copied().or(first_block.map(|block| block.start));
    let entry = first.and_then(|index| warps.graph.sites.get(index)).map(|site| site.line());
    Role {
        name: String::new(),
        entry,
        threads,
        budget,
        counts: counts.into_iter().flatten().collect(),
        sets,
        blocks,
        duties,
        part: BTreeMap::new(),
    }
}

/// The budget in force where threads do what tells their role; none where it differs from place to place.
fn working_budget(warps: &Warps<'_>, requested: &[Requested], threads: &ThreadSet) -> Option<u32> {
    let graph = &warps.graph;
    let counts: BTreeMap<SiteId, Option<u32>> = requested.iter().map(|site| (site.index, site.count)).collect();
    let ours = |index: SiteId| !warps.at(index).intersection(threads).is_empty();
    // What may be in force at the start of each block: none as launched.
    let through = |block: BlockId, mut state: BTreeSet<Option<u32>>| {
        for (index, _) in graph.sites_of(block) {
            if let Some(count) = counts.get(&index).filter(|_| ours(index)) {
                state = [*count].into_iter().collect();
            }
        }
        state
    };
    let along = |at: BlockId, edge: &Edge, state: &BTreeSet<Option<u32>>| {
        let here = warps.reach.block(at).intersection(threads);
        let going = passing(graph, &warps.values, graph.blocks.get(at)?, edge, here);
        (!going.is_empty()).then(|| state.clone())
    };
    let join = |there: &mut BTreeSet<Option<u32>>, state: BTreeSet<Option<u32>>| {
        let known = there.len();
        there.extend(state);
        there.len() != known
    };
    let before = dataflow::forward(graph, BTreeSet::from([None]), through, along, join);
    let mut found: BTreeSet<Option<u32>> = BTreeSet::new();
    for (block, start) in before.into_iter_enumerated() {
        let mut state = start.unwrap_or_default();
        for (index, site) in graph.sites_of(block) {
            if let Some(count) = counts.get(&index).filter(|_| ours(index)) {
                state = [*count].into_iter().collect();
            }
            if Duty::of(&site.operation, site.located.instruction.opcode()).is_some() && ours(index) {
                found.extend(state.iter().copied());
            }
        }
    }
    if found.len() == 1 { found.first().copied().flatten() } else { None }
}

/// Names roles by their duties; a second one of the same name gets a number.
fn name(warps: &Warps<'_>, roles: &mut [Role]) {
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for role in roles {
        let has = |duty| role.duties.contains(&duty);
        let multiplies = has(Duty::Wgmma) || has(Duty::Tcgen05Mma);
        let base = match () {
            () if has(Duty::Load) && has(Duty::Tcgen05Mma) && !has(Duty::Tcgen05Load) => "producer and mma",
            () if has(Duty::Load) && multiplies => "producer and consumer",
            // Results that are read, worked on and written back, as softmax does between two multiplications.
            () if has(Duty::Tcgen05Store) && !multiplies && writes_back(warps, role) => "compute",
            () if has(Duty::Tcgen05Load) && has(Duty::Load) => "compute",
            () if has(Duty::Mma) && (has(Duty::Load) || has(Duty::CpAsync)) => "producer and consumer",
            () if has(Duty::Load) => "producer",
            () if has(Duty::Wgmma) => "consumer",
            () if has(Duty::Tcgen05Mma) && has(Duty::Tcgen05Load) => "consumer",
            () if has(Duty::Tcgen05Mma) => "mma",
            () if has(Duty::Tcgen05Load) => "epilogue",
            () if has(Duty::Mma) => "consumer",
            () if has(Duty::Store) => "epilogue",
            () if has(Duty::CpAsync) => "producer",
            () if has(Duty::Schedule) => "scheduler",
            () => unnamed(warps, role),
        };
        let number = used.entry(base.to_owned()).or_default();
        *number += 1;
        role.name = if *number == 1 { base.to_owned() } else { format!("{base} {number}") };
    }
}

/// Whether a role stores into tensor memory what it computed from what it loaded from there: again and again in the order of the text, or
/// with exponentials between. What it stores before all else only clears it.
fn writes_back(warps: &Warps<'_>, role: &Role) -> bool {
    let ours = |index: SiteId| {
        let meets = |threads: ThreadSet| !warps.at(index).intersection(&threads).is_empty();
        role.threads.is_none_or(meets)
    };
    let of = |wanted: Duty| {
        warps
            .graph
            .sites
            .iter_enumerated()
            .filter(move |(_, site)| Duty::of(&site.operation, site.located.instruction.opcode()) == Some(wanted))
    };
    let load = of(Duty::Tcgen05Load).map(|(index, _)| index).find(|index| ours(*index));
    let store = of(Duty::Tcgen05Store).map(|(index, _)| index).rfind(|index| ours(*index));
    load.zip(store).is_some_and(|(load, store)| {
        let between = warps.graph.sites.range_enumerated(load..store);
        let is_exponential = |site: &Site<'_>| site.located.instruction.mnemonic() == "ex2";
        let mut exponentials = between.filter(|(_, site)| is_exponential(site));
        load < store && (warps.graph.is_in_a_loop(store) || exponentials.any(|(index, _)| ours(index)))
    })
}

fn waits(mbarrier: &Mbarrier<'_>) -> bool {
    matches!(mbarrier.action, MbarrierAction::TestWait | MbarrierAction::TryWait)
}

/// Arithmetic that every warp runs before roles part: scales, bounds. More than this is work.
const PREAMBLE: u32 = 32;

/// The blocks that those lead to in which a role sets its budget; all where it sets none.
fn from_entry(warps: &Warps<'_>, role: &Role) -> IndexVec<BlockId, bool> {
    let blocks = &warps.graph.blocks;
    let mut seen = IndexVec::filled(role.sets.is_empty(), blocks.len());
    let mut open: Vec<BlockId> =
        role.sets.iter().filter_map(|set| warps.graph.sites.get(*set)).map(|site| site.block).collect();
    while let Some(at) = open.pop() {
        work::spend(1);
        if !std::mem::replace(seen.get_mut(at).unwrap_or(&mut true), true) {
            open.extend(blocks.get(at).iter().flat_map(|block| &block.successors).map(|edge| edge.to));
        }
    }
    seen
}

/// What a role without asynchronous instructions is called, by what else it does.
fn unnamed(warps: &Warps<'_>, role: &Role) -> &'static str {
    let (Some(threads), Some(all)) = (role.threads, warps.threads) else { return "other" };
    let everybody = ThreadSet::first(all);
    let (mut computes, mut touches, mut together) = (false, false, 0u32);
    let (mut reads, mut writes, mut waiting, mut arrives) = (false, false, false, false);
    let after = from_entry(warps, role);
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let here = warps.at(index);
        if here.intersection(&threads).is_empty() || !after.get(site.block).copied().unwrap_or(true) {
            continue;
        }
        let shared = here.whole_warps().intersection(&everybody) == everybody;
        let instruction = site.located.instruction;
        let real = || {
            instruction
                .modifiers()
                .any(|name| matches!(name, "f16" | "f16x2" | "bf16" | "bf16x2" | "f32" | "f32x2" | "f64"))
        };
        let works = match instruction.mnemonic() {
            "ex2" | "fma" => true,
            "add" | "sub" | "mul" | "mad" | "max" | "min" | "div" | "cvt" => real(),
            _ => false,
        };
        together += u32::from(works && shared);
        computes |= works && (!shared || together > PREAMBLE);
        let repeats = !shared && warps.graph.is_in_a_loop(index);
        let in_shared = instruction.modifiers().any(|name| name.starts_with("shared"));
        match (instruction.mnemonic(), &site.operation) {
            _ if shared => {}
            ("ld" | "ldmatrix", _) => reads |= repeats && in_shared,
            // Whoever only reads and waits leaves nothing behind; setting up is everybody's.
            ("st" | "stmatrix", _) => {
                touches = true;
                writes |= repeats && in_shared;
            }
            ("atom" | "red" | "multimem" | "call", _) => touches = true,
            (_, Operation::Mbarrier(found)) if waits(found) => waiting |= repeats,
            (_, Operation::Mbarrier(found)) if found.action == MbarrierAction::Init => {}
            (_, Operation::Mbarrier(_)) => {
                touches = true;
                arrives |= repeats;
            }
            _ => {}
        }
    }
    match (computes, touches) {
        (true, _) => "compute",
        // What lies in shared memory is read and put back in another order.
        (false, true) if reads && writes => "transform",
        // What some barriers tell is passed on to others.
        (false, true) if waiting && arrives && !writes => "relay",
        (false, true) => "other",
        (false, false) => "idle",
    }
}

/// Whether a role gives registers away or takes some, by its first setmaxnreg.
pub fn direction(role: &Role, requested: &[Requested]) -> Option<RegisterAction> {
    work::spend_on(requested.len() * (1 + role.sets.len() / 8));
    requested.iter().find(|site| role.sets.contains(&site.index)).map(|site| site.action)
}
