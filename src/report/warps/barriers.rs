//! Barriers and what checks found, as the report has them.

use std::collections::{BTreeSet, HashMap};

use super::join::{Known, block_size};
use super::model::*;
use super::warp_facts::{self, WarpFacts};
use crate::base::{Line, Pc};
use crate::ptx::{FunctionKind, Module, RegisterAction, Statement};
use crate::report::{Kernel, LaunchHints, Severity};
use crate::sync::rules::finding::{self, Finding};
use crate::sync::rules::rule::{Harm, Rule, Told};

/// Fills in `barriers`.
pub(super) fn barriers(kernel: &Kernel, known: &Known<'_>, warp_facts: &WarpFacts, module: &Module<'_>) -> Barriers {
    let mut checks = setmaxnreg(kernel, warp_facts, module);
    // The pool was executed for the registers that the directives leave. Where ptxas drops setmaxnreg there is none, and its
    // arithmetic says more.
    let kept = kernel.setmaxnreg.as_ref().is_some_and(|found| found.honoured == Some(true));
    let told = checks.iter().any(|check| check.rule == Rule::PoolSuffices);
    let is_told = |check: &&Finding| match check.rule {
        Rule::PoolSuffices => kept && !told,
        Rule::ToFewerOrMore => kept,
        _ => true,
    };
    checks.extend(warp_facts.checks.iter().filter(is_told).cloned());
    checks.extend(pragmas(known, module));
    checks.sort_by_key(|check| (check.line, check.rule));
    let mut of_line: HashMap<Line, Vec<Pc>> = HashMap::new();
    for record in &known.section.function.mbarriers {
        if let Some(line) = known.section.ptx_line(record.pc) {
            of_line.entry(line).or_default().push(record.pc);
        }
    }
    let placed = |site: &MbarrierSite| {
        let pcs = of_line.get(&site.ptx_line).cloned().unwrap_or_default();
        MbarrierSite { pcs, ..site.clone() }
    };
    Barriers {
        declared: kernel.resources.barriers,
        free_ids: warp_facts.free_ids.clone(),
        named: warp_facts.named.clone(),
        unresolved: warp_facts.unresolved.clone(),
        inserted: inserted(known, warp_facts),
        mbarriers: Mbarriers {
            declared: known.section.function.mbarrier_count,
            sites: warp_facts.mbarriers.iter().map(placed).collect(),
        },
        cluster: warp_facts.cluster.clone(),
        asynchronous: warp_facts.asynchronous.clone(),
        execution: warp_facts.execution.clone(),
        issues: checks.into_iter().map(|check| issue(check, warp_facts, module)).collect(),
    }
}

/// The BAR instructions on lines that have no named barrier.
fn inserted(known: &Known<'_>, warp_facts: &WarpFacts) -> Vec<InsertedBarrier> {
    let Some(code) = known.section.code.as_ref() else { return Vec::new() };
    let sites = warp_facts.named.iter().flat_map(|barrier| &barrier.sites).chain(&warp_facts.unresolved);
    let lines: BTreeSet<Line> = sites.map(|site| site.ptx_line).collect();
    let mut found = Vec::new();
    for (pc, instruction) in code.named("BAR", known.ranges) {
        let ptx_line = known.section.ptx_line(pc);
        if ptx_line.is_some_and(|line| lines.contains(&line)) {
            continue;
        }
        let mut text = String::new();
        code.decoder().text(&instruction, pc, &mut text);
        found.push(InsertedBarrier { pc, ptx_line, text });
    }
    found
}

/// What the checks find in PTX that ptxas refuses, possible findings left out. A kernel that they take long for is passed over: what ptxas
/// says comes first.
pub(in crate::report) fn without_cubin(module: &Module<'_>, launch: &LaunchHints) -> Vec<Issue> {
    let mut found = Vec::new();
    for function in module.functions().filter(|function| function.is_definition()) {
        let header = function.header();
        if function.kind() != FunctionKind::Entry {
            continue;
        }
        let size = block_size(header.required_threads(), header.max_threads(), launch);
        let Ok(warp_facts) = WarpFacts::new(&function, size, launch.effort, warp_facts::steps(&function, true)) else {
            continue;
        };
        let mut checks = warp_facts.checks.clone();
        checks.sort_by_key(|check| (check.line, check.rule));
        checks.retain(|check| check.confidence > finding::Confidence::Possible);
        found.extend(checks.into_iter().map(|check| issue(check, &warp_facts, module)));
    }
    found
}

fn issue(check: Finding, warp_facts: &WarpFacts, module: &Module<'_>) -> Issue {
    let confidence = match check.confidence {
        finding::Confidence::Possible => Confidence::Possible,
        finding::Confidence::Likely => Confidence::Likely,
        finding::Confidence::Certain => Confidence::Certain,
    };
    let at = (check.rule, check.line);
    let (mut message, mut reasoning) = (check.message, check.reasoning);
    if confidence == Confidence::Possible {
        message = doubted(message);
        if by_execution(warp_facts, at).is_some() {
            reasoning.push_str("; a real launch may never come to this");
        }
    }
    Issue {
        code: check.rule.code().to_owned(),
        severity: match (confidence, check.rule.harm()) {
            (Confidence::Possible, _) => Severity::Info,
            (Confidence::Certain, Harm::Fatal) => Severity::Error,
            _ => Severity::Warning,
        },
        confidence,
        ptx_line: Some(module.number_of(at.1)),
        source_line: None,
        message,
        reasoning,
        witness: witness(warp_facts, at, module),
        mend: by_execution(warp_facts, at).and_then(|found| found.mend.clone()),
    }
}

