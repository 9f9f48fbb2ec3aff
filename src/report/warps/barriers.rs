//! Barriers and what checks found, as the report has them.

use std::collections::BTreeSet;

use super::join::Known;
use super::model::*;
use crate::analysis::check::{self, Check};
use crate::analysis::code::pcs;
use crate::analysis::setmaxnreg::Requested;
use crate::analysis::threads::{BlockSize, Warps};
use crate::analysis::{barriers, cluster, groups, mbarrier_checks, mbarriers, tensor};
use crate::base::Line;
use crate::ptx::{BarrierAction, ClusterBarrierAction, FunctionKind, Module, RegisterAction};
use crate::report::{Kernel, Severity};

/// Named barriers of a block.
const IDS: u32 = 16;

/// Fills in `barriers`.
pub(super) fn barriers(
    kernel: &Kernel,
    known: &Known<'_>,
    warps: &Warps<'_>,
    module: &Module<'_>,
    requested: &[Requested],
    exact: bool,
) -> Barriers {
    let line = |line: Line| module.number_of(line);
    let named = barriers::named(warps);
    let objects = mbarriers::sites(warps);
    let mut checks = setmaxnreg(kernel, warps, module, requested, exact);
    checks.extend(of_ptx(warps, &named, &objects, exact));
    checks.sort_by_key(|check| (check.line, check.code));
    let site = |site: &barriers::BarrierSite| NamedBarrierSite {
        ptx_line: line(site.line),
        action: match site.action {
            BarrierAction::Sync => "sync".to_owned(),
            BarrierAction::Arrive => "arrive".to_owned(),
            BarrierAction::Red => "red".to_owned(),
        },
        aligned: site.aligned,
        threads: site.count,
        reached_by: site.threads.map(|threads| threads.len()),
    };
    let mbarrier = |site: &mbarriers::MbarrierSite| {
        let ptx_line = line(site.line);
        let recorded = known.section.function.mbarriers.iter().map(|record| record.pc);
        MbarrierSite {
            ptx_line,
            action: site.act.name().to_owned(),
            object: site.object(warps),
            argument: site.argument,
            reached_by: site.threads,
            pcs: recorded.filter(|pc| known.section.ptx_line(*pc) == Some(ptx_line)).collect(),
        }
    };
    let half = |site: &cluster::ClusterSite| ClusterBarrierSite {
        ptx_line: line(site.line),
        action: match site.action {
            ClusterBarrierAction::Arrive => "arrive".to_owned(),
            ClusterBarrierAction::Wait => "wait".to_owned(),
        },
        aligned: site.aligned,
    };
    let asynchronous = |site: tensor::AsyncSite| AsynchronousSite {
        ptx_line: line(site.line),
        action: site.what.to_owned(),
        cta_group: site.cta_group,
        argument: site.argument,
        reached_by: site.threads,
    };
    let free = || (0..IDS).filter(|id| !named.barriers.contains_key(id)).collect();
    Barriers {
        declared: kernel.resources.barriers,
        free_ids: named.unresolved.is_empty().then(free),
        named: named
            .barriers
            .iter()
            .map(|(id, sites)| NamedBarrier { id: *id, sites: sites.iter().map(site).collect() })
            .collect(),
        unresolved: named.unresolved.iter().map(site).collect(),
        inserted: inserted(known, &named, module),
        mbarriers: Mbarriers {
            declared: known.section.function.mbarrier_count,
            sites: objects.iter().map(mbarrier).collect(),
        },
        cluster: cluster::sites(warps).iter().map(half).collect(),
        asynchronous: tensor::sites(warps).into_iter().map(asynchronous).collect(),
        issues: checks.into_iter().map(|check| issue(check, module)).collect(),
    }
}

