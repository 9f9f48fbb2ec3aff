//! The workflows of docs/ci.md, run as written in a repository: every step that is a command of ours or of the shell.
#![cfg(unix)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{program, root, stderr, stdout};

/// A step's name and its command.
type Step = (String, String);

/// The commands of a workflow: what follows `run:` in a GitHub workflow, what stands below `script:` in a GitLab one.
fn steps(file: &str) -> Vec<Step> {
    let text = fs::read_to_string(root("docs/ci.md")).unwrap();
    let after = text.split_once(&format!("`{file}`:")).unwrap_or_else(|| panic!("{file}")).1;
    let yaml = after.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = yaml.lines().collect();
    let below = |at: usize| {
        let deeper = |line: &&&str| depth(line) > depth(lines[at]);
        lines[at + 1..].iter().take_while(deeper).map(|line| line.trim()).collect::<Vec<_>>()
    };
    let mut name = String::new();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        if let Some(given) = line.strip_prefix("- name: ") {
            name = given.to_owned();
        }
        match line.strip_prefix("run: ") {
            Some(">-") => found.push((name.clone(), below(at).join(" "))),
            Some(command) => found.push((name.clone(), command.to_owned())),
            None if line == "script:" => {
                found.extend(
                    below(at).iter().map(|line| ("script".to_owned(), line.trim_start_matches("- ").to_owned())),
                );
            }
            None => {}
        }
    }
    assert!(!found.is_empty(), "{file} has steps");
    found
}

/// Runs a step as a runner does, in the repository, with the program on PATH.
fn run_step(repository: &Path, command: &str) -> Output {
    let ours = program();
    let folder = Path::new(ours.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-e", "-o", "pipefail", "-c", command]).current_dir(repository).env("PATH", path);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("GITHUB_STEP_SUMMARY", repository.join("summary.md")).output().unwrap()
}

/// A repository with a cubin and its baseline.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "culprits-12.9-sm_120");
    fs::write(folder.path().join("ptxinspect.toml"), "inputs = [\"*.cubin\"]\n").unwrap();
    let recorded = run_step(folder.path(), "ptxinspect gate --update");
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    folder
}

fn put(repository: &Path, cubin: &str) {
    fs::copy(root(&format!("testdata/cubin/{cubin}.cubin")), repository.join("kernels.cubin")).unwrap();
}

#[test]
fn github_passes_fails_and_says_where() {
    let steps = steps(".github/workflows/registers.yml");
    let command = |name: &str| steps.iter().find(|step| step.0 == name).unwrap_or_else(|| panic!("{name}")).1.clone();
    assert_eq!(command("Install ptxinspect"), "cargo install --locked ptxinspect");
    let repository = repository();
    let gate = run_step(repository.path(), &command("Gate"));
    assert!(gate.status.success(), "{}{}", stdout(&gate), stderr(&gate));

    // A build of another ptxas for another architecture: nothing of it is recorded.
    put(repository.path(), "culprits-13.4-sm_90");
    let gate = run_step(repository.path(), &command("Gate"));
    assert_ne!(gate.status.code(), Some(0), "{}", stdout(&gate));
    assert!(stdout(&gate).contains("::error "), "{}", stdout(&gate));
    let sarif: serde_json::Value =
        serde_json::from_slice(&fs::read(repository.path().join("gate.sarif")).unwrap()).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert!(fs::read_to_string(repository.path().join("gate.xml")).unwrap().starts_with("<?xml"));
    let summary = run_step(repository.path(), &command("Summary"));
    assert!(summary.status.success(), "{}", stderr(&summary));
    let text = fs::read_to_string(repository.path().join("summary.md")).unwrap();
    assert_eq!(text, fs::read_to_string(repository.path().join("gate.md")).unwrap());
    assert!(text.contains("ptxinspect"), "{text}");
}

#[test]
fn gitlab_passes_and_fails() {
    let steps = steps(".gitlab-ci.yml");
    let repository = repository();
    let run = || -> Vec<Output> { steps.iter().map(|(_, command)| run_step(repository.path(), command)).collect() };
    assert!(run().iter().all(|output| output.status.success()));
    put(repository.path(), "culprits-13.4-sm_90");
    assert!(run().iter().any(|output| !output.status.success()));
    assert!(repository.path().join("gate.xml").exists() && repository.path().join("gate.md").exists());
}
