//! What the whole code of a kernel is made of, part by part, so that builds of one kernel can be compared.
//!
//! A part is what a loop of the machine code does in a turn, loops inside left out, or what is outside of all loops. Builds differ in how often
//! they unroll a loop, so that a part says of which loop of the PTX it is, and how many turns of that it does at once: copies of instructions
//! that are never made twice nor left out (memory, matrices, barriers) on one PTX line. Code that does the turns that an unrolled loop leaves
//! over is no part of what is around it: all builds are compared over as many turns of the PTX's loop.

use std::collections::BTreeMap;
use std::iter::successors;
use std::ops::Range;

use super::code::Section;
use super::cost::SCHEDULERS;
use super::model::Kernel;
use super::ptx_turns::{Copies, PtxLoop, PtxTurns};
use crate::base::hardware::WARP_SIZE;
use crate::base::{Arch, Pc};
use crate::cost::{self, Local, Machine, Model, Turn, Warps, Wavefronts};
use crate::graph::{BlockId, LoopId};
use crate::ptx::Function;
use crate::registers::code::Code;

/// Cycles until global memory answers, some of it from the second cache and some from beyond.
const GLOBAL_LATENCY: u16 = 500;
/// Bytes that an SM gets from the second cache in a cycle.
const SECOND_CACHE_BYTES: f64 = 32.0;
/// The first cache of an SM and its shared memory together.
const FIRST_CACHE_BYTES: u64 = 256 << 10;
/// Parts whose cycles are told: kernels with more loops have no estimate.
const MOST_PARTS: usize = 256;
/// Loops of a kernel that is taken apart at all.
const MOST_LOOPS: usize = 4096;

/// What a build consists of, part by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeParts {
    /// Who runs it together; none where nobody measured the architecture, or the launch is not known: parts have no cycles then.
    pub resident: Option<Resident>,
    /// The loops of the PTX: the loop around each.
    pub loops: Vec<Option<PtxLoop>>,
    /// The parts of the code.
    pub parts: Vec<CodePart>,
    /// Loops of the PTX that are no loops of the machine code: how many copies stand side by side.
    pub unrolled: BTreeMap<PtxLoop, u32>,
    /// The parts of stretches of the code, in order.
    pub stretches: Vec<(Range<Pc>, usize)>,
}

/// How many warps run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Warps that an SM holds.
    pub warps: u32,
    /// Warps of a block.
    pub of_block: u32,
}

/// A part of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct CodePart {
    /// The loop of the PTX; none outside of loops, and where nobody can tell.
    pub of: Option<PtxLoop>,
    /// Loops of the machine code around it.
    pub depth: u32,
    /// Turns of the loop of the PTX that a turn does.
    pub copies: u32,
    /// Whether another part does more turns of the same loop at once: this one does what is left over.
    pub is_rest: bool,
    /// Its instructions.
    pub instructions: u64,
    /// Cycles in which all warps that an SM holds do a turn; none where that is not known.
    pub cycles: Option<f64>,
}

impl CodeParts {
    /// The part that an instruction is in.
    pub fn part_at(&self, pc: Pc) -> Option<&CodePart> {
        let after = self.stretches.partition_point(|(range, _)| range.start <= pc);
        let (range, part) = self.stretches.get(after.checked_sub(1)?)?;
        self.parts.get(*part).filter(|_| range.contains(&pc))
    }

    /// Whether one loop of the PTX is inside another.
    fn is_inside(&self, inner: PtxLoop, outer: PtxLoop) -> bool {
        let parent = |found: &PtxLoop| self.loops.get(found.0 as usize).copied().flatten();
        successors(parent(&inner), parent).take(self.loops.len()).any(|found| found == outer)
    }

    /// Whether an instruction of a loop of the PTX that stands in a part does what the part of that loop leaves over.
    fn is_left_over(&self, part: &CodePart, of: PtxLoop) -> bool {
        let is_around = match part.of {
            Some(around) => self.is_inside(of, around),
            None => part.depth == 0,
        };
        is_around && self.parts.iter().any(|other| other.of == Some(of) && other.depth > part.depth)
    }
}

