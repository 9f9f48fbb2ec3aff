//! The builds that no other beats (the Pareto front), and the best for what a user is after.

use serde::Serialize;

use super::{TrialFigures, Tried, is_faster};

/// What somebody may be after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// No spills in loops.
    NoSpillsInLoops,
    /// No spills at all.
    NoSpills,
    /// One more block on an SM.
    OneMoreBlock,
    /// The fewest instructions, those in loops counted more.
    FewestInstructions,
    /// The least cycles of an SM for a block, by an estimate.
    LeastCycles,
}

impl Aim {
    /// All of them, in the order that they are told.
    pub const ALL: [Aim; 5] =
        [Aim::NoSpillsInLoops, Aim::NoSpills, Aim::OneMoreBlock, Aim::FewestInstructions, Aim::LeastCycles];

    /// As the head of a line.
    pub fn words(self) -> &'static str {
        match self {
            Aim::NoSpillsInLoops => "no spills in loops",
            Aim::NoSpills => "no spills",
            Aim::OneMoreBlock => "one more block",
            Aim::FewestInstructions => "fewest instructions",
            Aim::LeastCycles => "least cycles",
        }
    }

    /// Whether a kernel has it as it is; none where that is not known.
    pub fn is_met(self, now: &TrialFigures) -> Option<bool> {
        match self {
            Aim::NoSpillsInLoops => now.spills_in_loops.map(|count| count == 0),
            Aim::NoSpills => now.spill_bytes.map(|bytes| bytes == 0),
            Aim::OneMoreBlock => now.blocks_per_sm.map(|_| false),
            Aim::FewestInstructions => now.instructions_weighted.map(|_| false),
            Aim::LeastCycles => now.cycles_per_block.map(|_| false),
        }
    }

    /// Whether a build reaches it, against the kernel as it is.
    pub fn is_reached(self, build: &TrialFigures, now: &TrialFigures) -> bool {
        match self {
            Aim::NoSpillsInLoops => build.spills_in_loops == Some(0),
            Aim::NoSpills => build.spill_bytes == Some(0),
            Aim::OneMoreBlock => build.blocks_per_sm.zip(now.blocks_per_sm).is_some_and(|(new, old)| new > old),
            Aim::FewestInstructions => {
                build.instructions_weighted.zip(now.instructions_weighted).is_some_and(|(new, old)| new < old)
            }
            Aim::LeastCycles => {
                build.cycles_per_block.zip(now.cycles_per_block).is_some_and(|(new, old)| is_faster(new, old))
            }
        }
    }

    /// What decides between two builds for this aim, less is better; what ptxas itself calls a loss weighs most.
    pub fn key(self, build: &TrialFigures) -> [u64; 7] {
        let [losses, in_loops, bytes, blocks, cycles, instructions, registers] = build.costs();
        match self {
            Aim::NoSpillsInLoops => [losses, in_loops, blocks, cycles, instructions, bytes, registers],
            Aim::NoSpills => [losses, bytes, in_loops, blocks, cycles, instructions, registers],
            // More blocks that spill in loops are no gain.
            Aim::OneMoreBlock => [losses, in_loops, bytes, cycles, instructions, blocks, registers],
            Aim::FewestInstructions => [losses, instructions, in_loops, bytes, cycles, blocks, registers],
            Aim::LeastCycles => {
                [build.cycles_per_block.unwrap_or(u64::MAX), losses, in_loops, bytes, instructions, blocks, registers]
            }
        }
    }
}

/// The best build for an aim among those that reach it; of equals the simplest.
pub fn best<'t>(aim: Aim, tried: &'t [Tried], now: &TrialFigures) -> Option<&'t Tried> {
    let reached = tried.iter().filter(|one| one.figures().is_some_and(|figures| aim.is_reached(figures, now)));
    reached.min_by_key(|one| (one.figures().map(|figures| aim.key(figures)), one.trial.complexity(), &one.trial))
}

/// The build that comes closest to an aim that none reaches, where it comes closer than the kernel as it is.
pub fn closest<'t>(aim: Aim, tried: &'t [Tried], now: &TrialFigures) -> Option<&'t Tried> {
    let [now_losses, now_first, ..] = aim.key(now);
    let is_closer = |figures: &TrialFigures| {
        let [losses, first, ..] = aim.key(figures);
        losses <= now_losses && first < now_first
    };
    let closer = tried.iter().filter(|one| one.figures().is_some_and(is_closer));
    let found =
        closer.min_by_key(|one| (one.figures().map(|figures| aim.key(figures)), one.trial.complexity(), &one.trial));
    found.filter(|_| matches!(aim, Aim::NoSpillsInLoops | Aim::NoSpills))
}

/// The builds that no other beats, one of each set of figures: the simplest.
pub fn front(tried: &[Tried]) -> Vec<&Tried> {
    let mut built: Vec<(&Tried, &TrialFigures)> = tried.iter().filter_map(|one| Some((one, one.figures()?))).collect();
    built.sort_by_key(|(one, figures)| (figures.costs(), figures.registers, one.trial.complexity(), &one.trial));
    built.dedup_by_key(|(_, figures)| figures.costs());
    // In this order a build is beaten only by one that comes before it.
    let mut kept: Vec<(&Tried, &TrialFigures)> = Vec::new();
    for (one, figures) in built {
        if !kept.iter().any(|(_, other)| other.beats(figures)) {
            kept.push((one, figures));
        }
    }
    kept.into_iter().map(|(one, _)| one).collect()
}
