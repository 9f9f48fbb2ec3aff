//! Decisions that answer only for what was seen where they were made.

use std::collections::{BTreeMap, BTreeSet};

use super::roles::{Decision, Example, Question, chosen};
use crate::model::{Model, comp_word};

/// Restricts the decision of a class; `spelt` says which of its components spell predicates out. `gaps` takes words that were not seen.
pub(super) fn restrict(
    decision: Decision,
    examples: &[&Example<'_>],
    model: &Model,
    spelt: &[bool],
    gaps: &mut Vec<u128>,
) -> Decision {
    let mut matter = decision.components();
    matter.retain(|&comp| !spelt[usize::from(comp)]);
    let matter = matter.into_iter().filter_map(|comp| Some((comp, alike(&decision, model, comp)?))).collect();
    answer_for_seen(decision, examples, model, &matter, &mut Vec::new(), gaps)
}

/// A decision whose leaves answer only for what their examples showed: a component that matters somewhere in the class may matter there too, so
/// of its variants those that were seen there count, and those that do elsewhere what one of these does. Which predicate is spelt out never matters. `gaps` takes a word for each that was not seen.
fn answer_for_seen(
    decision: Decision,
    examples: &[&Example<'_>],
    model: &Model,
    matter: &BTreeMap<u8, Vec<Vec<bool>>>,
    asked: &mut Vec<u8>,
    gaps: &mut Vec<u128>,
) -> Decision {
    let split = |question: Question, answer: u16| -> Vec<&Example<'_>> {
        examples.iter().copied().filter(|example| question.answer(example) == answer).collect()
    };
    match decision {
        Decision::Unknown => Decision::Unknown,
        Decision::Leaf(uses) => {
            let mut restricted = Decision::Leaf(uses);
            for (&comp, alike) in matter.iter().filter(|(comp, _)| !asked.contains(comp)) {
                let mut seen: BTreeSet<u16> =
                    examples.iter().map(|example| example.chosen[usize::from(comp)]).collect();
                let is_like = |variant: u16| seen.iter().any(|&one| alike[usize::from(one)][usize::from(variant)]);
                let like: Vec<u16> = (0..alike.len() as u16).filter(|&variant| is_like(variant)).collect();
                seen.extend(like);
                let count = model.comps[usize::from(comp)].variants.len();
                if seen.len() < count {
                    gaps.extend(unseen(examples, model, comp, &seen));
                    let child = |variant| if seen.contains(&variant) { restricted.clone() } else { Decision::Unknown };
                    let children = (0..count as u16).map(child).collect();
                    restricted = Decision::Switch(comp, children);
                }
            }
            restricted
        }
        Decision::Switch(comp, children) => {
            asked.push(comp);
            let children = (0..).zip(children).map(|(variant, child)| {
                let part = split(Question::Component(comp), variant);
                answer_for_seen(child, &part, model, matter, asked, gaps)
            });
            let children = children.collect();
            asked.pop();
            Decision::Switch(comp, children)
        }
        Decision::Field(pos, bits, children) => {
            let children = (0..).zip(children).map(|(value, child)| {
                let part = split(Question::Field(pos, bits), value);
                answer_for_seen(child, &part, model, matter, asked, gaps)
            });
            Decision::Field(pos, bits, children.collect())
        }
    }
}

/// Which variants of a component do the same: somewhere in the decision, and nowhere in it something else. `None` where no two of them are known to
/// do different things: then the component was only asked about in search of what tells contradictory rows apart.
fn alike(decision: &Decision, model: &Model, comp: u8) -> Option<Vec<Vec<bool>>> {
    let count = model.comps[usize::from(comp)].variants.len();
    let (mut same, mut other) = (vec![vec![false; count]; count], vec![vec![false; count]; count]);
    let mut open = vec![decision];
    while let Some(decision) = open.pop() {
        let (Decision::Switch(_, children) | Decision::Field(_, _, children)) = decision else { continue };
        open.extend(children);
        if !matches!(decision, Decision::Switch(found, _) if *found == comp) {
            continue;
        }
        let known: Vec<usize> = (0..children.len()).filter(|&v| children[v] != Decision::Unknown).collect();
        for &a in &known {
            for &b in &known {
                let list = if children[a] == children[b] { &mut same } else { &mut other };
                list[a][b] = true;
            }
        }
    }
    let differs = other.iter().flatten().any(|&differs| differs);
    for (same, other) in same.iter_mut().flatten().zip(other.into_iter().flatten()) {
        *same &= !other;
    }
    differs.then_some(same)
}

/// For each variant of a component that no example shows, a word that does and is otherwise like one of them.
fn unseen(examples: &[&Example<'_>], model: &Model, comp: u8, seen: &BTreeSet<u16>) -> Vec<u128> {
    let comp = &model.comps[usize::from(comp)];
    let mut found: BTreeMap<u16, u128> = BTreeMap::new();
    let mut values: Vec<_> = comp.table.iter().map(|(&value, &variant)| (variant, value)).collect();
    values.sort_unstable();
    for (variant, value) in values.into_iter().filter(|(variant, _)| !seen.contains(variant)) {
        for example in examples.iter().take(LIKE) {
            if found.contains_key(&variant) {
                break;
            }
            let made = comp_word(&model.slots, &comp.inputs, example.seen.word, value);
            if let Some(word) = made.filter(|&word| chosen(model, word).is_some()) {
                found.insert(variant, word);
            }
        }
    }
    found.into_values().collect()
}

/// Examples that a word which was not seen is made like, one after the other until there is one.
const LIKE: usize = 4;
