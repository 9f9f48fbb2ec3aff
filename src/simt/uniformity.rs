//! Whether warps, or threads, come to an instruction equally often.
//!
//! Nobody may know how often a loop runs; but where its end depends on nothing that differs from one to the other, it runs as often for
//! each of them. A branch decides over an instruction where one of its ways must lead there and another need not (control dependence);
//! what decides the branch is followed back through all that it is computed from.

use crate::base::{Id, IndexVec, work};
use crate::ptx::{Operand, Shape};
use crate::simt::eval::evaluate::Values;
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::{Graph, SiteId};
use crate::simt::reachability::{ThreadSet, passing};
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Otherwise, Source, Step};
use crate::simt::{BlockId, Reach, Warps};

/// Rounds in which what differs is followed on.
const MAX_ROUNDS: usize = 64;

/// What differs among the warps of a set, or among its threads.
pub struct Uniformity {
    set: ThreadSet,
    among: Among,
    blocks: IndexVec<BlockId, bool>,
    values: IndexVec<ValueId, bool>,
    /// By block: those whose branch decides over it.
    deciders: IndexVec<BlockId, Vec<BlockId>>,
}

/// Among whom something differs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Threads, each for itself.
    Threads,
    /// Warps: lanes of one may differ without anybody asking.
    Warps,
    /// Lanes of a warp: warps may differ without anybody asking.
    Lanes,
    /// Blocks of a cluster: threads of one may differ without anybody asking.
    Blocks,
}

/// The ways that are open to a set, and the branches that decide over each block.
struct Control {
    open: IndexVec<BlockId, bool>,
    deciders: IndexVec<BlockId, Vec<BlockId>>,
}

impl Uniformity {
    /// Looks at a kernel as the warps of a set run it.
    pub fn of(warps: &Warps<'_>, set: ThreadSet) -> Uniformity {
        Uniformity::among(warps, set.whole_warps(), Among::Warps)
    }

    /// Looks at a kernel as the threads of a set run it, each for itself.
    pub fn of_threads(warps: &Warps<'_>, set: ThreadSet) -> Uniformity {
        Uniformity::among(warps, set, Among::Threads)
    }

    /// Looks at a kernel as the lanes of each warp of a set run it.
    pub fn of_lanes(warps: &Warps<'_>, set: ThreadSet) -> Uniformity {
        Uniformity::among(warps, set, Among::Lanes)
    }

    /// Looks at a kernel as the blocks of a cluster run it.
    pub fn of_blocks(warps: &Warps<'_>) -> Uniformity {
        Uniformity::among(warps, ThreadSet::first(warps.threads.unwrap_or(1)), Among::Blocks)
    }

    fn among(warps: &Warps<'_>, set: ThreadSet, among: Among) -> Uniformity {
        let (graph, values) = (&warps.graph, &warps.values);
        let control = Control::of(graph, values, &warps.reach, &set);
        let mut found = Uniformity {
            set,
            among,
            blocks: IndexVec::filled(false, graph.blocks.len()),
            values: IndexVec::filled(false, values.ssa.count),
            deciders: IndexVec::default(),
        };
        if !(0..MAX_ROUNDS).any(|_| !found.round(graph, values, &warps.reach, &control)) {
            found.blocks.iter_mut().for_each(|differs| *differs = true);
        }
        found.deciders = control.deciders;
        found
    }

    /// Blocks whose branches decide over one, those that decide over these included.
    pub fn all_deciders(&self, block: BlockId) -> Vec<BlockId> {
        let mut found: Vec<BlockId> = Vec::new();
        let mut open = vec![block];
        while let Some(next) = open.pop() {
            work::spend(1);
            for at in self.deciders.get(next).into_iter().flatten() {
                if !found.contains(at) {
                    found.push(*at);
                    open.push(*at);
                }
            }
        }
        found
    }

    /// Whether every warp of the set that may run an instruction runs it as often as the others, with all its threads.
    pub fn at(&self, warps: &Warps<'_>, index: SiteId) -> bool {
        let whole = ThreadSet::first(warps.threads.unwrap_or(0)).intersection(&warps.at(index).whole_warps());
        self.equally(warps, index) && warps.at(index) == whole
    }

