//! What was asked for and did nothing, in a line each: what nobody says looks as if it had been done.

use super::args::ReportArgs;
use crate::engine::compile::OVERRIDE;
use crate::report::{Kernel, KernelKind, Unit, abridge};

/// What was asked for and does nothing: flags that only compiling obeys, of a cubin; a size of blocks that a kernel cannot have.
pub fn in_vain(unit: &Unit, args: &ReportArgs) -> Vec<String> {
    let mut remarks = Vec::new();
    if let (Some(arch), true, false) = (&unit.arch, unit.ptxas.is_none(), unit.kernels.is_empty()) {
        let asked = &args.compile.arch;
        if !asked.is_empty()
            && !asked.iter().any(|asked| asked.trim_start_matches("sm_") == arch.trim_start_matches("sm_"))
        {
            remarks.push(format!(
                "{}: it is a cubin for {arch}, which --arch {} does not change: give the PTX to compile it anew",
                unit.input,
                asked.join(",")
            ));
        }
        if let Some(ptxas) = &args.compile.ptxas {
            remarks.push(format!(
                "{}: it is a cubin, which --ptxas {ptxas} does not change: give the PTX to compile it anew",
                unit.input
            ));
        }
        if !args.compile.flags.is_empty() {
            remarks.push(format!(
                "{}: it is a cubin, which the flags after -- ({}) do not change: give the PTX to compile it anew",
                unit.input,
                args.compile.flags.join(" ")
            ));
        }
    }
    remarks.extend(no_bound(unit, &args.compile.flags));
    remarks.extend(no_step(unit, args));
    remarks.extend(no_role(unit, args));
    let Some(asked) = args.threads else { return remarks };
    for kernel in &unit.kernels {
        let launch = &kernel.launch;
        let (Some(threads), directive) =
            (launch.threads(), if launch.reqntid.is_some() { ".reqntid" } else { ".maxntid" })
        else {
            continue;
        };
        if threads < asked.count() || launch.reqntid.is_some() && threads != asked.count() {
            let name = abridge(kernel.demangled.as_deref().unwrap_or(&kernel.name), 60);
            let allows = if launch.reqntid.is_some() { "asks for" } else { "allows at most" };
            remarks.push(format!(
                "{name}: --threads {} does nothing: its {directive} {allows} {threads} threads a block",
                asked.count()
            ));
        }
    }
    remarks
}

/// Kernels whose own bounds rule, so that ptxas passes over --maxrregcount.
pub fn no_bound(unit: &Unit, flags: &[String]) -> Option<String> {
    let given = |name: &str| flags.iter().any(|flag| flag.trim_start_matches('-').starts_with(name));
    if unit.ptxas.is_none() || !given("maxrregcount") || given(OVERRIDE.trim_start_matches('-')) {
        return None;
    }
    let has_own = |kernel: &&Kernel| kernel.launch.threads().is_some() || kernel.launch.maxnreg.is_some();
    let ruled: Vec<&Kernel> =
        unit.kernels.iter().filter(|kernel| kernel.kind == KernelKind::Entry).filter(has_own).collect();
    (!ruled.is_empty()).then(|| {
        format!(
            "--maxrregcount does nothing to {}: ptxas obeys .maxntid, .reqntid and .maxnreg instead; add {OVERRIDE} behind it",
            named(&ruled)
        )
    })
}

/// Why --try-step had nothing to try: kernels with the same reason in one line.
fn no_step(unit: &Unit, args: &ReportArgs) -> Vec<String> {
    let kernels = unit.kernels.iter().filter(|kernel| args.try_step && kernel.kind == KernelKind::Entry);
    let mut reasons: Vec<(String, Vec<&Kernel>)> = Vec::new();
    for kernel in kernels {
        let Some(reason) = without_step(unit, kernel) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, kernels)) => kernels.push(kernel),
            None => reasons.push((reason, vec![kernel])),
        }
    }
    reasons
        .into_iter()
        .map(|(reason, kernels)| format!("--try-step tried nothing of {}: {reason}", named(&kernels)))
        .collect()
}

fn without_step(unit: &Unit, kernel: &Kernel) -> Option<String> {
    let Some(found) = &kernel.occupancy else { return Some("how many blocks an SM holds is not known".to_owned()) };
    if found.next_step_tried.is_some() {
        return None;
    }
    if found.next_step.is_some() {
        let why = "nothing can be compiled of a cubin; give the PTX that it was made from";
        return unit.ptxas.is_none().then(|| why.to_owned());
    }
    if found.blocks_per_sm.is_none() && !found.missing.is_empty() {
        let flags: Vec<&str> = found.missing.iter().map(|fact| fact.flag()).collect();
        return Some(format!("how many blocks an SM holds depends on the launch; give {}", flags.join(" and ")));
    }
    if found.cannot_launch() {
        return Some("it cannot be launched as it is".to_owned());
    }
    let others: Vec<&str> =
        found.limiters.iter().map(String::as_str).filter(|limiter| *limiter != "registers").collect();
    Some(match others.as_slice() {
        [] => "no number of registers lets one block more fit".to_owned(),
        others => format!("fewer registers let no block more fit, because of {}", others.join(" and ")),
    })
}

/// Roles that were given warps and that no kernel has.
fn no_role(unit: &Unit, args: &ReportArgs) -> Vec<String> {
    let roles: Vec<&str> =
        unit.kernels.iter().flat_map(|kernel| kernel.roles.iter().flatten()).map(|role| &*role.name).collect();
    let absent: Vec<&str> =
        args.roles.iter().map(|hint| hint.name.as_str()).filter(|name| !roles.contains(name)).collect();
    if absent.is_empty() || unit.error.is_some() {
        return Vec::new();
    }
    let mut known = roles.clone();
    known.sort_unstable();
    known.dedup();
    let has = match (known.as_slice(), unit.ptx.line_count()) {
        ([], 0) => "there is no PTX, which alone tells roles".to_owned(),
        ([], _) => "its warps have no roles of their own".to_owned(),
        (known, _) => format!("its roles are {}", known.join(", ")),
    };
    vec![format!("{}: --roles {} does nothing: {has}", unit.input, absent.join(","))]
}

/// The first kernels by their names, and how many more there are.
fn named(kernels: &[&Kernel]) -> String {
    const SHOWN: usize = 3;
    let name = |kernel: &&Kernel| abridge(kernel.demangled.as_deref().unwrap_or(&kernel.name), 60).into_owned();
    let first: Vec<String> = kernels.iter().take(SHOWN).map(name).collect();
    match kernels.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
