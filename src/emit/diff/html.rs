//! As one page that needs nothing else: all kernels in a table, then each with its figures, the curves of live registers, and both texts
//! side by side, line by line.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::{
    CODE_LEFT_OUT, CYCLES, LINES_LEFT_OUT, Options, Overall, amount, has_cycles, left_out, loop_title, loop_verdict,
    other_figures, same_instructions, shown_figures, shown_loops, side, title, verdict, worst_first,
};
use crate::base::{Line, Pc};
use crate::compare::{
    Difference, FigureChange, Hunk, HunkLine, KernelDifference, LineChange, Outcome, SassChange, UnitDifference,
};
use crate::emit::escape::markup;
use crate::emit::page;
use crate::emit::text::{count, thousands};
use crate::report::{distinct, spelt};

/// Lines that did not move and are shown around those that did.
const CONTEXT: usize = 3;
/// Characters of a name.
const NAME: usize = 110;
/// Rows of a kernel's two texts.
const ROWS: usize = 3000;

/// Writes the page.
pub fn write(difference: &Difference, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    page::open("diff", out)?;
    let mut number = 0;
    for unit in &difference.units {
        write_unit(unit, options, &mut number, out)?;
    }
    for (text, _) in super::alone(difference) {
        writeln!(out, "<p>{}</p>", markup(&text))?;
    }
    page::close(out)
}

fn write_unit(unit: &UnitDifference, options: &Options, number: &mut u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p><code class=\"gone\">− {}</code><br>", markup(&side(&unit.before)))?;
    writeln!(out, "<code class=\"new\">+ {}</code></p>", markup(&side(&unit.after)))?;
    for (texts, class, word) in [(&unit.advisories_gone, "better", "no longer"), (&unit.advisories_new, "mixed", "new")]
    {
        for text in texts {
            writeln!(out, "<p><b class=\"{class}\">{word}</b> {}</p>", markup(&spelt(text)))?;
        }
    }
    let kernels = worst_first(unit);
    let full: Vec<&str> = kernels.iter().map(|kernel| name(kernel)).collect();
    let short = distinct(&full, NAME);
    if kernels.len() > 1 {
        write_index(&kernels, &short, *number, out)?;
    }
    for (kernel, short) in kernels.into_iter().zip(&short) {
        write_kernel(kernel, short, options, *number, out)?;
        *number += 1;
    }
    Ok(())
}

fn name(kernel: &KernelDifference) -> &str {
    kernel.demangled.as_deref().unwrap_or(&kernel.name)
}

/// A row for each kernel: what became of it, and the figures that changed.
fn write_index(kernels: &[&KernelDifference], short: &[String], first: u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"panel\"><table class=\"index\"><tr><th>kernel</th><th></th><th>changed</th></tr>")?;
    for ((at, kernel), short) in (first..).zip(kernels).zip(short) {
        let overall = Overall::of(kernel);
        let changed = kernel.figures.iter().filter(|change| change.outcome != Outcome::Same);
        let changed: Vec<String> = changed.map(step).collect();
        let title = markup(name(kernel));
        writeln!(
            out,
            "<tr><td><a href=\"#k{at}\" title=\"{title}\"><code>{}</code></a></td><td class=\"{}\">{}</td><td>{}</td></tr>",
            markup(short),
            overall.class(),
            overall.word(),
            changed.join(", ")
        )?;
    }
    writeln!(out, "</table></div>")
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Same | Outcome::Unknown => "note",
    }
}

/// `registers 168 → 128` in the colour of better or worse.
fn step(change: &FigureChange) -> String {
    let (before, after) = (amount(change.figure, change.before), amount(change.figure, change.after));
    format!("<span class=\"{}\">{} {before} → {after}</span>", class(change.outcome), title(change.figure))
}

