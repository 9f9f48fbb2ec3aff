//! Reading what is no regular file: pipes and devices, which may have no end, or nobody at the other one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// How long somebody is waited for who writes to a named pipe.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(5);

/// Reads to the end, which must come within so many bytes.
pub fn read_most(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_much(most));
    }
    Ok(bytes)
}

/// What is said of a file or stream that is larger than may be read whole.
pub fn too_much(most: u64) -> io::Error {
    io::Error::other(format!(
        "it has more than {most} bytes, the most that are read into memory: --max-bytes reads more"
    ))
}

/// Reads a pipe or a device by its path.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    #[cfg(unix)]
    if is_named_pipe(path)? {
        return read_most(Patient::open(path)?, most);
    }
    read_most(File::open(path)?, most)
}

#[cfg(unix)]
fn is_named_pipe(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(std::fs::metadata(path)?.file_type().is_fifo())
}

/// A named pipe. Opening one waits for a writer for ever, so that it is opened without waiting, and then looked at from time to time.
#[cfg(unix)]
struct Patient {
    file: File,
    has_begun: bool,
}

#[cfg(unix)]
impl Patient {
    fn open(path: &Path) -> io::Result<Patient> {
        use rustix::fs::{Mode, OFlags, open};
        let opened = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Patient { file: File::from(opened), has_begun: false })
    }
}

#[cfg(unix)]
impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waited = Duration::ZERO;
        loop {
            match self.file.read(buffer) {
                // Nobody has it open for writing: not any more, or not yet.
                Ok(0) if self.has_begun => return Ok(0),
                Ok(0) if waited >= PATIENCE => {
                    return Err(io::Error::other("it is a pipe that nobody writes to"));
                }
                Ok(0) => waited += PAUSE,
                Ok(count) => {
                    self.has_begun = true;
                    return Ok(count);
                }
                // Somebody has, and writes nothing yet.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_begun = true,
                Err(error) => return Err(error),
            }
            crate::base::work::check_time();
            std::thread::sleep(PAUSE);
        }
    }
}
