//! The answer for people: sentences as wide as the terminal, tables at most 80 columns wide.

use std::io::{self, Write};

use super::Answer;
use crate::base::hardware::{
    MAX_NAMED_REGISTERS, PORTABLE_CLUSTER_BLOCKS, PORTABLE_SMEM_PER_BLOCK_BYTES, REGISTERS_PER_SM, SmLimits, WARP_SIZE,
};
use crate::registers::occupancy::{Launch, Limiter, Obstacle, Occupancy, RegisterRange, SmemMode};

/// Blocks per SM that `cuOccupancyMaxActiveClusters` was never seen to exceed (docs/sources.md); `cuda_occupancy.h` says
/// nothing of it, so it is a note and no limit.
const CLUSTERED_BLOCKS_SEEN: u32 = 8;

/// What stands behind fewer registers: nobody has compiled the kernel with them.
const ARITHMETIC: &str = "; this is arithmetic: `ptxinspect KERNEL.ptx --try-step` asks ptxas";

/// Columns of the table of blocks by register count and architecture that fit beside its first one.
const ARCHITECTURES_ABREAST: usize = 7;

/// Writes one architecture in full, or several side by side.
pub fn write(launch: &Launch, answers: &[Answer], width: usize, out: &mut dyn Write) -> io::Result<()> {
    match answers {
        [answer] => one(out, launch, answer, width),
        _ => several(out, launch, answers, width),
    }
}

fn one(out: &mut dyn Write, launch: &Launch, answer: &Answer, width: usize) -> io::Result<()> {
    let occupancy = &answer.occupancy;
    wrapped(out, width, "", &format!("{}: {}", answer.arch, describe(launch)))?;
    wrapped(out, width, "", &verdict(occupancy))?;
    writeln!(out)?;
    for obstacle in &occupancy.obstacles {
        wrapped(out, width, "  because       ", &obstacle.to_string())?;
    }
    wrapped(out, width, "  more blocks   ", &more_blocks(launch, occupancy))?;
    if occupancy.blocks_per_sm > 0 {
        wrapped(out, width, "  fewer blocks  ", &fewer_by_registers(launch, occupancy))?;
        if let Some(text) = fewer_by_smem(launch, occupancy) {
            wrapped(out, width, "                ", &text)?;
        }
    }
    for note in notes(launch, answer) {
        wrapped(out, width, "  note          ", &note)?;
    }
    writeln!(out)?;
    if let Some(sm) = SmLimits::of(answer.arch) {
        resources(out, launch, occupancy, sm, width)?;
    }
    writeln!(out, "\n    registers  blocks  warps  occupancy  limited by")?;
    for range in &answer.table {
        let here = if (range.from..=range.to).contains(&launch.registers) { '>' } else { ' ' };
        let RegisterRange { from, to, blocks_per_sm, warps_per_sm, limiter, .. } = range;
        let percent = percent(range.occupancy);
        writeln!(out, "  {here} {from:>3} - {to:>3}  {blocks_per_sm:>6}  {warps_per_sm:>5}  {percent:>9}  {limiter}")?;
    }
    Ok(())
}

