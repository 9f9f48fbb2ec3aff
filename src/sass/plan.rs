//! What decides about the words of a class, and what those have in common that it decides alike about.
//!
//! The tables choose what they say of a word by some of its bits, and by a few questions about its numbers (is it RZ?). All words of a class
//! with the same such bits and answers have the same *shape*: what the tables say of one of them holds for all. It is looked up once, and kept.

use super::Word;
use super::blob::{self, Class, Question};

/// Values of a word's opcode.
const OPCODES: usize = 1 << 12;
/// Bits of a word's upper half that hold the answers in a key: those of the control, by which nothing is chosen.
const ANSWERS: (u32, u32) = (105 - 64, 17);

/// The register that guards where none does: its field, and what it is then.
const GUARD_IS_PT: (u8, u8, u64) = (12, 3, 7);

/// What decides about a class's words.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub class: Class,
    /// Bits that choose.
    mask: Word,
    /// Fields that are asked whether they are a number.
    lower: Asked,
    upper: Asked,
    /// Other questions; few classes have any.
    more: Option<Box<More>>,
    /// Whether there is room for the answers in a key.
    pub is_kept: bool,
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

/// The plans of an architecture's classes, found by a word's bits.
pub(super) struct Plans {
    pages: u32,
    of: fn(Class) -> Plan,
    /// By opcode, where its tree starts.
    roots: Vec<u32>,
    nodes: Vec<Node>,
    plans: Vec<Plan>,
}

impl Plans {
    /// None yet; how a class's plan is made.
    pub fn new(pages: u32, of: fn(Class) -> Plan) -> Plans {
        Plans { pages, of, roots: vec![UNSEEN; OPCODES], nodes: Vec::new(), plans: Vec::new() }
    }

    /// The number of a word's plan, and the plan; none where the tables do not know the word.
    #[inline(always)]
    pub fn find(&mut self, word: Word) -> Option<(u32, &Plan)> {
        let opcode = word.lo as usize % OPCODES;
        let mut at = self.roots.get(opcode).copied().unwrap_or(NO_PLAN);
        if at == UNSEEN {
            at = self.seen(opcode);
        }
        while at < PLAN {
            at = self.nodes.get(at as usize).map_or(NO_PLAN, |node| node.next(word));
        }
        let number = at - PLAN;
        Some((number, self.plans.get(number as usize)?))
    }

    /// Takes an opcode's tree out of the tables.
    #[cold]
    fn seen(&mut self, opcode: usize) -> u32 {
        let root = self.tree(blob::root(self.pages, opcode as u32), 0);
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
                self.plans.push((self.of)(class));
                return PLAN + self.plans.len() as u32 - 1;
            }
            blob::Node::Bit(bit, no, yes) => (false, bit, [Word::default(); 2], no, yes),
            blob::Node::Equal(mask, value, no, yes) => (true, 0, [mask, value], no, yes),
        };
        let next = [self.tree(no, depth + 1), self.tree(yes, depth + 1)];
        self.nodes.push(Node { is_equal, bit, mask, value, next });
        self.nodes.len() as u32 - 1
    }
}

impl Plan {
    /// Words of a class are alike whose bits of the mask are, of which the same holds, and which are guarded or not.
    pub fn new(class: Class, mut mask: Word, mut questions: Vec<Question>, is_guarded: bool) -> Plan {
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
    pub fn key(&self, word: Word) -> Word {
        let lower = word.lo & self.mask.lo | self.lower.answers(word.lo);
        let mut upper = word.hi & self.mask.hi | self.upper.answers(word.hi);
        if let Some(more) = &self.more {
            upper |= more.answers(word) << ANSWERS.0;
        }
        Word { lo: lower, hi: upper }
    }
}

/// The bits of a field that does not cross the halves of a word.
pub(super) fn bits(bit: u8, width: u8) -> Word {
    let bits = !(u64::MAX << (width & 63)) << (bit & 63);
    if bit < 64 { Word { lo: bits, hi: 0 } } else { Word { lo: 0, hi: bits } }
}

/// What is known of the words of a shape, by plan and key. What was not asked for lately may be forgotten.
pub(super) struct Shapes<T> {
    shapes: Vec<Shape<T>>,
}

/// What words have in common.
#[derive(Clone, Copy)]
struct Shape<T> {
    key: Word,
    plan: u32,
    known: T,
}

impl<T: Copy + Default> Shapes<T> {
    /// Nothing is known; room for so many, a power of two.
    pub fn new(room: usize) -> Shapes<T> {
        let none = Shape { key: Word::default(), plan: NO_PLAN, known: T::default() };
        Shapes { shapes: vec![none; room.next_power_of_two().max(2)] }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.shapes.iter_mut().for_each(|shape| shape.plan = NO_PLAN);
    }

    /// The first of the two places where a shape may lie.
    #[inline(always)]
    fn place(&self, plan: u32, key: Word) -> usize {
        let mixed = (key.lo ^ key.hi.rotate_left(25) ^ u64::from(plan) << 20).wrapping_mul(ODD);
        (mixed >> 32) as usize & (self.shapes.len() - 1)
    }

    /// What is known of a shape.
    #[inline(always)]
    pub fn get(&self, plan: u32, key: Word) -> Option<T> {
        let at = self.place(plan, key);
        let known = |at: usize| self.shapes.get(at).filter(|shape| shape.key == key && shape.plan == plan);
        known(at).or_else(|| known(at ^ 1)).map(|shape| shape.known)
    }

    /// Keeps what is known of a shape.
    pub fn keep(&mut self, plan: u32, key: Word, known: T) {
        let at = self.place(plan, key);
        let is_free = |at: usize| self.shapes.get(at).is_some_and(|shape| shape.plan == NO_PLAN);
        let at = if is_free(at) || !is_free(at ^ 1) { at } else { at ^ 1 };
        if let Some(to) = self.shapes.get_mut(at) {
            *to = Shape { key, plan, known };
        }
    }
}

/// What mixes bits when it multiplies.
pub(super) const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
