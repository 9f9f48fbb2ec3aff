//! Learns what each opcode reads and writes from rows of nvdisasm.
//!
//! For each 12-bit opcode: which bits are register fields (change them and a mark moves to the new number), what each field does under given
//! other bits (a *label*: read or written, how many registers), and a decision tree over those other bits that gives the label. The
//! tree is tried on words it has not seen, wrong ones become examples, and so on until none is wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use ptxinspect::base::{RegFile, RegSet};

use super::probe::{Marks, Probe};
use super::tree::Tree;

/// A register number in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    pub file: RegFile,
    pub pos: u8,
    pub bits: u8,
}

impl Field {
    pub fn mask(self) -> u128 {
        ((1u128 << self.bits) - 1) << self.pos
    }

    pub fn get(self, word: u128) -> u16 {
        ((word & self.mask()) >> self.pos) as u16
    }

    fn set(self, word: u128, value: u16) -> u128 {
        word & !self.mask() | u128::from(value) << self.pos & self.mask()
    }
}

/// What an instruction does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Use {
    pub field: Field,
    pub write: bool,
    pub count: u8,
}

/// Everything an instruction does to registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    pub uses: Vec<Use>,
    /// Registers it touches whatever its bits say: file, number, whether written.
    pub fixed: Vec<(RegFile, u16, bool)>,
}

/// Registers that nvdisasm ever marks: of the uniform ones UR4 to UR62 only.
pub fn is_tracked(file: RegFile, index: u16) -> bool {
    match file {
        RegFile::Gpr => index < 255,
        RegFile::Ugpr => (4..63).contains(&index),
        RegFile::Pred | RegFile::Upred => index < 7,
    }
}

impl Label {
    /// The marks a word with this label has.
    pub fn marks(&self, word: u128) -> Marks {
        let mut marks = Marks::default();
        for used in &self.uses {
            let first = used.field.get(word);
            if !is_tracked(used.field.file, first) {
                continue;
            }
            let set = if used.write { &mut marks.writes } else { &mut marks.reads };
            for index in first..first + u16::from(used.count) {
                if is_tracked(used.field.file, index) {
                    set.insert(used.field.file, index);
                }
            }
        }
        for &(file, index, write) in &self.fixed {
            let set = if write { &mut marks.writes } else { &mut marks.reads };
            set.insert(file, index);
        }
        marks
    }
}

/// Words that make up an opcode's lesson.
pub struct Opcode {
    pub mnemonic: String,
    /// Real words, control normalised.
    words: Vec<u128>,
    /// Bits that no probe may change: where control goes.
    frozen: u128,
    fields: BTreeSet<Field>,
    examples: BTreeMap<u128, Label>,
    pub tree: Tree<Label>,
}

/// Small deterministic random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 16
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Bits that may matter: not the opcode, not the control fields.
const BITS: std::ops::Range<u32> = 12..105;

/// Learns one architecture.
pub struct Learner {
    pub probe: Probe,
    pub ops: BTreeMap<u16, Opcode>,
    ugpr_bits: &'static [u8],
    random: Random,
}

impl Learner {
    pub fn new(probe: Probe, sm: u16) -> Learner {
        Learner {
            probe,
            ops: BTreeMap::new(),
            // URZ is UR255 from sm_100 on, UR63 before.
            ugpr_bits: if sm >= 100 { &[8, 6] } else { &[6] },
            random: Random(0x5eed),
        }
    }

