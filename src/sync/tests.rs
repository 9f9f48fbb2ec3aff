//! Kernels of `testdata/sync`, made by `scripts/hardware fuzz` and run on an H200: what the head of each says it did
//! (`// hardware:`), what is to be found where (`// expect:` at the end of a line), and what mends it (`// mend:`).

use std::path::PathBuf;

use super::rules::finding::Confidence;
use super::{Answer, in_words};
use crate::ptx;
use crate::simt::{BlockSize, Graph};

/// What a file says, or what is found, in the same form: the verdict, findings as `line: code confidence`, the mend.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    verdict: Answer,
    findings: Vec<String>,
    mend: Option<String>,
}

fn kernels() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/sync");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn head<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().take_while(|line| line.starts_with("//")).find_map(|line| line.strip_prefix(&format!("// {key}: ")))
}

fn found(text: &str) -> Said {
    let module = ptx::parse(text);
    let function = module.functions().find(|function| function.is_definition()).unwrap();
    let header = function.header();
    let exact = header.required_threads().is_some();
    let dimensions = header.required_threads().or(header.max_threads()).unwrap();
    let graph = Graph::build(&function);
    let checked = super::check(&function, &graph, BlockSize { dimensions, exact }, &[]).unwrap();
    let finding = checked.finding.as_ref().filter(|finding| finding.confidence > Confidence::Possible);
    let findings = finding.map(|finding| {
        let confidence = if finding.confidence == Confidence::Certain { "certain" } else { "likely" };
        format!("{}: {} {confidence}", finding.line, finding.code)
    });
    Said {
        verdict: checked.verdict.answer(),
        findings: findings.into_iter().collect(),
        mend: checked.mend.as_ref().map(|mend| in_words(mend, &module)),
    }
}

/// What hardware did is the judge: nobody blesses this.
#[test]
fn verdicts_agree_with_hardware() {
    for (path, text) in kernels() {
        let said = found(&text);
        let name = path.display();
        match head(&text, "hardware").unwrap() {
            "runs" => {
                assert_eq!(said.verdict, Answer::Ends, "{name} runs");
                assert!(said.findings.is_empty(), "{name} runs: {said:?}");
            }
            outcome => {
                assert_ne!(said.verdict, Answer::Ends, "{name} {outcome}");
                assert_eq!(said.findings.len(), 1, "{name} {outcome}: {said:?}");
            }
        }
    }
}

/// `PTXINSPECT_BLESS=1` writes what is found into the files.
#[test]
fn findings_stand_where_the_files_say() {
    for (path, text) in kernels() {
        let said = found(&text);
        if std::env::var_os("PTXINSPECT_BLESS").is_some() {
            std::fs::write(&path, blessed(&text, &said)).unwrap();
            continue;
        }
        let marks = (1..)
            .zip(text.lines())
            .filter_map(|(line, text): (u32, &str)| Some(format!("{line}: {}", text.split_once("// expect: ")?.1)));
        assert_eq!(marks.collect::<Vec<_>>(), said.findings, "{}", path.display());
        assert_eq!(head(&text, "mend"), Some(said.mend.as_deref().unwrap_or("none")), "{}", path.display());
    }
}

/// A text with what is found. The head keeps its lines: a mend stands where the finding was asked for.
fn blessed(text: &str, said: &Said) -> String {
    let mut lines: Vec<String> =
        text.lines().map(|line| line.split(" // expect: ").next().unwrap().to_owned()).collect();
    for finding in &said.findings {
        let (line, rest) = finding.split_once(": ").unwrap();
        let line: usize = line.parse().unwrap();
        lines[line - 1] += &format!(" // expect: {rest}");
    }
    let at = lines.iter().position(|line| line.starts_with("// hardware: ")).unwrap() + 1;
    let mend = format!("// mend: {}", said.mend.as_deref().unwrap_or("none"));
    if lines[at].starts_with("// mend: ") {
        lines[at] = mend;
    } else {
        lines.insert(at, mend);
    }
    lines.join("\n") + "\n"
}
