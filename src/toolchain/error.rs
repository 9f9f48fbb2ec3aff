//! Why there is no ptxas to run.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{NEWEST_RELEASE, Origin, Version, VersionRequest};

/// Why there is no ptxas to run, or why a managed one could not be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// Nothing was asked for, the machine has none, and none could be fetched.
    #[error("no ptxas is at hand, and none could be installed: {why} (looked for at: {})", searched.join(", "))]
    NotFound {
        /// Where it was looked for, in words.
        searched: Vec<String>,
        /// Why none was installed.
        why: Box<ToolchainError>,
    },
    /// Something would have to be fetched, and that is forbidden.
    #[error(
        "--offline (or PTXINSPECT_OFFLINE) forbids to fetch ptxas {request}: leave it out, or install it beforehand with \
         `ptxinspect toolchain install {}`",
        release_of(request)
    )]
    Offline {
        /// What was wanted.
        request: VersionRequest,
    },
    /// The named file is not there.
    #[error("there is no file {} ({origin})", path.display())]
    NoSuchFile {
        /// The file.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
    },
    /// A bare name that is no program's.
    #[error("there is no {} on PATH ({origin}){}", name.display(), here_hint(*here, name))]
    NotOnPath {
        /// The name.
        name: PathBuf,
        /// Who named it.
        origin: Origin,
        /// Whether the current folder has a file of that name, which is never what a bare name means.
        here: bool,
    },
    /// The user's configuration cannot be used.
    #[error("the configuration {} cannot be used: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// What says which programs run, or what is believed, would be something else in every checkout.
    #[error("{name} is '{}': expected an absolute path: a relative one is something else in every checkout", value.display())]
    RelativeVariable {
        /// The variable.
        name: &'static str,
        /// What it says.
        value: PathBuf,
    },
    /// The named file is a folder.
    #[error("{} is a folder ({origin}): expected the ptxas executable{}", path.display(), inside_hint(inside))]
    IsFolder {
        /// The folder.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
        /// The ptxas in it, if there is one where it should be.
        inside: Option<PathBuf>,
    },
    /// The named file may not be run.
    #[error("{} is not executable ({origin}): `chmod +x` makes it so if it is ptxas", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Who named it.
        origin: Origin,
    },
    /// The folder of toolchains cannot be made.
    #[error(
        "could not make the folder of toolchains {}: {why}; set PTXINSPECT_TOOLCHAINS to a folder that you can write to, or give \
         a ptxas with --ptxas PATH", path.display()
    )]
    StoreFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// There is no home to keep toolchains in.
    #[error("there is no folder to keep toolchains in: set HOME or PTXINSPECT_TOOLCHAINS")]
    NoFolder,
    /// No wheel was ever made of it.
    #[error("ptxas {request} cannot be installed: wheels of it exist from 11.7 on")]
    TooOld {
        /// What was asked for.
        request: VersionRequest,
    },
    /// NVIDIA makes no ptxas for it.
    #[error("NVIDIA ships ptxas for Linux and Windows, not for {system}: give one with --ptxas PATH")]
    NoPtxasForSystem {
        /// This system.
        system: &'static str,
    },
    /// Neither pip nor uv.
    #[error(
        "a ptxas is fetched through pip or uv, and neither was found on PATH: install one of them, or give a ptxas with \
         --ptxas PATH"
    )]
    NoInstaller,
    /// The index does not have it.
    #[error("ptxas {request} is not in the package index; it offers {}", offer(*request, available))]
    NoSuchVersion {
        /// What was asked for.
        request: VersionRequest,
        /// What there is, newest first.
        available: Vec<Version>,
    },
    /// pip or uv did not bring the package.
    #[error(
        "{requirement} could not be fetched:{}\nwhere no package index can be reached, give a ptxas with --ptxas PATH",
        failures.iter().map(|failure| format!("\n{failure}")).collect::<String>()
    )]
    FetchFailed {
        /// What was asked of them.
        requirement: String,
        /// What each of those tried said.
        failures: Vec<InstallerFailure>,
    },
    /// The wheel is not what it should be.
    #[error("{wheel} is broken: {problem}; nothing was installed, try again")]
    BrokenWheel {
        /// Its file name.
        wheel: String,
        /// What is wrong.
        problem: String,
    },
    /// The wheel is not the one that was published.
    #[error(
        "{wheel} is not the wheel that this release was published with: {found}, expected {}; nothing was installed. The package \
         index, or something on the way to it, delivers another file: `pip config list` shows which index it is; a ptxas of \
         your own is given with --ptxas PATH",
        one_of(expected)
    )]
    WrongDigest {
        /// Its file name.
        wheel: String,
        /// What it is, in words.
        found: String,
        /// The digests of the release, for every platform.
        expected: Vec<String>,
    },
    /// The wheel's ptxas does not run on this machine.
    #[error("the ptxas of {wheel} does not run here: {problem}; nothing was installed")]
    DoesNotRun {
        /// Its file name.
        wheel: String,
        /// Why.
        problem: String,
    },
    /// The wheel holds another version than it was fetched for.
    #[error("the ptxas of {wheel} says it is {found}: expected {request}; nothing was installed")]
    WrongVersion {
        /// What was asked for.
        request: VersionRequest,
        /// Its file name.
        wheel: String,
        /// What came.
        found: Version,
    },
    /// Somebody took it away again.
    #[error("toolchain {version} disappeared while it was being installed")]
    Vanished {
        /// Which.
        version: Version,
    },
    /// A managed toolchain that is not there.
    #[error("no managed toolchain {request} is installed{}", installed_hint(installed))]
    NotInstalled {
        /// What was asked for.
        request: VersionRequest,
        /// What there is, newest first.
        installed: Vec<Version>,
    },
    /// The file system said no.
    #[error("could not {action} {}: {why}{}", path.display(), elsewhere(why))]
    Io {
        /// `write`, `make the folder`.
        action: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

/// What helps where the store of toolchains cannot be written.
fn elsewhere(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => {
            "; set PTXINSPECT_TOOLCHAINS to a folder that you can write to"
        }
        _ => "",
    }
}