    /// Takes the words of real code and, if wanted, tries every other opcode with payloads of real words.
    pub fn seed(&mut self, corpus: &[u128], per_opcode: usize, all_opcodes: bool) -> Result<()> {
        let mut by_code: BTreeMap<u16, Vec<u128>> = BTreeMap::new();
        for &word in corpus {
            by_code.entry((word & 0xfff) as u16).or_default().push(word);
        }
        let mut payloads: Vec<u128> = Vec::new();
        for words in by_code.values() {
            payloads.push(words[self.random.below(words.len())]);
        }
        let mut tries = Vec::new();
        for code in 0..4096u16 {
            // Jumps with a foreign payload go anywhere, and a target outside the section stops nvdisasm.
            if all_opcodes && !by_code.contains_key(&code) && !(0x140..0x160).contains(&(code & 0x1ff)) {
                for _ in 0..16 {
                    tries.push(self.random.pick(&payloads) & !0xfff | u128::from(code));
                }
                // A neighbour form of a known opcode often takes the neighbour's payload.
                for near in (9..12).map(|bit| code ^ 1 << bit).filter_map(|near| by_code.get(&near)) {
                    for _ in 0..6 {
                        tries.push(near[self.random.below(near.len())] & !0xfff | u128::from(code));
                    }
                }
            }
        }
        for (code, words) in &mut by_code {
            words.sort_unstable();
            words.dedup();
            let keep = sample(words, per_opcode, &mut self.random);
            let frozen = frozen_bits(*code);
            *words = keep.into_iter().map(|word| calm(word, frozen)).collect();
        }
        let tries: Vec<u128> = tries.into_iter().map(|word| calm(word, frozen_bits((word & 0xfff) as u16))).collect();
        self.probe.ask(tries.iter().copied())?;
        self.probe.ask(by_code.values().flatten().copied())?;
        for word in tries {
            if self.probe.row(word).is_some() {
                by_code.entry((word & 0xfff) as u16).or_default().push(word);
            }
        }
        for (code, mut words) in by_code {
            words.retain(|&word| self.probe.row(word).is_some());
            let Some(row) = words.first().and_then(|&word| self.probe.row(word)) else { continue };
            let mnemonic = mnemonic(&row.text).to_owned();
            self.ops.insert(
                code,
                Opcode {
                    mnemonic,
                    words,
                    frozen: frozen_bits(code),
                    fields: BTreeSet::new(),
                    examples: BTreeMap::new(),
                    tree: Tree::default(),
                },
            );
        }
        Ok(())
    }

    /// Takes over what another architecture taught; words that are wrong here are learnt anew.
    pub fn inherit(&mut self, prior: &BTreeMap<u16, Opcode>) -> Result<()> {
        for (code, op) in &mut self.ops {
            let Some(known) = prior.get(code).filter(|known| known.frozen == op.frozen) else { continue };
            op.fields = known.fields.clone();
            op.examples = known.examples.clone();
        }
        self.grow();
        let shown: Vec<u128> = self.ops.values().flat_map(|op| op.examples.keys().copied()).collect();
        self.probe.ask(shown.iter().copied())?;
        let wrong: Vec<u128> = shown.into_iter().filter(|&word| self.is_right(word) == Some(false)).collect();
        for word in &wrong {
            if let Some(op) = self.ops.get_mut(&((word & 0xfff) as u16)) {
                op.examples.remove(word);
            }
        }
        // An opcode that means something else here starts from nothing.
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        wrong.iter().for_each(|word| *counts.entry((word & 0xfff) as u16).or_default() += 1);
        for (code, count) in counts {
            if let Some(op) = self.ops.get_mut(&code).filter(|op| count > op.examples.len() / 4) {
                op.fields.clear();
                op.examples.clear();
            }
        }
        self.study(&wrong)?;
        self.grow();
        Ok(())
    }

    /// Words of an opcode that differ most in the bits above 72, where modifiers are.
    fn representatives(&mut self, code: u16, count: usize) -> Vec<u128> {
        let Some(op) = self.ops.get(&code) else { return Vec::new() };
        let mut by_shape: HashMap<u128, u128> = HashMap::new();
        for &word in &op.words {
            by_shape.entry(word >> 72 & 0xf_ffff_ffff).or_insert(word);
        }
        let mut shapes: Vec<u128> = by_shape.into_values().collect();
        shapes.sort_unstable();
        // The word with the most marks hides the fewest fields behind RZ and PT.
        let marks = |word: &u128| {
            let marks = self.probe.row(*word).map(|row| row.marks).unwrap_or_default();
            marks.reads.iter_all().count() + marks.writes.iter_all().count()
        };
        let richest = op.words.iter().copied().max_by_key(|word| (marks(word), *word));
        let mut picked = sample(&shapes, count, &mut self.random);
        picked.extend(richest);
        picked
    }