    /// Whether those that may run an instruction, all of the set, run it as often as each other.
    pub fn equally(&self, warps: &Warps<'_>, index: SiteId) -> bool {
        let Some(site) = warps.graph.sites.get(index) else { return false };
        let guarded = site.located.instruction.guard().is_some();
        let guard = site.guard.and_then(|(register, _)| warps.values.ssa.read(index, register));
        let decided = self.blocks.get(site.block).copied().unwrap_or(true);
        let held_back = guarded && guard.is_none_or(|id| self.differs(id));
        !decided && !held_back && warps.at(index).within(&self.set)
    }

    /// Whether an address is the same for all that run an instruction together.
    pub fn agrees_on(&self, warps: &Warps<'_>, index: SiteId, address: Operand<'_>) -> bool {
        warps.values.address(&warps.graph, index, address).is_some_and(|(id, _)| !self.differs(id))
    }

    /// Whether an operand is the same for all of them: a number, a register, a variable, or an address of these.
    pub fn agrees(&self, warps: &Warps<'_>, index: SiteId, operand: Operand<'_>) -> bool {
        let Some(site) = warps.graph.sites.get(index) else { return false };
        let is_same = |name: &str| match warps.graph.registers.resolve(name, site.located.id) {
            Some(register) => warps.values.ssa.read(index, register).is_some_and(|id| !self.differs(id)),
            None => !name.starts_with('%'),
        };
        match operand.shape() {
            Shape::Number(_) => true,
            Shape::Name { name, .. } => is_same(name),
            Shape::Not(inner) => self.agrees(warps, index, inner),
            Shape::Vector(parts) => parts.into_iter().all(|part| self.agrees(warps, index, part)),
            Shape::Address(_) => operand.address().is_some_and(|mut address| {
                address.base.is_none_or(is_same) && address.rest.all(|part| self.agrees(warps, index, part))
            }),
            _ => false,
        }
    }

    /// Whether a value differs among them.
    pub(in crate::simt) fn differs(&self, id: ValueId) -> bool {
        self.values.get(id).copied().unwrap_or(true)
    }

    /// One round; says whether it found anything.
    fn round(&mut self, graph: &Graph<'_>, values: &Values, reach: &Reach, control: &Control) -> bool {
        let mut changed = false;
        work::spend_on(values.steps.len());
        for step in &values.steps {
            if step.destinations.iter().all(|to| self.differs(to.id)) {
                continue;
            }
            // Every warp elects a lane, but only one.
            let varies = match self.among {
                Among::Threads => step.varies != Variation::Block || step.elects,
                Among::Warps => step.varies != Variation::Block,
                Among::Lanes => step.varies == Variation::Lane || step.elects,
                Among::Blocks => step.ranked,
            };
            // What a warp agrees on is one number, where its lanes come together.
            let together = self.among == Among::Lanes
                && is_collective(step)
                && !self.blocks.get(step.block).copied().unwrap_or(true);
            let fed = !together && (varies || step.depends().iter().any(|id| self.differs(*id)));
            for to in step.destinations.iter().filter(|_| fed) {
                changed |= self.mark(values, to.id);
            }
        }
        for phi in &values.ssa.phis {
            if self.differs(phi.id) {
                continue;
            }
            let differs = phi.from.iter().any(|&(block, way, id)| {
                work::spend(1);
                let comes = || reach.along(graph, values, block, way).meets(&self.set);
                (self.differs(id) || self.parts(graph, values, block)) && comes()
            });
            changed |= differs && self.mark(values, phi.id);
        }
        for (block, deciders) in control.deciders.iter_enumerated() {
            if self.blocks.get(block).copied().unwrap_or(true) || !control.open.get(block).copied().unwrap_or(false) {
                continue;
            }
            let decides =
                |&at: &BlockId| self.blocks.get(at).copied().unwrap_or(true) || self.branch(graph, values, at);
            work::spend_on(deciders.len());
            if deciders.iter().any(decides) {
                changed = true;
                if let Some(slot) = self.blocks.get_mut(block) {
                    *slot = true;
                }
            }
        }
        changed
    }

