//! A file that takes its place in one step.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{HIDDEN_PREFIX, Scratch};

/// How many links lead to a file at most.
const LINKS: usize = 40;

/// A file that is written beside its place. Whatever fails, and whenever the process ends, its place holds what was there before or
/// all of what is new.
#[derive(Debug)]
pub struct NewFile {
    // Closed before the folder around it is removed.
    file: File,
    path: PathBuf,
    place: PathBuf,
    _folder: Scratch,
}

impl NewFile {
    /// A file that will be at `place`; where that is a link, at its end.
    pub fn for_place(place: &Path) -> io::Result<NewFile> {
        let place = target(place)?;
        let folder = Scratch::new_in(parent(&place), HIDDEN_PREFIX)?;
        let path = folder.path().join("new");
        // With the mode that a shell's redirection would give: the umask decides.
        let file = File::create_new(&path)?;
        Ok(NewFile { file, path, place, _folder: folder })
    }

    /// To write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its place: as readable as the one that was there. What it holds is on the disk before its name is, so
    /// that no loss of power leaves an empty file under the name.
    pub fn commit(self) -> io::Result<()> {
        match fs::metadata(&self.place) {
            Ok(before) => keep_mode(&self.path, &before)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.file.sync_all()?;
        fs::rename(&self.path, &self.place)?;
        sync_folder(parent(&self.place))
    }
}

/// The folder that a path is in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a path names what is open under a number, as `/dev/stdout` does in the end: nothing that could be replaced.
pub fn is_descriptor(path: &Path) -> bool {
    cfg!(unix) && ["/proc", "/dev/fd"].iter().any(|folder| path.starts_with(folder))
}

/// The file that a path means, whether it is there or not: links are followed.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if is_descriptor(&path) {
            break;
        }
        match fs::read_link(&path) {
            Ok(next) => path = parent(&path).join(next),
            // No link, or nothing at all.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}

/// Gives a new file the mode of the one that it will replace and, where it may be given away, the owner.
#[cfg(unix)]
pub fn keep_mode(path: &Path, before: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let now = fs::metadata(path)?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        // Only root may; for everybody else the new file is their own.
        let _ = std::os::unix::fs::chown(path, Some(before.uid()), Some(before.gid()));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(before.permissions().mode() & 0o777))
}

/// Gives a new file the mode of the one that it will replace.
#[cfg(not(unix))]
pub fn keep_mode(_: &Path, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Puts the names of a folder on the disk, where the system can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Folders that can be written but not read, and file systems that cannot: the file itself is whole.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(place: &Path, text: &str) {
        let new = NewFile::for_place(place).unwrap();
        new.file().write_all(text.as_bytes()).unwrap();
        new.commit().unwrap();
    }

    #[test]
    fn modes_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, "new");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let (plain, ours) = (folder.path().join("plain"), folder.path().join("ours"));
        fs::write(&plain, "").unwrap();
        write(&ours, "x");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain), "the umask decides");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        fs::write(&place, "old").unwrap();
        let new = NewFile::for_place(&place).unwrap();
        new.file().write_all(b"half").unwrap();
        drop(new);
        assert_eq!(fs::read_to_string(&place).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
