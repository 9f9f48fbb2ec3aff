//! Flags: memory that one thread writes and another waits for, and the scopes in which they hear of each other.
//!
//! In: loops that do nothing but load and compare. Such a loop ends only because somebody else writes; a weak load may be done once for all
//! of its turns, and a scope must have both sides in it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::base::{FastMap, FastSet, Line, work};
use crate::ptx::{Instruction, MbarrierAction, Operand, Operation, Register, type_bits};
use crate::simt::{Block, BlockId, Edge, Graph, Root, Site, SiteId, Warps, dataflow};
use crate::sync::DataTouched;
use crate::sync::execute::footprint::{OBJECT, Touched};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;
use crate::sync::value::Basis;

/// Rounds in which origins of registers are followed.
const MAX_ROUNDS: usize = 4;
/// Stores into other blocks that are followed to an arrival.
const MAX_STORES: usize = 16;
/// Instructions of a loop that waits, at most.
const MAX_SPIN: usize = 24;
/// Branches that are asked whether they tell blocks apart.
const MAX_BRANCHES: usize = 16;
/// The bit of what tells blocks apart.
const BLOCK: u64 = 1;
/// The bit of what memory brings.
const LOADED: u64 = 1 << 63;

/// Checks the flags of a kernel.
pub fn check(warps: &Warps<'_>) -> Vec<Finding> {
    let mut checks = Vec::new();
    remote_arrivals(warps, &mut checks);
    checks.extend(narrow_handover(warps));
    let graph = &warps.graph;
    if graph.calls || !graph.complete {
        return checks;
    }
    let acquires =
        |site: &Site<'_>| site.located.instruction.mnemonic() == "ld" && site.located.instruction.has("acquire");
    let acquired = graph.sites.iter_enumerated().filter(|(index, site)| acquires(site) && graph.is_in_a_loop(*index));
    checks.extend(acquired.take(MAX_STORES).find_map(|(index, _)| in_part(warps, index)));
    let spins = spins(graph);
    let narrow: Vec<&Site<'_>> = graph.sites.iter().filter(|site| is_narrow_atomic(site)).collect();
    if spins.is_empty() && narrow.is_empty() {
        return checks;
    }
    let origins = Origins::of(graph);
    checks.extend(narrow.into_iter().find_map(|site| of_all_blocks(&origins, graph, site)));
    for spin in spins {
        let Some(site) = graph.sites.get(spin.load) else { continue };
        let strength = Strength::of(site);
        if strength == Strength::Weak {
            checks.push(likely(
                Rule::FlagStrong,
                site.line(),
                "a loop waits for memory to change, and reads it with a weak load".to_owned(),
                "nothing in the loop changes what it loads: a weak load may be done once for all turns, so it may never see the write; \
                 ld.acquire or ld.relaxed, with the scope of who writes",
            ));
        }
        checks.extend(given_back_weakly(warps, spin.load));
        let is_global = |site: &Site<'_>| site.located.instruction.has("global");
        if !is_global(site) || !origins.differs_by_block(graph, site.block) {
            continue;
        }
        if strength == (Strength::Strong { within_block: true }) {
            checks.push(likely(
                Rule::ScopeReaches,
                site.line(),
                "a flag that another block sets is waited for with the scope of one block".to_owned(),
                ".cta has the threads of one block in it, and which block a thread is in decides whether it waits here: .gpu, or .cluster \
                 within a cluster",
            ));
        }
        let of_flag = origins.address(graph, site) & !(BLOCK | LOADED);
        let writes = graph.sites.iter().filter(|site| is_global(site) && writes_flag(site));
        checks.extend(set_weakly(warps, &origins, (spin.load, of_flag)));
        for write in writes.filter(|write| origins.address(graph, write) & of_flag != 0) {
            if Strength::of(write) == (Strength::Strong { within_block: true }) {
                checks.push(likely(
                    Rule::ScopeReaches,
                    write.line(),
                    format!("a flag that another block waits for, at line {}, is set with the scope of one block", site.line()),
                    ".cta has the threads of one block in it, and which block a thread is in decides whether it waits there: .gpu, or \
                     .cluster within a cluster",
                ));
            }
        }
    }
    checks
}

fn likely(rule: Rule, line: Line, message: String, reasoning: &str) -> Finding {
    Finding { rule, confidence: Confidence::Likely, line, message, reasoning: reasoning.to_owned() }
}

