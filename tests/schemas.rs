//! What programs read: every JSON that a command writes is as `docs/schema` says, and no looser. The report's and the library's are held against
//! theirs in tests/cli.rs and tests/library.rs.

mod support;

use std::fs;

use serde_json::{Map, Value};
use support::{program, ptxas, root, stderr};

struct Schema {
    name: &'static str,
    validator: jsonschema::Validator,
}

impl Schema {
    fn new(name: &'static str) -> Schema {
        let text = fs::read(root(&format!("docs/schema/{name}-v1.schema.json"))).unwrap();
        let schema: Value = serde_json::from_slice(&text).unwrap();
        assert_every_object_is_closed(&schema, name);
        Schema { name, validator: jsonschema::validator_for(&schema).expect("a JSON Schema") }
    }

    fn holds(&self, value: &Value) {
        let errors: Vec<String> =
            self.validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", self.name);
    }

    /// Every field is asked for, and none other let in. `open`: where anything may stand, or a field may be left out.
    fn is_tight(&self, value: &Value, open: &[&str]) {
        let mut places = Vec::new();
        objects(value, String::new(), &mut places);
        places.retain(|place| !open.iter().any(|open| shape(place).starts_with(open)));
        // One of each kind will do: numbers of elements left out.
        places.sort_by_key(|place| (shape(place), place.len()));
        places.dedup_by_key(|place| shape(place));
        for place in places {
            let with = |change: &dyn Fn(&mut Map<String, Value>)| {
                let mut changed = value.clone();
                change(changed.pointer_mut(&place).and_then(Value::as_object_mut).unwrap());
                changed
            };
            let extra = with(&|object| drop(object.insert("extra".to_owned(), Value::Null)));
            assert!(!self.validator.is_valid(&extra), "{}: a field too many in {place}", self.name);
            let fields: Vec<String> = value.pointer(&place).unwrap().as_object().unwrap().keys().cloned().collect();
            for field in fields.iter().filter(|field| !open.contains(&&*format!("{}/{field}?", shape(&place)))) {
                let less = with(&|object| drop(object.remove(field)));
                assert!(!self.validator.is_valid(&less), "{}: {place} without {field}", self.name);
            }
        }
    }
}

fn shape(place: &str) -> String {
    place.split('/').filter(|part| part.parse::<usize>().is_err()).collect::<Vec<_>>().join("/")
}

fn objects(value: &Value, place: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                objects(field, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
            found.push(place);
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| objects(item, format!("{place}/{at}"), found));
        }
        _ => {}
    }
}

fn assert_every_object_is_closed(schema: &Value, name: &str) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "object") {
                let closed = fields.get("additionalProperties").is_some_and(|more| *more != Value::Bool(true));
                assert!(closed, "{name}: {schema}");
            }
            fields.values().for_each(|field| assert_every_object_is_closed(field, name));
        }
        Value::Array(items) => items.iter().for_each(|item| assert_every_object_is_closed(item, name)),
        _ => {}
    }
}

/// What a run prints, whatever its exit status.
fn printed(folder: &std::path::Path, args: &[&str]) -> String {
    let output = program().current_dir(folder).args(args).output().unwrap();
    assert!(!output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &std::path::Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, args)).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn copy(folder: &std::path::Path, from: &str, to: &str) {
    fs::copy(root("testdata/cubin").join(from), folder.join(to)).unwrap();
}

