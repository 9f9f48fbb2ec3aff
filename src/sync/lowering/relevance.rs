//! Which instructions a skeleton is made for, and what of the others decides them.

use super::space_of;
use crate::ptx::{Bulk, CpAsync, Instruction, MbarrierAction, Operand, Operation, Shape, Tcgen05};
use crate::simt::Site;
use crate::sync::program::Space;

/// Whether what is stored in a space is there for those who load it.
pub(super) fn is_followed(space: Space) -> bool {
    matches!(space, Space::Shared | Space::Local | Space::Generic)
}

/// Whether control flow depends on it alone.
pub(super) fn is_control(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Branch { .. }
            | Operation::IndexedBranch { .. }
            | Operation::Return
            | Operation::Exit
            | Operation::Trap
    )
}

/// What a skeleton is made for.
pub(super) fn is_root(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Mbarrier(mbarrier) => mbarrier.action != MbarrierAction::PendingCount,
        Operation::NamedBarrier(_)
        | Operation::WarpBarrier { .. }
        | Operation::ClusterBarrier { .. }
        | Operation::SetMaxNReg { .. }
        | Operation::CpAsync(CpAsync::MbarrierArrive)
        | Operation::Tcgen05 { action: Tcgen05::Commit | Tcgen05::Alloc | Tcgen05::Dealloc, .. } => true,
        operation => is_control(operation),
    }
}

/// Copies that complete bytes on an mbarrier: a modifier tells them.
pub(super) fn synchronises_by_name(mnemonic: &str, site: &Site<'_>) -> bool {
    let completes = || site.located.instruction.modifiers().any(|word| word.starts_with("mbarrier::complete_tx"));
    match mnemonic {
        "cp" => matches!(site.operation, Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. })) && completes(),
        "st" | "red" | "clusterlaunchcontrol" => completes(),
        _ => false,
    }
}

/// The names that decide what a copy does to its mbarrier.
pub(super) fn names_of_copy<'a>(instruction: Instruction<'a>) -> Vec<&'a str> {
    let operands: Vec<Operand<'a>> = instruction.operands().collect();
    let base = |operand: &Operand<'a>| operand.address().and_then(|address| address.base).or_else(|| operand.name());
    match instruction.mnemonic() {
        "cp" => {
            let is_address = |operand: &Operand<'a>| matches!(operand.shape(), Shape::Address(_));
            let last = operands.iter().rposition(is_address).unwrap_or(0);
            let map = operands.get(1).filter(|_| instruction.has("tensor"));
            let size = last.checked_sub(1).and_then(|at| operands.get(at)).filter(|_| !instruction.has("tensor"));
            map.into_iter().chain(size).chain(operands.iter().skip(last)).filter_map(base).collect()
        }
        "clusterlaunchcontrol" => operands.iter().filter_map(base).collect(),
        _ => operands.last().and_then(base).into_iter().collect(),
    }
}

/// Whether what an instruction gives is not followed: nothing that it reads matters then.
pub(super) fn ends_slice(mnemonic: &str, site: &Site<'_>) -> bool {
    let instruction = site.located.instruction;
    let is_float = |word: &str| {
        matches!(word, "f16" | "f32" | "f64" | "f16x2" | "bf16" | "bf16x2" | "tf32")
            || word.starts_with("e4m3")
            || word.starts_with("e5m2")
    };
    match mnemonic {
        "mov" | "selp" | "ld" | "ldu" | "st" | "cp" | "bra" | "bar" | "barrier" | "mbarrier" => false,
        "atom" | "red" if !instruction.has("async") => space_of(instruction.modifiers()) == Space::Other,
        "wgmma" | "mma" | "wmma" | "ldmatrix" | "tex" | "tld4" | "suld" | "call" | "match" => true,
        "setp" if super::float_bits(instruction).is_some() => false,
        _ => instruction.modifiers().any(is_float),
    }
}