/// Arrivals at an mbarrier of another block that say that they are for their own.
fn remote_arrivals(warps: &Warps<'_>, checks: &mut Vec<Finding>) {
    for (index, site) in warps.graph.sites.iter_enumerated() {
        if site.located.instruction.has("cta") && remote_arrival(warps, index, site) {
            checks.push(likely(
                Rule::ScopeReaches,
                site.line(),
                "an arrival at the mbarrier of another block has the scope of its own".to_owned(),
                "who waits is in another block: what was written before is told to it with .cluster only",
            ));
        }
    }
}

/// Waits for mbarriers that other blocks arrive at, and which say that they hear of their own block alone: those that an execution sees
/// both at.
pub fn narrow_waits(warps: &Warps<'_>, touched: &DataTouched) -> Vec<Finding> {
    let line_of = |found: &Touched| touched.program.code.get(found.pc).map(|instr| instr.line);
    let places = |at: Line| {
        let is_there = move |touched: &&Touched| touched.operand == OBJECT.0 && line_of(touched) == Some(at);
        let spans = touched.touched.iter().filter(is_there).flat_map(|touched| &touched.spans);
        spans.filter(|span| span.place == Basis::Fact).map(|span| span.start).collect::<FastSet<u64>>()
    };
    let sites = || warps.graph.sites.iter_enumerated();
    // Who announces bytes hands over nothing of its own: what the wait is for comes with the copies.
    let hands_over = |site: &Site<'_>| match site.operation {
        Operation::Mbarrier(mbarrier) => mbarrier.action != MbarrierAction::ArriveExpectTx,
        _ => false,
    };
    let arrivals = sites().filter(|(index, site)| hands_over(site) && remote_arrival(warps, *index, site));
    let remote: FastSet<u64> = arrivals.flat_map(|(_, site)| places(site.line())).collect();
    if remote.is_empty() {
        return Vec::new();
    }
    let waits = sites().filter(|(_, site)| match site.operation {
        Operation::Mbarrier(mbarrier) => {
            matches!(mbarrier.action, MbarrierAction::TryWait | MbarrierAction::TestWait)
                && site.located.instruction.has("cta")
        }
        _ => false,
    });
    let narrow = waits.filter(|(_, site)| !places(site.line()).is_disjoint(&remote));
    narrow
        .map(|(_, site)| {
            likely(
                Rule::ScopeReaches,
                site.line(),
                "a wait for an mbarrier that another block arrives at has the scope of its own".to_owned(),
                "who arrives is in another block: what it did before is heard of with .cluster only",
            )
        })
        .collect()
}

/// Whether an instruction arrives at an mbarrier of another block.
fn remote_arrival(warps: &Warps<'_>, index: SiteId, site: &Site<'_>) -> bool {
    let Operation::Mbarrier(mbarrier) = site.operation else { return false };
    let arrives =
        matches!(mbarrier.action, MbarrierAction::Arrive | MbarrierAction::ArriveDrop | MbarrierAction::ArriveExpectTx);
    mbarrier.address.filter(|_| arrives).is_some_and(|address| {
        warps.values.root(&warps.graph, index, address) == Some(Root::Mapped)
            && !warps.values.is_own(&warps.graph, index, address)
    })
}

