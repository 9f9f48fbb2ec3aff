//! Two or three sentences that a tired engineer reads first.

use super::figures::{bytes, count, thousands};
use crate::emit::escape::terminal;
use crate::report::{Cause, Kernel, LaunchFact, LiveValue, Occupancy, RegisterCap, Unit, abridge};

/// The summary of a kernel: what it uses and what set that, where the pressure is, what it would take to do better.
pub fn summary(kernel: &Kernel, unit: &Unit) -> String {
    let mut sentences = Vec::new();
    sentences.extend(registers(kernel, unit));
    sentences.extend(holder(kernel));
    sentences.extend(roles(kernel));
    sentences.extend(spills(kernel));
    sentences.extend(called_spills(kernel, unit).map(|spills| format!("{spills}.")));
    sentences.extend(local_arrays(kernel));
    sentences.extend(too_little(kernel));
    sentences.extend(occupancy(kernel));
    sentences.join(" ")
}

/// The functions that a kernel calls whose code stands behind its own: ptxas makes them for it alone.
fn called<'u>(kernel: &'u Kernel, unit: &'u Unit) -> impl Iterator<Item = &'u Kernel> {
    unit.kernels.iter().filter(|other| other.within.as_deref() == Some(kernel.name.as_str()))
}

/// Columns of the name of a function in a sentence about a kernel.
const CALLED: usize = 60;

fn name_of(kernel: &Kernel) -> String {
    terminal(&abridge(kernel.demangled.as_deref().unwrap_or(&kernel.name), CALLED)).into_owned()
}

/// `compute, which it calls, spills: 8 B stored, 16 B read back`, of the function that spills most.
pub(super) fn called_spills(kernel: &Kernel, unit: &Unit) -> Option<String> {
    let spilt = |kernel: &Kernel| {
        let (stored, loaded) = kernel.resources.spill_store_bytes.zip(kernel.resources.spill_load_bytes)?;
        (stored + loaded > 0).then_some((stored, loaded))
    };
    let spilling: Vec<(&Kernel, (u64, u64))> =
        called(kernel, unit).filter_map(|called| Some((called, spilt(called)?))).collect();
    let (most, (stored, loaded)) = spilling.iter().max_by_key(|(_, (stored, loaded))| stored + loaded)?;
    let more = match spilling.len() {
        1 => String::new(),
        all => format!("; so do {}", count(all as u64 - 1, "more function")),
    };
    let (name, stored, loaded) = (name_of(most), bytes(*stored), bytes(*loaded));
    Some(format!("{name}, which it calls, spills registers: {stored} stored, {loaded} read back{more}"))
}

fn registers(kernel: &Kernel, unit: &Unit) -> Option<String> {
    let used = kernel.resources.registers?;
    // What setmaxnreg hands from warp to warp is not what a thread uses.
    let is_moved = kernel.setmaxnreg.as_ref().is_some_and(|found| found.honoured != Some(false));
    let uses = if is_moved { "is launched with" } else { "uses" };
    let mut text = match &kernel.register_cap {
        Some(cap) if used >= cap.registers && cap.cause == Cause::Isa => {
            format!("Each thread {uses} {used} registers, the most that an instruction can name")
        }
        Some(cap) if used >= cap.registers => {
            format!("Each thread {uses} {used} registers, all that {} allows", setter(cap))
        }
        Some(cap) if cap.cause != Cause::Isa => {
            format!("Each thread {uses} {used} of the {} registers that {} allows", cap.registers, setter(cap))
        }
        _ => format!("Each thread {uses} {}", count(u64::from(used), "register")),
    };
    if let Some(pressure) = &kernel.pressure {
        let at = pressure.gpr.ptx_line.map(|line| format!(", at line {line}")).unwrap_or_default();
        let holds = if pressure.gpr.peak == 1 { "holds" } else { "hold" };
        text.push_str(&format!("; at most {} {holds} a live value at once{at}", pressure.gpr.peak));
        let peak = |kernel: &&Kernel| kernel.pressure.as_ref().map_or(0, |pressure| pressure.gpr.peak);
        let fullest = called(kernel, unit).max_by_key(peak);
        if let Some(fullest) = fullest.filter(|fullest| peak(fullest) > pressure.gpr.peak) {
            text.push_str(&format!(" in its own code, and {} in {}, which it calls", peak(&fullest), name_of(fullest)));
        }
    }
    text.push('.');
    Some(text)
}

