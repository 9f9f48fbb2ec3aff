//! What ptxas says and what the analyses find, against the record, the deny list and the allowances.

use std::collections::BTreeMap;

use super::super::denial::Denial;
use super::super::figures::{KernelPlace, issue_label, label_of, title};
use super::super::metric::Metric;
use super::super::policy::Allowance;
use super::super::verdict::*;
use super::{UnitCheck, level};
use crate::base::Line;
use crate::report::{Confidence, Issue, Severity};

impl UnitCheck<'_> {
    /// Messages of ptxas that the baseline has not, or has fewer of.
    pub(super) fn new_messages(
        &mut self,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
        names: Option<&[String; 2]>,
        line: Option<Line>,
    ) {
        for (code, count) in after {
            let recorded = before.get(code).copied().unwrap_or(0);
            if *count <= recorded || self.denies(code) {
                continue;
            }
            let message = self.measured.messages.iter().find(|message| {
                label_of(message) == Some(code)
                    && names.is_none_or(|names| message.kernel.as_deref() == Some(&names[0]))
            });
            let what = message.map(|message| message.message.clone()).unwrap_or_default();
            let line = message.and_then(|message| message.ptx_line).or(line);
            let of = names.map(|names| format!("{}: ", title(names))).unwrap_or_default();
            let text = format!("{of}ptxas says {code} {count}×, recorded {recorded}×: {what}");
            let nobody = [String::new(), String::new()];
            let (text, allowed) = self.allowed(None, Some(code), None, names.unwrap_or(&nobody), text);
            let level = level(self.check.policy.advisories).min(allowed);
            let kind = if allowed < Level::Failure { FindingKind::Allowed } else { FindingKind::NewAdvisory };
            self.say(kind, level, text).ptx_line = line;
        }
    }

    /// Findings of the checks that the baseline has not, or has fewer of.
    pub(super) fn new_issues(&mut self, before: &BTreeMap<String, u64>, place: &KernelPlace, names: &[String; 2]) {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for issue in &place.issues {
            let label = issue_label(issue);
            let recorded = before.get(&label).copied().unwrap_or(0);
            let count = seen.entry(label).or_default();
            *count += 1;
            if *count <= recorded || self.denies_issue(issue) {
                continue;
            }
            let said = level(self.check.policy.findings);
            // What only may be wrong is said and does not fail.
            let said = if issue.confidence == Confidence::Possible { said.min(Level::Warning) } else { said };
            self.issue(FindingKind::NewFinding, said, issue, names, place);
        }
    }

    /// Findings that are denied, recorded or not.
    pub(super) fn denied_issues(&mut self, place: &KernelPlace, names: &[String; 2]) {
        for issue in place.issues.iter().filter(|issue| self.denies_issue(issue)).collect::<Vec<_>>() {
            self.issue(FindingKind::DeniedCode, Level::Failure, issue, names, place);
        }
    }

    fn denies_issue(&self, issue: &Issue) -> bool {
        let sure = issue.confidence > Confidence::Possible;
        let warnings = self.check.policy.deny.contains(&Denial::Warnings);
        self.denies(&issue.code) || warnings && sure && issue.severity >= Severity::Warning
    }

    /// Whether a code itself is denied.
    fn denies(&self, code: &str) -> bool {
        self.check.policy.deny.iter().any(|denial| matches!(denial, Denial::Code(denied) if *denied == code))
    }

    fn issue(&mut self, kind: FindingKind, said: Level, issue: &Issue, names: &[String; 2], place: &KernelPlace) {
        let text = format!("{}: {} ({}) {}", title(names), issue.code, issue.confidence.word(), issue.message);
        let (text, allowed) = self.allowed(None, Some(&issue.code), None, names, text);
        let kind = if allowed < Level::Failure { FindingKind::Allowed } else { kind };
        let said = self.say(kind, said.min(allowed), text);
        said.ptx_line = issue.ptx_line.or(place.ptx_line);
        said.witness.clone_from(&issue.witness);
        said.mend.clone_from(&issue.mend);
    }

    /// Messages that are denied, recorded or not.
    pub(super) fn denied(&mut self) {
        let has = |denial| self.check.policy.deny.contains(&denial);
        let (warnings, advisories) = (has(Denial::Warnings), has(Denial::Advisories));
        for message in &self.measured.messages {
            let label = label_of(message);
            let denied = label.is_some_and(|label| self.denies(label))
                || warnings && message.severity >= Severity::Warning
                || advisories && label.is_some();
            let name = message.kernel.clone().unwrap_or_default();
            let elsewhere = !name.is_empty() && !self.check.scope.has_name(&name);
            if !denied || elsewhere {
                continue;
            }
            let names = [name.clone(), crate::report::demangle(&name).unwrap_or_else(|| name.clone())];
            let of = if name.is_empty() { String::new() } else { format!("{}: ", title(&names)) };
            let text = format!("{of}ptxas says {}: {}", label.unwrap_or("warning"), message.message);
            let (text, level) = self.allowed(None, label, None, &names, text);
            let kind = if level >= Level::Failure { FindingKind::DeniedCode } else { FindingKind::Allowed };
            let said = self.say(kind, level, text);
            said.ptx_line = message.ptx_line;
            said.kernel = message.kernel.clone();
        }
    }

    /// Whether an allowance lets something pass; the message with what there is to say of it.
    pub(super) fn allowed(
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
