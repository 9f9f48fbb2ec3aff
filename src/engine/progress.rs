//! Who is told how far the work is.

use crate::toolchain::managed;

/// A listener. The engine draws nothing.
pub trait Progress: Sync {
    /// Whether anybody looks: to know how much is ahead may cost time.
    fn is_shown(&self) -> bool;
    /// So much there is in all.
    fn expect(&self, total: u64);
    /// So much more is done.
    fn advance(&self, done: u64);
}

/// Nobody is told.
pub struct Silent;

impl Progress for Silent {
    fn is_shown(&self) -> bool {
        false
    }

    fn expect(&self, _: u64) {}

    fn advance(&self, _: u64) {}
}

/// Makes the listener to an installation of ptxas.
pub type Installing = fn() -> Box<dyn Fn(&managed::Progress)>;

/// Nobody is told of an installation.
pub fn install_silently() -> Box<dyn Fn(&managed::Progress)> {
    Box::new(|_| {})
}
