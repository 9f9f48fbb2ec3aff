//! The engine as a Python module. Thin: values cross as JSON, and `python/ptxinspect/` gives them their Python form.
//!
//! Every call releases the interpreter's lock while it works. An error becomes one of the exceptions of `ptxinspect._errors`, with the words
//! of the command line and, where there are some, the units it is about.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use ptxinspect::base::{Limits, Line};
use ptxinspect::emit::annotate::Options as AnnotateOptions;
use ptxinspect::engine::cache::told_nobody;
use ptxinspect::engine::progress::install_silently;
use ptxinspect::engine::settings::Within;
use ptxinspect::registers::occupancy::SmemMode;
use ptxinspect::report::SourceFacts;
use ptxinspect::{By, ErrorKind, GateRequest, LaunchConfig, Options, Source};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// What Python says of a job.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    arch: Vec<String>,
    ptxas: Option<String>,
    flags: Vec<String>,
    kernels: Vec<String>,
    threads: Option<u32>,
    smem_dynamic: Option<u64>,
    try_step: bool,
    thorough: bool,
    at: Vec<u32>,
    roles: Vec<(String, u32)>,
    timeout: Option<f64>,
    jobs: Option<usize>,
    cache: bool,
    compile_inside: bool,
}

impl Asked {
    fn options(json: &str) -> PyResult<Options> {
        let asked: Asked = read(json)?;
        Ok(Options {
            arch: asked.arch,
            ptxas: asked.ptxas,
            flags: asked.flags,
            kernels: asked.kernels,
            threads: asked.threads,
            smem_dynamic_bytes: asked.smem_dynamic,
            try_step: asked.try_step,
            thorough: asked.thorough,
            at: asked.at,
            roles: asked.roles,
            timeout: timeout(asked.timeout)?,
            jobs: asked.jobs,
            cache: asked.cache,
            compile_inside: asked.compile_inside,
        })
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn write(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if !(seconds.is_finite() && seconds > 0.0) {
        return Err(PyValueError::new_err(format!("timeout {seconds} is not a time: expected seconds above 0")));
    }
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// A path, or bytes with a name.
#[derive(FromPyObject)]
enum Given {
    Bytes(String, Vec<u8>),
    Path(PathBuf),
}

impl From<Given> for Source {
    fn from(given: Given) -> Source {
        match given {
            Given::Path(path) => Source::Path(path),
            Given::Bytes(name, bytes) => Source::Bytes { name, bytes },
        }
    }
}

/// The exception for an error.
fn raise(py: Python<'_>, error: &ptxinspect::Error) -> PyErr {
    let name = match error.kind() {
        ErrorKind::Toolchain => "ToolchainError",
        ErrorKind::Ptxas => "PtxasError",
        ErrorKind::Cubin => "CubinError",
        ErrorKind::Timeout => "TimeoutError",
        _ => "InputError",
    };
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let units = write(&error.units())?;
        py.import("ptxinspect._errors")?.getattr(name)?.call1((error.to_string(), units))
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

/// A report. It keeps what it was made from, for the page.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Report {
    report: ptxinspect::Report,
    source: Source,
    options: Options,
    /// The options as Python said them.
    asked: String,
    /// Its text, where it was made in another process: the lines that it quotes are there.
    text: Option<String>,
    page: OnceLock<String>,
}

/// What of a report goes to another process: its JSON, its text, what it was made from.
type Sent = (String, String, String, Option<Vec<u8>>, String);

#[pymethods]
impl Report {
    /// As the command line writes it.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.report.to_json())
    }

    /// As the command line writes it, without colours.
    fn to_text(&self, py: Python<'_>) -> String {
        self.text.clone().unwrap_or_else(|| py.detach(|| self.report.to_text()))
    }

    /// What `received` makes the same report of, in any process.
    fn sent(&self, py: Python<'_>) -> PyResult<Sent> {
        let (name, bytes) = match &self.source {
            Source::Bytes { name, bytes } => (name.clone(), Some(bytes.clone())),
            Source::Path(path) => match path.to_str() {
                Some(path) => (path.to_owned(), None),
                None => return Err(PyValueError::new_err("a path that is no text cannot be sent to another process")),
            },
        };
        Ok((write(&self.report)?, self.to_text(py), name, bytes, self.asked.clone()))
    }

    /// The page of its kernels.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(page) = self.page.get() {
            return Ok(page.clone());
        }
        let page = py.detach(|| ptxinspect::annotate(&self.source, &self.options, None).map(|found| found.to_html()));
        let page = page.map_err(|error| raise(py, &error))?;
        Ok(self.page.get_or_init(|| page).clone())
    }

