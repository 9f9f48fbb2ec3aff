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
