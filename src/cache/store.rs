//! The folder: reading, writing, keeping it within its bounds.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Key};
use super::shared::Shared;
use crate::files::{Scratch, remove_leftovers};

/// The folder of this version's entries; another version's are left alone.
const VERSION: &str = "v3";
/// What the names of temporary folders begin with.
const TEMPORARY: &str = ".tmp-";
/// How old an entry's time has to be before a read renews it.
const RENEW: Duration = Duration::from_secs(24 * 3600);
/// How much is kept at most, when nobody says.
const LIMIT_BYTES: u64 = 4 << 30;

/// A folder of entries. Any number of processes may use it at once.
#[derive(Debug)]
pub struct Cache {
    pub(super) folder: PathBuf,
    limit_bytes: u64,
    written: AtomicU64,
    shared: Option<Arc<Shared>>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Entries.
    pub entries: u64,
    /// Their size and that of what else is there.
    pub bytes: u64,
    /// How much is kept at most.
    pub limit_bytes: u64,
}

struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Cache {
    /// A cache in a folder, which is made when something is written to it.
    pub fn new(folder: &Path, limit_bytes: Option<u64>) -> Self {
        let limit_bytes = limit_bytes.unwrap_or(LIMIT_BYTES);
        Cache { folder: folder.join(VERSION), limit_bytes, written: AtomicU64::new(0), shared: None }
    }

    /// The same, with a shared store behind it.
    pub fn with_shared(self, shared: Option<Arc<Shared>>) -> Self {
        Cache { shared, ..self }
    }

    /// The store behind it.
    pub fn shared(&self) -> Option<&Shared> {
        self.shared.as_deref()
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &Key) -> PathBuf {
        // 256 folders, so that none gets too long.
        self.folder.join(key.0.get(..2).unwrap_or("00")).join(&key.0)
    }

    /// Where a shared store has an entry.
    fn shared_name(key: &Key) -> String {
        format!("{VERSION}/{}/{}", key.0.get(..2).unwrap_or("00"), key.0)
    }

    /// The entry of a key that this ptxas made; whichever ptxas made it where no identity is given. A damaged entry is none.
    pub fn get(&self, key: &Key, ptxas: Option<&str>) -> Option<Entry> {
        self.get_here(key, ptxas).or_else(|| self.get_shared(key, ptxas))
    }

    /// What the shared store has is verified as what is here is, and kept here.
    fn get_shared(&self, key: &Key, ptxas: Option<&str>) -> Option<Entry> {
        let bytes = self.shared.as_ref()?.get(&Cache::shared_name(key))?;
        let entry = Entry::from_bytes(key, bytes)?;
        if ptxas.is_some_and(|ptxas| entry.ptxas != ptxas) {
            return None;
        }
        self.put_here(key, &entry.to_bytes(key));
        Some(entry)
    }

    fn get_here(&self, key: &Key, ptxas: Option<&str>) -> Option<Entry> {
        remove_leftovers(&self.folder, TEMPORARY);
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let Some(entry) = Entry::from_bytes(key, bytes) else {
            // It would never be whole again, or is another one's.
            let _ = fs::remove_file(&path);
            return None;
        };
        if ptxas.is_some_and(|ptxas| entry.ptxas != ptxas) {
            return None;
        }
        self.renew(&path);
        Some(entry)
    }

    /// Notes that an entry was used, at most once a day.
    fn renew(&self, path: &Path) {
        let Ok(used) = fs::metadata(path).and_then(|metadata| metadata.modified()) else { return };
        if used.elapsed().is_ok_and(|elapsed| elapsed > RENEW)
            && let Ok(file) = File::options().append(true).open(path)
        {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// Keeps an entry. Best effort: a full disk is no reason to fail.
    pub fn put(&self, key: &Key, entry: &Entry) {
        let bytes = entry.to_bytes(key);
        self.put_here(key, &bytes);
        if let Some(shared) = &self.shared {
            shared.put(&Cache::shared_name(key), &bytes);
        }
    }

    fn put_here(&self, key: &Key, bytes: &[u8]) {
        if bytes.len() as u64 > self.limit_bytes / 4 {
            return;
        }
        if self.write(&self.path(key), bytes).is_ok() {
            self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    /// Writes elsewhere and renames: a reader sees all of it or nothing. What a loss of power leaves of it fails its checksum, so
    /// that nothing has to wait for the disk.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let scratch = Scratch::new_in(&self.folder, TEMPORARY)?;
        let new = scratch.path().join("new");
        fs::write(&new, bytes)?;
        fs::rename(&new, path)
    }

    /// Every file that is in its place. A folder that is not there is empty; one that cannot be read is an error.
    fn walk(&self) -> io::Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for folder in list(&self.folder)? {
            if folder.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
                continue;
            }
            for entry in list(&folder.path())? {
                // What is gone meanwhile is another process's tidying.
                let metadata = match entry.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    metadata => metadata?,
                };
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                kept.push(Kept { path: entry.path(), bytes: metadata.len(), used });
            }
        }
        Ok(kept)
    }

    fn entries<'a>(&self, kept: &'a [Kept]) -> impl Iterator<Item = &'a Kept> {
        let tools = self.folder.join(super::tool::FOLDER);
        kept.iter().filter(move |file| !file.path.starts_with(&tools))
    }

    /// What is in it.
    pub fn info(&self) -> io::Result<Info> {
        let kept = self.walk()?;
        let bytes = kept.iter().map(|file| file.bytes).sum();
        Ok(Info { entries: self.entries(&kept).count() as u64, bytes, limit_bytes: self.limit_bytes })
    }

    /// Checks every entry: how many are whole, and which are not or cannot be read.
    pub fn verify(&self) -> io::Result<(u64, Vec<PathBuf>)> {
        let kept = self.walk()?;
        let (mut whole, mut damaged) = (0, Vec::new());
        for file in self.entries(&kept) {
            let key = file.path.file_name().and_then(|name| name.to_str()).map(|name| Key(name.to_owned()));
            match fs::read(&file.path) {
                Ok(bytes) => match key.and_then(|key| Entry::from_bytes(&key, bytes)) {
                    Some(_) => whole += 1,
                    None => damaged.push(file.path.clone()),
                },
                // Somebody else's tidying.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((whole, damaged))
    }

    /// After something was written: what is too much goes, the longest unused first.
    pub fn tidy(&self) {
        if self.written.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        let Ok(mut kept) = self.walk() else { return };
        let mut bytes: u64 = kept.iter().map(|file| file.bytes).sum();
        if bytes <= self.limit_bytes {
            return;
        }
        kept.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        for file in kept {
            // Some room, or the next entry would have to tidy again.
            if bytes <= self.limit_bytes / 10 * 9 {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                bytes = bytes.saturating_sub(file.bytes);
            }
        }
    }

    /// Removes everything; says what there was.
    pub fn clear(&self) -> io::Result<Info> {
        let info = self.info()?;
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(info),
        }
    }
}

