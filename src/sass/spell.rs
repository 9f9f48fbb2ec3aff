//! Texts of many words: what words of one [shape](super::plan) have in common is put together once.
//!
//! They have the same literals, with numbers of the same fields between them. A shape is found by walking the tables once, and kept; spelling
//! a word is then finding its shape, and writing it.

use crate::base::Pc;

use super::Word;
use super::blob::{self, Class, Op};
use super::decode::{Bits, Decoder, Number, Step, kind, walk_template};
use super::plan::{CONTROL, Deciding, ODD, Shapes, bits, mixed};
use super::write::{Line, NameTable, PIECE, ROOM};

/// Shapes that are kept. Large cubins have some three thousand.
const SHAPES: usize = 1 << 13;
/// Texts that are kept, a power of two. Half of a large cubin's words were spelt lately.
const TEXTS: usize = 1 << 12;
/// Bytes of a text that is kept, the last of which is its length.
const TEXT: usize = 48;
/// Pieces that are kept of all shapes.
const MOST_PIECES: usize = 1 << 18;

/// Texts of instructions, one after the other.
#[derive(Debug, Default)]
pub struct Text {
    /// More than is written, so that pieces are put down whole.
    bytes: Vec<u8>,
    len: usize,
}

impl Text {
    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// The same as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("?")
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// How much was written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes back what was written behind a place.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends the first `len` bytes of some.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        self.make_room(N);
        // An array, so that it is copied where it stands and not by a call.
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *room = *bytes;
            self.len += len.min(N);
        }
    }

    /// Appends some bytes of the room that it is given, as many as `write` says.
    #[inline(always)]
    pub(crate) fn fill<const N: usize>(&mut self, write: impl FnOnce(&mut [u8; N]) -> usize) {
        self.make_room(N);
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            self.len += write(room).min(N);
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if let [byte] = bytes {
            return self.put(&[*byte], 1);
        }
        self.make_room(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// What was written from a place on, as it is kept; none where it is too long.
    #[inline(always)]
    fn kept(&self, start: usize) -> Option<[u8; TEXT]> {
        let len = u8::try_from(self.len - start).ok().filter(|len| usize::from(*len) < TEXT)?;
        let mut text = *self.bytes.get(start..)?.first_chunk()?;
        text[TEXT - 1] = len;
        Some(text)
    }

    /// Appends what a line has.
    #[inline(always)]
    fn line(&mut self, write: impl for<'a> FnOnce(Line<'a>) -> Line<'a>) {
        self.make_room(ROOM);
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            self.len += write(Line::new(room)).len();
        }
    }

    #[inline(always)]
    fn make_room(&mut self, room: usize) {
        if self.bytes.len() - self.len < room {
            self.grow(room);
        }
    }

    #[cold]
    fn grow(&mut self, room: usize) {
        self.bytes.resize(2 * (self.len + room), 0);
    }
}

/// How words of a shape are spelt.
#[derive(Clone, Copy, Default)]
struct Spelling {
    /// Its pieces: from, to. None where no word is legal.
    first: u32,
    end: u32,
    is_legal: bool,
    /// Whether their text depends on their bits alone, those of the control aside: not on where they are.
    is_alike: bool,
}

/// A word that was spelt lately, less its control, and its text.
#[derive(Clone, Copy)]
struct Spelt {
    word: Word,
    text: [u8; TEXT],
}

impl Spelt {
    /// No word less its control is this.
    const NONE: Spelt = Spelt { word: Word { lo: 0, hi: CONTROL }, text: [0; TEXT] };
}

/// Some bytes as they are, then a number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    literal: [u8; PIECE],
    len: u8,
    /// What follows: a field whose values have names in a table, by the table's number; or one of the others.
    what: u8,
    /// Which half of the word the field is in, its lowest bit there, its bits.
    half: u8,
    shift: u8,
    /// The field's bits; of any other number, where it is among the numbers.
    mask: u32,
}

/// What comes before this is the number of a table.
const NO_NAME: u8 = 0x80;
/// A field in hexadecimal.
const HEX: u8 = NO_NAME;
/// One that has a sign.
const SIGNED_HEX: u8 = NO_NAME + 1;
/// Any number.
const NUMBER: u8 = NO_NAME + 2;

