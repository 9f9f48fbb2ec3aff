//! What an entry of a container is, for a list of all of them.

use memchr::{memchr, memchr2, memchr3, memmem};

use super::contents::{self, Choice};
use crate::container::{Entry, EntryKind, Place};
use crate::cubin::{ElfKind, FunctionKind, Image};
use crate::report::demangle;
use crate::report::entries::{EntryRow, Jit, MadeBy};

/// Reads an entry as far as the list needs it.
pub fn look(entry: &Entry, choice: &Choice, headers_only: bool) -> Option<EntryRow> {
    let mut row = EntryRow {
        path: entry.path.clone(),
        file: entry.file.path.clone(),
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
    const ENTRY: &[u8] = b".entry";
    let mut names = Vec::new();
    let mut rest = text;
    // Comments and strings are passed over: .entry means nothing there.
    while let Some(at) = memchr3(b'/', b'"', b'.', rest) {
        let here = rest.get(at..).unwrap_or_default();
        let passed = if here.starts_with(b"//") {
            memchr(b'\n', here).unwrap_or(here.len())
        } else if here.starts_with(b"/*") {
            // One that does not end is none.
            memmem::find(here.get(2..).unwrap_or_default(), b"*/").map_or(1, |end| end + 4)
        } else if here.starts_with(b"\"") {
            let end = memchr2(b'"', b'\n', here.get(1..).unwrap_or_default());
            end.filter(|end| here.get(end + 1) == Some(&b'"')).map_or(1, |end| end + 2)
        } else if let Some(behind) = here.strip_prefix(ENTRY) {
            let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
            let spaces = behind.iter().take_while(|byte| is_space(byte)).count();
            let name = behind.get(spaces..).unwrap_or_default();
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$%".contains(byte);
            let length = name.iter().take_while(|byte| is_name(byte)).count();
            let name = name.get(..length).unwrap_or_default();
            if spaces > 0 && length > 0 {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
            ENTRY.len()
        } else {
            1
        };
        rest = here.get(passed..).unwrap_or_default();
    }
    names
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
