//! What the whole code of a kernel costs, part by part, so that builds of one kernel can be compared.
//!
//! A part is what a loop of the machine code does in a turn, loops inside left out, or what is outside of all loops. Builds differ in how often
//! they unroll a loop, so that a part says of which loop of the PTX it is, and how many turns of that it does at once: copies of instructions
//! that are never made twice nor left out (memory, matrices, barriers) on one PTX line.

use std::collections::BTreeMap;
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
/// Parts that are looked at: kernels with more loops have no estimate.
const MOST_PARTS: usize = 256;

/// What a build costs, part by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeParts {
    /// Warps that an SM holds.
    pub resident_warps: u32,
    /// Warps of a block.
    pub warps_of_block: u32,
    /// The loops of the PTX: the loop around each.
    pub loops: Vec<Option<PtxLoop>>,
    /// The parts of the code.
    pub parts: Vec<CodePart>,
    /// Loops of the PTX that are no loops of the machine code: how many copies stand side by side.
    pub unrolled: BTreeMap<PtxLoop, u32>,
}

/// What a turn of a part costs.
#[derive(Clone, Debug, PartialEq)]
pub struct CodePart {
    /// The loop of the PTX; none outside of loops, and where nobody can tell.
    pub of: Option<PtxLoop>,
    /// Loops of the machine code around it.
    pub depth: u32,
    /// Turns of the loop of the PTX that a turn does.
    pub copies: u32,
    /// Cycles in which all warps that an SM holds do a turn.
    pub cycles: f64,
}

/// What the code of a kernel costs; none where nobody measured the architecture, the launch is not known, or there is too much of it.
pub(super) fn of(
    kernel: &Kernel,
    section: &Section<'_>,
    ranges: &[Range<Pc>],
    function: Option<&Function<'_, '_>>,
    arch: Arch,
) -> Option<CodeParts> {
    let code = section.code.as_deref()?;
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
    let turns = PtxTurns::new(section, code, function);
    let teller = Teller { code, machine, warps, resident, turns };
    let (parts, unrolled) = teller.parts(ranges)?;
    let loops = teller.turns.loops().to_vec();
    Some(CodeParts { resident_warps: resident, warps_of_block, loops, parts, unrolled })
}

struct Teller<'a> {
    code: &'a Code,
    machine: Machine,
    warps: Warps,
    resident: u32,
    turns: PtxTurns<'a>,
}

impl Teller<'_> {
    fn parts(&self, ranges: &[Range<Pc>]) -> Option<(Vec<CodePart>, BTreeMap<PtxLoop, u32>)> {
        let inside = |block: BlockId| {
            let start = self.code.cfg.blocks.get(block.0 as usize).map(|block| Pc(block.start * 16));
            start.is_some_and(|pc| ranges.iter().any(|range| range.contains(&pc)))
        };
        let entry = ranges.iter().map(|range| range.start).min()?;
        let first = self.code.cfg.blocks.iter().position(|block| block.start == entry.0 / 16)?;
        let mut found: Vec<(CodePart, Copies)> = Vec::new();
        if let Some(turn) = cost::outside_of_loops(self.code, BlockId(first as u32)) {
            found.push((self.part(&turn, None, 0, 1)?, self.turns.copies(&turn)));
        }
        let loops = self.code.loops.loops.iter().enumerate().filter(|(_, found)| inside(found.header));
        for (at, of) in loops {
            if found.len() > MOST_PARTS {
                return None;
            }
            let id = LoopId(at as u32);
            let Some(turns) = cost::turns(self.code, id) else { continue };
            let turn = turns.longest.unwrap_or(turns.shortest);
            let copies = self.turns.copies(&turn);
            let ptx_loop = self.turns.ptx_loop(id, &copies);
            let count = copies.get(&ptx_loop).filter(|_| ptx_loop.is_some()).copied().unwrap_or(1);
            found.push((self.part(&turn, ptx_loop, of.depth, count)?, copies));
        }
        Some((chosen(&found), unrolled(&found)))
    }

    fn part(&self, turn: &Turn, of: Option<PtxLoop>, depth: u32, copies: u32) -> Option<CodePart> {
        let none = Wavefronts::default();
        let model = Model { machine: self.machine, code: self.code, wavefronts: &none };
        let issued = cost::quick_cycles(&model, turn, self.warps)?;
        // What passes through the second cache takes its time, however it is ordered.
        let bytes = self.global_bytes(turn) as f64 * f64::from(self.resident);
        Some(CodePart { of, depth, copies: copies.max(1), cycles: issued.max(bytes / SECOND_CACHE_BYTES) })
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

/// Of the parts of one loop of the PTX the one that does most of its turns at once: the others do what is left over.
fn chosen(found: &[(CodePart, Copies)]) -> Vec<CodePart> {
    let mut parts: Vec<CodePart> = Vec::new();
    for (part, _) in found {
        match parts.iter_mut().find(|other| part.of.is_some() && other.of == part.of) {
            Some(other) if (other.copies, other.cycles) < (part.copies, part.cycles) => *other = part.clone(),
            Some(_) => {}
            None => parts.push(part.clone()),
        }
    }
    parts
}

/// Loops of the PTX whose instructions are in parts of others only.
fn unrolled(found: &[(CodePart, Copies)]) -> BTreeMap<PtxLoop, u32> {
    let mut unrolled = BTreeMap::new();
    for (part, copies) in found {
        for (of, count) in copies {
            let Some(of) = of.filter(|of| !found.iter().any(|(other, _)| other.of == Some(*of))) else { continue };
            let count = (count / part.copies).max(1);
            let most = unrolled.entry(of).or_insert(count);
            *most = count.max(*most);
        }
    }
    unrolled
}
