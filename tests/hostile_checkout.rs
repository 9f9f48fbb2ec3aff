//! Checkouts that try to have a program of theirs run: whatever lies in a repository, nothing of it is started.
//!
//! Every program that is planted leaves a mark. What ptxinspect may run lies outside the checkout and leaves another one, so that a
//! test that nothing ran in is told from one that ran the right thing.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{program, root, stderr, stdout};

/// A machine with a user, and a checkout that came from somewhere.
struct Machine {
    folder: tempfile::TempDir,
}

/// What every command does with a checkout.
const COMMANDS: [&[&str]; 8] = [
    &["gate"],
    &["k.ptx"],
    &["annotate", "k.ptx"],
    &["matrix", "k.ptx", "--arch", "sm_80"],
    &["diff", "k.ptx", "k2.ptx"],
    &["disasm", "k.cubin", "--disassembler", "nvdisasm"],
    &["toolchain", "list"],
    &["toolchain", "path"],
];

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().unwrap() };
        for name in ["home", "bin", "tmp", "repo/sub"] {
            fs::create_dir_all(machine.path(name)).unwrap();
        }
        let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
        machine.file("repo/k.ptx", ptx);
        machine.file("repo/k2.ptx", ptx);
        machine.file("repo/k.cubin", fs::read(root("testdata/cubin/hopper-13.4-sm_90a.cubin")).unwrap());
        machine.file("repo/ptxinspect.toml", "inputs = [\"k.ptx\"]\n");
        machine.file("repo/ptxinspect.lock.json", "{\"schema\": \"ptxinspect.lock/1\", \"units\": []}\n");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A program that says in `mark` that it ran, and where.
    fn script(&self, path: &str, mark: &str, body: &str) {
        let mark = self.path(mark);
        self.file(path, format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\n{body}\n", mark.display()));
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Something of the checkout that must not run.
    fn plant(&self, path: &str) {
        self.script(&format!("repo/{path}"), "PLANTED", "exit 1");
    }

    /// The program in the checkout, with the user's environment and nothing else.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", self.path("bin"))
            .env("TMPDIR", self.path("tmp"));
        command.current_dir(self.path("repo")).args(args);
        command
    }

    /// Runs a command and makes sure that nothing planted ran.
    fn run(&self, door: &str, command: &mut Command) -> Output {
        let output = command.output().unwrap();
        let planted = fs::read_to_string(self.path("PLANTED")).unwrap_or_default();
        assert!(planted.is_empty(), "{door}: {command:?} ran {planted}{}{}", stdout(&output), stderr(&output));
        let left: Vec<_> = fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{door}: {command:?} left {left:?}");
        output
    }

    /// Runs every command with some variables.
    fn run_all(&self, door: &str, variables: &[(&str, &str)]) {
        for args in COMMANDS {
            self.run(door, self.command(args).envs(variables.iter().copied()));
        }
    }

    fn ran(&self, mark: &str) -> String {
        fs::read_to_string(self.path(mark)).unwrap_or_default()
    }
}

