//! make's job server: how many compilations may run at once is a matter between all of make's children.
//!
//! Under `make -j` a process may run one job and has to take a token from make's pipe for each further one (POSIX jobserver of GNU
//! make). Only Unix has such pipes; elsewhere, and without make, nothing has to be taken.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The tokens that make hands out.
#[derive(Debug)]
pub struct Jobserver {
    pipe: pipe::Pipe,
    /// Whether the job that every process may run is taken.
    own_taken: Mutex<bool>,
}

/// The right to run one job; given back when it goes away.
#[derive(Debug)]
pub struct Token<'a> {
    server: &'a Jobserver,
    /// The byte that was taken; none for the job that needs none.
    byte: Option<u8>,
}

/// What `MAKEFLAGS` says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Auth {
    Fifo(String),
    Descriptors(u32, u32),
}

impl Auth {
    /// The last `--jobserver-auth` counts; negative numbers mean that make did not hand its pipe on.
    fn parse(makeflags: &str) -> Option<Auth> {
        let value = makeflags.split_whitespace().rev().find_map(|word| {
            word.strip_prefix("--jobserver-auth=").or_else(|| word.strip_prefix("--jobserver-fds="))
        })?;
        if let Some(path) = value.strip_prefix("fifo:") {
            // make names it absolutely; a relative one would be whatever the checkout has there.
            return Path::new(path).is_absolute().then(|| Auth::Fifo(path.to_owned()));
        }
        let (read, write) = value.split_once(',')?;
        Some(Auth::Descriptors(read.parse().ok()?, write.parse().ok()?))
    }
}

impl Jobserver {
    /// The one that `MAKEFLAGS` names, if it is there.
    pub fn of(makeflags: Option<&str>) -> Option<Jobserver> {
        let pipe = pipe::open(&Auth::parse(makeflags?)?)?;
        Some(Jobserver { pipe, own_taken: Mutex::new(false) })
    }

    /// Waits until a job may run.
    pub fn acquire(&self) -> Token<'_> {
        loop {
            {
                let mut taken = self.own_taken.lock().unwrap_or_else(PoisonError::into_inner);
                if !*taken {
                    *taken = true;
                    return Token { server: self, byte: None };
                }
            }
            match self.pipe.take() {
                Some(byte) => return Token { server: self, byte: Some(byte) },
                // Either the own job ends or make has a token again, whichever comes first.
                None => std::thread::sleep(std::time::Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        match self.byte {
            Some(byte) => self.server.pipe.give(byte),
            None => *self.server.own_taken.lock().unwrap_or_else(PoisonError::into_inner) = false,
        }
    }
}

#[cfg(unix)]
mod pipe {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write};
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

    use super::Auth;

    #[derive(Debug)]
    pub(super) struct Pipe {
        read: File,
        write: File,
    }

    pub(super) fn open(auth: &Auth) -> Option<Pipe> {
        let (read, write) = match auth {
            Auth::Fifo(path) => (path.clone(), path.clone()),
            // Opened anew by its name, so that waiting on it is this process's own affair.
            Auth::Descriptors(read, write) => (format!("/dev/fd/{read}"), format!("/dev/fd/{write}")),
        };
        let is_pipe = |path: &str| std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        if !is_pipe(&read) || !is_pipe(&write) {
            return None;
        }
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
        let read = OpenOptions::new().read(true).custom_flags(nonblocking).open(read).ok()?;
        let write = OpenOptions::new().write(true).open(write).ok()?;
        Some(Pipe { read, write })
    }

    impl Pipe {
        pub(super) fn take(&self) -> Option<u8> {
            let mut byte = [0];
            matches!((&self.read).read(&mut byte), Ok(1)).then_some(byte[0])
        }

        pub(super) fn give(&self, byte: u8) {
            let _ = (&self.write).write_all(&[byte]);
        }
    }
}

#[cfg(not(unix))]
mod pipe {
    #[derive(Debug)]
    pub(super) struct Pipe;

    pub(super) fn open(_: &super::Auth) -> Option<Pipe> {
        None
    }

    impl Pipe {
        pub(super) fn take(&self) -> Option<u8> {
            None
        }

        pub(super) fn give(&self, _: u8) {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn makeflags_are_read() {
        assert_eq!(Auth::parse(" -j --jobserver-auth=fifo:/tmp/GMfifo1"), Some(Auth::Fifo("/tmp/GMfifo1".to_owned())));
        assert_eq!(Auth::parse("-j8 --jobserver-auth=3,4"), Some(Auth::Descriptors(3, 4)));
        assert_eq!(Auth::parse("--jobserver-fds=3,4 --jobserver-auth=-2,-2"), None);
        assert_eq!((Auth::parse("-k"), Auth::parse("")), (None, None));
        assert_eq!(Auth::parse("--jobserver-auth=fifo:pipe"), None);
        assert!(Jobserver::of(Some("--jobserver-auth=900,901")).is_none());
    }

    #[test]
    fn one_job_is_free_and_the_others_take_tokens() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"+").unwrap();
        let flags = format!("-j2 --jobserver-auth={},{}", reader.as_raw_fd(), writer.as_raw_fd());
        let server = Jobserver::of(Some(&flags)).unwrap();
        let own = server.acquire();
        let token = server.acquire();
        assert_eq!((own.byte, token.byte), (None, Some(b'+')));
        assert_eq!(server.pipe.take(), None, "there is no third");
        std::thread::scope(|scope| {
            let third = scope.spawn(|| server.acquire().byte);
            drop(token);
            assert_eq!(third.join().unwrap(), Some(b'+'));
        });
        drop(own);
        assert_eq!(server.acquire().byte, None);
    }
}
