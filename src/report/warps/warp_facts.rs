//! What a kernel's PTX alone says of its warps: computed while ptxas runs, and joined with the code when that is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::model::*;
use crate::access::{self, AccessFacts};
use crate::base::Line;
use crate::base::work::{self, TooManySteps};
use crate::memory::{self, MemoryMaps};
use crate::ptx::{self, BarrierAction, ClusterBarrierAction, Function, FunctionKind, Module, Operation};
use crate::roles::setmaxnreg::{self, Requested};
use crate::roles::{self, Role};
use crate::simt::{self, BlockSize, Graph, ThreadSet, Warps};
use crate::sync::Effort;
use crate::sync::multiply::{self, Multiplication};
use crate::sync::register_schedule::RoleTraces;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::{Family, Rule};
use crate::sync::rules::{barriers, cluster, mbarriers, tensor};
use crate::sync::stands::Stands;
use crate::sync::timeline::Timeline;
use crate::sync::{self, Cause, Checked, Verdict};

/// Shapes of a block for which accesses of memory must cost the same, where it is not known.
const SHAPES_OF_ACCESSES: usize = 3;

/// Named barriers of a block.
const IDS: u32 = 16;

/// The part of a kernel's steps that blocks of every size may take, where nothing says how many threads they have; how many at most, a quarter of
/// a second; and how many all kernels of a PTX together.
const OF_EVERY_SIZE: u64 = 4;
const MOST_OF_EVERY_SIZE: u64 = 1 << 19;
const OF_EVERY_SIZE_OF_ALL: u64 = 1 << 21;

/// Steps that every kernel may take: small ones with loops take many for each of their statements.
const STEPS: u64 = 1 << 20;
/// Steps for each statement of a kernel.
const STEPS_EACH: u64 = 1 << 14;
/// Steps that all kernels of a PTX may take together, shared out by their statements.
const STEPS_OF_ALL: u64 = 1 << 27;
/// The same where ptxas refuses the PTX, which is to be said at once.
const STEPS_OF_REFUSED: u64 = 1 << 23;

/// How many steps the questions about a kernel may take. The text alone decides, so that every machine answers the same ones.
pub(super) fn steps(function: &Function<'_, '_>, is_refused: bool) -> u64 {
    let of_all = if is_refused { STEPS_OF_REFUSED } else { STEPS_OF_ALL };
    (STEPS + STEPS_EACH.saturating_mul(function.body().len() as u64)).min(share(function, of_all))
}

/// What a kernel has of the steps of all kernels of a PTX: as much as it has of its statements.
fn share(function: &Function<'_, '_>, of_all: u64) -> u64 {
    let (own, all) = (function.body().len() as u64, function.module().statements().len() as u64);
    let share = u128::from(of_all) * u128::from(own) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(of_all)
}

/// Roles, barriers and findings of one kernel. Lines of the model are numbered as ptxas does.
pub(super) struct WarpFacts {
    /// Every setmaxnreg.
    pub requested: Vec<Requested>,
    /// Regions that only some warps run.
    pub roles: Vec<Role>,
    /// By role: the named barriers that its threads may reach.
    pub barriers_of: Vec<Vec<u32>>,
    /// Which role alone runs a line.
    pub role_of_line: HashMap<Line, usize>,
    /// Which warps of a block may run a line, bit by bit, where not all may and the size of a block is known.
    pub warps_of_line: HashMap<Line, u32>,
    /// Which role a setmaxnreg's line belongs to.
    pub role_of_set: HashMap<Line, usize>,
    /// Named barriers whose number is known, and sites of others.
    pub named: Vec<NamedBarrier>,
    pub unresolved: Vec<NamedBarrierSite>,
    pub free_ids: Option<Vec<u32>>,
    /// Without their places in the code.
    pub mbarriers: Vec<MbarrierSite>,
    pub cluster: Vec<ClusterBarrierSite>,
    pub asynchronous: Vec<AsynchronousSite>,
    /// What is inconsistent.
    pub checks: Vec<Finding>,
    /// Those of them that operands of instructions alone break.
    pub of_operands: HashSet<(Rule, Line)>,
    /// What its multiplications multiply.
    pub multiplications: Vec<Multiplication>,
    /// What executing its barriers says; none where nothing synchronises, or the size of a block is not known and nothing is wrong with
    /// every size.
    pub execution: Option<Execution>,
    /// Code and line of the finding that execution made.
    pub executed: Option<(Rule, Line)>,
    /// Whether the size of a block is certain.
    pub exact: bool,
    /// Whether something was taken from what constant stores left in shared memory.
    pub by_memory: bool,
    /// What roles do, where they share out registers and it can be told.
    pub courses: Option<RoleTraces>,
    /// Maps of its memory.
    pub memory: Option<MemoryMaps>,
    /// What its accesses of memory cost.
    pub accesses: Option<AccessFacts>,
    /// Its barriers drawn, where that was asked for and there is something to draw.
    pub timeline: Option<Box<Timeline>>,
}

