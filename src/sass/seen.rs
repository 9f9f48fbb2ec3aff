//! What words do to registers, for many words: what words of one [shape](super::plan) have in common is looked up once.
//!
//! Words of one shape are of one class, legal or not, and the same of their fields number registers.

use std::cell::RefCell;

use super::Word;
use super::blob::{self, Class};
use super::decode::{Decoder, Inst};
use super::effects::{Bytes, Field, Run, Uses, bytes_of};
use super::plan::{Plan, Plans, Shapes, bits};

/// Shapes that are kept.
const SHAPES: usize = 1 << 12;
/// Fields that are kept of all shapes.
const MOST_FIELDS: usize = 1 << 16;

/// What words of a shape do.
#[derive(Clone, Copy, Default)]
struct Doing {
    /// None where a word is not known.
    class: Option<Class>,
    /// Its fields: from, to.
    first: u32,
    end: u32,
    /// Whether they are known.
    has_uses: bool,
}

/// Words of one architecture that were seen.
struct Seen {
    decoder: Decoder,
    plans: Plans,
    shapes: Shapes<Doing>,
    fields: Vec<Field>,
}

thread_local! {
    /// A cubin has hundreds of functions whose words are alike: what one of them taught serves all.
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

impl Decoder {
    /// Decodes a code section, 16 bytes at a time; a rest of fewer bytes is left out. Hands on each instruction with the registers that it
    /// names where that is known.
    pub(crate) fn each_with_runs(&self, code: &[u8], mut each: impl FnMut(Inst, Option<Runs<'_>>)) {
        let mut seen = SEEN.take().filter(|seen| seen.decoder.pages == self.pages).unwrap_or_else(|| Seen::new(*self));
        for word in code.as_chunks::<16>().0 {
            let word = Word::from_bytes(word);
            let doing = seen.doing(word);
            let inst = Inst { word, class: doing.class.map_or(0, |class| class.0) };
            let fields = seen.fields.get(doing.first as usize..doing.end as usize).unwrap_or(&[]);
            each(inst, doing.has_uses.then(|| Runs { fields, bytes: bytes_of(word) }));
        }
        SEEN.set(Some(seen));
    }
}

/// The registers that an instruction names.
pub(crate) struct Runs<'a> {
    fields: &'a [Field],
    bytes: Bytes,
}

impl Runs<'_> {
    /// Each run, in the order of [`Uses::runs`].
    #[inline(always)]
    pub fn each(&self, mut each: impl FnMut(Run)) {
        for field in self.fields {
            if let Some(run) = field.run(&self.bytes) {
                each(run);
            }
        }
    }
}

impl Seen {
    fn new(decoder: Decoder) -> Seen {
        Seen { decoder, plans: Plans::new(decoder.pages, plan), shapes: Shapes::new(SHAPES), fields: Vec::new() }
    }

    #[inline(always)]
    fn doing(&mut self, word: Word) -> Doing {
        let Some((number, plan)) = self.plans.find(word) else { return Doing::default() };
        let (class, key, is_kept) = (plan.class, plan.key(word), plan.is_kept);
        match self.shapes.get(number, key) {
            Some(doing) if is_kept => doing,
            _ => self.look_up(number, key, class, is_kept, word),
        }
    }

    /// Finds what a word does of whose shape no other word was seen.
    #[cold]
    fn look_up(&mut self, plan: u32, key: Word, class: Class, is_kept: bool, word: Word) -> Doing {
        if self.fields.len() > MOST_FIELDS {
            self.fields.clear();
            self.shapes.clear();
        }
        let first = self.fields.len() as u32;
        let mut doing = Doing { class: None, first, end: first, has_uses: false };
        if class.fits(word) && class.legal(word) {
            doing.class = Some(class);
            if let Some(uses) = class.uses(word).map(Uses) {
                self.fields.extend(uses.fields());
                (doing.end, doing.has_uses) = (self.fields.len() as u32, true);
            }
        }
        if is_kept {
            self.shapes.keep(plan, key, doing);
        }
        doing
    }
}

/// Looks up what decides about what a class's words do to registers.
fn plan(class: Class) -> Plan {
    let mut mask = class.fixed();
    let mut comps = class.partial();
    class.uses_inputs(&mut comps, |bit, width| mask = mask.with(bits(bit, width)));
    comps.sort_unstable();
    comps.dedup();
    let comps = || comps.iter().map(|comp| class.comp(*comp));
    for chunk in comps().flat_map(blob::Comp::chunks) {
        mask = mask.with(bits(chunk.bit, chunk.width));
    }
    Plan::new(class, mask, comps().flat_map(blob::Comp::questions).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Arch;

    /// Whatever the bits that nothing is chosen by are: a word's neighbours too, and each twice, once looked up and once kept.
    #[test]
    fn words_do_what_the_tables_say_of_each() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/sass");
        let mut found = 0;
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_none_or(|extension| extension != "cases") {
                continue;
            }
            let arch: Arch = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            let decoder = Decoder::new(arch).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let mut code: Vec<u8> = Vec::new();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let word = u128::from_str_radix(&line[..32], 16).unwrap();
                code.extend_from_slice(&word.to_le_bytes());
                let bit = (word % 128) as u32;
                for flipped in [bit, bit ^ 1, bit ^ 2, (bit + 32) % 128, (bit + 64) % 128] {
                    code.extend_from_slice(&(word ^ 1 << flipped).to_le_bytes());
                }
            }
            for _ in 0..2 {
                decoder.each_with_runs(&code, |inst, runs| {
                    assert_eq!(inst, decoder.decode(inst.word), "{:?}", inst.word);
                    let uses = decoder.uses(&inst);
                    assert_eq!(runs.is_some(), uses.is_some(), "{:?}", inst.word);
                    let mut all = Vec::new();
                    if let Some(runs) = runs {
                        runs.each(|run| all.push(run));
                    }
                    assert!(uses.into_iter().flat_map(|uses| uses.runs(inst.word)).eq(all.iter().copied()));
                    found += all.len();
                });
            }
        }
        assert!(found > 10_000, "{found}");
    }
}
