//! Which definition of a register an instruction reads.
//!
//! A register that is written once has one value. One that is written in several places has a value for each, and one for each
//! block in which different ones meet.

use std::collections::BTreeSet;

use crate::base::{FastMap, Id, IndexVec, dense_id, work};
use crate::ptx::Register;
use crate::simt::BlockId;
use crate::simt::graph::{Graph, SiteId};
use crate::simt::ssa::slice::{Numbers, Slice};

/// Registers times blocks that are followed; beyond it a register has one value, whatever the place.
const MAX_STATES: usize = 1 << 23;

/// A value in the sense of SSA: one definition of a register, or a phi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

impl ValueId {
    /// What a register holds before its first definition.
    pub(in crate::simt) const NEVER: ValueId = ValueId(0);
    /// No definition has been seen.
    const UNSET: ValueId = ValueId(u32::MAX);
}

dense_id!(ValueId);

/// A register of the slice that has no place in a list.
const NOWHERE: u32 = u32::MAX;

/// Block, way out of it and value that comes along it.
pub(in crate::simt) type Coming = (BlockId, usize, ValueId);

/// A block in which values of a register meet.
#[derive(Clone, Debug)]
pub(in crate::simt) struct Phi {
    /// What is read after it.
    pub id: ValueId,
    /// The block.
    pub block: BlockId,
    /// Block, way out of it and value that comes along it.
    pub from: Vec<Coming>,
}

/// What an instruction does to a register: place among those with several values, and the value it writes or none for a read.
type Touch = (SiteId, u32, Option<ValueId>);

/// Values of the registers that an evaluation asks about.
#[derive(Clone, Debug, Default)]
pub(in crate::simt) struct Ssa {
    numbers: Numbers,
    /// By number of the register; `UNSET` for one with several and for one that is not followed.
    single: Vec<ValueId>,
    /// Instruction, number of the register, value: sorted.
    reads: Vec<(SiteId, u32, ValueId)>,
    writes: Vec<(SiteId, u32, ValueId)>,
    /// Where values meet, by block.
    pub phis: Vec<Phi>,
    /// How many there are.
    pub count: usize,
}

fn find(list: &[(SiteId, u32, ValueId)], index: SiteId, number: u32) -> Option<ValueId> {
    let at = list.binary_search_by_key(&(index, number), |(index, number, _)| (*index, *number)).ok()?;
    list.get(at).map(|(_, _, id)| *id)
}

impl Ssa {
    /// The value that an instruction reads.
    pub fn read(&self, index: SiteId, register: Register) -> Option<ValueId> {
        self.read_number(index, self.numbers.get(register)?)
    }

    /// The value that an instruction reads of a register by its number.
    pub fn read_number(&self, index: SiteId, number: u32) -> Option<ValueId> {
        match self.single.get(number as usize).copied().unwrap_or(ValueId::UNSET) {
            ValueId::UNSET => find(&self.reads, index, number),
            id => Some(id),
        }
    }

