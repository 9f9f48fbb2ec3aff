//! Which PTX line makes what a register holds: what an instruction of SASS computes, joined with the statement whose result that is.
//!
//! The line table says for which statement ptxas emitted an instruction, which is less: an address that a store needs has the store's line, a number
//! that is set has any line, and a matrix instruction that of a statement nearby. Here a line counts as a value's maker only where the statement makes a
//! value of the kind that the instruction makes; where that cannot be decided, no line is told.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::base::{FastMap, Line, Pc};
use crate::cubin;
use crate::ptx::{Function, Instruction, Module, Shape, StatementKind};
use crate::registers::code::Code;
use crate::registers::origins::{Origin, Origins, Place};
use crate::sass::{OperandKind, Term, parts};

/// What makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// It is the result of this line.
    Line(Line),
    /// It is computed for this line, which makes no such value.
    OperandOf(Line),
    /// An instruction whose line makes another value, or none.
    Instruction(Pc),
    /// It is there from the start.
    Start,
}

/// Joins the instructions of one section with their PTX.
pub(super) struct Makers<'a> {
    pub code: &'a Code,
    pub module: Option<&'a Module<'a>>,
    pub function: &'a cubin::Function<'a>,
    /// The lines of the `wgmma` that matrix instructions stand for.
    pub matrices: &'a OnceLock<FastMap<Pc, Line>>,
}

impl<'a> Makers<'a> {
    /// The maker of a value, from what it is the result of, the instruction that put it where it is, and those that use it.
    pub fn of(
        &self,
        origins: &Origins<'_>,
        origin: Origin,
        definition: Option<Pc>,
        uses: &[Pc],
        line_of: &dyn Fn(Pc) -> Option<Line>,
    ) -> Maker {
        let pc = match origin {
            Origin::Start => return Maker::Start,
            Origin::Unknown => return definition.map_or(Maker::Start, Maker::Instruction),
            Origin::Made(pc, place) => {
                if let Some(line) = self.result(origins, pc, place, line_of) {
                    return Maker::Line(line);
                }
                pc
            }
            Origin::Constant(pc) => {
                let is_move = |line: &Line| self.instructions(*line).any(|found| found.mnemonic() == "mov");
                if let Some(line) = line_of(pc).filter(|line| self.module.is_none() || is_move(line)) {
                    return Maker::Line(line);
                }
                return Maker::Instruction(pc);
            }
        };
        let Some(line) = line_of(pc).filter(|_| !origins.is_matrix(pc)) else { return Maker::Instruction(pc) };
        // Where the function starts no statement is: the stack pointer is set there.
        let is_statement = self.instructions(line).next().is_some();
        let is_for_it = !is_statement || uses.iter().any(|used| *used != pc && line_of(*used) == Some(line));
        if is_for_it { Maker::OperandOf(line) } else { Maker::Instruction(pc) }
    }

    /// The line whose result an instruction puts into a register.
    pub fn result(
        &self,
        origins: &Origins<'_>,
        pc: Pc,
        place: Place,
        line_of: &dyn Fn(Pc) -> Option<Line>,
    ) -> Option<Line> {
        let Some(module) = self.module else { return line_of(pc) };
        let instruction = self.code.instruction(pc)?;
        let mnemonic = self.code.decoder().mnemonic(&instruction);
        if mnemonic.ends_with("GMMA") {
            return self.matrix_line(pc);
        }
        let own = line_of(pc);
        let is_made =
            |line: &Line| self.instructions(*line).any(|found| makes_register(&found) && is_of_kind(mnemonic, &found));
        let text = origins.text(pc);
        let given = match mnemonic {
            "S2R" | "S2UR" | "CS2R" => self.special_register(module, &text, own),
            "LDC" | "LDCU" | "ULDC" | "MOV" | "UMOV" | "IMAD" => self.parameter(module, &text, place),
            _ => None,
        };
        given.or_else(|| own.filter(is_made))
    }

