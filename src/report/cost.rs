//! What the loops of a kernel cost, as far as the schedule decides it: estimates, on PTX lines.

mod beside;

pub use beside::LoopBeside;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::code::Section;
use super::model::{Kernel, SourceLine};
use super::ptx_turns::{PtxTurns, is_anchor};
use super::wavefronts::Accesses;
use crate::base::hardware::WARP_SIZE;
use crate::base::{Arch, FastSet, IndexVec, Line, Pc};
use crate::cost::{
    self, Bound, Cause, Estimate, L1_LATENCY, Machine, Memory, Model, Part, Prepared, Progress, Turn, Turns, Warps,
};
use crate::flow;
use crate::graph::{BlockId, LoopId};
use crate::ptx::Function;
use crate::registers::code::Code;

/// Loops that a report tells the cost of.
const HOTTEST: usize = 4;
/// Loops of which it is asked which the hottest are: those with the most instructions, by how often they are taken to run.
const CANDIDATES: usize = 16;
/// Turns that a loop is taken to make whenever it is come to, as compilers take it that weigh what to spill: nothing says how many it makes.
const TURNS: u64 = 10;
/// Instructions that are issued at most for them, all together: a report is not to be waited for.
const MOST_STEPS: u64 = 60_000;
/// The same for the hottest of them, whose figures are what a report is read for.
const MOST_STEPS_OF_HOTTEST: u64 = 600_000;
/// The same where all loops of two builds are compared.
const MOST_STEPS_OF_ALL: u64 = 1_000_000;
/// Loops that are told of a function where all are asked for.
const MOST_LOOPS: usize = 4096;
/// Waits that are kept of a turn, the longest first.
const MOST_WAITS: usize = 12;
/// Steps of a critical path that are kept.
const MOST_PATH: usize = 64;
/// Schedulers of an SM.
pub(super) const SCHEDULERS: u32 = 4;

/// The hottest of some loops: where most of the time goes; none where that is not known.
pub fn hottest(costs: &[LoopCost]) -> Option<&LoopCost> {
    costs.iter().find(|cost| cost.hottest)
}

/// Cycles in which a scheduler does a turn of the PTX's hottest loop, with the warps that an SM holds, by the longest way through it: 0 for a
/// kernel without loops, none where it is not known.
pub fn hottest_cycles(kernel: &Kernel) -> Option<u64> {
    let costs = kernel.costs.as_deref()?;
    if kernel.loops.as_ref()?.is_empty() {
        return Some(0);
    }
    hottest(costs)?.loop_cycles()
}

/// What is compared of a loop from build to build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopFigures {
    /// The PTX line of its first instruction.
    pub ptx_line: Option<Line>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Accesses of memory, matrices and barriers of a turn of the PTX's loop: what finds it again where lines have moved.
    pub shape: String,
    /// Whether it is the hottest.
    pub hottest: bool,
    /// Cycles in which a scheduler does a turn of the PTX's loop, with the warps that an SM holds.
    pub loop_cycles: u64,
}

/// The loops of a kernel whose cycles are known, by their lines.
pub fn loop_figures(kernel: &Kernel) -> Vec<LoopFigures> {
    let costs = kernel.costs.as_deref().unwrap_or_default();
    let first = hottest(costs).map(|cost| cost.pc);
    let mut found: Vec<LoopFigures> = costs
        .iter()
        .filter_map(|cost| {
            Some(LoopFigures {
                ptx_line: cost.ptx_line,
                depth: cost.depth,
                shape: cost.shape.clone(),
                hottest: first == Some(cost.pc),
                loop_cycles: cost.loop_cycles()?,
            })
        })
        .collect();
    found.sort_by_key(|found| (found.ptx_line, found.depth));
    found
}

impl LoopCost {
    /// Cycles after which memory answers what the first cache is not asked for, at best.
    pub fn beyond_l1_latency(&self) -> u16 {
        self.memory_latency.max(Memory::L2.latency())
    }