/// What a finding says, where it may be wrong.
fn doubted(message: String) -> String {
    message.strip_prefix(finding::HANGS).map(|rest| format!("the kernel may hang{rest}")).unwrap_or(message)
}

/// The execution that a finding was made by, or that shows what instructions tell.
fn by_execution(warp_facts: &WarpFacts, at: (Rule, Line)) -> Option<&Execution> {
    let is_shown = |found: (Rule, Line)| found == at || found.0 == at.0 && at.0.told() == Told::ReadFirst;
    warp_facts.execution.as_ref().filter(|_| warp_facts.executed.is_some_and(is_shown))
}

/// What a finding that execution made rests on, its own line first.
fn witness(warp_facts: &WarpFacts, at: (Rule, Line), module: &Module<'_>) -> Vec<Stands> {
    let mut witness = by_execution(warp_facts, at).map(|found| found.witness.clone()).unwrap_or_default();
    let line = module.number_of(at.1);
    witness.sort_by_key(|stands| stands.ptx_line != line);
    witness
}

/// What is wrong with setmaxnreg itself.
fn setmaxnreg(kernel: &Kernel, warp_facts: &WarpFacts, module: &Module<'_>) -> Vec<Finding> {
    let requested = &warp_facts.requested;
    let mut checks = Vec::new();
    let Some(found) = &kernel.setmaxnreg else { return checks };
    if let (Some(false), Some(first)) = (found.honoured, requested.first()) {
        let why = found.reason.as_deref().unwrap_or("ptxas does not say why");
        let fix = found.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        checks.push(Finding {
            rule: Rule::SetMaxNRegKept,
            confidence: finding::Confidence::Certain,
            line: first.line,
            message: "ptxas dropped every setmaxnreg of the kernel".to_owned(),
            reasoning: format!("the SASS has no USETMAXREG: {why}{fix}"),
        });
    }
    let stuck = found.pool.as_ref().and_then(|pool| pool.stuck_ptx_line);
    let takes = requested.iter().filter(|site| site.action == RegisterAction::Inc);
    let takes = takes.clone().find(|site| Some(module.number_of(site.line)) == stuck).or(takes.clone().next());
    let never = found.pool.as_ref().filter(|pool| pool.verdict == "never");
    if let Some((pool, site)) = never.zip(takes) {
        let told = kernel.roles.iter().flatten().all(|role| role.warp_ids.is_some());
        let condition = pool.condition.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        checks.push(Finding {
            rule: Rule::PoolSuffices,
            confidence: if warp_facts.exact && told && !warp_facts.by_memory && pool.condition.is_none() {
                finding::Confidence::Certain
            } else {
                finding::Confidence::Likely
            },
            line: site.line,
            message: "this setmaxnreg.inc can never get its registers: the kernel hangs".to_owned(),
            reasoning: format!("{}{condition}", pool.explanation),
        });
    }
    checks
}

/// Pragmas of a kernel that ptxas says it does nothing for: `Pragma 'nounrol' unsupported`. What it knows, it alone can say.
fn pragmas(known: &Known<'_>, module: &Module<'_>) -> Vec<Finding> {
    let Some((first, last)) = known.function.map(|function| function.lines()) else { return Vec::new() };
    let within = || module.statements().iter().filter(|statement| (first..=last).contains(&statement.first_line));
    let mut checks: Vec<Finding> = Vec::new();
    for (name, advisory) in known.advisories.iter().filter_map(|advisory| Some((ignored(&advisory.message)?, advisory)))
    {
        let is_named = |text: &str| text == name || text.split_whitespace().next() == Some(name);
        let named = |statement: &Statement| statement.strings(module.text()).find(|text| is_named(text));
        for (statement, text) in within().filter_map(|statement| Some((statement, named(statement)?))) {
            // A header is one statement of several lines.
            let before = (text.as_ptr() as usize).saturating_sub(statement.text(module.text()).as_ptr() as usize);
            let above = statement.text(module.text()).get(..before).unwrap_or("").matches('\n').count();
            let line = Line(statement.first_line.0 + above as u32);
            if checks.iter().any(|check| check.line == line) {
                continue;
            }
            checks.push(Finding {
                rule: Rule::DirectiveHeeded,
                confidence: finding::Confidence::Certain,
                line,
                message: format!("ptxas does nothing for the pragma \"{name}\""),
                reasoning: format!("it says: {}", advisory.message),
            });
        }
    }
    checks
}

/// The pragma that a message says is ignored.
fn ignored(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("Pragma ")?;
    if !message.ends_with("unsupported") && !message.contains("ignoring pragma") {
        return None;
    }
    match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'').map(|(name, _)| name),
        None => rest.split_whitespace().next(),
    }
}

#[cfg(test)]
mod tests {
    use super::{doubted, finding, ignored};

    #[test]
    fn pragmas_that_ptxas_ignores() {
        assert_eq!(ignored("Pragma 'unroll 4' unsupported"), Some("unroll 4"));
        assert_eq!(ignored("Pragma 'frequency' not supported on .func, ignoring pragma"), Some("frequency"));
        assert_eq!(ignored("Pragma nounroll requires a loop, ignoring pragma"), Some("nounroll"));
        assert_eq!(ignored("Pragma 'enable_smem_spilling' is not allowed for dynamic SMEM"), None);
    }

    #[test]
    fn what_is_possible_is_not_told_as_a_fact() {
        let told = |message: &str| doubted(message.to_owned());
        assert_eq!(told(&format!("{}: warp 0 waits", finding::HANGS)), "the kernel may hang: warp 0 waits");
        assert_eq!(told("barrier 1 is used with different counts"), "barrier 1 is used with different counts");
    }
}
