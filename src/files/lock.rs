//! One at a time.

use std::fs::File;
use std::io;
use std::path::Path;

/// Waits until nobody else holds the folder, and holds it until the value goes away. The lock is on the folder itself: nothing
/// is left behind, whatever ends the process. None where the system has no such locks (Windows, some network file systems).
pub fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let file = File::open(folder)?;
    loop {
        match file.lock() {
            Ok(()) => return Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if has_no_locks(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// NFS wants a file that is open for writing, which a folder cannot be (EBADF); others know no locks at all.
fn has_no_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_refused = error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error());
    #[cfg(not(unix))]
    let is_refused = false;
    error.kind() == io::ErrorKind::Unsupported || is_refused
}
