//! From an input and an architecture to a cubin: decisions first, then ptxas where it is needed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::glob::Globs;
use super::input::{self, Input, Kind};
use super::jobserver::Jobserver;
use super::progress::{self, Installing};
use super::settings::{Settings, Within};
use super::threads::{self, Pool};
use crate::base::{Arch, Limits, Line, Variant, work};
use crate::cache::{Cache, Entry, Key, Made};
use crate::ptx;
use crate::report::{ErrorStage, LaunchHints, PtxasUsed, RoleHint, Unit, UnitError, Wanted, refused_findings};
use crate::toolchain::{self, Config, Env, Job, Origin, Ptxas, Request, RunError, Version};

/// How long a ptxas may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What the flags decided for every input.
pub struct Session {
    /// The machine as the process sees it.
    pub env: Env,
    /// What to read.
    pub inputs: Vec<PathBuf>,
    /// What to compile PTX for; none means each file's own `.target`.
    pub arches: Vec<Arch>,
    /// Which kernels to speak of.
    pub kernels: Globs,
    /// Flags of the user for ptxas.
    pub flags: Vec<String>,
    /// How long an input may take, for each architecture.
    pub timeout: Duration,
    /// How much an input may cost.
    pub limits: Limits,
    /// Which parts of containers.
    pub within: Within,
    /// How many at once.
    pub jobs: usize,
    /// Whether that was asked for.
    asked_jobs: bool,
    /// Whether this process asks again and again: a library's does.
    pub is_one_of_many: bool,
    /// What the user says of the launch.
    pub launch: LaunchHints,
    /// PTX lines whose live values are asked for.
    pub at: Vec<Line>,
    /// What the user says of warp roles.
    pub roles: Vec<RoleHint>,
    /// What of a report is wanted.
    pub wanted: Wanted,
    /// Whether ptxas is asked what the next step of occupancy costs.
    pub tries_step: bool,
    /// What ptxas has made before; none where it is to run in any case.
    pub cache: Option<Arc<Cache>>,
    /// Who is told of an installation of ptxas.
    pub installing: Installing,
    /// make's tokens, where it hands them out and the user did not say how many at once.
    jobserver: Option<Jobserver>,
    request: Request,
    ptxas: OnceLock<Result<Ptxas, String>>,
    identities: Mutex<HashMap<PathBuf, Option<String>>>,
}

/// The real environment as a value.
pub fn environment() -> Result<Env> {
    let cwd = std::env::current_dir().context("the current folder cannot be told")?;
    let mut env = Env::new(std::env::vars_os(), cwd, std::env::temp_dir());
    env.config = Config::read(&env)?;
    Ok(env)
}

impl Session {
    /// Turns strings into decisions; does no work yet.
    pub fn new(settings: &Settings) -> Result<Self> {
        let mut arches = Vec::new();
        for name in &settings.arch {
            let arch: Arch = name.trim().parse()?;
            if !arches.contains(&arch) {
                arches.push(arch);
            }
        }
        if settings.jobs == Some(0) {
            bail!("-j 0 runs nothing: expected 1 or more");
        }
        if settings.inputs.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!("standard input (-) can be read only once");
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut env = environment()?;
        env.offline |= settings.offline;
        let makeflags = env.var("MAKEFLAGS").and_then(|flags| flags.to_str()).filter(|_| settings.jobs.is_none());
        Ok(Session {
            jobserver: Jobserver::of(makeflags),
            env,
            inputs: input::unique(&settings.inputs),
            arches,
            kernels: Globs::new(&settings.kernel),
            flags: settings.flags.clone(),
            timeout: settings.limits.time,
            limits: settings.limits,
            within: settings.within.clone(),
            jobs: settings.jobs.unwrap_or(cores),
            asked_jobs: settings.jobs.is_some(),
            is_one_of_many: false,
            launch: LaunchHints::default(),
            at: Vec::new(),
            roles: Vec::new(),
            wanted: Wanted::ALL,
            tries_step: false,
            installing: progress::install_silently,
            request: settings.ptxas.as_deref().map_or(Request::Auto, Request::parse),
            cache: None,
            ptxas: OnceLock::new(),
            identities: Mutex::default(),
        })
    }

