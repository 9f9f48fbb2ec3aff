//! The table as one page that sorts and filters, and asks for nothing from anywhere.
//!
//! Rows travel as JSON in an element that no name can end; the page's program writes names as text.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Table, arch_columns, name};
use crate::emit::escape::markup as escape;
use crate::emit::page;
use crate::emit::text::thousands;
use crate::report::library::Row;

const STYLE: &str = "\
body{font:14px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:110rem;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.5rem}code,td{font-family:ui-monospace,monospace}\
table{border-collapse:collapse;margin:.5rem 0}th,td{padding:.1rem .6rem;text-align:left;border-bottom:1px solid #d1d9e0}\
td.n,th.n{text-align:right;white-space:nowrap}td:last-child{overflow-wrap:anywhere}\
th button{font:inherit;font-weight:600;background:none;border:0;color:inherit;cursor:pointer;padding:0}\
th[aria-sort=descending] button::after{content:' ▾'}th[aria-sort=ascending] button::after{content:' ▴'}\
.bar{display:inline-block;height:.8em;background:#54aeff}.error{color:#b3261e}\
input{font:inherit;padding:.2rem .5rem;width:24rem;max-width:100%}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,td{border-color:#30363d}.error{color:#ff7b72}}";
const PROGRAM: &str = include_str!("table.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A column of the page: title, whether it is a number, its value.
type Column = (&'static str, bool, fn(&Row) -> Value);

const COLUMNS: [Column; 12] = [
    ("registers", true, |row| json!(row.resources.registers)),
    ("live", true, |row| json!(row.pressure.as_ref().map(|pressure| pressure.gpr.peak))),
    ("spills", true, |row| json!(row.spills.map(|spills| spills.instructions))),
    ("stack", true, |row| json!(row.resources.stack_bytes)),
    ("shared", true, |row| json!(row.resources.smem_bytes)),
    ("barriers", true, |row| json!(row.resources.barriers)),
    ("warps per SM", true, |row| json!(row.occupancy.as_ref().and_then(|found| found.warps_per_sm))),
    ("instructions", true, |row| json!(row.instructions.count())),
    ("code", true, |row| json!(row.resources.code_bytes)),
    ("arch", false, |row| json!(&*row.arch)),
    ("entry", false, |row| json!(&*row.entry)),
    ("kernel", false, |row| json!(name(row, false))),
];

/// Writes the page.
pub fn write_html(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    let summary = table.summary;
    let title = escape(&table.inputs.join(", "));
    writeln!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<title>ptxinspect {title}</title><style>{STYLE}</style></head><body>")?;
    writeln!(out, "<h1>{title}</h1>")?;
    writeln!(
        out,
        "<p>{} cubins, {} kernels, {} device functions; {} PTX not compiled, {} other entries.</p>",
        thousands(summary.cubins),
        thousands(summary.kernels),
        thousands(summary.device_functions),
        thousands(summary.ptx_not_compiled),
        thousands(summary.others)
    )?;
    if !summary.errors.is_empty() {
        writeln!(out, "<h2 class=\"error\">Could not be read</h2><ul>")?;
        for failure in &summary.errors {
            writeln!(out, "<li><code>{}</code>: {}</li>", escape(&failure.path), escape(&failure.message))?;
        }
        writeln!(out, "</ul>")?;
    }
    write_by_arch(table, out)?;
    writeln!(out, "<h2>Kernels</h2><p><input id=\"filter\" type=\"search\" aria-label=\"Only rows with this text\" ")?;
    writeln!(
        out,
        "placeholder=\"kernel, architecture or entry\"> <span id=\"shown\" aria-live=\"polite\"></span></p>"
    )?;
    writeln!(out, "<table id=\"rows-table\"><thead><tr></tr></thead><tbody></tbody></table>")?;
    writeln!(out, "<p><button id=\"more\" type=\"button\" hidden>show more</button></p>")?;
    let rows: Vec<Vec<Value>> =
        table.rows.iter().map(|row| COLUMNS.iter().map(|(_, _, value)| value(row)).collect()).collect();
    let data = json!({
        "columns": COLUMNS.iter().map(|(title, _, _)| *title).collect::<Vec<_>>(),
        "numeric": COLUMNS.iter().map(|(_, numeric, _)| *numeric).collect::<Vec<_>>(),
        "rows": rows,
    });
    page::data("rows", &data, out)?;
    writeln!(out, "<script>(() => {{\n{PROGRAM}}})();</script></body></html>")
}

fn write_by_arch(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    const WITHOUT: [&str; 3] = ["functions", "live max", "unknown"];
    writeln!(out, "<h2>By architecture</h2><table><thead><tr><th>arch</th>")?;
    for (title, _) in arch_columns(&WITHOUT) {
        let title = match *title {
            "regs median" => "registers, median",
            "max" => "most",
            title => title,
        };
        writeln!(out, "<th class=\"n\">{title}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for arch in &table.summary.by_arch {
        write!(out, "<tr><td>{}</td>", escape(&arch.arch))?;
        for (_, figure) in arch_columns(&WITHOUT) {
            write!(out, "<td class=\"n\">{}</td>", figure(arch))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table><h2>Registers</h2><table><tbody>")?;
    let most = table.summary.registers.iter().map(|bar| bar.kernels).max().unwrap_or(1).max(1);
    for bar in &table.summary.registers {
        let width = bar.kernels * 400 / most;
        let cells = (bar.from, bar.to, thousands(bar.kernels));
        writeln!(
            out,
            "<tr><td class=\"n\">{}-{}</td><td class=\"n\">{}</td><td><span class=\"bar\" style=\"width:{width}px\"></span></td></tr>",
            cells.0, cells.1, cells.2
        )?;
    }
    writeln!(out, "</tbody></table>")
}
