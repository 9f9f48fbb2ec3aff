//! The codes of messages and findings, each with its page under `docs/codes`: what it means, and what to do about it.

macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        /// Every code there is a page for, ascending, and the page.
        pub const PAGES: &[(&str, &str)] = &[$(($code, include_str!(concat!("../../docs/codes/", $code, ".md")))),*];
    };
}

pages!(
    "C7406", "C7504", "C7505", "C7506", "C7507", "C7508", "C7509", "C7510", "C7511", "C7512", "C7513", "C7514",
    "C7515", "C7516", "C7517", "C7518", "C7519", "C7520", "C7600", "C7602", "PI101", "PI102", "PI103", "PI104",
    "PI201", "PI202", "PI203", "PI204", "PI205", "PI206", "PI207", "PI208", "PI209", "PI210", "PI211", "PI212",
    "PI301", "PI302", "PI303", "PI304", "PI305", "PI306", "PI307", "PI308", "PI309", "PI310", "PI311", "PI312",
    "PI313", "PI314", "PI315", "PI401", "PI402", "PI403", "PI404", "PI501", "PI502", "PI503", "PI504", "PI505",
    "PI506", "PI507", "PI601", "PI602", "PI603", "PI604", "PI605", "PI606", "PI607", "PI608", "PI609", "PI610",
    "PI611", "PI612", "PI613", "PI614", "PI615", "PI616", "PI617", "PI701", "PI702", "PI703", "PI704", "PI705",
    "PI706", "PI707", "PI708", "PI709", "PI801", "PI802", "PI803", "PI804", "PI805", "PI806", "PI811", "PI812",
    "PI813", "PI814", "PI815", "PI816", "PI817", "PI818", "PI819", "PI821", "PI822", "PI823", "PI824", "PI825",
    "PI826", "PI827", "PI831", "PI832", "PI833",
);

/// Words of reports and estimates that have a page, too, under `docs/words`.
pub const WORDS: &[(&str, &str)] = &[
    ("bound", include_str!("../../docs/words/bound.md")),
    ("live", include_str!("../../docs/words/live.md")),
    ("occupancy", include_str!("../../docs/words/occupancy.md")),
    ("registers", include_str!("../../docs/words/registers.md")),
    ("role", include_str!("../../docs/words/role.md")),
    ("spill", include_str!("../../docs/words/spill.md")),
    ("stack", include_str!("../../docs/words/stack.md")),
    ("stall", include_str!("../../docs/words/stall.md")),
];

/// Other forms of those words.
const FORMS: &[(&str, &str)] = &[
    ("bounds", "bound"),
    ("liveness", "live"),
    ("pressure", "live"),
    ("register", "registers"),
    ("spills", "spill"),
    ("spilling", "spill"),
    ("spilled", "spill"),
    ("spilt", "spill"),
    ("stalls", "stall"),
    ("roles", "role"),
    ("pool", "role"),
    ("blocks", "occupancy"),
    ("warps", "occupancy"),
    ("local", "stack"),
];

/// Every code, ascending.
pub fn codes() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(code, _)| *code)
}

/// The code that a text names, whatever its case and with or without the brackets that ptxas puts around it.
pub fn code(text: &str) -> Option<&'static str> {
    let code = text.trim().trim_matches(['(', ')']).to_ascii_uppercase();
    codes().find(|known| *known == code)
}

/// The page of a code or a word, whatever its spelling.
pub fn page(text: &str) -> Option<&'static str> {
    let name = code(text).unwrap_or(text.trim());
    let name = FORMS.iter().find(|(form, _)| form.eq_ignore_ascii_case(name)).map_or(name, |(_, word)| *word);
    PAGES.iter().chain(WORDS).find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use super::{FORMS, PAGES, WORDS, page};

    #[test]
    fn words_and_codes_lead_to_their_pages_however_they_are_written() {
        for (name, text) in PAGES.iter().chain(WORDS) {
            assert_eq!(page(&name.to_lowercase()), Some(*text), "{name}");
            assert!(text.starts_with(&format!("# {name}: ")), "{name}");
        }
        for (form, word) in FORMS {
            assert!(page(form).is_some_and(|found| found.starts_with(&format!("# {word}: "))), "{form}");
        }
        assert_eq!(page("nothing of the kind"), None);
    }
}
