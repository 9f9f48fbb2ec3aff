//! Names that would break out of a format, in every format.

use super::*;
use crate::base::Line;
use crate::compare::LoopChange;
use crate::gate::{
    Baseline, Change, Check, Comparison, Date, FigureChange, Finding, FindingKind, GATE_SCHEMA, Level, Metric, Outcome,
    Patch, Policy, Scope, Totals, UnitVerdict, Verdict, check,
};
use crate::report::timeline::Kind;
use crate::report::{FirstWrong, Mended, MendedLine, PtxasFile, Stands};

const EVIL: &str = "k<script>|`%,::error\n\x1b[31m]]>&\"'@a";

fn verdict() -> Verdict {
    let finding = Finding {
        kind: FindingKind::Regression,
        level: Level::Failure,
        input: Some(EVIL.to_owned()),
        path: Some(EVIL.to_owned()),
        arch: Some("sm_90a".to_owned()),
        kernel: Some(EVIL.to_owned()),
        metric: Some("registers".to_owned()),
        before: Some(40),
        after: Some(48),
        ptx_line: Some(Line(12)),
        message: format!("{EVIL}: registers 40 → 48"),
        witness: vec![Stands {
            role: Some(EVIL.to_owned()),
            warps: vec![4, 5],
            block: 0,
            ptx_line: Line(187),
            kind: Kind::Mbarrier,
            waits_for: EVIL.to_owned(),
            arrived: Some(0),
            expected: Some(1),
            bytes: Some(0),
            bytes_expected: Some(32_768),
            phase: Some(1),
        }],
        mend: Some(Mended {
            change: EVIL.to_owned(),
            lines: vec![MendedLine {
                ptx_line: Line(12),
                column: Some(5),
                replaces: Some("bar.sync 1,\n 64;".to_owned()),
                instruction: Some("bar.sync 1, 96;".to_owned()),
            }],
            first_wrong: Some(FirstWrong { ptx_line: Line(11), text: EVIL.to_owned() }),
        }),
    };
    let lone = Finding { before: None, level: Level::Error, kind: FindingKind::NotKnown, ..finding.clone() };
    let kernel = Comparison {
        kernel: EVIL.to_owned(),
        demangled: EVIL.to_owned(),
        before_name: Some(EVIL.to_owned()),
        figures: vec![FigureChange::new(Metric::Registers, Some(40), Some(48), Change::Worse)],
        loops: vec![LoopChange {
            after_line: Some(Line(3)),
            before_line: None,
            depth: 1,
            shape: EVIL.to_owned(),
            hottest: false,
            before: 40,
            after: 48,
            outcome: crate::compare::Outcome::Worse,
        }],
        lines: Vec::new(),
        lines_from: Some(EVIL.to_owned()),
        patch: Some(Patch { before: Some(format!("```\n{EVIL}")), after: None }),
    };
    let unit = UnitVerdict {
        input: EVIL.to_owned(),
        path: EVIL.to_owned(),
        arch: "sm_90a".to_owned(),
        ptxas_before: None,
        ptxas: Some("13.4.92".to_owned()),
        command: Some(EVIL.to_owned()),
        kernels: vec![kernel],
    };
    Verdict {
        schema: GATE_SCHEMA.to_owned(),
        outcome: Outcome::Error,
        baseline: EVIL.to_owned(),
        ptxas_files: vec![PtxasFile { path: EVIL.to_owned(), version: None, reason: EVIL.to_owned() }],
        totals: Totals { kernels: 1, compared: 1, failed: 1, ..Totals::default() },
        findings: vec![finding, lone],
        units: vec![unit],
        patch: None,
    }
}