    /// Cycles in which a scheduler does a turn of the PTX's loop, with the warps that an SM holds, by the longest way through it.
    pub fn loop_cycles(&self) -> Option<u64> {
        let turn = self.longest.as_ref().unwrap_or(&self.shortest);
        let at = turn.with_warps.first()?;
        let turns = f64::from(at.warps_per_scheduler) * f64::from(self.ptx_turns?);
        Some((at.cycles / turns).ceil() as u64)
    }
}

/// Which costs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    /// None.
    None,
    /// Those of the innermost and longest loops, for the warps that an SM holds.
    Hottest,
    /// Those of all loops that do something, for the warps that an SM holds: what two builds are compared by.
    Loops,
    /// Those of the whole code, part by part, to compare builds of one kernel: [`super::CodeParts`].
    Builds,
    /// Those of all loops, or of one.
    Asked {
        /// The loop around this line.
        line: Option<Line>,
        /// Warps on a scheduler: bit `n - 1` for `n` of them; none for those that an SM holds.
        warps: u16,
        /// Cycles until memory answers.
        latency: u16,
        /// Whether consumers that come too early are looked for.
        hazards: bool,
        /// Whether all accesses of memory are told, not only those that take more than they must.
        accesses: bool,
    },
}

impl Costs {
    /// Whether all accesses of memory are told.
    pub fn all_accesses(self) -> bool {
        matches!(self, Costs::Asked { accesses: true, .. })
    }

    /// Instructions that are issued at most for all estimates of a function.
    fn most_steps(self) -> u64 {
        match self {
            Costs::Hottest => MOST_STEPS,
            Costs::Loops => MOST_STEPS_OF_ALL,
            Costs::None | Costs::Builds | Costs::Asked { .. } => u64::MAX,
        }
    }
}

/// What a loop costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopCost {
    /// Its first instruction.
    pub pc: Pc,
    /// The PTX line of that.
    pub ptx_line: Option<Line>,
    /// The front end's line of it.
    pub source_line: Option<SourceLine>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Whether most of the time goes to its own instructions, of the loops of its function: each is taken to make ten turns whenever it is come to. A
    /// loop that only waits never is.
    #[serde(default)]
    pub hottest: bool,
    /// Loops inside; their turns are not counted.
    pub inner_loops: u32,
    /// Turns of the PTX's loop that a turn does: above 1 where ptxas unrolled it; null where nobody can tell.
    pub ptx_turns: Option<u32>,
    /// Its accesses of memory, matrices and barriers: `4 LDS, 16 HMMA`, of a turn of the PTX's loop where that is known.
    #[serde(skip)]
    pub shape: String,
    /// Cycles after which global and local memory are taken to answer.
    pub memory_latency: u16,
    /// Loops that other warps of the block are taken to run at the same time, a turn for each of its own: what they put on the tensor cores, or on
    /// what else they share with it, counts in the cycles with several warps.
    #[serde(default)]
    pub beside: Vec<LoopBeside>,
    /// The way through it with the fewest instructions.
    pub shortest: TurnCost,
    /// The one with the most, where it has branches.
    pub longest: Option<TurnCost>,
}

/// What a turn of a loop costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnCost {
    /// Instructions of a warp.
    pub instructions: u32,
    /// Those of a kind that nobody measured: taken for what resembles them.
    pub unmeasured: u32,
    /// Accesses of shared memory that are counted with their bank conflicts.
    pub bank_conflicts: u32,
    /// Accesses of shared memory that are not decided: counted as if they had none.
    pub undecided_accesses: u32,
    /// Accesses that the first cache is not asked for: volatile, relaxed and acquiring loads of a wider scope than the block, atomics, copies of
    /// `cp.async.cg`. The second cache answers them at best.
    #[serde(default)]
    pub beyond_l1: u32,
    /// With one warp alone on an SM.
    pub alone: CyclesAt,
    /// What that warp waits for, the longest first.
    pub waits: Vec<LoopWait>,
    /// The instructions that the turn of that warp is as long as, those that take more than a cycle, in their order.
    pub critical_path: Vec<PathStep>,
    /// With several warps on each scheduler.
    pub with_warps: Vec<CyclesAt>,
}

/// An instruction of a critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathStep {
    /// The instruction.
    pub pc: Pc,
    /// Its PTX line.
    pub ptx_line: Option<Line>,
    /// Cycles until the next one of the path.
    pub cycles: u32,
}

