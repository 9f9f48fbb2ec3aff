//! Kernels whose registers have a known holder: the report names its line among the first three rows.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{root, run, stderr};

/// The source line that is marked `// holds KERNEL`, by kernel.
fn planted(source: &str) -> BTreeMap<String, u64> {
    let marked = (1..).zip(source.lines()).filter_map(|(number, line)| {
        let kernel = line.split("// holds ").nth(1)?;
        Some((kernel.trim().to_owned(), number))
    });
    marked.collect()
}

#[test]
fn the_holder_is_among_the_first_three_rows() {
    let folder = root("testdata/cubin");
    let planted = planted(&std::fs::read_to_string(folder.join("src/culprits.cu")).unwrap());
    assert_eq!(planted.len(), 6);
    for cubin in ["culprits-12.4-sm_80", "culprits-12.9-sm_120", "culprits-13.4-sm_90"] {
        let path = folder.join(format!("{cubin}.cubin"));
        let done = run(&[path.to_str().unwrap(), "--format", "json"]);
        assert!(done.status.success(), "{}", stderr(&done));
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        let mut seen = 0;
        for kernel in report["units"][0]["kernels"].as_array().unwrap() {
            let name = kernel["name"].as_str().unwrap();
            let rows = kernel["live_at_peak"].as_array().unwrap();
            let lines: Vec<u64> = rows.iter().filter_map(|row| row["source_line"]["line"].as_u64()).take(3).collect();
            assert!(lines.contains(&planted[name]), "{cubin} {name}: line {} is not in {lines:?}", planted[name]);
            let registers: usize = rows.iter().map(|row| row["registers"].as_array().unwrap().len()).sum();
            assert_eq!(Some(registers as u64), kernel["pressure"]["gpr"]["peak"].as_u64(), "{cubin} {name}");
            seen += 1;
        }
        assert_eq!(seen, planted.len(), "{cubin}");
    }
}

#[test]
fn what_was_inlined_is_shown_with_the_kernels_own_call() {
    let path = root("testdata/cubin/inline-13.4-sm_90.cubin");
    let source = std::fs::read_to_string(root("testdata/cubin/src/inline.cu")).unwrap();
    let done = run(&[path.to_str().unwrap(), "--format", "json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let kernels = report["units"][0]["kernels"].as_array().unwrap();
    let rows = kernels.iter().filter_map(|kernel| kernel["live_at_peak"].as_array()).flatten();
    let calls: Vec<u64> = rows.filter_map(|row| row["source_line"]["called_at"]["line"].as_u64()).collect();
    assert!(!calls.is_empty());
    for line in calls {
        let text = source.lines().nth(line as usize - 1).unwrap();
        assert!(["a.add(", "f(weighted("].iter().any(|call| text.contains(call)), "line {line} calls nothing: {text}");
    }
}

#[test]
fn source_lines_are_the_kernels_own_and_account_for_its_instructions() {
    let path = root("testdata/cubin/inline-13.4-sm_90.cubin");
    let source = std::fs::read_to_string(root("testdata/cubin/src/inline.cu")).unwrap();
    let done = run(&[path.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    for kernel in report["units"][0]["kernels"].as_array().unwrap().iter().filter(|kernel| kernel["kind"] == "entry") {
        let lines = kernel["source_lines"].as_array().unwrap();
        let number = |row: &Value, field: &str| row[field].as_u64().unwrap();
        let counted: u64 = lines.iter().map(|row| number(row, "instructions")).sum();
        let of = &kernel["instructions"];
        assert!(counted > 0 && counted <= number(of, "with_source_line"), "{}", kernel["name"]);
        assert!(counted + number(of, "padding") >= number(of, "with_source_line"), "{}", kernel["name"]);
        let most = lines.iter().filter_map(|row| row["live_gpr_max"].as_u64()).max();
        assert!(most <= kernel["pressure"]["gpr"]["peak"].as_u64());
        // What was inlined stands where the kernel calls it: no line is one of a function that was.
        let bodies: Vec<usize> =
            (1..).zip(source.lines()).filter(|(_, line)| line.contains("__global__")).map(|(at, _)| at).collect();
        let first = *bodies.first().unwrap() as u64;
        assert!(lines.iter().all(|row| number(row, "line") >= first), "{lines:?}");
    }
}

#[test]
fn a_kernel_that_only_calls_has_the_lines_of_what_it_calls() {
    if support::ptxas().is_none() {
        return;
    }
    let mut text = std::fs::read_to_string(root("testdata/ptx/inlined_lines.ptx")).unwrap();
    for place in ["1 26 11", "1 27 3", "1 29 5", "1 31 1"] {
        let own = format!(".loc\t{place}\n");
        assert!(text.contains(&own), "{place}");
        let called = format!(".loc\t{place}, function_name $L__info_string0, inlined_at 1 24 0\n");
        text = text.replace(&own, &called);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.ptx");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let done = run(&[file, "--ptxas", "13.4", "--format", "json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let inlined = &report["units"][0]["kernels"][0]["inlined_lines"];
    assert_eq!(inlined["called_at"]["line"], 24, "{inlined}");
    let lines: Vec<u64> = inlined["lines"].as_array().unwrap().iter().filter_map(|row| row["line"].as_u64()).collect();
    assert!([26, 27, 29].iter().all(|line| lines.contains(line)), "{lines:?}");
    let text = String::from_utf8(run(&[file, "--ptxas", "13.4"]).stdout).unwrap();
    assert!(text.contains("lines of what is inlined at normalise.cu:24"), "{text}");
    let plain = root("testdata/ptx/inlined_lines.ptx");
    let done = run(&[plain.to_str().unwrap(), "--ptxas", "13.4", "--format", "json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(report["units"][0]["kernels"][0]["inlined_lines"].is_null(), "no line of it has most by what it calls");
}
