//! The ptxas and nvdisasm that Python wheels bring, found without starting Python.
//!
//! `nvidia/cu13/bin/ptxas` (nvidia-cuda-nvcc 13), `nvidia/cuda_nvcc/bin/ptxas` (its 11 and 12) and
//! `triton/backends/nvidia/bin/ptxas` below the site-packages of the Python in use.

use std::path::{Path, PathBuf};

use super::find::is_executable;
use super::{Env, Version};

/// A program that a wheel brought.
pub(super) struct Wheel {
    pub path: PathBuf,
    pub package: &'static str,
    pub environment: &'static str,
    pub version: Option<Version>,
}

/// In order: the active environment before the Python on PATH, NVIDIA's wheels (newest first) before Triton's.
pub(super) fn wheels(env: &Env, program: &str) -> Vec<Wheel> {
    let mut wheels: Vec<Wheel> = Vec::new();
    for (environment, site) in site_folders(env) {
        let mut found: Vec<Wheel> = folders_in(&site.join("nvidia"))
            .into_iter()
            .filter(|folder| is_nvcc_folder(folder))
            .map(|folder| {
                let version = recorded_version(&site, &folder);
                Wheel { path: folder.join("bin").join(program), package: "nvidia-cuda-nvcc", environment, version }
            })
            .collect();
        found.sort_by(|a, b| (b.version, &b.path).cmp(&(a.version, &a.path)));
        for folder in ["backends/nvidia/bin", "third_party/cuda/bin"] {
            let path = site.join("triton").join(folder).join(program);
            found.push(Wheel { path, package: "triton", environment, version: None });
        }
        wheels.extend(found.into_iter().filter(|wheel| wheel.path.is_file()));
    }
    wheels
}

