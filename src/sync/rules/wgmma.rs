//! wgmma along every path: fenced, committed, and waited for before its results are read or its operands are given back.
//!
//! A finding is likely at most: a path of the graph need not be one that a thread can take.

use crate::base::{FastMap, FastSet, IndexVec, work};
use crate::ptx::{MbarrierAction, Operation, Register, Shape, Wgmma};
use crate::simt::{BlockId, Edge, Graph, Site, SiteId, Warps, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// How far the youngest multiplication into a set of accumulators is along some path; the higher, the younger.
type Age = u8;

/// None is on its way.
const DONE: Age = 0;
/// It belongs to no group yet.
const OPEN: Age = u8::MAX;
/// It belongs to the group that was committed last; one less for each commit since.
const COMMITTED: Age = OPEN - 1;
/// Groups that are told apart.
const MAX_GROUPS: u8 = 16;
/// Sets of accumulators that are told apart.
const MAX_SETS: usize = 64;
/// Times that copies of copies are followed.
const MAX_COPIES: usize = 3;
/// Commits from which loops are looked for.
const MAX_COMMITS: usize = 256;

fn is_mma(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Wgmma(Wgmma::MmaAsync))
}

/// Registers that multiplications write, in sets: those of one instruction, and copies of them.
struct Accumulators {
    set_of: FastMap<Register, usize>,
    count: usize,
}

/// Registers that multiplications read A from, in sets of one instruction: `mma_async {d}, {a}, b-desc, …`.
fn registers_of_a(graph: &Graph<'_>, site: &Site<'_>) -> Vec<Register> {
    let parts = match site.located.instruction.operand(1).map(|operand| operand.shape()) {
        Some(Shape::Vector(parts)) => parts,
        _ => return Vec::new(),
    };
    parts.filter_map(|part| graph.registers.resolve(part.name()?, site.located.id)).collect()
}

impl Accumulators {
    fn of(graph: &Graph<'_>) -> Accumulators {
        let mut found = Accumulators { set_of: FastMap::default(), count: 0 };
        for site in graph.sites.iter().filter(|site| is_mma(&site.operation)) {
            let written: Vec<Register> = graph.registers.written_by(&site.located).collect();
            let known = written.iter().find_map(|register| found.set_of.get(register).copied());
            let set = known.unwrap_or_else(|| {
                found.count = (found.count + 1).min(MAX_SETS);
                found.count - 1
            });
            for register in written {
                found.set_of.entry(register).or_insert(set);
            }
        }
        // Compilers copy results before they have waited for them; to read a register that holds nothing but copies is to read them.
        let moves: Vec<(Register, Register)> = graph
            .sites
            .iter()
            .filter(|site| site.located.instruction.mnemonic() == "mov")
            .filter_map(|site| {
                let mut uses = graph.registers.of(&site.located);
                let (to, from) = (uses.next()?, uses.next()?);
                (to.is_def && !from.is_def && uses.next().is_none()).then_some((to.register, from.register))
            })
            .collect();
        let mut writes: FastMap<Register, u32> = moves.iter().map(|(to, _)| (*to, 0)).collect();
        for register in graph.sites.iter().flat_map(|site| graph.registers.written_by(&site.located)) {
            writes.entry(register).and_modify(|count| *count += 1);
        }
        for _ in 0..MAX_COPIES {
            let mut copies: FastMap<Register, (usize, u32)> = FastMap::default();
            for (to, from) in moves.iter().filter(|(to, _)| !found.set_of.contains_key(to)) {
                if let Some(&set) = found.set_of.get(from) {
                    let (_, count) =
                        copies.entry(*to).and_modify(|(other, _)| *other = set.min(*other)).or_insert((set, 0));
                    *count += 1;
                }
            }
            let before = found.set_of.len();
            let whole = copies.into_iter().filter(|(to, (_, count))| writes.get(to) == Some(count));
            found.set_of.extend(whole.map(|(to, (set, _))| (to, set)));
            if found.set_of.len() == before {
                break;
            }
        }
        found
    }
}

