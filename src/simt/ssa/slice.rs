//! Which registers an evaluation follows, and the instructions that read and write them.
//!
//! Registers have numbers in the order in which they are first seen. The text of an instruction is read once, and only as far as
//! needed: all instructions say what they write, and only those of the slice what they read.

use crate::base::{FastMap, Id, IndexVec, work};
use crate::ptx::{CpAsync, Operand, Operation, Register, Shape, Tcgen05};
use crate::simt::eval::memory::is_shared;
use crate::simt::graph::{Graph, Site, SiteId};

/// Stores into shared memory that are looked at.
const MAX_STORES: usize = 512;
/// No further definition.
const END: u32 = u32::MAX;

/// Numbers of registers.
#[derive(Clone, Debug, Default)]
pub(in crate::simt) struct Numbers {
    of: FastMap<Register, u32>,
    registers: Vec<Register>,
}

impl Numbers {
    pub fn get(&self, register: Register) -> Option<u32> {
        self.of.get(&register).copied()
    }

    pub fn register(&self, number: u32) -> Option<Register> {
        self.registers.get(number as usize).copied()
    }

    pub fn len(&self) -> usize {
        self.registers.len()
    }

    fn take(&mut self, register: Register) -> u32 {
        *self.of.entry(register).or_insert_with(|| {
            self.registers.push(register);
            self.registers.len() as u32 - 1
        })
    }
}

/// A register that an instruction mentions.
#[derive(Clone, Copy, Debug)]
pub(in crate::simt) struct Use {
    pub number: u32,
    pub is_def: bool,
}

/// The instructions that decide branches, guards and the operands of barriers.
#[derive(Default)]
pub(in crate::simt) struct Slice {
    pub numbers: Numbers,
    /// By number: whether it is followed.
    pub wanted: Vec<bool>,
    /// By number: how many instructions write it.
    pub written: Vec<u32>,
    /// Instructions that are evaluated, ascending.
    pub instructions: Vec<SiteId>,
    /// Instructions whose registers are known one by one, ascending: those of the slice, and those that analyses ask about.
    observed: Vec<(SiteId, u32)>,
    uses: Vec<Use>,
    /// Whether some load from shared memory.
    pub loads: bool,
}

/// Instructions of a function up to which barriers of the whole block alone, `bar.sync 0`, are reason enough to evaluate it: larger ones
/// would take longer than all else that is said about them.
const MAX_PLAIN: usize = 2000;

/// What an evaluation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Who goes where, and the operands of barriers.
    Decisions,
    /// The operands of whatever reads or writes memory, or has lanes work together.
    Operands,
}

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

/// Whether analyses ask what all of an instruction's operands are.
fn is_asked(site: &Site<'_>) -> bool {
    matches!(
        site.operation,
        Operation::SetMaxNReg { .. }
            | Operation::NamedBarrier(_)
            | Operation::Mbarrier(_)
            | Operation::CpAsync(CpAsync::MbarrierArrive)
            | Operation::Tcgen05 { action: Tcgen05::Alloc | Tcgen05::Dealloc | Tcgen05::Commit, .. }
            | Operation::IndexedBranch { .. }
    )
}

/// The operands of a bulk copy that analyses ask about: its mbarrier and its size; not where it copies from, which takes long to compute.
fn asked_of_copy<'a>(site: &Site<'a>) -> impl Iterator<Item = Operand<'a>> {
    let instruction = site.located.instruction;
    let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
    instruction.operands().filter(is_address).last().into_iter().chain(instruction.operand(2))
}

/// The operands whose values decide whether an instruction keeps to the rules: addresses, masks, sizes, descriptors.
fn asked_of_access<'a>(site: &Site<'a>) -> impl Iterator<Item = Operand<'a>> {
    let instruction = site.located.instruction;
    // Not what is stored, multiplied or shuffled.
    let (addresses, numbers) = match instruction.mnemonic() {
        "ld" | "st" | "atom" | "red" | "ldmatrix" | "stmatrix" | "multimem" | "prefetch" | "tensormap" => (true, false),
        "cp" | "bar" | "barrier" | "mbarrier" | "tcgen05" | "elect" | "shfl" | "vote" | "match" | "redux" | "mapa"
        | "wgmma" | "brx" | "bfe" => (true, true),
        "suld" | "sust" | "sured" | "tex" | "tld4" => (true, false),
        _ => (false, false),
    };
    let is_asked = move |operand: &Operand<'_>| match operand.shape() {
        Shape::Address(_) => addresses,
        Shape::Name { .. } => numbers,
        _ => false,
    };
    instruction.operands().filter(is_asked)
}

