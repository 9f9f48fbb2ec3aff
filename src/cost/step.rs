//! Instructions as the machine sees them.

use crate::base::{Pc, RegFile};
use crate::flow::Program;
use crate::sass::{self, Control, OperandKind};

use super::Model;
use super::machine::{Pipe, Unit, group_banks, group_cycles};
use super::path::Turn;

/// A source operand that comes from a bank of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Which operand of the word: 0 to 2.
    pub slot: u8,
    /// The first register.
    pub register: u8,
    /// How many.
    pub count: u8,
}

impl Source {
    /// Counts what it takes of either bank.
    pub fn read(&self, reads: &mut [u16; 2]) {
        if self.count > 1 {
            reads.iter_mut().for_each(|reads| *reads += u16::from(self.count / 2));
        } else {
            reads[usize::from(self.register & 1)] += 1;
        }
    }

    /// Whether the word flags it for reuse.
    pub fn is_kept(&self, control: Control) -> bool {
        control.reuse >> self.slot & 1 == 1
    }
}

/// What an instruction does beside taking its pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    None,
    /// Waits for the warps of the block.
    Barrier,
    /// A multiplication of the warp group: cycles of the tensor cores and of the banks of shared memory, and whether it closes a group.
    Multiply { cycles: u64, banks: u64, closes: bool },
    /// Waits until at most so many groups are open.
    WaitGroups(u8),
    /// Copies to shared memory.
    Copy,
    /// Closes a group of copies.
    CloseCopies,
    /// Waits until at most so many groups of copies are open.
    WaitCopies(u8),
}

/// An instruction of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub pc: Pc,
    pub unit: Unit,
    pub control: Control,
    pub sources: Vec<Source>,
    /// How often it reads each bank of registers where nothing is kept.
    pub bank_reads: [u16; 2],
    /// Whether it flags an operand for reuse.
    pub keeps: bool,
    pub action: Action,
    /// Whether it is a branch that is taken.
    pub taken: bool,
}

/// The instructions of a turn.
pub(super) fn steps(model: &Model<'_>, turn: &Turn) -> Vec<Step> {
    turn.instructions.iter().map(|&(index, taken)| step(model, index, taken)).collect()
}

fn step(model: &Model<'_>, index: u32, taken: bool) -> Step {
    let pc = Pc(index * 16);
    let (program, decoder) = (model.code.program(), model.code.program().decoder());
    let Some(inst) = program.instructions().get(index as usize) else {
        let unit = model.machine.unit("", &[]);
        return Step {
            pc,
            unit,
            control: Control::default(),
            sources: Vec::new(),
            bank_reads: [0; 2],
            keeps: false,
            action: Action::None,
            taken,
        };
    };
    let mut text = String::new();
    decoder.text(inst, pc, &mut text);
    let parts = sass::parts(&text);
    let mut plain = model.machine.unit(parts.mnemonic, &parts.modifiers);
    // What no thread executes goes as far as the queue.
    plain.banks &= !text.starts_with("@!PT");
    let unit = match (model.wavefronts.of(pc), parts.mnemonic) {
        (None, _) => plain,
        (Some(count), "LDGSTS") if parts.modifiers.contains(&"BYPASS") => {
            Unit { shared: plain.shared.max(count * 3 / 4), ..plain }
        }
        (Some(count), "LDG" | "STG" | "LDGSTS") => plain.with_lines(parts.mnemonic, count),
        (Some(count), _) => plain.with_wavefronts(count),
    };
    let action = match parts.mnemonic {
        "BAR" => Action::Barrier,
        "WARPGROUP" if parts.modifiers.contains(&"DEPBAR") => {
            let left = parts.operands.iter().find_map(|operand| match operand.kind {
                OperandKind::Int(left) => u8::try_from(left).ok(),
                _ => None,
            });
            Action::WaitGroups(left.unwrap_or(0))
        }
        "LDGSTS" => Action::Copy,
        "LDGDEPBAR" => Action::CloseCopies,
        "DEPBAR" if parts.modifiers.contains(&"LE") => {
            let left = parts.operands.iter().find_map(|operand| match operand.kind {
                OperandKind::Int(left) => u8::try_from(left).ok(),
                _ => None,
            });
            Action::WaitCopies(left.unwrap_or(0))
        }
        _ if unit.pipe == Pipe::WarpGroup => {
            let shape = parts.modifiers.iter().find_map(|name| name.split('x').nth(1)?.parse::<u64>().ok());
            let first = parts.operands.get(1);
            let in_registers = first.is_some_and(|operand| matches!(operand.kind, OperandKind::Reg(_)));
            let closes = parts.operands.iter().any(|operand| operand.text.starts_with("gsb"));
            let n = shape.unwrap_or(64);
            let (cycles, banks) = (group_cycles(n, in_registers), group_banks(n, in_registers));
            Action::Multiply { cycles, banks, closes }
        }
        _ => Action::None,
    };
    let mut sources = Vec::new();
    if reads_banks(unit.pipe) {
        decoder.registers(inst, |register| {
            let slot = match register.bit {
                24 => 0,
                32 => 1,
                64 => 2,
                _ => return,
            };
            if register.file != RegFile::Gpr || register.is_constant() {
                return;
            }
            let number = register.index as u8;
            let run = program
                .runs(index as usize)
                .find(|run| !run.is_write() && run.file() == RegFile::Gpr && run.first() == number);
            sources.push(Source { slot, register: number, count: run.map_or(1, |run| run.count().max(1)) });
        });
    }
    let control = inst.control();
    let mut bank_reads = [0; 2];
    for (place, source) in sources.iter().enumerate() {
        if !sources[..place].iter().any(|other| other.register == source.register) {
            source.read(&mut bank_reads);
        }
    }
    let keeps = sources.iter().any(|source| source.is_kept(control));
    Step { pc, unit, control, sources, bank_reads, keeps, action, taken }
}

/// Whether the operands of a pipe take turns at the banks: those of memory are read later, from its queue.
fn reads_banks(pipe: Pipe) -> bool {
    !matches!(pipe, Pipe::Memory | Pipe::Branch | Pipe::Issue | Pipe::WarpGroup | Pipe::Uniform)
}
