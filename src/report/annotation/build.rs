//! From a cubin and its PTX to an annotation.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::*;
use crate::base::{Arch, FastSet, RegFile, work};
use crate::cost::{self, L1_LATENCY, Machine, Model};
use crate::cubin::lines::{FunctionLines, LineTable};
use crate::cubin::{Function, Image};
use crate::ptx::{FunctionKind, Module};
use crate::registers::budget::budgets;
use crate::registers::code::{Code, Codes, Counting, WordKind};
use crate::registers::occupancy::{self, register_table};
use crate::registers::origins::{Origin, Origins, Place};
use crate::registers::value_spans::value_spans;
use crate::report::code::marked_spills;
use crate::report::makers::Makers;
use crate::report::model::Kernel;
use crate::report::wavefronts::Accesses;
use crate::report::{LaunchHints, timeline};
use crate::sass::{Decoder, Inst, Word};

/// What an annotation is made of.
pub struct Inputs<'a> {
    /// The cubin.
    pub image: &'a Image<'a>,
    /// Its line table.
    pub lines: &'a LineTable<'a>,
    /// Its code, where somebody else needs it, too: solved once.
    pub codes: Option<&'a Codes>,
    /// The PTX it was compiled from; none for a cubin that was read.
    pub module: Option<&'a Module<'a>>,
    /// The report's kernels, for figures that are the report's to tell.
    pub kernels: &'a [Kernel],
    /// Whether a section is wanted, by its name.
    pub wanted: &'a (dyn Fn(&str) -> bool + Sync),
    /// What the user says of the launch.
    pub launch: LaunchHints,
    /// Whether who holds which register is to be worked out, and barriers are to be drawn.
    pub values: bool,
}

/// Annotates every wanted section.
pub fn annotate(inputs: &Inputs<'_>) -> Annotation {
    let all = inputs.image.functions.iter().enumerate();
    let (places, functions): (Vec<usize>, Vec<&Function<'_>>) =
        all.filter(|(_, function)| (inputs.wanted)(&function.name)).unzip();
    let (texts, text_of) = texts(inputs, &functions);
    let parsed: Vec<Module<'_>>;
    // Embedded PTX is parsed for the lines of its functions alone.
    let modules: Vec<&Module<'_>> = match inputs.module {
        Some(module) => vec![module],
        None => {
            parsed = texts.iter().map(|text| crate::ptx::parse(text.text())).collect();
            parsed.iter().collect()
        }
    };
    let mut reports: HashMap<&str, &Kernel> = HashMap::new();
    for kernel in inputs.kernels.iter().filter(|kernel| kernel.within.is_none()) {
        reports.entry(&kernel.name).or_insert(kernel);
    }
    let deadline = work::deadline();
    let sections: Vec<(AnnotatedKernel, Vec<String>)> = functions
        .par_iter()
        .zip(text_of.par_iter())
        .zip(places.par_iter())
        .map(|((function, text), place)| {
            let module = text.and_then(|text| modules.get(text).copied());
            let report = reports.get(&*function.name).copied();
            work::under(&deadline, || section(inputs, (*place, function), report, *text, module))
        })
        .collect();
    let mut annotation = Annotation { texts, ..Annotation::default() };
    let mut numbers: HashMap<String, u32> = HashMap::new();
    for (mut kernel, files) in sections {
        let own: Vec<u32> = files
            .into_iter()
            .map(|file| {
                *numbers.entry(file).or_insert_with_key(|file| {
                    annotation.files.push(file.clone());
                    u32::try_from(annotation.files.len() - 1).unwrap_or(u32::MAX)
                })
            })
            .collect();
        for instruction in &mut kernel.instructions {
            instruction.source = instruction.source.and_then(|(file, line)| Some((*own.get(file as usize)?, line)));
        }
        annotation.kernels.push(kernel);
    }
    annotation.sources = vec![Err(Missing::NotFound); annotation.files.len()];
    annotation
}