/// Registers that a value must hold to be worth a sentence, and the part of the live ones, as a divisor.
const HELD: (usize, usize) = (4, 8);

/// The value that holds many registers where most are live, and does nothing with them there.
fn holder(kernel: &Kernel) -> Option<String> {
    let peak = kernel.pressure.as_ref()?.gpr.peak as usize;
    let mut rows = kernel.live_at_peak.as_ref()?.iter();
    let is_worth = |row: &&LiveValue| row.could.is_some() && row.registers.len() >= HELD.0.max(peak / HELD.1);
    let row = rows.find(|row| is_worth(row) && !row.ptx_lines.is_empty())?;
    // A row is all that the same kind of statement makes.
    let makers = match row.ptx_lines[..] {
        [line] => format!("line {line} makes"),
        [first, last] => format!("lines {first} and {last} make"),
        [first, .., last] => format!("{} lines from {first} to {last} make", row.ptx_lines.len()),
        [] => return None,
    };
    let idle = match row.idle_loop_ptx_line {
        Some(line) => format!("the loop from line {line} does not use"),
        None => format!("nothing uses for {} instructions around there", row.idle_instructions?),
    };
    Some(format!("{} of those hold what {makers} and {idle}.", row.registers.len()))
}

/// `It has 4 producer warps (40 registers a thread) and 8 consumer warps (232); …`
fn roles(kernel: &Kernel) -> Option<String> {
    let roles = kernel.roles.as_deref().filter(|roles| roles.len() > 1)?;
    let told: Option<Vec<String>> = roles
        .iter()
        .map(|role| {
            let budget = role.budget.map(|budget| format!(" ({budget} registers a thread)")).unwrap_or_default();
            let warps = role.warps?;
            Some(format!("{warps} {} warp{}{budget}", terminal(&role.name), if warps == 1 { "" } else { "s" }))
        })
        .collect();
    let (last, first) = told.as_deref()?.split_last()?;
    let pool = kernel.setmaxnreg.as_ref().and_then(|found| found.pool.as_ref());
    let verdict = match (pool.map(|pool| pool.verdict.as_str()), kernel.setmaxnreg.as_ref().map(|found| found.honoured))
    {
        (_, Some(Some(false))) => ", but ptxas dropped setmaxnreg: all of them keep the same number",
        (Some("exact"), _) => "; together they take exactly the registers that a block is launched with",
        (Some("unused"), _) => "; together they leave some of the block's registers unused",
        (Some("never"), _) => "; a block is not launched with that many registers: the kernel hangs",
        _ => "",
    };
    Some(format!("It has {} and {last}{verdict}.", first.join(", ")))
}

/// What set a cap, as the subject of a sentence.
fn setter(cap: &RegisterCap) -> &'static str {
    match cap.cause {
        Cause::MaxNReg => ".maxnreg",
        Cause::LaunchBounds => ".minnctapersm",
        Cause::BlockSize => "its block size",
        Cause::MaxRRegCount => "--maxrregcount",
        Cause::Isa => "an instruction",
    }
}

fn spills(kernel: &Kernel) -> Option<String> {
    let (stores, loads) = (kernel.resources.spill_store_bytes?, kernel.resources.spill_load_bytes?);
    if stores == 0 && loads == 0 {
        return None;
    }
    let mut text = format!("It spills registers: {} stored, {} read back", bytes(stores), bytes(loads));
    if let Some(spills) = &kernel.spills {
        let in_loops = spills.iter().filter(|spill| spill.loop_depth.is_some_and(|depth| depth > 0)).count();
        if in_loops > 0 {
            text.push_str(&format!(
                "; {} of its {} are inside loops",
                thousands(in_loops as u64),
                count(spills.len() as u64, "spill instruction")
            ));
        } else if spills.iter().all(|spill| spill.loop_depth.is_some()) {
            text.push_str(", all of it outside loops");
        }
    }
    text.push('.');
    let aims = kernel.launch.threads().is_some() && kernel.launch.minnctapersm.is_none();
    if let Some(cap) = kernel.register_cap.as_ref().filter(|_| aims && kernel.launch.maxnreg.is_none())
        && kernel.resources.registers.is_some_and(|used| used + 8 <= cap.registers)
    {
        text.push_str(&format!(
            " ptxas aimed for fewer registers than the {} it may use; .minnctapersm 1 in the PTX lets it use them all.",
            cap.registers
        ));
    }
    Some(text)
}

