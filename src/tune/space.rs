//! What can be tried with a kernel, the most promising first, and what cannot, with the reason.

use serde::Serialize;

use super::edit::{self, Edit, RoleSet};
use super::{Change, FastCompile, Trial};
use crate::base::Arch;
use crate::base::hardware::MAX_NAMED_REGISTERS;
use crate::ptx::Function;
use crate::registers::cap;
use crate::registers::occupancy::{self, register_table};
use crate::report::Kernel;

/// What is known of a kernel before anything is tried.
pub struct Facts<'a> {
    /// The kernel's PTX.
    pub function: Function<'a, 'a>,
    /// Its report as it is.
    pub kernel: &'a Kernel,
    /// What it is built for.
    pub arch: Arch,
    /// Threads of a block, where the user or a compiler's cache says.
    pub threads: Option<u32>,
    /// Bytes of shared memory asked for at launch, where the user or a compiler's cache says.
    pub smem_dynamic: Option<u64>,
    /// How many ptxas there are to choose from.
    pub releases: usize,
    /// Whether all of them can put flags above the directives of the PTX.
    pub can_override: bool,
    /// Whether the file has kernels beside this one, which flags change, too.
    pub has_others: bool,
    /// The user's own flags, which stay as they are.
    pub flags: &'a [String],
    /// Files for `--apply-controls`, which the user gives.
    pub controls: &'a [String],
}

/// Something that may help and was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// What.
    pub change: String,
    /// Why it was not tried, and what it would take.
    pub reason: String,
}

/// The changes that can be tried.
#[derive(Clone, Debug, Default)]
pub struct Space {
    changes: Vec<Change>,
    releases: usize,
    /// What is offered and not tried.
    pub suggestions: Vec<Suggestion>,
}

/// Loops, functions and blocks that are tried at most.
const MOST_LOOPS: usize = 32;
const MOST_FUNCTIONS: usize = 12;
const MOST_BLOCKS: u32 = 8;
/// Registers below which no kernel is held.
const FEWEST: u32 = 24;
/// Registers are given to threads in portions of this many.
const PORTION: u32 = 8;

impl Space {
    /// Changes that somebody chose, one ptxas.
    pub fn of_changes(changes: Vec<Change>) -> Self {
        Space { changes, releases: 1, suggestions: Vec::new() }
    }

    /// What can be tried with a kernel.
    pub fn new(facts: &Facts<'_>) -> Self {
        let mut space = Space { releases: facts.releases, ..Space::default() };
        let steps = register_steps(facts);
        let spills = facts.kernel.resources.spill_store_bytes.is_none_or(|bytes| bytes > 0);
        space.changes.extend(facts.controls.iter().cloned().map(Change::Controls));
        let levels = (0..=10).filter(|level| *level != 5).map(Change::RegisterUsageLevel);
        space.changes.extend(levels);
        space.changes.extend([1, 2].map(Change::OptLevel));
        space.changes.extend(steps.iter().map(|count| registers(facts, *count)));
        if spills {
            let launch_bytes = facts.smem_dynamic.and_then(|bytes| u32::try_from(bytes).ok());
            let beside = launch_bytes.map(Edit::SpillBesideShared);
            let beside = beside.filter(|edit| edit.splices(&facts.function).is_ok());
            space.add(facts, beside.unwrap_or(Edit::SpillToShared));
        }
        let budgets = budgets(facts).into_iter().map(Edit::Budgets);
        let budgets = budgets.filter(|edit| edit.splices(&facts.function).is_ok());
        space.changes.extend(budgets.map(Change::Edit));
        let mut loops = edit::headers(&facts.function);
        loops.sort_by_key(|header| (std::cmp::Reverse(header.depth), header.line));
        loops.truncate(MOST_LOOPS);
        space.changes.extend(loops.iter().map(|header| Change::Edit(Edit::NoUnroll(header.line))));
        space.add_directives(facts);
        space.changes.extend([
            Change::NoExpensiveOptimizations,
            Change::FastCompile(FastCompile::Min),
            Change::FastCompile(FastCompile::Mid),
            Change::FastCompile(FastCompile::Max),
            Change::NoOptimizerConstants,
            Change::KeepBlocks,
        ]);
        for edit in [Edit::LoadsLate, Edit::FewestLive, Edit::Recompute] {
            if edit.splices(&facts.function).is_ok() {
                space.changes.push(Change::Edit(edit));
            }
        }
        let functions = edit::callees(&facts.function).take(MOST_FUNCTIONS);
        space.changes.extend(functions.map(|line| Change::Edit(Edit::NoInline(line))));
        let others = (FEWEST..MAX_NAMED_REGISTERS + 1).step_by(PORTION as usize).rev();
        let others = others.filter(|count| !steps.contains(count) && is_worth(facts, *count));
        space.changes.extend(others.map(|count| registers(facts, count)));
        space.changes.retain(|change| !is_given(change, facts.flags));
        space.suggest(facts);
        space
    }

