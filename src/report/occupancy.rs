//! How many blocks of a kernel an SM holds, as far as its launch is known.
//!
//! In: a kernel's resources, what its directives say of a launch and what the user or a compiler's cache says. Out: an [`Occupancy`]
//! that says nothing which a figure that is not known could overturn.

use std::collections::{HashMap, HashSet};

use super::join::LaunchHints;
use super::memory::MemoryMaps;
use super::model::{Launch, LaunchFact, Occupancy, OccupancyStep, Resources, SmemRange};
use crate::base::hardware::{SmLimits, WARP_SIZE};
use crate::base::{Arch, Threads};
use crate::cubin::{self, ElfKind, Image};
use crate::ptx::{self, FunctionKind, Linkage, StateSpace};
use crate::registers::occupancy::{self, Limiter, RegisterStep};

/// What is known of a launch.
struct Launched<'a> {
    /// What the directives say.
    pub launch: &'a Launch,
    /// What the user or a compiler's cache says.
    pub hints: LaunchHints,
    /// Whether the kernel takes, or may take, dynamic shared memory.
    pub takes_dynamic_smem: bool,
    /// Dynamic shared memory that constants of the PTX touch.
    pub smem_dynamic_least: Option<u64>,
    /// Columns of tensor memory that a block holds at once.
    pub tmem_columns: Option<u32>,
}

/// Everything that decides how many blocks of a kernel an SM holds. Reports, tables of libraries and matrices all ask with it, so that they
/// say the same of the same kernel.
pub(super) struct Source<'a, 'k> {
    /// The cubin.
    pub image: &'a Image<'a>,
    /// The kernel in it.
    pub function: &'a cubin::Function<'a>,
    /// The kernel's PTX, where it is at hand.
    pub ptx: Option<&'k ptx::Function<'k, 'k>>,
    /// What the cubin and ptxas's log say that it needs.
    pub resources: &'a Resources,
    /// What the directives say.
    pub launch: &'a Launch,
    /// What the user or a compiler's cache says.
    pub hints: LaunchHints,
    /// The maps of its memory, where they were made.
    pub memory: Option<&'a MemoryMaps>,
}

impl Source<'_, '_> {
    /// How many blocks an SM holds, as far as it is known.
    pub fn occupancy(&self) -> Option<Occupancy> {
        let takes_dynamic_smem = match self.ptx {
            Some(kernel) => ptx_takes_dynamic_smem(kernel),
            None => cubin_may_take_dynamic_smem(self.image, self.function),
        };
        let least = self.memory.and_then(|maps| maps.shared.as_ref()?.dynamic_least_bytes);
        let launched = Launched {
            launch: self.launch,
            hints: self.hints,
            takes_dynamic_smem,
            smem_dynamic_least: least,
            tmem_columns: tmem_columns(self.ptx, self.memory),
        };
        occupancy_of(self.image.arch, self.resources, &launched)
    }

    /// Whether what an execution shows of the kernel's memory could change the answer: how much dynamic shared memory it touches at least,
    /// where nobody says how much there is, and how many columns of tensor memory it holds.
    pub fn asks_memory(&self) -> bool {
        let Some(kernel) = self.ptx.filter(|kernel| kernel.is_definition()) else { return false };
        let text = body_text(kernel);
        self.hints.smem_dynamic_bytes.is_none() && ptx_takes_dynamic_smem(kernel) || text.contains("tcgen05.alloc")
    }
}

/// Most rows of a table by dynamic shared memory: an SM holds at most 32 blocks.
const MOST_RANGES: u32 = 32;

