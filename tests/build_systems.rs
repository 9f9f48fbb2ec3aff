//! The gate inside a build: CMake and Ninja, the real ones, make each kernel an action of its own.
#![cfg(unix)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{program, root, stderr, stdout, venv};

/// CMake and Ninja as packages of the tests' Python; `None`, and a word why, without them.
fn cmake(folder: &Path, args: &[&str]) -> Option<Output> {
    let bin = venv()?.parent()?.to_owned();
    if !bin.join("cmake").exists() || !bin.join("ninja").exists() {
        eprintln!("SKIPPED: the tests' Python has no cmake and ninja: scripts/test installs them");
        return None;
    }
    let ours = program();
    let mut command = Command::new(bin.join("cmake"));
    command.args(args).current_dir(folder);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    Some(command.env("PATH", path).output().unwrap())
}

fn said(output: &Output) -> String {
    stdout(output) + &stderr(output)
}

#[test]
fn each_kernel_is_a_build_action() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("kernels")).unwrap();
    let copy = |from: &str, to: &str| {
        fs::copy(root("testdata/cubin").join(from), folder.join(to)).unwrap();
    };
    copy("hopper-13.4-sm_90a.cubin", "kernels/a.cubin");
    copy("functions-13.4-sm_75.cubin", "kernels/it's b.cubin");
    copy("culprits-12.4-sm_80.cubin", "c.in");
    // One of the inputs is made by the build itself.
    let text = format!(
        "cmake_minimum_required(VERSION 3.20)\nproject(kernels NONE)\ninclude([[{}]])\n\
         add_custom_command(OUTPUT made.cubin COMMAND ${{CMAKE_COMMAND}} -E copy ${{CMAKE_SOURCE_DIR}}/c.in made.cubin \
         DEPENDS c.in)\n\
         ptxinspect_gate(registers PROGRAM [[{}]] INPUTS kernels/a.cubin \"kernels/it's b.cubin\" \
         ${{CMAKE_BINARY_DIR}}/made.cubin)\n",
        root("templates/ptxinspect.cmake").display(),
        Path::new(program().get_program()).display(),
    );
    fs::write(folder.join("CMakeLists.txt"), text).unwrap();
    let Some(configured) = cmake(folder, &["-G", "Ninja", "-B", "build"]) else { return };
    assert!(configured.status.success(), "{}", said(&configured));
    let build = |target: &str| cmake(folder, &["--build", "build", "--target", target]).unwrap();
    let gate = build("registers");
    assert!(!gate.status.success() && said(&gate).contains("there is no baseline"), "{}", said(&gate));
    let updated = build("registers-update");
    assert!(updated.status.success() && said(&updated).contains("in 3 units"), "{}", said(&updated));
    assert!(folder.join("ptxinspect.lock.json").is_file());
    let gate = build("registers");
    assert!(gate.status.success() && said(&gate).contains("gate: pass"), "{}", said(&gate));
    // What has not changed is not measured again.
    assert!(!said(&gate).contains("Measuring"), "{}", said(&gate));
    copy("culprits-12.9-sm_120.cubin", "c.in");
    let gate = build("registers");
    assert_eq!(said(&gate).matches("Measuring").count(), 1, "{}", said(&gate));
    assert!(!gate.status.success() && said(&gate).contains("made.cubin"), "{}", said(&gate));
    // The verdict is that of a single run.
    let whole = program()
        .current_dir(folder)
        .args(["gate", "kernels/a.cubin", "kernels/it's b.cubin", "build/made.cubin"])
        .arg("--baseline")
        .arg(folder.join("ptxinspect.lock.json"))
        .output()
        .unwrap();
    assert!(said(&gate).contains(stdout(&whole).trim_end()), "{}\n{}", said(&gate), said(&whole));
}
