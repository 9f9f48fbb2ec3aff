//! What CI systems run: the action as a runner would, the GitLab job's script, the pre-commit hook; each against the schema of its system, and
//! what docs/ci.md says of them.
#![cfg(unix)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{program, root, stderr, stdout, venv};

/// A YAML block of docs/ci.md: the one after a text.
fn block(after: &str) -> String {
    let text = fs::read_to_string(root("docs/ci.md")).unwrap();
    let rest = text.split_once(after).unwrap_or_else(|| panic!("docs/ci.md has no {after}")).1;
    rest.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0.to_owned()
}

/// Runs something as a runner does, in a repository, with the program on PATH.
fn run(repository: &Path, mut command: Command) -> Output {
    let ours = program();
    let folder = Path::new(ours.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.current_dir(repository).env("PATH", path);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap()
}

fn shell(repository: &Path, text: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-e", "-o", "pipefail", "-c", text]);
    run(repository, shell)
}

/// A program of the tests' Python packages.
fn packaged(name: &str) -> Option<Command> {
    Some(Command::new(venv()?.with_file_name(name)))
}

/// A repository with a cubin and its baseline.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "culprits-12.9-sm_120");
    fs::write(folder.path().join("ptxinspect.toml"), "inputs = [\"*.cubin\"]\n").unwrap();
    let recorded = shell(folder.path(), "ptxinspect gate --update");
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    folder
}

fn put(repository: &Path, cubin: &str) {
    fs::copy(root(&format!("testdata/cubin/{cubin}.cubin")), repository.join("kernels.cubin")).unwrap();
}

fn said(output: &Output) -> String {
    format!("{}{}", stdout(output), stderr(output))
}

#[test]
fn the_action_passes_fails_and_comments() {
    let Some(python) = venv() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut check = Command::new(python);
    check.arg(root("scripts/check-action")).arg("--program").arg(program().get_program());
    let checked = run(folder.path(), check);
    assert!(checked.status.success(), "{}", said(&checked));
}

#[test]
fn gitlab_passes_and_fails() {
    let text = fs::read_to_string(root("templates/gate.yml")).unwrap();
    let script = text.split_once("  script:\n    - ").unwrap().1.lines().next().unwrap();
    let repository = repository();
    let gate = shell(repository.path(), script);
    assert!(gate.status.success(), "{}", said(&gate));
    put(repository.path(), "culprits-13.4-sm_90");
    assert!(!shell(repository.path(), script).status.success());
    assert!(repository.path().join("gate.xml").exists() && repository.path().join("gate.md").exists());
    let gate = shell(repository.path(), &format!("PTXINSPECT_ARGUMENTS='--kernel none*'; {script}"));
    assert!(said(&gate).contains("none*"), "{}", said(&gate));
}

/// What the matrices of docs/ci.md run, in their order: passes, fails, and leaves what it says it leaves.
#[test]
fn matrices_pass_and_fail() {
    let gates = |text: String| -> Vec<String> {
        let lines = text.lines().filter_map(|line| Some(line.split_once("ptxinspect gate ")?.1.to_owned()));
        lines.map(|line| format!("ptxinspect gate {line}")).collect()
    };
    let github = gates(block("### GitHub Actions, as a matrix"));
    let gitlab = gates(block("### GitLab, as a matrix"));
    assert_eq!((github.len(), gitlab.len()), (2, 2));
    let github = format!(
        "mkdir parts; for i in 1 2 3 4; do {}; done; mv part-?.json parts; {}",
        github[0].replace("${{ matrix.shard }}", "$i"),
        github[1]
    );
    let gitlab = format!(
        "export CI_NODE_TOTAL=4; for CI_NODE_INDEX in 1 2 3 4; do {}; done; {}; test -f gate.xml",
        gitlab[0], gitlab[1]
    );
    let page = fs::read_to_string(root("docs/ci.md")).unwrap();
    let slurm = page.split_once("### Slurm, as an array\n\n```sh\n").unwrap().1.split_once("```").unwrap().0;
    // Slurm itself is no package: this does what its manual says of these options, in turn.
    let slurm = format!(
        "sbatch() {{ local ids=1; for word; do case $word in --array=1-*) ids=${{word#--array=1-}};; esac; done; \
         for id in $(seq $ids); do SLURM_ARRAY_TASK_ID=$id bash -c \"${{!#}}\" >&2 || return; done; echo 7; }}\n{slurm}"
    );
    for script in [github, gitlab, slurm] {
        let repository = repository();
        let run = || shell(repository.path(), &format!("rm -rf part*; {script}"));
        let passed = run();
        assert!(passed.status.success(), "{script}\n{}", said(&passed));
        put(repository.path(), "culprits-13.4-sm_90");
        let failed = run();
        assert!(!failed.status.success(), "{script}\n{}", said(&failed));
    }
}