    /// Finds register fields by single changes to `words`.
    fn find_fields(&mut self, words: &[u128]) -> Result<BTreeSet<u16>> {
        let changes = |learner: &Learner, word: u128| {
            let frozen = learner.ops.get(&((word & 0xfff) as u16)).map_or(0, |op| op.frozen);
            let flips = BITS.map(move |bit| word ^ 1 << bit);
            let sets = BITS.filter(|pos| pos % 8 == 0).flat_map(move |pos| {
                [20u16, 40].map(|value| Field { file: RegFile::Ugpr, pos: pos as u8, bits: 8 }.set(word, value))
            });
            flips.chain(sets).filter(move |changed| (changed ^ word) & frozen == 0).collect::<Vec<_>>()
        };
        let mut all = Vec::new();
        for &word in words {
            all.extend(changes(self, word));
        }
        self.probe.ask(all)?;
        let mut grown = BTreeSet::new();
        for &word in words {
            let Some(base) = self.probe.row(word).map(|row| row.marks) else { continue };
            let mut found = Vec::new();
            for file in RegFile::ALL {
                let sizes: &[u8] = match file {
                    RegFile::Gpr => &[8],
                    RegFile::Ugpr => self.ugpr_bits,
                    RegFile::Pred | RegFile::Upred => &[3],
                };
                for pos in 12..103u8 {
                    for &bits in sizes {
                        let field = Field { file, pos, bits };
                        if self.supports(word, &base, field) {
                            found.push(field);
                            break;
                        }
                    }
                }
            }
            let code = (word & 0xfff) as u16;
            if let Some(op) = self.ops.get_mut(&code) {
                let before = op.fields.len();
                op.fields.extend(found);
                if op.fields.len() > before {
                    grown.insert(code);
                }
            }
        }
        Ok(grown)
    }

    /// Whether the changes tried at a field all move a mark from its old number to its new one.
    fn supports(&self, word: u128, base: &Marks, field: Field) -> bool {
        let all = |marks: &Marks| marks.reads.union(&marks.writes);
        let before = all(base);
        let old = field.get(word);
        if is_tracked(field.file, old) && !before.contains(field.file, old) {
            return false;
        }
        let (mut yes, mut no) = (0, 0);
        let flips = (0..field.bits).map(|bit| old ^ 1 << bit);
        for new in flips.chain([20, 40]) {
            if new >> field.bits != 0 {
                continue;
            }
            let Some(row) = self.probe.row(field.set(word, new)) else { continue };
            if new == old || !is_tracked(field.file, new) {
                continue;
            }
            let after = all(&row.marks);
            if !after.contains(field.file, new) {
                no += 1;
            } else if !before.contains(field.file, new) {
                yes += 1;
            }
        }
        let need = if field.bits == 3 { 2 } else { 3 };
        let hidden = !is_tracked(field.file, old) && field.file == RegFile::Ugpr;
        no == 0 && (yes >= need || hidden && yes >= 2)
    }

    /// The words that tell a word's label: each field set to three other numbers.
    fn questions(&self, word: u128) -> Vec<(Field, u16, u128)> {
        let Some(op) = self.ops.get(&((word & 0xfff) as u16)) else { return Vec::new() };
        let mut near = RegSet::EMPTY;
        for field in &op.fields {
            near.insert_run(field.file, field.get(word), 1);
        }
        let mut out = Vec::new();
        for &field in &op.fields {
            let pool: Vec<u16> = match field.file {
                RegFile::Gpr => (1..30).map(|i| i * 8).collect(),
                RegFile::Ugpr => (1..7).map(|i| i * 8).collect(),
                RegFile::Pred | RegFile::Upred => (0..7).collect(),
            };
            let used = |value: u16| match field.file {
                RegFile::Gpr => (value.saturating_sub(7)..value + 16).any(|i| near.contains(field.file, i)),
                RegFile::Ugpr => (value.saturating_sub(3)..value + 8).any(|i| near.contains(field.file, i)),
                _ => near.contains(field.file, value),
            };
            let mut values: Vec<u16> = pool.iter().copied().filter(|&value| !used(value)).collect();
            // Spread: first, last, middle.
            if values.len() < 3 {
                values = pool.into_iter().filter(|&value| value != field.get(word)).collect();
            }
            let picks = [values[0], values[values.len() - 1], values[values.len() / 2], values[values.len() / 3]];
            out.extend(picks.map(|value| (field, value, field.set(word, value))));
        }
        out
    }

