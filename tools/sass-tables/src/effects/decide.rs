//! From observations to a decision: what the fields of a class's words do, by the variants of its components.
//!
//! Each field is decided for itself, by as few components as tell its observations apart: how wide an address is may hang on other modifiers than how
//! wide the data is, and together they would have to be seen in every combination.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use ptxinspect::base::{RegFile, RegSet};

use super::decision::{Answers, Decision, Node, Question};
use super::evidence::{Example, Key, Span, example, marks, span};
use super::fields::{self, Observation, Use, evaluate};
use crate::edit::SLOT;
use crate::model::{Comp, Literals, Model, comp_word};
use crate::store::Learnt;

/// The distinct answers of a class's examples, with what they say about one field.
struct Rows<'a> {
    rows: Vec<(&'a Answers, Span, usize)>,
}

impl<'a> Rows<'a> {
    fn new(key: &Key, examples: &'a [Example<'_>]) -> Rows<'a> {
        let mut rows: BTreeMap<&Answers, (Span, usize)> = BTreeMap::new();
        for example in examples {
            if let Some(span) = span(key, example) {
                let row = rows.entry(&example.answers).or_insert((span, 0));
                *row = (row.0.and(span), row.1 + 1);
            }
        }
        Rows { rows: rows.into_iter().map(|(answers, (span, count))| (answers, span, count)).collect() }
    }

    /// What the examples say, by their answers to some questions.
    fn groups(&self, set: &[usize]) -> HashMap<Answers, (Span, usize)> {
        let mut groups: HashMap<Answers, (Span, usize)> = HashMap::new();
        for (answers, span, count) in &self.rows {
            let group = groups.entry(set.iter().map(|&at| answers[at]).collect()).or_insert((*span, 0));
            *group = (group.0.and(*span), group.1 + count);
        }
        groups
    }

    /// The examples that contradict others with the same answers to some questions.
    fn conflicts(&self, set: &[usize]) -> usize {
        self.groups(set).values().filter(|(span, _)| span.count().is_none()).map(|(_, count)| count).sum()
    }

    /// The questions, as few as possible, whose answers tell contradictory examples apart.
    fn questions(&self, usable: &[usize]) -> Vec<usize> {
        let mut best = (self.conflicts(&[]), Vec::new());
        let mut last: Vec<Vec<usize>> = vec![Vec::new()];
        for size in 1..=MOST_QUESTIONS {
            if best.0 == 0 {
                break;
            }
            let mut tried: Vec<(usize, Vec<usize>)> = Vec::new();
            let mut known: BTreeSet<Vec<usize>> = BTreeSet::new();
            for set in &last {
                for &at in usable.iter().filter(|at| !set.contains(at)) {
                    let mut set = set.clone();
                    set.push(at);
                    // In the order of `usable`: what is asked last should be asked least.
                    set.sort_by_key(|at| usable.iter().position(|one| one == at));
                    if known.insert(set.clone()) {
                        tried.push((self.conflicts(&set), set));
                    }
                }
            }
            // Of equals the first: their order is that of `usable`.
            tried.sort_by_key(|(conflicts, _)| *conflicts);
            if let Some(first) = tried.first()
                && first.0 < best.0
            {
                best = first.clone();
            }
            let width = if size == 1 { usize::MAX } else { BEAM };
            last = tried.into_iter().take(width).map(|(_, set)| set).collect();
        }
        best.1
    }
}

/// Questions that one field is decided by at most.
const MOST_QUESTIONS: usize = 6;
/// Sets of questions that are followed further.
const BEAM: usize = 12;

/// What a class is decided from.
struct Deciding<'a> {
    model: &'a Model,
    questions: Vec<Question>,
    /// The questions with more than one answer, the best to ask first.
    usable: Vec<usize>,
    examples: Vec<Example<'a>>,
}

