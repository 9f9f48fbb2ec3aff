//! The gate as a team uses it: recorded cubins, and real PTX changed in known ways.

mod support;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{program, ptxas, root, stderr, stdout};

/// A folder with inputs, and the gate run in it.
struct Repo {
    folder: tempfile::TempDir,
}

impl Repo {
    fn new() -> Repo {
        Repo { folder: tempfile::tempdir().unwrap() }
    }

    fn with(self, name: &str, content: impl AsRef<[u8]>) -> Repo {
        self.put(name, content);
        self
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn gate(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.current_dir(self.path()).arg("gate").args(args);
        if let Some(path) = std::env::var_os("PTXINSPECT_TEST_PTXAS") {
            command.env("PTXINSPECT_PTXAS", path);
        }
        command.output().unwrap()
    }

    /// Exit status, and everything said.
    fn says(&self, args: &[&str]) -> (i32, String) {
        let output = self.gate(args);
        (output.status.code().unwrap(), stdout(&output) + &stderr(&output))
    }

    fn verdict(&self, args: &[&str]) -> Value {
        let output = self.gate(&[args, &["--format", "json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
    }
}

fn cubin(name: &str) -> Vec<u8> {
    fs::read(root("testdata/cubin").join(name)).unwrap()
}

#[test]
fn a_cubin_of_another_ptxas_is_caught_and_the_same_one_is_not() {
    let repo = Repo::new().with("k.cubin", cubin("hopper-12.4-sm_90a.cubin"));
    let (code, said) = repo.says(&["k.cubin"]);
    assert!(code == 2 && said.contains("there is no baseline"), "{said}");
    let (code, said) = repo.says(&["k.cubin", "--update"]);
    assert!(code == 0 && said.contains("records"), "{said}");
    let (code, said) = repo.says(&["k.cubin"]);
    assert!(code == 0 && said.starts_with("gate: pass"), "{said}");
    let recorded = fs::read(repo.path().join("ptxinspect.lock.json")).unwrap();
    repo.put("k.cubin", cubin("hopper-13.4-sm_90a.cubin"));
    let (code, said) = repo.says(&["k.cubin", "--ratchet"]);
    assert!(code == 1 && said.contains("recorded with ptxas 12.4, measured with ptxas 13.4.92"), "{said}");
    assert!(said.contains("spill instructions is 0 and not recorded") && said.contains("better"), "{said}");
    assert_eq!(recorded, fs::read(repo.path().join("ptxinspect.lock.json")).unwrap(), "a check writes nothing");
    repo.says(&["k.cubin", "--update"]);
    assert_eq!(repo.says(&["k.cubin"]).0, 0);
}

#[test]
fn what_cannot_be_told_is_never_a_pass() {
    let repo = Repo::new().with("k.cubin", cubin("hopper-13.4-sm_90a.cubin"));
    assert_eq!(repo.says(&["k.cubin", "--update"]).0, 0);
    let is_2 = |args: &[&str], why: &str| {
        let (code, said) = repo.says(args);
        assert!(code == 2 && said.contains(why), "{args:?}: {code}: {said}");
    };
    is_2(&["missing.cubin"], "cannot open");
    is_2(&["k.cubin", "--kernel", "nobody"], "matches no kernel");
    is_2(&["k.cubin", "--baseline", "other.json"], "there is no baseline");
    is_2(&["k.cubin", "--policy", "other.toml"], "cannot read the policy");
    is_2(&[], "nothing to measure");
    repo.put("ptxinspect.toml", "inputs = [\"*.cubin\", \"*.ptx\"]");
    is_2(&[], "'*.ptx' in inputs matches no file");
    repo.put("ptxinspect.toml", "inputs = [\"*.cubin\"]\n[metrics]\nregs = 1");
    is_2(&[], "is not a metric");
    repo.put("ptxinspect.toml", "inputs = [\"*.cubin\"]\n[[rule]]\nkernel = \"zz*\"\nbudgets = [\"registers <= 1\"]");
    is_2(&[], "matches no kernel");
    repo.put("ptxinspect.toml", "inputs = [\"*.cubin\"]");
    assert_eq!(repo.says(&[]).0, 0);
    repo.put("ptxinspect.toml", "arch = [\"sm_75\"]\ninputs = [{ path = \"*.cubin\", arch = [\"sm_9\"] }]");
    is_2(&[], "sm_9");
    repo.put("ptxinspect.toml", "arch = [\"sm_75\"]\ninputs = [{ path = \"*.cubin\", arch = [\"sm_90a\"] }]");
    assert_eq!(repo.says(&[]).0, 0);
    let lock = fs::read_to_string(repo.path().join("ptxinspect.lock.json")).unwrap();
    repo.put("ptxinspect.lock.json", lock.replace("lock/1", "lock/9"));
    is_2(&[], "this ptxinspect knows");
    repo.put("ptxinspect.lock.json", &lock[..lock.len() / 2]);
    is_2(&[], "not a baseline");
    // Broken code must not be recorded either.
    repo.put("ptxinspect.lock.json", &lock);
    repo.put("k.cubin", &cubin("hopper-13.4-sm_90a.cubin")[..1000]);
    is_2(&[], "k.cubin");
    is_2(&["--update"], "was not changed");
    assert_eq!(fs::read_to_string(repo.path().join("ptxinspect.lock.json")).unwrap(), lock);
}

#[test]
fn a_file_that_is_gone_is_said_and_a_folder_that_moved_is_not() {
    let repo = Repo::new()
        .with("k/a.cubin", cubin("hopper-13.4-sm_90a.cubin"))
        .with("k/b.cubin", cubin("functions-13.4-sm_75.cubin"));
    assert_eq!(repo.says(&["k/a.cubin", "k/b.cubin", "--update"]).0, 0);
    let (code, said) = repo.says(&["k/a.cubin"]);
    assert!(code == 0 && said.contains("1 recorded unit was not part of this run"), "{said}");
    fs::remove_file(repo.path().join("k/b.cubin")).unwrap();
    let (code, said) = repo.says(&["k/a.cubin"]);
    assert!(code == 1 && said.contains("was not among what was measured"), "{said}");
    // Outside the baseline's folder only what the inputs share is left out: a temporary folder has another name each time.
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("x.cubin");
    fs::write(&path, cubin("hopper-13.4-sm_90a.cubin")).unwrap();
    let other = Repo::new();
    assert_eq!(other.says(&[path.to_str().unwrap(), "--update"]).0, 0);
    let again = tempfile::tempdir().unwrap();
    let path = again.path().join("x.cubin");
    fs::write(&path, cubin("hopper-13.4-sm_90a.cubin")).unwrap();
    assert_eq!(other.says(&[path.to_str().unwrap()]).0, 0);
}

#[test]
fn every_format_says_it() {
    let repo = Repo::new().with("k.cubin", cubin("functions-12.0-sm_75.cubin"));
    repo.says(&["k.cubin", "--update"]);
    repo.put("ptxinspect.toml", "[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 4\"]");
    let said = |format: &str| {
        let output = repo.gate(&["k.cubin", "--format", format, "--write", "json=out.json"]);
        assert_eq!(output.status.code(), Some(1), "{format}: {}", stderr(&output));
        stdout(&output)
    };
    let sarif: Value = serde_json::from_str(&said("sarif")).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert!(sarif["runs"][0]["results"].as_array().unwrap().iter().any(|result| result["ruleId"] == "budget"));
    assert!(said("github").starts_with("::error file=k.cubin,line="));
    assert!(said("markdown").contains("**budget**"));
    assert!(said("junit").contains("<failure type=\"budget\""));
    assert!(said("text").contains("the budget is registers <= 4"));
    let json: Value = serde_json::from_slice(&fs::read(repo.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(json["outcome"], "fail");
}

/// The official schema is not part of this repository: `scripts/test` fetches it and says where it is.
#[test]
fn sarif_is_valid_by_the_official_schema() {
    let Some(path) = std::env::var_os("PTXINSPECT_SARIF_SCHEMA") else {
        eprintln!("SKIPPED: no PTXINSPECT_SARIF_SCHEMA; scripts/test fetches it");
        return;
    };
    // "^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$", the pattern of a language, has a bracket too many.
    let schema = fs::read_to_string(path).unwrap().replace("{2}]?$", "{2}$");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let schema = jsonschema::validator_for(&schema).expect("a JSON Schema");
    let repo = Repo::new().with("a b.cubin", cubin("functions-12.0-sm_75.cubin"));
    repo.says(&["a b.cubin", "--update"]);
    let check = |repo: &Repo, args: &[&str]| {
        let sarif: Value = serde_json::from_slice(&repo.gate(&[args, &["--format", "sarif"]].concat()).stdout).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&sarif).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}");
        sarif["runs"][0]["results"].as_array().unwrap().len()
    };
    assert_eq!(check(&repo, &["a b.cubin"]), 0);
    repo.put("ptxinspect.toml", "[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 4\"]\n[[rule]]\nkernel = \"zz\"\nbudgets = [\"registers <= 4\"]");
    assert!(check(&repo, &["a b.cubin"]) > 1);
    repo.put("a b.cubin", "\x7fELF");
    assert!(check(&repo, &["a b.cubin"]) > 0);
}

/// PTX of our own for an architecture, recorded, then changed.
fn changed(file: &str, arch: &str, change: impl Fn(&str) -> String) -> (i32, Value) {
    let text = fs::read_to_string(root("testdata/ptx").join(file)).unwrap();
    let repo = Repo::new().with(file, &text);
    let args = [file, "--arch", arch, "--ptxas", "13.4"];
    let (code, said) = repo.says(&[&args[..], &["--update"]].concat());
    assert_eq!(code, 0, "{said}");
    assert_eq!(repo.says(&args).0, 0);
    let new = change(&text);
    assert_ne!(new, text, "the change changes something");
    repo.put(file, new);
    (repo.says(&args).0, repo.verdict(&args))
}

#[test]
fn changes_that_change_nothing_pass() {
    if ptxas().is_none() {
        return;
    }
    let renamed = |text: &str| text.replace("%f", "%value");
    assert_eq!(changed("spills.ptx", "sm_80", renamed).0, 0);
    let moved = |text: &str| text.replacen("\n{\n", "\n// a word\n\n{\n\n\t// and another\n", 1);
    assert_eq!(changed("spills.ptx", "sm_80", moved).0, 0);
    let comments = |text: &str| format!("{text}\n// the end\n");
    assert_eq!(changed("hopper_warp_specialised.ptx", "sm_90a", comments).0, 0);
}

#[test]
fn the_old_input_explains_what_the_cache_does_not_know() {
    if ptxas().is_none() {
        return;
    }
    let text = fs::read_to_string(root("testdata/ptx/spills.ptx")).unwrap();
    let repo = Repo::new().with("spills.ptx", &text).with("old/spills.ptx", &text);
    let args = ["spills.ptx", "--arch", "sm_80", "--ptxas", "13.4", "--no-cache"];
    assert_eq!(repo.says(&[&args[..], &["--update"]].concat()).0, 0);
    // A comment moves every line: they are matched by what they say.
    repo.put("spills.ptx", format!("// moved\n{}", text.replace(".maxnreg 32", ".maxnreg 24")));
    let lines = |more: &[&str]| repo.verdict(&[&args[..], more].concat())["units"][0]["kernels"][0]["lines"].clone();
    assert!(lines(&[]).as_array().unwrap().iter().all(|line| line["spills_before"].is_null()));
    for old in ["old", "old/spills.ptx"] {
        let lines = lines(&["--old", old]);
        let lines = lines.as_array().unwrap();
        assert!(!lines.is_empty());
        for line in lines {
            let (before, after) = (line["before_line"].as_u64().unwrap(), line["after_line"].as_u64().unwrap());
            assert_eq!(before + 1, after, "{line}");
        }
    }
}

#[test]
fn changes_that_make_it_worse_are_caught_with_their_line() {
    if ptxas().is_none() {
        return;
    }
    let (code, verdict) = changed("spills.ptx", "sm_80", |text| text.replace(".maxnreg 32", ".maxnreg 24"));
    assert_eq!(code, 1);
    let spills =
        verdict["findings"].as_array().unwrap().iter().find(|finding| finding["metric"] == "spill_store_bytes");
    assert!(spills.unwrap()["ptx_line"].as_u64().unwrap() > 7, "{spills:?}");
    let patch = verdict["patch"].as_str().unwrap();
    assert!(patch.starts_with("--- a/ptxinspect.lock.json\n+++ b/ptxinspect.lock.json\n@@ "), "{patch}");
    // The recorded build is in the cache: the lines with more spills than before are named.
    let row = &verdict["units"][0]["kernels"][0];
    assert!(row["lines_from"].as_str().unwrap().contains("from the cache"), "{row}");
    let more = |line: &&Value| line["spills_after"].as_u64() > line["spills_before"].as_u64();
    assert!(row["lines"].as_array().unwrap().iter().filter(more).count() > 3, "{row}");
    // Without its launch bounds the warp-specialised kernel loses setmaxnreg.
    let unbounded = |text: &str| text.replace(".maxntid 384, 1, 1\n.minnctapersm 1\n", "");
    let (code, verdict) = changed("hopper_warp_specialised.ptx", "sm_90a", unbounded);
    assert_ne!(code, 0);
    let findings = verdict["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["message"].as_str().unwrap().contains("C7508")), "{findings:?}");
    let (code, verdict) = changed("saxpy.ptx", "sm_80", |text| text.replace("fma.rn.f32", "fma.rn.f3"));
    assert_eq!((code, &verdict["outcome"]), (2, &Value::from("error")));
    assert!(verdict["findings"][0]["ptx_line"].as_u64().is_some(), "{verdict}");
}

#[test]
fn cycles_of_the_hottest_loop_are_compared_where_the_policy_asks() {
    let Some(_) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let chain = fs::read_to_string(root("testdata/cost/chain.ptx")).unwrap();
    let launched = chain.replacen("\n{\n", "\n.maxntid 256\n{\n", 1);
    assert_ne!(chain, launched);
    let repo = Repo::new().with("chain.ptx", &launched);
    // Nobody asked: nothing is recorded.
    assert_eq!(repo.says(&["chain.ptx", "--update"]).0, 0);
    let baseline = || fs::read_to_string(repo.path().join("ptxinspect.lock.json")).unwrap();
    assert!(!baseline().contains("loop_cycles"));
    repo.put("ptxinspect.toml", "[metrics]\nloop_cycles = true\ninstructions = false\ncode_bytes = false\n");
    assert_eq!(repo.says(&["chain.ptx", "--update"]).0, 0);
    assert!(baseline().contains("loop_cycles"), "{}", baseline());
    assert_eq!(repo.says(&["chain.ptx"]).0, 0);
    // Four more multiplications a turn.
    let line = "  fma.rn.f32 %f1, %f1, %f2, %f3;\n";
    repo.put("chain.ptx", launched.replacen(line, &line.repeat(5), 1));
    let (status, said) = repo.says(&["chain.ptx"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("cycles of the hottest loop"), "{said}");
    // A launch that is not known leaves the cycles unknown, and what is unknown meets no budget.
    repo.put("chain.ptx", &chain);
    repo.put("ptxinspect.toml", "[[rule]]\nkernel = \"*\"\nbudgets = [\"loop_cycles <= 100000\"]\n");
    let (status, said) = repo.says(&["chain.ptx"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cycles of the hottest loop is not known") && said.contains("--threads"), "{said}");
}

#[test]
fn cycles_of_every_loop_are_compared() {
    let Some(_) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let two = fs::read_to_string(root("testdata/cost/two_loops.ptx")).unwrap();
    let repo = Repo::new().with("two.ptx", &two);
    repo.put("ptxinspect.toml", "[metrics]\nloop_cycles = true\ninstructions = false\ncode_bytes = false\n");
    assert_eq!(repo.says(&["two.ptx", "--update"]).0, 0);
    let baseline = fs::read_to_string(repo.path().join("ptxinspect.lock.json")).unwrap();
    assert_eq!(baseline.matches("\"shape\"").count(), 2, "{baseline}");
    // Lines move, nothing else: the loops are found again.
    repo.put("two.ptx", two.replacen("\n{\n", "\n{\n\n\n\n", 1));
    let (status, said) = repo.says(&["two.ptx"]);
    assert_eq!(status, 0, "{said}");
    // The loop that is not the hottest takes longer.
    let line = "  fma.rn.f32 %f1, %f1, %f2, %f3;\n";
    repo.put("two.ptx", two.replacen(line, &line.repeat(5), 1));
    let (status, said) = repo.says(&["two.ptx"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("cycles of the loop at line"), "{said}");
    assert!(!said.contains("cycles of the hottest loop"), "{said}");
    let verdict = repo.verdict(&["two.ptx"]);
    let loops = verdict["units"][0]["kernels"][0]["loops"].as_array().unwrap();
    assert_eq!((loops.len(), &loops[0]["outcome"]), (1, &Value::from("worse")), "{verdict}");
}

#[test]
fn cycles_of_an_architecture_that_nobody_measured_meet_no_budget() {
    let repo = Repo::new().with("a.cubin", cubin("functions-13.4-sm_75.cubin"));
    assert_eq!(repo.says(&["a.cubin", "--update"]).0, 0);
    repo.put("ptxinspect.toml", "[[rule]]\nkernel = \"*\"\nbudgets = [\"loop_cycles <= 100000\"]\n");
    let (status, said) = repo.says(&["a.cubin"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("is not known"), "{said}");
}
