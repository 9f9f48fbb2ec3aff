use std::fs;

use super::*;
use crate::base::Variant;

/// An empty machine.
struct Machine {
    folder: tempfile::TempDir,
    env: Env,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let vars = [("HOME", root.join("home")), ("PATH", root.join("empty"))];
        let vars = vars.map(|(name, value)| (name.into(), value.into_os_string()));
        let mut env = Env::new(vars, root.to_owned(), root.join("tmp"));
        env.default_cuda = root.join("usr-local-cuda");
        Machine { folder, env }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env.vars.insert(name.into(), value.into());
    }

    fn set_path(&mut self, name: &str, path: &str) {
        self.env.vars.insert(name.into(), self.path(path).into_os_string());
    }

    fn file(&self, path: &str, mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    fn managed(&self, version: &str) {
        let folder = format!("home/.local/share/ptxinspect/toolchains/{version}");
        self.file(&format!("{folder}/bin/ptxas"), 0o755);
        let manifest = format!(
            r#"{{"schema": "ptxinspect.toolchain/1", "version": "{version}", "package": "p", "wheel": "w",
                "files": [{{"path": "bin/ptxas", "bytes": 10, "sha256": "00"}}]}}"#
        );
        fs::write(self.path(&folder).join("toolchain.json"), manifest).unwrap();
    }

    fn auto(&self) -> Result<Ptxas, ToolchainError> {
        find(&Request::Auto, &self.env, &|_| {})
    }

    /// Where the one that is found is, below the machine's root, and why.
    fn found(&self) -> (String, String) {
        let ptxas = self.auto().unwrap();
        let below = ptxas.path.strip_prefix(self.folder.path()).unwrap();
        (below.to_str().unwrap().to_owned(), ptxas.origin.to_string())
    }
}

#[test]
fn nothing_anywhere_says_why_none_was_installed() {
    let mut machine = Machine::new();
    let error = machine.auto().unwrap_err();
    let ToolchainError::NotFound { searched, why } = &error else { panic!("{error}") };
    assert_eq!(searched.len(), 7, "{searched:?}");
    assert!(matches!(**why, ToolchainError::NoInstaller), "{error}");
    machine.env.offline = true;
    let error = machine.auto().unwrap_err().to_string();
    assert!(error.contains("--offline") && error.contains("`ptxinspect toolchain install 13.4`"), "{error}");
    assert!(candidates(&machine.env).is_empty());
}

