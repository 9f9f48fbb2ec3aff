//! Hazards by the table that is built in.

use std::collections::BTreeMap;

use ptxinspect::base::Arch;
use ptxinspect::cost::hazards::{hazards, kind};
use ptxinspect::cubin::Function;
use ptxinspect::registers::code::Code;

use crate::Tally;

/// Hazards that are printed.
const MOST_PRINTED: usize = 200;

/// Dependencies of an architecture.
#[derive(Default)]
struct Counts {
    functions: u64,
    decided: u64,
    across: u64,
    unknown: u64,
    hazards: u64,
}

/// What was checked, by architecture.
#[derive(Default)]
pub struct Checked {
    counts: BTreeMap<u16, Counts>,
    found: Vec<String>,
}

impl Tally for Checked {
    fn add(&mut self, arch: Arch, path: &str, function: &Function<'_>, code: &Code) {
        let all = hazards(code);
        let counts = self.counts.entry(arch.sm).or_default();
        counts.functions += 1;
        counts.decided += all.decided;
        counts.across += all.across;
        counts.unknown += all.unknown;
        counts.hazards += all.found.len() as u64;
        self.found.extend(all.found.into_iter().take(MOST_PRINTED).map(|found| {
            let kinds = (kind(code, found.from.0 / 16), kind(code, found.to.0 / 16));
            format!("{arch} {} {found:?} {kinds:?} {path}", function.name)
        }));
    }

    fn merge(&mut self, other: Checked) {
        for (sm, more) in other.counts {
            let counts = self.counts.entry(sm).or_default();
            counts.functions += more.functions;
            counts.decided += more.decided;
            counts.across += more.across;
            counts.unknown += more.unknown;
            counts.hazards += more.hazards;
        }
        self.found.extend(other.found);
        self.found.sort();
        self.found.truncate(MOST_PRINTED);
    }
}

impl Checked {
    /// Whether a consumer comes too early.
    pub fn has_hazards(&self) -> bool {
        self.counts.values().any(|counts| counts.hazards > 0)
    }

    /// Prints the hazards, and a line for each architecture.
    pub fn print(&self) {
        self.found.iter().for_each(|found| println!("{found}"));
        for (sm, Counts { functions, decided, across, unknown, hazards }) in &self.counts {
            println!(
                "sm_{sm}: {functions} functions, {decided} dependencies decided, {across} of them across blocks, \
                 {unknown} not known, {hazards} hazards"
            );
        }
        let sum = |of: fn(&Counts) -> u64| self.counts.values().map(of).sum::<u64>();
        println!(
            "{} functions, {} dependencies decided, {} of them across blocks, {} not known, {} hazards",
            sum(|counts| counts.functions),
            sum(|counts| counts.decided),
            sum(|counts| counts.across),
            sum(|counts| counts.unknown),
            sum(|counts| counts.hazards)
        );
    }
}
