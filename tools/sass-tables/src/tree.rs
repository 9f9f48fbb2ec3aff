//! Choosing the class of a word under one opcode: a decision tree over bits and whole fields, from labelled words.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tree {
    Leaf(u32),
    /// Bit of the word, when clear, when set.
    Bit(u8, Box<Tree>, Box<Tree>),
    /// `word & mask == value`: when not, when so.
    Equal(u128, u128, Box<Tree>, Box<Tree>),
}

#[derive(Clone, Copy)]
pub enum Question {
    Bit(u8),
    Equal(u128, u128),
}

impl Question {
    fn holds(self, word: u128) -> bool {
        match self {
            Question::Bit(bit) => word >> bit & 1 == 1,
            Question::Equal(mask, value) => word & mask == value,
        }
    }
}

fn disorder(counts: &BTreeMap<u32, usize>, total: usize) -> f64 {
    let total = total as f64;
    counts.values().map(|&n| n as f64 / total).map(|p| -p * p.ln()).sum::<f64>() * total
}

fn count(words: &[(u128, u32)]) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (_, label) in words {
        *counts.entry(*label).or_default() += 1;
    }
    counts
}

pub fn grow(words: &[(u128, u32)], questions: &[Question], depth: usize) -> Tree {
    let counts = count(words);
    let major = counts.iter().max_by_key(|(_, n)| **n).map_or(0, |(label, _)| *label);
    if counts.len() <= 1 || depth > 24 {
        return Tree::Leaf(major);
    }
    let now = disorder(&counts, words.len());
    let mut best: Option<(f64, Question)> = None;
    for &question in questions {
        let mut yes = BTreeMap::new();
        let mut no = BTreeMap::new();
        let mut hits = 0;
        for &(word, label) in words {
            if question.holds(word) {
                hits += 1;
                *yes.entry(label).or_default() += 1;
            } else {
                *no.entry(label).or_default() += 1;
            }
        }
        if hits == 0 || hits == words.len() {
            continue;
        }
        let gain = now - disorder(&yes, hits) - disorder(&no, words.len() - hits);
        if gain > 1e-9 && best.as_ref().is_none_or(|b| gain > b.0 + 1e-9) {
            best = Some((gain, question));
        }
    }
    let Some((_, question)) = best else { return Tree::Leaf(major) };
    let (yes, no): (Vec<_>, Vec<_>) = words.iter().partition(|(word, _)| question.holds(*word));
    let no = Box::new(grow(&no, questions, depth + 1));
    let yes = Box::new(grow(&yes, questions, depth + 1));
    match question {
        Question::Bit(bit) => Tree::Bit(bit, no, yes),
        Question::Equal(mask, value) => Tree::Equal(mask, value, no, yes),
    }
}

impl Tree {
    pub fn find(&self, word: u128) -> u32 {
        match self {
            Tree::Leaf(label) => *label,
            Tree::Bit(bit, no, yes) => {
                if word >> bit & 1 == 1 {
                    yes.find(word)
                } else {
                    no.find(word)
                }
            }
            Tree::Equal(mask, value, no, yes) => {
                if word & mask == *value {
                    yes.find(word)
                } else {
                    no.find(word)
                }
            }
        }
    }
}
