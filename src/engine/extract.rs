//! Entries of containers as files: read, named, put in place.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tempfile::TempPath;

use super::contents::{self, Choice};
use super::list::{extension, ptx_kernels};
use crate::base::Arch;
use crate::container::{Entry, EntryKind};
use crate::cubin::{FunctionKind, Image};
use crate::files::{Scratch, keep_mode};
use crate::report::demangle;

/// Longest file name: every file system takes it.
const MAX_NAME: usize = 200;

/// What became of an entry.
pub enum Found {
    /// Its bytes wait in a file beside the one they will be.
    Kept {
        /// Its container path.
        path: String,
        /// Its architecture.
        arch: Option<Arch>,
        /// What it is.
        kind: EntryKind,
        /// The file.
        file: TempPath,
        /// How many bytes.
        bytes: u64,
    },
    /// It could not be read or written.
    Failed(String),
}

/// Reads an entry into a file that has no name yet, and closes it: any number of them may wait for their turn.
pub fn take(entry: &Entry, choice: &Choice, scratch: &Scratch) -> Option<Found> {
    if entry.obfuscated && !choice.is_everything() {
        return None;
    }
    let bytes = match entry.read() {
        Ok(bytes) => bytes,
        Err(error) => return Some(Found::Failed(error.to_string())),
    };
    let mut arch = entry.arch;
    let mut kernels = Vec::new();
    match entry.kind {
        EntryKind::Cubin => {
            // A cubin that cannot be read is still extracted, unless a choice depends on what it says.
            if let Ok(image) = Image::parse(&bytes) {
                arch = contents::arch(entry, Some(&image));
                let entries = image.functions.iter().filter(|function| function.kind == FunctionKind::Entry);
                kernels = entries.map(|function| function.name.to_string()).collect();
            }
        }
        EntryKind::Ptx if !choice.kernels.is_empty() => kernels = ptx_kernels(&bytes),
        _ => {}
    }
    let chosen = choice.kernels.is_empty()
        || kernels
            .iter()
            .any(|name| choice.kernels.matches([name.as_str()].into_iter().chain(demangle(name).as_deref())));
    if !chosen || !choice.wants_arch(arch) {
        return None;
    }
    let write = || -> io::Result<TempPath> {
        // With the mode that the umask gives.
        let mut file = tempfile::Builder::new().make_in(scratch.path(), |path| File::create_new(path))?;
        file.write_all(&bytes)?;
        Ok(file.into_temp_path())
    };
    Some(match write() {
        Ok(file) => Found::Kept { path: entry.path.clone(), arch, kind: entry.kind, file, bytes: bytes.len() as u64 },
        Err(error) => Found::Failed(format!("{}: cannot be written: {error}", entry.path)),
    })
}

/// Gives the file its name, whole or not at all.
pub fn keep(file: TempPath, path: &Path, force: bool) -> Result<()> {
    if force {
        let kept = match fs::metadata(path) {
            Ok(before) => keep_mode(&file, &before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        kept.with_context(|| format!("cannot write {}", path.display()))?;
        file.persist(path).map_err(|error| error.error).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(());
    }
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            anyhow::bail!("{} exists: --force replaces it", path.display())
        }
        Err(error) => Err(error.error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// What of an input's path is left out of file names: the folders it is in.
pub fn prefix(path: &Path) -> Option<String> {
    let folder = path.parent()?.display().to_string();
    if folder.is_empty() { None } else { Some(format!("{}/", folder.trim_end_matches('/'))) }
}

/// A container path as a plain file name: `x.whl/lib/libfoo.so/.nv_fatbin[3]` is `x.whl_lib_libfoo.so.nv_fatbin.3.sm_90a.cubin`.
pub fn file_name(path: &str, prefixes: &[String], arch: Option<Arch>, kind: EntryKind) -> String {
    let local = prefixes.iter().filter_map(|prefix| path.strip_prefix(prefix.as_str())).min_by_key(|rest| rest.len());
    let suffix = extension(kind);
    let mut stem = String::new();
    let local = local.unwrap_or(path).replace("/.nv_fatbin[", ".nv_fatbin[");
    for c in local.strip_suffix(&format!(".{suffix}")).unwrap_or(&local).chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' | '+' => stem.push(c),
            '[' => stem.push('.'),
            ']' => {}
            _ => stem.push('_'),
        }
    }
    let stem = stem.trim_start_matches(['.', '-', '_']);
    let stem = if stem.is_empty() { "entry" } else { stem };
    let arch = arch.map(|arch| format!(".{arch}")).filter(|arch| !stem.ends_with(arch.as_str())).unwrap_or_default();
    let tail = format!("{arch}.{suffix}");
    let room = MAX_NAME - tail.len();
    if stem.len() <= room {
        return format!("{stem}{tail}");
    }
    // The end of a path says most; a digest keeps names apart.
    let digest: String = Sha256::digest(path.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-{}{tail}", &stem[stem.len() - (room - 13)..])
}

/// Two entries never share a name, not even where case does not count.
pub fn unique(name: String, names: &mut HashSet<String>) -> String {
    if names.insert(name.to_ascii_lowercase()) {
        return name;
    }
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((&name, ""));
    let free = (2_u64..).map(|number| format!("{stem}-{number}.{suffix}"));
    free.into_iter().find(|name| names.insert(name.to_ascii_lowercase())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain() {
        let arch = "sm_90a".parse().ok();
        let name = |path: &str| file_name(path, &["in/".to_owned()], arch, EntryKind::Cubin);
        assert_eq!(name("in/x.whl/lib/libfoo.so/.nv_fatbin[3]"), "x.whl_lib_libfoo.so.nv_fatbin.3.sm_90a.cubin");
        assert_eq!(name("in/k.cubin"), "k.sm_90a.cubin");
        assert_eq!(name("../../etc/passwd"), "etc_passwd.sm_90a.cubin");
        assert_eq!(name("/a b\n\u{202e}c"), "a_b__c.sm_90a.cubin");
        let long = name(&"x/".repeat(500));
        assert!(long.len() <= MAX_NAME && long.ends_with(".sm_90a.cubin"), "{long}");
        assert_ne!(long, name(&"x/".repeat(501)));
    }

    #[test]
    fn names_stay_apart() {
        let mut names = HashSet::new();
        let given: Vec<String> = ["a.ptx", "A.ptx", "a.ptx"].map(|name| unique(name.to_owned(), &mut names)).into();
        assert_eq!(given, ["a.ptx", "A-2.ptx", "a-3.ptx"]);
    }
}
