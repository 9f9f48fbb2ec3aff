//! What people read, command by command, at 80 columns; tables at 60, too. `scripts/bless` accepts what has changed.

mod support;

use std::path::Path;

use support::{program, ptxas, root, stderr, stdout};

/// What a command prints in so many columns.
fn printed(folder: &Path, columns: usize, args: &[&str]) -> String {
    let output =
        program().env("PTXINSPECT_COLUMNS", columns.to_string()).current_dir(folder).args(args).output().unwrap();
    assert!(!output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// No line is wider than it may be, but for a word that has no room on a line of its own.
fn fits(text: &str, columns: usize, args: &[&str]) {
    for line in text.lines().filter(|line| line.chars().count() > columns) {
        let indent = line.len() - line.trim_start().len();
        let longest = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
        assert!(longest + indent.max(14) > columns, "{args:?} at {columns} columns: {line}");
    }
}

/// Holds what a command prints at 80 columns against its snapshot, and its lines at other widths against those.
fn shows(name: &str, folder: &Path, args: &[&str]) {
    fits(&printed(folder, 100, args), 100, args);
    let text = printed(folder, 80, args);
    fits(&text, 80, args);
    insta::assert_snapshot!(name, text);
}

/// Of recorded cubins and of PTX that nobody compiles.
#[test]
fn without_ptxas() {
    let here = root("");
    for (name, args) in [
        ("report-cubin", "testdata/cubin/hopper-13.4-sm_90a.cubin --threads 384"),
        ("report-verbose", "testdata/cubin/functions-13.4-sm_75.cubin -v"),
        ("library", "testdata/cubin"),
        ("library-resources", "testdata/cubin --resources --sort name --top 5"),
        ("list", "list testdata/container/exec.o testdata/container/zstd.fatbin"),
        ("disasm", "disasm testdata/cubin/culprits-13.4-sm_90.cubin"),
        ("size", "size testdata/container/exec.o testdata/container/zstd.fatbin"),
        ("size-kernels", "size testdata/cubin --by kernel --top 6"),
        ("history", "history fuzz/seeds/history/two.jsonl"),
        ("diff", "diff testdata/cubin/hopper-12.4-sm_90a.cubin testdata/cubin/hopper-13.4-sm_90a.cubin"),
        ("annotate", "annotate testdata/cubin/hopper-13.4-sm_90a.cubin --only-hot --width 80"),
        ("annotate-cycles", "annotate testdata/cubin/hopper-13.4-sm_90a.cubin --cycles --only-hot --width 80"),
        ("disasm-control", "disasm testdata/cubin/functions-13.4-sm_75.cubin --control --explain-control"),
        ("timeline", "timeline testdata/ptx/hopper_warp_specialised.ptx --steps 60"),
        ("cost", "cost testdata/cubin/hopper-13.4-sm_90a.cubin --warps 1,4 --threads 384"),
        ("occupancy", "occupancy --arch sm_90a --registers 168 --threads 384 --smem 16384"),
        ("explain", "explain C7508"),
        ("explain-list", "explain"),
        ("explain-bound", "explain bound"),
        ("explain-idesc", "explain idesc 0x8200490"),
        ("explain-sdesc", "explain sdesc 0x4000004000010000"),
        ("explain-fragment", "explain mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        ("explain-tensor", "explain tcgen05.ld.sync.aligned.16x256b.x1.b32"),
    ] {
        shows(name, &here, &args.split(' ').collect::<Vec<_>>());
    }
}

/// Pictures and pages of recorded files.
#[test]
fn pages_without_ptxas() {
    let here = root("");
    for (name, args) in [
        ("size-html", "size testdata/container/zstd.fatbin --format html"),
        ("history-html", "history fuzz/seeds/history/two.jsonl --format html"),
        ("history-svg", "history fuzz/seeds/history/two.jsonl --format svg"),
        ("library-markdown", "testdata/cubin --format markdown --top 12"),
        ("library-csv", "testdata/container/zstd.fatbin --format csv"),
        ("timeline-svg", "timeline testdata/ptx/hopper_warp_specialised.ptx --steps 60 --format svg"),
        ("annotate-svg", "annotate testdata/cubin/hopper-13.4-sm_90a.cubin --format svg"),
        (
            "diff-html",
            "diff testdata/cubin/culprits-12.4-sm_80.cubin testdata/cubin/culprits-13.4-sm_90.cubin --format html",
        ),
    ] {
        let text = printed(&here, 80, &args.split(' ').collect::<Vec<_>>());
        let content = text.split_once("<main>").map_or(text.as_str(), |(_, content)| content);
        insta::assert_snapshot!(name, content);
    }
}

/// Tables leave out or wrap what a narrow terminal has no room for.
#[test]
fn tables_fit_narrow_terminals() {
    let here = root("");
    for (columns, args) in [
        (60, "testdata/cubin"),
        (60, "testdata/cubin --resources"),
        (60, "cost testdata/cubin/hopper-13.4-sm_90a.cubin --warps 1..16"),
        (60, "list testdata/cubin"),
        (60, "size testdata"),
        (80, "size testdata --by file"),
        (60, "history fuzz/seeds/history/two.jsonl"),
        (60, "occupancy --arch sm_90a --registers 168 --threads 128"),
        (60, "diff testdata/cubin/hopper-12.4-sm_90a.cubin testdata/cubin/hopper-13.4-sm_90a.cubin"),
        (60, "annotate testdata/cubin/hopper-13.4-sm_90a.cubin"),
        (60, "disasm testdata/cubin/hopper-13.4-sm_90a.cubin"),
        (60, "annotate testdata/cubin/hopper-13.4-sm_90a.cubin --cycles"),
        (60, "disasm testdata/cubin/hopper-13.4-sm_90a.cubin --control --sets --explain-control"),
        (80, "disasm testdata/cubin/hopper-13.4-sm_90a.cubin --hex"),
        (80, "list testdata/cubin"),
        (80, "list testdata"),
        (80, "occupancy --arch sm_86,sm_90,sm_120 --registers 96 --threads 256 --smem 20000"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        fits(&printed(&here, columns, &args), columns, &args);
    }
}

/// Paths and titles that are wider than the terminal go on in further lines, and what a pipe reads is as it was.
#[test]
fn long_paths_fit_narrow_terminals() {
    let folder = tempfile::tempdir().unwrap();
    let below = "a_folder_with_a_long_name/nvidia_nvjpeg_cu12-12.4.0.76-py3-none-manylinux2014_x86_64";
    let here = folder.path().join(below);
    std::fs::create_dir_all(&here).unwrap();
    std::fs::copy(root("testdata/container/zstd.fatbin"), here.join("k.fatbin")).unwrap();
    std::fs::copy(root("testdata/cubin/hopper-12.4-sm_90a.cubin"), here.join("k.cubin")).unwrap();
    let (library, cubin) = (format!("{below}/k.fatbin"), format!("{below}/k.cubin"));
    for args in [
        &["list", &library][..],
        &[&library],
        &["size", &library],
        &[&cubin],
        &["diff", &cubin, &library],
        &["explain"],
    ] {
        for columns in [60, 80] {
            let text = printed(folder.path(), columns, args);
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > columns).collect();
            assert!(wide.is_empty(), "{args:?} at {columns} columns: {wide:?}");
            assert!(text.lines().all(|line| line.trim_end() == line), "{args:?}: spaces at an end");
        }
    }
    let whole = stdout(&program().current_dir(folder.path()).args(["list", &library]).output().unwrap());
    assert!(whole.lines().any(|line| line == library), "{whole}");
    let titles = stdout(&program().args(["explain"]).output().unwrap());
    assert!(titles.lines().all(|line| line.contains(": ")), "a page a line where nobody says how wide: {titles}");
}

/// A kernel that several cubins hold with the same figures has one row, with its places; `-v` and programs have all.
#[test]
fn copies_of_a_kernel_share_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let put = |from: &str, to: &str| std::fs::copy(root("testdata/cubin").join(from), folder.path().join(to)).unwrap();
    put("hopper-13.4-sm_90a.cubin", "a.cubin");
    put("hopper-13.4-sm_90a.cubin", "b.cubin");
    put("hopper-12.4-sm_90a.cubin", "older.cubin");
    put("culprits-12.9-sm_120.cubin", "c.cubin");
    put("culprits-13.4-sm_90.cubin", "d.cubin");
    shows("library-copies", folder.path(), &["."]);
    insta::assert_snapshot!("library-copies-verbose", printed(folder.path(), 80, &[".", "-v"]));
    insta::assert_snapshot!("library-copies-markdown", printed(folder.path(), 80, &[".", "--format", "markdown"]));
    let csv = printed(folder.path(), 80, &[".", "--format", "csv"]);
    assert!(csv.contains("a.cubin") && csv.contains("b.cubin"), "{csv}");
}

/// What ptxas makes.
#[test]
fn with_ptxas() {
    if ptxas().is_none() {
        return;
    }
    let here = root("");
    for (name, args) in [
        ("report-roles", "testdata/ptx/hopper_warp_specialised.ptx --ptxas 13.4"),
        ("report-fragments", "testdata/ptx/hopper_warp_specialised.ptx --ptxas 13.4 --at 201 --top 1"),
        ("annotate-matrices", "annotate testdata/ptx/blackwell_tcgen05.ptx --ptxas 13.4 --lines 118..126 --width 80"),
        ("report-spills", "testdata/ptx/spills.ptx --ptxas 13.4"),
        ("report-stack", "testdata/ptx/local_array.ptx --ptxas 13.4 --top 0"),
        ("cost-beside", "cost testdata/cost/twins.ptx --ptxas 13.4 --loop 30"),
        ("report-findings", "testdata/ptx/hopper_setmaxnreg_dropped.ptx --ptxas 13.4 --threads 256"),
        ("report-tried", "testdata/ptx/hopper_warp_specialised.ptx --ptxas 13.4 --smem-dynamic 0 --try-step --top 0"),
        ("matrix", "matrix testdata/ptx/spills.ptx --ptxas 13.4 --no-cache --sweep maxrregcount=24,32,64"),
        ("cost-accesses", "cost testdata/cost/tile.ptx --ptxas 13.4 --accesses -v"),
        ("annotate-accesses", "annotate testdata/cost/tile.ptx --ptxas 13.4 --lines 40..43 --width 80"),
        ("tune", "tune testdata/ptx/spills.ptx --ptxas 13.4 --budget 60"),
    ] {
        shows(name, &here, &args.split(' ').collect::<Vec<_>>());
    }
    let picture = ["tune", "testdata/ptx/spills.ptx", "--ptxas", "13.4", "--budget", "60", "--format", "svg"];
    insta::assert_snapshot!("tune-svg", printed(&here, 80, &picture));
    let page = ["tune", "testdata/ptx/spills.ptx", "--ptxas", "13.4", "--budget", "60", "--format", "html"];
    let page = printed(&here, 80, &page);
    let (_, content) = page.split_once("<main>").expect("a page");
    insta::assert_snapshot!("tune-html", content);
    // In a store of its own: whatever another test has installed is not in it. As wide as any path: where a line breaks depends on the machine.
    let store = tempfile::tempdir().unwrap();
    let ptxas = ptxas().unwrap();
    let installed = ptxas.parent().unwrap().parent().unwrap();
    let own = store.path().join(installed.file_name().unwrap());
    std::fs::create_dir_all(own.join("bin")).unwrap();
    for file in ["toolchain.json", "bin/ptxas"] {
        std::fs::copy(installed.join(file), own.join(file)).unwrap();
    }
    let mut list = program();
    list.env("PTXINSPECT_COLUMNS", "1000").env("PTXINSPECT_TOOLCHAINS", store.path()).args(["toolchain", "list"]);
    let list = stdout(&list.output().unwrap());
    let path = own.join("bin/ptxas").display().to_string();
    let shown = list.lines().filter(|line| line.contains(&path) || line.starts_with("* is"));
    let shown: Vec<String> = shown.map(|line| line.replace(&path, "[PTXAS]")).collect();
    insta::assert_snapshot!("toolchain-list", shown.join("\n"));
}

/// LLVM counts lines up inside of an `asm` statement: what they became belongs to the line of the statement.
#[test]
fn lines_of_inline_assembly_are_those_of_the_statement() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n\
                .loc 1 110 3\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd1, %rd1;\n// begin inline asm\n.loc 1 116 11\n\
                ld.global.u32 %r1, [%rd1];\n.loc 1 117 11\nmul.lo.u32 %r2, %r1, %r1;\n.loc 1 118 11\nadd.u32 %r2, %r2, 7;\n\
                // end inline asm\n.loc 1 120 3\nst.global.u32 [%rd1], %r2;\nret;\n}\n.file 1 \"/src/k.py\"\n";
    std::fs::write(folder.path().join("k.ptx"), text).unwrap();
    let report = printed(folder.path(), 100, &["k.ptx", "--ptxas", "13.4"]);
    let named = |line: u32| report.contains(&format!("k.py:{line}"));
    assert!(named(116) && named(120) && !named(117) && !named(118), "{report}");
}

/// A verdict that fails, and one that passes.
#[test]
fn the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let put = |from: &str| std::fs::copy(root("testdata/cubin").join(from), here.join("kernel.cubin")).unwrap();
    put("hopper-12.4-sm_90a.cubin");
    assert!(program().current_dir(here).args(["gate", "kernel.cubin", "--update"]).status().unwrap().success());
    shows("gate-pass", here, &["gate", "kernel.cubin"]);
    put("hopper-13.4-sm_90a.cubin");
    shows("gate-fail", here, &["gate", "kernel.cubin", "-v"]);
    fits(&printed(here, 60, &["gate", "kernel.cubin", "-v"]), 60, &["gate"]);
    insta::assert_snapshot!("gate-markdown", printed(here, 80, &["gate", "kernel.cubin", "--format", "markdown"]));
    let page = printed(here, 80, &["gate", "kernel.cubin", "--format", "html"]);
    insta::assert_snapshot!("gate-html", page.split_once("<main>").expect("a page").1);
}