    /// The architectures to build each input for; none stands for its own.
    pub fn arches(&self) -> Vec<Option<Arch>> {
        if self.arches.is_empty() { vec![None] } else { self.arches.iter().copied().map(Some).collect() }
    }

    /// Threads that are there already, for whoever asks again and again in one process and did not say how many.
    pub fn lasting_pool(&self) -> Option<&'static Pool> {
        if self.is_one_of_many && !self.asked_jobs { threads::lasting() } else { None }
    }

    /// The threads that builds run on.
    pub fn pool(&self) -> Pool {
        Pool::start(self.jobs)
    }

    /// Where in the cache a job's result is: nowhere when there is no cache, or when nothing tells which ptxas it is.
    fn cached(&self, ptxas: &Ptxas, job: &Job<'_>) -> Option<(&Cache, Key, String)> {
        let cache = self.cache.as_deref()?;
        let arguments = toolchain::job_arguments(job, &self.env).ok()??;
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = identities.entry(ptxas.path.clone()).or_insert_with(|| cache.identity(&ptxas.path)).clone()?;
        drop(identities);
        let version = ptxas.ask_version(VERSION_TIMEOUT, &self.env)?.to_string();
        Some((cache, Key::new(&Key::digest(job.ptx), &arguments, &version), identity))
    }

    /// The ptxas of this run, looked for (and installed) once, when the first PTX needs it.
    fn ptxas(&self) -> Result<&Ptxas, &str> {
        let found = self.ptxas.get_or_init(|| {
            let told = (self.installing)();
            toolchain::find(&self.request, &self.env, &*told).map_err(|error| error.to_string())
        });
        found.as_ref().map_err(String::as_str)
    }
}

/// A cubin and how it came to be.
#[derive(Debug)]
pub struct Built<'a> {
    /// The cubin.
    pub cubin: Cow<'a, [u8]>,
    /// ptxas's log; none for an input that is a cubin.
    pub log: Option<toolchain::log::Log>,
    /// The PTX that belongs to a cubin that was not compiled here.
    pub companion: Option<&'a str>,
    /// How long ptxas took for what the cache had; none where it ran, or where that is not recorded.
    pub spared: Option<Duration>,
}

/// Gets the cubin of an input for an architecture: the input itself, or what ptxas makes of it. Fills in the unit: who it is
/// and, where there is no cubin, why. A cubin has its own architecture, so it is one unit however many were asked for:
/// `first` says whether this call is the one to answer for it, and the others get nothing.
pub fn build<'a>(
    session: &Session,
    input: &'a Result<Input, String>,
    path: &Path,
    arch: Option<Arch>,
    first: bool,
) -> Option<(Unit, Option<Built<'a>>)> {
    let parse = |unit: &mut Unit| {
        let text = input.as_ref().map(Input::text).unwrap_or_default();
        refused_findings(unit, &ptx::parse(&text), &session.launch);
    };
    build_or(session, input, path, arch, first, &parse)
}

/// The same, where somebody parses the PTX already: `rejected` adds what is found in PTX that ptxas rejects.
pub fn build_or<'a>(
    session: &Session,
    input: &'a Result<Input, String>,
    path: &Path,
    arch: Option<Arch>,
    first: bool,
    rejected: &dyn Fn(&mut Unit),
) -> Option<(Unit, Option<Built<'a>>)> {
    let mut unit = Unit { input: path.display().to_string(), ..Unit::default() };
    let mut refused = |message: String| {
        let mut unit = std::mem::take(&mut unit);
        unit.error = Some(UnitError { stage: ErrorStage::Input, message, diagnostics: Vec::new() });
        first.then_some((unit, None))
    };
    let input = match input {
        Ok(input) => input,
        Err(message) => return refused(message.clone()),
    };
    match input.kind() {
        Err(error) => refused(format!("{}: {error:#}", input.name)),
        Ok(Kind::Cubin) => {
            unit.input.clone_from(&input.name);
            unit.recorded_launch.clone_from(&input.recorded_launch);
            first.then(|| {
                (
                    unit,
                    Some(Built {
                        cubin: Cow::Borrowed(&input.bytes[..]),
                        log: None,
                        companion: input.companion.as_deref(),
                        spared: None,
                    }),
                )
            })
        }
        Ok(Kind::Ptx) => {
            unit.input.clone_from(&input.name);
            unit.recorded_launch.clone_from(&input.recorded_launch);
            let built = compile(session, &session.flags, &input.bytes, arch, &mut unit, rejected);
            Some((unit, built))
        }
    }
}

