//! What somebody meant who misspelt a name.

/// The name that is spelt most like what was asked for; none where there are no names.
pub fn nearest<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by_key(|name| distance(asked, name))
}

/// Levenshtein's distance, of the first characters.
pub fn distance(a: &str, b: &str) -> usize {
    const CHARACTERS: usize = 100;
    let b: Vec<char> = b.chars().take(CHARACTERS).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.chars().take(CHARACTERS).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to, y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != *y)).min(row[to] + 1).min(row[to + 1] + 1);
            diagonal = std::mem::replace(&mut row[to + 1], cost);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Whether two names are one slip of the hand apart: a character more, fewer or another, or two that changed places.
pub fn is_slip(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all
    };
    match distance(a, b) {
        0 | 1 => true,
        2 => sorted(a) == sorted(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_have_a_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("PI302", ["C7508", "PI203", "PI301"]), Some("PI301"));
        assert_eq!(nearest("x", []), None);
        assert!(is_slip("C7058", "C7508") && is_slip("C750", "C7508") && !is_slip("C0001", "C7501"));
    }
}
