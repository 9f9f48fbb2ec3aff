//! Any text as a part of a gate, merged with itself: it is a run or an error, and what is read is written so that it reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::gate::{Part, Times, Wanted, join};

fuzz_target!(|data: &[u8]| {
    let _ = Times::parse(data).map(|times| times.costs([("a", 7), ("b", 0)].into_iter()));
    let Ok(part) = Part::parse("part.json", data) else { return };
    let text = serde_json::to_vec(&part).expect("a part is JSON");
    assert_eq!(Part::parse("part.json", &text).expect("what we write we read"), part);
    let wanted = |piece: &ptxinspect::gate::Piece| Wanted {
        path: piece.path.clone(),
        input: piece.path.clone(),
        at: piece.at,
        what: piece.what.clone(),
        bytes: piece.bytes,
        ptxas: 0,
    };
    let wanted: Vec<Wanted> = part.pieces.iter().map(wanted).collect();
    let stamp = part.stamp.clone();
    let _ = join(vec![("one".to_owned(), part.clone())], &stamp, &wanted);
    let _ = join(vec![("one".to_owned(), part.clone()), ("two".to_owned(), part)], &stamp, &wanted);
});
