//! Accesses of small kernels, and of a folder of PTX where one is given.

use super::{AccessFacts, accesses};
use crate::simt::{Bits, BlockSize, Warps};

fn facts(text: &str) -> Vec<(String, Option<AccessFacts>)> {
    let module = crate::ptx::parse(text);
    let mut found = Vec::new();
    for function in module.functions().filter(|function| function.is_definition()) {
        let header = function.header();
        let (required, most) = (header.required_threads(), header.max_threads());
        let size = required.or(most).map(|dimensions| BlockSize { dimensions, exact: required.is_some() });
        let warps = Warps::of(&function, size).with_operands(&function, size);
        let bits = Bits::of(&warps);
        let operands = (warps, bits);
        found.push((function.name().to_owned(), accesses(&function, Some(&operands))));
    }
    found
}

/// `PTXINSPECT_ACCESSES=folder cargo test --lib access:: -- --nocapture`
#[test]
fn share_of_a_folder() {
    let Some(folder) = std::env::var_os("PTXINSPECT_ACCESSES") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let (mut shared, mut decided, mut global, mut global_decided) = (0, 0, 0, 0);
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "ptx")) {
        let text = std::fs::read_to_string(path).expect("text");
        let start = std::time::Instant::now();
        for (name, found) in facts(&text) {
            let Some(found) = found else { continue };
            eprintln!(
                "{} {name}: shared {}/{} ({} conflicts), global {}/{} ({} scattered) {:?}",
                path.file_name().unwrap_or_default().display(), found.shared_decided, found.shared, found.shared_conflicts,
                found.global_decided, found.global, found.global_scattered, start.elapsed()
            );
            for fact in found.accesses.iter().filter(|fact| !fact.is_decided()).take(8) {
                let line = fact.undecided.as_ref().and_then(|why| why.ptx_line).map_or(0, |line| line.0);
                let told = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("");
                eprintln!("   {} {:?} {:?}..{:?}: {:?} {line} {}", fact.ptx_line, fact.space, fact.least, fact.most, fact.undecided.as_ref().map(|why| why.why), told.trim());
            }
            shared += found.shared;
            decided += found.shared_decided;
            global += found.global;
            global_decided += found.global_decided;
        }
    }
    eprintln!("shared {decided}/{shared}, global {global_decided}/{global}");
}

#[derive(serde::Deserialize)]
struct Measured {
    name: String,
    lines: Vec<String>,
    access: String,
    cycles: f64,
}

/// What an H200 took for each of 600 accesses (`scripts/accesses`): as many cycles as wavefronts are told.
#[test]
fn accesses_as_they_were_measured() {
    let recorded = include_str!("../../testdata/cost/accesses.jsonl");
    let (mut decided, mut wrong) = (0, Vec::new());
    let all: Vec<Measured> = recorded.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    for one in &all {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 buffer[36864];\n\
             .visible .entry k(.param .u64 data)\n.reqntid 512, 1, 1\n{{\n.reg .b32 %i<8>;\n.reg .b32 %r<99>;\n.reg .b64 %l<20>;\n\
             .reg .b64 %a<12>;\n.reg .pred %p<8>;\nld.param.u64 %a1, [data];\nmov.u32 %i1, %tid.x;\n{}\n{}\nret;\n}}\n",
            one.lines.join("\n"),
            one.access
        );
        let (_, found) = facts(&text).swap_remove(0);
        let found = found.expect("accesses");
        let fact = found.accesses.iter().find(|fact| fact.space == super::AccessSpace::Shared).expect("the access");
        if !fact.is_decided() {
            continue;
        }
        decided += 1;
        let (least, most) = (f64::from(fact.least.unwrap_or(0)), f64::from(fact.most.unwrap_or(0)));
        if least != most || (one.cycles - most).abs() > 0.1_f64.max(most * 0.01) {
            wrong.push(format!("{}: {least}..{most} told, {} measured: {}", one.name, one.cycles, one.access));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((decided, all.len()), (599, 600));
}
