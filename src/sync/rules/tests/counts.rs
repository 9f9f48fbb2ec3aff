//! Counts of named barriers and mbarriers, against who comes and who came before.

use super::rounds::{NOTHING, loud, only};

/// Four warps and a fifth that meet twice, each at a line of its own.
fn in_pairs(counts: [u32; 4]) -> String {
    let [a, b, c, d] = counts;
    format!(
        "setp.ge.u32 %p4, %r3, 128;\n@%p4 bra FIFTH;\nLOOP:\nbar.sync 2, {a}; // a\nbar.sync 2, {b}; // b\nadd.s32 %r1, %r1, -1;\n\
         setp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;\nbra END;\nFIFTH:\nbar.sync 2, {c}; // c\nbar.sync 2, {d}; // d\n\
         add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra FIFTH;\nEND:"
    )
}

#[test]
fn a_site_that_is_content_with_its_own_warps_where_others_meet() {
    assert_eq!(loud(160, &in_pairs([160; 4])), NOTHING);
    assert_eq!(loud(160, &in_pairs([128, 160, 160, 160])), only("PI203", "a"));
    assert_eq!(loud(160, &in_pairs([160, 160, 160, 32])), only("PI203", "d"));
}

#[test]
fn a_barrier_of_all_that_some_use_again() {
    // As compilers do: all of the block at first, then the warps of one role.
    let body = |own: u32| {
        format!(
            "bar.sync 1, 160;\nbar.sync 1, 160;\nsetp.ge.u32 %p4, %r3, 128;\n@%p4 bra END;\nbar.sync 1, {own}; // own\nEND:"
        )
    };
    assert_eq!(loud(160, &body(128)), NOTHING);
}

/// Four warps meet; the first of them arrives once more, and all wait for that.
fn with_an_arrival(counts: [u32; 3]) -> String {
    let [meet, arrive, wait] = counts;
    format!(
        "LOOP:\nbar.sync 1, {meet}; // meet\n@%p2 bra WAIT;\nbar.arrive 1, {arrive}; // arrive\nWAIT:\nbar.sync 1, {wait}; // wait\n\
         add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra LOOP;"
    )
}

#[test]
fn those_who_arrive_and_then_wait() {
    assert_eq!(loud(128, &with_an_arrival([128, 160, 160])), NOTHING);
    assert_eq!(loud(128, &with_an_arrival([160, 160, 160])), only("PI203", "meet"));
    assert_eq!(loud(128, &with_an_arrival([128, 128, 160])), only("PI203", "arrive"));
    assert_eq!(loud(128, &with_an_arrival([128, 160, 128])), only("PI203", "wait"));
    assert_eq!(loud(128, &with_an_arrival([96, 160, 160])), only("PI204", "meet"));
}

#[test]
fn barriers_that_warps_take_in_turns() {
    // Each of two warps has a partner among the next two, and two barriers with it for alternate rounds.
    let body = |arrive: u32, wait: u32| {
        format!(
            "ld.param.u32 %r9, [n];\nshr.u32 %r4, %r3, 5;\nand.b32 %r4, %r4, 1;\nsetp.ge.u32 %p4, %r3, 64;\nLOOP:\n\
             shl.b32 %r5, %r9, 1;\nand.b32 %r5, %r5, 2;\nadd.s32 %r6, %r4, %r5;\nadd.s32 %r6, %r6, 3;\n@%p4 bra WAIT;\n\
             bar.arrive %r6, {arrive}; // arrive\nbra NEXT;\nWAIT:\nbar.sync %r6, {wait}; // wait\nNEXT:\nadd.s32 %r9, %r9, 1;\n\
             setp.ne.s32 %p6, %r9, 100;\n@%p6 bra LOOP;"
        )
    };
    assert_eq!(loud(128, &body(64, 64)), NOTHING);
    // Once for each of the four barriers.
    let all = |mark: &str| vec![("PI203", mark.to_owned()); 4];
    assert_eq!(loud(128, &body(64, 96)), all("wait"));
    assert_eq!(loud(128, &body(32, 64)), all("arrive"));
}

