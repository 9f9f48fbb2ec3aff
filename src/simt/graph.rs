//! Basic blocks of a PTX function.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use crate::base::{Id, IndexVec, Line, dense_id, work};
use crate::graph::{BlockId, Loop, Loops};
use crate::ptx::{self, Function, Located, Module, Operation, Register, Registers, StatementKind};

/// Place of an instruction among those of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

dense_id!(SiteId);

impl SiteId {
    /// The instruction where a function starts.
    pub const FIRST: SiteId = SiteId(0);

    /// The one after it in the text.
    pub fn after(self) -> SiteId {
        SiteId(self.0 + 1)
    }
}

/// An instruction in its block.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The instruction with its place.
    pub located: Located<'a>,
    /// What it does.
    pub operation: Operation<'a>,
    /// The predicate that guards it, and whether it runs where that is false.
    pub guard: Option<(Register, bool)>,
    /// Its block.
    pub block: BlockId,
}

impl Site<'_> {
    /// Its line, as ptxas counts.
    pub fn line(&self) -> Line {
        self.located.line
    }
}

/// A way out of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block it leads to.
    pub to: BlockId,
    /// The predicate that must hold, with the value that it must have; none for a way that is always open.
    pub when: Option<(Register, bool)>,
    /// Which entry of the table a `brx.idx` must choose.
    pub case: Option<u32>,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its first instruction.
    pub start: SiteId,
    /// One past its last.
    pub end: SiteId,
    /// Where it leads.
    pub successors: Vec<Edge>,
}

impl Block {
    /// Its last instruction.
    pub fn last(&self) -> SiteId {
        SiteId(self.end.0.saturating_sub(1))
    }
}

/// The instructions of a function and its blocks. The first block is where it starts.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    /// Instructions in the order of the text.
    pub sites: IndexVec<SiteId, Site<'a>>,
    /// Blocks in the order of the text.
    pub blocks: IndexVec<BlockId, Block>,
    /// Virtual registers.
    pub registers: Registers<'a>,
    /// Whether every branch has a target that was found.
    pub complete: bool,
    /// Whether it calls functions that may use barriers or asynchronous instructions: theirs are not looked at.
    pub calls: bool,
    loops: OnceLock<Loops>,
    uses_cluster: OnceLock<bool>,
}

/// Where labels are visible: a scope and the ones around it.
struct Scopes<'a> {
    parent: Vec<usize>,
    labels: HashMap<(usize, &'a str), SiteId>,
}

impl Scopes<'_> {
    fn resolve(&self, mut scope: usize, label: &str) -> Option<SiteId> {
        loop {
            work::spend(1);
            if let Some(&index) = self.labels.get(&(scope, label)) {
                return Some(index);
            }
            let outer = *self.parent.get(scope)?;
            if outer == scope {
                return None;
            }
            scope = outer;
        }
    }
}

impl<'a> Graph<'a> {
    /// The block where a function starts.
    pub const ENTRY: BlockId = BlockId(0);

    /// Whether something in it is about the other blocks of a cluster. Without its rank, or an address that mapa gives, a block comes
    /// to no other one's memory: what says .shared::cluster, or has that scope, is about its own.
    pub fn uses_cluster(&self) -> bool {
        *self.uses_cluster.get_or_init(|| self.names_cluster())
    }

