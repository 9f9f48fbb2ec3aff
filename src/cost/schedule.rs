//! When each instruction issues, with one warp alone: the whole code, loop by loop and stretch by stretch.

use crate::base::Pc;
use crate::graph::BlockId;

use super::path::{self, Turn};
use super::simulate::Cause;
use super::{Estimate, Model, Wait, Warps, estimate};

/// Instructions that are issued at most for a section, all together.
const MOST_STEPS: u64 = 4_000_000;
/// Turns of a way that are executed, about.
const TURNS: u64 = 10;

/// When an instruction issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Cycles after the first instruction of its turn, or of the way through what is outside of loops.
    pub cycle: u32,
    /// Cycles since the instruction before it, why, and whom it waits for.
    pub wait: Wait,
}

/// When each instruction of the code issues; none where nobody can tell. Functions start at `entries`.
///
/// Of a loop it is the longest way through it, of what is outside of loops the longest way from an entry; what is on neither is executed block by
/// block, as if nothing were under way when it starts.
pub fn schedule(model: &Model<'_>, entries: &[Pc]) -> Vec<Option<Issue>> {
    let code = model.code;
    let mut all = Schedule { model, issues: vec![None; code.instructions().len()], steps: 0 };
    for id in code.loops().loops.ids() {
        if let Some(turns) = path::turns(code, id) {
            let ways = turns.longest.iter().chain([&turns.shortest]);
            ways.for_each(|way| all.add(way, true));
        }
    }
    let blocks = entries.iter().filter_map(|pc| code.cfg.block_at(*pc));
    for block in blocks.filter(|block| code.loops().of(*block).is_none()) {
        if let Some(way) = path::outside(code, block) {
            all.add(&way, false);
        }
    }
    for (at, block) in (0..).map(BlockId).zip(&code.cfg.blocks) {
        if (block.start..block.end).any(|index| matches!(all.issues.get(index as usize), Some(None))) {
            let falls = code.cfg.successors(at).all(|next| next.0 == at.0 + 1);
            let way = (block.start..block.end).map(|index| (index, index + 1 == block.end && !falls)).collect();
            all.add(&Turn { instructions: way }, false);
        }
    }
    all.issues
}

struct Schedule<'a> {
    model: &'a Model<'a>,
    issues: Vec<Option<Issue>>,
    steps: u64,
}

impl Schedule<'_> {
    /// Executes a way and keeps what was not known; `comes_back`: what a turn leaves under way the next one meets.
    fn add(&mut self, way: &Turn, comes_back: bool) {
        let is_known = |&(index, _): &(u32, bool)| self.issues.get(index as usize).is_none_or(Option::is_some);
        let steps = self.steps + way.instructions.len() as u64 * TURNS;
        if steps > MOST_STEPS || way.instructions.iter().all(is_known) {
            return;
        }
        self.steps = steps;
        let Some(Estimate { waits, .. }) = estimate(self.model, way, Warps::ALONE) else { return };
        let mut cycle = 0;
        for (place, (&(index, _), wait)) in way.instructions.iter().zip(&waits).enumerate() {
            let mut wait = *wait;
            // Whoever starts waits for nobody.
            if place == 0 && !comes_back {
                wait = Wait { cycles: 0, cause: Cause::Stall, producer: None, ..wait };
            }
            if place > 0 {
                cycle += wait.cycles;
            }
            let is_stale = !comes_back && matches!(wait.cause, Cause::Scoreboard(holder) if holder >= place);
            if let Some(issue @ None) = self.issues.get_mut(index as usize).filter(|_| !is_stale) {
                *issue = Some(Issue { cycle, wait });
            }
        }
    }
}