    /// The value that an instruction writes of a register by its number.
    pub fn write_number(&self, index: SiteId, number: u32) -> Option<ValueId> {
        match self.single.get(number as usize).copied().unwrap_or(ValueId::UNSET) {
            ValueId::UNSET => find(&self.writes, index, number),
            id => Some(id),
        }
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.count as u32).map(ValueId)
    }

    /// A value that nobody has.
    fn next(&mut self) -> ValueId {
        let id = ValueId(self.count as u32);
        self.count += 1;
        id
    }

    /// Whether a register has more values than one.
    pub fn is_several(&self, number: u32) -> bool {
        self.single.get(number as usize).copied().unwrap_or(ValueId::UNSET) == ValueId::UNSET
    }

    /// The register that a number stands for.
    pub fn register(&self, number: u32) -> Option<Register> {
        self.numbers.register(number)
    }

    /// The number of a register.
    pub fn number(&self, register: Register) -> Option<u32> {
        self.numbers.get(register)
    }

    /// Follows the registers of a slice through the blocks.
    pub fn build(graph: &Graph<'_>, slice: &mut Slice) -> Ssa {
        let count = slice.numbers.len();
        let mut found = Ssa { count: 1, single: vec![ValueId::UNSET; count], ..Ssa::default() };
        let wanted = |number: &u32| slice.wanted.get(*number as usize).copied().unwrap_or(false);
        let is_several = |number: &u32| slice.written.get(*number as usize).is_some_and(|written| *written > 1);
        let mut several: Vec<u32> = (0..count as u32).filter(|number| wanted(number) && is_several(number)).collect();
        if several.len().saturating_mul(graph.blocks.len()) > MAX_STATES {
            several.clear();
        }
        let mut place = vec![NOWHERE; count];
        for (at, number) in several.iter().enumerate() {
            place[*number as usize] = at as u32;
        }
        for number in (0..count as u32).filter(wanted) {
            if place[number as usize] == NOWHERE {
                found.single[number as usize] = found.next();
            }
        }
        if !several.is_empty() {
            found.follow(graph, slice, &several, &place);
        }
        found.numbers = std::mem::take(&mut slice.numbers);
        found
    }

    /// What each block reads and writes of registers with several values, in order.
    fn touches(&mut self, graph: &Graph<'_>, slice: &Slice, place: &[u32]) -> IndexVec<BlockId, Vec<Touch>> {
        let mut touched: IndexVec<BlockId, Vec<Touch>> = IndexVec::filled(Vec::new(), graph.blocks.len());
        let place_of = |number: u32| place.get(number as usize).copied().filter(|at| *at != NOWHERE);
        let mut observed = slice.observed().peekable();
        for (index, site) in graph.sites.iter_enumerated() {
            let uses = observed.next_if(|(at, _)| *at == index).map_or(&[][..], |(_, uses)| uses);
            let Some(block) = touched.get_mut(site.block) else { continue };
            let guard = site.guard.and_then(|(register, _)| slice.numbers.get(register));
            // What a guarded write keeps is read as well.
            for number in uses.iter().map(|used| used.number).chain(guard) {
                if let Some(at) = place_of(number) {
                    block.push((index, at, None));
                }
            }
            for used in uses.iter().filter(|used| used.is_def) {
                if let Some(at) = place_of(used.number) {
                    let id = self.next();
                    block.push((index, at, Some(id)));
                    self.writes.push((index, used.number, id));
                }
            }
        }
        self.writes.sort_by_key(|(index, number, _)| (*index, *number));
        touched
    }

    fn follow(&mut self, graph: &Graph<'_>, slice: &Slice, several: &[u32], place: &[u32]) {
        let touched = self.touches(graph, slice, place);
        let width = several.len();
        let mut at_entry: Vec<ValueId> = vec![ValueId::UNSET; width * graph.blocks.len()];
        let mut meets: FastMap<(BlockId, u32), ValueId> = FastMap::default();
        let row = |block: BlockId| block.index() * width..(block.index() + 1) * width;
        if let Some(first) = at_entry.get_mut(row(Graph::ENTRY)) {
            first.fill(ValueId::NEVER);
        }
        let after = |state: &mut Vec<ValueId>, entry: &[ValueId], block: BlockId| {
            state.clear();
            state.extend_from_slice(entry);
            for (_, at, id) in touched.get(block).into_iter().flatten() {
                if let (Some(id), Some(slot)) = (id, state.get_mut(*at as usize)) {
                    *slot = *id;
                }
            }
        };
        let mut exit: Vec<ValueId> = Vec::with_capacity(width);
        // Text order first: what comes before is mostly known then.
        let mut open = BTreeSet::from([Graph::ENTRY]);
        while let Some(block) = open.pop_first() {
            let ways = graph.blocks.get(block).map_or(0, |block| block.successors.len());
            work::spend_on((1 + ways) * (1 + width / 4));
            let Some(entry) = at_entry.get(row(block)) else { continue };
            after(&mut exit, entry, block);
            let Some(info) = graph.blocks.get(block) else { continue };
            for edge in &info.successors {
                let Some(there) = at_entry.get_mut(row(edge.to)) else { continue };
                let mut changed = false;
                for (at, (slot, &coming)) in there.iter_mut().zip(&exit).enumerate() {
                    if *slot == coming || coming == ValueId::UNSET || meets.get(&(edge.to, at as u32)) == Some(slot) {
                        continue;
                    }
                    changed = true;
                    if *slot == ValueId::UNSET {
                        *slot = coming;
                    } else {
                        *slot = self.next();
                        meets.insert((edge.to, at as u32), *slot);
                    }
                }
                if changed {
                    open.insert(edge.to);
                }
            }
        }
        for block in graph.blocks.ids() {
            exit.clear();
            exit.extend_from_slice(at_entry.get(row(block)).unwrap_or(&[]));
            for (index, at, id) in touched.get(block).into_iter().flatten() {
                let (Some(slot), Some(number)) = (exit.get_mut(*at as usize), several.get(*at as usize)) else {
                    continue;
                };
                match id {
                    Some(id) => *slot = *id,
                    None if *slot != ValueId::UNSET => self.reads.push((*index, *number, *slot)),
                    None => {}
                }
            }
        }
        self.reads.sort_unstable();
        self.reads.dedup();
        self.phis = self.phis_of(graph, meets, |state, block| {
            after(state, at_entry.get(row(block)).unwrap_or(&[]), block);
        });
    }

    /// Every phi with what comes to it.
    fn phis_of(
        &self,
        graph: &Graph<'_>,
        meets: FastMap<(BlockId, u32), ValueId>,
        leaves: impl Fn(&mut Vec<ValueId>, BlockId),
    ) -> Vec<Phi> {
        let mut sorted: Vec<(BlockId, u32, ValueId)> =
            meets.into_iter().map(|((block, at), met)| (block, at, met)).collect();
        sorted.sort_unstable();
        let mut found: Vec<Phi> = sorted.iter().map(|&(block, _, id)| Phi { id, block, from: Vec::new() }).collect();
        let within = |block: BlockId| {
            let start = sorted.partition_point(|(other, ..)| *other < block);
            start..start + sorted[start..].iter().take_while(|(other, ..)| *other == block).count()
        };
        let mut exit = Vec::new();
        for (block, info) in graph.blocks.iter_enumerated() {
            if info.successors.iter().all(|edge| within(edge.to).is_empty()) {
                continue;
            }
            leaves(&mut exit, block);
            for (way, edge) in info.successors.iter().enumerate() {
                for index in within(edge.to) {
                    work::spend(1);
                    let Some(&id) = exit.get(sorted[index].1 as usize) else { continue };
                    if id != ValueId::UNSET {
                        found[index].from.push((block, way, id));
                    }
                }
            }
        }
        found.iter_mut().for_each(|phi| phi.from.shrink_to_fit());
        found.sort_by_key(|phi| (phi.block, phi.id));
        found
    }
}
