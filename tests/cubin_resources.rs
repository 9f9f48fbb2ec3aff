//! Registers, barriers, stack, shared, constant and global memory of recorded cubins against the `ptxas -v` log beside each.
//!
//! The cubins are those of `testdata/cubin` and those under the folders of `PTXINSPECT_CUBINS` (separated by `:`), each with the
//! log of its making as NAME.log and, where recorded, `cuobjdump -res-usage` as NAME.res. `PTXINSPECT_CUOBJDUMP` names
//! cuobjdump to ask it about those without.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptxinspect::cubin::{ElfKind, Function, FunctionKind, Image};

fn cubins() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cubin"))];
    if let Some(more) = std::env::var_os("PTXINSPECT_CUBINS") {
        folders.extend(std::env::split_paths(&more));
    }
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "cubin") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The number before ` WORD` in one of the comma-separated parts: `8 registers` of `Used 8 registers, used 1 barriers`.
fn count(line: &str, word: &str) -> Option<u32> {
    line.split(',').find_map(|part| {
        let mut words = part.split_whitespace().rev();
        let rest: Vec<&str> = word.split_whitespace().rev().collect();
        rest.iter().all(|w| words.next() == Some(w)).then(|| words.next()?.parse().ok())?
    })
}

/// Checks one function against its `Used …` line.
fn check_used(function: &Function<'_>, line: &str, differ: &mut impl FnMut(String)) -> usize {
    let resources = &function.resources;
    let smem = count(line, "bytes smem").unwrap_or(0);
    let mut checks = vec![
        ("registers", resources.registers, count(line, "registers")),
        ("smem", Some(resources.smem_bytes), Some(smem)),
    ];
    if let Some(barriers) = count(line, "barriers") {
        checks.push(("barriers", resources.barriers, Some(barriers)));
    }
    if let Some(stack) = count(line, "bytes cumulative stack size")
        && resources.min_stack_bytes.is_some()
    {
        // Recursion leaves it open in the cubin: STACK:UNKNOWN of cuobjdump.
        checks.push(("cumulative stack", resources.min_stack_bytes, Some(stack)));
    }
    let banks: HashMap<u8, u32> = resources.cmem.iter().map(|c| (c.bank, c.bytes)).collect();
    for bank in 0..18 {
        if let Some(bytes) = count(line, &format!("bytes cmem[{bank}]")) {
            checks.push(("cmem", banks.get(&bank).copied(), Some(bytes)));
        }
    }
    for (what, found, expected) in &checks {
        if found != expected {
            differ(format!("{}: {what} {found:?}, ptxas {expected:?}", function.name));
        }
    }
    checks.len()
}

fn check_log(image: &Image<'_>, log: &str, differ: &mut impl FnMut(String)) -> usize {
    let mut checked = 0;
    let by_name: HashMap<&str, &Function<'_>> = image.functions.iter().map(|f| (&*f.name, f)).collect();
    let (mut entry, mut properties, mut part): (_, _, Option<(&Function<'_>, String)>) = (None, None, None);
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let name = rest.split('\'').next().unwrap_or_default();
            entry = by_name.get(name).copied();
            if entry.is_none() {
                differ(format!("no function {name}"));
            }
        } else if let Some(name) = line.split("Function properties for ").nth(1) {
            properties = by_name.get(name.trim()).copied();
            let inside = |f: &&Function<'_>| f.parts.iter().any(|p| p.callee() == name.trim());
            part = entry.filter(inside).map(|f| (f, name.trim().to_owned()));
        } else if line.contains("Used ") && line.contains(" registers") {
            if let Some(function) = entry {
                checked += check_used(function, line, differ);
            }
        } else if line.contains("bytes stack frame") {
            if let Some((function, name)) = &part
                && properties.is_none()
            {
                let found: Vec<_> =
                    function.parts.iter().filter(|p| p.callee() == name).map(|p| p.frame_bytes).collect();
                checked += 1;
                // sm_50 to sm_62 have no call frame information.
                if image.arch.sm >= 70 && found != [count(line, "bytes stack frame")] {
                    differ(format!("{name} in {}: frame {found:?}, ptxas {line}", function.name));
                }
            }
            if let Some(function) = properties {
                let (found, expected) = (function.resources.frame_bytes, count(line, "bytes stack frame"));
                checked += 1;
                if found != expected {
                    differ(format!("{}: frame {found:?}, ptxas {expected:?}", function.name));
                }
                let spills =
                    count(line, "bytes spill stores").unwrap_or(0) + count(line, "bytes spill loads").unwrap_or(0);
                if let Some(sites) = &function.spills
                    && sites.is_empty() != (spills == 0)
                    && function.parts.is_empty()
                {
                    differ(format!("{}: {} spill sites, ptxas {spills} bytes", function.name, sites.len()));
                }
            }
        } else if let Some(gmem) = count(line.split(": ").nth(1).unwrap_or_default(), "bytes gmem") {
            checked += 1;
            if image.gmem_bytes != u64::from(gmem) {
                differ(format!("gmem {}, ptxas {gmem}", image.gmem_bytes));
            }
        }
    }
    checked
}

