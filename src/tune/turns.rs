//! How often the parts of a build turn, and what follows from that: instructions and spills by turns, cycles of an SM for a block.
//!
//! How often a loop of the PTX turns nobody knows: ten times, in every build; one that ptxas unrolls completely in the kernel as it is says it.
//! A loop that does four turns of it at once turns a quarter as often. An SM holds some warps; together they do a turn of a part in so many cycles. A kernel of many blocks takes as long as its blocks do one after
//! the other, several at a time: cycles of all parts, times the warps of a block, through the warps that run together.

use super::LOOP_TURNS;
use crate::report::{CodePart, CodeParts, PtxLoop};

/// Two builds whose cycles differ by less, in hundredths, are equal as far as the estimate can tell.
pub const ERROR_PERCENT: u64 = 5;

/// Loops deeper than this count as if they were not.
const DEEPEST: u32 = 6;

/// How often each loop of the PTX turns while the kernel runs once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    of: Vec<f64>,
}

impl Turns {
    /// As far as the kernel as it is tells.
    pub fn of(now: &CodeParts) -> Turns {
        let of = (0..now.loops.len() as u32).map(|number| {
            let mut turns = 1.0;
            let mut at = Some(PtxLoop(number));
            for _ in 0..DEEPEST {
                let Some(found) = at else { break };
                turns *= now.unrolled.get(&found).map_or(LOOP_TURNS as f64, |copies| f64::from(*copies));
                at = now.loops.get(found.0 as usize).copied().flatten();
            }
            turns
        });
        Turns { of: of.collect() }
    }

    /// How often a part turns: not at all, where it does what another leaves over.
    pub fn of_part(&self, part: &CodePart) -> f64 {
        if part.is_rest {
            return 0.0;
        }
        let known = part.of.and_then(|found| self.of.get(found.0 as usize));
        let turns = known.copied().unwrap_or_else(|| (LOOP_TURNS as f64).powi(part.depth.min(DEEPEST) as i32));
        turns / f64::from(part.copies.max(1))
    }

    /// Instructions that a thread runs.
    pub fn instructions(&self, build: &CodeParts) -> Option<u64> {
        let all: f64 = build.parts.iter().map(|part| part.instructions as f64 * self.of_part(part)).sum();
        (0.0..1e15).contains(&all).then_some(all.round() as u64)
    }

    /// Cycles of an SM for a block.
    pub fn cycles(&self, build: &CodeParts) -> Option<u64> {
        let resident = build.resident?;
        let each = build.parts.iter().map(|part| Some(part.cycles? * self.of_part(part)));
        let all = each.sum::<Option<f64>>()?;
        let blocks = f64::from(resident.warps.max(1)) / f64::from(resident.of_block.max(1));
        let cycles = (all / blocks).round();
        (1.0..1e15).contains(&cycles).then_some(cycles as u64)
    }
}

/// Whether one build takes fewer cycles than another, beyond the error of the estimate.
pub fn is_faster(one: u64, other: u64) -> bool {
    one.saturating_mul(100 + ERROR_PERCENT) < other.saturating_mul(100)
}

/// Cycles as builds are compared by them: steps as wide as half the error.
pub fn step(cycles: u64) -> u64 {
    let width = (1.0 + ERROR_PERCENT as f64 / 200.0).ln();
    ((cycles.max(1) as f64).ln() / width).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Resident;

    fn part(of: Option<u32>, depth: u32, copies: u32, cycles: f64) -> CodePart {
        let instructions = cycles as u64 / 10;
        CodePart { of: of.map(PtxLoop), depth, copies, is_rest: false, instructions, cycles: Some(cycles) }
    }

    fn build(parts: Vec<CodePart>, warps: u32) -> CodeParts {
        let resident = Some(Resident { warps, of_block: 4 });
        CodeParts { resident, loops: vec![None, Some(PtxLoop(0))], parts, ..CodeParts::default() }
    }

    #[test]
    fn parts_weigh_what_they_turn() {
        let one = build(vec![part(None, 0, 1, 100.0), part(Some(0), 1, 1, 50.0), part(Some(1), 2, 1, 7.0)], 4);
        let turns = Turns::of(&one);
        assert_eq!(turns.cycles(&one), Some(100 + 500 + 700));
        // Unrolled four times: as many cycles of a turn, a quarter of the turns.
        let four = build(vec![part(None, 0, 1, 100.0), part(Some(0), 1, 4, 200.0), part(Some(1), 2, 1, 7.0)], 4);
        assert_eq!(turns.cycles(&four), turns.cycles(&one));
        // Two blocks together in the time of one.
        let two = build(one.parts.clone(), 8);
        assert_eq!(turns.cycles(&two), Some(650));
        // Instructions go by the same turns, and what is left over by none.
        let rest = CodePart { is_rest: true, ..part(Some(0), 1, 2, 900.0) };
        let with_rest = build([four.parts.clone(), vec![rest]].concat(), 4);
        assert_eq!((turns.instructions(&one), turns.instructions(&with_rest)), (Some(10 + 50), Some(10 + 50)));
        assert_eq!(turns.cycles(&with_rest), turns.cycles(&four));
        // Without a launch there are no cycles.
        assert_eq!(turns.cycles(&CodeParts { resident: None, ..one }), None);
    }

    #[test]
    fn a_loop_that_is_gone_says_how_often_it_turns() {
        let now = CodeParts { unrolled: [(PtxLoop(1), 4)].into(), ..build(vec![part(Some(0), 1, 1, 90.0)], 4) };
        let kept = build(vec![part(Some(0), 1, 1, 10.0), part(Some(1), 2, 1, 20.0)], 4);
        let turns = Turns::of(&now);
        assert_eq!((turns.cycles(&now), turns.cycles(&kept)), (Some(900), Some(100 + 40 * 20)));
    }

    #[test]
    fn what_the_estimate_cannot_tell_is_equal() {
        assert!(is_faster(100, 106) && !is_faster(100, 105) && !is_faster(100, 100));
        assert_eq!(step(1000), step(1004));
        assert_ne!(step(1000), step(1200));
    }
}
