//! Every call to the system fails once, in the manner of SQLite: whatever fails, a command gives the whole answer or says that it
//! could not, and nothing is lost.
//!
//! `support/faults.c` is preloaded into the program and lets the N-th call fail: opening, reading, writing, renaming, locking,
//! removing, starting threads and processes, large pieces of memory. Some of the points are tried, the same ones each time;
//! `scripts/faults` tries all of them.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use support::{program, ptxas, root};

/// How many points of a command are tried, unless all are asked for.
const POINTS: usize = 24;
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The library that lets calls fail; none, and a word why, where there is no compiler for it.
fn shim() -> Option<&'static Path> {
    static SHIM: OnceLock<Option<PathBuf>> = OnceLock::new();
    SHIM.get_or_init(|| {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}.so", std::process::id()));
        let source = root("tests/support/faults.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        match built {
            Ok(built) if built.status.success() => Some(library),
            Ok(built) => panic!("faults.c does not compile: {}", String::from_utf8_lossy(&built.stderr)),
            Err(error) => {
                eprintln!("SKIPPED: no cc: {error}");
                None
            }
        }
    })
    .as_deref()
}

/// A folder with inputs, an old output, a cache, a place for temporary files.
struct World(tempfile::TempDir);

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ran {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    /// What is in the folders that a command writes to.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// How many calls were counted.
    calls: usize,
    /// What kind of call was let fail.
    failed: String,
}

const OLD: &str = "hopper-12.4-sm_90a.cubin";
const NEW: &str = "hopper-13.4-sm_90a.cubin";

impl World {
    fn new(ptxas: &Path) -> World {
        let world = World(tempfile::tempdir().unwrap());
        for folder in ["lib", "out", "cache", "tmp"] {
            fs::create_dir(world.at(folder)).unwrap();
        }
        let cubin = |name: &str| root("testdata/cubin").join(name);
        for (name, to) in [(OLD, "old.cubin"), (NEW, "new.cubin"), (OLD, "lib/a.cubin"), (NEW, "lib/b.cubin")] {
            fs::copy(cubin(name), world.at(to)).unwrap();
        }
        fs::copy(root("testdata/ptx/saxpy.ptx"), world.at("k.ptx")).unwrap();
        fs::copy(root("testdata/ptx/saxpy.ptx"), world.at("lib/k.ptx")).unwrap();
        let launch = "{\"arch\":\"sm_90a\",\"registers\":168,\"threads\":384}\n";
        fs::write(world.at("launches.jsonl"), launch.repeat(40)).unwrap();
        // Without it a gate whose baseline is out of date would pass.
        let policy = "ratchet = true\n";
        fs::write(world.at("ptxinspect.toml"), policy).unwrap();
        for output in ["page.html", "gate.sarif", "report.json"] {
            fs::write(world.at("out").join(output), "as it was\n").unwrap();
        }
        std::os::unix::fs::symlink(ptxas, world.at("ptxas")).unwrap();
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program, its N-th call failing, and where it `stays` all others of its kind.
    fn run(&self, args: &[&str], fault: Option<usize>, stays: bool) -> Ran {
        let log = self.at("log");
        let mut command = program();
        command.current_dir(self.0.path()).args(args).env("PTXINSPECT_PTXAS", self.at("ptxas"));
        command.env("PTXINSPECT_CACHE", self.at("cache")).env("TMPDIR", self.at("tmp")).env("HOME", self.0.path());
        command.env("PTXINSPECT_TOOLCHAINS", self.at("toolchains")).env("RUST_BACKTRACE", "0");
        if let (Some(fault), Some(shim)) = (fault, shim()) {
            command.env("LD_PRELOAD", shim).env("FAULT_AT", fault.to_string()).env("FAULT_LOG", &log);
            if stays {
                command.env("FAULT_STAYS", "1");
            }
        }
        let (stdout, stderr) = (self.at("stdout"), self.at("stderr"));
        command.stdin(Stdio::null()).stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{args:?}, fault {fault:?}: it hangs; {}", fs::read_to_string(stderr).unwrap());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        // The only thing that differs from world to world is where it is.
        let here = self.0.path().to_str().unwrap();
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).replace(here, "WORLD");
        let logged = fs::read_to_string(&log).unwrap_or_default();
        let (calls, failed) = logged.trim().split_once(' ').unwrap_or(("0", "none"));
        Ran {
            status: status.code(),
            stdout: text(&stdout),
            stderr: text(&stderr),
            files: self.files(),
            calls: calls.parse().unwrap(),
            failed: failed.to_owned(),
        }
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(base: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".ptxinspect-")) {
                    continue;
                }
                if entry.is_dir() {
                    walk(base, &entry, files);
                } else {
                    files.insert(entry.strip_prefix(base).unwrap().to_owned(), fs::read(&entry).unwrap());
                }
            }
        }
        let mut files = BTreeMap::new();
        walk(self.0.path(), &self.at("out"), &mut files);
        let baseline = "ptxinspect.lock.json";
        files.extend(fs::read(self.at(baseline)).ok().map(|bytes| (PathBuf::from(baseline), bytes)));
        // A page or a report names the ptxas that ran, which lies in this world.
        let here = self.0.path().to_str().unwrap();
        for bytes in files.values_mut() {
            if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.contains(here)) {
                *bytes = text.replace(here, "WORLD").into_bytes();
            }
        }
        files
    }

    /// Temporary folders that are left, wherever they are made.
    fn leftovers(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for folder in ["", "tmp", "out", "out/extracted", "cache/v3"] {
            let entries = fs::read_dir(self.at(folder)).into_iter().flatten().map(|entry| entry.unwrap().path());
            left.extend(entries.filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                folder == "tmp" || name.starts_with(".ptxinspect-") || name.starts_with(".tmp-")
            }));
        }
        left
    }
}

