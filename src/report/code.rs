//! What the code of a function says: every instruction accounted for, its line, the live registers, the spills.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::join::Facts;
use super::model::*;
use crate::base::{FastMap, FastSet, Line, Pc, RegFile, work};
use crate::cubin::lines::{FunctionLines, LineTable, OwnLine};
use crate::cubin::{self, Abi, Image};
use crate::graph::LoopId;
use crate::ptx::Module;
use crate::registers::code::{Code, Counting, LoopBody, WordKind, pcs};
use crate::registers::spills::{self, Basis};

/// How many figures a pressure profile has at most.
const PROFILE_SAMPLES: usize = 64;
/// Bytes that the names of files in a kernel's source lines may have altogether, and how many more for each instruction.
const LONGEST_NAMES: usize = 64 << 10;
const NAME_BYTES: usize = 256;
/// Calls that are followed down.
const DEEPEST: usize = 40;

/// One code section and everything known about it.
pub(super) struct Section<'a> {
    /// Whose section it is.
    pub function: &'a cubin::Function<'a>,
    pub(super) lines: Option<FunctionLines<'a>>,
    spills: Option<Vec<Pc>>,
    pub code: Option<Arc<Code>>,
    /// Its loops by where they start, once they were asked for.
    bodies: OnceLock<Vec<(LoopId, LoopBody)>>,
    pub(super) module: Option<&'a Module<'a>>,
    /// The lines of the `wgmma` that its matrix instructions stand for, once they were asked for.
    pub(super) matrices: OnceLock<FastMap<Pc, Line>>,
    /// Lines whose live values are asked for.
    at: &'a [Line],
    live_values: bool,
    has_16_byte_words: bool,
}

/// What the report says of a stretch of code.
#[derive(Default)]
pub(super) struct CodeFacts {
    pub instructions: Instructions,
    pub pressure: Option<Pressure>,
    pub live_at: Vec<LiveAt>,
    pub loops: Option<Vec<LoopFacts>>,
    pub lines: Vec<LineFacts>,
    pub source_lines: Vec<SourceFacts>,
    /// The lines of what is inlined at the one that became most of it.
    pub inlined_lines: Option<InlinedLines>,
    pub unmapped: Vec<Pc>,
    pub spills: Option<Vec<Spill>>,
}

impl<'a> Section<'a> {
    pub fn new(
        image: &Image<'_>,
        lines: &'a LineTable<'a>,
        facts: &'a Facts<'a>,
        place: usize,
        function: &'a cubin::Function<'a>,
    ) -> Self {
        let code = match facts.codes {
            Some(codes) => codes.get(image, place),
            None => Code::analyse(image.arch, function, &Counting::default()).map(Arc::new),
        };
        Section {
            function,
            lines: lines.function(function),
            spills: marked_spills(image, function),
            code,
            bodies: OnceLock::new(),
            matrices: OnceLock::new(),
            module: facts.module,
            at: facts.at,
            live_values: facts.wanted.live_values,
            has_16_byte_words: image.arch.sm >= 70,
        }
    }

    /// The PTX line of an instruction, as ptxas counts lines.
    pub fn ptx_line(&self, pc: Pc) -> Option<Line> {
        self.lines.as_ref()?.ptx_line(pc)
    }

    /// Accounts for every instruction of the ranges. `spilled` are the bytes stored and loaded that ptxas reports.
    pub fn facts(&self, ranges: &[Range<Pc>], spilled: Option<(u64, u64)>) -> CodeFacts {
        if !self.has_16_byte_words {
            return CodeFacts::default();
        }
        let spills = self.spills(ranges, spilled);
        let mut placed: Vec<(Line, Pc)> = Vec::new();
        let mut owned: Vec<(OwnLine, Pc)> = Vec::new();
        let mut unmapped = Vec::new();
        let (mut total, mut padding, mut unknown) = (0, 0, 0);
        let mut lines = self.lines.as_ref().map(FunctionLines::along);
        for pc in pcs(ranges) {
            work::tick();
            let (line, own) = lines.as_mut().map_or((None, None), |lines| lines.at(pc));
            total += 1;
            match line {
                Some(line) => placed.push((line, pc)),
                None => unmapped.push(pc),
            }
            owned.extend(own.map(|own| (own, pc)));
            if let Some(code) = &self.code {
                match code.kind(pc) {
                    WordKind::Padding => padding += 1,
                    WordKind::Unknown => unknown += 1,
                    WordKind::Known => {}
                }
            }
        }
        let (with_ptx_line, with_source_line) = (placed.len() as u64, owned.len() as u64);
        placed.sort_unstable();
        owned.sort_unstable();
        // Where one is neither store nor refill, neither can be counted.
        let told = spills.as_deref().filter(|spills| spills.iter().all(|spill| spill.kind.is_some()));
        let lines: Vec<LineFacts> =
            placed.chunk_by(|a, b| a.0 == b.0).map(|group| self.line_facts(group, told)).collect();
        let source_lines = self.source_lines(&owned, told);
        let inlined_lines = self.inlined_lines(&owned, told);
        let pressure = self.code.as_ref().map(|code| self.pressure(code, ranges));
        let instructions = Instructions {
            total: Some(total),
            decoded: self.code.as_ref().map(|_| total - padding - unknown),
            unknown: self.code.as_ref().map(|_| unknown),
            padding: self.code.as_ref().map(|_| padding),
            with_ptx_line: self.lines.as_ref().map(|_| with_ptx_line),
            with_source_line: self.lines.as_ref().map(|_| with_source_line),
        };
        let moved: Vec<Pc> = spills.iter().flatten().map(|spill| spill.pc).collect();
        let live_at = self.code.as_ref().map(|code| self.live_at(code, &lines, &moved)).unwrap_or_default();
        let loops = self.code.as_ref().map(|code| self.loops(code, ranges, spills.as_deref()));
        CodeFacts { instructions, pressure, live_at, loops, lines, source_lines, inlined_lines, unmapped, spills }
    }

