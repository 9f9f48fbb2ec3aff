//! The fewest cycles between two kinds of instructions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use ptxinspect::base::Arch;
use ptxinspect::cost::hazards::{Cover, dependencies, is_fixed, kind, letter, pipe, row};
use ptxinspect::cubin::Function;
use ptxinspect::registers::code::Code;
use sha2::{Digest, Sha256};

use crate::Tally;

/// A row stands on so many dependencies at least.
const ENOUGH: u64 = 20_000;
/// Cycles that no fixed latency takes.
const FAR: u32 = 64;

/// Architecture, producer, consumer and way.
type Key = (u16, String, String, char);

/// The fewest cycles, and how many dependencies were seen.
#[derive(Clone, Copy)]
struct Least {
    cycles: u32,
    seen: u64,
}

/// What was mined.
#[derive(Default)]
pub struct Mined {
    rows: BTreeMap<Key, Least>,
}

fn note(rows: &mut BTreeMap<Key, Least>, key: Key, least: Least) {
    let row = rows.entry(key).or_insert(Least { seen: 0, ..least });
    *row = Least { cycles: row.cycles.min(least.cycles), seen: row.seen + least.seen };
}

impl Tally for Mined {
    fn add(&mut self, arch: Arch, _: &str, _: &Function<'_>, code: &Code) {
        // Kinds by number: a function has few of them and many dependencies.
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut names: Vec<(String, bool, bool)> = Vec::new();
        let kinds: Vec<usize> = (0..code.instructions().len() as u32)
            .map(|index| {
                let kind = kind(code, index);
                *numbers.entry(kind).or_insert_with_key(|kind| {
                    names.push((kind.clone(), is_fixed(kind), pipe(kind).is_some()));
                    names.len() - 1
                })
            })
            .collect();
        let mut found: HashMap<(usize, usize, char), Least> = HashMap::new();
        dependencies(code, |dependency| {
            let (from, to) = (kinds[dependency.from as usize], kinds[dependency.to as usize]);
            if let Cover::Cycles(cycles) = dependency.cover
                && names[from].1
                && names[to].2
            {
                let least = found.entry((from, to, letter(dependency.way))).or_insert(Least { cycles, seen: 0 });
                *least = Least { cycles: least.cycles.min(cycles), seen: least.seen + 1 };
            }
        });
        for ((from, to, letter), least) in found {
            note(&mut self.rows, (arch.sm, names[from].0.clone(), names[to].0.clone(), letter), least);
        }
    }

    fn merge(&mut self, other: Mined) {
        other.rows.into_iter().for_each(|(key, least)| note(&mut self.rows, key, least));
    }
}

impl Mined {
    /// The table, with what it was mined from.
    pub fn text(&self, paths: &[String]) -> String {
        let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
        for (key, least) in &self.rows {
            *seen.entry(key.0).or_default() += least.seen;
        }
        let mut text = String::from("# tools/latencies mined this; what it prints replaces it.\n");
        let names: BTreeSet<String> = paths.iter().map(|path| source(path)).collect();
        for name in names {
            let _ = writeln!(text, "# from {name}");
        }
        for (sm, seen) in seen {
            let _ = writeln!(text, "# sm_{sm}: {seen} dependencies");
        }
        let rows = self.table();
        // A row that somebody changed by hand is found out.
        let digest: String = Sha256::digest(rows.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "# sha256 of the rows: {digest}");
        text + &rows
    }

    fn table(&self) -> String {
        let mut all = self.rows.clone();
        for ((sm, from, to, letter), &least) in &self.rows {
            let (Some(of), Some(by)) = (pipe(from).map(row), pipe(to).map(row)) else { continue };
            note(&mut all, (*sm, from.clone(), by.to_owned(), *letter), least);
            note(&mut all, (*sm, of.to_owned(), by.to_owned(), *letter), least);
        }
        all.retain(|_, least| least.seen >= ENOUGH && least.cycles <= FAR);
        let wider = |(sm, from, to, letter): &Key| {
            let (of, by) = (row(pipe(from)?).to_owned(), row(pipe(to)?).to_owned());
            let keys = [(*sm, from.clone(), by.clone(), *letter), (*sm, of, by, *letter)];
            keys.iter().filter(|key| key.1 != *from || key.2 != *to).find_map(|key| all.get(key)).map(|row| row.cycles)
        };
        let mut rows: BTreeMap<(&str, &str, char), BTreeMap<u32, Vec<u16>>> = BTreeMap::new();
        for (key, least) in &all {
            if key.1.starts_with('@') || wider(key) != Some(least.cycles) {
                rows.entry((&key.1, &key.2, key.3)).or_default().entry(least.cycles).or_default().push(key.0);
            }
        }
        let mut text = String::new();
        for ((from, to, letter), least) in rows {
            let _ = write!(text, "{from} {to} {letter}");
            for (cycles, all) in least {
                let all: Vec<String> = all.iter().map(u16::to_string).collect();
                let _ = write!(text, " {cycles}:{}", all.join(","));
            }
            text.push('\n');
        }
        text
    }
}

/// A wheel by its package and version, anything else by its name.
fn source(path: &str) -> String {
    let name = Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned());
    match name.strip_suffix(".whl") {
        Some(wheel) => wheel.split('-').take(2).collect::<Vec<_>>().join(" "),
        None => name,
    }
}
