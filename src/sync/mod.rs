//! Synchronisation: a kernel's barriers executed, not guessed.
//!
//! In: a function of the PTX and the shape of a launch. Out: a [`Verdict`]: the kernel ends in every schedule tried, it hangs
//! (with a witness: who stands where, waits for what, what has come and what is missing), it does what the ISA leaves
//! undefined, or it cannot be told, and the line that decides. The budget is counted in steps, never in time: the same input
//! gives the same verdict on every machine.

mod data;
mod equations;
pub mod execute;
mod finding;
mod lowering;
pub mod machine;
pub mod mend;
pub mod multiply;
pub mod program;
pub mod register_schedule;
pub mod rules;
pub mod stands;
pub mod timeline;
pub mod value;
mod verdict;
mod witness;

pub use data::DataTouched;
use finding::{Shape, cure, finding};
pub use finding::{first_wrong, in_words};
use lowering::accumulates;
pub use lowering::{Accessed, accessed};
use mend::{Mend, Search, mend};
pub use rules::agreement::Agreement;
pub use verdict::{Answer, Effort, Verdict};
use verdict::{Limits, Problems, find_culprit, judge, problems_in};
pub use witness::Cause;
use witness::{Firmness, Witness};

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::base::{Line, work};
use crate::ptx::{Function, Module, Operation, RegisterAction, Tcgen05};
use crate::registers::cap;
use crate::roles::Role;
use crate::simt::{Bits, BlockSize, Graph, Paths, Site, SiteId, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::{Family, Rule, Told};
use crate::sync::rules::{
    abi, addresses, awaited, barriers, boxes, cluster, coherence, convergence, descriptors, elected, flags, groups,
    issue, mbarrier_checks, mbarriers, parting, registers, ring_ends, tensor, tensor_memory,
};

use self::execute::Launch;
use self::program::Program;
use self::value::Basis;

/// Blocks of a cluster at most.
const MAX_CLUSTER: u32 = 16;
/// Shapes of a cluster that are tried where the launch decides.
const CLUSTERS: [[u32; 3]; 15] = [
    [2, 1, 1],
    [1, 1, 1],
    [1, 2, 1],
    [2, 2, 1],
    [4, 1, 1],
    [1, 4, 1],
    [4, 2, 1],
    [2, 4, 1],
    [8, 1, 1],
    [1, 8, 1],
    [4, 4, 1],
    [8, 2, 1],
    [2, 8, 1],
    [16, 1, 1],
    [1, 16, 1],
];
/// Shapes beside the one that a fault was seen in, in which a change is looked for.
const SHAPES_MENDED: usize = 3;
/// The part of the steps for changes that one shape has where the sizes of problems were made up: they mostly contradict each other.
const OF_PROBLEMS: u64 = 8;
/// Lanes of a warp.
pub const LANES: usize = 32;

/// What is wrong with how a kernel synchronises: what executing it for blocks of a size says, and the rules that are no execution.
/// Nothing is executed where the size is not known, or nothing synchronises.
pub fn check<'a>(
    function: &Function<'_, 'a>,
    warps: &Warps<'a>,
    size: Option<BlockSize>,
    roles: &[Role],
    (named, objects): (&barriers::Named, &[mbarriers::MbarrierSite]),
    effort: Effort,
) -> (Vec<Finding>, Option<Checked>, Evidence<'a>) {
    let mut found = barriers::check(warps, named);
    found.extend(mbarrier_checks::check(warps, objects));
    found.extend(cluster::check(warps));
    found.extend(tensor::check(warps));
    found.extend(groups::check(warps));
    found.extend(addresses::block_size(function));
    let (broken, operands) = of_operands(function, &warps.graph, size);
    let of_operands = broken.iter().map(|check| (check.rule, check.line)).collect();
    found.extend(broken);
    let mut evidence = Evidence { operands, of_operands, touched: None };
    // What memory hands out is told only likely.
    for check in found.iter_mut().filter(|check| check.rule.family() == Family::Named && warps.values.by_memory) {
        check.confidence = check.confidence.min(Confidence::Likely);
    }
    let known = size.filter(|size| size.threads().is_some());
    found.extend(known.and_then(|size| asked_for_fewer(function, warps, size)));
    let executed = known.and_then(|size| execute_kernel(function, &warps.graph, size, roles, effort));
    if let Some(executed) = &executed {
        executed.overrule(&mut found, function.module());
        let shown = executed.finding.as_ref().filter(|shown| shown.confidence > Confidence::Possible);
        if let Some((shown, culprit)) = shown
            .filter(|_| executed.mend.is_none())
            .and_then(|shown| Some((shown, mbarrier_checks::miscounted(&mut Agreement::new(warps), objects, shown)?)))
        {
            found.retain(|check| (check.rule, check.line) != (shown.rule, shown.line));
            found.push(culprit);
        }
    }
    if let Some(size) = known {
        let (told, touched) = data::check(function, &warps.graph, size, executed.as_ref());
        // An execution knows which block is gone.
        if told.iter().any(|check| check.rule == Rule::PeerRuns) {
            found.retain(|check| check.rule != Rule::PeerRuns);
        }
        // What reading the instructions tells of a line is told, if it is as sure.
        found.retain(|it| {
            !told.iter().any(|new| (new.rule, new.line) == (it.rule, it.line) && new.confidence > it.confidence)
        });
        let is_told = |other: &Finding| found.iter().any(|it| (it.rule, it.line) == (other.rule, other.line));
        let new: Vec<Finding> = told.into_iter().filter(|it| !is_told(it)).collect();
        found.extend(new);
        found.extend(touched.iter().flat_map(|touched| flags::narrow_waits(warps, touched)));
        if let (Some(touched), Some((operands, bits))) = (&touched, &evidence.operands) {
            let is_told = found.iter().any(|other| other.rule == Rule::EqualBytes);
            let multiplied = || multiply::multiplications(operands, bits);
            found.extend((!is_told).then(|| boxes::check(touched, multiplied)).flatten());
            let is_told = found.iter().any(|other| other.rule == Rule::WithinVariable);
            found.extend((!is_told).then(|| ring_ends::check(operands, bits, touched)).flatten());
        }
        evidence.touched = touched;
        // Asking ahead is no fault: it is one where an execution shows that nothing else was waited for.
        let came_early =
            |check: &Finding| matches!(check.rule, Rule::CopyAwaited | Rule::TensorOrdered | Rule::ReadAwaited);
        if found.iter().any(came_early) {
            found.extend(mbarrier_checks::unheeded(warps));
        }
    }
    // Columns that are taken several times, or by one lane, are not freed for that reason.
    let tensor = |line| {
        let allocates = |action| matches!(action, Tcgen05::Alloc | Tcgen05::Dealloc);
        let is = |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action, .. } if allocates(action));
        warps.graph.sites.iter().any(|site| site.line() == line && is(site))
    };
    let is_named =
        |check: &Finding| check.rule == Rule::OneWarpAllocates || check.rule == Rule::WholeWarps && tensor(check.line);
    if found.iter().any(is_named) {
        found.retain(|check| check.rule != Rule::TensorFreed);
    }
    (found, executed, evidence)
}