    /// The label of a word whose questions have been asked; `None` where rows contradict each other.
    fn label(&self, word: u128) -> Option<Label> {
        let base = self.probe.row(word)?.marks;
        let mut seen: BTreeMap<Use, ()> = BTreeMap::new();
        let mut by_field: BTreeMap<Field, Vec<(u16, Marks)>> = BTreeMap::new();
        for (field, value, asked) in self.questions(word) {
            if let Some(row) = self.probe.row(asked) {
                by_field.entry(field).or_default().push((value, row.marks));
            }
        }
        for (field, rows) in &by_field {
            for write in [false, true] {
                let pick = |marks: &Marks| if write { marks.writes } else { marks.reads };
                let run = |marks: &Marks, from: u16| {
                    let set = pick(marks);
                    (from..from + 128).take_while(|&i| i < 256 && set.contains(field.file, i)).count()
                };
                // The field is used when a number that was not marked before is marked now.
                let telling: Vec<&(u16, Marks)> =
                    rows.iter().filter(|(value, _)| !pick(&base).contains(field.file, *value)).collect();
                if telling.is_empty() || telling.iter().any(|(value, marks)| run(marks, *value) == 0) {
                    continue;
                }
                let mut count = telling.iter().map(|(value, marks)| run(marks, *value)).min().unwrap_or(0);
                let own = field.get(word);
                if is_tracked(field.file, own) {
                    count = count.min(run(&base, own));
                }
                if count > 0 {
                    seen.insert(Use { field: *field, write, count: count as u8 }, ());
                }
            }
        }
        let mut label = Label { uses: seen.into_keys().collect(), fixed: Vec::new() };
        let told = label.marks(word);
        if !told.reads.difference(&base.reads).is_empty() || !told.writes.difference(&base.writes).is_empty() {
            return None;
        }
        for (file, index) in base.reads.difference(&told.reads).iter_all() {
            label.fixed.push((file, index, false));
        }
        for (file, index) in base.writes.difference(&told.writes).iter_all() {
            label.fixed.push((file, index, true));
        }
        Some(label)
    }

    /// Labels words and keeps them as examples. Says how many could not be labelled.
    fn study(&mut self, words: &[u128]) -> Result<usize> {
        let asked: Vec<u128> = words.iter().flat_map(|&word| self.questions(word)).map(|(_, _, word)| word).collect();
        self.probe.ask(words.iter().copied().chain(asked))?;
        let mut strange = Vec::new();
        for &word in words {
            match self.label(word) {
                Some(label) if label.fixed.is_empty() => self.keep(word, label),
                Some(_) => strange.push(word),
                None => {}
            }
        }
        if strange.is_empty() {
            return Ok(0);
        }
        // A mark that no field explains: look for more fields first, then take it as fixed.
        let few = sample(&strange, 300, &mut self.random);
        // Labels from before a field was known are worth nothing.
        for code in self.find_fields(&few)? {
            if let Some(op) = self.ops.get_mut(&code) {
                let old: Vec<u128> = std::mem::take(&mut op.examples).into_keys().collect();
                strange.extend(sample(&old, 12, &mut self.random));
            }
        }
        let asked: Vec<u128> = strange.iter().flat_map(|&word| self.questions(word)).map(|(_, _, word)| word).collect();
        self.probe.ask(asked)?;
        let mut bad = 0;
        for &word in &strange {
            match self.label(word) {
                Some(label) => self.keep(word, label),
                None => bad += 1,
            }
        }
        Ok(bad)
    }

    fn keep(&mut self, word: u128, label: Label) {
        if let Some(op) = self.ops.get_mut(&((word & 0xfff) as u16)) {
            op.examples.insert(word, label);
        }
    }

    fn is_right(&self, word: u128) -> Option<bool> {
        let marks = self.probe.row(word)?.marks;
        let op = self.ops.get(&((word & 0xfff) as u16))?;
        let label = op.tree.get(word)?;
        Some(strip_call(&op.mnemonic, label.marks(word)) == strip_call(&op.mnemonic, marks))
    }