    /// Who holds registers at the peak, where that is asked for: it takes longer than all other facts.
    pub fn live_at_peak(&self, pressure: Option<&Pressure>, spills: Option<&[Spill]>) -> Option<Vec<LiveValue>> {
        let code = self.code.as_ref()?;
        let pc = pressure?.gpr.pc.filter(|_| self.live_values)?;
        let moved: Vec<Pc> = spills.iter().copied().flatten().map(|spill| spill.pc).collect();
        Some(self.live_values(code, pc, &moved))
    }

    fn line_facts(&self, group: &[(Line, Pc)], spills: Option<&[Spill]>) -> LineFacts {
        LineFacts {
            ptx_line: group[0].0,
            pcs: group.iter().map(|(_, pc)| *pc).collect(),
            padding: self.padding_of(group),
            live_gpr_max: self.live_most(group),
            spill_stores: spills_of(group, spills, SpillKind::Store),
            spill_loads: spills_of(group, spills, SpillKind::Refill),
        }
    }

    /// What became of each line of the function's own source, by file and line.
    fn source_lines(&self, owned: &[(OwnLine, Pc)], spills: Option<&[Spill]>) -> Vec<SourceFacts> {
        let Some(lines) = &self.lines else { return Vec::new() };
        let groups = || owned.chunk_by(|a, b| a.0 == b.0).filter_map(|group| Some((group.first()?.0, group)));
        // A long name that a hostile table gives to every line would fill memory.
        let names: usize = groups().map(|(own, _)| lines.file_of(own).len()).sum();
        if names > LONGEST_NAMES + owned.len() * NAME_BYTES {
            return Vec::new();
        }
        let facts = |(own, group): (OwnLine, &[(OwnLine, Pc)])| {
            let all = u32::try_from(group.len()).unwrap_or(u32::MAX);
            SourceFacts {
                file: lines.file_of(own).to_owned(),
                line: own.line,
                instructions: all.saturating_sub(self.padding_of(group)),
                live_gpr_max: self.live_most(group),
                spill_stores: spills_of(group, spills, SpillKind::Store),
                spill_loads: spills_of(group, spills, SpillKind::Refill),
            }
        };
        // A line of nothing but padding is none.
        let mut found: Vec<SourceFacts> = groups().map(facts).filter(|facts| facts.instructions > 0).collect();
        found.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        found
    }

    /// Goes down the calls that are inlined, as long as one line has more than half of all instructions: a kernel that does nothing but call
    /// something has one line for everything.
    fn inlined_lines(&self, owned: &[(OwnLine, Pc)], spills: Option<&[Spill]>) -> Option<InlinedLines> {
        let lines = self.lines.as_ref()?;
        let most = |group: &[(OwnLine, Pc)]| {
            let groups = group.chunk_by(|a, b| a.0 == b.0).max_by_key(|group| group.len());
            groups.filter(|group| group.len() * 2 > owned.len()).map(<[_]>::to_vec)
        };
        let mut group = most(owned)?;
        for depth in 1..DEEPEST {
            let below: Vec<(OwnLine, Pc)> = group
                .iter()
                .filter_map(|(_, pc)| {
                    work::tick();
                    lines.chain(*pc).get(depth).map(|line| (*line, *pc))
                })
                .collect();
            let (called, _) = *group.first()?;
            // What the line itself became is no call.
            if below.len() * 2 <= owned.len() {
                return None;
            }
            let mut below = below;
            below.sort_unstable();
            match most(&below) {
                Some(inner) if inner.iter().any(|(_, pc)| lines.chain(*pc).len() > depth + 1) => group = inner,
                _ => {
                    let called_at = CallLine { file: lines.file_of(called).to_owned(), line: called.line };
                    let lines = self.source_lines(&below, spills);
                    return (!lines.is_empty()).then_some(InlinedLines { called_at, lines });
                }
            }
        }
        None
    }

