//! Notes: which tools made the file, and with which options.

use std::borrow::Cow;

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::note::NoteDataIterator;

use super::elf::Section;
use super::image::Problem;

/// One ELF note, whether its meaning is known or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// `.note.nv.tkinfo`, `.note.nv.cuinfo`, …
    pub section: Cow<'a, str>,
    /// `NVIDIA Corp`.
    pub owner: Cow<'a, str>,
    /// The note's type.
    pub kind: u32,
    /// Its content.
    pub data: &'a [u8],
}

/// What the file says about the toolkit that made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolkit<'a> {
    /// `13.4`: from the notes, or from `e_version` of an ABI 7 file, which carries no notes.
    pub version: Option<(u32, u32)>,
    /// The SM number of the virtual architecture the code was compiled for.
    pub virtual_sm: Option<u32>,
    /// Every tool that recorded itself, in file order.
    pub tools: Vec<Tool<'a>>,
}

/// One tool's own record: a `.note.nv.tkinfo` note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool<'a> {
    /// `ptxas`.
    pub name: Cow<'a, str>,
    /// `Cuda compilation tools, release 13.4, V13.4.92`.
    pub version: Cow<'a, str>,
    /// `Build cuda_13.4.r13.4/compiler.38855100_0`.
    pub branch: Cow<'a, str>,
    /// `-v  -lineinfo  -arch sm_90`, as the note has it.
    pub options: Cow<'a, str>,
}

impl Tool<'_> {
    /// `13.4.92` of `Cuda compilation tools, release 13.4, V13.4.92`.
    pub fn release(&self) -> Option<&str> {
        let (_, release) = self.version.rsplit_once(" V")?;
        (!release.is_empty()).then_some(release)
    }

    /// The value of an option in any spelling the tools take: `-arch sm_90`, `-arch=sm_90`, `--gpu-name=sm_90`.
    pub fn option(&self, names: &[&str]) -> Option<&str> {
        let mut words = self.options.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix('-') else { continue };
            let option = option.trim_start_matches('-');
            match option.split_once('=') {
                Some((name, value)) if names.contains(&name) => return Some(value),
                None if names.contains(&option) => return words.next(),
                _ => {}
            }
        }
        None
    }
}

/// Type of a `.note.nv.tkinfo` note.
const TOOLKIT_INFO: u32 = 2000;
/// Type of a `.note.nv.cuinfo` note, and of `.note.nv.cuver` before 12.9.
const CUDA_INFO: u32 = 1000;

/// Reads the notes of one SHT_NOTE section.
pub(super) fn read<'a>(
    section: &Section<'a>,
    toolkit: &mut Toolkit<'a>,
    notes: &mut Vec<Note<'a>>,
    problems: &mut Vec<Problem>,
) {
    let ctx = (4, Ctx::new(Container::Big, Endian::Little));
    let records = NoteDataIterator { data: section.data, size: section.data.len(), offset: 0, ctx };
    for record in records {
        let Ok(record) = record else {
            problems.push(Problem::new(section.name.to_string(), "a note runs past the end of its section"));
            return;
        };
        if section.name.starts_with(".note.nv.") {
            match record.n_type {
                TOOLKIT_INFO => toolkit_info(record.desc, toolkit),
                CUDA_INFO => cuda_info(record.desc, toolkit),
                _ => {}
            }
        }
        let owner = Cow::Borrowed(record.name);
        notes.push(Note { section: section.name.clone(), owner, kind: record.n_type, data: record.desc });
    }
}

/// The version of a toolkit as the files count it: 134 is 13.4.
pub(super) fn version(number: u32) -> Option<(u32, u32)> {
    (50..1000).contains(&number).then_some((number / 10, number % 10))
}

/// One word of version, five offsets into the strings that follow: object file, tool, version, branch, options.
fn toolkit_info<'a>(data: &'a [u8], toolkit: &mut Toolkit<'a>) {
    let Some((head, strings)) = data.split_at_checked(24) else { return };
    let word = |index: usize| head.as_chunks::<4>().0.get(index).map_or(0, |w| u32::from_le_bytes(*w));
    let string = |index: usize| -> Cow<'a, str> {
        let tail = usize::try_from(word(index)).ok().and_then(|at| strings.get(at..)).unwrap_or(&[]);
        String::from_utf8_lossy(tail.split(|&b| b == 0).next().unwrap_or(&[]))
    };
    // Version 1 of the note has the toolkit's number here, later ones the note's own.
    toolkit.version = toolkit.version.or(version(word(0)));
    let options = match string(5) {
        Cow::Borrowed(options) => Cow::Borrowed(options.trim()),
        Cow::Owned(options) => Cow::Owned(options.trim().to_owned()),
    };
    toolkit.tools.push(Tool { name: string(2), version: string(3), branch: string(4), options });
}

/// Two halves, the note's version and the virtual SM; in version 2 a word with the toolkit's number.
fn cuda_info(data: &[u8], toolkit: &mut Toolkit<'_>) {
    let Some((&[v0, v1, sm0, sm1, n0, n1, n2, n3], _)) = data.split_first_chunk::<8>() else { return };
    toolkit.virtual_sm = toolkit.virtual_sm.or(Some(u16::from_le_bytes([sm0, sm1]).into()));
    if u16::from_le_bytes([v0, v1]) >= 2 {
        toolkit.version = toolkit.version.or(version(u32::from_le_bytes([n0, n1, n2, n3])));
    }
}
