//! One kernel: its figures against the record, its budgets, what became of setmaxnreg.

use super::super::baseline::Baseline;
use super::super::figures::{KernelFigures, KernelPlace, SETMAXNREG_UNKNOWN, title};
use super::super::metric::Metric;
use super::super::verdict::*;
use super::{UnitCheck, level};
use crate::base::Line;
use crate::base::figures::thousands;
use crate::compare::{How, LoopChange, loop_changes};

impl UnitCheck<'_> {
    pub(super) fn gone(&mut self, gone: &KernelFigures) -> Comparison {
        self.totals.removed += 1;
        let level = level(self.check.policy.removed);
        let message = format!("{} is recorded and no longer there; --update forgets it", gone.title());
        self.say(FindingKind::RemovedKernel, level, message).kernel = Some(gone.name.clone());
        let patch = Patch { before: Some(Baseline::kernel_text(gone)), after: None };
        Comparison { patch: Some(patch), ..comparison(gone) }
    }

    /// Checks one kernel; a row where there is something to see.
    pub(super) fn kernel(
        &mut self,
        kernel: &KernelFigures,
        place: &KernelPlace,
        before: Option<&KernelFigures>,
        how: How,
    ) -> Option<Comparison> {
        let names = kernel.names();
        let title = title(&names);
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
                    let message = format!("{title} was recorded as {}; --update records the new name", before.title());
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
        let loops = before.map(|before| self.loops(before, kernel, &names)).unwrap_or_default();
        if let Some(before) = before {
            self.setmaxnreg(before, kernel, place);
            let line = place.ptx_line;
            self.new_messages(&before.advisories, &kernel.advisories, Some(&names), line);
        }
        self.new_issues(&before.unwrap_or(&empty).findings, place, &names);
        self.denied_issues(place, &names);
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
        if self.findings.len() == said && figures.is_empty() && loops.is_empty() {
            return None;
        }
        let patch = Patch { before: before.map(Baseline::kernel_text), after: Some(Baseline::kernel_text(kernel)) };
        Some(Comparison {
            before_name: before.map(|before| before.name.clone()).filter(|name| *name != kernel.name),
            figures,
            loops,
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
                    "{}: {} was {} and is not known any more, so it cannot be compared{}; if that is to be accepted, --update",
                    title(names),
                    metric.title(),
                    thousands(was),
                    what_to_state(metric, place)
                );
                let said = self.say(FindingKind::NotKnown, Level::Error, message);
                (said.metric, said.before, said.ptx_line) = (Some(metric.name().to_owned()), Some(was), place.ptx_line);
                Change::Unknown
            }
            (None, Some(is)) => {
                if self.check.ratchet {
                    let message =
                        format!("{}: {} is {} and not recorded: --update", title(names), metric.title(), thousands(is));
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
                    let line = line_for(metric, place);
                    self.worse(metric, was, is, metric.title(), names, line)
                }
            },
        }
    }

    /// Says that a figure is worse than the tolerance allows, unless the policy lets it pass.
    fn worse(
        &mut self,
        metric: Metric,
        was: u64,
        is: u64,
        what: &str,
        names: &[String; 2],
        line: Option<Line>,
    ) -> Change {
        let message = format!("{}: {what} {} → {}", title(names), thousands(was), thousands(is));
        let verdict = self.allowed(Some(metric), None, Some(is), names, message);
        let worse = verdict.1 >= Level::Failure;
        let kind = if worse { FindingKind::Regression } else { FindingKind::Allowed };
        let said = self.say(kind, verdict.1, verdict.0);
        (said.metric, said.before, said.after) = (Some(metric.name().to_owned()), Some(was), Some(is));
        said.ptx_line = line;
        if worse { Change::Worse } else { Change::Tolerated }
    }

    /// The loops that both have and whose cycles moved. The hottest of both is a figure of its own, and judged there.
    fn loops(&mut self, before: &KernelFigures, after: &KernelFigures, names: &[String; 2]) -> Vec<LoopChange> {
        let unit = &self.measured.unit;
        let metric = Metric::LoopCycles;
        let Some(tolerance) = self.check.policy.tolerance(metric, &unit.input, &unit.arch, names) else {
            return Vec::new();
        };
        let mut changes = loop_changes(&before.loops, &after.loops);
        changes.retain(|change| change.before != change.after);
        for change in changes.iter().filter(|change| !change.hottest) {
            let loss = metric.loss(change.before, change.after);
            if loss == 0 || tolerance.covers(change.before, loss) {
                continue;
            }
            let place = change.after_line.map_or_else(String::new, |line| format!(" at line {line}"));
            let what = format!("cycles of the loop{place}");
            self.worse(metric, change.before, change.after, &what, names, change.after_line);
        }
        changes
    }

    fn budgets(&mut self, kernel: &KernelFigures, names: &[String; 2], place: &KernelPlace) {
        let unit = &self.measured.unit;
        let budgets: Vec<_> = self.check.policy.budgets(&unit.input, &unit.arch, names).collect();
        for budget in budgets {
            let metric = budget.metric;
            let (kind, level, message) = match kernel.figures.get(metric) {
                Some(value) if budget.holds(value) => continue,
                Some(value) => {
                    let message =
                        format!("{}: {} is {}, the budget is {budget}", title(names), metric.title(), thousands(value));
                    let (message, level) = self.allowed(Some(metric), None, Some(value), names, message);
                    let kind = if level >= Level::Failure { FindingKind::Budget } else { FindingKind::Allowed };
                    (kind, level, message)
                }
                // Registers, occupancy and shared memory are the kernel's, not those of a function inside it.
                None if kernel.within.is_some() => continue,
                None => {
                    let message = format!(
                        "{}: {} is not known, the budget is {budget}{}",
                        title(names),
                        metric.title(),
                        what_to_state(metric, place)
                    );
                    (FindingKind::NotKnown, Level::Error, message)
                }
            };
            let after = kernel.figures.get(metric);
            let said = self.say(kind, level, message);
            (said.metric, said.after, said.ptx_line) = (Some(metric.name().to_owned()), after, line_for(metric, place));
        }
    }

    fn setmaxnreg(&mut self, before: &KernelFigures, after: &KernelFigures, place: &KernelPlace) {
        let known = |figures: &KernelFigures| figures.setmaxnreg.clone().filter(|is| is != SETMAXNREG_UNKNOWN);
        let Some(was) = known(before) else { return };
        if before.setmaxnreg == after.setmaxnreg {
            return;
        }
        let (kind, level, now) = match (&after.setmaxnreg, known(after)) {
            (None, _) => (FindingKind::Setmaxnreg, Level::Failure, "the kernel has none now".to_owned()),
            (Some(_), None) => (FindingKind::NotKnown, Level::Error, "it is not known what became of it".to_owned()),
            (_, Some(is)) => (FindingKind::Setmaxnreg, Level::Failure, format!("is {is}")),
        };
        let message = format!("{}: setmaxnreg was {was} and {now}", after.title());
        self.say(kind, level, message).ptx_line = place.setmaxnreg_line.or(place.ptx_line);
    }
}

