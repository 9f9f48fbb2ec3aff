//! Loops of other roles that share the tensor cores, or do the same, with a loop: what they put on the machine counts, too.
//!
//! How often another role's loop comes around is in nobody's schedule. Roles that share the work turn by turn (two warp groups that multiply
//! every other tile) make a turn each: that is assumed of the loops that do about as much a turn, is told, and of no others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Costs, SCHEDULERS, Teller};
use crate::base::{Line, Pc};
use crate::cost::{self, Load, Part, Pipe, Progress, Turn, Warps};
use crate::graph::LoopId;

/// A loop that other warps of the block run at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopBeside {
    /// Its first instruction.
    pub pc: Pc,
    /// The PTX line of that.
    pub ptx_line: Option<Line>,
    /// The role that runs it.
    pub role: String,
    /// Warps of that role on each scheduler.
    pub warps_per_scheduler: u8,
}

/// The same, as an estimate takes it.
pub(super) struct Beside {
    pub told: LoopBeside,
    /// The way through it that is taken.
    pub turn: Turn,
}

/// Loops that do this many times as much a turn as the other, at most, are taken to make a turn each.
const ALIKE: f64 = 2.0;

/// The tensor cores.
const TENSOR: [Part; 2] = [Part::Pipe(Pipe::WarpGroup), Part::Pipe(Pipe::Tensor)];

impl Teller<'_> {
    /// The roles that run code that no other does.
    pub(super) fn roles_of(&self, turn: &Turn) -> BTreeSet<usize> {
        let line = |&(index, _): &(u32, bool)| self.section.ptx_line(Pc(index * 16));
        let own = |line: Line| self.kernel.role_of_line.get(&line).copied();
        turn.instructions.iter().filter_map(line).filter_map(own).collect()
    }

    /// What other roles run beside a loop: one loop for each of them.
    pub(super) fn beside(&self, id: LoopId, turn: &Turn) -> Vec<Beside> {
        let all = self.kernel.roles.as_deref().unwrap_or_default();
        let roles = if all.len() > 1 { self.roles_of(turn) } else { BTreeSet::new() };
        // Who names a number of warps asks for that many of this loop.
        let is_asked = matches!(self.asked, Costs::Asked { warps, .. } if warps != 0);
        let blocks = self.kernel.occupancy.as_ref().and_then(|found| found.blocks_per_sm);
        let (false, false, Some(blocks)) = (roles.is_empty(), is_asked, blocks) else { return Vec::new() };
        let depth = |id: LoopId| self.code.loops().loops.get(id).map(|found| found.depth);
        let mut best: BTreeMap<usize, (f64, LoopId, Turn)> = BTreeMap::new();
        for other in self.code.loops().loops.ids() {
            if depth(other) != depth(id) || self.progress.get(other) != Some(&Progress::Repeats) {
                continue;
            }
            let Some(turns) = cost::turns(self.code, other) else { continue };
            let way = turns.longest.unwrap_or(turns.shortest);
            let mut theirs = self.roles_of(&way).into_iter();
            let (Some(role), None) = (theirs.next(), theirs.next()) else { continue };
            if roles.contains(&role) {
                continue;
            }
            let Some(ratio) = self.times_as_much(turn, &way) else { continue };
            // A role may have a loop for whole tiles and one for the last: the one that is most like it.
            if best.get(&role).is_none_or(|(known, ..)| ratio < *known) {
                best.insert(role, (ratio, other, way));
            }
        }
        let told = |(role, (_, other, turn)): (usize, (f64, LoopId, Turn))| {
            let role = all.get(role)?;
            let header = self.code.loops().loops.get(other)?.header;
            let pc = Pc(self.code.cfg.blocks.get(header.0 as usize)?.start * 16);
            let warps = role.warps?.saturating_mul(blocks).div_ceil(SCHEDULERS).clamp(1, 16) as u8;
            let (ptx_line, role) = (self.section.ptx_line(pc), role.name.clone());
            Some(Beside { told: LoopBeside { pc, ptx_line, role, warps_per_scheduler: warps }, turn })
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
