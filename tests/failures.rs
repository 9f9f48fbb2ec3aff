//! A failure never looks like a pass: readers that leave, disks that are full, two at once, a ptxas in trouble, a kill.
#![cfg(unix)]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{program, root, stderr, stdout};

const OLD: &str = "hopper-12.4-sm_90a.cubin";
const NEW: &str = "hopper-13.4-sm_90a.cubin";

/// A folder with an input that is worse than its baseline.
fn repo() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |from: &str, to: &str| fs::copy(root("testdata/cubin").join(from), folder.path().join(to)).unwrap();
    put(OLD, "k.cubin");
    let updated = at(folder.path(), &["gate", "k.cubin", "--update"]).output().unwrap();
    assert!(updated.status.success(), "{}", stderr(&updated));
    put(NEW, "k.cubin");
    put(OLD, "old.cubin");
    let launch = "{\"arch\":\"sm_90a\",\"registers\":168,\"threads\":384}\n";
    fs::write(folder.path().join("launches.jsonl"), format!("{}{{}}\n", launch.repeat(3000))).unwrap();
    folder
}

fn at(folder: &Path, args: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(folder).args(args);
    command
}

/// Every command, and how it ends.
const COMMANDS: &[(&[&str], i32)] = &[
    (&["k.cubin"], 0),
    (&["k.cubin", "--format", "json"], 0),
    (&["k.cubin", "missing.cubin"], 2),
    (&["gate", "k.cubin", "--ratchet"], 1),
    (&["gate", "k.cubin", "--ratchet", "--format", "github"], 1),
    (&["gate", "k.cubin", "--ratchet", "--format", "junit", "--write", "sarif=out.sarif"], 1),
    (&["gate", "old.cubin", "--update", "--baseline", "other.json"], 0),
    (&["gate", "old.cubin", "--update", "--baseline", "other.json", "--record", "f.jsonl", "--commit", "a"], 0),
    (&["diff", "old.cubin", "k.cubin", "--exit-code"], 1),
    (&["annotate", "k.cubin"], 0),
    (&["disasm", "k.cubin"], 0),
    (&["matrix", "k.cubin"], 0),
    (&["list", "."], 0),
    (&["list", "k.cubin", "missing"], 2),
    (&["size", "."], 0),
    (&[".", "--format", "csv"], 0),
    (&["extract", "k.cubin", "old.cubin", "-o", "extracted", "--force"], 0),
    (&["occupancy", "--batch", "launches.jsonl"], 2),
    (&["occupancy", "--arch", "sm_90a", "--registers", "64", "--threads", "128"], 0),
    (&["toolchain", "list"], 0),
    (&["cache", "info"], 0),
    (&["explain"], 0),
    (&["explain", "C7508"], 0),
    (&["completions", "bash"], 0),
    (&["man"], 0),
    (&["--help"], 0),
    (&["--version"], 0),
    (&["gate", "--no-such-flag"], 2),
];