/// Finds the ptxas for an input, or installs it, where one will be needed.
pub fn make_ready(session: &Session, input: &Result<Input, String>, arch: Option<Arch>) {
    if let Ok(input) = input
        && matches!(input.kind(), Ok(Kind::Ptx))
        && (arch.is_some() || toolchain::target_arch(&input.bytes).is_some())
    {
        // What is wrong with it is said where it is used.
        let _ = session.ptxas();
    }
}

/// What is said of an input whose time is over.
pub fn out_of_time(timeout: Duration) -> String {
    format!("it is not done within {} s; --timeout gives it longer", timeout.as_secs_f64())
}

/// What ptxas makes of PTX with other flags than the session's: a unit as [`build`] fills it in, without what is found in PTX that ptxas
/// rejects.
pub fn build_with(
    session: &Session,
    flags: &[String],
    ptx: &[u8],
    arch: Option<Arch>,
) -> (Unit, Option<Built<'static>>) {
    let mut unit = Unit::default();
    let built = compile(session, flags, ptx, arch, &mut unit, &|_| ());
    (unit, built)
}

/// The flag of ptxas 12.4 and later that puts flags above the directives of the PTX.
pub const OVERRIDE: &str = "--override-directive-values";

/// Whether a ptxas of this version has it; not where the version is not known.
pub fn has_override(version: &str) -> bool {
    version.parse::<Version>().is_ok_and(|version| version >= Version::new(12, 4, 0))
}

/// Whether ptxas does not know how to put flags above directives.
pub fn cannot_override(error: &UnitError) -> bool {
    let name = OVERRIDE.trim_start_matches('-');
    error.message.contains(name) || error.diagnostics.iter().any(|said| said.message.contains(name))
}

