//! The last thing between the writers and a reader: whatever a file put into the output, no terminal, page or CI log acts on it.
//!
//! Every byte of output passes a [`Clean`] writer, standard error included, so that a writer which forgets to escape a name shows it
//! badly and does no harm. Three things never pass:
//!
//! * characters that a terminal acts on, or that show something else than what is there ([`is_unsafe`]): they are spelt out as the
//!   [`Form`] of the output spells a character;
//! * bytes that are no UTF-8;
//! * the start of a CI system's command: `::` at the start of a line (GitHub), `##[`, `##vso[` and `##teamcity[` anywhere.
//!
//! What does pass: line feeds, tabs, the few colours of [`style`](super::text) where the form is text, and there
//! the links that are told apart by a key of this process.

use std::io::{self, Write};

use super::links::Links;
use super::text::COLOURS;

/// The language of an output: how a character that must not stand there itself is spelt in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people, which may have colours: `\u{1b}`.
    Text,
    /// Text without colours: tables, markup, PTX; `\u{1b}` as well.
    Plain,
    /// The same, in which lines that start with `::` are ours.
    Commands,
    /// JSON, in which such characters stand in strings alone: `\u001b` is the same string.
    Json,
}

/// Whether a terminal might act on a character, or it shows as something else than what is there, or not at all.
///
/// The Unicode categories Cc, Cf, Zl and Zp, what has the property `Default_Ignorable_Code_Point`, and noncharacters, which XML does
/// not allow (Unicode 16, `UnicodeData.txt` and `DerivedCoreProperties.txt`).
pub fn is_unsafe(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The most letters between `##` and `[` that are taken for a command's name; the longest known is `teamcity`.
const COMMAND: usize = 16;

/// What a byte asks for; most ask for nothing.
const PASSES: [bool; 256] = {
    let mut passes = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        passes[byte] = byte != b'#' as usize;
        byte += 1;
    }
    passes[b'\t' as usize] = true;
    passes
};

/// A writer that spells out what must not leave.
pub struct Clean<W: Write> {
    out: W,
    form: Form,
    /// The end of what was written, where more is needed to judge it.
    held: Vec<u8>,
    starts_line: bool,
    /// How links of ours start; nothing where there are none.
    link: Option<Vec<u8>>,
    /// Whether colours are left out.
    is_plain: bool,
}

/// The end of a link's address.
const LINK_END: &[u8] = b"\x1b\\";
/// The longest mark of a link.
const LINK: usize = 8192;

/// What stands at a place of the output.
enum Piece {
    /// So many bytes that may pass.
    Passes(usize),
    /// A mark of a link of ours: so many bytes, with its address after so many.
    Link(usize, usize),
    /// A character that is spelt out, and its length.
    Spelt(char, usize),
    /// A byte that is no UTF-8.
    Broken(u8),
    /// More bytes are needed to say.
    Unfinished,
}

impl<W: Write> Clean<W> {
    /// Cleans what goes to a writer.
    pub fn new(form: Form, out: W) -> Self {
        Clean { out, form, held: Vec::new(), starts_line: true, link: None, is_plain: false }
    }

