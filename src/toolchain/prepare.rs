//! What trips ptxas for no good reason is put right on a copy, and said. Line numbers never change.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::{Arch, Line};

/// Something that was changed in the PTX before ptxas saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Preparation {
    /// NVRTC's PTX ends in a NUL, which ptxas takes for `Unexpected EOF`.
    TrailingNul {
        /// How many were cut off.
        count: usize,
    },
    /// The file began with a UTF-8 byte-order mark.
    ByteOrderMark,
    /// Lines ended in CR LF.
    CarriageReturns {
        /// How many lines.
        lines: usize,
    },
    /// Comments held bytes that are not ASCII, which ptxas 12.8 to 13.0 take for an error.
    NonAsciiComments {
        /// How many bytes.
        bytes: usize,
    },
}

impl fmt::Display for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Preparation::TrailingNul { count: 1 } => f.write_str("left out a NUL byte at the end"),
            Preparation::TrailingNul { count } => write!(f, "left out {count} NUL bytes at the end"),
            Preparation::ByteOrderMark => f.write_str("left out a byte-order mark at the start"),
            Preparation::CarriageReturns { lines } => write!(f, "turned CR LF into LF on {lines} lines"),
            Preparation::NonAsciiComments { bytes } => write!(f, "blanked {bytes} non-ASCII bytes in comments"),
        }
    }
}

/// PTX that cannot be put right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// Nothing, or nothing but white space and NULs.
    #[error("the input is empty: expected PTX text, which starts with .version")]
    Empty,
    /// A UTF-16 byte-order mark, or a NUL in every other byte.
    #[error("the input is UTF-16, and ptxas reads ASCII: convert it with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    /// A NUL in the middle.
    #[error("line {line} of the input holds a NUL byte: expected PTX text, found {found}")]
    Binary {
        /// Where the first one is.
        line: Line,
        /// What it looks like instead.
        found: &'static str,
    },
}

/// PTX that ptxas can take, and what was done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared<'a> {
    /// The text; borrowed where nothing inside it had to change.
    pub text: Cow<'a, [u8]>,
    /// What was done.
    pub done: Vec<Preparation>,
}

/// Puts right what can be; a copy is made only where something inside the text changes.
pub fn prepare(ptx: &[u8]) -> Result<Prepared<'_>, PrepareError> {
    let mut done = Vec::new();
    if ptx.starts_with(&[0xff, 0xfe]) || ptx.starts_with(&[0xfe, 0xff]) || alternates_with_nul(ptx) {
        return Err(PrepareError::Utf16);
    }
    let mut text = ptx;
    if let Some(rest) = text.strip_prefix(b"\xef\xbb\xbf") {
        text = rest;
        done.push(Preparation::ByteOrderMark);
    }
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if end < text.len() {
        done.push(Preparation::TrailingNul { count: text.len() - end });
        text = &text[..end];
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(PrepareError::Empty);
    }
    // `contains` looks at many bytes at once, and what it looks for is rare.
    if let Some(at) = text.contains(&0).then(|| text.iter().position(|&byte| byte == 0)).flatten() {
        let line = text[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        return Err(PrepareError::Binary {
            line: Line(u32::try_from(line).unwrap_or(u32::MAX)),
            found: looks_like(ptx),
        });
    }
    let mut text = Cow::Borrowed(text);
    let lines = if text.contains(&b'\r') { text.windows(2).filter(|pair| pair == b"\r\n").count() } else { 0 };
    if lines > 0 {
        done.push(Preparation::CarriageReturns { lines });
        let next = text.iter().skip(1).map(Some).chain([None]);
        let kept = text.iter().zip(next).filter(|&(&byte, next)| byte != b'\r' || next != Some(&b'\n'));
        text = Cow::Owned(kept.map(|(&byte, _)| byte).collect());
    }
    if !text.is_ascii() {
        let bytes = blank_non_ascii_comments(&mut text);
        if bytes > 0 {
            done.push(Preparation::NonAsciiComments { bytes });
        }
    }
    Ok(Prepared { text, done })
}

/// Puts a space for every byte that is not ASCII in a comment, and says how many there were. Elsewhere (a file's name)
/// they would be missed, and are left for ptxas to judge.
fn blank_non_ascii_comments(text: &mut Cow<'_, [u8]>) -> usize {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (end, comment) = match rest {
            [b'/', b'/', ..] => (span(&rest[2..], b"\n") + 2, true),
            [b'/', b'*', ..] => (span(&rest[2..], b"*/") + 2, true),
            [b'"', ..] => (span(&rest[1..], b"\"") + 1, false),
            _ => (1, false),
        };
        if comment {
            found.extend((at..at + end).filter(|&index| !text[index].is_ascii()));
        }
        at += end;
    }
    if !found.is_empty() {
        let text = text.to_mut();
        found.iter().for_each(|&index| text[index] = b' ');
    }
    found.len()
}

/// ASCII as UTF-16 without a mark: every other byte of the beginning is NUL.
fn alternates_with_nul(ptx: &[u8]) -> bool {
    let head = &ptx[..ptx.len().min(64)];
    let nul_at = |phase: usize| head.iter().skip(phase).step_by(2).all(|&byte| byte == 0);
    let text_at = |phase: usize| head.iter().skip(phase).step_by(2).all(|&byte| byte != 0);
    head.len() >= 8 && ((nul_at(0) && text_at(1)) || (nul_at(1) && text_at(0)))
}

