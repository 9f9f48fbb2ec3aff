//! Cheap values computed again where they are used: constants, special registers that never change, parameters of the kernel.
//!
//! A value qualifies where its register is written once in the whole kernel, by an instruction without a guard whose only operand is a
//! constant, such a special register, or a parameter. Whoever reads it then reads a register of its own, written right before.

use std::fmt::Write;

use super::{Refused, Splice, offset};
use crate::base::{FastMap, work};
use crate::ptx::{Function, FunctionKind, Instruction, Located, Register, StatementKind};
use crate::simt::{BlockId, Graph};

/// Special registers that hold the same from a thread's first instruction to its last (PTX ISA, "Special Registers").
const STEADY: &[&str] = &["%tid", "%ntid", "%laneid", "%ctaid", "%nctaid", "%cluster_ctaid", "%cluster_nctaid"];

/// Uses that are given a register of their own at most.
const MOST: usize = 4096;

/// Computes every value that qualifies again, at every use outside the block that computes it.
pub(super) fn splices(kernel: &Function<'_, '_>) -> Result<Vec<Splice>, Refused> {
    if kernel.kind() != FunctionKind::Entry || kernel.body().iter().any(|found| found.kind == StatementKind::Invalid) {
        return Err(Refused::NotUnderstood);
    }
    let module = kernel.module();
    let graph = Graph::build(kernel);
    let mut written: FastMap<Register, u32> = FastMap::default();
    let mut makers: FastMap<Register, (Located<'_>, BlockId)> = FastMap::default();
    for site in &graph.sites {
        work::spend(1);
        for register in graph.registers.written_by(&site.located) {
            *written.entry(register).or_default() += 1;
            if qualifies(&site.located.instruction) {
                makers.insert(register, (site.located, site.block));
            }
        }
    }
    // Names that start so may be there: then others would be hidden.
    let prefix = "%ptxinspect_";
    if module.text().contains(prefix) {
        return Err(Refused::NotUnderstood);
    }
    let mut splices = Vec::new();
    let mut types: FastMap<&str, u32> = FastMap::default();
    for site in &graph.sites {
        // Whoever writes a register that wgmma reads has to fence it.
        if matches!(site.located.instruction.mnemonic(), "wgmma" | "tcgen05") {
            continue;
        }
        let mut before = String::new();
        for used in graph.registers.of(&site.located).filter(|used| !used.is_def) {
            work::spend(1);
            let once = written.get(&used.register) == Some(&1);
            let Some((maker, home)) = makers.get(&used.register).filter(|_| once) else { continue };
            if *home == site.block || splices.len() >= MOST {
                continue;
            }
            let declared = graph.registers.declaration(used.register).filter(|found| found.vector <= 1);
            let Some(declaration) = declared else { continue };
            let Some(name) = again(&maker.instruction, declaration.ty, &mut types, prefix, &mut before) else {
                continue;
            };
            let start = offset(module, used.name).ok_or(Refused::NotUnderstood)?;
            splices.push(Splice { range: start..start + used.name.len(), text: name });
        }
        if !before.is_empty() {
            let statement = module.statement(site.located.id).ok_or(Refused::NotUnderstood)?;
            splices.push(Splice::insert(statement.span().start, before));
        }
    }
    if splices.is_empty() {
        return Err(Refused::NothingToChange);
    }
    let open = kernel.body().first().ok_or(Refused::NotUnderstood)?;
    let mut declared: Vec<(&str, u32)> = types.into_iter().collect();
    declared.sort_unstable();
    let mut declarations = String::new();
    for (ty, count) in declared {
        let _ = write!(declarations, "\n\t.reg .{ty} {prefix}{ty}_<{count}>;");
    }
    splices.push(Splice::insert(open.span().end, declarations));
    Ok(splices)
}

/// Whether a special register never changes.
pub(super) fn is_steady(name: &str) -> bool {
    let is_part = |rest: &str| matches!(rest, "" | ".x" | ".y" | ".z");
    STEADY.iter().any(|steady| name.strip_prefix(steady).is_some_and(is_part))
}

/// Whether what it computes is the same wherever in the kernel it stands.
fn qualifies(instruction: &Instruction<'_>) -> bool {
    if instruction.guard().is_some() || instruction.definitions().count() != 1 {
        return false;
    }
    let mut operands = instruction.operands();
    let (Some(_), Some(source), None) = (operands.next(), operands.next(), operands.next()) else { return false };
    match instruction.mnemonic() {
        "mov" => {
            let text = source.text();
            is_steady(text) || text.starts_with(|first: char| first.is_ascii_digit() || first == '-')
        }
        // Parameters of a kernel cannot be written; an address that is computed is none of its names.
        "ld" => {
            let plain = instruction.has("param") && !instruction.has("volatile");
            let names = instruction.names().filter(|used| !used.is_def);
            plain && names.clone().count() == 1 && names.map(|used| used.name).all(|name| !name.starts_with('%'))
        }
        _ => false,
    }
}

/// Writes the instruction again, with a register of its own, whose name it gives.
fn again<'a>(
    maker: &Instruction<'a>,
    ty: &'a str,
    types: &mut FastMap<&'a str, u32>,
    prefix: &str,
    out: &mut String,
) -> Option<String> {
    let destination = maker.operand(0)?.text();
    let at = (destination.as_ptr() as usize).checked_sub(maker.text().as_ptr() as usize)?;
    let (head, tail) = (maker.text().get(..at)?, maker.text().get(at + destination.len()..)?);
    let number = types.entry(ty).or_default();
    let name = format!("{prefix}{ty}_{number}");
    *number += 1;
    let _ = write!(out, "{head}{name}{tail}\n\t");
    Some(name)
}
