use proptest::prelude::*;

use super::*;
use crate::base::hardware::MAX_NAMED_REGISTERS;

fn arch(name: &str) -> Arch {
    name.parse().unwrap()
}

fn launch(registers: u32, threads: u32, smem: u64) -> Launch {
    Launch { registers, threads, smem_static: smem, ..Launch::default() }
}

fn blocks(arch: Arch, launch: &Launch) -> u32 {
    occupancy(arch, launch).unwrap().blocks_per_sm
}

#[test]
fn hopper_warp_specialised() {
    let found = occupancy(arch("sm_90a"), &launch(168, 384, 16384)).unwrap();
    assert_eq!((found.blocks_per_sm, found.warps_per_sm, found.max_warps_per_sm), (1, 12, 64));
    assert_eq!(found.occupancy, 0.1875);
    assert_eq!(found.limiters, [Limiter::Registers]);
    assert_eq!(found.next_step, Some(RegisterStep { registers: 80, blocks_per_sm: 2 }));
    assert_eq!(found.cliff, Some(RegisterStep { registers: 169, blocks_per_sm: 0 }));
    assert_eq!(found.next_step_smem, None);
    assert_eq!(found.cliff_smem, Some(SmemStep { smem: 227 * 1024 + 1, blocks_per_sm: 0 }));
}

#[test]
fn two_limits_shrink_together() {
    let asked = launch(88, 256, 40000);
    let found = occupancy(arch("sm_86"), &asked).unwrap();
    assert_eq!(found.limiters, [Limiter::Registers, Limiter::SharedMemory]);
    assert_eq!((found.next_step, found.next_step_smem), (None, None));
    let step = found.next_step_together.unwrap();
    assert_eq!((step.registers, step.smem, step.barriers, step.blocks_per_sm), (Some(80), Some(33024), None, 3));
}

#[test]
fn barriers_run_out_from_hopper_on() {
    let asked = Launch { barriers: 16, ..launch(32, 128, 0) };
    assert_eq!(occupancy(arch("sm_89"), &asked).unwrap().limits.barriers, None);
    let found = occupancy(arch("sm_90"), &asked).unwrap();
    assert_eq!((found.blocks_per_sm, &found.limiters[..]), (4, &[Limiter::Barriers][..]));
    assert_eq!(found.next_step_together.unwrap().barriers, Some(12));
}

#[test]
fn says_why_nothing_fits() {
    let found = occupancy(arch("sm_120"), &launch(300, 2000, 200_000)).unwrap();
    assert_eq!(found.blocks_per_sm, 0);
    assert_eq!(found.limiters, [Limiter::Registers, Limiter::SharedMemory, Limiter::Threads]);
    let why: Vec<String> = found.obstacles.iter().map(Obstacle::to_string).collect();
    assert_eq!(
        why,
        [
            "a thread has at most 255 registers, found 300",
            "a block has at most 101376 bytes of shared memory, found 200000",
            "a block has at most 1024 threads, found 2000",
        ]
    );
    // 65 registers round up to 72: 32 warps of 2,304 registers.
    let found = occupancy(arch("sm_80"), &launch(65, 1024, 0)).unwrap();
    assert_eq!(found.obstacles, [Obstacle::RegistersPerBlock { found: 73728, most: 65536 }]);
    assert_eq!(found.next_step, Some(RegisterStep { registers: 64, blocks_per_sm: 1 }));
}

#[test]
fn shared_memory_modes() {
    let asked = |smem_mode, smem| Launch { smem_mode, ..launch(32, 128, smem) };
    let kb = |size: u64| size * 1024;
    for (name, mode, most) in [
        ("sm_90", SmemMode::Portable, kb(48)),
        ("sm_90", SmemMode::NonPortable, kb(227)),
        ("sm_75", SmemMode::NonPortable, kb(64)),
        ("sm_107", SmemMode::NonPortable, kb(227)),
        ("sm_107", SmemMode::Oversized, kb(327)),
    ] {
        assert!(blocks(arch(name), &asked(mode, most)) > 0, "{name} {mode:?}");
        assert_eq!(blocks(arch(name), &asked(mode, most + 1)), 0, "{name} {mode:?}");
    }
}