    fn grow(&mut self) {
        for op in self.ops.values_mut() {
            let fields: u128 = op.fields.iter().fold(0, |mask, field| mask | field.mask());
            let allowed = ((1u128 << 105) - 1) & !0xffff & !op.frozen;
            let mut examples: Vec<(u128, Label)> = op.examples.iter().map(|(w, l)| (*w, l.clone())).collect();
            for (_, label) in &mut examples {
                if op.mnemonic.starts_with("CALL") {
                    label.fixed.clear();
                    label.uses.retain(|used| !used.write);
                }
            }
            op.tree = Tree::grow(&examples, allowed & !fields, allowed);
        }
    }

    /// The whole lesson. `corpus` are words to get right in the end.
    pub fn run(&mut self, rounds: usize, log: &mut dyn FnMut(String)) -> Result<()> {
        let codes: Vec<u16> = self.ops.keys().copied().collect();
        let (mut seeds, mut more): (Vec<u128>, Vec<u128>) = (Vec::new(), Vec::new());
        for &code in &codes {
            if self.ops.get(&code).is_some_and(|op| op.examples.is_empty()) {
                seeds.extend(self.representatives(code, 2));
                more.extend(self.representatives(code, 5));
            }
        }
        self.find_fields(&seeds)?;
        // What is not a register in two words is looked at in some more.
        let mut flips = Vec::new();
        for &word in &more {
            let Some(op) = self.ops.get(&((word & 0xfff) as u16)) else { continue };
            let fields = op.fields.iter().fold(op.frozen, |mask, field| mask | field.mask());
            flips.extend(
                BITS.filter(|bit| fields >> bit & 1 == 0 && !(32..64).contains(bit)).map(|bit| word ^ 1 << bit),
            );
        }
        self.probe.ask(flips)?;
        seeds.extend(more);
        seeds.sort_unstable();
        seeds.dedup();
        log(format!(
            "{} opcodes, fields found after {} words in {} runs",
            codes.len(),
            self.probe.asked,
            self.probe.runs
        ));
        let bad = self.study(&seeds)?;
        log(format!("{} seeds, {bad} without a label", seeds.len()));
        self.grow();
        // Single flips of everything that is not a register are in memory already: those that the seed's label does not
        // explain become examples, the others confirm it.
        let mut wrong = Vec::new();
        let mut confirmed = Vec::new();
        for &seed in &seeds {
            let Some(op) = self.ops.get(&((seed & 0xfff) as u16)) else { continue };
            let Some(label) = op.examples.get(&seed).cloned() else { continue };
            let fields = op.fields.iter().fold(0u128, |mask, field| mask | field.mask());
            for flip in BITS.filter(|bit| (fields | op.frozen) >> bit & 1 == 0).map(|bit| seed ^ 1 << bit) {
                let Some(row) = self.probe.row(flip) else { continue };
                if label.marks(flip) == row.marks {
                    confirmed.push((flip, label.clone()));
                } else {
                    wrong.push(flip);
                }
            }
        }
        for (word, label) in confirmed {
            self.keep(word, label);
        }
        let bad = self.study(&wrong)?;
        log(format!("{} flips that matter, {bad} without a label", wrong.len()));
        self.grow();
        for round in 0..rounds {
            // Real words first and last: what is learnt from changed words must not cost any of them.
            let words = if round == 0 || round + 1 == rounds { self.real_words() } else { self.mutants(24) };
            self.probe.ask(words.iter().copied())?;
            let tried = words.iter().filter(|&&word| self.probe.row(word).is_some()).count();
            let wrong: Vec<u128> = words.into_iter().filter(|&word| self.is_right(word) == Some(false)).collect();
            let mut bad = 0;
            let mut left = wrong.clone();
            // A few of each opcode at a time: one example often mends many words.
            for _ in 0..6 {
                let mut by_code: BTreeMap<u16, Vec<u128>> = BTreeMap::new();
                left.iter().for_each(|&word| by_code.entry((word & 0xfff) as u16).or_default().push(word));
                let fix: Vec<u128> = by_code.values().flat_map(|words| sample(words, 5, &mut self.random)).collect();
                if fix.is_empty() {
                    break;
                }
                bad += self.study(&fix)?;
                self.grow();
                left.retain(|&word| self.is_right(word) == Some(false));
            }
            log(format!(
                "round {round}: {} of {tried} wrong, {} after study, {bad} without a label",
                wrong.len(),
                left.len()
            ));
        }
        let words = self.real_words();
        let wrong: Vec<u128> = words.iter().copied().filter(|&word| self.is_right(word) == Some(false)).collect();
        log(format!(
            "real words: {} of {} wrong; {} words asked in {} runs",
            wrong.len(),
            words.len(),
            self.probe.asked,
            self.probe.runs
        ));
        for word in wrong.iter().take(20) {
            let (Some(row), Some(op)) = (self.probe.row(*word), self.ops.get(&((word & 0xfff) as u16))) else {
                continue;
            };
            let label = op.tree.get(*word).map(|label| label.marks(*word));
            log(format!(
                "  {word:032x} {} : {} but {}",
                row.text,
                show(&row.marks),
                label.map_or(String::new(), |m| show(&m))
            ));
        }
        Ok(())
    }

