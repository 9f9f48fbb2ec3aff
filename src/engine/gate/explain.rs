//! Where it happened: the lines of a kernel that got worse, with the old build beside the new one.

use std::borrow::Cow;
use std::path::Path;

use super::plan::Plan;
use crate::base::Arch;
use crate::cache::{Key, Made};
use crate::compare::{LineChange, LineRoom, culprits, line_changes};
use crate::engine::compile::{Built, Session};
use crate::engine::input;
use crate::engine::inspect::{self, Job, View};
use crate::gate::{Baseline, Comparison, Level, UnitFigures, UnitVerdict, Verdict};
use crate::report::{Kernel, PtxText, Report, SCHEMA, Unit};
use crate::toolchain;

/// How many units are explained; a change that breaks more is understood from these.
const UNITS: usize = 20;
/// How many lines are named for a kernel.
const LINES: usize = 12;

/// Fills in the lines of every kernel that fails.
pub fn explain(plan: &Plan, baseline: &Baseline, old: Option<&Path>, verdict: &mut Verdict) {
    let failing: Vec<(String, String, String)> = verdict
        .failures()
        .filter(|finding| finding.level == Level::Failure)
        .filter_map(|finding| Some((finding.path.clone()?, finding.arch.clone()?, finding.kernel.clone()?)))
        .collect();
    let fails = |unit: &UnitVerdict, kernel: &Comparison| {
        kernel.figures.iter().any(|figure| figure.before.is_some())
            && failing
                .iter()
                .any(|(path, arch, name)| *path == unit.path && *arch == unit.arch && *name == kernel.kernel)
    };
    let mut left = UNITS;
    for unit in &mut verdict.units {
        if left == 0 || !unit.kernels.iter().any(|kernel| fails(unit, kernel)) {
            continue;
        }
        left -= 1;
        let (now, session) = match measured_again(plan, unit) {
            Ok(Some(measured)) => measured,
            Ok(None) => continue,
            // The verdict stands; that its reasons are not shown has one of its own.
            Err(why) => {
                let failing: Vec<bool> = unit.kernels.iter().map(|kernel| fails(unit, kernel)).collect();
                for (kernel, _) in unit.kernels.iter_mut().zip(failing).filter(|(_, fails)| *fails) {
                    kernel.lines_from = Some(format!("no lines are shown: {why}"));
                }
                continue;
            }
        };
        let recorded = baseline.units.iter().find(|recorded| {
            recorded.arch == unit.arch && recorded.input == unit.input && recorded.ptxas == unit.ptxas_before
        });
        let before = old_build(plan, session, recorded, unit, old);
        let chosen: Vec<bool> = unit.kernels.iter().map(|kernel| fails(unit, kernel)).collect();
        let mut room = LineRoom::of(before.as_ref().map_or(&now.ptx, |(unit, _)| &unit.ptx), &now.ptx);
        for (kernel, _) in unit.kernels.iter_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
            explain_kernel(kernel, &now, &before, &mut room);
        }
    }
}

fn explain_kernel(row: &mut Comparison, now: &Unit, before: &Result<(Unit, String), String>, room: &mut LineRoom) {
    let find = |unit: &'_ Unit, name: &str| unit.kernels.iter().position(|kernel| kernel.name == name);
    let Some(kernel) = find(now, &row.kernel).and_then(|at| now.kernels.get(at)) else { return };
    match before {
        Ok((unit, from)) => {
            let name = row.before_name.as_deref().unwrap_or(&row.kernel);
            let Some(old) = find(unit, name).and_then(|at| unit.kernels.get(at)) else {
                row.lines_from = Some(format!("{from} has no {name}"));
                return;
            };
            let Some(lines) = line_changes((old, &unit.ptx), (kernel, &now.ptx), room) else {
                row.lines_from = Some("no lines are shown: those of all kernels are too many to compare".to_owned());
                return;
            };
            row.lines = culprits(lines, LINES);
            row.lines_from = Some(format!("compared line by line with {from}"));
        }
        Err(why) => {
            row.lines = spilling(kernel, &now.ptx);
            row.lines_from = Some(why.clone());
        }
    }
}

/// Without an old build: the lines that spill now.
fn spilling(kernel: &Kernel, ptx: &PtxText) -> Vec<LineChange> {
    let mut counts = std::collections::BTreeMap::new();
    for line in kernel.spills.iter().flatten().filter_map(|spill| spill.ptx_line) {
        *counts.entry(line).or_insert(0u32) += 1;
    }
    let mut lines: Vec<(u32, _)> = counts.into_iter().map(|(line, count)| (count, line)).collect();
    lines.sort_by_key(|(count, line)| (std::cmp::Reverse(*count), *line));
    lines.truncate(8);
    lines.sort_by_key(|(_, line)| *line);
    let live = |line| kernel.lines.iter().find(|facts| facts.ptx_line == line).and_then(|facts| facts.live_gpr_max);
    lines
        .into_iter()
        .map(|(count, line)| LineChange {
            before_line: Some(line),
            after_line: Some(line),
            text: ptx.line(line).unwrap_or_default().to_owned(),
            before_text: None,
            live_before: live(line),
            live_after: live(line),
            spills_before: None,
            spills_after: Some(count),
            instructions_before: 0,
            instructions_after: 0,
        })
        .collect()
}