/// Cycles of a turn with so many warps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CyclesAt {
    /// Warps on each scheduler of the SM; 0 for one warp alone on the SM.
    pub warps_per_scheduler: u8,
    /// Cycles in which each of these warps does a turn.
    pub cycles: f64,
    /// What bounds it.
    pub bound: CostBound,
    /// The part that bounds it, or the busiest one.
    pub part: String,
    /// How busy each part of the machine is, in hundredths of the cycles, the busiest first.
    pub busy: Vec<PartBusy>,
}

/// What keeps a turn from being shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBound {
    /// A part of the machine is busy all the time.
    Part,
    /// Results are waited for.
    Latency,
    /// Warps wait for each other.
    Barrier,
}

/// How busy a part of the machine is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartBusy {
    /// Its name.
    pub part: String,
    /// Of 100 cycles.
    pub percent: u32,
}

/// What a lone warp waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopWait {
    /// The instruction that waits.
    pub pc: Pc,
    /// Its PTX line.
    pub ptx_line: Option<Line>,
    /// Cycles since the instruction before it.
    pub cycles: u32,
    /// Why.
    pub cause: WaitCause,
    /// The instruction that it waits for.
    pub for_pc: Option<Pc>,
    /// The PTX line of that.
    pub for_ptx_line: Option<Line>,
}

/// Why an instruction waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// The stall count of the instruction before it: results of a known latency.
    Stall,
    /// A scoreboard: results of memory and the like.
    Scoreboard,
    /// The branch back.
    Branch,
    /// Its pipe is busy.
    Pipe,
    /// The banks of registers are behind.
    Banks,
    /// A barrier.
    Barrier,
    /// Multiplications of the warp group.
    Groups,
}

impl WaitCause {
    /// All of them.
    pub const ALL: [WaitCause; 7] = [
        WaitCause::Stall,
        WaitCause::Scoreboard,
        WaitCause::Branch,
        WaitCause::Pipe,
        WaitCause::Banks,
        WaitCause::Barrier,
        WaitCause::Groups,
    ];
}

/// Consumers that come too early by the control bits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HazardFacts {
    /// Dependencies that were decided.
    pub decided: u64,
    /// Those between kinds of instructions that are seen too seldom to say.
    pub unknown: u64,
    /// Those that fall short, by place.
    pub found: Vec<HazardFound>,
}

/// A consumer that comes too early.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HazardFound {
    /// The consumer.
    pub pc: Pc,
    /// Its PTX line.
    pub ptx_line: Option<Line>,
    /// Who makes what it consumes.
    pub of_pc: Pc,
    /// The PTX line of that.
    pub of_ptx_line: Option<Line>,
    /// Cycles between them; null where a scoreboard is not waited for.
    pub cycles: Option<u32>,
    /// The fewest that ptxas was seen to leave.
    pub needed: Option<u32>,
}

/// The hazards of a function, where they are asked for.
pub(super) fn hazards(section: &Section<'_>, ranges: &[Range<Pc>], asked: Costs) -> Option<HazardFacts> {
    let Costs::Asked { hazards: true, .. } = asked else { return None };
    let all = cost::hazards::hazards(section.code.as_deref()?);
    let inside = |hazard: &&cost::hazards::Hazard| ranges.iter().any(|range| range.contains(&hazard.to));
    let found = all.found.iter().filter(inside).map(|hazard| HazardFound {
        pc: hazard.to,
        ptx_line: section.ptx_line(hazard.to),
        of_pc: hazard.from,
        of_ptx_line: section.ptx_line(hazard.from),
        cycles: hazard.cycles.map(|(cycles, _)| cycles),
        needed: hazard.cycles.map(|(_, needed)| needed),
    });
    Some(HazardFacts { decided: all.decided, unknown: all.unknown, found: found.collect() })
}

