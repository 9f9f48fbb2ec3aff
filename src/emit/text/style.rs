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
