//! The crate as a library: its examples run, and say what the command line says.

#[path = "../examples/compare.rs"]
mod compare;
#[path = "../examples/hangs.rs"]
mod hangs;
#[path = "../examples/launch.rs"]
mod launch;
#[path = "../examples/report.rs"]
mod report;

use std::path::Path;
use std::process::Command;

use ptxinspect::{ErrorKind, Options, Source, annotate, disassemble, inspect};

const CUBIN: &str = "testdata/cubin/blackwell-13.4-sm_100a.cubin";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What the command line writes to standard output.
fn command(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ptxinspect")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_examples_run() {
    let rows = report::run(&root().join(CUBIN)).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.contains(" registers, ")), "{rows:?}");
    let drawn = hangs::run(&root().join("testdata/ptx/hopper_warp_specialised.ptx")).unwrap();
    assert!(drawn.contains("gemm_specialised"), "{drawn}");
    let shares = launch::run("sm_90a", 96).unwrap();
    assert_eq!(shares.len(), 5);
    let before = root().join("testdata/cubin/culprits-12.4-sm_80.cubin");
    let after = root().join("testdata/cubin/culprits-12.9-sm_120.cubin");
    assert!(compare::run(&before, &after).unwrap().contains("registers"));
}

#[test]
fn a_report_is_the_command_lines() {
    let source = Source::from(Path::new(CUBIN));
    let report = inspect(&source, &Options::default()).unwrap();
    assert_eq!(report.to_json(), command(&[CUBIN, "--format", "json"]));
    assert_eq!(report.to_text(), command(&[CUBIN]));
    let bytes = std::fs::read(root().join(CUBIN)).unwrap();
    let held = inspect(&Source::Bytes { name: CUBIN.to_owned(), bytes }, &Options::default()).unwrap();
    assert_eq!(held, report);
}

#[test]
fn a_listing_and_an_annotation_are_the_command_lines() {
    let source = Source::from(Path::new(CUBIN));
    let listing = disassemble(&source, &Options::default()).unwrap();
    assert_eq!(listing.to_text(false, false), command(&["disasm", CUBIN]));
    assert_eq!(listing.to_json(), command(&["disasm", CUBIN, "--format", "json"]));
    let annotated = annotate(&source, &Options::default(), None).unwrap();
    assert_eq!(annotated.to_html(), command(&["annotate", CUBIN, "--format", "html"]));
    assert_eq!(annotated.to_svg(), command(&["annotate", CUBIN, "--format", "svg"]));
}

#[test]
fn errors_carry_the_words_of_the_command_line() {
    let error = inspect(&Source::from(Path::new("absent.cubin")), &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().starts_with("cannot open absent.cubin"), "{error}");
    let error = inspect(&Source::cubin(&b"\x7fELF"[..]), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("cut off inside its header"), "{error}");
    let options = Options { arch: vec!["sm_ninety".to_owned()], ..Options::default() };
    let error = inspect(&Source::from(Path::new(CUBIN)), &options).unwrap_err();
    assert!(error.to_string().contains("sm_ninety"), "{error}");
}
