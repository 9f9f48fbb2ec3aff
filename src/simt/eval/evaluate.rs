//! Registers evaluated: constants, thread ids and what is computed from them, addresses of variables.
//!
//! What a register holds is told for each of its values (`construct.rs`): what all ways to it have in common, thread by thread
//! where the branches tell who comes along which. What a loop counts is unknown.

use std::collections::{BTreeSet, HashMap};

use crate::base::{FastMap, IndexVec, work};
use crate::ptx::{
    Declaration, Declarator, Function, Linkage, Module, Operand, Operation, Register, StateSpace, StatementId, Tcgen05,
};
use crate::simt::BlockSize;
use crate::simt::eval::memory::Cells;
use crate::simt::eval::solve::{Before, Solver};
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::{Graph, SiteId};
use crate::simt::reachability::Reach;
use crate::simt::ssa::construct::{Ssa, ValueId};
use crate::simt::ssa::lowering::{Compute, Lowering, Source, Step};
use crate::simt::ssa::slice::{Scope, Slice};
use crate::simt::ssa::value_numbering::{self, Origins};

/// Shared variables of a module up to which all are known to each of its functions; of more, those that it names.
const FEW_NAMES: usize = 64;
/// What a `.ptr` without an alignment promises (PTX ISA, "Kernel Parameter Attributes: .ptr").
const POINTED: u64 = 4;
/// Instructions between a mapa and the use of its address.
const MAX_MOVES: usize = 8;

/// What writes a value.
#[derive(Clone, Copy)]
pub(in crate::simt) enum Writer {
    Nobody,
    Step(u32),
    Phi(u32),
    Several,
}

/// By value: what writes it.
fn writers(steps: &[Step], ssa: &Ssa) -> IndexVec<ValueId, Writer> {
    let mut writers = IndexVec::filled(Writer::Nobody, ssa.count);
    for (at, step) in (0u32..).zip(steps) {
        for to in &step.destinations {
            if let Some(writer) = writers.get_mut(to.id) {
                *writer = if to.alone { Writer::Step(at) } else { Writer::Several };
            }
        }
    }
    for (at, phi) in (0u32..).zip(&ssa.phis) {
        if let Some(writer) = writers.get_mut(phi.id) {
            *writer = Writer::Phi(at);
        }
    }
    writers
}

/// The shared variables outside of functions that a function may name.
fn shared<'a>(module: &Module<'a>, graph: &Graph<'_>) -> Vec<Declaration<'a>> {
    if module.shared_names() <= FEW_NAMES {
        return module.variables().filter(|declaration| declaration.space == StateSpace::Shared).collect();
    }
    let names = graph.sites.iter().flat_map(|site| site.located.instruction.names());
    let named: BTreeSet<StatementId> = names.filter_map(|used| module.shared(used.name)).collect();
    let statements = named.into_iter().filter_map(|id| module.statement(id));
    statements.filter_map(|statement| statement.declaration(module.text())).collect()
}

/// Where a variable lives, and how much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its state space; none for tensor memory.
    pub space: Option<StateSpace>,
    /// Bytes that its address is a multiple of.
    pub align: u64,
    /// Its bytes; none where the launch or another module decides.
    pub bytes: Option<u64>,
    /// Whether the launch decides: dynamic shared memory.
    pub is_dynamic: bool,
    /// What a parameter that is a pointer says that it points to is aligned to; none where it says nothing.
    pub points_to: Option<u64>,
}

impl Declared {
    fn of(declaration: &Declaration<'_>, declarator: &Declarator<'_>) -> Declared {
        let natural = declaration.element_bytes().filter(|bytes| bytes.is_power_of_two()).unwrap_or(1);
        let align = declaration.align.map_or(natural, u64::from);
        let is_elsewhere = matches!(declaration.linkage, Some(Linkage::Extern | Linkage::Common | Linkage::Weak));
        let bytes = declaration.bytes(declarator).filter(|bytes| *bytes > 0);
        Declared {
            space: Some(declaration.space),
            align: if align.is_power_of_two() { align } else { 1 },
            bytes: bytes.filter(|_| !is_elsewhere),
            is_dynamic: declaration.space == StateSpace::Shared
                && declaration.linkage == Some(Linkage::Extern)
                && bytes.is_none(),
            points_to: declaration.pointer.and_then(|pointer| match pointer.align {
                None => Some(POINTED),
                // Compilers write it of every pointer, whatever they know.
                Some(1) => None,
                Some(align) => Some(u64::from(align)),
            }),
        }
    }
}

/// Variables of a kernel that are not in shared memory: of its module where these are few, its own, and its parameters.
fn beside_shared<'a>(function: &Function<'_, 'a>) -> Vec<Declaration<'a>> {
    let is_other = |declaration: &Declaration<'_>| declaration.space != StateSpace::Shared;
    let mut found: Vec<Declaration<'a>> = function.header().params().collect();
    for space in [StateSpace::Local, StateSpace::Const, StateSpace::Global] {
        found.extend(function.declarations(space).map(|(_, declaration)| declaration));
    }
    found.extend(function.module().variables().filter(is_other).take(FEW_NAMES));
    found
}