    /// Whether something in it is denied.
    fn denies(&self, py: Python<'_>, deny: Vec<String>, allow: Vec<String>) -> PyResult<bool> {
        self.report.denies(&deny, &allow).map_err(|error| raise(py, &error))
    }

    fn unit_count(&self) -> usize {
        self.report.units.len()
    }

    fn kernel_count(&self, unit: usize) -> usize {
        self.report.units.get(unit).map_or(0, |unit| unit.kernels.len())
    }

    /// A unit without its kernels, as JSON.
    fn unit(&self, unit: usize) -> PyResult<String> {
        let unit = self.report.units.get(unit).ok_or_else(|| PyValueError::new_err("there is no such unit"))?;
        let alone = ptxinspect::Unit {
            input: unit.input.clone(),
            arch: unit.arch.clone(),
            ptxas: unit.ptxas.clone(),
            prepared: unit.prepared.clone(),
            cubin: unit.cubin.clone(),
            recorded_launch: unit.recorded_launch.clone(),
            advisories: unit.advisories.clone(),
            unparsed_log: unit.unparsed_log.clone(),
            problems: unit.problems.clone(),
            error: unit.error.clone(),
            ..ptxinspect::Unit::default()
        };
        write(&alone)
    }

    /// A kernel as JSON.
    fn kernel(&self, unit: usize, kernel: usize) -> PyResult<String> {
        let found = self.report.units.get(unit).and_then(|unit| unit.kernels.get(kernel));
        write(found.ok_or_else(|| PyValueError::new_err("there is no such kernel"))?)
    }

    /// What a table shows of each kernel: one object each, as JSON.
    fn rows(&self) -> PyResult<String> {
        write(&self.report.units.iter().flat_map(rows_of).collect::<Vec<_>>())
    }
}

fn rows_of(unit: &ptxinspect::Unit) -> impl Iterator<Item = Row<'_>> {
    unit.kernels.iter().map(move |kernel| Row::of(unit, kernel))
}

/// A kernel's figures, flat.
#[derive(Serialize)]
struct Row<'a> {
    input: &'a str,
    arch: Option<&'a str>,
    ptxas: Option<&'a str>,
    kernel: &'a str,
    demangled: Option<&'a str>,
    kind: ptxinspect::report::KernelKind,
    registers: Option<u32>,
    peak_live: Option<u32>,
    spill_store_bytes: Option<u64>,
    spill_load_bytes: Option<u64>,
    spill_instructions: Option<usize>,
    spills_in_loops: Option<u32>,
    stack_bytes: Option<u64>,
    smem_bytes: Option<u64>,
    barriers: Option<u32>,
    instructions: Option<u64>,
    code_bytes: u64,
    threads: Option<u32>,
    blocks_per_sm: Option<u32>,
    warps_per_sm: Option<u32>,
    occupancy: Option<f64>,
    limiter: Option<String>,
    findings: usize,
    smem_dynamic_bytes: Option<u64>,
    next_step: Option<u32>,
    advisories: Option<Vec<&'a str>>,
    peak_at: Option<String>,
    spills_at: Option<String>,
    instructions_at: Option<String>,
}

/// Spill instructions in outermost loops, those inside them included; none where they cannot be told.
fn spills_in_loops(kernel: &ptxinspect::Kernel) -> Option<u32> {
    kernel.loops.as_ref()?.iter().filter(|found| found.depth == 1).map(|found| found.spills).sum()
}