/// Tries the points of a command one by one. `before` are commands that make the world what it should be.
fn every_fault(ptxas: &Path, before: &[&[&str]], args: &[&str]) {
    if shim().is_none() {
        return;
    }
    let world = || {
        let world = World::new(ptxas);
        for args in before {
            if let ["cp", from, to] = args {
                fs::copy(world.at(from), world.at(to)).unwrap();
                continue;
            }
            let ran = world.run(args, None, false);
            assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.stderr);
        }
        world
    };
    let first = world();
    let old = first.files();
    let good = first.run(args, Some(0), false);
    let expected = i32::from(before.contains(&CHANGE_OLD) || args.contains(&"--exit-code"));
    assert!(good.status == Some(expected) && good.calls > 10, "{args:?}: {good:?}");
    let is_full = std::env::var_os("PTXINSPECT_FAULTS").is_some();
    let points: Vec<usize> = if is_full {
        (1..=good.calls + 10).collect()
    } else {
        // Evenly spread over the calls, never the same place of each stretch.
        let step = good.calls.div_ceil(POINTS).max(1);
        (0..good.calls.div_ceil(step)).map(|at| at * step + 1 + (at * 7919) % step).collect()
    };
    // Once, or from then on: of a few points the ones, of others the others.
    let points = points.into_iter().flat_map(|point| match (is_full, point % 3) {
        (true, _) => vec![(point, false), (point, true)],
        (false, 0) => vec![(point, true)],
        (false, _) => vec![(point, false)],
    });
    let mut failures = Vec::new();
    for (point, stays) in points {
        let world = world();
        let ran = world.run(args, Some(point), stays);
        let at = format!("{args:?}, call {point} ({}{})", ran.failed, if stays { ", and on" } else { "" });
        let mut complain = |what: &str| {
            let shown: String = ran.stdout.chars().take(300).collect();
            failures.push(format!("{at}: {what}: {:?}\n{}{shown}", ran.status, ran.stderr));
        };
        let is_same = ran.status == good.status && ran.stdout == good.stdout && ran.files == good.files;
        // What cannot be said cannot be said.
        let is_said = ran.status == Some(2) && {
            let words =
                [&ran.stderr, &ran.stdout].iter().any(|text| text.contains("error: ") || text.contains("cannot "));
            words || ran.failed == "write"
        };
        // A gate that fails may not be able to say where, and says that.
        let is_unexplained =
            ran.status == Some(1) && good.status == Some(1) && ran.stdout.contains("no lines are shown");
        let is_out_of_memory = ran.status == Some(2) && ran.stderr.contains("memory allocation");
        if ran.stderr.contains("panicked") {
            complain("it panics");
        } else if !is_same && !is_said && !is_unexplained && !is_out_of_memory {
            complain("neither the whole answer nor an error");
        }
        for (path, bytes) in &ran.files {
            // A report of an input that could not be read says so, and is a report.
            let is_report = ran.status == Some(2) && is_whole_document(path, bytes);
            if old.get(path) != Some(bytes) && good.files.get(path) != Some(bytes) && !is_report {
                complain(&format!("half of {}", path.display()));
            }
        }
        if let Some((path, _)) = old.iter().find(|(path, _)| !ran.files.contains_key(*path)) {
            complain(&format!("{} is gone", path.display()));
        }
        // Memory that runs out leaves no time to tidy up, and what cannot be opened or read cannot be removed.
        if !stays && !["remove", "memory"].contains(&ran.failed.as_str()) && !world.leftovers().is_empty() {
            complain(&format!("left behind: {:?}", world.leftovers()));
        }
        let next = world.run(if args.first() == Some(&"extract") { EXTRACT_AGAIN } else { args }, None, false);
        let is_repeated = next.stdout.contains("is up to date") && args.contains(&"--update");
        if (next.status, &next.files) != (good.status, &good.files) || next.stdout != good.stdout && !is_repeated {
            complain(&format!("the next run is another: {next:?}"));
        }
        if !world.leftovers().is_empty() {
            complain(&format!("left behind after the next run: {:?}", world.leftovers()));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn is_whole_document(path: &Path, bytes: &[u8]) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => bytes.ends_with(b"</html>\n"),
        Some("json" | "sarif") => serde_json::from_slice::<serde_json::Value>(bytes).is_ok(),
        _ => false,
    }
}

