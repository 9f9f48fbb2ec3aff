//! The values that hold registers at one place: rows that a person reads, the ones that matter first.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::code::Section;
use super::model::*;
use crate::base::{FastMap, Line, Pc};
use crate::ptx::Instruction;
use crate::registers::code::Code;
use crate::registers::live_set::{Lines, Value, live_set};
use crate::registers::origins::{Origins, Place};
use crate::registers::remake::Again;
use crate::report::makers::{Maker, Makers};

/// Rows that come first for their size alone.
const LARGEST: usize = 2;

/// What the join says of instructions, for the live set.
struct Joined<'s> {
    section: &'s Section<'s>,
    makers: &'s Makers<'s>,
    origins: &'s Origins<'s>,
    /// By line, as far as a value came to it: many are of the same few.
    lines: RefCell<FastMap<Line, OfLine>>,
}

/// What is the same for all values of a line.
#[derive(Clone)]
struct OfLine {
    /// The PTX registers that its statements define.
    virtual_registers: Rc<[String]>,
    /// The first instruction that has it.
    first: Option<Pc>,
}

impl Joined<'_> {
    fn of_line(&self, code: &Code, line: Line) -> OfLine {
        let mut known = self.lines.borrow_mut();
        let of_line = known.entry(line).or_insert_with(|| OfLine {
            virtual_registers: self.section.virtual_registers(line).into(),
            first: self.section.first_of_line(code, line),
        });
        of_line.clone()
    }
}

impl Lines for Joined<'_> {
    fn line_of(&self, pc: Pc) -> Option<Line> {
        self.section.ptx_line(pc)
    }

    fn makes_value(&self, pc: Pc, place: Place) -> bool {
        self.makers.result(self.origins, pc, place, &|pc| self.section.ptx_line(pc)).is_some()
    }
}

/// What values have in common that make one row: what made them, for which source line, and where they lie idle.
type Alike = (Option<String>, bool, Option<SourceLine>, Option<Line>, Option<Line>, Option<String>);