fn several(out: &mut dyn Write, launch: &Launch, answers: &[Answer], width: usize) -> io::Result<()> {
    wrapped(out, width, "", &describe(launch))?;
    writeln!(out, "\n  arch    blocks  warps   occup.  limited by       more blocks at  fewer at")?;
    for Answer { arch, occupancy, .. } in answers {
        let line = format!(
            "  {:<7} {:>6}  {:>2}/{:>2}  {:>7}  {:<15}  {:<14}  {}",
            arch.to_string(),
            occupancy.blocks_per_sm,
            occupancy.warps_per_sm,
            occupancy.max_warps_per_sm,
            percent(occupancy.occupancy),
            short_limiters(occupancy),
            short_step(occupancy),
            short_cliff(occupancy)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    for Answer { arch, occupancy, .. } in answers {
        for obstacle in &occupancy.obstacles {
            wrapped(out, width, &format!("  {:<8} ", arch.to_string()), &obstacle.to_string())?;
        }
    }
    for some in answers.chunks(ARCHITECTURES_ABREAST) {
        side_by_side(out, launch, some)?;
    }
    Ok(())
}

/// `regs+smem`
fn short_limiters(occupancy: &Occupancy) -> String {
    let name = |limiter: &Limiter| match limiter {
        Limiter::Registers => "regs",
        Limiter::SharedMemory => "smem",
        Limiter::TensorMemory => "tmem",
        Limiter::Threads => "warps",
        Limiter::Blocks => "blocks",
        Limiter::Barriers => "bars",
    };
    let names: Vec<&str> = occupancy.limiters.iter().map(name).collect();
    match &names[..] {
        [first, second, rest @ ..] if !rest.is_empty() => format!("{first}+{second}+{}", rest.len()),
        few => few.join("+"),
    }
}

/// `80 regs (3)`, or `regs+smem (3)` where more than one thing has to shrink.
fn short_step(occupancy: &Occupancy) -> String {
    match (occupancy.next_step, occupancy.next_step_smem, occupancy.next_step_together) {
        (Some(step), _, _) => format!("{} regs ({})", step.registers, step.blocks_per_sm),
        (None, Some(step), _) => format!("{} B ({})", grouped(step.smem), step.blocks_per_sm),
        (None, None, Some(step)) => {
            let names = [
                step.registers.map(|_| "regs"),
                step.smem.map(|_| "smem"),
                step.tmem_columns.map(|_| "tmem"),
                step.barriers.map(|_| "bars"),
            ];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            let names = if names.len() > 2 { "all".to_owned() } else { names.join("+") };
            format!("{names} ({})", step.blocks_per_sm)
        }
        (None, None, None) => "-".to_owned(),
    }
}

fn short_cliff(occupancy: &Occupancy) -> String {
    match occupancy.cliff {
        Some(step) if occupancy.blocks_per_sm > 0 => format!("{} regs ({})", step.registers, step.blocks_per_sm),
        _ => "-".to_owned(),
    }
}

/// Blocks per SM for each register count, an architecture a column.
fn side_by_side(out: &mut dyn Write, launch: &Launch, answers: &[Answer]) -> io::Result<()> {
    write!(out, "\n  blocks by registers")?;
    for answer in answers {
        write!(out, " {:>7}", answer.arch.to_string())?;
    }
    writeln!(out)?;
    let mut ends: Vec<u32> = answers.iter().flat_map(|answer| answer.table.iter().map(|range| range.to)).collect();
    ends.sort_unstable();
    ends.dedup();
    let blocks_at = |answer: &Answer, registers: u32| {
        let range = answer.table.iter().find(|range| range.to >= registers);
        range.map_or(0, |range| range.blocks_per_sm)
    };
    let mut from = 1;
    for to in ends {
        let here = if (from..=to).contains(&launch.registers) { '>' } else { ' ' };
        write!(out, "  {here}        {from:>3} - {to:>3}")?;
        for answer in answers {
            write!(out, " {:>7}", blocks_at(answer, to))?;
        }
        writeln!(out)?;
        from = to + 1;
    }
    Ok(())
}

fn describe(launch: &Launch) -> String {
    let registers = format!("{} a thread", count(launch.registers, "register"));
    let mut parts = vec![registers, format!("{} a block", count(launch.threads, "thread"))];
    match (launch.smem_static, launch.smem_dynamic) {
        (0, 0) => parts.push("no shared memory".to_owned()),
        (fixed, 0) => parts.push(format!("{} of shared memory a block", bytes(fixed))),
        (fixed, dynamic) => {
            let sizes = format!("{} static + {} dynamic bytes", grouped(fixed), grouped(dynamic));
            parts.push(format!("{sizes} of shared memory a block"));
        }
    }
    if launch.tmem_columns > 0 {
        parts.push(format!("{} of tensor memory", count(launch.tmem_columns, "column")));
    }
    if launch.barriers > 0 {
        parts.push(count(launch.barriers, "barrier"));
    }
    if launch.cluster > 1 {
        parts.push(format!("clusters of {} blocks", launch.cluster));
    }
    parts.join(", ")
}

fn verdict(occupancy: &Occupancy) -> String {
    if occupancy.blocks_per_sm == 0 {
        return "An SM holds no block of it: the launch fails".to_owned();
    }
    let limiters: Vec<String> = occupancy.limiters.iter().map(Limiter::to_string).collect();
    format!(
        "An SM holds {}: {} of its {} warps ({} occupancy), limited by {}",
        count(occupancy.blocks_per_sm, "block"),
        occupancy.warps_per_sm,
        occupancy.max_warps_per_sm,
        percent(occupancy.occupancy),
        limiters.join(" and ")
    )
}

fn more_blocks(launch: &Launch, occupancy: &Occupancy) -> String {
    let now = occupancy.blocks_per_sm;
    let registers =
        |to: u32| format!("at most {} a thread ({} fewer)", count(to, "register"), launch.registers.saturating_sub(to));
    let smem = |to: u64| {
        let fewer = grouped(launch.smem().saturating_sub(to));
        format!("at most {} of shared memory a block ({fewer} fewer)", bytes(to))
    };
    if let Some(step) = occupancy.next_step {
        return format!("{} with {}{ARITHMETIC}", fit(step.blocks_per_sm), registers(step.registers));
    }
    if let Some(step) = occupancy.next_step_smem {
        return format!("{} with {}", fit(step.blocks_per_sm), smem(step.smem));
    }
    if let Some(step) = occupancy.next_step_together {
        let barriers =
            |to: u32| format!("at most {} ({} fewer)", count(to, "barrier"), launch.barriers.saturating_sub(to));
        let columns = |to: u32| {
            let fewer = launch.tmem_columns.saturating_sub(to);
            format!("at most {} of tensor memory a block ({fewer} fewer)", count(to, "column"))
        };
        let cuts = [
            step.registers.map(registers),
            step.smem.map(smem),
            step.tmem_columns.map(columns),
            step.barriers.map(barriers),
        ];
        let cuts: Vec<String> = cuts.into_iter().flatten().collect();
        let arithmetic = if step.registers.is_some() { ARITHMETIC } else { "" };
        return format!("{} with {}{arithmetic}", fit(step.blocks_per_sm), cuts.join(" and "));
    }
    if occupancy.warps_per_sm == occupancy.max_warps_per_sm {
        return "none: every warp slot of the SM is taken".to_owned();
    }
    if occupancy.limits.blocks == now {
        return "none: every block slot of the SM is taken; larger blocks would fill it".to_owned();
    }
    let warps = count(launch.warps(), "warp");
    match occupancy.limits.threads {
        0 => format!("none: no SM holds a block of {warps}"),
        threads if threads == now => {
            format!("none: one more block of {warps} does not fit into an SM's {} warps", occupancy.max_warps_per_sm)
        }
        _ => "none: fewer registers, shared memory, tensor memory or barriers do not help".to_owned(),
    }
}

fn fewer_by_registers(launch: &Launch, occupancy: &Occupancy) -> String {
    match occupancy.cliff {
        None => "none are lost to registers: 255 a thread leave as many".to_owned(),
        Some(step) => {
            let more = step.registers.saturating_sub(launch.registers);
            format!("{} with {} a thread ({more} more)", fit(step.blocks_per_sm), count(step.registers, "register"))
        }
    }
}

fn fewer_by_smem(launch: &Launch, occupancy: &Occupancy) -> Option<String> {
    let step = occupancy.cliff_smem?;
    let more = grouped(step.smem.saturating_sub(launch.smem()));
    Some(format!("{} with {} of shared memory a block ({more} more)", fit(step.blocks_per_sm), bytes(step.smem)))
}

/// `2 fit`
fn fit(blocks: u32) -> String {
    match blocks {
        0 => "none fits".to_owned(),
        1 => "1 fits".to_owned(),
        blocks => format!("{} fit", grouped(blocks)),
    }
}

/// What is true of the launch beside the numbers.
fn notes(launch: &Launch, answer: &Answer) -> Vec<String> {
    let blocks = answer.occupancy.blocks_per_sm;
    let mut notes = Vec::new();
    if launch.registers == MAX_NAMED_REGISTERS + 1 {
        // The hardware's allocation would take it, and so does NVIDIA's calculator.
        notes.push(format!(
            "a kernel has at most {MAX_NAMED_REGISTERS} registers a thread: an instruction names no more"
        ));
    }
    if launch.smem() > PORTABLE_SMEM_PER_BLOCK_BYTES && launch.smem_mode == SmemMode::NonPortable && blocks > 0 {
        notes.push("more than 48 KB of shared memory has to be dynamic, and opted in to".to_owned());
    }
    let too_much = answer.occupancy.obstacles.iter().find_map(|obstacle| match obstacle {
        Obstacle::SmemPerBlock { found, .. } => Some(*found),
        _ => None,
    });
    if let (Some(found), Some(sm)) = (too_much, SmLimits::of(answer.arch)) {
        let optional = [
            (SmemMode::NonPortable, Some(sm.smem_bytes), "non-portable"),
            (SmemMode::Oversized, sm.smem_oversized_bytes, "oversized"),
        ];
        let fits = optional.into_iter().find(|(mode, size, _)| {
            *mode != launch.smem_mode && size.is_some_and(|size| found <= size - sm.smem_reserved_bytes)
        });
        if let Some((_, _, name)) = fits {
            notes.push(format!("the shared memory fits where the kernel opts in to it: --smem-mode {name}"));
        }
    }
    if answer.occupancy.limiters.contains(&Limiter::TensorMemory) && blocks > 0 {
        notes.push(
            "a block that finds too few columns free waits in tcgen05.alloc; the driver does not count them".to_owned(),
        );
    }
    if let (2.., Some(sms)) = (launch.cluster, answer.occupancy.min_sms_per_cluster) {
        notes.push(format!(
            "a cluster of {} runs at once in one GPC, on at least {}",
            launch.cluster,
            count(sms, "SM")
        ));
        if blocks > CLUSTERED_BLOCKS_SEEN {
            notes.push(format!(
                "in clusters, the driver of an H200 counts no more than {CLUSTERED_BLOCKS_SEEN} blocks per SM"
            ));
        }
        if launch.cluster > PORTABLE_CLUSTER_BLOCKS {
            notes.push(format!(
                "clusters above {PORTABLE_CLUSTER_BLOCKS} blocks have to be opted in to, and not every GPU has them"
            ));
        }
    }
    notes
}

/// Columns of a row of [`resources`] with its mark.
const RESOURCES_WIDTH: usize = 66;

/// What a block takes of what there is, and how many blocks that makes.
fn resources(
    out: &mut dyn Write,
    launch: &Launch,
    occupancy: &Occupancy,
    sm: &SmLimits,
    width: usize,
) -> io::Result<()> {
    // The verdict above has the word; a narrow terminal has the arrow alone.
    let limit = if width < RESOURCES_WIDTH { "  <-" } else { "  <- limit" };
    let limits = &occupancy.limits;
    let smem = match launch.smem_mode {
        SmemMode::Oversized => sm.smem_oversized_bytes.unwrap_or(sm.smem_bytes),
        SmemMode::Portable | SmemMode::NonPortable => sm.smem_bytes,
    };
    let mut rows = vec![
        (Limiter::Registers, "registers", occupancy.allocated_registers, u64::from(REGISTERS_PER_SM), limits.registers),
        (Limiter::SharedMemory, "shared memory bytes", occupancy.allocated_smem, smem, limits.shared_memory),
        (Limiter::Threads, "warps", launch.threads.div_ceil(WARP_SIZE).into(), sm.warps.into(), Some(limits.threads)),
        (Limiter::Blocks, "blocks", 1, sm.blocks.into(), Some(limits.blocks)),
    ];
    if let (Some(columns), 1..) = (sm.tensor_columns, launch.tmem_columns) {
        let row = (Limiter::TensorMemory, "tensor mem. columns", launch.tmem_columns.into(), columns.into());
        rows.push((row.0, row.1, row.2, row.3, limits.tensor_memory));
    }
    if let (Some(barriers), 1..) = (sm.barriers, launch.barriers) {
        rows.push((Limiter::Barriers, "barriers", launch.barriers.into(), barriers.into(), limits.barriers));
    }
    writeln!(out, "                       a block takes   an SM has  blocks")?;
    let reserved = sm.smem_reserved_bytes;
    for (limiter, name, takes, has, blocks) in rows {
        let mark = if occupancy.limiters.contains(&limiter) { limit } else { "" };
        let blocks = blocks.map_or("any".to_owned(), |blocks| blocks.to_string());
        writeln!(out, "    {name:<19}{:>13}{:>12}{blocks:>8}{mark}", grouped(takes), grouped(has))?;
    }
    if reserved > 0 {
        let text = format!("{} bytes of a block's shared memory are the system's own", grouped(reserved));
        wrapped(out, width, "    ", &text)?;
    }
    Ok(())
}

/// Writes words after a heading, and indents what does not fit on its line.
fn wrapped(out: &mut dyn Write, width: usize, heading: &str, words: &str) -> io::Result<()> {
    let indent = heading.len().max(2);
    let mut line = heading.to_owned();
    let mut empty = true;
    for word in words.split(' ') {
        if !empty && line.len() + 1 + word.len() > width {
            writeln!(out, "{line}")?;
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

fn plural(number: impl Into<u64>) -> &'static str {
    if number.into() == 1 { "" } else { "s" }
}

fn count(number: u32, what: &str) -> String {
    format!("{} {what}{}", grouped(number), plural(number))
}

fn bytes(number: u64) -> String {
    format!("{} byte{}", grouped(number), plural(number))
}

/// 65,536.
fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
