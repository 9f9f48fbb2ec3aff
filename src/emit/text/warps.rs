//! Roles, setmaxnreg and its pool, findings.

use std::io::{self, Write};

use super::Options;
use super::figures::thousands;
use super::kernel::row;
use super::style::{BAD, DIM, GOOD, RESET, WARN};
use crate::emit::escape::terminal;
use crate::report::{Kernel, Role, SetMaxNReg};

/// Writes the table of roles and the verdict on setmaxnreg.
pub fn write(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if let Some(found) = &kernel.setmaxnreg {
        write_setmaxnreg(found, options, out)?;
    }
    match kernel.roles.as_deref() {
        Some(roles) if !roles.is_empty() => write_roles(roles, out),
        _ => Ok(()),
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
        let mut does: Vec<&str> = role.does.iter().map(String::as_str).collect();
        let barriers: Vec<String> = role.barriers.iter().map(ToString::to_string).collect();
        let bar = format!("bar {}", barriers.join(" "));
        if !barriers.is_empty() {
            does.push(&bar);
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
