//! `ptxinspect gate`: what was measured against what was recorded.
//!
//! [`plan`] turns arguments and policy into a list of what to measure; this file measures, checks, and writes the verdict or the
//! new baseline.

mod args;
mod explain;
mod inputs;
mod plan;

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

pub use args::{GateArgs, GateFormat};

use self::plan::Plan;
use super::progress::Progress;
use super::{Outcome, output};
use crate::cache::Key;
use crate::compare::unified;
use crate::emit::clean::{self, Form};
use crate::emit::escape::terminal;
use crate::emit::gate as emit;
use crate::engine::compile::Session;
use crate::engine::given::{self, Inside};
use crate::engine::input::{self, Input};
use crate::engine::inspect::{self, Job, View};
use crate::files::{HIDDEN_PREFIX, lock_folder, remove_leftovers};
use crate::gate::{self, Baseline, Check, Date, Level, Measured, Scope, Verdict};

/// Measures, checks, writes.
pub fn run(args: &GateArgs) -> Result<Outcome> {
    let plan = Plan::new(args)?;
    let (recorded, baseline) = read_baseline(&plan, args.update)?.unwrap_or_default();
    let measured = measure(&plan, args.output.quiet)?;
    // What cannot be looked at is not gone: nothing that was recorded of it is forgotten.
    let exists = |name: &str| plan.root.join(name).try_exists().unwrap_or(true);
    let scope = Scope {
        kernels: &plan.kernels,
        some_inputs: plan.some_inputs,
        some_arches: plan.some_arches,
        some_ptxas: plan.some_ptxas,
        exists: &exists,
    };
    let check = Check {
        measured: &measured,
        baseline: &baseline,
        policy: &plan.policy,
        ratchet: plan.ratchet,
        today: args.today.unwrap_or_else(today),
        scope: &scope,
        baseline_name: &plan.baseline_name,
    };
    let mut verdict = gate::check(&check);
    if args.update {
        return update(&plan, &check, &verdict, args);
    }
    for unit in &mut verdict.units {
        unit.command = Some(plan.command(&unit.path, &unit.arch, unit.ptxas.as_deref()));
    }
    if measured.iter().all(|measured| measured.error.is_none()) {
        let new = clean::text(Form::Json, &gate::update(check.baseline, &measured, &scope).to_text());
        verdict.patch = Some(unified(&plan.baseline_name, &recorded, &new));
    }
    if let Some(session) = plan.sessions.first().filter(|_| verdict.failures().next().is_some()) {
        session.pool().install(|| explain::explain(&plan, check.baseline, args.old.as_deref(), &mut verdict));
    }
    output::write(&args.output, args.format, |out| write(&verdict, args.format, args, out))?;
    if args.format == GateFormat::Patch && verdict.patch.is_none() {
        // There is no patch, and the reasons are in no other output.
        for finding in verdict.findings.iter().filter(|finding| finding.level == Level::Error) {
            crate::emit::text::write_error(&finding.message, &mut output::errors())?;
        }
    }
    if args.format == GateFormat::Patch && verdict.patch.as_deref() == Some("") && !args.output.quiet {
        writeln!(output::errors(), "an update would change nothing in {}", terminal(&plan.baseline_name))?;
    }
    for extra in &args.write {
        let to = super::args::OutputArgs { output: Some(extra.path.clone()), ..args.output.clone() };
        output::write(&to, extra.format, |out| write(&verdict, extra.format, args, out))?;
    }
    Ok(match verdict.outcome {
        gate::Outcome::Pass => Outcome::Fine,
        gate::Outcome::Fail => Outcome::Findings,
        gate::Outcome::Error => Outcome::Failed,
    })
}

fn write(verdict: &Verdict, format: GateFormat, args: &GateArgs, out: &mut dyn Write) -> std::io::Result<()> {
    match format {
        GateFormat::Text => {
            let options = emit::Options { verbose: args.output.verbose, width: output::width(&args.output) };
            emit::write_text(verdict, &options, out)
        }
        GateFormat::Json => emit::write_json(verdict, out),
        GateFormat::Markdown => emit::write_markdown(verdict, out),
        GateFormat::Sarif => emit::write_sarif(verdict, out),
        GateFormat::Junit => emit::write_junit(verdict, out),
        GateFormat::Github => emit::write_github(verdict, out),
        GateFormat::Patch => out.write_all(verdict.patch.as_deref().unwrap_or_default().as_bytes()),
        GateFormat::Html => emit::write_html(verdict, out),
    }
}

/// The day in UTC.
fn today() -> Date {
    Date::from_unix_seconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}

/// Reads what was recorded: the text, and what it says. A baseline that is not there is an error unless one is to be written.
fn read_baseline(plan: &Plan, update: bool) -> Result<Option<(String, Baseline)>> {
    let path = &plan.baseline;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && update => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no baseline {}: `ptxinspect gate --update` with the same arguments records one",
            plan.baseline_name
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot read the baseline {}", plan.baseline_name)),
    };
    let parsed = Baseline::parse(&text).with_context(|| format!("the baseline {} cannot be used", plan.baseline_name));
    Ok(Some((text, parsed?)))
}

