use super::*;
use crate::ptx::parse;

fn resources(registers: u32, smem: u64) -> Resources {
    Resources { registers: Some(registers), smem_bytes: Some(smem), barriers: Some(1), ..Resources::default() }
}

fn found(launch: &Launch, hints: LaunchHints, takes_dynamic_smem: bool) -> Occupancy {
    let launched = Launched { launch, hints, takes_dynamic_smem, smem_dynamic_least: None, tmem_columns: None };
    occupancy_of("sm_90a".parse().unwrap(), &resources(168, 0), &launched).unwrap()
}

#[test]
fn what_dynamic_shared_memory_could_overturn_is_not_said() {
    let launch = Launch { reqntid: Some([128, 1, 1]), ..Launch::default() };
    let unknown = found(&launch, LaunchHints::default(), true);
    assert_eq!(unknown.missing, [LaunchFact::SmemDynamic]);
    assert_eq!((unknown.blocks_per_sm, unknown.warps_per_sm, &unknown.limiter), (None, None, &None));
    assert_eq!((unknown.next_step, unknown.cliff), (None, None));
    let most: Vec<u32> = unknown.by_smem_dynamic.iter().map(|range| range.blocks_per_sm).collect();
    assert_eq!(most, [3, 2, 1]);

    // Each size says of itself what the table says of it.
    for range in &unknown.by_smem_dynamic {
        for (bytes, more) in [(range.smem_dynamic_bytes, 0), (range.smem_dynamic_bytes + 1, 1)] {
            let hints = LaunchHints { threads: None, smem_dynamic_bytes: Some(bytes), ..LaunchHints::default() };
            assert_eq!(found(&launch, hints, true).blocks_per_sm, Some(range.blocks_per_sm - more), "{bytes}");
        }
    }
    let asked = LaunchHints { threads: None, smem_dynamic_bytes: Some(163_840), ..LaunchHints::default() };
    let known = found(&launch, asked, true);
    assert_eq!((known.blocks_per_sm, known.limiter.as_deref()), (Some(1), Some("shared memory")));
    assert_eq!(known.next_step, None);
    assert_eq!(found(&launch, LaunchHints::default(), false).blocks_per_sm, Some(3));
}

#[test]
fn one_block_is_one_block_whatever_shared_memory_it_takes() {
    let launch = Launch { reqntid: Some([384, 1, 1]), ..Launch::default() };
    let occupancy = found(&launch, LaunchHints::default(), true);
    assert_eq!((occupancy.blocks_per_sm, occupancy.warps_per_sm), (Some(1), Some(12)));
    assert_eq!((occupancy.limiter.as_deref(), occupancy.next_step), (Some("registers"), None));
}

#[test]
fn a_block_of_unknown_size_leaves_only_what_the_hardware_has() {
    let occupancy = found(&Launch::default(), LaunchHints::default(), true);
    assert_eq!(occupancy.missing, [LaunchFact::Threads, LaunchFact::SmemDynamic]);
    assert_eq!((occupancy.threads, occupancy.blocks_per_sm, occupancy.max_warps_per_sm), (None, None, 64));
    assert!(occupancy.by_smem_dynamic.is_empty());
    let hints = LaunchHints { threads: Some(128.into()), smem_dynamic_bytes: Some(0), ..LaunchHints::default() };
    assert_eq!(found(&Launch::default(), hints, true).blocks_per_sm, Some(3));
}

/// Whether the kernel `k` of a module takes dynamic shared memory.
fn takes(module: &str) -> bool {
    let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{module}");
    let module = parse(&text);
    ptx_takes_dynamic_smem(&module.function("k").unwrap())
}

#[test]
fn a_kernel_takes_dynamic_shared_memory_where_it_or_what_it_calls_names_it() {
    let open = ".extern .shared .align 16 .b8 smem[];\n";
    assert!(takes(&format!("{open}.entry k() {{ .reg .b32 %r; ld.shared.u32 %r, [smem+4]; ret; }}")));
    assert!(!takes(&format!("{open}.entry k() {{ .reg .b32 %r; ld.shared.u32 %r, [smem_other+4]; ret; }}")));
    assert!(!takes(&format!("{open}.entry k() {{ ret; }}\n.func f() {{ .reg .b32 %r; mov.u32 %r, smem; ret; }}")));
    assert!(takes(&format!(
        "{open}.func f() {{ .reg .b32 %r; mov.u32 %r, smem; ret; }}\n.entry k() {{ call f; ret; }}"
    )));
    // What another kernel of the module names is no concern of this one, nor is a function that it cannot come to.
    let other = ".entry other() { .reg .b32 %r; mov.u32 %r, smem; ret; }\n";
    let names = ".func f() { .reg .b32 %r; mov.u32 %r, smem; ret; }\n";
    assert!(!takes(&format!("{open}{other}{names}.func g() {{ ret; }}\n.entry k() {{ call g; ret; }}")));
    assert!(takes(&format!("{open}{names}.func g() {{ call.uni f; ret; }}\n.entry k() {{ call.uni g; ret; }}")));
    let through = ".entry k() { .reg .b64 %d; call (), %d, (), proto; ret; }";
    assert!(takes(&format!("{open}{names}{through}")) && !takes(&format!("{open}{other}{through}")));
    assert!(takes(".entry k() { .reg .b32 %r; mov.u32 %r, %dynamic_smem_size; ret; }"));
    assert!(!takes(".shared .b8 smem[64];\n.entry k() { .reg .b32 %r; ld.shared.u32 %r, [smem]; ret; }"));
    assert!(!takes(".extern .shared .b8 smem[64];\n.entry k() { .reg .b32 %r; ld.shared.u32 %r, [smem]; ret; }"));
}

#[test]
fn dynamic_shared_memory_that_is_touched_bounds_the_blocks() {
    let launch = Launch { reqntid: Some([128, 1, 1]), ..Launch::default() };
    let with = |least, tmem_columns| {
        let hints = LaunchHints::default();
        let launched =
            Launched { launch: &launch, hints, takes_dynamic_smem: true, smem_dynamic_least: least, tmem_columns };
        occupancy_of("sm_100a".parse().unwrap(), &resources(64, 0), &launched).unwrap()
    };
    let (unknown, half, most) = (with(None, None), with(Some(100_000), None), with(Some(131_072), None));
    assert_eq!(unknown.most_blocks_per_sm(), Some(8));
    assert_eq!(
        (half.most_blocks_per_sm(), half.blocks_per_sm, half.smem_dynamic_least_bytes),
        (Some(2), None, Some(100_000))
    );
    assert_eq!((most.blocks_per_sm, most.limiter.as_deref()), (Some(1), Some("shared memory")));
    let tensor = with(Some(1024), Some(512));
    assert_eq!((tensor.blocks_per_sm, tensor.limiter.as_deref()), (Some(1), Some("tensor memory")));
}
