//! Warps of the PTX joined with the code that they became.

use std::ops::Range;

use super::Evaluated;
use super::model::*;
use super::warp_facts::{self, WarpFacts};
use crate::base::figures::ranges;
use crate::base::work::{self, TooManySteps};
use crate::base::{Line, Pc, RegFile};
use crate::memory::MemoryMaps;
use crate::ptx::{self, RegisterAction};
use crate::registers::budget::budgets;
use crate::registers::code::pcs;
use crate::report::code::Section;
use crate::report::{Advisory, Kernel, Launch, LaunchHints, Multiplication};
use crate::roles;
use crate::roles::pool::{self, Fit, Share};
use crate::roles::setmaxnreg;
use crate::simt::BlockSize;
use crate::sync::register_schedule;

/// What the join knows beside the kernel itself.
pub(in crate::report) struct Known<'a> {
    pub section: &'a Section<'a>,
    pub ranges: &'a [Range<Pc>],
    pub function: Option<&'a ptx::Function<'a, 'a>>,
    pub advisories: &'a [Advisory],
    pub launch: &'a LaunchHints,
    pub roles: &'a [RoleHint],
    /// Threads that were evaluated before.
    pub evaluated: Option<&'a Evaluated>,
    /// Whether barriers are to be drawn.
    pub timelines: bool,
}

/// Fills in `roles`, `setmaxnreg` and `barriers`; says so where that would take too many steps, and leaves them out.
pub(in crate::report) fn fill(kernel: &mut Kernel, known: &Known<'_>) -> Result<(), TooManySteps> {
    let emitted = known.section.code.as_ref().map(|code| setmaxnreg::emitted(code, known.ranges));
    let Some(function) = known.function.filter(|function| function.is_definition()) else {
        kernel.setmaxnreg = without_ptx(known, emitted.as_deref());
        return Ok(());
    };
    let size = block_size(kernel.launch.reqntid, kernel.launch.maxntid, known.launch);
    let steps = warp_facts::steps(function, false);
    let own;
    let warp_facts = match known.evaluated.and_then(|all| all.get(function, size)) {
        Some(warp_facts) => warp_facts,
        None => {
            let evaluate = if known.timelines { WarpFacts::drawn } else { WarpFacts::new };
            own = evaluate(function, size, known.launch.effort, steps);
            &own
        }
    };
    let joined = warp_facts.as_ref().map_err(|error| *error).and_then(|warp_facts| {
        let joiner = Joiner { known, warp_facts, module: function.module() };
        work::within(steps, || {
            let described = joiner.roles(kernel, emitted.as_deref());
            let setmaxnreg = joiner.setmaxnreg(kernel, &described, emitted.as_deref(), size);
            (warp_facts, described, setmaxnreg)
        })
    });
    let (warp_facts, described, setmaxnreg) = match joined {
        Ok(joined) => joined,
        Err(error) => {
            kernel.setmaxnreg = without_ptx(known, emitted.as_deref());
            return Err(error);
        }
    };
    kernel.setmaxnreg = setmaxnreg;
    if let Some(spills) = &mut kernel.spills {
        for spill in spills {
            let role = spill.ptx_line.and_then(|line| warp_facts.role_of_line.get(&line));
            spill.role = role.and_then(|role| warp_facts.roles.get(*role)).map(|role| role.name.clone());
        }
    }
    kernel.roles = Some(described);
    kernel.role_of_line.clone_from(&warp_facts.role_of_line);
    kernel.warps_of_line.clone_from(&warp_facts.warps_of_line);
    let number = |line: Line| function.module().number_of(line);
    let multiplications = warp_facts.multiplications.iter();
    kernel.multiplications = multiplications.map(|found| Multiplication::of(found, number(found.line))).collect();
    kernel.timeline.clone_from(&warp_facts.timeline);
    kernel.memory.clone_from(&warp_facts.memory);
    kernel.accesses.clone_from(&warp_facts.accesses);
    kernel.barriers = Some(super::barriers::barriers(kernel, known, warp_facts, function.module()));
    Ok(())
}

