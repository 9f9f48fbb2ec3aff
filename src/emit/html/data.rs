//! What the page knows, as JSON: columns instead of records, so that a line of code costs tens of bytes and not hundreds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use serde::Serialize;

use super::library::LibraryFacts;
use super::matrix::MatrixFacts;
use super::{Opening, Tables};
use crate::base::Line;
use crate::base::hardware::SmLimits;
use crate::emit::cost::{accesses, wait_words};
use crate::emit::{explain, matrices, page, timeline};
use crate::report::annotation::{
    AnnotatedInstruction, AnnotatedKernel, Annotation, By, IssueTime, Mark, ValueSpan, View,
};
use crate::report::memory::MemoryMaps;
use crate::report::timeline::Timeline;
use crate::report::{
    Advisory, Answer, Fragment, FragmentsAt, Instructions, Issue, Kernel, KernelKind, Launch, Occupancy, Pressure,
    Problem, PtxText, PtxasUsed, RegisterCap, Resources, Role, Unit, UnitError, WaitCause, distinct, spelt,
};

/// Characters of a kernel's name.
pub(super) const NAME: usize = 110;
/// Lines of source kept around those that became code.
const CONTEXT: u32 = 12;

#[derive(Serialize)]
struct Index<'a> {
    view: &'static str,
    /// Codes that `ptxinspect explain` has a page of.
    explained: BTreeSet<&'a str>,
    units: Vec<UnitFacts<'a>>,
    /// The table of a library, whose functions the units are some of.
    library: Option<LibraryFacts>,
    /// The tables of a matrix, whose cells the units are some of.
    matrix: Option<MatrixFacts>,
}

#[derive(Serialize)]
struct UnitFacts<'a> {
    input: &'a str,
    arch: Option<&'a str>,
    ptxas: Option<&'a PtxasUsed>,
    made_by: Option<&'a str>,
    advisories: Vec<Advisory>,
    problems: &'a [Problem],
    error: Option<&'a UnitError>,
    files: &'a [String],
    /// Whether the text of each file is in the page.
    sources: Vec<bool>,
    /// Why it is not.
    missing: Vec<Option<String>>,
    kernels: Vec<KernelFacts<'a>>,
}

#[derive(Serialize)]
struct KernelFacts<'a> {
    name: &'a str,
    demangled: Option<&'a str>,
    /// What tells it from the others of the page, without the rest.
    short: String,
    kind: KernelKind,
    within: Option<&'a str>,
    ptx_line: Option<Line>,
    resources: &'a Resources,
    launch: &'a Launch,
    register_cap: Option<&'a RegisterCap>,
    instructions: &'a Instructions,
    pressure: Option<&'a Pressure>,
    occupancy: Option<&'a Occupancy>,
    memory: Option<&'a MemoryMaps>,
    /// Shared memory that a block can have.
    smem_most: Option<u64>,
    spill_sites: Option<usize>,
    roles: Vec<RoleFacts<'a>>,
    issues: &'a [Issue],
    /// Which of the unit's sections has its code.
    code: Option<usize>,
}

/// A role, by the line where it sets its budget.
#[derive(Serialize)]
struct RoleFacts<'a> {
    name: &'a str,
    line: Option<Line>,
    warps: Option<u32>,
}

/// Writes every script element.
pub(super) fn write(
    units: &[(Unit, Annotation)],
    opening: Opening,
    tables: Tables,
    out: &mut dyn Write,
) -> io::Result<()> {
    let kernels = units.iter().flat_map(|(unit, _)| &unit.kernels);
    let names: Vec<&str> = kernels.map(|kernel| kernel.demangled.as_deref().unwrap_or(&kernel.name)).collect();
    let mut short = distinct(&names, NAME).into_iter();
    let index = Index {
        view: if opening == Opening::Report { "report" } else { "annotate" },
        explained: units
            .iter()
            .flat_map(|(unit, _)| codes(unit))
            .filter(|code| explain::page(code).is_some())
            .collect(),
        units: units.iter().map(|(unit, annotation)| unit_facts(unit, annotation, &mut short)).collect(),
        library: tables.library,
        matrix: tables.matrix,
    };
    page::data("index", &index, out)?;
    for (number, (unit, annotation)) in units.iter().enumerate() {
        for (text, ptx) in annotation.texts.iter().enumerate() {
            page::data(&format!("ptx-{number}-{text}"), ptx.text().trim_end_matches(['\0', '\n']), out)?;
        }
        let used = used_lines(annotation);
        for (file, text) in annotation.sources.iter().enumerate() {
            if let Ok(text) = text {
                let lines = used.get(&file).map(Vec::as_slice).unwrap_or_default();
                page::data(&format!("src-{number}-{file}"), &excerpt(text, lines), out)?;
            }
        }
        let view = annotation.view(By::Ptx);
        let near = neighbours(&view);
        // Of a name that is there twice, the first.
        let whole = unit.kernels.iter().rev().filter(|kernel| kernel.within.is_none());
        let reports: HashMap<&str, &Kernel> = whole.map(|kernel| (kernel.name.as_str(), kernel)).collect();
        for (kernel, (code, near)) in annotation.kernels.iter().zip(near).enumerate() {
            let report = reports.get(code.name.as_str()).copied();
            page::data(&format!("code-{number}-{kernel}"), &code_facts(code, report, near), out)?;
            if let Some(drawn) = &code.timeline {
                page::data(&format!("timeline-{number}-{kernel}"), &timeline_facts(drawn), out)?;
            }
        }
    }
    Ok(())
}

