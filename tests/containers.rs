//! Libraries, archives, wheels and folders as a user inspects them: hermetic, on recorded files and on files made here.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{program, root, run, stderr, stdout};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn recorded(name: &str) -> PathBuf {
    root("testdata/container").join(name)
}

/// The table of some inputs as JSON, and the exit status.
fn table(args: &[&str]) -> (Value, Option<i32>) {
    let output = run(&[args, &["--format", "json"]].concat());
    let table = serde_json::from_slice(&output.stdout);
    (table.unwrap_or_else(|error| panic!("{args:?}: {error}: {}", stderr(&output))), output.status.code())
}

/// `name arch registers` of every row.
fn rows(table: &Value) -> Vec<(String, String, u64)> {
    let row = |row: &Value| {
        let text = |field: &str| row[field].as_str().expect(field).to_owned();
        (text("name"), text("arch"), row["resources"]["registers"].as_u64().expect("registers"))
    };
    table["kernels"].as_array().expect("kernels").iter().map(row).collect()
}

#[test]
fn every_container_gives_the_table_of_its_cubins() {
    let schema: Value =
        serde_json::from_slice(&std::fs::read(root("docs/schema/library-v1.schema.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).expect("a JSON Schema");
    for (file, cubins, ptx) in [
        ("stored.fatbin", 3, 1),
        ("lz4.fatbin", 3, 1),
        ("zstd.fatbin", 3, 1),
        ("concat.fatbin", 3, 1),
        ("exec.o", 2, 1),
        ("libk.a", 4, 2),
    ] {
        for mode in [&[][..], &["--resources"][..]] {
            let file_path = recorded(file);
            let (found, code) = table(&[&[path(&file_path)], mode].concat());
            assert_eq!(code, Some(0), "{file}");
            let errors: Vec<String> = schema.iter_errors(&found).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{file}: {errors:?}");
            assert_eq!(found["summary"]["cubins"], cubins, "{file} {mode:?}");
            assert_eq!(found["summary"]["ptx_not_compiled"], ptx, "{file}");
            assert_eq!(found["kernels"].as_array().unwrap().len(), 2 * cubins, "{file}");
            let live = found["kernels"][0]["pressure"]["gpr"]["peak"].as_u64();
            assert_eq!(live.is_some(), mode.is_empty(), "{file} {mode:?}");
        }
    }
}

/// What the table says of a kernel is what the report of its cubin says.
#[test]
fn the_table_agrees_with_the_report_of_one_cubin() {
    let cubin = recorded("add.sm_90a.cubin");
    let output = run(&[path(&cubin), "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (found, _) = table(&[path(&recorded("lz4.fatbin")), "--arch", "sm_90a"]);
    let kernels = report["units"][0]["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 2);
    for (kernel, row) in kernels.iter().zip(found["kernels"].as_array().unwrap()) {
        for field in ["name", "demangled", "kind", "occupancy"] {
            assert_eq!(kernel[field], row[field], "{field}");
        }
        assert_eq!(kernel["resources"], row["resources"]);
        for field in ["total", "decoded", "unknown", "padding"] {
            assert_eq!(kernel["instructions"][field], row["instructions"][field], "{field}");
        }
        for file in ["gpr", "pred", "ugpr", "upred"] {
            assert_eq!(kernel["pressure"][file]["peak"], row["pressure"][file]["peak"], "{file}");
        }
    }
}

#[test]
fn choosing_sorting_cutting() {
    let fatbin = recorded("stored.fatbin");
    let fatbin = path(&fatbin);
    let names = |args: &[&str]| rows(&table(&[&[fatbin], args].concat()).0);
    assert_eq!(names(&["--arch", "sm_75"]).len(), 2);
    assert_eq!(names(&["--kernel", "*add*"]).len(), 3);
    assert_eq!(names(&["--kernel", "add(float*, float const*, int)", "--arch", "sm_75,sm_90a"]).len(), 2);
    let one = names(&["--entry", "stored.fatbin[[]0]"]);
    assert_eq!(one.len(), 0);
    let one = names(&["--entry", "stored.fatbin[0]"]);
    assert_eq!(one.len(), 2);
    let sorted = names(&["--sort", "code", "--top", "3"]);
    assert_eq!(sorted.len(), 3);
    assert_ne!(sorted[0].1, "sm_75");
    let by_name = names(&["--sort", "name"]);
    assert!(by_name.is_sorted_by(|a, b| a.0 <= b.0), "{by_name:?}");
    let none = run(&[fatbin, "--kernel", "nothing"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("matches no kernel"), "{}", stderr(&none));
    let none = run(&[fatbin, "--arch", "sm_86"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("its cubins are for sm_75, sm_90a, sm_100f"), "{}", stderr(&none));
}

#[test]
fn every_format_has_every_row() {
    let fatbin = recorded("lz4.fatbin");
    let fatbin = path(&fatbin);
    let lines = run(&[fatbin, "--format", "jsonl"]);
    let lines: Vec<Value> = stdout(&lines).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"header"));
    assert_eq!(kinds.last(), Some(&"summary"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "kernel").count(), 6);
    assert_eq!(kinds.iter().filter(|kind| **kind == "entry").count(), 3);
    // Sorted, the same lines in another order.
    let sorted = run(&[fatbin, "--format", "jsonl", "--sort", "name"]);
    assert_eq!(stdout(&sorted).lines().count(), lines.len());
    let csv = stdout(&run(&[fatbin, "--format", "csv"]));
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.contains("\"add(float*, float const*, int)\""), "{csv}");
    let markdown = stdout(&run(&[fatbin, "--format", "markdown"]));
    assert_eq!(markdown.matches("`add(").count(), 2, "copies with the same figures share a row: {markdown}");
    let all = stdout(&run(&[fatbin, "--format", "markdown", "-v"]));
    assert_eq!(all.lines().filter(|line| line.contains("_Z3add")).count(), 3, "{all}");
    let page = stdout(&run(&[fatbin, "--format", "html"]));
    assert!(page.contains("Content-Security-Policy") && page.contains("\"library\":{\"title\""), "{page}");
    // Every row leads to its kernel: the code of a small library is in its page.
    assert!(page.contains("\"k\":0") && !page.contains("\"k\":null"), "{page}");
    let text = stdout(&run(&[fatbin, "--top", "2"]));
    let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(title.contains("3 cubins, 1 PTX not compiled (--compile), 6 kernels"), "{text}");
    assert!(text.contains("and 2 more rows; sorted by registers"), "{text}");
}

#[test]
fn standard_input_and_folders() {
    let mut child = program();
    let mut child = child
        .args(["-", "--format", "json"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(recorded("zstd.fatbin")).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows(&found).len(), 6);
    assert_eq!(found["kernels"][0]["entry"], "<stdin>[0]");

    let (found, code) = table(&[path(&root("testdata/container"))]);
    assert_eq!(code, Some(0));
    // Three bare cubins, five fatbins of three, an object of two and an archive of four.
    assert_eq!(found["summary"]["cubins"], 3 + 5 * 3 + 2 + 4);
}

/// One bad entry is an error of its own: what is beside it is still in the table, and the exit status says that not all is.
#[test]
fn a_bad_entry_spoils_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read(recorded("lz4.fatbin")).unwrap();
    let names = |file: &Path| {
        let output = run(&[path(file), "--format", "json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (rows(&found).len(), output.status.code(), stderr(&output), found["summary"]["errors"].clone())
    };
    // Where the entries are: a header of 16 bytes, then 64 bytes and the data of each.
    let mut entries = Vec::new();
    let mut at = 16;
    while at < good.len() {
        entries.push(at);
        let number =
            |at: usize, n: usize| good[at..at + n].iter().rev().fold(0_usize, |sum, &b| sum << 8 | usize::from(b));
        at += number(at + 4, 4) + number(at + 8, 8);
    }
    assert_eq!(entries.len(), 4);
    type Damage = fn(&mut [u8]);
    let damages: [(&str, Damage); 4] = [
        ("bytes where", |entry| entry[56] ^= 1),
        ("bomb", |entry| entry[61] = 1),
        ("compressed size", |entry| entry[18] = 0xff),
        ("damaged", |entry| entry[64..84].fill(0xff)),
    ];
    for (words, damage) in damages {
        let mut bytes = good.clone();
        damage(&mut bytes[entries[1]..]);
        let file = folder.path().join("bad.fatbin");
        std::fs::write(&file, &bytes).unwrap();
        let (found, code, said, errors) = names(&file);
        assert_eq!((found, code), (4, Some(2)), "{words}: {said}");
        assert!(said.contains(words) || words == "damaged" && said.contains("LZ4"), "{words}: {said}");
        assert_eq!(errors.as_array().unwrap().len(), 1, "{errors}");
        assert!(errors[0]["path"].as_str().unwrap().ends_with("[1]"), "{errors}");
    }
    // Cut off in its last cubin.
    let file = folder.path().join("cut.fatbin");
    std::fs::write(&file, &good[..entries[2] + 100]).unwrap();
    let (found, code, said, _) = names(&file);
    assert_eq!((found, code), (4, Some(2)), "{said}");
}

#[test]
fn hostile_zips_spoil_only_their_bad_members() {
    use zip::write::SimpleFileOptions;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wheel.whl");
    let fatbin = std::fs::read(recorded("zstd.fatbin")).unwrap();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&file).unwrap());
    for name in ["a.fatbin", "/etc/b.fatbin", "../c.fatbin"] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(&fatbin).unwrap();
    }
    zip.finish().unwrap();
    let output = run(&[path(&file), "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(rows(&found).len(), 6);
    assert!(stderr(&output).contains("unsafe name"), "{}", stderr(&output));
}

#[test]
fn nothing_inside_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
    let none = run(&[path(folder.path())]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("no GPU code"), "{}", stderr(&none));
    let lto = run(&[path(&recorded("lto.o"))]);
    assert!(stderr(&lto).contains("LTO-IR"), "{}", stderr(&lto));
}

/// Reading no more than resources says the same of every recorded cubin as reading all, or that it does not know: what a launch asks for
/// is in the PTX, which it leaves alone.
#[test]
fn resources_alone_are_the_same_resources() {
    let cubins = root("testdata/cubin");
    let (full, _) = table(&[path(&cubins)]);
    let (quick, _) = table(&[path(&cubins), "--resources"]);
    let (full, quick) = (full["kernels"].as_array().unwrap(), quick["kernels"].as_array().unwrap());
    assert!(full.len() > 30);
    assert_eq!(full.len(), quick.len());
    let mut open = 0;
    for (full, quick) in full.iter().zip(quick) {
        for field in
            ["entry", "name", "kind", "resources", "cumulative_stack_bytes", "smem_reserved_bytes", "occupancy"]
        {
            let mut known = full[field].clone();
            // Bytes are what instructions move: they have to be looked at.
            for bytes in ["spill_store_bytes", "spill_load_bytes"] {
                if let Some(found) = known.get_mut(bytes) {
                    *found = Value::Null;
                }
            }
            let lacks = quick[field]["missing"].as_array().is_some_and(|missing| !missing.is_empty());
            if field == "occupancy" && lacks && known != quick[field] {
                let blocks = &quick[field]["blocks_per_sm"];
                assert!(blocks.is_null() || *blocks == known["blocks_per_sm"], "{} in {}", full["name"], full["entry"]);
                open += 1;
                continue;
            }
            assert_eq!(known, quick[field], "{field} of {} in {}", full["name"], full["entry"]);
        }
        for count in ["total", "padding"] {
            let decoded = &full["instructions"][count];
            assert!(decoded.is_null() || *decoded == quick["instructions"][count], "{count} of {}", full["name"]);
        }
    }
    assert!(open < full.len() / 2, "{open} are not known");
}

#[test]
fn details_disasm_and_annotate_look_inside() {
    let fatbin = recorded("lz4.fatbin");
    let fatbin = path(&fatbin);
    let output = run(&[fatbin, "--details", "--arch", "sm_90a", "--kernel", "*add*", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let units = report["units"].as_array().unwrap();
    assert_eq!(units.len(), 1, "{report}");
    assert!(units[0]["input"].as_str().unwrap().ends_with("lz4.fatbin[1]"));
    assert_eq!(units[0]["kernels"].as_array().unwrap().len(), 1);

    let cubin = run(&["disasm", path(&recorded("add.sm_75.cubin"))]);
    let inside = run(&["disasm", fatbin, "--arch", "sm_75"]);
    assert_eq!(stdout(&inside), stdout(&cubin));
    assert!(stdout(&inside).contains("EXIT"));

    let annotated = run(&["annotate", fatbin, "--entry", "lz4.fatbin[2]", "--format", "json"]);
    assert_eq!(annotated.status.code(), Some(0), "{}", stderr(&annotated));
    assert!(stdout(&annotated).lines().count() > 4, "{}", stdout(&annotated));

    let none = run(&["disasm", fatbin, "--arch", "sm_86"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("ptxinspect list"), "{}", stderr(&none));
}

/// A team that has only the library has the same gate.
#[test]
fn a_gate_on_a_library() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libk.a");
    std::fs::copy(recorded("libk.a"), &library).unwrap();
    let gate = |args: &[&str]| {
        let output = program().current_dir(folder.path()).args(["gate", "libk.a"]).args(args).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let (code, said) = gate(&["--update"]);
    assert_eq!(code, Some(0), "{said}");
    // Both members are alike: two kernels for each of two architectures.
    assert!(said.contains("records 4 kernels in 2 units"), "{said}");
    let (code, said) = gate(&[]);
    assert_eq!(code, Some(0), "{said}");

    let baseline = folder.path().join("ptxinspect.lock.json");
    let recorded = std::fs::read_to_string(&baseline).unwrap();
    assert!(recorded.contains("\"registers\": 10"), "{recorded}");
    std::fs::write(&baseline, recorded.replace("\"registers\": 10", "\"registers\": 8")).unwrap();
    let (code, said) = gate(&[]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = gate(&["--arch", "sm_75"]);
    assert_eq!(code, Some(1), "{said}");

    std::fs::write(&library, &std::fs::read(&library).unwrap()[..3000]).unwrap();
    let (code, said) = gate(&[]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_difference_between_libraries() {
    let (old, new) = (recorded("exec.o"), recorded("libk.a"));
    let same = run(&["diff", path(&old), path(&recorded("lz4.fatbin")), "--arch", "sm_75", "--exit-code"]);
    assert_eq!(same.status.code(), Some(0), "{}{}", stdout(&same), stderr(&same));
    let two = run(&["diff", path(&old), path(&new), "--format", "json"]);
    let found: Value = serde_json::from_slice(&two.stdout).unwrap_or_else(|_| panic!("{}", stderr(&two)));
    assert_eq!(found["units"].as_array().unwrap().len(), 2, "{found}");
}

/// Templates are instantiated in many cubins of a library.
#[test]
fn a_kernel_that_several_cubins_have_is_compared_once() {
    let folder = tempfile::tempdir().unwrap();
    let twice = folder.path().join("twice.fatbin");
    std::fs::write(&twice, std::fs::read(recorded("lz4.fatbin")).unwrap().repeat(2)).unwrap();
    for other in [twice.clone(), recorded("stored.fatbin")] {
        let same = run(&["diff", path(&twice), path(&other), "--exit-code", "--format", "json"]);
        assert_eq!(same.status.code(), Some(0), "{}{}", stdout(&same), stderr(&same));
        let found: Value = serde_json::from_slice(&same.stdout).unwrap();
        let units = found["units"].as_array().unwrap();
        assert_eq!(units.len(), 3, "{found}");
        for kernel in units.iter().flat_map(|unit| unit["kernels"].as_array().unwrap()) {
            assert_eq!(kernel["side"], "both", "{kernel}");
            assert!(kernel["sass"]["same"].as_u64().is_some_and(|same| same > 0), "{kernel}");
        }
        assert!(units.iter().all(|unit| unit["kernels"].as_array().unwrap().len() == 2), "{found}");
    }
    // A kernel of one name and other code is another kernel; where code differs, instructions are listed.
    let fatbins: Vec<PathBuf> = ["a", "b"].iter().map(|name| folder.path().join(name)).collect();
    for (at, change) in fatbins.iter().zip([false, true]) {
        let mut cubin = std::fs::read(recorded("add.sm_75.cubin")).unwrap();
        if change {
            // The first immediate of the code, which is as good as any other word.
            let code =
                cubin.windows(4).position(|four| four == [0x02, 0x7a, 0x01, 0x00]).expect("MOV R1, c[0x0][0x28]");
            cubin[code + 2] = 0x03;
        }
        std::fs::create_dir(at).unwrap();
        std::fs::write(at.join("k.cubin"), cubin).unwrap();
    }
    std::fs::copy(recorded("add.sm_75.cubin"), fatbins[1].join("l.cubin")).unwrap();
    let two = run(&["diff", path(&fatbins[0]), path(&fatbins[1]), "--format", "json"]);
    let found: Value = serde_json::from_slice(&two.stdout).unwrap_or_else(|_| panic!("{}", stderr(&two)));
    let kernels = found["units"][0]["kernels"].as_array().unwrap();
    let named = |kernel: &&Value| kernel["name"].as_str().unwrap().ends_with(" #2");
    assert_eq!(kernels.iter().filter(named).count(), 1, "{found}");
    assert!(kernels.iter().any(|kernel| kernel["sass"]["hunks"].as_array().is_some()), "{found}");
}

/// PTX in a folder is compared by what ptxas makes of it.
#[test]
fn ptx_inside_a_library_is_compared_by_its_code() {
    let Some(ptxas) = support::ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ptx = std::fs::read_to_string(recorded("add.sm_75.ptx")).unwrap();
    let changed = ptx.replacen("add.f32", "mul.f32", 1);
    assert_ne!(ptx, changed);
    let [old, new] = [("old", &ptx), ("new", &changed)].map(|(name, text)| {
        let at = folder.path().join(name);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("k.ptx"), text).unwrap();
        at
    });
    let two = run(&[
        "diff",
        path(&old),
        path(&new),
        "--compile",
        "--arch",
        "sm_75",
        "--ptxas",
        path(ptxas),
        "--format",
        "json",
    ]);
    let found: Value = serde_json::from_slice(&two.stdout).unwrap_or_else(|_| panic!("{}", stderr(&two)));
    let mut kernels = found["units"][0]["kernels"].as_array().unwrap().iter();
    let differs = |kernel: &Value| kernel["sass"]["hunks"].as_array().is_some_and(|hunks| !hunks.is_empty());
    assert!(kernels.any(differs), "{found}");
}

/// As Triton leaves it: the PTX, what ptxas made of it, and a file that says how.
#[test]
fn a_cache_of_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("ABCDEF");
    std::fs::create_dir(&inner).unwrap();
    std::fs::copy(recorded("add.sm_75.cubin"), inner.join("add.cubin")).unwrap();
    std::fs::copy(recorded("add.sm_75.ptx"), inner.join("add.ptx")).unwrap();
    std::fs::write(
        inner.join("add.json"),
        r#"{"name": "add", "num_warps": 4, "target": {"backend": "cuda", "arch": 75}}"#,
    )
    .unwrap();
    let (found, code) = table(&[path(folder.path())]);
    assert_eq!(code, Some(0));
    assert_eq!(found["summary"]["cubins"], 1);
    assert_eq!(found["summary"]["ptx_not_compiled"], 0, "the PTX and the cubin are one");
    assert_eq!(found["entries"][0]["jit"]["options"]["num_warps"], 4, "{found}");
    let report = run(&[path(folder.path()), "--details", "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    // The line of `.entry` is in the PTX alone.
    assert!(report["units"][0]["kernels"][0]["ptx_line"].is_u64(), "{report}");
}

/// What Triton's cache records beside a cubin is the launch: it has the block size and the shared memory that nothing in the cubin says.
#[test]
fn the_launch_that_a_cache_records_is_the_occupancys() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = folder.path().join("k.cubin");
    std::fs::copy(root("testdata/cubin/culprits-13.4-sm_90.cubin"), &cubin).unwrap();
    let recorded = |json: &str| {
        std::fs::write(folder.path().join("k.json"), json).unwrap();
        let done = run(&[path(&cubin), "--format", "json"]);
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        let unit = report["units"][0].clone();
        let (listed, _) = table(&[path(folder.path())]);
        assert_eq!(listed["kernels"][0]["occupancy"], unit["kernels"][0]["occupancy"], "{json}");
        unit
    };
    let bare = recorded("{}");
    assert_eq!(bare["recorded_launch"], Value::Null);
    let target = r#""target": {"backend": "cuda", "arch": 90, "warp_size": 32}"#;
    let unit = recorded(&format!(r#"{{"name": "k", {target}, "num_warps": 8, "shared": 98304}}"#));
    assert_eq!(unit["recorded_launch"]["threads"], 256);
    assert_eq!(unit["recorded_launch"]["file"], "k.json");
    let found = &unit["kernels"][0]["occupancy"];
    assert_eq!(
        (&found["threads"], &found["blocks_per_sm"], &found["limiter"]),
        (&256.into(), &2.into(), &"shared memory".into())
    );
    let text = stdout(&run(&[path(&cubin)])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("k.json records blocks of 256 threads with 98,304 B of dynamic shared memory"), "{text}");
    // What the user says stands over it.
    let asked = run(&[path(&cubin), "--threads", "128", "--smem-dynamic", "1024", "--format", "json"]);
    let asked: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(asked["units"][0]["kernels"][0]["occupancy"]["threads"], 128);
    // What is no launch of an NVIDIA GPU, or cannot be one, is passed over.
    for odd in [
        r#"{"num_warps": 8, "shared": 98304, "target": {"backend": "hip", "arch": "gfx942"}}"#,
        r#"{"num_warps": 8, "shared": 0, "warp_size": 64}"#,
        r#"{"num_warps": 33, "shared": 0}"#,
        r#"{"num_warps": -1, "shared": 0}"#,
        r#"{"num_warps": 1e300, "shared": 0}"#,
        r#"{"num_warps": 8, "shared": 18446744073709551615}"#,
        r#"{"num_warps": "8", "shared": 0}"#,
        r#"{"num_warps": 8}"#,
        "[1, 2]",
        "not JSON",
    ] {
        assert_eq!(recorded(odd)["kernels"][0]["occupancy"], bare["kernels"][0]["occupancy"], "{odd}");
    }
}

/// What the report of a kernel shows first, a table must not hide.
#[test]
fn findings_are_in_the_table_where_ptx_is_there() {
    let Some(ptxas) = support::ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["hopper_setmaxnreg_dropped.ptx", "hopper_warp_specialised.ptx"] {
        std::fs::copy(support::root("testdata/ptx").join(name), folder.path().join(name)).unwrap();
    }
    let args = [path(folder.path()), "--arch", "sm_90a", "--ptxas", path(ptxas)];
    let (found, _) = table(&[&args[..], &["--compile", "--sort", "findings"]].concat());
    let kernels = found["kernels"].as_array().unwrap();
    let codes = |at: usize| -> Vec<&str> {
        kernels[at]["findings"].as_array().unwrap().iter().filter_map(|found| found["code"].as_str()).collect()
    };
    assert_eq!((codes(0), codes(1)), (vec!["PI101", "C7508"], vec![]));
    let sums = &found["summary"]["by_arch"][0];
    assert_eq!((&sums["with_findings"], &sums["checked"]), (&1.into(), &2.into()));
    let text = support::stdout(&support::run(&args));
    assert!(text.contains("PI101, C7508") && text.contains("findings in 1 of 2 checked kernels"), "{text}");
    let page = support::stdout(&support::run(&[&args[..], &["--format", "html"]].concat()));
    assert!(page.contains("PI101, C7508"), "the page says it, too");
    // A cubin that carries its PTX is checked, too; where nothing but resources is read nothing is known, which is not that nothing is wrong.
    let cubin = support::root("testdata/cubin/hopper-13.4-sm_90a.cubin");
    let (carried, _) = table(&[path(&cubin), "--sort", "name"]);
    assert!(carried["kernels"][0]["findings"].as_array().is_some_and(|found| !found.is_empty()), "{carried}");
    let (quick, _) = table(&[path(&cubin), "--resources"]);
    assert!(quick["kernels"][0]["findings"].is_null(), "{quick}");
}

#[test]
fn ptx_inside_is_compiled_on_request() {
    let Some(ptxas) = support::ptxas() else { return };
    let fatbin = recorded("stored.fatbin");
    let args = [path(&fatbin), "--compile", "--arch", "sm_80,sm_90", "--ptxas", path(ptxas)];
    let (found, code) = table(&args);
    assert_eq!(code, Some(0));
    let arches: Vec<String> = rows(&found).into_iter().map(|(_, arch, _)| arch).collect();
    assert_eq!(arches, ["sm_80", "sm_80", "sm_90", "sm_90"]);
}