/// The sets of registers of a multiplication.
#[derive(Clone, Copy, Default)]
struct Sets {
    /// Those that it writes.
    result: Option<usize>,
    /// Those that it reads A from.
    of_a: Option<usize>,
}

/// What an instruction does to the ages; a guarded one may do nothing.
fn step(site: &Site<'_>, set: Sets, ages: &mut [Age]) {
    let Operation::Wgmma(wgmma) = site.operation else { return };
    work::spend_on(ages.len() / 8);
    let guarded = site.located.instruction.guard().is_some();
    match wgmma {
        Wgmma::MmaAsync => {
            for set in [set.result, set.of_a].into_iter().flatten() {
                if let Some(age) = ages.get_mut(set) {
                    *age = OPEN;
                }
            }
        }
        Wgmma::CommitGroup if !guarded => {
            for age in ages.iter_mut().filter(|age| **age != DONE) {
                *age = age.saturating_sub(1).max(OPEN - MAX_GROUPS);
            }
        }
        Wgmma::WaitGroup(Some(left)) if !guarded => {
            let left = u8::try_from(left).unwrap_or(u8::MAX);
            for age in ages.iter_mut().filter(|age| **age <= COMMITTED.saturating_sub(left)) {
                *age = DONE;
            }
        }
        _ => {}
    }
}

/// Checks of wgmma.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let mut checks = Vec::new();
    if warps.graph.calls || !warps.graph.complete || !graph.sites.iter().any(|site| is_mma(&site.operation)) {
        return checks;
    }
    let accumulators = Accumulators::of(graph);
    let mut count = accumulators.count;
    let mut read: FastMap<Register, usize> = FastMap::default();
    // Results themselves, without copies of them.
    let mut made: FastMap<Register, usize> = FastMap::default();
    // The sets of each multiplication, by index.
    let mut sets: IndexVec<SiteId, Sets> = IndexVec::filled(Sets::default(), graph.sites.len());
    for (index, site) in graph.sites.iter_enumerated().filter(|(_, site)| is_mma(&site.operation)) {
        let written = graph.registers.written_by(&site.located).next();
        let result = written.and_then(|register| accumulators.set_of.get(&register).copied());
        made.extend(graph.registers.written_by(&site.located).filter_map(|register| Some((register, result?))));
        let of_a = registers_of_a(graph, site);
        let known = of_a.iter().find_map(|register| read.get(register).copied());
        let of_a = of_a.into_iter().fold(known, |set, register| {
            let set = set.unwrap_or_else(|| {
                count = (count + 1).min(2 * MAX_SETS);
                count - 1
            });
            read.entry(register).or_insert(set);
            Some(set)
        });
        if let Some(slot) = sets.get_mut(index) {
            *slot = Sets { result, of_a };
        }
    }
    let before = ages(graph, &sets, count);
    used(graph, &accumulators, &sets, &before, &mut checks);
    overwritten(graph, (&read, &made), &sets, &before, &mut checks);
    given_back(graph, &mut checks);
    checks
}

/// What may be on its way at the start of each block; none where no path leads.
fn ages(graph: &Graph<'_>, sets: &IndexVec<SiteId, Sets>, count: usize) -> IndexVec<BlockId, Option<Vec<Age>>> {
    let through = |block: BlockId, mut state: Vec<Age>| {
        work::spend_on(count / 8);
        for (index, site) in graph.sites_of(block) {
            step(site, sets.get(index).copied().unwrap_or_default(), &mut state);
        }
        state
    };
    let join = |there: &mut Vec<Age>, state: Vec<Age>| {
        there.iter_mut().zip(state).fold(false, |changed, (old, new)| {
            let younger = new > *old;
            *old = (*old).max(new);
            changed | younger
        })
    };
    let along = |_: BlockId, _: &Edge, state: &Vec<Age>| {
        work::spend_on(1 + count / 8);
        Some(state.clone())
    };
    dataflow::forward(graph, vec![DONE; count], through, along, join)
}