impl WarpFacts {
    /// Evaluates a kernel for blocks of a size, in so many steps.
    pub fn new(
        function: &Function<'_, '_>,
        size: Option<BlockSize>,
        effort: Effort,
        steps: u64,
    ) -> Result<Self, TooManySteps> {
        WarpFacts::of_shapes(function, size, effort, (steps, None))
    }

    /// The same, and draws what is executed, in as many steps again.
    pub fn drawn(
        function: &Function<'_, '_>,
        size: Option<BlockSize>,
        effort: Effort,
        steps: u64,
    ) -> Result<Self, TooManySteps> {
        WarpFacts::of_shapes(function, size, effort, (steps, Some(steps)))
    }

    /// Evaluates it for every shape that its blocks may have: that in which nothing is wrong is the one that it is made for, and what
    /// is wrong must be so in all.
    fn of_shapes(
        function: &Function<'_, '_>,
        size: Option<BlockSize>,
        effort: Effort,
        (steps, draw_in): (u64, Option<u64>),
    ) -> Result<Self, TooManySteps> {
        // What synchronises in the functions that it calls is looked at where it calls them.
        if let Some(text) = work::within(steps, || simt::with_callees(function))? {
            let module = ptx::parse(&text);
            let is_kernel = |found: &Function<'_, '_>| found.is_definition() && found.kind() == FunctionKind::Entry;
            if let Some(inlined) = module.functions().find(is_kernel) {
                let mut facts = WarpFacts::of_own(&inlined, size, effort, (steps, draw_in))?;
                facts.patch_only_what_stands_in(function.module());
                return Ok(facts);
            }
        }
        WarpFacts::of_own(function, size, effort, (steps, draw_in))
    }

    /// Of what would mend it, the changes of lines that are there: not of those inside what is called.
    fn patch_only_what_stands_in(&mut self, module: &Module<'_>) {
        let lines = self.execution.iter_mut().filter_map(|execution| execution.mend.as_mut());
        for line in lines.flat_map(|mend| &mut mend.lines) {
            let at = module.lines_numbered(line.ptx_line).next();
            let text = at.and_then(|at| module.text().lines().nth(at.0.checked_sub(1)? as usize));
            let column = text.zip(line.replaces.as_deref()).and_then(|(text, replaced)| {
                let before = text.get(..text.find(replaced)?)?;
                u32::try_from(before.chars().count() + 1).ok()
            });
            match column {
                Some(_) => line.column = column.filter(|_| at == Some(line.ptx_line)),
                None => (line.column, line.replaces, line.instruction) = (None, None, None),
            }
        }
    }