/// Data that is stored into the memory of another block, and handed over at an mbarrier there with the scope of one block: by the arrival,
/// or by whoever waits for it.
fn narrow_handover(warps: &Warps<'_>) -> Option<Finding> {
    let graph = &warps.graph;
    let is_remote = |index: SiteId, operand: Operand<'_>| {
        warps.values.root(graph, index, operand) == Some(Root::Mapped) && !warps.values.is_own(graph, index, operand)
    };
    let wide =
        |site: &Site<'_>| site.located.instruction.modifiers().any(|word| matches!(word, "cluster" | "gpu" | "sys"));
    // A fence orders for whoever it reaches.
    if graph.sites.iter().any(|site| {
        matches!(site.operation, Operation::Fence { proxy: false })
            && wide(site)
            && !site.located.instruction.has("mbarrier_init")
    }) {
        return None;
    }
    let stores = graph.sites.iter_enumerated().filter(|(index, site)| {
        let address = || site.located.instruction.operand(0).filter(|operand| operand.address().is_some());
        site.located.instruction.mnemonic() == "st" && address().is_some_and(|operand| is_remote(*index, operand))
    });
    for (store, stored) in stores.take(MAX_STORES) {
        let mut arrivals: Vec<SiteId> = Vec::new();
        dataflow::walk(
            graph,
            store,
            |_| true,
            |index, site| match site.operation {
                Operation::ClusterBarrier { .. } => ControlFlow::Break(()),
                Operation::Mbarrier(mbarrier) => {
                    let address = mbarrier.address.filter(|_| mbarrier.action == MbarrierAction::Arrive);
                    arrivals.extend(address.filter(|address| is_remote(index, *address)).map(|_| index));
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Continue(()),
            },
        );
        for index in arrivals {
            let arrival = graph.sites.get(index)?;
            let Operation::Mbarrier(mbarrier) = arrival.operation else { continue };
            let Some(object) = mbarrier.address.and_then(|address| warps.values.identity(graph, index, address)) else {
                continue;
            };
            let waits = graph.sites.iter_enumerated().filter(|(at, site)| match site.operation {
                Operation::Mbarrier(mbarrier) => {
                    matches!(mbarrier.action, MbarrierAction::TryWait | MbarrierAction::TestWait)
                        && mbarrier.address.and_then(|address| warps.values.identity(graph, *at, address))
                            == Some(object)
                }
                _ => false,
            });
            let narrow = [arrival].into_iter().chain(waits.map(|(_, site)| site)).find(|site| !wide(site));
            if let Some(site) = narrow {
                let line = stored.line();
                return Some(likely(
                    Rule::ScopeReaches,
                    site.line(),
                    format!("hands over what line {line} stores into another block with the scope of one block"),
                    "without a scope an mbarrier's instruction has .cta, which has the threads of one block in it: both the arrival and the \
                     wait say .cluster",
                ));
            }
        }
    }
    None
}

/// Whether an instruction changes global memory at once for the threads of its own block alone.
fn is_narrow_atomic(site: &Site<'_>) -> bool {
    let instruction = site.located.instruction;
    matches!(instruction.mnemonic(), "atom" | "red") && instruction.has("global") && instruction.has("cta")
}

/// An atomic of one block's scope at an address that all blocks have: nothing but parameters, constants and the thread decide it.
fn of_all_blocks(origins: &Origins, graph: &Graph<'_>, site: &Site<'_>) -> Option<Finding> {
    let of = origins.address(graph, site);
    let is_of_all = of != 0 && of & (BLOCK | LOADED) == 0;
    // A kernel of one block asks for no block.
    let has_blocks = graph.sites.iter().any(|site| site.located.instruction.operands().any(|it| tells_grid(it.text())));
    (is_of_all && has_blocks && !origins.differs_by_block(graph, site.block)).then(|| {
        likely(
            Rule::ScopeReaches,
            site.line(),
            "all blocks change this memory, each with the scope of its own".to_owned(),
            "nothing in the address tells blocks apart, and .cta is atomic for the threads of one block alone: .gpu",
        )
    })
}

/// How an access is ordered with those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong {
        /// `.cta`
        within_block: bool,
    },
}

impl Strength {
    fn of(site: &Site<'_>) -> Strength {
        let instruction = site.located.instruction;
        let strong = ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv", "cg"];
        let is_atomic = matches!(instruction.mnemonic(), "atom" | "red");
        if is_atomic || instruction.modifiers().any(|word| strong.contains(&word)) {
            Strength::Strong { within_block: instruction.has("cta") }
        } else {
            Strength::Weak
        }
    }
}

fn writes_flag(site: &Site<'_>) -> bool {
    matches!(site.located.instruction.mnemonic(), "st" | "atom" | "red")
}

/// Whether an instruction takes a lock where it finds it free.
fn takes_a_lock(site: &Site<'_>) -> bool {
    let instruction = site.located.instruction;
    instruction.mnemonic() == "atom" && (instruction.has("cas") || instruction.has("exch"))
}

