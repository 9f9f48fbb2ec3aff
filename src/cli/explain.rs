//! `ptxinspect explain CODE`.

use std::io::Write;

use anyhow::{Result, bail};

use super::args::{ExplainArgs, TextOrJson};
use super::{Outcome, output};
use crate::base::spelling::nearest;
use crate::emit::escape::terminal;
use crate::emit::explain;

/// The name and version of the JSON's shape.
const SCHEMA: &str = "ptxinspect.explain/1";

/// Prints one page, or the list of them.
pub fn run(args: &ExplainArgs) -> Result<Outcome> {
    let mut out = output::stdout(args.format);
    let is_json = args.format == TextOrJson::Json;
    let entry =
        |code: &str, page: &str| serde_json::json!({ "code": code, "title": explain::title(page), "markdown": page });
    let Some(asked) = &args.code else {
        if is_json {
            let pages: Vec<_> = explain::codes().filter_map(|code| Some(entry(code, explain::page(code)?))).collect();
            writeln!(out, "{:#}", serde_json::json!({ "schema": SCHEMA, "pages": pages }))?;
        } else {
            explain::titles().try_for_each(|title| writeln!(out, "{title}"))?;
        }
        return Ok(Outcome::Fine);
    };
    match explain::page(asked) {
        Some(page) if is_json => {
            let code = explain::title(page).split(':').next().unwrap_or_default();
            writeln!(out, "{:#}", serde_json::json!({ "schema": SCHEMA, "pages": [entry(code, page)] }))?;
        }
        Some(page) => explain::write_text(page, output::stdout_width(), &mut out)?,
        None => {
            let near = nearest(&asked.to_ascii_uppercase(), explain::codes())
                .filter(|_| asked.bytes().any(|byte| byte.is_ascii_digit()))
                .map(|near| format!(": did you mean {near}?"))
                .unwrap_or_else(|| ": expected a code such as C7508;".to_owned());
            bail!("there is no page for '{}'{near} `ptxinspect explain` lists those there are", terminal(asked))
        }
    }
    Ok(Outcome::Fine)
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
