//! What the code of a function says: every instruction accounted for, its line, the live registers, the spills.

use std::ops::Range;

use super::model::*;
use crate::analysis::code::{Code, Counting, WordKind, Words, pcs};
use crate::analysis::live_set::live_set;
use crate::base::{Line, Pc, RegFile};
use crate::cubin::lines::{FunctionLines, LineTable};
use crate::cubin::{self, Abi, Image};
use crate::ptx::Module;

/// How many figures a pressure profile has at most.
const PROFILE_SAMPLES: usize = 64;

/// One code section and everything known about it.
pub(super) struct Section<'a> {
    /// Whose section it is.
    pub function: &'a cubin::Function<'a>,
    lines: Option<FunctionLines<'a>>,
    spills: Option<Vec<Pc>>,
    words: Option<Words>,
    code: Option<Code>,
    module: Option<&'a Module<'a>>,
    has_16_byte_words: bool,
}

/// What the report says of a stretch of code.
#[derive(Default)]
pub(super) struct CodeFacts {
    pub instructions: Instructions,
    pub pressure: Option<Pressure>,
    pub live_at_peak: Option<Vec<LiveValue>>,
    pub lines: Vec<LineFacts>,
    pub unmapped: Vec<Pc>,
    pub spills: Option<Vec<Spill>>,
}

impl<'a> Section<'a> {
    pub fn new(
        image: &Image<'_>,
        lines: &'a LineTable<'a>,
        module: Option<&'a Module<'a>>,
        function: &'a cubin::Function<'a>,
    ) -> Self {
        Section {
            function,
            lines: lines.function(function),
            spills: marked_spills(image, function),
            words: Words::decode(image.arch, function),
            code: Code::analyse(image.arch, function, &Counting::default()),
            module,
            has_16_byte_words: image.arch.sm >= 70,
        }
    }

    fn ptx_line(&self, pc: Pc) -> Option<Line> {
        self.lines.as_ref()?.ptx_line(pc)
    }

    /// Accounts for every instruction of the ranges.
    pub fn facts(&self, ranges: &[Range<Pc>]) -> CodeFacts {
        if !self.has_16_byte_words {
            return CodeFacts::default();
        }
        let spills = self.spills(ranges);
        let mut placed: Vec<(Line, Pc)> = Vec::new();
        let mut unmapped = Vec::new();
        let mut with_source_line = 0;
        let (mut total, mut padding, mut unknown) = (0, 0, 0);
        for pc in pcs(ranges) {
            total += 1;
            match self.ptx_line(pc) {
                Some(line) => placed.push((line, pc)),
                None => unmapped.push(pc),
            }
            with_source_line += u64::from(self.lines.as_ref().is_some_and(|lines| lines.has_source(pc)));
            if let Some(words) = &self.words {
                match words.of(pc) {
                    WordKind::Padding => padding += 1,
                    WordKind::Unknown => unknown += 1,
                    WordKind::Known => {}
                }
            }
        }
        let with_ptx_line = placed.len() as u64;
        placed.sort_unstable();
        let lines = placed.chunk_by(|a, b| a.0 == b.0).map(|group| self.line_facts(group, spills.as_deref())).collect();
        let pressure = self.code.as_ref().map(|code| self.pressure(code, ranges));
        let instructions = Instructions {
            total: Some(total),
            decoded: self.words.as_ref().map(|_| total - padding - unknown),
            unknown: self.words.as_ref().map(|_| unknown),
            padding: self.words.as_ref().map(|_| padding),
            with_ptx_line: self.lines.as_ref().map(|_| with_ptx_line),
            with_source_line: self.lines.as_ref().map(|_| with_source_line),
        };
        let live_at_peak = self.code.as_ref().zip(pressure.as_ref()).and_then(|(code, pressure)| {
            let pc = pressure.gpr.pc?;
            Some(self.live_values(code, pc))
        });
        CodeFacts { instructions, pressure, live_at_peak, lines, unmapped, spills }
    }

