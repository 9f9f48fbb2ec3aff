//! `ptxinspect matrix`: kernels × architectures × ptxas versions × flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueHint};
use rayon::prelude::*;

use super::args::{self, CompileArgs, OutputArgs, RunArgs, TextOrJson};
use super::choose::WithinArgs;
use super::progress::Progress;
use super::{Outcome, output};
use crate::base::Arch;
use crate::emit;
use crate::engine::compile::{Session, environment};
use crate::engine::input;
use crate::engine::inspect::{Job, View, inspect};
use crate::gate::{Figures, Metric};
use crate::matrix::{Bisection, Cell, CellKernel, KernelBisection, Matrix, Setting, Sweep, bisect};
use crate::report::{KernelKind, LaunchHints, Severity, UnitError, Wanted};
use crate::toolchain::managed::Store;
use crate::toolchain::{Version, VersionRequest};

/// How many cells there may be.
const MOST_CELLS: usize = 20_000;

const EXAMPLES: &str = "\
Examples:
  ptxinspect matrix k.ptx --arch sm_90a,sm_100a --ptxas 12.9,13.0,13.4
  ptxinspect matrix k.ptx --sweep maxrregcount=64..255:8
  ptxinspect matrix k.ptx --sweep opt-level=1,2,3 --sweep register-usage-level=0..10:5
  ptxinspect matrix k.ptx --ptxas 12.0..13.4 --bisect registers      the first release in which it changed

Exit status: 0 done (cells that cannot be compiled are said), 2 no cell could be measured.";

/// `ptxinspect matrix …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// PTX files
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Architectures: repeat, or separate with commas [default: the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Axes")]
    pub arch: Vec<String>,
    /// ptxas versions or paths: repeat, or separate with commas; 12.0..13.4 is every release there is between
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Axes")]
    pub ptxas: Vec<String>,
    /// A flag of ptxas and the values to try: maxrregcount=64..255:8, opt-level=1,2,3; repeat for several
    #[arg(long, value_name = "FLAG=VALUES", help_heading = "Axes")]
    pub sweep: Vec<Sweep>,
    /// Find the first ptxas in which this figure changed, with as few runs as it takes
    #[arg(long, value_name = "METRIC", help_heading = "Axes")]
    pub bisect: Option<Metric>,
    /// The columns [default: registers, spill_store_bytes, instructions, warps_per_sm]
    #[arg(long, value_delimiter = ',', value_name = "METRIC", help_heading = "Output")]
    pub metric: Vec<Metric>,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// How to run ptxas.
    #[command(flatten)]
    pub run: RunArgs,
    /// Threads of a block, for the occupancy of kernels whose directives do not say
    #[arg(long, value_name = "N", help_heading = "Occupancy")]
    pub threads: Option<u32>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", default_value = "0", help_heading = "Occupancy")]
    pub smem_dynamic: u64,
    /// The form of the matrix
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TextOrJson,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas in every cell, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

/// One ptxas and one setting.
struct Column {
    session: Session,
    asked: String,
    setting: String,
}

/// Measures every cell, or those that a bisection needs, and writes.
pub fn run(args: &MatrixArgs) -> Result<Outcome> {
    let settings = Setting::all(&args.sweep);
    let versions = versions(args)?;
    let arches = args.arch.len().max(1);
    let total = args.inputs.len() * arches * versions.len() * settings.len();
    if total > MOST_CELLS {
        bail!("that would be {total} cells: expected at most {MOST_CELLS}");
    }
    let cache = args.run.cache()?;
    let column = |ptxas: &Option<String>, setting: &Setting| {
        let mut session = args::session(
            &CompileArgs {
                inputs: args.inputs.clone(),
                arch: args.arch.clone(),
                ptxas: ptxas.clone(),
                limits: args.run.limits.clone(),
                kernel: args.kernel.clone(),
                jobs: args.run.jobs,
                within: WithinArgs::default(),
                flags: args.flags.iter().cloned().chain(setting.flags()).collect(),
            }
            .settings()?,
        )?;
        session.cache.clone_from(&cache);
        session.wanted = Wanted { live_values: false, warps: false };
        session.launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic };
        let asked = ptxas.clone().unwrap_or_else(|| "at hand".to_owned());
        anyhow::Ok(Column { session, asked, setting: setting.label() })
    };
    // By setting, then by version.
    let mut columns: Vec<Vec<Column>> = Vec::new();
    for setting in &settings {
        columns.push(versions.iter().map(|ptxas| column(ptxas, setting)).collect::<Result<_>>()?);
    }
    let progress = Progress::new(total as u64, "measuring", args.output.quiet);
    let matrix = match args.bisect {
        Some(metric) => bisected(args, &columns, metric, &progress)?,
        None => measured(args, &columns, &progress)?,
    };
    drop(progress);
    if let Some(cache) = &cache {
        cache.tidy();
    }
    match args.format {
        TextOrJson::Json => output::write(&args.output, args.format, |out| emit::matrix::write_json(&matrix, out))?,
        TextOrJson::Text => {
            let default = [Metric::Registers, Metric::SpillStoreBytes, Metric::Instructions, Metric::WarpsPerSm];
            let metrics = if args.metric.is_empty() { default.to_vec() } else { args.metric.clone() };
            let options = emit::matrix::Options { metrics, width: output::width(&args.output) };
            output::write(&args.output, args.format, |out| emit::matrix::write_text(&matrix, &options, out))?;
        }
    }
    let nothing = matrix.cells.iter().all(|cell| cell.error.is_some());
    if !nothing && matrix.cells.iter().all(|cell| cell.kernels.is_empty()) {
        bail!("there is no kernel in any cell{}", if args.kernel.is_empty() { "" } else { " that --kernel matches" });
    }
    // That a ptxas does not take a PTX is an answer; that nothing could be asked of it is none.
    let failed = nothing || matrix.cells.iter().any(|cell| cell.failed);
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// What `--ptxas` means: each as it is, ranges as the releases that can be had.
fn versions(args: &MatrixArgs) -> Result<Vec<Option<String>>> {
    if args.ptxas.is_empty() {
        if args.bisect.is_some() {
            bail!("--bisect needs versions to look through: --ptxas 12.0..13.4, or a list of them");
        }
        return Ok(vec![None]);
    }
    let mut all: Vec<String> = Vec::new();
    for text in &args.ptxas {
        if text.trim().is_empty() {
            bail!("--ptxas has an empty item: expected versions or paths, separated by commas");
        }
        match text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?))) {
            Some((from, to)) => all.extend(releases(from, to)?),
            None => all.push(text.clone()),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|text| seen.insert(text.clone()));
    // Versions by their age; paths have none and stay as they were given.
    let age = |text: &String| {
        let request: VersionRequest = text.parse().ok()?;
        Some((request.major, request.minor, request.patch))
    };
    if all.iter().all(|text| age(text).is_some()) {
        all.sort_by_key(age);
    }
    Ok(all.into_iter().map(Some).collect())
}

