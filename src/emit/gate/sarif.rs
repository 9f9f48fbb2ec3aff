//! SARIF 2.1.0, as code scanning takes it.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::place;
use crate::gate::{Finding, FindingKind, Level, Outcome, Verdict};
use crate::report::{Mended, MendedLine, Stands};

/// Where the format is described.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Writes one run: the kinds of findings as rules, each finding as a result on its line.
pub fn write(verdict: &Verdict, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<Value> = FindingKind::ALL.iter().map(|kind| rule(*kind)).collect();
    let results: Vec<Value> = verdict.findings.iter().map(|finding| result(finding, verdict)).collect();
    let errors: Vec<Value> = verdict
        .findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| json!({"level": "error", "message": {"text": finding.message}}))
        .collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "ptxinspect",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": verdict.outcome != Outcome::Error,
                "toolExecutionNotifications": errors,
            }],
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

fn rule(kind: FindingKind) -> Value {
    json!({
        "id": kind.id(),
        "shortDescription": {"text": kind.meaning()},
        "fullDescription": {"text": kind.meaning()},
        "help": {"text": format!("{} `ptxinspect gate` shows the figures before and after.", kind.meaning())},
        "defaultConfiguration": {"level": "error"},
    })
}

fn result(finding: &Finding, verdict: &Verdict) -> Value {
    let (file, line) = place(finding, verdict);
    let level = match finding.level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Failure | Level::Error => "error",
    };
    let arch = finding.arch.as_ref().map(|arch| format!(" [{arch}]")).unwrap_or_default();
    // What is the same finding in the next run: the place without its line, which moves.
    let key = [
        finding.kind.id(),
        finding.input.as_deref().unwrap_or_default(),
        finding.arch.as_deref().unwrap_or_default(),
        finding.kernel.as_deref().unwrap_or_default(),
        finding.metric.as_deref().unwrap_or_default(),
    ];
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": {"uri": uri(file)},
            "region": {"startLine": line},
        },
    });
    if let Some(kernel) = &finding.kernel {
        location["logicalLocations"] = json!([{"name": kernel, "kind": "function"}]);
    }
    let mut result = json!({
        "ruleId": finding.kind.id(),
        "ruleIndex": FindingKind::ALL.iter().position(|kind| *kind == finding.kind),
        "level": level,
        "message": {"text": format!("{}{arch}", finding.message)},
        "locations": [location],
        "partialFingerprints": {"ptxinspectFinding/v1": key.join("|")},
    });
    if !finding.witness.is_empty() {
        // Where each role stands when nobody can go on: they got there side by side.
        let flows: Vec<Value> = finding.witness.iter().map(|stands| thread_flow(stands, file)).collect();
        result["codeFlows"] = json!([{
            "message": {"text": "where everybody stands when nobody can go on"},
            "threadFlows": flows,
        }]);
    }
    if let Some(fix) = finding.mend.as_ref().and_then(|mend| fix(mend, file)) {
        result["fixes"] = json!([fix]);
    }
    result
}

/// A change as an editor makes it; none where it is not told to the letter.
fn fix(mend: &Mended, file: &str) -> Option<Value> {
    let replacement = |line: &MendedLine| {
        let (replaces, instruction) = (line.replaces.as_ref()?, line.instruction.as_ref()?);
        let more = u32::try_from(replaces.matches('\n').count()).ok()?;
        let last = u32::try_from(replaces.rsplit('\n').next()?.chars().count()).ok()?;
        let column = line.column?;
        Some(json!({
            "deletedRegion": {
                "startLine": line.ptx_line,
                "startColumn": column,
                "endLine": line.ptx_line.0.checked_add(more)?,
                "endColumn": if more == 0 { column.checked_add(last)? } else { last + 1 },
            },
            "insertedContent": {"text": instruction},
        }))
    };
    let replacements: Option<Vec<Value>> = mend.lines.iter().map(replacement).collect();
    Some(json!({
        "description": {"text": mend.change},
        "artifactChanges": [{"artifactLocation": {"uri": uri(file)}, "replacements": replacements?}],
    }))
}

fn thread_flow(stands: &Stands, file: &str) -> Value {
    json!({
        "id": stands.who(),
        "message": {"text": stands.to_string()},
        "locations": [{
            "location": {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri(file)},
                    "region": {"startLine": stands.ptx_line},
                },
                "message": {"text": format!("{} waits for {}", stands.who(), stands.what())},
            },
        }],
    })
}

/// A path as a relative reference: what is not allowed in one is spelt out.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.replace('\\', "/").bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
