//! Any text and any edit of `tune`: it is refused, or what comes of it has the functions that were there, and as many of each instruction
//! where nothing but their order or a directive changes.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use ptxinspect::ptx::{self, Module};
use ptxinspect::tune::edit::{self, Edit};

/// The instructions of a text, and how many there are of each.
fn instructions(module: &Module<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for located in module.functions().flat_map(|function| function.instructions().collect::<Vec<_>>()) {
        *counts.entry(located.instruction.text().trim().to_owned()).or_default() += 1;
    }
    counts
}

fuzz_target!(|data: &[u8]| {
    let (first, rest) = data.split_last().map_or((0, data), |(last, rest)| (*last, rest));
    let text = String::from_utf8_lossy(rest);
    let module = ptx::parse(&text);
    let line = u32::from(first) + 1;
    let edits = [
        Edit::MaxNReg(u32::from(first)),
        Edit::MinBlocks(u32::from(first % 32)),
        Edit::MaxThreads(u32::from(first) * 8),
        Edit::Budgets(vec![24, 240]),
        Edit::NoUnroll(line),
        Edit::NoInline(line),
        Edit::SpillToShared,
        Edit::SpillBesideShared(u32::from(first) * 64),
        Edit::LoadsLate,
        Edit::FewestLive,
        Edit::Recompute,
    ];
    let before = instructions(&module);
    for function in module.functions() {
        for edit in &edits {
            assert_eq!(edit.to_string().parse::<Edit>().ok().as_ref(), Some(edit));
            let Ok(edited) = edit::apply(&function, &[edit]) else { continue };
            let after = ptx::parse(&edited);
            assert_eq!(after.functions().count(), module.functions().count(), "{edit}");
            if !matches!(edit, Edit::Budgets(_) | Edit::Recompute) {
                assert_eq!(instructions(&after), before, "{edit}");
            }
        }
        // Two at once are made one after the other, or refused.
        let _ = edit::apply(&function, &[&Edit::Recompute, &Edit::FewestLive]);
    }
});
