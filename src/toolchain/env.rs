//! The machine as this module sees it: a value, so that a test can be somewhere else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::config::Config;
use super::find::is_executable;
use super::managed::Digests;

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
    /// Whether nothing may be fetched: `PTXINSPECT_OFFLINE` is set to something other than 0.
    pub offline: bool,
    /// What the user's own configuration says.
    pub config: Config,
    /// The wheels whose content is known.
    pub(super) digests: Digests,
}

impl Env {
    /// Built from `std::env::vars_os()`, `current_dir()` and `temp_dir()` by whoever may look at those.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>, cwd: PathBuf, temp_dir: PathBuf) -> Self {
        let vars: BTreeMap<_, _> = vars.into_iter().collect();
        let home_name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let offline = vars.get(OsStr::new("PTXINSPECT_OFFLINE")).is_some_and(|value| !value.is_empty() && value != "0");
        let home = vars.get(OsStr::new(home_name)).map(PathBuf::from).filter(|home| home.is_absolute());
        Env {
            vars,
            home,
            temp_dir: cwd.join(temp_dir),
            cwd,
            default_cuda: PathBuf::from("/usr/local/cuda"),
            offline,
            config: Config::default(),
            digests: Digests::pinned(),
        }
    }

    /// A variable that is set to something; an empty one counts as unset.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that names a folder whose programs may be run. A relative one would mean another folder in every checkout, so
    /// that whoever wrote the checkout would choose the program: it counts as unset.
    pub fn folder_var(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    }

    /// A path as seen from the current folder.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.join(path)
    }

    /// Whether a folder may be part of the checkout that the current folder is in, as far as can be told without reading it: it
    /// lies below the same folder, and that is not one that the user's home lies in, too.
    pub(super) fn may_be_checkout(&self, folder: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (here, folder) = (real(&self.cwd), real(folder));
        let home = self.home.as_deref().map(real);
        let above_home = |folder: &Path| home.as_ref().is_some_and(|home| home.starts_with(folder));
        let apart = here.ancestors().take_while(|folder| folder.parent().is_some() && !above_home(folder));
        apart.last().is_some_and(|checkout| folder.starts_with(checkout))
    }

    /// The folders of `PATH`, in order. An empty or relative one means the current folder or something in it, and what a checkout
    /// holds is never run because it lies there: those are left out.
    pub fn path_folders(&self) -> Vec<PathBuf> {
        let Some(path) = self.var("PATH") else { return Vec::new() };
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
    }

    /// A program on `PATH`; a name with a folder in it is an absolute path or none.
    pub fn program_on_path(&self, name: &str) -> Option<PathBuf> {
        let name = Path::new(name);
        let is_meant = is_bare(name) || name.is_absolute();
        self.program(name).filter(|file| is_meant && is_executable(file))
    }

    /// The file that somebody means who names a program: a bare name is one on `PATH`, never one in the current folder; anything
    /// else is a path. `None` where `PATH` has no such name.
    pub(super) fn program(&self, name: &Path) -> Option<PathBuf> {
        if !is_bare(name) {
            return Some(self.absolute(name));
        }
        let mut with_suffix = name.as_os_str().to_owned();
        with_suffix.push(std::env::consts::EXE_SUFFIX);
        let names = [name.as_os_str(), &with_suffix];
        let folders = self.path_folders();
        folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).find(|file| is_executable(file))
    }
}

/// `ptxas`: neither `./ptxas` nor `bin/ptxas`.
fn is_bare(name: &Path) -> bool {
    let mut parts = name.components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}
