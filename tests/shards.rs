//! A gate on many machines: whatever the shards, the verdict over their parts is the one that a single run gives, byte for byte.

mod support;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{program, ptxas, root, stderr, stdout};

const FORMATS: [&str; 8] = ["text", "json", "markdown", "sarif", "junit", "github", "html", "patch"];

fn gate(folder: &Path, args: &[&str]) -> Output {
    program().current_dir(folder).arg("gate").args(args).output().unwrap()
}

fn says(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = gate(folder, args);
    (output.status.code().unwrap(), stdout(&output) + &stderr(&output))
}

/// Runs every shard; the names of their parts.
fn shards(folder: &Path, of: usize, args: &[&str]) -> Vec<String> {
    let part = |number: usize| {
        let (shard, name) = (format!("{number}/{of}"), format!("part-{number}-of-{of}.json"));
        let (code, said) = says(folder, &[args, &["--shard", &shard, "--output", &name]].concat());
        assert_eq!((code, said.as_str()), (0, ""), "{shard}");
        name
    };
    (1..=of).map(part).collect()
}

/// Holds the merged verdict against the single run's, in every format, and gives the exit status.
fn same_verdict(folder: &Path, parts: &[String], args: &[&str]) -> i32 {
    let mut merge: Vec<&str> = vec!["--merge"];
    merge.extend(parts.iter().map(String::as_str));
    let mut codes = Vec::new();
    for format in FORMATS {
        let whole = gate(folder, &[args, &["--format", format]].concat());
        let merged = gate(folder, &[args, &["--format", format], &merge].concat());
        assert_eq!(stdout(&merged), stdout(&whole), "{format}");
        assert_eq!(stderr(&merged), stderr(&whole), "{format}");
        assert_eq!(merged.status.code(), whole.status.code(), "{format}");
        codes.push(whole.status.code().unwrap());
    }
    codes.dedup();
    assert_eq!(codes.len(), 1);
    codes[0]
}

fn cubins() -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = fs::read_dir(root("testdata/cubin")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "cubin"));
    all.sort();
    all
}

/// Recorded cubins as files, and some of them in a folder that is measured as a library.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for sub in ["k", "lib"] {
        fs::create_dir(folder.path().join(sub)).unwrap();
    }
    for (at, path) in cubins().iter().enumerate() {
        let below = if at % 3 == 0 { "lib" } else { "k" };
        fs::copy(path, folder.path().join(below).join(path.file_name().unwrap())).unwrap();
    }
    fs::write(folder.path().join("ptxinspect.toml"), "inputs = [\"k/*.cubin\", \"lib\"]\n").unwrap();
    folder
}

#[test]
fn merged_parts_are_the_single_run() {
    let folder = repository();
    let folder = folder.path();
    let parts = shards(folder, 3, &[]);
    let merge: Vec<&str> = std::iter::once("--merge").chain(parts.iter().map(String::as_str)).collect();
    // Recording from parts is recording.
    let (code, said) = says(folder, &[&["--update"], &merge[..]].concat());
    assert!(code == 0 && said.contains("records"), "{said}");
    let lock = folder.join("ptxinspect.lock.json");
    let recorded = fs::read(&lock).unwrap();
    fs::remove_file(&lock).unwrap();
    assert_eq!(says(folder, &["--update"]).0, 0);
    assert_eq!(fs::read(&lock).unwrap(), recorded);
    assert_eq!(same_verdict(folder, &parts, &[]), 0);
    // Worse, gone, new, and something that cannot be read.
    let all = cubins();
    let named = |name: &str| all.iter().find(|path| path.ends_with(name)).unwrap();
    fs::copy(named("hopper-13.4-sm_90a.cubin"), folder.join("k/new.cubin")).unwrap();
    let some: Vec<_> = fs::read_dir(folder.join("k")).unwrap().map(|entry| entry.unwrap().path()).take(4).collect();
    fs::remove_file(&some[0]).unwrap();
    fs::write(&some[1], &fs::read(&some[1]).unwrap()[..500]).unwrap();
    fs::copy(named("culprits-12.9-sm_120.cubin"), &some[2]).unwrap();
    fs::write(
        folder.join("ptxinspect.toml"),
        "inputs = [\"k/*.cubin\", \"lib\"]\n[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 40\"]\n",
    )
    .unwrap();
    let (code, said) = says(folder, &[&["--format", "text"], &merge[..]].concat());
    assert!(code == 2 && said.contains("another policy"), "{said}");
    for of in [1, 2, 30] {
        let parts = shards(folder, of, &[]);
        assert_eq!(same_verdict(folder, &parts, &[]), 2, "{of}");
    }
}

