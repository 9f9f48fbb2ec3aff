//! `ptxinspect tune` with the real ptxas: rows that hold what they say, made again byte for byte by their own commands.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use ptxinspect::cache::Key;
use ptxinspect::cubin::Image;
use serde_json::Value;
use support::{program, ptxas, root, stderr, stdout};

const SPILLS: &str = "testdata/ptx/spills.ptx";

fn tuned(folder: &Path, args: &[&str]) -> Value {
    let output = program().current_dir(folder).arg("tune").args(args).args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// The digest of the code that ptxas itself makes of a row: its edits by `--apply`, its flags on ptxas's own command line.
fn made_again(folder: &Path, file: &str, kernel: &Value, row: &Value) -> String {
    let text = match words(&row["edits"]).as_slice() {
        [] => fs::read_to_string(folder.join(file)).unwrap(),
        edits => {
            let apply = edits.iter().flat_map(|edit| ["--apply", edit]);
            let name = kernel["kernel"].as_str().unwrap();
            let edited =
                program().current_dir(folder).args(["tune", file, "--kernel", name]).args(apply).output().unwrap();
            assert!(edited.status.success(), "{}", stderr(&edited));
            stdout(&edited)
        }
    };
    fs::write(folder.join("row.ptx"), text).unwrap();
    let arch = kernel["arch"].as_str().unwrap();
    let made = Command::new(ptxas().unwrap())
        .current_dir(folder)
        .args([&format!("-arch={arch}"), "row.ptx", "-o", "row.cubin"])
        .args(words(&row["flags"]))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let bytes = fs::read(folder.join("row.cubin")).unwrap();
    let image = Image::parse(&bytes).unwrap();
    let mut code = Vec::new();
    for function in &image.functions {
        code.extend_from_slice(function.name.as_bytes());
        code.push(0);
        code.extend_from_slice(function.code);
    }
    format!("sha256:{}", Key::digest(&code))
}

/// Every row of every kernel, made again.
fn all_made_again(folder: &Path, file: &str, tuning: &Value) -> usize {
    let mut count = 0;
    for kernel in tuning["kernels"].as_array().unwrap() {
        for row in kernel["rows"].as_array().unwrap() {
            assert_eq!(row["code"].as_str().unwrap(), made_again(folder, file, kernel, row), "{}", row["commands"]);
            count += 1;
        }
    }
    count
}

fn best<'a>(kernel: &'a Value, aim: &str) -> &'a Value {
    kernel["best"].as_array().unwrap().iter().find(|answer| answer["aim"] == aim).unwrap()
}

#[test]
fn spills_are_removed_and_every_row_is_made_again() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::copy(root(SPILLS), here.join("k.ptx")).unwrap();
    let tuning = tuned(here, &["k.ptx", "--ptxas", "13.4", "--budget", "60"]);
    let kernel = &tuning["kernels"][0];
    let number = best(kernel, "no_spills")["row"].as_u64().expect("a row without spills") as usize;
    let row = &kernel["rows"][number];
    assert_eq!(row["figures"]["spill_bytes"], 0);
    // The directive of the PTX would rule over the flag alone.
    assert!(words(&row["flags"]).contains(&"--override-directive-values"), "{row}");
    assert!(all_made_again(here, "k.ptx", &tuning) >= 3);
    assert!(kernel["runs"].as_u64() <= Some(60));
}

#[test]
fn kernels_of_one_file_are_built_alone() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one = fs::read_to_string(root(SPILLS)).unwrap();
    let kernel = &one[one.find(".visible .entry").unwrap()..];
    let two = format!("{one}\n{}", kernel.replace("spill_storm", "second_storm"));
    fs::write(folder.path().join("two.ptx"), two).unwrap();
    let tuning = tuned(folder.path(), &["two.ptx", "--ptxas", "13.4", "--budget", "30"]);
    assert_eq!(tuning["kernels"].as_array().unwrap().len(), 2);
    assert!(all_made_again(folder.path(), "two.ptx", &tuning) > 4);
    for kernel in tuning["kernels"].as_array().unwrap() {
        assert_eq!(kernel["is_alone"], true);
        let entry = format!("--entry={}", kernel["kernel"].as_str().unwrap());
        assert!(kernel["rows"].as_array().unwrap().iter().all(|row| words(&row["flags"]).contains(&entry.as_str())));
    }
}

#[test]
fn the_same_budget_gives_the_same_answer() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::copy(root(SPILLS), here.join("k.ptx")).unwrap();
    let args = ["k.ptx", "--ptxas", "13.4", "--budget", "40"];
    let first = tuned(here, &args);
    assert_eq!(first, tuned(here, &[&args[..], &["--no-cache", "-j", "1"]].concat()));
    assert_eq!(first, tuned(here, &args));
}

#[test]
fn nothing_helps_is_an_answer() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root("testdata/ptx/saxpy.ptx"), folder.path().join("k.ptx")).unwrap();
    let tuning = tuned(folder.path(), &["k.ptx", "--ptxas", "13.4", "--budget", "30"]);
    let kernel = &tuning["kernels"][0];
    assert_eq!(best(kernel, "no_spills")["is_met"], true);
    assert!(kernel["tried"]["--register-usage-level"].as_u64() > Some(5), "{}", kernel["tried"]);
}

