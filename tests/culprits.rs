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

/// A kernel that zeroes 64 accumulators, adds to them in a loop, and stores them.
fn sums() -> String {
    let each = |write: &dyn Fn(usize) -> String, between: &str| (0..64).map(write).collect::<Vec<_>>().join(between);
    let all = each(&|i| format!("%f{i}"), ", ");
    let zeroes = each(&|i| format!("mov.f32 %f{i}, 0f00000000;"), "\n");
    let stores = each(&|i| format!("st.global.f32 [%rd4+{}], %f{i};", 4 * i), "\n");
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry sums(.param .u64 out, .param .u32 steps) {{\n\
         .reg .f32 %f<64>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<2>;\n\
         .shared .align 1024 .b8 tile[32768];\nld.param.u64 %rd0, [out];\nld.param.u32 %r0, [steps];\n\
         mov.u32 %r1, %tid.x;\nmov.u32 %r2, tile;\nshr.u32 %r2, %r2, 4;\ncvt.u64.u32 %rd1, %r2;\n\
         or.b64 %rd2, %rd1, 0x4000004000010000;\n{zeroes}\nagain:\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{all}}}, %rd2, %rd2, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nsub.s32 %r0, %r0, 1;\n\
         setp.ne.s32 %p0, %r0, 0;\n@%p0 bra again;\nmul.wide.u32 %rd3, %r1, 256;\nadd.s64 %rd4, %rd0, %rd3;\n\
         {stores}\nret;\n}}\n"
    )
}

#[test]
fn accumulators_are_the_matrix_instructions_from_zero_to_the_last_store() {
    if support::ptxas().is_none() {
        return;
    }
    let text = sums();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sums.ptx");
    std::fs::write(&file, &text).unwrap();
    let line = |start: &str| 1 + text.lines().position(|line| line.starts_with(start)).unwrap() as u64;
    let done = run(&[file.to_str().unwrap(), "--ptxas", "13.4", "--format", "json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = report["units"][0]["kernels"][0]["live_at_peak"].as_array().unwrap();
    assert_eq!(rows[0]["registers"].as_array().unwrap().len(), 64, "{rows:#?}");
    assert_eq!(rows[0]["ptx_line"], line("wgmma.mma"));
    assert_eq!(rows[0]["last_use_ptx_line"], line("st.global.f32 [%rd4+252]"));
    assert!(rows.iter().all(|row| row["is_operand"] == false || row["ptx_line"] != line("@%p0 bra")), "{rows:#?}");
}

#[test]
fn what_is_refilled_is_what_was_loaded_before_it_was_spilt() {
    if support::ptxas().is_none() {
        return;
    }
    let file = root("testdata/ptx/spills.ptx");
    let text = std::fs::read_to_string(&file).unwrap();
    let statement = |line: u64| text.lines().nth(line as usize - 1).unwrap().trim().to_owned();
    let mut args =
        vec![file.to_str().unwrap().to_owned(), "--ptxas".into(), "13.4".into(), "--format".into(), "json".into()];
    let branch = text.lines().position(|line| line.contains("bra")).unwrap() + 1;
    args.extend(["--at".into(), branch.to_string()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = run(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let kernel = &report["units"][0]["kernels"][0];
    let rows = kernel["live_at"].as_array().unwrap().iter().flat_map(|at| at["values"].as_array().unwrap());
    let mut seen = 0;
    for row in rows.chain(kernel["live_at_peak"].as_array().unwrap()) {
        for made in row["ptx_lines"].as_array().unwrap().iter().map(|line| statement(line.as_u64().unwrap())) {
            seen += 1;
            assert!(row["is_operand"] == true || !made.contains("bra"), "{row}");
        }
    }
    assert!(seen > 20, "{seen}");
}
