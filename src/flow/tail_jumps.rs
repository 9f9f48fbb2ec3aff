//! Calls that are jumps: ptxas leaves some loops by `@P0 CALL.REL.NOINC` to code that never returns.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Pc;
use crate::sass::Transfer;

use super::program::{Layout, Program};

/// The calls, by instruction, whose target is no function of the symbol table and can reach no `RET`: control does not come back.
/// The greatest such set: calls of it are followed as the jumps that they are.
pub(super) fn tail_jumps(program: &impl Program, layout: &Layout) -> BTreeMap<u32, Pc> {
    let moving = program.not_plain().map_while(|index| u32::try_from(index).ok());
    let calls = moving.filter_map(|index| match program.flow(index as usize).transfer {
        Transfer::Call(target) if !layout.entries.contains(&target) && target.0.is_multiple_of(16) => {
            Some((index, target))
        }
        _ => None,
    });
    let mut jumps: BTreeMap<u32, Pc> = calls.collect();
    loop {
        let targets: BTreeSet<Pc> = jumps.values().copied().collect();
        let returning: BTreeSet<Pc> =
            targets.into_iter().filter(|target| may_return(program, layout, &jumps, *target)).collect();
        if returning.is_empty() {
            return jumps;
        }
        jumps.retain(|_, target| !returning.contains(target));
    }
}

/// Whether a `RET`, or a place that is not known, can be reached from an instruction.
fn may_return(program: &impl Program, layout: &Layout, jumps: &BTreeMap<u32, Pc>, from: Pc) -> bool {
    let mut seen = vec![false; program.len()];
    let mut work = vec![from.0 as usize / 16];
    while let Some(index) = work.pop() {
        match seen.get_mut(index) {
            None => return true,
            Some(true) => continue,
            Some(seen) => *seen = true,
        }
        let flow = program.flow(index);
        let jump = jumps.get(&(index as u32)).copied();
        let mut follow =
            |target: Pc| work.push(if target.0.is_multiple_of(16) { target.0 as usize / 16 } else { usize::MAX });
        match flow.transfer {
            _ if !flow.known => return true,
            _ if flow.never() => {}
            Transfer::Return | Transfer::ReturnOut => return true,
            Transfer::Branch(target) => follow(target),
            Transfer::Indirect => match layout.indirect.get(&Pc(index as u32 * 16)) {
                Some(targets) if !targets.is_empty() => targets.iter().copied().for_each(&mut follow),
                _ => return true,
            },
            _ => jump.into_iter().for_each(&mut follow),
        }
        let always = flow.guard.is_none() && !flow.own_condition;
        if flow.falls_through() && !(jump.is_some() && always) {
            work.push(index + 1);
        }
    }
    false
}