/// Runs ptxas for an architecture and fills in what it says of itself, of the input and of its errors.
fn compile<'a>(
    session: &Session,
    flags: &[String],
    ptx: &[u8],
    arch: Option<Arch>,
    unit: &mut Unit,
    rejected: &dyn Fn(&mut Unit),
) -> Option<Built<'a>> {
    let Some(arch) = arch.or_else(|| toolchain::target_arch(ptx)) else {
        let message = "the PTX has no .target that names an architecture: give one with --arch".to_owned();
        unit.error = Some(UnitError { stage: ErrorStage::Input, message, diagnostics: Vec::new() });
        return None;
    };
    unit.arch = Some(arch.to_string());
    let ptxas = match session.ptxas() {
        Ok(ptxas) => ptxas,
        Err(message) => {
            let message = message.to_owned();
            unit.error = Some(UnitError { stage: ErrorStage::Toolchain, message, diagnostics: Vec::new() });
            return None;
        }
    };
    let timeout = work::deadline().left().unwrap_or(session.timeout);
    let job = Job { ptx, arch, flags, timeout: Some(timeout), relocatable: false };
    let ptxas = ptxas.for_arch(arch);
    let place = session.cached(ptxas, &job);
    if let Some((cache, key, identity)) = &place
        && let Some(entry) = cache.get(key, Some(identity))
    {
        let arguments = toolchain::job_arguments(&job, &session.env).ok().flatten().unwrap_or_default();
        let log = toolchain::log::parse(&entry.log);
        unit.prepared = entry.prepared;
        unit.ptxas = Some(used(ptxas, ptxas.version(), arguments));
        return match entry.made {
            Made::Cubin(cubin) => {
                Some(Built { cubin: Cow::Owned(cubin), log: Some(log), companion: None, spared: entry.took })
            }
            Made::Refusal { code } => {
                let refusal = Refusal { session, ptxas, ptx, arch };
                crate::report::refuse(unit, refusal.message(unit, code, &entry.log, &log), &log);
                rejected(unit);
                None
            }
        };
    }
    let token = session.jobserver.as_ref().map(Jobserver::acquire);
    let start = Instant::now();
    let ran = toolchain::run(ptxas, &job, &session.env);
    let took = Some(start.elapsed());
    drop(token);
    match ran {
        Ok(output) => {
            unit.prepared = output.prepared.iter().map(ToString::to_string).collect();
            if let Some((cache, key, identity)) = place.filter(|_| output.log_cut_bytes == 0) {
                let (prepared, log) = (unit.prepared.clone(), output.log.clone());
                let made = Made::Cubin(output.cubin.clone());
                cache.put(&key, &Entry { ptxas: identity, prepared, took, log, made });
            }
            unit.ptxas = Some(used(ptxas, output.version, output.arguments));
            Some(Built {
                cubin: Cow::Owned(output.cubin),
                log: Some(toolchain::log::parse(&output.log)),
                companion: None,
                spared: None,
            })
        }
        Err(error) => {
            if let Some(failure) = error.failure() {
                unit.prepared = failure.prepared.iter().map(ToString::to_string).collect();
                unit.ptxas = Some(used(ptxas, failure.version, failure.arguments.clone()));
            }
            let log = error.failure().map(|failure| toolchain::log::parse(&failure.log)).unwrap_or_default();
            let refusal = Refusal { session, ptxas, ptx, arch };
            let message = match &error {
                RunError::Rejected { code, failure } => refusal.message(unit, *code, &failure.log, &log),
                RunError::TimedOut { .. } => {
                    format!("{}, {arch}: ptxas was stopped: {}", unit.input, out_of_time(session.timeout))
                }
                // Old ones crash over what they do not know.
                error => format!("{}, {arch}: {error}{}", unit.input, refusal.advice(unit, &log)),
            };
            crate::report::refuse(unit, message, &log);
            if let RunError::Rejected { code, failure } = &error {
                if let Some((cache, key, identity)) =
                    place.filter(|_| failure.log_cut_bytes == 0 && rests_on_input(&log))
                {
                    let (prepared, log) = (unit.prepared.clone(), failure.log.clone());
                    cache.put(
                        &key,
                        &Entry { ptxas: identity, prepared, took, log, made: Made::Refusal { code: *code } },
                    );
                }
                rejected(unit);
            }
            None
        }
    }
}

/// How ptxas ends after the errors that it told.
const ABORTED: &str = "Ptx assembly aborted due to errors";

/// Whether a refusal would be the same tomorrow: errors in the PTX, and nothing of the machine, such as a full disk or memory that
/// ran out, of which ptxas speaks as fatal.
fn rests_on_input(log: &toolchain::log::Log) -> bool {
    let is = |severity| move |message: &&toolchain::log::Message| message.severity == severity;
    log.messages.iter().any(|message| message.severity == toolchain::log::Severity::Error)
        && log.messages.iter().filter(is(toolchain::log::Severity::Fatal)).all(|message| message.text == ABORTED)
}

/// What ptxas refused, and for what.
struct Refusal<'a> {
    session: &'a Session,
    ptxas: &'a Ptxas,
    ptx: &'a [u8],
    arch: Arch,
}

impl Refusal<'_> {
    /// What is said of it.
    fn message(&self, unit: &Unit, code: i32, raw: &str, log: &toolchain::log::Log) -> String {
        let arch = self.arch;
        let is_told = log.messages.iter().any(|message| message.severity >= toolchain::log::Severity::Error);
        // Not the words of a ptxas that does not like the PTX: how it ended is all there is.
        if !is_told {
            let silent = if raw.trim().is_empty() { " and said nothing" } else { "" };
            let is_ptxas = unit.ptxas.as_ref().is_none_or(|ptxas| ptxas.version.is_some());
            let doubt = if is_ptxas {
                ""
            } else {
                "; it names no version of ptxas: is it one? leave --ptxas out, or name another"
            };
            return format!("ptxas failed on {} for {arch}: it ended with exit code {code}{silent}{doubt}", unit.input);
        }
        format!("ptxas does not accept {} for {arch}{}", unit.input, self.advice(unit, log))
    }

    /// What helps, after what is wrong.
    fn advice(&self, unit: &Unit, log: &toolchain::log::Log) -> String {
        let Refusal { session, ptxas, ptx, arch } = *self;
        let ran = unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.as_deref()?.parse().ok());
        let known = || ptxas.architectures(ARCHITECTURES_TIME, &session.env);
        let target = toolchain::target_arch(ptx);
        let installed = toolchain::candidates(&session.env).iter().filter_map(toolchain::Ptxas::version).max();
        advice(log, arch, target, ran, installed, &known).map(|advice| format!("; {advice}")).unwrap_or_default()
    }
}