fn comparison(kernel: &KernelFigures) -> Comparison {
    Comparison {
        kernel: kernel.name.clone(),
        demangled: kernel.demangled(),
        before_name: None,
        figures: Vec::new(),
        loops: Vec::new(),
        lines: Vec::new(),
        lines_from: None,
        patch: None,
    }
}

/// `; the launch decides: state smem_dynamic …`: what makes an occupancy known.
fn what_to_state(metric: Metric, place: &KernelPlace) -> String {
    if !matches!(metric, Metric::WarpsPerSm | Metric::LoopCycles) || place.missing.is_empty() {
        return String::new();
    }
    let settings: Vec<&str> = place.missing.iter().map(|fact| fact.setting()).collect();
    let flags: Vec<&str> = place.missing.iter().map(|fact| fact.flag()).collect();
    format!(
        ": it depends on the launch; state {} in ptxinspect.toml, or give {}",
        settings.join(" and "),
        flags.join(" and ")
    )
}

fn shown(value: Option<u64>) -> String {
    value.map_or("?".to_owned(), thousands)
}

/// The line to look at for a metric.
fn line_for(metric: Metric, place: &KernelPlace) -> Option<Line> {
    let specific = match metric {
        Metric::SpillStoreBytes | Metric::SpillLoadBytes | Metric::SpillInstructions | Metric::StackBytes => {
            place.spill_line
        }
        Metric::Registers | Metric::PeakLive | Metric::WarpsPerSm => place.peak_line,
        Metric::LoopCycles => place.loop_line,
        _ => None,
    };
    specific.or(place.ptx_line)
}
