//! Measured against recorded, under a policy: units here, kernels and messages in files of their own.

mod kernel;
mod messages;
mod patterns;
mod scope;

pub use scope::Scope;

use std::collections::BTreeSet;

use super::baseline::Baseline;
use super::date::Date;
use super::figures::{KernelFigures, KernelPlace, Measured, UnitFigures};
use super::pairing;
use super::policy::{Action, Policy};
use super::verdict::*;
use crate::compare::{How, Pair};
use crate::report::PtxasFile;

/// Everything a check takes.
pub struct Check<'a> {
    /// What was measured.
    pub measured: &'a [Measured],
    /// What was recorded.
    pub baseline: &'a Baseline,
    /// What is agreed on.
    pub policy: &'a Policy,
    /// Whether improvements must be recorded.
    pub ratchet: bool,
    /// The day allowances are held against.
    pub today: Date,
    /// What was looked at.
    pub scope: &'a Scope<'a>,
    /// The baseline's name.
    pub baseline_name: &'a str,
}

/// Compares, and says everything there is to say.
pub fn check(check: &Check<'_>) -> Verdict {
    let mut findings = Vec::new();
    let mut units = Vec::new();
    let mut totals = Totals::default();
    let before: Vec<&UnitFigures> = check.baseline.units.iter().collect();
    let after: Vec<&UnitFigures> = check.measured.iter().map(|measured| &measured.unit).collect();
    for Pair { before, after, how } in pairing::units(&before, &after) {
        let before = before.and_then(|at| check.baseline.units.get(at));
        match after.and_then(|at| check.measured.get(at)) {
            Some(measured) => {
                let mut unit = UnitCheck { check, measured, before, findings: Vec::new(), totals: &mut totals };
                let kernels = unit.run(how);
                let mut found = unit.findings;
                if !found.is_empty() || !kernels.is_empty() {
                    units.push(unit_verdict(measured, before, kernels));
                }
                found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
                findings.append(&mut found);
            }
            None => findings.extend(before.map(|unit| missing_unit(check, unit, &mut totals))),
        }
    }
    findings.extend(patterns::unmatched(check));
    findings.extend(patterns::idle_expired(check, &findings));
    totals.errors = findings.iter().filter(|finding| finding.level == Level::Error).count() as u64;
    let worst = findings.iter().map(|finding| finding.level).max();
    let outcome = match worst {
        Some(Level::Error) => Outcome::Error,
        Some(Level::Failure) => Outcome::Fail,
        _ => Outcome::Pass,
    };
    let baseline = check.baseline_name.to_owned();
    let ptxas_files: BTreeSet<&PtxasFile> = check.measured.iter().filter_map(|unit| unit.ptxas_file.as_ref()).collect();
    let ptxas_files = ptxas_files.into_iter().cloned().collect();
    Verdict { schema: GATE_SCHEMA.to_owned(), outcome, baseline, ptxas_files, totals, findings, units, patch: None }
}

fn unit_verdict(measured: &Measured, before: Option<&UnitFigures>, kernels: Vec<Comparison>) -> UnitVerdict {
    UnitVerdict {
        input: measured.unit.input.clone(),
        path: measured.path.clone(),
        arch: measured.unit.arch.clone(),
        ptxas_before: before.and_then(|unit| unit.ptxas.clone()),
        ptxas: measured.unit.ptxas.clone(),
        command: None,
        kernels,
    }
}

fn level(action: Action) -> Level {
    match action {
        Action::Deny => Level::Failure,
        Action::Warn => Level::Warning,
        Action::Allow => Level::Note,
    }
}

fn missing_unit(check: &Check<'_>, unit: &UnitFigures, totals: &mut Totals) -> Finding {
    let (kind, level, message) = match check.scope.excuse(unit, check.measured) {
        Some(excuse) => (FindingKind::NotChecked, Level::Note, excuse),
        None => {
            totals.removed += unit.kernels.len() as u64;
            let count = unit.kernels.len();
            let message = format!(
                "{} for {} is recorded with {count} kernel{} and was not among what was measured; --update forgets it",
                unit.input,
                unit.arch,
                if count == 1 { "" } else { "s" }
            );
            (FindingKind::RemovedKernel, level(check.policy.removed), message)
        }
    };
    Finding { input: Some(unit.input.clone()), arch: Some(unit.arch.clone()), ..finding(kind, level, message) }
}

