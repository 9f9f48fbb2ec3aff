//! What pages share: data for a page's program; the head and the look, light and dark, of those without one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

use super::clean::is_unsafe;
use super::escape::markup;

/// The colours and typefaces of every page, in the light and in the dark.
const LIGHT: &str = include_str!("light.css");
const DARK: &str = include_str!("dark.css");
/// What looks the same on every page.
const SHARED: &str = include_str!("shared.css");
/// The look of pages that are tables and text.
const STYLE: &str = include_str!("plain.css");

/// The look of a page whose program switches between light and dark, but for what is its own.
pub fn switched_look() -> String {
    format!(":root {{\n{LIGHT}}}\n:root[data-theme=\"dark\"] {{\n{DARK}}}\n{SHARED}")
}

/// What the page may load: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Everything before the content.
pub fn open(title: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    let title = markup(title);
    writeln!(out, "<title>ptxinspect {title}</title><style>\n:root {{\n{LIGHT}}}")?;
    writeln!(
        out,
        "@media (prefers-color-scheme: dark) {{ :root {{\n{DARK}}} }}\n{SHARED}{STYLE}</style></head><body>"
    )?;
    writeln!(out, "<header class=\"top\"><strong>ptxinspect</strong><span>{title}</span></header><main>")
}

/// A name as a table's reader can tell it from the others, and the whole of it for who asks.
pub fn name(short: &str, full: &str) -> String {
    let shown = markup(short);
    match short == full {
        true => format!("<code>{shown}</code>"),
        false => format!(
            "<details class=\"whole\"><summary><code>{shown}</code></summary><code>{}</code></details>",
            markup(full)
        ),
    }
}

/// Everything after it.
pub fn close(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</main></body></html>")
}

/// One value as JSON in an element of its own, for the page's program. No text can end the element, and what would show as something
/// else than what is there is spelt out: the page shows `\u{202e}` as a terminal does.
pub fn data<T: Serialize + ?Sized>(id: &str, value: &T, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<script type=\"application/json\" id=\"{id}\">")?;
    value.serialize(&mut Serializer::with_formatter(&mut *out, Shown)).map_err(io::Error::from)?;
    out.write_all(b"</script>\n")
}

/// Compact JSON of text to be shown.
struct Shown;

impl Formatter for Shown {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let mut from = 0;
        for (at, c) in text.char_indices().filter(|&(_, c)| c == '<' || is_unsafe(c)) {
            out.write_all(text.get(from..at).unwrap_or_default().as_bytes())?;
            match c {
                '<' => out.write_all(b"\\u003c")?,
                c => write!(out, "\\{}", c.escape_unicode())?,
            }
            from = at + c.len_utf8();
        }
        out.write_all(text.get(from..).unwrap_or_default().as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(out, "\\{}", char::from(byte).escape_unicode()),
            CharEscape::Backspace => out.write_all(b"\\\\u{8}"),
            CharEscape::FormFeed => out.write_all(b"\\\\u{c}"),
            other => CompactFormatter.write_char_escape(out, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_shown_as_on_a_terminal_and_ends_no_element() {
        let mut out = Vec::new();
        data("x", "a\n\t</script><!--\u{1b}\u{8}\u{202e}\u{e0041}é\"\\", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let json = text.strip_prefix("<script type=\"application/json\" id=\"x\">").unwrap();
        let json = json.strip_suffix("</script>\n").unwrap();
        assert!(!json.contains('<'), "{json}");
        let shown: String = serde_json::from_str(json).unwrap();
        assert_eq!(shown, "a\n\t</script><!--\\u{1b}\\u{8}\\u{202e}\\u{e0041}é\"\\");
    }
}