fn write_kernel(
    kernel: &KernelDifference,
    short: &str,
    options: &Options,
    number: u32,
    out: &mut dyn Write,
) -> io::Result<()> {
    let overall = Overall::of(kernel);
    writeln!(
        out,
        "<h2 id=\"k{number}\">{} <span class=\"{}\">{}</span></h2>",
        page::name(short, name(kernel)),
        overall.class(),
        overall.word()
    )?;
    if let Some(before) = kernel.before_name.as_ref().filter(|_| kernel.side == "both") {
        writeln!(out, "<p class=\"note\">was <code>{}</code></p>", markup(before))?;
    }
    if kernel.side != "both" || kernel.is_empty() {
        return Ok(());
    }
    for (texts, class, word) in [(&kernel.findings_new, "worse", "new"), (&kernel.findings_gone, "better", "no longer")]
    {
        for text in texts {
            writeln!(out, "<p><b class=\"{class}\">{word}</b> {}</p>", markup(text))?;
        }
    }
    write_figures(kernel, out)?;
    write_curves(&kernel.lines, out)?;
    write_lines(&kernel.lines, out)?;
    if kernel.lines_left_out {
        writeln!(out, "<p class=\"note\">{LINES_LEFT_OUT}</p>")?;
    }
    match &kernel.sass {
        Some(sass) => write_code(sass, options, out),
        None if kernel.sass_left_out => writeln!(out, "<p class=\"note\">{CODE_LEFT_OUT}</p>"),
        None => Ok(()),
    }
}

fn write_figures(kernel: &KernelDifference, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"figures\">")?;
    for change in shown_figures(kernel) {
        let (before, after) = (amount(change.figure, change.before), amount(change.figure, change.after));
        let much = if before == after { after } else { format!("{before} → {after}") };
        let class = class(change.outcome);
        writeln!(
            out,
            "<div class=\"figure\"><span class=\"what\">{}</span><b class=\"{class}\">{much}</b> <small class=\"{class}\">{}</small></div>",
            title(change.figure),
            verdict(change)
        )?;
    }
    for change in shown_loops(kernel) {
        let class = class(change.outcome);
        writeln!(
            out,
            "<div class=\"figure\"><span class=\"what\">{}</span><b class=\"{class}\">{} → {}</b> <small class=\"{class}\">{}</small></div>",
            loop_title(change),
            thousands(change.before),
            thousands(change.after),
            loop_verdict(change)
        )?;
    }
    writeln!(out, "</div>")?;
    if has_cycles(kernel) {
        writeln!(out, "<p class=\"note\">{}</p>", markup(CYCLES))?;
    }
    match other_figures(kernel) {
        0 => Ok(()),
        others => {
            let others = count(others as u64, "other figure");
            writeln!(out, "<p class=\"note\">and {others} of the report: <code>--format json</code></p>")
        }
    }
}

/// Live registers along the matched lines: before and after.
fn write_curves(lines: &[LineChange], out: &mut dyn Write) -> io::Result<()> {
    const HIGH: usize = 100;
    let most = lines.iter().flat_map(|line| [line.live_before, line.live_after]).flatten().max().unwrap_or(0);
    if lines.len() < 8 || most == 0 {
        return Ok(());
    }
    let path = |of: fn(&LineChange) -> Option<u32>| {
        let mut path = String::new();
        let known = lines.iter().enumerate().filter_map(|(at, line)| Some((at, of(line)?)));
        for (at, live) in known {
            let y = HIGH - 1 - live as usize * (HIGH - 2) / most as usize;
            let _ = write!(path, "{}{at} {y}", if path.is_empty() { 'M' } else { 'L' });
        }
        path
    };
    let (before, after) = (path(|line| line.live_before), path(|line| line.live_after));
    let line = |line: Option<&LineChange>| {
        line.and_then(|line| line.after_line.or(line.before_line)).map_or(String::new(), |line| format!("line {line}"))
    };
    let (first, last) = (line(lines.first()), line(lines.last()));
    writeln!(
        out,
        "<figure><figcaption>Live registers along the PTX: <b class=\"before\">before</b>, <b class=\"after\">after</b></figcaption>\
         <div class=\"plot\"><div class=\"up\"><span>{most}</span><span>0</span></div><div class=\"panel\">"
    )?;
    writeln!(
        out,
        "<svg class=\"curve\" viewBox=\"0 0 {} {HIGH}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"live registers before and after\"><path class=\"before\" d=\"{before}\"/>\
         <path class=\"after\" d=\"{after}\"/></svg></div>\
         <div class=\"along\"><span>{first}</span><span>{last}</span></div></div></figure>",
        lines.len() - 1
    )
}