#[test]
fn the_gate_and_its_baseline() {
    let (gate, lock) = (Schema::new("gate"), Schema::new("lock"));
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy(here, "hopper-13.4-sm_90a.cubin", "a.cubin");
    copy(here, "functions-12.0-sm_75.cubin", "b.cubin");
    let args = ["gate", "a.cubin", "b.cubin", "--format", "json"];
    let recorded = |more: &[&str]| {
        let done = program().current_dir(here).args(args).args(more).arg("--update").status().unwrap();
        assert!(done.success());
        let baseline: Value = serde_json::from_slice(&fs::read(here.join("ptxinspect.lock.json")).unwrap()).unwrap();
        lock.holds(&baseline);
        baseline
    };
    lock.is_tight(
        &recorded(&[]),
        &["/units/advisories", "/units/kernels/advisories", "/units/kernels/findings", "/units/kernels/within?"],
    );
    gate.holds(&json(here, &args));
    // Budgets, a new kernel, one that is gone, another ptxas, a pattern that matches nothing.
    copy(here, "functions-13.4-sm_75.cubin", "b.cubin");
    let policy = "[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 4\"]\n[[rule]]\nkernel = \"zz\"\nbudgets = [\"registers <= 4\"]";
    fs::write(here.join("ptxinspect.toml"), policy).unwrap();
    let failed = json(here, &args);
    gate.holds(&failed);
    assert_eq!(failed["outcome"], "error");
    let old = printed(here, &["b.cubin", "--format", "json"]);
    fs::write(here.join("old.json"), old).unwrap();
    copy(here, "hopper-12.4-sm_90a.cubin", "a.cubin");
    fs::remove_file(here.join("ptxinspect.toml")).unwrap();
    copy(here, "hopper-13.4-sm_90a.cubin", "b.cubin");
    let failed = json(here, &args);
    gate.holds(&failed);
    assert_ne!(failed["outcome"], "pass");
    gate.is_tight(&failed, &[]);
    fs::write(here.join("a.cubin"), "\x7fELF").unwrap();
    gate.holds(&json(here, &args));
}

#[test]
fn diff() {
    let schema = Schema::new("diff");
    let folder = tempfile::tempdir().unwrap();
    for (before, after) in [
        ("hopper-12.4-sm_90a.cubin", "hopper-13.4-sm_90a.cubin"),
        ("functions-12.0-sm_75.cubin", "functions-13.4-sm_75.cubin"),
        ("functions-13.4-sm_75.cubin", "hopper-13.4-sm_90a.cubin"),
    ] {
        copy(folder.path(), before, "a.cubin");
        copy(folder.path(), after, "b.cubin");
        let difference = json(folder.path(), &["diff", "a.cubin", "b.cubin", "--format", "json"]);
        schema.holds(&difference);
        schema.is_tight(&difference, &["/units/kernels/fields/before", "/units/kernels/fields/after"]);
    }
}

#[test]
fn annotate_one_record_a_line() {
    let schema = Schema::new("annotate");
    let cubins = fs::read_dir(root("testdata/cubin")).unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for cubin in cubins.filter(|path| path.extension().is_some_and(|extension| extension == "cubin")) {
        for by in ["ptx", "source"] {
            let name = cubin.to_str().unwrap();
            let text = printed(&root("."), &["annotate", name, "--format", "json", "--by", by]);
            for (at, line) in text.lines().enumerate() {
                let record: Value = serde_json::from_str(line).unwrap();
                schema.holds(&record);
                if at % 40 == 0 {
                    schema.is_tight(&record, &[]);
                }
                seen += record["instructions"].as_array().map_or(0, Vec::len);
            }
        }
    }
    assert!(seen > 1_000, "{seen}");
}

#[test]
fn disasm() {
    let schema = Schema::new("disasm");
    let cubins = fs::read_dir(root("testdata/cubin")).unwrap().map(|entry| entry.unwrap().path());
    for cubin in cubins.filter(|path| path.extension().is_some_and(|extension| extension == "cubin")) {
        let name = cubin.to_str().unwrap();
        for more in [&["--sets"][..], &[]] {
            schema.holds(&json(&root("."), &[&["disasm", name, "--format", "json"], more].concat()));
        }
    }
    let one = json(&root("."), &["disasm", "testdata/cubin/hopper-13.4-sm_90a.cubin", "--format", "json", "--sets"]);
    schema.is_tight(&one, &[]);
}

#[test]
fn matrix() {
    let schema = Schema::new("matrix");
    if ptxas().is_none() {
        return;
    }
    let path = root("testdata/ptx/spills.ptx");
    let path = path.to_str().unwrap();
    let matrix = |more: &[&str]| json(&root("."), &[&["matrix", path, "--format", "json"], more].concat());
    // sm_30 is an architecture that this ptxas cannot compile for.
    let swept = matrix(&["--arch", "sm_80,sm_30", "--ptxas", "13.4", "--sweep", "maxrregcount=24,64"]);
    schema.holds(&swept);
    assert!(swept["cells"].as_array().unwrap().iter().any(|cell| !cell["error"].is_null()));
    schema.is_tight(&swept, &[]);
}

