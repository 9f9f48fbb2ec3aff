//! A library's table: for people, for programs, for spreadsheets, for pull requests.
//!
//! In: rows, sorted and cut, and the summary of all of them. Out: text, JSON (a document, or a line a record as they come),
//! CSV, Markdown; the page is [`super::html`]'s. It decides nothing about what is shown but how.

mod json;
mod plain;
mod text;

pub use json::{JsonLines, write_json};
pub use plain::{write_csv, write_markdown};
pub use text::write_text;

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::emit::text::{bytes, count, launch_decides, thousands};
use crate::report::library::{ArchSummary, EntryFacts, JitFacts, Row, Summary};
use crate::report::{KernelKind, LaunchFact, Occupancy, demangle, shorten};

/// Everything there is to show.
pub struct Table<'a> {
    /// What was looked at, as the user named it.
    pub inputs: &'a [String],
    /// Cubins, in order.
    pub entries: &'a [EntryFacts],
    /// Functions: sorted and cut.
    pub rows: &'a [Row],
    /// How many functions there are in all.
    pub total_rows: u64,
    /// Sums of all of them.
    pub summary: &'a Summary,
    /// What the rows are sorted by, in words.
    pub sorted_by: &'a str,
    /// Whether instructions were looked at.
    pub full: bool,
    /// How wide a line of text may be.
    pub width: usize,
    /// Show mangled names and every column.
    pub verbose: bool,
}

