//! The module table of `src/lib.rs`, checked: who may use whom, and where processes, files and panics may be.

use std::fs;
use std::path::{Path, PathBuf};

/// What the engine may import of ours: all but what writes and what reads arguments.
const ENGINE: &[&str] = &[
    "base",
    "files",
    "ptx",
    "cubin",
    "sass",
    "toolchain",
    "container",
    "cache",
    "flow",
    "registers",
    "cost",
    "report",
    "compare",
    "gate",
    "matrix",
    "tune",
];

/// Each module and what it may import of ours. Who may use the engine may use what the engine uses.
const TABLE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("ptx", &["base"]),
    ("cubin", &["base"]),
    ("sass", &["base"]),
    ("files", &[]),
    ("toolchain", &["base", "files"]),
    ("container", &["base"]),
    ("graph", &["base"]),
    ("flow", &["base", "sass", "graph"]),
    ("registers", &["base", "cubin", "sass", "graph", "flow"]),
    ("cost", &["base", "cubin", "sass", "graph", "flow", "registers"]),
    ("simt", &["base", "ptx", "graph"]),
    ("access", &["base", "ptx", "simt"]),
    ("roles", &["base", "ptx", "registers", "simt"]),
    ("sync", &["base", "ptx", "registers", "simt", "roles"]),
    ("memory", &["base", "ptx", "simt", "roles", "sync"]),
    (
        "report",
        &[
            "base",
            "ptx",
            "cubin",
            "sass",
            "toolchain",
            "graph",
            "flow",
            "registers",
            "simt",
            "roles",
            "sync",
            "memory",
            "access",
            "cost",
        ],
    ),
    ("cache", &["base", "files"]),
    ("compare", &["base", "report"]),
    ("gate", &["base", "report", "compare"]),
    ("matrix", &["base", "report", "gate"]),
    ("tune", &["base", "ptx", "registers", "simt", "roles", "report", "compare"]),
    ("engine", ENGINE),
    ("emit", &["base", "report", "registers", "compare", "gate", "matrix", "tune"]),
    ("mcp", &["engine", "emit"]),
    ("cli", &["engine", "emit", "mcp"]),
];

fn sources(module: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
        let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    let mut files = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module), &mut files);
    files
}

#[test]
fn every_module_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.path().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(TABLE.iter().any(|(module, _)| *module == name), "src/{name} is not in the table");
        }
    }
}

#[test]
fn imports_point_one_way() {
    for (module, named) in TABLE {
        let inherited = if named.contains(&"engine") { ENGINE } else { &[] };
        let allowed = |other: &str| named.contains(&other) || inherited.contains(&other);
        for (path, text) in sources(module) {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                for (other, _) in TABLE.iter().filter(|(other, _)| other != module && !allowed(other)) {
                    let used =
                        line.contains(&format!("crate::{other}::")) || line.contains(&format!("crate::{other};"));
                    assert!(!used, "{}:{}: {module} may not use {other}", path.display(), number + 1);
                }
            }
        }
    }
}

#[test]
fn only_toolchain_starts_processes_and_only_emit_and_cli_print() {
    for (module, _) in TABLE {
        for (path, text) in sources(module) {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
            if is_test {
                continue;
            }
            if !["toolchain"].contains(module) {
                assert!(!code.contains("process::Command"), "{} starts a process", path.display());
            }
            if *module != "cli" {
                assert!(!code.contains("println!("), "{} prints", path.display());
            }
        }
    }
}

/// What is written to a terminal or a CI log passes `emit::clean` (`cli/output.rs`), and what cannot be written is dealt with in one
/// place (`cli/streams.rs`): nothing else opens the standard streams.
#[test]
fn one_file_opens_the_standard_streams() {
    let sources = TABLE.iter().flat_map(|(module, _)| sources(module));
    for (path, text) in
        sources.filter(|(path, _)| !path.ends_with("cli/output.rs") && !path.ends_with("cli/streams.rs"))
    {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_test = path.components().any(|part| part.as_os_str() == "tests.rs" || part.as_os_str() == "tests");
        for (number, line) in
            code.lines().enumerate().filter(|(_, line)| !is_test && !line.trim_start().starts_with("//"))
        {
            for opened in [
                "stdout().lock",
                "stderr().lock",
                "anstream::",
                "println!(",
                "print!(",
                "(io::stderr()",
                "(io::stdout()",
            ] {
                assert!(!line.contains(opened), "{}:{}: {opened}: use cli/output.rs", path.display(), number + 1);
            }
        }
    }
}
