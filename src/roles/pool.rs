//! The pool that setmaxnreg moves registers in: what a block got at launch against what its roles ask for.
//!
//! The registers of a block at launch are all there is: a `.inc` waits until others have given enough back. Where the budgets add
//! up to more than that it waits for ever (seen on an H200: 40 + 2 × 232 of 3 × 168 runs, 40 + 2 × 240 hangs).

use crate::roles::setmaxnreg::{COUNTS, STEP};

/// What one role asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Registers of a thread; none when the role sets none and keeps what it was launched with.
    pub budget: Option<u32>,
    /// Its warps.
    pub warps: u32,
    /// Registers that its code needs, where known.
    pub peak: Option<u32>,
}

/// Whether the budgets can all be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// To the last register.
    Exact,
    /// With so many left over.
    Unused(u32),
    /// So many too few: a `.inc` waits for ever.
    Never(u32),
}

/// The arithmetic, in registers of a thread times warps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What the block was launched with.
    pub available: u32,
    /// What the roles ask for.
    pub required: u32,
    /// Whether it fits.
    pub fit: Fit,
    /// The sum, written out.
    pub arithmetic: String,
    /// Budgets that fit, where these do not or leave room.
    pub rebalance: Option<Vec<(String, u32)>>,
}

/// Adds up. `entry` is the register count at entry; the shares must name every warp of the block.
pub fn pool(entry: u32, shares: &[Share]) -> Option<Pool> {
    let entry = entry.checked_next_multiple_of(STEP)?;
    let warps: u32 = shares.iter().try_fold(0u32, |sum, share| sum.checked_add(share.warps))?;
    let available = entry.checked_mul(warps)?;
    let required = shares
        .iter()
        .try_fold(0u32, |sum, share| sum.checked_add(share.budget.unwrap_or(entry).checked_mul(share.warps)?))?;
    let fit = match required.cmp(&available) {
        std::cmp::Ordering::Equal => Fit::Exact,
        std::cmp::Ordering::Less => Fit::Unused(available - required),
        std::cmp::Ordering::Greater => Fit::Never(required - available),
    };
    let terms: Vec<String> = shares
        .iter()
        .map(|share| {
            format!(
                "{} warp{} × {}",
                share.warps,
                if share.warps == 1 { "" } else { "s" },
                share.budget.unwrap_or(entry)
            )
        })
        .collect();
    let arithmetic = format!(
        "{} = {required} of the {available} ({warps} × {entry}) that a block is launched with",
        terms.join(" + ")
    );
    let rebalance = match fit {
        Fit::Exact => None,
        // Less than a step for each of the takers is no use to anybody.
        _ => rebalance(entry, available, shares)
            .filter(|found| found.iter().zip(shares).any(|((_, count), share)| Some(*count) != share.budget)),
    };
    Some(Pool { available, required, fit, arithmetic, rebalance })
}

/// Budgets in multiples of 8 that fit: who gives keeps its count (or gives what it does not need), the rest goes to those who take,
/// in equal parts.
fn rebalance(entry: u32, available: u32, shares: &[Share]) -> Option<Vec<(String, u32)>> {
    let takes = |share: &Share| share.budget.is_some_and(|budget| budget > entry);
    let takers: u32 = shares.iter().filter(|share| takes(share)).map(|share| share.warps).sum();
    if takers == 0 {
        return None;
    }
    let any_gives = shares.iter().any(|share| share.budget.is_some_and(|budget| budget < entry));
    let kept = |share: &Share| match share.budget {
        Some(budget) => budget,
        // Nobody gives: whoever sets no count would have to.
        None if !any_gives => share
            .peak
            .unwrap_or(entry)
            .max(*COUNTS.start())
            .checked_next_multiple_of(STEP)
            .unwrap_or(entry)
            .max(40)
            .min(entry),
        None => entry,
    };
    let given = shares
        .iter()
        .filter(|share| !takes(share))
        .try_fold(0u32, |sum, share| sum.checked_add(kept(share).checked_mul(share.warps)?))?;
    let each = (available.checked_sub(given)? / takers / STEP * STEP).min(*COUNTS.end());
    if each < entry {
        return None;
    }
    Some(shares.iter().map(|share| (share.name.clone(), if takes(share) { each } else { kept(share) })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(name: &str, budget: Option<u32>, warps: u32) -> Share {
        Share { name: name.to_owned(), budget, warps, peak: Some(30) }
    }

    /// Each of these ran or hung on an H200.
    #[test]
    fn what_runs_and_what_hangs() {
        let fit = |producer, consumer| {
            pool(168, &[share("producer", producer, 4), share("consumer", Some(consumer), 8)]).unwrap()
        };
        assert_eq!(fit(Some(40), 232).fit, Fit::Exact);
        assert_eq!(fit(Some(24), 240).fit, Fit::Exact);
        assert_eq!(fit(Some(40), 240).fit, Fit::Never(64));
        assert_eq!(fit(None, 232).fit, Fit::Never(512));
        assert_eq!(fit(Some(40), 224).fit, Fit::Unused(64));
    }

    #[test]
    fn a_rebalance_fits() {
        let found = pool(168, &[share("producer", Some(40), 4), share("consumer", Some(240), 8)]).unwrap();
        assert_eq!(found.rebalance.unwrap(), [("producer".to_owned(), 40), ("consumer".to_owned(), 232)]);
        assert_eq!(
            found.arithmetic,
            "4 warps × 40 + 8 warps × 240 = 2080 of the 2016 (12 × 168) that a block is launched with"
        );
        let found = pool(168, &[share("producer", None, 4), share("consumer", Some(232), 8)]).unwrap();
        assert_eq!(found.rebalance.unwrap(), [("producer".to_owned(), 40), ("consumer".to_owned(), 232)]);
        let found = pool(168, &[share("producer", Some(40), 4), share("consumer", Some(224), 8)]).unwrap();
        assert_eq!(found.rebalance.unwrap(), [("producer".to_owned(), 40), ("consumer".to_owned(), 232)]);
    }
}
