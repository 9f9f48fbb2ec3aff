//! Temporary folders: gone with their value, with the program, or with the next program.
//!
//! The owner of a folder holds a lock on it, which the system takes away when the owner ends, however it ends. Whoever gets the
//! lock of somebody else's folder knows that it is a leftover. No process id is looked at: those of another container mean
//! nothing here.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// How many characters of a name are drawn by lot.
const RANDOM: usize = 6;
/// How often a new folder may be taken for a leftover, between its making and its locking.
const ATTEMPTS: usize = 16;

/// A temporary folder that goes away with this value, or when a signal ends the program.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: Option<TempDir>,
    /// Held as long as the folder is used.
    lock: Option<File>,
}

/// What has to go if this process is told to end.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Where leftovers were looked for, and by which beginning of the name.
static SWEPT: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scratch {
    /// A new folder in `parent`, its name beginning with `prefix`. The first one of a place also removes there what processes
    /// that were killed have left.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        remove_leftovers(parent, prefix);
        for _ in 0..ATTEMPTS {
            // A signal that comes meanwhile waits until the folder is known.
            let mut live = lock(&LIVE);
            let folder = tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM).tempdir_in(parent)?;
            let path = folder.path().to_owned();
            let Owned::Mine(lock) = own(&path) else { continue };
            live.insert(path.clone());
            return Ok(Scratch { path, folder: Some(folder), lock });
        }
        Err(io::Error::other("new folders are taken away at once"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take()
            && folder.close().is_err()
        {
            // Once more; after that it is for whoever comes next.
            let _ = fs::remove_dir_all(&self.path);
        }
        drop(self.lock.take());
        lock(&LIVE).remove(&self.path);
    }
}

/// Removes what processes that were killed have left in a place, the first time that it is asked for.
pub fn remove_leftovers(parent: &Path, prefix: &str) {
    if lock(&SWEPT).insert((parent.to_owned(), prefix.to_owned())) {
        sweep(parent, prefix);
    }
}

/// Removes every folder that is in use. Until what is returned goes away no new one is made.
pub fn remove_all() -> impl Sized {
    let live = lock(&LIVE);
    for folder in live.iter() {
        // A process that is just dying may still make a file: once more.
        let _ = fs::remove_dir_all(folder).or_else(|_| fs::remove_dir_all(folder));
    }
    live
}

/// Whose a folder is.
enum Owned {
    /// This process's, with the lock; without one where there are none.
    Mine(Option<File>),
    /// Somebody else's, or nobody's: it is gone.
    Other,
}

/// Takes a folder as one's own.
fn own(path: &Path) -> Owned {
    if cfg!(not(unix)) {
        return Owned::Mine(None);
    }
    let Ok(file) = File::open(path) else {
        return if path.exists() { Owned::Mine(None) } else { Owned::Other };
    };
    match file.try_lock() {
        // It may have been removed between the opening and the locking.
        Ok(()) if is_at(&file, path) => Owned::Mine(Some(file)),
        Ok(()) | Err(TryLockError::WouldBlock) => Owned::Other,
        Err(TryLockError::Error(_)) => Owned::Mine(None),
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata().map(identity), fs::symlink_metadata(path).map(identity)) {
        (Ok(open), Ok(named)) => open == named,
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Removes the folders of that beginning whose owner is gone. Best effort: what cannot be removed now is tried again next time.
fn sweep(parent: &Path, prefix: &str) {
    if cfg!(not(unix)) {
        return;
    }
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let drawn = name.to_str().and_then(|name| name.strip_prefix(prefix));
        if !drawn.is_some_and(|drawn| drawn.len() == RANDOM && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            continue;
        }
        // No links, and nobody else's: a folder for temporary files belongs to everybody.
        if !entry.metadata().is_ok_and(|metadata| metadata.is_dir() && is_ours(&metadata)) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(unix)]
fn is_ours(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_ours(_: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_is_used_stays() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        for name in ["p-abc123", "p-short", "p-abc123long", "other-abc123"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "x").unwrap();
        }
        fs::write(at("p-plain1"), "a file").unwrap();
        std::os::unix::fs::symlink(at("other-abc123"), at("p-link12")).unwrap();
        fs::create_dir(at("p-used12")).unwrap();
        let used = File::open(at("p-used12")).unwrap();
        used.lock().unwrap();
        let scratch = Scratch::new_in(parent.path(), "p-").unwrap();
        assert!(!at("p-abc123").exists(), "its owner is gone");
        for name in ["p-short", "p-abc123long", "other-abc123/file", "p-plain1", "p-link12", "p-used12"] {
            assert!(at(name).exists(), "{name}");
        }
        let path = scratch.path().to_owned();
        sweep(parent.path(), "p-");
        assert!(path.exists(), "it is in use");
        drop(scratch);
        assert!(!path.exists());
    }

    /// Makers and sweepers at once: nobody's folder is taken from under them.
    #[test]
    fn a_folder_in_use_is_never_swept() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| sweep(parent.path(), "p-")));
                scope.spawn(|| {
                    for _ in 0..100 {
                        let scratch = Scratch::new_in(parent.path(), "p-").unwrap();
                        fs::write(scratch.path().join("file"), "x").unwrap();
                        std::thread::yield_now();
                        assert_eq!(fs::read(scratch.path().join("file")).unwrap(), b"x");
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