/// The end of a pipe that nobody reads.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn the_status_stays_and_the_work_is_done_when_a_reader_leaves() {
    let folder = repo();
    for (args, status) in COMMANDS {
        for file in ["out.sarif", "other.json", "extracted/k.sm_90a.cubin", "extracted/old.sm_90a.cubin"] {
            let _ = fs::remove_file(folder.path().join(file));
        }
        let ran = |out: Stdio, err: Stdio| at(folder.path(), args).stdout(out).stderr(err).status().unwrap().code();
        assert_eq!(ran(nobody(), Stdio::null()), Some(*status), "{args:?}, nobody reads standard output");
        if args.contains(&"--write") {
            let sarif = fs::read(folder.path().join("out.sarif")).unwrap();
            assert!(serde_json::from_slice::<serde_json::Value>(&sarif).is_ok());
        }
        if args.first() == Some(&"extract") {
            assert_eq!(fs::read_dir(folder.path().join("extracted")).unwrap().count(), 2, "all of them");
        }
        assert_eq!(ran(Stdio::null(), nobody()), Some(*status), "{args:?}, nobody reads standard error");
        assert_eq!(ran(nobody(), nobody()), Some(*status), "{args:?}, nobody reads anything");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_written_is_a_failure() {
    let folder = repo();
    for (args, _) in COMMANDS {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let ran = at(folder.path(), args).stdout(full()).output().unwrap();
        // Two that have nothing to say there.
        let is_silent = args.contains(&"--no-such-flag");
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {}", stderr(&ran));
        assert!(is_silent || stderr(&ran).contains("cannot write to standard output"), "{args:?}: {}", stderr(&ran));
    }
    assert!(folder.path().join("out.sarif").exists(), "files are written all the same");
}

#[test]
fn a_pipe_for_a_file_may_lose_its_reader_too() {
    let folder = repo();
    let script = "mkfifo p && { head -c 1 p >/dev/null & \"$0\" gate k.cubin --ratchet --format html -o p; s=$?; wait; exit $s; }";
    assert_eq!(shell(folder.path(), script).status.code(), Some(1));
    let script = "\"$0\" k.cubin -o /dev/stdout >there && grep -q pipeline there && [ -L /dev/stdout ]";
    assert_eq!(shell(folder.path(), script).status.code(), Some(0));
}

/// Runs a script whose `$0` is the program.
fn shell(folder: &Path, script: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_ptxinspect");
    Command::new("sh").arg("-c").arg(script).arg(program).current_dir(folder).output().unwrap()
}

#[test]
fn files_keep_the_umask_and_their_mode() {
    let folder = repo();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    let run = |args: &str| {
        let ran = shell(folder.path(), &format!("umask 027; exec \"$0\" {args}"));
        assert!(ran.status.code().is_some_and(|code| code < 2), "{args}");
    };
    run("k.cubin -o new.txt");
    run("gate k.cubin --update --baseline new.json");
    run("extract k.cubin -o extracted");
    assert_eq!([mode("new.txt"), mode("new.json"), mode("extracted/k.sm_90a.cubin")], [0o640; 3]);
    for (name, bits) in [("new.txt", 0o600), ("ptxinspect.lock.json", 0o664), ("extracted/k.sm_90a.cubin", 0o444)] {
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(bits)).unwrap();
    }
    run("k.cubin -o new.txt");
    run("gate k.cubin --update");
    run("extract k.cubin -o extracted --force");
    assert_eq!(
        [mode("new.txt"), mode("ptxinspect.lock.json"), mode("extracted/k.sm_90a.cubin")],
        [0o600, 0o664, 0o444]
    );
}

/// Each of them records its own input; none forgets another's.
#[test]
fn updates_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("k{number}.cubin")).collect();
    for name in &names {
        fs::copy(root("testdata/cubin").join(OLD), folder.path().join(name)).unwrap();
    }
    let update = |name: &String| at(folder.path(), &["gate", name, "--update", "--quiet"]).spawn().unwrap();
    for mut child in names.iter().map(update).collect::<Vec<_>>() {
        assert!(child.wait().unwrap().success());
    }
    let baseline = fs::read_to_string(folder.path().join("ptxinspect.lock.json")).unwrap();
    for name in &names {
        assert!(baseline.contains(name), "{name} is lost");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names.len() + 1, "nothing is left behind");
}

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("ptxas");
    let release = "Cuda compilation tools, release 13.4, V13.4.92";
    fs::write(&path, format!("#!/bin/sh\ncase \"$*\" in *--version*) echo '{release}'; exit;; esac\n{body}\n"))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn failures_that_are_not_understood_are_shown_in_ptxass_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = root("testdata/ptx/saxpy.ptx");
    for (body, expected) in [
        ("echo 'frobnicator table exhausted' >&2; exit 3", &["frobnicator table exhausted", "exit code 3"][..]),
        ("exit 7", &["exit code 7", "said nothing"]),
        ("echo 'about to crash'; kill -SEGV $$", &["about to crash", "signal 11"]),
        ("echo 'ptxas info    : only this'; exit 4", &["only this", "exit code 4"]),
    ] {
        let ptxas = script(folder.path(), body);
        for command in [&[][..], &["annotate"], &["disasm"]] {
            let ran = program().args(command).arg(&ptx).arg("--ptxas").arg(&ptxas).output().unwrap();
            assert_eq!(ran.status.code(), Some(2));
            for words in expected {
                assert!(stderr(&ran).contains(words), "{command:?} {words}: {}", stderr(&ran));
            }
        }
    }
}