    fn names_cluster(&self) -> bool {
        let names_rank = |site: &Site<'_>| {
            site.located.instruction.operands().any(|operand| operand.text().starts_with("%cluster_"))
        };
        let knows_rank = self.sites.iter().any(names_rank);
        self.sites.iter().any(|site| {
            let instruction = site.located.instruction;
            let in_pairs = || instruction.has("cta_group::2");
            match site.operation {
                Operation::ClusterBarrier { .. } | Operation::Mapa | Operation::ClusterLaunchControl => true,
                Operation::Bulk(_) => instruction.has("multicast::cluster") || in_pairs(),
                Operation::Mbarrier(_) | Operation::Tcgen05 { .. } => {
                    let names = instruction.modifiers().any(|word| word.contains("cluster"));
                    in_pairs()
                        || instruction.has("multicast::cluster")
                        || knows_rank && names && !instruction.has("shared::cta")
                }
                _ => false,
            }
        })
    }

    /// Whether it asks how many blocks there are, as loops over tiles do that go on by the size of the grid or of the cluster.
    pub fn asks_for_blocks(&self) -> bool {
        let names = ["%nctaid", "%nclusterid", "%cluster_nctaid", "%cluster_nctarank"];
        let counts = |text: &str| names.iter().any(|name| text.starts_with(name));
        self.sites.iter().any(|site| site.located.instruction.operands().any(|operand| counts(operand.text())))
    }

    /// Cuts a function into blocks.
    pub fn build(function: &Function<'_, 'a>) -> Graph<'a> {
        let registers = function.registers();
        let text = function.module().text();
        let mut scopes = Scopes { parent: vec![0], labels: HashMap::new() };
        let mut scope = 0;
        let mut scope_of: IndexVec<SiteId, usize> = IndexVec::default();
        for statement in function.body() {
            match statement.kind {
                StatementKind::ScopeOpen => {
                    scopes.parent.push(scope);
                    scope = scopes.parent.len() - 1;
                }
                StatementKind::ScopeClose => scope = scopes.parent.get(scope).copied().unwrap_or(0),
                StatementKind::Label => {
                    if let Some(name) = statement.label(text) {
                        scopes.labels.insert((scope, name), SiteId::new(scope_of.len()));
                    }
                }
                StatementKind::Instruction => {
                    scope_of.push(scope);
                }
                _ => {}
            }
        }
        // Most of the room that a graph takes: not twice as much, as growing would.
        let mut sites: Vec<Site<'a>> = Vec::with_capacity(scope_of.len());
        sites.extend(function.instructions().map(|located| {
            let guard = located
                .instruction
                .guard()
                .and_then(|guard| Some((registers.resolve(guard.register, located.id)?, guard.negated)));
            Site { located, operation: located.instruction.operation(), guard, block: Graph::ENTRY }
        }));
        let mut sites: IndexVec<SiteId, Site<'a>> = sites.into();
        let tables: HashMap<&str, Vec<String>> = function
            .tables()
            .map(|table| (table.label, table.targets().map(|name| name.into_owned()).collect()))
            .collect();

        // Where control can go from an instruction that ends a block.
        let mut complete = true;
        let mut targets: HashMap<SiteId, Vec<SiteId>> = HashMap::new();
        for (index, site) in sites.iter_enumerated() {
            let within = scope_of.get(index).copied().unwrap_or(0);
            let names: Vec<&str> = match site.operation {
                Operation::Branch { target: Some(target), .. } => vec![target],
                Operation::IndexedBranch { table: Some(table), .. } => {
                    tables.get(table).map(|names| names.iter().map(String::as_str).collect()).unwrap_or_default()
                }
                Operation::Branch { .. } | Operation::IndexedBranch { .. } => Vec::new(),
                _ => continue,
            };
            // Branches may share a table: all their ways are the product of both.
            work::spend_on(names.len() * 4);
            let found: Vec<SiteId> = names.iter().filter_map(|name| scopes.resolve(within, name)).collect();
            complete &= !found.is_empty() && found.len() == names.len();
            targets.insert(index, found);
        }
        let ends = |site: &Site<'_>| {
            matches!(
                site.operation,
                Operation::Branch { .. }
                    | Operation::IndexedBranch { .. }
                    | Operation::Return
                    | Operation::Exit
                    | Operation::Trap
            )
        };
        let mut leads: IndexVec<SiteId, bool> = IndexVec::filled(false, sites.len() + 1);
        leads[SiteId::FIRST] = true;
        for &index in scopes.labels.values().chain(targets.values().flatten()) {
            if let Some(lead) = leads.get_mut(index) {
                *lead = true;
            }
        }
        for (index, site) in sites.iter_enumerated() {
            if ends(site) {
                leads[index.after()] = true;
            }
        }
        let mut blocks: IndexVec<BlockId, Block> = IndexVec::default();
        let mut at = Graph::ENTRY;
        for (index, lead) in leads.iter_enumerated().take(sites.len()) {
            if *lead {
                at = blocks.push(Block { start: index, end: index, successors: Vec::new() });
            }
            if let (Some(block), Some(site)) = (blocks.get_mut(at), sites.get_mut(index)) {
                block.end = index.after();
                site.block = at;
            }
        }
        let mut ids = blocks.ids().peekable();
        while let Some(at) = ids.next() {
            let next = ids.peek().copied();
            let Some(last) = blocks.get(at).map(Block::last) else { continue };
            let Some(site) = sites.get(last) else { continue };
            let mut successors = Vec::new();
            // Unknown guards (`@%envreg`) leave both ways open.
            let guarded = site.located.instruction.guard().is_some();
            let taken = site.guard.map(|(register, negated)| (register, !negated));
            let not_taken = site.guard;
            if ends(site) {
                let indexed = matches!(site.operation, Operation::IndexedBranch { .. });
                for (case, index) in targets.get(&last).into_iter().flatten().enumerate() {
                    if let Some(to) = sites.get(*index).map(|site| site.block) {
                        successors.push(Edge { to, when: taken, case: indexed.then_some(case as u32) });
                    }
                }
                if guarded && let Some(to) = next {
                    successors.push(Edge { to, when: not_taken, case: None });
                }
            } else if let Some(to) = next {
                successors.push(Edge { to, when: None, case: None });
            }
            if let Some(block) = blocks.get_mut(at) {
                block.successors = successors;
            }
        }
        let called: BTreeSet<Option<&str>> = sites
            .iter()
            .filter_map(|site| match site.operation {
                Operation::Call => Some(site.located.instruction.call().callee),
                _ => None,
            })
            .collect();
        let calls = matter(function.module(), called);
        Graph { sites, blocks, registers, complete, calls, loops: OnceLock::new(), uses_cluster: OnceLock::new() }
    }

    /// The instructions of a block with their indices.
    pub fn sites_of(&self, block: BlockId) -> impl Iterator<Item = (SiteId, &Site<'a>)> {
        let none = SiteId::FIRST..SiteId::FIRST;
        let range = self.blocks.get(block).map_or(none, |block| block.start..block.end);
        self.sites.range_enumerated(range).inspect(|_| work::spend(1))
    }

    /// By block: those that lead to it.
    pub fn predecessors(&self) -> IndexVec<BlockId, Vec<BlockId>> {
        let mut before: IndexVec<BlockId, Vec<BlockId>> = IndexVec::filled(Vec::new(), self.blocks.len());
        for (at, block) in self.blocks.iter_enumerated() {
            work::spend_on(block.successors.len());
            for edge in &block.successors {
                if let Some(list) = before.get_mut(edge.to) {
                    list.push(at);
                }
            }
        }
        before
    }

    /// Whether an instruction can run more than once in a thread.
    pub fn is_in_a_loop(&self, index: SiteId) -> bool {
        let home = self.sites.get(index).map(|site| site.block);
        home.is_none_or(|home| self.loops().of(home).is_some())
    }

    /// The innermost loop around a block that every way into leads through its start, by that start.
    pub fn loop_of(&self, block: BlockId) -> Option<BlockId> {
        self.loops_around(block).find(|found| !found.irreducible).map(|found| found.header)
    }

    /// The blocks of that loop.
    pub fn innermost_loop(&self, block: BlockId) -> Option<Vec<BlockId>> {
        let start = self.loop_of(block)?;
        work::spend_on(self.blocks.len());
        let is_within = |block: &BlockId| self.loops_around(*block).any(|found| found.header == start);
        Some(self.blocks.ids().filter(is_within).collect())
    }

    /// The first blocks of the loops around a block, the innermost first.
    pub fn loop_headers_around(&self, block: BlockId) -> impl Iterator<Item = BlockId> {
        self.loops_around(block).filter(|found| !found.irreducible).map(|found| found.header)
    }

    fn loops_around(&self, block: BlockId) -> impl Iterator<Item = &Loop> {
        let loops = self.loops();
        let around = loops.around(block).inspect(|_| work::spend(1));
        around.filter_map(|id| loops.loops.get(id))
    }

    /// The first block of every loop that is entered there alone, with the loop's depth, 1 for an outermost one.
    pub fn loop_headers(&self) -> impl Iterator<Item = (BlockId, u32)> {
        self.loops().loops.iter().filter(|found| !found.irreducible).map(|found| (found.header, found.depth))
    }

    fn loops(&self) -> &Loops {
        self.loops.get_or_init(|| {
            let is_known = |to: &BlockId| to.index() < self.blocks.len();
            let known = |block: &Block| block.successors.iter().map(|edge| edge.to).filter(is_known).collect();
            let successors: IndexVec<BlockId, Vec<BlockId>> = self.blocks.iter().map(known).collect();
            let next = |block: BlockId| successors.get(block).map_or(&[][..], Vec::as_slice);
            Loops::of_graph(successors.len(), if successors.is_empty() { &[] } else { &[Graph::ENTRY] }, &next)
        })
    }
}