/// Programs everywhere that somebody could look for one.
fn plant_everything(machine: &Machine) {
    for folder in ["", "bin/", "sub/", ".venv/bin/", "venv/bin/", "cuda/bin/", "node_modules/.bin/", "lib/", "Scripts/"]
    {
        for name in ["ptxas", "nvdisasm", "python3", "python", "pip3", "pip", "uv", "git", "keyring", "sh", "less"] {
            machine.plant(&format!("{folder}{name}"));
        }
    }
    for site in ["lib/python3.11/site-packages", ".venv/lib/python3.11/site-packages"] {
        for name in ["nvidia/cu13/bin/ptxas", "nvidia/cu13/bin/nvdisasm", "triton/backends/nvidia/bin/ptxas"] {
            machine.plant(&format!("{site}/{name}"));
        }
    }
    machine.file("repo/.venv/pyvenv.cfg", "home = /usr/bin\n");
    machine.file("repo/pyvenv.cfg", "home = /usr/bin\n");
    machine.file("repo/.python-version", "../..\n");
    machine.file("repo/.tool-versions", "python path:./bin\n");
    machine.file("repo/uv.toml", "index-url = \"file:///nowhere\"\npython-preference = \"system\"\n");
    machine.file(
        "repo/pyproject.toml",
        "[project]\nname = \"x\"\nversion = \"1\"\n[tool.uv]\nindex-url = \"file:///nowhere\"\n",
    );
    machine.file("repo/pip.conf", "[global]\nindex-url = file:///nowhere\n");
    machine.file("repo/.env", "PTXINSPECT_PTXAS=./ptxas\n");
    machine.file("repo/config.toml", "ptxas = \"./ptxas\"\n");
    machine.file("repo/.config/ptxinspect/config.toml", "ptxas = \"./ptxas\"\n");
    machine.file("repo/ptxinspect/config.toml", "ptxas = \"./ptxas\"\n");
    let marker = format!("open({:?}, 'w').write('python')\n", machine.path("PLANTED").display().to_string());
    for module in ["pip.py", "ensurepip/__main__.py", "sitecustomize.py", "usercustomize.py", "ssl.py", "runpy.py"] {
        machine.file(&format!("repo/{module}"), &marker);
    }
    for version in ["13.4.92", "99.9.9"] {
        machine.plant(&format!("toolchains/{version}/bin/ptxas"));
        machine.plant(&format!("ptxinspect/toolchains/{version}/bin/ptxas"));
        let bytes = fs::metadata(machine.path(&format!("repo/toolchains/{version}/bin/ptxas"))).unwrap().len();
        for folder in ["toolchains", "ptxinspect/toolchains"] {
            let manifest = format!(
                "{{\"schema\": \"ptxinspect.toolchain/1\", \"version\": \"{version}\", \"package\": \"p\", \"wheel\": \"w\", \
                 \"files\": [{{\"path\": \"bin/ptxas\", \"bytes\": {bytes}, \"sha256\": \"\"}}]}}"
            );
            machine.file(&format!("repo/{folder}/{version}/toolchain.json"), manifest);
        }
    }
}

#[test]
fn nothing_that_lies_in_a_checkout_runs() {
    let machine = Machine::new();
    plant_everything(&machine);
    machine.run_all("a plain run", &[]);
}

#[test]
fn variables_that_mean_the_current_folder_mean_nothing() {
    let machine = Machine::new();
    plant_everything(&machine);
    let absolute = format!("{}", machine.path("bin").display());
    for path in [".", "", ":", "bin", "./bin:node_modules/.bin", &format!(":{absolute}"), &format!("{absolute}:")] {
        machine.run_all(&format!("PATH={path}"), &[("PATH", path)]);
    }
    // What differs between the commands is covered by PATH; these are about what is found at all.
    for (name, value) in [
        ("CUDA_HOME", "cuda"),
        ("CUDA_HOME", "."),
        ("CUDA_PATH", "./cuda"),
        ("VIRTUAL_ENV", ".venv"),
        ("CONDA_PREFIX", "."),
        ("HOME", "."),
        ("XDG_CONFIG_HOME", "."),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", "."),
        ("PTXINSPECT_TOOLCHAINS", "toolchains"),
        ("PTXINSPECT_CONFIG", "config.toml"),
        ("PYENV_VERSION", "../.."),
        ("PYTHONPATH", "."),
        ("TMPDIR", "tmp"),
        ("MAKEFLAGS", "-j4 --jobserver-auth=fifo:fifo"),
    ] {
        for args in [&["gate"][..], &["toolchain", "list"], &["disasm", "k.cubin", "--disassembler", "nvdisasm"]] {
            machine.run(name, machine.command(args).env(name, value));
        }
    }
}

#[test]
fn a_checkout_supplies_no_cache() {
    let machine = Machine::new();
    for args in [&["gate"][..], &["cache", "info"], &["cache", "clear"], &["diff", "k.ptx", "k2.ptx"]] {
        let output = machine.run("cache", machine.command(args).env("PTXINSPECT_CACHE", ".cache"));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("PTXINSPECT_CACHE is '.cache'") && said.contains("absolute"), "{args:?}: {said}");
    }
}

