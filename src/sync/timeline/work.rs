//! What a kernel does between the instructions of its skeleton.

use crate::base::IndexVec;
use crate::roles::Duty;
use crate::simt::{Graph, SiteId};
use crate::sync::execute::record::Work;
use crate::sync::program::{InstrId, Program};

/// Multiplications and copies out, each at the instruction of the skeleton that is run whenever they are: the next one of their
/// block, or the last one before them in it. A block without any is run by whoever comes from the instruction before it.
pub fn of(program: &Program, graph: &Graph<'_>) -> Work {
    let count = program.code.len();
    let nothing = IndexVec::filled(None, count + 1);
    let mut work = Work { before: nothing.clone(), after: nothing.clone(), between: nothing };
    // The skeleton is a part of the text, in its order.
    let mut kept: IndexVec<InstrId, Option<SiteId>> = IndexVec::default();
    let mut sites = graph.sites.iter_enumerated();
    for instr in &program.code {
        kept.push(sites.find(|(_, site)| site.line() == instr.line).map(|(at, _)| at));
    }
    let block = |pc: InstrId| kept.get(pc).copied().flatten().and_then(|at| graph.sites.get(at)).map(|site| site.block);
    let mut next = InstrId::ENTRY;
    let mut last = None;
    for (index, site) in graph.sites.iter_enumerated() {
        while kept.get(next).is_some_and(|at| at.is_some_and(|at| at <= index)) {
            (last, next) = (Some(next), next.next());
        }
        let Some(duty) = Duty::of(&site.operation, site.located.instruction.opcode()) else { continue };
        let slot = match last.filter(|last| block(*last) == Some(site.block)) {
            _ if block(next) == Some(site.block) => work.before.get_mut(next),
            Some(last) => work.after.get_mut(last),
            None => work.between.get_mut(next),
        };
        // A multiplication says more of a stretch than a copy out of it.
        if let Some(slot) = slot {
            *slot = Some(slot.map_or(duty, |known| if rank(known) <= rank(duty) { known } else { duty }));
        }
    }
    work
}

fn rank(duty: Duty) -> u32 {
    match duty {
        Duty::Wgmma | Duty::Mma | Duty::Tcgen05Mma => 0,
        Duty::Tcgen05Load | Duty::Tcgen05Store => 1,
        Duty::Store => 2,
        Duty::Load | Duty::CpAsync | Duty::Schedule => 3,
    }
}
