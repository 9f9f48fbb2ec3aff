//! Changes for what is absent, doubled or elsewhere: a toggle, an arrival, an announcement, half of a cluster barrier, the mbarrier
//! of another stage, a number that is one off.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Insertion};
use super::suggest::{Candidate, Suggestions, WARP};
use crate::base::{Line, work};
use crate::sync::execute::record::{Mark, WarpId, What};
use crate::sync::execute::{Lack, Stuck, Wait};
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Address, Compute, Instr, InstrId, MbarrierOp, Op, Reg, Source, Special};

/// Registers that a parity may be made of.
const MOST_SOURCES: usize = 4;
/// Places of a kind that are tried.
const MOST_PLACES: usize = 6;

impl Suggestions<'_> {
    fn instr(&self, pc: InstrId) -> Option<&Instr> {
        self.program.code.get(pc)
    }

    /// Waits of a warp for the same parity of the same mbarrier twice: nothing toggles it.
    pub(super) fn toggles(&self) -> Vec<Candidate> {
        let mut asked: BTreeMap<(Line, WarpId, SharedAddress), u64> = BTreeMap::new();
        let mut suspects: BTreeSet<Line> = BTreeSet::new();
        let mut places: BTreeMap<Line, BTreeSet<u64>> = BTreeMap::new();
        for wait in self.waits() {
            let Wait::Mbarrier { at, phase, parity: true } = wait.on else { continue };
            places.entry(wait.line).or_default().insert(at.place());
            if asked.insert((wait.line, wait.warp, at), phase) == Some(phase) {
                suspects.insert(wait.line);
            }
        }
        let mut found = Vec::new();
        for (line, pc) in suspects.into_iter().flat_map(|line| self.pcs_at(line).map(move |pc| (line, pc))) {
            let Some(Instr { op: Op::Mbarrier { op, at }, guard: None, .. }) = self.instr(pc) else { continue };
            let MbarrierOp::Wait { to: Some(over), phase: Source::Reg(parity), parity: true, .. } = *op else {
                continue;
            };
            let several = places.get(&line).filter(|places| places.len() > 1 && matches!(at.base, Source::Reg(_)));
            let last = several.and_then(|places| places.last().copied());
            for parity in self.made_of(parity) {
                let what = Insertion::Toggle { parity, at: *at, last, over };
                found.push((vec![pc], Change::Insert { what, after: true }));
            }
        }
        found
    }

    /// A register and those that it is made of.
    fn made_of(&self, reg: Reg) -> Vec<Reg> {
        let mut all = vec![reg];
        let mut at = 0;
        while let Some(reg) = all.get(at).copied() {
            at += 1;
            work::spend_on(self.program.code.len());
            for instr in &self.program.code {
                let Op::Compute { to: Some(to), args, .. } = &instr.op else { continue };
                let sources = args.iter().filter(|_| *to == reg).filter_map(|source| match source {
                    Source::Reg(source) => Some(*source),
                    _ => None,
                });
                for source in sources {
                    if all.len() < MOST_SOURCES && !all.contains(&source) {
                        all.push(source);
                    }
                }
            }
        }
        all
    }

    /// Waits for the same ring as one, where its turns are written out.
    pub(super) fn waits_like(&self, pc: InstrId, at: SharedAddress) -> Option<Vec<InstrId>> {
        let variable = |place: u64| self.program.variables.partition_point(|of| of.start <= place);
        let stuck = match self.instr(pc)?.op {
            Op::Mbarrier { at, .. } => at,
            _ => return None,
        };
        let start = at.place().wrapping_sub(stuck.offset as u64);
        let is_like = |instr: &Instr| match instr.op {
            Op::Mbarrier { op: MbarrierOp::Wait { parity: true, .. }, at: of } => match of.base {
                Source::Shared(start) => variable(start.wrapping_add(of.offset as u64)) == variable(at.place()),
                base => base == stuck.base && variable(start.wrapping_add(of.offset as u64)) == variable(at.place()),
            },
            _ => false,
        };
        work::spend_on(self.program.code.len());
        let alike = self.program.code.iter_enumerated().filter(|(_, instr)| is_like(instr)).map(|(pc, _)| pc);
        Some(alike.collect::<Vec<InstrId>>()).filter(|alike| alike.len() > 1 && alike.contains(&pc))
    }

    /// Instructions that stand twice, one after the other.
    pub(super) fn doubled(&self) -> Vec<Candidate> {
        work::spend_on(self.program.code.len());
        let code = &self.program.code;
        let pairs = code.iter().zip(code.iter_enumerated().skip(1));
        let doubled = pairs.filter(|(one, (_, other))| {
            let waits = matches!(one.op, Op::Mbarrier { op: MbarrierOp::Wait { .. }, .. });
            let next = other.line.0.checked_sub(one.line.0) == Some(1);
            one.op.synchronises() && !waits && next && one.op == other.op && one.guard == other.guard
        });
        doubled.map(|(_, (pc, _))| (vec![pc], Change::Remove)).collect()
    }

    /// What a wait lacks, put in where those that should bring it end their turn.
    pub(super) fn missing(&self, group: &Stuck) -> Vec<Candidate> {
        match group.wait {
            Wait::Mbarrier { at, .. } => match group.lacks {
                Lack::Arrivals { .. } | Lack::Everything { .. } => self.missing_arrivals(group, at),
                Lack::Announcement { .. } => self.missing_announcement(at),
                _ => Vec::new(),
            },
            Wait::Named { id, .. } => self.missing_threads(group, id),
            _ => Vec::new(),
        }
    }

    /// Who waits for one mbarrier of a stage arrives at the other.
    fn missing_arrivals(&self, group: &Stuck, at: SharedAddress) -> Vec<Candidate> {
        let (came, needed) = group.awaited.arrived.unwrap_or_default();
        let missing = needed.saturating_sub(came);
        // By place: the first mbarrier that is waited for, and by how many.
        let mut waits: BTreeMap<Line, (SharedAddress, BTreeSet<WarpId>)> = BTreeMap::new();
        for wait in self.waits() {
            let waits_itself = wait.warp.rank == group.rank && group.warps.contains(&wait.warp.index);
            let Wait::Mbarrier { at: of, .. } = wait.on else { continue };
            if of != at && of.rank() == at.rank() && wait.to.is_some() && !waits_itself {
                waits.entry(wait.line).or_insert((of, BTreeSet::new())).1.insert(wait.warp);
            }
        }
        let mut found = Vec::new();
        for (line, (of, warps)) in waits.into_iter().take(MOST_PLACES) {
            for pc in self.pcs_at(line) {
                let Some(Op::Mbarrier { op: MbarrierOp::Wait { .. }, at: waited }) =
                    self.instr(pc).map(|instr| &instr.op)
                else {
                    continue;
                };
                let Some(end) = self.end_of_turn(pc) else { continue };
                let offset = waited.offset + at.place().wrapping_sub(of.place()) as i64;
                let share = missing.checked_div(warps.len() as u64).filter(|share| *share > 1);
                for count in [Some(1), None].into_iter().chain(share.map(Some)) {
                    let what = Insertion::Arrive { at: Address { base: waited.base, offset }, count };
                    found.push((vec![end], Change::Insert { what, after: false }));
                }
            }
        }
        found
    }

    /// Copies that nobody announces bytes for.
    fn missing_announcement(&self, at: SharedAddress) -> Vec<Candidate> {
        let copied = self.copied(at);
        let bytes = copied.values().sum();
        let first = copied.keys().next().copied();
        let pcs = first.into_iter().flat_map(|line| self.pcs_at(line));
        let announced = pcs.filter_map(|pc| match self.instr(pc)?.op {
            Op::Copy { at, .. } => {
                let what = Insertion::Announce { at, bytes };
                Some((vec![pc], Change::Insert { what, after: false }))
            }
            _ => None,
        });
        announced.collect()
    }

    /// Warps that never come to a named barrier arrive there.
    fn missing_threads(&self, group: &Stuck, id: u64) -> Vec<Candidate> {
        let (came, count) = group.awaited.arrived.unwrap_or_default();
        let mut by_warp: BTreeMap<u32, (bool, BTreeSet<Line>)> = BTreeMap::new();
        let waits = self.waits().filter(|wait| wait.warp.rank == group.rank);
        let waits = waits.map(|wait| {
            let comes = matches!(wait.on, Wait::Named { id: of, .. } if of == id);
            (wait.warp.index, comes, wait.line)
        });
        let marks = self.marks().filter(|mark| mark.warp.rank == group.rank);
        let marks = marks.map(|mark| {
            let comes = matches!(mark.what, What::ArrivesNamed { id: of } if of == id);
            (mark.warp.index, comes, mark.line)
        });
        for (warp, comes, line) in waits.chain(marks) {
            let of = by_warp.entry(warp).or_default();
            of.0 |= comes;
            of.1.insert(line);
        }
        let absent: Vec<&BTreeSet<Line>> =
            by_warp.values().filter(|(comes, _)| !comes).map(|(_, lines)| lines).collect();
        let Some((first, others)) = absent.split_first() else { return Vec::new() };
        if absent.len() as u64 * WARP != count.saturating_sub(came) {
            return Vec::new();
        }
        let together = first.iter().filter(|line| others.iter().all(|other| other.contains(line)));
        let pcs = together
            .flat_map(|line| self.pcs_at(*line))
            .filter(|pc| self.instr(*pc).is_some_and(|instr| instr.op.synchronises()));
        let pcs: Vec<InstrId> = pcs.collect();
        let ends: BTreeSet<InstrId> = pcs.iter().filter_map(|pc| self.end_of_turn(*pc)).collect();
        let what = Insertion::ArriveNamed { id, count };
        let at_ends = ends.into_iter().map(|pc| (vec![pc], Change::Insert { what, after: false }));
        let beside = pcs.iter().map(|pc| (vec![*pc], Change::Insert { what, after: true }));
        at_ends.take(MOST_PLACES).chain(beside.take(MOST_PLACES)).collect()
    }

    /// The half of the cluster barrier that is not there.
    pub(super) fn other_half(&self, waits: bool, pc: InstrId, warp: WarpId) -> Vec<Candidate> {
        if waits {
            return vec![(vec![pc], Change::Insert { what: Insertion::ArriveCluster, after: false })];
        }
        let arrives = |mark: &&Mark| mark.what == What::ArrivesCluster && mark.warp == warp;
        let before = self.marks().filter(arrives).last().map(|mark| mark.line);
        let pcs = before.into_iter().flat_map(|line| self.pcs_at(line));
        pcs.map(|pc| (vec![pc], Change::Insert { what: Insertion::WaitCluster, after: true })).collect()
    }

    /// Instructions that initialise an mbarrier that another one has initialised: one of them is meant for this one.
    pub(super) fn initialised_elsewhere(&self, at: SharedAddress) -> Vec<Candidate> {
        let first: BTreeMap<Line, SharedAddress> = self.inits().map(|(at, _, line)| (line, at)).collect();
        work::spend_on(self.program.code.len());
        let sites: Vec<(InstrId, Line, Address)> = self
            .program
            .code
            .iter_enumerated()
            .filter_map(|(pc, instr)| match instr.op {
                Op::Mbarrier { op: MbarrierOp::Init { .. }, at } => Some((pc, instr.line, at)),
                _ => None,
            })
            .collect();
        // What a base holds, as the others that start from it show.
        let start_of = |base: Source| {
            let known = sites.iter().filter(|(.., at)| at.base == base);
            let mut known =
                known.filter_map(|(_, line, at)| Some(first.get(line)?.place().wrapping_sub(at.offset as u64)));
            match base {
                Source::Shared(start) => Some(start),
                _ => known.next(),
            }
        };
        let again = sites.iter().filter(|(_, line, _)| !first.contains_key(line));
        let moved = again.filter_map(|(pc, _, address)| {
            work::spend_on(sites.len());
            let offset = at.place().wrapping_sub(start_of(address.base)?) as i64;
            Some((vec![*pc], Change::Object { at: Address { base: address.base, offset } }))
        });
        moved.take(MOST_PLACES).collect()
    }

    /// Operations that stay with one mbarrier while others of the same loop go on from stage to stage.
    pub(super) fn moved(&self) -> Vec<Candidate> {
        let waits = self.waits().filter_map(|wait| Some((wait.line, wait.warp, wait.on.mbarrier()?)));
        let marks = self.marks().filter_map(|mark| match mark.what {
            What::Arrives { at, .. } => Some((mark.line, mark.warp, at)),
            _ => None,
        });
        // By place: the objects in the order of their turn, of the first warp that comes there.
        let mut turns: BTreeMap<Line, (WarpId, Vec<SharedAddress>)> = BTreeMap::new();
        for (line, warp, at) in waits.chain(marks) {
            let (of, objects) = turns.entry(line).or_insert((warp, Vec::new()));
            if *of == warp {
                objects.push(at);
            }
        }
        let is_one = |objects: &[SharedAddress]| objects.iter().all(|at| Some(at) == objects.first());
        let address = |line: Line| {
            self.pcs_at(line).find_map(|pc| match self.instr(pc)?.op {
                Op::Mbarrier { at, .. } => Some((pc, at)),
                _ => None,
            })
        };
        let mut found = Vec::new();
        let stays = turns.iter().filter(|(_, (_, objects))| objects.len() > 1 && is_one(objects));
        for (line, (_, objects)) in stays.take(MOST_PLACES) {
            let (Some((pc, _)), Some(stays)) = (address(*line), objects.first()) else { continue };
            let Some(end) = self.end_of_turn(pc) else { continue };
            let goes_on = turns.iter().filter(|(_, (_, objects))| !is_one(objects));
            for (other, (_, objects)) in goes_on {
                work::spend(4);
                let Some((of, Address { base: base @ Source::Reg(_), offset })) = address(*other) else { continue };
                if self.end_of_turn(of) != Some(end) {
                    continue;
                }
                let stages: BTreeSet<u64> = objects.iter().map(|at| at.place()).collect();
                for stage in stages.into_iter().take(MOST_SOURCES) {
                    let offset = offset + stays.place().wrapping_sub(stage) as i64;
                    found.push((vec![pc], Change::Object { at: Address { base, offset } }));
                }
            }
        }
        found
    }

    /// Numbers that ways part by: one more or less, or a warp.
    pub(super) fn constants(&self) -> Vec<Candidate> {
        work::spend_on(self.program.code.len());
        let guards: BTreeSet<u32> = self.program.code.iter().filter_map(|instr| Some(instr.guard?.0.0)).collect();
        let compared = self.program.code.iter_enumerated().filter_map(|(pc, instr)| match instr.op {
            Op::Compute {
                what: Compute::Compare { .. }, to: Some(to), args: [_, Source::Number(number), ..], ..
            } => (guards.contains(&to.0) && self.recording.passes.get(pc).is_some_and(|passes| *passes > 0))
                .then_some((pc, number)),
            _ => None,
        });
        // What whole warps part by does not come to part one.
        let of_threads: BTreeSet<u32> = self.program.code.iter().filter_map(thread_number).map(|reg| reg.0).collect();
        let parts_warps = |pc: InstrId, from: u64| {
            let compared = self.program.code.get(pc).map(|instr| &instr.op);
            let is_of_threads = matches!(
                compared, Some(Op::Compute { args: [Source::Reg(reg), ..], .. }) if of_threads.contains(&reg.0)
            );
            is_of_threads && from.is_multiple_of(WARP)
        };
        let near = |(pc, from): (InstrId, u64)| {
            let by = if parts_warps(pc, from) { &[WARP][..] } else { &[1, WARP] };
            let near = by.iter().flat_map(move |by| [from.checked_add(*by), from.checked_sub(*by)]);
            near.flatten().map(move |to| (vec![pc], Change::Constant { from, to }))
        };
        compared.flat_map(near).collect()
    }

    /// The branch that ends the turn of the loop that an instruction stands in, or what ends its way where there is none.
    fn end_of_turn(&self, pc: InstrId) -> Option<InstrId> {
        let code = &self.program.code;
        work::spend_on(code.len());
        let loops = code.iter_enumerated().filter_map(|(from, instr)| match instr.op {
            Op::Branch { to } if to <= pc && pc <= from => Some((to, from)),
            _ => None,
        });
        // A loop that asks until a wait is over counts nothing.
        let counts = |(to, from): &(InstrId, InstrId)| {
            let body = code.range(*to..from.next());
            body.iter().any(|instr| {
                matches!(instr.op, Op::Compute { what: Compute::Add { .. } | Compute::Arithmetic { .. }, .. })
            })
        };
        let turns = loops.filter(counts).min_by_key(|(to, from)| from.0 - to.0).map(|(_, from)| from);
        turns.or_else(|| {
            let rest = code.range_enumerated(pc..code.next_id());
            let mut ends = rest.filter(|(at, instr)| match instr.op {
                Op::Exit => true,
                Op::Branch { to } => to > *at && instr.guard.is_none(),
                _ => false,
            });
            ends.next().map(|(at, _)| at)
        })
    }
}

/// The register that an instruction puts the number of a thread in.
fn thread_number(instr: &Instr) -> Option<Reg> {
    match instr.op {
        Op::Compute { what: Compute::Move(_), to: Some(to), args: [Source::Special(Special::Tid(_)), ..], .. } => {
            Some(to)
        }
        _ => None,
    }
}