    /// The same without colours.
    pub fn without_colours(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// The same, with links that a terminal knows; only text has any.
    pub fn with_links(mut self, links: Option<&Links>) -> Self {
        let links = links.filter(|_| self.form == Form::Text);
        self.link = links.map(|links| format!("\x1b]8;{};", links.key()).into_bytes());
        self
    }

    /// A mark of a link at the start of some bytes; none where there is none, `Unfinished` where that is to be seen.
    fn mark(&self, bytes: &[u8], is_end: bool) -> Option<Piece> {
        let start = self.link.as_deref()?;
        let unfinished = (!is_end).then_some(Piece::Unfinished);
        let Some(address) = bytes.strip_prefix(start) else {
            return unfinished.filter(|_| start.starts_with(bytes));
        };
        let length = address.iter().take(LINK).take_while(|byte| byte.is_ascii_graphic()).count();
        match address.get(length..).unwrap_or_default() {
            [] | [0x1b] if length < LINK => unfinished,
            rest if rest.starts_with(LINK_END) => Some(Piece::Link(start.len() + length + LINK_END.len(), start.len())),
            _ => None,
        }
    }

    /// Writes a mark as terminals know it: without the key.
    fn write_mark(&mut self, mark: &[u8], address: usize) -> io::Result<()> {
        self.out.write_all(b"\x1b]8;;")?;
        self.out.write_all(mark.get(address..).unwrap_or_default())
    }

    /// Writes what can be judged, and says how much of it there was. At the end everything can.
    fn pass(&mut self, bytes: &[u8], is_end: bool) -> io::Result<usize> {
        let mut from = 0;
        let mut at = 0;
        loop {
            if self.starts_line {
                at += plain_lines(&bytes[at..]);
                // Nearly every line starts with blanks.
                at += bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count();
                match self.line_start(&bytes[at..], is_end) {
                    Piece::Unfinished => break,
                    Piece::Passes(0) => self.starts_line = false,
                    Piece::Passes(length) => {
                        self.leave_out_colour(bytes, &mut from, at, length)?;
                        at += length;
                        continue;
                    }
                    Piece::Link(length, address) => {
                        self.out.write_all(&bytes[from..at])?;
                        self.write_mark(&bytes[at..at + length], address)?;
                        at += length;
                        from = at;
                        continue;
                    }
                    Piece::Spelt(..) | Piece::Broken(_) => {
                        self.out.write_all(&bytes[from..at])?;
                        self.spell(':')?;
                        at += 1;
                        from = at;
                        self.starts_line = false;
                    }
                }
            }
            at += passing(&bytes[at..]);
            if at == bytes.len() {
                break;
            }
            match self.piece(&bytes[at..], is_end) {
                Piece::Unfinished => break,
                Piece::Passes(length) => {
                    self.starts_line = bytes[at] == b'\n';
                    self.leave_out_colour(bytes, &mut from, at, length)?;
                    at += length;
                }
                Piece::Link(length, address) => {
                    self.out.write_all(&bytes[from..at])?;
                    self.write_mark(&bytes[at..at + length], address)?;
                    at += length;
                    from = at;
                }
                Piece::Spelt(c, length) => {
                    self.out.write_all(&bytes[from..at])?;
                    self.spell(c)?;
                    at += length;
                    from = at;
                }
                Piece::Broken(byte) => {
                    self.out.write_all(&bytes[from..at])?;
                    match self.form {
                        Form::Json => self.out.write_all("\u{fffd}".as_bytes())?,
                        _ => write!(self.out, "\\x{byte:02x}")?,
                    }
                    at += 1;
                    from = at;
                }
            }
        }
        self.out.write_all(&bytes[from..at])?;
        Ok(at)
    }

    /// Writes what comes before a colour that is not wanted, and passes over it.
    fn leave_out_colour(&mut self, bytes: &[u8], from: &mut usize, at: usize, length: usize) -> io::Result<()> {
        if self.is_plain && bytes[at] == 0x1b {
            self.out.write_all(&bytes[*from..at])?;
            *from = at + length;
        }
        Ok(())
    }

    /// What stands at the start of some bytes.
    fn piece(&self, bytes: &[u8], is_end: bool) -> Piece {
        match bytes {
            [] => Piece::Unfinished,
            [b'\n', ..] => Piece::Passes(1),
            [b'#', rest @ ..] => {
                let Some((second, rest)) = rest.split_first() else {
                    return if is_end { Piece::Passes(1) } else { Piece::Unfinished };
                };
                if *second != b'#' {
                    return Piece::Passes(1);
                }
                let name = rest.iter().take(COMMAND).take_while(|byte| byte.is_ascii_alphabetic()).count();
                match rest.get(name) {
                    Some(b'[') => Piece::Spelt('#', 1),
                    None if !is_end && name < COMMAND => Piece::Unfinished,
                    _ => Piece::Passes(1),
                }
            }
            [0x1b, ..] if self.form == Form::Text => match colour(bytes) {
                Some(length) => Piece::Passes(length),
                None if let Some(mark) = self.mark(bytes, is_end) => mark,
                None if !is_end && COLOURS.iter().any(|known| known.starts_with(bytes)) => Piece::Unfinished,
                None => Piece::Spelt('\u{1b}', 1),
            },
            [byte @ ..0x80, ..] => Piece::Spelt(char::from(*byte), 1),
            [byte, ..] => match character(bytes) {
                Ok(c) if is_unsafe(c) => Piece::Spelt(c, c.len_utf8()),
                Ok(c) => Piece::Passes(c.len_utf8()),
                Err(true) if !is_end => Piece::Unfinished,
                Err(_) => Piece::Broken(*byte),
            },
        }
    }

    /// What stands at the start of a line, before anything but white space and colours: `::` is spelt out, nothing passes where the
    /// line has begun.
    fn line_start(&self, bytes: &[u8], is_end: bool) -> Piece {
        match bytes {
            [] => Piece::Unfinished,
            _ if self.form == Form::Commands => Piece::Passes(0),
            [b':', b':', ..] => Piece::Spelt(':', 1),
            [b':'] if !is_end => Piece::Unfinished,
            [0x1b, ..] if self.form == Form::Text => match self.piece(bytes, is_end) {
                Piece::Spelt(..) => Piece::Passes(0),
                piece => piece,
            },
            // Nearly every line starts with one of these: JSON is indented.
            [b' ' | b'\t' | b'\n', ..] => Piece::Passes(1),
            [..0x80, ..] => Piece::Passes(0),
            _ => match character(bytes) {
                // What is spelt out is no white space any more.
                Ok(c) if c.is_whitespace() && !is_unsafe(c) => Piece::Passes(c.len_utf8()),
                Err(true) if !is_end => Piece::Unfinished,
                _ => Piece::Passes(0),
            },
        }
    }

    fn spell(&mut self, c: char) -> io::Result<()> {
        match self.form {
            Form::Json => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.out, "\\u{unit:04x}")?;
                }
                Ok(())
            }
            Form::Text | Form::Plain | Form::Commands => write!(self.out, "{}", c.escape_unicode()),
        }
    }

    /// Writes what was held back: nothing more belongs to it.
    fn finish(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.pass(&held, true).map(drop)
    }
}

