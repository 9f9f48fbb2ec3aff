//! Which space an address is of: the variable or the conversion that it starts from.

use crate::ptx::{Operand, StateSpace};
use crate::simt::eval::evaluate::{Values, Writer};
use crate::simt::eval::value::Value;
use crate::simt::graph::{Graph, SiteId};
use crate::simt::ssa::construct::ValueId;
use crate::simt::ssa::lowering::{Compute, Source};

/// Instructions back from an address, on all ways together.
const MAX_STEPS: u32 = 48;

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