/// The costs that are asked for; none where nobody measured the architecture.
pub(super) fn costs(
    kernel: &Kernel,
    section: &Section<'_>,
    ranges: &[Range<Pc>],
    function: Option<&Function<'_, '_>>,
    asked: Costs,
    arch: Arch,
) -> Option<Vec<LoopCost>> {
    let latency = match asked {
        Costs::None | Costs::Builds => return None,
        Costs::Hottest | Costs::Loops => L1_LATENCY,
        Costs::Asked { latency, .. } => latency,
    };
    let machine = Machine::of(arch, latency)?;
    let code = section.code.as_deref()?;
    let shared = Accesses::new(code, |pc| section.ptx_line(pc), kernel.accesses.as_ref());
    let turns = PtxTurns::new(section, code, function);
    let (steps, most) = (Cell::new(0), Cell::new(asked.most_steps()));
    let progress = cost::progress(code);
    let teller = Teller { kernel, section, code, progress, machine, shared, turns, latency, steps, most, asked };
    let mut found = teller.found(ranges);
    found.sort_by_key(|cost| (cost.pc, cost.depth));
    Some(found)
}

/// Warps on a scheduler, and how many of them are of one block; `of_role` is how many warps of a block run the code where not all do.
fn warps(kernel: &Kernel, asked: Costs, of_role: Option<u32>) -> Vec<Warps> {
    let occupancy = kernel.occupancy.as_ref();
    let in_block = occupancy.and_then(|occupancy| occupancy.threads).map(|threads| threads.div_ceil(WARP_SIZE));
    let running = of_role.or(in_block);
    let of_block = running.map(|warps| warps.div_ceil(SCHEDULERS).clamp(1, 16) as u8);
    let on = |each: u8| Warps { of_block: of_block.unwrap_or(each).min(each), ..Warps::on_each(each) };
    match asked {
        Costs::Asked { warps, .. } if warps != 0 => {
            (1..=16).filter(|each| warps >> (each - 1) & 1 == 1).map(on).collect()
        }
        _ => {
            let resident = || match of_role {
                Some(warps) => Some(warps.saturating_mul(occupancy?.blocks_per_sm?)),
                None => occupancy?.warps_per_sm,
            };
            resident().map(|warps| on(warps.div_ceil(SCHEDULERS).clamp(1, 16) as u8)).into_iter().collect()
        }
    }
}

struct Teller<'a> {
    kernel: &'a Kernel,
    section: &'a Section<'a>,
    code: &'a Code,
    /// What each loop's turns are for.
    progress: IndexVec<LoopId, Progress>,
    machine: Machine,
    shared: Accesses,
    turns: PtxTurns<'a>,
    latency: u16,
    /// Instructions issued so far.
    steps: Cell<u64>,
    /// As many as may be.
    most: Cell<u64>,
    asked: Costs,
}

/// A loop that was looked at to know how hot it is.
struct Ranked {
    turns: Turns,
    /// Its shortest way.
    prepared: Prepared,
    /// What that costs alone, where there was time to know it.
    alone: Option<Estimate>,
}

/// A way through a loop, and what it costs for those of the warps asked for that there is time for.
struct Way<'t> {
    turn: &'t Turn,
    prepared: Prepared,
    asked: Vec<Warps>,
    alone: Option<Estimate>,
    with: Vec<(Warps, Estimate)>,
}

impl Way<'_> {
    /// With what was asked for.
    fn estimated(mut self) -> Self {
        let found = std::mem::take(&mut self.asked).into_par_iter().map(|warps| (warps, self.prepared.estimate(warps)));
        for (warps, estimate) in found.collect::<Vec<_>>() {
            match estimate {
                Some(estimate) if warps == Warps::ALONE => self.alone = Some(estimate),
                Some(estimate) => self.with.push((warps, estimate)),
                None => {}
            }
        }
        self
    }
}

impl Ranked {
    /// Cycles of a turn alone; where there was no time to know them, as many as it has instructions, which it cannot be shorter than.
    fn cycles(&self) -> f64 {
        self.alone.as_ref().map_or(self.turns.shortest.instructions.len() as f64, |found| found.cycles)
    }
}

