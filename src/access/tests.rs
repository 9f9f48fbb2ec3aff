//! Accesses of small kernels, and of a folder of PTX where one is given.

use super::{AccessFacts, Padding, Reason, Refusal, accesses};
use crate::simt::{Bits, BlockSize, Warps};

fn facts(text: &str) -> Vec<(String, Option<AccessFacts>)> {
    let module = crate::ptx::parse(text);
    let mut found = Vec::new();
    for function in module.functions().filter(|function| function.is_definition()) {
        let header = function.header();
        let (required, most) = (header.required_threads(), header.max_threads());
        let size = required.or(most).map(|dimensions| BlockSize { dimensions, exact: required.is_some() });
        let warps = Warps::of(&function, size).with_operands(&function, size);
        let bits = Bits::of(&warps);
        let operands = (warps, bits);
        found.push((function.name().to_owned(), accesses(&function, Some(&operands))));
    }
    found
}

/// The accesses of a kernel of 128 threads.
fn of(body: &str) -> AccessFacts {
    let text = format!(
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 data, .param .u32 count)\n\
         .reqntid 128, 1, 1\n{{\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .pred %p<8>;\n.shared .align 4 .b8 tile[16384];\n\
         ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [count];\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, tile;\n\
         and.b32 %r4, %r2, 31;\n{body}\nret;\n}}\n"
    );
    facts(&text).swap_remove(0).1.expect("accesses")
}

/// Fewest, most and best of the first access.
fn first(body: &str) -> (Option<u32>, Option<u32>, Option<u32>, Option<Reason>) {
    let found = of(body);
    let one = found.accesses.first().expect("an access");
    (one.least, one.most, one.ideal, one.undecided.as_ref().map(|why| why.why))
}

#[test]
fn a_base_that_a_loop_moves_on_does_not_hinder() {
    let body = "shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r3, %r5;\nL:\nld.shared.u32 %r7, [%r6];\nadd.s32 %r6, %r6, 260;\n\
                add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra L;";
    assert_eq!(first(body), (Some(2), Some(2), Some(1), None));
}

#[test]
fn lanes_that_a_predicate_turns_off_do_not_count() {
    let body = "shl.b32 %r5, %r4, 7;\nadd.s32 %r6, %r3, %r5;\nsetp.lt.u32 %p1, %r4, 2;\n@%p1 ld.shared.u32 %r7, [%r6];";
    let found = of(body);
    assert_eq!((found.accesses[0].most, found.accesses[0].threads.len()), (Some(2), 2));
    assert!(found.accesses[0].is_decided());
    // Which lanes come is not known, and matters; where no two can meet it does not.
    let open = |by: u32| {
        first(&format!(
            "shl.b32 %r5, %r4, {by};\nadd.s32 %r6, %r3, %r5;\nsetp.lt.u32 %p1, %r4, %r1;\n@%p1 ld.shared.u32 %r7, [%r6];"
        ))
    };
    assert_eq!(open(7), (Some(1), Some(32), Some(1), Some(Reason::Lanes)));
    assert_eq!(open(2), (Some(1), Some(1), Some(1), None));
}

#[test]
fn what_memory_decides_is_undecided_and_nothing_is_clean() {
    let body = "mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r5, [%rd3];\nadd.s32 %r6, %r3, %r5;\n\
                ld.shared.u32 %r7, [%r6];";
    let found = of(body);
    assert_eq!((found.shared_total, found.shared_decided, found.global_decided, found.clean), (1, 0, 1, false));
    let why = found.accesses[1].undecided.as_ref().expect("undecided");
    assert_eq!((why.why, why.ptx_line.map(|line| line.0)), (Reason::Address, Some(18)));
}