    fn real_words(&self) -> Vec<u128> {
        self.ops.values().flat_map(|op| op.words.iter().copied()).collect()
    }

    /// Real words with some bits changed: up to four modifiers, or new registers.
    fn mutants(&mut self, each: usize) -> Vec<u128> {
        let mut out = Vec::new();
        for op in self.ops.values() {
            let fields = op.fields.iter().fold(0u128, |mask, field| mask | field.mask());
            let free: Vec<u32> = BITS.filter(|bit| (fields | op.frozen) >> bit & 1 == 0).collect();
            // Bits that the tree tests are worth more tries.
            let tested: Vec<u32> = op.tree.bits().into_iter().filter(|bit| op.frozen >> bit & 1 == 0).collect();
            for _ in 0..each {
                let mut word = op.words[self.random.below(op.words.len())];
                for _ in 0..1 + self.random.below(4) {
                    let pool = if !tested.is_empty() && self.random.below(2) == 0 { &tested } else { &free };
                    if !pool.is_empty() {
                        word ^= 1 << self.random.pick(pool);
                    }
                }
                for field in &op.fields {
                    if self.random.below(3) == 0 {
                        let value = match field.file {
                            RegFile::Gpr => self.random.below(31) as u16 * 8,
                            RegFile::Ugpr => self.random.below(14) as u16 * 4,
                            _ => self.random.below(8) as u16,
                        };
                        word = field.set(word, value);
                    }
                }
                out.push(word);
            }
        }
        out
    }
}

/// A call's row marks the registers of the calling convention; only its operands are the instruction's own.
pub fn strip_call(mnemonic: &str, mut marks: Marks) -> Marks {
    if mnemonic.starts_with("CALL") {
        marks.writes = RegSet::EMPTY;
        marks.reads.remove(RegFile::Gpr, 0);
        marks.reads.remove(RegFile::Gpr, 1);
    }
    marks
}

/// `@!P0 BRA.U UP0, …` is `BRA.U`.
pub fn mnemonic(text: &str) -> &str {
    text.split_whitespace().find(|part| !part.starts_with('@')).unwrap_or("").trim_end_matches([';', ','])
}

/// Bits of the target of opcodes that name one: a target outside the section stops nvdisasm.
pub fn frozen_bits(code: u16) -> u128 {
    // Low 9 bits of the opcodes with a label: CALL 0x143, 0x144; BSSY 0x145; BRA 0x147; WARPSYNC 0x148; BRX 0x149, JMP 0x14a, JMX 0x14c; RET 0x150.
    match code & 0x1ff {
        0x143..=0x14c | 0x150 => 0xff << 16 | ((1u128 << 48) - 1) << 34,
        _ => 0,
    }
}

/// A word whose target, if it has one, is the next instruction.
fn calm(word: u128, frozen: u128) -> u128 {
    word & !frozen
}

/// Some of the items, evenly spread over the order with a random phase; all when they are few.
pub fn sample<T: Copy>(items: &[T], count: usize, random: &mut Random) -> Vec<T> {
    if items.len() <= count {
        return items.to_vec();
    }
    let phase = random.below(items.len());
    (0..count).map(|i| items[(phase + i * items.len() / count) % items.len()]).collect()
}

fn show(marks: &Marks) -> String {
    let list = |set: &RegSet| {
        set.iter_all()
            .map(|(file, index)| format!("{}{index}", ["R", "P", "UR", "UP"][file as usize]))
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!("reads {{{}}} writes {{{}}}", list(&marks.reads), list(&marks.writes))
}
