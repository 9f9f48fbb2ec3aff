use std::path::{Path, PathBuf};

use super::*;

/// Files below a folder whose name ends in `.ptx`, sorted.
fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ptx") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Live: every file of a folder of real PTX parses without an error. `PTXINSPECT_PTX_CORPUS` names the folder.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("PTXINSPECT_PTX_CORPUS") else {
        println!("SKIPPED: PTXINSPECT_PTX_CORPUS names no folder of PTX files");
        return;
    };
    let (mut files, mut bytes, mut statements, mut wrong) = (0, 0, 0, 0);
    let (mut parsing, mut viewing) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    for path in ptx_files(Path::new(&folder)) {
        let raw = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&raw);
        let start = std::time::Instant::now();
        let module = parse(&text);
        parsing += start.elapsed();
        files += 1;
        bytes += text.len();
        statements += module.statements().len();
        if let Some(error) = module.errors.first() {
            wrong += 1;
            println!("{}: {error} ({} in all)", path.display(), module.errors.len());
        }
        let start = std::time::Instant::now();
        let mut uses = 0_usize;
        for function in module.functions() {
            let registers = function.registers();
            for located in function.instructions() {
                uses += registers.of(&located).count();
                std::hint::black_box(located.instruction.operation());
            }
        }
        std::hint::black_box(uses);
        viewing += start.elapsed();
    }
    let megabytes = bytes as f64 / 1e6;
    println!(
        "{files} files, {megabytes:.1} MB, {statements} statements ({:.2} bytes of AST a byte), {wrong} with errors, \
         parse {:.0} MB/s, classify and resolve {:.0} MB/s",
        (statements * size_of::<Statement>()) as f64 / bytes as f64,
        megabytes / parsing.as_secs_f64(),
        megabytes / viewing.as_secs_f64(),
    );
    assert_eq!(wrong, 0);
}