/// Warp 0 fills a buffer ahead of a loop and in it, warp 1 empties it; a third object counts warp 1 out.
fn full_and_empty(counts: [u32; 3]) -> String {
    let [full, empty, done] = counts;
    let fill = "mbarrier.arrive.expect_tx.shared.b64 _, [bars], 1024;\n\
                cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [bars];";
    format!(
        "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], {full}; // full\nmbarrier.init.shared.b64 [bars+8], {empty}; // empty\n\
         mbarrier.init.shared.b64 [bars+16], {done}; // done\nREADY:\nbar.sync 0;\nmov.u32 %r9, 0;\n@%p2 bra OTHER;\n@%p1 bra END;\n\
         {fill}\nFREE:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars+8], %r9;\n@!%p4 bra FREE;\n{fill}\nxor.b32 %r9, %r9, 1;\n\
         add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p6, %r1, 0;\n@%p6 bra FREE;\nDONE:\n\
         mbarrier.try_wait.parity.shared.b64 %p4, [bars+16], 0;\n@!%p4 bra DONE;\nbra END;\n\
         OTHER:\nmbarrier.try_wait.parity.shared.b64 %p4, [bars], %r9;\n@!%p4 bra OTHER;\nmbarrier.arrive.shared.b64 _, [bars+8];\n\
         xor.b32 %r9, %r9, 1;\nadd.s32 %r1, %r1, -1;\nsetp.ge.s32 %p6, %r1, 0;\n@%p6 bra OTHER;\n\
         mbarrier.arrive.shared.b64 _, [bars+16];\nEND:"
    )
}

#[test]
fn counts_of_one_phase() {
    assert_eq!(loud(64, &full_and_empty([1, 32, 32])), NOTHING);
    // Two instructions arrive, but never in one phase.
    assert_eq!(loud(64, &full_and_empty([2, 32, 32])), only("PI305", "full"));
    // With few that agree it may be that something is not understood; but a warp arrives as one.
    assert_eq!(loud(64, &full_and_empty([2, 31, 32])), only("PI310", "empty"));
    assert_eq!(loud(64, &full_and_empty([1, 31, 32])), only("PI310", "empty"));
}

#[test]
fn what_nobody_runs_announces_nothing() {
    // The second announcement, at any object, is for thread 200 of 64.
    let body = |expect: &str| {
        format!(
            "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], 1;\nREADY:\nbar.sync 0;\n\
             setp.eq.u32 %p4, %r3, 200;\n@%p4 bra DEAD;\n@%p1 bra WAIT;\n{expect}\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [bars]; // copy\nWAIT:\n\
             mbarrier.try_wait.parity.shared.b64 %p5, [bars], 0;\n@!%p5 bra WAIT;\nret;\nDEAD:\nshl.b32 %r5, %r1, 3;\n\
             add.s32 %r6, %r2, %r5;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024;"
        )
    };
    assert_eq!(loud(64, &body("mbarrier.arrive.expect_tx.shared.b64 _, [bars], 1024;")), NOTHING);
    assert_eq!(loud(64, &body("mbarrier.arrive.shared.b64 _, [bars];")), only("PI303", "copy"));
}

/// Two rounds by tensor maps: what is announced and copied in each.
fn mapped(first: [u32; 2], second: [u32; 2]) -> String {
    let round = |at: u32, [a, b]: [u32; 2]| {
        let copy = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes";
        let other = if b == 0 { String::new() } else { format!("mbarrier.expect_tx.shared.b64 [bars+{at}], {b};") };
        format!(
            "mbarrier.arrive.expect_tx.shared.b64 _, [bars+{at}], {a};\n{copy} [data], [%rd1, {{%r1}}], [bars+{at}]; // {at}\n\
             {other}\n{copy} [data+1024], [%rd1, {{%r1}}], [bars+{at}];\nW{at}:\n\
             mbarrier.try_wait.parity.shared.b64 %p4, [bars+{at}], 0;\n@!%p4 bra W{at};\n"
        )
    };
    format!(
        "@%p1 bra END;\nmbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], 1;\n{}{}END:",
        round(0, first),
        round(8, second)
    )
}

#[test]
fn the_same_copies_with_fewer_bytes() {
    assert_eq!(loud(32, &mapped([1024, 1024], [1024, 1024])), NOTHING);
    assert_eq!(loud(32, &mapped([1024, 1024], [1024, 0])), only("PI303", "8"));
    assert_eq!(loud(32, &mapped([2048, 0], [1024, 1024])), NOTHING);
}

#[test]
fn waits_of_one_role_are_not_followed_through_another() {
    // A number from memory says who waits and who fills, as a dispatch loop reads it: warp 1 waits, warp 0 fills, each once.
    let body = "@%p1 bra READY;\nmbarrier.init.shared.b64 [bars], 1;\nREADY:\nbar.sync 0;\nLOOP:\n@%p2 bra WAIT;\n@%p1 bra NEXT;\n\
                mbarrier.arrive.expect_tx.shared.b64 _, [bars], 1024;\n\
                cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [bars];\nbra NEXT;\nWAIT:\n\
                mbarrier.try_wait.parity.shared.b64 %p4, [bars], 0;\n@!%p4 bra WAIT;\nNEXT:\n@%p3 bra LOOP;";
    assert_eq!(loud(64, body), NOTHING);
}