/// How many blocks an SM holds; none when the registers or the hardware are not known.
fn occupancy_of(arch: Arch, resources: &Resources, launched: &Launched<'_>) -> Option<Occupancy> {
    let Launched { launch, hints, .. } = launched;
    // A launch of another size than .reqntid fails.
    let required = Launch { maxntid: None, ..(*launch).clone() }.threads();
    // So does one of more than .maxntid.
    let asked = hints.threads.map(Threads::count).filter(|asked| launch.threads().is_none_or(|most| *asked <= most));
    let threads = required.or(asked).or(launch.threads());
    let smem_dynamic = hints.smem_dynamic_bytes.or((!launched.takes_dynamic_smem).then_some(0));
    let cluster = launch.cluster.map_or(Some(1), |[x, y, z]| x.checked_mul(y)?.checked_mul(z));
    let mut missing = Vec::new();
    missing.extend(threads.is_none().then_some(LaunchFact::Threads));
    missing.extend(smem_dynamic.is_none().then_some(LaunchFact::SmemDynamic));
    let least = launched.smem_dynamic_least.filter(|least| smem_dynamic.is_none() && *least > 0);
    let limits = SmLimits::of(arch)?;
    let tmem_columns = launched.tmem_columns.filter(|_| limits.tensor_columns.is_some());
    let unknown = Occupancy {
        threads,
        smem_dynamic_bytes: smem_dynamic,
        smem_dynamic_least_bytes: least,
        tmem_columns,
        missing,
        blocks_per_sm: None,
        warps_per_sm: None,
        max_warps_per_sm: limits.warps,
        limiter: None,
        limiters: Vec::new(),
        next_step: None,
        next_step_tried: None,
        cliff: None,
        by_smem_dynamic: Vec::new(),
    };
    let asked = occupancy::Launch {
        threads: threads.unwrap_or(0),
        registers: resources.registers?,
        smem_static: resources.smem_bytes?,
        smem_dynamic: smem_dynamic.or(least).unwrap_or(0),
        barriers: resources.barriers.unwrap_or(0),
        cluster: cluster?,
        tmem_columns: tmem_columns.unwrap_or(0),
        ..occupancy::Launch::default()
    };
    if threads.is_none() {
        // The smallest block tells what no block can have.
        let least = occupancy::Launch { threads: WARP_SIZE, ..asked };
        let found = occupancy::occupancy(arch, &least).ok()?;
        let by_smem = found.blocks_per_sm == 0 && found.limiters.contains(&Limiter::SharedMemory);
        let limiters: Vec<String> = found.limiters.iter().map(ToString::to_string).collect();
        return Some(match by_smem {
            true => Occupancy {
                blocks_per_sm: Some(0),
                warps_per_sm: Some(0),
                limiter: limiters.first().cloned(),
                limiters,
                ..unknown
            },
            false => unknown,
        });
    }
    let found = occupancy::occupancy(arch, &asked).ok()?;
    let limiters: Vec<String> = found.limiters.iter().map(ToString::to_string).collect();
    if smem_dynamic.is_none() && found.blocks_per_sm > 0 {
        let by_smem_dynamic = by_smem_dynamic(arch, &asked);
        // Where only one block ever fits, every launch that can run has it.
        let sure = (found.blocks_per_sm == 1).then_some(1);
        let warps_per_sm = sure.map(|_| found.warps_per_sm);
        // More dynamic shared memory takes no limit away.
        let limiters = if sure.is_some() { limiters } else { Vec::new() };
        let limiter = limiters.first().cloned();
        return Some(Occupancy { blocks_per_sm: sure, warps_per_sm, limiter, limiters, by_smem_dynamic, ..unknown });
    }
    let step = |step: RegisterStep| OccupancyStep { registers: step.registers, blocks_per_sm: step.blocks_per_sm };
    Some(Occupancy {
        blocks_per_sm: Some(found.blocks_per_sm),
        warps_per_sm: Some(found.warps_per_sm),
        limiter: Some(found.limiter.to_string()),
        limiters,
        next_step: found.next_step.map(step),
        cliff: found.cliff.map(step),
        ..unknown
    })
}

/// The blocks that fit as dynamic shared memory grows, down to one block and the most it can have.
fn by_smem_dynamic(arch: Arch, launch: &occupancy::Launch) -> Vec<SmemRange> {
    let mut ranges: Vec<SmemRange> = Vec::new();
    let mut smem_dynamic = launch.smem_dynamic;
    for _ in 0..MOST_RANGES {
        let Ok(found) = occupancy::occupancy(arch, &occupancy::Launch { smem_dynamic, ..launch.clone() }) else {
            break;
        };
        // Nothing but the last size makes no cliff: beyond it there is no launch.
        let Some(cliff) = found.cliff_smem.filter(|_| found.blocks_per_sm > 0) else { break };
        let most = cliff.smem.saturating_sub(1).saturating_sub(launch.smem_static);
        ranges.push(SmemRange { smem_dynamic_bytes: most, blocks_per_sm: found.blocks_per_sm });
        smem_dynamic = most + 1;
    }
    ranges
}