#[test]
fn a_bare_name_is_on_path_and_never_here() {
    let machine = Machine::new();
    plant_everything(&machine);
    let refused = |command: &mut Command, words: &str| {
        let output = machine.run("a bare name", command);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!((stdout(&output) + &stderr(&output)).contains(words), "{}{}", stdout(&output), stderr(&output));
    };
    refused(&mut machine.command(&["k.ptx", "--ptxas", "ptxas"]), "the one in this folder is ./ptxas");
    refused(machine.command(&["k.ptx"]).env("PTXINSPECT_PTXAS", "ptxas"), "no ptxas on PATH");
    refused(
        machine.command(&["disasm", "k.cubin", "--disassembler", "nvdisasm"]).env("PTXINSPECT_NVDISASM", "nvdisasm"),
        "nvdisasm",
    );
    machine.script("bin/ptxas", "RAN", "exit 1");
    machine.run("a bare name", &mut machine.command(&["k.ptx", "--ptxas", "ptxas"]));
    assert!(machine.ran("RAN").contains("bin/ptxas"), "the one on PATH runs");
}

#[test]
fn a_projects_configuration_names_versions_and_no_programs() {
    let machine = Machine::new();
    plant_everything(&machine);
    machine.plant("tools/helper");
    symlink(machine.path("repo/tools/helper"), machine.path("repo/13")).unwrap();
    let full = machine.path("repo/tools/helper").display().to_string();
    for ptxas in ["./tools/helper", "tools/helper", "ptxas", &full, "", "13.4/../ptxas", "13.4 ", "~/ptxas", "auto"] {
        machine.file("repo/ptxinspect.toml", format!("inputs = [\"k.ptx\"]\nptxas = [\"{ptxas}\"]\n"));
        for folder in ["repo", "repo/sub"] {
            for args in [&["gate"][..], &["gate", "--update"], &["gate", "k.ptx"]] {
                let output = machine.run(ptxas, machine.command(args).current_dir(machine.path(folder)));
                assert_eq!(output.status.code(), Some(2), "{ptxas}");
                let said = stderr(&output);
                assert!(said.contains("is not a version") && said.contains("--ptxas"), "{said}");
                assert!(said.contains("PTXINSPECT_PTXAS") && said.contains("config.toml"), "{said}");
            }
        }
    }
    // 13 is a version, not the link of that name. There is no pip here to fetch it with.
    machine.file("repo/ptxinspect.toml", "inputs = [\"k.ptx\"]\nptxas = [\"13\"]\n");
    let output = machine.run("a link called 13", &mut machine.command(&["gate"]));
    assert!((stdout(&output) + &stderr(&output)).contains("pip or uv"), "{}", stderr(&output));
}

#[test]
fn a_projects_flags_read_and_write_no_files() {
    let machine = Machine::new();
    machine.script("bin/ptxas", "RAN", "exit 1");
    let victim = machine.path("home/.bashrc");
    for flags in [
        "\"--options-file\", \"evil.txt\"",
        "\"-optf=evil.txt\"",
        "\"--apply-controls=evil.txt\"",
        "\"-o\", \"../home/.bashrc\"",
        &format!("\"--output-file={}\"", victim.display()),
        "\"evil\"",
        "\"@evil.txt\"",
        "\"-c\", \"k2\"",
        "\"--some-option-of-tomorrow=x\"",
    ] {
        machine.file("repo/ptxinspect.toml", format!("inputs = [\"k.ptx\"]\nflags = [{flags}]\n"));
        let output = machine.run(flags, &mut machine.command(&["gate"]));
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(stderr(&output).contains("after -- on the command line"), "{}", stderr(&output));
        assert_eq!(machine.ran("RAN"), "", "{flags}");
    }
    machine.file("repo/ptxinspect.toml", "inputs = [\"k.ptx\"]\nflags = [\"-O1\", \"--maxrregcount\", \"64\"]\n");
    machine.run("plain flags", &mut machine.command(&["gate"]));
    assert!(machine.ran("RAN").contains("-O1 --maxrregcount 64"), "{}", machine.ran("RAN"));
}

