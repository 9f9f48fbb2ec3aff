//! From the PTX of a function to its synchronisation skeleton.

mod data;
mod names;
mod relevance;

use std::collections::{HashMap, HashSet};

pub use self::data::{Accessed, accessed, accumulates};
use self::data::{DataSite, is_relaxed, is_strong, names_of_ends};
use self::names::special;
use self::relevance::{ends_slice, is_control, is_followed, is_root, names_of_copy, synchronises_by_name};
use super::machine::{LOCAL, PENDING_SHIFT};
use super::program::*;
use crate::base::IndexVec;
use crate::ptx::{
    BarrierAction, Bulk, CpAsync, Declaration, Function, Instruction, MbarrierAction, Operand, Operation, Register,
    Shape, StateSpace, StatementId, Tcgen05, type_bits,
};
use crate::simt::eval::number::{Arithmetic, Comparison, FloatComparison, Type};
use crate::simt::{Graph, Site, SiteId};
use crate::sync::rules::flags;

/// Where the first shared variable lies: the first kilobyte is the driver's from sm_90 on.
const SHARED_START: u64 = 1024;
/// Where variables of other spaces are taken to lie: far from any shared address.
const ELSEWHERE: u64 = 1 << 44;

/// What of an instruction the skeleton needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// That the lanes of its mask meet there.
    Meeting,
    /// Which bytes of shared memory it touches, or that those who did are waited for.
    Data,
    Everything,
}

/// Whether it is a branch that some lanes may take, and that says that all do or none.
fn is_uniform(site: &Site<'_>) -> bool {
    matches!(site.operation, Operation::Branch { .. }) && site.guard.is_some() && site.located.instruction.has("uni")
}

/// The mask of lanes that must run an instruction together, where it gives one.
fn member_mask(instruction: crate::ptx::Instruction<'_>) -> Option<Operand<'_>> {
    let at = match instruction.mnemonic() {
        "shfl" => 4,
        "vote" | "redux" | "match" => 2,
        "elect" => 1,
        _ => return None,
    };
    instruction.operand(at).filter(|_| instruction.has("sync"))
}

pub(super) struct Lowering<'g, 'f, 'a> {
    graph: &'g Graph<'a>,
    function: &'f Function<'f, 'a>,
    /// Shared variables by name.
    shared: HashMap<&'a str, u64>,
    variables: Vec<Variable>,
    /// Variables in local memory.
    locals: HashSet<&'a str>,
    /// Other variables by name, in the order seen.
    others: HashMap<&'a str, u64>,
    /// Dense numbers of registers.
    numbers: HashMap<Register, Reg>,
    /// Whether data in shared memory is looked at.
    with_data: bool,
}

/// Types of an instruction's modifiers, integers alone.
fn integer_types<'a>(modifiers: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Type> {
    modifiers.filter_map(Type::of)
}

impl<'g, 'f, 'a> Lowering<'g, 'f, 'a> {
    pub(super) fn new(function: &'f Function<'f, 'a>, graph: &'g Graph<'a>, with_data: bool) -> Self {
        let mut lowering = Lowering {
            graph,
            function,
            shared: HashMap::new(),
            variables: Vec::new(),
            locals: function
                .declarations(StateSpace::Local)
                .flat_map(|(_, declaration)| declaration.names())
                .map(|declarator| declarator.name)
                .collect(),
            others: HashMap::new(),
            numbers: HashMap::new(),
            with_data,
        };
        lowering.place_variables();
        lowering
    }

