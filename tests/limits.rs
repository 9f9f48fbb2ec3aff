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

/// Name, kind, flags, link, info, content, bytes of an element.
type Section<'a> = (u32, u32, u64, u32, u32, &'a [u8], u64);

/// A cubin of sm_80 with one kernel `k` of these words.
fn cubin(words: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let code: Vec<u8> = words.flat_map(|(low, high)| [low.to_le_bytes(), high.to_le_bytes()].concat()).collect();
    let names = b"\0.shstrtab\0.strtab\0.symtab\0.text.k\0";
    let mut symbols = vec![0_u8; 24];
    symbols.extend([1_u32.to_le_bytes(), [0x12, 0x10, 4, 0]].concat());
    symbols.extend([0_u64.to_le_bytes(), (code.len() as u64).to_le_bytes()].concat());
    let sections: [Section<'_>; 5] = [
        (0, 0, 0, 0, 0, b"", 0),
        (1, 3, 0, 0, 0, names, 0),
        (11, 3, 0, 0, 0, b"\0k\0", 0),
        (19, 2, 0, 2, 1, &symbols, 24),
        (27, 1, 6, 3, 1 | 32 << 24, &code, 0),
    ];
    let (mut body, mut headers) = (vec![0_u8; 64], Vec::new());
    for (name, kind, flags, link, info, data, each) in sections {
        body.resize(body.len().next_multiple_of(16), 0);
        headers.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
        let wide = [flags, 0, body.len() as u64, data.len() as u64, u64::from(link) | u64::from(info) << 32, 16, each];
        headers.extend(wide.iter().flat_map(|field| field.to_le_bytes()));
        body.extend(data);
    }
    body.resize(body.len().next_multiple_of(16), 0);
    let mut header = b"\x7fELF\x02\x01\x01\x33\x07\0\0\0\0\0\0\0\x02\0\xbe\0\x80\0\0\0".to_vec();
    header.extend([0, 0, body.len() as u64].iter().flat_map(|field| field.to_le_bytes()));
    header.extend((80_u32 | 80 << 16 | 0x500).to_le_bytes());
    header.extend([64_u16, 56, 0, 64, 5, 1].iter().flat_map(|field| field.to_le_bytes()));
    body[..64].copy_from_slice(&header);
    body.extend(headers);
    body
}

const EXIT: (u64, u64) = (0x0000_0000_0000_794D, 0x000F_EA00_0380_0000);

/// `MOV` from one register to another.
fn moves(count: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..count).map(|at| (0x7202 | (at % 250) << 16 | (at % 100) << 32, 0x000F_E200_0000_0F00))
}

#[test]
fn code_of_any_size_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before.cubin"), folder.path().join("after.cubin"));
    std::fs::write(&before, cubin(moves(150_000).chain([EXIT]))).unwrap();
    // One instruction more, and nothing that the figures tell.
    std::fs::write(&after, cubin(moves(70_000).chain([EXIT]).chain(moves(150_000).skip(70_001)).chain([EXIT])))
        .unwrap();
    let output = run(&["diff", path(&before), path(&after), "--exit-code"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("150,000 instructions the same, 1 gone, 1 new"), "{}", stdout(&output));
    let output = run(&["diff", path(&before), path(&before), "--exit-code"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn every_command_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.cubin");
    std::fs::write(&large, cubin(moves(200_000).chain([EXIT]))).unwrap();
    let baseline = folder.path().join("lock.json");
    let (large, small) = (path(&large), root("testdata/container/add.sm_90a.cubin"));
    for command in [
        &[large] as &[&str],
        &["annotate", large],
        &["disasm", large],
        &["disasm", large, "--format", "json"],
        &["diff", large, path(&small)],
        &["gate", large, "--no-cache", "--update", "--baseline", path(&baseline)],
        &[large, "--sort", "live"],
    ] {
        let output = run(&[command, &["--timeout", "0.001"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("within 0.001 s"), "{command:?}: {}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.so");
    std::fs::write(&huge, [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 57]].concat()).unwrap();
    // Holes: to look through them takes far longer than the test waits.
    let file = std::fs::File::options().write(true).open(&huge).unwrap();
    file.set_len(256 << 30).unwrap();
    let listing = support::program()
        .args(["list", "--scan", path(&huge)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    file.set_len(64).unwrap();
    let output = listing.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{:?} {}{}", output.status, stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("became shorter"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn a_search_through_a_huge_file_ends_in_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.so");
    std::fs::write(&huge, [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 57]].concat()).unwrap();
    std::fs::File::options().write(true).open(&huge).unwrap().set_len(256 << 30).unwrap();
    let output = run(&["list", "--scan", path(&huge), "--timeout", "0.1"]);
    assert_eq!(output.status.code(), Some(2), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("within 0.1 s"), "{}", stderr(&output));
}
