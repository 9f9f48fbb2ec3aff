//! The program as a user runs it, on our own PTX and with a real ptxas.

mod support;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{ptxas, root, run, samples, stderr, stdout};

/// A report as JSON.
fn report(args: &[&str]) -> Value {
    let output = run(&[args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// `name → (registers, stack, spill stores, spill loads)` as `ptxas -v` prints them, read here by other means than the
/// program's own.
fn ptxas_says(log: &str) -> Vec<(String, [Option<u64>; 4])> {
    let number_before = |line: &str, what: &str| -> Option<u64> {
        line.split(what).next()?.split_whitespace().next_back()?.parse().ok()
    };
    let mut functions: Vec<(String, [Option<u64>; 4])> = Vec::new();
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            functions.push((name.trim().to_owned(), [None; 4]));
        } else if line.contains("bytes stack frame") {
            let last = functions.last_mut().expect("a function");
            for (at, what) in [" bytes stack frame", " bytes spill stores", " bytes spill loads"].iter().enumerate() {
                last.1[at + 1] = number_before(line, what);
            }
        } else if line.contains("Used ") {
            functions.last_mut().expect("a function").1[0] = number_before(line, " registers");
        }
    }
    functions
}

#[test]
fn figures_equal_ptxas_on_every_sample() {
    let Some(ptxas) = ptxas() else { return };
    let schema: Value =
        serde_json::from_slice(&std::fs::read(root("docs/schema/report-v1.schema.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).expect("a JSON Schema");
    let folder = tempfile::tempdir().unwrap();
    for (file, arch) in samples() {
        let cubin = folder.path().join("out.cubin");
        let direct = Command::new(ptxas)
            .args(["-v", "-lineinfo", "-arch", &arch, path(&file), "-o", path(&cubin)])
            .output()
            .unwrap();
        assert!(direct.status.success(), "{}: {}", file.display(), stderr(&direct));
        let report = report(&[path(&file), "--arch", &arch, "--ptxas", path(ptxas)]);
        let errors: Vec<String> =
            schema.iter_errors(&report).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", file.display());
        let unit = &report["units"][0];
        assert_eq!(unit["problems"], Value::Array(Vec::new()), "{}", file.display());
        assert_eq!(unit["unparsed_log"], Value::Array(Vec::new()), "{}", file.display());
        let kernels = unit["kernels"].as_array().unwrap();
        for (name, [registers, stack, stores, loads]) in ptxas_says(&stderr(&direct)) {
            let found: Vec<&Value> = kernels.iter().filter(|kernel| kernel["name"] == *name).collect();
            assert!(!found.is_empty(), "{}: no {name}", file.display());
            let same = |kernel: &Value| {
                let resources = &kernel["resources"];
                (registers.is_none() || resources["registers"].as_u64() == registers)
                    && resources["stack_bytes"].as_u64() == stack
                    && resources["spill_store_bytes"].as_u64() == stores
                    && resources["spill_load_bytes"].as_u64() == loads
            };
            assert!(found.iter().any(|kernel| same(kernel)), "{}: {name}: {found:?}", file.display());
        }
        // The same cubin read alone says the same of itself.
        let alone = self::report(&[path(&cubin)]);
        for (kernel, read) in kernels.iter().zip(alone["units"][0]["kernels"].as_array().unwrap()) {
            assert_eq!(kernel["name"], read["name"]);
            for field in ["registers", "barriers", "smem_bytes", "code_bytes"] {
                assert_eq!(kernel["resources"][field], read["resources"][field], "{}: {field}", file.display());
            }
            // What a device function keeps for its caller is marked nowhere: only ptxas's figures tell it from other local memory.
            if read["spills"].is_null() {
                assert_eq!(kernel["kind"], "func");
                continue;
            }
            assert_eq!(kernel["lines"], read["lines"], "{}", file.display());
        }
    }
}

#[test]
fn every_instruction_is_accounted_for_once() {
    if ptxas().is_none() {
        return;
    }
    for (file, arch) in samples() {
        let report = report(&[path(&file), "--arch", &arch, "--ptxas", "13.4"]);
        for kernel in report["units"][0]["kernels"].as_array().unwrap() {
            let Some(total) = kernel["instructions"]["total"].as_u64() else { continue };
            let mut pcs: Vec<u64> = Vec::new();
            for line in kernel["lines"].as_array().unwrap() {
                pcs.extend(line["pcs"].as_array().unwrap().iter().filter_map(Value::as_u64));
            }
            pcs.extend(kernel["unmapped_pcs"].as_array().unwrap().iter().filter_map(Value::as_u64));
            pcs.sort_unstable();
            pcs.dedup();
            assert_eq!(pcs.len() as u64, total, "{}: {}", file.display(), kernel["name"]);
        }
    }
}

#[test]
fn same_input_same_bytes() {
    if ptxas().is_none() {
        return;
    }
    let files: Vec<String> = samples().iter().map(|(file, _)| path(file).to_owned()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for format in ["text", "json"] {
        let args = [&files[..], &["--ptxas", "13.4", "--format", format]].concat();
        let (one, two) = (run(&args), run(&[&args[..], &["-j", "1"]].concat()));
        assert!(one.status.success(), "{}", stderr(&one));
        assert!(one.stdout == two.stdout, "{format} differs from one run to the next");
        let temporary = std::env::temp_dir();
        assert!(
            !stdout(&one).contains(&format!("{}/ptxinspect", temporary.display())),
            "a temporary path is in {format}"
        );
    }
}

#[test]
fn an_error_of_ptxas_is_shown_at_its_line() {
    if ptxas().is_none() {
        return;
    }
    let mut seen = 0;
    for entry in std::fs::read_dir(root("testdata/ptx/bad")).unwrap() {
        let file = entry.unwrap().path();
        if file.ends_with("nul_at_end.ptx") || file.ends_with("byte_order_mark.ptx") {
            // ptxas refuses them; the program mends a copy, which `standard_input_and_what_trips_ptxas` checks.
            continue;
        }
        let output = run(&[path(&file), "--arch", "sm_90a", "--ptxas", "13.4"]);
        assert_eq!(output.status.code(), Some(2), "{}", file.display());
        assert!(stdout(&output).is_empty(), "{}: {}", file.display(), stdout(&output));
        assert!(stderr(&output).contains("error"), "{}", file.display());
        if stderr(&output).contains(&format!("--> {}:", file.display())) {
            seen += 1;
        }
    }
    assert!(seen > 0, "no error had a line");
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    if ptxas().is_none() {
        return;
    }
    let good = root("testdata/ptx/saxpy.ptx");
    let output = run(&[path(&good), "no-such-file.ptx", "--ptxas", "13.4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("saxpy"));
    assert!(stderr(&output).contains("cannot open no-such-file.ptx"), "{}", stderr(&output));
}

#[test]
fn standard_input_and_what_trips_ptxas() {
    if ptxas().is_none() {
        return;
    }
    let text = std::fs::read_to_string(root("testdata/ptx/saxpy.ptx")).unwrap();
    let crlf = text.replace('\n', "\r\n");
    for (bytes, note) in [
        (text.clone().into_bytes(), None),
        ([text.as_bytes(), b"\0"].concat(), Some("NUL")),
        ([b"\xef\xbb\xbf", text.as_bytes()].concat(), Some("byte-order mark")),
        (crlf.into_bytes(), None),
    ] {
        let mut child = support::program()
            .args(["-", "--ptxas", "13.4", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{note:?}: {}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["units"][0]["input"], "<stdin>");
        if let Some(note) = note {
            let prepared = report["units"][0]["prepared"].to_string();
            assert!(prepared.contains(note), "{prepared}");
        }
    }
}

#[test]
fn output_goes_whole_to_a_file() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.txt");
    let file = root("testdata/ptx/saxpy.ptx");
    assert!(run(&[path(&file), "--ptxas", "13.4", "-o", path(&out)]).status.success());
    assert!(std::fs::read_to_string(&out).unwrap().contains("saxpy"));
    let nowhere = folder.path().join("no/such/folder/report.txt");
    let output = run(&[path(&file), "--ptxas", "13.4", "-o", path(&nowhere)]);
    assert_eq!(output.status.code(), Some(2));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "something was left behind");
}

#[test]
fn denied_advisories_are_findings() {
    if ptxas().is_none() {
        return;
    }
    let file = root("testdata/ptx/hopper_setmaxnreg_dropped.ptx");
    let base = [path(&file), "--ptxas", "13.4"];
    assert_eq!(run(&base).status.code(), Some(0));
    assert_eq!(run(&[&base[..], &["--deny", "C7508"]].concat()).status.code(), Some(1));
    assert_eq!(run(&[&base[..], &["--deny", "advisories", "--allow", "c7508"]].concat()).status.code(), Some(0));
}

#[test]
fn what_was_denied_is_the_last_line() {
    if ptxas().is_none() {
        return;
    }
    let file = root("testdata/ptx/spills.ptx");
    for (word, said) in
        [("spills", "denied: spill stores (B) 496 (spill_storm)"), ("stack", "denied: stack (B) 256 (spill_storm)")]
    {
        let output = run(&[path(&file), "--ptxas", "13.4", "--deny", word]);
        assert_eq!(output.status.code(), Some(1), "{word}");
        assert_eq!(stderr(&output).lines().last(), Some(said));
        let output = run(&[path(&file), "--ptxas", "13.4", "--deny", word, "--allow", word]);
        assert_eq!(output.status.code(), Some(0), "{word}");
    }
    let fine = root("testdata/ptx/saxpy.ptx");
    assert_eq!(run(&[path(&fine), "--ptxas", "13.4", "--deny", "spills,stack"]).status.code(), Some(0));
}

/// A kernel whose dynamic shared memory, or whose block size, only the launch knows.
#[test]
fn occupancy_says_nothing_that_the_launch_could_overturn() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    let kernel = |name: &str, bounds: &str| {
        format!(
            ".visible .entry {name}(.param .u64 p)\n{bounds}\n{{ .reg .u64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; \
             ld.shared.b32 %r, [dynamic]; st.global.b32 [%d], %r; ret; }}\n"
        )
    };
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n";
    std::fs::write(&ptx, format!("{head}{}{}", kernel("sized", ".reqntid 256, 1, 1"), kernel("unsized", ""))).unwrap();
    let made = Command::new(ptxas).args(["-arch", "sm_90", path(&ptx), "-o", path(&cubin)]).status().unwrap();
    assert!(made.success());
    let find = |report: &Value, name: &str| {
        let kernels = report["units"][0]["kernels"].as_array().unwrap().clone();
        kernels.into_iter().find(|kernel| kernel["name"] == name).unwrap()["occupancy"].clone()
    };
    for input in [&ptx, &cubin] {
        let unknown = report(&[path(input), "--ptxas", "13.4"]);
        let sized = find(&unknown, "sized");
        assert_eq!(sized["missing"], serde_json::json!(["smem_dynamic"]), "{sized}");
        assert!(sized["blocks_per_sm"].is_null() && sized["next_step"].is_null() && sized["limiter"].is_null());
        assert_eq!(sized["by_smem_dynamic"][0]["blocks_per_sm"], 8, "{sized}");
        assert_eq!(find(&unknown, "unsized")["missing"], serde_json::json!(["threads", "smem_dynamic"]));
        let known = report(&[path(input), "--ptxas", "13.4", "--smem-dynamic", "163840", "--threads", "128"]);
        for name in ["sized", "unsized"] {
            let occupancy = find(&known, name);
            assert_eq!(
                (&occupancy["blocks_per_sm"], &occupancy["limiter"]),
                (&1.into(), &"shared memory".into()),
                "{name}"
            );
        }
        let text = stdout(&run(&[path(input), "--ptxas", "13.4"]));
        let sentences = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            sentences.contains("depends on the dynamic shared memory, which the launch sets: give --smem-dynamic."),
            "{text}"
        );
        assert!(sentences.contains("give --threads and --smem-dynamic."), "{text}");
        assert!(!sentences.contains("arithmetic"), "{text}");
    }
}

/// A step of occupancy is advice only where ptxas has compiled it, and setmaxnreg still has its registers.
#[test]
fn a_step_that_is_tried_says_what_ptxas_makes_of_it() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (hopper, spills) = (root("testdata/ptx/hopper_warp_specialised.ptx"), folder.path().join("spills.ptx"));
    let text = std::fs::read_to_string(root("testdata/ptx/spills.ptx")).unwrap();
    std::fs::write(&spills, text.replace(".maxnreg 32", "")).unwrap();
    let tried = |file: &std::path::Path, more: &[&str]| {
        let args = [&[path(file), "--ptxas", "13.4", "--smem-dynamic", "0"], more].concat();
        let text = stdout(&run(&args)).split_whitespace().collect::<Vec<_>>().join(" ");
        (report(&args)["units"][0]["kernels"][0]["occupancy"].clone(), text)
    };
    let (untried, text) = tried(&spills, &[]);
    assert!(untried["next_step"]["registers"].is_u64() && untried["next_step_tried"].is_null(), "{untried}");
    assert!(text.contains("(arithmetic: --try-step asks ptxas whether it can, and what it spills)"), "{text}");

    let (spilt, text) = tried(&spills, &["--try-step"]);
    let (step, made) = (&spilt["next_step"], &spilt["next_step_tried"]);
    assert_eq!((&made["compiles"], &made["message"]), (&true.into(), &Value::Null), "{made}");
    assert_eq!(made["blocks_per_sm"], step["blocks_per_sm"]);
    assert!(made["registers"].as_u64() <= step["registers"].as_u64(), "{spilt}");
    let flag = format!("--maxrregcount={}", step["registers"]);
    let own = ["--format", "json", "--", &flag, "--override-directive-values"];
    let held = stdout(&run(&[&[path(&spills), "--ptxas", "13.4"], &own[..]].concat()));
    let held: Value = serde_json::from_str(&held).unwrap();
    let resources = &held["units"][0]["kernels"][0]["resources"];
    assert_eq!(made["spill_store_bytes"], resources["spill_store_bytes"]);
    assert_eq!(made["spill_load_bytes"], resources["spill_load_bytes"]);
    assert!(text.contains(&format!("Held to {} registers a thread, ", step["registers"])), "{text}");

    let (refused, text) = tried(&hopper, &["--try-step"]);
    assert_eq!(refused["next_step_tried"]["compiles"], false, "{refused}");
    assert!(refused["next_step_tried"]["message"].as_str().unwrap().starts_with("C7602: "), "{refused}");
    assert!(text.contains("ptxas cannot compile it with the 80 registers a thread that 2 blocks would need (C7602)."));

    // It compiles, but the consumers' setmaxnreg.inc then waits for registers that the block does not have.
    let (hangs, text) = tried(&hopper, &["--try-step", "--threads", "256"]);
    assert_eq!(hangs["next_step_tried"]["compiles"], true, "{hangs}");
    assert!(text.contains("but setmaxnreg then can never be satisfied"), "{text}");
}

/// What a kernel calls is told beside its own figures; kernels that spill come before those that do not.
#[test]
fn what_a_kernel_calls_and_what_spills_is_told_first() {
    if ptxas().is_none() {
        return;
    }
    let words = |output| stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    let calls = words(run(&[path(&root("testdata/ptx/device_functions.ptx")), "--arch", "sm_90", "--ptxas", "13.4"]));
    assert!(calls.contains("fibonacci, which it calls, spills registers: 24 B stored, 24 B read back"), "{calls}");
    let several = words(run(&[path(&root("testdata/ptx/several_entries.ptx")), "--ptxas", "13.4"]));
    assert!(several.contains("in its own code, and 4 in weigh, which it calls"), "{several}");

    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.ptx");
    let (first, second) = (root("testdata/ptx/several_entries.ptx"), root("testdata/ptx/spills.ptx"));
    let read = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    let second = read(&second);
    std::fs::write(&both, format!("{}\n{}", read(&first), &second[second.find(".visible").unwrap()..])).unwrap();
    let text = stdout(&run(&[path(&both), "--ptxas", "13.4"]));
    let at = |name: &str| text.find(&format!("\n{name}  entry")).unwrap_or_else(|| panic!("{name} in {text}"));
    assert!(at("spill_storm") < at("first") && at("first") < at("second") && at("second") < at("third"), "{text}");
    assert!(text.contains("spills in 1 of 6 kernels and device functions, which come first"), "{text}");
    let hopper = root("testdata/ptx/hopper_warp_specialised.ptx");
    let little = words(run(&[path(&hopper), "--ptxas", "13.4", "--smem-dynamic", "1000"]));
    assert!(
        little.contains("1,000 B of dynamic shared memory is too little: the kernel touches at least 131,072 B"),
        "{little}"
    );
    // Launched with 80, the consumers would wait for ever for the registers that they ask for.
    assert!(little.contains("blocks/SM 1 now, none from 169 registers a thread on"), "{little}");
    // ptxas obeys the bounds of the kernel's own.
    let spills = root("testdata/ptx/spills.ptx");
    let asked = run(&[path(&spills), "--ptxas", "13.4", "--", "--maxrregcount", "64"]);
    assert!(stderr(&asked).contains("--maxrregcount does nothing to spill_storm"), "{}", stderr(&asked));
}

/// A comparison makes no register: what stands at its line is an operand that ptxas computed for it.
#[test]
fn the_maker_of_a_value_makes_values() {
    if ptxas().is_none() {
        return;
    }
    let file = root("testdata/ptx/hopper_warp_specialised.ptx");
    let report = report(&[path(&file), "--arch", "sm_90a", "--ptxas", "13.4"]);
    let rows = report["units"][0]["kernels"][0]["live_at_peak"].as_array().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut operands = 0;
    for row in rows {
        let line = row["ptx_line"].as_u64().unwrap() as usize;
        let statement = text.lines().nth(line - 1).unwrap();
        assert_eq!(row["is_operand"], statement.contains("setp"), "line {line}: {statement}");
        operands += usize::from(row["is_operand"] == true);
    }
    // The trip count is compared, and it is the parameter all the same.
    assert_eq!((rows[0]["registers"].as_array().unwrap().len(), operands), (64, 0));
}

#[test]
fn a_bare_cubin_has_the_spills_that_ptxas_reports() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (root("testdata/ptx/spills.ptx"), folder.path().join("spills.cubin"));
    let made = Command::new(ptxas).args(["-arch", "sm_80", path(&ptx), "-o", path(&cubin)]).status().unwrap();
    assert!(made.success());
    let of = |report: &Value| {
        let resources = &report["units"][0]["kernels"][0]["resources"];
        (resources["spill_store_bytes"].clone(), resources["spill_load_bytes"].clone())
    };
    let compiled = of(&report(&[path(&ptx), "--ptxas", "13.4"]));
    assert_eq!(of(&report(&[path(&cubin)])), compiled);
    assert_eq!(compiled, (496.into(), 556.into()));
}

#[test]
fn questions_that_cannot_be_answered_exit_2() {
    let good = root("testdata/ptx/saxpy.ptx");
    for (args, expected) in [
        (&["--arch", "sm_nope"][..], "is not an architecture"),
        (&["--ptxas", "/no/such/ptxas"], "/no/such/ptxas"),
        (&["--timeout", "0"], "--timeout 0"),
        (&["-j", "0"], "-j 0"),
        (&["--format", "yaml"], "yaml"),
    ] {
        let output = run(&[&[path(&good)], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["explain", "C9999"]).status.code(), Some(2));
    assert!(run(&["--help"]).status.success());
    assert!(run(&["man"]).status.success());
    assert!(run(&["completions", "bash"]).status.success());
    assert!(stdout(&run(&["explain", "c7508"])).contains(".minnctapersm"));
}

#[test]
fn no_ptxas_anywhere_says_why_none_was_fetched() {
    let nothing = tempfile::tempdir().unwrap();
    for (args, expected) in [(&[][..], "pip or uv"), (&["--offline"][..], "ptxinspect toolchain install")] {
        let output = support::program()
            .arg(root("testdata/ptx/saxpy.ptx"))
            .args(args)
            .env("PTXINSPECT_TOOLCHAINS", nothing.path())
            .env("PATH", nothing.path())
            .env("HOME", nothing.path())
            .output()
            .unwrap();
        if output.status.success() {
            eprintln!("SKIPPED: this machine has a CUDA toolkit in its default place");
            return;
        }
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn a_machine_without_ptxas_gets_the_newest() {
    if ptxas().is_none() {
        return;
    }
    let nothing = tempfile::tempdir().unwrap();
    let output = support::program()
        .arg(root("testdata/ptx/saxpy.ptx"))
        .env("PTXINSPECT_TOOLCHAINS", nothing.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let (said, report) = (stderr(&output), stdout(&output));
    // A ptxas of the machine's own comes first.
    assert!(said.contains("is installed") || !report.contains("managed"), "{said}{report}");
}

/// What is wrong stands right under the name, with what explains it.
#[test]
fn the_worst_news_comes_first() {
    if ptxas().is_none() {
        return;
    }
    let text = stdout(&run(&[path(&root("testdata/ptx/hopper_setmaxnreg_dropped.ptx")), "--ptxas", "13.4"]));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("unbounded  entry") < at("warning PI101"), "{text}");
    assert!(at("warning PI101") < at("performance C7508"), "{text}");
    assert!(at("more: ptxinspect explain C7508") < at("uses 58 registers"), "{text}");
}

#[test]
fn the_manual_has_a_page_for_every_command_and_every_schema_prints() {
    assert!(stdout(&run(&["man", "diff"])).contains("ptxinspect\\-diff"));
    assert_eq!(run(&["man", "nothing"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", "--all", path(folder.path())]).status.success());
    let names = stdout(&run(&["--help"]));
    let names = names.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(names.contains(&"annotate") && names.contains(&"schema"), "{names:?}");
    for name in names.iter().filter(|name| !name.is_empty()) {
        assert!(folder.path().join(format!("ptxinspect-{name}.1")).exists(), "{name}");
    }
    let listed = stdout(&run(&["schema"]));
    for name in listed.lines() {
        let schema: Value = serde_json::from_str(&stdout(&run(&["schema", name]))).unwrap();
        assert!(schema["title"].as_str().is_some_and(|title| title.contains(name)), "{schema}");
    }
    let page: Value = serde_json::from_str(&stdout(&run(&["explain", "pi102", "--format", "json"]))).unwrap();
    assert_eq!(page["pages"][0]["code"], "PI102");
}

/// After `--kernel` the shell offers the kernels of the files on the line, and nothing that it could take for more than a word.
#[test]
fn bash_completes_the_kernels_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (script, ptx) = (folder.path().join("completion.bash"), folder.path().join("k.ptx"));
    std::fs::write(&script, run(&["completions", "bash"]).stdout).unwrap();
    let kernel = |name: &str| format!(".visible .entry {name}() {{ ret; }}\n");
    let kernels: String = ["gemm_a", "gemm_b", "other", "gemm_$x"].map(kernel).concat();
    std::fs::write(&ptx, format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernels}")).unwrap();
    let asked = format!(
        "source {}; COMP_WORDS=(ptxinspect {} --kernel gem); COMP_CWORD=3; \
         _ptxinspect_or_kernels {} gem --kernel; echo \"${{COMPREPLY[@]}}\"",
        path(&script),
        path(&ptx),
        env!("CARGO_BIN_EXE_ptxinspect")
    );
    let Ok(answer) = Command::new("bash").args(["--norc", "-c", &asked]).output() else {
        eprintln!("SKIPPED: there is no bash");
        return;
    };
    assert_eq!(stdout(&answer).trim(), "gemm_a gemm_b", "{}", support::stderr(&answer));
}

/// A folder with a file of kernels and the program by its name, to be found by a shell.
fn shell_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kernel = |name: &str| format!(".visible .entry {name}() {{ ret; }}\n");
    let kernels: String = ["gemm_a", "gemm_b", "other"].map(kernel).concat();
    let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernels}");
    std::fs::write(folder.path().join("k.ptx"), text).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ptxinspect"), folder.path().join("ptxinspect")).unwrap();
    folder
}

/// A shell in that folder, which finds the program.
fn shell(name: &str, folder: &std::path::Path) -> Command {
    let mut command = Command::new("timeout");
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&old))).unwrap();
    command.args(["60", name]).current_dir(folder).env("PATH", path).env("HOME", folder);
    command
}

fn has_shell(name: &str) -> bool {
    let found = Command::new("timeout").args(["20", name, "-c", "true"]).output().is_ok_and(|ran| ran.status.success());
    if !found {
        eprintln!("SKIPPED: there is no {name}");
    }
    found
}

/// Commands, values and kernels, as fish offers them.
#[test]
fn fish_completes_commands_values_and_kernels() {
    if !has_shell("fish") {
        return;
    }
    let folder = shell_folder();
    std::fs::write(folder.path().join("c.fish"), run(&["completions", "fish"]).stdout).unwrap();
    for (line, wanted) in [
        ("ptxinspect tu", &["tune"][..]),
        ("ptxinspect k.ptx --kernel gem", &["gemm_a", "gemm_b"]),
        ("ptxinspect tune k.ptx --bud", &["--budget"]),
        ("ptxinspect tune k.ptx --arch sm_90", &["sm_90", "sm_90a"]),
        ("ptxinspect explain PI50", &["PI501", "PI505"]),
        ("ptxinspect k.ptx --arch sm_9", &["sm_90", "sm_90a"]),
        ("ptxinspect k.ptx --form", &["--format"]),
        ("ptxinspect k.ptx --deny", &["--deny"]),
    ] {
        let asked = format!("source c.fish; complete -C '{line}'");
        let answer = shell("fish", folder.path()).args(["--no-config", "-c", &asked]).output().unwrap();
        let offered: Vec<String> =
            stdout(&answer).lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
        for wanted in wanted {
            assert!(offered.contains(&(*wanted).to_owned()), "{line}: {offered:?} {}", support::stderr(&answer));
        }
    }
}

/// The same, as zsh completes a line at a key press.
#[test]
fn zsh_completes_commands_values_and_kernels() {
    if !has_shell("zsh") {
        return;
    }
    let folder = shell_folder();
    std::fs::write(folder.path().join("_ptxinspect"), run(&["completions", "zsh"]).stdout).unwrap();
    for (line, wanted) in [
        ("ptxinspect tu", "ptxinspect tune "),
        ("ptxinspect k.pt", "ptxinspect k.ptx "),
        ("ptxinspect k.ptx --kernel oth", "ptxinspect k.ptx --kernel other "),
        ("ptxinspect tune k.ptx --bud", "ptxinspect tune k.ptx --budget="),
        ("ptxinspect tune k.ptx --arch sm_8", "ptxinspect tune k.ptx --arch sm_8"),
        ("ptxinspect k.ptx --arch sm_7", "ptxinspect k.ptx --arch sm_75 "),
        ("ptxinspect explain PI101", "ptxinspect explain PI101 "),
    ] {
        // A second shell on a terminal of its own; a key tells what its line has become.
        let script = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i; zpty -w z \"PS1=; fpath=($PWD \\$fpath); autoload -Uz compinit; \\
             compinit -u -D; setopt no_list_ambiguous no_beep; show() {{ print -r -- '<<'\\$BUFFER'>>'; BUFFER= }}; \\
             zle -N show; bindkey '^X' show; print rea''dy\"; zpty -r -m z out '*ready*'; \\
             zpty -w -n z $'{line}\\t'; sleep 0.5; zpty -w -n z $'\\x18'; zpty -r -m z out '*>>*'; print -r -- $out"
        );
        let answer = shell("zsh", folder.path()).args(["-f", "-c", &script]).output().unwrap();
        let said = stdout(&answer);
        assert!(said.contains(&format!("<<{wanted}")), "{line}: {said:?} {}", support::stderr(&answer));
    }
}

/// `--watch` shows it again when the file has changed.
#[test]
fn watching_shows_every_change() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.cubin");
    let put = |name: &str| {
        let bytes = std::fs::read(root("testdata/cubin").join(name)).unwrap();
        std::fs::write(&file, bytes).unwrap();
    };
    put("hopper-12.4-sm_90a.cubin");
    let mut watching = support::program();
    watching.args(["list", path(&file), "--format", "json", "--watch"]);
    let mut watching =
        watching.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut version = || {
        let entry = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("\"type\":\"entry\"")).unwrap();
        serde_json::from_str::<Value>(&entry).unwrap()["made_by"]["version"].as_str().unwrap().to_owned()
    };
    let first = version();
    put("hopper-13.4-sm_90a.cubin");
    let second = version();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(first.starts_with("12.4") && second.starts_with("13.4"), "{first}, {second}");
}

