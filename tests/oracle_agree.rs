//! The PTX of the repository, compared with NVIDIA's own tools by `scripts/agree`: resources, lines and errors.
//!
//! It needs Python, a ptxas (installed on first use), nvdisasm and cuobjdump (`PTXINSPECT_NVDISASM`, `PTXINSPECT_CUOBJDUMP`; `scripts/test`
//! sets them); without one of them a test says SKIPPED and why.

mod support;

use std::path::PathBuf;
use std::process::Command;

/// Runs one comparison over `folder`; fails with what differed.
fn agree(comparison: &str, folder: &str) {
    let Some(ptxas) = support::ptxas() else { return };
    let mut command = Command::new("python3");
    command.arg(support::root("scripts/agree")).args([comparison]).arg(support::root(folder));
    command.args(["--ptxinspect", env!("CARGO_BIN_EXE_ptxinspect"), "--ptxas"]).arg(ptxas);
    for (flag, variable) in [("--nvdisasm", "PTXINSPECT_NVDISASM"), ("--cuobjdump", "PTXINSPECT_CUOBJDUMP")] {
        if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
            command.arg(flag).arg(path);
        }
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED: python3 does not start: {error}"),
    };
    let said = format!("{}{}", support::stdout(&output), support::stderr(&output));
    match output.status.code() {
        Some(0) => {
            assert!(said.contains("0 with differences") && !said.contains(": 0 files"), "nothing compared:\n{said}")
        }
        Some(2) => eprintln!("SKIPPED: {}", said.trim()),
        _ => panic!("{said}"),
    }
}

#[test]
fn resources_of_our_ptx_agree_with_ptxas() {
    agree("resources", "testdata/ptx");
}

#[test]
fn resources_of_our_cubins_agree_with_cuobjdump() {
    agree("resources", "testdata/cubin");
}

#[test]
fn lines_of_our_ptx_agree_with_nvdisasm() {
    agree("lines", "testdata/ptx");
}

#[test]
fn errors_of_our_bad_ptx_are_those_of_ptxas() {
    agree("errors", "testdata/ptx/bad");
}