/// Which lines are shown: those that moved, and some around them.
fn is_shown(lines: &[LineChange]) -> Vec<bool> {
    let mut shown = vec![false; lines.len()];
    for at in lines.iter().enumerate().filter(|(_, line)| line.moved()).map(|(at, _)| at) {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len());
        shown.get_mut(around).into_iter().flatten().for_each(|shown| *shown = true);
    }
    shown
}

/// Both texts, matched line by line.
fn write_lines(lines: &[LineChange], out: &mut dyn Write) -> io::Result<()> {
    if !lines.iter().any(LineChange::moved) {
        return Ok(());
    }
    let most = lines.iter().flat_map(|line| [line.live_before, line.live_after]).flatten().max().unwrap_or(1).max(1);
    let side = "<col style=\"width:4.5em\"><col style=\"width:4em\"><col style=\"width:4em\"><col>";
    let head = "<th class=\"n\">live</th><th class=\"n\">SASS</th>";
    writeln!(out, "<div class=\"panel\"><table class=\"pair\"><colgroup>{side}{side}</colgroup>")?;
    writeln!(
        out,
        "<tr><th class=\"n\">line</th>{head}<th>PTX before</th><th class=\"n\">line</th>{head}<th>PTX after</th></tr>"
    )?;
    let shown = is_shown(lines);
    let (mut skipped, mut rows) = (0, 0);
    for (line, shown) in lines.iter().zip(shown) {
        if !shown {
            skipped += 1;
            continue;
        }
        write_gap(std::mem::take(&mut skipped), out)?;
        if rows == ROWS {
            break;
        }
        rows += 1;
        write_line(line, most, out)?;
    }
    let rest = lines.iter().filter(|line| line.moved()).count();
    if rows == ROWS {
        writeln!(out, "<tr class=\"gap\"><td colspan=\"8\">… of {rest} lines that differ</td></tr>")?;
    } else {
        write_gap(skipped, out)?;
    }
    writeln!(out, "</table></div>")
}

fn write_gap(lines: usize, out: &mut dyn Write) -> io::Result<()> {
    match lines {
        0 => Ok(()),
        lines => writeln!(out, "<tr class=\"gap\"><td colspan=\"8\">⋯ {} alike</td></tr>", count(lines as u64, "line")),
    }
}

/// One side of a line: number, live registers, instructions and spills, text.
fn half(line: Option<Line>, live: Option<u32>, made: (u32, Option<u32>), text: (&str, &str), most: u32) -> String {
    let Some(number) = line else {
        return "<td class=\"x mid\"></td><td class=\"x\"></td><td class=\"x\"></td><td class=\"x\"></td>".to_owned();
    };
    let (kind, text) = text;
    let live = match live {
        Some(live) => format!("<td class=\"k b\" style=\"--w:{}%\">{live}</td>", live * 100 / most),
        None => "<td class=\"k\"></td>".to_owned(),
    };
    let spills =
        made.1.filter(|spills| *spills > 0).map(|spills| format!("<span class=\"worse\"> {spills} spill</span>"));
    let made = if made.0 > 0 { format!("{}×", made.0) } else { String::new() };
    let title = markup(text);
    format!(
        "<td class=\"l mid\">{number}</td>{live}<td class=\"l\">{made}</td><td class=\"{kind}\" title=\"{title}\">{title}{}</td>",
        spills.unwrap_or_default()
    )
}