#[test]
fn a_gap_and_a_swizzle_are_proven_or_refused() {
    let columns = "shl.b32 %r5, %r4, 7;\nshr.u32 %r6, %r2, 5;\nshl.b32 %r6, %r6, 2;\nadd.s32 %r7, %r5, %r6;\nadd.s32 %r8, %r3, %r7;\n\
                   ld.shared.u32 %r9, [%r8];\nshl.b32 %r10, %r2, 2;\nadd.s32 %r11, %r3, %r10;\nst.shared.u32 [%r11], %r9;";
    let mend = of(columns).mends.swap_remove(0);
    assert_eq!((mend.variable.as_str(), mend.proven, mend.refused), ("tile", 2, None));
    assert_eq!(mend.padding, Some(Padding { row_bytes: 128, gap_bytes: 4 }));
    let by = mend.swizzle.expect("a swizzle");
    assert_eq!((by.bits, by.base, by.shift, by.element_bytes), (5, 0, 5, 4));
    let unknown = format!("{columns}\nadd.s32 %r12, %r3, %r9;\nst.shared.u32 [%r12], %r9;");
    let mend = of(&unknown).mends.swap_remove(0);
    assert_eq!((mend.padding, mend.swizzle, mend.refused), (None, None, Some(Refusal::Undecided)));
}

#[test]
fn rows_of_matrices() {
    let rows = |pitch: u32| {
        first(&format!(
            "mul.lo.s32 %r5, %r4, {pitch};\nadd.s32 %r6, %r3, %r5;\n\
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r7, %r8, %r9, %r10}}, [%r6];"
        ))
    };
    assert_eq!(rows(128), (Some(32), Some(32), Some(4), None));
    assert_eq!(rows(144), (Some(4), Some(4), Some(4), None));
}

#[derive(serde::Deserialize)]
struct Measured {
    name: String,
    lines: Vec<String>,
    access: String,
    cycles: f64,
}

/// What an H200 took for each of 600 accesses (`scripts/accesses`): as many cycles as wavefronts are told.
#[test]
fn accesses_as_they_were_measured() {
    let recorded = include_str!("../../testdata/cost/accesses.jsonl");
    let (mut decided, mut wrong) = (0, Vec::new());
    let all: Vec<Measured> = recorded.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    for one in &all {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 buffer[36864];\n\
             .visible .entry k(.param .u64 data)\n.reqntid 512, 1, 1\n{{\n.reg .b32 %i<8>;\n.reg .b32 %r<99>;\n.reg .b64 %l<20>;\n\
             .reg .b64 %a<12>;\n.reg .pred %p<8>;\nld.param.u64 %a1, [data];\nmov.u32 %i1, %tid.x;\n{}\n{}\nret;\n}}\n",
            one.lines.join("\n"),
            one.access
        );
        let (_, found) = facts(&text).swap_remove(0);
        let found = found.expect("accesses");
        let fact = found.accesses.iter().find(|fact| fact.space == super::AccessSpace::Shared).expect("the access");
        if !fact.is_decided() {
            continue;
        }
        decided += 1;
        let (least, most) = (f64::from(fact.least.unwrap_or(0)), f64::from(fact.most.unwrap_or(0)));
        if least != most || (one.cycles - most).abs() > 0.1_f64.max(most * 0.01) {
            wrong.push(format!("{}: {least}..{most} told, {} measured: {}", one.name, one.cycles, one.access));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // The rest are atomics of which all lanes have one word.
    assert_eq!((decided, all.len()), (598, 600));
}

/// A swizzle of the address itself, as CuTe writes it: where the variable starts decides.
#[test]
fn dynamic_shared_memory_starts_where_the_block_does() {
    let first = |more: &str| {
        let text = format!(
            ".version 8.3\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 all[];\n.visible .entry k()\n\
             .reqntid 128, 1, 1\n{{\n.reg .b32 %r<40>;\n{more}mov.u32 %r2, %tid.x;\nmov.u32 %r3, all;\nand.b32 %r4, %r2, 31;\n\
             shl.b32 %r5, %r4, 7;\nadd.s32 %r6, %r3, %r5;\nand.b32 %r7, %r6, 896;\nshr.u32 %r7, %r7, 3;\nxor.b32 %r6, %r6, %r7;\n\
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r6];\nret;\n}}\n"
        );
        let found = facts(&text).swap_remove(0).1.expect("accesses");
        let one = found.accesses.first().expect("an access").clone();
        (one.most, one.ideal, one.undecided.map(|why| why.why))
    };
    assert_eq!(first(""), (Some(4), Some(4), None));
    // Behind other shared memory nobody knows where it starts.
    assert_eq!(first(".shared .align 4 .b8 tile[100];\n").2, Some(Reason::Address));
}