/// The texts, and which of them each function's lines count in.
fn texts(inputs: &Inputs<'_>, functions: &[&Function<'_>]) -> (Vec<PtxText>, Vec<Option<usize>>) {
    if let Some(module) = inputs.module {
        return (vec![PtxText::new(module.text().to_owned())], vec![Some(0); functions.len()]);
    }
    let mut texts: Vec<crate::cubin::lines::PtxText<'_>> = Vec::new();
    let mut of_function = Vec::with_capacity(functions.len());
    for function in functions {
        let text = inputs.lines.function(function).and_then(|lines| lines.ptx_text());
        of_function.push(text.map(|text| {
            texts.iter().position(|known| *known == text).unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            })
        }));
    }
    let owned =
        |text: &crate::cubin::lines::PtxText<'_>| PtxText::new(String::from_utf8_lossy(&text.to_bytes()).into_owned());
    (texts.iter().map(owned).collect(), of_function)
}

/// One section, with the names of the files its sources index.
fn section(
    inputs: &Inputs<'_>,
    (place, function): (usize, &Function<'_>),
    report: Option<&Kernel>,
    text: Option<usize>,
    module: Option<&Module<'_>>,
) -> (AnnotatedKernel, Vec<String>) {
    let image = inputs.image;
    let text_function = module.and_then(|module| module.function(&function.name));
    let mut kernel = AnnotatedKernel {
        name: function.name.to_string(),
        text,
        span: text_function.map(|function| function.lines()),
        layouts: text_function
            .filter(|_| inputs.values)
            .map(|function| Layouts::of(&function, function.module()))
            .unwrap_or_default(),
        registers: function.resources.registers,
        steps: report.map(|report| steps(inputs, report)).unwrap_or_default(),
        timeline: match report.filter(|report| report.barriers.is_some()) {
            // It was executed for its findings.
            Some(report) => report.timeline.clone(),
            None if inputs.values => drawn(inputs, &function.name, module),
            None => None,
        },
        ..AnnotatedKernel::default()
    };
    for part in function.parts.iter().filter(|part| part.end > part.start) {
        kernel.parts.push(AnnotatedPart { name: part.callee().to_owned(), start: part.start, end: part.end });
    }
    if image.arch.sm < 70 {
        return (kernel, Vec::new());
    }
    let code = match inputs.codes {
        Some(codes) => codes.get(image, place),
        None => Code::analyse(image.arch, function, &Counting::default()).map(Arc::new),
    };
    let mut reader = Reader {
        decoder: Decoder::new(image.arch),
        lines: inputs.lines.function(function),
        spills: marked_spills(image, function).unwrap_or_default(),
        module,
        code: code.as_deref(),
        files: HashMap::new(),
        names: Vec::new(),
    };
    let words = function.code.as_chunks::<16>().0;
    let instruction = |(index, bytes): (usize, &[u8; 16])| {
        work::tick();
        reader.instruction(index, u128::from_le_bytes(*bytes))
    };
    kernel.instructions = words.iter().enumerate().map(instruction).collect();
    if let Some(code) = &code {
        solve(&mut kernel, code, inputs.values);
        time(&mut kernel, code, image.arch, report);
        if let Some(module) = module {
            kernel.makers = makers(&kernel, code, function, module, &reader.spills);
            kernel.names = names(&kernel, module);
        }
    }
    (kernel, reader.names)
}

/// The timeline of a kernel, where there is something to draw.
fn drawn(inputs: &Inputs<'_>, name: &str, module: Option<&Module<'_>>) -> Option<Box<Timeline>> {
    let function = module?.function(name).filter(|function| function.kind() == FunctionKind::Entry)?;
    timeline::timeline(&function, &inputs.launch, timeline::STEPS).ok().map(Box::new)
}

/// Adds what control flow and liveness tell.
fn solve(kernel: &mut AnnotatedKernel, code: &Code, values: bool) {
    let changes: Vec<(Pc, Option<u32>)> = kernel
        .instructions
        .iter()
        .filter_map(|instruction| {
            instruction.marks.iter().find_map(|mark| match mark {
                Mark::Setmaxnreg { registers } => Some((instruction.pc, *registers)),
                _ => None,
            })
        })
        .collect();
    for (instruction, budget) in kernel.instructions.iter_mut().zip(budgets(code, &changes)) {
        instruction.budget = budget;
    }
    kernel.exact = Some(code.cfg.exact());
    let whole = Pc(0)..Pc(u32::try_from(kernel.instructions.len()).unwrap_or(u32::MAX / 16).saturating_mul(16));
    let peak = code.peak(std::slice::from_ref(&whole), RegFile::Gpr);
    kernel.peak = peak.pc.filter(|_| peak.registers > 0);
    if let Some(pc) = kernel.peak {
        kernel.mark(pc, Mark::Peak { registers: peak.registers });
    }
    kernel.loops = loops(code);
    for span in kernel.loops.clone() {
        kernel.mark(span.header, Mark::Loop { depth: span.depth });
    }
    if values {
        kernel.values = value_spans(code);
    }
}

/// Adds when each instruction issues, where somebody measured the architecture.
fn time(kernel: &mut AnnotatedKernel, code: &Code, arch: Arch, report: Option<&Kernel>) {
    let Some(machine) = Machine::of(arch, L1_LATENCY) else { return };
    let entries: Vec<Pc> = std::iter::once(Pc(0)).chain(kernel.parts.iter().map(|part| part.start)).collect();
    let line = |pc: Pc| kernel.instructions.get(pc.0 as usize / 16)?.ptx_line;
    let shared = Accesses::new(code, line, report.and_then(|report| report.accesses.as_ref()));
    let model = Model { machine, code, wavefronts: &shared.wavefronts };
    for (at, issue) in cost::schedule(&model, &entries).into_iter().enumerate() {
        let time = issue.map(|cost::Issue { cycle, wait }| {
            let producer = wait.producer.and_then(|pc| kernel.instructions.get(pc.0 as usize / 16));
            IssueTime {
                cycle,
                waited: wait.cycles,
                cause: wait.cause.into(),
                for_pc: wait.producer,
                for_ptx_line: producer.and_then(|producer| producer.ptx_line),
            }
        });
        if let Some(instruction) = kernel.instructions.get_mut(at) {
            instruction.issue = time;
        }
    }
}

impl AnnotatedKernel {
    fn mark(&mut self, pc: Pc, mark: Mark) {
        if let Some(instruction) = self.instructions.get_mut(pc.0 as usize / 16) {
            instruction.marks.insert(0, mark);
        }
    }
}

/// The instructions that fill live registers.
fn definitions(kernel: &AnnotatedKernel) -> impl Iterator<Item = Pc> {
    kernel.values.iter().flatten().filter_map(|span| span.definition)
}

/// The instructions that put into a register what another line made, with that line: copies, refills, accumulators that are zeroed, and matrix
/// instructions, whose line is that of a statement nearby. No line where that cannot be told.
fn makers(
    kernel: &AnnotatedKernel,
    code: &Code,
    function: &Function<'_>,
    module: &Module<'_>,
    spills: &[Pc],
) -> Vec<(Pc, Option<Line>)> {
    let mut filled: Vec<(Pc, u16)> =
        kernel.values.iter().flatten().filter_map(|span| Some((span.definition?, span.register))).collect();
    filled.sort_unstable();
    filled.dedup();
    let origins = Origins::new(code, spills);
    let matrices = std::sync::OnceLock::new();
    let makers = Makers { code, module: Some(module), function, matrices: &matrices };
    let line_of = |pc: Pc| kernel.instructions.get(pc.0 as usize / 16)?.ptx_line;
    let mut found: Vec<(Pc, Option<Line>)> = Vec::new();
    for (pc, register) in filled {
        work::tick();
        let place = Place { file: RegFile::Gpr, index: register };
        let Some(line) = maker(&makers, &origins, &line_of, pc, place) else { continue };
        match found.last_mut().filter(|(last, _)| *last == pc) {
            Some((_, known)) => *known = known.filter(|known| Some(*known) == line),
            None => found.push((pc, line)),
        }
    }
    found
}

/// The line that made what an instruction puts into a register, where it is not the instruction's own.
fn maker(
    makers: &Makers<'_>,
    origins: &Origins<'_>,
    line_of: &dyn Fn(Pc) -> Option<Line>,
    pc: Pc,
    place: Place,
) -> Option<Option<Line>> {
    let from = origins.of_definitions(place, &[pc]);
    let result = |pc, place| makers.result(origins, pc, place, line_of);
    if let [Origin::Made(made, at)] = from[..] {
        let line = result(made, at);
        let is_own = made == pc && !origins.is_warpgroup_matrix(pc) && (line.is_none() || line == line_of(pc));
        return (!is_own).then_some(line);
    }
    if from.iter().all(|origin| matches!(origin, Origin::Constant(_))) {
        let reads = origins.reads_after(Pc(pc.0 + 16), place).unwrap_or_default();
        let uses = origins.uses(place, &reads);
        let added = uses.at.iter().find(|(at, place)| origins.accumulates(*at, *place));
        return match added {
            Some((at, _)) => Some(result(*at, place)),
            None => {
                let line = line_of(pc);
                let is_move = line.is_some_and(|line| makers.instructions(line).any(|found| found.mnemonic() == "mov"));
                (!is_move).then_some(None)
            }
        };
    }
    let mut lines: Vec<Option<Line>> =
        from.iter().map(|origin| origin.made().and_then(|(pc, place)| result(pc, place))).collect();
    lines.dedup();
    Some(if let [line] = lines[..] { line } else { None })
}

/// What the lines that fill live registers define.
fn names(kernel: &AnnotatedKernel, module: &Module<'_>) -> Vec<(Line, Vec<String>)> {
    let mut lines: Vec<Line> =
        definitions(kernel).filter_map(|pc| kernel.instructions.get(pc.0 as usize / 16)?.ptx_line).collect();
    lines.extend(kernel.makers.iter().filter_map(|(_, line)| *line));
    lines.sort_unstable();
    lines.dedup();
    let defined = |line: Line| {
        let mut names: Vec<String> = Vec::new();
        let mut known: FastSet<&str> = FastSet::default();
        for instruction in module.statements_at(line).iter().filter_map(|found| found.instruction(module.text())) {
            for name in instruction.names().filter(|name| name.is_def) {
                if known.insert(name.name) {
                    names.push(name.name.to_owned());
                }
            }
        }
        (line, names)
    };
    lines.into_iter().map(defined).filter(|(_, names)| !names.is_empty()).collect()
}

fn loops(code: &Code) -> Vec<LoopSpan> {
    let start = |block: crate::graph::BlockId| code.cfg.blocks.get(block.0 as usize).map_or(0, |block| block.start);
    let mut spans: Vec<LoopSpan> = code
        .loops()
        .loops
        .iter()
        .map(|found| {
            let header = Pc(start(found.header) * 16);
            LoopSpan { header, first: header, last: header, depth: found.depth }
        })
        .collect();
    for (number, block) in code.cfg.blocks.iter().enumerate() {
        let inner = code.loops().of(crate::graph::BlockId(u32::try_from(number).unwrap_or(u32::MAX)));
        if let Some(span) = inner.and_then(|id| spans.get_mut(id.0 as usize)) {
            span.first = span.first.min(Pc(block.start * 16));
            span.last = span.last.max(Pc(block.end.saturating_sub(1) * 16));
        }
    }
    for id in code.loops().inner_first() {
        let own = spans.get(id.0 as usize).map(|span| (span.first, span.last));
        let around = code.loops().parent(id).and_then(|id| spans.get_mut(id.0 as usize));
        if let (Some((first, last)), Some(around)) = (own, around) {
            around.first = around.first.min(first);
            around.last = around.last.max(last);
        }
    }
    spans
}

/// The most registers that allow each number of blocks.
fn steps(inputs: &Inputs<'_>, kernel: &Kernel) -> Vec<OccupancyStep> {
    // A figure that is not known could overturn each of them.
    let Some(found) = kernel.occupancy.as_ref().filter(|found| found.missing.is_empty()) else { return Vec::new() };
    let cluster = kernel.launch.cluster.and_then(|[x, y, z]| x.checked_mul(y)?.checked_mul(z)).unwrap_or(1);
    let launch = occupancy::Launch {
        threads: found.threads.unwrap_or(0),
        registers: kernel.resources.registers.unwrap_or(0),
        smem_static: kernel.resources.smem_bytes.unwrap_or(0),
        smem_dynamic: found.smem_dynamic_bytes.unwrap_or(0),
        barriers: kernel.resources.barriers.unwrap_or(0),
        cluster,
        tmem_columns: found.tmem_columns.unwrap_or(0),
        ..occupancy::Launch::default()
    };
    let table = register_table(inputs.image.arch, &launch).unwrap_or_default();
    table
        .iter()
        .filter(|range| range.blocks_per_sm > 0)
        .map(|range| OccupancyStep { registers: range.to, blocks_per_sm: range.blocks_per_sm })
        .collect()
}

struct Reader<'a> {
    decoder: Option<Decoder>,
    lines: Option<FunctionLines<'a>>,
    spills: Vec<Pc>,
    module: Option<&'a Module<'a>>,
    code: Option<&'a Code>,
    files: HashMap<&'a str, u32>,
    names: Vec<String>,
}

