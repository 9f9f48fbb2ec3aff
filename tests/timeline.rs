//! `ptxinspect timeline`: what is drawn of real pipelines, of one that hangs, and what is said where nothing can be drawn.

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support::{root, run, stderr, stdout};

const PIPELINE: &str = "testdata/ptx/hopper_warp_specialised.ptx";

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn drawn(args: &[&str]) -> String {
    let output = run(&[&["timeline"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn parsed(args: &[&str]) -> Value {
    serde_json::from_str(&drawn(&[args, &["--format", "json"]].concat())).expect("JSON")
}

/// The pipeline with one arrival too many asked for at one of its stages.
fn hanging(folder: &Path) -> String {
    let text = fs::read_to_string(root(PIPELINE)).unwrap();
    let count = "[%r7+16], 256;";
    assert!(text.contains(count));
    let file = folder.join("hangs.ptx");
    fs::write(&file, text.replace(count, "[%r7+16], 257;")).unwrap();
    path(&file).to_owned()
}

#[test]
fn a_pipeline_fills_and_goes_steady() {
    let file = root(PIPELINE);
    let all = parsed(&[path(&file)]);
    let drawn = &all["timelines"][0];
    assert_eq!((drawn["verdict"].as_str(), drawn["witness"].as_array().map(Vec::len)), (Some("ends"), Some(0)));
    let lanes = drawn["lanes"].as_array().unwrap();
    let roles: Vec<&str> = lanes.iter().map(|lane| lane["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["producer", "producer", "consumer"], "warps that do the same are one lane");
    let told: Vec<_> = lanes.iter().map(|lane| (&lane["warps"], &lane["takes_part"], &lane["does"])).collect();
    let [copies, waits, multiplies] = [json!([0]), json!([1, 2, 3]), json!([4, 5, 6, 7, 8, 9, 10, 11])];
    let yes = Value::Bool(true);
    assert_eq!(told[0], (&copies, &yes, &json!(["tma load"])));
    assert_eq!(told[1], (&waits, &Value::Bool(false), &json!([])), "every warp of a role has a lane");
    assert_eq!(told[2], (&multiplies, &yes, &json!(["wgmma"])));
    let stages: Vec<&str> =
        drawn["stages"].as_array().unwrap().iter().map(|stage| stage["object"].as_str().unwrap()).collect();
    assert_eq!(stages, ["full[0]", "full[1]", "full[2]", "full[3]"]);
    // All four stages are filled before the producer waits for the first time.
    let first = lanes[0]["waits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|wait| wait["object"] == "empty[0]" && wait["to"] != wait["from"]);
    let from = first.unwrap()["from"].as_u64().unwrap();
    let before = |mark: &&Value| mark["what"] == "copy" && mark["step"].as_u64().unwrap() <= from;
    let copies = lanes[0]["marks"].as_array().unwrap().iter().filter(before);
    let count: u64 = copies.map(|mark| mark["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 8, "two copies a stage");
    // Who waits for whom.
    let ends = |dependency: &Value| {
        let lane = |name: &str| roles[dependency[name].as_u64().unwrap() as usize];
        (lane("lane").to_owned(), lane("on").to_owned(), dependency["how"].as_str().unwrap().to_owned())
    };
    let found: Vec<_> = drawn["dependencies"].as_array().unwrap().iter().map(ends).collect();
    for (who, whom, how) in [("producer", "consumer", "arrival"), ("consumer", "producer", "copy")] {
        assert!(found.contains(&(who.to_owned(), whom.to_owned(), how.to_owned())), "{found:?}");
    }
    assert!(lanes[2]["work"].as_array().unwrap().iter().all(|work| work["what"] == "wgmma"));
}

#[test]
fn a_hang_ends_where_it_hangs_and_says_who_waits_for_what() {
    let folder = tempfile::tempdir().unwrap();
    let file = hanging(folder.path());
    let all = parsed(&[&file]);
    let drawn = &all["timelines"][0];
    assert_eq!(drawn["verdict"], "hangs");
    let witness = drawn["witness"].as_array().unwrap();
    assert_eq!((&witness[0]["role"], &witness[0]["ptx_line"]), (&Value::from("producer"), &Value::from(86)));
    assert_eq!((&witness[0]["arrived"], &witness[0]["expected"]), (&Value::from(256), &Value::from(257)));
    for lane in drawn["lanes"].as_array().unwrap().iter().filter(|lane| lane["takes_part"] == true) {
        let last = lane["waits"].as_array().unwrap().last().unwrap();
        assert_eq!(last["to"], Value::Null, "nobody goes on");
    }
    let text = self::drawn(&[&file]);
    for said in [
        "producer (warp 0) waits at line 86 for phase 0 of empty[2], 256 of 257 arrivals",
        "consumer (warps 4 to 11) waits at line 187 for phase 1 of full[2], 0 of 1 arrivals",
    ] {
        assert!(text.contains(said), "{text}");
    }
    let svg = self::drawn(&[&file, "--format", "svg"]);
    assert!(svg.contains("class=\"stuck\"") && svg.contains("256 of 257 arrivals"));
}

#[test]
fn text_fits_and_every_format_is_the_same_twice() {
    for name in [PIPELINE, "testdata/ptx/blackwell_tcgen05.ptx", "testdata/ptx/named_barriers.ptx"] {
        let file = root(name);
        for format in ["text", "svg", "json"] {
            let args = [path(&file), "--format", format];
            let (once, again) = (drawn(&args), drawn(&args));
            assert_eq!(once, again, "{name} {format}");
            match format {
                "text" => assert!(once.lines().all(|line| line.chars().count() <= 100), "{once}"),
                "svg" => {
                    assert!(once.starts_with("<svg ") && once.trim_end().ends_with("</svg>"));
                    // A picture that is opened by itself lies on its own ground, and not on the browser's white.
                    assert_eq!(once.matches("svg:root{background:#").count(), 2, "{once}");
                    assert!(!once.contains("<script") && once.contains("prefers-color-scheme:dark"));
                    assert_eq!(once.matches("<title>").count(), once.matches("</title>").count());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_window_of_steps_says_what_it_leaves_out() {
    let file = root(PIPELINE);
    let all = parsed(&[path(&file), "--steps", "30"]);
    let drawn = &all["timelines"][0];
    assert_eq!((drawn["first"].as_u64(), drawn["last"].as_u64()), (Some(0), Some(30)));
    assert!(
        drawn["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .any(|text| text.as_str().unwrap().starts_with("the steps from 30 "))
    );
    // Of one that hangs the end is drawn.
    let folder = tempfile::tempdir().unwrap();
    let all = parsed(&[&hanging(folder.path()), "--steps", "30"]);
    let drawn = &all["timelines"][0];
    assert_eq!(drawn["last"], drawn["steps"]);
    assert_eq!(drawn["left_out"][0], format!("the first {} steps", drawn["first"]));
}

#[test]
fn what_cannot_be_drawn_says_why_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        path(&file).to_owned()
    };
    let head = ".version 8.8\n.target sm_90a\n.address_size 64\n";
    let sizeless = write("sizeless.ptx", &format!("{head}.visible .entry meets()\n{{\nbar.sync 0;\nret;\n}}\n"));
    let plain = write("plain.ptx", &format!("{head}.visible .entry alone() .reqntid 32\n{{\nret;\n}}\n"));
    let empty = write("empty.ptx", head);
    let large = write("large.ptx", &format!("{head}.visible .entry k() .maxntid 2048\n{{\nbar.sync 0;\nret;\n}}\n"));
    let cubin = root("testdata/cubin/hopper-13.4-sm_90a.cubin");
    let pipeline = root(PIPELINE);
    for (args, expected) in [
        (&[&*sizeless][..], "say it with --threads N"),
        (&[&plain], "nothing in it synchronises"),
        (&[&empty], "has no kernel: expected PTX with an .entry"),
        (&[&large], "2048×1×1 threads cannot be launched: expected 1 to 1024"),
        (&[path(&cubin)], "is a cubin: a timeline is drawn from PTX"),
        (&[path(&pipeline), "--kernel", "gemm_specialized"], "it has gemm_specialised"),
        (&[path(&pipeline), "--steps", "0"], "0"),
        (&["/no/such.ptx"], "/no/such.ptx"),
    ] {
        let output = run(&[&["timeline"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}: nothing half drawn");
    }
    assert!(drawn(&[&sizeless, "--threads", "64"]).contains("ends in every order"));
    // Beside one that can be drawn, a kernel with nothing to draw is no failure.
    let both = fs::read_to_string(&sizeless).unwrap() + &fs::read_to_string(&plain).unwrap().replace(head, "");
    let both = write("both.ptx", &both);
    let output = run(&["timeline", &both, "--threads", "64"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("alone: nothing in it synchronises"), "{}", stderr(&output));
}

#[test]
fn what_is_undecided_is_drawn_up_to_there_and_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("undecided.ptx");
    // The lanes of a warp give different barriers, as memory has it.
    let text = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 64\n{\n\
                .reg .b32 %r<4>;\nbar.sync 0;\nmov.u32 %r1, %laneid;\nbar.sync %r1, 64;\nret;\n}\n";
    fs::write(&file, text).unwrap();
    let all = parsed(&[path(&file)]);
    let drawn = &all["timelines"][0];
    assert_eq!((&drawn["verdict"], &drawn["ptx_line"]), (&Value::from("undecided"), &Value::from(9)));
    assert!(drawn["reason"].is_string() && drawn["lanes"].as_array().is_some_and(|lanes| !lanes.is_empty()));
}
