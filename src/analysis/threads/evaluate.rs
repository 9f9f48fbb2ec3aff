//! Registers evaluated: constants, thread ids and what is computed from them, addresses of variables.
//!
//! What a register holds is told for each of its versions (`versions.rs`): what all ways to it have in common, thread by thread
//! where the branches tell who comes along which. What a loop counts is unknown.

use std::collections::{HashMap, HashSet};

use super::BlockSize;
use super::graph::Graph;
use super::memory::Cells;
use super::reach::Reach;
use super::solve::Solver;
use super::value::{Value, Variation};
use super::versions::Versions;
use crate::ptx::{Function, Operand, Operation, Register, StateSpace};

/// Stores into shared memory that are looked at.
const MAX_STORES: usize = 512;

/// What registers hold.
pub struct Values {
    pub(super) versions: Versions,
    pub(super) held: Vec<Value>,
    /// Variables that addresses speak of.
    pub variables: Vec<String>,
    /// Whether a load from shared memory was taken to give what constant stores left there.
    pub by_memory: bool,
}

impl Values {
    /// What a register holds when an instruction reads it.
    pub fn at(&self, index: usize, register: Register) -> &Value {
        let version = self.versions.read(index, register);
        version.and_then(|version| self.held.get(version as usize)).unwrap_or(&Value::Unknown(Variation::Lane))
    }