impl Teller<'_> {
    /// The costs of the loops that are asked for, the hottest among them marked.
    fn found(&self, ranges: &[Range<Pc>]) -> Vec<LoopCost> {
        let chosen = self.chosen(ranges);
        if matches!(self.asked, Costs::Asked { .. }) {
            let mut found: Vec<(LoopId, LoopCost)> =
                chosen.into_iter().filter_map(|id| Some((id, self.cost(id, None)?))).collect();
            let works = |id: LoopId| self.progress.get(id) != Some(&Progress::Waits);
            let weight = |(id, cost): &(LoopId, LoopCost)| (self.weight(*id, cost.shortest.alone.cycles), Reverse(*id));
            let hottest = found.iter_mut().filter(|(id, _)| works(*id)).max_by_key(|found| weight(found));
            if let Some((_, hottest)) = hottest {
                hottest.hottest = true;
            }
            return found.into_iter().map(|(_, cost)| cost).collect();
        }
        let most = self.most.get();
        let mut ranked: Vec<(u64, LoopId, Option<Ranked>)> = chosen
            .into_iter()
            .map(|id| {
                let ranked = self.rank(id);
                (self.weight(id, ranked.as_ref().map_or(0.0, Ranked::cycles)), id, ranked)
            })
            .collect();
        ranked.sort_by_key(|(weight, id, _)| (Reverse(*weight), *id));
        if self.asked == Costs::Hottest {
            ranked.truncate(HOTTEST);
        }
        let mut found = Vec::new();
        for (place, (_, id, ranked)) in ranked.into_iter().enumerate() {
            // What the ranking took is not taken from the hottest, nor what the hottest takes from the others.
            let spent = self.steps.get();
            self.most.set(if place == 0 { spent + most.max(MOST_STEPS_OF_HOTTEST) } else { most });
            let Some(cost) = self.cost(id, ranked) else { continue };
            if place == 0 {
                self.steps.set(spent);
            }
            found.push(LoopCost { hottest: place == 0, ..cost });
        }
        found
    }

    /// The loops that are asked for; where the hottest are, those that do something and have the most instructions of their own.
    fn chosen(&self, ranges: &[Range<Pc>]) -> Vec<LoopId> {
        let bodies = self.code.loop_bodies();
        let inside = |pc: Pc| ranges.iter().any(|range| range.contains(&pc));
        let mut found: Vec<LoopId> =
            (0..).map(LoopId).zip(&bodies).filter(|(_, body)| inside(body.start)).map(|(id, _)| id).collect();
        match self.asked {
            Costs::None | Costs::Builds => found.clear(),
            Costs::Hottest | Costs::Loops => {
                found.retain(|id| self.progress.get(*id) != Some(&Progress::Waits));
                let mut own: Vec<u32> = bodies.iter().map(|body| body.instructions).collect();
                for (id, body) in (0..).map(LoopId).zip(&bodies) {
                    if let Some(around) = self.code.loops().parent(id).and_then(|id| own.get_mut(id.0 as usize)) {
                        *around = around.saturating_sub(body.instructions);
                    }
                }
                let size = |id: LoopId| f64::from(own.get(id.0 as usize).copied().unwrap_or(0));
                found.sort_by_key(|id| (Reverse(self.weight(*id, size(*id))), *id));
                found.truncate(if self.asked == Costs::Loops { MOST_LOOPS } else { CANDIDATES });
            }
            Costs::Asked { line, .. } => {
                if let Some(line) = line {
                    let around = self.around(line);
                    found.retain(|id| Some(*id) == around);
                }
                found.truncate(MOST_LOOPS);
            }
        }
        found
    }

    /// What a turn costs alone, where there is time to know it; none where the loop has no turn.
    fn rank(&self, id: LoopId) -> Option<Ranked> {
        let turns = cost::turns(self.code, id)?;
        let prepared = Prepared::new(&self.model(), &turns.shortest);
        let is_time = self.spend(&turns.shortest, Warps::ALONE);
        let alone = if is_time { prepared.estimate(Warps::ALONE) } else { None };
        Some(Ranked { turns, prepared, alone })
    }

    /// The time that goes to a loop whose turn takes so long, as often as it is taken to run.
    fn weight(&self, id: LoopId, of_turn: f64) -> u64 {
        let around = std::iter::successors(Some(id), |id| self.code.loops().parent(*id));
        let repeats = around.filter(|id| self.progress.get(*id) == Some(&Progress::Repeats)).count();
        ((of_turn * 10.0) as u64).saturating_mul(TURNS.saturating_pow(repeats as u32))
    }

    /// The innermost loop with an instruction of a PTX line.
    fn around(&self, line: Line) -> Option<LoopId> {
        let blocks = (0..).map(BlockId).zip(&self.code.cfg.blocks);
        let has = |block: &flow::Block| {
            (block.start..block.end).any(|index| self.section.ptx_line(Pc(index * 16)) == Some(line))
        };
        let found = blocks.filter(|(_, block)| has(block)).filter_map(|(block, _)| self.code.loops().of(block));
        found.max_by_key(|id| (self.code.loops().loops.get(*id).map(|found| found.depth), Reverse(*id)))
    }

    /// The costs of a loop, from what ranked it where something did.
    fn cost(&self, id: LoopId, ranked: Option<Ranked>) -> Option<LoopCost> {
        let Ranked { turns, prepared, alone } = match ranked {
            Some(ranked) => ranked,
            None => {
                let turns = cost::turns(self.code, id)?;
                let prepared = Prepared::new(&self.model(), &turns.shortest);
                Ranked { turns, prepared, alone: None }
            }
        };
        let found = self.code.loops().loops.get(id)?;
        let pc = Pc(self.code.cfg.blocks.get(found.header.0 as usize)?.start * 16);
        let longest = turns.longest.as_ref().unwrap_or(&turns.shortest);
        let ptx_turns = self.turns.of(id, longest);
        let beside = self.beside(id, longest);
        let others = |way: fn(&Turns) -> &Turn| -> Vec<(&Turn, u8)> {
            beside.iter().map(|found| (way(&found.turns), found.told.warps_per_scheduler)).collect()
        };
        let shortest = self.way(&turns.shortest, prepared, alone);
        let other = turns.longest.as_ref();
        let other = other.map(|turn| self.way(turn, Prepared::new(&self.model(), turn), None));
        // A user waits for them, and they have nothing to do with each other.
        let (shortest, other) = rayon::join(|| shortest.estimated(), || other.map(Way::estimated));
        Some(LoopCost {
            pc,
            ptx_line: self.section.ptx_line(pc),
            source_line: self.section.source_line(pc),
            depth: found.depth,
            hottest: false,
            inner_loops: turns.inner,
            ptx_turns,
            shape: self.shape(longest, ptx_turns.unwrap_or(1)),
            memory_latency: self.latency,
            shortest: self.turn(shortest, &others(|turns| &turns.shortest))?,
            longest: other
                .and_then(|way| self.turn(way, &others(|turns| turns.longest.as_ref().unwrap_or(&turns.shortest)))),
            beside: beside.into_iter().map(|found| found.told).collect(),
        })
    }

    /// How often each instruction that is never made twice nor left out is in a turn of the PTX's loop.
    fn shape(&self, turn: &Turn, ptx_turns: u32) -> String {
        let decoder = self.code.program().decoder();
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        let all = turn.instructions.iter().filter_map(|&(index, _)| self.code.instructions().get(index as usize));
        for name in all.map(|inst| decoder.mnemonic(inst)).filter(|name| is_anchor(name)) {
            *seen.entry(name).or_default() += 1;
        }
        let told: Vec<String> =
            seen.iter().map(|(name, count)| format!("{} {name}", count / ptx_turns.max(1))).collect();
        told.join(", ")
    }

    /// A way through a loop, with as many of the warps that are asked for as there is time for; `alone` where that is known already.
    fn way<'t>(&self, turn: &'t Turn, prepared: Prepared, alone: Option<Estimate>) -> Way<'t> {
        let mut way = Way { turn, prepared, alone: None, with: Vec::new(), asked: Vec::new() };
        if self.spend(turn, Warps::ALONE) {
            match alone {
                Some(alone) => way.alone = Some(alone),
                None => way.asked.push(Warps::ALONE),
            }
            let asked = warps(self.kernel, self.asked, self.runners(turn).map(|runners| runners.count));
            way.asked.extend(asked.into_iter().filter(|warps| self.spend(turn, *warps)));
        }
        way
    }

    /// What a turn costs, beside the ways that other warps take, on how many of each scheduler.
    fn turn(&self, way: Way<'_>, beside: &[(&Turn, u8)]) -> Option<TurnCost> {
        let Way { turn, alone, with, .. } = way;
        let model = self.model();
        let mut alone = alone?;
        cost::name_producers(&model, turn, &mut alone);
        let pcs = || turn.instructions.iter().map(|&(index, _)| Pc(index * 16));
        let among = |some: &FastSet<Pc>| pcs().filter(|pc| some.contains(pc)).count() as u32;
        let with = with.into_iter().map(|(warps, estimate)| {
            let others = beside.iter().flat_map(|&(turn, each)| cost::work(&model, turn, Warps { each, ..warps }));
            at(warps.each, &estimate.beside(others))
        });
        let mut waits: Vec<LoopWait> =
            alone.waits.iter().filter(|wait| wait.cycles > 1).map(|wait| self.wait(wait)).collect();
        waits.sort_by_key(|wait| (Reverse(wait.cycles), wait.pc));
        waits.truncate(MOST_WAITS);
        Some(TurnCost {
            instructions: alone.instructions,
            unmeasured: alone.unmeasured,
            bank_conflicts: among(&self.shared.conflicts),
            undecided_accesses: among(&self.shared.unknown),
            beyond_l1: alone.beyond_l1,
            alone: at(0, &alone),
            waits,
            critical_path: self.critical(&alone),
            with_warps: with.collect(),
        })
    }

    fn critical(&self, alone: &Estimate) -> Vec<PathStep> {
        let long = alone.critical.iter().filter(|(_, cycles)| *cycles > 1).take(MOST_PATH);
        long.map(|&(pc, cycles)| PathStep { pc, ptx_line: self.section.ptx_line(pc), cycles }).collect()
    }

    /// Whether there is time for an estimate, which is then taken.
    fn spend(&self, turn: &Turn, warps: Warps) -> bool {
        let issued = turn.instructions.len() as u64 * u64::from(warps.each) * u64::from(warps.schedulers) * 10;
        let steps = self.steps.get() + issued;
        let is_time = steps <= self.most.get();
        if is_time {
            self.steps.set(steps);
        }
        is_time
    }

    fn model(&self) -> Model<'_> {
        Model { machine: self.machine, code: self.code, wavefronts: &self.shared.wavefronts }
    }

    fn wait(&self, wait: &cost::Wait) -> LoopWait {
        LoopWait {
            pc: wait.pc,
            ptx_line: self.section.ptx_line(wait.pc),
            cycles: wait.cycles,
            cause: wait.cause.into(),
            for_pc: wait.producer,
            for_ptx_line: wait.producer.and_then(|pc| self.section.ptx_line(pc)),
        }
    }
}

