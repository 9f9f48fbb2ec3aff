//! Which findings are denied.

use crate::gate::{Denial, Metric};
use crate::report::{Advisory, Issue, Kernel, Report, Severity};

/// What `--deny` and `--allow` say.
pub struct Deny {
    denied: Vec<Denial>,
    allowed: Vec<Denial>,
}

/// Something of a report that is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// What of it: a code, or a figure with its value.
    pub what: String,
    /// The kernel, or the input where no kernel is named, and the PTX line where there is one.
    pub place: String,
}

/// What a report has that is denied, and what it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenyVerdict {
    /// In the order of the report.
    pub denied: Vec<Denied>,
    /// Figures that are denied and not known.
    pub not_known: Vec<Denied>,
}

impl Deny {
    /// Codes, or words that stand for several; and codes that pass all the same.
    pub fn new(deny: &[String], allow: &[String]) -> Result<Self, String> {
        let parsed = |flag: &str, texts: &[String]| {
            let one = |text: &String| text.parse().map_err(|error| format!("{flag}: {error}"));
            texts.iter().map(one).collect::<Result<Vec<Denial>, String>>()
        };
        Ok(Deny { denied: parsed("--deny", deny)?, allowed: parsed("--allow", allow)? })
    }

    /// What of a report is denied.
    pub fn verdict(&self, report: &Report) -> DenyVerdict {
        let mut verdict = DenyVerdict::default();
        for unit in &report.units {
            for advisory in unit.advisories.iter().filter(|advisory| self.denies_advisory(advisory)) {
                let what = advisory.code.clone().unwrap_or_else(|| "a warning of ptxas".to_owned());
                let place = place(advisory.kernel.as_deref().unwrap_or(&unit.input), advisory.ptx_line);
                verdict.denied.push(Denied { what, place });
            }
            for kernel in &unit.kernels {
                let issues = kernel.barriers.iter().flat_map(|found| &found.issues);
                for issue in issues.filter(|issue| self.denies_issue(issue)) {
                    let place = place(&kernel.name, issue.ptx_line);
                    verdict.denied.push(Denied { what: issue.code.clone(), place });
                }
                self.figures(kernel, &mut verdict);
            }
        }
        verdict
    }

    fn allows(&self, denial: Denial) -> bool {
        self.allowed.contains(&denial)
    }

    fn figures(&self, kernel: &Kernel, verdict: &mut DenyVerdict) {
        for denial in self.denied.iter().filter(|denial| !self.allows(**denial)) {
            let figures: Vec<(Metric, Option<u64>)> =
                denial.metrics().iter().map(|metric| (*metric, metric.of(kernel))).collect();
            let found = |what: String| Denied { what, place: kernel.name.clone() };
            match figures.iter().find(|(_, value)| value.is_some_and(|value| value > 0)) {
                Some((metric, Some(value))) => verdict.denied.push(found(format!("{} {value}", metric.title()))),
                // A function inside a kernel has no figures of its own where the kernel's count for it.
                _ if kernel.within.is_some() || figures.is_empty() => {}
                _ if figures.iter().all(|(_, value)| value.is_none()) => {
                    verdict.not_known.push(found(denial.to_string()))
                }
                _ => {}
            }
        }
    }

    fn denies(&self, code: Option<&str>) -> bool {
        self.denied.iter().any(|denial| matches!(denial, Denial::Code(denied) if Some(*denied) == code))
    }

    fn passes(&self, code: Option<&str>, severity: Severity) -> bool {
        self.allowed.iter().any(|denial| matches!(denial, Denial::Code(allowed) if Some(*allowed) == code))
            || self.allows(Denial::Warnings) && severity == Severity::Warning
    }

    fn denies_issue(&self, issue: &Issue) -> bool {
        let code = Some(issue.code.as_str());
        let warnings = self.denied.contains(&Denial::Warnings);
        !self.passes(code, issue.severity) && (self.denies(code) || warnings && issue.severity >= Severity::Warning)
    }

    fn denies_advisory(&self, advisory: &Advisory) -> bool {
        let code = advisory.code.as_deref();
        let warning = advisory.severity >= Severity::Warning;
        !self.passes(code, advisory.severity)
            && (self.denies(code)
                || self.denied.contains(&Denial::Warnings) && warning
                || self.denied.contains(&Denial::Advisories) && (code.is_some() || warning))
    }
}

fn place(name: &str, line: Option<crate::base::Line>) -> String {
    line.map_or_else(|| name.to_owned(), |line| format!("{name}, line {line}"))
}