#[test]
fn tunings() {
    let schema = Schema::new("tune");
    if ptxas().is_none() {
        return;
    }
    let of = |name: &str, more: &[&str]| {
        let path = root(&format!("testdata/ptx/{name}.ptx"));
        json(&root("."), &[&["tune", path.to_str().unwrap(), "--ptxas", "13.4", "--format", "json"], more].concat())
    };
    let spills = of("spills", &["--budget", "40"]);
    schema.holds(&spills);
    schema.is_tight(&spills, &["/kernels/tried", "/kernels/refused/count", "/kernels/refused/first"]);
    schema.holds(&of("hopper_warp_specialised", &["--budget", "40"]));
    schema.holds(&of("several_entries", &["--budget", "12"]));
}

#[test]
fn sizes() {
    let schema = Schema::new("size");
    let here = root("");
    let told = json(&here, &["size", "testdata/container", "testdata/cubin", "--format", "json"]);
    schema.holds(&told);
    assert!(told["same_code"]["group_count"].as_u64() > Some(0) && !told["ptx_instead"].as_array().unwrap().is_empty());
    schema.is_tight(&told, &[]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cut.cubin"), "\x7fELF").unwrap();
    let cubin = root("testdata/cubin/hopper-13.4-sm_90a.cubin");
    let failed =
        json(folder.path(), &["size", "cut.cubin", cubin.to_str().unwrap(), "--by", "arch", "--format", "json"]);
    schema.holds(&failed);
    schema.is_tight(&failed, &[]);
}

#[test]
fn records_and_their_history() {
    let (record, history) = (Schema::new("record"), Schema::new("history"));
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (commit, cubin) in [("a", "functions-12.0-sm_75.cubin"), ("b", "functions-13.4-sm_75.cubin")] {
        copy(here, cubin, "k.cubin");
        let args = ["gate", "k.cubin", "--update", "--record", "f.jsonl", "--commit", commit];
        assert!(program().current_dir(here).args(args).status().unwrap().success());
    }
    for line in fs::read_to_string(here.join("f.jsonl")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        record.holds(&line);
        record.is_tight(&line, &[]);
    }
    let told = json(here, &["history", "f.jsonl", "--format", "json"]);
    history.holds(&told);
    history.is_tight(&told, &[]);
}

#[test]
fn costs() {
    let schema = Schema::new("cost");
    let here = root("");
    let told = json(
        &here,
        &["cost", "testdata/cubin/hopper-13.4-sm_90a.cubin", "--warps", "1,4", "--hazards", "--format", "json"],
    );
    schema.holds(&told);
    schema.is_tight(&told, &[]);
    let unmeasured = json(&here, &["cost", "testdata/cubin/functions-12.0-sm_75.cubin", "--format", "json"]);
    schema.holds(&unmeasured);
    assert_eq!(unmeasured["units"][0]["kernels"][0]["loops"], Value::Null);
}

#[test]
fn timelines() {
    let schema = Schema::new("timeline");
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root("testdata/ptx/hopper_warp_specialised.ptx")).unwrap();
    fs::write(folder.path().join("ends.ptx"), &text).unwrap();
    fs::write(folder.path().join("hangs.ptx"), text.replace("[%r7+16], 256;", "[%r7+16], 257;")).unwrap();
    for name in ["ends.ptx", "hangs.ptx"] {
        let drawn = json(folder.path(), &["timeline", name, "--format", "json"]);
        schema.holds(&drawn);
        schema.is_tight(&drawn, &[]);
    }
    for name in ["blackwell_tcgen05", "named_barriers", "cluster_dsmem", "cluster_work_stealing"] {
        let file = root(&format!("testdata/ptx/{name}.ptx"));
        schema.holds(&json(folder.path(), &["timeline", file.to_str().unwrap(), "--format", "json"]));
    }
}

