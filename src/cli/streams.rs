//! Standard output and standard error, for every command.
//!
//! A reader that leaves (`| head -1`) and a disk that is full are no reason to stop half way: the files that were asked for are
//! still to be written, and the exit status still depends on what was not looked at yet. So a stream that fails takes no more, its
//! writers never see an error, and [`finish`] says at the end what was lost. A reader's leaving is its right and loses nothing.

use std::io::{self, Write};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anstream::AutoStream;
use anyhow::{Context, Result};

/// What became of a stream.
#[derive(Debug, Default)]
pub struct Fate {
    /// Nothing more is written to it.
    ended: AtomicBool,
    /// Why, if it was not its reader that left.
    error: Mutex<Option<io::Error>>,
}

static OUT: Fate = Fate { ended: AtomicBool::new(false), error: Mutex::new(None) };
static ERR: Fate = Fate { ended: AtomicBool::new(false), error: Mutex::new(None) };

impl Fate {
    fn end(&self, error: io::Error) {
        self.ended.store(true, Ordering::Relaxed);
        if error.kind() != io::ErrorKind::BrokenPipe {
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// The error that ended it.
    pub fn take_error(&self) -> io::Result<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}

/// A writer that never fails: what comes after the first error is swallowed.
pub struct Lasting<W, F> {
    inner: W,
    fate: F,
}

impl<W: Write, F: Deref<Target = Fate>> Lasting<W, F> {
    /// Over a writer whose fate is told there.
    pub fn new(inner: W, fate: F) -> Self {
        Lasting { inner, fate }
    }

    fn ended(&self) -> bool {
        self.fate.ended.load(Ordering::Relaxed)
    }
}

impl<W: Write, F: Deref<Target = Fate>> Write for Lasting<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.ended() {
            return Ok(bytes.len());
        }
        match self.inner.write(bytes) {
            Ok(0) if !bytes.is_empty() => self.fate.end(io::ErrorKind::WriteZero.into()),
            Ok(written) => return Ok(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => self.fate.end(error),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.ended() {
            return Ok(());
        }
        match self.inner.flush() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.fate.end(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Standard output as it is.
pub fn raw_stdout() -> Box<dyn Write> {
    Box::new(Lasting::new(io::stdout().lock(), &OUT))
}

/// Standard output, less the colours where they are not wanted.
pub fn stdout() -> AutoStream<Box<dyn Write>> {
    AutoStream::new(raw_stdout(), AutoStream::choice(&io::stdout()))
}

/// Standard error, less the colours where they are not wanted.
pub fn stderr() -> AutoStream<Box<dyn Write>> {
    AutoStream::new(Box::new(Lasting::new(io::stderr().lock(), &ERR)), AutoStream::choice(&io::stderr()))
}

/// Writes out what is still gathered, and says what could not be written: at the end of the program.
pub fn finish() -> Result<()> {
    raw_stdout().flush()?;
    OUT.take_error().context("cannot write to standard output")?;
    ERR.take_error().context("cannot write to standard error")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind, usize);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1 > 1 { Err(self.0.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writers_never_see_an_error_and_only_a_loss_is_told() {
        for (kind, is_lost) in [(io::ErrorKind::BrokenPipe, false), (io::ErrorKind::StorageFull, true)] {
            let fate = Fate::default();
            let mut writer = Lasting::new(Failing(kind, 0), &fate);
            for _ in 0..5 {
                writer.write_all(b"line\n").unwrap();
            }
            writer.flush().unwrap();
            assert_eq!(writer.inner.1, 2, "after the first error nothing more is tried");
            assert_eq!(fate.take_error().is_err(), is_lost);
        }
    }
}