/// The newest build of every release from one to another.
fn releases(from: VersionRequest, to: VersionRequest) -> Result<Vec<String>> {
    let env = environment()?;
    let progress = super::toolchain::install_progress(false);
    let mut newest: BTreeMap<(u16, u16), Version> = BTreeMap::new();
    let available = Store::available(&env, &progress).context("the releases that can be had cannot be told")?;
    for version in available {
        let slot = newest.entry((version.major, version.minor)).or_insert(version);
        *slot = (*slot).max(version);
    }
    let low = (from.major, from.minor.unwrap_or(0));
    let high = (to.major, to.minor.unwrap_or(u16::MAX));
    let chosen: Vec<String> = newest
        .iter()
        .filter(|(release, _)| **release >= low && **release <= high)
        .map(|(_, v)| v.to_string())
        .collect();
    if chosen.is_empty() {
        bail!("there is no release of ptxas from {from} to {to}");
    }
    Ok(chosen)
}

/// One cell.
fn measure(column: &Column, path: &Path, arch: Option<Arch>) -> Cell {
    let input = input::read(path, &column.session.limits).map_err(|error| format!("{error:#}"));
    let unit = inspect(&column.session, &Job { input: &input, path, arch, first: true, view: View::Report })
        .map(|inspected| inspected.unit)
        .unwrap_or_default();
    let error = unit.error.as_ref().map(|error| {
        let first = error.diagnostics.first().map(|first| format!(": {}", first.message)).unwrap_or_default();
        format!("{}{first}", error.message)
    });
    let said_no = |error: &UnitError| error.diagnostics.iter().any(|said| said.severity == Severity::Error);
    let failed = unit.error.as_ref().is_some_and(|error| !said_no(error));
    let made_by = unit.cubin.as_ref().and_then(|cubin| cubin.made_by.clone());
    let version = unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.clone()).or(made_by);
    let entries = unit.kernels.iter().filter(|kernel| kernel.kind == KernelKind::Entry);
    Cell {
        input: path.display().to_string(),
        arch: arch.map(|arch| arch.to_string()).or(unit.arch.clone()).unwrap_or_else(|| "unknown".to_owned()),
        ptxas: version.unwrap_or_else(|| column.asked.clone()),
        ptxas_path: unit.ptxas.as_ref().and_then(|ptxas| ptxas.path.clone()),
        setting: column.setting.clone(),
        error,
        failed,
        kernels: entries.map(|kernel| CellKernel::new(kernel.name.clone(), &Figures::of(kernel))).collect(),
    }
}

