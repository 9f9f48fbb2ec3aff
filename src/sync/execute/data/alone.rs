//! Lanes that go on without the others of their warp, warps that may count in another round of a barrier, and copies of more bytes than
//! have room: what an instruction is wrong by itself for.

use super::super::Run;
use super::super::clock::{Clock, Place};
use super::super::step::lanes_of;
use super::Data;
use super::columns::{Misuse, Misused};
use crate::base::{FastMap, FastSet};
use crate::sync::LANES;
use crate::sync::machine::SharedAddress;
use crate::sync::program::{InstrId, Source};
use crate::sync::value::Basis;

/// What is kept of lanes, rounds and copies.
#[derive(Default)]
pub(in crate::sync::execute) struct Alone {
    /// By warp and lane: the last branch at which others of its warp went another way.
    parted: FastMap<usize, [InstrId; LANES]>,
    /// By warp: the instruction that some of its lanes have come to and others have not, these, and where they parted.
    lacking: FastMap<usize, (InstrId, u32, InstrId)>,
    /// By warp and instruction that whole warps run: the lanes that have.
    came: FastMap<(usize, InstrId), u32>,
    /// By named barrier: the last arrival of the round under way, and of the one before.
    rounds: FastMap<Place, (InstrId, InstrId)>,
    /// By instruction: the first number of bytes that a copy reads, whether there were others, and whether one was too large.
    sizes: FastMap<InstrId, (u64, bool, bool)>,
    /// By warp: what it has announced last.
    announced: FastMap<usize, Announced>,
    /// By warp and mbarrier: the phase that it has issued a copy in last.
    copied: FastMap<(usize, SharedAddress), u64>,
    /// Mbarriers that warps have announced bytes at.
    announcers: FastSet<(usize, SharedAddress)>,
    /// Copies for an mbarrier at which nothing was announced then, while their warp had announced at another one and copied nothing for it.
    astray: Vec<(Misused, usize, SharedAddress)>,
}

/// Bytes that a warp has announced at an mbarrier.
#[derive(Clone, Copy)]
struct Announced {
    at: SharedAddress,
    by: InstrId,
    /// Whether it has issued a copy for it, in this phase before or since.
    is_copied: bool,
}

/// Copies that are kept until the end.
const MOST_ASTRAY: usize = 16;

impl Data {
    /// The end of an execution: what went to another mbarrier than the one it was announced at did so where its warp announces at both. Who
    /// announces at one alone copies for those who announce at the other.
    pub(in crate::sync::execute) fn settle_astray(&mut self) {
        for (found, warp, at) in std::mem::take(&mut self.alone.astray) {
            if self.alone.announcers.contains(&(warp, at)) {
                self.columns.keep(found);
            }
        }
    }
}

