//! The table of a library as its page has it.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::data::NAME;
use crate::emit::library::{Table, arch_columns, arches, name, notes, particulars};
use crate::emit::text::{count, thousands};
use crate::report::annotation::Annotation;
use crate::report::library::{Failure, Row};
use crate::report::{Occupancy, Unit, distinct};

/// A column of figures: its title, and its value.
type Column = (&'static str, fn(&Row) -> Value);

/// The column of what a launch can decide.
const WARPS: &str = "warps per SM";

/// The column of what only instructions tell.
const LIVE: &str = "live";

/// The column of what only PTX lets anybody check.
const FINDINGS: &str = "findings";

const COLUMNS: [Column; 10] = [
    ("registers", |row| json!(row.resources.registers)),
    (LIVE, |row| json!(row.pressure.as_ref().map(|pressure| pressure.gpr.peak))),
    ("spills", |row| json!(row.spills.map(|spills| spills.instructions))),
    ("stack", |row| json!(row.resources.stack_bytes)),
    ("shared", |row| json!(row.smem_bytes())),
    ("barriers", |row| json!(row.resources.barriers)),
    (WARPS, |row| json!(row.occupancy.as_ref().and_then(Occupancy::most_warps_per_sm))),
    (FINDINGS, |row| json!(row.finding_count())),
    ("instructions", |row| json!(row.instructions.count())),
    ("code bytes", |row| json!(row.resources.code_bytes)),
];

/// What the page's table is made of.
#[derive(Serialize)]
pub(super) struct LibraryFacts {
    title: String,
    summary: String,
    errors: Vec<Failure>,
    /// The titles of the sums over an architecture, and the sums.
    sums: Vec<&'static str>,
    by_arch: Vec<Vec<String>>,
    /// From, to, kernels.
    histogram: Vec<(u32, u32, u64)>,
    columns: Vec<&'static str>,
    rows: Vec<RowFacts>,
    /// What there is to know of the columns.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct RowFacts {
    name: String,
    full: String,
    arch: String,
    /// Every architecture and every cubin that has it, to be found by.
    places: Vec<String>,
    entry: String,
    /// How a compiler's cache says that it was made, where that is not the same for all.
    options: Option<String>,
    figures: Vec<Value>,
    /// Columns whose figure is what it is at most: the launch decides it.
    at_most: Vec<usize>,
    /// Its number among the functions whose code is in the page.
    k: Option<usize>,
    /// What makes a page of it.
    command: String,
}

/// The columns that say something: where no instruction was looked at, nothing is known of live registers, and without PTX nothing is checked.
fn columns(table: &Table<'_>) -> impl Iterator<Item = &'static Column> + use<> {
    let (full, checked) = (table.full, table.rows.iter().any(|row| row.findings.is_some()));
    COLUMNS.iter().filter(move |(title, _)| (full || *title != LIVE) && (checked || *title != FINDINGS))
}

pub(super) fn facts(table: &Table<'_>, units: &[(Unit, Annotation)]) -> LibraryFacts {
    let summary = table.summary;
    let mut parts = vec![count(summary.cubins, "cubin"), count(summary.kernels, "kernel")];
    if summary.device_functions > 0 {
        parts.push(count(summary.device_functions, "device function"));
    }
    if summary.ptx_not_compiled > 0 {
        parts.push(format!("{} PTX not compiled (--compile)", thousands(summary.ptx_not_compiled)));
    }
    if summary.others > 0 {
        parts.push(format!("{} LTO-IR and others not analysed", thousands(summary.others)));
    }
    let mut numbers: HashMap<(&str, &str, Option<&str>), usize> = HashMap::new();
    for (number, (unit, kernel)) in
        units.iter().flat_map(|(unit, _)| unit.kernels.iter().map(move |kernel| (unit, kernel))).enumerate()
    {
        numbers.entry((&unit.input, &kernel.name, unit.arch.as_deref())).or_insert(number);
    }
    let full: Vec<String> = table.rows.iter().map(|row| name(row, false)).collect();
    let short = distinct(&full.iter().map(String::as_str).collect::<Vec<_>>(), NAME);
    let options = particulars(table);
    let rows = table.rows.iter().zip(short).zip(full).zip(options);
    let rows = rows.map(|(((row, short), full), options)| RowFacts {
        name: short,
        full,
        arch: arches(row),
        places: row.copies.iter().map(|copy| format!("{} {}", copy.arch, copy.entry)).collect(),
        entry: row.entry.to_string(),
        options,
        figures: columns(table).map(|(_, value)| value(row)).collect(),
        at_most: at_most(row, table),
        k: numbers.get(&(&*row.entry, row.name.as_str(), Some(&*row.arch))).copied(),
        command: format!(
            "ptxinspect annotate {} --arch {} --kernel {} --format html -o kernel.html",
            quoted(&table.inputs.join(" ")),
            row.arch,
            quoted(&row.name)
        ),
    });
    const WITHOUT: [&str; 2] = ["live max", "unknown"];
    let sums = || arch_columns(&WITHOUT);
    LibraryFacts {
        title: table.inputs.join(", "),
        summary: parts.join(", "),
        errors: summary.errors.clone(),
        sums: std::iter::once("arch").chain(sums().map(|(title, _)| *title)).collect(),
        by_arch: summary
            .by_arch
            .iter()
            .map(|arch| std::iter::once(arch.arch.clone()).chain(sums().map(|(_, sum)| sum(arch))).collect())
            .collect(),
        histogram: summary.registers.iter().map(|bar| (bar.from, bar.to, bar.kernels)).collect(),
        columns: columns(table).map(|(title, _)| *title).collect(),
        rows: rows.collect(),
        notes: notes(table),
    }
}

/// The columns of a row that say what a figure is at most.
fn at_most(row: &Row, table: &Table<'_>) -> Vec<usize> {
    let is_bound = |found: &Occupancy| found.warps_per_sm.is_none() && found.most_warps_per_sm().is_some();
    let of = |title: &str| columns(table).position(|(known, _)| *known == title);
    row.occupancy.as_ref().filter(|found| is_bound(found)).and_then(|_| of(WARPS)).into_iter().collect()
}

/// A word of a shell's command line.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./@%+=:,~".contains(&byte);
    match word.bytes().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