    /// One trial for each, those that are likeliest to help first.
    pub fn singles(&self) -> Vec<Trial> {
        let releases = (1..self.releases).map(|ptxas| Trial { ptxas, changes: Vec::new() });
        releases.chain(self.changes.iter().cloned().map(Trial::single)).collect()
    }

    /// How many ptxas there are to choose from.
    pub fn releases(&self) -> usize {
        self.releases
    }

    /// The same trial with one of its changes a little different.
    pub fn neighbours(&self, trial: &Trial, at: usize) -> Vec<Trial> {
        let near = |count: u32| {
            let less = count.checked_sub(PORTION).filter(|less| *less >= FEWEST);
            let more = Some(count + PORTION).map(|more| more.min(MAX_NAMED_REGISTERS)).filter(|more| *more > count);
            less.into_iter().chain(more)
        };
        let next: Vec<Change> = match trial.changes.get(at) {
            Some(Change::MaxRegisters(count)) => near(*count).map(Change::MaxRegisters).collect(),
            Some(Change::Edit(Edit::MaxNReg(count))) => {
                near(*count).map(|count| Change::Edit(Edit::MaxNReg(count))).collect()
            }
            // The levels were all tried alone: what is better together is near.
            Some(Change::RegisterUsageLevel(level)) => {
                let near = [level.checked_sub(1), Some(level + 1)].into_iter().flatten();
                near.filter(|level| *level <= 10 && *level != 5).map(Change::RegisterUsageLevel).collect()
            }
            _ => Vec::new(),
        };
        next.into_iter().map(|change| trial.with(change)).collect()
    }

    /// An edit, or why it is not tried.
    fn add(&mut self, facts: &Facts<'_>, edit: Edit) {
        match edit.splices(&facts.function) {
            Ok(_) => self.changes.push(Change::Edit(edit)),
            Err(edit::Refused::NothingToChange) => {}
            Err(refused) => self.suggestions.push(Suggestion { change: edit.to_string(), reason: refused.to_string() }),
        }
    }

    fn add_directives(&mut self, facts: &Facts<'_>) {
        let header = facts.function.header();
        let launch = &facts.kernel.launch;
        if let Some(threads) = launch.threads() {
            let now = header.min_blocks_per_sm();
            // Of what more blocks leave to a thread, less than half of what it has only spills.
            let leaves = |count: u32| cap::by_directives(None, threads, Some(count));
            let is_of_use = |count: &u32| Some(*count) != now && (*count == 1 || is_worth(facts, leaves(*count)));
            let blocks = (1..=MOST_BLOCKS).filter(is_of_use);
            self.changes.extend(blocks.map(|count| Change::Edit(Edit::MinBlocks(count))));
            return;
        }
        match facts.threads {
            Some(threads) => self.changes.push(Change::Edit(Edit::MaxThreads(threads))),
            None => self.suggestions.push(Suggestion {
                change: ".maxntid, .minnctapersm".to_owned(),
                reason: "a launch of more threads than .maxntid says fails: give --threads N, and both are tried"
                    .to_owned(),
            }),
        }
    }

    fn suggest(&mut self, facts: &Facts<'_>) {
        let fuses = facts.function.instructions().any(|located| {
            let instruction = located.instruction;
            instruction.mnemonic() == "mul"
                && (instruction.has("f32") || instruction.has("f64"))
                && !instruction.has("rn")
        });
        if fuses {
            self.suggestions.push(Suggestion {
                change: "--fmad=false".to_owned(),
                reason: "it rounds otherwise: results would not be the same".to_owned(),
            });
        }
    }
}

