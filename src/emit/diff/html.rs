//! As one page that needs nothing else: a table of all kernels, then each with its figures, a curve of live registers, lines and code.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::Value;

use super::{CODE_LEFT_OUT, LINES_LEFT_OUT, Options, left_out, moved_lines, side, step};
use crate::compare::{Difference, FieldChange, KernelDifference, LineChange, SassChange, UnitDifference};
use crate::emit::escape::markup;
use crate::emit::page;
use crate::report::{abridge, shorten};

/// Writes the page.
pub fn write(difference: &Difference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    page::open("ptxinspect diff", out)?;
    let mut number = 0;
    for unit in &difference.units {
        write_unit(unit, options, &mut number, out)?;
    }
    page::close(out)
}

fn write_unit(unit: &UnitDifference, options: &Options, number: &mut u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h1>diff</h1><p><code class=\"gone\">- {}</code><br>", markup(&side(&unit.before)))?;
    writeln!(out, "<code class=\"new\">+ {}</code></p>", markup(&side(&unit.after)))?;
    for (texts, class, word) in [(&unit.advisories_gone, "better", "no longer"), (&unit.advisories_new, "worse", "new")]
    {
        for text in texts {
            writeln!(out, "<p><b class=\"{class}\">{word}</b> {}</p>", markup(text))?;
        }
    }
    let first = *number;
    writeln!(out, "<table><tr><th>kernel</th><th>changed</th></tr>")?;
    for (at, kernel) in (first..).zip(&unit.kernels) {
        let name = markup(&abridge(name(kernel), 120));
        writeln!(
            out,
            "<tr><td><a href=\"#k{at}\"><code>{name}</code></a></td><td>{}</td></tr>",
            markup(&gist(kernel))
        )?;
    }
    writeln!(out, "</table>")?;
    for kernel in &unit.kernels {
        write_kernel(kernel, options, *number, out)?;
        *number += 1;
    }
    Ok(())
}

fn name(kernel: &KernelDifference) -> &str {
    kernel.demangled.as_deref().unwrap_or(&kernel.name)
}

/// What changed, in a few words.
fn gist(kernel: &KernelDifference) -> String {
    match kernel.side {
        "before" => return "is gone".to_owned(),
        "after" => return "is new".to_owned(),
        _ if kernel.is_empty() => return "nothing".to_owned(),
        _ => {}
    }
    let told = kernel.fields.iter().filter(|change| GIST.contains(&change.field.as_str()));
    let told: Vec<String> =
        told.map(|change| format!("{} {} → {}", field(change), value(&change.before), value(&change.after))).collect();
    match (told.is_empty(), &kernel.sass) {
        (false, _) => told.join(", "),
        (true, Some(sass)) => format!("{} instructions gone, {} new", sass.gone, sass.new),
        (true, None) if kernel.sass_left_out => "code".to_owned(),
        (true, None) => format!("{} figures", kernel.fields.len()),
    }
}

/// The figures of a kernel that its row in the table of all kernels tells.
const GIST: [&str; 4] =
    ["resources.registers", "resources.spill_store_bytes", "pressure.gpr.peak", "occupancy.blocks_per_sm"];

fn field(change: &FieldChange) -> &str {
    change.field.strip_prefix("resources.").unwrap_or(&change.field)
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "not known".to_owned(),
        Value::String(text) => text.clone(),
        value => shorten(&value.to_string(), 80).into_owned(),
    }
}

fn write_kernel(kernel: &KernelDifference, options: &Options, number: u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h2 id=\"k{number}\"><code>{}</code></h2>", markup(name(kernel)))?;
    if let Some(before) = &kernel.before_name {
        writeln!(out, "<p class=\"note\">was <code>{}</code></p>", markup(before))?;
    }
    if kernel.side != "both" || kernel.is_empty() {
        return writeln!(out, "<p class=\"note\">{}</p>", markup(&gist(kernel)));
    }
    if !kernel.fields.is_empty() {
        writeln!(out, "<table><tr><th></th><th class=\"n\">before</th><th class=\"n\">after</th><th></th></tr>")?;
        for change in &kernel.fields {
            let by = match (change.before.as_i64(), change.after.as_i64()) {
                (Some(before), Some(after)) => format!("{:+}", after - before),
                _ => String::new(),
            };
            let [before, after] = [&change.before, &change.after].map(|side| markup(&value(side)));
            let cells = format!("<td class=\"n\">{before}</td><td class=\"n\">{after}</td><td class=\"n\">{by}</td>");
            writeln!(out, "<tr><td>{}</td>{cells}</tr>", markup(field(change)))?;
        }
        writeln!(out, "</table>")?;
    }
    write_curve(&kernel.lines, out)?;
    write_lines(&kernel.lines, options, out)?;
    if kernel.lines_left_out {
        writeln!(out, "<p class=\"note\">{LINES_LEFT_OUT}</p>")?;
    }
    match &kernel.sass {
        Some(sass) => write_code(sass, out),
        None if kernel.sass_left_out => writeln!(out, "<p class=\"note\">{CODE_LEFT_OUT}</p>"),
        None => Ok(()),
    }
}

