//! `ptxinspect gate`: what was measured against what was recorded.
//!
//! [`plan`] turns arguments and policy into a list of what to measure; this file measures, checks, and writes the verdict or the
//! new baseline.

mod args;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub use args::{GateArgs, GateFormat};

use super::progress::Progress;
use super::{Outcome, output};
use crate::compare::unified;
use crate::emit::clean::{self, Form};
use crate::emit::escape::terminal;
use crate::emit::gate as emit;
use crate::engine::gate::{Plan, explain, measure, read_baseline, today};
use crate::files::{HIDDEN_PREFIX, lock_folder, remove_leftovers};
use crate::gate::{self, Check, Level, Scope, Verdict};

/// Measures, checks, writes.
pub fn run(args: &GateArgs) -> Result<Outcome> {
    let plan = Plan::new(&args.request()?)?;
    let (recorded, baseline) = read_baseline(&plan, args.update)?.unwrap_or_default();
    let progress = Progress::new("measuring", args.output.quiet);
    let measured = measure(&plan, &progress)?;
    drop(progress);
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
        session.pool().install(|| explain(&plan, check.baseline, args.old.as_deref(), &mut verdict));
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
