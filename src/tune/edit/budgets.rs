//! The counts of setmaxnreg: splits of the registers that a block is launched with.

use super::{Refused, Splice, offset};
use crate::ptx::{Function, Operation, RegisterAction};
use crate::roles::setmaxnreg::{COUNTS, STEP};

/// What a role does with the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleSet {
    /// Its setmaxnreg, counted in the order of the text.
    pub at: usize,
    /// Its warps.
    pub warps: u32,
    /// Whether it takes registers.
    pub takes: bool,
}

/// Splits that are tried at most.
const MOST: usize = 48;

/// Every split of `launched` registers × `warps` that gives those who take the most that is left, for each choice of what the others
/// keep: the counts by instruction. Those who give keep at least 24 and at most what they have; those who take get no less than they have.
pub fn splits(sets: &[RoleSet], launched: u32, warps: u32) -> Vec<Vec<u32>> {
    let takers: u32 = sets.iter().filter(|set| set.takes).map(|set| set.warps).sum();
    let givers: Vec<&RoleSet> = sets.iter().filter(|set| !set.takes).collect();
    let set_warps: u32 = sets.iter().map(|set| set.warps).sum();
    let (Some(others), true) = (warps.checked_sub(set_warps), takers > 0 && !givers.is_empty()) else {
        return Vec::new();
    };
    let launched = launched.next_multiple_of(STEP);
    let kept: Vec<u32> = (*COUNTS.start()..=launched.min(*COUNTS.end())).step_by(STEP as usize).collect();
    let mut choices: Vec<Vec<u32>> = vec![Vec::new()];
    for _ in &givers {
        choices = choices
            .iter()
            .flat_map(|choice| kept.iter().map(move |count| choice.iter().copied().chain([*count]).collect()))
            .take(MOST * 16)
            .collect();
    }
    let mut found: Vec<Vec<u32>> = Vec::new();
    for choice in choices {
        let given: u32 = givers.iter().zip(&choice).map(|(set, count)| set.warps * count).sum();
        let Some(left) = (launched * warps).checked_sub(given + others * launched) else { continue };
        let each = (left / takers / STEP * STEP).min(*COUNTS.end());
        if each < launched {
            continue;
        }
        let mut counts = vec![0; sets.len()];
        let mut kept = choice.iter();
        for (at, set) in sets.iter().enumerate() {
            let count = if set.takes { each } else { kept.next().copied().unwrap_or(launched) };
            if let Some(slot) = counts.get_mut(at) {
                *slot = count;
            }
        }
        found.push(counts);
    }
    found.truncate(MOST);
    found
}

/// Other counts in the place of those that are there, by instruction.
pub(super) fn splices(kernel: &Function<'_, '_>, counts: &[u32]) -> Result<Vec<Splice>, Refused> {
    let module = kernel.module();
    let sets: Vec<(Option<u32>, Option<&str>)> = kernel
        .instructions()
        .filter_map(|located| match located.instruction.operation() {
            Operation::SetMaxNReg { action: RegisterAction::Inc | RegisterAction::Dec, count } => {
                Some((count, located.instruction.operand(0).map(|operand| operand.text())))
            }
            _ => None,
        })
        .collect();
    if sets.len() != counts.len() || sets.iter().any(|(count, _)| count.is_none()) {
        return Err(Refused::Counts(sets.len()));
    }
    let mut splices = Vec::new();
    for ((old, operand), count) in sets.iter().zip(counts) {
        if !COUNTS.contains(count) || count % STEP != 0 {
            return Err(Refused::IllegalCount(*count));
        }
        if *old != Some(*count) {
            let text = operand.ok_or(Refused::NotUnderstood)?;
            let start = offset(module, text).ok_or(Refused::NotUnderstood)?;
            splices.push(Splice { range: start..start + text.len(), text: count.to_string() });
        }
    }
    if splices.is_empty() { Err(Refused::NothingToChange) } else { Ok(splices) }
}
