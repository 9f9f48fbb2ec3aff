//! Kernels × architectures × ptxas versions × flags, measured; or as few of them as a bisection takes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

use super::compile::{OVERRIDE, Session, cannot_override, environment};
use super::input::{self, Input, Kind};
use super::inspect::{Job, Shared, View, inspect, inspect_shared, text_of};
use super::pages::PageRoom;
use super::progress::{Installing, Progress};
use super::settings::Settings;
use crate::base::{Arch, Limits};
use crate::cache::Cache;
use crate::gate::Metric;
use crate::matrix::{Bisection, Cell, CellKernel, KernelBisection, Matrix, Setting, Sweep, bisect};
use crate::report::annotation::Annotation;
use crate::report::{Advisory, Costs, Kernel, KernelKind, Launch, LaunchHints, Severity, Unit, UnitError, Wanted};
use crate::toolchain::managed::Store;
use crate::toolchain::{Version, VersionRequest};

/// How many cells there may be.
const MOST_CELLS: usize = 20_000;

/// What a matrix is made of.
#[derive(Clone, Debug)]
pub struct Request {
    /// Inputs, architectures, and how they are built in every cell; its ptxas is not looked at.
    pub settings: Settings,
    /// ptxas versions, ranges of them, or paths; none means the one at hand.
    pub ptxas: Vec<String>,
    /// Flags and the values to try.
    pub sweep: Vec<Sweep>,
    /// The figure whose first change is sought, with as few cells as it takes.
    pub bisect: Option<Metric>,
    /// What is known of the launch.
    pub launch: LaunchHints,
    /// What ptxas has made before.
    pub cache: Option<Arc<Cache>>,
    /// Who is told of an installation of ptxas.
    pub installing: Installing,
}

/// One ptxas and one setting.
struct Column {
    session: Session,
    /// The same, with the swept flags put above the PTX's directives; none where they are not below them anyway.
    overriding: Option<Session>,
    /// What the user calls the ptxas; none stands for the one at hand.
    asked: Option<String>,
    setting: Setting,
}

/// Measures every cell, or those that a bisection needs.
pub fn measure(request: &Request, progress: &dyn Progress) -> Result<Matrix> {
    let versions = versions(request)?;
    let sweeps = Setting::all(&request.sweep);
    let settings = &request.settings;
    let total = settings.inputs.len() * settings.arch.len().max(1) * versions.len() * sweeps.len();
    if total > MOST_CELLS {
        bail!("that would be {total} cells: expected at most {MOST_CELLS}");
    }
    let column = |ptxas: &Option<String>, sweep: &Setting| {
        let session = |more: Option<&str>| {
            let swept = sweep.flags().into_iter().chain(more.map(str::to_owned));
            let flags = settings.flags.iter().cloned().chain(swept).collect();
            let mut session = Session::new(&Settings { ptxas: ptxas.clone(), flags, ..settings.clone() })?;
            session.installing = request.installing;
            session.cache.clone_from(&request.cache);
            // How many blocks fit may rest on the memory that warps touch: the report's answer is the matrix's.
            session.wanted = Wanted { live_values: false, costs: Costs::None, ..Wanted::ALL };
            session.launch = request.launch;
            anyhow::Ok(session)
        };
        let below = sweep.yields_to_directives() && !settings.flags.iter().any(|flag| flag.ends_with(&OVERRIDE[1..]));
        let overriding = below.then(|| session(Some(OVERRIDE))).transpose()?;
        anyhow::Ok(Column { session: session(None)?, overriding, asked: ptxas.clone(), setting: sweep.clone() })
    };
    // By setting, then by version.
    let mut columns: Vec<Vec<Column>> = Vec::new();
    for sweep in &sweeps {
        columns.push(versions.iter().map(|ptxas| column(ptxas, sweep)).collect::<Result<_>>()?);
    }
    progress.expect(total as u64);
    let matrix = with_inputs(request, &settings.limits, |asked| {
        let arch =
            columns.iter().flatten().next().and_then(|column| column.session.arches().into_iter().next().flatten());
        let idle = |input| columns.iter().flatten().next_back().and_then(|column| refused(column, input, arch));
        // Beside PTX a cubin's cells say it.
        if let (Some(first), Some(why)) = (asked.first(), asked.first().and_then(idle))
            && asked.iter().all(|input| idle(input).is_some())
        {
            bail!("{}: {why}", first.path.display());
        }
        match request.bisect {
            Some(metric) => bisected(asked, &columns, metric, progress),
            None => measured(asked, &columns, progress),
        }
    })?;
    if let Some(cache) = &request.cache {
        cache.tidy();
    }
    Ok(matrix)
}

