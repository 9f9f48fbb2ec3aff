//! Any text as a file of recorded figures: what is read is written so that it reads back the same, and can be drawn in every form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::emit::history::{Chart, write_html, write_json, write_svg, write_text};
use ptxinspect::gate::History;

fuzz_target!(|data: &[u8]| {
    let Ok(mut history) = History::parse(&String::from_utf8_lossy(data)) else { return };
    let text = history.to_text();
    let again = History::parse(&text).expect("what we write we read");
    assert_eq!(text, again.to_text());
    let records = history.records().to_vec();
    history.add(records);
    assert_eq!(text, history.to_text(), "to record again changes nothing");
    let (tracks, commits) = (history.tracks(|_| true), history.commits());
    for (width, all) in [(20, true), (80, false)] {
        let chart = Chart { file: "f", commits: &commits, tracks: &tracks, figures: &[], all, width, verbose: all };
        for write in [write_text, write_json, write_svg, write_html] {
            write(&chart, &mut Vec::new()).expect("memory takes everything");
        }
    }
});
