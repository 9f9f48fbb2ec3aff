//! A file of the cache with any content under a right sum: it is read or is not there, and what was put comes back.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ptxinspect::cache::{Cache, Entry, Key, Made};
use sha2::{Digest, Sha256};

fn only_file(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files = entries.filter_map(|path| if path.is_dir() { only_file(&path) } else { Some(path) });
    files.next()
}

fuzz_target!(|data: &[u8]| {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let cache = Cache::new(folder, None);
    let key = Key::new("digest", &[], "13.4.92");
    let text = String::from_utf8_lossy(data).into_owned();
    let made = match data {
        [0, code, ..] => Made::Refusal { code: i32::from(*code) },
        data => Made::Cubin(data.to_vec()),
    };
    let entry = Entry { ptxas: text.clone(), prepared: vec![text.clone()], took: None, log: text, made };
    cache.put(&key, &entry);
    assert_eq!(cache.get(&key, None).as_ref(), Some(&entry), "what was put comes back");
    let Some(path) = only_file(folder) else { return };
    let mut bytes = fs::read(&path).unwrap();
    let content = bytes.len() - 32;
    for pair in data.chunks_exact(2) {
        let at = usize::from(pair[0]) % content;
        bytes[at] = pair[1];
    }
    let sum = Sha256::digest(&bytes[..content]);
    bytes[content..].copy_from_slice(&sum);
    fs::write(&path, &bytes).unwrap();
    let _ = cache.get(&key, None);
    let _ = fs::remove_file(&path);
});
