//! What is under way to an mbarrier: copies and arrivals of asynchronous work, and when they come.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::clock::Clock;
use super::{Run, State, Stop, Warp};
use crate::base::Line;
use crate::sync::machine::{Fault, SharedAddress};
use crate::sync::value::{Basis, Word};

/// What comes later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Brings {
    Bytes(i64),
    /// As many bytes as the box of a tensor map has.
    Box(u64),
    Arrival,
}

/// What of all that is under way comes.
pub(super) enum Landing {
    /// Everything but copies by tensor maps.
    KnownBytes,
    /// The same, and copies to these mbarriers.
    To(BTreeSet<SharedAddress>),
    /// Everything.
    All,
}

impl Landing {
    fn takes(&self, flight: &Flight) -> bool {
        match self {
            Landing::All => true,
            Landing::To(objects) if objects.contains(&flight.at) => true,
            Landing::To(_) | Landing::KnownBytes => !matches!(flight.brings, Brings::Box(_)),
        }
    }
}

/// Something under way to an mbarrier.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) at: SharedAddress,
    pub(super) brings: Brings,
    /// The phase that it was issued in, where it must come in that phase.
    pub(super) phase: Option<u64>,
    /// A number that it leaves in shared memory.
    pub(super) leaves: Option<(SharedAddress, u64)>,
    /// Who issued it, and where.
    pub(super) from: (usize, Line),
    /// What its issuer knew.
    pub(super) clock: Rc<Clock>,
}

impl Run<'_> {
    /// The mbarriers that somebody waits for.
    pub(super) fn awaited_objects(&self) -> BTreeSet<SharedAddress> {
        let strands = self.warps.iter().flat_map(|warp| &warp.strands);
        let awaited = strands.filter_map(|strand| match strand.state {
            State::Waiting { what, .. } => what.mbarrier(),
            _ => None,
        });
        awaited.collect()
    }

    /// What is under way comes. Copies by tensor maps come last: how many there are for a phase tells their sizes, and those that
    /// are not issued yet belong to it as well.
    pub(super) fn land(&mut self, which: &Landing) -> Result<(), Stop> {
        if self.flights.is_empty() {
            return Ok(());
        }
        self.looks_at(2 * self.flights.len());
        if !self.flights.iter().any(|flight| which.takes(flight) && !self.is_early(flight)) {
            self.machine.touched.clear();
            return Ok(());
        }
        let mut left = VecDeque::new();
        while let Some(flight) = self.flights.pop_front() {
            self.machine.touched.clear();
            if !which.takes(&flight) || self.is_early(&flight) {
                left.push_back(flight);
                continue;
            }
            let Flight { at, brings, phase, leaves, from: (warp, line), clock } = flight;
            self.machine.changes += 1;
            // Inputs that were tried may be none that the kernel is made for: without a turn of its loop nobody waits.
            let is_copy = phase.is_some() && leaves.is_none() && self.basis == Basis::Fact;
            if is_copy && self.warps.iter().filter(|warp| warp.rank == at.rank()).all(Warp::is_done) {
                return Err(Stop::Fault(Fault::Outlived(at), line, warp));
            }
            if phase.is_some() {
                self.copied.insert(at, (warp, line));
            }
            if let Some((place, bits)) = leaves {
                self.put(place, Word { bits, basis: Basis::Input }, 64);
            }
            let fault = |fault| Stop::Fault(fault, line, warp);
            // Where it comes to an mbarrier that is gone, its phase is nobody's any more.
            let Ok(mbarrier) = self.machine.mbarrier(at) else { continue };
            if phase.is_some_and(|phase| phase != mbarrier.phase) {
                return Err(fault(Fault::Unannounced(at)));
            }
            let before = mbarrier.phase;
            let equation = match brings {
                Brings::Bytes(bytes) => mbarrier.land(at, bytes),
                Brings::Box(map) => Ok(mbarrier.finish(map)),
                Brings::Arrival => mbarrier.arrive(at, 1, Default::default()),
            };
            let is_over = mbarrier.phase != before;
            self.equations.extend(equation.map_err(fault)?);
            // A copy says only that it has come, nothing of what its issuer did before.
            if self.data.is_none() || phase.is_none() {
                self.comes(at, &clock, line, warp);
            }
            if is_over {
                self.end_phase(at);
            }
            self.observe_landing(at, warp, line);
        }
        self.flights = left;
        Ok(())
    }
}