/// How many bytes from the start of a line on are whole lines of which nothing asks for anything, their starts included.
fn plain_lines(bytes: &[u8]) -> usize {
    let mut at = 0;
    while bytes.get(at..).and_then(|rest| rest.first_chunk()).is_some_and(is_plain) {
        at += CHUNK;
    }
    memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1)
}

/// Bytes that are looked at together.
const CHUNK: usize = 64;

/// Whether some bytes are all line feeds, or pass and are no two colons. The last is only there to follow the others. Nothing decides before the
/// end: so all are looked at at once.
fn is_plain(bytes: &[u8; CHUNK + 1]) -> bool {
    let mut asks = 0;
    for at in 0..CHUNK {
        let byte = bytes[at];
        let is_other = u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') & u8::from(byte != b'\n');
        let are_colons = u8::from(byte == b':') & u8::from(bytes[at + 1] == b':');
        asks |= is_other | u8::from(byte == b'#') | are_colons;
    }
    asks == 0
}

/// How many bytes ask for nothing: many at once, for most outputs are nothing else.
fn passing(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let many = 8 * words.iter().take_while(|word| all_pass(u64::from_ne_bytes(**word))).count();
    many + bytes[many..].iter().take_while(|&&byte| PASSES[usize::from(byte)]).count()
}

/// Whether eight bytes are all from 0x20 to 0x7e and none is a `#`. A byte that is not may borrow from the next or carry into it: one
/// that is found is there, whatever the others say.
fn all_pass(bytes: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let low = bytes.wrapping_sub(ONES * 0x20) & !bytes;
    let high = bytes | bytes.wrapping_add(ONES);
    let sharp = bytes ^ (ONES * b'#' as u64);
    (low | high | sharp.wrapping_sub(ONES) & !sharp) & HIGH == 0
}

/// The length of the colour that some bytes start with.
fn colour(bytes: &[u8]) -> Option<usize> {
    COLOURS.iter().find(|known| bytes.starts_with(known)).map(|known| known.len())
}