    /// The line that reads the special register of an instruction: its own, or the only one.
    fn special_register(&self, module: &Module<'_>, text: &str, own: Option<Line>) -> Option<Line> {
        let parts = parts(text);
        let read = parts.operands.get(1)?.text.strip_prefix("SR_")?;
        let name = format!("%{}", read.to_ascii_lowercase());
        let names = |found: &Instruction<'_>| {
            found.mnemonic() == "mov" && found.operands().any(|operand| operand.text() == name)
        };
        if let Some(own) = own.filter(|line| self.instructions(*line).any(|found| names(&found))) {
            return Some(own);
        }
        let function = module.function(&self.function.name)?;
        let mut all = function.instructions().filter(|found| names(&found.instruction));
        let only = all.next()?;
        all.next().is_none().then(|| module.number_of(only.line))
    }

    /// The `ld.param` that reads what an instruction takes from the constant bank.
    fn parameter(&self, module: &Module<'_>, text: &str, place: Place) -> Option<Line> {
        let parts = parts(text);
        let first = match parts.operands.first()?.kind {
            OperandKind::Reg(reg) if reg.file == place.file => reg.index,
            _ => return None,
        };
        let OperandKind::Memory { space: "c", parts: address } = &parts.operands.last()?.kind else { return None };
        let [bank, offset] = address.as_slice() else { return None };
        let ([Term::Int(0)], [Term::Int(offset)]) = (bank.as_slice(), offset.as_slice()) else { return None };
        let within = i64::from(place.index.checked_sub(first)?) * 4;
        let byte = offset + within - i64::from(self.function.param_offset?);
        let function = module.function(&self.function.name)?;
        let header = function.header();
        let starts: FastMap<&str, i64> = header
            .params()
            .zip(&self.function.params)
            .filter_map(|(declared, param)| Some((declared.name()?, i64::from(param.offset))))
            .collect();
        let reads = |found: &Instruction<'_>| {
            let (bytes, address) = (loaded_bytes(found)?, found.operand(1)?.address()?);
            let start = starts.get(address.base?)? + address.offset?;
            (start..start + bytes).contains(&byte).then_some(())
        };
        let mut loads = function.instructions().filter(|found| found.instruction.mnemonic() == "ld");
        loads
            .find(|found| found.instruction.has("param") && reads(&found.instruction).is_some())
            .map(|found| module.number_of(found.line))
    }

    /// The PTX instructions of a line.
    pub fn instructions(&self, line: Line) -> impl Iterator<Item = Instruction<'a>> + use<'a> {
        self.module.into_iter().flat_map(move |module| {
            let statements = module.lines_numbered(line).flat_map(|line| module.statements_at(line));
            statements.filter_map(|statement| statement.instruction(module.text()))
        })
    }

    /// The line of the `wgmma` that a matrix instruction of a warpgroup stands for.
    pub fn matrix_line(&self, pc: Pc) -> Option<Line> {
        self.matrices.get_or_init(|| self.match_matrices().unwrap_or_default()).get(&pc).copied()
    }

    /// Matches the matrix instructions of warpgroups with the `wgmma` of the PTX. ptxas keeps their order: where they are the same one after the
    /// other, they are matched so; else block by block, where only one stretch of the PTX has what the block has, once or several times.
    fn match_matrices(&self) -> Option<FastMap<Pc, Line>> {
        let module = self.module?;
        let function = module.function(&self.function.name)?;
        let runs = self.matrix_runs();
        let statements = wgmma_runs(&function, module);
        let all: Vec<(Pc, Matrix)> = runs.iter().flatten().copied().collect();
        let wanted: Vec<(Line, Matrix)> = statements.iter().flatten().copied().collect();
        let same = |found: &[(Pc, Matrix)], of: &[(Line, Matrix)]| {
            let pairs = found.iter().zip(of.iter().cycle());
            !of.is_empty() && found.len().is_multiple_of(of.len()) && pairs.clone().all(|(a, b)| a.1 == b.1)
        };
        let paired = |found: &[(Pc, Matrix)], of: &[(Line, Matrix)]| {
            found.iter().zip(of.iter().cycle()).map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>()
        };
        if all.len() == wanted.len() && same(&all, &wanted) {
            return Some(paired(&all, &wanted).into_iter().collect());
        }
        let mut lines = FastMap::default();
        for run in &runs {
            let mut alike = statements.iter().filter(|of| same(run, of));
            if let (Some(of), None) = (alike.next(), alike.next()) {
                lines.extend(paired(run, of));
            }
        }
        Some(lines)
    }

    /// The matrix instructions of warpgroups, block by block.
    fn matrix_runs(&self) -> Vec<Vec<(Pc, Matrix)>> {
        let mut runs: BTreeMap<u32, Vec<(Pc, Matrix)>> = BTreeMap::new();
        for (pc, instruction) in (0u32..).step_by(16).map(Pc).zip(self.code.instructions()) {
            if !self.code.decoder().mnemonic(instruction).ends_with("GMMA") {
                continue;
            }
            let mut text = String::new();
            self.code.decoder().text(instruction, pc, &mut text);
            let parts = parts(&text);
            // `64x256x16`
            let columns = parts.modifiers.iter().find_map(|found| found.split('x').nth(1)?.parse().ok());
            let has_vector = parts.operands.get(1).is_some_and(|operand| matches!(operand.kind, OperandKind::Reg(_)));
            let matrix = Matrix { columns, has_registers: has_vector };
            let block = self.code.cfg.block_at(pc).map_or(u32::MAX, |block| block.0);
            runs.entry(block).or_default().push((pc, matrix));
        }
        runs.into_values().collect()
    }
}