impl Run<'_> {
    /// Lanes of a strand go different ways at a branch.
    pub(in crate::sync::execute) fn parts(&mut self, warp: usize, taken: u32, mask: u32) {
        let Some(data) = self.data.as_mut().filter(|_| taken != 0 && taken != mask) else { return };
        let Some(standing) = data.standing.get(warp).copied() else { return };
        let parted = data.alone.parted.entry(warp).or_insert([InstrId::ENTRY; LANES]);
        lanes_of(mask).for_each(|lane| parted[lane] = standing.pc);
        self.pieces += LANES as u64 / 4;
        if self.program.uniform.binary_search(&standing.pc).is_ok() {
            let (one, other) = (taken.trailing_zeros() as u8, (mask & !taken).trailing_zeros() as u8);
            let misuse = Misuse::Parted { one: one.min(other), other: one.max(other), warp: warp % data.of_block };
            data.columns.keep(Misused { pc: standing.pc, misuse, basis: standing.ground });
        }
    }

    /// Lanes of a warp stand at an instruction that whole warps run, and wait for others.
    pub(in crate::sync::execute) fn waits_for_lanes(&mut self, warp: usize, lacks: u32) {
        let Some(data) = &mut self.data else { return };
        let Some(pc) = data.standing.get(warp).map(|standing| standing.pc) else { return };
        let lane = lacks.trailing_zeros() as usize;
        let parted = data.alone.parted.get(&warp).and_then(|parted| parted.get(lane));
        let Some(parted) = parted.filter(|at| **at != InstrId::ENTRY) else { return };
        data.alone.lacking.entry(warp).or_insert((pc, lacks, *parted));
    }

    /// A warp runs an instruction that whole warps run: those lanes that it has waited for have come, or ended. Those that came in a turn
    /// of a loop before have left it.
    pub(in crate::sync::execute) fn comes_together(&mut self, warp: usize, mask: u32) {
        let exited = self.warps[warp].exited;
        let Some(data) = &mut self.data else { return };
        let Some(standing) = data.standing.get(warp).copied() else { return };
        let came = data.alone.came.entry((warp, standing.pc)).or_default();
        let before = std::mem::replace(came, *came | mask);
        let Some((pc, lacks, at)) = data.alone.lacking.remove(&warp) else { return };
        // Who has never come is told by the branch that keeps him away.
        let left = lacks & exited & before;
        if pc == standing.pc && left != 0 {
            let misuse = Misuse::Left { lanes: left.count_ones() as u8, at };
            data.columns.keep(Misused { pc, misuse, basis: standing.ground });
        }
    }

    /// A warp comes to a named barrier. Where it does not know that the rounds before are over, it may come in one of them.
    pub(in crate::sync::execute) fn comes_to_round(&mut self, warp: usize, place: Place, clock: &Clock, over: bool) {
        let Some(data) = &mut self.data else { return };
        let Some(standing) = data.standing.get(warp).copied() else { return };
        let (now, before) = data.alone.rounds.entry(place).or_insert((standing.pc, standing.pc));
        *now = standing.pc;
        let by = *before;
        if over {
            *before = *now;
        }
        self.pieces += data.warps as u64 / 4;
        if let Place::Named { id, .. } = place
            && !self.clocks.is_after(place, clock, data.warps)
        {
            let misuse = Misuse::Round { id, by };
            data.columns.keep(Misused { pc: standing.pc, misuse, basis: standing.ground });
        }
    }

    /// A warp announces bytes at an mbarrier.
    pub(in crate::sync::execute) fn announces(&mut self, warp: usize, at: SharedAddress, phase: u64) {
        let Some(data) = &mut self.data else { return };
        let Some(standing) = data.standing.get(warp).copied() else { return };
        let is_copied = data.alone.copied.get(&(warp, at)) == Some(&phase);
        data.alone.announced.insert(warp, Announced { at, by: standing.pc, is_copied });
        data.alone.announcers.insert((warp, at));
    }

    /// A warp issues a copy for an mbarrier, at which something was announced in the phase under way or not.
    pub(in crate::sync::execute) fn copies_for(
        &mut self,
        warp: usize,
        (at, phase): (SharedAddress, u64),
        is_announced: bool,
    ) {
        let rank = self.warps[warp].rank;
        let Some(data) = &mut self.data else { return };
        data.alone.copied.insert((warp, at), phase);
        let Some(standing) = data.standing.get(warp).copied() else { return };
        let Some(announced) = data.alone.announced.get_mut(&warp) else { return };
        if announced.at == at {
            announced.is_copied = true;
        } else if !announced.is_copied
            && !is_announced
            && at.rank() == rank
            && announced.at.rank() == rank
            && data.alone.astray.len() < MOST_ASTRAY
        {
            let misuse = Misuse::Astray { at: at.place(), announced: announced.at.place(), by: announced.by };
            data.alone.astray.push((Misused { pc: standing.pc, misuse, basis: standing.ground }, warp, at));
        }
    }

    /// Lanes copy so many bytes each, of so many that have room. What differs from lane to lane, or from turn to turn, is what is left
    /// of a row; one number for all is the launch's to choose.
    pub(super) fn reads_so_many(&mut self, warp: usize, mask: u32, (from, room): (Source, u32)) {
        for lane in lanes_of(mask) {
            let word = self.word(&self.warps[warp], from, lane);
            let Some(data) = self.data.as_mut().filter(|_| word.basis <= Basis::Input) else { return };
            let Some(standing) = data.standing.get(warp).copied() else { return };
            let bytes = word.bits & 0xffff_ffff;
            let (first, differ, is_more) = data.alone.sizes.entry(standing.pc).or_insert((bytes, false, false));
            *differ |= bytes != *first;
            // What is below zero says that there is nothing left: with sizes that were made up it may be.
            *is_more |= bytes > u64::from(room) && bytes <= i32::MAX as u64;
            if *differ && *is_more {
                let misuse = Misuse::Source { room: u64::from(room) };
                let basis = word.basis.max(standing.ground);
                data.columns.keep(Misused { pc: standing.pc, misuse, basis });
            }
        }
        self.pieces += u64::from(mask.count_ones());
    }
}
