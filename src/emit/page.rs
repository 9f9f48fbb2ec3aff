//! What pages share: data for a page's program; the head and the look, light and dark, of those without one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

use super::clean::is_unsafe;
use super::escape::markup;

const STYLE: &str = "\
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}code,pre,td.n{font-family:ui-monospace,monospace}\
table{border-collapse:collapse;margin:.5rem 0}th,td{padding:.15rem .7rem;text-align:left;border-bottom:1px solid #d1d9e0}\
td.n,th.n{text-align:right}.worse,.failure,.error{color:#b3261e}.better,.pass{color:#1a7f37}.tolerated,.note{color:#59636e}\
pre{background:#f6f8fa;padding:.6rem;overflow-x:auto}svg{display:block;max-width:100%;margin:.5rem 0}\
.gone{color:#b3261e}.new{color:#1a7f37}path.before{stroke:#8c959f}path.after{stroke:#0969da}path{fill:none;stroke-width:1.5}\
summary{cursor:pointer}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}\
th,td{border-color:#30363d}.worse,.failure,.error{color:#ff7b72}.better,.pass{color:#56d364}.tolerated,.note{color:#9198a1}\
.gone{color:#ff7b72}.new{color:#56d364}path.before{stroke:#8b949e}path.after{stroke:#58a6ff}}";

/// What the page may load: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Everything before the content.
pub fn open(title: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<title>{}</title><style>{STYLE}</style></head><body>", markup(title))
}

/// Everything after it.
pub fn close(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</body></html>")
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
