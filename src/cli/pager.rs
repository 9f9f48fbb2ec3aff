//! Long text on a terminal goes through a pager, as git's does: `PTXINSPECT_PAGER`, `PAGER`, or `less`.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::engine::compile::environment;

/// Shows a text page by page. Whether it was: not where it fits on the screen, nobody wants a pager, or there is none.
pub fn show(text: &[u8]) -> bool {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() || fits(text) {
        return false;
    }
    let Ok(env) = environment() else { return false };
    let named = env.var("PTXINSPECT_PAGER").or_else(|| env.var("PAGER")).and_then(|name| name.to_str());
    let command = named.unwrap_or("less");
    let mut words = command.split_whitespace();
    let (Some(program), arguments) = (words.next(), words) else { return false };
    if program == "cat" {
        return false;
    }
    // A bare name is a program on PATH, never one in the current folder.
    let Some(program) = env.program_on_path(program) else { return false };
    let mut pager = Command::new(program);
    pager.args(arguments).stdin(Stdio::piped());
    if env.var("LESS").is_none() {
        pager.env("LESS", "FRX");
    }
    let Ok(mut child) = pager.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A reader that leaves has seen enough.
        let _ = input.write_all(text);
    }
    child.wait().is_ok()
}

/// Whether a text fits on the screen.
fn fits(text: &[u8]) -> bool {
    let Some((width, height)) = terminal_size::terminal_size() else { return true };
    let (width, height) = (usize::from(width.0).max(1), usize::from(height.0));
    let rows = |line: &[u8]| (line.len().div_ceil(width * 2)).max(1);
    text.split(|byte| *byte == b'\n').map(rows).sum::<usize>() < height
}
