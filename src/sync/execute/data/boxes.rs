//! How far copies by tensor maps reach, whose boxes are not in the PTX: a load as far as announcements tell, a store as far as one
//! instruction has written.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::super::Run;
use super::{Agent, By, Data, GRANULE, MOST_RACES, Race, Toucher};
use crate::base::FastMap;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Access, Stream};
use crate::sync::value::Basis;

/// Granules that a tensor store is followed for.
const MOST_OF_STORE: u64 = 2_048;

/// What tensor stores are taken to read behind their first granule.
#[derive(Default)]
pub(super) struct Boxes {
    /// Where stores start.
    starts: BTreeSet<SharedAddress>,
    /// By agent and number of the store: where that starts.
    by_store: FastMap<(u32, u32), SharedAddress>,
    /// Races there, with the start of the store: they stand where no other store starts between.
    open: Vec<(SharedAddress, Race)>,
}

impl Boxes {
    /// Keeps a race with what one of two stores is taken to read; says whether it is one.
    pub(super) fn keep(&mut self, stores: [(u32, u32); 2], race: Race) -> bool {
        let Some(start) = stores.iter().find_map(|store| self.by_store.get(store)).copied() else { return false };
        let is_new = |(_, known): &(SharedAddress, Race)| {
            (known.first.pc, known.second.pc, known.broken) != (race.first.pc, race.second.pc, race.broken)
        };
        if start.0 / GRANULE == race.at.0 / GRANULE {
            return false;
        }
        if self.open.len() < MOST_RACES && self.open.iter().all(is_new) {
            self.open.push((start, race));
        }
        true
    }
}

impl Data {
    /// Granules from one on that the same instruction wrote last, whichever warp ran it.
    fn written_alike(&self, at: SharedAddress) -> u64 {
        let cells = self.shadow.get(at.rank() as usize).map_or(&[][..], Vec::as_slice);
        let writer = |granule: u64| {
            let is_write = |record: &&super::Record| record.by == By::Threads && record.access == Access::Write;
            cells.get(granule as usize)?.iter().rev().find(is_write).map(|record| record.pc)
        };
        let first = at.place() / GRANULE;
        let Some(pc) = writer(first) else { return 0 };
        (0..MOST_OF_STORE).take_while(|further| writer(first + further) == Some(pc)).count() as u64
    }

    /// All stores are known: races with what one reads before the next starts stand.
    pub(in crate::sync::execute) fn settle_boxes(&mut self) {
        for (start, race) in std::mem::take(&mut self.boxes.open) {
            let between = (Bound::Excluded(start), Bound::Included(race.at));
            if self.boxes.starts.range(between).next().is_none() {
                self.tell(race);
            }
        }
    }
}

impl Run<'_> {
    /// A tensor store that was issued last reads on behind its first granule.
    pub(super) fn reads_on(&mut self, warp: usize, lane: u32, (at, basis): (u64, Basis)) {
        let (Some(data), Some(clock)) = (&mut self.data, self.clocks.of(warp)) else { return };
        if basis >= Basis::Memory {
            return;
        }
        let at = SharedAddress::of(at);
        let stream = Agent::Stream(warp, Stream::Bulk, lane);
        let (agent, issued) = (data.agent(stream), data.issued.get(&stream).map_or(0, |issued| issued.count));
        let epoch = issued.saturating_sub(1);
        data.boxes.starts.insert(at);
        data.boxes.by_store.insert((agent as u32, epoch), at);
        let granules = data.written_alike(at);
        let who = Toucher { warp, agent, epoch, access: Access::Read, by: By::BulkStore, strong: false, basis };
        let (next, bytes) = (SharedAddress(at.0 + GRANULE), granules.saturating_sub(1) * GRANULE);
        self.pieces += granules;
        if bytes > 0 {
            self.pieces += data.touch(clock, who, next, bytes);
        }
    }

    /// Bytes of the box of a tensor map, where a phase waited for copies by it alone and constants say how many they bring.
    pub(super) fn box_of(&self, map: u64) -> Option<u64> {
        if self.data.as_ref().is_none_or(|data| data.footprint.is_loose) {
            return None;
        }
        let of_map = |copies: &[(u64, u32)]| match copies {
            [(of, count)] if *of == map => Some(u64::from(*count)),
            _ => None,
        };
        let bytes = self.equations.iter().find_map(|equation| {
            let (bytes, count) = (u64::try_from(equation.bytes).ok()?, of_map(&equation.copies)?);
            Some(bytes / count.max(1))
        });
        bytes.filter(|bytes| *bytes >= GRANULE)
    }
}
