//! One code section, decoded and solved: what every question about registers starts from.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::base::{Arch, FastMap, Pc, RegFile, RegSet, work};
use crate::cubin;
use crate::flow::{Cfg, Counts, Layout, Liveness, Program, Rule, SassProgram};
use crate::graph::{BlockId, Loop, LoopId, Loops};
use crate::sass::{Decoder, Inst};

/// What a word of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// An instruction of the tables.
    Known,
    /// A word the tables do not know.
    Unknown,
    /// One that only fills the section up.
    Padding,
}

/// How live registers are counted in the sections of one cubin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting {
    rule: Rule,
    named: Option<RegSet>,
}

impl Counting {
    /// Nvdisasm's rule looks at all code of the cubin first.
    pub fn new(rule: Rule, image: &cubin::Image<'_>) -> Counting {
        Counting { rule, named: if rule == Rule::Nvdisasm { named_registers(image) } else { None } }
    }
}

/// A section with its control flow and liveness.
pub struct Code {
    program: SassProgram,
    /// Blocks, functions, calls.
    pub cfg: Cfg,
    /// Loops, found by whoever asks first.
    loops: OnceLock<Loops>,
    /// Live registers.
    pub liveness: Liveness,
    /// Registers occupied at each instruction, by index.
    pub counts: Vec<Counts>,
}

/// The code of a cubin's functions, each decoded and solved once, by whoever asks first.
pub struct Codes {
    of: Vec<OnceLock<Option<Arc<Code>>>>,
}

impl Codes {
    /// Nothing is solved yet.
    pub fn new(image: &cubin::Image<'_>) -> Codes {
        Codes { of: image.functions.iter().map(|_| OnceLock::new()).collect() }
    }

    /// The code of the function with this place in the cubin.
    pub fn get(&self, image: &cubin::Image<'_>, place: usize) -> Option<Arc<Code>> {
        let function = image.functions.get(place)?;
        let solve = || Code::analyse(image.arch, function, &Counting::default()).map(Arc::new);
        self.of.get(place)?.get_or_init(solve).clone()
    }
}

/// The most occupied registers of one file in a stretch of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// How many.
    pub registers: u32,
    /// The first instruction that has so many.
    pub pc: Option<Pc>,
}

/// A loop and what its code comes to, inner loops included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopBody {
    /// The instruction that control comes back to.
    pub start: Pc,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// How many instructions.
    pub instructions: u32,
    /// The most occupied vector registers.
    pub peak: Peak,
}

impl LoopBody {
    fn add(&mut self, instructions: u32, peak: Peak) {
        self.instructions += instructions;
        let is_more = peak.registers > self.peak.registers;
        let is_earlier = peak.registers == self.peak.registers && self.peak.pc.is_none_or(|pc| peak.pc < Some(pc));
        if peak.pc.is_some() && (is_more || is_earlier) {
            self.peak = peak;
        }
    }
}

/// A load or store of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAccess {
    /// A store, or else a load.
    pub is_store: bool,
    /// How much it moves.
    pub bytes: u32,
}

impl Code {
    /// Decodes and solves a function's section; none for an architecture whose SASS is not known.
    pub fn analyse(arch: Arch, function: &cubin::Function<'_>, counting: &Counting) -> Option<Code> {
        let decoder = Decoder::new(arch)?;
        let layout = Layout {
            entries: std::iter::once(Pc(0)).chain(function.parts.iter().map(|part| part.start)).collect(),
            indirect: function.branch_targets.iter().map(|branch| (branch.pc, branch.targets.clone())).collect(),
            registers: registers(function),
            named: counting.named,
        };
        Some(Code::solve(decoder, function.code, &layout, counting.rule))
    }

    /// Decodes and solves a section.
    pub fn solve(decoder: Decoder, code: &[u8], layout: &Layout, rule: Rule) -> Code {
        // Each of these is linear in the code.
        work::check_time();
        let program = SassProgram::decode(decoder, code);
        work::check_time();
        let program = if rule == Rule::Sound { program.with_tail_jumps(layout) } else { program };
        let cfg = Cfg::build(&program, layout);
        work::check_time();
        let liveness = Liveness::solve(&program, &cfg, rule);
        work::check_time();
        let counts = liveness.counts(&program, &cfg);
        work::check_time();
        Code { program, cfg, loops: OnceLock::new(), liveness, counts }
    }

