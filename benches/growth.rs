//! Work that an input decides, over inputs that grow: 1,000 to 1,000,000 of something. Time for each stays the same where it is
//! linear; questions about warps end where their steps do. `scripts/growth` measures whole commands, memory too.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ptxinspect::base::{Line, Pc};
use ptxinspect::compare::{Instructions, sass_changes};
use ptxinspect::ptx;
use ptxinspect::report::{Evaluated, LaunchHints, Wanted};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// A kernel whose body is so many of a line.
fn kernel(size: usize, line: &dyn Fn(usize) -> String) -> String {
    let body: String = (0..size).map(line).collect();
    let registers = ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<8>;";
    let head = ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 8 .b64 b[4096];\n";
    format!("{head}.visible .entry k()\n.reqntid 128, 1, 1\n{{\n{registers}\nmov.u32 %r1, %tid.x;\n{body}ret;\n}}\n")
}

/// A line of a body, by its number.
type Body = Box<dyn Fn(usize) -> String>;

/// What the bodies are made of.
fn inputs() -> Vec<(&'static str, Body)> {
    vec![
        ("adds", Box::new(|at| format!("add.u32 %r{}, %r{}, %r1;\n", at % 60 + 2, at * 7 % 60 + 2))),
        (
            "diamonds",
            Box::new(|at| {
                format!("setp.lt.u32 %p1, %r1, {};\n@%p1 bra L{at};\nadd.u32 %r2, %r2, 1;\nL{at}:\n", at % 128)
            }),
        ),
        ("barriers", Box::new(|at| format!("bar.sync {}, 128;\n", at % 16))),
        (
            "mbarriers",
            Box::new(|at| {
                let object = at % 4096 * 8;
                format!(
                    "W{at}: mbarrier.try_wait.parity.shared.b64 %p1, [b+{object}], 0;\n@!%p1 bra W{at};\nmbarrier.arrive.shared.b64 %rd1, [b+{object}];\n"
                )
            }),
        ),
        ("setmaxnreg", Box::new(|at| format!("setmaxnreg.dec.sync.aligned.u32 {};\n", 24 + at % 20 * 8))),
    ]
}

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    group.sample_size(10);
    for size in SIZES {
        let text = kernel(size, &inputs()[1].1);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &text, |b, text| {
            b.iter(|| ptx::parse(text).statements().len());
        });
    }
    group.finish();
}

fn warps(c: &mut Criterion) {
    for (name, line) in inputs() {
        let mut group = c.benchmark_group(format!("warps/{name}"));
        group.sample_size(10);
        for size in SIZES {
            let text = kernel(size, &line);
            let module = ptx::parse(&text);
            group.throughput(Throughput::Elements(size as u64));
            group.bench_with_input(BenchmarkId::from_parameter(size), &module, |b, module| {
                b.iter(|| black_box(Evaluated::new(module, &LaunchHints::default(), Wanted::ALL, || true)));
            });
        }
        group.finish();
    }
}

/// Code of a few words over and over, every so often another one.
struct Repeated {
    instructions: usize,
    other_every: usize,
}

impl Instructions for Repeated {
    fn pcs(&self) -> Vec<Pc> {
        (0..self.instructions).map(|at| Pc(at as u32 * 16)).collect()
    }

    fn text(&self, pc: Pc) -> Option<String> {
        let at = pc.0 as usize / 16;
        Some(match at % self.other_every {
            1 => format!("MOV R1, {:#x}", at / self.other_every),
            _ => format!("FADD R{}, R1, {:#x}", at % 250, at % 7),
        })
    }

    fn hex(&self, _: Pc) -> String {
        String::new()
    }

    fn ptx_line(&self, _: Pc) -> Option<Line> {
        None
    }
}

fn diff(c: &mut Criterion) {
    for (name, before, after) in [("alike", 1000, 1001), ("unlike", 3, 7)] {
        let mut group = c.benchmark_group(format!("diff/{name}"));
        group.sample_size(10);
        for instructions in SIZES {
            group.throughput(Throughput::Elements(instructions as u64));
            group.bench_function(BenchmarkId::from_parameter(instructions), |b| {
                let side = |other_every| Repeated { instructions, other_every };
                b.iter(|| sass_changes(&side(before), &side(after), &mut 1000).same);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, parse, warps, diff);
criterion_main!(benches);
