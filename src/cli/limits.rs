//! How much an input may cost: flags and what they decide.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use crate::base::Limits;

/// The most that is done for an input.
#[derive(Clone, Debug, ClapArgs)]
pub struct LimitArgs {
    /// Give up on an input after this many seconds, for each architecture, ptxas included
    #[arg(long, value_name = "SECONDS", default_value = "3600", help_heading = "Limits")]
    pub timeout: f64,
    /// Look at no more than this many files, members and entries of an input
    #[arg(long, value_name = "N", default_value_t = Limits::default().entries, help_heading = "Limits")]
    pub max_entries: u64,
    /// Follow folders and containers inside each other no deeper than this
    #[arg(long, value_name = "N", default_value_t = Limits::default().depth, help_heading = "Limits")]
    pub max_depth: u32,
    /// Read no more than this many bytes of an input whole, and unpack no more of a file: 4G [default: 512M, and 64M + 64 times its size]
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    pub max_bytes: Option<u64>,
    /// Fetch nothing: no ptxas is installed [env: PTXINSPECT_OFFLINE]
    #[arg(long, help_heading = "Compiling")]
    pub offline: bool,
    /// Follow the links in folders, too
    #[arg(long, help_heading = "Limits")]
    pub follow_links: bool,
}

impl Default for LimitArgs {
    fn default() -> LimitArgs {
        let Limits { entries, depth, bytes, time } = Limits::default();
        LimitArgs {
            timeout: time.as_secs_f64(),
            max_entries: entries,
            max_depth: depth,
            max_bytes: bytes,
            offline: false,
            follow_links: false,
        }
    }
}

impl LimitArgs {
    /// What the flags decide.
    pub fn limits(&self) -> Result<Limits> {
        if !(self.timeout.is_finite() && self.timeout > 0.0) {
            bail!("--timeout {} is not a time: expected a number of seconds above 0", self.timeout);
        }
        let time = Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX);
        Ok(Limits { entries: self.max_entries, depth: self.max_depth, bytes: self.max_bytes, time })
    }
}

/// `4096`, `64K`, `512M`, `4G`
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a number of bytes such as 1000000, 512M or 4G, found '{text}'");
    let (number, shift) = match text.trim().to_ascii_uppercase() {
        text if text.ends_with('K') => (text.trim_end_matches('K').to_owned(), 10),
        text if text.ends_with('M') => (text.trim_end_matches('M').to_owned(), 20),
        text if text.ends_with('G') => (text.trim_end_matches('G').to_owned(), 30),
        text => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!((bytes("64k"), bytes("2M"), bytes("4G")), (Ok(64 << 10), Ok(2 << 20), Ok(4 << 30)));
        for wrong in ["", "-1", "1.5G", "99999999999G", "4T"] {
            assert!(bytes(wrong).is_err_and(|error| error.contains("512M")), "{wrong}");
        }
    }

    #[test]
    fn without_flags_the_limits_are_the_usual_ones() {
        assert_eq!(LimitArgs::default().limits().unwrap(), Limits::default());
        assert!(LimitArgs { timeout: 0.0, ..LimitArgs::default() }.limits().is_err());
    }
}