    /// The same of a kernel whose calls need not be looked at.
    fn of_own(
        function: &Function<'_, '_>,
        size: Option<BlockSize>,
        effort: Effort,
        (steps, draw_in): (u64, Option<u64>),
    ) -> Result<Self, TooManySteps> {
        let evaluate = |size| work::within(steps, || WarpFacts::evaluate(function, size, effort, draw_in));
        let shapes = size.map_or_else(Vec::new, |size| simt::shapes(function, size));
        let [first, others @ ..] = &shapes[..] else {
            let mut facts = evaluate(size)?;
            let steps = (steps / OF_EVERY_SIZE).min(MOST_OF_EVERY_SIZE).min(share(function, OF_EVERY_SIZE_OF_ALL));
            match work::within(steps, || facts.hold_against_sizes(function, effort)) {
                Ok(wrong) => facts.add(wrong),
                // What was not held against every size is not sure, but for what operands alone break.
                Err(_) => {
                    let of_operands = std::mem::take(&mut facts.of_operands);
                    facts.doubt(|rule, line| of_operands.contains(&(rule, line)));
                    facts.of_operands = of_operands;
                }
            }
            return Ok(facts);
        };
        let mut facts = evaluate(Some(*first))?;
        if others.is_empty() {
            return Ok(facts);
        }
        let graph = Arc::new(work::within(steps, || Graph::build(function))?);
        let operands_of = |size| work::within(steps, || sync::of_operands(function, &graph, size)).unwrap_or_default();
        let mut of_any_shape: Option<Vec<Finding>> = None;
        for (at, shape) in others.iter().enumerate() {
            let compared = at + 1 < SHAPES_OF_ACCESSES && facts.accesses.as_ref().is_some_and(AccessFacts::decides);
            // What operands break whatever the shape is, no shape refutes.
            let is_decided = !facts.complains() || {
                let there = is_among(of_any_shape.get_or_insert_with(|| operands_of(None).0));
                facts.complaints().all(|(rule, line)| there(rule, line))
            };
            if is_decided && !compared {
                break;
            }
            let by_operands = facts.complaints().all(|at| facts.of_operands.contains(&at));
            let (broken, operands) =
                if compared || by_operands { operands_of(Some(*shape)) } else { (Vec::new(), None) };
            if compared && let Some(accesses) = &mut facts.accesses {
                accesses.agree_with(&access::accesses(function, operands.as_ref()).unwrap_or_default());
            }
            if is_decided {
                continue;
            }
            // What operands alone break takes no execution to doubt.
            if by_operands && complain(&broken) {
                facts.doubt(is_among(&broken));
            } else {
                match evaluate(Some(*shape)) {
                    Ok(there) if !there.complains() => {
                        facts = WarpFacts { accesses: facts.accesses, ..there };
                    }
                    there => facts.doubt(is_among(there.as_ref().map_or(&[], |there| &there.checks))),
                }
            }
        }
        Ok(facts)
    }

    /// Holds what was said without a size against blocks of every size that a launch may have, where nothing says which: what one of them
    /// refutes is doubted, and what else is wrong in all of them comes back.
    fn hold_against_sizes(&mut self, function: &Function<'_, '_>, effort: Effort) -> Option<Self> {
        let graph = Graph::build(function);
        if !sync::has_to_be_executed(function, &graph) {
            return None;
        }
        let mut wrong: Option<Self> = None;
        for size in simt::sizes(function, &graph) {
            let there = WarpFacts::evaluate(function, Some(size), effort, None);
            self.doubt(|rule, line| there.complaints().any(|(other, at)| other == rule || at == line));
            let wrong = match &mut wrong {
                Some(wrong) => {
                    wrong.doubt_by(&there);
                    wrong
                }
                None => {
                    let told: HashSet<(Rule, Line)> = self.complaints().collect();
                    let wrong = wrong.insert(there);
                    wrong.checks.retain(|check| !told.contains(&(check.rule, check.line)));
                    wrong
                }
            };
            if !wrong.complains() && self.complaints().all(|at| self.of_operands.contains(&at)) {
                return None;
            }
        }
        wrong
    }

    /// Leaves of what is wrong only that as likely which is so in blocks of another size. A race of warps here is one of lanes there, and
    /// stands at another line; how an execution ends is held against how that one ends alone.
    fn doubt_by(&mut self, there: &Self) {
        let ended = self.executed;
        let families: HashSet<(Family, bool)> =
            there.complaints().map(|at| (at.0.family(), there.executed == Some(at))).collect();
        self.doubt(|rule, line| families.contains(&(rule.family(), ended == Some((rule, line)))));
    }

    /// Adds what is wrong in blocks of every size.
    fn add(&mut self, wrong: Option<Self>) {
        let Some(wrong) = wrong else { return };
        for mut check in wrong.checks.into_iter().filter(is_likely) {
            check.confidence = Confidence::Likely;
            check.reasoning += "; the size of a block is not known: it is so with every size that was tried";
            self.checks.retain(|other| (other.rule, other.line) != (check.rule, check.line));
            self.checks.push(check);
        }
        if wrong.executed.is_some() {
            (self.execution, self.executed) = (wrong.execution, wrong.executed);
        }
    }

    /// Whether something is wrong that is told as such.
    fn complains(&self) -> bool {
        complain(&self.checks)
    }