/// Of several kernels, those with findings come first, under a line that counts them.
#[test]
fn kernels_with_findings_come_first() {
    if support::ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.ptx");
    let sample = std::fs::read_to_string(support::root("testdata/ptx/hopper_warp_specialised.ptx")).unwrap();
    std::fs::write(&file, format!("{}\n.visible .entry plain() {{ ret; }}\n", sample.replace("\t232;", "\t240;")))
        .unwrap();
    let report = stdout(&run(&[file.to_str().unwrap(), "--ptxas", "13.4"]));
    let at = |text: &str| report.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{report}"));
    assert!(at("findings in 1 of 2 kernels, which come first") < at("gemm_specialised  entry"));
    assert!(at("gemm_specialised  entry") < at("plain  entry"));
}

/// The table of a folder, CSV, the matrix and the report answer alike how much shared memory a block has and how many warps fit; where the
/// launch decides, all say so.
#[test]
fn tables_and_reports_agree_on_occupancy() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["hopper_warp_specialised.ptx", "cp_async_pipeline.ptx", "spills.ptx", "saxpy.ptx", "cluster_dsmem.ptx"]
    {
        std::fs::copy(root("testdata/ptx").join(name), folder.path().join(name)).unwrap();
    }
    let at = folder.path().to_str().unwrap();
    for more in [&[][..], &["--smem-dynamic", "65536"], &["--threads", "64"]] {
        let json = |words: &[&str]| -> serde_json::Value {
            let output = run(&[words, &["--ptxas", "13.4"], more].concat());
            serde_json::from_str(&stdout(&output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
        };
        let table = json(&[at, "--format", "json"]);
        let matrix = json(&["matrix", at, "--format", "json"]);
        let rows = table["kernels"].as_array().or(table["rows"].as_array()).unwrap();
        let mut compared = 0;
        for row in rows {
            let file = row["entry"].as_str().unwrap();
            let report = json(&[file, "--format", "json"]);
            let named = |kernel: &&serde_json::Value| kernel["name"] == row["name"];
            let kernel = report["units"][0]["kernels"].as_array().unwrap().iter().find(named).unwrap();
            assert_eq!(row["occupancy"], kernel["occupancy"], "{file} {more:?}");
            assert_eq!(row["resources"]["smem_bytes"], kernel["resources"]["smem_bytes"], "{file}");
            let cells = matrix["cells"].as_array().unwrap();
            let cell = cells.iter().find(|cell| cell["input"] == row["entry"]).unwrap();
            let cell = cell["kernels"].as_array().unwrap().iter().find(named).unwrap();
            assert_eq!(cell["figures"]["warps_per_sm"], kernel["occupancy"]["warps_per_sm"], "{file} {more:?}");
            assert_eq!(cell["missing"], kernel["occupancy"]["missing"], "{file} {more:?}");
            compared += 1;
        }
        assert!(compared >= 5, "{compared}");
    }
    let text = stdout(&run(&[at, "--ptxas", "13.4"]));
    assert!(text.contains("132,096+") && text.contains("how much is"), "{text}");
}

/// A matrix tells what ptxas says, as the report does, and in which builds.
#[test]
fn a_matrix_tells_what_ptxas_says() {
    if ptxas().is_none() {
        return;
    }
    let input = root("testdata/ptx/hopper_setmaxnreg_dropped.ptx");
    let text = stdout(&run(&["matrix", input.to_str().unwrap(), "--ptxas", "13.4"]));
    assert!(text.contains("ptxas says C7508: Potential Performance Loss"), "{text}");
}

/// A loop that one role runs is estimated with the warps of that role, not with all of the block.
#[test]
fn the_loop_of_a_role_is_estimated_with_its_warps() {
    if ptxas().is_none() {
        return;
    }
    let input = root("testdata/ptx/hopper_warp_specialised.ptx");
    let output = run(&[input.to_str().unwrap(), "--ptxas", "13.4", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let kernel = &report["units"][0]["kernels"][0];
    let consumers = kernel["roles"].as_array().unwrap().iter().find(|role| role["name"] == "consumer").unwrap();
    let costs = kernel["costs"].as_array().unwrap();
    let cost = costs.iter().find(|cost| cost["ptx_line"] == 184).unwrap();
    let warps = &cost["shortest"]["with_warps"][0]["warps_per_scheduler"];
    assert_eq!(warps.as_u64().unwrap() * 4, consumers["warps"].as_u64().unwrap(), "{cost}");
}
