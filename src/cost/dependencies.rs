//! Reads of results, with what the control bits leave between producer and consumer.
//!
//! A producer and its consumer may lie in different blocks: which results are still under way where a block starts is a fixed point over the
//! control flow (reaching definitions; Aho, Lam, Sethi and Ullman, 2006), each with the fewest cycles since its issue along any path. A
//! result is under way until its scoreboard was waited for, or until no fixed latency reaches so far. A call is taken to wait for everything.

use std::collections::VecDeque;

use crate::base::{FastMap, Id, RegFile, RegSet};
use crate::flow::Program;
use crate::graph::BlockId;
use crate::registers::code::Code;
use crate::sass::{Guard, Transfer};

/// How an instruction reads the result of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// As an operand.
    Reads(RegFile),
    /// As its guard.
    Guarded(RegFile),
}

/// What lies between two instructions that depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Cycles by stall counts, at least.
    Cycles(u32),
    /// Somebody waits for the scoreboard of the earlier one.
    Waited,
    /// The earlier one has a scoreboard, and nobody waits for it.
    NotWaited,
}

/// A dependency of two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The producer.
    pub from: u32,
    /// The consumer.
    pub to: u32,
    /// How it reads.
    pub way: Way,
    /// What covers it.
    pub cover: Cover,
    /// Whether they are in different blocks, or in different turns of a loop.
    pub is_across: bool,
}

/// Cycles beyond which no fixed latency reaches.
const FAR: u32 = 64;
/// Producers of one register that are followed into a block.
const MOST_PRODUCERS: usize = 8;
/// How often what comes into a block is looked at again.
const MOST_VISITS: u8 = 32;

type Register = (RegFile, u16);

/// An instruction that makes what a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Producer {
    index: u32,
    /// The scoreboard of its result.
    board: Option<u8>,
    /// When it was issued, on the clock of the block.
    issued: u32,
    /// Its place among the instructions that the block came to; 0 for those of blocks before.
    place: u32,
}

/// What a block leaves to those behind it.
#[derive(Default)]
struct Summary {
    /// Its own results that are under way at its end; `issued` counts back from there.
    made: Vec<(Register, Producer)>,
    /// What it overwrites in any case.
    overwritten: RegSet,
    /// The scoreboards that it waits for.
    waited: u8,
    /// Its cycles by stall counts.
    cycles: u32,
    /// Whether it calls.
    calls: bool,
}

/// Results under way where a block starts: for each register its producers, `issued` counting back from there.
type Entry = FastMap<Register, Vec<Producer>>;

/// Visits every read of a result that may still be under way, and those within a block that are waited for.
pub fn dependencies(code: &Code, mut visit: impl FnMut(Dependency)) {
    let entries = entries(code);
    for (block, entry) in code.cfg.blocks.iter().zip(&entries) {
        let mut walk = Walk::new(code, entry);
        for index in block.start..block.end {
            walk.read(index, &mut visit);
            walk.write(index);
        }
    }
}

/// What is under way where each block starts.
fn entries(code: &Code) -> Vec<Entry> {
    let count = code.cfg.blocks.len();
    let nothing = Entry::default();
    let summaries: Vec<Summary> = code
        .cfg
        .blocks
        .iter()
        .map(|block| {
            let mut walk = Walk::new(code, &nothing);
            (block.start..block.end).for_each(|index| walk.write(index));
            walk.summary()
        })
        .collect();
    let mut entries: Vec<Entry> = vec![Entry::default(); count];
    let mut visits = vec![0u8; count];
    let mut waits = vec![true; count];
    let mut queue: VecDeque<BlockId> = code.cfg.reverse_postorder().iter().copied().collect();
    while let Some(block) = queue.pop_front() {
        let Some(summary) = summaries.get(block.index()) else { continue };
        waits[block.index()] = false;
        let left = summary.leave(&entries[block.index()]);
        for next in code.cfg.successors(block) {
            let Some(entry) = entries.get_mut(next.index()) else { continue };
            if merge(entry, &left) && !waits[next.index()] && visits[next.index()] < MOST_VISITS {
                visits[next.index()] += 1;
                waits[next.index()] = true;
                queue.push_back(next);
            }
        }
    }
    entries
}

/// Adds what comes along an edge. Returns whether it says more than what came before.
fn merge(entry: &mut Entry, left: &[(Register, Producer)]) -> bool {
    let mut grown = false;
    for &(register, producer) in left {
        let all = entry.entry(register).or_default();
        match all.iter().position(|known| known.index == producer.index) {
            Some(place) if all[place].issued <= producer.issued => {}
            Some(place) => {
                all[place] = producer;
                grown = true;
            }
            None if all.len() < MOST_PRODUCERS => {
                all.push(producer);
                grown = true;
            }
            None => {}
        }
    }
    grown
}