/// The parts of a kernel's code; none where there are too many.
pub(super) fn of(
    kernel: &Kernel,
    section: &Section<'_>,
    ranges: &[Range<Pc>],
    function: Option<&Function<'_, '_>>,
    arch: Arch,
) -> Option<CodeParts> {
    let code = section.code.as_deref()?;
    let turns = PtxTurns::new(section, code, function);
    let (mut parts, ways) = Taken { section, code, turns }.apart(ranges)?;
    if let Some((resident, timer)) = Timer::new(kernel, code, arch).filter(|_| parts.parts.len() <= MOST_PARTS) {
        parts.resident = Some(resident);
        for (part, way) in parts.parts.iter_mut().zip(&ways) {
            part.cycles = if part.is_rest { Some(0.0) } else { timer.cycles(way) };
        }
    }
    Some(parts)
}

/// A kernel's code, taken apart.
struct Taken<'a> {
    section: &'a Section<'a>,
    code: &'a Code,
    turns: PtxTurns<'a>,
}

impl Taken<'_> {
    /// The parts, and the longest way through each.
    fn apart(&self, ranges: &[Range<Pc>]) -> Option<(CodeParts, Vec<Turn>)> {
        let entry = ranges.iter().map(|range| range.start).min()?;
        let first = self.code.cfg.blocks.iter().position(|block| block.start == entry.0 / 16)?;
        let mut found: Vec<(CodePart, Copies, Turn)> = Vec::new();
        // What is outside of loops is there, if nothing else is.
        let outside = cost::outside_of_loops(self.code, BlockId(first as u32)).unwrap_or_default();
        found.push((part(None, 0, 1), self.turns.copies(&outside), outside));
        let mut part_of: BTreeMap<Option<LoopId>, usize> = BTreeMap::from([(None, 0)]);
        let loops = self.code.loops().loops.iter_enumerated();
        for (id, of) in loops.filter(|(_, found)| self.is_in(ranges, found.header)) {
            if found.len() > MOST_LOOPS {
                return None;
            }
            let Some(turns) = cost::turns(self.code, id) else { continue };
            let turn = turns.longest.unwrap_or(turns.shortest);
            let copies = self.turns.copies(&turn);
            let ptx_loop = self.turns.ptx_loop(id, &copies);
            let count = copies.get(&ptx_loop).filter(|_| ptx_loop.is_some()).copied().unwrap_or(1);
            part_of.insert(Some(id), found.len());
            found.push((part(ptx_loop, of.depth, count.max(1)), copies, turn));
        }
        let mut parts =
            CodeParts { loops: self.turns.loops().to_vec(), unrolled: unrolled(&found), ..CodeParts::default() };
        let mut ways = Vec::new();
        for (part, _, way) in found {
            parts.parts.push(part);
            ways.push(way);
        }
        mark_rests(&mut parts.parts, &ways);
        self.count(ranges, &part_of, &mut parts);
        for (part, way) in parts.parts.iter().zip(&mut ways) {
            way.instructions.retain(|(index, _)| !self.is_left_over(&parts, part, *index));
        }
        Some((parts, ways))
    }

    fn is_in(&self, ranges: &[Range<Pc>], block: BlockId) -> bool {
        let start = self.code.cfg.blocks.get(block.0 as usize).map(|block| Pc(block.start * 16));
        start.is_some_and(|pc| ranges.iter().any(|range| range.contains(&pc)))
    }

    /// Counts the instructions of the parts.
    fn count(&self, ranges: &[Range<Pc>], part_of: &BTreeMap<Option<LoopId>, usize>, parts: &mut CodeParts) {
        for (at, block) in self.code.cfg.blocks.iter().enumerate() {
            let id = BlockId(at as u32);
            let Some(&of) = part_of.get(&self.code.loops().of(id)) else { continue };
            if block.function.is_none() || !self.is_in(ranges, id) {
                continue;
            }
            let Some(part) = parts.parts.get(of) else { continue };
            let own = (block.start..block.end).filter(|index| !self.is_left_over(parts, part, *index)).count();
            parts.stretches.push((Pc(block.start * 16)..Pc(block.end * 16), of));
            if let Some(part) = parts.parts.get_mut(of) {
                part.instructions += own as u64;
            }
        }
        parts.stretches.sort_by_key(|(range, _)| range.start);
    }

    fn is_left_over(&self, parts: &CodeParts, part: &CodePart, index: u32) -> bool {
        let of = self.section.ptx_line(Pc(index * 16)).and_then(|line| self.turns.loop_of_line(line));
        of.is_some_and(|of| parts.is_left_over(part, of))
    }
}

fn part(of: Option<PtxLoop>, depth: u32, copies: u32) -> CodePart {
    CodePart { of, depth, copies, is_rest: false, instructions: 0, cycles: None }
}

