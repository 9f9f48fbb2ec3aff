//! Gets a wheel through the user's own pip or uv.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Progress;
use super::wheel::Package;
use crate::files::Scratch;
use crate::toolchain::process::{self, Ended};
use crate::toolchain::{Env, InstallerFailure, ToolchainError, Version, VersionRequest, config, python};

/// How long listing an index may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// A program that can fetch wheels.
struct Installer {
    program: PathBuf,
    /// As one would type it: `python3 -m pip`.
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `python3 -m pip`
    Module,
    /// `pip3`
    Pip,
    Uv,
}

/// What became of an attempt.
enum Attempt {
    Fetched(Package),
    /// There is no pip behind this name.
    Absent,
    /// The index has no such version, but these.
    NoSuchVersion(Vec<Version>),
    /// What came is not what was published.
    WrongDigest(ToolchainError),
    Failed(String),
}

impl Installer {
    /// Those there are, in the order they are tried.
    fn all(env: &Env) -> Vec<Installer> {
        let locate = |name: &str| python::program(env, &format!("{name}{}", std::env::consts::EXE_SUFFIX));
        [
            ("python3", "python3 -m pip", Kind::Module),
            ("python", "python -m pip", Kind::Module),
            ("pip3", "pip3", Kind::Pip),
            ("pip", "pip", Kind::Pip),
            ("uv", "uv pip", Kind::Uv),
        ]
        .into_iter()
        .filter_map(|(program, name, kind)| Some(Installer { program: locate(program)?, name, kind }))
        .collect()
    }