impl Deciding<'_> {
    /// The decision for one field.
    fn decide(&self, key: &Key, decision: &mut Decision, open: &mut Open) {
        let rows = Rows::new(key, &self.examples);
        let mut set = rows.questions(&self.usable);
        // In the order that all decisions ask in.
        set.sort_by_key(|&at| self.questions[at]);
        open.together.insert(set.iter().filter_map(|&at| self.questions[at].component()).collect());
        let groups = rows.groups(&set);
        let mut counts: HashMap<Answers, Option<u8>> =
            groups.iter().map(|(answers, (span, _))| (answers.clone(), span.count())).collect();
        // A text that is printed for the zero register alone says nothing about how many there would be.
        let is_nothing = |answers: &Answers| groups.get(answers).is_some_and(|(span, _)| *span == Span::NOTHING);
        counts.retain(|answers, _| !is_nothing(answers));
        self.fill(&set, &mut counts);
        self.unseen(&set, &counts, &mut open.gaps);
        let leaf = |decision: &mut Decision, answers: &Answers| {
            let count = if is_nothing(answers) { Some(0) } else { counts.get(answers).copied().flatten() };
            match count {
                None => decision.nowhere(),
                Some(0) => decision.leaf(Vec::new()),
                Some(count) => decision.leaf(vec![Use { count, ..*key }]),
            }
        };
        let node = self.nest(decision, &set, &mut Vec::new(), &leaf);
        decision.add(node);
    }

    /// A part of a decision that asks these questions one after the other.
    fn nest(
        &self,
        decision: &mut Decision,
        set: &[usize],
        answers: &mut Answers,
        leaf: &dyn Fn(&mut Decision, &Answers) -> Node,
    ) -> Node {
        let Some(&at) = set.get(answers.len()) else { return leaf(decision, answers) };
        let question = self.questions[at];
        let mut children = Vec::new();
        for answer in 0..question.count(self.model) {
            answers.push(answer as u16);
            children.push(self.nest(decision, set, answers, leaf));
            answers.pop();
        }
        decision.ask(question, children)
    }

    /// Answers that do the same wherever both were seen do the same where only one was.
    fn fill(&self, set: &[usize], counts: &mut HashMap<Answers, Option<u8>>) {
        for (place, &at) in set.iter().enumerate() {
            let mut by_rest: BTreeMap<Answers, BTreeMap<u16, u8>> = BTreeMap::new();
            for (answers, count) in &*counts {
                if let Some(count) = count {
                    let mut rest = answers.clone();
                    let answer = rest.remove(place);
                    by_rest.entry(rest).or_default().insert(answer, *count);
                }
            }
            let number = self.questions[at].count(self.model);
            let (mut same, mut other) = (vec![false; number * number], vec![false; number * number]);
            for found in by_rest.values() {
                for (&a, count_a) in found {
                    for (&b, count_b) in found {
                        let list = if count_a == count_b { &mut same } else { &mut other };
                        list[usize::from(a) * number + usize::from(b)] = true;
                    }
                }
            }
            for (rest, found) in by_rest {
                for answer in (0..number as u16).filter(|answer| !found.contains_key(answer)) {
                    let is_like = |one: u16| {
                        let at = usize::from(answer) * number + usize::from(one);
                        same[at] && !other[at]
                    };
                    let mut like = found.iter().filter(|(one, _)| is_like(**one)).map(|(_, count)| *count);
                    let Some(count) = like.next().filter(|count| like.all(|other| other == *count)) else { continue };
                    let mut answers = rest.clone();
                    answers.insert(place, answer);
                    // What contradicts itself stays unknown.
                    counts.entry(answers).or_insert(Some(count));
                }
            }
        }
    }

    /// For each answer that was not seen beside others, a word that has them.
    fn unseen(&self, set: &[usize], counts: &HashMap<Answers, Option<u8>>, gaps: &mut Vec<u128>) {
        let mut found: BTreeSet<Answers> = BTreeSet::new();
        let mut tries: HashMap<Answers, usize> = HashMap::new();
        for example in &self.examples {
            let here: Answers = set.iter().map(|&at| example.answers[at]).collect();
            let tried = tries.entry(here.clone()).or_default();
            *tried += 1;
            if *tried > LIKE {
                continue;
            }
            for (place, &at) in set.iter().enumerate() {
                let Question::Component(comp) = self.questions[at] else { continue };
                let comp = &self.model.comps[usize::from(comp)];
                for (&value, &variant) in &comp.table {
                    let mut answers = here.clone();
                    answers[place] = variant;
                    if counts.contains_key(&answers) || found.contains(&answers) {
                        continue;
                    }
                    let made = comp_word(&self.model.slots, &comp.inputs, example.seen.word, value);
                    if let Some(word) = made.filter(|&word| fields::chosen(self.model, word).is_some()) {
                        found.insert(answers);
                        gaps.push(word);
                    }
                }
            }
        }
    }

    /// A field of three bits that numbers a marked predicate in many words and explains marks that nothing else does: predicates that a text spells
    /// out, not as a number.
    fn spelt_predicate(&self, left: &[(RegSet, RegSet)], file: RegFile, write: bool) -> Option<Key> {
        let left = |at: usize| if write { &left[at].1 } else { &left[at].0 };
        if (0..self.examples.len()).all(|at| left(at).count(file) == 0) {
            return None;
        }
        let candidates = (GUARD..103u8)
            .flat_map(|pos| [3, 3 | fields::INVERTED].map(|bits| Use { file, pos, bits, write, count: 1 }));
        let explained = |key: &Key| {
            let (mut explains, mut contradicts) = (0usize, 0usize);
            for (at, example) in self.examples.iter().enumerate() {
                if let Some(index) = key.register(example.seen.word) {
                    explains += usize::from(left(at).contains(file, index));
                    contradicts += usize::from(!marks(key, example.seen).contains(file, index));
                }
            }
            (contradicts == 0 && explains > 0).then_some(explains)
        };
        candidates
            .filter_map(|key| Some((explained(&key)?, key)))
            .max_by_key(|(count, key)| (*count, std::cmp::Reverse(*key)))
            .map(|(_, key)| key)
    }

    /// The marks that a decision does not explain, for each example; all of them empty where it does not know.
    fn unexplained(&self, decision: &Decision) -> Vec<(RegSet, RegSet)> {
        let left = |example: &Example<'_>| {
            let Some(uses) = decision.find(&example.answers, &self.questions) else { return Default::default() };
            let (reads, writes) = evaluate(uses, example.seen.word);
            (example.seen.reads.difference(&reads), example.seen.writes.difference(&writes))
        };
        self.examples.iter().map(left).collect()
    }

    /// Parts of a decision that know nothing of words which print a register that no example prints: nobody saw what is done to it.
    fn unseen_registers(&self, decision: &mut Decision) -> Vec<Node> {
        let comps = &self.model.comps;
        let mut shown: HashSet<usize> = HashSet::new();
        for example in &self.examples {
            // The components' answers come first.
            shown
                .extend(fields::printed(self.model, &example.answers[..comps.len()]).into_iter().map(|(_, slot)| slot));
        }
        let (nowhere, nothing) = (decision.nowhere(), decision.leaf(Vec::new()));
        let is_unseen = |token: &u32| {
            let slot = (token & !SLOT) as usize;
            token & SLOT != 0 && self.model.slots[slot].is_register() && !shown.contains(&slot)
        };
        let part = |(at, comp): (usize, &Comp)| {
            let children =
                comp.variants.iter().map(|sites| if sites.iter().flatten().any(is_unseen) { nowhere } else { nothing });
            decision.ask(Question::Component(at as u8), children.collect())
        };
        comps.iter().enumerate().map(part).collect()
    }

    /// What the class does.
    fn class(&self, lost: &mut Vec<String>, open: &mut Open) -> Decision {
        if self.examples.is_empty() {
            return Decision::unknown();
        }
        let keys: BTreeSet<Key> = self
            .examples
            .iter()
            .flat_map(|example| &example.fields)
            .flat_map(|(used, _)| [false, true].map(|write| Use { write, ..*used }))
            .collect();
        let mut decision = Decision::nothing();
        for key in &keys {
            self.decide(key, &mut decision, open);
        }
        for file in [RegFile::Pred, RegFile::Upred] {
            for write in [false, true] {
                while let Some(key) = self.spelt_predicate(&self.unexplained(&decision), file, write) {
                    let node = decision.leaf(vec![key]);
                    decision.add(node);
                }
            }
        }
        // Registers that are meant whatever the word says.
        let mut always: BTreeSet<Key> = BTreeSet::new();
        for (reads, writes) in self.unexplained(&decision) {
            for (write, set) in [(false, reads), (true, writes)] {
                always.extend(set.iter_all().map(|(file, index)| Use {
                    file,
                    pos: index as u8,
                    bits: 0,
                    write,
                    count: 1,
                }));
            }
        }
        if always.len() <= MOST_ALWAYS {
            for key in &always {
                self.decide(key, &mut decision, open);
            }
        }
        // What does not come out as it was seen is not known.
        let is_right = |example: &Example<'_>| {
            decision.find(&example.answers, &self.questions).is_none_or(|uses| {
                evaluate(uses, example.seen.word)
                    == (fields::marked(example.seen.reads), fields::marked(example.seen.writes))
            })
        };
        let right: Vec<bool> = self.examples.iter().map(is_right).collect();
        if right.iter().any(|right| !right) {
            let mut rows: BTreeMap<&Answers, (Span, usize)> = BTreeMap::new();
            for (example, right) in self.examples.iter().zip(&right) {
                let row = rows.entry(&example.answers).or_insert((Span::exactly(0), 0));
                *row = (if *right { row.0 } else { Span::exactly(1) }, row.1 + 1);
            }
            let rows = Rows { rows: rows.into_iter().map(|(answers, (span, count))| (answers, span, count)).collect() };
            let mut set = rows.questions(&self.usable);
            set.sort_by_key(|&at| self.questions[at]);
            let groups = rows.groups(&set);
            let is_wrong = |answers: &Answers| groups.get(answers).is_some_and(|(span, _)| span.count() != Some(0));
            let leaf = |decision: &mut Decision, answers: &Answers| {
                if is_wrong(answers) { decision.nowhere() } else { decision.leaf(Vec::new()) }
            };
            let node = self.nest(&mut decision, &set, &mut Vec::new(), &leaf);
            decision.add(node);
        }
        for node in self.unseen_registers(&mut decision) {
            decision.add(node);
        }
        let is_lost = |example: &&Example<'_>| decision.find(&example.answers, &self.questions).is_none();
        lost.extend(self.examples.iter().filter(is_lost).map(|example| example.seen.text.clone()));
        decision
    }
}

