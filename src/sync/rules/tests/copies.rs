//! Copies that go together, and the bytes that are announced to them.

use super::rounds::{NOTHING, loud, only};

const COPY: &str = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared.b64 _,";

fn wait(at: &str, name: &str) -> String {
    format!("{name}:\nmbarrier.try_wait.parity.shared.b64 %p4, [{at}], %r9;\n@!%p4 bra {name};\n")
}

/// Three rounds of a ring of four objects, each with its address, a look at the next object between announcement and copy, and the
/// map's address made anew.
fn ring(told: [bool; 3]) -> String {
    let round = |number: usize, told: bool| {
        let expect = if told { format!("{EXPECT} [%r{}], 2048;", 10 + number) } else { String::new() };
        format!(
            "add.s32 %r4, %r4, 1;\nand.b32 %r5, %r4, 3;\nshl.b32 %r6, %r5, 3;\nadd.s32 %r{at}, %r2, %r6;\n\
             add.s32 %r{free}, %r{at}, 32;\n{}{expect}\nmbarrier.try_wait.parity.shared.b64 %p5, [%r{free}], %r9;\n\
             ld.param.u64 %rd{map}, [from];\n{COPY} [data], [%rd{map}, {{%r1}}], [%r{at}]; // {number}\n",
            wait(&format!("%r{}", 20 + number), &format!("W{number}")),
            at = 10 + number,
            free = 20 + number,
            map = 3 + number
        )
    };
    let inits = |from: u32| -> String {
        (0..4).map(|at| format!("mbarrier.init.shared.b64 [bars+{}], 1;\n", from + at * 8)).collect()
    };
    let rounds: String = told.into_iter().enumerate().map(|(number, told)| round(number, told)).collect();
    format!(
        "mov.u32 %r4, %r1;\nmov.u32 %r9, 0;\n@%p1 bra READY;\n{}{}READY:\nbar.sync 0;\n@%p2 bra OTHER;\n@%p1 bra END;\nLOOP:\n{rounds}\
         add.s32 %r8, %r8, 1;\nsetp.ne.s32 %p6, %r8, 9;\n@%p6 bra LOOP;\nbra END;\nOTHER:\n\
         elect.sync _|%p7, -1;\n{}@%p7 mbarrier.arrive.shared.b64 _, [%r2+32];\nEND:",
        inits(0),
        inits(32),
        wait("%r2", "FULL")
    )
}

#[test]
fn rounds_of_a_ring_by_one_map() {
    assert_eq!(loud(64, &ring([true, true, true])), NOTHING);
    assert_eq!(loud(64, &ring([false, true, true])), only("PI303", "0"));
    assert_eq!(loud(64, &ring([true, false, true])), only("PI303", "1"));
    assert_eq!(loud(64, &ring([true, true, false])), only("PI303", "2"));
}

/// Two maps: both are copied for one phase first, then the second alone.
fn both(first: &str, other: &str) -> String {
    format!(
        "ld.param.u64 %rd2, [from+8];\nmov.u32 %r9, 0;\n@%p1 bra END;\nmbarrier.init.shared.b64 [bars], 1;\n\
         mbarrier.init.shared.b64 [bars+8], 1;\n{first}\n{other}\n{}{EXPECT} [bars+8], 1024;\n\
         {COPY} [data], [%rd2, {{%r1}}], [bars+8];\n{}END:",
        wait("bars", "A"),
        wait("bars+8", "B")
    )
}

