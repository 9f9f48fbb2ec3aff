//! Two builds side by side, and many in a table.

mod support;

use std::fs;

use serde_json::Value;
use support::{ptxas, root, run, stderr, stdout};

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn file(path: &str) -> String {
    root(path).to_str().unwrap().to_owned()
}

fn fields(kernel: &Value) -> Vec<&str> {
    kernel["fields"].as_array().unwrap().iter().map(|change| change["field"].as_str().unwrap()).collect()
}

#[test]
fn two_cubins() {
    let (old, new) = (file("testdata/cubin/hopper-12.4-sm_90a.cubin"), file("testdata/cubin/hopper-13.4-sm_90a.cubin"));
    let difference = json(&["diff", &old, &new]);
    let kernel = &difference["units"][0]["kernels"][0];
    assert!(fields(kernel).contains(&"instructions.decoded"), "{kernel}");
    let sass = &kernel["sass"];
    assert!(sass["same"].as_u64() > Some(40) && sass["gone"].as_u64() > Some(0), "{sass}");
    assert_eq!(run(&["diff", &old, &new, "--exit-code"]).status.code(), Some(1));
    let same = run(&["diff", &old, &old, "--exit-code"]);
    assert_eq!(same.status.code(), Some(0));
    assert!(stdout(&same).contains("no difference"), "{}", stdout(&same));
}

/// Figures with what became of them, no paths of the JSON.
#[test]
fn people_read_figures_first() {
    let (old, new) =
        (file("testdata/cubin/culprits-12.4-sm_80.cubin"), file("testdata/cubin/culprits-12.9-sm_120.cubin"));
    let text = stdout(&run(&["diff", &old, &new, "--top", "3"]));
    assert!(!text.contains("resources.") && !text.contains("pressure."), "{text}");
    assert!(text.contains("better: ") && text.contains("worse: "), "{text}");
    let first = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(first("  registers ") < first("  live at most ") && first("  live at most ") < first("  instructions "));
    let found = json(&["diff", &old, &new]);
    let figures = found["units"][0]["kernels"][0]["figures"].as_array().unwrap().clone();
    assert!(figures.iter().any(|figure| figure["figure"] == "registers"), "{figures:?}");
}

#[test]
fn as_a_page() {
    let (old, new) = (file("testdata/cubin/hopper-12.4-sm_90a.cubin"), file("testdata/cubin/hopper-13.4-sm_90a.cubin"));
    let page = stdout(&run(&["diff", &old, &new, "--format", "html"]));
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(page.contains("default-src 'none'") && !page.contains("instructions.decoded"), "{page}");
    assert!(
        page.contains("<div class=\"figures\">") && (page.contains("worse: ") || page.contains("better: ")),
        "{page}"
    );
    assert!(page.contains("SASS before") && page.contains("SASS after"), "{page}");
    // A name is text, whatever it says.
    let folder = tempfile::tempdir().unwrap();
    let mut reports = Vec::new();
    for cubin in [&old, &new] {
        let report = stdout(&run(&[cubin, "--format", "json"]));
        let mut report: Value = serde_json::from_str(&report).unwrap();
        report["units"][0]["kernels"][0]["demangled"] = "<script>alert(1)</script>".into();
        let path = folder.path().join(format!("{}.json", reports.len()));
        fs::write(&path, report.to_string()).unwrap();
        reports.push(path.to_str().unwrap().to_owned());
    }
    let page = stdout(&run(&["diff", &reports[0], &reports[1], "--format", "html"]));
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"), "{page}");
}

#[test]
fn two_reports_and_a_report_with_a_cubin() {
    let folder = tempfile::tempdir().unwrap();
    let mut reports = Vec::new();
    for name in ["hopper-12.4-sm_90a", "hopper-13.4-sm_90a"] {
        let path = folder.path().join(format!("{name}.json")).to_str().unwrap().to_owned();
        let cubin = file(&format!("testdata/cubin/{name}.cubin"));
        let made = run(&[&cubin, "--format", "json", "-o", &path]);
        assert!(made.status.success(), "{}", stderr(&made));
        reports.push(path);
    }
    let difference = json(&["diff", &reports[0], &reports[1]]);
    assert!(fields(&difference["units"][0]["kernels"][0]).contains(&"instructions.decoded"));
    let cubin = file("testdata/cubin/hopper-13.4-sm_90a.cubin");
    assert_eq!(run(&["diff", &reports[1], &cubin, "--exit-code"]).status.code(), Some(0));
    let broken = folder.path().join("broken.json");
    fs::write(&broken, "{\"schema\": \"other/1\", \"units\": []}").unwrap();
    let output = run(&["diff", broken.to_str().unwrap(), &cubin]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("other/1"), "{}", stderr(&output));
}

