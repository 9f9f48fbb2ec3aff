//! The pages under `docs/codes`, built in: what a code of ptxas or of our checks means, and what to do about it.

use crate::base::codes::PAGES;
pub use crate::base::codes::page;

/// The title of every page, by code.
pub fn titles() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(_, page)| title(page))
}

/// The first line of a page, without its mark.
fn title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
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