/// Results that are read while multiplications into them may be on their way.
fn used(
    graph: &Graph<'_>,
    accumulators: &Accumulators,
    sets: &IndexVec<SiteId, Sets>,
    before: &IndexVec<BlockId, Option<Vec<Age>>>,
    checks: &mut Vec<Finding>,
) {
    let mut told: FastSet<(usize, bool)> = FastSet::default();
    for (block, state) in before.iter_enumerated() {
        let Some(mut state) = state.clone() else { continue };
        work::spend_on(state.len() / 8);
        for (index, site) in graph.sites_of(block) {
            let set = sets.get(index).copied().unwrap_or_default();
            work::spend_on(state.len() / 8);
            let busy = state.iter().any(|age| *age != DONE);
            if busy
                && !matches!(site.operation, Operation::Wgmma(_))
                && site.located.instruction.mnemonic() != "mov"
                && let Some((set, age)) = graph
                    .registers
                    .of(&site.located)
                    .filter(|used| !used.is_def)
                    .filter_map(|used| accumulators.set_of.get(&used.register))
                    .filter_map(|set| Some((*set, *state.get(*set)?)))
                    .find(|(_, age)| *age != DONE)
                && told.insert((set, age == OPEN))
            {
                let mma = open_before(graph, sets, set, index);
                checks.push(match mma.filter(|_| age == OPEN) {
                    Some(mma) => likely(
                        Rule::WgmmaCommitted,
                        mma,
                        "wgmma.mma_async that no commit_group follows before its results are read",
                        "on some path its results are read while it belongs to no group: no wait covers it",
                    ),
                    None => likely(
                        Rule::WgmmaWaitedFor,
                        site,
                        "reads results of wgmma.mma_async that were not waited for",
                        "on some path to this line the group of these accumulators was committed and no wgmma.wait_group covers it",
                    ),
                });
            }
            step(site, set, &mut state);
        }
    }
}

/// Registers of A, or of results, that are written while a multiplication may still read or write them, on some path.
fn overwritten(
    graph: &Graph<'_>,
    (read, made): (&FastMap<Register, usize>, &FastMap<Register, usize>),
    sets: &IndexVec<SiteId, Sets>,
    before: &IndexVec<BlockId, Option<Vec<Age>>>,
    checks: &mut Vec<Finding>,
) {
    for (block, state) in before.iter_enumerated() {
        let Some(mut state) = state.clone() else { continue };
        work::spend_on(state.len() / 8);
        for (index, site) in graph.sites_of(block) {
            let is_busy = |register: Register| {
                let age = read.get(&register).and_then(|set| state.get(*set));
                age.is_some_and(|age| *age != DONE)
            };
            let counts = !matches!(site.operation, Operation::Wgmma(_));
            if counts && graph.registers.written_by(&site.located).any(is_busy) {
                checks.push(likely(
                    Rule::WgmmaWaitedFor,
                    site,
                    "writes registers that a wgmma.mma_async still reads A from",
                    "on some path to this line no wgmma.wait_group covers the multiplication that reads them",
                ));
                return;
            }
            let is_made = |register: Register| {
                let age = made.get(&register).and_then(|set| state.get(*set));
                age.is_some_and(|age| *age != DONE)
            };
            if counts && graph.registers.written_by(&site.located).any(is_made) {
                checks.push(likely(
                    Rule::WgmmaWaitedFor,
                    site,
                    "writes registers that a wgmma.mma_async still multiplies into",
                    "on some path to this line no wgmma.wait_group covers the multiplication that writes them",
                ));
                return;
            }
            step(site, sets.get(index).copied().unwrap_or_default(), &mut state);
        }
    }
}