/// What ptxas says of PTX that is for another architecture.
const OTHER_TARGET: [&str; 3] = [
    "SM version specified by .target is higher",
    "cannot be compiled for architecture",
    "cannot be compiled to future architecture",
];

/// What helps where it is not the PTX that is wrong.
fn advice(
    log: &toolchain::log::Log,
    arch: Arch,
    target: Option<Arch>,
    ran: Option<toolchain::Version>,
    installed: Option<toolchain::Version>,
    known: &dyn Fn() -> Vec<String>,
) -> Option<String> {
    /// ptxas 13.0 dropped what came before.
    const OLDEST_SM_OF_13: u16 = 75;
    // The machine may have one that came out later than this program.
    let release = |version: Version| toolchain::VersionRequest::release(version.major, version.minor);
    let is_later = |version: &Version| {
        let known = toolchain::NEWEST_RELEASE;
        (version.major, Some(version.minor)) > (known.major, known.minor)
    };
    let newest = [installed, ran].into_iter().flatten().filter(is_later).max();
    let newest = newest.map_or(toolchain::NEWEST_RELEASE, release);
    let newer = || {
        let newest_ran = ran.is_some_and(|ran| newest.matches(ran));
        (!newest_ran).then(|| format!("a newer ptxas may: `--ptxas {newest}`"))
    };
    log.messages.iter().find_map(|message| {
        let text = message.text.as_str();
        if text.starts_with("Unresolved extern ") {
            Some("`-- -c` compiles it as one of several files, to be linked later".to_owned())
        } else if text.starts_with("Failed to write to ") {
            Some("the disk is most likely full; free some space or point TMPDIR elsewhere".to_owned())
        } else if text.starts_with("Unsupported .version ") {
            newer()
                .or_else(|| Some(format!("no ptxas later than {newest} is known here: `ptxinspect toolchain list --available` asks for later ones, or give the PTX an older .version")))
        } else if text.contains("is not defined for option 'gpu-name'") {
            let other = match arch.sm < OLDEST_SM_OF_13 {
                true => Some("an older ptxas may: `--ptxas 12.9`".to_owned()),
                false => newer(),
            };
            let known = known();
            let has = (!known.is_empty()).then(|| format!("this ptxas has {}", known.join(", ")));
            Some([other, has].into_iter().flatten().collect::<Vec<_>>().join("; ")).filter(|advice| !advice.is_empty())
        } else if let Some(flag) = text.strip_prefix("Unknown option '").and_then(|rest| rest.strip_suffix('\'')) {
            let near = toolchain::flags::nearest(flag)?;
            Some(format!("did you mean {near}? ptxas takes what follows `--` as it is"))
        } else if OTHER_TARGET.iter().any(|words| text.contains(words)) {
            let target = target.filter(|target| *target != arch)?;
            Some(format!("its .target is {target}: give --arch {target}, or leave --arch out{}", later(target)))
        } else {
            None
        }
    })
}

/// Which other architectures PTX for this one runs on.
fn later(target: Arch) -> &'static str {
    match target.variant {
        Variant::Accelerated => "; PTX for an architecture with an a runs on that one alone",
        Variant::Family => "; PTX for an architecture with an f runs on those of its family",
        Variant::Base => ", or give a later one",
    }
}

/// How long a ptxas may take to list its architectures.
const ARCHITECTURES_TIME: Duration = Duration::from_secs(10);