/// What the checks leave for whoever draws maps of a kernel's memory.
#[derive(Default)]
pub struct Evidence<'a> {
    /// The kernel evaluated for the operands of what reads or writes memory; none where that takes too many steps.
    pub operands: Option<(Warps<'a>, Bits)>,
    /// Rules that operands of instructions break, and where.
    pub of_operands: HashSet<(Rule, Line)>,
    /// What its instructions touched when they were executed; none where they were not.
    pub touched: Option<DataTouched>,
}

/// Steps that the operands of all instructions may take to evaluate.
const OPERAND_STEPS: u64 = 4 << 20;

/// What the operands of single instructions break: the rules that constants decide.
pub(crate) fn of_operands<'a>(
    function: &Function<'_, 'a>,
    graph: &Arc<Graph<'a>>,
    size: Option<BlockSize>,
) -> (Vec<Finding>, Option<(Warps<'a>, Bits)>) {
    let check = || {
        let warps = Warps::of_operands(function, graph.clone(), size);
        let bits = Bits::of(&warps);
        let mut agreement = Agreement::new(&warps);
        let mut found = convergence::check(&mut agreement);
        found.extend(issue::check(&mut agreement));
        found.extend(descriptors::check(&warps, &bits, function.module().text()));
        found.extend(tensor_memory::check(&mut agreement, &bits));
        found.extend(registers::check(&mut agreement, &bits));
        found.extend(addresses::check(&mut agreement, &bits));
        found.extend(addresses::cluster_size(&warps, function));
        found.extend(addresses::boxes_apart(&warps));
        found.extend(cluster::left_early(&warps));
        found.extend(groups::read_back(&warps));
        found.extend(flags::check(&warps));
        found.extend(parting::check(&mut agreement, &bits));
        found.extend(awaited::check(&warps));
        let known =
            |found: &[Finding], other: &Finding| found.iter().any(|it| (it.rule, it.line) == (other.rule, other.line));
        let apart = addresses::apart(&mut agreement, &bits);
        let new: Vec<Finding> = apart.into_iter().filter(|it| !known(&found, it)).collect();
        found.extend(new);
        found.extend(coherence::check(&warps));
        found.extend(elected::check(&warps));
        found.extend(abi::check(&warps, function));
        drop(agreement);
        if size.is_none() && addresses::has_wide(&warps) {
            // How lanes differ, one warp of any block tells.
            let warp = BlockSize { dimensions: [LANES as u32, 1, 1], exact: false };
            let warps = warps.with_operands(function, Some(warp));
            found.extend(addresses::apart(&mut Agreement::new(&warps), &Bits::of(&warps)));
        }
        (found, (warps, bits))
    };
    match work::within(OPERAND_STEPS, check) {
        Ok((found, operands)) => (found, Some(operands)),
        Err(_) => (Vec::new(), None),
    }
}

/// A setmaxnreg.inc to fewer registers than the launch gives, by whoever has set none before.
fn asked_for_fewer(function: &Function<'_, '_>, warps: &Warps<'_>, size: BlockSize) -> Option<Finding> {
    let header = function.header();
    let given = cap::by_directives(header.max_registers(), size.threads()?, header.min_blocks_per_sm());
    // Kernels in use that could have all a thread may have ask for what they need of them.
    if given >= cap::ISA_LIMIT {
        return None;
    }
    let sites = warps.graph.sites.iter_enumerated();
    let sets: BTreeSet<SiteId> = sites
        .filter(|(_, site)| matches!(site.operation, Operation::SetMaxNReg { .. }))
        .map(|(index, _)| index)
        .collect();
    let paths = Paths::new(warps);
    sets.iter().find_map(|index| {
        let site = warps.graph.sites.get(*index)?;
        let Operation::SetMaxNReg { action: RegisterAction::Inc, count: Some(count) } = site.operation else {
            return None;
        };
        let is_first = !warps.at(*index).is_empty() && paths.first(*index, true, &[&sets]).is_empty();
        (count < given && is_first).then(|| Finding {
            rule: Rule::ToFewerOrMore,
            confidence: Confidence::Likely,
            line: site.line(),
            message: format!("asks for registers by setmaxnreg.inc to {count}, and has {given}: more"),
            reasoning: "setmaxnreg.inc goes to as many registers as the warp has, or more; to fewer it is undefined"
                .to_owned(),
        })
    })
}

/// Whether something in a kernel is executed where the size of a block is known: barriers, or accesses of what threads share.
pub fn has_to_be_executed(function: &Function<'_, '_>, graph: &Graph<'_>) -> bool {
    Program::with_data(function, graph).is_some() || Program::of(function, graph).synchronises
}

/// Executes a kernel for blocks of a size; none where nothing in it synchronises.
pub fn execute_kernel(
    function: &Function<'_, '_>,
    graph: &Graph<'_>,
    size: BlockSize,
    roles: &[Role],
    effort: Effort,
) -> Option<Checked> {
    let program = Program::of(function, graph);
    if !program.synchronises {
        return None;
    }
    let header = function.header();
    let threads = size.threads()?;
    let registers = cap::by_directives(header.max_registers(), threads, header.min_blocks_per_sm());
    let required = header.required_cluster().filter(|cluster| {
        cluster
            .iter()
            .try_fold(1u32, |all, axis| all.checked_mul(*axis))
            .is_some_and(|all| (1..=MAX_CLUSTER).contains(&all))
    });
    let clusters = match required {
        Some(cluster) => vec![cluster],
        None if program.uses_cluster => CLUSTERS.to_vec(),
        None => vec![[1, 1, 1]],
    };
    let registers = Some(registers);
    let launch = |cluster: &[u32; 3]| Launch { block: size.dimensions, cluster: *cluster, registers };
    let launches: Vec<Launch> = clusters.iter().map(launch).collect();
    let shape = Shape { is_exact: size.exact, is_known: launches.len() == 1 };
    let limits = Limits::of_share(function.body().len(), function.module().statements().len(), effort);
    let (verdict, launch, _) = judge(&program, &launches, limits)?;
    let (verdict, launch, mend) = mended(&program, &launches, verdict, launch, limits);
    let launch = launch.clone();
    let others = launches.iter().filter(|other| other.cluster != launch.cluster).cloned().collect();
    let finding = finding(&verdict, &program, function.module(), shape, roles, mend.as_ref());
    Some(Checked { verdict, finding, mend, program, launch, others, limits })
}

/// Looks for a change that mends what goes wrong: in the launch that it was seen in, or in another shape that it goes wrong in, since
/// one that the kernel is not made for cannot be mended.
fn mended<'l>(
    program: &Program,
    launches: &'l [Launch],
    verdict: Verdict,
    launch: &'l Launch,
    limits: Limits,
) -> (Verdict, &'l Launch, Option<Mend>) {
    let mut witness = match verdict {
        Verdict::Wrong(witness) => witness,
        Verdict::Ends { suspects, basis, cut, lacks_blocks, unreached, uneven } => {
            let (suspects, launch, lacks_blocks) = match mended_suspect(program, launches, (&suspects, launch), limits)
            {
                Suspected::Fault(witness, launch, mend) => return (Verdict::Wrong(witness), launch, Some(*mend)),
                Suspected::RightIn(other) if uneven.is_none() => (Vec::new(), other, false),
                Suspected::RightIn(_) | Suspected::Unknown => (suspects, launch, lacks_blocks),
            };
            return match uneven {
                Some(witness) => (Verdict::Wrong(witness), launch, None),
                None => (Verdict::Ends { suspects, basis, cut, lacks_blocks, unreached, uneven: None }, launch, None),
            };
        }
        verdict => return (verdict, launch, None),
    };
    // Nothing is to be mended where only inputs are at fault.
    if witness.firmness == Firmness::Refuted {
        return (Verdict::Wrong(witness), launch, None);
    }
    find_culprit(program, launch, &mut witness, limits);
    let Search { mend: found, beyond } = mend(program, launch, &witness, limits);
    let mut mend_of = found.map(|mend| (mend, launch));
    // A change that leads to blocks that there are not is tried where there are.
    let is_larger = |other: &&Launch| beyond.is_none_or(|rank| u64::from(other.blocks()) > rank);
    let others = launches.iter().filter(|other| other.cluster != launch.cluster).filter(is_larger).take(SHAPES_MENDED);
    let limits = Limits { mends: limits.mends / 2, pieces: limits.pieces / 4, again: limits.again / 4, ..limits };
    for other in others {
        if mend_of.is_some() {
            break;
        }
        let Some((Verdict::Wrong(mut there), ..)) = judge(program, std::slice::from_ref(other), limits) else {
            continue;
        };
        find_culprit(program, other, &mut there, limits);
        if let Some(mend) = mend(program, other, &there, limits).mend {
            there.shapes = witness.shapes;
            (witness, mend_of) = (there, Some((mend, other)));
        }
    }
    match mend_of {
        Some((mend, launch)) => (Verdict::Wrong(witness), launch, Some(mend)),
        None => (Verdict::Wrong(witness), launch, None),
    }
}