/// The multiplication into a set that a path brings to a place with no commit between, nearest first.
fn open_before<'g, 'a>(
    graph: &'g Graph<'a>,
    sets: &IndexVec<SiteId, Sets>,
    set: usize,
    index: SiteId,
) -> Option<&'g Site<'a>> {
    let before = graph.predecessors();
    work::spend_on(graph.blocks.len() / 16);
    let mut seen = IndexVec::filled(false, graph.blocks.len());
    let mut open = std::collections::VecDeque::from([(graph.sites.get(index)?.block, Some(index))]);
    while let Some((at, until)) = open.pop_front() {
        work::spend(1);
        let mut committed = false;
        let sites: Vec<(SiteId, &Site<'a>)> =
            graph.sites_of(at).filter(|(index, _)| until.is_none_or(|until| *index < until)).collect();
        for (index, site) in sites.into_iter().rev() {
            if sets.get(index).is_some_and(|sets| sets.result == Some(set)) {
                return Some(site);
            }
            if matches!(site.operation, Operation::Wgmma(Wgmma::CommitGroup)) && site.guard.is_none() {
                committed = true;
                break;
            }
        }
        if committed {
            continue;
        }
        for &from in before.get(at)? {
            if !std::mem::replace(seen.get_mut(from)?, true) {
                open.push_back((from, None));
            }
        }
    }
    None
}

fn likely(rule: Rule, site: &Site<'_>, message: &str, reasoning: &str) -> Finding {
    let (line, message, reasoning) = (site.line(), message.to_owned(), reasoning.to_owned());
    Finding { rule, confidence: Confidence::Likely, line, message, reasoning }
}

/// A loop that commits multiplications and arrives at mbarriers, with no wait: whoever waits there may overwrite what they still read.
fn given_back(graph: &Graph<'_>, checks: &mut Vec<Finding>) {
    let commits = |site: &Site<'_>| matches!(site.operation, Operation::Wgmma(Wgmma::CommitGroup));
    let waits = |site: &Site<'_>| matches!(site.operation, Operation::Wgmma(Wgmma::WaitGroup(_)));
    let arrives = |site: &Site<'_>| match site.operation {
        Operation::Mbarrier(mbarrier) => mbarrier.action == MbarrierAction::Arrive,
        _ => false,
    };
    for (start, commit) in graph.sites.iter_enumerated().filter(|(_, site)| commits(site)).take(MAX_COMMITS) {
        // Blocks reached with and without an arrival on the way.
        work::spend_on(graph.blocks.len() / 16);
        let mut seen = [IndexVec::filled(false, graph.blocks.len()), IndexVec::filled(false, graph.blocks.len())];
        let mut open: Vec<(BlockId, SiteId, Option<SiteId>)> = vec![(commit.block, start.after(), None)];
        while let Some((at, from, mut arrived)) = open.pop() {
            work::spend(1);
            let mut closed = false;
            for (index, site) in graph.sites_of(at).filter(|(index, _)| *index >= from) {
                if index == start
                    && let Some(arrival) = arrived.and_then(|arrival| graph.sites.get(arrival))
                {
                    checks.push(likely(
                        Rule::WgmmaWaitedFor,
                        arrival,
                        "arrives at an mbarrier while wgmma groups pile up",
                        "a loop leads from this arrival to the next commit_group and back without a wgmma.wait_group: shared \
                         memory is given back while multiplications may still read it",
                    ));
                    return;
                }
                if waits(site) || index == start {
                    closed = true;
                    break;
                }
                if arrives(site) {
                    arrived = arrived.or(Some(index));
                }
            }
            if closed {
                continue;
            }
            for edge in graph.blocks.get(at).into_iter().flat_map(|block| &block.successors) {
                let seen = &mut seen[usize::from(arrived.is_some())];
                if !std::mem::replace(seen.get_mut(edge.to).unwrap_or(&mut true), true) {
                    open.push((edge.to, SiteId::FIRST, arrived));
                }
            }
        }
    }
}
