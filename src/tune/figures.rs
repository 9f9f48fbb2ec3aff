//! The figures of a trial: what the table shows, and what builds are compared by.

use serde::Serialize;

use super::turns::{Turns, step};
use crate::report::{Kernel, KernelKind, Spill};

/// How often a loop of the PTX is taken to turn, where nobody knows: an instruction counts ten times as much for each loop around it, as in
/// Chaitin's estimate of what a spill costs ("Register allocation and spilling via graph coloring", 1982).
pub const LOOP_TURNS: u64 = 10;

/// What a build of a kernel needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TrialFigures {
    /// Losses of performance that ptxas itself warns of: `wgmma` that is serialised, and the like.
    pub losses: u64,
    /// Registers a thread.
    pub registers: Option<u32>,
    /// The most that are live at once.
    pub peak_live: Option<u32>,
    /// Spill stores and refills inside loops; null where they cannot be told from other local memory.
    pub spills_in_loops: Option<u64>,
    /// The same, each as often as it runs where every loop of the PTX turns ten times, at least once.
    pub spills_weighted: Option<u64>,
    /// Registers put aside in shared memory and brought back, inside loops: with `spill-to-shared`, and otherwise 0.
    pub shared_spills_in_loops: Option<u64>,
    /// Bytes of all spill stores and refills, functions that are called included.
    pub spill_bytes: Option<u64>,
    /// Static shared memory, with what is spilt there.
    pub smem_bytes: Option<u64>,
    /// Blocks an SM holds; null where the launch is not known.
    pub blocks_per_sm: Option<u32>,
    /// Warps an SM holds.
    pub warps_per_sm: Option<u32>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Instructions that a thread runs where every loop of the PTX turns ten times, however often ptxas unrolled it; null where code that is
    /// called counts, of which nobody knows how often it runs.
    pub instructions_weighted: Option<u64>,
    /// Cycles of an SM for a block, by an estimate; null where nobody measured the architecture, or the launch is not known.
    pub cycles_per_block: Option<u64>,
}

impl TrialFigures {
    /// Those of a kernel of a unit that was built for it alone; functions that it calls are among the others. `spills_to_shared` says that
    /// ptxas was told to spill to shared memory: what it marks as a spill and is no access of local memory is one of that then. `turns` says
    /// how often loops turn.
    pub fn of(kernel: &Kernel, others: &[Kernel], spills_to_shared: bool, turns: Option<&Turns>) -> Self {
        let called: Vec<&Kernel> = others.iter().filter(|other| other.kind == KernelKind::Func).collect();
        let in_loops = |found: &&Spill| found.loop_depth.unwrap_or(0) > 0;
        let is_local = |found: &Spill| found.kind.is_some() || !spills_to_shared;
        let is_known = |found: &Spill| found.loop_depth.is_some() && (found.kind.is_some() || spills_to_shared);
        let all = kernel.spills.as_ref().filter(|all| all.iter().all(is_known));
        let known: Option<Vec<&Spill>> = all.map(|all| all.iter().filter(|spill| is_local(spill)).collect());
        let shared = all.map(|all| all.iter().filter(|spill| !is_local(spill)).filter(in_loops).count() as u64);
        let called_spill = called.iter().any(|other| bytes(other) != Some(0));
        let in_kernel = known.as_ref().filter(|_| !called_spill);
        let occupancy = kernel.occupancy.as_ref();
        let parts = kernel.code_parts.as_ref().zip(turns);
        // A spill in what an unrolled loop leaves over runs, too.
        let runs = |spill: &&Spill| {
            let part = parts.and_then(|(parts, turns)| Some(turns.of_part(parts.part_at(spill.pc)?)));
            part.map_or(LOOP_TURNS, |turns| turns.round().max(1.0) as u64)
        };
        TrialFigures {
            losses: 0,
            registers: kernel.resources.registers,
            peak_live: kernel.pressure.as_ref().map(|pressure| pressure.gpr.peak),
            spills_in_loops: in_kernel.map(|all| all.iter().copied().filter(in_loops).count() as u64),
            spills_weighted: in_kernel.map(|all| all.iter().copied().filter(in_loops).map(|spill| runs(&spill)).sum()),
            shared_spills_in_loops: shared,
            spill_bytes: called
                .iter()
                .try_fold(bytes(kernel), |sum, other| Some(Some(sum? + bytes(other)?)))
                .unwrap_or_default()
                .or_else(|| known.as_ref().filter(|_| called.is_empty()).map(|all| sum_bytes(all))),
            smem_bytes: kernel.resources.smem_bytes,
            blocks_per_sm: occupancy.and_then(|found| found.most_blocks_per_sm()),
            warps_per_sm: occupancy.and_then(|found| found.most_warps_per_sm()),
            instructions: called
                .iter()
                .try_fold(kernel.instructions.count(), |sum, other| Some(Some(sum? + other.instructions.count()?)))
                .unwrap_or_default(),
            instructions_weighted: parts
                .filter(|_| called.is_empty())
                .and_then(|(parts, turns)| turns.instructions(parts)),
            // Functions that are called have cycles that nobody knows.
            cycles_per_block: parts.filter(|_| called.is_empty()).and_then(|(parts, turns)| turns.cycles(parts)),
        }
    }