/// From the last resort to the first choice: each one added is preferred to those before.
#[cfg(target_os = "linux")]
#[test]
fn the_order_is_the_documented_one() {
    let mut machine = Machine::new();
    machine.managed("12.9.86");
    machine.managed("13.4.92");
    machine.managed("13.10.1");
    let toolchains = "home/.local/share/ptxinspect/toolchains";
    assert_eq!(machine.found(), (format!("{toolchains}/13.10.1/bin/ptxas"), "managed, the newest installed".into()));
    assert_eq!(machine.auto().unwrap().version(), Some(Version::new(13, 10, 1)));

    machine.file("py/bin/python3", 0o755);
    let site = "py/lib/python3.11/site-packages";
    machine.file(&format!("{site}/triton/backends/nvidia/bin/ptxas"), 0o755);
    machine.set_path("PATH", "py/bin");
    let origin = "from the triton wheel of the Python on PATH";
    assert_eq!(machine.found(), (format!("{site}/triton/backends/nvidia/bin/ptxas"), origin.into()));

    machine.file(&format!("{site}/nvidia/cuda_nvcc/bin/ptxas"), 0o755);
    machine.file(&format!("{site}/nvidia_cuda_nvcc_cu12-12.9.86.dist-info/RECORD"), 0o644);
    assert_eq!(machine.auto().unwrap().version(), Some(Version::new(12, 9, 86)));
    machine.file(&format!("{site}/nvidia/cu13/bin/ptxas"), 0o755);
    machine.file(&format!("{site}/nvidia_cuda_nvcc-13.4.92.dist-info/RECORD"), 0o644);
    let origin = "from the nvidia-cuda-nvcc wheel of the Python on PATH";
    assert_eq!(machine.found(), (format!("{site}/nvidia/cu13/bin/ptxas"), origin.into()));
    assert_eq!(machine.auto().unwrap().version(), Some(Version::new(13, 4, 92)));

    machine.file("conda/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas", 0o755);
    machine.set_path("CONDA_PREFIX", "conda");
    assert_eq!(machine.found().1, "from the triton wheel of the active conda environment");
    machine.file("venv/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    machine.set_path("VIRTUAL_ENV", "venv");
    assert_eq!(machine.found().1, "from the nvidia-cuda-nvcc wheel of the active virtual environment");

    machine.file("usr-local-cuda/bin/ptxas", 0o755);
    assert_eq!(machine.found(), ("usr-local-cuda/bin/ptxas".into(), "in /usr/local/cuda".into()));
    machine.file("py/bin/ptxas", 0o755);
    assert_eq!(machine.found(), ("py/bin/ptxas".into(), "the first on PATH".into()));
    machine.file("cuda-b/bin/ptxas", 0o755);
    machine.set_path("CUDA_PATH", "cuda-b");
    assert_eq!(machine.found(), ("cuda-b/bin/ptxas".into(), "in the toolkit of CUDA_PATH".into()));
    machine.file("cuda-a/bin/ptxas", 0o755);
    machine.set_path("CUDA_HOME", "cuda-a");
    assert_eq!(machine.found(), ("cuda-a/bin/ptxas".into(), "in the toolkit of CUDA_HOME".into()));
    machine.file("mine/ptxas", 0o755);
    machine.set_path("PTXINSPECT_PTXAS", "mine/ptxas");
    assert_eq!(machine.found(), ("mine/ptxas".into(), "named by PTXINSPECT_PTXAS".into()));
    machine.set("PTXINSPECT_PTXAS", "12.9");
    assert_eq!(machine.found(), (format!("{toolchains}/12.9.86/bin/ptxas"), "managed, asked for as 12.9".into()));

    let kinds: Vec<&str> = candidates(&machine.env).iter().map(|ptxas| ptxas.origin.kind()).collect();
    let wheels = ["wheel"; 5];
    let expected = [&["managed", "environment", "environment", "path", "cuda"][..], &wheels, &["managed"; 2]].concat();
    assert_eq!(kinds, expected);
}

#[test]
fn what_is_named_and_wrong_is_an_error_and_not_passed_over() {
    let mut machine = Machine::new();
    machine.file("usr-local-cuda/bin/ptxas", 0o755);
    machine.file("plain", 0o644);
    for (value, words) in [
        ("missing", "there is no file"),
        ("plain", "not executable (named by PTXINSPECT_PTXAS)"),
        ("usr-local-cuda", "usr-local-cuda/bin/ptxas"),
    ] {
        machine.set_path("PTXINSPECT_PTXAS", value);
        let error = machine.auto().unwrap_err();
        assert!(error.to_string().contains(words), "{error} does not say {words}");
    }
    // A toolkit variable without a ptxas is common (the runtime alone) and means nothing.
    machine.env.vars.remove(std::ffi::OsStr::new("PTXINSPECT_PTXAS"));
    machine.set_path("CUDA_HOME", "nowhere");
    assert_eq!(machine.found().0, "usr-local-cuda/bin/ptxas");
}

#[test]
fn a_path_is_relative_to_here_and_a_bare_name_is_on_path() {
    let mut machine = Machine::new();
    machine.file("tools/ptxas-12", 0o755);
    machine.file("ptxas-12", 0o755);
    let path = |machine: &Machine, text: &str| {
        find(&Request::parse(text), &machine.env, &|_| {}).map(|ptxas| (ptxas.path, ptxas.origin))
    };
    let expected = (machine.path("tools/ptxas-12"), Origin::Argument);
    assert_eq!(path(&machine, "tools/ptxas-12").unwrap(), expected);
    assert_eq!(path(&machine, "./ptxas-12").unwrap().0, machine.path("./ptxas-12"));
    let error = path(&machine, "ptxas-12").unwrap_err().to_string();
    assert!(error.contains("no ptxas-12 on PATH (given by --ptxas); the one in this folder is ./ptxas-12"), "{error}");
    let error = path(&machine, "ptxas-11").unwrap_err().to_string();
    assert!(error.contains("no ptxas-11 on PATH (given by --ptxas): expected a version"), "{error}");
    machine.set_path("PATH", "tools");
    assert_eq!(path(&machine, "ptxas-12").unwrap(), expected);
    machine.set("PTXINSPECT_PTXAS", "ptxas-12");
    assert_eq!(machine.found(), ("tools/ptxas-12".into(), "named by PTXINSPECT_PTXAS".into()));
}

/// Every variable that could mean the current folder.
#[test]
fn what_is_relative_is_not_looked_at() {
    let mut machine = Machine::new();
    machine.file("ptxas", 0o755);
    machine.file("bin/ptxas", 0o755);
    machine.file("bin/python3", 0o755);
    machine.file("lib/python3.11/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    for name in ["CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME", "XDG_DATA_HOME"] {
        machine.set(name, ".");
    }
    for path in [".", "bin", ":/nowhere", "/nowhere:", "/nowhere::/nowhere", "./bin"] {
        machine.set("PATH", path);
        let error = machine.auto().unwrap_err();
        assert!(matches!(error, ToolchainError::NotFound { .. }), "{path}: {error}");
        assert!(candidates(&machine.env).is_empty());
    }
}

/// It may have been the one that was meant: another is not taken in its place.
#[test]
fn a_place_that_cannot_be_looked_at_is_an_error() {
    let mut machine = Machine::new();
    machine.file("cuda/bin/ptxas", 0o755);
    fs::create_dir_all(machine.path("odd/bin")).unwrap();
    std::os::unix::fs::symlink("ptxas", machine.path("odd/bin/ptxas")).unwrap();
    machine.set_path("CUDA_HOME", "odd");
    machine.set_path("CUDA_PATH", "cuda");
    let error = machine.auto().unwrap_err().to_string();
    assert!(error.contains("could not look at") && error.contains("odd/bin/ptxas"), "{error}");
    assert_eq!(candidates(&machine.env).len(), 1);
}

#[test]
fn the_users_configuration_comes_after_the_environment() {
    let mut machine = Machine::new();
    machine.file("cuda/bin/ptxas", 0o755);
    machine.file("mine/ptxas", 0o755);
    machine.set_path("CUDA_HOME", "cuda");
    machine.env.config.ptxas = Some(Request::Path(machine.path("mine/ptxas")));
    assert_eq!(machine.found(), ("mine/ptxas".into(), "named by the user's configuration".into()));
    assert_eq!(candidates(&machine.env).len(), 2);
    machine.set_path("PTXINSPECT_PTXAS", "cuda/bin/ptxas");
    assert_eq!(machine.found().1, "named by PTXINSPECT_PTXAS");
}

#[test]
fn pyenv_and_virtual_environments_are_seen_through() {
    let mut machine = Machine::new();
    machine.file("pyenv/shims/python3", 0o755);
    machine.file("pyenv/versions/3.11.7/bin/python3", 0o755);
    machine.file("pyenv/versions/3.12.1/bin/python3", 0o755);
    machine.file("pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    machine.file("pyenv/versions/3.12.1/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    fs::write(machine.path("pyenv/version"), "3.11\n").unwrap();
    machine.set_path("PATH", "pyenv/shims");
    assert!(machine.found().0.contains("3.11.7"));
    machine.set("PYENV_VERSION", "3.12.1");
    assert!(machine.found().0.contains("3.12.1"));
    // Nothing in the checkout chooses, and nothing leads out of pyenv's versions.
    machine.env.vars.remove(std::ffi::OsStr::new("PYENV_VERSION"));
    machine.file("bin/python3", 0o755);
    machine.file("lib/python3.11/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    for name in ["3.12.1", "../.."] {
        fs::write(machine.path(".python-version"), name).unwrap();
        assert!(machine.found().0.contains("3.11.7"));
    }
    for name in ["../..", ".", "", "/", "3.11.7/../../.."] {
        machine.set("PYENV_VERSION", name);
        let found = machine.auto().map(|ptxas| ptxas.path);
        assert!(found.is_err() || name.is_empty(), "{name}: {found:?}");
    }

    machine.file("venv/pyvenv.cfg", 0o644);
    machine.file("venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    fs::create_dir_all(machine.path("venv/bin")).unwrap();
    machine.file("base/bin/python3.11", 0o755);
    machine.file("base/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas", 0o755);
    machine.file("base/lib/python3.9/site-packages/nvidia/cu14/bin/ptxas", 0o755);
    std::os::unix::fs::symlink(machine.path("base/bin/python3.11"), machine.path("venv/bin/python3")).unwrap();
    machine.set_path("PATH", "venv/bin");
    assert!(machine.found().0.starts_with("venv/"), "{:?}", machine.found());
    std::os::unix::fs::symlink("python3.11", machine.path("base/bin/python3")).unwrap();
    machine.set_path("PATH", "base/bin");
    assert!(machine.found().0.contains("base/lib/python3.11"), "{:?}", machine.found());
}

#[test]
fn triton_compiles_for_blackwell_with_another_one() {
    let mut machine = Machine::new();
    machine.file("venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas", 0o755);
    machine.set_path("VIRTUAL_ENV", "venv");
    let name = |machine: &Machine, arch: Arch| {
        let path = machine.auto().unwrap().for_arch(arch).path.clone();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let blackwell = Arch::new(100).with_variant(Variant::Accelerated);
    assert_eq!(name(&machine, blackwell), "ptxas");
    machine.file("venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas-blackwell", 0o755);
    assert_eq!(name(&machine, blackwell), "ptxas-blackwell");
    assert_eq!(name(&machine, Arch::new(90)), "ptxas");
    // Triton 3.9 says otherwise.
    let backend = "import x\n\n\ndef get_ptxas(arch: int) -> Tool:\n    if arch < 90:\n        return knobs.nvidia.ptxas\n    return \
                   knobs.nvidia.ptxas_blackwell\n\n\ndef other(arch):\n    return arch >= 70\n";
    fs::write(machine.path("venv/lib/python3.12/site-packages/triton/backends/nvidia/compiler.py"), backend).unwrap();
    assert_eq!(name(&machine, Arch::new(90)), "ptxas-blackwell");
    assert_eq!(name(&machine, Arch::new(89)), "ptxas");
}

#[test]
fn triton_says_which_of_its_two_compiles() {
    let of = |body: &str| {
        first_of_newer(&format!("\n@lru_cache\ndef get_ptxas(arch: int):\n{body}\n\n\ndef f(arch):\n arch >= 70\n"))
    };
    assert_eq!(of("    return knobs.ptxas_blackwell if arch >= 100 else knobs.ptxas"), Some(100));
    assert_eq!(of("    if arch < 90:\n        return knobs.ptxas"), Some(90));
    assert_eq!(of("    return knobs.ptxas"), None);
    assert_eq!(of("    return arch >= x"), None);
    assert_eq!(of("    return arch >= 99999"), None);
    assert_eq!(first_of_newer("arch >= 100"), None);
}

#[test]
fn versions_are_read_from_what_ptxas_prints() {
    let output = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCopyright (c) 2005-2026 NVIDIA Corporation\nBuilt on \
                  Tue_Sep_01_08:45:21_PDT_2026\nCuda compilation tools, release 13.4, V13.4.92\nBuild cuda_13.4.r13.4/\
                  compiler.38855100_0\n";
    assert_eq!(version_in(output), Some(Version::new(13, 4, 92)));
    assert_eq!(version_in("GNU assembler 2.40"), None);
    assert_eq!(version_in("Cuda compilation tools, release 13.4, Vnext"), None);
}
