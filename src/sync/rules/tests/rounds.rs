//! Halves of cluster barriers, announcements of bytes and counts of mbarriers, round by round.

use crate::ptx;
use crate::simt::*;
use crate::sync::rules::finding::Confidence;
use crate::sync::rules::{barriers, cluster, mbarrier_checks, mbarriers};

/// A kernel with a body.
fn kernel(threads: u32, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 from)\n.reqntid {threads}\n{{\n\
         .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;\n.shared .align 8 .b8 bars[128];\n.shared .align 128 .b8 data[4096];\n\
         ld.param.u32 %r1, [n];\nld.param.u64 %rd1, [from];\nmov.u32 %r2, bars;\nmov.u32 %r3, %tid.x;\nsetp.ne.u32 %p1, %r3, 0;\n\
         setp.ge.u32 %p2, %r3, 32;\nsetp.eq.u32 %p3, %r1, 0;\n{body}\nret;\n}}\n"
    )
}

/// What is at least likely: code, and what stands on its line after `//`.
pub(super) fn loud(threads: u32, body: &str) -> Vec<(&'static str, String)> {
    let text = kernel(threads, body);
    let module = ptx::parse(&text);
    let function = module.functions().next().unwrap();
    let warps = Warps::of(&function, Some(BlockSize { dimensions: [threads, 1, 1], exact: true }));
    let mut checks = barriers::check(&warps, &barriers::named(&warps), true);
    checks.extend(mbarrier_checks::check(&warps, &mbarriers::sites(&warps), true));
    checks.extend(cluster::check(&warps));
    let mark = |line: u32| {
        let line = text.lines().nth(line as usize - 1).unwrap_or_default();
        line.split_once("// ").map_or(line, |(_, mark)| mark).to_owned()
    };
    let found = checks.into_iter().filter(|check| check.confidence > Confidence::Possible);
    let mut found: Vec<_> = found.map(|check| (check.code, mark(check.line.0))).collect();
    found.sort();
    found
}

pub(super) fn only(code: &'static str, mark: &str) -> Vec<(&'static str, String)> {
    vec![(code, mark.to_owned())]
}

pub(super) const NOTHING: Vec<(&str, String)> = Vec::new();

#[test]
fn cluster_waits_that_are_missing_around_a_loop() {
    let body = |first: &str, inner: &str, last: &str| {
        format!(
            "barrier.cluster.arrive.aligned; // first\n{first}\nLOOP:\nbarrier.cluster.arrive.aligned; // inner\n{inner}\n\
             add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p4, %r1, 0;\n@%p4 bra LOOP;\nbarrier.cluster.arrive.aligned; // last\n{last}"
        )
    };
    let wait = "barrier.cluster.wait.aligned;";
    assert_eq!(loud(64, &body(wait, wait, wait)), NOTHING);
    assert_eq!(loud(64, &body("", wait, wait)), only("PI402", "first"));
    assert_eq!(loud(64, &body(wait, "", wait)), only("PI402", "last"), "who comes there has arrived in the loop");
    assert_eq!(loud(64, &body(wait, wait, "")), only("PI403", "last"));
}

#[test]
fn arrivals_that_others_wait_for() {
    let sync = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
    // One warp arrives and leaves, the other waits.
    let split = "@%p2 bra OTHER;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;\nOTHER:\n\
                 barrier.cluster.arrive.aligned; // lone";
    assert_eq!(loud(64, &format!("{sync}{split}")), only("PI403", "lone"));
    // The other has left: nobody waits for the second arrival.
    let left = "@%p2 bra OTHER;\nret;\nOTHER:\nbarrier.cluster.arrive.aligned; // lone";
    assert_eq!(loud(64, &format!("{sync}{left}")), only("PI403", "lone"));
    // Whether anybody waits, a parameter decides.
    let maybe = "barrier.cluster.arrive.aligned;\n@%p3 bra END;\nbarrier.cluster.wait.aligned;\nEND:";
    assert_eq!(loud(64, &format!("{sync}{maybe}")), NOTHING);
}

/// Three objects with a count each that a loop arrives at and waits for in turn, at a place that the second part computes.
fn in_turn(counts: [u32; 3], place: &str) -> String {
    let [a, b, c] = counts;
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {a}; // a\nmbarrier.init.shared.b64 [bars+8], {b}; // b\n\
         mbarrier.init.shared.b64 [bars+16], {c}; // c\nREADY:\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.u32 %r9, 0;\nLOOP:\n{place}\n\
         mbarrier.arrive.shared.b64 _, [%r6];\nmbarrier.arrive.shared.b64 _, [%r6];\nmbarrier.arrive.shared.b64 _, [%r6];\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n@!%p4 bra WAIT;\nadd.s32 %r4, %r4, 1;\n\
         setp.eq.s32 %p5, %r4, 3;\nselp.b32 %r4, 0, %r4, %p5;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
    )
}