    fn line_facts(&self, group: &[(Line, Pc)], spills: Option<&[Spill]>) -> LineFacts {
        let of_kind = |kind: SpillKind| {
            let spills = spills?;
            let is = |pc: &Pc| {
                let at = spills.binary_search_by_key(pc, |spill| spill.pc).ok()?;
                spills.get(at).filter(|spill| spill.kind == Some(kind))
            };
            u32::try_from(group.iter().filter(|(_, pc)| is(pc).is_some()).count()).ok()
        };
        let kinds_known = spills.is_some_and(|spills| spills.iter().all(|spill| spill.kind.is_some()));
        LineFacts {
            ptx_line: group[0].0,
            pcs: group.iter().map(|(_, pc)| *pc).collect(),
            padding: self.words.as_ref().map_or(0, |words| {
                let fills = |(_, pc): &&(Line, Pc)| words.of(*pc) == WordKind::Padding;
                u32::try_from(group.iter().filter(fills).count()).unwrap_or(u32::MAX)
            }),
            live_gpr_max: self
                .code
                .as_ref()
                .map(|code| group.iter().map(|(_, pc)| code.occupied(*pc, RegFile::Gpr)).max().unwrap_or(0)),
            spill_stores: of_kind(SpillKind::Store).filter(|_| kinds_known),
            spill_loads: of_kind(SpillKind::Refill).filter(|_| kinds_known),
        }
    }

    fn pressure(&self, code: &Code, ranges: &[Range<Pc>]) -> Pressure {
        let peak = |file| {
            let found = code.peak(ranges, file);
            let pc = found.pc.filter(|_| found.registers > 0);
            Peak { peak: found.registers, pc, ptx_line: pc.and_then(|pc| self.ptx_line(pc)) }
        };
        Pressure {
            exact: code.exact(ranges),
            gpr: peak(RegFile::Gpr),
            pred: peak(RegFile::Pred),
            ugpr: peak(RegFile::Ugpr),
            upred: peak(RegFile::Upred),
            profile: code.profile(ranges, PROFILE_SAMPLES),
        }
    }

    /// The live registers at an instruction, grouped by the PTX line that filled them.
    fn live_values(&self, code: &Code, pc: Pc) -> Vec<LiveValue> {
        let values = live_set(code, pc, &|pc| self.ptx_line(pc));
        let value = |value: crate::analysis::live_set::Value| LiveValue {
            ptx_line: value.defined_at,
            virtual_registers: value.defined_at.map(|line| self.virtual_registers(line)).unwrap_or_default(),
            source_line: value.definition.and_then(|pc| self.source_line(pc)),
            last_use_ptx_line: value.last_use.and_then(|pc| self.ptx_line(pc)),
            registers: value.registers,
        };
        values.into_iter().map(value).collect()
    }

    fn source_line(&self, pc: Pc) -> Option<SourceLine> {
        let source = self.lines.as_ref()?.source_at(pc)?;
        Some(SourceLine { file: source.file.to_owned(), line: source.line })
    }

    /// The PTX registers that the statements of a line define.
    fn virtual_registers(&self, line: Line) -> Vec<String> {
        let Some(module) = self.module else { return Vec::new() };
        let statements = module.lines_numbered(line).flat_map(|line| module.statements_at(line));
        let mut names: Vec<String> = Vec::new();
        for instruction in statements.filter_map(|statement| statement.instruction(module.text())) {
            for name in instruction.names().filter(|name| name.is_def) {
                if !names.iter().any(|known| known == name.name) {
                    names.push(name.name.to_owned());
                }
            }
        }
        names
    }

    /// The spills the cubin marks, ascending; none when nothing tells whether this ptxas marks them.
    fn spills(&self, ranges: &[Range<Pc>]) -> Option<Vec<Spill>> {
        let within = |pc: &Pc| {
            let at = ranges.partition_point(|range| range.start <= *pc);
            at.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|range| range.contains(pc))
        };
        let spill = |pc: Pc| {
            let access = self.code.as_ref().and_then(|code| code.local_access(pc));
            Spill {
                pc,
                kind: access.map(|access| if access.is_store { SpillKind::Store } else { SpillKind::Refill }),
                bytes: access.map(|access| access.bytes),
                ptx_line: self.ptx_line(pc),
                loop_depth: self.code.as_ref().map(|code| code.loops.depth_at(&code.cfg, pc)),
                role: None,
            }
        };
        Some(self.spills.as_ref()?.iter().copied().filter(within).map(spill).collect())
    }
}

/// The code of a section that belongs to the function itself, not to one placed inside its section.
pub(super) fn own_ranges(function: &cubin::Function<'_>) -> Vec<Range<Pc>> {
    let mut own = Vec::new();
    let mut at = Pc(0);
    for part in &function.parts {
        own.push(at..part.start);
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
