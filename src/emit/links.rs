//! Hyperlinks of a terminal (OSC 8): from a name or a line number to the file that it stands in.
//!
//! In: files that are known to be there, each under the name that output calls it by. Out: text between marks that carry a key of this
//! process. [`Clean`](super::clean::Clean) turns marks with the key into the terminal's own and spells out all others: no file can write one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::base::Line;

/// The file itself: what every terminal that knows links can open.
pub const FILE: &str = "file://{path}";

/// Where the files are that output speaks of.
#[derive(Clone, Debug)]
pub struct Links {
    key: String,
    format: String,
    files: BTreeMap<String, PathBuf>,
}

impl Links {
    /// Links of a format in which `{path}` and `{line}` stand for themselves, to files by absolute path.
    pub fn new(format: &str, files: BTreeMap<String, PathBuf>) -> Links {
        let random = || RandomState::new().hash_one(0);
        let key = format!("{:016x}{:016x}", random(), random());
        Links { key, format: format.to_owned(), files }
    }

    /// What the marks of these links carry.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A text without spaces that leads to a line of a file; the text alone where nobody knows the file.
    pub fn to(&self, file: &str, line: Option<Line>, text: &str) -> String {
        let Some(path) = self.files.get(file) else { return text.to_owned() };
        let line = line.map_or(1, |line| line.0).to_string();
        let address = self.format.replace("{path}", &encoded(path)).replace("{line}", &line);
        let key = &self.key;
        format!("\x1b]8;{key};{address}\x1b\\{text}\x1b]8;{key};\x1b\\")
    }
}

/// The same where there may be no links.
pub fn to(links: Option<&Links>, file: &str, line: Option<Line>, text: &str) -> String {
    links.map_or_else(|| text.to_owned(), |links| links.to(file, line, text))
}

/// A path as an address spells it.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => text.push(char::from(*byte)),
            // Nothing written to a string fails.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

/// A text as [`Clean`](super::clean::Clean) lets it out, without its links: for whoever does not know them.
pub fn without(text: &[u8]) -> Vec<u8> {
    const START: &[u8] = b"\x1b]8;;";
    const END: &[u8] = b"\x1b\\";
    let mut left = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(START.len()).position(|window| window == START) {
        let (before, link) = rest.split_at(at);
        left.extend_from_slice(before);
        let end = link.windows(END.len()).position(|window| window == END).map_or(link.len(), |end| end + END.len());
        rest = link.get(end..).unwrap_or_default();
    }
    left.extend_from_slice(rest);
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::clean::{Clean, Form};
    use std::io::Write as _;

    fn links(format: &str) -> Links {
        Links::new(format, BTreeMap::from([("k.ptx".to_owned(), PathBuf::from("/a b/k#;\x1b.ptx"))]))
    }

    fn cleaned(links: &Links, text: &str, piece: usize) -> String {
        let mut out = Vec::new();
        let mut clean = Clean::new(Form::Text, &mut out).with_links(Some(links));
        text.as_bytes().chunks(piece).for_each(|bytes| clean.write_all(bytes).unwrap());
        drop(clean);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn our_links_leave_without_their_key_and_no_others_leave() {
        let ours = links("vscode://file{path}:{line}");
        let marked = ours.to("k.ptx", Some(Line(185)), "185");
        let address = "vscode://file/a%20b/k%23%3B%1B.ptx:185";
        let shown = format!("\x1b]8;;{address}\x1b\\185\x1b]8;;\x1b\\");
        let others = links(FILE).to("k.ptx", None, "x");
        for text in [
            "\x1b]8;;file:///etc/passwd\x1b\\x\x1b]8;;\x1b\\",
            "\x1b]8;id=1;http://example\x07x",
            "\x1b]8;",
            "\x1b]0;title\x07",
            &others,
            // The key alone does not do: an address has no control characters and an end.
            &format!("\x1b]8;{};a\x07b", ours.key()),
            &format!("\x1b]8;{};{}", ours.key(), "a".repeat(9000)),
        ] {
            for piece in [1, 3, 100_000] {
                let clean = cleaned(&ours, text, piece);
                assert!(!clean.contains('\x1b') && !clean.contains('\x07'), "{text:?}: {clean:?}");
                let both = cleaned(&ours, &format!("{marked} {text}"), piece);
                assert_eq!(both, format!("{shown} {clean}"), "{text:?} by {piece}");
            }
        }
        assert_eq!(without(format!("at {shown}, {shown}").as_bytes()), b"at 185, 185");
        assert_eq!(ours.to("other.ptx", None, "185"), "185");
        // In a log there are no links, and a command of a CI system behind one is spelt out all the same.
        let mut out = Vec::new();
        drop(Clean::new(Form::Text, &mut out).write_all(marked.as_bytes()));
        assert!(!String::from_utf8(out).unwrap().contains('\x1b'));
        assert!(cleaned(&ours, &format!("{}::error::x", ours.to("k.ptx", None, "")), 1).contains("\\u{3a}:error"));
    }
}
