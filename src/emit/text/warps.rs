//! Roles, setmaxnreg and its pool, findings.

use std::io::{self, Write};

use super::Options;
use super::figures::{count, thousands};
use super::kernel::row;
use super::style::{BAD, DIM, GOOD, RESET, WARN};
use super::wrap::wrap;
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::report::{Kernel, NamedBarrierSite, Role, RolePart, SetMaxNReg};

/// Writes the table of roles and the verdict on setmaxnreg.
pub fn write(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if let Some(found) = &kernel.setmaxnreg {
        write_setmaxnreg(found, options, out)?;
    }
    match kernel.roles.as_deref().filter(|roles| !roles.is_empty()) {
        Some(roles) => write_roles(roles, options, out),
        None => Ok(()),
    }
}

/// Named barriers where there is more than `bar.sync 0` of everybody, then mbarriers, a line for each array.
pub fn write_barriers(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(found) = &kernel.barriers else { return Ok(()) };
    let plain = |site: &NamedBarrierSite| site.action == "sync" && site.threads == site.reached_by;
    let several = found.named.iter().any(|barrier| barrier.id != 0 || !barrier.sites.iter().all(plain));
    if several || options.verbose {
        for barrier in &found.named {
            row(&format!("barrier {}", barrier.id), &sites(&barrier.sites), options, out)?;
        }
        if !found.unresolved.is_empty() {
            row("barrier ?", &sites(&found.unresolved), options, out)?;
        }
    }
    if !found.inserted.is_empty() {
        let mut groups = Vec::new();
        for site in &found.inserted {
            match site.ptx_line {
                Some(line) => add(&mut groups, site.text.clone(), line),
                None => groups.push((format!("{} at pc {:x}", site.text, site.pc.0), Vec::new())),
            }
        }
        let text = groups.iter().filter(|(_, lines)| lines.is_empty()).map(|(what, _)| what.clone());
        let lined: Vec<_> = groups.iter().filter(|(_, lines)| !lines.is_empty()).cloned().collect();
        let parts: Vec<String> = text.chain((!lined.is_empty()).then(|| listed(&lined))).collect();
        row("inserted", &format!("by ptxas: {}", parts.join("; ")), options, out)?;
    }
    super::mbarriers::write(&found.mbarriers.sites, options, out)
}

fn add(groups: &mut Vec<(String, Vec<Line>)>, what: String, line: Line) {
    match groups.iter_mut().find(|(known, _)| *known == what) {
        Some((_, lines)) => lines.push(line),
        None => groups.push((what, vec![line])),
    }
}

