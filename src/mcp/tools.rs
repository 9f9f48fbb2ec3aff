//! The tools: what each takes, and how its answer is put together.

use std::cmp::Reverse;
use std::sync::Arc;

use rmcp::model::{JsonObject, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, TOKENS, tokens};
use super::arguments::{Failure, Words, lines, options, parse, source};
use crate::base::Arch;
use crate::compare::{Difference, KernelDifference};
use crate::emit::diff;
use crate::emit::escape::terminal;
use crate::emit::explain;
use crate::emit::occupancy as calculator;
use crate::emit::text::{brief, is_plain_addition, write_title};
use crate::facade::plain;
use crate::registers::occupancy::{SmemMode, register_table};
use crate::{AnnotateOptions, Annotated, By, Kernel, LaunchConfig, Line, Options, Report, Unit};

/// What comes back: text, or why there is none.
type Answered = Result<String, Failure>;

/// A tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The arguments that must be there.
    required: &'static [&'static str],
    arguments: fn() -> Value,
    /// What it does.
    pub call: fn(JsonObject) -> Answered,
}

impl Tool {
    /// As an agent is told of it.
    pub fn described(&self) -> rmcp::model::Tool {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), (self.arguments)());
        schema.insert("required".to_owned(), json!(self.required));
        schema.insert("additionalProperties".to_owned(), json!(false));
        let hints = ToolAnnotations::with_title(self.title).read_only(true).idempotent(true).open_world(false);
        rmcp::model::Tool::new(self.name, self.description, Arc::new(schema)).with_annotations(hints)
    }
}

/// What `skip` says.
const PASSED_OVER: &str = "Kernels to pass over: those that earlier answers showed";
/// What `path` says.
const INPUT: &str = "PTX, cubin, or anything that holds them";
/// What `smem_dynamic` says.
const DYNAMIC: &str = "Bytes of shared memory asked for at launch";

/// All of them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "inspect",
        title: "Inspect GPU kernels",
        description: "Compile PTX, or read a cubin, library, wheel or folder, and report each kernel, worst first: registers and what capped \
                      them, spills, live registers, occupancy, warp roles, barriers that hang, messages of ptxas. Give `kernel` for the details of one.",
        required: &["path"],
        arguments: || {
            with_common(json!({
                "path": path(INPUT),
                "threads": number(1, "Threads of a block, where the kernel does not say; for the occupancy"),
                "smem_dynamic": number(0, DYNAMIC),
                "skip": number(0, PASSED_OVER),
            }))
        },
        call: |arguments| inspect(parse(arguments)?),
    },
    Tool {
        name: "annotate",
        title: "PTX lines with the SASS they became",
        description: "PTX (or source) lines with the SASS each became: live registers, spills, loops, barriers. Without `lines` only the hot ones: \
                      near the peak of live registers, or spilling.",
        required: &["path"],
        arguments: || {
            with_common(json!({
                "path": path(INPUT),
                "lines": {"type": "string", "description": "Which lines, both ends included: 140..160, 140.., or 150"},
                "hot": {"type": "boolean", "description": "Only hot lines; true where no lines are given"},
                "by": {"enum": ["ptx", "source"], "description": "Lines of the PTX (default) or of the front end's source files"},
            }))
        },
        call: |arguments| annotate(parse(arguments)?),
    },
    Tool {
        name: "diff",
        title: "Compare two builds",
        description: "What a change did, the kernels that got worse first: figures before and after, lines where live registers or spills moved, code. \
                      Two files; or one PTX (`before` alone) built in two ways: two of `arch` or `ptxas`, or `after_flags`.",
        required: &["before"],
        arguments: || {
            with_common(json!({
                "before": path("PTX, cubin, library or JSON report"),
                "after": path("the same after the change"),
                "after_flags": {"type": "array", "items": {"type": "string"}, "description": "Flags for ptxas on the second side alone"},
                "skip": number(0, PASSED_OVER),
            }))
        },
        call: |arguments| compare(parse(arguments)?),
    },
    Tool {
        name: "occupancy",
        title: "Occupancy calculator",
        description: "How many blocks of a launch an SM holds, what limits that, how many registers or bytes fewer gain a block and how many more lose one.",
        required: &["arch", "registers", "threads"],
        arguments: || {
            json!({
                "arch": {"type": "string", "description": "sm_90a"},
                "registers": number(0, "Registers a thread"),
                "threads": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "Threads of a block"},
                "smem": number(0, "Bytes of static shared memory"),
                "smem_dynamic": number(0, DYNAMIC),
                "barriers": number(0, "Named barriers"),
                "cluster": number(1, "Blocks of a cluster"),
                "tmem_columns": number(0, "Columns of tensor memory that a block allocates"),
            })
        },
        call: |arguments| occupancy(parse(arguments)?),
    },
    Tool {
        name: "explain",
        title: "What a code means",
        description: "What a code of ptxas (C7508) or of a finding (PI203) means and what to do about it; without `code`, all there are.",
        required: &[],
        arguments: || json!({"code": {"type": "string", "description": "C7508, PI203"}}),
        call: |arguments| page(parse(arguments)?),
    },
];

