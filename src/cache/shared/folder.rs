//! A folder that machines share, such as one on NFS.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Failure, Store};
use crate::files::Scratch;

/// What the names of temporary folders begin with.
const TEMPORARY: &str = ".tmp-";

/// A folder with a file for each name. Nothing is ever removed from it.
pub struct Folder {
    folder: PathBuf,
}

impl Folder {
    /// A folder that is there.
    pub fn new(folder: &Path) -> Folder {
        Folder { folder: folder.to_owned() }
    }
}

impl Store for Folder {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        match fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A share that is not mounted is not an empty one.
                if self.folder.is_dir() { Ok(None) } else { Err("there is no such folder".to_owned()) }
            }
            Err(error) => Err(format!("it cannot be read ({})", error.kind())),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| format!("it cannot be written ({})", error.kind());
        if !self.folder.is_dir() {
            return Err("there is no such folder".to_owned());
        }
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder)).map_err(cannot)?;
        // Written beside and renamed: whoever reads sees all of it or nothing.
        let scratch = Scratch::new_in(&self.folder, TEMPORARY).map_err(cannot)?;
        let new = scratch.path().join("new");
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, path)).map_err(cannot)
    }
}