/// The codes of everything that was found.
fn codes(unit: &Unit) -> impl Iterator<Item = &str> {
    let issues = unit.kernels.iter().filter_map(|kernel| kernel.barriers.as_ref()).flat_map(|found| &found.issues);
    let said = unit.advisories.iter().filter_map(|advisory| advisory.code.as_deref());
    said.chain(issues.map(|issue| issue.code.as_str()))
}

fn unit_facts<'a>(
    unit: &'a Unit,
    annotation: &'a Annotation,
    short: &mut impl Iterator<Item = String>,
) -> UnitFacts<'a> {
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, kernel) in annotation.kernels.iter().enumerate() {
        codes.entry(&kernel.name).or_insert(number);
    }
    let role = |role: &'a Role| RoleFacts { name: &role.name, line: role.entry_ptx_line, warps: role.warps };
    let mut kernel = |kernel: &'a Kernel| KernelFacts {
        name: &kernel.name,
        demangled: kernel.demangled.as_deref(),
        short: short.next().unwrap_or_else(|| kernel.name.clone()),
        kind: kernel.kind,
        within: kernel.within.as_deref(),
        ptx_line: kernel.ptx_line,
        resources: &kernel.resources,
        launch: &kernel.launch,
        register_cap: kernel.register_cap.as_ref(),
        instructions: &kernel.instructions,
        pressure: kernel.pressure.as_ref(),
        occupancy: kernel.occupancy.as_ref(),
        memory: kernel.memory.as_ref(),
        smem_most: unit
            .arch
            .as_deref()
            .and_then(|arch| SmLimits::of(arch.parse().ok()?))
            .map(SmLimits::smem_per_block_bytes),
        spill_sites: kernel.spills.as_ref().map(Vec::len),
        roles: kernel.roles.iter().flatten().map(role).collect(),
        issues: kernel.barriers.as_ref().map_or(&[], |barriers| &barriers.issues),
        code: codes.get(kernel.within.as_deref().unwrap_or(&kernel.name)).copied(),
    };
    UnitFacts {
        input: &unit.input,
        arch: unit.arch.as_deref(),
        ptxas: unit.ptxas.as_ref(),
        made_by: unit.cubin.as_ref().and_then(|cubin| cubin.made_by.as_deref()),
        advisories: unit.advisories.iter().map(spelt_out).collect(),
        problems: &unit.problems,
        error: unit.error.as_ref(),
        files: &annotation.files,
        sources: annotation.sources.iter().map(Result::is_ok).collect(),
        missing: annotation.sources.iter().map(|source| source.as_ref().err().map(ToString::to_string)).collect(),
        kernels: unit.kernels.iter().map(&mut kernel).collect(),
    }
}

/// What ptxas said, with names as their language spells them.
fn spelt_out(advisory: &Advisory) -> Advisory {
    Advisory { message: spelt(&advisory.message).into_owned(), ..advisory.clone() }
}

/// The source lines that became code, by file.
fn used_lines(annotation: &Annotation) -> BTreeMap<usize, Vec<u32>> {
    let mut used: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (file, line) in
        annotation.kernels.iter().flat_map(|kernel| &kernel.instructions).filter_map(|instruction| instruction.source)
    {
        used.entry(file as usize).or_default().push(line.0);
    }
    for lines in used.values_mut() {
        lines.sort_unstable();
        lines.dedup();
    }
    used
}

