//! Ways through a loop.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{BlockId, LoopId};
use crate::registers::code::Code;

/// Blocks of a loop that are looked at: beyond them it has no estimate.
const MOST_BLOCKS: usize = 4096;

/// One way through a loop: its instructions in the order in which they issue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Each instruction, and whether it is a branch that is taken.
    pub instructions: Vec<(u32, bool)>,
}

/// The shortest and the longest way through a loop's own blocks, those of inner loops left out.
pub(super) fn turns(code: &Code, id: LoopId) -> Option<super::Turns> {
    let header = code.loops().loops.get(id)?.header;
    let inner = code.loops().loops.iter().filter(|found| found.parent == Some(id)).count() as u32;
    crate::base::work::check_time();
    let ways = Ways { code, id: Some(id), header };
    let shortest = ways.way(false)?;
    let longest = ways.way(true).filter(|way| *way != shortest);
    Some(super::Turns { shortest, longest, inner })
}

/// The longest way from a block to the end of the code, the blocks of loops left out.
pub(super) fn outside(code: &Code, from: BlockId) -> Option<Turn> {
    crate::base::work::check_time();
    Ways { code, id: None, header: from }.way(true)
}

struct Ways<'a> {
    code: &'a Code,
    /// The loop; none for what is outside of loops.
    id: Option<LoopId>,
    /// Where a way starts; in a loop also where it ends.
    header: BlockId,
}

impl Ways<'_> {
    /// Instructions of a block that count: those of inner loops do not.
    fn length(&self, block: BlockId) -> u64 {
        let inside = self.code.loops().of(block) == self.id;
        let found = &self.code.cfg.blocks[block.0 as usize];
        if inside { u64::from(found.end - found.start) } else { 0 }
    }

    /// The way with the fewest or the most instructions from the header back to it. Edges that run back are not followed but to the header, so
    /// that what is left has no circle and one pass in reverse order of the blocks' postorder decides.
    fn way(&self, most: bool) -> Option<Turn> {
        let order = self.order()?;
        // The best rest of a way from each block, and where it goes on.
        let mut best: BTreeMap<BlockId, (u64, Option<BlockId>)> = BTreeMap::new();
        for &block in &order {
            let mut found: Option<(u64, Option<BlockId>)> = None;
            for next in self.code.cfg.successors(block) {
                let rest = if next == self.header && self.id.is_some() {
                    (0, None)
                } else {
                    match best.get(&next) {
                        Some(&(rest, _)) => (rest, Some(next)),
                        None => continue,
                    }
                };
                let is_better = found.is_none_or(|(known, _)| if most { rest.0 > known } else { rest.0 < known });
                if is_better {
                    found = Some(rest);
                }
            }
            let is_end = self.id.is_none() && self.code.cfg.successors(block).next().is_none();
            if let Some((rest, next)) = found.or(is_end.then_some((0, None))) {
                best.insert(block, (rest + self.length(block), next));
            }
        }
        let mut instructions = Vec::new();
        let mut at = Some(self.header);
        while let Some(block) = at {
            let &(_, next) = best.get(&block)?;
            let found = &self.code.cfg.blocks[block.0 as usize];
            if self.code.loops().of(block) == self.id {
                let goes_to = next.or(self.id.map(|_| self.header));
                let falls = goes_to.is_none_or(|to| to.0 == block.0 + 1);
                instructions.extend((found.start..found.end).map(|index| (index, index + 1 == found.end && !falls)));
            }
            at = next;
        }
        (!instructions.is_empty()).then_some(Turn { instructions })
    }

    /// Blocks of the loop, each after those that it leads to, edges back aside; none where there are too many.
    fn order(&self) -> Option<Vec<BlockId>> {
        let mut seen: BTreeSet<BlockId> = BTreeSet::new();
        let mut order = Vec::new();
        let mut stack = vec![(self.header, false)];
        while let Some((block, done)) = stack.pop() {
            if done {
                order.push(block);
                continue;
            }
            if !seen.insert(block) {
                continue;
            }
            if seen.len() > MOST_BLOCKS {
                return None;
            }
            stack.push((block, true));
            for next in self.code.cfg.successors(block) {
                if next != self.header && self.is_inside(next) && !seen.contains(&next) {
                    stack.push((next, false));
                }
            }
        }
        Some(order)
    }

    fn is_inside(&self, block: BlockId) -> bool {
        self.id.is_none_or(|id| self.code.loops().around(block).any(|around| around == id))
    }
}
