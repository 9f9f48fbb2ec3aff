//! Counts of mbarriers against the groups of threads that arrive as one, and rings of objects by what arrives at them.

use super::rounds::{NOTHING, loud, only};

/// A loop in which some threads arrive, and all wait.
fn meeting(count: u32, arrive: &str) -> String {
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {count}; // count\nREADY:\nbar.sync 0;\nmov.u32 %r9, 0;\nLOOP:\n{arrive}\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars], %r9;\n@!%p4 bra WAIT;\nxor.b32 %r9, %r9, 1;\nadd.s32 %r1, %r1, -1;\n\
         setp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
    )
}

#[test]
fn groups_that_arrive_as_one() {
    let all = "mbarrier.arrive.shared.b64 _, [bars];";
    assert_eq!(loud(128, &meeting(128, all)), NOTHING);
    assert_eq!(loud(128, &meeting(96, all)), only("PI310", "count"));
    assert_eq!(loud(128, &meeting(160, all)), only("PI305", "count"));
    // One lane of each of four warps.
    let lanes = "and.b32 %r4, %r3, 31;\nsetp.eq.u32 %p5, %r4, 0;\n@%p5 mbarrier.arrive.shared.b64 _, [bars];";
    assert_eq!(loud(128, &meeting(4, lanes)), NOTHING);
    assert_eq!(loud(128, &meeting(3, lanes)), only("PI310", "count"));
    let elected = "elect.sync _|%p5, -1;\n@%p5 mbarrier.arrive.shared.b64 _, [bars];";
    assert_eq!(loud(128, &meeting(4, elected)), NOTHING);
    assert_eq!(loud(128, &meeting(3, elected)), only("PI310", "count"));
    // Each counts for two.
    let twice = "mbarrier.arrive.shared.b64 _, [bars], 2;";
    assert_eq!(loud(128, &meeting(256, twice)), NOTHING);
    assert_eq!(loud(128, &meeting(192, twice)), only("PI310", "count"));
}

#[test]
fn threads_that_need_not_arrive_together() {
    // Memory says who.
    let some = "ld.shared.u32 %r4, [data];\nshl.b32 %r5, %r3, 2;\nadd.s32 %r5, %r5, %r4;\nld.shared.u32 %r6, [%r5];\n\
                setp.eq.u32 %p5, %r6, 0;\n@%p5 mbarrier.arrive.shared.b64 _, [bars];";
    assert_eq!(loud(128, &meeting(96, some)), NOTHING);
    // A lane that is elected, where a parameter says so.
    let one = "elect.sync _|%p5, -1;\nand.pred %p5, %p5, %p3;\n@%p5 mbarrier.arrive.shared.b64 _, [bars];";
    assert_eq!(loud(32, &meeting(1, one)), NOTHING);
    // Warps that go around as often as memory says for each.
    let body =
        meeting(96, "mbarrier.arrive.shared.b64 _, [bars];").replace("LOOP:\n", "LOOP:\nld.shared.u32 %r1, [data];\n");
    let each = body.replace("[data]", "[%r5]").replacen("mov.u32 %r9, 0;", "mov.u32 %r9, 0;\nshl.b32 %r5, %r3, 2;", 1);
    assert_eq!(loud(128, &body), only("PI310", "count"), "all read the same");
    assert_eq!(loud(128, &each), NOTHING);
}

/// A ring of three that warp 1 arrives at in a loop, its first turn before it, and warp 0 waits for.
fn ring(counts: [u32; 3]) -> String {
    let [a, b, c] = counts;
    let wrap = "add.s32 %r4, %r4, 1;\nsetp.eq.s32 %p5, %r4, 3;\nselp.b32 %r4, 0, %r4, %p5;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;";
    let place = "shl.b32 %r5, %r4, 3;\nadd.s32 %r6, %r2, %r5;";
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {a}; // a\nmbarrier.init.shared.b64 [bars+8], {b}; // b\n\
         mbarrier.init.shared.b64 [bars+16], {c}; // c\nREADY:\nbar.sync 0;\nmov.u32 %r9, 0;\n@%p2 bra OTHER;\nmov.u32 %r4, 0;\nWAIT:\n{place}\n\
         mbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n@!%p4 bra WAIT;\n{wrap}\n@%p6 bra WAIT;\nbra END;\nOTHER:\n\
         elect.sync _|%p7, -1;\n@!%p7 bra END;\nmbarrier.arrive.shared.b64 _, [bars];\nmov.u32 %r4, 1;\nMORE:\n{place}\n\
         mbarrier.arrive.shared.b64 _, [%r6];\n{wrap}\n@%p6 bra MORE;\nEND:"
    )
}