    /// What each word of the ranges is.
    pub fn word_kinds(&self, ranges: &[Range<Pc>]) -> Vec<WordKind> {
        let kind = |pc: Pc| match self.instruction(pc) {
            _ if self.is_padding(pc) => WordKind::Padding,
            Some(instruction) if !instruction.is_unknown() => WordKind::Known,
            _ => WordKind::Unknown,
        };
        pcs(ranges).map(kind).collect()
    }

    /// Its loops.
    pub fn loops(&self) -> &Loops {
        self.loops.get_or_init(|| self.cfg.loops())
    }

    /// The section as a program.
    pub fn program(&self) -> &SassProgram {
        &self.program
    }

    /// Its instructions.
    pub fn instructions(&self) -> &[Inst] {
        self.program.instructions()
    }

    /// Whether an instruction only fills the section up.
    fn is_padding(&self, pc: Pc) -> bool {
        pc.0 / 16 >= self.cfg.instructions.saturating_sub(self.cfg.padding)
    }

    /// The tables of its architecture.
    pub fn decoder(&self) -> &Decoder {
        self.program.decoder()
    }

    /// An instruction, decoded.
    pub fn instruction(&self, pc: Pc) -> Option<Inst> {
        self.instructions().get(pc.0 as usize / 16).copied()
    }

    /// What the word of an instruction is; one outside the section is not known.
    pub fn kind(&self, pc: Pc) -> WordKind {
        match self.instruction(pc) {
            _ if self.is_padding(pc) => WordKind::Padding,
            Some(instruction) if !instruction.is_unknown() => WordKind::Known,
            _ => WordKind::Unknown,
        }
    }

    /// Whether an instruction is understood: its text, what it does to registers, and where it goes.
    pub fn is_known(&self, pc: Pc) -> bool {
        self.program().flow(pc.0 as usize / 16).known
    }

    /// What a load or store of local memory moves; none for any other instruction.
    pub fn local_access(&self, pc: Pc) -> Option<LocalAccess> {
        let instruction = self.instruction(pc)?;
        let is_store = self.decoder().is_named(&instruction, "STL");
        if !is_store && !self.decoder().is_named(&instruction, "LDL") {
            return None;
        }
        // Bits 73 to 75: u8, s8, u16, s16, 32, 64, 128 bits.
        let bytes = match instruction.word.hi >> 9 & 7 {
            0 | 1 => 1,
            2 | 3 => 2,
            4 => 4,
            5 => 8,
            6 => 16,
            _ => return None,
        };
        Some(LocalAccess { is_store, bytes })
    }

    /// Registers occupied at an instruction.
    #[inline]
    pub fn occupied_of_all(&self, pc: Pc) -> Counts {
        self.counts.get(pc.0 as usize / 16).copied().unwrap_or_default()
    }

    /// Registers of a file occupied at an instruction.
    pub fn occupied(&self, pc: Pc, file: RegFile) -> u32 {
        u32::from(self.occupied_of_all(pc).0[file])
    }

    /// Where a file is fullest.
    pub fn peak(&self, ranges: &[Range<Pc>], file: RegFile) -> Peak {
        let mut peak = Peak::default();
        for pc in pcs(ranges) {
            let registers = self.occupied(pc, file);
            if registers > peak.registers || peak.pc.is_none() {
                peak = Peak { registers, pc: Some(pc) };
            }
        }
        peak
    }

    /// Occupied vector registers along the code: at most `samples` figures, each the maximum of its stretch.
    pub fn profile(&self, ranges: &[Range<Pc>], samples: usize) -> Vec<u32> {
        let along: Vec<u32> =
            pcs(ranges).filter(|&pc| !self.is_padding(pc)).map(|pc| self.occupied(pc, RegFile::Gpr)).collect();
        let stretch = along.len().div_ceil(samples.max(1)).max(1);
        along.chunks(stretch).map(|chunk| chunk.iter().copied().max().unwrap_or(0)).collect()
    }

    /// The highest vector register that an instruction of the ranges names.
    pub fn highest_register(&self, ranges: &[Range<Pc>]) -> Option<u16> {
        let runs = pcs(ranges).flat_map(|pc| self.program.runs(pc.0 as usize / 16));
        runs.filter(|run| run.file() == RegFile::Gpr)
            .filter_map(|run| run.registers().last())
            .max()
            .map(|last| last.min(255))
    }

