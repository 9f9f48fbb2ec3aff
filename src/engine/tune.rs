//! Changes tried on a kernel: each built through the cache, many at once, and measured.
//!
//! In: a PTX file, an architecture, a budget. Out: a [`Tuned`] for each kernel. A trial runs the same ptxas with the same flags as a
//! report would, on the text as its edits leave it, for the kernel alone where the file has several.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rayon::prelude::*;

use super::compile::{self, Built, Session};
use super::given::Given;
use super::glob::nearest;
use super::input::{self, Input, Kind};
use super::inspect::{Job, Variant, View, inspect};
use super::progress::{Installing, Progress};
use super::settings::Settings;
use super::threads::Pool;
use crate::base::hardware::PORTABLE_SMEM_PER_BLOCK_BYTES;
use crate::base::work::{self, Deadline};
use crate::base::{Arch, Threads};
use crate::cache::{Cache, Key};
use crate::cubin::Image;
use crate::ptx::{self, Function, FunctionKind, Module};
use crate::report::{
    self, Answer, Costs, ErrorStage, Evaluated, Kernel, KernelKind, LaunchFact, LaunchHints, RecordedLaunch, Severity,
    Unit, Wanted, demangle,
};
use crate::tune::edit::{self, Edit};
use crate::tune::{Budget, Facts, Outcome, Reason, Search, Space, Trial, TrialFigures, Tuned, Tuning, Turns};

mod answer;

/// Builds of a kernel where nobody says how many.
pub const RUNS: usize = 120;
/// Rows of a table where nobody says how many.
pub const ROWS: usize = 12;

/// What is to be tuned, and how long.
#[derive(Clone, Debug)]
pub struct Request {
    /// Inputs, architecture, and how they are built in every trial; its ptxas is not looked at.
    pub settings: Settings,
    /// The ptxas to try; none means the one at hand.
    pub ptxas: Vec<String>,
    /// Builds of each kernel.
    pub runs: usize,
    /// The time that a kernel's search may take; none means as long as its runs take.
    pub time: Option<Duration>,
    /// Files for `--apply-controls` of ptxas, each tried alone and with what else helps.
    pub controls: Vec<String>,
    /// Rows of the table, at most.
    pub rows: usize,
    /// What is known of the launch.
    pub launch: LaunchHints,
    /// What ptxas has made before.
    pub cache: Option<Arc<Cache>>,
    /// Who is told of an installation of ptxas.
    pub installing: Installing,
}

/// Tunes every chosen kernel of every input.
pub fn tune(request: &Request, inputs: &[Given], progress: &dyn Progress) -> Result<Tuning> {
    let first = Session::new(&request.settings)?;
    let pool = first.pool();
    let mut tuned = Vec::new();
    for given in inputs {
        let read = Ok(ptx_of(given.read().map_err(anyhow::Error::msg)?)?);
        let Ok(input) = &read else { continue };
        let text = input.text();
        let module = ptx::parse(&text);
        for arch in first.arches() {
            let Some(arch) = arch.or_else(|| crate::toolchain::target_arch(&input.bytes)) else {
                bail!("{}: the PTX has no .target that names an architecture: give one with --arch", input.name);
            };
            let bench = Bench { request, pool: &pool, read: &read, input, path: &given.path, module: &module, arch };
            tuned.extend(bench.all(&first, progress)?);
        }
    }
    if let Some(cache) = &request.cache {
        cache.tidy();
    }
    Ok(Tuning::new(tuned))
}

/// The text of a kernel's PTX with these edits.
pub fn apply(path: &Path, settings: &Settings, edits: &[Edit]) -> Result<(String, String, String)> {
    let session = Session::new(settings)?;
    let input = ptx_of(input::read(path, &session.limits)?)?;
    let text = input.text().into_owned();
    let module = ptx::parse(&text);
    let kernels: Vec<_> = entries(&module).filter(|function| is_chosen(&session, function.name())).collect();
    let [kernel] = kernels.as_slice() else {
        bail!("{} of the kernels of {} are chosen: expected one; --kernel chooses", kernels.len(), input.name);
    };
    let edits: Vec<&Edit> = edits.iter().collect();
    let edited = edit::apply(kernel, &edits)?;
    Ok((input.name.clone(), text.clone(), edited))
}

/// An input that has to be PTX.
fn ptx_of(input: Input) -> Result<Input> {
    match input.kind() {
        Ok(Kind::Ptx) => Ok(input),
        Ok(Kind::Cubin) => bail!(
            "{} is a cubin: what is tuned is PTX, which is built again and again: give the PTX that it was made of",
            input.name
        ),
        Err(error) => bail!("{}: {error:#}", input.name),
    }
}

fn entries<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = Function<'m, 'a>> {
    module.functions().filter(|function| function.is_definition() && function.kind() == FunctionKind::Entry)
}