/// A column: its title, and what it shows of a row.
type Column = (&'static str, fn(&Row) -> Option<String>);

/// The column of what the checks found.
const FINDINGS: &str = "found";

/// The columns of figures.
const COLUMNS: [Column; 10] = [
    ("regs", |row| row.resources.registers.map(|n| n.to_string())),
    ("live", |row| {
        row.pressure.as_ref().map(|found| format!("{}{}", found.gpr.peak, if found.exact { "" } else { "?" }))
    }),
    ("spills", |row| row.spills.map(|spills| thousands(spills.instructions))),
    ("stack", |row| row.resources.stack_bytes.map(thousands)),
    ("smem", smem),
    ("bars", |row| row.resources.barriers.map(|n| n.to_string())),
    ("warps", |row| row.occupancy.as_ref().and_then(warps)),
    ("insts", |row| row.instructions.count().map(thousands)),
    (FINDINGS, |row| row.finding_count().map(thousands)),
    ("code", |row| Some(thousands(row.resources.code_bytes))),
];

/// Warps that an SM holds of those it has room for; the most, where the launch's shared memory decides.
fn warps(found: &Occupancy) -> Option<String> {
    let bound = if found.warps_per_sm.is_some() { "" } else { "≤" };
    Some(format!("{bound}{}/{}", found.most_warps_per_sm()?, found.max_warps_per_sm))
}

/// What a reader has to know to read the columns: the unit of what could have another, and why a figure is missing.
pub(super) fn notes(table: &Table<'_>) -> Vec<String> {
    let has = |of: fn(&Row) -> bool| table.rows.iter().any(of);
    let missing = |fact: LaunchFact| {
        let depends = |found: &Occupancy| found.warps_per_sm.is_none() && found.missing.contains(&fact);
        table.rows.iter().any(|row| row.occupancy.as_ref().is_some_and(depends))
    };
    let mut notes = Vec::new();
    let checked: u64 = table.summary.by_arch.iter().map(|arch| arch.checked).sum();
    if checked > 0 && table.full {
        let bad: u64 = table.summary.by_arch.iter().filter_map(|arch| arch.with_findings).sum();
        let left = table.summary.kernels.saturating_sub(checked);
        let others = match left {
            0 => String::new(),
            left => format!("; of {} there is no PTX to check", count(left, "kernel")),
        };
        notes.push(format!("findings in {} of {}{others}", thousands(bad), count(checked, "checked kernel")));
    }
    if has(|row| row.spills.is_some_and(|spills| spills.instructions > 0)) {
        notes.push("spills: instructions that store registers to local memory or read them back".to_owned());
    }
    if table.full && has(|row| row.spills.is_none()) {
        notes.push(
            "where no spills are told they are not known: the cubin does not mark them, and there is no log of ptxas"
                .to_owned(),
        );
    }
    if has(|row| !row.copies.is_empty()) {
        notes.push(
            "where cubins hold a kernel with the same figures they share a row; -v has a row for each".to_owned(),
        );
    }
    if has(is_smem_open) {
        notes.push(
            "smem: bytes of shared memory of a block; + where the launch may add dynamic shared memory, and how much is \
             not known"
                .to_owned(),
        );
    }
    if has(|row| row.occupancy.as_ref().is_some_and(Occupancy::cannot_launch)) {
        notes.push("0 warps: a block needs more than an SM has, so that the launch fails".to_owned());
    }
    let facts: Vec<LaunchFact> =
        [LaunchFact::Threads, LaunchFact::SmemDynamic].into_iter().filter(|fact| missing(*fact)).collect();
    if !facts.is_empty() {
        notes.push(format!("warps that an SM holds depend on {}", launch_decides(&facts)));
    }
    notes
}

/// Shared memory of a block, with what the launch adds; `+` where the launch adds more, and nothing says how much.
fn smem(row: &Row) -> Option<String> {
    let known = row.smem_bytes()?;
    let more = is_smem_open(row);
    Some(format!("{}{}", thousands(known), if more { "+" } else { "" }))
}

/// Whether the launch decides how much shared memory a block has.
fn is_smem_open(row: &Row) -> bool {
    row.occupancy.as_ref().is_some_and(|found| found.missing.contains(&LaunchFact::SmemDynamic))
}

/// The columns that say something: without instructions there are no live registers, without PTX there is nothing to check.
fn columns(table: &Table<'_>) -> impl Iterator<Item = &'static Column> + use<> {
    let (full, checked) = (table.full, table.rows.iter().any(|row| row.findings.is_some()));
    COLUMNS.iter().filter(move |(title, _)| (full || *title != "live") && (checked || *title != FINDINGS))
}

/// Columns of text from which on everything fits; below, names need the room more than the rarer figures.
const ROOMY: usize = 100;

/// Columns of text below which even more is left out.
const NARROW: usize = 72;

/// The columns of a terminal.
fn terminal_columns(table: &Table<'_>) -> impl Iterator<Item = &'static Column> {
    const RARE: [&str; 3] = ["stack", "bars", "code"];
    const RARER: [&str; 5] = ["stack", "bars", "code", "smem", "insts"];
    let left_out: &[&str] = match table.width {
        _ if table.verbose => &[],
        ..NARROW => &RARER,
        NARROW..ROOMY => &RARE,
        _ => &[],
    };
    columns(table).filter(move |(title, _)| !left_out.contains(title))
}

/// A sum over the kernels of an architecture, as people read it: its title, and what it shows.
type ArchColumn = (&'static str, fn(&ArchSummary) -> String);

/// The sums over an architecture.
const ARCH_COLUMNS: [ArchColumn; 11] = [
    ("cubins", |arch| thousands(arch.cubins)),
    ("kernels", |arch| thousands(arch.kernels)),
    ("functions", |arch| thousands(arch.device_functions)),
    ("regs median", |arch| known(arch.registers_median.map(u64::from))),
    ("max", |arch| known(arch.registers_max.map(u64::from))),
    ("live max", |arch| known(arch.live_max.map(u64::from))),
    ("spilling", |arch| known(arch.spilling)),
    ("with stack", |arch| thousands(arch.with_stack)),
    // Before sm_70 they are not counted.
    ("instructions", |arch| known(Some(arch.instructions).filter(|&count| count > 0 || arch.code_bytes == 0))),
    ("unknown", |arch| known(arch.unknown)),
    ("code", |arch| bytes(arch.code_bytes)),
];

/// The sums over an architecture but for some.
pub(super) fn arch_columns<'a>(without: &'a [&str]) -> impl Iterator<Item = &'static ArchColumn> + 'a {
    ARCH_COLUMNS.iter().filter(|(title, _)| !without.contains(title))
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), thousands)
}

/// The name for people.
pub(super) fn name(row: &Row, verbose: bool) -> String {
    let spelt = if verbose { None } else { row.demangled.clone().or_else(|| demangle(&row.name)) };
    let mark = if row.kind == KernelKind::Func { "device function " } else { "" };
    format!("{mark}{}", spelt.unwrap_or_else(|| row.name.clone()))
}

/// The architectures of a row, in few letters: `sm_80`, `sm_80,86,90a`.
pub(super) fn arches(row: &Row) -> String {
    /// How many are named.
    const NAMED: usize = 3;
    let all = row.arches();
    let named = all.iter().take(if all.len() > NAMED + 1 { NAMED } else { all.len() }).enumerate();
    let told = named.map(|(at, arch)| arch.strip_prefix(if at == 0 { "" } else { "sm_" }).unwrap_or(arch));
    let mut text = told.collect::<Vec<&str>>().join(",");
    if all.len() > NAMED + 1 {
        text.push_str(&format!(" +{}", all.len() - NAMED));
    }
    text
}

/// Options of a compiler's cache that say nothing of how a kernel was tuned.
const NOT_TUNED: [&str; 6] = ["name", "hash", "target", "arch", "cluster_dims", "backend_name"];

/// What tells rows of one name and architecture apart: how each was made, where a compiler's cache says, and where it is.
pub(super) fn particulars(table: &Table<'_>) -> Vec<Option<String>> {
    let made = configurations(table);
    let mut rows: HashMap<(&str, &str, Option<&str>), u64> = HashMap::new();
    for (row, made) in table.rows.iter().zip(&made) {
        for arch in row.arches() {
            *rows.entry((&row.name, arch, made.as_deref())).or_default() += 1;
        }
    }
    let is_alike = |row: &Row, made: &Option<String>| {
        let rows_for = |arch| rows.get(&(row.name.as_str(), arch, made.as_deref()));
        row.arches().into_iter().any(|arch| rows_for(arch).is_some_and(|&rows| rows > 1))
    };
    let told = |(row, made): (&Row, &Option<String>)| {
        let place = match (is_alike(row, made), row.copies.len() as u64) {
            (true, 0) => Some(format!("in {}", place(table.inputs, &row.entry))),
            (true, copies) => {
                Some(format!("in {} and {}", place(table.inputs, &row.entry), count(copies, "other cubin")))
            }
            // One for each of its architectures needs no word.
            (false, copies) if row.arches().len() as u64 == copies + 1 => None,
            (false, copies) => Some(format!("in {}", count(copies + 1, "cubin"))),
        };
        let parts: Vec<String> = findings(row).into_iter().chain(made.iter().cloned()).chain(place).collect();
        (!parts.is_empty()).then(|| parts.join("  "))
    };
    table.rows.iter().zip(&made).map(told).collect()
}

/// `PI203, C7508 ×2`: what was found, the worst first.
pub(super) fn findings(row: &Row) -> Option<String> {
    let found = row.findings.as_deref().filter(|found| !found.is_empty())?;
    let told = found.iter().map(|finding| {
        let code = finding.code.as_deref().unwrap_or("a warning of ptxas");
        let times = if finding.count > 1 { format!(" ×{}", finding.count) } else { String::new() };
        format!("{code}{times}")
    });
    Some(told.collect::<Vec<String>>().join(", "))
}

/// Where an entry is, below what was asked for.
fn place<'a>(inputs: &[String], entry: &'a str) -> &'a str {
    let below = |input: &String| entry.strip_prefix(input.trim_end_matches('/'))?.strip_prefix('/');
    inputs.iter().find_map(below).unwrap_or(entry)
}

