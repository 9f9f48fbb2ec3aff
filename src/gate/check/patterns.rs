//! What the policy speaks of and nothing answers to.

use super::super::figures::KernelFigures;
use super::super::policy::Allowance;
use super::super::verdict::{Finding, FindingKind, Level};
use super::{Check, finding};

/// Patterns that match neither a measured nor a recorded kernel: a misspelt one would check nothing.
pub(super) fn unmatched(check: &Check<'_>) -> Vec<Finding> {
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
pub(super) fn idle_expired(check: &Check<'_>, findings: &[Finding]) -> Vec<Finding> {
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
