//! Who holds the registers at one place: the live registers, grouped by the value they belong to.

use std::collections::{BTreeMap, HashMap};

use crate::base::{Line, Pc, RegFile, RegSet};
use crate::flow::{Definition, Program};
use crate::graph::LoopId;
use crate::registers::code::Code;

/// Registers that were filled by the same line of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The registers, ascending.
    pub registers: Vec<u16>,
    /// The PTX line that defines them; none for a value that is there from the start, or whose line is not known.
    pub defined_at: Option<Line>,
    /// An instruction that defines them.
    pub definition: Option<Pc>,
    /// The first line after the place that reads one of them.
    pub next_use: Option<Pc>,
    /// The last instruction after the place that reads one of them.
    pub last_use: Option<Pc>,
    /// Where the outermost loop around the place begins that neither makes nor reads any of them.
    pub idle_loop: Option<Pc>,
}

/// What PTX says about lines.
pub trait Lines {
    /// The line of an instruction.
    fn line_of(&self, pc: Pc) -> Option<Line>;
    /// Whether a line makes a value, as a branch or a label does not.
    fn makes_values(&self, line: Line) -> bool;
}

/// The vector registers occupied at an instruction, by the line that makes them.
pub fn live_set(code: &Code, pc: Pc, lines: &impl Lines) -> Vec<Value> {
    let program = code.program();
    let Some(row) = code.liveness.row(program, &code.cfg, pc) else { return Vec::new() };
    // What the instruction itself writes is defined here; the rest was before.
    let mut before = RegSet::EMPTY;
    row.before.iter(RegFile::Gpr).for_each(|index| before.insert(RegFile::Gpr, index));
    let mut made = code.liveness.definitions(program, &code.cfg, pc, &before);
    let written = row.effects.writes.iter(RegFile::Gpr).filter(|index| !before.contains(RegFile::Gpr, *index));
    made.extend(written.map(|index| Definition { file: RegFile::Gpr, index, pc }));
    made.sort_unstable();
    // By register, those that are there from the start with nothing.
    let occupied = row.occupied();
    let mut rest = &made[..];
    let definitions: Vec<(u16, &[Definition])> = occupied
        .iter(RegFile::Gpr)
        .map(|register| {
            let of_register = rest.iter().take_while(|found| found.index == register).count();
            let (own, others) = rest.split_at(of_register);
            rest = others;
            (register, own)
        })
        .collect();
    // A register that several lines may have filled belongs to the line that fills most of the others: the accumulators of one
    // matrix instruction stay together although each was zeroed by a line of its own.
    let mut popularity: HashMap<Line, usize> = HashMap::new();
    let mut filled_by: Vec<Line> = Vec::new();
    for (_, made) in &definitions {
        filled_by.clear();
        filled_by.extend(made.iter().filter_map(|found| lines.line_of(found.pc)));
        filled_by.sort_unstable();
        filled_by.dedup();
        for &line in &filled_by {
            *popularity.entry(line).or_default() += 1;
        }
    }
    let around = loops_around(code, pc);
    // The loops that something is made or read in, by their place in `around`: those from there on, inwards, are idle.
    let mut busy = [0usize; 256];
    let mut touch = |register: u16, at: Pc| {
        if let Some(busy) = busy.get_mut(usize::from(register)).filter(|_| !around.is_empty()) {
            *busy = (*busy).max(loops_shared(code, at, &around));
        }
    };
    made.iter().for_each(|found| touch(found.index, found.pc));
    let mut uses = [(None::<Pc>, None::<Pc>); 256];
    code.liveness.each_use(program, &code.cfg, pc, &before, |used| {
        touch(used.index, used.pc);
        let Some(entry) = uses.get_mut(usize::from(used.index)) else { return };
        if used.is_next {
            entry.0 = Some(entry.0.map_or(used.pc, |pc| pc.min(used.pc)));
        }
        entry.1 = Some(entry.1.map_or(used.pc, |pc| pc.max(used.pc)));
    });
    // Without a line the instruction stands for it.
    let mut values: BTreeMap<(Option<Line>, Option<Pc>), Value> = BTreeMap::new();
    for (register, made) in definitions {
        // The accumulators of a matrix instruction are its own, whoever zeroed them: the widest writer first. Then what makes a value
        // anew each time round a loop, before what made the first.
        let main = made.iter().map(|found| found.pc).max_by_key(|&pc| {
            let line = lines.line_of(pc);
            let writes = program.runs(pc.0 as usize / 16).filter(|run| run.is_write() && run.file() == RegFile::Gpr);
            let width: u16 = writes.map(|run| u16::from(run.count())).sum();
            let width = if width > 8 { width } else { 0 };
            let makes = line.is_some_and(|line| lines.makes_values(line));
            let depth = code.cfg.loop_depth(&code.loops, pc);
            (width, makes, depth, line.and_then(|line| popularity.get(&line)).copied().unwrap_or(0), pc)
        });
        let line = main.and_then(|pc| lines.line_of(pc));
        let (next, last) = uses.get(usize::from(register)).copied().unwrap_or_default();
        let idle_loop =
            around.get(busy.get(usize::from(register)).copied().unwrap_or(0)).map(|id| loop_start(code, *id));
        let value = values.entry((line, main.filter(|_| line.is_none()))).or_insert_with(|| Value {
            registers: Vec::new(),
            defined_at: line,
            definition: main,
            next_use: next,
            last_use: last,
            idle_loop,
        });
        value.registers.push(register);
        value.next_use = [value.next_use, next].into_iter().flatten().min();
        value.last_use = value.last_use.max(last);
        // Of two that begin at different places the inner one is idle for both.
        value.idle_loop = value.idle_loop.zip(idle_loop).map(|(a, b)| a.max(b));
    }
    values.into_values().collect()
}

/// How many of the loops around one place, outermost first, are around another, too.
fn loops_shared(code: &Code, pc: Pc, around: &[LoopId]) -> usize {
    let shared = |id: LoopId| around.iter().position(|other| *other == id);
    enclosing(code, pc).find_map(shared).map_or(0, |at| at + 1)
}

/// The loops around an instruction, innermost first.
fn enclosing(code: &Code, pc: Pc) -> impl Iterator<Item = LoopId> {
    code.cfg.block_at(pc).into_iter().flat_map(|block| code.loops.around(block))
}

/// The loops around an instruction, outermost first.
fn loops_around(code: &Code, pc: Pc) -> Vec<LoopId> {
    let mut found: Vec<LoopId> = enclosing(code, pc).collect();
    found.reverse();
    found
}

fn loop_start(code: &Code, id: LoopId) -> Pc {
    let header = code.loops.loops.get(id).map(|found| found.header);
    header.and_then(|header| code.cfg.blocks.get(header.0 as usize)).map_or(Pc(0), |block| Pc(block.start * 16))
}
