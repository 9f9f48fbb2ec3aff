//! Which ptxas to use, and why that one. Looks at file names: nothing is run, and nothing is read but folders and what Triton says of its
//! two.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::managed::{Installed, Progress, Store};
use super::{Env, NEWEST_RELEASE, Request, ToolchainError, Version, VersionRequest, process, python};
use crate::base::Arch;
use crate::files::Scratch;

/// The name of the executable.
const PTXAS: &str = if cfg!(windows) { "ptxas.exe" } else { "ptxas" };

/// A ptxas that can be run. Clones share what they learn about its version.
#[derive(Clone, Debug)]
pub struct Ptxas {
    /// The executable.
    pub path: PathBuf,
    /// Why this one.
    pub origin: Origin,
    version: Arc<OnceLock<Option<Version>>>,
    /// Triton's other one, and the first architecture that it compiles for.
    newer: Option<(u16, Arc<Ptxas>)>,
}

impl Ptxas {
    /// A ptxas whose version is known only if `version` is given.
    pub fn new(path: PathBuf, origin: Origin, version: Option<Version>) -> Self {
        let known = OnceLock::new();
        if version.is_some() {
            let _ = known.set(version);
        }
        Ptxas { path, origin, version: Arc::new(known), newer: None }
    }

    /// Its version as far as it is known without running it.
    pub fn version(&self) -> Option<Version> {
        self.version.get().copied().flatten()
    }

    /// Its version, from `ptxas --version` where it is not known yet: 7 ms, once.
    pub fn ask_version(&self, timeout: Duration, env: &Env) -> Option<Version> {
        let folder = || Scratch::new_in(&env.temp_dir, "ptxinspect-");
        let folder = folder().or_else(|_| folder()).ok()?;
        self.ask_version_in(folder.path(), timeout)
    }

    /// The same in a folder that will go away: whatever calls itself ptxas may write there.
    pub(super) fn ask_version_in(&self, folder: &Path, timeout: Duration) -> Option<Version> {
        self.try_version_in(folder, timeout).ok().flatten()
    }

    /// The same; an error where it could not even be asked, which says nothing about its version.
    pub(super) fn try_version_in(&self, folder: &Path, timeout: Duration) -> io::Result<Option<Version>> {
        if let Some(known) = self.version.get() {
            return Ok(*known);
        }
        let mut command = Command::new(&self.path);
        command.arg("--version").current_dir(folder);
        // Asked again where the system was short of something for a moment.
        let mut ask = || process::supervise(&mut command, Some(timeout), &mut |_| {});
        let said = version_in(&ask().or_else(|_| ask())?.output);
        Ok(*self.version.get_or_init(|| said))
    }

    /// The architectures that its help lists, in their order; none where it does not say.
    pub fn architectures(&self, timeout: Duration, env: &Env) -> Vec<String> {
        let Ok(folder) = Scratch::new_in(&env.temp_dir, "ptxinspect-") else { return Vec::new() };
        let mut command = Command::new(&self.path);
        command.arg("--help").current_dir(folder.path());
        let said = process::supervise(&mut command, Some(timeout), &mut |_| {});
        architectures_in(&said.map(|ended| ended.output).unwrap_or_default())
    }

    /// Takes note of a version found elsewhere, unless it is known already.
    pub(super) fn learn_version(&self, version: Option<Version>) {
        if version.is_some() {
            let _ = self.version.set(version);
        }
    }

    /// The one to use for an architecture. Triton's wheel brings two, and compiles with `ptxas-blackwell` from some architecture on;
    /// whoever looks at Triton's kernels wants the one Triton used.
    pub fn for_arch(&self, arch: Arch) -> &Ptxas {
        self.newer.as_ref().filter(|(first, _)| arch.sm >= *first).map_or(self, |(_, newer)| newer)
    }

