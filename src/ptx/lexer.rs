//! Bytes to tokens, one at a time, with the line of each.
//!
//! Total: every byte of the text is inside a token or is white space or a comment. Byte-order mark, NUL, lone CR and CRLF
//! are white space. Lines are counted by `\n` alone, as ptxas does.

/// What a token is. Punctuation is told apart by kind, so that the parser never looks at bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The end of the text.
    Eof,
    /// `foo`, `%r1`, `$L__BB0_2`, `_`.
    Ident,
    /// `.reg`, `.shared::cluster`, `.128x256b`: a dot and the word glued to it.
    Dot,
    /// `12`, `0x1fU`, `0f3F800000`, `1.5e-3`.
    Number,
    /// `"…"`, quotes included.
    String,
    /// `#line 3 "x.cu"` or `@@DWARF …`: the whole rest of the line.
    WholeLine,
    Comma,
    Semicolon,
    Colon,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    OpenParen,
    CloseParen,
    Less,
    Greater,
    Plus,
    Minus,
    Bang,
    Tilde,
    At,
    Equals,
    Pipe,
    AddressSlice,
    /// Any other operator of constant expressions: `*`, `/`, `%`, `&`, `^`, `<<`, `>>`, `<=`, `>=`, `==`, `!=`, `&&`, `||`.
    Binary,
    /// A comment that never ends; runs to the end of the text.
    OpenComment,
    /// A string that never ends.
    OpenString,
    /// A character that PTX does not have.
    Unknown,
}

/// A token: where it is and on which line it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) line: u32,
    /// Offset of the first byte of that line.
    pub(super) line_start: u32,
}

/// Classes of bytes that start a token.
const SPACE: u8 = 1;
const WORD: u8 = 2;
const DIGIT: u8 = 4;

/// One entry a byte. `%` starts an identifier only before a word byte, so it is not a word byte itself.
const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\r' | 0 | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => WORD,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// The kind of a byte that is a token whatever follows it; [`Kind::Unknown`] for all others.
const ALONE: [Kind; 256] = {
    let mut table = [Kind::Unknown; 256];
    table[b',' as usize] = Kind::Comma;
    table[b';' as usize] = Kind::Semicolon;
    table[b'[' as usize] = Kind::OpenBracket;
    table[b']' as usize] = Kind::CloseBracket;
    table[b'{' as usize] = Kind::OpenBrace;
    table[b'}' as usize] = Kind::CloseBrace;
    table[b'(' as usize] = Kind::OpenParen;
    table[b')' as usize] = Kind::CloseParen;
    table[b'+' as usize] = Kind::Plus;
    table[b'-' as usize] = Kind::Minus;
    table[b':' as usize] = Kind::Colon;
    table[b'~' as usize] = Kind::Tilde;
    table[b'?' as usize] = Kind::AddressSlice;
    table
};

/// Whether the byte can stand inside an identifier.
fn in_word(byte: u8) -> bool {
    CLASS[byte as usize] & (WORD | DIGIT) != 0
}

/// Reads tokens off a text. A copy is a bookmark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    line: u32,
    line_start: u32,
}