    fn padding_of<L>(&self, group: &[(L, Pc)]) -> u32 {
        self.code.as_ref().map_or(0, |code| {
            let fills = |(_, pc): &&(L, Pc)| code.kind(*pc) == WordKind::Padding;
            u32::try_from(group.iter().filter(fills).count()).unwrap_or(u32::MAX)
        })
    }

    fn live_most<L>(&self, group: &[(L, Pc)]) -> Option<u32> {
        let code = self.code.as_ref()?;
        Some(group.iter().map(|(_, pc)| code.occupied(*pc, RegFile::Gpr)).max().unwrap_or(0))
    }

    fn pressure(&self, code: &Code, ranges: &[Range<Pc>]) -> Pressure {
        let peak = |file| {
            let found = code.peak(ranges, file);
            let pc = found.pc.filter(|_| found.registers > 0);
            self.peak(found.registers, pc)
        };
        let gpr = peak(RegFile::Gpr);
        let highest_register = code.highest_register(ranges);
        let gap = highest_register.map(|highest| self.gap(code, ranges, gpr.peak, highest)).unwrap_or_default();
        Pressure {
            exact: code.exact(ranges),
            gpr,
            pred: peak(RegFile::Pred),
            ugpr: peak(RegFile::Ugpr),
            upred: peak(RegFile::Upred),
            highest_register,
            gap,
            profile: code.profile(ranges, PROFILE_SAMPLES),
        }
    }

    fn peak(&self, peak: u32, pc: Option<Pc>) -> Peak {
        Peak {
            peak,
            pc,
            ptx_line: pc.and_then(|pc| self.ptx_line(pc)),
            source_line: pc.and_then(|pc| self.source_line(pc)),
        }
    }

    /// What is known to make ptxas allocate more registers than are ever live.
    fn gap(&self, code: &Code, ranges: &[Range<Pc>], live: u32, highest: u16) -> Vec<String> {
        let Some(allocated) = self.function.resources.registers.filter(|&n| n > live) else { return Vec::new() };
        let named = u32::from(highest) + 1;
        let mut causes = Vec::new();
        let inner = self.function.parts.iter().map(|part| part.start..part.end);
        let called = Some(code).filter(|_| self.is_kernel(ranges) && code.calls_out(ranges));
        let called = called.and_then(|code| code.highest_register(&inner.collect::<Vec<_>>()));
        if let Some(called) = called.filter(|called| *called >= highest && named > live) {
            causes.push(format!(
                "that is its own code; the functions that it calls use R0 to R{called}, and have figures of their own"
            ));
        } else if named > live {
            let free = named - live;
            let hold = if free == 1 { "holds" } else { "hold" };
            causes.push(format!(
                "its instructions use R0 to R{highest}, of which {free} {hold} no live value there: values of several \
                 registers need aligned neighbours, which leaves gaps"
            ));
        }
        if allocated > named {
            let rest = allocated - named;
            causes.push(if code.named("USETMAXREG", ranges).next().is_some() {
                format!("a block is launched with {rest} more registers for each thread, which setmaxnreg hands to other warps")
            } else if code.calls_out(ranges) {
                format!("{rest} more registers are for the functions that it calls")
            } else {
                format!("no instruction uses {rest} more: ptxas keeps some for itself, and allocates in groups of eight")
            });
        }
        causes
    }

    /// What is alive at the lines that were asked about.
    fn live_at(&self, code: &Code, lines: &[LineFacts], spills: &[Pc]) -> Vec<LiveAt> {
        let at = self.at.iter().filter_map(|line| {
            let facts = lines.binary_search_by_key(line, |facts| facts.ptx_line).ok().and_then(|i| lines.get(i))?;
            let pc =
                facts.pcs.iter().copied().max_by_key(|&pc| (code.occupied(pc, RegFile::Gpr), std::cmp::Reverse(pc)))?;
            let live_gpr = code.occupied(pc, RegFile::Gpr);
            Some(LiveAt { ptx_line: *line, pc, live_gpr, values: self.live_values(code, pc, spills) })
        });
        at.collect()
    }