/// Tells what a turn costs.
struct Timer<'a> {
    code: &'a Code,
    machine: Machine,
    warps: Warps,
    resident: u32,
}

impl<'a> Timer<'a> {
    fn new(kernel: &Kernel, code: &'a Code, arch: Arch) -> Option<(Resident, Timer<'a>)> {
        let occupancy = kernel.occupancy.as_ref()?;
        let threads = occupancy.threads?;
        let resident = occupancy.most_warps_per_sm()?;
        let each = resident.div_ceil(SCHEDULERS).clamp(1, 16) as u8;
        let warps_of_block = threads.div_ceil(WARP_SIZE).max(1);
        let of_block = warps_of_block.div_ceil(SCHEDULERS).clamp(1, u32::from(each)) as u8;
        // A block of one warp is on one scheduler; as many blocks as there are fill them all.
        let schedulers = if resident >= SCHEDULERS { SCHEDULERS as u8 } else { 1 };
        let warps = Warps { schedulers, each, of_block };
        let frame = kernel.resources.stack_bytes.unwrap_or(0) * u64::from(resident * WARP_SIZE);
        let of_block_bytes = kernel.resources.smem_bytes.unwrap_or(0) + occupancy.smem_dynamic_bytes.unwrap_or(0);
        let shared = u64::from(occupancy.most_blocks_per_sm()?) * of_block_bytes;
        let local = Local::of(frame, FIRST_CACHE_BYTES.saturating_sub(shared));
        let machine = Machine::of(arch, GLOBAL_LATENCY)?.with_local(local);
        Some((Resident { warps: resident, of_block: warps_of_block }, Timer { code, machine, warps, resident }))
    }

    fn cycles(&self, turn: &Turn) -> Option<f64> {
        if turn.instructions.is_empty() {
            return Some(0.0);
        }
        let none = Wavefronts::default();
        let model = Model { machine: self.machine, code: self.code, wavefronts: &none };
        let issued = cost::quick_cycles(&model, turn, self.warps)?;
        // What passes through the second cache takes its time, however it is ordered.
        let bytes = self.global_bytes(turn) as f64 * f64::from(self.resident);
        Some(issued.max(bytes / SECOND_CACHE_BYTES))
    }

    /// Bytes of global memory that a warp touches in a turn.
    fn global_bytes(&self, turn: &Turn) -> u64 {
        let decoder = self.code.program().decoder();
        let instructions = turn.instructions.iter().filter_map(|&(index, _)| {
            let inst = self.code.instructions().get(index as usize)?;
            matches!(decoder.mnemonic(inst), "LDG" | "STG" | "LDGSTS" | "RED").then_some((index, inst))
        });
        let mut text = String::new();
        let bytes = instructions.map(|(index, inst)| {
            text.clear();
            decoder.text(inst, Pc(index * 16), &mut text);
            let name = text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
            let width = name.split('.').find_map(|part| match part {
                "128" => Some(16),
                "64" => Some(8),
                "U16" | "S16" | "16" => Some(2),
                "U8" | "S8" | "8" => Some(1),
                _ => None,
            });
            width.unwrap_or(4) * u64::from(WARP_SIZE)
        });
        bytes.sum()
    }
}

/// Of the parts of one loop of the PTX the one that does most of its turns at once stays: the others do what is left over.
fn mark_rests(parts: &mut [CodePart], ways: &[Turn]) {
    let mut most: BTreeMap<PtxLoop, (u32, usize, usize)> = BTreeMap::new();
    for (at, (part, way)) in parts.iter().zip(ways).enumerate() {
        let Some(of) = part.of else { continue };
        let does = (part.copies, way.instructions.len(), at);
        let known = most.entry(of).or_insert(does);
        if (known.0, known.1) < (does.0, does.1) {
            *known = does;
        }
    }
    for (at, part) in parts.iter_mut().enumerate() {
        part.is_rest = part.of.and_then(|of| most.get(&of)).is_some_and(|(.., most)| *most != at);
    }
}

/// Loops of the PTX whose instructions are in parts of others only.
fn unrolled(found: &[(CodePart, Copies, Turn)]) -> BTreeMap<PtxLoop, u32> {
    let mut unrolled = BTreeMap::new();
    for (part, copies, _) in found {
        for (of, count) in copies {
            let Some(of) = of.filter(|of| !found.iter().any(|(other, ..)| other.of == Some(*of))) else { continue };
            let count = (count / part.copies).max(1);
            let most = unrolled.entry(of).or_insert(count);
            *most = count.max(*most);
        }
    }
    unrolled
}