/// `sync 256 at lines 260, 300; arrive at lines 3, 4, 5, 6 and 12 more`
fn listed(groups: &[(String, Vec<Line>)]) -> String {
    const SHOWN: usize = 4;
    let text = |(what, lines): &(String, Vec<Line>)| {
        let first: Vec<String> = lines.iter().take(SHOWN).map(ToString::to_string).collect();
        let more = lines.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{what} at line{} {}{more}", if lines.len() == 1 { "" } else { "s" }, first.join(", "))
    };
    groups.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// `bar.sync by 256 threads at line 261; bar.arrive by 128 threads (384 can reach it) at line 70`
fn sites(sites: &[NamedBarrierSite]) -> String {
    let mut groups = Vec::new();
    for site in sites {
        let by = match site.threads {
            Some(threads) => count(u64::from(threads), "thread"),
            None => "an unknown number of threads".to_owned(),
        };
        let reached = match site.reached_by {
            Some(reached) if Some(reached) != site.threads => format!(" ({} can reach it)", thousands(reached.into())),
            _ => String::new(),
        };
        add(&mut groups, format!("bar.{} by {by}{reached}", site.action), site.ptx_line);
    }
    listed(&groups)
}

/// `tma load (warp 4)`, where only some warps of a role do it.
fn with_warps(done: &str, parts: &[RolePart]) -> String {
    match parts.iter().find(|part| part.does == done) {
        Some(part) if part.warp_ids.contains(['-', ',']) => format!("{done} (warps {})", part.warp_ids),
        Some(part) => format!("{done} (warp {})", part.warp_ids),
        None => done.to_owned(),
    }
}

/// What a role does, as the last column of its row.
fn deeds(role: &Role) -> String {
    let mut does: Vec<String> = role.does.iter().map(|done| with_warps(done, &role.parts)).collect();
    let listed = |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if role.budgets.len() > 1 {
        does.push(format!("registers in turn {}", listed(&role.budgets)));
    }
    match role.barriers.as_slice() {
        [] => {}
        [only] => does.push(format!("barrier {only}")),
        several => does.push(format!("barriers {}", listed(several))),
    }
    terminal(&does.join(", ")).into_owned()
}

/// How many columns each cell takes.
fn widths_of(cells: &[String; 8]) -> impl Iterator<Item = (usize, usize)> {
    cells.iter().map(|cell| cell.chars().count()).enumerate()
}

/// A row for each role; what it does stands under it where a line has no room.
fn write_roles(roles: &[Role], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    const HEAD: [&str; 8] = ["role", "warps", "registers", "live", "spare", "spills", "SASS", "from line"];
    const SHORT_HEAD: [&str; 8] = ["role", "warps", "regs", "live", "spare", "spills", "SASS", "line"];
    /// Columns of words; the others are figures.
    const WORDS: usize = 2;
    let number = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
    let cells = |role: &Role| {
        let warps = match (role.warps, &role.warp_ids) {
            (Some(count), Some(ids)) => format!("{count} ({ids})"),
            (Some(count), None) => count.to_string(),
            _ => "?".to_owned(),
        };
        [
            terminal(&role.name).into_owned(),
            warps,
            role.budget.map_or("-".to_owned(), |budget| budget.to_string()),
            number(role.peak_gpr.map(|peak| peak.to_string())),
            number(role.headroom.map(|room| room.to_string())),
            number(role.spills.map(thousands)),
            number(role.instructions.map(thousands)),
            number(role.entry_ptx_line.map(|line| line.to_string())),
        ]
    };
    let rows: Vec<([String; 8], String)> = roles.iter().map(|role| (cells(role), deeds(role))).collect();
    let widths_under = |head: [&str; 8]| {
        let mut widths = head.map(str::len);
        for (width, cell) in rows.iter().flat_map(|(cells, _)| widths_of(cells)) {
            widths[width] = widths[width].max(cell);
        }
        widths
    };
    let room = |widths: [usize; 8]| widths.iter().map(|width| width + 2).sum::<usize>();
    let head = if room(widths_under(HEAD)) <= options.width { HEAD } else { SHORT_HEAD };
    let widths = widths_under(head);
    let line = |cells: [&str; 8], styles: [anstyle::Style; 8]| {
        let mut text = String::new();
        for (at, ((cell, width), style)) in cells.into_iter().zip(widths).zip(styles).enumerate() {
            let cell = if at < WORDS { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            text.push_str(&format!("  {style}{cell}{style:#}"));
        }
        text
    };
    let taken = room(widths);
    let fits = rows.iter().all(|(_, does)| taken + 2 + does.chars().count() <= options.width);
    let plain = anstyle::Style::new();
    writeln!(out, "{DIM}{}{}{RESET}", line(head, [plain; 8]), if fits { "  does" } else { "" })?;
    for (role, (cells, does)) in roles.iter().zip(&rows) {
        let mut styles = [plain; 8];
        styles[4] = if role.headroom.is_some_and(|room| room < 8) { WARN } else { plain };
        styles[5] = if role.spills.is_some_and(|spills| spills > 0) { WARN } else { plain };
        let text = line(cells.each_ref().map(String::as_str), styles);
        if fits {
            writeln!(out, "{}", format!("{text}  {does}").trim_end())?;
            continue;
        }
        writeln!(out, "{text}")?;
        let indent = widths[0] + 4;
        for line in wrap(does, options.width.saturating_sub(indent)) {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

fn write_setmaxnreg(found: &SetMaxNReg, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let asked: Vec<String> = found
        .requested
        .iter()
        .map(|site| {
            let way = if site.action == "dec" { "down" } else { "up" };
            let count = site.count.map_or("an unknown number of".to_owned(), |count| count.to_string());
            format!("{way} to {count} registers a thread at line {}", site.ptx_line)
        })
        .collect();
    let asked = if asked.is_empty() { "what the PTX asks for is not known".to_owned() } else { asked.join(", ") };
    let verdict = match found.honoured {
        Some(true) => format!("{GOOD}kept by ptxas{RESET}: {asked}"),
        Some(false) => format!("{BAD}dropped by ptxas{RESET}: {asked}"),
        None => asked,
    };
    row("setmaxnreg", &verdict, options, out)?;
    if let Some(reason) = &found.reason {
        let code = found.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
        let fix = found.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        row("", &format!("because {reason}{code}{fix}"), options, out)?;
    }
    for site in &found.requested {
        if let Some(illegal) = &site.illegal {
            row("", &format!("{BAD}illegal{RESET} at line {}: {illegal}", site.ptx_line), options, out)?;
        }
    }
    let Some(pool) = &found.pool else { return Ok(()) };
    let style = match pool.verdict.as_str() {
        "exact" => GOOD,
        "never" => BAD,
        _ => WARN,
    };
    let condition = pool.condition.as_ref().map(|text| format!(" {DIM}({text}){RESET}")).unwrap_or_default();
    row("pool", &format!("{style}{}{RESET}{condition}", terminal(&pool.explanation)), options, out)?;
    if !pool.rebalance.is_empty() {
        let budgets: Vec<String> =
            pool.rebalance.iter().map(|budget| format!("{} {}", terminal(&budget.role), budget.registers)).collect();
        row("", &format!("registers a thread that would fit: {}", budgets.join(", ")), options, out)?;
    }
    Ok(())
}
