//! Which trials are made, and in which order: single changes first, then those that help together, then steps from the best. While
//! there is budget left and nothing new comes of it, more changes are put together and more builds stepped from.
//!
//! The order rests on the figures alone, never on time: the same kernel and the same budget of runs have the same trials. What was
//! tried is not tried again, so that a search that was cut off goes on from the cache.

use std::collections::HashSet;

use super::front::{Aim, best, front};
use super::{Change, Outcome, Space, Trial, TrialFigures, Tried};

/// How much may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Builds, the kernel as it is included.
    pub runs: usize,
}

/// Trials that are made at once: what they gave decides the next ones.
const BATCH: usize = 24;
/// Of the budget, what single changes may take, in percent.
const SINGLES: usize = 65;
/// Single changes that are tried together, at first, and how many more each time that nothing new comes of them.
const TOGETHER: usize = 10;
const MORE_TOGETHER: usize = 6;
/// Builds that steps are made from, at first, and how many more.
const CLIMBERS: usize = 8;
const MORE_CLIMBERS: usize = 4;
/// How often the search is widened.
const WIDEST: usize = 8;

/// A search, as far as it has come.
pub struct Search {
    space: Space,
    budget: Budget,
    seen: HashSet<Trial>,
    tried: Vec<Tried>,
    /// Single changes that are not tried yet, the last first.
    singles: Vec<Trial>,
    /// Trials that are decided and not made yet, the last first.
    queued: Vec<Trial>,
    /// How often it was widened.
    width: usize,
}

impl Search {
    /// A search through a space, from a kernel as it is.
    pub fn new(space: Space, budget: Budget, now: Outcome) -> Self {
        let mut singles = space.singles();
        singles.reverse();
        let start = Trial::default();
        Search {
            space,
            budget,
            seen: HashSet::from([start.clone()]),
            tried: vec![Tried { number: 0, trial: start, outcome: now }],
            singles,
            queued: Vec::new(),
            width: 0,
        }
    }

    /// Everything that was tried, the kernel as it is first.
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// What of the space is being looked for.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Whether there was more to try.
    pub fn is_cut(&self) -> bool {
        !self.singles.is_empty() || !self.queued.is_empty()
    }

    /// The next trials; none when there is nothing more to try, or the budget is spent.
    pub fn next_batch(&mut self) -> Vec<Trial> {
        let left = self.budget.runs.saturating_sub(self.tried.len());
        let mut batch = Vec::new();
        while batch.len() < BATCH.min(left) {
            let Some(trial) = self.next_trial(batch.len()) else { break };
            if self.seen.insert(trial.clone()) {
                batch.push(trial);
            }
        }
        batch
    }

    /// What the trials of a batch gave, in their order.
    pub fn record(&mut self, results: Vec<(Trial, Outcome)>) {
        for (trial, outcome) in results {
            self.tried.push(Tried { number: self.tried.len(), trial, outcome });
        }
    }

    fn next_trial(&mut self, in_batch: usize) -> Option<Trial> {
        let used = self.tried.len() + in_batch;
        if used * 100 < self.budget.runs * SINGLES
            && let Some(single) = self.singles.pop()
        {
            return Some(single);
        }
        if self.queued.is_empty() {
            // What is decided rests on what was measured: a batch is finished first.
            if in_batch > 0 {
                return None;
            }
            self.decide();
        }
        self.queued.pop().or_else(|| self.singles.pop())
    }

    /// Decides what comes after the single changes: pairs, then steps from the best. Where neither is new and the kernel spills, more
    /// of both.
    fn decide(&mut self) {
        loop {
            let is_new = |trial: &Trial| !self.seen.contains(trial);
            let mut fresh: Vec<Trial> = self.pairs().into_iter().filter(is_new).collect();
            if fresh.is_empty() {
                fresh = self.all_steps().into_iter().filter(is_new).collect();
            }
            let spills = self.now().is_some_and(|now| now.spill_bytes != Some(0));
            if fresh.is_empty() && spills && self.width < WIDEST {
                self.width += 1;
                continue;
            }
            fresh.reverse();
            self.queued = fresh;
            return;
        }
    }

    /// Changes that help alone, two by two, with the best first.
    fn pairs(&self) -> Vec<Trial> {
        let useful = self.useful();
        let with_later = |(at, one): (usize, &Trial)| {
            let others = useful.iter().skip(at + 1).filter(|other| one.is_compatible(other));
            others.map(|other| one.and(other)).collect::<Vec<_>>()
        };
        useful.iter().enumerate().flat_map(with_later).collect()
    }

    fn all_steps(&self) -> Vec<Trial> {
        let useful = self.useful();
        self.climbers().iter().flat_map(|from| self.steps(from, &useful)).collect()
    }