impl<'a> Reader<'a> {
    fn instruction(&mut self, index: usize, word: u128) -> AnnotatedInstruction {
        let pc = Pc(u32::try_from(index).unwrap_or(u32::MAX / 16).saturating_mul(16));
        let halves = Word { lo: word as u64, hi: (word >> 64) as u64 };
        let decoded = self.decoder.map(|decoder| (decoder, decoder.decode(halves)));
        let known = decoded.as_ref().filter(|(_, instruction)| !instruction.is_unknown());
        let text = known.map(|(decoder, instruction)| {
            let mut text = String::new();
            decoder.text(instruction, pc, &mut text);
            text
        });
        let mut marks = Vec::new();
        if let Some((decoder, instruction)) = known {
            marks.extend(self.mark(pc, decoder, instruction, text.as_deref().unwrap_or_default()));
        } else {
            marks.extend(self.is_spill(pc).then_some(Mark::Spill));
            marks.extend(decoded.as_ref().map(|_| Mark::Unknown));
        }
        let target = known.and_then(|(decoder, instruction)| decoder.target(instruction, pc));
        AnnotatedInstruction {
            pc,
            word,
            live: self.code.map(|code| LiveCounts {
                gpr: code.occupied(pc, RegFile::Gpr),
                pred: code.occupied(pc, RegFile::Pred),
                ugpr: code.occupied(pc, RegFile::Ugpr),
                upred: code.occupied(pc, RegFile::Upred),
            }),
            ptx_line: self.ptx_line(pc),
            source: self.source(pc),
            loop_depth: self.code.map(|code| code.cfg.loop_depth(code.loops(), pc)),
            is_padding: self.code.is_some_and(|code| code.kind(pc) == WordKind::Padding),
            budget: None,
            target: target.and_then(|target| u32::try_from(target).ok()).map(Pc),
            text,
            marks,
            issue: None,
        }
    }

