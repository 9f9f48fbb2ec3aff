//! What the words of a class do to registers, by the variants of its components.

use super::roles::Use;
use crate::model::Model;

/// What a class's words do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing was observed, or what was contradicts itself.
    Unknown,
    Leaf(Vec<Use>),
    /// By the variant of a component.
    Switch(u8, Vec<Decision>),
    /// By the value of a few bits, lowest bit and number of bits, that the text prints as a number: the mask of a texture fetch.
    Field(u8, u8, Vec<Decision>),
}

impl Decision {
    fn question(&self) -> Option<(Question, &[Decision])> {
        match self {
            Decision::Unknown | Decision::Leaf(_) => None,
            Decision::Switch(comp, children) => Some((Question::Component(*comp), children)),
            Decision::Field(pos, bits, children) => Some((Question::Field(*pos, *bits), children)),
        }
    }

    /// A decision by a question, or none where the answer makes no difference.
    pub(super) fn by(question: Question, children: Vec<Decision>) -> Decision {
        match children.first() {
            Some(first) if children.iter().all(|child| child == first) => first.clone(),
            _ => match question {
                Question::Component(comp) => Decision::Switch(comp, children),
                Question::Field(pos, bits) => Decision::Field(pos, bits, children),
            },
        }
    }

    /// What is left to decide once a question has been answered.
    fn given(&self, asked: Question, answer: usize) -> Decision {
        match self.question() {
            None => self.clone(),
            Some((question, children)) if question == asked => {
                children.get(answer).cloned().unwrap_or(Decision::Unknown)
            }
            Some((question, children)) => {
                Decision::by(question, children.iter().map(|child| child.given(asked, answer)).collect())
            }
        }
    }

    /// Both: known where both are.
    pub(super) fn and(&self, other: &Decision) -> Decision {
        let question = match (self, other) {
            (Decision::Unknown, _) | (_, Decision::Unknown) => return Decision::Unknown,
            (Decision::Leaf(ours), Decision::Leaf(theirs)) => {
                let mut uses: Vec<Use> = ours.iter().chain(theirs).copied().collect();
                uses.sort_unstable();
                return Decision::Leaf(uses);
            }
            _ => [self.question(), other.question()].into_iter().flatten().min_by_key(|(question, _)| *question),
        };
        let Some((question, children)) = question else { return Decision::Unknown };
        let part = |answer| self.given(question, answer).and(&other.given(question, answer));
        Decision::by(question, (0..children.len()).map(part).collect())
    }

    /// The number of its leaves.
    pub(super) fn leaves(&self) -> usize {
        self.question().map_or(1, |(_, children)| children.iter().map(Decision::leaves).sum())
    }

    /// What it says of a word with these variants.
    pub(super) fn find(&self, answers: &Answers, questions: &[Question]) -> Option<&[Use]> {
        match self {
            Decision::Unknown => None,
            Decision::Leaf(uses) => Some(uses),
            _ => {
                let (question, children) = self.question()?;
                let at = questions.iter().position(|one| *one == question)?;
                children.get(usize::from(answers[at]))?.find(answers, questions)
            }
        }
    }
}

/// What a decision may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Component(u8),
    /// Lowest bit and number of bits.
    Field(u8, u8),
}

impl Question {
    pub(super) fn component(self) -> Option<u8> {
        match self {
            Question::Component(comp) => Some(comp),
            Question::Field(..) => None,
        }
    }

    pub(super) fn count(self, model: &Model) -> usize {
        match self {
            Question::Component(comp) => model.comps[usize::from(comp)].variants.len(),
            Question::Field(_, bits) => 1 << bits,
        }
    }
}

/// The answer to each question of a class.
pub(super) type Answers = Vec<u16>;

#[cfg(test)]
mod tests {
    use super::*;
    use ptxinspect::base::RegFile;

    fn uses(pos: u8, count: u8) -> Decision {
        Decision::Leaf(vec![Use { file: RegFile::Gpr, pos, bits: 8, write: false, count }])
    }

    #[test]
    fn fields_decided_apart_are_known_where_both_are() {
        let address = Decision::Switch(0, vec![uses(24, 1), uses(24, 2)]);
        let data = Decision::Switch(1, vec![uses(32, 1), Decision::Unknown, uses(32, 4)]);
        let both = data.and(&address);
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
        let same = Decision::by(Question::Component(3), vec![uses(24, 1), uses(24, 1)]);
        assert_eq!(same, uses(24, 1));
        let asked = Decision::Switch(3, vec![uses(24, 1), uses(24, 2)]);
        assert_eq!(asked.and(&Decision::Leaf(Vec::new())), asked);
    }
}
