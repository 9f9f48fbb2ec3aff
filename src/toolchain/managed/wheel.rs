//! What pip or uv brought, and the few files of it that are kept.
//!
//! A wheel is a zip file whose `RECORD` has the SHA-256 of every other file. Files are chosen by name and written under
//! names of our own, so that nothing in a wheel decides where anything goes.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::ManifestFile;
use crate::toolchain::{ToolchainError, Version};

/// Where ptxas is in a toolchain's folder.
pub(super) const PTXAS: &str = if cfg!(windows) { "bin/ptxas.exe" } else { "bin/ptxas" };
const NVDISASM: &str = if cfg!(windows) { "bin/nvdisasm.exe" } else { "bin/nvdisasm" };
const LICENSE: &str = "LICENSE.txt";
/// ptxas 13.4 has 52 MB; a file ten times as large is no ptxas.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// RECORD of 13.4 has 1,398 bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// A package as it came.
#[derive(Debug)]
pub(super) enum Package {
    /// A wheel that pip downloaded, and its SHA-256.
    Wheel { name: String, file: PathBuf, sha256: String },
    /// A folder that uv unpacked a wheel into; the name is that of its `.dist-info`. `pinned` where uv checked the wheel against
    /// the digests it was given.
    Tree { name: String, folder: PathBuf, pinned: bool },
}

impl Package {
    /// The one wheel in a folder.
    pub(super) fn wheel_in(folder: &Path) -> io::Result<Option<Package>> {
        let Some((name, file)) = entries(folder).find(|(name, _)| name.ends_with(".whl")) else { return Ok(None) };
        let sha256 = hexadecimal(&digest_of(File::open(&file)?)?);
        Ok(Some(Package::Wheel { name, file, sha256 }))
    }

    /// The one unpacked wheel in a folder.
    pub(super) fn tree_in(folder: &Path, pinned: bool) -> Option<Package> {
        let (name, _) = entries(folder).find(|(name, _)| name.ends_with(".dist-info"))?;
        Some(Package::Tree { name, folder: folder.to_owned(), pinned })
    }

    /// The version it says it is: the second part of `nvidia_cuda_nvcc-13.4.92-py3-none-any.whl` and of `….dist-info`.
    pub(super) fn version(&self) -> Option<Version> {
        let name = self.name().trim_end_matches(".dist-info");
        name.split('-').nth(1)?.parse().ok()
    }

    /// What the package is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Package::Wheel { name, .. } | Package::Tree { name, .. } => name,
        }
    }

    fn broken(&self, problem: impl ToString) -> ToolchainError {
        ToolchainError::BrokenWheel { wheel: self.name().to_owned(), problem: problem.to_string() }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
}

/// Either kind of package, opened.
enum Source<'a> {
    Zip(Box<ZipArchive<File>>),
    Folder(&'a Path),
}

impl Source<'_> {
    fn names(&self) -> Vec<String> {
        match self {
            Source::Zip(zip) => zip.file_names().flatten().map(Cow::into_owned).collect(),
            Source::Folder(folder) => {
                let mut names = Vec::new();
                collect_names(folder, "", &mut names);
                names
            }
        }
    }

    fn open(&mut self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Source::Zip(zip) => Ok(Box::new(zip.by_name(name).map_err(io::Error::other)?)),
            Source::Folder(folder) => Ok(Box::new(File::open(folder.join(name))?)),
        }
    }
}

fn collect_names(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    for (name, path) in entries(folder) {
        // A link is neither: it is not followed.
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => collect_names(&path, &format!("{prefix}{name}/"), names),
            Ok(metadata) if metadata.is_file() => names.push(format!("{prefix}{name}")),
            _ => {}
        }
    }
}