/// A kill that cannot be caught ends ptxas and what it has started, and the next run removes what is left.
#[test]
#[cfg(target_os = "linux")]
fn nothing_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let pids = folder.path().join("pids");
    let body = format!("sleep 300 & echo $$ $! >{}.new; mv {0}.new {0}; wait", pids.display());
    let ptxas = script(folder.path(), &body);
    let run = |ptxas: &Path| {
        let mut command = program();
        command.arg(root("testdata/ptx/saxpy.ptx")).arg("--ptxas").arg(ptxas).env("TMPDIR", &temporary);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut child = run(&ptxas).spawn().unwrap();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait("ptxas starts", &|| pids.exists());
    // Whoever has started it needs a moment to take note of that.
    std::thread::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    child.wait().unwrap();
    let started = fs::read_to_string(&pids).unwrap();
    // A process that nobody has buried yet is dead all the same.
    let is_gone = |pid: &str| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    };
    for pid in started.split_whitespace() {
        wait("ptxas and its child end", &|| is_gone(pid));
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1, "a killed process cannot tidy up");
    run(&script(folder.path(), "exit 1")).status().unwrap();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the next one does");
}

#[test]
fn nothing_says_that_it_is_nothing() {
    let folder = repo();
    let none = [
        &["list", "k.cubin", "--kernel", "nosuch"][..],
        &["disasm", "k.cubin", "--kernel", "nosuch"],
        &["annotate", "k.cubin", "--kernel", "nosuch"],
        &["annotate", "k.cubin", "--lines", "90000.."],
        &["diff", "k.cubin", "old.cubin", "--kernel", "nosuch"],
        &["matrix", "k.cubin", "--kernel", "nosuch"],
        &["k.cubin", "--kernel", "nosuch"],
        &[".", "--kernel", "nosuch", "--format", "csv"],
        &["extract", "k.cubin", "--kernel", "nosuch", "-o", "none"],
        &["gate", "old.cubin", "--baseline", "same.json", "--format", "patch"],
    ];
    at(folder.path(), &["gate", "old.cubin", "--baseline", "same.json", "--update"]).output().unwrap();
    for args in none {
        let ran = at(folder.path(), args).output().unwrap();
        assert!(!stderr(&ran).trim().is_empty(), "{args:?}: {:?}, {}", ran.status, stdout(&ran));
    }
}

#[test]
fn memory_that_runs_out_is_a_failure_and_no_crash() {
    let folder = repo();
    let big = "{\"x\":\"".to_owned() + &"y".repeat(80 << 20) + "\"}";
    fs::write(folder.path().join("big.json"), big).unwrap();
    let script = "ulimit -v 300000; exec \"$0\" diff big.json big.json";
    let ran = shell(folder.path(), script);
    assert_eq!(ran.status.code(), Some(2), "{}", stderr(&ran));
    assert!(!stderr(&ran).is_empty());
}

/// Both sides of a comparison work at once, and complain in the same order each time.
#[test]
fn complaints_of_two_sides_have_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = fs::read(root("testdata/cubin").join(OLD)).unwrap();
    for side in ["a", "b"] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for name in ["1.cubin", "2.cubin", "3.cubin"] {
            fs::write(folder.path().join(side).join(name), &cubin[..cubin.len() - 1]).unwrap();
        }
    }
    let said: Vec<String> = (0..12)
        .map(|number| {
            let jobs = (1 + number % 4).to_string();
            let ran = at(folder.path(), &["diff", "a", "b", "-j", &jobs]).output().unwrap();
            assert_eq!(ran.status.code(), Some(2));
            stderr(&ran)
        })
        .collect();
    for name in ["a/1.cubin", "a/3.cubin", "b/2.cubin"] {
        assert!(said[0].contains(name), "{}", said[0]);
    }
    assert!(said.iter().all(|one| *one == said[0]), "{said:#?}");
}

/// A cell that could not be measured is no cell that ptxas refuses.
#[test]
fn a_matrix_with_a_cell_that_failed_fails() {
    let folder = repo();
    let ran = at(folder.path(), &["matrix", "k.cubin", "missing.cubin"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{}", stdout(&ran));
}
