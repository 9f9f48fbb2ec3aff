//! Who holds the registers at one place: the live registers, grouped by the value they belong to.

use std::collections::BTreeMap;

use super::code::Code;
use crate::base::{Line, Pc, RegFile, RegSet};
use crate::flow::Program;

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
}

/// The vector registers occupied at an instruction, largest group first.
pub fn live_set(code: &Code, pc: Pc, line_of: &dyn Fn(Pc) -> Option<Line>) -> Vec<Value> {
    let program = code.program();
    let Some(row) = code.liveness.row(&program, &code.cfg, pc) else { return Vec::new() };
    // What the instruction itself writes is defined here; the rest was before.
    let mut before = RegSet::EMPTY;
    row.before.iter(RegFile::Gpr).for_each(|index| before.insert(RegFile::Gpr, index));
    let mut definitions: BTreeMap<u16, Vec<Pc>> = before.iter(RegFile::Gpr).map(|index| (index, Vec::new())).collect();
    for definition in code.liveness.definitions(&program, &code.cfg, pc, &before) {
        definitions.entry(definition.index).or_default().push(definition.pc);
    }
    for index in row.effects.writes.iter(RegFile::Gpr).filter(|index| !before.contains(RegFile::Gpr, *index)) {
        definitions.entry(index).or_default().push(pc);
    }
    // A register that several lines may have filled belongs to the line that fills most of the others: the accumulators of one
    // matrix instruction stay together although each was zeroed by a line of its own.
    let mut popularity: BTreeMap<Line, usize> = BTreeMap::new();
    for pcs in definitions.values() {
        let mut lines: Vec<Line> = pcs.iter().filter_map(|&pc| line_of(pc)).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            *popularity.entry(line).or_default() += 1;
        }
    }
    let mut uses: BTreeMap<u16, (Option<Pc>, Option<Pc>)> = BTreeMap::new();
    for used in code.liveness.uses(&program, &code.cfg, pc, &before) {
        let entry = uses.entry(used.index).or_default();
        if used.is_next {
            entry.0 = Some(entry.0.map_or(used.pc, |pc| pc.min(used.pc)));
        }
        entry.1 = Some(entry.1.map_or(used.pc, |pc| pc.max(used.pc)));
    }
    let mut values: BTreeMap<Option<Line>, Value> = BTreeMap::new();
    for (register, pcs) in definitions {
        // The accumulators of a matrix instruction are its own, whoever zeroed them: the widest writer first.
        let main = pcs.iter().copied().max_by_key(|&pc| {
            let line = line_of(pc);
            let width = program.effects(pc.0 as usize / 16).writes.count(RegFile::Gpr);
            let width = if width > 8 { width } else { 0 };
            (width, line.and_then(|line| popularity.get(&line)).copied().unwrap_or(0), pc)
        });
        let line = main.and_then(line_of);
        let (next, last) = uses.get(&register).copied().unwrap_or_default();
        let value = values.entry(line).or_insert_with(|| Value {
            registers: Vec::new(),
            defined_at: line,
            definition: main,
            next_use: next,
            last_use: last,
        });
        value.registers.push(register);
        value.next_use = [value.next_use, next].into_iter().flatten().min();
        value.last_use = value.last_use.max(last);
    }
    let mut values: Vec<Value> = values.into_values().collect();
    values.sort_by_key(|value| (std::cmp::Reverse(value.registers.len()), value.defined_at));
    values
}
