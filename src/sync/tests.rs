//! Kernels of `testdata/sync`, made by `scripts/hardware fuzz` and run on an H200: what the head of each says it did
//! (`// hardware:`), what is to be found where (`// expect:` at the end of a line), and what mends it (`// mend:`).

use std::path::PathBuf;

use super::execute::Launch;
use super::program::Program;
use super::rules::finding::Confidence;
use super::verdict::{Limits, judge};
use super::{Answer, in_words};
use crate::ptx::{self, Function, FunctionKind};
use crate::simt::{BlockSize, Graph, with_callees};
use crate::sync::Effort;

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
    let is_kernel = |function: &Function<'_, '_>| function.is_definition() && function.kind() == FunctionKind::Entry;
    let own = ptx::parse(text);
    let inlined = own.functions().find(is_kernel).and_then(|kernel| with_callees(&kernel));
    let module = inlined.as_deref().map_or_else(|| ptx::parse(text), ptx::parse);
    let function = module.functions().find(is_kernel).unwrap();
    let header = function.header();
    let exact = header.required_threads().is_some();
    let dimensions = header.required_threads().or(header.max_threads()).unwrap();
    let graph = Graph::build(&function);
    let checked =
        super::execute_kernel(&function, &graph, BlockSize { dimensions, exact }, &[], Effort::Usual).unwrap();
    let finding = checked.finding.as_ref().filter(|finding| finding.confidence > Confidence::Possible);
    let findings = finding.map(|finding| {
        let confidence = if finding.confidence == Confidence::Certain { "certain" } else { "likely" };
        format!("{}: {} {confidence}", finding.line, finding.rule)
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

/// The text with the change that mends it; none where that cannot be told to the letter.
fn mended(text: &str) -> Option<String> {
    let module = ptx::parse(text);
    // What is called has no line of its own.
    if module.functions().any(|function| function.kind() == FunctionKind::Func) {
        return None;
    }
    let function = module.functions().find(|function| function.is_definition())?;
    let graph = Graph::build(&function);
    let dimensions = function.header().required_threads().or(function.header().max_threads())?;
    let size = BlockSize { dimensions, exact: true };
    let checked = super::execute_kernel(&function, &graph, size, &[], Effort::Usual)?;
    let mend = checked.mend?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in std::iter::once(&mend.line).chain(&mend.also) {
        let patch = mend.patch(*line, &graph, &checked.program)?;
        let line = lines.get_mut(line.0 as usize - 1)?;
        assert!(line.contains(patch.before), "{line}: {patch:?}");
        *line = line.replacen(patch.before, &patch.after, 1);
    }
    Some(lines.join("\n"))
}

/// What is executed and what is written are the same change.
#[test]
fn a_mended_text_ends() {
    let mut count = 0;
    for (path, text) in kernels() {
        let Some(text) = mended(&text) else { continue };
        let said = found(&text);
        assert_eq!(said.verdict, Answer::Ends, "{}: {said:?}\n{text}", path.display());
        count += 1;
    }
    assert!(count > 20, "{count} kernels are mended");
}

/// A block alone comes to blocks that it has none of: it says nothing of a kernel that is made for two.
#[test]
fn a_launch_that_lacks_blocks_refutes_nothing() {
    let text = include_str!("../../testdata/shapes/launched_cluster.ptx");
    let said = found(text);
    assert_eq!((said.verdict, said.findings.len()), (Answer::Ends, 0));
    let said = found(&text.replace("[%r3], 4;", "[%r3], 3;"));
    assert_eq!((said.verdict, said.findings), (Answer::Undefined, vec!["17: PI310 likely".to_owned()]));
}

/// Tiles that two blocks do not share evenly leave one of them waiting: hosts give none. What hangs with even ones is told.
#[test]
fn tiles_that_blocks_do_not_share_evenly() {
    let text = include_str!("../../testdata/shapes/shared_tiles.ptx");
    let said = found(text);
    assert_eq!((said.verdict, said.findings), (Answer::Hangs, Vec::new()));
    let said = found(&text.replace("[%r3], 2;", "[%r3], 3;"));
    assert_eq!(said.findings, vec!["17: PI305 likely".to_owned()]);
}

/// Columns that nobody has are told by a rule, and keep nobody from going on.
#[test]
fn columns_given_back_twice_hide_no_hang() {
    let text = |waits: &str| {
        format!(
            ".version 8.7\n.target sm_100a\n.address_size 64\n.entry k() .reqntid 64 {{\n.shared .align 4 .b32 at;\n.reg .b32 %r<2>;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], 32;\nbar.sync 0;\nld.shared.b32 %r1, [at];\n\
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;\n\
             bar.sync 1, {waits};\nret;\n}}\n"
        )
    };
    assert_eq!(found(&text("64")).verdict, Answer::Ends);
    assert_eq!(found(&text("96")).verdict, Answer::Hangs);
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

/// A kernel of so many threads, in a cluster where it says so.
fn kernel(threads: u32, cluster: u32, body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k()\n.reqntid {threads}, 1, 1\n\
         .reqnctapercluster {cluster}, 1, 1\n.maxnreg 64\n{{\n.reg .pred %p<4>;\n.reg .b16 %rs<2>;\n.reg .b32 %r<16>;\n\
         .reg .b64 %rd<4>;\n.shared .align 8 .b64 b;\n.shared .align 128 .b8 m[1024];\nmov.u32 %r1, %tid.x;\n\
         setp.eq.u32 %p1, %r1, 0;\n{body}ret;\n}}\n"
    )
}

/// One warp of hundreds that goes on alone, copies that stay under way, lanes that all differ: what an execution costs is bounded, not only
/// how many instructions it runs.
#[test]
fn work_beside_instructions_is_bounded() {
    let wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0;\n@!%p2 bra W;\n";
    let turns = "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 1000000;\n@%p3 bra L;\n";
    let alone = kernel(1024, 16, &format!("@!%p1 bra E;\nL: st.shared.b32 [m], %r2;\n{turns}E: bar.sync 0;\n"));
    let copies = kernel(
        1024,
        16,
        &format!(
            "@%p1 mbarrier.init.shared.b64 [b], 1;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
             mov.u16 %rs1, 65535;\n@!%p1 bra E;\nL: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx\
             ::bytes.multicast::cluster [m], [%rd1, {{%r3, %r3}}], [b], %rs1;\n{turns}E:\n{wait}"
        ),
    );
    let lanes = kernel(
        1024,
        1,
        &format!(
            "L: mad.lo.u32 %r3, %r1, 8, %r2;\nst.shared.b32 [%r3+1024], %r3;\natom.shared.add.u32 %r4, [m], 8;\n{turns}\
             bar.sync 0;\n"
        ),
    );
    for text in [alone, copies, lanes] {
        let module = ptx::parse(&text);
        let function = module.functions().next().unwrap();
        let program = Program::of(&function, &Graph::build(&function));
        let header = function.header();
        let cluster = header.required_cluster().unwrap();
        let launch = Launch { block: header.required_threads().unwrap(), cluster, registers: Some(64) };
        let limits = Limits { pieces: 2_000_000, ..Limits::default() };
        let (_, _, took) = judge(&program, &[launch], limits).unwrap();
        assert!(took.pieces < 2 * limits.pieces, "{took:?}");
    }
}

/// Thousands of instructions that could be changed: what is suggested is not compared with all that was suggested before.
#[test]
fn suggestions_are_bounded() {
    let many = "setmaxnreg.inc.sync.aligned.u32 256;\nsetmaxnreg.inc.sync.aligned.u32 248;\n".repeat(4_000);
    let text = kernel(1024, 1, &format!("{many}bar.sync 0;\n"));
    let started = std::time::Instant::now();
    assert_eq!(found(&text).verdict, Answer::Hangs);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