    /// Whether some may leave a block by another way than others, or not come to it.
    pub(in crate::simt) fn parts(&self, graph: &Graph<'_>, values: &Values, block: BlockId) -> bool {
        self.blocks.get(block).copied().unwrap_or(true) || self.branch(graph, values, block)
    }

    /// Marks a value as different, but where the numbers are known and say otherwise.
    fn mark(&mut self, values: &Values, id: ValueId) -> bool {
        let known_equal = match values.held.get(id) {
            Some(Value::Constant(_)) => true,
            Some(Value::Threads { values, .. }) => match self.among {
                Among::Threads => same(values, &self.set),
                Among::Warps => alike(values, &self.set),
                Among::Lanes => same_in_warps(values, &self.set),
                Among::Blocks => true,
            },
            _ => false,
        };
        match self.values.get_mut(id) {
            Some(slot) if !known_equal => !std::mem::replace(slot, true),
            _ => false,
        }
    }

    /// Whether the branch at the end of a block may go another way for another warp.
    fn branch(&self, graph: &Graph<'_>, values: &Values, block: BlockId) -> bool {
        let Some(info) = graph.blocks.get(block) else { return true };
        if info.successors.len() < 2 {
            return false;
        }
        let last = info.last();
        let Some(site) = graph.sites.get(last) else { return true };
        let mut read = site.guard.into_iter().map(|(register, _)| register).chain(values.index_register(graph, last));
        let known = site.guard.is_some() || info.successors.iter().all(|edge| edge.case.is_some());
        !known || read.any(|register| values.ssa.read(last, register).is_none_or(|id| self.differs(id)))
    }
}

/// Whether an instruction gives all lanes of a warp the same, whatever each has: a shuffle from one lane, a vote.
fn is_collective(step: &Step) -> bool {
    match (step.compute, &step.otherwise) {
        (Compute::Shuffle, _) => matches!(step.arguments.get(1), Some(Source::Known(Value::Constant(_)))),
        (compute, Otherwise::Variation(varies)) => !compute.is_evaluated() && *varies != Variation::Lane,
        _ => false,
    }
}

/// Whether lanes of every warp of a set have the numbers that those of the others have.
fn alike(numbers: &[u64], set: &ThreadSet) -> bool {
    let warps: Vec<u32> = set.warps();
    let of = |warp: u32| numbers.chunks(32).nth(warp as usize);
    let first = warps.first().and_then(|warp| of(*warp));
    warps.iter().all(|warp| of(*warp) == first)
}

/// Whether lanes of each warp that are in a set have the same number.
fn same_in_warps(numbers: &[u64], set: &ThreadSet) -> bool {
    (0u32..).step_by(32).zip(numbers.chunks(32)).all(|(first, warp)| {
        let mut own = (first..).zip(warp).filter(|(thread, _)| set.has(*thread)).map(|(_, number)| number);
        let one = own.next();
        own.all(|number| Some(number) == one)
    })
}

/// Whether all threads of a set have the same number.
fn same(numbers: &[u64], set: &ThreadSet) -> bool {
    let mut all = set.iter().map(|thread| numbers.get(thread as usize));
    let first = all.next();
    all.all(|number| Some(number) == first)
}