#[test]
fn objects_of_an_array_that_count_otherwise() {
    let place = "shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;";
    assert_eq!(loud(32, &in_turn([96, 96, 96], place)), NOTHING);
    assert_eq!(loud(32, &in_turn([96, 64, 96], place)), only("PI310", "b"), "too few");
    assert_eq!(loud(32, &in_turn([96, 96, 95], place)), only("PI310", "c"));
    // More than can come at all.
    assert_eq!(loud(32, &in_turn([128, 96, 96], place)), only("PI305", "a"));
    // Nothing tells which one is used how.
    let anywhere = "shl.b32 %r5, %r1, 3;\nadd.s32 %r6, %r2, %r5;";
    assert_eq!(loud(32, &in_turn([96, 64, 96], anywhere)), NOTHING);
}

/// Objects one after the other, arrived at by an instruction each, so many times by all threads.
fn one_by_one(counts: [u32; 3], times: [u32; 3]) -> String {
    let mut body = String::from("@%p1 bra READY;\n");
    for (at, count) in counts.iter().enumerate() {
        body += &format!("mbarrier.init.shared.b64 [bars+{}], {count}; // {at}\n", at * 8);
    }
    body += "READY:\nbar.sync 0;\n";
    for (at, times) in times.iter().enumerate() {
        let place = at * 8;
        body += &format!(
            "mbarrier.arrive.shared.b64 _, [bars+{place}], {times};\nWAIT{at}:\n\
             mbarrier.try_wait.parity.shared.b64 %p4, [bars+{place}], 0;\n@!%p4 bra WAIT{at};\n"
        );
    }
    body
}

#[test]
fn objects_that_are_used_alike() {
    assert_eq!(loud(32, &one_by_one([64; 3], [2; 3])), NOTHING);
    assert_eq!(loud(32, &one_by_one([64, 32, 64], [2; 3])), only("PI310", "1"));
    // Fewer arrive at this one.
    assert_eq!(loud(32, &one_by_one([64, 32, 64], [2, 1, 2])), NOTHING);
    // One of three kinds each.
    assert_eq!(loud(32, &one_by_one([64, 128, 192], [2, 4, 6])), NOTHING);
}

#[test]
fn arrivals_by_way_of_the_cluster_at_the_own_block() {
    let body = |count: u32, rank: &str| {
        format!(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {count}; // init\nREADY:\nbar.sync 0;\n{rank}\n\
             mapa.shared::cluster.u32 %r7, %r2, %r8;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\nWAIT:\n\
             mbarrier.try_wait.parity.shared.b64 %p4, [bars], 0;\n@!%p4 bra WAIT;"
        )
    };
    let own = "mov.u32 %r9, %cluster_ctarank;\nmov.u32 %r8, %r9;";
    assert_eq!(loud(32, &body(32, own)), NOTHING);
    assert_eq!(loud(32, &body(64, own)), only("PI305", "init"));
    // Threads of another block may arrive here too.
    let other = "mov.u32 %r9, %cluster_ctarank;\nxor.b32 %r8, %r9, 1;";
    assert_eq!(loud(32, &body(64, other)), NOTHING);
}

#[test]
fn arrivals_that_count_for_more_in_some_threads() {
    let body = |count: u32| {
        format!(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {count}; // init\nREADY:\nbar.sync 0;\nselp.b32 %r4, 1, 2, %p2;\n\
             mbarrier.arrive.shared.b64 _, [bars], %r4;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars], 0;\n@!%p4 bra WAIT;"
        )
    };
    assert_eq!(loud(64, &body(96)), NOTHING);
    assert_eq!(loud(64, &body(160)), only("PI305", "init"));
}

/// One thread fills two buffers in turn, the first time before a loop, each time once the buffer is free; another warp frees them.
fn filling(before: &str, within: &str) -> String {
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [%r6];";
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], 1;\n\
         mbarrier.init.shared.b64 [bars+16], 32;\nREADY:\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.u32 %r9, 0;\nmov.u32 %r6, %r2;\n\
         @%p2 bra OTHER;\n@%p1 bra END;\n{before}\n{copy} // before\nFILL:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars+16], %r9;\n\
         @!%p4 bra FILL;\nxor.b32 %r4, %r4, 1;\nshl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\n{within}\n{copy} // within\n\
         xor.b32 %r9, %r9, 1;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra FILL;\nbra END;\n\
         OTHER:\nxor.b32 %r4, %r4, 1;\nshl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\nFULL:\n\
         mbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n@!%p4 bra FULL;\nmbarrier.arrive.shared.b64 _, [bars+16];\n\
         xor.b32 %r9, %r9, 1;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra OTHER;\nEND:"
    )
}

