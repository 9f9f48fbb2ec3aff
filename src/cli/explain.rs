//! `ptxinspect explain CODE`, `explain INSTRUCTION`, `explain idesc NUMBER`, `explain sdesc NUMBER`.

use std::io::Write;

use anyhow::{Result, anyhow, bail};

use super::args::{ExplainArgs, TextOrJson};
use super::{Outcome, output};
use crate::base::spelling::{is_slip, nearest};
use crate::emit::escape::terminal;
use crate::emit::{explain, matrices};
use crate::ptx::descriptor::{MatrixFormat, MmaKind};
use crate::report::{DescriptorPage, FragmentsAt};

/// The name and version of the JSON's shape.
const SCHEMA: &str = "ptxinspect.explain/1";

/// Prints one page, or the list of them.
pub fn run(args: &ExplainArgs) -> Result<Outcome> {
    let mut out = output::stdout(args.format);
    let is_json = args.format == TextOrJson::Json;
    let asked: Vec<&str> = args.what.iter().map(String::as_str).collect();
    match asked.as_slice() {
        [] => list(is_json, &mut out)?,
        [what @ ("idesc" | "sdesc"), rest @ ..] => {
            let pages = descriptors(what, rest)?;
            match is_json {
                true => json(&mut out, "descriptors", &serde_json::to_value(&pages)?)?,
                false => matrices::write_descriptors(&pages, output::stdout_width(), &mut out)?,
            }
        }
        [opcode] if explain::page(opcode).is_none() && opcode.contains('.') => {
            let found = fragments(opcode)?;
            match is_json {
                true => json(&mut out, "fragments", &serde_json::to_value(&found.fragments)?)?,
                false => matrices::write_fragments(&found, output::stdout_width(), &mut out)?,
            }
        }
        [code] => page(code, is_json, &mut out)?,
        [first, second, ..] => bail!(
            "explain takes one code, and found '{}' after '{}'; a descriptor is `explain idesc NUMBER` or `explain sdesc NUMBER`",
            terminal(second),
            terminal(first)
        ),
    }
    Ok(Outcome::Fine)
}

fn json(out: &mut dyn Write, name: &str, value: &serde_json::Value) -> Result<()> {
    writeln!(out, "{:#}", serde_json::json!({ "schema": SCHEMA, "pages": [], name: value }))?;
    Ok(())
}

fn entry(code: &str, page: &str) -> serde_json::Value {
    serde_json::json!({ "code": code, "title": explain::title(page), "markdown": page })
}

fn list(is_json: bool, out: &mut dyn Write) -> Result<()> {
    if is_json {
        let pages: Vec<_> = explain::names().filter_map(|name| Some(entry(name, explain::page(name)?))).collect();
        writeln!(out, "{:#}", serde_json::json!({ "schema": SCHEMA, "pages": pages }))?;
    } else {
        // Who searches in a pipe has a page a line.
        explain::write_titles(output::columns().map_or(usize::MAX, |_| output::stdout_width()), out)?;
    }
    Ok(())
}

fn page(asked: &str, is_json: bool, out: &mut dyn Write) -> Result<()> {
    match explain::page(asked) {
        Some(page) if is_json => {
            let code = explain::title(page).split(':').next().unwrap_or_default();
            writeln!(out, "{:#}", serde_json::json!({ "schema": SCHEMA, "pages": [entry(code, page)] }))?;
        }
        Some(page) => explain::write_text(page, output::stdout_width(), out)?,
        None => {
            let spelt = [asked.to_ascii_uppercase(), asked.to_ascii_lowercase()];
            let near = spelt
                .iter()
                .find_map(|asked| nearest(asked, explain::names().filter(|name| is_slip(asked, name))))
                .map(|near| format!(": did you mean {near}?"))
                .unwrap_or_else(|| ": expected a code such as C7508;".to_owned());
            bail!("there is no page for '{}'{near} `ptxinspect explain` lists those there are", terminal(asked))
        }
    }
    Ok(())
}

/// What the registers of an instruction hold.
fn fragments(opcode: &str) -> Result<FragmentsAt> {
    FragmentsAt::of_opcode(opcode.trim_end_matches(';')).ok_or_else(|| {
        let shown = terminal(opcode);
        match opcode.split('.').next() {
            Some("wmma") => anyhow!("the elements that registers of '{shown}' hold are not specified: only wmma itself knows them"),
            _ => anyhow!(
                "'{shown}' is no code, and no instruction whose registers hold a matrix; expected one of mma, wgmma.mma_async, ldmatrix, \
                 stmatrix, movmatrix, tcgen05.ld and tcgen05.st with all its modifiers, such as \
                 ldmatrix.sync.aligned.m8n8.x4.shared.b16"
            ),
        }
    })
}

/// What a descriptor says.
fn descriptors(what: &str, rest: &[&str]) -> Result<Vec<DescriptorPage>> {
    let (number, of) = match rest {
        [number] => (number, None),
        [number, of] => (number, Some(*of)),
        _ => bail!("`explain {what}` takes a number, such as `explain {what} 0x8200490`"),
    };
    let digits = number.replace('_', "");
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse::<u64>(),
    };
    let expected = || anyhow!("'{}' is no descriptor: expected a number, such as 0x8200490", terminal(number));
    let value = value.map_err(|_| expected())?;
    if what == "sdesc" {
        let format = match of {
            None => None,
            Some("wgmma") => Some(MatrixFormat::Wgmma),
            Some("tcgen05") => Some(MatrixFormat::Tcgen05),
            Some(other) => bail!("'{}' has no descriptors of matrices: expected wgmma or tcgen05", terminal(other)),
        };
        return Ok(vec![DescriptorPage::matrix(value, format)]);
    }
    let value = u32::try_from(value).map_err(|_| {
        anyhow!("an instruction descriptor has 32 bits, and {value:#x} has more; of a matrix it is `explain sdesc`")
    })?;
    let kind = of.map(|name| MmaKind::of(name.trim_start_matches('.')).ok_or(name)).transpose();
    let kind = kind.map_err(|name| {
        let all: Vec<&str> = MmaKind::ALL.into_iter().map(MmaKind::name).collect();
        anyhow!("there is no .kind::{}: expected one of {}", terminal(name), all.join(", "))
    })?;
    Ok(DescriptorPage::instruction(value, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever code a recorded ptxas prints has a page.
    #[test]
    fn every_recorded_code_has_a_page() {
        let logs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/logs");
        let mut seen = 0;
        for release in std::fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
        {
            for log in std::fs::read_dir(release).unwrap().map(|entry| entry.unwrap().path()) {
                let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
                for code in crate::toolchain::log::parse(&text).messages.into_iter().filter_map(|message| message.code)
                {
                    seen += 1;
                    assert!(explain::page(&code).is_some(), "{}: {code} has no page", log.display());
                }
            }
        }
        assert!(seen > 100, "{seen} codes");
    }
}