/// Writes ptxas, and nvdisasm and the licence where there are any, to `to`; every byte is checked against `RECORD`.
pub(super) fn unpack(package: &Package, to: &Path) -> Result<Vec<ManifestFile>, ToolchainError> {
    let mut source = match package {
        Package::Wheel { file, .. } => {
            let file = File::open(file).map_err(|error| package.broken(error))?;
            Source::Zip(Box::new(ZipArchive::new(file).map_err(|error| package.broken(error))?))
        }
        Package::Tree { folder, .. } => Source::Folder(folder),
    };
    let names = source.names();
    let record_name = names.iter().find(|name| name.ends_with(".dist-info/RECORD") && name.matches('/').count() == 1);
    let record_name = record_name.ok_or_else(|| package.broken("it has no RECORD"))?;
    let mut record = String::new();
    let reader = source.open(record_name).map_err(|error| package.broken(error))?;
    reader
        .take(MAX_RECORD_BYTES)
        .read_to_string(&mut record)
        .map_err(|error| package.broken(format!("RECORD: {error}")))?;

    let tool = |kept: &'static str| {
        let file = kept.rsplit('/').next().unwrap_or(kept);
        let found = names.iter().filter(|name| name.starts_with("nvidia/") && name.rsplit('/').next() == Some(file));
        found.min_by_key(|name| name.len()).map(|name| (kept, name.as_str()))
    };
    let license = names.iter().find(|name| {
        name.contains(".dist-info/") && name.rsplit('/').next().is_some_and(|n| n.eq_ignore_ascii_case("license.txt"))
    });
    let ptxas = tool(PTXAS).ok_or_else(|| package.broken("there is no ptxas in it"))?;
    let kept = [Some(ptxas), tool(NVDISASM), license.map(|name| (LICENSE, name.as_str()))];

    let mut files = Vec::new();
    for (kept, name) in kept.into_iter().flatten() {
        let expected =
            recorded_hash(&record, name).ok_or_else(|| package.broken(format!("RECORD has no hash of {name}")))?;
        let reader = source.open(name).map_err(|error| package.broken(format!("{name}: {error}")))?;
        let path = to.join(kept);
        let (digest, bytes) = copy(reader, &path).map_err(|error| match error {
            Copy::Read(error) => package.broken(format!("{name}: {error}")),
            Copy::Write(error) => ToolchainError::io("write", &path, error),
        })?;
        if base64(&digest) != expected {
            let found = base64(&digest);
            return Err(package.broken(format!("{name}: expected SHA-256 {expected}, found {found}")));
        }
        if kept.starts_with("bin/") {
            make_executable(&path).map_err(|error| ToolchainError::io("make executable", &path, error))?;
        }
        files.push(ManifestFile { path: kept.to_owned(), bytes, sha256: hexadecimal(&digest) });
    }
    Ok(files)
}

enum Copy {
    Read(io::Error),
    Write(io::Error),
}

fn digest_of(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().to_vec()),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Copies at most [`MAX_FILE_BYTES`] and says what they were.
fn copy(mut from: impl Read, to: &Path) -> Result<(Vec<u8>, u64), Copy> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Copy::Write)?;
    }
    let mut file = File::create(to).map_err(Copy::Write)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0u64;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Copy::Read(error)),
        };
        bytes += read as u64;
        if bytes > MAX_FILE_BYTES {
            return Err(Copy::Read(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes"))));
        }
        hasher.update(&buffer[..read]);
        file.write_all(&buffer[..read]).map_err(Copy::Write)?;
    }
    // A toolchain that is renamed into place must not turn out empty after a power failure.
    file.sync_all().map_err(Copy::Write)?;
    Ok((hasher.finalize().to_vec(), bytes))
}

/// `nvidia/cu13/bin/ptxas,sha256=Xb3…,51967496`: what follows `sha256=`.
fn recorded_hash<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().find_map(|line| {
        let mut fields = line.rsplitn(3, ',');
        let (_size, hash, path) = (fields.next()?, fields.next()?, fields.next()?);
        (path.trim_matches('"') == name).then(|| hash.strip_prefix("sha256=")).flatten()
    })
}

/// As RECORD writes hashes: URL-safe, without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0u32, |word, (index, &byte)| word | u32::from(byte) << (16 - 8 * index));
        for digit in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(word >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn make_executable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_as_record_writes_them() {
        // RFC 4648, section 10, without padding.
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
        let record = "a/b,c.txt,sha256=first,1\n\"a/b\",sha256=second,2\nx.dist-info/RECORD,,\n";
        assert_eq!(recorded_hash(record, "a/b"), Some("second"));
        assert_eq!(recorded_hash(record, "a/b,c.txt"), Some("first"));
        assert_eq!(recorded_hash(record, "x.dist-info/RECORD"), None);
    }
}
