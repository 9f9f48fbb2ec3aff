//! The loops of two builds of a kernel: which is which, and what became of their cycles.

use serde::Serialize;

use super::figures::Outcome;
use super::pairing::{How, Matcher};
use crate::base::Line;
use crate::report::LoopFigures;

/// A loop that both builds have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoopChange {
    /// The PTX line of its first instruction.
    pub after_line: Option<Line>,
    /// The same of the old one.
    pub before_line: Option<Line>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Accesses of memory, matrices and barriers of a turn.
    pub shape: String,
    /// Whether it is the hottest of both.
    pub hottest: bool,
    /// Cycles of a turn before.
    pub before: u64,
    /// Cycles of a turn after.
    pub after: u64,
    /// What became of it; the same where it is no more apart than an estimate is exact.
    pub outcome: Outcome,
}

/// Whether two estimates are no more apart than they are exact: within 5 %.
pub(super) fn are_near(before: u64, after: u64) -> bool {
    before.abs_diff(after).saturating_mul(20) <= before.max(after)
}

/// The loops that both have. One is found again by what it does, where that is one loop of its depth on each side; then by its line; then by
/// its place, where both have as many loops of its depth left.
pub fn loop_changes(before: &[LoopFigures], after: &[LoopFigures]) -> Vec<LoopChange> {
    let mut matcher = Matcher::new(before.len(), after.len());
    let of = |all: &[LoopFigures], at: usize| all.get(at).map(|found| (found.depth, found.shape.clone()));
    let at_line = |all: &[LoopFigures], at: usize| all.get(at).and_then(|found| Some((found.depth, found.ptx_line?)));
    matcher.join(How::Code, |at| of(before, at), |at| of(after, at));
    matcher.join(How::Name, |at| at_line(before, at), |at| at_line(after, at));
    let left = matcher.free();
    let depths = |all: &[LoopFigures], left: &[usize]| -> Vec<u32> {
        left.iter().filter_map(|at| all.get(*at)).map(|found| found.depth).collect()
    };
    if depths(before, &left.0) == depths(after, &left.1) {
        let place = |left: &[usize], at: usize| left.iter().position(|free| *free == at);
        matcher.join(How::Renamed, |at| place(&left.0, at), |at| place(&left.1, at));
    }
    let pairs = matcher.finish();
    let both = pairs.iter().filter_map(|pair| Some((before.get(pair.before?)?, after.get(pair.after?)?)));
    both.map(|(old, new)| LoopChange {
        after_line: new.ptx_line,
        before_line: old.ptx_line,
        depth: new.depth,
        shape: new.shape.clone(),
        hottest: old.hottest && new.hottest,
        before: old.loop_cycles,
        after: new.loop_cycles,
        outcome: match new.loop_cycles.cmp(&old.loop_cycles) {
            _ if are_near(old.loop_cycles, new.loop_cycles) => Outcome::Same,
            std::cmp::Ordering::Greater => Outcome::Worse,
            _ => Outcome::Better,
        },
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: u32, depth: u32, shape: &str, loop_cycles: u64) -> LoopFigures {
        LoopFigures { ptx_line: Some(Line(line)), depth, shape: shape.to_owned(), hottest: false, loop_cycles }
    }

    fn cycles(before: &[LoopFigures], after: &[LoopFigures]) -> Vec<(u64, u64)> {
        loop_changes(before, after).iter().map(|change| (change.before, change.after)).collect()
    }

    #[test]
    fn loops_are_found_again_by_what_they_do_by_line_and_by_place() {
        let before = [found(10, 1, "4 LDS", 40), found(30, 1, "8 LDG", 100), found(50, 1, "", 7), found(60, 1, "", 8)];
        // Moved, in another order; one does more than it did at the line where it was; two are alike, and moved.
        let after = [found(30, 1, "4 LDS", 41), found(12, 1, "8 LDG", 120), found(70, 1, "", 9), found(80, 1, "", 10)];
        assert_eq!(cycles(&before, &after), [(40, 41), (100, 120), (7, 9), (8, 10)]);
        assert_eq!(cycles(&[found(10, 2, "1 LDS", 5)], &[found(10, 2, "2 LDS", 6)]), [(5, 6)]);
        // Nobody knows which of two it was.
        assert!(cycles(&[found(10, 1, "", 5)], &[found(20, 1, "", 5), found(30, 1, "", 6)]).is_empty());
        assert!(cycles(&[found(10, 1, "", 5)], &[found(20, 2, "", 5)]).is_empty());
    }

    #[test]
    fn estimates_within_five_percent_are_the_same() {
        let outcome = |after| loop_changes(&[found(1, 1, "", 100)], &[found(1, 1, "", after)])[0].outcome;
        assert_eq!([96, 105, 106, 90].map(outcome), [Outcome::Same, Outcome::Same, Outcome::Worse, Outcome::Better]);
    }
}
