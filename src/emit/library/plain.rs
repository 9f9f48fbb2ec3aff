//! The table as CSV and as Markdown.

use std::io::{self, Write};

use super::{Table, arch_columns, arches, columns, name, particulars};
use crate::emit::escape::terminal;
use crate::emit::text::thousands;
use crate::report::Occupancy;

/// Every row with its figures as plain numbers; a figure that is not known is empty.
pub fn write_csv(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let head = [
        "entry",
        "arch",
        "name",
        "demangled",
        "kind",
        "registers",
        "peak_live",
        "live_exact",
        "spill_instructions",
        "stack_bytes",
        "cumulative_stack_bytes",
        "smem_bytes",
        "local_bytes",
        "cmem_bytes",
        "barriers",
        "warps_per_sm",
        "blocks_per_sm",
        "limiter",
        "instructions",
        "code_bytes",
        "smem_dynamic_bytes",
        "smem_dynamic_least_bytes",
        "most_warps_per_sm",
        "findings",
    ];
    writeln!(out, "{}", head.join(","))?;
    for row in table.rows {
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let resources = &row.resources;
        let occupancy = row.occupancy.as_ref();
        let kind = match row.kind {
            crate::report::KernelKind::Entry => "entry",
            crate::report::KernelKind::Func => "func",
        };
        let cells = [
            quoted(&row.entry),
            quoted(&row.arch),
            quoted(&row.name),
            quoted(row.demangled.as_deref().unwrap_or_default()),
            kind.to_owned(),
            number(resources.registers.map(u64::from)),
            number(row.pressure.as_ref().map(|pressure| u64::from(pressure.gpr.peak))),
            row.pressure.as_ref().map_or_else(String::new, |pressure| pressure.exact.to_string()),
            number(row.spills.map(|spills| spills.instructions)),
            number(resources.stack_bytes),
            number(row.cumulative_stack_bytes),
            number(resources.smem_bytes),
            number(resources.local_bytes),
            number(resources.cmem_bytes),
            number(resources.barriers.map(u64::from)),
            number(occupancy.and_then(|found| found.warps_per_sm).map(u64::from)),
            number(occupancy.and_then(|found| found.blocks_per_sm).map(u64::from)),
            quoted(occupancy.and_then(|found| found.limiter.as_deref()).unwrap_or("")),
            number(row.instructions.count()),
            number(Some(resources.code_bytes)),
            number(occupancy.and_then(|found| found.smem_dynamic_bytes)),
            number(occupancy.and_then(|found| found.smem_dynamic_least_bytes)),
            number(occupancy.and_then(Occupancy::most_warps_per_sm).map(u64::from)),
            number(row.finding_count()),
        ];
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// A cell as RFC 4180 has it. One that a spreadsheet would take for a formula starts with an apostrophe.
fn quoted(text: &str) -> String {
    let text = terminal(text);
    // Some locales take the wide forms for the same signs.
    let formula = text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '|', '%']);
    let text = if formula { format!("'{text}") } else { text.into_owned() };
    match text.contains([',', '"', ';']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// The summary and the rows for a pull request.
pub fn write_markdown(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let summary = table.summary;
    let inputs: Vec<String> = table.inputs.iter().map(|input| code(input)).collect();
    writeln!(
        out,
        "{}: {} cubins, {} kernels, {} device functions\n",
        inputs.join(", "),
        thousands(summary.cubins),
        thousands(summary.kernels),
        thousands(summary.device_functions)
    )?;
    const WITHOUT: [&str; 4] = ["functions", "live max", "unknown", "code"];
    let titles: Vec<&str> = arch_columns(&WITHOUT).map(|(title, _)| *title).collect();
    writeln!(out, "| arch | {} |", titles.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(titles.len()))?;
    for arch in &summary.by_arch {
        let figures: Vec<String> = arch_columns(&WITHOUT).map(|(_, figure)| figure(arch)).collect();
        writeln!(out, "| {} | {} |", cell(&arch.arch), figures.join(" | "))?;
    }
    let titles: Vec<&str> = columns(table).map(|(title, _)| *title).collect();
    writeln!(out, "\n| {} | arch | kernel |", titles.join(" | "))?;
    writeln!(out, "|{}---|---|", "---:|".repeat(titles.len()))?;
    for (row, told) in table.rows.iter().zip(particulars(table)) {
        let cells: Vec<String> =
            columns(table).map(|(_, value)| value(row).unwrap_or_else(|| "-".to_owned())).collect();
        let told = told.map(|told| format!(" {}", cell(&told))).unwrap_or_default();
        let name = code(&name(row, table.verbose));
        writeln!(out, "| {} | {} | {name}{told} |", cells.join(" | "), cell(&arches(row)))?;
    }
    let left = table.total_rows.saturating_sub(table.rows.len() as u64);
    if left > 0 {
        writeln!(out, "\nand {} more, sorted by {}", thousands(left), table.sorted_by)?;
    }
    Ok(())
}

/// A word in a cell of a table, as code where it is no plain word.
fn cell(text: &str) -> String {
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => text.to_owned(),
        false => code(text),
    }
}

/// A name as code, whatever it holds.
fn code(text: &str) -> String {
    let text = terminal(text).replace('|', "\\|").replace('`', "'");
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_csv() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("f(int, \"x\")"), "\"f(int, \"\"x\"\")\"");
        assert_eq!(quoted("=cmd()"), "'=cmd()");
        assert_eq!(quoted(" ＝cmd()"), "' ＝cmd()");
        assert_eq!(quoted("\x1b[31m\n"), "\\u{1b}[31m\\u{a}");
        assert_eq!(code("a|b`c"), "`a\\|b'c`");
    }
}
