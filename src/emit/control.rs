//! What instructions tell the scheduler, in a few letters.

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
