//! The gate: what was measured against what was recorded.
//!
//! [`plan`] turns what is asked for and the policy into a list of what to measure; this file measures and checks. Writing the verdict, or the
//! new baseline, is left to whoever asked.

mod explain;
mod inputs;
mod parts;
mod pieces;
pub mod plan;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use self::explain::explain;
pub use self::parts::{measure_named, measure_shard};
use self::pieces::Took;
pub use self::plan::Plan;
use super::progress::{Installing, Progress};
use super::settings::Within;
use crate::base::{Limits, Threads};
use crate::cache::Told;
use crate::gate::{self, Baseline, Check, Date, Measured, Moment, Piece, Scope, Times, Verdict};

/// What a gate is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to measure; none means the policy's.
    pub inputs: Vec<PathBuf>,
    /// The recorded figures; none means the policy's, or the usual file beside it.
    pub baseline: Option<PathBuf>,
    /// The policy; none means the one here or in a folder above.
    pub policy: Option<PathBuf>,
    /// Whether improvements must be recorded, too.
    pub ratchet: bool,
    /// Codes that fail.
    pub deny: Vec<String>,
    /// Architectures; none means the policy's, or the PTX's `.target`.
    pub arch: Vec<String>,
    /// ptxas versions or paths; none means the policy's, or the one at hand.
    pub ptxas: Vec<String>,
    /// How many compilations at once.
    pub jobs: Option<usize>,
    /// Whether ptxas runs even where its result is in the cache.
    pub no_cache: bool,
    /// How much an input may cost.
    pub limits: Limits,
    /// Whether nothing may be fetched.
    pub offline: bool,
    /// Which parts of libraries.
    pub within: Within,
    /// Patterns for names of kernels; none means all.
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say.
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch.
    pub smem_dynamic: Option<u64>,
    /// Whether barriers are executed with more inputs, in more orders: for seconds a kernel.
    pub thorough: bool,
    /// Flags for ptxas.
    pub flags: Vec<String>,
    /// Who is told of an installation of ptxas.
    pub installing: Installing,
    /// Who is told that the shared cache is of no use.
    pub told: Told,
}

/// What a gate measured, what was recorded, and how they compare.
pub struct Gated {
    /// What was measured, under which names.
    pub plan: Plan,
    /// The baseline as it is written; empty where there is none.
    pub recorded: String,
    /// The baseline.
    pub baseline: Baseline,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// How they compare.
    pub verdict: Verdict,
    took: Vec<Took>,
    today: Date,
}

/// Where the figures of a gate come from.
pub enum From<'a> {
    /// They are measured here, and somebody is told how far it is.
    Here(&'a dyn Progress),
    /// Shards have measured them: their files.
    Parts(&'a [PathBuf]),
}

impl Gated {
    /// Measures and compares. Without a baseline there is an error, unless one is to be written (`update`).
    pub fn new(request: &Request, today: Date, update: bool, from: &From<'_>) -> Result<Gated> {
        let plan = Plan::new(request)?;
        let (recorded, baseline) = read_baseline(&plan, update)?.unwrap_or_default();
        let (measured, took) = match from {
            From::Here(progress) => {
                progress.expect(plan.builds());
                let of_input = |planned: &plan::Input, own: Vec<Piece>| vec![pieces::together(planned, own)];
                pieces::measure(&plan, &|_, _| true, *progress, &of_input)?
            }
            From::Parts(files) => together(&plan, parts::read_parts(request, &plan, files)?),
        }
        .into_iter()
        .fold((Vec::new(), Vec::new()), |(mut measured, mut took), (own_measured, own_took)| {
            measured.extend(own_measured);
            took.extend(own_took);
            (measured, took)
        });
        let verdict = with_check(&plan, &baseline, &measured, today, gate::check);
        let mut gated = Gated { plan, recorded, baseline, measured, verdict, took, today };
        if !update {
            for unit in &mut gated.verdict.units {
                unit.command = Some(gated.plan.command(&unit.path, &unit.arch, unit.ptxas.as_deref()));
            }
        }
        Ok(gated)
    }

    /// How long everything took, for the shards of the next run.
    pub fn times(&self) -> Result<Times> {
        parts::times(&self.plan, &self.took)
    }

    /// Hands on what is compared with what.
    pub fn with_check<T>(&self, then: impl FnOnce(&Check<'_>) -> T) -> T {
        with_check(&self.plan, &self.baseline, &self.measured, self.today, then)
    }

    /// The baseline as an update would write it; none where something could not be measured.
    pub fn updated(&self) -> Option<String> {
        let whole = self.measured.iter().all(|measured| measured.error.is_none());
        let update = |check: &Check<'_>| gate::update(check.baseline, check.measured, check.scope).to_text();
        whole.then(|| self.with_check(update))
    }

    /// Says which lines of the kernels that fail are to blame, with the old build beside the new one; `old` names it.
    pub fn explain(&mut self, old: Option<&Path>) {
        if let Some(session) = self.plan.sessions.first().filter(|_| self.verdict.failures().next().is_some()) {
            session.pool().install(|| explain(&self.plan, &self.baseline, old, &mut self.verdict));
        }
    }
}

/// What pieces, in order, are together, input by input.
fn together(plan: &Plan, pieces: Vec<Piece>) -> Vec<(Vec<Measured>, Vec<Took>)> {
    let mut pieces = pieces.into_iter().peekable();
    let of_input = |planned: &plan::Input| {
        let path = planned.path.display().to_string();
        let own = std::iter::from_fn(|| pieces.next_if(|piece| piece.path == path)).collect();
        pieces::together(planned, own)
    };
    plan.inputs.iter().map(of_input).collect()
}

fn with_check<T>(
    plan: &Plan,
    baseline: &Baseline,
    measured: &[Measured],
    today: Date,
    then: impl FnOnce(&Check<'_>) -> T,
) -> T {
    // What cannot be looked at is not gone: nothing that was recorded of it is forgotten.
    let exists = |name: &str| plan.root.join(name).try_exists().unwrap_or(true);
    let scope = Scope {
        kernels: &plan.kernels,
        some_inputs: plan.some_inputs,
        some_arches: plan.some_arches,
        some_ptxas: plan.some_ptxas,
        exists: &exists,
    };
    then(&Check {
        measured,
        baseline,
        policy: &plan.policy,
        ratchet: plan.ratchet,
        today,
        scope: &scope,
        baseline_name: &plan.baseline_name,
    })
}

/// The day in UTC.
pub fn today() -> Date {
    Date::from_unix_seconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}

/// The second in UTC.
pub fn now() -> Moment {
    Moment::from_unix_seconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}

/// Reads what was recorded: the text, and what it says. A baseline that is not there is an error unless one is to be written.
pub fn read_baseline(plan: &Plan, update: bool) -> Result<Option<(String, Baseline)>> {
    let path = &plan.baseline;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && update => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no baseline {}, so nothing to compare with: run the same command with --update to record one, and commit \
             the file; --baseline names one that is elsewhere",
            plan.baseline_name
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot read the baseline {}", plan.baseline_name)),
    };
    // An update reads what it does not measure anew: with a file that it cannot read it would fail as the comparison does.
    let parsed = Baseline::parse(&text).map_err(|error| {
        let name = &plan.baseline_name;
        anyhow::anyhow!(
            "the baseline {name} cannot be used: {error}; restore it (`git checkout {name}`), or delete it and record it anew with \
             the same command and --update"
        )
    })?;
    Ok(Some((text, parsed)))
}
