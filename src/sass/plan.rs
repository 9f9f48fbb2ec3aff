//! What decides about the words of an opcode, and what those have in common that it decides alike about.
//!
//! The tables choose what they say of a word by some of its bits, and by a few questions about its numbers (is it RZ?). All words of an opcode
//! with the same such bits and answers have the same *shape*: what the tables say of one of them holds for all. It is looked up once, and kept.

use super::Word;
use super::blob::{self, Class, Question};

/// Values of a word's opcode.
const OPCODES: usize = 1 << 12;
/// Bits of a word's upper half that hold the answers in a key: those of the control, by which nothing is chosen.
const ANSWERS: (u32, u32) = (105 - 64, 17);
/// The same as a mask.
pub(super) const CONTROL: u64 = ((1 << ANSWERS.1) - 1) << ANSWERS.0;
/// A bit of a word's upper half that is in no key.
const NO_KEY: u64 = 1 << 63;

/// The register that guards where none does: its field, and what it is then.
const GUARD_IS_PT: (u8, u8, u64) = (12, 3, 7);

/// What decides about words, as the tables say.
#[derive(Clone, Debug, Default)]
pub(super) struct Deciding {
    /// Bits that choose.
    pub mask: Word,
    /// Questions that do.
    pub questions: Vec<Question>,
    /// Whether it does that a word is guarded.
    pub is_guarded: bool,
}

/// What decides about an opcode's words.
#[derive(Clone, Debug)]
struct Plan {
    /// Bits that choose.
    mask: Word,
    /// Fields that are asked whether they are a number.
    lower: Asked,
    upper: Asked,
    /// Other questions; few opcodes have any.
    more: Option<Box<More>>,
}

/// Questions that are asked one by one.
#[derive(Clone, Debug)]
struct More {
    /// Those about fields: their bits, and what those are asked to be.
    fields: Vec<[Word; 2]>,
    /// All others.
    rest: Vec<Question>,
}

impl More {
    /// The answers, a bit each.
    #[inline(never)]
    fn answers(&self, word: Word) -> u64 {
        let mut answers = 0;
        for [mask, expected] in &self.fields {
            answers = answers << 1 | u64::from(word.masked(*mask) == *expected);
        }
        for question in &self.rest {
            answers = answers << 1 | u64::from(question.holds(word));
        }
        answers
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

impl Plan {
    /// Words of an opcode are alike whose bits of the mask are, of which the same holds, and which are guarded or not. None where there is
    /// no room for the answers in a key.
    fn new(deciding: Deciding) -> Option<Plan> {
        let Deciding { mut mask, mut questions, is_guarded } = deciding;
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
                let expected = Word { lo: expected << (bit & 63), hi: expected << (bit & 63) };
                fields.push([field, expected.masked(if bit < 64 { LOWER } else { UPPER })]);
            }
            false
        });
        let asked = fields.len() + questions.len();
        let is_kept = (mask.hi | upper.highest) & (CONTROL | NO_KEY) == 0 && asked <= ANSWERS.1 as usize;
        let more = (asked > 0).then(|| Box::new(More { fields, rest: questions }));
        is_kept.then_some(Plan { mask, lower, upper, more })
    }

    /// What words of one shape have in common, and no others.
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

/// The halves of a word.
const LOWER: Word = Word { lo: u64::MAX, hi: 0 };
const UPPER: Word = Word { lo: 0, hi: u64::MAX };

/// The bits of a field that does not cross the halves of a word.
pub(super) fn bits(bit: u8, width: u8) -> Word {
    let bits = !(u64::MAX << (width & 63)) << (bit & 63);
    if bit < 64 { Word { lo: bits, hi: 0 } } else { Word { lo: 0, hi: bits } }
}

/// What is known of the words of each shape of an architecture. What was not asked for lately may be forgotten.
pub(super) struct Shapes<T> {
    pages: u32,
    /// Adds what decides about a class's words.
    decides: fn(Class, &mut Deciding),
    /// By opcode, which plan it has.
    by_opcode: Box<[u16; OPCODES]>,
    plans: Vec<Plan>,
    shapes: Vec<Shape<T>>,
}

