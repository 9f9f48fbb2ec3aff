//! Where the bytes of libraries are: every entry is read once, in parallel, and counted in order.

use anyhow::Result;

use super::contents::{self, Choice, Choose};
use super::list::ptx_kernels;
use super::progress::Progress;
use crate::container::{Compression, ContainerError, Entry, EntryKind, Place};
use crate::cubin::Image;
use crate::report::demangle;
use crate::report::size::{By, Content, EntrySize, Size, Sizes, cubin_size};

/// An entry, and what was wrong with it.
type Looked = (EntrySize, Option<String>, String);

/// Counts everything that was chosen.
pub fn size(choose: &Choose, by: By, progress: &dyn Progress) -> Result<Size> {
    let choice = Choice::new(choose)?;
    let mut sizes = Sizes::default();
    let take = |result: Result<Looked, ContainerError>| {
        match result {
            Ok((entry, problem, path)) => {
                if let Some(problem) = problem {
                    sizes.fail(path, problem);
                }
                sizes.add(entry);
            }
            Err(error) => sizes.fail(error.path.clone(), error.problem.to_string()),
        }
        Ok(())
    };
    choice.visit(|entry| look(entry, &choice), take, progress)?;
    Ok(sizes.finish(by, choice.is_everything()))
}

fn look(entry: &Entry, choice: &Choice) -> Option<Looked> {
    let mut arch = entry.arch;
    let read = match entry.kind {
        EntryKind::Cubin => {
            let read = entry.with_bytes(|bytes| {
                let image = Image::parse(bytes).map_err(|error| error.to_string())?;
                arch = contents::arch(entry, Some(&image));
                Ok(Content::Cubin(cubin_size(&image, arch.unwrap_or(image.arch), &entry.path)))
            });
            read.unwrap_or_else(|error| Err(error.problem.to_string()))
        }
        EntryKind::Ptx if !entry.obfuscated => {
            let read = entry.with_bytes(|bytes| Content::Ptx(ptx_kernels(bytes)));
            read.map_err(|error| error.problem.to_string())
        }
        EntryKind::Ptx | EntryKind::LtoIr | EntryKind::TileIr | EntryKind::Other(_) => Ok(Content::Opaque),
    };
    if !choice.wants_arch(arch) {
        return None;
    }
    let (mut content, problem) = match read {
        Ok(content) => (content, None),
        Err(problem) => (Content::Opaque, Some(problem)),
    };
    // A file by itself is as large as it is, however a zip keeps it.
    let in_file = if entry.place == Place::Bare && entry.fatbin.is_none() { entry.bytes } else { entry.stored_bytes };
    let (mut loaded_bytes, mut file_bytes) = (entry.bytes, in_file);
    if !choice.kernels.is_empty() {
        (loaded_bytes, file_bytes) = keep_kernels(&mut content, choice, (loaded_bytes, file_bytes))?;
    }
    let fatbin = entry.fatbin.map(|start| {
        let base = entry.path.rsplit_once('[').map_or(&*entry.path, |(base, _)| base);
        format!("{base}@{start:x}")
    });
    let size = EntrySize {
        file: (entry.file.path.clone(), entry.file.bytes, entry.file.packed_bytes),
        fatbin,
        arch,
        loaded_bytes,
        file_bytes,
        is_compressed: entry.compression != Compression::Stored,
        is_for_linking: entry.place == Place::Relocatable,
        content,
    };
    Some((size, problem, entry.path.clone()))
}

/// Leaves in a cubin the functions that were asked for, and their share of its bytes; none where there are none.
fn keep_kernels(content: &mut Content, choice: &Choice, (loaded, file): (u64, u64)) -> Option<(u64, u64)> {
    let Content::Cubin(cubin) = content else { return None };
    let wanted = |name: &str| choice.kernels.matches([name].into_iter().chain(demangle(name).as_deref()));
    cubin.functions.retain(|function| wanted(&function.name));
    cubin.parts.clear();
    // What else is in the cubin stays where it is.
    cubin.has_data = true;
    let code: u64 = cubin.functions.iter().map(|function| function.code_bytes).sum();
    let share = u128::from(file) * u128::from(code) / u128::from(loaded.max(1));
    (!cubin.functions.is_empty()).then_some((code, u64::try_from(share).unwrap_or(file)))
}