#[test]
fn errors_say_expected_and_found() {
    let error = |name: &str, launch: Launch| occupancy(arch(name), &launch).unwrap_err().to_string();
    let one = launch(32, 128, 0);
    assert!(error("sm_70", one.clone()).starts_with("no hardware limits are known for sm_70: expected one of sm_75, "));
    assert_eq!(error("sm_90", launch(32, 0, 0)), "threads per block: expected 1 to 1024, found 0");
    assert_eq!(error("sm_90", Launch { cluster: 17, ..one.clone() }), "blocks per cluster: expected 1 to 16, found 17");
    assert_eq!(
        error("sm_89", Launch { cluster: 2, ..one.clone() }),
        "blocks per cluster: sm_89 has no clusters (sm_90 and later do), expected 1, found 2"
    );
    assert_eq!(
        error("sm_90", Launch { carveout: Some(101), ..one.clone() }),
        "shared memory carveout: expected 0 to 100 percent, found 101"
    );
    assert_eq!(
        error("sm_90", Launch { smem_mode: SmemMode::Oversized, ..one }),
        "sm_90 has no oversized shared memory: expected the portable or the non-portable mode"
    );
}

#[test]
fn survives_a_round_trip_through_json() {
    let asked = Launch { carveout: Some(40), ..launch(88, 256, 40000) };
    let found = occupancy(arch("sm_100f"), &asked).unwrap();
    let text = serde_json::to_string(&(&asked, &found)).unwrap();
    let back: (Launch, Occupancy) = serde_json::from_str(&text).unwrap();
    assert_eq!(back, (asked, found));
}

fn any_arch() -> impl Strategy<Value = Arch> {
    (0..ARCHITECTURES.len()).prop_map(|index| Arch::new(ARCHITECTURES[index].sm))
}

fn any_launch() -> impl Strategy<Value = Launch> {
    let registers = prop_oneof![8 => 0u32..270, 1 => any::<u32>()];
    let threads = prop_oneof![8 => 1u32..1100, 1 => 1..=u32::MAX];
    let smem = || prop_oneof![4 => 0u64..60_000, 2 => 0u64..240_000, 1 => any::<u64>(), 2 => Just(0)];
    let barriers = prop_oneof![4 => 0u32..20, 1 => any::<u32>()];
    let carveout = proptest::option::of(0u8..=100);
    let mode = prop_oneof![3 => Just(SmemMode::NonPortable), 1 => Just(SmemMode::Portable)];
    (registers, threads, smem(), smem(), barriers, carveout, mode).prop_map(
        |(registers, threads, smem_static, smem_dynamic, barriers, carveout, smem_mode)| Launch {
            threads,
            registers,
            smem_static,
            smem_dynamic,
            barriers,
            cluster: 1,
            tmem_columns: 0,
            smem_mode,
            carveout,
        },
    )
}

