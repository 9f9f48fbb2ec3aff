//! Texts of many words: what words that choose alike have in common is put together once.
//!
//! The tables choose the pieces of a text by some bits of the word, and by a few questions about its numbers (is it RZ?). All words
//! of a class with the same such bits and answers have the same *shape*: the same literals, with numbers of the same fields between
//! them. A shape is found by walking the tables once, and kept; spelling a word is then finding its shape, and writing it.

use crate::base::Pc;

use super::Word;
use super::blob::{self, Class, Op, Question};
use super::decode::{Bits, Decoder, Number, Step, kind, walk_template};
use super::write::{Line, NameTable, ROOM};

/// Values of a word's opcode.
const OPCODES: usize = 1 << 12;
/// Shapes that are kept: a power of two. Large cubins have some three thousand.
const SHAPES: usize = 1 << 13;
/// Bytes of a piece.
const PIECE: usize = 24;
/// Pieces that are kept of all shapes.
const MOST_PIECES: usize = 1 << 18;
/// Bits of a word's upper half that hold the answers in a key: those of the control that no text shows.
const ANSWERS: (u32, u32) = (105 - 64, 17);

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

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
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

/// The register that guards where none does: its field, and what it is then.
const GUARD_IS_PT: (u8, u8, u64) = (12, 3, 7);

/// What decides how a class's words are spelt.
#[derive(Clone, Debug)]
struct Plan {
    class: Class,
    /// Bits that choose.
    mask: Word,
    /// Fields that are asked whether they are a number.
    lower: Asked,
    upper: Asked,
    /// Other questions; few classes have any.
    more: Option<Box<More>>,
    /// Whether there is room for the answers in a key.
    is_kept: bool,
}

/// Questions that are asked one by one.
#[derive(Clone, Debug)]
struct More {
    /// Those about fields: whether it is in the upper half, its bits, what they are asked to be.
    fields: Vec<(bool, u64, u64)>,
    /// All others.
    rest: Vec<Question>,
}

impl More {
    /// The answers, from the lowest bit on.
    #[inline(never)]
    fn answers(&self, word: Word) -> u64 {
        let fields = self.fields.iter().map(|(is_upper, mask, expected)| {
            let half = if *is_upper { word.hi } else { word.lo };
            half & mask == *expected
        });
        let all = fields.chain(self.rest.iter().map(|question| question.holds(word)));
        all.enumerate().fold(0, |answers, (at, holds)| answers | u64::from(holds) << at)
    }
}

/// Fields of a half of the word that lie apart, each asked whether it is a number. All are answered at once: the answer is put
/// where the field's highest bit is.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// The highest bits of the fields, and the others.
    highest: u64,
    others: u64,
    expected: u64,
}

impl Asked {
    /// Asks whether a field is a number; false where some of its bits are asked for something else.
    fn ask(&mut self, bit: u8, width: u8, expected: u64) -> bool {
        let (bit, width) = (bit & 63, width & 63);
        let field = !(u64::MAX << width) << bit;
        if width == 0 || expected >> width != 0 {
            return false;
        }
        if field & (self.highest | self.others) != 0 {
            return false;
        }
        let highest = 1 << (bit + width - 1);
        self.highest |= highest;
        self.others |= field & !highest;
        self.expected |= expected << bit;
        true
    }

    #[inline(always)]
    fn answers(self, half: u64) -> u64 {
        let differ = half ^ self.expected;
        // What differs in a field's lower bits is carried into its highest.
        !(((differ & self.others) + self.others) | differ) & self.highest
    }
}

/// Whether a bit of a word is set, or several are as given; and where to go then: to the next node, or to a plan.
#[derive(Clone, Copy, Debug)]
struct Node {
    is_equal: bool,
    bit: u8,
    mask: Word,
    value: Word,
    /// If not, and if so.
    next: [u32; 2],
}