/// ` Function k:` then `  REG:8 STACK:0 SHARED:1164 LOCAL:0 CONSTANT[0]:908 TEXTURE:0 SURFACE:0 SAMPLER:0`.
fn check_usage(image: &Image<'_>, usage: &str, differ: &mut impl FnMut(String)) -> usize {
    let mut checked = 0;
    let by_name: HashMap<&str, &Function<'_>> = image.functions.iter().map(|f| (&*f.name, f)).collect();
    let mut function = None;
    for line in usage.lines() {
        if let Some(name) = line.trim().strip_prefix("Function ").and_then(|l| l.strip_suffix(':')) {
            function = by_name.get(name).copied();
            if function.is_none() {
                differ(format!("cuobjdump knows function {name}"));
            }
        } else if let Some(function) = function
            && line.trim().starts_with("REG:")
        {
            let resources = &function.resources;
            for field in line.split_whitespace() {
                let Some((name, value)) = field.rsplit_once(':') else { continue };
                let Ok(value) = value.parse::<u32>() else { continue };
                let found = match name {
                    // For device functions of ABI 8 cuobjdump prints 0 for lack of a register count where it looks.
                    "REG" if function.kind == FunctionKind::Device && value == 0 => continue,
                    "REG" => resources.registers.unwrap_or(0),
                    "STACK" => resources.min_stack_bytes.unwrap_or(0),
                    "SHARED" => resources.smem_bytes + resources.smem_reserved_bytes,
                    "LOCAL" => resources.local_bytes,
                    _ => match name.strip_prefix("CONSTANT[").and_then(|n| n.strip_suffix(']')?.parse::<u8>().ok()) {
                        Some(bank) => resources.cmem.iter().filter(|c| c.bank == bank).map(|c| c.bytes).sum(),
                        None => continue,
                    },
                };
                checked += 1;
                if found != value {
                    differ(format!("{}: {name} {found}, cuobjdump {value}", function.name));
                }
            }
        }
    }
    checked
}

fn usage(cubin: &Path) -> Option<String> {
    if let Ok(recorded) = std::fs::read_to_string(cubin.with_extension("res")) {
        return Some(recorded);
    }
    let cuobjdump = std::env::var_os("PTXINSPECT_CUOBJDUMP")?;
    let output = Command::new(cuobjdump).arg("-res-usage").arg(cubin).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn resources_equal_ptxas_and_cuobjdump() {
    let (mut files, mut functions, mut checked, mut asked, mut wrong) = (0, 0, 0, 0, Vec::new());
    for path in cubins() {
        let bytes = std::fs::read(&path).expect("a cubin can be read");
        let name = path.display().to_string();
        let image = match Image::parse(&bytes) {
            Ok(image) => image,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        files += 1;
        functions += image.functions.len();
        assert!(matches!(image.kind, ElfKind::Executable | ElfKind::Relocatable), "{name}: {:?}", image.kind);
        let mut differ = |what: String| wrong.push(format!("{name}: {what}"));
        for problem in &image.problems {
            differ(problem.to_string());
        }
        if let Ok(log) = std::fs::read_to_string(path.with_extension("log")) {
            checked += check_log(&image, &log, &mut differ);
        }
        if let Some(usage) = usage(&path) {
            asked += check_usage(&image, &usage, &mut differ);
        }
    }
    println!(
        "{files} cubins, {functions} functions, {checked} values of ptxas -v, {asked} of cuobjdump -res-usage, {} differ",
        wrong.len()
    );
    for line in wrong.iter().take(60) {
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{} differences", wrong.len());
}
