//! Which ptxas it is: a digest of the file, remembered by its place, size and time.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::Cache;
use super::entry::hex;

/// Where digests are remembered, beside the entries' folders.
pub(super) const FOLDER: &str = "tools";

impl Cache {
    /// The SHA-256 of an executable. Reading one takes 20 ms or more, so it is remembered while the file stays as it is.
    pub fn identity(&self, executable: &Path) -> Option<String> {
        let path = fs::canonicalize(executable).ok()?;
        let metadata = fs::metadata(&path).ok()?;
        let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let known = format!("{}\n{}\n{}.{}", path.display(), metadata.len(), time.as_secs(), time.subsec_nanos());
        let place = self.folder.join(FOLDER).join(hex(&Sha256::digest(known.as_bytes())));
        let remembered = fs::read_to_string(&place).ok();
        // The file says what it is about, so that a cut-off one is seen.
        if let Some((digest, about)) = remembered.as_deref().and_then(|text| text.split_once('\n'))
            && about == known
            && digest.len() == 64
        {
            return Some(digest.to_owned());
        }
        let digest = hex(&Sha256::digest(fs::read(&path).ok()?));
        let _ = self.write(&place, format!("{digest}\n{known}").as_bytes());
        Some(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("cache"), None);
        let tool = folder.path().join("ptxas");
        fs::write(&tool, "one").unwrap();
        let first = cache.identity(&tool).unwrap();
        assert_eq!(cache.identity(&tool).as_deref(), Some(&*first));
        fs::write(&tool, "three").unwrap();
        assert_ne!(cache.identity(&tool).unwrap(), first);
        assert_eq!(cache.identity(&folder.path().join("none")), None);
    }
}