impl Node {
    #[inline(always)]
    fn next(&self, word: Word) -> u32 {
        let is_so = match self.is_equal {
            false => blob::field(word, u64::from(self.bit), 1) == 1,
            true => word.masked(self.mask) == self.value,
        };
        self.next[usize::from(is_so)]
    }
}

/// What is added to the number of a plan where the numbers of nodes stand.
const PLAN: u32 = 1 << 31;
/// Where no word that is known comes.
const NO_PLAN: u32 = u32::MAX;
/// The tree of an opcode that was not seen yet.
const UNSEEN: u32 = PLAN - 1;

/// What words of a shape have in common.
#[derive(Clone, Copy, Debug)]
struct Shape {
    key: Word,
    plan: u32,
    /// Its pieces: from, to. None where no shape lies, or no word is legal.
    first: u32,
    end: u32,
    is_legal: bool,
}

impl Shape {
    const NONE: Shape = Shape { key: Word { lo: 0, hi: 0 }, plan: NO_PLAN, first: 0, end: 0, is_legal: false };
}

/// Some bytes as they are, then a number.
#[derive(Clone, Copy, Debug)]
struct Piece {
    literal: [u8; PIECE],
    len: u8,
    /// What follows: a field whose values have names in a table, by the table's number; or one of the others.
    what: u8,
    /// Whether the field is in the upper half, its lowest bit there, its bits.
    is_upper: bool,
    shift: u8,
    /// The field's bits; of any other number, where it is among the numbers.
    mask: u32,
}

/// A field in hexadecimal.
const HEX: u8 = 0x80;
/// One that has a sign.
const SIGNED_HEX: u8 = 0x81;
/// Any number.
const NUMBER: u8 = 0x82;

/// Spells the words of one architecture.
pub struct Speller {
    decoder: Decoder,
    /// By opcode, where its tree starts.
    roots: Vec<u32>,
    nodes: Vec<Node>,
    plans: Vec<Plan>,
    shapes: Vec<Shape>,
    pieces: Vec<Piece>,
    /// What those have that are no fields.
    numbers: Vec<Number>,
    floats: Floats,
}

impl Speller {
    /// One that has seen nothing yet.
    pub fn new(decoder: Decoder) -> Speller {
        Speller {
            decoder,
            roots: vec![UNSEEN; OPCODES],
            nodes: Vec::new(),
            plans: Vec::new(),
            shapes: vec![Shape::NONE; SHAPES],
            pieces: Vec::new(),
            numbers: Vec::new(),
            floats: Floats::default(),
        }
    }