    /// Lays shared variables out one after the other, those whose size the launch decides last.
    fn place_variables(&mut self) {
        let module = self.function.module();
        let local = self.function.declarations(StateSpace::Shared).map(|(_, declaration)| declaration);
        let mut named: Vec<StatementId> = self
            .graph
            .sites
            .iter()
            .flat_map(|site| site.located.instruction.names())
            .filter_map(|used| module.shared(used.name))
            .collect();
        named.sort_unstable();
        named.dedup();
        let outer = named.into_iter().filter_map(|id| module.statement(id)?.declaration(module.text()));
        let mut next = SHARED_START;
        let mut open: Vec<(&'a str, u64)> = Vec::new();
        for declaration in local.chain(outer) {
            for declarator in declaration.names() {
                let align = u64::from(declaration.align.filter(|align| align.is_power_of_two()).unwrap_or(8)).max(8);
                match size_of(&declaration, &declarator) {
                    Some(bytes) => {
                        next = next.next_multiple_of(align);
                        let is_wide = type_bits(declaration.ty) == Some(64) && declaration.vector == 1;
                        self.put(declarator.name, next, Some(bytes), is_wide);
                        next = next.saturating_add(bytes).min(1 << 23);
                    }
                    None => open.push((declarator.name, align)),
                }
            }
        }
        // All of them start at the same place, whatever their names.
        let align = open.iter().map(|(_, align)| *align).max().unwrap_or(16).max(1024);
        let start = next.next_multiple_of(align);
        for (name, _) in open {
            self.put(name, start, None, false);
        }
        self.variables.sort_by_key(|variable| variable.start);
    }

    /// Shared variables and where they are put, ascending.
    pub(super) fn variables(self) -> Vec<Variable> {
        self.variables
    }

    fn put(&mut self, name: &'a str, start: u64, bytes: Option<u64>, is_wide: bool) {
        self.shared.entry(name).or_insert_with(|| {
            self.variables.push(Variable { name: name.to_owned(), start, bytes, is_wide });
            start
        });
    }

    fn reg(&mut self, register: Register) -> Reg {
        let next = Reg(self.numbers.len() as u32);
        *self.numbers.entry(register).or_insert(next)
    }

    fn resolve(&self, name: &str, at: StatementId) -> Option<Register> {
        self.graph.registers.resolve(name, at)
    }

    /// Whether data in shared memory is touched at all, or a branch says that lanes agree.
    pub(super) fn touches_data(&self) -> bool {
        let touches = |site: &Site<'a>| DataSite::of(site).is_some_and(|site| site.touches());
        self.graph.sites.iter().any(|site| touches(site) || is_uniform(site))
    }

    pub(super) fn program(mut self) -> Program {
        let need = self.slice();
        let keep: IndexVec<SiteId, bool> = need.iter().map(|need| *need != Need::Nothing).collect();
        // Where each instruction of the text, or the next one that is kept, stands in the skeleton.
        let mut place = IndexVec::default();
        let mut next = InstrId::ENTRY;
        for kept in &keep {
            place.push(next);
            next = if *kept { next.next() } else { next };
        }
        place.push(next);
        let mut refused = None;
        let mut synchronises = false;
        let mut code: IndexVec<InstrId, Instr> = IndexVec::default();
        let mut sites = IndexVec::default();
        let (mut relaxed, mut strong, mut volatile, mut uniform) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let polls = self.with_data && flags::polls(self.graph);
        for (index, site) in self.graph.sites.iter_enumerated() {
            if !keep.get(index).copied().unwrap_or(false) {
                continue;
            }
            sites.push(index);
            let guard = site.guard.map(|(register, negated)| (self.reg(register), negated));
            let op = match need.get(index) {
                Some(Need::Meeting) => self.meeting(index),
                Some(Need::Data) => self.data(index).or(Some(Op::Unknown { to: Vec::new(), varies_in_order: false })),
                _ => self.op(index, &place),
            };
            if site.located.instruction.guard().is_some() && guard.is_none() {
                refused = refused.or(Some((site.line(), "its guard is no register")));
            }
            synchronises |= is_root(&site.operation) && !is_control(&site.operation);
            if self.with_data && is_uniform(site) {
                uniform.push(code.next_id());
            }
            if self.with_data && is_relaxed(site) {
                relaxed.push(code.next_id());
            }
            if self.with_data && is_strong(site) {
                strong.push(code.next_id());
                if site.located.instruction.has("volatile") && !polls {
                    volatile.push(code.next_id());
                }
            }
            match op {
                Some(op) => {
                    code.push(Instr { op, guard, line: site.line() });
                }
                None => {
                    refused = refused.or(Some((site.line(), "its operands are not understood")));
                    code.push(Instr { op: Op::Trap, guard, line: site.line() });
                }
            }
        }
        if self.graph.calls {
            let call = self.graph.sites.iter().find(|site| matches!(site.operation, Operation::Call));
            refused = refused.or(call.map(|site| (site.line(), "it calls a function that may synchronise")));
        }
        if !self.graph.complete {
            refused = refused.or(self.graph.sites.first().map(|site| (site.line(), "a branch leads nowhere")));
        }
        let counts_pending = self.graph.sites.iter().any(
            |site| matches!(site.operation, Operation::Mbarrier(found) if found.action == MbarrierAction::PendingCount),
        );
        let mut names: Vec<(Reg, Register)> = self.numbers.iter().map(|(name, reg)| (*reg, *name)).collect();
        names.sort_unstable_by_key(|(reg, _)| reg.0);
        Program {
            code,
            registers: self.numbers.len() as u32,
            names: names.into_iter().map(|(_, name)| name).collect(),
            variables: self.variables,
            synchronises,
            uses_cluster: self.graph.uses_cluster(),
            asks_for_blocks: self.graph.asks_for_blocks(),
            counts_pending,
            sites,
            relaxed,
            strong,
            volatile,
            uniform,
            refused,
        }
    }

    /// Which instructions the skeleton needs: those that synchronise or branch, and whatever decides what these read.
    fn slice(&mut self) -> IndexVec<SiteId, Need> {
        let sites = &self.graph.sites;
        let mut need = IndexVec::filled(Need::Nothing, sites.len());
        let mut writers: HashMap<Register, Vec<SiteId>> = HashMap::new();
        for (index, site) in sites.iter_enumerated() {
            for register in self.graph.registers.written_by(&site.located) {
                writers.entry(register).or_default().push(index);
            }
        }
        let mut open: Vec<SiteId> = Vec::new();
        // What writes a register is looked at once, however often it is read.
        let mut followed: HashSet<Register> = HashSet::new();
        let mut follow = |register: Register, open: &mut Vec<SiteId>| {
            if followed.insert(register) {
                open.extend(writers.get(&register).into_iter().flatten());
            }
        };
        for (index, site) in sites.iter_enumerated() {
            let instruction = site.located.instruction;
            if is_root(&site.operation) || synchronises_by_name(instruction.mnemonic(), site) {
                open.push(index);
            } else if let Some(mask) = member_mask(instruction) {
                // That lanes meet matters; what they exchange may not.
                if let Some(slot) = need.get_mut(index) {
                    *slot = Need::Meeting;
                }
                let mask = mask.name().and_then(|name| self.resolve(name, site.located.id));
                let read = mask.into_iter().chain(site.guard.map(|(register, _)| register));
                read.for_each(|register| follow(register, &mut open));
            } else if self.with_data
                && let Some(touched) = DataSite::of(site)
            {
                if let Some(slot) = need.get_mut(index) {
                    *slot = Need::Data;
                }
                let read = touched.names().filter_map(|name| self.resolve(name, site.located.id));
                let read = read.chain(site.guard.map(|(register, _)| register));
                read.for_each(|register| follow(register, &mut open));
            }
        }
        let stores: Vec<SiteId> = sites
            .iter_enumerated()
            .filter(|(_, site)| {
                let instruction = site.located.instruction;
                matches!(instruction.mnemonic(), "st" | "atom" | "red")
                    && is_followed(space_of(instruction.modifiers()))
            })
            .map(|(index, _)| index)
            .collect();
        let mut stores_kept = false;
        while let Some(index) = open.pop() {
            let Some(slot) = need.get_mut(index) else { continue };
            if std::mem::replace(slot, Need::Everything) == Need::Everything {
                continue;
            }
            let Some(site) = sites.get(index) else { continue };
            let instruction = site.located.instruction;
            if let Some((guard, _)) = site.guard {
                follow(guard, &mut open);
            }
            let is_copy = synchronises_by_name(instruction.mnemonic(), site);
            if is_copy {
                // Of a copy only its mbarrier, its size and the blocks it goes to matter.
                let ends = names_of_ends(instruction).filter(|_| self.with_data);
                for name in names_of_copy(instruction).into_iter().chain(ends) {
                    if let Some(register) = self.graph.registers.resolve(name, site.located.id) {
                        follow(register, &mut open);
                    }
                }
            } else if !ends_slice(instruction.mnemonic(), site) {
                for used in self.graph.registers.of(&site.located).filter(|used| !used.is_def) {
                    follow(used.register, &mut open);
                }
            }
            let loads =
                matches!(instruction.mnemonic(), "ld" | "atom") && is_followed(space_of(instruction.modifiers()));
            if loads && !stores_kept {
                stores_kept = true;
                open.extend(&stores);
            }
        }
        need
    }

    /// An instruction of which only that lanes meet in it matters.
    fn meeting(&mut self, index: SiteId) -> Option<Op> {
        let located = self.graph.sites.get(index)?.located;
        let mask = member_mask(located.instruction)?;
        Some(Op::Meet { mask: self.source(mask, located.id) })
    }

    fn source(&mut self, operand: Operand<'a>, at: StatementId) -> Source {
        if let Some(value) = operand.value() {
            return Source::Number(value as u64);
        }
        if let Some(bits) = operand.float_bits() {
            return Source::Number(bits);
        }
        match operand.shape() {
            Shape::Name { name, component } => self.named(name, component, at),
            Shape::Not(inner) => match self.source(inner, at) {
                Source::Reg(reg) => Source::Not(reg),
                _ => Source::Unknown,
            },
            Shape::Minus(inner) => match self.source(inner, at) {
                Source::Reg(reg) => Source::Minus(reg),
                _ => Source::Unknown,
            },
            // `variable+16`
            Shape::Expression => {
                let (name, rest) = operand.text().split_once('+').unwrap_or((operand.text(), ""));
                match (self.named(name.trim(), None, at), rest.trim().parse::<u64>()) {
                    (Source::Shared(start), Ok(offset)) => Source::Shared(start.saturating_add(offset)),
                    (Source::Number(start), Ok(offset)) => Source::Number(start.saturating_add(offset)),
                    _ => Source::Unknown,
                }
            }
            _ => Source::Unknown,
        }
    }

    fn named(&mut self, name: &'a str, component: Option<&str>, at: StatementId) -> Source {
        if let Some(register) = self.resolve(name, at) {
            return match component {
                None => Source::Reg(self.reg(register)),
                Some(_) => Source::Unknown,
            };
        }
        if let Some(&start) = self.shared.get(name) {
            return Source::Shared(start);
        }
        if name.starts_with('%') || name == "WARP_SZ" {
            return special(name, component);
        }
        let is_local = self.locals.contains(name);
        let next = if is_local { LOCAL } else { ELSEWHERE } + ((self.others.len() as u64) << 24);
        Source::Number(*self.others.entry(name).or_insert(next))
    }

    fn address(&mut self, operand: Operand<'a>, at: StatementId) -> Option<Address> {
        let address = operand.address()?;
        let base = match address.base {
            Some(name) => self.named(name, None, at),
            None => Source::Number(0),
        };
        Some(Address { base, offset: address.offset? })
    }

    fn register(&mut self, operand: Operand<'a>, at: StatementId) -> Option<Reg> {
        let register = self.resolve(operand.name()?, at)?;
        Some(self.reg(register))
    }

    /// The registers of a destination that is one or a vector; the sink `_` is none.
    fn registers(&mut self, operand: Operand<'a>, at: StatementId) -> Vec<Option<Reg>> {
        match operand.shape() {
            Shape::Vector(parts) => parts.map(|part| self.register(part, at)).collect(),
            _ => vec![self.register(operand, at)],
        }
    }

    fn pair(&mut self, operand: Operand<'a>, at: StatementId) -> (Option<Reg>, Option<Reg>) {
        match operand.shape() {
            Shape::Pair(first, second) => (self.register(first, at), self.register(second, at)),
            _ => (self.register(operand, at), None),
        }
    }

    /// Everything that an instruction writes gets something that is not followed.
    fn unknown(&mut self, index: SiteId, varies_in_order: bool) -> Op {
        let site = &self.graph.sites[index];
        let written: Vec<Register> = self.graph.registers.written_by(&site.located).collect();
        Op::Unknown { to: written.into_iter().map(|register| self.reg(register)).collect(), varies_in_order }
    }

    fn op(&mut self, index: SiteId, place: &IndexVec<SiteId, InstrId>) -> Option<Op> {
        let graph = self.graph;
        let site = graph.sites.get(index)?;
        let instruction = site.located.instruction;
        let at = site.located.id;
        let operand = |number: usize| instruction.operand(number);
        let one = Source::Number(1);
        let everybody = Source::Number(u64::from(u32::MAX));
        Some(match site.operation {
            Operation::Branch { .. } => {
                let edge = graph.blocks.get(site.block)?.successors.first()?;
                Op::Branch { to: *place.get(graph.blocks.get(edge.to)?.start)? }
            }
            Operation::IndexedBranch { index, .. } => {
                let block = graph.blocks.get(site.block)?;
                let cases = block.successors.iter().filter(|edge| edge.case.is_some());
                let to: Option<Vec<InstrId>> =
                    cases.map(|edge| place.get(graph.blocks.get(edge.to)?.start).copied()).collect();
                Op::BranchIndexed { index: self.source(index?, at), to: to? }
            }
            Operation::Return | Operation::Exit => Op::Exit,
            Operation::Trap => Op::Trap,
            Operation::Elect => {
                let (lane, elected) = self.pair(operand(0)?, at);
                Op::Elect { lane, elected, mask: operand(1).map_or(everybody, |mask| self.source(mask, at)) }
            }
            Operation::WarpBarrier { mask } => {
                Op::WarpSync { mask: mask.map_or(everybody, |mask| self.source(mask, at)) }
            }
            Operation::NamedBarrier(barrier) => Op::Named {
                action: barrier.action,
                aligned: barrier.aligned,
                id: self.source(barrier.id?, at),
                count: barrier.threads.map(|threads| self.source(threads, at)),
                to: match barrier.action {
                    BarrierAction::Red => self.register(operand(0)?, at),
                    _ => None,
                },
            },
            Operation::ClusterBarrier { action, .. } => Op::Cluster { action },
            Operation::Mbarrier(mbarrier) if mbarrier.action == MbarrierAction::PendingCount => {
                let what = Compute::Arithmetic { what: Arithmetic::ShiftRight, ty: Type { bits: 64, signed: false } };
                let state = self.source(operand(1)?, at);
                let [shift, none] = [u64::from(PENDING_SHIFT), 0].map(Source::Number);
                Op::Compute { what, to: self.register(operand(0)?, at), also: None, args: [state, shift, none, none] }
            }
            Operation::Mbarrier(mbarrier) => {
                let Some(address) = mbarrier.address else { return Some(self.unknown(index, true)) };
                let address = self.address(address, at)?;
                let argument = mbarrier.argument.map(|argument| self.source(argument, at));
                // Arrivals and waits may leave something in their first operand.
                let to = match operand(0)?.shape() {
                    Shape::Address(_) => None,
                    Shape::Pair(first, _) => self.register(first, at),
                    _ => self.register(operand(0)?, at),
                };
                let expects = instruction.has("expect_tx");
                let op = match mbarrier.action {
                    MbarrierAction::Init => MbarrierOp::Init { count: argument? },
                    MbarrierAction::Inval => MbarrierOp::Inval,
                    MbarrierAction::ExpectTx => MbarrierOp::ExpectTx { bytes: argument? },
                    MbarrierAction::CompleteTx => MbarrierOp::CompleteTx { bytes: argument? },
                    MbarrierAction::Arrive | MbarrierAction::ArriveExpectTx | MbarrierAction::ArriveDrop => {
                        MbarrierOp::Arrive {
                            count: argument.filter(|_| !expects).unwrap_or(one),
                            bytes: argument.filter(|_| expects),
                            drop: mbarrier.action == MbarrierAction::ArriveDrop,
                            to,
                        }
                    }
                    MbarrierAction::TestWait | MbarrierAction::TryWait => {
                        MbarrierOp::Wait { to, phase: argument?, parity: mbarrier.parity, flipped: false }
                    }
                    MbarrierAction::PendingCount | MbarrierAction::Other => return None,
                };
                Op::Mbarrier { op, at: address }
            }
            Operation::Bulk(Bulk::Copy { tensor } | Bulk::Reduce { tensor }) => {
                let operands: Vec<Operand<'a>> = instruction.operands().collect();
                let last = operands.iter().rposition(|operand| matches!(operand.shape(), Shape::Address(_)))?;
                let multicast = instruction.has("multicast::cluster");
                let mut after = operands.iter().skip(last + 1);
                let mask = after.find(|operand| !matches!(operand.shape(), Shape::Vector(_))).copied();
                let bytes = if tensor {
                    Bytes::Map(self.address(operands.get(1).copied()?, at)?)
                } else {
                    Bytes::Number(self.source(*operands.get(last.checked_sub(1)?)?, at))
                };
                let pairs = instruction.has("cta_group::2");
                Op::Copy {
                    at: self.address(operands[last], at)?,
                    bytes,
                    multicast: if multicast { Some(Multicast { mask: self.source(mask?, at), pairs }) } else { None },
                    response: None,
                    ends: self.ends_of_copy(instruction, at),
                }
            }
            Operation::ClusterLaunchControl if instruction.has("try_cancel") => Op::Copy {
                at: self.address(operand(1)?, at)?,
                bytes: Bytes::Number(Source::Number(16)),
                multicast: instruction
                    .has("multicast::cluster::all")
                    .then_some(Multicast { mask: everybody, pairs: false }),
                response: self.address(operand(0)?, at),
                ends: self.ends_of_copy(instruction, at),
            },
            Operation::ClusterLaunchControl if instruction.has("is_canceled") => {
                Op::IsCanceled { to: self.register(operand(0)?, at), response: self.source(operand(1)?, at) }
            }
            Operation::CpAsync(CpAsync::MbarrierArrive) => {
                Op::CopyArrive { at: self.address(operand(0)?, at)?, increments: !instruction.has("noinc") }
            }
            Operation::Tcgen05 { action: Tcgen05::Commit, .. } => {
                let multicast = instruction.has("multicast::cluster");
                Op::Commit {
                    at: self.address(operand(0)?, at)?,
                    multicast: if multicast {
                        Some(Multicast { mask: self.source(operand(1)?, at), pairs: false })
                    } else {
                        None
                    },
                }
            }
            Operation::Tcgen05 { action: Tcgen05::Alloc, .. } => {
                Op::Allocate { at: self.address(operand(0)?, at)?, columns: self.source(operand(1)?, at) }
            }
            Operation::Tcgen05 { action: Tcgen05::Dealloc, .. } => {
                Op::Free { at: self.source(operand(0)?, at), columns: self.source(operand(1)?, at) }
            }
            Operation::SetMaxNReg { action, count } => Op::SetRegisters { action, count: count? },
            _ => return Some(self.plain(index)),
        })
    }

    /// An instruction that neither synchronises nor branches.
    fn plain(&mut self, index: SiteId) -> Op {
        let site = &self.graph.sites[index];
        let mnemonic = site.located.instruction.mnemonic();
        let found = match mnemonic {
            "ld" | "ldu" => self.load(index),
            "st" | "red" if site.located.instruction.has("async") => self.store_async(index),
            "st" => self.store(index),
            "atom" | "red" => self.atomic(index),
            "shfl" | "vote" | "redux" | "activemask" => self.across_lanes(index),
            _ if ends_slice(mnemonic, site) => None,
            _ => self.compute(index),
        };
        let order = matches!(mnemonic, "atom" | "match");
        found.unwrap_or_else(|| self.unknown(index, order))
    }

    fn load(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let bits = instruction.modifiers().filter_map(type_bits).last()?;
        let to = self.registers(instruction.operand(0)?, at);
        let address = self.address(instruction.operand(1)?, at)?;
        let space = space_of(instruction.modifiers());
        // Of a wider one the low half is followed.
        let bits = if bits == 128 { 64 } else { bits };
        if !(8..=64).contains(&bits) {
            return None;
        }
        Some(Op::Load { space, to, at: address, bits })
    }

    fn store(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let bits = instruction.modifiers().filter_map(type_bits).last()?;
        let address = self.address(instruction.operand(0)?, at)?;
        let value = instruction.operand(1)?;
        let from = match value.shape() {
            Shape::Vector(parts) => parts.map(|part| self.source(part, at)).collect(),
            _ => vec![self.source(value, at)],
        };
        Some(Op::Store { space: space_of(instruction.modifiers()), from, at: address, bits })
    }

    /// `st.async [a], b, [mbar]`, `red.async`: bytes that complete on an mbarrier.
    fn store_async(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let bits = u64::from(instruction.modifiers().filter_map(type_bits).last()?);
        // A vector may be one in braces, or a register of several elements.
        let parts = match instruction.modifiers().find(|word| matches!(*word, "v2" | "v4")) {
            Some("v2") => 2,
            Some(_) => 4,
            None => 1,
        };
        let bytes = Bytes::Number(Source::Number(bits / 8 * parts));
        let ends = self.ends_of_copy(instruction, at);
        Some(Op::Copy { at: self.address(instruction.operand(2)?, at)?, bytes, multicast: None, response: None, ends })
    }

    fn atomic(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let space = space_of(instruction.modifiers());
        let bits = instruction.modifiers().filter_map(type_bits).last()?;
        let how = instruction.modifiers().find_map(|word| {
            Some(match word {
                "add" => Atomic::Add,
                "exch" => Atomic::Exchange,
                "cas" => Atomic::CompareAndSwap,
                "min" => Atomic::Least,
                "max" => Atomic::Most,
                "and" => Atomic::And,
                "or" => Atomic::Or,
                "xor" => Atomic::Xor,
                "inc" => Atomic::Increment,
                "dec" => Atomic::Decrement,
                _ => return None,
            })
        })?;
        let first = usize::from(instruction.mnemonic() == "atom");
        let to = if first == 1 { self.register(instruction.operand(0)?, at) } else { None };
        let address = self.address(instruction.operand(first)?, at)?;
        let value = self.source(instruction.operand(first + 1)?, at);
        let second = instruction.operand(first + 2).map_or(Source::Number(0), |operand| self.source(operand, at));
        Some(Op::Atomic { space, to, at: address, how, args: [value, second], bits })
    }

    fn across_lanes(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let everybody = Source::Number(u64::from(u32::MAX));
        let mut given = |number: usize| instruction.operand(number).map(|operand| self.source(operand, at));
        let modifiers = || instruction.modifiers();
        match instruction.mnemonic() {
            "shfl" => {
                let how = modifiers().find_map(|word| {
                    Some(match word {
                        "idx" => Shuffle::Index,
                        "up" => Shuffle::Up,
                        "down" => Shuffle::Down,
                        "bfly" => Shuffle::Butterfly,
                        _ => return None,
                    })
                })?;
                let (value, by, clamp) = (given(1)?, given(2)?, given(3)?);
                let mask = given(4).unwrap_or(everybody);
                let (to, valid) = self.pair(instruction.operand(0)?, at);
                Some(Op::Shuffle { how, to, valid, value, by, clamp, mask })
            }
            "vote" => {
                let how = modifiers().find_map(|word| {
                    Some(match word {
                        "all" => Gather::All,
                        "any" => Gather::Any,
                        "uni" => Gather::Uniform,
                        "ballot" => Gather::Ballot,
                        _ => return None,
                    })
                })?;
                let (value, mask) = (given(1)?, given(2).unwrap_or(everybody));
                Some(Op::Gather { how, to: self.register(instruction.operand(0)?, at), value, mask })
            }
            "redux" => {
                let ty = integer_types(modifiers()).last()?;
                let how = modifiers().find_map(|word| {
                    Some(match word {
                        "add" => Gather::Sum,
                        "min" => Gather::Least(ty),
                        "max" => Gather::Most(ty),
                        "and" => Gather::And,
                        "or" => Gather::Or,
                        "xor" => Gather::Xor,
                        _ => return None,
                    })
                })?;
                let (value, mask) = (given(1)?, given(2).unwrap_or(everybody));
                Some(Op::Gather { how, to: self.register(instruction.operand(0)?, at), value, mask })
            }
            _ => Some(Op::ActiveMask { to: self.register(instruction.operand(0)?, at)? }),
        }
    }

    fn compute(&mut self, index: SiteId) -> Option<Op> {
        let site = &self.graph.sites[index];
        let (instruction, at) = (site.located.instruction, site.located.id);
        let mnemonic = instruction.mnemonic();
        let destination = instruction.operand(0)?;
        let sources: Vec<Source> = {
            let rest: Vec<Operand<'a>> = instruction.operands().skip(1).collect();
            if mnemonic == "mov"
                && let Some(Shape::Vector(parts)) = rest.first().map(Operand::shape)
            {
                let parts: Vec<Source> = parts.map(|part| self.source(part, at)).collect();
                let whole = instruction.modifiers().find_map(type_bits)?;
                let bits = whole.checked_div(parts.len() as u32)?;
                return Some(Op::Pack { to: self.register(destination, at)?, parts, bits });
            }
            rest.into_iter().map(|operand| self.source(operand, at)).collect()
        };
        if let Shape::Vector(_) = destination.shape() {
            let to = self.registers(destination, at);
            let whole = instruction.modifiers().find_map(type_bits)?;
            let bits = whole.checked_div(to.len() as u32)?;
            let from = *sources.first()?;
            return (mnemonic == "mov").then_some(Op::Unpack { to, from, bits });
        }
        let mut types = integer_types(instruction.modifiers());
        let ty = types.next();
        let many = sources.len();
        let needs = |count: usize| (many >= count).then_some(());
        let what = match mnemonic {
            "mov" => Compute::Move(ty.or_else(|| move_type(instruction.modifiers()))?),
            "cvta" if instruction.has("shared") || instruction.modifiers().any(|word| word.starts_with("shared::")) => {
                if instruction.has("to") {
                    Compute::ToShared
                } else {
                    Compute::ToGeneric
                }
            }
            "cvta" => Compute::Move(ty?),
            "cvt" | "add" | "sub" if instruction.has("sat") => return None,
            "cvt" => {
                // Both sides must be integers; `cvt.rn.f32.u32` is not followed.
                let all: Vec<&str> = instruction.modifiers().filter(|word| type_bits(word).is_some()).collect();
                let [to, from] = all.as_slice() else { return None };
                Compute::Convert { to: Type::of(to)?, from: Type::of(from)? }
            }
            "add" | "sub" => {
                needs(2)?;
                if instruction.has("cc") {
                    return None;
                }
                Compute::Add { ty: ty?, subtract: mnemonic == "sub" }
            }
            "mul" | "mad" => {
                needs(if mnemonic == "mad" { 3 } else { 2 })?;
                let ty = ty?;
                let wide = instruction.has("wide");
                if instruction.has("hi") {
                    if mnemonic == "mad" {
                        return None;
                    }
                    Compute::Arithmetic { what: Arithmetic::High, ty }
                } else {
                    let to = if wide { Type { bits: ty.bits * 2, ..ty } } else { ty };
                    Compute::Multiply { ty, to, adds: mnemonic == "mad" }
                }
            }
            "setp" => {
                needs(2)?;
                let mut modifiers = instruction.modifiers();
                let how = modifiers.next()?;
                let combine = match modifiers.next() {
                    Some("and") if many > 2 => Combine::And,
                    Some("or") if many > 2 => Combine::Or,
                    Some("xor") if many > 2 => Combine::Xor,
                    _ => Combine::No,
                };
                match float_bits(instruction) {
                    Some(bits) => Compute::CompareFloats { how: FloatComparison::of(how)?, bits, combine },
                    None => Compute::Compare { how: Comparison::of(how), ty: ty.filter(|ty| ty.bits > 1)?, combine },
                }
            }
            "selp" => {
                needs(3)?;
                Compute::Select
            }
            "shf" => {
                needs(3)?;
                Compute::Funnel { left: instruction.has("l"), wrap: instruction.has("wrap") }
            }
            "prmt" if instruction.modifiers().eq(["b32"]) => {
                needs(3)?;
                Compute::Permute
            }
            "bfi" => {
                needs(4)?;
                Compute::Insert(ty?)
            }
            "clz" => Compute::LeadingZeros(ty?),
            "brev" => Compute::Reverse(ty?),
            "mapa" => {
                needs(2)?;
                Compute::Mapa
            }
            "getctarank" => Compute::Rank,
            "isspacep" if instruction.modifiers().any(|word| word.starts_with("shared")) => Compute::IsShared,
            _ => {
                let what = Arithmetic::of(mnemonic, instruction.modifiers()).filter(|what| many >= what.arguments())?;
                Compute::Arithmetic { what, ty: ty? }
            }
        };
        let (to, also) = self.pair(destination, at);
        let mut args = [Source::Number(0); 4];
        for (slot, source) in args.iter_mut().zip(sources) {
            *slot = source;
        }
        Some(Op::Compute { what, to, also, args })
    }
}

/// How wide the floats are that `setp` compares, where it compares some of 32 or 64 bits with a constant: a flag, as whether a factor
/// is zero. What data says of data is not followed.
fn float_bits(instruction: Instruction<'_>) -> Option<u32> {
    let bits = match instruction.modifiers().last()? {
        "f32" => 32,
        "f64" => 64,
        _ => return None,
    };
    let is_flag = instruction.operands().skip(1).take(2).any(|operand| operand.float_bits().is_some());
    (instruction.mnemonic() == "setp" && is_flag).then_some(bits)
}

fn move_type<'a>(mut modifiers: impl Iterator<Item = &'a str>) -> Option<Type> {
    let bits = modifiers.find_map(type_bits)?;
    (bits <= 64).then_some(Type { bits, signed: false })
}

/// Bytes of a variable; none for `name[]`.
fn size_of(declaration: &Declaration<'_>, declarator: &crate::ptx::Declarator<'_>) -> Option<u64> {
    declaration.bytes(declarator).filter(|bytes| *bytes > 0)
}

/// The space that modifiers name.
fn space_of<'a>(modifiers: impl Iterator<Item = &'a str>) -> Space {
    let mut space = Space::Generic;
    for word in modifiers {
        space = match word.split("::").next().unwrap_or(word) {
            "shared" => Space::Shared,
            "param" | "const" => Space::Input,
            "local" => Space::Local,
            "global" => Space::Other,
            _ => continue,
        };
        break;
    }
    space
}