    /// With Triton's other one, if it lies beside this one.
    fn with_newer(mut self) -> Result<Self, ToolchainError> {
        let sibling = self.path.with_file_name(format!("ptxas-blackwell{}", std::env::consts::EXE_SUFFIX));
        if is_executable(&sibling) {
            let backend = self.path.ancestors().nth(2).unwrap_or(&self.path).join("compiler.py");
            let first = match std::fs::read(&backend) {
                Ok(text) => first_of_newer(&String::from_utf8_lossy(&text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(ToolchainError::io("read", &backend, error)),
            };
            let newer = Ptxas::new(sibling, self.origin.clone(), None);
            self.newer = Some((first.unwrap_or(FIRST_OF_NEWER), Arc::new(newer)));
        }
        Ok(self)
    }
}

/// The first architecture that Triton compiles for with `ptxas-blackwell`, where it does not say.
const FIRST_OF_NEWER: u16 = 100;

/// The same as Triton's backend says it: `get_ptxas` has `ptxas_blackwell if arch >= 100` (3.5), or `if arch < 90` before it (3.9).
fn first_of_newer(backend: &str) -> Option<u16> {
    let (_, body) = backend.split_once("\ndef get_ptxas(")?;
    let body = body.split("\ndef ").next()?;
    let (_, bound) = body.split_once("arch >= ").or_else(|| body.split_once("arch < "))?;
    let digits = bound.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// `Cuda compilation tools, release 13.4, V13.4.92`
pub(super) fn version_in(output: &str) -> Option<Version> {
    let line = output.lines().find(|line| line.starts_with("Cuda compilation tools, release "))?;
    line.rsplit_once(", V")?.1.trim().parse().ok()
}

/// Why a ptxas was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--ptxas PATH`.
    Argument,
    /// A variable names it (`PTXINSPECT_PTXAS`) or the toolkit it is in (`CUDA_HOME`, `CUDA_PATH`).
    Variable(&'static str),
    /// The user's own configuration.
    Configuration,
    /// `PATH`.
    SearchPath,
    /// `/usr/local/cuda`.
    DefaultCuda,
    /// A Python wheel.
    Wheel {
        /// `nvidia-cuda-nvcc` or `triton`.
        package: &'static str,
        /// Which Python, in words.
        environment: &'static str,
    },
    /// Installed by this program.
    Managed {
        /// What was asked for; `None` if it was the newest there is.
        request: Option<VersionRequest>,
    },
}

impl Origin {
    /// One word for machines: what the report calls `path_kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Argument => "argument",
            Origin::Variable(_) => "environment",
            Origin::Configuration => "configuration",
            Origin::SearchPath => "path",
            Origin::DefaultCuda => "cuda",
            Origin::Wheel { .. } => "wheel",
            Origin::Managed { .. } => "managed",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Argument => f.write_str("given by --ptxas"),
            Origin::Variable(name @ "PTXINSPECT_PTXAS") => write!(f, "named by {name}"),
            Origin::Variable(name) => write!(f, "in the toolkit of {name}"),
            Origin::Configuration => f.write_str("named by the user's configuration"),
            Origin::SearchPath => f.write_str("the first on PATH"),
            Origin::DefaultCuda => f.write_str("in /usr/local/cuda"),
            Origin::Wheel { package, environment } => write!(f, "from the {package} wheel of {environment}"),
            Origin::Managed { request: Some(request) } => write!(f, "managed, asked for as {request}"),
            Origin::Managed { request: None } => f.write_str("managed, the newest installed"),
        }
    }
}

/// Finds the ptxas that was asked for. Only a version that is not installed yet costs time: it is fetched. So is the newest where nothing was
/// asked for and the machine has none.
pub fn find(request: &Request, env: &Env, progress: &dyn Fn(&Progress)) -> Result<Ptxas, ToolchainError> {
    match request {
        Request::Path(path) => at_path(path, Origin::Argument, env),
        Request::Version(version) => at_version(*version, env, progress),
        Request::Auto => match named(env) {
            Some((Request::Version(version), _)) => at_version(version, env, progress),
            Some((Request::Path(path), origin)) => at_path(&path, origin, env),
            Some((Request::Auto, _)) | None => {
                let mut first = None;
                visit(env, &mut |ptxas| {
                    first = Some(ptxas);
                    ControlFlow::Break(())
                });
                first.unwrap_or_else(|| newest(env, progress))
            }
        },
    }
}

/// What the environment names, or else the user's configuration.
fn named(env: &Env) -> Option<(Request, Origin)> {
    if let Some(value) = env.var("PTXINSPECT_PTXAS") {
        let request = value.to_str().map_or_else(|| Request::Path(PathBuf::from(value)), Request::parse);
        return Some((request, Origin::Variable("PTXINSPECT_PTXAS")));
    }
    Some((env.config.ptxas.clone()?, Origin::Configuration))
}

/// Every ptxas this machine has, in the order in which [`find`] would take them.
pub fn candidates(env: &Env) -> Vec<Ptxas> {
    let mut all: Vec<Ptxas> = Vec::new();
    all.extend(named(env).and_then(|(request, origin)| match request {
        Request::Version(version) => installed(version, env),
        Request::Path(path) => at_path(&path, origin, env).ok(),
        Request::Auto => None,
    }));
    visit(env, &mut |found| {
        all.extend(found.ok().filter(|ptxas| all.iter().all(|known| known.path != ptxas.path)));
        ControlFlow::Continue(())
    });
    all
}

/// `Allowed values for this option:  'compute_100','sm_90', …` under `--gpu-name`.
fn architectures_in(help: &str) -> Vec<String> {
    let option = help.split_once("--gpu-name").map_or("", |(_, rest)| rest);
    let values = option.split_once("Default value").map_or(option, |(values, _)| values);
    let mut found: Vec<Arch> =
        values.split('\'').filter(|word| word.starts_with("sm_")).filter_map(|word| word.parse().ok()).collect();
    found.sort();
    found.dedup();
    found.iter().map(Arch::to_string).collect()
}

fn at_path(path: &Path, origin: Origin, env: &Env) -> Result<Ptxas, ToolchainError> {
    let Some(file) = env.program(path) else {
        let here = env.absolute(path).exists();
        return Err(ToolchainError::NotOnPath { name: path.to_owned(), origin, here });
    };
    if file.is_dir() {
        let inside = [file.join("bin").join(PTXAS), file.join(PTXAS)].into_iter().find(|file| is_executable(file));
        return Err(ToolchainError::IsFolder { path: file, origin, inside });
    }
    if !file.exists() {
        return Err(ToolchainError::NoSuchFile { path: file, origin });
    }
    if !is_executable(&file) {
        return Err(ToolchainError::NotExecutable { path: file, origin });
    }
    Ok(Ptxas::new(file, origin, None))
}

/// Where the machine has none: the newest that the user's index offers.
fn newest(env: &Env, progress: &dyn Fn(&Progress)) -> Result<Ptxas, ToolchainError> {
    let request = VersionRequest { minor: None, patch: None, ..NEWEST_RELEASE };
    let not_found = |why| ToolchainError::NotFound { searched: searched(env), why: Box::new(why) };
    let installed = Store::of(env).and_then(|store| store.install(request, env, progress)).map_err(not_found)?;
    Ok(managed(installed.toolchain, None))
}

fn at_version(request: VersionRequest, env: &Env, progress: &dyn Fn(&Progress)) -> Result<Ptxas, ToolchainError> {
    match installed(request, env) {
        Some(ptxas) => Ok(ptxas),
        None => Ok(managed(Store::of(env)?.install(request, env, progress)?.toolchain, Some(request))),
    }
}

fn installed(request: VersionRequest, env: &Env) -> Option<Ptxas> {
    Some(managed(Store::of(env).ok()?.newest(Some(request))?, Some(request)))
}

fn managed(toolchain: Installed, request: Option<VersionRequest>) -> Ptxas {
    Ptxas::new(toolchain.path, Origin::Managed { request }, Some(toolchain.version))
}

/// Shows what the machine has until told to stop. A place that cannot be looked at is shown as an error: it may have had another ptxas
/// than the one that comes next.
fn visit(env: &Env, take: &mut dyn FnMut(Result<Ptxas, ToolchainError>) -> ControlFlow<()>) {
    let _ = (|| {
        let mut offer = |path: PathBuf, origin: Origin, version| {
            match executable(&path) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(error) => return take(Err(ToolchainError::io("look at", &path, error))),
            }
            let triton = matches!(origin, Origin::Wheel { package: "triton", .. });
            let ptxas = Ptxas::new(path, origin, version);
            take(if triton { ptxas.with_newer() } else { Ok(ptxas) })
        };
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = env.folder_var(name) {
                offer(home.join("bin").join(PTXAS), Origin::Variable(name), None)?;
            }
        }
        for folder in env.path_folders() {
            offer(folder.join(PTXAS), Origin::SearchPath, None)?;
        }
        // On Windows it would be a folder of whatever drive is the current one, which anybody may have made.
        if env.default_cuda.is_absolute() {
            offer(env.default_cuda.join("bin").join(PTXAS), Origin::DefaultCuda, None)?;
        }
        for wheel in python::wheels(env, PTXAS) {
            let origin = Origin::Wheel { package: wheel.package, environment: wheel.environment };
            offer(wheel.path, origin, wheel.version)?;
        }
        for toolchain in Store::of(env).map(|store| store.list()).unwrap_or_default() {
            offer(toolchain.path, Origin::Managed { request: None }, Some(toolchain.version))?;
        }
        ControlFlow::Continue(())
    })();
}