impl Section<'_> {
    /// The live registers at an instruction: values that the same kind of statement makes, for the same source line, together. The two that
    /// hold the most registers come first, then what lies idle, then the rest.
    pub(super) fn live_values(&self, code: &Code, pc: Pc, spills: &[Pc]) -> Vec<LiveValue> {
        let origins = Origins::new(code, spills);
        let matrices = &self.matrices;
        let makers = Makers { code, module: self.module, function: self.function, matrices };
        let joined = Joined { section: self, makers: &makers, origins: &origins, lines: RefCell::default() };
        let values: Vec<LiveValue> = live_set(code, pc, &joined, &origins)
            .into_iter()
            .map(|value| self.live_value(code, pc, &joined, value))
            .collect();
        // Half of a value that could be made again is none.
        let whole =
            |value: &LiveValue| !values.iter().any(|other| other.ptx_line == value.ptx_line && other.could.is_none());
        let could: Vec<Option<String>> = values
            .iter()
            .map(|value| value.could.clone().filter(|_| value.ptx_line.is_none() || whole(value)))
            .collect();
        let mut groups: BTreeMap<Alike, LiveValue> = BTreeMap::new();
        for (mut value, could) in values.into_iter().zip(could) {
            value.could = could;
            let opcode = value.ptx_line.map_or_else(|| value.sass.clone(), |line| self.opcode(line));
            let alike = (
                opcode,
                value.is_operand,
                value.source_line.clone(),
                value.accumulator_of_ptx_line,
                value.idle_loop_ptx_line,
                value.could.clone(),
            );
            match groups.get_mut(&alike) {
                Some(group) => group.join(value),
                None => {
                    groups.insert(alike, value);
                }
            }
        }
        let mut rows: Vec<LiveValue> = groups.into_values().collect();
        let registers = |row: &LiveValue| Reverse(row.registers.len());
        rows.sort_by_key(|row| (registers(row), row.could.is_none(), Reverse(row.idle_instructions), row.ptx_line));
        // The largest stay in front; after them what something can be done about, though it holds less.
        let rest = rows.get_mut(LARGEST..).unwrap_or_default();
        rest.sort_by_key(|row| row.could.is_none());
        rows
    }

    fn live_value(&self, code: &Code, pc: Pc, joined: &Joined<'_>, value: Value) -> LiveValue {
        let uses = value.uses.as_deref().unwrap_or_default();
        let maker = joined.makers.of(joined.origins, value.origin, value.definition, uses, &|pc| self.ptx_line(pc));
        let (line, is_operand, instruction) = match maker {
            Maker::Line(line) => (Some(line), false, None),
            Maker::OperandOf(line) => (Some(line), true, None),
            Maker::Instruction(pc) => (None, false, Some(pc)),
            Maker::Start => (None, false, None),
        };
        let made_at = value.origin.made().map(|(pc, _)| pc).or(value.definition);
        let is_matrix = value.origin.made().is_some_and(|(pc, _)| joined.origins.is_matrix(pc));
        let read_line = |pc: Pc| joined.makers.matrix_line(pc).or_else(|| self.ptx_line(pc));
        LiveValue {
            ptx_line: line,
            pc: instruction,
            sass: instruction.and_then(|pc| sass_opcode(code, pc)),
            ptx_lines: line.into_iter().collect(),
            is_operand,
            virtual_registers: line
                .filter(|_| !is_operand)
                .map(|line| joined.of_line(code, line).virtual_registers.to_vec())
                .unwrap_or_default(),
            source_line: made_at.and_then(|made| {
                // A matrix instruction's own is that of a statement nearby, as its line is.
                let of_line = line
                    .filter(|line| self.ptx_line(made) != Some(*line))
                    .and_then(|line| joined.of_line(code, line).first);
                let own = Some(made).filter(|pc| {
                    line.is_none() || !joined.origins.is_warpgroup_matrix(*pc) || self.ptx_line(*pc) == line
                });
                of_line.or(own).and_then(|pc| self.source_line(pc))
            }),
            accumulator_of_ptx_line: value.accumulated_at.filter(|_| !is_matrix).and_then(read_line),
            next_use_ptx_line: value.next_use.and_then(read_line),
            last_use_ptx_line: value.uses.iter().flatten().filter_map(|pc| read_line(*pc)).max(),
            idle_instructions: value.idle_instructions(pc),
            idle_loop_ptx_line: value.idle_loop.and_then(|pc| self.ptx_line(pc)),
            could: value.again.filter(|_| value.is_idle(code, pc)).map(|again| match again {
                Again::Load => "reload".to_owned(),
                Again::Compute => "recompute".to_owned(),
            }),
            registers: value.registers,
        }
    }

    /// The first instruction that has a line.
    fn first_of_line(&self, code: &Code, line: Line) -> Option<Pc> {
        let all = (0..code.cfg.instructions).map(|index| Pc(index * 16));
        let mut lines = self.lines.as_ref()?.along();
        all.into_iter().find(|pc| lines.at(*pc).0 == Some(line))
    }

    /// The PTX instructions of a line.
    fn instructions(&self, line: Line) -> impl Iterator<Item = Instruction<'_>> {
        self.module.into_iter().flat_map(move |module| {
            let statements = module.lines_numbered(line).flat_map(|line| module.statements_at(line));
            statements.filter_map(|statement| statement.instruction(module.text()))
        })
    }

    /// Opcode and modifiers of a line's first instruction.
    fn opcode(&self, line: Line) -> Option<String> {
        Some(self.instructions(line).next()?.opcode().to_owned())
    }

    /// The PTX registers that the statements of a line define.
    fn virtual_registers(&self, line: Line) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for instruction in self.instructions(line) {
            for name in instruction.names().filter(|name| name.is_def) {
                if !names.iter().any(|known| known == name.name) {
                    names.push(name.name.to_owned());
                }
            }
        }
        names
    }
}

impl LiveValue {
    /// Takes another value into the row.
    fn join(&mut self, other: LiveValue) {
        self.registers.extend(other.registers);
        self.registers.sort_unstable();
        // Values of one line have its registers, all of them.
        let is_known = other.ptx_lines.iter().all(|line| self.ptx_lines.contains(line));
        self.ptx_lines.extend(other.ptx_lines);
        self.ptx_lines.sort_unstable();
        self.ptx_lines.dedup();
        self.ptx_line = self.ptx_lines.first().copied();
        self.pc = [self.pc, other.pc].into_iter().flatten().min();
        for name in other.virtual_registers.into_iter().filter(|_| !is_known) {
            if !self.virtual_registers.contains(&name) {
                self.virtual_registers.push(name);
            }
        }
        self.next_use_ptx_line = [self.next_use_ptx_line, other.next_use_ptx_line].into_iter().flatten().min();
        self.last_use_ptx_line = self.last_use_ptx_line.max(other.last_use_ptx_line);
        self.idle_instructions = self.idle_instructions.zip(other.idle_instructions).map(|(a, b)| a.min(b));
    }
}

/// An instruction's opcode and modifiers.
fn sass_opcode(code: &Code, pc: Pc) -> Option<String> {
    let mut text = String::new();
    code.decoder().text(&code.instruction(pc)?, pc, &mut text);
    let opcode = text.split(' ').find(|word| !word.starts_with('@'))?;
    Some(opcode.to_owned())
}