#[test]
fn paths_of_the_policy_stay_below_it() {
    let machine = Machine::new();
    let cubin = fs::read(root("testdata/cubin/hopper-13.4-sm_90a.cubin")).unwrap();
    machine.file("outside/k.cubin", &cubin);
    machine.file("outside/secret.toml", "password = \"hunter2\"\n");
    for (link, to) in [("out", "../outside"), ("k3.cubin", "../outside/k.cubin"), ("gone.json", "../outside/new.json")]
    {
        symlink(to, machine.path("repo").join(link)).unwrap();
    }
    symlink("k.cubin", machine.path("repo/inner.cubin")).unwrap();
    let outside = machine.path("outside").display().to_string();
    let refused = |policy: &str, args: &[&str], words: &str| {
        machine.file("repo/ptxinspect.toml", policy);
        let output = machine.run(policy, &mut machine.command(&[&["gate"], args].concat()));
        assert_eq!(output.status.code(), Some(2), "{policy}: {}{}", stdout(&output), stderr(&output));
        assert!(stderr(&output).contains(words), "{policy}: {}", stderr(&output));
        assert!(!machine.path("outside/new.json").exists(), "{policy}");
    };
    for baseline in ["../outside/new.json", "sub/../../outside/new.json", "out/new.json", "gone.json"] {
        let policy = format!("inputs = [\"k.cubin\"]\nbaseline = \"{baseline}\"\n");
        refused(&policy, &[], "--baseline FILE");
        refused(&policy, &["--update"], "--baseline FILE");
    }
    refused(&format!("inputs = [\"k.cubin\"]\nbaseline = \"{outside}/new.json\"\n"), &["--update"], "--baseline FILE");
    for baseline in [".git/hooks/pre-commit", "sub/../.GIT/config"] {
        machine.file("repo/.git/HEAD", "ref: refs/heads/main\n");
        refused(&format!("inputs = [\"k.cubin\"]\nbaseline = \"{baseline}\"\n"), &["--update"], "git's own files");
        assert!(!machine.path("repo").join(baseline).exists());
    }
    symlink(".git", machine.path("repo/hidden")).unwrap();
    refused("inputs = [\"k.cubin\"]\nbaseline = \"hidden/new.json\"\n", &["--update"], "git's own files");
    for inputs in ["../outside/*.cubin", "out/*.cubin", "*/k.cubin", "k3.cubin", "*.cubin", "sub/../../outside/k.cubin"]
    {
        refused(&format!("inputs = [\"{inputs}\"]\n"), &["--update"], "on the command line");
    }
    refused(&format!("inputs = [\"{outside}/k.cubin\"]\n"), &[], "on the command line");
    // The file that is found without being named, and the policy itself.
    machine.file("repo/ptxinspect.toml", "inputs = [\"k.cubin\"]\n");
    fs::remove_file(machine.path("repo/ptxinspect.lock.json")).unwrap();
    symlink("../outside/new.json", machine.path("repo/ptxinspect.lock.json")).unwrap();
    refused("inputs = [\"k.cubin\"]\n", &["--update"], "--baseline FILE");
    fs::remove_file(machine.path("repo/ptxinspect.toml")).unwrap();
    let output = machine.run("no policy", &mut machine.command(&["gate", "k.cubin", "--update"]));
    assert!(output.status.code() == Some(2) && !machine.path("outside/new.json").exists(), "{}", stderr(&output));
    symlink("../outside/secret.toml", machine.path("repo/ptxinspect.toml")).unwrap();
    let output = machine.run("a policy elsewhere", &mut machine.command(&["gate"]));
    assert!(output.status.code() == Some(2) && stderr(&output).contains("--policy FILE"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("hunter2"));

    // What the command line says is free, and so are links that stay inside.
    fs::remove_file(machine.path("repo/ptxinspect.toml")).unwrap();
    fs::remove_file(machine.path("repo/ptxinspect.lock.json")).unwrap();
    machine.file(
        "repo/ptxinspect.toml",
        "inputs = [\"inner.cubin\", \"./sub/../k.cubin\"]\nbaseline = \"sub/lock.json\"\n",
    );
    let output = machine.run("inside", &mut machine.command(&["gate", "--update"]));
    assert!(output.status.success() && machine.path("repo/sub/lock.json").exists(), "{}", stderr(&output));
    let args = ["gate", "--update", "../outside/k.cubin", "--baseline", "../outside/mine.json"];
    let output = machine.run("the command line", &mut machine.command(&args));
    assert!(output.status.success() && machine.path("outside/mine.json").exists(), "{}", stderr(&output));
    let args = ["gate", "--update", "--policy", "../ptxinspect.toml"];
    let output = machine.run("a policy by name", machine.command(&args).current_dir(machine.path("repo/sub")));
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Installers of the user's own that show what they were given, each the way it could be misled.
#[test]
fn installers_see_nothing_of_the_checkout() {
    let machine = Machine::new();
    plant_everything(&machine);
    let report = "PATH=/usr/bin:/bin; echo \"in $(pwd): $(ls -A)\"; for up in . .. ../.. ../../.. ../../../..; do \
                  for name in uv.toml pyproject.toml .venv .python-version .tool-versions; do \
                  [ -e $up/$name ] && echo SEES $up/$name; done; done; exit 1";
    let seen = machine.path("SEEN");
    for (name, store) in [
        ("python3", None),
        ("pip3", None),
        ("uv", None),
        ("uv", Some("repo/.cache/store")),
        ("python3", Some("repo/store")),
    ] {
        let script = format!("({report}) >>'{}' 2>&1; exit 1", seen.display());
        machine.script(&format!("bin/{name}"), "RAN", &script);
        for args in [
            &["toolchain", "install", "99.1"][..],
            &["k.ptx", "--ptxas", "99.1"],
            &["gate", "--ptxas", "99.1"],
            &["matrix", "k.ptx", "--arch", "sm_80", "--ptxas", "99.1"],
            &["diff", "k.ptx", "--ptxas", "99.1,99.2"],
            &["annotate", "k.ptx", "--ptxas", "99.1"],
            &["toolchain", "list", "--available"],
        ] {
            let _ = fs::remove_file(&seen);
            let mut command = machine.command(args);
            if let Some(store) = store {
                command.env("PTXINSPECT_TOOLCHAINS", machine.path(store));
            }
            let output = machine.run(name, &mut command);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
            let seen = fs::read_to_string(&seen).unwrap_or_default();
            assert!(!seen.contains("SEES"), "{name}, {args:?}: {seen}");
            assert!(seen.lines().all(|line| !line.starts_with("in ") || line.ends_with(": ")), "{name}: {seen}");
            assert!(
                !seen.is_empty() || (name == "uv" && args.contains(&"--available")),
                "{name}, {args:?}: did not run"
            );
        }
        fs::remove_file(machine.path(&format!("bin/{name}"))).unwrap();
    }
}

/// pyenv's stand-ins read `.python-version` of the folder they run in; the versions behind them are taken without.
#[test]
fn pyenv_is_not_asked_what_the_checkout_wants() {
    let machine = Machine::new();
    plant_everything(&machine);
    let shim =
        format!("exec \"{}/versions/$(cat .python-version)/bin/$(basename \"$0\")\"", machine.path("pyenv").display());
    for name in ["python3", "pip", "uv"] {
        machine.script(&format!("pyenv/shims/{name}"), "SHIM", &shim);
    }
    machine.script("pyenv/versions/3.11.7/bin/python3", "RAN", "exit 1");
    machine.file("pyenv/version", "3.11.7\n");
    let to_repo = "../../repo";
    for wanted in [to_repo, "../..", &format!("{}", machine.path("repo").display())] {
        machine.file("repo/.python-version", wanted);
        for args in [&["toolchain", "install", "99.1"][..], &["k.ptx"], &["gate"], &["toolchain", "list"]] {
            machine.run(wanted, machine.command(args).env("PATH", machine.path("pyenv/shims")));
        }
    }
    assert_eq!(machine.ran("SHIM"), "", "the stand-ins were run");
    assert!(machine.ran("RAN").contains("versions/3.11.7/bin/python3"), "the user's own pip was asked");
}

#[test]
fn the_users_own_configuration_may_name_a_program() {
    let machine = Machine::new();
    plant_everything(&machine);
    machine.script("tools/ptxas", "RAN", "exit 1");
    let ptxas = machine.path("tools/ptxas").display().to_string();
    for (file, variables) in [
        ("home/.config/ptxinspect/config.toml", vec![]),
        ("xdg/ptxinspect/config.toml", vec![("XDG_CONFIG_HOME", machine.path("xdg"))]),
        ("mine.toml", vec![("PTXINSPECT_CONFIG", machine.path("mine.toml"))]),
    ] {
        machine.file(file, format!("ptxas = \"{ptxas}\"\n"));
        let output = machine.run(file, machine.command(&["toolchain", "list"]).envs(variables.clone()));
        assert!(stdout(&output).contains("named by the user's configuration"), "{}", stdout(&output));
        machine.file(file, "ptxas = \"./ptxas\"\n");
        let output = machine.run(file, machine.command(&["k.ptx"]).envs(variables));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("depends on the folder one is in"), "{}", stderr(&output));
        fs::remove_file(machine.path(file)).unwrap();
    }
}

/// A stand-in for ptxas that copies a cubin to where it is told.
fn working_ptxas(machine: &Machine, path: &str) {
    let cubin = root("testdata/cubin/hopper-13.4-sm_90a.cubin");
    let body = format!(
        "PATH=/usr/bin:/bin; case $1 in --version) echo 'Cuda compilation tools, release 13.4, V13.4.92'; exit;; esac\n\
         while [ $# -gt 0 ]; do case $1 in -o) cp '{}' \"$2\";; esac; shift; done",
        cubin.display()
    );
    machine.script(path, "RAN", &body);
}

#[test]
fn a_report_says_which_file_ran() {
    let machine = Machine::new();
    working_ptxas(&machine, "tools/ptxas");
    let ptxas = machine.path("tools/ptxas").display().to_string();
    for args in [
        &["k.ptx"][..],
        &["k.ptx", "--format", "json"],
        &["annotate", "k.ptx"],
        &["annotate", "k.ptx", "--format", "json"],
        &["matrix", "k.ptx", "--arch", "sm_90a"],
        &["matrix", "k.ptx", "--arch", "sm_90a", "--format", "json"],
        &["diff", "k.ptx", "k2.ptx"],
        &["diff", "k.ptx", "k2.ptx", "--format", "json"],
        &["gate", "k.ptx", "--update"],
        &["gate", "k.ptx"],
        &["gate", "k.ptx", "--format", "json"],
    ] {
        let output = machine.run("a report", machine.command(args).env("PTXINSPECT_PTXAS", &ptxas));
        assert!(stdout(&output).contains(&ptxas), "{args:?}: {}{}", stdout(&output), stderr(&output));
    }
    let output = machine.run("a listing", machine.command(&["disasm", "k.ptx"]).env("PTXINSPECT_PTXAS", &ptxas));
    assert!(stderr(&output).contains(&ptxas), "{}", stderr(&output));
    let lock = fs::read_to_string(machine.path("repo/ptxinspect.lock.json")).unwrap();
    assert!(!lock.contains(&ptxas), "a baseline is the same on every machine");
}

/// The command that repeats a measurement is pasted into a shell: a file's name must not become an option there.
#[test]
fn the_name_of_a_file_is_no_option() {
    let machine = Machine::new();
    working_ptxas(&machine, "tools/ptxas");
    let name = "--ptxas=evil.ptx";
    fs::copy(machine.path("repo/k.ptx"), machine.path("repo").join(name)).unwrap();
    machine.file("repo/ptxinspect.toml", "inputs = [\"*=evil.ptx\"]\n");
    let mut command = machine.command(&["gate", "--format", "json"]);
    let output = machine.run(name, command.env("PTXINSPECT_PTXAS", machine.path("tools/ptxas")));
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let repeat = verdict["units"][0]["command"].as_str().unwrap();
    assert!(repeat.starts_with("ptxinspect gate ./--ptxas=evil.ptx"), "{repeat}");
}

/// Loaders read folders that variables name, and an empty entry there is the current folder: what is run is run elsewhere.
#[test]
fn programs_do_not_run_in_the_checkout() {
    let machine = Machine::new();
    let body = format!("pwd >>'{}'; exit 1", machine.path("WHERE").display());
    machine.script("bin/ptxas", "RAN", &body);
    machine.script("bin/nvdisasm", "RAN", &body);
    machine.script("bin/python3", "RAN", &body);
    machine.run_all("folders", &[]);
    machine.run("folders", &mut machine.command(&["toolchain", "install", "99.1"]));
    let checkout = fs::canonicalize(machine.path("repo")).unwrap();
    let places = machine.ran("WHERE");
    assert!(places.lines().count() >= 5, "{places}");
    for place in places.lines() {
        assert!(!Path::new(place).starts_with(&checkout), "{place}");
    }
}