    /// What an operand is: a number, a register, a variable, or an address of these.
    pub fn operand(&self, graph: &Graph<'_>, index: usize, operand: Operand<'_>) -> Value {
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

    fn name(&self, graph: &Graph<'_>, index: usize, name: &str) -> Value {
        let id = graph.sites.get(index).map(|site| site.located.id);
        if let Some(register) = id.and_then(|id| graph.registers.resolve(name, id)) {
            return self.at(index, register).clone();
        }
        match self.variables.iter().position(|variable| variable == name) {
            Some(variable) => Value::Address { variable: variable as u32, offset: Some(0) },
            None => Value::Unknown(Variation::Block),
        }
    }

    /// Evaluates what branches, guards and the instructions that analyses ask about depend on, and who gets where.
    pub fn solve(function: &Function<'_, '_>, graph: &Graph<'_>, size: Option<BlockSize>) -> (Values, Reach) {
        let module = function.module();
        let mut variables: Vec<String> = Vec::new();
        let mut names = HashMap::new();
        let local = function.declarations(StateSpace::Shared).map(|(_, declaration)| declaration);
        let shared = module.variables().filter(|declaration| declaration.space == StateSpace::Shared);
        for name in local.chain(shared).flat_map(|declaration| declaration.names().map(|declarator| declarator.name)) {
            names.entry(name).or_insert_with(|| {
                variables.push(name.to_owned());
                variables.len() as u32 - 1
            });
        }
        let slice = Slice::of(graph);
        let versions = Versions::build(graph, &slice.wanted, &slice.definitions);
        let threads = size.and_then(|size| size.threads());
        let mut values = Values { versions, held: Vec::new(), variables, by_memory: false };
        // At first everybody may come along every way; who cannot is known then, and what the rest left in memory.
        let solver = Solver::new(graph, &names, size, &values.versions);
        let (held, _) = solver.solve(&slice.instructions, None);
        values.held = held;
        let mut reach = Reach::solve(graph, &values, threads);
        for _ in 0..2 {
            let cells = if slice.loads { Cells::gather(graph, &values, &reach) } else { Cells::default() };
            let solver = Solver::new(graph, &names, size, &values.versions);
            let (held, by_memory) = solver.solve(&slice.instructions, Some((&values, &reach, &cells)));
            let unchanged = held == values.held;
            (values.held, values.by_memory) = (held, by_memory);
            if unchanged {
                break;
            }
            reach = Reach::solve(graph, &values, threads);
        }
        (values, reach)
    }
}

/// The instructions that decide branches, guards and the operands of barriers.
struct Slice {
    wanted: HashSet<Register>,
    definitions: HashMap<Register, Vec<usize>>,
    /// Ascending.
    instructions: Vec<usize>,
    /// Whether some load from shared memory.
    loads: bool,
}

/// Instructions of a function up to which barriers of the whole block alone, `bar.sync 0`, are reason enough to evaluate it: larger ones
/// would take longer than all else that is said about them.
const MAX_PLAIN: usize = 2000;

/// Whether anything in a function depends on who runs it: roles, barriers of some threads, asynchronous copies and matrices.
fn depends_on_threads(graph: &Graph<'_>) -> bool {
    graph.sites.iter().any(|site| match &site.operation {
        Operation::NamedBarrier(barrier) => {
            let is_plain = barrier.id.and_then(|id| id.value()) == Some(0) && barrier.threads.is_none();
            !is_plain || graph.sites.len() <= MAX_PLAIN
        }
        Operation::SetMaxNReg { .. }
        | Operation::ClusterBarrier { .. }
        | Operation::Mbarrier(_)
        | Operation::Wgmma(_)
        | Operation::Tcgen05 { .. }
        | Operation::Bulk(_)
        | Operation::Elect => true,
        _ => false,
    })
}

impl Slice {
    fn of(graph: &Graph<'_>) -> Slice {
        if !depends_on_threads(graph) {
            let (wanted, definitions) = Default::default();
            return Slice { wanted, definitions, instructions: Vec::new(), loads: false };
        }
        let mut definitions: HashMap<Register, Vec<usize>> = HashMap::new();
        for (index, site) in graph.sites.iter().enumerate() {
            for used in graph.registers.of(&site.located).filter(|used| used.is_def) {
                definitions.entry(used.register).or_default().push(index);
            }
        }
        let mut slice = Slice { wanted: HashSet::new(), definitions, instructions: Vec::new(), loads: false };
        let mut indices = HashSet::new();
        let asked = |site: &super::graph::Site<'_>| {
            matches!(
                site.operation,
                Operation::SetMaxNReg { .. }
                    | Operation::NamedBarrier(_)
                    | Operation::Mbarrier(_)
                    | Operation::Bulk(_)
                    | Operation::CpAsync(_)
                    | Operation::Tcgen05 { .. }
                    | Operation::IndexedBranch { .. }
            )
        };
        let mut open = Vec::new();
        for site in &graph.sites {
            open.extend(site.guard.map(|(register, _)| register));
            if asked(site) {
                open.extend(graph.registers.of(&site.located).filter(|used| !used.is_def).map(|used| used.register));
            }
        }
        slice.close(graph, open, &mut indices);
        let stored = |index: &usize| {
            graph.sites.get(*index).is_some_and(|site| {
                site.located.instruction.mnemonic() == "ld" && super::memory::is_shared(&site.located.instruction)
            })
        };
        slice.loads = indices.iter().any(stored);
        if slice.loads {
            let stores = graph.sites.iter().filter(|site| {
                site.located.instruction.mnemonic() == "st" && super::memory::is_shared(&site.located.instruction)
            });
            let mut open = Vec::new();
            for site in stores.take(MAX_STORES) {
                open.extend(graph.registers.of(&site.located).map(|used| used.register));
            }
            slice.close(graph, open, &mut indices);
        }
        slice.instructions = indices.into_iter().collect();
        slice.instructions.sort_unstable();
        slice
    }

    /// Adds registers and what they are computed from.
    fn close(&mut self, graph: &Graph<'_>, mut open: Vec<Register>, indices: &mut HashSet<usize>) {
        while let Some(register) = open.pop() {
            if !self.wanted.insert(register) {
                continue;
            }
            for &index in self.definitions.get(&register).into_iter().flatten() {
                if indices.insert(index)
                    && let Some(site) = graph.sites.get(index)
                {
                    let read = graph.registers.of(&site.located).filter(|used| !used.is_def);
                    open.extend(read.map(|used| used.register).chain(site.guard.map(|(register, _)| register)));
                }
            }
        }
    }
}
