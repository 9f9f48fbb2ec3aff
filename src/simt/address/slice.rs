//! What an address depends on: the part of a kernel that is walked to find its places.

use std::rc::Rc;

use crate::base::{FastMap, IndexVec, work};
use crate::simt::address::bits::Bits;
use crate::simt::address::sets::Walker;
use crate::simt::eval::evaluate::Writer;
use crate::simt::eval::value::Value;
use crate::simt::ssa::construct::{Phi, ValueId};
use crate::simt::ssa::lowering::Step;
use crate::simt::{BlockId, Values};

/// Values that one address may depend on.
const MAX_VALUES: usize = Bits::ROOM;
/// Choices of numbers in one block.
const MAX_CHOICES: usize = 256;

/// Whether a value need not be looked into.
fn is_known(value: &Value) -> bool {
    match value {
        Value::Constant(_) | Value::Threads { .. } | Value::Addresses { .. } => true,
        Value::Address { offset, .. } => offset.is_some(),
        _ => false,
    }
}

/// What one address depends on.
pub(in crate::simt) struct AddressSlice<'w> {
    pub address: ValueId,
    /// Where it is asked for.
    pub home: BlockId,
    pub values: Vec<ValueId>,
    pub place: FastMap<ValueId, usize>,
    /// By block: the instructions that compute them, in order.
    pub steps: FastMap<BlockId, Vec<&'w Step>>,
    /// By block: where some of them meet.
    pub meets: FastMap<BlockId, Vec<&'w Phi>>,
    /// By block: the value of the predicate that it ends with, if that is one of them.
    pub decides: FastMap<BlockId, ValueId>,
    /// By block: those of `values` that are read there or later, as bits.
    pub live: IndexVec<BlockId, Bits>,
    /// Values that may be any of a few numbers, whatever they are computed from.
    pub free: FastMap<ValueId, Rc<[u64]>>,
}

impl AddressSlice<'_> {
    /// Where some of its values meet, in a block.
    pub fn meets_in(&self, block: BlockId) -> &[&Phi] {
        self.meets.get(&block).map_or(&[], Vec::as_slice)
    }

    fn numbers(&self, step: &Step) -> Option<(ValueId, &Rc<[u64]>)> {
        let to = step.destinations.first()?;
        Some((to.id, self.free.get(&to.id)?))
    }

    /// How many ways there are through a block for the choice of numbers that it makes.
    pub fn choices(&self, block: BlockId) -> usize {
        let steps = self.steps.get(&block).into_iter().flatten();
        let counts = steps.filter_map(|step| self.numbers(step)).map(|(_, numbers)| numbers.len());
        counts.fold(1, usize::saturating_mul)
    }

    /// What an instruction gives in one of these ways, where it makes a choice.
    pub fn choose(&self, step: &Step, choice: &mut usize) -> Option<(ValueId, u64)> {
        let (id, numbers) = self.numbers(step)?;
        let number = numbers.get(*choice % numbers.len().max(1)).copied()?;
        *choice /= numbers.len().max(1);
        Some((id, number))
    }
}

