//! setmaxnreg, roles, the pool and barriers in whole reports, made with a real ptxas.

mod support;

use serde_json::Value;
use support::{ptxas, root, run, stderr};

/// What the report says of PTX text.
fn unit(text: &str, arch: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ptx");
    std::fs::write(&file, text).unwrap();
    let output = run(&[file.to_str().unwrap(), "--arch", arch, "--ptxas", "13.4", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["units"][0].clone()
}

/// The first kernel of it.
fn kernel(text: &str, arch: &str) -> Value {
    unit(text, arch)["kernels"][0].clone()
}

/// `(code, line, confidence)` of every finding.
fn issues(kernel: &Value) -> Vec<(String, u64, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let issues = kernel["barriers"]["issues"].as_array().unwrap();
    let issue = |issue: &Value| {
        (text(&issue["code"]), issue["ptx_line"].as_u64().unwrap_or_default(), text(&issue["confidence"]))
    };
    issues.iter().map(issue).collect()
}

fn sample(name: &str) -> String {
    std::fs::read_to_string(root(&format!("testdata/ptx/{name}"))).unwrap()
}

/// The line, from 1, that first has some words.
fn line_of(text: &str, words: &str) -> u64 {
    text.lines().position(|line| line.contains(words)).unwrap() as u64 + 1
}

const HOPPER: &str = "hopper_warp_specialised.ptx";
const BOUNDS: &str = ".maxntid 384, 1, 1\n.minnctapersm 1\n";

/// One warp that copies for all makes no role of the others, which run nothing of their own.
#[test]
fn a_warp_that_does_more_makes_no_roles() {
    if ptxas().is_none() {
        return;
    }
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n.reqntid 128, 1, 1\n{\n\
                .shared .align 16 .b8 buffer[64];\n.reg .b64 %d;\n.reg .b32 %t, %w, %r;\n.reg .pred %q;\n\
                ld.param.u64 %d, [p];\nmov.u32 %t, %tid.x;\nshr.u32 %w, %t, 5;\nsetp.ne.u32 %q, %w, 0;\n@%q bra L;\n\
                cp.async.ca.shared.global [buffer], [%d], 4;\ncp.async.wait_all;\nL:\nbar.sync 0;\n\
                ld.shared.b32 %r, [buffer];\nst.global.b32 [%d+64], %r;\nret;\n}\n";
    assert_eq!(kernel(text, "sm_80")["roles"], serde_json::json!([]));
}

/// What ptxas says of an A operand that is written while a `wgmma` reads it, and what it says of the two mends of docs/codes/C7513.md.
#[test]
fn wgmma_inputs_written_in_flight() {
    if ptxas().is_none() {
        return;
    }
    let multiply = |a: &str| {
        format!(
            "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, {{{a}}}, %d, \
             1, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n"
        )
    };
    let load = |a: &str| format!("ld.global.v4.b32 {{{a}}}, [%p+4096];\n");
    let wait = |left: u32| format!("wgmma.wait_group.sync.aligned {left};\n");
    let (one, two) = ("%r0, %r1, %r2, %r3", "%r4, %r5, %r6, %r7");
    let advisories = |body: &str| -> Vec<(String, bool, bool)> {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 d)\n.reqntid 128\n{{\n\
             .reg .b32 %r<8>;\n.reg .b32 %i;\n.reg .f32 %f<4>;\n.reg .b64 %p, %d;\n.reg .pred %q;\nld.param.u64 %p, [p];\n\
             ld.param.u64 %d, [d];\nmov.u32 %i, 0;\nld.global.v4.b32 {{{one}}}, [%p];\nmov.f32 %f0, 0f00000000;\n\
             mov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\nL:\n{body}add.u32 %i, %i, 1;\n\
             setp.lt.u32 %q, %i, 400;\n@%q bra L;\n{}st.global.v4.f32 [%p], {{%f0, %f1, %f2, %f3}};\nret;\n}}\n",
            wait(0)
        );
        let first = line_of(&text, "wgmma.mma_async");
        let told = |said: &Value| {
            (said["code"].as_str().unwrap().to_owned(), said["ptx_line"].is_null(), said["first_ptx_line"] == first)
        };
        unit(&text, "sm_90a")["advisories"].as_array().unwrap().iter().map(told).collect()
    };
    let written = format!("{}{}", multiply(one), load(one));
    assert_eq!(advisories(&written), [("C7513".to_owned(), true, true)], "line 0 is none; its first wgmma is told");
    let waits = format!("{}{}{}", multiply(one), wait(0), load(one));
    let sets = format!("{}{}{}{}{}", multiply(one), load(two), multiply(two), wait(1), load(one));
    for mended in [waits, sets] {
        assert!(advisories(&mended).is_empty(), "{mended}");
    }
}

