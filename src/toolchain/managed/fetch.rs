//! Gets a wheel through the user's own pip or uv.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Progress;
use super::store::tail;
use super::wheel::Package;
use crate::toolchain::find::is_executable;
use crate::toolchain::process::{self, Ended};
use crate::toolchain::{Env, InstallerFailure, ToolchainError, Version, VersionRequest};

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
    Failed(String),
}

impl Installer {
    /// Those there are, in the order they are tried.
    fn all(env: &Env) -> Vec<Installer> {
        let folders = env.path_folders();
        let locate = |name: &str| {
            let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
            folders.iter().map(|folder| folder.join(&file)).find(|path| is_executable(path))
        };
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

    /// The command with the user's environment, its temporary files below `folder`.
    fn command(&self, env: &Env, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(&env.vars);
        match self.kind {
            Kind::Module => drop(command.args(["-m", "pip"])),
            Kind::Uv => drop(command.arg("pip")),
            Kind::Pip => {}
        }
        if self.kind == Kind::Uv {
            // uv finds a project's index settings from where it runs.
            command.current_dir(&env.cwd);
        } else {
            // `python3 -m` would import a module of that name from where it runs.
            command.current_dir(folder);
            // pip collects a download in a temporary folder: there its growth can be watched, and it goes with ours.
            // Nothing is installed, so that a rule to install only into virtual environments does not apply.
            let overrides = [("PYTHONUNBUFFERED", "1"), ("PIP_REQUIRE_VIRTUALENV", "0"), ("PIP_NO_INPUT", "1")];
            command.envs(overrides).envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, folder)));
        }
        command
    }

    fn fetch(&self, requirement: &str, env: &Env, staging: &Path, progress: &dyn Fn(&Progress)) -> Attempt {
        let temporary = staging.join("tmp");
        let target = staging.join(if self.kind == Kind::Uv { "tree" } else { "wheel" });
        for folder in [&temporary, &target] {
            if let Err(error) = fs::create_dir_all(folder) {
                return Attempt::Failed(format!("could not make {}: {error}", folder.display()));
            }
        }
        progress(&Progress::Resolving { requirement: requirement.to_owned(), installer: self.name.to_owned() });
        let mut command = self.command(env, &temporary);
        match self.kind {
            Kind::Uv => command
                .args(["install", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy", "--target"])
                .arg(&target),
            _ => command
                .args(["download", "--no-deps", "--only-binary=:all:", "--progress-bar=off", "--dest"])
                .arg(&target),
        };
        command.arg(requirement);
        let mut shown = 0;
        let mut watch = |output: &[u8]| {
            let bytes = largest_file(staging);
            if bytes > shown {
                shown = bytes;
                progress(&Progress::Downloading { bytes, total: announced_bytes(&String::from_utf8_lossy(output)) });
            }
        };
        let ended = match process::supervise(&mut command, None, &mut watch) {
            Ok(ended) => ended,
            Err(_) => return Attempt::Absent,
        };
        if !ended.status.success() {
            return refusal(&ended);
        }
        match self.kind {
            Kind::Uv => Package::tree_in(&target),
            _ => Package::wheel_in(&target),
        }
        .map_or_else(
            || Attempt::Failed(format!("it reported success and left nothing in {}", target.display())),
            Attempt::Fetched,
        )
    }
}

/// What the output of a failed run means.
fn refusal(ended: &Ended) -> Attempt {
    let output = &ended.output;
    // `/usr/bin/python3: No module named pip`, and pyenv's shim for a version that is not there.
    let absent =
        output.contains("No module named pip") || (output.starts_with("pyenv: ") && ended.status.code() == Some(127));
    let versions = offered_versions(output);
    if absent {
        Attempt::Absent
    } else if !versions.is_empty() {
        Attempt::NoSuchVersion(versions)
    } else {
        Attempt::Failed(format!("{}: {}", ended.status, tail(output, 1200)))
    }
}

/// Gets the newest wheel of `package` that fits `request` into `staging`.
pub(super) fn fetch(
    package: &str,
    request: VersionRequest,
    env: &Env,
    staging: &Path,
    progress: &dyn Fn(&Progress),
) -> Result<Package, ToolchainError> {
    let requirement =
        if request.is_exact() { format!("{package}=={request}") } else { format!("{package}=={request}.*") };
    attempt_all(env, &requirement, |installer| installer.fetch(&requirement, env, staging, progress), request)
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
    let never = VersionRequest { major: 0, minor: None, patch: None };
    let attempt = |installer: &Installer| {
        if installer.kind == Kind::Uv {
            return Attempt::Failed("uv has no command that lists the versions of a package".to_owned());
        }
        progress(&Progress::Resolving { requirement: package.to_owned(), installer: installer.name.to_owned() });
        let mut command = installer.command(env, staging);
        command.args(["download", "--no-deps", "--only-binary=:all:", "--dest"]).arg(staging).arg(&requirement);
        match process::supervise(&mut command, Some(LIST_TIMEOUT), &mut |_| {}) {
            Ok(ended) => refusal(&ended),
            Err(_) => Attempt::Absent,
        }
    };
    match attempt_all(env, &requirement, attempt, never) {
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
