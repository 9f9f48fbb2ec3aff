//! The first of a row of versions in which a figure is another, found with few measurements.

/// What a bisection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bisection {
    /// The figure is the same at both ends.
    Same {
        /// The first version that has the figure.
        first: usize,
        /// The last.
        last: usize,
        /// The figure.
        value: u64,
    },
    /// It changed between two versions that follow one another.
    Changed {
        /// The last version with the old figure.
        last_old: usize,
        /// The first with another.
        first_new: usize,
        /// The old figure.
        before: u64,
        /// The other one.
        after: u64,
    },
    /// No version, or only one, has the figure.
    TooFew,
}

/// Finds where a figure changes. `measure` gives the figure of a version, or none where it cannot be told (this ptxas cannot
/// compile it): older versions are taken to be the ones that cannot. About two logarithms of the number of versions are measured;
/// where a figure changes more than once, one of the changes away from the first figure is found.
pub fn bisect(versions: usize, measure: &mut dyn FnMut(usize) -> Option<u64>) -> Bisection {
    let Some(mut last) = versions.checked_sub(1) else { return Bisection::TooFew };
    let end = loop {
        match measure(last) {
            Some(value) => break value,
            None if last == 0 => return Bisection::TooFew,
            None => last -= 1,
        }
    };
    let first = match measure(0) {
        Some(_) => 0,
        // The first that can: none of those at or below `cannot` can, `can` can.
        None => {
            let (mut cannot, mut can) = (0, last);
            while can - cannot > 1 {
                let middle = cannot + (can - cannot) / 2;
                if measure(middle).is_some() { can = middle } else { cannot = middle }
            }
            can
        }
    };
    if first == last {
        return Bisection::TooFew;
    }
    let Some(start) = measure(first) else { return Bisection::TooFew };
    if start == end {
        return Bisection::Same { first, last, value: start };
    }
    let (mut old, mut new, mut after) = (first, last, end);
    while new - old > 1 {
        let middle = old + (new - old) / 2;
        match measure(middle) {
            Some(value) if value == start => old = middle,
            Some(value) => (new, after) = (middle, value),
            // A hole: the next one towards the new end that can be told decides; the new end itself always can.
            None => {
                let mut probe = middle + 1;
                while probe < new && measure(probe).is_none() {
                    probe += 1;
                }
                match measure(probe) {
                    Some(value) if probe < new && value == start => old = probe,
                    Some(value) if probe < new => (new, after) = (probe, value),
                    // Everything between is a hole.
                    _ => {
                        let mut low = middle;
                        while low > old && measure(low).is_none() {
                            low -= 1;
                        }
                        match measure(low) {
                            Some(value) if low > old && value != start => (new, after) = (low, value),
                            _ => {
                                old = low;
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    Bisection::Changed { last_old: old, first_new: new, before: start, after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The answer and how many different versions were measured.
    fn of(figures: &[Option<u64>]) -> (Bisection, usize) {
        let mut asked = BTreeMap::new();
        let found = bisect(figures.len(), &mut |at| *asked.entry(at).or_insert(figures[at]));
        (found, asked.len())
    }

    #[test]
    fn the_change_is_found_with_few_runs() {
        for change in 1..30 {
            let figures: Vec<Option<u64>> = (0..30).map(|at| Some(if at < change { 40 } else { 42 })).collect();
            let (found, runs) = of(&figures);
            assert_eq!(found, Bisection::Changed { last_old: change - 1, first_new: change, before: 40, after: 42 });
            assert!(runs <= 7, "{runs} runs for 30 versions");
        }
    }

    #[test]
    fn versions_that_cannot_are_stepped_over() {
        let old: Vec<Option<u64>> = (0..20).map(|at| (at >= 9).then_some(if at < 15 { 1 } else { 2 })).collect();
        assert_eq!(of(&old).0, Bisection::Changed { last_old: 14, first_new: 15, before: 1, after: 2 });
        let holes = [Some(1), None, None, Some(2), None, Some(2)];
        assert_eq!(of(&holes).0, Bisection::Changed { last_old: 0, first_new: 3, before: 1, after: 2 });
        let late = [Some(1), None, None, None, Some(1), Some(2), None];
        assert_eq!(of(&late).0, Bisection::Changed { last_old: 4, first_new: 5, before: 1, after: 2 });
        assert_eq!(of(&[Some(1), Some(1)]).0, Bisection::Same { first: 0, last: 1, value: 1 });
        assert_eq!(
            (of(&[]).0, of(&[None]).0, of(&[None, Some(1)]).0),
            (Bisection::TooFew, Bisection::TooFew, Bisection::TooFew)
        );
    }
}
