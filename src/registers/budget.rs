//! The register budget in force at each instruction: what setmaxnreg left the warp with.

use crate::base::Pc;
use crate::registers::code::Code;

/// A budget and where it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Registers a thread may use; none where paths with different budgets meet.
    pub registers: Option<u32>,
    /// The instruction that set it; none where several did.
    pub set_at: Option<Pc>,
}

/// The budget at each instruction, by index: none where no setmaxnreg has run on any path. `set` are the instructions that
/// change it, ascending, with their counts.
pub fn budgets(code: &Code, set: &[(Pc, Option<u32>)]) -> Vec<Option<Budget>> {
    let count = code.cfg.instructions as usize;
    let mut along = vec![None; count];
    if set.is_empty() {
        return along;
    }
    // Outer none: not reached. Inner none: as launched.
    let mut at_start: Vec<Option<Option<Budget>>> = vec![None; code.cfg.blocks.len()];
    for function in &code.cfg.functions {
        if let Some(state) = at_start.get_mut(function.block.0 as usize) {
            *state = Some(None);
        }
    }
    let step = |state: &mut Option<Budget>, index: u32| {
        if let Ok(at) = set.binary_search_by_key(&Pc(index * 16), |(pc, _)| *pc)
            && let Some(&(pc, registers)) = set.get(at)
        {
            *state = Some(Budget { registers, set_at: Some(pc) });
        }
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &block in code.cfg.reverse_postorder() {
            let Some(Some(mut state)) = at_start.get(block.0 as usize).copied() else { continue };
            let Some(info) = code.cfg.blocks.get(block.0 as usize) else { continue };
            (info.start..info.end).for_each(|index| step(&mut state, index));
            for next in code.cfg.successors(block) {
                let Some(known) = at_start.get_mut(next.0 as usize) else { continue };
                let met = known.map_or(state, |known| meet(known, state));
                changed |= known.replace(met) != Some(met);
            }
        }
    }
    for (block, state) in code.cfg.blocks.iter().zip(at_start) {
        let Some(mut state) = state else { continue };
        for index in block.start..block.end {
            step(&mut state, index);
            if let Some(slot) = along.get_mut(index as usize) {
                *slot = state;
            }
        }
    }
    along
}

fn meet(a: Option<Budget>, b: Option<Budget>) -> Option<Budget> {
    if a == b {
        return a;
    }
    let registers = match (a, b) {
        (Some(a), Some(b)) if a.registers == b.registers => a.registers,
        _ => None,
    };
    Some(Budget { registers, set_at: None })
}
