//! What the cycles of a turn are made of.

use std::cmp::Ordering;

use crate::base::Pc;

use super::Warps;
use super::machine::Pipe;
use super::simulate::{Care, Cause, simulate};
use super::step::{Action, Step};

/// A part of the machine that can be what bounds a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The issue of one instruction a cycle.
    Issue,
    /// A pipe of the scheduler.
    Pipe(Pipe),
    /// The part of memory that all schedulers share.
    SharedMemory,
    /// The way of what is stored to the second cache.
    Outward,
    /// The banks of registers.
    Banks,
}

impl Part {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Issue => "issue",
            Part::Pipe(Pipe::FmaHeavy) => "FMA (heavy half)",
            Part::Pipe(pipe) => pipe.name(),
            Part::SharedMemory => "load/store of the SM",
            Part::Outward => "stores to L2",
            Part::Banks => "register banks",
        }
    }
}

/// How busy a part is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The part.
    pub part: Part,
    /// Cycles of a turn of all warps that it is busy.
    pub busy: f64,
}

/// What keeps a turn from being shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A part that is busy all the time.
    Part(Part),
    /// Nothing is: warps wait for results.
    Latency,
    /// Warps wait for each other.
    Barrier,
}

/// What a lone warp waits for before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The instruction.
    pub pc: Pc,
    /// Cycles since the one before it issued.
    pub cycles: u32,
    /// Why.
    pub cause: Cause,
    /// Whom it waits for: the holder of the scoreboard; behind a stall count, of a warp alone, whose result it reads.
    pub producer: Option<Pc>,
}

/// What a turn costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Cycles in which every warp of a scheduler does one turn.
    pub cycles: f64,
    /// What bounds it.
    pub bound: Bound,
    /// How busy each part is, the busiest first.
    pub loads: Vec<Load>,
    /// Of the first warp: what it waited for in a turn, by instruction.
    pub waits: Vec<Wait>,
    /// The instructions that the first warp's turn is as long as, in their order, with the cycles from each to the next.
    pub critical: Vec<(Pc, u32)>,
    /// Instructions of a turn.
    pub instructions: u32,
    /// Those of them whose kind nobody measured.
    pub unmeasured: u32,
    /// Those that ask memory, and not the first cache.
    pub beyond_l1: u32,
}

impl Estimate {
    /// The same with what warps put on the machine that run something else at the same time, of a turn of each: no part does more than it can.
    pub fn beside(mut self, others: impl Iterator<Item = Load>) -> Estimate {
        let mut is_more = false;
        for other in others {
            is_more = true;
            match self.loads.iter_mut().find(|load| load.part == other.part) {
                Some(load) => load.busy += other.busy,
                None => self.loads.push(other),
            }
        }
        if is_more {
            self.loads.sort_by(busiest_first);
            let most = self.loads.first().map_or(0.0, |load| load.busy);
            self.cycles = self.cycles.max(most);
            if let Some(load) = self.loads.first().filter(|load| load.busy >= BUSY * self.cycles) {
                self.bound = Bound::Part(load.part);
            }
        }
        self
    }
}

/// From here on a part counts as busy all the time.
const BUSY: f64 = 0.85;

pub(super) fn estimate(steps: &[Step], warps: Warps) -> Option<Estimate> {
    let simulated = simulate(steps, warps, Care::Full)?;
    let loads = loads(steps, warps, simulated.bank_reads);
    let busiest = loads.first().filter(|load| load.busy >= BUSY * simulated.cycles);
    let wait = |(step, &(cycles, cause)): (&Step, &(u64, Cause))| Wait {
        pc: step.pc,
        cycles: u32::try_from(cycles).unwrap_or(u32::MAX),
        cause,
        producer: match cause {
            Cause::Scoreboard(holder) => steps.get(holder).map(|step| step.pc),
            _ => None,
        },
    };
    let waits: Vec<Wait> = steps.iter().zip(&simulated.waits).map(wait).collect();
    let at_barriers: u32 = waits.iter().filter(|wait| wait.cause == Cause::Barrier).map(|wait| wait.cycles).sum();
    let bound = match busiest {
        Some(load) => Bound::Part(load.part),
        None if f64::from(at_barriers) > simulated.cycles / 3.0 => Bound::Barrier,
        None => Bound::Latency,
    };
    Some(Estimate {
        cycles: simulated.cycles,
        bound,
        critical: critical(steps, &simulated.waits),
        loads,
        waits,
        instructions: steps.len() as u32,
        unmeasured: steps.iter().filter(|step| !step.unit.measured).count() as u32,
        beyond_l1: steps.iter().filter(|step| step.unit.beyond_l1).count() as u32,
    })
}

