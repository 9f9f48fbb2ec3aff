//! Control flow and liveness of a section, in bytes of code a second; and all that the report says of registers on top of them.
//!
//! `PTXINSPECT_BENCH_CUBIN=file.cubin cargo bench --bench liveness` measures a cubin of your own (the figures in
//! `docs/benchmarks.md` are of the sm_100 cubin of bitsandbytes); without it, repeated code of 1,000 to 1,000,000 instructions.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ptxinspect::base::Arch;
use ptxinspect::cubin::Image;
use ptxinspect::cubin::lines::LineTable;
use ptxinspect::flow::{Cfg, Layout, Liveness, Rule, SassProgram};
use ptxinspect::report::{Facts, LaunchHints, Unit, Wanted, join};
use ptxinspect::sass::Decoder;

fn solve(decoder: Decoder, code: &[u8], layout: &Layout, rule: Rule) -> usize {
    let program = SassProgram::decode(decoder, code);
    let cfg = Cfg::build(&program, layout);
    Liveness::solve(&program, &cfg, rule).counts(&program, &cfg).len()
}

fn cubin(c: &mut Criterion) {
    let Some(path) = std::env::var_os("PTXINSPECT_BENCH_CUBIN") else {
        println!("SKIPPED cubin: PTXINSPECT_BENCH_CUBIN is not set");
        return;
    };
    let bytes = std::fs::read(path).expect("the cubin can be read");
    let image = Image::parse(&bytes).expect("the file is a cubin");
    let decoder = Decoder::new(image.arch).expect("the architecture has tables");
    let code: Vec<(&[u8], Layout)> = image
        .functions
        .iter()
        .map(|function| {
            let layout = Layout {
                entries: function.parts.iter().map(|part| part.start).collect(),
                indirect: function.branch_targets.iter().map(|b| (b.pc, b.targets.clone())).collect(),
                registers: function.resources.registers.unwrap_or(0) as u16,
                named: None,
            };
            (function.code, layout)
        })
        .collect();
    let mut group = c.benchmark_group("cubin");
    group.throughput(Throughput::Bytes(code.iter().map(|(code, _)| code.len() as u64).sum()));
    for rule in [Rule::Sound, Rule::Nvdisasm] {
        group.bench_function(format!("{rule:?}"), |b| {
            b.iter(|| code.iter().map(|(code, layout)| solve(decoder, code, layout, rule)).sum::<usize>());
        });
    }
    // Decoded and solved as above, and who holds the registers, what spills, lines, loops, occupancy: the difference is what those cost.
    group.bench_function("report", |b| {
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        one.install(|| b.iter(|| report(&image)));
    });
    group.finish();
}

/// The report of a cubin, warps and barriers left out.
fn report(image: &Image<'_>) -> Unit {
    let facts = Facts {
        image,
        lines: &LineTable::parse(image),
        codes: None,
        log: None,
        module: None,
        flags: &[],
        launch: LaunchHints::default(),
        at: &[],
        roles: &[],
        evaluated: None,
        wanted: Wanted { live_values: true, warps: false, timelines: false, costs: ptxinspect::report::Costs::None },
    };
    let mut unit = Unit::default();
    join(&facts, &mut unit);
    unit
}

/// A loop with a guarded early exit and a join, over and over: 16 instructions each.
fn repeated(instructions: usize) -> Vec<u8> {
    let body: [(u64, u64); 8] = [
        (0x0000_0001_0203_7810, 0x000f_ca00_07ff_e0ff), // IADD3 R3, R2, 0x1, RZ
        (0x0000_0002_0304_7210, 0x000f_ca00_07ff_e0ff), // IADD3 R4, R3, R2, RZ
        (0x0000_0004_0300_720c, 0x000f_da00_03f0_6270), // ISETP P0, …
        (0x0000_0005_0405_8210, 0x000f_ca00_07ff_e0ff), // @!P0 IADD3 …
        (0x0000_0000_0000_794d, 0x000f_ea00_0380_0000), // EXIT, guarded below
        (0x0000_0003_0402_7210, 0x000f_ca00_07ff_e0ff),
        (0x0000_0003_0205_7210, 0x000f_ca00_07ff_e0ff),
        (0x0000_0000_0000_7918, 0x000f_c000_0000_0000), // NOP
    ];
    (0..instructions)
        .flat_map(|i| {
            let (mut lo, hi) = body[i % 8];
            if i % 8 == 4 {
                lo &= !0x7000; // @P0 EXIT
            }
            [lo.to_le_bytes(), hi.to_le_bytes()].concat()
        })
        .collect()
}

fn growth(c: &mut Criterion) {
    let decoder = Decoder::new(Arch::new(100)).expect("sm_100 has tables");
    let mut group = c.benchmark_group("growth");
    group.sample_size(10);
    for instructions in [1_000, 10_000, 100_000, 1_000_000] {
        let code = repeated(instructions);
        group.throughput(Throughput::Elements(instructions as u64));
        group.bench_with_input(BenchmarkId::from_parameter(instructions), &code, |b, code| {
            b.iter(|| solve(decoder, code, &Layout::default(), Rule::Sound));
        });
    }
    group.finish();
}

criterion_group!(benches, cubin, growth);
criterion_main!(benches);
