//! Halves of cluster barriers, announcements of bytes and counts of mbarriers, round by round.

use crate::ptx;
use crate::simt::*;
use crate::sync::rules::finding::Confidence;

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
    let checks = super::checked(&function, Some(BlockSize { dimensions: [threads, 1, 1], exact: true }));
    let mark = |line: u32| {
        let line = text.lines().nth(line as usize - 1).unwrap_or_default();
        line.split_once("// ").map_or(line, |(_, mark)| mark).to_owned()
    };
    let found = checks.into_iter().filter(|check| check.confidence > Confidence::Possible);
    let mut found: Vec<_> = found.map(|check| (check.rule.code(), mark(check.line.0))).collect();
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
