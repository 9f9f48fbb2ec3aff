//! Who holds the registers at one place: the live registers, grouped by the value they belong to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::base::{Line, Pc, RegFile, RegSet};
use crate::flow::{Definition, Program};
use crate::graph::LoopId;
use crate::registers::code::Code;
use crate::registers::origins::{Origin, Origins, Place};
use crate::registers::remake::{Again, Remake};

/// Registers that hold what the same instruction makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The registers, ascending.
    pub registers: Vec<u16>,
    /// What the value is the result of, wherever it was moved since; of several instructions the one that it is known by. Accumulators that are
    /// only zeroed so far are those of the matrix instruction.
    pub origin: Origin,
    /// The instruction that put it into the registers: a copy or a refill, where it is not the one that made it.
    pub definition: Option<Pc>,
    /// The matrix instruction that adds to it.
    pub accumulated_at: Option<Pc>,
    /// The first instruction after the place that reads one of them.
    pub next_use: Option<Pc>,
    /// Every instruction after the place that reads it, where it was moved to included; none where they are not all known.
    pub uses: Option<Vec<Pc>>,
    /// Where the outermost loop around the place begins that neither makes nor reads any of them.
    pub idle_loop: Option<Pc>,
    /// How it could be had again before its next use: of what an instruction makes that is asked only where it is idle for long.
    pub again: Option<Again>,
}

/// Instructions that a value lies idle before that is worth a word, where no loop says more: so many, and one in so many of the function's.
const LONG_IDLE: (u32, u32) = (64, 8);

/// What PTX says about instructions.
pub trait Lines {
    /// The line of an instruction.
    fn line_of(&self, pc: Pc) -> Option<Line>;
    /// Whether an instruction makes the value of its line, as one that computes an address for a store does not.
    fn makes_value(&self, pc: Pc, place: Place) -> bool;
}

/// A live register and what is known about it.
struct Held {
    register: u16,
    definitions: Vec<Pc>,
    origins: Vec<Origin>,
    /// The reads of the register itself, and those among them that come next on some way.
    reads: Vec<Pc>,
    next: Vec<Pc>,
}

/// The vector registers occupied at an instruction, by what makes their values.
pub fn live_set(code: &Code, pc: Pc, lines: &impl Lines, origins: &Origins<'_>) -> Vec<Value> {
    let program = code.program();
    let Some(row) = code.liveness.row(program, &code.cfg, pc) else { return Vec::new() };
    // What the instruction itself writes is defined here; the rest was before.
    let mut before = RegSet::EMPTY;
    row.before.iter(RegFile::Gpr).for_each(|index| before.insert(RegFile::Gpr, index));
    let mut made = code.liveness.definitions(program, &code.cfg, pc, &before);
    let written = row.effects.writes.iter(RegFile::Gpr).filter(|index| !before.contains(RegFile::Gpr, *index));
    made.extend(written.map(|index| Definition { file: RegFile::Gpr, index, pc }));
    made.sort_unstable();
    let live = row.occupied();
    let mut all = held(&live, &made, origins);
    let around = loops_around(code, pc);
    // The loops that something is made or read in, by their place in `around`: those from there on, inwards, are idle.
    let mut busy = [0usize; 256];
    let mut touch = |register: u16, at: Pc| {
        if let Some(busy) = busy.get_mut(usize::from(register)).filter(|_| !around.is_empty()) {
            *busy = (*busy).max(loops_shared(code, at, &around));
        }
    };
    made.iter().for_each(|found| touch(found.index, found.pc));
    code.liveness.each_use(program, &code.cfg, pc, &before, |used| {
        touch(used.index, used.pc);
        add_read(&mut all, used.index, used.pc, used.is_next);
    });
    // What is written here is read after it.
    for register in row.effects.writes.iter(RegFile::Gpr).filter(|index| !before.contains(RegFile::Gpr, *index)) {
        let place = Place { file: RegFile::Gpr, index: register };
        for at in origins.reads_after(Pc(pc.0 + 16), place).unwrap_or_default() {
            touch(register, at);
            add_read(&mut all, register, at, false);
        }
    }
    let idle_loop = |register: u16| {
        let busy = busy.get(usize::from(register)).copied().unwrap_or(0);
        around.get(busy).map(|id| loop_start(code, *id))
    };
    let popularity = popularity(&all, lines);
    let remake = Remake::new(code, origins, &live);
    let mut values: BTreeMap<(Origin, Option<Pc>, Option<Pc>), Value> = BTreeMap::new();
    for mut held in all {
        held.sort();
        let idle_loop = idle_loop(held.register);
        let value = value(&remake, pc, held, lines, &popularity, idle_loop);
        match values.entry((origin_key(value.origin), value.definition, value.accumulated_at)) {
            Entry::Vacant(entry) => _ = entry.insert(value),
            Entry::Occupied(mut entry) => entry.get_mut().join(value),
        }
    }
    values.into_values().collect()
}