#[test]
fn libraries_of_a_folder_are_compared_with_their_namesakes() {
    let folder = tempfile::tempdir().unwrap();
    let library = std::fs::read(root("testdata/container/exec.o")).unwrap();
    let sides = [("old", ["cuda12.o", "cuda13.o"]), ("new", ["cuda13.o", "cuda14.o"])].map(|(side, names)| {
        let side = folder.path().join(side);
        std::fs::create_dir(&side).unwrap();
        names.iter().for_each(|name| std::fs::write(side.join(name), &library).unwrap());
        side.to_str().unwrap().to_owned()
    });
    let found = json(&["diff", &sides[0], &sides[1]]);
    let names = |list: &Value, key: &str| -> Vec<String> {
        let input = |side: &Value| side["input"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let mut names: Vec<String> =
            list.as_array().unwrap().iter().map(|one| input(if key.is_empty() { one } else { &one[key] })).collect();
        names.dedup();
        names
    };
    assert_eq!(
        (names(&found["units"], "before"), names(&found["units"], "after")),
        (vec!["cuda13.o".to_owned()], vec!["cuda13.o".to_owned()])
    );
    assert_eq!(names(&found["only_before"], ""), ["cuda12.o"]);
    assert_eq!(names(&found["only_after"], ""), ["cuda14.o"]);
    let text = stdout(&run(&["diff", &sides[0], &sides[1]]));
    assert!(text.contains("\ngone: ") && text.contains("\nnew: "), "{text}");
}

#[test]
fn one_input_needs_two_ways() {
    let cubin = file("testdata/cubin/hopper-13.4-sm_90a.cubin");
    let output = run(&["diff", &cubin]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("nothing to compare"), "{}", stderr(&output));
}

#[test]
fn renamed_registers_are_no_difference_and_moved_lines_are_matched() {
    if ptxas().is_none() {
        return;
    }
    let old = file("testdata/ptx/spills.ptx");
    let text = fs::read_to_string(&old).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new.ptx");
    let with = |content: String| {
        fs::write(&new, content).unwrap();
        json(&["diff", &old, new.to_str().unwrap(), "--arch", "sm_80", "--ptxas", "13.4"])["units"][0]["kernels"][0]
            .clone()
    };
    let same = with(format!("// one line more\n{}", text.replace("%f", "%value")));
    assert!(fields(&same).is_empty() && same["lines"].as_array().unwrap().is_empty(), "{same}");
    assert_eq!((&same["sass"]["gone"], &same["sass"]["new"]), (&Value::from(0), &Value::from(0)));
    let worse = with(format!("// one line more\n{}", text.replace(".maxnreg 32", ".maxnreg 24")));
    assert!(fields(&worse).contains(&"resources.spill_store_bytes"), "{worse}");
    for line in worse["lines"].as_array().unwrap().iter().filter(|line| !line["before_line"].is_null()) {
        if let Some(after) = line["after_line"].as_u64() {
            assert_eq!(line["before_line"].as_u64().unwrap() + 1, after);
        }
    }
    let ways = json(&["diff", &old, "--arch", "sm_80,sm_90", "--ptxas", "13.4"]);
    assert_eq!(ways["units"][0]["after"]["arch"], "sm_90");
    let flags = json(&["diff", &old, "--arch", "sm_80", "--ptxas", "13.4", "--after-flags=-O1"]);
    assert!(flags["units"][0]["after"]["flags"].as_array().unwrap().contains(&Value::from("-O1")));
    let args = ["diff", &old, "--arch", "sm_80", "--ptxas", "13.4", "--after-flags=--maxrregcount=64"];
    let said = stderr(&run(&args));
    assert!(said.contains("--maxrregcount does nothing to spill_storm: ptxas obeys"), "{said}");
}

#[test]
fn a_sweep_rules_over_the_directives() {
    if ptxas().is_none() {
        return;
    }
    let input = file("testdata/ptx/spills.ptx");
    let args = ["matrix", &input, "--arch", "sm_80", "--ptxas", "13.4", "--sweep", "maxrregcount=32,40,64"];
    let matrix = json(&args);
    let registers: Vec<_> =
        matrix["cells"].as_array().unwrap().iter().map(|cell| &cell["kernels"][0]["figures"]["registers"]).collect();
    assert_eq!(registers, [32, 40, 64], "its .maxnreg is 32");
    assert!(matrix["cells"].as_array().unwrap().iter().all(|cell| cell["overrides"] == true));
    assert!(matrix["cells"][0]["kernels"][0]["ruled_by"].is_null());
    assert!(stdout(&run(&args)).contains("replace the kernel's own directives"), "{}", stdout(&run(&args)));
    let plain = json(&["matrix", &input, "--arch", "sm_80", "--ptxas", "13.4", "--sweep", "opt-level=2,3"]);
    assert_eq!(plain["cells"][0]["overrides"], false);
}

#[test]
fn a_matrix_measures_every_cell_and_says_what_cannot_be() {
    if ptxas().is_none() {
        return;
    }
    let input = file("testdata/ptx/saxpy.ptx");
    let args = ["matrix", &input, "--arch", "sm_80,sm_90,sm_35", "--ptxas", "13.4", "--sweep", "opt-level=1,2,3"];
    let matrix = json(&args);
    let cells = matrix["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    for cell in cells {
        let old = cell["arch"] == "sm_35";
        assert_eq!(cell["error"].is_null(), !old, "{cell}");
        assert_eq!(cell["kernels"].as_array().unwrap().len(), usize::from(!old), "{cell}");
    }
    let text = stdout(&run(&args));
    assert!(text.contains("cannot compile") && text.contains("opt-level=3"), "{text}");
    let bisected = json(&["matrix", &input, "--arch", "sm_80", "--ptxas", "13.4,13.4.92", "--bisect", "registers"]);
    assert!(bisected["bisections"][0]["first_new"].is_null(), "{bisected}");
    let none = run(&["matrix", &input, "--arch", "sm_35", "--ptxas", "13.4"]);
    assert_eq!(none.status.code(), Some(2), "no cell at all is no answer");
}

/// A cubin with some bytes replaced wherever they are.
fn changed(name: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = fs::read(file(&format!("testdata/cubin/{name}"))).unwrap();
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "{name}");
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    bytes
}

