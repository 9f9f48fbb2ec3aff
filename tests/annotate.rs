//! `ptxinspect annotate` as a user runs it: on recorded cubins, and on our own PTX with a real ptxas.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{cubins, ptxas, root, run, samples, stderr, stdout};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The records of `--format json`, one a line.
fn records(args: &[&str]) -> Vec<Value> {
    let output = run(&[&["annotate"], args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// `(kernel, pc) → (text, ptx line)` of every instruction; each must be there once.
fn placed(records: &[Value]) -> BTreeMap<(String, u64), (Value, Value)> {
    let mut placed = BTreeMap::new();
    for record in records.iter().filter(|record| record["record"] == "line") {
        for instruction in record["instructions"].as_array().unwrap() {
            let key =
                (instruction["kernel"].as_str().unwrap().to_owned(), instruction["pc"].as_u64().expect("a number"));
            if instruction["own_line"] == true {
                assert_eq!(instruction["ptx_line"], record["line"], "{key:?} stands under its own line");
            }
            let known = placed.insert(key.clone(), (instruction["text"].clone(), instruction["ptx_line"].clone()));
            assert!(known.is_none(), "{key:?} is shown twice");
        }
    }
    placed
}

/// The same of `disasm`, which has the order of the code.
fn listed(args: &[&str]) -> BTreeMap<(String, u64), (Value, Value)> {
    let output = run(&[&["disasm"], args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    let listing: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut listed = BTreeMap::new();
    for function in listing["functions"].as_array().unwrap() {
        for instruction in function["instructions"].as_array().unwrap() {
            let key = (function["kernel"].as_str().unwrap().to_owned(), instruction["pc"].as_u64().unwrap());
            listed.insert(key, (instruction["text"].clone(), instruction["ptx_line"].clone()));
        }
    }
    listed
}

/// The code of every function of a cubin.
fn code(cubin: &[u8]) -> Vec<(String, Vec<u8>)> {
    let image = ptxinspect::cubin::Image::parse(cubin).expect("a cubin");
    assert!(!image.functions.is_empty());
    image.functions.iter().map(|function| (function.name.to_string(), function.code.to_vec())).collect()
}

#[test]
fn every_instruction_of_a_recorded_cubin_stands_once_under_its_line() {
    for cubin in cubins() {
        let found = placed(&records(&[&cubin]));
        assert!(!found.is_empty(), "{cubin}");
        assert_eq!(found, listed(&[&cubin]), "{cubin}");
        // By source the instructions are the same, whatever they stand under.
        let by_source = run(&["annotate", &cubin, "--by", "source", "--format", "json"]);
        let count: usize = stdout(&by_source)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter_map(|record| Some(record["instructions"].as_array()?.len()))
            .sum();
        assert_eq!(count, found.len(), "{cubin} by source");
    }
}

#[test]
fn text_shows_every_instruction_of_a_recorded_cubin() {
    for cubin in cubins() {
        let output = run(&["annotate", &cubin]);
        assert!(output.status.success(), "{cubin}: {}", stderr(&output));
        let text = stdout(&output);
        let rows = |pc: &str| {
            text.lines()
                .filter(|line| line.split('│').nth(1).is_some_and(|row| row.trim_start().starts_with(pc)))
                .count()
        };
        let mut pcs: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, pc) in listed(&[&cubin]).into_keys() {
            *pcs.entry(pc).or_default() += 1;
        }
        for (pc, times) in pcs {
            assert_eq!(rows(&format!("{pc:04x}  ")), times, "{cubin}: pc {pc:04x}");
        }
    }
}

#[test]
fn every_sample_is_annotated_and_compiles_to_the_same_code() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let compile = |source: &Path, arch: &str, name: &str| {
        let cubin = folder.path().join(name);
        let output =
            Command::new(ptxas).args(["-arch", arch, path(source), "-o", path(&cubin)]).output().expect("ptxas starts");
        assert!(output.status.success(), "{}: {}", source.display(), stderr(&output));
        std::fs::read(cubin).unwrap()
    };
    for (file, arch) in samples() {
        let args = [path(&file), "--arch", &arch, "--ptxas", path(ptxas)];
        let records = records(&args);
        assert_eq!(placed(&records), listed(&args), "{}", file.display());
        // Every line of the file, as it is written.
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = records.iter().filter_map(|record| record["text"].as_str()).collect();
        assert_eq!(lines, text.lines().collect::<Vec<_>>(), "{}", file.display());
        let annotated = folder.path().join(file.file_name().unwrap());
        let output =
            run(&[&["annotate"], &args[..], &["--format", "ptx", "--control", "-o", path(&annotated)]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(std::fs::read_to_string(&annotated).unwrap().lines().count() > text.lines().count());
        let (plain, again) = (compile(&file, &arch, "plain.cubin"), compile(&annotated, &arch, "again.cubin"));
        assert!(code(&plain) == code(&again), "{}: the annotated PTX compiles to other code", file.display());
        // PTX with .loc has line tables, whose lines move; every other cubin is the same to the last byte.
        assert!(plain == again || text.contains(".loc"), "{}: another cubin", file.display());
    }
}

#[test]
fn comments_are_safe_wherever_they_fall() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    // A comment opened behind code, CRLF, a NUL at the end, no newline at the end, non-ASCII in a comment.
    let ptx = ".version 8.0\r\n.target sm_80\r\n.address_size 64\r\n.visible .entry k(.param .u64 p) {\r\n.reg .b64 %rd<3>; .reg .b32 %r<3>;\r\n\
               ld.param.u64 %rd1, [p]; /* opened\r\n here */ mov.u32 %r1, %tid.x; // \u{3b1} \\\r\n\
               cvta.to.global.u64 %rd2, %rd1;\r\n\
               st.global.u32 [%rd2], %r1; ret; }";
    let file = folder.path().join("odd.ptx");
    std::fs::write(&file, format!("{ptx}\0")).unwrap();
    let annotated = folder.path().join("annotated.ptx");
    let args = ["annotate", path(&file), "--ptxas", path(ptxas), "--format", "ptx", "-o", path(&annotated)];
    let output = run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let records = |file: &Path| placed(&records(&[path(file), "--ptxas", path(ptxas)]));
    let text = |all: BTreeMap<(String, u64), (Value, Value)>| -> Vec<_> {
        all.into_iter().map(|(key, (text, _))| (key, text)).collect()
    };
    assert_eq!(text(records(&file)), text(records(&annotated)));
}

#[test]
fn what_was_asked_for_is_what_is_shown() {
    if ptxas().is_none() {
        return;
    }
    let spills = path(&root("testdata/ptx/spills.ptx")).to_owned();
    let base = ["annotate", &spills, "--arch", "sm_80", "--ptxas", "13.4"];
    let numbers = |extra: &[&str]| -> Vec<u32> {
        let output = run(&[&base[..], extra].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        text.lines().filter_map(|line| line.split_once('│')?.0.trim().parse().ok()).collect()
    };
    assert_eq!(numbers(&["--lines", "140..145"]), (140..=145).collect::<Vec<_>>());
    let hot = numbers(&["--only-hot"]);
    assert!(hot.contains(&145) && hot.len() < numbers(&[]).len(), "{hot:?}");
    let wide = run(&[&base[..], &["--width", "72"]].concat());
    assert!(stdout(&wide).lines().skip(3).all(|line| line.chars().count() <= 72), "no line is wider than asked for");
    assert!(stdout(&run(&[&base[..], &["--control"]].concat())).contains(":S"), "stall counts");
    assert!(stdout(&run(&base)).contains("spill store 4 B"), "a spill is marked");
    let nothing = run(&[&base[..], &["--kernel", "absent"]].concat());
    assert_eq!(nothing.status.code(), Some(2));
    let wrong = run(&[&base[..], &["--lines", "9..3"]].concat());
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn by_source_shows_the_source_that_is_found() {
    if ptxas().is_none() {
        return;
    }
    let file = path(&root("testdata/ptx/inlined_lines.ptx")).to_owned();
    let base = ["annotate", &file, "--by", "source", "--ptxas", "13.4"];
    let without = stdout(&run(&base));
    assert!(without.contains("not found"), "{without}");
    let lines: Vec<&str> = without.lines().collect();
    let name = lines[lines.iter().position(|line| line.contains("not found")).unwrap() - 1].to_owned();
    let folder = tempfile::tempdir().unwrap();
    let text: String = (1..200).map(|line| format!("line {line} of the source\n")).collect();
    std::fs::write(folder.path().join(Path::new(&name).file_name().unwrap()), text).unwrap();
    let with = stdout(&run(&[&base[..], &["--source-root", path(folder.path())]].concat()));
    assert!(with.contains(" of the source"), "{with}");
}

#[test]
fn the_picture_is_xml_and_the_same_every_time() {
    for cubin in cubins() {
        let (one, two) = (run(&["annotate", &cubin, "--format", "svg"]), run(&["annotate", &cubin, "--format", "svg"]));
        assert!(one.status.success(), "{cubin}: {}", stderr(&one));
        assert_eq!(one.stdout, two.stdout);
        let text = stdout(&one);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{cubin}");
        assert_eq!(text.matches("<g ").count(), text.matches("</g>").count());
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    }
}