    /// The command with the user's environment, in the empty folder, its temporary files in another one.
    ///
    /// Where an installer runs decides what it reads: `python3 -m` imports modules from there, uv takes the index of a `uv.toml` or
    /// `pyproject.toml` and runs the python of a `.venv`, there and in the folders above. None of those may be a checkout's.
    fn command(&self, env: &Env, place: &Place<'_>) -> Result<Command, ToolchainError> {
        let folder = place.empty.path();
        let temporary = place.staging.join("tmp");
        fs::create_dir_all(&temporary).map_err(|error| ToolchainError::io("make the folder", &temporary, error))?;
        let mut command = Command::new(&self.program);
        command.env_clear().envs(&env.vars).current_dir(folder).env("PWD", folder).env_remove("OLDPWD");
        // What it looks for in its turn, such as a python or a keyring, is not the current folder's either.
        if let Ok(path) = std::env::join_paths(env.path_folders()) {
            command.env("PATH", path);
        }
        match self.kind {
            Kind::Module => drop(command.args(["-m", "pip"])),
            Kind::Uv => drop(command.arg("pip")),
            Kind::Pip => {}
        }
        if self.kind == Kind::Uv {
            command.env_remove("UV_NO_VERIFY_HASHES");
        } else {
            // pip collects a download in a temporary folder: there its growth can be watched, and it goes with ours.
            // Nothing is installed, so that a rule to install only into virtual environments does not apply.
            let overrides = [("PYTHONUNBUFFERED", "1"), ("PIP_REQUIRE_VIRTUALENV", "0"), ("PIP_NO_INPUT", "1")];
            command.envs(overrides).envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, &temporary)));
        }
        Ok(command)
    }

    /// Gets what is wanted into `staging`.
    fn fetch(&self, wanted: &Wanted<'_>, env: &Env, place: &Place<'_>, progress: &dyn Fn(&Progress)) -> Attempt {
        let requirement = wanted.requirement();
        progress(&Progress::Resolving { requirement: requirement.clone(), installer: self.name.to_owned() });
        let fetched = match self.kind {
            Kind::Uv => self.fetch_tree(wanted, env, place, progress),
            _ => {
                let arguments = ["download", "--no-deps", "--only-binary=:all:", "--progress-bar=off", "--dest"];
                let target = place.staging.join("wheel");
                self.run(&arguments, &target, &[requirement.as_ref()], env, place, progress).and_then(|()| {
                    let broken = |error| Attempt::Failed(format!("its wheel cannot be read: {error}"));
                    Package::wheel_in(&target).map_err(broken)?.ok_or_else(|| nothing_in(&target))
                })
            }
        };
        fetched.map_or_else(|attempt| attempt, Attempt::Fetched)
    }

    /// uv shows no wheel that could be held against a digest: where the release is known, uv is told its digests and checks them.
    fn fetch_tree(
        &self,
        wanted: &Wanted<'_>,
        env: &Env,
        place: &Place<'_>,
        progress: &dyn Fn(&Progress),
    ) -> Result<Package, Attempt> {
        let arguments = ["install", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy", "--system"];
        let arguments: Vec<OsString> =
            arguments.into_iter().map(OsString::from).chain(uv_config(env)).chain(["--target".into()]).collect();
        let get = |folder: &str, what: &[&OsStr], pinned: bool| {
            let target = place.staging.join(folder);
            self.run(&arguments, &target, what, env, place, progress)?;
            Package::tree_in(&target, pinned).ok_or_else(|| nothing_in(&target))
        };
        let mut version = wanted.request.exact();
        let mut taken = None;
        if version.is_none_or(|version| env.digests.release(wanted.package, version).is_empty()) {
            let tree = get("tree", &[wanted.requirement().as_ref()], false)?;
            version = tree.version();
            taken = Some(tree);
        }
        let digests = version.map(|version| env.digests.release(wanted.package, version)).unwrap_or_default();
        match (taken, version) {
            (Some(tree), _) if digests.is_empty() => Ok(tree),
            (_, Some(version)) => {
                let hashes: String = digests.iter().map(|digest| format!(" --hash=sha256:{digest}")).collect();
                let file = place.staging.join("requirements.txt");
                fs::write(&file, format!("{}=={version}{hashes}\n", wanted.package))
                    .map_err(|error| Attempt::Failed(format!("could not write {}: {error}", file.display())))?;
                let what = ["--require-hashes".as_ref(), "--verify-hashes".as_ref(), "-r".as_ref(), file.as_os_str()];
                get("pinned", &what, true).map_err(|attempt| match attempt {
                    // `Hash mismatch for …`, the digests that were expected, and `Computed:` with what there is.
                    Attempt::Failed(said) if said.contains("Hash mismatch") => {
                        let computed = said.rsplit_once("sha256:").map(|(_, digest)| digest.trim());
                        let found =
                            computed.map_or_else(|| "uv says so".to_owned(), |sha| format!("its SHA-256 is {sha}"));
                        let expected = digests.iter().map(|digest| (*digest).to_owned()).collect();
                        let wheel = format!("{} {version}", wanted.package);
                        Attempt::WrongDigest(ToolchainError::WrongDigest { wheel, found, expected })
                    }
                    attempt => attempt,
                })
            }
            (_, None) => Err(nothing_in(place.staging)),
        }
    }

    /// Runs the installer with its arguments, the folder that the last of them asks for, and what to get.
    fn run(
        &self,
        arguments: &[impl AsRef<OsStr>],
        target: &Path,
        what: &[&OsStr],
        env: &Env,
        place: &Place<'_>,
        progress: &dyn Fn(&Progress),
    ) -> Result<(), Attempt> {
        let failed = |error: ToolchainError| Attempt::Failed(error.to_string());
        fs::create_dir_all(target).map_err(|e| failed(ToolchainError::io("make the folder", target, e)))?;
        let mut command = self.command(env, place).map_err(failed)?;
        command.args(arguments).arg(target).args(what);
        let mut shown = 0;
        let mut watch = |output: &[u8]| {
            let bytes = largest_file(place.staging);
            if bytes > shown {
                shown = bytes;
                progress(&Progress::Downloading { bytes, total: announced_bytes(&String::from_utf8_lossy(output)) });
            }
        };
        match process::supervise(&mut command, None, &mut watch) {
            Ok(ended) if ended.status.success() => Ok(()),
            Ok(ended) => Err(refusal(&ended)),
            Err(_) => Err(Attempt::Absent),
        }
    }
}

/// What is to be fetched.
struct Wanted<'a> {
    package: &'a str,
    request: VersionRequest,
}

impl Wanted<'_> {
    /// `nvidia-cuda-nvcc==13.4.*`
    fn requirement(&self) -> String {
        let any = if self.request.exact().is_some() { "" } else { ".*" };
        format!("{}=={}{any}", self.package, self.request)
    }
}

fn nothing_in(folder: &Path) -> Attempt {
    Attempt::Failed(format!("it reported success and left nothing in {}", folder.display()))
}

/// Where installers do their work.
struct Place<'a> {
    /// What they bring goes here.
    staging: &'a Path,
    /// Where they run.
    empty: Scratch,
}

impl<'a> Place<'a> {
    fn new(staging: &'a Path, env: &Env) -> Result<Self, ToolchainError> {
        Ok(Place { staging, empty: empty_folder(staging, env)? })
    }
}