/// What an instruction hands to other threads: what it stores, where they may look for it.
fn handed_out<'a>(site: &Site<'a>) -> impl Iterator<Item = Operand<'a>> {
    let instruction = site.located.instruction;
    let from = match instruction.mnemonic() {
        "st" if !instruction.has("local") && !instruction.has("param") => Some(1),
        "atom" => Some(2),
        _ => None,
    };
    from.into_iter().flat_map(move |from| instruction.operands().skip(from))
}

/// Whether a kernel takes the address of local memory.
fn points_to_local(graph: &Graph<'_>) -> bool {
    let mut taken = graph.sites.iter().map(|site| site.located.instruction).filter(|found| found.mnemonic() == "cvta");
    taken.any(|found| found.has("local") && !found.has("to"))
}

/// Whether it matters who passes an instruction's guard: where it leads elsewhere, and where analyses ask who runs it.
fn decides(site: &Site<'_>) -> bool {
    is_asked(site)
        || matches!(
            site.operation,
            Operation::Branch { .. }
                | Operation::Return
                | Operation::Exit
                | Operation::Trap
                | Operation::ClusterBarrier { .. }
                | Operation::Wgmma(_)
                | Operation::Tcgen05 { .. }
                | Operation::Bulk(_)
                | Operation::CpAsync(_)
                | Operation::Elect
                | Operation::ClusterLaunchControl
        )
}

/// Which instruction wrote a register before, by definition.
struct Definitions {
    /// By number: the last one.
    last: Vec<u32>,
    /// By definition: its instruction and the one before it.
    all: Vec<(SiteId, u32)>,
}

impl Slice {
    pub fn of(graph: &Graph<'_>, scope: Scope) -> Slice {
        let mut slice = Slice::default();
        if scope == Scope::Decisions && !depends_on_threads(graph) {
            return slice;
        }
        let mut definitions = Definitions { last: Vec::new(), all: Vec::new() };
        for (index, site) in graph.sites.iter_enumerated() {
            for register in graph.registers.written_by(&site.located) {
                let number = slice.numbers.take(register);
                if definitions.last.len() <= number as usize {
                    definitions.last.resize(number as usize + 1, END);
                    slice.written.resize(number as usize + 1, 0);
                }
                definitions.all.push((index, definitions.last[number as usize]));
                definitions.last[number as usize] = definitions.all.len() as u32 - 1;
                slice.written[number as usize] += 1;
            }
        }
        let count = graph.sites.len();
        let mut gatherer = Gatherer {
            graph,
            definitions,
            slice,
            known: Vec::new(),
            place: IndexVec::filled(END, count),
            inside: IndexVec::filled(false, count),
            open: Vec::new(),
        };
        let hands_out = scope == Scope::Operands && points_to_local(graph);
        for (index, site) in graph.sites.iter_enumerated() {
            if decides(site) || scope == Scope::Operands {
                gatherer.want_guard(site);
            }
            if scope == Scope::Operands {
                let mut asked = asked_of_access(site).chain(handed_out(site).filter(|_| hands_out)).peekable();
                if asked.peek().is_some() {
                    gatherer.observe(index, site, Kind::Look);
                    asked.for_each(|operand| gatherer.want(site, operand));
                }
                continue;
            }
            if is_asked(site) {
                gatherer.observe(index, site, Kind::Reads);
            } else if matches!(site.operation, Operation::Bulk(_)) {
                gatherer.observe(index, site, Kind::Look);
                asked_of_copy(site).for_each(|operand| gatherer.want(site, operand));
            } else if site.located.instruction.text().contains("mbarrier::") {
                gatherer.want_guard(site);
                gatherer.observe(index, site, Kind::Look);
                asked_of_copy(site).take(1).for_each(|operand| gatherer.want(site, operand));
            }
        }
        gatherer.close();
        if scope == Scope::Operands {
            return gatherer.finish();
        }
        let works_on_shared = |site: &Site<'_>, mnemonic: &str| {
            site.located.instruction.mnemonic() == mnemonic && is_shared(&site.located.instruction)
        };
        let mut evaluated = gatherer.slice.instructions.iter().filter_map(|index| graph.sites.get(*index));
        let loads = evaluated.any(|site| works_on_shared(site, "ld"));
        gatherer.slice.loads = loads;
        if loads {
            let stores = graph.sites.iter_enumerated().filter(|(_, site)| works_on_shared(site, "st"));
            for (at, (index, site)) in stores.enumerate() {
                gatherer.observe(index, site, if at < MAX_STORES { Kind::All } else { Kind::Look });
            }
            gatherer.close();
        }
        gatherer.finish()
    }

    /// The registers of an instruction, in order; none of one that nothing asks about.
    pub fn uses(&self, index: SiteId) -> &[Use] {
        let Ok(at) = self.observed.binary_search_by_key(&index, |(index, _)| *index) else { return &[] };
        let (Some((_, from)), Some((_, to))) = (self.observed.get(at), self.observed.get(at + 1)) else { return &[] };
        self.uses.get(*from as usize..*to as usize).unwrap_or(&[])
    }

    /// The instructions whose registers are known, ascending.
    pub fn observed(&self) -> impl Iterator<Item = (SiteId, &[Use])> {
        self.observed.windows(2).filter_map(|pair| {
            let [(index, from), (_, to)] = pair else { return None };
            Some((*index, self.uses.get(*from as usize..*to as usize)?))
        })
    }
}