#[test]
fn every_piece_is_measured_once_and_libraries_are_spread() {
    let folder = repository();
    let parts = shards(folder.path(), 4, &[]);
    let mut seen = Vec::new();
    let mut shards_of_library = 0;
    for part in &parts {
        let part: Value = serde_json::from_slice(&fs::read(folder.path().join(part)).unwrap()).unwrap();
        let pieces = part["pieces"].as_array().unwrap();
        assert!(!pieces.is_empty());
        shards_of_library += usize::from(pieces.iter().any(|piece| piece["path"] == "lib"));
        seen.extend(pieces.iter().map(|piece| (piece["path"].to_string(), piece["at"].as_u64().unwrap())));
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), count), (cubins().len(), cubins().len()));
    assert!(shards_of_library > 1);
}

#[test]
fn parts_that_do_not_belong_together_are_no_verdict() {
    let folder = repository();
    let folder = folder.path();
    assert_eq!(says(folder, &["--update"]).0, 0);
    let parts = shards(folder, 3, &[]);
    let is_2 = |args: &[&str], why: &str| {
        let (code, said) = says(folder, args);
        assert!(code == 2 && said.contains(why), "{args:?}: {code}: {said}");
    };
    let [one, two, three] = [parts[0].as_str(), parts[1].as_str(), parts[2].as_str()];
    is_2(&["--merge", one, three], "shard 2 of 3 is missing: `ptxinspect gate --shard 2/3");
    is_2(&["--merge", one, two, three, one], "shard 1/3 is there twice");
    shards(folder, 4, &[]);
    is_2(&["--merge", one, two, "part-3-of-4.json"], "is shard 3/4");
    is_2(&["--merge", one, two, three, "--threads", "64"], "other arguments");
    is_2(&["--merge", one, two, three, "--deny", "C7508"], "another policy");
    is_2(&["lib", "--merge", one, two, three], "was measured, and is not to be");
    is_2(&["--merge", "none.json"], "cannot open none.json: there is no such file");
    is_2(&["--merge", "ptxinspect.lock.json"], "is not a part of a gate");
    is_2(&["--shard", "4/3"], "there is no shard 4 of 3");
    is_2(&["--shard", "x"], "expected I/N");
    is_2(&["--shard", "1/3", "--update"], "cannot be used with");
    is_2(&["--shard", "1/3", "--merge", one], "cannot be used with");
    is_2(&["-", "--shard", "1/3"], "standard input cannot be measured in parts");
    // What is cut off, of another version, or of a file that has changed since.
    let text = fs::read_to_string(folder.join(two)).unwrap();
    fs::write(folder.join("cut.json"), &text[..text.len() / 2]).unwrap();
    is_2(&["--merge", one, "cut.json", three], "cut.json is not a part of a gate");
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(folder.join("old.json"), text.replace(&version, "\"version\":\"0.0.1\"")).unwrap();
    is_2(&["--merge", one, "old.json", three], "made by ptxinspect 0.0.1");
    let changed = fs::read_dir(folder.join("k")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&changed).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&changed, bytes).unwrap();
    is_2(&["--merge", one, two, three], "is not what was measured");
}