/// Where [`find`] has looked, for the error that says it found nothing.
fn searched(env: &Env) -> Vec<String> {
    let mut places = vec!["PTXINSPECT_PTXAS (not set)".to_owned()];
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        let state = match (env.folder_var(name), env.var(name)) {
            (Some(home), _) => format!("{} has no bin/{PTXAS}", home.display()),
            (None, Some(relative)) => format!("{} is relative, and not looked at", Path::new(relative).display()),
            (None, None) => "not set".to_owned(),
        };
        places.push(format!("{name} ({state})"));
    }
    let folders = env.path_folders().len();
    places.push(format!("PATH ({folders} folder{})", if folders == 1 { "" } else { "s" }));
    places.push(env.default_cuda.display().to_string());
    places.push("the nvidia and triton wheels of the Python in use".to_owned());
    if let Ok(store) = Store::of(env) {
        places.push(format!("managed toolchains ({})", store.folder().display()));
    }
    places
}

/// Whether this is a file that may be run.
pub(super) fn is_executable(path: &Path) -> bool {
    executable(path).unwrap_or(false)
}

/// The same; an error where something may be there and the system does not say.
fn executable(path: &Path) -> io::Result<bool> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound, PermissionDenied};
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            return match error.kind() {
                InvalidFilename | NotADirectory | NotFound | PermissionDenied => Ok(false),
                _ => Err(error),
            };
        }
    };
    #[cfg(unix)]
    let runs = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let runs = true;
    Ok(metadata.is_file() && runs)
}

#[cfg(all(test, unix))]
mod tests;