    /// Single changes that are better than the kernel as it is for something, the best for each aim in turn, one for each code; in a
    /// wider search then those that give another code.
    fn useful(&self) -> Vec<Trial> {
        let Some(now) = self.now() else { return Vec::new() };
        let worst = now.costs();
        let mut codes: HashSet<&str> = self.tried.first().and_then(Tried::code).into_iter().collect();
        let is_single = |one: &&Tried| one.trial.changes.len() + one.trial.ptxas == 1;
        // Where codes are not told apart all are.
        let mut singles: Vec<&Tried> = self.tried.iter().filter(is_single).collect();
        singles.retain(|one| one.code().is_some_and(|code| code.is_empty() || codes.insert(code)));
        let helps = |one: &Tried| {
            let costs = one.figures().map(TrialFigures::costs);
            costs.is_some_and(|costs| costs.iter().zip(&worst).any(|(cost, worst)| cost < worst))
        };
        let (helping, others): (Vec<&Tried>, Vec<&Tried>) = singles.into_iter().partition(|one| helps(one));
        let most = TOGETHER + MORE_TOGETHER * self.width;
        let mut chosen: Vec<Trial> = Vec::new();
        for group in [Some(helping), Some(others).filter(|_| self.width > 0)].into_iter().flatten() {
            for one in by_aims(&group) {
                if chosen.len() < most && !chosen.contains(&one.trial) {
                    chosen.push(one.trial.clone());
                }
            }
        }
        chosen
    }

    fn now(&self) -> Option<&TrialFigures> {
        self.tried.first()?.figures()
    }

    /// Builds that steps are made from: the best for each aim, those that come closest where none reaches it, then the front.
    fn climbers(&self) -> Vec<Trial> {
        let Some(now) = self.now() else { return Vec::new() };
        let built = || self.tried.iter().filter_map(|one| Some((one, one.figures()?)));
        let closest = |aim: Aim| {
            built()
                .min_by_key(|(one, figures)| (aim.key(figures), one.trial.complexity(), one.number))
                .map(|found| found.0)
        };
        let bests = Aim::ALL.into_iter().filter_map(|aim| best(aim, &self.tried, now).or_else(|| closest(aim)));
        let mut chosen: Vec<Trial> = Vec::new();
        for one in bests.chain(front(&self.tried)) {
            if chosen.len() < CLIMBERS + MORE_CLIMBERS * self.width && !chosen.contains(&one.trial) {
                chosen.push(one.trial.clone());
            }
        }
        chosen
    }

    /// One change more, one less, or one a little different.
    fn steps(&self, from: &Trial, useful: &[Trial]) -> Vec<Trial> {
        let mut steps: Vec<Trial> = (0..from.changes.len()).flat_map(|at| self.space.neighbours(from, at)).collect();
        let more = useful.iter().filter(|one| one.ptxas == 0).flat_map(|one| &one.changes);
        steps.extend(
            more.filter(|change| !from.changes.contains(change)).map(|change| from.with(Change::clone(change))),
        );
        steps.extend(
            (0..self.space.releases()).filter(|at| *at != from.ptxas).map(|ptxas| Trial { ptxas, ..from.clone() }),
        );
        if from.changes.len() > 1 {
            steps.extend((0..from.changes.len()).map(|at| from.without(at)));
        }
        steps
    }
}

/// The best for each aim in turn.
fn by_aims<'t>(tried: &[&'t Tried]) -> Vec<&'t Tried> {
    let ranked = Aim::ALL.map(|aim| {
        let mut by_aim = tried.to_vec();
        by_aim.sort_by_key(|one| (one.figures().map(|figures| aim.key(figures)), one.number));
        by_aim
    });
    (0..tried.len()).flat_map(|at| ranked.iter().filter_map(move |by_aim| by_aim.get(at).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(spills: u64, instructions: u64) -> Outcome {
        let figures = TrialFigures {
            registers: Some(64),
            spills_in_loops: Some(spills),
            spills_weighted: Some(spills * 10),
            spill_bytes: Some(spills * 4),
            instructions: Some(instructions),
            instructions_weighted: Some(instructions),
            ..TrialFigures::default()
        };
        Outcome::Built { figures: Box::new(figures), code: String::new() }
    }

    /// Two changes help a little each and all the way together.
    fn measure(trial: &Trial) -> Outcome {
        let has = |change: Change| trial.changes.contains(&change);
        let level = has(Change::RegisterUsageLevel(2));
        let opt = has(Change::OptLevel(1));
        match (level, opt) {
            (true, true) => built(0, 130),
            (true, false) => built(10, 110),
            (false, true) => built(12, 105),
            (false, false) => built(20, 100),
        }
    }

    fn run(runs: usize) -> Search {
        let changes = (0..=10).filter(|level| *level != 5).map(Change::RegisterUsageLevel);
        let space = Space::of_changes(changes.chain([Change::OptLevel(1), Change::OptLevel(2)]).collect());
        let mut search = Search::new(space, Budget { runs }, built(20, 100));
        loop {
            let batch = search.next_batch();
            if batch.is_empty() {
                return search;
            }
            search.record(batch.into_iter().map(|trial| (trial.clone(), measure(&trial))).collect());
        }
    }

    #[test]
    fn what_helps_together_is_found() {
        let search = run(40);
        let now = search.now().cloned().unwrap();
        let found = best(Aim::NoSpills, search.tried(), &now).unwrap();
        assert_eq!(found.trial.to_string(), "--register-usage-level=2 --opt-level=1");
        assert!(search.tried().len() <= 40);
    }

    #[test]
    fn the_budget_is_kept_and_the_same_trials_are_made() {
        for runs in [1, 2, 7, 20] {
            let (one, two) = (run(runs), run(runs));
            assert!(one.tried().len() <= runs);
            assert_eq!(one.tried(), two.tried());
        }
    }

    #[test]
    fn no_trial_is_made_twice() {
        let search = run(200);
        let all: HashSet<&Trial> = search.tried().iter().map(|one| &one.trial).collect();
        assert_eq!(all.len(), search.tried().len());
        assert!(!search.is_cut(), "a small space ends before its budget");
    }
}
