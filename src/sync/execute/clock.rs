//! What each warp knows of how far the others have come: vector clocks (Mattern 1989), as race detectors keep them.
//!
//! In: who arrives where, and who goes on because of it. Out: whether a step comes after the end of a phase in every schedule, or
//! only in the one that was executed.

use std::collections::BTreeMap;

use crate::sync::machine::SharedAddress;

/// By warp: how many of its arrivals are known to have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Whether everything that another one knows is known.
    pub fn covers(&self, other: &Clock) -> bool {
        let own = self.0.iter().copied().chain(std::iter::repeat(0));
        own.zip(&other.0).all(|(own, other)| own >= *other)
    }
}

/// What those who come to a barrier know together.
#[derive(Clone, Debug, Default)]
struct Meeting {
    /// Those of the phase under way.
    coming: Clock,
    /// Those of the phases that are over.
    over: Clock,
}

impl Meeting {
    fn end(&mut self) {
        let coming = std::mem::take(&mut self.coming);
        self.over.join(&coming);
    }
}

/// Where warps meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A named barrier of a block.
    Named { rank: u64, id: u64 },
    /// An mbarrier.
    Mbarrier(SharedAddress),
    /// The barrier of the cluster.
    Cluster,
}

/// The clocks of all warps.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    warps: Vec<Clock>,
    meetings: BTreeMap<Place, Meeting>,
}

impl Clocks {
    pub fn new(warps: usize) -> Clocks {
        Clocks { warps: vec![Clock(vec![0; warps]); warps], meetings: BTreeMap::new() }
    }

    /// A warp does something that others may learn of: what it knows then.
    pub fn send(&mut self, warp: usize) -> Clock {
        let Some(clock) = self.warps.get_mut(warp) else { return Clock::default() };
        if let Some(own) = clock.0.get_mut(warp) {
            *own += 1;
        }
        clock.clone()
    }

    /// Something comes to a meeting. Says whether it comes after the phases that are over there, whatever the schedule.
    pub fn come(&mut self, place: Place, what: &Clock) -> bool {
        let meeting = self.meetings.entry(place).or_default();
        meeting.coming.join(what);
        what.covers(&meeting.over)
    }

    /// A phase ends.
    pub fn end(&mut self, place: Place) {
        if let Some(meeting) = self.meetings.get_mut(&place) {
            meeting.end();
        }
    }

    /// A warp goes on because of the phases that are over.
    pub fn learn(&mut self, warp: usize, place: Place) {
        if let (Some(clock), Some(meeting)) = (self.warps.get_mut(warp), self.meetings.get(&place)) {
            clock.join(&meeting.over);
        }
    }

    /// A new object lies at a place.
    pub fn forget(&mut self, place: Place) {
        self.meetings.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place::Mbarrier(SharedAddress(64));

    #[test]
    fn who_has_waited_comes_after() {
        let mut clocks = Clocks::new(2);
        let first = clocks.send(0);
        assert!(clocks.come(PLACE, &first), "no phase is over");
        clocks.end(PLACE);
        clocks.learn(1, PLACE);
        let second = clocks.send(1);
        assert!(clocks.come(PLACE, &second));
    }

    #[test]
    fn who_has_not_waited_may_come_before() {
        let mut clocks = Clocks::new(2);
        let early = clocks.send(1);
        clocks.come(Place::Cluster, &early);
        let first = clocks.send(0);
        clocks.come(PLACE, &first);
        clocks.end(PLACE);
        let second = clocks.send(1);
        assert!(!clocks.come(PLACE, &second));
        // Its own steps are in order.
        let third = clocks.send(0);
        assert!(clocks.come(PLACE, &third));
    }
}