/// Notes that an instruction reads a live register.
fn add_read(all: &mut [Held], register: u16, at: Pc, is_next: bool) {
    if let Ok(place) = all.binary_search_by_key(&register, |held| held.register)
        && let Some(held) = all.get_mut(place)
    {
        held.reads.push(at);
        held.next.extend(Some(at).filter(|_| is_next));
    }
}

impl Held {
    fn sort(&mut self) {
        self.reads.sort_unstable();
        self.reads.dedup();
        self.next.sort_unstable();
        self.next.dedup();
    }
}

/// What one live register holds at an instruction.
fn value(
    remake: &Remake<'_>,
    pc: Pc,
    held: Held,
    lines: &impl Lines,
    popularity: &HashMap<Line, usize>,
    idle_loop: Option<Pc>,
) -> Value {
    let origins = remake.origins;
    let place = Place { file: RegFile::Gpr, index: held.register };
    let uses = origins.uses(place, &held.reads);
    let definition = held.definitions.iter().copied().filter(|made| *made <= pc).max();
    let definition = definition.or(held.definitions.iter().copied().max());
    let next_use = held.next.first().copied();
    // One that nothing reads next may be joined with others.
    let may_be_idle = idle_loop.is_some() || next_use.is_none() || is_long(remake.code, idle(definition, next_use, pc));
    // The stack pointer is held for all of the code.
    let is_stack_pointer = is_stack_pointer(remake.code, &held);
    let accumulates = |&&(at, place): &&(Pc, Place)| !is_stack_pointer && origins.accumulates(at, place);
    let accumulated_at = uses.at.iter().find(accumulates).map(|(at, _)| *at);
    let again = match held.origins[..] {
        _ if is_stack_pointer => None,
        [Origin::Made(maker, _)] if may_be_idle => remake.again(maker, &held.next),
        [Origin::Constant(_)] => Some(Again::Compute),
        _ => None,
    };
    // Where something else may be read, as a sum from the second turn of a loop on, that cannot be made by what made the first.
    let is_only = |read: &Pc| {
        let made = origins.definitions(*read, place);
        made.is_some_and(|made| made.iter().all(|pc| held.definitions.contains(pc)))
    };
    let again = again.filter(|_| held.next.iter().all(is_only));
    Value {
        registers: vec![held.register],
        origin: origin(remake.code, &held, lines, popularity, origins, accumulated_at),
        definition,
        accumulated_at,
        next_use,
        uses: uses.is_complete.then(|| uses.at.iter().map(|(at, _)| *at).collect()),
        idle_loop,
        again,
    }
}

/// Instructions between what put a value into a register and its next use, when the place lies between the two.
fn idle(definition: Option<Pc>, next_use: Option<Pc>, at: Pc) -> Option<u32> {
    let (from, to) = (definition?, next_use?);
    (from < at && at <= to).then(|| (to.0 - from.0) / 16 - 1)
}

fn is_long(code: &Code, idle: Option<u32>) -> bool {
    idle.is_some_and(|idle| idle >= LONG_IDLE.0.max(code.cfg.instructions / LONG_IDLE.1))
}

/// Registers of one instruction's result are one value.
fn origin_key(origin: Origin) -> Origin {
    match origin {
        Origin::Made(pc, _) => Origin::Made(pc, Place { file: RegFile::Gpr, index: 0 }),
        other => other,
    }
}

impl Value {
    /// Instructions between what put it there and its next use, when the place lies between the two.
    pub fn idle_instructions(&self, at: Pc) -> Option<u32> {
        idle(self.definition, self.next_use, at)
    }

    /// Whether it lies idle at a place for long enough to be worth a word.
    pub fn is_idle(&self, code: &Code, at: Pc) -> bool {
        self.idle_loop.is_some() || is_long(code, self.idle_instructions(at))
    }

    fn join(&mut self, other: Value) {
        self.registers.extend(other.registers);
        self.next_use = [self.next_use, other.next_use].into_iter().flatten().min();
        self.uses = self.uses.take().zip(other.uses).map(|(mut all, more)| {
            all.extend(more);
            all.sort_unstable();
            all.dedup();
            all
        });
        // Of two that begin at different places the inner one is idle for both.
        self.idle_loop = self.idle_loop.zip(other.idle_loop).map(|(a, b)| a.max(b));
        // Where one of them cannot be made again, they cannot.
        self.again = self.again.zip(other.again).map(|(a, b)| a.min(b));
    }
}

/// The live registers, ascending, with what put their values there.
fn held(live: &RegSet, made: &[Definition], origins: &Origins<'_>) -> Vec<Held> {
    let mut rest = made;
    live.iter(RegFile::Gpr)
        .map(|register| {
            let of_register = rest.iter().take_while(|found| found.index == register).count();
            let (own, others) = rest.split_at(of_register);
            rest = others;
            let definitions: Vec<Pc> = own.iter().map(|found| found.pc).collect();
            let origins = origins.of_definitions(Place { file: RegFile::Gpr, index: register }, &definitions);
            Held { register, definitions, origins, reads: Vec::new(), next: Vec::new() }
        })
        .collect()
}