    /// What that is, and where.
    fn complaints(&self) -> impl Iterator<Item = (Rule, Line)> + '_ {
        self.checks.iter().filter(|check| is_likely(check)).map(|check| (check.rule, check.line))
    }

    /// Leaves of what is wrong only that as likely which is so in other blocks, too.
    fn doubt(&mut self, is_alike: impl Fn(Rule, Line) -> bool) {
        for check in self.checks.iter_mut().filter(|check| !is_alike(check.rule, check.line)) {
            check.confidence = Confidence::Possible;
        }
        if let (Some((rule, line)), Some(execution)) = (self.executed, &mut self.execution)
            && !is_alike(rule, line)
        {
            *execution = Execution {
                verdict: Answer::Undecided,
                ptx_line: None,
                reason: Some("the shape of a block is not known: --threads, as 32x8".to_owned()),
                witness: Vec::new(),
                mend: None,
            };
            self.executed = None;
            self.timeline = None;
        }
    }

    fn evaluate(function: &Function<'_, '_>, size: Option<BlockSize>, effort: Effort, draw_in: Option<u64>) -> Self {
        let warps = Warps::of(function, size);
        let module = function.module();
        let exact = size.is_some_and(|size| size.exact);
        let named = barriers::named(&warps);
        let objects = mbarriers::sites(&warps);
        let requested = setmaxnreg::requested(&warps);
        let roles = roles::roles(&warps, &requested);
        let (checks, executed, evidence) = sync::check(function, &warps, size, &roles, (&named, &objects), effort);
        let memory = memory::maps(function, &warps, &roles, &evidence);
        let operands = evidence.operands.as_ref();
        let accesses = access::accesses(function, operands);
        let multiplications = operands.map(|(warps, bits)| multiply::multiplications(warps, bits)).unwrap_or_default();
        let drawable = executed.as_ref().filter(|executed| executed.program.refused.is_none());
        let timeline = draw_in.zip(drawable).and_then(|(steps, executed)| {
            let text = (module, &*warps.graph);
            let draw = || sync::timeline::timeline(executed, function.name(), text, &roles, sync::timeline::STEPS);
            work::within(steps, draw).ok().map(Box::new)
        });
        let line = |line: Line| module.number_of(line);
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
        let mbarrier = |site: &mbarriers::MbarrierSite| MbarrierSite {
            ptx_line: line(site.line),
            action: site.act.name().to_owned(),
            object: site.object(&warps),
            argument: site.argument,
            reached_by: site.threads,
            pcs: Vec::new(),
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
        WarpFacts {
            barriers_of: roles.iter().map(|role| barriers_of(&warps, role)).collect(),
            role_of_line: role_of_line(&warps, module, &roles),
            warps_of_line: warps_of_line(&warps, module),
            role_of_set: role_of_set(&warps, module, &roles),
            free_ids: named.unresolved.is_empty().then(free),
            named: named
                .barriers
                .iter()
                .map(|(id, sites)| NamedBarrier { id: *id, sites: sites.iter().map(site).collect() })
                .collect(),
            unresolved: named.unresolved.iter().map(site).collect(),
            mbarriers: objects.iter().map(mbarrier).collect(),
            cluster: cluster::sites(&warps).iter().map(half).collect(),
            asynchronous: tensor::sites(&warps).into_iter().map(asynchronous).collect(),
            checks,
            of_operands: evidence.of_operands,
            multiplications,
            execution: executed.as_ref().map(|executed| execution(executed, &warps.graph, module, &roles)),
            executed: executed.and_then(|executed| executed.finding).map(|found| (found.rule, found.line)),
            exact,
            by_memory: warps.values.by_memory,
            timeline,
            memory,
            accesses,
            courses: if requested.is_empty() { None } else { RoleTraces::of(&warps, &roles, &requested, &named) },
            requested,
            roles,
        }
    }
}

/// Whether a finding is told as such.
fn is_likely(check: &Finding) -> bool {
    check.confidence > Confidence::Possible
}

/// Whether a rule is broken at a line, as findings of other blocks have it.
fn is_among(there: &[Finding]) -> impl Fn(Rule, Line) -> bool {
    let alike: HashSet<(Rule, Line)> =
        there.iter().filter(|check| is_likely(check)).map(|check| (check.rule, check.line)).collect();
    move |rule, line| alike.contains(&(rule, line))
}

fn complain(checks: &[Finding]) -> bool {
    checks.iter().any(is_likely)
}

