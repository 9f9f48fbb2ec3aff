//! The README shows what the program prints: every console block is run. `BLESS=1` writes what is printed now.

mod support;

use support::{program, ptxas, root};

/// A console block: where its answer stands, and the command.
struct Block {
    start: usize,
    end: usize,
    command: String,
}

/// Every block of the form "```console", `$ ptxinspect …`, answer, "```".
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("```console\n$ ptxinspect ") {
        let line = at + found + "```console\n".len();
        let start = line + text[line..].find('\n').expect("an answer") + 1;
        let end = start + text[start..].find("```").expect("an end");
        blocks.push(Block { start, end, command: text[line + "$ ptxinspect ".len()..start - 1].to_owned() });
        at = end;
    }
    blocks
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    if ptxas().is_none() {
        return;
    }
    let path = root("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut blessed = text.clone();
    let found = blocks(&text);
    assert!(!found.is_empty(), "the README shows nothing");
    let bless = std::env::var_os("BLESS").is_some();
    for block in found.iter().rev() {
        let output = program().args(block.command.split_whitespace()).current_dir(root("")).output().unwrap();
        assert!(output.status.success(), "{}: {}", block.command, support::stderr(&output));
        let printed = support::stdout(&output);
        if !bless {
            assert_eq!(&text[block.start..block.end], printed, "{}", block.command);
        }
        blessed.replace_range(block.start..block.end, &printed);
    }
    if bless {
        std::fs::write(path, blessed).unwrap();
    }
}