/// Whether a kernel's PTX names dynamic shared memory: an `.extern .shared` array of open size, or its size. A kernel that calls
/// counts what the functions name that it can come to.
pub(crate) fn ptx_takes_dynamic_smem(kernel: &ptx::Function<'_, '_>) -> bool {
    let module = kernel.module();
    let open: Vec<&str> = module
        .variables()
        .filter(|found| found.space == StateSpace::Shared && found.linkage == Some(Linkage::Extern))
        .flat_map(|found| found.names().filter(move |name| found.bytes(name).is_none()).map(|name| name.name))
        .collect();
    let names = |function: &ptx::Function<'_, '_>| {
        let text = body_text(function);
        has_word(text, "%dynamic_smem_size")
            || open.iter().any(|name| has_word(text, name))
            || function.declarations(StateSpace::Shared).any(|(_, found)| found.linkage == Some(Linkage::Extern))
    };
    names(kernel) || callees(kernel).iter().any(names)
}

/// The functions that a kernel can come to: those that it calls, and they in turn; every one that is no kernel where a call goes through
/// a register.
fn callees<'m, 'a>(kernel: &ptx::Function<'m, 'a>) -> Vec<ptx::Function<'m, 'a>> {
    let module = kernel.module();
    let mut callable: HashMap<&str, ptx::Function<'m, 'a>> = HashMap::new();
    let mut found: Vec<ptx::Function<'m, 'a>> = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut looked_at = 0;
    let mut next = Some(*kernel);
    while let Some(caller) = next {
        let calls = caller.body().iter().filter(|statement| {
            statement.instruction(module.text()).is_some_and(|instruction| instruction.opcode().starts_with("call"))
        });
        for call in calls {
            if callable.is_empty() {
                let functions = module.functions().filter(|function| function.kind() == FunctionKind::Func);
                callable.extend(functions.map(|function| (function.name(), function)));
            }
            let mut called: Vec<_> = call.words(module.text()).filter_map(|word| callable.get(word).copied()).collect();
            if called.is_empty() {
                return module.functions().filter(|function| function.kind() == FunctionKind::Func).collect();
            }
            called.retain(|function| seen.insert(function.name()));
            found.append(&mut called);
        }
        next = found.get(looked_at).copied();
        looked_at += 1;
    }
    found
}

fn body_text<'a>(function: &ptx::Function<'_, 'a>) -> &'a str {
    let (Some(first), Some(last)) = (function.body().first(), function.body().last()) else { return "" };
    function.module().text().get(first.span().start..last.span().end).unwrap_or("")
}

/// Whether a text has this name, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
    let alone = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    };
    text.match_indices(word).any(|(at, _)| alone(at))
}

/// Columns of tensor memory that a block of a kernel holds at once: as the map has it, or else the largest allocation that the text has
/// as a number.
fn tmem_columns(kernel: Option<&ptx::Function<'_, '_>>, memory: Option<&MemoryMaps>) -> Option<u32> {
    let mapped =
        memory.and_then(|maps| maps.tensor.as_ref()?.allocated).and_then(|columns| u32::try_from(columns).ok());
    let module = kernel?.module();
    let instructions = kernel?.body().iter().filter_map(|statement| statement.instruction(module.text()));
    let allocs = instructions.filter(|found| found.opcode().starts_with("tcgen05.alloc"));
    let numbers = allocs.filter_map(|found| u32::try_from(found.operand(1)?.value()?).ok());
    mapped.or_else(|| numbers.max())
}

/// Whether a kernel of a cubin may take dynamic shared memory. A cubin does not tell the two kinds apart where there is static shared
/// memory, and one that still has to be linked does not tell at all.
fn cubin_may_take_dynamic_smem(image: &Image<'_>, function: &cubin::Function<'_>) -> bool {
    function.resources.has_smem_section || image.kind == ElfKind::Relocatable
}

#[cfg(test)]
mod tests;