/// A weak store to the place that a loop asks for by an atomic until it is free.
fn given_back_weakly(warps: &Warps<'_>, load: SiteId) -> Option<Finding> {
    let graph = &warps.graph;
    let asked = graph.sites.get(load).filter(|site| takes_a_lock(site))?;
    let place = |index: SiteId, site: &Site<'_>, at: usize| {
        warps.values.identity(graph, index, site.located.instruction.operand(at)?)
    };
    let lock = place(load, asked, 1)?;
    let gives_back = |(index, site): &(SiteId, &Site<'_>)| {
        *index > load
            && site.located.instruction.mnemonic() == "st"
            && Strength::of(site) == Strength::Weak
            && place(*index, site, 0) == Some(lock)
    };
    let (_, site) = graph.sites.iter_enumerated().find(gives_back)?;
    Some(likely(
        Rule::FlagStrong,
        site.line(),
        format!("gives back what line {} waits for with a weak store", asked.line()),
        "a weak store races with the atomic of whoever waits, and orders nothing that was written before it: st.release, or atom.release, \
         with the scope of who waits",
    ))
}

/// A strong load of a flag whose strong writes, from the same base, all are of other widths: the two overlap in part.
fn in_part(warps: &Warps<'_>, load: SiteId) -> Option<Finding> {
    let graph = &warps.graph;
    let asked = graph.sites.get(load)?;
    let place = |index: SiteId, site: &Site<'_>, at: usize| {
        warps.values.identity(graph, index, site.located.instruction.operand(at)?)
    };
    let (base, _) = place(load, asked, 1)?;
    let width = |site: &Site<'_>| site.located.instruction.modifiers().filter_map(type_bits).last();
    let wide = width(asked).filter(|_| asked.located.instruction.mnemonic() == "ld")?;
    let is_vector =
        |site: &Site<'_>| site.located.instruction.modifiers().any(|word| matches!(word, "v2" | "v4" | "v8"));
    let writes = |(index, site): &(SiteId, &Site<'_>)| {
        let at = usize::from(site.located.instruction.mnemonic() == "atom");
        writes_flag(site) && place(*index, site, at).is_some_and(|(other, _)| other == base)
    };
    let written: Vec<&Site<'_>> = graph.sites.iter_enumerated().filter(writes).map(|(_, site)| site).collect();
    let differs = |site: &&Site<'_>| {
        Strength::of(site) != Strength::Weak && !is_vector(site) && width(site).is_some_and(|other| other != wide)
    };
    let first = written.first().filter(|_| !is_vector(asked) && written.iter().all(differs))?;
    let other = width(first)?;
    Some(likely(
        Rule::FlagStrong,
        asked.line(),
        format!("waits for {wide} bits where line {} writes {other} at once", first.line()),
        "accesses that overlap in part are not strong towards each other, whatever they say: a flag is written and read with one width",
    ))
}

/// A flag that other blocks wait for, set with a weak store: the only writes to what the loop's address is computed from, each of them in
/// another block's place. What the thread that waits writes to its own place only puts the flag back.
fn set_weakly(warps: &Warps<'_>, origins: &Origins, (load, of_flag): (SiteId, u64)) -> Option<Finding> {
    let graph = &warps.graph;
    let asked = graph.sites.get(load)?;
    let place = |index: SiteId, site: &Site<'_>| {
        site.located
            .instruction
            .operands()
            .find(|operand| operand.address().is_some())
            .and_then(|operand| warps.values.identity(graph, index, operand))
    };
    let polled = place(load, asked).filter(|_| origins.address(graph, asked) & LOADED == 0)?;
    let is_elsewhere = |site: &Site<'_>| {
        site.located
            .instruction
            .modifiers()
            .any(|word| word.starts_with("shared") || word.starts_with("param") || word == "local")
    };
    let writes: Vec<(SiteId, &Site<'_>)> = graph
        .sites
        .iter_enumerated()
        .filter(|(_, site)| writes_flag(site) && !is_elsewhere(site) && origins.address(graph, site) & of_flag != 0)
        .collect();
    let is_weak = |(index, site): &(SiteId, &Site<'_>)| {
        let of = origins.address(graph, site);
        Strength::of(site) == Strength::Weak
            && site.located.instruction.has("global")
            && of & BLOCK != 0
            && of & LOADED == 0
            && place(*index, site).is_some_and(|at| at != polled)
    };
    let (_, site) = writes.first().filter(|_| writes.iter().all(is_weak))?;
    Some(likely(
        Rule::FlagStrong,
        site.line(),
        format!("a flag that another block waits for, at line {}, is set with a weak store", asked.line()),
        "a weak store races with the load of whoever waits, and orders nothing that was written before it: st.release with the scope of \
         both, .gpu or .cluster",
    ))
}

