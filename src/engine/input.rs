//! Reading inputs: what a file is, is told by its content.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

use super::foreign::foreign;
use super::source;
use crate::base::Limits;
use crate::container::{self, JitLaunch, JitMetadata, missing, stream};
use crate::report::RecordedLaunch;

/// An input, read.
pub struct Input {
    /// As the user named it.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The PTX that belongs to a cubin, where something beside it is known to be that.
    pub companion: Option<String>,
    /// The launch that a file beside it records.
    pub recorded_launch: Option<RecordedLaunch>,
}

impl Input {
    /// Bytes that nothing lies beside.
    pub fn alone(name: &str, bytes: Vec<u8>) -> Input {
        Input { name: name.to_owned(), bytes, companion: None, recorded_launch: None }
    }

    /// Tells PTX from a cubin, and says what else it is when it is neither.
    pub fn kind(&self) -> Result<Kind> {
        classify(&self.bytes)
    }

    /// The PTX as text; bytes that are no UTF-8 are replaced, the lines stay.
    pub fn text(&self) -> Cow<'_, str> {
        // Checking a whole text at once is several times as fast as looking for what to replace.
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(&self.bytes),
        }
    }
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text, as far as the first bytes tell; ptxas is the judge.
    Ptx,
    /// An ELF file for a GPU.
    Cubin,
}

/// Standard input's name on the command line.
const STDIN: &str = "-";
/// Standard input's name in what is written.
pub const STDIN_NAME: &str = "<stdin>";
/// ELF machine number of NVIDIA GPUs.
const EM_CUDA: u16 = 190;

/// All of standard input, read once however often it is asked for.
pub fn stdin(limits: &Limits) -> Result<&'static [u8]> {
    static BYTES: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let read = || stream::read_most(io::stdin().lock(), limits.whole()).map_err(|error| error.to_string());
    match BYTES.get_or_init(read) {
        Ok(bytes) => Ok(bytes),
        Err(error) => bail!("cannot read standard input: {error}"),
    }
}

/// Whether an input holds GPU code inside something else: a library, an archive, a wheel, a folder.
pub fn is_container(path: &Path, limits: &Limits) -> Result<bool> {
    if path.as_os_str() == STDIN {
        return Ok(container::is_container(stdin(limits)?));
    }
    // What cannot be opened is said later, with what was asked of it.
    Ok(container::is_container_at(path).unwrap_or(false))
}

/// Reads a file, or standard input for `-`.
pub fn read(path: &Path, limits: &Limits) -> Result<Input> {
    if path.as_os_str() == STDIN {
        return Ok(Input::alone(STDIN_NAME, stdin(limits)?.to_vec()));
    }
    let name = path.display().to_string();
    let metadata =
        std::fs::metadata(path).map_err(|error| anyhow!("cannot open {name}: {}", missing::why(path, &error)))?;
    if metadata.is_dir() {
        bail!("{name} is a folder: expected a PTX file or a cubin");
    }
    let most = limits.whole();
    let bytes = match metadata.is_file() {
        true if metadata.len() > most => Err(stream::too_much(most)),
        true => {
            let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
            stream::read_most(file, most)
        }
        false => stream::read(path, most),
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    let beside = container::jit_beside(path).with_context(|| format!("cannot read what lies beside {name}"))?;
    // Any JSON may lie beside a file: without a launch in it, it is no compiler's cache.
    let recorded_launch = beside.as_ref().and_then(|beside| recorded_launch(path, beside));
    let companion = recorded_launch.as_ref().and_then(|_| companion(path, beside.as_ref()?));
    Ok(Input { name, bytes, companion, recorded_launch })
}

/// The launch that the file beside an input records.
pub fn recorded_launch(path: &Path, beside: &JitMetadata) -> Option<RecordedLaunch> {
    let JitLaunch { threads, smem_dynamic_bytes } = beside.launch()?;
    let file = path.with_extension("json").file_name()?.to_string_lossy().into_owned();
    Some(RecordedLaunch { file, threads, smem_dynamic_bytes })
}

/// The PTX that a compiler's cache keeps beside a cubin.
pub fn companion(path: &Path, beside: &JitMetadata) -> Option<String> {
    let other = path.with_file_name(beside.companion.as_ref()?);
    let is_ptx = other.extension().is_some_and(|extension| extension == "ptx");
    if is_ptx { source::read_beside(&other) } else { None }
}

pub(super) fn classify(bytes: &[u8]) -> Result<Kind> {
    match bytes {
        [] => bail!("it is empty: expected PTX text or a cubin"),
        [0x7f, b'E', b'L', b'F', ..] => match bytes.get(18..20) {
            Some(&[low, high]) if u16::from_le_bytes([low, high]) == EM_CUDA => Ok(Kind::Cubin),
            Some(&[low, high]) => bail!(
                "it is an ELF file for machine {}, not for an NVIDIA GPU ({EM_CUDA}): expected PTX text or a cubin; \
                 `ptxinspect extract` takes the GPU code out of a host file",
                u16::from_le_bytes([low, high])
            ),
            _ => bail!("it is an ELF file cut off inside its header: {} bytes", bytes.len()),
        },
        [0x50, 0xed, 0x55, 0xba, ..] => {
            bail!("it is a fatbin: expected PTX text or a cubin; `ptxinspect extract` takes the GPU code out")
        }
        _ => match foreign(bytes) {
            Some(what) => bail!("{what}"),
            None => Ok(Kind::Ptx),
        },
    }
}

/// Inputs as given, each once: the same file named twice is one input.
pub fn unique(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = std::collections::BTreeSet::new();
    paths.iter().filter(|path| seen.insert(path.as_path())).cloned().collect()
}

/// The same, with the files of a folder of PTX alone in its place.
pub fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let all: Vec<PathBuf> =
        paths.iter().flat_map(|path| ptx_alone(path).unwrap_or_else(|| vec![path.clone()])).collect();
    unique(&all)
}

/// Files that a folder is looked through for, at most; one with more is read as a whole.
const MOST_FILES: usize = 100_000;

/// The PTX files of a folder that holds no other code, by name.
fn ptx_alone(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    let mut left = MOST_FILES;
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).ok()? {
            let entry = entry.ok()?;
            left = left.checked_sub(1)?;
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if kind.is_dir() => open.push(path),
                Some("ptx") if kind.is_file() => found.push(path),
                Some("cubin" | "fatbin" | "so" | "a" | "o" | "whl" | "zip" | "tar" | "gz" | "dll" | "exe") => {
                    return None;
                }
                _ => {}
            }
        }
    }
    found.sort_unstable();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        assert_eq!(classify(b".version 8.0").unwrap(), Kind::Ptx);
        let mut elf = b"\x7fELF".to_vec();
        elf.resize(64, 0);
        elf[18] = 190;
        assert_eq!(classify(&elf).unwrap(), Kind::Cubin);
        elf[18] = 62;
        assert!(classify(&elf).unwrap_err().to_string().contains("machine 62"));
        assert!(classify(b"").is_err());
        assert!(classify(b"\x7fELF").is_err());
        assert!(classify(b"\x50\xed\x55\xba").is_err());
    }
}
