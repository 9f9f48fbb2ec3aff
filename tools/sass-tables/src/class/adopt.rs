//! Taking over the model that a relative's class has, once this architecture's words bear it out.

use std::cmp::Reverse;

use super::{Class, Cx};
use crate::model::{Model, comp_word};
use crate::oracle::Pending;

/// Components of more inputs than this are not enumerated again.
const ENUMERATED: usize = 6;

impl Class {
    /// Starts from a model instead of from nothing.
    pub fn adopt(&mut self, model: &Model) {
        self.slots.clone_from(&model.slots);
        self.bases = vec![model.base];
        self.model = model.clone();
        self.tests = self.random_words(150, if self.slots_have_wide_uniform() { 255 } else { 63 });
        self.adopted = true;
        self.stage = 4;
    }

    fn slots_have_wide_uniform(&self) -> bool {
        use crate::slot::Format;
        use crate::text::Kind;
        self.slots.iter().any(|s| s.format == Format::Linear(Kind::Ur) && s.bits.len() > 6)
    }

    /// Tries the model on real words, on random ones, on every flip of its base and on every value of its components. One
    /// difference, and the class is learnt from nothing.
    pub(super) fn verify(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let model = &self.model;
        let mut words: Vec<u128> = self.corpus.clone();
        words.extend(&self.queue);
        words.extend(&self.tests);
        words.extend(Self::flips(model.base));
        for comp in model.comps.iter().filter(|c| c.inputs.len() <= ENUMERATED) {
            words.extend(
                (0..1u64 << comp.inputs.len()).filter_map(|v| comp_word(&model.slots, &comp.inputs, model.base, v)),
            );
        }
        words.sort_unstable();
        words.dedup();
        cx.oracle.texts(&words)?;
        words.retain(|w| cx.oracle.known(*w).flatten().is_some());
        cx.oracle.labels(&words)?;
        let mut buf = String::new();
        self.adopted = false;
        if self.same_class(cx, model.base) && !words.iter().any(|&w| self.wrong(cx, w, &mut buf)) {
            self.inputs = self.model.comps.iter().flat_map(|c| c.inputs.clone()).collect();
            self.stage = 5;
            return Ok(());
        }
        let model = std::mem::take(&mut self.model);
        self.refused = Some(model).filter(|model| self.same_class(cx, model.base));
        self.slots.clear();
        self.bases.clear();
        self.tests.clear();
        self.stage = 0;
        Ok(())
    }

    /// Of the model that was refused and the one that was learnt instead, keeps the one that is wrong less often, or else right
    /// more often, on the words of real code, and then on those that were drawn.
    pub fn keep_better(&mut self, cx: &Cx<'_>) {
        let Some(refused) = self.refused.take() else { return };
        let mut buf = String::new();
        let mut judge = |model: &Model, words: &[u128]| {
            let (mut wrong, mut right) = (0usize, 0usize);
            for &word in words.iter().filter(|&&w| self.same_class(cx, w)) {
                let Some(text) = cx.oracle.known(word).flatten() else { continue };
                if model.predict(cx.lits, cx.urz, word, &mut buf) {
                    if buf == text { right += 1 } else { wrong += 1 }
                }
            }
            (Reverse(wrong), right)
        };
        let mut score = |model: &Model| (judge(model, &self.corpus), judge(model, &self.explored));
        if self.dead.is_some() || score(&refused) > score(&self.model) {
            self.slots.clone_from(&refused.slots);
            self.model = refused;
            self.dead = None;
        }
    }
}