fn write_line(line: &LineChange, most: u32, out: &mut dyn Write) -> io::Result<()> {
    let kinds = match (line.before_line, line.after_line) {
        (Some(_), None) => ("gone", ""),
        (None, Some(_)) => ("", "new"),
        _ => ("", ""),
    };
    let class = if line.live_gained() > 0 || line.spills_gained() > 0 { " class=\"up\"" } else { "" };
    let before_text = line.before_text.as_deref().unwrap_or(&line.text);
    let before = half(
        line.before_line,
        line.live_before,
        (line.instructions_before, line.spills_before),
        (kinds.0, before_text),
        most,
    );
    let after = half(
        line.after_line,
        line.live_after,
        (line.instructions_after, line.spills_after),
        (kinds.1, &line.text),
        most,
    );
    writeln!(out, "<tr{class}>{before}{after}</tr>")
}

/// Instructions that differ, whatever registers they use.
fn write_code(sass: &SassChange, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if sass.gone + sass.new == 0 {
        return writeln!(out, "<p class=\"note\">{}</p>", same_instructions(sass));
    }
    let (same, gone, new) = (count(sass.same, "instruction"), thousands(sass.gone), thousands(sass.new));
    let open = if sass.gone + sass.new <= options.top as u64 { " open" } else { "" };
    writeln!(
        out,
        "<details{open}><summary>SASS, whatever registers it uses: {same} the same, {gone} gone, {new} new</summary>"
    )?;
    let side = "<col style=\"width:5em\"><col style=\"width:5em\"><col>";
    writeln!(out, "<div class=\"panel\"><table class=\"pair\"><colgroup>{side}{side}</colgroup>")?;
    let head = "<th class=\"n\">pc</th><th class=\"n\">line</th>";
    writeln!(out, "<tr>{head}<th>SASS before</th>{head}<th>SASS after</th></tr>")?;
    for hunk in &sass.hunks {
        writeln!(out, "<tr class=\"gap\"><td colspan=\"6\">⋯</td></tr>")?;
        write_hunk(hunk, out)?;
    }
    writeln!(out, "</table></div>")?;
    if sass.left_out > 0 {
        writeln!(out, "<p class=\"note\">… {}</p>", left_out(sass))?;
    }
    writeln!(out, "</details>")
}

/// What is gone beside what is new, one below the other.
fn write_hunk(hunk: &Hunk, out: &mut dyn Write) -> io::Result<()> {
    let is_same = |line: &HunkLine| line.before_pc.is_some() && line.after_pc.is_some();
    for run in hunk.lines.chunk_by(|a, b| is_same(a) == is_same(b)) {
        if run.first().is_some_and(is_same) {
            for line in run {
                let [before, after] = [line.before_pc, line.after_pc].map(|pc| instruction(line, pc, ""));
                writeln!(out, "<tr>{before}{after}</tr>")?;
            }
            continue;
        }
        let gone: Vec<&HunkLine> = run.iter().filter(|line| line.after_pc.is_none()).collect();
        let new: Vec<&HunkLine> = run.iter().filter(|line| line.before_pc.is_none()).collect();
        let nothing = "<td class=\"x mid\"></td><td class=\"x\"></td><td class=\"x\"></td>";
        for at in 0..gone.len().max(new.len()) {
            let before = gone.get(at).map(|line| instruction(line, line.before_pc, "gone"));
            let after = new.get(at).map(|line| instruction(line, line.after_pc, "new"));
            let cells = [before, after].map(|cell| cell.unwrap_or_else(|| nothing.to_owned()));
            writeln!(out, "<tr>{}</tr>", cells.concat())?;
        }
    }
    Ok(())
}

fn instruction(line: &HunkLine, pc: Option<Pc>, kind: &str) -> String {
    let pc = pc.map_or(String::new(), |pc| format!("{:04x}", pc.0));
    let at = line.ptx_line.map_or(String::new(), |line| line.to_string());
    let text = markup(&line.text);
    format!("<td class=\"l mid\">{pc}</td><td class=\"l\">{at}</td><td class=\"{kind}\" title=\"{text}\">{text}</td>")
}
