//! What a tuning found as a page: the picture, the table with the commands and the patch behind each row, and why.

use std::io::{self, Write};

use super::text::{COLUMNS, Column, best, built_alone, figure, not_tried, summary, why};
use super::{changes, now, svg};
use crate::emit::escape::markup;
use crate::emit::page;
use crate::report::demangle;
use crate::tune::{Row, Tuned, Tuning};

/// Writes one section a kernel.
pub fn write_html(tuning: &Tuning, out: &mut dyn Write) -> io::Result<()> {
    page::open("tune", out)?;
    for tuned in &tuning.kernels {
        write_one(tuned, out)?;
    }
    page::close(out)
}

fn write_one(tuned: &Tuned, out: &mut dyn Write) -> io::Result<()> {
    let full = demangle(&tuned.kernel).unwrap_or_else(|| tuned.kernel.clone());
    writeln!(out, "<h1>{}</h1>", markup(&full))?;
    let ptxas = now(tuned).map(|row| row.ptxas.as_str()).unwrap_or_default();
    writeln!(
        out,
        "<p>{}</p>",
        markup(&format!("{}, {}, ptxas {ptxas}. {}.", tuned.input, tuned.arch, summary(tuned)))
    )?;
    writeln!(out, "<h2>Best for</h2><div class=\"panel fit\"><table>")?;
    for (aim, text) in best(tuned).0 {
        writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", aim.words(), markup(&text))?;
    }
    writeln!(out, "</table></div><h2>Builds that no other beats</h2><div class=\"panel\">")?;
    svg::write_one(tuned, out)?;
    writeln!(out, "</div>")?;
    write_table(tuned, out)?;
    if let Some(note) = built_alone(tuned) {
        writeln!(out, "<p>{note}</p>")?;
    }
    let reasons = why(tuned);
    if !reasons.is_empty() {
        writeln!(out, "<h2>Why so many registers</h2><ul>")?;
        reasons.iter().try_for_each(|text| writeln!(out, "<li>{}</li>", markup(text)))?;
        writeln!(out, "</ul>")?;
    }
    let rest = not_tried(tuned);
    if !rest.is_empty() {
        writeln!(out, "<h2>Not tried</h2><ul>")?;
        rest.iter().try_for_each(|text| writeln!(out, "<li>{}</li>", markup(text)))?;
        writeln!(out, "</ul>")?;
    }
    Ok(())
}

fn write_table(tuned: &Tuned, out: &mut dyn Write) -> io::Result<()> {
    let Some(base) = now(tuned) else { return Ok(()) };
    let head = |column: &Column| {
        let [first, second] = column.head;
        match second {
            "insts" => "instructions".to_owned(),
            second => format!("{first} {second}").trim_start().to_owned(),
        }
    };
    writeln!(
        out,
        "<div class=\"panel\"><table><thead><tr><th class=\"n\">row</th><th>change, and how to make it</th>"
    )?;
    let columns = || COLUMNS.iter().filter(|column| column.tells(tuned));
    columns().try_for_each(|column| write!(out, "<th class=\"n\">{}</th>", head(column)))?;
    writeln!(out, "</tr></thead><tbody>")?;
    for row in &tuned.rows {
        write!(out, "<tr><td class=\"n\">{}</td><td>{}{}</td>", row.row, markup(&changes(row)), how(row))?;
        for column in columns() {
            let (value, before) = ((column.of)(&row.figures), (column.of)(&base.figures));
            let class = match value.zip(before).filter(|(value, before)| value != before) {
                Some((value, before)) if (value < before) == column.less_is_better => " better",
                Some(_) => " worse",
                None => "",
            };
            write!(out, "<td class=\"n{class}\">{}</td>", figure(value))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// The commands of a row, and its patch.
fn how(row: &Row) -> String {
    if row.commands.is_empty() {
        return String::new();
    }
    let words: String = row.edits_in_words.iter().map(|words| format!("<p>{}</p>", markup(words))).collect();
    let patch = row.patch.as_ref().map(|patch| format!("<pre>{}</pre>", markup(patch))).unwrap_or_default();
    let commands = markup(&row.commands.join("\n"));
    format!("<details><summary>how</summary>{words}<pre>{commands}</pre>{patch}</details>")
}