fn execution(executed: &Checked, graph: &Graph<'_>, module: &Module<'_>, roles: &[Role]) -> Execution {
    let verdict = &executed.verdict;
    let mend = executed.mend.as_ref().map(|mend| {
        let line = |line: &Line| {
            let ptx_line = module.number_of(*line);
            let patch = mend.patch(*line, graph, &executed.program);
            MendedLine {
                ptx_line,
                column: patch.as_ref().filter(|_| ptx_line == *line).and_then(|patch| module.column_of(patch.before)),
                replaces: patch.as_ref().map(|patch| patch.before.to_owned()),
                instruction: patch.map(|patch| patch.after),
            }
        };
        Mended {
            change: sync::in_words(mend, module),
            lines: std::iter::once(&mend.line).chain(&mend.also).map(line).collect(),
            first_wrong: sync::first_wrong(mend, &executed.program, module)
                .map(|(line, text)| FirstWrong { ptx_line: module.number_of(line), text }),
        }
    });
    let (line, reason, witness) = match verdict {
        Verdict::Ends { .. } => {
            let (line, why) = verdict.untried();
            (line, why, Vec::new())
        }
        Verdict::Wrong(witness) => match &witness.cause {
            Cause::Hang(stuck) => (None, None, stuck.iter().map(|group| Stands::of(group, module, roles)).collect()),
            Cause::Undefined { line, .. } | Cause::Bytes { line, .. } => (Some(*line), None, Vec::new()),
        },
        Verdict::Undecided { line, why } => (Some(*line), Some(*why), Vec::new()),
    };
    Execution {
        verdict: verdict.answer(),
        ptx_line: line.map(|line| module.number_of(line)),
        reason: reason.map(str::to_owned),
        witness,
        mend,
    }
}

fn role_of_line(warps: &Warps<'_>, module: &Module<'_>, roles: &[Role]) -> HashMap<Line, usize> {
    let mut of_block = HashMap::new();
    for (index, role) in roles.iter().enumerate() {
        of_block.extend(role.blocks.iter().map(|block| (*block, index)));
    }
    let mut of_line = HashMap::new();
    for site in &warps.graph.sites {
        let Some(&role) = of_block.get(&site.block) else { continue };
        for line in site.located.line.0..=site.located.last_line.0 {
            of_line.entry(module.number_of(Line(line))).or_insert(role);
        }
    }
    of_line
}

/// A block has 32 warps at most.
fn warps_of_line(warps: &Warps<'_>, module: &Module<'_>) -> HashMap<Line, u32> {
    let mut of_line = HashMap::new();
    let Some(threads) = warps.threads else { return of_line };
    let mask = |set: &ThreadSet| set.warps().iter().fold(0, |mask, warp| mask | 1u32 << (warp % 32));
    let all = mask(&ThreadSet::first(threads));
    let mut last = None;
    for site in &warps.graph.sites {
        let (_, mask) = match last {
            Some((block, mask)) if block == site.block => (block, mask),
            _ => *last.insert((site.block, mask(&warps.reach.block(site.block)))),
        };
        if mask == all || mask == 0 {
            continue;
        }
        for line in site.located.line.0..=site.located.last_line.0 {
            of_line.entry(module.number_of(Line(line))).or_insert(mask);
        }
    }
    of_line
}

fn role_of_set(warps: &Warps<'_>, module: &Module<'_>, roles: &[Role]) -> HashMap<Line, usize> {
    let sets = roles.iter().enumerate().flat_map(|(index, role)| role.sets.iter().map(move |site| (*site, index)));
    sets.filter_map(|(site, index)| Some((module.number_of(warps.graph.sites.get(site)?.line()), index))).collect()
}