/// What registers hold.
pub struct Values {
    pub(in crate::simt) ssa: Ssa,
    pub(in crate::simt) held: IndexVec<ValueId, Value>,
    /// By value: the one that it is so many bytes away from, in this block of the cluster or another.
    origins: Origins,
    /// The instructions that were evaluated.
    pub(in crate::simt) steps: Vec<Step>,
    /// By value: what writes it.
    pub(in crate::simt) writers: IndexVec<ValueId, Writer>,
    pub(in crate::simt) size: Option<BlockSize>,
    /// Of the variables, in bytes.
    pub(in crate::simt) alignments: Vec<u64>,
    /// Variables that addresses speak of.
    pub variables: Vec<String>,
    /// What is known of each.
    pub declared: Vec<Declared>,
    /// Variables that stand for tensor memory, and the instruction that allocates each.
    pub allocations: Vec<(u32, SiteId)>,
    /// Where each is among them.
    variable_numbers: FastMap<String, u32>,
    /// Whether a load from shared memory was taken to give what constant stores left there.
    pub by_memory: bool,
}

impl Values {
    /// What a register holds when an instruction reads it.
    pub fn at(&self, index: SiteId, register: Register) -> &Value {
        work::spend(1);
        let id = self.ssa.read(index, register);
        id.and_then(|id| self.held.get(id)).unwrap_or(&Value::Unknown(Variation::Lane))
    }