#[test]
fn a_kernel_under_another_name_is_found_by_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let name = "culprits-13.4-sm_90.cubin";
    let renamed = changed(name, b"loaded_too_early", b"loaded_very_late");
    // Two of them: one alone would be paired as what is left over.
    let mut renamed_twice = renamed.clone();
    for at in 0..renamed.len() - 16 {
        if renamed[at..].starts_with(b"table_of_factors") {
            renamed_twice[at..at + 16].copy_from_slice(b"table_of_numbers");
        }
    }
    let new = folder.path().join("new.cubin");
    fs::write(&new, renamed_twice).unwrap();
    let old = file(&format!("testdata/cubin/{name}"));
    let told = json(&["diff", &old, new.to_str().unwrap()]);
    let kernels = told["units"][0]["kernels"].as_array().unwrap();
    let by_code: Vec<(&str, &str)> = kernels
        .iter()
        .filter(|kernel| kernel["paired_by"] == "code")
        .map(|kernel| (kernel["before_name"].as_str().unwrap(), kernel["name"].as_str().unwrap()))
        .collect();
    assert_eq!(by_code.len(), 2, "{by_code:?}");
    assert!(by_code.contains(&("loaded_too_early", "loaded_very_late")), "{by_code:?}");
    assert!(kernels.iter().all(|kernel| kernel["side"] == "both" && kernel["sass"]["likeness"] == "identical"));
    let text = stdout(&run(&["diff", &old, new.to_str().unwrap()]));
    assert!(text.contains("renamed, the same code"), "{text}");
}

/// Every bit of an instruction that ptxas made is flipped in turn: no such change is called the same.
#[test]
fn no_change_of_an_instruction_is_called_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let old = file("testdata/cubin/culprits-13.4-sm_90.cubin");
    let bytes = fs::read(&old).unwrap();
    let exit = [0x4d, 0x79, 0, 0, 0, 0, 0, 0, 0, 0];
    let at = bytes.windows(exit.len()).position(|window| window == exit).expect("an EXIT") - 64;
    let new = folder.path().join("new.cubin");
    // Control bits aside: the last 23 bits but the reuse marks say when, not what.
    for bit in (0..4 * 128).filter(|bit| bit % 128 < 105).step_by(5) {
        let mut changed = bytes.clone();
        changed[at + bit / 8] ^= 1 << (bit % 8);
        fs::write(&new, &changed).unwrap();
        let output = run(&["diff", &old, new.to_str().unwrap(), "--exit-code"]);
        assert_eq!(output.status.code(), Some(1), "bit {bit}: {}", stdout(&output));
    }
}