fn is_chosen(session: &Session, name: &str) -> bool {
    session.kernels.matches([name].into_iter().chain(demangle(name).as_deref()))
}

/// An input, and what its trials are made with.
struct Bench<'a> {
    request: &'a Request,
    pool: &'a Pool,
    read: &'a Result<Input, String>,
    input: &'a Input,
    path: &'a Path,
    module: &'a Module<'a>,
    arch: Arch,
}

/// A kernel as it is.
struct Baseline {
    kernel: Kernel,
    /// One for each ptxas, with the flags that every trial has.
    sessions: Vec<Session>,
    /// Their versions.
    versions: Vec<String>,
}

impl Bench<'_> {
    fn all(&self, session: &Session, progress: &dyn Progress) -> Result<Vec<Tuned>> {
        let kernels: Vec<Function<'_, '_>> =
            entries(self.module).filter(|function| is_chosen(session, function.name())).collect();
        if kernels.is_empty() {
            let names: Vec<&str> = entries(self.module).map(|function| function.name()).collect();
            let globs = &self.request.settings.kernel;
            if names.is_empty() {
                bail!("{} has no kernel: expected PTX with an .entry", self.input.name);
            }
            bail!("--kernel {} matches no kernel of {}; {}", globs.join(", "), self.input.name, nearest(globs, &names));
        }
        progress.expect((self.request.runs * kernels.len()) as u64);
        kernels.iter().map(|kernel| self.one(kernel, progress)).collect()
    }

    /// One kernel: as it is, then trial after trial.
    fn one(&self, function: &Function<'_, '_>, progress: &dyn Progress) -> Result<Tuned> {
        let start = Instant::now();
        let baseline = self.baseline(function)?;
        let can_override = baseline.versions.iter().all(|version| compile::has_override(version));
        let launch = self.request.launch.or_recorded(self.recorded());
        let space = Space::new(&Facts {
            function: *function,
            kernel: &baseline.kernel,
            arch: self.arch,
            threads: launch.threads.map(Threads::count),
            smem_dynamic: launch.smem_dynamic_bytes,
            releases: baseline.sessions.len(),
            can_override,
            has_others: self.alone(function).is_some(),
            flags: &self.request.settings.flags,
            controls: &self.request.controls,
        });
        let trial = Trials {
            bench: self,
            function,
            baseline: &baseline,
            can_override,
            evaluated: None,
            turns: OnceLock::new(),
        };
        let evaluated = trial.evaluate();
        let trial = Trials { evaluated, ..trial };
        let now = trial.outcome(&Trial::default());
        progress.advance(1);
        if let Outcome::Refused { message, .. } = &now {
            bail!("{}: {} cannot be built and launched as it is: {message}", self.input.name, function.name());
        }
        let mut search = Search::new(space, Budget { runs: self.request.runs }, now);
        let mut out_of_time = false;
        loop {
            if self.request.time.is_some_and(|time| start.elapsed() >= time) {
                out_of_time = true;
                break;
            }
            let batch = search.next_batch();
            if batch.is_empty() {
                break;
            }
            let one = |trial_of: &Trial| {
                let outcome = trial.outcome(trial_of);
                progress.advance(1);
                (trial_of.clone(), outcome)
            };
            let results = self.pool.install(|| batch.par_iter().map(one).collect());
            search.record(results);
        }
        trial.answer(&search, out_of_time)
    }

    fn recorded(&self) -> Option<&RecordedLaunch> {
        self.input.recorded_launch.as_ref()
    }

    /// The flag that builds a kernel without the others of its file; none where there are no others.
    fn alone(&self, function: &Function<'_, '_>) -> Option<String> {
        (entries(self.module).count() > 1).then(|| format!("--entry={}", function.name()))
    }

    /// One for each ptxas.
    fn sessions(&self, function: &Function<'_, '_>) -> Result<Vec<Session>> {
        let request = self.request;
        let flags: Vec<String> = request.settings.flags.iter().cloned().chain(self.alone(function)).collect();
        let asked: Vec<Option<String>> =
            if request.ptxas.is_empty() { vec![None] } else { request.ptxas.iter().cloned().map(Some).collect() };
        let session = |ptxas: Option<String>| {
            let mut session = Session::new(&Settings { ptxas, flags: flags.clone(), ..request.settings.clone() })?;
            session.installing = request.installing;
            session.cache.clone_from(&request.cache);
            session.launch = request.launch;
            anyhow::Ok(session)
        };
        asked.into_iter().map(session).collect()
    }

    /// The report of the kernel as it is: why it has so many registers, and what bounds them.
    fn baseline(&self, function: &Function<'_, '_>) -> Result<Baseline> {
        let sessions = self.sessions(function)?;
        let mut versions = Vec::new();
        let mut found: Option<Kernel> = None;
        for session in &sessions {
            let job = Job { input: self.read, path: self.path, arch: Some(self.arch), first: true, view: View::Report };
            let Some(inspected) = inspect(session, &job) else { continue };
            let unit = inspected.unit;
            if let Some(error) = &unit.error {
                let said = error.diagnostics.first().map(|first| format!(": {}", first.message)).unwrap_or_default();
                bail!("{}{said}", error.message);
            }
            let version = unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.clone());
            versions.push(version.unwrap_or_else(|| "unknown".to_owned()));
            found = found.or_else(|| unit.kernels.into_iter().find(|kernel| kernel.name == function.name()));
        }
        let Some(kernel) = found else { bail!("{}: ptxas made no code of {}", self.input.name, function.name()) };
        Ok(Baseline { kernel, sessions, versions })
    }
}