/// The lines around those that are used, each with its number and a tab before it.
fn excerpt(text: &PtxText, used: &[u32]) -> String {
    let mut excerpt = String::new();
    let mut next = 1;
    for line in used {
        let (from, to) = (line.saturating_sub(CONTEXT).max(next), line.saturating_add(CONTEXT).min(text.line_count()));
        for line in from..=to {
            let raw = text.raw_line(Line(line)).unwrap_or_default();
            excerpt += &format!("{line}\t{}\n", raw.trim_end_matches(['\r', '\n', '\0']));
        }
        next = next.max(to.saturating_add(1));
    }
    if excerpt.ends_with('\n') {
        excerpt.pop();
    }
    excerpt
}

/// For each section, the instructions that stand under a line that is not theirs, with that line.
fn neighbours(view: &View<'_>) -> Vec<Vec<u32>> {
    let mut near = vec![Vec::new(); view.annotation.kernels.len()];
    for document in &view.documents {
        for placed in view.groups(document).flat_map(|group| group.members).filter(|placed| !placed.is_own) {
            if let Some(list) = near.get_mut(placed.kernel as usize) {
                list.extend([placed.instruction, placed.line.0]);
            }
        }
    }
    near
}

/// The barriers of a kernel, executed.
#[derive(Serialize)]
struct TimelineFacts {
    /// What executing them says.
    verdict: String,
    /// Whether that is worth a look at once.
    bad: bool,
    /// The picture, in the page's colours.
    svg: String,
}

fn timeline_facts(drawn: &Timeline) -> TimelineFacts {
    TimelineFacts {
        verdict: timeline::verdict(drawn),
        bad: !matches!(drawn.verdict, Answer::Ends | Answer::Undecided),
        svg: timeline::panel(drawn),
    }
}