/// `cu13`, `cu14`, `cuda_nvcc`
fn is_nvcc_folder(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "cuda_nvcc"
        || name.strip_prefix("cu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `nvidia_cuda_nvcc-13.4.92.dist-info` beside it says which version a folder holds; two that could both be meant say
/// nothing.
fn recorded_version(site: &Path, folder: &Path) -> Option<Version> {
    let in_generation = folder.file_name()?.to_str()?.strip_prefix("cu").and_then(|n| n.parse::<u16>().ok());
    let mut versions = folders_in(site).into_iter().filter_map(|info| {
        let (package, version) = info.file_name()?.to_str()?.strip_suffix(".dist-info")?.split_once('-')?;
        let version: Version = version.parse().ok()?;
        let generation = if package == "nvidia_cuda_nvcc" { Some(version.major) } else { None };
        (package.starts_with("nvidia_cuda_nvcc") && generation == in_generation).then_some(version)
    });
    let version = versions.next()?;
    versions.next().is_none().then_some(version)
}

/// The site-packages folders of the Python in use, each with what that Python is.
fn site_folders(env: &Env) -> Vec<(&'static str, PathBuf)> {
    let mut sites: Vec<(&'static str, PathBuf)> = Vec::new();
    let mut add = |environment, folder: PathBuf| {
        if folder.is_dir() && sites.iter().all(|(_, known)| *known != folder) {
            sites.push((environment, folder));
        }
    };
    for (name, environment) in
        [("VIRTUAL_ENV", "the active virtual environment"), ("CONDA_PREFIX", "the active conda environment")]
    {
        for site in env.folder_var(name).into_iter().flat_map(|prefix| sites_of(&prefix, None)) {
            add(environment, site);
        }
    }
    if let Some(python) = python_on_path(env) {
        let environment = "the Python on PATH";
        for site in python.sites() {
            add(environment, site);
        }
        if let (Some(home), Some(release)) = (&env.home, &python.release) {
            add(environment, home.join(".local/lib").join(release).join("site-packages"));
        }
    }
    sites
}

/// A Python installation.
struct Python {
    prefix: PathBuf,
    /// `python3.11`, where the executable's name says so.
    release: Option<String>,
}

impl Python {
    fn sites(&self) -> Vec<PathBuf> {
        sites_of(&self.prefix, self.release.as_deref())
    }
}

/// Below a prefix: `lib/python3.11/site-packages`, Debian's `dist-packages`, Windows' `Lib/site-packages`.
fn sites_of(prefix: &Path, release: Option<&str>) -> Vec<PathBuf> {
    let mut sites = vec![prefix.join("Lib").join("site-packages")];
    for lib in ["lib", "lib64", "local/lib"] {
        let mut releases: Vec<PathBuf> = folders_in(&prefix.join(lib))
            .into_iter()
            .filter(|folder| {
                let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.starts_with("python3") && release.is_none_or(|release| name == release || name == "python3")
            })
            .collect();
        releases.sort();
        for folder in releases.into_iter().rev() {
            sites.extend([folder.join("site-packages"), folder.join("dist-packages")]);
        }
    }
    sites
}

fn python_on_path(env: &Env) -> Option<Python> {
    let names: &[&str] = if cfg!(windows) { &["python.exe"] } else { &["python3", "python"] };
    let found = names.iter().find_map(|name| program(env, name))?;
    let folder = found.parent()?;
    // A virtual environment's python is a link to the one it was made from, whose packages it does not see.
    let prefix = if cfg!(windows) { folder } else { folder.parent()? };
    if prefix.join("pyvenv.cfg").is_file() {
        return Some(Python { prefix: prefix.to_owned(), release: None });
    }
    let real = std::fs::canonicalize(&found).ok()?;
    let release = real.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with("python3."));
    let real_folder = real.parent()?;
    let prefix = if cfg!(windows) { real_folder } else { real_folder.parent()? };
    Some(Python { prefix: prefix.to_owned(), release: release.map(str::to_owned) })
}

/// The program of a name on `PATH`. pyenv's stand-ins there are scripts that would let a `.python-version` of the checkout choose
/// what they run: the program that they stand for is taken instead, as the user's own settings choose it.
pub(super) fn program(env: &Env, name: &str) -> Option<PathBuf> {
    let files = env.path_folders().into_iter().flat_map(|folder| match pyenv_versions(&folder, env) {
        Some(versions) => versions.into_iter().map(|version| version.join("bin").join(name)).collect(),
        None => vec![folder.join(name)],
    });
    files.into_iter().find(|file| is_executable(file))
}

/// The versions in use where a folder is that of pyenv's stand-ins: those of `PYENV_VERSION`, or of pyenv's own `version`. What is
/// not the name of a folder beside the others is none of them: `system`, and `../..`.
fn pyenv_versions(shims: &Path, env: &Env) -> Option<Vec<PathBuf>> {
    let versions = shims.parent()?.join("versions");
    if shims.file_name()? != "shims" || !versions.is_dir() {
        return None;
    }
    let names = match env.var("PYENV_VERSION") {
        Some(names) => names.to_str()?.to_owned(),
        None => std::fs::read_to_string(shims.with_file_name("version")).unwrap_or_default(),
    };
    let installed = folders_in(&versions);
    let of_name = |name: &str| {
        let is = |folder: &PathBuf, matches: &dyn Fn(&str) -> bool| {
            folder.file_name().and_then(|folder| folder.to_str()).is_some_and(matches)
        };
        let exact = installed.iter().find(|folder| is(folder, &|folder| folder == name));
        // `3.11` stands for the newest 3.11.x.
        let newest = || installed.iter().rfind(|folder| is(folder, &|folder| folder.starts_with(&format!("{name}."))));
        exact.or_else(newest).cloned()
    };
    Some(
        names
            .split(|c: char| c == ':' || c.is_whitespace())
            .filter(|name| !name.is_empty())
            .filter_map(of_name)
            .collect(),
    )
}

/// The folders and links in a folder, sorted by name; none where there is no such folder.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
    let mut folders: Vec<PathBuf> = entries.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    folders
}