/// Functions of the runtime that neither wait for other threads nor touch barriers.
const HARMLESS: &[&str] = &["vprintf", "__assertfail", "malloc", "free", "__nv_printf"];

/// A kernel's text with the functions that it calls in the places of the calls, where they have instructions that the questions about warps ask
/// for; none where there are none, or where that cannot be done.
pub fn with_callees(function: &Function<'_, '_>) -> Option<String> {
    let module = function.module();
    ptx::inlined(function, &|callee| matter(module, BTreeSet::from([Some(callee)])))
}

/// Whether calls may lead to instructions that the questions about warps ask for.
fn matter(module: &Module<'_>, called: BTreeSet<Option<&str>>) -> bool {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let Some(open) = called.into_iter().map(|name| name.map(str::to_owned)).collect::<Option<Vec<String>>>() else {
        return true;
    };
    let mut open = open;
    while let Some(name) = open.pop() {
        work::spend(1);
        if HARMLESS.contains(&name.as_str()) || !seen.insert(name.clone()) {
            continue;
        }
        // One that is elsewhere, or in a register, may do anything.
        let Some(called) = module.function(&name).filter(|found| found.is_definition()) else {
            return true;
        };
        for located in called.instructions() {
            match located.instruction.operation() {
                Operation::Call => match located.instruction.call().callee {
                    Some(name) => open.push(name.to_owned()),
                    None => return true,
                },
                Operation::SetMaxNReg { .. }
                | Operation::NamedBarrier(_)
                | Operation::ClusterBarrier { .. }
                | Operation::Mbarrier(_)
                | Operation::Wgmma(_)
                | Operation::Tcgen05 { .. }
                | Operation::CpAsync(_)
                | Operation::Bulk(_)
                | Operation::Exit => return true,
                _ => {}
            }
        }
    }
    false
}
