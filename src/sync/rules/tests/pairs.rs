//! Pairs of kernels, one that breaks a rule and one that keeps it: `testdata/rules` has one file a family, and every page of a rule of
//! these families a pair of its own.
//!
//! In the files a pair starts with `=== what is broken | code`; lines that start with `-` are of the broken kernel alone, those with `+`
//! of the right one. The broken line ends with `// <-`.

use std::path::{Path, PathBuf};

use super::findings;
use crate::base::codes::PAGES;
use crate::sync::rules::finding::Confidence;

/// What is told of a kernel, as code and line.
fn told(text: &str) -> Vec<(&'static str, u32)> {
    let found = findings(text).into_iter().filter(|(.., confidence)| *confidence > Confidence::Possible);
    found.map(|(_, code, line, _)| (code, line)).collect()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rules");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The lines of a pair that one of its kernels has.
fn side(pair: &str, mark: char) -> String {
    let is_there = |line: &&str| line.starts_with(' ') || line.starts_with(mark);
    pair.lines().filter(is_there).map(|line| format!("{}\n", &line[2..])).collect()
}

#[test]
fn broken_kernels_are_told_and_right_ones_are_not() {
    let mut pairs = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        for pair in text.split("=== ").skip(1) {
            let (head, pair) = pair.split_once('\n').unwrap();
            let (what, code) = head.split_once(" | ").unwrap();
            let (broken, right) = (side(pair, '-'), side(pair, '+'));
            let line = broken.lines().position(|line| line.ends_with("// <-")).unwrap() as u32 + 1;
            let found = told(&broken);
            assert!(
                found.contains(&(PAGES.iter().find(|(known, _)| *known == code).unwrap().0, line)),
                "{what}: {found:?}"
            );
            assert_eq!(told(&right), [], "{what}, right");
            pairs += 1;
        }
    }
    assert!(pairs > 100, "{pairs} pairs");
}

/// A kernel around the example of a page, whose first line says what it is for: `// sm_90a, 128 threads, 2 blocks`.
fn kernel(example: &str) -> String {
    let mut words = example.lines().next().unwrap().trim_start_matches("// ").split(", ");
    let target = words.next().unwrap();
    let threads = words.next().unwrap().trim_end_matches(" threads");
    let cluster = words
        .next()
        .map_or(String::new(), |blocks| format!(".reqnctapercluster {}, 1, 1\n", blocks.trim_end_matches(" blocks")));
    format!(
        ".version 8.8\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n, .param .align 64 .b8 map[128])\n\
         .reqntid {threads}, 1, 1\n{cluster}{{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
         .reg .f32 %f<30>;\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nld.param.u32 %r3, [n];\nmov.u32 %r1, %tid.x;\n\
         and.b32 %r2, %r1, 31;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.ne.u32 %p2, %r3, 0;\n{example}\nret;\n}}\n"
    )
}

#[test]
fn the_examples_of_the_pages_are_what_they_say() {
    let mut pages = 0;
    for (code, page) in PAGES {
        let example = |title: &str| {
            let (_, rest) = page.split_once(&format!("{title}:\n\n```ptx\n"))?;
            let example = rest.split_once("\n```")?.0;
            // Of what is executed they are whole kernels, with tests of their own.
            match example.starts_with("// sm_") {
                true => Some(kernel(example)),
                false => (example.starts_with(".version") && !code.starts_with("PI7")).then(|| example.to_owned()),
            }
        };
        let Some((broken, right)) = example("Broken").zip(example("Right")) else { continue };
        let found = told(&broken);
        assert!(found.iter().any(|(told, _)| told == code), "{code}: {found:?}\n{broken}");
        assert_eq!(told(&right), [], "{code}, right\n{right}");
        pages += 1;
    }
    assert!(pages > 10, "{pages} pages");
}