/// The chain that a turn is as long as: from its last instruction back to what that waited for, and so on.
fn critical(steps: &[Step], waits: &[(u64, Cause)]) -> Vec<(Pc, u32)> {
    let mut issued = 0;
    let times: Vec<u64> = waits
        .iter()
        .map(|(cycles, _)| {
            issued += cycles;
            issued
        })
        .collect();
    let mut chain = Vec::new();
    let Some(mut at) = steps.len().min(waits.len()).checked_sub(1) else { return chain };
    chain.push((steps[at].pc, 0));
    // Each step goes back: to the holder of a scoreboard, or to the instruction before.
    while at > 0 {
        let before = match waits[at].1 {
            Cause::Scoreboard(holder) if holder < at => holder,
            // What the turn before holds: the chain goes on there.
            Cause::Scoreboard(_) => break,
            _ => at - 1,
        };
        chain.push((steps[before].pc, u32::try_from(times[at] - times[before]).unwrap_or(u32::MAX)));
        at = before;
    }
    chain.reverse();
    chain
}

/// What each part has to do in a turn of all warps of a scheduler.
pub(super) fn loads(steps: &[Step], warps: Warps, bank_reads: f64) -> Vec<Load> {
    let each = f64::from(warps.each.max(1));
    let all = each * f64::from(warps.schedulers.max(1));
    let mut pipes = [0.0; Pipe::COUNT];
    let (mut issue, mut shared, mut outward, mut group) = (0.0, 0.0, 0.0, 0.0);
    for step in steps {
        let unit = step.unit;
        issue += 1.0 + f64::from(unit.block);
        shared += f64::from(unit.shared);
        outward += f64::from(unit.outward);
        if !matches!(unit.pipe, Pipe::Branch | Pipe::Issue | Pipe::WarpGroup) {
            pipes[unit.pipe.index()] += f64::from(unit.interval);
        }
        if let Action::Multiply { cycles, .. } = step.action {
            group += cycles as f64;
        }
    }
    // Either half takes what any half can do; the heavy one has its own on top.
    pipes[Pipe::Fma.index()] += pipes[Pipe::FmaHeavy.index()] / 2.0;
    const PIPES: [Pipe; 9] = [
        Pipe::Fma,
        Pipe::FmaHeavy,
        Pipe::Half,
        Pipe::Alu,
        Pipe::Xu,
        Pipe::Fp64,
        Pipe::Uniform,
        Pipe::Tensor,
        Pipe::Memory,
    ];
    let mut loads = vec![
        Load { part: Part::Issue, busy: issue * each },
        Load { part: Part::SharedMemory, busy: shared * all },
        Load { part: Part::Outward, busy: outward * all },
        Load { part: Part::Banks, busy: bank_reads },
        Load { part: Part::Pipe(Pipe::WarpGroup), busy: group * each },
    ];
    loads.extend(PIPES.map(|pipe| Load { part: Part::Pipe(pipe), busy: pipes[pipe.index()] * each }));
    loads.retain(|load| load.busy > 0.0);
    loads.sort_by(busiest_first);
    loads
}

fn busiest_first(a: &Load, b: &Load) -> Ordering {
    b.busy.total_cmp(&a.busy).then(a.part.cmp(&b.part))
}