#[test]
fn a_ring_whose_first_turn_stands_before_the_loop() {
    assert_eq!(loud(64, &ring([1; 3])), NOTHING);
    assert_eq!(loud(64, &ring([2, 1, 1])), only("PI310", "a"));
    assert_eq!(loud(64, &ring([1, 2, 1])), only("PI310", "b"));
    assert_eq!(loud(64, &ring([1, 1, 2])), only("PI310", "c"));
}

/// Two pairs of warps have an object each; a warp of each pair arrives with one lane.
fn each_its_own(counts: [u32; 2]) -> String {
    let [a, b] = counts;
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {a}; // a\nmbarrier.init.shared.b64 [bars+8], {b}; // b\nREADY:\nbar.sync 0;\n\
         mov.u32 %r9, 0;\nshr.u32 %r4, %r3, 6;\nshl.b32 %r4, %r4, 3;\nadd.s32 %r6, %r2, %r4;\nLOOP:\nelect.sync _|%p5, -1;\n\
         @%p5 mbarrier.arrive.shared.b64 _, [%r6];\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r6], %r9;\n@!%p4 bra WAIT;\n\
         xor.b32 %r9, %r9, 1;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
    )
}

#[test]
fn threads_that_have_an_object_each() {
    assert_eq!(loud(128, &each_its_own([2, 2])), NOTHING);
    // Either may be wrong.
    let both = [only("PI310", "a"), only("PI310", "b")].concat();
    assert_eq!(loud(128, &each_its_own([1, 2])), both);
    assert_eq!(loud(128, &each_its_own([2, 3])), both);
}

#[test]
fn an_address_that_is_computed_anew() {
    // The announcement and the copy have an address each, computed alike from an index that nobody knows; so has a second round.
    let round = |from: u32, expect: bool, mark: &str| {
        let (place, again) = (from + 1, from + 3);
        let expect =
            if expect { format!("mbarrier.arrive.expect_tx.shared.b64 _, [%r{place}], 1024;") } else { String::new() };
        format!(
            "mov.u32 %r{from}, bars;\nadd.s32 %r{place}, %r{from}, %r5;\n{expect}\nmov.u32 %r{}, bars;\nadd.s32 %r{again}, %r{}, %r5;\n\
             cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1, {{%r1}}], [%r{again}]; // {mark}\n\
             add.s32 %r{}, %r{again}, 32;\n{mark}:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r{}], 0;\n@!%p4 bra {mark};\n",
            from + 2,
            from + 2,
            from + 4,
            from + 4
        )
    };
    let body = |first: bool, second: bool| {
        let inits: String = (0..8).map(|at| format!("mbarrier.init.shared.b64 [bars+{}], 1;\n", at * 8)).collect();
        format!(
            "ld.shared.u32 %r4, [data];\nshl.b32 %r5, %r4, 3;\n@%p1 bra END;\n{inits}{}add.s32 %r5, %r5, 8;\n{}\
             mbarrier.arrive.shared.b64 _, [bars+32];\nEND:",
            round(10, first, "first"),
            round(20, second, "second")
        )
    };
    assert_eq!(loud(32, &body(true, true)), NOTHING);
    assert_eq!(loud(32, &body(true, false)), only("PI303", "second"));
    assert_eq!(loud(32, &body(false, true)), only("PI303", "first"));
}

#[test]
fn a_barrier_that_its_own_warps_use_again_with_one_more() {
    // Eight warps meet, arrive for the one of them that stores, and it waits for them: as an epilogue does, tile by tile.
    let body = |meet: u32| {
        format!(
            "setp.lt.u32 %p4, %r3, 224;\nLOOP:\nbar.sync 1, {meet}; // meet\nbar.arrive 1, 288;\n@%p4 bra NEXT;\nbar.sync 1, 288; // store\n\
             NEXT:\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
        )
    };
    assert_eq!(loud(256, &body(256)), NOTHING);
    assert_eq!(loud(256, &body(288)), only("PI203", "meet"));
}