/// What tells multiplications of one kernel apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix {
    /// N.
    columns: Option<u32>,
    /// Whether A is in registers.
    has_registers: bool,
}

/// The `wgmma` of a function, those between two labels or branches together.
fn wgmma_runs(function: &Function<'_, '_>, module: &Module<'_>) -> Vec<Vec<(Line, Matrix)>> {
    let mut runs: Vec<Vec<(Line, Matrix)>> = vec![Vec::new()];
    for statement in function.body() {
        let instruction = statement.instruction(module.text());
        let is_branch = instruction.is_some_and(|found| matches!(found.mnemonic(), "bra" | "brx" | "ret" | "exit"));
        if statement.kind == StatementKind::Label || is_branch {
            runs.push(Vec::new());
        }
        let Some(found) = instruction.filter(|found| found.opcode().starts_with("wgmma.mma")) else { continue };
        // `m64n256k16`
        let shape = found.modifiers().find(|word| word.starts_with("m64n"));
        let columns = shape.and_then(|shape| shape.strip_prefix("m64n")?.split('k').next()?.parse().ok());
        let has_registers = found.operand(1).is_some_and(|operand| matches!(operand.shape(), Shape::Vector(_)));
        if let Some(run) = runs.last_mut() {
            run.push((module.number_of(statement.first_line), Matrix { columns, has_registers }));
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// Bytes that a load reads: of its type, as often as its vector has elements.
fn loaded_bytes(instruction: &Instruction<'_>) -> Option<i64> {
    let ty = instruction.modifiers().last()?;
    let bits: i64 = ty.trim_start_matches(|found: char| found.is_ascii_alphabetic()).parse().ok()?;
    let vector = instruction.modifiers().find_map(|word| word.strip_prefix('v')?.parse().ok());
    Some(bits / 8 * vector.unwrap_or(1))
}

/// Whether a statement makes something that a vector register holds: a comparison makes a predicate, a store nothing.
pub(super) fn makes_register(instruction: &Instruction<'_>) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| instruction.has(word));
    let makes_predicate = match instruction.mnemonic() {
        "setp" | "isspacep" | "testp" | "elect" => true,
        "mbarrier" => has(&["test_wait", "try_wait"]),
        "vote" => has(&["all", "any", "uni"]),
        _ => instruction.has("pred"),
    };
    !makes_predicate && instruction.names().any(|name| name.is_def)
}

/// Kinds of what makes a value, in PTX and in SASS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It comes from memory.
    Loads,
    Multiplies,
    /// It is computed from registers.
    Computes,
}

/// Whether what an instruction makes can be the result of a statement: something loaded of a load, something computed of arithmetic.
fn is_of_kind(mnemonic: &str, statement: &Instruction<'_>) -> bool {
    let made = match mnemonic {
        _ if mnemonic.ends_with("MMA") => Kind::Multiplies,
        _ if ["LD", "ATOM", "TEX", "TLD", "SULD", "ULDC", "TMML", "TXD", "TXQ", "REDG"]
            .iter()
            .any(|start| mnemonic.starts_with(start)) =>
        {
            Kind::Loads
        }
        _ => Kind::Computes,
    };
    let name = statement.mnemonic();
    let wanted = match name {
        "ld" | "ldu" | "tex" | "tld4" | "txq" | "suld" | "ldmatrix" | "atom" | "multimem" => Kind::Loads,
        "tcgen05" if statement.has("ld") => Kind::Loads,
        "wmma" if statement.has("load") => Kind::Loads,
        "mma" | "wmma" | "wgmma" => Kind::Multiplies,
        _ => Kind::Computes,
    };
    let is_constant_bank = matches!(mnemonic, "LDC" | "LDCU" | "ULDC");
    match (wanted, made) {
        // What is copied may be in the constant bank: a size, an address.
        (Kind::Computes, Kind::Loads) => is_constant_bank && matches!(name, "mov" | "cvta"),
        (Kind::Computes, Kind::Computes) => {
            let is_special = matches!(mnemonic, "S2R" | "S2UR" | "CS2R");
            (!is_special || name == "mov") && (!is_float(statement) || !INTEGER.contains(&mnemonic))
        }
        (Kind::Loads, Kind::Computes) => {
            statement.has("param") && matches!(mnemonic, "MOV" | "UMOV" | "IMAD")
                || statement.has("b8")
                || statement.has("u8")
        }
        (wanted, made) => wanted == made,
    }
}

/// Instructions whose result is never that of arithmetic on floats.
const INTEGER: &[&str] = &[
    "IADD3", "VIADD", "IMAD", "LEA", "SHF", "SGXT", "IABS", "S2R", "POPC", "FLO", "BMSK", "ULEA", "UIADD3", "UIMAD",
    "USHF", "LOP3", "ULOP3",
];

/// Whether a statement is plain arithmetic on floats: no division or root, which are many instructions.
fn is_float(statement: &Instruction<'_>) -> bool {
    let is_plain = matches!(statement.mnemonic(), "add" | "sub" | "mul" | "fma" | "mad" | "max" | "min" | "ex2");
    is_plain
        && statement
            .modifiers()
            .any(|word| matches!(word, "f32" | "f16" | "bf16" | "f16x2" | "bf16x2" | "f64" | "f32x2"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::parse;

    /// Whether an instruction can make what a statement does.
    fn is_result(mnemonic: &str, statement: &str) -> bool {
        let text = format!(".version 8.0\n.target sm_90a\n.entry k() {{\n{statement};\nret;\n}}\n");
        let module = parse(&text);
        let function = module.function("k").unwrap();
        let found = function.instructions().next().unwrap().instruction;
        makes_register(&found) && is_of_kind(mnemonic, &found)
    }

    #[test]
    fn a_statement_makes_what_is_of_its_kind() {
        for (mnemonic, statement) in [
            ("FFMA", "fma.rn.f32 %f0, %f1, %f2, %f3"),
            ("FMUL", "mul.f32 %f0, %f1, %f2"),
            ("IADD3", "add.s32 %r0, %r1, %r2"),
            ("LDG", "ld.global.b32 %r0, [%rd0]"),
            ("LDC", "ld.param.b32 %r0, [k_param_0]"),
            ("S2R", "mov.u32 %r0, %tid.x"),
            ("HMMA", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r1}, {%f0}"),
        ] {
            assert!(is_result(mnemonic, statement), "{mnemonic} of {statement}");
        }
        for (mnemonic, statement) in [
            ("IMAD", "fma.rn.f32 %f0, %f1, %f2, %f3"),
            ("IMAD", "ld.global.b32 %r0, [%rd0]"),
            ("LDC", "add.s32 %r0, %r1, %r2"),
            ("S2R", "and.b32 %r0, %r1, 31"),
            ("FFMA", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r1}, {%f0}"),
            ("IADD3", "st.global.b32 [%rd0], %r1"),
            ("ISETP", "setp.lt.s32 %p0, %r0, %r1"),
            ("SHF", "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1"),
            ("IMAD", "mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %rd1"),
            ("MOV", "elect.sync _|%p0, -1"),
            ("CS2R", "bra done"),
        ] {
            assert!(!is_result(mnemonic, statement), "{mnemonic} of {statement}");
        }
    }
}