/// Whether a register is what ptxas keeps the stack in: R1, set by the first instruction, and after that only moved by what a frame takes.
fn is_stack_pointer(code: &Code, held: &Held) -> bool {
    let moves = |pc: Pc| code.program().effects(pc.0 as usize / 16).reads.contains(RegFile::Gpr, 1);
    held.register == 1 && held.definitions.iter().all(|pc| *pc == Pc(0) || moves(*pc))
}

/// How many registers each line may have filled.
fn popularity(all: &[Held], lines: &impl Lines) -> HashMap<Line, usize> {
    let mut popularity: HashMap<Line, usize> = HashMap::new();
    for held in all {
        let mut filled_by: Vec<Line> =
            held.origins.iter().filter_map(|origin| lines.line_of(origin.made()?.0)).collect();
        filled_by.sort_unstable();
        filled_by.dedup();
        for line in filled_by {
            *popularity.entry(line).or_default() += 1;
        }
    }
    popularity
}

/// What a value is known by: of several makers a matrix instruction, for accumulators are its own whoever filled them first; then what makes the
/// value of its line, and what makes it anew each time round a loop before what made the first. A number counts only where nothing else may be there.
fn origin(
    code: &Code,
    held: &Held,
    lines: &impl Lines,
    popularity: &HashMap<Line, usize>,
    origins: &Origins<'_>,
    accumulated_at: Option<Pc>,
) -> Origin {
    if held.origins.contains(&Origin::Unknown) {
        return Origin::Unknown;
    }
    let made = held.origins.iter().copied().filter_map(Origin::made).max_by_key(|&(pc, place)| {
        let line = lines.line_of(pc);
        let depth = code.cfg.loop_depth(code.loops(), pc);
        let popular = line.and_then(|line| popularity.get(&line)).copied().unwrap_or(0);
        (origins.is_matrix(pc), lines.makes_value(pc, place), depth, popular, pc)
    });
    if let Some((pc, place)) = made {
        return Origin::Made(pc, place);
    }
    let number = held.origins.iter().copied().find(|origin| matches!(origin, Origin::Constant(_)));
    match (number, accumulated_at) {
        (Some(_), Some(at)) => Origin::Made(at, Place { file: RegFile::Gpr, index: held.register }),
        (Some(number), None) => number,
        (None, _) => Origin::Start,
    }
}

/// How many of the loops around one place, outermost first, are around another, too.
fn loops_shared(code: &Code, pc: Pc, around: &[LoopId]) -> usize {
    let shared = |id: LoopId| around.iter().position(|other| *other == id);
    enclosing(code, pc).find_map(shared).map_or(0, |at| at + 1)
}

/// The loops around an instruction, innermost first.
fn enclosing(code: &Code, pc: Pc) -> impl Iterator<Item = LoopId> {
    code.cfg.block_at(pc).into_iter().flat_map(|block| code.loops().around(block))
}

/// The loops around an instruction, outermost first.
fn loops_around(code: &Code, pc: Pc) -> Vec<LoopId> {
    let mut found: Vec<LoopId> = enclosing(code, pc).collect();
    found.reverse();
    found
}

fn loop_start(code: &Code, id: LoopId) -> Pc {
    let header = code.loops().loops.get(id).map(|found| found.header);
    header.and_then(|header| code.cfg.blocks.get(header.0 as usize)).map_or(Pc(0), |block| Pc(block.start * 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Layout, Rule};
    use crate::sass::Decoder;

    struct Nothing;

    impl Lines for Nothing {
        fn line_of(&self, _: Pc) -> Option<Line> {
            None
        }

        fn makes_value(&self, _: Pc, _: Place) -> bool {
            false
        }
    }

    /// `testdata/cost/waits.ptx` as ptxas 13.4 makes it for sm_90a.
    fn again(at: u32, register: u16) -> Option<Again> {
        let words = include_str!("../../testdata/cost/waits.hex").lines();
        let code: Vec<u8> = words.flat_map(|word| u128::from_str_radix(word, 16).unwrap().to_le_bytes()).collect();
        let layout = Layout { entries: vec![Pc(0)], ..Layout::default() };
        let code = Code::solve(Decoder::new("sm_90a".parse().unwrap()).unwrap(), &code, &layout, Rule::Sound);
        let values = live_set(&code, Pc(at), &Nothing, &Origins::new(&code, &[]));
        let found = values.iter().find(|value| value.registers.contains(&register));
        found.unwrap_or_else(|| panic!("R{register} is not live at {at:#x}")).again
    }

    #[test]
    fn what_a_loop_sets_anew_cannot_be_made_as_it_was_at_first() {
        // 0 before the loop, and at 0xd0 what the turn before made of it.
        assert_eq!(again(0xc0, 10), None);
        // 1 through all of the turns of a lock.
        assert_eq!(again(0x240, 7), Some(Again::Compute));
    }
}
