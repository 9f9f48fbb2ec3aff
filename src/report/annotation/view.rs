//! Instructions under lines: of the PTX, or of the front end's source.

use std::ops::Range;

use super::{AnnotatedKernel, Annotation, Missing};
use crate::base::Line;
use crate::report::PtxText;

/// Which lines instructions are placed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Lines of PTX.
    Ptx,
    /// Lines of the front end's source.
    Source,
}

/// Every instruction of an annotation under a line of a document, each exactly once.
#[derive(Debug)]
pub struct View<'a> {
    /// The annotation.
    pub annotation: &'a Annotation,
    /// Whose lines the instructions stand under.
    pub by: By,
    /// Files, in the order they are shown.
    pub documents: Vec<Document<'a>>,
    placed: Vec<Placed>,
}

/// A file whose lines instructions stand under.
#[derive(Debug)]
pub struct Document<'a> {
    /// Its name; empty for the PTX of the input itself.
    pub name: &'a str,
    /// Its text, where it is known.
    pub text: Option<&'a PtxText>,
    /// Why there is none.
    pub missing: Option<Missing>,
    placed: Range<usize>,
}

/// An instruction and the line it stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    document: u32,
    /// The line; 0 where there is none at all.
    pub line: Line,
    /// Index of the section.
    pub kernel: u32,
    /// Index of the instruction in it.
    pub instruction: u32,
    /// Whether the line is its own, or else a neighbour's.
    pub is_own: bool,
}

/// The instructions of one line.
#[derive(Clone, Copy, Debug)]
pub struct Group<'v> {
    /// The line; 0 where there is none at all.
    pub line: Line,
    /// Its instructions, by section and then by pc.
    pub members: &'v [Placed],
}

impl Annotation {
    /// Places every instruction.
    pub fn view(&self, by: By) -> View<'_> {
        let mut placed = Vec::new();
        // One document more than there are texts, for code that has no line of any of them.
        let nowhere = match by {
            By::Ptx => self.texts.len(),
            By::Source => self.files.len(),
        };
        for (number, kernel) in (0u32..).zip(&self.kernels) {
            place(kernel, by, number, index(nowhere), &mut placed);
        }
        placed.sort_unstable();
        let mut documents: Vec<Document<'_>> = Vec::new();
        for document in 0..=nowhere {
            let from = placed.partition_point(|one| (one.document as usize) < document);
            let to = placed.partition_point(|one| one.document as usize <= document);
            let (text, missing) = match (by, self.sources.get(document)) {
                (By::Ptx, _) => (self.texts.get(document), None),
                (By::Source, Some(Ok(text))) => (Some(text), None),
                (By::Source, Some(Err(missing))) => (None, Some(*missing)),
                (By::Source, None) => (None, None),
            };
            if from == to && (text.is_none() || by == By::Source) {
                continue;
            }
            let name = match by {
                By::Ptx => "",
                By::Source => self.files.get(document).map_or("", String::as_str),
            };
            documents.push(Document { name, text, missing, placed: from..to });
        }
        View { annotation: self, by, documents, placed }
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Places the instructions of a section: where the table says, or else where the one before it stands (in the same function), or
/// else where the next one does.
fn place(kernel: &AnnotatedKernel, by: By, number: u32, nowhere: u32, placed: &mut Vec<Placed>) {
    let own = |at: usize| -> Option<(u32, Line)> {
        let instruction = kernel.instructions.get(at)?;
        match by {
            By::Source => instruction.source,
            By::Ptx => Some((index(kernel.text?), instruction.ptx_line?)),
        }
    };
    // Neighbours are sought inside a function: the bounds of parts cut the section into stretches.
    let mut cuts: Vec<usize> =
        kernel.parts.iter().flat_map(|part| [part.start, part.end]).map(|pc| pc.0 as usize / 16).collect();
    cuts.push(0);
    cuts.push(kernel.instructions.len());
    cuts.retain(|&cut| cut <= kernel.instructions.len());
    cuts.sort_unstable();
    cuts.dedup();
    let home = match (by, kernel.text, kernel.span) {
        (By::Ptx, Some(text), Some((first, _))) => Some((index(text), first)),
        _ => None,
    };
    for stretch in cuts.windows(2) {
        let &[from, to] = stretch else { continue };
        let mut near = (from..to).find_map(own).or(home);
        for at in from..to {
            let here = own(at);
            near = here.or(near);
            let (document, line) = near.unwrap_or((nowhere, Line(0)));
            placed.push(Placed { document, line, kernel: number, instruction: index(at), is_own: here.is_some() });
        }
    }
}

impl<'a> View<'a> {
    /// The lines of a document that have instructions, ascending.
    pub fn groups(&self, document: &Document<'a>) -> impl Iterator<Item = Group<'_>> {
        let placed = self.placed.get(document.placed.clone()).unwrap_or_default();
        placed
            .chunk_by(|a, b| a.line == b.line)
            .filter_map(|members| Some(Group { line: members.first()?.line, members }))
    }

    /// How many instructions became of a line: those that the line table says are its own, without what fills up the section. Every count
    /// by line is made so.
    pub fn made_of(&self, group: &Group<'_>) -> usize {
        let is_padding = |placed: &Placed| self.get(placed).is_some_and(|(_, instruction)| instruction.is_padding);
        group.members.iter().filter(|placed| placed.is_own && !is_padding(placed)).count()
    }

    /// A placed instruction and its section.
    pub fn get(&self, placed: &Placed) -> Option<(&'a AnnotatedKernel, &'a super::AnnotatedInstruction)> {
        let kernel = self.annotation.kernels.get(placed.kernel as usize)?;
        Some((kernel, kernel.instructions.get(placed.instruction as usize)?))
    }
}