/// Budgets of setmaxnreg are tried where the executor proves that the pool holds them.
#[test]
fn registers_that_roles_share_are_split_otherwise() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::copy(root("testdata/ptx/hopper_warp_specialised.ptx"), here.join("k.ptx")).unwrap();
    let tuning = tuned(here, &["k.ptx", "--ptxas", "13.4", "--budget", "120", "--smem-dynamic", "65536"]);
    let kernel = &tuning["kernels"][0];
    assert!(kernel["tried"]["setmaxnreg"].as_u64() > Some(3), "{}", kernel["tried"]);
    // Fewer registers at launch leave the consumers waiting for ever.
    assert!(kernel["refused"]["count"]["barriers"].as_u64() > Some(0), "{}", kernel["refused"]);
    all_made_again(here, "k.ptx", &tuning);
}

/// What ptxas refuses is in the cache like what it makes, with its words.
#[test]
fn a_refusal_is_kept() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = fs::read_to_string(root(SPILLS)).unwrap().replace("ld.global", "ld.globe");
    fs::write(here.join("k.ptx"), text).unwrap();
    let run =
        |args: &[&str]| program().current_dir(here).env("PTXINSPECT_CACHE", here.join("cache")).args(args).output();
    let first = run(&["tune", "k.ptx", "--ptxas", "13.4"]).unwrap();
    assert_eq!(first.status.code(), Some(2));
    let entries = || {
        let told = run(&["cache", "info", "--format", "json"]).unwrap();
        serde_json::from_slice::<Value>(&told.stdout).unwrap()["entries"].as_u64()
    };
    assert_eq!(entries(), Some(1));
    let second = run(&["tune", "k.ptx", "--ptxas", "13.4"]).unwrap();
    assert_eq!((stderr(&second), second.status.code()), (stderr(&first), Some(2)));
    assert_eq!(entries(), Some(1));
    assert!(run(&["cache", "verify"]).unwrap().status.success());
}

/// A file of controls is the user's: ptxas says what it thinks of it, and what is missing is said before anything is built.
#[test]
fn controls_are_tried_where_there_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::copy(root("testdata/ptx/saxpy.ptx"), here.join("k.ptx")).unwrap();
    let missing = program().current_dir(here).args(["tune", "k.ptx", "--apply-controls", "none.acf"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("none.acf: there is no such file"), "{}", stderr(&missing));
    if ptxas().is_none() {
        return;
    }
    fs::write(here.join("bad.acf"), "hello\n").unwrap();
    let tuning = tuned(here, &["k.ptx", "--ptxas", "13.4", "--budget", "10", "--apply-controls", "bad.acf"]);
    let kernel = &tuning["kernels"][0];
    assert_eq!(kernel["tried"]["--apply-controls"], 1, "{}", kernel["tried"]);
    assert_eq!(kernel["refused"]["count"]["ptxas"], 1, "{}", kernel["refused"]);
}

/// Blocks in another order are PTX that ptxas takes, with the same edits made again.
#[test]
fn blocks_in_another_order_are_built() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut ordered = 0;
    for name in ["spills", "saxpy", "hopper_warp_specialised"] {
        let file = root("testdata/ptx").join(format!("{name}.ptx"));
        let args = ["--apply", "fewest-live", "--apply", "recompute", "-o", "k.ptx"];
        let made = program().current_dir(here).arg("tune").arg(&file).args(args).output().unwrap();
        if !made.status.success() {
            assert!(stderr(&made).contains("nothing to change"), "{name}: {}", stderr(&made));
            continue;
        }
        let built =
            program().current_dir(here).args(["k.ptx", "--ptxas", "13.4", "--format", "json"]).output().unwrap();
        assert!(built.status.success(), "{name}: {}", stderr(&built));
        ordered += 1;
    }
    assert!(ordered > 0);
}

/// An edit is made, and its patch makes the same text.
#[test]
fn a_patch_is_what_apply_makes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = fs::read_to_string(root(SPILLS)).unwrap();
    fs::write(here.join("k.ptx"), &text).unwrap();
    let args = ["tune", "k.ptx", "--apply", "maxnreg=64", "--apply", "loads-late", "-o", "tuned.ptx"];
    let made = program().current_dir(here).args(args).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let edited = fs::read_to_string(here.join("tuned.ptx")).unwrap();
    assert!(edited.contains(".maxnreg 64") && !edited.contains(".maxnreg 32"));
    let wrong = program().current_dir(here).args(["tune", "k.ptx", "--apply", "nounroll@1"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("line 1 has no loop"), "{}", stderr(&wrong));
    let wrong = program().current_dir(here).args(["tune", "k.ptx", "--apply", "faster"]).output().unwrap();
    assert!(stderr(&wrong).contains("is no edit"), "{}", stderr(&wrong));
}
