//! The machine as this module sees it: a value, so that a test can be somewhere else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Environment variables, folders and the places that are fixed on a real machine.
#[derive(Clone, Debug)]
pub struct Env {
    /// All environment variables; child processes that fetch something get exactly these.
    pub vars: BTreeMap<OsString, OsString>,
    /// What relative paths are relative to.
    pub cwd: PathBuf,
    /// The user's home folder, if there is one.
    pub home: Option<PathBuf>,
    /// Where temporary folders are made.
    pub temp_dir: PathBuf,
    /// Where a CUDA toolkit is when nothing says otherwise: `/usr/local/cuda`.
    pub default_cuda: PathBuf,
}

impl Env {
    /// Built from `std::env::vars_os()`, `current_dir()` and `temp_dir()` by whoever may look at those.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>, cwd: PathBuf, temp_dir: PathBuf) -> Self {
        let vars: BTreeMap<_, _> = vars.into_iter().collect();
        let home_name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let home = vars.get(OsStr::new(home_name)).filter(|home| !home.is_empty()).map(PathBuf::from);
        Env { vars, cwd, home, temp_dir, default_cuda: PathBuf::from("/usr/local/cuda") }
    }

    /// A variable that is set to something; an empty one counts as unset.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that holds a folder or file, made absolute.
    pub fn path_var(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(|value| self.absolute(Path::new(value)))
    }

    /// A path as seen from the current folder.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.join(path)
    }

    /// The folders of `PATH`, in order.
    pub fn path_folders(&self) -> Vec<PathBuf> {
        let Some(path) = self.var("PATH") else { return Vec::new() };
        std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()).map(|f| self.absolute(&f)).collect()
    }
}