fn measured(args: &MatrixArgs, columns: &[Vec<Column>], progress: &Progress) -> Result<Matrix> {
    let Some(first) = columns.iter().flatten().next() else { bail!("there is nothing to measure") };
    let mut jobs = Vec::new();
    for path in &args.inputs {
        for arch in first.session.arches() {
            // A picture follows the sweep; without one, the versions.
            for at in 0..columns.first().map_or(0, Vec::len) {
                jobs.extend(columns.iter().filter_map(|column| column.get(at)).map(|column| (column, path, arch)));
            }
        }
    }
    let one = |(column, path, arch): &(&Column, &PathBuf, Option<Arch>)| {
        let cell = measure(column, path, *arch);
        progress.step();
        cell
    };
    let cells = first.session.pool().install(|| jobs.par_iter().map(one).collect());
    Ok(Matrix::new(cells, Vec::new()))
}

fn bisected(args: &MatrixArgs, columns: &[Vec<Column>], metric: Metric, progress: &Progress) -> Result<Matrix> {
    let Some(first) = columns.iter().flatten().next() else { bail!("there is nothing to measure") };
    let mut groups = Vec::new();
    for path in &args.inputs {
        for arch in first.session.arches() {
            groups.extend(columns.iter().map(|column| (column, path, arch)));
        }
    }
    let one =
        |(row, path, arch): &(&Vec<Column>, &PathBuf, Option<Arch>)| bisect_row(row, path, *arch, metric, progress);
    let found: Vec<(Vec<Cell>, Vec<KernelBisection>)> =
        first.session.pool().install(|| groups.par_iter().map(one).collect());
    let (cells, bisections): (Vec<Vec<Cell>>, Vec<Vec<KernelBisection>>) = found.into_iter().unzip();
    Ok(Matrix::new(cells.into_iter().flatten().collect(), bisections.into_iter().flatten().collect()))
}

/// One row of versions: every kernel bisected, a version measured at most once.
fn bisect_row(
    row: &[Column],
    path: &Path,
    arch: Option<Arch>,
    metric: Metric,
    progress: &Progress,
) -> (Vec<Cell>, Vec<KernelBisection>) {
    let mut cells: BTreeMap<usize, Cell> = BTreeMap::new();
    let mut cell = |at: usize| -> Option<Cell> {
        let column = row.get(at)?;
        let cell = cells.entry(at).or_insert_with(|| {
            progress.step();
            measure(column, path, arch)
        });
        Some(cell.clone())
    };
    let newest = (0..row.len()).rev().filter_map(&mut cell).find(|cell| cell.error.is_none());
    let mut bisections = Vec::new();
    for kernel in newest.iter().flat_map(|cell| &cell.kernels) {
        let mut asked = std::collections::BTreeSet::new();
        let found = bisect(row.len(), &mut |at| {
            asked.insert(at);
            cell(at)?.kernels.iter().find(|other| other.name == kernel.name)?.get(metric)
        });
        let version = |at: usize, cell: &mut dyn FnMut(usize) -> Option<Cell>| cell(at).map(|cell| cell.ptxas);
        let (last_old, first_new, before, after) = match found {
            Bisection::Changed { last_old, first_new, before, after } => {
                (version(last_old, &mut cell), version(first_new, &mut cell), Some(before), Some(after))
            }
            Bisection::Same { first, value, .. } => (version(first, &mut cell), None, Some(value), Some(value)),
            Bisection::TooFew => (None, None, None, None),
        };
        bisections.push(KernelBisection {
            input: path.display().to_string(),
            arch: newest.as_ref().map(|cell| cell.arch.clone()).unwrap_or_default(),
            setting: row.first().map(|column| column.setting.clone()).unwrap_or_default(),
            kernel: kernel.name.clone(),
            metric: metric.name().to_owned(),
            last_old,
            first_new,
            before,
            after,
            runs: asked.len(),
            versions: row.len(),
        });
    }
    (cells.into_values().collect(), bisections)
}