/// Named barriers that a role's threads may reach.
fn barriers_of(warps: &Warps<'_>, role: &Role) -> Vec<u32> {
    let mut ids = Vec::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Operation::NamedBarrier(barrier) = site.operation else { continue };
        let here = match role.threads {
            Some(threads) => !warps.at(index).intersection(&threads).is_empty(),
            None => role.blocks.contains(&site.block),
        };
        let id = barrier.id.and_then(|id| warps.values.operand(&warps.graph, index, id).constant());
        ids.extend(id.filter(|_| here).and_then(|id| u32::try_from(id).ok()));
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx;

    /// Branches that all share one table: ways are the product of both.
    fn one_table(branches: usize) -> String {
        let targets: Vec<String> = (0..branches).map(|at| format!("L{at}")).collect();
        let body: String = (0..branches).map(|at| format!("L{at}:\nbrx.idx %r1, ts;\n")).collect();
        let table = format!("ts: .branchtargets {};\n", targets.join(", "));
        format!(".version 8.8\n.target sm_100a\n.visible .entry k()\n{{\n.reg .b32 %r<9>;\n{table}{body}ret;\n}}\n")
    }

    #[test]
    fn a_kernel_has_so_many_steps_and_no_more() {
        let text = one_table(20_000);
        let module = ptx::parse(&text);
        let function = module.functions().next().expect("a kernel");
        let steps = steps(&function, true);
        assert!(steps <= STEPS_OF_REFUSED && steps > STEPS_OF_REFUSED / 2, "{steps}");
        assert_eq!(WarpFacts::new(&function, None, Effort::Usual, steps).err(), Some(TooManySteps { steps }));
        // A plain one is far from it.
        let text = one_table(3);
        let module = ptx::parse(&text);
        let function = module.functions().next().expect("a kernel");
        assert!(WarpFacts::new(&function, None, Effort::Usual, super::steps(&function, true)).is_ok());
    }

    #[test]
    fn kernels_share_the_steps_of_a_file() {
        let text = format!(
            ".version 8.8\n.target sm_90\n{}",
            (0..300).map(|at| format!(".visible .entry k{at}()\n{{\n{}}}\n", "ret;\n".repeat(100))).collect::<String>()
        );
        let module = ptx::parse(&text);
        let all: u64 = module.functions().map(|function| steps(&function, false)).sum();
        assert!(all <= STEPS_OF_ALL, "{all}");
    }

    #[test]
    fn a_shape_that_nothing_says_is_not_made_up() {
        let module = ptx::parse(include_str!("../../../testdata/shapes/two_axes.ptx"));
        let facts = |name: &str, dimensions: [u32; 3]| {
            let function = module.functions().find(|function| function.name() == name).unwrap();
            let size = BlockSize { dimensions, exact: true };
            WarpFacts::new(&function, Some(size), Effort::Usual, steps(&function, false)).unwrap()
        };
        let rules = |facts: &WarpFacts| -> Vec<Rule> {
            let likely = facts.checks.iter().filter(|check| check.confidence > Confidence::Possible);
            likely.map(|check| check.rule).collect()
        };
        let rows = facts("rows", [128, 1, 1]);
        assert_eq!((rules(&rows), rows.execution.unwrap().verdict), (Vec::new(), Answer::Ends));
        assert_eq!(rules(&facts("beyond", [128, 1, 1])), [Rule::WithinVariable]);
        // What the user says is not doubted.
        assert_eq!(facts("rows", [64, 2, 1]).execution.unwrap().verdict, Answer::MayHang);
        let ways = |dimensions| facts("banks", dimensions).accesses.unwrap().accesses.first().unwrap().ways;
        assert_eq!([ways([256, 1, 1]), ways([32, 8, 1]), ways([16, 16, 1])], [None, Some(1), Some(2)]);
    }

    #[test]
    fn what_is_wrong_in_blocks_of_every_size_is_told() {
        let modules = [
            ptx::parse(include_str!("../../../testdata/shapes/any_size.ptx")),
            ptx::parse(include_str!("../../../testdata/shapes/any_size_tensor.ptx")),
        ];
        let likely = |name: &str| -> Vec<(Rule, Confidence)> {
            let mut functions = modules.iter().flat_map(|module| module.functions());
            let function = functions.find(|function| function.name() == name).unwrap();
            let facts = WarpFacts::new(&function, None, Effort::Usual, steps(&function, false)).unwrap();
            facts.checks.iter().filter(|check| is_likely(check)).map(|check| (check.rule, check.confidence)).collect()
        };
        assert_eq!(likely("unordered"), [(Rule::Ordered, Confidence::Likely)]);
        assert_eq!(likely("two_of_three"), [(Rule::EnoughThreads, Confidence::Likely)]);
        assert_eq!(likely("two_groups"), [(Rule::InitFenced, Confidence::Likely)]);
        assert_eq!(likely("leaves"), [(Rule::TensorFreed, Confidence::Likely)]);
        for right in ["ordered", "three_warps", "one_warp", "first_warp"] {
            assert_eq!(likely(right), [], "{right}");
        }
    }
}
