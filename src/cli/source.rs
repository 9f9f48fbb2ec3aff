//! Finding the front end's files that line tables name.

use std::path::{Component, Path, PathBuf};

use crate::report::PtxText;
use crate::report::annotation::Annotation;

/// A file larger than this is no source.
const LARGEST: u64 = 32 << 20;
/// What source files are called. A line table may name any file; only source is read and shown.
const EXTENSIONS: &[&str] = &[
    "c", "cc", "cpp", "cu", "cuh", "cxx", "f", "f90", "h", "hh", "hpp", "hxx", "inl", "jl", "ll", "mlir", "mojo",
    "ptx", "py", "rs", "ttir", "ttgir",
];

/// Where to look.
pub struct Finder<'a> {
    root: Option<&'a Path>,
}

impl<'a> Finder<'a> {
    /// Looks under a root, or else where the line table says.
    pub fn new(root: Option<&'a Path>) -> Self {
        Finder { root }
    }

    /// Reads the files that an annotation names, where they are found.
    pub fn fill(&self, annotation: &mut Annotation) {
        annotation.sources = annotation.files.iter().map(|file| self.read(file)).collect();
    }

    /// The text of a file, if it is found: under the root by the longest end of its path, or at its path.
    fn read(&self, name: &str) -> Option<PtxText> {
        let path = Path::new(name);
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        if !EXTENSIONS.contains(&extension.as_str()) {
            return None;
        }
        let found = match self.root {
            Some(root) => ends(path).into_iter().map(|end| root.join(end)).find(|path| path.is_file()),
            None => path.is_file().then(|| path.to_path_buf()),
        }?;
        if std::fs::metadata(&found).ok()?.len() > LARGEST {
            return None;
        }
        let bytes = std::fs::read(found).ok()?;
        Some(PtxText::new(String::from_utf8_lossy(&bytes).into_owned()))
    }
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

    #[test]
    fn the_longest_end_of_a_path_is_found_under_the_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        std::fs::write(folder.path().join("kernels/gemm.cu"), "deep\n").unwrap();
        std::fs::write(folder.path().join("gemm.cu"), "flat\n").unwrap();
        let find = Finder::new(Some(folder.path()));
        assert_eq!(find.read("/elsewhere/kernels/gemm.cu").unwrap().text(), "deep\n");
        assert_eq!(find.read("/other/gemm.cu").unwrap().text(), "flat\n");
        assert!(find.read("/other/absent.cu").is_none());
    }

    #[test]
    fn nothing_outside_the_root_and_nothing_but_source() {
        assert_eq!(ends(Path::new("../../a/b.cu")), [PathBuf::from("a/b.cu"), PathBuf::from("b.cu")]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("passwd"), "x").unwrap();
        assert!(Finder::new(Some(folder.path())).read("passwd").is_none());
    }
}
