//! Lines no wider than the terminal.

/// A text cut into lines at spaces, as many columns wide at most as there is a space to cut at. Two spaces stay two.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split(' ') {
        let wide = columns(word);
        match lines.last_mut() {
            Some(line) if used + 1 + wide <= width => {
                line.push(' ');
                line.push_str(word);
                used += 1 + wide;
            }
            // Nothing to see: no reason for a line.
            Some(_) if wide == 0 && word.is_empty() => {}
            _ => {
                lines.push(word.to_owned());
                used = wide;
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// How many columns a text takes, colours left out.
fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // A link's mark ends with a backslash, a colour with a letter.
            '\u{1b}' => match rest.next() {
                Some(']') => drop(rest.find(|&c| c == '\\')),
                _ => drop(rest.find(|c| c.is_ascii_alphabetic())),
            },
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_spaces_and_colours_take_no_room() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("168  of at most", 9), ["168  of", "at most"]);
        assert_eq!(wrap("\u{1b}[2mof at\u{1b}[0m most", 10), ["\u{1b}[2mof at\u{1b}[0m most"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert!(wrap("", 10).is_empty());
    }
}