    /// The loops of the ranges.
    fn loops(&self, code: &Code, ranges: &[Range<Pc>], spills: Option<&[Spill]>) -> Vec<LoopFacts> {
        let bodies = self.bodies.get_or_init(|| {
            let mut bodies: Vec<(LoopId, LoopBody)> = (0..).map(LoopId).zip(code.loop_bodies()).collect();
            bodies.sort_by_key(|(id, body)| (body.start, body.depth, *id));
            bodies
        });
        let of = |range: &Range<Pc>| {
            let before = |end: Pc| bodies.partition_point(|(_, body)| body.start < end);
            bodies.get(before(range.start)..before(range.end)).unwrap_or(&[])
        };
        let inside: Vec<&(LoopId, LoopBody)> = ranges.iter().flat_map(of).collect();
        let spilling = spills.map(|spills| {
            let wanted: FastSet<LoopId> = inside.iter().map(|(id, _)| *id).collect();
            code.count_in_loops(spills.iter().map(|spill| spill.pc), |id| wanted.contains(&id))
        });
        let facts = inside.into_iter().map(|(id, body)| LoopFacts {
            pc: body.start,
            ptx_line: self.ptx_line(body.start),
            depth: body.depth,
            instructions: body.instructions,
            gpr: self.peak(body.peak.registers, body.peak.pc),
            spills: spilling.as_ref().map(|spilling| spilling.get(id).copied().unwrap_or(0)),
        });
        facts.collect()
    }

    /// The front end's line of an instruction.
    pub(super) fn source_line(&self, pc: Pc) -> Option<SourceLine> {
        let source = self.lines.as_ref()?.source_at(pc)?;
        let call = source.inlined_at.last().map(|call| CallLine { file: call.file.to_owned(), line: call.line });
        Some(SourceLine { file: source.file.to_owned(), line: source.line, called_at: call })
    }

    /// Whether the ranges are a kernel's own code, not that of a device function.
    fn is_kernel(&self, ranges: &[Range<Pc>]) -> bool {
        self.function.kind == cubin::FunctionKind::Entry && ranges.first().is_some_and(|range| range.start == Pc(0))
    }

    /// The spill stores and refills, ascending; none when they cannot be told from other local memory.
    fn spills(&self, ranges: &[Range<Pc>], spilled: Option<(u64, u64)>) -> Option<Vec<Spill>> {
        let found =
            spills::find(self.code.as_deref(), ranges, self.spills.as_deref(), self.is_kernel(ranges), spilled)?;
        let mut walks = MAX_WALKS;
        let spill = |access: spills::SpillAccess| {
            let pc = access.pc;
            let value = self.code.as_ref().and_then(|code| spills::spilled_value(code, &access, &mut walks));
            Spill {
                pc,
                kind: access.is_store.map(|store| if store { SpillKind::Store } else { SpillKind::Refill }),
                bytes: access.bytes,
                ptx_line: self.ptx_line(pc),
                slot: access.slot,
                value_ptx_line: value.and_then(|pc| self.ptx_line(pc)),
                basis: match access.basis {
                    Basis::Marked => "marked",
                    Basis::Inferred => "inferred",
                }
                .to_owned(),
                loop_depth: self.code.as_ref().map(|code| code.cfg.loop_depth(code.loops(), pc)),
                role: None,
            }
        };
        Some(found.into_iter().map(spill).collect())
    }
}

/// Spilled values of a function that are looked for beyond the block of the spill: each costs a walk over the code.
const MAX_WALKS: u32 = 256;

/// How many of some instructions are spills of a kind; none where spills cannot be told.
fn spills_of<L>(group: &[(L, Pc)], spills: Option<&[Spill]>, kind: SpillKind) -> Option<u32> {
    let spills = spills?;
    let is = |pc: &Pc| {
        let at = spills.binary_search_by_key(pc, |spill| spill.pc).ok()?;
        spills.get(at).filter(|spill| spill.kind == Some(kind))
    };
    u32::try_from(group.iter().filter(|(_, pc)| is(pc).is_some()).count()).ok()
}

/// The code of a section that belongs to the function itself, not to one placed inside its section.
pub(super) fn own_ranges(function: &cubin::Function<'_>) -> Vec<Range<Pc>> {
    let mut own = Vec::new();
    let mut at = Pc(0);
    for part in &function.parts {
        if at < part.start {
            own.push(at..part.start);
        }
        at = at.max(part.end);
    }
    own.push(at..Pc(u32::try_from(function.code.len()).unwrap_or(u32::MAX)));
    own
}

/// The spill stores and refills that the cubin marks, ascending; none when nothing tells whether its ptxas marks any.
/// ptxas 12.8 and later do.
pub(super) fn marked_spills(image: &Image<'_>, function: &cubin::Function<'_>) -> Option<Vec<Pc>> {
    let marks = image.abi == Abi::V8 || image.toolkit.version.is_some_and(|version| version >= (12, 8));
    let mut pcs = match &function.spills {
        Some(pcs) => pcs.clone(),
        None if marks => Vec::new(),
        None => return None,
    };
    pcs.sort_unstable();
    pcs.dedup();
    Some(pcs)
}