impl<'a> Lexer<'a> {
    /// Starts at the first byte, on line 1. The text must be shorter than 4 GiB ([`super::parse`] sees to that).
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, pos: 0, line: 1, line_start: 0 }
    }

    /// The text of a token.
    pub(super) fn slice(&self, token: Token) -> &'a str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or("")
    }

    /// The text between two offsets.
    pub(super) fn between(&self, start: u32, end: u32) -> &'a str {
        self.text.get(start as usize..end as usize).unwrap_or("")
    }

    /// The text inside a bracket that was just read, of whatever kind, up to the one that closes it, which is read too.
    pub(super) fn group(&mut self, open: Token) -> &'a str {
        let mut depth = 1_u32;
        loop {
            let token = self.next();
            match token.kind {
                Kind::OpenParen | Kind::OpenBrace | Kind::OpenBracket => depth += 1,
                Kind::CloseParen | Kind::CloseBrace | Kind::CloseBracket => depth -= 1,
                Kind::Eof => depth = 0,
                _ => {}
            }
            if depth == 0 {
                return self.between(open.end, token.start);
            }
        }
    }

    fn byte(&self, at: usize) -> u8 {
        // 0 stands for the end: NUL is white space, so no rule below continues over it.
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The next token that is no whole line; [`Kind::Eof`] for ever once the text is used up.
    pub(super) fn next(&mut self) -> Token {
        loop {
            let token = self.next_or_line();
            if token.kind != Kind::WholeLine {
                return token;
            }
        }
    }

    /// The next token. ptxas takes `#line` anywhere, in the middle of a statement too: only the parser wants to see it.
    #[inline]
    pub(super) fn next_or_line(&mut self) -> Token {
        if let Some(open_comment) = self.skip_trivia() {
            return open_comment;
        }
        let start = self.pos;
        let (line, line_start) = (self.line, self.line_start);
        let first = self.byte(start);
        let kind = match CLASS[first as usize] {
            WORD => {
                self.pos = self.word_end(start + 1);
                Kind::Ident
            }
            DIGIT => {
                self.pos = self.number_end(start);
                Kind::Number
            }
            _ => match ALONE[first as usize] {
                Kind::Unknown => self.punctuation(first),
                kind => {
                    self.pos += 1;
                    kind
                }
            },
        };
        Token { kind, start: start as u32, end: self.pos as u32, line, line_start }
    }

    #[inline]
    fn skip_trivia(&mut self) -> Option<Token> {
        let bytes = self.text.as_bytes();
        loop {
            let &byte = bytes.get(self.pos)?;
            let class = CLASS[byte as usize];
            if class == SPACE {
                self.pos += 1;
            } else if class != 0 {
                return None;
            } else if byte == b'\n' {
                self.pos += 1;
                self.line += 1;
                self.line_start = self.pos as u32;
            } else if byte == b'/' && self.byte(self.pos + 1) == b'/' {
                self.pos = self.line_end(self.pos + 2);
            } else if byte == b'/' && self.byte(self.pos + 1) == b'*' {
                if let Some(open) = self.block_comment() {
                    return Some(open);
                }
            } else if byte == 0xef && self.pos == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
                self.pos = 3;
            } else {
                return None;
            }
        }
    }

    fn block_comment(&mut self) -> Option<Token> {
        let (start, line, line_start) = (self.pos, self.line, self.line_start);
        let bytes = self.text.as_bytes();
        self.pos += 2;
        while let Some(&byte) = bytes.get(self.pos) {
            self.pos += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = self.pos as u32;
            } else if byte == b'*' && self.byte(self.pos) == b'/' {
                self.pos += 1;
                return None;
            }
        }
        Some(Token { kind: Kind::OpenComment, start: start as u32, end: self.pos as u32, line, line_start })
    }

    fn word_end(&self, from: usize) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or(&[]);
        from + rest.iter().position(|&byte| !in_word(byte)).unwrap_or(rest.len())
    }

    /// The offset of the next `\n`, or of the end of the text.
    fn line_end(&self, from: usize) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or(&[]);
        from + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
    }

    /// `12`, `0x1fU`, `0f3F800000`, `8.5`, `1.5e-3`. A sign belongs to the exponent of a decimal number only: `0x1e-3` is
    /// a subtraction.
    fn number_end(&self, start: usize) -> usize {
        let radix = self.byte(start) == b'0' && matches!(self.byte(start + 1), b'x' | b'X' | b'f' | b'F' | b'd' | b'D');
        let mut end = self.word_end(start + 1);
        if radix {
            return end;
        }
        if self.byte(end) == b'.' {
            end = self.word_end(end + 1);
        }
        if matches!(self.byte(end - 1), b'e' | b'E')
            && matches!(self.byte(end), b'+' | b'-')
            && self.byte(end + 1).is_ascii_digit()
        {
            end = self.word_end(end + 1);
        }
        end
    }

    fn punctuation(&mut self, first: u8) -> Kind {
        let second = self.byte(self.pos + 1);
        let (length, kind) = match first {
            b'.' if in_word(second) => return self.dotted(),
            b'%' if in_word(second) => {
                self.pos = self.word_end(self.pos + 2);
                return Kind::Ident;
            }
            0 => (0, Kind::Eof),
            b'@' if second == b'@' => return self.whole_line(),
            b'@' => (1, Kind::At),
            b'<' if matches!(second, b'<' | b'=') => (2, Kind::Binary),
            b'<' => (1, Kind::Less),
            b'>' if matches!(second, b'>' | b'=') => (2, Kind::Binary),
            b'>' => (1, Kind::Greater),
            b'=' if second == b'=' => (2, Kind::Binary),
            b'=' => (1, Kind::Equals),
            b'!' if second == b'=' => (2, Kind::Binary),
            b'!' => (1, Kind::Bang),
            b'|' if second == b'|' => (2, Kind::Binary),
            b'|' => (1, Kind::Pipe),
            b'&' if second == b'&' => (2, Kind::Binary),
            b'*' | b'/' | b'%' | b'&' | b'^' => (1, Kind::Binary),
            b'"' => return self.string(),
            b'#' => return self.whole_line(),
            _ => {
                // A whole character, so that every span stays on a character boundary.
                let rest = self.text.get(self.pos..).unwrap_or("");
                (rest.chars().next().map_or(1, char::len_utf8), Kind::Unknown)
            }
        };
        self.pos += length;
        kind
    }

    fn dotted(&mut self) -> Kind {
        self.pos = self.word_end(self.pos + 2);
        while self.byte(self.pos) == b':' && self.byte(self.pos + 1) == b':' && in_word(self.byte(self.pos + 2)) {
            self.pos = self.word_end(self.pos + 3);
        }
        Kind::Dot
    }

    fn whole_line(&mut self) -> Kind {
        self.pos = self.line_end(self.pos);
        Kind::WholeLine
    }

    /// Strings have no escapes and may span lines: ptxas ends `"C:\dir\"` at the second quote.
    fn string(&mut self) -> Kind {
        let from = self.pos + 1;
        let rest = self.text.as_bytes().get(from..).unwrap_or(&[]);
        let Some(length) = rest.iter().position(|&byte| byte == b'"') else {
            self.pos = self.line_end(from);
            return Kind::OpenString;
        };
        for (offset, _) in rest.iter().take(length).enumerate().filter(|&(_, &byte)| byte == b'\n') {
            self.line += 1;
            self.line_start = (from + offset + 1) as u32;
        }
        self.pos = from + length + 1;
        Kind::String
    }
}