    /// What an operand is: a number, a register, a variable, or an address of these.
    pub fn operand(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Value {
        work::spend(1);
        if let Some(address) = operand.address() {
            let base = match address.base {
                Some(name) => self.name(graph, index, name),
                None => Value::Constant(0),
            };
            return match (base.shifted(address.offset), base, address.offset) {
                (Some(place), ..) => place,
                (None, Value::Constant(base), Some(added)) => Value::Constant(base.wrapping_add_signed(added)),
                (None, other, _) => Value::Unknown(other.variation()),
            };
        }
        if let Some(value) = operand.value() {
            return Value::Constant(value as u64);
        }
        match operand.name() {
            Some(name) => self.name(graph, index, name),
            None => Value::Unknown(Variation::Lane),
        }
    }

    /// What tells whether two instructions have the same address, known or not: the value of its register, and what is added. Blocks of
    /// a cluster have the same.
    pub fn identity(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<(ValueId, i64)> {
        let (id, added) = self.address(graph, index, operand)?;
        let (origin, by) = self.origins.get(id).copied().unwrap_or((id, 0));
        Some((origin, by.checked_add(added?)?))
    }

    /// The same of a register that an instruction reads.
    pub fn origin(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<(ValueId, i64)> {
        let register = graph.registers.resolve(operand.text(), graph.sites.get(index)?.located.id)?;
        let id = self.ssa.read(index, register)?;
        Some(self.origins.get(id).copied().unwrap_or((id, 0)))
    }

    /// The value of the register that an instruction has an address in, and what is added to it.
    pub(in crate::simt) fn address(
        &self,
        graph: &Graph<'_>,
        index: SiteId,
        operand: Operand<'_>,
    ) -> Option<(ValueId, Option<i64>)> {
        let address = operand.address()?;
        let register = graph.registers.resolve(address.base?, graph.sites.get(index)?.located.id)?;
        Some((self.ssa.read(index, register)?, address.offset))
    }

    /// The block of the cluster that an address is in, where `mapa` says it.
    pub fn rank(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<&Value> {
        match self.mapped(graph, index, operand)? {
            Source::Known(rank) => Some(rank),
            Source::Value(Some(rank)) => self.held.get(*rank),
            _ => None,
        }
    }

    /// Whether an address is in this block of the cluster, for `mapa` was given its own number.
    pub fn is_own(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> bool {
        let mut source = self.mapped(graph, index, operand);
        for _ in 0..MAX_MOVES {
            source = match source {
                Some(Source::OwnRank) => return true,
                Some(Source::Value(Some(id))) => match self.writer(*id) {
                    Some(step) if matches!(step.compute, Compute::Move) => step.arguments.first(),
                    _ => None,
                },
                _ => None,
            };
        }
        false
    }

    /// What `mapa` made an address with.
    fn mapped(&self, graph: &Graph<'_>, index: SiteId, operand: Operand<'_>) -> Option<&Source> {
        let (mut id, _) = self.address(graph, index, operand)?;
        for _ in 0..MAX_MOVES {
            let step = self.writer(id)?;
            match (step.compute, step.arguments.first()) {
                (Compute::Mapa, _) => return step.arguments.get(1),
                (Compute::Move | Compute::Add { .. }, Some(Source::Value(Some(from)))) => id = *from,
                _ => return None,
            }
        }
        None
    }

    /// The instruction that alone writes a value.
    pub(in crate::simt) fn writer(&self, id: ValueId) -> Option<&Step> {
        let Writer::Step(at) = self.writers.get(id)? else { return None };
        let step = self.steps.get(*at as usize)?;
        // What is written once, under a guard, is what is read wherever it is defined at all.
        let replaced = step.guard.is_some() && step.destinations.iter().any(|to| to.is_several);
        (!replaced).then_some(step)
    }

    /// The instruction that alone writes what another one reads of a register.
    pub fn maker(&self, index: SiteId, register: Register) -> Option<SiteId> {
        self.writer(self.ssa.read(index, register)?).map(|step| step.index)
    }

    /// The register that a `brx.idx` chooses by.
    pub(in crate::simt) fn index_register(&self, graph: &Graph<'_>, index: SiteId) -> Option<Register> {
        let site = graph.sites.get(index)?;
        let Operation::IndexedBranch { index: Some(operand), .. } = site.operation else { return None };
        graph.registers.resolve(operand.name()?, site.located.id)
    }

    fn name(&self, graph: &Graph<'_>, index: SiteId, name: &str) -> Value {
        let id = graph.sites.get(index).map(|site| site.located.id);
        if let Some(register) = id.and_then(|id| graph.registers.resolve(name, id)) {
            return self.at(index, register).clone();
        }
        match self.variable_numbers.get(name) {
            Some(&variable) => Value::Address { variable, offset: Some(0) },
            None => Value::Unknown(Variation::Block),
        }
    }

    /// Evaluates what branches, guards and the instructions that analyses ask about depend on, and who gets where.
    pub fn solve(
        function: &Function<'_, '_>,
        graph: &Graph<'_>,
        size: Option<BlockSize>,
        scope: Scope,
    ) -> (Values, Reach) {
        let mut variables: Vec<String> = Vec::new();
        let mut names = HashMap::new();
        let local = function.declarations(StateSpace::Shared).map(|(_, declaration)| declaration);
        let mut alignments: Vec<u64> = Vec::new();
        let mut declared: Vec<Declared> = Vec::new();
        let others = if scope == Scope::Operands { beside_shared(function) } else { Vec::new() };
        for declaration in local.chain(shared(function.module(), graph)).chain(others) {
            for declarator in declaration.names() {
                names.entry(declarator.name).or_insert_with(|| {
                    variables.push(declarator.name.to_owned());
                    alignments.push(u64::from(declaration.align.filter(|align| align.is_power_of_two()).unwrap_or(1)));
                    declared.push(Declared::of(&declaration, &declarator));
                    variables.len() as u32 - 1
                });
            }
        }
        let mut allocations: Vec<(u32, SiteId)> = Vec::new();
        if scope == Scope::Operands {
            let allocates =
                |operation: &Operation<'_>| matches!(operation, Operation::Tcgen05 { action: Tcgen05::Alloc, .. });
            for (index, _) in graph.sites.iter_enumerated().filter(|(_, site)| allocates(&site.operation)) {
                allocations.push((variables.len() as u32, index));
                variables.push("tensor memory".to_owned());
                alignments.push(1);
                declared.push(Declared { space: None, align: 32, bytes: None, is_dynamic: false, points_to: None });
            }
        }
        let mut slice = Slice::of(graph, scope);
        let ssa = Ssa::build(graph, &mut slice);
        let steps = Lowering::new(graph, &names, size, &ssa).steps(&slice);
        let loads = slice.loads;
        drop(slice);
        let threads = size.and_then(|size| size.threads());
        let origins = value_numbering::origins(&steps, &ssa);
        let mut values = Values {
            ssa,
            held: IndexVec::default(),
            origins,
            steps: Vec::new(),
            writers: IndexVec::default(),
            size,
            alignments: Vec::new(),
            variable_numbers: (0..).zip(&variables).map(|(number, name)| (name.clone(), number)).collect(),
            variables,
            declared,
            allocations,
            by_memory: false,
        };
        // At first everybody may come along every way; who cannot is known then, and what the rest left in memory.
        (values.held, _) = Solver::new(graph, size, &alignments, None).solve(&steps, &values.ssa);
        let mut reach = Reach::solve(graph, &values, threads);
        // What neither memory nor a place where ways meet has a part in stays as it is.
        let rounds = if steps.iter().all(|step| step.fixed) && values.ssa.phis.is_empty() { 0 } else { 2 };
        for _ in 0..rounds {
            let cells = if loads { Cells::gather(graph, &values, &reach) } else { Cells::default() };
            let cells = cells.with_allocations(graph, &values);
            let before = Before { values: &values, reach: &reach, cells };
            let (held, by_memory) = Solver::new(graph, size, &alignments, Some(before)).solve(&steps, &values.ssa);
            let unchanged = held == values.held;
            (values.held, values.by_memory) = (held, by_memory);
            if unchanged {
                break;
            }
            reach = Reach::solve(graph, &values, threads);
        }
        values.writers = writers(&steps, &values.ssa);
        (values.steps, values.alignments) = (steps, alignments);
        (values, reach)
    }
}