/// The maps of a kernel's memory alone; none where they would take too many steps.
pub(in crate::report) fn memory_of(
    function: &ptx::Function<'_, '_>,
    launch: &Launch,
    hints: &LaunchHints,
) -> Option<MemoryMaps> {
    let size = block_size(launch.reqntid, launch.maxntid, hints);
    let steps = warp_facts::steps(function, false);
    WarpFacts::new(function, size, hints.effort, steps).ok()?.memory
}

pub(super) fn block_size(
    required: Option<[u32; 3]>,
    most: Option<[u32; 3]>,
    launch: &LaunchHints,
) -> Option<BlockSize> {
    let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
    // A launch of more threads than .maxntid fails.
    let can = |asked: &crate::base::Threads| most.is_none_or(|most| product(asked.extents()) <= product(most));
    let (dimensions, exact) = match (required, launch.threads.filter(can), most) {
        (Some(required), _, _) => (required, true),
        (None, Some(threads), _) => (threads.extents(), true),
        (None, None, Some(most)) => (most, false),
        (None, None, None) => return None,
    };
    Some(BlockSize { dimensions, exact })
}

fn action(action: RegisterAction) -> String {
    match action {
        RegisterAction::Inc => "inc".to_owned(),
        RegisterAction::Dec => "dec".to_owned(),
    }
}

fn emitted_sites(known: &Known<'_>, emitted: &[setmaxnreg::Emitted]) -> Vec<EmittedRegisters> {
    let site = |site: &setmaxnreg::Emitted| EmittedRegisters {
        pc: site.pc,
        ptx_line: known.section.ptx_line(site.pc),
        action: action(site.action),
        count: site.count,
    };
    emitted.iter().map(site).collect()
}

/// A cubin alone shows what was kept, not what was asked for.
fn without_ptx(known: &Known<'_>, emitted: Option<&[setmaxnreg::Emitted]>) -> Option<SetMaxNReg> {
    let emitted = emitted.filter(|emitted| !emitted.is_empty())?;
    Some(SetMaxNReg {
        requested: Vec::new(),
        emitted: emitted_sites(known, emitted),
        recorded: known.section.function.reg_reconfig,
        honoured: Some(true),
        code: None,
        reason: None,
        fix: None,
        pool: None,
    })
}

struct Joiner<'a> {
    known: &'a Known<'a>,
    warp_facts: &'a WarpFacts,
    module: &'a ptx::Module<'a>,
}

