//! What loops cost, on a terminal: a table for each loop, and what one warp waits for.

use std::io::{self, Write};

use super::Options;
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, RESET, wrap};
use crate::report::{CostBound, CyclesAt, Kernel, LoopCost, LoopWait, TurnCost, Unit, WaitReason};

/// Waits that are shown where nobody asks for all.
const WAITS: usize = 5;

/// Writes the costs of all kernels.
pub fn write_text(units: &[Unit], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (number, unit) in units.iter().filter(|unit| unit.error.is_none()).enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let arch = unit.arch.as_deref().unwrap_or("unknown architecture");
        writeln!(out, "{BOLD}{}{RESET}  {arch}", terminal(&unit.input))?;
        let told: Vec<&Kernel> = unit.kernels.iter().filter(|kernel| kernel.costs.is_some()).collect();
        if told.is_empty() {
            let why = "Nobody has measured this architecture: what its loops cost is not known. sm_90 and sm_90a are measured.";
            wrap(why, options.width.saturating_sub(2)).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            continue;
        }
        for kernel in told {
            write_kernel(kernel, options, out)?;
        }
    }
    Ok(())
}

fn write_kernel(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let name = kernel.demangled.as_deref().unwrap_or(&kernel.name);
    writeln!(out, "\n{BOLD}{}{RESET}", terminal(name))?;
    let costs = kernel.costs.as_deref().unwrap_or_default();
    if costs.is_empty() {
        return writeln!(out, "  no loop");
    }
    let says = "An estimate: the schedule of ptxas, executed on an SM as one was measured. Memory answers after a fixed time \
                (--latency), no access meets another in a bank, every guard holds, and the code is in the nearest cache.";
    for line in wrap(says, options.width.saturating_sub(2)) {
        writeln!(out, "  {DIM}{line}{RESET}")?;
    }
    costs.iter().try_for_each(|cost| write_loop(cost, options, out))
}

fn at_line(line: Option<Line>) -> String {
    line.map_or_else(|| "an instruction without a line".to_owned(), |line| format!("line {line}"))
}

fn write_loop(cost: &LoopCost, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let inner = match cost.inner_loops {
        0 => String::new(),
        1 => ", the loop inside it left out".to_owned(),
        more => format!(", the {more} loops inside it left out"),
    };
    let source = cost.source_line.as_ref().map(|at| format!("  {DIM}{}:{}{RESET}", terminal(&at.file), at.line));
    writeln!(
        out,
        "\n  {BOLD}loop at {}{RESET} (pc {}), depth {}{inner}{}",
        at_line(cost.ptx_line),
        cost.pc,
        cost.depth,
        source.unwrap_or_default()
    )?;
    match &cost.longest {
        None => write_turn(&cost.shortest, options, out),
        Some(longest) => {
            writeln!(out, "  the shortest way through it:")?;
            write_turn(&cost.shortest, options, out)?;
            writeln!(out, "  the longest way:")?;
            write_turn(longest, options, out)
        }
    }
}

/// What bounds a turn, in words.
pub fn bound(at: &CyclesAt) -> String {
    match at.bound {
        CostBound::Part => at.part.clone(),
        CostBound::Latency => "latency".to_owned(),
        CostBound::Barrier => "barrier".to_owned(),
    }
}

fn write_turn(turn: &TurnCost, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let unmeasured = match turn.unmeasured {
        0 => String::new(),
        1 => ", 1 of a kind that nobody measured".to_owned(),
        more => format!(", {more} of kinds that nobody measured"),
    };
    writeln!(out, "    {} instructions a turn{unmeasured}", turn.instructions)?;
    writeln!(
        out,
        "    {DIM}{:>9}  {:>9}  {:>9}  bound by, and how busy it is; then the busiest others{RESET}",
        "warps on", "cycles", "cycles a"
    )?;
    writeln!(out, "    {DIM}{:>9}  {:>9}  {:>9}{RESET}", "scheduler", "a turn", "warp")?;
    for at in std::iter::once(&turn.alone).chain(&turn.with_warps) {
        let warps =
            if at.warps_per_scheduler == 0 { "one alone".to_owned() } else { at.warps_per_scheduler.to_string() };
        let each = at.cycles / f64::from(at.warps_per_scheduler.max(1));
        let mut busy = at.busy.iter().map(|busy| format!("{} {} %", busy.part, busy.percent));
        let first = match at.bound {
            CostBound::Part => busy.next().unwrap_or_default(),
            _ => bound(at),
        };
        let others: Vec<String> = busy.take(2).collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        writeln!(out, "    {warps:>9}  {:>9.1}  {each:>9.1}  {first}{DIM}{others}{RESET}", at.cycles)?;
    }
    let waits: Vec<&LoopWait> = turn.waits.iter().filter(|wait| options.verbose || wait.cycles > 2).collect();
    let shown = if options.verbose { waits.len() } else { WAITS };
    if !waits.is_empty() {
        writeln!(out, "    one warp alone waits longest")?;
    }
    for wait in waits.iter().take(shown) {
        let line = format!("{} cycles before {}: {}", wait.cycles, at_line(wait.ptx_line), reason(wait));
        for (number, part) in wrap(&line, options.width.saturating_sub(8)).iter().enumerate() {
            writeln!(out, "{}{part}", if number == 0 { "      " } else { "        " })?;
        }
    }
    Ok(())
}

fn reason(wait: &LoopWait) -> String {
    match wait.reason {
        WaitReason::Stall => "the stall count of the instruction before it, for a result of a known latency".to_owned(),
        WaitReason::Scoreboard => {
            let line = wait.for_ptx_line.map(|line| format!("line {line}"));
            let pc = wait.for_pc.map(|pc| format!(" (pc {pc})")).unwrap_or_default();
            format!("waits for what {}{pc} brings or reads", line.unwrap_or_else(|| "an instruction".to_owned()))
        }
        WaitReason::Branch => "the branch to it".to_owned(),
        WaitReason::Pipe => "its pipe is busy".to_owned(),
        WaitReason::Banks => "operands in the same bank of registers".to_owned(),
        WaitReason::Barrier => "the barrier".to_owned(),
        WaitReason::Groups => "multiplications of the warp group".to_owned(),
    }
}