/// Codes of what ptxas warned of: of the kernel, or of all.
fn advisories<'a>(unit: &'a ptxinspect::Unit, kernel: &ptxinspect::Kernel) -> Vec<&'a str> {
    let of_kernel = |found: &&ptxinspect::Advisory| found.kernel.as_deref().is_none_or(|name| name == kernel.name);
    unit.advisories.iter().filter(of_kernel).filter_map(|found| found.code.as_deref()).collect()
}

/// `file.py:12`: the kernel's own line, not that of what was inlined into it.
fn own_line(at: &ptxinspect::report::SourceLine) -> String {
    let (file, line) = at.called_at.as_ref().map_or((&at.file, at.line), |call| (&call.file, call.line));
    format!("{file}:{line}")
}

/// The source line that has the most of something; the first of several.
fn most(kernel: &ptxinspect::Kernel, of: impl Fn(&SourceFacts) -> u32) -> Option<String> {
    let found = kernel.source_lines.iter().rev().max_by_key(|facts| of(facts)).filter(|facts| of(facts) > 0)?;
    Some(format!("{}:{}", found.file, found.line))
}

impl<'a> Row<'a> {
    fn of(unit: &'a ptxinspect::Unit, kernel: &'a ptxinspect::Kernel) -> Row<'a> {
        let occupancy = kernel.occupancy.as_ref();
        Row {
            input: &unit.input,
            arch: unit.arch.as_deref(),
            ptxas: unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.as_deref()),
            kernel: &kernel.name,
            demangled: kernel.demangled.as_deref(),
            kind: kernel.kind,
            registers: kernel.resources.registers,
            peak_live: kernel.pressure.as_ref().map(|pressure| pressure.gpr.peak),
            spill_store_bytes: kernel.resources.spill_store_bytes,
            spill_load_bytes: kernel.resources.spill_load_bytes,
            spill_instructions: kernel.spills.as_ref().map(Vec::len),
            spills_in_loops: spills_in_loops(kernel),
            stack_bytes: kernel.resources.stack_bytes,
            smem_bytes: kernel.resources.smem_bytes,
            barriers: kernel.resources.barriers,
            instructions: kernel.instructions.count(),
            code_bytes: kernel.resources.code_bytes,
            threads: occupancy.and_then(|found| found.threads),
            blocks_per_sm: occupancy.and_then(|found| found.blocks_per_sm),
            warps_per_sm: occupancy.and_then(|found| found.warps_per_sm),
            occupancy: occupancy
                .and_then(|found| Some(f64::from(found.warps_per_sm?) / f64::from(found.max_warps_per_sm.max(1)))),
            limiter: occupancy.and_then(|found| found.limiter.clone()),
            findings: kernel.barriers.as_ref().map_or(0, |barriers| barriers.issues.len()),
            smem_dynamic_bytes: occupancy.and_then(|found| found.smem_dynamic_bytes),
            next_step: occupancy.and_then(|found| found.next_step.as_ref()).map(|step| step.registers),
            advisories: unit.ptxas.as_ref().map(|_| advisories(unit, kernel)),
            peak_at: kernel.pressure.as_ref().and_then(|pressure| pressure.gpr.source_line.as_ref()).map(own_line),
            spills_at: most(kernel, |facts| facts.spill_stores.unwrap_or(0) + facts.spill_loads.unwrap_or(0)),
            instructions_at: most(kernel, |facts| facts.instructions),
        }
    }
}

#[pyfunction]
fn inspect(py: Python<'_>, given: Given, options: &str) -> PyResult<Report> {
    let (source, asked) = (Source::from(given), options.to_owned());
    let options = Asked::options(options)?;
    let report = py.detach(|| ptxinspect::inspect(&source, &options)).map_err(|error| raise(py, &error))?;
    Ok(Report { report, source, options, asked, text: None, page: OnceLock::new() })
}

/// A report that another process made.
#[pyfunction]
fn received(json: &str, text: String, name: String, bytes: Option<Vec<u8>>, asked: String) -> PyResult<Report> {
    let source = match bytes {
        Some(bytes) => Source::Bytes { name, bytes },
        None => Source::Path(PathBuf::from(name)),
    };
    let options = Asked::options(&asked)?;
    Ok(Report { report: read(json)?, source, options, asked, text: Some(text), page: OnceLock::new() })
}