/// A new folder with nothing in it, and no folder of a checkout above it where the machine has such a place: a store of toolchains
/// may well lie in one, for a CI system to keep.
pub(super) fn empty_folder(staging: &Path, env: &Env) -> Result<Scratch, ToolchainError> {
    let places = [Some(staging), Some(env.temp_dir.as_path()), env.home.as_deref()];
    let outside = places.into_iter().flatten().filter(|place| !env.may_be_checkout(place));
    let made = outside.map(|place| Scratch::new_in(place, "ptxinspect-")).find_map(Result::ok);
    let made = made.map_or_else(|| Scratch::new_in(staging, "ptxinspect-"), Ok);
    made.map_err(|error| ToolchainError::io("make a temporary folder in", staging, error))
}

/// Has uv read the user's own configuration, or else the machine's, and none that it would find from where it runs.
fn uv_config(env: &Env) -> Vec<OsString> {
    // Only that file is read, then.
    if env.var("UV_CONFIG_FILE").is_some() {
        return Vec::new();
    }
    let users = config::folder(env).into_iter().chain(env.home.as_ref().map(|home| home.join(".config")));
    let machines = match std::env::consts::OS {
        "windows" => env.folder_var("PROGRAMDATA").into_iter().collect(),
        _ => {
            let folders = env.var("XDG_CONFIG_DIRS").map(|folders| std::env::split_paths(folders).collect::<Vec<_>>());
            let mut folders = folders.unwrap_or_else(|| vec![PathBuf::from("/etc/xdg")]);
            folders.push(PathBuf::from("/etc"));
            folders
        }
    };
    let mut files = users.chain(machines).filter(|folder| folder.is_absolute()).map(|folder| folder.join("uv/uv.toml"));
    match files.find(|file| file.is_file()).filter(|_| env.var("UV_NO_CONFIG").is_none()) {
        Some(file) => vec!["--config-file".into(), file.into_os_string()],
        None => vec!["--no-config".into()],
    }
}

/// What the output of a failed run means.
fn refusal(ended: &Ended) -> Attempt {
    let output = &ended.output;
    // `/usr/bin/python3: No module named pip`
    let absent = output.contains("No module named pip");
    let versions = offered_versions(output);
    if absent {
        Attempt::Absent
    } else if !versions.is_empty() {
        Attempt::NoSuchVersion(versions)
    } else {
        Attempt::Failed(format!("{}: {}", ended.status, told(output)))
    }
}

/// The end of what an installer said, in whole lines: of attempts that are repeated the last, and as much of a line as can be read.
fn told(output: &str) -> String {
    const LINES: usize = 8;
    const LETTERS: usize = 300;
    let start = |line: &&str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last: Vec<&str> = lines.chunk_by(|a, b| start(a) == start(b)).filter_map(|same| same.last().copied()).collect();
    let shown = last.iter().skip(last.len().saturating_sub(LINES));
    let cut = |line: &&str| match line.char_indices().nth(LETTERS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => (*line).to_owned(),
    };
    shown.map(cut).collect::<Vec<_>>().join("\n")
}

/// Gets the newest wheel of `package` that fits `request` into `staging`.
pub(super) fn fetch(
    package: &str,
    request: VersionRequest,
    env: &Env,
    staging: &Path,
    progress: &dyn Fn(&Progress),
) -> Result<Package, ToolchainError> {
    let wanted = Wanted { package, request };
    let place = &Place::new(staging, env)?;
    attempt_all(env, &wanted.requirement(), |installer| installer.fetch(&wanted, env, place, progress), request)
}

fn attempt_all(
    env: &Env,
    requirement: &str,
    mut attempt: impl FnMut(&Installer) -> Attempt,
    request: VersionRequest,
) -> Result<Package, ToolchainError> {
    if !cfg!(any(target_os = "linux", target_os = "windows")) {
        return Err(ToolchainError::NoPtxasForSystem { system: std::env::consts::OS });
    }
    let mut failures: Vec<InstallerFailure> = Vec::new();
    let mut pip_failed = false;
    for installer in Installer::all(env) {
        // python3 -m pip, python -m pip, pip3 and pip are the same program with the same settings as a rule.
        if pip_failed && installer.kind != Kind::Uv {
            continue;
        }
        match attempt(&installer) {
            Attempt::Fetched(package) => return Ok(package),
            Attempt::Absent => {}
            Attempt::WrongDigest(error) => return Err(error),
            Attempt::NoSuchVersion(available) => return Err(ToolchainError::NoSuchVersion { request, available }),
            Attempt::Failed(said) => {
                pip_failed = true;
                failures.push(InstallerFailure { installer: installer.name, said });
            }
        }
    }
    match failures.is_empty() {
        true => Err(ToolchainError::NoInstaller),
        false => Err(ToolchainError::FetchFailed { requirement: requirement.to_owned(), failures }),
    }
}