/// Bytes of a thread's stack that are no spills; none where there are none, or where that cannot be told.
pub(super) fn unspilt_stack(kernel: &Kernel) -> Option<u64> {
    let stack = kernel.resources.stack_bytes.filter(|bytes| *bytes > 0)?;
    let spills = kernel.spills.as_ref()?;
    let mut slots: Vec<(i64, u32)> =
        spills.iter().map(|spill| Some((spill.slot?, spill.bytes?))).collect::<Option<_>>()?;
    slots.sort_unstable();
    let mut end = i64::MIN;
    let mut spilt = 0;
    for (slot, bytes) in slots {
        let after = slot.saturating_add(i64::from(bytes));
        spilt += after.saturating_sub(slot.max(end)).max(0) as u64;
        end = end.max(after);
    }
    // Slots have gaps between them, and a frame is rounded up.
    let least = if spills.is_empty() { 1 } else { 16 };
    let may = spills.is_empty() || !kernel.local_variables.is_empty();
    stack.checked_sub(spilt).filter(|bytes| may && *bytes >= least)
}

/// `It keeps 64 B of arrays a thread in local memory, declared at line 12: they are no spills.`
fn local_arrays(kernel: &Kernel) -> Option<String> {
    let kept = bytes(unspilt_stack(kernel)?);
    let lines: Vec<String> = kernel.local_variables.iter().map(|found| found.ptx_line.to_string()).collect();
    let what = match lines.as_slice() {
        // A frame for the functions that it calls, or registers that one of them has to find as they were.
        [] => return Some(format!("It has a stack of {kept} a thread in local memory, which holds no spills.")),
        [line] => format!("line {line}"),
        [first, .., last] => format!("lines {first} to {last}"),
    };
    Some(format!("It keeps {kept} of arrays a thread in local memory, declared at {what}: they are no spills."))
}

/// That a launch brings less dynamic shared memory than the kernel touches.
fn too_little(kernel: &Kernel) -> Option<String> {
    let told = kernel.occupancy.as_ref()?.smem_dynamic_bytes?;
    let shared = kernel.memory.as_ref()?.shared.as_ref()?;
    let least = shared.dynamic_least_bytes.filter(|least| *least > told)?;
    let line = shared.dynamic_least_ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let (told, least) = (thousands(told), thousands(least));
    Some(format!("{told} B of dynamic shared memory is too little: the kernel touches at least {least} B{line}."))
}