/// The code of the cells that are most worth a look, as far as a page has room for it, each with its number among the cells: first one of
/// each set of figures, then the others.
pub fn pages(request: &Request, matrix: &Matrix, progress: &dyn Progress) -> Result<Vec<(usize, (Unit, Annotation))>> {
    let mut seen = HashSet::new();
    let cells = matrix.cells.iter().enumerate().filter(|(_, cell)| !cell.kernels.is_empty());
    let (new, alike): (Vec<_>, Vec<_>) = cells.partition(|(_, cell)| {
        seen.insert((&cell.input, &cell.arch, cell.kernels.iter().map(|k| &k.figures).collect::<Vec<_>>()))
    });
    let mut room = PageRoom::new();
    let size = |cell: &Cell| cell.kernels.iter().filter_map(|kernel| kernel.get(Metric::Instructions)).sum();
    let mut chosen: Vec<_> =
        new.into_iter().chain(alike).filter(|(_, cell)| room.take(cell.kernels.len(), size(cell))).collect();
    chosen.sort_by_key(|(at, _)| *at);
    progress.expect(chosen.len() as u64);
    let one = |(at, cell): &(usize, &Cell)| {
        let path = request.settings.inputs.iter().find(|path| path.display().to_string() == cell.input)?;
        let flags = request.settings.flags.iter().chain(&cell.flags).cloned().collect();
        let settings = Settings { ptxas: cell.asked.clone(), flags, ..request.settings.clone() };
        let made = |settings: &Settings| {
            let mut session = Session::new(settings)?;
            session.cache.clone_from(&request.cache);
            session.launch = request.launch;
            let input = input::read(path, &session.limits).map_err(|error| format!("{error:#}"));
            let job = Job {
                input: &input,
                path,
                arch: cell.arch.parse().ok(),
                first: true,
                view: View::Annotation { values: true },
            };
            anyhow::Ok(inspect(&session, &job).map(|made| (made.unit, made.annotation)))
        };
        let made = made(&settings).transpose();
        progress.advance(1);
        made.map(|made| made.map(|made| (*at, made)))
    };
    let pool = Session::new(&request.settings)?;
    pool.pool().install(|| chosen.par_iter().filter_map(one).collect())
}

