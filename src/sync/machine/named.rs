//! The sixteen named barriers of a block: counters of threads, and rounds.

use std::collections::BTreeMap;

use super::Fault;

/// A round that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How many threads complete it; none where it is all of the block that have not ended.
    pub expected: Option<u32>,
    /// How many have come.
    pub arrived: u32,
}

/// A named barrier.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// Rounds that are over: who waits for one goes on when this has passed it.
    pub rounds: u64,
    /// The one under way.
    pub round: Option<Round>,
    /// The warps that have ever come, by the number of threads that they gave.
    pub came: BTreeMap<Option<u32>, u32>,
}

impl Named {
    /// Threads of a warp come. Says whether that completes the round, where `alive` is how many threads of the block have not ended.
    pub fn arrive(
        &mut self,
        (id, warp): (u64, u32),
        threads: u32,
        expected: Option<u32>,
        alive: u32,
    ) -> Result<bool, Fault> {
        *self.came.entry(expected).or_default() |= 1u32.checked_shl(warp).unwrap_or(0);
        let round = self.round.get_or_insert(Round { expected, arrived: 0 });
        // Seen on an H200: a round that began without a number faults at one that gives the same number.
        if round.expected != expected {
            let number = |expected: Option<u32>| expected.unwrap_or(alive);
            return Err(Fault::Counts { id, begun: number(round.expected), given: number(expected) });
        }
        round.arrived += threads;
        Ok(self.settle(alive))
    }

    /// Ends the round where everybody has come: also when somebody who was waited for has ended.
    pub fn settle(&mut self, alive: u32) -> bool {
        let Some(round) = self.round else { return false };
        if round.arrived < round.expected.unwrap_or(alive) {
            return false;
        }
        self.rounds += 1;
        self.round = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_when_its_number_has_come() {
        let mut barrier = Named::default();
        assert_eq!(barrier.arrive((1, 0), 32, Some(64), 128), Ok(false));
        assert_eq!(barrier.arrive((1, 0), 32, Some(64), 128), Ok(true));
        assert_eq!((barrier.rounds, barrier.round), (1, None));
    }

    #[test]
    fn a_round_has_one_number() {
        let mut barrier = Named::default();
        barrier.arrive((1, 0), 32, Some(64), 128).unwrap();
        assert_eq!(barrier.arrive((1, 0), 32, Some(96), 128), Err(Fault::Counts { id: 1, begun: 64, given: 96 }));
        let mut barrier = Named::default();
        barrier.arrive((0, 0), 32, Some(64), 64).unwrap();
        assert_eq!(barrier.arrive((0, 0), 32, None, 64), Err(Fault::Counts { id: 0, begun: 64, given: 64 }));
    }

    /// Seen on an H200: warps that have ended no longer count where the instruction gives no number.
    #[test]
    fn who_has_ended_is_not_waited_for() {
        let mut barrier = Named::default();
        assert_eq!(barrier.arrive((0, 0), 32, None, 64), Ok(false));
        assert!(barrier.settle(32));
        let mut barrier = Named::default();
        assert_eq!(barrier.arrive((0, 0), 32, Some(64), 64), Ok(false));
        assert!(!barrier.settle(32));
    }
}
