//! What each warp knows of how far the others have come: vector clocks (Mattern 1989), as race detectors keep them.
//!
//! In: who arrives where, and who goes on because of it. Out: whether a step comes after the end of a phase in every schedule, or
//! only in the one that was executed. Where data is looked at, work that goes on without its warp has numbers of its own
//! beside the warps' (FastTrack, Flanagan and Freund 2009, keeps them for threads alone).

use std::collections::BTreeMap;

use crate::sync::machine::SharedAddress;

/// By warp: how many of its arrivals are known to have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    known: Vec<u32>,
    /// The same of what came before a proxy fence: what the async proxy sees. Empty where no data is looked at.
    fenced: Vec<u32>,
    /// The same of what relaxed arrivals say, too: that somebody has come to a place, and nothing of what he wrote before.
    passed: Vec<u32>,
}

fn join(one: &mut Vec<u32>, other: &[u32]) {
    if one.len() < other.len() {
        one.resize(other.len(), 0);
    }
    for (own, other) in one.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

fn raise(numbers: &mut Vec<u32>, agent: usize, to: u32) {
    if numbers.len() <= agent {
        numbers.resize(agent + 1, 0);
    }
    numbers[agent] = numbers[agent].max(to);
}

impl Clock {
    pub fn join(&mut self, other: &Clock) {
        join(&mut self.known, &other.known);
        join(&mut self.fenced, &other.fenced);
        join(&mut self.passed, &other.passed);
    }

    /// Whether everything that another one knows is known.
    pub fn covers(&self, other: &Clock) -> bool {
        let own = self.known.iter().copied().chain(std::iter::repeat(0));
        own.zip(&other.known).all(|(own, other)| own >= *other)
    }

    /// How much of what an agent does is known to be over.
    pub fn known(&self, agent: usize) -> u32 {
        self.known.get(agent).copied().unwrap_or(0)
    }

    /// The same of what the async proxy sees.
    pub fn fenced(&self, agent: usize) -> u32 {
        self.fenced.get(agent).copied().unwrap_or(0)
    }

    /// How far an agent is known to have come, whether what it wrote is seen or not.
    pub fn passed(&self, agent: usize) -> u32 {
        self.passed.get(agent).copied().unwrap_or(0).max(self.known(agent))
    }

    /// What a relaxed arrival tells: what was known at the last fence, and how far everybody has come.
    pub fn relaxed(&self, at_fence: Option<&Clock>) -> Clock {
        let mut clock = at_fence.cloned().unwrap_or_default();
        join(&mut clock.passed, &self.known);
        join(&mut clock.passed, &self.passed);
        clock
    }

    /// So much of what an agent does is known to be over.
    pub fn raise(&mut self, agent: usize, to: u32) {
        raise(&mut self.known, agent, to);
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        let clock = Clock { known: vec![0; warps], ..Clock::default() };
        Clocks { warps: vec![clock; warps], meetings: BTreeMap::new() }
    }

    /// A warp does something that others may learn of: what it knows then.
    pub fn send(&mut self, warp: usize) -> Clock {
        let Some(clock) = self.warps.get_mut(warp) else { return Clock::default() };
        if let Some(own) = clock.known.get_mut(warp) {
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

    /// Whether whoever comes to a meeting knows of the first warps that they have come to the phases that are over there, whether what they
    /// wrote is seen or not.
    pub fn is_after(&self, place: Place, what: &Clock, warps: usize) -> bool {
        let over = self.meetings.get(&place).map_or(&[][..], |meeting| &meeting.over.known);
        over.iter().take(warps).enumerate().all(|(warp, known)| what.passed(warp) >= *known)
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

    /// What a warp knows.
    pub fn of(&self, warp: usize) -> Option<&Clock> {
        self.warps.get(warp)
    }

    /// A warp knows that so much of what an agent does is over.
    pub fn raise(&mut self, warp: usize, agent: usize, to: u32) {
        if let Some(clock) = self.warps.get_mut(warp) {
            clock.raise(agent, to);
        }
    }

    /// A warp learns what somebody else knew.
    pub fn join(&mut self, warp: usize, told: &Clock) {
        if let Some(clock) = self.warps.get_mut(warp) {
            clock.join(told);
        }
    }

    /// With the phase under way, so much of what an agent does will be over.
    pub fn bring(&mut self, place: Place, agent: usize, to: u32) {
        self.meetings.entry(place).or_default().coming.raise(agent, to);
    }

    /// What a warp has done and knows of is seen by the async proxy.
    pub fn fence(&mut self, warp: usize) {
        if let Some(clock) = self.warps.get_mut(warp) {
            if let Some(own) = clock.known.get_mut(warp) {
                *own += 1;
            }
            join(&mut clock.fenced, &clock.known);
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