fn finding(kind: FindingKind, level: Level, message: String) -> Finding {
    Finding {
        kind,
        level,
        input: None,
        path: None,
        arch: None,
        kernel: None,
        metric: None,
        before: None,
        after: None,
        ptx_line: None,
        message,
        witness: Vec::new(),
        mend: None,
    }
}

/// One unit under way.
struct UnitCheck<'a> {
    check: &'a Check<'a>,
    measured: &'a Measured,
    before: Option<&'a UnitFigures>,
    findings: Vec<Finding>,
    totals: &'a mut Totals,
}

impl UnitCheck<'_> {
    fn say(&mut self, kind: FindingKind, level: Level, message: String) -> &mut Finding {
        self.findings.push(Finding {
            input: Some(self.measured.unit.input.clone()),
            path: Some(self.measured.path.clone()),
            arch: Some(self.measured.unit.arch.clone()),
            ..finding(kind, level, message)
        });
        let last = self.findings.len() - 1;
        &mut self.findings[last]
    }

    fn run(&mut self, how: How) -> Vec<Comparison> {
        self.totals.units += 1;
        let unit = &self.measured.unit;
        if let Some(error) = &self.measured.error {
            let line = self.measured.error_line;
            self.say(FindingKind::CannotCompile, Level::Error, error.clone()).ptx_line = line;
            return Vec::new();
        }
        if let Some(before) = self.before {
            self.compare_units(before, how);
        }
        let scope = self.check.scope;
        let after: Vec<(&KernelFigures, &KernelPlace)> =
            unit.kernels.iter().zip(&self.measured.places).filter(|(kernel, _)| scope.has(kernel)).collect();
        let before: Vec<&KernelFigures> =
            self.before.iter().flat_map(|unit| &unit.kernels).filter(|kernel| scope.has(kernel)).collect();
        let names: Vec<&KernelFigures> = after.iter().map(|(kernel, _)| *kernel).collect();
        self.totals.kernels += names.len() as u64;
        self.totals.functions += names.iter().filter(|kernel| kernel.within.is_some()).count() as u64;
        let mut rows = Vec::new();
        for pair in pairing::kernels(&before, &names) {
            let recorded = pair.before.and_then(|at| before.get(at)).copied();
            match (pair.after.and_then(|at| after.get(at)), recorded) {
                (Some((kernel, place)), recorded) => rows.extend(self.kernel(kernel, place, recorded, pair.how)),
                (None, Some(gone)) => rows.push(self.gone(gone)),
                (None, None) => {}
            }
        }
        self.denied();
        rows
    }

    fn compare_units(&mut self, before: &UnitFigures, how: How) {
        let unit = &self.measured.unit;
        if how == How::Renamed {
            let message = format!("{} was {} when it was recorded", unit.input, before.input);
            self.say(FindingKind::RenamedKernel, Level::Note, message);
        }
        if before.ptxas != unit.ptxas || before.flags != unit.flags {
            let made = |unit: &UnitFigures| {
                let version = unit.ptxas.as_deref().unwrap_or("of unknown version");
                let flags = if unit.flags.is_empty() { String::new() } else { format!(" {}", unit.flags.join(" ")) };
                format!("ptxas {version}{flags}")
            };
            let message = format!("recorded with {}, measured with {}", made(before), made(unit));
            self.say(FindingKind::OtherToolchain, Level::Note, message);
        }
        if unit.not_understood > before.not_understood {
            let message = format!(
                "{} parts of the log or the cubin were not understood, {} when it was recorded: `ptxinspect {}` shows them",
                unit.not_understood, before.not_understood, unit.input
            );
            self.say(FindingKind::NotKnown, Level::Error, message);
        }
        self.new_messages(&before.advisories, &unit.advisories, None, None);
    }
}