/// What is in a folder: nothing, where there is none.
fn list(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Made;
    use super::*;

    fn entry(bytes: usize) -> Entry {
        Entry {
            ptxas: "p".to_owned(),
            prepared: Vec::new(),
            took: None,
            log: "log".to_owned(),
            made: Made::Cubin(vec![7; bytes]),
        }
    }

    fn key(name: &str) -> Key {
        Key::new(name, &[], "1")
    }

    #[test]
    fn what_is_put_is_found_by_its_own_ptxas_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), None);
        assert_eq!(cache.get(&key("a"), None), None);
        cache.put(&key("a"), &entry(10));
        assert_eq!(cache.get(&key("a"), Some("p")), Some(entry(10)));
        assert_eq!(cache.get(&key("a"), Some("q")), None);
        assert_eq!(cache.get(&key("a"), None), Some(entry(10)));
        assert_eq!(cache.info().unwrap().entries, 1);
        assert_eq!(cache.clear().unwrap().entries, 1);
        assert_eq!((cache.get(&key("a"), None), cache.clear().unwrap().entries), (None, 0));
    }

    /// What one machine has made, another finds; what lies there damaged is none, and is replaced.
    #[test]
    fn a_shared_folder_is_asked_after_the_own_one() {
        use super::super::shared::Address;
        let [one, two, store] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let machine = |own: &tempfile::TempDir, read_only| {
            let address = Address::Folder(store.path().to_owned());
            let shared = Shared::new(&address, read_only, Duration::from_secs(1), |_| ()).unwrap();
            Cache::new(own.path(), None).with_shared(Some(Arc::new(shared)))
        };
        machine(&two, true).put(&key("a"), &entry(10));
        assert!(fs::read_dir(store.path()).unwrap().next().is_none(), "a reader writes nothing");
        machine(&two, true).clear().unwrap();
        machine(&one, false).put(&key("a"), &entry(10));
        assert_eq!(machine(&two, true).get(&key("a"), Some("q")), None);
        assert_eq!(machine(&two, true).get(&key("a"), Some("p")), Some(entry(10)));
        let file = store.path().join(Cache::shared_name(&key("a")));
        fs::remove_file(&file).unwrap();
        assert_eq!(machine(&two, true).get(&key("a"), Some("p")), Some(entry(10)), "it is kept");
        machine(&two, true).clear().unwrap();
        for damaged in [&b""[..], b"x", &entry(10).to_bytes(&key("other"))] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(machine(&two, true).get(&key("a"), None), None);
        }
        machine(&one, false).put(&key("a"), &entry(10));
        assert_eq!(machine(&two, true).get(&key("a"), None), Some(entry(10)));
    }

    #[test]
    fn a_damaged_entry_is_none_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), None);
        cache.put(&key("a"), &entry(100));
        let path = cache.path(&key("a"));
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..50]).unwrap();
        assert_eq!(cache.verify().unwrap(), (0, vec![path.clone()]));
        assert_eq!(cache.get(&key("a"), None), None);
        assert!(!path.exists());
    }

    #[test]
    fn another_keys_entry_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), None);
        cache.put(&key("a"), &entry(100));
        cache.put(&key("b"), &entry(200));
        fs::rename(cache.path(&key("a")), cache.path(&key("b"))).unwrap();
        assert_eq!(cache.verify().unwrap(), (0, vec![cache.path(&key("b"))]));
        assert_eq!(cache.get(&key("b"), Some("p")), None, "it is whole, and of another input");
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), Some(100_000));
        for name in ["a", "b", "c", "d"] {
            cache.put(&key(name), &entry(24_000));
        }
        let old = File::options().append(true).open(cache.path(&key("b"))).unwrap();
        old.set_modified(SystemTime::now() - Duration::from_secs(100_000)).unwrap();
        cache.tidy();
        assert_eq!(cache.info().unwrap().entries, 4, "within its bounds nothing goes");
        cache.put(&key("e"), &entry(24_000));
        cache.tidy();
        assert_eq!(cache.get(&key("b"), None), None);
        assert!(cache.info().unwrap().bytes <= 90_000);
        cache.put(&key("huge"), &entry(90_000));
        assert_eq!(cache.get(&key("huge"), None), None, "one entry may not push out all others");
    }
}