/// Live registers of the lines that differ, in their order: before and after.
fn write_curve(lines: &[LineChange], out: &mut dyn Write) -> io::Result<()> {
    const SIZE: (usize, usize) = (900, 120);
    let most = lines.iter().flat_map(|line| [line.live_before, line.live_after]).flatten().max().unwrap_or(0);
    if lines.len() < 8 || most == 0 {
        return Ok(());
    }
    let path = |of: fn(&LineChange) -> Option<u32>| {
        let mut path = String::new();
        let known = lines.iter().enumerate().filter_map(|(at, line)| Some((at, of(line)?)));
        for (at, live) in known {
            let x = at * SIZE.0 / (lines.len() - 1);
            let y = SIZE.1 - live as usize * (SIZE.1 - 4) / most as usize;
            let _ = write!(path, "{}{x} {y}", if path.is_empty() { 'M' } else { 'L' });
        }
        path
    };
    let (before, after) = (path(|line| line.live_before), path(|line| line.live_after));
    writeln!(
        out,
        "<p class=\"note\">Live registers along the lines that differ, at most {most}: before grey, after blue.</p>"
    )?;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"live registers before and after\"><path class=\"before\" d=\"{before}\"/>\
         <path class=\"after\" d=\"{after}\"/></svg>",
        SIZE.0, SIZE.1
    )
}

fn write_lines(lines: &[LineChange], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let (shown, rest) = moved_lines(lines, options.top);
    if shown.is_empty() {
        return Ok(());
    }
    let head = ["before", "after", "live", "spills"].map(|title| format!("<th class=\"n\">{title}</th>")).concat();
    writeln!(out, "<table><tr>{head}<th>PTX</th></tr>")?;
    for line in shown {
        let number = |line: Option<crate::base::Line>| line.map_or("–".to_owned(), |line| line.to_string());
        let spills =
            if line.spills_gained() == 0 { String::new() } else { step(line.spills_before, line.spills_after) };
        let class = match line.live_gained() {
            1.. => "n worse",
            0 => "n",
            _ => "n better",
        };
        writeln!(
            out,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"{class}\">{}</td><td class=\"n\">{spills}</td><td><code>{}</code></td></tr>",
            number(line.before_line),
            number(line.after_line),
            step(line.live_before, line.live_after),
            markup(&line.text)
        )?;
    }
    writeln!(out, "</table>")?;
    if rest > 0 {
        writeln!(out, "<p class=\"note\">and {rest} more lines (--top)</p>")?;
    }
    Ok(())
}

/// Instructions that differ, registers renamed away.
fn write_code(sass: &SassChange, out: &mut dyn Write) -> io::Result<()> {
    if sass.gone + sass.new == 0 {
        return writeln!(out, "<p class=\"note\">The code is the same but for the names of registers.</p>");
    }
    writeln!(
        out,
        "<details><summary>Code, registers renamed away: {} the same, {} gone, {} new</summary><pre>",
        sass.same, sass.gone, sass.new
    )?;
    for hunk in &sass.hunks {
        writeln!(out, "<span class=\"note\">…</span>")?;
        for line in &hunk.lines {
            let pc = |pc: Option<crate::base::Pc>| pc.map_or(String::new(), |pc| format!("{:04x}", pc.0));
            let (sign, class) = match (line.before_pc, line.after_pc) {
                (Some(_), None) => ("-", "gone"),
                (None, Some(_)) => ("+", "new"),
                _ => (" ", "note"),
            };
            let at = line.ptx_line.map_or(String::new(), |line| line.to_string());
            let place = format!("{sign} {:>5} {:>5} {at:>6}", pc(line.before_pc), pc(line.after_pc));
            writeln!(out, "<span class=\"{class}\">{place}  {}</span>", markup(&line.text))?;
        }
    }
    if sass.left_out > 0 {
        writeln!(out, "<span class=\"note\">… {}</span>", left_out(sass))?;
    }
    writeln!(out, "</pre></details>")
}