/// Measures every input for every architecture with every ptxas.
fn measure(plan: &Plan, quiet: bool) -> Result<Vec<Measured>> {
    let Some(first) = plan.sessions.first() else { bail!("there is no ptxas to measure with") };
    let total: usize = plan.inputs.iter().map(|input| input.arches.len()).sum();
    let progress = Progress::new((total * plan.sessions.len()) as u64, "measuring", quiet);
    let all_of = |planned: &plan::Input| {
        if input::is_container(&planned.path, &first.limits).unwrap_or(false) {
            let units = measure_library(first, planned);
            planned.arches.iter().for_each(|_| progress.step());
            return units;
        }
        let input = input::read(&planned.path, &first.limits).map_err(|error| format!("{error:#}"));
        let source = input.as_ref().ok().map(digest);
        let builds: Vec<_> = plan
            .sessions
            .iter()
            .flat_map(|session| planned.arches.iter().map(move |arch| (session, *arch)))
            .enumerate()
            .collect();
        let text = inspect::text_of(&input);
        let shared = inspect::Shared::new(text.as_deref(), builds.len());
        let units = builds.par_iter().filter_map(|(at, (session, arch))| {
            let job = Job { input: &input, path: &planned.path, arch: *arch, first: *at == 0, view: View::Report };
            let inspected = inspect::inspect_shared(session, &job, &shared);
            progress.step();
            let unit = inspected?.unit;
            Some(Measured::new(&unit, planned.name.clone(), &session.flags, source.clone()))
        });
        units.collect::<Vec<_>>()
    };
    let measured = first.pool().install(|| plan.inputs.par_iter().flat_map(all_of).collect());
    if let Some(cache) = &plan.cache {
        cache.tidy();
    }
    Ok(measured)
}

/// Measures the cubins of a library, and its PTX where that is asked for.
fn measure_library(session: &Session, planned: &plan::Input) -> Vec<Measured> {
    let arches: Vec<String> = planned.arches.iter().flatten().map(ToString::to_string).collect();
    let inside = Inside {
        arch: &arches,
        kernel: &[],
        within: &session.within,
        jobs: Some(session.jobs),
        limits: session.limits,
    };
    let path = planned.path.display().to_string();
    let cubins: Vec<Measured> = match given::inside(&planned.path, &inside) {
        Err(error) => {
            let error = Some(format!("{path}: {error:#}"));
            vec![Measured { error, path: path.clone(), ..Measured::default() }]
        }
        Ok(all) => {
            let measured = all.par_iter().flat_map_iter(|given| {
                let input = given.read();
                let units = planned.arches.iter().enumerate().filter_map(move |(at, arch)| {
                    let job = Job { input: &input, path: &given.path, arch: *arch, first: at == 0, view: View::Report };
                    let unit = inspect::inspect(session, &job)?.unit;
                    Some(Measured::new(&unit, planned.name.clone(), &session.flags, None))
                });
                units.collect::<Vec<_>>()
            });
            measured.collect()
        }
    };
    gate::merge(cubins, &planned.name, &path)
}

/// What the input was, so that its build can be found again in the cache.
fn digest(input: &Input) -> String {
    format!("sha256:{}", Key::digest(&input.bytes))
}

/// Writes the baseline anew, unless something could not be measured.
fn update(plan: &Plan, check: &Check<'_>, verdict: &Verdict, args: &GateArgs) -> Result<Outcome> {
    let cannot = |finding: &&gate::Finding| {
        finding.level == Level::Error
            && matches!(finding.kind, gate::FindingKind::CannotCompile | gate::FindingKind::NoMatch)
    };
    let mut errors = output::errors();
    let reasons: Vec<&gate::Finding> = verdict.findings.iter().filter(cannot).collect();
    if !reasons.is_empty() {
        for finding in reasons {
            crate::emit::text::write_error(&finding.message, &mut errors)?;
        }
        bail!("{} was not changed", plan.baseline_name);
    }
    let path: &Path = &plan.baseline;
    // Another update may have written meanwhile: what it recorded stays. One reads and writes at a time.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = lock_folder(folder).with_context(|| format!("cannot lock the folder of {}", plan.baseline_name))?;
    remove_leftovers(folder, HIDDEN_PREFIX);
    let (old, before) = read_baseline(plan, true)?.unwrap_or_default();
    let after = gate::update(&before, check.measured, check.scope);
    let text = clean::text(Form::Json, &after.to_text());
    let (changed, added, gone) = gate::changes(&before, &after);
    if text != old {
        let to = super::args::OutputArgs {
            output: Some(path.to_owned()),
            color: super::args::ColorWhen::Never,
            verbose: false,
            quiet: true,
        };
        output::write(&to, Form::Json, |out| out.write_all(text.as_bytes()))?;
    }
    drop(lock);
    let kernels: usize = after.units.iter().map(|unit| unit.kernels.len()).sum();
    let name = terminal(&plan.baseline_name);
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let held = format!("{} in {}", many(kernels, "kernel"), many(after.units.len(), "unit"));
    if !args.output.quiet {
        let mut out = output::stdout(Form::Text);
        if text == old {
            writeln!(out, "{name} is up to date: {held}")?;
        } else {
            writeln!(out, "{name} records {held}: {added} new, {changed} changed, {gone} forgotten")?;
        }
        crate::emit::text::write_ptxas_files(&verdict.ptxas_files, &mut out)?;
        let unknown = after.units.iter().flat_map(|unit| &unit.kernels);
        let unknown = unknown.filter(|kernel| kernel.figures.get(gate::Metric::PeakLive).is_none()).count();
        if unknown > 0 {
            writeln!(out, "peak_live is not known of {unknown} of them: recorded as null, and not compared")?;
        }
    }
    Ok(Outcome::Fine)
}