#[test]
fn several_announcements_for_one_phase() {
    let copies =
        format!("{COPY} [data], [%rd1, {{%r1}}], [bars]; // both\n{COPY} [data+1024], [%rd2, {{%r1}}], [bars];");
    let arrive = format!("{EXPECT} [bars], 1024;\n");
    let more = "mbarrier.expect_tx.shared.b64 [bars], 1024;\n";
    assert_eq!(loud(32, &both(&format!("{arrive}{more}"), &copies)), NOTHING);
    assert_eq!(loud(32, &both(&arrive, &copies)), only("PI303", "both"));
    let plain = "mbarrier.arrive.shared.b64 _, [bars];\n";
    assert_eq!(loud(32, &both(&format!("{plain}{more}"), &copies)), only("PI303", "both"));
    // One of them before something else is waited for.
    let early = format!("{more}{}{arrive}", wait("bars+16", "C"));
    let init = "mbarrier.init.shared.b64 [bars+16], 1;\nmbarrier.arrive.shared.b64 _, [bars+16];\n";
    assert_eq!(loud(32, &both(&format!("{init}{early}"), &copies)), NOTHING);
}

#[test]
fn copies_that_stand_for_each_other() {
    let either = format!(
        "@%p3 bra ELSE;\n{COPY} [data], [%rd2, {{%r1}}], [bars];\nbra DONE;\nELSE:\n{COPY} [data+1024], [%rd2, {{%r1}}], [bars];\nDONE:"
    );
    assert_eq!(loud(32, &both(&format!("{EXPECT} [bars], 1024;"), &either)), NOTHING);
}

#[test]
fn bytes_of_another_map_that_come_later() {
    // One announcement is for both copies, and something else is waited for between them.
    let body = |between: &str, second: &str| {
        format!(
            "ld.param.u64 %rd2, [from+8];\nmov.u32 %r9, 0;\n@%p1 bra END;\nmbarrier.init.shared.b64 [bars], 1;\n\
             mbarrier.init.shared.b64 [bars+8], 1;\nmbarrier.arrive.shared.b64 _, [bars+8];\n{EXPECT} [bars], 2048;\n\
             {COPY} [data], [%rd1, {{%r1}}], [bars];\n{between}\n{COPY} [data+1024], [{second}, {{%r1}}], [bars];\n{}END:",
            wait("bars", "A")
        )
    };
    assert_eq!(loud(32, &body(&wait("bars+8", "B"), "%rd2")), NOTHING);
    assert_eq!(loud(32, &body("", "%rd1")), NOTHING);
}

#[test]
fn announcements_of_just_the_bytes_of_their_copies() {
    // The second may be for any object, but its bytes are those of its own copy.
    let body = |expect: &str| {
        format!(
            "shl.b32 %r5, %r1, 3;\nadd.s32 %r6, %r2, %r5;\nmov.u32 %r9, 0;\n@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\n\
             mbarrier.init.shared.b64 [bars+8], 1;\nREADY:\nbar.sync 0;\n@%p2 bra OTHER;\n@%p1 bra END;\n{expect}\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 2048, [bars]; // copy\n{}bra END;\n\
             OTHER:\nsetp.ne.u32 %p5, %r3, 32;\n@%p5 bra END;\n{EXPECT} [%r6], 512;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data+2048], [%rd1], 512, [%r6];\nEND:",
            wait("bars", "A")
        )
    };
    assert_eq!(loud(64, &body(&format!("{EXPECT} [bars], 2048;"))), NOTHING);
    assert_eq!(loud(64, &body("")), only("PI303", "copy"));
}

#[test]
fn polls_that_nobody_answers() {
    let body = |wait: &str| {
        format!(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nREADY:\nbar.sync 0;\nmov.u32 %r4, 0;\nLOOP:\n{wait}\n\
             cp.async.bulk.prefetch.L2.global [%rd1], 1024;\nadd.s32 %r4, %r4, 1;\nsetp.lt.s32 %p5, %r4, %r1;\n@%p5 bra LOOP;\nEND:"
        )
    };
    let poll = "mbarrier.try_wait.parity.shared.b64 %p4, [bars], 0; // wait\nselp.b32 %r5, 1, 0, %p4;\nsetp.ne.s32 %p6, %r5, 0;\n\
                @%p6 bra END;";
    assert_eq!(loud(64, &body(poll)), NOTHING);
    let spin = "W:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars], 0; // wait\n@!%p4 bra W;";
    assert_eq!(loud(64, &body(spin)), only("PI302", "wait"));
}