impl<'w> Walker<'w, '_> {
    pub(in crate::simt) fn is_known(&self, id: ValueId) -> bool {
        self.values.held.get(id).is_none_or(is_known)
    }

    /// What an address depends on that is not known. With `freely`, numbers of which little is known but their bounds are not looked into.
    pub(in crate::simt) fn question(
        &mut self,
        address: ValueId,
        home: BlockId,
        freely: bool,
    ) -> Option<AddressSlice<'w>> {
        let mut question = AddressSlice {
            address,
            home,
            values: Vec::new(),
            place: FastMap::default(),
            steps: FastMap::default(),
            meets: FastMap::default(),
            decides: FastMap::default(),
            live: IndexVec::default(),
            free: FastMap::default(),
        };
        self.gather(address, &mut question, freely)?;
        let leads = self.leads_to(home);
        let leads_home = |block: BlockId| leads.get(block).copied().unwrap_or(false);
        // Predicates that these decide alone decide where to go.
        for at in 0..self.predicates.len() {
            let Some(&(block, id)) = self.predicates.get(at).filter(|(block, _)| leads_home(*block)) else {
                continue;
            };
            if self.decided(id, &question, 0) {
                let known = question.values.len();
                if self.gather(id, &mut question, freely).is_some() {
                    question.decides.insert(block, id);
                    continue;
                }
                // There is no room for it: both ways are gone then.
                for id in question.values.drain(known..) {
                    question.place.remove(&id);
                    question.free.remove(&id);
                }
            }
        }
        let values: &'w Values = self.values;
        let mut computed: Vec<u32> = Vec::new();
        for id in &question.values {
            match self.values.writers.get(*id) {
                Some(Writer::Step(at)) => computed.push(*at),
                Some(Writer::Phi(at)) => {
                    let Some(phi) = values.ssa.phis.get(*at as usize) else { continue };
                    question.meets.entry(phi.block).or_default().push(phi);
                }
                _ => {}
            }
        }
        computed.sort_unstable();
        computed.dedup();
        for step in computed.into_iter().filter_map(|at| values.steps.get(at as usize)) {
            question.steps.entry(step.block).or_default().push(step);
        }
        if question.steps.keys().any(|block| question.choices(*block) > MAX_CHOICES) {
            return None;
        }
        question.live = self.live(&question, &leads);
        Some(question)
    }

    fn gather(&mut self, from: ValueId, question: &mut AddressSlice<'_>, freely: bool) -> Option<()> {
        let mut open = vec![from];
        while let Some(id) = open.pop() {
            work::spend(1);
            if self.is_known(id) || question.place.contains_key(&id) {
                continue;
            }
            if question.values.len() >= MAX_VALUES {
                return None;
            }
            question.place.insert(id, question.values.len());
            question.values.push(id);
            if freely && let Some(numbers) = self.bounds(id) {
                question.free.insert(id, numbers);
                continue;
            }
            match self.values.writers.get(id) {
                Some(Writer::Step(at)) => {
                    open.extend(self.values.steps.get(*at as usize).into_iter().flat_map(|step| step.depends()));
                }
                Some(Writer::Phi(at)) => {
                    let phi = self.values.ssa.phis.get(*at as usize);
                    open.extend(phi.into_iter().flat_map(|phi| &phi.from).map(|(.., id)| *id));
                }
                _ => {}
            }
        }
        Some(())
    }

    /// By block: the values of a question that are read there or later before they are written anew.
    fn live(&self, question: &AddressSlice<'_>, leads: &IndexVec<BlockId, bool>) -> IndexVec<BlockId, Bits> {
        let bit = |id: ValueId| question.place.get(&id).map_or(Bits::NONE, |place| Bits::one(*place));
        let blocks = &self.graph.blocks;
        let none: IndexVec<BlockId, Bits> = IndexVec::filled(Bits::NONE, blocks.len());
        let (mut reads, mut writes) = (none.clone(), none);
        let touched = question.steps.keys().chain(question.decides.keys()).chain([&question.home]);
        let leads_home = |at: BlockId| leads.get(at).copied().unwrap_or(false);
        for at in touched.copied().filter(|at| leads_home(*at)) {
            let (Some(reads), Some(writes)) = (reads.get_mut(at), writes.get_mut(at)) else {
                continue;
            };
            (*reads, *writes) = (Bits::NONE, Bits::NONE);
            for step in question.steps.get(&at).into_iter().flatten() {
                *reads |= step.depends().iter().fold(Bits::NONE, |all, id| all | bit(*id)) & !*writes;
                *writes |= step.destinations.iter().fold(Bits::NONE, |all, to| all | bit(to.id));
            }
            let decides = question.decides.get(&at).map_or(Bits::NONE, |id| bit(*id));
            *reads |= (decides | if at == question.home { bit(question.address) } else { Bits::NONE }) & !*writes;
        }
        let mut live = reads.clone();
        // Whoever goes elsewhere does not come to the address.
        let mut open: Vec<BlockId> = leads.ids().filter(|at| leads_home(*at)).collect();
        while let Some(at) = open.pop() {
            work::spend(1);
            let Some(block) = blocks.get(at) else { continue };
            let mut after = Bits::NONE;
            for (way, edge) in block.successors.iter().enumerate() {
                let mut there = live.get(edge.to).copied().unwrap_or(Bits::NONE);
                for phi in question.meets_in(edge.to) {
                    if there & bit(phi.id) == Bits::NONE {
                        continue;
                    }
                    there = there & !bit(phi.id);
                    let coming = phi.from.iter().find(|(block, by, _)| (*block, *by) == (at, way));
                    after |= coming.map_or(Bits::NONE, |(.., id)| bit(*id));
                }
                after |= there;
            }
            let (Some(slot), Some(reads), Some(writes)) = (live.get_mut(at), reads.get(at), writes.get(at)) else {
                continue;
            };
            let now = *reads | after & !*writes;
            if now != *slot {
                *slot = now;
                open.extend(self.before.get(at).into_iter().flatten());
            }
        }
        live
    }

    /// Whether nothing has a part in a value that a question does not have anyway.
    fn decided(&self, id: ValueId, question: &AddressSlice<'_>, depth: u32) -> bool {
        if self.is_known(id) || question.place.contains_key(&id) {
            return true;
        }
        let Some(Writer::Step(at)) = self.values.writers.get(id) else { return false };
        let sources = self.values.steps.get(*at as usize).map_or(&[][..], |step| step.depends());
        depth < 8
            && !sources.is_empty()
            && sources.iter().all(|source| *source != id && self.decided(*source, question, depth + 1))
    }
}