/// One section's code. Columns have one entry an instruction; instructions are numbers, 16 bytes each.
#[derive(Serialize)]
struct CodeFacts<'a> {
    text: Option<usize>,
    registers: Option<u32>,
    exact: Option<bool>,
    peak: Option<u32>,
    /// Name, first instruction, after the last.
    parts: Vec<(&'a str, u32, u32)>,
    /// Registers, blocks.
    steps: Vec<(u32, u32)>,
    /// Header, first, last, depth.
    loops: Vec<(u32, u32, u32, u32)>,
    /// All texts, a line each.
    asm: String,
    /// PTX lines, 0 for none.
    line: Vec<u32>,
    /// Instruction and the line it stands under, where that is not its own.
    near: Vec<u32>,
    /// What only fills up the section: from, how many, …
    padding: Vec<u32>,
    /// Source files, -1 for none; null where there is no source at all.
    file: Option<Vec<i64>>,
    /// Source lines.
    at: Option<Vec<u32>>,
    gpr: Option<Vec<u32>>,
    ugpr: Option<Vec<u32>>,
    pred: Option<Vec<u32>>,
    upred: Option<Vec<u32>>,
    /// Loop depth and for how many instructions, over and over.
    depth: Option<Vec<u32>>,
    /// Instruction, budget, where it was set; -1 for what is not known.
    budget: Vec<i64>,
    /// Instruction and where it goes.
    target: Vec<u32>,
    /// Bits 105 to 125 of each word.
    control: Vec<u32>,
    /// When each issues with one warp alone, -1 where nobody can tell; null where nobody measured the architecture.
    cycle: Option<Vec<i64>>,
    /// Cycles since the one before.
    waited: Option<Vec<u32>>,
    /// Of those that wait for longer than a cycle: instruction, which words, whom it waits for or -1.
    waits: Vec<i64>,
    /// What a cause is called, of somebody ({}) and of nobody.
    wait_words: Vec<[String; 2]>,
    marks: Vec<(u32, &'static str, serde_json::Value)>,
    /// Register (as a step from the last), first instruction (as a step), how many more, definition × 2 + whether others, last use.
    values: Option<Vec<i64>>,
    /// Matrix instruction and the line of its `wgmma`.
    makers: Vec<u32>,
    /// PTX registers by the line that fills them.
    names: BTreeMap<u32, String>,
    /// What lines multiply: sentences, and which of them are said of a line.
    sentences: Vec<String>,
    multiplied: BTreeMap<u32, Vec<usize>>,
    /// Which elements registers hold: by kind of instruction, and which kind a line is.
    layouts: Vec<LayoutFacts>,
    layout_of: BTreeMap<u32, usize>,
}

/// Which elements the registers of a kind of instruction hold.
#[derive(Serialize)]
struct LayoutFacts {
    letters: String,
    /// Title, operand, its first register, what each of its registers holds.
    operands: Vec<(String, u32, u32, Vec<String>)>,
}

fn layout_facts(found: &FragmentsAt) -> LayoutFacts {
    let operand = |fragment: &Fragment| {
        let held = fragment.registers.iter().map(|held| matrices::elements(fragment, held)).collect();
        (matrices::title(fragment), fragment.operand_index, fragment.first_register, held)
    };
    LayoutFacts { letters: matrices::letters(found), operands: found.fragments.iter().map(operand).collect() }
}

/// What is said of lines of the PTX: what they multiply, accesses that take more than they must.
fn said(report: &Kernel) -> Vec<(u32, String)> {
    let multiplied = report
        .multiplications
        .iter()
        .flat_map(|found| matrices::multiplication(found).into_iter().map(|sentence| (found.ptx_line.0, sentence)));
    let accesses = report.accesses.iter().flat_map(|facts| &facts.accesses).filter(|access| access.is_worse());
    multiplied.chain(accesses.map(|access| (access.ptx_line.0, accesses::told(access)))).collect()
}

/// Runs of instructions that only fill up the section: from, how many, ….
fn padding(kernel: &AnnotatedKernel) -> Vec<u32> {
    let mut runs: Vec<u32> = Vec::new();
    let mut at = 0u32;
    for run in kernel.instructions.chunk_by(|a, b| a.is_padding == b.is_padding) {
        let count = u32::try_from(run.len()).unwrap_or(u32::MAX);
        if run.first().is_some_and(|first| first.is_padding) {
            runs.extend([at, count]);
        }
        at = at.saturating_add(count);
    }
    runs
}

fn code_facts<'a>(kernel: &'a AnnotatedKernel, report: Option<&Kernel>, near: Vec<u32>) -> CodeFacts<'a> {
    let mut sentences: Vec<String> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut multiplied: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (line, sentence) in report.map(said).unwrap_or_default() {
        let number = *known.entry(sentence).or_insert_with_key(|sentence| {
            sentences.push(sentence.clone());
            sentences.len() - 1
        });
        multiplied.entry(line).or_default().push(number);
    }
    let index = |pc: crate::base::Pc| pc.0 / 16;
    let all = &kernel.instructions;
    let mut asm = String::with_capacity(all.len() * 40);
    for (number, instruction) in all.iter().enumerate() {
        if number > 0 {
            asm.push('\n');
        }
        asm += &instruction.shown();
    }
    let live = |pick: fn(&crate::report::listing::LiveCounts) -> u32| -> Option<Vec<u32>> {
        all.iter().map(|instruction| instruction.live.as_ref().map(pick)).collect()
    };
    let has_source = all.iter().any(|instruction| instruction.source.is_some());
    let source = |instruction: &crate::report::annotation::AnnotatedInstruction| {
        instruction.source.map_or(-1, |(file, _)| i64::from(file))
    };
    let timed = all.iter().any(|instruction| instruction.issue.is_some());
    CodeFacts {
        text: kernel.text,
        registers: kernel.registers,
        exact: kernel.exact,
        peak: kernel.peak.map(index),
        parts: kernel.parts.iter().map(|part| (part.name.as_str(), index(part.start), index(part.end))).collect(),
        steps: kernel.steps.iter().map(|step| (step.registers, step.blocks_per_sm)).collect(),
        loops: kernel
            .loops
            .iter()
            .map(|span| (index(span.header), index(span.first), index(span.last), span.depth))
            .collect(),
        asm,
        line: all.iter().map(|instruction| instruction.ptx_line.map_or(0, |line| line.0)).collect(),
        near,
        padding: padding(kernel),
        file: has_source.then(|| all.iter().map(source).collect()),
        at: has_source
            .then(|| all.iter().map(|instruction| instruction.source.map_or(0, |(_, line)| line.0)).collect()),
        gpr: live(|live| live.gpr).filter(|_| !all.is_empty()),
        ugpr: live(|live| live.ugpr),
        pred: live(|live| live.pred),
        upred: live(|live| live.upred),
        depth: depths(kernel),
        budget: budgets(kernel),
        target: all
            .iter()
            .filter_map(|instruction| Some([index(instruction.pc), index(instruction.target?)]))
            .flatten()
            .collect(),
        control: all.iter().map(|instruction| (instruction.word >> 105) as u32 & 0x1f_ffff).collect(),
        cycle: timed.then(|| {
            let cycle = |issue: &IssueTime| i64::from(issue.cycle);
            all.iter().map(|instruction| instruction.issue.as_ref().map_or(-1, cycle)).collect()
        }),
        waited: timed
            .then(|| all.iter().map(|instruction| instruction.issue.map_or(0, |issue| issue.waited)).collect()),
        waits: all.iter().flat_map(wait_facts).flatten().collect(),
        wait_words: match timed {
            true => WaitCause::ALL.map(|cause| [wait_words(cause, Some("{}")), wait_words(cause, None)]).to_vec(),
            false => Vec::new(),
        },
        marks: all
            .iter()
            .flat_map(|instruction| instruction.marks.iter().map(move |mark| (instruction.pc, mark)))
            .map(|(pc, mark)| {
                let (kind, value) = mark_facts(mark);
                (index(pc), kind, value)
            })
            .collect(),
        values: kernel.values.as_deref().map(value_facts),
        makers: kernel.makers.iter().flat_map(|(pc, line)| [index(*pc), line.map_or(0, |line| line.0)]).collect(),
        names: kernel.names.iter().map(|(line, names)| (line.0, names.join(" "))).collect(),
        sentences,
        multiplied,
        layouts: kernel.layouts.kinds.iter().map(layout_facts).collect(),
        layout_of: kernel.layouts.at.iter().map(|(line, kind)| (line.0, *kind)).collect(),
    }
}