/// The BAR instructions on lines that have no named barrier.
fn inserted(known: &Known<'_>, named: &barriers::Named, module: &Module<'_>) -> Vec<InsertedBarrier> {
    let Some(code) = known.section.code.as_ref() else { return Vec::new() };
    let sites = named.barriers.values().flatten().chain(&named.unresolved);
    let lines: BTreeSet<Line> = sites.map(|site| module.number_of(site.line)).collect();
    let mut found = Vec::new();
    for pc in pcs(known.ranges) {
        let Some(instruction) = code.instruction(pc).filter(|instruction| !instruction.is_unknown()) else { continue };
        let ptx_line = known.section.ptx_line(pc);
        if code.decoder().mnemonic(&instruction) != "BAR" || ptx_line.is_some_and(|line| lines.contains(&line)) {
            continue;
        }
        let mut text = String::new();
        code.decoder().text(&instruction, pc, &mut text);
        found.push(InsertedBarrier { pc, ptx_line, text });
    }
    found
}

/// The checks that need nothing but the PTX.
fn of_ptx(warps: &Warps<'_>, named: &barriers::Named, objects: &[mbarriers::MbarrierSite], exact: bool) -> Vec<Check> {
    let mut checks = barriers::check(warps, named, exact);
    checks.extend(mbarrier_checks::check(warps, objects, exact));
    checks.extend(cluster::check(warps));
    checks.extend(tensor::check(warps));
    checks.extend(groups::check(warps));
    // What memory hands out is told only likely.
    for check in checks.iter_mut().filter(|check| check.code.starts_with("PI2") && warps.values.by_memory) {
        check.confidence = check.confidence.min(check::Confidence::Likely);
    }
    checks
}

/// What the checks find in PTX that ptxas refuses, possible findings left out.
pub(in crate::report) fn without_cubin(module: &Module<'_>, threads: Option<u32>) -> Vec<Issue> {
    let mut found = Vec::new();
    for function in module.functions().filter(|function| function.is_definition()) {
        let header = function.header();
        if function.kind() != FunctionKind::Entry {
            continue;
        }
        let size = match (header.required_threads(), threads, header.max_threads()) {
            (Some(dimensions), ..) => Some(BlockSize { dimensions, exact: true }),
            (None, Some(threads), _) => Some(BlockSize { dimensions: [threads, 1, 1], exact: true }),
            (None, None, most) => most.map(|dimensions| BlockSize { dimensions, exact: false }),
        };
        let warps = Warps::of(&function, size);
        let exact = size.is_some_and(|size| size.exact);
        let mut checks = of_ptx(&warps, &barriers::named(&warps), &mbarriers::sites(&warps), exact);
        checks.sort_by_key(|check| (check.line, check.code));
        checks.retain(|check| check.confidence > check::Confidence::Possible);
        found.extend(checks.into_iter().map(|check| issue(check, module)));
    }
    found
}

fn issue(check: Check, module: &Module<'_>) -> Issue {
    let confidence = match check.confidence {
        check::Confidence::Possible => Confidence::Possible,
        check::Confidence::Likely => Confidence::Likely,
        check::Confidence::Certain => Confidence::Certain,
    };
    Issue {
        code: check.code.to_owned(),
        severity: match (confidence, check.fatal) {
            (Confidence::Possible, _) => Severity::Info,
            (Confidence::Certain, true) => Severity::Error,
            _ => Severity::Warning,
        },
        confidence,
        ptx_line: Some(module.number_of(check.line)),
        message: check.message,
        reasoning: check.reasoning,
    }
}

/// What is wrong with setmaxnreg itself.
fn setmaxnreg(
    kernel: &Kernel,
    warps: &Warps<'_>,
    module: &Module<'_>,
    requested: &[Requested],
    exact: bool,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let Some(found) = &kernel.setmaxnreg else { return checks };
    if let (Some(false), Some(first)) = (found.honoured, requested.first()) {
        let why = found.reason.as_deref().unwrap_or("ptxas does not say why");
        let fix = found.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        checks.push(Check {
            code: "PI101",
            fatal: false,
            confidence: check::Confidence::Certain,
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
        checks.push(Check {
            code: "PI102",
            fatal: true,
            confidence: if exact && told && !warps.values.by_memory {
                check::Confidence::Certain
            } else {
                check::Confidence::Likely
            },
            line: site.line,
            message: "this setmaxnreg.inc can never get its registers: the kernel hangs".to_owned(),
            reasoning: format!("{}{condition}", pool.explanation),
        });
    }
    checks
}
