//! Making text from files safe to show.

use std::borrow::Cow;
use std::fmt::Write;

use super::clean::is_unsafe;

/// The text with control and direction characters spelt out, tabs as one space: fit for one line of a terminal.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c == '\t' {
            safe.push(' ');
        } else if is_unsafe(c) {
            let _ = write!(safe, "{}", c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// The same over several lines: line feeds stay.
pub fn terminal_lines(text: &str) -> String {
    text.lines().map(terminal).collect::<Vec<_>>().join("\n")
}

/// Text for HTML and XML: marks are escaped, control and direction characters spelt out as on a terminal, line feeds stay.
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            safe.push('\n');
        }
        for c in terminal(line).chars() {
            match c {
                '&' => safe.push_str("&amp;"),
                '<' => safe.push_str("&lt;"),
                '>' => safe.push_str("&gt;"),
                '"' => safe.push_str("&quot;"),
                '\'' => safe.push_str("&#39;"),
                c => safe.push(c),
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelt_out() {
        assert_eq!(terminal("plain αβγ"), "plain αβγ");
        assert_eq!(terminal("\x1b[31mred\x07"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(terminal("a\tb\u{202e}c\u{9b}"), "a b\\u{202e}c\\u{9b}");
        assert_eq!(terminal_lines("one\ntwo\x1b"), "one\ntwo\\u{1b}");
    }

    #[test]
    fn names_are_text() {
        assert_eq!(markup("<script>a&b\"\u{1}</script>"), "&lt;script&gt;a&amp;b&quot;\\u{1}&lt;/script&gt;");
        assert_eq!(markup("it's\ntwo"), "it&#39;s\ntwo");
    }
}