impl ToolchainError {
    pub(super) fn io(action: &'static str, path: &Path, why: io::Error) -> Self {
        ToolchainError::Io { action, path: path.to_owned(), why }
    }
}

/// What a pip or uv said that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallerFailure {
    /// `python3 -m pip`
    pub installer: &'static str,
    /// The end of what it said.
    pub said: String,
}

impl fmt::Display for InstallerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.installer, self.said)
    }
}

fn inside_hint(inside: &Option<PathBuf>) -> String {
    inside.as_ref().map_or(String::new(), |path| format!(", which is {}", path.display()))
}

fn here_hint(here: bool, name: &Path) -> String {
    if here {
        format!("; the one in this folder is ./{}", name.display())
    } else {
        ": expected a version, such as 13.4, or a path".to_owned()
    }
}

/// The release to install: the newest one by its full name, where that is what is asked for.
fn release_of(request: &VersionRequest) -> String {
    let (asked, newest) = (request.to_string(), NEWEST_RELEASE.to_string());
    let is_newest = newest.strip_prefix(&asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if is_newest { newest } else { asked }
}

fn one_of(digests: &[String]) -> String {
    let named = if digests.len() == 1 { "SHA-256 " } else { "one of the SHA-256 " };
    format!("{named}{}", digests.join(", "))
}

fn list(versions: &[Version]) -> String {
    versions.iter().map(Version::to_string).collect::<Vec<_>>().join(", ")
}

/// The builds of the release that was asked for, or else every release.
fn offer(request: VersionRequest, versions: &[Version]) -> String {
    let same = |version: &&Version| version.major == request.major && Some(version.minor) == request.minor;
    let builds: Vec<Version> = versions.iter().filter(same).copied().collect();
    let mut releases: Vec<String> =
        versions.iter().map(|version| format!("{}.{}", version.major, version.minor)).collect();
    releases.dedup();
    match (builds.is_empty(), releases.is_empty()) {
        (false, _) => list(&builds),
        (true, false) => format!("{}; `ptxinspect toolchain list --available` names every build", releases.join(", ")),
        (true, true) => "none".to_owned(),
    }
}

fn installed_hint(versions: &[Version]) -> String {
    if versions.is_empty() { String::new() } else { format!("; there are {}", list(versions)) }
}