impl Control {
    fn of(graph: &Graph<'_>, values: &Values, reach: &Reach, set: &ThreadSet) -> Control {
        let count = graph.blocks.len();
        // One more block: where everybody ends.
        let exit = BlockId::new(count);
        let mut open: IndexVec<BlockId, bool> = IndexVec::filled(false, count);
        let mut ways: IndexVec<BlockId, Vec<BlockId>> = IndexVec::filled(Vec::new(), count + 1);
        for (at, block) in graph.blocks.iter_enumerated() {
            let here = reach.block(at).intersection(set);
            open[at] = !here.is_empty();
            if !open[at] {
                continue;
            }
            let is_open = |edge: &&crate::simt::Edge| !passing(graph, values, block, edge, here).is_empty();
            ways[at] = block.successors.iter().filter(is_open).map(|edge| edge.to).collect();
            if ways[at].is_empty() {
                ways[at].push(exit);
            }
        }
        // Blocks of loops without an end are taken to have one.
        let mut back: IndexVec<BlockId, Vec<BlockId>> = IndexVec::filled(Vec::new(), count + 1);
        for (at, to) in ways.iter_enumerated() {
            for to in to {
                if let Some(list) = back.get_mut(*to) {
                    list.push(at);
                }
            }
        }
        let order = backwards(&back, exit);
        let mut ends: IndexVec<BlockId, bool> = IndexVec::filled(false, count + 1);
        for at in &order {
            ends[*at] = true;
        }
        for at in open.ids().filter(|at| open[*at]) {
            if !ends[at] {
                ways[at].push(exit);
                back[exit].push(at);
            }
        }
        let order = backwards(&back, exit);
        let after = immediately_after(&ways, &order, exit);
        let mut deciders: IndexVec<BlockId, Vec<BlockId>> = IndexVec::filled(Vec::new(), count);
        for at in graph.blocks.ids().filter(|at| ways[*at].len() > 1) {
            let stop = after.get(at).copied().flatten();
            for &way in &ways[at] {
                let mut runner = Some(way);
                while let Some(here) = runner.filter(|_| runner != stop && runner != Some(exit)) {
                    work::spend(1);
                    let Some(list) = deciders.get_mut(here) else { break };
                    if list.last() != Some(&at) {
                        list.push(at);
                    }
                    runner = after.get(here).copied().flatten();
                }
            }
        }
        Control { open, deciders }
    }
}

/// Blocks from which an end is reached, the end first, each after all that can come right after it where loops allow.
fn backwards(back: &IndexVec<BlockId, Vec<BlockId>>, exit: BlockId) -> Vec<BlockId> {
    let mut seen: IndexVec<BlockId, bool> = IndexVec::filled(false, back.len());
    let mut order: Vec<BlockId> = Vec::new();
    let mut stack: Vec<(BlockId, usize)> = vec![(exit, 0)];
    if let Some(slot) = seen.get_mut(exit) {
        *slot = true;
    }
    while let Some((at, next)) = stack.last_mut() {
        let Some(&from) = back.get(*at).and_then(|list| list.get(*next)) else {
            order.push(*at);
            stack.pop();
            continue;
        };
        *next += 1;
        if !std::mem::replace(seen.get_mut(from).unwrap_or(&mut true), true) {
            stack.push((from, 0));
        }
    }
    order.reverse();
    order
}

/// By block: the first one that every way from it to an end leads through.
type After = IndexVec<BlockId, Option<BlockId>>;

fn immediately_after(ways: &IndexVec<BlockId, Vec<BlockId>>, order: &[BlockId], exit: BlockId) -> After {
    let mut place: IndexVec<BlockId, usize> = IndexVec::filled(usize::MAX, ways.len());
    for (at, block) in order.iter().enumerate() {
        place[*block] = at;
    }
    let mut after: After = IndexVec::filled(None, ways.len());
    if let Some(slot) = after.get_mut(exit) {
        *slot = Some(exit);
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().skip(1) {
            work::spend_on(1 + ways[block].len());
            let mut met = None;
            for &way in &ways[block] {
                if after.get(way).copied().flatten().is_none() {
                    continue;
                }
                met = Some(met.map_or(way, |met| meet(&after, &place, met, way)));
            }
            if after[block] != met {
                after[block] = met;
                changed = true;
            }
        }
    }
    after
}

fn meet(after: &After, place: &IndexVec<BlockId, usize>, mut a: BlockId, mut b: BlockId) -> BlockId {
    let at = |block: BlockId| place.get(block).copied().unwrap_or(0);
    let up = |block: BlockId| after.get(block).copied().flatten().unwrap_or(Graph::ENTRY);
    while a != b {
        work::spend(1);
        while at(a) > at(b) {
            work::spend(1);
            a = up(a);
        }
        while at(b) > at(a) {
            work::spend(1);
            b = up(b);
        }
    }
    a
}
