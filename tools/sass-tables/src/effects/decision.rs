//! What the words of a class do to registers, by the variants of its components: a diagram whose equal parts are one.
//!
//! Questions are asked in one order everywhere, so that what was decided for each field apart is put together without trying every
//! combination of answers.

use std::collections::HashMap;

use super::fields::{Number, Use};
use crate::model::Model;

/// A node of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

/// What is decided at a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing was observed, or what was contradicts itself.
    Unknown,
    Leaf(Vec<Use>),
    /// By the answer to a question.
    Ask(Question, Vec<Node>),
}

/// What a decision may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// The variant of a component.
    Component(u8),
    /// A number that the text prints.
    Number(Number),
}

impl Question {
    pub(super) fn component(self) -> Option<u8> {
        match self {
            Question::Component(comp) => Some(comp),
            Question::Number(_) => None,
        }
    }

    pub(super) fn count(self, model: &Model) -> usize {
        match self {
            Question::Component(comp) => model.comps[usize::from(comp)].variants.len(),
            Question::Number(number) => number.count(),
        }
    }
}

/// The answer to each question of a class.
pub(super) type Answers = Vec<u16>;

/// What a class's words do.
#[derive(Clone)]
pub struct Decision {
    steps: Vec<Step>,
    known: HashMap<Step, Node>,
    root: Node,
}

impl Decision {
    /// Nothing is known.
    pub(super) fn unknown() -> Decision {
        Decision { steps: vec![Step::Unknown], known: HashMap::from([(Step::Unknown, Node(0))]), root: Node(0) }
    }

    /// No register is touched.
    pub(super) fn nothing() -> Decision {
        let mut decision = Decision::unknown();
        decision.root = decision.leaf(Vec::new());
        decision
    }

    pub fn root(&self) -> Node {
        self.root
    }

    pub fn step(&self, node: Node) -> &Step {
        &self.steps[node.0 as usize]
    }

    fn put(&mut self, step: Step) -> Node {
        let next = Node(self.steps.len() as u32);
        *self.known.entry(step).or_insert_with_key(|step| {
            self.steps.push(step.clone());
            next
        })
    }

    /// The node that knows nothing.
    pub(super) fn nowhere(&mut self) -> Node {
        self.put(Step::Unknown)
    }

    pub(super) fn leaf(&mut self, uses: Vec<Use>) -> Node {
        self.put(Step::Leaf(uses))
    }

    /// A node that asks, unless the answer makes no difference. Questions further down come later in their order.
    pub(super) fn ask(&mut self, question: Question, children: Vec<Node>) -> Node {
        match children.first() {
            Some(&first) if children.iter().all(|child| *child == first) => first,
            _ => self.put(Step::Ask(question, children)),
        }
    }

    /// Adds what another node of this decision says: known where both are.
    pub(super) fn add(&mut self, other: Node) {
        self.root = self.both(self.root, other, &mut HashMap::new());
    }

    fn both(&mut self, a: Node, b: Node, done: &mut HashMap<(Node, Node), Node>) -> Node {
        if let Some(&node) = done.get(&(a, b)) {
            return node;
        }
        let node = match (self.step(a).clone(), self.step(b).clone()) {
            (Step::Unknown, _) | (_, Step::Unknown) => self.nowhere(),
            (Step::Leaf(ours), Step::Leaf(theirs)) => {
                let mut uses: Vec<Use> = ours.into_iter().chain(theirs).collect();
                uses.sort_unstable();
                self.leaf(uses)
            }
            (ours, theirs) => {
                let asked = |step: &Step| if let Step::Ask(question, _) = step { Some(*question) } else { None };
                let question = [asked(&ours), asked(&theirs)].into_iter().flatten().min();
                let part = |node: Node, step: &Step, answer: usize| match step {
                    Step::Ask(asked, children) if Some(*asked) == question => children[answer],
                    _ => node,
                };
                let count = [&ours, &theirs].into_iter().find_map(|step| match step {
                    Step::Ask(asked, children) if Some(*asked) == question => Some(children.len()),
                    _ => None,
                });
                let children = (0..count.unwrap_or(0))
                    .map(|answer| self.both(part(a, &ours, answer), part(b, &theirs, answer), done))
                    .collect();
                match question {
                    Some(question) => self.ask(question, children),
                    None => self.nowhere(),
                }
            }
        };
        done.insert((a, b), node);
        node
    }

    /// What it says of a word with these answers.
    pub(super) fn find(&self, answers: &Answers, questions: &[Question]) -> Option<&[Use]> {
        let mut node = self.root;
        loop {
            match self.step(node) {
                Step::Unknown => return None,
                Step::Leaf(uses) => return Some(uses),
                Step::Ask(question, children) => {
                    let at = questions.iter().position(|one| one == question)?;
                    node = *children.get(usize::from(answers[at]))?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxinspect::base::RegFile;

    fn uses(pos: u8, count: u8) -> Vec<Use> {
        vec![Use { file: RegFile::Gpr, pos, bits: 8, write: false, count }]
    }

    #[test]
    fn fields_decided_apart_are_known_where_both_are() {
        let mut both = Decision::nothing();
        let widths = [both.leaf(uses(32, 1)), both.nowhere(), both.leaf(uses(32, 4))];
        let data = both.ask(Question::Component(1), widths.to_vec());
        both.add(data);
        let widths = [both.leaf(uses(24, 1)), both.leaf(uses(24, 2))];
        let address = both.ask(Question::Component(0), widths.to_vec());
        both.add(address);
        let questions = [Question::Component(0), Question::Component(1)];
        let counts = |answers: [u16; 2]| {
            let found = both.find(&answers.to_vec(), &questions);
            found.map(|uses| uses.iter().map(|used| used.count).collect::<Vec<u8>>())
        };
        assert_eq!(counts([0, 0]), Some(vec![1, 1]));
        assert_eq!(counts([1, 2]), Some(vec![2, 4]));
        assert_eq!(counts([1, 1]), None);
    }

    #[test]
    fn a_question_whose_answer_makes_no_difference_is_not_asked() {
        let mut decision = Decision::nothing();
        let leaf = decision.leaf(uses(24, 1));
        assert_eq!(decision.ask(Question::Component(3), vec![leaf, leaf]), leaf);
        decision.add(leaf);
        assert_eq!(decision.root(), leaf);
    }
}