impl Summary {
    /// What is under way at the end of a block that was entered so.
    fn leave(&self, entry: &Entry) -> Vec<(Register, Producer)> {
        let mut left = self.made.clone();
        if self.calls {
            return left;
        }
        for (&register, producers) in
            entry.iter().filter(|((file, index), _)| !self.overwritten.contains(*file, *index))
        {
            left.extend(producers.iter().filter_map(|&producer| {
                let issued = producer.issued.saturating_add(self.cycles);
                let is_under_way = match producer.board {
                    Some(board) => self.waited >> board & 1 == 0,
                    None => issued <= FAR,
                };
                is_under_way.then_some((register, Producer { issued: issued.min(FAR), ..producer }))
            }));
        }
        // Where a list of producers is full the order decides who is in it.
        left.sort_unstable_by_key(|&(register, producer)| (register, producer.index, producer.issued));
        left
    }
}

/// Where a walk through a block has come to.
struct Walk<'a> {
    code: &'a Code,
    producers: FastMap<Register, Vec<Producer>>,
    now: u32,
    place: u32,
    /// By scoreboard, the place of the last instruction that waited for it.
    waits: [u32; 8],
    overwritten: RegSet,
    waited: u8,
    calls: bool,
}

impl Walk<'_> {
    fn new<'a>(code: &'a Code, entry: &Entry) -> Walk<'a> {
        let mut producers = entry.clone();
        for producer in producers.values_mut().flatten() {
            producer.issued = FAR.saturating_sub(producer.issued);
        }
        Walk { code, producers, now: FAR, place: 0, waits: [0; 8], overwritten: RegSet::EMPTY, waited: 0, calls: false }
    }

    /// Whether somebody waited for a result.
    fn is_waited(&self, producer: &Producer) -> bool {
        producer.board.is_some_and(|board| self.waits[usize::from(board & 7)] > producer.place)
    }

    /// An instruction waits, and reads what others made.
    fn read(&mut self, index: u32, visit: &mut impl FnMut(Dependency)) {
        let program = self.code.program();
        self.wait(index, self.place + 1);
        let guard = program.guard(index as usize);
        let is_guard = |(file, number): Register| {
            guard.is_some_and(|guard| (guard.file, u16::from(guard.index)) == (file, number))
        };
        for register in program.effects(index as usize).reads.iter_all() {
            let way = if is_guard(register) { Way::Guarded(register.0) } else { Way::Reads(register.0) };
            for producer in self.producers.get(&register).into_iter().flatten() {
                // Of two with opposite guards only one is done.
                if guard.zip(program.guard(producer.index as usize)).is_some_and(|(a, b)| are_opposite(a, b)) {
                    continue;
                }
                let cover = match producer.board {
                    None => Cover::Cycles(self.now - producer.issued),
                    Some(_) if self.is_waited(producer) => Cover::Waited,
                    Some(_) => Cover::NotWaited,
                };
                visit(Dependency { from: producer.index, to: index, way, cover, is_across: producer.place == 0 });
            }
        }
    }

    fn wait(&mut self, index: u32, place: u32) {
        let Some(inst) = self.code.instructions().get(index as usize) else { return };
        let mask = inst.control().wait_mask;
        self.waited |= mask;
        for board in (0..8).filter(|board| mask >> board & 1 == 1) {
            self.waits[board] = place;
        }
    }

    /// An instruction has issued: what it makes is under way.
    fn write(&mut self, index: u32) {
        let program = self.code.program();
        let Some(inst) = program.instructions().get(index as usize) else { return };
        let control = inst.control();
        self.place += 1;
        self.wait(index, self.place);
        if matches!(program.flow(index as usize).transfer, Transfer::Call(_) | Transfer::CallOut) {
            self.producers.clear();
            self.calls = true;
        }
        let producer = Producer { index, board: control.write_barrier, issued: self.now, place: self.place };
        let is_sure = program.guard(index as usize).is_none();
        for register in program.effects(index as usize).writes.iter_all() {
            let all = self.producers.entry(register).or_default();
            // Under a guard the earlier value may still be there.
            if is_sure {
                all.clear();
                self.overwritten.insert(register.0, register.1);
            } else if all.len() >= MOST_PRODUCERS {
                all.remove(0);
            }
            all.push(producer);
        }
        self.now = self.now.saturating_add(u32::from(control.stall.max(1)));
    }

    fn summary(self) -> Summary {
        let mut made: Vec<(Register, Producer)> = Vec::new();
        for (&register, producers) in &self.producers {
            let under_way = producers.iter().filter(|producer| match producer.board {
                Some(_) => !self.is_waited(producer),
                None => self.now - producer.issued <= FAR,
            });
            made.extend(under_way.map(|&producer| {
                let issued = (self.now - producer.issued).min(FAR);
                (register, Producer { issued, place: 0, ..producer })
            }));
        }
        Summary { made, overwritten: self.overwritten, waited: self.waited, cycles: self.now - FAR, calls: self.calls }
    }
}

fn are_opposite(a: Guard, b: Guard) -> bool {
    (a.file, a.index) == (b.file, b.index) && a.negated != b.negated
}
