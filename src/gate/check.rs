//! Measured against recorded, under a policy.

use std::collections::BTreeMap;

use super::baseline::Baseline;
use super::date::Date;
use super::figures::{KernelFigures, KernelPlace, Measured, UnitFigures, label_of};
use super::glob::Glob;
use super::metric::Metric;
use super::pairing;
use super::policy::{Action, Allowance, Policy};
use super::verdict::*;
use crate::base::Line;
use crate::compare::{How, Pair};
use crate::report::Severity;

/// What a run looked at, of all that may be recorded.
pub struct Scope<'a> {
    /// Only these kernels; none means all.
    pub kernels: &'a [Glob],
    /// Whether the inputs were named for this run alone: what is recorded beside them is none of its business.
    pub some_inputs: bool,
    /// Whether the architectures were.
    pub some_arches: bool,
    /// Whether the ptxas was.
    pub some_ptxas: bool,
    /// Whether an input, as the baseline names it, is still there.
    pub exists: &'a dyn Fn(&str) -> bool,
}

impl Scope<'_> {
    pub(super) fn has(&self, kernel: &KernelFigures) -> bool {
        self.kernels.is_empty() || {
            let names = kernel.names();
            self.kernels.iter().any(|glob| names.iter().any(|name| glob.matches(name)))
        }
    }

    /// Why a recorded unit that was not measured is not this run's business; none when it should have been there.
    pub(super) fn excuse(&self, unit: &UnitFigures, measured: &[Measured]) -> Option<String> {
        let of_input: Vec<&UnitFigures> =
            measured.iter().map(|measured| &measured.unit).filter(|other| other.input == unit.input).collect();
        if of_input.is_empty() {
            let there = self.some_inputs && (self.exists)(&unit.input);
            return there.then(|| format!("{} was not among the inputs", unit.input));
        }
        if of_input.iter().all(|other| other.arch != unit.arch) {
            return self.some_arches.then(|| format!("{} was not checked for {}", unit.input, unit.arch));
        }
        let ptxas = unit.ptxas.as_deref().unwrap_or("of unknown version");
        self.some_ptxas.then(|| format!("{} was not checked for {} with ptxas {ptxas}", unit.input, unit.arch))
    }
}

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
    findings.extend(unmatched_patterns(check));
    findings.extend(idle_expired(check, &findings));
    totals.errors = findings.iter().filter(|finding| finding.level == Level::Error).count() as u64;
    let worst = findings.iter().map(|finding| finding.level).max();
    let outcome = match worst {
        Some(Level::Error) => Outcome::Error,
        Some(Level::Failure) => Outcome::Fail,
        _ => Outcome::Pass,
    };
    let baseline = check.baseline_name.to_owned();
    Verdict { schema: GATE_SCHEMA.to_owned(), outcome, baseline, totals, findings, units, patch: None }
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
    }
}

/// Patterns that match neither a measured nor a recorded kernel: a misspelt one would check nothing.
fn unmatched_patterns(check: &Check<'_>) -> Vec<Finding> {
    let mut known: Vec<(&str, &str, [String; 2])> = Vec::new();
    let measured = check.measured.iter().map(|measured| &measured.unit);
    for unit in measured.clone().chain(&check.baseline.units) {
        known.extend(unit.kernels.iter().map(|kernel| (&*unit.input, &*unit.arch, kernel.names())));
    }
    let mut findings = Vec::new();
    for (table, selector) in check.policy.selectors() {
        if !known.iter().any(|(input, arch, names)| selector.matches(input, arch, names)) {
            let message =
                format!("{table} {selector} matches no kernel, measured or recorded: is it misspelt or out of date?");
            findings.push(finding(FindingKind::NoMatch, Level::Error, message));
        }
    }
    let measured: Vec<[String; 2]> = measured.flat_map(|unit| &unit.kernels).map(KernelFigures::names).collect();
    for glob in check.scope.kernels {
        if !measured.iter().flatten().any(|name| glob.matches(name)) {
            let message = format!("--kernel {glob} matches no kernel of any input");
            findings.push(finding(FindingKind::NoMatch, Level::Error, message));
        }
    }
    findings
}