/// What suspects come to.
enum Suspected<'l> {
    /// A fault, which a change ends.
    Fault(Box<Witness>, &'l Launch, Box<Mend>),
    /// None: all is right in a launch of the shape that the kernel is made for.
    RightIn(&'l Launch),
    /// It cannot be told.
    Unknown,
}

/// Looks for a change that ends what may be a fault: a count that holds everybody up where a phase does not wait for all that it should,
/// or one that mends all problems. A kernel that is made for launches of another shape goes wrong in this one whatever the sizes of its
/// problems are: only where it does so in each is a change looked for, in small ones first.
fn mended_suspect<'l>(
    program: &Program,
    launches: &'l [Launch],
    (suspects, launch): (&[Witness], &'l Launch),
    mut limits: Limits,
) -> Suspected<'l> {
    let mut wrong: Vec<(Witness, &Launch)> = suspects.iter().map(|witness| (witness.clone(), launch)).collect();
    if suspects.iter().any(Witness::is_of_problem) {
        for other in launches.iter().filter(|other| other.cluster != launch.cluster).take(SHAPES_MENDED) {
            match problems_in(program, other, limits) {
                Problems::Turn => return Suspected::RightIn(other),
                Problems::Unknown => {}
                Problems::Wrong(there) => wrong.extend(there.into_iter().map(|witness| (witness, other))),
            }
        }
        wrong.sort_by_key(|(_, launch)| launch.blocks());
        limits.mends /= OF_PROBLEMS;
    }
    let mended = wrong.into_iter().find_map(|(witness, launch)| {
        let mend = mend(program, launch, &witness, limits).mend?;
        Some(Suspected::Fault(Box::new(witness), launch, Box::new(mend)))
    });
    let Some(mended) = mended else { return Suspected::Unknown };
    // What goes wrong must do so in every shape, as what hangs must.
    let is_right_in = |other: &&Launch| {
        let verdict = judge(program, std::slice::from_ref(*other), limits).map(|(verdict, ..)| verdict);
        matches!(verdict, Some(Verdict::Ends { suspects, lacks_blocks: false, .. }) if suspects.is_empty())
    };
    let mut others = launches.iter().filter(|other| other.cluster != launch.cluster).take(SHAPES_MENDED);
    others.find(is_right_in).map_or(mended, Suspected::RightIn)
}

