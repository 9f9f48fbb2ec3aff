//! The values that hold registers at one place: rows that a person reads, the ones that matter first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::code::Section;
use super::model::*;
use crate::base::{Line, Pc};
use crate::ptx::{Instruction, Module, Statement};
use crate::registers::code::Code;
use crate::registers::live_set::{Lines, Value, live_set};

/// Statements after the one that a matrix instruction's line names, and before it, among which its `wgmma` is looked for.
const MATRIX_STATEMENTS: usize = 64;

/// Instructions that a value lies idle before that is worth a word, where no loop says more: so many, and one in so many of the function's.
const LONG_IDLE: (u32, u32) = (64, 8);

/// Rows that come first for their size alone.
const LARGEST: usize = 2;

impl Lines for Section<'_> {
    fn line_of(&self, pc: Pc) -> Option<Line> {
        self.ptx_line(pc)
    }

    fn makes_values(&self, line: Line) -> bool {
        self.module.is_none() || self.instructions(line).any(|found| makes_register(&found))
    }
}

/// What values have in common that make one row: what made them, for which source line, and where they lie idle.
type Alike = (Option<String>, bool, Option<SourceLine>, Option<Line>, Option<String>);

impl Section<'_> {
    /// The live registers at an instruction: values that the same kind of statement makes, for the same source line, together. The two that
    /// hold the most registers come first, then what lies idle, then the rest.
    pub(super) fn live_values(&self, code: &Code, pc: Pc) -> Vec<LiveValue> {
        let values: Vec<LiveValue> =
            live_set(code, pc, self).into_iter().map(|value| self.live_value(code, pc, value)).collect();
        let mut groups: BTreeMap<Alike, LiveValue> = BTreeMap::new();
        for value in values {
            let opcode = value.ptx_line.map_or_else(|| value.sass.clone(), |line| self.opcode(line));
            let alike =
                (opcode, value.is_operand, value.source_line.clone(), value.idle_loop_ptx_line, value.could.clone());
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

    fn live_value(&self, code: &Code, pc: Pc, mut value: Value) -> LiveValue {
        if let Some(line) = value.definition.and_then(|pc| self.matrix_line(code, pc)) {
            value.defined_at = Some(line);
        }
        let idle = idle(&value, pc);
        let is_idle = value.idle_loop.is_some()
            || idle.is_some_and(|idle| idle >= LONG_IDLE.0.max(code.cfg.instructions / LONG_IDLE.1));
        let maker = value.definition.filter(|_| value.defined_at.is_none());
        LiveValue {
            ptx_line: value.defined_at,
            pc: maker,
            sass: maker.and_then(|pc| sass_opcode(code, pc)),
            ptx_lines: value.defined_at.into_iter().collect(),
            is_operand: value.defined_at.is_some_and(|line| !self.makes_values(line)),
            virtual_registers: value.defined_at.map(|line| self.virtual_registers(line)).unwrap_or_default(),
            source_line: value.definition.and_then(|pc| self.source_line(pc)),
            next_use_ptx_line: value.next_use.and_then(|pc| self.ptx_line(pc)),
            last_use_ptx_line: value.last_use.and_then(|pc| self.ptx_line(pc)),
            idle_instructions: idle,
            idle_loop_ptx_line: value.idle_loop.and_then(|pc| self.ptx_line(pc)),
            could: value
                .defined_at
                .filter(|line| is_idle && self.makes_values(*line))
                .and_then(|line| self.could(line))
                .map(str::to_owned),
            registers: value.registers,
        }
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

    /// The `wgmma` of a warpgroup's matrix instruction: ptxas gives its code the line of a statement before it.
    fn matrix_line(&self, code: &Code, pc: Pc) -> Option<Line> {
        let module = self.module?;
        let instruction = code.instruction(pc)?;
        if !code.decoder().mnemonic(&instruction).ends_with("GMMA") {
            return None;
        }
        let given = module.lines_numbered(self.ptx_line(pc)?).next()?;
        matrix_line(module, given).map(|line| module.number_of(line))
    }

    /// What could shorten the life of a value that this line makes.
    fn could(&self, line: Line) -> Option<&'static str> {
        let instruction = self.instructions(line).next()?;
        Some(match instruction.mnemonic() {
            "ld" | "ldu" | "tex" => "reload",
            // A copy of another register would only hold that one instead.
            "mov" if instruction.names().any(|name| !name.is_def && is_numbered(name.name)) => return None,
            "mov" | "add" | "sub" | "mul" | "mad" | "shl" | "shr" | "and" | "or" | "xor" | "cvt" | "cvta" | "selp"
            | "bfe" | "min" | "max" | "neg" | "not" | "lop3" | "shf" | "prmt" => "recompute",
            // A sum, a result of a matrix instruction: to make it again takes all that went into it.
            _ => return None,
        })
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

/// The line of the `wgmma` that a matrix instruction stands for, from the line that ptxas gives it: that of a statement before; where none
/// comes after that, the end of its loop, and the `wgmma` is the last one above.
pub(super) fn matrix_line(module: &Module<'_>, given: Line) -> Option<Line> {
    let from = module.statements().partition_point(|statement| statement.last_line < given);
    let (before, after) = module.statements().split_at_checked(from)?;
    let is_matrix = |statement: &&Statement| {
        statement
            .instruction(module.text())
            .is_some_and(|found| found.opcode().starts_with("wgmma.mma") || found.opcode() == "wgmma")
    };
    let below = after.iter().take(MATRIX_STATEMENTS).find(is_matrix);
    let above = || before.iter().rev().take(MATRIX_STATEMENTS).find(is_matrix);
    below.or_else(above).map(|statement| statement.first_line)
}

/// Whether a statement makes something that a vector register holds: a comparison makes a predicate, a store nothing.
fn makes_register(instruction: &Instruction<'_>) -> bool {
    let makes_predicate = instruction.mnemonic() == "setp" || instruction.has("pred");
    !makes_predicate && instruction.names().any(|name| name.is_def)
}

/// `%r12`, as compilers name registers; special registers, `%tid`, have no number.
fn is_numbered(name: &str) -> bool {
    name.starts_with('%') && name.ends_with(|last: char| last.is_ascii_digit())
}

impl LiveValue {
    /// Takes another value into the row.
    fn join(&mut self, other: LiveValue) {
        self.registers.extend(other.registers);
        self.registers.sort_unstable();
        self.ptx_lines.extend(other.ptx_lines);
        self.ptx_lines.sort_unstable();
        self.ptx_lines.dedup();
        self.ptx_line = self.ptx_lines.first().copied();
        self.pc = [self.pc, other.pc].into_iter().flatten().min();
        for name in other.virtual_registers {
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

/// Instructions between what made a value and its next use, when the place lies between the two.
fn idle(value: &Value, at: Pc) -> Option<u32> {
    let (from, to) = (value.definition?, value.next_use?);
    (from < at && at <= to).then(|| (to.0 - from.0) / 16 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::parse;

    #[test]
    fn a_matrix_instruction_is_the_next_wgmma_or_the_last_one_of_its_loop() {
        let wgmma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 0, 0;";
        let text = format!(
            ".version 8.0\n.target sm_90a\n.entry k() {{\nmov.u32 %r0, 1;\n{wgmma}\nadd.u32 %r0, %r0, 1;\nsetp.ne.b32 %p0, %r0, 0;\nret;\n}}\n"
        );
        let module = parse(&text);
        assert_eq!(matrix_line(&module, Line(4)), Some(Line(5)));
        assert_eq!(matrix_line(&module, Line(7)), Some(Line(5)));
        assert_eq!(matrix_line(&parse(".version 8.0\n.entry k() { ret; }\n"), Line(2)), None);
    }
}