const EXTRACT_AGAIN: &[&str] = &["extract", "lib", "-o", "out/extracted", "--force"];
const RECORD_OLD: &[&str] = &["gate", "old.cubin", "--update"];
const CHANGE_OLD: &[&str] = &["cp", "new.cubin", "old.cubin"];

/// A ptxas that takes no time: it gives a recorded cubin.
fn quick_ptxas() -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    static SCRIPT: OnceLock<PathBuf> = OnceLock::new();
    SCRIPT
        .get_or_init(|| {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ptxas-{}", std::process::id()));
            let cubin = root("testdata/cubin").join(NEW);
            let release = "Cuda compilation tools, release 13.4, V13.4.92";
            let body = format!(
                "case \"$*\" in *--version*) echo '{release}';; *) cp '{}' output.cubin;; esac",
                cubin.display()
            );
            fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        })
        .clone()
}

macro_rules! commands {
    ($($name:ident: [$($before:expr),*] $args:expr;)*) => {
        $(
            #[test]
            fn $name() {
                every_fault(&quick_ptxas(), &[$($before),*], &$args);
            }
        )*
    };
}

commands! {
    report: [] ["k.ptx"];
    report_to_a_file: [] ["k.ptx", "--format", "json", "-o", "out/report.json"];
    gate: [&["gate", "k.ptx", "--update"], &["cache", "clear"]] ["gate", "k.ptx"];
    gate_that_fails: [RECORD_OLD, CHANGE_OLD]
        ["gate", "old.cubin", "--ratchet", "--deny", "warnings", "--write", "sarif=out/gate.sarif"];
    gate_with_a_policy: [RECORD_OLD, CHANGE_OLD] ["gate", "old.cubin"];
    gate_update: [RECORD_OLD] ["gate", "k.ptx", "--update"];
    annotate: [] ["annotate", "k.ptx", "--format", "html", "-o", "out/page.html"];
    diff: [] ["diff", "old.cubin", "new.cubin", "--exit-code"];
    matrix: [] ["matrix", "k.ptx"];
    list: [] ["list", "lib", "--format", "json"];
    extract: [] ["extract", "lib", "-o", "out/extracted"];
    disasm: [] ["disasm", "k.ptx"];
    library: [] ["lib", "--format", "csv"];
    cache_verify: [&["gate", "k.ptx", "--update"]] ["cache", "verify"];
    occupancy: [] ["occupancy", "--batch", "launches.jsonl"];
}

#[test]
fn report_with_the_real_ptxas() {
    let Some(ptxas) = ptxas() else { return };
    every_fault(ptxas, &[], &["k.ptx", "--format", "json", "-o", "out/report.json"]);
}