/// The launch with its shared memory as a whole set to this.
fn with_smem(launch: &Launch, smem: u64) -> Launch {
    Launch { smem_static: smem, smem_dynamic: 0, ..launch.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn register_steps_are_the_nearest(arch in any_arch(), launch in any_launch()) {
        let found = occupancy(arch, &launch).unwrap();
        let now = found.blocks_per_sm;
        let with = |registers| blocks(arch, &Launch { registers, ..launch.clone() });
        let below = launch.registers.min(MAX_NAMED_REGISTERS + 1);
        let gain = (1..below).rev().map(|registers| (registers, with(registers))).find(|(_, blocks)| *blocks > now);
        prop_assert_eq!(found.next_step.map(|step| (step.registers, step.blocks_per_sm)), gain);
        let above = launch.registers.saturating_add(1)..=MAX_NAMED_REGISTERS;
        let loss = above.map(|registers| (registers, with(registers))).find(|(_, blocks)| *blocks < now);
        prop_assert_eq!(found.cliff.map(|step| (step.registers, step.blocks_per_sm)), loss);
    }

    #[test]
    fn the_table_agrees_with_each_count(arch in any_arch(), launch in any_launch()) {
        let mut next = 1;
        for range in register_table(arch, &launch).unwrap() {
            prop_assert_eq!(range.from, next);
            for registers in range.from..=range.to {
                let found = occupancy(arch, &Launch { registers, ..launch.clone() }).unwrap();
                prop_assert_eq!(range.blocks_per_sm, found.blocks_per_sm);
                prop_assert_eq!(range.warps_per_sm, found.warps_per_sm);
            }
            let last = occupancy(arch, &Launch { registers: range.to, ..launch.clone() }).unwrap();
            prop_assert!(last.limiters.contains(&range.limiter));
            next = range.to + 1;
        }
        prop_assert_eq!(next, MAX_NAMED_REGISTERS + 1);
    }

    #[test]
    fn smem_steps_are_the_nearest(arch in any_arch(), launch in any_launch(), other in 0u64..240_000) {
        let found = occupancy(arch, &launch).unwrap();
        let now = found.blocks_per_sm;
        let with = |smem| blocks(arch, &with_smem(&launch, smem));
        // More memory never fits more blocks, so a step is the nearest where its neighbour is none.
        prop_assert_eq!(with(other).max(now), if other < launch.smem() { with(other) } else { now });
        match found.next_step_smem {
            Some(step) => {
                prop_assert!(step.smem < launch.smem() && step.blocks_per_sm > now);
                prop_assert_eq!(with(step.smem), step.blocks_per_sm);
                prop_assert_eq!(with(step.smem + 1), now);
            }
            None => prop_assert_eq!(with(0), now),
        }
        match found.cliff_smem {
            Some(step) => {
                prop_assert!(step.smem > launch.smem() && step.blocks_per_sm < now);
                prop_assert_eq!(with(step.smem), step.blocks_per_sm);
                prop_assert_eq!(with(step.smem - 1), now);
            }
            None => prop_assert_eq!(now, 0),
        }
    }

    #[test]
    fn steps_together_are_enough_and_needed(arch in any_arch(), launch in any_launch()) {
        let found = occupancy(arch, &launch).unwrap();
        let now = found.blocks_per_sm;
        let Some(step) = found.next_step_together else {
            let least = Launch { registers: 1, barriers: 1, ..with_smem(&launch, 0) };
            prop_assert_eq!(blocks(arch, &least), now);
            return Ok(());
        };
        let then = |registers: Option<u32>, smem: Option<u64>, barriers: Option<u32>| {
            let smaller = with_smem(&launch, smem.unwrap_or(launch.smem()));
            let registers = registers.unwrap_or(launch.registers);
            blocks(arch, &Launch { registers, barriers: barriers.unwrap_or(launch.barriers), ..smaller })
        };
        prop_assert_eq!(then(step.registers, step.smem, step.barriers), step.blocks_per_sm);
        prop_assert!(step.blocks_per_sm > now);
        if let Some(most) = step.registers {
            // 255 registers take what 256 take.
            let more = if most == 255 { 257 } else { most + 1 };
            prop_assert!(then(Some(more), step.smem, step.barriers) <= now);
        }
        if let Some(most) = step.smem {
            prop_assert!(then(step.registers, Some(most + 1), step.barriers) <= now);
        }
        if let Some(most) = step.barriers {
            prop_assert!(then(step.registers, step.smem, Some(most + 1)) <= now);
        }
    }
}

#[test]
fn columns_of_tensor_memory_are_a_limit() {
    let asked = |tmem_columns| Launch { tmem_columns, ..launch(38, 192, 65_536) };
    for (columns, blocks) in [(512, 1), (256, 2), (128, 3), (0, 3)] {
        assert_eq!(occupancy(arch("sm_100a"), &asked(columns)).unwrap().blocks_per_sm, blocks, "{columns}");
    }
    let found = occupancy(arch("sm_100a"), &asked(512)).unwrap();
    assert_eq!(found.limiters, [Limiter::TensorMemory]);
    assert_eq!((found.next_step, found.next_step_smem), (None, None));
    let step = found.next_step_together.unwrap();
    assert_eq!((step.tmem_columns, step.registers, step.blocks_per_sm), (Some(256), None, 2));
    // It takes a power of two: three blocks have 128 each.
    let three = occupancy(arch("sm_100a"), &asked(256)).unwrap().next_step_together.unwrap();
    assert_eq!((three.tmem_columns, three.blocks_per_sm), (Some(128), 3));
    let too_many = occupancy(arch("sm_100a"), &asked(1024)).unwrap();
    assert_eq!(too_many.obstacles, [Obstacle::TensorColumns { found: 1024, most: 512 }]);
    let none = occupancy(arch("sm_90a"), &asked(32)).unwrap_err();
    assert_eq!(none, OccupancyError::NoTensorMemory { arch: arch("sm_90a"), found: 32 });
}
