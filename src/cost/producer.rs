//! Whose result an instruction waits for.

use crate::base::{FastMap, Pc, RegFile};
use crate::flow::Program;
use crate::registers::code::Code;

use super::bound::Wait;
use super::hazards::{Latencies, Way, kind};
use super::path::Turn;
use super::simulate::Cause;

/// Names the producers that a lone warp's waits are for: the holder of the scoreboard, or where a stall count is what holds an instruction
/// back, the instruction whose result it reads no cycle later than that is there. Nobody is named where the turn has no such instruction.
pub(super) fn name(code: &Code, turn: &Turn, waits: &mut [Wait]) {
    let program = code.program();
    let sm = program.decoder().arch().sm;
    let mut writers: FastMap<(RegFile, u16), (usize, u64)> = FastMap::default();
    let mut kinds: FastMap<u32, String> = FastMap::default();
    let mut now = 0;
    for (place, &(index, _)) in turn.instructions.iter().enumerate() {
        let Some(wait) = waits.get(place).copied() else { return };
        now += u64::from(wait.cycles);
        let effects = program.effects(index as usize);
        if wait.cause == Cause::Stall && wait.cycles > 1 {
            let guard = program.guard(index as usize).map(|guard| (guard.file, u16::from(guard.index)));
            let reads = effects.reads.iter_all().filter_map(|register| {
                let &(from, issued) = writers.get(&register)?;
                let (producer, _) = *turn.instructions.get(from)?;
                // What a scoreboard covers no stall count does.
                let inst = program.instructions().get(producer as usize)?;
                if inst.control().write_barrier.is_some() {
                    return None;
                }
                let way = if guard == Some(register) { Way::Guarded(register.0) } else { Way::Reads(register.0) };
                for index in [producer, index] {
                    kinds.entry(index).or_insert_with(|| kind(code, index));
                }
                let needed = Latencies::get().least(sm, &kinds[&producer], &kinds[&index], way).map(u64::from);
                (from + 1 == place || needed.is_some_and(|needed| now - issued <= needed)).then_some(from)
            });
            let found = reads.max().and_then(|from| turn.instructions.get(from));
            if let Some(wait) = waits.get_mut(place) {
                wait.producer = found.map(|&(index, _)| Pc(index * 16));
            }
        }
        for register in effects.writes.iter_all() {
            writers.insert(register, (place, now));
        }
    }
}
