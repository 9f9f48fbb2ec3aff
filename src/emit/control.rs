//! What instructions tell the scheduler, in a few letters or in words.

use crate::report::listing::ListedControl;

/// Scoreboards and stall count, in the order they act: wait for, read and write signals, yield, stall.
pub fn control(control: &ListedControl) -> String {
    let waits: String =
        (0..6u8).map(|bit| if control.wait.contains(&bit) { char::from(b'0' + bit) } else { '-' }).collect();
    let signal = |barrier: Option<u8>| barrier.map_or('-', |number| char::from(b'0' + number.min(9)));
    let yields = if control.yields { 'Y' } else { '-' };
    format!(
        "B{waits}:R{}:W{}:{yields}:S{:02}",
        signal(control.read_barrier),
        signal(control.write_barrier),
        control.stall
    )
}

/// The same as a sentence: what it waits for, what it releases, when the next one may issue, what is kept.
pub fn explained(control: &ListedControl) -> String {
    let mut parts = Vec::new();
    if !control.wait.is_empty() {
        parts.push(format!("waits for {}", scoreboards(&control.wait)));
    }
    match (control.write_barrier, control.read_barrier) {
        (Some(write), Some(read)) if write == read => {
            parts.push(format!("releases scoreboard {write} when its operands are read and its result is there"));
        }
        (write, read) => {
            parts.extend(write.map(|board| format!("releases scoreboard {board} when its result is there")));
            parts.extend(read.map(|board| format!("releases scoreboard {board} when its operands are read")));
        }
    }
    parts.push(match control.stall {
        0 => "the next one may issue with it".to_owned(),
        1 => "the next one may issue a cycle later".to_owned(),
        cycles => format!("the next one may issue {cycles} cycles later"),
    });
    if control.yields {
        parts.push("another warp should go first".to_owned());
    }
    match control.reuse.as_slice() {
        [] => {}
        [one] => parts.push(format!("source operand {one} is kept for the next one to reuse")),
        more => parts.push(format!("source operands {} are kept for the next one to reuse", listed(more))),
    }
    parts.join("; ")
}

fn scoreboards(boards: &[u8]) -> String {
    let noun = if boards.len() == 1 { "scoreboard" } else { "scoreboards" };
    format!("{noun} {}", listed(boards))
}

/// `0, 2 and 5`
fn listed(numbers: &[u8]) -> String {
    let texts: Vec<String> = numbers.iter().map(u8::to_string).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => texts.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bits_are_said_in_words() {
        let plain = ListedControl {
            stall: 1,
            yields: false,
            write_barrier: None,
            read_barrier: None,
            wait: Vec::new(),
            reuse: Vec::new(),
        };
        assert_eq!(explained(&plain), "the next one may issue a cycle later");
        let load =
            ListedControl { wait: vec![0, 2, 5], write_barrier: Some(1), read_barrier: Some(3), ..plain.clone() };
        assert_eq!(
            explained(&load),
            "waits for scoreboards 0, 2 and 5; releases scoreboard 1 when its result is there; releases scoreboard 3 when its operands \
             are read; the next one may issue a cycle later"
        );
        let kept = ListedControl { stall: 4, yields: true, reuse: vec![0, 1], ..plain };
        assert_eq!(
            explained(&kept),
            "the next one may issue 4 cycles later; another warp should go first; source operands 0 and 1 are kept for the next one to \
             reuse"
        );
    }
}
