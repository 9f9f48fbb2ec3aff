//! JUnit XML: a suite for each unit, a case for each kernel that has something to say.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::emit::escape::markup;
use crate::gate::{Finding, Level, Verdict};

/// Writes the verdict as test results. Findings that concern no unit are cases of a suite of their own.
pub fn write(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let mut suites: BTreeMap<String, BTreeMap<String, Vec<&Finding>>> = BTreeMap::new();
    for unit in &verdict.units {
        let suite = suites.entry(format!("{} {}", unit.input, unit.arch)).or_default();
        for kernel in &unit.kernels {
            suite.entry(kernel.kernel.clone()).or_default();
        }
    }
    for finding in &verdict.findings {
        let suite = match (&finding.input, &finding.arch) {
            (Some(input), Some(arch)) => format!("{input} {arch}"),
            _ => "policy".to_owned(),
        };
        let case = finding.kernel.clone().unwrap_or_else(|| finding.kind.id().to_owned());
        suites.entry(suite).or_default().entry(case).or_default().push(finding);
    }
    let count = |cases: &BTreeMap<String, Vec<&Finding>>, level: Level| {
        cases.values().filter(|findings| worst(findings) == Some(level)).count()
    };
    let total = |level: Level| suites.values().map(|cases| count(cases, level)).sum::<usize>();
    // Kernels with nothing to say are not listed one by one; the count says that they were looked at.
    let listed: usize = suites.values().map(BTreeMap::len).sum();
    let quiet = usize::try_from(verdict.totals.kernels).unwrap_or(usize::MAX).saturating_sub(listed);
    let tests = listed + usize::from(quiet > 0 || listed == 0);
    let (failures, errors) = (total(Level::Failure), total(Level::Error));
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"ptxinspect gate\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"
    )?;
    if quiet > 0 || listed == 0 {
        writeln!(out, "  <testsuite name=\"unchanged\" tests=\"1\" failures=\"0\" errors=\"0\">")?;
        writeln!(
            out,
            "    <testcase classname=\"unchanged\" name=\"{}\"/>",
            escape(&match quiet {
                0 => format!("nothing to compare with {}", verdict.baseline),
                1 => format!("1 kernel is as {} has it", verdict.baseline),
                quiet if verdict.totals.functions == 0 =>
                    format!("{quiet} kernels are as {} has them", verdict.baseline),
                quiet => format!("{quiet} kernels and device functions are as {} has them", verdict.baseline),
            })
        )?;
        writeln!(out, "  </testsuite>")?;
    }
    for (name, cases) in &suites {
        let (failures, errors) = (count(cases, Level::Failure), count(cases, Level::Error));
        writeln!(
            out,
            "  <testsuite name=\"{0}\" tests=\"{1}\" failures=\"{failures}\" errors=\"{errors}\">",
            escape(name),
            cases.len()
        )?;
        for (case, findings) in cases {
            write_case(name, case, findings, out)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn worst(findings: &[&Finding]) -> Option<Level> {
    findings.iter().map(|finding| finding.level).max()
}

fn write_case(suite: &str, case: &str, findings: &[&Finding], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escape(suite), escape(case))?;
    if findings.is_empty() {
        return writeln!(out, "/>");
    }
    writeln!(out, ">")?;
    let element = match worst(findings) {
        Some(Level::Error) => Some("error"),
        Some(Level::Failure) => Some("failure"),
        _ => None,
    };
    let messages = |grave: bool| -> Vec<String> {
        let chosen = findings.iter().filter(|finding| (finding.level >= Level::Failure) == grave);
        let line = |finding: &Finding| finding.ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
        chosen.map(|finding| format!("{}{}", finding.message, line(finding))).collect()
    };
    if let Some(element) = element {
        let grave = messages(true);
        let kind =
            findings.iter().filter(|finding| finding.level >= Level::Failure).map(|finding| finding.kind.id()).next();
        let first = escape(grave.first().map_or("", String::as_str));
        writeln!(
            out,
            "      <{element} type=\"{}\" message=\"{first}\">{}</{element}>",
            kind.unwrap_or_default(),
            escape(&grave.join("\n"))
        )?;
    }
    let rest = messages(false);
    if !rest.is_empty() {
        writeln!(out, "      <system-out>{}</system-out>", escape(&rest.join("\n")))?;
    }
    writeln!(out, "    </testcase>")
}

/// Text for XML 1.0: what it does not allow at all is spelt out, and line feeds are kept in attributes too.
fn escape(text: &str) -> String {
    markup(text).replace('\n', "&#10;")
}
