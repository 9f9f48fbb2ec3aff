//! What was meant by the name of a file that is not there.

use std::fs;
use std::io;
use std::path::Path;

use crate::base::spelling::distance;

/// Names that are looked at.
const LOOKED_AT: usize = 2000;
/// Names that are told where none is near.
const TOLD: usize = 3;

/// Why a file cannot be opened, and what may have been meant.
pub fn why(path: &Path, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound || fs::symlink_metadata(path).is_ok() {
        return error.to_string();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return format!("there is no folder {}", folder.display());
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.contains(['*', '?']) {
        return "there is no such file: no file matches the pattern".to_owned();
    }
    let names = names(folder, |_| true);
    let shown = |name: &String| folder_of(path, name);
    match nearest(&name, &names) {
        Some(known) => format!("there is no such file; did you mean {}?", shown(known)),
        None => {
            let is_code = |name: &&String| [".ptx", ".cubin"].iter().any(|end| name.ends_with(end));
            let code: Vec<String> = names.iter().filter(is_code).take(TOLD).map(shown).collect();
            match code.is_empty() {
                true => "there is no such file".to_owned(),
                false => format!("there is no such file; its folder has {}", code.join(", ")),
            }
        }
    }
}

/// Why a folder cannot be looked into, and what may have been meant.
pub fn why_no_folder(path: &Path, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound || fs::symlink_metadata(path).is_ok() {
        return error.to_string();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let names = names(folder, |entry| entry.path().is_dir());
    match nearest(&name, &names) {
        Some(known) => format!("there is no such folder; did you mean {}?", folder_of(path, known)),
        None => "there is no such folder".to_owned(),
    }
}

/// What is in a folder, sorted, but for what is hidden.
fn names(folder: &Path, is_wanted: impl Fn(&fs::DirEntry) -> bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT).filter_map(Result::ok);
    let names = entries.filter(is_wanted).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// The name that was meant, if one is near: a third of the letters may be wrong.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n String> {
    let near = names.iter().map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), known)).min();
    let letters = name.chars().count();
    near.filter(|(wrong, _)| *wrong <= (letters / 3).max(1) && *wrong < letters).map(|(_, known)| known)
}

/// A name in the folder of a path, as the path spells it.
fn folder_of(path: &Path, name: &str) -> String {
    path.with_file_name(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_of_the_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["spills.ptx", "gemm_hopper.ptx", "notes.txt", ".spilss.ptx"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let told = |name: &str| why(&folder.path().join(name), &io::Error::from(io::ErrorKind::NotFound));
        let here = |name: &str| folder.path().join(name).display().to_string();
        let meant = |name: &str| format!("there is no such file; did you mean {}?", here(name));
        assert_eq!(told("spilss.ptx"), meant("spills.ptx"));
        assert_eq!(told("Spills.ptx"), meant("spills.ptx"));
        assert_eq!(told("spills.ptc"), meant("spills.ptx"));
        assert_eq!(
            told("libfoo.so"),
            format!("there is no such file; its folder has {}, {}", here("gemm_hopper.ptx"), here("spills.ptx"))
        );
        assert!(told("gone/k.ptx").starts_with("there is no folder "));
        assert_eq!(told("part-*.json"), "there is no such file: no file matches the pattern");
        assert_eq!(why(Path::new("/"), &io::Error::other("broken")), "broken");
        fs::create_dir(folder.path().join("kernels")).unwrap();
        let told = |name: &str| why_no_folder(&folder.path().join(name), &io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(told("kernel"), format!("there is no such folder; did you mean {}?", here("kernels")));
        assert_eq!(told("spills"), "there is no such folder", "a file is none");
    }
}