/// The figures of many kernels, fast; what cannot be read is a unit with its error.
#[pyfunction]
fn survey(py: Python<'_>, given: Given, options: &str) -> PyResult<Report> {
    let (source, asked) = (Source::from(given), options.to_owned());
    let options = Asked::options(options)?;
    let report = py.detach(|| ptxinspect::survey(&source, &options)).map_err(|error| raise(py, &error))?;
    Ok(Report { report, source, options, asked, text: None, page: OnceLock::new() })
}

/// Lines with the code they became.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Annotated {
    annotated: ptxinspect::Annotated,
}

/// What is wanted of an annotation.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    by_source: bool,
    lines: Option<(u32, u32)>,
    only_hot: bool,
    control: bool,
    cycles: bool,
    width: Option<usize>,
    only_functions: bool,
}

impl Shown {
    fn options(json: &str) -> PyResult<(By, AnnotateOptions)> {
        let Shown { by_source, lines, only_hot, control, cycles, width, only_functions } = read(json)?;
        let lines = lines.map(|(from, to)| (Line(from), Line(to)));
        let by = if by_source { By::Source } else { By::Ptx };
        Ok((by, AnnotateOptions { lines, only_hot, control, cycles, width, only_functions }))
    }
}

#[pymethods]
impl Annotated {
    fn to_text(&self, py: Python<'_>, shown: &str) -> PyResult<String> {
        let (by, options) = Shown::options(shown)?;
        Ok(py.detach(|| self.annotated.to_text(by, &options)))
    }

    fn to_json(&self, py: Python<'_>, shown: &str) -> PyResult<String> {
        let (by, options) = Shown::options(shown)?;
        Ok(py.detach(|| self.annotated.to_json(by, &options)))
    }

    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.annotated.to_html())
    }

    fn to_svg(&self, py: Python<'_>) -> String {
        py.detach(|| self.annotated.to_svg())
    }
}

#[pyfunction]
fn annotate(py: Python<'_>, given: Given, options: &str, source_root: Option<PathBuf>) -> PyResult<Annotated> {
    let (source, options) = (Source::from(given), Asked::options(options)?);
    let annotated = py.detach(|| ptxinspect::annotate(&source, &options, source_root.as_deref()));
    Ok(Annotated { annotated: annotated.map_err(|error| raise(py, &error))? })
}

/// Code, listed.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Listing {
    listing: ptxinspect::Listing,
}

#[pymethods]
impl Listing {
    fn to_text(&self, py: Python<'_>, control: bool, hex: bool) -> String {
        py.detach(|| self.listing.to_text(control, hex))
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.listing.to_json())
    }
}

#[pyfunction]
fn disassemble(py: Python<'_>, given: Given, options: &str) -> PyResult<Listing> {
    let (source, options) = (Source::from(given), Asked::options(options)?);
    let listing = py.detach(|| ptxinspect::disassemble(&source, &options)).map_err(|error| raise(py, &error))?;
    Ok(Listing { listing })
}

/// Two builds, compared.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Difference {
    difference: ptxinspect::Difference,
}

#[pymethods]
impl Difference {
    fn to_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.difference.to_text())
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.difference.to_json())
    }

    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.difference.to_html())
    }
}

#[pyfunction]
fn diff(
    py: Python<'_>,
    before: Given,
    before_options: &str,
    after: Given,
    after_options: &str,
) -> PyResult<Difference> {
    let (before, after) = (Source::from(before), Source::from(after));
    let (before_options, after_options) = (Asked::options(before_options)?, Asked::options(after_options)?);
    let compared = py.detach(|| ptxinspect::diff((&before, &before_options), (&after, &after_options)));
    Ok(Difference { difference: compared.map_err(|error| raise(py, &error))? })
}

/// Timelines of a PTX's kernels.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Timelines {
    drawn: ptxinspect::Timelines,
}