/// Which registers of an instruction are followed.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Look,
    Reads,
    All,
}

/// A slice in the making.
struct Gatherer<'g, 'a> {
    graph: &'g Graph<'a>,
    definitions: Definitions,
    slice: Slice,
    /// Registers of the instructions that were looked at, and by instruction which of these is its.
    known: Vec<Vec<Use>>,
    place: IndexVec<SiteId, u32>,
    /// By instruction: whether it is evaluated.
    inside: IndexVec<SiteId, bool>,
    /// Registers to follow.
    open: Vec<u32>,
}

impl<'a> Gatherer<'_, 'a> {
    fn want_guard(&mut self, site: &Site<'a>) {
        self.open.extend(site.guard.map(|(register, _)| self.slice.numbers.take(register)));
    }

    fn want(&mut self, site: &Site<'a>, operand: Operand<'a>) {
        let name = operand.address().map_or(operand.name(), |address| address.base);
        let register = name.and_then(|name| self.graph.registers.resolve(name, site.located.id));
        self.open.extend(register.map(|register| self.slice.numbers.take(register)));
    }

    fn observe(&mut self, index: SiteId, site: &Site<'a>, kind: Kind) {
        let Some(place) = self.place.get_mut(index) else { return };
        if *place == END {
            *place = self.known.len() as u32;
            let numbers = &mut self.slice.numbers;
            let used = self.graph.registers.of(&site.located);
            let uses = used.map(|used| Use { number: numbers.take(used.register), is_def: used.is_def });
            self.known.push(uses.collect());
        }
        let uses = self.known.get(*place as usize).map_or(&[][..], Vec::as_slice);
        match kind {
            Kind::Look => {}
            Kind::Reads => self.open.extend(uses.iter().filter(|used| !used.is_def).map(|used| used.number)),
            Kind::All => self.open.extend(uses.iter().map(|used| used.number)),
        }
    }

    /// Adds what the open registers are computed from.
    fn close(&mut self) {
        while let Some(number) = self.open.pop() {
            work::spend(1);
            if self.slice.wanted.len() < self.slice.numbers.len() {
                self.slice.wanted.resize(self.slice.numbers.len(), false);
            }
            if self.slice.wanted.get_mut(number as usize).is_none_or(|wanted| std::mem::replace(wanted, true)) {
                continue;
            }
            let mut at = self.definitions.last.get(number as usize).copied().unwrap_or(END);
            while let Some(&(index, before)) = self.definitions.all.get(at as usize) {
                at = before;
                let Some(site) = self.graph.sites.get(index) else { continue };
                if self.inside.get_mut(index).is_none_or(|inside| std::mem::replace(inside, true)) {
                    continue;
                }
                self.observe(index, site, Kind::Reads);
                self.want_guard(site);
                self.slice.instructions.push(index);
            }
        }
    }

    fn finish(self) -> Slice {
        let mut slice = self.slice;
        slice.instructions.sort_unstable();
        let count = slice.numbers.len();
        slice.wanted.resize(count, false);
        slice.written.resize(count, 0);
        for (index, at) in self.place.iter_enumerated().filter(|(_, at)| **at != END) {
            slice.observed.push((index, slice.uses.len() as u32));
            slice.uses.extend(self.known.get(*at as usize).into_iter().flatten());
        }
        slice.observed.push((SiteId::new(self.place.len()), slice.uses.len() as u32));
        slice
    }
}
