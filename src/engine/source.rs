//! Finding the front end's files that line tables name.
//!
//! A line table comes with the input and may name any file of this machine: what is read and shown lies under `--source-root`, or else
//! under the working folder, links followed. Everything else is left out, and the output says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::bail;

use crate::container::missing;
use crate::report::annotation::{Annotation, Missing};
use crate::report::{PtxText, Unit};

/// A file larger than this is no source.
const LARGEST: u64 = 32 << 20;
/// How much source is read in one run.
const IN_ALL: u64 = 256 << 20;
/// What source files are called. A line table may name any file; only source is read and shown.
const EXTENSIONS: &[&str] = &[
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "h", "hh", "hpp", "hxx", "inl", "jl", "ll", "mlir", "mojo",
    "ptx", "py", "rs", "ttir", "ttgir",
];

/// Where to look.
pub struct Finder {
    /// The folder that nothing is read outside of, free of links; none where it cannot be opened.
    within: Option<PathBuf>,
    /// Whether files are sought by the ends of their paths: the folder was given.
    by_end: bool,
    /// How much more is read.
    left: u64,
    /// Where files were found, by the names that line tables have for them.
    found: BTreeMap<String, PathBuf>,
}

impl Finder {
    /// Looks under a root by the longest end of a path, or else where the line table says, if that is under the working folder.
    ///
    /// # Errors
    /// A root that is no folder: nothing would be found in it.
    pub fn new(root: Option<&Path>) -> anyhow::Result<Self> {
        let Some(root) = root else { return Ok(Finder::under(Path::new("."), false)) };
        let why = match std::fs::metadata(root) {
            Ok(found) if found.is_dir() => return Ok(Finder::under(root, true)),
            Ok(_) => "it is a file; expected the folder that the sources are in".to_owned(),
            Err(error) => missing::why_no_folder(root, &error),
        };
        bail!("--source-root {}: {why}", root.display())
    }

    fn under(folder: &Path, by_end: bool) -> Self {
        Finder { within: folder.canonicalize().ok(), by_end, left: IN_ALL, found: BTreeMap::new() }
    }

    /// Reads the files that an annotation names, where they are found.
    pub fn fill(&mut self, annotation: &mut Annotation) {
        annotation.sources = annotation.files.iter().map(|file| self.read(file)).collect();
    }

    /// Reads the files that the source lines of a unit name, where they are found.
    pub fn quote(&mut self, unit: &mut Unit) {
        let inlined = unit.kernels.iter().flat_map(|kernel| &kernel.inlined_lines).flat_map(|inlined| &inlined.lines);
        let lines = unit.kernels.iter().flat_map(|kernel| &kernel.source_lines).chain(inlined);
        let names = lines.map(|facts| facts.file.as_str());
        let names: BTreeSet<&str> = names.collect();
        unit.sources = names.into_iter().filter_map(|name| Some((name.to_owned(), self.read(name).ok()?))).collect();
    }

    /// Where files were found, by the names that line tables have for them.
    pub fn found(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.found.iter().map(|(name, path)| (name.as_str(), path.as_path()))
    }

