//! Inputs that are made to run away, as a user meets them: a clear error, the rest goes on, exit 2. Hermetic: work is counted, not timed.

mod support;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use support::{root, run, stderr, stdout};

const HEAD: &str = ".version 8.8\n.target sm_100a\n.address_size 64\n";

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A ptxas that has an answer at once: a recorded cubin, or an error.
#[cfg(unix)]
fn stand_in(folder: &Path, answer: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let tool = folder.join("ptxas");
    let version = "if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.4, V13.4.92'; exit 0; fi";
    std::fs::write(&tool, format!("#!/bin/sh\n{version}\n{answer}\n")).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    path(&tool).to_owned()
}

/// Every branch may go everywhere: one table for all.
#[cfg(unix)]
fn one_table(branches: usize) -> String {
    let targets: Vec<String> = (0..branches).map(|at| format!("L{at}")).collect();
    let mut text =
        format!("{HEAD}.visible .entry k()\n.reqntid 128, 1, 1\n{{\n.reg .b32 %r<9>;\nmov.u32 %r1, %ctaid.x;\n");
    writeln!(text, "ts: .branchtargets {};", targets.join(", ")).unwrap();
    for at in 0..branches {
        writeln!(text, "L{at}:\nbrx.idx %r1, ts;").unwrap();
    }
    text + "ret;\n}\n"
}

#[cfg(unix)]
#[test]
fn branches_that_share_a_table_end_and_what_ptxas_refuses_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = folder.path().join("k.ptx");
    std::fs::write(&ptx, one_table(12_000)).unwrap();
    let cubin = root("testdata/container/add.sm_90a.cubin");
    // The kernel of the cubin is another one: the PTX is evaluated beside ptxas, and joined with nothing.
    let tool = stand_in(folder.path(), &format!("cp '{}' output.cubin", path(&cubin)));
    let output = run(&[path(&ptx), "--ptxas", &tool, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let refuses = "echo \"ptxas input.ptx, line 5; error   : Unknown symbol 'x'\" >&2; exit 255";
    let output = run(&[path(&ptx), "--ptxas", &stand_in(folder.path(), refuses), "--format", "json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("Unknown symbol 'x'"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn an_input_that_takes_too_long_is_an_error_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = folder.path().join("k.ptx");
    std::fs::write(&ptx, format!("{HEAD}.visible .entry k()\n{{\nret;\n}}\n")).unwrap();
    let cubin = root("testdata/container/add.sm_90a.cubin");
    let tool = stand_in(folder.path(), "sleep 60");
    let output = run(&[path(&ptx), path(&cubin), "--ptxas", &tool, "--timeout", "0.5", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("within 0.5 s") && stderr(&output).contains("--timeout"), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["units"][1]["kernels"].as_array().unwrap().len(), 2);
}

#[cfg(unix)]
#[test]
fn devices_are_no_input_without_end() {
    for args in [&["list", "/dev/zero"][..], &["/dev/zero"][..], &["diff", "/dev/zero", "/dev/null"][..]] {
        let output = run(&[args, &["--max-bytes", "1M"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("1048576 bytes"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_table_of_a_container_says_what_was_too_much() {
    let library = root("testdata/container/libk.a");
    let output = run(&["list", path(&library), "--max-entries", "3", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("more than 3 files") && stderr(&output).contains("--max-entries"));
    let again = run(&["list", path(&library), "--max-entries", "3", "--format", "json", "-j", "1"]);
    assert_eq!(stdout(&output), stdout(&again), "what is left out does not depend on the threads");
    // The rest of the inputs goes on.
    let cubin = root("testdata/container/add.sm_90a.cubin");
    let both = run(&["list", path(&library), path(&cubin), "--max-entries", "3"]);
    assert!(both.status.code() == Some(2) && stdout(&both).contains("add.sm_90a.cubin"), "{}", stdout(&both));
    let deep = run(&["list", path(&library), "--max-depth", "0"]);
    assert!(deep.status.code() == Some(2) && stderr(&deep).contains("--max-depth"), "{}", stderr(&deep));
}

#[cfg(unix)]
#[test]
fn links_in_folders_are_followed_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(root("testdata/container/add.sm_90a.cubin"), elsewhere.path().join("k.cubin")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
    let plain = run(&["list", path(folder.path())]);
    assert!(!stdout(&plain).contains("k.cubin"), "{}", stdout(&plain));
    let followed = run(&["list", path(folder.path()), "--follow-links"]);
    assert!(followed.status.code() == Some(0) && stdout(&followed).contains("link/k.cubin"), "{}", stdout(&followed));
}
