//! `ptxinspect size`: bytes add up to the file, code is called the same only where it is, on recorded files and on files made here.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{root, run, stderr, stdout};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn recorded(name: &str) -> PathBuf {
    root("testdata/container").join(name)
}

fn size(args: &[&str]) -> Value {
    let output = run(&[&["size"], args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What a field of some rows comes to.
fn sum(rows: &Value, field: &str) -> u64 {
    rows.as_array().expect("rows").iter().map(|row| number(&row[field])).sum()
}

/// The bytes of a file are those of its rows, whatever they are put together by.
#[test]
fn bytes_add_up_to_the_file() {
    for name in ["stored.fatbin", "lz4.fatbin", "zstd.fatbin", "concat.fatbin", "ident.fatbin", "exec.o", "lto.o"] {
        let file = recorded(name);
        let length = fs::metadata(&file).unwrap().len();
        for by in ["template", "namespace", "kernel", "arch", "file", "section"] {
            let found = size(&[path(&file), "--by", by]);
            assert_eq!(number(&found["sum"]["file_bytes"]), length, "{name} by {by}");
            for field in ["file_bytes", "loaded_bytes", "code_bytes", "functions"] {
                assert_eq!(sum(&found["rows"], field), number(&found["sum"][field]), "{name} by {by}: {field}");
            }
        }
        let found = size(&[path(&file)]);
        assert_eq!(sum(&found["files"], "gpu_bytes") + sum(&found["files"], "other_bytes"), length, "{name}");
        // As the list has them.
        let list = stdout(&run(&["list", path(&file), "--format", "json"]));
        let entries: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let entries = Value::from(entries.into_iter().filter(|line| line["type"] == "entry").collect::<Vec<_>>());
        assert_eq!(sum(&entries, "stored_bytes"), sum(&found["files"], "gpu_bytes"), "{name}");
        assert_eq!(sum(&entries, "bytes"), number(&found["sum"]["loaded_bytes"]), "{name}");
    }
}

/// Code by function is what the table of kernels says.
#[test]
fn code_is_the_tables() {
    let file = recorded("libk.a");
    let found = size(&[path(&file), "--by", "kernel"]);
    let table: Value = serde_json::from_slice(&run(&[path(&file), "--resources", "--format", "json"]).stdout).unwrap();
    let kernels = table["kernels"].as_array().unwrap();
    let code: u64 = kernels.iter().map(|kernel| number(&kernel["resources"]["code_bytes"])).sum();
    assert_eq!(number(&found["sum"]["code_bytes"]), code);
    assert_eq!(number(&found["sum"]["functions"]), kernels.len() as u64);
}

/// A chosen part is counted alone: what was left out is not told to be the host's.
#[test]
fn a_part_of_a_file() {
    let file = recorded("stored.fatbin");
    let found = size(&[path(&file), "--arch", "sm_75"]);
    assert_eq!(found["complete"], false);
    assert!(found["rows"].as_array().unwrap().iter().all(|row| row["kind"] != "host"), "{found}");
    assert!(found["arches"].as_array().unwrap().iter().all(|arch| arch["arch"] == "sm_75"), "{found}");
    let one = size(&[path(&file), "--kernel", "*add*", "--by", "kernel"]);
    assert_eq!(one["rows"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(one["sum"]["functions"], 3);
    let none = run(&["size", path(&file), "--kernel", "nothing"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("ptxinspect list"), "{}", stderr(&none));
}

/// The same cubin twice is one that could go, as a whole; with one bit of its code changed it could not.
#[test]
fn copies_are_proven() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = fs::read(recorded("add.sm_90a.cubin")).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.cubin"), &cubin).unwrap();
    fs::write(at("b.cubin"), &cubin).unwrap();
    let twice = size(&[path(folder.path())]);
    let same = &twice["same_code"];
    assert_eq!(same["whole_cubins"], 1, "{same}");
    assert_eq!(number(&same["saves_loaded_bytes"]), cubin.len() as u64);
    assert_eq!(number(&same["saves_file_bytes"]), cubin.len() as u64);
    assert_eq!(same["group_count"], 2);
    assert_eq!(same["scopes"][2]["scope"], "files");
    assert_eq!(same["scopes"][2]["count"], 2);

    // One bit of each 16 bytes of code in turn: every change is seen.
    let table: Value = serde_json::from_slice(&run(&[path(&at("a.cubin")), "--format", "json"]).stdout).unwrap();
    let kernels = table["units"][0]["kernels"].as_array().unwrap();
    let code: u64 = kernels.iter().map(|kernel| number(&kernel["resources"]["code_bytes"])).sum();
    let exit = [0x4d, 0x79, 0, 0, 0, 0, 0, 0, 0, 0];
    let place = cubin.windows(exit.len()).position(|window| window == exit).expect("an EXIT");
    assert!(code > 0);
    for bit in 0..16 {
        let mut changed = cubin.clone();
        changed[place - 16 + bit] ^= 1 << (bit % 8);
        fs::write(at("b.cubin"), &changed).unwrap();
        let found = size(&[path(folder.path())]);
        assert_eq!(found["same_code"]["whole_cubins"], 0, "byte {bit}");
        assert_eq!(found["same_code"]["group_count"], 1, "byte {bit}");
    }
}

/// A name is no part of code; what the code needs is.
#[test]
fn a_renamed_kernel_is_the_same_code() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = fs::read(root("testdata/cubin/culprits-13.4-sm_90.cubin")).unwrap();
    let renamed = replaced(&cubin, b"loaded_too_early", b"loaded_very_late");
    fs::write(folder.path().join("a.cubin"), &cubin).unwrap();
    fs::write(folder.path().join("b.cubin"), &renamed).unwrap();
    let found = size(&[path(folder.path())]);
    let groups = found["same_code"]["groups"].as_array().unwrap();
    let renamed: Vec<&Value> = groups.iter().filter(|group| group["name_count"] == 2).collect();
    assert_eq!(renamed.len(), 1, "{groups:?}");
    assert_eq!(renamed[0]["names"], serde_json::json!(["loaded_too_early", "loaded_very_late"]));
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    bytes
}

/// A fatbin with PTX and a cubin of the same kernels says so.
#[test]
fn ptx_that_could_serve() {
    let found = size(&[path(&recorded("stored.fatbin"))]);
    let instead = found["ptx_instead"].as_array().unwrap();
    assert!(!instead.is_empty(), "{found}");
    for one in instead {
        assert_eq!(one["same_arch"], one["arch"] == one["ptx_arch"], "{one}");
        assert!(number(&one["file_bytes"]) > 0, "{one}");
    }
    // A cubin alone has no PTX beside it.
    assert_eq!(size(&[path(&recorded("add.sm_75.cubin"))])["ptx_instead"], serde_json::json!([]));
}

#[test]
fn the_page_stands_alone_and_what_is_damaged_is_said() {
    let page = stdout(&run(&["size", path(&recorded("zstd.fatbin")), "--format", "html"]));
    assert!(page.contains("Content-Security-Policy") && page.contains("class=\"treemap\""), "{page}");
    for fetch in ["<script", "<link", "src=\"", "@import", "url(", "http://", "https://"] {
        assert!(!page.contains(fetch), "{fetch} is in the page");
    }
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.fatbin");
    let bytes = fs::read(recorded("stored.fatbin")).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(&["size", path(&cut)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cut.fatbin"), "{}", stderr(&output));
    fs::write(folder.path().join("nothing.txt"), "nothing").unwrap();
    let none = run(&["size", path(&folder.path().join("nothing.txt"))]);
    assert_eq!(none.status.code(), Some(2));
}
