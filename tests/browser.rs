//! The page in a real browser: `scripts/browser/check` drives a headless Chromium over pages made here.

mod support;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use ptxinspect::base::{Line, Pc};
use ptxinspect::emit::html::Opening;
use ptxinspect::report::annotation::{AnnotatedInstruction, AnnotatedKernel, Annotation, By, ValueSpan};
use ptxinspect::report::listing::LiveCounts;
use ptxinspect::report::{Kernel, PtxText, Unit};
use support::{ptxas, root, run, stderr, stdout};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A page of what `annotate` or the report says of a file.
fn page(out: &Path, args: &[&str]) {
    let output = run(&[args, &["--format", "html", "-o", path(out)]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
}

/// The page and the JSON of a section of 100,000 instructions, made of nothing: ptxas would take minutes over such a kernel.
fn large() -> (Vec<u8>, Vec<u8>) {
    const COUNT: u32 = 100_000;
    let instruction = |index: u32| {
        let live = 40 + (index / 700) % 90 + index % 7;
        AnnotatedInstruction {
            pc: Pc(index * 16),
            word: 0x000f_e200_078e_0a04_0000_000d_0c04_7224,
            text: Some(format!("IMAD R{}, R{}, R{}, R{}", index % 160, index % 13, index % 11, index % 7)),
            live: Some(LiveCounts { gpr: live, pred: index % 4, ugpr: index % 30, upred: 0 }),
            ptx_line: Some(Line(5 + index / 2)),
            loop_depth: Some(u32::from(index % 5000 > 3000)),
            ..AnnotatedInstruction::default()
        }
    };
    let span = |index: u32| ValueSpan {
        register: (index % 160) as u16,
        from: Pc(index / 160 * 160 * 16),
        to: Pc((index / 160 * 160 + 150) * 16),
        definition: Some(Pc(index / 160 * 160 * 16)),
        has_others: index.is_multiple_of(3),
        last_use: Some(Pc((index / 160 * 160 + 150) * 16)),
    };
    let mut values: Vec<ValueSpan> = (0..COUNT).map(span).collect();
    values.sort_by_key(|span| (span.register, span.from));
    let ptx: String = (1..=COUNT / 2 + 10).map(|line| format!("    mad.lo.u32 %r{line}, %r1, %r2, %r3;\n")).collect();
    let kernel = AnnotatedKernel {
        name: "large".to_owned(),
        text: Some(0),
        registers: Some(168),
        exact: Some(true),
        peak: Some(Pc(63_000 * 16)),
        instructions: (0..COUNT).map(instruction).collect(),
        values: Some(values),
        ..AnnotatedKernel::default()
    };
    let annotation = Annotation { texts: vec![PtxText::new(ptx)], kernels: vec![kernel], ..Annotation::default() };
    let mut unit = Unit { input: "large.ptx".to_owned(), arch: Some("sm_100".to_owned()), ..Unit::default() };
    unit.kernels.push(Kernel { name: "large".to_owned(), ..Kernel::default() });
    let (mut html, mut json) = (Vec::new(), Vec::new());
    let view = annotation.view(By::Ptx);
    ptxinspect::emit::annotate::write_json(&unit, &view, &Default::default(), &mut json).unwrap();
    drop(view);
    ptxinspect::emit::html::write(&[(unit, annotation)], Opening::Annotation, &mut html).unwrap();
    (html, json)
}

/// A cubin whose kernels are called what no kernel should be: the names of a real one, as long as what replaces them.
fn hostile(ptxas: &Path, folder: &Path) -> std::path::PathBuf {
    let names = [
        ("k".repeat(48), "<script>window.hacked=1</script><!--"),
        ("m".repeat(48), "<img src=x onerror=window.hacked=2>&quot;'\"]]>"),
    ];
    let mut ptx =
        String::from(".version 8.0\n.target sm_80\n.address_size 64\n// </script><script>window.hacked=3</script>\n");
    for (name, _) in &names {
        writeln!(ptx, ".visible .entry {name}() {{ ret; }}").unwrap();
    }
    let file = folder.join("hostile.ptx");
    std::fs::write(&file, ptx).unwrap();
    let cubin = folder.join("hostile.cubin");
    let made = Command::new(ptxas)
        .args(["-lineinfo", "-arch", "sm_80", path(&file), "-o", path(&cubin)])
        .output()
        .expect("ptxas starts");
    assert!(made.status.success(), "{}", stderr(&made));
    let mut bytes = std::fs::read(&cubin).unwrap();
    for (name, hostile) in &names {
        let padded = format!("{hostile:_<48}");
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(48).position(|window| window == name.as_bytes()) {
            bytes[at + found..at + found + 48].copy_from_slice(padded.as_bytes());
            at += found + 48;
        }
    }
    std::fs::write(&cubin, bytes).unwrap();
    cubin
}

/// The page of a gate that a kernel with fewer registers does not pass.
fn failed_gate(folder: &Path, sample: &str, page: &Path) {
    let ptx = folder.join("gated.ptx");
    let lock = folder.join("gated.lock.json");
    let gate = ["gate", path(&ptx), "--arch", "sm_80", "--ptxas", "13.4", "--baseline", path(&lock)];
    let text = std::fs::read_to_string(sample).unwrap();
    std::fs::write(&ptx, &text).unwrap();
    let recorded = run(&[&gate[..], &["--update"]].concat());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    std::fs::write(&ptx, text.replace(".maxnreg 32", ".maxnreg 24")).unwrap();
    let failed = run(&[&gate[..], &["--format", "html", "-o", path(page)]].concat());
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
}

/// The page of a history of three commits.
fn recorded(folder: &Path, sample: &str, out: &Path) {
    let (figures, lock) = (folder.join("figures.jsonl"), folder.join("recorded.lock.json"));
    let gate = ["gate", sample, "--arch", "sm_80", "--ptxas", "13.4", "--baseline", path(&lock), "--update"];
    for (commit, flags) in [("1111111", "-O3"), ("2222222", "-O1"), ("3333333", "-O3")] {
        let record = ["--record", path(&figures), "--commit", commit, "--", flags];
        let output = run(&[&gate[..], &record[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    page(out, &["history", path(&figures)]);
}

/// Two instances of one template, as C++ mangles them.
fn long_names() -> String {
    let name = |tile: u32| {
        let layout = "N4cute6LayoutINS_5tupleIJNS_1CILi8EEENS_1CILi64EEEEEENS_5tupleIJNS_1CILi64EEENS_1CILi1EEEEEEEE";
        let shape = format!("N4cute5tupleIJNS_1CILi{tile}EEENS_1CILi128EEENS_1CILi64EEEEEE");
        format!("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalI{shape}{layout}{layout}{layout}EEEEvv")
    };
    let kernels: String =
        [64, 128].iter().map(|tile| format!(".visible .entry {}() {{ ret; }}\n", name(*tile))).collect();
    format!(".version 8.0\n.target sm_90\n.address_size 64\n{kernels}")
}

/// Three kernels, the worst last: nothing is wrong with the first, the second spills, the third waits for threads that it has not.
fn worst_last(spills: &str) -> String {
    let text = std::fs::read_to_string(spills).expect("PTX");
    let (head, spills) = text.split_once(".visible .entry").expect("a kernel");
    format!(
        "{head}.visible .entry calm() {{\n ret;\n}}\n.visible .entry{spills}\n\
         .visible .entry waits()\n.maxntid 128\n{{\n bar.sync 1, 256;\n ret;\n}}\n"
    )
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let sample = |name: &str| path(&root(&format!("testdata/ptx/{name}.ptx"))).to_owned();
    page(&out("spills.html"), &["annotate", &sample("spills"), "--arch", "sm_100", "--ptxas", "13.4"]);
    page(&out("several.html"), &[&sample("several_entries"), &sample("device_functions"), "--ptxas", "13.4"]);
    std::fs::write(out("worst.ptx"), worst_last(&sample("spills"))).unwrap();
    page(&out("worst.html"), &[path(&out("worst.ptx")), "--ptxas", "13.4"]);
    // sm_75 is older than its .target.
    let built = ["--arch", "sm_75,sm_80", "--ptxas", "13.4"];
    page(&out("builds.html"), &[&["matrix", path(&out("worst.ptx"))], &built[..]].concat());
    let hopper = sample("hopper_warp_specialised");
    for (name, words) in [("timeline", "timeline"), ("curve", "annotate --arch sm_90a --ptxas 13.4")] {
        let file = out(&format!("{name}.svg"));
        let to = [hopper.as_str(), "--format", "svg", "-o", path(&file)];
        let drawn = run(&words.split(' ').chain(to).collect::<Vec<_>>());
        assert!(drawn.status.success(), "{name}: {}", stderr(&drawn));
    }
    page(&out("hostile.html"), &["annotate", path(&hostile(ptxas, folder.path()))]);

    // A kernel with roles, and with a register pool that hangs.
    let roles = std::fs::read_to_string(sample("hopper_warp_specialised")).unwrap();
    let hangs = roles.replace("\t232;", "\t240;");
    assert_ne!(hangs, roles);
    std::fs::write(out("roles.ptx"), hangs).unwrap();
    page(&out("roles.html"), &["annotate", path(&out("roles.ptx")), "--arch", "sm_90a", "--ptxas", "13.4"]);

    let named = stdout(&run(&["annotate", &sample("inlined_lines"), "--by", "source", "--ptxas", "13.4"]));
    let text: String = (1..200).map(|line| format!("line {line} of the source\n")).collect();
    let lines: Vec<&str> = named.lines().collect();
    let missing = lines.windows(2).filter(|pair| pair[1].trim_start().starts_with("not found"));
    for name in missing.map(|pair| pair[0]) {
        std::fs::write(folder.path().join(Path::new(name).file_name().unwrap()), &text).unwrap();
    }
    page(
        &out("source.html"),
        &["annotate", &sample("inlined_lines"), "--ptxas", "13.4", "--source-root", path(folder.path())],
    );

    page(&out("library.html"), &[path(&root("testdata/container/zstd.fatbin"))]);
    page(&out("size.html"), &["size", path(&root("testdata/container/zstd.fatbin"))]);
    page(&out("cycles.html"), &["annotate", &sample("spills"), "--arch", "sm_90", "--ptxas", "13.4", "--cycles"]);
    page(&out("tune.html"), &["tune", &sample("spills"), "--arch", "sm_90", "--ptxas", "13.4"]);
    recorded(folder.path(), &sample("spills"), &out("history.html"));
    page(&out("diff.html"), &["diff", &sample("spills"), "--arch", "sm_80", "--ptxas", "13.4", "--after-flags=-O1"]);

    let swept = ["--arch", "sm_80,sm_90", "--ptxas", "13.4", "--sweep", "maxrregcount=24..48:8"];
    page(&out("matrix.html"), &[&["matrix", &sample("spills")], &swept[..]].concat());
    failed_gate(folder.path(), &sample("spills"), &out("gate.html"));
    std::fs::write(out("long.ptx"), long_names()).unwrap();
    page(&out("long.html"), &[path(&out("long.ptx")), "--ptxas", "13.4"]);

    let (html, json) = large();
    assert!(html.len() <= 3 * json.len(), "the page has {} bytes, the JSON {}", html.len(), json.len());
    std::fs::write(out("large.html"), html).unwrap();

    let mut check = Command::new("python3");
    check.arg(root("scripts/browser/check")).arg(folder.path());
    let checked = match check.output() {
        Ok(checked) => checked,
        Err(error) => return eprintln!("SKIPPED: no python3 to drive a browser with: {error}"),
    };
    match checked.status.code() {
        Some(3) => eprintln!("SKIPPED: {}", stdout(&checked)),
        Some(0) => {}
        _ => panic!("{}{}", stdout(&checked), stderr(&checked)),
    }
}

#[test]
fn the_page_asks_for_nothing_and_is_the_same_every_time() {
    let cubin = path(&root("testdata/cubin/hopper-13.4-sm_90a.cubin")).to_owned();
    let (one, two) = (run(&["annotate", &cubin, "--format", "html"]), run(&[&cubin, "--format", "html"]));
    let again = run(&["annotate", &cubin, "--format", "html", "-j", "1"]);
    assert!(one.status.success() && two.status.success(), "{}", stderr(&one));
    assert_eq!(one.stdout, again.stdout);
    for page in [stdout(&one), stdout(&two)] {
        assert!(page.starts_with("<!doctype html>"));
        for fetch in ["<link", "src=\"", "@import", "url(", "fetch(", "XMLHttpRequest", "http://", "https://"] {
            assert!(!page.contains(fetch), "{fetch} is in the page");
        }
    }
}