fn written(write: impl Fn(&Verdict, &mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&verdict(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn names_do_not_break_out() {
    let text = written(|verdict, out| write_text(verdict, &Options { verbose: true, width: 80 }, out));
    assert!(!text.contains("\x1b[31m]]"), "{text}");
    for (format, page) in [("html", written(write_html)), ("junit", written(write_junit))] {
        assert!(
            !page.contains("<script>") && !page.contains('\x1b') && page.contains("&lt;script&gt;"),
            "{format}: {page}"
        );
    }
    let github = written(write_github);
    for line in github.lines() {
        assert!(line.starts_with("::error file=") || line.starts_with("ptxinspect gate:"), "{github}");
    }
    assert!(github.contains("file=k<script>|`%25%2C%3A%3Aerror%0A"), "{github}");
    let markdown = written(write_markdown);
    let outside = markdown.split("```").next().unwrap();
    assert!(!outside.replace("`k<script>", "").contains("<script>"), "{markdown}");
    assert!(markdown.contains("````diff\n"), "a fence that nothing inside ends: {markdown}");
    let sarif: serde_json::Value = serde_json::from_str(&written(write_sarif)).unwrap();
    let uri = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert!(uri.as_str().unwrap().starts_with("k%3Cscript%3E%7C%60%25,%3A%3Aerror%0A%1B"), "{uri}");
    assert_eq!(sarif["runs"][0]["invocations"][0]["executionSuccessful"], false);
    // Where each role stands is a thread of its own.
    let flow = &sarif["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"][0];
    assert_eq!(flow["id"], format!("{EVIL} (warps 4 to 5)"));
    let location = &flow["locations"][0]["location"];
    assert_eq!(location["physicalLocation"]["region"]["startLine"], 187);
    let said = location["message"]["text"].as_str().unwrap();
    assert!(said.ends_with(", 0 of 1 arrivals, 0 of 32,768 bytes"), "{said}");
    // What mends it is a change that an editor can make.
    let change = &sarif["runs"][0]["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0];
    let region = serde_json::json!({"startLine": 12, "startColumn": 5, "endLine": 13, "endColumn": 5});
    assert_eq!(change["deletedRegion"], region);
    assert_eq!(change["insertedContent"]["text"], "bar.sync 1, 96;");
    let json: serde_json::Value = serde_json::from_str(&written(write_json)).unwrap();
    assert_eq!(json["units"][0]["kernels"][0]["kernel"], EVIL);
}

/// The case of all that is as recorded passes, whatever became of the others.
#[test]
fn a_case_that_passes_speaks_of_no_failure() {
    let totals = Totals { kernels: 3, compared: 3, failed: 1, ..Totals::default() };
    let mut out = Vec::new();
    write_junit(&Verdict { totals, baseline: "lock".to_owned(), ..verdict() }, &mut out).unwrap();
    let written = String::from_utf8(out).unwrap();
    let case = written.lines().find(|line| line.contains("classname=\"unchanged\"")).unwrap();
    assert_eq!(case.trim(), "<testcase classname=\"unchanged\" name=\"2 kernels are as lock has them\"/>");
}

#[test]
fn a_pass_is_said_in_every_format() {
    let policy = Policy::standard();
    let exists = |_: &str| true;
    let scope = Scope { kernels: &[], some_inputs: false, some_arches: false, some_ptxas: false, exists: &exists };
    let verdict = check(&Check {
        measured: &[],
        baseline: &Baseline::default(),
        policy: &policy,
        ratchet: false,
        today: Date::from_unix_seconds(0),
        scope: &scope,
        baseline_name: "lock",
    });
    let text = |write: &dyn Fn(&Verdict, &mut dyn Write) -> io::Result<()>| {
        let mut out = Vec::new();
        write(&verdict, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(text(&|v, o| write_text(v, &Options { verbose: false, width: 80 }, o)).contains("pass"));
    assert!(text(&|v, o| write_markdown(v, o)).contains("no register regression"));
    assert!(text(&|v, o| write_junit(v, o)).contains("failures=\"0\" errors=\"0\""));
    assert!(text(&|v, o| write_html(v, o)).contains("<title>ptxinspect gate: pass</title>"));
    assert!(!text(&|v, o| write_github(v, o)).contains("::error"));
}
