//! The pages under `docs/codes`, built in: what a code of ptxas or of our checks means, and what to do about it.

use std::io::{self, Write};

use super::text::{BOLD, RESET, wrap, write_wrapped};
use crate::base::codes::{PAGES, WORDS};
pub use crate::base::codes::{codes, page};

/// A page for people at a terminal: no marks of Markdown, lines no longer than `width` but in code, tables as rows of what each column
/// says.
pub fn write_text(page: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut paragraph = String::new();
    let mut head: Option<Vec<String>> = None;
    let flush = |paragraph: &mut String, out: &mut dyn Write| -> io::Result<()> {
        let (mark, text) = match paragraph.split_once('\u{1}') {
            Some((mark, text)) => (mark.to_owned(), text.trim()),
            None => (String::new(), paragraph.trim()),
        };
        for (at, line) in wrap(text, width.saturating_sub(mark.len())).iter().enumerate() {
            let indent = if at == 0 { mark.clone() } else { " ".repeat(mark.len()) };
            writeln!(out, "{indent}{line}")?;
        }
        paragraph.clear();
        Ok(())
    };
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            flush(&mut paragraph, out)?;
            is_code = !is_code;
            continue;
        }
        if is_code {
            // PTX may be broken where a space is.
            let indent = 4 + line.len() - line.trim_start().len();
            for (at, part) in wrap(line.trim(), width.saturating_sub(indent + 4)).iter().enumerate() {
                let indent = if at == 0 { indent } else { indent + 4 };
                writeln!(out, "{:indent$}{part}", "")?;
            }
            continue;
        }
        let plain = line.replace('`', "");
        let is_row = line.starts_with('|');
        if !is_row {
            head = None;
        }
        let starts = is_row || line.is_empty() || line.starts_with(['#', '-', '>']);
        if starts {
            flush(&mut paragraph, out)?;
        }
        if line.is_empty() {
            writeln!(out)?;
        } else if let Some(title) = plain.strip_prefix("# ") {
            for line in wrap(title, width) {
                writeln!(out, "{BOLD}{line}{RESET}")?;
            }
        } else if let Some(title) = plain.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')) {
            writeln!(out, "{BOLD}{title}{RESET}")?;
        } else if is_row {
            let cells: Vec<String> = plain.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            match &head {
                _ if cells.iter().all(|cell| cell.bytes().all(|byte| b"-:".contains(&byte))) => {}
                None => head = Some(cells),
                Some(titles) => {
                    let told = titles.iter().zip(&cells).map(|(title, cell)| match title.is_empty() {
                        true => cell.clone(),
                        false => format!("{title}: {cell}"),
                    });
                    paragraph = format!("  \u{1}{}", told.collect::<Vec<_>>().join("; "));
                    flush(&mut paragraph, out)?;
                }
            }
        } else if let Some(quoted) = plain.strip_prefix("> ") {
            paragraph = format!("  \u{1}{quoted}");
        } else if let Some(item) = plain.strip_prefix("- ") {
            paragraph = format!("- \u{1}{item}");
        } else {
            paragraph.push(' ');
            paragraph.push_str(plain.trim());
        }
    }
    flush(&mut paragraph, out)
}

/// Everything that has a page: codes, then words.
pub fn names() -> impl Iterator<Item = &'static str> {
    PAGES.iter().chain(WORDS).map(|(name, _)| *name)
}

/// The title of every page, by code, words last.
pub fn titles() -> impl Iterator<Item = &'static str> {
    PAGES.iter().chain(WORDS).map(|(_, page)| title(page))
}

/// Every title on lines no longer than `width`.
pub fn write_titles(width: usize, out: &mut dyn Write) -> io::Result<()> {
    titles().try_for_each(|title| write_wrapped(title, "", "       ", width, out))
}

/// The first line of a page, without its mark.
pub fn title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_marks_and_fits() {
        for (code, page) in PAGES.iter().chain(WORDS) {
            let mut out = Vec::new();
            write_text(page, 80, &mut out).unwrap();
            let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            for line in text.lines() {
                let is_one_word = !line.trim().trim_start_matches("- ").contains(' ');
                assert!(line.chars().count() <= 80 || is_one_word, "{code}: {line}");
                // PTX has bars of its own.
                let has_bar = line.contains('|') && !line.starts_with("    ");
                let is_marked = line.contains(['`', '\u{1}']) || line.starts_with(['#', '>']);
                assert!(!has_bar && !is_marked, "{code}: {line}");
            }
            let words = |text: &str| text.split_whitespace().count();
            assert!(words(&text) * 10 > words(page) * 8, "{code}: {text}");
        }
    }

    #[test]
    fn every_page_on_disk_is_built_in_and_titled_by_its_code() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/codes");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(files, PAGES.iter().map(|(code, _)| code.to_string()).collect::<Vec<_>>());
        for (code, page) in PAGES.iter().chain(WORDS) {
            assert!(title(page).starts_with(&format!("{code}: ")), "{code}");
            assert!(page.contains("What to do"), "{code} does not say what to do");
        }
    }
}