/// What `--ptxas` means: each as it is, ranges as the releases that can be had.
fn versions(request: &Request) -> Result<Vec<Option<String>>> {
    if request.ptxas.is_empty() {
        if request.bisect.is_some() {
            bail!("--bisect needs versions to look through: --ptxas 12.0..13.4, or a list of them");
        }
        return Ok(vec![None]);
    }
    let mut all: Vec<String> = Vec::new();
    for text in &request.ptxas {
        if text.trim().is_empty() {
            bail!("--ptxas has an empty item: expected versions or paths, separated by commas");
        }
        match text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?))) {
            Some((from, to)) => all.extend(releases(from, to, request.installing)?),
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
fn releases(from: VersionRequest, to: VersionRequest, installing: Installing) -> Result<Vec<String>> {
    let low = (from.major, from.minor.unwrap_or(0));
    let high = (to.major, to.minor.unwrap_or(u16::MAX));
    if low > high {
        bail!("--ptxas {from}..{to} is no range of releases: expected the older one first, {to}..{from}");
    }
    let env = environment()?;
    let told = installing();
    let mut newest: BTreeMap<(u16, u16), Version> = BTreeMap::new();
    let available = Store::available(&env, &*told).context("the releases that can be had cannot be told")?;
    for version in available {
        let slot = newest.entry((version.major, version.minor)).or_insert(version);
        *slot = (*slot).max(version);
    }
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

/// One of the inputs: read, parsed and evaluated once for all its cells.
struct Asked<'a> {
    path: &'a Path,
    input: &'a Result<Input, String>,
    shared: Shared<'a>,
}

/// Reads every input once, and hands them on.
fn with_inputs<T>(request: &Request, limits: &Limits, then: impl FnOnce(&[Asked<'_>]) -> T) -> T {
    let paths = &request.settings.inputs;
    let read = |path: &PathBuf| input::read(path, limits).map_err(|error| format!("{error:#}"));
    let inputs: Vec<Result<Input, String>> = paths.iter().map(read).collect();
    let texts: Vec<Option<Cow<'_, str>>> = inputs.iter().map(text_of).collect();
    let all: Vec<Asked<'_>> = paths
        .iter()
        .zip(&inputs)
        .zip(&texts)
        .map(|((path, input), text)| Asked { path, input, shared: Shared::new(text.as_deref(), usize::MAX) })
        .collect();
    then(&all)
}

/// Why a cell would claim something that nobody did: nothing is compiled of a cubin.
fn refused(column: &Column, asked: &Asked<'_>, arch: Option<Arch>) -> Option<String> {
    let is_cubin = asked.input.as_ref().is_ok_and(|input| matches!(input.kind(), Ok(Kind::Cubin)));
    if !is_cubin {
        return None;
    }
    let mut idle = Vec::new();
    idle.extend(arch.is_some().then_some("--arch"));
    idle.extend(column.asked.is_some().then_some("--ptxas"));
    idle.extend((!column.setting.label().is_empty()).then_some("--sweep"));
    let is_swept = |flag: &String| column.setting.flags().contains(flag);
    idle.extend((column.session.flags.iter().any(|flag| !is_swept(flag))).then_some("flags after --"));
    let (last, first) = idle.split_last()?;
    let what = if first.is_empty() { (*last).to_owned() } else { format!("{} and {last}", first.join(", ")) };
    let verb = if first.is_empty() && last.starts_with("--") { "changes" } else { "change" };
    Some(format!(
        "it is a cubin, which is compiled already: {what} {verb} nothing of it; give the PTX that it was made from, or leave \
         {} out",
        if first.is_empty() && last.starts_with("--") { "it" } else { "them" }
    ))
}

/// A cell without figures.
fn cell_without(column: &Column, asked: &Asked<'_>, arch: Option<Arch>, error: String) -> Cell {
    Cell {
        input: asked.path.display().to_string(),
        arch: arch.map_or_else(|| "unknown".to_owned(), |arch| arch.to_string()),
        ptxas: column.asked.clone().unwrap_or_else(|| "at hand".to_owned()),
        ptxas_path: None,
        setting: column.setting.label(),
        overrides: false,
        error: Some(error),
        failed: true,
        asked: column.asked.clone(),
        flags: Vec::new(),
        kernels: Vec::new(),
    }
}

/// One cell.
fn cell_of(column: &Column, asked: &Asked<'_>, arch: Option<Arch>) -> Cell {
    if let Some(error) = refused(column, asked, arch) {
        return cell_without(column, asked, arch, error);
    }
    let (path, input) = (asked.path, asked.input);
    let made = |session: &Session| {
        inspect_shared(session, &Job { input, path, arch, first: true, view: View::Report }, &asked.shared)
            .map(|inspected| inspected.unit)
            .unwrap_or_default()
    };
    // A ptxas that is too old for it refuses the flag itself.
    let overridden =
        column.overriding.as_ref().map(made).filter(|unit| !unit.error.as_ref().is_some_and(cannot_override));
    let overrides = overridden.is_some();
    let unit = overridden.unwrap_or_else(|| made(&column.session));
    let ruled = column.overriding.is_some() && !overrides;
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
        ptxas: version.or_else(|| column.asked.clone()).unwrap_or_else(|| "at hand".to_owned()),
        ptxas_path: unit.ptxas.as_ref().and_then(|ptxas| ptxas.path.clone()),
        setting: column.setting.label(),
        overrides,
        error,
        failed,
        asked: column.asked.clone(),
        flags: column.setting.flags().into_iter().chain(overrides.then(|| OVERRIDE.to_owned())).collect(),
        kernels: entries
            .map(|kernel| CellKernel {
                ruled_by: ruling(&kernel.launch).filter(|_| ruled),
                advisories: advisories_of(&unit, kernel, overrides),
                ..CellKernel::new(kernel)
            })
            .collect(),
    }
}

/// What ptxas says of a kernel, or of no kernel in particular; not that it obeys [`OVERRIDE`].
fn advisories_of(unit: &Unit, kernel: &Kernel, overrides: bool) -> Vec<String> {
    let obeys = |said: &Advisory| overrides && said.message.starts_with("Overriding maximum register limit");
    let is_about = |said: &&Advisory| said.kernel.as_ref().is_none_or(|name| *name == kernel.name) && !obeys(said);
    let about = unit.advisories.iter().filter(is_about);
    let text = |said: &Advisory| match &said.code {
        Some(code) => format!("{code}: {}", said.message),
        None => said.message.clone(),
    };
    let mut seen = HashSet::new();
    about.map(text).filter(|text| seen.insert(text.clone())).collect()
}

/// The directive that decides how many registers there may be, whatever the flags say.
fn ruling(launch: &Launch) -> Option<String> {
    let named = |name: &str, value: Option<u32>| value.map(|value| format!(".{name} {value}"));
    let threads = |name: &str, value: Option<[u32; 3]>| value.map(|[x, y, z]| format!(".{name} {x}, {y}, {z}"));
    named("maxnreg", launch.maxnreg)
        .or_else(|| named("minnctapersm", launch.minnctapersm))
        .or_else(|| threads("reqntid", launch.reqntid))
        .or_else(|| threads("maxntid", launch.maxntid))
}

fn measured(asked: &[Asked<'_>], columns: &[Vec<Column>], progress: &dyn Progress) -> Result<Matrix> {
    let Some(first) = columns.iter().flatten().next() else { bail!("there is nothing to measure") };
    let mut jobs = Vec::new();
    for input in asked {
        for arch in first.session.arches() {
            // A picture follows the sweep; without one, the versions.
            for at in 0..columns.first().map_or(0, Vec::len) {
                jobs.extend(columns.iter().filter_map(|column| column.get(at)).map(|column| (column, input, arch)));
            }
        }
    }
    let one = |(column, input, arch): &(&Column, &Asked<'_>, Option<Arch>)| {
        let cell = cell_of(column, input, *arch);
        progress.advance(1);
        cell
    };
    let cells = first.session.pool().install(|| jobs.par_iter().map(one).collect());
    Ok(Matrix::new(cells, Vec::new()))
}

fn bisected(asked: &[Asked<'_>], columns: &[Vec<Column>], metric: Metric, progress: &dyn Progress) -> Result<Matrix> {
    let Some(first) = columns.iter().flatten().next() else { bail!("there is nothing to measure") };
    let mut groups = Vec::new();
    for input in asked {
        for arch in first.session.arches() {
            groups.extend(columns.iter().map(|column| (column, input, arch)));
        }
    }
    let one =
        |(row, input, arch): &(&Vec<Column>, &Asked<'_>, Option<Arch>)| bisect_row(row, input, *arch, metric, progress);
    let found: Vec<(Vec<Cell>, Vec<KernelBisection>)> =
        first.session.pool().install(|| groups.par_iter().map(one).collect());
    let (cells, bisections): (Vec<Vec<Cell>>, Vec<Vec<KernelBisection>>) = found.into_iter().unzip();
    Ok(Matrix::new(cells.into_iter().flatten().collect(), bisections.into_iter().flatten().collect()))
}

/// One row of versions: every kernel bisected, a version measured at most once.
fn bisect_row(
    row: &[Column],
    input: &Asked<'_>,
    arch: Option<Arch>,
    metric: Metric,
    progress: &dyn Progress,
) -> (Vec<Cell>, Vec<KernelBisection>) {
    let mut cells: BTreeMap<usize, Cell> = BTreeMap::new();
    let mut cell = |at: usize| -> Option<Cell> {
        let column = row.get(at)?;
        let cell = cells.entry(at).or_insert_with(|| {
            progress.advance(1);
            cell_of(column, input, arch)
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
            input: input.path.display().to_string(),
            arch: newest.as_ref().map(|cell| cell.arch.clone()).unwrap_or_default(),
            setting: row.first().map(|column| column.setting.label()).unwrap_or_default(),
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