/// Instruction, which words, whom it waits for.
fn wait_facts(instruction: &AnnotatedInstruction) -> Option<[i64; 3]> {
    let issue = instruction.issue.filter(|issue| issue.waited > 1)?;
    let words = WaitCause::ALL.iter().position(|cause| *cause == issue.cause)?;
    let producer = issue.for_pc.map_or(-1, |pc| i64::from(pc.0 / 16));
    Some([i64::from(instruction.pc.0 / 16), words as i64, producer])
}

fn depths(kernel: &AnnotatedKernel) -> Option<Vec<u32>> {
    let depths: Option<Vec<u32>> = kernel.instructions.iter().map(|instruction| instruction.loop_depth).collect();
    let runs = depths?
        .chunk_by(|a, b| a == b)
        .filter_map(|run| Some([(*run.first()?).min(255), u32::try_from(run.len()).ok()?]))
        .flatten()
        .collect();
    Some(runs)
}

fn budgets(kernel: &AnnotatedKernel) -> Vec<i64> {
    let mut runs = Vec::new();
    let mut last = None;
    for (number, instruction) in (0i64..).zip(&kernel.instructions) {
        if instruction.budget != last {
            last = instruction.budget;
            let registers = last.and_then(|budget| budget.registers).map_or(-1, i64::from);
            let set_at = last.and_then(|budget| budget.set_at).map_or(-1, |pc| i64::from(pc.0 / 16));
            runs.extend([number, if last.is_none() { -2 } else { registers }, set_at]);
        }
    }
    runs
}

fn mark_facts(mark: &Mark) -> (&'static str, serde_json::Value) {
    match mark {
        Mark::Peak { registers } => ("peak", (*registers).into()),
        Mark::SpillStore { bytes } => ("spill_store", (*bytes).into()),
        Mark::SpillRefill { bytes } => ("spill_refill", (*bytes).into()),
        Mark::Spill => ("spill", serde_json::Value::Null),
        Mark::Setmaxnreg { registers } => ("setmaxnreg", (*registers).into()),
        Mark::Barrier { what } => ("barrier", (*what).into()),
        Mark::Loop { depth } => ("loop", (*depth).into()),
        Mark::Unknown => ("unknown", serde_json::Value::Null),
    }
}

fn value_facts(spans: &[ValueSpan]) -> Vec<i64> {
    let mut facts = Vec::with_capacity(spans.len() * 5);
    let (mut register, mut from) = (0, 0);
    for span in spans {
        let step = i64::from(span.register) + 1 - register;
        if step > 0 {
            from = 0;
        }
        register += step;
        let first = i64::from(span.from.0 / 16);
        let definition = span.definition.map_or(-1, |pc| i64::from(pc.0 / 16) * 2 + i64::from(span.has_others));
        let last = span.last_use.map_or(-1, |pc| i64::from(pc.0 / 16));
        facts.extend([step, first - from, i64::from(span.to.0 / 16) - first, definition, last]);
        from = first;
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_steps() {
        let span = |register, from: u32, to: u32| ValueSpan {
            register,
            from: crate::base::Pc(from * 16),
            to: crate::base::Pc(to * 16),
            definition: None,
            has_others: false,
            last_use: None,
        };
        let facts = value_facts(&[span(0, 2, 4), span(0, 7, 7), span(3, 1, 9)]);
        assert_eq!(facts, [1, 2, 2, -1, -1, 0, 5, 0, -1, -1, 3, 1, 8, -1, -1]);
    }
}
