//! Taking over the model that a relative's class has, once this architecture's words bear it out.

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
        self.model = Model::default();
        self.slots.clear();
        self.bases.clear();
        self.tests.clear();
        self.stage = 0;
        Ok(())
    }
}