/// The trials of one kernel.
struct Trials<'b, 'a> {
    bench: &'b Bench<'a>,
    function: &'b Function<'b, 'a>,
    baseline: &'b Baseline,
    can_override: bool,
    /// Its threads as the text is: what flags alone change leaves them as they are.
    evaluated: Option<Evaluated>,
    /// How often its loops turn, as far as the kernel as it is tells.
    turns: OnceLock<Turns>,
}

impl Trials<'_, '_> {
    /// Whether what a trial does to registers can make the kernel hang: setmaxnreg deals out those of the launch.
    fn shares_registers(&self) -> bool {
        self.baseline.kernel.setmaxnreg.is_some()
    }

    fn wanted(&self) -> Wanted {
        Wanted { live_values: false, warps: self.shares_registers(), timelines: false, costs: Costs::Builds }
    }

    fn evaluate(&self) -> Option<Evaluated> {
        let launch = self.bench.request.launch.or_recorded(self.bench.recorded());
        self.shares_registers().then(|| Evaluated::new(self.bench.module, &launch, self.wanted(), || true))
    }

    /// The flags that a trial is built with, beside the user's own.
    fn flags(&self, trial: &Trial) -> Vec<String> {
        let has_directives = self.baseline.kernel.launch != report::Launch::default();
        trial.flags(has_directives && self.can_override)
    }

    /// The text that it is built from.
    fn text(&self, trial: &Trial) -> Result<Option<String>, edit::Refused> {
        let edits = trial.edits();
        if edits.is_empty() { Ok(None) } else { edit::apply(self.function, &edits).map(Some) }
    }

    /// Builds and measures, in the time that an input has.
    fn outcome(&self, trial: &Trial) -> Outcome {
        let refused = |reason, message: String| Outcome::Refused { reason, message };
        let Some(session) = self.baseline.sessions.get(trial.ptxas) else {
            return refused(Reason::Failed, "there is no such ptxas".to_owned());
        };
        let in_time = || match self.text(trial) {
            Ok(edited) => self.measure(session, trial, edited.as_deref()),
            Err(error) => refused(Reason::Condition, error.to_string()),
        };
        let done = work::until(Deadline::after(session.timeout), in_time);
        done.unwrap_or_else(|_| refused(Reason::Failed, compile::out_of_time(session.timeout)))
    }

    fn measure(&self, session: &Session, trial: &Trial, edited: Option<&str>) -> Outcome {
        let flags: Vec<String> = session.flags.iter().cloned().chain(self.flags(trial)).collect();
        let text = edited.unwrap_or(self.bench.module.text());
        let (unit, built) = compile::build_with(session, &flags, text.as_bytes(), Some(self.bench.arch));
        let Some(built) = built else { return why_not(&unit) };
        let module = edited.map(ptx::parse);
        let Some((kernel, others, code, losses)) = self.read(session, &built, unit, &flags, module.as_ref()) else {
            return Outcome::Refused { reason: Reason::Failed, message: "its cubin cannot be read".to_owned() };
        };
        if kernel.occupancy.as_ref().is_some_and(|found| found.cannot_launch()) {
            let count = kernel.resources.registers.unwrap_or(0);
            let message = format!("no block fits on an SM with {count} registers a thread");
            return Outcome::Refused { reason: Reason::Unlaunchable, message };
        }
        if let Some(message) = self.asks_too_much(trial, &kernel) {
            return Outcome::Refused { reason: Reason::Unlaunchable, message };
        }
        if self.drops_setmaxnreg(&kernel) {
            let code = kernel.setmaxnreg.as_ref().and_then(|found| found.reason.clone());
            let message = code.unwrap_or_else(|| "ptxas then drops setmaxnreg".to_owned());
            return Outcome::Refused { reason: Reason::SetMaxNReg, message };
        }
        if let Some(message) = self.harm(&kernel) {
            return Outcome::Refused { reason: Reason::Barriers, message };
        }
        // The kernel as it is is built first, and says how often loops turn.
        let turns = kernel.code_parts.as_ref().map(|parts| self.turns.get_or_init(|| Turns::of(parts)));
        let figures = TrialFigures::of(&kernel, &others, trial.spills_to_shared(), turns);
        let figures = TrialFigures { losses, ..figures };
        Outcome::Built { figures: Box::new(figures), code }
    }

