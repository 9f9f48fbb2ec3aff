//! `ptxinspect gate --record` and `ptxinspect history`: figures over commits, hermetic, on recorded cubins.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{program, root, stderr, stdout};

/// A program that knows of no commit but what it is told.
fn at(folder: &Path, args: &[&str]) -> Command {
    let mut command = program();
    for name in ["PTXINSPECT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"] {
        command.env_remove(name);
    }
    command.current_dir(folder).args(args);
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    at(folder, args).output().expect("the program starts")
}

fn put(folder: &Path, from: &str) {
    fs::copy(root("testdata/cubin").join(from), folder.join("k.cubin")).unwrap();
}

/// A folder with a history of three commits: the kernel of one ptxas, of another, and of the first again.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (commit, day, cubin) in [
        ("aaa", "2026-11-01", "hopper-12.4-sm_90a.cubin"),
        ("bbb", "2026-11-02", "hopper-13.4-sm_90a.cubin"),
        ("ccc", "2026-11-03", "hopper-12.4-sm_90a.cubin"),
    ] {
        put(here, cubin);
        assert!(run(here, &["gate", "k.cubin", "--update", "--quiet"]).status.success());
        let done = run(here, &["gate", "k.cubin", "--record", "f.jsonl", "--commit", commit, "--commit-time", day]);
        assert!(done.status.success(), "{}", stderr(&done));
    }
    folder
}

#[test]
fn to_record_twice_changes_nothing_and_order_is_that_of_time() {
    let folder = recorded();
    let here = folder.path();
    let text = fs::read_to_string(here.join("f.jsonl")).unwrap();
    assert!(text.lines().count() > 3, "{text}");
    let days: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["recorded_at"].as_str().unwrap().to_owned())
        .collect();
    assert!(days.is_sorted(), "{days:?}");
    let again = run(here, &["gate", "k.cubin", "--record", "f.jsonl", "--commit", "ccc"]);
    assert!(again.status.success() && stderr(&again).contains("had already"), "{}", stderr(&again));
    assert_eq!(fs::read_to_string(here.join("f.jsonl")).unwrap(), text);
}

/// The commit is found in git's files, and no program runs for it.
#[test]
fn the_commit_is_the_one_checked_out() {
    let folder = recorded();
    let here = folder.path();
    let none = run(here, &["gate", "k.cubin", "--record", "f.jsonl"]);
    let inside = std::path::absolute(here).unwrap().ancestors().any(|folder| folder.join(".git").exists());
    assert!(inside || none.status.code() == Some(2) && stderr(&none).contains("--commit ID"), "{}", stderr(&none));
    let head = "0123456789abcdef0123456789abcdef01234567";
    fs::create_dir_all(here.join(".git/refs/heads")).unwrap();
    fs::write(here.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(here.join(".git/refs/heads/main"), format!("{head}\n")).unwrap();
    fs::write(here.join(".git/config"), "[core]\n\tfsmonitor = touch PLANTED\n").unwrap();
    assert!(run(here, &["gate", "k.cubin", "--record", "f.jsonl"]).status.success());
    assert!(fs::read_to_string(here.join("f.jsonl")).unwrap().contains(head));
    assert!(!here.join("PLANTED").exists());
    let named = at(here, &["gate", "k.cubin", "--record", "f.jsonl"]).env("GITHUB_SHA", "fromci").output().unwrap();
    assert!(named.status.success());
    assert!(fs::read_to_string(here.join("f.jsonl")).unwrap().contains("\"fromci\""));
}

#[test]
fn every_form_has_every_change() {
    let folder = recorded();
    let here = folder.path();
    let told: Value = serde_json::from_slice(&run(here, &["history", "f.jsonl", "--format", "json"]).stdout).unwrap();
    assert_eq!(told["commits"].as_array().unwrap().len(), 3);
    let points: usize = told["tracks"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|track| track["series"].as_array().unwrap())
        .map(|series| series["points"].as_array().unwrap().len())
        .sum();
    let lines = fs::read_to_string(here.join("f.jsonl")).unwrap().lines().count();
    assert_eq!(points, lines - 1);
    let text = stdout(&run(here, &["history", "f.jsonl", "--figure", "instructions"]));
    assert!(text.contains("3 commits from 2026-11-01 to 2026-11-03"), "{text}");
    let picture = stdout(&run(here, &["history", "f.jsonl", "--format", "svg"]));
    assert!(picture.starts_with("<svg") && picture.contains("<path class=\"l s0\""), "{picture}");
    let page = stdout(&run(here, &["history", "f.jsonl", "--format", "html", "--all"]));
    assert!(page.contains("Content-Security-Policy") && page.contains("<svg"), "{page}");
    let last = run(here, &["history", "f.jsonl", "--last", "1", "--format", "json"]);
    let last: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!(last["commits"].as_array().unwrap().len(), 1);
    assert_eq!(last["commits"][0]["commit"], "ccc");
}

#[test]
fn what_is_no_history_is_said() {
    let folder = recorded();
    let here = folder.path();
    for (args, said) in [
        (&["history", "absent.jsonl"][..], "ptxinspect gate --record absent.jsonl"),
        (&["history", "k.cubin"], "no history"),
        (&["history", "f.jsonl", "--kernel", "nothing"], "nothing that was asked for"),
        (&["history", "f.jsonl", "--figure", "registres"], "'registres' is not a metric"),
        (&["history", "f.jsonl", "--arch", "hopper"], "'hopper' is not an architecture"),
        (&["gate", "k.cubin", "--record", "f.jsonl", "--commit", "a b"], "is no name of a commit"),
        (&["gate", "k.cubin", "--record", "k.cubin", "--commit", "x"], "no history"),
        (&["gate", "k.cubin", "--commit", "x"], "--record"),
    ] {
        let output = run(here, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    // A kernel that cannot be measured leaves the file as it was.
    let before = fs::read(here.join("f.jsonl")).unwrap();
    fs::write(here.join("k.cubin"), "\x7fELF").unwrap();
    let cut = run(here, &["gate", "k.cubin", "--record", "f.jsonl", "--commit", "ddd"]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(stderr(&cut).contains("nothing was recorded in f.jsonl"), "{}", stderr(&cut));
    assert_eq!(fs::read(here.join("f.jsonl")).unwrap(), before);
}