/// Examples that words which were not seen are made like.
const LIKE: usize = 4;
/// Registers that a class may always mean: more are marks that nothing explains.
const MOST_ALWAYS: usize = 8;
/// Lowest bit of the guard, the first field that may number a predicate.
const GUARD: u8 = 12;

/// Whether a component's variants spell the numbers of predicates out: `P3`, `!UP0`.
fn spells_predicates(comp: &Comp, literals: &Literals) -> bool {
    let texts = comp.variants.iter().flatten().flatten().filter(|t| *t & SLOT == 0);
    let mut words = texts.flat_map(|&t| literals.get(t).split(|c: char| !c.is_ascii_alphanumeric()));
    words.any(|word| {
        let number = word.strip_prefix("UP").or_else(|| word.strip_prefix('P'));
        number.is_some_and(|number| number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// What observations say.
pub struct Decisions {
    /// By class.
    pub classes: Vec<Decision>,
    /// The texts whose rows contradict each other.
    pub lost: Vec<String>,
    /// By class, what to look at next.
    pub open: Vec<Open>,
}

/// What the decisions of a class leave open.
#[derive(Default)]
pub struct Open {
    /// The components that decide together about one field, field by field.
    pub together: BTreeSet<Vec<u8>>,
    /// Words whose effects are not decided.
    pub gaps: Vec<u128>,
}

/// Decides what the words of each class do.
pub fn decide(learnt: &Learnt, literals: &Literals, observations: &str) -> Result<Decisions> {
    let observations = fields::parse(observations)?;
    let mut by_class: Vec<Vec<(Answers, &Observation)>> = learnt.models.iter().map(|_| Vec::new()).collect();
    for seen in observations.iter().filter(|seen| !seen.text.contains(super::observe::INVALID)) {
        let Some((class, chosen)) = fields::place(learnt, seen.word) else { continue };
        by_class[class as usize].push((chosen, seen));
    }
    let (mut lost, mut open) = (Vec::new(), Vec::new());
    let mut classes = Vec::new();
    for (model, seen) in learnt.models.iter().zip(by_class) {
        let components = (0..model.comps.len()).map(|comp| Question::Component(comp as u8));
        let numbers = fields::small_numbers(model).map(Question::Number);
        let mut questions: Vec<Question> = components.chain(numbers).collect();
        questions.dedup();
        let example = |(chosen, seen): (Vec<u16>, _)| example(model, &questions, &chosen, seen);
        let examples: Vec<Example<'_>> = seen.into_iter().map(example).collect();
        let varies = |at: &usize| examples.iter().any(|example| example.answers[*at] != examples[0].answers[*at]);
        let mut usable: Vec<usize> = (0..questions.len()).filter(varies).collect();
        // Which predicate is spelt out says nothing about what is done with it: last.
        usable.sort_by_key(|&at| match questions[at] {
            Question::Component(comp) => usize::from(spells_predicates(&model.comps[usize::from(comp)], literals)) * 2,
            Question::Number(_) => 1,
        });
        let mut left = Open::default();
        classes.push(Deciding { model, questions, usable, examples }.class(&mut lost, &mut left));
        open.push(left);
    }
    Ok(Decisions { classes, lost, open })
}