    /// Whether an instruction of the ranges calls a function.
    pub fn calls_out(&self, ranges: &[Range<Pc>]) -> bool {
        ranges.iter().any(|range| {
            let first = self.cfg.calls.partition_point(|call| call.pc < range.start);
            self.cfg.calls.get(first).is_some_and(|call| call.pc < range.end)
        })
    }

    /// The instructions of this name in the ranges.
    pub fn named<'a>(&'a self, mnemonic: &'a str, ranges: &'a [Range<Pc>]) -> impl Iterator<Item = (Pc, Inst)> + 'a {
        let all = pcs(ranges).filter_map(|pc| Some((pc, self.instruction(pc)?)));
        all.filter(|(_, inst)| self.decoder().is_named(inst, mnemonic))
    }

    /// Every loop, by its number.
    pub fn loop_bodies(&self) -> Vec<LoopBody> {
        let body = |found: &Loop| LoopBody {
            start: self.cfg.blocks.get(found.header.0 as usize).map_or(Pc(0), |block| Pc(block.start * 16)),
            depth: found.depth,
            instructions: 0,
            peak: Peak::default(),
        };
        let mut bodies: Vec<LoopBody> = self.loops().loops.iter().map(body).collect();
        for (b, block) in self.cfg.blocks.iter().enumerate() {
            let inside = self.loops().of(BlockId(b as u32));
            let Some(body) = inside.and_then(|id| bodies.get_mut(id.0 as usize)) else { continue };
            let range = Pc(block.start * 16)..Pc(block.end * 16);
            body.add(block.end - block.start, self.peak(&[range], RegFile::Gpr));
        }
        for id in self.loops().inner_first() {
            let own = bodies.get(id.0 as usize).copied();
            let around = self.loops().parent(id).and_then(|id| bodies.get_mut(id.0 as usize));
            if let (Some(own), Some(around)) = (own, around) {
                around.add(own.instructions, own.peak);
            }
        }
        bodies
    }

    /// How many of some instructions each loop has, by its number, of the loops that are wanted: a loop in one that is not counts for nothing
    /// further out.
    pub fn count_in_loops(
        &self,
        pcs: impl Iterator<Item = Pc>,
        wanted: impl Fn(LoopId) -> bool,
    ) -> FastMap<LoopId, u32> {
        let mut counts: FastMap<LoopId, u32> = FastMap::default();
        // The deepest first, so that a loop has all of its own when it is handed on.
        let mut open: BTreeMap<(Reverse<u32>, LoopId), u32> = BTreeMap::new();
        let key = |id: LoopId| (Reverse(self.loops().loops.get(id).map_or(0, |found| found.depth)), id);
        for id in pcs.filter_map(|pc| self.loops().of(self.cfg.block_at(pc)?)) {
            *open.entry(key(id)).or_default() += 1;
        }
        while let Some(((_, id), count)) = open.pop_first() {
            if !wanted(id) {
                continue;
            }
            counts.insert(id, count);
            if let Some(around) = self.loops().parent(id) {
                *open.entry(key(around)).or_default() += count;
            }
        }
        counts
    }

    /// Whether everything that the code of the ranges reaches is understood.
    pub fn exact(&self, ranges: &[Range<Pc>]) -> bool {
        ranges.iter().all(|range| {
            let first = self.cfg.functions.partition_point(|function| function.entry < range.start);
            let rest = self.cfg.functions.get(first..).unwrap_or(&[]).iter();
            rest.take_while(|function| function.entry < range.end).all(|function| function.exact)
        })
    }
}

/// Registers of a function; 0 when not known.
fn registers(function: &cubin::Function<'_>) -> u16 {
    function.resources.registers.and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

/// Every register that an instruction of a cubin names.
pub fn named_registers(image: &cubin::Image<'_>) -> Option<RegSet> {
    let decoder = Decoder::new(image.arch)?;
    let mut named = RegSet::EMPTY;
    for function in &image.functions {
        named.union_with(&SassProgram::decode(decoder, function.code).named(registers(function)));
    }
    Some(named)
}

/// Every instruction of some ranges.
pub fn pcs(ranges: &[Range<Pc>]) -> impl Iterator<Item = Pc> + '_ {
    ranges.iter().flat_map(|range| (range.start.0..range.end.0).step_by(16)).map(Pc)
}
