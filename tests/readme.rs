//! Pages show what the program prints: every console block is run. `BLESS=1` writes what is printed now.

mod support;

use std::path::Path;

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
fn pages_show_what_the_program_prints() {
    if ptxas().is_none() {
        return;
    }
    for page in ["README.md", "docs/how-it-works.md"] {
        shows_what_is_printed(&root(page));
    }
}

fn shows_what_is_printed(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut blessed = text.clone();
    let found = blocks(&text);
    assert!(!found.is_empty(), "{} shows nothing", path.display());
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

/// Links inside the repository, and files named in backticks.
#[test]
fn pages_name_files_that_are_there() {
    let mut pages = vec![root("README.md"), root("CONTRIBUTING.md"), root("CHANGELOG.md")];
    pages.extend(std::fs::read_dir(root("docs")).unwrap().map(|entry| entry.unwrap().path()));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let links = links.filter(|link| !link.contains("://")).map(|link| link.split('#').next().unwrap_or(""));
        for link in links.filter(|link| !link.is_empty()) {
            assert!(page.with_file_name(link).exists(), "{} links to {link}", page.display());
        }
        for name in text.split('`').skip(1).step_by(2).filter(|name| name.starts_with("docs/")) {
            assert!(root(name).exists(), "{} names {name}", page.display());
        }
    }
}
