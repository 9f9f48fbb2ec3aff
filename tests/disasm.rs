//! The listing of instructions: what it shows on request, and nvdisasm's own for comparison.

mod support;

use serde_json::Value;
use support::{cubins, program, root, run, stderr, stdout};

fn instructions(output: &std::process::Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    let listing: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = listing["functions"].as_array().unwrap().iter();
    functions.flat_map(|function| function["instructions"].as_array().unwrap().clone()).collect()
}

#[test]
fn sets_are_what_counts_count() {
    let mut seen = 0;
    for rule in ["sound", "nvdisasm"] {
        for cubin in cubins() {
            let listed = instructions(&run(&["disasm", &cubin, "--sets", "--liveness", rule, "--format", "json"]));
            for instruction in &listed {
                let registers = instruction["live_registers"].as_array().unwrap_or_else(|| panic!("{cubin}"));
                for (file, prefix) in [("gpr", "R"), ("pred", "P"), ("ugpr", "UR"), ("upred", "UP")] {
                    let of_file = |name: &&Value| {
                        name.as_str().unwrap().trim_end_matches(|digit: char| digit.is_ascii_digit()) == prefix
                    };
                    let number = registers.iter().filter(of_file).count() as u64;
                    assert_eq!(instruction["live"][file].as_u64(), Some(number), "{cubin}: {instruction}");
                    seen += number;
                }
                let is_live = |name: &Value| registers.contains(name);
                let written = instruction["writes"].as_array().unwrap();
                assert!(rule != "sound" || written.iter().all(is_live), "{cubin}: {instruction}");
            }
        }
    }
    assert!(seen > 10_000, "{seen}");
}

#[test]
fn what_is_asked_for_is_shown_and_nothing_else() {
    let cubin = root("testdata/cubin/blackwell-13.4-sm_100a.cubin");
    let cubin = cubin.to_str().unwrap();
    let plain = stdout(&run(&["disasm", cubin]));
    assert!(!plain.contains("control") && !plain.contains("/* 0x") && plain.contains("UTCATOMSWS"), "{plain}");
    let full = stdout(&run(&["disasm", cubin, "--control", "--hex", "--sets"]));
    let rows: Vec<&str> = full.lines().collect();
    let first = rows.iter().position(|row| row.trim_start().starts_with("0000 ")).unwrap();
    // 0x000fe2… read by hand: bits 105 to 108 are the stall, 109 says no yield, 110 to 115 no scoreboard, 116 to 121 no wait.
    assert!(rows[first - 1].contains("control"), "{full}");
    assert!(rows[first].contains("B------:R-:W-:-:S01") && rows[first].contains("/* 0x000fe2"), "{}", rows[first]);
    assert!(rows[first].contains("LDC R1, c[0x0][0x37c]") && rows[first].ends_with("*/"), "{}", rows[first]);
    assert_eq!(rows[first + 1].trim(), "R1");
    assert!(rows.iter().any(|row| row.contains("UR4-UR")), "runs are shortened: {full}");
}

#[test]
fn no_nvdisasm_says_how_to_get_one() {
    let cubin = root("testdata/cubin/blackwell-13.4-sm_100a.cubin");
    let ask = |name: &str, value: &str| {
        let mut command = program();
        command.args(["disasm", cubin.to_str().unwrap(), "--disassembler", "nvdisasm"]);
        command.env_remove("PTXINSPECT_NVDISASM").env("PATH", "").env("PTXINSPECT_TOOLCHAINS", "/nonexistent");
        command.env(name, value).output().unwrap()
    };
    let output = ask("PTXINSPECT_NVDISASM", "/nonexistent/nvdisasm");
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("/nonexistent/nvdisasm") && said.contains("PTXINSPECT_NVDISASM"), "{said}");
    #[cfg(unix)]
    {
        // A machine whose /usr/local/cuda has one is answered by it.
        let output = ask("PATH", "");
        let said = stderr(&output);
        assert!(output.status.success() || said.contains("pip install nvidia-cuda-nvdisasm"), "{said}");
        // One that is no nvdisasm.
        let output = ask("PTXINSPECT_NVDISASM", "/bin/false");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("/bin/false failed with exit status: 1"), "{}", stderr(&output));
        // One that lists nothing lists no instruction: its rows are words.
        let output = ask("PTXINSPECT_NVDISASM", "/bin/true");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("/bin/true lists no instruction"), "{}", stderr(&output));
    }
}

#[test]
fn ours_and_nvdisasms_side_by_side() {
    if std::env::var_os("PTXINSPECT_NVDISASM").is_none() {
        eprintln!("SKIPPED: PTXINSPECT_NVDISASM names no nvdisasm");
        return;
    }
    let mut with_counts = 0;
    for cubin in cubins() {
        let ours = instructions(&run(&["disasm", &cubin, "--liveness", "nvdisasm", "--format", "json"]));
        let ask = ["disasm", &cubin, "--disassembler", "nvdisasm", "--sets", "--format", "json"];
        let theirs = instructions(&run(&ask));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let text = ours["text"].as_str().unwrap();
            // With counts it leaves out padding.
            let Some(their_text) = theirs["text"].as_str() else {
                assert_eq!(text, "NOP", "{cubin}");
                continue;
            };
            // nvdisasm has names for targets and for what the linker fills in.
            if !their_text.contains('`') && !their_text.contains("@lo(") && !their_text.contains("@hi(") {
                assert_eq!(text, their_text, "{cubin}");
            }
            if !theirs["live"].is_null() {
                assert_eq!(ours["live"], theirs["live"], "{cubin}: {text}");
                let counts = theirs["live"].as_object().unwrap().values().filter_map(Value::as_u64);
                let named = theirs["live_registers"].as_array().unwrap().len() as u64;
                assert_eq!(counts.sum::<u64>(), named, "{cubin}: {text}");
                with_counts += 1;
            }
        }
    }
    assert!(with_counts > 500, "{with_counts}");
}