/// What executing a kernel says, and the finding that it makes.
pub struct Checked {
    /// The verdict.
    pub verdict: Verdict,
    /// What is wrong, if something is.
    pub finding: Option<Finding>,
    /// A change that mends it.
    pub mend: Option<Mend>,
    /// What was executed.
    pub program: Program,
    /// The shape of the launch that the verdict is of.
    pub launch: Launch,
    /// The other shapes that a launch may have, where it decides.
    others: Vec<Launch>,
    /// How much of it may be executed.
    limits: Limits,
}

impl Checked {
    /// Whether it hangs with some of the inputs tried and not with others.
    fn may_end(&self) -> bool {
        matches!(&self.verdict, Verdict::Wrong(witness) if witness.cause.is_hang() && witness.firmness != Firmness::Firm)
    }

    /// Puts what was executed in the place of what rules say of the same.
    pub fn overrule(&self, checks: &mut Vec<Finding>, module: &Module<'_>) {
        let is_decided = |check: &Finding| match &self.verdict {
            Verdict::Ends { cut: true, .. } | Verdict::Undecided { .. } => false,
            Verdict::Ends { basis, .. } => *basis == Basis::Fact && check.rule.told() == Told::ExecutedFirst,
            // A hang shows where somebody waits, which may be far from what is wrong; a change that mends it is not.
            Verdict::Wrong(_) => {
                let told = self.finding.as_ref().is_some_and(|found| found.confidence > Confidence::Possible);
                told && self.mend.is_some() && check.rule.told() == Told::ExecutedFirst
            }
        };
        checks.retain(|check| !is_decided(check));
        if let Some(found) = &self.finding {
            // Of two that say the same of a line the surer one stays.
            let stands = |check: &Finding| check.rule == found.rule && check.rule.told() == Told::ReadFirst;
            let is_same = |check: &Finding| check.rule == found.rule && check.line == found.line;
            if let Some(mend) = &self.mend {
                for check in checks.iter_mut().filter(|check| stands(check)) {
                    check.reasoning = format!("{}; {}", check.reasoning, cure(mend, module));
                }
            }
            checks.retain(|check| stands(check) || !is_same(check) || check.confidence > found.confidence);
            if !checks.iter().any(|check| stands(check) || is_same(check)) {
                checks.push(found.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