/// Names the files people mistake for PTX.
fn looks_like(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => "an ELF file (a cubin, an object or a library)",
        [0x50, 0xed, 0x55, 0xba, ..] => "a fatbin",
        [b'B', b'C', 0xc0, 0xde, ..] => "LLVM bitcode",
        [0x1f, 0x8b, ..] => "a gzip file",
        [b'P', b'K', 3, 4, ..] => "a zip file",
        _ => "binary data",
    }
}

/// The architecture of the first `.target` directive: what a module without `--arch` is compiled for. A light scan that
/// only knows comments, strings and words; `None` where there is none or its name is not of the `sm_` kind.
pub fn target_arch(ptx: &[u8]) -> Option<Arch> {
    let mut rest = ptx;
    while let Some(&byte) = rest.first() {
        if let Some(comment) = rest.strip_prefix(b"//") {
            rest = after(comment, b"\n");
        } else if let Some(comment) = rest.strip_prefix(b"/*") {
            rest = after(comment, b"*/");
        } else if byte == b'"' {
            rest = after(&rest[1..], b"\"");
        } else if is_word(byte) {
            let end = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            rest = tail;
            if word == b".target" {
                return first_word(rest).and_then(|name| std::str::from_utf8(name).ok()).and_then(sm_name);
            }
        } else {
            rest = &rest[1..];
        }
    }
    None
}

/// `sm_90a`, and nothing that only the command line accepts.
fn sm_name(name: &str) -> Option<Arch> {
    name.starts_with("sm_").then(|| name.parse().ok()).flatten()
}

fn first_word(text: &[u8]) -> Option<&[u8]> {
    let start = text.iter().position(|&byte| is_word(byte))?;
    let word = &text[start..];
    Some(&word[..word.iter().position(|&byte| !is_word(byte)).unwrap_or(word.len())])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'%')
}

/// How far it is to the end of the first `mark`, or of the text if there is none.
fn span(text: &[u8], mark: &[u8]) -> usize {
    text.windows(mark.len()).position(|window| window == mark).map_or(text.len(), |at| at + mark.len())
}

/// What follows the first `mark`; nothing if there is none.
fn after<'a>(text: &'a [u8], mark: &[u8]) -> &'a [u8] {
    &text[span(text, mark)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(ptx: &[u8]) -> (String, Vec<Preparation>) {
        let prepared = prepare(ptx).unwrap();
        (String::from_utf8(prepared.text.into_owned()).unwrap(), prepared.done)
    }

    #[test]
    fn clean_text_is_borrowed() {
        let ptx = b".version 8.0\n.target sm_90a\n";
        assert_eq!(prepare(ptx).unwrap(), Prepared { text: Cow::Borrowed(&ptx[..]), done: vec![] });
    }

    #[test]
    fn what_trips_ptxas_is_put_right_and_lines_stay() {
        let (text, done) = prepared(b"\xef\xbb\xbf.version 8.0\r\n\r\n.target sm_90\r\n// a\rb\n\0\0");
        assert_eq!(text, ".version 8.0\n\n.target sm_90\n// a\rb\n");
        assert_eq!(
            done,
            [
                Preparation::ByteOrderMark,
                Preparation::TrailingNul { count: 2 },
                Preparation::CarriageReturns { lines: 3 }
            ]
        );
    }

    #[test]
    fn umlauts_are_blanked_in_comments_only() {
        let (text, done) = prepared("// größe\n.file 1 \"größe // ß.cu\"\n/* ß\n */ x // ß".as_bytes());
        assert_eq!(text, "// gr    e\n.file 1 \"größe // ß.cu\"\n/*   \n */ x //   ");
        assert_eq!(done, [Preparation::NonAsciiComments { bytes: 8 }]);
        assert_eq!(prepared("größe".as_bytes()), ("größe".to_owned(), vec![]));
    }

    #[test]
    fn what_cannot_be_put_right_is_named() {
        for empty in [&b""[..], b"\0", b" \n\t\r\n\0", b"\xef\xbb\xbf"] {
            assert_eq!(prepare(empty), Err(PrepareError::Empty), "{empty:?}");
        }
        assert_eq!(prepare(b"\xff\xfe.\0v\0"), Err(PrepareError::Utf16));
        assert_eq!(prepare(b".\0v\0e\0r\0s\0i\0o\0n\0"), Err(PrepareError::Utf16));
        assert_eq!(prepare(b"\0.\0v\0e\0r\0s\0i\0o\0n"), Err(PrepareError::Utf16));
        let error = prepare(b"\x7fELF\x02\x01\n\x01\0\0\0\0\0\0x").unwrap_err();
        assert!(matches!(error, PrepareError::Binary { line: Line(2), found } if found.contains("ELF")), "{error}");
    }

    #[test]
    fn the_target_is_found_where_ptxas_finds_it() {
        let arch = |ptx: &str| target_arch(ptx.as_bytes()).map(|arch| arch.to_string());
        assert_eq!(arch(".version 8.0\n.target sm_90a, debug\n").as_deref(), Some("sm_90a"));
        assert_eq!(arch("// .target sm_50\n/* .target sm_52 */ .target\n  sm_100f;").as_deref(), Some("sm_100f"));
        assert_eq!(arch(".file 1 \".target sm_30\"\n.target/**/texmode").as_deref(), None);
        assert_eq!(arch(".targets sm_90"), None);
        assert_eq!(arch("/* never closed .target sm_90"), None);
        assert_eq!(arch(".target"), None);
    }
}