impl Joiner<'_> {
    fn roles(&self, kernel: &Kernel, emitted: Option<&[setmaxnreg::Emitted]>) -> Vec<Role> {
        let WarpFacts { roles: found, role_of_line: of_line, role_of_set, .. } = self.warp_facts;
        let mut instructions = vec![0u64; found.len()];
        let mut peaks: Vec<Option<(u32, Option<Line>)>> = vec![None; found.len()];
        let code = self.known.section.code.as_ref();
        let sets: Vec<(Pc, Option<u32>)> = emitted.into_iter().flatten().map(|site| (site.pc, site.count)).collect();
        let budgets = code.map(|code| budgets(code, &sets)).unwrap_or_default();
        for pc in pcs(self.known.ranges) {
            let line = self.known.section.ptx_line(pc);
            if let Some(count) = line.and_then(|line| of_line.get(&line)).and_then(|role| instructions.get_mut(*role)) {
                *count += 1;
            }
            // Where the budget was changed counts from there; a role that never changes it counts what only it runs.
            let budget = budgets.get(pc.0 as usize / 16).copied().flatten();
            let role = match budget {
                Some(budget) => budget
                    .set_at
                    .and_then(|at| self.known.section.ptx_line(at))
                    .and_then(|line| role_of_set.get(&line))
                    .copied(),
                None => line
                    .and_then(|line| of_line.get(&line))
                    .copied()
                    .filter(|role| sets.is_empty() || found.get(*role).is_some_and(|role| role.sets.is_empty())),
            };
            let (Some(role), Some(code)) = (role, code) else { continue };
            let live = code.occupied(pc, RegFile::Gpr);
            if let Some(peak) = peaks.get_mut(role)
                && peak.is_none_or(|(most, _)| live > most)
            {
                *peak = Some((live, line));
            }
        }
        let spills = |role: usize| {
            let spills = kernel.spills.as_ref()?;
            work::spend_on(1 + spills.len());
            let of = |line: Option<Line>| line.and_then(|line| of_line.get(&line)) == Some(&role);
            Some(spills.iter().filter(|spill| of(spill.ptx_line)).count() as u64)
        };
        let describe = |(index, role): (usize, &roles::Role)| {
            let hint = self.known.roles.iter().find(|hint| hint.name == role.name);
            let warp_ids = role.threads.map(|threads| threads.warps());
            let limit = role.budget.or(kernel.resources.registers.filter(|_| role.sets.is_empty()));
            let peak = peaks.get(index).copied().flatten();
            Role {
                name: role.name.clone(),
                entry_ptx_line: role.entry.map(|line| self.module.number_of(line)),
                budget: role.budget,
                budgets: role.counts.clone(),
                peak_gpr: peak.map(|(live, _)| live),
                peak_ptx_line: peak.and_then(|(_, line)| line),
                headroom: limit.zip(peak).map(|(limit, (live, _))| i64::from(limit) - i64::from(live)),
                spills: spills(index),
                instructions: instructions.get(index).copied(),
                warps: hint.map(|hint| hint.warps).or(role.warps()),
                warp_ids: warp_ids.filter(|_| hint.is_none()).map(|warps| ranges(&warps)),
                barriers: self.warp_facts.barriers_of.get(index).cloned().unwrap_or_default(),
                does: role.duties.iter().map(|duty| duty.name().to_owned()).collect(),
                parts: role
                    .part
                    .iter()
                    .filter(|_| hint.is_none())
                    .map(|(done, warps)| RolePart { does: done.name().to_owned(), warp_ids: ranges(warps) })
                    .collect(),
            }
        };
        found.iter().enumerate().map(describe).collect()
    }

    fn setmaxnreg(
        &self,
        kernel: &Kernel,
        described: &[Role],
        emitted: Option<&[setmaxnreg::Emitted]>,
        size: Option<BlockSize>,
    ) -> Option<SetMaxNReg> {
        if self.warp_facts.requested.is_empty() && emitted.is_none_or(<[_]>::is_empty) {
            return None;
        }
        let honoured = emitted.map(|emitted| !emitted.is_empty());
        let about = |advisory: &&Advisory| advisory.kernel.as_deref().is_none_or(|name| name == kernel.name);
        let block_known = kernel.launch.maxntid.is_some() || kernel.launch.reqntid.is_some();
        let why = self.known.advisories.iter().filter(about).find_map(|advisory| {
            let code = advisory.code.as_deref()?;
            setmaxnreg::reason(code, block_known).map(|(reason, fix)| (code.to_owned(), reason, fix))
        });
        let why = why.filter(|_| honoured != Some(true));
        Some(SetMaxNReg {
            requested: self
                .warp_facts
                .requested
                .iter()
                .map(|site| RequestedRegisters {
                    ptx_line: self.module.number_of(site.line),
                    action: action(site.action),
                    count: site.count,
                    illegal: site.illegal(),
                })
                .collect(),
            emitted: emitted_sites(self.known, emitted.unwrap_or_default()),
            recorded: self.known.section.function.reg_reconfig,
            honoured,
            code: why.as_ref().map(|(code, ..)| code.clone()),
            reason: why.as_ref().map(|(_, reason, _)| (*reason).to_owned()),
            fix: why.as_ref().map(|(.., fix)| (*fix).to_owned()),
            pool: if honoured == Some(false) { None } else { Some(self.pool(kernel, described, size)) },
        })
    }

    fn pool(&self, kernel: &Kernel, described: &[Role], size: Option<BlockSize>) -> RegisterPool {
        let found = &self.warp_facts.roles;
        let unknown = |explanation: String| RegisterPool {
            available: None,
            required: None,
            verdict: "unknown".to_owned(),
            explanation,
            condition: None,
            stuck_ptx_line: None,
            rebalance: Vec::new(),
        };
        let Some(entry) = kernel.resources.registers else {
            return unknown("how many registers a block is launched with is not known".to_owned());
        };
        if found.is_empty() {
            return unknown("every warp runs every setmaxnreg, or which warps run which cannot be told".to_owned());
        }
        let rounded = entry.next_multiple_of(setmaxnreg::STEP);
        let walked = self.warp_facts.courses.as_ref().and_then(|courses| courses.walk(rounded));
        let assumed = size.filter(|size| !size.exact).and_then(|size| size.threads());
        let condition =
            assumed.map(|threads| format!("if it is launched with all {threads} threads that .maxntid allows"));
        if found.iter().any(|role| role.counts.len() > 1) {
            return match walked {
                Some(walked) => self.in_phases(rounded, &walked, condition),
                None => {
                    unknown("warps change their registers more than once, in an order that is not known".to_owned())
                }
            };
        }
        let Some(shares) = described
            .iter()
            .map(|role| {
                Some(Share { name: role.name.clone(), budget: role.budget, warps: role.warps?, peak: role.peak_gpr })
            })
            .collect::<Option<Vec<Share>>>()
        else {
            let sum: Vec<String> = described
                .iter()
                .map(|role| format!("{} × warps of {}", role.budget.unwrap_or(entry), role.name))
                .collect();
            let mut pool =
                unknown("how many warps each role has cannot be told: --roles name=warps,… says it".to_owned());
            pool.condition = Some(format!("it fits if {} is at most {entry} × all warps", sum.join(" + ")));
            return pool;
        };
        let Some(found) = pool::pool(entry, &shares) else {
            return unknown("the sums do not fit 32 bits".to_owned());
        };
        // The budgets add up, but whoever gives may come to it only after those who take.
        if let Some(walked) = walked.filter(|walked| !walked.ends && walked.stuck.is_some())
            && !matches!(found.fit, Fit::Never(_))
        {
            return self.in_phases(rounded, &walked, condition);
        }
        let (verdict, words) = match found.fit {
            Fit::Exact => ("exact", "fits exactly".to_owned()),
            Fit::Unused(left) => ("unused", format!("leaves {left} registers unused")),
            Fit::Never(missing) => {
                ("never", format!("can never be satisfied, {missing} registers too few: the kernel hangs"))
            }
        };
        RegisterPool {
            available: Some(found.available),
            required: Some(found.required),
            verdict: verdict.to_owned(),
            explanation: format!("{words}: {}", found.arithmetic),
            condition,
            stuck_ptx_line: None,
            rebalance: found
                .rebalance
                .into_iter()
                .flatten()
                .map(|(role, registers)| RoleBudget { role, registers })
                .collect(),
        }
    }

    /// The pool where budgets change in an order that barriers impose.
    fn in_phases(&self, entry: u32, walked: &register_schedule::Outcome, condition: Option<String>) -> RegisterPool {
        let found = &self.warp_facts.roles;
        let warps: u32 = found.iter().filter_map(roles::Role::warps).sum();
        let available = entry.saturating_mul(warps);
        let stuck = walked.stuck.filter(|_| !walked.ends);
        let name = |role: usize| found.get(role).map_or("a role", |role| role.name.as_str());
        let by = walked
            .by
            .map(|(role, line)| format!("where the {} role runs line {}", name(role), self.module.number_of(line)));
        let condition = [by, condition].into_iter().flatten().reduce(|all, more| format!("{all}, {more}"));
        let (verdict, explanation) = match stuck {
            Some((role, line)) => {
                let (name, line) = (name(role), self.module.number_of(line));
                (
                    "never",
                    format!(
                        "can never be satisfied: in the order that barriers impose, the {name} waits at line {line} for \
                         registers that no warp has given back by then, of the {available} ({warps} × {entry}) that a block is \
                         launched with"
                    ),
                )
            }
            None if !walked.ends => {
                ("unknown", "the order in which the warps change their registers cannot be told".to_owned())
            }
            None if walked.held == available => (
                "exact",
                format!(
                    "fits exactly, in the order that barriers impose: at most {} of the {available} ({warps} × {entry}) \
                     that a block is launched with are held at once",
                    walked.held
                ),
            ),
            None => (
                "unused",
                format!(
                    "leaves {} registers unused, in the order that barriers impose: at most {} of the {available} \
                     ({warps} × {entry}) that a block is launched with are held at once",
                    available.saturating_sub(walked.held),
                    walked.held
                ),
            ),
        };
        RegisterPool {
            available: Some(available),
            required: Some(walked.held).filter(|_| stuck.is_none()),
            verdict: verdict.to_owned(),
            explanation,
            condition,
            stuck_ptx_line: stuck.map(|(_, line)| self.module.number_of(line)),
            rebalance: Vec::new(),
        }
    }
}
