//! Which commit is checked out: from what CI says, or from git's files. No program is run, and nothing that a checkout configures is obeyed.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Variables in which CI systems name the commit.
pub const VARIABLES: [&str; 5] = ["PTXINSPECT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"];

/// A file of git that names one thing has no more than this.
const SMALL: u64 = 4096;
/// What is read of the list of packed references at most.
const PACKED: u64 = 64 << 20;
/// How many references may lead to each other.
const STEPS: usize = 5;

/// The commit that a folder, or one above it, has checked out; none where that cannot be told.
pub fn head(folder: &Path) -> Option<String> {
    let start = std::path::absolute(folder).ok()?;
    let git = start.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let git = if git.is_dir() { git } else { linked(&git)? };
    // A worktree has its own HEAD; everything else is the repository's.
    let common = match read(&git.join("commondir"), SMALL) {
        Some(text) => git.join(text.trim()),
        None => git.clone(),
    };
    let mut name = "HEAD".to_owned();
    for _ in 0..STEPS {
        let text = [&git, &common].iter().find_map(|folder| read(&folder.join(&name), SMALL));
        let text = match text {
            Some(text) => text,
            None => return packed(&common, &name),
        };
        match text.trim().strip_prefix("ref:") {
            Some(next) => name = reference(next.trim())?.to_owned(),
            None => return digest(text.trim()),
        }
    }
    None
}

/// Where a `.git` that is a file leads.
fn linked(file: &Path) -> Option<PathBuf> {
    let text = read(file, SMALL)?;
    let to = text.strip_prefix("gitdir:")?.trim();
    Some(file.parent()?.join(to))
}

/// A name below git's folder, and nothing outside of it.
fn reference(name: &str) -> Option<&str> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    (name.starts_with("refs/") && name.split(['/', '\\']).all(is_plain)).then_some(name)
}

/// A commit's digest: SHA-1 or SHA-256.
fn digest(text: &str) -> Option<String> {
    let is_digest = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| text.to_owned())
}

fn packed(folder: &Path, name: &str) -> Option<String> {
    let text = read(&folder.join("packed-refs"), PACKED)?;
    let found = text.lines().filter_map(|line| line.split_once(' ')).find(|(_, other)| *other == name)?;
    digest(found.0)
}

/// A small regular file's text.
fn read(path: &Path, most: u64) -> Option<String> {
    std::fs::metadata(path).ok().filter(|metadata| metadata.is_file() && metadata.len() <= most)?;
    let mut text = String::new();
    File::open(path).ok()?.take(most).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn heads_of_all_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let (root, git) = (folder.path(), folder.path().join(".git"));
        let deep = root.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        let put = |name: &str, text: &str| fs::write(git.join(name), text).unwrap();
        put("HEAD", &format!("{ONE}\n"));
        assert_eq!(head(&deep).as_deref(), Some(ONE));
        put("HEAD", "ref: refs/heads/main\n");
        assert_eq!(head(&deep), None);
        put("packed-refs", &format!("# pack-refs with: peeled\n{ONE} refs/heads/main\n"));
        assert_eq!(head(&deep).as_deref(), Some(ONE));
        put("refs/heads/main", &format!("{}\n", ONE.replace('0', "f")));
        assert_eq!(head(&deep), Some(ONE.replace('0', "f")));
        // A worktree.
        fs::create_dir_all(git.join("worktrees/w")).unwrap();
        put("worktrees/w/HEAD", "ref: refs/heads/main\n");
        put("worktrees/w/commondir", "../..\n");
        fs::write(deep.join(".git"), format!("gitdir: {}\n", git.join("worktrees/w").display())).unwrap();
        assert_eq!(head(&deep), Some(ONE.replace('0', "f")));
    }

    #[test]
    fn nothing_outside_and_nothing_else_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        fs::create_dir_all(&git).unwrap();
        fs::write(folder.path().join("secret"), ONE).unwrap();
        for text in ["ref: refs/../../secret", "ref: ../secret", "ref: HEAD", "secret", "", "ref: refs/heads/.x"] {
            fs::write(git.join("HEAD"), text).unwrap();
            assert_eq!(head(folder.path()), None, "{text}");
        }
        fs::write(git.join("HEAD"), "x".repeat(5000)).unwrap();
        assert_eq!(head(folder.path()), None);
    }
}
