//! With a pip that is a shell script and wheels made here; the last test takes the real ones where there are any.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

use super::*;
use crate::toolchain::{Env, ToolchainError, VersionRequest};

/// A machine with a pip of its own and nothing else.
struct Machine {
    folder: tempfile::TempDir,
    env: Env,
}

impl Machine {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn at(folder: tempfile::TempDir) -> Self {
        let root = folder.path();
        for name in ["bin", "tmp", "wheels"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let env = env_of(root);
        Machine { folder, env }
    }

    fn store(&self) -> Store {
        Store::of(&self.env).unwrap()
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.folder.path().join("bin").join(name);
        // The script has the machine's own PATH, where there is nothing.
        let root = self.folder.path().display();
        let text = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\nroot='{root}'\necho \"{name} $*\" >>\"$root/calls\"\n\
             while [ $# -gt 0 ]; do case $1 in --dest|--target) to=$2 ;; esac; last=$1; shift; done\n{body}\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A python3 whose pip downloads `wheel`.
    fn pip(&self, wheel: &str) {
        self.program(
            "python3",
            &format!("{OFFER}\necho '  Downloading {wheel} (0.1 MB)'; cp \"$root/wheels/{wheel}\" \"$to\""),
        );
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn install(&self, request: &str) -> Result<Installation, ToolchainError> {
        self.store().install(request.parse().unwrap(), &self.env, &|_| {})
    }

    /// What is in the folder of toolchains, the lock left out.
    fn contents(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.store().folder())
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }

    fn wheel(&self, name: &str, files: &[(&str, &[u8])]) {
        fs::write(self.folder.path().join("wheels").join(name), wheel(files)).unwrap();
    }
}

/// pip asked for what cannot be lists what there is.
const OFFER: &str = "case $last in *==0.0.0) echo \"ERROR: Could not find a version that satisfies the requirement $last (from \
                     versions: 13.0.88, 13.4.92)\" >&2; exit 1 ;; esac";

fn env_of(root: &Path) -> Env {
    let vars =
        [("HOME", root.join("home")), ("PATH", root.join("bin")), ("PTXINSPECT_TOOLCHAINS", root.join("toolchains"))];
    let vars = vars.map(|(name, value)| (name.into(), value.into_os_string()));
    let mut env = Env::new(vars, root.to_owned(), root.join("tmp"));
    env.digests = Digests::of(String::new());
    env
}

fn ptxas(version: &str) -> Vec<u8> {
    format!("#!/bin/sh\necho 'Cuda compilation tools, release 1.2, V{version}'\n").into_bytes()
}

fn record_of(files: &[(&str, &[u8])]) -> String {
    let line = |(name, bytes): &(&str, &[u8])| {
        format!("{name},sha256={},{}\n", wheel::base64(&Sha256::digest(bytes)), bytes.len())
    };
    files.iter().map(line).collect::<String>() + "nvidia_cuda_nvcc.dist-info/RECORD,,\n"
}

fn wheel(files: &[(&str, &[u8])]) -> Vec<u8> {
    let record = record_of(files);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let has_record = files.iter().any(|(name, _)| name.ends_with("RECORD"));
    let own = ("nvidia_cuda_nvcc.dist-info/RECORD", record.as_bytes());
    for (name, bytes) in files.iter().copied().chain((!has_record).then_some(own)) {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

const PTXAS: &str = "nvidia/cu13/bin/ptxas";
const LICENSE: &str = "nvidia_cuda_nvcc.dist-info/licenses/License.txt";
const WHEEL: &str = "nvidia_cuda_nvcc-13.4.92-py3-none-any.whl";

/// A machine whose pip brings ptxas 13.4.92.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.wheel(
        WHEEL,
        &[(PTXAS, &ptxas("13.4.92")), (LICENSE, b"terms"), ("../../evil", b"x"), ("nvidia/cu13/bin/nvcc", b"y")],
    );
    machine.pip(WHEEL);
    machine
}

#[test]
fn an_installed_toolchain_is_whole_and_used_from_then_on() {
    let machine = machine();
    let seen = Mutex::new(Vec::new());
    let progress = |progress: &Progress| seen.lock().unwrap().push(progress.clone());
    let installation = machine.store().install("13.4".parse().unwrap(), &machine.env, &progress).unwrap();
    assert!(installation.fresh);
    let toolchain = installation.toolchain;
    assert_eq!(toolchain.version.to_string(), "13.4.92");
    assert_eq!((toolchain.package.as_str(), toolchain.wheel.as_str()), ("nvidia-cuda-nvcc", WHEEL));
    assert_eq!(toolchain.path, machine.store().folder().join("13.4.92/bin/ptxas"));
    assert_eq!(toolchain.sha256, wheel::hexadecimal(&Sha256::digest(ptxas("13.4.92"))));
    assert!(crate::toolchain::find::is_executable(&toolchain.path));
    assert_eq!(fs::read(machine.store().folder().join("13.4.92/LICENSE.txt")).unwrap(), b"terms");
    assert!(!machine.store().folder().join("13.4.92/bin/nvcc").exists());
    assert!(!machine.folder.path().join("evil").exists());
    assert_eq!(machine.contents(), ["13.4.92"]);
    let seen = seen.into_inner().unwrap();
    assert!(
        matches!(&seen[0], Progress::Resolving { requirement, installer }
        if requirement == "nvidia-cuda-nvcc==13.4.*" && installer == "python3 -m pip"),
        "{seen:?}"
    );
    assert_eq!(seen.last(), Some(&Progress::Installed { version: toolchain.version, vouched: Vouched::Index }));

    // That very version is not asked for again; the newest of a release is looked up but not downloaded again.
    let calls = machine.calls().len();
    assert_eq!(machine.install("13.4.92").unwrap(), Installation { toolchain: toolchain.clone(), fresh: false });
    assert_eq!(machine.calls().len(), calls);
    assert_eq!(machine.install("13").unwrap(), Installation { toolchain: toolchain.clone(), fresh: false });
    assert!(machine.calls().last().unwrap().ends_with("nvidia-cuda-nvcc==0.0.0"), "{:?}", machine.calls());
    // Neither is it when there is no pip any more.
    machine.program("python3", "echo no network >&2; exit 1");
    assert!(!machine.install("13.4").unwrap().fresh);

    assert_eq!(machine.store().list(), std::slice::from_ref(&toolchain));
    let json = serde_json::to_value(machine.store().list()).unwrap();
    assert_eq!(json[0]["version"], "13.4.92");
    let error = machine.store().remove("12".parse().unwrap(), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("there are 13.4.92"), "{error}");
    assert_eq!(machine.store().remove("13.4".parse().unwrap(), &|_| {}).unwrap(), [toolchain.version]);
    assert!(machine.contents().is_empty());
}

#[test]
fn packages_are_named_by_generation() {
    let machine = Machine::new();
    machine.program("pip3", "exit 1");
    for (request, requirement) in [
        ("14", "nvidia-cuda-nvcc==14.*"),
        ("13.4.92", "nvidia-cuda-nvcc==13.4.92"),
        ("12.9", "nvidia-cuda-nvcc-cu12==12.9.*"),
        ("11.8", "nvidia-cuda-nvcc-cu11==11.8.*"),
    ] {
        machine.install(request).unwrap_err();
        let call = machine.calls().pop().unwrap();
        assert!(
            call.starts_with("pip3 download --no-deps --only-binary=:all: ") && call.ends_with(requirement),
            "{call}"
        );
    }
    assert!(matches!(machine.install("10.2"), Err(ToolchainError::TooOld { .. })));
}

#[test]
fn whoever_comes_second_waits_and_uses_what_the_first_brought() {
    let machine = machine();
    machine.program("python3", &format!("{OFFER}\nsleep 0.5; cp \"$root/wheels/{WHEEL}\" \"$to\""));
    let waited = Mutex::new(0);
    let progress = |progress: &Progress| {
        if matches!(progress, Progress::Waiting { .. }) {
            *waited.lock().unwrap() += 1;
        }
    };
    let installations: Vec<Installation> = std::thread::scope(|scope| {
        let request = |n: usize| ["13.4", "13.4.92", "13"][n % 3].parse::<VersionRequest>().unwrap();
        let (machine, progress) = (&machine, &progress);
        let threads: Vec<_> = (0..6)
            .map(|n| scope.spawn(move || machine.store().install(request(n), &machine.env, progress).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(installations.iter().filter(|installation| installation.fresh).count(), 1);
    assert!(installations.iter().all(|installation| installation.toolchain == installations[0].toolchain));
    assert_eq!(machine.calls().len(), 1, "{:?}", machine.calls());
    assert!(waited.into_inner().unwrap() >= 1);
    assert_eq!(machine.contents(), ["13.4.92"]);
}

/// Not a test: the process that the next ones kill. `MACHINE` names the folder of its machine.
#[test]
#[ignore = "started by other tests"]
fn child_that_installs() {
    let root = PathBuf::from(std::env::var_os("MACHINE").unwrap());
    crate::toolchain::remove_leftovers_on_signals().unwrap();
    let env = env_of(&root);
    let _ = Store::of(&env).unwrap().install("13.4".parse().unwrap(), &env, &|_| {});
}

/// Starts a process that installs, waits until its pip is at work, and sends it a signal; says what its pip's id was.
fn kill_half_way(machine: &Machine, signal: &str) -> (std::process::ExitStatus, String) {
    machine.program("python3", "echo half >\"$to/half\"; echo $$ >\"$root/pip\"; exec sleep 60");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "toolchain::managed::tests::child_that_installs", "--ignored"])
        .env("MACHINE", machine.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pip = machine.folder.path().join("pip");
    let started = Instant::now();
    while !fs::read_to_string(&pip).is_ok_and(|id| id.ends_with('\n')) {
        assert!(started.elapsed() < Duration::from_secs(60), "pip was not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(signal, &child.id().to_string());
    (child.wait().unwrap(), fs::read_to_string(&pip).unwrap().trim().to_owned())
}

fn kill(signal: &str, process: &str) -> bool {
    Command::new("kill").args([signal, process]).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn a_process_killed_half_way_leaves_what_the_next_one_removes() {
    let machine = machine();
    let (_, pip) = kill_half_way(&machine, "-KILL");
    let left = machine.contents();
    assert!(left.len() == 1 && left[0].starts_with(".tmp-"), "{left:?}");
    assert!(machine.store().list().is_empty());
    machine.pip(WHEEL);
    assert!(machine.install("13.4").unwrap().fresh);
    assert_eq!(machine.contents(), ["13.4.92"]);
    kill("-KILL", &pip);
}

#[test]
fn a_process_told_to_end_leaves_nothing() {
    let machine = machine();
    let (status, pip) = kill_half_way(&machine, "-TERM");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{status}");
    assert!(machine.contents().is_empty(), "{:?}", machine.contents());
    let started = Instant::now();
    // What is dead but not buried has no executable.
    while Path::new(&format!("/proc/{pip}/exe")).exists() {
        assert!(started.elapsed() < Duration::from_secs(5), "its pip lived on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_failed_download_says_what_pip_said_and_leaves_nothing() {
    let machine = machine();
    machine.program("python3", "echo \"ERROR: Could not connect to $last\" >&2; exit 1");
    machine.program("pip3", "exit 1");
    let error = machine.install("13.4").unwrap_err();
    assert!(
        error.to_string().contains("python3 -m pip: exit status: 1: ERROR: Could not connect to nvidia-cuda-nvcc"),
        "{error}"
    );
    assert!(machine.contents().is_empty());
    assert_eq!(machine.calls().len(), 1, "the same pip under another name");

    machine.program("python3", OFFER.replace("*==0.0.0", "*").as_str());
    let error = machine.install("13.9").unwrap_err();
    let ToolchainError::NoSuchVersion { available, .. } = &error else { panic!("{error}") };
    assert_eq!(available.len(), 2);
    assert!(error.to_string().contains("13.9 is not in the package index; it offers 13.4, 13.0;"), "{error}");
    let error = machine.install("13.4.5").unwrap_err();
    assert!(error.to_string().ends_with("it offers 13.4.92"), "{error}");

    // What pip is asked for to list versions is no version that anybody should read of.
    machine.program("python3", "echo \"no network for $last\" >&2; exit 1");
    let error = Store::available(&machine.env, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("no network for nvidia-cuda-nvcc") && !error.contains("0.0.0"), "{error}");

    machine.program("python3", "exit 0");
    assert!(matches!(machine.install("13.4"), Err(ToolchainError::FetchFailed { .. })));
    assert!(machine.contents().is_empty());
}

#[test]
fn a_python_without_pip_is_passed_over() {
    let machine = machine();
    machine.program("python3", "echo \"$0: No module named pip\" >&2; exit 1");
    let error = machine.install("13.4").unwrap_err();
    assert!(matches!(error, ToolchainError::NoInstaller), "{error}");
    machine.program("pip3", &format!("cp \"$root/wheels/{WHEEL}\" \"$to\""));
    assert!(machine.install("13.4").unwrap().fresh);
    let empty = Machine::new();
    assert!(matches!(empty.install("13.4"), Err(ToolchainError::NoInstaller)));
}

#[test]
fn uv_does_where_there_is_no_pip() {
    let machine = Machine::new();
    let script = ptxas("13.4.92");
    let tree = machine.folder.path().join("tree");
    let info = "nvidia_cuda_nvcc-13.4.92.dist-info";
    for (name, bytes) in [(PTXAS, &script[..]), (&format!("{info}/RECORD"), record_of(&[(PTXAS, &script)]).as_bytes())]
    {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), bytes).unwrap();
    }
    machine.program("uv", "cp -R \"$root/tree/.\" \"$to\"");
    let installation = machine.install("13.4").unwrap();
    assert!(installation.fresh && installation.toolchain.wheel == info);
    let call = machine.calls().pop().unwrap();
    assert!(call.starts_with("uv pip install --no-deps --only-binary :all:"), "{call}");
    assert!(call.contains(" --system ") && call.contains(" --no-config "), "{call}");
    assert!(call.ends_with("nvidia-cuda-nvcc==13.4.*"), "{call}");
    assert_eq!(installation.toolchain.vouched, Some(Vouched::Index));

    // The user's own settings hold.
    let config = machine.folder.path().join("home/.config/uv/uv.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "").unwrap();
    machine.store().remove("13".parse().unwrap(), &|_| {}).unwrap();
    machine.install("13.4").unwrap();
    let call = machine.calls().pop().unwrap();
    assert!(call.contains(&format!("--config-file {} ", config.display())), "{call}");

    // A release that is known is asked for with its digests, which uv checks.
    let mut machine = machine;
    machine.env.digests = digests(&"0".repeat(64));
    for (request, calls) in [("13.4.92", 1), ("13.4", 2)] {
        machine.store().remove("13".parse().unwrap(), &|_| {}).unwrap();
        let before = machine.calls().len();
        assert_eq!(machine.install(request).unwrap().toolchain.vouched, Some(Vouched::Pinned));
        assert_eq!(machine.calls().len() - before, calls, "{request}");
        assert!(machine.calls().pop().unwrap().contains(" --require-hashes "));
    }
    machine.store().remove("13".parse().unwrap(), &|_| {}).unwrap();
    machine.program("uv", "case $last in *.txt) grep -q '^nvidia-cuda-nvcc==13.4.92 --hash=sha256:00' \"$last\" && echo 'Hash mismatch for it' 'Computed: sha256:11'; exit 1 ;; esac; cp -R \"$root/tree/.\" \"$to\"");
    let error = machine.install("13.4").unwrap_err();
    assert!(matches!(error, ToolchainError::WrongDigest { .. }), "{error}");
    assert!(error.to_string().contains("nvidia-cuda-nvcc 13.4.92 is not the wheel"), "{error}");
    assert!(error.to_string().contains("its SHA-256 is 11, expected SHA-256 00"), "{error}");
    assert!(machine.contents().is_empty());
}

#[test]
fn a_wheel_that_is_not_what_it_should_be_is_refused() {
    let good = ptxas("13.4.92");
    let forged = record_of(&[(PTXAS, b"something else")]);
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("no zip", b"<html>try again later</html>".to_vec(), "is broken"),
        ("cut off", wheel(&[(PTXAS, &good)])[..200].to_vec(), "is broken"),
        ("no ptxas", wheel(&[("nvidia/cu13/bin/nvcc", b"x")]), "there is no ptxas in it"),
        ("forged", wheel(&[(PTXAS, &good), ("x.dist-info/RECORD", forged.as_bytes())]), "expected SHA-256"),
        (
            "no hash",
            wheel(&[(PTXAS, &good), ("x.dist-info/RECORD", b"")]),
            "RECORD has no hash of nvidia/cu13/bin/ptxas",
        ),
        ("does not run", wheel(&[(PTXAS, b"\x7fELF cut off")]), "does not run here"),
        ("another version", wheel(&[(PTXAS, &ptxas("13.0.88"))]), "says it is 13.0.88: expected 13.4"),
    ];
    for (name, bytes, words) in cases {
        let machine = Machine::new();
        fs::write(machine.folder.path().join("wheels").join(WHEEL), bytes).unwrap();
        machine.pip(WHEEL);
        let error = machine.install("13.4").unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error} does not say {words}");
        assert!(machine.contents().is_empty(), "{name}: {:?}", machine.contents());
    }
}

/// A table of digests: what there is in it for the release that `machine` brings.
fn digests(digest: &str) -> Digests {
    Digests::of(format!("# a comment\n{digest}  nvidia_cuda_nvcc-13.4.92-py3-none-manylinux2014_x86_64.whl\n"))
}

#[test]
fn a_wheel_of_a_known_release_is_the_published_one_or_nothing() {
    let mut machine = machine();
    let bytes = fs::read(machine.folder.path().join("wheels").join(WHEEL)).unwrap();
    machine.env.digests = digests(&wheel::hexadecimal(&Sha256::digest(&bytes)));
    assert_eq!(machine.install("13.4").unwrap().toolchain.vouched, Some(Vouched::Pinned));
    assert_eq!(machine.store().list()[0].vouched, Some(Vouched::Pinned));
    machine.store().remove("13".parse().unwrap(), &|_| {}).unwrap();

    machine.env.digests = digests(&"0".repeat(64));
    let error = machine.install("13.4").unwrap_err().to_string();
    assert!(error.contains("not the wheel that this release was published with") && error.contains("0000"), "{error}");
    assert!(error.contains("nothing was installed") && error.contains("--ptxas PATH"), "{error}");
    assert!(machine.contents().is_empty());
    // Neither under the name of a release that is not known.
    let other = WHEEL.replace("13.4.92", "13.4.93");
    machine.wheel(&other, &[(PTXAS, &ptxas("13.4.92"))]);
    machine.pip(&other);
    let error = machine.install("13.4").unwrap_err();
    assert!(matches!(error, ToolchainError::WrongDigest { .. }), "{error}");
    assert!(machine.contents().is_empty());
}

#[test]
fn a_toolchain_from_before_digests_were_recorded_is_still_one() {
    let machine = machine();
    let toolchain = machine.install("13.4").unwrap().toolchain;
    let manifest = machine.store().folder().join("13.4.92/toolchain.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("  \"vouched\": \"index\",\n", "")).unwrap();
    assert_eq!(machine.store().list(), [Installed { vouched: None, ..toolchain }]);
}

/// What an installer finds where it runs, and what it is told.
#[test]
fn installers_run_in_an_empty_folder_with_the_users_settings() {
    let mut machine = machine();
    let checkout = machine.folder.path().join("checkout");
    fs::create_dir_all(checkout.join("sub")).unwrap();
    machine.env.cwd = checkout.join("sub");
    for (name, value) in [("PIP_INDEX_URL", "https://example.org"), ("PYTHONPATH", ""), ("PWD", "elsewhere")] {
        machine.env.vars.insert(name.into(), value.into());
    }
    let path = std::env::join_paths([".".into(), PathBuf::new(), machine.folder.path().join("bin")]).unwrap();
    machine.env.vars.insert("PATH".into(), path);
    let seen = "echo \"$PWD|$(pwd)|$(ls -A | wc -l | tr -d ' ')|$PIP_INDEX_URL|$theirs\" >>\"$root/seen\"";
    let body = format!("{seen}; {OFFER}; cp \"$root/wheels/{WHEEL}\" \"$to\"");
    machine.program("python3", &body);
    let script = machine.folder.path().join("bin/python3");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, text.replacen("PATH=/usr", "theirs=$PATH; PATH=/usr", 1)).unwrap();
    let seen = |machine: &Machine| {
        let text = fs::read_to_string(machine.folder.path().join("seen")).unwrap();
        text.lines().last().unwrap().split('|').map(str::to_owned).collect::<Vec<_>>()
    };
    machine.install("13.4").unwrap();
    let ran = seen(&machine);
    assert_eq!((&ran[0], ran[2].as_str(), ran[3].as_str()), (&ran[1], "0", "https://example.org"), "{ran:?}");
    assert_eq!(ran[4], machine.folder.path().join("bin").display().to_string(), "no relative folder on PATH");

    // A store in the checkout, for a CI system to keep: the folders above the installer are not the checkout's even so.
    machine.env.vars.insert("PTXINSPECT_TOOLCHAINS".into(), checkout.join("store").into_os_string());
    machine.install("13.4").unwrap();
    let ran = seen(&machine);
    assert!(!Path::new(&ran[1]).starts_with(fs::canonicalize(&checkout).unwrap()), "{ran:?}");
    assert_eq!(ran[2], "0");
    assert_eq!(fs::read_dir(&machine.env.temp_dir).unwrap().count(), 0, "nothing is left");
    Store::available(&machine.env, &|_| {}).unwrap();
    assert_eq!(seen(&machine)[2], "0");
}

/// An empty entry of `LD_LIBRARY_PATH` is where a program runs: not in the checkout, the first time included.
#[test]
fn a_new_ptxas_is_not_run_in_the_checkout() {
    let mut machine = machine();
    let checkout = machine.folder.path().join("checkout");
    fs::create_dir_all(&checkout).unwrap();
    machine.env.cwd = checkout;
    let place = machine.folder.path().join("place");
    let script =
        format!("#!/bin/sh\npwd >'{}'\necho 'Cuda compilation tools, release 1.2, V13.4.92'\n", place.display());
    machine.wheel(WHEEL, &[(PTXAS, script.as_bytes())]);
    machine.install("13.4").unwrap();
    let ran = PathBuf::from(fs::read_to_string(place).unwrap().trim());
    assert_ne!(ran, std::env::current_dir().unwrap());
    assert!(!ran.exists(), "a folder of its own, gone by now");
}

#[test]
fn a_relative_folder_of_toolchains_is_refused() {
    let mut machine = machine();
    machine.env.vars.insert("PTXINSPECT_TOOLCHAINS".into(), ".toolchains".into());
    let error = Store::of(&machine.env).unwrap_err().to_string();
    assert!(error.contains("PTXINSPECT_TOOLCHAINS is '.toolchains': expected an absolute path"), "{error}");
}

#[test]
fn half_a_toolchain_is_not_used_and_is_replaced() {
    let machine = machine();
    let toolchain = machine.install("13.4").unwrap().toolchain;
    fs::write(&toolchain.path, "cut").unwrap();
    assert!(machine.store().list().is_empty());
    assert!(machine.install("13.4.92").unwrap().fresh);
    assert_eq!(machine.store().list(), [toolchain]);
    assert_eq!(machine.contents(), ["13.4.92"]);
}

#[test]
fn the_offer_of_an_index_is_listed_newest_first() {
    let machine = machine();
    let versions = Store::available(&machine.env, &|_| {}).unwrap();
    let versions: Vec<String> = versions.iter().map(|version| version.to_string()).collect();
    assert_eq!(versions, ["13.4.92", "13.0.88"]);
    assert_eq!(machine.calls().len(), 3);
    assert_eq!(fs::read_dir(&machine.env.temp_dir).unwrap().count(), 0);
}

/// Downloads 20 MB; `PTXINSPECT_TEST_DOWNLOAD=1` allows it.
#[test]
fn a_real_ptxas_is_installed_through_the_real_pip() {
    if std::env::var_os("PTXINSPECT_TEST_DOWNLOAD").is_none() {
        return eprintln!("SKIPPED: PTXINSPECT_TEST_DOWNLOAD is not set");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut env = Env::new(std::env::vars_os(), folder.path().to_owned(), std::env::temp_dir());
    env.vars.insert("PTXINSPECT_TOOLCHAINS".into(), folder.path().join("toolchains").into_os_string());
    let show = |progress: &Progress| eprintln!("{progress:?}");
    let request: VersionRequest = "12.0".parse().unwrap();
    match Store::of(&env).unwrap().install(request, &env, &show) {
        Ok(installation) => {
            assert!(installation.fresh && request.matches(installation.toolchain.version));
            let found = crate::toolchain::find(&crate::toolchain::Request::Version(request), &env, &|_| {}).unwrap();
            assert_eq!(found.path, installation.toolchain.path);
        }
        Err(error @ (ToolchainError::NoInstaller | ToolchainError::FetchFailed { .. })) => {
            eprintln!("SKIPPED: {error}")
        }
        Err(error) => panic!("{error}"),
    }
}