fn used(ptxas: &Ptxas, version: Option<toolchain::Version>, flags: Vec<String>) -> PtxasUsed {
    PtxasUsed {
        version: version.or(ptxas.version()).map(|version| version.to_string()),
        path_kind: ptxas.origin.kind().to_owned(),
        reason: ptxas.origin.to_string(),
        path: (!matches!(ptxas.origin, Origin::Managed { .. })).then(|| ptxas.path.display().to_string()),
        flags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_kept_where_the_input_is_to_blame() {
        let kept = |log: &str| rests_on_input(&toolchain::log::parse(log));
        let error = "ptxas input.ptx, line 9; error   : Unknown symbol 'x'\n";
        let aborted = "ptxas fatal   : Ptx assembly aborted due to errors\n";
        assert!(kept(&format!("{error}{aborted}")));
        assert!(kept("ptxas error   : Entry function 'k' uses too much shared data\n"));
        assert!(!kept(&format!("{error}ptxas fatal   : Memory allocation failure\n")));
        assert!(!kept("ptxas fatal   : Failed to write to outp file 'output.cubin'\n"));
        assert!(!kept(aborted));
        assert!(!kept(""));
    }

    #[test]
    fn advice_where_another_command_line_helps() {
        let beside = |log: &str, sm: u16, ran: &str, installed: &str| {
            let known = || vec!["sm_75".to_owned(), "sm_80".to_owned()];
            let target = "sm_90a".parse().ok();
            let log = toolchain::log::parse(log);
            let (ran, installed) = (ran.parse().ok(), installed.parse().ok());
            advice(&log, Arch::new(sm), target, ran, installed, &known).unwrap_or_default()
        };
        let advise = |log: &str, sm: u16, ran: &str| beside(log, sm, ran, "");
        assert!(advise("ptxas fatal   : Unresolved extern function 'f'\n", 80, "13.4.92").contains("`-- -c`"));
        let full = "ptxas fatal   : Failed to write to outp file 'output.cubin'\n";
        assert!(advise(full, 80, "13.4.92").contains("TMPDIR"));
        let version = "ptxas input.ptx, line 2; fatal   : Unsupported .version 9.4; current version is '8.8'\n";
        assert!(advise(version, 80, "12.9.86").contains("`--ptxas 13.4`"));
        assert!(advise(version, 80, "13.4.92").contains("no ptxas later than 13.4 is known here"));
        // One that is later than this program.
        assert!(beside(version, 80, "12.9.86", "99.1.7").contains("`--ptxas 99.1`"));
        assert!(beside(version, 80, "13.4.92", "99.1.7").contains("`--ptxas 99.1`"));
        assert!(beside(version, 80, "99.1.7", "99.1.7").contains("no ptxas later than 99.1 is known here"));
        let arch = "ptxas fatal   : Value 'sm_52' is not defined for option 'gpu-name'\n";
        assert!(advise(arch, 52, "13.4.92").contains("`--ptxas 12.9`"));
        assert!(advise(arch, 121, "12.4.131").contains("`--ptxas 13.4`"));
        assert_eq!(advise(arch, 99, "13.4.92"), "this ptxas has sm_75, sm_80");
        let lower = "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n";
        assert!(advise(lower, 80, "13.4.92").starts_with("its .target is sm_90a: give --arch sm_90a"));
        let flag = "ptxas fatal   : Unknown option '-maxregcount'\n";
        assert!(advise(flag, 80, "13.4.92").starts_with("did you mean --maxrregcount?"));
        let other = "ptxas input.ptx, line 9; error   : Instruction 'wgmma.fence' cannot be compiled for architecture 'sm_100a'\n";
        let future = "ptxas fatal   : Program with .target 'sm_90a' cannot be compiled to future architecture\n";
        for said in [other, future] {
            assert!(advise(said, 100, "13.4.92").starts_with("its .target is sm_90a: give --arch sm_90a"));
        }
        assert_eq!(advise("ptxas input.ptx, line 1; error   : Unknown symbol 'x'\n", 80, "12.9.86"), "");
    }
}
