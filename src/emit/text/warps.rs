//! Roles, setmaxnreg and its pool, findings.

use std::io::{self, Write};

use super::Options;
use super::figures::thousands;
use super::kernel::row;
use super::style::{BAD, DIM, GOOD, RESET, WARN};
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::report::{Kernel, NamedBarrierSite, Role, RolePart, SetMaxNReg};

/// Writes the table of roles and the verdict on setmaxnreg.
pub fn write(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if let Some(found) = &kernel.setmaxnreg {
        write_setmaxnreg(found, options, out)?;
    }
    match kernel.roles.as_deref().filter(|roles| !roles.is_empty()) {
        Some(roles) => write_roles(roles, out),
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

fn sites(sites: &[NamedBarrierSite]) -> String {
    let mut groups = Vec::new();
    for site in sites {
        let count = site.threads.map_or("?".to_owned(), |count| count.to_string());
        let reached = match site.reached_by {
            Some(reached) if Some(reached) != site.threads => format!(" ({reached} threads may come)"),
            _ => String::new(),
        };
        add(&mut groups, format!("{} {count}{reached}", site.action), site.ptx_line);
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

fn write_roles(roles: &[Role], out: &mut dyn Write) -> io::Result<()> {
    let unknown = || "?".to_owned();
    let number = |value: Option<String>| value.unwrap_or_else(unknown);
    let name_width = roles.iter().map(|role| role.name.len()).max().unwrap_or(0).max("role".len());
    writeln!(
        out,
        "  {DIM}{:<name_width$}  warps      budget  live  room  spills  instructions  from line  does{RESET}",
        "role"
    )?;
    for role in roles {
        let warps = match (role.warps, &role.warp_ids) {
            (Some(count), Some(ids)) => format!("{count} ({ids})"),
            (Some(count), None) => count.to_string(),
            _ => unknown(),
        };
        let tight = if role.headroom.is_some_and(|room| room < 8) { WARN } else { anstyle::Style::new() };
        let spilt = if role.spills.is_some_and(|spills| spills > 0) { WARN } else { anstyle::Style::new() };
        let mut does: Vec<String> = role.does.iter().map(|done| with_warps(done, &role.parts)).collect();
        let barriers: Vec<String> = role.barriers.iter().map(ToString::to_string).collect();
        let changing: Vec<String> = role.budgets.iter().map(ToString::to_string).collect();
        let changing = format!("budgets {}", changing.join(" "));
        if role.budgets.len() > 1 {
            does.push(changing);
        }
        let bar = format!("bar {}", barriers.join(" "));
        if !barriers.is_empty() {
            does.push(bar);
        }
        writeln!(
            out,
            "  {:<name_width$}  {warps:<9}  {:>6}  {:>4}  {tight}{:>4}{RESET}  {spilt}{:>6}{RESET}  {:>12}  {:>9}  {}",
            terminal(&role.name),
            role.budget.map_or("-".to_owned(), |budget| budget.to_string()),
            number(role.peak_gpr.map(|peak| peak.to_string())),
            number(role.headroom.map(|room| room.to_string())),
            number(role.spills.map(thousands)),
            number(role.instructions.map(thousands)),
            number(role.entry_ptx_line.map(|line| line.to_string())),
            does.join(", "),
        )?;
    }
    Ok(())
}

fn write_setmaxnreg(found: &SetMaxNReg, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let asked: Vec<String> = found
        .requested
        .iter()
        .map(|site| {
            let count = site.count.map_or("?".to_owned(), |count| count.to_string());
            format!("{} {count} at line {}", site.action, site.ptx_line)
        })
        .collect();
    let asked = if asked.is_empty() { "what the PTX asks for is not known".to_owned() } else { asked.join(", ") };
    let verdict = match found.honoured {
        Some(true) => format!("{GOOD}kept{RESET}: {asked}"),
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
        row("", &format!("this fits: {}", budgets.join(", ")), options, out)?;
    }
    Ok(())
}