/// How each row was made, where a compiler's cache says: the options in which the rows of one kernel and architecture differ; of a kernel
/// whose rows differ in none, its warps and stages.
fn configurations(table: &Table<'_>) -> Vec<Option<String>> {
    let entries: HashMap<&str, &JitFacts> =
        table.entries.iter().filter_map(|entry| Some((&*entry.entry, entry.jit.as_ref()?))).collect();
    let jit: Vec<Option<&JitFacts>> = table.rows.iter().map(|row| entries.get(&*row.entry).copied()).collect();
    let mut values: HashMap<(&str, &str, &str), BTreeSet<String>> = HashMap::new();
    for (row, jit) in table.rows.iter().zip(&jit) {
        for (option, value) in jit.iter().flat_map(|jit| &jit.options) {
            values.entry((&row.name, &row.arch, option)).or_default().insert(value.to_string());
        }
    }
    let several = values.iter().filter(|((_, _, option), values)| values.len() > 1 && !NOT_TUNED.contains(option));
    let has_several: BTreeSet<(&str, &str)> = several.map(|((name, arch, _), _)| (*name, *arch)).collect();
    let told = |(row, jit): (&Row, &Option<&JitFacts>)| {
        let differs = |option: &str| {
            let several = values.get(&(row.name.as_str(), &*row.arch, option)).is_some_and(|values| values.len() > 1);
            let is_alone = !has_several.contains(&(row.name.as_str(), &*row.arch));
            let alone = is_alone && matches!(option, "num_warps" | "num_stages");
            (several || alone) && !NOT_TUNED.contains(&option)
        };
        let is_short = |value: &&Value| value.is_number() || value.is_boolean() || value.is_string();
        let mut told: Vec<String> = Vec::new();
        for (option, value) in &(*jit)?.options {
            if differs(option) && is_short(&value) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                told.push(format!("{option}={}", shorten(&value, 24)));
            }
        }
        (!told.is_empty()).then(|| told.join(" "))
    };
    table.rows.iter().zip(&jit).map(told).collect()
}