/// Each line of what a run prints.
fn lines(folder: &std::path::Path, args: &[&str]) -> Vec<Value> {
    printed(folder, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lists_and_what_is_taken_out() {
    let (list, extract) = (Schema::new("list"), Schema::new("extract"));
    let folder = tempfile::tempdir().unwrap();
    copy(folder.path(), "hopper-13.4-sm_90a.cubin", "a.cubin");
    fs::copy(root("testdata/ptx/spills.ptx"), folder.path().join("b.ptx")).unwrap();
    fs::write(folder.path().join("c.cubin"), b"\x7fELF\x02\x01\x01\x33").unwrap();
    let listed = lines(folder.path(), &["list", ".", "no/such/file", "--format", "json"]);
    let kinds: Vec<&str> = listed.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"header") && kinds.contains(&"entry") && kinds.contains(&"error"), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"totals"));
    for line in &listed {
        list.holds(line);
        list.is_tight(line, &["/by_kind", "/jit/options"]);
    }
    let taken = lines(folder.path(), &["extract", "a.cubin", "b.ptx", "-o", "out", "--format", "json"]);
    assert_eq!(taken.len(), 2);
    for line in &taken {
        extract.holds(line);
        extract.is_tight(line, &[]);
        let size = fs::metadata(folder.path().join("out").join(line["file"].as_str().unwrap())).unwrap().len();
        assert_eq!(line["bytes"], size);
    }
}

#[test]
fn parts_of_a_gate() {
    let (part, times, folder) = (Schema::new("part"), Schema::new("times"), tempfile::tempdir().unwrap());
    copy(folder.path(), "hopper-13.4-sm_90a.cubin", "a.cubin");
    for how in [&["--part"][..], &["--shard", "1/1"]] {
        let written = json(folder.path(), &[&["gate", "a.cubin"], how].concat());
        part.holds(&written);
        part.is_tight(&written, &["/pieces/measured"]);
    }
    printed(folder.path(), &["gate", "a.cubin", "--update", "--record-times", "times.json"]);
    let written = serde_json::from_slice(&fs::read(folder.path().join("times.json")).unwrap()).unwrap();
    times.holds(&written);
    times.is_tight(&written, &["/microseconds"]);
}

#[test]
fn occupancy() {
    let schema = Schema::new("occupancy");
    for more in [
        "--registers 168 --threads 384 --cluster 2",
        "--registers 300 --threads 2048",
        "--registers 32 --threads 64 --smem 99999",
    ] {
        let args: Vec<&str> =
            "occupancy --arch sm_90a,sm_120 --format json".split(' ').chain(more.split(' ')).collect();
        for line in lines(&root("."), &args) {
            schema.holds(&line);
            assert!(line["table"].is_array());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let batch = "{\"arch\":\"sm_90\",\"registers\":40,\"threads\":96,\"mine\":[1]}\n{\"arch\":\"sm_9\"}\n";
    fs::write(folder.path().join("batch.jsonl"), batch).unwrap();
    let answers = lines(folder.path(), &["occupancy", "--batch", "batch.jsonl"]);
    assert_eq!((&answers[0]["mine"][0], answers[1]["error"].is_object()), (&1.into(), true));
    answers.iter().for_each(|answer| schema.holds(answer));
    let mut short = answers[0].clone();
    short.as_object_mut().unwrap().remove("limits");
    assert!(!schema.validator.is_valid(&short));
}

#[test]
fn what_is_at_hand() {
    let (cache, explain, toolchains) = (Schema::new("cache"), Schema::new("explain"), Schema::new("toolchains"));
    for command in ["info", "verify"] {
        let told = json(&root("."), &["cache", command, "--format", "json"]);
        cache.holds(&told);
        cache.is_tight(&told, &[]);
    }
    for more in [&["PI203"][..], &[]] {
        let told = json(&root("."), &[&["explain", "--format", "json"], more].concat());
        explain.holds(&told);
        explain.is_tight(&told, &[]);
    }
    let multiplied = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    let asked: [&[&str]; 4] =
        [&["idesc", "0x8200490"], &["idesc", "7"], &["sdesc", "0x4000004000010000"], &[multiplied]];
    for asked in asked {
        explain.holds(&json(&root("."), &[&["explain", "--format", "json"], asked].concat()));
    }
    if ptxas().is_none() {
        return;
    }
    let told = json(&root("."), &["toolchain", "list", "--format", "json"]);
    assert!(!told["toolchains"].as_array().unwrap().is_empty());
    toolchains.holds(&told);
    toolchains.is_tight(&told, &[]);
}