/// How many blocks an SM holds, or what decides it.
fn occupancy(kernel: &Kernel) -> Option<String> {
    let occupancy = kernel.occupancy.as_ref()?;
    let blocks = |blocks: u32| count(u64::from(blocks), "block");
    let Some(threads) = occupancy.threads else {
        if occupancy.cannot_launch() {
            let asked = occupancy.smem_dynamic_bytes.or(occupancy.smem_dynamic_least_bytes).unwrap_or(0);
            let asked = thousands(asked);
            return Some(format!(
                "It cannot be launched: with {asked} B of dynamic shared memory a block has more than an SM can give it."
            ));
        }
        return Some(format!("How many blocks an SM holds depends on {}.", launch_decides(&occupancy.missing)));
    };
    let least = occupancy.smem_dynamic_least_bytes;
    if occupancy.cannot_launch() {
        let touched = least.map(|least| format!(", and it touches {} B of dynamic shared memory", thousands(least)));
        let touched = touched.unwrap_or_default();
        let by_shared = occupancy.limiters.iter().any(|limiter| limiter == "shared memory");
        let asked = occupancy.smem_dynamic_bytes.filter(|asked| by_shared && *asked > 0);
        let asked =
            asked.map(|asked| format!(" with {} B of dynamic shared memory", thousands(asked))).unwrap_or_default();
        return Some(format!("It cannot be launched: no block of {threads} threads{asked} fits on an SM{touched}."));
    }
    let limits_tensor = occupancy.limiters.iter().any(|limiter| limiter == "tensor memory");
    let tensor = occupancy.tmem_columns.filter(|_| limits_tensor);
    let why = tensor.map(|columns| format!(" (a block allocates {columns} of 512 columns)")).unwrap_or_default();
    let (most, warps) = (occupancy.most_blocks_per_sm()?, occupancy.most_warps_per_sm()?);
    let held = format!("{} of {threads} threads ({warps} of its {} warps)", blocks(most), occupancy.max_warps_per_sm);
    let limiters = match occupancy.limiters.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => occupancy.limiters.concat(),
    };
    let (true, []) = (!limiters.is_empty(), occupancy.missing.as_slice()) else {
        return Some(match occupancy.blocks_per_sm {
            Some(_) => {
                let by = if limiters.is_empty() { String::new() } else { format!(", limited by {limiters}{why}") };
                let by_shared = occupancy.limiters.iter().any(|limiter| limiter == "shared memory");
                match least.filter(|_| by_shared) {
                    Some(least) => {
                        let least = thousands(least);
                        format!("An SM holds {held}{by}: it touches at least {least} B of dynamic shared memory.")
                    }
                    None => format!("An SM holds {held}{by}, whatever dynamic shared memory the launch asks for."),
                }
            }
            None => {
                let decides = launch_decides(&occupancy.missing);
                let touched = least.map(|least| format!(" It touches at least {} B of that memory.", thousands(least)));
                format!("An SM holds at most {held}; how many depends on {decides}.{}", touched.unwrap_or_default())
            }
        });
    };
    let tried = tried(kernel, occupancy).map(|tried| format!(" {tried}.")).unwrap_or_default();
    Some(format!("An SM holds {held}, limited by {limiters}{why}.{tried}"))
}

/// What ptxas makes of the kernel at the registers with which more blocks fit, where it was asked and answered.
pub(super) fn tried(kernel: &Kernel, occupancy: &Occupancy) -> Option<String> {
    let (step, tried) = (occupancy.next_step?, occupancy.next_step_tried.as_ref()?);
    let blocks = count(u64::from(tried.blocks_per_sm.unwrap_or(step.blocks_per_sm)), "block");
    let spilt = |stores: Option<u64>, loads: Option<u64>| match (stores?, loads?) {
        (0, 0) => Some("nothing".to_owned()),
        (stores, loads) => Some(format!("{} stored, {} read back", bytes(stores), bytes(loads))),
    };
    Some(if tried.compiles? {
        let now = spilt(kernel.resources.spill_store_bytes, kernel.resources.spill_load_bytes);
        let then = spilt(tried.spill_store_bytes, tried.spill_load_bytes);
        let spills = match (then, now) {
            (Some(then), Some(now)) if then == now => format!(" and spills {then}, as now"),
            (Some(then), Some(now)) => format!(" and then spills {then}; now it spills {now}"),
            (Some(then), None) => format!(" and then spills {then}"),
            (None, _) => String::new(),
        };
        let used = tried.registers.unwrap_or(step.registers);
        let but = tried.message.as_ref().map(|message| format!(", but {}", terminal(message))).unwrap_or_default();
        let held = format!("Held to {} registers a thread, {blocks} would fit", step.registers);
        format!("{held}: ptxas compiles it with {used}{spills}{but}")
    } else {
        let code = tried.message.as_ref().and_then(|said| said.split_once(": ")).map(|(code, _)| code);
        let code =
            code.filter(|code| code.starts_with('C') && code.len() < 8).map(|code| format!(" ({})", terminal(code)));
        format!(
            "ptxas cannot compile it with the {} registers a thread that {blocks} would need{}",
            step.registers,
            code.unwrap_or_default()
        )
    })
}

/// `the dynamic shared memory, which the launch sets: give --smem-dynamic`
pub(in crate::emit) fn launch_decides(missing: &[LaunchFact]) -> String {
    let words: Vec<&str> = missing.iter().map(|fact| fact.words()).collect();
    let flags: Vec<&str> = missing.iter().map(|fact| fact.flag()).collect();
    format!("{}, which the launch sets: give {}", words.join(" and "), flags.join(" and "))
}
