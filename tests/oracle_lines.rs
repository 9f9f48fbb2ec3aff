//! Every pc's PTX line and source line against nvdisasm.
//!
//! `PTXINSPECT_NVDISASM` names nvdisasm (13.x). The cubins are those of `testdata/cubin` and, to widen the net, those under the
//! folders of `PTXINSPECT_CUBINS` (separated by `:`). Without nvdisasm the test says SKIPPED.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptxinspect::base::Pc;
use ptxinspect::cubin::Image;
use ptxinspect::cubin::lines::LineTable;

/// A place as nvdisasm prints it: file and line, innermost first.
type Chain = Vec<(String, u32)>;

/// What nvdisasm says about one instruction.
#[derive(Default)]
struct Said {
    /// The annotation in force.
    chain: Chain,
    /// Whether it was printed right here. It is not repeated while file and line stay the same, even where the call
    /// sites change, so that only a printed one tells them.
    printed: bool,
}

fn disassemble(nvdisasm: &str, option: &str, cubin: &Path) -> Option<BTreeMap<(String, u32), Said>> {
    let output = Command::new(nvdisasm).args(["-c", option]).arg(cubin).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut section, mut chain, mut printed) = (String::new(), Chain::new(), false);
    let mut open = false;
    let mut said = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("//--------------------- ") {
            section = rest.split_whitespace().next().unwrap_or_default().to_owned();
            (chain, open) = (Chain::new(), false);
        } else if let Some(rest) = line.strip_prefix("//## File \"") {
            // //## File "a.cuh", line 4 inlined at "b.cu", line 9
            if !open {
                (chain, open, printed) = (Chain::new(), true, true);
            }
            let (file, rest) = rest.split_once("\", line ").expect("a line annotation names a file");
            let number = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            chain.push((file.to_owned(), number.expect("a line annotation has a line")));
        } else if let Some(rest) = line.strip_prefix("/*")
            && let Some((pc, _)) = rest.split_once("*/")
            && let Ok(pc) = u32::from_str_radix(pc, 16)
        {
            open = false;
            let first = said.insert((section.clone(), pc), Said { chain: chain.clone(), printed });
            assert!(first.is_none(), "two instructions at {section} {pc:x}");
            printed = false;
        }
    }
    Some(said)
}

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

#[test]
fn every_pc_has_nvdisasms_lines() {
    let Ok(nvdisasm) = std::env::var("PTXINSPECT_NVDISASM") else {
        eprintln!("SKIPPED: set PTXINSPECT_NVDISASM to the path of nvdisasm to compare line tables with it");
        return;
    };
    let (mut files, mut pcs, mut chains, mut wrong) = (0, 0, 0, Vec::new());
    for path in cubins() {
        let bytes = std::fs::read(&path).expect("a cubin can be read");
        let Ok(image) = Image::parse(&bytes) else { continue };
        // nvdisasm 13 knows sm_75 and later.
        if image.arch.sm < 75 {
            continue;
        }
        let lines = LineTable::parse(&image);
        let name = path.display().to_string();
        for problem in image.problems.iter().chain(&lines.problems) {
            wrong.push(format!("{name}: {problem}"));
        }
        let Some(ptx) = disassemble(&nvdisasm, "-gp", &path) else {
            eprintln!("{name}: nvdisasm fails");
            continue;
        };
        let source = disassemble(&nvdisasm, "-gi", &path).unwrap_or_default();
        files += 1;
        for function in &image.functions {
            let section = image.section(function.section).map(|s| s.name.to_string()).unwrap_or_default();
            let table = lines.function(function);
            for pc in (0..function.code.len() as u32).step_by(16) {
                let key = (section.clone(), pc);
                let (Some(ptx), Some(source)) = (ptx.get(&key), source.get(&key)) else {
                    wrong.push(format!("{name} {section} {pc:x}: nvdisasm has no such instruction"));
                    continue;
                };
                pcs += 1;
                let found = table.and_then(|t| t.ptx_line(Pc(pc))).map(|l| l.0);
                let expected = ptx.chain.first().map(|(_, line)| *line);
                if found != expected {
                    wrong.push(format!("{name} {section} {pc:x}: PTX line {found:?}, nvdisasm {expected:?}"));
                }
                let found: Chain = table.and_then(|t| t.source_at(Pc(pc))).map_or_else(Vec::new, |at| {
                    let sites = at.inlined_at.iter().map(|site| (site.file.to_owned(), site.line.0));
                    std::iter::once((at.file.to_owned(), at.line.0)).chain(sites).collect()
                });
                let depth = if source.printed { usize::MAX } else { 1 };
                chains += usize::from(source.printed);
                if !found.iter().take(depth).eq(source.chain.iter().take(depth)) {
                    wrong.push(format!("{name} {section} {pc:x}: source {found:?}, nvdisasm {:?}", source.chain));
                }
            }
        }
    }
    println!("{files} cubins, {pcs} instructions, {chains} chains of inlined calls, {} differ", wrong.len());
    for line in wrong.iter().take(40) {
        println!("{line}");
    }
    assert!(files > 0, "no cubin to compare");
    assert!(wrong.is_empty(), "{} differences", wrong.len());
}