/// pre-commit itself, with the hook that takes the program on PATH; the other one differs in how the program comes there.
#[test]
fn the_hook_passes_and_fails() {
    let Some(mut validate) = packaged("pre-commit") else { return };
    validate.args(["validate-manifest"]).arg(root(".pre-commit-hooks.yaml"));
    let repository = repository();
    let valid = run(repository.path(), validate);
    assert!(valid.status.success(), "{}", said(&valid));
    // A repository that holds the hooks alone: pre-commit clones it.
    let hooks = tempfile::tempdir().unwrap();
    fs::copy(root(".pre-commit-hooks.yaml"), hooks.path().join(".pre-commit-hooks.yaml")).unwrap();
    let commit = "git init --quiet && git add . && git -c user.name=t -c user.email=t@localhost commit --quiet -m t";
    for folder in [hooks.path(), repository.path()] {
        let committed = shell(folder, commit);
        assert!(committed.status.success(), "{}", said(&committed));
    }
    let hook = || {
        let mut hook = packaged("pre-commit").unwrap();
        hook.arg("try-repo").arg(hooks.path()).args(["ptxinspect-gate-system", "--all-files", "--verbose"]);
        hook.env("PRE_COMMIT_HOME", hooks.path().join("home"));
        run(repository.path(), hook)
    };
    let passed = hook();
    assert!(passed.status.success() && said(&passed).contains("Passed"), "{}", said(&passed));
    put(repository.path(), "culprits-13.4-sm_90");
    let failed = hook();
    assert!(!failed.status.success() && said(&failed).contains("gate: fail"), "{}", said(&failed));
}

#[test]
fn every_system_knows_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let job = fs::read_to_string(root("templates/gate.yml")).unwrap();
    let job = job.split_once("\n---\n").unwrap().1.replace("$[[ inputs.stage ]]", "test");
    for (schema, text) in [
        ("vendor.github-actions", fs::read_to_string(root("action.yml")).unwrap()),
        ("vendor.github-workflows", block("`.github/workflows/registers.yml`")),
        ("vendor.gitlab-ci", job),
        ("vendor.gitlab-ci", block("`.gitlab-ci.yml`")),
        ("vendor.github-workflows", block("### GitHub Actions, as a matrix")),
        ("vendor.gitlab-ci", block("### GitLab, as a matrix")),
    ] {
        let Some(mut check) = packaged("check-jsonschema") else { return };
        let file = folder.path().join("file.yml");
        fs::write(&file, &text).unwrap();
        check.args(["--builtin-schema", schema]).arg(&file);
        let checked = run(folder.path(), check);
        assert!(checked.status.success(), "{schema}: {}\n{text}", said(&checked));
    }
}

/// Nothing is installed from a registry that does not have it, every input is described, and every hook is there.
#[test]
fn the_page_says_what_is_there() {
    let page = fs::read_to_string(root("docs/ci.md")).unwrap();
    for (number, line) in page.lines().enumerate() {
        let installs = line.contains("cargo install") || line.contains("pip install");
        let named = line.contains("--git ") || line.contains("--path ") || line.contains(".whl");
        assert!(!installs || named, "docs/ci.md:{}: {line}", number + 1);
    }
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    for (number, line) in page.lines().enumerate().filter(|(_, line)| line.contains("OWNER/ptxinspect")) {
        let is_address = line.trim_start().starts_with("- repo:");
        assert!(is_address || line.contains(version), "docs/ci.md:{}: {line}", number + 1);
    }
    let action = fs::read_to_string(root("action.yml")).unwrap();
    let inputs = action.split_once("\ninputs:\n").unwrap().1.split_once("\noutputs:\n").unwrap().0;
    for input in inputs.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let input = input.trim().trim_end_matches(':');
        assert!(page.contains(&format!("`{input}`")), "docs/ci.md does not describe {input}");
    }
    let hooks = fs::read_to_string(root(".pre-commit-hooks.yaml")).unwrap();
    for hook in hooks.lines().filter_map(|line| line.strip_prefix("- id: ")) {
        assert!(page.contains(hook), "docs/ci.md does not name {hook}");
    }
    // Inputs reach a shell through its environment alone.
    for line in action.lines().filter(|line| line.trim_start().starts_with("run:")) {
        assert!(!line.contains("${{"), "{line}");
    }
}
