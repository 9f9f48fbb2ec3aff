//! The few colours there are.

use anstyle::{AnsiColor, Reset, Style};

/// Names.
pub const BOLD: Style = Style::new().bold();
/// Labels and asides.
pub const DIM: Style = Style::new().dimmed();
/// Fine.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Worth knowing.
pub const NOTE: Style = AnsiColor::Cyan.on_default().bold();
/// Worth a look.
pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Back to plain.
pub const RESET: Reset = Reset;
/// Every code that the above are written with: no other leaves.
pub const COLOURS: [&[u8]; 7] =
    [b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\x1b[31m", b"\x1b[32m", b"\x1b[33m", b"\x1b[36m"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_written_with_codes_that_leave() {
        let styles = [BOLD, DIM, GOOD, NOTE, WARN, BAD].map(|style| style.to_string());
        for style in styles.into_iter().chain([RESET.to_string()]) {
            let mut rest = style.as_bytes();
            while !rest.is_empty() {
                let known = COLOURS.iter().find(|known| rest.starts_with(known)).unwrap();
                rest = &rest[known.len()..];
            }
        }
    }
}