/// The change that holds a kernel to so many registers: a flag where that changes this kernel alone and rules.
fn registers(facts: &Facts<'_>, count: u32) -> Change {
    let ruled = facts.kernel.launch != crate::report::Launch::default();
    if facts.has_others || ruled && !facts.can_override {
        Change::Edit(Edit::MaxNReg(count))
    } else {
        Change::MaxRegisters(count)
    }
}

/// Counts at which one block more or fewer fits, and the most there are; those near what the kernel has first.
fn register_steps(facts: &Facts<'_>) -> Vec<u32> {
    let occupancy = facts.kernel.occupancy.as_ref();
    let threads = occupancy.and_then(|found| found.threads);
    let asked = threads.map(|threads| occupancy::Launch {
        threads,
        registers: facts.kernel.resources.registers.unwrap_or(FEWEST),
        smem_static: facts.kernel.resources.smem_bytes.unwrap_or(0),
        smem_dynamic: occupancy.and_then(|found| found.smem_dynamic_bytes).unwrap_or(0),
        barriers: facts.kernel.resources.barriers.unwrap_or(0),
        ..occupancy::Launch::default()
    });
    let table = asked.and_then(|asked| register_table(facts.arch, &asked).ok()).unwrap_or_default();
    let mut steps: Vec<u32> = table
        .iter()
        .filter(|range| range.blocks_per_sm > 0)
        .map(|range| range.to)
        .filter(|to| is_worth(facts, *to))
        .collect();
    if threads.is_none() {
        steps.push(MAX_NAMED_REGISTERS);
    }
    let now = facts.kernel.resources.registers.unwrap_or(0);
    steps.sort_by_key(|count| (count.abs_diff(now), *count));
    steps.dedup();
    steps
}

/// Whether to hold a kernel to so many registers can matter: less than half of what it needs only spills.
fn is_worth(facts: &Facts<'_>, count: u32) -> bool {
    let now = facts.kernel.resources.registers.unwrap_or(0);
    let spills = facts.kernel.resources.spill_store_bytes.is_none_or(|bytes| bytes > 0);
    count >= FEWEST.max(now / 2) && (spills || count < now)
}

/// Splits of the pool that setmaxnreg deals out, where every role sets its budget once and its warps are known.
fn budgets(facts: &Facts<'_>) -> Vec<Vec<u32>> {
    let (Some(sets), Some(roles)) = (&facts.kernel.setmaxnreg, &facts.kernel.roles) else { return Vec::new() };
    let of = |(at, requested): (usize, &crate::report::RequestedRegisters)| {
        let role = roles.iter().find(|role| role.entry_ptx_line == Some(requested.ptx_line))?;
        let takes = requested.action == "inc";
        (role.budgets.len() == 1).then_some(RoleSet { at, warps: role.warps?, takes })
    };
    let Some(sets) = sets.requested.iter().enumerate().map(of).collect::<Option<Vec<RoleSet>>>() else {
        return Vec::new();
    };
    let threads = facts.kernel.occupancy.as_ref().and_then(|found| found.threads);
    let Some((threads, launched)) = threads.zip(facts.kernel.resources.registers) else { return Vec::new() };
    edit::splits(&sets, launched, threads.div_ceil(crate::base::hardware::WARP_SIZE))
}

/// Whether the user's own flags say the same already.
fn is_given(change: &Change, flags: &[String]) -> bool {
    let names = change.flags(false);
    let Some(name) = names.first().and_then(|flag| flag.split('=').next()) else { return false };
    let short = match change {
        Change::OptLevel(_) => "-O",
        Change::RegisterUsageLevel(_) => "-regUsageLevel",
        Change::FastCompile(_) => "-Ofc",
        _ => name,
    };
    let is_same = |flag: &String| {
        let given = flag.split('=').next().unwrap_or(flag);
        given == name || given.trim_start_matches('-') == name.trim_start_matches('-') || given.starts_with(short)
    };
    flags.iter().any(is_same)
}