#[pymethods]
impl Timelines {
    fn to_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.drawn.to_text())
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.drawn.to_json())
    }

    fn to_svg(&self, py: Python<'_>) -> String {
        py.detach(|| self.drawn.to_svg())
    }

    /// Kernels that have no timeline, and why.
    fn refused(&self) -> Vec<(String, String)> {
        self.drawn.refused.iter().map(|(name, why)| (name.clone(), why.to_string())).collect()
    }
}

#[pyfunction]
fn timeline(py: Python<'_>, given: Given, options: &str, steps: Option<u64>) -> PyResult<Timelines> {
    let (source, options) = (Source::from(given), Asked::options(options)?);
    let drawn = py.detach(|| ptxinspect::timeline(&source, &options, steps)).map_err(|error| raise(py, &error))?;
    Ok(Timelines { drawn })
}

/// What loops cost.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct LoopCosts {
    costs: ptxinspect::LoopCosts,
}

#[pymethods]
impl LoopCosts {
    fn to_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.costs.to_text())
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.costs.to_json())
    }
}

/// What is asked of loops.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CostAsked {
    line: Option<u32>,
    warps: Vec<u8>,
    memory: ptxinspect::cost::Memory,
    latency: Option<u16>,
    hazards: bool,
    accesses: bool,
}

#[pyfunction]
fn cost(py: Python<'_>, given: Given, options: &str, asked: &str) -> PyResult<LoopCosts> {
    let (source, options) = (Source::from(given), Asked::options(options)?);
    let CostAsked { line, warps, memory, latency, hazards, accesses } = read(asked)?;
    let asked = ptxinspect::CostOptions { line, warps, memory, latency, hazards, accesses };
    let costs = py.detach(|| ptxinspect::cost(&source, &options, &asked)).map_err(|error| raise(py, &error))?;
    Ok(LoopCosts { costs })
}

/// What a tuning found.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Tuning {
    tuning: ptxinspect::tune::Tuning,
}

#[pymethods]
impl Tuning {
    fn to_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.tuning.to_text())
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.tuning.to_json())
    }

    fn to_svg(&self, py: Python<'_>) -> String {
        py.detach(|| self.tuning.to_svg())
    }

    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.tuning.to_html())
    }
}

#[pyfunction]
fn tune(
    py: Python<'_>,
    given: Given,
    options: &str,
    ptxas: Vec<String>,
    budget: Option<usize>,
    minutes: Option<f64>,
    rows: Option<usize>,
) -> PyResult<Tuning> {
    let (source, options) = (Source::from(given), Asked::options(options)?);
    let default = ptxinspect::TuneOptions::default();
    let time = match minutes {
        Some(minutes) => match std::time::Duration::try_from_secs_f64(minutes * 60.0) {
            Ok(time) => Some(time),
            Err(_) => {
                return Err(pyo3::exceptions::PyValueError::new_err("minutes is no time: expected a number above 0"));
            }
        },
        None => None,
    };
    let search = ptxinspect::TuneOptions {
        ptxas,
        budget: budget.unwrap_or(default.budget),
        time,
        rows: rows.unwrap_or(default.rows),
    };
    let tuned = py.detach(|| ptxinspect::tune(&source, &options, &search));
    Ok(Tuning { tuning: tuned.map_err(|error| raise(py, &error))? })
}

/// A launch.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Launched {
    registers: u32,
    threads: u32,
    smem: u64,
    smem_dynamic: u64,
    barriers: u32,
    cluster: Option<u32>,
    tmem_columns: u32,
    smem_mode: SmemMode,
    carveout: Option<u8>,
}

#[pyfunction]
fn occupancy(py: Python<'_>, arch: &str, launch: &str) -> PyResult<String> {
    let launch: Launched = read(launch)?;
    let launch = LaunchConfig {
        registers: launch.registers,
        threads: launch.threads,
        smem_static: launch.smem,
        smem_dynamic: launch.smem_dynamic,
        barriers: launch.barriers,
        cluster: launch.cluster.unwrap_or(1),
        tmem_columns: launch.tmem_columns,
        smem_mode: launch.smem_mode,
        carveout: launch.carveout,
    };
    write(&ptxinspect::occupancy(arch, &launch).map_err(|error| raise(py, &error))?)
}

