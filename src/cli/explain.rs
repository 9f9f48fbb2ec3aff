//! `ptxinspect explain CODE`: the pages under `docs/codes`, built in.

use std::io::{self, Write};

use anyhow::{Result, bail};

use super::Outcome;
use super::args::ExplainArgs;
use crate::emit::escape::terminal;

macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        /// Every code there is a page for, ascending.
        const PAGES: &[(&str, &str)] = &[$(($code, include_str!(concat!("../../docs/codes/", $code, ".md")))),*];
    };
}

pages!(
    "C7504", "C7505", "C7506", "C7507", "C7508", "C7509", "C7510", "C7511", "C7512", "C7515", "C7518", "C7600",
    "C7602",
);

/// The first line of a page, without its mark.
fn title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// Prints one page, or the list of them.
pub fn run(args: &ExplainArgs) -> Result<Outcome> {
    let mut out = io::stdout().lock();
    let Some(asked) = &args.code else {
        for (_, page) in PAGES {
            writeln!(out, "{}", title(page))?;
        }
        return Ok(Outcome::Fine);
    };
    let code = asked.trim().trim_matches(['(', ')']).to_ascii_uppercase();
    match PAGES.iter().find(|(known, _)| *known == code) {
        Some((_, page)) => out.write_all(page.as_bytes())?,
        None => bail!("there is no page for '{}'; `ptxinspect explain` lists those there are", terminal(asked)),
    }
    Ok(Outcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_on_disk_is_built_in_and_titled_by_its_code() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/codes");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(files, PAGES.iter().map(|(code, _)| code.to_string()).collect::<Vec<_>>());
        for (code, page) in PAGES {
            assert!(title(page).starts_with(&format!("{code}: ")), "{code}");
            assert!(page.contains("What to do"), "{code} does not say what to do");
        }
    }
}