/// Whether a kernel waits in a loop for what volatile accesses hand over.
pub(in crate::sync) fn polls(graph: &Graph<'_>) -> bool {
    let is_volatile = |site: &Site<'_>| site.located.instruction.has("volatile");
    graph.sites.iter().any(is_volatile)
        && spins(graph).iter().any(|spin| graph.sites.get(spin.load).is_some_and(is_volatile))
}

/// A loop that only waits.
struct Spin {
    /// The load that it ends by.
    load: SiteId,
}

/// The loops that load and compare, and nothing else: no turn differs from another but by what is loaded.
fn spins(graph: &Graph<'_>) -> Vec<Spin> {
    let mut blocks: BTreeMap<BlockId, Vec<BlockId>> = BTreeMap::new();
    for block in graph.blocks.ids() {
        if let Some(header) = graph.loop_of(block) {
            blocks.entry(header).or_default().push(block);
        }
    }
    blocks.values().filter_map(|blocks| spin(graph, blocks)).collect()
}

fn spin(graph: &Graph<'_>, blocks: &[BlockId]) -> Option<Spin> {
    let sites = || blocks.iter().flat_map(|block| graph.sites_of(*block));
    if sites().take(MAX_SPIN + 1).count() > MAX_SPIN {
        return None;
    }
    let written: FastSet<Register> = sites().flat_map(|(_, site)| graph.registers.written_by(&site.located)).collect();
    let (mut known, mut loaded): (FastSet<Register>, FastSet<Register>) = Default::default();
    let mut load = None;
    for (index, site) in sites() {
        let instruction = site.located.instruction;
        let is_load = instruction.mnemonic() == "ld" || takes_a_lock(site);
        match site.operation {
            Operation::Branch { .. } => {}
            Operation::Other if is_load || is_pure(instruction.mnemonic()) => {}
            _ => return None,
        }
        if is_load && (load.replace(index).is_some() || instruction.has("param") || instruction.has("local")) {
            return None;
        }
        let reads = || graph.registers.of(&site.located).filter(|used| !used.is_def).map(|used| used.register);
        // What a turn hands to the next counts, or moves on.
        if reads().any(|register| written.contains(&register) && !known.contains(&register)) {
            return None;
        }
        let follows = is_load || reads().any(|register| loaded.contains(&register));
        for register in graph.registers.written_by(&site.located) {
            known.insert(register);
            if follows {
                loaded.insert(register);
            }
        }
    }
    let is_within = |block: BlockId| blocks.contains(&block);
    let mut exits = blocks
        .iter()
        .filter_map(|block| graph.blocks.get(*block))
        .flat_map(|block| block.successors.iter().map(move |edge| (block, edge)))
        .filter(|(_, edge)| !is_within(edge.to));
    let by_load = |block: &Block, edge: &Edge| {
        let own = edge.when.map(|(register, _)| register);
        // The way that is left is taken where the other is not.
        let guards = block.successors.iter().filter_map(|edge| edge.when.map(|(register, _)| register));
        own.into_iter().chain(guards).any(|register| loaded.contains(&register))
    };
    let first = exits.next()?;
    let all = by_load(first.0, first.1) && exits.all(|(block, edge)| by_load(block, edge));
    all.then_some(Spin { load: load? })
}

/// Instructions that compute, and wait for nobody.
fn is_pure(mnemonic: &str) -> bool {
    matches!(
        mnemonic,
        "mov"
            | "setp"
            | "and"
            | "or"
            | "xor"
            | "not"
            | "add"
            | "sub"
            | "shl"
            | "shr"
            | "cvt"
            | "cvta"
            | "selp"
            | "nanosleep"
            | "lop3"
            | "prmt"
    )
}

/// What each register may be computed from: parameters of the kernel, a bit each, and what tells blocks apart.
struct Origins {
    of: FastMap<Register, u64>,
}