    /// The kernel of a cubin that was made for a trial, the functions beside it, the digest of the code, and the losses that ptxas
    /// warns of.
    fn read(
        &self,
        session: &Session,
        built: &Built<'_>,
        mut unit: Unit,
        flags: &[String],
        module: Option<&Module<'_>>,
    ) -> Option<(Kernel, Vec<Kernel>, String, u64)> {
        let image = Image::parse(&built.cubin).ok()?;
        let variant = Variant {
            session,
            module: module.unwrap_or(self.bench.module),
            flags,
            recorded: self.bench.recorded(),
            evaluated: self.evaluated.as_ref().filter(|_| module.is_none()),
            wanted: self.wanted(),
        };
        variant.join(&image, built, &mut unit);
        let losses = unit.advisories.iter().filter(|advisory| advisory.is_loss()).count() as u64;
        let (own, others): (Vec<Kernel>, Vec<Kernel>) =
            unit.kernels.into_iter().partition(|kernel| kernel.name == self.function.name());
        let others = others.into_iter().filter(|other| other.kind == KernelKind::Func).collect();
        let mut bytes: Vec<u8> = Vec::new();
        for function in &image.functions {
            bytes.extend_from_slice(function.name.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(function.code);
        }
        Some((own.into_iter().next()?, others, format!("sha256:{}", Key::digest(&bytes)), losses))
    }

    /// Why the launch fails that worked so far: it asks for shared memory beside what is spilt there, together for more than it has without
    /// opting in.
    fn asks_too_much(&self, trial: &Trial, kernel: &Kernel) -> Option<String> {
        let launch = self.bench.request.launch.or_recorded(self.bench.recorded());
        let dynamic = launch.smem_dynamic_bytes.filter(|_| trial.spills_to_shared())?;
        let fixed = kernel.resources.smem_bytes?;
        let most = PORTABLE_SMEM_PER_BLOCK_BYTES;
        (dynamic > 0 && dynamic <= most && fixed + dynamic > most).then(|| {
            format!(
                "the launch asks for {dynamic} bytes beside {fixed} of shared memory: it has {most} without opting in"
            )
        })
    }

    /// Whether ptxas no longer keeps the setmaxnreg that it keeps in the kernel as it is.
    fn drops_setmaxnreg(&self, kernel: &Kernel) -> bool {
        let kept = |of: &Kernel| of.setmaxnreg.as_ref().and_then(|found| found.honoured);
        kept(&self.baseline.kernel) == Some(true) && kept(kernel) != Some(true)
    }

    /// What a trial does to barriers and the registers that roles share; none where it is proven to do no harm.
    fn harm(&self, kernel: &Kernel) -> Option<String> {
        let verdict = |of: &Kernel| of.barriers.as_ref().and_then(|found| Some(found.execution.as_ref()?.verdict));
        let (then, now) = (verdict(&self.baseline.kernel), verdict(kernel));
        if self.shares_registers() && then == Some(Answer::Ends) && now != Some(Answer::Ends) {
            return Some("its barriers, executed, no longer end in every order".to_owned());
        }
        let pool = |of: &Kernel| of.setmaxnreg.as_ref().and_then(|found| found.pool.clone());
        let pool_now = pool(kernel)?;
        let was_sound = pool(&self.baseline.kernel).is_none_or(|pool| is_sound(&pool.verdict));
        (was_sound && !is_sound(&pool_now.verdict)).then(|| format!("setmaxnreg then {}", pool_now.explanation))
    }
}

/// Whether a pool has what its roles ask for.
fn is_sound(verdict: &str) -> bool {
    matches!(verdict, "exact" | "unused")
}

/// Who said no, and what.
fn why_not(unit: &Unit) -> Outcome {
    let Some(error) = &unit.error else {
        return Outcome::Refused { reason: Reason::Failed, message: "ptxas made no cubin".to_owned() };
    };
    let said = error.diagnostics.iter().find(|said| said.severity == Severity::Error);
    let reason = if error.stage == ErrorStage::Ptxas { Reason::Ptxas } else { Reason::Failed };
    Outcome::Refused { reason, message: said.map_or_else(|| error.message.clone(), |said| said.message.clone()) }
}

/// What of a launch nobody said.
fn missing(kernel: &Kernel) -> Vec<String> {
    let facts = kernel.occupancy.iter().flat_map(|found| &found.missing);
    facts.map(|fact: &LaunchFact| fact.flag().to_owned()).collect()
}
