//! What the live tests share: the program, a real ptxas, a place for its toolchains.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The release the live tests run.
const RELEASE: &str = "13.4";

/// A file of the repository.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where the tests keep their ptxas versions: what `scripts/test` says, or a folder of the build.
fn toolchains() -> PathBuf {
    std::env::var_os("PTXINSPECT_TOOLCHAINS")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("toolchains"), PathBuf::from)
}

/// The program with a clean environment: no ptxas of the user's machine leaks into a test.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptxinspect"));
    for name in ["PTXINSPECT_PTXAS", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PTXINSPECT_COLUMNS"] {
        command.env_remove(name);
    }
    command.env("PTXINSPECT_CONFIG", if cfg!(windows) { r"\\.\NUL" } else { "/dev/null" });
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    command.env("PTXINSPECT_TOOLCHAINS", toolchains()).env("PTXINSPECT_CACHE", cache).stdin(Stdio::null());
    command
}

/// Runs the program and collects what it says.
pub fn run(args: &[&str]) -> Output {
    program().args(args).output().expect("the program starts")
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A real ptxas, installed on first use; `None`, and a word why, where no package index can be reached.
pub fn ptxas() -> Option<&'static Path> {
    static PTXAS: OnceLock<Option<PathBuf>> = OnceLock::new();
    PTXAS
        .get_or_init(|| {
            let installed = run(&["toolchain", "install", "--quiet", RELEASE]);
            if !installed.status.success() {
                eprintln!("SKIPPED: no ptxas {RELEASE}: {}", stderr(&installed));
                return None;
            }
            let path = run(&["toolchain", "path", RELEASE]);
            Some(PathBuf::from(stdout(&path).trim()))
        })
        .as_deref()
}

/// A Python with the packages that `scripts/test` installs; `None`, and a word why, without it.
pub fn venv() -> Option<PathBuf> {
    let python = std::env::var_os("PTXINSPECT_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIPPED: no Python with the tests' packages: scripts/test installs them");
    }
    python
}

/// PTX of our own: every file with the architecture its first line names.
pub fn samples() -> Vec<(PathBuf, String)> {
    let mut samples: Vec<(PathBuf, String)> = std::fs::read_dir(root("testdata/ptx"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let arch = text.lines().next().and_then(|line| line.strip_prefix("// arch: ")).expect("// arch: sm_NN");
            let arch = arch.split_whitespace().next().unwrap().to_owned();
            (path, arch)
        })
        .collect();
    samples.sort();
    assert!(samples.len() >= 10, "the samples are there");
    samples
}

/// Recorded cubins of architectures whose instructions are 16 bytes.
pub fn cubins() -> Vec<String> {
    let mut cubins: Vec<String> = std::fs::read_dir(root("testdata/cubin"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cubin"))
        .map(|path| path.to_str().unwrap().to_owned())
        .filter(|path| !path.contains("sm_50"))
        .collect();
    cubins.sort();
    assert!(cubins.len() >= 5, "the cubins are there");
    cubins
}
