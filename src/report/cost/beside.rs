//! Loops of other roles that share the tensor cores, or do the same, with a loop: what they put on the machine counts, too.
//!
//! How often another role's loop comes around is in nobody's schedule. Roles that share the work turn by turn (two warp groups that multiply
//! every other tile) make a turn each: that is assumed of the loops that do about as much a turn, is told, and of no others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Costs, SCHEDULERS, Teller};
use crate::base::figures::ranges;
use crate::base::{Line, Pc};
use crate::cost::{self, Load, Part, Pipe, Progress, Turn, Turns, Warps};
use crate::graph::LoopId;

/// A loop that other warps of the block run at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopBeside {
    /// Its first instruction.
    pub pc: Pc,
    /// The PTX line of that.
    pub ptx_line: Option<Line>,
    /// The role that runs it; null where it has none of its own.
    pub role: Option<String>,
    /// The warps of a block that run it: `4-7`; null where only their number is known.
    pub warp_ids: Option<String>,
    /// How many of them are on each scheduler.
    pub warps_per_scheduler: u8,
}

/// The same, as an estimate takes it.
pub(super) struct Beside {
    pub told: LoopBeside,
    /// The ways through it: its shortest beside the shortest, its longest beside the longest.
    pub turns: Turns,
}

/// Loops that do this many times as much a turn as the other, at most, are taken to make a turn each.
const ALIKE: f64 = 2.0;

/// The tensor cores.
const TENSOR: [Part; 2] = [Part::Pipe(Pipe::WarpGroup), Part::Pipe(Pipe::Tensor)];

/// Who runs a loop, where not all warps of a block do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Runners {
    /// The warps, bit by bit, where the branches tell them.
    which: Option<u32>,
    /// The roles, by their numbers.
    roles: BTreeSet<usize>,
    /// How many warps.
    pub count: u32,
}

impl Runners {
    /// Whether nobody runs both.
    fn is_apart(&self, other: &Runners) -> bool {
        match (self.which, other.which) {
            (Some(one), Some(other)) => one & other == 0,
            _ => self.roles.is_disjoint(&other.roles),
        }
    }
}

impl Teller<'_> {
    /// Who runs a loop; none where all warps of a block may, or where how many do is not known.
    pub(super) fn runners(&self, turn: &Turn) -> Option<Runners> {
        let all = self.kernel.roles.as_ref().filter(|roles| roles.len() > 1);
        let lines = || turn.instructions.iter().filter_map(|&(index, _)| self.section.ptx_line(Pc(index * 16)));
        let own = |line: Line| self.kernel.role_of_line.get(&line).copied();
        let roles: BTreeSet<usize> = lines().filter_map(own).collect();
        // Some instructions come from lines that all warps run, and some are for one warp alone: most are for those that run the loop.
        let mut seen: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for line in lines() {
            *seen.entry(self.kernel.warps_of_line.get(&line).copied()).or_default() += 1;
        }
        let most = seen.into_iter().max_by_key(|(which, times)| (*times, *which));
        if let Some((Some(which), _)) = most {
            return Some(Runners { which: Some(which), roles, count: which.count_ones() });
        }
        let sizes: Option<Vec<u32>> = roles.iter().map(|role| all?.get(*role)?.warps).collect();
        let count = sizes?.iter().sum();
        (count > 0).then_some(Runners { which: None, roles, count })
    }

    /// What other warps run beside a loop: one loop for each group of them.
    pub(super) fn beside(&self, id: LoopId, turn: &Turn) -> Vec<Beside> {
        // Who names a number of warps asks for that many of this loop.
        let is_asked = matches!(self.asked, Costs::Asked { warps, .. } if warps != 0);
        let blocks = self.kernel.occupancy.as_ref().and_then(|found| found.blocks_per_sm);
        let (false, Some(blocks), Some(own)) = (is_asked, blocks, self.runners(turn)) else { return Vec::new() };
        let depth = |id: LoopId| self.code.loops().loops.get(id).map(|found| found.depth);
        let mut best: BTreeMap<Runners, (f64, LoopId, Turns)> = BTreeMap::new();
        for other in self.code.loops().loops.ids() {
            if depth(other) != depth(id) || self.progress.get(other) != Some(&Progress::Repeats) {
                continue;
            }
            let Some(turns) = cost::turns(self.code, other) else { continue };
            let way = turns.longest.as_ref().unwrap_or(&turns.shortest);
            let Some(theirs) = self.runners(way).filter(|theirs| theirs.is_apart(&own)) else { continue };
            let Some(ratio) = self.times_as_much(turn, way) else { continue };
            // Warps may have a loop for whole tiles and one for the last: the one that is most like it.
            if best.get(&theirs).is_none_or(|(known, ..)| ratio < *known) {
                best.insert(theirs, (ratio, other, turns));
            }
        }
        let told = |(runners, (_, other, turns)): (Runners, (f64, LoopId, Turns))| {
            let header = self.code.loops().loops.get(other)?.header;
            let pc = Pc(self.code.cfg.blocks.get(header.0 as usize)?.start * 16);
            let role = |role: &usize| Some(self.kernel.roles.as_ref()?.get(*role)?.name.clone());
            let which = runners.which.map(|which| (0..32).filter(|warp| which >> warp & 1 == 1).collect::<Vec<u32>>());
            let told = LoopBeside {
                pc,
                ptx_line: self.section.ptx_line(pc),
                role: runners.roles.first().filter(|_| runners.roles.len() == 1).and_then(role),
                warp_ids: which.map(|which| ranges(&which)),
                warps_per_scheduler: runners.count.saturating_mul(blocks).div_ceil(SCHEDULERS).clamp(1, 16) as u8,
            };
            Some(Beside { told, turns })
        };
        best.into_iter().filter_map(told).collect()
    }

    /// How many times as much one of two loops does a turn as the other, on the tensor cores where either works there, else in instructions; none
    /// where they are not alike.
    fn times_as_much(&self, one: &Turn, other: &Turn) -> Option<f64> {
        let model = self.model();
        let work = |turn: &Turn| cost::work(&model, turn, Warps::ALONE);
        let on_tensor = |loads: &[Load]| -> Option<f64> {
            loads.iter().find(|load| TENSOR.contains(&load.part)).map(|load| load.busy)
        };
        let ratio = |one: f64, other: f64| (one / other).max(other / one);
        let alike = match (on_tensor(&work(one)), on_tensor(&work(other))) {
            (Some(one), Some(other)) => ratio(one, other),
            (None, None) if !self.shape(one, 1).is_empty() && self.shape(one, 1) == self.shape(other, 1) => {
                ratio(one.instructions.len() as f64, other.instructions.len() as f64)
            }
            _ => return None,
        };
        (alike <= ALIKE).then_some(alike)
    }
}