/// The unit once more, whole this time: from the cache it costs nothing.
fn measured_again<'a>(plan: &'a Plan, unit: &UnitVerdict) -> Result<Option<(Unit, &'a Session)>, String> {
    let path = Path::new(&unit.path);
    let arch: Option<Arch> = unit.arch.parse().ok();
    // A library's lines are not kept, and those of its cubins cannot be told apart by name.
    let Some(limits) = plan.sessions.first().map(|session| &session.limits) else { return Ok(None) };
    if input::is_container(path, limits).map_err(|error| format!("{error:#}"))? {
        return Ok(None);
    }
    let input = Ok(input::read(path, limits).map_err(|error| format!("{error:#}"))?);
    Ok(plan.sessions.iter().find_map(|session| {
        let job = Job { input: &input, path, arch, first: true, view: View::Report };
        let found = inspect::inspect(session, &job)?.unit;
        let version = found.ptxas.as_ref().and_then(|ptxas| ptxas.version.as_deref());
        (found.ptxas.is_none() || version == unit.ptxas.as_deref()).then_some((found, session))
    }))
}

/// The old build and where it came from, or why there is none.
fn old_build(
    plan: &Plan,
    session: &Session,
    recorded: Option<&UnitFigures>,
    unit: &UnitVerdict,
    old: Option<&Path>,
) -> Result<(Unit, String), String> {
    if let Some(path) = old {
        return named_build(session, unit, path);
    }
    let hint = "--old FILE names the input as it was, and the lines that changed are shown";
    let none = || format!("the old build is not in the cache; {hint}");
    let recorded = recorded.ok_or_else(none)?;
    let (Some(cache), Some(source), Some(version)) = (&plan.cache, &recorded.source, &recorded.ptxas) else {
        return Err(none());
    };
    let arch: Arch = recorded.arch.parse().map_err(|_| none())?;
    let job = toolchain::Job { ptx: b"", arch, flags: &recorded.flags, timeout: None, relocatable: false };
    let arguments = toolchain::job_arguments(&job, &session.env).ok().flatten().ok_or_else(none)?;
    let key = Key::new(source.trim_start_matches("sha256:"), &arguments, version);
    let entry = cache.get(&key, None).ok_or_else(none)?;
    let Made::Cubin(cubin) = entry.made else { return Err(none()) };
    let built =
        Built { cubin: Cow::Owned(cubin), log: Some(toolchain::log::parse(&entry.log)), companion: None, spared: None };
    let mut before = Unit { input: recorded.input.clone(), arch: Some(recorded.arch.clone()), ..Unit::default() };
    inspect::join(session, &mut before, &built, None, View::Report);
    match &before.error {
        Some(_) => Err(none()),
        None => Ok((before, "the recorded build, from the cache".to_owned())),
    }
}

/// The build that the user names: a report, an input, or a folder with the input.
fn named_build(session: &Session, unit: &UnitVerdict, path: &Path) -> Result<(Unit, String), String> {
    let name = Path::new(&unit.input);
    let inside = [path.join(name), name.file_name().map(|file| path.join(file)).unwrap_or_default()];
    let file = if path.is_dir() { inside.iter().find(|file| file.is_file()) } else { None };
    let path = match (path.is_dir(), file) {
        (true, None) => return Err(format!("{} has no {}", path.display(), unit.input)),
        (true, Some(file)) => file.as_path(),
        (false, _) => path,
    };
    let from = path.display().to_string();
    let input = input::read(path, &session.limits).map_err(|error| format!("{error:#}"));
    if let Ok(read) = &input
        && read.bytes.trim_ascii_start().starts_with(b"{")
    {
        let report: Report = serde_json::from_slice(&read.bytes).map_err(|error| format!("{from}: {error}"))?;
        if report.schema != SCHEMA {
            return Err(format!("{from} is a report of schema {}: expected {SCHEMA}", report.schema));
        }
        let fits = |old: &&Unit| {
            old.arch.as_deref() == Some(&unit.arch) && Path::new(&old.input).file_name() == name.file_name()
        };
        let found = report.units.iter().find(fits).cloned();
        return found.map(|old| (old, from.clone())).ok_or_else(|| format!("{from} has no {}", unit.input));
    }
    let arch: Option<Arch> = unit.arch.parse().ok();
    let job = Job { input: &input, path, arch, first: true, view: View::Report };
    let before = inspect::inspect(session, &job).ok_or_else(|| format!("{from} cannot be read"))?.unit;
    match &before.error {
        Some(error) => Err(format!("{from}: {}", error.message)),
        None => Ok((before, from)),
    }
}