/// Spells the words of one architecture.
pub struct Speller {
    decoder: Decoder,
    shapes: Shapes<Spelling>,
    pieces: Vec<Piece>,
    /// What those have that are no fields.
    numbers: Vec<Number>,
    floats: Floats,
    /// Texts of words that are alike, each where its bits say.
    texts: Vec<Spelt>,
}

impl Speller {
    /// One that has seen nothing yet.
    pub fn new(decoder: Decoder) -> Speller {
        Speller {
            decoder,
            shapes: Shapes::new(decoder.pages, decides, SHAPES),
            pieces: Vec::new(),
            numbers: Vec::new(),
            floats: Floats::default(),
            texts: vec![Spelt::NONE; TEXTS],
        }
    }

    /// Appends a word's text, as [`Decoder::text`] writes it; false, and nothing, where the tables do not know the word.
    #[inline]
    pub fn text(&mut self, word: Word, pc: Pc, out: &mut Text) -> bool {
        let bare = Word { lo: word.lo, hi: word.hi & !CONTROL };
        let place = mixed(bare) % TEXTS;
        if let Some(spelt) = self.texts.get(place).filter(|spelt| spelt.word == bare) {
            out.put(&spelt.text, usize::from(spelt.text[TEXT - 1]));
            return true;
        }
        let start = out.len();
        let shape = self.spell(word, pc, out);
        if shape.is_alike
            && let (Some(text), Some(to)) = (out.kept(start), self.texts.get_mut(place))
        {
            *to = Spelt { word: bare, text };
        }
        shape.is_legal
    }

    /// Puts a text together.
    #[inline(always)]
    fn spell(&mut self, word: Word, pc: Pc, out: &mut Text) -> Spelling {
        let shape = match self.shapes.get(word) {
            Some(shape) => *shape,
            None => self.shape(word),
        };
        let pieces = self.pieces.get(shape.first as usize..shape.end as usize).unwrap_or(&[]);
        let (floats, numbers) = (&mut self.floats, &self.numbers);
        let halves = [word.lo, word.hi];
        out.line(|mut line| {
            for piece in pieces {
                line.put(&piece.literal, usize::from(piece.len));
                let half = halves[usize::from(piece.half & 1)];
                let value = (half >> (piece.shift & 63)) as u32 & piece.mask;
                if piece.what < NO_NAME {
                    line.name(piece.what, value as u8);
                    continue;
                }
                match piece.what {
                    HEX => line.hex(i64::from(value)),
                    SIGNED_HEX => {
                        let sign = piece.mask ^ piece.mask >> 1;
                        line.hex(i64::from((value ^ sign).wrapping_sub(sign) as i32));
                    }
                    _ => line = other(numbers.get(piece.mask as usize), word, pc, line, floats),
                }
            }
            line
        });
        shape
    }

    /// Finds the shape of a word that no other word had, by walking the tables.
    #[cold]
    fn shape(&mut self, word: Word) -> Spelling {
        if self.pieces.len() > MOST_PIECES {
            self.pieces.clear();
            self.numbers.clear();
            self.shapes.clear();
        }
        let first = self.pieces.len();
        let inst = self.decoder.decode(word);
        let mut is_alike = !inst.is_unknown();
        if !inst.is_unknown() {
            let mut literal: Vec<u8> = Vec::new();
            walk_template(word, Class(inst.class).template(), &mut |step| match step {
                Step::Text(len, at) => literal.extend_from_slice(blob::bytes_at(at, len)),
                Step::Fixed(text) => literal.extend_from_slice(text.as_bytes()),
                Step::Number(number) => {
                    is_alike &= number.kind != kind::TARGET && number.mask().hi & CONTROL == 0;
                    self.add_pieces(&mut literal, Some(number));
                }
            });
            if !literal.is_empty() {
                self.add_pieces(&mut literal, None);
            }
        }
        let (first, end) = (first as u32, self.pieces.len() as u32);
        let spelling = Spelling { first, end, is_legal: !inst.is_unknown(), is_alike };
        let is_kept = self.shapes.keep(word, spelling);
        Spelling { is_alike: is_alike && is_kept, ..spelling }
    }