    /// Appends a word's text, as [`Decoder::text`] writes it; false, and nothing, where the tables do not know the word.
    #[inline]
    pub fn text(&mut self, word: Word, pc: Pc, out: &mut Text) -> bool {
        let opcode = word.lo as usize % OPCODES;
        let mut at = self.roots.get(opcode).copied().unwrap_or(NO_PLAN);
        if at == UNSEEN {
            at = self.seen(opcode);
        }
        while at < PLAN {
            at = self.nodes.get(at as usize).map_or(NO_PLAN, |node| node.next(word));
        }
        let plan = at - PLAN;
        let Some(known) = self.plans.get(plan as usize) else { return false };
        if !known.is_kept {
            return self.walked(word, pc, out);
        }
        let key = known.key(word);
        let at = place(plan, key);
        let is_it = |at: usize| self.shapes.get(at).is_some_and(|shape| shape.key == key && shape.plan == plan);
        let at = match is_it(at) {
            true => at,
            false if is_it(at ^ 1) => at ^ 1,
            false => self.shape(plan, key, word),
        };
        let Some(shape) = self.shapes.get(at) else { return false };
        let pieces = self.pieces.get(shape.first as usize..shape.end as usize).unwrap_or(&[]);
        let (floats, numbers) = (&mut self.floats, &self.numbers);
        out.line(|mut line| {
            for piece in pieces {
                line.put(&piece.literal, usize::from(piece.len));
                let half = if piece.is_upper { word.hi } else { word.lo };
                let value = (half >> (piece.shift & 63)) as u32 & piece.mask;
                if line.name(piece.what, value as u8) {
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
        shape.is_legal
    }

    /// A text whose shape is not kept.
    #[cold]
    fn walked(&self, word: Word, pc: Pc, out: &mut Text) -> bool {
        let inst = self.decoder.decode(word);
        let mut text = String::new();
        if !inst.is_unknown() {
            self.decoder.text(&inst, pc, &mut text);
        }
        out.push(text.as_bytes());
        !inst.is_unknown()
    }

    /// Takes an opcode's tree out of the tables.
    #[cold]
    fn seen(&mut self, opcode: usize) -> u32 {
        let root = self.tree(blob::root(self.decoder.pages, opcode as u32), 0);
        if let Some(to) = self.roots.get_mut(opcode) {
            *to = root;
        }
        root
    }

    fn tree(&mut self, at: u32, depth: u32) -> u32 {
        let (is_equal, bit, [mask, value], no, yes) = match blob::node(at) {
            _ if depth > 64 => return NO_PLAN,
            blob::Node::End => return NO_PLAN,
            blob::Node::Leaf(class) => {
                self.plans.push(Plan::of(class));
                return PLAN + self.plans.len() as u32 - 1;
            }
            blob::Node::Bit(bit, no, yes) => (false, bit, [Word::default(); 2], no, yes),
            blob::Node::Equal(mask, value, no, yes) => (true, 0, [mask, value], no, yes),
        };
        let next = [self.tree(no, depth + 1), self.tree(yes, depth + 1)];
        self.nodes.push(Node { is_equal, bit, mask, value, next });
        self.nodes.len() as u32 - 1
    }

    /// Finds the shape of a word that no other word had, by walking the tables.
    #[cold]
    fn shape(&mut self, plan: u32, key: Word, word: Word) -> usize {
        if self.pieces.len() > MOST_PIECES {
            self.pieces.clear();
            self.numbers.clear();
            self.shapes.fill(Shape::NONE);
        }
        let first = self.pieces.len();
        let class = self.plans.get(plan as usize).map_or(Class(0), |plan| plan.class);
        let is_legal = class.fits(word) && class.legal(word);
        if is_legal {
            let mut literal: Vec<u8> = Vec::new();
            walk_template(word, class.template(), &mut |step| match step {
                Step::Text(len, at) => literal.extend_from_slice(blob::bytes_at(at, len)),
                Step::Fixed(text) => literal.extend_from_slice(text.as_bytes()),
                Step::Number(number) => self.add_pieces(&mut literal, Some(number)),
            });
            if !literal.is_empty() {
                self.add_pieces(&mut literal, None);
            }
        }
        let shape = Shape { key, plan, first: first as u32, end: self.pieces.len() as u32, is_legal };
        let at = place(plan, key);
        let is_free = |at: usize| self.shapes.get(at).is_some_and(|shape| shape.plan == NO_PLAN);
        let at = if is_free(at) || !is_free(at ^ 1) { at } else { at ^ 1 };
        if let Some(to) = self.shapes.get_mut(at) {
            *to = shape;
        }
        at
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
        Piece { literal: [0; PIECE], len: 0, what: NameTable::Nothing as u8, is_upper: false, shift: 0, mask: 0 };

    /// A number that is a field, with nothing before it.
    fn of(number: Number) -> Option<Piece> {
        let (bit, width, is_signed) = match number.bits {
            Bits::Field(bit, width) => (bit, width, false),
            Bits::Slot(slot) if slot.constant() == 0 => slot.field()?,
            Bits::Slot(_) => return None,
        };
        let what = match NameTable::of(number.kind, number.zero) {
            Some(table) if width <= 8 && !is_signed => table as u8,
            None if number.kind == kind::HEX && width <= 32 => [HEX, SIGNED_HEX][usize::from(is_signed)],
            _ => return None,
        };
        let mask = !(u64::MAX << width) as u32;
        Some(Piece { what, is_upper: bit >= 64, shift: bit & 63, mask, ..Piece::NOTHING })
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
    const MOST: usize = 1 << 8;

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

impl Plan {
    /// Looks up what decides how a class's words are spelt.
    fn of(class: Class) -> Plan {
        let mut mask = class.fixed();
        let bits = |bit: u8, width: u8| {
            let bits = !(u64::MAX << (width & 63)) << (bit & 63);
            if bit < 64 { Word { lo: bits, hi: 0 } } else { Word { lo: 0, hi: bits } }
        };
        let mut comps: Vec<_> = class.comps().collect();
        let mut is_guarded = false;
        let mut at = class.template();
        loop {
            let choice = match blob::op(at) {
                Op::End => break,
                Op::Flag(bit, ..) => bits(bit, 1),
                Op::Choice(bit, width, _) => bits(bit, width),
                Op::Guard(_) => {
                    is_guarded = true;
                    bits(15, 1)
                }
                Op::Site(comp, _) => {
                    comps.push(comp);
                    Word::default()
                }
                _ => Word::default(),
            };
            mask = mask.with(choice);
            at += 8;
        }
        for chunk in comps.iter().flat_map(|comp| comp.chunks()) {
            mask = mask.with(bits(chunk.bit, chunk.width));
        }
        let mut questions: Vec<Question> = comps.iter().flat_map(|comp| comp.questions()).collect();
        questions.sort_unstable_by_key(|question| question.asks());
        questions.dedup_by_key(|question| question.asks());
        let (mut lower, mut upper) = (Asked::default(), Asked::default());
        let (bit, width, expected) = GUARD_IS_PT;
        let is_free = bits(bit, width).masked(mask) == Word::default();
        if is_guarded && !(is_free && lower.ask(bit, width, expected)) {
            mask = mask.with(bits(bit, width));
        }
        let (mut fields, mut asked) = (Vec::new(), Vec::new());
        if is_guarded {
            asked.push(GUARD_IS_PT);
        }
        questions.retain(|question| {
            let Some(asks) = question.field() else { return true };
            let (bit, width, expected) = asks;
            let field = bits(bit, width);
            if field.masked(mask) == field || asked.contains(&asks) {
                return false;
            }
            asked.push(asks);
            let half = if bit < 64 { &mut lower } else { &mut upper };
            if field.masked(mask) != Word::default() || !half.ask(bit, width, expected) {
                fields.push((bit >= 64, field.lo | field.hi, expected << (bit & 63)));
            }
            false
        });
        let own = ((1 << ANSWERS.1) - 1) << ANSWERS.0;
        let asked = fields.len() + questions.len();
        let is_kept = (mask.hi | upper.highest) & own == 0 && asked <= ANSWERS.1 as usize;
        let more = (asked > 0).then(|| Box::new(More { fields, rest: questions }));
        Plan { class, mask, lower, upper, more, is_kept }
    }

    /// What words of one shape have in common, and no others of the class.
    #[inline(always)]
    fn key(&self, word: Word) -> Word {
        let lower = word.lo & self.mask.lo | self.lower.answers(word.lo);
        let mut upper = word.hi & self.mask.hi | self.upper.answers(word.hi);
        if let Some(more) = &self.more {
            upper |= more.answers(word) << ANSWERS.0;
        }
        Word { lo: lower, hi: upper }
    }
}

/// What mixes bits when it multiplies.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first of the two places where a shape may lie.
#[inline(always)]
fn place(plan: u32, key: Word) -> usize {
    let mixed = (key.lo ^ key.hi.rotate_left(25) ^ u64::from(plan) << 20).wrapping_mul(ODD);
    (mixed >> (64 - SHAPES.trailing_zeros())) as usize % SHAPES
}