    /// The text of a file, or why there is none.
    fn read(&mut self, name: &str) -> Result<PtxText, Missing> {
        let path = Path::new(name);
        if !is_source(path) {
            return Err(Missing::NotSource);
        }
        let within = self.within.as_deref().ok_or(Missing::NotFound)?;
        let places = match self.by_end {
            true => ends(path).into_iter().map(|end| within.join(end)).collect(),
            false => vec![within.join(path)],
        };
        let mut reason = if self.by_end || lies_under(path, within) { Missing::NotFound } else { Missing::Outside };
        for place in places {
            // Where links and `..` lead, there a file is.
            let Ok(place) = place.canonicalize() else { continue };
            match open(&place, within) {
                Ok(file) => {
                    let text = self.take(file)?;
                    self.found.insert(name.to_owned(), place);
                    return Ok(text);
                }
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// What a file holds, as far as there is room.
    fn take(&mut self, file: File) -> Result<PtxText, Missing> {
        let most = LARGEST.min(self.left);
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|_| Missing::Unreadable)?;
        if bytes.len() as u64 > most {
            return Err(Missing::TooLarge);
        }
        self.left -= bytes.len() as u64;
        Ok(PtxText::new(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

/// Opens a regular file inside a folder; the path has no links.
fn open(path: &Path, within: &Path) -> Result<File, Missing> {
    if !path.starts_with(within) {
        return Err(Missing::Outside);
    }
    // What a link is called says nothing of what it leads to.
    if !is_source(path) {
        return Err(Missing::NotSource);
    }
    let file = open_regular(path).map_err(|_| Missing::Unreadable)?;
    file.ok_or(Missing::NoFile)
}

/// A text that lies beside an input, if it is a file of its own: where a link leads, nobody said.
pub fn read_beside(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(path).ok()??.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    let text =
        |bytes| String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    (bytes.len() as u64 <= LARGEST).then(|| text(bytes))
}

/// A file that is neither a folder, a link, a pipe nor a device. Between the look and the opening a path may become another: neither a link
/// is followed then nor a pipe waited for.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    }
    let file = options.open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Whether a path, taken as it is spelt, names a place under a folder.
fn lies_under(path: &Path, folder: &Path) -> bool {
    let mut at = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => drop(at.pop()),
            Component::CurDir => {}
            other => at.push(other),
        }
    }
    at.starts_with(folder)
}

/// The ends of a path, longest first, none of which leaves the folder it is put under.
fn ends(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => {
                parts.pop();
            }
            _ => {}
        }
    }
    (0..parts.len()).filter_map(|from| Some(parts.get(from..)?.iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(finder: &mut Finder, name: &str) -> Result<String, Missing> {
        finder.read(name).map(|text| text.text().to_owned())
    }

    #[test]
    fn the_longest_end_of_a_path_is_found_under_the_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        std::fs::write(folder.path().join("kernels/gemm.cu"), "deep\n").unwrap();
        std::fs::write(folder.path().join("gemm.cu"), "flat\n").unwrap();
        let mut find = Finder::new(Some(folder.path())).unwrap();
        assert_eq!(text(&mut find, "/elsewhere/kernels/gemm.cu").unwrap(), "deep\n");
        assert_eq!(text(&mut find, "/other/gemm.cu").unwrap(), "flat\n");
        assert_eq!(text(&mut find, "/other/absent.cu"), Err(Missing::NotFound));
    }

    #[test]
    fn nothing_outside_the_root_and_nothing_but_source() {
        assert_eq!(ends(Path::new("../../a/b.cu")), [PathBuf::from("a/b.cu"), PathBuf::from("b.cu")]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("passwd"), "x").unwrap();
        assert_eq!(text(&mut Finder::new(Some(folder.path())).unwrap(), "passwd"), Err(Missing::NotSource));
    }

    #[test]
    fn a_root_is_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("k.py"), "x").unwrap();
        let told = |name: &str| Finder::new(Some(&folder.path().join(name))).err().map(|error| error.to_string());
        assert!(told("gone").unwrap().ends_with("gone: there is no such folder"));
        assert!(told("k.py").unwrap().contains("it is a file"));
        assert_eq!(told("."), None);
    }

    #[test]
    fn without_a_root_only_the_working_folder() {
        let outer = tempfile::tempdir().unwrap();
        let outer = outer.path().canonicalize().unwrap();
        let inner = outer.join("work");
        std::fs::create_dir_all(inner.join("below")).unwrap();
        std::fs::write(outer.join("secret.py"), "secret").unwrap();
        std::fs::write(inner.join("below/own.py"), "own").unwrap();
        let mut find = Finder::under(&inner, false);
        assert_eq!(text(&mut find, "below/own.py").unwrap(), "own");
        assert_eq!(text(&mut find, "below/../below/own.py").unwrap(), "own");
        assert_eq!(text(&mut find, inner.join("below/own.py").to_str().unwrap()).unwrap(), "own");
        for outside in ["../secret.py", "below/../../secret.py", outer.join("secret.py").to_str().unwrap()] {
            assert_eq!(text(&mut find, outside), Err(Missing::Outside), "{outside}");
        }
        // Not even whether a file is there is told.
        assert_eq!(text(&mut find, "../absent.py"), Err(Missing::Outside));
        assert_eq!(text(&mut find, "absent.py"), Err(Missing::NotFound));
        find.left = 2;
        assert_eq!(text(&mut find, "below/own.py"), Err(Missing::TooLarge));
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere_else() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("work");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(outer.path().join("secret.py"), "secret").unwrap();
        std::fs::write(inner.join("shadow"), "secret").unwrap();
        std::fs::write(inner.join("real.py"), "real").unwrap();
        symlink("../secret.py", inner.join("x.py")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        symlink("shadow", inner.join("y.py")).unwrap();
        symlink("real.py", inner.join("z.py")).unwrap();
        symlink("/dev/zero", inner.join("zero.py")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, inner.join("pipe.py"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for by_end in [false, true] {
            let mut find = Finder::under(&inner, by_end);
            assert_eq!(text(&mut find, "x.py"), Err(Missing::Outside));
            assert_eq!(text(&mut find, "y.py"), Err(Missing::NotSource));
            assert_eq!(text(&mut find, "z.py").unwrap(), "real");
            assert_eq!(text(&mut find, "zero.py"), Err(Missing::Outside));
            assert_eq!(text(&mut find, "pipe.py"), Err(Missing::NoFile));
        }
        assert_eq!(text(&mut Finder::under(&inner, false), "up/secret.py"), Err(Missing::Outside));
        std::fs::create_dir(inner.join("folder.py")).unwrap();
        assert_eq!(text(&mut Finder::under(&inner, false), "folder.py"), Err(Missing::NoFile));
    }
}