/// What ptxas does with setmaxnreg under each set of launch bounds, and what the report makes of it (docs/codes/C7508.md).
#[test]
fn setmaxnreg_dropped_and_kept() {
    if ptxas().is_none() {
        return;
    }
    let text = sample(HOPPER);
    assert!(text.contains(BOUNDS));
    for (bounds, kept, fix) in [
        (BOUNDS, true, ""),
        (".maxnreg 168\n", true, ""),
        (".maxntid 384, 1, 1\n", true, ""),
        (".maxntid 256, 1, 1\n", false, "add .minnctapersm 1 beside it, or .maxnreg"),
        (".maxntid 256, 1, 1\n.minnctapersm 1\n", true, ""),
        (".minnctapersm 1\n", false, "add .maxntid (or .reqntid) with .minnctapersm 1, or .maxnreg"),
        ("", false, "add .maxntid (or .reqntid) with .minnctapersm 1, or .maxnreg"),
    ] {
        let changed = text.replace(BOUNDS, bounds);
        let kernel = kernel(&changed, "sm_90a");
        let found = &kernel["setmaxnreg"];
        assert_eq!(found["honoured"], Value::Bool(kept), "{bounds:?}");
        let dropped = issues(&kernel).into_iter().find(|(code, ..)| code == "PI101");
        if kept {
            assert_eq!(dropped, None, "{bounds:?}");
        } else {
            assert_eq!(found["code"], "C7508");
            assert_eq!(found["fix"], fix, "{bounds:?}");
            let line = line_of(&changed, "setmaxnreg.");
            assert_eq!(dropped, Some(("PI101".to_owned(), line, "certain".to_owned())), "{bounds:?}");
        }
    }
}

/// What `scripts/hardware` saw on an H200 (docs/hardware.md) and what the report says of the same kernels.
#[test]
fn findings_agree_with_hardware() {
    if ptxas().is_none() {
        return;
    }
    let mut cases = 0;
    for entry in std::fs::read_dir(root("testdata/hardware")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let said = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("// {key}: "))).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        let (hardware, expected) = (said("hardware"), said("finding"));
        let kernel = kernel(&text, "sm_90a");
        // What the ISA leaves undefined may be told as possible only.
        let loud = |confidence: &str| hardware == "undefined" || confidence != "possible";
        let found: Vec<(String, u64, String)> =
            issues(&kernel).into_iter().filter(|(.., confidence)| loud(confidence)).collect();
        let name = path.display();
        if expected == "none" {
            assert_eq!(found, [], "{name}");
            assert_eq!(hardware, "runs", "{name}");
        } else {
            assert!(found.iter().any(|(code, ..)| *code == expected), "{name}: {found:?}");
            assert_ne!(hardware, "runs", "{name}");
        }
        let verdict = kernel["setmaxnreg"]["pool"]["verdict"].as_str();
        match (verdict, hardware.as_str()) {
            (Some("never"), hardware) => assert_eq!(hardware, "hangs", "{name}"),
            (Some(verdict), _) => {
                assert_eq!(hardware, "runs", "{name}: {verdict}");
                assert!(["exact", "unused"].contains(&verdict), "{name}: {verdict}");
            }
            (None, _) => {}
        }
        cases += 1;
    }
    assert!(cases >= 35);
}

/// ptxas refuses a mixed cta_group and says no line: our finding does.
#[test]
fn findings_in_ptx_that_ptxas_refuses() {
    if ptxas().is_none() {
        return;
    }
    let text = sample("blackwell_tcgen05.ptx").replacen("commit.cta_group::1", "commit.cta_group::2", 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ptx");
    std::fs::write(&file, &text).unwrap();
    let output = run(&[file.to_str().unwrap(), "--arch", "sm_100a", "--ptxas", "13.4", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let diagnostics = report["units"][0]["error"]["diagnostics"].as_array().unwrap();
    let ours = diagnostics.iter().find(|diagnostic| diagnostic["code"] == "PI601").expect("PI601");
    assert_eq!(ours["ptx_line"], line_of(&text, "commit.cta_group::2"));
}