#[test]
fn copies_in_rounds_that_nothing_announces() {
    let expect = "mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;";
    assert_eq!(loud(64, &filling(expect, expect)), NOTHING);
    assert_eq!(loud(64, &filling(expect, "")), only("PI303", "within"));
    assert_eq!(loud(64, &filling("", expect)), only("PI303", "before"));
}

#[test]
fn copies_of_an_unrolled_loop_that_nothing_announces() {
    let expect = "mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;";
    // Three rounds each time around.
    let body = |announced: [bool; 3]| {
        let mut body = String::from(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], 1;\n\
             mbarrier.init.shared.b64 [bars+16], 1;\nREADY:\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.u32 %r9, 1;\n@%p2 bra OTHER;\n\
             @%p1 bra END;\nLOOP:\n",
        );
        for (at, announced) in announced.iter().enumerate() {
            body += &format!(
                "FREE{at}:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars+16], %r9;\n@!%p4 bra FREE{at};\nxor.b32 %r4, %r4, 1;\n\
                 shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\n{}\n\
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [%r6]; // {at}\n\
                 xor.b32 %r9, %r9, 1;\n",
                if *announced { expect } else { "" }
            );
        }
        body + "add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;\nbra END;\nOTHER:\nelect.sync _|%p5, -1;\nxor.b32 %r4, %r4, 1;\n\
                shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\nFULL:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n\
                @!%p4 bra FULL;\n@%p5 mbarrier.arrive.shared.b64 _, [bars+16];\nbra OTHER;\nEND:"
    };
    assert_eq!(loud(64, &body([true; 3])), NOTHING);
    assert_eq!(loud(64, &body([true, false, true])), only("PI303", "1"));
    assert_eq!(loud(64, &body([false, true, true])), only("PI303", "0"));
}

#[test]
fn copies_of_an_unrolled_loop_by_threads_elected_anew() {
    // Who announces and who copies is elected for each: the graph has ways by one and not by the other.
    let body = |announced: [bool; 3]| {
        let mut body = String::from(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], 1;\n\
             mbarrier.init.shared.b64 [bars+16], 1;\nREADY:\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.u32 %r9, 1;\n@%p2 bra OTHER;\nLOOP:\n",
        );
        for (at, announced) in announced.iter().enumerate() {
            let expect = if *announced { "mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;" } else { "" };
            body += &format!(
                "FREE{at}:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars+16], %r9;\n@!%p4 bra FREE{at};\nxor.b32 %r4, %r4, 1;\n\
                 shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\nelect.sync %r10|%p7, -1;\n@!%p7 bra COPY{at};\n{expect}\nCOPY{at}:\n\
                 elect.sync %r10|%p8, -1;\n@!%p8 bra NEXT{at};\n\
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [%r6]; // {at}\n\
                 NEXT{at}:\nxor.b32 %r9, %r9, 1;\n",
            );
        }
        body + "add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;\nbra END;\nOTHER:\nelect.sync _|%p5, -1;\nxor.b32 %r4, %r4, 1;\n\
                shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;\nFULL:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n\
                @!%p4 bra FULL;\n@%p5 mbarrier.arrive.shared.b64 _, [bars+16];\nbra OTHER;\nEND:"
    };
    assert_eq!(loud(64, &body([true; 3])), NOTHING);
    assert_eq!(loud(64, &body([true, false, true])), only("PI303", "1"));
    assert_eq!(loud(64, &body([true, true, false])), only("PI303", "2"));
}

#[test]
fn warps_that_take_turns_at_two_sites() {
    // Eight warps in two halves: each half has the barrier for itself while it holds the turn.
    let body = |first: u32, second: u32| {
        format!(
            "setp.eq.u32 %p4, %r3, 0;\n@!%p4 bra READY;\nmbarrier.init.shared.b64 [bars], 128;\nREADY:\nbar.sync 0;\n\
             shr.u32 %r4, %r3, 7;\nLOOP:\nTURN:\nmbarrier.try_wait.parity.shared.b64 %p5, [bars], %r4;\n@!%p5 bra TURN;\n\
             bar.sync 1, {first}; // first\nbar.sync 1, {second}; // second\nmbarrier.arrive.shared.b64 _, [bars];\n\
             add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
        )
    };
    assert_eq!(loud(256, &body(128, 128)), NOTHING);
    assert_eq!(loud(256, &body(160, 128)), only("PI204", "first"));
    assert_eq!(loud(256, &body(128, 96)), only("PI204", "second"));
}
