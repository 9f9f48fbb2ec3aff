use super::*;
use crate::cost::tests::code;

/// `testdata/cost/waits.ptx` as ptxas 13.4 makes it for sm_90a.
#[test]
fn what_waits_is_told_from_what_gets_on() {
    let code = code(&include_str!("../../../testdata/cost/waits.hex").replace('\n', ""));
    let found = progress(&code);
    let start = |id: LoopId| {
        let header = code.loops().loops.get(id).unwrap().header;
        code.cfg.blocks[header.0 as usize].start * 16
    };
    let mut told: Vec<(u32, u32, Progress)> = found
        .iter_enumerated()
        .map(|(id, progress)| (start(id), code.loops().loops.get(id).unwrap().depth, *progress))
        .collect();
    told.sort_by_key(|(start, depth, _)| (*start, *depth));
    use Progress::{Once, Repeats, Waits};
    let expected = [
        (0xd0, 1, Repeats),
        // With a counter for its patience.
        (0x150, 2, Waits),
        // A lock.
        (0x240, 2, Waits),
        (0x2c0, 2, Repeats),
        // The copy, for one lane after the other.
        (0x510, 2, Once),
        (0x5c0, 2, Waits),
    ];
    assert_eq!(told, expected);
}
