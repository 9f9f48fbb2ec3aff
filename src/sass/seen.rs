//! What words do to registers, for many words: what words of one [shape](super::plan) have in common is looked up once.
//!
//! Words of one shape are of one class, legal or not, and the same of their fields number registers.

use std::cell::RefCell;

use crate::base::RegFile;

use super::Word;
use super::blob::Class;
use super::decode::{Decoder, Inst};
use super::effects::{Bytes, Field, Run, bytes_of};
use super::plan::{Deciding, Shapes, bits};

/// Shapes that are kept.
const SHAPES: usize = 1 << 12;
/// Fields that are kept of all shapes.
const MOST_FIELDS: usize = 1 << 16;

/// What words of a shape do.
#[derive(Clone, Copy, Default)]
struct Doing {
    /// The number of their class, zero where they are not known.
    class: u32,
    /// Its fields: from, to.
    first: u32,
    end: u32,
    /// Whether they are known.
    has_uses: bool,
    /// The file of the predicate that guards them, where any may.
    guarded_by: Option<RegFile>,
}

/// Words of one architecture that were seen.
struct Seen {
    decoder: Decoder,
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
    pub(crate) fn each_with_runs(&self, code: &[u8], mut each: impl FnMut(Inst, Runs<'_>)) {
        let mut seen = SEEN.take().filter(|seen| seen.decoder.pages == self.pages).unwrap_or_else(|| Seen::new(*self));
        for word in code.as_chunks::<16>().0 {
            let word = Word::from_bytes(word);
            let looked_up;
            let doing = match seen.shapes.get(word) {
                Some(doing) => doing,
                None => {
                    looked_up = seen.look_up(word);
                    &looked_up
                }
            };
            let inst = Inst { word, class: doing.class };
            let fields = seen.fields.get(doing.first as usize..doing.end as usize).unwrap_or(&[]);
            let (are_known, guarded_by) = (doing.has_uses, doing.guarded_by);
            each(inst, Runs { fields, bytes: bytes_of(word), are_known, guarded_by });
        }
        SEEN.set(Some(seen));
    }
}

/// The registers that an instruction names; none where they are not known.
pub(crate) struct Runs<'a> {
    fields: &'a [Field],
    bytes: Bytes,
    /// Whether they are.
    pub are_known: bool,
    /// The file of the predicate that guards it, where any may.
    pub guarded_by: Option<RegFile>,
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
        Seen { decoder, shapes: Shapes::new(decoder.pages, decides, SHAPES), fields: Vec::new() }
    }

    /// Finds what a word does of whose shape no other word was seen.
    #[cold]
    fn look_up(&mut self, word: Word) -> Doing {
        if self.fields.len() > MOST_FIELDS {
            self.fields.clear();
            self.shapes.clear();
        }
        let first = self.fields.len() as u32;
        let mut doing = Doing { first, end: first, ..Doing::default() };
        let inst = self.decoder.decode(word);
        if !inst.is_unknown() {
            doing.class = inst.class;
            doing.guarded_by = Class(inst.class).guarded_by();
            if let Some(uses) = self.decoder.uses(&inst) {
                self.fields.extend(uses.fields());
                (doing.end, doing.has_uses) = (self.fields.len() as u32, true);
            }
        }
        self.shapes.keep(word, doing);
        doing
    }
}

/// Looks up what decides about what a class's words do to registers.
fn decides(class: Class, deciding: &mut Deciding) {
    let mask = &mut deciding.mask;
    *mask = mask.with(class.fixed());
    let mut comps = class.partial();
    class.uses_inputs(&mut comps, |bit, width| *mask = mask.with(bits(bit, width)));
    comps.sort_unstable();
    comps.dedup();
    for comp in comps.iter().map(|comp| class.comp(*comp)) {
        comp.chunks().for_each(|chunk| *mask = mask.with(bits(chunk.bit, chunk.width)));
        deciding.questions.extend(comp.questions());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Arch;
    use crate::sass::Guard;

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
                    assert_eq!(runs.are_known, uses.is_some(), "{:?}", inst.word);
                    let guard = runs.guarded_by.and_then(|file| Guard::of(file, inst.word));
                    assert_eq!(guard, decoder.guard(&inst), "{:?}", inst.word);
                    let mut all = Vec::new();
                    runs.each(|run| all.push(run));
                    assert!(uses.into_iter().flat_map(|uses| uses.runs(inst.word)).eq(all.iter().copied()));
                    found += all.len();
                });
            }
        }
        assert!(found > 10_000, "{found}");
    }
}
