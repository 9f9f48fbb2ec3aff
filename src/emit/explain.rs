//! The pages under `docs/codes`, built in: what a code of ptxas or of our checks means, and what to do about it.

macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        /// Every code there is a page for, ascending.
        const PAGES: &[(&str, &str)] = &[$(($code, include_str!(concat!("../../docs/codes/", $code, ".md")))),*];
    };
}

pages!(
    "C7406", "C7504", "C7505", "C7506", "C7507", "C7508", "C7509", "C7510", "C7511", "C7512", "C7514", "C7515",
    "C7516", "C7517", "C7518", "C7519", "C7520", "C7600", "C7602", "PI101", "PI102", "PI103", "PI201", "PI202",
    "PI203", "PI204", "PI205", "PI206", "PI207", "PI301", "PI302", "PI303", "PI304", "PI305", "PI306", "PI307",
    "PI308", "PI309", "PI310", "PI311", "PI401", "PI402", "PI403", "PI404", "PI501", "PI502", "PI503", "PI504",
    "PI505", "PI601", "PI602", "PI603", "PI604", "PI605",
);

/// The page of a code, whatever its case and with or without the brackets that ptxas puts around it.
pub fn page(code: &str) -> Option<&'static str> {
    let code = code.trim().trim_matches(['(', ')']).to_ascii_uppercase();
    PAGES.iter().find(|(known, _)| *known == code).map(|(_, page)| *page)
}

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
