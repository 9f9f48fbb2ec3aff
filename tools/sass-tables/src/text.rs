//! Text as tokens: literals, and numbers of a kind.

use std::fmt;

/// What a number in the text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    R,
    Ur,
    P,
    Up,
    B,
    Sb,
    /// `-?0x1f`
    Hex,
    /// `0xfff8000000000000`: 64 bits without a sign.
    Wide,
    /// `@-0x30`, relative to the next instruction
    Target,
    /// `{5,4}`
    Set,
}

impl Kind {
    /// The kind a token has unless its number is too large for it.
    pub fn plain(self) -> Kind {
        if self == Kind::Wide { Kind::Hex } else { self }
    }

    /// Whether numbers of the two kinds may stand in the same place.
    pub fn same_as(self, other: Kind) -> bool {
        self.plain() == other.plain()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    Lit(String),
    Num(Kind, i64),
    /// A float keeps its spelling.
    Float(String),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Lit(s) => f.write_str(s),
            Token::Num(kind, value) => write!(f, "<{kind:?}{value}>"),
            Token::Float(s) => write!(f, "<F{s}>"),
        }
    }
}

/// `@!P0 ` and the rest.
pub fn split_guard(text: &str) -> (&str, &str) {
    if text.starts_with('@')
        && let Some(space) = text.find(' ')
    {
        return text.split_at(space + 1);
    }
    ("", text)
}

fn number_prefix(s: &str, urz: i64) -> Option<(Kind, i64, usize)> {
    const FORMS: [(&str, Kind); 6] =
        [("UR", Kind::Ur), ("UP", Kind::Up), ("SB", Kind::Sb), ("R", Kind::R), ("P", Kind::P), ("B", Kind::B)];
    for (prefix, kind) in FORMS {
        let Some(rest) = s.strip_prefix(prefix) else { continue };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (value, len) = if digits > 0 {
            (rest[..digits].parse().ok()?, prefix.len() + digits)
        } else {
            match (kind, rest.as_bytes().first()) {
                (Kind::R, Some(b'Z')) => (255, 2),
                (Kind::Ur, Some(b'Z')) => (urz, 3),
                (Kind::P, Some(b'T')) => (7, 2),
                (Kind::Up, Some(b'T')) => (7, 3),
                _ => return None,
            }
        };
        let next = s.as_bytes().get(len).copied().unwrap_or(b' ');
        return if next.is_ascii_alphanumeric() || next == b'_' { None } else { Some((kind, value, len)) };
    }
    None
}

fn hex_prefix(s: &str) -> Option<(i64, usize)> {
    let negative = s.starts_with('-');
    let rest = &s[usize::from(negative)..];
    let digits = rest.strip_prefix("0x")?.bytes().take_while(u8::is_ascii_hexdigit).count();
    if digits == 0 || digits > 16 {
        return None;
    }
    let value = u64::from_str_radix(&rest[2..2 + digits], 16).ok()? as i64;
    Some((if negative { value.wrapping_neg() } else { value }, usize::from(negative) + 2 + digits))
}

fn float_prefix(s: &str) -> Option<usize> {
    for name in ["INF", "QNAN", "SNAN"] {
        if (s.starts_with('+') || s.starts_with('-')) && s[1..].starts_with(name) {
            let end = 1 + name.len();
            return Some(end + usize::from(s[end..].starts_with(' ')));
        }
    }
    if s.starts_with("-0.0 ") {
        return Some(5);
    }
    let bytes = s.as_bytes();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(at);
    if whole == 0 || s[at..].starts_with("0x") {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let frac = digits(at + 1);
        if frac == 0 {
            return None;
        }
        at += 1 + frac;
    }
    if bytes.get(at) == Some(&b'e') && matches!(bytes.get(at + 1), Some(b'+' | b'-')) {
        let exponent = digits(at + 2);
        if exponent > 0 {
            at += 2 + exponent;
        }
    }
    let next = bytes.get(at).copied().unwrap_or(b' ');
    if next.is_ascii_alphanumeric() || next == b'_' { None } else { Some(at) }
}

/// Splits a text (guard removed) into tokens.
pub fn tokens(text: &str, urz: i64) -> Vec<Token> {
    let mut out = Vec::with_capacity(24);
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut mnemonic = true;
    while at < bytes.len() {
        let rest = &text[at..];
        let fresh =
            !mnemonic && (at == 0 || !matches!(bytes[at - 1], b'.' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9'));
        if fresh {
            if let Some((kind, value, len)) = number_prefix(rest, urz) {
                out.push(Token::Num(kind, value));
                at += len;
                continue;
            }
            if let Some(hex) = rest.strip_prefix('@')
                && let Some((value, len)) = hex_prefix(hex)
            {
                out.push(Token::Num(Kind::Target, value));
                at += 1 + len;
                continue;
            }
            if let Some((value, len)) = hex_prefix(rest) {
                let wide = value < 0 && !rest.starts_with('-');
                out.push(Token::Num(if wide { Kind::Wide } else { Kind::Hex }, value));
                at += len;
                continue;
            }
            if let Some(len) = float_prefix(rest) {
                out.push(Token::Float(rest[..len].to_owned()));
                at += len;
                continue;
            }
            if rest.starts_with('{')
                && let Some(end) = rest.find('}')
                && rest[1..end].bytes().all(|b| b.is_ascii_digit() || b == b',')
            {
                let mut bits = 0i64;
                for part in rest[1..end].split(',') {
                    bits |= 1 << part.parse::<u32>().unwrap_or(63);
                }
                out.push(Token::Num(Kind::Set, bits));
                at += end + 1;
                continue;
            }
        }
        let len = if rest.starts_with(", ") {
            2
        } else {
            let first = bytes[at];
            let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if first == b'.' || word(first) { 1 + bytes[at + 1..].iter().take_while(|&&b| word(b)).count() } else { 1 }
        };
        mnemonic &= bytes[at] != b' ';
        out.push(Token::Lit(text[at..at + len].to_owned()));
        at += len;
    }
    out
}
