//! Which space an address is of: the variable or the conversion that it starts from.

use crate::ptx::{Operand, StateSpace};
use crate::simt::eval::evaluate::{Values, Writer};
use crate::simt::eval::number::Arithmetic;
use crate::simt::eval::value::Value;
use crate::simt::graph::{Graph, SiteId};
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Source};

/// Instructions back from an address, on all ways together.
const MAX_STEPS: u32 = 48;
/// Instructions that take an address apart.
const MAX_HALVES: usize = 4;

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A variable, or `cvta.to`: an address in this space.
    In(StateSpace),
    /// `cvta`: a generic address, made of one in this space.
    Generic(StateSpace),
    /// `mapa.shared::cluster`: the shared memory of another block.
    Mapped,
}

impl Values {
    /// What an address, or a register that holds one, starts from; none where that is not known.
    pub fn root(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<Root> {
        let name = operand.address().map_or(operand.name(), |address| address.base)?;
        let register = graph.registers.resolve(name, graph.sites.get(index)?.located.id);
        let Some(register) = register else {
            let variable = self.operand(graph, index, operand).variable()?;
            return self.declared.get(variable as usize)?.space.map(Root::In);
        };
        self.root_of(graph, self.ssa.read(index, register)?, &mut { MAX_STEPS })
    }

    fn root_of(&self, graph: &Graph<'_>, id: ValueId, steps: &mut u32) -> Option<Root> {
        *steps = steps.checked_sub(1)?;
        let step = match self.writers.get(id)? {
            Writer::Step(_) => self.writer(id)?,
            Writer::Phi(at) => {
                let phi = self.ssa.phis.get(*at as usize)?;
                let mut roots = phi.from.iter().filter(|(.., from)| *from != id);
                let first = roots.next().and_then(|(.., from)| self.root_of(graph, *from, steps))?;
                // A loop that adds to an address comes back to itself.
                let same = roots.all(|(.., from)| self.root_of(graph, *from, steps).is_none_or(|root| root == first));
                return same.then_some(first);
            }
            _ => return None,
        };
        let instruction = graph.sites.get(step.index)?.located.instruction;
        let named = || instruction.modifiers().find_map(space);
        let mut of = |at: usize| match step.arguments.get(at)? {
            Source::Known(value) => self.space_of(value).map(Root::In),
            Source::Value(Some(from)) => self.root_of(graph, *from, steps),
            _ => None,
        };
        match (instruction.mnemonic(), step.compute) {
            ("cvta", _) if instruction.has("to") => named().map(Root::In),
            ("cvta", _) => named().map(Root::Generic),
            ("mapa", _) if named().is_some() => Some(Root::Mapped),
            ("mapa", _) => None,
            (_, Compute::Move | Compute::Convert { .. }) => of(0),
            (_, Compute::Add { subtract: false, .. }) => match (of(0), of(1)) {
                (Some(root), None) | (None, Some(root)) => Some(root),
                _ => None,
            },
            (_, Compute::Add { subtract: true, .. } | Compute::Arithmetic { .. }) => of(0),
            (_, Compute::Multiply { adds: true, .. }) => of(2),
            (_, Compute::Shuffle) => of(0),
            _ => None,
        }
    }

    /// Whether an address may be one that `mapa` has made: on one of the ways that lead here, or in a turn of a loop before.
    pub fn may_be_mapped(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> bool {
        let value = || {
            let register = graph.registers.resolve(operand.name()?, graph.sites.get(index)?.located.id)?;
            self.ssa.read(index, register)
        };
        let mut open: Vec<ValueId> = value().into_iter().collect();
        let mut seen: Vec<ValueId> = Vec::new();
        while let Some(id) = open.pop() {
            if seen.len() >= MAX_STEPS as usize {
                return false;
            }
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            match self.writers.get(id) {
                Some(Writer::Phi(at)) => {
                    let phi = self.ssa.phis.get(*at as usize);
                    open.extend(phi.into_iter().flat_map(|phi| &phi.from).map(|(.., from)| *from));
                }
                Some(Writer::Step(_)) => {
                    let Some(step) = self.writer(id) else { continue };
                    let site = graph.sites.get(step.index);
                    if site.is_some_and(|site| site.located.instruction.mnemonic() == "mapa") {
                        return true;
                    }
                    let goes_on = matches!(step.compute, Compute::Move | Compute::Add { .. } | Compute::Select);
                    let arguments = step.arguments.iter().filter(|_| goes_on);
                    open.extend(arguments.filter_map(|from| match from {
                        Source::Value(Some(from)) => Some(*from),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        false
    }

    /// Whether a register holds an address in local memory, generic or not, or a half of one.
    pub fn is_local(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> bool {
        let is =
            |root: Option<Root>| matches!(root, Some(Root::In(StateSpace::Local) | Root::Generic(StateSpace::Local)));
        if is(self.root(graph, index, operand)) {
            return true;
        }
        let whole = || {
            let register = graph.registers.resolve(operand.name()?, graph.sites.get(index)?.located.id)?;
            let mut id = self.ssa.read(index, register)?;
            for _ in 0..MAX_HALVES {
                let step = self.writer(id)?;
                let Some(Source::Value(Some(from))) = step.arguments.first() else { return None };
                id = *from;
                let is_half = matches!(step.compute, Compute::Unpack | Compute::Convert { .. })
                    || matches!(step.compute, Compute::Arithmetic { what: Arithmetic::ShiftRight, .. });
                if is_half {
                    let root = self.root_of(graph, id, &mut { MAX_STEPS });
                    if is(root) {
                        return root;
                    }
                } else if !matches!(step.compute, Compute::Move) {
                    return None;
                }
            }
            None
        };
        is(whole())
    }

    /// The parameter that a pointer or a handle is handed over in: the variable, and where in it; none where that is not known.
    pub fn parameter(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<(u32, i64)> {
        let name = operand.address().map_or(operand.name(), |address| address.base)?;
        let register = graph.registers.resolve(name, graph.sites.get(index)?.located.id)?;
        self.parameter_of(self.ssa.read(index, register)?, &mut { MAX_STEPS })
    }

    fn parameter_of(&self, id: ValueId, steps: &mut u32) -> Option<(u32, i64)> {
        *steps = steps.checked_sub(1)?;
        let step = match self.writers.get(id)? {
            Writer::Step(_) => self.writer(id)?,
            Writer::Phi(at) => {
                let phi = self.ssa.phis.get(*at as usize)?;
                let mut coming = phi.from.iter().filter(|(.., from)| *from != id);
                let first = coming.next().and_then(|(.., from)| self.parameter_of(*from, steps))?;
                // A loop that adds to a pointer comes back to itself.
                let is_same =
                    |from: ValueId, steps: &mut u32| self.parameter_of(from, steps).is_none_or(|other| other == first);
                return coming.all(|(.., from)| is_same(*from, steps)).then_some(first);
            }
            _ => return None,
        };
        let mut of = |at: usize| match step.arguments.get(at)? {
            Source::Value(Some(from)) => self.parameter_of(*from, steps),
            _ => None,
        };
        match step.compute {
            Compute::Load { bytes: 8 } => {
                let Some(Source::Address(base, Some(offset))) = step.arguments.first() else { return None };
                let Source::Known(Value::Address { variable, offset: Some(start) }) = &**base else { return None };
                let is_parameter = self.declared.get(*variable as usize)?.space == Some(StateSpace::Param);
                is_parameter.then_some((*variable, start.checked_add(*offset)?))
            }
            Compute::Move => of(0),
            Compute::Add { subtract: false, .. } => match (of(0), of(1)) {
                (Some(found), None) | (None, Some(found)) => Some(found),
                _ => None,
            },
            Compute::Add { subtract: true, .. } => of(0),
            Compute::Multiply { adds: true, .. } => of(2),
            _ => None,
        }
    }

    /// The numbers that a register holds on some way, or by some choice, where they stand in the text.
    pub fn numbers(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Vec<u64> {
        let mut found = Vec::new();
        let value = || {
            let register = graph.registers.resolve(operand.name()?, graph.sites.get(index)?.located.id)?;
            self.ssa.read(index, register)
        };
        let (mut open, mut seen) = (Vec::from_iter(value()), Vec::new());
        while let Some(id) = open.pop() {
            if seen.contains(&id) || seen.len() >= MAX_STEPS as usize {
                continue;
            }
            seen.push(id);
            match self.writers.get(id) {
                Some(Writer::Phi(at)) => {
                    let phi = self.ssa.phis.get(*at as usize);
                    open.extend(phi.into_iter().flat_map(|phi| &phi.from).map(|(.., from)| *from));
                }
                Some(Writer::Step(_)) => {
                    let Some(step) = self.writer(id) else { continue };
                    let chosen = match step.compute {
                        Compute::Move => 1,
                        Compute::Select => 2,
                        _ => continue,
                    };
                    for source in step.arguments.iter().take(chosen) {
                        match source {
                            Source::Known(Value::Constant(number)) => found.push(*number),
                            Source::Value(Some(from)) => open.push(*from),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn space_of(&self, value: &Value) -> Option<StateSpace> {
        self.declared.get(value.variable()? as usize)?.space
    }
}

fn space(word: &str) -> Option<StateSpace> {
    Some(match word.split("::").next().unwrap_or(word) {
        "shared" => StateSpace::Shared,
        "global" => StateSpace::Global,
        "const" => StateSpace::Const,
        "local" => StateSpace::Local,
        "param" => StateSpace::Param,
        _ => return None,
    })
}