/// The character that some bytes start with; else whether they are the start of one.
fn character(bytes: &[u8]) -> Result<char, bool> {
    let start = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() == 0 => return Err(error.error_len().is_none()),
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().ok_or(true)
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.is_empty() {
            let done = self.pass(bytes, false)?;
            self.held.extend_from_slice(&bytes[done..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            let done = self.pass(&held, false)?;
            held.drain(..done);
            self.held = held;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.finish()?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Clean<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// A text as it leaves in a form.
pub fn text(form: Form, text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut clean = Clean::new(form, &mut out);
    // Nothing written to memory fails.
    let _ = clean.write_all(text.as_bytes());
    drop(clean);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::text::{BAD, BOLD, RESET};

    #[test]
    fn what_passes_is_the_same_many_at_once() {
        for byte in 0..=255u8 {
            for at in [0, 1, 15, 16, 17, 40] {
                let mut bytes = [b'a'; 48];
                bytes[at] = byte;
                let slow = bytes.iter().take_while(|&&byte| PASSES[usize::from(byte)]).count();
                assert_eq!(passing(&bytes), slow, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn lines_leave_the_same_many_bytes_at_once() {
        let line = "  0010    7    0    0     0    12  IMAD.WIDE R2, R3, 0x4, R4 and so on: a line of some length\n";
        for odd in
            ["::error", " :: notice", "a::b", "::", ":", "##[group]", "#", "\u{1b}[1m", "\u{202e}", "é::", "\t::"]
        {
            for at in [0, 1, 40, 62, 63, 64, 65, 66, 93, 94, 95, 96, 130] {
                let mut whole = line.repeat(4);
                whole.insert_str(at, odd);
                for form in [Form::Text, Form::Plain, Form::Commands, Form::Json] {
                    let mut slow = Vec::new();
                    let mut clean = Clean::new(form, &mut slow);
                    whole.as_bytes().chunks(1).for_each(|byte| clean.write_all(byte).unwrap());
                    drop(clean);
                    assert_eq!(text(form, &whole), String::from_utf8(slow).unwrap(), "{odd:?} at {at}, {form:?}");
                }
            }
        }
    }

    #[test]
    fn colours_can_be_left_out() {
        let text = format!("{BOLD}name{RESET}\n  {BAD}worse{RESET} \u{1b}[5m\n{BOLD}{RESET}::error");
        for cut in 0..text.len() {
            let mut out = Vec::new();
            let mut clean = Clean::new(Form::Text, &mut out).without_colours();
            clean.write_all(&text.as_bytes()[..cut]).unwrap();
            clean.write_all(&text.as_bytes()[cut..]).unwrap();
            drop(clean);
            assert_eq!(String::from_utf8(out).unwrap(), "name\n  worse \\u{1b}[5m\n\\u{3a}:error", "{cut}");
        }
    }

    fn cleaned(form: Form, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut clean = Clean::new(form, &mut out);
        pieces.iter().for_each(|piece| clean.write_all(piece).unwrap());
        drop(clean);
        String::from_utf8(out).unwrap()
    }

    /// The same whether it comes at once or byte by byte.
    fn both(form: Form, bytes: &[u8]) -> String {
        let whole = cleaned(form, &[bytes]);
        let bits: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(whole, cleaned(form, &bits), "{bytes:?}");
        whole
    }

    #[test]
    fn what_is_harmless_stays() {
        let text = "a\tb\nαβγ █▂ 漢字 ✅ `x` 12 # one ## two ### [x] a::b : c\n";
        for form in [Form::Text, Form::Plain, Form::Commands, Form::Json] {
            assert_eq!(both(form, text.as_bytes()), text);
        }
    }

    #[test]
    fn every_unsafe_character_is_spelt_out() {
        for c in ('\0'..=char::MAX).filter(|&c| is_unsafe(c) && !matches!(c, '\n' | '\t')) {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(cleaned(Form::Plain, &[bytes]), format!("\\u{{{:x}}}", u32::from(c)));
            let quoted = format!("\"{}\"", cleaned(Form::Json, &[bytes]));
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), c.to_string());
        }
        for c in "\u{200b}\u{202e}\u{2066}\u{2069}\u{feff}\u{2028}\u{ad}\u{e0041}\u{9b}\u{7f}\u{ffff}\u{1ffff}".chars()
        {
            assert!(is_unsafe(c), "{c:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        assert_eq!(both(Form::Text, b"a\xffb\xe2\x80"), "a\\xffb\\xe2\\x80");
        assert_eq!(both(Form::Json, b"\"\xff\""), "\"\u{fffd}\"");
    }

    #[test]
    fn only_our_colours_pass_and_only_in_text() {
        let ours = format!("{BOLD}name{RESET} {BAD}x{RESET}");
        assert_eq!(both(Form::Text, ours.as_bytes()), ours);
        assert_eq!(both(Form::Text, b"\x1b[8mhidden\x1b]0;t\x07\x1b["), "\\u{1b}[8mhidden\\u{1b}]0;t\\u{7}\\u{1b}[");
        assert!(!both(Form::Plain, ours.as_bytes()).contains('\u{1b}'));
    }

    #[test]
    fn no_line_is_a_command_of_a_ci_system() {
        assert_eq!(
            both(Form::Text, b"::error::x\n  ::set-output\na ::b"),
            "\\u{3a}:error::x\n  \\u{3a}:set-output\na ::b"
        );
        assert_eq!(both(Form::Text, "\u{a0}\u{3000}::x".as_bytes()), "\u{a0}\u{3000}\\u{3a}:x");
        let styled = format!("{BOLD}::error::x{RESET}");
        assert_eq!(both(Form::Text, styled.as_bytes()), format!("{BOLD}\\u{{3a}}:error::x{RESET}"));
        assert_eq!(
            both(Form::Plain, b"a##vso[task] ###[x] ##teamcity[m"),
            "a\\u{23}#vso[task] #\\u{23}#[x] \\u{23}#teamcity[m"
        );
        assert_eq!(both(Form::Commands, b"::error::##[x]\n"), "::error::\\u{23}#[x]\n");
        assert_eq!(both(Form::Json, b"\"##[x]\""), "\"\\u0023#[x]\"");
    }
}