fn path(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn number(minimum: u32, what: &str) -> Value {
    json!({"type": "integer", "minimum": minimum, "description": what})
}

/// The arguments of everything that may compile, and these.
fn with_common(own: Value) -> Value {
    let mut all = json!({
        "arch": {"type": "string", "description": "Architecture to compile PTX for or to choose from a library: sm_90a; several with commas"},
        "ptxas": {"type": "string", "description": "Version of ptxas, such as 13.4; the one at hand where none is given"},
        "flags": {"type": "array", "items": {"type": "string"}, "description": "Flags for ptxas that name no file, such as -O1"},
        "kernel": {"type": "string", "description": "Only kernels whose name matches; * and ? are wildcards"},
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut all, own) {
        all.extend(own);
    }
    all
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspect {
    path: String,
    #[serde(default)]
    arch: Words,
    ptxas: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    kernel: Option<String>,
    threads: Option<u32>,
    smem_dynamic: Option<u64>,
    #[serde(default)]
    skip: usize,
}

fn inspect(asked: Inspect) -> Answered {
    let options = options(asked.arch.list(), asked.ptxas, asked.flags, asked.kernel)?;
    let options = Options { threads: asked.threads, smem_dynamic_bytes: asked.smem_dynamic, ..options };
    Ok(told(&crate::inspect(&source(&asked.path)?, &options)?, asked.skip))
}

/// Kernels, worst first; of the only one everything there is room for.
fn told(report: &Report, skip: usize) -> String {
    let mut kernels: Vec<(&Unit, &Kernel)> =
        report.units.iter().flat_map(|unit| unit.kernels.iter().map(move |kernel| (unit, kernel))).collect();
    kernels.retain(|(_, kernel)| !is_plain_addition(kernel));
    kernels.sort_by_key(|(unit, kernel)| Reverse(brief::Badness::of(kernel, unit)));
    let bad = kernels.iter().filter(|(unit, kernel)| brief::Badness::of(kernel, unit).is_bad()).count();
    let mut answer = Answer::new();
    if let [unit] = &report.units[..] {
        answer.add(&plain(|out| write_title(unit, &brief::OPTIONS, out)));
    }
    if kernels.len() != 1 {
        answer.add(&format!("{} kernels, worst first; {bad} with findings, warnings or spills\n", kernels.len()));
    }
    for unit in &report.units {
        let remarks = plain(|out| brief::write_remarks(unit, out));
        let mut lines = remarks.lines();
        for line in lines.by_ref().take(3) {
            answer.add(&format!("{line}\n"));
        }
        let more = lines.count();
        if more > 0 {
            answer.add(&format!("  and {more} more remarks on {}\n", terminal(&unit.input)));
        }
    }
    let mut shown = 0;
    for (unit, kernel) in kernels.iter().skip(skip) {
        let of = match &report.units[..] {
            [_] => String::new(),
            _ => plain(|out| write_title(unit, &brief::OPTIONS, out)),
        };
        let essence = plain(|out| brief::write_essence(kernel, unit, out));
        if !answer.add(&format!("\n{of}{essence}")) {
            break;
        }
        shown += 1;
    }
    let mut closing = String::new();
    if let [(unit, kernel)] = kernels[..] {
        if shown == 0 && skip == 0 {
            answer.add_lines(&plain(|out| brief::write_essence(kernel, unit, out)));
        }
        let mut missing = Vec::new();
        for (name, part) in brief::DETAILS {
            if !answer.add(&plain(|out| part(kernel, unit, out))) {
                missing.push(*name);
            }
        }
        if !missing.is_empty() {
            closing = format!("\nLeft out for length: {}. ", missing.join(", "));
        }
        closing.push_str("\nNext: annotate with the lines above; explain with a code.\n");
    } else {
        let rest = kernels.len().saturating_sub(skip + shown);
        if rest > 0 {
            closing = format!("\nLeft out: {rest} more kernels; skip={} shows the next. ", skip + shown);
        }
        if !kernels.is_empty() {
            closing.push_str("\nkernel=NAME shows the details of one.\n");
        }
    }
    answer.close(&closing)
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Lines {
    Ptx,
    Source,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotate {
    path: String,
    #[serde(default)]
    arch: Words,
    ptxas: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    kernel: Option<String>,
    lines: Option<String>,
    hot: Option<bool>,
    by: Option<Lines>,
}

/// Columns of an annotation: what does not fit is cut.
const COLUMNS: usize = 120;
/// The same, of the calculator, whose tables are no wider.
const CALCULATOR_WIDTH: usize = 80;

fn annotate(asked: Annotate) -> Answered {
    let only_functions = asked.kernel.is_some();
    let options = options(asked.arch.list(), asked.ptxas, asked.flags, asked.kernel)?;
    let range = asked.lines.as_deref().map(lines).transpose()?;
    let annotated = crate::annotate(&source(&asked.path)?, &options, None)?;
    let by = if matches!(asked.by, Some(Lines::Source)) { By::Source } else { By::Ptx };
    let (from, to) = range.unwrap_or((1, u32::MAX));
    let hot = asked.hot.unwrap_or(range.is_none());
    let shown = AnnotateOptions {
        lines: None,
        only_hot: hot,
        control: false,
        cycles: false,
        width: Some(COLUMNS),
        only_functions,
    };
    let text = |to: u32| {
        let shown = AnnotateOptions { lines: Some((Line(from), Line(to))), ..shown.clone() };
        annotated.to_text(by, &shown)
    };
    let last = to.min(last_line(&annotated, by)).max(from);
    let fits = |to: u32| Some(text(to)).filter(|text| tokens(text) <= TOKENS * 9 / 10);
    if last - from < FIRST_LINES
        && let Some(text) = fits(last)
    {
        return Ok(text);
    }
    // The most lines that fit: first ever more, then between the last that did and the first that did not.
    let mut best = None;
    let (mut low, mut high) = (from, last);
    let mut step = FIRST_LINES / 2;
    while low <= high {
        let to = low.saturating_add(step).min(high);
        match fits(to) {
            Some(text) if to == last => return Ok(text),
            Some(text) => {
                best = Some((to, text));
                low = to + 1;
                step = step.saturating_mul(2);
            }
            None if to == low => break,
            None => {
                high = to - 1;
                step = (to - low) / 2;
            }
        }
    }
    let mut answer = Answer::new();
    Ok(match best {
        Some((to, text)) => {
            answer.add_lines(&text);
            let (lines, again) = if hot { ("hot lines", " with hot=true") } else { ("lines", "") };
            answer.close(&format!(
                "\nThese are the {lines} up to {to}; lines=\"{}..{last}\"{again} shows what follows.\n",
                to + 1
            ))
        }
        None => {
            let left_out = answer.add_lines(&text(from));
            let advice = match annotated.units.iter().map(|(unit, _)| unit.kernels.len()).sum::<usize>() {
                0..20 => "the command `ptxinspect annotate` shows all of them",
                _ => "name a kernel",
            };
            answer.close(&format!(
                "\nLeft out: {left_out} rows of line {from}, which is too long for one answer; {advice}.\n"
            ))
        }
    })
}

/// Lines that are tried first.
const FIRST_LINES: u32 = 64;

/// The last line that there is something to say of.
fn last_line(annotated: &Annotated, by: By) -> u32 {
    let views = annotated.units.iter().map(|(_, annotation)| annotation.view(by));
    let last = views.flat_map(|view| {
        let of = |document| {
            let text = document_lines(document);
            view.groups(document).map(|group| group.line.0).max().unwrap_or(0).max(text)
        };
        view.documents.iter().map(of).collect::<Vec<u32>>()
    });
    last.max().unwrap_or(1).max(1)
}

fn document_lines(document: &crate::report::annotation::Document<'_>) -> u32 {
    document.text.map_or(0, |text| text.line_count())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    before: String,
    after: Option<String>,
    #[serde(default)]
    arch: Words,
    #[serde(default)]
    ptxas: Words,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    after_flags: Vec<String>,
    kernel: Option<String>,
    #[serde(default)]
    skip: usize,
}

fn compare(asked: Compare) -> Answered {
    let (arch, ptxas) = (asked.arch.list(), asked.ptxas.list());
    for (name, list) in [("arch", &arch), ("ptxas", &ptxas)] {
        if list.len() > 2 {
            return Err(Failure::input(format!("{name} names {}: expected one for both sides, or two", list.len())));
        }
    }
    if asked.after.is_none() && arch.len() < 2 && ptxas.len() < 2 && asked.after_flags.is_empty() {
        return Err(Failure::input(format!(
            "there is nothing to compare {} with: give after, or two of arch or ptxas, or after_flags",
            asked.before
        )));
    }
    let side = |list: &[String], at: usize| list.get(at).or(list.first()).cloned();
    let of = |at: usize, flags: Vec<String>| -> Result<Options, Failure> {
        let made = options(side(&arch, at).into_iter().collect(), side(&ptxas, at), flags, asked.kernel.clone())?;
        Ok(Options { cache: true, ..made })
    };
    let after_flags = asked.flags.iter().chain(&asked.after_flags).cloned().collect();
    let (before, after) = (of(0, asked.flags.clone())?, of(1, after_flags)?);
    let after_path = asked.after.as_ref().unwrap_or(&asked.before);
    let found = crate::diff((&source(&asked.before)?, &before), (&source(after_path)?, &after))?;
    Ok(compared(&found, asked.skip))
}

/// Figures whose growth hurts, the worst first; of the occupancy it is the loss.
const HURTS: &[&str] = &[
    "resources.spill_store_bytes",
    "resources.spill_load_bytes",
    "occupancy.warps_per_sm",
    "resources.registers",
    "pressure.gpr.peak",
    "instructions.total",
];

/// By how much each of [`HURTS`] got worse.
fn worse(kernel: &KernelDifference) -> Vec<i64> {
    let gained = |field: &&str| {
        let change = kernel.fields.iter().find(|change| change.field == **field);
        let gained =
            change.map_or(0, |change| change.after.as_i64().unwrap_or(0) - change.before.as_i64().unwrap_or(0));
        if field.starts_with("occupancy") { -gained } else { gained }
    };
    HURTS.iter().map(gained).collect()
}

fn compared(difference: &Difference, skip: usize) -> String {
    /// Lines and changes of code for a kernel, where there is one and where there are several.
    const TOP: (usize, usize) = (40, 4);
    /// Pairs of inputs that are named.
    const PAIRS: usize = 3;
    let mut kernels: Vec<_> = difference.units.iter().flat_map(|unit| &unit.kernels).collect();
    let all = kernels.len();
    kernels.retain(|kernel| !kernel.is_empty());
    kernels.sort_by_key(|kernel| Reverse(worse(kernel)));
    let differ = kernels.len();
    let mut answer = Answer::new();
    for unit in difference.units.iter().take(PAIRS) {
        answer.add_lines(&plain(|out| diff::write_title(unit, usize::MAX, out)));
    }
    if difference.units.len() > PAIRS {
        answer.add(&format!("and {} more pairs of inputs\n", difference.units.len() - PAIRS));
    }
    answer.add(&format!("{differ} of {all} kernels differ{}\n", if differ > 1 { ", worst first" } else { "" }));
    let text = |kernel: &KernelDifference, top| {
        let options = diff::Options { top, width: COLUMNS, more: "kernel=NAME" };
        plain(|out| diff::write_kernel(kernel, &options, out))
    };
    if let ([kernel], 0) = (&kernels[..], skip) {
        let left_out = answer.add_lines(&text(kernel, TOP.0));
        return answer.close(&match left_out {
            0 => String::new(),
            _ => format!("\nLeft out: {left_out} more rows; the command `ptxinspect diff` shows all of them.\n"),
        });
    }
    let mut shown = 0;
    for kernel in kernels.iter().skip(skip) {
        // Fewer lines of it before none of it; the first is there in any case.
        if ![TOP.1, 1, 0].into_iter().any(|top| answer.add(&text(kernel, top))) {
            if shown > 0 {
                break;
            }
            answer.add_lines(&text(kernel, 0));
        }
        shown += 1;
    }
    let rest = differ.saturating_sub(skip + shown);
    answer.close(&match rest {
        0 => String::new(),
        _ => format!("\nLeft out: {rest} more kernels that differ; skip={} shows the next.\n", skip + shown),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    arch: String,
    registers: u32,
    threads: u32,
    #[serde(default)]
    smem: u64,
    #[serde(default)]
    smem_dynamic: u64,
    #[serde(default)]
    barriers: u32,
    #[serde(default = "one")]
    cluster: u32,
    #[serde(default)]
    tmem_columns: u32,
}

fn one() -> u32 {
    1
}

fn occupancy(asked: Launch) -> Answered {
    let launch = LaunchConfig {
        registers: asked.registers,
        threads: asked.threads,
        smem_static: asked.smem,
        smem_dynamic: asked.smem_dynamic,
        barriers: asked.barriers,
        cluster: asked.cluster,
        tmem_columns: asked.tmem_columns,
        smem_mode: SmemMode::default(),
        carveout: None,
    };
    let found = crate::occupancy(&asked.arch, &launch)?;
    let arch: Arch = asked.arch.trim().parse().map_err(|error| Failure::input(format!("{error}")))?;
    let table = register_table(arch, &launch).map_err(|error| Failure::input(error.to_string()))?;
    let answers = [calculator::Answer { arch, occupancy: found, table }];
    let mut answer = Answer::new();
    let left_out = answer.add_lines(&plain(|out| calculator::write_text(&launch, &answers, CALCULATOR_WIDTH, out)));
    Ok(answer.close(&if left_out > 0 { format!("\nLeft out: {left_out} rows of the table.\n") } else { String::new() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explain {
    code: Option<String>,
}

fn page(asked: Explain) -> Answered {
    let text = match &asked.code {
        None => explain::titles().map(|title| format!("{title}\n")).collect(),
        Some(code) => match explain::page(code) {
            Some(page) => page.to_owned(),
            None => {
                return Err(Failure::input(format!(
                    "there is no page for '{code}': call explain without a code for those there are"
                )));
            }
        },
    };
    let mut answer = Answer::new();
    let left_out = answer.add_lines(&text);
    Ok(answer.close(&if left_out > 0 { format!("\nLeft out: {left_out} more lines.\n") } else { String::new() }))
}
