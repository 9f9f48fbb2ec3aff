//! `latencies CUBIN…` mines, `latencies --check CUBIN…` checks: the fewest cycles that ptxas leaves between instructions that depend on
//! each other, by kind.
//!
//! What is mined is printed as `src/cost/latencies.txt` has it: a row for two kinds that were seen often enough, for a kind and a pipe, and for two
//! pipes; a row that says no more than a wider one is left out.

use std::collections::BTreeMap;

use ptxinspect::cost::hazards::{Cover, dependencies, hazards, is_fixed, kind, letter, pipe, row};
use ptxinspect::cubin::Image;
use ptxinspect::registers::code::{Code, Counting};
use rayon::prelude::*;

/// By architecture, producer, consumer and way: the fewest cycles, and how often.
type Table = BTreeMap<(u16, String, String, char), (u32, u64)>;

/// A row stands on so many dependencies at least.
const ENOUGH: u64 = 20_000;

fn note(table: &mut Table, key: (u16, String, String, char), cycles: u32, times: u64) {
    let row = table.entry(key).or_insert((cycles, 0));
    *row = (row.0.min(cycles), row.1 + times);
}

fn mine(path: &str) -> Table {
    let mut table = Table::new();
    let Ok(bytes) = std::fs::read(path) else { return table };
    let Ok(image) = Image::parse(&bytes) else { return table };
    for function in &image.functions {
        let Some(code) = Code::analyse(image.arch, function, &Counting::default()) else { continue };
        let kinds: Vec<String> = (0..code.instructions().len() as u32).map(|index| kind(&code, index)).collect();
        dependencies(&code, |found| {
            let (from, to) = (&kinds[found.from as usize], &kinds[found.to as usize]);
            if let Cover::Cycles(cycles) = found.cover
                && is_fixed(from)
                && pipe(to).is_some()
            {
                note(&mut table, (image.arch.sm, from.clone(), to.clone(), letter(found.way)), cycles, 1);
            }
        });
    }
    table
}

fn print(mined: &Table) {
    let mut all = mined.clone();
    for ((sm, from, to, letter), &(cycles, times)) in mined {
        let (Some(of), Some(by)) = (pipe(from).map(row), pipe(to).map(row)) else { continue };
        note(&mut all, (*sm, from.clone(), by.to_owned(), *letter), cycles, times);
        note(&mut all, (*sm, of.to_owned(), by.to_owned(), *letter), cycles, times);
    }
    all.retain(|_, (cycles, times)| *times >= ENOUGH && *cycles <= 64);
    let wider = |(sm, from, to, letter): &(u16, String, String, char)| {
        let (of, by) = (row(pipe(from)?).to_owned(), row(pipe(to)?).to_owned());
        let keys = [(*sm, from.clone(), by.clone(), *letter), (*sm, of, by, *letter)];
        keys.iter().filter(|key| key.1 != *from || key.2 != *to).find_map(|key| all.get(key)).map(|row| row.0)
    };
    let mut rows: BTreeMap<(&str, &str, char), BTreeMap<u32, Vec<u16>>> = BTreeMap::new();
    for (key, &(cycles, _)) in &all {
        if key.1.starts_with('@') || wider(key) != Some(cycles) {
            rows.entry((&key.1, &key.2, key.3)).or_default().entry(cycles).or_default().push(key.0);
        }
    }
    for ((from, to, letter), least) in rows {
        let least = least.iter().map(|(cycles, all)| {
            let all: Vec<String> = all.iter().map(u16::to_string).collect();
            format!("{cycles}:{}", all.join(","))
        });
        println!("{from} {to} {letter} {}", least.collect::<Vec<_>>().join(" "));
    }
}

/// Hazards of cubins by the table that is built in: dependencies decided, not known, and those that fall short.
fn check(paths: &[String]) {
    let of = |path: &String| {
        let mut sums = (0, 0, Vec::new());
        let Ok(bytes) = std::fs::read(path) else { return sums };
        let Ok(image) = Image::parse(&bytes) else { return sums };
        for function in &image.functions {
            let Some(code) = Code::analyse(image.arch, function, &Counting::default()) else { continue };
            let all = hazards(&code);
            sums.0 += all.decided;
            sums.1 += all.unknown;
            sums.2.extend(all.found.into_iter().map(|found| {
                let kinds = (kind(&code, found.from.0 / 16), kind(&code, found.to.0 / 16));
                format!("{} {} {found:?} {kinds:?} {path}", image.arch, function.name)
            }));
        }
        sums
    };
    let add = |mut a: (u64, u64, Vec<String>), b: (u64, u64, Vec<String>)| {
        a.2.extend(b.2);
        (a.0 + b.0, a.1 + b.1, a.2)
    };
    let sums = paths.par_iter().map(of).reduce(|| (0, 0, Vec::new()), add);
    sums.2.iter().for_each(|found| println!("{found}"));
    println!("{} dependencies decided, {} not known, {} hazards", sums.0, sums.1, sums.2.len());
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = paths.split_first()
        && first == "--check"
    {
        return check(rest);
    }
    let merge = |mut all: Table, one: Table| {
        one.into_iter().for_each(|(key, (cycles, times))| note(&mut all, key, cycles, times));
        all
    };
    print(&paths.par_iter().map(|path| mine(path)).reduce(Table::new, merge));
}