/// What a build system does: each input an action of its own, here with some inputs outside the baseline's folder.
#[test]
fn parts_of_named_inputs_merge() {
    let (folder, built) = (repository(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    fs::create_dir(built.path().join("deep")).unwrap();
    let mut inputs = vec!["lib".to_owned()];
    for (at, path) in cubins().iter().take(4).enumerate() {
        let below = if at % 2 == 0 { built.path().to_owned() } else { built.path().join("deep") };
        let to = below.join(path.file_name().unwrap());
        fs::copy(path, &to).unwrap();
        inputs.push(to.to_str().unwrap().to_owned());
    }
    let args: Vec<&str> = inputs.iter().map(String::as_str).collect();
    assert_eq!(says(folder, &[&args[..], &["--update"]].concat()).0, 0);
    let part = |(at, input): (usize, &&str)| {
        let name = format!("{at}.part.json");
        assert_eq!(says(folder, &[input, "--part", "--output", &name]), (0, String::new()));
        name
    };
    let parts: Vec<String> = args.iter().enumerate().map(part).collect();
    assert_eq!(same_verdict(folder, &parts, &args), 0);
    let merge: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (code, said) = says(folder, &[&args[..], &["--merge"], &merge[1..]].concat());
    assert!(code == 2 && said.contains("is in no part"), "{said}");
    let (code, said) = says(folder, &[&args[..], &["--merge", merge[0]], &merge[..]].concat());
    assert!(code == 2 && said.contains("was measured twice"), "{said}");
}

#[test]
fn recorded_times_balance_and_all_shards_must_have_them() {
    let folder = repository();
    let folder = folder.path();
    assert_eq!(says(folder, &["--update", "--record-times", "times.json"]).0, 0);
    let by_size = shards(folder, 2, &[]);
    let timed = ["--times", "times.json"];
    let by_time = shards(folder, 2, &timed);
    assert_eq!(same_verdict(folder, &by_time, &[]), 0);
    assert_eq!(by_size, by_time);
    shards(folder, 2, &[]);
    // One file that takes as long as all others is alone.
    let times = fs::read(folder.join("times.json")).unwrap();
    let mut times: Value = serde_json::from_slice(&times).unwrap();
    let all = times["microseconds"].as_object_mut().unwrap();
    assert_eq!(all.len(), cubins().len());
    all.values_mut().for_each(|time| *time = Value::from(1000));
    let (heavy, time) = all.iter_mut().find(|(key, _)| key.starts_with("k/")).unwrap();
    *time = Value::from(1_000_000);
    let heavy = heavy.split('\t').next().unwrap().to_owned();
    fs::write(folder.join("times.json"), times.to_string()).unwrap();
    says(folder, &["--shard", "1/2", "--output", "one.json", "--times", "times.json"]);
    says(folder, &["--shard", "2/2", "--output", "two.json", "--times", "times.json"]);
    let inputs = |name: &str| -> Vec<String> {
        let part: Value = serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap();
        part["pieces"].as_array().unwrap().iter().map(|piece| piece["path"].as_str().unwrap().to_owned()).collect()
    };
    let both = [inputs("one.json"), inputs("two.json")];
    assert!(both.contains(&vec![heavy]), "{both:?}");
    let (code, said) = says(folder, &["--merge", "one.json", "part-2-of-2.json"]);
    assert!(code == 2 && said.contains("or another --times"), "{said}");
    fs::write(folder.join("times.json"), "{}").unwrap();
    let (code, said) = says(folder, &["--shard", "1/2", "--times", "times.json"]);
    assert!(code == 2 && said.contains("cannot be used as recorded times"), "{said}");
}

#[test]
fn compiled_kernels_merge_too() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["spills.ptx", "saxpy.ptx", "hopper_warp_specialised.ptx"] {
        fs::copy(root("testdata/ptx").join(name), folder.join(name)).unwrap();
    }
    let policy = "inputs = [\"s*.ptx\", { path = \"hopper*.ptx\", arch = [\"sm_90a\"] }]\n\
                  arch = [\"sm_80\", \"sm_90\"]\nptxas = [\"13.4\"]\n";
    fs::write(folder.join("ptxinspect.toml"), policy).unwrap();
    assert_eq!(says(folder, &["--update"]).0, 0);
    let change = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.contains(from));
        fs::write(folder.join(name), text.replace(from, to)).unwrap();
    };
    change("spills.ptx", ".maxnreg 32", ".maxnreg 24");
    let parts = shards(folder, 3, &[]);
    assert_eq!(same_verdict(folder, &parts, &[]), 1);
    change("hopper_warp_specialised.ptx", ".maxntid 384, 1, 1\n.minnctapersm 1\n", "");
    change("saxpy.ptx", "fma.rn.f32", "fma.rn.f3");
    let parts = shards(folder, 2, &[]);
    assert_eq!(same_verdict(folder, &parts, &[]), 2);
    // A cache that has everything leaves the recorded times as they were: times of compiling.
    assert_eq!(says(folder, &["--merge", &parts[0], &parts[1], "--record-times", "times.json"]).0, 2);
    let times: Value = serde_json::from_slice(&fs::read(folder.join("times.json")).unwrap()).unwrap();
    let times = times["microseconds"].as_object().unwrap();
    assert_eq!(times.len(), 5);
    // What ptxas refuses is refused again by the cache, in no time.
    let compiled = times.iter().filter(|(name, _)| !name.starts_with("saxpy"));
    assert!(compiled.map(|(_, time)| time.as_u64().unwrap()).all(|time| time > 10_000), "{times:?}");
}
