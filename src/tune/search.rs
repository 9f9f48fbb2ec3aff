//! Which trials are made, and in which order: single changes first, then those that help together, then steps from the best.
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
/// Single changes that are tried together, at most.
const TOGETHER: usize = 10;
/// Builds that steps are made from, at most.
const CLIMBERS: usize = 8;

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
    paired: bool,
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
            paired: false,
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

    /// Decides what comes after the single changes: pairs once, then steps from the best.
    fn decide(&mut self) {
        let useful = self.useful();
        let mut next = Vec::new();
        if !std::mem::replace(&mut self.paired, true) {
            for (at, one) in useful.iter().enumerate() {
                let others = useful.iter().skip(at + 1).filter(|other| one.is_compatible(other));
                next.extend(others.map(|other| (at, one.and(other))));
            }
            // With the best first.
            next.sort_by_key(|(at, _)| *at);
        } else {
            for (at, from) in self.climbers().into_iter().enumerate() {
                next.extend(self.steps(&from, &useful).into_iter().map(|trial| (at, trial)));
            }
        }
        let mut fresh: Vec<Trial> =
            next.into_iter().map(|(_, trial)| trial).filter(|trial| !self.seen.contains(trial)).collect();
        fresh.reverse();
        self.queued = fresh;
    }

    /// Single changes that are better than the kernel as it is for something, the best for each aim in turn.
    fn useful(&self) -> Vec<Trial> {
        let Some(now) = self.now() else { return Vec::new() };
        let worst = now.costs();
        let singles: Vec<&Tried> = self
            .tried
            .iter()
            .filter(|one| one.trial.changes.len() + one.trial.ptxas == 1)
            .filter(|one| {
                let costs = one.figures().map(TrialFigures::costs);
                costs.is_some_and(|costs| costs.iter().zip(&worst).any(|(cost, worst)| cost < worst))
            })
            .collect();
        let mut ranked: Vec<Vec<&Tried>> = Vec::new();
        for aim in Aim::ALL {
            let mut by_aim = singles.clone();
            by_aim.sort_by_key(|one| (one.figures().map(|figures| aim.key(figures)), one.number));
            ranked.push(by_aim);
        }
        let mut chosen: Vec<Trial> = Vec::new();
        for at in 0..singles.len() {
            for one in ranked.iter().filter_map(|by_aim| by_aim.get(at)) {
                if chosen.len() < TOGETHER && !chosen.contains(&one.trial) {
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
            if chosen.len() < CLIMBERS && !chosen.contains(&one.trial) {
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