    /// Whether it spills nowhere.
    pub fn is_free_of_spills(&self) -> bool {
        self.spill_bytes == Some(0)
    }

    /// What is compared, less is better: losses that ptxas warns of, spills in loops, spilt bytes, blocks that do not fit, cycles of a block
    /// as far as they can be told apart, instructions by loops, registers. Registers count only where the blocks that they leave room for are not known: what else would fewer of them be for?
    pub fn costs(&self) -> [u64; 7] {
        let or_worst = |value: Option<u64>| value.unwrap_or(u64::MAX);
        [
            self.losses,
            or_worst(self.spills_weighted),
            or_worst(self.spill_bytes),
            self.blocks_per_sm.map_or(0, |blocks| u64::from(u32::MAX - blocks)),
            or_worst(self.cycles_per_block.map(step)),
            or_worst(self.instructions_weighted),
            if self.blocks_per_sm.is_some() { 0 } else { or_worst(self.registers.map(u64::from)) },
        ]
    }

    /// Whether it is nowhere worse than another, and somewhere better.
    pub fn beats(&self, other: &TrialFigures) -> bool {
        let (own, theirs) = (self.costs(), other.costs());
        own != theirs && own.iter().zip(&theirs).all(|(own, theirs)| own <= theirs)
    }
}

fn sum_bytes(spills: &[&Spill]) -> u64 {
    spills.iter().filter_map(|spill| spill.bytes).map(u64::from).sum()
}

/// Bytes that a function spills, as ptxas says; of those that it adds by itself, as for a division of 64 bits, it says nothing, and what
/// its code marks stands for it.
fn bytes(of: &Kernel) -> Option<u64> {
    let resources = &of.resources;
    if let (Some(stored), Some(loaded)) = (resources.spill_store_bytes, resources.spill_load_bytes) {
        return Some(stored + loaded);
    }
    let marked = of.spills.as_deref().filter(|_| of.kind == KernelKind::Func)?;
    marked.iter().map(|spill| spill.bytes.map(u64::from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Resources;

    #[test]
    fn functions_that_ptxas_adds_do_not_hide_what_a_kernel_spills() {
        let spilling = |stored, spills| Kernel {
            resources: Resources { spill_store_bytes: stored, spill_load_bytes: stored, ..Resources::default() },
            spills,
            ..Kernel::default()
        };
        let kernel = spilling(Some(8), Some(Vec::new()));
        let added = Kernel { kind: KernelKind::Func, ..spilling(None, Some(Vec::new())) };
        let unread = Kernel { kind: KernelKind::Func, ..spilling(None, None) };
        let figures = |others: &[Kernel]| TrialFigures::of(&kernel, others, false, None);
        let found = figures(std::slice::from_ref(&added));
        assert_eq!((found.spill_bytes, found.spills_in_loops), (Some(16), Some(0)));
        assert_eq!(figures(&[added, unread]).spill_bytes, None);
    }

    #[test]
    fn what_is_not_known_beats_nothing() {
        let known = TrialFigures { spill_bytes: Some(8), spills_weighted: Some(0), ..TrialFigures::default() };
        let unknown = TrialFigures { spill_bytes: None, spills_weighted: Some(0), ..TrialFigures::default() };
        assert!(known.beats(&unknown) && !unknown.beats(&known) && !known.beats(&known));
    }
}