    /// Adds bytes and what follows them.
    fn add_pieces(&mut self, literal: &mut Vec<u8>, number: Option<Number>) {
        let mut rest = literal.as_slice();
        loop {
            let (part, after) = rest.split_at(rest.len().min(PIECE));
            let mut bytes = [0; PIECE];
            bytes.iter_mut().zip(part).for_each(|(to, byte)| *to = *byte);
            let mut piece = match number.filter(|_| after.is_empty()) {
                Some(number) => Piece::of(number).unwrap_or_else(|| {
                    self.numbers.push(number);
                    Piece { what: NUMBER, mask: self.numbers.len() as u32 - 1, ..Piece::NOTHING }
                }),
                None => Piece::NOTHING,
            };
            (piece.literal, piece.len) = (bytes, part.len() as u8);
            self.pieces.push(piece);
            if after.is_empty() {
                break;
            }
            rest = after;
        }
        literal.clear();
    }
}

impl Piece {
    const NOTHING: Piece =
        Piece { literal: [0; PIECE], len: 0, what: NameTable::Nothing as u8, half: 0, shift: 0, mask: 0 };

    /// A number that is a field, with nothing before it.
    fn of(number: Number) -> Option<Piece> {
        let (bit, width, is_signed) = match number.bits {
            Bits::Field(bit, width) => (bit, width, false),
            Bits::Slot(slot) if slot.constant() == 0 => slot.field()?,
            Bits::Slot(_) => return None,
        };
        let what = match NameTable::of(number.kind, number.zero) {
            Some(table) if width <= 8 && !is_signed => table as u8,
            None if number.kind == kind::HEX && width <= 8 && !is_signed => NameTable::Hex as u8,
            None if number.kind == kind::HEX && width <= 32 => [HEX, SIGNED_HEX][usize::from(is_signed)],
            _ => return None,
        };
        let mask = !(u64::MAX << width) as u32;
        Some(Piece { what, half: u8::from(bit >= 64), shift: bit & 63, mask, ..Piece::NOTHING })
    }
}

/// Writes a number that is no field, or is spelt as none is. The line comes and goes by value: its length stays in a register.
#[inline(never)]
fn other<'a>(number: Option<&Number>, word: Word, pc: Pc, mut line: Line<'a>, floats: &mut Floats) -> Line<'a> {
    let Some(number) = number else { return line };
    let value = number.value(word);
    match number.kind {
        kind::TARGET => line.hex(value.wrapping_add(i64::from(pc.0) + 16)),
        kind::F16 | kind::BF16 | kind::F32 | kind::F64 => floats.write(number.kind, value, &mut line),
        _ => line.number(number.kind, number.zero, value),
    }
    line
}

/// Floats that were spelt lately: twenty digits take as long as ten lines, and code has few of them.
#[derive(Default)]
struct Floats {
    spelt: Vec<(u8, i64, String)>,
}

impl Floats {
    const MOST: usize = 1 << 10;

    #[inline(never)]
    fn write(&mut self, kind: u8, value: i64, line: &mut Line<'_>) {
        if self.spelt.is_empty() {
            self.spelt.resize(Floats::MOST, (0, 0, String::new()));
        }
        let at = ((value as u64).wrapping_mul(ODD) >> 40) as usize % Floats::MOST;
        let Some(place) = self.spelt.get_mut(at) else { return };
        if (place.0, place.1) != (kind, value) {
            let start = line.len();
            line.number(kind, 0, value);
            let text = line.written().get(start..).unwrap_or(&[]);
            *place = (kind, value, String::from_utf8_lossy(text).into_owned());
            return;
        }
        line.bytes(place.2.as_bytes());
    }
}

/// Looks up what decides how a class's words are spelt.
fn decides(class: Class, deciding: &mut Deciding) {
    let mask = &mut deciding.mask;
    *mask = mask.with(class.fixed());
    let mut comps: Vec<_> = class.comps().collect();
    let mut at = class.template();
    loop {
        let choice = match blob::op(at) {
            Op::End => break,
            Op::Flag(bit, ..) => bits(bit, 1),
            Op::Choice(bit, width, _) => bits(bit, width),
            Op::Guard(_) => {
                deciding.is_guarded = true;
                bits(15, 1)
            }
            Op::Site(comp, _) => {
                comps.push(comp);
                Word::default()
            }
            _ => Word::default(),
        };
        *mask = mask.with(choice);
        at += 8;
    }
    for comp in comps {
        comp.chunks().for_each(|chunk| *mask = mask.with(bits(chunk.bit, chunk.width)));
        deciding.questions.extend(comp.questions());
    }
}
