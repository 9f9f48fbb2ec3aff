//! `ptxinspect gate`: what was measured against what was recorded.
//!
//! The engine measures and compares; this file writes the verdict, or the new baseline.

mod args;
mod record;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

pub use args::{GateArgs, GateFormat};

use super::progress::Progress;
use super::{Outcome, output};
use crate::compare::unified;
use crate::container::missing;
use crate::emit::clean::{self, Form};
use crate::emit::escape::terminal;
use crate::emit::gate as emit;
use crate::emit::text::{count, kernels_and_functions, write_wrapped};
use crate::engine::gate::{From, Gated, Plan, measure_named, measure_shard, read_baseline, today};
use crate::files::{HIDDEN_PREFIX, lock_folder, remove_leftovers};
use crate::gate::{self, Check, Level, Verdict};

/// Measures, checks, writes.
pub fn run(args: &GateArgs) -> Result<Outcome> {
    let (request, today) = (args.request()?, args.today.unwrap_or_else(today));
    let progress = Progress::new("measuring", args.output.quiet);
    if let Some(shard) = args.shard {
        let part = measure_shard(&request, shard, args.times.as_deref(), &progress)?;
        drop(progress);
        return write_json(&args.output, &part).map(|()| Outcome::Fine);
    }
    if args.part {
        let part = measure_named(&request, &progress)?;
        drop(progress);
        return write_json(&args.output, &part).map(|()| Outcome::Fine);
    }
    for part in &args.merge {
        std::fs::metadata(part)
            .map_err(|error| anyhow!("cannot open {}: {}", part.display(), missing::why(part, &error)))?;
    }
    let from = if args.merge.is_empty() { From::Here(&progress) } else { From::Parts(&args.merge) };
    let mut gated = Gated::new(&request, today, args.update, &from)?;
    drop(progress);
    if let Some(path) = &args.record_times {
        let to = super::args::OutputArgs { output: Some(path.clone()), ..args.output.clone() };
        write_json(&to, &gated.times()?)?;
    }
    if let Some(path) = &args.record {
        record::add(&gated, path, args)?;
    }
    if args.update {
        return gated.with_check(|check| update(&gated.plan, check, &gated.verdict, args));
    }
    gated.verdict.patch = gated.updated().map(|new| {
        let new = clean::text(Form::Json, &new);
        unified(&gated.plan.baseline_name, &gated.recorded, &new)
    });
    gated.explain(args.old.as_deref());
    let Gated { plan, verdict, .. } = gated;
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

/// Writes what only this program reads, on one line.
fn write_json(to: &super::args::OutputArgs, value: &impl serde::Serialize) -> Result<()> {
    output::write(to, Form::Json, |out| {
        serde_json::to_writer(&mut *out, value)?;
        writeln!(out)
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
        let to = super::args::OutputArgs { output: Some(path.to_owned()), ..args.output.clone() };
        output::write(&to, Form::Json, |out| out.write_all(text.as_bytes()))?;
    }
    drop(lock);
    let of_units = || after.units.iter().flat_map(|unit| &unit.kernels);
    let functions = of_units().filter(|kernel| kernel.within.is_some()).count() as u64;
    let kernels = of_units().count() as u64 - functions;
    let name = terminal(&plan.baseline_name);
    let units = count(after.units.len() as u64, "unit");
    let held = format!("{} in {units}", kernels_and_functions(kernels, functions));
    if !args.output.quiet {
        let mut out = output::stdout(Form::Text);
        let width = output::columns().unwrap_or(usize::MAX);
        let said = if text == old {
            format!("{name} is up to date: {held}")
        } else {
            format!("{name} records {held}: {added} new, {changed} changed, {gone} forgotten")
        };
        write_wrapped(&said, "", "  ", width, &mut out)?;
        crate::emit::text::write_ptxas_files(&verdict.ptxas_files, &mut out)?;
        let unknown = after.units.iter().flat_map(|unit| &unit.kernels);
        let unknown = unknown.filter(|kernel| kernel.figures.get(gate::Metric::PeakLive).is_none()).count();
        if unknown > 0 {
            let said = format!("peak_live is not known of {unknown} of them: recorded as null, and not compared");
            write_wrapped(&said, "", "  ", width, &mut out)?;
        }
    }
    Ok(Outcome::Fine)
}
