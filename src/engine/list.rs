//! What an entry of a container is, for a list of all of them.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::contents::{self, Choice};
use crate::container::{Entry, EntryKind, Place};
use crate::cubin::{ElfKind, FunctionKind, Image};
use crate::report::demangle;
use crate::report::entries::{EntryRow, Jit, MadeBy};

/// Reads an entry as far as the list needs it.
pub fn look(entry: &Entry, choice: &Choice, headers_only: bool) -> Option<EntryRow> {
    let mut row = EntryRow {
        path: entry.path.clone(),
        file: entry.file.to_string(),
        kind: entry.kind.name().into_owned(),
        arch: None,
        place: match entry.place {
            Place::Bare => "file",
            Place::Executable => "executable",
            Place::Relocatable => "relocatable",
            Place::Embedded => "embedded",
        },
        compression: entry.compression.name(),
        stored_bytes: entry.stored_bytes,
        bytes: entry.bytes,
        kernels: None,
        device_functions: None,
        relocatable: None,
        made_by: None,
        identifier: entry.identifier.clone(),
        options: entry.options.clone(),
        version: entry.version.map(|(major, minor)| format!("{major}.{minor}")),
        debug: entry.debug,
        obfuscated: entry.obfuscated,
        jit: entry.jit.as_ref().map(|jit| Jit {
            kernel: jit.kernel.clone(),
            companion: jit.companion.clone(),
            options: jit.options.clone(),
        }),
        error: None,
    };
    let mut arch = entry.arch;
    let readable = !headers_only && !entry.obfuscated;
    if readable && matches!(entry.kind, EntryKind::Cubin | EntryKind::Ptx) {
        match entry.read() {
            Err(error) => row.error = Some(error.to_string()),
            Ok(bytes) if entry.kind == EntryKind::Ptx => row.kernels = Some(ptx_kernels(&bytes)),
            Ok(bytes) => match Image::parse(&bytes) {
                Err(error) => row.error = Some(format!("{}: {error}", entry.path)),
                Ok(image) => {
                    arch = contents::arch(entry, Some(&image));
                    describe(&mut row, &image);
                }
            },
        }
    }
    row.arch = arch.map(|arch| arch.to_string());
    if !choice.wants_arch(arch) {
        return None;
    }
    // What could not be read may be what was asked for: it is shown.
    let kernels = row.kernels.as_deref().unwrap_or(&[]);
    let wanted = choice.kernels.is_empty()
        || row.error.is_some()
        || kernels
            .iter()
            .any(|name| choice.kernels.matches([name.as_str()].into_iter().chain(demangle(name).as_deref())));
    wanted.then_some(row)
}

/// What a cubin says of itself.
fn describe(row: &mut EntryRow, image: &Image<'_>) {
    let entries = image.functions.iter().filter(|function| function.kind == FunctionKind::Entry);
    let kernels: Vec<String> = entries.map(|function| function.name.to_string()).collect();
    row.device_functions = Some((image.functions.len() - kernels.len()) as u64);
    row.kernels = Some(kernels);
    row.relocatable = Some(image.kind == ElfKind::Relocatable);
    // The last tool is the one that wrote the file: nvlink after ptxas.
    row.made_by = match image.toolkit.tools.last() {
        Some(tool) => Some(MadeBy {
            tool: tool.name.to_string(),
            version: tool.release().map(str::to_owned),
            options: Some(tool.options.split_ascii_whitespace().collect::<Vec<_>>().join(" ")),
        }),
        // Files without notes have the toolkit's number alone.
        None => image.toolkit.version.map(|(major, minor)| MadeBy {
            tool: "ptxas".to_owned(),
            version: Some(format!("{major}.{minor}")),
            options: None,
        }),
    };
}

/// Names after `.entry`, as far as the text alone tells.
pub fn ptx_kernels(text: &[u8]) -> Vec<String> {
    // The alternatives before the name swallow comments and strings, where .entry means nothing.
    static ENTRY: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?s-u)//[^\n]*|/\*.*?\*/|"[^"\n]*"|\.entry\s+([A-Za-z0-9_$%]+)"#).ok());
    let Some(entry) = ENTRY.as_ref() else { return Vec::new() };
    entry
        .captures_iter(text)
        .filter_map(|found| Some(String::from_utf8_lossy(found.get(1)?.as_bytes()).into_owned()))
        .collect()
}

/// What a file of this kind is called by its end.
pub fn extension(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Ptx => "ptx",
        EntryKind::Cubin => "cubin",
        EntryKind::LtoIr => "ltoir",
        EntryKind::TileIr => "tileir",
        EntryKind::Other(_) => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_ptx_text() {
        let text = b".version 8.0\n// .entry no(\n/* .entry\n no */ .visible .entry yes(\n.entry\t$too%1 ()\n.file 1 \".entry no\"";
        assert_eq!(ptx_kernels(text), ["yes", "$too%1"]);
    }

    #[test]
    fn names_are_spelt() {
        assert_eq!(crate::container::Compression::Zstd.name(), "zstd");
        assert_eq!(extension(EntryKind::Other(64)), "bin");
    }
}