    fn is_spill(&self, pc: Pc) -> bool {
        self.spills.binary_search(&pc).is_ok()
    }

    /// What is special about a known instruction.
    fn mark(&self, pc: Pc, decoder: &Decoder, instruction: &Inst, text: &str) -> Option<Mark> {
        let mnemonic = decoder.mnemonic(instruction);
        match mnemonic {
            _ if self.is_spill(pc) => Some(match mnemonic {
                "STL" => Mark::SpillStore { bytes: local_bytes(text) },
                "LDL" => Mark::SpillRefill { bytes: local_bytes(text) },
                _ => Mark::Spill,
            }),
            "USETMAXREG" => Some(Mark::Setmaxnreg { registers: last_number(text) }),
            "BAR" | "BARRIER" => Some(Mark::Barrier { what: "named" }),
            "SYNCS" => Some(Mark::Barrier { what: "mbarrier" }),
            "UCGABAR_ARV" | "UCGABAR_WAIT" | "UCGABAR_GET" => Some(Mark::Barrier { what: "cluster" }),
            _ => None,
        }
    }

    /// The line of the text that ptxas's number stands for.
    fn ptx_line(&self, pc: Pc) -> Option<Line> {
        let number = self.lines.as_ref()?.ptx_line(pc)?;
        match self.module {
            Some(module) if !module.line_markers().is_empty() => module.lines_numbered(number).next(),
            _ => Some(number),
        }
    }

    fn source(&mut self, pc: Pc) -> Option<(u32, Line)> {
        let lines = self.lines?;
        if !lines.has_source(pc) {
            return None;
        }
        let position = lines.source_at(pc)?;
        let names = &mut self.names;
        let file = *self.files.entry(position.file).or_insert_with(|| {
            names.push(position.file.to_owned());
            u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
        });
        Some((file, position.line))
    }
}

/// How much a local load or store moves, by its modifiers.
fn local_bytes(text: &str) -> Option<u32> {
    let opcode = text.split(' ').find(|word| word.starts_with("STL") || word.starts_with("LDL"))?;
    for modifier in opcode.split('.').skip(1) {
        match modifier {
            "U8" | "S8" => return Some(1),
            "U16" | "S16" => return Some(2),
            "64" => return Some(8),
            "128" => return Some(16),
            _ => {}
        }
    }
    Some(4)
}

/// The last operand, where it is a number.
fn last_number(text: &str) -> Option<u32> {
    let word = text.rsplit([' ', ',']).next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