impl Origins {
    fn of(graph: &Graph<'_>) -> Origins {
        let mut names: FastMap<&str, u64> = FastMap::default();
        let mut of: FastMap<Register, u64> = FastMap::default();
        // What shared variables hold that tells blocks apart: a ticket that one thread has drawn for all of its block.
        let mut held: FastMap<&str, u64> = FastMap::default();
        for _ in 0..MAX_ROUNDS {
            work::spend_on(graph.sites.len());
            let mut changed = false;
            for site in &graph.sites {
                let instruction = site.located.instruction;
                let read = graph.registers.of(&site.located).filter(|used| !used.is_def);
                let mut bits = match (instruction.mnemonic(), instruction.has("param")) {
                    ("ld", true) => {
                        let name = instruction.operand(1).and_then(|operand| operand.address()?.base);
                        // Beyond 62 parameters several share a bit.
                        let next = (names.len() as u32 % 62) + 1;
                        name.map_or(0, |name| *names.entry(name).or_insert(BLOCK << next))
                    }
                    ("atom", false) if draws(&instruction) => LOADED | BLOCK,
                    ("ld", false) if instruction.has("shared") => {
                        let from = instruction.operand(1).and_then(|operand| operand.address()?.base);
                        LOADED | from.and_then(|name| held.get(name)).copied().unwrap_or(0)
                    }
                    // What is in memory is not where it is.
                    ("ld" | "atom", false) => LOADED,
                    _ => read.fold(0, |bits, used| bits | of.get(&used.register).copied().unwrap_or(0)),
                };
                if instruction.mnemonic() == "mov" {
                    if instruction.operands().any(|operand| tells_blocks(operand.text())) {
                        bits |= BLOCK;
                    }
                    // A variable that has a name is one for all blocks, as what a parameter points to is.
                    let named = instruction.operand(1).map(|operand| operand.text()).filter(|text| is_symbol(text));
                    if let Some(name) = named {
                        let next = (names.len() as u32 % 62) + 1;
                        bits |= *names.entry(name).or_insert(BLOCK << next);
                    }
                }
                if instruction.mnemonic() == "st" && instruction.has("shared") && bits & BLOCK != 0 {
                    let to = instruction.operand(0).and_then(|operand| operand.address()?.base);
                    if let Some(to) = to.filter(|to| is_symbol(to)) {
                        changed |= held.insert(to, BLOCK) != Some(BLOCK);
                    }
                }
                if bits == 0 {
                    continue;
                }
                for register in graph.registers.written_by(&site.located) {
                    let known = of.entry(register).or_default();
                    changed |= *known | bits != *known;
                    *known |= bits;
                }
            }
            if !changed {
                break;
            }
        }
        Origins { of }
    }

    /// What the address of an access may be computed from.
    fn address(&self, graph: &Graph<'_>, site: &Site<'_>) -> u64 {
        let operand = site.located.instruction.operands().find_map(|operand| operand.address());
        let base = operand.and_then(|address| graph.registers.resolve(address.base?, site.located.id));
        base.and_then(|register| self.of.get(&register).copied()).unwrap_or(0)
    }

    /// Whether some branch that tells blocks apart decides whether a place is reached.
    fn differs_by_block(&self, graph: &Graph<'_>, place: BlockId) -> bool {
        let is_of_block = |register: Register| self.of.get(&register).is_some_and(|bits| bits & BLOCK != 0);
        let branches = graph.blocks.iter().filter(|block| {
            block.successors.len() > 1
                && block.successors.iter().any(|edge| edge.when.is_some_and(|(register, _)| is_of_block(register)))
        });
        let leads = |from: BlockId| {
            work::spend_on(graph.sites.len() / 8);
            let next = |block: BlockId, ways: &mut Vec<BlockId>| {
                ways.extend(graph.blocks.get(block).iter().flat_map(|block| &block.successors).map(|edge| edge.to));
            };
            from == place || dataflow::reached(graph.blocks.len(), [from], next).get(place).copied().unwrap_or(false)
        };
        branches.take(MAX_BRANCHES).any(|block| {
            let mut ways = block.successors.iter().map(|edge| leads(edge.to));
            let first = ways.next();
            ways.any(|way| Some(way) != first)
        })
    }
}

/// Whether an instruction draws a number that nobody else draws: what it leaves in global memory is another one.
fn draws(instruction: &Instruction<'_>) -> bool {
    instruction.has("global") && (instruction.has("add") || instruction.has("inc"))
}

/// Whether something is asked of a grid that a grid of one block need not be asked.
fn tells_grid(text: &str) -> bool {
    tells_blocks(text) || text.starts_with("%nctaid")
}

/// Whether an operand is the name of a variable.
fn is_symbol(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '$')
}

fn tells_blocks(text: &str) -> bool {
    ["%ctaid", "%cluster_ctaid", "%cluster_ctarank", "%clusterid", "%smid"].iter().any(|name| text.starts_with(name))
}