impl From<Cause> for WaitCause {
    fn from(cause: Cause) -> WaitCause {
        match cause {
            Cause::Stall => WaitCause::Stall,
            Cause::Scoreboard(_) => WaitCause::Scoreboard,
            Cause::Branch => WaitCause::Branch,
            Cause::Pipe => WaitCause::Pipe,
            Cause::Banks => WaitCause::Banks,
            Cause::Barrier => WaitCause::Barrier,
            Cause::Groups => WaitCause::Groups,
        }
    }
}

fn at(warps: u8, estimate: &Estimate) -> CyclesAt {
    let share = |busy: f64| (busy / estimate.cycles.max(1.0) * 100.0).round().min(100.0) as u32;
    let busiest = estimate.loads.first().map_or(Part::Issue, |load| load.part);
    let (bound, part) = match estimate.bound {
        Bound::Part(part) => (CostBound::Part, part),
        Bound::Latency => (CostBound::Latency, busiest),
        Bound::Barrier => (CostBound::Barrier, busiest),
    };
    let busy =
        estimate.loads.iter().map(|load| PartBusy { part: load.part.name().to_owned(), percent: share(load.busy) });
    CyclesAt {
        warps_per_scheduler: warps,
        cycles: (estimate.cycles * 10.0).round() / 10.0,
        bound,
        part: part.name().to_owned(),
        busy: busy.filter(|busy| busy.percent > 0).collect(),
    }
}