/// The versions an index offers, newest first: pip lists them when it is asked for one that cannot exist.
pub(super) fn available(
    package: &str,
    env: &Env,
    staging: &Path,
    progress: &dyn Fn(&Progress),
) -> Result<Vec<Version>, ToolchainError> {
    let requirement = format!("{package}==0.0.0");
    let place = Place::new(staging, env)?;
    let never = VersionRequest { major: 0, minor: None, patch: None };
    let attempt = |installer: &Installer| {
        if installer.kind == Kind::Uv {
            return Attempt::Failed("uv has no command that lists the versions of a package".to_owned());
        }
        progress(&Progress::Resolving { requirement: package.to_owned(), installer: installer.name.to_owned() });
        let mut command = match installer.command(env, &place) {
            Ok(command) => command,
            Err(error) => return Attempt::Failed(error.to_string()),
        };
        command.args(["download", "--no-deps", "--only-binary=:all:", "--dest"]).arg(staging).arg(&requirement);
        match process::supervise(&mut command, Some(LIST_TIMEOUT), &mut |_| {}) {
            Ok(ended) => refusal(&ended),
            Err(_) => Attempt::Absent,
        }
    };
    // What pip was asked for is no version that anybody should read of.
    let named = |said: String| said.replace(&requirement, package);
    match attempt_all(env, &format!("the list of versions of {package}"), attempt, never) {
        Err(ToolchainError::FetchFailed { requirement, failures }) => {
            let failures =
                failures.into_iter().map(|failure| InstallerFailure { said: named(failure.said), ..failure });
            Err(ToolchainError::FetchFailed { requirement, failures: failures.collect() })
        }
        Err(ToolchainError::NoSuchVersion { available, .. }) => Ok(available),
        Err(error) => Err(error),
        Ok(package) => {
            Err(ToolchainError::BrokenWheel { wheel: package.name().to_owned(), problem: "version 0.0.0".to_owned() })
        }
    }
}

/// `ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvcc==9 (from versions: 13.0.48, 13.4.46rc1)`
/// as releases, newest first.
fn offered_versions(output: &str) -> Vec<Version> {
    let list =
        output.split_once("(from versions: ").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    let mut versions: Vec<Version> = list.split(',').filter_map(|version| version.trim().parse().ok()).collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions
}

/// `  Downloading nvidia_cuda_nvcc-13.4.92-py3-none-manylinux2014_x86_64.whl (47.7 MB)`
fn announced_bytes(output: &str) -> Option<u64> {
    let line = output.lines().rev().find(|line| line.trim_start().starts_with("Downloading "))?;
    let (number, unit) = line.trim_end().strip_suffix(')')?.rsplit_once('(')?.1.split_once(' ')?;
    let scale = match unit {
        "bytes" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * scale;
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
}

/// The largest file below a folder, links not followed: pip writes the wheel to one place and copies it to another.
fn largest_file(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => largest_file(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pip_says_again_and_again_is_told_once() {
        let again = |left: u32| format!("WARNING: Retrying (total={left}) after connection broken\n");
        let said = format!("{}{}{}\nERROR: No matching distribution found", again(2), again(1), again(0));
        assert_eq!(told(&said), format!("{}ERROR: No matching distribution found", again(0)));
        assert_eq!(told(&"ö".repeat(400)).chars().count(), 301);
        assert_eq!(told(" \n"), "");
    }

    #[test]
    fn what_pip_says_is_understood() {
        let said = "ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvcc==0.0.0 (from versions: \
                    0.0.0a0, 13.0.48, 13.1.115, 13.4.46rc1, 13.4.92)\nERROR: No matching distribution found";
        let versions: Vec<String> = offered_versions(said).iter().map(Version::to_string).collect();
        assert_eq!(versions, ["13.4.92", "13.1.115", "13.0.48"]);
        assert!(offered_versions("(from versions: none)").is_empty());
        let said = "Collecting x\n  Downloading x-1-py3-none-any.whl (47.7 MB)\nSaved";
        assert_eq!(announced_bytes(said), Some(47_700_000));
        assert_eq!(announced_bytes("  Downloading x-1-py3-none-any.whl"), None);
        assert_eq!(announced_bytes("  Downloading x.whl (9e999 MB)"), None);
    }
}