/// Allowances whose day has passed and that nothing needed: they can go.
fn idle_expired(check: &Check<'_>, findings: &[Finding]) -> Vec<Finding> {
    let expired = check.policy.allowances.iter().filter(|allowance| allowance.expires < check.today);
    let idle = expired.filter(|allowance| {
        let told = format!("expired on {}", allowance.expires);
        !findings.iter().any(|finding| finding.message.contains(&told))
    });
    let message = |allowance: &Allowance| {
        format!("[[allow]] {} expired on {} and nothing needs it: remove it", allowance.selector, allowance.expires)
    };
    idle.map(|allowance| finding(FindingKind::ExpiredAllowance, Level::Warning, message(allowance))).collect()
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

    fn gone(&mut self, gone: &KernelFigures) -> Comparison {
        self.totals.removed += 1;
        let level = level(self.check.policy.removed);
        let message = format!("{} is recorded and no longer there; --update forgets it", gone.demangled());
        self.say(FindingKind::RemovedKernel, level, message).kernel = Some(gone.name.clone());
        let patch = Patch { before: Some(Baseline::kernel_text(gone)), after: None };
        Comparison { patch: Some(patch), ..comparison(gone) }
    }

    /// Checks one kernel; a row where there is something to see.
    fn kernel(
        &mut self,
        kernel: &KernelFigures,
        place: &KernelPlace,
        before: Option<&KernelFigures>,
        how: How,
    ) -> Option<Comparison> {
        let names = kernel.names();
        let title = names[1].clone();
        let said = self.findings.len();
        let empty = KernelFigures::default();
        match before {
            None => {
                self.totals.new += 1;
                let message = format!("{title} is not recorded; --update records it");
                let level = level(self.check.policy.new);
                self.say(FindingKind::NewKernel, level, message).ptx_line = place.ptx_line;
            }
            Some(before) => {
                self.totals.compared += 1;
                if how == How::Renamed {
                    self.totals.renamed += 1;
                    let message =
                        format!("{title} was recorded as {}; --update records the new name", before.demangled());
                    let level = level(self.check.policy.renamed);
                    self.say(FindingKind::RenamedKernel, level, message).ptx_line = place.ptx_line;
                }
            }
        }
        let mut figures = Vec::new();
        for metric in Metric::ALL {
            let (was, is) = (before.and_then(|before| before.figures.get(metric)), kernel.figures.get(metric));
            if before.is_some() {
                let change = self.compare(metric, was, is, &names, place);
                if change != Change::Same {
                    figures.push(FigureChange::new(metric, was, is, change));
                }
            } else if is.is_some_and(|is| is > 0) {
                figures.push(FigureChange::new(metric, None, is, Change::Same));
            }
        }
        self.budgets(kernel, &names, place);
        if let Some(before) = before {
            self.setmaxnreg(before, kernel, place);
            let line = place.ptx_line;
            self.new_messages(&before.advisories, &kernel.advisories, Some(&names), line);
            self.new_issues(&before.findings, &kernel.findings, &names, line);
        } else {
            self.new_issues(&empty.findings, &kernel.findings, &names, place.ptx_line);
        }
        let failed = self.findings[said..].iter().any(|finding| finding.level >= Level::Failure);
        let better: Vec<&FigureChange> = figures.iter().filter(|figure| figure.change == Change::Better).collect();
        if failed {
            self.totals.failed += 1;
        } else if !better.is_empty() {
            self.totals.improved += 1;
            let what: Vec<String> = better
                .iter()
                .map(|figure| format!("{} {} → {}", figure.title, shown(figure.before), shown(figure.after)))
                .collect();
            let ratchet = self.check.ratchet;
            let advice = if ratchet { ": record it with --update" } else { "" };
            let message = format!("{title} is better than recorded ({}){advice}", what.join(", "));
            let level = if ratchet { Level::Failure } else { Level::Note };
            self.totals.failed += u64::from(ratchet);
            self.say(FindingKind::Improvement, level, message).ptx_line = place.ptx_line;
        }
        for finding in &mut self.findings[said..] {
            finding.kernel = Some(kernel.name.clone());
        }
        if self.findings.len() == said && figures.is_empty() {
            return None;
        }
        let patch = Patch { before: before.map(Baseline::kernel_text), after: Some(Baseline::kernel_text(kernel)) };
        Some(Comparison {
            before_name: before.map(|before| before.name.clone()).filter(|name| *name != kernel.name),
            figures,
            patch: (patch.before != patch.after).then_some(patch),
            ..comparison(kernel)
        })
    }

    fn compare(
        &mut self,
        metric: Metric,
        was: Option<u64>,
        is: Option<u64>,
        names: &[String; 2],
        place: &KernelPlace,
    ) -> Change {
        let unit = &self.measured.unit;
        let Some(tolerance) = self.check.policy.tolerance(metric, &unit.input, &unit.arch, names) else {
            return Change::Same;
        };
        match (was, is) {
            (None, None) => Change::Same,
            (Some(was), None) => {
                let message = format!(
                    "{}: {} was {was} and is not known any more, so it cannot be compared; if that is to be accepted, --update",
                    names[1],
                    metric.title()
                );
                let said = self.say(FindingKind::NotKnown, Level::Error, message);
                (said.metric, said.before, said.ptx_line) = (Some(metric.name().to_owned()), Some(was), place.ptx_line);
                Change::Unknown
            }
            (None, Some(is)) => {
                if self.check.ratchet {
                    let message = format!("{}: {} is {is} and not recorded: --update", names[1], metric.title());
                    let said = self.say(FindingKind::Improvement, Level::Failure, message);
                    (said.metric, said.after) = (Some(metric.name().to_owned()), Some(is));
                }
                Change::Same
            }
            (Some(was), Some(is)) if was == is => Change::Same,
            (Some(was), Some(is)) => match metric.loss(was, is) {
                0 => Change::Better,
                loss if tolerance.covers(was, loss) => Change::Tolerated,
                _ => {
                    let message = format!("{}: {} {was} → {is}", names[1], metric.title());
                    let verdict = self.allowed(Some(metric), None, Some(is), names, message);
                    let worse = verdict.1 >= Level::Failure;
                    let said = self.say(
                        if worse { FindingKind::Regression } else { FindingKind::Allowed },
                        verdict.1,
                        verdict.0,
                    );
                    (said.metric, said.before, said.after) = (Some(metric.name().to_owned()), Some(was), Some(is));
                    said.ptx_line = line_for(metric, place);
                    if worse { Change::Worse } else { Change::Tolerated }
                }
            },
        }
    }

    fn budgets(&mut self, kernel: &KernelFigures, names: &[String; 2], place: &KernelPlace) {
        let unit = &self.measured.unit;
        let budgets: Vec<_> = self.check.policy.budgets(&unit.input, &unit.arch, names).cloned().collect();
        for budget in budgets {
            let metric = budget.metric;
            let (kind, level, message) = match kernel.figures.get(metric) {
                Some(value) if budget.holds(value) => continue,
                Some(value) => {
                    let message = format!("{}: {} is {value}, the budget is {budget}", names[1], metric.title());
                    let (message, level) = self.allowed(Some(metric), None, Some(value), names, message);
                    let kind = if level >= Level::Failure { FindingKind::Budget } else { FindingKind::Allowed };
                    (kind, level, message)
                }
                // Registers, occupancy and shared memory are the kernel's, not those of a function inside it.
                None if kernel.within.is_some() => continue,
                None => {
                    let message = format!("{}: {} is not known, the budget is {budget}", names[1], metric.title());
                    (FindingKind::NotKnown, Level::Error, message)
                }
            };
            let after = kernel.figures.get(metric);
            let said = self.say(kind, level, message);
            (said.metric, said.after, said.ptx_line) = (Some(metric.name().to_owned()), after, line_for(metric, place));
        }
    }

    fn setmaxnreg(&mut self, before: &KernelFigures, after: &KernelFigures, place: &KernelPlace) {
        let (Some(was), is) = (&before.setmaxnreg, &after.setmaxnreg) else { return };
        if Some(was) == is.as_ref() {
            return;
        }
        let (kind, level, now) = match is {
            None => (FindingKind::NotKnown, Level::Error, "not known"),
            Some(is) => (FindingKind::Setmaxnreg, Level::Failure, is.as_str()),
        };
        let message = format!("{}: setmaxnreg was {was} and is {now}", after.demangled());
        self.say(kind, level, message).ptx_line = place.ptx_line;
    }

    /// Messages of ptxas that the baseline has not, or has fewer of.
    fn new_messages(
        &mut self,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
        names: Option<&[String; 2]>,
        line: Option<Line>,
    ) {
        for (code, count) in after {
            let recorded = before.get(code).copied().unwrap_or(0);
            if *count <= recorded || self.check.policy.deny.contains(code) {
                continue;
            }
            let message = self.measured.messages.iter().find(|message| {
                label_of(message) == Some(code)
                    && names.is_none_or(|names| message.kernel.as_deref() == Some(&names[0]))
            });
            let what = message.map(|message| message.message.clone()).unwrap_or_default();
            let line = message.and_then(|message| message.ptx_line).or(line);
            let of = names.map(|names| format!("{}: ", names[1])).unwrap_or_default();
            let text = format!("{of}ptxas says {code} {count}×, recorded {recorded}×: {what}");
            let nobody = [String::new(), String::new()];
            let (text, allowed) = self.allowed(None, Some(code), None, names.unwrap_or(&nobody), text);
            let level = level(self.check.policy.advisories).min(allowed);
            let kind = if allowed < Level::Failure { FindingKind::Allowed } else { FindingKind::NewAdvisory };
            self.say(kind, level, text).ptx_line = line;
        }
    }

    fn new_issues(
        &mut self,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
        names: &[String; 2],
        line: Option<Line>,
    ) {
        for (kind, count) in after {
            let recorded = before.get(kind).copied().unwrap_or(0);
            if *count > recorded {
                let text = format!("{}: {kind} {count}×, recorded {recorded}×", names[1]);
                let (text, level) = self.allowed(None, Some(kind), None, names, text);
                let kind = if level >= Level::Failure { FindingKind::NewFinding } else { FindingKind::Allowed };
                self.say(kind, level, text).ptx_line = line;
            }
        }
    }

    /// Messages that are denied, recorded or not.
    fn denied(&mut self) {
        let deny = &self.check.policy.deny;
        let has = |word: &str| deny.iter().any(|denied| denied == word);
        let (warnings, advisories) = (has("WARNINGS"), has("ADVISORIES"));
        for message in &self.measured.messages {
            let label = label_of(message);
            let denied = label.is_some_and(|label| has(&label.to_ascii_uppercase()))
                || warnings && message.severity >= Severity::Warning
                || advisories && label.is_some();
            if !denied {
                continue;
            }
            let name = message.kernel.clone().unwrap_or_default();
            let names = [name.clone(), crate::report::demangle(&name).unwrap_or_else(|| name.clone())];
            let of = if name.is_empty() { String::new() } else { format!("{}: ", names[1]) };
            let text = format!("{of}ptxas says {}: {}", label.unwrap_or("warning"), message.message);
            let (text, level) = self.allowed(None, label, None, &names, text);
            let kind = if level >= Level::Failure { FindingKind::DeniedCode } else { FindingKind::Allowed };
            let said = self.say(kind, level, text);
            said.ptx_line = message.ptx_line;
            said.kernel = message.kernel.clone();
        }
    }

    /// Whether an allowance lets something pass; the message with what there is to say of it.
    fn allowed(
        &self,
        metric: Option<Metric>,
        code: Option<&str>,
        value: Option<u64>,
        names: &[String; 2],
        message: String,
    ) -> (String, Level) {
        let unit = &self.measured.unit;
        let covers = |allowance: &&Allowance| {
            let code = code.map(str::to_ascii_uppercase);
            let within = match (metric, allowance.up_to, value) {
                (Some(metric), Some(most), Some(value)) => metric.loss(most, value) == 0,
                _ => true,
            };
            let same = allowance.metric == metric && allowance.code == code;
            same && within && allowance.selector.matches(&unit.input, &unit.arch, names)
        };
        let all: Vec<&Allowance> = self.check.policy.allowances.iter().filter(covers).collect();
        if let Some(valid) = all.iter().find(|allowance| allowance.expires >= self.check.today) {
            return (format!("{message} (allowed until {}: {})", valid.expires, valid.reason), Level::Note);
        }
        match all.first() {
            Some(old) => {
                (format!("{message} (the allowance expired on {}: {})", old.expires, old.reason), Level::Failure)
            }
            None => (message, Level::Failure),
        }
    }
}

fn comparison(kernel: &KernelFigures) -> Comparison {
    Comparison {
        kernel: kernel.name.clone(),
        demangled: kernel.demangled(),
        before_name: None,
        figures: Vec::new(),
        lines: Vec::new(),
        lines_from: None,
        patch: None,
    }
}

fn shown(value: Option<u64>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}

/// The line to look at for a metric.
fn line_for(metric: Metric, place: &KernelPlace) -> Option<Line> {
    let specific = match metric {
        Metric::SpillStoreBytes | Metric::SpillLoadBytes | Metric::SpillInstructions | Metric::StackBytes => {
            place.spill_line
        }
        Metric::Registers | Metric::PeakLive | Metric::WarpsPerSm => place.peak_line,
        _ => None,
    };
    specific.or(place.ptx_line)
}
