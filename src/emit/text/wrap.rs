//! Lines no wider than the terminal.

/// A text cut into lines at spaces, as many columns wide at most as there is a space to cut at; a path that is wider, where one of its
/// parts ends. Two spaces stay two.
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
            _ if wide > width => {
                lines.extend(wrap_path(word, width));
                used = lines.last().map_or(0, |line| columns(line));
            }
            _ => {
                lines.push(word.to_owned());
                used = wide;
            }
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines.retain(|line| !line.is_empty());
    lines
}

/// A path cut into lines where one of its parts ends, as many columns wide at most as there is such a place.
pub fn wrap_path(path: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts(path) {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(part) <= width => line.push_str(part),
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// The parts of a path, each with the sign that ends it; colours and links are no parts of it.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut rest = path.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '\u{1b}' => skip(rest.by_ref().map(|(_, c)| c)),
            '/' | '\\' | '-' | '_' | '.' => {
                let end = at + c.len_utf8();
                parts.extend(path.get(from..end));
                from = end;
            }
            _ => {}
        }
    }
    parts.extend(path.get(from..).filter(|last| !last.is_empty()));
    parts
}

/// Passes over what an escape begins: a link's mark ends with a backslash, a colour with a letter.
fn skip(mut rest: impl Iterator<Item = char>) {
    match rest.next() {
        Some(']') => drop(rest.find(|&c| c == '\\')),
        _ => drop(rest.find(|c| c.is_ascii_alphabetic())),
    }
}

/// How many columns a text takes, colours left out.
fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip(&mut rest),
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

    #[test]
    fn a_path_is_cut_after_its_parts() {
        assert_eq!(wrap_path("a/b.so", 20), ["a/b.so"]);
        assert_eq!(wrap_path("/tmp/lib/libfoo-1.2-cp311.whl", 12), ["/tmp/lib/", "libfoo-1.2-", "cp311.whl"]);
        assert_eq!(wrap_path("unbreakable", 3), ["unbreakable"]);
        assert!(wrap_path("", 10).is_empty());
        assert_eq!(wrap("in /tmp/lib/libfoo.so now", 10), ["in", "/tmp/lib/", "libfoo.so", "now"]);
        let link = "\u{1b}]8;;file:///a/b\u{1b}\\lib/b.so\u{1b}]8;;\u{1b}\\";
        assert_eq!(wrap(link, 8), [link], "a link is as wide as what is seen of it");
        assert_eq!(parts("\u{1b}[1ma/b\u{1b}[0m"), ["\u{1b}[1ma/", "b\u{1b}[0m"]);
    }
}
