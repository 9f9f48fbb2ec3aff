//! The folder of toolchains: what is in it, putting one in, taking one out.
//!
//! One lock file guards every change. Whoever holds it knows that every `.tmp-*` folder is what a killed process left
//! behind. Reading needs no lock, because a toolchain is renamed into place when it is complete.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::wheel::{self, Package};
use super::{Installation, Installed, MANIFEST, MANIFEST_SCHEMA, Manifest, Progress, Vouched, fetch, package_of};
use crate::files::Scratch;
use crate::toolchain::find::version_in;
use crate::toolchain::process;
use crate::toolchain::run::start_problem;
use crate::toolchain::{Env, ToolchainError, Version, VersionRequest};

const TEMPORARY: &str = ".tmp-";
const LOCK: &str = ".lock";
const VARIABLE: &str = "PTXINSPECT_TOOLCHAINS";
/// How long a new ptxas may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// A folder of managed toolchains.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The user's: `PTXINSPECT_TOOLCHAINS`, or `ptxinspect/toolchains` where the system keeps a user's data.
    pub fn of(env: &Env) -> Result<Self, ToolchainError> {
        let home = |below: &str| env.home.as_ref().map(|home| home.join(below));
        let data = || match std::env::consts::OS {
            "windows" => env.folder_var("LOCALAPPDATA").or_else(|| home("AppData/Local")),
            "macos" => home("Library/Application Support"),
            // The XDG specification: a relative path is to be ignored.
            _ => env.folder_var("XDG_DATA_HOME").or_else(|| home(".local/share")),
        };
        if let Some(value) = env.var(VARIABLE).map(PathBuf::from).filter(|folder| folder.is_relative()) {
            return Err(ToolchainError::RelativeVariable { name: VARIABLE, value });
        }
        let folder = env.folder_var(VARIABLE).or_else(|| Some(data()?.join("ptxinspect/toolchains")));
        Ok(Store { folder: folder.ok_or(ToolchainError::NoFolder)? })
    }

    /// Where the toolchains are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is installed, newest first. A folder that is not a whole toolchain is not listed.
    pub fn list(&self) -> Vec<Installed> {
        self.versions().into_iter().filter_map(|version| self.get(version)).collect()
    }

    /// The newest installed one that fits; `None` takes any.
    pub fn newest(&self, request: Option<VersionRequest>) -> Option<Installed> {
        let fits = |version: &Version| request.is_none_or(|request| request.matches(*version));
        self.versions().into_iter().filter(fits).find_map(|version| self.get(version))
    }

    fn not_installed(&self, request: VersionRequest) -> ToolchainError {
        let installed = self.list().iter().map(|toolchain| toolchain.version).collect();
        ToolchainError::NotInstalled { request, installed }
    }

    /// Newest first, by the names of the folders.
    fn versions(&self) -> Vec<Version> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut versions: Vec<Version> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        versions.sort_by(|a, b| b.cmp(a));
        versions
    }

    /// One toolchain, if it is whole: its manifest can be read and its files have the sizes it says.
    fn get(&self, version: Version) -> Option<Installed> {
        let folder = self.folder.join(version.to_string());
        let manifest: Manifest = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
        if manifest.schema != MANIFEST_SCHEMA || manifest.version != version {
            return None;
        }
        let whole = |path: &Path, bytes| fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == bytes);
        let ptxas = manifest.files.iter().find(|file| file.path == wheel::PTXAS)?;
        let path = folder.join(wheel::PTXAS);
        whole(&path, ptxas.bytes).then(|| Installed {
            version,
            path,
            package: manifest.package.clone(),
            wheel: manifest.wheel.clone(),
            sha256: ptxas.sha256.clone(),
            vouched: manifest.vouched,
        })
    }

    /// Fetches the newest version that fits, or returns it if it is already there. Safe against any number of others
    /// who do the same at once: they wait, and find it installed.
    pub fn install(
        &self,
        request: VersionRequest,
        env: &Env,
        progress: &dyn Fn(&Progress),
    ) -> Result<Installation, ToolchainError> {
        let package = package_of(request.major).ok_or(ToolchainError::TooOld { request })?;
        if env.offline {
            return match self.newest(Some(request)) {
                Some(toolchain) => Ok(Installation { toolchain, fresh: false }),
                None => Err(ToolchainError::Offline { request }),
            };
        }
        fs::create_dir_all(&self.folder)
            .map_err(|why| ToolchainError::StoreFolder { path: self.folder.clone(), why })?;
        let before = self.newest(Some(request));
        let lock = self.lock(progress)?;
        // Somebody else may have brought it while this process waited for the lock.
        let now = self.newest(Some(request));
        if let Some(toolchain) = now.filter(|now| request.exact().is_some() || before.as_ref() != Some(now)) {
            return Ok(Installation { toolchain, fresh: false });
        }
        self.remove_leftovers(&lock);
        let staging = self.staging()?;
        if let Some(toolchain) = before {
            // A new download only where the index has a newer one; without an index what is there will do.
            let newest = fetch::available(&package, env, staging.path(), progress)
                .ok()
                .and_then(|versions| versions.into_iter().find(|version| request.matches(*version)));
            if newest.is_none_or(|newest| newest <= toolchain.version) {
                return Ok(Installation { toolchain, fresh: false });
            }
        }
        let fetched = fetch::fetch(&package, request, env, staging.path(), progress).map_err(|error| match error {
            // Each major release has a package of its own: the others' versions are offered, too.
            ToolchainError::NoSuchVersion { request, available } => {
                let all = Store::available(env, &|_| {}).unwrap_or(available);
                ToolchainError::NoSuchVersion { request, available: all }
            }
            error => error,
        })?;
        let named = fetched.version().map(|version| env.digests.check(&package, &fetched, version)).transpose()?;
        progress(&Progress::Unpacking { wheel: fetched.name().to_owned() });
        let unpacked = staging.path().join("toolchain");
        let files = wheel::unpack(&fetched, &unpacked)?;
        progress(&Progress::Checking);
        let version = check(&unpacked, &fetched, fetch::empty_folder(staging.path(), env)?.path())?;
        if !request.matches(version) {
            let wheel = fetched.name().to_owned();
            return Err(ToolchainError::WrongVersion { request, wheel, found: version });
        }
        // A wheel under another release's name does not pass for one that is known.
        let vouched = match named {
            Some(Vouched::Pinned) if fetched.version() == Some(version) => Vouched::Pinned,
            _ => env.digests.check(&package, &fetched, version)?,
        };
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA.to_owned(),
            version,
            package,
            wheel: fetched.name().to_owned(),
            vouched: Some(vouched),
            files,
        };
        let manifest_path = unpacked.join(MANIFEST);
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
        fs::write(&manifest_path, text).map_err(|e| ToolchainError::io("write", &manifest_path, e))?;
        let fresh = self.put(version, &unpacked, staging.path())?;
        drop(staging);
        let toolchain = self.get(version).ok_or(ToolchainError::Vanished { version })?;
        progress(&Progress::Installed { version, vouched });
        Ok(Installation { toolchain, fresh })
    }

    /// Renames a complete toolchain into place; says whether it was not there before. What is broken there goes first.
    fn put(&self, version: Version, unpacked: &Path, staging: &Path) -> Result<bool, ToolchainError> {
        if self.get(version).is_some() {
            return Ok(false);
        }
        let place = self.folder.join(version.to_string());
        if fs::symlink_metadata(&place).is_ok() {
            fs::rename(&place, staging.join("broken")).map_err(|e| ToolchainError::io("move away", &place, e))?;
        }
        fs::rename(unpacked, &place).map_err(|e| ToolchainError::io("move the new toolchain to", &place, e))?;
        Ok(true)
    }

    /// Removes every installed version that fits, and says which they were.
    pub fn remove(
        &self,
        request: VersionRequest,
        progress: &dyn Fn(&Progress),
    ) -> Result<Vec<Version>, ToolchainError> {
        if !self.folder.is_dir() {
            return Err(self.not_installed(request));
        }
        let lock = self.lock(progress)?;
        self.remove_leftovers(&lock);
        let mut removed: Vec<Version> = self.versions();
        removed.retain(|version| request.matches(*version));
        if removed.is_empty() {
            return Err(self.not_installed(request));
        }
        for version in &removed {
            // Renamed first, so that nobody finds half a toolchain.
            let staging = self.staging()?;
            let place = self.folder.join(version.to_string());
            fs::rename(&place, staging.path().join("removed")).map_err(|e| ToolchainError::io("remove", &place, e))?;
        }
        Ok(removed)
    }

    /// The versions that the user's index offers for every generation, newest first.
    pub fn available(env: &Env, progress: &dyn Fn(&Progress)) -> Result<Vec<Version>, ToolchainError> {
        let staging = Scratch::new_in(&env.temp_dir, "ptxinspect-")
            .map_err(|e| ToolchainError::io("make a temporary folder in", &env.temp_dir, e))?;
        let mut versions = Vec::new();
        for package in [13, 12, 11].into_iter().filter_map(package_of) {
            versions.extend(fetch::available(&package, env, staging.path(), progress)?);
        }
        versions.sort_by(|a, b| b.cmp(a));
        versions.dedup();
        Ok(versions)
    }

    fn staging(&self) -> Result<Scratch, ToolchainError> {
        Scratch::new_in(&self.folder, TEMPORARY)
            .map_err(|e| ToolchainError::io("make a temporary folder in", &self.folder, e))
    }

    /// Holds the lock until the file is dropped. Where the file system has no locks the work goes on without:
    /// renaming is atomic all the same.
    fn lock(&self, progress: &dyn Fn(&Progress)) -> Result<Option<File>, ToolchainError> {
        let path = self.folder.join(LOCK);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|e| ToolchainError::io("open", &path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {
                progress(&Progress::Waiting { folder: self.folder.clone() });
                Ok(file.lock().is_ok().then_some(file))
            }
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Removes what killed processes left; only the holder of the lock can know that nobody uses it.
    fn remove_leftovers(&self, lock: &Option<File>) {
        let (Some(_), Ok(entries)) = (lock, fs::read_dir(&self.folder)) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
                // What cannot be removed now is tried again next time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Runs the new ptxas once: is it whole, does it run here, and what is it?
fn check(unpacked: &Path, fetched: &Package, folder: &Path) -> Result<Version, ToolchainError> {
    let path = unpacked.join(wheel::PTXAS);
    let failed = |problem: String| ToolchainError::DoesNotRun { wheel: fetched.name().to_owned(), problem };
    let mut command = Command::new(&path);
    command.arg("--version").current_dir(folder);
    let ended = process::supervise(&mut command, Some(VERSION_TIMEOUT), &mut |_| {})
        .map_err(|error| failed(start_problem(&path, &error)))?;
    version_in(&ended.output).ok_or_else(|| {
        failed(format!("`ptxas --version` ended with {} and said {:?}", ended.status, tail(&ended.output, 200)))
    })
}

/// The end of a text, at most so many bytes of it.
fn tail(text: &str, bytes: usize) -> &str {
    let text = text.trim();
    let start = (text.len().saturating_sub(bytes)..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[start..]
}
