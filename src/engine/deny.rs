//! Which findings are denied.

use crate::report::{Advisory, Issue, Report, Severity};

/// What `--deny` and `--allow` say.
pub struct Deny {
    codes: Vec<String>,
    warnings: bool,
    advisories: bool,
    allowed: Vec<String>,
}

impl Deny {
    /// Codes, or `warnings` or `advisories`; and codes that pass all the same.
    pub fn new(deny: &[String], allow: &[String]) -> Self {
        let upper = |codes: &[String]| codes.iter().map(|code| code.trim().to_ascii_uppercase()).collect::<Vec<_>>();
        let codes = upper(deny);
        let has = |word: &str| codes.iter().any(|code| code == word);
        Deny { warnings: has("WARNINGS"), advisories: has("ADVISORIES"), codes, allowed: upper(allow) }
    }

    /// Whether something in a report is denied.
    pub fn denies(&self, report: &Report) -> bool {
        report.units.iter().any(|unit| {
            let barriers = unit.kernels.iter().filter_map(|kernel| kernel.barriers.as_ref());
            unit.advisories.iter().any(|advisory| self.denies_advisory(advisory))
                || barriers.flat_map(|found| &found.issues).any(|issue| self.denies_issue(issue))
        })
    }

    fn denies_issue(&self, issue: &Issue) -> bool {
        let listed = |codes: &[String]| codes.contains(&issue.code);
        !listed(&self.allowed) && (listed(&self.codes) || self.warnings && issue.severity >= Severity::Warning)
    }

    fn denies_advisory(&self, advisory: &Advisory) -> bool {
        let code = advisory.code.as_deref();
        if code.is_some_and(|code| self.allowed.iter().any(|allowed| allowed == code)) {
            return false;
        }
        code.is_some_and(|code| self.codes.iter().any(|denied| denied == code))
            || self.warnings && advisory.severity >= Severity::Warning
            || self.advisories && (code.is_some() || advisory.severity >= Severity::Warning)
    }
}
