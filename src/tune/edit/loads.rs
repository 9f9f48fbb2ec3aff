//! The order of independent loads: each moves down in its block to the first instruction that needs its value.
//!
//! A load may pass what computes in registers and other plain loads. It stops at what reads or writes its destination, at what writes
//! its address or its guard, at anything that may write memory, wait or synchronise, and at every label, scope and declaration.

use super::{Refused, Splice};
use crate::base::{FastSet, work};
use crate::ptx::{Function, Instruction, Located, Register, Registers, StatementKind};

/// Opcodes that compute in registers alone: no memory is written, and nobody is waited for.
const COMPUTES: &[&str] = &[
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt",
    "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24", "madc", "max",
    "min", "mma", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp",
    "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor",
];

/// How far a load is moved at most: the work stays linear.
const FARTHEST: usize = 256;

/// What one instruction means for those around it.
struct Effects {
    reads: Vec<Register>,
    writes: Vec<Register>,
    /// Whether a load may pass it.
    passes: bool,
    /// Whether it is a load that may move.
    moves: bool,
}

impl Effects {
    fn of(located: &Located<'_>, registers: &Registers<'_>) -> Effects {
        let instruction = located.instruction;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for used in registers.of(located) {
            if used.is_def { writes.push(used.register) } else { reads.push(used.register) }
        }
        let is_load = instruction.mnemonic() == "ld" && is_plain(&instruction);
        // `d|p` names two destinations in one operand; what is not told apart stays where it is.
        let moves = is_load && instruction.guard().is_none() && !writes.is_empty();
        Effects { reads, writes, passes: is_load || computes(&instruction), moves }
    }
}

/// Whether an access of memory is one of this thread alone, as far as the order of its own goes.
pub(super) fn is_plain(instruction: &Instruction<'_>) -> bool {
    !instruction.modifiers().any(|modifier| {
        matches!(modifier, "volatile" | "acquire" | "release" | "relaxed" | "mmio" | "sc" | "async")
            || modifier.starts_with("shared::cluster")
    })
}

/// Whether an instruction does nothing but compute in registers that it names.
pub(super) fn computes(instruction: &Instruction<'_>) -> bool {
    let mnemonic = instruction.mnemonic();
    // The carry bit is no register that is named.
    let carries = matches!(mnemonic, "addc" | "subc" | "madc") || instruction.has("cc");
    !carries && COMPUTES.contains(&mnemonic)
}

/// Moves every load that can be moved.
pub(super) fn splices(kernel: &Function<'_, '_>) -> Result<Vec<Splice>, Refused> {
    let module = kernel.module();
    let text = module.text();
    let registers = kernel.registers();
    let mut splices: Vec<Splice> = Vec::new();
    // Instructions with nothing but `.loc` between them, each with its statement.
    let mut run: Vec<(Located<'_>, Effects)> = Vec::new();
    let mut instructions = kernel.instructions();
    let mut flush = |run: &mut Vec<(Located<'_>, Effects)>| {
        move_down(run, &mut |from: &Located<'_>, to: &Located<'_>| {
            let (Some(from), Some(to)) = (module.statement(from.id), module.statement(to.id)) else { return };
            splices.push(Splice { range: from.span(), text: String::new() });
            splices.push(Splice::insert(to.span().start, format!("{}\n\t", from.text(text))));
        });
        run.clear();
    };
    for statement in kernel.body() {
        work::spend(1);
        match statement.kind {
            StatementKind::Instruction => {
                let Some(located) = instructions.next() else { return Err(Refused::NotUnderstood) };
                let effects = Effects::of(&located, &registers);
                let ends = !effects.passes;
                run.push((located, effects));
                if ends {
                    flush(&mut run);
                }
            }
            StatementKind::Loc => {}
            StatementKind::Invalid | StatementKind::Directive => return Err(Refused::NotUnderstood),
            _ => flush(&mut run),
        }
    }
    flush(&mut run);
    if splices.is_empty() { Err(Refused::NothingToChange) } else { Ok(splices) }
}

/// Tells for each load of a run before which instruction it can stand, where that is not the next one.
fn move_down(run: &[(Located<'_>, Effects)], moved: &mut dyn FnMut(&Located<'_>, &Located<'_>)) {
    for (at, (load, effects)) in run.iter().enumerate().filter(|(_, (_, effects))| effects.moves) {
        let own: FastSet<Register> = effects.writes.iter().copied().collect();
        let address: FastSet<Register> = effects.reads.iter().copied().collect();
        let after = run.get(at + 1..).unwrap_or(&[]);
        let stops = after.iter().take(FARTHEST).position(|(_, other)| {
            work::spend(1);
            !other.passes
                || other.reads.iter().any(|register| own.contains(register))
                || other.writes.iter().any(|register| own.contains(register) || address.contains(register))
        });
        // At the end of a run there may be somebody who needs it and is not looked at: the load stays.
        if let Some((target, _)) = stops.filter(|distance| *distance > 0).and_then(|distance| after.get(distance)) {
            moved(load, target);
        }
    }
}