/// The number of no plan: that of an opcode that was not seen yet, and that of one whose words are not kept.
const UNSEEN: u16 = u16::MAX;
const NOT_KEPT: u16 = u16::MAX - 1;

/// What words have in common.
#[derive(Clone, Copy)]
struct Shape<T> {
    key: Word,
    known: T,
}

impl<T: Copy + Default> Shapes<T> {
    /// Nothing is known; room for so many, a power of two.
    pub fn new(pages: u32, decides: fn(Class, &mut Deciding), room: usize) -> Shapes<T> {
        let none = Shape { key: Word { lo: 0, hi: NO_KEY }, known: T::default() };
        Shapes {
            pages,
            decides,
            by_opcode: Box::new([UNSEEN; OPCODES]),
            plans: Vec::new(),
            shapes: vec![none; room.next_power_of_two().max(2)],
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.shapes.iter_mut().for_each(|shape| shape.key.hi = NO_KEY);
    }

    /// What is known of a word's shape.
    #[inline(always)]
    pub fn get(&self, word: Word) -> Option<&T> {
        let number = self.by_opcode[word.lo as usize % OPCODES];
        let key = self.plans.get(usize::from(number))?.key(word);
        let at = self.place(key);
        let known = |at: usize| self.shapes.get(at).filter(|shape| shape.key == key);
        known(at).or_else(|| known(at ^ 1)).map(|shape| &shape.known)
    }

    /// The first of the two places where a shape may lie.
    #[inline(always)]
    fn place(&self, key: Word) -> usize {
        mixed(key) & (self.shapes.len() - 1)
    }

    /// Keeps what is known of a word's shape; not where its opcode's words have none, and says so.
    pub fn keep(&mut self, word: Word, known: T) -> bool {
        let opcode = word.lo as usize % OPCODES;
        if self.by_opcode[opcode] == UNSEEN {
            self.by_opcode[opcode] = self.plan(opcode as u32);
        }
        let Some(plan) = self.plans.get(usize::from(self.by_opcode[opcode])) else { return false };
        let key = plan.key(word);
        let at = self.place(key);
        let is_free = |at: usize| self.shapes.get(at).is_some_and(|shape| shape.key.hi & NO_KEY != 0);
        let at = if is_free(at) || !is_free(at ^ 1) { at } else { at ^ 1 };
        if let Some(to) = self.shapes.get_mut(at) {
            *to = Shape { key, known };
        }
        true
    }

    /// Finds out what decides about an opcode's words: what leads to their classes, and what does in each.
    fn plan(&mut self, opcode: u32) -> u16 {
        let mut deciding = Deciding { mask: Word { lo: OPCODES as u64 - 1, hi: 0 }, ..Deciding::default() };
        let mut nodes = vec![(blob::root(self.pages, opcode), 0)];
        while let Some((at, depth)) = nodes.pop() {
            let (mask, no, yes) = match blob::node(at) {
                _ if depth > 64 => return NOT_KEPT,
                blob::Node::End => continue,
                blob::Node::Leaf(class) => {
                    (self.decides)(class, &mut deciding);
                    continue;
                }
                blob::Node::Bit(bit, no, yes) => (bits(bit, 1), no, yes),
                blob::Node::Equal(mask, _, no, yes) => (mask, no, yes),
            };
            deciding.mask = deciding.mask.with(mask);
            nodes.extend([(no, depth + 1), (yes, depth + 1)]);
        }
        let number = self.plans.len() as u16;
        match Plan::new(deciding) {
            Some(plan) => {
                self.plans.push(plan);
                number
            }
            None => NOT_KEPT,
        }
    }
}

/// What mixes bits when it multiplies.
pub(super) const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sixteen bits, or some of them, that say where to look for a word.
#[inline(always)]
pub(super) fn mixed(word: Word) -> usize {
    ((word.lo ^ word.hi.rotate_left(25)).wrapping_mul(ODD) >> 48) as usize
}