/// What a gate is asked for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct GateAsked {
    inputs: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    policy: Option<PathBuf>,
    ratchet: bool,
    deny: Vec<String>,
    arch: Vec<String>,
    ptxas: Vec<String>,
    jobs: Option<usize>,
    no_cache: bool,
    timeout: Option<f64>,
    kernels: Vec<String>,
    threads: Option<u32>,
    smem_dynamic: Option<u64>,
    thorough: bool,
    flags: Vec<String>,
}

/// A gate's verdict.
#[pyclass(frozen, module = "ptxinspect._ptxinspect")]
struct Verdict {
    verdict: ptxinspect::Verdict,
}

#[pymethods]
impl Verdict {
    fn to_text(&self, py: Python<'_>) -> String {
        py.detach(|| self.verdict.to_text())
    }

    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.verdict.to_json())
    }
}

#[pyfunction]
fn gate(py: Python<'_>, asked: &str) -> PyResult<Verdict> {
    let asked: GateAsked = read(asked)?;
    let time = timeout(asked.timeout)?.unwrap_or(Limits::default().time);
    let request = GateRequest {
        inputs: asked.inputs,
        baseline: asked.baseline,
        policy: asked.policy,
        ratchet: asked.ratchet,
        deny: asked.deny,
        arch: asked.arch,
        ptxas: asked.ptxas,
        jobs: asked.jobs,
        no_cache: asked.no_cache,
        limits: Limits { time, ..Limits::default() },
        within: Within::default(),
        kernel: asked.kernels,
        threads: asked.threads.map(Into::into),
        smem_dynamic: asked.smem_dynamic,
        thorough: asked.thorough,
        flags: asked.flags,
        offline: false,
        installing: install_silently,
        told: told_nobody,
    };
    let verdict = py.detach(|| ptxinspect::gate(&request)).map_err(|error| raise(py, &error))?;
    Ok(Verdict { verdict })
}

/// Loads this module by its file, wherever an import would look first, and runs its guard.
const GUARD: &str = "\
import importlib.util, sys
spec = importlib.util.spec_from_file_location('ptxinspect._ptxinspect', sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.main(['ptxinspect', sys.argv[2]])";

/// This interpreter as a guard of what the command starts. It reads no settings and imports nothing from the working folder.
fn guard(py: Python<'_>) -> PyResult<(PathBuf, Vec<OsString>)> {
    let interpreter: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let module: PathBuf = py.import("ptxinspect._ptxinspect")?.getattr("__file__")?.extract()?;
    let options = ["-I", "-S", "-c", GUARD].map(OsString::from);
    Ok((interpreter, options.into_iter().chain([module.into(), ptxinspect::cli::GUARD.into()]).collect()))
}

/// The command line: its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let guard = guard(py).ok();
    py.detach(|| ptxinspect::cli::main_of(arguments, guard))
}

/// The module.
#[pymodule]
fn _ptxinspect(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Report>()?;
    module.add_class::<Annotated>()?;
    module.add_class::<Listing>()?;
    module.add_class::<Difference>()?;
    module.add_class::<Timelines>()?;
    module.add_class::<LoopCosts>()?;
    module.add_class::<Tuning>()?;
    module.add_class::<Verdict>()?;
    module.add_function(wrap_pyfunction!(inspect, module)?)?;
    module.add_function(wrap_pyfunction!(received, module)?)?;
    module.add_function(wrap_pyfunction!(survey, module)?)?;
    module.add_function(wrap_pyfunction!(annotate, module)?)?;
    module.add_function(wrap_pyfunction!(disassemble, module)?)?;
    module.add_function(wrap_pyfunction!(diff, module)?)?;
    module.add_function(wrap_pyfunction!(timeline, module)?)?;
    module.add_function(wrap_pyfunction!(cost, module)?)?;
    module.add_function(wrap_pyfunction!(tune, module)?)?;
    module.add_function(wrap_pyfunction!(occupancy, module)?)?;
    module.add_function(wrap_pyfunction!(gate, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)
}
