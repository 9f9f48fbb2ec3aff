//! The files that a pattern of the policy names.
//!
//! `**` does not follow links to folders: in a checkout one may lead to `/`, and two that lead to `.` make more paths than anybody
//! can walk.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use glob::Pattern;

/// One part of a pattern between slashes.
enum Part {
    /// `kernels`, `..`
    Literal(String),
    /// `*.ptx`
    Wild(Pattern),
    /// `**`: any number of folders.
    Folders,
}

/// What there is below `base` that fits a pattern, folders included, sorted by name.
pub fn matching(pattern: &str, base: &Path) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for part in Path::new(pattern).components().filter(|part| *part != Component::CurDir) {
        let text = part.as_os_str().to_string_lossy().into_owned();
        parts.push(match text.as_str() {
            "**" => Part::Folders,
            _ if text.contains(['*', '?', '[']) => {
                Part::Wild(Pattern::new(&text).with_context(|| format!("'{pattern}' in inputs is not a pattern"))?)
            }
            _ => Part::Literal(text),
        });
    }
    // Part by part for all paths at once: each folder is read once for a part, however many ways `**` has to reach it.
    let mut paths = BTreeSet::from([base.to_owned()]);
    for part in &parts {
        paths = step(&paths, part).with_context(|| format!("'{pattern}' in inputs"))?;
    }
    Ok(paths.into_iter().collect())
}

/// Where one part of a pattern leads.
fn step(paths: &BTreeSet<PathBuf>, part: &Part) -> Result<BTreeSet<PathBuf>> {
    let mut reached = BTreeSet::new();
    match part {
        Part::Literal(name) => {
            reached.extend(paths.iter().map(|path| path.join(name)).filter(|path| path.exists()));
        }
        Part::Wild(pattern) => {
            for path in paths {
                let fits = |(name, path, _): &(String, PathBuf, bool)| pattern.matches(name) && path.exists();
                reached.extend(entries(path)?.into_iter().filter(fits).map(|(_, path, _)| path));
            }
        }
        Part::Folders => {
            let mut folders: Vec<PathBuf> = paths.iter().filter(|path| path.is_dir()).cloned().collect();
            while let Some(folder) = folders.pop() {
                if reached.insert(folder.clone()) {
                    let below = entries(&folder)?.into_iter().filter(|(_, _, is_folder)| *is_folder);
                    folders.extend(below.map(|(_, path, _)| path));
                }
            }
        }
    }
    Ok(reached)
}

/// Name, path, and whether it is a folder and no link to one; nothing where the path is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf, bool)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let cannot = || format!("cannot read {}", folder.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let is_folder = entry.file_type().with_context(cannot)?.is_dir();
        all.push((entry.file_name().to_string_lossy().into_owned(), entry.path(), is_folder));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_matched_part_by_part() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for path in ["k/a.ptx", "k/b.cubin", "k/deep/er/c.ptx", "top.ptx"] {
            std::fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            std::fs::write(base.join(path), "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = matching(pattern, base).unwrap();
            found.iter().map(|path| path.strip_prefix(base).unwrap().display().to_string()).collect()
        };
        assert_eq!(names("k/*.ptx"), ["k/a.ptx"]);
        assert_eq!(names("**/*.ptx"), ["k/a.ptx", "k/deep/er/c.ptx", "top.ptx"]);
        assert_eq!(names("k/**/c.ptx"), ["k/deep/er/c.ptx"]);
        assert_eq!(names("./k/[ab].*"), ["k/a.ptx", "k/b.cubin"]);
        assert_eq!(names("k"), ["k"]);
        assert!(names("k/a.ptx/*").is_empty() && names("none/*").is_empty());
        assert!(matching("k/[", base).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_to_folders_are_not_walked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.ptx"), "").unwrap();
        for name in ["x", "y", "z"] {
            std::os::unix::fs::symlink(".", folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        assert_eq!(matching("**/*.ptx", folder.path()).unwrap(), [folder.path().join("a.ptx")]);
    }
}
